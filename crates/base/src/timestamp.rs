//! User timestamps: the built-in orders that carry them.
//!
//! With timestamps a user key is `key ++ timestamp`. The built-in kind is eight bytes,
//! little-endian; of one key the newer timestamp comes first, and newest first stays the order of
//! internal keys as a whole. Separators and successors are not shortened, as in RocksDB.

use crate::comparator::{Comparator, UserComparator, strip};
use std::cmp::Ordering;
use std::sync::Arc;

/// Bytes of a built-in timestamp.
pub const U64_TIMESTAMP_LEN: usize = 8;

/// The largest built-in timestamp, encoded: before all versions of a key.
pub const U64_TIMESTAMP_MAX: [u8; 8] = [0xff; 8];

/// Name of the order of the same keys without timestamps; `None` if `name` is not that of an order with
/// built-in timestamps.
pub fn name_without_timestamps(name: &str) -> Option<&str> {
    name.strip_suffix(".u64ts")
}

/// Appends `key` and `size` bytes of `fill` in the place of a timestamp: 0xff stands before all versions of
/// a key, 0 after them.
#[inline]
pub fn put_padded(out: &mut Vec<u8>, key: &[u8], size: usize, fill: u8) {
    out.reserve(key.len() + size);
    out.extend_from_slice(key);
    out.resize(out.len() + size, fill);
}

/// The timestamp as it stands after keys.
#[inline]
pub fn encode_u64_timestamp(timestamp: u64) -> [u8; 8] {
    timestamp.to_le_bytes()
}

/// The number of a timestamp; `None` if it has not eight bytes.
#[inline]
pub fn decode_u64_timestamp(timestamp: &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(timestamp.try_into().ok()?))
}

/// Bytewise or reverse bytewise order of keys, each with timestamps of eight bytes, newer first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum U64Timestamps {
    /// `leveldb.BytewiseComparator.u64ts`.
    Bytewise,
    /// `rocksdb.ReverseBytewiseComparator.u64ts`.
    ReverseBytewise,
}

impl U64Timestamps {
    /// The order of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Bytewise, Self::ReverseBytewise]
            .into_iter()
            .find(|c| c.name() == name)
    }

    fn order(self, a: &[u8], b: &[u8]) -> Ordering {
        match self {
            Self::Bytewise => a.cmp(b),
            Self::ReverseBytewise => b.cmp(a),
        }
    }
}

/// The order of keys whose timestamps were cut off.
struct Bare(Arc<dyn UserComparator>);

impl UserComparator for Bare {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        self.0.compare_without_timestamp(a, false, b, false)
    }

    fn can_keys_with_different_bytes_be_equal(&self) -> bool {
        self.0.can_keys_with_different_bytes_be_equal()
    }
}

/// The order of the same keys without their timestamps, under the same name; it shortens nothing.
pub fn without_timestamps(comparator: &Comparator) -> Comparator {
    match comparator {
        Comparator::User(c) if c.timestamp_size() != 0 => {
            Comparator::User(Arc::new(Bare(c.clone())))
        }
        c => c.clone(),
    }
}

/// An internal key that was written without its timestamp, with `size` bytes of `fill` in its place.
///
/// The key must hold a tag.
pub fn pad_internal(key: &[u8], size: usize, fill: u8) -> Vec<u8> {
    let (user, tag) = key.split_at(key.len().saturating_sub(crate::keys::TAG_LEN));
    let mut out = Vec::with_capacity(key.len() + size);
    put_padded(&mut out, user, size, fill);
    out.extend_from_slice(tag);
    out
}

/// An internal key without the `size` bytes of its timestamp.
pub fn strip_internal(key: &[u8], size: usize) -> Vec<u8> {
    let (user, tag) = key.split_at(key.len().saturating_sub(crate::keys::TAG_LEN));
    let mut out = strip(user, size).to_vec();
    out.extend_from_slice(tag);
    out
}

impl From<U64Timestamps> for Comparator {
    fn from(order: U64Timestamps) -> Self {
        Self::User(Arc::new(order))
    }
}

/// Unequal lengths, which only damaged files hold, sort by the bytes there are.
fn number(timestamp: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    let len = timestamp.len().min(8);
    bytes[..len].copy_from_slice(&timestamp[..len]);
    u64::from_le_bytes(bytes)
}

impl UserComparator for U64Timestamps {
    fn name(&self) -> &str {
        match self {
            Self::Bytewise => "leveldb.BytewiseComparator.u64ts",
            Self::ReverseBytewise => "rocksdb.ReverseBytewiseComparator.u64ts",
        }
    }

