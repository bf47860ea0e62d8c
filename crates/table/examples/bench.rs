//! Measures builder, lookups and iterators on one table in memory, everything cached.
//!
//! ```text
//! cargo run --release -p spanlith-table --example bench            all measurements
//! cargo run --release -p spanlith-table --example bench -- NAME N  one, over N operations
//! valgrind --tool=callgrind --toggle-collect='*::measured_NAME' target/.../bench NAME N
//! ```
//!
//! Names: build, get_hit, get_miss, seek_next10, next, prev, compaction, file (writes the table to
//! the path given instead of N; `file5` in format version 5 with LZ4).
//!
//! A million entries of 16-byte keys and 100-byte values, Bloom filter of 10 bits per key, no
//! compression, format version 7.

use spanlith_base::CompressionType;
use spanlith_base::keys::{MAX_SEQUENCE, internal_key, pack_tag, seek_tag};
use spanlith_base::{Error, Result};
use spanlith_cache::Policy;
use spanlith_env::{RandomAccessFile, WritableFile};
use spanlith_table::{
    BlockCache, BuilderOptions, FilterKind, ReadParams, ReaderOptions, TableBuilder, TableOptions,
    TableReader,
};
use std::hint::black_box;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Instant;

const ENTRIES: u64 = 1_000_000;
const ROUNDS: usize = 5;

#[derive(Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl WritableFile for Sink {
    fn append(&mut self, data: &[u8]) -> Result<()> {
        let mut bytes = self.0.lock().map_err(|_| Error::io("poisoned"))?;
        bytes.extend_from_slice(data);
        Ok(())
    }
    fn sync(&mut self) -> Result<()> {
        Ok(())
    }
    fn len(&self) -> u64 {
        self.0.lock().map_or(0, |b| b.len() as u64)
    }
    fn close(&mut self) -> Result<()> {
        Ok(())
    }
    fn path(&self) -> &Path {
        Path::new("mem.sst")
    }
}

struct Source(Vec<u8>);

impl RandomAccessFile for Source {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let rest = self.0.get(offset as usize..).unwrap_or_default();
        let n = rest.len().min(buf.len());
        buf[..n].copy_from_slice(&rest[..n]);
        Ok(n)
    }
    fn size(&self) -> u64 {
        self.0.len() as u64
    }
    fn path(&self) -> &Path {
        Path::new("mem.sst")
    }
}

/// As db_bench: the number in eight bytes, then ASCII zeros. Even numbers exist.
fn key(i: u64) -> [u8; 16] {
    let mut key = [b'0'; 16];
    key[..8].copy_from_slice(&(i * 2).to_be_bytes());
    key
}

fn absent(i: u64) -> [u8; 16] {
    let mut key = key(i);
    key[7] |= 1;
    key
}

fn scatter(i: u64) -> u64 {
    (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) % ENTRIES
}

