//! Reads a whole table to check or show it.

use super::open::COMPRESSION_DICTIONARY;
use super::{PrefixSeek, TableReader};
use crate::block::Block;
use crate::format::{BlockHandle, BlockKind, Footer};
use crate::index::{IndexTable, METADATA, accounts_for};
use crate::options::ReadParams;
use crate::properties::TableProperties;
use spanlith_base::keys::{TAG_LEN, split_internal, tag_sequence};
use spanlith_base::{Error, Result};
use std::cmp::Ordering;
use std::sync::Arc;

/// Describes what a table consists of, for display.
#[derive(Clone, Debug)]
pub struct TableDump {
    /// The footer.
    pub footer: Footer,
    /// Name and place of each meta block.
    pub metaindex: Vec<(String, BlockHandle)>,
    /// All properties.
    pub properties: TableProperties,
    /// Where the index is.
    pub index_handle: BlockHandle,
    /// Says whether separators are user keys.
    pub index_keys_are_user_keys: bool,
    /// Separator and place of each data block.
    pub index: Vec<(Vec<u8>, BlockHandle)>,
    /// Separator and place of each partition of a two-level index.
    pub index_partitions: Vec<(Vec<u8>, BlockHandle)>,
    /// Separator and place of each partition of a partitioned filter.
    pub filter_partitions: Vec<(Vec<u8>, BlockHandle)>,
}

/// Describes what is done with an entry: its internal key and its value.
pub type VisitEntry<'v> = &'v mut dyn FnMut(&[u8], &[u8]) -> Result<()>;

impl TableReader {
    /// Returns whether the hash index misleads RocksDB: earlier builds of this engine recorded the data blocks of prefixes
    /// while blocks were held back for a dictionary, and RocksDB's gets and prefix seeks by such an index miss keys.
    /// Here nothing is read by it. Only tables with both are looked at.
    ///
    /// # Errors
    /// Of reading the block with the data blocks of prefixes, and of the index.
    pub fn has_misleading_hash_index(&self) -> Result<bool> {
        let (Some(metadata), Some(_)) = (self.meta(METADATA), self.meta(COMPRESSION_DICTIONARY))
        else {
            return Ok(false);
        };
        let contents = self.read(metadata, BlockKind::Index, true)?;
        let mut blocks = 0;
        self.for_each_index(&ReadParams::default(), |index| {
            blocks += index.handles().count() as u64;
            Ok(())
        })?;
        Ok(!accounts_for(&contents, blocks))
    }

    /// Reads every block of the file, meta blocks included, and verifies its checksum; the number
    /// of blocks.
    ///
    /// # Errors
    /// The first checksum mismatch, or another failure to read.
    pub fn verify_checksums(&self) -> Result<u64> {
        if self.is_flat() {
            // There are none; whatever can be told apart from other bytes is looked at.
            return self.check_flat();
        }
        let counted = self.late_opening_params();
        let check = |handle: BlockHandle, kind: BlockKind| -> Result<()> {
            let began = counted.is_counted.then(|| self.moment()).flatten();
            let stored = self.stored(handle)?;
            if counted.is_counted {
                self.count_file_read(&counted, stored.len(), began);
            }
            let path = self.file.path();
            self.footer
                .checksum
                .open(&stored, handle, true, kind, path)
                .map(|_| ())
        };
        let mut blocks = 1;
        check(self.footer.metaindex, BlockKind::MetaIndex)?;
        for (name, handle) in &self.metaindex {
            let kind = match name.as_str() {
                "rocksdb.properties" => {
                    self.read_properties(*handle, true)?;
                    blocks += 1;
                    continue;
                }
                "rocksdb.range_del" => BlockKind::RangeDeletion,
                "rocksdb.compression_dict" => BlockKind::CompressionDictionary,
                "rocksdb.index" | "rocksdb.hashindex.prefixes" | "rocksdb.hashindex.metadata" => {
                    BlockKind::Index
                }
                _ => BlockKind::Filter,
            };
            check(*handle, kind)?;
            blocks += 1;
        }
        if self.footer.index.is_some() {
            check(self.index_handle, BlockKind::Index)?;
            blocks += 1;
        }
        if let Some(top) = self.load_filter_top()? {
            for handle in top.index().into_iter().flat_map(IndexTable::handles) {
                check(handle, BlockKind::Filter)?;
                blocks += 1;
            }
        }
        let params = ReadParams::default();
        // Reads the index again if it is not resident.
        if self.has_two_levels() {
            let top = self.index(&params)?;
            self.check_whole(top.block(), self.index_handle)?;
            for handle in top.handles() {
                check(handle, BlockKind::Index)?;
                blocks += 1;
            }
        }
        self.for_each_index(&params, |index| {
            for handle in index.handles() {
                check(handle, BlockKind::Data)?;
                blocks += 1;
            }
            Ok(())
        })?;
        Ok(blocks)
    }

    /// Walks over a table without blocks; the number of its parts.
    fn check_flat(&self) -> Result<u64> {
        let mut blocks = 0;
        self.for_each_index(&ReadParams::default(), |index| {
            for handle in index.handles() {
                self.read_data_block(handle)?;
                blocks += 1;
            }
            Ok(())
        })?;
        Ok(blocks)
    }

