//! `compact_range`: flushes, then compacts a key range level by level down to the deepest. In universal
//! compaction everything goes into the last level at once, in FIFO compaction what is due is done once,
//! whatever the range.

use super::blob_gc::BlobGcChoice;
use super::job::{CompactionJob, compaction_aborted, manual_paused};
use super::trim::Trim;
use crate::core::{Engine, Family, settle_move};
use crate::listener::FlushReason;
use crate::options::{CompactionStyle, FlushOptions};
use crate::picker::{
    ManualOutcome, ManualPick, ManualRange, PickerInput, pick, pick_manual_range,
    pick_universal_whole,
};
use crate::version::{LevelTargets, Version};
use spanlith_base::stats::Ticker;
use spanlith_base::{Error, MAX_SEQUENCE, Result, keys};
use spanlith_table::ReadParams;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Says whether the deepest level is rewritten where it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BottommostCompaction {
    /// No.
    Skip,
    /// If there is a compaction filter, which must see it.
    #[default]
    IfHaveCompactionFilter,
    /// Yes.
    Force,
    /// Yes, but not files that this very compaction has made, nor, as in RocksDB, what stands behind them.
    ForceOptimized,
}

/// How a key range is compacted.
#[derive(Clone, Debug, Default)]
pub struct CompactRangeOptions {
    /// No other compaction runs meanwhile.
    pub exclusive: bool,
    /// Afterwards the files are listed in another level.
    pub change_level: bool,
    /// That level; `None` is the highest one they fit into.
    pub target_level: Option<usize>,
    /// Index of the directory the outputs go to, whatever their level: by default to the first.
    pub target_path_id: u32,
    /// Says whether the deepest level is rewritten.
    pub bottommost: BottommostCompaction,
    /// Flushes at once, although writes may be delayed or stopped by that.
    pub allow_write_stall: bool,
    /// Ranges a compaction may be split into; 0 means as the database says.
    pub max_subcompactions: u32,
    /// `full_history_ts_low` is raised to this first; only without a range.
    pub full_history_ts_low: Option<Vec<u8>>,
    /// Says what becomes of values in old blob files.
    pub blob_gc: BlobGcChoice,
    /// Set to give up.
    pub canceled: Option<Arc<AtomicBool>>,
}

/// A manual compaction in progress.
struct Manual<'a> {
    family: &'a Arc<Family>,
    options: &'a CompactRangeOptions,
    begin: Option<&'a [u8]>,
    end: Option<&'a [u8]>,
    /// Versions that go.
    trim: Option<Trim>,
}

/// Where one pass of a manual compaction leads.
#[derive(Clone, Copy)]
enum Output {
    Level(usize),
    /// Wherever level 0 goes.
    Base,
}

impl Engine {
    /// Compacts all entries with `begin ≤ key ≤ end` (`None`: unbounded) into the deepest level.
    pub(crate) fn compact_range(
        self: &Arc<Self>,
        family: &Arc<Family>,
        begin: Option<&[u8]>,
        end: Option<&[u8]>,
        options: &CompactRangeOptions,
    ) -> Result<()> {
        self.compact_and_trim(family, (begin, end), options, None)
    }

    /// Refuses a family of which [`Self::trim_history`] could not drop everything.
    pub(crate) fn check_trim(&self, family: &Family, timestamp: &[u8]) -> Result<()> {
        let settings = family.settings();
        let size = family.comparator.timestamp_size();
        if timestamp.len() != size {
            return Err(Error::invalid_argument(format!(
                "trim_ts has {} bytes, timestamps of column family '{}' have {size}",
                timestamp.len(),
                family.name
            )));
        }
        if !settings.options.persist_user_defined_timestamps {
            return Err(Error::not_supported(format!(
                "trimming the history of column family '{}', whose tables have no timestamps",
                family.name
            )));
        }
        match settings.levels.style {
            CompactionStyle::Level | CompactionStyle::Universal => Ok(()),
            CompactionStyle::Fifo | CompactionStyle::None => Err(Error::not_supported(format!(
                "trimming the history of column family '{}', whose compactions do not rewrite all tables",
                family.name
            ))),
        }
    }

