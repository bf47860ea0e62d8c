//! Spanlith behind the trait [`Store`].

use super::spec::nested;
use super::{
    Batch, Change, Counters, Direction, Error, Isolation, Level, Result, Store, StoreOptions,
    TraceFiles, Transaction,
};
use spanlith::options::text::apply_options_string;
use spanlith::options::{BlockBasedTableOptions, CfOptions, DbOptions};
use spanlith::trace::{BlockTraceOptions, TraceOptions};
use spanlith::{
    Cf, Db, ErrorKind, FamilyOptions, ReadOptions, TxnOptions, WriteBatch, WriteOptions,
};
use spanlith_base::stats::Statistics;
use spanlith_cache::Policy;
use spanlith_table::BlockCache;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const NAME: &str = "spanlith";

/// A database of this engine.
#[derive(Debug)]
pub struct Ours {
    label: String,
    dir: PathBuf,
    db: Db,
    families: Vec<Cf>,
    statistics: Arc<Statistics>,
    read: ReadOptions,
    write: WriteOptions,
}

fn failed(e: impl std::fmt::Display) -> Error {
    Error::new(NAME, e)
}

impl TraceFiles {
    /// Begins the traces that only this engine has, of blocks and calls; they end with the database.
    ///
    /// # Errors
    /// Of creating the files.
    pub fn start_own(&self, db: &Db) -> spanlith::Result<()> {
        if let Some(file) = &self.blocks {
            db.start_block_cache_trace(file, &BlockTraceOptions::default())?;
        }
        if let Some(file) = &self.calls {
            db.start_io_trace(file, &TraceOptions::default())?;
        }
        Ok(())
    }
}

impl Ours {
    /// Opens the database in `dir`, or makes it.
    ///
    /// # Errors
    /// Of the options, and of opening.
    pub fn open(dir: &Path, options: &StoreOptions) -> Result<Self> {
        let (mut db, mut cf) = (DbOptions::default(), CfOptions::default());
        let mut table = BlockBasedTableOptions::default();
        cf.merge_operator = "UInt64AddOperator".to_string();
        let text = nested(&options.options);
        apply_options_string(&text, &mut db, &mut cf, &mut table).map_err(failed)?;
        db.create_if_missing = true;
        let statistics = Arc::new(Statistics::new());
        let builder = Db::builder(dir).set(options.own.as_str()).map_err(failed)?;
        let mut builder = builder
            .options(db)
            .all_families()
            .cf_options(cf.clone())
            .table_options(table.clone())
            .statistics(Arc::clone(&statistics));
        let cache = options.cache_bytes.map(|bytes| {
            let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
            BlockCache::new(bytes, Policy::Lru)
        });
        if let Some(cache) = &cache {
            builder = builder.block_cache(cache.clone());
        }
        let db = builder.open().map_err(failed)?;
        options.traces.start_own(&db).map_err(failed)?;
        let mut families = vec![db.default_cf()];
        for name in &options.families {
            let mut family = FamilyOptions::new(name)
                .options(cf.clone())
                .table_options(table.clone());
            if let Some(cache) = &cache {
                family = family.block_cache(cache.clone());
            }
            families.push(db.cf_or_create(family).map_err(failed)?);
        }
        Ok(Self {
            label: format!("{NAME} {}", env!("CARGO_PKG_VERSION")),
            dir: dir.to_path_buf(),
            db,
            families,
            statistics,
            read: ReadOptions::new(),
            write: WriteOptions::new()
                .sync(options.sync)
                .disable_wal(options.disable_wal),
        })
    }

    /// The database, for what the trait does not have.
    pub fn db(&self) -> &Db {
        &self.db
    }

    fn cf(&self, family: usize) -> &Cf {
        &self.families[family]
    }
}

impl Store for Ours {
    fn label(&self) -> &str {
        &self.label
    }

    fn dir(&self) -> &Path {
        &self.dir
    }

    fn put(&self, family: usize, key: &[u8], value: &[u8]) -> Result<()> {
        let cf = self.cf(family);
        cf.put_opt(key, value, &self.write).map_err(failed)
    }

    fn get(&self, family: usize, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        value.clear();
        match self.cf(family).get_opt(key, &self.read).map_err(failed)? {
            None => Ok(false),
            Some(found) => {
                value.extend_from_slice(&found);
                Ok(true)
            }
        }
    }

    fn delete(&self, family: usize, key: &[u8]) -> Result<()> {
        let cf = self.cf(family);
        cf.delete_opt(key, &self.write).map_err(failed)
    }

    fn single_delete(&self, family: usize, key: &[u8]) -> Result<()> {
        let cf = self.cf(family);
        cf.single_delete_opt(key, &self.write).map_err(failed)
    }

    fn merge(&self, family: usize, key: &[u8], operand: u64) -> Result<()> {
        let cf = self.cf(family);
        cf.merge_opt(key, operand.to_le_bytes(), &self.write)
            .map_err(failed)
    }

    fn write(&self, batch: &Batch) -> Result<()> {
        let mut out = WriteBatch::new();
        for change in batch.iter() {
            match change {
                Change::Put { family, key, value } => {
                    out.put_cf(self.cf(family), key, value);
                }
                Change::Delete { family, key } => {
                    out.delete_cf(self.cf(family), key);
                }
            }
        }
        self.db.write_opt(&out, &self.write).map_err(failed)
    }

