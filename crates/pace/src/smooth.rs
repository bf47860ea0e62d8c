//! The policy `smooth`: each stage's measured capacity times a factor of its pressure; the slowest stage decides.
//!
//! Below a pressure of 0.30 everything passes: the buffer absorbs it. Above, under overload, a pressure settles where the
//! factor makes up for whatever the estimate of the capacity is wrong by.
//!
//! - For **memory** the factor is `(1 - d) / d`, the quotient of what may still be written and what is left to flush: both
//!   come to an end together, and the rate goes to zero with the reserve, in proportion to what flushes really free.
//! - **Level 0** keeps to a number of files ([`crate::level0`]).
//! - **Debt and space** drain by large jobs, between which nothing drains. Their pressure goes up and down with the jobs
//!   although nothing is wrong; the buffer is there for that. The factor follows the pressure averaged over some jobs, gently:
//!   1 at one half, 1.3 at 0.30, and the rate moves slowly. Only the last of the buffer, above 0.80, counts at once. They
//!   only pace: the factor has a lower bound.

use crate::capacity::Meter;
use crate::level0::{Around, Level0};
use crate::pressure::{Facts, Level0Facts, Pressure, Stage};
use crate::standstill::Standstill;

/// Pressure below which everything passes.
const FREE: f64 = 0.30;
/// Pressure, averaged and at the moment, below which a stage that began to pace ends to.
const LEAVE: f64 = 0.12;
/// Least factor of the stages that only pace, and by how much it falls with the averaged pressure.
const FACTOR_MIN: f64 = 0.05;
const SLOPE: f64 = 1.5;
/// Pressure from which on what is left of the buffer counts at once.
const RESERVE: f64 = 0.80;
/// Seconds over which the pressure of those stages is averaged.
const AVERAGE: f64 = 4.0;
/// By how much of itself a rate moves in a second.
const SLEW: f64 = 0.5;
/// Rate at which pacing begins, by the capacity.
const ENTRY: f64 = 2.0;
/// Least rates in bytes per second: of memory, whose bound is hard, and of the others.
const MEMORY_RATE_MIN: f64 = 16.0 * 1024.0;
const RATE_MIN: f64 = 64.0 * 1024.0;
/// Busy seconds over which flushes and the other stages are measured.
const FLUSH_MEMORY: f64 = 2.0;
const TREE_MEMORY: f64 = 60.0;
/// Longest step of the clock that is measured: longer ones are pauses of the process, or of its writers.
const STEP_MAX: f64 = 0.5;

/// Describes what the policy is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SmoothOptions {
    /// Bytes per second that writers keep as long as no pressure exceeds one half; 0 for none.
    pub stage1_floor_rate: u64,
}

/// Describes what writers may do now.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Decision {
    /// Bytes per second; `None` lets everything pass.
    pub rate: Option<f64>,
    /// The stage that decides, if one does.
    pub stage: Option<Stage>,
    /// The pressures.
    pub pressure: Pressure,
}

/// Cumulative bytes that each stage has retired, those of running jobs as far as they have come: of memtables, of level 0,
/// of the debt in bytes of writes, of space.
pub type Retired = [u64; 4];

/// The controller of one family.
#[derive(Clone, Debug)]
pub struct Smooth {
    options: SmoothOptions,
    meters: [Meter; 4],
    retired: Retired,
    /// Says whether the stages had work at the last look.
    busy: [bool; 4],
    /// Bytes admitted per second, smoothed.
    arrival: Meter,
    admitted: u64,
    at_nanos: Option<u64>,
    /// Rates of the stages, as they move towards what they should be; `None` lets everything pass.
    rates: [Option<f64>; 4],
    /// Averaged pressures.
    averages: [f64; 4],
    level0: Level0,
    /// The rate that level 0 allowed at the last look.
    level0_rate: Option<f64>,
    standstill: Standstill,
}

impl Smooth {
    /// One that has measured nothing: everything passes.
    pub fn new(options: SmoothOptions) -> Self {
        let [flush, tree] = [FLUSH_MEMORY, TREE_MEMORY].map(Meter::new);
        Self {
            options,
            meters: [flush, tree.clone(), tree.clone(), tree],
            retired: [0; 4],
            busy: [false; 4],
            arrival: Meter::new(1.0),
            admitted: 0,
            at_nanos: None,
            rates: [None; 4],
            averages: [0.0; 4],
            level0: Level0::new(),
            level0_rate: None,
            standstill: Standstill::default(),
        }
    }

    /// Goes on with other options.
    pub fn set_options(&mut self, options: SmoothOptions) {
        self.options = options;
    }

    /// Measured bytes per second of a stage; `None` if it was not measured yet.
    pub fn capacity(&self, stage: Stage) -> Option<f64> {
        self.meters[stage as usize].rate()
    }

    /// Measured bytes per second that writers brought lately.
    pub fn arrival(&self) -> Option<f64> {
        self.arrival.rate()
    }

