//! Whether a compaction collects the garbage of blob files: by the options of the family, or as the
//! caller of a manual compaction says.

use super::job::CompactionJob;
use crate::output::OldFiles;
use crate::picker::passive;
use crate::version::Version;

/// What a manual compaction does with old blob files (`blob_garbage_collection_policy`).
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
    /// Whether values move.
    pub policy: BlobGcPolicy,
    /// Share of the blob files, from the oldest, that count as old, from 0.0 to 1.0; `None`, as anything
    /// outside of that range, is the family's `blob_garbage_collection_age_cutoff`.
    pub age_cutoff: Option<f64>,
}

impl CompactionJob {
    /// The blob files of the version it began with whose values the job relocates; `None` if it collects
    /// no garbage.
    pub(super) fn old_blob_files(&self, version: &Version) -> Option<OldFiles> {
        let o = &self.settings.options;
        if let Some(budget) = self.settings.levels.blob_budget
            && self.blob_gc.policy == BlobGcPolicy::UseDefault
        {
            return Some(OldFiles::Named(passive(version, budget)));
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
