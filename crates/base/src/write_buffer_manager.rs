//! One memory budget for the write buffers of several databases: RocksDB's write buffer manager.
//!
//! Memtables reserve what they hold. Once the mutable ones hold more than seven eighths of the budget,
//! or all hold all of it and half is mutable, somebody should flush; whoever writes next asks and does.
//! With `allow_stall`, writers wait while all of it is used.
//!
//! The budget can be charged to a cache in steps of 256 KiB, so that both together stay within the
//! cache's capacity: a step is an entry that the cache holds and that frees itself when dropped.
//!
//! Threads: any. Asking costs two relaxed loads.

use crate::sync::{Condvar, Mutex};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Above the engine's locks; the cache's, which is taken under it, is above.
const RANK: u8 = 88;
/// Bytes of one entry in the cache.
pub const CHARGE_BYTES: u64 = 256 << 10;

/// An entry of [`CHARGE_BYTES`] in a cache; leaves it when dropped.
pub type CacheEntry = Box<dyn Send + Sync>;
/// Puts an entry of [`CHARGE_BYTES`] into a cache; `None` if it is full and strict.
pub type ChargeCache = Box<dyn Fn() -> Option<CacheEntry> + Send + Sync>;

/// Which write buffer is flushed when the budget is used up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FlushPolicy {
    /// The one with the oldest entry.
    #[default]
    Oldest,
    /// The one of the database that holds most memory.
    Largest,
}

impl FlushPolicy {
    /// The policy that RocksDB's C functions give that number; `None` for others, among them 2, the largest of all
    /// databases, which there is not.
    pub fn from_number(number: i32) -> Option<Self> {
        match number {
            0 => Some(Self::Oldest),
            1 => Some(Self::Largest),
            _ => None,
        }
    }

    /// Its number.
    pub fn number(self) -> i32 {
        match self {
            Self::Oldest => 0,
            Self::Largest => 1,
        }
    }
}

/// A budget for the write buffers of several databases.
pub struct WriteBufferManager {
    /// Bytes; 0 means no limit. Relaxed, as all here: numbers that stand for themselves.
    limit: AtomicU64,
    allow_stall: AtomicBool,
    /// Says whether the largest buffer is flushed, not the oldest.
    takes_largest: AtomicBool,
    /// Bytes of all write buffers.
    used: AtomicU64,
    /// Bytes of those that still take writes.
    mutable: AtomicU64,
    charge: Option<ChargeCache>,
    /// Entries in the cache; the mutex also belongs to `freed`.
    entries: Mutex<Vec<CacheEntry>>,
    freed: Condvar,
}

impl std::fmt::Debug for WriteBufferManager {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WriteBufferManager")
            .field("limit", &self.limit())
            .field("used", &self.used())
            .finish_non_exhaustive()
    }
}

impl WriteBufferManager {
    /// A budget of `limit` bytes (0: none), charged to a cache by `charge` if there is one.
    pub fn new(limit: u64, charge: Option<ChargeCache>, allow_stall: bool) -> Self {
        Self {
            limit: AtomicU64::new(limit),
            allow_stall: AtomicBool::new(allow_stall),
            takes_largest: AtomicBool::new(false),
            used: AtomicU64::new(0),
            mutable: AtomicU64::new(0),
            charge,
            entries: Mutex::new(RANK, Vec::new()),
            freed: Condvar::new(),
        }
    }

    /// Returns whether there is a limit.
    pub fn is_enabled(&self) -> bool {
        self.limit() > 0
    }

    /// Returns whether the budget is charged to a cache.
    pub fn is_charged(&self) -> bool {
        self.charge.is_some()
    }

    /// The limit in bytes; 0 means none.
    pub fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    /// Changes the limit; writers that it lets go on are woken.
    pub fn set_limit(&self, bytes: u64) {
        self.limit.store(bytes, Ordering::Relaxed);
        self.wake();
    }

    /// Changes whether writers wait for room.
    pub fn set_allow_stall(&self, allow: bool) {
        self.allow_stall.store(allow, Ordering::Relaxed);
        self.wake();
    }

    /// Which write buffer is flushed when the budget is used up.
    pub fn policy(&self) -> FlushPolicy {
        match self.takes_largest.load(Ordering::Relaxed) {
            true => FlushPolicy::Largest,
            false => FlushPolicy::Oldest,
        }
    }

    /// Changes that.
    pub fn set_policy(&self, policy: FlushPolicy) {
        let is_largest = policy == FlushPolicy::Largest;
        self.takes_largest.store(is_largest, Ordering::Relaxed);
    }

    /// Bytes of all write buffers.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Bytes of the write buffers that still take writes.
    pub fn mutable(&self) -> u64 {
        self.mutable.load(Ordering::Relaxed)
    }

    /// Bytes charged to the cache.
    pub fn charged(&self) -> u64 {
        self.entries.lock().len() as u64 * CHARGE_BYTES
    }

