//! Little-endian integers, LEB128 varints and length-prefixed bytes, as RocksDB writes them.
//!
//! Decoding never reads past its input and never allocates (B3).

use crate::{Error, Result};

/// Longest varint32 in bytes.
pub const MAX_VARINT32: usize = 5;
/// Longest varint64 in bytes.
pub const MAX_VARINT64: usize = 10;

/// Appends a varint32.
#[inline]
pub fn put_varint32(out: &mut Vec<u8>, v: u32) {
    put_varint64(out, u64::from(v));
}

/// Appends a varint64 in its shortest form.
#[inline]
pub fn put_varint64(out: &mut Vec<u8>, mut v: u64) {
    while v >= 0x80 {
        out.push((v as u8) | 0x80);
        v >>= 7;
    }
    out.push(v as u8);
}

/// Number of bytes [`put_varint64`] writes.
#[inline]
pub fn varint_len(v: u64) -> usize {
    ((64 - (v | 1).leading_zeros()) as usize).div_ceil(7)
}

/// Appends a little-endian u32.
#[inline]
pub fn put_fixed32(out: &mut Vec<u8>, v: u32) {
    out.extend_from_slice(&v.to_le_bytes());
}

/// Appends a little-endian u64.
#[inline]
pub fn put_fixed64(out: &mut Vec<u8>, v: u64) {
    out.extend_from_slice(&v.to_le_bytes());
}

/// Appends a varint32 length and the bytes.
///
/// Requires: `bytes` is shorter than 4 GiB; callers check at the API boundary.
#[inline]
pub fn put_length_prefixed(out: &mut Vec<u8>, bytes: &[u8]) {
    debug_assert!(u32::try_from(bytes.len()).is_ok());
    put_varint64(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Reads a varint32 at the start of `input`; `None` if it is cut, over-long or over 32 bits.
#[inline]
pub fn get_varint32(input: &[u8]) -> Option<(u32, &[u8])> {
    if let Some((&b, rest)) = input.split_first()
        && b < 0x80
    {
        return Some((u32::from(b), rest));
    }
    let mut v: u64 = 0;
    for (i, &b) in input.iter().enumerate().take(MAX_VARINT32) {
        v |= u64::from(b & 0x7f) << (7 * i);
        if b < 0x80 {
            // RocksDB drops bits above 32; so do we, for equal verdicts on damaged bytes.
            return Some((v as u32, input.get(i + 1..)?));
        }
    }
    None
}

/// Reads a varint64 at the start of `input`; `None` if it is cut or over-long.
#[inline]
pub fn get_varint64(input: &[u8]) -> Option<(u64, &[u8])> {
    if let Some((&b, rest)) = input.split_first()
        && b < 0x80
    {
        return Some((u64::from(b), rest));
    }
    if let Some(&eight) = input.first_chunk::<8>() {
        let word = u64::from_le_bytes(eight);
        let ends = !word & 0x8080_8080_8080_8080;
        if ends != 0 {
            // The bits up to the first byte that ends, seven of each byte moved together: pairs, then
            // fours, then all.
            let word = word & (ends ^ (ends - 1)) & 0x7f7f_7f7f_7f7f_7f7f;
            let word = (word & 0x7f00_7f00_7f00_7f00) >> 1 | word & 0x007f_007f_007f_007f;
            let word = (word & 0x3fff_0000_3fff_0000) >> 2 | word & 0x0000_3fff_0000_3fff;
            let word = (word & 0x0fff_ffff_0000_0000) >> 4 | word & 0x0fff_ffff;
            let len = ends.trailing_zeros() as usize / 8 + 1;
            return Some((word, input.get(len..)?));
        }
    }
    let mut v: u64 = 0;
    for (i, &b) in input.iter().enumerate().take(MAX_VARINT64) {
        v |= u64::from(b & 0x7f) << (7 * i);
        if b < 0x80 {
            return Some((v, input.get(i + 1..)?));
        }
    }
    None
}

/// Reads a little-endian u32 at `at`; `None` past the end.
#[inline]
pub fn get_fixed32(input: &[u8], at: usize) -> Option<u32> {
    let b = input.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(b.try_into().ok()?))
}

/// Reads a little-endian u64 at `at`; `None` past the end.
#[inline]
pub fn get_fixed64(input: &[u8], at: usize) -> Option<u64> {
    let b = input.get(at..at.checked_add(8)?)?;
    Some(u64::from_le_bytes(b.try_into().ok()?))
}

/// A cursor over untrusted bytes whose reads return `Corruption` instead of running past the end.
#[derive(Clone, Debug)]
pub struct Decoder<'a> {
    rest: &'a [u8],
    what: &'static str,
}

