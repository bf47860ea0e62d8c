//! Runs a plan: reads the inputs, writes the outputs, and swaps them in one version edit (C3).

use crate::compaction::{Below, CompactionIter, IterSettings};
use crate::core::{
    CutSides, DbState, Engine, Family, FamilySettings, FamilyState, FileBounds, gate,
};
use crate::info_log::EventValue;
use crate::iter::{LevelIter, MergingIter, Source};
use crate::picker::{CompactionPlan, OutputCutter, PickerInput, RunningCompaction, pick_leveled};
use crate::version::{NewFile, VersionEdit};
use spanlith_base::range_del::{CompactionRangeDels, OutputBounds};
use spanlith_base::{Error, ErrorKind, MAX_SEQUENCE, Result, SequenceNumber, keys};
use spanlith_env::{IoActivity, IoPriority};
use spanlith_table::{ReadParams, TableBuilder};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Bytes read at a time from each input at most, whatever `compaction_readahead_size` says: a larger
/// read gains nothing and leaves the processor's cache.
const READAHEAD_MAX: u64 = 512 << 10;

/// Entries between two looks at whether the database closes.
const CHECK_EVERY: u64 = 1024;

/// A plan that is being carried out.
pub(crate) struct CompactionJob {
    pub family: Arc<Family>,
    pub settings: Arc<FamilySettings>,
    pub plan: CompactionPlan,
    pub id: u64,
}

impl Engine {
    /// Body of a background compaction job: picks, runs, and asks for the next.
    pub(crate) fn background_compaction(self: &Arc<Self>) {
        let job = {
            let mut state = self.state.lock();
            state.compactions_queued -= 1;
            let job = self.next_job(&mut state);
            if job.is_none() {
                drop(state);
                self.changed.notify_all();
                return;
            }
            // While this one runs, another family may be next.
            self.schedule(&mut state);
            job
        };
        if let Some(job) = job {
            let result = self.run_plan(&job);
            self.end_plan(&job);
            match result {
                Ok(()) => {}
                Err(e) if e.kind() == ErrorKind::ColumnFamilyDropped => {}
                Err(_) if self.stopping() => {}
                Err(e) => self.set_error("a compaction", &e),
            }
        }
        for n in self.c.purge.run() {
            self.c.log.info(format_args!("deleted table {n:06}"));
        }
    }

    /// The next compaction of the family that has waited longest.
    fn next_job(&self, state: &mut DbState) -> Option<CompactionJob> {
        if state.manual > 0 || state.error.is_some() || state.closing {
            return None;
        }
        while let Some(id) = state.compaction_queue.pop_front() {
            let Some(f) = state.family_mut(id) else {
                continue;
            };
            f.compaction_queued = false;
            match pick_leveled(&self.picker_input(f)) {
                Some(plan) => return self.start_plan(state, id, plan),
                // Nothing can run now; what is due is looked at again after the next install.
                None => f.compaction_due = false,
            }
        }
        None
    }

