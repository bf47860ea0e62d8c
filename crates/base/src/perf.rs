//! Describes what one thread's calls cost: RocksDB's perf context, with the names and numbers of 11.8.
//!
//! Every thread has its own counters and its own level, so nothing is shared and nothing is atomic. At
//! the level a thread starts with nothing is recorded, and a place that would record costs one load
//! from the thread's storage and one branch.
//!
//! This crate reads no clock: who measures a time brings one.
//!
//! | level | recorded |
//! |---|---|
//! | 0, 1 | nothing |
//! | 2 | counts |
//! | 3 | and times of waiting on purpose, such as write stalls |
//! | 4 | and other times, except those inside locks |
//! | 5 | and processor times |
//! | 6 and above | and times inside locks |

mod by_level;

pub use by_level::{
    LevelCounter, add_at_level, clear_by_level, disable_by_level, enable_by_level, value_at_level,
};

use std::cell::Cell;
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering};

macro_rules! counters {
    ($($Variant:ident, $text:literal;)*) => {
        /// A counter of the calling thread; times are in nanoseconds.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs, reason = "RocksDB's name says it")]
        pub enum PerfCounter { $($Variant),* }

        impl PerfCounter {
            /// All, in the order of RocksDB's report.
            pub const ALL: &'static [Self] = &[$(Self::$Variant),*];

            /// RocksDB's name.
            pub fn name(self) -> &'static str {
                const NAMES: &[&str] = &[$($text),*];
                NAMES[self as usize]
            }
        }
    };
}

