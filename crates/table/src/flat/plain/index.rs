//! Index and Bloom filter that a plain table may store, as RocksDB's reader takes them.
//!
//! ```text
//! index:  varint32 buckets  varint32 prefixes  buckets x fixed32  lists
//! bucket: 0x7fffffff for none, the offset of a record, or 0x80000000 + where a list begins
//! list:   varint32 length  length x fixed32 offset of a record, ascending
//! ```

use crate::filter::hash32::hash32;
use spanlith_base::coding::put_varint32;

/// Seed of the hashes of prefixes, or of keys without an extractor.
const SEED: u32 = 397;
const NO_RECORD: u32 = 0x7fff_ffff;
const LIST: u32 = 0x8000_0000;
/// Bits that a key sets.
const PROBES: u32 = 6;
/// Bytes of a cache line.
const LINE: u32 = 64;

/// The hash of a prefix or key.
pub(super) fn hash(bytes: &[u8]) -> u32 {
    hash32(bytes, SEED)
}

/// Gathers records for the index.
pub(super) struct IndexRecords {
    sparseness: u64,
    /// Hash of the prefix and offset of each record that gets an entry.
    records: Vec<(u32, u32)>,
    prefix: Option<Vec<u8>>,
    prefixes: u32,
    of_prefix: u64,
    is_due: bool,
}

impl IndexRecords {
    pub(super) fn new(sparseness: u64) -> Self {
        Self {
            sparseness,
            records: Vec::new(),
            prefix: None,
            prefixes: 0,
            of_prefix: 0,
            is_due: false,
        }
    }

    /// Takes note of the next record: the first of each prefix gets an entry, and one of so many after it.
    pub(super) fn add(&mut self, prefix: &[u8], offset: u32) {
        if self.prefix.as_deref() != Some(prefix) {
            self.prefixes += 1;
            self.of_prefix = 0;
            self.prefix = Some(prefix.to_vec());
            self.is_due = true;
        }
        if self.is_due {
            self.records.push((hash(prefix), offset));
            self.is_due = false;
        }
        self.of_prefix += 1;
        if self.sparseness == 0 || self.of_prefix.is_multiple_of(self.sparseness) {
            self.is_due = true;
        }
    }

    /// The bytes of the index, with a bucket for `ratio` prefixes; 0 has one bucket.
    pub(super) fn finish(&self, ratio: f64) -> Vec<u8> {
        let buckets = match ratio > 0.0 {
            true => ((f64::from(self.prefixes) * (1.0 / ratio)) as u32).saturating_add(1),
            false => 1,
        };
        let mut lists = vec![Vec::new(); buckets as usize];
        for &(hash, offset) in &self.records {
            lists[(hash % buckets) as usize].push(offset);
        }
        let mut out = Vec::new();
        put_varint32(&mut out, buckets);
        put_varint32(&mut out, self.prefixes);
        let mut behind = Vec::new();
        for list in &lists {
            let word = match list.as_slice() {
                [] => NO_RECORD,
                [offset] => *offset,
                offsets => {
                    let at = behind.len() as u32 | LIST;
                    put_varint32(&mut behind, offsets.len() as u32);
                    for offset in offsets {
                        behind.extend_from_slice(&offset.to_le_bytes());
                    }
                    at
                }
            };
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.extend_from_slice(&behind);
        out
    }
}

/// A Bloom filter over hashes, and how many cache lines it has: 0 if probes go anywhere.
pub(super) fn bloom(hashes: &[u32], bits_per_key: u32, locality: u32) -> (Vec<u8>, u32) {
    let bits = (hashes.len() as u32).wrapping_mul(bits_per_key);
    if locality == 0 {
        let bits = bits.div_ceil(8) * 8;
        let mut out = vec![0; bits as usize / 8];
        for &hash in hashes {
            let step = hash.rotate_right(17);
            let mut h = hash;
            for _ in 0..PROBES {
                set(&mut out, h % bits);
                h = h.wrapping_add(step);
            }
        }
        return (out, 0);
    }
    // Odd, so that more bits take part in choosing a line.
    let lines = bits.div_ceil(LINE * 8) | 1;
    let mut out = vec![0; (lines * LINE) as usize];
    for &hash in hashes {
        let line = hash.rotate_right(11) % lines;
        let step = hash.rotate_right(17);
        let mut h = hash;
        for _ in 0..PROBES {
            set(&mut out, line * LINE * 8 + h % (LINE * 8));
            h = h.rotate_right(9).wrapping_add(step);
        }
    }
    (out, lines)
}

fn set(bytes: &mut [u8], bit: u32) {
    bytes[bit as usize / 8] |= 1 << (bit % 8);
}
