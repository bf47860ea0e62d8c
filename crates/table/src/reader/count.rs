//! Counts what reads cost, for statistics and the perf context.
//!
//! Only reads with [`ReadParams::is_counted`] come here; for all others counting is a branch that is
//! not taken.

use super::TableReader;
use super::filter::FilterPlace;
use crate::activity::ReadActivity;
use crate::block::Block;
use crate::format::{BlockHandle, BlockKind, TRAILER_LEN};
use crate::lookups::{CachedKind, Lookups};
use crate::options::ReadParams;
use spanlith_base::keys::seek_tag;
use spanlith_base::perf::{self, LevelCounter, PerfCounter, PerfTime};
use spanlith_base::stats::{Histogram, Statistics, Ticker};
use spanlith_base::{CompressionType, Result, SequenceNumber};
use std::cell::Cell;
use std::ops::ControlFlow;
use std::sync::Arc;

/// The one codec that keeps the size of a block itself.
const SNAPPY: u8 = CompressionType::Snappy.as_byte();

impl CachedKind {
    /// Tickers of hit, miss, add, and bytes added.
    fn tickers(self) -> [Ticker; 4] {
        match self {
            Self::Data => [
                Ticker::BlockCacheDataHit,
                Ticker::BlockCacheDataMiss,
                Ticker::BlockCacheDataAdd,
                Ticker::BlockCacheDataBytesInsert,
            ],
            Self::Index => [
                Ticker::BlockCacheIndexHit,
                Ticker::BlockCacheIndexMiss,
                Ticker::BlockCacheIndexAdd,
                Ticker::BlockCacheIndexBytesInsert,
            ],
            Self::Filter => [
                Ticker::BlockCacheFilterHit,
                Ticker::BlockCacheFilterMiss,
                Ticker::BlockCacheFilterAdd,
                Ticker::BlockCacheFilterBytesInsert,
            ],
        }
    }
}

/// How many counted reads of files a thread has made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadReads {
    /// All of them.
    pub all: u64,
    /// Those of blocks of indexes and filters, for multi-gets.
    pub of_metadata: u64,
}

impl ThreadReads {
    const NONE: Self = Self {
        all: 0,
        of_metadata: 0,
    };

    /// Those of data.
    pub fn of_data(self) -> u64 {
        self.all.saturating_sub(self.of_metadata)
    }
}

thread_local! {
    /// Those of the calling thread.
    static READS: Cell<ThreadReads> = const { Cell::new(ThreadReads::NONE) };
}

/// How many counted reads of files the calling thread has made.
pub fn reads_of_thread() -> ThreadReads {
    READS.get()
}

impl TableReader {
    #[inline]
    fn statistics(&self) -> Option<&Statistics> {
        self.options.counters.as_ref()?.statistics.as_deref()
    }

    /// Adds to the calling thread's counter for the level the table was opened in.
    fn add_at_level(&self, counter: LevelCounter, n: u64) {
        perf::add_at_level(counter, self.options.level, n);
    }

    /// Counts a block found in the cache.
    #[cold]
    pub(crate) fn count_hit(
        &self,
        (kind, handle): (CachedKind, BlockHandle),
        block: &Block,
        params: &ReadParams,
    ) {
        self.note_lookup((kind, handle), block, params, true);
        let bytes = block.memory_usage();
        if let Some(s) = self.statistics() {
            s.add(kind.tickers()[0], 1);
            s.add(Ticker::BlockCacheHit, 1);
            s.add(Ticker::BlockCacheBytesRead, bytes as u64);
        }
        perf::add(PerfCounter::BlockCacheHitCount, 1);
        self.add_at_level(LevelCounter::BlockCacheHitCount, 1);
        perf::add(PerfCounter::BlockCacheReadByte, bytes as u64);
        let (hits, read) = match kind {
            CachedKind::Data => return,
            CachedKind::Index => (
                PerfCounter::BlockCacheIndexHitCount,
                PerfCounter::BlockCacheIndexReadByte,
            ),
            CachedKind::Filter => (
                PerfCounter::BlockCacheFilterHitCount,
                PerfCounter::BlockCacheFilterReadByte,
            ),
        };
        perf::add(hits, 1);
        perf::add(read, bytes as u64);
    }

