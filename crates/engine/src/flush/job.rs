//! The flush job: sealed memtables become one table in level 0.
//!
//! Order (F1, reliability 2.6): write and sync the table, sync the directory, log and sync the
//! version edit, install, and only then retire logs.

#[cfg(test)]
use crate::compaction::plant;
use crate::compaction::{CompactionIter, IterSettings, check_memtables, check_outputs};
use crate::core::{
    CoveredBytes, DbState, Family, FamilyEdit, FamilySettings, FamilyState, Immutable,
    LogRetirement, Lsm, NewTable, Place, Recheck, ShortDirs, SizeTally, WrittenBy, is_no_space,
    panicked, path_of_flush, strips_timestamps, watch_spare,
};
use crate::filter::{FilterContext, TableCreation, protective_filter};
use crate::flush::notes::FlushNote;
use crate::flush::timestamps::{
    history_low_after, keeps_timestamps, read_timestamps, with_smallest_timestamps,
};
use crate::iter::{MergingIter, Source};
use crate::listener::FlushReason;
use crate::output::{TableEnd, TableOutput, TableTarget, ValueSink, builder_options};
use crate::version::VersionEdit;
use crate::version::edit::BlobFileAddition;
use spanlith_base::range_del::{CompactionRangeDels, OutputBounds, TruncatedTombstones};
use spanlith_base::{Error, ErrorKind, FileNumber, Result};
use spanlith_env::{IoActivity, Unlinked};
use spanlith_memtable::MemTable;
use spanlith_table::ReadActivity;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Entries between two notes of how far a flush has come.
const NOTE_EVERY: u64 = 128;

/// Describes what a new table is built from.
pub(crate) struct TableRequest<'a> {
    pub family: &'a Arc<Family>,
    pub settings: &'a FamilySettings,
    pub number: u64,
    pub mems: &'a [Arc<MemTable>],
    pub snapshots: Vec<u64>,
    pub creation: TableCreation,
}

/// Sealed memtables of one family that are flushed together, oldest first.
pub(super) struct Picked {
    family: Arc<Family>,
    settings: Arc<FamilySettings>,
    imm: Vec<Immutable>,
    reason: FlushReason,
}

/// Flushes sealed memtables of a database, and puts away the logs that nobody needs afterwards.
pub(crate) struct Flusher<'a> {
    pub(super) lsm: &'a Lsm,
    logs: LogRetirement<'a>,
}

impl<'a> Flusher<'a> {
    /// That of these trees.
    pub(crate) fn new(lsm: &'a Lsm, logs: LogRetirement<'a>) -> Self {
        Self { lsm, logs }
    }

    /// Body of the background flush job of a family; of all families if flushes are atomic.
    pub(crate) fn run(&self, family: &Arc<Family>) {
        // Ends the job also if a listener cleared the error: the next write or flush tries again.
        let mut failed = false;
        loop {
            if !self.lsm.c.options.atomic_flush {
                read_timestamps(&self.lsm.state, family);
            }
            let picked = {
                let mut state = self.lsm.state.lock();
                let stop = failed || state.trouble.stops_work() || self.lsm.stopping();
                let picked = if stop {
                    Vec::new()
                } else {
                    self.pick_flush(&mut state, family)
                };
                if picked.is_empty() {
                    let mut postponed = false;
                    // Between the failure and here somebody may have asked for another try, who was
                    // not given a job because this one had not ended.
                    let released = failed && state.trouble.has_released_flush();
                    let mut again = false;
                    if let Some(f) = state.family_mut(family.id) {
                        (postponed, again) = f.flush.end(failed, released);
                    }
                    if again || state.jobs.has_together() {
                        self.lsm.schedule(&mut state);
                    }
                    // No flush is to come any more.
                    self.lsm.lift_stalls(&mut state);
                    drop(state);
                    self.lsm.state.notify_all();
                    self.lsm.reporter.tell_stalls();
                    if postponed {
                        self.lsm.watch_postponed();
                    }
                    watch_spare(&*self.lsm.c.env.executor);
                    return;
                }
                picked
            };
            let flush = || self.flush(&picked, 0);
            let flushed = catch_unwind(AssertUnwindSafe(flush));
            match flushed.unwrap_or_else(|panic| Err(panicked("flush", &*panic))) {
                Ok(()) => self.lsm.work_succeeded(Place::Flush),
                // The memtables of a dropped family are of no use to anyone.
                Err(e) if e.kind() == ErrorKind::ColumnFamilyDropped => {}
                Err(e) => {
                    self.failed(&picked, &e);
                    failed = true;
                }
            }
            self.lsm.purge_obsolete();
        }
    }

