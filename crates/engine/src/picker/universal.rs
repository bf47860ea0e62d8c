//! Describes what universal compaction does by itself.
//!
//! The tree is a list of *sorted runs*, newest first: each file of level 0, then each other level with
//! data. Runs that stand side by side are merged, whole, and the output stays between its neighbours:
//! in the last level if the oldest run takes part, else right above the next older run.
//!
//! In this order: everything, if a file has reached its period; the newer runs with the oldest one, if
//! they take too much space beside it; runs of similar size; as many runs as there are too many; files
//! whose writer asked for compaction; the file that most reads pass through in vain. All numbers and the order are those of RocksDB 11.8.

mod incremental;

use super::inputs::{Draft, Files, Growth, PickerInput, Picking, any_busy};
use super::plan::{CompactionPlan, CompactionReason};
use crate::options::CompactionStopStyle;
use crate::version::FileMeta;
use spanlith_base::CompressionType;
use std::sync::Arc;

/// How many runs may stand side by side in one merge that looks at no sizes.
const ANY_RATIO: u32 = u32::MAX;

/// A sorted run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    level: usize,
    /// Its place in level 0, if it is a file of that level.
    index: usize,
    size: u64,
    compensated: u64,
    is_busy: bool,
    /// It holds a range tombstone that is waited for; see [`is_lone_tombstone`].
    waits: bool,
}

impl Run {
    fn is_free(&self) -> bool {
        !self.is_busy && !self.waits
    }
}

/// The next compaction of a family, if any is due and can run beside those that are running.
pub fn pick_universal(input: &PickerInput<'_>) -> Option<CompactionPlan> {
    let universal = Universal::new(input);
    let plan = universal.pick()?;
    Some(universal.moved_if_apart(plan))
}

/// Returns whether [`pick_universal`] would look for something to do.
pub fn universal_needs_compaction(input: &PickerInput<'_>) -> bool {
    let picking = Picking::new(input);
    picking.targets.top_score() >= 1.0
        || picking.targets.marked_files > 0
        || picking.periodic().next().is_some()
        || !picking.read_hot().is_empty()
}

/// The plan for a compaction of everything that a caller asked for, into the last level. Outer `None`: a
/// running plan is in the way; inner: there is nothing.
pub fn pick_universal_whole(
    input: &PickerInput<'_>,
    output_path: u32,
) -> Option<Option<CompactionPlan>> {
    let universal = Universal::new(input);
    let version = universal.picking.version();
    let inputs: Vec<(usize, Files)> = (0..version.num_levels())
        .map(|level| (level, version.files(level).to_vec()))
        .filter(|(_, files)| !files.is_empty())
        .collect();
    let Some(&(first, _)) = inputs.first() else {
        return Some(None);
    };
    let sets: Vec<&[Arc<FileMeta>]> = inputs.iter().map(|(_, f)| &f[..]).collect();
    let last = version.num_levels() - 1;
    let busy = (first == 0 && universal.level0_is_busy()) || sets.iter().any(|s| any_busy(s));
    if busy || (last > 0 && universal.picking.output_conflicts(last, &sets)) {
        return None;
    }
    let plan = universal.plan(Runs {
        inputs,
        output_level: last,
        output_path,
        grandparents: Files::new(),
        reason: CompactionReason::ManualCompaction,
        compresses: true,
        score: -1.0,
    });
    let max_compaction_bytes = u64::MAX;
    Some(Some(CompactionPlan {
        max_compaction_bytes,
        ..plan
    }))
}

/// A pick in progress.
struct Universal<'a> {
    picking: Picking<'a>,
    runs: Vec<Run>,
    score: f64,
}

/// A plan of whole runs before its derived fields are known.
struct Runs {
    inputs: Vec<(usize, Files)>,
    output_level: usize,
    output_path: u32,
    grandparents: Files,
    reason: CompactionReason,
    /// Outputs have the codec of their level.
    compresses: bool,
    score: f64,
}

/// Returns whether all a file holds is one range tombstone. Such a file drops whole files below once no snapshot
/// sees them; until then it is left where it is.
fn is_lone_tombstone(file: &FileMeta) -> bool {
    let stats = file.stats.get();
    stats.is_some_and(|s| s.num_entries == 1 && s.num_range_deletions == 1)
}

