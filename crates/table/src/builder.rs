//! Writes a table from entries in internal-key order.
//!
//! Entries are encoded into the open data block; a full block is compressed, sealed with its
//! trailer and put into an output buffer that goes to the file in steps of about one megabyte.
//! Separators and key hashes are gathered on the way and become index and filter at the end.
//!
//! Invariants: T1 (keys strictly increase, checked on every add; the properties count what was
//! added). Nothing is valid before [`TableBuilder::finish`] returned.

mod describe;
mod flat;

use crate::block::Block;
use crate::block::build::{BlockBuilder, LARGE_ENTRY, check_large};
use crate::block::cursor::BlockCursor;
use crate::block::seek::common_prefix;
use crate::choice::{Chooser, CommonPrefix, Packed, Wanted};
use crate::collector::Collecting;
use crate::counters::Counters;
use crate::filter::{FULL_FILTER_NAME, FilterWriter, Finished, PARTITIONED_FILTER_NAME};
use crate::flat::FlatWriter;
use crate::format::{
    BlockHandle, ChecksumContext, Compressor, FORMAT_VERSION_MAX, Footer, TRAILER_LEN, dictionary,
};
use crate::index::{FinishedIndex, IndexBuilder, TopLevel};
use crate::meter::WriteCounters;
use crate::options::{BuilderOptions, IndexShortening};
use crate::output::Output;
use crate::properties::TableProperties;
use crate::sampling::Sampling;
use crate::timestamps::TimestampWriter;
use crate::unique_id;
use crate::{CacheRole, Charge, charge};
use spanlith_base::checksum::xxh3_64;
use spanlith_base::keys::{self, TAG_LEN};
use spanlith_base::memory::Scratch;
use spanlith_base::timestamp::without_timestamps;
use spanlith_base::{Comparator, CompressionType, Error, Result, ValueType};
use spanlith_cache::STEP_BYTES;
use spanlith_env::WritableFile;
use std::cmp::Ordering;
use std::sync::Arc;

/// Describes what a finished table is.
#[derive(Clone, Debug)]
pub struct TableSummary {
    /// Bytes of the file.
    pub file_size: u64,
    /// Bytes after the data blocks.
    pub tail_size: u64,
    /// The properties in the file.
    pub properties: TableProperties,
    /// The unique id to record in the MANIFEST.
    pub unique_id: [u64; 2],
    /// A collector asks for the table to be compacted.
    pub needs_compaction: bool,
    /// Hash of the entries as a reader gives them, if it was asked for and keys kept their timestamps.
    pub content: Option<ContentHash>,
}

/// Hash over entries in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContentHash(u64);

impl ContentHash {
    /// Takes in the next entry.
    pub fn add(&mut self, key: &[u8], value: &[u8]) {
        for part in [key, value] {
            self.0 = self.0.rotate_left(5).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ xxh3_64(part);
        }
    }
}

/// Data blocks held back, so that a dictionary can be made from them.
#[derive(Default)]
struct Held {
    blocks: Vec<HeldBlock>,
    bytes: u64,
    /// Bytes above which no more are held back.
    limit: u64,
}

struct HeldBlock {
    raw: Vec<u8>,
    /// Its bytes in the block cache, if they are charged.
    _charge: Option<Charge>,
    last: Vec<u8>,
    next: Option<Vec<u8>>,
}

impl Held {
    fn of(options: &BuilderOptions) -> Option<Self> {
        let o = &options.compression_options;
        if o.max_dict_bytes == 0 || !options.compression.uses_dictionary() {
            return None;
        }
        let limits = [o.max_dict_buffer_bytes, options.target_file_size];
        let limit = limits.into_iter().filter(|&n| n > 0).min();
        Some(Self {
            limit: limit.unwrap_or(u64::MAX),
            ..Self::default()
        })
    }
}

