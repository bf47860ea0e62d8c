//! Measures writes: those of databases with statistics in all their parts, and those that wait on purpose.
//!
//! A write that nobody measures and that waits for nothing never comes here.

use crate::core::{Engine, Part, Parts};
use spanlith_base::stats::Statistics;

/// A write that is measured.
pub(super) struct Measured<'a> {
    pub statistics: &'a Statistics,
    /// `None` if times are not wanted.
    pub began: Option<(&'a Statistics, u64)>,
    pub bytes: u64,
    /// Filled as far as they are known.
    pub parts: Parts,
}

impl Measured<'_> {
    /// It has waited for its pace.
    pub(super) fn paced(&mut self, nanos: u64) {
        self.parts.add(Part::Throttle, nanos);
    }

    /// Returns what it is to fill as a leader; `None` if times are not wanted.
    pub(super) fn parts(&mut self) -> Option<&mut Parts> {
        self.began.is_some().then_some(&mut self.parts)
    }
}

/// Times the stages of a group, for its leader.
pub(super) struct Stages<'a> {
    engine: &'a Engine,
    /// When the stage began; `None` if nobody wants to know.
    since: Option<u64>,
    parts: Option<&'a mut Parts>,
}

impl<'a> Stages<'a> {
    pub(super) fn begin(engine: &'a Engine, parts: Option<&'a mut Parts>) -> Self {
        Self {
            engine,
            since: parts
                .is_some()
                .then(|| engine.c.env.clock.monotonic_nanos()),
            parts,
        }
    }

    /// Ends a stage and begins the next.
    pub(super) fn end(&mut self, part: Part) {
        if let (Some(parts), Some(since)) = (&mut self.parts, self.since) {
            let now = self.engine.c.env.clock.monotonic_nanos();
            parts.add(part, now.saturating_sub(since));
            self.since = Some(now);
        }
    }
}
