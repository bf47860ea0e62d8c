//! Options of one read.

use crate::core::Snapshot;
use spanlith_table::ReadParams;

/// How to read. The default sees the latest state, fills the cache and verifies checksums.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReadOptions {
    /// The point in time to read at; `None` is now.
    pub snapshot: Option<Snapshot>,
    /// Whether blocks read from files enter the block cache.
    pub fill_cache: bool,
    /// Whether checksums of blocks read from files are verified.
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
    /// Reads as if no range of keys had ever been deleted: correct only where no deleted range holds
    /// a key, and then cheaper.
    pub ignore_range_deletions: bool,
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
            ignore_range_deletions: false,
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

    /// Whether blocks read from files enter the block cache.
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

    pub(crate) fn params(&self) -> ReadParams {
        ReadParams {
            fill_cache: self.fill_cache,
            verify_checksums: self.verify_checksums,
            cache_only: self.cache_only,
            readahead: self.readahead,
            bypass_cache: false,
            ..ReadParams::default()
        }
    }
}