/// Writes one table.
pub struct TableBuilder {
    /// Properties that the owner adds.
    extra_properties: Vec<(&'static str, Vec<u8>)>,
    options: BuilderOptions,
    out: Output,
    block: BlockBuilder,
    /// Size above which a block is cut if the next entry would exceed the block size.
    cut_limit: usize,
    /// Bytes of a block that are enough: its size, or nothing if each entry gets a block.
    cut_at: usize,
    compressor: Compressor,
    sampling: Option<Box<Sampling>>,
    /// Chooses for each data block, if there is anything to choose.
    chooser: Option<Box<Chooser>>,
    /// Bits by type byte of the codecs that blocks were stored with.
    used_codecs: u8,
    /// Data blocks that wait for a dictionary; `None` once it is made, or without one.
    held: Option<Held>,
    /// Compresses data blocks, if there is a dictionary.
    dictionary: Option<(Vec<u8>, Compressor)>,
    range_deletions: Option<BlockBuilder>,
    index: IndexBuilder,
    /// The index wants to see every key.
    index_wants_keys: bool,
    filter: Option<FilterWriter>,
    /// Its memory in the block cache, if that is charged.
    filter_charges: Vec<Charge>,
    /// Last internal key added; empty before the first.
    last_key: Vec<u8>,
    counters: Counters,
    /// Collectors that see every entry; `None` without.
    collecting: Option<Box<Collecting>>,
    /// Says what is done about timestamps; `None` without.
    timestamps: Option<Box<TimestampWriter>>,
    /// Takes the entries if the table has no blocks.
    flat: Option<FlatWriter>,
    /// Set with timestamps and without blocks.
    is_special: bool,
    /// Bytes of timestamp at the end of the user keys that blocks hold; filters hold none.
    timestamp_size: usize,
    /// Hash of the entries, if it was asked for.
    content: Option<ContentHash>,
    /// First failure; every later call repeats it.
    failed: Option<Error>,
}

impl TableBuilder {
    /// A builder that writes to `file`, which must be empty. Options this build cannot write are
    /// reported by the first `add` or by `finish`.
    pub fn new(mut options: BuilderOptions, file: Box<dyn WritableFile>) -> Self {
        let timestamps = TimestampWriter::of(&options);
        if !options.persist_timestamps {
            options.comparator = without_timestamps(&options.comparator);
        }
        let t = &options.table;
        let mut failed = None;
        if !matches!(t.format_version, 2..=FORMAT_VERSION_MAX) {
            let e = Error::not_supported("writing this table format version");
            failed = Some(e.with("format_version", t.format_version));
        }
        let (compressor, chooser) = compressors(&options).unwrap_or_else(|e| {
            failed = Some(e);
            (Compressor::off(), None)
        });
        let sampling = match options.sample_for_compression {
            0 => None,
            one_in => match Sampling::new(one_in, options.file_number) {
                Ok(sampling) => Some(Box::new(sampling)),
                Err(e) => {
                    failed = Some(e);
                    None
                }
            },
        };
        let base = if t.format_version >= 6 {
            context_base(&options)
        } else {
            0
        };
        let deviation = t.block_size_deviation.min(100) as usize;
        let cut_limit = match deviation {
            0 => usize::MAX,
            _ => {
                t.block_size
                    .saturating_mul(100 - deviation)
                    .saturating_add(99)
                    / 100
            }
        };
        let cut_at = match t.one_entry_per_block {
            true => 0,
            // So that an entry that is not large still fits.
            false => t.block_size.min(LARGE_ENTRY),
        };
        // Differences presume that data blocks follow each other.
        let delta = t.format_version >= 4 && !t.block_align;
        if t.block_align && options.compression != CompressionType::None {
            failed = Some(Error::invalid_argument(
                "Enable block_align, but compression enabled",
            ));
        }
        let index = IndexBuilder::new(&options, delta);
        if let Err(e) = IndexBuilder::check(&options) {
            failed = Some(e);
        }
        let filter = FilterWriter::new(&options);
        let flat = FlatWriter::of(&options);
        if let Some(Err(e)) = flat.as_ref().map(|flat| flat.check(&options)) {
            failed = Some(e);
        }
        Self {
            is_special: timestamps.is_some() || flat.is_some(),
            extra_properties: Vec::new(),
            out: Output {
                file,
                buffer: Scratch::default(),
                written: 0,
                checksum: ChecksumContext {
                    kind: t.checksum,
                    base,
                },
                counters: options.counters.clone(),
            },
            block: data_blocks(&options),
            cut_limit,
            cut_at,
            compressor,
            sampling,
            chooser,
            used_codecs: 0,
            held: Held::of(&options),
            dictionary: None,
            range_deletions: None,
            index_wants_keys: index.wants_keys(),
            index,
            filter,
            filter_charges: Vec::new(),
            last_key: Vec::new(),
            counters: Counters::new(),
            collecting: match flat.is_some() {
                true => None,
                false => Collecting::of(&options),
            },
            timestamps,
            flat,
            timestamp_size: options.comparator.timestamp_size(),
            content: (options.hash_contents && options.persist_timestamps)
                .then(ContentHash::default),
            failed,
            options,
        }
    }