    /// Returns what the job of `family` flushes now; nothing if none is due.
    fn pick_flush(&self, state: &mut DbState, family: &Arc<Family>) -> Vec<Picked> {
        let pick = |f: &mut FamilyState| {
            f.flush.begin_all();
            Picked {
                family: f.family.clone(),
                settings: f.settings.clone(),
                imm: f.imm.clone(),
                reason: f.imm.last().map_or(FlushReason::Others, |i| i.reason),
            }
        };
        if self.lsm.c.options.atomic_flush {
            if !state.atomic_flush_is_due() {
                // A flush is still asked for where listeners have not heard of sealed memtables.
                let untold = state.families.values().any(|f| f.flush.has_untold_seals());
                for f in state.families.values_mut() {
                    f.flush.pass(untold);
                }
                return Vec::new();
            }
            // All that is sealed was sealed together: one consistent cut.
            let some = state.families.values_mut().filter(|f| !f.imm.is_empty());
            return some.map(pick).collect();
        }
        match state.family_mut(family.id) {
            Some(f) if f.flush_is_due() => {
                let waits = keeps_timestamps(f);
                f.flush.postpone(waits);
                if waits {
                    return Vec::new();
                }
                vec![pick(f)]
            }
            _ => Vec::new(),
        }
    }

    /// Flushes all sealed memtables in one edit, which says that no log below `give_up_below` is
    /// needed. Requires: no flush job runs or begins.
    pub(crate) fn flush_everything(&self, give_up_below: FileNumber) -> Result<()> {
        let picked: Vec<Picked> = {
            let mut state = self.lsm.state.lock();
            let some = state.families.values_mut().filter(|f| !f.imm.is_empty());
            some.map(Picked::all_of).collect()
        };
        if picked.is_empty() && give_up_below == 0 {
            return Ok(());
        }
        let done = self.flush(&picked, give_up_below);
        self.release(&picked);
        let mut state = self.lsm.state.lock();
        for f in state.families.values_mut() {
            f.flush.stop();
        }
        done
    }

    /// Flushes each family's memtables into one table, and installs all of them in one step. With
    /// `give_up_below`, no family needs a log below that any more; 0 is for keeping all that are
    /// needed.
    pub(super) fn flush(&self, picked: &[Picked], give_up_below: FileNumber) -> Result<()> {
        let _activity = ReadActivity::Flush.enter();
        let mut job = FlushJob::new(self.lsm, picked, give_up_below);
        let contents = job.run(&self.logs)?;
        // A flush returns after the listeners heard of it, as in RocksDB, and after it can be missed; one that
        // takes the last of the space, once the error is set.
        let space = self.lsm.c.resources.check_space();
        if self.lsm.throttle.is_smooth() {
            // Writers are paced by it.
            let (fs, options) = (&*self.lsm.c.env.fs, self.lsm.options());
            let families = self.lsm.families.load_full();
            drop(ShortDirs::look(fs, &families, &options, &self.lsm.throttle));
        }
        if space.is_ok() {
            self.release(picked);
        }
        job.warm_cache();
        drop(contents);
        space
    }

    /// Decides what becomes of a flush that failed.
    pub(super) fn failed(&self, picked: &[Picked], error: &Error) {
        self.mark_retries(picked, error);
        self.lsm.set_error(Place::Flush, error);
        self.release(picked);
    }

    /// Callers that wait for the flush of what was picked go on.
    fn release(&self, picked: &[Picked]) {
        {
            let mut state = self.lsm.state.lock();
            for p in picked {
                if let Some(f) = state.family_mut(p.family.id) {
                    f.flush.note_told();
                }
            }
        }
        self.lsm.state.notify_all();
    }

    /// The flush of what was picked failed: the next is another try, and listeners are told so.
    fn mark_retries(&self, picked: &[Picked], error: &Error) {
        let mut state = self.lsm.state.lock();
        for p in picked {
            if let Some(f) = state.family_mut(p.family.id) {
                for sealed in f.imm.iter_mut().take(p.imm.len()) {
                    sealed.reason = match is_no_space(error) {
                        // Somebody made room.
                        true => FlushReason::ErrorRecovery,
                        false => FlushReason::ErrorRecoveryRetryFlush,
                    };
                }
            }
        }
    }
}

