//! Resuming after an error: one procedure, whoever asks for it (reliability, section 3.2).
//!
//! ```text
//! jobs end ─► new MANIFEST ─► new log, all memtables sealed ─► all flushed in one edit
//!          ─► old logs given up ─► error cleared ─► jobs and writers go on
//! ```
//!
//! The memtables hold every acknowledged write, so nothing is read back from a file that failed (E2).
//! The entries of the group that failed are in no memtable; their sequence numbers are skipped. The
//! flush of all families is one edit (F2), and it says of every family that it needs no log before
//! the new one: a log that ends in the middle of nowhere is not replayed any more. Prepared sections
//! are written to the new log first. Each step can fail and be tried again by the next resume.

use super::flush_call::FlushCall;
use super::new_log::LogFactory;
use super::two_phase::batch_of;
use crate::core::{Engine, LeaderState, Lsm, Place, PreparedSection, gate, repeated_mark};
use crate::flush::Flusher;
use crate::listener::FlushReason;
use crate::options::FlushOptions;
use spanlith_base::{Error, FileNumber, Result, SequenceNumber, Severity};
use spanlith_wal::{LogPlace, PrepareKind, WriteBatch};
use std::sync::atomic::Ordering;

/// Brings a database back after an error.
pub(crate) struct Resume<'a> {
    engine: &'a Engine,
}

impl<'a> Resume<'a> {
    /// Of this database.
    pub(crate) fn of(engine: &'a Engine) -> Self {
        Self { engine }
    }

    /// Clears an error of the background once its cause is gone.
    pub(crate) fn run(&self) -> Result<()> {
        self.engine.writable()?;
        self.try_to_resume()
    }

    /// As [`Self::run`], by itself.
    pub(crate) fn by_itself(&self) -> Result<()> {
        use spanlith_base::stats::Ticker;
        self.engine
            .reporter
            .tick(Ticker::ErrorHandlerAutoresumeRetryTotalCount);
        self.try_to_resume()
    }

    fn try_to_resume(&self) -> Result<()> {
        let token = self.engine.resume_token.lock();
        let serial = {
            let mut state = self.engine.state.lock();
            if state.ends() {
                return Err(Error::shutdown(""));
            }
            let class = state.trouble.refused_by().map(|i| i.class);
            let freed = state.trouble.end_quarantine();
            for file in &freed {
                file.being_compacted.store(false, Ordering::Relaxed);
            }
            match class {
                Some(Severity::Fatal | Severity::Unrecoverable) => {
                    let e = state.trouble.refusal();
                    return Err(e.unwrap_or_else(|| Error::aborted("")));
                }
                Some(_) => state.trouble.resuming = true,
                None => {
                    drop(state);
                    drop(token);
                    return self.retry_soft();
                }
            }
            state.trouble.serial
        };
        let done = self.bring_back(serial);
        if let Err(e) = &done {
            self.engine.note_failed_resume(e);
        }
        done
    }

    /// Tries held work again; waits for a flush.
    fn retry_soft(&self) -> Result<()> {
        self.engine.look_at_ages();
        let is_flush = self.engine.state.lock().trouble.has_failed(Place::Flush);
        self.engine.release_held(None);
        if !is_flush {
            return Ok(());
        }
        FlushCall::of_all(self.engine, &self.engine.leader, FlushReason::ErrorRecovery)
            .run(FlushOptions::AT_ONCE)
    }

    /// The steps of a resume, except for counting its failures. Requires: the token of resumes.
    fn bring_back(&self, serial: u64) -> Result<()> {
        {
            let mut state = self.engine.state.lock();
            while !state.jobs.are_over() {
                if state.ends() {
                    return Err(Error::shutdown(""));
                }
                state = self.engine.wait_changed(state);
            }
        }
        self.engine.renew_manifest()?;
        let give_up_below = {
            let mut leader = self.engine.leader.lock();
            if self.engine.state.lock().ends() {
                return Err(Error::shutdown(""));
            }
            let begun = self.begin_anew(&mut leader);
            self.engine.let_go(leader);
            begun?
        };
        Flusher::new(self.engine, self.engine.log_retirement()).flush_everything(give_up_below)?;
        self.engine.c.resources.check_space()?;
        let incident = {
            let mut state = self.engine.state.lock();
            if state.trouble.serial != serial {
                // Something else went wrong meanwhile.
                let e = state.trouble.refusal();
                return Err(e.unwrap_or_else(|| Error::aborted("")));
            }
            let incident = state.trouble.clear();
            state.trouble.resuming = false;
            if !state.life.is_closing() {
                self.engine.gate.clear(gate::REFUSE);
            }
            let ids: Vec<u32> = state.families.keys().copied().collect();
            for id in ids {
                self.engine.install_superversion(&mut state, id);
            }
            incident
        };
        self.engine.state.notify_all();
        self.engine.reporter.tell_stalls();
        if let Some(incident) = incident {
            self.engine.tell_end(&incident, Ok(()));
        }
        Ok(())
    }

