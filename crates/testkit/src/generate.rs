//! Keys and values for random tests.
//!
//! A model test finds a mistake only if operations meet: keys come from a small space and are drawn
//! again and again. The shapes differ in where they meet and in what their bytes do to comparisons,
//! prefixes and length encodings.

use crate::rng::Rng;

/// Where the keys of a [`KeyGen`] lie and how often each is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyShape {
    /// Fixed-length keys, each equally likely.
    Uniform,
    /// The same keys, a few of them drawn most of the time: the i-th most popular with a weight
    /// near 1/i, popular ones scattered over the key order.
    Zipf,
    /// Keys that end, begin or run along the edges of encodings: [`adversarial_keys`] and random
    /// neighbours of them.
    Adversarial,
}

/// Draws keys from a fixed space.
#[derive(Clone, Debug)]
pub struct KeyGen {
    shape: KeyShape,
    space: u64,
    adversarial: Vec<Vec<u8>>,
}

impl KeyGen {
    /// Keys of `shape` from a space of `space` different ones. For [`KeyShape::Adversarial`] the
    /// space grows to that of [`adversarial_keys`] if it is smaller.
    ///
    /// # Panics
    /// If `space` is 0.
    pub fn new(shape: KeyShape, space: u64) -> KeyGen {
        assert!(space > 0, "a key space has at least one key");
        let mut generator = KeyGen {
            shape,
            space,
            adversarial: Vec::new(),
        };
        if shape == KeyShape::Adversarial {
            generator.adversarial = adversarial_keys();
            generator.grow_adversarial();
            generator.space = generator.adversarial.len() as u64;
        }
        generator
    }

    /// Number of different keys.
    pub fn space(&self) -> u64 {
        self.space
    }

    /// The key of `index`, which is taken modulo the space. Different indexes give different keys.
    pub fn key(&self, index: u64) -> Vec<u8> {
        let index = index % self.space;
        match self.shape {
            KeyShape::Uniform | KeyShape::Zipf => format!("key{index:013}").into_bytes(),
            KeyShape::Adversarial => self.adversarial[index as usize].clone(),
        }
    }

    /// Draws a key.
    pub fn draw(&self, rng: &mut Rng) -> Vec<u8> {
        self.key(self.draw_index(rng))
    }

    /// Draws the index of a key.
    fn draw_index(&self, rng: &mut Rng) -> u64 {
        match self.shape {
            KeyShape::Uniform | KeyShape::Adversarial => rng.below(self.space),
            KeyShape::Zipf => {
                // The continuous form of weight 1/i, cut to the space.
                let rank = (self.space as f64 + 1.0).powf(rng.unit()) as u64 - 1;
                // A multiplication by a prime scatters the ranks and keeps them apart.
                const PRIME: u128 = 2_654_435_761;
                (u128::from(rank) * PRIME % u128::from(self.space)) as u64
            }
        }
    }

    /// Adds neighbours of the fixed keys (one byte added, changed, cut) until the space is reached.
    fn grow_adversarial(&mut self) {
        let mut known: std::collections::BTreeSet<Vec<u8>> =
            self.adversarial.iter().cloned().collect();
        let mut rng = Rng::new(0x6b65_7973);
        while (self.adversarial.len() as u64) < self.space {
            let mut key = rng.pick(&self.adversarial).clone();
            match rng.below(3) {
                0 if !key.is_empty() => {
                    let at = rng.index(key.len());
                    key[at] = key[at].wrapping_add(*rng.pick(&[1, 0x80, 0xff]));
                }
                1 => key.truncate(rng.index(key.len() + 1)),
                _ => key.push(*rng.pick(&[0x00, 0x01, 0x7f, 0x80, 0xfe, 0xff, b'a'])),
            }
            if known.insert(key.clone()) {
                self.adversarial.push(key);
            }
        }
    }
}

