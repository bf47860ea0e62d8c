//! Estimates of what the data of a table would take with a fast and with a slow codec: `sample_for_compression`.
//!
//! Of so many data blocks one is compressed by LZ4 and by ZSTD, with default options and whatever the table's own codec
//! is. The estimates are for all blocks, each with its trailer, and go into two properties, by RocksDB's rule: if no
//! block was sampled they are the size without compression.

use crate::CompressionOptions;
use crate::format::{Compressor, TRAILER_LEN};
use spanlith_base::{CompressionType, Result};

/// Samples the data blocks of one table.
pub(crate) struct Sampling {
    one_in: u64,
    random: u64,
    slow: Sampled,
    fast: Sampled,
    /// Bytes of all blocks, and of those sampled, without compression.
    all: u64,
    sampled: u64,
}

struct Sampled {
    compressor: Compressor,
    bytes: u64,
}

impl Sampled {
    fn new(codec: CompressionType) -> Result<Self> {
        Ok(Self {
            compressor: Compressor::unlimited(codec, &CompressionOptions::default())?,
            bytes: 0,
        })
    }

    fn add(&mut self, raw: &[u8]) {
        let size = self.compressor.compress(raw).map_or(raw.len(), <[u8]>::len);
        self.bytes += size as u64 + TRAILER_LEN as u64;
    }

    fn estimate(&self, all: u64, sampled: u64) -> u64 {
        match sampled {
            0 => all,
            _ => (self.bytes as f64 / sampled as f64 * all as f64 + 0.5) as u64,
        }
    }
}

impl Sampling {
    /// Samples one of `one_in` blocks, chosen by `seed`.
    ///
    /// # Errors
    /// `NotSupported` without one of the codecs.
    pub(crate) fn new(one_in: u64, seed: u64) -> Result<Self> {
        Ok(Self {
            one_in,
            random: seed,
            slow: Sampled::new(CompressionType::Zstd)?,
            fast: Sampled::new(CompressionType::Lz4)?,
            all: 0,
            sampled: 0,
        })
    }

    /// A data block, without compression.
    pub(crate) fn add(&mut self, raw: &[u8]) {
        let bytes = raw.len() as u64 + TRAILER_LEN as u64;
        self.all += bytes;
        // Knuth's generator; its upper bits are used.
        self.random = (self.random)
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        if (self.random >> 32).is_multiple_of(self.one_in) {
            self.sampled += bytes;
            self.slow.add(raw);
            self.fast.add(raw);
        }
    }

    /// Bytes of all blocks so far by the slow and by the fast codec.
    pub(crate) fn estimates(&self) -> (u64, u64) {
        let of = |codec: &Sampled| codec.estimate(self.all, self.sampled);
        (of(&self.slow), of(&self.fast))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimates(one_in: u64, blocks: usize) -> (u64, u64) {
        let mut sampling = Sampling::new(one_in, 1).unwrap();
        (0..blocks).for_each(|n| sampling.add(&[n as u8; 1000]));
        sampling.estimates()
    }

    #[test]
    fn blocks_that_are_alike_have_the_estimate_of_any_of_them() {
        let (slow, fast) = estimates(1, 100);
        assert!(slow > 500 && slow < 5000, "{slow}");
        assert!(fast > 500 && fast < 5000, "{fast}");
        assert_eq!(estimates(7, 100), (slow, fast));
    }

    #[test]
    fn without_a_sample_the_data_are_not_compressed() {
        assert_eq!(estimates(u64::MAX, 100), (100_500, 100_500));
        assert_eq!(estimates(3, 0), (0, 0));
    }
}
