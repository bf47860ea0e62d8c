//! How a transaction ends: its name, the first phase, the commit, and the way back.

use super::{Transaction, TxnState};
use crate::core::Engine;
use crate::requests::{Kind, Requests, WriteFuture};
use crate::write::{TransactionSteps, needs_two_phase};
use spanlith_base::{Error, ErrorKind, Result, SubCode};
use spanlith_wal::{BatchIter, BatchOp, PrepareKind, WriteBatch};
use std::any::Any;
use std::sync::Arc;

/// Longest name of a transaction, in bytes.
const NAME_MAX: usize = 512;

impl Transaction {
    /// Gives it a name, by which it is found again once it is prepared.
    ///
    /// # Errors
    /// `InvalidArgument` for a name of 0 or more than 512 bytes, a name that a live or prepared transaction has, a second
    /// name, and for transactions without locks.
    pub fn set_name(&mut self, name: &[u8]) -> Result<()> {
        let wrong = |text: String| Err(Error::invalid_argument(text));
        if self.options.optimistic {
            return wrong("Optimistic transactions cannot be named.".into());
        }
        if self.state != TxnState::Started {
            return wrong("Transaction is beyond state for naming.".into());
        }
        if !self.name.is_empty() {
            return wrong("Transaction has already been named.".into());
        }
        let engine = self.engine().clone();
        let mut names = engine.transactions.names.lock();
        if names.contains(name) || TransactionSteps::of(&engine).is_prepared(name) {
            return wrong(format!(
                "Duplicate txn name {}",
                String::from_utf8_lossy(name)
            ));
        }
        if name.is_empty() || name.len() > NAME_MAX {
            return wrong("Transaction name length must be between 1 and 512 chars.".into());
        }
        names.insert(name.to_vec());
        drop(names);
        (self.name, self.holds_name) = (name.to_vec(), true);
        Ok(())
    }

    fn has_expired(&self) -> bool {
        self.state == TxnState::Started && (self.owner.is_expired() || self.owner.is_robbed())
    }

    /// First phase of two: from now on it survives whatever happens until it is committed or rolled back. Needs a name,
    /// and a database that was opened with `allow_2pc`. Updates that are made
    /// later are written with the commit: only then do they survive.
    ///
    /// # Errors
    /// `InvalidArgument` without name, twice, or at the end; `Expired`; else as [`Db::write`](crate::Db::write).
    pub fn prepare(&mut self) -> Result<()> {
        let wrong = |text: &str| Err(Error::invalid_argument(text));
        if self.options.optimistic {
            return wrong("Two phase commit not supported for optimistic transactions.");
        }
        if self.name.is_empty() {
            return wrong("Cannot prepare a transaction that has not been named.");
        }
        if self.has_expired() {
            return Err(Error::new(ErrorKind::Expired, ""));
        }
        match self.state {
            TxnState::Started => {}
            TxnState::Prepared => return wrong("Transaction has already been prepared."),
            TxnState::Committed => return wrong("Transaction has already been committed."),
            TxnState::RolledBack => return wrong("Transaction has already been rolledback."),
        }
        if !self.engine().c.options.allow_2pc {
            return Err(needs_two_phase());
        }
        if !self.owner.decide() {
            return Err(Error::new(ErrorKind::Expired, ""));
        }
        let logged = self.log_section();
        self.prepared = logged.inspect_err(|_| self.owner.reconsider())?;
        self.state = TxnState::Prepared;
        // Nothing is taken back after this.
        self.save_points.clear();
        Ok(())
    }

    /// Logs what it is prepared with, and returns it.
    fn log_section(&self) -> Result<Vec<u8>> {
        let own = self.batch.batch();
        let mut section = WriteBatch::new();
        section.mark_noop();
        section.append(own)?;
        section.mark_prepared(&self.name, PrepareKind::Committed)?;
        let entries = without_noop(own.body()).to_vec();
        let engine = self.engine();
        TransactionSteps::of(engine).prepare(&self.name, &section, &entries, &self.write)?;
        Ok(entries)
    }

    /// Makes its updates visible, all at once.
    ///
    /// # Errors
    /// `Busy` of a transaction without locks, if a key it wrote or read for update was written meanwhile; `Expired`;
    /// `InvalidArgument` if it has ended already; else as [`Db::write`](crate::Db::write).
    pub fn commit(&mut self) -> Result<()> {
        if self.options.optimistic {
            return self.commit_checked();
        }
        if self.has_expired() {
            return Err(Error::new(ErrorKind::Expired, ""));
        }
        let wrong = |text: &str| Err(Error::invalid_argument(text));
        match self.state {
            TxnState::Started => {
                self.decide_plainly()?;
                let written = self.engine().write_batch(self.batch.batch(), &self.write);
                written.inspect_err(|_| self.owner.reconsider())?;
            }
            TxnState::Prepared => {
                let steps = TransactionSteps::of(self.engine());
                steps.check_step(self.batch.batch())?;
                steps.commit_prepared(
                    &self.name,
                    &self.commit_time,
                    [&self.prepared, self.late().unwrap_or_default()],
                    &self.write,
                )?;
            }
            TxnState::Committed => return wrong("Transaction has already been committed."),
            TxnState::RolledBack => return wrong("Transaction has already been rolledback."),
        }
        self.let_go();
        self.state = TxnState::Committed;
        Ok(())
    }