impl<'a> Universal<'a> {
    fn new(input: &'a PickerInput<'a>) -> Self {
        let picking = Picking::new(input);
        let version = picking.version();
        let size = |f: &Arc<FileMeta>| picking.targets.compensated_size(f);
        let waits = |f: &Arc<FileMeta>| f.is_marked() && is_lone_tombstone(f);
        let level0 = version.files(0).iter().enumerate();
        let mut runs: Vec<Run> = level0
            .map(|(index, f)| Run {
                level: 0,
                index,
                size: f.size,
                compensated: size(f),
                is_busy: f.is_being_compacted(),
                waits: waits(f),
            })
            .collect();
        for level in 1..version.num_levels() {
            let files = version.files(level);
            if files.is_empty() {
                continue;
            }
            runs.push(Run {
                level,
                index: 0,
                size: version.level_bytes(level),
                compensated: files.iter().map(size).sum(),
                is_busy: any_busy(files),
                waits: files.iter().any(waits),
            });
        }
        let score = picking.targets.top_score();
        Self {
            picking,
            runs,
            score,
        }
    }

    fn last_level(&self) -> usize {
        self.picking.version().num_levels() - 1
    }

    /// Any plan keeps a second one of files that overlap in level 0 away.
    fn level0_is_busy(&self) -> bool {
        !self.picking.input.running.is_empty()
    }

    fn pick(&self) -> Option<CompactionPlan> {
        let o = self.picking.input.options;
        let trigger = usize::try_from(o.level0_file_num_compaction_trigger).unwrap_or(usize::MAX);
        let is_due = self.runs.len() >= trigger;
        if self.picking.periodic().next().is_some()
            && let Some(plan) = self.periodic()
        {
            return Some(plan);
        }
        if is_due && !self.runs.is_empty() {
            let plan = self
                .size_amplification()
                .or_else(|| self.merge(o.universal.size_ratio, None))
                .or_else(|| self.too_many_runs());
            if plan.is_some() {
                return plan;
            }
        }
        self.marked()
            .or_else(|| self.read_hot())
            .or_else(|| self.misleading())
    }

    /// A file in which RocksDB misses keys, in its run.
    fn misleading(&self) -> Option<CompactionPlan> {
        if self.level0_is_busy() {
            return None;
        }
        let plan = self.picking.rewrite_misleading()??;
        Some(CompactionPlan {
            is_trivial_move: false,
            ..plan
        })
    }

    /// Everything from the newest free run on, so that all data gets a new period.
    fn periodic(&self) -> Option<CompactionPlan> {
        let free = self.runs.iter().rev().take_while(|r| r.is_free()).count();
        let start = self.runs.len() - free;
        let oldest = self.runs.get(start)?;
        if free == 1 {
            // The oldest run alone: only if it is what is meant.
            let version = self.picking.version();
            let is_meant = |level: usize, file: &FileMeta| {
                level == oldest.level
                    && (level > 0 || version.files(0)[oldest.index].number == file.number)
            };
            let mut aged = self.picking.periodic();
            if !aged.any(|(level, file)| is_meant(level, file)) {
                return None;
            }
        }
        self.through(
            start,
            self.runs.len() - 1,
            CompactionReason::PeriodicCompaction,
        )
    }

    /// The newer runs and the oldest one, if the newer ones are large beside it.
    fn size_amplification(&self) -> Option<CompactionPlan> {
        let o = self.picking.input.options;
        let last = self.runs.len() - 1;
        // With young data kept out of it the last level is not the measure.
        let skips_last = o.precludes_last_level
            && o.num_levels > 2
            && self.runs[last].level == self.last_level()
            && last > 0;
        let end = if skips_last { last - 1 } else { last };
        let base = self.runs[end];
        if !base.is_free() {
            return None;
        }
        let newer = self.runs[..end].iter().rev();
        let taken: Vec<&Run> = newer.take_while(|r| r.is_free()).collect();
        if taken.is_empty() {
            return None;
        }
        let mut start = end - taken.len();
        let mut candidate: u64 = taken.iter().map(|r| r.compensated).sum();
        let level0 = taken.iter().filter(|r| r.level == 0).count();
        self.spare_newest(level0, end, &mut start, &mut candidate);
        let percent = u64::from(o.universal.max_size_amplification_percent);
        if candidate.wrapping_mul(100) < percent.wrapping_mul(base.size) {
            return None;
        }
        if o.universal.incremental {
            let fanout = base.size as f64 / candidate as f64 * 1.8;
            let plan = self.incremental(fanout);
            if plan
                .as_ref()
                .is_some_and(|p| !self.picking.changes_nothing(p))
            {
                return plan;
            }
        }
        self.through(start, end, CompactionReason::UniversalSizeAmplification)
    }

