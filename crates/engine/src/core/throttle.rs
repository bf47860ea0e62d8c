//! When writes are delayed or stopped, and how long a delayed write waits. RocksDB's policy.
//!
//! Flush and compaction limit how fast data can be taken in. When sealed memtables, files of level 0
//! or the debt of the tree pile up, writes are first delayed to a rate, then stopped.
//!
//! - [`stall_condition`] decides which, from the state of one family.
//! - [`DelayController`] keeps the rate: it falls while things get worse and rises when they get
//!   better, and it hands out credit in bytes that refills every millisecond.
//! - [`wants_speed_up`] decides whether more than one compaction may run.
//!
//! Pure computation; time comes in as an argument. The caller keeps the controller under a lock.

use std::time::Duration;

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

/// What happens to writes.
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

fn signed(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// What decides whether more than one compaction may run.
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

/// Whether compaction falls behind, before writes have to be delayed.
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

/// Slowest rate the policy goes down to, in bytes per second.
const MIN_RATE: u64 = 16 << 10;

/// Rate factors: near a stop, debt not shrinking, debt shrinking, back to normal.
const NEAR_STOP: f64 = 0.6;
const SLOWER: f64 = 0.8;
const FASTER: f64 = 1.25;
const RECOVERED: f64 = 1.4;

/// Credit refills at least this often, and a delayed write waits at least as long.
const REFILL_MICROS: u64 = 1000;

/// The rate of delayed writes and the credit that is left of it.
#[derive(Clone, Debug, PartialEq)]
pub struct DelayController {
    max_rate: u64,
    rate: u64,
    delayed: bool,
    stopped: bool,
    previous_debt: u64,
    credit_bytes: u64,
    /// 0: the delay has just begun.
    next_refill_micros: u64,
}

impl DelayController {
    /// A controller whose rate begins at `delayed_write_rate` bytes per second and never exceeds it;
    /// 0 means 16 MiB per second.
    pub fn new(delayed_write_rate: u64) -> Self {
        let max_rate = max_rate(delayed_write_rate);
        Self {
            max_rate,
            rate: max_rate,
            delayed: false,
            stopped: false,
            previous_debt: 0,
            credit_bytes: 0,
            next_refill_micros: 0,
        }
    }

    /// Goes on with another `delayed_write_rate`: the rate begins there again.
    pub fn set_max_rate(&mut self, delayed_write_rate: u64) {
        self.max_rate = max_rate(delayed_write_rate);
        self.rate = self.max_rate;
    }

    /// Takes in the condition of the family after a change, and the state it follows from.
    pub fn update(&mut self, condition: &StallCondition, input: &StallInput) {
        let debt = input.pending_compaction_bytes;
        match *condition {
            StallCondition::Stopped(_) => {
                self.stopped = true;
                self.delayed = false;
            }
            StallCondition::Delayed(cause) => {
                let penalise = self.stopped || is_near_stop(cause, input);
                self.set_delay(penalise, debt, input.disable_auto_compactions);
                self.stopped = false;
            }
            StallCondition::Normal => {
                if self.delayed {
                    self.set_rate(scale(self.rate, RECOVERED));
                }
                self.stopped = false;
                self.delayed = false;
            }
        }
        self.previous_debt = debt;
    }

    fn set_delay(&mut self, penalise: bool, debt: u64, compactions_are_off: bool) {
        let mut rate = self.rate;
        if compactions_are_off {
            rate = self.max_rate;
        } else if self.delayed && self.max_rate > MIN_RATE {
            if penalise {
                rate = scale(rate, NEAR_STOP).max(MIN_RATE);
            } else if self.previous_debt > 0 && self.previous_debt <= debt {
                rate = scale(rate, SLOWER).max(MIN_RATE);
            } else if self.previous_debt > debt {
                rate = scale(rate, FASTER).min(self.max_rate);
            }
        }
        if !self.delayed {
            self.delayed = true;
            self.next_refill_micros = 0;
            self.credit_bytes = 0;
        }
        self.set_rate(rate);
    }

    fn set_rate(&mut self, rate: u64) {
        self.rate = rate.clamp(1, self.max_rate.max(1));
    }

    /// Time a write of `bytes` has to wait, beginning at `now_nanos` of a monotonic clock. Takes the
    /// bytes off the credit: call once per write group. Zero unless writes are delayed.
    pub fn delay_for(&mut self, now_nanos: u64, bytes: u64) -> Duration {
        if self.stopped || !self.delayed {
            return Duration::ZERO;
        }
        if self.credit_bytes >= bytes {
            self.credit_bytes -= bytes;
            return Duration::ZERO;
        }
        let now = now_nanos / 1000;
        let per_second = self.rate as f64;
        if self.next_refill_micros == 0 {
            self.next_refill_micros = now;
        }
        if self.next_refill_micros <= now {
            let elapsed = now - self.next_refill_micros + REFILL_MICROS;
            let refill = elapsed as f64 / 1e6 * per_second + 0.999_999;
            self.credit_bytes = self.credit_bytes.saturating_add(refill as u64);
            self.next_refill_micros = now + REFILL_MICROS;
            if self.credit_bytes >= bytes {
                self.credit_bytes -= bytes;
                return Duration::ZERO;
            }
        }
        let missing = bytes - self.credit_bytes;
        let needed = (missing as f64 / per_second * 1e6) as u64;
        self.credit_bytes = 0;
        self.next_refill_micros = self.next_refill_micros.saturating_add(needed);
        Duration::from_micros((self.next_refill_micros - now).max(REFILL_MICROS))
    }

    /// Bytes per second writes are delayed to now; 0 if they are not.
    pub fn current_rate(&self) -> u64 {
        if self.delayed { self.rate } else { 0 }
    }
}

fn max_rate(delayed_write_rate: u64) -> u64 {
    match delayed_write_rate {
        0 => 16 << 20,
        rate => rate,
    }
}

fn is_near_stop(cause: StallCause, input: &StallInput) -> bool {
    match cause {
        StallCause::MemtableLimit => false,
        StallCause::L0FileCountLimit => {
            signed(input.l0_files) >= i64::from(input.level0_stop_writes_trigger) - 2
        }
        StallCause::PendingCompactionBytes => {
            let soft = input.soft_pending_compaction_bytes_limit;
            let hard = input.hard_pending_compaction_bytes_limit;
            let room = hard.saturating_sub(soft);
            let used = input.pending_compaction_bytes.saturating_sub(soft);
            hard > 0 && used > room / 4 * 3 + room % 4 * 3 / 4
        }
    }
}

fn scale(rate: u64, factor: f64) -> u64 {
    (rate as f64 * factor) as u64
}

#[cfg(test)]
mod tests;
