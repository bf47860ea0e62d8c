//! An entry that no file could hold is refused before it is written anywhere: once it was acknowledged, no flush
//! could take it, and writes would be refused for ever.

use spanlith_base::keys::ENTRY_MAX;
use spanlith_base::{Error, Result};
use spanlith_wal::{BatchIter, BatchOp, COMPRESSED_RECORD_MAX};

/// Refuses an entry that no table could hold.
#[inline]
pub(super) fn check_entry(key: &[u8], value: &[u8]) -> Result<()> {
    match key.len().saturating_add(value.len()) > ENTRY_MAX {
        true => Err(too_large(key, value)),
        false => Ok(()),
    }
}

#[cold]
fn too_large(key: &[u8], value: &[u8]) -> Error {
    match value.len() < key.len() {
        true => Error::invalid_argument("key is too large").with("length", key.len()),
        false => Error::invalid_argument("value is too large").with("length", value.len()),
    }
}

/// Refuses a batch with such an entry, and one that is too long for a compressed log.
#[inline]
pub(super) fn check_batch_size(rep: &[u8], is_log_compressed: bool) -> Result<()> {
    // Up to that length it holds nothing that is too large.
    match rep.len() > ENTRY_MAX {
        true => check_large_batch(rep, is_log_compressed),
        false => Ok(()),
    }
}

#[cold]
fn check_large_batch(rep: &[u8], is_log_compressed: bool) -> Result<()> {
    if is_log_compressed && rep.len() > COMPRESSED_RECORD_MAX {
        return Err(
            Error::invalid_argument("batch is too large for a compressed log")
                .with("length", rep.len()),
        );
    }
    for op in BatchIter::new(rep)? {
        match op? {
            BatchOp::Put { key, value, .. }
            | BatchOp::Merge { key, value, .. }
            | BatchOp::ValuePreferredSeqno { key, value, .. } => check_entry(key, value)?,
            BatchOp::WideColumnEntity { key, entity, .. } => check_entry(key, entity)?,
            BatchOp::DeleteRange { begin, end, .. } => check_entry(begin, end)?,
            BatchOp::Delete { key, .. } | BatchOp::SingleDelete { key, .. } => {
                check_entry(key, &[])?;
            }
            _ => {}
        }
    }
    Ok(())
}