    /// Leaves the newest files of level 0 to later plans, as far as the plan stays what it is for, so that
    /// a few more flushes meanwhile do not stop writes.
    fn spare_newest(&self, level0: usize, end: usize, start: &mut usize, candidate: &mut u64) {
        if level0 == 0 {
            return;
        }
        let o = self.picking.input.options;
        let stop = usize::try_from(o.level0_stop_writes_trigger).unwrap_or(0);
        let most = (level0 - 1).min(end - *start - 1);
        // Files that may come before writes stop.
        let room = stop - stop.min(end - *start + 1);
        let for_width = |width: u32| {
            let width = width as usize;
            (width - width.min(room)).min(most)
        };
        let percent = u64::from(o.universal.max_size_amplification_percent);
        let base = self.runs[end].size;
        let (mut spared, mut left) = (0, *candidate);
        let fewest = for_width(o.universal.min_merge_width);
        for count in fewest..=for_width(o.universal.max_merge_width) {
            let further = &self.runs[*start + spared..*start + count.max(spared)];
            let now = left.wrapping_sub(further.iter().map(|r| r.compensated).sum());
            if now.wrapping_mul(100) < percent.wrapping_mul(base)
                || now < candidate.wrapping_mul(9) / 10
            {
                break;
            }
            (spared, left) = (count, now);
        }
        *start += spared;
        *candidate = left;
    }

    /// As many runs as there are too many, whatever their sizes.
    fn too_many_runs(&self) -> Option<CompactionPlan> {
        let o = self.picking.input.options;
        let trigger = usize::try_from(o.level0_file_num_compaction_trigger).unwrap_or(0);
        let most = match o.universal.max_read_amp {
            limit if limit > 0 => limit as usize,
            0 if o.universal.stop_style == CompactionStopStyle::TotalSize => self.runs_for_size(),
            _ => trigger,
        };
        let free = self.runs.iter().filter(|r| r.is_free()).count();
        if free <= most {
            return None;
        }
        let count = u32::try_from(free - most + 1).unwrap_or(u32::MAX);
        self.merge(ANY_RATIO, Some(count))
    }

    /// Runs that data of this size needs if each is as large as the ratio of sizes lets it become.
    fn runs_for_size(&self) -> usize {
        let o = self.picking.input.options;
        let largest = self.runs.iter().map(|r| r.size).max().unwrap_or(0) as f64;
        let ratio = (100.0 + f64::from(o.universal.size_ratio)) / 100.0;
        let (mut count, mut size, mut total) = (1, o.write_buffer_size as f64, 0.0);
        while size < largest {
            total += size;
            size = ratio * total;
            count += 1;
        }
        count
    }

    /// The first runs, from the newest on, that may be merged: each further one is not much larger than
    /// those before it together. With a `limit`, so many runs.
    fn merge(&self, ratio: u32, limit: Option<u32>) -> Option<CompactionPlan> {
        let o = &self.picking.input.options.universal;
        let most = o.max_merge_width.min(limit.unwrap_or(u32::MAX)) as usize;
        let fewest = o.min_merge_width.max(2) as usize;
        let grown = |size: u64| size as f64 * (100.0 + f64::from(ratio)) / 100.0;
        let mut start = 0;
        while let Some(first) = self.runs.get(start) {
            if !first.is_free() {
                start += 1;
                continue;
            }
            let mut size = first.compensated;
            let mut count = 1;
            for next in self.runs[start + 1..].iter().take_while(|r| r.is_free()) {
                if count >= most || grown(size) < next.size as f64 {
                    break;
                }
                if o.stop_style == CompactionStopStyle::SimilarSize {
                    if grown(next.size) < size as f64 {
                        break;
                    }
                    size = next.compensated;
                } else {
                    size = size.wrapping_add(next.compensated);
                }
                count += 1;
            }
            if count >= fewest {
                let plan = self.merged(start, count, limit.is_some());
                return plan.filter(|plan| !self.picking.changes_nothing(plan));
            }
            start += 1;
        }
        None
    }

