//! Memory that lies outside a cache and is charged to it, so that both together stay within the cache's
//! capacity: RocksDB's reservations.
//!
//! A reservation is made of entries of [`STEP_BYTES`] that stand for the memory and cannot be evicted; what
//! is in the cache makes room for them. There are always enough of them. Those that are not needed any more
//! go at once or, with a delay, once a quarter is not needed, so that a size that goes up and down does not
//! touch the cache each time.
//!
//! Threads: any. The lock has a rank below that of the cache's shards, which are used under it.

use crate::cache::{Cache, CacheKey, Priority};
use spanlith_base::Result;
use spanlith_base::sync::Mutex;
use std::sync::Arc;

/// Bytes that one entry stands for.
pub const STEP_BYTES: usize = 256 << 10;
/// Below the cache's shards.
const RANK: u8 = 89;

/// When entries go that are not needed any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// At once.
    Prompt,
    /// Once less than three quarters are needed.
    Delayed,
}

#[derive(Default)]
struct State {
    used: usize,
    /// Entries in the cache, by the numbers below this one.
    entries: u64,
}

/// Memory charged to a cache.
pub struct Reservation<V: Send + Sync + 'static> {
    cache: Cache<V>,
    /// Value of all entries, pinned by being held here.
    stand_in: Arc<V>,
    /// The part of the keys that no other user of the cache has.
    file: u64,
    release: Release,
    state: Mutex<State>,
}

impl<V: Send + Sync + 'static> Reservation<V> {
    /// Nothing reserved in `cache` yet; `stand_in` is what its entries will hold.
    pub fn new(cache: &Cache<V>, stand_in: V, release: Release) -> Arc<Self> {
        Arc::new(Self {
            cache: cache.clone(),
            stand_in: Arc::new(stand_in),
            file: cache.new_id(),
            release,
            state: Mutex::new(RANK, State::default()),
        })
    }

    fn key(&self, block: u64) -> CacheKey {
        CacheKey {
            file: self.file,
            block,
        }
    }

    /// Makes the entries fit the memory used.
    fn adjust(&self, state: &mut State) -> Result<()> {
        let charged = |state: &State| state.entries as usize * STEP_BYTES;
        while charged(state) < state.used {
            self.cache.insert(
                self.key(state.entries),
                self.stand_in.clone(),
                STEP_BYTES,
                Priority::High,
            )?;
            state.entries += 1;
        }
        debug_assert_eq!(
            Arc::strong_count(&self.stand_in) as u64,
            1 + state.entries,
            "K1: entries in use stay in the cache"
        );
        if self.release == Release::Delayed && state.used >= charged(state) / 4 * 3 {
            return Ok(());
        }
        while state.used + STEP_BYTES <= charged(state) {
            state.entries -= 1;
            self.cache.erase(&self.key(state.entries));
        }
        Ok(())
    }

    /// Adds `bytes` of memory until the result is dropped.
    ///
    /// # Errors
    /// `Aborted` with `MemoryLimit` if the cache is strict and has no room; nothing is added then.
    pub fn reserve(self: &Arc<Self>, bytes: usize) -> Result<Reserved<V>> {
        let reserved = Reserved {
            from: self.clone(),
            bytes,
        };
        let mut state = self.state.lock();
        state.used += bytes;
        let adjusted = self.adjust(&mut state);
        drop(state);
        adjusted.map(|()| reserved)
    }

    /// Bytes of memory.
    pub fn used(&self) -> usize {
        self.state.lock().used
    }

    /// Bytes charged to the cache.
    pub fn charged(&self) -> usize {
        self.state.lock().entries as usize * STEP_BYTES
    }
}

impl<V: Send + Sync + 'static> Drop for Reservation<V> {
    fn drop(&mut self) {
        let entries = self.state.lock().entries;
        for block in 0..entries {
            self.cache.erase(&self.key(block));
        }
    }
}

impl<V: Send + Sync + 'static> std::fmt::Debug for Reservation<V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reservation")
            .field("used", &self.used())
            .finish_non_exhaustive()
    }
}

/// A part of a reservation, given back when it is dropped.
#[derive(Debug)]
pub struct Reserved<V: Send + Sync + 'static> {
    from: Arc<Reservation<V>>,
    bytes: usize,
}

impl<V: Send + Sync + 'static> Drop for Reserved<V> {
    fn drop(&mut self) {
        let mut state = self.from.state.lock();
        state.used -= self.bytes;
        // Only a cache without room fails. That can still be after a failed reservation; what stands
        // for too little then is made up with the next change.
        let _ = self.from.adjust(&mut state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Policy;

    fn cache(steps: usize, strict: bool) -> Cache<u8> {
        Cache::with_shards(steps * STEP_BYTES, Policy::Lru, 0, strict)
    }

    #[test]
    fn memory_is_charged_in_whole_steps_and_given_back() {
        let cache = cache(8, false);
        let all = Reservation::new(&cache, 0, Release::Prompt);
        let one = all.reserve(1).unwrap();
        assert_eq!(cache.usage(), STEP_BYTES);
        let two = all.reserve(STEP_BYTES).unwrap();
        assert_eq!(cache.usage(), 2 * STEP_BYTES);
        // It cannot be evicted.
        cache.clear_unpinned();
        assert_eq!(cache.usage(), 2 * STEP_BYTES);
        drop(one);
        assert_eq!((all.used(), all.charged()), (STEP_BYTES, STEP_BYTES));
        drop(two);
        assert_eq!(cache.usage(), 0);
    }

    #[test]
    fn a_delayed_release_waits_until_a_quarter_is_not_needed() {
        let cache = cache(16, false);
        let all = Reservation::new(&cache, 0, Release::Delayed);
        let mut parts: Vec<_> = (0..8).map(|_| all.reserve(STEP_BYTES).unwrap()).collect();
        parts.truncate(6);
        assert_eq!(cache.usage(), 8 * STEP_BYTES);
        parts.truncate(5);
        assert_eq!(cache.usage(), 5 * STEP_BYTES);
    }

    #[test]
    fn a_strict_cache_without_room_refuses_and_keeps_what_was_reserved() {
        let cache = cache(2, true);
        let all = Reservation::new(&cache, 0, Release::Prompt);
        let held = all.reserve(STEP_BYTES).unwrap();
        let e = all.reserve(2 * STEP_BYTES).unwrap_err();
        assert_eq!(e.subcode(), Some(spanlith_base::SubCode::MemoryLimit));
        assert_eq!((all.used(), cache.usage()), (STEP_BYTES, STEP_BYTES));
        drop(held);
        assert_eq!(cache.usage(), 0);
    }

    #[test]
    fn what_is_in_the_cache_makes_room_for_a_reservation() {
        let cache = cache(4, true);
        for block in 0..4 {
            let key = CacheKey { file: 99, block };
            cache
                .insert(key, Arc::new(1), STEP_BYTES, Priority::Low)
                .unwrap();
        }
        let all = Reservation::new(&cache, 0, Release::Prompt);
        let held = all.reserve(3 * STEP_BYTES).unwrap();
        assert_eq!((cache.len(), cache.usage()), (4, 4 * STEP_BYTES));
        drop(held);
        assert_eq!(cache.len(), 1);
    }
}