    /// Counts a block that was not in the cache, and its way into it.
    #[cold]
    pub(crate) fn count_fill(
        &self,
        (kind, handle): (CachedKind, BlockHandle),
        block: &Block,
        params: &ReadParams,
    ) {
        if params.bypass_cache || self.options.cache.is_none() {
            return;
        }
        self.note_lookup((kind, handle), block, params, false);
        self.add_at_level(LevelCounter::BlockCacheMissCount, 1);
        let Some(s) = self.statistics() else {
            return;
        };
        let [_, miss, add, bytes_added] = kind.tickers();
        s.add(miss, 1);
        s.add(Ticker::BlockCacheMiss, 1);
        if params.fill_cache {
            let bytes = block.memory_usage() as u64;
            s.add(add, 1);
            s.add(bytes_added, bytes);
            s.add(Ticker::BlockCacheAdd, 1);
            s.add(Ticker::BlockCacheBytesWrite, bytes);
        }
    }

    /// Counts what opening reads from here on, if somebody wants that, beginning with the footer.
    pub(super) fn begin_opening(&mut self) {
        if self.statistics().is_none() && !perf::is_on() && !self.is_listened_to() {
            return;
        }
        let activity = ReadActivity::current();
        self.opening = Some(activity);
        let footer = usize::try_from(self.file_size - self.footer.offset).unwrap_or(0);
        let params = self.opening_params(true);
        self.count_file_read(&params, footer, self.moment());
    }

    /// How blocks are read while the table is opened.
    pub(super) fn opening_params(&self, verify: bool) -> ReadParams {
        ReadParams {
            verify_checksums: verify,
            is_counted: self.opening.is_some(),
            activity: self.opening.unwrap_or_default(),
            ..ReadParams::default()
        }
    }

    /// How blocks are read that belong to opening although it is over.
    pub(super) fn late_opening_params(&self) -> ReadParams {
        ReadParams {
            is_counted: self.statistics().is_some() || perf::is_on() || self.is_listened_to(),
            activity: ReadActivity::current(),
            ..ReadParams::default()
        }
    }

    /// The moment, in nanoseconds, if times are wanted of what a counted read does.
    #[cold]
    pub(crate) fn moment(&self) -> Option<u64> {
        let counters = self.options.counters.as_ref()?;
        let statistics = counters.statistics.as_ref();
        let wanted = statistics.is_some_and(|s| s.wants_times()) || perf::is_timed(PerfTime::Work);
        wanted.then(|| counters.clock.monotonic_nanos())
    }

    /// Adds the time since `began` to a counter of the perf context; the moment it ended.
    #[cold]
    pub(crate) fn count_time(&self, counter: PerfCounter, began: Option<u64>) -> Option<u64> {
        let clock = &self.options.counters.as_ref()?.clock;
        let now = clock.monotonic_nanos();
        let took = now.saturating_sub(began?);
        if perf::is_timed(PerfTime::Work) {
            perf::add(counter, took);
        }
        Some(now)
    }

    /// Counts a read of the file, of `bytes`, that began at [`Self::moment`], if that was one.
    #[cold]
    pub(crate) fn count_file_read(
        &self,
        params: &ReadParams,
        bytes: usize,
        began: Option<u64>,
    ) -> Option<u64> {
        self.count_file_bytes(bytes);
        let now = self.count_time(PerfCounter::BlockReadTime, began)?;
        let micros = now.saturating_sub(began?) / 1000;
        if let Some(s) = self.statistics() {
            s.record_time(Histogram::SstReadMicros, micros);
            if let Some(histogram) = params.activity.histogram() {
                s.record_time(histogram, micros);
            }
        }
        if let Some(d) = &self.read_micros {
            d.record(micros);
        }
        Some(now)
    }

