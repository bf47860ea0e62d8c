//! Keys by number, and an order of numbers that looks random and needs no table.

use super::Rng;

/// Keys of db_bench: a big-endian number, then `0` characters.
#[derive(Clone, Debug)]
pub struct Keys {
    key: Vec<u8>,
}

impl Keys {
    /// Keys of `size` bytes.
    pub fn new(size: usize) -> Self {
        Self {
            key: vec![b'0'; size],
        }
    }

    /// The key of number `n`.
    #[inline]
    pub fn set(&mut self, n: u64) -> &[u8] {
        let bytes = n.to_be_bytes();
        let len = self.key.len();
        if len >= 8 {
            self.key[..8].copy_from_slice(&bytes);
        } else {
            self.key.copy_from_slice(&bytes[8 - len..]);
        }
        &self.key
    }

    /// A key that no workload puts: right before that of number `n` if there is room after the
    /// number, else with a large number.
    #[inline]
    pub fn set_missing(&mut self, n: u64) -> &[u8] {
        if self.key.len() <= 8 {
            return self.set(!n);
        }
        self.set(n);
        if let Some(last) = self.key.last_mut() {
            *last = b'.';
        }
        &self.key
    }
}

/// A permutation of the numbers below a bound that needs no table: a Feistel network over the next
/// even number of bits, walked until the result is below the bound.
#[derive(Clone, Debug)]
pub struct Shuffle {
    bound: u64,
    half_bits: u32,
    keys: [u64; 4],
}

impl Shuffle {
    /// Of the numbers below `bound`.
    pub fn new(bound: u64, seed: u64) -> Self {
        let bits = u64::BITS - bound.saturating_sub(1).leading_zeros();
        let mut rng = Rng::new(seed);
        Self {
            bound,
            half_bits: bits.div_ceil(2).max(1),
            keys: std::array::from_fn(|_| rng.next_u64()),
        }
    }

    /// Where `n`, which is below the bound, goes.
    pub fn place(&self, mut n: u64) -> u64 {
        let mask = (1_u64 << self.half_bits) - 1;
        loop {
            let (mut left, mut right) = (n >> self.half_bits, n & mask);
            for key in self.keys {
                let mixed = Rng::new(right ^ key).next_u64() & mask;
                (left, right) = (right, left ^ mixed);
            }
            n = (left << self.half_bits) | right;
            if n < self.bound {
                return n;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_those_of_db_bench() {
        let mut keys = Keys::new(16);
        assert_eq!(keys.set(0x0102), b"\0\0\0\0\0\0\x01\x0200000000");
        assert_eq!(Keys::new(4).set(0x0102), b"\0\0\x01\x02");
        assert_eq!(keys.set_missing(1), b"\0\0\0\0\0\0\0\x010000000.");
        assert_eq!(
            Keys::new(8).set_missing(1),
            b"\xff\xff\xff\xff\xff\xff\xff\xfe"
        );
    }

    #[test]
    fn a_shuffle_is_a_permutation() {
        for bound in [1, 2, 3, 100, 1000, 1024, 1025] {
            let shuffle = Shuffle::new(bound, 9);
            let mut seen: Vec<u64> = (0..bound).map(|n| shuffle.place(n)).collect();
            if bound >= 100 {
                assert!(!seen.is_sorted(), "{bound}");
            }
            seen.sort_unstable();
            assert!(seen.into_iter().eq(0..bound), "{bound}");
        }
    }
}
