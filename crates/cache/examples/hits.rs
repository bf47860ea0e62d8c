//! Cost of cache hits and of inserts into a full cache.
//!
//! `hits [entries] [lookups]`; under callgrind give small numbers.

use spanlith_cache::{Cache, CacheKey, Policy, Priority};
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Processor time of this thread where the system tells (Linux), else elapsed time: other load on the
/// machine should not count.
struct Clock {
    cpu_nanos: Option<u64>,
    wall: Instant,
}

impl Clock {
    fn now() -> Self {
        Self {
            cpu_nanos: cpu_nanos(),
            wall: Instant::now(),
        }
    }

    fn elapsed(&self) -> Duration {
        match (self.cpu_nanos, cpu_nanos()) {
            (Some(start), Some(end)) => Duration::from_nanos(end - start),
            _ => self.wall.elapsed(),
        }
    }
}

fn cpu_nanos() -> Option<u64> {
    std::fs::read_to_string("/proc/thread-self/schedstat")
        .ok()?
        .split(' ')
        .next()?
        .parse()
        .ok()
}

fn main() {
    let mut args = std::env::args()
        .skip(1)
        .map(|a| a.parse::<usize>().expect("a number"));
    let entries = args.next().unwrap_or(2_000);
    let lookups = args.next().unwrap_or(5_000_000);
    for policy in [Policy::Clock, Policy::Lru] {
        let cache = Cache::new(entries * 4096 * 5 / 4, policy);
        let key = |n: usize| CacheKey {
            file: 1 + n as u64 % 10,
            block: n as u64 / 10 * 4096,
        };
        for n in 0..entries {
            cache
                .insert(key(n), Arc::new(n), 4096, Priority::Low)
                .expect("not strict");
        }
        let mut random = 0x9e37_79b9u64;
        let mut next = || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            (random >> 20) as usize % entries
        };
        let mut found = 0;
        let start = Clock::now();
        for _ in 0..lookups {
            found += usize::from(black_box(cache.lookup(&key(next()))).is_some());
        }
        let hit = start.elapsed();
        let start = Clock::now();
        for n in entries..entries + lookups / 10 {
            cache
                .insert(key(n), Arc::new(n), 4096, Priority::Low)
                .expect("not strict");
        }
        let insert = start.elapsed();
        let threads = 2;
        let start = Instant::now();
        std::thread::scope(|s| {
            for t in 0..threads {
                let cache = &cache;
                s.spawn(move || {
                    for n in 0..lookups / 2 {
                        black_box(cache.lookup(&key(entries + (n * 7 + t) % entries)));
                    }
                });
            }
        });
        println!(
            "{policy:?}: {entries} entries, {:.2} found, hit {:.1} ns, insert when full {:.1} ns, \
             lookup by {threads} threads {:.1} ns each",
            found as f64 / lookups as f64,
            hit.as_nanos() as f64 / lookups as f64,
            insert.as_nanos() as f64 / (lookups / 10) as f64,
            start.elapsed().as_nanos() as f64 / (lookups / 2) as f64,
        );
    }
}
