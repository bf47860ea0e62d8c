//! When writes are delayed or stopped: RocksDB's rules, from the state of one family.

/// Why writes are delayed or stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StallCause {
    /// Too many memtables wait for flush.
    MemtableLimit,
    /// Too many files in level 0.
    L0FileCountLimit,
    /// Too much debt.
    PendingCompactionBytes,
}

/// Describes what happens to writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StallCondition {
    /// They go on at full speed.
    Normal,
    /// They are slowed down.
    Delayed(StallCause),
    /// They wait.
    Stopped(StallCause),
}

impl StallCondition {
    /// 0 for none, 1 for delayed, 2 for stopped.
    pub fn severity(self) -> u8 {
        match self {
            Self::Normal => 0,
            Self::Delayed(_) => 1,
            Self::Stopped(_) => 2,
        }
    }
}

/// State and limits of a family that decide about stalls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StallInput {
    /// Sealed memtables not yet flushed.
    pub immutable_count: usize,
    /// Memtables that stop writes.
    pub max_write_buffer_number: i32,
    /// Memtables a flush takes at least.
    pub min_write_buffer_number_to_merge: i32,
    /// Files in level 0.
    pub l0_files: usize,
    /// Files in level 0 that delay writes; negative: never.
    pub level0_slowdown_writes_trigger: i32,
    /// Files in level 0 that stop writes.
    pub level0_stop_writes_trigger: i32,
    /// Debt of the tree.
    pub pending_compaction_bytes: u64,
    /// Debt that delays writes; 0: never.
    pub soft_pending_compaction_bytes_limit: u64,
    /// Debt that stops writes; 0: never.
    pub hard_pending_compaction_bytes_limit: u64,
    /// Nothing is compacted by itself: only memtables count.
    pub disable_auto_compactions: bool,
}

/// The first rule that holds.
pub fn stall_condition(input: &StallInput) -> StallCondition {
    use StallCause::{L0FileCountLimit, MemtableLimit, PendingCompactionBytes};
    let memtables = signed(input.immutable_count);
    let files = signed(input.l0_files);
    let max = i64::from(input.max_write_buffer_number);
    let merge = i64::from(input.min_write_buffer_number_to_merge);
    let slowdown = i64::from(input.level0_slowdown_writes_trigger);
    let debt = input.pending_compaction_bytes;
    let tree_counts = !input.disable_auto_compactions;
    let reaches = |limit: u64| limit > 0 && debt >= limit;

    if memtables >= max {
        StallCondition::Stopped(MemtableLimit)
    } else if tree_counts && files >= i64::from(input.level0_stop_writes_trigger) {
        StallCondition::Stopped(L0FileCountLimit)
    } else if tree_counts && reaches(input.hard_pending_compaction_bytes_limit) {
        StallCondition::Stopped(PendingCompactionBytes)
    } else if max > 3 && memtables >= max - 1 && memtables > merge {
        StallCondition::Delayed(MemtableLimit)
    } else if tree_counts && slowdown >= 0 && files >= slowdown {
        StallCondition::Delayed(L0FileCountLimit)
    } else if tree_counts && reaches(input.soft_pending_compaction_bytes_limit) {
        StallCondition::Delayed(PendingCompactionBytes)
    } else {
        StallCondition::Normal
    }
}

pub(crate) fn signed(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
