//! Checksums of entries: whether a batch still says what was put into it.
//!
//! A protected batch keeps 64 bits for each counted entry, taken from the arguments before they are
//! copied. Whoever applies the batch compares them with what it decodes. They are neither logged nor
//! stored.

use super::WriteBatch;
use crate::batch_iter::{BatchIter, BatchOp, tag};
use spanlith_base::checksum::xxh3_64;
use spanlith_base::{Error, Result};

/// The checksum of an entry of kind `kind` (the tag of the default family).
pub(super) fn checksum(kind: u8, cf: u32, first: &[u8], second: &[u8]) -> u64 {
    let place = (u64::from(cf) << 8) | u64::from(kind);
    let mut all = [0; 24];
    let parts = [place, xxh3_64(first), xxh3_64(second)];
    for (into, part) in all.chunks_exact_mut(8).zip(parts) {
        into.copy_from_slice(&part.to_le_bytes());
    }
    xxh3_64(&all)
}

/// The checksum of a counted entry.
fn of_entry(op: &BatchOp<'_>) -> Option<u64> {
    let (kind, cf, first, second): (_, _, _, &[u8]) = match *op {
        BatchOp::Put { cf, key, value } => (tag::VALUE, cf, key, value),
        BatchOp::Delete { cf, key } => (tag::DELETION, cf, key, &[]),
        BatchOp::SingleDelete { cf, key } => (tag::SINGLE_DELETION, cf, key, &[]),
        BatchOp::Merge { cf, key, value } => (tag::MERGE, cf, key, value),
        BatchOp::DeleteRange { cf, begin, end } => (tag::RANGE_DELETION, cf, begin, end),
        BatchOp::BlobIndex { cf, key, index } => (tag::BLOB_INDEX, cf, key, index),
        BatchOp::WideColumnEntity { cf, key, entity } => (tag::WIDE_COLUMN_ENTITY, cf, key, entity),
        BatchOp::ValuePreferredSeqno { cf, key, value } => {
            (tag::VALUE_PREFERRED_SEQNO, cf, key, value)
        }
        _ => return None,
    };
    Some(checksum(kind, cf, first, second))
}

/// The checksums of the counted entries of a batch without its header.
///
/// # Errors
/// `Corruption` if it does not decode.
pub fn entry_checksums(body: &[u8]) -> Result<Vec<u64>> {
    let mut sums = Vec::new();
    for op in BatchIter::entries(body) {
        sums.extend(of_entry(&op?));
    }
    Ok(sums)
}

/// Compares the entries of a batch without its header with their checksums.
///
/// # Errors
/// `Corruption` if they differ.
pub fn verify_checksums(body: &[u8], sums: &[u64]) -> Result<()> {
    match entry_checksums(body)? == sums {
        true => Ok(()),
        false => Err(Error::corruption("ProtectionInfo mismatch")),
    }
}

impl WriteBatch {
    /// Keeps checksums of the entries from now on, and of those it has.
    ///
    /// # Errors
    /// `Corruption` if the batch does not decode.
    pub fn protect(&mut self) -> Result<()> {
        if self.checksums.is_none() {
            self.checksums = Some(entry_checksums(self.body())?);
        }
        Ok(())
    }

    /// The checksums of its counted entries in order; none if it keeps none.
    pub fn checksums(&self) -> &[u64] {
        self.checksums.as_deref().unwrap_or_default()
    }

    /// Returns whether it keeps checksums.
    pub fn is_protected(&self) -> bool {
        self.checksums.is_some()
    }

    /// Adds the checksums of entries that were appended.
    pub(super) fn protect_appended(&mut self, body: &[u8], sums: &[u64]) -> Result<()> {
        if let Some(own) = &mut self.checksums {
            match sums {
                [] => own.extend(entry_checksums(body)?),
                sums => own.extend_from_slice(sums),
            }
        }
        Ok(())
    }
}