    #[inline]
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        let (a, a_ts) = a.split_at(a.len().saturating_sub(U64_TIMESTAMP_LEN));
        let (b, b_ts) = b.split_at(b.len().saturating_sub(U64_TIMESTAMP_LEN));
        self.order(a, b)
            .then_with(|| number(b_ts).cmp(&number(a_ts)))
    }

    fn timestamp_size(&self) -> usize {
        U64_TIMESTAMP_LEN
    }

    #[inline]
    fn compare_without_timestamp(&self, a: &[u8], a_has: bool, b: &[u8], b_has: bool) -> Ordering {
        let bare = |key, has| {
            if has {
                strip(key, U64_TIMESTAMP_LEN)
            } else {
                key
            }
        };
        self.order(bare(a, a_has), bare(b, b_has))
    }

    fn compare_timestamp(&self, a: &[u8], b: &[u8]) -> Ordering {
        number(a).cmp(&number(b))
    }

    fn timestamp_text(&self, timestamp: &[u8]) -> String {
        number(timestamp).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys;

    fn key(user: &[u8], timestamp: u64) -> Vec<u8> {
        [user, &encode_u64_timestamp(timestamp)].concat()
    }

    #[test]
    fn keys_ascend_and_their_timestamps_descend() {
        let c = Comparator::from_name("leveldb.BytewiseComparator.u64ts").unwrap();
        // 256 is above 1 as a number and below it as bytes.
        let order = [key(b"", 7), key(b"a", 256), key(b"a", 1), key(b"a\0", 9)];
        for w in order.windows(2) {
            assert_eq!(c.compare(&w[0], &w[1]), Ordering::Less);
            assert_eq!(c.compare(&w[1], &w[0]), Ordering::Greater);
        }
        assert_eq!(c.timestamp_size(), 8);
        assert!(!c.equal(&order[1], &order[2]));
        assert!(
            c.compare_without_timestamp(&order[1], true, &order[2], true)
                .is_eq()
        );
        assert!(
            c.compare_without_timestamp(&order[1], true, b"a", false)
                .is_eq()
        );
        assert_eq!(c.split_timestamp(&order[3]).0, b"a\0");
        assert_eq!(
            decode_u64_timestamp(c.split_timestamp(&order[1]).1),
            Some(256)
        );
        assert!(
            c.compare_timestamp(&1u64.to_le_bytes(), &256u64.to_le_bytes())
                .is_lt()
        );
        let older = keys::internal_key(&order[2], keys::pack_tag(9, 1));
        let newer = keys::internal_key(&order[1], keys::pack_tag(1, 1));
        assert_eq!(c.compare_internal(&newer, &older), Ordering::Less);
    }

    #[test]
    fn the_reverse_order_turns_keys_but_not_timestamps() {
        let c = Comparator::from(U64Timestamps::ReverseBytewise);
        assert_eq!(c.name(), "rocksdb.ReverseBytewiseComparator.u64ts");
        assert_eq!(c.compare(&key(b"b", 1), &key(b"a", 1)), Ordering::Less);
        assert_eq!(c.compare(&key(b"a", 2), &key(b"a", 1)), Ordering::Less);
    }

    #[test]
    fn keys_shorter_than_a_timestamp_compare_without_a_panic() {
        let c = Comparator::from(U64Timestamps::Bytewise);
        assert_eq!(c.compare(b"", b"abc"), Ordering::Greater);
        assert_eq!(c.split_timestamp(b"abc"), (&b""[..], &b"abc"[..]));
        assert!(c.compare_without_timestamp(b"x", true, b"y", true).is_eq());
    }

    /// An order with timestamps of one byte that implements only what it must.
    struct OneByte;
    impl UserComparator for OneByte {
        fn name(&self) -> &str {
            "one"
        }
        fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
            let ((b_ts, b), (a_ts, a)) = (b.split_last().unwrap(), a.split_last().unwrap());
            a.cmp(b).then(b_ts.cmp(a_ts))
        }
        fn timestamp_size(&self) -> usize {
            1
        }
    }

    #[test]
    fn defaults_derive_the_parts_of_an_order_from_the_whole() {
        let c = Comparator::User(Arc::new(OneByte));
        assert!(c.compare_timestamp(&[1], &[2]).is_lt());
        assert!(
            c.compare_without_timestamp(b"a\x01", true, b"a", false)
                .is_eq()
        );
        assert!(
            c.compare_without_timestamp(b"a\x01", true, b"a\0", false)
                .is_lt()
        );
        assert_eq!(Comparator::Bytewise.timestamp_size(), 0);
        assert_eq!(Comparator::Bytewise.strip_timestamp(b"abc"), b"abc");
    }
}
