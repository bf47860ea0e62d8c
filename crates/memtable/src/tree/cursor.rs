//! What readers hold: an entry found, and a position that moves.

use super::node::{Node, NodeRef};
use super::record::{Record, RecordRef, Target};
use super::search::{Position, Tree};
use crate::memtable::MemTable;
use spanlith_base::SequenceNumber;
use spanlith_base::keys::{seek_tag, split_internal, tag_sequence};
use std::ptr::null_mut;
use std::sync::Arc;

/// An entry of a memtable. Its bytes stay valid as long as the memtable (M1).
#[derive(Clone, Copy)]
pub struct EntryRef<'a> {
    tree: &'a Tree,
    position: Position<'a>,
}

// SAFETY: Shared access to a tree that is itself Sync; records are immutable.
unsafe impl Send for EntryRef<'_> {}
// SAFETY: As above.
unsafe impl Sync for EntryRef<'_> {}

impl<'a> EntryRef<'a> {
    /// Sequence number and type.
    #[inline]
    pub fn tag(&self) -> u64 {
        self.position.record.tag()
    }

    /// The user key as it was added.
    #[inline]
    pub fn user_key(&self) -> &'a [u8] {
        self.position.record.user_key()
    }

    /// User key and tag.
    #[inline]
    pub fn internal_key(&self) -> &'a [u8] {
        self.position.record.internal_key()
    }

    /// The value.
    #[inline]
    pub fn value(&self) -> &'a [u8] {
        self.position.record.value()
    }

    /// The next older entry of the same user key.
    pub fn next_older(&self) -> Option<EntryRef<'a>> {
        let next = self.tree.after(&self.position)?;
        next.record
            .has_key_of(&self.position.record.place(), self.tree.comparator())
            .then_some(EntryRef {
                tree: self.tree,
                position: next,
            })
    }
}

impl<'a> EntryRef<'a> {
    /// With timestamps: the next entry of the same key, of the same timestamp or an older one.
    pub fn next_version(&self) -> Option<EntryRef<'a>> {
        let next = EntryRef {
            tree: self.tree,
            position: self.tree.after(&self.position)?,
        };
        self.tree
            .is_version_of(&next, self.user_key())
            .then_some(next)
    }
}

impl Tree {
    /// Newest entry of `key` with a sequence number of at most `snapshot`.
    #[inline]
    pub(crate) fn find(&self, key: &[u8], snapshot: SequenceNumber) -> Option<EntryRef<'_>> {
        let target = Target::new(key, seek_tag(snapshot));
        let position = self.find_at_or_after(&target)?;
        self.entry_of(position, &target)
    }

    /// The entry at `position` if it has the target's key.
    #[inline]
    pub(super) fn entry_of<'a>(
        &'a self,
        position: Position<'a>,
        target: &Target<'_>,
    ) -> Option<EntryRef<'a>> {
        position
            .record
            .has_key_of(target, &self.comparator)
            .then_some(EntryRef {
                tree: self,
                position,
            })
    }

    /// Newest version of a key at the timestamp at the end of `key` or before it, with a sequence
    /// number of at most `snapshot`.
    pub(crate) fn find_version(
        &self,
        key: &[u8],
        snapshot: SequenceNumber,
    ) -> Option<EntryRef<'_>> {
        let position = self.find_at_or_after(&Target::new(key, seek_tag(snapshot)))?;
        let mut entry = EntryRef {
            tree: self,
            position,
        };
        if !self.is_version_of(&entry, key) {
            return None;
        }
        // An older timestamp may have been written later.
        while tag_sequence(entry.tag()) > snapshot {
            entry = entry.next_version()?;
        }
        Some(entry)
    }

    fn is_version_of(&self, entry: &EntryRef<'_>, key: &[u8]) -> bool {
        self.comparator
            .compare_without_timestamp(entry.user_key(), true, key, true)
            .is_eq()
    }
}

/// A position among the entries of a memtable, ordered as internal keys are (B1).
///
/// Sees entries added after its creation if they lie ahead. Holds the memtable.
pub struct MemTableIter {
    table: Arc<MemTable>,
    /// Null when not valid; else a record of `table`.
    record: *mut Record,
    /// A leaf of `table`, if `record` is not null.
    leaf: *mut Node,
    version: u64,
    at: usize,
}

