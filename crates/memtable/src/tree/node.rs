//! A node: version protocol, search inside, and the changes a writer that holds it makes.

use super::record::{Record, RecordRef, Target, common_prefix, prefetch, word};
use crate::arena::Arena;
use spanlith_base::Comparator;
use spanlith_base::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering, fence};
use spanlith_base::sync::thread;
use std::marker::PhantomData;
use std::mem::offset_of;
use std::ptr::{NonNull, null_mut};

/// Records of a leaf, separators of an inner node.
pub(super) const SLOTS: usize = if cfg!(any(loom, shuttle)) { 2 } else { 32 };
const _: () = assert!(SLOTS.is_power_of_two());

/// Word of a free slot: no word is larger.
const FREE: u64 = u64::MAX;

/// Describes what leaves and inner nodes share. All fields that change are written by the holder of the node
/// and read by anyone; a reader uses what it read only if the version stayed the same.
#[repr(C, align(64))]
pub(super) struct Node {
    /// Odd while held. Taken by Acquire compare-and-swap and a Release fence, given back by Release
    /// store; readers note it with Acquire and compare it after an Acquire fence.
    version: AtomicU64,
    /// Slots in use. Relaxed: covered by the version.
    count: AtomicUsize,
    /// Leading bytes of the keys that words leave out. Relaxed: covered by the version.
    skip: AtomicUsize,
    /// 0 for leaves. Never changes.
    level: usize,
    /// Leaf: the leaf at the right. Inner: the child before the first separator. Release and Acquire
    /// publish the node pointed to.
    link: AtomicPtr<Node>,
    /// First record the node can hold; null if open. Never changes.
    low: *mut Record,
    /// First record after the node; null if open. Release and Acquire, as for `records`.
    high: AtomicPtr<Record>,
    /// [`FREE`] from `count` on. Relaxed: covered by the version.
    words: [AtomicU64; SLOTS],
    /// Release and Acquire publish the record pointed to: a reader may follow a pointer before it
    /// compares the version.
    records: [AtomicPtr<Record>; SLOTS],
}

/// An inner node.
#[repr(C, align(64))]
struct Inner {
    node: Node,
    /// Child after each separator. Release and Acquire publish the node pointed to.
    children: [AtomicPtr<Node>; SLOTS],
}

const _: () =
    assert!(cfg!(any(loom, shuttle)) || size_of::<usize>() != 8 || size_of::<Node>() == 576);

/// A node that is initialised and lives at least for `'a`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct NodeRef<'a>(NonNull<Node>, PhantomData<&'a Node>);

impl<'a> NodeRef<'a> {
    /// An empty node of `arena`, not known to anyone yet.
    pub(super) fn new(
        arena: &'a Arena,
        level: usize,
        link: *mut Node,
        low: *mut Record,
        high: *mut Record,
    ) -> Self {
        let node = Node {
            version: AtomicU64::new(0),
            count: AtomicUsize::new(0),
            skip: AtomicUsize::new(0),
            level,
            link: AtomicPtr::new(link),
            low,
            high: AtomicPtr::new(high),
            words: std::array::from_fn(|_| AtomicU64::new(FREE)),
            records: std::array::from_fn(|_| AtomicPtr::new(null_mut())),
        };
        if level == 0 {
            let memory = arena.allocate(size_of::<Node>()).cast::<Node>();
            // SAFETY: Fresh memory of that size; sizes are multiples of the alignment, and the arena
            // serves nodes only, so that every allocation starts aligned.
            unsafe { memory.write(node) };
            return Self(memory, PhantomData);
        }
        let children = std::array::from_fn(|_| AtomicPtr::new(null_mut()));
        let memory = arena.allocate(size_of::<Inner>()).cast::<Inner>();
        // SAFETY: As above.
        unsafe { memory.write(Inner { node, children }) };
        Self(memory.cast(), PhantomData)
    }

    /// # Safety
    /// `raw` is null, or a node whose initialisation happened before and that lives for `'a`.
    #[inline(always)]
    pub(super) unsafe fn from_raw(raw: *mut Node) -> Option<Self> {
        NonNull::new(raw).map(|p| Self(p, PhantomData))
    }

    #[inline(always)]
    pub(super) fn raw(self) -> *mut Node {
        self.0.as_ptr()
    }

