//! Sums over traces of looked-up blocks and of calls of the file system.
//!
//! One pass; memory grows with the kinds, callers, levels, families and operations that occur, not with the records.

use crate::measure::Histogram;
use spanlith::trace::{BlockAccess, FileCall};
use std::collections::BTreeMap;

/// Lookups of blocks that have something in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lookups {
    /// How many.
    pub count: u64,
    /// Those that found their block in the cache.
    pub hits: u64,
    /// Bytes of all blocks.
    pub bytes: u64,
    /// Bytes of the blocks that were not in the cache.
    pub missed_bytes: u64,
    /// Those whose block was not to be put into the cache.
    pub not_inserted: u64,
}

impl Lookups {
    fn add(&mut self, access: &BlockAccess<'_>) {
        self.count += 1;
        self.hits += u64::from(access.is_hit);
        self.bytes += access.size;
        self.missed_bytes += match access.is_hit {
            true => 0,
            false => access.size,
        };
        self.not_inserted += u64::from(access.no_insert);
    }

    /// Share of the lookups that found their block; 0 if there was none.
    pub fn hit_ratio(&self) -> f64 {
        match self.count {
            0 => 0.0,
            count => self.hits as f64 / count as f64,
        }
    }
}

/// Sums of a trace of looked-up blocks.
#[derive(Clone, Debug, Default)]
pub struct BlockSums {
    /// Of all records.
    pub all: Lookups,
    /// By kind of block.
    pub by_kind: BTreeMap<&'static str, Lookups>,
    /// By the caller on whose behalf.
    pub by_caller: BTreeMap<&'static str, Lookups>,
    /// By level of the table.
    pub by_level: BTreeMap<u32, Lookups>,
    /// By name of the column family.
    pub by_family: BTreeMap<Vec<u8>, Lookups>,
}

impl BlockSums {
    /// Counts a record.
    pub fn add(&mut self, access: &BlockAccess<'_>) {
        self.all.add(access);
        self.by_kind
            .entry(access.block.name())
            .or_default()
            .add(access);
        self.by_caller
            .entry(access.caller.name())
            .or_default()
            .add(access);
        self.by_level.entry(access.level).or_default().add(access);
        match self.by_family.get_mut(access.cf_name) {
            Some(family) => family.add(access),
            None => {
                let family = self.by_family.entry(access.cf_name.to_vec());
                family.or_default().add(access);
            }
        }
    }
}

/// Calls of the file system that have something in common.
#[derive(Clone, Debug, Default)]
pub struct Calls {
    /// Those that failed.
    pub failed: u64,
    /// Bytes that were to be read or written.
    pub bytes: u64,
    /// Nanoseconds that all of them took.
    pub nanos: u64,
    /// How long each took, and how many there were.
    pub latency: Histogram,
}

impl Calls {
    fn add(&mut self, call: &FileCall<'_>) {
        self.failed += u64::from(call.status != b"OK");
        self.bytes += call.length.unwrap_or(0);
        self.nanos = self.nanos.saturating_add(call.latency);
        self.latency.add(call.latency);
    }
}

/// Sums of a trace of calls of the file system.
#[derive(Clone, Debug, Default)]
pub struct CallSums {
    /// Of all records.
    pub all: Calls,
    /// By name of the method.
    pub by_operation: BTreeMap<Vec<u8>, Calls>,
    /// By kind of file and name of the method.
    pub by_file: BTreeMap<(&'static str, Vec<u8>), Calls>,
}

impl CallSums {
    /// Counts a record.
    pub fn add(&mut self, call: &FileCall<'_>) {
        self.all.add(call);
        let operation = call.operation.to_vec();
        let file = (file_kind(call.file_name), operation.clone());
        self.by_operation.entry(operation).or_default().add(call);
        self.by_file.entry(file).or_default().add(call);
    }
}

/// Kind of a file of a database, by its name.
fn file_kind(name: &[u8]) -> &'static str {
    let ends = |end: &[u8]| name.ends_with(end);
    match name {
        _ if ends(b".sst") => "table",
        _ if ends(b".log") => "log",
        _ if ends(b".blob") => "blob",
        _ if ends(b".dbtmp") => "temporary",
        _ if name.starts_with(b"MANIFEST-") => "manifest",
        _ if name.starts_with(b"OPTIONS-") => "options",
        _ if name.starts_with(b"LOG") => "info_log",
        b"CURRENT" | b"IDENTITY" | b"LOCK" => "small",
        _ => "other",
    }
}
