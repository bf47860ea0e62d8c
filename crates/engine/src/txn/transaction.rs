//! A transaction: updates that are seen by its own reads, and by others all at once when it is committed.
//!
//! Its updates wait in an indexed batch. With locks (the default), a key is locked before it is written or read for
//! update, and with a snapshot the lock is granted only if nobody wrote the key after it. Without locks, what was written or
//! read for update is checked when the transaction commits ([`crate::write`]). Semantics are RocksDB's (R-BASE-23), with
//! one difference: without locks RocksDB looks for conflicts in memtables and fails with `TryAgain` if those of the time are
//! gone; here the state that was seen is pinned, and tables tell, so that this never happens.

use super::TxnOptions;
use super::indexed_batch::IndexedBatch;
use super::tracked::{Tracked, TrackedKeys};
use crate::core::{Engine, Snapshot};
use crate::db::{Cf, Db};
use crate::locks::{LockMode, Owner, Patience};
use crate::read::{Newest, ReadOptions};
use crate::write::{WriteOptions, batch_of};
use spanlith_base::{Comparator, Error, Pinned, Result};
use spanlith_wal::{BatchIter, BatchOp, WriteBatch};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

mod ends;

/// How far a transaction is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TxnState {
    /// Takes updates.
    Started,
    /// Survives whatever happens until it is committed or rolled back.
    Prepared,
    /// Its writes are there.
    Committed,
    /// It was prepared, and has come to nothing.
    RolledBack,
}

/// Describes what [`Transaction::rollback_to_savepoint`] returns to, beside the batch.
struct SavePoint {
    snapshot: Option<Snapshot>,
    needs_snapshot: bool,
    /// Keys that were not tracked before it.
    keys: Vec<(u32, Box<[u8]>)>,
}

/// Updates that become visible together or not at all, kept from conflicts with others. Rolled back when it is dropped, unless
/// it was prepared: then it is found again by [`Db::prepared_transactions`].
///
/// May move between threads; its locks are its own and no thread's.
#[must_use = "a transaction that is dropped is rolled back"]
pub struct Transaction {
    db: Db,
    options: TxnOptions,
    write: WriteOptions,
    owner: Arc<Owner>,
    state: TxnState,
    name: Vec<u8>,
    /// Nobody else may have the name.
    holds_name: bool,
    batch: IndexedBatch,
    /// Written with the commit, before the batch, and not seen by reads.
    commit_time: WriteBatch,
    /// Says what it was prepared with, without the markers.
    prepared: Vec<u8>,
    snapshot: Option<Snapshot>,
    /// The next operation takes a snapshot.
    needs_snapshot: bool,
    tracked: TrackedKeys,
    /// Keeps what tells conflicts, of a transaction without locks.
    pin: Option<Snapshot>,
    save_points: Vec<SavePoint>,
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction")
            .field("id", &self.owner.id())
            .field("name", &self.name.escape_ascii().to_string())
            .field("state", &self.state)
            .field("updates", &self.batch.batch().count())
            .field("keys", &self.tracked.len())
            .finish()
    }
}

impl Transaction {
    pub(super) fn begin(db: &Db, options: TxnOptions, write: WriteOptions) -> Self {
        let mut new = Self {
            owner: owner(db.engine(), &options),
            batch: IndexedBatch::new(Comparator::default()),
            db: db.clone(),
            options,
            write,
            state: TxnState::Started,
            name: Vec::new(),
            holds_name: false,
            commit_time: WriteBatch::new(),
            prepared: Vec::new(),
            snapshot: None,
            needs_snapshot: false,
            tracked: TrackedKeys::default(),
            pin: None,
            save_points: Vec::new(),
        };
        new.start();
        new
    }

    /// Returns what was prepared as `name` before the database was opened, or was left undecided since. Holds no locks, as in
    /// RocksDB: decide before anybody else writes.
    pub(super) fn of_section(db: &Db, name: Vec<u8>, entries: Vec<u8>) -> Result<Self> {
        let mut new = Self::begin(db, TxnOptions::default(), WriteOptions::default());
        let batch = batch_of(&entries)?;
        new.fill(&batch)?;
        (new.name, new.holds_name) = (name, true);
        new.prepared = entries;
        new.state = TxnState::Prepared;
        // It was decided that it stays.
        new.owner.decide();
        Ok(new)
    }

