//! Entries of a batch without a [`WriteBatch`] around them: a lone writer's entry goes from its caller's bytes into the
//! buffer of the log, and a group's entries into one record.
//!
//! The bytes are those of [`WriteBatch`], which the test below holds them to. Nothing is checked here: sizes are the
//! caller's business, who has refused keys and values that are too long.
//!
//! [`WriteBatch`]: crate::WriteBatch

#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

use crate::batch::BATCH_HEADER_SIZE;
use crate::batch_iter::tag;
use spanlith_base::{SequenceNumber, ValueType};

/// Most bytes of an entry besides key and value: tag, family id and two lengths.
pub const ENTRY_OVERHEAD_MAX: usize = 16;

/// The first bytes of a batch: the sequence number of its first entry, and how many entries it has.
#[inline]
pub fn batch_header(first: SequenceNumber, count: u32) -> [u8; BATCH_HEADER_SIZE] {
    let [a, b, c, d, e, f, g, h] = first.to_le_bytes();
    let [i, j, k, l] = count.to_le_bytes();
    [a, b, c, d, e, f, g, h, i, j, k, l]
}

/// Appends a put, a merge or a deletion of one key.
#[inline]
pub fn push_entry(to: &mut Vec<u8>, cf: u32, kind: ValueType, key: &[u8], value: &[u8]) {
    push_entry_head(to, cf, kind, key, value.len());
    if has_value(kind) {
        to.extend_from_slice(value);
    }
}

/// As [`push_entry`], without the bytes of the value, which has `value_len` of them.
#[inline]
pub fn push_entry_head(to: &mut Vec<u8>, cf: u32, kind: ValueType, key: &[u8], value_len: usize) {
    if cf == 0 && key.len() < 0x80 {
        to.extend_from_slice(&[kind as u8, key.len() as u8]);
    } else if cf == 0 {
        to.push(kind as u8);
        push_varint(to, key.len());
    } else {
        to.push(family_tag(kind));
        push_varint(to, cf as usize);
        push_varint(to, key.len());
    }
    to.extend_from_slice(key);
    if has_value(kind) {
        push_varint(to, value_len);
    }
}

#[inline]
fn push_varint(to: &mut Vec<u8>, mut v: usize) {
    while v >= 0x80 {
        to.push(v as u8 | 0x80);
        v >>= 7;
    }
    to.push(v as u8);
}

/// The tag of an update that names its family.
fn family_tag(kind: ValueType) -> u8 {
    match kind {
        ValueType::Deletion => tag::CF_DELETION,
        ValueType::Value => tag::CF_VALUE,
        ValueType::Merge => tag::CF_MERGE,
        ValueType::SingleDeletion => tag::CF_SINGLE_DELETION,
        other => other as u8,
    }
}

#[inline]
fn has_value(kind: ValueType) -> bool {
    matches!(kind, ValueType::Value | ValueType::Merge)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WriteBatch;
    use spanlith_base::Result;

    fn batch_of(cf: u32, kind: ValueType, key: &[u8], value: &[u8]) -> Result<WriteBatch> {
        let mut batch = WriteBatch::new();
        match kind {
            ValueType::Value => batch.put_cf(cf, key, value)?,
            ValueType::Merge => batch.merge_cf(cf, key, value)?,
            ValueType::SingleDeletion => batch.single_delete_cf(cf, key)?,
            _ => batch.delete_cf(cf, key)?,
        }
        Ok(batch)
    }

    #[test]
    fn a_lone_entry_has_the_bytes_of_a_batch_of_one() {
        let kinds = [
            ValueType::Value,
            ValueType::Merge,
            ValueType::Deletion,
            ValueType::SingleDeletion,
        ];
        for kind in kinds {
            for cf in [0, 1, 127, 128, u32::MAX] {
                for len in [0, 1, 127, 128, 16_383, 16_384] {
                    let (key, value) = (vec![7; len], vec![9; len]);
                    let batch = batch_of(cf, kind, &key, &value).unwrap();
                    let mut bytes = batch_header(0, 1).to_vec();
                    push_entry(&mut bytes, cf, kind, &key, &value);
                    assert_eq!(bytes, batch.as_bytes(), "{kind:?} {cf} {len}");
                    let lengths = key.len() + if has_value(kind) { value.len() } else { 0 };
                    assert!(bytes.len() <= BATCH_HEADER_SIZE + ENTRY_OVERHEAD_MAX + lengths);
                }
            }
        }
    }

    #[test]
    fn a_batch_begins_with_its_first_number_and_its_count() {
        let mut batch = WriteBatch::new();
        batch.put(b"a", b"1").unwrap();
        batch.delete(b"b").unwrap();
        batch.set_sequence(0x01_0203_0405);
        assert_eq!(
            batch.as_bytes()[..BATCH_HEADER_SIZE],
            batch_header(0x01_0203_0405, 2)
        );
    }
}