    /// The plan that merges `count` runs.
    fn merged(&self, start: usize, count: usize, by_number: bool) -> Option<CompactionPlan> {
        let o = self.picking.input.options;
        let behind = start + count;
        let older = &self.runs[behind..];
        let output_level = match older.first() {
            None => self.last_level(),
            Some(next) => next.level.saturating_sub(1),
        };
        let size: u64 = self.runs[..behind].iter().map(|r| r.size).sum();
        let grandparents = match older.first() {
            Some(next) if o.universal.incremental && next.level > 1 => {
                self.picking.version().files(next.level).to_vec()
            }
            _ => Files::new(),
        };
        let inputs = self.inputs(start, behind - 1);
        if output_level > 0 && self.conflicts(output_level, &inputs) {
            return None;
        }
        Some(self.plan(Runs {
            inputs,
            output_level,
            output_path: self.path_for(size),
            grandparents,
            reason: match by_number {
                true => CompactionReason::UniversalSortedRunNum,
                false => CompactionReason::UniversalSizeRatio,
            },
            compresses: self.compresses(older),
            score: self.score,
        }))
    }

    /// Says whether what is older than a merge does not yet hold the share of the data that is compressed.
    fn compresses(&self, older: &[Run]) -> bool {
        let percent = self
            .picking
            .input
            .options
            .universal
            .compression_size_percent;
        let Ok(percent) = u64::try_from(percent) else {
            return true;
        };
        let total: u64 = self.runs.iter().map(|r| r.compensated).sum();
        let mut size = 0_u64;
        !older.iter().rev().any(|run| {
            size += run.size;
            size.wrapping_mul(100) >= total.wrapping_mul(percent)
        })
    }

    /// The plan of all runs from one to another.
    fn through(
        &self,
        start: usize,
        end: usize,
        reason: CompactionReason,
    ) -> Option<CompactionPlan> {
        let size: u64 = self.runs[start..=end].iter().map(|r| r.size).sum();
        let output_level = match self.runs.get(end + 1) {
            None => self.last_level(),
            Some(next) => next.level.saturating_sub(1),
        };
        let inputs = self.inputs(start, end);
        if output_level > 0 && self.conflicts(output_level, &inputs) {
            return None;
        }
        Some(self.plan(Runs {
            inputs,
            output_level,
            output_path: self.path_for(size),
            grandparents: Files::new(),
            reason,
            compresses: true,
            score: self.score,
        }))
    }

    /// Files whose writer asked for compaction, each with what it overlaps in the next level with data.
    fn marked(&self) -> Option<CompactionPlan> {
        if self.picking.targets.marked_files == 0 {
            return None;
        }
        if self.last_level() == 0 {
            return self.marked_in_level0();
        }
        let picking = &self.picking;
        let version = picking.version();
        let marked: Vec<_> = version
            .file_iter()
            .take_while(|(level, _)| version.may_go_down(*level))
            .filter(|(_, f)| f.is_marked() && !f.is_being_compacted())
            .collect();
        // Starting anywhere keeps one file that cannot be compacted from blocking the others.
        let first = usize::try_from(picking.input.now % marked.len().max(1) as u64).unwrap_or(0);
        let in_turn = marked.iter().skip(first).take(1).chain(&marked);
        let (level, files) = in_turn
            .filter(|(level, file)| !self.should_wait(*level, file))
            .filter(|(level, _)| *level > 0 || !self.level0_is_busy())
            .find_map(|&(level, file)| {
                let files = picking.clean_cut(level, vec![Arc::clone(file)])?;
                Some((level, files))
            })?;
        self.to_next_level(level, files, CompactionReason::FilesMarkedForCompaction)
    }