counters! {
    UserKeyComparisonCount, "user_key_comparison_count";
    BlockCacheHitCount, "block_cache_hit_count";
    BlockReadCount, "block_read_count";
    BlockReadByte, "block_read_byte";
    BlockReadTime, "block_read_time";
    BlockReadCpuTime, "block_read_cpu_time";
    BlockCacheIndexHitCount, "block_cache_index_hit_count";
    BlockCacheStandaloneHandleCount, "block_cache_standalone_handle_count";
    BlockCacheRealHandleCount, "block_cache_real_handle_count";
    IndexBlockReadCount, "index_block_read_count";
    BlockCacheFilterHitCount, "block_cache_filter_hit_count";
    FilterBlockReadCount, "filter_block_read_count";
    CompressionDictBlockReadCount, "compression_dict_block_read_count";
    BlockCacheIndexReadByte, "block_cache_index_read_byte";
    BlockCacheFilterReadByte, "block_cache_filter_read_byte";
    BlockCacheCompressionDictReadByte, "block_cache_compression_dict_read_byte";
    BlockCacheReadByte, "block_cache_read_byte";
    SecondaryCacheHitCount, "secondary_cache_hit_count";
    CompressedSecCacheInsertRealCount, "compressed_sec_cache_insert_real_count";
    CompressedSecCacheInsertDummyCount, "compressed_sec_cache_insert_dummy_count";
    CompressedSecCacheUncompressedBytes, "compressed_sec_cache_uncompressed_bytes";
    CompressedSecCacheCompressedBytes, "compressed_sec_cache_compressed_bytes";
    BlockChecksumTime, "block_checksum_time";
    BlockDecompressTime, "block_decompress_time";
    BlockDecompressCount, "block_decompress_count";
    GetReadBytes, "get_read_bytes";
    MultigetReadBytes, "multiget_read_bytes";
    IterReadBytes, "iter_read_bytes";
    BlobCacheHitCount, "blob_cache_hit_count";
    BlobCacheReadByte, "blob_cache_read_byte";
    BlobReadCount, "blob_read_count";
    BlobReadByte, "blob_read_byte";
    BlobReadTime, "blob_read_time";
    BlobChecksumTime, "blob_checksum_time";
    BlobDecompressTime, "blob_decompress_time";
    InternalKeySkippedCount, "internal_key_skipped_count";
    InternalDeleteSkippedCount, "internal_delete_skipped_count";
    InternalRecentSkippedCount, "internal_recent_skipped_count";
    InternalMergeCount, "internal_merge_count";
    InternalMergePointLookupCount, "internal_merge_point_lookup_count";
    InternalRangeDelReseekCount, "internal_range_del_reseek_count";
    GetSnapshotTime, "get_snapshot_time";
    GetFromMemtableTime, "get_from_memtable_time";
    GetFromMemtableCount, "get_from_memtable_count";
    GetPostProcessTime, "get_post_process_time";
    GetFromOutputFilesTime, "get_from_output_files_time";
    SeekOnMemtableTime, "seek_on_memtable_time";
    SeekOnMemtableCount, "seek_on_memtable_count";
    NextOnMemtableCount, "next_on_memtable_count";
    PrevOnMemtableCount, "prev_on_memtable_count";
    SeekChildSeekTime, "seek_child_seek_time";
    SeekChildSeekCount, "seek_child_seek_count";
    SeekMinHeapTime, "seek_min_heap_time";
    SeekMaxHeapTime, "seek_max_heap_time";
    SeekInternalSeekTime, "seek_internal_seek_time";
    FindNextUserEntryTime, "find_next_user_entry_time";
    WriteWalTime, "write_wal_time";
    WriteMemtableTime, "write_memtable_time";
    WriteDelayTime, "write_delay_time";
    WriteSchedulingFlushesCompactionsTime, "write_scheduling_flushes_compactions_time";
    WritePreAndPostProcessTime, "write_pre_and_post_process_time";
    WriteThreadWaitNanos, "write_thread_wait_nanos";
    DbMutexLockNanos, "db_mutex_lock_nanos";
    DbConditionWaitNanos, "db_condition_wait_nanos";
    MergeOperatorTimeNanos, "merge_operator_time_nanos";
    ReadIndexBlockNanos, "read_index_block_nanos";
    ReadFilterBlockNanos, "read_filter_block_nanos";
    NewTableBlockIterNanos, "new_table_block_iter_nanos";
    NewTableIteratorNanos, "new_table_iterator_nanos";
    BlockSeekNanos, "block_seek_nanos";
    FindTableNanos, "find_table_nanos";
    BloomMemtableHitCount, "bloom_memtable_hit_count";
    BloomMemtableMissCount, "bloom_memtable_miss_count";
    BloomSstHitCount, "bloom_sst_hit_count";
    BloomSstMissCount, "bloom_sst_miss_count";
    KeyLockWaitTime, "key_lock_wait_time";
    KeyLockWaitCount, "key_lock_wait_count";
    EnvNewSequentialFileNanos, "env_new_sequential_file_nanos";
    EnvNewRandomAccessFileNanos, "env_new_random_access_file_nanos";
    EnvNewWritableFileNanos, "env_new_writable_file_nanos";
    EnvReuseWritableFileNanos, "env_reuse_writable_file_nanos";
    EnvNewRandomRwFileNanos, "env_new_random_rw_file_nanos";
    EnvNewDirectoryNanos, "env_new_directory_nanos";
    EnvFileExistsNanos, "env_file_exists_nanos";
    EnvGetChildrenNanos, "env_get_children_nanos";
    EnvGetChildrenFileAttributesNanos, "env_get_children_file_attributes_nanos";
    EnvDeleteFileNanos, "env_delete_file_nanos";
    EnvCreateDirNanos, "env_create_dir_nanos";
    EnvCreateDirIfMissingNanos, "env_create_dir_if_missing_nanos";
    EnvDeleteDirNanos, "env_delete_dir_nanos";
    EnvGetFileSizeNanos, "env_get_file_size_nanos";
    EnvGetFileModificationTimeNanos, "env_get_file_modification_time_nanos";
    EnvRenameFileNanos, "env_rename_file_nanos";
    EnvLinkFileNanos, "env_link_file_nanos";
    EnvLockFileNanos, "env_lock_file_nanos";
    EnvUnlockFileNanos, "env_unlock_file_nanos";
    EnvNewLoggerNanos, "env_new_logger_nanos";
    GetCpuNanos, "get_cpu_nanos";
    IterNextCpuNanos, "iter_next_cpu_nanos";
    IterPrevCpuNanos, "iter_prev_cpu_nanos";
    IterSeekCpuNanos, "iter_seek_cpu_nanos";
    IterNextCount, "iter_next_count";
    IterPrevCount, "iter_prev_count";
    IterSeekCount, "iter_seek_count";
    EncryptDataNanos, "encrypt_data_nanos";
    DecryptDataNanos, "decrypt_data_nanos";
    NumberAsyncSeek, "number_async_seek";
    FileIngestionNanos, "file_ingestion_nanos";
    FileIngestionBlockingLiveWritesNanos, "file_ingestion_blocking_live_writes_nanos";
    DataBlockReadByte, "data_block_read_byte";
    IndexBlockReadByte, "index_block_read_byte";
    FilterBlockReadByte, "filter_block_read_byte";
    CompressionDictBlockReadByte, "compression_dict_block_read_byte";
    MetadataBlockReadByte, "metadata_block_read_byte";
    MultiscanPrepareCount, "multiscan_prepare_count";
    MultiscanBlocksPrefetched, "multiscan_blocks_prefetched";
    MultiscanBlocksFromCache, "multiscan_blocks_from_cache";
    MultiscanPrefetchBytes, "multiscan_prefetch_bytes";
    MultiscanIoRequests, "multiscan_io_requests";
    MultiscanIoCoalescedNonadjacent, "multiscan_io_coalesced_nonadjacent";
}