    /// Rewrites all tables of a family without the versions that have a later timestamp. Requires: as
    /// [`Self::check_trim`] says.
    pub(crate) fn trim_history(
        self: &Arc<Self>,
        family: &Arc<Family>,
        timestamp: &[u8],
    ) -> Result<()> {
        let options = CompactRangeOptions {
            exclusive: true,
            bottommost: BottommostCompaction::Force,
            ..CompactRangeOptions::default()
        };
        self.compact_and_trim(family, (None, None), &options, Some(Trim::after(timestamp)))
    }

    fn compact_and_trim(
        self: &Arc<Self>,
        family: &Arc<Family>,
        (begin, end): (Option<&[u8]>, Option<&[u8]>),
        options: &CompactRangeOptions,
        trim: Option<Trim>,
    ) -> Result<()> {
        self.writable()?;
        if self.switches.all_are_off() {
            return Err(compaction_aborted());
        }
        if self.switches.manual_is_off(options.canceled.as_deref()) {
            return Err(manual_paused());
        }
        if options.target_path_id as usize >= family.cache.paths.count() {
            return Err(Error::invalid_argument("Invalid target path ID"));
        }
        let style = family.settings().levels.style;
        if options.change_level && style == CompactionStyle::Fifo {
            return Err(Error::not_supported(
                "FIFO compaction does not support change_level.",
            ));
        }
        if let Some(low) = &options.full_history_ts_low {
            if begin.is_some() || end.is_some() {
                return Err(Error::invalid_argument(
                    "Cannot specify compaction range with full_history_ts_low",
                ));
            }
            self.increase_history_low(family, low)?;
        }
        // In front of all versions of the first key, behind all of the last.
        let (begin, end) = (family.pad(begin, 0xff), family.pad(end, 0));
        let (begin, end) = (begin.as_deref(), end.as_deref());
        if in_memtables(family, begin, end) {
            let families = std::slice::from_ref(family);
            let flush = FlushOptions {
                allow_write_stall: options.allow_write_stall,
                ..FlushOptions::default()
            };
            self.flush_for(FlushReason::ManualCompaction, families, flush)?;
        }
        self.reporter
            .count_superversion(&family.superversion.load_full());
        self.reporter.tick(Ticker::NumberSuperversionReleases);
        let manual = Manual {
            family,
            options,
            begin,
            end,
            trim,
        };
        {
            let mut state = self.state.lock();
            if state.ends() {
                return Err(Error::shutdown(""));
            }
            state.jobs.begin_manual(options.exclusive);
        }
        let result = match style {
            CompactionStyle::Universal | CompactionStyle::Fifo => {
                self.compact_whole(&manual, style)
            }
            CompactionStyle::None => Ok(None),
            CompactionStyle::Level => self.compact_levels(&manual),
        };
        {
            let mut state = self.state.lock();
            state.jobs.end_manual(options.exclusive);
            self.schedule(&mut state);
        }
        self.state.notify_all();
        self.purge_and_log();
        let Some(level) = result? else {
            return Ok(());
        };
        if options.change_level {
            self.disable_manual_compaction();
            let moved = self.pause_background_work().and_then(|()| {
                let moved = self.refit_level(family, level, options.target_level);
                self.continue_background_work()?;
                moved
            });
            self.switches.enable_manual();
            moved?;
        }
        Ok(())
    }

