//! Opens the tables of a family once and keeps the reader: with the file's metadata, or in the cache of
//! open tables if the number of open files is limited ([`TableIo`]).

use super::{FileMeta, FilePaths, RowCache, TableIo};
use spanlith_base::range_del::{FragmentedTombstones, RangeTombstone};
use spanlith_base::slice_transform::ExtractorCell;
use spanlith_base::stats::{Histogram, Ticker};
use spanlith_base::sync::ArcCell;
use spanlith_base::{Error, Result};
use spanlith_table::{AutoReadahead, CacheCharges, CacheRole, ReaderOptions, TableReader, charge};
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// Level of a table whose reader does not care.
const ANY_LEVEL: i32 = -1;

/// Sequence numbers that the fragments of one table may hold on top of four per tombstone. Flushes
/// and compactions write disjoint tombstones, which need one each; tables made by hand may nest them.
const NESTED_MAX: usize = 1 << 22;

/// How tables of a family are opened.
pub struct TableCache {
    /// How files are opened, and how many.
    pub io: Arc<TableIo>,
    /// Where tables lie.
    pub paths: FilePaths,
    /// Comparator, block cache and the like. What differs by file is filled in, and what may be changed on an
    /// open database comes from `read_options`.
    pub readers: ReaderOptions,
    /// Says what table options say about reading; tables opened from now on follow it.
    pub read_options: ArcCell<TableReadOptions>,
    /// Bytes of a checksum that data blocks in the cache have in memory, of tables opened from now on.
    pub block_protection_bytes: AtomicU8,
    /// The prefix extractor in use, for point lookups; iterators know that of their superversion. Relaxed: a lookup
    /// may ask for the prefixes of either during a change, and both say the truth.
    pub extractor: ExtractorCell,
    /// Says whether the unique id in the MANIFEST is compared with the file's.
    pub verify_unique_id: bool,
    /// Says whether point lookups that come down to the deepest level with files are expected to find their
    /// key there and ask no filter (`optimize_filters_for_hits`).
    pub expects_hits: bool,
    /// Answers of tables to point lookups, if they are kept.
    pub rows: Option<RowCache>,
}

/// Options of tables that concern their readers and may be changed on an open database. A table that is open
/// keeps those it was opened with, as in RocksDB.
#[derive(Clone, Debug, Default)]
pub struct TableReadOptions {
    /// `cache_index_and_filter_blocks`.
    pub cache_index_and_filter_blocks: bool,
    /// `cache_index_and_filter_blocks_with_high_priority`.
    pub with_high_priority: bool,
    /// `pin_l0_filter_and_index_blocks_in_cache`.
    pub pin_l0: bool,
    /// `pin_top_level_index_and_filter`.
    pub pin_top_level: bool,
    /// `whole_key_filtering`.
    pub whole_key_filtering: bool,
    /// `initial_auto_readahead_size` and its kin.
    pub auto_readahead: AutoReadahead,
}

/// An open table, for as long as it is in use.
pub enum ReaderRef<'a> {
    /// Stays open with the file's metadata.
    Held(&'a Arc<TableReader>),
    /// Stays open as long as somebody holds it or the limit of open files allows.
    Shared(Arc<TableReader>),
}

impl Deref for ReaderRef<'_> {
    type Target = Arc<TableReader>;
    #[inline]
    fn deref(&self) -> &Arc<TableReader> {
        match self {
            Self::Held(reader) => reader,
            Self::Shared(reader) => reader,
        }
    }
}

impl TableCache {
    /// Charges a file's description to the block cache, once, if descriptions are charged.
    ///
    /// # Errors
    /// `Aborted` with `MemoryLimit` if a strict cache has no room.
    pub fn charge_metadata(&self, file: &FileMeta) -> Result<()> {
        let to = self.readers.charges.metadata.as_ref();
        if file.charge.get().is_none()
            && let Some(charge) = charge(to, CacheRole::FileMetadata, file.memory_usage())?
        {
            // Another thread may have been faster; one charge stays.
            let _ = file.charge.set(charge);
        }
        Ok(())
    }

    /// The same tables by other means, past the block cache. Files have to be described anew, because a
    /// description keeps the reader that it was first opened with.
    pub fn apart(&self, io: Arc<TableIo>) -> Self {
        Self {
            io,
            paths: self.paths.clone(),
            readers: ReaderOptions {
                cache: None,
                charges: CacheCharges::default(),
                ..self.readers.clone()
            },
            read_options: ArcCell::new(self.read_options.load_full()),
            // There is no cache.
            block_protection_bytes: AtomicU8::new(0),
            extractor: ExtractorCell::new(self.extractor.get()),
            verify_unique_id: self.verify_unique_id,
            expects_hits: self.expects_hits,
            rows: None,
        }
    }

