//! Describes what listeners are told about changes that happen under locks: noted there, told once the locks are
//! released. Nothing is noted if nobody listens.

use super::purge::Obsolete;
use super::state::{DbState, FamilyState, LeaderState};
use super::stripped::{newest_timestamp, strips_timestamps};
use super::{Engine, Family};
use crate::info_log::events::TableFileDeletion;
use crate::listener::{
    BlobFileDeletionInfo, MemtableInfo, TableFileDeletionInfo, WriteStall, WriteStallInfo,
};
use crate::version::{FileChecksum, filenames};
use spanlith_base::Comparator;
use spanlith_base::sync::MutexGuard;
use spanlith_memtable::MemTable;
use spanlith_pace::StallCondition;
use std::sync::Arc;

/// A memtable that listeners are yet to hear of.
pub(crate) struct Sealed {
    family: u32,
    info: MemtableInfo,
    /// Where the newest timestamp is looked for, once no lock is held, if there is something to look for.
    timed: Option<(Comparator, Arc<MemTable>)>,
}

fn public(condition: StallCondition) -> WriteStall {
    match condition {
        StallCondition::Normal => WriteStall::Normal,
        StallCondition::Delayed(_) => WriteStall::Delayed,
        StallCondition::Stopped(_) => WriteStall::Stopped,
    }
}

/// When it goes, the flushes of these memtables may begin.
struct Told {
    engine: Arc<Engine>,
    /// The families of the memtables.
    families: Vec<u32>,
}

impl Drop for Told {
    fn drop(&mut self) {
        let mut state = self.engine.state.lock();
        for &id in &self.families {
            if let Some(f) = state.family_mut(id) {
                f.seal_untold = f.seal_untold.saturating_sub(1);
            }
        }
        // No job was queued for them: it would have waited on a thread that the listener may need.
        self.engine.schedule(&mut state);
        drop(state);
        self.engine.changed.notify_all();
    }
}

impl Engine {
    /// Takes note of a family's stall condition after it was computed anew.
    pub(super) fn note_stall(&self, f: &FamilyState, previous: StallCondition) {
        if f.stall != StallCondition::Normal {
            let compacting = f.running.iter().any(|r| r.input_levels.contains(&0));
            f.family.counters.add_stall(f.stall, compacting);
        }
        let (current, previous) = (public(f.stall), public(previous));
        if current == previous {
            return;
        }
        let name = &f.family.name;
        match current {
            WriteStall::Normal => self.c.log.info(format_args!("[{name}] Writes go on")),
            WriteStall::Delayed => self.c.log.warn(format_args!(
                "[{name}] Stalling writes: {:?}, {} immutable memtables, {} level-0 files, rate {}",
                f.stall,
                f.imm.len(),
                f.version.num_files(0),
                self.throttle.rate(),
            )),
            WriteStall::Stopped => self.c.log.warn(format_args!(
                "[{name}] Stopping writes: {:?}, {} immutable memtables, {} level-0 files",
                f.stall,
                f.imm.len(),
                f.version.num_files(0),
            )),
        }
        if !self.c.listeners.is_empty() {
            self.news.lock().push(WriteStallInfo {
                cf_name: name.clone(),
                current,
                previous,
            });
        }
    }

    /// Returns what listeners hear of the memtable of `f` that was sealed last; `None` if nobody listens. Until
    /// [`Self::tell_sealed`], the flush of `f` waits.
    pub(crate) fn note_sealed(&self, f: &mut FamilyState, since: u64) -> Option<Sealed> {
        if self.c.listeners.is_empty() {
            return None;
        }
        let mem = &f.imm.last()?.mem;
        f.seal_untold += 1;
        let info = MemtableInfo {
            cf_name: f.family.name.clone(),
            first_seqno: mem.first_seqno(),
            earliest_seqno: since,
            entries: mem.len() + mem.range_deletes(),
            deletions: mem.deletes(),
            newest_timestamp: Vec::new(),
        };
        let timed = strips_timestamps(&f.family, &f.settings);
        let timed = timed.then(|| (f.family.comparator.clone(), mem.clone()));
        let family = f.family.id;
        Some(Sealed {
            family,
            info,
            timed,
        })
    }

    /// Lets go of leadership, then tells what happened under it and lets flushes of what was sealed begin. The caller
    /// holds neither the state mutex nor the manifest token.
    pub(crate) fn let_go(self: &Arc<Self>, mut leader: MutexGuard<'_, LeaderState>) {
        let sealed = std::mem::take(&mut leader.untold);
        drop(leader);
        self.tell_sealed(sealed);
        self.tell_news();
    }

    fn tell_sealed(self: &Arc<Self>, sealed: Vec<Sealed>) {
        if sealed.is_empty() {
            return;
        }
        // A listener that panics must not hold flushes back for ever.
        let told = Told {
            engine: self.clone(),
            families: sealed.iter().map(|s| s.family).collect(),
        };
        for Sealed {
            mut info, timed, ..
        } in sealed
        {
            if let Some((comparator, mem)) = timed {
                info.newest_timestamp = newest_timestamp(&comparator, &mem);
            }
            self.c.listeners.on_memtable_sealed(|| info);
        }
        drop(told);
    }

    /// Waits until listeners know of all sealed memtables of a family. With a manual executor jobs
    /// run on the thread that seals and tells: nothing is to be waited for.
    pub(crate) fn wait_until_told(&self, family: &Family) {
        if self.c.listeners.is_empty() || self.c.env.executor.is_manual() {
            return;
        }
        let mut state = self.state.lock();
        while state.family(family.id).is_some_and(|f| f.seal_untold > 0) {
            state = self.wait_changed(state);
        }
    }

    /// Tells what was noted. The caller holds neither the state mutex nor the manifest token.
    pub(crate) fn tell_news(&self) {
        let listeners = &self.c.listeners;
        if listeners.is_empty() {
            return;
        }
        let news = std::mem::take(&mut *self.news.lock());
        for info in news {
            listeners.on_stall_conditions_changed(|| info);
        }
    }

    /// Says that a file was deleted.
    pub(crate) fn note_deleted(&self, file: &Obsolete) {
        let (job, number) = (0, file.number);
        if file.is_blob_file {
            self.c.log.blob_file_deletion(job, number);
            self.c
                .listeners
                .on_blob_file_deleted(|| BlobFileDeletionInfo {
                    path: file.path().to_path_buf(),
                    number,
                });
            return;
        }
        self.c.log.table_file_deletion(&TableFileDeletion {
            job,
            file_number: number,
            result: &Ok(()),
        });
        if let Some(s) = &self.c.statistics {
            s.add(spanlith_base::stats::Ticker::FilesDeletedImmediately, 1);
        }
        self.c
            .listeners
            .on_table_file_deleted(|| TableFileDeletionInfo {
                path: self.path(filenames::table_file_name(number)),
                job,
                result: Ok(()),
            });
    }

    /// Returns whether files get checksums. What is not understood is refused before a database is opened.
    pub(crate) fn file_checksum(&self) -> FileChecksum {
        FileChecksum::parse(&self.c.options.file_checksum_gen_factory).unwrap_or_default()
    }

    /// A number for a job.
    pub(crate) fn new_job(&self) -> u64 {
        next_job(&mut self.state.lock())
    }
}

/// A number for a job.
pub(crate) fn next_job(state: &mut DbState) -> u64 {
    state.next_job += 1;
    state.next_job
}
