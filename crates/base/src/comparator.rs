//! Order of user keys, and of internal keys on top of it.
//!
//! An enum with fast paths: the built-in orders are compared without an indirect call, and carry an
//! eight-byte prefix that decides most comparisons from one machine word. Orders with timestamps
//! ([`crate::timestamp`]) come as [`Comparator::User`], so that the fast paths need not know them.

use crate::keys;
use crate::perf::{self, PerfCounter};
use crate::timestamp::U64Timestamps;
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// An order of user keys supplied by the user. Must be total and stable over the life of the data.
pub trait UserComparator: Send + Sync {
    /// Name recorded in the MANIFEST and in tables.
    fn name(&self) -> &str;
    /// Order of two user keys.
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering;
    /// Shortens `start` to some key in `[start, limit)`; may leave it.
    fn shortest_separator(&self, _start: &mut Vec<u8>, _limit: &[u8]) {}
    /// Shortens `key` to some key not smaller; may leave it.
    fn short_successor(&self, _key: &mut Vec<u8>) {}
    /// Returns whether keys that differ in bytes may be equal in order.
    fn can_keys_with_different_bytes_be_equal(&self) -> bool {
        true
    }
    /// Bytes of timestamp at the end of each user key; 0 without timestamps. [`Self::compare`] then
    /// orders by key ascending, timestamp descending.
    fn timestamp_size(&self) -> usize {
        0
    }
    /// Order of two user keys whose timestamps do not count; `a_has` and `b_has` say which of them
    /// carry one.
    ///
    /// By default both get the same timestamp and are compared, which costs two allocations.
    fn compare_without_timestamp(&self, a: &[u8], a_has: bool, b: &[u8], b_has: bool) -> Ordering {
        let size = self.timestamp_size();
        if size == 0 {
            return self.compare(a, b);
        }
        let with_zeros = |key: &[u8], has: bool| {
            let key = if has { strip(key, size) } else { key };
            let mut key = key.to_vec();
            key.resize(key.len() + size, 0);
            key
        };
        self.compare(&with_zeros(a, a_has), &with_zeros(b, b_has))
    }
    /// Order of two timestamps, older first.
    ///
    /// By default they are compared as the timestamps of the empty key.
    fn compare_timestamp(&self, a: &[u8], b: &[u8]) -> Ordering {
        self.compare(b, a)
    }
    /// A timestamp as messages show it; empty if nothing is known about it.
    fn timestamp_text(&self, _timestamp: &[u8]) -> String {
        String::new()
    }
}

/// Order of user keys.
#[derive(Clone, Default)]
pub enum Comparator {
    /// Unsigned bytes, shorter first: `leveldb.BytewiseComparator`.
    #[default]
    Bytewise,
    /// The exact reverse: `rocksdb.ReverseBytewiseComparator`.
    ReverseBytewise,
    /// The user's.
    User(Arc<dyn UserComparator>),
}

/// Big-endian value of the first eight bytes, zero-padded.
#[inline]
fn first8(key: &[u8]) -> u64 {
    if let Some(b) = key.first_chunk::<8>() {
        return u64::from_be_bytes(*b);
    }
    let mut b = [0u8; 8];
    b[..key.len()].copy_from_slice(key);
    u64::from_be_bytes(b)
}

impl Comparator {
    /// Name recorded in the MANIFEST and in tables.
    pub fn name(&self) -> &str {
        match self {
            Self::Bytewise => "leveldb.BytewiseComparator",
            Self::ReverseBytewise => "rocksdb.ReverseBytewiseComparator",
            Self::User(c) => c.name(),
        }
    }

