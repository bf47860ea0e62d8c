//! Target sizes, compaction scores and debt of the levels of a version.
//!
//! A level may hold `max_bytes_for_level_base` bytes at the base level and `multiplier` times more
//! per level below it. With *static* targets the base level is 1. With *dynamic* targets the size of
//! the largest level decides: targets are derived from it upwards, level 0 is compacted straight into
//! the base level, and the levels between are empty.
//!
//! ```text
//! dynamic, base 100, multiplier 10, last level 3 000:   L5 = 300, base L4 = 100 (30 < base)
//! ```
//!
//! The score of a level says how much its size exceeds its target; 1 and more means work. Files of
//! running compactions do not count. The debt is an estimate of all bytes that compactions must
//! rewrite until every level is within its target; write stalls follow it.
//!
//! Other styles score level 0 only, which stands for the whole tree, and have no debt: universal
//! compaction by the number of sorted runs, FIFO compaction by the size of all tables (its picker adds
//! what ages say).
//!
//! All numbers are those of RocksDB 11.8, floating-point steps included. Pure computation; reads the flags
//! of the files without a lock.

use super::file_meta::FileMeta;
use super::value_sizes::ValueSizes;
use super::version::Version;
use crate::options::{
    CompactionPri, CompactionStyle, FifoCompactionOptions, UniversalCompactionOptions,
};
use spanlith_base::CompressionType;

/// Scores of dynamic levels that are due are scaled, so that they stay ahead of levels that are not.
const SCORE_SCALE: f64 = 10.0;

/// Weight of surplus tombstones in the compensated size of a file.
const DELETION_WEIGHT: u64 = 2;

/// Describes what compaction needs to know of a family's options.
#[derive(Clone, Debug, PartialEq)]
pub struct LevelOptions {
    /// How tables are arranged.
    pub style: CompactionStyle,
    /// Universal compaction.
    pub universal: UniversalCompactionOptions,
    /// FIFO compaction.
    pub fifo: FifoCompactionOptions,
    /// Size of a memtable.
    pub write_buffer_size: u64,
    /// Runs at which writes stop.
    pub level0_stop_writes_trigger: i32,
    /// Number of levels.
    pub num_levels: u32,
    /// Targets follow the size of the largest level.
    pub level_compaction_dynamic_level_bytes: bool,
    /// Target of the base level.
    pub max_bytes_for_level_base: u64,
    /// Ratio of the targets of adjacent levels.
    pub max_bytes_for_level_multiplier: f64,
    /// Further factor per level, static targets only; 1 beyond its end.
    pub max_bytes_for_level_multiplier_additional: Vec<i32>,
    /// Files in level 0 that make it due.
    pub level0_file_num_compaction_trigger: i32,
    /// Size of the files of the base level.
    pub target_file_size_base: u64,
    /// Ratio of file sizes of adjacent levels.
    pub target_file_size_multiplier: i32,
    /// Limit of a compaction's input and of an output's overlap with the next level; 0 means 25
    /// files of `target_file_size_base`.
    pub max_compaction_bytes: u64,
    /// Which file of a level goes first.
    pub compaction_pri: CompactionPri,
    /// Codec of tables.
    pub compression: CompressionType,
    /// Codec by level: first level 0, then counted from the base level. Empty: not used.
    pub compression_per_level: Vec<CompressionType>,
    /// Codec of the deepest level, if it differs.
    pub bottommost_compression: Option<CompressionType>,
    /// Blocks of the last level with data are compressed better than those above it, and tables of flushes not at all
    /// unless there is a list by level.
    pub codec_by_depth: bool,
    /// Number of paths of the database, whatever the family has: as RocksDB counts them.
    pub path_count: usize,
    /// How much each path should hold, in bytes; empty with one path.
    pub path_targets: Vec<u64>,
    /// Tables may be on a speed disk, whatever paths there are.
    pub has_speed_dir: bool,
    /// A compaction filter must see what manual compactions touch.
    pub has_compaction_filter: bool,
    /// Seconds after which the data of a file moves a level down; 0 means never.
    pub ttl: u64,
    /// Seconds after which a file is rewritten; 0 means never.
    pub periodic_compaction_seconds: u64,
    /// Seconds a bottommost file is left alone before it is rewritten to drop what snapshots kept.
    pub bottommost_file_compaction_delay: u64,
    /// Reads per byte that find no value in a file above which it is compacted; 0 means never.
    pub read_triggered_compaction_threshold: f64,
    /// Outputs are cut where this many leading bytes of the user key change.
    pub partition_prefix: Option<usize>,
    /// Young data stays out of the last level (`preclude_last_level_data_seconds`).
    pub precludes_last_level: bool,
    /// Tables are rewritten for the garbage in old blob files; `None` if not.
    pub forced_blob_gc: Option<ForcedBlobGc>,
    /// Blob files are collected by a target of space instead; `None` if not.
    pub blob_budget: Option<BlobBudget>,
}