    /// Counts a read of the file, of `bytes`, by level.
    fn count_file_bytes(&self, bytes: usize) {
        let mut reads = READS.get();
        reads.all += 1;
        READS.set(reads);
        if let Some(s) = self.statistics() {
            let (count, sum) = match self.is_in_last_level() {
                true => (Ticker::LastLevelReadCount, Ticker::LastLevelReadBytes),
                false => (Ticker::NonLastLevelReadCount, Ticker::NonLastLevelReadBytes),
            };
            s.add(count, 1);
            s.add(sum, bytes as u64);
        }
    }

    /// Counts reads of the file that were made together.
    #[cold]
    pub(super) fn count_file_batch(
        &self,
        params: &ReadParams,
        read: &[Result<usize>],
        began: Option<u64>,
    ) {
        let mut sizes = read.iter().filter_map(|n| n.as_ref().ok().copied());
        self.count_file_read(params, sizes.next().unwrap_or(0), began);
        // They took one call.
        sizes.for_each(|bytes| self.count_file_bytes(bytes));
    }

    /// Records that a block came from the file which was asked for at `began`, the moment being `now`.
    #[cold]
    pub(crate) fn count_block_read(
        &self,
        kind: BlockKind,
        params: &ReadParams,
        (began, now): (Option<u64>, Option<u64>),
    ) {
        let is_metadata = matches!(kind, BlockKind::Index | BlockKind::Filter);
        if is_metadata && params.activity == ReadActivity::MultiGet {
            let mut reads = READS.get();
            reads.of_metadata += 1;
            READS.set(reads);
        }
        let histogram = match (kind, params.activity) {
            (BlockKind::MetaIndex | BlockKind::Properties, _)
            | (BlockKind::Data, ReadActivity::MultiGet) => return,
            (BlockKind::Data, ReadActivity::Compaction) => Histogram::ReadBlockCompactionMicros,
            _ => Histogram::ReadBlockGetMicros,
        };
        if let Some(((began, now), s)) = began.zip(now).zip(self.statistics()) {
            s.record_time(histogram, now.saturating_sub(began) / 1000);
        }
    }

    /// Counts what became of the stored bytes of a block: `out` bytes.
    #[cold]
    pub(crate) fn count_unpacked(
        &self,
        (kind, verify): (BlockKind, bool),
        stored: &[u8],
        out: usize,
        began: Option<u64>,
    ) {
        let contents = stored.len().saturating_sub(TRAILER_LEN);
        let codec = stored.get(contents).copied().filter(|&codec| codec != 0);
        if codec.is_some() {
            perf::add(PerfCounter::BlockDecompressCount, 1);
        }
        let Some(s) = self.statistics() else {
            return;
        };
        // As in RocksDB, which verifies properties apart from others.
        if verify && kind != BlockKind::Properties {
            s.add(Ticker::BlockChecksumComputeCount, 1);
        }
        let Some(codec) = codec else {
            return;
        };
        // All codecs but Snappy have the size in front, which RocksDB takes off before it counts.
        let head = match codec {
            SNAPPY => 0,
            _ => stored.iter().take_while(|&&byte| byte & 0x80 != 0).count() + 1,
        };
        s.add(Ticker::NumberBlockDecompressed, 1);
        s.add(
            Ticker::BytesDecompressedFrom,
            contents.saturating_sub(head) as u64,
        );
        s.add(Ticker::BytesDecompressedTo, out as u64);
        if let Some((began, counters)) = began.zip(self.options.counters.as_ref())
            && s.wants_detailed_times()
        {
            let took = counters.clock.monotonic_nanos().saturating_sub(began);
            s.record_time(Histogram::DecompressionTimesNanos, took);
        }
    }

    /// The processor time of the calling thread, in nanoseconds, if it is wanted.
    #[cold]
    pub(crate) fn cpu_moment(&self) -> Option<u64> {
        let clock = &self.options.counters.as_ref()?.clock;
        perf::is_timed(PerfTime::Cpu).then(|| clock.thread_cpu_nanos())
    }

    /// Adds the processor time since [`Self::cpu_moment`] to what reads of blocks took.
    #[cold]
    pub(crate) fn count_cpu(&self, began: Option<u64>) {
        if let Some((began, counters)) = began.zip(self.options.counters.as_ref()) {
            let took = counters.clock.thread_cpu_nanos().saturating_sub(began);
            perf::add(PerfCounter::BlockReadCpuTime, took);
        }
    }

