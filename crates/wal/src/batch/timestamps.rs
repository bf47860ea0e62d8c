//! User-defined timestamps in a batch: the last bytes of a key.
//!
//! Nothing in a batch says how long the timestamps of a family are; the caller does. A range deletion
//! carries one after each of its two keys.

use super::{ContentFlags, KEY_SIZE_MAX, WriteBatch, entry_checksums, too_long, verify_checksums};
use crate::batch_iter::{BatchIter, BatchOp};
use spanlith_base::{Error, Result};
use std::ops::Range;

impl WriteBatch {
    /// Sets `key` at timestamp `ts` to `value`.
    ///
    /// # Errors
    /// As [`Self::put_cf`].
    pub fn put_cf_at(&mut self, cf: u32, key: &[u8], ts: &[u8], value: &[u8]) -> Result<()> {
        self.put_cf(cf, &join(key, ts)?, value)
    }

    /// Deletes `key` as of timestamp `ts`.
    ///
    /// # Errors
    /// As [`Self::put_cf`].
    pub fn delete_cf_at(&mut self, cf: u32, key: &[u8], ts: &[u8]) -> Result<()> {
        self.delete_cf(cf, &join(key, ts)?)
    }

    /// Deletes `key`, which was put once, as of timestamp `ts`.
    ///
    /// # Errors
    /// As [`Self::put_cf`].
    pub fn single_delete_cf_at(&mut self, cf: u32, key: &[u8], ts: &[u8]) -> Result<()> {
        self.single_delete_cf(cf, &join(key, ts)?)
    }

    /// Adds a merge operand at timestamp `ts`.
    ///
    /// # Errors
    /// As [`Self::put_cf`].
    pub fn merge_cf_at(&mut self, cf: u32, key: &[u8], ts: &[u8], operand: &[u8]) -> Result<()> {
        self.merge_cf(cf, &join(key, ts)?, operand)
    }

    /// Deletes the keys from `begin` up to, not including, `end`, as of timestamp `ts`.
    ///
    /// # Errors
    /// As [`Self::put_cf`]; both are keys.
    pub fn delete_range_cf_at(
        &mut self,
        cf: u32,
        begin: &[u8],
        end: &[u8],
        ts: &[u8],
    ) -> Result<()> {
        self.delete_range_cf(cf, &join(begin, ts)?, &join(end, ts)?)
    }

    /// Says that some keys were added with the place of a timestamp, to be set by
    /// [`Self::update_timestamps`] before the batch may be written. Lasts, as in RocksDB, though the keys be
    /// rolled back.
    pub fn mark_lacking_timestamps(&mut self) {
        self.lacks_timestamps = true;
    }

    /// Returns whether timestamps have to be set before the batch is written.
    #[inline]
    pub fn lacks_timestamps(&self) -> bool {
        self.lacks_timestamps
    }

    /// Overwrites the timestamps of all keys of those families for which `size_of` says a size;
    /// 0 leaves a family as it is.
    ///
    /// # Errors
    /// `NotFound` for a family that `size_of` does not know, `InvalidArgument` if `ts` is empty
    /// or not of a family's size, `Corruption` if a key is shorter than its timestamp. The batch is unchanged
    /// then.
    pub fn update_timestamps(
        &mut self,
        ts: &[u8],
        size_of: impl Fn(u32) -> Option<usize>,
    ) -> Result<()> {
        if self.is_protected() {
            verify_checksums(self.body(), self.checksums())?;
        }
        let mut places = Vec::new();
        for op in BatchIter::entries(self.body()) {
            let op = op?;
            let Some(cf) = op.cf() else { continue };
            if ts.is_empty() {
                return Err(Error::invalid_argument("Timestamp is empty"));
            }
            match size_of(cf) {
                None => return Err(Error::not_found("")),
                Some(0) => continue,
                Some(size) if size != ts.len() => {
                    return Err(Error::invalid_argument("timestamp size mismatch"));
                }
                Some(size) => {
                    for key in keys_of(&op).into_iter().flatten() {
                        if key.len() < size {
                            return Err(Error::corruption("key is shorter than its timestamp"));
                        }
                        let key = place_in(&self.rep, key);
                        places.push(key.end - size..key.end);
                    }
                }
            }
        }
        for place in places {
            if let Some(bytes) = self.rep.get_mut(place) {
                bytes.copy_from_slice(ts);
            }
        }
        if self.is_protected() {
            self.checksums = Some(entry_checksums(self.body())?);
        }
        self.lacks_timestamps = false;
        Ok(())
    }
}

fn join(key: &[u8], ts: &[u8]) -> Result<Vec<u8>> {
    if (key.len() + ts.len()) as u64 > KEY_SIZE_MAX {
        return Err(too_long("key is too large"));
    }
    let mut joined = Vec::with_capacity(key.len() + ts.len());
    joined.extend_from_slice(key);
    joined.extend_from_slice(ts);
    Ok(joined)
}