/// A flush of what was picked, on its way from memtables to installed tables.
struct FlushJob<'a> {
    lsm: &'a Lsm,
    picked: &'a [Picked],
    /// No family needs a log below that afterwards; 0 keeps all that are needed.
    give_up_below: FileNumber,
    /// When it began, in nanoseconds of the monotonic clock.
    started: u64,
    /// The tables that were written, in the order of `picked`.
    done: Vec<(FlushNote<'a>, Built)>,
    /// The edits that record them.
    edits: Vec<FamilyEdit>,
    progress: Vec<Progressing<'a>>,
}

impl<'a> FlushJob<'a> {
    fn new(lsm: &'a Lsm, picked: &'a [Picked], give_up_below: FileNumber) -> Self {
        Self {
            lsm,
            picked,
            give_up_below,
            started: lsm.c.env.clock.monotonic_nanos(),
            done: Vec::with_capacity(picked.len()),
            edits: Vec::with_capacity(picked.len()),
            progress: Vec::with_capacity(picked.len()),
        }
    }

    /// Writes, records and installs the tables, and puts away the logs that nobody needs afterwards. Returns what holds the
    /// contents of those.
    fn run(&mut self, logs: &LogRetirement<'_>) -> Result<Vec<Unlinked>> {
        let mut picked = self.picked.iter();
        let written = picked.try_for_each(|p| self.write_table(p));
        if let Err(e) = written {
            self.discard();
            return Err(e);
        }
        self.settle_logs()?;
        self.install()?;
        let clock = &self.lsm.c.env.clock;
        let micros = (clock.monotonic_nanos() - self.started) / 1000;
        for (note, built) in &self.done {
            let now = clock.monotonic_nanos();
            self.lsm.reporter.note_flush_end(note, built, micros, now);
        }
        Ok(logs.run())
    }

    /// Writes the table of one family, and the edit that brings it.
    fn write_table(&mut self, p: &'a Picked) -> Result<()> {
        let lsm = self.lsm;
        let number = lsm.catalog.new_file_number();
        let mems: Vec<Arc<MemTable>> = p.imm.iter().map(|i| i.mem.clone()).collect();
        let request = TableRequest {
            family: &p.family,
            settings: &p.settings,
            number,
            mems: &mems,
            snapshots: self.lsm.c.snapshots.sequences(),
            creation: TableCreation::Flush,
        };
        let mut note = FlushNote {
            family: &p.family,
            settings: &p.settings,
            job: lsm.new_job(),
            number,
            reason: p.reason,
            level0_files: p.family.superversion.load().version.num_files(0),
            entries: mems.iter().map(|m| m.len()).sum(),
            payload_bytes: mems.iter().map(|m| m.data_bytes()).sum(),
            joined_bytes: 0,
        };
        lsm.wait_until_told(&p.family);
        lsm.reporter.note_flush_begin(&note, &mems);
        self.progress.push(Progressing::begin(lsm, p));
        let built = build_table(lsm, &request)?;
        note.joined_bytes = built.joined_bytes;
        let next_log = p.imm.last().map_or(0, |i| i.next_log);
        let mut edit = VersionEdit {
            log_number: Some(next_log.max(self.give_up_below)),
            last_sequence: p.imm.last().map(|i| i.last_sequence),
            ..VersionEdit::default()
        };
        edit.full_history_ts_low = history_low_after(&p.family, &p.settings, &mems);
        edit.blob_file_additions.clone_from(&built.blobs);
        let file = built.table.as_ref().map(|t| t.file.clone());
        self.done.push((note, built));
        if let Some(mut f) = file {
            let newest = {
                let state = lsm.state.lock();
                state.alive(p.family.id)?.version.max_epoch_number()
            };
            f.temperature = p.settings.options.default_write_temperature as u8;
            f.epoch_number = newest + 1;
            edit.new_files.push(f);
        }
        self.edits.push(FamilyEdit {
            family: p.family.clone(),
            edit,
        });
        Ok(())
    }

    /// With several families, writes of one become durable by the edit while earlier writes of another are only in the
    /// log: the log must not lose them (F2).
    fn settle_logs(&mut self) -> Result<()> {
        if self.give_up_below > 0 {
            self.forget_old_logs();
        } else if self.lsm.families.load().len() > 1 {
            self.lsm.sync_old_logs().inspect_err(|e| {
                self.discard();
                self.lsm.set_error(Place::Log, e);
            })?;
            debug_assert!(
                (self.picked.iter().flat_map(|p| &p.imm))
                    .all(|sealed| self.lsm.logs.are_synced_before(sealed.next_log)),
                "F2: earlier writes of other families are durable"
            );
        }
        Ok(())
    }

