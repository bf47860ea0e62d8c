//! Runs a plan: reads the inputs, writes the outputs, and swaps them in one version edit (C3).

use super::balance::{check_inputs, check_outputs};
use super::blob_gc::BlobGcChoice;
use super::notes::PartDone;
use super::own_readers::described_anew;
use super::parts::at_once;
use super::placed::Placed;
use super::split::SplitLimits;
use super::trim::Trim;
use super::units::add_tombstones;
use super::unread::Unread;
use super::work::{Rewritten, Work};
use crate::compaction::{Below, CompactionIter, IterSettings};
use crate::core::{CompactionProgress, Family, FamilySettings, JobTimes, Lsm, Reporter, WrittenBy};
use crate::filter::{FilterContext, TableCreation, protective_filter};
use crate::iter::{LevelIter, MergingIter, Source};
use crate::listener::CompactionInfo;
use crate::options::Temperature;
use crate::picker::{CompactionPlan, CompactionReason};
use crate::version::edit::{BlobFileAddition, BlobFileGarbage};
use crate::version::{NewFile, VersionEdit};
use spanlith_base::perf;
use spanlith_base::range_del::CompactionRangeDels;
use spanlith_base::{Error, ErrorKind, MAX_SEQUENCE, Result, SubCode, callbacks};
use spanlith_env::IoPriority;
use spanlith_pace::Change;
use spanlith_table::{ReadActivity, ReadParams};
use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

/// Bytes read at a time from each input at most, whatever `compaction_readahead_size` says: a larger
/// read gains nothing and leaves the processor's cache.
const READAHEAD_MAX: u64 = 512 << 10;

/// Entries between two looks at whether the database closes.
const CHECK_EVERY: u64 = 1024;
/// The same if user code sees every entry, which may take its time.
const CHECK_EVERY_FILTERED: u64 = 16;
/// Bytes of keys and values between two such looks at most.
const CHECK_BYTES: usize = 256 << 10;

/// A plan that is being carried out.
pub(crate) struct CompactionJob {
    // Goes before the family, which says where files are deleted that nobody holds any more.
    pub plan: CompactionPlan,
    pub family: Arc<Family>,
    pub settings: Arc<FamilySettings>,
    pub id: u64,
    /// Temperature of the outputs, if a caller said one.
    pub output_temperature: Temperature,
    /// Ranges the job may be split into; 0 means as the database says.
    pub max_subcompactions: u32,
    /// Says what becomes of values in old blob files, if a caller said so.
    pub blob_gc: BlobGcChoice,
    /// Lets more urgent work go first; not what a caller waits for.
    pub gives_way: bool,
    /// It merges within level 0 beside a compaction out of it, in a slot of its own.
    pub is_beside: bool,
    /// Set by a caller who does not want it any more.
    pub canceled: Option<Arc<AtomicBool>>,
    /// Versions that go, whoever sees them.
    pub trim: Option<Trim>,
    /// How far it has come.
    pub progress: Arc<CompactionProgress>,
    /// Where a caller finds what it did.
    pub told: Option<Arc<OnceLock<CompactionInfo>>>,
}

impl CompactionJob {
    /// Returns whether somebody hears in detail what it does.
    pub(super) fn is_heard(&self, reporter: &Reporter) -> bool {
        !reporter.listeners().is_empty() || self.told.is_some()
    }

    /// Returns whether somebody counts what it drops.
    pub(super) fn is_counted(&self, reporter: &Reporter) -> bool {
        reporter.statistics().is_some() || self.is_heard(reporter)
    }

    /// The temperature that is recorded for its outputs to a level.
    pub(crate) fn output_temperature(&self, level: usize) -> u8 {
        let o = &self.settings.options;
        let of_level = match level + 1 == self.settings.levels.num_levels as usize {
            true => o.last_level_temperature,
            false => Temperature::Unknown,
        };
        let said = [self.output_temperature, of_level];
        let said = said.into_iter().find(|&t| t != Temperature::Unknown);
        said.unwrap_or(o.default_write_temperature) as u8
    }
}

