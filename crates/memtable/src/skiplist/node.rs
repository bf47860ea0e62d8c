//! A node and the comparison of nodes with search targets.

use crate::arena::Arena;
use spanlith_base::Comparator;
use spanlith_base::keys::{TAG_LEN, pack_tag, tag_sequence};
use spanlith_base::sync::atomic::{AtomicPtr, Ordering as Atomic};
use std::cmp::Ordering;
use std::marker::PhantomData;
use std::ptr::{NonNull, null_mut};

/// Levels of the tallest node; with a quarter of the nodes on each next level, enough for 4^14.
pub(super) const MAX_HEIGHT: usize = if cfg!(loom) { 2 } else { 14 };

/// Link to the next node of a level. Published by the Release compare-and-swap in `link`, followed
/// by the Acquire load in `next`.
pub(super) type Link = AtomicPtr<Node>;

/// Fixed part of a node. Never handled as a reference: its links and bytes lie outside.
#[repr(C)]
pub(super) struct Node {
    link: Link,
    /// Lets loom see a read of the bytes that is not ordered after their writing.
    #[cfg(loom)]
    written: loom::cell::UnsafeCell<()>,
    prefix: u64,
    /// Length of the internal key.
    key_len: u32,
    value_len: u32,
}

const _: () = assert!(align_of::<Node>() <= crate::arena::ALIGN);
const _: () = assert!(cfg!(loom) || size_of::<Node>() == 24 || size_of::<usize>() != 8);

/// What a node of its own is made of.
#[derive(Clone, Copy)]
pub(super) struct Content<'a> {
    pub(super) prefix: u64,
    pub(super) tag: u64,
    pub(super) key: &'a [u8],
    pub(super) value: &'a [u8],
}

/// A place in the order: the first entry not before (`key`, `tag`).
#[derive(Clone, Copy)]
pub(super) struct Target<'a> {
    pub(super) prefix: u64,
    pub(super) key: &'a [u8],
    pub(super) tag: u64,
}

/// A node that is initialised and lives at least for `'a`: the bytes may be read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct NodeRef<'a>(NonNull<Node>, PhantomData<&'a Arena>);

impl<'a> NodeRef<'a> {
    /// Bytes that a node occupies.
    pub(super) fn size(content: &Content<'_>, height: usize) -> usize {
        let links = (height - 1) * size_of::<Link>();
        links + size_of::<Node>() + content.key.len() + TAG_LEN + content.value.len()
    }

    /// Writes a node with null links into `memory`.
    ///
    /// # Safety
    /// `memory` has [`Self::size`] bytes, aligned for a node, nobody else uses them, and they stay
    /// valid and unmoved for `'a`.
    pub(super) unsafe fn write(memory: NonNull<u8>, content: &Content<'_>, height: usize) -> Self {
        let key_len = u32::try_from(content.key.len() + TAG_LEN).expect("M1: key below 4 GiB");
        let value_len = u32::try_from(content.value.len()).expect("M1: value below 4 GiB");
        // SAFETY: All writes stay inside the `size` bytes: links, header, key, tag, value, in this
        // order; the links start aligned and have the alignment of the header.
        unsafe {
            let links = memory.cast::<Link>();
            for i in 0..height - 1 {
                links.add(i).write(Link::new(null_mut()));
            }
            let node = links.add(height - 1).cast::<Node>();
            node.write(Node {
                link: Link::new(null_mut()),
                #[cfg(loom)]
                written: loom::cell::UnsafeCell::new(()),
                prefix: content.prefix,
                key_len,
                value_len,
            });
            #[cfg(loom)]
            (*node.as_ptr()).written.with_mut(|_| ());
            let bytes = node.cast::<u8>().add(size_of::<Node>()).as_ptr();
            let key = content.key;
            bytes.copy_from_nonoverlapping(key.as_ptr(), key.len());
            let tag = content.tag.to_le_bytes();
            bytes
                .add(key.len())
                .copy_from_nonoverlapping(tag.as_ptr(), TAG_LEN);
            let value = content.value;
            let at = bytes.add(key.len() + TAG_LEN);
            at.copy_from_nonoverlapping(value.as_ptr(), value.len());
            Self(node, PhantomData)
        }
    }

    /// # Safety
    /// `raw` is null or a node that was linked (or is owned by the caller) and lives for `'a`.
    #[inline(always)]
    pub(super) unsafe fn from_raw(raw: *mut Node) -> Option<Self> {
        NonNull::new(raw).map(|p| Self(p, PhantomData))
    }

    #[inline(always)]
    pub(super) fn raw(self) -> *mut Node {
        self.0.as_ptr()
    }

