//! Opens a table and refuses what this build does not read.
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

use super::TableReader;
use super::adapt::Adaptation;
use super::filter::FilterPlace;
use super::index::IndexShape;
use crate::block::{entry, parts};
use crate::filter::PARTITIONED_FILTER_NAME;
use crate::flat::FlatFooter;
use crate::format::{BlockHandle, BlockKind, Decompressor, Dictionary, Footer};
use crate::index::{IndexForm, IndexType};
use crate::options::ReaderOptions;
use crate::properties::TableProperties;
use crate::{CacheRole, charge};
use spanlith_base::timestamp::name_without_timestamps;
use spanlith_base::{CompressionType, Error, Result};
use spanlith_cache::CacheKey;
use spanlith_env::RandomAccessFile;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes read from the end of the file at once when it is opened.
const TAIL_READ: u64 = 16 << 10;
pub(super) const PROPERTIES: &str = "rocksdb.properties";
const INDEX: &str = "rocksdb.index";
pub(super) const COMPRESSION_DICTIONARY: &str = "rocksdb.compression_dict";

/// The file with its last bytes in memory, so that opening needs few reads.
struct TailFile {
    file: Arc<dyn RandomAccessFile>,
    path: PathBuf,
    start: u64,
    tail: Vec<u8>,
}

impl RandomAccessFile for TailFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let at = offset
            .checked_sub(self.start)
            .and_then(|at| usize::try_from(at).ok());
        let part = at.and_then(|at| self.tail.get(at..at.checked_add(buf.len())?));
        match part {
            Some(part) => {
                buf.copy_from_slice(part);
                Ok(buf.len())
            }
            None => self.file.read_at(offset, buf),
        }
    }
    fn size(&self) -> u64 {
        self.file.size()
    }
    fn path(&self) -> &Path {
        &self.path
    }
}

impl TableReader {
    /// Opens a table of `file_size` bytes.
    ///
    /// # Errors
    /// `Corruption` for damage, including a unique id that is not the expected one; `NotSupported`
    /// with the name of a feature this build does not read; `InvalidArgument` if the table was
    /// written with another comparator; `Io`.
    pub fn open(
        file: Arc<dyn RandomAccessFile>,
        file_size: u64,
        options: ReaderOptions,
    ) -> Result<Arc<Self>> {
        let start = file_size.saturating_sub(TAIL_READ);
        let mut tail = vec![0; usize::try_from(file_size - start).unwrap_or(0)];
        let n = file.read_at(start, &mut tail)?;
        let path = file.path().to_path_buf();
        if n != tail.len() {
            return Err(Error::corruption("file is shorter than the MANIFEST says")
                .with_path(&path)
                .with("expected", file_size)
                .with("actual", start + n as u64));
        }
        if let Some(flat) = FlatFooter::decode(&tail, file_size, &path)? {
            return Self::open_flat(file, file_size, &flat, options);
        }
        let footer = Footer::decode(&tail, file_size, &path)?;
        let tail_file = Arc::new(TailFile {
            file: file.clone(),
            path,
            start,
            tail,
        });
        let mut reader = Self::unloaded(tail_file, file_size, footer, options);
        reader.begin_opening();
        reader.load().map_err(|e| e.with_path(file.path()))?;
        let role = CacheRole::BlockBasedTableReader;
        let charge = charge(
            reader.options.charges.reader.as_ref(),
            role,
            reader.memory_usage(),
        );
        reader._charge = charge.map_err(|e| e.with_path(file.path()))?;
        reader.file = file;
        reader.opening = None;
        Ok(Arc::new(reader))
    }

    /// A reader of which nothing but the footer is known.
    pub(super) fn unloaded(
        file: Arc<dyn RandomAccessFile>,
        file_size: u64,
        footer: Footer,
        options: ReaderOptions,
    ) -> Self {
        Self {
            file,
            file_size,
            footer,
            metaindex: Vec::new(),
            properties: TableProperties::default(),
            no_compression: false,
            decompressor: Decompressor::default(),
            flat: None,
            adaptation: None,
            index_handle: footer.index.unwrap_or_default(),
            index_shape: IndexShape {
                kind: IndexType::BinarySearch,
                form: IndexForm {
                    user_keys: false,
                    delta: false,
                    first_keys: false,
                    padding: 0,
                    escapes: false,
                },
            },
            index: None,
            index_partitions: Vec::new(),
            filter: FilterPlace::Absent,
            guard: (options.block_protection_bytes != 0).then(Box::default),
            prefixes: None,
            read_micros: options
                .counters
                .as_ref()
                .and_then(|c| c.statistics.as_ref())
                .map(|_| Box::default()),
            opening: None,
            cache_base: CacheKey { file: 0, block: 0 },
            _charge: None,
            options,
        }
    }

