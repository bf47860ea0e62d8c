//! Counts what reads cost, for statistics and the perf context.
//!
//! Only reads with [`ReadParams::is_counted`] come here; for all others counting is a branch that is
//! not taken.

use super::TableReader;
use crate::block::Block;
use crate::format::{BlockHandle, BlockKind, Compression};
use crate::options::{ReadActivity, ReadParams};
use spanlith_base::perf::{self, LevelCounter, PerfCounter, PerfTime};
use spanlith_base::stats::{Histogram, Statistics, Ticker};
use spanlith_base::{Result, SequenceNumber};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Kinds of blocks in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CachedKind {
    Data,
    Index,
    Filter,
}

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

impl TableReader {
    #[inline]
    fn statistics(&self) -> Option<&Statistics> {
        self.options.counters.as_ref()?.statistics.as_deref()
    }

    /// Adds to the calling thread's counter for the level the table was opened in.
    fn add_at_level(&self, counter: LevelCounter, n: u64) {
        perf::add_at_level(counter, self.options.level, n);
    }

    /// Counts a block of `bytes` found in the cache.
    #[cold]
    pub(crate) fn count_hit(&self, kind: CachedKind, bytes: usize) {
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
    pub(crate) fn count_fill(&self, kind: CachedKind, block: &Block, params: &ReadParams) {
        if params.bypass_cache || self.options.cache.is_none() {
            return;
        }
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

    /// Counts a block of index or filter that was read into the cache.
    #[cold]
    pub(super) fn count_meta(&self, kind: CachedKind, block: &Block, params: &ReadParams) {
        let stored = match kind {
            CachedKind::Filter => BlockKind::Filter,
            _ => BlockKind::Index,
        };
        self.count_read(stored, block.bytes().len() as u64);
        self.count_fill(kind, block, params);
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

    /// Counts a read of the file that began at [`Self::moment`], if that was one.
    #[cold]
    pub(crate) fn count_file_read(&self, params: &ReadParams, began: Option<u64>) -> Option<u64> {
        let now = self.count_time(PerfCounter::BlockReadTime, began)?;
        let micros = now.saturating_sub(began?) / 1000;
        if let Some(s) = self.statistics() {
            s.record_time(Histogram::SstReadMicros, micros);
            s.record_time(
                match params.activity {
                    ReadActivity::Compaction => Histogram::ReadBlockCompactionMicros,
                    _ => Histogram::ReadBlockGetMicros,
                },
                micros,
            );
            if let Some(histogram) = params.activity.histogram() {
                s.record_time(histogram, micros);
            }
        }
        if let Some(d) = &self.read_micros {
            d.record(micros);
        }
        Some(now)
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
        let read = self.count_file_read(params, began);
        self.count_read(kind, stored.len() as u64);
        let bytes = stored.len() as u64;
        // Apart from the codec, so that both are timed.
        if read.is_some() && verify {
            self.contents(&stored, handle, kind, true)?;
        }
        let verified = match verify {
            true => self.count_time(PerfCounter::BlockChecksumTime, read),
            false => read,
        };
        let (out, codec) = self.unpacked(stored, handle, kind, verify && read.is_none())?;
        if codec != Compression::None {
            self.count_time(PerfCounter::BlockDecompressTime, verified);
        }
        if let Some(s) = self.statistics() {
            if verify {
                s.add(Ticker::BlockChecksumComputeCount, 1);
            }
            if codec != Compression::None {
                s.add(Ticker::NumberBlockDecompressed, 1);
                s.add(Ticker::BytesDecompressedFrom, bytes);
                s.add(Ticker::BytesDecompressedTo, out.len() as u64);
            }
        }
        if codec != Compression::None {
            perf::add(PerfCounter::BlockDecompressCount, 1);
        }
        Ok(out)
    }

    /// Counts what the filter said of keys: whether it let them pass.
    #[cold]
    pub(super) fn count_filtered(&self, passes: impl Iterator<Item = bool>) {
        let (prefixes, asked) = self.filter_asks();
        if !asked {
            return;
        }
        let [mut useful, mut positive] = [0, 0];
        for passes in passes {
            *(if passes { &mut positive } else { &mut useful }) += 1;
        }
        perf::add(PerfCounter::BloomSstHitCount, positive);
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

    /// Counts a key that the filter let pass and that is there.
    #[cold]
    pub(super) fn count_found(&self) {
        let (prefixes, asked) = self.filter_asks();
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

    /// [`TableReader::get_hashed`] behind the filter, counted.
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
            self.count_filtered(std::iter::once(passes));
        }
        if !passes {
            return Ok(());
        }
        // The search of the index; those within blocks compare little.
        let steps = u64::BITS - self.properties.num_data_blocks.leading_zeros();
        perf::add(PerfCounter::UserKeyComparisonCount, steps.into());
        let mut found = false;
        self.get_unfiltered(
            user_key,
            snapshot,
            params,
            |tag, value, block: &Arc<Block>| {
                found = true;
                sink(tag, value, block)
            },
        )?;
        if found && !params.skip_filters {
            self.count_found();
        }
        Ok(())
    }
}
