//! How the table files of a database are opened and written: directly or through the page cache, at
//! which rate, and how many stay open at a time.
//!
//! One [`TableIo`] serves all families. It knows nothing of versions; whoever opens a table says which.
//!
//! **Open tables.** With `max_open_files = -1` every reader stays with its file's metadata. With a
//! limit, readers live in a small cache under the number of their file, the least recently used
//! leaves, and a table that is needed again is opened again. Ten descriptors are set aside for other
//! files, as in RocksDB. A reader in use stays open beyond the limit until it is let go.
//!
//! Threads: any.

use super::io_times::{IoTimes, MeteredFile};
use spanlith_base::Result;
use spanlith_base::stats::Statistics;
use spanlith_base::sync::ArcCell;
use spanlith_cache::{Cache, CacheKey, Policy, Priority};
use spanlith_env::{
    Access, FileSystem, IoActivity, IoPriority, OpenHow, PacedFile, RandomAccessFile, RateLimiter,
    SyncPace, WritableFile,
};
use spanlith_speed::SpeedTables;
use spanlith_table::TableReader;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

/// Descriptors left to other files than tables.
const OTHER_FILES: usize = 10;
/// Open tables of a smallest shard: an even spread needs some.
const SHARD_FILES_MIN: usize = 64;

/// How a [`TableIo`] goes about it, by options of the database.
#[derive(Clone, Debug)]
pub struct TableIoOptions {
    /// `max_open_files`: most files open at a time; -1 for no limit.
    pub max_open_files: i32,
    /// `table_cache_numshardbits`: most shards of the cache of open tables, as a power of two.
    pub shard_bits: u32,
    /// `use_direct_reads`: tables are read past the page cache.
    pub direct_reads: bool,
    /// `allow_mmap_reads`: RocksDB reads cuckoo tables in no other way.
    pub allows_mapping: bool,
    /// `use_direct_io_for_flush_and_compaction`: tables are written past the page cache.
    pub direct_writes: bool,
    /// `advise_random_on_open`: the kernel is told not to read ahead.
    pub advise_random: bool,
    /// `bytes_per_sync`: bytes of a table between requests for write-back; 0 for none.
    pub bytes_per_sync: u64,
    /// `strict_bytes_per_sync`: the writer waits for the write-back before.
    pub strict_bytes_per_sync: bool,
    /// Limits flushes and compactions, if there is one.
    pub rate_limiter: Option<Arc<RateLimiter>>,
    /// Counts what the limiter is asked for.
    pub statistics: Option<Arc<Statistics>>,
    /// The directory of tables on a speed disk, whose files give way to the log. Requests of all tables are timed for it.
    pub speed: Option<Arc<SpeedTables>>,
}

impl Default for TableIoOptions {
    fn default() -> Self {
        Self {
            max_open_files: -1,
            shard_bits: 6,
            direct_reads: false,
            allows_mapping: true,
            direct_writes: false,
            advise_random: false,
            bytes_per_sync: 0,
            strict_bytes_per_sync: false,
            rate_limiter: None,
            statistics: None,
            speed: None,
        }
    }
}

/// Opens and creates the table files of a database.
pub struct TableIo {
    fs: Arc<dyn FileSystem>,
    direct_reads: bool,
    allows_mapping: bool,
    direct_writes: bool,
    advise_random: bool,
    rate_limiter: Option<Arc<RateLimiter>>,
    statistics: Option<Arc<Statistics>>,
    speed: Option<Arc<SpeedTables>>,
    /// Relaxed, as all numbers here: they stand for themselves.
    bytes_per_sync: AtomicU64,
    strict_bytes_per_sync: AtomicBool,
    max_open_files: AtomicI32,
    /// Readers that are open although no file's metadata holds them.
    open: ArcCell<Cache<TableReader>>,
    /// `table_cache_numshardbits`.
    shard_bits: u32,
}

impl std::fmt::Debug for TableIo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableIo")
            .field("open", &self.open.load().len())
            .finish_non_exhaustive()
    }
}

/// Readers that may be open under a limit of files.
fn readers_max(max_open_files: i32) -> usize {
    usize::try_from(max_open_files)
        .map_or(usize::MAX >> 1, |n| n.saturating_sub(OTHER_FILES).max(1))
}

/// A cache of open tables for a limit of files.
fn open_tables(max_open_files: i32, shard_bits: u32) -> Arc<Cache<TableReader>> {
    let most = readers_max(max_open_files);
    let bits = (most / SHARD_FILES_MIN).max(1).ilog2().min(shard_bits);
    Arc::new(Cache::with_shards(most, Policy::Lru, bits, false))
}

fn key(number: u64) -> CacheKey {
    CacheKey {
        file: number,
        block: 0,
    }
}

impl TableIo {
    /// Table files in `fs`.
    pub fn new(fs: Arc<dyn FileSystem>, o: TableIoOptions) -> Arc<Self> {
        Arc::new(Self {
            fs,
            direct_reads: o.direct_reads,
            allows_mapping: o.allows_mapping,
            direct_writes: o.direct_writes,
            advise_random: o.advise_random,
            rate_limiter: o.rate_limiter,
            statistics: o.statistics,
            speed: o.speed,
            bytes_per_sync: AtomicU64::new(o.bytes_per_sync),
            strict_bytes_per_sync: AtomicBool::new(o.strict_bytes_per_sync),
            max_open_files: AtomicI32::new(o.max_open_files),
            open: ArcCell::new(open_tables(o.max_open_files, o.shard_bits)),
            shard_bits: o.shard_bits,
        })
    }