    /// Compacts down level by level; returns the last level, `None` if the range holds nothing.
    fn compact_levels(self: &Arc<Self>, manual: &Manual<'_>) -> Result<Option<usize>> {
        let view = manual.family.superversion.load();
        let version = view.version.clone();
        let dynamic = view.settings.levels.level_compaction_dynamic_level_bytes;
        drop(view);
        let levels = version.num_levels();
        let mut first = None;
        for level in 0..version.num_non_empty_levels() {
            if self.has_keys(manual, &version, level)? {
                first = Some(level);
                break;
            }
        }
        drop(version);
        let Some(mut level) = first else {
            return Ok(None);
        };
        let own_from = self.catalog.next_file();
        loop {
            if level > 0 {
                let deepest = if dynamic {
                    levels
                } else {
                    let state = self.state.lock();
                    state
                        .alive(manual.family.id)?
                        .version
                        .num_non_empty_levels()
                };
                if level + 1 >= deepest {
                    break;
                }
            }
            let output = if level == 0 && dynamic {
                Output::Base
            } else {
                Output::Level(level + 1)
            };
            level = self.compact_level(manual, level, output, None)?;
        }
        let again = match manual.options.bottommost {
            BottommostCompaction::Skip => false,
            BottommostCompaction::IfHaveCompactionFilter => manual.family.filters.is_set(),
            BottommostCompaction::Force | BottommostCompaction::ForceOptimized => true,
        };
        if again {
            let keep_own = manual.options.bottommost != BottommostCompaction::Force;
            let own_from = keep_own.then_some(own_from);
            self.compact_level(manual, level, Output::Level(level), own_from)?;
        }
        Ok(Some(level))
    }

