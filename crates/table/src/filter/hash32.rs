//! The 32-bit hash of legacy Bloom filters and of the hash index in data blocks.
//!
//! Murmur-like. The up to three bytes after the last group of four count as signed numbers, which
//! is an accident of the original that the format has kept.
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

const MULTIPLIER: u32 = 0xc6a4_a793;
/// Seed of legacy Bloom filters.
const BLOOM_SEED: u32 = 0xbc9f_1d34;

/// The hash of `data` with a seed.
pub(crate) fn hash32(data: &[u8], seed: u32) -> u32 {
    let mut h = seed ^ (data.len() as u32).wrapping_mul(MULTIPLIER);
    let mut groups = data.chunks_exact(4);
    for group in &mut groups {
        let word = group.try_into().map(u32::from_le_bytes).unwrap_or_default();
        h = h.wrapping_add(word).wrapping_mul(MULTIPLIER);
        h ^= h >> 16;
    }
    let rest = groups.remainder();
    if rest.is_empty() {
        return h;
    }
    for (i, &byte) in rest.iter().enumerate() {
        h = h.wrapping_add((i32::from(byte as i8) as u32) << (8 * i));
    }
    h = h.wrapping_mul(MULTIPLIER);
    h ^ h >> 24
}

/// The hash of a key in legacy Bloom filters.
#[inline]
pub(crate) fn bloom_hash(key: &[u8]) -> u32 {
    hash32(key, BLOOM_SEED)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed by RocksDB's own function.
    const VECTORS: &str = include_str!("../../../../fixtures/table/hash-vectors.tsv");

    #[test]
    fn every_length_hashes_as_rocksdb_does() {
        let mut seen = 0;
        for line in VECTORS.lines().filter(|l| !l.starts_with('#')) {
            let fields: Vec<&str> = line.split('\t').collect();
            let n: usize = fields[0].parse().unwrap();
            let want = |i: usize| u32::from_str_radix(fields[i], 16).unwrap();
            let data: Vec<u8> = (0..n).map(|i| (131 * i + 7) as u8).collect();
            assert_eq!(bloom_hash(&data), want(3), "length {n}");
            assert_eq!(hash32(&data, 397), want(4), "length {n}");
            seen += 1;
        }
        assert_eq!(seen, 53);
        // Tail bytes above 0x7f.
        assert_eq!(bloom_hash(&[0xff, 0xfe, 0xfd]), 0x644d_6f00);
    }
}
