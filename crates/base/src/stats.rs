//! Counters (tickers) and histograms, with the names and numbers of RocksDB 11.8.
//!
//! A ticker's or histogram's number is its position in the tables below; a C client asks by number.
//! Only what the engine measures is ever different from zero.
//!
//! Recording is a relaxed addition, cheap enough for every call once somebody asked for statistics.
//! Tickers are spread over stripes by thread, so that threads do not fight for one cache line;
//! histograms are shared. Reading sums up while others record: each number is exact for some moment,
//! numbers of one snapshot need not belong together.

use crate::histogram::Distribution;
pub use crate::histogram::HistogramData;
use std::cell::Cell;
use std::fmt::Write;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};

/// Number of copies of each ticker.
const STRIPES: usize = 8;

macro_rules! numbered {
    ($(#[$meta:meta])* $Name:ident { $($Variant:ident, $text:literal;)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs, reason = "RocksDB's name says it")]
        pub enum $Name { $($Variant),* }

        impl $Name {
            /// All, in the order of their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$Variant),*];

            /// RocksDB's name, without the leading `rocksdb.`.
            pub fn name(self) -> &'static str {
                const NAMES: &[&str] = &[$($text),*];
                NAMES[self as usize]
            }

            /// By RocksDB's number.
            pub fn from_number(number: u32) -> Option<Self> {
                Self::ALL.get(usize::try_from(number).ok()?).copied()
            }
        }
    };
}

macro_rules! tickers {
    ($($rows:tt)*) => {
        numbered! {
            /// A counter that only rises.
            Ticker { $($rows)* }
        }
    };
}

macro_rules! histograms {
    ($($rows:tt)*) => {
        numbered! {
            /// A distribution of measured values.
            Histogram { $($rows)* }
        }
    };
}

/// How much is recorded; RocksDB's statistics levels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum StatsLevel {
    /// Nothing.
    DisableAll = 0,
    /// Tickers, but neither histograms nor times.
    ExceptHistogramOrTimers = 1,
    /// Tickers and histograms of other things than time.
    ExceptTimers = 2,
    /// Everything but detailed times.
    #[default]
    ExceptDetailedTimers = 3,
    /// Everything but times inside locks.
    ExceptTimeForMutex = 4,
    /// Everything.
    All = 5,
}

impl StatsLevel {
    /// By RocksDB's number; numbers beyond the ends mean the ends.
    pub fn from_number(number: i32) -> Self {
        match number {
            ..=0 => Self::DisableAll,
            1 => Self::ExceptHistogramOrTimers,
            2 => Self::ExceptTimers,
            3 => Self::ExceptDetailedTimers,
            4 => Self::ExceptTimeForMutex,
            5.. => Self::All,
        }
    }
}

#[repr(align(128))]
struct Stripe([AtomicU64; Ticker::ALL.len()]);

/// All tickers and histograms of a database, or of several that share them.
pub struct Statistics {
    level: AtomicU8,
    stripes: Box<[Stripe]>,
    histograms: Box<[Distribution]>,
}

impl Default for Statistics {
    fn default() -> Self {
        let stripe = || Stripe([const { AtomicU64::new(0) }; Ticker::ALL.len()]);
        Self {
            level: AtomicU8::new(StatsLevel::default() as u8),
            stripes: (0..STRIPES).map(|_| stripe()).collect(),
            histograms: Histogram::ALL
                .iter()
                .map(|_| Distribution::default())
                .collect(),
        }
    }
}

impl std::fmt::Debug for Statistics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Statistics")
            .field("level", &self.level())
            .finish_non_exhaustive()
    }
}

/// The stripe of this thread.
fn stripe() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static MINE: Cell<usize> = const { Cell::new(usize::MAX) };
    }
    // A thread that is being torn down has no locals any more; any stripe will do.
    MINE.try_with(|mine| {
        if mine.get() == usize::MAX {
            mine.set(NEXT.fetch_add(1, Ordering::Relaxed) % STRIPES);
        }
        mine.get()
    })
    .unwrap_or(0)
}

impl Statistics {
    /// All zero, level [`StatsLevel::ExceptDetailedTimers`].
    pub fn new() -> Self {
        Self::default()
    }

    /// How much is recorded.
    pub fn level(&self) -> StatsLevel {
        StatsLevel::from_number(i32::from(self.level.load(Ordering::Relaxed)))
    }

    /// Changes how much is recorded.
    pub fn set_level(&self, level: StatsLevel) {
        self.level.store(level as u8, Ordering::Relaxed);
    }

