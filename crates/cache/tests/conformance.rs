//! Describes what both policies promise, against a plain map and under many threads.

use spanlith_base::{ErrorKind, SubCode};
use spanlith_cache::{Cache, CacheKey, Policy, Priority};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

const POLICIES: [Policy; 2] = [Policy::Lru, Policy::Clock];

/// Seed of a random test: `SEED` or a fixed one; printed, so that a failure can be repeated.
fn seed() -> u64 {
    let seed = std::env::var("SEED")
        .ok()
        .and_then(|s| s.parse().ok())
        .unwrap_or(0x5eed);
    println!("SEED={seed}");
    seed
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % n
    }
}

fn key(n: usize) -> CacheKey {
    CacheKey {
        file: 1 + n as u64 % 3,
        block: n as u64 * 4096,
    }
}

fn one_shard(capacity: usize, policy: Policy) -> Cache<usize> {
    Cache::with_shards(capacity, policy, 0, false)
}

fn put(cache: &Cache<usize>, n: usize, charge: usize) {
    cache
        .insert(key(n), Arc::new(n), charge, Priority::Low)
        .unwrap();
}

#[test]
fn what_is_found_is_what_was_inserted_and_the_charges_add_up() {
    let mut r = Random(seed());
    for policy in POLICIES {
        for strict in [false, true] {
            let cache = Cache::with_shards(5_000, policy, 1, strict);
            // Values and charges as last inserted; an entry may be missing from the cache.
            let mut model: HashMap<usize, (Arc<usize>, usize)> = HashMap::new();
            let mut pins: Vec<Arc<usize>> = Vec::new();
            let mut evicted = 0;
            for step in 0..60_000 {
                let n = r.below(300);
                match r.below(10) {
                    0..=3 => {
                        let charge = r.below(100);
                        let value = Arc::new(step);
                        let priority =
                            [Priority::High, Priority::Low, Priority::Bottom][r.below(3)];
                        if r.below(4) == 0 {
                            pins.push(value.clone());
                        }
                        let result = cache.insert(key(n), value, charge, priority);
                        match result {
                            // The model must not hold the value, or everything were pinned.
                            Ok(()) => {
                                model.insert(n, (Arc::new(step), charge));
                            }
                            Err(e) => {
                                assert!(strict);
                                assert_eq!(e.kind(), ErrorKind::Incomplete);
                                assert_eq!(e.subcode(), Some(SubCode::MemoryLimit));
                                model.remove(&n);
                            }
                        }
                    }
                    4..=7 => match (cache.lookup(&key(n)), model.get(&n)) {
                        (Some(found), Some((want, _))) => {
                            assert_eq!(found, *want);
                            if r.below(20) == 0 {
                                pins.push(found);
                            }
                        }
                        (Some(found), None) => panic!("{found} was never inserted, or erased"),
                        (None, Some(_)) => {
                            evicted += 1;
                            model.remove(&n);
                        }
                        (None, None) => {}
                    },
                    8 => {
                        cache.erase(&key(n));
                        model.remove(&n);
                    }
                    _ => {
                        let keep = r.below(pins.len() + 1);
                        pins.truncate(keep.max(pins.len().saturating_sub(10)));
                    }
                }
                if step % 64 == 0 {
                    let (usage, pinned) = (cache.usage(), cache.pinned_usage());
                    if strict {
                        assert!(usage <= cache.capacity(), "K1: {usage}");
                    }
                    assert!(pinned <= usage);
                    // Every entry is found once, and the usage is the sum of their charges.
                    let mut sum = 0;
                    let mut count = 0;
                    model.retain(|&n, (want, charge)| match cache.lookup(&key(n)) {
                        Some(found) => {
                            assert_eq!(found, *want);
                            (sum, count) = (sum + *charge, count + 1);
                            true
                        }
                        None => false,
                    });
                    // A lookup may trim a shard that was over its capacity.
                    assert_eq!((cache.usage() <= usage, cache.len()), (true, count));
                    assert_eq!(cache.usage(), sum);
                }
            }
            assert!(evicted > 100, "{policy:?}: the capacity was never reached");
            drop(pins);
            cache.clear_unpinned();
            assert_eq!(
                (cache.usage(), cache.len(), cache.pinned_usage()),
                (0, 0, 0)
            );
        }
    }
}

#[test]
fn usage_exceeds_the_capacity_by_no_more_than_the_pinned_charge() {
    let mut r = Random(seed());
    for policy in POLICIES {
        let cache = one_shard(1_000, policy);
        let mut pins = Vec::new();
        for n in 0..3_000 {
            let value = Arc::new(n);
            if r.below(3) == 0 {
                pins.push(value.clone());
            }
            cache
                .insert(key(n), value, 1 + r.below(60), Priority::Low)
                .unwrap();
            let (usage, pinned) = (cache.usage(), cache.pinned_usage());
            assert!(usage <= 1_000.max(pinned), "K1: {usage} {pinned}");
            if pins.len() > 40 {
                pins.drain(..30);
            }
        }
    }
}

