//! CRC-32C with RocksDB's mask, and the xxHash family.

use crate::{Error, Result, crc32c};
use std::hash::Hasher;

const MASK_DELTA: u32 = 0xa282_ead8;

/// CRC-32C (Castagnoli) of `data`.
#[inline]
pub fn crc32c(data: &[u8]) -> u32 {
    crc32c_append(0, data)
}

/// CRC-32C of the bytes whose CRC is `crc`, followed by `data`.
#[inline]
pub fn crc32c_append(crc: u32, data: &[u8]) -> u32 {
    if data.len() <= crc32c::LEN_MAX
        && let Some(crc) = crc32c::crc32c_append(crc, data)
    {
        return crc;
    }
    ::crc32c::crc32c_append(crc, data)
}

/// Masks a CRC for storage, so that a CRC over bytes that hold CRCs stays useful.
#[inline]
pub fn mask(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(MASK_DELTA)
}

/// Final (v0.8) XXH3, 64 bits, no seed. Not the preview hash of filters.
#[inline]
pub fn xxh3_64(data: &[u8]) -> u64 {
    twox_hash::XxHash3_64::oneshot(data)
}

/// Final XXH3, 128 bits, with a seed: (high, low).
pub fn xxh3_128(data: &[u8], seed: u64) -> (u64, u64) {
    let h = twox_hash::XxHash3_128::oneshot_with_seed(seed, data);
    ((h >> 64) as u64, h as u64)
}

/// Checksum kind of a table file (byte 0 of the footer).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChecksumKind {
    /// Constant 0.
    None,
    /// Masked CRC-32C.
    Crc32c,
    /// XXH32.
    XxHash,
    /// Low half of XXH64.
    XxHash64,
    /// XXH3 with RocksDB's last-byte rule; the default.
    Xxh3,
}

impl ChecksumKind {
    /// From the footer byte.
    ///
    /// # Errors
    /// `Corruption` for an unknown byte.
    pub fn from_byte(b: u8) -> Result<Self> {
        Ok(match b {
            0 => Self::None,
            1 => Self::Crc32c,
            2 => Self::XxHash,
            3 => Self::XxHash64,
            4 => Self::Xxh3,
            _ => return Err(Error::corruption("unknown checksum type").with("type", b)),
        })
    }

    /// The footer byte.
    pub fn as_byte(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Crc32c => 1,
            Self::XxHash => 2,
            Self::XxHash64 => 3,
            Self::Xxh3 => 4,
        }
    }

    /// Checksum over `data` followed by `last`, where `last` is the trailer's compression byte
    /// (or the last byte of a footer).
    #[inline]
    pub fn compute(self, data: &[u8], last: u8) -> u32 {
        match self {
            Self::None => 0,
            Self::Crc32c => mask(crc32c_append(crc32c(data), &[last])),
            Self::Xxh3 => (xxh3_64(data) as u32) ^ u32::from(last).wrapping_mul(0x6b90_83d9),
            Self::XxHash => xxh32(data, last),
            Self::XxHash64 => xxh64(data, last),
        }
    }
}

#[inline(never)]
fn xxh32(data: &[u8], last: u8) -> u32 {
    let mut hash = twox_hash::XxHash32::with_seed(0);
    hash.write(data);
    hash.write(&[last]);
    hash.finish_32()
}

#[inline(never)]
fn xxh64(data: &[u8], last: u8) -> u32 {
    let mut hash = twox_hash::XxHash64::with_seed(0);
    hash.write(data);
    hash.write(&[last]);
    hash.finish() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each length of the short form, at each alignment and on both sides of its limit, beside the library.
    #[test]
    fn short_data_has_the_same_crc() {
        let data: Vec<u8> = (0..crc32c::LEN_MAX as u32 + 32)
            .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
            .collect();
        for len in 0..=crc32c::LEN_MAX + 16 {
            for at in 0..9 {
                let data = &data[at..at + len];
                assert_eq!(crc32c(data), ::crc32c::crc32c(data), "{len} bytes at {at}");
                let before = 0x8765_4321 ^ len as u32;
                assert_eq!(
                    crc32c_append(before, data),
                    ::crc32c::crc32c_append(before, data),
                    "{len} bytes at {at}"
                );
            }
        }
    }

    #[test]
    fn crc32c_has_the_published_check_value() {
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
        assert_eq!(mask(0), MASK_DELTA);
        assert_eq!(mask(0x0000_8001), MASK_DELTA + 0x0002_0001);
    }
}