/// How much of the blob files may be garbage (`kvsep_gc=budget`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlobBudget {
    /// Share above which tables are rewritten to empty blob files (`kvsep_space_target`).
    pub target: f64,
    /// Share above which this goes before all other compactions (`kvsep_space_max`).
    pub max: f64,
}

/// When tables are rewritten only to get rid of the garbage in blob files.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ForcedBlobGc {
    /// Share of the blob files, from the oldest, that is looked at
    /// (`blob_garbage_collection_age_cutoff`).
    pub age_cutoff: f64,
    /// Share of their bytes that has to be garbage (`blob_garbage_collection_force_threshold`).
    pub threshold: f64,
}

impl Default for LevelOptions {
    fn default() -> Self {
        Self {
            style: CompactionStyle::Level,
            universal: UniversalCompactionOptions::default(),
            fifo: FifoCompactionOptions::default(),
            write_buffer_size: 64 << 20,
            level0_stop_writes_trigger: 36,
            num_levels: 7,
            level_compaction_dynamic_level_bytes: true,
            max_bytes_for_level_base: 256 << 20,
            max_bytes_for_level_multiplier: 10.0,
            max_bytes_for_level_multiplier_additional: Vec::new(),
            level0_file_num_compaction_trigger: 4,
            target_file_size_base: 64 << 20,
            target_file_size_multiplier: 1,
            max_compaction_bytes: 0,
            compaction_pri: CompactionPri::MinOverlappingRatio,
            compression: CompressionType::default(),
            compression_per_level: Vec::new(),
            bottommost_compression: None,
            codec_by_depth: false,
            path_count: 1,
            path_targets: Vec::new(),
            has_speed_dir: false,
            has_compaction_filter: false,
            ttl: 0,
            periodic_compaction_seconds: 0,
            bottommost_file_compaction_delay: 0,
            read_triggered_compaction_threshold: 0.0,
            partition_prefix: None,
            precludes_last_level: false,
            forced_blob_gc: None,
            blob_budget: None,
        }
    }
}

impl LevelOptions {
    /// The limit in bytes of [`Self::max_compaction_bytes`].
    pub fn compaction_bytes_limit(&self) -> u64 {
        match self.max_compaction_bytes {
            0 => self.target_file_size_base.saturating_mul(25),
            set => set,
        }
    }

    /// Returns whether tables are arranged in levels of growing size.
    pub fn is_leveled(&self) -> bool {
        self.style == CompactionStyle::Level
    }

    /// Returns whether a file of a level may be rewritten for its own sake: not by FIFO below level 0, where what another style
    /// left is deleted, and not without compactions.
    fn rewrites_in(&self, level: usize) -> bool {
        match self.style {
            CompactionStyle::Level | CompactionStyle::Universal => true,
            CompactionStyle::Fifo => level == 0,
            CompactionStyle::None => false,
        }
    }

    /// Sorted runs that the rules of write stalls count: files of level 0, and in universal compaction
    /// each other level with data.
    pub fn sorted_runs(&self, version: &Version) -> usize {
        let levels = match self.style {
            CompactionStyle::Universal => 1..version.num_levels(),
            _ => 0..0,
        };
        version.num_files(0) + levels.filter(|&l| version.num_files(l) > 0).count()
    }

    /// Path id of tables that a compaction writes to `level`.
    pub fn output_path(&self, level: usize) -> u32 {
        super::paths::output_path(self, level)
    }

    /// Size at which outputs to `level` are cut.
    pub fn target_file_size(&self, level: usize, base_level: usize) -> u64 {
        let dynamic = self.level_compaction_dynamic_level_bytes && level >= base_level;
        let steps = if dynamic { level - base_level } else { level };
        // The first step down does not multiply: levels 0 and 1 (base and the one below) are equal.
        (1..steps).fold(self.target_file_size_base, |size, _| {
            multiply(size, f64::from(self.target_file_size_multiplier))
        })
    }