impl<'a> Decoder<'a> {
    /// Decodes `bytes`; `what` names the structure in errors.
    pub fn new(bytes: &'a [u8], what: &'static str) -> Self {
        Self { rest: bytes, what }
    }

    /// Bytes not yet consumed.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Returns whether everything was consumed.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    #[cold]
    fn short(&self, field: &'static str) -> Error {
        // B3: too few bytes are an error, and nothing is read past them.
        Error::corruption(format!("{}: {field}", self.what)).with("available", self.rest.len())
    }

    /// Next byte.
    pub fn u8(&mut self, field: &'static str) -> Result<u8> {
        let (&b, rest) = self.rest.split_first().ok_or_else(|| self.short(field))?;
        self.rest = rest;
        Ok(b)
    }

    /// Next varint32.
    pub fn varint32(&mut self, field: &'static str) -> Result<u32> {
        let (v, rest) = get_varint32(self.rest).ok_or_else(|| self.short(field))?;
        self.rest = rest;
        Ok(v)
    }

    /// Next varint64.
    pub fn varint64(&mut self, field: &'static str) -> Result<u64> {
        let (v, rest) = get_varint64(self.rest).ok_or_else(|| self.short(field))?;
        self.rest = rest;
        Ok(v)
    }

    /// Next little-endian u32.
    pub fn fixed32(&mut self, field: &'static str) -> Result<u32> {
        let v = get_fixed32(self.rest, 0).ok_or_else(|| self.short(field))?;
        self.rest = &self.rest[4..];
        Ok(v)
    }

    /// Next little-endian u64.
    pub fn fixed64(&mut self, field: &'static str) -> Result<u64> {
        let v = get_fixed64(self.rest, 0).ok_or_else(|| self.short(field))?;
        self.rest = &self.rest[8..];
        Ok(v)
    }

    /// Next `len` bytes.
    pub fn bytes(&mut self, len: usize, field: &'static str) -> Result<&'a [u8]> {
        let (b, rest) = self
            .rest
            .split_at_checked(len)
            .ok_or_else(|| self.short(field))?;
        self.rest = rest;
        Ok(b)
    }

    /// Next varint32 length and that many bytes.
    pub fn length_prefixed(&mut self, field: &'static str) -> Result<&'a [u8]> {
        let len = self.varint32(field)? as usize;
        self.bytes(len, field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_round_trip_at_every_length() {
        for shift in 0..64 {
            for v in [1u64 << shift, (1u64 << shift) - 1, u64::MAX >> shift] {
                let mut b = Vec::new();
                put_varint64(&mut b, v);
                assert_eq!(b.len(), varint_len(v));
                assert_eq!(get_varint64(&b), Some((v, &[][..])));
                for cut in 0..b.len() {
                    assert_eq!(get_varint64(&b[..cut]), None);
                }
                for behind in [[0; 8], [0xff; 8], [0x80; 8]] {
                    let more = [&b[..], &behind].concat();
                    assert_eq!(get_varint64(&more), Some((v, &behind[..])));
                }
            }
        }
        assert_eq!(get_varint64(&[0x80; 11]), None);
        assert_eq!(get_varint32(&[0x80; 6]), None);
    }

    #[test]
    fn a_length_prefix_longer_than_the_input_is_corruption() {
        let e = Decoder::new(&[100, b'a'], "batch")
            .length_prefixed("key")
            .unwrap_err();
        assert_eq!(e.to_string(), "Corruption: batch: key: available=1");
    }
}
