//! One value for the three policies under which the leader of a write group waits.

use crate::algorithm1::Algorithm1;
use crate::condition::{StallCondition, StallInput};
use crate::policy::ThrottlePolicy;
use crate::rocksdb::DelayController;
use crate::two_stage::{TwoStage, TwoStageOptions};
use std::time::Duration;

/// The rate of delayed writes under one policy.
#[derive(Clone, Debug, PartialEq)]
pub enum Leading {
    /// Of RocksDB 11.8.
    Rocksdb(DelayController),
    /// Of RocksDB 5.17.
    Rocksdb517(Algorithm1),
    /// In two stages.
    TwoStage(TwoStage),
}

impl Leading {
    /// The controller of a policy. For `smooth`, which delays no leader, that of `rocksdb`, which is told of no delay.
    pub fn new(policy: ThrottlePolicy, options: TwoStageOptions) -> Self {
        let rate = options.delayed_write_rate;
        match policy {
            ThrottlePolicy::Rocksdb517 => Self::Rocksdb517(Algorithm1::new(rate)),
            ThrottlePolicy::TwoStage => Self::TwoStage(TwoStage::new(options)),
            ThrottlePolicy::Rocksdb | ThrottlePolicy::Smooth => {
                Self::Rocksdb(DelayController::new(rate))
            }
        }
    }

    /// Goes on with other rates.
    pub fn set_options(&mut self, options: TwoStageOptions) {
        let rate = options.delayed_write_rate;
        match self {
            Self::Rocksdb(c) => c.set_max_rate(rate),
            Self::Rocksdb517(c) => c.set_max_rate(rate),
            Self::TwoStage(c) => c.set_options(options),
        }
    }

    /// Takes in the condition of the family that is worst off, and the state it follows from.
    pub fn update(&mut self, condition: &StallCondition, input: &StallInput) {
        match self {
            Self::Rocksdb(c) => c.update(condition, input),
            Self::Rocksdb517(c) => c.update(condition, input),
            Self::TwoStage(c) => c.update(condition, input),
        }
    }

    /// Time a write group of `bytes` has to wait at `now_nanos`; takes the bytes off the credit.
    pub fn delay_for(&mut self, now_nanos: u64, bytes: u64) -> Duration {
        match self {
            Self::Rocksdb(c) => c.delay_for(now_nanos, bytes),
            Self::Rocksdb517(c) => c.delay_for(now_nanos, bytes),
            Self::TwoStage(c) => c.delay_for(now_nanos, bytes),
        }
    }

    /// Bytes per second writes are delayed to now; 0 if they are not.
    pub fn current_rate(&self) -> u64 {
        match self {
            Self::Rocksdb(c) => c.current_rate(),
            Self::Rocksdb517(c) => c.current_rate(),
            Self::TwoStage(c) => c.current_rate(),
        }
    }
}