    fn multi_get(&self, family: usize, keys: &[&[u8]]) -> Result<usize> {
        let found = self.cf(family).multi_get_opt(keys, &self.read);
        let mut count = 0;
        for value in found {
            count += usize::from(value.map_err(failed)?.is_some());
        }
        Ok(count)
    }

    fn scan(
        &self,
        family: usize,
        start: &[u8],
        direction: Direction,
        limit: usize,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<usize> {
        let mut cursor = self.cf(family).cursor(self.read.clone());
        let mut valid = match direction {
            Direction::Forward => cursor.seek(start),
            Direction::Backward => cursor.seek_for_prev(start),
        }
        .map_err(failed)?;
        let mut seen = 0;
        while valid && seen < limit {
            seen += 1;
            if !each(cursor.key(), cursor.value()) || seen == limit {
                break;
            }
            valid = match direction {
                Direction::Forward => cursor.next(),
                Direction::Backward => cursor.prev(),
            }
            .map_err(failed)?;
        }
        Ok(seen)
    }

    fn begin(&self, isolation: Isolation) -> Result<Box<dyn Transaction + '_>> {
        let repeats = isolation == Isolation::RepeatableRead;
        let options = TxnOptions::pessimistic().deadlock_detect(true);
        let inner = self
            .db
            .transaction_opt(options.set_snapshot(repeats), self.write);
        let mut read = self.read.clone();
        if let Some(snapshot) = inner.snapshot() {
            read = read.snapshot(snapshot);
        }
        Ok(Box::new(OurTransaction {
            store: self,
            inner,
            read,
        }))
    }

    fn flush(&self) -> Result<()> {
        self.db.flush(true).map_err(failed)
    }

    fn compact(&self) -> Result<()> {
        self.families
            .iter()
            .try_for_each(|cf| cf.compact_range(None, None))
            .map_err(failed)
    }

    fn wait_idle(&self) -> Result<()> {
        self.db.wait_idle(None).map_err(failed)
    }

    fn levels(&self) -> Result<Vec<Level>> {
        let mut levels = Vec::new();
        for file in self.db.live_files() {
            if levels.len() <= file.level {
                levels.resize(file.level + 1, Level::default());
            }
            levels[file.level].files += 1;
            levels[file.level].bytes += file.size;
        }
        Ok(levels)
    }

    fn counters(&self) -> Counters {
        Counters::of_text(&self.statistics.text())
    }

    fn start_trace(&self, file: &Path) -> Result<()> {
        let options = spanlith::trace::TraceOptions::default();
        self.db.start_trace(file, &options).map_err(failed)
    }

    fn end_trace(&self) -> Result<()> {
        self.db.end_trace().map(drop).map_err(failed)
    }

    fn close(self: Box<Self>) -> Result<()> {
        drop(self.families);
        self.db.close().map_err(failed)
    }
}

/// A transaction with locks.
struct OurTransaction<'a> {
    store: &'a Ours,
    inner: spanlith::Transaction,
    /// Reads at the snapshot, if the transaction has one.
    read: ReadOptions,
}

/// An error in a transaction: one that another transaction caused may be tried again.
fn in_transaction(e: spanlith::Error) -> Error {
    use ErrorKind::{Aborted, Busy, Expired, TimedOut, TryAgain};
    match e.kind() {
        Aborted | Busy | Expired | TimedOut | TryAgain => Error::conflict(NAME, e),
        _ => failed(e),
    }
}

fn copied(found: Option<spanlith::Pinned>, value: &mut Vec<u8>) -> bool {
    value.clear();
    found.is_some_and(|found| {
        value.extend_from_slice(&found);
        true
    })
}

impl Transaction for OurTransaction<'_> {
    fn get(&mut self, family: usize, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let found = self.inner.get_opt(self.store.cf(family), key, &self.read);
        Ok(copied(found.map_err(in_transaction)?, value))
    }

    fn get_for_update(&mut self, family: usize, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let found = self.inner.get_for_update(self.store.cf(family), key);
        Ok(copied(found.map_err(in_transaction)?, value))
    }

    fn put(&mut self, family: usize, key: &[u8], value: &[u8]) -> Result<()> {
        let cf = self.store.cf(family);
        self.inner.put(cf, key, value).map_err(in_transaction)
    }

    fn delete(&mut self, family: usize, key: &[u8]) -> Result<()> {
        let cf = self.store.cf(family);
        self.inner.delete(cf, key).map_err(in_transaction)
    }

    fn scan(
        &mut self,
        family: usize,
        start: &[u8],
        direction: Direction,
        limit: usize,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<usize> {
        let cf = self.store.cf(family);
        let mut cursor = self.inner.cursor(cf, self.read.clone());
        let mut valid = match direction {
            Direction::Forward => cursor.seek(start),
            Direction::Backward => cursor.seek_for_prev(start),
        }
        .map_err(in_transaction)?;
        let mut seen = 0;
        while valid && seen < limit {
            let Some((key, value)) = cursor.entry() else {
                break;
            };
            seen += 1;
            if !each(key, value) || seen == limit {
                break;
            }
            valid = match direction {
                Direction::Forward => cursor.next(),
                Direction::Backward => cursor.prev(),
            }
            .map_err(in_transaction)?;
        }
        Ok(seen)
    }

    fn commit(mut self: Box<Self>) -> Result<()> {
        self.inner.commit().map_err(in_transaction)
    }
}