    pub(crate) fn picker_input<'a>(&self, f: &'a FamilyState) -> PickerInput<'a> {
        PickerInput {
            version: &f.version,
            options: &f.settings.levels,
            running: &f.running,
            oldest_snapshot: self.c.snapshots.oldest().map(|o| o.0),
            now: self.c.env.clock.now_seconds(),
        }
    }

    /// Marks the inputs and registers the output range. Requires: the state mutex. `None` if the
    /// family was dropped.
    pub(crate) fn start_plan(
        &self,
        state: &mut DbState,
        family: u32,
        plan: CompactionPlan,
    ) -> Option<CompactionJob> {
        state.next_job += 1;
        let id = state.next_job;
        let f = state.family_mut(family)?;
        for file in plan.input_files() {
            file.being_compacted.store(true, Ordering::Relaxed);
        }
        let (smallest, largest) = plan.user_key_range(&f.family.comparator);
        f.running.push(RunningCompaction {
            id,
            output_level: plan.output_level,
            smallest,
            largest,
            input_levels: plan.inputs.iter().map(|i| i.0).collect(),
        });
        let job = CompactionJob {
            family: f.family.clone(),
            settings: f.settings.clone(),
            plan,
            id,
        };
        state.compactions_running += 1;
        Some(job)
    }

    /// Takes back what `start_plan` did, and looks for more work.
    pub(crate) fn end_plan(self: &Arc<Self>, job: &CompactionJob) {
        let mut state = self.state.lock();
        for file in job.plan.input_files() {
            file.being_compacted.store(false, Ordering::Relaxed);
        }
        state.compactions_running -= 1;
        if let Some(f) = state.family_mut(job.family.id) {
            f.running.retain(|r| r.id != job.id);
        }
        // Scores exclude what is being compacted: they change now.
        self.install_superversion(&mut state, job.family.id);
        self.schedule(&mut state);
        drop(state);
        self.changed.notify_all();
    }

    /// Carries a plan out. On error nothing is installed and the outputs are removed.
    pub(crate) fn run_plan(self: &Arc<Self>, job: &CompactionJob) -> Result<()> {
        let (family, plan) = (&job.family, &job.plan);
        let mut edit = VersionEdit::default();
        for (level, files) in &plan.inputs {
            edit.deleted_files
                .extend(files.iter().map(|f| (*level as u32, f.number)));
        }
        if plan.is_trivial_move {
            for (_, files) in &plan.inputs {
                for f in files {
                    edit.new_files.push(f.to_new_file(plan.output_level as u32));
                }
            }
            self.log_and_apply(family, edit, |_| {})?;
            let fields = [
                ("files", EventValue::U64(plan.input_files().count() as u64)),
                ("total_files_size", EventValue::U64(plan.input_bytes())),
                (
                    "destination_level",
                    EventValue::U64(plan.output_level as u64),
                ),
            ];
            self.c.log.event(None, "trivial_move", &fields);
            return Ok(());
        }
        let started = self.c.env.clock.monotonic_nanos();
        let mut outputs = Outputs::new(self, job);
        let result = self.rewrite(job, &mut outputs).and_then(|()| {
            if outputs.done.is_empty() {
                Ok(())
            } else {
                self.c
                    .env
                    .fs
                    .sync_dir(family.cache.paths.dir(outputs.path_id))
            }
        });
        if let Err(e) = result {
            outputs.remove_all();
            return Err(e);
        }
        // From here on the outputs stay: an edit that failed half way may still be read by the next
        // open. If it is not, that open finds them explained and removes them.
        edit.new_files.clone_from(&outputs.done);
        self.log_and_apply(family, edit, |_| {})?;
        let micros = (self.c.env.clock.monotonic_nanos() - started) / 1000;
        let fields = [
            ("compaction_reason", EventValue::Str(plan.reason.name())),
            ("output_level", EventValue::U64(plan.output_level as u64)),
            (
                "num_input_files",
                EventValue::U64(plan.input_files().count() as u64),
            ),
            (
                "num_output_files",
                EventValue::U64(outputs.done.len() as u64),
            ),
            ("input_data_size", EventValue::U64(plan.input_bytes())),
            (
                "total_output_size",
                EventValue::U64(outputs.done.iter().map(|f| f.size).sum()),
            ),
            ("compaction_time_micros", EventValue::U64(micros)),
        ];
        self.c.log.event(None, "compaction_finished", &fields);
        Ok(())
    }

    fn rewrite(self: &Arc<Self>, job: &CompactionJob, outputs: &mut Outputs<'_>) -> Result<()> {
        let (family, plan) = (&job.family, &job.plan);
        let cache = &family.cache;
        let params = ReadParams {
            fill_cache: false,
            verify_checksums: true,
            cache_only: false,
            readahead: self.compaction_readahead(),
            bypass_cache: true,
            prefetch: true,
            rate_priority: Some(self.compaction_priority()),
        };
        let snapshots = self.c.snapshots.sequences();
        let mut ranges = CompactionRangeDels::new(family.comparator.clone(), snapshots.clone());
        if plan.bottommost {
            outputs.drop_up_to = Some(snapshots.first().copied().unwrap_or(MAX_SEQUENCE));
        }
        let mut sources = Vec::new();
        let mut expected = 0;
        for (level, files) in &plan.inputs {
            for f in files {
                let reader = cache.reader(f)?;
                let p = reader.properties();
                // Range tombstones are counted, but do not stand among the entries.
                expected += p.num_entries.saturating_sub(p.num_range_deletions);
                if let Some(tombstones) = f.truncated_tombstones() {
                    ranges.add(tombstones);
                }
            }
            if *level == 0 {
                // Newest first, as the version lists them.
                for f in files {
                    let reader = cache.reader(f)?;
                    sources.push(Source::Table(Box::new(reader.iter(params))));
                }
            } else if !files.is_empty() {
                sources.push(Source::Level(Box::new(LevelIter::over(
                    files.clone(),
                    family.comparator.clone(),
                    cache.clone(),
                    params,
                ))));
            }
        }
        let input = MergingIter::new(family.comparator.clone(), sources);
        let version = family.superversion.load().version.clone();
        let settings = IterSettings {
            comparator: family.comparator.clone(),
            merge_operator: family.merge_operator.clone(),
            snapshots,
            bottommost: plan.bottommost,
            below: Some(Below::new(version, plan.output_level)),
            ranges,
        };
        let mut iter = CompactionIter::new(input, settings);
        iter.seek_to_first()?;
        let mut n = 0u64;
        while iter.valid() {
            outputs.add(iter.key(), iter.value(), iter.ranges())?;
            iter.next()?;
            n += 1;
            if n.is_multiple_of(CHECK_EVERY) && self.stopping() {
                return Err(Error::shutdown("compaction abandoned"));
            }
        }
        outputs.finish(iter.ranges())?;
        if iter.input_entries() != expected && self.c.options.compaction_verify_record_count {
            return Err(
                Error::corruption("Compaction number of input keys does not match")
                    .with("expected", expected)
                    .with("read", iter.input_entries()),
            );
        }
        Ok(())
    }

    /// Bytes read at a time from each input of a compaction; 0 for one block after the other, growing.
    fn compaction_readahead(&self) -> usize {
        self.c.options.compaction_readahead_size.min(READAHEAD_MAX) as usize
    }

    /// Priority of a compaction's reads and writes with the rate limiter.
    fn compaction_priority(&self) -> IoPriority {
        if self.is_held_up() {
            IoPriority::User
        } else {
            IoPriority::Low
        }
    }

    /// Whether writers are delayed or stopped: then background work is urgent.
    pub(crate) fn is_held_up(&self) -> bool {
        self.write_gate.load(Ordering::Relaxed) & (gate::DELAY | gate::STOP) != 0
    }

    /// Whether close began.
    #[inline]
    pub(crate) fn stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }
}