    /// Appends an entry.
    ///
    /// # Errors
    /// `InvalidArgument` if the key is not larger than the last one (T1), too short, or the entry
    /// too large; `NotSupported` for entry types this build does not write; errors of the file.
    /// After an error the builder only repeats it.
    #[inline]
    pub fn add(&mut self, internal_key: &[u8], value: &[u8]) -> Result<()> {
        if self.failed.is_some() || self.is_special {
            return self.add_specially(internal_key, value);
        }
        self.try_add(internal_key, value).map_err(|e| self.note(e))
    }

    /// After a failure, with timestamps, and without blocks.
    #[inline(never)]
    fn add_specially(&mut self, internal_key: &[u8], value: &[u8]) -> Result<()> {
        if let Some(e) = &self.failed {
            return Err(e.clone());
        }
        if self.flat.is_some() {
            return self.add_flat(internal_key, value).map_err(|e| self.note(e));
        }
        let done = match self.timestamps.take() {
            None => self.try_add(internal_key, value),
            Some(mut timestamps) => {
                let key = timestamps.take_key(internal_key);
                let done = key.and_then(|key| self.try_add(key, value));
                self.timestamps = Some(timestamps);
                done
            }
        };
        done.map_err(|e| self.note(e))
    }

    /// Remembers a failure.
    #[cold]
    fn note(&mut self, error: Error) -> Error {
        self.failed = Some(error.clone());
        error
    }

    /// Adds a range tombstone: every key from the user key in `start` (an internal key of type
    /// `RangeDeletion`) up to but not including `end` is deleted for older entries. In any order.
    ///
    /// # Errors
    /// `InvalidArgument` for a key of another type. After an error the builder only repeats it.
    pub fn add_range_tombstone(&mut self, start: &[u8], end: &[u8]) -> Result<()> {
        if let Some(e) = &self.failed {
            return Err(e.clone());
        }
        let kind = keys::split_internal(start).map(|(_, tag)| keys::tag_type(tag));
        if kind != Some(ValueType::RangeDeletion as u8) {
            let e = Error::invalid_argument("not the start of a range tombstone")
                .with("key", start.escape_ascii());
            self.failed = Some(e.clone());
            return Err(e);
        }
        if let Some(flat) = &self.flat {
            let e = flat.refuse_range_tombstone();
            return Err(self.note(e));
        }
        let mut timestamps = self.timestamps.take();
        let (start, end) = match &mut timestamps {
            None => (start, end),
            Some(t) => {
                let end = t.take_end(end);
                match t.take_key(start) {
                    Ok(start) => (start, end),
                    Err(e) => {
                        self.failed = Some(e.clone());
                        return Err(e);
                    }
                }
            }
        };
        self.range_deletions
            .get_or_insert_with(|| BlockBuilder::new(1))
            .add(start, end, 0);
        if let Some(collecting) = &mut self.collecting {
            collecting.add(start, end, self.out.offset());
        }
        let c = &mut self.counters;
        c.range_deletions += 1;
        c.deletions += 1;
        c.entries += 1;
        c.key_bytes += start.len() as u64;
        c.value_bytes += end.len() as u64;
        let seqno = keys::tag_sequence(keys::tag(start));
        c.note_seqno(seqno);
        self.timestamps = timestamps;
        Ok(())
    }

