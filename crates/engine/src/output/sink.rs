//! The way of values between the iterator of a job and its tables: large values go to blob files, and
//! references to old blob files are relocated.
//!
//! [`ValueSink::pass`] gets each entry that the iterator outputs and answers with the entry for the
//! table: the same, or one whose value is a blob index, or one whose value came back from a blob file.
//! Key and sequence number never change. Rules, RocksDB 11.8's (`docs/formats/blob.md`):
//!
//! - a plain value, or a column of an entity, is separated if it is not empty and has at least
//!   `min_blob_size` bytes before compression;
//! - with garbage collection a reference to a blob file below the cutoff is read and treated like a new
//!   value;
//! - everything else passes.
//!
//! Blob files are cut by size only, independently of the tables. One sink belongs to one thread.

use crate::blob::{
    BlobFileReader, BlobFileWriter, BlobIndex, BlobPointer, BlobRead, ExpectedFamily,
    RECORD_HEADER_LEN, ReadAheadFile,
};
use crate::core::{Family, FamilySettings, Lsm, SizeTally};
use crate::options::{KvsepMode, KvsepRanges, PrepopulateBlobCache};
use crate::picker::BlobFileSet;
use crate::version::edit::{BlobFileAddition, BlobFileGarbage};
use crate::version::{FileChecksum, Version};
use spanlith_base::CompressionType;
use spanlith_base::stats::Ticker;
use spanlith_base::wide_columns::{ColumnKind, WideColumn, WideColumns, encode_sorted};
use spanlith_base::{Comparator, Error, FileNumber, Pinned, Result, ValueType, keys};
use spanlith_env::IoActivity;
use spanlith_table::format::Compressor;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Bytes that one read-ahead of a blob file takes at most, whatever the option says.
const READAHEAD_MAX: u64 = 16 << 20;

/// Files that a family is cut into at least with a target of space, and the smallest size for that.
const BUDGET_FILES: u64 = 64;
const BUDGET_FILE_MIN: u64 = 1 << 20;

/// Blob files that a job wrote, and what its relocations left behind.
#[derive(Clone, Debug, Default)]
pub(crate) struct NewBlobFiles {
    /// The finished files.
    pub additions: Vec<BlobFileAddition>,
    /// Records of older files whose references were replaced.
    pub relocated: Vec<BlobFileGarbage>,
    /// Sizes of the values of a flush, in adaptive mode.
    pub tally: Option<Box<SizeTally>>,
}

/// Separates and relocates the values of one job, or of one range of a job that is split.
pub(crate) struct ValueSink<'a> {
    lsm: &'a Lsm,
    family: &'a Family,
    activity: IoActivity,
    /// `None` if values are not separated, only relocated.
    separation: Option<Separation>,
    relocation: Option<Relocation>,
    open: Option<BlobFileWriter>,
    additions: Vec<BlobFileAddition>,
    /// Numbers of all files that were created.
    created: Vec<FileNumber>,
    /// Sizes of the values of a flush, in adaptive mode.
    tally: Option<Box<SizeTally>>,
    /// The entry that was changed last.
    key: Vec<u8>,
    value: Vec<u8>,
}

/// Which values are separated, and how they are stored.
struct Separation {
    min_size: u64,
    /// Sizes by ranges of keys, if there are any.
    ranges: Option<(KvsepRanges, Comparator)>,
    file_size: u64,
    codec: CompressionType,
    compressor: Option<Compressor>,
    /// New values go into the blob cache (`prepopulate_blob_cache`).
    warms_cache: bool,
    /// Small values stay in the block cache.
    keeps_pieces: bool,
}

impl Separation {
    #[inline]
    fn takes(&self, user_key: &[u8], value: &[u8]) -> bool {
        let min_size = match &self.ranges {
            None => self.min_size,
            Some((ranges, comparator)) => {
                let own = ranges.min_size(comparator, user_key);
                own.unwrap_or(self.min_size)
            }
        };
        !value.is_empty() && value.len() as u64 >= min_size
    }
}

/// Which references are replaced.
struct Relocation {
    files: OldFiles,
    version: Arc<Version>,
    /// Bytes read at a time; 0 for one value after the other.
    readahead: usize,
    /// Files that are read ahead.
    readers: HashMap<FileNumber, BlobFileReader>,
    /// Records that were left behind, by file.
    left: BTreeMap<FileNumber, BlobFileGarbage>,
}

