//! The legacy Bloom filter of format versions before 5.
//!
//! ```text
//! [lines x line size bytes] [u8 probes] [fixed32 lines]
//! ```
//!
//! All probes of a key fall into one line. The line size is what length and count of lines imply:
//! 64 bytes here, 128 in files from some other processors.
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

/// Largest number of bits.
const BITS_MAX: u64 = 0xffff_0000;
/// Bits of a line.
const LINE_BITS: u64 = 512;
/// Bytes after the lines.
const TAIL: u64 = 5;

/// Lines of a filter over `entries` hashes: odd, so that the remainder by it uses all bits.
fn lines_for(entries: u64, bits_per_key: u64) -> u64 {
    let bits = entries.saturating_mul(bits_per_key).min(BITS_MAX);
    let lines = bits.div_ceil(LINE_BITS);
    lines | 1
}

/// Size of a filter over `entries` hashes, in bytes.
pub(super) fn size(entries: u64, bits_per_key: u64) -> u64 {
    lines_for(entries, bits_per_key) * (LINE_BITS / 8) + TAIL
}

/// The most hashes whose filter has at most `bytes`; 0 if not even one fits.
pub(super) fn capacity(bytes: u64, bits_per_key: u64) -> u64 {
    // The size rises with the number of hashes: search.
    let (mut fits, mut exceeds) = (0, BITS_MAX);
    while fits + 1 < exceeds {
        let middle = fits + (exceeds - fits) / 2;
        if size(middle, bits_per_key) <= bytes {
            fits = middle;
        } else {
            exceeds = middle;
        }
    }
    fits
}

/// Bits of the line that a hash sets.
#[inline(always)]
fn positions(hash: u32, line_bits_log2: u32, probes: u8) -> impl Iterator<Item = usize> {
    let delta = hash.rotate_right(17);
    let mask = (1u32 << line_bits_log2) - 1;
    (0..u32::from(probes)).map(move |i| (hash.wrapping_add(delta.wrapping_mul(i)) & mask) as usize)
}

/// The filter over `hashes`, whose lower halves are the keys' 32-bit hashes.
pub(super) fn build(hashes: &[u64], bits_per_key: u64) -> Vec<u8> {
    let lines = lines_for(hashes.len() as u64, bits_per_key);
    let probes = ((bits_per_key as f64 * 0.69) as u8).clamp(1, 30);
    let mut out = vec![0; (lines * LINE_BITS / 8) as usize];
    for &hash in hashes {
        let hash = hash as u32;
        let start = (u64::from(hash) % lines) as usize * 64;
        if let Some(line) = out.get_mut(start..start + 64) {
            for bit in positions(hash, 9, probes) {
                if let Some(byte) = line.get_mut(bit >> 3) {
                    *byte |= 1 << (bit & 7);
                }
            }
        }
    }
    out.push(probes);
    out.extend_from_slice(&(lines as u32).to_le_bytes());
    out
}

/// Describes what the tail of a legacy filter says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    lines: u32,
    probes: u8,
    /// Logarithm of the bytes of a line.
    line_log2: u8,
}

impl Layout {
    /// The layout of a filter with `len` bytes before its tail; `None` if they contradict.
    pub(super) fn new(len: usize, probes: u8, lines: u32) -> Option<Self> {
        let size = len.checked_div(usize::try_from(lines).ok()?)?;
        let whole = size.checked_mul(lines as usize) == Some(len);
        // A position has 32 bits.
        let log2 = size.checked_ilog2().filter(|&log2| log2 < 28)?;
        (whole && size.is_power_of_two()).then_some(Self {
            lines,
            probes,
            line_log2: log2 as u8,
        })
    }

    /// Returns whether a key of that 32-bit hash may be in the filter `bytes`.
    #[inline]
    pub(super) fn query(self, bytes: &[u8], hash: u32) -> bool {
        let start = ((hash % self.lines) as usize) << self.line_log2;
        positions(hash, u32::from(self.line_log2) + 3, self.probes).all(|bit| {
            bytes
                .get(start + (bit >> 3))
                .is_none_or(|byte| byte >> (bit & 7) & 1 == 1)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::hash32::bloom_hash;

    #[test]
    fn one_key_sets_the_documented_bits() {
        let hash = bloom_hash(b"a");
        for hashes in [vec![u64::from(hash)], vec![u64::from(hash); 100]] {
            let filter = build(&hashes, 10);
            let set: Vec<usize> = (0..512)
                .filter(|i| filter[i / 8] >> (i % 8) & 1 == 1)
                .collect();
            assert_eq!(set, [30, 85, 140, 195, 432, 487]);
            assert_eq!(filter.len() as u64, size(hashes.len() as u64, 10));
        }
    }

    #[test]
    fn capacity_is_the_largest_number_that_fits() {
        for bits in [1, 10, 23, 100] {
            for bytes in [0, 5, 68, 69, 70, 197, 4096, 100_000] {
                let n = capacity(bytes, bits);
                assert!(
                    n == 0 || size(n, bits) <= bytes,
                    "{bits} bits, {bytes} bytes"
                );
                assert!(size(n + 1, bits) > bytes, "{bits} bits, {bytes} bytes");
            }
        }
    }

    #[test]
    fn contradicting_layouts_are_not_understood() {
        assert!(Layout::new(64, 6, 1).is_some());
        assert!(Layout::new(384, 6, 3).is_some());
        assert!(Layout::new(384, 6, 0).is_none());
        assert!(Layout::new(385, 6, 3).is_none());
        assert!(Layout::new(192, 6, 2).is_none());
        assert!(Layout::new(0, 6, 2).is_none());
    }
}