    /// Adds the edits that say of the families without anything to flush that they need no log below the bound either.
    fn forget_old_logs(&mut self) {
        let is_picked = |id: u32| self.picked.iter().any(|p| p.family.id == id);
        let families = self.lsm.families.load();
        let others = families.iter().filter(|f| !is_picked(f.id));
        self.edits.extend(others.map(|family| FamilyEdit {
            family: family.clone(),
            edit: VersionEdit {
                log_number: Some(self.give_up_below),
                last_sequence: Some(self.lsm.visible()),
                ..VersionEdit::default()
            },
        }));
    }

    /// Records the tables, and installs them in place of the memtables (F1).
    fn install(&mut self) -> Result<()> {
        let (lsm, picked) = (self.lsm, self.picked);
        let edits = std::mem::take(&mut self.edits);
        let done = &mut self.done;
        let installed = lsm.log_and_apply_all(edits, |state| {
            let ended = lsm.c.env.clock.monotonic_nanos();
            for (p, (note, built)) in picked.iter().zip(done) {
                let note_bytes = built.table.as_ref().map_or(0, |t: &NewTable| t.file.size);
                if let Some(f) = state.family_mut(p.family.id) {
                    debug_assert!(
                        (f.imm.iter().zip(&p.imm)).all(|(a, b)| Arc::ptr_eq(&a.mem, &b.mem)),
                        "F1: the oldest memtables are flushed first"
                    );
                    f.imm.drain(..p.imm.len());
                    f.flush.note_installed();
                    f.family.pacer.flush.end(ended);
                    f.pace.flushed(note.payload_bytes, note_bytes);
                    note.level0_files = f.version.num_files(0);
                }
            }
        });
        if matches!(&installed, Err(e) if !e.may_be_written) {
            // Each further try would leave one more.
            self.discard();
        }
        Ok(installed?)
    }

    /// Puts blocks of the new tables into the block cache, if the options say so.
    fn warm_cache(&self) {
        for (note, built) in &self.done {
            let files = built.table.as_ref().map(|t| &t.file);
            let files = files.map_or(&[][..], std::slice::from_ref);
            let until = (self.lsm.switches.closing(), &**self.lsm.reporter.log());
            WrittenBy::Flush.warm_cache(note.family, note.settings, files, until);
        }
    }

    /// Removes tables and blob files that no edit names.
    fn discard(&self) {
        for (note, built) in &self.done {
            if let Some(NewTable { file, .. }) = &built.table {
                let path = note.family.table_path(file.number, file.path_id);
                self.lsm.c.purge.discard(file.number, &path);
            }
            for blob in &built.blobs {
                self.lsm.discard_blob_file(note.family, blob.number);
            }
        }
    }
}

/// The flush of a family that runs, for the pace of its writers; over when it goes, if not before.
struct Progressing<'a> {
    lsm: &'a Lsm,
    family: Arc<Family>,
}

impl<'a> Progressing<'a> {
    fn begin(lsm: &'a Lsm, p: &Picked) -> Self {
        let entries = p.imm.iter().map(|i| i.mem.len()).sum();
        if let Some(f) = lsm.state.lock().family_mut(p.family.id) {
            f.flush.take(p.imm.len());
        }
        let now = lsm.c.env.clock.monotonic_nanos();
        p.family.pacer.flush.begin(entries, now);
        Self {
            lsm,
            family: p.family.clone(),
        }
    }
}

impl Drop for Progressing<'_> {
    fn drop(&mut self) {
        let mut state = self.lsm.state.lock();
        if let Some(f) = state.family_mut(self.family.id)
            && f.flush.give_back()
        {
            let now = self.lsm.c.env.clock.monotonic_nanos();
            self.family.pacer.flush.end(now);
        }
    }
}

impl Picked {
    /// Returns what is sealed of a family up to `newest`; `None` if that is in a table already.
    pub(super) fn up_to(state: &mut DbState, id: u32, newest: &Arc<MemTable>) -> Option<Self> {
        let f = state.family_mut(id)?;
        let at = f.imm.iter().position(|i| Arc::ptr_eq(&i.mem, newest))?;
        let mut picked = Self::all_of(f);
        picked.imm.truncate(at + 1);
        Some(picked)
    }