    /// Adds to a ticker.
    #[inline]
    pub fn add(&self, ticker: Ticker, count: u64) {
        if self.level.load(Ordering::Relaxed) > StatsLevel::DisableAll as u8 {
            self.stripes[stripe()].0[ticker as usize].fetch_add(count, Ordering::Relaxed);
        }
    }

    /// Records a value that is not a time.
    #[inline]
    pub fn record(&self, histogram: Histogram, value: u64) {
        if self.level.load(Ordering::Relaxed) > StatsLevel::ExceptHistogramOrTimers as u8 {
            self.histograms[histogram as usize].record(value);
        }
    }

    /// Returns whether times are recorded; who does not ask a clock for nothing looks first.
    #[inline]
    pub fn wants_times(&self) -> bool {
        self.level.load(Ordering::Relaxed) > StatsLevel::ExceptTimers as u8
    }

    /// Returns whether detailed times are recorded, which only the two highest levels do.
    #[inline]
    pub fn wants_detailed_times(&self) -> bool {
        self.level.load(Ordering::Relaxed) > StatsLevel::ExceptDetailedTimers as u8
    }

    /// Records a time, usually in microseconds.
    #[inline]
    pub fn record_time(&self, histogram: Histogram, time: u64) {
        if self.wants_times() {
            self.histograms[histogram as usize].record(time);
        }
    }

    /// Sets a ticker, whatever the level.
    fn set_ticker(&self, ticker: Ticker, count: u64) {
        for (at, stripe) in self.stripes.iter().enumerate() {
            let share = if at == 0 { count } else { 0 };
            stripe.0[ticker as usize].store(share, Ordering::Relaxed);
        }
    }

    /// Value of a ticker, which becomes zero. What other threads add meanwhile is in this answer or in
    /// the next.
    pub fn take_ticker(&self, ticker: Ticker) -> u64 {
        let of = |s: &Stripe| s.0[ticker as usize].swap(0, Ordering::Relaxed);
        self.stripes.iter().map(of).fold(0, u64::wrapping_add)
    }

    /// Forgets everything; the level stays.
    pub fn reset(&self) {
        for &ticker in Ticker::ALL {
            self.set_ticker(ticker, 0);
        }
        self.histograms.iter().for_each(Distribution::reset);
    }

    /// RocksDB's text about one histogram, with a line per bucket in use.
    pub fn histogram_text(&self, histogram: Histogram) -> String {
        self.histograms[histogram as usize].text()
    }

    /// Value of a ticker.
    pub fn ticker(&self, ticker: Ticker) -> u64 {
        let of = |s: &Stripe| s.0[ticker as usize].load(Ordering::Relaxed);
        self.stripes.iter().map(of).fold(0, u64::wrapping_add)
    }

    /// State of a histogram; zeros if nothing was recorded.
    pub fn histogram(&self, histogram: Histogram) -> HistogramData {
        self.histograms[histogram as usize].summary()
    }

    /// RocksDB's text: one line per ticker, then one per histogram.
    pub fn text(&self) -> String {
        let mut out = String::with_capacity(1 << 15);
        for &t in Ticker::ALL {
            // Writing to a string cannot fail.
            let _ = writeln!(out, "rocksdb.{} COUNT : {}", t.name(), self.ticker(t));
        }
        for &h in Histogram::ALL {
            let d = self.histogram(h);
            let _ = writeln!(
                out,
                "rocksdb.{} P50 : {:.6} P95 : {:.6} P99 : {:.6} P100 : {:.6} COUNT : {} SUM : {}",
                h.name(),
                d.median,
                d.p95,
                d.p99,
                d.max,
                d.count,
                d.sum,
            );
        }
        out
    }
}