    /// Returns whether a level holds entries of the range. Only with both ends given, tables are looked into.
    fn has_keys(&self, manual: &Manual<'_>, version: &Version, level: usize) -> Result<bool> {
        let files = version.overlapping(level, manual.begin, manual.end);
        let (Some(begin), Some(end)) = (manual.begin, manual.end) else {
            return Ok(!files.is_empty());
        };
        let family = manual.family;
        let partition = family.settings().levels.partition_prefix;
        if let Some(len) = partition
            && files.iter().any(|f| {
                let (low, high) = (f.smallest_user_key(), f.largest_user_key());
                low[..len.min(low.len())] != high[..len.min(high.len())]
            })
        {
            // It may be the partitioner the caller is after.
            return Ok(true);
        }
        let from = keys::internal_key(begin, keys::seek_tag(MAX_SEQUENCE));
        let c = &family.comparator;
        for f in &files {
            let reader = family.cache.reader(f)?;
            let bare = |key| Some(c.strip_timestamp(key));
            if let Some(list) = f.tombstones.get()
                && list.overlaps(bare(begin), bare(end))
            {
                return Ok(true);
            }
            let mut iter = reader.iter(ReadParams::default());
            iter.seek(&from);
            iter.status()?;
            if iter.valid() && c.compare(keys::user_key(iter.key()), end).is_le() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Compacts everything in one plan; returns the last level. With one level only if the range holds
    /// something, as in RocksDB.
    fn compact_whole(
        self: &Arc<Self>,
        manual: &Manual<'_>,
        style: CompactionStyle,
    ) -> Result<Option<usize>> {
        let version = manual.family.superversion.load().version.clone();
        let last = version.num_levels() - 1;
        let is_universal = style == CompactionStyle::Universal;
        if is_universal && last == 0 && !self.has_keys(manual, &version, 0)? {
            return Ok(None);
        }
        drop(version);
        if let Some(f) = self.state.lock().family_mut(manual.family.id) {
            // A file that is due by its age is due now, not when the last file came.
            f.compaction.judge_at(self.c.env.clock.now_seconds());
        }
        self.run_step(manual, |input| {
            let plan = if is_universal {
                match pick_universal_whole(input, manual.options.target_path_id) {
                    None => return ManualOutcome::Conflict,
                    Some(plan) => plan,
                }
            } else {
                pick(input)
            };
            plan.map_or(ManualOutcome::Nothing, |plan| {
                ManualOutcome::Pick(Box::new(ManualPick {
                    plan,
                    next_begin: None,
                }))
            })
        })?;
        Ok(Some(if is_universal { last } else { 0 }))
    }

    /// Compacts what the range holds in one level into another; returns the other.
    fn compact_level(
        self: &Arc<Self>,
        manual: &Manual<'_>,
        level: usize,
        output: Output,
        first_own_file: Option<u64>,
    ) -> Result<usize> {
        let mut from = manual.begin.map(<[u8]>::to_vec);
        let mut to = level;
        loop {
            let next = self.run_step(manual, |input| {
                let output_level = match output {
                    Output::Level(output) => output,
                    Output::Base => LevelTargets::compute(input.version, input.options).base_level,
                };
                to = output_level;
                let range = ManualRange {
                    level,
                    output_level,
                    output_path: manual.options.target_path_id,
                    begin: from.as_deref(),
                    end: manual.end,
                    first_own_file,
                };
                pick_manual_range(input, &range)
            })?;
            match next {
                Some(next) => from = Some(next),
                None => return Ok(to),
            }
        }
    }

    /// Picks one step of a manual compaction, as soon as nothing is in its way, and carries it out. Returns
    /// the key at which the next one begins, if there is one.
    fn run_step(
        self: &Arc<Self>,
        manual: &Manual<'_>,
        mut pick: impl FnMut(&PickerInput<'_>) -> ManualOutcome,
    ) -> Result<Option<Vec<u8>>> {
        let (family, options) = (manual.family, manual.options);
        loop {
            let mut state = self.state.lock();
            if state.ends() {
                return Err(Error::shutdown(""));
            }
            if let Some(e) = state.trouble.refusal() {
                return Err(e);
            }
            if self.switches.all_are_off() {
                return Err(compaction_aborted());
            }
            if self.switches.manual_is_off(options.canceled.as_deref()) {
                return Err(manual_paused());
            }
            let excluded = state.jobs.has_exclusive() && !options.exclusive;
            if (options.exclusive || excluded) && state.jobs.compactions_running() > 0 {
                // Jobs that began before; no automatic ones start while `manual` counts.
                drop(self.wait_changed(state));
                continue;
            }
            let f = state.alive(family.id)?;
            let mut picked = match pick(&f.picker_input(&self.times, &self.options())) {
                ManualOutcome::Nothing => return Ok(None),
                ManualOutcome::Conflict if state.jobs.compactions_running() > 0 => {
                    drop(self.wait_changed(state));
                    continue;
                }
                ManualOutcome::Conflict => {
                    if let Some(e) = state.trouble.quarantined() {
                        return Err(e);
                    }
                    return Err(Error::aborted("files of the range are in use"));
                }
                ManualOutcome::Pick(pick) => *pick,
            };
            // A file that is moved keeps what is to go.
            picked.plan.is_trivial_move &= manual.trim.is_none();
            settle_move(&f.version, &family.cache.paths, &mut picked.plan);
            let job = self.start_plan(&mut state, family.id, picked.plan);
            drop(state);
            if let Some(job) = job {
                let job = CompactionJob {
                    max_subcompactions: options.max_subcompactions,
                    blob_gc: options.blob_gc,
                    canceled: options.canceled.clone(),
                    trim: manual.trim.clone(),
                    ..job
                };
                let result = self.run_plan_for_caller(&job);
                self.end_plan(&job);
                result?;
            }
            return Ok(picked.next_begin);
        }
    }
}

/// Returns whether a memtable holds a key of the range. A range open at either end counts as touched
/// without looking, as in RocksDB.
fn in_memtables(family: &Family, begin: Option<&[u8]>, end: Option<&[u8]>) -> bool {
    let (Some(begin), Some(end)) = (begin, end) else {
        return true;
    };
    let from = keys::internal_key(begin, keys::seek_tag(MAX_SEQUENCE));
    let view = family.superversion.load();
    std::iter::once(&view.mem).chain(&view.imm).any(|mem| {
        let ranges = mem.range_tombstones();
        let bare = |key| Some(family.comparator.strip_timestamp(key));
        if ranges.is_some_and(|r| r.overlaps(bare(begin), bare(end))) {
            return true;
        }
        let mut iter = mem.iter();
        iter.seek(&from);
        let comparator = &family.comparator;
        iter.valid() && comparator.compare(keys::user_key(iter.key()), end).is_le()
    })
}
