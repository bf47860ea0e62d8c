//! Internal keys: user key, then eight bytes holding sequence number and value type.
//!
//! The last eight bytes, read as a little-endian u64, are the *tag*: `seqno << 8 | type`. Internal
//! keys sort by user key ascending, then tag descending (B1).

/// Position of an update in the history of the database. Later updates have larger numbers. Only
/// 56 bits are stored, because the low byte of the tag is the value type.
pub type SequenceNumber = u64;

/// Number of a file of the database; MANIFEST, log, table and OPTIONS files share one counter.
pub type FileNumber = u64;

/// Largest number a tag can hold. Never assigned to a write (B2).
pub const MAX_SEQUENCE: SequenceNumber = (1 << 56) - 1;

/// Bytes of the tag after each user key.
pub const TAG_LEN: usize = 8;

/// Most bytes of a user key and its value together: a block of a table holds the entry, and the
/// offsets in a block have 32 bits. What is left of these is for the tag, a timestamp, lengths and
/// the block's own fields.
pub const ENTRY_MAX: usize = u32::MAX as usize - (64 << 10);

/// Type of internal keys that sort before all entries of their sequence number and stand for none.
/// RocksDB 11's value; it occurs as the smallest key of a table that begins with a range tombstone.
pub const MAX_VALID_TYPE: u8 = 0x1a;

/// Kind of an entry, as stored in tags and, for the batch-only values, in write batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum ValueType {
    /// Tombstone.
    Deletion = 0x00,
    /// Put.
    Value = 0x01,
    /// Merge operand.
    Merge = 0x02,
    /// Tombstone for exactly one put.
    SingleDeletion = 0x07,
    /// Range tombstone; lives in its own block.
    RangeDeletion = 0x0f,
    /// Reference into a blob file.
    BlobIndex = 0x11,
    /// Tombstone of a family with timestamps.
    DeletionWithTimestamp = 0x14,
    /// Wide-column entity.
    WideColumnEntity = 0x16,
    /// TimedPut.
    ValuePreferredSeqno = 0x18,
}

impl ValueType {
    /// The type stored in a tag; `None` if unknown.
    #[inline]
    pub fn from_byte(b: u8) -> Option<Self> {
        Some(match b {
            0x00 => Self::Deletion,
            0x01 => Self::Value,
            0x02 => Self::Merge,
            0x07 => Self::SingleDeletion,
            0x0f => Self::RangeDeletion,
            0x11 => Self::BlobIndex,
            0x14 => Self::DeletionWithTimestamp,
            0x16 => Self::WideColumnEntity,
            0x18 => Self::ValuePreferredSeqno,
            _ => return None,
        })
    }

    /// Returns whether it deletes a single key.
    #[inline]
    pub fn is_point_deletion(self) -> bool {
        matches!(
            self,
            Self::Deletion | Self::SingleDeletion | Self::DeletionWithTimestamp
        )
    }
}

/// The value of an entry of type [`ValueType::ValuePreferredSeqno`], without the sequence number or
/// write time after it; `None` if it is too short.
pub fn timed_value(bytes: &[u8]) -> Option<&[u8]> {
    bytes.get(..bytes.len().checked_sub(8)?)
}

/// Returns what stands after the value of an entry of type [`ValueType::ValuePreferredSeqno`]: in tables the
/// sequence number it prefers, in logs and memtables the time of the write in seconds; `None` if it is too
/// short.
pub fn timed_number(bytes: &[u8]) -> Option<u64> {
    bytes.last_chunk().map(|number| u64::from_le_bytes(*number))
}

/// Type byte of seek targets: the largest known, so that all entries of the sequence follow.
pub const SEEK_TYPE: u8 = 0x18;

/// Packs sequence number and type byte.
#[inline]
pub const fn pack_tag(seqno: SequenceNumber, kind: u8) -> u64 {
    (seqno << 8) | kind as u64
}

/// Tag of a seek target that finds the newest entry visible at `seqno`.
#[inline]
pub const fn seek_tag(seqno: SequenceNumber) -> u64 {
    pack_tag(seqno, SEEK_TYPE)
}

/// Sequence number of a tag.
#[inline]
pub const fn tag_sequence(tag: u64) -> SequenceNumber {
    tag >> 8
}

/// Type byte of a tag.
#[inline]
pub const fn tag_type(tag: u64) -> u8 {
    tag as u8
}

/// User key of an internal key.
///
/// Requires: at least [`TAG_LEN`] bytes; decoders check before they hand keys out.
#[inline]
pub fn user_key(internal: &[u8]) -> &[u8] {
    &internal[..internal.len() - TAG_LEN]
}

/// Tag of an internal key. Requires: at least [`TAG_LEN`] bytes.
#[inline]
pub fn tag(internal: &[u8]) -> u64 {
    let at = internal.len() - TAG_LEN;
    u64::from_le_bytes(internal[at..].try_into().expect("eight bytes"))
}

