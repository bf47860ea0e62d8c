//! Positions between internal keys: the ends of tombstones and the bounds of files in one order.

use crate::Comparator;
use crate::keys::{self, MAX_SEQUENCE, ValueType};
use std::cmp::Ordering;

/// A position in the order of internal keys (B1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place<'a> {
    /// Before all versions of a user key, which stands here without timestamp.
    Before(&'a [u8]),
    /// At the internal key of a user key, timestamp included, and a tag.
    At(&'a [u8], u64),
}

impl<'a> Place<'a> {
    /// The user key without timestamp.
    pub fn bare_key(&self, comparator: &Comparator) -> &'a [u8] {
        match *self {
            Self::Before(key) => key,
            Self::At(key, _) => comparator.strip_timestamp(key),
        }
    }

    /// Where the tombstones of a file begin whose smallest internal key is this one. Requires: at
    /// least a tag's length.
    pub fn of_smallest(internal: &'a [u8]) -> Self {
        Self::At(keys::user_key(internal), keys::tag(internal))
    }

    /// Where the tombstones of a file end whose largest internal key is this one.
    ///
    /// A largest key that stands for the end of a tombstone is itself excluded. Any other is the
    /// key of an entry, and the tombstones reach up to and including it: versions of the same user
    /// key in the next file are that file's affair. Requires: at least a tag's length.
    pub fn of_largest(internal: &'a [u8], comparator: &Comparator) -> Self {
        let (user, tag) = (keys::user_key(internal), keys::tag(internal));
        if tag == keys::pack_tag(MAX_SEQUENCE, ValueType::RangeDeletion as u8) {
            return Self::Before(comparator.strip_timestamp(user));
        }
        match keys::tag_sequence(tag) {
            // Nothing of this user key can follow in another file, and nothing is older than it.
            0 => Self::At(user, tag),
            seqno => Self::At(user, keys::seek_tag(seqno - 1)),
        }
    }

    /// Order of two positions.
    #[inline]
    pub fn compare(&self, other: &Place<'_>, comparator: &Comparator) -> Ordering {
        match (*self, *other) {
            (Self::Before(a), Place::Before(b)) => {
                comparator.compare_without_timestamp(a, false, b, false)
            }
            (Self::Before(a), Place::At(b, _)) => comparator
                .compare_without_timestamp(a, false, b, true)
                .then(Ordering::Less),
            (Self::At(a, _), Place::Before(b)) => comparator
                .compare_without_timestamp(a, true, b, false)
                .then(Ordering::Greater),
            (Self::At(a, a_tag), Place::At(b, b_tag)) => {
                comparator.compare(a, b).then(b_tag.cmp(&a_tag))
            }
        }
    }

    pub(super) fn later(self, other: Place<'a>, comparator: &Comparator) -> Self {
        match self.compare(&other, comparator) {
            Ordering::Less => other,
            _ => self,
        }
    }

    pub(super) fn earlier(self, other: Place<'a>, comparator: &Comparator) -> Self {
        match self.compare(&other, comparator) {
            Ordering::Greater => other,
            _ => self,
        }
    }
}

/// A [`Place`] with a key of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlaceBuf {
    key: Vec<u8>,
    /// `None` for [`Place::Before`].
    tag: Option<u64>,
}

impl PlaceBuf {
    /// The position.
    #[inline]
    pub fn get(&self) -> Place<'_> {
        match self.tag {
            None => Place::Before(&self.key),
            Some(tag) => Place::At(&self.key, tag),
        }
    }

    /// Takes another position, into the same buffer.
    pub fn set(&mut self, place: Place<'_>) {
        let (key, tag) = match place {
            Place::Before(key) => (key, None),
            Place::At(key, tag) => (key, Some(tag)),
        };
        self.key.clear();
        self.key.extend_from_slice(key);
        self.tag = tag;
    }
}

impl From<Place<'_>> for PlaceBuf {
    fn from(place: Place<'_>) -> Self {
        let mut buf = Self::default();
        buf.set(place);
        buf
    }
}