    fn start(&mut self) {
        self.batch = IndexedBatch::with_limits(
            self.db.default_cf().comparator().clone(),
            0,
            self.options.max_write_batch_size,
        );
        self.clear();
        if self.options.set_snapshot {
            self.set_snapshot();
        }
    }

    /// Ends it as if it were dropped, and begins anew.
    pub fn restart(&mut self, options: TxnOptions, write: WriteOptions) {
        self.let_go();
        self.name = Vec::new();
        (self.options, self.write) = (options, write);
        self.owner = owner(self.engine(), &options);
        self.state = TxnState::Started;
        self.prepared = Vec::new();
        (self.snapshot, self.needs_snapshot) = (None, false);
        self.start();
    }

    fn engine(&self) -> &Arc<Engine> {
        self.db.engine()
    }

    /// Its database.
    pub fn db(&self) -> &Db {
        &self.db
    }

    /// Its number, unique in the life of the database.
    pub fn id(&self) -> u64 {
        self.owner.id()
    }

    /// How far it is.
    pub fn state(&self) -> TxnState {
        self.state
    }

    /// Its name; empty if it has none.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// Number of keys that others must not write before it ends.
    pub fn tracked_keys(&self) -> usize {
        self.tracked.len()
    }

    /// Its updates.
    pub fn batch(&self) -> &IndexedBatch {
        &self.batch
    }

    /// Its updates, to be changed without locks and checks.
    pub fn batch_mut(&mut self) -> &mut IndexedBatch {
        &mut self.batch
    }

    /// Updates that are written with the commit of a prepared transaction, before its own; reads do not see them.
    pub fn commit_time_batch(&mut self) -> &mut WriteBatch {
        &mut self.commit_time
    }

    /// How its commit is written.
    pub fn write_options_mut(&mut self) -> &mut WriteOptions {
        &mut self.write
    }

    // ---- Snapshots

    /// From now on, keys are locked or written only if nobody has written them after this moment. Reads see this moment
    /// only if they are told so: [`ReadOptions::snapshot`].
    pub fn set_snapshot(&mut self) {
        self.snapshot = Some(self.take_snapshot(false));
        self.needs_snapshot = false;
    }

    /// As [`Self::set_snapshot`], at the next operation that locks or writes.
    pub fn set_snapshot_on_next_operation(&mut self) {
        self.needs_snapshot = true;
    }

    /// The moment of [`Self::set_snapshot`].
    pub fn snapshot(&self) -> Option<&Snapshot> {
        self.snapshot.as_ref()
    }

    /// Takes back [`Self::set_snapshot`].
    pub fn clear_snapshot(&mut self) {
        (self.snapshot, self.needs_snapshot) = (None, false);
    }

    fn take_snapshot(&self, is_hidden: bool) -> Snapshot {
        let e = self.engine();
        let now = e.c.env.clock.now_seconds();
        e.c.snapshots
            .take_for_conflicts(now, is_hidden, || e.visible())
    }

    // ---- Keys

    /// Keeps others from writing a key, and sees whether one has.
    fn track(&mut self, cf: &Cf, key: &[u8], mode: LockMode, validates: bool) -> Result<()> {
        if self.state == TxnState::Prepared && self.late().is_none() {
            return Err(Error::invalid_argument(
                "Transaction has already been prepared.",
            ));
        }
        if cf.comparator().timestamp_size() > 0 {
            return Err(Error::not_supported(
                "transactions in families with timestamps",
            ));
        }
        if cf.family().times.is_some() {
            return Err(Error::not_supported("transactions in databases with a TTL"));
        }
        if !self.db.is_same(cf.db()) {
            return Err(Error::invalid_argument(
                "a column family of another database",
            ));
        }
        if self.options.skip_concurrency_control {
            return Ok(());
        }
        match self.options.optimistic {
            true if validates => {
                self.note(cf.id(), key);
                Ok(())
            }
            true => Ok(()),
            false => self.lock_key(cf, key, mode, validates),
        }
    }