    /// Counts a block of `bytes` read from the file.
    pub(crate) fn count_read(&self, kind: BlockKind, bytes: u64) {
        perf::add(PerfCounter::BlockReadCount, 1);
        perf::add(PerfCounter::BlockReadByte, bytes);
        match kind {
            BlockKind::Index => {
                perf::add(PerfCounter::IndexBlockReadCount, 1);
                perf::add(PerfCounter::IndexBlockReadByte, bytes);
            }
            BlockKind::Filter => {
                perf::add(PerfCounter::FilterBlockReadCount, 1);
                perf::add(PerfCounter::FilterBlockReadByte, bytes);
            }
            BlockKind::Data => perf::add(PerfCounter::DataBlockReadByte, bytes),
            _ => perf::add(PerfCounter::MetadataBlockReadByte, bytes),
        }
    }

    /// Counts blocks that were read together.
    #[cold]
    pub(super) fn count_batch(&self, blocks: usize) {
        if let Some(s) = self.statistics() {
            s.record(Histogram::MultigetIoBatchSize, blocks as u64);
        }
    }

    /// As [`TableReader::read`], counted.
    pub(crate) fn read_counted(
        &self,
        handle: BlockHandle,
        kind: BlockKind,
        params: &ReadParams,
    ) -> Result<Vec<u8>> {
        let verify = params.verify_checksums;
        let (began, cpu_began) = (self.moment(), self.cpu_moment());
        let stored = self.stored(handle)?;
        self.count_cpu(cpu_began);
        let read = self.count_file_read(params, stored.len(), began);
        self.count_block_read(kind, params, (began, read));
        if kind == BlockKind::Data && params.activity == ReadActivity::MultiGet {
            self.count_batch(1);
        }
        self.count_read(kind, stored.len() as u64);
        // Apart from the codec, so that both are timed.
        if read.is_some() && verify {
            self.contents(&stored, handle, kind, true)?;
        }
        let verified = match verify {
            true => self.count_time(PerfCounter::BlockChecksumTime, read),
            false => read,
        };
        let (contents, codec) = self.contents(&stored, handle, kind, verify && read.is_none())?;
        if codec == CompressionType::None {
            let len = contents.len();
            self.count_unpacked((kind, verify), &stored, len, None);
            let mut stored = stored;
            stored.truncate(len);
            return Ok(stored);
        }
        let mut out = Vec::new();
        self.unpack(&stored, handle, kind, false, &mut out)?;
        self.count_time(PerfCounter::BlockDecompressTime, verified);
        self.count_unpacked((kind, verify), &stored, out.len(), verified);
        Ok(out)
    }

    /// Counts what the filter said of keys: whether it let them pass.
    #[cold]
    pub(super) fn count_filtered<'k>(
        &self,
        keys: impl Iterator<Item = (&'k [u8], bool)>,
        params: &ReadParams,
    ) {
        let (prefixes, asked) = self.filter_asks(params);
        if !asked {
            return;
        }
        let [mut useful, mut positive, mut outside] = [0, 0, 0];
        for (key, passes) in keys {
            *(if passes { &mut positive } else { &mut useful }) += 1;
            outside += u64::from(prefixes && !self.has_prefix(key));
        }
        // As in RocksDB the filter has not seen keys without a prefix, and tickers do not tell.
        perf::add(PerfCounter::BloomSstHitCount, positive - outside);
        perf::add(PerfCounter::BloomSstMissCount, useful);
        if !prefixes {
            self.add_at_level(LevelCounter::BloomFilterUseful, useful);
            self.add_at_level(LevelCounter::BloomFilterFullPositive, positive);
        }
        let Some(s) = self.statistics() else {
            return;
        };
        let both = if prefixes {
            [
                (Ticker::BloomFilterPrefixChecked, useful + positive),
                (Ticker::BloomFilterPrefixUseful, useful),
            ]
        } else {
            [
                (Ticker::BloomFilterUseful, useful),
                (Ticker::BloomFilterFullPositive, positive),
            ]
        };
        for (ticker, n) in both {
            s.add(ticker, n);
        }
    }

