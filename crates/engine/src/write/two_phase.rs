//! Describes what transactions write beside plain batches: batches that depend on what others wrote, and the steps of two-phase
//! commit.
//!
//! ```text
//! prepare    log: BeginPrepare, entries, EndPrepare(xid)     no sequence numbers, no memtable
//! commit     log: commit-time entries, Commit(xid), late     memtables: commit-time entries, prepared entries, late
//! rollback   log: Rollback(xid)
//! ```
//!
//! The log with a section is kept until the section is decided and its entries are in tables (WAL3): undecided
//! sections are in `DbState::prepared`, and memtables remember the oldest log that their entries were prepared in.

use super::WriteOptions;
use super::check::{check_batch, lacks_timestamps};
use crate::core::{
    Engine, LeaderState, Lsm, Mark, Payload, PreparedSection, TrackedKey, TransactionWrite,
};
use crate::read::Newest;
use spanlith_base::{Error, Result, SequenceNumber};
use spanlith_wal::{BATCH_HEADER_SIZE, BatchIter, BatchOp, WriteBatch};
use std::collections::BTreeSet;

/// The entries of a batch, counted and checked.
#[derive(Clone, Copy)]
pub(crate) struct Entries<'a> {
    /// Encoded as in a batch, without its header.
    pub body: &'a [u8],
    /// Number of updates.
    pub count: u32,
}

impl<'a> Entries<'a> {
    /// Those of a batch.
    pub(crate) fn of(batch: &'a WriteBatch) -> Self {
        Self {
            body: batch.body(),
            count: batch.count(),
        }
    }
}

/// A batch of these entries.
///
/// # Errors
/// `Corruption` if they are none.
pub(crate) fn batch_of(entries: &[u8]) -> Result<WriteBatch> {
    let mut count = 0u32;
    for op in BatchIter::entries(entries) {
        let op = op?;
        let is_update = op.cf().is_some() && !matches!(op, BatchOp::LogData { .. });
        count += u32::from(is_update);
    }
    let mut rep = vec![0; BATCH_HEADER_SIZE];
    rep[8..].copy_from_slice(&count.to_le_bytes());
    rep.extend_from_slice(entries);
    WriteBatch::from_bytes(rep)
}

/// Writes the steps of transactions of a database.
pub(crate) struct TransactionSteps<'a> {
    engine: &'a Engine,
}

impl<'a> TransactionSteps<'a> {
    /// Of this database.
    pub(crate) fn of(engine: &'a Engine) -> Self {
        Self { engine }
    }