/// Keys at the edges: empty, single bytes, runs of 0x00 and 0xff, prefixes of one another, lengths
/// around 8 (the trailer of an internal key) and around the steps of a varint, a long shared prefix,
/// and bytes that look like an internal key's trailer. Sorted, without repetition.
pub fn adversarial_keys() -> Vec<Vec<u8>> {
    let mut keys: Vec<Vec<u8>> = vec![vec![]];
    for byte in [0x00, 0x01, 0x7f, 0x80, 0xfe, 0xff] {
        for len in [1, 2, 7, 8, 9, 16] {
            keys.push(vec![byte; len]);
        }
    }
    for len in [15, 127, 128, 129, 255, 256, 16_383, 16_384] {
        keys.push(vec![b'l'; len]);
    }
    for text in [
        "a", "aa", "aaa", "ab", "abc", "b", "a\0", "a\0\0", "a\0b", "A", "~",
    ] {
        keys.push(text.as_bytes().to_vec());
    }
    for end in [&b""[..], b"\0", b"\x01", b"\xff", b"\xff\xff", b"x", b"xy"] {
        let mut key = vec![b'p'; 60];
        key.extend_from_slice(end);
        keys.push(key);
    }
    for trailer in [
        0_u64,
        1,
        u64::MAX,
        1 << 8,
        (1 << 56) - 1,
        0x7fff_ffff_ffff_ff01,
    ] {
        keys.push(trailer.to_le_bytes().to_vec());
        let mut key = b"a".to_vec();
        key.extend_from_slice(&trailer.to_le_bytes());
        keys.push(key);
    }
    for end in [0x00, 0x7f, 0x80, 0xff] {
        keys.push(vec![b'm', 0xff, 0xff, end]);
        keys.push(vec![b'm', 0x00, 0x00, end]);
    }
    keys.sort();
    keys.dedup();
    keys
}

/// Makes values.
#[derive(Clone, Debug)]
pub struct ValueGen {
    len_max: usize,
}

impl ValueGen {
    /// Values of at most `len_max` bytes, most of them much shorter.
    pub fn new(len_max: usize) -> ValueGen {
        ValueGen { len_max }
    }

    /// A value that begins with `operation` (as much of it as fits), so that a wrong value tells
    /// where it came from. Sometimes empty; the rest random, repeated or zero, so that compression
    /// meets all of them.
    pub fn draw(&self, rng: &mut Rng, operation: u64) -> Vec<u8> {
        let len = rng.skewed(self.len_max as u64) as usize;
        let mut value = match rng.below(4) {
            0 => vec![0; len],
            1 => vec![rng.next_u32() as u8; len],
            2 => {
                let word = rng.bytes(7);
                word.iter().cycle().take(len).copied().collect()
            }
            _ => rng.bytes(len),
        };
        let stamp = operation.to_be_bytes();
        let shown = len.min(stamp.len());
        value[..shown].copy_from_slice(&stamp[stamp.len() - shown..]);
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_index_has_a_key_of_its_own() {
        for shape in [KeyShape::Uniform, KeyShape::Zipf, KeyShape::Adversarial] {
            let keys = KeyGen::new(shape, 500);
            let all: BTreeSet<Vec<u8>> = (0..keys.space()).map(|i| keys.key(i)).collect();
            assert_eq!(all.len() as u64, keys.space(), "{shape:?}");
        }
    }

    #[test]
    fn adversarial_keys_hold_what_their_name_promises() {
        let keys = adversarial_keys();
        assert!(keys.is_sorted());
        assert!(keys.contains(&vec![]));
        assert!(keys.contains(&vec![0xff; 8]));
        assert!(keys.iter().any(|k| k.len() > 16_000));
        let small = KeyGen::new(KeyShape::Adversarial, 1);
        assert_eq!(small.space(), keys.len() as u64);
    }

    #[test]
    fn zipf_draws_few_keys_most_of_the_time_and_reaches_many() {
        let keys = KeyGen::new(KeyShape::Zipf, 1000);
        let mut rng = Rng::new(5);
        let mut count = vec![0_u32; 1000];
        for _ in 0..20_000 {
            count[keys.draw_index(&mut rng) as usize] += 1;
        }
        let reached = count.iter().filter(|c| **c > 0).count();
        count.sort_unstable_by(|a, b| b.cmp(a));
        let top: u32 = count[..20].iter().sum();
        assert!(top > 7_000, "top 20 of 1000 drew {top} of 20000");
        assert!(reached > 500, "{reached}");
    }

    #[test]
    fn values_carry_their_operation_and_stay_short_enough() {
        let values = ValueGen::new(100);
        let mut rng = Rng::new(6);
        let mut lengths = BTreeSet::new();
        for operation in 0..500 {
            let value = values.draw(&mut rng, operation);
            lengths.insert(value.len());
            assert!(value.len() <= 100);
            if value.len() >= 8 {
                assert_eq!(value[..8], operation.to_be_bytes());
            }
        }
        assert!(
            lengths.contains(&0) && lengths.iter().any(|l| *l > 64),
            "{lengths:?}"
        );
    }
}