/// The outcome of a manual compaction that was called off.
pub(crate) fn manual_paused() -> Error {
    Error::new(ErrorKind::Incomplete, "").with_subcode(SubCode::ManualCompactionPaused)
}

/// The outcome of a compaction that went the way of all others.
pub(super) fn compaction_aborted() -> Error {
    Error::new(ErrorKind::Incomplete, "").with_subcode(SubCode::CompactionAborted)
}

/// Returns whether an error is [`compaction_aborted`].
pub(super) fn is_aborted(e: &Error) -> bool {
    e.subcode() == Some(SubCode::CompactionAborted)
}

/// A job on its way from inputs to outputs.
pub(super) struct CompactionRun<'a> {
    lsm: &'a Lsm,
    job: &'a CompactionJob,
}

impl<'a> CompactionRun<'a> {
    /// Of a job whose inputs are claimed.
    pub(super) fn new(lsm: &'a Lsm, job: &'a CompactionJob) -> Self {
        Self { lsm, job }
    }

    /// Carries a plan out and returns the numbers of the files in the output level. On error nothing
    /// is installed and the outputs are removed.
    pub(super) fn run(&self) -> Result<Vec<u64>> {
        let _activity = ReadActivity::Compaction.enter();
        let _inside = callbacks::enter(callbacks::Place::Job);
        // A manual compaction runs on the thread of its caller, in RocksDB on another.
        let _paused = perf::pause();
        let plan = &self.job.plan;
        self.lsm.reporter.count_picked(self.job);
        let mut edit = VersionEdit::default();
        for (level, files) in &plan.inputs {
            edit.deleted_files
                .extend(files.iter().map(|f| (*level as u32, f.number)));
        }
        edit.compact_cursors.extend(plan.next_cursor.clone());
        if plan.only_deletes {
            self.delete_inputs(edit)
        } else if plan.is_trivial_move {
            self.move_inputs(edit)
        } else {
            self.merge_inputs(edit)
        }
    }

    /// Drops the inputs.
    fn delete_inputs(&self, edit: VersionEdit) -> Result<Vec<u64>> {
        let (lsm, job) = (self.lsm, self.job);
        lsm.reporter.note_move_begin(job);
        let done = lsm.log_and_apply(&job.family, edit, |_| {});
        let done = done.map_err(Error::from);
        lsm.reporter.note_deletion_end(job, done.clone());
        done?;
        Ok(Vec::new())
    }

    /// Lists the inputs in the output level.
    fn move_inputs(&self, mut edit: VersionEdit) -> Result<Vec<u64>> {
        let (lsm, job, plan) = (self.lsm, self.job, &self.job.plan);
        for f in plan.input_files() {
            edit.new_files.push(f.to_new_file(plan.output_level as u32));
        }
        lsm.reporter.note_move_begin(job);
        let moved = edit.new_files.clone();
        let id = job.family.id;
        let done = lsm.log_and_apply(&job.family, edit, |s| s.changes(id, Change::Compaction));
        let done = done.map_err(Error::from);
        lsm.reporter.note_move_end(job, &moved, done.clone());
        done?;
        Ok(plan.input_files().map(|f| f.number).collect())
    }