    /// Seals all memtables that hold something, over a new log if the current one is not to be
    /// trusted. Returns the number of the first log that is; 0 if all are. Requires: leadership.
    fn begin_anew(&self, leader: &mut LeaderState) -> Result<FileNumber> {
        // Numbers of a group that failed are not given to another write (D6). W3 holds: nothing has
        // them.
        self.engine.order.skip_assigned();
        let poisoned =
            self.engine.state.lock().trouble.log_poisoned || leader.log.writer().is_none();
        let filled = |leader: &LeaderState| -> Vec<usize> {
            let all = 0..leader.slots.len();
            all.filter(|&i| !leader.slots[i].mem.is_empty()).collect()
        };
        if poisoned {
            let log = replace_log(self.engine, leader)?;
            let filled = filled(leader);
            leader.seal_memtables(self.engine, &filled, log, FlushReason::ErrorRecovery);
        } else if let filled = filled(leader)
            && !filled.is_empty()
        {
            leader.switch_memtables(self.engine, &filled, FlushReason::ErrorRecovery)?;
        }
        Ok(self.engine.state.lock().trouble.give_up_below)
    }
}

/// Begins a log that knows nothing of the one before, with the prepared sections of all logs.
fn replace_log(lsm: &Lsm, leader: &mut LeaderState) -> Result<FileNumber> {
    let number = lsm.catalog.new_file_number();
    let sections = lsm.state.lock().prepared.clone();
    let logs = LogFactory::new(lsm);
    let mut new = logs.create(number)?;
    // An empty batch: whoever resumes learns here, and not from the next write, that the log can
    // be written and synced.
    let mut first = WriteBatch::new();
    first.set_sequence(lsm.visible() + 1);
    let written = sections
        .iter()
        .try_for_each(|(xid, section)| {
            let batch = repeated(xid, section, first.sequence(), &lsm.c.db_id)?;
            new.add_record(batch.as_bytes())
        })
        .and_then(|()| new.add_record(first.as_bytes()))
        .and_then(|()| new.sync())
        .and_then(|()| lsm.logs.store().sync_names(LogPlace::Live));
    if let Err(e) = written {
        drop(new);
        logs.discard(number);
        return Err(e);
    }
    // Sections that it repeats are data.
    let bytes = if sections.is_empty() { 0 } else { new.len() };
    let old = leader.log.begin(lsm, new, bytes, first.sequence());
    debug_assert!(
        old.as_ref().is_none_or(|old| old.log_number() < number),
        "E2: a log that failed is not written again"
    );
    lsm.logs.names_are_durable(number);
    let mut state = lsm.state.lock();
    // A file that failed is not written again, under whatever name.
    let before = old.as_ref().map(|old| (old.log_number(), old.len()));
    state.logs.begin_apart(number, before);
    for section in state.prepared.values_mut() {
        section.log = number;
        section.sequence = first.sequence();
    }
    state.trouble.log_poisoned = false;
    state.trouble.give_up_below = number;
    Ok(number)
}

/// A prepared section as its transaction wrote it, and the mark that it was written before. Its number is that of the next write:
/// replay comes here from logs that may hold all that is visible, and numbers do not go back.
fn repeated(
    xid: &[u8],
    section: &PreparedSection,
    sequence: SequenceNumber,
    db_id: &str,
) -> Result<WriteBatch> {
    let mut batch = WriteBatch::new();
    batch.mark_noop();
    batch.append(&batch_of(&section.entries)?)?;
    batch.mark_prepared(xid, PrepareKind::Committed)?;
    batch.put_log_data(&repeated_mark(db_id))?;
    batch.set_sequence(sequence);
    Ok(batch)
}