    /// The built-in comparator of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "leveldb.BytewiseComparator" => Some(Self::Bytewise),
            "rocksdb.ReverseBytewiseComparator" => Some(Self::ReverseBytewise),
            _ => U64Timestamps::from_name(name).map(|c| Self::User(Arc::new(c))),
        }
    }

    /// Bytes of timestamp at the end of each user key; 0 without timestamps.
    #[inline]
    pub fn timestamp_size(&self) -> usize {
        match self {
            Self::Bytewise | Self::ReverseBytewise => 0,
            Self::User(c) => c.timestamp_size(),
        }
    }

    /// Splits a user key into key and timestamp; the latter is empty without timestamps.
    ///
    /// A key shorter than a timestamp is all timestamp: decoders check before they hand keys out.
    #[inline]
    pub fn split_timestamp<'a>(&self, key: &'a [u8]) -> (&'a [u8], &'a [u8]) {
        key.split_at(key.len().saturating_sub(self.timestamp_size()))
    }

    /// A user key without its timestamp.
    #[inline]
    pub fn strip_timestamp<'a>(&self, key: &'a [u8]) -> &'a [u8] {
        self.split_timestamp(key).0
    }

    /// Order of two user keys whose timestamps do not count; `a_has` and `b_has` say which of them
    /// carry one. Without timestamps this is [`Self::compare`].
    #[inline]
    pub fn compare_without_timestamp(
        &self,
        a: &[u8],
        a_has: bool,
        b: &[u8],
        b_has: bool,
    ) -> Ordering {
        match self {
            Self::Bytewise => a.cmp(b),
            Self::ReverseBytewise => b.cmp(a),
            Self::User(c) => c.compare_without_timestamp(a, a_has, b, b_has),
        }
    }

    /// Order of two timestamps, older first; equal without timestamps.
    #[inline]
    pub fn compare_timestamp(&self, a: &[u8], b: &[u8]) -> Ordering {
        match self {
            Self::Bytewise | Self::ReverseBytewise => Ordering::Equal,
            Self::User(c) => c.compare_timestamp(a, b),
        }
    }

    /// A timestamp as messages show it; empty if nothing is known about it.
    pub fn timestamp_text(&self, timestamp: &[u8]) -> String {
        match self {
            Self::Bytewise | Self::ReverseBytewise => String::new(),
            Self::User(c) => c.timestamp_text(timestamp),
        }
    }

    /// Order of two user keys.
    #[inline]
    pub fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        match self {
            Self::Bytewise => a.cmp(b),
            Self::ReverseBytewise => b.cmp(a),
            Self::User(c) => {
                // Where a call is made anyway; in the others it would cost gets three per cent.
                perf::add(PerfCounter::UserKeyComparisonCount, 1);
                c.compare(a, b)
            }
        }
    }

    /// Returns whether two user keys are equal in order.
    #[inline]
    pub fn equal(&self, a: &[u8], b: &[u8]) -> bool {
        match self {
            Self::Bytewise | Self::ReverseBytewise => a == b,
            Self::User(c) => c.compare(a, b) == Ordering::Equal,
        }
    }

    /// Returns whether two user keys, both with their timestamps, are versions of one key. Without
    /// timestamps this is [`Self::equal`].
    #[inline]
    pub fn same_key(&self, a: &[u8], b: &[u8]) -> bool {
        match self {
            Self::Bytewise | Self::ReverseBytewise => keys::same_bytes(a, b),
            Self::User(c) => c.compare_without_timestamp(a, true, b, true) == Ordering::Equal,
        }
    }

    /// Returns whether keys that differ in bytes may be equal, so that hashes of their bytes say nothing.
    pub fn equates_different_bytes(&self) -> bool {
        match self {
            Self::Bytewise | Self::ReverseBytewise => false,
            Self::User(c) => c.can_keys_with_different_bytes_be_equal(),
        }
    }

    /// A word `p` with `p(a) < p(b)` only if `a < b`. Equal words decide nothing.
    #[inline]
    pub fn prefix(&self, key: &[u8]) -> u64 {
        match self {
            Self::Bytewise => first8(key),
            Self::ReverseBytewise => !first8(key),
            Self::User(_) => 0,
        }
    }

    /// Order of two internal keys: user key ascending, tag descending (B1).
    ///
    /// Requires: both hold at least a tag.
    #[inline]
    pub fn compare_internal(&self, a: &[u8], b: &[u8]) -> Ordering {
        match self.compare(keys::user_key(a), keys::user_key(b)) {
            Ordering::Equal => keys::tag(b).cmp(&keys::tag(a)),
            o => o,
        }
    }

    /// Shortens `start` to a key in `[start, limit)`, as RocksDB does for index keys.
    pub fn shortest_separator(&self, start: &mut Vec<u8>, limit: &[u8]) {
        match self {
            Self::Bytewise => bytewise_separator(start, limit),
            Self::ReverseBytewise => {
                let i = common_prefix(start, limit);
                if i < start.len().min(limit.len()) && start[i] > limit[i] && i + 1 < start.len() {
                    start.truncate(i + 1);
                }
            }
            Self::User(c) => c.shortest_separator(start, limit),
        }
    }

    /// Shortens `key` to a key not smaller.
    pub fn short_successor(&self, key: &mut Vec<u8>) {
        match self {
            Self::Bytewise => {
                if let Some(i) = key.iter().position(|&b| b != 0xff) {
                    key[i] += 1;
                    key.truncate(i + 1);
                }
            }
            Self::ReverseBytewise => {}
            Self::User(c) => c.short_successor(key),
        }
    }
}