    /// Writes the outputs, and swaps them for the inputs.
    fn merge_inputs(&self, edit: VersionEdit) -> Result<Vec<u64>> {
        let (lsm, job) = (self.lsm, self.job);
        let (clock, snapshots) = (&lsm.c.env.clock, &lsm.c.snapshots);
        let oldest = snapshots.oldest();
        let (cache, log) = (&job.family.cache, lsm.reporter.log());
        let times = lsm.times.of_inputs(
            &job.settings,
            cache,
            &job.plan,
            oldest.unwrap_or(MAX_SEQUENCE),
            log,
        );
        lsm.reporter
            .note_compaction_begin(job, times.as_ref().ok(), oldest);
        let started = clock.monotonic_nanos();
        let mut done = match times {
            Ok(times) => self.rewrite(&times),
            Err(e) => Rewritten::failed(e),
        };
        let mut nanos = clock.monotonic_nanos() - started;
        if done.parts == 1 {
            // Where there are several, the others went on.
            nanos = nanos.saturating_sub(done.work.paused.nanos);
        }
        let micros = nanos / 1000;
        let files: Vec<NewFile> = done.tables.iter().map(|t| t.file.clone()).collect();
        if done.result.is_ok() {
            done.result = self.install(edit, &done, &files);
        }
        if done.result.is_err() {
            lsm.reporter.note_compaction_failed(job, &done, micros);
            return done.result.map(|()| Vec::new());
        }
        lsm.reporter.note_compaction_end(job, &done, micros);
        lsm.c.resources.check_space()?;
        let until = (lsm.switches.closing(), &**lsm.reporter.log());
        WrittenBy::Compaction.warm_cache(&job.family, &job.settings, &files, until);
        Ok(files.iter().map(|f| f.number).collect())
    }

    /// Records and installs what was written, in the edit that drops the inputs (C3).
    fn install(&self, mut edit: VersionEdit, done: &Rewritten, files: &[NewFile]) -> Result<()> {
        let (family, plan) = (&self.job.family, &self.job.plan);
        // Once anything was written the outputs stay: an edit that failed half way may still be read by the
        // next open. If it is not, that open finds them explained and removes them.
        edit.new_files.extend_from_slice(files);
        edit.blob_file_garbages.clone_from(&done.garbage);
        edit.blob_file_additions.clone_from(&done.blobs);
        debug_assert!(
            (plan.input_files()).all(|f| edit.deleted_files.iter().any(|d| d.1 == f.number)),
            "C3: inputs go in the edit that brings the outputs"
        );
        let read = plan.input_bytes();
        let applied = self.lsm.log_and_apply(family, edit, |s| {
            s.compacted(family.id, read);
            if plan.proximal.is_some() {
                let tables = files.iter().map(|f| f.number).collect();
                s.placed(family.id, &self.job.settings, tables);
            }
        });
        if matches!(&applied, Err(e) if !e.may_be_written) {
            for file in files {
                let path = family.table_path(file.number, file.path_id);
                self.lsm.c.purge.discard(file.number, &path);
            }
            for blob in &done.blobs {
                self.lsm.discard_blob_file(family, blob.number);
            }
        }
        Ok(applied?)
    }

    /// Entries that the properties of the inputs count.
    fn entries_expected(&self) -> Result<u64> {
        let mut expected = 0;
        for f in self.job.plan.input_files() {
            let reader = self.job.family.cache.reader(f)?;
            let p = reader.properties();
            // Range tombstones are counted, but do not stand among the entries.
            expected += p.num_entries.saturating_sub(p.num_range_deletions);
        }
        Ok(expected)
    }

