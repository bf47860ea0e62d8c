//! Traces of looked-up blocks of an open database: from what readers of tables tell to records.
//!
//! Records have what RocksDB's have. Which blocks are traced is sampled by their keys, so that the history of a block is
//! complete or absent, as RocksDB does it.

use super::access::{BlockAccess, BlockCaller, BlockReference, TracedBlock};
use super::recorder::{Recorder, Tap, TraceSummary};
use spanlith_base::checksum::xxh3_64;
use spanlith_base::{Error, Result};
use spanlith_table::{
    BlockLookup, CachedKind, GetLookup, LookupTap, Lookups, NoteLookup, ReadActivity,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// RocksDB's name of the family of a table that names none.
const UNKNOWN_FAMILY: &str = "UnknownColumnFamily";

/// Options of a trace of looked-up blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockTraceOptions {
    /// No record is written once the file has more bytes.
    pub max_trace_file_size: u64,
    /// One of so many blocks is traced, with all lookups of it; 0 and 1 trace all.
    pub sampling_frequency: u64,
}

impl Default for BlockTraceOptions {
    fn default() -> Self {
        Self {
            max_trace_file_size: 64 << 30,
            sampling_frequency: 1,
        }
    }
}

/// Makes records of lookups.
#[derive(Debug, Default)]
struct Records {
    tap: Tap,
    /// One of so many blocks. Relaxed: set before the switch.
    sampling: AtomicU64,
}

/// The switch of traces of looked-up blocks of one database.
#[derive(Debug)]
pub(crate) struct BlockTrace {
    records: Arc<Records>,
    switch: Arc<LookupTap>,
    /// Number of the last get.
    gets: AtomicU64,
}

impl Default for BlockTrace {
    fn default() -> Self {
        let records = Arc::new(Records::default());
        Self {
            switch: Arc::new(LookupTap::new(records.clone())),
            records,
            gets: AtomicU64::new(0),
        }
    }
}

impl BlockTrace {
    /// Tells readers of tables whom to tell.
    pub(crate) fn switch(&self) -> &Arc<LookupTap> {
        &self.switch
    }

    /// Returns whether a trace is being written.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.switch.is_on()
    }

    /// Blocks that the calling thread looks up until the result is dropped belong to one get or multi-get. `None` if
    /// no trace is being written.
    pub(crate) fn enter_get(&self, from_snapshot: bool) -> Option<impl Drop + use<>> {
        self.is_on().then(|| {
            // Relaxed: it only has to be another one.
            let id = self.gets.fetch_add(1, Ordering::Relaxed) + 1;
            Lookups::enter(id, from_snapshot)
        })
    }

    /// Begins a trace.
    ///
    /// # Errors
    /// `Busy` if one is being written.
    pub(crate) fn start(&self, recorder: Arc<Recorder>, options: &BlockTraceOptions) -> Result<()> {
        let one_of = options.sampling_frequency;
        let turn_on = || {
            self.records.sampling.store(one_of, Ordering::Relaxed);
            self.switch.turn(true);
        };
        match self.records.tap.begin(recorder, turn_on) {
            true => Ok(()),
            false => Err(busy()),
        }
    }

    /// Ends the trace, if one is being written.
    pub(crate) fn end(&self) -> Result<Option<TraceSummary>> {
        let turn_off = || self.switch.turn(false);
        let recorder = self.records.tap.replace_and(None, turn_off);
        recorder.map(|recorder| recorder.finish()).transpose()
    }
}

/// The answer while a trace is being written.
pub(crate) fn busy() -> Error {
    Error::busy("a trace of this kind is being written")
}

impl NoteLookup for Records {
    fn note(&self, lookup: &BlockLookup<'_>) {
        let one_of = self.sampling.load(Ordering::Relaxed);
        if one_of > 1 && !xxh3_64(&lookup.key).is_multiple_of(one_of) {
            return;
        }
        // As in RocksDB, lookups of index and filter refer to no key.
        let sought = lookup.get.and_then(|get| get.sought);
        let key = sought.map(|s| [s.user_key, &s.tag.to_le_bytes()].concat());
        let access = access_of(lookup, key.as_deref().unwrap_or_default());
        self.tap.record(access.kind(), |to| access.encode(to));
    }
}

/// The record of a lookup; `key` is the internal key that it refers to.
fn access_of<'a>(lookup: &'a BlockLookup<'a>, key: &'a [u8]) -> BlockAccess<'a> {
    let of_get = |get: &GetLookup<'a>| BlockReference {
        get_id: get.id,
        from_snapshot: get.from_snapshot,
        internal_key: key,
        found: get
            .sought
            .map(|s| (s.entry_bytes, s.block_entries, s.is_found)),
    };
    let name = match lookup.column_family_name {
        "" => UNKNOWN_FAMILY,
        name => name,
    };
    BlockAccess {
        block: match lookup.kind {
            CachedKind::Index => TracedBlock::Index,
            CachedKind::Filter => TracedBlock::Filter,
            CachedKind::Data => TracedBlock::Data,
        },
        key: &lookup.key,
        size: lookup.bytes,
        cf: lookup.column_family_id,
        cf_name: name.as_bytes(),
        level: u32::try_from(lookup.level).unwrap_or(u32::MAX),
        file: lookup.file,
        caller: caller_of(lookup.activity),
        is_hit: lookup.is_hit,
        no_insert: lookup.no_insert,
        reference: lookup.get.as_ref().map(of_get),
    }
}

/// RocksDB's number of what a read is for. It does not tell its opens of tables apart: they prefetch.
fn caller_of(activity: ReadActivity) -> BlockCaller {
    match activity {
        ReadActivity::Get => BlockCaller::GET,
        ReadActivity::MultiGet => BlockCaller::MULTI_GET,
        ReadActivity::Iterator => BlockCaller::ITERATOR,
        ReadActivity::VerifyDbChecksum => BlockCaller::VERIFY_CHECKSUM,
        ReadActivity::Flush | ReadActivity::DbOpen => BlockCaller::PREFETCH,
        ReadActivity::Compaction => BlockCaller::COMPACTION,
        ReadActivity::Unknown => BlockCaller::UNCATEGORIZED,
    }
}
