//! Describes what a job reads, counted as RocksDB counts it for listeners.
//!
//! An entry counts when it is looked at for itself. One that is read as part of another does not: operands and
//! values that are folded, values that a single delete cancels, what a deletion at the bottom passes over.

use crate::blob::{BlobIndex, RECORD_HEADER_LEN};
use spanlith_base::keys::{self, ValueType};

/// Sums over the input of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReadCounts {
    /// Bytes of internal keys.
    pub key_bytes: u64,
    /// Bytes of values as they stand in tables.
    pub value_bytes: u64,
    /// Deletions of single keys.
    pub deletions: u64,
    /// Values read from blob files, and bytes of their records.
    pub blobs: u64,
    pub blob_bytes: u64,
}

impl ReadCounts {
    /// Takes in an entry.
    pub(super) fn entry(&mut self, internal: &[u8], value: &[u8]) {
        self.key_bytes += internal.len() as u64;
        self.value_bytes += value.len() as u64;
        let kind = ValueType::from_byte(keys::tag_type(keys::tag(internal)));
        let is_deletion = kind.is_some_and(ValueType::is_point_deletion);
        self.deletions += u64::from(is_deletion);
    }

    /// Takes in a value of a blob file, of a key with so many bytes. It was read: its index decodes.
    pub(super) fn blob(&mut self, key_len: usize, index: &[u8]) {
        if let Ok(pointer) = BlobIndex::decode(index).and_then(|i| i.pointer()) {
            self.blobs += 1;
            self.blob_bytes += (RECORD_HEADER_LEN + key_len) as u64 + pointer.size;
        }
    }

    /// Takes in another part of the job.
    pub(crate) fn add(&mut self, other: &Self) {
        self.key_bytes += other.key_bytes;
        self.value_bytes += other.value_bytes;
        self.deletions += other.deletions;
        self.blobs += other.blobs;
        self.blob_bytes += other.blob_bytes;
    }
}
