//! The shape of the tree after each flush, beside the shape that RocksDB 11.8.1 had after the same.
//!
//! `fixtures/shape` holds what `scripts/shape.py --record` saw of RocksDB, a line per step; this test
//! replays the load. Every decision counts: which level and file is picked, what goes along, where
//! outputs are cut, which tombstones go, and what they weigh. The script itself compares many more
//! loads and options, with both libraries at hand.

use spanlith::options::{CfOptions, CompactionPri, CompressionType};
use spanlith::{Db, LiveFile, WriteOptions};
use std::path::Path;

const STEPS: usize = 50;
const KEYS_PER_STEP: usize = 600;

/// The chain of numbers that the script writes from, too.
struct Chain(u64);

impl Chain {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

fn key(n: u64) -> Vec<u8> {
    format!("k{n:015}").into_bytes()
}

fn number(key: &[u8]) -> u64 {
    std::str::from_utf8(&key[1..]).unwrap().parse().unwrap()
}

fn line(files: &[LiveFile]) -> String {
    let levels = (0..7).filter_map(|level| {
        let own: Vec<_> = files.iter().filter(|f| f.level == level).collect();
        if own.is_empty() {
            return None;
        }
        let entries: u64 = own.iter().map(|f| f.entries).sum();
        let deletions: u64 = own.iter().map(|f| f.deletions).sum();
        let ends = own.iter().map(|f| number(&f.smallest) + number(&f.largest));
        let ends: u64 = ends.sum();
        Some(format!(
            "L{level} {} {entries} {deletions} {ends}",
            own.len()
        ))
    });
    levels.collect::<Vec<_>>().join("\t")
}

fn replay(name: &str, change: impl FnOnce(&mut CfOptions)) {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures/shape")
        .join(format!("{name}.tsv"));
    let expected = std::fs::read_to_string(fixture).unwrap();
    let mut options = CfOptions::default();
    options.compression = CompressionType::None;
    options.target_file_size_base = 32 << 10;
    options.max_bytes_for_level_base = 128 << 10;
    options.max_bytes_for_level_multiplier = 3.0;
    options.ttl = 0;
    options.periodic_compaction_seconds = 0;
    change(&mut options);
    let dir = tempfile::tempdir().unwrap();
    let db = Db::builder(dir.path())
        .create_if_missing(true)
        .no_info_log()
        .cf_options(options)
        .open()
        .unwrap();
    let cf = db.default_cf();
    let no_log = WriteOptions::new().disable_wal(true);
    let mut chain = Chain(1);
    let mut steps = 0;
    for (step, expected) in expected.lines().enumerate() {
        for _ in 0..KEYS_PER_STEP {
            let (n, kind) = (chain.next(20_000), chain.next(1000));
            match kind {
                0..650 => cf.put_opt(key(n), [0; 100], &no_log).unwrap(),
                650..995 => cf.delete_opt(key(n), &no_log).unwrap(),
                _ => cf.delete_range_opt(key(n), key(n + 400), &no_log).unwrap(),
            }
        }
        cf.flush(true).unwrap();
        db.wait_idle(None).unwrap();
        assert_eq!(line(&cf.live_files()), expected, "{name}, step {step}");
        steps += 1;
    }
    assert_eq!(steps, STEPS, "{name}: steps of the fixture");
}

#[test]
fn with_dynamic_levels_all_decisions_are_those_of_rocksdb() {
    replay("dynamic", |_| {});
}

#[test]
fn with_static_levels_all_decisions_are_those_of_rocksdb() {
    replay("static", |o| o.level_compaction_dynamic_level_bytes = false);
}

#[test]
fn with_files_in_turn_all_decisions_are_those_of_rocksdb() {
    replay("turns", |o| o.compaction_pri = CompactionPri::RoundRobin);
}

#[test]
fn with_large_files_first_all_decisions_are_those_of_rocksdb() {
    replay("largest", |o| {
        o.compaction_pri = CompactionPri::ByCompensatedSize;
    });
}
