//! Dropping what was written after a timestamp: a database whose newest writes count no more is opened so
//! ([`OpenBuilder::open_and_trim_history`](crate::OpenBuilder::open_and_trim_history)).
//!
//! A compaction with a [`Trim`] passes over all versions with later timestamps, whatever kind they are, and the range
//! tombstones among them. What is left stands as if they had never been written.

use super::manual::{BottommostCompaction, CompactRangeOptions};
use crate::core::Family;
use crate::options::CompactionStyle;
use spanlith_base::range_del::{FragmentedTombstones, RangeTombstone};
use spanlith_base::{Comparator, Error, Result};
use std::sync::Arc;

/// The last timestamp that counts.
#[derive(Clone, Debug)]
pub(crate) struct Trim {
    after: Arc<[u8]>,
}

impl Trim {
    /// Drops what is later than `timestamp`, in a family.
    ///
    /// # Errors
    /// `InvalidArgument` if its timestamps have another length; `NotSupported` if its tables have none, or if its
    /// compactions do not rewrite all tables.
    pub(crate) fn of(family: &Family, timestamp: &[u8]) -> Result<Self> {
        let settings = family.settings();
        let size = family.comparator.timestamp_size();
        if timestamp.len() != size {
            return Err(Error::invalid_argument(format!(
                "trim_ts has {} bytes, timestamps of column family '{}' have {size}",
                timestamp.len(),
                family.name
            )));
        }
        if !settings.options.persist_user_defined_timestamps {
            return Err(Error::not_supported(format!(
                "trimming the history of column family '{}', whose tables have no timestamps",
                family.name
            )));
        }
        match settings.levels.style {
            CompactionStyle::Level | CompactionStyle::Universal => Ok(Self::after(timestamp)),
            CompactionStyle::Fifo | CompactionStyle::None => Err(Error::not_supported(format!(
                "trimming the history of column family '{}', whose compactions do not rewrite all tables",
                family.name
            ))),
        }
    }

    /// How all tables of a family are rewritten without what goes.
    pub(crate) fn options() -> CompactRangeOptions {
        CompactRangeOptions {
            exclusive: true,
            bottommost: BottommostCompaction::Force,
            ..CompactRangeOptions::default()
        }
    }

    /// Drops what is later than `timestamp`. Requires: as many bytes as timestamps of the family have.
    fn after(timestamp: &[u8]) -> Self {
        Self {
            after: timestamp.into(),
        }
    }

    /// Returns whether a version goes, by its user key.
    pub(crate) fn drops(&self, comparator: &Comparator, user_key: &[u8]) -> bool {
        let (_, timestamp) = comparator.split_timestamp(user_key);
        self.is_later(comparator, timestamp)
    }

    fn is_later(&self, comparator: &Comparator, timestamp: &[u8]) -> bool {
        comparator.compare_timestamp(timestamp, &self.after).is_gt()
    }

    /// The tombstones of a table without those that go.
    pub(crate) fn tombstones(&self, all: &Arc<FragmentedTombstones>) -> Arc<FragmentedTombstones> {
        let comparator = all.comparator();
        let kept = all.iter().flat_map(|fragment| {
            let kept = fragment.seqnos.iter().enumerate();
            let kept = kept.map(move |(at, &seqno)| (seqno, fragment.timestamp(at)));
            kept.filter(|(_, timestamp)| !self.is_later(comparator, timestamp))
                .map(move |(seqno, timestamp)| {
                    let bound = |key: &[u8]| [key, timestamp].concat();
                    (bound(fragment.start), bound(fragment.end), seqno)
                })
        });
        let kept: Vec<(Vec<u8>, Vec<u8>, u64)> = kept.collect();
        let tombstones = kept.iter().map(|(start, end, seqno)| RangeTombstone {
            start,
            end,
            seqno: *seqno,
        });
        Arc::new(FragmentedTombstones::build(comparator, tombstones))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str, timestamp: u64) -> Vec<u8> {
        [text.as_bytes(), &timestamp.to_le_bytes()].concat()
    }

    #[test]
    fn what_is_later_goes_and_what_is_not_stays() {
        let order = Comparator::from_name("leveldb.BytewiseComparator.u64ts").unwrap();
        let trim = Trim::after(&300u64.to_le_bytes());
        assert!(!trim.drops(&order, &key("a", 300)));
        assert!(trim.drops(&order, &key("a", 301)));
        // By value, not by bytes.
        assert!(!trim.drops(&order, &key("a", 255)));
        let bounds = [(300, 7), (301, 9), (5, 2)]
            .map(|(timestamp, seqno)| (key("b", timestamp), key("f", timestamp), seqno));
        let written = bounds.iter().map(|(start, end, seqno)| RangeTombstone {
            start,
            end,
            seqno: *seqno,
        });
        let all = Arc::new(FragmentedTombstones::build(&order, written));
        let kept = trim.tombstones(&all);
        let seqnos: Vec<u64> = kept.iter().flat_map(|f| f.seqnos.to_vec()).collect();
        assert_eq!(seqnos, [7, 2]);
    }
}
