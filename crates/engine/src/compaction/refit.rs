//! Lists the files of a level in another level, without rewriting them.

use crate::core::{Family, Lsm};
use crate::version::{LevelTargets, Version, VersionEdit};
use spanlith_base::{Error, Result};
use std::sync::Arc;

/// A move of all files of a level.
pub(super) struct Refit<'a> {
    lsm: &'a Lsm,
    family: &'a Arc<Family>,
    level: usize,
    /// Where they go; `None` is the highest level they fit into.
    target: Option<usize>,
}

/// Files that nobody else compacts or deletes until they are moved.
struct Claimed {
    version: Arc<Version>,
    to: usize,
}

impl<'a> Refit<'a> {
    pub(super) fn new(
        lsm: &'a Lsm,
        family: &'a Arc<Family>,
        level: usize,
        target: Option<usize>,
    ) -> Self {
        Self {
            lsm,
            family,
            level,
            target,
        }
    }

    /// Moves the files. Requires: background work is paused. Waits for whoever is about to delete files of the level.
    ///
    /// # Errors
    /// `NotSupported` if levels between are not empty.
    pub(super) fn run(self) -> Result<()> {
        let Some(claimed) = self.claim()? else {
            return Ok(());
        };
        let edit = move_edit(&claimed.version, self.level, claimed.to);
        let moved = self.lsm.log_and_apply(self.family, edit, |_| {});
        self.release(&claimed);
        Ok(moved?)
    }

    /// Waits until the files are free, and claims them; `None` if they are where they belong.
    fn claim(&self) -> Result<Option<Claimed>> {
        let (lsm, level) = (self.lsm, self.level);
        let mut state = lsm.state.lock();
        let (version, to) = loop {
            if state.jobs.is_ingesting() {
                state = lsm.wait_changed(state);
                continue;
            }
            let f = state.alive(self.family.id)?;
            let version = f.version.clone();
            if self.target.is_some_and(|t| t >= version.num_levels()) {
                return Err(Error::invalid_argument(
                    "Target level exceeds number of levels",
                ));
            }
            let max_bytes = LevelTargets::compute(&version, &f.settings.levels).max_bytes;
            if state.jobs.is_refitting() {
                return Err(Error::not_supported("another thread is refitting"));
            }
            let to = self
                .target
                .unwrap_or_else(|| highest_fit(&version, &max_bytes, level));
            if to == level {
                return Ok(None);
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
            state = lsm.wait_changed(state);
        };
        // Deletions of files leave these alone now: neither edit would apply after the other.
        let held = version.files(level).iter();
        held.for_each(|f| f.set_being_compacted(true));
        state.jobs.set_refitting(true);
        Ok(Some(Claimed { version, to }))
    }

    /// Gives the files back, moved or not.
    fn release(&self, claimed: &Claimed) {
        let Claimed { version, to } = claimed;
        let lsm = self.lsm;
        let mut state = lsm.state.lock();
        state.jobs.set_refitting(false);
        // Where files are described anew, the flag is in both descriptions.
        let now = state.family(self.family.id).map(|f| f.version.clone());
        let described = now.iter().flat_map(|now| now.files(*to));
        let moved_files = described.filter(|f| version.locate(f.number).is_some());
        let held = version.files(self.level).iter();
        held.chain(moved_files)
            .for_each(|f| f.set_being_compacted(false));
        // The compactions that are due were judged without them.
        lsm.install_superversion(&mut state, self.family.id);
        drop(state);
        lsm.state.notify_all();
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
    use super::*;
    use crate::Db;
    use spanlith_env::{Env, Executor, FaultFs, FaultRule, JobClass, MemFs, OpClass};
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
        let refit = |level, to| Refit::new(db.engine(), &family, level, Some(to)).run();
        refit(6, 2).unwrap();
        assert_eq!(executor.pending(), 0, "it did not wait");
        assert!(held_while_logged.load(Ordering::Relaxed) > 0);
        let moved = version().files(2)[0].clone();
        assert!(!moved.is_being_compacted());
        refit(2, 5).unwrap();
        assert_eq!(version().num_files(5), 1);
    }
}
