//! The size from which values are separated, chosen by measured costs (`kvsep_mode=adaptive`).
//!
//! At the end of a flush, once as many bytes were flushed as sixteen memtables hold (a gibibyte at most) or a minute has passed
//! since the last time, the classes of sizes are looked at, by powers of two:
//!
//! ```text
//!   gain = values × (bytes written if inline − bytes written if separated) × seconds a byte takes
//!   loss = reads of blob files × seconds a read takes
//! ```
//!
//! A class that is inline enters if its gain exceeds its loss by a quarter; one that is separated leaves if
//! its gain is a quarter below its loss. The threshold is the smallest class from which all larger ones
//! separate, and it moves one class at a time. Reads of scans count as those of gets do, where a file was read. Reads of inline values are not counted, which would
//! cost every get: such a class is taken to be read as often, for each value, as the separated ones are; while nothing is
//! separated the rate last seen is halved each time, so that separation is tried again.
//!
//! Bytes written if inline follow from a model of the leveled tree with all values in it, or from what
//! was measured, if that is more: a tree of references alone is smaller and rewritten less often. A
//! change affects what is written from then on; it causes no rewriting by itself.
//!
//! [`decide`] is a pure function; [`Adaptive`] gathers what it needs. Used by flush jobs, one at a time.

use crate::blob::{BlobReadNumbers, SIZE_CLASSES, size_class};
use spanlith_base::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Rank of a lock under which nothing else is taken.
const RANK: u8 = 90;
/// Class of the threshold before anything is known: 256 bytes. Loads, overwrites and gets of values in memory take less
/// processor time with such values separated, and fewer bytes are written; scans and reads of a device take more
/// (`docs/experiments/separation.md`), which is what moves the threshold up.
const FIRST_CLASS: usize = 8;
/// Smallest and largest class of the threshold: 128 bytes and 1 MiB.
const CLASS_MIN: usize = 7;
const CLASS_MAX: usize = 20;
/// How much gain and loss have to differ for a change.
const HYSTERESIS: f64 = 0.25;
/// Bytes of a reference with its entry, and of a record around its value, about.
const REFERENCE_BYTES: f64 = 34.0;
const RECORD_BYTES: f64 = 52.0;
/// Says what a byte takes as long as nothing was measured: 100 MB a second.
const NANOS_PER_BYTE: f64 = 10.0;
/// Memtables flushed, bytes flushed at most, and nanoseconds, after one of which the threshold is looked at again.
const INTERVAL_MEMTABLES: u64 = 16;
const INTERVAL_BYTES: u64 = 1 << 30;
const INTERVAL_NANOS: u64 = 60_000_000_000;

/// Values that flushes met, by class.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct SizeTally {
    pub values: [u64; SIZE_CLASSES],
    pub bytes: [u64; SIZE_CLASSES],
}

impl SizeTally {
    /// Counts a value.
    #[inline]
    pub(crate) fn add(&mut self, len: u64) {
        let class = size_class(len);
        self.values[class] += 1;
        self.bytes[class] += len;
    }
}

/// Facts of a family beside its values and reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TreeFacts {
    /// Bytes of tables and blob files together.
    pub total_bytes: u64,
    /// Bytes of a memtable.
    pub memtable_bytes: u64,
    /// Target of the base level, and growth from level to level.
    pub base_bytes: u64,
    pub growth: f64,
    /// Bytes of tables written by all jobs, and by flushes alone.
    pub written_bytes: u64,
    pub flushed_bytes: u64,
    /// Microseconds of all jobs, and bytes they wrote, blob files included.
    pub job_micros: u64,
    pub job_bytes: u64,
    /// Garbage and bytes of blob files.
    pub garbage_bytes: u64,
    pub blob_bytes: u64,
}

/// Costs, derived from the facts.
#[derive(Clone, Copy, Debug)]
struct Costs {
    /// Bytes written by the tree for each byte put into it.
    tree: f64,
    /// Bytes that collection writes for each byte of a value.
    collection: f64,
    nanos_per_byte: f64,
}

impl TreeFacts {
    /// Bytes of values after which the threshold is looked at again.
    fn interval_bytes(&self) -> u64 {
        let memtables = self.memtable_bytes.saturating_mul(INTERVAL_MEMTABLES);
        memtables.min(INTERVAL_BYTES)
    }

