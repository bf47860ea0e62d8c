//! Describes what readers hold: an entry found, and a position that moves.

use super::node::{Node, NodeRef};
use super::record::{Record, RecordRef, Target};
use super::search::{Position, Tree};
use crate::memtable::MemTable;
use crate::protection::{changed, out_of_order};
use spanlith_base::keys::{seek_tag, split_internal, tag_sequence};
use spanlith_base::{Error, Result, SequenceNumber};
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

    /// Fails if the entry is not what was added, as far as the memtable keeps checksums.
    ///
    /// # Errors
    /// `Corruption`, in RocksDB's words.
    #[inline]
    pub fn verify(&self) -> Result<()> {
        match self.tree.protection.bytes_per_key {
            0 => Ok(()),
            n if self.position.record.is_intact(n.min(8).into()) => Ok(()),
            _ => Err(changed()),
        }
    }

    /// The next older entry of the same user key.
    pub fn next_older(&self) -> Option<EntryRef<'a>> {
        let Position {
            leaf, version, at, ..
        } = self.position;
        // Another word is another key: its record need not be waited for.
        if at + 1 < leaf.count() && !leaf.have_same_word(at, at + 1) && leaf.is_unchanged(version) {
            return None;
        }
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
        let position = self.find_same(&target)?;
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
    /// Says whether entries are verified as it moves.
    is_guarded: bool,
    /// Says what was found wrong; the iterator is invalid from then on, until it is moved anew.
    failed: Option<Error>,
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
            is_guarded: table.is_guarded(),
            table,
            record: null_mut(),
            leaf: null_mut(),
            version: 0,
            at: 0,
            failed: None,
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

    /// [`MemTable::search_steps`] of its memtable.
    pub fn search_steps(&self) -> u64 {
        self.tree().search_steps()
    }

    /// Returns whether the iterator is at an entry.
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

    /// Returns what made it invalid, if something but its end did.
    ///
    /// # Errors
    /// `Corruption`, in RocksDB's words: an entry is not what was added, or entries are out of order.
    #[inline]
    pub fn status(&self) -> Result<()> {
        match &self.failed {
            None => Ok(()),
            Some(e) => Err(e.clone()),
        }
    }

    /// Stands nowhere.
    pub fn leave(&mut self) {
        self.set(Raw::of(None));
    }

    /// Moves to the first entry.
    pub fn seek_to_first(&mut self) {
        self.set(Raw::of(self.tree().first()));
        if self.is_guarded {
            self.guard_step(null_mut(), false);
        }
    }

    /// Moves to the last entry.
    pub fn seek_to_last(&mut self) {
        self.set(Raw::of(self.tree().last()));
        if self.is_guarded {
            self.guard_step(null_mut(), true);
        }
    }

    /// Moves to the first entry at or after an internal key. Requires: at least a tag's length.
    pub fn seek(&mut self, internal: &[u8]) {
        let (key, tag) = split_internal(internal).expect("a seek target has a tag");
        let target = Target::new(key, tag);
        self.set(Raw::of(self.tree().find_at_or_after(&target)));
        if self.is_guarded {
            self.guard_search(&target);
        }
    }

    /// Moves to the last entry at or before an internal key. Requires: at least a tag's length.
    pub fn seek_for_prev(&mut self, internal: &[u8]) {
        let (key, tag) = split_internal(internal).expect("a seek target has a tag");
        let target = Target::new(key, tag).behind();
        self.set(Raw::of(self.tree().find_before(&target)));
        if self.is_guarded {
            self.guard_search(&target);
        }
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
        let from = self.record;
        self.set(Raw::of(self.tree().after(&position)));
        if self.is_guarded {
            self.guard_step(from, false);
        }
    }

    /// Moves to the previous entry. Requires: valid.
    #[inline]
    pub fn prev(&mut self) {
        let position = self.position();
        let from = self.record;
        self.set(Raw::of(self.tree().before(&position)));
        if self.is_guarded {
            self.guard_step(from, true);
        }
    }

    /// Verifies what a search ended among, and the entry it found.
    #[cold]
    fn guard_search(&mut self, target: &Target<'_>) {
        let checked = self.tree().check_around(target);
        self.fail_if(checked);
        if self.failed.is_none() {
            self.guard_step(null_mut(), false);
        }
    }

    /// Verifies the entry reached, and that it stands after `from`, or before it; null is no entry.
    #[cold]
    fn guard_step(&mut self, from: *mut Record, backward: bool) {
        if !self.valid() {
            return self.fail_if(Ok(()));
        }
        let tree = self.tree();
        let here = self.record();
        let sums = usize::from(tree.protection.bytes_per_key.min(8));
        let mut checked = Ok(());
        if sums != 0 && !here.is_intact(sums) {
            checked = Err(changed());
        }
        // SAFETY: Null, or a record of the table, which lives as long as `self`.
        let from = unsafe { RecordRef::from_raw(from) };
        if tree.protection.checks_order
            && let Some(from) = from
        {
            let (first, second) = if backward { (here, from) } else { (from, here) };
            if !first.is_before(&second.place(), tree.comparator()) {
                checked = Err(out_of_order());
            }
        }
        self.fail_if(checked);
    }

    fn fail_if(&mut self, checked: Result<()>) {
        self.failed = checked.err();
        if self.failed.is_some() {
            self.set(Raw::of(None));
        }
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
