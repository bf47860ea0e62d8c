//! Measures writes: those of databases with statistics in all their parts, and those that wait on purpose.
//!
//! A write that nobody measures and that waits for nothing never comes here.

use crate::core::{Part, Parts};
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