    fn load(&mut self) -> Result<()> {
        let verify = self.options.verify_checksums;
        self.load_metaindex(verify)?;
        let handle = self
            .meta(PROPERTIES)
            .ok_or_else(|| Error::corruption("table has no properties block"))?;
        let block = self.read_properties(handle, verify)?;
        self.properties = TableProperties::decode(&block).map_err(|e| self.at(e, handle))?;
        let offset = &mut self.properties.external_sst_file_global_seqno_offset;
        if *offset > 0 {
            *offset += handle.offset;
        }
        self.check_features()?;
        self.check_identity()?;
        self.cache_base = self.find_cache_base();
        self.adaptation =
            Adaptation::of(&self.properties, self.options.largest_seqno, self.padding())?;
        self.load_dictionary(verify)?;
        if self.footer.index.is_none() {
            self.index_handle = self
                .meta(INDEX)
                .ok_or_else(|| Error::corruption("metaindex does not name the index"))?;
        }
        let kind = self.properties.index_type();
        let kind = kind.and_then(IndexType::from_number).unwrap_or_default();
        self.index_shape = IndexShape {
            kind,
            form: IndexForm {
                user_keys: self.properties.index_key_is_user_key,
                delta: self.properties.index_value_is_delta_encoded,
                first_keys: kind == IndexType::BinarySearchWithFirstKey,
                padding: self.padding(),
                escapes: self.footer.format_version >= 8,
            },
        };
        self.load_index_and_filter(verify)
    }

    /// Sets up decompression, with the table's dictionary if it has one.
    fn load_dictionary(&mut self, verify: bool) -> Result<()> {
        self.decompressor.old_sizes = self.footer.format_version < 2;
        if self.no_compression {
            return Ok(());
        }
        let Some(handle) = self.meta(COMPRESSION_DICTIONARY) else {
            return Ok(());
        };
        let raw = self.read(handle, BlockKind::CompressionDictionary, verify)?;
        if raw.is_empty() {
            return Err(self.at(Error::corruption("empty compression dictionary"), handle));
        }
        let dictionary = Dictionary::new(raw, self.may_hold_zstd())
            .ok_or_else(|| self.at(Error::corruption("bad compression dictionary"), handle))?;
        self.decompressor.dictionary = Some(dictionary);
        Ok(())
    }

    /// Returns whether the properties allow for blocks that zstd compressed.
    fn may_hold_zstd(&self) -> bool {
        let name = &self.properties.compression_name;
        match name.split(';').nth(1) {
            Some(types) => types.as_bytes().chunks(2).any(|t| t == b"07"),
            None => !CompressionType::from_word(name)
                .and_then(|t| t.codec().ok())
                .is_some_and(|c| c != CompressionType::Zstd),
        }
    }

    fn load_metaindex(&mut self, verify: bool) -> Result<()> {
        let handle = self.footer.metaindex;
        let block = self.read(handle, BlockKind::MetaIndex, verify)?;
        let mut found = Vec::new();
        let entries = parts(&block).map_err(|e| self.at(e, handle))?;
        entry::for_each(
            block.get(..entries.entries_end).unwrap_or_default(),
            |name, value| {
                let (handle, _) = BlockHandle::decode(value)
                    .ok_or_else(|| Error::corruption("bad block handle in the metaindex"))?;
                found.push((String::from_utf8_lossy(name).into_owned(), handle));
                Ok(())
            },
        )
        .map_err(|e| self.at(e, handle))?;
        self.metaindex = found;
        Ok(())
    }

    /// The meta block of that name.
    pub(super) fn meta(&self, name: &str) -> Option<BlockHandle> {
        self.metaindex
            .iter()
            .find(|(n, _)| n == name)
            .map(|&(_, handle)| handle)
    }

    /// Refuses by name what this build does not read.
    fn check_features(&mut self) -> Result<()> {
        let p = &self.properties;
        let refuse = |what: &str| Err(Error::not_supported(what));
        self.no_compression = check_compression(p, self.footer.format_version)?;
        match p.index_type() {
            Some(0..=3) => {}
            Some(n) => return refuse(&format!("index type {n}")),
            None => return Err(Error::corruption("Missing index type property")),
        }
        self.check_comparator()
    }

    /// Refuses a table that was written in another order.
    pub(super) fn check_comparator(&self) -> Result<()> {
        let p = &self.properties;
        let refuse = |what: &str| Err(Error::not_supported(what));
        let ours = self.options.comparator.name();
        // Tables without timestamps are read both by families that have them in memory and by
        // those that do not.
        let theirs = &p.comparator_name[..];
        let bare = name_without_timestamps(theirs);
        let ours_bare = name_without_timestamps(ours).unwrap_or(ours);
        let equal = theirs == ours || self.is_stripped() && bare.unwrap_or(theirs) == ours_bare;
        if bare.is_some() && !equal {
            return refuse("user-defined timestamps");
        }
        if !p.comparator_name.is_empty() && !equal {
            return Err(
                Error::invalid_argument("table was written with another comparator")
                    .with("table", &p.comparator_name)
                    .with("opened_with", ours),
            );
        }
        Ok(())
    }

    /// Returns whether keys were written without their timestamps.
    fn is_stripped(&self) -> bool {
        self.options.stripped_timestamps
            || self.properties.user_defined_timestamps_persisted == Some(0)
    }

