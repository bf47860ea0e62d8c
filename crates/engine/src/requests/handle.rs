//! The interface: a column family whose calls return futures.

use super::carry::{Requests, panicked};
use super::cell::JobCell;
use super::future::{ReadFuture, WriteFuture};
use super::plan::Kind;
use super::queue::{After, Entry, Hook};
use super::tally;
use crate::core::{Engine, Family, gate};
use crate::db::{Cf, Cursor};
use crate::listener::FlushReason;
use crate::options::FlushOptions;
use crate::read::{ReadOptions, ReadTier};
use crate::write::{FlushCall, WriteBatch, WriteOptions, check_joined, check_one};
use spanlith_base::{Error, ErrorKind, Pinned, Result, ValueType};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Bytes of keys and values after which a page of a scan ends.
const PAGE_BYTES: usize = 1 << 20;
/// Bytes that an entry has in a batch besides key and value, at most.
const ENTRY_OVERHEAD: usize = 16;

/// A part of a range of keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Page {
    /// Keys and values, in the order of the family.
    pub entries: Vec<(Vec<u8>, Vec<u8>)>,
    /// The first key that is not in the page any more: where the next page begins. `None` at the end of the range.
    pub next: Option<Vec<u8>>,
}

/// A column family whose calls return futures.
///
/// The futures belong to no runtime: any executor may poll them, and a thread may wait for them. Requests own their
/// bytes. Synchronous and asynchronous calls may be mixed. What is promised about order, cancellation and close is
/// in `docs/async.md`; in short:
///
/// - Writes take effect in the order in which they were accepted, whatever handle they came from; each is atomic and
///   fails alone. Those that wait for room are accepted in the order of their calls.
/// - A write is visible to reads once its future is ready. A read sees what was visible at some moment between
///   its call and its result.
/// - A dropped future leaves an accepted write as it is.
/// - Closing the database carries out all accepted requests and refuses later ones with `ShutdownInProgress`.
///
/// ```
/// # fn main() -> spanlith::Result<()> {
/// # let dir = std::env::temp_dir().join(format!("spanlith-async-doc-{}", std::process::id()));
/// let db = spanlith::Db::open(&dir)?;
/// let cf = db.default_cf().to_async();
/// // Both are outstanding at once. In an `async` function: `.await?`.
/// let (a, b) = (cf.put("a", "1"), cf.put("b", "2"));
/// a.wait()?;
/// b.wait()?;
/// assert_eq!(cf.get("b").wait()?.as_deref(), Some(&b"2"[..]));
/// # db.close()?;
/// # std::fs::remove_dir_all(&dir).ok();
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct AsyncCf {
    cf: Cf,
    requests: Arc<Requests>,
    /// Requests wait for room.
    waits: bool,
}

impl fmt::Debug for AsyncCf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AsyncCf").field(&self.cf).finish()
    }
}

impl Cf {
    /// The same family with calls that return futures. Threads start with the first request that needs one.
    pub fn to_async(&self) -> AsyncCf {
        AsyncCf {
            cf: self.clone(),
            requests: Requests::of(self.db().engine()),
            waits: true,
        }
    }
}

impl AsyncCf {
    /// The family.
    pub fn cf(&self) -> &Cf {
        &self.cf
    }

    /// The same family, whose requests are refused with `Resource busy` when too many are outstanding, instead of
    /// waiting for room: `async_queue_length` and `async_queue_bytes` say how many that is. The refusal is known at once
    /// ([`WriteFuture::try_result`]), and nothing is outstanding then.
    #[must_use]
    pub fn without_waiting(&self) -> Self {
        Self {
            waits: false,
            ..self.clone()
        }
    }

    fn engine(&self) -> &Arc<Engine> {
        self.cf.db().engine()
    }

    fn family(&self) -> &Arc<Family> {
        self.cf.family()
    }

