//! Tells a device that has stopped from stages that are slow.
//!
//! While a device stops nothing can be learnt of the stages: their speed and the time of their rounds are what they were. A rate that
//! followed a stop would take many rounds to come back, although nothing is wrong any more. So all measuring pauses, and the memtables
//! alone decide meanwhile, which fill at once. A compaction that was caught in the stop is taken to go on as fast as before.

use crate::pressure::{Facts, Level0Facts};

/// Seconds without any progress after which the device is taken to have stopped.
const AFTER: f64 = 0.5;
/// Shortest pause in which a compaction is taken to have been caught.
const CAUGHT_MIN: f64 = 0.1;

/// Watches the progress of flushes and of compactions out of level 0.
#[derive(Clone, Debug, Default)]
pub(crate) struct Standstill {
    /// Seconds since the last progress while there was work.
    still: f64,
    /// The last pause that ended: how long it was, and for how many seconds it has been over.
    last: f64,
    since: f64,
}

impl Standstill {
    /// Takes in whether some stage `moved` since the last look; says whether the device stands still.
    pub(crate) fn follow(&mut self, facts: &Facts, moved: bool, passed: f64) -> bool {
        let works = facts.memory.drains || facts.level0.relief.is_some();
        self.since += passed;
        if moved || !works {
            if self.still >= CAUGHT_MIN {
                self.last = self.still;
                self.since = passed;
            }
            self.still = 0.0;
        } else {
            self.still += passed;
        }
        self.still >= AFTER
    }

    /// Seconds until the compaction out of level 0 that runs will end, by what it did while the device went on.
    pub(crate) fn relief(&self, facts: &Level0Facts) -> Option<f64> {
        let relief = facts.relief?;
        let caught = (facts.spent - self.since).clamp(0.0, self.last);
        let moved = (facts.spent - caught - self.still).max(0.0);
        match facts.spent > 0.0 {
            true => Some(relief * (moved / facts.spent)),
            false => Some(relief),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pressure::MemoryFacts;

    fn facts(job: Option<(f64, f64)>, flushes: bool) -> Facts {
        Facts {
            memory: MemoryFacts {
                drains: flushes,
                ..MemoryFacts::default()
            },
            level0: Level0Facts {
                relief: job.map(|j| j.0),
                spent: job.map_or(0.0, |j| j.1),
                ..Level0Facts::default()
            },
            ..Facts::default()
        }
    }

    #[test]
    fn only_work_that_does_not_move_is_a_standstill() {
        let mut s = Standstill::default();
        let idle = facts(None, false);
        assert!((0..100).all(|_| !s.follow(&idle, false, 0.1)));
        let flushes = facts(None, true);
        assert!((0..100).all(|_| !s.follow(&flushes, true, 0.1)));
        let stood = (0..10).filter(|_| s.follow(&flushes, false, 0.1)).count();
        assert!((5..=6).contains(&stood), "{stood}");
        assert!(!s.follow(&flushes, true, 0.1), "it moves again");
    }

    /// The estimate of a compaction itself counts the stop.
    #[test]
    fn a_compaction_that_was_caught_ends_as_it_would_have() {
        let mut s = Standstill::default();
        // A quarter was done after one second: three are left.
        s.follow(&facts(Some((3.0, 1.0)), true), true, 0.1);
        let mut spent = 1.0;
        for _ in 0..50 {
            spent += 0.1;
            let during = facts(Some((3.0 * spent, spent)), true);
            s.follow(&during, false, 0.1);
            let left = s.relief(&during.level0).unwrap();
            assert!((left - 3.0).abs() < 1e-6, "{left}");
        }
        // A half after it went on for another second.
        for _ in 0..10 {
            s.follow(&facts(None, true), true, 0.1);
        }
        let after = facts(Some((7.0, 7.0)), true).level0;
        let left = s.relief(&after).unwrap();
        assert!((left - 2.0).abs() < 1e-6, "{left}");
        // One that began later knows nothing of it.
        let next = facts(Some((3.0, 0.5)), true).level0;
        assert_eq!(s.relief(&next), Some(3.0));
        assert_eq!(s.relief(&Level0Facts::default()), None);
    }
}
