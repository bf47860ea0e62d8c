//! Describes what a trace does to the engine: a database with its keys, and a replay over it for each size of the block cache.

use crate::fail::At;
use spanlith::options::CfOptions;
use spanlith::trace::kinds;
use spanlith::{
    Cf, Db, FamilyOptions, Put, ReplayOptions, Replayed, Replayer, WriteBatch, WriteOptions,
};
use spanlith_base::stats::{Statistics, Ticker};
use spanlith_cache::Policy;
use spanlith_env::{Env, RateLimiter, RateLimiterOptions};
use spanlith_table::BlockCache;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Bytes of a batch that fills a database.
const BATCH: usize = 1 << 20;

/// Takes an entry: the id of its family, key and value.
pub type Entry<'a> = dyn FnMut(u32, &[u8], &[u8]) -> spanlith::Result<()> + 'a;

/// Between two grants of bytes to a limited disk: short beside the stalls that are to be seen.
const REFILL_MICROS: u64 = 10_000;
/// Writes after which it is looked whether a memtable was sealed.
const LOOK_EVERY: u64 = 16;

/// How requests follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Each waits until flushes and compactions that are due have ended, so that blocks read and bytes written follow from the
    /// requests, whatever the machine has to do besides.
    InStep,
    /// As fast as they are answered.
    Free,
    /// Likewise, but flushes and compactions write so many bytes per second at most, as on a slow disk: writers are held up, and for how
    /// long follows from what has to be written.
    Limited(Limit),
}

/// A disk that flushes and compactions wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The rate at which it takes them.
    pub bytes_per_second: u64,
    /// Bytes of a memtable of families that were made; those of a checkpoint keep their options.
    pub write_buffer: Option<u64>,
}

/// Describes what a replay did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Effects {
    /// Blocks of data that were not in the cache.
    pub reads: u64,
    /// Share of lookups of data blocks that were.
    pub hit_ratio: f64,
    /// Bytes of tables and blob files that flushes and compactions wrote.
    pub written: u64,
    /// Seconds that writers were held up.
    pub stalled: f64,
    /// Requests per second.
    pub rate: f64,
}

impl Limit {
    /// Some forty memtables are written: with the defaults nobody would ever be held up, and what is left to compact at the end would
    /// decide for how long.
    fn hold_up(&self, families: &[Cf]) -> spanlith::Result<()> {
        let Some(buffer) = self.write_buffer else {
            return Ok(());
        };
        let changes = [
            ("level0_slowdown_writes_trigger", 5),
            ("level0_stop_writes_trigger", 8),
            ("soft_pending_compaction_bytes_limit", 8 * buffer),
            ("hard_pending_compaction_bytes_limit", 16 * buffer),
        ];
        let changes = changes.map(|(name, value)| (name, value.to_string()));
        families.iter().try_for_each(|cf| cf.set_options(&changes))
    }
}

/// A database that replays start from.
pub struct Base {
    dir: PathBuf,
    families: BTreeMap<u32, FamilyOptions>,
    /// Bytes of its tables and blob files.
    pub bytes: u64,
}

/// Options of so many families that are made for a trace, by id.
pub fn made_families(families: u32, write_buffer: u64) -> BTreeMap<u32, FamilyOptions> {
    let mut options = CfOptions::default();
    options.write_buffer_size = write_buffer;
    options.target_file_size_base = write_buffer;
    options.max_bytes_for_level_base = write_buffer * 4;
    let of = |id| {
        let family = FamilyOptions::new(name_of(id)).options(options.clone());
        (id, family.merge_operator(Arc::new(Put)))
    };
    (0..families).map(of).collect()
}

fn name_of(id: u32) -> String {
    match id {
        0 => "default".to_string(),
        id => format!("family-{id}"),
    }
}

/// Waits for flushes and compactions after each memtable that was sealed.
struct InStep<'a> {
    db: &'a Db,
    families: &'a [Cf],
    statistics: &'a Statistics,
    writes: AtomicU64,
    flushed: AtomicU64,
}

impl InStep<'_> {
    fn after(&self, replayed: &Replayed<'_>) {
        // Relaxed, here and below: one thread asks.
        if replayed.kind != kinds::WRITE
            || !self
                .writes
                .fetch_add(1, Ordering::Relaxed)
                .is_multiple_of(LOOK_EVERY)
        {
            return;
        }
        let is_sealed = |cf: &Cf| {
            cf.int_property("rocksdb.num-immutable-mem-table")
                .is_some_and(|n| n > 0)
        };
        let flushed = self.statistics.ticker(Ticker::FlushWriteBytes);
        let has_flushed = self.flushed.swap(flushed, Ordering::Relaxed) != flushed;
        if has_flushed || self.families.iter().any(is_sealed) {
            // An error of a flush or compaction is the next request's, or that of the flush at the end.
            let _ = self.db.wait_idle(None);
            self.flushed.store(
                self.statistics.ticker(Ticker::FlushWriteBytes),
                Ordering::Relaxed,
            );
        }
    }
}