    /// Merges the inputs into outputs, in several ranges at once if the job is split.
    fn rewrite(&self, times: &JobTimes) -> Rewritten {
        let job = self.job;
        let limits = self.split_limits();
        let known = self
            .entries_expected()
            .and_then(|n| Ok((n, job.split_keys(limits)?)));
        let (expected, keys) = match known {
            Ok(known) => known,
            Err(e) => return Rewritten::failed(e),
        };
        let oldest = self.lsm.c.snapshots.sequences().first().copied();
        let unread = match Unread::of(&job.plan, &job.family, oldest.unwrap_or(MAX_SEQUENCE)) {
            Ok(unread) => unread,
            Err(e) => return Rewritten::failed(e),
        };
        job.progress.expect(expected - unread.entries());
        let start = |i: usize| i.checked_sub(1).and_then(|i| keys.get(i)).map(|k| &k[..]);
        let mut ranges: Vec<_> = (0..=keys.len())
            .map(|i| {
                let (start, end) = (start(i), keys.get(i).map(|k| &k[..]));
                Range {
                    start,
                    end,
                    outputs: Placed::new(self.lsm, job, times, start, end),
                    garbage: Vec::new(),
                    blobs: Vec::new(),
                    work: Work::default(),
                    part: i as u64,
                    times: times.clone(),
                }
            })
            .collect();
        let results: Vec<Result<()>> = if ranges.len() == 1 || self.lsm.c.env.executor.is_manual() {
            let all = ranges.iter_mut();
            all.map(|r| self.run_part(&unread, r)).collect()
        } else {
            at_once(&mut ranges, |r| self.run_part(&unread, r))
        };
        let mut failed = results.into_iter().find_map(Result::err);
        let mut work = Work::default();
        ranges.iter().for_each(|r| work.add(&r.work));
        unread.count_in(&mut work);
        if failed.is_none() && self.lsm.c.options.compaction_verify_record_count {
            let stored = ranges.iter().map(|r| r.outputs.stored()).sum();
            // Nobody knows what was read if a filter skipped entries.
            let inputs = (work.entries_in).map_or(Ok(()), |read| check_inputs(expected, read));
            let out = work.entries_out;
            let checked = inputs.and_then(|()| check_outputs("compaction", out, stored));
            failed = checked.err();
        }
        if failed.is_none() {
            let files = ranges.iter().flat_map(|r| r.outputs.files());
            let mut ids: BTreeSet<u32> = files.map(|f| f.path_id).collect();
            if ranges.iter().any(|r| !r.blobs.is_empty()) {
                // Blob files are in the first directory.
                ids.insert(0);
            }
            let paths = &job.family.cache.paths;
            let mut synced = ids.iter().map(|id| self.lsm.c.dirs.sync(paths.dir(*id)));
            failed = synced.find_map(Result::err);
        }
        let mut done = Rewritten {
            result: Ok(()),
            tables: Vec::new(),
            blobs: Vec::new(),
            garbage: Vec::new(),
            expected,
            work,
            entries_above: ranges.iter().map(|r| r.outputs.entries_above()).sum(),
            parts: ranges.len() as u64,
        };
        if let Some(e) = failed {
            for r in ranges {
                for blob in &r.blobs {
                    self.lsm.discard_blob_file(&job.family, blob.number);
                }
                r.outputs.remove_all();
            }
            done.result = Err(e);
            return done;
        }
        done.garbage = sum_garbage(ranges.iter().flat_map(|r| r.garbage.iter().copied()));
        done.blobs = ranges.iter_mut().flat_map(|r| r.blobs.drain(..)).collect();
        let tables = ranges.into_iter().flat_map(|r| r.outputs.into_tables());
        done.tables = tables.collect();
        done
    }

    /// Works on one range, and tells listeners; see [`Self::rewrite_range`].
    fn run_part(&self, unread: &Unread, range: &mut Range<'_>) -> Result<()> {
        let job = self.job;
        let _activity = ReadActivity::Compaction.enter();
        self.lsm.reporter.note_part_begin(job, range.part);
        let clock = &self.lsm.c.env.clock;
        let times_cpu = self
            .lsm
            .reporter
            .statistics()
            .is_some_and(|s| s.wants_times());
        let times_cpu = times_cpu || job.is_heard(&self.lsm.reporter);
        let cpu_began = times_cpu.then(|| clock.thread_cpu_nanos());
        let started = clock.monotonic_nanos();
        let result = self.rewrite_range(unread, range);
        range.work.entries_out = range.outputs.entries();
        range.work.dropped_ranges = range.outputs.dropped_ranges();
        range.work.io = range.outputs.io_nanos();
        let paused = range.work.paused;
        if let Some(began) = cpu_began {
            let cpu = clock.thread_cpu_nanos().saturating_sub(began);
            range.work.cpu_micros = cpu.saturating_sub(paused.cpu_nanos) / 1000;
        }
        let files: Vec<NewFile> = range.outputs.files().cloned().collect();
        let done = PartDone {
            part: range.part,
            result: result.clone(),
            files: &files,
            blobs: &range.blobs,
            work: &range.work,
            elapsed_micros: (clock.monotonic_nanos() - started).saturating_sub(paused.nanos) / 1000,
        };
        self.lsm.reporter.note_part_end(job, &done);
        result
    }