/// The counters a C client can ask for, by their numbers there. Number 83 is declared there and never
/// answered, so it is missing here.
const C_NUMBERS: &[PerfCounter] = &[
    PerfCounter::UserKeyComparisonCount,
    PerfCounter::BlockCacheHitCount,
    PerfCounter::BlockReadCount,
    PerfCounter::BlockReadByte,
    PerfCounter::BlockReadTime,
    PerfCounter::BlockChecksumTime,
    PerfCounter::BlockDecompressTime,
    PerfCounter::GetReadBytes,
    PerfCounter::MultigetReadBytes,
    PerfCounter::IterReadBytes,
    PerfCounter::InternalKeySkippedCount,
    PerfCounter::InternalDeleteSkippedCount,
    PerfCounter::InternalRecentSkippedCount,
    PerfCounter::InternalMergeCount,
    PerfCounter::GetSnapshotTime,
    PerfCounter::GetFromMemtableTime,
    PerfCounter::GetFromMemtableCount,
    PerfCounter::GetPostProcessTime,
    PerfCounter::GetFromOutputFilesTime,
    PerfCounter::SeekOnMemtableTime,
    PerfCounter::SeekOnMemtableCount,
    PerfCounter::NextOnMemtableCount,
    PerfCounter::PrevOnMemtableCount,
    PerfCounter::SeekChildSeekTime,
    PerfCounter::SeekChildSeekCount,
    PerfCounter::SeekMinHeapTime,
    PerfCounter::SeekMaxHeapTime,
    PerfCounter::SeekInternalSeekTime,
    PerfCounter::FindNextUserEntryTime,
    PerfCounter::WriteWalTime,
    PerfCounter::WriteMemtableTime,
    PerfCounter::WriteDelayTime,
    PerfCounter::WritePreAndPostProcessTime,
    PerfCounter::DbMutexLockNanos,
    PerfCounter::DbConditionWaitNanos,
    PerfCounter::MergeOperatorTimeNanos,
    PerfCounter::ReadIndexBlockNanos,
    PerfCounter::ReadFilterBlockNanos,
    PerfCounter::NewTableBlockIterNanos,
    PerfCounter::NewTableIteratorNanos,
    PerfCounter::BlockSeekNanos,
    PerfCounter::FindTableNanos,
    PerfCounter::BloomMemtableHitCount,
    PerfCounter::BloomMemtableMissCount,
    PerfCounter::BloomSstHitCount,
    PerfCounter::BloomSstMissCount,
    PerfCounter::KeyLockWaitTime,
    PerfCounter::KeyLockWaitCount,
    PerfCounter::EnvNewSequentialFileNanos,
    PerfCounter::EnvNewRandomAccessFileNanos,
    PerfCounter::EnvNewWritableFileNanos,
    PerfCounter::EnvReuseWritableFileNanos,
    PerfCounter::EnvNewRandomRwFileNanos,
    PerfCounter::EnvNewDirectoryNanos,
    PerfCounter::EnvFileExistsNanos,
    PerfCounter::EnvGetChildrenNanos,
    PerfCounter::EnvGetChildrenFileAttributesNanos,
    PerfCounter::EnvDeleteFileNanos,
    PerfCounter::EnvCreateDirNanos,
    PerfCounter::EnvCreateDirIfMissingNanos,
    PerfCounter::EnvDeleteDirNanos,
    PerfCounter::EnvGetFileSizeNanos,
    PerfCounter::EnvGetFileModificationTimeNanos,
    PerfCounter::EnvRenameFileNanos,
    PerfCounter::EnvLinkFileNanos,
    PerfCounter::EnvLockFileNanos,
    PerfCounter::EnvUnlockFileNanos,
    PerfCounter::EnvNewLoggerNanos,
    PerfCounter::NumberAsyncSeek,
    PerfCounter::BlobCacheHitCount,
    PerfCounter::BlobReadCount,
    PerfCounter::BlobReadByte,
    PerfCounter::BlobReadTime,
    PerfCounter::BlobChecksumTime,
    PerfCounter::BlobDecompressTime,
    PerfCounter::InternalRangeDelReseekCount,
    PerfCounter::BlockReadCpuTime,
    PerfCounter::InternalMergePointLookupCount,
    PerfCounter::DataBlockReadByte,
    PerfCounter::IndexBlockReadByte,
    PerfCounter::FilterBlockReadByte,
    PerfCounter::CompressionDictBlockReadByte,
    PerfCounter::MetadataBlockReadByte,
];

