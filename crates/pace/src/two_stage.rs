//! The policy `two_stage`: case study A of the study of RocksDB on 3D XPoint (R-XP-21).
//!
//! From the slowdown threshold on the rate falls as before, but not below what is acceptable, and a write waits for its
//! bytes only. From the middle between slowdown and stop on, "Algorithm 1" rules as it is. The same holds for the debt,
//! between its two limits; a delay for memtables is always of the first stage. A stage is left one file below where it is
//! entered.

use crate::algorithm1::Algorithm1;
use crate::bucket::Bucket;
use crate::condition::{StallCause, StallCondition, StallInput};
use crate::rocksdb::max_rate;
use std::time::Duration;

/// Describes what the policy is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TwoStageOptions {
    /// Fastest rate of delayed writes, in bytes per second; 0 means 16 MiB per second.
    pub delayed_write_rate: u64,
    /// Lowest rate of the first stage; 0 means `delayed_write_rate`.
    pub stage1_floor_rate: u64,
}

/// Where a family stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    None,
    First,
    Second,
}

/// The rate of delayed writes.
#[derive(Clone, Debug, PartialEq)]
pub struct TwoStage {
    floor: u64,
    stage: Stage,
    second: Algorithm1,
    /// Says who passes when in the first stage.
    first: Bucket,
}

impl TwoStage {
    /// A controller of these options.
    pub fn new(options: TwoStageOptions) -> Self {
        Self {
            floor: floor(options),
            stage: Stage::None,
            second: Algorithm1::new(options.delayed_write_rate),
            first: Bucket::new(),
        }
    }

    /// Goes on with other options.
    pub fn set_options(&mut self, options: TwoStageOptions) {
        self.floor = floor(options);
        self.second.set_max_rate(options.delayed_write_rate);
    }

    /// Takes in the condition of the family after a change, and the state it follows from.
    pub fn update(&mut self, condition: &StallCondition, input: &StallInput) {
        let before = self.stage;
        self.stage = match *condition {
            StallCondition::Normal if before > Stage::None && lingers(input) => Stage::First,
            StallCondition::Normal | StallCondition::Stopped(_) => Stage::None,
            StallCondition::Delayed(cause) => stage_of(cause, input, before),
        };
        let second = match self.stage {
            Stage::None => StallCondition::Normal,
            // Its rate is adapted in both stages.
            _ => StallCondition::Delayed(StallCause::L0FileCountLimit),
        };
        self.second.update(&second, input);
    }

    /// Time a write of `bytes` has to wait: call once per write group. Zero unless writes are delayed.
    pub fn delay_for(&mut self, now_nanos: u64, bytes: u64) -> Duration {
        match self.stage {
            Stage::None => Duration::ZERO,
            Stage::Second => self.second.delay_for(now_nanos, bytes),
            Stage::First => {
                self.first.set_rate(now_nanos, Some(self.floor as f64));
                let place = self.first.take(now_nanos, bytes);
                self.first.wait(now_nanos, place)
            }
        }
    }

    /// Bytes per second writes are delayed to now; 0 if they are not.
    pub fn current_rate(&self) -> u64 {
        match self.stage {
            Stage::None => 0,
            Stage::First => self.floor,
            Stage::Second => self.second.current_rate(),
        }
    }
}

fn floor(options: TwoStageOptions) -> u64 {
    match options.stage1_floor_rate {
        0 => max_rate(options.delayed_write_rate),
        rate => rate,
    }
}

/// The middle of two thresholds.
fn middle(low: i64, high: i64) -> i64 {
    low.midpoint(high)
}

fn stage_of(cause: StallCause, input: &StallInput, before: Stage) -> Stage {
    let files = i64::try_from(input.l0_files).unwrap_or(i64::MAX);
    let second = match cause {
        StallCause::MemtableLimit => false,
        StallCause::L0FileCountLimit => {
            let slowdown = i64::from(input.level0_slowdown_writes_trigger);
            let from = middle(slowdown, i64::from(input.level0_stop_writes_trigger));
            files >= from - i64::from(before == Stage::Second)
        }
        StallCause::PendingCompactionBytes => {
            let soft = input.soft_pending_compaction_bytes_limit;
            let hard = input.hard_pending_compaction_bytes_limit;
            hard > soft && input.pending_compaction_bytes >= soft.midpoint(hard)
        }
    };
    if second { Stage::Second } else { Stage::First }
}