    /// The reader of a file, opened at first use. Later calls cost one load if the number of open files
    /// is not limited, else one lookup.
    ///
    /// # Errors
    /// Of the file system; `Corruption` if the file is not the one the MANIFEST describes.
    #[inline]
    pub fn reader<'a>(&self, file: &'a FileMeta) -> Result<ReaderRef<'a>> {
        match file.reader.get() {
            Some(r) => Ok(ReaderRef::Held(r)),
            None => self.find(file),
        }
    }

    #[cold]
    fn find<'a>(&self, file: &'a FileMeta) -> Result<ReaderRef<'a>> {
        if self.io.is_limited() {
            if let Some(reader) = self.io.cached(file.number) {
                // Another description of the file may have opened it.
                if file.stats.get().is_none() {
                    self.learn(file, &reader)?;
                }
                return Ok(ReaderRef::Shared(reader));
            }
            let reader = self.open(file)?;
            self.io.keep(file.number, &reader);
            return Ok(ReaderRef::Shared(reader));
        }
        let reader = self.open(file)?;
        // Two threads may open the same file at once; the first reader stays.
        let _ = file.reader.set(reader);
        Ok(ReaderRef::Held(file.reader.get().expect("set above")))
    }

    fn open(&self, file: &FileMeta) -> Result<Arc<TableReader>> {
        let counters = self.readers.counters.as_ref();
        let counted = counters.and_then(|c| Some((c.statistics.as_ref()?, &c.clock)));
        let Some((statistics, clock)) = counted else {
            return self.open_uncounted(file);
        };
        let began = statistics.wants_times().then(|| clock.monotonic_nanos());
        let opened = self.open_uncounted(file)?;
        statistics.add(Ticker::NoFileOpens, 1);
        if let Some(began) = began {
            let took = clock.monotonic_nanos().saturating_sub(began) / 1000;
            statistics.record_time(Histogram::TableOpenIoMicros, took);
        }
        Ok(opened)
    }

    /// Learns the statistics of a file without keeping its table open.
    ///
    /// # Errors
    /// Of opening it.
    pub fn learn_stats(&self, file: &FileMeta) -> Result<()> {
        self.open_uncounted(file).map(drop)
    }

    fn open_uncounted(&self, file: &FileMeta) -> Result<Arc<TableReader>> {
        let path = self.paths.table(file.number, file.path_id);
        let handle = self.io.open_table(&path)?;
        if handle.size() != file.size {
            return Err(size_mismatch(file.size, handle.size(), &path));
        }
        let cache = self.readers.cache.as_ref();
        // Opened again, a table finds its blocks in the cache.
        let cache_id = cache.map(|c| *file.cache_id.get_or_init(|| c.new_id()));
        let options = ReaderOptions {
            cache_id,
            ..self.options_of(file)
        };
        let reader = TableReader::open(handle, file.size, options)?;
        self.learn(file, &reader)?;
        Ok(reader)
    }

    /// Notes with a file what its open table says: the range tombstones first, so that who finds the
    /// reader or the statistics finds them too.
    fn learn(&self, file: &FileMeta, reader: &TableReader) -> Result<()> {
        if reader.has_range_tombstones() {
            let path = || self.paths.table(file.number, file.path_id);
            let tombstones = self
                .load_tombstones(reader)
                .map_err(|e| e.with_path(&path()))?;
            // Always the same, whoever comes first.
            let _ = file.tombstones.set(tombstones);
        }
        // A block that cannot be read is the business of a verification.
        if reader.has_misleading_hash_index().unwrap_or(false) {
            file.misleads.store(true, Ordering::Relaxed);
        }
        file.note_stats(reader);
        Ok(())
    }

    /// Changes how tables are opened from now on. Requires: leadership.
    pub fn set_read_options(&self, options: TableReadOptions) {
        self.read_options.replace(Arc::new(options));
    }

    /// How tables are opened now, whichever file it is.
    pub fn reader_options(&self) -> ReaderOptions {
        let o = self.read_options.load();
        ReaderOptions {
            cache_index_and_filter_blocks: o.cache_index_and_filter_blocks,
            cache_index_and_filter_blocks_with_high_priority: o.with_high_priority,
            pin_l0_filter_and_index_blocks_in_cache: o.pin_l0,
            pin_top_level_index_and_filter: o.pin_top_level,
            whole_key_filtering: o.whole_key_filtering,
            auto_readahead: o.auto_readahead,
            ..self.readers.clone()
        }
    }

    fn options_of(&self, file: &FileMeta) -> ReaderOptions {
        ReaderOptions {
            expected_unique_id: (self.verify_unique_id && file.unique_id != [0, 0])
                .then_some(file.unique_id),
            largest_seqno: file.largest_seqno,
            stripped_timestamps: !file.user_defined_timestamps_persisted,
            file_number: file.number,
            level: i32::try_from(file.last_level.load(Ordering::Relaxed)).unwrap_or(ANY_LEVEL),
            // Relaxed: an option on its own.
            block_protection_bytes: self.block_protection_bytes.load(Ordering::Relaxed),
            ..self.reader_options()
        }
    }

    /// Verifies every block of what lies at the path of a file now, footer included, past whatever is open
    /// or cached.
    ///
    /// # Errors
    /// Of the file system; the first mismatch.
    pub fn verify_checksums(&self, file: &FileMeta) -> Result<()> {
        let path = self.paths.table(file.number, file.path_id);
        let handle = self.io.open_table(&path)?;
        let size = handle.size();
        let options = ReaderOptions {
            cache: None,
            charges: CacheCharges::default(),
            ..self.options_of(file)
        };
        // The footer first, as in RocksDB, which knows of no other size than that of the file.
        TableReader::open(handle, size, options)?.verify_checksums()?;
        match size == file.size {
            true => Ok(()),
            false => Err(size_mismatch(file.size, size, &path)),
        }
    }

    /// The range tombstones of a table, as fragments.
    fn load_tombstones(&self, reader: &TableReader) -> Result<Arc<FragmentedTombstones>> {
        let stored = reader.range_tombstones()?;
        let tombstones = stored.iter().map(|(start, end, seqno)| RangeTombstone {
            start,
            end,
            seqno: *seqno,
        });
        let seqnos_max = NESTED_MAX + stored.len().saturating_mul(4);
        FragmentedTombstones::build_bounded(&self.readers.comparator, tombstones, seqnos_max)
            .map(Arc::new)
    }
}