    /// Reads all entries and compares them with order, index and properties (T1); the number of
    /// point entries.
    ///
    /// # Errors
    /// `Corruption` for the first contradiction.
    pub fn verify_contents(self: &Arc<Self>) -> Result<u64> {
        self.verify_contents_with(&mut |_, _| Ok(()))
    }

    /// As [`Self::verify_contents`], and shows each point entry, internal key and value, to `visit`
    /// once its key is checked.
    ///
    /// # Errors
    /// As there; the first error of `visit`, which ends it.
    pub fn verify_contents_with(self: &Arc<Self>, visit: VisitEntry<'_>) -> Result<u64> {
        let cmp = &self.options.comparator;
        let broken =
            |what: &str| Error::corruption(format!("T1: {what}")).with_path(self.file.path());
        let params = ReadParams {
            bypass_cache: true,
            readahead: 1 << 20,
            ..ReadParams::default()
        };
        let mut iter = self.iter(params);
        let mut last: Vec<u8> = Vec::new();
        let (mut entries, mut key_bytes, mut value_bytes) = (0, 0, 0);
        let (mut smallest, mut largest) = (u64::MAX, 0);
        iter.seek_to_first();
        while iter.valid() {
            let key = iter.key();
            if !last.is_empty() && cmp.compare_internal(&last, key) != Ordering::Less {
                return Err(broken("keys do not increase").with("key", key.escape_ascii()));
            }
            let Some((user, tag)) = split_internal(key) else {
                return Err(broken("key without a tag"));
            };
            // The index must lead to the block the entry is in.
            let found = self.find_block(user, tag, &ReadParams::default())?;
            if found != iter.block_handle() {
                return Err(broken("index key contradicts a block").with("key", key.escape_ascii()));
            }
            if !self.may_match_version(user, &ReadParams::default()) {
                return Err(broken("filter denies a key").with("key", key.escape_ascii()));
            }
            let seek = PrefixSeek {
                key: user,
                ..PrefixSeek::default()
            };
            if !self.prefix_may_match(seek, &ReadParams::default()) {
                return Err(broken("filter denies a prefix").with("key", key.escape_ascii()));
            }
            if self.is_flat()
                && !self.check_flat_lookup(user, tag_sequence(tag), (tag, iter.value()))?
            {
                return Err(broken("a lookup misses a key").with("key", key.escape_ascii()));
            }
            visit(key, iter.value())?;
            entries += 1;
            key_bytes += key.len() as u64;
            value_bytes += iter.value().len() as u64;
            smallest = smallest.min(tag_sequence(tag));
            largest = largest.max(tag_sequence(tag));
            last.clear();
            last.extend_from_slice(key);
            iter.next();
        }
        iter.status()?;
        let p = &self.properties;
        let tombstones = self.range_tombstones()?;
        for (start, end, _) in &tombstones {
            key_bytes += (start.len() + TAG_LEN) as u64;
            value_bytes += end.len() as u64;
        }
        let counted = entries + tombstones.len() as u64;
        let mut recorded = (p.num_entries, p.raw_key_size, p.raw_value_size);
        if self.is_adapted() || self.is_flat() {
            // Sizes are recorded as stored.
            recorded = (p.num_entries, key_bytes, value_bytes);
        }
        if recorded != (counted, key_bytes, value_bytes) {
            return Err(broken("properties contradict the contents")
                .with("recorded", format!("{recorded:?}"))
                .with(
                    "counted",
                    format!("{:?}", (counted, key_bytes, value_bytes)),
                ));
        }
        if entries > 0
            && tombstones.is_empty()
            && !self.is_adapted()
            && (p.key_smallest_seqno.is_some_and(|s| s != smallest)
                || p.key_largest_seqno.is_some_and(|s| s != largest))
        {
            return Err(broken("recorded sequence numbers contradict the contents"));
        }
        Ok(entries)
    }

    /// Returns what `sst dump` shows beside the entries.
    ///
    /// # Errors
    /// Those of reading the index.
    pub fn dump(&self) -> Result<TableDump> {
        let entries_of = |table: &IndexTable| -> Vec<_> {
            (0..table.len())
                .filter_map(|i| Some((table.key(i), table.handle(i)?)))
                .collect()
        };
        let params = ReadParams::default();
        let mut index = Vec::new();
        self.for_each_index(&params, |table| {
            index.extend(entries_of(table));
            Ok(())
        })?;
        let mut index_partitions = Vec::new();
        if self.has_two_levels() {
            index_partitions = entries_of(&*self.index(&params)?);
        }
        let filter_top = self.load_filter_top()?;
        let filter_top = filter_top.as_ref().and_then(Block::index);
        Ok(TableDump {
            footer: self.footer,
            metaindex: self.metaindex.clone(),
            properties: self.properties.clone(),
            index_handle: self.index_handle,
            index_keys_are_user_keys: self.index_shape.form.user_keys,
            index,
            index_partitions,
            filter_partitions: filter_top.map(entries_of).unwrap_or_default(),
        })
    }

    /// The uncompressed bytes of a data block, for display.
    ///
    /// # Errors
    /// Those of reading it.
    pub fn read_data_block(&self, handle: BlockHandle) -> Result<Arc<Block>> {
        self.data_block(
            handle,
            &ReadParams {
                bypass_cache: true,
                ..ReadParams::default()
            },
        )
    }
}