    #[inline(always)]
    fn node(self) -> &'a Node {
        // SAFETY: The type's promise; all that changes is atomic.
        unsafe { self.0.as_ref() }
    }

    /// Requires: an inner node.
    #[inline(always)]
    fn children(self) -> &'a [AtomicPtr<Node>; SLOTS] {
        debug_assert!(!self.is_leaf());
        // SAFETY: Nodes of a level above 0 were written as `Inner`, of which `Node` is the head.
        unsafe { &self.0.cast::<Inner>().as_ref().children }
    }

    #[inline(always)]
    pub(super) fn is_leaf(self) -> bool {
        self.node().level == 0
    }

    pub(super) fn level(self) -> usize {
        self.node().level
    }

    /// Asks for the lines that a search reads of the node, which is of `level`.
    #[inline(always)]
    pub(super) fn prefetch(self, level: usize) {
        let start = self.0.as_ptr().cast::<u8>();
        let lines = |from: usize, to: usize| {
            for line in from / 64..to.div_ceil(64) {
                prefetch(start.wrapping_add(64 * line));
            }
        };
        if level == 0 {
            lines(0, size_of::<Node>());
        } else {
            // Separators are read where words are equal only.
            lines(0, offset_of!(Node, records));
            lines(offset_of!(Inner, children), size_of::<Inner>());
        }
    }

    // ---- version ----

    /// Waits until nobody holds the node and notes its version.
    #[inline(always)]
    pub(super) fn begin(self) -> u64 {
        let version = self.node().version.load(Ordering::Acquire);
        if version & 1 == 0 {
            version
        } else {
            self.begin_slow()
        }
    }

    #[cold]
    fn begin_slow(self) -> u64 {
        let mut turns = 0;
        loop {
            wait(turns);
            turns += 1;
            let version = self.node().version.load(Ordering::Acquire);
            if version & 1 == 0 {
                return version;
            }
        }
    }

    /// Returns whether all that was read since `version` was noted belongs together.
    #[inline(always)]
    pub(super) fn is_unchanged(self, version: u64) -> bool {
        // Pairs with the Release fence in `try_hold`: whoever read a holder's store sees its version.
        fence(Ordering::Acquire);
        self.node().version.load(Ordering::Relaxed) == version
    }

    /// Takes the node, if it did not change since `version` was noted.
    #[inline(always)]
    pub(super) fn try_hold(self, version: u64) -> bool {
        // SeqCst, not Acquire, for those who learn dead runs: see `dead_runs`.
        let taken = self
            .node()
            .version
            .compare_exchange(version, version + 1, Ordering::SeqCst, Ordering::Relaxed)
            .is_ok();
        fence(Ordering::Release);
        taken
    }

    /// Gives the node back, changed.
    #[inline(always)]
    pub(super) fn release(self) {
        let version = self.node().version.load(Ordering::Relaxed);
        debug_assert_eq!(version & 1, 1);
        self.node().version.store(version + 1, Ordering::Release);
    }

    /// Gives the node back as it was.
    pub(super) fn release_unchanged(self) {
        let version = self.node().version.load(Ordering::Relaxed);
        debug_assert_eq!(version & 1, 1);
        self.node().version.store(version - 1, Ordering::Release);
    }

    // ---- reading; the result holds if the version stays the same ----

    #[inline(always)]
    pub(super) fn count(self) -> usize {
        self.node().count.load(Ordering::Relaxed).min(SLOTS)
    }

    #[inline(always)]
    pub(super) fn record(self, at: usize) -> Option<RecordRef<'a>> {
        // SAFETY: The Acquire pairs with the Release that stored the pointer; records live as long
        // as the nodes that name them.
        unsafe { RecordRef::from_raw(self.node().records[at].load(Ordering::Acquire)) }
    }

    #[inline(always)]
    pub(super) fn high(self) -> Option<RecordRef<'a>> {
        // SAFETY: As in `record`.
        unsafe { RecordRef::from_raw(self.node().high.load(Ordering::Acquire)) }
    }

    /// The leaf at the right, or an inner node's first child.
    #[inline(always)]
    pub(super) fn link(self) -> Option<NodeRef<'a>> {
        // SAFETY: The Acquire pairs with the Release that stored the pointer; nodes live as long as
        // the tree.
        unsafe { Self::from_raw(self.node().link.load(Ordering::Acquire)) }
    }

    /// Child after `at` separators.
    #[inline(always)]
    pub(super) fn child(self, at: usize) -> Option<NodeRef<'a>> {
        match at.checked_sub(1) {
            None => self.link(),
            // SAFETY: As in `link`.
            Some(i) => unsafe { Self::from_raw(self.children()[i].load(Ordering::Acquire)) },
        }
    }

    /// Number of records or separators before `target`.
    #[inline(always)]
    pub(super) fn lower_bound(self, target: &Target<'_>, comparator: &Comparator) -> usize {
        let node = self.node();
        let wanted = word(comparator, target.key, node.skip.load(Ordering::Relaxed));
        let words = &node.words;
        // Free slots have the largest word, so the number of steps is fixed; and no branch depends
        // on the words, because the processor could not predict it.
        let mut base = 0;
        let mut half = SLOTS / 2;
        while half > 0 {
            let less = words[base + half - 1].load(Ordering::Relaxed) < wanted;
            base += if less { half } else { 0 };
            half /= 2;
        }
        let at = words[base].load(Ordering::Relaxed);
        base += usize::from(at < wanted);
        if base < SLOTS && words[base].load(Ordering::Relaxed) == wanted {
            return self.lower_bound_by_key(base, wanted, target, comparator);
        }
        base
    }

    /// As `lower_bound`, among the slots from `first` on that have the target's word.
    fn lower_bound_by_key(
        self,
        first: usize,
        wanted: u64,
        target: &Target<'_>,
        comparator: &Comparator,
    ) -> usize {
        let words = &self.node().words[..self.count()];
        let same = |w: &&AtomicU64| w.load(Ordering::Relaxed) == wanted;
        let mut end = first
            + words
                .get(first..)
                .unwrap_or_default()
                .iter()
                .take_while(same)
                .count();
        let mut first = first;
        while first < end {
            let middle = first + (end - first) / 2;
            // Null only if a writer is at work, which the caller will notice.
            match self.record(middle) {
                Some(r) if r.is_before_asked(target, comparator) => first = middle + 1,
                _ => end = middle,
            }
        }
        first
    }

    /// Returns whether the word at `at` is that of `key`.
    #[inline(always)]
    pub(super) fn has_word_of(self, at: usize, key: &[u8], comparator: &Comparator) -> bool {
        let node = self.node();
        let wanted = word(comparator, key, node.skip.load(Ordering::Relaxed));
        node.words[at].load(Ordering::Relaxed) == wanted
    }

    /// Returns whether the records at `a` and `b`, slots in use, may have the same key.
    #[inline(always)]
    pub(super) fn have_same_word(self, a: usize, b: usize) -> bool {
        let words = &self.node().words;
        words[a].load(Ordering::Relaxed) == words[b].load(Ordering::Relaxed)
    }

    // ---- changing; requires that the caller holds the node or made it ----

    /// Inserts a record at `at`. Requires: a free slot.
    #[inline]
    pub(super) fn insert(self, at: usize, record: RecordRef<'a>, comparator: &Comparator) {
        let node = self.node();
        let count = self.count();
        debug_assert!(count < SLOTS && at <= count);
        debug_assert!(
            self.fits_between(at, count, record, comparator),
            "B1: a record between two that it does not follow and precede"
        );
        for i in (at..count).rev() {
            let (w, r) = (&node.words[i], &node.records[i]);
            node.words[i + 1].store(w.load(Ordering::Relaxed), Ordering::Relaxed);
            node.records[i + 1].store(r.load(Ordering::Relaxed), Ordering::Release);
        }
        let word = word(
            comparator,
            record.user_key(),
            node.skip.load(Ordering::Relaxed),
        );
        node.words[at].store(word, Ordering::Relaxed);
        node.records[at].store(record.raw(), Ordering::Release);
        node.count.store(count + 1, Ordering::Relaxed);
    }

    /// Returns whether `record` comes after the one before `at` and before the one there, of `count`, so far as a check
    /// may ask: an order that the user supplies may contradict itself, and models count each load.
    fn fits_between(
        self,
        at: usize,
        count: usize,
        record: RecordRef<'a>,
        comparator: &Comparator,
    ) -> bool {
        if cfg!(any(loom, shuttle)) || matches!(comparator, Comparator::User(_)) {
            return true;
        }
        let before = at.checked_sub(1).and_then(|i| self.record(i));
        let after = (at < count).then(|| self.record(at)).flatten();
        before.is_none_or(|b| b.is_before(&record.place(), comparator))
            && after.is_none_or(|a| record.is_before(&a.place(), comparator))
    }

    /// Inserts a separator and the child after it. Requires: an inner node with a free slot.
    pub(super) fn insert_child(
        self,
        separator: RecordRef<'a>,
        child: NodeRef<'a>,
        comparator: &Comparator,
    ) {
        let at = self.lower_bound(&separator.place(), comparator);
        let children = self.children();
        for i in (at..self.count()).rev() {
            let c = children[i].load(Ordering::Relaxed);
            children[i + 1].store(c, Ordering::Release);
        }
        children[at].store(child.raw(), Ordering::Release);
        self.insert(at, separator, comparator);
    }

    /// Splits a full node: the slots from `middle` on go to a new node at the right, which is
    /// returned with the record that separates the two. Of an inner node, slot `middle` itself is
    /// that separator. If all stay (`middle` is the count of a leaf), `appended` is the first record
    /// of the new node.
    pub(super) fn split(
        self,
        arena: &'a Arena,
        middle: usize,
        appended: Option<RecordRef<'a>>,
        comparator: &Comparator,
    ) -> (RecordRef<'a>, NodeRef<'a>) {
        let node = self.node();
        let high = node.high.load(Ordering::Relaxed);
        let separator = match appended {
            Some(record) => record,
            None => self.record(middle).expect("M1: a slot in use"),
        };
        let (moved, link) = if self.is_leaf() {
            (middle, node.link.load(Ordering::Relaxed))
        } else {
            (middle + 1, self.children()[middle].load(Ordering::Relaxed))
        };
        let right = Self::new(arena, node.level, link, separator.raw(), high);
        let skip = node.skip.load(Ordering::Relaxed);
        right.node().skip.store(skip, Ordering::Relaxed);
        for (to, from) in (moved..SLOTS).enumerate() {
            let w = node.words[from].load(Ordering::Relaxed);
            let r = node.records[from].load(Ordering::Relaxed);
            right.node().words[to].store(w, Ordering::Relaxed);
            right.node().records[to].store(r, Ordering::Relaxed);
            if !self.is_leaf() {
                let c = self.children()[from].load(Ordering::Relaxed);
                right.children()[to].store(c, Ordering::Relaxed);
            }
        }
        right.node().count.store(SLOTS - moved, Ordering::Relaxed);
        if let Some(record) = appended {
            right.insert(0, record, comparator);
        }
        for word in &node.words[middle..] {
            word.store(FREE, Ordering::Relaxed);
        }
        node.count.store(middle, Ordering::Relaxed);
        node.high.store(separator.raw(), Ordering::Release);
        if self.is_leaf() {
            node.link.store(right.raw(), Ordering::Release);
        }
        self.sharpen(comparator);
        right.sharpen(comparator);
        (separator, right)
    }

    /// Makes words start later if half of each says nothing.
    fn sharpen(self, comparator: &Comparator) {
        let node = self.node();
        let count = self.count();
        // SAFETY: Fences are null or records that live as long as the node, published before it.
        let low = unsafe { RecordRef::from_raw(node.low) };
        let (Some(low), Some(high)) = (low, self.high()) else {
            return;
        };
        if count < 2 {
            return;
        }
        let first = node.words[0].load(Ordering::Relaxed);
        let last = node.words[count - 1].load(Ordering::Relaxed);
        if (first ^ last) >> 32 != 0 {
            return;
        }
        let skip = common_prefix(comparator, low.user_key(), high.user_key());
        if skip <= node.skip.load(Ordering::Relaxed) {
            return;
        }
        node.skip.store(skip, Ordering::Relaxed);
        for at in 0..count {
            let key = self.record(at).expect("M1: a slot in use").user_key();
            node.words[at].store(word(comparator, key, skip), Ordering::Relaxed);
        }
    }
}

/// Passes time while another thread holds a node.
#[inline]
pub(super) fn wait(turns: u32) {
    if turns < 32 {
        thread::spin();
    } else {
        // The holder may have lost its processor.
        thread::yield_now();
    }
}