#[cold]
fn size_mismatch(expected: u64, actual: u64, path: &Path) -> Error {
    // T3: a table is as long as its edit said.
    Error::corruption(format!(
        "Sst file size mismatch between expected {expected} and file system {actual} sstable: {}",
        path.display()
    ))
    .with_path(path)
}

#[cfg(test)]
mod tests {
    use super::super::{NewFile, TableIoOptions};
    use super::*;
    use crate::Db;
    use spanlith_base::slice_transform::NO_EXTRACTOR;
    use spanlith_env::{Env, MemFs};

    #[test]
    fn every_description_of_a_table_finds_its_range_tombstones() {
        let fs = Arc::new(MemFs::new());
        let (env, _, _) = Env::test(fs.clone(), 1);
        let builder = Db::builder("/db").create_if_missing(true).no_info_log();
        let db = builder.env(env).open().unwrap();
        db.default_cf().delete_range("a", "b").unwrap();
        db.flush(true).unwrap();
        let live = &db.live_files()[0];
        let new_file = NewFile {
            number: live.number,
            size: live.size,
            ..NewFile::default()
        };
        let io = TableIo::new(
            fs,
            TableIoOptions {
                max_open_files: 100,
                ..TableIoOptions::default()
            },
        );
        let tables = TableCache {
            io,
            paths: FilePaths::one(Path::new("/db")),
            readers: ReaderOptions::default(),
            read_options: ArcCell::new(Arc::new(TableReadOptions::default())),
            block_protection_bytes: AtomicU8::new(0),
            extractor: ExtractorCell::new(NO_EXTRACTOR),
            verify_unique_id: false,
            expects_hits: false,
            rows: None,
        };
        let first = FileMeta::from_new_file(&new_file, None);
        let before = first.redescribe(&new_file);
        tables.reader(&first).unwrap();
        let after = first.redescribe(&new_file);
        assert!(first.tombstones.get().is_some() && after.tombstones.get().is_some());
        assert!(before.tombstones.get().is_none());
        tables.reader(&before).unwrap();
        assert!(before.tombstones.get().is_some() && before.stats.get().is_some());
        assert_eq!(tables.io.open_count(), 1, "opened once");
    }
}
