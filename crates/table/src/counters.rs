//! Describes what a builder counts, for the properties of its table.

use spanlith_base::keys::{self, ValueType};
use spanlith_base::{Error, Result};

/// Counters that end up in the properties.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) entries: u64,
    pub(crate) deletions: u64,
    pub(crate) range_deletions: u64,
    pub(crate) merges: u64,
    pub(crate) key_bytes: u64,
    pub(crate) value_bytes: u64,
    /// Bytes of data blocks before they were compressed.
    pub(crate) raw_block_bytes: u64,
    pub(crate) data_blocks: u64,
    pub(crate) rejected: u64,
    pub(crate) bypassed: u64,
    /// `u64::MAX` without entries.
    pub(crate) smallest_seqno: u64,
    /// 0 without entries.
    pub(crate) largest_seqno: u64,
}

impl Counters {
    /// Nothing counted yet.
    pub(crate) fn new() -> Self {
        Self {
            smallest_seqno: u64::MAX,
            ..Self::default()
        }
    }

    /// Takes in the sequence number of an entry.
    #[inline]
    pub(crate) fn note_seqno(&mut self, seqno: u64) {
        self.smallest_seqno = self.smallest_seqno.min(seqno);
        self.largest_seqno = self.largest_seqno.max(seqno);
    }

    /// Smallest and largest sequence number; `None` without entries.
    pub(crate) fn seqnos(&self) -> Option<(u64, u64)> {
        (self.entries > 0).then_some((self.smallest_seqno, self.largest_seqno))
    }

    /// Counts an entry.
    ///
    /// # Errors
    /// `NotSupported` for entry types this build does not write.
    // A call of its own costs a sixth of what adding an entry takes.
    #[inline(always)]
    pub(crate) fn count(&mut self, tag: u64, key_len: usize, value_len: usize) -> Result<()> {
        match ValueType::from_byte(keys::tag_type(tag)) {
            Some(
                ValueType::Value
                | ValueType::BlobIndex
                | ValueType::WideColumnEntity
                | ValueType::ValuePreferredSeqno,
            ) => {}
            Some(
                ValueType::Deletion | ValueType::SingleDeletion | ValueType::DeletionWithTimestamp,
            ) => self.deletions += 1,
            Some(ValueType::Merge) => self.merges += 1,
            other => {
                return Err(Error::not_supported("writing this entry type")
                    .with("type", format!("{other:?}")));
            }
        }
        self.entries += 1;
        self.key_bytes += key_len as u64;
        self.value_bytes += value_len as u64;
        self.note_seqno(keys::tag_sequence(tag));
        Ok(())
    }
}