    /// # Safety
    /// `level` is below the node's height.
    #[inline(always)]
    unsafe fn link(self, level: usize) -> &'a Link {
        // SAFETY: Level n's link stands n links before the node's own, and lives as long as it.
        unsafe { self.0.cast::<Link>().sub(level).as_ref() }
    }

    /// The next node on `level`.
    ///
    /// # Safety
    /// `level` is below the node's height.
    #[inline(always)]
    pub(super) unsafe fn next(self, level: usize) -> Option<NodeRef<'a>> {
        // SAFETY: The caller's promise. The Acquire pairs with the Release in `link_after`, so the
        // node behind the pointer is initialised; it lives in the same arena.
        unsafe { Self::from_raw(self.link(level).load(Atomic::Acquire)) }
    }

    /// Next node on the bottom level, which every node has.
    #[inline(always)]
    pub(super) fn following(self) -> Option<NodeRef<'a>> {
        // SAFETY: Heights are at least one.
        unsafe { self.next(0) }
    }

    /// Links `self` between `previous` and `next` on `level`; false if they are not adjacent (any
    /// more).
    ///
    /// # Safety
    /// `level` is below the heights of `self` and `previous`, and `self` is not linked on it yet.
    #[inline(always)]
    pub(super) unsafe fn link_after(
        self,
        previous: NodeRef<'a>,
        next: Option<NodeRef<'a>>,
        level: usize,
    ) -> bool {
        let next = next.map_or(null_mut(), NodeRef::raw);
        // SAFETY: The caller's promise. Relaxed is enough for the own link: nobody reaches it before
        // the Release below, which also publishes the node's bytes to the Acquire in `next`.
        unsafe {
            self.link(level).store(next, Atomic::Relaxed);
            let link = previous.link(level);
            link.compare_exchange(next, self.raw(), Atomic::Release, Atomic::Relaxed)
                .is_ok()
        }
    }

    /// The comparator's word for the user key.
    #[inline(always)]
    pub(super) fn prefix(self) -> u64 {
        #[cfg(loom)]
        // SAFETY: An initialised node that lives for 'a.
        unsafe {
            (*self.raw()).written.with(|_| ());
        }
        // SAFETY: An initialised node that lives for 'a (the type's promise). M1: never changes.
        unsafe { (&raw const (*self.raw()).prefix).read() }
    }

    #[inline(always)]
    fn key_len(self) -> usize {
        // SAFETY: As in `prefix`.
        unsafe { (&raw const (*self.raw()).key_len).read() as usize }
    }

    #[inline(always)]
    fn value_len(self) -> usize {
        // SAFETY: As in `prefix`.
        unsafe { (&raw const (*self.raw()).value_len).read() as usize }
    }

    #[inline(always)]
    fn bytes(self, at: usize, len: usize) -> &'a [u8] {
        // SAFETY: Callers stay inside key, tag and value, which `write` filled behind the header.
        unsafe {
            let start = self.0.cast::<u8>().add(size_of::<Node>() + at);
            std::slice::from_raw_parts(start.as_ptr(), len)
        }
    }

    /// User key and tag.
    #[inline(always)]
    pub(super) fn internal_key(self) -> &'a [u8] {
        self.bytes(0, self.key_len())
    }

    #[inline(always)]
    pub(super) fn user_key(self) -> &'a [u8] {
        self.bytes(0, self.key_len() - TAG_LEN)
    }

    #[inline(always)]
    pub(super) fn tag(self) -> u64 {
        let at = size_of::<Node>() + self.key_len() - TAG_LEN;
        // SAFETY: `write` put the eight bytes of the tag there.
        let bytes = unsafe { self.0.cast::<u8>().add(at).cast::<[u8; TAG_LEN]>().read() };
        u64::from_le_bytes(bytes)
    }

    #[inline(always)]
    pub(super) fn value(self) -> &'a [u8] {
        self.bytes(self.key_len(), self.value_len())
    }

    /// Asks for the node's first line.
    #[inline(always)]
    pub(super) fn prefetch(self) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: A prefetch of any address has no effect on the program's state.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(self.raw().cast::<i8>());
        }
    }

    /// Whether the node comes before `target`.
    #[inline(always)]
    pub(super) fn is_before(self, target: &Target<'_>, comparator: &Comparator) -> bool {
        let prefix = self.prefix();
        if prefix != target.prefix {
            return prefix < target.prefix;
        }
        self.is_before_by_key(target, comparator)
    }

    fn is_before_by_key(self, target: &Target<'_>, comparator: &Comparator) -> bool {
        match compare_equal_prefix(comparator, self.user_key(), target.key) {
            Ordering::Less => true,
            Ordering::Greater => false,
            // Newer entries come first (B1).
            Ordering::Equal => self.tag() > target.tag,
        }
    }

    /// Whether the node has the user key of `target`.
    #[inline]
    pub(super) fn has_key_of(self, target: &Target<'_>, comparator: &Comparator) -> bool {
        self.prefix() == target.prefix
            && compare_equal_prefix(comparator, self.user_key(), target.key) == Ordering::Equal
    }
}

/// Order of two user keys whose prefix words are equal.
#[inline(always)]
fn compare_equal_prefix(comparator: &Comparator, a: &[u8], b: &[u8]) -> Ordering {
    // With eight bytes on both sides the words were the bytes, not their padding.
    match comparator {
        Comparator::Bytewise => match (a.split_at_checked(8), b.split_at_checked(8)) {
            (Some((_, a)), Some((_, b))) => a.cmp(b),
            _ => a.cmp(b),
        },
        Comparator::ReverseBytewise => match (a.split_at_checked(8), b.split_at_checked(8)) {
            (Some((_, a)), Some((_, b))) => b.cmp(a),
            _ => b.cmp(a),
        },
        Comparator::User(c) => c.compare(a, b),
    }
}

impl<'a> Target<'a> {
    /// Place of the newest entry of `key` whose tag is at most `tag`.
    #[inline]
    pub(super) fn new(comparator: &Comparator, key: &'a [u8], tag: u64) -> Self {
        Self {
            prefix: comparator.prefix(key),
            key,
            tag,
        }
    }

    /// Place of a new entry: before all entries of the same key and sequence number, whatever their
    /// type, so that the node found there tells whether the pair is taken (M2).
    #[inline]
    pub(super) fn for_insert(comparator: &Comparator, key: &'a [u8], sequence: u64) -> Self {
        Self::new(comparator, key, pack_tag(sequence, 0xff))
    }

    /// Whether `node`, the first not before the target, has its key and sequence number.
    #[inline]
    pub(super) fn is_taken_by(&self, node: Option<NodeRef<'_>>, comparator: &Comparator) -> bool {
        node.is_some_and(|n| {
            n.prefix() == self.prefix
                && tag_sequence(n.tag()) == tag_sequence(self.tag)
                && n.has_key_of(self, comparator)
        })
    }
}
