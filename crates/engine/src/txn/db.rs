//! Transactions of a database, and writes that keep out of their way.

use super::{Transaction, TxnOptions};
use crate::db::{Cf, Db};
use crate::locks::{LockMode, LockOptions, Patience};
use crate::write::{TransactionSteps, WriteOptions};
use spanlith_base::{Error, ErrorKind, Result, SequenceNumber};
use spanlith_wal::{BatchIter, WriteBatch};
use std::collections::BTreeSet;

impl Db {
    /// Limits locks of transactions; before there is one.
    ///
    /// # Errors
    /// `InvalidArgument` if there are locks already.
    pub fn set_lock_options(&self, options: LockOptions) -> Result<()> {
        match self.engine().transactions.set_lock_options(options) {
            true => Ok(()),
            false => Err(Error::invalid_argument("Locks are in use already")),
        }
    }

    /// Begins a transaction. Those with locks keep from conflicts with each other and with
    /// [`Self::write_locked`]; whatever else writes to the database does not ask for locks.
    pub fn transaction(&self, options: TxnOptions) -> Transaction {
        self.transaction_opt(options, WriteOptions::default())
    }

    /// As [`Self::transaction`]; `write` says how its commit is written.
    pub fn transaction_opt(&self, options: TxnOptions, write: WriteOptions) -> Transaction {
        Transaction::begin(self, options, write)
    }

    /// Runs `body` in a transaction and commits it. On a conflict, a deadlock or a lock that is not had in time, all is
    /// taken back and tried again, at most `options.retries` times.
    ///
    /// # Errors
    /// Those of `body` and of the commit.
    pub fn transact<T>(
        &self,
        options: TxnOptions,
        mut body: impl FnMut(&mut Transaction) -> Result<T>,
    ) -> Result<T> {
        let mut left = options.retries;
        loop {
            let mut transaction = self.transaction(options);
            let done = body(&mut transaction).and_then(|made| transaction.commit().map(|()| made));
            match done {
                Err(e) if left > 0 && is_conflict(&e) => left -= 1,
                done => return done,
            }
        }
    }

    /// Transactions that were prepared and are undecided, and that nobody holds: those that the open found in the logs,
    /// and those that were dropped since. They hold no locks, as in RocksDB.
    ///
    /// # Errors
    /// `Corruption` of what was prepared.
    pub fn prepared_transactions(&self) -> Result<Vec<Transaction>> {
        let engine = self.engine();
        let mut found = Vec::new();
        let steps = TransactionSteps::of(engine);
        for name in steps.prepared_names() {
            if !engine.transactions.names.lock().insert(name.clone()) {
                continue;
            }
            // Nobody decides about it from here on; somebody may have, meanwhile.
            let claimed = match steps.prepared_entries(&name) {
                Some(entries) => Transaction::of_section(self, name.clone(), entries).map(Some),
                None => Ok(None),
            };
            match claimed {
                Ok(Some(transaction)) => found.push(transaction),
                Ok(None) => drop(engine.transactions.names.lock().remove(&name)),
                Err(e) => {
                    engine.transactions.names.lock().remove(&name);
                    return Err(e.with("transaction", name.escape_ascii()));
                }
            }
        }
        Ok(found)
    }

    /// Applies a batch as a transaction of its own: all its keys are locked before.
    ///
    /// # Errors
    /// `TimedOut` with `LockTimeout`; `InvalidArgument` for range deletions, which no lock covers; else as [`Self::write`].
    pub fn write_locked(&self, batch: &WriteBatch, options: &WriteOptions) -> Result<()> {
        self.write_locked_raw(batch, options).map(drop)
    }

    /// As [`Self::write_locked`]; returns the sequence number of the first update.
    ///
    /// # Errors
    /// As [`Self::write_locked`].
    pub fn write_locked_raw(
        &self,
        batch: &WriteBatch,
        options: &WriteOptions,
    ) -> Result<SequenceNumber> {
        let write = || self.engine().write_batch(batch, options);
        let locks = self.engine().transactions.locks();
        if locks.options().skip_concurrency_control {
            return write();
        }
        let mut keys = BTreeSet::new();
        for op in BatchIter::entries(batch.body()) {
            let op = op?;
            if let spanlith_wal::BatchOp::DeleteRange { .. } = op {
                return Err(Error::invalid_argument("DeleteRangeCF not implemented"));
            }
            if let (Some(cf), Some(key)) = (op.cf(), op.key()) {
                keys.insert((cf, key));
            }
        }
        self.with_locks(keys.into_iter(), write)
    }

    /// Locks keys, in this order, while `write` runs.
    fn with_locks<'a, T>(
        &self,
        keys: impl Iterator<Item = (u32, &'a [u8])>,
        write: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let locks = self.engine().transactions.locks();
        let owner = locks.owner(None);
        let patience = Patience::of_millis(locks.options().default_lock_timeout);
        let mut held = Vec::new();
        let mut result = Ok(());
        for key in keys {
            result = locks.lock(&owner, key, LockMode::Exclusive, patience);
            if result.is_err() {
                break;
            }
            held.push(key);
        }
        let result = result.and_then(|()| write());
        for key in held {
            locks.unlock(&owner, key);
        }
        result
    }
}

impl Cf {
    /// As [`Self::put_opt`], as a transaction of its own: waits for the key's lock.
    ///
    /// # Errors
    /// `TimedOut` with `LockTimeout`; else as [`Self::put_opt`].
    pub fn put_locked(&self, key: &[u8], value: &[u8], options: &WriteOptions) -> Result<()> {
        self.locked(key, || self.put_opt(key, value, options))
    }

    /// As [`Self::delete_opt`], as a transaction of its own.
    ///
    /// # Errors
    /// As [`Self::put_locked`].
    pub fn delete_locked(&self, key: &[u8], options: &WriteOptions) -> Result<()> {
        self.locked(key, || self.delete_opt(key, options))
    }

    /// As [`Self::merge_opt`], as a transaction of its own.
    ///
    /// # Errors
    /// As [`Self::put_locked`].
    pub fn merge_locked(&self, key: &[u8], operand: &[u8], options: &WriteOptions) -> Result<()> {
        self.locked(key, || self.merge_opt(key, operand, options))
    }

    fn locked(&self, key: &[u8], write: impl FnOnce() -> Result<()>) -> Result<()> {
        self.db()
            .with_locks(std::iter::once((self.id(), key)), write)
    }
}

/// Returns whether a transaction may do better a second time.
fn is_conflict(e: &Error) -> bool {
    matches!(
        e.kind(),
        ErrorKind::Busy | ErrorKind::TimedOut | ErrorKind::TryAgain
    )
}