    #[inline(never)]
    fn try_add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let Some((user, tag)) = keys::split_internal(key) else {
            return Err(Error::invalid_argument(
                "internal key is shorter than its tag",
            ));
        };
        let shared = common_prefix(&self.last_key, key);
        if !self.follows(key, shared) {
            return Err(self.out_of_order(key));
        }
        let is_large = key.len() + value.len() > LARGE_ENTRY;
        if is_large {
            check_large(key, value)?;
        }
        if !self.block.is_empty() && (is_large || self.block_is_full(key.len(), value.len())) {
            self.cut_block(Some(key))?;
        }
        // Reports about blocks wait as they do.
        if self.held.is_none() {
            if self.index_wants_keys {
                self.index.key_added(key, self.block.is_empty());
            }
            if let Some(filter) = &mut self.filter {
                filter.add(&user[..user.len() - self.timestamp_size], &mut self.index);
            }
        }
        let delta = self.options.table.use_delta_encoding;
        self.block.add(key, value, if delta { shared } else { 0 });
        self.last_key.truncate(shared);
        self.last_key.extend_from_slice(&key[shared..]);
        if let Some(content) = &mut self.content {
            content.add(key, value);
        }
        if let Some(collecting) = &mut self.collecting {
            collecting.add(key, value, self.out.offset());
        }
        self.counters.count(tag, key.len(), value.len())
    }

    /// T1: whether `key`, which shares `shared` bytes with the last key, is larger than it.
    #[inline(always)]
    fn follows(&self, key: &[u8], shared: usize) -> bool {
        let last = &self.last_key;
        if last.is_empty() {
            return true;
        }
        let users = last.len().min(key.len()) - TAG_LEN;
        match (&self.options.comparator, shared < users) {
            (Comparator::Bytewise, true) => last[shared] < key[shared],
            (Comparator::ReverseBytewise, true) => last[shared] > key[shared],
            (cmp, _) => cmp.compare_internal(last, key) == Ordering::Less,
        }
    }

    #[cold]
    fn out_of_order(&self, key: &[u8]) -> Error {
        // B1: the streams that feed the builder are in order.
        Error::invalid_argument("T1: keys must be added in strictly increasing order")
            .with_path(self.out.file.path())
            .with("last", self.last_key.escape_ascii())
            .with("key", key.escape_ascii())
    }

    /// Returns whether the block is cut before an entry of that size (RocksDB's flush-by-size policy).
    #[inline]
    fn block_is_full(&self, key_len: usize, value_len: usize) -> bool {
        let now = self.block.size();
        let target = self.options.table.block_size;
        if self.options.table.block_align {
            let next = self.block.size_of_next(key_len, value_len);
            return now >= self.cut_at || now + next + TRAILER_LEN > target;
        }
        now >= self.cut_at
            || (now > self.cut_limit && now + self.block.size_of_next(key_len, value_len) > target)
    }

    /// Charges the hashes gathered for the filter to the block cache, in whole steps.
    #[cold]
    fn charge_filter(&mut self) {
        let hashes = self.filter.as_ref().map_or(0, FilterWriter::num_entries);
        let bytes = hashes as usize * size_of::<u64>();
        let to = self.options.charges.filter.as_ref();
        while self.filter_charges.len() < bytes / STEP_BYTES {
            // Without room it is built all the same, and asks again with the next block.
            match charge(to, CacheRole::FilterConstruction, STEP_BYTES) {
                Ok(Some(charge)) => self.filter_charges.push(charge),
                _ => return,
            }
        }
    }

