//! Checks of writes before they join those of other calls in one batch.
//!
//! A joined batch is checked as any batch is. What is refused here is refused alone, before it could fail its neighbours.

use super::WriteOptions;
use super::check::{
    check_batch, check_unlogged, lacks_timestamps, no_such_family, takes_no_writes,
};
use super::limits::check_entry;
use crate::core::{Engine, Family};
use crate::read::timestamp_missing;
use spanlith_base::{Error, Result, ValueType};
use spanlith_wal::WriteBatch;

/// Refuses an entry that could not be written.
pub(crate) fn check_one(
    engine: &Engine,
    family: &Family,
    kind: ValueType,
    (key, value): (&[u8], &[u8]),
    options: &WriteOptions,
) -> Result<()> {
    engine.writable()?;
    check_entry(key, value)?;
    if family.comparator.timestamp_size() != 0 {
        return Err(timestamp_missing(&family.name));
    }
    if kind == ValueType::Merge && family.merge_operator.is_none() && family.times.is_none() {
        return Err(Error::not_supported(
            "Provide a merge_operator when opening DB",
        ));
    }
    if family.refuses_writes {
        return Err(takes_no_writes());
    }
    if family.is_dropped() && !options.ignore_missing_column_families {
        return Err(no_such_family());
    }
    match options.disable_wal {
        true => check_unlogged(engine, options.sync),
        false => Ok(()),
    }
}

/// Refuses a batch that could not be written.
pub(crate) fn check_joined(
    engine: &Engine,
    batch: &WriteBatch,
    options: &WriteOptions,
) -> Result<()> {
    engine.writable()?;
    if batch.lacks_timestamps() {
        return Err(lacks_timestamps());
    }
    if options.disable_wal {
        check_unlogged(engine, options.sync)?;
    }
    // Values without their times yet are refused with other texts.
    if engine.families.default().times.is_some() {
        return Ok(());
    }
    let ignore_missing = options.ignore_missing_column_families;
    check_batch(engine, batch.as_bytes(), ignore_missing).map(drop)
}
