//! Words by which a sorted list of keys is searched: the first eight bytes of each key after the bytes that
//! all of them have in common.
//!
//! A binary search of keys costs a call and two cache misses a step; one of words costs a comparison. Keys
//! are compared only among those whose word is that of the key sought. There are words in the bytewise orders;
//! in others, where a key says nothing about its place, the list is searched by its keys.

use crate::Comparator;

/// The words of a list of keys, which the list's owner keeps.
#[derive(Debug)]
pub(super) struct Heads {
    common: Box<[u8]>,
    words: Box<[u64]>,
}

impl Heads {
    /// The words of `keys`, which ascend; all lie between `first` and `last`. `None` if the order has no words.
    pub(super) fn of<'a>(
        comparator: &Comparator,
        first: &[u8],
        last: &[u8],
        keys: impl Iterator<Item = &'a [u8]>,
    ) -> Option<Self> {
        if matches!(comparator, Comparator::User(_)) {
            return None;
        }
        // The keys between two have in common at least what those two have, in either direction.
        let common = first.iter().zip(last).take_while(|(a, b)| a == b).count();
        let words = keys.map(|key| comparator.prefix(&key[common..])).collect();
        Some(Self {
            common: first[..common].into(),
            words,
        })
    }

    /// Index of the first key after `key`, by `key_at` where words do not tell; their number if there is none.
    #[inline]
    pub(super) fn first_after<'a>(
        &self,
        comparator: &Comparator,
        key: &[u8],
        key_at: impl Fn(usize) -> &'a [u8],
    ) -> usize {
        let Some(rest) = key.strip_prefix(&*self.common) else {
            // All keys lie on the same side.
            return match comparator.compare(key, &self.common).is_lt() {
                true => 0,
                false => self.words.len(),
            };
        };
        let word = comparator.prefix(rest);
        let at = self.words.partition_point(|&w| w < word);
        if self.words.get(at) != Some(&word) {
            return at;
        }
        let (mut from, mut to) = (at, at + self.words[at..].partition_point(|&w| w == word));
        while from < to {
            let middle = from.midpoint(to);
            match comparator.compare(key_at(middle), key).is_le() {
                true => from = middle + 1,
                false => to = middle,
            }
        }
        from
    }

    /// Bytes of memory held.
    pub(super) fn memory_usage(&self) -> usize {
        self.common.len() + size_of_val(&*self.words)
    }
}