    /// Writes a batch unless a key of `read` was written meanwhile.
    ///
    /// # Errors
    /// `Busy` for that; else as [`Engine::write_batch`].
    pub(crate) fn write_unless_written(
        &self,
        batch: &WriteBatch,
        read: &[TrackedKey<'_>],
        options: &WriteOptions,
    ) -> Result<SequenceNumber> {
        if read.is_empty() {
            return self.engine.write_batch(batch, options);
        }
        self.engine.writable()?;
        self.check_step(batch)?;
        // A conflict that is found here need not be looked for while others wait; after `seen` there is next to nothing.
        let seen = self.engine.visible();
        let newest = Newest::new(self.engine.counts_reads());
        newest.check_unwritten(&self.engine.families.load(), read, seen)?;
        let since: Vec<_> = read
            .iter()
            .map(|k| TrackedKey {
                seen: k.seen.max(seen),
                ..*k
            })
            .collect();
        check_batch(
            self.engine,
            batch.as_bytes(),
            options.ignore_missing_column_families,
        )?;
        let entries = Entries::of(batch);
        self.submit_step(
            &TransactionWrite {
                log: entries.body,
                log_count: entries.count,
                applied: [entries.body, &[]],
                count: entries.count,
                ignore_missing: options.ignore_missing_column_families,
                read: &since,
                mark: Mark::None,
            },
            options,
        )
    }

    /// Logs the prepared section of a transaction: `batch` is marked as such, `entries` are those within. Logged
    /// whatever the options say.
    ///
    /// # Errors
    /// As [`Engine::write_batch`].
    pub(crate) fn prepare(
        &self,
        xid: &[u8],
        batch: &WriteBatch,
        entries: &[u8],
        options: &WriteOptions,
    ) -> Result<SequenceNumber> {
        self.check_step(batch)?;
        check_batch(self.engine, batch_of(entries)?.as_bytes(), false)?;
        let logged = Entries::of(batch);
        let options = WriteOptions {
            disable_wal: false,
            ..*options
        };
        self.submit_step(
            &TransactionWrite {
                log: logged.body,
                log_count: logged.count,
                applied: [&[], &[]],
                count: 0,
                ignore_missing: false,
                read: &[],
                mark: Mark::Prepared(xid, entries),
            },
            &options,
        )
    }

    /// Refuses what plain batches are refused for, or would have been changed by.
    pub(crate) fn check_step(&self, batch: &WriteBatch) -> Result<()> {
        if batch.lacks_timestamps() {
            return Err(lacks_timestamps());
        }
        if self.engine.families.default().times.is_some() {
            return Err(Error::not_supported("transactions in databases with a TTL"));
        }
        Ok(())
    }

    /// Commits a transaction that was prepared with `entries`, with `more` before and `late` after them.
    ///
    /// # Errors
    /// As [`Engine::write_batch`]; the transaction stays prepared then, unless the log failed.
    pub(crate) fn commit_prepared(
        &self,
        xid: &[u8],
        more: &WriteBatch,
        [entries, late]: [&[u8]; 2],
        options: &WriteOptions,
    ) -> Result<SequenceNumber> {
        let late = batch_of(late)?;
        let mut own = batch_of(entries)?;
        own.append(&late)?;
        for batch in [more, &own] {
            check_batch(
                self.engine,
                batch.as_bytes(),
                options.ignore_missing_column_families,
            )?;
        }
        let mut log = more.clone();
        log.mark_commit(xid)?;
        log.append(&late)?;
        self.submit_step(
            &TransactionWrite {
                log: log.body(),
                log_count: more.count() + late.count(),
                applied: [more.body(), own.body()],
                count: more.count() + own.count(),
                ignore_missing: options.ignore_missing_column_families,
                read: &[],
                mark: Mark::Committed(xid),
            },
            options,
        )
    }

    /// Forgets a transaction that was prepared.
    ///
    /// # Errors
    /// As [`Engine::write_batch`]; the transaction stays prepared then, unless the log failed.
    pub(crate) fn roll_back(&self, xid: &[u8], options: &WriteOptions) -> Result<()> {
        let mut log = WriteBatch::new();
        log.mark_rollback(xid)?;
        let step = TransactionWrite {
            log: log.body(),
            log_count: 0,
            applied: [&[], &[]],
            count: 0,
            ignore_missing: false,
            read: &[],
            mark: Mark::RolledBack(xid),
        };
        self.submit_step(&step, options).map(drop)
    }

    fn submit_step(
        &self,
        step: &TransactionWrite<'_>,
        options: &WriteOptions,
    ) -> Result<SequenceNumber> {
        // The leader looks at it once more, whatever the number.
        self.engine
            .submit(Payload::Transaction(step), u64::MAX, options)
    }

    /// Returns whether a transaction of that name was prepared and is undecided.
    pub(crate) fn is_prepared(&self, xid: &[u8]) -> bool {
        self.engine.state.lock().prepared.contains_key(xid)
    }

    /// Names of transactions that were prepared and are undecided.
    pub(crate) fn prepared_names(&self) -> Vec<Vec<u8>> {
        self.engine.state.lock().prepared.keys().cloned().collect()
    }

    /// Returns what a transaction was prepared with, while it is undecided.
    pub(crate) fn prepared_entries(&self, xid: &[u8]) -> Option<Vec<u8>> {
        let state = self.engine.state.lock();
        state
            .prepared
            .get(xid)
            .map(|section| section.entries.clone())
    }
}

impl LeaderState {
    /// Notes what a step that was logged and applied means.
    #[cold]
    pub(super) fn take_mark(
        &self,
        lsm: &Lsm,
        step: &TransactionWrite<'_>,
        sequence: SequenceNumber,
    ) {
        match step.mark {
            Mark::None => {}
            Mark::Prepared(xid, entries) => {
                let section = PreparedSection {
                    log: self.log.number(),
                    sequence,
                    entries: entries.to_vec(),
                };
                lsm.state.lock().prepared.insert(xid.to_vec(), section);
            }
            Mark::RolledBack(xid) => {
                lsm.state.lock().prepared.remove(xid);
            }
            Mark::Committed(xid) => {
                let entries = step
                    .applied
                    .iter()
                    .flat_map(|part| BatchIter::entries(part));
                let families: BTreeSet<u32> = entries
                    .filter_map(|op| op.ok().and_then(|op| op.cf()))
                    .collect();
                let mut state = lsm.state.lock();
                // In one step under the lock: whoever asks which logs are needed sees the one or the other.
                if let Some(section) = state.prepared.remove(xid) {
                    let slots = families.iter().filter_map(|&cf| self.slot(cf));
                    for slot in slots {
                        self.slots[slot].mem.need_log(section.log);
                    }
                }
            }
        }
    }
}

/// Fails if a step decides about a transaction that is not prepared. Requires: leadership.
pub(super) fn check_mark(lsm: &Lsm, mark: Mark<'_>) -> Result<()> {
    match mark {
        Mark::Committed(xid) | Mark::RolledBack(xid)
            if !lsm.state.lock().prepared.contains_key(xid) =>
        {
            Err(Error::invalid_argument(
                "Transaction is not in state for commit.",
            ))
        }
        _ => Ok(()),
    }
}

/// Why a transaction cannot be prepared: only its open would find it.
#[cold]
pub(crate) fn needs_two_phase() -> Error {
    Error::invalid_argument("Two-phase commit needs a database that was opened with allow_2pc")
}
