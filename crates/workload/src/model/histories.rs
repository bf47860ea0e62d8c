//! Whole histories of keys: every access with its operation and its time, in requests, of as many keys as memory allows.
//!
//! Only a whole history says how the operations on a key depend on each other. Of too many accesses those of half of the keys
//! are dropped, chosen by number, and again, so that the kept ones are whole. One thread at a time uses them.

use super::mix;
use super::observe::OPS;

/// Accesses that are kept at most; each takes 12 bytes.
const KEPT: usize = 4 << 20;

/// An access to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Access {
    /// Number of the key.
    key: u32,
    /// Requests before it; later ones than can be counted come at once.
    pub at: u32,
    /// Id of the operation.
    pub op: u8,
}

/// Accesses in the order of their times.
#[derive(Clone, Debug, Default)]
pub(super) struct Histories {
    accesses: Vec<Access>,
    /// Of two to this power keys one is kept.
    shift: u32,
}

/// Accesses of a key by operation.
pub(super) fn counts_of(history: &[Access]) -> [u32; OPS] {
    let mut counts = [0; OPS];
    for access in history {
        counts[usize::from(access.op)] += 1;
    }
    counts
}

impl Histories {
    fn is_kept(&self, key: u32) -> bool {
        self.shift == 0 || mix(u64::from(key)) >> (64 - self.shift) == 0
    }

    /// Notes an access to the key of that number.
    pub(super) fn add(&mut self, key: u32, op: usize, at: u64) {
        if !self.is_kept(key) {
            return;
        }
        let at = u32::try_from(at).unwrap_or(u32::MAX);
        let op = op as u8;
        self.accesses.push(Access { key, at, op });
        while self.accesses.len() >= KEPT && self.shift < 63 {
            self.shift += 1;
            let mut all = std::mem::take(&mut self.accesses);
            all.retain(|access| self.is_kept(access.key));
            self.accesses = all;
        }
    }

    /// Gives keys other numbers; those without one are dropped.
    pub(super) fn renumber(&mut self, number: impl Fn(u32) -> Option<u32>) {
        self.accesses.retain_mut(|access| match number(access.key) {
            Some(key) => {
                access.key = key;
                true
            }
            None => false,
        });
    }

    /// Puts the accesses of each key together.
    pub(super) fn sort(&mut self) {
        // Stable: those of a key stay in the order of time.
        self.accesses.sort_by_key(|access| access.key);
    }

    /// All that are kept: number of the key, id of the operation, requests before.
    pub(super) fn all(&self) -> impl Iterator<Item = (u32, usize, u64)> {
        let of = |a: &Access| (a.key, usize::from(a.op), u64::from(a.at));
        self.accesses.iter().map(of)
    }

    /// The accesses of each key after [`Self::sort`].
    pub(super) fn keys(&self) -> impl Iterator<Item = &[Access]> {
        self.accesses.chunk_by(|a, b| a.key == b.key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histories_that_are_kept_are_whole() {
        // Half of the keys are dropped by number, and half of the rest for room.
        let mut all = Histories::default();
        let keys = 300_000;
        for at in 0..20 {
            for key in 0..keys {
                all.add(key, (key % 3) as usize, u64::from(at * keys + key));
            }
        }
        // Keys that are dropped after the fact, as if they had never been.
        all.renumber(|key| (key % 2 == 0).then_some(key / 2));
        all.sort();
        let mut kept = 0;
        for history in all.keys() {
            assert_eq!(history.len(), 20);
            assert!(history.is_sorted_by_key(|access| access.at));
            assert_eq!(counts_of(history).iter().sum::<u32>(), 20);
            kept += 1;
        }
        assert!((70_000..80_000).contains(&kept), "{kept}");
    }
}
