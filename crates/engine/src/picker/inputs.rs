//! Describes what pickers share: expanding inputs, finding conflicts, and turning inputs into a plan.

use super::files::files_within;
use super::plan::{CompactionPlan, CompactionReason};
use super::proximal::ProximalOutput;
use crate::options::{CompactionPri, Temperature};
use crate::version::{FileMeta, LevelOptions, LevelTargets, SPEED_PATH, Version};
use spanlith_base::keys::user_key;
use spanlith_base::{Comparator, SequenceNumber};
use std::sync::Arc;

/// A plan that is being carried out.
#[derive(Clone, Debug)]
pub struct RunningCompaction {
    /// Identity, for its owner.
    pub id: u64,
    /// Level its outputs go to.
    pub output_level: usize,
    /// Smallest user key of its inputs.
    pub smallest: Vec<u8>,
    /// Largest user key of its inputs.
    pub largest: Vec<u8>,
    /// Levels of its inputs.
    pub input_levels: Vec<usize>,
    /// Its second output, if it has one.
    pub proximal: Option<ProximalOutput>,
}

impl RunningCompaction {
    /// Returns whether both write to one level below level 0 in overlapping ranges of user keys.
    pub fn shares_output(&self, other: &Self, comparator: &Comparator) -> bool {
        let is_before = |a: &[u8], b: &[u8]| {
            comparator
                .compare_without_timestamp(a, true, b, true)
                .is_lt()
        };
        self.output_level > 0
            && self.output_level == other.output_level
            && !is_before(&self.largest, &other.smallest)
            && !is_before(&other.largest, &self.smallest)
    }
}

/// Describes what a picker looks at.
#[derive(Clone, Copy, Debug)]
pub struct PickerInput<'a> {
    /// The newest version.
    pub version: &'a Arc<Version>,
    /// The family's options.
    pub options: &'a LevelOptions,
    /// Plans that are being carried out.
    pub running: &'a [RunningCompaction],
    /// Entries with smaller sequence numbers are protected by no snapshot: bottommost files whose
    /// sequence numbers are all smaller are rewritten to get rid of them. As RocksDB this is what
    /// held when a snapshot was last released; `None` until then.
    pub oldest_snapshot: Option<u64>,
    /// Unix seconds. Also varies which marked file is tried first.
    pub now: u64,
    /// Files that reach their period within so many seconds are rewritten already: the load is low
    /// now, and will not be before then.
    pub ahead_seconds: u64,
    /// Entries after this number stay out of the last level: they are too young, or a snapshot older than they lives.
    /// `None` if none ever does.
    pub young_after: Option<SequenceNumber>,
    /// Numbers of the tables that the last compaction with two outputs wrote, under the option that is in force.
    pub placed: &'a [u64],
}

/// Files of one level.
pub(super) type Files = Vec<Arc<FileMeta>>;

/// A pick in progress: the input and what is computed from it once.
pub(super) struct Picking<'a> {
    pub input: &'a PickerInput<'a>,
    pub targets: LevelTargets,
}

impl<'a> Picking<'a> {
    pub fn new(input: &'a PickerInput<'a>) -> Self {
        let targets = LevelTargets::compute(input.version, input.options);
        Self { input, targets }
    }