/// The tables a compaction writes, one after the other.
struct Outputs<'a> {
    engine: &'a Engine,
    job: &'a CompactionJob,
    cutter: OutputCutter,
    open: Option<(TableBuilder, FileBounds, u64)>,
    done: Vec<NewFile>,
    created: Vec<u64>,
    ancester_time: u64,
    epoch: u64,
    /// User key at which the open output begins to be responsible for range tombstones; `None` for
    /// the first.
    lower: Option<Vec<u8>>,
    /// The output before ends with a newer version of that user key.
    shares_lower: bool,
    /// Range tombstones up to this number hide nothing that is left.
    drop_up_to: Option<SequenceNumber>,
    /// Directory of the outputs.
    path_id: u32,
}

impl<'a> Outputs<'a> {
    fn new(engine: &'a Engine, job: &'a CompactionJob) -> Self {
        let plan = &job.plan;
        let files = || plan.inputs.iter().flat_map(|i| &i.1);
        let ancester_time = files()
            .map(|f| f.oldest_ancester_time)
            .filter(|&t| t > 0)
            .min()
            .unwrap_or_else(|| engine.c.env.clock.now_seconds());
        let epoch = files().map(|f| f.epoch_number).min().unwrap_or(0);
        Self {
            engine,
            job,
            cutter: OutputCutter::new(plan, job.family.comparator.clone()),
            open: None,
            done: Vec::new(),
            created: Vec::new(),
            ancester_time,
            epoch,
            lower: None,
            shares_lower: false,
            drop_up_to: None,
            path_id: job.settings.levels.output_path(plan.output_level),
        }
    }