    fn take_needed_snapshot(&mut self) {
        if self.needs_snapshot {
            self.set_snapshot();
        }
    }

    /// Remembers a key for the commit.
    fn note(&mut self, cf: u32, key: &[u8]) {
        self.take_needed_snapshot();
        let seen = match (&self.snapshot, &self.pin) {
            // Not older than the pin, which keeps what comes after it.
            (None, Some(_)) => self.engine().visible(),
            (snapshot, pin) => {
                let at = snapshot.clone().unwrap_or_else(|| self.take_snapshot(true));
                let seen = at.seqno();
                if pin.as_ref().is_none_or(|pin| pin.seqno() > seen) {
                    self.pin = Some(at);
                }
                seen
            }
        };
        self.remember(cf, key, seen, true);
    }

    fn remember(&mut self, cf: u32, key: &[u8], seen: u64, is_exclusive: bool) {
        let new = Tracked { seen, is_exclusive };
        if self.tracked.add(cf, key, new)
            && let Some(point) = self.save_points.last_mut()
        {
            point.keys.push((cf, key.into()));
        }
    }

    fn patience(&self) -> Patience {
        let own = self.options.lock_timeout;
        let timeout = match own < 0 {
            true => {
                self.engine()
                    .transactions
                    .locks()
                    .options()
                    .transaction_lock_timeout
            }
            false => own,
        };
        Patience {
            detect: self
                .options
                .deadlock_detect
                .then_some(self.options.deadlock_detect_depth),
            ..Patience::of_millis(timeout)
        }
    }

    fn lock_key(&mut self, cf: &Cf, key: &[u8], mode: LockMode, validates: bool) -> Result<()> {
        let id = cf.id();
        let known = self.tracked.get(id, key);
        let is_upgrade = known.is_some_and(|k| !k.is_exclusive) && mode == LockMode::Exclusive;
        let engine = self.db.engine().clone();
        let locks = engine.transactions.locks();
        if known.is_none() || is_upgrade {
            locks.lock(&self.owner, (id, key), mode, self.patience())?;
        }
        self.take_needed_snapshot();
        let mut seen = known.map_or(u64::MAX, |k| k.seen);
        match &self.snapshot {
            Some(snapshot) if validates => {
                // Else it was looked at already, at this moment or an earlier one.
                if seen > snapshot.seqno() {
                    seen = snapshot.seqno();
                    let newest = Newest::new(engine.counts_reads());
                    let checked = newest.is_written_since(cf.family(), key, seen);
                    let conflict = match checked {
                        Ok(false) => None,
                        Ok(true) => Some(Error::busy("")),
                        Err(e) => Some(e),
                    };
                    if let Some(e) = conflict {
                        if is_upgrade {
                            locks.weaken(&self.owner, (id, key));
                        } else if known.is_none() {
                            locks.unlock(&self.owner, (id, key));
                        }
                        return Err(e);
                    }
                }
            }
            _ => seen = seen.min(engine.visible()),
        }
        self.remember(id, key, seen, mode == LockMode::Exclusive);
        Ok(())
    }

    /// Sets a key.
    ///
    /// # Errors
    /// `TimedOut` with `LockTimeout`; `Busy` if somebody wrote the key after the snapshot, or with `Deadlock`; `Aborted`
    /// with `LockLimit`; `InvalidArgument` for a key or value that is too large, or if it was prepared; `NotSupported` in
    /// families with timestamps. Nothing has changed then, but that a key whose update finds the batch full is locked.
    pub fn put(&mut self, cf: &Cf, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.track(cf, key.as_ref(), LockMode::Exclusive, true)?;
        self.batch.put(Some(cf), key.as_ref(), value.as_ref())
    }

