//! Describes what level compaction does by itself.
//!
//! In this order: the level with the highest score that is due and can be worked on (level 0 into
//! the base level or, when that is blocked, into level 0 itself; any other level into the next);
//! files whose writer asked for compaction; bottommost files that are protected by nothing any more.
//!
//! Then come files whose data is older than `ttl`, and files that are older than
//! `periodic_compaction_seconds`, tables that refer to old blob files with much garbage, and last files that
//! many reads pass through in vain.
//!
//! In a level that is due, files are tried by `compaction_pri`: by default the file that overlaps
//! the next level least, relative to its own size.

use super::inputs::{Draft, Files, Growth, PickerInput, Picking, any_busy, total_size};
use super::plan::{CompactionPlan, CompactionReason};
use super::sorting::{sort_all, sort_front};
use crate::options::CompactionPri;
use crate::version::FileMeta;
use crate::version::levels::multiply;
use spanlith_base::keys::user_key;
use std::cmp::Reverse;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Files of a level that are put in order; what follows them is tried in any order.
const SORTED_FILES: usize = 50;

/// Fewest files of level 0 that are merged into one because level 0 cannot go down.
pub(super) const MIN_INTRA_L0_FILES: usize = 4;

/// Most files that move down in one step.
const MAX_MOVED_FILES: usize = 4;

/// The next compaction of a family, if any is due and can run beside those that are running.
pub fn pick_leveled(input: &PickerInput<'_>) -> Option<CompactionPlan> {
    let picking = Picking::new(input);
    let by_space = || {
        let tables = picking.with_victims();
        picking.start_of(tables, Target::SameOrBase, CompactionReason::ForcedBlobGc)
    };
    if picking.blob_space_is_urgent()
        && let Some(start) = by_space()
    {
        return start;
    }
    let mut level0_skipped = false;
    for &(level, score) in &picking.targets.scores {
        if score < 1.0 {
            break;
        }
        if level0_skipped && level == picking.targets.base_level {
            // More work in the base level would keep level 0 waiting still longer.
            continue;
        }
        match picking.pick_from_level(level, score) {
            ControlFlow::Break(plan) => return plan,
            ControlFlow::Continue(()) if level == 0 => {
                level0_skipped = true;
                if let Some(files) = picking.intra_level0() {
                    return picking.finish_level0(files, score);
                }
            }
            ControlFlow::Continue(()) => {}
        }
    }
    if let Some(start) = picking.marked_start() {
        return start;
    }
    if let Some(plan) = picking.rewrite_misleading() {
        return plan;
    }
    let marked = picking.bottommost_marked();
    if let Some(start) = picking.start_of(marked, Target::Same, CompactionReason::BottommostFiles) {
        return start;
    }
    let o = input.options;
    let expired = || picking.expired();
    if o.compaction_pri == CompactionPri::RoundRobin
        && let Some((level, _)) = expired().next()
        && level > 0
        && let Some(files) = picking.pick_by_priority(level, level + 1)
    {
        return picking.finish(Start {
            level,
            output_level: level + 1,
            files,
            reason: CompactionReason::RoundRobinTtl,
            score: 0.0,
            level0_move: false,
        });
    }
    if let Some(start) = picking.start_of(expired(), Target::NotFromLast, CompactionReason::Ttl) {
        return start;
    }
    let target = if o.level_compaction_dynamic_level_bytes {
        Target::Next
    } else {
        Target::Same
    };
    if let Some(start) = picking.start_of(
        picking.periodic(),
        target,
        CompactionReason::PeriodicCompaction,
    ) {
        return start;
    }
    let forced = picking.forced_by_blobs();
    if let Some(start) = picking.start_of(forced, Target::Same, CompactionReason::ForcedBlobGc) {
        return start;
    }
    let hot = picking.read_hot().into_iter();
    if let Some(start) = picking.start_of(hot, Target::Next, CompactionReason::ReadTriggered) {
        return start;
    }
    by_space().flatten()
}

