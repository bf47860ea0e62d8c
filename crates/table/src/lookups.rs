//! Tells of blocks that are looked up in the cache, while somebody wants to know: traces of a block cache are made of it.
//!
//! Only counted reads ([`crate::ReadParams::is_counted`]) come here. A lookup of index or filter is told at once. One of a
//! data block for a get is told when the block has been searched, since by then it is known whether the key was there:
//! until then it waits in the calling thread's [`Lookups`].

use crate::activity::ReadActivity;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Kinds of blocks in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the name says it")]
pub enum CachedKind {
    Data,
    Index,
    Filter,
}

/// A block was looked up in the cache.
#[derive(Clone, Copy, Debug)]
pub struct BlockLookup<'a> {
    /// Its kind.
    pub kind: CachedKind,
    /// Its key in the cache.
    pub key: [u8; 16],
    /// Bytes of memory that it takes.
    pub bytes: u64,
    /// Level of the table; -1 unknown.
    pub level: i32,
    /// Number of the table.
    pub file: u64,
    /// Family that the table was written for.
    pub column_family_id: u64,
    /// Its name; empty if the table does not say.
    pub column_family_name: &'a str,
    /// Says what the read was for.
    pub activity: ReadActivity,
    /// It was in the cache.
    pub is_hit: bool,
    /// It was not to be put there.
    pub no_insert: bool,
    /// Of gets and multi-gets.
    pub get: Option<GetLookup<'a>>,
}

/// The get for which a block was looked up.
#[derive(Clone, Copy, Debug)]
pub struct GetLookup<'a> {
    /// Number that [`Lookups::enter`] was told; 0 if nobody said.
    pub id: u64,
    /// The caller reads from a snapshot.
    pub from_snapshot: bool,
    /// Of data blocks.
    pub sought: Option<Sought<'a>>,
}

/// The entry that a data block was searched for.
#[derive(Clone, Copy, Debug)]
pub struct Sought<'a> {
    /// The user key.
    pub user_key: &'a [u8],
    /// Sequence number and type of the entry that was found, or of the search.
    pub tag: u64,
    /// Bytes of the entry, key and value; 0 if there is none.
    pub entry_bytes: u64,
    /// Entries of the block: those of the table dealt out to its blocks.
    pub block_entries: u64,
    /// There is a value, and not a mark that it is deleted.
    pub is_found: bool,
}

/// Takes note of lookups.
pub trait NoteLookup: Send + Sync {
    /// A block was looked up. Called under no lock of this crate.
    fn note(&self, lookup: &BlockLookup<'_>);
}

/// The switch between readers of tables and who listens.
pub struct LookupTap {
    /// Relaxed: a lookup that is under way meanwhile is told or not.
    is_on: AtomicBool,
    to: Arc<dyn NoteLookup>,
}

impl std::fmt::Debug for LookupTap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LookupTap")
            .field("is_on", &self.is_on())
            .finish_non_exhaustive()
    }
}

impl LookupTap {
    /// Off.
    pub fn new(to: Arc<dyn NoteLookup>) -> Self {
        Self {
            is_on: AtomicBool::new(false),
            to,
        }
    }

    /// Turns it on or off.
    pub fn turn(&self, on: bool) {
        self.is_on.store(on, Ordering::Relaxed);
    }

    /// Returns whether somebody listens.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    pub(crate) fn note(&self, lookup: &BlockLookup<'_>) {
        self.to.note(lookup);
    }
}

/// A lookup of a data block whose search is not over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending {
    /// Where the block lies in the file.
    pub offset: u64,
    pub key: [u8; 16],
    pub bytes: u64,
    pub is_hit: bool,
    pub no_insert: bool,
    /// The key at hand has been sought in it. Blocks that a multi-get reads together wait for theirs.
    pub is_searched: bool,
}

/// Gets of the calling thread: which one is under way, and which blocks wait for its outcome.
#[derive(Debug, Default)]
pub struct Lookups {
    id: u64,
    from_snapshot: bool,
    /// Some table is being searched by a get: lookups of data blocks wait.
    waits: bool,
    pending: Vec<Pending>,
}

thread_local! {
    static LOOKUPS: RefCell<Lookups> = const {
        RefCell::new(Lookups { id: 0, from_snapshot: false, waits: false, pending: Vec::new() })
    };
}

impl Lookups {
    /// Blocks that the calling thread looks up until the result is dropped are looked up for the get of this number.
    #[must_use]
    pub fn enter(id: u64, from_snapshot: bool) -> impl Drop {
        Self::with(|l| {
            let before = (l.id, l.from_snapshot);
            (l.id, l.from_snapshot) = (id, from_snapshot);
            Entered(before)
        })
    }

    fn with<T>(f: impl FnOnce(&mut Self) -> T) -> T {
        LOOKUPS.with_borrow_mut(f)
    }

    /// Number of the get that is under way, and whether it reads from a snapshot.
    pub(crate) fn current() -> (u64, bool) {
        Self::with(|l| (l.id, l.from_snapshot))
    }

    /// A get begins to search a table.
    pub(crate) fn begin() {
        Self::with(|l| {
            l.waits = true;
            l.pending.clear();
        });
    }

    /// Lets a lookup wait; false if no get is searching.
    pub(crate) fn wait(pending: Pending) -> bool {
        Self::with(|l| {
            // A block that was read with others is found in the cache when its key comes to it.
            let is_known = |p: &Pending| !p.is_searched && p.offset == pending.offset;
            if l.waits && !l.pending.iter().any(is_known) {
                l.pending.push(pending);
            }
            l.waits
        })
    }

    /// The block at `offset` has been searched.
    pub(crate) fn searched(offset: u64) {
        Self::with(|l| {
            for pending in l.pending.iter_mut().filter(|p| p.offset == offset) {
                pending.is_searched = true;
            }
        });
    }

    /// Those that have been searched, or all as the get leaves the table.
    pub(crate) fn take(is_over: bool) -> Vec<Pending> {
        Self::with(|l| {
            l.waits &= !is_over;
            let take = |p: &mut Pending| is_over || p.is_searched;
            l.pending.extract_if(.., take).collect()
        })
    }
}

/// Puts back which get was under way before.
struct Entered((u64, bool));

impl Drop for Entered {
    fn drop(&mut self) {
        // A thread that is being torn down gets nothing more.
        let _ = LOOKUPS.try_with(|lookups| {
            let mut lookups = lookups.borrow_mut();
            (lookups.id, lookups.from_snapshot) = self.0;
        });
    }
}