    #[inline]
    fn add(&mut self, key: &[u8], value: &[u8], ranges: &CompactionRangeDels) -> Result<()> {
        let size = self.open.as_ref().map_or(0, |o| o.0.file_size());
        if self.cutter.should_cut_before(key, size) && self.open.is_some() {
            self.finish_file(ranges, Some(keys::user_key(key)))?;
        }
        if self.open.is_none() {
            self.start_file()?;
        }
        let (builder, bounds, _) = self.open.as_mut().expect("opened above");
        builder.add(key, value)?;
        bounds.add(key);
        Ok(())
    }

    fn start_file(&mut self) -> Result<()> {
        let number = self.engine.new_file_number();
        let path = self.job.family.table_path(number, self.path_id);
        let engine = self.engine;
        let file = engine
            .c
            .io
            .create_table(&path, IoActivity::Compaction, engine.is_held_up())?;
        self.created.push(number);
        let mut options = self.engine.builder_options(
            &self.job.family,
            &self.job.settings,
            number,
            self.job.plan.compression,
            self.ancester_time,
        );
        options.filter_level = self.job.plan.output_level as i32;
        self.open = Some((
            TableBuilder::new(options, file),
            FileBounds::default(),
            number,
        ));
        Ok(())
    }

    /// Ends the last output; makes one for range tombstones if there is none but for them.
    fn finish(&mut self, ranges: &CompactionRangeDels) -> Result<()> {
        if self.open.is_none() && !ranges.is_empty() {
            let all = OutputBounds {
                drop_up_to: self.drop_up_to,
                ..OutputBounds::default()
            };
            if !ranges.output(&all).is_empty() {
                self.start_file()?;
            }
        }
        self.finish_file(ranges, None)
    }

    /// Ends the open output with the range tombstones up to where the next begins, if one does.
    fn finish_file(&mut self, ranges: &CompactionRangeDels, next: Option<&[u8]>) -> Result<()> {
        let Some((mut builder, mut bounds, number)) = self.open.take() else {
            return Ok(());
        };
        if !ranges.is_empty() {
            let comparator = &self.job.family.comparator;
            let sides = CutSides {
                shares_lower: self.shares_lower,
                shares_upper: next
                    .is_some_and(|next| comparator.equal(next, keys::user_key(&bounds.largest))),
            };
            let part = OutputBounds {
                lower: self.lower.as_deref(),
                upper: next,
                shares_upper: sides.shares_upper,
                drop_up_to: self.drop_up_to,
            };
            for t in ranges.output(&part) {
                builder.add_range_tombstone(&t.smallest(), &t.end)?;
                bounds.add_tombstone(comparator, &t, &sides);
            }
            self.lower = next.map(<[u8]>::to_vec);
            self.shares_lower = sides.shares_upper;
        }
        let summary = builder.finish()?;
        let now = self.engine.c.env.clock.now_seconds();
        let level = self.job.plan.output_level as u32;
        let mut file = bounds.into_new_file(level, number, &summary, self.ancester_time, now);
        file.epoch_number = self.epoch;
        file.path_id = self.path_id;
        self.done.push(file);
        Ok(())
    }

    /// Deletes everything written; nothing refers to it.
    fn remove_all(mut self) {
        if let Some((builder, ..)) = self.open.take() {
            builder.abandon();
        }
        for n in &self.created {
            let _ = self
                .engine
                .c
                .env
                .fs
                .delete(&self.job.family.table_path(*n, self.path_id));
        }
    }
}
