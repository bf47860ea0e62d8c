//! Whether a compaction collects the garbage of blob files: by the options of the family, or as the
//! caller of a manual compaction says.

use super::job::CompactionJob;

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
    /// Share of the blob files, from the oldest, whose values the job relocates; `None` if it collects
    /// no garbage.
    pub(super) fn blob_age_cutoff(&self) -> Option<f64> {
        let o = &self.settings.options;
        let collects = match self.blob_gc.policy {
            BlobGcPolicy::Force => true,
            BlobGcPolicy::Disable => false,
            BlobGcPolicy::UseDefault => o.enable_blob_garbage_collection,
        };
        let own = self.blob_gc.age_cutoff;
        let own = own.filter(|cutoff| (0.0..=1.0).contains(cutoff));
        collects.then(|| own.unwrap_or(o.blob_garbage_collection_age_cutoff))
    }
}
