//! Sources of randomness: the kernel's, and one that repeats itself.
//!
//! Neither is for keys of ciphers. The seeded one is splitmix64: a counter through a mixing function,
//! so that threads may share it without a lock and one thread alone always sees the same numbers.

use crate::sys;
use crate::traits::Rng;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

/// The kernel's generator.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemRng;

impl Rng for SystemRng {
    fn next_u64(&self) -> u64 {
        let mut bytes = [0u8; 8];
        match sys::random(&mut bytes) {
            Ok(()) => u64::from_le_bytes(bytes),
            // A kernel without the call or a sandbox that forbids it: the standard library's hash
            // keys are random per process and differ from call to call.
            Err(_) => RandomState::new().build_hasher().finish(),
        }
    }
}

const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// A generator whose numbers are a function of its seed.
#[derive(Debug)]
pub struct SeededRng {
    /// The counter. Relaxed: each value is drawn once, in whatever order threads come.
    state: AtomicU64,
}

impl SeededRng {
    /// A generator for `seed`; any value is as good as any other.
    pub fn new(seed: u64) -> Self {
        Self {
            state: AtomicU64::new(seed),
        }
    }

    /// A number below `n`; 0 if `n` is 0. The bias is below `n / 2^64`.
    pub fn below(&self, n: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(n)) >> 64) as u64
    }
}

impl Rng for SeededRng {
    fn next_u64(&self) -> u64 {
        let mut z = self
            .state
            .fetch_add(GAMMA, Ordering::Relaxed)
            .wrapping_add(GAMMA);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first numbers of the reference implementation of splitmix64.
    #[test]
    fn a_seed_always_gives_the_same_numbers() {
        let rng = SeededRng::new(1_234_567);
        let numbers = [(); 3].map(|()| rng.next_u64());
        let want = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
        ];
        assert_eq!(numbers, want);
    }

    #[test]
    fn numbers_below_a_bound_reach_all_and_no_more() {
        let rng = SeededRng::new(0);
        let seen: std::collections::BTreeSet<u64> = (0..1000).map(|_| rng.below(7)).collect();
        assert_eq!(
            seen.into_iter().collect::<Vec<_>>(),
            (0..7).collect::<Vec<_>>()
        );
        assert_eq!((rng.below(1), rng.below(0)), (0, 0));
    }

    #[test]
    fn the_system_does_not_repeat_itself() {
        let seen: std::collections::BTreeSet<u64> =
            (0..100).map(|_| SystemRng.next_u64()).collect();
        assert_eq!(seen.len(), 100);
    }
}