    /// Codec of a table written to `level` when nothing else is known; that of flushes for level 0.
    pub fn compression_for(&self, level: usize) -> CompressionType {
        if level == 0 && self.codec_by_depth && self.compression_per_level.is_empty() {
            return CompressionType::None;
        }
        let last = self.compression_per_level.len().wrapping_sub(1);
        let by_level = self.compression_per_level.get(level.min(last));
        by_level.copied().unwrap_or(self.compression)
    }

    /// Codec of a compaction's outputs to `level` of `version`.
    pub fn output_compression(
        &self,
        version: &Version,
        level: usize,
        base_level: usize,
    ) -> CompressionType {
        if let Some(bottommost) = self.bottommost_compression
            && level + 1 >= version.num_non_empty_levels()
        {
            return bottommost;
        }
        self.compression_for(if level == 0 {
            0
        } else {
            (level + 1).saturating_sub(base_level)
        })
    }
}

/// Product as RocksDB computes sizes: the first factor alone if the product overflows.
pub(crate) fn multiply(size: u64, factor: f64) -> u64 {
    if size == 0 || factor <= 0.0 {
        return 0;
    }
    if u64::MAX as f64 / (size as f64) < factor {
        return size;
    }
    (size as f64 * factor) as u64
}

/// Targets, scores and debt of one version at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct LevelTargets {
    /// The level that level 0 is compacted into.
    pub base_level: usize,
    /// Bytes each level may hold; `u64::MAX` for levels above the base level.
    pub max_bytes: Vec<u64>,
    /// Deepest level that the data does not need; it and those above it are emptied.
    pub lowest_unnecessary_level: Option<usize>,
    /// Level and score of all levels but the last, highest score first.
    pub scores: Vec<(usize, f64)>,
    /// Bytes compactions have to rewrite.
    pub pending_compaction_bytes: u64,
    /// Average size of a value.
    pub average_value_size: u64,
    /// Files of level 0 and above the deepest level whose writer asked for compaction, and that are
    /// free.
    pub marked_files: usize,
    /// Files in which RocksDB misses keys, and that are free and can be rewritten where they are.
    pub misleading_files: usize,
}

impl LevelTargets {
    /// Computes everything for `version`.
    pub fn compute(version: &Version, options: &LevelOptions) -> Self {
        let mut targets = if options.level_compaction_dynamic_level_bytes {
            Self::dynamic_targets(version, options)
        } else {
            Self::static_targets(version, options)
        };
        targets.average_value_size = ValueSizes::of(version).average();
        if options.is_leveled() {
            targets.score_levels(version, options);
            targets.pending_compaction_bytes = targets.estimate_debt(version, options);
        } else {
            let score = targets.whole_score(version, options);
            targets.scores.push((0, score));
        }
        targets.marked_files = version
            .file_iter()
            .take_while(|(level, _)| version.may_go_down(*level))
            .filter(|(_, f)| f.is_marked() && !f.is_being_compacted())
            .count();
        targets.misleading_files = version
            .file_iter()
            .filter(|(level, _)| options.rewrites_in(*level))
            .filter(|(_, f)| f.is_misleading() && !f.is_being_compacted())
            .count();
        targets
    }

    fn with_base(base_level: usize, max_bytes: Vec<u64>) -> Self {
        Self {
            base_level,
            max_bytes,
            lowest_unnecessary_level: None,
            scores: Vec::new(),
            pending_compaction_bytes: 0,
            average_value_size: 0,
            marked_files: 0,
            misleading_files: 0,
        }
    }

    fn static_targets(version: &Version, o: &LevelOptions) -> Self {
        let mut max_bytes: Vec<u64> = Vec::with_capacity(version.num_levels());
        for level in 0..version.num_levels() {
            let bytes = match max_bytes.last() {
                Some(&above) if level > 1 => {
                    let additional = &o.max_bytes_for_level_multiplier_additional;
                    let factor = additional.get(level - 1).copied().unwrap_or(1);
                    let scaled = multiply(above, o.max_bytes_for_level_multiplier);
                    multiply(scaled, f64::from(factor))
                }
                _ => o.max_bytes_for_level_base,
            };
            max_bytes.push(bytes);
        }
        Self::with_base(1, max_bytes)
    }