    /// All that is sealed of a family.
    fn all_of(f: &mut FamilyState) -> Self {
        f.flush.begin();
        Self {
            family: f.family.clone(),
            settings: f.settings.clone(),
            imm: f.imm.clone(),
            reason: f.imm.last().map_or(FlushReason::Others, |i| i.reason),
        }
    }
}

/// Syncs the directories that a flush wrote to: that of its table, and the first one if there are blob files.
fn sync_flushed(lsm: &Lsm, family: &Family, path_id: u32, has_blobs: bool) -> Result<()> {
    let paths = &family.cache.paths;
    lsm.sync_tables_dir(paths.dir(path_id))?;
    match path_id != 0 && has_blobs {
        true => lsm.sync_tables_dir(paths.dir(0)),
        false => Ok(()),
    }
}

/// Describes what became of memtables.
pub(crate) struct Built {
    /// `None` if nothing was left to write.
    pub table: Option<NewTable>,
    /// Blob files that the table refers to, all of them new.
    pub blobs: Vec<BlobFileAddition>,
    /// Sizes of its values, in adaptive mode.
    pub tally: Option<Box<SizeTally>>,
    /// [`Dropped::joined_bytes`](crate::compaction::Dropped).
    pub joined_bytes: u64,
}

/// Writes the table of a request. The file and its directory entry are durable when this returns.
pub(crate) fn build_table(lsm: &Lsm, r: &TableRequest<'_>) -> Result<Built> {
    let bytes = r.mems.iter().map(|mem| mem.data_bytes()).sum();
    let path_id = path_of_flush(lsm, r.family, r.number, bytes);
    let built = write_table(lsm, r, path_id).and_then(|built| {
        if built.table.is_some()
            && let Err(e) = sync_flushed(lsm, r.family, path_id, !built.blobs.is_empty())
        {
            for blob in &built.blobs {
                lsm.discard_blob_file(r.family, blob.number);
            }
            return Err(e);
        }
        Ok(built)
    });
    if !matches!(&built, Ok(Built { table: Some(_), .. })) {
        let path = r.family.table_path(r.number, path_id);
        lsm.c.purge.discard(r.number, &path);
    }
    built
}

fn write_table(lsm: &Lsm, r: &TableRequest<'_>, path_id: u32) -> Result<Built> {
    let c = &lsm.c;
    let (family, settings) = (r.family, r.settings);
    let path = family.table_path(r.number, path_id);
    r.mems
        .iter()
        .try_for_each(|mem| mem.check_range_tombstones())?;
    let stripped;
    let mems = if strips_timestamps(family, settings) {
        stripped = [with_smallest_timestamps(family, settings, r.mems)];
        &stripped
    } else {
        r.mems
    };
    // Newer memtables first.
    let sources = mems.iter().rev().map(|m| Source::Mem(m.iter())).collect();
    let input = MergingIter::new(family.comparator.clone(), sources);
    let expected: u64 = mems.iter().map(|m| m.len()).sum();
    let mut ranges = CompactionRangeDels::new(family.comparator.clone(), r.snapshots.clone());
    for list in mems.iter().filter_map(|m| m.range_tombstones()) {
        ranges.add(TruncatedTombstones::whole(list));
    }
    let filter = family.filters.make(&FilterContext {
        creation: r.creation,
        is_full_compaction: false,
        is_manual_compaction: false,
        start_level: 0,
        column_family_id: family.id,
    });
    if filter.as_ref().is_some_and(|f| !f.ignore_snapshots()) {
        return Err(protective_filter());
    }
    let times = match r.creation {
        // Nothing is known of the time when a log was written.
        TableCreation::Recovery => None,
        _ => lsm.times.of_table(settings),
    };
    let iter = CompactionIter::new(
        input,
        IterSettings {
            comparator: family.comparator.clone(),
            merge_operator: family.merge_operator.clone(),
            snapshots: r.snapshots.clone(),
            conflicts_from: lsm.c.snapshots.oldest_for_conflicts(),
            bottommost: false,
            below: None,
            keep_from: 0,
            times: times.clone(),
            ranges,
            history_low: match r.creation {
                // Tables of recovery stay as they were.
                TableCreation::Recovery => Vec::new(),
                _ => family.superversion.load().version.history_low.clone(),
            },
            filter: filter.map(|f| (f, 0)),
            end: None,
            blobs: family.blobs.clone(),
            version: family.superversion.load().version.clone(),
            enforce_single_deletes: c.options.enforce_single_del_contracts,
            trim: None,
            counts: false,
        },
    );
    let first_write = r.mems.iter().map(|mem| mem.first_write_seconds());
    let now = c.env.clock.now_seconds();
    let oldest = first_write.filter(|&t| t > 0).min().unwrap_or(now).min(now);
    let compression = settings.levels.compression_for(0);
    let mut options = builder_options(
        &lsm.c,
        &lsm.reporter,
        family,
        settings,
        r.number,
        compression,
        oldest,
    );
    options.counters = lsm.reporter.write_counters(r.creation);
    options.newest_key_time = now;
    match r.creation {
        // Entries of a log may be of any age, and RocksDB does not say when the table was made.
        TableCreation::Recovery => options.file_creation_time = 0,
        _ => options.oldest_key_time = oldest,
    }
    let activity = IoActivity::Flush;
    let mut sink = ValueSink::new(lsm, (family, settings), activity, 0, None)?;
    let target = TableTarget {
        path: &path,
        activity,
        io_times: None,
    };
    let mut table = TableOutput::create(lsm, &target, options)?;
    if settings.levels.blob_budget.is_some() {
        table.record_blob_refs();
    }
    let end = TableEnd {
        family,
        level: 0,
        ancester_time: oldest,
        created: now,
        times: times.as_deref(),
        checks: Recheck::of_flush(&settings.options),
        path_id,
    };
    let written = write_entries(lsm, (table, &end), iter, sink.as_deref_mut(), expected);
    match (written, sink) {
        (Ok(built), None) => Ok(built),
        (Ok(built), Some(sink)) => {
            let files = sink.into_files();
            Ok(Built {
                blobs: files.additions,
                tally: files.tally,
                ..built
            })
        }
        (Err(e), sink) => {
            if let Some(sink) = sink {
                sink.remove_all();
            }
            Err(e)
        }
    }
}

