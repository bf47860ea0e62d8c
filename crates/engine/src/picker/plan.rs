//! Describes what a compaction will do: its inputs, where the outputs go, and how they are cut.
//!
//! A plan is data. The pickers make it, the job carries it out, the caller of both sets and clears
//! the flags of the input files (C2).

use super::RunningCompaction;
use super::forced_cuts::ForcedCuts;
use super::proximal::ProximalOutput;
use crate::options::Temperature;
use crate::version::FileMeta;
use crate::version::version::sstable_key_compare;
use spanlith_base::Comparator;
use spanlith_base::CompressionType;
use spanlith_base::keys::user_key;
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// Why a compaction was picked. Names and texts are RocksDB's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CompactionReason {
    /// Level 0 holds too many files or bytes.
    LevelL0FilesNum,
    /// A level is larger than its target, or not needed.
    LevelMaxLevelSize,
    /// A caller asked for a key range.
    ManualCompaction,
    /// A table property collector asked for it.
    FilesMarkedForCompaction,
    /// Nothing protects sequence numbers and tombstones of a bottommost file any more.
    BottommostFiles,
    /// A file's data is older than `ttl`.
    Ttl,
    /// A file is older than `periodic_compaction_seconds`.
    PeriodicCompaction,
    /// Some data is older than `ttl`, and files take their turn.
    RoundRobinTtl,
    /// Old blob files hold much garbage.
    ForcedBlobGc,
    /// A caller named the files.
    ManualFiles,
    /// Universal: the newer runs take too much space beside the oldest.
    UniversalSizeAmplification,
    /// Universal: runs of similar size stand side by side.
    UniversalSizeRatio,
    /// Universal: there are too many runs.
    UniversalSortedRunNum,
    /// FIFO: all tables together are too large.
    FifoMaxSize,
    /// FIFO: small files are merged.
    FifoReduceNumFiles,
    /// FIFO: files are older than `ttl`.
    FifoTtl,
    /// FIFO: a file is old enough for another temperature.
    ChangeTemperature,
    /// Many reads find no value in a file.
    ReadTriggered,
}

impl CompactionReason {
    /// Returns whether a caller asked for it.
    pub fn is_manual(self) -> bool {
        matches!(self, Self::ManualCompaction | Self::ManualFiles)
    }

    /// RocksDB's name, as events print it.
    pub fn name(self) -> &'static str {
        match self {
            Self::LevelL0FilesNum => "LevelL0FilesNum",
            Self::LevelMaxLevelSize => "LevelMaxLevelSize",
            Self::ManualCompaction => "ManualCompaction",
            Self::FilesMarkedForCompaction => "FilesMarkedForCompaction",
            Self::BottommostFiles => "BottommostFiles",
            Self::Ttl => "Ttl",
            Self::PeriodicCompaction => "PeriodicCompaction",
            Self::RoundRobinTtl => "RoundRobinTtl",
            Self::ForcedBlobGc => "ForcedBlobGC",
            Self::UniversalSizeAmplification => "UniversalSizeAmplification",
            Self::UniversalSizeRatio => "UniversalSizeRatio",
            Self::UniversalSortedRunNum => "UniversalSortedRunNum",
            Self::FifoMaxSize => "FIFOMaxSize",
            Self::FifoReduceNumFiles => "FIFOReduceNumFiles",
            Self::FifoTtl => "FIFOTtl",
            Self::ChangeTemperature => "ChangeTemperature",
            Self::ReadTriggered => "ReadTriggered",
            // RocksDB does not tell the two kinds of manual compactions apart.
            Self::ManualFiles => "ManualCompaction",
        }
    }
}