    /// Ends the open data block. `next` is the first key after it.
    fn cut_block(&mut self, next: Option<&[u8]>) -> Result<()> {
        if self.options.charges.filter.is_some() {
            self.charge_filter();
        }
        if let Some(held) = &mut self.held {
            let raw = self.block.finish().to_vec();
            self.block.clear();
            held.bytes += raw.len() as u64;
            let role = CacheRole::CompressionDictionaryBuildingBuffer;
            let charged = charge(self.options.charges.dictionary.as_ref(), role, raw.len());
            let is_refused = charged.is_err();
            held.blocks.push(HeldBlock {
                raw,
                _charge: charged.ok().flatten(),
                last: self.last_key.clone(),
                next: next.map(<[u8]>::to_vec),
            });
            return match is_refused || held.bytes > held.limit {
                true => self.release(),
                false => Ok(()),
            };
        }
        let raw = self.block.finish();
        if let Some(sampling) = &mut self.sampling {
            sampling.add(raw);
        }
        self.counters.raw_block_bytes += raw.len() as u64;
        let compressor = match &mut self.dictionary {
            None => &mut self.compressor,
            Some((_, compressor)) => compressor,
        };
        let verify = self.options.table.verify_compression;
        let counters = self.options.counters.as_ref();
        let chooser = self.chooser.as_deref_mut();
        let packed = Packed::pack(chooser, compressor, counters, (raw, verify))?;
        let handle = match packed.bytes {
            Some(bytes) => {
                self.used_codecs |= 1 << packed.codec.as_byte();
                self.out.align(&self.options.table, bytes.len());
                self.out.put(bytes, packed.codec.as_byte())?
            }
            None => {
                match packed.is_bypassed {
                    true => self.counters.bypassed += 1,
                    false => self.counters.rejected += 1,
                }
                self.out.align(&self.options.table, raw.len());
                self.out.put(raw, 0)?
            }
        };
        self.out.pad_behind(&self.options.table);
        self.counters.data_blocks += 1;
        self.block.clear();
        let last = std::mem::take(&mut self.last_key);
        self.index_block(&last, next, handle);
        self.last_key = last;
        Ok(())
    }

    fn index_block(&mut self, last: &[u8], next: Option<&[u8]>, handle: BlockHandle) {
        let shorten = match self.options.table.index_shortening {
            IndexShortening::None => false,
            IndexShortening::Separators => next.is_some(),
            IndexShortening::SeparatorsAndSuccessor => true,
        };
        let cmp = &self.options.comparator;
        self.index.add(cmp, last, next, shorten, handle);
    }

    /// Makes the dictionary and writes the blocks that waited for it. Like RocksDB 11.8, the
    /// properties do not count them.
    fn release(&mut self) -> Result<()> {
        let Some(held) = self.held.take() else {
            return Ok(());
        };
        let options = &Chooser::options_of(&wanted(&self.options));
        let raws: Vec<&[u8]> = held.blocks.iter().map(|b| b.raw.as_slice()).collect();
        let dictionary = dictionary::make(options, &raws);
        if !dictionary.is_empty() {
            let compressor = Compressor::with_dictionary(
                self.options.compression,
                options,
                self.options.table.max_compressed_bytes_per_kb,
                &dictionary,
            )?;
            self.dictionary = Some((dictionary, compressor));
        }
        for block in held.blocks {
            self.note_keys(&block.raw)?;
            if let Some(sampling) = &mut self.sampling {
                sampling.add(&block.raw);
            }
            self.counters.raw_block_bytes += block.raw.len() as u64;
            let compressor = match &mut self.dictionary {
                None => &mut self.compressor,
                Some((_, compressor)) => compressor,
            };
            let verify = self.options.table.verify_compression;
            let counters = self.options.counters.as_ref();
            let chooser = self.chooser.as_deref_mut();
            let packed = Packed::pack(chooser, compressor, counters, (&block.raw, verify))?;
            let handle = match packed.bytes {
                Some(bytes) => {
                    self.used_codecs |= 1 << packed.codec.as_byte();
                    self.out.align(&self.options.table, bytes.len());
                    self.out.put(bytes, packed.codec.as_byte())?
                }
                None => {
                    match packed.is_bypassed {
                        true => self.counters.bypassed += 1,
                        false => self.counters.rejected += 1,
                    }
                    self.out.align(&self.options.table, block.raw.len());
                    self.out.put(&block.raw, 0)?
                }
            };
            self.index_block(&block.last, block.next.as_deref(), handle);
        }
        Ok(())
    }

