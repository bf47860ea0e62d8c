//! Runs a plan: reads the inputs, writes the outputs, and swaps them in one version edit (C3).

use crate::compaction::{Below, CompactionIter, IterSettings};
use crate::core::{Engine, FileBounds};
use crate::info_log::EventValue;
use crate::iter::{LevelIter, MergingIter, Source};
use crate::picker::{CompactionPlan, OutputCutter, PickerInput, RunningCompaction, pick_leveled};
use crate::version::{NewFile, VersionEdit, filenames};
use spanlith_base::{Error, Result};
use spanlith_env::IoActivity;
use spanlith_table::{ReadParams, TableBuilder};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Bytes read at a time from each input.
const READAHEAD: usize = 512 << 10;

/// Entries between two looks at whether the database closes.
const CHECK_EVERY: u64 = 1024;

impl Engine {
    /// Body of a background compaction job: picks, runs, and asks for the next.
    pub(crate) fn background_compaction(self: &Arc<Self>) {
        let plan = {
            let mut state = self.state.lock();
            state.compactions_queued -= 1;
            let free = state.manual == 0 && state.error.is_none() && !state.closing;
            let plan = if free {
                let input = self.picker_input(&state);
                pick_leveled(&input)
            } else {
                None
            };
            match plan {
                Some(p) => Some(self.start_plan(&mut state, p)),
                None => {
                    // Nothing can run now; what is due is looked at again after the next install.
                    state.compaction_due = false;
                    drop(state);
                    self.changed.notify_all();
                    return;
                }
            }
        };
        if let Some((plan, id)) = plan {
            let result = self.run_plan(&plan);
            self.end_plan(&plan, id);
            if let Err(e) = result
                && !self.stopping()
            {
                self.set_error("a compaction", &e);
            }
        }
        for n in self.c.purge.run() {
            self.c.log.info(format_args!("deleted table {n:06}"));
        }
    }

    pub(crate) fn picker_input<'a>(&'a self, state: &'a crate::core::DbState) -> PickerInput<'a> {
        PickerInput {
            version: &state.version,
            options: &self.c.family.levels,
            running: &state.running,
            oldest_snapshot: self.c.snapshots.oldest().map(|o| o.0),
            now: self.c.env.clock.now_seconds(),
        }
    }

    /// Marks the inputs and registers the output range. Requires: the state mutex.
    pub(crate) fn start_plan(
        &self,
        state: &mut crate::core::DbState,
        plan: CompactionPlan,
    ) -> (CompactionPlan, u64) {
        for (_, files) in &plan.inputs {
            for f in files {
                f.being_compacted.store(true, Ordering::Relaxed);
            }
        }
        state.next_job += 1;
        let id = state.next_job;
        let (begin, end) = plan.user_key_range(&self.c.family.comparator);
        state.running.push(RunningCompaction {
            id,
            output_level: plan.output_level,
            smallest: begin,
            largest: end,
            input_levels: plan.inputs.iter().map(|i| i.0).collect(),
        });
        state.compactions_running += 1;
        (plan, id)
    }

    /// Takes back what `start_plan` did, and looks for more work.
    pub(crate) fn end_plan(self: &Arc<Self>, plan: &CompactionPlan, id: u64) {
        let mut state = self.state.lock();
        for (_, files) in &plan.inputs {
            for f in files {
                f.being_compacted.store(false, Ordering::Relaxed);
            }
        }
        state.running.retain(|r| r.id != id);
        state.compactions_running -= 1;
        // Scores exclude what is being compacted: they change now.
        self.install_superversion(&mut state);
        drop(state);
        self.changed.notify_all();
    }

