//! `Db` and `Cf`: cheap handles to an open database.

use super::cursor::{Cursor, Iter};
use super::{FamilyOptions, OpenBuilder, compact_range};
use crate::compaction::{
    CompactFilesOptions, CompactRangeOptions, Compactor, KeyRange, TableRemoval, WorkControl,
};
use crate::core::{Engine, Family, FamilyChanges, FamilyRequest, Snapshot};
use crate::listener::FlushReason;
use crate::merge::MergeOperator;
use crate::options::FlushOptions;
use crate::read::ReadOptions;
use crate::version::FileMeta;
use crate::write::{FamilyRef, FlushCall, Resume, Wal, WriteBatch, WriteOptions};
use spanlith_base::{Comparator, Error, ErrorKind, Pinned, Result, SequenceNumber, ValueType};
use std::collections::BTreeMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::path::Path;
use std::sync::{Arc, Weak};

/// Closes the engine when the last handle goes.
pub(super) struct Open {
    pub(super) engine: Arc<Engine>,
}

impl Drop for Open {
    fn drop(&mut self) {
        if let Err(e) = self.engine.close() {
            self.engine.reporter.log().warn(format_args!("close: {e}"));
        }
    }
}

/// A handle to an open database. Clones share it; the last clone, or [`Db::close`], shuts it down.
#[derive(Clone)]
pub struct Db(pub(super) Arc<Open>);

/// A way to an open database that does not keep it open.
#[derive(Clone)]
pub struct WeakDb(Weak<Open>);

impl WeakDb {
    /// The database, if a handle to it is still alive.
    pub fn upgrade(&self) -> Option<Db> {
        self.0.upgrade().map(Db)
    }
}

impl fmt::Debug for Db {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Db").field(&self.0.engine.c.dir).finish()
    }
}

impl Db {
    pub(super) fn from_engine(engine: Arc<Engine>) -> Self {
        Self(Arc::new(Open { engine }))
    }