    fn dynamic_targets(version: &Version, o: &LevelOptions) -> Self {
        let levels = version.num_levels();
        let mut max_bytes = vec![u64::MAX; levels];
        let largest = (1..levels)
            .map(|l| version.level_bytes(l))
            .max()
            .unwrap_or(0);
        let first_non_empty = (1..levels).find(|&l| version.level_bytes(l) > 0);
        let Some(first) = first_non_empty else {
            return Self::with_base(levels.saturating_sub(1), max_bytes);
        };
        let base_max = o.max_bytes_for_level_base;
        let divide = |size: u64| (size as f64 / o.max_bytes_for_level_multiplier) as u64;
        let base_min = divide(base_max);

        // Size of the first non-empty level if the largest level were the last one.
        let mut size = largest;
        let mut unnecessary = None;
        for level in (first..levels - 1).rev() {
            size = divide(size);
            // Young data needs the level above the last one.
            let is_needed = o.precludes_last_level && level + 2 == levels;
            if unnecessary.is_none() && size <= base_min && !is_needed {
                unnecessary = Some(level);
            }
        }
        let mut base = first;
        let base_size = if size <= base_min {
            base_min + 1
        } else {
            while base > 1 && size > base_max {
                base -= 1;
                size = divide(size);
            }
            size.min(base_max).max(1)
        };
        let mut size = base_size;
        for (level, bytes) in max_bytes.iter_mut().enumerate().skip(base) {
            if level > base {
                size = multiply(size, o.max_bytes_for_level_multiplier);
            }
            // A smaller target would give an hourglass shape when level 0 is large.
            *bytes = size.max(base_max);
        }
        let mut targets = Self::with_base(base, max_bytes);
        targets.lowest_unnecessary_level = unnecessary;
        targets
    }

    fn score_levels(&mut self, version: &Version, o: &LevelOptions) {
        let mut incoming = 0.0_f64;
        for level in 0..version.num_levels().saturating_sub(1) {
            let score = if level == 0 {
                incoming += version.level_bytes(0) as f64;
                self.level0_score(version, o)
            } else {
                let score = self.level_score(version, o, level, incoming);
                let bytes = version.level_bytes(level);
                let target = self.max_bytes[level];
                if self.is_unnecessary(level) {
                    incoming += bytes as f64;
                } else if bytes > target {
                    incoming += (bytes - target) as f64;
                }
                score
            };
            let score = score.max(Self::hidden_score(version, level, o));
            self.scores.push((level, score));
        }
        // Stable: of equal scores the upper level goes first.
        self.scores.sort_by(|a, b| b.1.total_cmp(&a.1));
    }

    /// How due a level is for the garbage that its entries may hide below it: 1 and more if the bytes in
    /// blob files that it and the levels above it refer to exceed half of the target's share of all. At rest
    /// all upper levels together refer to less than that.
    fn hidden_score(version: &Version, level: usize, o: &LevelOptions) -> f64 {
        let deepest = version.num_non_empty_levels().saturating_sub(1);
        let total: u64 = version
            .blob_files
            .values()
            .map(|f| f.file.total_bytes)
            .sum();
        let Some(budget) = o.blob_budget.filter(|_| level < deepest && total > 0) else {
            return 0.0;
        };
        let of_level = |level: usize| -> u64 {
            let free = version.files(level).iter();
            let free = free.filter(|f| !f.is_being_compacted());
            free.filter_map(|f| f.blob_refs()).map(|r| r.bytes()).sum()
        };
        if of_level(level) == 0 {
            return 0.0;
        }
        let referred: u64 = (0..=level).map(of_level).sum();
        referred as f64 / (0.5 * budget.target * total as f64)
    }

    /// The score of a tree that is not leveled.
    fn whole_score(&self, version: &Version, o: &LevelOptions) -> f64 {
        let free = || version.files(0).iter().filter(|f| !f.is_being_compacted());
        let trigger = f64::from(o.level0_file_num_compaction_trigger);
        match o.style {
            CompactionStyle::Universal => {
                // A level counts by its first file, as in RocksDB.
                let free_level = |level: &usize| {
                    let first = version.files(*level).first();
                    first.is_some_and(|f| !f.is_being_compacted())
                };
                let levels = (1..version.num_levels()).filter(free_level).count();
                (free().count() + levels) as f64 / trigger
            }
            CompactionStyle::Fifo => {
                let tables: u64 = free().map(|f| self.compensated_size(f)).sum();
                let fifo = &o.fifo;
                let (size, most) = match fifo.max_data_files_size {
                    0 => (tables, fifo.max_table_files_size),
                    most => (tables.saturating_add(version.blob_bytes()), most),
                };
                let score = size as f64 / most.max(1) as f64;
                if score < 1.0 && fifo.allow_compaction {
                    return score.max(free().count() as f64 / trigger);
                }
                score
            }
            _ => 0.0,
        }
    }

