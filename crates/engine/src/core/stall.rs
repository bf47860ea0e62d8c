//! The delay controller behind its lock.

use super::state::rank;
use super::throttle::{DelayController, StallCondition, StallInput};
use spanlith_base::sync::Mutex;
use std::time::Duration;

/// The delay rate and who is waiting for it.
pub(crate) struct Throttle {
    controller: Mutex<DelayController>,
}

impl Throttle {
    pub(crate) fn new(controller: DelayController) -> Self {
        Self {
            controller: Mutex::new(rank::LEAF, controller),
        }
    }

    /// Changes the fastest rate of delayed writes; 0 means 16 MiB per second.
    pub(crate) fn set_max_rate(&self, delayed_write_rate: u64) {
        self.controller.lock().set_max_rate(delayed_write_rate);
    }

    /// Takes in a new stall condition.
    pub(crate) fn update(&self, condition: &StallCondition, input: &StallInput) {
        self.controller.lock().update(condition, input);
    }

    /// Time a write of `bytes` has to wait now.
    pub(crate) fn delay(&self, now_nanos: u64, bytes: usize) -> Duration {
        self.controller.lock().delay_for(now_nanos, bytes as u64)
    }

    /// Bytes per second while delayed, else 0.
    pub(crate) fn rate(&self) -> u64 {
        self.controller.lock().current_rate()
    }
}
