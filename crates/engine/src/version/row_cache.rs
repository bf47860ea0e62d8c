//! A cache of what tables answered to point lookups: RocksDB's row cache.
//!
//! A row is what one table holds of one user key, newest entry first: a lookup that finds it asks
//! neither filter nor index nor block of the table. Rows are found by table and key. A lookup that sees
//! all of a table, as any without an old snapshot does, shares its rows with others of the kind; one that
//! does not has rows of its own sequence number.
//!
//! Rows are blocks of a [`BlockCache`], so that one cache may hold both and has one capacity.
//!
//! ```text
//! row:   fixed64 file, fixed64 point, fixed64 length of key, key, entries
//! entry: fixed64 tag, fixed64 length of value, value
//! ```
//!
//! The number that a row is found by is a hash; file, point and key in it are compared (so a collision
//! costs a miss). Threads: any.

use spanlith_base::SequenceNumber;
use spanlith_base::stats::{Statistics, Ticker};
use spanlith_cache::{CacheKey, Priority};
use spanlith_table::{Block, BlockCache, CacheRole};
use std::sync::Arc;

/// Spreads numbers of files and points over the bits of a place in the cache.
const SPREAD: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xd6e8_feb8_6659_fd93];

/// The rows of one family.
pub struct RowCache {
    cache: BlockCache,
    /// This family's part of the keys, which no other user of the cache has.
    id: u64,
    statistics: Option<Arc<Statistics>>,
}

/// Describes what a row is about.
#[derive(Clone, Copy)]
pub(crate) struct RowPlace<'a> {
    file: u64,
    /// 0 if the lookup sees all of the table, else one more than its sequence number.
    point: u64,
    key: &'a [u8],
    hash: u64,
}

impl<'a> RowPlace<'a> {
    /// The row of a table for `key`, whose filter hash is `hash`, at `snapshot`.
    pub(crate) fn new(
        (file, largest_seqno): (u64, SequenceNumber),
        (key, hash): (&'a [u8], u64),
        snapshot: SequenceNumber,
    ) -> Self {
        let sees_all = snapshot >= largest_seqno;
        Self {
            file,
            point: if sees_all { 0 } else { snapshot + 1 },
            key,
            hash,
        }
    }

    fn in_cache(&self, id: u64) -> CacheKey {
        let [a, b] = SPREAD;
        let block = self.hash ^ self.file.wrapping_mul(a) ^ self.point.wrapping_mul(b);
        CacheKey { file: id, block }
    }
}

/// A row that is being recorded.
pub(crate) struct RowWriter {
    bytes: Vec<u8>,
    /// Where the entries begin.
    begin: usize,
}

impl RowWriter {
    /// A row without entries.
    pub(crate) fn new(place: &RowPlace<'_>) -> Self {
        let mut bytes = Vec::with_capacity(64 + place.key.len());
        for number in [place.file, place.point, place.key.len() as u64] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(place.key);
        let begin = bytes.len();
        Self { bytes, begin }
    }

    /// Adds an entry, older than those before.
    pub(crate) fn push(&mut self, tag: u64, value: &[u8]) {
        self.bytes.extend_from_slice(&tag.to_le_bytes());
        let len = value.len() as u64;
        self.bytes.extend_from_slice(&len.to_le_bytes());
        self.bytes.extend_from_slice(value);
    }

    /// Returns whether it has no entries; such rows are not kept.
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.len() == self.begin
    }
}

/// A row found in the cache.
pub(crate) struct Row {
    block: Arc<Block>,
    begin: usize,
}

fn number(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(u64::from_le_bytes(*bytes))
}

impl Row {
    /// The row in `block` if it is the one sought.
    fn of(block: Arc<Block>, place: &RowPlace<'_>) -> Option<Self> {
        let bytes = block.bytes();
        let (file, point) = (number(bytes, 0)?, number(bytes, 8)?);
        let len = usize::try_from(number(bytes, 16)?).ok()?;
        let begin = 24 + len;
        let same = file == place.file && point == place.point;
        (same && bytes.get(24..begin)? == place.key).then_some(Self { block, begin })
    }

    /// Tags and values, newest first.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let bytes = self.block.bytes();
        let mut at = self.begin;
        std::iter::from_fn(move || {
            let tag = number(bytes, at)?;
            let len = usize::try_from(number(bytes, at + 8)?).ok()?;
            let value = bytes.get(at + 16..at + 16 + len)?;
            at += 16 + len;
            Some((tag, value))
        })
    }

    /// The block that values are pinned by.
    pub(crate) fn block(&self) -> &Arc<Block> {
        &self.block
    }
}

impl RowCache {
    /// Rows in `cache`, which may be shared with anything else; hits and misses are counted in
    /// `statistics`.
    pub fn new(cache: BlockCache, statistics: Option<Arc<Statistics>>) -> Self {
        let id = cache.new_id();
        Self {
            cache,
            id,
            statistics,
        }
    }

    /// The row, if cached.
    pub(crate) fn find(&self, place: &RowPlace<'_>) -> Option<Row> {
        let found = self.cache.lookup(&place.in_cache(self.id));
        let row = found.and_then(|block| Row::of(block, place));
        if let Some(s) = &self.statistics {
            let ticker = match row {
                Some(_) => Ticker::RowCacheHit,
                None => Ticker::RowCacheMiss,
            };
            s.add(ticker, 1);
        }
        row
    }

    /// Keeps a row that has entries.
    pub(crate) fn keep(&self, place: &RowPlace<'_>, row: RowWriter) {
        if row.is_empty() {
            return;
        }
        let mut bytes = row.bytes;
        bytes.shrink_to_fit();
        let block = Arc::new(Block::raw_as(CacheRole::Misc, bytes));
        let charge = block.memory_usage();
        // A strict cache that is full of entries in use does without the row.
        let _ = self
            .cache
            .insert(place.in_cache(self.id), block, charge, Priority::Low);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanlith_cache::Policy;

    #[test]
    fn a_row_is_found_by_table_key_and_what_the_lookup_sees() {
        let rows = RowCache::new(BlockCache::new(1 << 20, Policy::Lru), None);
        let place = |file, key, snapshot| RowPlace::new((file, 10), (key, 7), snapshot);
        let old = place(1, b"k", 9);
        let mut row = RowWriter::new(&old);
        row.push(5, b"value");
        row.push(3, b"");
        rows.keep(&old, row);
        let found = rows.find(&old).unwrap();
        let entries: Vec<_> = found.entries().collect();
        assert_eq!(entries, [(5, &b"value"[..]), (3, &b""[..])]);
        for other in [
            place(2, b"k", 9),
            place(1, b"k", 8),
            place(1, b"k", 10),
            place(1, b"l", 9),
        ] {
            assert!(rows.find(&other).is_none());
        }
        // Same place in the cache, other key: the row is compared.
        let all = place(1, b"l", 9);
        rows.keep(&all, {
            let mut row = RowWriter::new(&all);
            row.push(1, b"other");
            row
        });
        assert!(rows.find(&old).is_none());
    }

    #[test]
    fn a_row_without_entries_is_not_kept() {
        let cache = BlockCache::new(1 << 20, Policy::Lru);
        let rows = RowCache::new(cache.clone(), None);
        let place = RowPlace::new((1, 10), (b"k", 7), 10);
        rows.keep(&place, RowWriter::new(&place));
        assert_eq!(cache.len(), 0);
    }
}