/// Returns whether [`pick_leveled`] would look for something to do: a level is due, or a file is marked.
pub fn leveled_needs_compaction(input: &PickerInput<'_>) -> bool {
    let picking = Picking::new(input);
    picking.targets.top_score() >= 1.0
        || picking.bottommost_marked().next().is_some()
        || picking.expired().next().is_some()
        || picking.periodic().next().is_some()
        || picking.forced_by_blobs().next().is_some()
        || !picking.read_hot().is_empty()
        || picking.with_victims().next().is_some()
}

/// Where a file goes that is compacted for its own sake.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Target {
    /// It is rewritten where it is.
    Same,
    /// It is rewritten where it is, but from level 0 it goes to the base level.
    SameOrBase,
    /// A level down; where it is if it lies in the deepest level with data.
    Next,
    /// A level down; not at all if it lies in the deepest level with data.
    NotFromLast,
}

/// Where files of a level start, before files of the output level are added.
struct Start {
    level: usize,
    output_level: usize,
    files: Files,
    reason: CompactionReason,
    score: f64,
    /// Files of level 0 that overlap neither each other nor the output level.
    level0_move: bool,
}

impl Picking<'_> {
    /// Tries a due level. `Break` ends the pick, with or without a plan; `Continue` tries the next
    /// level.
    fn pick_from_level(&self, level: usize, score: f64) -> ControlFlow<Option<CompactionPlan>> {
        let output_level = self.next_level(level);
        let reason = match level {
            0 => CompactionReason::LevelL0FilesNum,
            _ => CompactionReason::LevelMaxLevelSize,
        };
        let start = |files, level0_move| Start {
            level,
            output_level,
            files,
            reason,
            score,
            level0_move,
        };
        if level == 0 {
            let busy = self.level0_is_busy();
            if !busy && let Some(files) = self.level0_move(output_level) {
                return ControlFlow::Break(self.finish(start(files, true)));
            }
            if let Some(files) = self.size_based_intra_level0() {
                return ControlFlow::Break(self.finish_level0(files, score));
            }
            if busy {
                return ControlFlow::Continue(());
            }
        }
        match self.pick_by_priority(level, output_level) {
            Some(files) => ControlFlow::Break(self.finish(start(files, false))),
            None => ControlFlow::Continue(()),
        }
    }

    /// The first file by priority that can be compacted now, with what must go with it.
    fn pick_by_priority(&self, level: usize, output_level: usize) -> Option<Files> {
        let order = self.by_priority(level);
        // Files that take turns wait for their turn: only the first one counts.
        let tried = match self.input.options.compaction_pri {
            CompactionPri::RoundRobin => 1,
            _ => order.len(),
        };
        let files = self.version().files(level);
        let mut order = (order.into_iter())
            .filter(|&index| !self.comes_back(&files[index], output_level))
            .take(tried);
        order.find_map(|index| self.startable(level, index, output_level))
    }

    /// File `index` of a level and what must go with it, if they can be compacted now.
    fn startable(&self, level: usize, index: usize, output_level: usize) -> Option<Files> {
        let files = self.version().files(level);
        if files[index].is_being_compacted() {
            return None;
        }
        let inputs = self.clean_cut(level, vec![Arc::clone(&files[index])])?;
        let sets = [&inputs[..]];
        if self.output_conflicts(output_level, &sets) {
            return None;
        }
        let (low, high) = self.range(&sets);
        let outputs = self.overlapping(output_level, low, high);
        if outputs.is_empty() {
            if level > 0 && inputs.len() == 1 {
                return Some(self.more_to_move(level, index, output_level));
            }
            return Some(inputs);
        }
        self.clean_cut(output_level, outputs)?;
        Some(inputs)
    }

    /// As many files from the first in turn on as bring the level back to its target, while the
    /// whole stays within the limit of a compaction. A move may become a merge by that, as in
    /// RocksDB.
    fn more_in_turn(&self, level: usize, output_level: usize, start: Files) -> Files {
        let files = self.version().files(level);
        let last = start.last().map(|f| f.number);
        let Some(last) = files.iter().position(|f| Some(f.number) == last) else {
            return start;
        };
        let free = files.iter().filter(|f| !f.is_being_compacted());
        let bytes: u64 = free.map(|f| f.size).sum();
        let wanted = bytes.saturating_sub(self.targets.max_bytes[level]);
        if start.first().is_none_or(|f| f.size >= wanted) {
            return start;
        }
        let limit = self.input.options.compaction_bytes_limit();
        let (mut best, mut grown) = (start.clone(), start);
        for file in &files[last + 1..] {
            if file.is_being_compacted() {
                return best;
            }
            if grown.iter().any(|f| f.number == file.number) {
                // A clean cut took it in.
                continue;
            }
            grown.push(Arc::clone(file));
            let Some(clean) = self.clean_cut(level, grown) else {
                return best;
            };
            grown = clean;
            let sets = [&grown[..]];
            if self.output_conflicts(output_level, &sets) {
                return best;
            }
            let (low, high) = self.range(&sets);
            let mut outputs = self.overlapping(output_level, low, high);
            if !outputs.is_empty() {
                match self.clean_cut(output_level, outputs) {
                    Some(clean) => outputs = clean,
                    None => return best,
                }
            }
            let own_bytes = total_size(&grown);
            if own_bytes.saturating_add(total_size(&outputs)) > limit {
                return best;
            }
            best.clone_from(&grown);
            if own_bytes > wanted {
                return best;
            }
        }
        best
    }

    /// Where round robin goes on after `passed` files of a level.
    fn next_cursor(&self, level: usize, passed: usize) -> Option<(u32, Vec<u8>)> {
        let order = self.by_priority(level);
        let next = order.get(passed).or(order.first())?;
        let key = self.version().files(level).get(*next)?.smallest.clone();
        Some((u32::try_from(level).ok()?, key))
    }

    /// Files whose turn it is and that are passed over, being too young.
    fn young_in_turn(&self, level: usize, output_level: usize) -> usize {
        let files = self.version().files(level);
        let order = self.by_priority(level).into_iter();
        order
            .take_while(|&index| self.comes_back(&files[index], output_level))
            .count()
    }

    /// Indices of the files of a level from the one on whose turn it is.
    fn in_turn(&self, level: usize) -> Vec<usize> {
        let files = self.version().files(level);
        let cursors = &self.version().compact_cursors;
        let cursor = u32::try_from(level).ok().and_then(|l| cursors.get(&l));
        let c = self.comparator();
        let first = cursor.map_or(0, |cursor| {
            files.partition_point(|f| c.compare_internal(&f.smallest, cursor).is_lt())
        });
        let first = if first == files.len() { 0 } else { first };
        (first..files.len()).chain(0..first).collect()
    }

    /// How much more urgent a file is for the age of its data, the more the deeper it lies.
    fn age_boost(&self, level: usize, file: &FileMeta) -> u64 {
        let (ttl, now) = (self.input.options.ttl, self.input.now);
        let deepest = self.version().num_non_empty_levels().saturating_sub(1);
        if ttl == 0 || level == 0 || level >= deepest {
            return 1;
        }
        let all_start = ttl / 2;
        let range = ((ttl / 32 * 31).saturating_sub(all_start)) >> (deepest - level);
        let start = all_start + range;
        let step = (range / 16).max(1);
        let age = now.saturating_sub(file.ancester_time());
        if age > start {
            (age - start) / step + 1
        } else {
            1
        }
    }

    /// Indices of the files of a level, the most urgent first.
    fn by_priority(&self, level: usize) -> Vec<usize> {
        let files = self.version().files(level);
        let c = self.comparator();
        let smallest_first =
            |a: &usize, b: &usize| c.compare_internal(&files[*a].smallest, &files[*b].smallest);
        let size = |i: usize| self.targets.compensated_size(&files[i]);
        let mut order: Vec<usize> = (0..files.len()).collect();
        match self.input.options.compaction_pri {
            CompactionPri::ByCompensatedSize => {
                sort_front(&mut order, SORTED_FILES, |&a, &b| size(a) > size(b));
            }
            CompactionPri::OldestLargestSeqFirst => {
                sort_all(&mut order, |&a, &b| {
                    files[a].largest_seqno < files[b].largest_seqno
                });
            }
            CompactionPri::OldestSmallestSeqFirst => {
                sort_all(&mut order, |&a, &b| {
                    files[a].smallest_seqno < files[b].smallest_seqno
                });
            }
            CompactionPri::RoundRobin if level == 0 => {
                sort_all(&mut order, |&a, &b| {
                    files[a].smallest_seqno < files[b].smallest_seqno
                });
            }
            CompactionPri::RoundRobin => order = self.in_turn(level),
            CompactionPri::MinOverlappingRatio => {
                let overlap = self.version().overlap_bytes(level);
                let ratio = |i: usize| {
                    let plain = overlap[i].wrapping_mul(1024) / size(i).max(1);
                    plain / self.age_boost(level, &files[i])
                };
                let keys: Vec<_> = (0..files.len())
                    .map(|i| (Reverse(files[i].is_marked()), ratio(i)))
                    .collect();
                sort_front(&mut order, SORTED_FILES, |a, b| {
                    let order = keys[*a].cmp(&keys[*b]).then_with(|| smallest_first(a, b));
                    order.is_lt()
                });
            }
        }
        order
    }

    /// The oldest files of level 0 that can be listed in the base level as they are: they overlap
    /// neither it nor each other. Not while the base level is empty: then the oldest file would
    /// always qualify, with little gain.
    fn level0_move(&self, output_level: usize) -> Option<Files> {
        let o = self.input.options;
        let usual = o.compression_per_level.is_empty() && o.path_count <= 1;
        if !usual || output_level == 0 || self.version().files(output_level).is_empty() {
            return None;
        }
        let c = self.comparator();
        let mut taken = Files::new();
        let mut range: Option<(&[u8], &[u8])> = None;
        for file in self.version().files(0).iter().rev() {
            let (low, high) = match range {
                None => (&file.smallest[..], &file.largest[..]),
                Some((low, high)) if c.compare_internal(&file.largest, low).is_lt() => {
                    (&file.smallest[..], high)
                }
                Some((low, high)) if c.compare_internal(&file.smallest, high).is_gt() => {
                    (low, &file.largest[..])
                }
                Some(_) => break,
            };
            if file.is_being_compacted() || !self.overlapping(output_level, low, high).is_empty() {
                break;
            }
            range = Some((low, high));
            taken.push(Arc::clone(file));
        }
        taken.sort_by(|a, b| c.compare_internal(&a.smallest, &b.smallest));
        (!taken.is_empty()).then_some(taken)
    }

    /// All free files of level 0 from the newest on, if the base level is so much larger that
    /// merging level 0 with it would mostly rewrite the base level.
    fn size_based_intra_level0(&self) -> Option<Files> {
        let o = self.input.options;
        let files = self.version().files(0);
        let fewest = usize::try_from(o.level0_file_num_compaction_trigger)
            .unwrap_or(0)
            .max(2);
        if self.targets.base_level == 0 || files.len() < fewest {
            return None;
        }
        let bytes: u64 = files.iter().map(|f| self.targets.compensated_size(f)).sum();
        let ratio = o.max_bytes_for_level_multiplier.max(10.0) * 2.0;
        if self.version().level_bytes(self.targets.base_level) <= multiply(bytes, ratio) {
            return None;
        }
        let free: Files = files
            .iter()
            .take_while(|f| !f.is_being_compacted())
            .cloned()
            .collect();
        (free.len() >= fewest).then_some(free)
    }

    /// The newest files of level 0, as long as each further one makes the work per removed file
    /// cheaper.
    pub(super) fn intra_level0(&self) -> Option<Files> {
        let o = self.input.options;
        let files = self.version().files(0);
        let trigger = usize::try_from(o.level0_file_num_compaction_trigger).unwrap_or(0);
        let (newest, older) = files.split_first()?;
        if files.len() < trigger + 2 || newest.is_being_compacted() {
            return None;
        }
        let mut bytes = newest.size;
        let mut best = u64::MAX;
        let mut count = 1;
        for file in older {
            bytes = bytes.saturating_add(file.size);
            let per_removed_file = bytes / count as u64;
            if file.is_being_compacted()
                || per_removed_file > best
                || bytes > o.compaction_bytes_limit()
            {
                break;
            }
            best = per_removed_file;
            count += 1;
        }
        (count >= MIN_INTRA_L0_FILES).then(|| files[..count].to_vec())
    }

    /// File `index` of `level`, which overlaps nothing in the output level, and neighbours for which
    /// that is true as well.
    fn more_to_move(&self, level: usize, index: usize, output_level: usize) -> Files {
        let o = self.input.options;
        let c = self.comparator();
        let files = self.version().files(level);
        let mut taken = index..index + 1;
        if !o.compression_per_level.is_empty() || o.path_count > 1 {
            return files[taken].to_vec();
        }
        let mut bytes = files[index].size;
        let mut extends = |next: &FileMeta, low: &[u8], high: &[u8], cut_is_clean: bool| {
            if next.is_being_compacted()
                || !self.overlapping(output_level, low, high).is_empty()
                || !cut_is_clean
            {
                return false;
            }
            bytes = bytes.saturating_add(next.size);
            bytes <= o.compaction_bytes_limit()
        };
        let shares_key =
            |a: &FileMeta, b: &FileMeta| c.same_key(a.largest_user_key(), b.smallest_user_key());
        let first = &files[index];
        while taken.len() < MAX_MOVED_FILES
            && let Some(next) = files.get(taken.end)
        {
            let clean = files
                .get(taken.end + 1)
                .is_none_or(|after| !shares_key(next, after));
            if !extends(next, &first.smallest, &next.largest, clean) {
                break;
            }
            taken.end += 1;
        }
        let in_turn = o.compaction_pri == CompactionPri::RoundRobin;
        while !in_turn && taken.len() < MAX_MOVED_FILES && taken.start > 0 {
            let next = &files[taken.start - 1];
            let clean = taken.start < 2 || !shares_key(&files[taken.start - 2], next);
            if !extends(next, &next.smallest, &first.largest, clean) {
                break;
            }
            taken.start -= 1;
        }
        files[taken].to_vec()
    }

    /// A plan for a file whose writer asked for compaction. Outer `None`: there is none that is free.
    fn marked_start(&self) -> Option<Option<CompactionPlan>> {
        if self.targets.marked_files == 0 {
            return None;
        }
        let marked: Vec<_> = self
            .version()
            .file_iter()
            .take_while(|(level, _)| self.version().may_go_down(*level))
            .filter(|(_, f)| f.is_marked() && !f.is_being_compacted())
            .collect();
        // Starting anywhere keeps one file that cannot be compacted from blocking the others.
        let first = usize::try_from(self.input.now % marked.len().max(1) as u64).unwrap_or(0);
        let in_turn = marked.iter().skip(first).take(1).chain(&marked);
        for &(level, file) in in_turn {
            if level == 0 && self.level0_is_busy() {
                continue;
            }
            if let Some(files) = self.clean_cut(level, vec![Arc::clone(file)]) {
                return Some(self.finish(Start {
                    level,
                    output_level: self.next_level(level),
                    files,
                    reason: CompactionReason::FilesMarkedForCompaction,
                    score: 0.0,
                    level0_move: false,
                }));
            }
        }
        None
    }

    /// Rewrites a file in which RocksDB misses keys where it is: in level 0 by itself, which keeps its age, below with
    /// what shares its keys. Outer `None`: there is none that is free.
    pub(super) fn rewrite_misleading(&self) -> Option<Option<CompactionPlan>> {
        if self.targets.misleading_files == 0 {
            return None;
        }
        let reason = CompactionReason::FilesMarkedForCompaction;
        let files = self.version().file_iter();
        let files = files.filter(|(_, f)| f.is_misleading() && !f.is_being_compacted());
        let (top, below): (Vec<_>, Vec<_>) = files.partition(|(level, _)| *level == 0);
        if let Some((_, file)) = top.first()
            && !self.level0_is_busy()
        {
            let plan = self.finish_level0(vec![Arc::clone(file)], 0.0)?;
            return Some(Some(CompactionPlan { reason, ..plan }));
        }
        self.start_of(below.into_iter(), Target::Same, reason)
    }

    /// Bottommost files that hold sequence numbers or tombstones for no reason any more.
    fn bottommost_marked(&self) -> impl Iterator<Item = (usize, &Arc<FileMeta>)> {
        let version = self.version();
        let threshold = self.input.oldest_snapshot.unwrap_or(0);
        let delay = self.input.options.bottommost_file_compaction_delay;
        let now = self.input.now;
        let is_timed = self.comparator().timestamp_size() > 0;
        // Versions with timestamps keep their numbers until history is given up.
        let candidates = if threshold == 0 || (is_timed && version.history_low.is_empty()) {
            &[][..]
        } else {
            version.bottommost_files()
        };
        candidates
            .iter()
            .map(|&(level, index)| (level, &version.files(level)[index]))
            .filter(move |(_, f)| {
                f.largest_seqno != 0 && f.largest_seqno < threshold && !f.is_being_compacted()
            })
            .filter(move |(_, f)| !is_timed || self.is_history(f))
            .filter(move |(_, f)| delay == 0 || f.made_at().saturating_add(delay) <= now)
            .filter(|(level, f)| self.is_cut_at_bottom(*level, f))
    }

    /// Returns whether a file of [`Version::bottommost_files`](crate::version::Version::bottommost_files) still has
    /// nothing below it together with the files that share a boundary key with it and are rewritten with it.
    /// If not, nothing could drop its sequence numbers, and it would be rewritten for ever.
    fn is_cut_at_bottom(&self, level: usize, file: &Arc<FileMeta>) -> bool {
        let cut = self.cut(level, vec![Arc::clone(file)]);
        if cut.len() <= 1 {
            return true;
        }
        let sets = [&cut[..]];
        let (low, high) = self.range(&sets);
        let (low, high) = (user_key(low), user_key(high));
        !(self.version()).range_might_exist_below(low, high, level, None)
    }

    /// Returns whether all timestamps of a table lie in the history that was given up, so that rewriting it at
    /// the bottom leaves one version of each key, without a number.
    fn is_history(&self, file: &FileMeta) -> bool {
        if !file.user_defined_timestamps_persisted {
            return true;
        }
        let low = &self.version().history_low;
        let newest = &file.max_timestamp;
        newest.len() == low.len() && self.comparator().compare_timestamp(newest, low).is_lt()
    }

    /// Files of all levels but the last whose data is older than `ttl`.
    fn expired(&self) -> impl Iterator<Item = (usize, &Arc<FileMeta>)> {
        let (ttl, now) = (self.input.options.ttl, self.input.now);
        let levels = if ttl == 0 || ttl > now {
            0
        } else {
            self.version().num_levels() - 1
        };
        self.version()
            .file_iter()
            .take_while(move |(level, _)| *level < levels)
            .filter(move |(_, f)| {
                let time = f.ancester_time();
                time > 0 && time < now - ttl && !f.is_being_compacted()
            })
    }

    /// Files that are older than `periodic_compaction_seconds`.
    pub(super) fn periodic(&self) -> impl Iterator<Item = (usize, &Arc<FileMeta>)> {
        let period = self.input.options.periodic_compaction_seconds;
        let (now, ahead) = (self.input.now, self.input.ahead_seconds);
        let levels = if period == 0 || period > now {
            0
        } else {
            self.version().num_levels()
        };
        self.version()
            .file_iter()
            .take_while(move |(level, _)| *level < levels)
            .filter(move |(_, f)| {
                let time = f.made_at();
                let limit = (now - period).saturating_add(ahead);
                time > 0 && time < limit && !f.is_being_compacted()
            })
    }

    /// A plan for the first of some files that can be compacted now. Outer `None`: there is none.
    fn start_of<'f>(
        &self,
        files: impl Iterator<Item = (usize, &'f Arc<FileMeta>)>,
        target: Target,
        reason: CompactionReason,
    ) -> Option<Option<CompactionPlan>> {
        let deepest = self.version().num_non_empty_levels().saturating_sub(1);
        for (level, file) in files {
            let stays = level >= deepest;
            if (level == 0 && self.level0_is_busy()) || (target == Target::NotFromLast && stays) {
                continue;
            }
            let output_level = if target == Target::SameOrBase && level == 0 {
                self.next_level(0)
            } else if matches!(target, Target::Same | Target::SameOrBase) || stays {
                level
            } else {
                self.next_level(level)
            };
            if let Some(files) = self.clean_cut(level, vec![Arc::clone(file)]) {
                return Some(self.finish(Start {
                    level,
                    output_level,
                    files,
                    reason,
                    score: 0.0,
                    level0_move: false,
                }));
            }
        }
        None
    }

    /// A plan that merges files of level 0 into one. Independent of all other levels.
    pub(super) fn finish_level0(&self, files: Files, score: f64) -> Option<CompactionPlan> {
        Some(self.plan(Draft {
            inputs: vec![(0, files)],
            output_level: 0,
            output_path: None,
            grandparents: Files::new(),
            reason: CompactionReason::LevelL0FilesNum,
            score,
            level0_inputs_are_apart: false,
        }))
    }

    /// Adds what must go with the first files and makes the plan; `None` on conflict.
    fn finish(&self, start: Start) -> Option<CompactionPlan> {
        let Start {
            level,
            output_level,
            mut files,
            reason,
            score,
            level0_move,
        } = start;
        if output_level == 0 {
            let plan = self.finish_level0(files, score)?;
            return Some(CompactionPlan { reason, ..plan });
        }
        if level == 0 && !level0_move {
            // Files that overlap, directly or through others, go down together.
            let sets = [&files[..]];
            let (low, high) = self.range(&sets);
            let all = self.overlapping(0, low, high);
            let sets = [&all[..]];
            let (low, high) = self.range(&sets);
            if any_busy(&all) || any_busy(&self.overlapping(output_level, low, high)) {
                return None;
            }
            files = all;
        }
        let in_turn = self.input.options.compaction_pri == CompactionPri::RoundRobin && level > 0;
        let expands = in_turn && reason == CompactionReason::LevelMaxLevelSize;
        if expands {
            files = self.more_in_turn(level, output_level, files);
        }
        let growth = if expands {
            Growth::Rightwards
        } else {
            Growth::BothWays
        };
        let (files, outputs) = if level0_move {
            (files, Files::new())
        } else {
            self.with_output_level(level, files, output_level, growth)?
        };
        let sets = [&files[..], &outputs[..]];
        if self.output_conflicts(output_level, &sets) {
            return None;
        }
        let grandparents = if level0_move {
            Files::new()
        } else {
            self.grandparents(output_level, &sets)
        };
        let passed = files.len()
            + if expands {
                self.young_in_turn(level, output_level)
            } else {
                0
            };
        let mut inputs = vec![(level, files)];
        if !outputs.is_empty() {
            inputs.push((output_level, outputs));
        }
        let mut plan = self.plan(Draft {
            inputs,
            output_level,
            output_path: None,
            grandparents,
            reason,
            score,
            level0_inputs_are_apart: level0_move,
        });
        // A move for the sake of age leaves the turn where it was.
        let by_age = in_turn && reason == CompactionReason::RoundRobinTtl;
        if expands || (by_age && !plan.is_trivial_move) {
            plan.next_cursor = self.next_cursor(level, passed);
        }
        Some(plan)
    }
}
