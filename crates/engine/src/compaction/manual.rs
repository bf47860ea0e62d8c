//! `compact_range`, without its flush: compacts a key range level by level down to the deepest. In universal
//! compaction everything goes into the last level at once, in FIFO compaction what is due is done once,
//! whatever the range.

use super::blob_gc::BlobGcChoice;
use super::compactor::Compactor;
use super::files::KeyRange;
use super::job::{CompactionJob, compaction_aborted, manual_paused};
use super::pause::WorkControl;
use super::refit::Refit;
use super::trim::Trim;
use crate::core::{Family, Lsm, settle_move};
use crate::options::{CompactionStyle, FlushOptions};
use crate::picker::{
    ManualOutcome, ManualPick, ManualRange, PickerInput, pick, pick_manual_range,
    pick_universal_whole,
};
use crate::version::{LevelTargets, Version};
use spanlith_base::stats::Ticker;
use spanlith_base::{Error, MAX_SEQUENCE, Result, keys};
use spanlith_table::ReadParams;
use std::borrow::Cow;
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
    /// Yes, but not files that this very compaction has made, nor, as in RocksDB, what stands after them.
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

/// A manual compaction: made, given a flush if it needs one, and run.
pub(crate) struct ManualCompaction<'a> {
    lsm: &'a Lsm,
    family: &'a Arc<Family>,
    options: &'a CompactRangeOptions,
    begin: Option<Cow<'a, [u8]>>,
    end: Option<Cow<'a, [u8]>>,
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

impl<'a> ManualCompaction<'a> {
    /// That of all entries with `begin ≤ key ≤ end` (`None`: unbounded). Raises `full_history_ts_low` if the options say so.
    ///
    /// # Errors
    /// `Incomplete` if compactions are held back; `InvalidArgument` and `NotSupported` for options that cannot be
    /// followed; of raising the bound.
    pub(crate) fn new(
        lsm: &'a Lsm,
        family: &'a Arc<Family>,
        (begin, end): KeyRange<'a>,
        options: &'a CompactRangeOptions,
    ) -> Result<Self> {
        lsm.writable()?;
        if lsm.switches.all_are_off() {
            return Err(compaction_aborted());
        }
        if lsm.switches.manual_is_off(options.canceled.as_deref()) {
            return Err(manual_paused());
        }
        if options.target_path_id as usize >= family.cache.paths.count() {
            return Err(Error::invalid_argument("Invalid target path ID"));
        }
        if options.change_level && family.settings().levels.style == CompactionStyle::Fifo {
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
            lsm.increase_history_low(family, low)?;
        }
        Ok(Self {
            lsm,
            family,
            options,
            // In front of all versions of the first key, after all of the last.
            begin: family.pad(begin, 0xff),
            end: family.pad(end, 0),
            trim: None,
        })
    }

    /// Drops versions on the way. Requires: no range.
    pub(crate) fn trimming(mut self, trim: Option<Trim>) -> Self {
        self.trim = trim;
        self
    }

    /// Returns how to flush the family before this runs, if a memtable holds a key of the range.
    pub(crate) fn flush_before(&self) -> Option<FlushOptions> {
        let is_needed = in_memtables(self.family, self.begin.as_deref(), self.end.as_deref());
        is_needed.then(|| FlushOptions {
            allow_write_stall: self.options.allow_write_stall,
            ..FlushOptions::default()
        })
    }

    /// Compacts the range into the deepest level, and lists the files in another one if the options say so.
    ///
    /// # Errors
    /// Of the compactions; `ShutdownInProgress`; `Incomplete` if this one was called off.
    pub(crate) fn run(self) -> Result<()> {
        let (lsm, options) = (self.lsm, self.options);
        lsm.reporter
            .count_superversion(&self.family.superversion.load_full());
        lsm.reporter.tick(Ticker::NumberSuperversionReleases);
        {
            let mut state = lsm.state.lock();
            if state.ends() {
                return Err(Error::shutdown(""));
            }
            state.jobs.begin_manual(options.exclusive);
        }
        let result = match self.family.settings().levels.style {
            style @ (CompactionStyle::Universal | CompactionStyle::Fifo) => {
                self.compact_whole(style)
            }
            CompactionStyle::None => Ok(None),
            CompactionStyle::Level => self.compact_levels(),
        };
        {
            let mut state = lsm.state.lock();
            state.jobs.end_manual(options.exclusive);
            lsm.schedule(&mut state);
        }
        lsm.state.notify_all();
        lsm.purge_for_caller();
        match result? {
            Some(level) if options.change_level => self.change_level(level),
            _ => Ok(()),
        }
    }

    /// Lists the files of a level in the one that the options name, while nothing else runs.
    fn change_level(&self, level: usize) -> Result<()> {
        let work = WorkControl::new(self.lsm);
        work.disable_manual();
        let moved = work.pause().and_then(|()| {
            let refit = Refit::new(self.lsm, self.family, level, self.options.target_level);
            let moved = refit.run();
            work.unpause()?;
            moved
        });
        work.enable_manual();
        moved
    }