#[test]
fn a_pinned_entry_survives_any_pressure_and_leaves_after_its_pin() {
    for policy in POLICIES {
        let cache = one_shard(100, policy);
        put(&cache, 0, 60);
        let pin = cache.lookup(&key(0)).unwrap();
        for n in 1..200 {
            put(&cache, n, 30);
        }
        assert_eq!(cache.pinned_usage(), 60);
        assert_eq!(cache.lookup(&key(0)).as_deref(), Some(&0));
        drop(pin);
        for n in 200..400 {
            put(&cache, n, 30);
        }
        assert!(cache.lookup(&key(0)).is_none());
        assert!(cache.usage() <= 100);
    }
}

#[test]
fn a_cache_over_its_capacity_recovers_with_lookups_alone() {
    for policy in POLICIES {
        let cache = one_shard(100, policy);
        let pins: Vec<_> = (0..50).map(Arc::new).collect();
        for (n, pin) in pins.iter().enumerate() {
            cache
                .insert(key(n), pin.clone(), 10, Priority::Low)
                .unwrap();
        }
        assert_eq!((cache.usage(), cache.pinned_usage()), (500, 500));
        for _ in 0..10 {
            assert!(cache.lookup(&key(7)).is_some());
        }
        assert_eq!(cache.len(), 50);
        drop(pins);
        for _ in 0..1_000 {
            cache.lookup(&key(1_000));
        }
        assert!(cache.usage() <= 100, "K1: {}", cache.usage());
    }
}

#[test]
fn a_strict_cache_refuses_what_pinned_entries_leave_no_room_for() {
    for policy in POLICIES {
        let cache: Cache<u8> = Cache::with_shards(100, policy, 0, true);
        let pin = Arc::new(1);
        cache
            .insert(key(1), pin.clone(), 80, Priority::Low)
            .unwrap();
        let err = cache
            .insert(key(2), Arc::new(2), 30, Priority::Low)
            .unwrap_err();
        let text = match policy {
            Policy::Lru => "Insert failed due to LRU cache being full.",
            Policy::Clock => "Insert failed because the cache is full of entries in use.",
        };
        assert_eq!(
            err.to_string(),
            format!(
                "Operation aborted: Memory limit reached: {text}: capacity=100 usage=80 charge=30"
            )
        );
        cache
            .insert(key(2), Arc::new(2), 20, Priority::Low)
            .unwrap();
        drop(pin);
        cache
            .insert(key(3), Arc::new(3), 100, Priority::Low)
            .unwrap();
        assert_eq!((cache.usage(), cache.len()), (100, 1));
    }
}

#[test]
fn a_value_too_large_for_the_cache_pushes_nothing_out() {
    for policy in POLICIES {
        let cache = one_shard(100, policy);
        put(&cache, 1, 50);
        put(&cache, 2, 1_000);
        assert!(cache.lookup(&key(2)).is_none());
        assert!(cache.lookup(&key(1)).is_some());
    }
}

#[test]
fn what_is_used_often_outlives_a_scan() {
    for policy in POLICIES {
        let cache = one_shard(1_000, policy);
        for n in 0..20 {
            put(&cache, n, 10);
        }
        for n in 100..2_000 {
            for hot in 0..20 {
                if n % 20 == hot {
                    assert!(cache.lookup(&key(hot)).is_some(), "{policy:?} at {n}");
                }
            }
            put(&cache, n, 10);
        }
    }
}

#[test]
fn high_priority_outlives_low_priority() {
    for policy in POLICIES {
        let cache = one_shard(1_000, policy);
        for n in 0..100 {
            let priority = if n < 40 {
                Priority::High
            } else {
                Priority::Bottom
            };
            cache.insert(key(n), Arc::new(n), 10, priority).unwrap();
        }
        for n in 100..150 {
            put(&cache, n, 10);
        }
        let left = (0..40).filter(|&n| cache.lookup(&key(n)).is_some()).count();
        assert_eq!(left, 40, "{policy:?}");
    }
}

#[test]
fn spare_room_costs_nobody_anything() {
    for policy in POLICIES {
        let cache = one_shard(1_000, policy);
        for n in 0..50 {
            put(&cache, n, 10);
        }
        let has = |n| cache.lookup(&key(n)).is_some();
        let spare = |n| cache.insert_spare(key(n), Arc::new(n), 10);
        (100..400).for_each(spare);
        assert!(
            (0..50).all(has),
            "{policy:?}: they push out none but their like"
        );
        let kept: Vec<usize> = (100..400).filter(|&n| has(n)).collect();
        assert_eq!((kept.len(), cache.usage()), (50, 1_000), "{policy:?}");
        if policy == Policy::Lru {
            assert_eq!(kept, (350..400).collect::<Vec<_>>(), "the newest stay");
        }
        // An entry is not replaced, and one that can never fit is dropped.
        cache.insert_spare(key(3), Arc::new(99), 10);
        assert_eq!(cache.lookup(&key(3)).as_deref(), Some(&3));
        cache.insert_spare(key(500), Arc::new(500), 1_001);
        assert!(!has(500) && cache.usage() == 1_000, "{policy:?}");
    }
}