/// Returns whether the first stage goes on although no rule delays writes any more: by one file.
fn lingers(input: &StallInput) -> bool {
    let slowdown = i64::from(input.level0_slowdown_writes_trigger);
    let files = i64::try_from(input.l0_files).unwrap_or(i64::MAX);
    slowdown > 0 && !input.disable_auto_compactions && files == slowdown - 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::condition::stall_condition;

    fn with(l0_files: usize, debt: u64) -> StallInput {
        StallInput {
            max_write_buffer_number: 2,
            min_write_buffer_number_to_merge: 1,
            l0_files,
            level0_slowdown_writes_trigger: 20,
            level0_stop_writes_trigger: 36,
            pending_compaction_bytes: debt,
            soft_pending_compaction_bytes_limit: 1000,
            hard_pending_compaction_bytes_limit: 2000,
            ..StallInput::default()
        }
    }

    /// R-XP-21: every boundary, up and down.
    #[test]
    fn stages_begin_and_end_where_they_should() {
        use Stage::{First, None, Second};
        let mut c = TwoStage::new(TwoStageOptions::default());
        let steps = [
            (19, 0, None),
            (20, 0, First),
            (27, 0, First),
            (28, 0, Second),
            (27, 0, Second),
            (26, 0, First),
            (35, 0, Second),
            (36, 0, None),
            (20, 0, First),
            (19, 0, First),
            (18, 0, None),
            (19, 0, None),
            (0, 999, None),
            (0, 1000, First),
            (0, 1499, First),
            (0, 1500, Second),
            (0, 1499, First),
            (0, 2000, None),
        ];
        for (files, debt, stage) in steps {
            let input = with(files, debt);
            c.update(&stall_condition(&input), &input);
            assert_eq!(c.stage, stage, "{files} files, debt {debt}");
        }
    }

    #[test]
    fn the_first_stage_keeps_its_rate_without_a_least_wait() {
        let mut c = TwoStage::new(TwoStageOptions {
            delayed_write_rate: 16 << 20,
            stage1_floor_rate: 10_000_000,
        });
        let input = with(20, 500);
        c.update(&stall_condition(&input), &input);
        assert_eq!(c.current_rate(), 10_000_000);
        let (mut now, mut written) = (1u64, 0u64);
        while now < 1_000_000_000 {
            let wait = c.delay_for(now, 1040).as_nanos() as u64;
            assert!(wait == 0 || (50_000..200_000).contains(&wait), "{wait}");
            now += wait + 5_000;
            written += 1040;
        }
        assert!((9_900_000..10_100_000).contains(&written), "{written}");
    }

    #[test]
    fn the_second_stage_is_algorithm_1() {
        let mut c = TwoStage::new(TwoStageOptions::default());
        let mut plain = Algorithm1::new(0);
        let input = with(30, 500);
        c.update(&stall_condition(&input), &input);
        plain.update(&stall_condition(&input), &input);
        for i in 1..100u64 {
            let at = i * 1_100_000;
            assert_eq!(c.delay_for(at, 900), plain.delay_for(at, 900));
            assert_eq!(c.current_rate(), plain.current_rate());
        }
    }

    #[test]
    fn contradictory_limits_and_zero_rates_are_defined() {
        let mut c = TwoStage::new(TwoStageOptions {
            delayed_write_rate: 1,
            stage1_floor_rate: 0,
        });
        let input = StallInput {
            level0_slowdown_writes_trigger: 0,
            level0_stop_writes_trigger: 1,
            soft_pending_compaction_bytes_limit: 9,
            hard_pending_compaction_bytes_limit: 3,
            ..with(0, 9)
        };
        let condition = StallCondition::Delayed(StallCause::PendingCompactionBytes);
        c.update(&condition, &input);
        assert_eq!(c.stage, Stage::First);
        assert_eq!(c.delay_for(5, 2), Duration::from_secs(2));
    }
}
