//! Describes what a version edit needs to know of a table, gathered while it is written.

use super::SeqnoTimes;
use crate::blob::each_reference;
use crate::version::{BlobRefs, NewFile};
use spanlith_base::range_del::OutputTombstone;
use spanlith_base::{Comparator, ValueType, keys};
use spanlith_table::{TableBuilder, properties};

/// Key and sequence bounds of a table while it is written.
///
/// Numbers that the builder of the table knows as well are taken from it at the end.
pub(crate) struct FileBounds {
    pub smallest: Vec<u8>,
    pub largest: Vec<u8>,
    pub smallest_seqno: u64,
    pub largest_seqno: u64,
    /// The blob file with the smallest number that the table refers to; 0 for none.
    oldest_blob_file: u64,
    /// Says what the table refers to, if that is recorded.
    blob_refs: Option<BlobRefs>,
    /// The smallest number that an entry wants to have at the bottom.
    smallest_preferred: u64,
    /// Bytes below the table that its range tombstones cover, by estimate.
    pub covered_bytes: u64,
    any: bool,
    /// The builder's keys may be others than those added.
    keeps_largest: bool,
}

impl FileBounds {
    /// For the table that `builder` writes.
    pub(crate) fn new(builder: &TableBuilder) -> Self {
        Self {
            smallest: Vec::new(),
            largest: Vec::new(),
            smallest_seqno: 0,
            largest_seqno: 0,
            oldest_blob_file: 0,
            blob_refs: None,
            smallest_preferred: u64::MAX,
            covered_bytes: 0,
            any: false,
            keeps_largest: !builder.keeps_keys(),
        }
    }

    /// Takes in the next entry, in order.
    #[inline]
    pub(crate) fn add(&mut self, internal_key: &[u8], value: &[u8]) {
        if keys::tag_type(keys::tag(internal_key)) >= ValueType::BlobIndex as u8 {
            self.note_blobs(internal_key, value);
        }
        if !self.any {
            self.any = true;
            self.smallest = internal_key.to_vec();
        }
        if self.keeps_largest {
            self.largest.clear();
            self.largest.extend_from_slice(internal_key);
        }
    }

    /// Takes the rest from the builder: after all entries, before the range tombstones.
    pub(crate) fn settle(&mut self, builder: &TableBuilder) {
        if !self.any {
            return;
        }
        if let Some(seqnos) = builder.seqnos() {
            (self.smallest_seqno, self.largest_seqno) = seqnos;
        }
        if !self.keeps_largest {
            self.largest = builder.last_key().to_vec();
        }
    }

    #[cold]
    fn note_blobs(&mut self, internal_key: &[u8], value: &[u8]) {
        if keys::tag_type(keys::tag(internal_key)) == ValueType::ValuePreferredSeqno as u8 {
            let preferred = keys::timed_number(value).unwrap_or(u64::MAX);
            self.smallest_preferred = self.smallest_preferred.min(preferred);
        }
        each_reference(internal_key, value, |file, bytes| {
            if let Some(refs) = &mut self.blob_refs {
                refs.add(file, bytes);
            }
            if self.oldest_blob_file == 0 || file < self.oldest_blob_file {
                self.oldest_blob_file = file;
            }
        });
    }

    /// Records what the table refers to in blob files, from the next entry on.
    pub(crate) fn record_blob_refs(&mut self) {
        self.blob_refs.get_or_insert_default();
    }

    /// Returns what the table refers to in blob files, if that is recorded and it refers to any.
    pub(crate) fn blob_refs(&self) -> Option<&BlobRefs> {
        self.blob_refs.as_ref().filter(|refs| !refs.is_empty())
    }

    /// Takes in a range tombstone of the table, after [`Self::settle`].
    pub(crate) fn add_tombstone(&mut self, comparator: &Comparator, tombstone: &OutputTombstone) {
        let (smallest, largest) = (&tombstone.smallest, &tombstone.largest);
        if !self.any {
            self.any = true;
            self.smallest.clone_from(smallest);
            self.largest.clone_from(largest);
            self.smallest_seqno = tombstone.seqno;
            self.largest_seqno = tombstone.seqno;
            return;
        }
        self.smallest_seqno = self.smallest_seqno.min(tombstone.seqno);
        self.largest_seqno = self.largest_seqno.max(tombstone.seqno);
        if comparator
            .compare_internal(smallest, &self.smallest)
            .is_lt()
        {
            self.smallest.clone_from(smallest);
        }
        if comparator.compare_internal(largest, &self.largest).is_gt() {
            self.largest.clone_from(largest);
        }
    }

    /// When the table's sequence numbers were assigned, as its property has it. After all else.
    pub(crate) fn encode_times(&self, times: &SeqnoTimes) -> Vec<u8> {
        let smallest = self.smallest_seqno.min(self.smallest_preferred);
        times.encode_part(smallest, self.largest_seqno)
    }

    /// The entry for a version edit.
    pub(crate) fn into_new_file(
        self,
        level: u32,
        number: u64,
        summary: &spanlith_table::TableSummary,
        ancester_time: u64,
        creation_time: u64,
    ) -> NewFile {
        let timestamp = |name| {
            let all = &summary.properties.user_collected;
            all.get(name)
                .filter(|_| self.any)
                .cloned()
                .unwrap_or_default()
        };
        NewFile {
            min_timestamp: timestamp(properties::TIMESTAMP_MIN),
            max_timestamp: timestamp(properties::TIMESTAMP_MAX),
            level,
            number,
            size: summary.file_size,
            smallest: self.smallest,
            largest: self.largest,
            smallest_seqno: self.smallest_seqno,
            largest_seqno: self.largest_seqno,
            oldest_ancester_time: ancester_time,
            file_creation_time: creation_time,
            unique_id: summary.unique_id,
            tail_size: summary.tail_size,
            marked_for_compaction: summary.needs_compaction,
            oldest_blob_file_number: self.oldest_blob_file,
            compensated_range_deletion_size: self.covered_bytes,
            user_defined_timestamps_persisted: summary.properties.user_defined_timestamps_persisted
                != Some(0),
            ..NewFile::default()
        }
    }
}