    /// The file system.
    pub fn fs(&self) -> &Arc<dyn FileSystem> {
        &self.fs
    }

    /// Returns what limits flushes and compactions.
    pub fn rate_limiter(&self) -> Option<&Arc<RateLimiter>> {
        self.rate_limiter.as_ref()
    }

    /// Returns whether files may be mapped into memory, for tables that ask.
    pub fn allows_mapping(&self) -> bool {
        self.allows_mapping
    }

    /// Returns whether the number of open files is limited.
    pub fn is_limited(&self) -> bool {
        self.max_open_files.load(Ordering::Relaxed) != -1
    }

    /// Changes `max_open_files`. Readers that are with their file's metadata stay there; others are closed once
    /// nobody uses them, and opened again at need: how many shards a cache has depends on the limit.
    pub fn set_max_open_files(&self, files: i32) {
        if self.max_open_files.swap(files, Ordering::Relaxed) != files {
            self.open.replace(open_tables(files, self.shard_bits));
        }
    }

    /// Changes `bytes_per_sync` and `strict_bytes_per_sync` for tables created from now on.
    pub fn set_bytes_per_sync(&self, bytes: u64, strict: bool) {
        self.bytes_per_sync.store(bytes, Ordering::Relaxed);
        self.strict_bytes_per_sync.store(strict, Ordering::Relaxed);
    }

    /// Tables to open when a database is opened: all, or a quarter of those that may be.
    pub fn open_at_start(&self) -> usize {
        let max = self.max_open_files.load(Ordering::Relaxed);
        if max == -1 {
            usize::MAX
        } else {
            readers_max(max) / 4
        }
    }

    /// The open reader of a table, if the cache of open tables has it.
    pub fn cached(&self, number: u64) -> Option<Arc<TableReader>> {
        self.open.load().lookup(&key(number))
    }

    /// Keeps a reader open as long as the limit allows.
    pub fn keep(&self, number: u64, reader: &Arc<TableReader>) {
        // Only a strict cache fails, and this one is not.
        let _ = self
            .open
            .load()
            .insert(key(number), reader.clone(), 1, Priority::Low);
    }

    /// Closes tables that nobody uses now, except those that their file's metadata holds.
    pub fn close_idle(&self) {
        self.open.load().clear_unpinned();
    }

    /// Closes a table that is about to be deleted.
    pub fn forget(&self, number: u64) {
        self.open.load().erase(&key(number));
    }

    /// Tables open beside those that their file's metadata holds.
    pub fn open_count(&self) -> usize {
        self.open.load().len()
    }

    /// Opens a table for reading.
    ///
    /// # Errors
    /// Of the file system.
    pub fn open_table(&self, path: &Path) -> Result<Arc<dyn RandomAccessFile>> {
        let file = if self.direct_reads {
            self.fs.open_random_how(path, OpenHow { is_direct: true })?
        } else {
            self.fs.open_random(path)?
        };
        if self.advise_random {
            file.advise(Access::Random);
        }
        Ok(match &self.speed {
            Some(speed) if speed.holds(path) => speed.reader(file),
            Some(speed) => speed.other_reader(file),
            None => file,
        })
    }

    /// Creates a table file. A flush goes before a compaction with the rate limiter; `is_urgent`, while
    /// writers are held up, before both. Calls of the file are measured if there are `times`.
    ///
    /// # Errors
    /// Of the file system.
    pub fn create_table(
        &self,
        path: &Path,
        activity: IoActivity,
        is_urgent: bool,
        times: Option<&Arc<IoTimes>>,
    ) -> Result<Box<dyn WritableFile>> {
        let mut file = if self.direct_writes {
            self.fs
                .create_how(path, activity, OpenHow { is_direct: true })?
        } else {
            self.fs.create(path, activity)?
        };
        file = match &self.speed {
            Some(speed) if speed.holds(path) => speed.writer(file),
            Some(speed) => speed.other_writer(file),
            None => file,
        };
        if let Some(times) = times {
            let times = times.clone();
            file = Box::new(MeteredFile { file, times });
        }
        let pace = SyncPace {
            bytes_per_sync: self.bytes_per_sync.load(Ordering::Relaxed),
            is_strict: self.strict_bytes_per_sync.load(Ordering::Relaxed),
        };
        if self.rate_limiter.is_none() && pace.bytes_per_sync == 0 {
            return Ok(file);
        }
        let priority = match activity {
            _ if is_urgent => IoPriority::User,
            IoActivity::Flush => IoPriority::High,
            _ => IoPriority::Low,
        };
        let limiter = self.rate_limiter.clone().map(|l| (l, priority));
        let file = PacedFile::new(file, limiter, pace).counted(self.statistics.clone());
        Ok(Box::new(file))
    }
}