    /// Bytes of the timestamps that keys were written without.
    fn padding(&self) -> usize {
        match self.is_stripped() {
            true => self.options.comparator.timestamp_size(),
            false => 0,
        }
    }

    pub(super) fn check_identity(&self) -> Result<()> {
        let actual = self.properties.unique_id();
        match self.options.expected_unique_id {
            Some(expected) if expected != [0, 0] && expected != actual => {
                Err(Error::corruption(format!(
                    "Mismatch in unique ID on table file. Expected: {{{},{}}} Actual: {{{},{}}}",
                    expected[0], expected[1], actual[0], actual[1]
                )))
            }
            _ => Ok(()),
        }
    }

    /// Returns what the keys of its blocks in the cache begin with: its identity, so that a table that is opened again, by
    /// whomever, finds them there; else a number that no other table has.
    ///
    /// Sessions of one process may count up, as numbers of files do: they meet from both ends of the first word. The second
    /// is of the database, and has offsets in its lower bits.
    fn find_cache_base(&self) -> CacheKey {
        let p = &self.properties;
        let o = &self.options;
        if o.cache.is_some() && !p.db_session_id.is_empty() && p.orig_file_number != 0 {
            let [session, rest] = p.unique_id();
            let number = p.orig_file_number;
            return CacheKey {
                file: session ^ number.reverse_bits(),
                // Index blocks are kept as they are read: with keys as long as the reader's.
                block: rest ^ number ^ (self.padding() as u64) << 56,
            };
        }
        let file = match (o.cache_id, &o.cache) {
            (Some(id), _) => id,
            (None, Some(cache)) => cache.new_id(),
            (None, None) => 0,
        };
        CacheKey { file, block: 0 }
    }

    fn load_index_and_filter(&mut self, verify: bool) -> Result<()> {
        let o = &self.options;
        let pinned = o.pin_l0_filter_and_index_blocks_in_cache && o.level == 0;
        let in_cache = o.cache_index_and_filter_blocks && o.cache.is_some() && !pinned;
        // Partitions stay with the reader only if there is no other place for them.
        let partitions_in_cache = o.cache.is_some() && !pinned;
        let top_in_cache = in_cache && !o.pin_top_level_index_and_filter;
        let two_levels = self.has_two_levels();
        if if two_levels { top_in_cache } else { in_cache } {
            self.shared_index(&self.opening_params(verify))?;
        } else {
            let (handle, form) = (self.index_handle, self.index_shape.form);
            let params = self.opening_params(verify);
            let index = Arc::new(self.load_index(handle, form, BlockKind::Index, &params)?);
            match &mut self.guard {
                Some(guard) => guard.hold(handle, index),
                None => self.index = Some(index),
            }
        }
        if two_levels && !partitions_in_cache {
            let partitions = self.load_index_partitions(verify)?;
            match &mut self.guard {
                Some(guard) => partitions.into_iter().for_each(|(h, p)| guard.hold(h, p)),
                None => self.index_partitions = partitions.into_iter().map(|p| p.1).collect(),
            }
        }
        let partitioned = self.meta(PARTITIONED_FILTER_NAME).is_some();
        let filter_in_cache = if partitioned {
            partitions_in_cache
        } else {
            in_cache
        };
        if self.guard.is_some() {
            self.open_filter(true, true, verify);
            let stays = match partitioned {
                true => !top_in_cache || !filter_in_cache,
                false => !filter_in_cache,
            };
            let used = !matches!(self.filter, FilterPlace::Absent);
            let blocks = match stays && used {
                true => self.hold_filter(!filter_in_cache, verify),
                false => Vec::new(),
            };
            if let Some(guard) = &mut self.guard {
                blocks.into_iter().for_each(|(h, b)| guard.hold(h, b));
            }
            return Ok(());
        }
        self.open_filter(filter_in_cache, top_in_cache, verify);
        Ok(())
    }
}

/// Refuses codecs this build lacks; whether the table promises to hold no compressed block.
fn check_compression(p: &TableProperties, format_version: u32) -> Result<bool> {
    let name = p.compression_name.as_str();
    if format_version < 7 {
        return match name {
            "NoCompression" => Ok(true),
            "" => Ok(false),
            // An unknown name is no reason to refuse: the blocks say what they are.
            other => match CompressionType::from_word(other) {
                Some(known) => known.codec().map(|_| false),
                None => Ok(false),
            },
        };
    }
    let mut fields = name.split(';');
    let manager = fields.next().unwrap_or_default();
    let types = fields.next().unwrap_or_default();
    if !matches!(manager, "" | "BuiltinV2") {
        return Err(Error::not_supported(format!(
            "compression manager {manager}"
        )));
    }
    for pair in types.as_bytes().chunks(2) {
        let hex = std::str::from_utf8(pair)
            .ok()
            .and_then(|s| u8::from_str_radix(s, 16).ok());
        let known = hex.and_then(CompressionType::from_stored_byte);
        known
            .ok_or_else(|| Error::corruption("bad compression property").with("value", name))?
            .codec()?;
    }
    Ok(manager.is_empty() && !name.is_empty())
}