    /// Removes a key.
    ///
    /// # Errors
    /// As [`Self::put`].
    pub fn delete(&mut self, cf: &Cf, key: impl AsRef<[u8]>) -> Result<()> {
        self.track(cf, key.as_ref(), LockMode::Exclusive, true)?;
        self.batch.delete(Some(cf), key.as_ref())
    }

    /// Removes a key that was put at most once since its last removal.
    ///
    /// # Errors
    /// As [`Self::put`].
    pub fn single_delete(&mut self, cf: &Cf, key: impl AsRef<[u8]>) -> Result<()> {
        self.track(cf, key.as_ref(), LockMode::Exclusive, true)?;
        self.batch.single_delete(Some(cf), key.as_ref())
    }

    /// Adds a merge operand.
    ///
    /// # Errors
    /// As [`Self::put`].
    pub fn merge(
        &mut self,
        cf: &Cf,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.track(cf, key.as_ref(), LockMode::Exclusive, true)?;
        self.batch.merge(Some(cf), key.as_ref(), operand.as_ref())
    }

    /// Adds a note that goes to the log only.
    ///
    /// # Errors
    /// `InvalidArgument` if it is too large.
    pub fn put_log_data(&mut self, blob: impl AsRef<[u8]>) -> Result<()> {
        self.batch.put_log_data(blob.as_ref())
    }

    /// Adds the updates of a batch, as if they were called one by one. Range deletions are refused.
    ///
    /// # Errors
    /// As [`Self::put`]; `InvalidArgument` for a family that does not exist. What comes before the update that fails has
    /// been added.
    pub fn rebuild_from(&mut self, batch: &WriteBatch) -> Result<()> {
        for op in BatchIter::entries(batch.body()) {
            let op = op?;
            let Some(id) = op.cf() else {
                if let BatchOp::LogData { blob } = op {
                    self.put_log_data(blob)?;
                }
                continue;
            };
            let cf = self.family(id)?;
            match op {
                BatchOp::Put { key, value, .. } => self.put(&cf, key, value)?,
                BatchOp::Delete { key, .. } => self.delete(&cf, key)?,
                BatchOp::SingleDelete { key, .. } => self.single_delete(&cf, key)?,
                BatchOp::Merge { key, value, .. } => self.merge(&cf, key, value)?,
                BatchOp::LogData { blob } => self.put_log_data(blob)?,
                _ => {
                    return Err(Error::invalid_argument("DeleteRangeCF not implemented"));
                }
            }
        }
        Ok(())
    }

    fn family(&self, id: u32) -> Result<Cf> {
        let found = self.db.cf_by_id(id);
        found.ok_or_else(|| {
            Error::invalid_argument("Invalid column family specified in write batch")
        })
    }

    /// Fills the batch of a transaction that was prepared. Updates that cannot be looked up stay out of it; they are in
    /// what was prepared.
    fn fill(&mut self, batch: &WriteBatch) -> Result<()> {
        for op in BatchIter::entries(batch.body()) {
            let op = op?;
            let Some(cf) = op.cf().and_then(|id| self.db.cf_by_id(id)) else {
                continue;
            };
            let cf = Some(&cf);
            match op {
                BatchOp::Put { key, value, .. } => self.batch.put(cf, key, value)?,
                BatchOp::Delete { key, .. } => self.batch.delete(cf, key)?,
                BatchOp::SingleDelete { key, .. } => self.batch.single_delete(cf, key)?,
                BatchOp::Merge { key, value, .. } => self.batch.merge(cf, key, value)?,
                _ => {}
            }
        }
        Ok(())
    }

    // ---- Reads

    /// The value of a key as it would be if the transaction were committed now.
    ///
    /// # Errors
    /// As [`Cf::get_opt`]; `Corruption` if a merge operator gives up.
    pub fn get(&self, cf: &Cf, key: impl AsRef<[u8]>) -> Result<Option<Pinned>> {
        self.get_opt(cf, key, &ReadOptions::default())
    }