    fn costs(&self) -> Costs {
        let base = self.base_bytes.max(1) as f64;
        let growth = self.growth.max(2.0);
        let levels = (self.total_bytes as f64 / base).max(1.0).log(growth).ceil();
        // A flush, the way into the base level, and half the growth for each level below.
        let modelled = 2.0 + levels * growth / 2.0;
        let measured = self.written_bytes as f64 / self.flushed_bytes.max(1) as f64;
        let share = self.garbage_bytes as f64 / self.blob_bytes.max(1) as f64;
        let measured_nanos = match self.job_micros {
            0 => NANOS_PER_BYTE,
            micros => micros as f64 * 1000.0 / self.job_bytes.max(1) as f64,
        };
        Costs {
            tree: modelled.max(measured),
            // Of a file with that share of garbage the rest is written again.
            collection: if share > 0.01 {
                (1.0 - share).min(1.0)
            } else {
                0.0
            },
            nanos_per_byte: measured_nanos,
        }
    }
}

/// Describes what one look at the threshold found.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Decision {
    /// The new threshold, in bytes, and the one before.
    pub threshold: u64,
    pub before: u64,
    /// The class that decided, in bytes, with its gain and loss in nanoseconds.
    pub class: u64,
    pub gain: f64,
    pub loss: f64,
}

/// Returns what separating a class gains and costs, in nanoseconds.
fn weigh(values: u64, bytes: u64, reads: f64, costs: &Costs, nanos_per_read: f64) -> (f64, f64) {
    let size = bytes as f64 / values.max(1) as f64;
    let inline = size * costs.tree;
    let apart = REFERENCE_BYTES * costs.tree + (size + RECORD_BYTES) * (1.0 + costs.collection);
    let gain = values as f64 * (inline - apart) * costs.nanos_per_byte;
    (gain, reads * nanos_per_read)
}

/// The next threshold as a class, one step from `class` at most; the class that decided, and its terms.
fn decide(
    class: usize,
    tally: &SizeTally,
    reads: &[u64; SIZE_CLASSES],
    rate: f64,
    facts: &TreeFacts,
    nanos_per_read: f64,
) -> (usize, (usize, f64, f64)) {
    let costs = facts.costs();
    let mut lowest = SIZE_CLASSES;
    let mut terms = (class, 0.0, 0.0);
    for n in (0..SIZE_CLASSES).rev().filter(|&n| tally.values[n] > 0) {
        let read = match n >= class {
            true => reads[n] as f64,
            false => rate * tally.values[n] as f64,
        };
        let (gain, loss) = weigh(
            tally.values[n],
            tally.bytes[n],
            read,
            &costs,
            nanos_per_read,
        );
        let factor = match n >= class {
            true => 1.0 - HYSTERESIS,
            false => 1.0 + HYSTERESIS,
        };
        if gain <= 0.0 || gain < factor * loss {
            if n >= class {
                terms = (n, gain, loss);
            }
            break;
        }
        lowest = n;
        terms = (n, gain, loss);
    }
    let is_empty = tally.values.iter().all(|&n| n == 0);
    let next = match lowest {
        _ if is_empty => class,
        n if n < class => class - 1,
        n if n > class && (class..n.min(SIZE_CLASSES)).any(|c| tally.values[c] > 0) => class + 1,
        _ => class,
    };
    (next.clamp(CLASS_MIN, CLASS_MAX), terms)
}

/// The threshold of a family and what it is decided by.
pub(crate) struct Adaptive {
    /// Relaxed: a figure of its own.
    class: AtomicU64,
    gathered: Mutex<Gathered>,
}

struct Gathered {
    tally: SizeTally,
    /// Reads when the threshold was looked at last, and when that was.
    reads: BlobReadNumbers,
    at_nanos: Option<u64>,
    /// Reads of blob files for each separated value, as last seen.
    rate: f64,
    /// How long a read takes, as last seen.
    nanos_per_read: f64,
}

impl Default for Adaptive {
    fn default() -> Self {
        Self {
            class: AtomicU64::new(FIRST_CLASS as u64),
            gathered: Mutex::new(
                RANK,
                Gathered {
                    tally: SizeTally::default(),
                    reads: BlobReadNumbers {
                        by_class: [0; SIZE_CLASSES],
                        timed: 0,
                        nanos: 0,
                    },
                    at_nanos: None,
                    rate: 0.0,
                    nanos_per_read: 0.0,
                },
            ),
        }
    }
}

impl Adaptive {
    /// Bytes from which on values are separated.
    pub(crate) fn threshold(&self) -> u64 {
        1 << self.class.load(Ordering::Relaxed)
    }

