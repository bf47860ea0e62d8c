//! Measures how much of a tree's debt was made by writes.
//!
//! RocksDB's estimate of pending bytes also leaps when targets change, the base level moves, files are taken in or a range is
//! deleted. Writers did not cause that and cannot cure it. Such a leap is credited apart and drives background work
//! only; writers are paced by the rest.

/// Why the debt was computed anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A flush installed a table of so many bytes.
    Flush(u64),
    /// A compaction was installed, or began or ended.
    Compaction,
    /// Anything else: files from outside, options, the shape of the tree.
    External,
}

/// The parts of a debt. Their sum is the debt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkDebt {
    total: u64,
    external: u64,
    base_level: usize,
    /// Debt that writes made, and bytes of tables they made it with; both are halved now and then.
    made: u64,
    flushed: u64,
    /// Debt of writes that was retired, in all.
    retired: u64,
}

/// Most that one byte of a flush can add to the debt: it is rewritten together with this many others in each of some levels.
const AMPLIFICATION_MAX: u64 = 64;

impl WorkDebt {
    /// Takes in the debt after a change, and the base level.
    pub fn update(&mut self, total: u64, base_level: usize, change: Change) {
        let before = self.total;
        self.total = total;
        let moved = std::mem::replace(&mut self.base_level, base_level) != base_level;
        let change = if moved { Change::External } else { change };
        match (change, total.checked_sub(before)) {
            (Change::Flush(bytes), rise) => {
                let rise = rise.unwrap_or(0);
                let own = rise.min(bytes.saturating_mul(AMPLIFICATION_MAX));
                self.external += rise - own;
                self.made += own;
                self.flushed += bytes;
                if self.flushed > 1 << 40 {
                    self.made /= 2;
                    self.flushed /= 2;
                }
            }
            // Estimates are rough: what a compaction adds belongs to what it works on. A leap beyond that comes from
            // quotients of levels of which one is all but empty.
            (Change::Compaction, Some(rise)) => self.external += rise - rise.min(before),
            (Change::External, Some(rise)) => self.external += rise,
            (Change::Compaction, None) => {
                let fall = before - total;
                // In proportion, so that neither part waits for the other.
                let share = fall as f64 / before as f64 * self.external as f64;
                self.external -= (share as u64).min(self.external);
                self.retired += fall - (share as u64).min(fall);
            }
            (Change::External, None) => {}
        }
        self.external = self.external.min(total);
    }

    /// Debt that writes made.
    pub fn work(&self) -> u64 {
        self.total - self.external
    }

    /// Debt that they did not make.
    pub fn external(&self) -> u64 {
        self.external
    }

    /// Bytes of writes whose debt was retired so far: debt by what one byte makes of it.
    pub fn retired_bytes(&self) -> u64 {
        let amplification = match self.flushed {
            0 => 1.0,
            flushed => (self.made as f64 / flushed as f64).max(1.0),
        };
        (self.retired as f64 / amplification) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_make_work_and_leaps_do_not() {
        let mut d = WorkDebt::default();
        d.update(0, 1, Change::External);
        d.update(100, 1, Change::Flush(10));
        assert_eq!((d.work(), d.external()), (100, 0));
        // More than ten bytes can cause.
        d.update(5000, 1, Change::Flush(10));
        assert_eq!((d.work(), d.external()), (740, 4260));
        d.update(9000, 1, Change::External);
        assert_eq!((d.work(), d.external()), (740, 8260));
        // The base level moves while a compaction is installed.
        d.update(90_000, 2, Change::Compaction);
        assert_eq!((d.work(), d.external()), (740, 89_260));
        // Half is retired: half of each.
        d.update(45_000, 2, Change::Compaction);
        assert_eq!((d.work(), d.external()), (370, 44_630));
        d.update(0, 2, Change::External);
        assert_eq!((d.work(), d.external()), (0, 0));
    }

    #[test]
    fn debt_is_counted_in_bytes_of_writes() {
        let mut d = WorkDebt::default();
        d.update(0, 1, Change::External);
        for _ in 0..10 {
            let made = d.work();
            d.update(made + 800, 1, Change::Flush(100));
        }
        d.update(0, 1, Change::Compaction);
        assert_eq!(d.retired_bytes(), 1000);
    }

    #[test]
    fn a_compaction_at_most_doubles_the_debt_of_writes() {
        let mut d = WorkDebt::default();
        d.update(0, 1, Change::External);
        d.update(640, 1, Change::Flush(100));
        d.update(1_000_000, 1, Change::Compaction);
        assert_eq!((d.work(), d.external()), (1280, 998_720));
        // It comes down with the estimate, and does not hide what is left.
        d.update(640, 1, Change::External);
        assert_eq!(d.work() + d.external(), 640);
    }

    #[test]
    fn estimates_that_waver_do_not_hide_work() {
        let mut d = WorkDebt::default();
        d.update(0, 1, Change::External);
        d.update(640, 1, Change::Flush(100));
        for _ in 0..100 {
            d.update(700, 1, Change::Compaction);
            d.update(640, 1, Change::Compaction);
        }
        assert_eq!(d.external(), 0);
    }
}
