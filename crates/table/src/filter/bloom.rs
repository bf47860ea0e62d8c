//! Builds the "fast local" Bloom filter.
//!
//! ```text
//! [len bytes, a multiple of 64] ff 00 [u8 probes] 00 00
//! ```
//!
//! All probes of a key fall into one cache line of 64 bytes: the low half of the hash selects the
//! line, the high half, multiplied on for each probe, nine bits of position in it.

use super::balance::{FilterBalance, Lengths};
use super::hash::hash64;
use super::probe::{line_of, prefetch};
use super::rate::{cache_local, millibits, probes_for};
use spanlith_base::memory::Scratch;

const MULTIPLIER: u32 = 0x9e37_79b9;
/// Keys between asking for a line and setting bits in it.
const PREFETCH_DISTANCE: usize = 8;
/// Largest filter.
const MAX_LEN: u64 = 0xffff_ffc0;

/// Bytes of the lines of a filter over `entries` hashes.
fn len_for(entries: u64, millibits: u64) -> u64 {
    let bytes = entries.saturating_mul(millibits).div_ceil(8000);
    (bytes.min(MAX_LEN) + 63) & !63
}

/// Size of a filter over `entries` hashes, in bytes.
pub(super) fn size(entries: u64, millibits: u64) -> u64 {
    len_for(entries, millibits) + 5
}

/// The most hashes whose filter has at most `bytes`; 0 if not even one fits.
pub(super) fn capacity(bytes: u64, millibits: u64) -> u64 {
    let len = (bytes.saturating_sub(5) & !63).min(MAX_LEN);
    len * 8000 / millibits.max(1)
}

/// Probes of a filter whose length is not the wanted one.
fn probes_of(entries: u64, len: u64) -> u8 {
    probes_for(len * 8000 / entries.max(1))
}

/// Filters over so many entries.
struct Over(u64);

impl Lengths for Over {
    fn round_down(&self, len: u64) -> u64 {
        ((len - 5).min(MAX_LEN) & !63) + 5
    }

    fn rate(&self, len: u64) -> f64 {
        let (entries, len) = (self.0, len - 5);
        let rate = cache_local(8.0 * len as f64 / entries as f64, probes_of(entries, len));
        // Two hashes of 64 bits may be the same.
        let same = entries as f64 * (-64f64).exp2();
        rate + same - rate * same
    }
}

/// The filter over `hashes`. With a balance its length is made to fit, and the probes follow the length
/// instead of the wanted bits per key.
pub(super) fn build(
    hashes: &[u64],
    millibits: u64,
    balance: Option<&FilterBalance>,
) -> Scratch<u8> {
    let n = hashes.len() as u64;
    let mut len = len_for(n, millibits);
    let mut probes = probes_for(millibits);
    if let Some(balance) = balance.filter(|_| n > 0) {
        len = balance.fit(len + 5, &Over(n)) - 5;
        probes = probes_of(n, len);
    }
    let len = len as usize;
    let mut out = Scratch::filled(0, len + 5);
    let lines = (len / 64) as u32;
    for (i, &hash) in hashes.iter().enumerate() {
        if let Some(&later) = hashes.get(i + PREFETCH_DISTANCE) {
            prefetch::<1>(&out, line_of(later, lines));
        }
        let line = &mut out[line_of(hash, lines)..][..64];
        // By words: a bit of a register is set without computing a mask.
        let (words, _) = line.as_chunks_mut::<8>();
        let Ok(words) = <&mut [[u8; 8]; 8]>::try_from(words) else {
            continue;
        };
        let mut x = (hash >> 32) as u32;
        for _ in 0..probes {
            let word = &mut words[(x >> 29) as usize];
            let bit = (x >> 23) & 63;
            *word = (u64::from_le_bytes(*word) | 1 << bit).to_le_bytes();
            x = x.wrapping_mul(MULTIPLIER);
        }
    }
    out[len..].copy_from_slice(&[0xff, 0, probes, 0, 0]);
    out
}

/// Gathers key hashes and builds the filter from them.
pub struct FilterBuilder {
    millibits: u64,
    /// Make the length fit.
    balance: Option<FilterBalance>,
    hashes: Scratch<u64>,
}

impl FilterBuilder {
    /// A builder for `bits_per_key`, which must come from [`sanitize_bits`]; with a balance lengths
    /// follow the memory that is really taken.
    pub fn new(bits_per_key: f64, balance: Option<FilterBalance>) -> Self {
        let millibits = millibits(bits_per_key);
        Self {
            millibits,
            balance,
            hashes: Scratch::default(),
        }
    }

    /// Adds a key unless its hash equals the one before. Flushes and compactions come here once an entry.
    #[inline(always)]
    pub fn add(&mut self, key: &[u8]) {
        let hash = hash64(key);
        if self.hashes.last() != Some(&hash) {
            self.hashes.push(hash);
        }
    }

    /// Entries so far.
    pub fn len(&self) -> usize {
        self.hashes.len()
    }

    /// Returns whether nothing was added.
    pub fn is_empty(&self) -> bool {
        self.hashes.is_empty()
    }

    /// Size of the finished filter.
    pub fn size(&self) -> u64 {
        size(self.hashes.len() as u64, self.millibits)
    }

    /// The filter's block.
    pub fn finish(&self) -> Scratch<u8> {
        build(&self.hashes, self.millibits, self.balance.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Filter;
    use super::*;

    #[test]
    fn one_key_sets_the_documented_bits() {
        let mut b = FilterBuilder::new(10.0, None);
        b.add(b"a");
        b.add(b"a");
        assert_eq!(b.len(), 1);
        let f = b.finish().to_vec();
        assert_eq!(f.len(), 69);
        assert_eq!(f[64..], [0xff, 0, 6, 0, 0]);
        let set: Vec<usize> = (0..512).filter(|i| f[i / 8] >> (i % 8) & 1 == 1).collect();
        assert_eq!(set, [1, 50, 110, 261, 273, 289]);
    }

    #[test]
    fn no_key_is_missed_and_few_others_match() {
        for bits in [1.0, 2.0, 5.0, 10.0, 16.0, 30.0, 100.0] {
            let mut b = FilterBuilder::new(bits, None);
            for i in 0..5000u32 {
                b.add(&i.to_be_bytes());
            }
            let f = Filter::parse(b.finish().to_vec());
            assert!(
                (0..5000u32).all(|i| f.may_match(&i.to_be_bytes())),
                "{bits} bits"
            );
            let false_positives = (5000..15000u32)
                .filter(|i| f.may_match(&i.to_be_bytes()))
                .count();
            let limit = if bits >= 10.0 { 150 } else { 7000 };
            assert!(false_positives < limit, "{bits} bits: {false_positives}");
        }
    }
}