// SAFETY: The pointers belong to the memtable that the iterator holds, which is Send and Sync.
unsafe impl Send for MemTableIter {}
// SAFETY: As above; shared access reads only.
unsafe impl Sync for MemTableIter {}

/// Records asked for ahead of the position.
const AHEAD: usize = 4;

impl MemTableIter {
    pub(crate) fn new(table: Arc<MemTable>) -> Self {
        Self {
            table,
            record: null_mut(),
            leaf: null_mut(),
            version: 0,
            at: 0,
        }
    }

    #[inline(always)]
    fn record(&self) -> RecordRef<'_> {
        // SAFETY: Null, or a record of the table, which lives as long as `self`.
        unsafe { RecordRef::from_raw(self.record) }.expect("the iterator is valid")
    }

    #[inline(always)]
    fn position(&self) -> Position<'_> {
        let record = self.record();
        // SAFETY: A leaf of the table wherever there is a record.
        let leaf = unsafe { NodeRef::from_raw(self.leaf) }.expect("the iterator is valid");
        Position {
            leaf,
            version: self.version,
            at: self.at,
            record,
        }
    }

    fn tree(&self) -> &Tree {
        self.table.tree()
    }

    /// Whether the iterator is at an entry.
    #[inline]
    pub fn valid(&self) -> bool {
        !self.record.is_null()
    }

    /// Internal key: user key, then eight bytes of tag. Requires: valid.
    #[inline]
    pub fn key(&self) -> &[u8] {
        self.record().internal_key()
    }

    /// Value. Requires: valid.
    #[inline]
    pub fn value(&self) -> &[u8] {
        self.record().value()
    }

    /// Moves to the first entry.
    pub fn seek_to_first(&mut self) {
        self.set(Raw::of(self.tree().first()));
    }

    /// Moves to the last entry.
    pub fn seek_to_last(&mut self) {
        self.set(Raw::of(self.tree().last()));
    }

    /// Moves to the first entry at or after an internal key. Requires: at least a tag's length.
    pub fn seek(&mut self, internal: &[u8]) {
        let (key, tag) = split_internal(internal).expect("a seek target has a tag");
        self.set(Raw::of(
            self.tree().find_at_or_after(&Target::new(key, tag)),
        ));
    }

    /// Moves to the last entry at or before an internal key. Requires: at least a tag's length.
    pub fn seek_for_prev(&mut self, internal: &[u8]) {
        let (key, tag) = split_internal(internal).expect("a seek target has a tag");
        self.set(Raw::of(
            self.tree().find_before(&Target::new(key, tag).behind()),
        ));
    }

    /// Moves to the next entry. Requires: valid.
    #[inline]
    pub fn next(&mut self) {
        let position = self.position();
        let ahead = position.at + AHEAD;
        if ahead < position.leaf.count()
            && let Some(record) = position.leaf.record(ahead)
        {
            record.prefetch();
        }
        self.set(Raw::of(self.tree().after(&position)));
    }

    /// Moves to the previous entry. Requires: valid.
    #[inline]
    pub fn prev(&mut self) {
        let position = self.position();
        self.set(Raw::of(self.tree().before(&position)));
    }

    #[inline(always)]
    fn set(&mut self, raw: Raw) {
        (self.record, self.leaf, self.version, self.at) =
            (raw.record, raw.leaf, raw.version, raw.at);
    }
}

/// A position without the lifetime of the table.
struct Raw {
    record: *mut Record,
    leaf: *mut Node,
    version: u64,
    at: usize,
}

impl Raw {
    #[inline(always)]
    fn of(position: Option<Position<'_>>) -> Self {
        match position {
            Some(p) => Self {
                record: p.record.raw(),
                leaf: p.leaf.raw(),
                version: p.version,
                at: p.at,
            },
            None => Self {
                record: null_mut(),
                leaf: null_mut(),
                version: 0,
                at: 0,
            },
        }
    }
}
