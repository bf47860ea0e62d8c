//! Keeping young data out of the last level (`preclude_last_level_data_seconds`).
//!
//! A plan into the last level then has a second output, the *proximal* level above it: what was
//! written lately goes there, all else to the last level. Data never moves up from the last level: what may
//! go to the proximal level comes from the levels above, whose files leave free the range that the new
//! ones fill.

use super::inputs::{Draft, Files, Picking};
use super::plan::CompactionPlan;
use crate::options::CompactionStyle;
use crate::version::FileMeta;
use spanlith_base::SequenceNumber;
use spanlith_base::keys::user_key;
use std::cmp::Ordering;
use std::sync::Arc;

/// The second output of a plan into the last level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProximalOutput {
    /// The level above the last one.
    pub level: usize,
    /// Smallest user key of the inputs from above the last level.
    pub smallest: Vec<u8>,
    /// Largest such key.
    pub largest: Vec<u8>,
    /// Entries up to this number stay in the last level, where some of them are already: to tell them
    /// apart one by one would not do with range tombstones.
    pub last_level_through: SequenceNumber,
}

impl Picking<'_> {
    /// The proximal level of a plan that takes files from `start_level` on; `None` if it has one output.
    fn proximal_level(&self, start_level: usize, output_level: usize) -> Option<usize> {
        let last = self.version().num_levels().checked_sub(1)?;
        let proximal = last.checked_sub(1).filter(|&level| level > 0)?;
        let o = self.input.options;
        let precludes = matches!(o.style, CompactionStyle::Level | CompactionStyle::Universal)
            && o.precludes_last_level;
        // Universal compaction may take data up from the last level into an empty one.
        let is_empty =
            || o.style == CompactionStyle::Universal && self.version().files(proximal).is_empty();
        let has_one = precludes && output_level == last && (start_level < last || is_empty());
        has_one.then_some(proximal)
    }

    /// Returns whether the plan takes all files of its proximal level, in universal compaction: then nothing there
    /// is in the way of data from the last level.
    fn frees_proximal(&self, level: usize, draft: &Draft) -> bool {
        let taken = draft.inputs.iter().find(|(l, _)| *l == level);
        let taken = taken.map_or(0, |(_, files)| files.len());
        self.input.options.style == CompactionStyle::Universal
            && taken == self.version().num_files(level)
    }

    /// The second output of a plan, if it has one.
    pub(super) fn proximal_output(&self, draft: &Draft) -> Option<ProximalOutput> {
        let start_level = draft.inputs.first()?.0;
        let level = self.proximal_level(start_level, draft.output_level)?;
        if self.frees_proximal(level, draft) {
            let sets: Vec<&[Arc<FileMeta>]> = draft.inputs.iter().map(|(_, f)| &f[..]).collect();
            let (low, high) = self.range(&sets);
            return Some(ProximalOutput {
                level,
                smallest: user_key(low).to_vec(),
                largest: user_key(high).to_vec(),
                last_level_through: 0,
            });
        }
        let is_last = |l: &usize| *l == draft.output_level;
        let above: Vec<&[Arc<FileMeta>]> = (draft.inputs.iter())
            .filter(|(l, _)| !is_last(l))
            .map(|(_, files)| &files[..])
            .collect();
        let (low, high) = self.range(&above);
        let in_last = draft.inputs.iter().filter(|(l, _)| is_last(l));
        let largest_there = in_last
            .flat_map(|(_, files)| files)
            .map(|f| f.largest_seqno);
        Some(ProximalOutput {
            level,
            smallest: user_key(low).to_vec(),
            largest: user_key(high).to_vec(),
            last_level_through: largest_there.max().unwrap_or(0),
        })
    }

    /// Returns whether a running plan writes to the proximal level that a plan from `sets` into `output_level` would
    /// write to, in the range of user keys of its files above the last level.
    pub(super) fn proximal_conflicts(
        &self,
        output_level: usize,
        sets: &[&[Arc<FileMeta>]],
    ) -> bool {
        let level_of = |f: &Arc<FileMeta>| f.level as usize;
        let all = || sets.iter().flat_map(|set| set.iter());
        let start_level = all().map(level_of).min().unwrap_or(output_level);
        let Some(level) = self.proximal_level(start_level, output_level) else {
            return false;
        };
        if self.input.options.style == CompactionStyle::Universal {
            return self.range_conflicts(level, sets);
        }
        let above: Files = all()
            .filter(|f| level_of(f) < output_level)
            .cloned()
            .collect();
        self.range_conflicts(level, &[&above])
    }

    /// Returns whether a plan would bring all of a file back to where it is: all of it is young.
    pub(super) fn comes_back(&self, file: &FileMeta, output_level: usize) -> bool {
        let level = file.level as usize;
        self.proximal_level(level, output_level) == Some(level)
            && self
                .input
                .young_after
                .is_some_and(|young| file.smallest_seqno > young)
    }

    /// Returns whether a plan would write everything where it is: it takes only tables that the last compaction with
    /// two outputs wrote, and those above the last level are still young. RocksDB 11.8.1 carries such a plan out over and
    /// over until the data is old.
    pub(super) fn changes_nothing(&self, plan: &CompactionPlan) -> bool {
        let (Some(proximal), Some(young)) = (&plan.proximal, self.input.young_after) else {
            return false;
        };
        plan.inputs.iter().all(|(level, files)| {
            files.iter().all(|f| {
                self.input.placed.contains(&f.number)
                    && (*level != proximal.level || f.smallest_seqno > young)
            })
        })
    }

    /// Returns whether a running plan writes to `level`, with either output, in the range of user keys of `sets`.
    pub(super) fn range_conflicts(&self, level: usize, sets: &[&[Arc<FileMeta>]]) -> bool {
        let c = self.comparator();
        let (low, high) = self.range(sets);
        let (low, high) = (user_key(low), user_key(high));
        let overlaps = |smallest: &[u8], largest: &[u8]| {
            c.compare_without_timestamp(low, true, largest, true) != Ordering::Greater
                && c.compare_without_timestamp(high, true, smallest, true) != Ordering::Less
        };
        self.input.running.iter().any(|r| {
            (r.output_level == level && overlaps(&r.smallest, &r.largest))
                || (r.proximal.as_ref())
                    .is_some_and(|p| p.level == level && overlaps(&p.smallest, &p.largest))
        })
    }
}
