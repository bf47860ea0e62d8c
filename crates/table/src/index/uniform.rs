//! Says whether the keys of an index block are spread evenly, so that a search may guess where a key is: the
//! mark that RocksDB 11 puts into the footer of such blocks (8.6 of the format notes).
//!
//! The restart keys, after the bytes that the first and the last have in common, are read as numbers of
//! eight bytes. Their gaps are even if the standard deviation is below `threshold` times the mean.

use spanlith_base::keys::TAG_LEN;

/// Gathers the restart keys of one block.
pub(super) struct Evenness {
    /// Share of the mean; negative means that no block is marked.
    threshold: f64,
    /// Bytes at the end of a key that do not count as part of the number.
    tag: usize,
    keys: Vec<u8>,
    ends: Vec<usize>,
}

/// Bytes of `key` from `at` on as a number, as if zeros followed.
fn number(key: &[u8], at: usize) -> u64 {
    let mut bytes = [0; 8];
    let rest = key.get(at..).unwrap_or_default();
    for (to, from) in bytes.iter_mut().zip(rest) {
        *to = *from;
    }
    u64::from_be_bytes(bytes)
}

impl Evenness {
    /// Nothing gathered yet of a block of user keys or of internal keys.
    pub(super) fn new(threshold: f64, user_keys: bool) -> Self {
        Self {
            threshold,
            tag: if user_keys { 0 } else { TAG_LEN },
            keys: Vec::new(),
            ends: Vec::new(),
        }
    }

    /// Takes in the key at a restart point.
    pub(super) fn add(&mut self, key: &[u8]) {
        if self.threshold >= 0.0 {
            self.keys.extend_from_slice(key);
            self.ends.push(self.keys.len());
        }
    }

    fn key(&self, i: usize) -> &[u8] {
        let start = if i == 0 { 0 } else { self.ends[i - 1] };
        &self.keys[start..self.ends[i]]
    }

    /// Returns whether the keys are spread evenly. The order of operations is RocksDB's, because a block may be
    /// on the edge.
    pub(super) fn is_even(&self) -> bool {
        let n = self.ends.len();
        if n < 3 || (0..n).any(|i| self.key(i).len() < self.tag) {
            return false;
        }
        // Whole keys are compared, with their tags.
        let common = self
            .key(0)
            .iter()
            .zip(self.key(n - 1))
            .take_while(|(a, b)| a == b)
            .count();
        let value = |i: usize| {
            let key = self.key(i);
            number(&key[..key.len() - self.tag], common)
        };
        let (mut mean, mut squares) = (0.0, 0.0);
        let mut before = value(0);
        for i in 1..n {
            let now = value(i);
            let gap = now.wrapping_sub(before) as f64;
            let off = gap - mean;
            mean += off / i as f64;
            squares += off * (gap - mean);
            before = now;
        }
        if mean <= 0.0 {
            return false;
        }
        let variation = (squares / (n - 1) as f64).sqrt() / mean;
        variation >= 0.0 && variation < self.threshold
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_even(threshold: f64, user_keys: bool, keys: &[&[u8]]) -> bool {
        let mut evenness = Evenness::new(threshold, user_keys);
        keys.iter().for_each(|key| evenness.add(key));
        evenness.is_even()
    }

    #[test]
    fn keys_are_even_if_their_gaps_are_of_about_one_size() {
        let even: [&[u8]; 4] = [b"k10", b"k20", b"k30", b"k40"];
        assert!(is_even(0.001, true, &even));
        assert!(!is_even(0.0, true, &even));
        assert!(!is_even(-1.0, true, &even));
        assert!(!is_even(0.5, true, &even[..2]));
        let uneven: [&[u8]; 4] = [b"k10", b"k11", b"k12", b"k90"];
        assert!(!is_even(0.5, true, &uneven));
        assert!(is_even(2.0, true, &uneven));
    }

    #[test]
    fn tags_of_internal_keys_are_no_part_of_the_number() {
        let key = |n: u8, tag: u8| [&[b'k', n][..], &[tag; 8]].concat();
        let keys = [key(10, 9), key(20, 200), key(30, 7)];
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        assert!(is_even(0.001, false, &keys));
        assert!(!is_even(0.001, true, &keys));
    }
}