    /// Looks at the state at `now_nanos`: measures what was retired since the last look, and decides. `admitted` counts all
    /// bytes of writes that were let through so far.
    pub fn tick(
        &mut self,
        now_nanos: u64,
        facts: &Facts,
        retired: Retired,
        admitted: u64,
    ) -> Decision {
        let passed = self
            .at_nanos
            .map_or(0.0, |at| now_nanos.saturating_sub(at) as f64 / 1e9);
        self.at_nanos = Some(self.at_nanos.unwrap_or(0).max(now_nanos));
        let busy = [
            facts.memory.drains,
            facts.level0.drains,
            facts.debt.drains,
            facts.space.drains,
        ];
        // A job that failed takes its progress back: nothing is measured then.
        let done: [u64; 4] = std::array::from_fn(|i| retired[i].saturating_sub(self.retired[i]));
        let moved = done[Stage::Memory as usize] > 0 || done[Stage::Level0 as usize] > 0;
        let stands = self.standstill.follow(facts, moved, passed.min(STEP_MAX));
        let is_measured = passed <= STEP_MAX && !stands;
        for (i, meter) in self.meters.iter_mut().enumerate() {
            if (self.busy[i] || done[i] > 0) && is_measured {
                meter.add(done[i], passed);
            }
        }
        self.retired = retired;
        self.busy = busy;
        let arrived = admitted.saturating_sub(self.admitted);
        if is_measured {
            self.arrival.add(arrived, passed);
        }
        self.admitted = admitted;
        if !stands {
            self.level0_rate = self.level0_rate(&facts.level0, passed);
        }
        self.decide(facts, passed)
    }

    fn decide(&mut self, facts: &Facts, passed: f64) -> Decision {
        let pressure = Pressure::of(facts);
        let mut decision = Decision {
            rate: None,
            stage: None,
            pressure,
        };
        for stage in Stage::ALL {
            let i = stage as usize;
            let d = pressure.get(stage);
            let rate = match stage {
                Stage::Memory => self.memory_rate(d),
                Stage::Level0 => self.level0_rate,
                _ => self.tree_rate(stage, d, passed),
            };
            if let Some(rate) = rate
                && decision.rate.is_none_or(|r| rate < r)
            {
                decision.rate = Some(rate);
                decision.stage = Some(stage);
            }
            if rate.is_none() {
                self.rates[i] = None;
            }
        }
        decision
    }

    /// Returns what flushes allow at a pressure.
    fn memory_rate(&self, d: f64) -> Option<f64> {
        let capacity = self.capacity(Stage::Memory)?;
        (d >= FREE).then(|| (capacity * (1.0 - d) / d).max(MEMORY_RATE_MIN))
    }

    /// Returns what level 0 allows.
    fn level0_rate(&mut self, facts: &Level0Facts, passed: f64) -> Option<f64> {
        let around = Around {
            capacity: self.capacity(Stage::Level0),
            arrival: self.arrival.rate(),
            floor: self.options.stage1_floor_rate as f64,
            passed,
        };
        let facts = Level0Facts {
            relief: self.standstill.relief(facts),
            ..*facts
        };
        self.level0.tick(&facts, &around)
    }

    /// Returns what a stage that only paces allows at a pressure.
    fn tree_rate(&mut self, stage: Stage, d: f64, passed: f64) -> Option<f64> {
        let i = stage as usize;
        let keep = (-passed / AVERAGE).exp();
        // Not slower than it fills: what has come close to the bound is known to be full.
        self.averages[i] = (self.averages[i] * keep + d * (1.0 - keep)).max(d - 0.3);
        let average = self.averages[i];
        let capacity = self.capacity(stage)?;
        let arrival = self.arrival.rate().unwrap_or(f64::MAX);
        let is_low = d.max(average) < LEAVE;
        let from = self.rates[i].or_else(|| {
            let entry = capacity * ENTRY;
            (d >= FREE).then(|| arrival.clamp(capacity.min(entry), entry))
        })?;
        let passed = passed.min(1.0);
        if is_low {
            // Out of the way, but not at once: there may be as much after it as before.
            let rate = from * 2f64.powf(passed);
            self.rates[i] = (rate < 2.0 * arrival).then_some(rate);
            return self.rates[i];
        }
        let factor = 1.0 + SLOPE * (0.5 - average);
        let mut wanted = capacity * factor.max(FACTOR_MIN);
        if average < 0.5 {
            wanted = wanted.max(self.options.stage1_floor_rate as f64);
        }
        let step = (1.0 + SLEW).powf(passed);
        let rate = wanted.clamp(from / step, from * step);
        self.rates[i] = Some(rate);
        let left = ((1.0 - d) / (1.0 - RESERVE)).clamp(FACTOR_MIN, 1.0);
        Some((rate * left).max(RATE_MIN))
    }
}

#[cfg(test)]
#[path = "smooth_tests.rs"]
mod tests;
