//! Options of one read.

use crate::core::Snapshot;
use crate::iter::TableFilter;
use spanlith_base::{Error, Result};
use spanlith_table::ReadParams;

/// Describes what may be asked for an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadTier {
    /// Everything.
    #[default]
    All,
    /// Memory only: what needs a file fails with `Result incomplete: no blocking io`.
    Cached,
    /// Says what survives a crash of the process: memtables are left out while they may hold writes that
    /// were not logged. Iterators do not support it.
    Persisted,
    /// Memtables only, of iterators; lookups ask tables, too. As in RocksDB.
    Memtables,
}

/// Describes what a read is for, as its caller says (RocksDB's `io_activity`): a read that is for something else is
/// refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadPurpose {
    /// The caller does not say.
    #[default]
    Unsaid,
    /// A single key.
    Get,
    /// Several keys.
    MultiGet,
    /// An iterator.
    Iterator,
    /// Something that none of these is.
    Other,
}

impl ReadPurpose {
    /// The error of a read of this kind that is said to be another, in RocksDB's words.
    #[cold]
    fn refusal(self) -> Error {
        let (call, name) = match self {
            Self::MultiGet => ("MultiGet", "kMultiGet"),
            Self::Iterator => ("NewIterator", "kDBIterator"),
            _ => ("Get", "kGet"),
        };
        wrong_purpose(call, name)
    }
}

/// The error of a call that is not what its options say, in RocksDB's words; `name` is that of its `IOActivity`.
#[cold]
pub fn wrong_purpose(call: &str, name: &str) -> Error {
    Error::invalid_argument(format!(
        "Can only call {call} with `ReadOptions::io_activity` is `Env::IOActivity::kUnknown` or \
         `Env::IOActivity::{name}`"
    ))
}

/// How to read. The default sees the latest state, fills the cache and verifies checksums.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReadOptions {
    /// The point in time to read at; `None` is now.
    pub snapshot: Option<Snapshot>,
    /// Says whether blocks read from files enter the block cache.
    pub fill_cache: bool,
    /// Says whether checksums of blocks read from files are verified.
    pub verify_checksums: bool,
    /// Answer from memory only: what needs a file fails with `Result incomplete: no blocking io`.
    pub cache_only: bool,
    /// Smallest key an iterator returns (inclusive).
    pub lower: Option<Vec<u8>>,
    /// First key an iterator does not return any more (exclusive).
    pub upper: Option<Vec<u8>>,
    /// Bytes an iterator reads ahead in tables; 0 lets it decide.
    pub readahead: usize,
    /// Iterators give up with `Result incomplete` after skipping that many internal keys in one
    /// move; 0 is no limit.
    pub max_skipped: u64,
    /// Says what may be asked for an answer.
    pub read_tier: ReadTier,
    /// Iterators ignore prefixes: all keys, in order. Iterators of this build do so anyway unless
    /// `prefix_same_as_start` is set.
    pub total_order: bool,
    /// Iterators use prefix filters where the upper bound shows that no result is lost.
    pub auto_prefix: bool,
    /// Iterators end with the prefix of the key they were sent to.
    pub prefix_same_as_start: bool,
    /// The cursor sees what is written after its creation; it only goes forward.
    pub tailing: bool,
    /// Latest timestamp to see, in families with timestamps.
    pub timestamp: Option<Vec<u8>>,
    /// Iterators yield all versions of each key from this timestamp on, deletions too.
    pub start_timestamp: Option<Vec<u8>>,
    /// Iterators leave values in blob files unread until they are asked to prepare them.
    pub allow_unprepared_value: bool,
    /// Point in time, in microseconds since 1970, after which what must read from a file, and the
    /// next batch of a multi-get, fail with `Operation timed out`; 0 is none.
    pub deadline_micros: u64,
    /// Keys and values that a cursor has shown stay where they are in memory as long as the cursor
    /// lives. Costs the memory of all of them.
    pub pin_data: bool,
    /// Iterators leave out the point entries of tables for whose properties it says no. Not asked for
    /// memtables and by point reads.
    pub table_filter: Option<TableFilter>,
    /// Bytes of values after which a multi-get answers `Operation aborted` for the keys that have no
    /// answer yet; `u64::MAX` is no limit.
    pub value_size_soft_limit: u64,
    /// Reads as if no range of keys had ever been deleted: correct only where no deleted range holds
    /// a key, and then cheaper.
    pub ignore_range_deletions: bool,
    /// Says what the read is for; one that is for something else is refused.
    pub purpose: ReadPurpose,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self {
            snapshot: None,
            fill_cache: true,
            verify_checksums: true,
            cache_only: false,
            lower: None,
            upper: None,
            readahead: 0,
            max_skipped: 0,
            read_tier: ReadTier::All,
            total_order: false,
            auto_prefix: false,
            prefix_same_as_start: false,
            tailing: false,
            timestamp: None,
            start_timestamp: None,
            allow_unprepared_value: false,
            deadline_micros: 0,
            pin_data: false,
            table_filter: None,
            value_size_soft_limit: u64::MAX,
            ignore_range_deletions: false,
            purpose: ReadPurpose::Unsaid,
        }
    }
}