    /// Tells index and filter of the keys of a block that was held back, before it is written: a hash index records
    /// by number in which blocks a prefix is, and partitions of both end where blocks do. RocksDB does the same.
    fn note_keys(&mut self, raw: &[u8]) -> Result<()> {
        if !self.index_wants_keys && self.filter.is_none() {
            return Ok(());
        }
        let block = Block::data(raw.to_vec(), &self.options.comparator, false)?;
        let mut cursor = BlockCursor::default();
        cursor.set_block(Arc::new(block));
        let mut on = cursor.seek_to_first()?;
        let mut is_first = true;
        while on {
            let key = cursor.key();
            if self.index_wants_keys {
                self.index.key_added(key, is_first);
            }
            is_first = false;
            if let Some(filter) = &mut self.filter {
                let user = keys::user_key(key);
                filter.add(&user[..user.len() - self.timestamp_size], &mut self.index);
            }
            on = cursor.next()?;
        }
        if self.options.charges.filter.is_some() {
            self.charge_filter();
        }
        Ok(())
    }

    /// Bytes of the finished blocks. Compactions cut their outputs by it: like RocksDB they count
    /// neither the open block nor blocks that are held back for a dictionary.
    #[inline]
    pub fn file_size(&self) -> u64 {
        self.out.offset()
    }

    /// About the bytes that a table with one more data block has beyond those written so far: that
    /// block, index, filter, properties and the like.
    pub fn rest_size_estimate(&self) -> u64 {
        const OTHERS: u64 = 1400;
        let filter = self.filter.as_ref().map_or(0, FilterWriter::size_estimate);
        self.options.table.block_size as u64 + self.index.size_estimate() + filter + OTHERS
    }

    /// Entries added so far.
    pub fn num_entries(&self) -> u64 {
        self.counters.entries
    }

    /// Smallest and largest sequence number added; `None` before the first.
    pub fn seqnos(&self) -> Option<(u64, u64)> {
        self.counters.seqnos()
    }

    /// Returns whether the table holds the keys that are added: not if it drops their timestamps.
    pub fn keeps_keys(&self) -> bool {
        self.timestamps.is_none() || self.options.persist_timestamps
    }

    /// Last internal key added, as the table holds it; empty before the first.
    pub fn last_key(&self) -> &[u8] {
        &self.last_key
    }

