//! Says whether more than one compaction may run: RocksDB's rule.

use crate::condition::signed;

/// Describes what decides whether more than one compaction may run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpeedUpInput {
    /// Files in level 0.
    pub l0_files: usize,
    /// Files in level 0 that make it due.
    pub level0_file_num_compaction_trigger: i32,
    /// Files in level 0 that delay writes.
    pub level0_slowdown_writes_trigger: i32,
    /// Debt of the tree.
    pub pending_compaction_bytes: u64,
    /// Debt that delays writes; 0: never.
    pub soft_pending_compaction_bytes_limit: u64,
    /// Bytes of the bottommost files.
    pub bottommost_bytes: u64,
    /// Target of the base level.
    pub max_bytes_for_level_base: u64,
    /// Files whose writer asked for compaction.
    pub marked_files: usize,
}

/// Marked files from which on a second compaction helps.
const MARKED_FILES_FOR_SPEED_UP: usize = 2;

/// Returns whether compaction falls behind, before writes have to be delayed.
pub fn wants_speed_up(input: &SpeedUpInput) -> bool {
    let trigger = i64::from(input.level0_file_num_compaction_trigger);
    let slowdown = i64::from(input.level0_slowdown_writes_trigger);
    let enough_files = (trigger * 2).min(trigger + (slowdown - trigger) / 4);
    if trigger >= 0 && signed(input.l0_files) >= enough_files {
        return true;
    }
    let soft = input.soft_pending_compaction_bytes_limit;
    if soft > 0 && input.pending_compaction_bytes >= debt_for_speed_up(input) {
        return true;
    }
    input.marked_files >= MARKED_FILES_FOR_SPEED_UP
}

/// Debt that is large compared with the data at rest, or a quarter of what delays writes.
fn debt_for_speed_up(input: &SpeedUpInput) -> u64 {
    let quarter = input.soft_pending_compaction_bytes_limit / 4;
    if input.bottommost_bytes == 0 {
        return quarter;
    }
    let of_data = input.bottommost_bytes / 8;
    let full_base_compaction = input.max_bytes_for_level_base.saturating_mul(2);
    of_data.max(full_base_compaction).min(quarter)
}