impl PerfCounter {
    /// The counter that a C client asks for by `number`; `None` if RocksDB answers 0.
    pub fn from_c_number(number: i32) -> Option<Self> {
        C_NUMBERS.get(usize::try_from(number).ok()?).copied()
    }
}

/// From which level on a time is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PerfTime {
    /// Waiting on purpose.
    Wait = 3,
    /// Any other work.
    Work = 4,
    /// Processor time.
    Cpu = 5,
    /// Waiting for or inside a lock.
    Mutex = 6,
}

const COUNTS: u8 = 2;
const SIZE: usize = PerfCounter::ALL.len();

thread_local! {
    static LEVEL: Cell<u8> = const { Cell::new(0) };
    static VALUES: [Cell<u64>; SIZE] = const { [const { Cell::new(0) }; SIZE] };
}

/// Says whether any thread ever recorded: set once, so that threads of processes without perf contexts pay
/// one load of a shared, unchanging line.
static RAISED: AtomicBool = AtomicBool::new(false);

/// Returns whether any thread of the process ever had a level at which something is recorded.
#[inline]
pub fn was_raised() -> bool {
    // Relaxed: a thread sees its own store, and others' do not matter to it.
    RAISED.load(Ordering::Relaxed)
}

/// Returns whether the calling thread records anything.
#[inline]
pub fn is_on() -> bool {
    was_raised() && reaches(COUNTS)
}

/// Behind [`was_raised`], and not inlined: the address of a thread-local costs a call in a shared
/// library, which the optimiser else makes before it looks at the flag.
#[cold]
#[inline(never)]
fn reaches(level: u8) -> bool {
    LEVEL.get() >= level
}

/// Has the calling thread count, unless a level was ever set on it. RocksDB counts from the start; here a thread
/// that nobody asks pays nothing.
pub fn count_unless_told() {
    if LEVEL.get() == 0 {
        set_level(COUNTS.into());
    }
}

/// Sets the calling thread's level; numbers that RocksDB does not know count as the nearest it knows.
pub fn set_level(number: i32) {
    let level = number.clamp(1, 255) as u8;
    if level >= COUNTS {
        RAISED.store(true, Ordering::Relaxed);
    }
    LEVEL.set(level);
}

/// Records nothing on the calling thread until the result is dropped: what it does meanwhile is not what
/// its caller asks about.
#[must_use]
pub fn pause() -> impl Drop {
    /// Puts back the level of before.
    struct Paused(u8);
    impl Drop for Paused {
        fn drop(&mut self) {
            LEVEL.set(self.0);
        }
    }
    // Below the levels that record, and not that of a thread that was never asked.
    let level = LEVEL.get();
    Paused(LEVEL.replace(level.min(1)))
}

/// Adds to a counter of the calling thread, from level 2 on.
#[inline]
pub fn add(counter: PerfCounter, n: u64) {
    if is_on() {
        add_always(counter, n);
    }
}

/// Not inlined for the reason of [`reaches`]: in loops its address would be made before them.
#[cold]
#[inline(never)]
fn add_always(counter: PerfCounter, n: u64) {
    VALUES.with(|values| {
        let value = &values[counter as usize];
        value.set(value.get().wrapping_add(n));
    });
}

/// Returns whether times of this kind are recorded on the calling thread.
#[inline]
pub fn is_timed(kind: PerfTime) -> bool {
    was_raised() && reaches(kind as u8)
}