impl ReadOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads at a snapshot.
    #[must_use]
    pub fn snapshot(mut self, snapshot: &Snapshot) -> Self {
        self.snapshot = Some(snapshot.clone());
        self
    }

    /// Returns whether blocks read from files enter the block cache.
    #[must_use]
    pub fn fill_cache(mut self, fill: bool) -> Self {
        self.fill_cache = fill;
        self
    }

    /// Bounds an iterator from below, inclusive.
    #[must_use]
    pub fn lower(mut self, key: impl AsRef<[u8]>) -> Self {
        self.lower = Some(key.as_ref().to_vec());
        self
    }

    /// Bounds an iterator from above, exclusive.
    #[must_use]
    pub fn upper(mut self, key: impl AsRef<[u8]>) -> Self {
        self.upper = Some(key.as_ref().to_vec());
        self
    }

    /// Reads at a timestamp, in families with timestamps.
    #[must_use]
    pub fn timestamp(mut self, timestamp: impl AsRef<[u8]>) -> Self {
        self.timestamp = Some(timestamp.as_ref().to_vec());
        self
    }

    /// Returns whether iterators end with the prefix of the key they were sent to.
    #[must_use]
    pub fn prefix_same_as_start(mut self, on: bool) -> Self {
        self.prefix_same_as_start = on;
        self
    }

    /// Returns what may be asked for an answer.
    #[must_use]
    pub fn read_tier(mut self, tier: ReadTier) -> Self {
        self.read_tier = tier;
        self
    }

    /// Returns whether a point read takes more than memtables, tables and a snapshot.
    #[inline]
    pub(crate) fn is_special(&self) -> bool {
        // Everything and unsaid are both 0: one comparison, since every get asks.
        (self.read_tier as u8 | self.purpose as u8) != 0 || self.timestamp.is_some()
    }

    /// Returns whether a read of this kind is what the caller says.
    ///
    /// # Errors
    /// `InvalidArgument` with RocksDB's text.
    #[inline]
    pub(crate) fn check_purpose(&self, actual: ReadPurpose) -> Result<()> {
        if self.purpose == ReadPurpose::Unsaid || self.purpose == actual {
            return Ok(());
        }
        Err(actual.refusal())
    }

    pub(crate) fn params(&self) -> ReadParams {
        ReadParams {
            fill_cache: self.fill_cache,
            verify_checksums: self.verify_checksums,
            cache_only: self.cache_only || self.read_tier == ReadTier::Cached,
            readahead: self.readahead,
            bypass_cache: false,
            deadline_micros: self.deadline_micros,
            ..ReadParams::default()
        }
    }
}