/// Splits an internal key into user key and tag; `None` if it is shorter than a tag.
#[inline]
pub fn split_internal(internal: &[u8]) -> Option<(&[u8], u64)> {
    let at = internal.len().checked_sub(TAG_LEN)?;
    let (u, t) = internal.split_at(at);
    Some((u, u64::from_le_bytes(t.try_into().ok()?)))
}

/// Returns what stands in `key` after `prefix`; `None` if it does not begin with it. Calls nothing where the
/// prefix has few bytes, as the prefixes have that the keys of a block or a level share.
#[inline(always)]
pub fn behind_prefix<'k>(key: &'k [u8], prefix: &[u8]) -> Option<&'k [u8]> {
    let (head, rest) = key.split_at_checked(prefix.len())?;
    is_equal(head, prefix).then_some(rest)
}

/// Returns whether two short byte strings are equal, without a call.
#[inline(always)]
pub fn same_bytes(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && is_equal(a, b)
}

/// Makes `to` hold `key`, without a call where it holds a key of that length, and of the usual ones.
#[inline(always)]
pub fn replace_key(to: &mut Vec<u8>, key: &[u8]) {
    if to.len() == key.len() && copy_short(to, key) {
        return;
    }
    to.clear();
    to.extend_from_slice(key);
}

/// Copies between slices of one length; false, with nothing done, if that is not a usual one.
#[inline(always)]
fn copy_short(to: &mut [u8], from: &[u8]) -> bool {
    match from.len() {
        8..=16 => copy_ends::<8>(to, from),
        17..=32 => copy_ends::<16>(to, from),
        _ => false,
    }
}

#[inline(always)]
fn copy_ends<const N: usize>(to: &mut [u8], from: &[u8]) -> bool {
    let (Some(head), Some(tail)) = (from.first_chunk::<N>(), from.last_chunk::<N>()) else {
        return false;
    };
    let Some(first) = to.first_chunk_mut::<N>() else {
        return false;
    };
    *first = *head;
    if let Some(last) = to.last_chunk_mut::<N>() {
        *last = *tail;
    }
    true
}

/// Returns whether two slices of one length are equal: by their first and last bytes, which overlap.
#[inline(always)]
fn is_equal(a: &[u8], b: &[u8]) -> bool {
    if a.len() > 16 {
        return a == b;
    }
    if let (Some(a8), Some(b8)) = (a.first_chunk::<8>(), b.first_chunk::<8>()) {
        let (first_a, first_b) = (u64::from_ne_bytes(*a8), u64::from_ne_bytes(*b8));
        return first_a == first_b && a.last_chunk::<8>() == b.last_chunk::<8>();
    }
    if let (Some(a4), Some(b4)) = (a.first_chunk::<4>(), b.first_chunk::<4>()) {
        return a4 == b4 && a.last_chunk::<4>() == b.last_chunk::<4>();
    }
    a.iter().zip(b).all(|(a, b)| a == b)
}

/// Appends the internal key of (`user`, `tag`).
#[inline]
pub fn append_internal(out: &mut Vec<u8>, user: &[u8], tag: u64) {
    out.reserve(user.len() + TAG_LEN);
    out.extend_from_slice(user);
    out.extend_from_slice(&tag.to_le_bytes());
}

/// The internal key of (`user`, `tag`) in a vector of its own.
pub fn internal_key(user: &[u8], tag: u64) -> Vec<u8> {
    let mut v = Vec::with_capacity(user.len() + TAG_LEN);
    append_internal(&mut v, user, tag);
    v
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_ways_of_prefixes_and_keys_agree_with_those_of_slices_at_every_length() {
        for len in 0..40usize {
            let key: Vec<u8> = (0..len).map(|i| b'a' + i as u8).collect();
            for prefix_len in 0..len + 3 {
                let mut prefix = key[..prefix_len.min(len)].to_vec();
                prefix.resize(prefix_len, 0);
                let want = key.strip_prefix(prefix.as_slice());
                assert_eq!(behind_prefix(&key, &prefix), want, "{len} {prefix_len}");
                // One byte that differs, at each place.
                for at in 0..prefix_len {
                    let mut other = prefix.clone();
                    other[at] ^= 1;
                    let want = key.strip_prefix(other.as_slice());
                    assert_eq!(behind_prefix(&key, &other), want, "{len} {prefix_len} {at}");
                    assert_eq!(same_bytes(&key, &other), key == other);
                }
                assert_eq!(same_bytes(&key, &prefix), key == prefix);
            }
            for held in [0, len, len + 1] {
                let mut to = vec![0xee; held];
                replace_key(&mut to, &key);
                assert_eq!(to, key, "{held} bytes held before");
            }
        }
    }
}