    /// Opens a database with all its families, each with the options that the directory's newest OPTIONS file has
    /// for it, and creates the database if it is missing.
    ///
    /// # Errors
    /// See [`OpenBuilder::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::builder(path)
            .create_if_missing(true)
            .like_recorded()
            .open()
    }

    /// A way to the database that does not keep it open.
    pub fn downgrade(&self) -> WeakDb {
        WeakDb(Arc::downgrade(&self.0))
    }

    /// Opens with options and components.
    pub fn builder(path: impl AsRef<Path>) -> OpenBuilder {
        OpenBuilder::new(path.as_ref())
    }

    /// The engine under the handle.
    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.0.engine
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.0.engine.c.dir
    }

    fn handle(&self, family: &Arc<Family>) -> Cf {
        Cf {
            family: family.clone(),
            db: PurgingDb(self.clone()),
        }
    }

    /// The default column family.
    pub fn default_cf(&self) -> Cf {
        self.handle(self.engine().families.default())
    }

    /// The column family of that name.
    pub fn cf(&self, name: &str) -> Option<Cf> {
        let set = self.engine().families.load();
        set.by_name(name).map(|f| self.handle(f))
    }

    /// The column family with that id.
    pub(crate) fn cf_by_id(&self, id: u32) -> Option<Cf> {
        let set = self.engine().families.load();
        set.get(id).map(|f| self.handle(f))
    }

    /// Returns whether both are handles to one open database.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// All column families, by ascending id.
    pub fn cfs(&self) -> Vec<Cf> {
        let set = self.engine().families.load();
        set.iter().map(|f| self.handle(f)).collect()
    }

    /// Creates a column family; it is durable when this returns.
    ///
    /// # Errors
    /// `InvalidArgument` if it exists or an option is invalid; `NotSupported` with the names of the
    /// options whose feature does not exist; `Io`.
    pub fn create_cf(&self, family: FamilyOptions) -> Result<Cf> {
        let made = self.create_unrecorded(family)?;
        self.engine().options_writer().write()?;
        Ok(made)
    }

    /// Creates a family that OPTIONS do not have yet.
    fn create_unrecorded(&self, family: FamilyOptions) -> Result<Cf> {
        self.create_checked(family, |_| Ok(()))
    }

    /// As [`Self::create_unrecorded`], if `fits` finds no fault in it.
    pub(crate) fn create_checked(
        &self,
        family: FamilyOptions,
        fits: impl FnOnce(&FamilyRequest) -> Result<()>,
    ) -> Result<Cf> {
        let family = family.request(self.engine())?;
        fits(&family)?;
        let made = FamilyChanges::of(self.engine()).create(&family)?;
        Ok(self.handle(&made))
    }

    /// Creates column families one by one, until one fails; those that were made are durable when this
    /// returns. OPTIONS are written once, not with each.
    ///
    /// # Errors
    /// As [`Self::create_cf`], beside the families made before.
    pub fn create_cfs(&self, families: Vec<FamilyOptions>) -> (Vec<Cf>, Result<()>) {
        let mut made = Vec::with_capacity(families.len());
        let result = families
            .into_iter()
            .try_for_each(|family| self.create_unrecorded(family).map(|cf| made.push(cf)));
        let recorded = match made.is_empty() {
            true => Ok(()),
            false => self.engine().options_writer().write(),
        };
        (made, result.and(recorded))
    }

    /// Drops a column family; it is gone from disk when the last handle and iterator are.
    ///
    /// # Errors
    /// `InvalidArgument` for the default family, and if it was dropped before; `Io`.
    pub fn drop_cf(&self, cf: &Cf) -> Result<()> {
        FamilyChanges::of(self.engine()).drop(&cf.family)?;
        self.engine().options_writer().write()
    }

    /// Writes the memtables of several families out; with `wait`, returns when they are in tables.
    ///
    /// # Errors
    /// As [`Self::flush`].
    pub fn flush_cfs(&self, cfs: &[&Cf], wait: bool) -> Result<()> {
        self.flush_cfs_opt(cfs, FlushOptions::waiting(wait))
    }

    /// As [`Self::flush_cfs`], with options.
    ///
    /// # Errors
    /// As [`Self::flush`].
    pub fn flush_cfs_opt(&self, cfs: &[&Cf], options: FlushOptions) -> Result<()> {
        let families: Vec<_> = cfs.iter().map(|c| c.family.clone()).collect();
        let engine = self.engine();
        FlushCall::new(engine, &engine.leader, FlushReason::ManualFlush, &families).run(options)
    }

    /// Applies a batch: all of it or nothing. Leaves the batch as it is.
    ///
    /// # Errors
    /// The outcome of a write that returned an error is unknown, unless the error is
    /// `InvalidArgument`, `Corruption` of the batch or `NotSupported`: then nothing happened.
    pub fn write(&self, batch: &WriteBatch) -> Result<()> {
        self.write_opt(batch, &WriteOptions::default())
    }

    /// As [`Self::write`], with options.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub fn write_opt(&self, batch: &WriteBatch, options: &WriteOptions) -> Result<()> {
        let engine = self.engine();
        let raw = batch.raw_for(engine.c.snapshots.database())?;
        engine.write_batch(raw, options).map(drop)
    }

    /// Applies a batch in RocksDB's representation; returns the sequence number of its first entry.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub fn write_raw(
        &self,
        batch: &spanlith_wal::WriteBatch,
        options: &WriteOptions,
    ) -> Result<SequenceNumber> {
        self.engine().write_batch(batch, options)
    }

    /// The current state as a point in time.
    pub fn snapshot(&self) -> Snapshot {
        let e = self.engine();
        e.c.snapshots
            .take(e.c.env.clock.now_seconds(), || e.visible())
    }

    /// Cursors over several families that show one moment. Nothing of it counts as a snapshot. One cursor costs what
    /// [`Cf::cursor`] does.
    pub fn cursors(&self, families: &[&Cf], mut options: ReadOptions) -> Vec<Cursor> {
        if families.len() > 1 {
            let moment = || self.engine().take_snapshot();
            options.snapshot.get_or_insert_with(moment);
        }
        let cursors = families.iter().map(|cf| cf.cursor(options.clone()));
        cursors.collect()
    }

    /// Makes everything written so far survive a power cut.
    ///
    /// # Errors
    /// `Io`; the log is then poisoned and writes are refused.
    pub fn sync(&self) -> Result<()> {
        Wal::of(self.engine()).sync()
    }

    /// Hands log records that the option `manual_wal_flush` holds back to the operating system, so
    /// that they survive the process; with `sync`, as [`Self::sync`].
    ///
    /// # Errors
    /// `Io`; the log is then poisoned and writes are refused.
    pub fn flush_wal(&self, sync: bool) -> Result<()> {
        match sync {
            true => Wal::of(self.engine()).sync(),
            false => Wal::of(self.engine()).flush(),
        }
    }

    /// Writes the memtables of all families out; with `wait`, returns when they are in tables.
    ///
    /// # Errors
    /// Of the flush, or the background error that stops writes.
    pub fn flush(&self, wait: bool) -> Result<()> {
        let options = FlushOptions::waiting(wait);
        let engine = self.engine();
        FlushCall::of_all(engine, &engine.leader, FlushReason::ManualFlush).run(options)
    }

    /// Clears an error of the background once its cause is gone, so that writes and background work
    /// go on: what memtables hold becomes tables, a log or MANIFEST that failed is replaced. Fine if
    /// nothing is wrong. The database tries the same by itself, unless `max_bgerror_resume_count` is 0
    /// or a listener objects.
    ///
    /// # Errors
    /// What stands in the way now; the error itself if only opening again helps.
    pub fn resume(&self) -> Result<()> {
        Resume::of(self.engine()).run()
    }

    /// Waits until no flush or compaction runs or is due, at most `limit`.
    ///
    /// # Errors
    /// The background error that stopped the work; `TimedOut`; `ShutdownInProgress`.
    pub fn wait_idle(&self, limit: Option<std::time::Duration>) -> Result<()> {
        WorkControl::new(self.engine()).wait_idle(limit, false)
    }

    /// As [`Self::wait_idle`], but fails at once while background work is paused.
    ///
    /// # Errors
    /// Those of [`Self::wait_idle`]; `Aborted`.
    pub fn wait_idle_unless_paused(&self, limit: Option<std::time::Duration>) -> Result<()> {
        WorkControl::new(self.engine()).wait_idle(limit, true)
    }

    /// Starts no flush or compaction any more and waits for those that run. Counts: must be
    /// continued as often.
    ///
    /// # Errors
    /// `ShutdownInProgress`.
    pub fn pause_background_work(&self) -> Result<()> {
        WorkControl::new(self.engine()).pause()
    }

    /// Takes back [`Self::pause_background_work`].
    ///
    /// # Errors
    /// `InvalidArgument` if work is not paused.
    pub fn continue_background_work(&self) -> Result<()> {
        WorkControl::new(self.engine()).unpause()
    }

    /// Calls off manual compactions and refuses new ones with `Incomplete`. Counts.
    pub fn disable_manual_compaction(&self) {
        WorkControl::new(self.engine()).disable_manual();
    }

    /// Takes back one call of [`Self::disable_manual_compaction`]; the next one if there was none.
    pub fn enable_manual_compaction(&self) {
        WorkControl::new(self.engine()).enable_manual();
    }

    /// Gives up all compactions that run, waits for their end, and lets none begin: they fail with
    /// `Incomplete`, manual ones too. What was due is done after [`Self::resume_compactions`]. Flushes go on.
    /// Counts: must be resumed as often. Not to be called by a listener.
    pub fn abort_compactions(&self) {
        WorkControl::new(self.engine()).abort_compactions();
    }

    /// Takes back one call of [`Self::abort_compactions`]; without one it does nothing.
    pub fn resume_compactions(&self) {
        WorkControl::new(self.engine()).resume_compactions();
    }

    /// Starts no flush and no compaction any more, ever, and abandons those that run; with `wait`,
    /// waits for their end. Memtables whose writes are in no log are flushed first, unless
    /// `avoid_flush_during_shutdown`. Reads and writes go on until memtables are full.
    ///
    /// # Errors
    /// Of that flush.
    pub fn cancel_background_work(&self, wait: bool) -> Result<()> {
        self.engine().cancel_background_work(wait)
    }

    /// Keeps files that nothing needs any more. Counts.
    pub fn disable_file_deletions(&self) {
        self.engine().c.purge.disable();
    }

    /// Takes back [`Self::disable_file_deletions`]; the last one deletes what was kept.
    pub fn enable_file_deletions(&self) {
        let engine = self.engine();
        let purge = &engine.c.purge;
        purge.enable();
        if !purge.is_disabled() && !purge.is_closed() {
            drop(engine.log_retirement().run());
            purge.run();
            purge.run_others();
            purge.settle();
            engine.options_writer().remove_old();
        }
    }

    /// The newest visible sequence number.
    pub fn latest_sequence_number(&self) -> SequenceNumber {
        self.engine().visible()
    }

    /// Returns whether the database was opened for reading only.
    pub fn is_read_only(&self) -> bool {
        self.engine().c.read_only
    }

    /// Refuses new work, finishes what runs, syncs, closes; reports the first error. Other handles
    /// then get `ShutdownInProgress` from writes.
    ///
    /// # Errors
    /// The first error of closing, or the background error that had stopped writes.
    pub fn close(self) -> Result<()> {
        self.engine().close()
    }
}