    /// As [`Self::get`], with options.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub fn get_opt(
        &self,
        cf: &Cf,
        key: impl AsRef<[u8]>,
        options: &ReadOptions,
    ) -> Result<Option<Pinned>> {
        self.batch.get_over(cf, key.as_ref(), options)
    }

    /// Keeps others from writing a key before the transaction ends, as [`Self::get_for_update_opt`] without the read.
    ///
    /// # Errors
    /// As [`Self::put`].
    pub fn lock(&mut self, cf: &Cf, key: impl AsRef<[u8]>, mode: LockMode) -> Result<()> {
        self.track(cf, key.as_ref(), mode, true)
    }

    /// As [`Self::get`], and keeps others from writing the key before the transaction ends, absent keys, too.
    ///
    /// # Errors
    /// As [`Self::put`] and [`Self::get`].
    pub fn get_for_update(&mut self, cf: &Cf, key: impl AsRef<[u8]>) -> Result<Option<Pinned>> {
        self.get_for_update_opt(cf, key, &ReadOptions::default(), LockMode::Exclusive)
    }

    /// As [`Self::get_for_update`], with options; in shared mode others may read it for update, too.
    ///
    /// # Errors
    /// As [`Self::get_for_update`].
    pub fn get_for_update_opt(
        &mut self,
        cf: &Cf,
        key: impl AsRef<[u8]>,
        options: &ReadOptions,
        mode: LockMode,
    ) -> Result<Option<Pinned>> {
        self.track(cf, key.as_ref(), mode, true)?;
        self.get_opt(cf, key, options)
    }

    // ---- Save points

    /// Remembers the present state.
    pub fn set_savepoint(&mut self) {
        self.batch.set_save_point();
        self.save_points.push(SavePoint {
            snapshot: self.snapshot.clone(),
            needs_snapshot: self.needs_snapshot,
            keys: Vec::new(),
        });
    }

    /// Returns to the latest save point and removes it: updates since are gone, and so are locks taken since.
    ///
    /// # Errors
    /// `NotFound` if there is none.
    pub fn rollback_to_savepoint(&mut self) -> Result<()> {
        let Some(point) = self.save_points.pop() else {
            return Err(Error::not_found(""));
        };
        self.batch.rollback_to_save_point()?;
        (self.snapshot, self.needs_snapshot) = (point.snapshot, point.needs_snapshot);
        for (cf, key) in &point.keys {
            self.tracked.remove(*cf, key);
            if !self.options.optimistic {
                self.engine()
                    .transactions
                    .locks()
                    .unlock(&self.owner, (*cf, key));
            }
        }
        Ok(())
    }

    /// Removes the latest save point and keeps what came since.
    ///
    /// # Errors
    /// `NotFound` if there is none.
    pub fn pop_savepoint(&mut self) -> Result<()> {
        let Some(point) = self.save_points.pop() else {
            return Err(Error::not_found(""));
        };
        self.batch.pop_save_point()?;
        if let Some(below) = self.save_points.last_mut() {
            below.keys.extend(point.keys);
        }
        Ok(())
    }

    /// Forgets updates, keys and save points.
    fn clear(&mut self) {
        self.batch.clear();
        self.commit_time.clear();
        self.tracked.clear();
        self.save_points.clear();
        self.pin = None;
        if self.engine().c.options.allow_2pc {
            // As in RocksDB, where this is what marks a transaction in a log.
            self.batch.mark_noop();
        }
    }

    /// Gives its locks up.
    fn release(&self) {
        if !self.options.optimistic && !self.tracked.is_empty() {
            let locks = self.engine().transactions.locks();
            for k in self.tracked.iter() {
                locks.unlock(&self.owner, (k.cf, k.key));
            }
        }
    }

    /// Gives up its locks and its name.
    fn let_go(&mut self) {
        self.release();
        self.clear();
        if std::mem::take(&mut self.holds_name) {
            self.engine().transactions.names.lock().remove(&self.name);
        }
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        self.let_go();
    }
}

fn owner(engine: &Engine, options: &TxnOptions) -> Arc<Owner> {
    let lifetime = u64::try_from(options.expiration).ok().filter(|&ms| ms > 0);
    engine
        .transactions
        .locks()
        .owner(lifetime.map(Duration::from_millis))
}