#[test]
fn what_took_spare_room_and_was_not_used_leaves_before_all_others() {
    for policy in POLICIES {
        let cache = one_shard(1_000, policy);
        (0..50).for_each(|n| put(&cache, n, 10));
        (100..150).for_each(|n| cache.insert_spare(key(n), Arc::new(n), 10));
        assert_eq!(cache.len(), 100);
        (200..250).for_each(|n| put(&cache, n, 10));
        let left = |mut all: std::ops::Range<usize>| all.all(|n| cache.lookup(&key(n)).is_some());
        assert_eq!(cache.usage(), 1_000, "{policy:?}");
        if policy == Policy::Lru {
            assert!(left(0..50) && left(200..250));
            assert!(!left(100..101));
        }
        // None is left: nothing goes for what would take spare room.
        let before = cache.len();
        cache.insert_spare(key(300), Arc::new(300), 10);
        assert!(policy != Policy::Lru || !left(300..301));
        assert_eq!((cache.len(), cache.usage()), (before, 1_000), "{policy:?}");
    }
}

#[test]
fn the_least_recently_used_entry_leaves_first() {
    let cache = one_shard(100, Policy::Lru);
    for n in 0..10 {
        put(&cache, n, 10);
    }
    for n in [3, 0, 7] {
        cache.lookup(&key(n));
    }
    for n in 10..17 {
        put(&cache, n, 10);
    }
    let left: Vec<_> = (0..10)
        .filter(|&n| cache.lookup(&key(n)).is_some())
        .collect();
    assert_eq!(left, [0, 3, 7]);
}

#[test]
fn a_smaller_capacity_takes_effect_at_once() {
    for policy in POLICIES {
        let cache = one_shard(1_000, policy);
        for n in 0..100 {
            put(&cache, n, 10);
        }
        let pin = cache.lookup(&key(50)).unwrap();
        cache.set_capacity(200);
        assert_eq!(
            (cache.capacity(), cache.usage(), cache.len()),
            (200, 200, 20)
        );
        cache.set_capacity(0);
        assert_eq!((cache.usage(), cache.pinned_usage()), (10, 10));
        drop(pin);
        cache.clear_unpinned();
        assert_eq!(cache.usage(), 0);
        put(&cache, 1, 10);
        assert!(cache.is_empty());
        let held = Arc::new(2);
        cache
            .insert(key(2), held.clone(), 10, Priority::Low)
            .unwrap();
        assert_eq!(cache.usage(), 10);
    }
}

#[test]
fn ids_are_unique_and_handles_share_one_cache() {
    let cache = Cache::new(8 << 20, Policy::Clock);
    let other = cache.clone();
    assert_ne!(cache.new_id(), other.new_id());
    cache.insert(key(1), Arc::new(1), 1, Priority::Low).unwrap();
    assert_eq!(other.lookup(&key(1)).as_deref(), Some(&1));
    assert!(other.lookup(&key(2)).is_none());
    assert_eq!((cache.hits(), cache.misses()), (1, 1));
}

#[test]
fn many_threads_share_a_cache_and_every_value_is_dropped_once() {
    struct Counted(Arc<AtomicI64>, u64);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::Relaxed);
        }
    }
    let seed = seed();
    for policy in POLICIES {
        let alive = Arc::new(AtomicI64::new(0));
        let cache: Cache<Counted> = Cache::with_shards(200_000, policy, 3, false);
        std::thread::scope(|s| {
            for thread in 0..4 {
                let (cache, alive) = (cache.clone(), &alive);
                s.spawn(move || {
                    let mut r = Random(seed + 77 * thread);
                    let mut pins = Vec::new();
                    for _ in 0..40_000 {
                        let n = r.below(500);
                        match cache.lookup(&key(n)) {
                            Some(v) => {
                                assert_eq!(v.1, key(n).block);
                                if r.below(50) == 0 {
                                    pins.push(v);
                                }
                            }
                            None => {
                                alive.fetch_add(1, Ordering::Relaxed);
                                let v = Arc::new(Counted(alive.clone(), key(n).block));
                                cache.insert(key(n), v, 1_000, Priority::Low).unwrap();
                            }
                        }
                        match r.below(200) {
                            0 => cache.erase(&key(n)),
                            1 => pins.clear(),
                            2 => cache.set_capacity(150_000 + r.below(50_000)),
                            3 => assert!(cache.pinned_usage() < 100_000_000),
                            _ => {}
                        }
                    }
                });
            }
        });
        cache.set_capacity(100_000);
        assert!(cache.usage() <= 100_000 + 8 * 1_000);
        assert_eq!(alive.load(Ordering::Relaxed), cache.len() as i64);
        drop(cache);
        assert_eq!(alive.load(Ordering::Relaxed), 0);
    }
}
