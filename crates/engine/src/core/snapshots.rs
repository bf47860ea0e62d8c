//! Snapshots: sequence numbers that compaction must keep readable.

use spanlith_base::SequenceNumber;
use spanlith_base::sync::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Rank of the list's lock: a leaf.
const RANK: u8 = 90;

/// Live snapshots of a database, with the time each was taken.
pub struct SnapshotList {
    /// (sequence, serial) → what is known of it.
    live: Mutex<BTreeMap<(SequenceNumber, u64), Live>>,
    /// How many have closed the list; changed under its lock.
    closed: AtomicU64,
    /// It is open again.
    opened: Condvar,
    serial: AtomicU64,
    /// The calls that wait for snapshots to go.
    watch: OnceLock<Box<ReleaseWatch>>,
    /// The watch is called when nothing below a larger number is protected any more. Relaxed: a
    /// release that misses a change is made up for by the next.
    threshold: AtomicU64,
    /// The watch is to be called as soon as hidden snapshots let it. Under the lock of `live`.
    is_owed: AtomicBool,
    /// Tells open databases of the process apart.
    database: u64,
}

/// The number of the next database that is opened. Relaxed: a counter.
static DATABASES: AtomicU64 = AtomicU64::new(0);

/// A live snapshot.
#[derive(Clone, Copy)]
struct Live {
    /// Seconds since the epoch.
    taken: u64,
    /// A transaction looks for writes after it.
    for_conflicts: bool,
    /// Nobody asked for it: it is not among those that are counted.
    is_hidden: bool,
}

/// Called without locks after a release, with the oldest snapshot that is left.
pub type ReleaseWatch = dyn Fn(Option<SequenceNumber>) + Send + Sync;

impl Default for SnapshotList {
    fn default() -> Self {
        Self {
            live: Mutex::new(RANK, BTreeMap::new()),
            closed: AtomicU64::new(0),
            opened: Condvar::new(),
            serial: AtomicU64::new(0),
            watch: OnceLock::new(),
            threshold: AtomicU64::new(u64::MAX),
            is_owed: AtomicBool::new(false),
            database: DATABASES.fetch_add(1, Ordering::Relaxed),
        }
    }
}

impl SnapshotList {
    /// Takes a snapshot at the sequence number that `visible` returns under the list's lock, so that
    /// a compaction that lists snapshots afterwards sees it.
    pub fn take(
        self: &Arc<Self>,
        now_seconds: u64,
        visible: impl FnOnce() -> SequenceNumber,
    ) -> Snapshot {
        let kind = Live {
            taken: now_seconds,
            for_conflicts: false,
            is_hidden: false,
        };
        self.take_as(kind, visible)
    }

    /// As [`Self::take`], for one call that reads several times: it is not counted among the snapshots, and its release
    /// starts no compactions.
    pub(crate) fn take_implicit(
        self: &Arc<Self>,
        now_seconds: u64,
        visible: impl FnOnce() -> SequenceNumber,
    ) -> Snapshot {
        let kind = Live {
            taken: now_seconds,
            for_conflicts: false,
            is_hidden: true,
        };
        self.take_as(kind, visible)
    }

    /// As [`Self::take`], for a transaction that looks for writes after it: they are found as long as it lives, even
    /// those that cancel each other. With `is_hidden` it is not counted among the snapshots.
    pub(crate) fn take_for_conflicts(
        self: &Arc<Self>,
        now_seconds: u64,
        is_hidden: bool,
        visible: impl FnOnce() -> SequenceNumber,
    ) -> Snapshot {
        let kind = Live {
            taken: now_seconds,
            for_conflicts: true,
            is_hidden,
        };
        self.take_as(kind, visible)
    }

    fn take_as(self: &Arc<Self>, kind: Live, visible: impl FnOnce() -> SequenceNumber) -> Snapshot {
        let mut live = self.live.lock();
        // Relaxed: the lock orders it.
        while self.closed.load(Ordering::Relaxed) > 0 {
            live = self.opened.wait(live);
        }
        let seqno = visible();
        debug_assert!(
            live.last_key_value().is_none_or(|(k, _)| k.0 <= seqno),
            "W3: a snapshot at {seqno} sees less than one before it"
        );
        let serial = self.serial.fetch_add(1, Ordering::Relaxed);
        live.insert((seqno, serial), kind);
        drop(live);
        Snapshot(Arc::new(Held {
            list: self.clone(),
            seqno,
            serial,
            is_hidden: kind.is_hidden,
            released: AtomicBool::new(false),
        }))
    }

    /// A number that no other open of a database in this process has.
    pub fn database(&self) -> u64 {
        self.database
    }