/// The blob files whose references are replaced.
pub(crate) enum OldFiles {
    /// All with smaller numbers.
    Below(FileNumber),
    /// These.
    Named(BlobFileSet),
}

impl OldFiles {
    /// The oldest files, as many as the age cutoff says.
    pub(crate) fn by_age(version: &Version, age_cutoff: f64) -> Self {
        Self::Below(spared_from(version, age_cutoff))
    }

    #[inline]
    fn contains(&self, file: FileNumber) -> bool {
        match self {
            Self::Below(number) => file < *number,
            Self::Named(files) => files.contains(&file),
        }
    }
}

/// Bytes at which blob files are cut if they are collected by a target of space: a small part of all, so
/// that what is written while one is emptied stays small beside the target.
fn file_size_of_budget(family: &Family) -> u64 {
    let all = family.superversion.load().version.blob_bytes();
    (all / BUDGET_FILES).max(BUDGET_FILE_MIN)
}

/// Number of the first blob file that garbage collection with that cutoff spares.
fn spared_from(version: &Version, age_cutoff: f64) -> FileNumber {
    let files = &version.blob_files;
    let old = (age_cutoff.clamp(0.0, 1.0) * files.len() as f64) as usize;
    files.keys().nth(old).copied().unwrap_or(FileNumber::MAX)
}

impl<'a> ValueSink<'a> {
    /// The sink of a job whose tables go to `level`; `None` if it would let everything pass. Garbage
    /// collection needs `collect`: the version that the job began with and the files to empty.
    ///
    /// # Errors
    /// `NotSupported` for a codec that this build does not write.
    pub(crate) fn new(
        lsm: &'a Lsm,
        (family, settings): (&'a Family, &FamilySettings),
        activity: IoActivity,
        level: usize,
        collect: Option<(&Arc<Version>, OldFiles)>,
    ) -> Result<Option<Box<Self>>> {
        let o = &settings.options;
        let is_adaptive = o.own.kvsep_mode == KvsepMode::Adaptive;
        let starts = usize::try_from(o.blob_file_starting_level).unwrap_or(0);
        let mut separation = None;
        if o.enable_blob_files && level >= starts {
            let codec = o.blob_compression_type.for_writing()?;
            let options = crate::core::blob_compression_options(o);
            separation = Some(Separation {
                min_size: match is_adaptive {
                    true => family.adaptive.threshold(),
                    false => o.min_blob_size,
                },
                ranges: (!o.own.kvsep_ranges.is_empty())
                    .then(|| (o.own.kvsep_ranges.clone(), family.comparator.clone())),
                file_size: match settings.levels.blob_budget {
                    None => o.blob_file_size,
                    Some(_) => o.blob_file_size.min(file_size_of_budget(family)),
                },
                codec,
                compressor: match codec {
                    CompressionType::None => None,
                    codec => Some(Compressor::unlimited(codec, &options)?),
                },
                warms_cache: activity == IoActivity::Flush
                    && o.prepopulate_blob_cache == PrepopulateBlobCache::FlushOnly,
                keeps_pieces: is_adaptive,
            });
        }
        let relocation = collect.and_then(|(version, files)| {
            let is_met = version.blob_files.keys().any(|f| files.contains(*f));
            is_met.then(|| Relocation {
                files,
                version: version.clone(),
                readahead: o.blob_compaction_readahead_size.min(READAHEAD_MAX) as usize,
                readers: HashMap::new(),
                left: BTreeMap::new(),
            })
        });
        if separation.is_none() && relocation.is_none() {
            return Ok(None);
        }
        Ok(Some(Box::new(Self {
            lsm,
            family,
            activity,
            separation,
            relocation,
            open: None,
            additions: Vec::new(),
            created: Vec::new(),
            tally: (is_adaptive && activity == IoActivity::Flush).then(Box::default),
            key: Vec::new(),
            value: Vec::new(),
        })))
    }

    /// The entry that the table gets in place of this one.
    ///
    /// # Errors
    /// Of the blob file that is written; of one that is read, if the reference is relocated.
    pub(crate) fn pass<'s>(
        &'s mut self,
        key: &'s [u8],
        value: &'s [u8],
    ) -> Result<(&'s [u8], &'s [u8])> {
        let user_key = keys::user_key(key);
        let kind = match ValueType::from_byte(keys::tag_type(keys::tag(key))) {
            Some(ValueType::Value) => self.plain(user_key, value)?,
            Some(ValueType::BlobIndex) => self.reference(user_key, value)?,
            Some(ValueType::WideColumnEntity) => self.entity(user_key, value)?,
            _ => None,
        };
        let Some(kind) = kind else {
            return Ok((key, value));
        };
        self.key.clear();
        self.key.extend_from_slice(key);
        let tag = keys::pack_tag(keys::tag_sequence(keys::tag(key)), kind as u8);
        self.key[user_key.len()..].copy_from_slice(&tag.to_le_bytes());
        Ok((&self.key, &self.value))
    }

