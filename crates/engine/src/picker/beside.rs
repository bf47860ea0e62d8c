//! A merge within level 0 beside the compaction that takes older files out of it.
//!
//! The files that come while such a compaction runs become few by it. The next one out of level 0 then takes in more at once, and
//! the base level is rewritten less often for each byte. A file is made of the newest ones without a gap, none of which is in
//! another plan, so that all that stays in level 0 is older than what it holds (V1).

use super::inputs::{PickerInput, Picking, RunningCompaction};
use super::leveled::MIN_INTRA_L0_FILES;
use super::plan::CompactionPlan;
use crate::options::CompactionStyle;
use crate::version::{LevelOptions, Version};

/// A merge of the newest files of level 0. `None` unless a compaction takes files out of it, where something is merged within
/// it already, and where too few files came meanwhile.
pub fn pick_beside(input: &PickerInput<'_>) -> Option<CompactionPlan> {
    if !leaves_room_beside(input.version, input.options, input.running) {
        return None;
    }
    let picking = Picking::new(input);
    let score = picking.targets.scores.iter().find(|s| s.0 == 0);
    let files = picking.intra_level0()?;
    picking.finish_level0(files, score.map_or(0.0, |s| s.1))
}

/// Returns whether [`pick_beside`] would look for something to do. Costs little.
pub fn leaves_room_beside(
    version: &Version,
    options: &LevelOptions,
    running: &[RunningCompaction],
) -> bool {
    let level0 = || running.iter().filter(|r| r.input_levels.contains(&0));
    let files = version.files(0).iter();
    let free = files.take_while(|f| !f.is_being_compacted());
    options.style == CompactionStyle::Level
        && level0().next().is_some()
        && level0().all(|r| r.output_level > 0)
        && free.count() >= MIN_INTRA_L0_FILES
}
