//! The 64-bit hash of filters: the preview of XXH3 (xxHash 0.7.2), seed 0.
//!
//! Not the final XXH3 of block checksums; the two differ for most lengths. Length 0 has a value of
//! its own that only RocksDB defines.

const SECRET: [u8; 192] = [
    0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe, 0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21, 0xad, 0x1c,
    0xde, 0xd4, 0x6d, 0xe9, 0x83, 0x90, 0x97, 0xdb, 0x72, 0x40, 0xa4, 0xa4, 0xb7, 0xb3, 0x67, 0x1f,
    0xcb, 0x79, 0xe6, 0x4e, 0xcc, 0xc0, 0xe5, 0x78, 0x82, 0x5a, 0xd0, 0x7d, 0xcc, 0xff, 0x72, 0x21,
    0xb8, 0x08, 0x46, 0x74, 0xf7, 0x43, 0x24, 0x8e, 0xe0, 0x35, 0x90, 0xe6, 0x81, 0x3a, 0x26, 0x4c,
    0x3c, 0x28, 0x52, 0xbb, 0x91, 0xc3, 0x00, 0xcb, 0x88, 0xd0, 0x65, 0x8b, 0x1b, 0x53, 0x2e, 0xa3,
    0x71, 0x64, 0x48, 0x97, 0xa2, 0x0d, 0xf9, 0x4e, 0x38, 0x19, 0xef, 0x46, 0xa9, 0xde, 0xac, 0xd8,
    0xa8, 0xfa, 0x76, 0x3f, 0xe3, 0x9c, 0x34, 0x3f, 0xf9, 0xdc, 0xbb, 0xc7, 0xc7, 0x0b, 0x4f, 0x1d,
    0x8a, 0x51, 0xe0, 0x4b, 0xcd, 0xb4, 0x59, 0x31, 0xc8, 0x9f, 0x7e, 0xc9, 0xd9, 0x78, 0x73, 0x64,
    0xea, 0xc5, 0xac, 0x83, 0x34, 0xd3, 0xeb, 0xc3, 0xc5, 0x81, 0xa0, 0xff, 0xfa, 0x13, 0x63, 0xeb,
    0x17, 0x0d, 0xdd, 0x51, 0xb7, 0xf0, 0xda, 0x49, 0xd3, 0x16, 0x55, 0x26, 0x29, 0xd4, 0x68, 0x9e,
    0x2b, 0x16, 0xbe, 0x58, 0x7d, 0x47, 0xa1, 0xfc, 0x8f, 0xf8, 0xb8, 0xd1, 0x7a, 0xd0, 0x31, 0xce,
    0x45, 0xcb, 0x3a, 0x8f, 0x95, 0x16, 0x04, 0x28, 0xaf, 0xd7, 0xfb, 0xca, 0xbb, 0x4b, 0x40, 0x7e,
];

const P32_1: u64 = 0x9E37_79B1;
const P32_2: u64 = 0x85EB_CA77;
const P32_3: u64 = 0xC2B2_AE3D;
const P64_1: u64 = 0x9E37_79B1_85EB_CA87;
const P64_2: u64 = 0xC2B2_AE3D_27D4_EB4F;
const P64_3: u64 = 0x1656_67B1_9E37_79F9;
const P64_4: u64 = 0x85EB_CA77_C2B2_AE63;
const P64_5: u64 = 0x27D4_EB2F_1656_67C5;

#[inline(always)]
fn le32(b: &[u8], at: usize) -> u64 {
    u64::from(u32::from_le_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]]))
}

#[inline(always)]
fn le64(b: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&b[at..at + 8]);
    u64::from_le_bytes(word)
}

#[inline(always)]
fn secret(at: usize) -> u64 {
    le64(&SECRET, at)
}

#[inline(always)]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

#[inline(always)]
fn avalanche(mut h: u64) -> u64 {
    h ^= h >> 37;
    h = h.wrapping_mul(P64_3);
    h ^ h >> 32
}

#[inline(always)]
fn mix(data: &[u8], at: usize, secret_at: usize) -> u64 {
    fold(
        le64(data, at) ^ secret(secret_at),
        le64(data, at + 8) ^ secret(secret_at + 8),
    )
}