    /// Has whoever wants a snapshot wait as long as the answer lives: what is about to become visible without a
    /// sequence number of its own would appear in it. To be held for a moment only.
    pub fn close(&self) -> ClosedSnapshots<'_> {
        let live = self.live.lock();
        self.closed.fetch_add(1, Ordering::Relaxed);
        drop(live);
        ClosedSnapshots(self)
    }

    /// Sets who is told of releases, once.
    pub fn set_watch(&self, watch: Box<ReleaseWatch>) {
        // A second watch would be a bug of the caller; the first one stays.
        let first = self.watch.set(watch).is_ok();
        debug_assert!(first, "one watch per list");
    }

    /// Sets from which release on the watch is called.
    pub fn set_threshold(&self, seqno: SequenceNumber) {
        self.threshold.store(seqno, Ordering::Relaxed);
    }

    /// Distinct sequence numbers of live snapshots, ascending.
    pub fn sequences(&self) -> Vec<SequenceNumber> {
        let mut v: Vec<_> = self.live.lock().keys().map(|k| k.0).collect();
        v.dedup();
        v
    }

    /// The oldest after which a transaction looks for writes; the largest number if there is none.
    pub(crate) fn oldest_for_conflicts(&self) -> SequenceNumber {
        let live = self.live.lock();
        let mut of_transactions = live.iter().filter(|l| l.1.for_conflicts);
        of_transactions
            .next()
            .map_or(SequenceNumber::MAX, |l| l.0.0)
    }

    /// Number of live snapshots, without those that nobody asked for.
    pub fn len(&self) -> usize {
        self.live.lock().values().filter(|l| !l.is_hidden).count()
    }

    /// Sequence number and time of the oldest that is counted.
    pub fn oldest_counted(&self) -> Option<(SequenceNumber, u64)> {
        let live = self.live.lock();
        let mut counted = live.iter().filter(|l| !l.1.is_hidden);
        counted.next().map(|(k, l)| (k.0, l.taken))
    }

    /// Sequence number of the oldest.
    pub fn oldest(&self) -> Option<SequenceNumber> {
        self.live.lock().first_key_value().map(|(k, _)| k.0)
    }
}

/// A list to which no snapshot is added.
pub struct ClosedSnapshots<'a>(&'a SnapshotList);

impl ClosedSnapshots<'_> {
    /// Returns whether there is no snapshot.
    pub fn is_empty(&self) -> bool {
        self.0.live.lock().is_empty()
    }
}

impl Drop for ClosedSnapshots<'_> {
    fn drop(&mut self) {
        let live = self.0.live.lock();
        self.0.closed.fetch_sub(1, Ordering::Relaxed);
        drop(live);
        self.0.opened.notify_all();
    }
}

struct Held {
    list: Arc<SnapshotList>,
    seqno: SequenceNumber,
    serial: u64,
    /// Nobody asked for it, and nobody is told of its release.
    is_hidden: bool,
    /// It protects nothing any more.
    released: AtomicBool,
}

impl Held {
    fn release(&self) {
        // Relaxed: the list's lock orders everything else.
        if self.released.swap(true, Ordering::Relaxed) {
            return;
        }
        let (oldest, is_heard) = {
            let mut live = self.list.live.lock();
            live.remove(&(self.seqno, self.serial));
            let oldest = live.first_key_value().map(|(k, _)| k.0);
            let passes = |oldest: Option<SequenceNumber>| {
                oldest.unwrap_or(u64::MAX) > self.list.threshold.load(Ordering::Relaxed)
            };
            let is_wanted = match self.is_hidden {
                true => self.list.is_owed.load(Ordering::Relaxed),
                false => passes(live.iter().find(|l| !l.1.is_hidden).map(|(k, _)| k.0)),
            };
            let is_heard = is_wanted && passes(oldest);
            // A hidden one may hold back what the last that was asked for let go of: told when that goes.
            let is_owed = is_wanted && !is_heard;
            self.list.is_owed.store(is_owed, Ordering::Relaxed);
            (oldest, is_heard)
        };
        if is_heard && let Some(watch) = self.list.watch.get() {
            watch(oldest);
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.release();
    }
}

/// A point in time. Clones share it; it is released when the last is dropped.
#[derive(Clone)]
pub struct Snapshot(Arc<Held>);

impl Snapshot {
    /// The sequence number up to which reads see.
    pub fn seqno(&self) -> SequenceNumber {
        self.0.seqno
    }

    /// The database it was taken of, as [`SnapshotList::database`] has it.
    #[inline]
    pub(crate) fn database(&self) -> u64 {
        self.0.list.database
    }

    /// Releases it for all who share it, before the last of them goes. Reads through those that are left
    /// still see nothing newer, but miss what compactions have dropped since.
    pub fn release(&self) {
        self.0.release();
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Snapshot({})", self.0.seqno)
    }
}
