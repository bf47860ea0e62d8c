//! Describes what listeners are told of blob files along with a flush or a compaction.

use std::path::PathBuf;

/// Records of one blob file: all of a file that was written, or those of an older file that a compaction
/// left without a reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlobFileRecords {
    /// The file.
    pub path: PathBuf,
    /// Its number.
    pub number: u64,
    /// Records.
    pub count: u64,
    /// Their bytes, headers and keys included.
    pub bytes: u64,
}