    /// The file that most reads pass through in vain, with what it overlaps in the next level with data, or in
    /// level 0 if there is no other.
    fn read_hot(&self) -> Option<CompactionPlan> {
        let picking = &self.picking;
        let hot = picking.read_hot();
        let mut free = hot
            .iter()
            .filter(|(level, _)| *level > 0 || !self.level0_is_busy());
        let (level, files) = free.find_map(|&(level, file)| {
            let files = picking.clean_cut(level, vec![Arc::clone(file)])?;
            Some((level, files))
        })?;
        if self.last_level() > 0 {
            return self.to_next_level(level, files, CompactionReason::ReadTriggered);
        }
        let sets = [&files[..]];
        let (low, high) = picking.range(&sets);
        let all = picking.overlapping(0, low, high);
        (all.len() > 1 && !any_busy(&all)).then(|| {
            self.plan(Runs {
                inputs: vec![(0, all)],
                output_level: 0,
                output_path: self.path_for(picking.version().level_bytes(0)),
                grandparents: Files::new(),
                reason: CompactionReason::ReadTriggered,
                compresses: true,
                score: self.score,
            })
        })
    }

    /// Files of a level, with what they overlap in the next level with data.
    fn to_next_level(
        &self,
        level: usize,
        files: Files,
        reason: CompactionReason,
    ) -> Option<CompactionPlan> {
        let picking = &self.picking;
        let version = picking.version();
        let last = self.last_level();
        let with_data = (level + 1..=last).find(|&l| version.num_files(l) > 0);
        let output_level = match with_data {
            Some(next) => next,
            None if level == 0 => last,
            // It would be moved, which gives nothing back.
            None => return None,
        };
        let files = if level == 0 {
            let sets = [&files[..]];
            let (low, high) = picking.range(&sets);
            let all = picking.overlapping(0, low, high);
            let sets = [&all[..]];
            let (low, high) = picking.range(&sets);
            if any_busy(&picking.overlapping(output_level, low, high)) {
                return None;
            }
            all
        } else {
            files
        };
        let (files, outputs) =
            picking.with_output_level(level, files, output_level, Growth::BothWays)?;
        let sets = [&files[..], &outputs[..]];
        if picking.output_conflicts(output_level, &sets) {
            return None;
        }
        let grandparents = picking.grandparents(output_level, &sets);
        let mut inputs = vec![(level, files)];
        if !outputs.is_empty() {
            inputs.push((output_level, outputs));
        }
        let size = version.level_bytes(output_level);
        let output_path = self.path_for(size);
        let draft = Draft {
            inputs,
            output_level,
            output_path: Some(output_path),
            grandparents,
            reason,
            score: self.score,
            level0_inputs_are_apart: false,
        };
        // Files of one level may be moved, as in level compaction.
        Some(CompactionPlan {
            max_compaction_bytes: self.overlap_limit(),
            may_split: output_level > 0,
            ..picking.plan(draft)
        })
    }

    /// With all runs in level 0 the first marked file, but the oldest, goes with all that are older.
    fn marked_in_level0(&self) -> Option<CompactionPlan> {
        let files = self.picking.version().files(0);
        let (_, newer) = self.runs.split_last()?;
        let start = newer.iter().position(|run| {
            let file = &files[run.index];
            !run.is_busy && file.is_marked() && !self.should_wait(0, file)
        })?;
        let older = self.runs[start + 1..].iter().take_while(|r| r.is_free());
        let count = 1 + older.count();
        (count > 1).then(|| {
            self.plan(Runs {
                inputs: vec![(0, files[start..start + count].to_vec())],
                output_level: 0,
                output_path: self.path_for(files.iter().map(|f| f.size).sum()),
                grandparents: Files::new(),
                reason: CompactionReason::FilesMarkedForCompaction,
                compresses: true,
                score: self.score,
            })
        })
    }

    /// Returns whether a lone range tombstone stays for now: a snapshot sees what it hides, or another one stands
    /// right below.
    fn should_wait(&self, level: usize, file: &FileMeta) -> bool {
        if !is_lone_tombstone(file) {
            return false;
        }
        let settled = self.picking.input.oldest_snapshot;
        if settled.is_some_and(|oldest| file.largest_seqno > oldest) {
            return true;
        }
        let files = self.picking.version().files(0);
        let at = self.runs.iter().position(|run| {
            run.level == level && (level > 0 || files[run.index].number == file.number)
        });
        let next = at.and_then(|at| self.runs.get(at + 1));
        next.is_some_and(|run| run.waits)
    }