    /// Writes filter, index, properties, metaindex and footer, then syncs and closes the file.
    ///
    /// # Errors
    /// What an earlier `add` failed with; errors of the file. The file is then useless.
    pub fn finish(mut self) -> Result<TableSummary> {
        if let Some(e) = self.failed.take() {
            return Err(e);
        }
        if let Some(flat) = self.flat.take() {
            return self.finish_flat(flat);
        }
        if !self.block.is_empty() {
            self.cut_block(None)?;
        }
        self.release()?;
        if let Some(chooser) = &self.chooser {
            chooser.remember();
        }
        let tail_start = self.out.offset();
        let mut metaindex: Vec<(&str, BlockHandle)> = Vec::new();
        let filter_entries = self.filter.as_ref().map_or(0, FilterWriter::num_entries);
        let filter_size = self.put_filter(&mut metaindex)?;
        let index = self.put_index()?;
        metaindex.extend_from_slice(&index.meta);
        if self.options.table.format_version >= 6 {
            metaindex.push(("rocksdb.index", index.handle));
        }
        if let Some((dictionary, _)) = self.dictionary.take() {
            let handle = self.out.put(&dictionary, 0)?;
            metaindex.push(("rocksdb.compression_dict", handle));
        }
        if let Some(mut block) = self.range_deletions.take() {
            metaindex.push(("rocksdb.range_del", self.out.put(block.finish(), 0)?));
        }
        let mut properties = self.properties(tail_start);
        if let Some(timestamps) = &self.timestamps {
            timestamps.finish(&mut properties);
        }
        properties.index_size = index.size + TRAILER_LEN as u64;
        properties.index_partitions = index.partitions;
        properties.num_uniform_blocks = index.uniform_blocks;
        properties.top_level_index_size = index.top_level_size;
        properties.index_key_is_user_key = index.user_keys;
        properties.index_value_is_delta_encoded = index.delta;
        properties.filter_size = filter_size;
        properties.num_filter_entries = filter_entries;
        let collecting = self.collecting.take();
        let needs_compaction = collecting.is_some_and(|c| c.finish(&mut properties));
        metaindex.push(("rocksdb.properties", self.out.put(&properties.encode(), 0)?));

        metaindex.sort_by_key(|(name, _)| *name);
        let mut builder = BlockBuilder::new(1);
        for (name, handle) in metaindex {
            let mut value = Vec::new();
            handle.encode(&mut value);
            builder.add(name.as_bytes(), &value, 0);
        }
        let metaindex = self.out.put(builder.finish(), 0)?;
        if self.options.table.format_version >= 8 && metaindex.size > 0xffff {
            return Err(Error::not_supported(
                "Metaindex block size > 64KB with format_version >= 8",
            ));
        }
        let footer = Footer {
            format_version: self.options.table.format_version,
            checksum: self.out.checksum,
            metaindex,
            index: Some(index.handle),
            offset: self.out.offset(),
        };
        self.out.buffer.extend_from_slice(&footer.encode());
        self.close(tail_start, properties, needs_compaction)
    }

    /// Syncs and closes the file, whose entries end at `tail_start`.
    fn close(
        mut self,
        tail_start: u64,
        properties: TableProperties,
        needs_compaction: bool,
    ) -> Result<TableSummary> {
        self.out.flush()?;
        self.out.sync()?;
        self.out.file.close()?;
        let file_size = self.out.written;
        Ok(TableSummary {
            file_size,
            tail_size: file_size - tail_start,
            unique_id: unique_id::unique_id(
                &self.options.db_id,
                &self.options.db_session_id,
                self.options.file_number,
            ),
            needs_compaction,
            properties,
            content: self.content,
        })
    }