/// Hash of a key (or prefix) for filters.
///
/// Inlined: one branch of it serves all keys of a table.
#[inline(always)]
pub fn hash64(data: &[u8]) -> u64 {
    let n = data.len();
    let len = n as u64;
    match n {
        9..=16 => {
            let low = le64(data, 0) ^ secret(0);
            let high = le64(data, n - 8) ^ secret(8);
            avalanche(
                len.wrapping_add(low)
                    .wrapping_add(high)
                    .wrapping_add(fold(low, high)),
            )
        }
        17..=128 => {
            let mut sum = len.wrapping_mul(P64_1);
            for i in 0..=(n - 1) / 32 {
                sum = sum
                    .wrapping_add(mix(data, 16 * i, 32 * i))
                    .wrapping_add(mix(data, n - 16 * (i + 1), 32 * i + 16));
            }
            avalanche(sum)
        }
        0 => fold(secret(0), P64_2),
        1..=3 => {
            let c = u64::from(data[0])
                | u64::from(data[n / 2]) << 8
                | u64::from(data[n - 1]) << 16
                | len << 24;
            avalanche((c ^ le32(&SECRET, 0)).wrapping_mul(P64_1))
        }
        4..=8 => {
            let k = (le32(data, 0) | le32(data, n - 4) << 32) ^ secret(0);
            let x = len.wrapping_add((k ^ k >> 51).wrapping_mul(P32_1));
            avalanche((x ^ x >> 47).wrapping_mul(P64_2))
        }
        129..=240 => medium(data),
        _ => long(data),
    }
}

fn medium(data: &[u8]) -> u64 {
    let n = data.len();
    let mut sum = (n as u64).wrapping_mul(P64_1);
    for i in 0..8 {
        sum = sum.wrapping_add(mix(data, 16 * i, 16 * i));
    }
    sum = avalanche(sum);
    for i in 8..n / 16 {
        sum = sum.wrapping_add(mix(data, 16 * i, 16 * (i - 8) + 3));
    }
    avalanche(sum.wrapping_add(mix(data, n - 16, 119)))
}

#[inline(always)]
fn stripe(acc: &mut [u64; 8], data: &[u8], at: usize, secret_at: usize) {
    for (i, a) in acc.iter_mut().enumerate() {
        let value = le64(data, at + 8 * i);
        let key = value ^ secret(secret_at + 8 * i);
        *a = a
            .wrapping_add(value)
            .wrapping_add((key & 0xffff_ffff).wrapping_mul(key >> 32));
    }
}

fn long(data: &[u8]) -> u64 {
    let n = data.len();
    let mut acc = [P32_3, P64_1, P64_2, P64_3, P64_4, P32_2, P64_5, P32_1];
    let blocks = n / 1024;
    for b in 0..blocks {
        for r in 0..16 {
            stripe(&mut acc, data, 1024 * b + 64 * r, 8 * r);
        }
        for (i, a) in acc.iter_mut().enumerate() {
            *a = (*a ^ *a >> 47 ^ secret(128 + 8 * i)).wrapping_mul(P32_1);
        }
    }
    for r in 0..(n - 1024 * blocks) / 64 {
        stripe(&mut acc, data, 1024 * blocks + 64 * r, 8 * r);
    }
    if !n.is_multiple_of(64) {
        stripe(&mut acc, data, n - 64, 121);
    }
    let mut sum = (n as u64).wrapping_mul(P64_1);
    for i in 0..4 {
        let low = acc[2 * i] ^ secret(11 + 16 * i);
        sum = sum.wrapping_add(fold(low, acc[2 * i + 1] ^ secret(19 + 16 * i)));
    }
    avalanche(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed by RocksDB's own function.
    const VECTORS: &str = include_str!("../../../../fixtures/table/hash-vectors.tsv");

    #[test]
    fn every_length_class_hashes_as_rocksdb_does() {
        let mut seen = 0;
        for line in VECTORS.lines().filter(|l| !l.starts_with('#')) {
            let mut fields = line.split('\t');
            let n: usize = fields.next().unwrap().parse().unwrap();
            let want = u64::from_str_radix(fields.next().unwrap(), 16).unwrap();
            let data: Vec<u8> = (0..n).map(|i| (131 * i + 7) as u8).collect();
            assert_eq!(hash64(&data), want, "length {n}");
            seen += 1;
        }
        assert_eq!(seen, 53);
        assert_eq!(hash64(b"hello"), 0xa0bb_c238_c976_57b5);
    }
}
