//! The hash functions of cuckoo tables: MurmurHash64A with a seed for each function, reduced to a bucket.

use spanlith_base::coding::get_fixed64;

/// Seeds of the functions are its multiples, in 32 bits.
const SEED_STEP: u32 = 816_922_183;

/// How a key becomes the number of a bucket.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hashing {
    /// Buckets that hashes lead to; above 0, and a power of two unless `by_remainder`.
    pub(super) table_size: u64,
    /// Hashes are reduced by the remainder of a division; else by a mask.
    pub(super) by_remainder: bool,
    /// The first function is the first eight bytes of the key.
    pub(super) identity_first: bool,
}

impl Hashing {
    /// Bytes that a key has at least.
    pub(super) fn key_len_min(&self) -> usize {
        match self.identity_first {
            true => 8,
            false => 0,
        }
    }

    /// The bucket that function `number` sends a key to.
    pub(super) fn bucket(&self, user_key: &[u8], number: u32) -> u64 {
        let value = match get_fixed64(user_key, 0) {
            Some(first) if number == 0 && self.identity_first => first,
            _ => murmur64a(user_key, SEED_STEP.wrapping_mul(number)),
        };
        match self.by_remainder {
            true => value.checked_rem(self.table_size).unwrap_or(0),
            false => value & self.table_size.wrapping_sub(1),
        }
    }
}

/// MurmurHash64A, as Austin Appleby published it.
fn murmur64a(data: &[u8], seed: u32) -> u64 {
    const M: u64 = 0xc6a4_a793_5bd1_e995;
    const R: u32 = 47;
    let mut h = u64::from(seed) ^ (data.len() as u64).wrapping_mul(M);
    let mut words = data.chunks_exact(8);
    for word in &mut words {
        let mut k = get_fixed64(word, 0).unwrap_or_default().wrapping_mul(M);
        k = (k ^ k >> R).wrapping_mul(M);
        h = (h ^ k).wrapping_mul(M);
    }
    let rest = words.remainder();
    if !rest.is_empty() {
        let tail = rest.iter().rev().fold(0, |all, &b| all << 8 | u64::from(b));
        h = (h ^ tail).wrapping_mul(M);
    }
    h = (h ^ h >> R).wrapping_mul(M);
    h ^ h >> R
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_key_is_hashed_where_its_first_bytes_are_too_few() {
        let hashing = Hashing {
            table_size: 64,
            by_remainder: false,
            identity_first: true,
        };
        assert_eq!(hashing.bucket(&[7, 0, 0, 0, 0, 0, 0, 0, 99], 0), 7);
        assert_eq!(hashing.bucket(b"abc", 0), murmur64a(b"abc", 0) & 63);
        assert_eq!(
            hashing.bucket(&[7; 9], 1),
            murmur64a(&[7; 9], SEED_STEP) & 63
        );
    }
}
