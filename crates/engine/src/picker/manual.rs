//! Compaction of a key range that a caller asked for, one step at a time.
//!
//! A step compacts the files of one level that overlap the range into another level. Level 0 is
//! taken as a whole; in other levels a step ends before its input exceeds the compaction limit, and the
//! pick says where the next one begins.

use super::inputs::{Draft, Files, Growth, PickerInput, Picking};
use super::plan::{CompactionPlan, CompactionReason};

/// The range and levels of a manual compaction.
#[derive(Clone, Copy, Debug, Default)]
pub struct ManualRange<'a> {
    /// Level to compact from.
    pub level: usize,
    /// Level to compact into; may be `level` itself to rewrite in place.
    pub output_level: usize,
    /// Index of the directory of the outputs.
    pub output_path: u32,
    /// First user key; `None` is open.
    pub begin: Option<&'a [u8]>,
    /// Last user key, inclusive; `None` is open.
    pub end: Option<&'a [u8]>,
    /// When rewriting in place: files from this number on were made by this very compaction and are
    /// left alone.
    pub first_own_file: Option<u64>,
}

/// One step of a manual compaction.
#[derive(Clone, Debug)]
pub struct ManualPick {
    /// Says what to do.
    pub plan: CompactionPlan,
    /// User key at which the next step in this level begins; `None` if this was the last one.
    pub next_begin: Option<Vec<u8>>,
}

/// Result of [`pick_manual_range`].
#[derive(Clone, Debug)]
pub enum ManualOutcome {
    /// The level holds nothing in the range.
    Nothing,
    /// A running plan is in the way: try again when it has ended.
    Conflict,
    /// A step.
    Pick(Box<ManualPick>),
}

/// The next step of a manual compaction.
pub fn pick_manual_range(input: &PickerInput<'_>, range: &ManualRange<'_>) -> ManualOutcome {
    let picking = Picking::new(input);
    let files = input
        .version
        .overlapping(range.level, range.begin, range.end);
    if files.is_empty() {
        return ManualOutcome::Nothing;
    }
    if range.level == 0 && picking.level0_is_busy() {
        return ManualOutcome::Conflict;
    }
    let (files, covers_all) = picking.first_step(range, files);
    let files = leave_own_files(range, files);
    if files.is_empty() {
        return ManualOutcome::Nothing;
    }
    let Some(files) = picking.clean_cut(range.level, files) else {
        return ManualOutcome::Conflict;
    };
    // Of the files asked for, not of those that come along: outputs may return to where they lie, with
    // data that is too young for the last level, and RocksDB then looks at them again.
    let next_begin = if covers_all {
        None
    } else {
        picking.key_behind(range, &files)
    };
    match picking.manual_plan(range, files) {
        None => ManualOutcome::Conflict,
        Some(plan) => ManualOutcome::Pick(Box::new(ManualPick { plan, next_begin })),
    }
}

/// Drops files of this compaction's own making: keeps the first run of older files. As in RocksDB older
/// files after it stay as they are, unless the limit of a step ends before them.
fn leave_own_files(range: &ManualRange<'_>, files: Files) -> Files {
    let Some(first_own) = range.first_own_file else {
        return files;
    };
    let is_own = |number: u64| number >= first_own;
    let older = files.into_iter().skip_while(|f| is_own(f.number));
    older.take_while(|f| !is_own(f.number)).collect()
}

impl Picking<'_> {
    /// The first files of the range that together with what they overlap stay within the limit, at
    /// least one, and whether these are all.
    fn first_step(&self, range: &ManualRange<'_>, mut files: Files) -> (Files, bool) {
        // Files of level 0 may overlap: none may stay behind that is older than one that goes.
        if range.level == 0 {
            return (files, true);
        }
        let limit = self.input.options.compaction_bytes_limit();
        let mut input_bytes = 0_u64;
        for i in 0..files.len() {
            input_bytes = input_bytes.saturating_add(files[i].size);
            let below = self.overlapping(range.output_level, &files[0].smallest, &files[i].largest);
            if i > 0 && input_bytes.saturating_add(super::inputs::total_size(&below)) > limit {
                files.truncate(i);
                return (files, false);
            }
        }
        (files, true)
    }

    /// The plan for files that end where a user key ends.
    fn manual_plan(&self, range: &ManualRange<'_>, files: Files) -> Option<CompactionPlan> {
        let (level, output_level) = (range.level, range.output_level);
        let (files, outputs) =
            self.with_output_level(level, files, output_level, Growth::BothWays)?;
        let sets = [&files[..], &outputs[..]];
        if !self.is_free(output_level, &sets) {
            return None;
        }
        let grandparents = self.grandparents(output_level, &sets);
        let mut inputs = vec![(level, files)];
        if !outputs.is_empty() {
            inputs.push((output_level, outputs));
        }
        Some(self.plan(Draft {
            inputs,
            output_level,
            output_path: Some(range.output_path),
            grandparents,
            reason: CompactionReason::ManualCompaction,
            score: -1.0,
            level0_inputs_are_apart: false,
        }))
    }

    /// Smallest user key of the file after others in the level of the range.
    fn key_behind(&self, range: &ManualRange<'_>, files: &Files) -> Option<Vec<u8>> {
        let level = self.version().levels.get(range.level)?;
        let last = level.index_of(files.last()?.number)?;
        let next = level.files.get(last + 1)?.smallest_user_key();
        let beyond = range
            .end
            .is_some_and(|end| self.comparator().compare(next, end).is_gt());
        (!beyond).then(|| next.to_vec())
    }
}
