//! YCSB's parts that know no store: which records exist, mixes, and how a record is laid out.

use super::Distribution;
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Which records exist: numbers are claimed, inserted, then acknowledged, and only those below every
/// number that is not are asked for.
#[derive(Debug, Default)]
pub struct Records {
    claimed: AtomicU64,
    /// Records that can be asked for. Publishes nothing: the database orders reads after writes.
    there: AtomicU64,
    /// Acknowledged before a lower number was.
    early: Mutex<BTreeSet<u64>>,
}

impl Records {
    /// Records `0..count` exist.
    pub fn reset(&self, count: u64) {
        self.claimed.store(count, Ordering::Relaxed);
        self.there.store(count, Ordering::Relaxed);
        self.early().clear();
    }

    /// Forgets numbers that were claimed in vain; between benchmarks only.
    pub fn settle(&self) {
        self.reset(self.count());
    }

    fn early(&self) -> std::sync::MutexGuard<'_, BTreeSet<u64>> {
        self.early
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Records that can be asked for.
    pub fn count(&self) -> u64 {
        self.there.load(Ordering::Relaxed)
    }

    /// A number that nobody else inserts.
    pub fn claim(&self) -> u64 {
        self.claimed.fetch_add(1, Ordering::Relaxed)
    }

    /// Says that record `n` is there.
    pub fn acknowledge(&self, n: u64) {
        let mut early = self.early();
        early.insert(n);
        let mut next = self.count();
        while early.remove(&next) {
            next += 1;
        }
        self.there.store(next, Ordering::Relaxed);
    }
}

/// Shares of operations, in percent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mix {
    /// Reads of a record.
    pub read: u64,
    /// Changes of a record.
    pub update: u64,
    /// New records.
    pub insert: u64,
    /// Scans.
    pub scan: u64,
    /// Reads followed by a change of the same record.
    pub modify: u64,
}

/// The workloads by letter: their mixes, and which records they ask for.
pub const WORKLOADS: [(char, Mix, Distribution); 7] = [
    (
        'a',
        Mix {
            update: 50,
            ..Mix::reads(50)
        },
        Distribution::Zipfian,
    ),
    (
        'b',
        Mix {
            update: 5,
            ..Mix::reads(95)
        },
        Distribution::Zipfian,
    ),
    ('c', Mix::reads(100), Distribution::Zipfian),
    (
        'd',
        Mix {
            insert: 5,
            ..Mix::reads(95)
        },
        Distribution::Latest,
    ),
    (
        'e',
        Mix {
            scan: 95,
            insert: 5,
            ..Mix::reads(0)
        },
        Distribution::Zipfian,
    ),
    (
        'f',
        Mix {
            modify: 50,
            ..Mix::reads(50)
        },
        Distribution::Zipfian,
    ),
    (
        'w',
        Mix {
            update: 100,
            ..Mix::reads(0)
        },
        Distribution::Zipfian,
    ),
];

impl Mix {
    /// Reads only.
    const fn reads(read: u64) -> Self {
        Self {
            read,
            update: 0,
            insert: 0,
            scan: 0,
            modify: 0,
        }
    }

    /// The mix and the distribution of a workload; `None` for a letter that is none.
    pub fn of(letter: char) -> Option<(Self, Distribution)> {
        let row = WORKLOADS.iter().find(|w| w.0 == letter)?;
        Some((row.1, row.2))
    }
}

fn field_name(n: u64) -> String {
    format!("field{n}")
}

/// Where the content of each field lies in a record.
#[derive(Clone, Debug)]
pub struct Layout {
    /// A record with empty contents, ready to be filled.
    pub blank: Vec<u8>,
    /// Where contents begin.
    pub offsets: Vec<usize>,
    length: usize,
}

impl Layout {
    /// Of so many fields of a length.
    pub fn new(fields: u64, length: usize) -> Self {
        let (mut blank, mut offsets) = (Vec::new(), Vec::new());
        for n in 0..fields {
            let name = field_name(n);
            blank.extend_from_slice(&(name.len() as u32).to_be_bytes());
            blank.extend_from_slice(name.as_bytes());
            blank.extend_from_slice(&(length as u32).to_be_bytes());
            offsets.push(blank.len());
            blank.resize(blank.len() + length, 0);
        }
        Self {
            blank,
            offsets,
            length,
        }
    }

    /// Sets the content of a field.
    pub fn set(&self, record: &mut [u8], field: usize, content: &[u8]) {
        let at = self.offsets[field];
        record[at..at + self.length].copy_from_slice(content);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixes_are_whole() {
        for (letter, m, _) in WORKLOADS {
            let sum = m.read + m.update + m.insert + m.scan + m.modify;
            assert_eq!(sum, 100, "{letter}");
        }
        assert_eq!(Mix::of('d').map(|m| m.1), Some(Distribution::Latest));
        assert_eq!(Mix::of('x'), None);
    }

    #[test]
    fn a_record_is_names_and_contents_with_their_lengths() {
        let layout = Layout::new(2, 3);
        let mut record = layout.blank.clone();
        layout.set(&mut record, 0, b"abc");
        layout.set(&mut record, 1, b"xyz");
        assert_eq!(
            record,
            b"\0\0\0\x06field0\0\0\0\x03abc\0\0\0\x06field1\0\0\0\x03xyz"
        );
    }

    #[test]
    fn records_are_asked_for_once_all_before_them_are_there() {
        let records = Records::default();
        records.reset(10);
        let (a, b) = (records.claim(), records.claim());
        records.acknowledge(b);
        assert_eq!(records.count(), 10);
        records.acknowledge(a);
        assert_eq!((a, b, records.count()), (10, 11, 12));
        records.claim();
        records.settle();
        assert_eq!((records.claim(), records.count()), (12, 12));
    }
}