    /// Writes the filter; its bytes, without trailers.
    fn put_filter(&mut self, metaindex: &mut Vec<(&'static str, BlockHandle)>) -> Result<u64> {
        let Some(filter) = self.filter.take() else {
            return Ok(0);
        };
        let mut size = 0;
        match filter.finish(&self.index)? {
            Finished::Nothing => {}
            Finished::Full(contents) => {
                size = contents.len();
                let to = self.options.charges.filter.as_ref();
                // Without room it is written all the same.
                let _charge = charge(to, CacheRole::FilterConstruction, size);
                metaindex.push((FULL_FILTER_NAME, self.out.put(&contents, 0)?));
            }
            Finished::Partitioned(partitions) => {
                let interval = self.options.table.index_block_restart_interval;
                let mut top = TopLevel::new(interval, self.index.form_of_top());
                for partition in partitions {
                    size += partition.contents.len();
                    top.add(&partition.key, self.out.put(&partition.contents, 0)?);
                }
                let top = top.finish();
                size += top.len();
                metaindex.push((PARTITIONED_FILTER_NAME, self.out.put(&top, 0)?));
            }
        }
        Ok(size as u64)
    }

    fn put_index(&mut self) -> Result<FinishedIndex> {
        let index = std::mem::replace(&mut self.index, IndexBuilder::new(&self.options, false));
        index.finish(&mut |block| {
            let t = &self.options.table;
            let counters = self.options.counters.as_ref();
            if !t.enable_index_compression {
                if let Some(counters) = counters {
                    counters.bypassed(block.len());
                }
                return self.out.put(block, 0);
            }
            let codec = self.options.compression;
            let packed = WriteCounters::pack(
                counters,
                codec,
                &mut self.compressor,
                (block, t.verify_compression),
            )?;
            match packed {
                Some(packed) => {
                    self.used_codecs |= 1 << codec.as_byte();
                    self.out.put(packed, codec.as_byte())
                }
                None => self.out.put(block, 0),
            }
        })
    }

    /// Gives up: closes the file as it is. The caller deletes it.
    pub fn abandon(mut self) {
        // The file is worthless; an error of closing it changes nothing.
        let _ = self.out.file.close();
    }

    /// Adds a property under a name that no collector uses. Before `finish`.
    pub fn set_property(&mut self, name: &'static str, value: Vec<u8>) {
        self.extra_properties.push((name, value));
    }

    /// Records when sequence numbers were assigned, in the form of the property. Before `finish`.
    pub fn set_seqno_times(&mut self, encoded: Vec<u8>) {
        self.options.seqno_to_time_mapping = encoded;
    }
}

/// Returns what a chooser needs to know of a table.
fn wanted(options: &BuilderOptions) -> Wanted<'_> {
    Wanted {
        choice: options.codec_choice,
        codec: options.compression,
        options: &options.compression_options,
        max_per_kb: options.table.max_compressed_bytes_per_kb,
        seed: options.file_number,
    }
}

/// The compressor of a table's blocks, and who chooses for data blocks.
fn compressors(options: &BuilderOptions) -> Result<(Compressor, Option<Box<Chooser>>)> {
    let wanted = wanted(options);
    let own = Chooser::options_of(&wanted);
    let compressor = Compressor::new(wanted.codec, &own, wanted.max_per_kb)?;
    Ok((
        compressor,
        Chooser::of(&wanted, &options.table.codec_memory)?,
    ))
}

/// Builder of data blocks.
fn data_blocks(options: &BuilderOptions) -> BlockBuilder {
    let t = &options.table;
    let hash = t.data_block_hash_index;
    let mut blocks = BlockBuilder::with_extras(
        t.block_restart_interval,
        t.separate_key_value_in_data_block,
        hash.filter(|_| !options.comparator.equates_different_bytes()),
    );
    let is_wanted = match t.common_prefix {
        CommonPrefix::Never => false,
        CommonPrefix::Bytewise => matches!(
            options.comparator,
            Comparator::Bytewise | Comparator::ReverseBytewise
        ),
        CommonPrefix::Always => options.comparator.timestamp_size() == 0,
    };
    if t.format_version >= 8 && t.use_delta_encoding && is_wanted {
        blocks.strip_prefixes();
    }
    blocks
}

/// A non-zero 31-bit number that differs between files.
fn context_base(options: &BuilderOptions) -> u32 {
    let base = options.context_checksum_base.unwrap_or_else(|| {
        let mut seed = options.db_session_id.clone().into_bytes();
        seed.extend_from_slice(options.db_id.as_bytes());
        seed.extend_from_slice(&options.file_number.to_le_bytes());
        seed.extend_from_slice(&options.file_creation_time.to_le_bytes());
        (xxh3_64(&seed) >> 32) as u32 & 0x7fff_ffff
    });
    base.max(1)
}