    /// Works on one range, and notes what was read, however it ends.
    fn rewrite_range(&self, unread: &Unread, range: &mut Range<'_>) -> Result<()> {
        let job = self.job;
        let (family, plan) = (&job.family, &job.plan);
        let input = MergingIter::new(family.comparator.clone(), self.sources(unread)?);
        let snapshots = self.lsm.c.snapshots.sequences();
        let mut ranges = CompactionRangeDels::new(family.comparator.clone(), snapshots.clone());
        add_tombstones(&mut ranges, plan, &family.comparator, job.trim.as_ref());
        let history_low = &family.superversion.load().version.history_low.clone();
        if !history_low.is_empty() {
            ranges.forget_history_below(history_low.clone());
        }
        let oldest = snapshots.first().copied().unwrap_or(MAX_SEQUENCE);
        let version = family.superversion.load().version.clone();
        let times = range.times.times.clone();
        range
            .outputs
            .begin(oldest, &ranges, &version, times.as_ref())?;
        let start_level = plan.inputs.first().map_or(0, |i| i.0);
        let filter = family.filters.make(&FilterContext {
            creation: TableCreation::Compaction,
            is_full_compaction: plan.is_full,
            is_manual_compaction: plan.reason.is_manual(),
            start_level,
            column_family_id: family.id,
        });
        if filter.as_ref().is_some_and(|f| !f.ignore_snapshots()) {
            return Err(protective_filter());
        }
        let settings = IterSettings {
            comparator: family.comparator.clone(),
            merge_operator: family.merge_operator.clone(),
            snapshots,
            conflicts_from: self.lsm.c.snapshots.oldest_for_conflicts(),
            bottommost: plan.bottommost,
            below: Some(Below::new(
                version.clone(),
                plan.output_level,
                plan.is_leveled,
            )),
            keep_from: range.times.keep_from,
            times: None,
            ranges,
            history_low: history_low.clone(),
            blobs: family.blobs.clone(),
            version,
            filter: filter.map(|f| (f, start_level)),
            end: range.end.map(<[u8]>::to_vec),
            enforce_single_deletes: self.lsm.c.options.enforce_single_del_contracts,
            trim: job.trim.clone(),
            counts: job.is_heard(&self.lsm.reporter),
        };
        let mut iter = CompactionIter::new(input, settings);
        let result = self.write_range(range, &mut iter);
        range.work.entries_in = iter.input_entries();
        range.work.dropped = iter.dropped();
        range.work.counts = iter.counts();
        range.garbage = iter.garbage();
        result?;
        if let Some(files) = range.outputs.take_blobs() {
            for moved in &files.relocated {
                range.work.counts.blobs += moved.count;
                range.work.counts.blob_bytes += moved.bytes;
                range.work.relocated += moved.bytes;
            }
            range.garbage.extend(files.relocated);
            range.blobs = files.additions;
        }
        Ok(())
    }

    /// Hands what an iterator yields from the start of a range on to its outputs.
    fn write_range(&self, range: &mut Range<'_>, iter: &mut CompactionIter) -> Result<()> {
        let outputs = &mut range.outputs;
        match range.start {
            None => iter.seek_to_first()?,
            Some(key) => iter.seek(key)?,
        }
        let every = match self.job.family.filters.is_set() {
            true => CHECK_EVERY_FILTERED,
            false => CHECK_EVERY,
        };
        let (mut n, mut read) = (0u64, 0u64);
        let mut bytes = 0usize;
        while iter.valid() {
            let (key, value) = (iter.key(), iter.value());
            bytes += key.len() + value.len();
            outputs.add(key, value, iter.ranges())?;
            iter.next()?;
            n += 1;
            if n.is_multiple_of(every) || bytes >= CHECK_BYTES {
                bytes = 0;
                self.check_on()?;
                if range.part == 0 {
                    // The others have threads of their own beside those of jobs.
                    self.job.give_way(self.lsm, &mut range.work.paused);
                }
                let now = iter.input_entries().unwrap_or(n);
                self.job.progress.add(now.saturating_sub(read));
                read = now;
            }
        }
        outputs.finish(iter.ranges())?;
        if self.lsm.c.options.compaction_verify_record_count {
            iter.check(outputs.entries())?;
        }
        Ok(())
    }

