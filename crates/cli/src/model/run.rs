//! Describes what a trace does to the engine: a database with its keys, and a replay over it for each size of the block cache.

use crate::fail::At;
use spanlith::options::CfOptions;
use spanlith::{Cf, Db, FamilyOptions, Put, ReplayOptions, Replayer, WriteBatch, WriteOptions};
use spanlith_base::stats::{Statistics, Ticker};
use spanlith_cache::Policy;
use spanlith_env::Env;
use spanlith_table::BlockCache;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// Bytes of a batch that fills a database.
const BATCH: usize = 1 << 20;

/// Takes an entry: the id of its family, key and value.
pub type Entry<'a> = dyn FnMut(u32, &[u8], &[u8]) -> spanlith::Result<()> + 'a;

/// Describes what a replay did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Effects {
    /// Blocks of data that were not in the cache.
    pub reads: u64,
    /// Share of lookups of data blocks that were.
    pub hit_ratio: f64,
    /// Bytes of tables that flushes and compactions wrote.
    pub written: u64,
    /// Seconds that writers were held up.
    pub stalled: f64,
    /// Requests per second.
    pub rate: f64,
}

/// A database that replays start from.
pub struct Base {
    dir: PathBuf,
    families: u32,
    options: CfOptions,
    /// Bytes of its tables.
    pub bytes: u64,
}

impl Base {
    /// Makes a database of so many families, filled by `fill` with entries of families by their ids, and compacted.
    pub fn make(
        dir: &Path,
        families: u32,
        write_buffer: u64,
        fill: &mut dyn FnMut(&mut Entry<'_>) -> spanlith::Result<()>,
    ) -> anyhow::Result<Self> {
        let mut options = CfOptions::default();
        options.write_buffer_size = write_buffer as _;
        options.target_file_size_base = write_buffer;
        options.max_bytes_for_level_base = write_buffer * 4;
        let mut base = Self {
            dir: dir.to_path_buf(),
            families,
            options,
            bytes: 0,
        };
        let db = base.open(dir, None)?;
        for id in 1..families {
            db.create_cf(base.family(id, None)).at(dir)?;
        }
        let mut batch = WriteBatch::new();
        let options = WriteOptions::new().disable_wal(true);
        fill(&mut |cf, key, value| {
            batch.put_cf(spanlith::FamilyRef::by_id(cf), key, value);
            if batch.size_bytes() >= BATCH {
                db.write_opt(&batch, &options)?;
                batch.clear();
            }
            Ok(())
        })
        .at(dir)?;
        db.write_opt(&batch, &options).at(dir)?;
        for cf in db.cfs() {
            cf.compact_all().at(dir)?;
        }
        base.bytes = db.metrics().live_bytes;
        db.close().at(dir)?;
        Ok(base)
    }

    fn family(&self, id: u32, cache: Option<&BlockCache>) -> FamilyOptions {
        let name = match id {
            0 => "default".to_string(),
            id => format!("family-{id}"),
        };
        let mut family = FamilyOptions::new(name)
            .options(self.options.clone())
            .merge_operator(Arc::new(Put));
        if let Some(cache) = cache {
            family = family.block_cache(cache.clone());
        }
        family
    }

    fn open(&self, dir: &Path, how: Option<(&BlockCache, &Arc<Statistics>)>) -> anyhow::Result<Db> {
        let mut builder = Db::builder(dir).create_if_missing(true);
        let known = if how.is_some() { self.families } else { 1 };
        for id in 0..known {
            builder = builder.family(self.family(id, how.map(|h| h.0)));
        }
        if let Some((_, statistics)) = how {
            builder = builder.statistics(statistics.clone());
        }
        builder.open().at(dir)
    }

    /// Replays a trace into a copy, as fast as it goes.
    pub fn replay(&self, trace: &Path, copy: &Path, cache_bytes: usize) -> anyhow::Result<Effects> {
        let source = self.open_all()?;
        source.checkpoint_opt(copy, 0).at(&self.dir)?;
        source.close().at(&self.dir)?;
        let statistics = Arc::new(Statistics::new());
        let cache = BlockCache::new(cache_bytes, Policy::Lru);
        let db = self.open(copy, Some((&cache, &statistics)))?;
        let families: Vec<Cf> = db.cfs();
        let mut replayer = Replayer::new(&db, &families, &Env::system(), trace).at(copy)?;
        replayer.prepare().at(copy)?;
        let options = ReplayOptions {
            fast_forward: 1e12,
            ..ReplayOptions::default()
        };
        let before = |t: Ticker| statistics.ticker(t);
        let start = [
            before(Ticker::BlockCacheDataMiss),
            before(Ticker::BlockCacheDataHit),
            before(Ticker::FlushWriteBytes) + before(Ticker::CompactWriteBytes),
            before(Ticker::StallMicros),
        ];
        let began = Instant::now();
        let done = replayer.replay(&options, None).at(copy)?;
        let seconds = began.elapsed().as_secs_f64();
        let reads = statistics.ticker(Ticker::BlockCacheDataMiss) - start[0];
        let hits = statistics.ticker(Ticker::BlockCacheDataHit) - start[1];
        db.flush(true).at(copy)?;
        db.wait_idle(None).at(copy)?;
        let written = statistics.ticker(Ticker::FlushWriteBytes)
            + statistics.ticker(Ticker::CompactWriteBytes)
            - start[2];
        let stalled = (statistics.ticker(Ticker::StallMicros) - start[3]) as f64 / 1e6;
        drop((replayer, families));
        db.close().at(copy)?;
        std::fs::remove_dir_all(copy).ok();
        Ok(Effects {
            reads,
            hit_ratio: hits as f64 / ((hits + reads) as f64).max(1.0),
            written,
            stalled,
            rate: done.requests() as f64 / seconds.max(1e-9),
        })
    }

    fn open_all(&self) -> anyhow::Result<Db> {
        let mut builder = Db::builder(&self.dir);
        for id in 0..self.families {
            builder = builder.family(self.family(id, None));
        }
        builder.open().at(&self.dir)
    }
}
