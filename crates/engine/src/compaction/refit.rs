//! Lists the files of a level in another level, without rewriting them.

use crate::core::{Engine, Family};
use crate::version::{LevelTargets, Version, VersionEdit};
use spanlith_base::{Error, Result};
use std::sync::Arc;

impl Engine {
    /// Moves the files of `level` to `target`, or without one to the highest level they fit into.
    /// Requires: background work is paused.
    ///
    /// # Errors
    /// `NotSupported` if levels between are not empty.
    pub(super) fn refit_level(
        self: &Arc<Self>,
        family: &Arc<Family>,
        level: usize,
        target: Option<usize>,
    ) -> Result<()> {
        let edit = {
            let mut state = self.state.lock();
            let f = state.alive(family.id)?;
            let version = f.version.clone();
            if target.is_some_and(|t| t >= version.num_levels()) {
                return Err(Error::invalid_argument(
                    "Target level exceeds number of levels",
                ));
            }
            let max_bytes = LevelTargets::compute(&version, &f.settings.levels).max_bytes;
            if state.refitting {
                return Err(Error::not_supported("another thread is refitting"));
            }
            let to = target.unwrap_or_else(|| highest_fit(&version, &max_bytes, level));
            if to == level {
                return Ok(());
            }
            check(&version, level, to)?;
            state.refitting = true;
            move_edit(&version, level, to)
        };
        let moved = self.log_and_apply(family, edit, |_| {});
        self.state.lock().refitting = false;
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
