//! Checksums of entries in memory, and how far they are verified.
//!
//! A checksum covers user key, tag and value. It is computed from what the caller hands over, before
//! the bytes are copied, and lies after the value in the record; that of a range tombstone beside it.

use spanlith_base::checksum::xxh3_128;
use spanlith_base::{Error, ErrorKind};

/// How entries are guarded against memory that changes under them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Protection {
    /// Bytes of checksum per entry, at most 8; 0 for none. Verified for each entry that is read.
    pub bytes_per_key: u8,
    /// Says whether the order of the entries a search ends among, and of those an iterator steps over, is
    /// verified.
    pub checks_order: bool,
    /// Says whether the checksums of all entries a search ends among are verified.
    pub checks_on_seek: bool,
}

impl Protection {
    /// Returns whether readers have something to verify.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.bytes_per_key != 0 || self.checks_order
    }
}

/// The checksum of an entry; the first bytes in little-endian order are kept.
#[inline(never)]
pub(crate) fn checksum(tag: u64, key: &[u8], value: &[u8]) -> u64 {
    let of_key = xxh3_128(key, tag).0;
    xxh3_128(value, of_key).0
}

/// An entry is not what was added.
#[cold]
pub(crate) fn changed() -> Error {
    Error::new(
        ErrorKind::Corruption,
        "Corrupted memtable entry, per key-value checksum verification failed.",
    )
}

/// Entries do not stand in order.
#[cold]
pub(crate) fn out_of_order() -> Error {
    Error::new(
        ErrorKind::Corruption,
        "Out-of-order keys found in skiplist.",
    )
}
