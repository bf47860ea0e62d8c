//! How files are taken in.

/// How files are taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "RocksDB's options, one by one"
)]
pub struct IngestOptions {
    /// Files are linked, and their own names go once they are taken in.
    pub move_files: bool,
    /// Files are linked and keep their own names: whoever changes them later changes the database.
    pub link_files: bool,
    /// A file that cannot be linked is copied.
    pub failed_move_fall_back_to_copy: bool,
    /// Snapshots taken before do not see what the files hold.
    pub snapshot_consistency: bool,
    /// Files may get a sequence number; without, what overlaps anything is refused.
    pub allow_global_seqno: bool,
    /// Memtables that overlap are flushed first; without, such a call is refused.
    pub allow_blocking_flush: bool,
    /// Files go below everything that is there. Needs `cf_allow_ingest_behind`, which no family has yet.
    pub ingest_behind: bool,
    /// Files that do not fit into the last level are refused.
    pub fail_if_not_bottommost_level: bool,
    /// The checksums of all blocks are verified first.
    pub verify_checksums: bool,
    /// Tables that a database wrote are taken in, too, with the sequence numbers that they have, as long as they
    /// overlap nothing.
    pub allow_db_generated_files: bool,
    /// Every entry is looked at first: order, types, number. Without, only the first and the last.
    pub verify_entries: bool,
    /// Blocks read of the database's own tables go into the block cache.
    pub fill_cache: bool,
    /// Bytes that are read at once; 0 is a megabyte.
    pub readahead: u64,
}

impl Default for IngestOptions {
    fn default() -> Self {
        Self {
            move_files: false,
            link_files: false,
            failed_move_fall_back_to_copy: true,
            snapshot_consistency: true,
            allow_global_seqno: true,
            allow_blocking_flush: true,
            ingest_behind: false,
            fail_if_not_bottommost_level: false,
            verify_checksums: false,
            allow_db_generated_files: false,
            verify_entries: true,
            fill_cache: true,
            readahead: 0,
        }
    }
}

macro_rules! setters {
    ($($name:ident: $ty:ty;)*) => {
        impl IngestOptions {
            /// RocksDB's defaults; every entry is verified.
            pub fn new() -> Self {
                Self::default()
            }
            $(
                /// See the field.
                #[must_use]
                pub fn $name(mut self, value: $ty) -> Self {
                    self.$name = value;
                    self
                }
            )*
        }
    };
}

setters! {
    move_files: bool;
    link_files: bool;
    failed_move_fall_back_to_copy: bool;
    snapshot_consistency: bool;
    allow_global_seqno: bool;
    allow_blocking_flush: bool;
    ingest_behind: bool;
    fail_if_not_bottommost_level: bool;
    verify_checksums: bool;
    allow_db_generated_files: bool;
    verify_entries: bool;
    fill_cache: bool;
    readahead: u64;
}
