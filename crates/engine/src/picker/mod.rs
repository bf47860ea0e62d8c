//! Chooses what to compact next. Pure: version, options, running plans and time in, a plan out.
//!
//! - [`pick_leveled`]: what level compaction does by itself.
//! - [`pick_manual_range`]: one step of a compaction of a key range that a caller asked for.
//! - [`pick_files`]: a compaction of files that a caller names.
//!
//! Every plan's inputs end at user-key boundaries (*clean cut*): when one version of a user key is an
//! input, all versions in that level are, so that no newer version sinks below an older one (V2).
//! Inputs are never in another plan, and no running plan writes to an overlapping range of the same
//! level (C2). Pickers read the files' flags and set none.

mod blob_budget;
mod blob_gc;
mod files;
mod forced_cuts;
mod inputs;
mod leveled;
mod manual;
mod plan;
mod proximal;
mod sorting;

pub(crate) use blob_budget::{BlobFileSet, passive};
pub use files::{NamedFiles, files_within, pick_files};
pub use inputs::{PickerInput, RunningCompaction};
pub use leveled::{needs_compaction, pick_leveled};
pub use manual::{ManualOutcome, ManualRange, pick_manual_range};
pub use plan::{CompactionPlan, CompactionReason, OutputCutter};
pub(crate) use sorting::sort_all;

#[cfg(test)]
mod tests;