/// One compaction.
#[derive(Clone, Debug)]
pub struct CompactionPlan {
    /// Files per level, upper level first; levels without files are left out. Files of level 0 are newest
    /// first, others by key.
    pub inputs: Vec<(usize, Vec<Arc<FileMeta>>)>,
    /// Level the outputs go to.
    pub output_level: usize,
    /// Index of the directory they go to.
    pub output_path: u32,
    /// The level above, if what is young goes there.
    pub proximal: Option<ProximalOutput>,
    /// Base level when the plan was made.
    pub base_level: usize,
    /// Files the outputs overlap in the first level below that has any: outputs are cut along them.
    pub grandparents: Vec<Arc<FileMeta>>,
    /// Size outputs should have.
    pub target_file_size: u64,
    /// Size at which outputs are cut in any case; `u64::MAX` in level 0, whose outputs stay whole.
    pub max_output_file_size: u64,
    /// Limit for an output together with the grandparents it overlaps.
    pub max_compaction_bytes: u64,
    /// Codec of the outputs.
    pub compression: CompressionType,
    /// The outputs lie in the deepest level that holds data: its codec's options count.
    pub is_last_data_level: bool,
    /// Files of the output level that are old and not small: outputs end where they begin and end,
    /// so that old data stays apart and can go on sinking.
    pub old_files: Vec<Arc<FileMeta>>,
    /// Outputs are cut where this many leading bytes of the user key change.
    pub partition_prefix: Option<usize>,
    /// Internal key before which an output ends: where round robin goes on in the output level.
    pub split_key: Option<Vec<u8>>,
    /// Level and internal key where round robin goes on.
    pub next_cursor: Option<(u32, Vec<u8>)>,
    /// The work may be split into ranges that run at once.
    pub may_split: bool,
    /// All files of the family are inputs.
    pub is_full: bool,
    /// Nothing older lies below the outputs.
    pub bottommost: bool,
    /// The inputs are listed in the output level as they are, nothing is rewritten.
    pub is_trivial_move: bool,
    /// The inputs are dropped, nothing is written, and whatever they hold is gone.
    pub only_deletes: bool,
    /// Level compaction: outputs end where it keeps later compactions small, and what lies below is
    /// looked at key by key.
    pub is_leveled: bool,
    /// Temperature of the outputs, if the plan is to change it.
    pub output_temperature: Temperature,
    /// Why.
    pub reason: CompactionReason,
    /// Score of the level when the plan was made, 0 if it did not decide.
    pub score: f64,
}

impl CompactionPlan {
    /// All input files.
    pub fn input_files(&self) -> impl Iterator<Item = &Arc<FileMeta>> {
        self.inputs.iter().flat_map(|(_, files)| files)
    }

    /// Bytes of all input files.
    pub fn input_bytes(&self) -> u64 {
        self.input_files().map(|f| f.size).sum()
    }

    /// Smallest and largest user key of all inputs.
    ///
    /// Requires: at least one input file.
    pub fn user_key_range(&self, comparator: &Comparator) -> (Vec<u8>, Vec<u8>) {
        let by_order = |a: &&[u8], b: &&[u8]| comparator.compare(a, b);
        let low = self
            .input_files()
            .map(|f| f.smallest_user_key())
            .min_by(by_order);
        let high = self
            .input_files()
            .map(|f| f.largest_user_key())
            .max_by(by_order);
        (
            low.unwrap_or_default().to_vec(),
            high.unwrap_or_default().to_vec(),
        )
    }

    /// The plan as other picks see it while job `id` carries it out. Requires: at least one input file.
    pub fn running(&self, id: u64, comparator: &Comparator) -> RunningCompaction {
        let (smallest, largest) = self.user_key_range(comparator);
        RunningCompaction {
            id,
            output_level: self.output_level,
            smallest,
            largest,
            input_levels: self.inputs.iter().map(|i| i.0).collect(),
            proximal: self.proximal.clone(),
        }
    }
}

impl fmt::Display for CompactionPlan {
    /// One line for the info log: what goes where, and why.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = match (self.only_deletes, self.is_trivial_move) {
            (true, _) => "delete",
            (_, true) => "move",
            _ => "merge",
        };
        write!(f, "{verb} ")?;
        for (i, (level, files)) in self.inputs.iter().enumerate() {
            let plus = if i == 0 { "" } else { " + " };
            let numbers: Vec<_> = files.iter().map(|f| f.number.to_string()).collect();
            write!(f, "{plus}L{level}:{}", numbers.join(","))?;
        }
        write!(
            f,
            " -> L{} ({}, score {:.2}, base L{})",
            self.output_level,
            self.reason.name(),
            self.score,
            self.base_level
        )
    }
}