/// A column family: an owned handle without lifetime. After the family was dropped it still reads;
/// its writes fail.
#[derive(Clone)]
pub struct Cf {
    pub(super) family: Arc<Family>,
    /// Behind `family`, so that it is dropped after it.
    pub(super) db: PurgingDb,
}

impl From<&Cf> for FamilyRef {
    fn from(cf: &Cf) -> Self {
        Self::of(cf.family.id, cf.db.engine().c.snapshots.database())
    }
}

/// The database of a family's handle. Deletes what nothing refers to any more when it goes: the handle may have
/// been the last of a family that was dropped.
#[derive(Clone)]
pub(super) struct PurgingDb(Db);

impl Deref for PurgingDb {
    type Target = Db;
    #[inline]
    fn deref(&self) -> &Db {
        &self.0
    }
}

impl Drop for PurgingDb {
    fn drop(&mut self) {
        self.0.engine().c.purge.run_queued();
    }
}

impl fmt::Debug for Cf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cf").field(&self.family.name).finish()
    }
}

impl PartialEq for Cf {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.family, &other.family)
    }
}

impl Eq for Cf {}

impl Hash for Cf {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.family).hash(state);
    }
}

impl Cf {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.family.name
    }

    /// Its id.
    pub fn id(&self) -> u32 {
        self.family.id
    }

    /// Its database.
    pub fn db(&self) -> &Db {
        &self.db
    }

    /// Order of its user keys.
    pub fn comparator(&self) -> &Comparator {
        &self.family.comparator
    }

    /// Returns what folds its merge operands.
    pub fn merge_operator(&self) -> Option<&Arc<dyn MergeOperator>> {
        match &self.family.times {
            Some(times) => times.user_operator.as_ref(),
            None => self.family.merge_operator.as_ref(),
        }
    }

    /// Returns whether it was dropped.
    pub fn is_dropped(&self) -> bool {
        self.family.is_dropped()
    }

    /// Returns what it stands for.
    pub(crate) fn family(&self) -> &Arc<Family> {
        &self.family
    }

    pub(super) fn engine(&self) -> &Arc<Engine> {
        self.db.engine()
    }

    /// Writes its memtables out; with `wait`, returns when they are in tables.
    ///
    /// # Errors
    /// `ColumnFamilyDropped`; else as [`Db::flush`].
    pub fn flush(&self, wait: bool) -> Result<()> {
        self.flush_opt(FlushOptions::waiting(wait))
    }

    /// As [`Self::flush`], with options.
    ///
    /// # Errors
    /// As [`Self::flush`].
    pub fn flush_opt(&self, options: FlushOptions) -> Result<()> {
        let (engine, family) = (self.engine(), std::slice::from_ref(&self.family));
        FlushCall::new(engine, &engine.leader, FlushReason::ManualFlush, family).run(options)
    }

    /// The value of a key; `None` if absent.
    ///
    /// # Errors
    /// `Corruption` or `Io` of a table that had to be read.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Pinned>> {
        self.engine()
            .get(&self.family, key.as_ref(), &ReadOptions::default())
    }

    /// As [`Self::get`], with options.
    ///
    /// # Errors
    /// As [`Self::get`]; `Incomplete` if `cache_only` and a file is needed.
    pub fn get_opt(&self, key: impl AsRef<[u8]>, options: &ReadOptions) -> Result<Option<Pinned>> {
        self.engine().get(&self.family, key.as_ref(), options)
    }

    /// Many values at one consistent point, in the order of the keys.
    pub fn multi_get_opt(
        &self,
        keys: &[&[u8]],
        options: &ReadOptions,
    ) -> Vec<Result<Option<Pinned>>> {
        let mut all: Vec<_> = keys.iter().map(|_| Ok(None)).collect();
        self.multi_get_with(keys, options, &mut |at, answer| all[at] = answer);
        all
    }

    /// Many values at one consistent point: calls `each` once for each key, in no order, with the
    /// key's place in `keys`.
    pub fn multi_get_with(
        &self,
        keys: &[&[u8]],
        options: &ReadOptions,
        each: &mut dyn FnMut(usize, Result<Option<Pinned>>),
    ) {
        self.engine().multi_get(&self.family, keys, options, each);
    }

    /// Many values at one consistent point, in the order of the keys.
    pub fn multi_get<K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Vec<Result<Option<Pinned>>> {
        let keys: Vec<K> = keys.into_iter().collect();
        let slices: Vec<&[u8]> = keys.iter().map(AsRef::as_ref).collect();
        self.multi_get_opt(&slices, &ReadOptions::default())
    }

    /// Sets a key.
    ///
    /// # Errors
    /// As [`Db::write`].
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_opt(key, value, &WriteOptions::default())
    }

    /// As [`Self::put`], with options.
    ///
    /// # Errors
    /// As [`Db::write`].
    pub fn put_opt(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<()> {
        self.engine().write_one(
            &self.family,
            ValueType::Value,
            key.as_ref(),
            value.as_ref(),
            options,
        )
    }

    /// Removes all keys from `begin` up to, but not including, `end`, in one step whose cost does
    /// not depend on their number. An empty range removes nothing.
    ///
    /// # Errors
    /// `InvalidArgument` if `end` comes before `begin`; else as [`Db::write`].
    pub fn delete_range(&self, begin: impl AsRef<[u8]>, end: impl AsRef<[u8]>) -> Result<()> {
        self.delete_range_opt(begin, end, &WriteOptions::default())
    }

    /// As [`Self::delete_range`], with options.
    ///
    /// # Errors
    /// As [`Self::delete_range`].
    pub fn delete_range_opt(
        &self,
        begin: impl AsRef<[u8]>,
        end: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<()> {
        if self.family.is_dropped() && !options.ignore_missing_column_families {
            return Err(Error::new(ErrorKind::ColumnFamilyDropped, ""));
        }
        self.check_untimed()?;
        let mut batch = spanlith_wal::WriteBatch::new();
        batch.delete_range_cf(self.family.id, begin.as_ref(), end.as_ref())?;
        self.engine().write_batch(&batch, options).map(drop)
    }

    /// Removes a key; fine if it is absent.
    ///
    /// # Errors
    /// As [`Db::write`].
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.delete_opt(key, &WriteOptions::default())
    }

    /// As [`Self::delete`], with options.
    ///
    /// # Errors
    /// As [`Db::write`].
    pub fn delete_opt(&self, key: impl AsRef<[u8]>, options: &WriteOptions) -> Result<()> {
        self.engine().write_one(
            &self.family,
            ValueType::Deletion,
            key.as_ref(),
            &[],
            options,
        )
    }

    /// Removes a key that was put at most once since its last removal.
    ///
    /// # Errors
    /// As [`Db::write`].
    pub fn single_delete_opt(&self, key: impl AsRef<[u8]>, options: &WriteOptions) -> Result<()> {
        self.engine().write_one(
            &self.family,
            ValueType::SingleDeletion,
            key.as_ref(),
            &[],
            options,
        )
    }

    /// Adds a merge operand.
    ///
    /// # Errors
    /// `NotSupported` without a merge operator; else as [`Db::write`].
    pub fn merge(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        self.merge_opt(key, operand, &WriteOptions::default())
    }

    /// As [`Self::merge`], with options.
    ///
    /// # Errors
    /// As [`Self::merge`].
    pub fn merge_opt(
        &self,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<()> {
        self.engine().write_one(
            &self.family,
            ValueType::Merge,
            key.as_ref(),
            operand.as_ref(),
            options,
        )
    }

    /// All entries in key order.
    pub fn iter(&self) -> Iter {
        Iter::new(self.cursor(ReadOptions::default()))
    }

    /// Entries under read options (bounds, snapshot).
    pub fn iter_opt(&self, options: ReadOptions) -> Iter {
        Iter::new(self.cursor(options))
    }

    /// The raw iterator.
    pub fn cursor(&self, options: ReadOptions) -> Cursor {
        Cursor::new(self.engine().clone(), self.family.clone(), options)
    }

    /// Compacts all entries with `begin ≤ key ≤ end`; `None` is unbounded.
    ///
    /// # Errors
    /// Of the flush and the compactions.
    pub fn compact_range(&self, begin: Option<&[u8]>, end: Option<&[u8]>) -> Result<()> {
        self.compact_range_opt(begin, end, &CompactRangeOptions::default())
    }

    /// As [`Self::compact_range`], with options.
    ///
    /// # Errors
    /// As [`Self::compact_range`]; `Incomplete` if manual compactions are disabled or this one was
    /// called off; `InvalidArgument` and `NotSupported` for options that cannot be followed.
    pub fn compact_range_opt(
        &self,
        begin: Option<&[u8]>,
        end: Option<&[u8]>,
        options: &CompactRangeOptions,
    ) -> Result<()> {
        compact_range(self.engine(), &self.family, (begin, end), options, None)
    }

    /// Compacts tables by number, and what must go with them, into `output_level`; returns the
    /// numbers of the new tables.
    ///
    /// # Errors
    /// `InvalidArgument` if a table is not there or lies too deep; `Aborted` if a compaction that
    /// runs is in the way; else as [`Self::compact_range`].
    pub fn compact_files(
        &self,
        numbers: &[u64],
        output_level: usize,
        options: &CompactFilesOptions,
    ) -> Result<Vec<u64>> {
        Compactor::new(self.engine()).compact_files(&self.family, numbers, output_level, options)
    }

    /// Asks background compactions to take the files of a range down; `None` is unbounded. Does nothing in
    /// a dropped family.
    ///
    /// # Errors
    /// None today.
    pub fn suggest_compact_range(&self, begin: Option<&[u8]>, end: Option<&[u8]>) -> Result<()> {
        WorkControl::new(self.engine()).suggest_range(&self.family, begin, end)
    }

    /// Drops the tables that lie wholly in one of the ranges, except those of level 0, without
    /// looking at snapshots. `include_end` says whether the ranges' ends belong to them.
    ///
    /// # Errors
    /// `ColumnFamilyDropped` if there is such a table, `Io`.
    pub fn delete_files_in_ranges(&self, ranges: &[KeyRange<'_>], include_end: bool) -> Result<()> {
        TableRemoval::new(self.engine()).delete_files_in_ranges(&self.family, ranges, include_end)
    }

    /// Level and description of all its tables, from level 0 down, each level in its order.
    pub fn tables(&self) -> Vec<(usize, Arc<FileMeta>)> {
        let view = self.family.superversion.load();
        let files = view.version.file_iter();
        files.map(|(level, f)| (level, f.clone())).collect()
    }

    /// Where round-robin compactions go on, by level: internal keys.
    pub fn compact_cursors(&self) -> BTreeMap<u32, Vec<u8>> {
        let view = self.family.superversion.load();
        view.version.compact_cursors.clone()
    }
}