    pub fn version(&self) -> &'a Version {
        self.input.version
    }

    pub fn comparator(&self) -> &'a Comparator {
        &self.input.version.comparator
    }

    /// Level that files of `level` are compacted into.
    pub fn next_level(&self, level: usize) -> usize {
        if level == 0 {
            self.targets.base_level
        } else {
            level + 1
        }
    }

    /// Returns whether a running plan takes files from level 0; a second one must not.
    pub fn level0_is_busy(&self) -> bool {
        self.input
            .running
            .iter()
            .any(|r| r.input_levels.contains(&0))
    }

    /// Smallest and largest internal key of files of any levels.
    ///
    /// Requires: not empty.
    pub fn range<'f>(&self, files: &'f [&'f [Arc<FileMeta>]]) -> (&'f [u8], &'f [u8]) {
        let c = self.comparator();
        let all = || files.iter().flat_map(|set| set.iter());
        let low = all()
            .map(|f| &f.smallest[..])
            .min_by(|a, b| c.compare_internal(a, b));
        let high = all()
            .map(|f| &f.largest[..])
            .max_by(|a, b| c.compare_internal(a, b));
        (low.expect("not empty"), high.expect("not empty"))
    }

    /// Files of `level` that overlap a range of internal keys.
    pub fn overlapping(&self, level: usize, low: &[u8], high: &[u8]) -> Files {
        self.version()
            .overlapping_internal(level, Some(low), Some(high))
    }

    /// Grows `files` until no neighbour shares a user key with them; `None` if one of them is in a
    /// running plan.
    pub fn clean_cut(&self, level: usize, files: Files) -> Option<Files> {
        let files = self.cut(level, files);
        (!any_busy(&files)).then_some(files)
    }

    /// As [`Self::clean_cut`], whether or not a plan holds one of them.
    pub fn cut(&self, level: usize, mut files: Files) -> Files {
        if level == 0 {
            return files;
        }
        loop {
            let before = files.len();
            let sets = [&files[..]];
            let (low, high) = self.range(&sets);
            let grown = self.overlapping(level, low, high);
            files = grown;
            if files.len() <= before {
                return files;
            }
        }
    }

    /// Returns whether a running plan writes where a plan from `sets` into `level` would write.
    pub fn output_conflicts(&self, level: usize, sets: &[&[Arc<FileMeta>]]) -> bool {
        self.range_conflicts(level, sets) || self.proximal_conflicts(level, sets)
    }

    /// Files of the output level that `inputs` must be merged with, and `inputs` themselves, grown by
    /// neighbours that need no more of the output level. `None` on conflict.
    pub fn with_output_level(
        &self,
        level: usize,
        inputs: Files,
        output_level: usize,
        growth: Growth,
    ) -> Option<(Files, Files)> {
        if level == output_level {
            return Some((inputs, Files::new()));
        }
        let sets = [&inputs[..]];
        let (low, high) = self.range(&sets);
        let outputs = self.overlapping(output_level, low, high);
        if outputs.is_empty() {
            return Some((inputs, outputs));
        }
        if any_busy(&outputs) {
            return None;
        }
        let outputs = self.clean_cut(output_level, outputs)?;
        let grown = self.grown_inputs(level, &inputs, (output_level, &outputs), growth);
        Some((grown.unwrap_or(inputs), outputs))
    }

    /// More files of the input level inside the range of both levels, if that costs no further file
    /// of the output level and the plan stays below twice the limit.
    fn grown_inputs(
        &self,
        level: usize,
        inputs: &[Arc<FileMeta>],
        (output_level, outputs): (usize, &[Arc<FileMeta>]),
        growth: Growth,
    ) -> Option<Files> {
        let limit =
            crate::version::levels::multiply(self.input.options.compaction_bytes_limit(), 2.0);
        let output_bytes = total_size(outputs);
        let (sets, own) = ([inputs, outputs], [inputs]);
        let (low, high) = self.range(&sets);
        let from = match growth {
            Growth::Rightwards => self.range(&own).0,
            Growth::BothWays => low,
        };
        let fits = |files: &Files| {
            files.len() > inputs.len()
                && !any_busy(files)
                && output_bytes.saturating_add(total_size(files)) < limit
        };
        let all = self.overlapping(level, from, high);
        if let Some(grown) = self.clean_cut(level, all).filter(fits) {
            let sets = [&grown[..]];
            let (low, high) = self.range(&sets);
            let needed = self.overlapping(output_level, low, high);
            let needed = if any_busy(&needed) {
                None
            } else {
                self.clean_cut(output_level, needed)
            };
            if needed.is_some_and(|needed| needed.len() == outputs.len()) {
                return Some(grown);
            }
        }
        // These lie between the others' ends already, and may stand to the left.
        Some(self.clean_within(level, low, high)).filter(fits)
    }

    /// See [`files_within`].
    pub(super) fn clean_within(&self, level: usize, low: &[u8], high: &[u8]) -> Files {
        if level == 0 {
            return Files::new();
        }
        files_within(self.version(), level, Some(low), Some(high))
    }

    /// Files below the output level that the plan's range overlaps, in the first level that has any.
    pub fn grandparents(&self, output_level: usize, sets: &[&[Arc<FileMeta>]]) -> Files {
        let (low, high) = self.range(sets);
        (output_level + 1..self.version().num_levels())
            .map(|level| self.overlapping(level, low, high))
            .find(|files| !files.is_empty())
            .unwrap_or_default()
    }

    /// The finished plan.
    pub fn plan(&self, draft: Draft) -> CompactionPlan {
        let o = self.input.options;
        let base = self.targets.base_level;
        let level = draft.output_level;
        let compression = o.output_compression(self.version(), level, base);
        let target = o.target_file_size(level, base);
        let bottommost = self.is_bottommost(&draft);
        let max_output_file_size = match level {
            0 => u64::MAX,
            _ if bottommost || draft.grandparents.is_empty() => target,
            // Grandparents give good places to cut: leave room to reach one.
            _ => target.saturating_mul(2),
        };
        let proximal = self.proximal_output(&draft);
        let output_path = draft.output_path.unwrap_or_else(|| o.output_path(level));
        let is_trivial_move = proximal.is_none() && self.is_trivial_move(&draft, output_path);
        let is_manual = draft.reason.is_manual();
        let round_robin = o.is_leveled() && o.compaction_pri == CompactionPri::RoundRobin;
        let start_level = draft.inputs.first().map_or(0, |i| i.0);
        let input_files: usize = draft.inputs.iter().map(|i| i.1.len()).sum();
        let cursors = &self.version().compact_cursors;
        let cursor = u32::try_from(level).ok().and_then(|l| cursors.get(&l));
        // At the smallest key there is nothing to cut, although newer versions of it may come first.
        let is_inside = |cursor: &&Vec<u8>| {
            let sets: Vec<&[Arc<FileMeta>]> = draft.inputs.iter().map(|i| &i.1[..]).collect();
            let (low, high) = self.range(&sets);
            let (c, key) = (self.comparator(), user_key(cursor));
            let to = |bound| c.compare_without_timestamp(key, true, user_key(bound), true);
            to(low).is_gt() && to(high).is_le()
        };
        let split_key = cursor.filter(|c| round_robin && is_inside(c)).cloned();
        CompactionPlan {
            is_last_data_level: level + 1 >= self.version().num_non_empty_levels(),
            old_files: if bottommost {
                Files::new()
            } else {
                self.old_outputs(&draft)
            },
            partition_prefix: o.partition_prefix,
            split_key,
            next_cursor: None,
            may_split: level > 0 && (round_robin || start_level == 0 || is_manual),
            is_full: input_files == self.version().total_files(),
            inputs: draft.inputs,
            output_level: level,
            output_path,
            proximal,
            base_level: base,
            grandparents: draft.grandparents,
            target_file_size: target,
            max_output_file_size,
            max_compaction_bytes: o.compaction_bytes_limit(),
            compression,
            bottommost,
            is_trivial_move,
            only_deletes: false,
            is_leveled: o.is_leveled(),
            output_temperature: Temperature::Unknown,
            reason: draft.reason,
            score: draft.score,
        }
    }

    /// Files of the output level in the plan that are old and not small: they are to stay apart.
    fn old_outputs(&self, draft: &Draft) -> Files {
        let o = self.input.options;
        let usual = o.is_leveled() && o.compaction_pri == CompactionPri::MinOverlappingRatio;
        if !usual || o.ttl == 0 || draft.inputs.len() < 2 || self.input.now < o.ttl {
            return Files::new();
        }
        let old_before = self.input.now - o.ttl / 2;
        let is_old = |f: &&Arc<FileMeta>| {
            f.ancester_time() < old_before && f.size > o.target_file_size_base / 2
        };
        let outputs = draft.inputs.last().map_or(&[][..], |i| &i.1[..]);
        outputs.iter().filter(is_old).cloned().collect()
    }

    fn is_bottommost(&self, draft: &Draft) -> bool {
        let sets: Vec<&[Arc<FileMeta>]> = draft.inputs.iter().map(|(_, f)| &f[..]).collect();
        let (low, high) = self.range(&sets);
        let level0_index = match draft.inputs.first().and_then(|(_, files)| files.last()) {
            Some(oldest) if draft.output_level == 0 => {
                self.version().levels[0].index_of(oldest.number)
            }
            _ => None,
        };
        !self.version().range_might_exist_below(
            user_key(low),
            user_key(high),
            draft.output_level,
            level0_index,
        )
    }

    /// Returns whether the inputs can be listed in the output level as they are.
    fn is_trivial_move(&self, draft: &Draft, path: u32) -> bool {
        let o = self.input.options;
        let [(level, files)] = &draft.inputs[..] else {
            return false;
        };
        let (level, output) = (*level, draft.output_level);
        let manual = draft.reason.is_manual();
        if level == output || (manual && o.has_compaction_filter) {
            return false;
        }
        if level == 0 && !draft.level0_inputs_are_apart && !self.level0_is_apart() {
            return false;
        }
        let base = self.targets.base_level;
        let codec = |level| o.output_compression(self.version(), level, base);
        // The move itself decides whether a table leaves the speed disk.
        let is_there =
            |f: &Arc<FileMeta>| f.path_id == path || (o.has_speed_dir && f.path_id == SPEED_PATH);
        if codec(level) != codec(output) || !files.iter().all(is_there) {
            return false;
        }
        let depth = self.version().num_non_empty_levels();
        if o.codec_by_depth && level + 1 < depth && output + 1 >= depth {
            return false;
        }
        // A move must not leave a file whose next compaction would be very large.
        if output + 1 >= self.version().num_levels() {
            return true;
        }
        let limit = o.compaction_bytes_limit();
        let one_part = |f: &FileMeta| {
            let (low, high) = (f.smallest_user_key(), f.largest_user_key());
            o.partition_prefix
                .is_none_or(|len| low[..len.min(low.len())] == high[..len.min(high.len())])
        };
        files.iter().all(|f| {
            let below = self.overlapping(output + 1, &f.smallest, &f.largest);
            f.size.saturating_add(total_size(&below)) <= limit && one_part(f)
        })
    }

    /// Returns whether no two files of level 0 overlap.
    pub(super) fn level0_is_apart(&self) -> bool {
        let c = self.comparator();
        let mut files: Vec<_> = self.version().files(0).iter().collect();
        files.sort_by(|a, b| c.compare_internal(&a.smallest, &b.smallest));
        files.windows(2).all(|pair| {
            c.compare_internal(&pair[0].largest, &pair[1].smallest)
                .is_lt()
        })
    }
}

/// Where inputs may grow by neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Growth {
    BothWays,
    /// Towards larger keys: files that take turns were compacted before on the left.
    Rightwards,
}

/// A plan before its derived fields are known.
pub(super) struct Draft {
    /// As in the plan.
    pub inputs: Vec<(usize, Files)>,
    pub output_level: usize,
    /// Directory of the outputs; `None` is the one that has room for their level.
    pub output_path: Option<u32>,
    pub grandparents: Files,
    pub reason: CompactionReason,
    pub score: f64,
    /// The inputs from level 0 are known not to overlap each other.
    pub level0_inputs_are_apart: bool,
}

/// Returns whether a running plan holds one of the files.
pub(super) fn any_busy(files: &[Arc<FileMeta>]) -> bool {
    files.iter().any(|f| f.is_being_compacted())
}

/// Bytes of the files.
pub(super) fn total_size(files: &[Arc<FileMeta>]) -> u64 {
    files.iter().map(|f| f.size).sum()
}