    fn level0_score(&self, version: &Version, o: &LevelOptions) -> f64 {
        let free = || version.files(0).iter().filter(|f| !f.is_being_compacted());
        let runs = free().count() as f64;
        let bytes: u64 = free().map(|f| self.compensated_size(f)).sum();
        let trigger = f64::from(o.level0_file_num_compaction_trigger);
        let mut score = runs / trigger;
        let base_bytes = o.max_bytes_for_level_base;
        if !o.level_compaction_dynamic_level_bytes {
            return score.max(bytes as f64 / base_bytes as f64);
        }
        if bytes >= base_bytes {
            // The debt counts level 0 as due: make sure that it is.
            score = score.max(1.01);
        }
        let base_target = self
            .max_bytes
            .get(self.base_level)
            .copied()
            .unwrap_or(u64::MAX);
        if bytes > base_target {
            let files = version.files(self.base_level);
            let base_size: u64 = files.iter().map(|f| self.compensated_size(f)).sum();
            score = score.max(bytes as f64 / base_size.max(base_target) as f64);
        }
        if score > 1.0 {
            score *= SCORE_SCALE;
        }
        score
    }

    fn level_score(&self, version: &Version, o: &LevelOptions, level: usize, incoming: f64) -> f64 {
        let files = version.files(level).iter();
        let free: u64 = files
            .filter(|f| !f.is_being_compacted())
            .map(|f| self.compensated_size(f))
            .sum();
        let target = self.max_bytes[level];
        if !o.level_compaction_dynamic_level_bytes || free < target {
            let score = free as f64 / target as f64;
            return self.drained_score(level, free, score, o);
        }
        // Files that are about to come down would be merged with it again: wait for them.
        let score = free as f64 / (target as f64 + incoming) * SCORE_SCALE;
        self.drained_score(level, free, score, o)
    }

    /// A level that is not needed is emptied, after a due level 0 and from the top.
    fn drained_score(&self, level: usize, free: u64, score: f64, o: &LevelOptions) -> f64 {
        match self.lowest_unnecessary_level {
            Some(lowest)
                if o.level_compaction_dynamic_level_bytes && free > 0 && level <= lowest =>
            {
                score.max(SCORE_SCALE * (1.001 + 0.001 * (lowest - level) as f64))
            }
            _ => score,
        }
    }

    fn is_unnecessary(&self, level: usize) -> bool {
        self.lowest_unnecessary_level
            .is_some_and(|lowest| level <= lowest)
    }

    fn estimate_debt(&self, version: &Version, o: &LevelOptions) -> u64 {
        let mut debt = 0_u64;
        let mut inflow = 0_u64;
        let level0 = version.level_bytes(0);
        let trigger = usize::try_from(o.level0_file_num_compaction_trigger).unwrap_or(0);
        let level0_due = version.num_files(0) >= trigger || level0 >= o.max_bytes_for_level_base;
        if level0_due {
            debt = level0;
            inflow = level0;
        }
        for level in self.base_level..version.num_levels().saturating_sub(1) {
            let mut size = version.level_bytes(level);
            if level == self.base_level && level0_due {
                debt = debt.saturating_add(size);
            }
            size = size.saturating_add(inflow);
            inflow = 0;
            let target = self.max_bytes[level];
            if size > target {
                inflow = size - target;
                let next = version.level_bytes(level + 1);
                if next > 0 {
                    let fan_out = next as f64 / size as f64 + 1.0;
                    debt = debt.saturating_add((inflow as f64 * fan_out) as u64);
                }
            }
        }
        debt
    }

    /// Highest score; at least 1 when files are marked. 1 and more means that a compaction is due.
    pub fn top_score(&self) -> f64 {
        let score = self.scores.first().map_or(0.0, |&(_, score)| score);
        if self.marked_files > 0 || self.misleading_files > 0 {
            score.max(1.0)
        } else {
            score
        }
    }

    /// Size of a file as compaction weighs it: surplus tombstones count as the values they will
    /// remove.
    pub fn compensated_size(&self, file: &FileMeta) -> u64 {
        let weight = match file.stats.get() {
            Some(stats) => file.tombstone_weight(|| {
                let deletions = stats.num_deletions;
                let twice = deletions.saturating_sub(stats.num_range_deletions) * 2;
                twice
                    .saturating_sub(stats.num_entries)
                    .saturating_mul(self.average_value_size)
                    .saturating_mul(DELETION_WEIGHT)
            }),
            None => 0,
        };
        file.size
            .saturating_add(weight)
            .saturating_add(file.compensated_range_deletion_size)
    }
}

#[cfg(test)]
mod tests;
