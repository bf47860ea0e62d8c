//! Cost of memtable operations at 16-byte keys and 100-byte values.
//!
//! `speed [entries] [what…]`; what: random, sequential, many, many-sequential, find, find-many,
//! miss, next, prev, threads. Under callgrind give a small number and one thing.

use spanlith_base::{Comparator, ValueType};
use spanlith_memtable::{Entry, MemTable};
use std::hint::black_box;
use std::sync::{Arc, LazyLock};
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

const VALUE: [u8; 100] = [b'v'; 100];

fn mix(n: u64) -> u64 {
    let x = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x ^ (x >> 31)
}

/// A big-endian number and padding, or with `KEYS=decimal` sixteen decimal digits.
fn key(n: u64) -> [u8; 16] {
    static DECIMAL: LazyLock<bool> =
        LazyLock::new(|| std::env::var("KEYS").is_ok_and(|v| v == "decimal"));
    let mut key = [b'0'; 16];
    if *DECIMAL {
        let mut n = n;
        for digit in key.iter_mut().rev() {
            *digit = b'0' + (n % 10) as u8;
            n /= 10;
        }
    } else {
        key[..8].copy_from_slice(&n.to_be_bytes());
    }
    key
}

fn keys(entries: u64, random: bool) -> Vec<[u8; 16]> {
    (0..entries)
        .map(|n| key(if random { mix(n) % 5_000_000 } else { n }))
        .collect()
}

fn fill(keys: &[[u8; 16]]) -> (Arc<MemTable>, Duration) {
    let table = Arc::new(MemTable::new(Comparator::Bytewise, 1 << 20));
    let start = Clock::now();
    for (n, key) in keys.iter().enumerate() {
        table.add(1 + n as u64, ValueType::Value, key, &VALUE);
    }
    (table, start.elapsed())
}

fn fill_many(keys: &[[u8; 16]]) -> Duration {
    let table = MemTable::new(Comparator::Bytewise, 1 << 20);
    let mut seqno = 0;
    let start = Clock::now();
    let mut entries = Vec::new();
    for chunk in keys.chunks(100) {
        entries.clear();
        for key in chunk {
            seqno += 1;
            entries.push(Entry {
                seqno,
                kind: ValueType::Value,
                key,
                value: &VALUE,
            });
        }
        table.add_many(&entries);
    }
    start.elapsed()
}

fn main() {
    let mut args = std::env::args().skip(1);
    let entries: u64 = args
        .next()
        .map_or(500_000, |a| a.parse().expect("a number"));
    let what: Vec<String> = args.collect();
    let wanted = |name: &str| what.is_empty() || what.iter().any(|w| w == name);
    let random = keys(entries, true);
    let in_order = keys(entries, false);
    let print = |name: &str, took: Duration| {
        println!(
            "{name:16} {:8.1} ns",
            took.as_nanos() as f64 / entries as f64
        );
    };

    let (table, took) = fill(&random);
    if wanted("random") {
        print("random", took);
        println!(
            "{:16} {:8.1} bytes",
            "memory",
            table.memory_usage() as f64 / entries as f64
        );
    }
    if wanted("many") {
        print("many", fill_many(&random));
    }
    if wanted("many-sequential") {
        print("many-sequential", fill_many(&in_order));
    }
    if wanted("find") {
        let start = Clock::now();
        for n in 0..entries {
            let key = &random[(mix(n + 77) % entries) as usize];
            black_box(table.find(key, entries).expect("added above").value()[0]);
        }
        print("find", start.elapsed());
    }
    if wanted("find-many") {
        let start = Clock::now();
        let mut found = [None; 32];
        for first in (0..entries).step_by(32) {
            let keys: [&[u8]; 32] =
                std::array::from_fn(
                    |i| &random[(mix(first + i as u64 + 77) % entries) as usize][..],
                );
            table.find_many(&keys, entries, &mut found);
            for entry in &found {
                black_box(entry.as_ref().expect("added above").value()[0]);
            }
        }
        print("find-many", start.elapsed());
    }
    if wanted("miss") {
        let start = Clock::now();
        for n in 0..entries {
            black_box(
                table
                    .find(&key(5_000_001 + mix(n) % 5_000_000), entries)
                    .is_some(),
            );
        }
        print("miss", start.elapsed());
    }
    if wanted("next-random") {
        print("next-random", scan(&table));
    }
    if wanted("sequential") || wanted("next") || wanted("prev") {
        let (table, took) = fill(&in_order);
        print("sequential", took);
        if wanted("next") {
            print("next", scan(&table));
        }
        if wanted("prev") {
            let start = Clock::now();
            let mut iter = table.iter();
            iter.seek_to_last();
            while iter.valid() {
                black_box((iter.key()[0], iter.value()[0]));
                iter.prev();
            }
            print("prev", start.elapsed());
        }
    }
    if wanted("threads") {
        let table = MemTable::new(Comparator::Bytewise, 1 << 20);
        let start = Instant::now();
        std::thread::scope(|s| {
            for t in 0..2u64 {
                let (table, random) = (&table, &random);
                s.spawn(move || {
                    for n in (t..entries).step_by(2) {
                        let key = &random[n as usize];
                        table.add(1 + n, ValueType::Value, key, &VALUE);
                    }
                });
            }
        });
        print("threads", start.elapsed());
    }
}

fn scan(table: &Arc<MemTable>) -> Duration {
    let start = Clock::now();
    let mut iter = table.iter();
    iter.seek_to_first();
    while iter.valid() {
        black_box((iter.key()[0], iter.value()[0]));
        iter.next();
    }
    start.elapsed()
}
