//! Refuses what could do harm later: batches that could not be applied, before they are logged, and requests whose
//! families were dropped while they waited.

use super::limits::check_batch_size;
use super::two_phase::check_mark;
use crate::core::{Engine, Family, LeaderState, Payload};
use crate::options::CompressionType;
use crate::read::{Newest, timestamp_missing};
use spanlith_base::wide_columns::WideColumns;
use spanlith_base::{Error, Result, SequenceNumber, keys};
use spanlith_wal::{BatchIter, BatchOp, verify_checksums};

/// Refuses a batch that could not be applied. Returns its number of entries, and whether some
/// belong to another family than the default one.
pub(super) fn check_batch(
    engine: &Engine,
    rep: &[u8],
    ignore_missing: bool,
) -> Result<(u32, bool)> {
    let is_log_compressed = engine.c.options.wal_compression != CompressionType::None;
    check_batch_size(rep, is_log_compressed)?;
    let mut entries = 0u32;
    let mut families = false;
    let mut set = None;
    // Damage after it is the graver fault.
    let mut not_supported = None;
    let mut iter = BatchIter::new(rep)?;
    let count = iter.header_count();
    // Then a plain entry has nothing that could be refused.
    let takes_all = !engine.families.default().refuses_writes
        && engine.families.default().comparator.timestamp_size() == 0;
    loop {
        while takes_all && iter.next_plain().is_some() {
            entries += 1;
        }
        let Some(op) = iter.next() else {
            break;
        };
        let op = op?;
        let family = match op.cf() {
            None | Some(0) => engine.families.default(),
            Some(cf) => {
                families = true;
                let set = &*set.get_or_insert_with(|| engine.families.load_full());
                match set.get(cf) {
                    Some(family) => family,
                    None if ignore_missing => {
                        entries += 1;
                        continue;
                    }
                    None => return Err(no_such_family()),
                }
            }
        };
        if family.refuses_writes && !matches!(op, BatchOp::LogData { .. }) {
            return Err(takes_no_writes());
        }
        match op {
            BatchOp::Put { key, .. }
            | BatchOp::Delete { key, .. }
            | BatchOp::SingleDelete { key, .. } => check_key(family, key)?,
            BatchOp::WideColumnEntity { key, entity, .. } => {
                check_key(family, key)?;
                WideColumns::decode(entity)?;
            }
            BatchOp::ValuePreferredSeqno { key, value, .. } => {
                check_key(family, key)?;
                if keys::timed_value(value).is_none() {
                    return Err(Error::corruption("TimedPut without a write time"));
                }
            }
            BatchOp::Merge { key, .. } => {
                check_key(family, key)?;
                if family.merge_operator.is_none() {
                    return Err(Error::invalid_argument(
                        "Merge requires `ColumnFamilyOptions::merge_operator != nullptr`",
                    ));
                }
            }
            BatchOp::LogData { .. } | BatchOp::Noop => continue,
            BatchOp::DeleteRange { begin, end, .. } => {
                if engine.c.resources.row_cache.is_some() {
                    return Err(Error::not_supported(
                        "DeleteRange is not compatible with row cache.",
                    ));
                }
                check_key(family, begin)?;
                check_key(family, end)?;
                let c = &family.comparator;
                if c.compare_without_timestamp(begin, true, end, true).is_gt() {
                    return Err(Error::invalid_argument("end key comes before start key"));
                }
            }
            other => {
                not_supported.get_or_insert_with(|| not_executed(&other));
                if other.cf().is_none() {
                    continue;
                }
            }
        }
        entries += 1;
    }
    if entries != count {
        return Err(Error::corruption("WriteBatch has wrong count"));
    }
    match not_supported {
        None => Ok((count, families)),
        Some(e) => Err(e),
    }
}

/// Refuses writes that are not logged where they must be.
#[inline]
pub(super) fn check_unlogged(engine: &Engine, sync: bool) -> Result<()> {
    if sync || engine.c.options.recycle_log_file_num > 0 {
        return Err(must_be_logged(sync));
    }
    Ok(())
}

/// Refuses what names a family that was dropped after the request was checked, a protected batch that has changed, and
/// a transaction whose keys were written meanwhile, by a write up to `last`.
#[cold]
pub(super) fn check_again(
    engine: &Engine,
    leader: &LeaderState,
    payload: &Payload<'_>,
    last: SequenceNumber,
) -> Result<()> {
    if let Payload::Transaction(t) = payload {
        let newest = Newest::new(engine.counts_reads());
        newest.check_unwritten(&engine.families.load(), t.read, last)?;
        check_mark(engine, t.mark)?;
    }
    check_families(leader, payload)
}

#[cold]
fn check_families(leader: &LeaderState, payload: &Payload<'_>) -> Result<()> {
    if let Payload::Batch {
        body, checksums, ..
    } = *payload
        && !checksums.is_empty()
    {
        verify_checksums(body, checksums)?;
    }
    let known = |cf: u32| leader.slot(cf).is_some();
    let all_known = match *payload {
        Payload::One { cf, .. } => known(cf),
        Payload::Batch {
            families: false, ..
        }
        | Payload::Batch {
            ignore_missing: true,
            ..
        } => true,
        Payload::Batch { body, .. } => BatchIter::entries(body).all(|op| {
            let cf = op.ok().and_then(|op| op.cf());
            cf.is_none_or(known)
        }),
        Payload::Transaction(t) if t.ignore_missing => true,
        Payload::Transaction(t) => t.applied.iter().all(|part| {
            BatchIter::entries(part).all(|op| {
                let cf = op.ok().and_then(|op| op.cf());
                cf.is_none_or(known)
            })
        }),
    };
    if all_known {
        Ok(())
    } else {
        Err(no_such_family())
    }
}

/// Why a write may not leave out the log.
#[cold]
fn must_be_logged(sync: bool) -> Error {
    Error::invalid_argument(if sync {
        "Sync writes has to enable WAL."
    } else {
        // The end of a log that is written again is found by sequence numbers without gaps.
        "WriteOptions::disableWAL option is not supported if \
         DBOptions::recycle_log_file_num > 0"
    })
}

#[cold]
pub(super) fn wrong_protection() -> Error {
    Error::not_supported("WriteBatch protection info must be zero or eight bytes/key")
}

#[cold]
pub(super) fn lacks_timestamps() -> Error {
    Error::invalid_argument("write batch must have timestamp(s) set")
}

#[cold]
pub(super) fn takes_no_writes() -> Error {
    Error::invalid_argument("This column family has disallow_memtable_writes=true")
}

#[cold]
pub(super) fn no_such_family() -> Error {
    Error::invalid_argument("Invalid column family specified in write batch")
}

/// Refuses a key that is too short for the timestamp of its family.
#[inline]
fn check_key(family: &Family, key: &[u8]) -> Result<()> {
    if key.len() < family.comparator.timestamp_size() {
        return Err(timestamp_missing(&family.name));
    }
    Ok(())
}

/// The refusal of a batch entry whose feature does not exist yet, by name.
pub(crate) fn not_executed(op: &BatchOp<'_>) -> Error {
    let name = match op {
        BatchOp::BlobIndex { .. } => "blob index in a write batch",
        _ => "two-phase commit",
    };
    Error::not_supported(name)
}