/// Hands what `iter` yields to the table, by way of the sink if there is one.
fn write_entries(
    lsm: &Lsm,
    (mut table, end): (TableOutput, &TableEnd<'_>),
    mut iter: CompactionIter,
    mut sink: Option<&mut ValueSink<'_>>,
    expected: u64,
) -> Result<Built> {
    let family = end.family;
    iter.seek_to_first()?;
    let mut written = 0u64;
    while iter.valid() {
        let (key, value) = (iter.key(), iter.value());
        written += 1;
        #[cfg(test)]
        if plant::strikes(plant::Fault::NotStored) {
            iter.next()?;
            continue;
        }
        match &mut sink {
            None => table.add(key, value)?,
            Some(sink) => {
                let (key, value) = sink.pass(key, value)?;
                table.add(key, value)?;
            }
        }
        iter.next()?;
        if written.is_multiple_of(NOTE_EVERY) {
            let read = iter.input_entries().unwrap_or(written);
            family.pacer.flush.note(read);
        }
    }
    if let Some(sink) = sink {
        sink.finish()?;
    }
    let now = lsm.c.env.clock.monotonic_nanos();
    family.pacer.flush.written(now);
    let joined_bytes = iter.dropped().joined_bytes;
    let verifies = lsm.c.options.flush_verify_memtable_count;
    if verifies {
        // Nobody knows what was read if a filter skipped entries.
        check_memtables(expected, iter.input_entries().unwrap_or(expected))?;
        iter.check(written)?;
    }
    table.settle();
    let tombstones = iter.ranges().output(&OutputBounds::default());
    if !tombstones.is_empty() {
        let superversion = family.superversion.load_full();
        let mut covered = CoveredBytes::new(family, &superversion.version, 0);
        for t in &tombstones {
            table.add_tombstone(&family.comparator, t, Some(&mut covered))?;
        }
    }
    if table.is_empty() {
        if verifies {
            check_outputs("flush", written, 0)?;
        }
        table.abandon();
        return Ok(Built {
            table: None,
            blobs: Vec::new(),
            tally: None,
            joined_bytes,
        });
    }
    let table = table.finish(lsm, end, |_| {})?;
    if verifies {
        let p = &table.properties;
        let stored = p.num_entries.saturating_sub(p.num_range_deletions);
        check_outputs("flush", written, stored)?;
    }
    Ok(Built {
        table: Some(table),
        blobs: Vec::new(),
        tally: None,
        joined_bytes,
    })
}