/// Measures until it is dropped, if times of `kind` are recorded; `now` tells nanoseconds and is not
/// called otherwise.
#[inline]
#[must_use]
pub fn timer<F: Fn() -> u64>(counter: PerfCounter, kind: PerfTime, now: F) -> PerfTimer<F> {
    let start = if is_timed(kind) { Some(now()) } else { None };
    PerfTimer {
        counter,
        start,
        now,
    }
}

/// A running measurement; see [`timer`].
pub struct PerfTimer<F: Fn() -> u64> {
    counter: PerfCounter,
    start: Option<u64>,
    now: F,
}

impl<F: Fn() -> u64> Drop for PerfTimer<F> {
    #[inline]
    fn drop(&mut self) {
        if let Some(start) = self.start {
            add_always(self.counter, (self.now)().saturating_sub(start));
        }
    }
}

/// The calling thread's counter.
pub fn value(counter: PerfCounter) -> u64 {
    VALUES.with(|values| values[counter as usize].get())
}

/// Sets all counters of the calling thread to zero.
pub fn reset() {
    VALUES.with(|values| values.iter().for_each(|value| value.set(0)));
    by_level::reset();
}

/// RocksDB's text: `name = value` for each counter, separated by a comma and a blank; after them those by
/// level, if the thread keeps them.
pub fn report(without_zeros: bool) -> String {
    let mut out = String::new();
    for &counter in PerfCounter::ALL {
        let value = value(counter);
        if value == 0 && without_zeros {
            continue;
        }
        // Writing to a string cannot fail.
        let _ = write!(out, "{} = {value}, ", counter.name());
    }
    by_level::report(&mut out, without_zeros);
    out.truncate(out.trim_end_matches([',', ' ']).len());
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn numbers_and_names_are_those_of_rocksdb_11_8() {
        assert_eq!(C_NUMBERS.len(), 83);
        for (number, name) in [
            (0, "user_key_comparison_count"),
            (33, "db_mutex_lock_nanos"),
            (68, "number_async_seek"),
            (76, "block_read_cpu_time"),
            (77, "internal_merge_point_lookup_count"),
            (82, "metadata_block_read_byte"),
        ] {
            assert_eq!(PerfCounter::from_c_number(number).unwrap().name(), name);
        }
        for number in [-1, 83, 84, 86, i32::MAX] {
            assert_eq!(PerfCounter::from_c_number(number), None);
        }
        let names: BTreeSet<_> = PerfCounter::ALL.iter().map(|c| c.name()).collect();
        assert_eq!(names.len(), PerfCounter::ALL.len());
    }

    #[test]
    fn the_level_decides_what_is_recorded_and_threads_do_not_share() {
        let counter = PerfCounter::GetReadBytes;
        let times = [
            (PerfTime::Wait, PerfCounter::WriteDelayTime),
            (PerfTime::Work, PerfCounter::BlockReadTime),
            (PerfTime::Cpu, PerfCounter::GetCpuNanos),
            (PerfTime::Mutex, PerfCounter::DbMutexLockNanos),
        ];
        assert_eq!(LEVEL.get(), 0);
        count_unless_told();
        assert_eq!(LEVEL.get(), 2, "nobody said anything");
        set_level(1);
        count_unless_told();
        assert_eq!(LEVEL.get(), 1);
        for number in 0..9 {
            reset();
            set_level(number);
            assert_eq!(i32::from(LEVEL.get()), number.max(1));
            add(counter, 5);
            assert_eq!(value(counter), if number >= 2 { 5 } else { 0 });
            for (kind, counter) in times {
                let clock = Cell::new(100);
                drop(timer(counter, kind, || clock.replace(107)));
                let want = if number >= kind as i32 { 7 } else { 0 };
                assert_eq!(value(counter), want, "{number} {kind:?}");
            }
        }
        std::thread::scope(|scope| {
            scope.spawn(|| assert_eq!((LEVEL.get(), value(counter)), (0, 0)));
        });
    }

    #[test]
    fn the_report_is_rocksdbs() {
        reset();
        set_level(2);
        assert_eq!(report(true), "");
        add(PerfCounter::UserKeyComparisonCount, 7);
        add(PerfCounter::GetReadBytes, 1);
        assert_eq!(
            report(true),
            "user_key_comparison_count = 7, get_read_bytes = 1"
        );
        let all = report(false);
        assert!(all.starts_with("user_key_comparison_count = 7, block_cache_hit_count = 0, "));
        assert!(all.ends_with(", multiscan_io_coalesced_nonadjacent = 0"));
    }
}