    /// Handles a plain value; tells the type of the entry in `self.value` if there is one.
    fn plain(&mut self, user_key: &[u8], value: &[u8]) -> Result<Option<ValueType>> {
        if let Some(tally) = &mut self.tally {
            tally.add(value.len() as u64);
        }
        let separation = self.separation.as_ref();
        if !separation.is_some_and(|s| s.takes(user_key, value)) {
            return Ok(None);
        }
        let pointer = self.separate(user_key, value)?;
        self.value.clear();
        pointer.encode(&mut self.value);
        Ok(Some(ValueType::BlobIndex))
    }

    /// As [`Self::plain`], for a blob index.
    fn reference(&mut self, user_key: &[u8], index: &[u8]) -> Result<Option<ValueType>> {
        let Some(value) = self.relocated(user_key, index)? else {
            return Ok(None);
        };
        if let Some(kind) = self.plain(user_key, &value)? {
            return Ok(Some(kind));
        }
        self.value.clear();
        self.value.extend_from_slice(&value);
        Ok(Some(ValueType::Value))
    }

    /// As [`Self::plain`], for an entity. One that does not decode passes: readers report it.
    fn entity(&mut self, user_key: &[u8], entity: &[u8]) -> Result<Option<ValueType>> {
        let Ok(columns) = WideColumns::decode(entity) else {
            return Ok(None);
        };
        // New value of each column that changes.
        let mut changes: Vec<Option<(ColumnKind, Pinned)>> = Vec::with_capacity(columns.len());
        for column in &columns {
            let fetched = match column.kind {
                ColumnKind::Blob => self.relocated(user_key, column.value)?,
                ColumnKind::Inline => None,
            };
            let value = match (&fetched, column.kind) {
                (Some(value), _) => value,
                (None, ColumnKind::Inline) => column.value,
                (None, ColumnKind::Blob) => {
                    changes.push(None);
                    continue;
                }
            };
            changes.push(
                if (self.separation.as_ref()).is_some_and(|s| s.takes(user_key, value)) {
                    let mut index = Vec::new();
                    self.separate(user_key, value)?.encode(&mut index);
                    Some((ColumnKind::Blob, Pinned::from_vec(index)))
                } else {
                    fetched.map(|value| (ColumnKind::Inline, value))
                },
            );
        }
        if changes.iter().all(Option::is_none) {
            return Ok(None);
        }
        let changed: Vec<WideColumn<'_>> = columns
            .iter()
            .zip(&changes)
            .map(|(column, change)| match change {
                None => column,
                Some((kind, value)) => WideColumn {
                    name: column.name,
                    value,
                    kind: *kind,
                },
            })
            .collect();
        self.value.clear();
        encode_sorted(&changed, &mut self.value)?;
        Ok(Some(ValueType::WideColumnEntity))
    }

    /// The value of a reference that is to be replaced; `None` if the reference stays.
    fn relocated(&mut self, user_key: &[u8], index: &[u8]) -> Result<Option<Pinned>> {
        let Some(relocation) = &mut self.relocation else {
            return Ok(None);
        };
        let pointer = BlobIndex::decode(index)?.pointer()?;
        // Number 0 is the table itself.
        if pointer.file == 0 || !relocation.files.contains(pointer.file) {
            return Ok(None);
        }
        let value = relocation.fetch(self.lsm, self.family, user_key, &pointer)?;
        let left = relocation.left.entry(pointer.file).or_default();
        left.number = pointer.file;
        left.count += 1;
        left.bytes += (RECORD_HEADER_LEN + user_key.len()) as u64 + pointer.size;
        if let Some(stats) = self.lsm.reporter.statistics() {
            stats.add(Ticker::BlobdbGcNumKeysRelocated, 1);
            stats.add(Ticker::BlobdbGcBytesRelocated, pointer.size);
        }
        Ok(Some(value))
    }