    /// Sets a key.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> WriteFuture {
        self.put_opt(key, value, &WriteOptions::default())
    }

    /// As [`Self::put`], with options.
    pub fn put_opt(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> WriteFuture {
        self.one(ValueType::Value, key.as_ref(), value.as_ref(), options)
    }

    /// Removes a key; fine if it is absent.
    pub fn delete(&self, key: impl AsRef<[u8]>) -> WriteFuture {
        self.delete_opt(key, &WriteOptions::default())
    }

    /// As [`Self::delete`], with options.
    pub fn delete_opt(&self, key: impl AsRef<[u8]>, options: &WriteOptions) -> WriteFuture {
        self.one(ValueType::Deletion, key.as_ref(), &[], options)
    }

    /// Adds a merge operand.
    pub fn merge(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> WriteFuture {
        self.merge_opt(key, operand, &WriteOptions::default())
    }

    /// As [`Self::merge`], with options.
    pub fn merge_opt(
        &self,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> WriteFuture {
        self.one(ValueType::Merge, key.as_ref(), operand.as_ref(), options)
    }

    fn one(
        &self,
        kind: ValueType,
        key: &[u8],
        value: &[u8],
        options: &WriteOptions,
    ) -> WriteFuture {
        let family = self.family();
        if let Err(e) = check_one(self.engine(), family, kind, (key, value), options) {
            return WriteFuture::known(Err(e));
        }
        let entry = Entry {
            options: *options,
            is_alone: options.needs_batch(),
            hook: None,
        };
        let bytes = key.len() + value.len() + ENTRY_OVERHEAD;
        let cf = family.id;
        let add = |batch: &mut spanlith_wal::WriteBatch| match kind {
            ValueType::Deletion => batch.delete_cf(cf, key),
            ValueType::Merge => batch.merge_cf(cf, key, value),
            _ => batch.put_cf(cf, key, value),
        };
        let issued = (self.requests).write(self.engine(), entry, self.waits, bytes, add);
        WriteFuture::issued(issued)
    }

    /// Applies a batch, which may hold updates of any family of the database: all of it or nothing. The batch is
    /// copied.
    pub fn write(&self, batch: &WriteBatch) -> WriteFuture {
        self.write_opt(batch, &WriteOptions::default())
    }

    /// As [`Self::write`], with options.
    pub fn write_opt(&self, batch: &WriteBatch, options: &WriteOptions) -> WriteFuture {
        match batch.raw_for(self.engine().c.snapshots.database()) {
            Ok(raw) => self.write_raw(raw, options),
            Err(e) => WriteFuture::known(Err(e)),
        }
    }

    /// As [`Self::write_opt`], for a batch in RocksDB's representation.
    pub fn write_raw(
        &self,
        batch: &spanlith_wal::WriteBatch,
        options: &WriteOptions,
    ) -> WriteFuture {
        self.requests
            .write_batch(self.engine(), batch, options, self.waits, None)
    }

    /// The value of a key. What memory can answer is answered at once, on this thread.
    pub fn get(&self, key: impl AsRef<[u8]>) -> ReadFuture<Option<Pinned>> {
        let key = key.as_ref();
        self.read(
            &ReadOptions::default(),
            |engine, family, options| engine.get(family, key, options),
            || {
                let key = key.to_vec();
                move |engine, family, options| engine.get(family, &key, options)
            },
        )
    }

    /// As [`Self::get`], with options.
    pub fn get_opt(
        &self,
        key: impl AsRef<[u8]>,
        options: &ReadOptions,
    ) -> ReadFuture<Option<Pinned>> {
        let key = key.as_ref();
        self.read(
            options,
            |engine, family, options| engine.get(family, key, options),
            || {
                let key = key.to_vec();
                move |engine, family, options| engine.get(family, &key, options)
            },
        )
    }

    /// Many values at one consistent point, in the order of the keys. They are answered at once if memory can
    /// answer all of them.
    pub fn multi_get<K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = K>,
        options: &ReadOptions,
    ) -> ReadFuture<Vec<Result<Option<Pinned>>>> {
        let keys: Vec<Vec<u8>> = keys.into_iter().map(|k| k.as_ref().to_vec()).collect();
        let keys = Arc::new(keys);
        let found = multi_get_of(keys.clone());
        let is_memory_only = is_memory_only(options);
        let at_hand = move |engine: &Engine, family: &Family, options: &ReadOptions| {
            let all = found(engine, family, options)?;
            let is_missing = |e: &&Error| e.kind() == ErrorKind::Incomplete;
            let mut missing = all
                .iter()
                .filter_map(|r| r.as_ref().err().filter(is_missing));
            match missing.next() {
                Some(e) if !is_memory_only => Err(e.clone()),
                _ => Ok(all),
            }
        };
        self.read(options, at_hand, || multi_get_of(keys))
    }

    /// Answers from memory, or queues a job.
    fn read<T, F>(
        &self,
        options: &ReadOptions,
        at_hand: impl FnOnce(&Engine, &Family, &ReadOptions) -> Result<T>,
        job: impl FnOnce() -> F,
    ) -> ReadFuture<T>
    where
        T: Send + 'static,
        F: FnOnce(&Engine, &Family, &ReadOptions) -> Result<T> + Send + 'static,
    {
        if let Err(e) = self.requests.check_open() {
            return ReadFuture::known(Err(e));
        }
        let engine = self.engine();
        let is_memory_only = is_memory_only(options);
        // A trace has each read once. In a child of the process there is no thread to do it.
        if !engine.gate.has(gate::TRACE_READS) || !engine.owner.is_current() || is_memory_only {
            let mut quick = options.clone();
            quick.cache_only |= engine.owner.is_current();
            match at_hand(engine, self.family(), &quick) {
                Err(e) if e.kind() == ErrorKind::Incomplete && !is_memory_only => {}
                result => {
                    tally::count(&self.requests.tally.lucky);
                    return ReadFuture::known(result);
                }
            }
        }
        let (family, options, job) = (self.family().clone(), options.clone(), job());
        self.requests
            .queue_job(engine, Kind::Job, self.waits, move |engine| {
                (job(engine, &family, &options), None)
            })
    }

    /// The entries of the range between the options' bounds, at most `entries_max` and about a megabyte. The next page
    /// begins at [`Page::next`]: give it as the lower bound. Pages of one snapshot belong together if the options have
    /// one; else each page is consistent in itself.
    pub fn scan(&self, options: &ReadOptions, entries_max: usize) -> ReadFuture<Page> {
        if let Err(e) = self.requests.check_open() {
            return ReadFuture::known(Err(e));
        }
        let (family, options) = (self.family().clone(), options.clone());
        let scan = move |engine: &Arc<Engine>| {
            let cursor = Cursor::new(engine.clone(), family, options);
            (page(cursor, entries_max), None)
        };
        self.requests
            .queue_job(self.engine(), Kind::Job, self.waits, scan)
    }

    /// Writes the family's memtables out; ready when they are in tables.
    pub fn flush(&self) -> ReadFuture<()> {
        let family = self.family().clone();
        let flush = move |engine: &Arc<Engine>| {
            let families = std::slice::from_ref(&family);
            let reason = FlushReason::ManualFlush;
            let call = FlushCall::new(engine, &engine.leader, reason, families);
            (call.run(FlushOptions::waiting(true)), None)
        };
        self.requests
            .queue_job(self.engine(), Kind::Long, self.waits, flush)
    }
}

/// Returns whether the caller asks for memory only: then `Incomplete` is an answer.
fn is_memory_only(options: &ReadOptions) -> bool {
    options.cache_only || options.read_tier == ReadTier::Cached
}

fn multi_get_of(
    keys: Arc<Vec<Vec<u8>>>,
) -> impl FnOnce(&Engine, &Family, &ReadOptions) -> Result<Vec<Result<Option<Pinned>>>> + Send + 'static
{
    move |engine, family, options| {
        let slices: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let mut all: Vec<_> = keys.iter().map(|_| Ok(None)).collect();
        engine.multi_get(family, &slices, options, &mut |at, answer| all[at] = answer);
        Ok(all)
    }
}

fn page(mut cursor: Cursor, entries_max: usize) -> Result<Page> {
    let mut page = Page::default();
    let mut bytes = 0;
    let mut stands = cursor.seek_to_first()?;
    while stands {
        if page.entries.len() >= entries_max || bytes >= PAGE_BYTES {
            page.next = Some(cursor.key().to_vec());
            break;
        }
        bytes += cursor.key().len() + cursor.value().len();
        (page.entries).push((cursor.key().to_vec(), cursor.value().to_vec()));
        stands = cursor.next()?;
    }
    Ok(page)
}

/// Something that holds handles, to be dropped when the job counts as done.
type Garbage = Option<Box<dyn std::any::Any + Send>>;

impl Requests {
    /// Issues a batch.
    pub(crate) fn write_batch(
        &self,
        engine: &Engine,
        batch: &spanlith_wal::WriteBatch,
        options: &WriteOptions,
        waits: bool,
        hook: Option<Hook>,
    ) -> WriteFuture {
        if let Err(e) = check_joined(engine, batch, options) {
            return WriteFuture::known(Err(e));
        }
        let is_alone = options.needs_batch()
            || batch.is_protected()
            || batch.lacks_timestamps()
            || batch.ends_log_early();
        let entry = Entry {
            options: *options,
            is_alone,
            hook,
        };
        let bytes = batch.as_bytes().len();
        let add = |to: &mut spanlith_wal::WriteBatch| match is_alone {
            true => {
                *to = batch.clone();
                Ok(())
            }
            false => to.append(batch),
        };
        WriteFuture::issued(self.write(engine, entry, waits, bytes, add))
    }

    /// Queues a job that yields a result and what is to be dropped after it.
    pub(crate) fn queue_job<T: Send + 'static>(
        &self,
        engine: &Arc<Engine>,
        kind: Kind,
        waits: bool,
        job: impl FnOnce(&Arc<Engine>) -> (Result<T>, Garbage) + Send + 'static,
    ) -> ReadFuture<T> {
        if !engine.owner.is_current() {
            // Threads stayed in the parent.
            return ReadFuture::known(job(engine).0);
        }
        let cell = Arc::new(JobCell::new(self.weak()));
        let own = cell.clone();
        let run = move |engine: &Arc<Engine>| {
            if !own.is_wanted() {
                return After {
                    waker: None,
                    garbage: Some(Box::new(job)),
                };
            }
            let done = catch_unwind(AssertUnwindSafe(|| job(engine)));
            let (result, garbage) = done.unwrap_or_else(|_| (Err(panicked()), None));
            After {
                waker: own.settle(result),
                garbage,
            }
        };
        match self.job(engine, kind, waits, Box::new(run)) {
            Ok(()) => ReadFuture::queued(cell, kind),
            Err(e) => ReadFuture::known(Err(e)),
        }
    }
}