#[inline(never)]
fn measured_build(options: BuilderOptions, n: u64) -> Vec<u8> {
    let sink = Sink::default();
    let bytes = sink.0.clone();
    let mut builder = TableBuilder::new(options, Box::new(sink));
    let mut value = [0u8; 100];
    let mut internal = [0u8; 24];
    for i in 0..n {
        internal[..16].copy_from_slice(&key(i));
        internal[16..].copy_from_slice(&pack_tag(i + 1, 1).to_le_bytes());
        value[..8].copy_from_slice(&i.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
        builder.add(&internal, &value).expect("keys increase");
    }
    builder.finish().expect("memory does not fail");
    let mut bytes = bytes.lock().expect("no panic while held");
    std::mem::take(&mut *bytes)
}

#[inline(never)]
fn measured_get_hit(reader: &TableReader, n: u64) -> u64 {
    let params = ReadParams::default();
    let mut found = 0;
    for i in 0..n {
        let key = key(scatter(i));
        let got = reader.get(&key, MAX_SEQUENCE, &params, |_, value, _| {
            found += value.len() as u64;
            ControlFlow::Break(())
        });
        got.expect("no damage");
    }
    found
}

#[inline(never)]
fn measured_get_miss(reader: &TableReader, n: u64) -> u64 {
    let params = ReadParams::default();
    let mut found = 0;
    for i in 0..n {
        let key = absent(scatter(i));
        let got = reader.get(&key, MAX_SEQUENCE, &params, |_, value, _| {
            found += value.len() as u64;
            ControlFlow::Break(())
        });
        got.expect("no damage");
    }
    found
}

#[inline(never)]
fn measured_seek_next10(reader: &Arc<TableReader>, n: u64) -> u64 {
    let mut sum = 0;
    for i in 0..n {
        let mut iter = reader.iter(ReadParams::default());
        iter.seek(&internal_key(&key(scatter(i)), seek_tag(MAX_SEQUENCE)));
        for _ in 0..10 {
            if !iter.valid() {
                break;
            }
            sum += u64::from(iter.key()[7]) + u64::from(iter.value()[0]);
            iter.next();
        }
    }
    sum
}

#[inline(never)]
fn measured_next(reader: &Arc<TableReader>, n: u64) -> u64 {
    walk(reader, n, ReadParams::default())
}

#[inline(never)]
fn measured_compaction(reader: &Arc<TableReader>, n: u64) -> u64 {
    let params = ReadParams {
        bypass_cache: true,
        deadline_micros: 0,
        is_counted: false,
        readahead: 1 << 20,
        ..ReadParams::default()
    };
    walk(reader, n, params)
}

#[inline(always)]
fn walk(reader: &Arc<TableReader>, n: u64, params: ReadParams) -> u64 {
    let mut iter = reader.iter(params);
    let mut sum = 0;
    iter.seek_to_first();
    for _ in 0..n {
        if !iter.valid() {
            iter.seek_to_first();
        }
        sum += u64::from(iter.key()[7]) + u64::from(iter.value()[0]);
        iter.next();
    }
    sum
}

#[inline(never)]
fn measured_prev(reader: &Arc<TableReader>, n: u64) -> u64 {
    let mut iter = reader.iter(ReadParams::default());
    let mut sum = 0;
    iter.seek_to_last();
    for _ in 0..n {
        if !iter.valid() {
            iter.seek_to_last();
        }
        sum += u64::from(iter.key()[7]) + u64::from(iter.value()[0]);
        iter.prev();
    }
    sum
}

fn options(format_version: u32, compression: CompressionType) -> BuilderOptions {
    BuilderOptions {
        table: TableOptions {
            format_version,
            filter: FilterKind::Bloom { bits: 10.0 },
            ..TableOptions::default()
        },
        compression,
        column_family_id: 0,
        column_family_name: "default".into(),
        db_id: "0e9c2d0c-6a5c-4f3e-9a55-7f5bb3a0c1d2".into(),
        db_session_id: "F2JAEHDH6WS1ADNSNBHM".into(),
        file_number: 7,
        ..BuilderOptions::default()
    }
}

/// Runs `what` over `n` operations five times and prints the best and the median time of one.
fn report(name: &str, n: u64, what: impl Fn() -> u64) {
    let mut times: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            black_box(what());
            start.elapsed().as_nanos() as f64 / n as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    println!(
        "{name:12} {:8.1} ns  (median {:.1})",
        times[0],
        times[ROUNDS / 2]
    );
}

fn main() {
    let mut args = std::env::args().skip(1);
    let only = args.next();
    let count = args.next();
    if let (Some(name @ ("file" | "file5")), Some(path)) = (only.as_deref(), &count) {
        let built = match name {
            "file5" => measured_build(options(5, CompressionType::Lz4), 100_000),
            _ => measured_build(options(7, CompressionType::None), 100_000),
        };
        std::fs::write(path, built).expect("writable path");
        return;
    }
    let n = count.and_then(|c| c.parse().ok()).unwrap_or(ENTRIES);
    let wants = |name: &str| only.as_deref().is_none_or(|o| o == name);
    if wants("build") {
        report("build", n, || {
            measured_build(options(7, CompressionType::None), n).len() as u64
        });
        report("build lz4", n, || {
            measured_build(options(7, CompressionType::Lz4), n).len() as u64
        });
    }
    let bytes = measured_build(options(7, CompressionType::None), ENTRIES);
    let size = bytes.len() as u64;
    let cache = BlockCache::new(1 << 30, Policy::Lru);
    let options = ReaderOptions {
        cache: Some(cache),
        ..ReaderOptions::default()
    };
    let reader = TableReader::open(Arc::new(Source(bytes)), size, options).expect("own table");
    // Fill the cache.
    black_box(measured_warm(&reader));
    if wants("get_hit") {
        report("get_hit", n, || measured_get_hit(&reader, n));
    }
    if wants("get_miss") {
        report("get_miss", n, || measured_get_miss(&reader, n));
    }
    if wants("seek_next10") {
        report("seek_next10", n, || measured_seek_next10(&reader, n));
    }
    if wants("next") {
        report("next", n, || measured_next(&reader, n));
    }
    if wants("prev") {
        report("prev", n, || measured_prev(&reader, n));
    }
    if wants("compaction") {
        report("compaction", n, || measured_compaction(&reader, n));
    }
}

#[inline(never)]
fn measured_warm(reader: &Arc<TableReader>) -> u64 {
    walk(reader, ENTRIES, ReadParams::default())
}