    /// Decides that a transaction with locks that was not prepared is committed by a plain write, which is the next step.
    fn decide_plainly(&self) -> Result<()> {
        if !self.options.skip_prepare {
            return Err(Error::invalid_argument("").with_subcode(SubCode::TxnNotPrepared));
        }
        if self.commit_time.count() > 0 {
            return Err(Error::invalid_argument(
                "Commit-time batch contains values that will not be committed.",
            ));
        }
        match self.owner.decide() {
            true => Ok(()),
            false => Err(Error::new(ErrorKind::Expired, "")),
        }
    }

    /// Commits while the caller does something else (R-SPAN-20). A transaction with locks that was not prepared is a
    /// write among the asynchronous writes, and shares their log append and sync; others are committed by a thread of
    /// their own. Locks are held until the outcome is known, and are free when the future is ready.
    ///
    /// The transaction is used up: what could not be committed is rolled back, and one that was prepared stays prepared
    /// under its name. Dropping the future does not take the commit back, unless the write still waits for room: then it is
    /// rolled back.
    pub fn commit_async(mut self) -> WriteFuture {
        let engine = self.engine().clone();
        let requests = Requests::of(&engine);
        let is_plain =
            !self.options.optimistic && self.state == TxnState::Started && !self.has_expired();
        if !is_plain {
            let commit = move |_: &Arc<Engine>| {
                let result = self.commit();
                (result, Some(Box::new(self) as Box<dyn Any + Send>))
            };
            return WriteFuture::job(requests.queue_job(&engine, Kind::Job, true, commit));
        }
        if let Err(e) = self.decide_plainly() {
            return WriteFuture::known(Err(e));
        }
        let (batch, options) = (self.batch.batch().clone(), self.write);
        let hook = Box::new(move |result: &Result<()>| {
            self.state = match result {
                Ok(()) => TxnState::Committed,
                Err(_) => TxnState::RolledBack,
            };
            self.let_go();
        });
        requests.write_batch(&engine, &batch, &options, true, Some(hook))
    }

    /// Updates that were made since it was prepared; `None` if its batch does not begin any more with what was prepared.
    pub(super) fn late(&self) -> Option<&[u8]> {
        without_noop(self.batch.batch().body()).strip_prefix(&*self.prepared)
    }

    /// Commits without locks.
    fn commit_checked(&mut self) -> Result<()> {
        let engine = self.engine().clone();
        let keys: Vec<_> = self.tracked.iter().collect();
        // Its writes count, too: a batch may hold more than the tracked keys, and others of its group may have read those.
        let written = BatchIter::entries(self.batch.batch().body())
            .filter_map(|op| op.ok().and_then(|op| op.cf().zip(op.key())));
        let tracked = keys.iter().map(|k| (k.cf, k.key));
        let entered = engine.transactions.enter(tracked.chain(written));
        TransactionSteps::of(&engine).write_unless_written(
            self.batch.batch(),
            &keys,
            &self.write,
        )?;
        drop(entered);
        drop(keys);
        self.clear();
        Ok(())
    }

    /// Takes all back. A transaction that was not prepared can be used again.
    ///
    /// # Errors
    /// `InvalidArgument` if it has ended already; as [`Db::write`](crate::Db::write) if it was prepared, and then it still is.
    pub fn rollback(&mut self) -> Result<()> {
        match self.state {
            TxnState::Started => {
                self.release();
                self.clear();
                Ok(())
            }
            TxnState::Prepared => {
                let engine = self.engine();
                TransactionSteps::of(engine).roll_back(&self.name, &self.write)?;
                self.let_go();
                self.state = TxnState::RolledBack;
                Ok(())
            }
            TxnState::Committed => Err(Error::invalid_argument(
                "This transaction has already been committed.",
            )),
            TxnState::RolledBack => Err(Error::invalid_argument(
                "Two phase transaction is not in state for rollback.",
            )),
        }
    }
}

/// The entries of a transaction's batch after the mark that it begins with.
fn without_noop(body: &[u8]) -> &[u8] {
    let mut entries = BatchIter::entries(body);
    match entries.next() {
        Some(Ok(BatchOp::Noop)) => entries.rest(),
        _ => body,
    }
}