tickers! {
    BlockCacheMiss, "block.cache.miss";
    BlockCacheHit, "block.cache.hit";
    BlockCacheAdd, "block.cache.add";
    BlockCacheAddFailures, "block.cache.add.failures";
    BlockCacheIndexMiss, "block.cache.index.miss";
    BlockCacheIndexHit, "block.cache.index.hit";
    BlockCacheIndexAdd, "block.cache.index.add";
    BlockCacheIndexBytesInsert, "block.cache.index.bytes.insert";
    BlockCacheFilterMiss, "block.cache.filter.miss";
    BlockCacheFilterHit, "block.cache.filter.hit";
    BlockCacheFilterAdd, "block.cache.filter.add";
    BlockCacheFilterBytesInsert, "block.cache.filter.bytes.insert";
    BlockCacheDataMiss, "block.cache.data.miss";
    BlockCacheDataHit, "block.cache.data.hit";
    BlockCacheDataAdd, "block.cache.data.add";
    BlockCacheDataBytesInsert, "block.cache.data.bytes.insert";
    BlockCacheBytesRead, "block.cache.bytes.read";
    BlockCacheBytesWrite, "block.cache.bytes.write";
    BlockCacheCompressionDictMiss, "block.cache.compression.dict.miss";
    BlockCacheCompressionDictHit, "block.cache.compression.dict.hit";
    BlockCacheCompressionDictAdd, "block.cache.compression.dict.add";
    BlockCacheCompressionDictBytesInsert, "block.cache.compression.dict.bytes.insert";
    BlockCacheAddRedundant, "block.cache.add.redundant";
    BlockCacheIndexAddRedundant, "block.cache.index.add.redundant";
    BlockCacheFilterAddRedundant, "block.cache.filter.add.redundant";
    BlockCacheDataAddRedundant, "block.cache.data.add.redundant";
    BlockCacheCompressionDictAddRedundant, "block.cache.compression.dict.add.redundant";
    SecondaryCacheHits, "secondary.cache.hits";
    SecondaryCacheFilterHits, "secondary.cache.filter.hits";
    SecondaryCacheIndexHits, "secondary.cache.index.hits";
    SecondaryCacheDataHits, "secondary.cache.data.hits";
    CompressedSecondaryCacheDummyHits, "compressed.secondary.cache.dummy.hits";
    CompressedSecondaryCacheHits, "compressed.secondary.cache.hits";
    CompressedSecondaryCachePromotions, "compressed.secondary.cache.promotions";
    CompressedSecondaryCachePromotionSkips, "compressed.secondary.cache.promotion.skips";
    BloomFilterUseful, "bloom.filter.useful";
    BloomFilterFullPositive, "bloom.filter.full.positive";
    BloomFilterFullTruePositive, "bloom.filter.full.true.positive";
    BloomFilterPrefixChecked, "bloom.filter.prefix.checked";
    BloomFilterPrefixUseful, "bloom.filter.prefix.useful";
    BloomFilterPrefixTruePositive, "bloom.filter.prefix.true.positive";
    PersistentCacheHit, "persistent.cache.hit";
    PersistentCacheMiss, "persistent.cache.miss";
    SimBlockCacheHit, "sim.block.cache.hit";
    SimBlockCacheMiss, "sim.block.cache.miss";
    MemtableHit, "memtable.hit";
    MemtableMiss, "memtable.miss";
    L0Hit, "l0.hit";
    L1Hit, "l1.hit";
    L2andupHit, "l2andup.hit";
    CompactionKeyDropNew, "compaction.key.drop.new";
    CompactionKeyDropObsolete, "compaction.key.drop.obsolete";
    CompactionKeyDropRangeDel, "compaction.key.drop.range_del";
    CompactionKeyDropUser, "compaction.key.drop.user";
    CompactionRangeDelDropObsolete, "compaction.range_del.drop.obsolete";
    CompactionOptimizedDelDropObsolete, "compaction.optimized.del.drop.obsolete";
    CompactionCancelled, "compaction.cancelled";
    CompactionAborted, "compaction.aborted";
    NumberKeysWritten, "number.keys.written";
    NumberKeysRead, "number.keys.read";
    NumberKeysUpdated, "number.keys.updated";
    BytesWritten, "bytes.written";
    BytesRead, "bytes.read";
    NumberDbSeek, "number.db.seek";
    NumberDbNext, "number.db.next";
    NumberDbPrev, "number.db.prev";
    NumberDbSeekFound, "number.db.seek.found";
    NumberDbNextFound, "number.db.next.found";
    NumberDbPrevFound, "number.db.prev.found";
    DbIterBytesRead, "db.iter.bytes.read";
    NumberIterSkip, "number.iter.skip";
    NumberReseeksIteration, "number.reseeks.iteration";
    NumIteratorCreated, "num.iterator.created";
    NumIteratorDeleted, "num.iterator.deleted";
    NoFileOpens, "no.file.opens";
    NoFileErrors, "no.file.errors";
    StallMicros, "stall.micros";
    DbMutexWaitMicros, "db.mutex.wait.micros";
    NumberMultigetGet, "number.multiget.get";
    NumberMultigetKeysRead, "number.multiget.keys.read";
    NumberMultigetBytesRead, "number.multiget.bytes.read";
    NumberMultigetKeysFound, "number.multiget.keys.found";
    NumberMergeFailures, "number.merge.failures";
    GetupdatessinceCalls, "getupdatessince.calls";
    WalSynced, "wal.synced";
    WalBytes, "wal.bytes";
    WalPrecreateHit, "wal.precreate.hit";
    WalPrecreateMiss, "wal.precreate.miss";
    WalPrecreateWaited, "wal.precreate.waited";
    WalPrecreateWaitMicros, "wal.precreate.wait.micros";
    WalPrecreateFailed, "wal.precreate.failed";
    WriteSelf, "write.self";
    WriteOther, "write.other";
    WriteWal, "write.wal";
    CompactReadBytes, "compact.read.bytes";
    CompactWriteBytes, "compact.write.bytes";
    FlushWriteBytes, "flush.write.bytes";
    CompactReadMarkedBytes, "compact.read.marked.bytes";
    CompactReadPeriodicBytes, "compact.read.periodic.bytes";
    CompactReadTtlBytes, "compact.read.ttl.bytes";
    CompactWriteMarkedBytes, "compact.write.marked.bytes";
    CompactWritePeriodicBytes, "compact.write.periodic.bytes";
    CompactWriteTtlBytes, "compact.write.ttl.bytes";
    NumberDirectLoadTableProperties, "number.direct.load.table.properties";
    NumberSuperversionAcquires, "number.superversion_acquires";
    NumberSuperversionReleases, "number.superversion_releases";
    NumberSuperversionCleanups, "number.superversion_cleanups";
    NumberBlockCompressed, "number.block.compressed";
    NumberBlockDecompressed, "number.block.decompressed";
    BytesCompressedFrom, "bytes.compressed.from";
    BytesCompressedTo, "bytes.compressed.to";
    BytesCompressionBypassed, "bytes.compression_bypassed";
    BytesCompressionRejected, "bytes.compression.rejected";
    NumberBlockCompressionBypassed, "number.block_compression_bypassed";
    NumberBlockCompressionRejected, "number.block_compression_rejected";
    BytesDecompressedFrom, "bytes.decompressed.from";
    BytesDecompressedTo, "bytes.decompressed.to";
    MergeOperationTimeNanos, "merge.operation.time.nanos";
    FilterOperationTimeNanos, "filter.operation.time.nanos";
    CompactionTotalTimeCpuMicros, "compaction.total.time.cpu_micros";
    RowCacheHit, "row.cache.hit";
    RowCacheMiss, "row.cache.miss";
    ReadAmpEstimateUsefulBytes, "read.amp.estimate.useful.bytes";
    ReadAmpTotalReadBytes, "read.amp.total.read.bytes";
    NumberRateLimiterDrains, "number.rate_limiter.drains";
    RateLimiterBytesRead, "rate.limiter.bytes.read";
    RateLimiterBytesWrite, "rate.limiter.bytes.write";
    RateLimiterRequestsRead, "rate.limiter.requests.read";
    RateLimiterRequestsWrite, "rate.limiter.requests.write";
    RateLimiterDelayedRequestsRead, "rate.limiter.delayed.requests.read";
    RateLimiterDelayedRequestsWrite, "rate.limiter.delayed.requests.write";
    RateLimiterTotalWaitMicrosRead, "rate.limiter.total.wait.micros.read";
    RateLimiterTotalWaitMicrosWrite, "rate.limiter.total.wait.micros.write";
    BlobdbNumPut, "blobdb.num.put";
    BlobdbNumWrite, "blobdb.num.write";
    BlobdbNumGet, "blobdb.num.get";
    BlobdbNumMultiget, "blobdb.num.multiget";
    BlobdbNumSeek, "blobdb.num.seek";
    BlobdbNumNext, "blobdb.num.next";
    BlobdbNumPrev, "blobdb.num.prev";
    BlobdbNumKeysWritten, "blobdb.num.keys.written";
    BlobdbNumKeysRead, "blobdb.num.keys.read";
    BlobdbBytesWritten, "blobdb.bytes.written";
    BlobdbBytesRead, "blobdb.bytes.read";
    BlobdbWriteInlined, "blobdb.write.inlined";
    BlobdbWriteInlinedTtl, "blobdb.write.inlined.ttl";
    BlobdbWriteBlob, "blobdb.write.blob";
    BlobdbWriteBlobTtl, "blobdb.write.blob.ttl";
    BlobdbBlobFileBytesWritten, "blobdb.blob.file.bytes.written";
    BlobdbBlobFileBytesRead, "blobdb.blob.file.bytes.read";
    BlobdbBlobFileSynced, "blobdb.blob.file.synced";
    BlobdbBlobIndexExpiredCount, "blobdb.blob.index.expired.count";
    BlobdbBlobIndexExpiredSize, "blobdb.blob.index.expired.size";
    BlobdbBlobIndexEvictedCount, "blobdb.blob.index.evicted.count";
    BlobdbBlobIndexEvictedSize, "blobdb.blob.index.evicted.size";
    BlobdbGcNumFiles, "blobdb.gc.num.files";
    BlobdbGcNumNewFiles, "blobdb.gc.num.new.files";
    BlobdbGcFailures, "blobdb.gc.failures";
    BlobdbGcNumKeysRelocated, "blobdb.gc.num.keys.relocated";
    BlobdbGcBytesRelocated, "blobdb.gc.bytes.relocated";
    BlobdbFifoNumFilesEvicted, "blobdb.fifo.num.files.evicted";
    BlobdbFifoNumKeysEvicted, "blobdb.fifo.num.keys.evicted";
    BlobdbFifoBytesEvicted, "blobdb.fifo.bytes.evicted";
    BlobdbCacheMiss, "blobdb.cache.miss";
    BlobdbCacheHit, "blobdb.cache.hit";
    BlobdbCacheAdd, "blobdb.cache.add";
    BlobdbCacheAddFailures, "blobdb.cache.add.failures";
    BlobdbCacheBytesRead, "blobdb.cache.bytes.read";
    BlobdbCacheBytesWrite, "blobdb.cache.bytes.write";
    TxnOverheadMutexPrepare, "txn.overhead.mutex.prepare";
    TxnOverheadMutexOldCommitMap, "txn.overhead.mutex.old.commit.map";
    TxnOverheadDuplicateKey, "txn.overhead.duplicate.key";
    TxnOverheadMutexSnapshot, "txn.overhead.mutex.snapshot";
    TxnGetTryagain, "txn.get.tryagain";
    FilesMarkedTrash, "files.marked.trash";
    FilesMarkedTrashDeleted, "files.marked.trash.deleted";
    FilesDeletedImmediately, "files.deleted.immediately";
    ErrorHandlerBgErrorCount, "error.handler.bg.error.count";
    ErrorHandlerBgIoErrorCount, "error.handler.bg.io.error.count";
    ErrorHandlerBgRetryableIoErrorCount, "error.handler.bg.retryable.io.error.count";
    ErrorHandlerAutoresumeCount, "error.handler.autoresume.count";
    ErrorHandlerAutoresumeRetryTotalCount, "error.handler.autoresume.retry.total.count";
    ErrorHandlerAutoresumeSuccessCount, "error.handler.autoresume.success.count";
    MemtablePayloadBytesAtFlush, "memtable.payload.bytes.at.flush";
    MemtableGarbageBytesAtFlush, "memtable.garbage.bytes.at.flush";
    VerifyChecksumReadBytes, "verify_checksum.read.bytes";
    BackupReadBytes, "backup.read.bytes";
    BackupWriteBytes, "backup.write.bytes";
    RemoteCompactReadBytes, "remote.compact.read.bytes";
    RemoteCompactWriteBytes, "remote.compact.write.bytes";
    RemoteCompactResumedBytes, "remote.compact.resumed.bytes";
    HotFileReadBytes, "hot.file.read.bytes";
    WarmFileReadBytes, "warm.file.read.bytes";
    CoolFileReadBytes, "cool.file.read.bytes";
    ColdFileReadBytes, "cold.file.read.bytes";
    IceFileReadBytes, "ice.file.read.bytes";
    HotFileReadCount, "hot.file.read.count";
    WarmFileReadCount, "warm.file.read.count";
    CoolFileReadCount, "cool.file.read.count";
    ColdFileReadCount, "cold.file.read.count";
    IceFileReadCount, "ice.file.read.count";
    LastLevelReadBytes, "last.level.read.bytes";
    LastLevelReadCount, "last.level.read.count";
    NonLastLevelReadBytes, "non.last.level.read.bytes";
    NonLastLevelReadCount, "non.last.level.read.count";
    LastLevelSeekFiltered, "last.level.seek.filtered";
    LastLevelSeekFilterMatch, "last.level.seek.filter.match";
    LastLevelSeekData, "last.level.seek.data";
    LastLevelSeekDataUsefulNoFilter, "last.level.seek.data.useful.no.filter";
    LastLevelSeekDataUsefulFilterMatch, "last.level.seek.data.useful.filter.match";
    NonLastLevelSeekFiltered, "non.last.level.seek.filtered";
    NonLastLevelSeekFilterMatch, "non.last.level.seek.filter.match";
    NonLastLevelSeekData, "non.last.level.seek.data";
    NonLastLevelSeekDataUsefulNoFilter, "non.last.level.seek.data.useful.no.filter";
    NonLastLevelSeekDataUsefulFilterMatch, "non.last.level.seek.data.useful.filter.match";
    BlockChecksumComputeCount, "block.checksum.compute.count";
    BlockChecksumMismatchCount, "block.checksum.mismatch.count";
    MultigetCoroutineCount, "multiget.coroutine.count";
    ReadAsyncMicros, "read.async.micros";
    AsyncReadErrorCount, "async.read.error.count";
    TableOpenPrefetchTailMiss, "table.open.prefetch.tail.miss";
    TableOpenPrefetchTailHit, "table.open.prefetch.tail.hit";
    TimestampFilterTableChecked, "timestamp.filter.table.checked";
    TimestampFilterTableFiltered, "timestamp.filter.table.filtered";
    ReadaheadTrimmed, "readahead.trimmed";
    FifoMaxSizeCompactions, "fifo.max.size.compactions";
    FifoTtlCompactions, "fifo.ttl.compactions";
    FifoChangeTemperatureCompactions, "fifo.change_temperature.compactions";
    PrefetchBytes, "prefetch.bytes";
    PrefetchBytesUseful, "prefetch.bytes.useful";
    PrefetchHits, "prefetch.hits";
    FooterCorruptionCount, "footer.corruption.count";
    FileReadCorruptionRetryCount, "file.read.corruption.retry.count";
    FileReadCorruptionRetrySuccessCount, "file.read.corruption.retry.success.count";
    NumberWbwiIngest, "number.wbwi.ingest";
    SstUserDefinedIndexLoadFailCount, "sst.user.defined.index.load.fail.count";
    MultiscanPrepareCalls, "multiscan.prepare.calls";
    MultiscanPrepareErrors, "multiscan.prepare.errors";
    MultiscanBlocksPrefetched, "multiscan.blocks.prefetched";
    MultiscanBlocksFromCache, "multiscan.blocks.from.cache";
    MultiscanPrefetchBytes, "multiscan.prefetch.bytes";
    MultiscanPrefetchBlocksWasted, "multiscan.prefetch.blocks.wasted";
    MultiscanIoRequests, "multiscan.io.requests";
    MultiscanIoCoalescedNonadjacent, "multiscan.io.coalesced.nonadjacent";
    MultiscanSeekErrors, "multiscan.seek.errors";
    PrefetchMemoryBytesGranted, "prefetch.memory.bytes.granted";
    PrefetchMemoryBytesReleased, "prefetch.memory.bytes.released";
    PrefetchMemoryRequestsBlocked, "prefetch.memory.requests.blocked";
    ReadPathRangeTombstonesInserted, "read.path.range.tombstones.inserted";
    ReadPathRangeTombstonesDiscarded, "read.path.range.tombstones.discarded";
    FileOpenMetadataRetrieved, "file.open.metadata.retrieved";
    FileOpenMetadataPassed, "file.open.metadata.passed";
    ManifestValidationFailureCount, "manifest.validation.failure.count";
    FlushReasonWriteBufferFull, "flush.reason.write_buffer_full";
    FlushReasonWriteBufferManager, "flush.reason.write_buffer_manager";
    FlushReasonMemtableMaxRangeDeletions, "flush.reason.memtable_max_range_deletions";
    AtomicFlushRequestReasonWriteBufferFull, "atomic_flush.request.reason.write_buffer_full";
    AtomicFlushRequestReasonWriteBufferManager, "atomic_flush.request.reason.write_buffer_manager";
    AtomicFlushRequestReasonMemtableMaxRangeDeletions, "atomic_flush.request.reason.memtable_max_range_deletions";
    AtomicFlushRequestReasonOther, "atomic_flush.request.reason.other";
    CheckpointReadBytes, "checkpoint.read.bytes";
    CheckpointWriteBytes, "checkpoint.write.bytes";
    FileSubmitAsyncReadFallback, "file.submit.async.read.fallback";
}