    /// Counts what the filter said of the prefix of a seek.
    #[cold]
    pub(super) fn count_prefix_seek(&self, passes: bool) {
        if matches!(self.filter, FilterPlace::Absent) {
            return;
        }
        perf::add(
            match passes {
                true => PerfCounter::BloomSstHitCount,
                false => PerfCounter::BloomSstMissCount,
            },
            1,
        );
        if let Some(s) = self.statistics() {
            let ticker = match (passes, self.is_in_last_level()) {
                (true, true) => Ticker::LastLevelSeekFilterMatch,
                (true, false) => Ticker::NonLastLevelSeekFilterMatch,
                (false, true) => Ticker::LastLevelSeekFiltered,
                (false, false) => Ticker::NonLastLevelSeekFiltered,
            };
            s.add(ticker, 1);
        }
    }

    /// Counts a seek that came to a data block.
    pub(crate) fn count_seek_data(&self) {
        if let Some(s) = self.statistics() {
            s.add(
                match self.is_in_last_level() {
                    true => Ticker::LastLevelSeekData,
                    false => Ticker::NonLastLevelSeekData,
                },
                1,
            );
        }
    }

    /// Counts a seek to a data block of which an entry was wanted, and for which the filter was asked or
    /// not.
    pub(crate) fn count_seek_wanted(&self, is_filtered: bool) {
        if let Some(s) = self.statistics() {
            s.add(
                match (is_filtered, self.is_in_last_level()) {
                    (true, true) => Ticker::LastLevelSeekDataUsefulFilterMatch,
                    (true, false) => Ticker::NonLastLevelSeekDataUsefulFilterMatch,
                    (false, true) => Ticker::LastLevelSeekDataUsefulNoFilter,
                    (false, false) => Ticker::NonLastLevelSeekDataUsefulNoFilter,
                },
                1,
            );
        }
    }

    /// Returns whether the table was opened as one of the deepest level.
    fn is_in_last_level(&self) -> bool {
        self.options.level + 1 == self.options.levels
    }

    /// Counts a key that the filter let pass and that is there.
    #[cold]
    pub(super) fn count_found(&self, params: &ReadParams) {
        let (prefixes, asked) = self.filter_asks(params);
        if asked && !prefixes {
            self.add_at_level(LevelCounter::BloomFilterFullTruePositive, 1);
        }
        if let Some(s) = self.statistics().filter(|_| asked) {
            let ticker = if prefixes {
                Ticker::BloomFilterPrefixTruePositive
            } else {
                Ticker::BloomFilterFullTruePositive
            };
            s.add(ticker, 1);
        }
    }

    /// [`TableReader::get_hashed`] after the filter, counted.
    #[inline(never)]
    pub(super) fn get_counted<F>(
        &self,
        (user_key, snapshot): (&[u8], SequenceNumber),
        params: &ReadParams,
        passes: bool,
        mut sink: F,
    ) -> Result<()>
    where
        F: FnMut(u64, &[u8], &Arc<Block>) -> ControlFlow<()>,
    {
        if !params.skip_filters {
            self.count_filtered(std::iter::once((user_key, passes)), params);
        }
        if !passes {
            return Ok(());
        }
        // The search of the index; those within blocks compare little.
        let steps = u64::BITS - self.properties.num_data_blocks.leading_zeros();
        perf::add(PerfCounter::UserKeyComparisonCount, steps.into());
        let mut seen = None;
        let is_listened_to = self.is_listened_to();
        if is_listened_to {
            Lookups::begin();
        }
        let got = self.get_unfiltered(
            user_key,
            snapshot,
            params,
            |tag, value, block: &Arc<Block>| {
                seen = Some((tag, value.len()));
                sink(tag, value, block)
            },
        );
        if is_listened_to {
            self.note_searched((user_key, seek_tag(snapshot)), seen, params, true);
        }
        got?;
        if seen.is_some() && !params.skip_filters {
            self.count_found(params);
        }
        Ok(())
    }
}