impl fmt::Debug for Comparator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// `key` without its last `size` bytes.
pub(crate) fn strip(key: &[u8], size: usize) -> &[u8] {
    &key[..key.len().saturating_sub(size)]
}

fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(x, y)| x == y).count()
}

fn bytewise_separator(start: &mut Vec<u8>, limit: &[u8]) {
    let i = common_prefix(start, limit);
    if i >= start.len().min(limit.len()) || start[i] >= limit[i] {
        return;
    }
    if i + 1 < limit.len() || start[i] + 1 < limit[i] {
        start[i] += 1;
        start.truncate(i + 1);
        return;
    }
    if let Some(j) = (i + 1..start.len()).find(|&j| start[j] != 0xff) {
        start[j] += 1;
        start.truncate(j + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sep(a: &[u8], b: &[u8]) -> Vec<u8> {
        let mut s = a.to_vec();
        Comparator::Bytewise.shortest_separator(&mut s, b);
        s
    }

    #[test]
    fn separators_lie_between_their_keys() {
        assert_eq!(sep(b"abc1xyz", b"abc3"), b"abc2");
        assert_eq!(sep(b"abc1xyz", b"abc2"), b"abc1y");
        assert_eq!(sep(b"abc1xyz", b"abc25"), b"abc2");
        assert_eq!(sep(b"abc", b"abcd"), b"abc");
        assert_eq!(sep(b"a\xff\xff", b"b"), b"a\xff\xff");
        let mut s = b"\xff\xffa".to_vec();
        Comparator::Bytewise.short_successor(&mut s);
        assert_eq!(s, b"\xff\xffb");
    }

    #[test]
    fn the_prefix_never_contradicts_the_order() {
        let ks: [&[u8]; 7] = [b"", b"\0", b"a", b"a\0", b"abcdefgh", b"abcdefghi", b"\xff"];
        for c in [Comparator::Bytewise, Comparator::ReverseBytewise] {
            for a in ks {
                for b in ks {
                    if c.prefix(a) < c.prefix(b) {
                        assert_eq!(c.compare(a, b), Ordering::Less);
                    }
                }
            }
        }
    }

    /// Holds B1.
    #[test]
    fn newer_entries_of_a_key_sort_first() {
        let new = keys::internal_key(b"k", keys::pack_tag(9, 1));
        let old = keys::internal_key(b"k", keys::pack_tag(8, 1));
        assert_eq!(
            Comparator::Bytewise.compare_internal(&new, &old),
            Ordering::Less
        );
    }
}