    /// Writes a value to the open blob file, or to a new one.
    fn separate(&mut self, user_key: &[u8], value: &[u8]) -> Result<BlobPointer> {
        let Some(separation) = &mut self.separation else {
            return Err(Error::aborted("a value is separated without blob files"));
        };
        let stored = match &mut separation.compressor {
            None => value,
            Some(compressor) => compressor
                .compress(value)
                .ok_or_else(|| Error::corruption("Error compressing blob"))?,
        };
        let writer = match &mut self.open {
            Some(writer) => writer,
            None => {
                let number = self.lsm.catalog.new_file_number();
                let path = self.family.cache.paths.blob(number);
                let io = &self.lsm.c.io;
                let file = io.create_table(&path, self.activity, self.lsm.is_held_up(), None)?;
                self.created.push(number);
                let (file, sum) = FileChecksum::of(&self.lsm.c.options).watch(file);
                let compression = separation.codec.as_byte();
                let parts = (number, file, sum);
                let pieces = self.family.blobs.pieces();
                let pieces = pieces.filter(|_| separation.keeps_pieces);
                let writer = BlobFileWriter::new(parts, self.family.id, compression);
                self.open.insert(writer.keeping(pieces))
            }
        };
        let pointer = writer.add(user_key, stored)?;
        if separation.warms_cache {
            self.family.blobs.keep(&pointer, value);
        }
        if writer.size() >= separation.file_size {
            self.close_file()?;
        }
        Ok(pointer)
    }

    fn close_file(&mut self) -> Result<()> {
        if let Some(writer) = self.open.take() {
            let addition = writer.finish()?;
            if let Some(stats) = self.lsm.reporter.statistics() {
                stats.add(Ticker::BlobdbBlobFileSynced, 1);
                stats.add(
                    Ticker::BlobdbBlobFileBytesWritten,
                    addition.total_bytes
                        + (crate::blob::HEADER_LEN + crate::blob::FOOTER_LEN) as u64,
                );
            }
            self.additions.push(addition);
        }
        Ok(())
    }

    /// Ends the open blob file. All files are synced then; their directory is not.
    ///
    /// # Errors
    /// Of the file.
    pub(crate) fn finish(&mut self) -> Result<()> {
        self.close_file()
    }

    /// Returns what was written. Requires: [`Self::finish`].
    pub(crate) fn into_files(self) -> NewBlobFiles {
        debug_assert!(self.open.is_none(), "finished before");
        let left = self.relocation.map(|r| r.left).unwrap_or_default();
        NewBlobFiles {
            additions: self.additions,
            relocated: left.into_values().collect(),
            tally: self.tally,
        }
    }

    /// Deletes all files that were created; nothing refers to them.
    pub(crate) fn remove_all(mut self) {
        drop(self.open.take());
        for number in self.created {
            self.lsm.discard_blob_file(self.family, number);
        }
    }
}

impl Relocation {
    fn fetch(
        &mut self,
        lsm: &Lsm,
        family: &Family,
        user_key: &[u8],
        pointer: &BlobPointer,
    ) -> Result<Pinned> {
        if !self.version.blob_files.contains_key(&pointer.file) {
            return Err(
                Error::corruption("Invalid blob file number").with("blob_file", pointer.file)
            );
        }
        if self.readahead == 0 {
            return family.blobs.get(user_key, pointer, BlobRead::of_job());
        }
        let reader = match self.readers.entry(pointer.file) {
            std::collections::hash_map::Entry::Occupied(reader) => reader.into_mut(),
            std::collections::hash_map::Entry::Vacant(vacant) => {
                let path = family.cache.paths.blob(pointer.file);
                let file = lsm.c.io.open_table(&path)?;
                let ahead = Arc::new(ReadAheadFile::new(file, self.readahead));
                let family = ExpectedFamily::Id(family.id);
                let reader = BlobFileReader::open(ahead, family)?;
                vacant.insert(reader.counting(lsm.reporter.shared_statistics()))
            }
        };
        reader.get(user_key, pointer, true)
    }
}