    /// Compacts down level by level; returns the last level, `None` if the range holds nothing.
    fn compact_levels(&self) -> Result<Option<usize>> {
        let view = self.family.superversion.load();
        let version = view.version.clone();
        let dynamic = view.settings.levels.level_compaction_dynamic_level_bytes;
        drop(view);
        let levels = version.num_levels();
        let mut first = None;
        for level in 0..version.num_non_empty_levels() {
            if self.has_keys(&version, level)? {
                first = Some(level);
                break;
            }
        }
        drop(version);
        let Some(mut level) = first else {
            return Ok(None);
        };
        let own_from = self.lsm.catalog.next_file();
        loop {
            if level > 0 {
                let deepest = if dynamic {
                    levels
                } else {
                    let state = self.lsm.state.lock();
                    state.alive(self.family.id)?.version.num_non_empty_levels()
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
            level = self.compact_level(level, output, None)?;
        }
        let again = match self.options.bottommost {
            BottommostCompaction::Skip => false,
            BottommostCompaction::IfHaveCompactionFilter => self.family.filters.is_set(),
            BottommostCompaction::Force | BottommostCompaction::ForceOptimized => true,
        };
        if again {
            let keep_own = self.options.bottommost != BottommostCompaction::Force;
            let own_from = keep_own.then_some(own_from);
            self.compact_level(level, Output::Level(level), own_from)?;
        }
        Ok(Some(level))
    }

    /// Returns whether a level holds entries of the range. Only with both ends given, tables are looked into.
    fn has_keys(&self, version: &Version, level: usize) -> Result<bool> {
        let (begin, end) = (self.begin.as_deref(), self.end.as_deref());
        let files = version.overlapping(level, begin, end);
        let (Some(begin), Some(end)) = (begin, end) else {
            return Ok(!files.is_empty());
        };
        let family = self.family;
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
    fn compact_whole(&self, style: CompactionStyle) -> Result<Option<usize>> {
        let version = self.family.superversion.load().version.clone();
        let last = version.num_levels() - 1;
        let is_universal = style == CompactionStyle::Universal;
        if is_universal && last == 0 && !self.has_keys(&version, 0)? {
            return Ok(None);
        }
        drop(version);
        if let Some(f) = self.lsm.state.lock().family_mut(self.family.id) {
            // A file that is due by its age is due now, not when the last file came.
            f.compaction.judge_at(self.lsm.c.env.clock.now_seconds());
        }
        self.run_step(|input| {
            let plan = if is_universal {
                match pick_universal_whole(input, self.options.target_path_id) {
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
        &self,
        level: usize,
        output: Output,
        first_own_file: Option<u64>,
    ) -> Result<usize> {
        let mut from = self.begin.as_deref().map(<[u8]>::to_vec);
        let mut to = level;
        loop {
            let next = self.run_step(|input| {
                let output_level = match output {
                    Output::Level(output) => output,
                    Output::Base => LevelTargets::compute(input.version, input.options).base_level,
                };
                to = output_level;
                let range = ManualRange {
                    level,
                    output_level,
                    output_path: self.options.target_path_id,
                    begin: from.as_deref(),
                    end: self.end.as_deref(),
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
        &self,
        mut pick: impl FnMut(&PickerInput<'_>) -> ManualOutcome,
    ) -> Result<Option<Vec<u8>>> {
        let (family, options) = (self.family, self.options);
        let compactor = Compactor::new(self.lsm);
        loop {
            let mut state = self.lsm.state.lock();
            if state.ends() {
                return Err(Error::shutdown(""));
            }
            if let Some(e) = state.trouble.refusal() {
                return Err(e);
            }
            if self.lsm.switches.all_are_off() {
                return Err(compaction_aborted());
            }
            if self.lsm.switches.manual_is_off(options.canceled.as_deref()) {
                return Err(manual_paused());
            }
            let excluded = state.jobs.has_exclusive() && !options.exclusive;
            if (options.exclusive || excluded) && state.jobs.compactions_running() > 0 {
                // Jobs that began before; no automatic ones start while `manual` counts.
                drop(self.lsm.wait_changed(state));
                continue;
            }
            let f = state.alive(family.id)?;
            let mut picked = match pick(&f.picker_input(&self.lsm.times, &self.lsm.options())) {
                ManualOutcome::Nothing => return Ok(None),
                ManualOutcome::Conflict if state.jobs.compactions_running() > 0 => {
                    drop(self.lsm.wait_changed(state));
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
            picked.plan.is_trivial_move &= self.trim.is_none();
            settle_move(&f.version, &family.cache.paths, &mut picked.plan);
            let job = compactor.start(&mut state, family.id, picked.plan);
            drop(state);
            if let Some(job) = job {
                let job = CompactionJob {
                    max_subcompactions: options.max_subcompactions,
                    blob_gc: options.blob_gc,
                    canceled: options.canceled.clone(),
                    trim: self.trim.clone(),
                    ..job
                };
                let result = compactor.run_for_caller(&job);
                compactor.end(&job);
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
