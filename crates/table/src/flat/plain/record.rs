//! Records of plain tables, encoded and decoded.
//!
//! ```text
//! plain:   [varint32 key length]  user key  tag  varint32 value length, value
//! prefix:  whole key   00nnnnnn  user key  tag  value
//!          second      01nnnnnn (length of the prefix)  10nnnnnn  rest of the key  tag  value
//!          later       10nnnnnn  rest of the key  tag  value
//! ```
//!
//! `nnnnnn` is a length; 63 says that a varint32 follows with what it has above 63. The tag is eight bytes, or one,
//! 0xff, for a value of number 0. The length of keys is left out if all have the same.
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

use super::{PlainEncoding, VALUE_OF_NUMBER_0};
use spanlith_base::coding::{get_fixed64, get_varint32, put_varint32};
use spanlith_base::keys::{TAG_LEN, ValueType, pack_tag, tag_type};
use std::ops::Range;

/// Largest length that fits into the first byte; itself it says that more follows.
const INLINE_MAX: u32 = 0x3f;
const WHOLE: u8 = 0;
const PREFIX: u8 = 1;
const SUFFIX: u8 = 2;
/// Tag of what one byte stands for.
const NUMBER_0: u64 = pack_tag(0, ValueType::Value as u8);

/// Appends the kind of a part of a key and its length.
pub(super) fn put_size(out: &mut Vec<u8>, kind: PartKind, len: u32) {
    let kind = (kind as u8) << 6;
    match len < INLINE_MAX {
        true => out.push(kind | len as u8),
        false => {
            out.push(kind | INLINE_MAX as u8);
            put_varint32(out, len - INLINE_MAX);
        }
    }
}

/// A part of a key with prefix encoding.
#[derive(Clone, Copy)]
pub(super) enum PartKind {
    Whole = WHOLE as isize,
    Prefix = PREFIX as isize,
    Suffix = SUFFIX as isize,
}

/// Appends what stands after a key.
pub(super) fn put_tag_and_value(out: &mut Vec<u8>, tag: u64, value: &[u8]) {
    match tag {
        NUMBER_0 => out.push(VALUE_OF_NUMBER_0),
        tag => out.extend_from_slice(&tag.to_le_bytes()),
    }
    put_varint32(out, value.len() as u32);
    out.extend_from_slice(value);
}

/// Why there is no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoRecord {
    /// It goes on after the bytes at hand.
    Cut,
    Bad(&'static str),
}

/// A record, after which the next begins at `end`. The user key is in the decoder.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) tag: u64,
    pub(super) value: Range<usize>,
    pub(super) end: usize,
    /// The key is whole, so that decoding may begin here.
    pub(super) is_whole: bool,
}

/// How a key goes on from the one before.
struct KeyPart {
    /// Bytes that it begins with, of the key before.
    kept: usize,
    /// Bytes that follow.
    len: usize,
    /// Bytes that later keys share with it.
    prefix_len: usize,
    is_whole: bool,
}

/// Decodes records in order.
pub(super) struct Decoder {
    encoding: PlainEncoding,
    /// Bytes of user keys, if all have as many.
    key_len: Option<usize>,
    /// The last user key.
    user_key: Vec<u8>,
    /// Bytes that later keys share with the last whole one.
    prefix_len: usize,
}

impl Decoder {
    pub(super) fn new(encoding: PlainEncoding, user_key_len: u32) -> Self {
        Self {
            encoding,
            key_len: (user_key_len > 0).then_some(user_key_len as usize),
            user_key: Vec::new(),
            prefix_len: 0,
        }
    }

    /// User key of the record that was decoded last.
    pub(super) fn user_key(&self) -> &[u8] {
        &self.user_key
    }

    /// Decodes what stands before the bytes of a key.
    fn key_part(&self, rest: &mut &[u8]) -> Result<KeyPart, NoRecord> {
        if self.encoding == PlainEncoding::Plain {
            let len = match self.key_len {
                Some(len) => len,
                None => varint(rest)? as usize,
            };
            return Ok(KeyPart {
                kept: 0,
                len,
                prefix_len: 0,
                is_whole: true,
            });
        }
        let (mut kind, mut len) = part(rest)?;
        let mut prefix_len = self.prefix_len;
        if kind == PREFIX {
            prefix_len = len;
            (kind, len) = part(rest)?;
            if kind != SUFFIX {
                return Err(NoRecord::Bad("prefix without the rest of a key"));
            }
        }
        let kept = match kind {
            WHOLE => 0,
            SUFFIX => prefix_len,
            _ => return Err(NoRecord::Bad("Un-identified size flag.")),
        };
        Ok(KeyPart {
            kept,
            len,
            prefix_len,
            is_whole: kind == WHOLE,
        })
    }

    /// Decodes the record at `at` of `bytes`. Only when it succeeds, the decoder changes.
    pub(super) fn next(&mut self, bytes: &[u8], at: usize) -> Result<Record, NoRecord> {
        let mut rest = bytes.get(at..).unwrap_or_default();
        let KeyPart {
            kept,
            len,
            prefix_len,
            is_whole,
        } = self.key_part(&mut rest)?;
        if kept > self.user_key.len() {
            return Err(NoRecord::Bad(
                "key with a prefix that is longer than the key before",
            ));
        }
        let (key, after) = rest.split_at_checked(len).ok_or(NoRecord::Cut)?;
        rest = after;
        let tag = tag(&mut rest)?;
        let value_len = varint(&mut rest)? as usize;
        let start = bytes.len() - rest.len();
        let end = start + value_len;
        if end > bytes.len() {
            return Err(NoRecord::Cut);
        }
        self.user_key.truncate(kept);
        self.user_key.extend_from_slice(key);
        self.prefix_len = prefix_len;
        Ok(Record {
            tag,
            value: start..end,
            end,
            is_whole,
        })
    }
}

/// The tag after a key.
fn tag(rest: &mut &[u8]) -> Result<u64, NoRecord> {
    let (tag, len) = match rest.first() {
        None => return Err(NoRecord::Cut),
        Some(&VALUE_OF_NUMBER_0) => (NUMBER_0, 1),
        Some(_) => (get_fixed64(rest, 0).ok_or(NoRecord::Cut)?, TAG_LEN),
    };
    *rest = rest.get(len..).unwrap_or_default();
    match ValueType::from_byte(tag_type(tag)) {
        Some(ValueType::RangeDeletion) | None => Err(NoRecord::Bad("record with an unknown type")),
        Some(_) => Ok(tag),
    }
}

/// Kind and length of a part of a key.
fn part(rest: &mut &[u8]) -> Result<(u8, usize), NoRecord> {
    let (&first, after) = rest.split_first().ok_or(NoRecord::Cut)?;
    *rest = after;
    let inline = u32::from(first) & INLINE_MAX;
    let mut len = inline as usize;
    if inline == INLINE_MAX {
        len += varint(rest)? as usize;
    }
    Ok((first >> 6, len))
}

fn varint(rest: &mut &[u8]) -> Result<u32, NoRecord> {
    match get_varint32(rest) {
        Some((n, after)) => {
            *rest = after;
            Ok(n)
        }
        // Five bytes are enough for any.
        None if rest.len() < 5 => Err(NoRecord::Cut),
        None => Err(NoRecord::Bad("length that is no number")),
    }
}
