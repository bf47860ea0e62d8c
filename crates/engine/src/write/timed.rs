//! Appends the time to what is written to families whose values have times (`ttl`).

use super::check::not_executed;
use crate::core::Engine;
use crate::ttl::{ValueTimes, append_time};
use crate::write::WriteOptions;
use spanlith_base::{Error, Result, SequenceNumber};
use spanlith_wal::{BatchOp, WriteBatch, verify_checksums};
use std::sync::Arc;

impl Engine {
    /// Writes the batch as it is stored; returns the sequence number of its first entry.
    #[cold]
    pub(super) fn write_batch_timed(
        self: &Arc<Self>,
        batch: &WriteBatch,
        times: &ValueTimes,
        options: &WriteOptions,
    ) -> Result<SequenceNumber> {
        let mut stored = WriteBatch::new();
        if batch.is_protected() {
            verify_checksums(batch.body(), batch.checksums())?;
            stored.protect()?;
        }
        stored.reserve(batch.as_bytes().len());
        let now = times.clock.now_seconds();
        let families = self.families.load_full();
        let is_timed = |cf| families.get(cf).is_none_or(|f| f.times.is_some());
        let mut timed = Vec::new();
        // Damage behind it is the graver fault.
        let mut not_supported = None;
        for op in batch.iter()? {
            let op = op?;
            match op {
                BatchOp::Put { cf, value, .. } | BatchOp::Merge { cf, value, .. }
                    if is_timed(cf) =>
                {
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
            None => self.write_batch_stored(&stored, 1, options),
            Some(e) => Err(e),
        }
    }
}

/// An entry that has a place of its own for a time, or for several values, has none for this one.
fn takes_values_only() -> Error {
    Error::not_supported("entities and values with a write time in a database with times to live")
}