    /// Carries a plan out. On error nothing is installed and the outputs are removed.
    pub(crate) fn run_plan(self: &Arc<Self>, plan: &CompactionPlan) -> Result<()> {
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
            self.log_and_apply(edit, |_| {})?;
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
        let mut outputs = Outputs::new(self, plan);
        let result = self.rewrite(plan, &mut outputs).and_then(|()| {
            if outputs.done.is_empty() {
                Ok(())
            } else {
                self.c.env.fs.sync_dir(&self.c.dir)
            }
        });
        if let Err(e) = result {
            outputs.remove_all();
            return Err(e);
        }
        // From here on the outputs stay: an edit that failed half way may still be read by the next
        // open. If it is not, that open finds them explained and removes them.
        edit.new_files.clone_from(&outputs.done);
        self.log_and_apply(edit, |_| {})?;
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

    fn rewrite(self: &Arc<Self>, plan: &CompactionPlan, outputs: &mut Outputs<'_>) -> Result<()> {
        let c = &self.c;
        let params = ReadParams {
            fill_cache: false,
            verify_checksums: true,
            cache_only: false,
            readahead: READAHEAD,
            bypass_cache: true,
        };
        let mut sources = Vec::new();
        let mut expected = 0;
        for (level, files) in &plan.inputs {
            for f in files {
                expected += c.cache.reader(f)?.properties().num_entries;
            }
            if *level == 0 {
                // Newest first, as the version lists them.
                for f in files {
                    let reader = c.cache.reader(f)?;
                    sources.push(Source::Table(Box::new(reader.iter(params))));
                }
            } else if !files.is_empty() {
                sources.push(Source::Level(Box::new(LevelIter::over(
                    files.clone(),
                    c.family.comparator.clone(),
                    c.cache.clone(),
                    params,
                ))));
            }
        }
        let input = MergingIter::new(c.family.comparator.clone(), sources);
        let version = self.superversion.load().version.clone();
        let settings = IterSettings {
            comparator: c.family.comparator.clone(),
            merge_operator: c.family.merge_operator.clone(),
            snapshots: c.snapshots.sequences(),
            bottommost: plan.bottommost,
            below: Some(Below::new(version, plan.output_level)),
        };
        let mut iter = CompactionIter::new(input, settings);
        iter.seek_to_first()?;
        let mut n = 0u64;
        while iter.valid() {
            outputs.add(iter.key(), iter.value())?;
            iter.next()?;
            n += 1;
            if n.is_multiple_of(CHECK_EVERY) && self.stopping() {
                return Err(Error::shutdown("compaction abandoned"));
            }
        }
        outputs.finish_file()?;
        if iter.input_entries() != expected && c.options.compaction_verify_record_count {
            return Err(
                Error::corruption("Compaction number of input keys does not match")
                    .with("expected", expected)
                    .with("read", iter.input_entries()),
            );
        }
        Ok(())
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
    plan: &'a CompactionPlan,
    cutter: OutputCutter,
    open: Option<(TableBuilder, FileBounds, u64)>,
    done: Vec<NewFile>,
    created: Vec<u64>,
    ancester_time: u64,
    epoch: u64,
}

impl<'a> Outputs<'a> {
    fn new(engine: &'a Engine, plan: &'a CompactionPlan) -> Self {
        let files = || plan.inputs.iter().flat_map(|i| &i.1);
        let ancester_time = files()
            .map(|f| f.oldest_ancester_time)
            .filter(|&t| t > 0)
            .min()
            .unwrap_or_else(|| engine.c.env.clock.now_seconds());
        let epoch = files().map(|f| f.epoch_number).min().unwrap_or(0);
        Self {
            engine,
            plan,
            cutter: OutputCutter::new(plan, engine.c.family.comparator.clone()),
            open: None,
            done: Vec::new(),
            created: Vec::new(),
            ancester_time,
            epoch,
        }
    }

    #[inline]
    fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let size = self.open.as_ref().map_or(0, |o| o.0.file_size());
        if self.cutter.should_cut_before(key, size) && self.open.is_some() {
            self.finish_file()?;
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
        let path = self.engine.path(filenames::table_file_name(number));
        let file = self.engine.c.env.fs.create(&path, IoActivity::Compaction)?;
        self.created.push(number);
        let options =
            self.engine
                .builder_options(number, self.plan.compression, self.ancester_time);
        self.open = Some((
            TableBuilder::new(options, file),
            FileBounds::default(),
            number,
        ));
        Ok(())
    }

    fn finish_file(&mut self) -> Result<()> {
        let Some((builder, bounds, number)) = self.open.take() else {
            return Ok(());
        };
        let summary = builder.finish()?;
        let now = self.engine.c.env.clock.now_seconds();
        let level = self.plan.output_level as u32;
        let mut file = bounds.into_new_file(level, number, &summary, self.ancester_time, now);
        file.epoch_number = self.epoch;
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
                .delete(&self.engine.path(filenames::table_file_name(*n)));
        }
    }
}