histograms! {
    DbGetMicros, "db.get.micros";
    DbWriteMicros, "db.write.micros";
    CompactionTimesMicros, "compaction.times.micros";
    CompactionTimesCpuMicros, "compaction.times.cpu_micros";
    SubcompactionSetupTimesMicros, "subcompaction.setup.times.micros";
    TableSyncMicros, "table.sync.micros";
    CompactionOutfileSyncMicros, "compaction.outfile.sync.micros";
    WalFileSyncMicros, "wal.file.sync.micros";
    ManifestFileSyncMicros, "manifest.file.sync.micros";
    TableOpenIoMicros, "table.open.io.micros";
    DbMultigetMicros, "db.multiget.micros";
    ReadBlockCompactionMicros, "read.block.compaction.micros";
    ReadBlockGetMicros, "read.block.get.micros";
    WriteRawBlockMicros, "write.raw.block.micros";
    NumfilesInSinglecompaction, "numfiles.in.singlecompaction";
    DbSeekMicros, "db.seek.micros";
    DbWriteStall, "db.write.stall";
    SstReadMicros, "sst.read.micros";
    FileReadFlushMicros, "file.read.flush.micros";
    FileReadCompactionMicros, "file.read.compaction.micros";
    FileReadDbOpenMicros, "file.read.db.open.micros";
    FileReadGetMicros, "file.read.get.micros";
    FileReadMultigetMicros, "file.read.multiget.micros";
    FileReadDbIteratorMicros, "file.read.db.iterator.micros";
    FileReadVerifyDbChecksumMicros, "file.read.verify.db.checksum.micros";
    FileReadVerifyFileChecksumsMicros, "file.read.verify.file.checksums.micros";
    SstWriteMicros, "sst.write.micros";
    FileWriteFlushMicros, "file.write.flush.micros";
    FileWriteCompactionMicros, "file.write.compaction.micros";
    FileWriteDbOpenMicros, "file.write.db.open.micros";
    NumSubcompactionsScheduled, "num.subcompactions.scheduled";
    BytesPerRead, "bytes.per.read";
    BytesPerWrite, "bytes.per.write";
    BytesPerMultiget, "bytes.per.multiget";
    CompressionTimesNanos, "compression.times.nanos";
    DecompressionTimesNanos, "decompression.times.nanos";
    ReadNumMergeOperands, "read.num.merge_operands";
    BlobdbKeySize, "blobdb.key.size";
    BlobdbValueSize, "blobdb.value.size";
    BlobdbWriteMicros, "blobdb.write.micros";
    BlobdbGetMicros, "blobdb.get.micros";
    BlobdbMultigetMicros, "blobdb.multiget.micros";
    BlobdbSeekMicros, "blobdb.seek.micros";
    BlobdbNextMicros, "blobdb.next.micros";
    BlobdbPrevMicros, "blobdb.prev.micros";
    BlobdbBlobFileWriteMicros, "blobdb.blob.file.write.micros";
    BlobdbBlobFileReadMicros, "blobdb.blob.file.read.micros";
    BlobdbBlobFileSyncMicros, "blobdb.blob.file.sync.micros";
    BlobdbCompressionMicros, "blobdb.compression.micros";
    BlobdbDecompressionMicros, "blobdb.decompression.micros";
    DbFlushMicros, "db.flush.micros";
    SstBatchSize, "sst.batch.size";
    MultigetIoBatchSize, "multiget.io.batch.size";
    NumIndexAndFilterBlocksReadPerLevel, "num.index.and.filter.blocks.read.per.level";
    NumSstReadPerLevel, "num.sst.read.per.level";
    NumLevelReadPerMultiget, "num.level.read.per.multiget";
    ErrorHandlerAutoresumeRetryCount, "error.handler.autoresume.retry.count";
    AsyncReadBytes, "async.read.bytes";
    PollWaitMicros, "poll.wait.micros";
    CompactionPrefetchBytes, "compaction.prefetch.bytes";
    PrefetchedBytesDiscarded, "prefetched.bytes.discarded";
    AsyncPrefetchAbortMicros, "async.prefetch.abort.micros";
    TableOpenPrefetchTailReadBytes, "table.open.prefetch.tail.read.bytes";
    NumOpPerTransaction, "num.op.per.transaction";
    MultiscanOpPrepareIteratorsMicros, "multiscan.op.prepare.iterators.micros";
    MultiscanPrepareMicros, "multiscan.prepare.micros";
    MultiscanBlocksPerPrepare, "multiscan.blocks.per.prepare";
    IodispatcherAsyncReadObservedCompletionMicros, "iodispatcher.async.read.observed.completion.micros";
    IodispatcherAsyncReadPollWaitMicros, "iodispatcher.async.read.poll.wait.micros";
    IodispatcherAsyncReadPrefetchLeadMicros, "iodispatcher.async.read.prefetch.lead.micros";
    BlockKeyDistributionCv, "block.key.distribution.cv";
    IngestExternalFilePrepareMicros, "ingest.external.file.prepare.micros";
    IngestExternalFileRunMicros, "ingest.external.file.run.micros";
    RateLimiterWaitMicrosRead, "rate.limiter.wait.micros.read";
    RateLimiterWaitMicrosWrite, "rate.limiter.wait.micros.write";
    FlushMemtableMemoryBytes, "flush.memtable.memory.bytes";
    FlushMemtableTotalDataSizeBytes, "flush.memtable.total.data.size.bytes";
    FlushWriteBufferFullMemtableMemoryBytes, "flush.write_buffer_full.memtable.memory.bytes";
    FlushWriteBufferManagerMemtableMemoryBytes, "flush.write_buffer_manager.memtable.memory.bytes";
    OpenAndCompactDbOpenMicros, "open.and.compact.db.open.micros";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_rocksdb_11_8() {
        assert_eq!((Ticker::ALL.len(), Histogram::ALL.len()), (263, 80));
        assert_eq!(Ticker::NumberKeysWritten as u32, 58);
        assert_eq!(
            Ticker::from_number(80).unwrap().name(),
            "number.multiget.bytes.read"
        );
        assert_eq!(
            Ticker::from_number(262).unwrap().name(),
            "file.submit.async.read.fallback"
        );
        assert_eq!(Ticker::from_number(263), None);
        assert_eq!(Histogram::from_number(31).unwrap().name(), "bytes.per.read");
        assert_eq!(Histogram::from_number(80), None);
        for (at, t) in Ticker::ALL.iter().enumerate() {
            assert_eq!(*t as usize, at);
        }
    }

    #[test]
    fn a_histogram_interpolates_in_its_bucket_and_stays_between_its_extremes() {
        let s = Statistics::new();
        assert_eq!(
            s.histogram(Histogram::BytesPerRead),
            HistogramData::default()
        );
        for v in [2, 86] {
            s.record(Histogram::BytesPerRead, v);
        }
        let d = s.histogram(Histogram::BytesPerRead);
        assert_eq!(
            (d.median, d.p95, d.max, d.count, d.sum),
            (2.0, 86.0, 86.0, 2, 88)
        );
        assert_eq!((d.average, d.std_dev, d.min), (44.0, 42.0, 2.0));
        for v in [0, u64::MAX] {
            s.record(Histogram::BytesPerRead, v);
        }
        assert_eq!(s.histogram(Histogram::BytesPerRead).min, 0.0);
        assert_eq!(s.histogram(Histogram::BytesPerRead).count, 4);
    }

    #[test]
    fn tickers_add_up_over_threads() {
        let s = Statistics::new();
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| (0..1000).for_each(|_| s.add(Ticker::BytesRead, 2)));
            }
        });
        assert_eq!(s.ticker(Ticker::BytesRead), 6000);
        assert_eq!(s.ticker(Ticker::BytesWritten), 0);
    }

    #[test]
    fn the_level_decides_what_is_recorded() {
        let s = Statistics::new();
        assert_eq!(s.level(), StatsLevel::ExceptDetailedTimers);
        for level in [-7, 1, 99] {
            s.set_level(StatsLevel::from_number(level));
            s.add(Ticker::BytesRead, 1);
            s.record(Histogram::BytesPerRead, 1);
        }
        assert_eq!(s.level(), StatsLevel::All);
        assert_eq!(s.ticker(Ticker::BytesRead), 2);
        assert_eq!(s.histogram(Histogram::BytesPerRead).count, 1);
    }

    #[test]
    fn tickers_are_set_and_taken_and_everything_can_be_forgotten() {
        let s = Statistics::new();
        s.add(Ticker::BytesRead, 5);
        s.set_ticker(Ticker::BytesRead, 7);
        assert_eq!(s.take_ticker(Ticker::BytesRead), 7);
        assert_eq!(s.ticker(Ticker::BytesRead), 0);
        s.add(Ticker::BytesWritten, 5);
        s.record_time(Histogram::DbGetMicros, 5);
        assert_eq!(s.histogram(Histogram::DbGetMicros).count, 1);
        s.reset();
        assert_eq!(s.ticker(Ticker::BytesWritten), 0);
        assert_eq!(
            s.histogram(Histogram::DbGetMicros),
            HistogramData::default()
        );
        s.set_level(StatsLevel::ExceptTimers);
        s.record_time(Histogram::DbGetMicros, 5);
        s.record(Histogram::BytesPerRead, 5);
        assert_eq!(s.histogram(Histogram::DbGetMicros).count, 0);
        assert_eq!(s.histogram(Histogram::BytesPerRead).count, 1);
    }

    #[test]
    fn the_text_is_rocksdbs() {
        let s = Statistics::new();
        s.add(Ticker::BlockCacheMiss, 1);
        s.record(Histogram::DbGetMicros, 2);
        s.record(Histogram::DbGetMicros, 86);
        let text = s.text();
        assert_eq!(text.lines().count(), 263 + 80);
        assert!(text.starts_with("rocksdb.block.cache.miss COUNT : 1\n"));
        let want = "\nrocksdb.db.get.micros P50 : 2.000000 P95 : 86.000000 P99 : 86.000000 \
                    P100 : 86.000000 COUNT : 2 SUM : 88\n";
        assert!(text.contains(want));
    }
}