    /// The files of runs, by level.
    fn inputs(&self, start: usize, end: usize) -> Vec<(usize, Files)> {
        let version = self.picking.version();
        let mut inputs: Vec<(usize, Files)> = Vec::new();
        for run in &self.runs[start..=end] {
            let files = version.files(run.level);
            let taken = match run.level {
                0 => &files[run.index..=run.index],
                _ => files,
            };
            match inputs.last_mut() {
                Some((level, all)) if *level == run.level => all.extend_from_slice(taken),
                _ => inputs.push((run.level, taken.to_vec())),
            }
        }
        inputs
    }

    fn conflicts(&self, output_level: usize, inputs: &[(usize, Files)]) -> bool {
        let sets: Vec<&[Arc<FileMeta>]> = inputs.iter().map(|(_, f)| &f[..]).collect();
        self.picking.output_conflicts(output_level, &sets)
    }

    /// The plan of whole runs. It rewrites: runs of several levels are moved only on request.
    fn plan(&self, runs: Runs) -> CompactionPlan {
        let draft = Draft {
            inputs: runs.inputs,
            output_level: runs.output_level,
            output_path: Some(runs.output_path),
            grandparents: runs.grandparents,
            reason: runs.reason,
            score: runs.score,
            level0_inputs_are_apart: false,
        };
        let mut plan = self.picking.plan(draft);
        if !runs.compresses {
            plan.compression = CompressionType::None;
        }
        CompactionPlan {
            max_compaction_bytes: self.overlap_limit(),
            may_split: runs.output_level > 0,
            is_trivial_move: false,
            ..plan
        }
    }

    /// How many bytes of the next run an output may overlap.
    fn overlap_limit(&self) -> u64 {
        let o = self.picking.input.options;
        match o.universal.incremental {
            true => o.target_file_size_base / 2 * 3,
            false => u64::MAX,
        }
    }

    /// Index of the first directory that has room for a run of `size` bytes and for what will be merged
    /// with it.
    fn path_for(&self, size: u64) -> u32 {
        let o = self.picking.input.options;
        // Wraps like RocksDB's arithmetic when the ratio is above 100.
        let share = u64::from(100_u32.wrapping_sub(o.universal.size_ratio));
        let future = size.wrapping_mul(share) / 100;
        let last = o.path_targets.len().saturating_sub(1);
        let mut before = 0_u64;
        for (path, &target) in o.path_targets.iter().enumerate().take(last) {
            if target > size && before.wrapping_add(target - size) > future {
                return path as u32;
            }
            before = before.wrapping_add(target);
        }
        last as u32
    }

    /// With `allow_trivial_move` files that do not overlap change their level as they are.
    fn moved_if_apart(&self, mut plan: CompactionPlan) -> CompactionPlan {
        let o = self.picking.input.options;
        let is_asked =
            o.universal.allow_trivial_move && plan.reason != CompactionReason::PeriodicCompaction;
        let start = plan.inputs.first().map_or(0, |i| i.0);
        if !o.universal.allow_trivial_move || plan.output_level == 0 || start == plan.output_level {
            return plan;
        }
        plan.is_trivial_move = is_asked
            && (start > 0 || self.picking.level0_is_apart())
            && plan.proximal.is_none()
            && self.are_apart(&plan);
        plan
    }

    /// Returns whether no two inputs share a user key.
    fn are_apart(&self, plan: &CompactionPlan) -> bool {
        let c = self.picking.comparator();
        let order = |a: &[u8], b: &[u8]| c.compare_without_timestamp(a, true, b, true);
        let mut files: Vec<_> = plan.input_files().collect();
        files.sort_by(|a, b| order(a.smallest_user_key(), b.smallest_user_key()));
        files
            .windows(2)
            .all(|pair| order(pair[0].largest_user_key(), pair[1].smallest_user_key()).is_lt())
    }
}
