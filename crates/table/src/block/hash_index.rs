//! The hash index of a data block: from a user key to the restart interval that holds it.
//!
//! ```text
//! B bucket bytes, fixed16 B     after the restart array
//! bucket: 255 empty, 254 several intervals, else the number of the interval
//! ```
//!
//! A bucket is found by a 32-bit hash of the user key modulo B.
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

/// Bucket without a key.
pub(super) const EMPTY: u8 = 255;
/// Bucket with keys of several restart intervals.
pub(super) const COLLISION: u8 = 254;
/// Largest block that gets a hash index, with the index.
const BLOCK_MAX: usize = 65536;
const SEED: u32 = 397;
const MULTIPLIER: u32 = 0xc6a4_a793;

/// The 32-bit hash of RocksDB and LevelDB.
fn hash32(data: &[u8]) -> u32 {
    let mut h = SEED ^ (data.len() as u32).wrapping_mul(MULTIPLIER);
    let mut words = data.chunks_exact(4);
    for word in &mut words {
        let word = word.try_into().map(u32::from_le_bytes).unwrap_or_default();
        h = h.wrapping_add(word).wrapping_mul(MULTIPLIER);
        h ^= h >> 16;
    }
    let rest = words.remainder();
    if !rest.is_empty() {
        // The bytes of the rest count as signed numbers.
        for (i, &byte) in rest.iter().enumerate() {
            h = h.wrapping_add((i32::from(byte as i8) as u32) << (8 * i));
        }
        h = h.wrapping_mul(MULTIPLIER);
        h ^= h >> 24;
    }
    h
}

/// The bucket byte of `user` in `buckets`; `COLLISION` if there are none.
#[inline]
pub(super) fn bucket(buckets: &[u8], user: &[u8]) -> u8 {
    let Some(i) = (hash32(user) as usize).checked_rem(buckets.len()) else {
        return COLLISION;
    };
    buckets.get(i).copied().unwrap_or(COLLISION)
}

/// Collects the keys of one block.
pub(super) struct HashIndexBuilder {
    /// Buckets per entry.
    per_entry: f64,
    estimate: f64,
    /// Hash and restart interval of each entry.
    entries: Vec<(u32, u8)>,
    /// An entry lies in an interval without a number.
    overflow: bool,
}

impl HashIndexBuilder {
    /// An index in which about `util_ratio` of the buckets are used.
    pub(super) fn new(util_ratio: f64) -> Self {
        let ratio = if util_ratio > 0.0 { util_ratio } else { 0.75 };
        Self {
            per_entry: 1.0 / ratio,
            estimate: 0.0,
            entries: Vec::new(),
            overflow: false,
        }
    }

    pub(super) fn clear(&mut self) {
        self.estimate = 0.0;
        self.entries.clear();
        self.overflow = false;
    }

    /// Adds an entry of the restart interval with that number.
    pub(super) fn add(&mut self, user: &[u8], restart: usize) {
        self.estimate += self.per_entry;
        match u8::try_from(restart).ok().filter(|&r| r < COLLISION) {
            Some(restart) => self.entries.push((hash32(user), restart)),
            None => self.overflow = true,
        }
    }

    fn buckets(&self) -> u16 {
        self.estimate as u16 | 1
    }

    /// Bytes of the index if it were finished now.
    pub(super) fn size(&self) -> usize {
        if self.overflow {
            return 0;
        }
        2 + usize::from(self.buckets())
    }

    /// Appends the index to a block that is complete up to its restart array; whether it did.
    pub(super) fn finish(&self, block: &mut Vec<u8>) -> bool {
        if self.overflow || block.len() + self.size() + 4 > BLOCK_MAX {
            return false;
        }
        let n = self.buckets();
        let mut buckets = vec![EMPTY; n.into()];
        for &(hash, restart) in &self.entries {
            if let Some(bucket) = buckets.get_mut((hash % u32::from(n)) as usize) {
                *bucket = match *bucket {
                    EMPTY => restart,
                    same if same == restart => restart,
                    _ => COLLISION,
                };
            }
        }
        block.extend_from_slice(&buckets);
        block.extend_from_slice(&n.to_le_bytes());
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_has_the_values_of_rocksdb() {
        let of = |key: &str| hash32(key.as_bytes());
        assert_eq!(of("bin000"), 838_215_404);
        assert_eq!(of("bin001"), 3_600_660_747);
        assert_eq!(of("bin003"), 535_617_474);
    }
}