/// Decides before which keys the outputs of a plan are cut.
///
/// Apart from its size, an output ends where a file of the next level begins or ends, if that keeps
/// later compactions small: when the overlap grows too large, when the coming key would step over
/// whole files below, or when the output is nearly full anyway. Cuts fall between internal keys.
///
/// Cost per key: one comparison of words while the key lies before the next boundary.
#[derive(Debug)]
pub struct OutputCutter {
    comparator: Comparator,
    grandparents: Vec<Arc<FileMeta>>,
    is_level0: bool,
    is_leveled: bool,
    target_file_size: u64,
    max_output_file_size: u64,
    max_compaction_bytes: u64,
    /// First grandparent that does not end before the last key.
    index: usize,
    /// The last key lies before grandparent `index`, not inside.
    in_gap: bool,
    /// A key has been seen, so an output is open.
    started: bool,
    /// Bytes of grandparents the open output overlaps.
    overlapped_bytes: u64,
    /// Boundaries of grandparents crossed by the open output.
    boundaries: usize,
    /// The key asked last; only with timestamps.
    last_key: Option<Vec<u8>>,
    /// Keys whose word is smaller cross no boundary.
    next_word: u64,
    /// Further places to cut; most plans have none.
    forced: Option<Box<ForcedCuts>>,
}

impl OutputCutter {
    /// A cutter for the outputs of `plan` between two user keys, `None` for all; each range of a split
    /// plan has its own.
    pub fn new(
        plan: &CompactionPlan,
        comparator: Comparator,
        start: Option<&[u8]>,
        end: Option<&[u8]>,
    ) -> Self {
        let is_inside = |key: &[u8]| {
            let to = |bound| comparator.compare_without_timestamp(user_key(key), true, bound, true);
            start.is_none_or(|s| to(s).is_gt()) && end.is_none_or(|e| to(e).is_lt())
        };
        let split_key = plan.split_key.clone().filter(|key| is_inside(key));
        let forced = ForcedCuts::new(plan, split_key);
        Self {
            last_key: (comparator.timestamp_size() > 0).then(Vec::new),
            comparator,
            grandparents: plan.grandparents.clone(),
            is_level0: plan.output_level == 0,
            is_leveled: plan.is_leveled,
            target_file_size: plan.target_file_size,
            max_output_file_size: plan.max_output_file_size,
            max_compaction_bytes: plan.max_compaction_bytes,
            index: 0,
            in_gap: true,
            started: false,
            overlapped_bytes: 0,
            boundaries: 0,
            next_word: 0,
            forced,
        }
    }

    /// Returns whether the open output, `current_size` bytes so far, ends before `internal_key`. To be asked
    /// for every key that is written, in order; the key then belongs to the open or next output.
    /// Never true for the first key.
    #[inline]
    pub fn should_cut_before(&mut self, internal_key: &[u8], current_size: u64) -> bool {
        if self.last_key.is_none() && self.forced.is_none() {
            return self.cut_by_size(internal_key, current_size);
        }
        self.should_cut_specially(internal_key, current_size)
    }

    /// With timestamps or further places to cut.
    #[inline(never)]
    fn should_cut_specially(&mut self, internal_key: &[u8], current_size: u64) -> bool {
        if let Some(last) = &mut self.last_key {
            let key = user_key(internal_key);
            // Versions of a key stay together.
            let same = self.started && self.comparator.same_key(key, last);
            last.clear();
            last.extend_from_slice(key);
            if same {
                return false;
            }
        }
        let first = !self.started;
        let is_full = !self.is_level0 && current_size >= self.max_output_file_size;
        let cut = self.cut_by_size(internal_key, current_size);
        let (Some(forced), c) = (&mut self.forced, &self.comparator) else {
            return cut;
        };
        let crosses_old_file = forced.crosses_old_file(c, internal_key);
        let mut is_forced = forced.changes_prefix(internal_key) | crosses_old_file;
        if first {
            return false;
        }
        // As in RocksDB a key that another rule cuts before is not asked.
        if !is_forced && !is_full {
            is_forced = forced.passes_split_key(c, internal_key);
        }
        if is_forced && !cut {
            self.start_output(internal_key);
        }
        cut || is_forced
    }

