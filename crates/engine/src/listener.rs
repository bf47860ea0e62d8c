//! Describes what an application is told while it happens: RocksDB's event listener.
//!
//! The database calls listeners on the thread that does the work, in the order in which they were
//! registered, without any lock held. A listener that is slow delays that work; it may read the
//! database, but neither close it nor wait for background work.
//!
//! [`Listeners`] is what the engine holds: telling nobody costs one branch, and facts are gathered only
//! if somebody listens. A listener that panics is caught and left out from then on, so that it cannot
//! stop a flush.

use spanlith_base::{Error, Result, SequenceNumber};
use spanlith_table::TableProperties;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

mod blobs;
mod compaction;

pub use blobs::BlobFileRecords;
pub use compaction::{CompactionFile, CompactionInfo, CompactionStats};

/// Why a memtable was flushed; RocksDB's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "RocksDB's name says it")]
pub enum FlushReason {
    Others = 0,
    GetLiveFiles = 1,
    ShutDown = 2,
    ExternalFileIngestion = 3,
    ManualCompaction = 4,
    WriteBufferManager = 5,
    WriteBufferFull = 6,
    Test = 7,
    DeleteFiles = 8,
    AutoCompaction = 9,
    ManualFlush = 10,
    ErrorRecovery = 11,
    ErrorRecoveryRetryFlush = 12,
    WalFull = 13,
    CatchUpAfterErrorRecovery = 14,
}

impl FlushReason {
    /// Returns whether a flush before failed.
    pub(crate) fn is_retry(self) -> bool {
        matches!(self, Self::ErrorRecovery | Self::ErrorRecoveryRetryFlush)
    }

    /// RocksDB's words, as its info log has them.
    pub fn name(self) -> &'static str {
        match self {
            Self::Others => "Other Reasons",
            Self::GetLiveFiles => "Get Live Files",
            Self::ShutDown => "Shut down",
            Self::ExternalFileIngestion => "External File Ingestion",
            Self::ManualCompaction => "Manual Compaction",
            Self::WriteBufferManager => "Write Buffer Manager",
            Self::WriteBufferFull => "Write Buffer Full",
            Self::Test => "Test",
            Self::DeleteFiles => "Delete Files",
            Self::AutoCompaction => "Auto Compaction",
            Self::ManualFlush => "Manual Flush",
            Self::ErrorRecovery => "Error Recovery",
            Self::ErrorRecoveryRetryFlush => "Error Recovery Retry Flush",
            Self::WalFull => "WAL Full",
            Self::CatchUpAfterErrorRecovery => "Catch Up After Error Recovery",
        }
    }
}

/// Says whether writers are slowed down; RocksDB's numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WriteStall {
    /// They wait.
    Stopped = 1,
    /// They are slowed down.
    Delayed = 0,
    /// They are not.
    #[default]
    Normal = 2,
}

/// Describes what the database was doing when it met an error; RocksDB's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "RocksDB's name says it")]
pub enum BackgroundErrorReason {
    Flush = 0,
    Compaction = 1,
    WriteCallback = 2,
    MemTable = 3,
    ManifestWrite = 4,
    FlushNoWal = 5,
    ManifestWriteNoWal = 6,
}

/// A flush.
#[derive(Clone, Debug)]
pub struct FlushInfo {
    /// Number of its family.
    pub cf_id: u32,
    /// Name of its family.
    pub cf_name: String,
    /// Number of the job.
    pub job: u64,
    /// The thread that the job runs on and the listener is called on: what `pthread_self` returns there.
    pub thread_id: u64,
    /// The table; before the flush what it is going to be called.
    pub file_path: PathBuf,
    /// Number of the table.
    pub file_number: u64,
    /// Number of the oldest blob file that the table refers to; 0 for none, and before the flush.
    pub oldest_blob_file: u64,
    /// Says whether level 0 has so many files that writers are slowed down.
    pub triggered_writes_slowdown: bool,
    /// Says whether level 0 has so many files that writers wait.
    pub triggered_writes_stop: bool,
    /// Smallest sequence number in the table.
    pub smallest_seqno: SequenceNumber,
    /// Largest sequence number in the table.
    pub largest_seqno: SequenceNumber,
    /// Properties of the table; empty before the flush.
    pub properties: Arc<TableProperties>,
    /// Why.
    pub reason: FlushReason,
    /// RocksDB's number of the codec of blob files; 0 before the flush.
    pub blob_compression: u8,
    /// Blob files that were written; none before the flush.
    pub blob_files: Vec<BlobFileRecords>,
}