    /// A write buffer that takes writes has grown.
    pub fn reserve(&self, bytes: u64) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
        self.mutable.fetch_add(bytes, Ordering::Relaxed);
        self.follow();
    }

    /// A write buffer was sealed: its bytes are going to be free.
    pub fn seal(&self, bytes: u64) {
        subtract(&self.mutable, bytes);
    }

    /// A sealed write buffer is gone.
    pub fn free(&self, bytes: u64) {
        subtract(&self.used, bytes);
        self.follow();
        if !self.should_stall() {
            self.wake();
        }
    }

    /// Returns whether some write buffer should be flushed to keep within the budget.
    pub fn should_flush(&self) -> bool {
        let limit = self.limit();
        if limit == 0 {
            return false;
        }
        let mutable = self.mutable();
        mutable > limit - limit / 8 || (self.used() >= limit && mutable >= limit / 2)
    }

    /// Returns whether writers should wait.
    pub fn should_stall(&self) -> bool {
        let limit = self.limit();
        limit > 0 && self.allow_stall.load(Ordering::Relaxed) && self.used() >= limit
    }

    /// Waits while writers should, at most `time`; returns whether they still should. Whoever waits for
    /// longer calls again, after looking whether its database is closing.
    pub fn wait_for_room(&self, time: Duration) -> bool {
        let mut entries = self.entries.lock();
        let mut is_over = false;
        while self.should_stall() && !is_over {
            (entries, is_over) = self.freed.wait_timeout(entries, time);
        }
        drop(entries);
        self.should_stall()
    }

    fn wake(&self) {
        // Taken so that nobody is between looking and waiting.
        drop(self.entries.lock());
        self.freed.notify_all();
    }

    /// Makes the entries in the cache follow the use. Fewer are given back only below three quarters, so
    /// that a use that swings does not wear the cache out.
    fn follow(&self) {
        let Some(charge) = &self.charge else { return };
        let mut entries = self.entries.lock();
        let used = self.used();
        while (entries.len() as u64) * CHARGE_BYTES < used {
            // A full cache is no reason to refuse a write: the rest is tried with the next one.
            match charge() {
                Some(entry) => entries.push(entry),
                None => break,
            }
        }
        let held = entries.len() as u64 * CHARGE_BYTES;
        if used < held / 4 * 3 {
            let wanted = usize::try_from(used.div_ceil(CHARGE_BYTES)).unwrap_or(usize::MAX);
            entries.truncate(wanted);
        }
    }
}

/// Subtracts without wrapping: a caller that frees twice does harm enough.
fn subtract(from: &AtomicU64, bytes: u64) {
    // The closure never refuses.
    let _ = from.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| {
        Some(n.saturating_sub(bytes))
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_flush_is_due_at_seven_eighths_mutable_or_when_all_is_used() {
        let m = WriteBufferManager::new(800, None, false);
        assert!(m.is_enabled() && !m.is_charged());
        m.reserve(700);
        assert!(!m.should_flush());
        m.reserve(1);
        assert!(m.should_flush());
        m.seal(301);
        assert_eq!((m.used(), m.mutable()), (701, 400));
        assert!(!m.should_flush());
        m.reserve(99);
        assert!(m.should_flush(), "all is used and half of it is mutable");
        m.seal(100);
        assert!(!m.should_flush(), "flushes under way free the rest");
        m.free(800);
        assert_eq!((m.used(), m.charged()), (0, 0));
        let none = WriteBufferManager::new(0, None, true);
        none.reserve(1 << 40);
        assert!(!none.should_flush() && !none.should_stall());
    }

    #[test]
    fn writers_wait_until_something_is_freed() {
        let m = Arc::new(WriteBufferManager::new(100, None, true));
        m.reserve(100);
        assert!(m.should_stall());
        assert!(
            m.wait_for_room(Duration::from_millis(1)),
            "nothing was freed"
        );
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| m.wait_for_room(Duration::from_secs(60)));
            m.free(1);
            assert!(!waiting.join().unwrap());
        });
        m.reserve(1);
        m.set_allow_stall(false);
        assert!(!m.wait_for_room(Duration::from_secs(60)));
        m.set_allow_stall(true);
        m.set_limit(1000);
        assert!(!m.should_stall());
    }

    #[test]
    fn the_cache_is_charged_in_steps_and_given_back_with_slack() {
        let entries = Arc::new(());
        let held = Arc::clone(&entries);
        let charge: ChargeCache = Box::new(move || {
            let full = Arc::strong_count(&held) > 2 + 4;
            (!full).then(|| Box::new(Arc::clone(&held)) as CacheEntry)
        });
        let m = WriteBufferManager::new(1 << 30, Some(charge), false);
        let count = || Arc::strong_count(&entries) - 2;
        m.reserve(1);
        assert_eq!((count(), m.charged()), (1, CHARGE_BYTES));
        m.reserve(CHARGE_BYTES * 4 - 1);
        assert_eq!(count(), 4);
        m.reserve(CHARGE_BYTES * 10);
        assert_eq!(count(), 5, "a full cache refuses nothing");
        m.free(CHARGE_BYTES * 10);
        assert_eq!(count(), 5);
        m.free(CHARGE_BYTES);
        assert_eq!(count(), 3);
        m.free(u64::MAX);
        assert_eq!((count(), m.used()), (0, 0));
    }
}
