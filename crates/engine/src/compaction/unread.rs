//! Inputs that need not be read: one range tombstone among the other inputs, or several that touch, deletes
//! all they hold, for every reader.
//!
//! Their entries would be dropped one by one, so the outputs are the same. Their own range tombstones take part as
//! ever. A table that refers to blob files is read, since its references are counted as garbage one by one. Entries
//! count as read and covered, by the table's properties.

use super::work::Work;
use crate::core::Family;
use crate::picker::CompactionPlan;
use crate::version::FileMeta;
use spanlith_base::range_del::{Place, TruncatedTombstones};
use spanlith_base::{Comparator, Result, SequenceNumber};
use std::cmp::Ordering;
use std::collections::BTreeSet;

/// The inputs of a job that are not read, and what is in them.
#[derive(Debug, Default)]
pub(super) struct Unread {
    numbers: BTreeSet<u64>,
    entries: u64,
    deletions: u64,
    key_bytes: u64,
    value_bytes: u64,
}

impl Unread {
    /// Of a plan whose inputs were opened; every reader sees what has a number of at most `oldest`. All inputs of a family
    /// with compaction filters are read: filters are asked about covered entries too.
    pub(super) fn of(
        plan: &CompactionPlan,
        family: &Family,
        oldest: SequenceNumber,
    ) -> Result<Self> {
        let mut this = Self::default();
        let c = &family.comparator;
        if c.timestamp_size() != 0 || family.filters.is_set() {
            return Ok(this);
        }
        let with_tombstones = plan.input_files().filter(|f| f.tombstones.get().is_some());
        let above: Vec<(u64, TruncatedTombstones)> = with_tombstones
            .filter_map(|f| Some((f.number, f.truncated_tombstones()?)))
            .collect();
        if above.is_empty() {
            return Ok(this);
        }
        let below = plan.inputs.iter().filter(|(level, _)| *level > 0);
        for file in below.flat_map(|(_, files)| files) {
            let deletes = |(number, tombstones): &(u64, TruncatedTombstones)| {
                *number != file.number && covers(tombstones, file, oldest, c)
            };
            if file.oldest_blob_file_number == 0 && above.iter().any(deletes) {
                this.add(file, family)?;
            }
        }
        Ok(this)
    }

    fn add(&mut self, file: &FileMeta, family: &Family) -> Result<()> {
        let reader = family.cache.reader(file)?;
        let p = reader.properties();
        self.numbers.insert(file.number);
        self.entries += p.num_entries.saturating_sub(p.num_range_deletions);
        self.deletions += p.num_deletions.saturating_sub(p.num_range_deletions);
        self.key_bytes += p.raw_key_size;
        self.value_bytes += p.raw_value_size;
        Ok(())
    }

    /// Returns whether a file is not read.
    pub(super) fn holds(&self, file: &FileMeta) -> bool {
        self.numbers.contains(&file.number)
    }

    /// Entries in the files.
    pub(super) fn entries(&self) -> u64 {
        self.entries
    }

    /// Counts them as if they had been read.
    pub(super) fn count_in(&self, work: &mut Work) {
        work.entries_in = work.entries_in.map(|read| read + self.entries);
        work.dropped.covered += self.entries;
        work.counts.deletions += self.deletions;
        work.counts.key_bytes += self.key_bytes;
        work.counts.value_bytes += self.value_bytes;
    }
}

/// Returns whether tombstones that act without a gap from the first key of `file` to after its last one are all newer than
/// what it holds, and seen by every reader.
fn covers(
    tombstones: &TruncatedTombstones,
    file: &FileMeta,
    oldest: SequenceNumber,
    c: &Comparator,
) -> bool {
    let first = Place::of_smallest(&file.smallest);
    let last = Place::of_largest(&file.largest, c);
    let mut covered = first;
    // The next ones end later, one after the other.
    for at in tombstones.first_ending_after(&first)..tombstones.len() {
        let fragment = tombstones.get(at);
        let deletes = fragment
            .visible(oldest, None, c)
            .is_some_and(|n| fragment.seqnos[n] > file.largest_seqno);
        if !deletes || tombstones.start(at).compare(&covered, c) == Ordering::Greater {
            return false;
        }
        covered = tombstones.end(at);
        match (covered.compare(&last, c), last) {
            (Ordering::Greater, _) | (Ordering::Equal, Place::Before(_)) => return true,
            _ => {}
        }
    }
    false
}
