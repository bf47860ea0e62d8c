//! Models for shuttle: lookups that pin, inserts that evict, and erasures, with locks taken in turns
//! that a scheduler chooses.

use crate::{Cache, CacheKey, Policy, Priority};
use shuttle::thread;
use spanlith_base::sync::explore;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A value that says whether it still is one.
struct Block {
    alive: Arc<AtomicUsize>,
    number: u64,
}

impl Drop for Block {
    fn drop(&mut self) {
        self.number = u64::MAX;
        self.alive.fetch_sub(1, Ordering::SeqCst);
    }
}

const KEYS: u64 = 3;

fn key(block: u64) -> CacheKey {
    CacheKey { file: 1, block }
}

fn model(policy: Policy) {
    let alive = Arc::new(AtomicUsize::new(0));
    // Room for two of three blocks.
    let cache: Cache<Block> = Cache::with_shards(200, policy, 0, false);
    let readers: Vec<_> = (0..3_u64)
        .map(|reader| {
            let (cache, alive) = (cache.clone(), alive.clone());
            thread::spawn(move || {
                let mut pinned = Vec::new();
                for n in 0..3 {
                    let block = (reader + n) % KEYS;
                    let value = cache.lookup(&key(block)).unwrap_or_else(|| {
                        alive.fetch_add(1, Ordering::SeqCst);
                        let value = Arc::new(Block {
                            alive: alive.clone(),
                            number: block,
                        });
                        let added = cache.insert(key(block), value.clone(), 100, Priority::Low);
                        added.expect("the cache is not strict");
                        value
                    });
                    pinned.push((block, value));
                    if n == 1 {
                        pinned.remove(0);
                    }
                    for (block, value) in &pinned {
                        assert_eq!(value.number, *block, "K1: freed or mixed up while pinned");
                    }
                }
            })
        })
        .collect();
    let erasing = cache.clone();
    let eraser = thread::spawn(move || {
        for block in 0..KEYS {
            erasing.erase(&key(block));
        }
    });
    for thread in readers.into_iter().chain([eraser]) {
        thread.join().unwrap();
    }
    // Nothing is pinned any more: an insert brings the charge back under the capacity.
    alive.fetch_add(1, Ordering::SeqCst);
    let last = Arc::new(Block {
        alive: alive.clone(),
        number: 9,
    });
    let added = cache.insert(key(9), last, 100, Priority::Low);
    added.expect("the cache is not strict");
    assert!(cache.usage() <= 200, "K1: {}", cache.usage());
    assert_eq!(
        alive.load(Ordering::SeqCst),
        cache.len(),
        "leaked or freed twice"
    );
    drop(cache);
    assert_eq!(alive.load(Ordering::SeqCst), 0);
}

#[test]
fn pinned_blocks_outlive_eviction_by_age_and_erasure() {
    explore("cache: insert, erase, evict, pins (LRU)", || {
        model(Policy::Lru)
    });
}

#[test]
fn pinned_blocks_outlive_eviction_by_the_hand_and_erasure() {
    explore("cache: insert, erase, evict, pins (clock)", || {
        model(Policy::Clock)
    });
}
