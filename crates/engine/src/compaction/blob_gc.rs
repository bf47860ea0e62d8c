//! Says whether a compaction collects the garbage of blob files: by the options of the family, or as the
//! caller of a manual compaction says.

use super::job::CompactionJob;
use crate::output::OldFiles;
use crate::picker::passive;
use crate::version::Version;
use crate::version::edit::BlobFileGarbage;

/// Describes what a manual compaction does with old blob files (`blob_garbage_collection_policy`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BlobGcPolicy {
    /// Values in old blob files move to new ones, whatever the family's options say.
    Force,
    /// References stay as they are.
    Disable,
    /// As the family's options say.
    #[default]
    UseDefault,
}

/// How a manual compaction treats old blob files.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BlobGcChoice {
    /// Says whether values move.
    pub policy: BlobGcPolicy,
    /// Share of the blob files, from the oldest, that count as old, from 0.0 to 1.0; `None`, as anything
    /// outside of that range, is the family's `blob_garbage_collection_age_cutoff`.
    pub age_cutoff: Option<f64>,
}

impl CompactionJob {
    /// Bytes in blob files that the inputs above the output level refer to, as far as is known.
    fn upper_references(&self) -> u64 {
        let upper = self.plan.inputs.iter();
        let upper = upper.filter(|(level, _)| *level < self.plan.output_level);
        let tables = upper.flat_map(|(_, files)| files);
        tables
            .filter_map(|f| f.blob_refs())
            .map(|r| r.bytes())
            .sum()
    }

    /// Notes how much garbage it made of values that nothing relocated: `relocated` bytes were.
    pub(super) fn note_hidden(&self, garbage: &[BlobFileGarbage], relocated: u64) {
        if self.settings.levels.blob_budget.is_some() {
            let all: u64 = garbage.iter().map(|g| g.bytes).sum();
            let made = all.saturating_sub(relocated);
            self.family.hiding.note(self.upper_references(), made);
        }
    }

    /// The blob files of the version it began with whose values the job relocates; `None` if it collects
    /// no garbage.
    pub(super) fn old_blob_files(&self, version: &Version) -> Option<OldFiles> {
        let o = &self.settings.options;
        if let Some(budget) = self.settings.levels.blob_budget
            && self.blob_gc.policy == BlobGcPolicy::UseDefault
        {
            let hides = self.family.hiding.share();
            let coming = (hides * self.upper_references() as f64) as u64;
            return Some(OldFiles::Named(passive(version, budget, coming)));
        }
        let collects = match self.blob_gc.policy {
            BlobGcPolicy::Force => true,
            BlobGcPolicy::Disable => false,
            BlobGcPolicy::UseDefault => o.enable_blob_garbage_collection,
        };
        let own = self.blob_gc.age_cutoff;
        let own = own.filter(|cutoff| (0.0..=1.0).contains(cutoff));
        let cutoff = own.unwrap_or(o.blob_garbage_collection_age_cutoff);
        collects.then(|| OldFiles::by_age(version, cutoff))
    }
}