/// A table that was written, or was not.
#[derive(Clone, Debug)]
pub struct TableFileInfo {
    /// Name of its family.
    pub cf_name: String,
    /// The table.
    pub path: PathBuf,
    /// Number of the job.
    pub job: u64,
    /// Bytes; 0 if it was not written.
    pub bytes: u64,
    /// Its properties; empty if it was not written.
    pub properties: Arc<TableProperties>,
    /// How it went.
    pub result: Result<()>,
}

/// A blob file that a flush or compaction wrote.
#[derive(Clone, Debug)]
pub struct BlobFileInfo {
    /// Its family.
    pub cf_name: String,
    /// Where it is.
    pub path: PathBuf,
    /// The job that wrote it.
    pub job: u64,
    /// Its number.
    pub number: u64,
    /// Values in it.
    pub count: u64,
    /// Bytes of their records.
    pub bytes: u64,
}

/// A blob file that nothing refers to any more.
#[derive(Clone, Debug)]
pub struct BlobFileDeletionInfo {
    /// Where it was.
    pub path: PathBuf,
    /// Its number.
    pub number: u64,
}

/// A file that was deleted, or was not.
#[derive(Clone, Debug)]
pub struct TableFileDeletionInfo {
    /// The file.
    pub path: PathBuf,
    /// Number of the job.
    pub job: u64,
    /// How it went.
    pub result: Result<()>,
}

/// A memtable that takes no more writes.
#[derive(Clone, Debug)]
pub struct MemtableInfo {
    /// Name of its family.
    pub cf_name: String,
    /// Sequence number of its first entry.
    pub first_seqno: SequenceNumber,
    /// Sequence number before every entry in it: the last one when it was begun, 0 if an open did.
    pub earliest_seqno: SequenceNumber,
    /// Entries, deletions and range deletions included.
    pub entries: u64,
    /// Deletions of single keys.
    pub deletions: u64,
    /// The latest timestamp in it; empty unless the family's tables leave timestamps out
    /// (`persist_user_defined_timestamps=false`), as in RocksDB.
    pub newest_timestamp: Vec<u8>,
}

/// A file that was taken in from outside.
#[derive(Clone, Debug)]
pub struct ExternalFileInfo {
    /// Name of its family.
    pub cf_name: String,
    /// Where it came from.
    pub external_path: PathBuf,
    /// Where it is now.
    pub internal_path: PathBuf,
    /// Sequence number given to all its entries.
    pub global_seqno: SequenceNumber,
    /// Its properties.
    pub properties: Arc<TableProperties>,
}

/// A change in how writers are treated.
#[derive(Clone, Debug)]
pub struct WriteStallInfo {
    /// Name of the family that causes it.
    pub cf_name: String,
    /// From now on.
    pub current: WriteStall,
    /// Until now.
    pub previous: WriteStall,
}

/// The end of an error of the background.
#[derive(Clone, Debug)]
pub struct ErrorRecoveryInfo {
    /// The first cause.
    pub old_error: Error,
    /// Says what the last try failed with; `None` if all is well again.
    pub new_error: Option<Error>,
}

/// A writing call to the disk, or a job, that has not come back.
#[derive(Clone, Debug)]
pub struct DiskStallInfo {
    /// The file or directory, or the name of the job.
    pub path: PathBuf,
    /// The call, in words: `append`, `sync`, `job` …
    pub call: &'static str,
    /// For how long it has been seen under way, at least.
    pub lasting: std::time::Duration,
}