impl Base {
    /// Makes a database of these families, filled by `fill` with entries of families by their ids, and compacted. Where an id
    /// between them has no options, an empty family takes it.
    pub fn make(
        dir: &Path,
        mut families: BTreeMap<u32, FamilyOptions>,
        fill: &mut dyn FnMut(&mut Entry<'_>) -> spanlith::Result<()>,
    ) -> anyhow::Result<Self> {
        let last = families.last_key_value().map_or(0, |(id, _)| *id);
        for id in 0..=last {
            let empty = || FamilyOptions::new(name_of(id).replace("family", "no-family"));
            families.entry(id).or_insert_with(empty);
        }
        let base = Self {
            dir: dir.to_path_buf(),
            families,
            bytes: 0,
        };
        let mut builder = Db::builder(dir).create_if_missing(true);
        if let Some(default) = base.families.get(&0) {
            builder = builder.family(default.clone());
        }
        let db = builder.open().at(dir)?;
        for family in base.families.values().skip(1) {
            db.create_cf(family.clone()).at(dir)?;
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
        let base = base.measured(&db, |_| true);
        db.close().at(dir)?;
        Ok(base)
    }

    /// A database that is there.
    pub fn existing(dir: &Path, families: BTreeMap<u32, FamilyOptions>) -> anyhow::Result<Self> {
        Ok(Self {
            dir: dir.to_path_buf(),
            families,
            bytes: 0,
        })
    }

    /// With the bytes that families of the open database have, those whose ids count.
    pub fn measured(mut self, db: &Db, counts: impl Fn(u32) -> bool) -> Self {
        let bytes = |cf: Cf| {
            let of = |name| cf.int_property(name).unwrap_or(0);
            of("rocksdb.live-sst-files-size") + of("rocksdb.live-blob-file-size")
        };
        let counted = db.cfs().into_iter().filter(|cf| counts(cf.id()));
        self.bytes = counted.map(bytes).sum();
        self
    }

    /// Opens it.
    pub fn open(&self, how: Option<(&BlockCache, &Arc<Statistics>)>) -> anyhow::Result<Db> {
        self.open_at(&self.dir, how, Pace::Free)
    }

    fn open_at(
        &self,
        dir: &Path,
        how: Option<(&BlockCache, &Arc<Statistics>)>,
        pace: Pace,
    ) -> anyhow::Result<Db> {
        let mut builder = Db::builder(dir);
        for family in self.families.values() {
            let mut family = family.clone();
            if let Some((cache, _)) = how {
                family = family.block_cache(cache.clone());
            }
            builder = builder.family(family);
        }
        if let Some((_, statistics)) = how {
            builder = builder.statistics(statistics.clone());
        }
        if let Pace::Limited(limit) = pace {
            let limits = RateLimiterOptions {
                refill_period_micros: REFILL_MICROS,
                ..RateLimiterOptions::new(limit.bytes_per_second.max(1))
            };
            let clock = Env::system().clock.clone();
            builder = builder.rate_limiter(Arc::new(RateLimiter::new(&limits, clock)));
        }
        builder.open().at(dir)
    }

    /// Replays a trace into a copy.
    pub fn replay(
        &self,
        trace: &Path,
        copy: &Path,
        cache_bytes: usize,
        pace: Pace,
    ) -> anyhow::Result<Effects> {
        let source = self.open(None)?;
        source.checkpoint_opt(copy, 0).at(&self.dir)?;
        source.close().at(&self.dir)?;
        let statistics = Arc::new(Statistics::new());
        let cache = BlockCache::new(cache_bytes, Policy::Lru);
        let db = self.open_at(copy, Some((&cache, &statistics)), pace)?;
        let families: Vec<Cf> = db.cfs();
        if let Pace::Limited(limit) = pace {
            limit.hold_up(&families).at(copy)?;
        }
        let mut replayer = Replayer::new(&db, &families, &Env::system(), trace).at(copy)?;
        replayer.prepare().at(copy)?;
        let options = ReplayOptions {
            fast_forward: 1e12,
            ..ReplayOptions::default()
        };
        let counts = || {
            let of = |t: Ticker| statistics.ticker(t);
            let written = [
                Ticker::FlushWriteBytes,
                Ticker::CompactWriteBytes,
                Ticker::BlobdbBlobFileBytesWritten,
            ];
            [
                of(Ticker::BlockCacheDataMiss),
                of(Ticker::BlockCacheDataHit),
                written.map(of).iter().sum(),
                of(Ticker::StallMicros),
            ]
        };
        let start = counts();
        let in_step = InStep {
            db: &db,
            families: &families,
            statistics: &statistics,
            writes: AtomicU64::new(0),
            flushed: AtomicU64::new(statistics.ticker(Ticker::FlushWriteBytes)),
        };
        let after = |replayed: Replayed<'_>| in_step.after(&replayed);
        let began = Instant::now();
        let done = match pace {
            Pace::InStep => replayer.replay(&options, Some(&after)),
            Pace::Free | Pace::Limited(_) => replayer.replay(&options, None),
        };
        let done = done.at(copy)?;
        let seconds = began.elapsed().as_secs_f64();
        let [reads, hits, ..] = counts();
        db.flush(true).at(copy)?;
        db.wait_idle(None).at(copy)?;
        let [.., written, stalled] = counts();
        let (reads, hits) = (reads - start[0], hits - start[1]);
        drop((replayer, families));
        db.close().at(copy)?;
        std::fs::remove_dir_all(copy).ok();
        Ok(Effects {
            reads,
            hit_ratio: hits as f64 / ((hits + reads) as f64).max(1.0),
            written: written - start[2],
            stalled: (stalled - start[3]) as f64 / 1e6,
            rate: done.requests() as f64 / seconds.max(1e-9),
        })
    }
}
