//! Values whose bytes compress to a given share of their size.
//!
//! A value is cut from a pool of pieces of 100 bytes. The first part of a piece is random and the rest repeats it,
//! as db_bench has it, so that a codec with a window keeps the first part and a few bytes for each repetition.

use super::Rng;

/// Bytes of a piece.
const PIECE: usize = 100;
/// Least bytes of the pool: larger than the blocks of tables, so that one holds no piece twice.
const POOL: usize = 1 << 20;
/// Says what LZ4 and ZSTD spend for a repetition and for describing the bytes before it, of the bytes of a piece.
const REPETITION: f64 = 0.04;

/// Cuts values out of a pool, one after the other, and begins again at its end.
#[derive(Clone, Debug)]
pub struct Values {
    pool: Vec<u8>,
    size: usize,
    at: usize,
}

impl Values {
    /// Values of `size` bytes of which half compresses away: 50 random printable characters, then the same again.
    pub fn new(size: usize, seed: u64) -> Self {
        Self::of_pieces(size, seed, PIECE / 2, |rng| b' ' + (rng.below(95) as u8))
    }

    /// Values of `size` bytes that ZSTD and LZ4 compress to about `ratio` of their size, from 0.1 to 1.
    pub fn with_ratio(size: usize, ratio: f64, seed: u64) -> Self {
        let random = ((ratio - REPETITION) * PIECE as f64).round();
        let random = match ratio < 1.0 {
            true => (random as usize).clamp(1, PIECE),
            false => PIECE,
        };
        Self::of_pieces(size, seed, random, |rng| (rng.next_u64() >> 56) as u8)
    }

    /// Values of `size` random bytes, which no codec makes smaller.
    pub fn incompressible(size: usize, seed: u64) -> Self {
        Self::with_ratio(size, 1.0, seed)
    }

    fn of_pieces(size: usize, seed: u64, random: usize, byte: fn(&mut Rng) -> u8) -> Self {
        let mut rng = Rng::new(seed);
        let mut pool = Vec::with_capacity(POOL + PIECE);
        while pool.len() < POOL.max(size * 2) {
            let first: Vec<u8> = (0..random).map(|_| byte(&mut rng)).collect();
            pool.extend(first.iter().cycle().take(PIECE));
        }
        Self { pool, size, at: 0 }
    }

    /// The next value.
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "lends; an iterator cannot")]
    pub fn next(&mut self) -> &[u8] {
        self.sized(self.size)
    }

    /// The next value, with a size of its own, at most half of the pool (512 KiB, or the size given at first).
    #[inline]
    pub fn sized(&mut self, size: usize) -> &[u8] {
        if self.at + size > self.pool.len() {
            self.at = 0;
        }
        let value = &self.pool[self.at..self.at + size];
        self.at += size;
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_one_behind_the_other_and_repeat_from_their_seed() {
        let (mut a, mut b) = (Values::new(64, 3), Values::new(64, 3));
        for _ in 0..20_000 {
            assert_eq!(a.next(), b.next());
        }
        assert_eq!(a.sized(1000).len(), 1000);
        assert_ne!(Values::new(64, 4).next(), Values::new(64, 3).next());
    }

    #[test]
    fn values_have_their_size_and_differ() {
        let mut values = Values::new(100, 1);
        let a = values.next().to_vec();
        assert_eq!(a.len(), 100);
        assert_ne!(values.next(), a);
        assert_eq!(a[..50], a[50..]);
    }

    #[test]
    fn a_piece_repeats_its_beginning() {
        let mut values = Values::with_ratio(100, 0.29, 1);
        let value = values.next();
        assert_eq!(value[..25], value[25..50]);
        let random = Values::incompressible(1 << 16, 1).next().to_vec();
        let mut seen = [0u32; 256];
        random.iter().for_each(|b| seen[usize::from(*b)] += 1);
        assert!(seen.iter().all(|n| (180..340).contains(n)));
    }
}