/// A part of a log that an open did not replay.
#[derive(Clone, Debug)]
pub struct DroppedTail {
    /// The log.
    pub path: PathBuf,
    /// Offset of its first byte.
    pub offset: u64,
    /// Its bytes; 0 if the log may hold an older one there.
    pub bytes: u64,
    /// Records found in it, at least.
    pub records: u64,
    /// Why it was dropped.
    pub reason: String,
    /// Where a copy of it is, if one was made.
    pub copy: Option<PathBuf>,
}

macro_rules! listeners {
    ($($(#[$doc:meta])* $name:ident($info:ty);)*) => {
        /// Is told what happens in a database. Every method does nothing unless it is written.
        pub trait EventListener: Send + Sync {
            /// Name of the listener, for the info log.
            fn name(&self) -> &str {
                "listener"
            }
            $($(#[$doc])* fn $name(&self, _info: &$info) {})*
            /// Background work failed, which is going to stop writes; the listener may put another error
            /// in its place, or clear it so that writes go on.
            fn on_background_error(
                &self,
                _reason: BackgroundErrorReason,
                _error: &mut Option<Error>,
            ) {
            }
            /// The work that failed is going to be tried again without being asked. If a listener returns
            /// false, it is not: writes or work stay back until `Db::resume`.
            fn on_error_recovery_begin(&self, _reason: BackgroundErrorReason, _error: &Error) -> bool {
                true
            }
        }

        impl Listeners {
            $(
                #[doc = concat!("Tells all listeners: `", stringify!($name), "`.")]
                #[inline]
                pub fn $name(&self, info: impl FnOnce() -> $info) {
                    if !self.0.is_empty() {
                        let info = info();
                        self.tell(|listener| listener.$name(&info));
                    }
                }
            )*
        }
    };
}

listeners! {
    /// A flush is about to write its table.
    on_flush_begin(FlushInfo);
    /// A flush is installed.
    on_flush_completed(FlushInfo);
    /// A compaction is about to run.
    on_compaction_begin(CompactionInfo);
    /// A compaction is installed, or has failed.
    on_compaction_completed(CompactionInfo);
    /// A part of a compaction is about to run, on the thread that runs it.
    on_subcompaction_begin(CompactionInfo);
    /// A part of a compaction has run.
    on_subcompaction_completed(CompactionInfo);
    /// A table was written, or was not.
    on_table_file_created(TableFileInfo);
    /// A table was deleted, or was not.
    on_table_file_deleted(TableFileDeletionInfo);
    /// A blob file was written and installed.
    on_blob_file_created(BlobFileInfo);
    /// A blob file was deleted.
    on_blob_file_deleted(BlobFileDeletionInfo);
    /// A memtable takes no more writes.
    on_memtable_sealed(MemtableInfo);
    /// The handle of this column family is about to go.
    on_column_family_handle_deletion_started(String);
    /// A file was taken in from outside.
    on_external_file_ingested(ExternalFileInfo);
    /// An error of the background is over, or is not tried to be overcome any more.
    on_error_recovery_end(ErrorRecoveryInfo);
    /// Writers are slowed down, stopped, or let go.
    on_stall_conditions_changed(WriteStallInfo);
    /// An open, which is not finished yet, did not replay a part of a log.
    on_recovery_dropped_tail(DroppedTail);
    /// A writing call to the disk, or a job, has not come back for too long; told once for each.
    on_disk_stalled(DiskStallInfo);
}

struct Member {
    listener: Arc<dyn EventListener>,
    /// Set once it panicked. Relaxed: a late look tells it once more, which is caught again.
    is_out: AtomicBool,
}

/// The listeners of a database.
#[derive(Default)]
pub struct Listeners(Vec<Member>);

impl std::fmt::Debug for Listeners {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list()
            .entries(self.0.iter().map(|m| m.listener.name()))
            .finish()
    }
}

impl Listeners {
    /// Those given, in the order in which they are told.
    pub fn new(listeners: impl IntoIterator<Item = Arc<dyn EventListener>>) -> Self {
        let member = |listener| Member {
            listener,
            is_out: AtomicBool::new(false),
        };
        Self(listeners.into_iter().map(member).collect())
    }

    /// Returns whether nobody listens.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn tell(&self, mut call: impl FnMut(&dyn EventListener)) {
        for member in &self.0 {
            if member.is_out.load(Ordering::Relaxed) {
                continue;
            }
            let told = catch_unwind(AssertUnwindSafe(|| call(&*member.listener)));
            if told.is_err() {
                member.is_out.store(true, Ordering::Relaxed);
            }
        }
    }

    /// Tells all listeners about an error of background work; `None` if one of them cleared it.
    pub fn on_background_error(
        &self,
        reason: BackgroundErrorReason,
        error: Error,
    ) -> Option<Error> {
        let mut error = Some(error);
        self.tell(|listener| listener.on_background_error(reason, &mut error));
        error
    }

    /// Tells all listeners that something is going to be tried again; false if one objects.
    pub fn on_error_recovery_begin(&self, reason: BackgroundErrorReason, error: &Error) -> bool {
        let mut goes_on = true;
        self.tell(|listener| goes_on &= listener.on_error_recovery_begin(reason, error));
        goes_on
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[derive(Default)]
    struct Keep {
        heard: Mutex<Vec<String>>,
        panics: bool,
        clears: bool,
    }

    impl EventListener for Keep {
        fn on_stall_conditions_changed(&self, info: &WriteStallInfo) {
            self.heard.lock().unwrap().push(format!(
                "{} {:?}->{:?}",
                info.cf_name, info.previous, info.current
            ));
            assert!(!self.panics, "planted");
        }

        fn on_background_error(&self, reason: BackgroundErrorReason, error: &mut Option<Error>) {
            self.heard.lock().unwrap().push(format!("{reason:?}"));
            if self.clears {
                *error = None;
            }
        }
    }

    fn stall() -> WriteStallInfo {
        WriteStallInfo {
            cf_name: "a".to_string(),
            current: WriteStall::Delayed,
            previous: WriteStall::Normal,
        }
    }

    #[test]
    fn all_are_told_in_order_and_one_that_panics_is_left_out_from_then_on() {
        let first = Arc::new(Keep {
            panics: true,
            ..Keep::default()
        });
        let second = Arc::new(Keep::default());
        let all = Listeners::new([first.clone() as Arc<dyn EventListener>, second.clone()]);
        all.on_stall_conditions_changed(stall);
        all.on_stall_conditions_changed(stall);
        all.on_column_family_handle_deletion_started(|| "a".to_string());
        assert_eq!(*first.heard.lock().unwrap(), ["a Normal->Delayed"]);
        assert_eq!(second.heard.lock().unwrap().len(), 2);
    }

    #[test]
    fn facts_are_gathered_only_if_somebody_listens() {
        let none = Listeners::default();
        none.on_stall_conditions_changed(|| panic!("nobody asked"));
        assert!(none.is_empty());
        let error = none.on_background_error(BackgroundErrorReason::Flush, Error::io("x"));
        assert_eq!(error.unwrap().to_string(), "IO error: x");
    }

    #[test]
    fn a_listener_may_clear_a_background_error() {
        for clears in [false, true] {
            let listener = Arc::new(Keep {
                clears,
                ..Keep::default()
            });
            let all = Listeners::new([listener.clone() as Arc<dyn EventListener>]);
            let left = all.on_background_error(BackgroundErrorReason::Compaction, Error::io("x"));
            assert_eq!(left.is_none(), clears);
            assert_eq!(*listener.heard.lock().unwrap(), ["Compaction"]);
        }
    }
}