    /// Takes in the values of a flush, and looks at the threshold if it is time; the decision, if it changed.
    pub(crate) fn flushed(
        &self,
        tally: &SizeTally,
        reads: BlobReadNumbers,
        now_nanos: u64,
        facts: &TreeFacts,
    ) -> Option<Decision> {
        let mut g = self.gathered.lock();
        for n in 0..SIZE_CLASSES {
            g.tally.values[n] += tally.values[n];
            g.tally.bytes[n] += tally.bytes[n];
        }
        let since = g.at_nanos.get_or_insert(now_nanos);
        let is_due = now_nanos.saturating_sub(*since) >= INTERVAL_NANOS
            || g.tally.bytes.iter().sum::<u64>() >= facts.interval_bytes();
        if !is_due {
            return None;
        }
        let class = self.class.load(Ordering::Relaxed) as usize;
        let new: [u64; SIZE_CLASSES] =
            std::array::from_fn(|n| reads.by_class[n].saturating_sub(g.reads.by_class[n]));
        let separated: u64 = g.tally.values[class..].iter().sum();
        g.rate = match separated {
            0 => g.rate / 2.0,
            values => new.iter().sum::<u64>() as f64 / values as f64,
        };
        let timed = reads.timed.saturating_sub(g.reads.timed);
        if timed > 0 {
            let nanos = reads.nanos.saturating_sub(g.reads.nanos);
            g.nanos_per_read = nanos as f64 / timed as f64;
        }
        let (next, (at, gain, loss)) =
            decide(class, &g.tally, &new, g.rate, facts, g.nanos_per_read);
        g.tally = SizeTally::default();
        g.reads = reads;
        g.at_nanos = Some(now_nanos);
        self.class.store(next as u64, Ordering::Relaxed);
        (next != class).then_some(Decision {
            threshold: 1 << next,
            before: 1 << class,
            class: 1 << at,
            gain,
            loss,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> TreeFacts {
        TreeFacts {
            total_bytes: 10 << 30,
            memtable_bytes: 64 << 20,
            base_bytes: 256 << 20,
            growth: 10.0,
            written_bytes: 6 << 30,
            flushed_bytes: 2 << 30,
            // 100 MB a second: 10 ns a byte.
            job_micros: 10_000_000,
            job_bytes: 1_000_000_000,
            garbage_bytes: 1 << 30,
            blob_bytes: 8 << 30,
        }
    }

    fn tally(sizes: &[(u64, u64)]) -> SizeTally {
        let mut tally = SizeTally::default();
        for &(len, values) in sizes {
            tally.values[size_class(len)] += values;
            tally.bytes[size_class(len)] += values * len;
        }
        tally
    }

    fn next(class: usize, sizes: &[(u64, u64)], read: &[(u64, u64)], rate: f64) -> usize {
        let mut reads = [0; SIZE_CLASSES];
        read.iter()
            .for_each(|&(len, n)| reads[size_class(len)] += n);
        decide(class, &tally(sizes), &reads, rate, &facts(), 100_000.0).0
    }

    #[test]
    fn a_load_without_reads_separates_smaller_values_step_by_step() {
        let load = [(300, 10_000), (1000, 10_000), (5000, 10_000)];
        assert_eq!(next(11, &load, &[], 0.0), 10);
        assert_eq!(next(10, &load, &[], 0.0), 9);
        assert_eq!(next(9, &load, &[], 0.0), 8);
        assert_eq!(next(8, &load, &[], 0.0), 8, "nothing smaller was met");
        // References to values of a few bytes cost more than the values.
        assert_eq!(next(8, &[(20, 10_000), (300, 10)], &[], 0.0), 8);
    }

    #[test]
    fn many_reads_bring_values_back_and_large_ones_stay() {
        let sizes = [(2500, 1000), (100_000, 1000)];
        // 2.5 KB × 12 × 10 ns is 0.3 ms saved a value; ten reads of 0.1 ms each cost more.
        assert_eq!(next(11, &sizes, &[(2500, 10_000)], 0.0), 12);
        assert_eq!(next(11, &sizes, &[(2500, 1000)], 0.0), 11);
        // 100 KB gain 12 ms: ten reads do not matter.
        assert_eq!(next(11, &sizes, &[(100_000, 10_000)], 0.0), 11);
        assert_eq!(
            next(12, &sizes, &[(100_000, 1000)], 10.0),
            12,
            "as often read: stay"
        );
        assert_eq!(
            next(12, &sizes, &[(100_000, 1000)], 0.5),
            11,
            "seldom read: enter"
        );
    }

    /// Values of 500 bytes gain 45.6 us each here (12 bytes written for each byte inline), and stay until reads take 60.8.
    #[test]
    fn small_values_that_scans_read_from_files_come_back_by_what_a_read_takes() {
        let tally = tally(&[(500, 1000)]);
        let (gain, _) = weigh(1000, 500_000, 0.0, &facts().costs(), 0.0);
        assert_eq!(gain as u64, 45_570_000);
        // From memory of the system, and from a device.
        for (nanos, stay, leave) in [(500.0, 121_000, 122_000), (100_000.0, 607, 608)] {
            for (read, expected) in [(stay, 8), (leave, 9)] {
                let mut reads = [0; SIZE_CLASSES];
                reads[8] = read;
                let next = decide(8, &tally, &reads, 0.0, &facts(), nanos).0;
                assert_eq!(next, expected, "{read} reads of {nanos} ns");
            }
        }
    }

    #[test]
    fn between_entering_and_leaving_nothing_changes() {
        let (gain, _) = weigh(1000, 2_500_000, 0.0, &facts().costs(), 100_000.0);
        let even = (gain / 100_000.0) as u64;
        for (share, entered, left) in [(70, 10, 11), (90, 11, 11), (110, 11, 11), (140, 11, 12)] {
            let reads = even * share / 100;
            let sizes = [(2500, 1000)];
            assert_eq!(next(11, &sizes, &[(2500, reads)], 0.0), left, "{share} %");
            let below = next(12, &sizes, &[], reads as f64 / 1000.0);
            assert_eq!(below == 11, entered == 10, "{share} %");
        }
    }

    #[test]
    fn it_is_looked_at_after_a_minute_or_a_gibibyte_and_tried_again_when_all_is_inline() {
        let adaptive = Adaptive::default();
        assert_eq!(adaptive.threshold(), 256);
        adaptive.class.store(11, Ordering::Relaxed);
        let none = BlobReadNumbers {
            by_class: [0; SIZE_CLASSES],
            timed: 0,
            nanos: 0,
        };
        let small = tally(&[(1100, 1000)]);
        assert_eq!(adaptive.flushed(&small, none, 5, &facts()), None);
        let soon = adaptive.flushed(&small, none, 6, &facts());
        assert_eq!((soon, adaptive.threshold()), (None, 2048));
        let due = adaptive.flushed(&small, none, 6 + INTERVAL_NANOS, &facts());
        let due = due.unwrap();
        assert_eq!((due.before, due.threshold, due.class), (2048, 1024, 1024));
        assert!(due.gain > 0.0 && due.loss == 0.0);
        // Read a hundred times each, at 0.1 ms: back they come.
        let mut read = none;
        read.by_class[10] = 200_000;
        (read.timed, read.nanos) = (1000, 100_000_000);
        let back = adaptive.flushed(&small, read, 6 + 2 * INTERVAL_NANOS, &facts());
        assert_eq!(back.unwrap().threshold, 2048);
        let mut tries = 0;
        while adaptive.threshold() == 2048 {
            tries += 1;
            let now = (10 + tries) * INTERVAL_NANOS;
            adaptive.flushed(&small, read, now, &facts());
            assert!(tries < 12);
        }
        assert!(tries > 3, "{tries}");
        // A gibibyte at once.
        let much = tally(&[(600, 2 << 20)]);
        assert!(adaptive.flushed(&much, read, 0, &facts()).is_some());
    }

    #[test]
    fn sixteen_memtables_are_an_interval_as_long_as_they_hold_less_than_a_gibibyte() {
        let of = |memtable_bytes| TreeFacts {
            memtable_bytes,
            ..facts()
        };
        assert_eq!(of(1 << 20).interval_bytes(), 16 << 20);
        assert_eq!(of(1 << 40).interval_bytes(), 1 << 30);
        let adaptive = Adaptive::default();
        let reads = BlobReadNumbers {
            by_class: [0; SIZE_CLASSES],
            timed: 0,
            nanos: 0,
        };
        let some = tally(&[(200, 1000)]);
        assert_eq!(adaptive.flushed(&some, reads, 5, &of(20_000)), None);
        assert!(adaptive.flushed(&some, reads, 6, &of(20_000)).is_some());
        assert_eq!(adaptive.threshold(), 128);
    }
}
