//! Counts what writing a table costs, for statistics. Who writes without them pays a branch per block.

use crate::format::Compressor;
use spanlith_base::stats::{Histogram, Statistics, Ticker};
use spanlith_base::{CompressionType, Result};
use spanlith_env::Clock;
use std::sync::Arc;

/// Describes who counts what writing a table costs.
#[derive(Clone)]
pub struct WriteCounters {
    /// Where it is counted.
    pub statistics: Arc<Statistics>,
    /// Measures how long it takes.
    pub clock: Arc<dyn Clock>,
    /// How long writes to the file take, of what the table is written for.
    pub writes: Histogram,
    /// How long the sync of the file takes.
    pub syncs: Histogram,
}

impl std::fmt::Debug for WriteCounters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WriteCounters")
            .field("writes", &self.writes)
            .field("syncs", &self.syncs)
            .finish_non_exhaustive()
    }
}

impl WriteCounters {
    /// The moment, in nanoseconds, if times are wanted.
    pub(crate) fn moment(&self) -> Option<u64> {
        let wanted = self.statistics.wants_times();
        wanted.then(|| self.clock.monotonic_nanos())
    }

    /// The moment, in nanoseconds, if times of details are wanted.
    fn detailed_moment(&self) -> Option<u64> {
        let wanted = self.statistics.wants_detailed_times();
        wanted.then(|| self.clock.monotonic_nanos())
    }

    /// Records the microseconds since `began`, if that was a moment.
    pub(crate) fn took(&self, histograms: &[Histogram], began: Option<u64>) {
        if let Some(began) = began {
            let took = self.clock.monotonic_nanos().saturating_sub(began) / 1000;
            for &histogram in histograms {
                self.statistics.record_time(histogram, took);
            }
        }
    }

    /// Returns what a compressor of `codec` makes of a block, counted if anybody does; see [`Compressor::pack`].
    pub(crate) fn pack<'c>(
        counters: Option<&Self>,
        codec: CompressionType,
        compressor: &'c mut Compressor,
        (raw, verify): (&[u8], bool),
    ) -> Result<Option<&'c [u8]>> {
        let began = counters.and_then(Self::detailed_moment);
        let packed = compressor.pack(raw, verify)?;
        if let Some(counters) = counters {
            counters.packed(codec, raw.len(), packed.map(<[u8]>::len), began);
        }
        Ok(packed)
    }

    /// Counts a block of `raw` bytes that went to the file as `packed` bytes of `codec`, or as it is.
    fn packed(
        &self,
        codec: CompressionType,
        raw: usize,
        packed: Option<usize>,
        began: Option<u64>,
    ) {
        let s = &self.statistics;
        if codec == CompressionType::None {
            return self.bypassed(raw);
        }
        if let Some(began) = began {
            let took = self.clock.monotonic_nanos().saturating_sub(began);
            s.record_time(Histogram::CompressionTimesNanos, took);
        }
        match packed {
            Some(packed) => {
                s.add(Ticker::NumberBlockCompressed, 1);
                s.add(Ticker::BytesCompressedFrom, raw as u64);
                s.add(Ticker::BytesCompressedTo, packed as u64);
            }
            None => {
                s.add(Ticker::NumberBlockCompressionRejected, 1);
                s.add(Ticker::BytesCompressionRejected, raw as u64);
            }
        }
    }

    /// Counts a block of `raw` bytes that nobody tried to compress.
    pub(crate) fn bypassed(&self, raw: usize) {
        self.statistics
            .add(Ticker::NumberBlockCompressionBypassed, 1);
        self.statistics
            .add(Ticker::BytesCompressionBypassed, raw as u64);
    }
}