    #[inline(always)]
    fn cut_by_size(&mut self, internal_key: &[u8], current_size: u64) -> bool {
        if self.started
            && (self.index >= self.grandparents.len()
                || self.comparator.prefix(user_key(internal_key)) < self.next_word)
        {
            // No boundary is crossed: the size alone decides.
            let cut = !self.is_level0 && current_size >= self.max_output_file_size;
            if cut {
                self.start_output(internal_key);
            }
            return cut;
        }
        self.cut_at_boundary(internal_key, current_size)
    }

    #[inline(never)]
    fn cut_at_boundary(&mut self, internal_key: &[u8], current_size: u64) -> bool {
        let first = !self.started;
        let overlapped_before = self.overlapped_bytes;
        let crossed = self.advance(internal_key);
        if first || self.is_level0 {
            return false;
        }
        let cut = current_size >= self.max_output_file_size
            || (crossed > 0
                && self.boundary_is_a_good_cut(crossed, overlapped_before, current_size));
        if cut {
            self.start_output(internal_key);
        }
        cut
    }

    fn boundary_is_a_good_cut(&self, crossed: usize, overlapped_before: u64, size: u64) -> bool {
        if self.overlapped_bytes.saturating_add(size) > self.max_compaction_bytes {
            return true;
        }
        if !self.is_leveled {
            return false;
        }
        // A whole grandparent lies between the last key and this one, and it is not small.
        let skips = if self.in_gap { 2 } else { 3 };
        let newly_overlapped = self.overlapped_bytes.saturating_sub(overlapped_before);
        if crossed >= skips && newly_overlapped > self.target_file_size / 8 {
            return true;
        }
        // Outputs that met many boundaries will meet more: they may grow nearer to the target.
        let percent = 50 + (self.boundaries * 5).min(40) as u64;
        size >= self.target_file_size.div_ceil(100).saturating_mul(percent)
    }

    /// Begins the accounting of an output whose first key is `internal_key`.
    fn start_output(&mut self, internal_key: &[u8]) {
        self.boundaries = 0;
        self.overlapped_bytes = self.overlap_of_key(internal_key);
    }

    /// Moves to the grandparent that holds the key or the gap before it; returns how many boundaries
    /// lie between the last key and this one.
    fn advance(&mut self, key: &[u8]) -> usize {
        let mut crossed = 0;
        while let Some(file) = self.grandparents.get(self.index) {
            if self.in_gap {
                if sstable_key_compare(&self.comparator, key, &file.smallest).is_lt() {
                    break;
                }
                if self.started {
                    crossed += 1;
                    self.boundaries += 1;
                    self.overlapped_bytes += file.size;
                }
                self.in_gap = false;
                continue;
            }
            match sstable_key_compare(&self.comparator, key, &file.largest) {
                Ordering::Less => break,
                // Of several files with the user key the last one counts.
                Ordering::Equal if !self.next_begins_at_or_before(key) => break,
                _ => {}
            }
            if self.started {
                crossed += 1;
                self.boundaries += 1;
            }
            self.in_gap = true;
            self.index += 1;
        }
        if !self.started && !self.in_gap {
            self.overlapped_bytes = self.overlap_of_key(key);
        }
        self.started = true;
        self.next_word = self.grandparents.get(self.index).map_or(u64::MAX, |file| {
            let bound = if self.in_gap {
                &file.smallest
            } else {
                &file.largest
            };
            self.comparator.prefix(user_key(bound))
        });
        crossed
    }

    fn next_begins_at_or_before(&self, key: &[u8]) -> bool {
        self.grandparents
            .get(self.index + 1)
            .is_some_and(|next| sstable_key_compare(&self.comparator, key, &next.smallest).is_ge())
    }

    /// Bytes of the grandparents that hold the key: several if they share its user key.
    fn overlap_of_key(&self, key: &[u8]) -> u64 {
        if self.in_gap {
            return 0;
        }
        let Some((last, before)) = self
            .grandparents
            .get(..=self.index)
            .and_then(|upto| upto.split_last())
        else {
            return 0;
        };
        let ends_at_key =
            |f: &&Arc<FileMeta>| sstable_key_compare(&self.comparator, key, &f.largest).is_eq();
        last.size
            + before
                .iter()
                .rev()
                .take_while(ends_at_key)
                .map(|f| f.size)
                .sum::<u64>()
    }
}

#[cfg(test)]
mod tests;
