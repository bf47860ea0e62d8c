//! Appends the time to what is written to families whose values have times (`ttl`).

use super::check::not_executed;
use crate::core::FamilySet;
use crate::ttl::{ValueTimes, append_time};
use spanlith_base::{Error, Result};
use spanlith_wal::{BatchOp, WriteBatch, verify_checksums};

/// Returns the batch as it is stored, with the time of now after the values of the families that have times.
///
/// # Errors
/// `NotSupported` for an entry that has no value to add a time to; those of a damaged batch.
#[cold]
pub(super) fn timed_batch(
    batch: &WriteBatch,
    times: &ValueTimes,
    families: &FamilySet,
) -> Result<WriteBatch> {
    let mut stored = WriteBatch::new();
    if batch.is_protected() {
        verify_checksums(batch.body(), batch.checksums())?;
        stored.protect()?;
    }
    stored.reserve(batch.as_bytes().len());
    let now = times.clock.now_seconds();
    let is_timed = |cf| families.get(cf).is_none_or(|f| f.times.is_some());
    let mut timed = Vec::new();
    // Damage after it is the graver fault.
    let mut not_supported = None;
    for op in batch.iter()? {
        let op = op?;
        match op {
            BatchOp::Put { cf, value, .. } | BatchOp::Merge { cf, value, .. } if is_timed(cf) => {
                timed.clear();
                timed.extend_from_slice(value);
                append_time(&mut timed, now);
            }
            _ => {}
        }
        match op {
            BatchOp::Put { cf, key, .. } if is_timed(cf) => stored.put_cf(cf, key, &timed)?,
            BatchOp::Put { cf, key, value } => stored.put_cf(cf, key, value)?,
            BatchOp::Merge { cf, key, .. } if is_timed(cf) => {
                stored.merge_cf(cf, key, &timed)?;
            }
            BatchOp::Merge { cf, key, value } => stored.merge_cf(cf, key, value)?,
            BatchOp::Delete { cf, key } => stored.delete_cf(cf, key)?,
            BatchOp::SingleDelete { cf, key } => stored.single_delete_cf(cf, key)?,
            BatchOp::DeleteRange { cf, begin, end } => {
                stored.delete_range_cf(cf, begin, end)?;
            }
            BatchOp::LogData { blob } => stored.put_log_data(blob)?,
            BatchOp::Noop => {}
            BatchOp::WideColumnEntity { .. } | BatchOp::ValuePreferredSeqno { .. } => {
                not_supported.get_or_insert_with(takes_values_only);
            }
            other => {
                not_supported.get_or_insert_with(|| not_executed(&other));
            }
        }
    }
    match not_supported {
        None => Ok(stored),
        Some(e) => Err(e),
    }
}

/// An entry that has a place of its own for a time, or for several values, has none for this one.
fn takes_values_only() -> Error {
    Error::not_supported("entities and values with a write time in a database with times to live")
}
