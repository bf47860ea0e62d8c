//! Describes what a database shares with others of the process: budgets and limits that the caller attaches.

use super::{Family, PurgeQueue, TableDir};
use crate::options::DbOptions;
use crate::version::edit::BlobFileAddition;
use crate::version::{DbPath, FileMeta, TableIo, TableIoOptions};
use spanlith_base::stats::Statistics;
use spanlith_base::{Result, WriteBufferManager};
use spanlith_cache::Policy;
use spanlith_env::{Env, RateLimiter, RateLimiterOptions, SstFileManager};
use spanlith_table::BlockCache;
use std::sync::{Arc, OnceLock};

/// Bytes of a block cache that nobody gave: RocksDB's default.
const DEFAULT_CACHE_BYTES: usize = 32 << 20;

/// Attached to a database when it is opened.
#[derive(Clone, Debug, Default)]
pub(crate) struct Resources {
    /// Limits flushes and compactions.
    pub rate_limiter: Option<Arc<RateLimiter>>,
    /// Adds up table files and deletes them at a rate.
    pub sst_files: Option<Arc<SstFileManager>>,
    /// Budget of the memtables.
    pub write_buffers: Option<Arc<WriteBufferManager>>,
    /// Cache of rows, which may be a block cache as well.
    pub row_cache: Option<BlockCache>,
    /// `db_paths`: directories of the tables of families without own ones; empty means the database
    /// directory.
    pub paths: Vec<DbPath>,
    /// The directory of tables on a speed disk.
    pub tables: Option<TableDir>,
    /// The block cache of families without own ones.
    pub default_cache: DefaultCache,
}

/// A block cache of the default size (32 MiB), made when the first family needs it. Copies share it: RocksDB has one
/// for each table factory, which options and their copies share.
#[derive(Clone, Default)]
pub struct DefaultCache(Arc<OnceLock<BlockCache>>);

impl DefaultCache {
    pub(crate) fn get(&self) -> BlockCache {
        let cache = self
            .0
            .get_or_init(|| BlockCache::new(DEFAULT_CACHE_BYTES, Policy::Clock));
        cache.clone()
    }
}

impl std::fmt::Debug for DefaultCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("DefaultCache")
            .field(&self.0.get().is_some())
            .finish()
    }
}

impl Resources {
    /// Makes what options ask for and nobody attached.
    pub(crate) fn complete(&mut self, env: &Env, options: &mut DbOptions) {
        if self.rate_limiter.is_none() && options.rate_limiter_bytes_per_sec > 0 {
            let o = RateLimiterOptions::new(options.rate_limiter_bytes_per_sec);
            self.rate_limiter = Some(Arc::new(RateLimiter::new(&o, env.clock.clone())));
        }
        if self.rate_limiter.is_some() && options.bytes_per_sync == 0 {
            // As RocksDB: what is limited is written back steadily, too.
            options.bytes_per_sync = 1 << 20;
        }
        if self.write_buffers.is_none() && options.db_write_buffer_size > 0 {
            let limit = options.db_write_buffer_size;
            self.write_buffers = Some(Arc::new(WriteBufferManager::new(limit, None, false)));
        }
    }

    /// How the database opens and writes its tables.
    pub(crate) fn table_io(
        &self,
        env: &Env,
        o: &DbOptions,
        statistics: Option<Arc<Statistics>>,
    ) -> Arc<TableIo> {
        TableIo::new(
            env.fs.clone(),
            TableIoOptions {
                max_open_files: o.max_open_files,
                shard_bits: u32::try_from(o.table_cache_numshardbits).unwrap_or(0),
                direct_reads: o.use_direct_reads,
                allows_mapping: o.allow_mmap_reads,
                direct_writes: o.use_direct_io_for_flush_and_compaction,
                advise_random: o.advise_random_on_open,
                bytes_per_sync: o.bytes_per_sync,
                strict_bytes_per_sync: o.strict_bytes_per_sync,
                rate_limiter: self.rate_limiter.clone(),
                statistics,
                speed: self.tables.as_ref().map(|t| t.state.clone()),
            },
        )
    }
    /// Tells the manager of table files of a table that the database has.
    pub(crate) fn track_table(&self, purge: &PurgeQueue, family: &Family, file: &FileMeta) {
        if self.sst_files.is_some() {
            let path = family.table_path(file.number, file.path_id);
            purge.track(path, file.size);
        }
    }

    /// Tells the manager of a blob file.
    pub(crate) fn track_blob(&self, purge: &PurgeQueue, family: &Family, file: &BlobFileAddition) {
        if self.sst_files.is_some() {
            let path = family.cache.paths.blob(file.number);
            purge.track(path, file.file_size());
        }
    }

    /// Fails once all tables take as much space as they may; asked after each job that wrote some.
    pub(crate) fn check_space(&self) -> Result<()> {
        match &self.sst_files {
            Some(manager) => manager.check_space(),
            None => Ok(()),
        }
    }

    /// Sets room aside for a compaction of `bytes`; false if there is not enough.
    pub(crate) fn reserve_space(&self, family: &Family, bytes: u64) -> bool {
        let dir = family.cache.paths.dir(0);
        let manager = self.sst_files.as_ref();
        manager.is_none_or(|m| m.reserve_for_compaction(bytes, dir))
    }

    /// Gives back what [`Self::reserve_space`] set aside.
    pub(crate) fn release_space(&self, bytes: u64) {
        if let Some(manager) = &self.sst_files {
            manager.release_compaction(bytes);
        }
    }
}
