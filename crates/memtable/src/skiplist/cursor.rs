//! What readers hold: an entry found, and a position that moves.

use super::list::SkipList;
use super::node::{Node, NodeRef, Target};
use crate::memtable::MemTable;
use spanlith_base::keys::{seek_tag, split_internal};
use spanlith_base::{Comparator, SequenceNumber};
use std::ptr::null_mut;
use std::sync::Arc;

/// An entry of a memtable. Its bytes stay valid as long as the memtable (M1).
#[derive(Clone, Copy)]
pub struct EntryRef<'a> {
    node: NodeRef<'a>,
    comparator: &'a Comparator,
}

// SAFETY: Shared access to immutable bytes and atomic links of a memtable that is itself Sync.
unsafe impl Send for EntryRef<'_> {}
// SAFETY: As above.
unsafe impl Sync for EntryRef<'_> {}

impl<'a> EntryRef<'a> {
    /// Sequence number and type.
    #[inline]
    pub fn tag(&self) -> u64 {
        self.node.tag()
    }

    /// The user key as it was added.
    #[inline]
    pub fn user_key(&self) -> &'a [u8] {
        self.node.user_key()
    }

    /// User key and tag.
    #[inline]
    pub fn internal_key(&self) -> &'a [u8] {
        self.node.internal_key()
    }

    /// The value.
    #[inline]
    pub fn value(&self) -> &'a [u8] {
        self.node.value()
    }

    /// The next older entry of the same user key.
    #[inline]
    pub fn next_older(&self) -> Option<EntryRef<'a>> {
        let node = self.node.following()?;
        let target = Target {
            prefix: self.node.prefix(),
            key: self.node.user_key(),
            tag: 0,
        };
        node.has_key_of(&target, self.comparator)
            .then_some(EntryRef {
                node,
                comparator: self.comparator,
            })
    }
}

impl SkipList {
    /// Newest entry of `key` with a sequence number of at most `snapshot`.
    #[inline]
    pub(crate) fn find(&self, key: &[u8], snapshot: SequenceNumber) -> Option<EntryRef<'_>> {
        let target = Target::new(&self.comparator, key, seek_tag(snapshot));
        let node = self.find_at_or_after(&target)?;
        node.has_key_of(&target, &self.comparator)
            .then_some(EntryRef {
                node,
                comparator: &self.comparator,
            })
    }
}

/// A position among the entries of a memtable, ordered as internal keys are (B1).
///
/// Sees entries added after its creation if they lie ahead. Holds the memtable.
pub struct MemTableIter {
    table: Arc<MemTable>,
    /// Null when not valid; else a node of `table`.
    node: *mut Node,
}

// SAFETY: The node belongs to the memtable that the iterator holds; its bytes are immutable and the
// memtable is Send and Sync.
unsafe impl Send for MemTableIter {}
// SAFETY: As above; shared access reads only.
unsafe impl Sync for MemTableIter {}

impl MemTableIter {
    pub(crate) fn new(table: Arc<MemTable>) -> Self {
        Self {
            table,
            node: null_mut(),
        }
    }

    #[inline(always)]
    fn node(&self) -> Option<NodeRef<'_>> {
        // SAFETY: Null, or a linked node of the list, which lives as long as `table`.
        unsafe { NodeRef::from_raw(self.node) }
    }

    #[inline(always)]
    fn current(&self) -> NodeRef<'_> {
        self.node().expect("the iterator is valid")
    }

    fn list(&self) -> &SkipList {
        self.table.list()
    }

    fn target<'k>(&self, internal: &'k [u8]) -> Target<'k> {
        let (key, tag) = split_internal(internal).expect("a seek target has a tag");
        Target::new(self.list().comparator(), key, tag)
    }

    /// Whether the iterator is at an entry.
    #[inline]
    pub fn valid(&self) -> bool {
        !self.node.is_null()
    }

    /// Internal key: user key, then eight bytes of tag. Requires: valid.
    #[inline]
    pub fn key(&self) -> &[u8] {
        self.current().internal_key()
    }

    /// Value. Requires: valid.
    #[inline]
    pub fn value(&self) -> &[u8] {
        self.current().value()
    }

    /// Moves to the first entry.
    pub fn seek_to_first(&mut self) {
        self.node = raw(self.list().first());
    }

    /// Moves to the last entry.
    pub fn seek_to_last(&mut self) {
        self.node = self.unless_head(self.list().find_last());
    }

    /// Moves to the first entry at or after an internal key. Requires: at least a tag's length.
    pub fn seek(&mut self, internal: &[u8]) {
        let target = self.target(internal);
        self.node = raw(self.list().find_at_or_after(&target));
    }

    /// Moves to the last entry at or before an internal key. Requires: at least a tag's length.
    pub fn seek_for_prev(&mut self, internal: &[u8]) {
        let target = self.target(internal);
        let before = self.list().find_before(&target);
        // Keys are unique, so at most one entry equals the target.
        let at = before
            .following()
            .filter(|n| n.tag() == target.tag && n.has_key_of(&target, self.list().comparator()));
        self.node = match at {
            Some(node) => node.raw(),
            None => self.unless_head(before),
        };
    }

    /// Moves to the next entry. Requires: valid.
    #[inline]
    pub fn next(&mut self) {
        let next = self.current().following();
        if let Some(after) = next.and_then(NodeRef::following) {
            after.prefetch();
        }
        self.node = raw(next);
    }

    /// Moves to the previous entry: a search, as nodes have no links back. Requires: valid.
    pub fn prev(&mut self) {
        let node = self.current();
        let target = Target {
            prefix: node.prefix(),
            key: node.user_key(),
            tag: node.tag(),
        };
        self.node = self.unless_head(self.list().find_before(&target));
    }

    fn unless_head(&self, node: NodeRef<'_>) -> *mut Node {
        if node == self.list().head() {
            null_mut()
        } else {
            node.raw()
        }
    }
}

#[inline(always)]
fn raw(node: Option<NodeRef<'_>>) -> *mut Node {
    node.map_or(null_mut(), NodeRef::raw)
}
