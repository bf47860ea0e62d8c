//! Chooses what to compact next. Pure: version, options, running plans and time in, a plan out.
//!
//! - [`pick`]: what a family does by itself, in its compaction style: [`pick_leveled`], [`pick_universal`]
//!   or [`pick_fifo`].
//! - [`pick_beside`]: a merge within level 0 while a compaction out of it runs.
//! - [`pick_manual_range`]: one step of a compaction of a key range that a caller asked for.
//! - [`pick_files`]: a compaction of files that a caller names.
//!
//! Every plan's inputs end at user-key boundaries (*clean cut*): when one version of a user key is an
//! input, all versions in that level are, so that no newer version sinks below an older one (V2). A plan has
//! any number of input levels; one that only deletes files has no outputs.
//! Inputs are never in another plan, and no running plan writes to an overlapping range of the same
//! level (C2). Pickers read the files' flags and set none.

mod beside;
mod blob_budget;
mod blob_gc;
mod fifo;
mod files;
mod forced_cuts;
mod inputs;
mod leveled;
mod manual;
mod plan;
mod proximal;
mod read_hot;
mod sorting;
mod universal;

pub use beside::{leaves_room_beside, pick_beside};
pub(crate) use blob_budget::{BlobFileSet, BlobSpace, passive};
pub use fifo::{fifo_needs_compaction, pick_fifo};
pub use files::{NamedFiles, files_within, pick_files};
pub use inputs::{PickerInput, RunningCompaction};
pub use leveled::{leveled_needs_compaction, pick_leveled};
pub use manual::{ManualOutcome, ManualPick, ManualRange, pick_manual_range};
pub use plan::{CompactionPlan, CompactionReason, OutputCutter};
pub(crate) use sorting::sort_all;
pub use universal::{pick_universal, pick_universal_whole, universal_needs_compaction};

use crate::options::CompactionStyle;

/// The next compaction of a family, if any is due and can run beside those that are running.
pub fn pick(input: &PickerInput<'_>) -> Option<CompactionPlan> {
    match input.options.style {
        CompactionStyle::Level => pick_leveled(input),
        CompactionStyle::Universal => pick_universal(input),
        CompactionStyle::Fifo => pick_fifo(input),
        CompactionStyle::None => None,
    }
}

/// Returns whether [`pick`] would look for something to do: a level is due, or a file is marked.
pub fn needs_compaction(input: &PickerInput<'_>) -> bool {
    match input.options.style {
        CompactionStyle::Level => leveled_needs_compaction(input),
        CompactionStyle::Universal => universal_needs_compaction(input),
        CompactionStyle::Fifo => fifo_needs_compaction(input),
        CompactionStyle::None => false,
    }
}

#[cfg(test)]
mod tests;
