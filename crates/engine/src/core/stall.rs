//! The write controller: the policy in force, and the rate under which leaders of write groups wait.

use super::FamilySet;
use super::space_room::SpaceRoom;
use super::state::rank;
use super::write_times::WriteTimes;
use crate::options::{DbOptions, WriteThrottlePolicy};
use spanlith_base::sync::Mutex;
use spanlith_pace::{
    Leading, SmoothOptions, StallCondition, StallInput, ThrottlePolicy, TwoStageOptions,
};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// Describes what decides how writers are slowed down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ThrottleSettings {
    pub policy: ThrottlePolicy,
    /// Fastest rate of delayed writes, in bytes per second; 0 means 16 MiB per second. Not of `smooth`.
    pub delayed_write_rate: u64,
    /// Rate that writers keep in the first stage of `two_stage` and `smooth`.
    pub stage1_floor_rate: u64,
}

impl ThrottleSettings {
    /// Returns what the options of a database say.
    pub(crate) fn of(options: &DbOptions) -> Self {
        Self {
            policy: match options.own.write_throttle_policy {
                WriteThrottlePolicy::Rocksdb517 => ThrottlePolicy::Rocksdb517,
                WriteThrottlePolicy::Rocksdb => ThrottlePolicy::Rocksdb,
                WriteThrottlePolicy::TwoStage => ThrottlePolicy::TwoStage,
                WriteThrottlePolicy::Smooth => ThrottlePolicy::Smooth,
            },
            delayed_write_rate: options.delayed_write_rate,
            stage1_floor_rate: options.own.stage1_floor_rate,
        }
    }

    fn rates(&self) -> TwoStageOptions {
        TwoStageOptions {
            delayed_write_rate: self.delayed_write_rate,
            stage1_floor_rate: self.stage1_floor_rate,
        }
    }
}

/// The policy and the delay rate.
pub(crate) struct Throttle {
    /// Copy of what `inner` says of the policy. Relaxed: writers act by the gate.
    is_smooth: AtomicBool,
    times: WriteTimes,
    room: SpaceRoom,
    inner: Mutex<(ThrottleSettings, Leading)>,
    /// Writes on their way that others wait for: no writer stops or is delayed before them. Relaxed: raised under the
    /// state mutex, under which writers look before they wait.
    urgent: AtomicUsize,
}

impl Throttle {
    pub(crate) fn new(settings: ThrottleSettings) -> Self {
        let leading = Leading::new(settings.policy, settings.rates());
        Self {
            is_smooth: AtomicBool::new(settings.policy.is_outside_queue()),
            times: WriteTimes::default(),
            room: SpaceRoom::default(),
            inner: Mutex::new(rank::LEAF, (settings, leading)),
            urgent: AtomicUsize::new(0),
        }
    }

    /// Goes on with other settings; says whether the policy is another one.
    pub(crate) fn set(&self, settings: ThrottleSettings) -> bool {
        let mut inner = self.inner.lock();
        let before = std::mem::replace(&mut inner.0, settings);
        if before == settings {
            return false;
        }
        let is_other = before.policy != settings.policy;
        match is_other {
            true => inner.1 = Leading::new(settings.policy, settings.rates()),
            false => inner.1.set_options(settings.rates()),
        }
        let outside = settings.policy.is_outside_queue();
        self.is_smooth.store(outside, Ordering::Relaxed);
        is_other
    }

    /// The ones that `smooth` is told.
    pub(crate) fn settings_smooth(&self) -> SmoothOptions {
        let settings = self.inner.lock().0;
        SmoothOptions {
            stage1_floor_rate: settings.stage1_floor_rate,
        }
    }

    /// A write begins that nobody before it may wait with. Requires: the state mutex.
    pub(crate) fn begin_urgent(&self) {
        self.urgent.fetch_add(1, Ordering::Relaxed);
    }

    /// It has ended.
    pub(crate) fn end_urgent(&self) {
        self.urgent.fetch_sub(1, Ordering::Relaxed);
    }

    /// Returns whether one is on its way.
    #[inline]
    pub(crate) fn has_urgent(&self) -> bool {
        self.urgent.load(Ordering::Relaxed) != 0
    }

    /// Returns what writers waited for, and where their time went.
    pub(crate) fn times(&self) -> &WriteTimes {
        &self.times
    }

    /// Room that is left for tables.
    pub(super) fn room(&self) -> &SpaceRoom {
        &self.room
    }

    /// Returns whether every writer is paced by itself.
    pub(crate) fn is_smooth(&self) -> bool {
        self.is_smooth.load(Ordering::Relaxed)
    }

    /// Takes in a new stall condition.
    pub(crate) fn update(&self, condition: &StallCondition, input: &StallInput) {
        self.inner.lock().1.update(condition, input);
    }

    /// Time a write group of `bytes` has to wait now.
    pub(crate) fn delay(&self, now_nanos: u64, bytes: usize) -> Duration {
        self.inner.lock().1.delay_for(now_nanos, bytes as u64)
    }

    /// Bytes per second that writers may write now to the family of `all` that is slowed down most; 0 if none is.
    pub(crate) fn pace(&self, all: &FamilySet) -> u64 {
        if !self.is_smooth() {
            return self.rate();
        }
        let rates = all.iter().filter_map(|f| f.pacer.decision().0.rate);
        rates
            .reduce(f64::min)
            .map_or(0, |rate| rate.max(1.0) as u64)
    }

    /// Bytes per second while leaders are delayed, else 0.
    pub(crate) fn rate(&self) -> u64 {
        self.inner.lock().1.current_rate()
    }
}
