//! Which hashes make up a filter.
//!
//! Neighbours repeat: versions of a key have one entry, keys of a prefix share the prefix's. What
//! equals its predecessor is left out, by the rules of RocksDB 11, so that filters are identical.

/// The hashes of one filter, in order.
#[derive(Default)]
pub(super) struct Entries {
    hashes: Vec<u64>,
    /// Hash of the prefix that was last added beside a key.
    last_prefix: Option<u64>,
}

impl Entries {
    /// Adds one entry unless it repeats the last.
    #[inline]
    pub(super) fn add(&mut self, hash: u64) {
        if self.hashes.last() != Some(&hash) {
            self.hashes.push(hash);
        }
    }

    /// Adds a key and its prefix.
    pub(super) fn add_pair(&mut self, key: u64, prefix: u64) {
        let last = self.hashes.last().copied();
        let last_prefix = self.last_prefix.replace(prefix);
        if Some(prefix) != last_prefix && prefix != key && Some(prefix) != last {
            self.hashes.push(prefix);
        }
        if Some(key) != last && Some(key) != last_prefix {
            self.hashes.push(key);
        }
    }

    /// Number of hashes.
    #[inline]
    pub(super) fn len(&self) -> u64 {
        self.hashes.len() as u64
    }

    /// The hashes.
    pub(super) fn hashes(&self) -> &[u64] {
        &self.hashes
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.hashes.clear();
        self.last_prefix = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_keys_and_prefixes_have_one_entry() {
        let mut e = Entries::default();
        // Two versions of key 1 and a key 2 of prefix 10, then key 3 of prefix 11.
        for (key, prefix) in [(1, 10), (1, 10), (2, 10), (3, 11)] {
            e.add_pair(key, prefix);
        }
        assert_eq!(e.hashes(), [10, 1, 2, 11, 3]);
        e.clear();
        // The bare prefix is a key itself.
        for (key, prefix) in [(10, 10), (1, 10), (11, 11)] {
            e.add_pair(key, prefix);
        }
        assert_eq!(e.hashes(), [10, 1, 11]);
        e.add(11);
        e.add(12);
        assert_eq!(e.len(), 4);
    }
}