    /// The inputs of a job that are read as streams, newer ones first.
    fn sources(&self, unread: &Unread) -> Result<Vec<Source>> {
        let job = self.job;
        let family = &job.family;
        let own = job.own_readers(&self.lsm.c);
        let cache = own.as_ref().unwrap_or(&family.cache);
        let params = ReadParams {
            fill_cache: false,
            verify_checksums: true,
            readahead: self.compaction_readahead(),
            bypass_cache: true,
            prefetch: true,
            rate_priority: Some(self.compaction_priority()),
            is_counted: self.lsm.reporter.statistics().is_some(),
            activity: ReadActivity::Compaction,
            ..ReadParams::default()
        };
        let mut sources = Vec::new();
        for (level, files) in &job.plan.inputs {
            let files: Vec<_> = files.iter().filter(|f| !unread.holds(f)).cloned().collect();
            let files = match &own {
                Some(_) => described_anew(&files),
                None => files,
            };
            if *level == 0 {
                // Newest first, as the version lists them.
                for f in &files {
                    let reader = cache.reader(f)?;
                    sources.push(Source::Table(Box::new(reader.iter(params))));
                }
            } else if !files.is_empty() {
                sources.push(Source::Level(Box::new(LevelIter::over(
                    files,
                    family.comparator.clone(),
                    cache.clone(),
                    params,
                ))));
            }
        }
        Ok(sources)
    }

    fn split_limits(&self) -> SplitLimits {
        let running = self.lsm.state.lock().jobs.compactions_in_slots();
        SplitLimits {
            subcompactions: self.lsm.options().max_subcompactions,
            free_jobs: self.lsm.max_compactions().saturating_sub(running) as u64,
        }
    }

    /// Returns whether a job is to be given up: the database closes, or a caller does not want it any more.
    fn check_on(&self) -> Result<()> {
        let job = self.job;
        if self.lsm.stopping() {
            return Err(Error::shutdown("compaction abandoned"));
        }
        if self.lsm.switches.all_are_off() {
            return Err(compaction_aborted());
        }
        if job.plan.reason == CompactionReason::ManualCompaction
            && self.lsm.switches.manual_is_off(job.canceled.as_deref())
        {
            return Err(manual_paused());
        }
        Ok(())
    }

    /// Bytes read at a time from each input of a compaction; 0 for one block after the other, growing.
    fn compaction_readahead(&self) -> usize {
        self.lsm
            .options()
            .compaction_readahead_size
            .min(READAHEAD_MAX) as usize
    }

    /// Priority of a compaction's reads and writes with the rate limiter.
    fn compaction_priority(&self) -> IoPriority {
        if self.lsm.is_held_up() {
            IoPriority::User
        } else {
            IoPriority::Low
        }
    }
}

/// The garbage of all parts of a job, one entry for each blob file.
fn sum_garbage(parts: impl Iterator<Item = BlobFileGarbage>) -> Vec<BlobFileGarbage> {
    let mut sums: Vec<BlobFileGarbage> = Vec::new();
    for part in parts {
        match sums.iter_mut().find(|s| s.number == part.number) {
            Some(sum) => {
                sum.count += part.count;
                sum.bytes += part.bytes;
            }
            None => sums.push(part),
        }
    }
    sums
}

/// One range of user keys of a job.
struct Range<'a> {
    start: Option<&'a [u8]>,
    /// Exclusive.
    end: Option<&'a [u8]>,
    outputs: Placed<'a>,
    /// Blobs nobody refers to any more.
    garbage: Vec<BlobFileGarbage>,
    /// Blob files written.
    blobs: Vec<BlobFileAddition>,
    work: Work,
    /// Its place among the ranges of the job, from 0.
    part: u64,
    times: JobTimes,
}
