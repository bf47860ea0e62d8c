//! Lists the files of a level in another level, without rewriting them.

use crate::core::{Engine, Family};
use crate::version::{LevelTargets, Version, VersionEdit};
use spanlith_base::{Error, Result};
use std::sync::Arc;

impl Engine {
    /// Moves the files of `level` to `target`, or without one to the highest level they fit into.
    /// Requires: background work is paused. Waits for whoever is about to delete files of `level`.
    ///
    /// # Errors
    /// `NotSupported` if levels between are not empty.
    pub(super) fn refit_level(
        self: &Arc<Self>,
        family: &Arc<Family>,
        level: usize,
        target: Option<usize>,
    ) -> Result<()> {
        let mut state = self.state.lock();
        let (version, to) = loop {
            if state.jobs.is_ingesting() {
                state = self.wait_changed(state);
                continue;
            }
            let f = state.alive(family.id)?;
            let version = f.version.clone();
            if target.is_some_and(|t| t >= version.num_levels()) {
                return Err(Error::invalid_argument(
                    "Target level exceeds number of levels",
                ));
            }
            let max_bytes = LevelTargets::compute(&version, &f.settings.levels).max_bytes;
            if state.jobs.is_refitting() {
                return Err(Error::not_supported("another thread is refitting"));
            }
            let to = target.unwrap_or_else(|| highest_fit(&version, &max_bytes, level));
            if to == level {
                return Ok(());
            }
            check(&version, level, to)?;
            let busy = version.files(level).iter();
            let mut busy = busy.filter(|f| f.is_being_compacted()).peekable();
            if busy.peek().is_none() {
                break (version, to);
            }
            if state.ends() {
                return Err(Error::shutdown(""));
            }
            if busy.any(|f| state.trouble.is_quarantined(f))
                && let Some(e) = state.trouble.quarantined()
            {
                return Err(e);
            }
            state = self.wait_changed(state);
        };
        // Whoever deletes files leaves these alone now: neither edit would apply after the other.
        let held = version.files(level);
        held.iter().for_each(|f| f.set_being_compacted(true));
        let edit = move_edit(&version, level, to);
        state.jobs.set_refitting(true);
        drop(state);
        let moved = self.log_and_apply(family, edit, |_| {});
        let mut state = self.state.lock();
        state.jobs.set_refitting(false);
        // Where files are described anew, the flag is in both descriptions.
        let now = state.family(family.id).map(|f| f.version.clone());
        let described = now.iter().flat_map(|now| now.files(to));
        let moved_files = described.filter(|f| version.locate(f.number).is_some());
        held.iter()
            .chain(moved_files)
            .for_each(|f| f.set_being_compacted(false));
        // What is due was told without them.
        self.install_superversion(&mut state, family.id);
        drop(state);
        self.state.notify_all();
        Ok(moved?)
    }
}

/// The highest level that is empty, as are those between, and may hold what is in `level`.
fn highest_fit(version: &Version, max_bytes: &[u64], level: usize) -> usize {
    let bytes = version.level_bytes(level);
    (1..level)
        .rev()
        .take_while(|&l| {
            version.num_files(l) == 0 && max_bytes.get(l).is_some_and(|&max| max >= bytes)
        })
        .last()
        .unwrap_or(level)
}

fn check(version: &Version, level: usize, to: usize) -> Result<()> {
    if level == 0 {
        return Err(Error::not_supported(
            "Cannot change from level 0 to other levels.",
        ));
    }
    if to == 0 && version.num_files(level) > 1 {
        return Err(Error::aborted(
            "Moving more than 1 file from non-L0 to L0 is not allowed as it does not bring any \
             benefit to read nor write throughput.",
        ));
    }
    let mut between = if to > level {
        level + 1..to + 1
    } else {
        to..level
    };
    if between.any(|l| version.num_files(l) > 0) {
        return Err(Error::not_supported(
            "Levels between source and target are not empty for a move.",
        ));
    }
    Ok(())
}

fn move_edit(version: &Version, level: usize, to: usize) -> VersionEdit {
    let mut edit = VersionEdit::default();
    for f in version.files(level) {
        edit.deleted_files.push((level as u32, f.number));
        edit.new_files.push(f.to_new_file(to as u32));
    }
    edit
}

#[cfg(test)]
mod tests {
    use crate::Db;
    use spanlith_env::{Env, Executor, FaultFs, FaultRule, JobClass, MemFs, OpClass};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// A deletion of files beside it failed with `Cannot delete table file #n from level 6 since it is on
    /// level 2`, or the refit did.
    #[test]
    fn a_refit_waits_for_who_holds_the_files_and_holds_them_itself() {
        let fs = FaultFs::new(Arc::new(MemFs::new()));
        let (env, executor, _) = Env::test(Arc::new(fs.clone()), 1);
        let db = Db::builder("/db").create_if_missing(true).env(env);
        let db = db.no_info_log().open().unwrap();
        db.default_cf().put("k", "v").unwrap();
        db.default_cf().compact_range(None, None).unwrap();
        let family = db.engine().families.default().clone();
        let version = || family.superversion.load().version.clone();
        let file = version().files(6)[0].clone();
        // As one who deletes files, until this job.
        file.set_being_compacted(true);
        let held = file.clone();
        let job = Box::new(move || held.set_being_compacted(false));
        executor.spawn(JobClass::Low, job);
        let held_while_logged = Arc::new(AtomicUsize::new(0));
        let seen = held_while_logged.clone();
        let looks = FaultRule::fail(OpClass::Append, u64::MAX, 5);
        fs.add(looks.when(move |path| {
            if path.to_string_lossy().contains("MANIFEST") {
                seen.fetch_add(usize::from(file.is_being_compacted()), Ordering::Relaxed);
            }
            false
        }));
        db.pause_background_work().unwrap();
        db.engine().refit_level(&family, 6, Some(2)).unwrap();
        assert_eq!(executor.pending(), 0, "it did not wait");
        assert!(held_while_logged.load(Ordering::Relaxed) > 0);
        let moved = version().files(2)[0].clone();
        assert!(!moved.is_being_compacted());
        db.engine().refit_level(&family, 2, Some(5)).unwrap();
        assert_eq!(version().num_files(5), 1);
    }
}