/// Where `part`, which was borrowed from `whole`, stands in it.
fn place_in(whole: &[u8], part: &[u8]) -> Range<usize> {
    let start = part.as_ptr().addr() - whole.as_ptr().addr();
    start..start + part.len()
}

/// The user keys, with timestamps, of an entry.
fn keys_of<'a>(op: &BatchOp<'a>) -> [Option<&'a [u8]>; 2] {
    match *op {
        BatchOp::Put { key, .. }
        | BatchOp::Delete { key, .. }
        | BatchOp::SingleDelete { key, .. }
        | BatchOp::Merge { key, .. }
        | BatchOp::BlobIndex { key, .. }
        | BatchOp::WideColumnEntity { key, .. }
        | BatchOp::ValuePreferredSeqno { key, .. } => [Some(key), None],
        BatchOp::DeleteRange { begin, end, .. } => [Some(begin), Some(end)],
        _ => [None, None],
    }
}

/// Describes what has to happen to the keys of a family.
#[derive(Clone, Copy)]
enum Change {
    Keep,
    Strip(usize),
    Pad(usize),
}

/// Rewrites a batch from a log whose timestamps were of other sizes than they are now: where a family
/// has none any more they are cut off, where it has them only now the smallest one (zeros) is added.
///
/// `recorded` says the size that the log records for a family (`None`: none recorded), `running`
/// the size now (`None`: there is no such family, and its entries stay as they are). `None` comes
/// back if the batch is right as it is.
///
/// # Errors
/// `InvalidArgument` if both sizes are not zero and differ; `Corruption` if the batch does not decode
/// or a key is shorter than its timestamp.
pub fn reconcile_timestamps(
    rep: &[u8],
    recorded: impl Fn(u32) -> Option<usize>,
    running: impl Fn(u32) -> Option<usize>,
) -> Result<Option<WriteBatch>> {
    let change = |cf: u32| match (running(cf), recorded(cf)) {
        (None, _) | (Some(0), None | Some(0)) => Ok(Change::Keep),
        (Some(0), Some(was)) => Ok(Change::Strip(was)),
        (Some(now), None) => Ok(Change::Pad(now)),
        (Some(now), Some(was)) if now == was => Ok(Change::Keep),
        _ => Err(Error::invalid_argument(
            "WriteBatch contains unrecoverable timestamp size inconsistency.",
        )),
    };
    let mut needed = false;
    for op in BatchIter::new(rep)? {
        if let Some(cf) = op?.cf() {
            needed |= !matches!(change(cf)?, Change::Keep);
        }
    }
    if !needed {
        return Ok(None);
    }
    let mut out = WriteBatch::with_limits(rep.len(), 0);
    let mut iter = BatchIter::new(rep)?;
    out.set_sequence(iter.sequence());
    let mut before = iter.rest();
    while let Some(op) = iter.next() {
        let op = op?;
        let raw = before
            .get(..before.len() - iter.rest().len())
            .unwrap_or_default();
        before = iter.rest();
        let change = op.cf().map_or(Ok(Change::Keep), change)?;
        if matches!(change, Change::Keep) {
            out.rep.extend_from_slice(raw);
            if op.is_counted() {
                out.set_count(out.count() + 1);
            }
            out.flags.0 |= ContentFlags::of(&op);
            continue;
        }
        push_changed(&mut out, &op, change)?;
    }
    Ok(Some(out))
}

fn push_changed(out: &mut WriteBatch, op: &BatchOp<'_>, change: Change) -> Result<()> {
    let changed = |key: &[u8]| match change {
        Change::Keep => Ok(key.to_vec()),
        Change::Pad(size) => join(key, &vec![0; size]),
        Change::Strip(size) => key
            .len()
            .checked_sub(size)
            .and_then(|len| key.get(..len))
            .map(<[u8]>::to_vec)
            .ok_or_else(|| Error::corruption("key is shorter than its timestamp")),
    };
    match *op {
        BatchOp::Put { cf, key, value } => out.put_cf(cf, &changed(key)?, value),
        BatchOp::Delete { cf, key } => out.delete_cf(cf, &changed(key)?),
        BatchOp::SingleDelete { cf, key } => out.single_delete_cf(cf, &changed(key)?),
        BatchOp::Merge { cf, key, value } => out.merge_cf(cf, &changed(key)?, value),
        BatchOp::DeleteRange { cf, begin, end } => {
            out.delete_range_cf(cf, &changed(begin)?, &changed(end)?)
        }
        BatchOp::BlobIndex { cf, key, index } => out.put_blob_index_cf(cf, &changed(key)?, index),
        BatchOp::WideColumnEntity { cf, key, entity } => {
            out.put_entity_cf(cf, &changed(key)?, entity)
        }
        BatchOp::ValuePreferredSeqno { cf, key, value } => {
            out.packed_timed_put_cf(cf, &changed(key)?, value)
        }
        _ => Ok(()),
    }
}
