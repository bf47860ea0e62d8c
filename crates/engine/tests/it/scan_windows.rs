//! Scans over values in blob files where reads are quick and where they wait: what is read, that it is what was written
//! whatever happens meanwhile, and whom damage concerns (R-TR-03, R-TR-14).

use crate::scan_values;
use spanlith::options::{CfOptions, CompressionType};
use spanlith::{
    BlobGcChoice, BlobGcPolicy, BottommostCompaction, Cf, CompactRangeOptions, Cursor, Db, Env,
    ReadOptions, Snapshot,
};
use spanlith_env::mem::MemFs;
use spanlith_env::{Clock, FaultFs, FaultRule, FileSystem, IoActivity, OpClass, VirtualClock};
use spanlith_testkit::{Rng, seed};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// A clock by which whatever is timed takes so many nanoseconds.
struct Steady(VirtualClock, u64);

impl Clock for Steady {
    fn now_micros(&self) -> u64 {
        self.0.now_micros()
    }
    fn monotonic_nanos(&self) -> u64 {
        self.0.advance(Duration::from_nanos(self.1));
        self.0.monotonic_nanos()
    }
    fn sleep(&self, duration: Duration) {
        self.0.sleep(duration);
    }
}

/// Reads answered from memory, and reads of a device, in nanoseconds.
const QUICK: u64 = 500;
const SLOW: u64 = 77_000;

fn open(nanos: u64, change: impl FnOnce(&mut CfOptions)) -> (Env, Db) {
    open_in(Arc::new(MemFs::new()), nanos, change)
}

fn open_in(fs: Arc<dyn FileSystem>, nanos: u64, change: impl FnOnce(&mut CfOptions)) -> (Env, Db) {
    let env = Env {
        fs,
        clock: Arc::new(Steady(VirtualClock::new(), nanos)),
        ..Env::system()
    };
    let db = scan_values::open(&env, change);
    (env, db)
}

fn key(n: usize) -> Vec<u8> {
    format!("key{n:05}").into_bytes()
}

fn value(n: usize, len: usize) -> Vec<u8> {
    let mut value = format!("value {n} ").into_bytes();
    value.resize(len, b'a' + (n % 26) as u8);
    value
}

/// Lengths of the reads of blob files while `work` runs, header and footer left out: those made alone, and those made with
/// others.
fn reads(env: &Env, db: &Db, work: impl FnOnce()) -> (Vec<u64>, Vec<u64>) {
    let (mut alone, mut together) = (Vec::new(), Vec::new());
    for (operation, length) in scan_values::calls(env, db, ".blob", work) {
        match &operation[..] {
            _ if length < 100 => {}
            b"Read" => alone.push(length),
            b"MultiRead" => together.push(length),
            other => panic!("{}", other.escape_ascii()),
        }
    }
    (alone, together)
}

/// Shows `keys` from the first on.
fn show(cursor: &mut Cursor, keys: usize, len: usize) {
    let mut found = cursor.seek_to_first().unwrap();
    for n in 0..keys {
        assert!(found && cursor.key() == key(n) && cursor.value() == value(n, len));
        found = n + 1 < keys && cursor.next().unwrap();
    }
}

#[test]
fn scattered_values_are_read_ahead_only_where_reads_wait() {
    const FILES: usize = 24;
    const KEYS: usize = 240;
    for (nanos, is_ahead) in [(QUICK, false), (SLOW, true)] {
        let (env, db) = open(nanos, |_| {});
        let cf = db.default_cf();
        for file in 0..FILES {
            for n in (0..KEYS).filter(|n| n % FILES == file) {
                cf.put(key(n), value(n, 3000)).unwrap();
            }
            cf.flush(true).unwrap();
        }
        for n in 0..FILES {
            cf.get(key(n)).unwrap().unwrap();
        }
        let work = || show(&mut cf.cursor(ReadOptions::default()), KEYS, 3000);
        let (alone, together) = reads(&env, &db, work);
        match is_ahead {
            true => assert!(alone.len() <= 3 && together.len() >= FILES),
            // Each value when it is shown, and nothing beside it.
            false => {
                assert_eq!((alone.len(), together.len()), (KEYS, 0));
                assert!(alone.iter().all(|&length| length < 3100), "{alone:?}");
            }
        }
    }
}

#[test]
fn values_in_order_are_read_in_steps_that_begin_small_where_reads_are_quick() {
    for (nanos, first) in [(QUICK, 16 << 10), (SLOW, 64 << 10)] {
        let (env, db) = open(nanos, |_| {});
        let cf = db.default_cf();
        for n in 0..500 {
            cf.put(key(n), value(n, 1000)).unwrap();
        }
        cf.flush(true).unwrap();
        cf.get(key(0)).unwrap().unwrap();
        let work = || show(&mut cf.cursor(ReadOptions::default()), 100, 1000);
        let (alone, together) = reads(&env, &db, work);
        assert!(together.is_empty());
        // One, and one that lies after it, make a run.
        assert!(alone[..2].iter().all(|&length| length < 1100), "{alone:?}");
        let steps: Vec<u64> = (0..alone.len() - 2).map(|n| first << n).collect();
        assert_eq!(alone[2..], steps);
    }
}

/// Of ten neighbours one is left: what lies between is read along only where that saves a wait.
#[test]
fn values_some_way_apart_are_read_alone_where_reads_are_quick() {
    for (nanos, is_alone) in [(QUICK, true), (SLOW, false)] {
        let (env, db) = open(nanos, |_| {});
        let cf = db.default_cf();
        for n in 0..400 {
            cf.put(key(n), value(n, 1000)).unwrap();
        }
        cf.flush(true).unwrap();
        for n in (0..400).filter(|n| n % 10 != 0) {
            cf.delete(key(n)).unwrap();
        }
        cf.get(key(0)).unwrap().unwrap();
        let work = || {
            let shown: Vec<_> = cf.iter().map(|entry| entry.unwrap().1).collect();
            assert_eq!(shown.len(), 40);
            for (n, shown) in shown.iter().enumerate() {
                assert_eq!(&shown[..], value(n * 10, 1000));
            }
        };
        let (alone, together) = reads(&env, &db, work);
        assert!(together.is_empty());
        match is_alone {
            true => assert!(alone.len() == 40 && alone.iter().all(|&length| length < 1100)),
            false => assert!(alone.len() < 8, "{alone:?}"),
        }
    }
}

/// Flipped bytes within what a window holds: the entry whose value they are in fails, with file and offset, and no other.
#[test]
fn damage_in_a_window_concerns_one_entry_in_either_direction() {
    const KEYS: usize = 200;
    const BAD: usize = 120;
    for nanos in [QUICK, SLOW] {
        let (env, db) = open(nanos, |_| {});
        let cf = db.default_cf();
        for n in 0..KEYS {
            cf.put(key(n), value(n, 1000)).unwrap();
        }
        cf.flush(true).unwrap();
        let dir = Path::new("/db");
        let name = blobs(&env).remove(0);
        let mut bytes = env.fs.read_all(&dir.join(&name), u64::MAX).unwrap();
        let text = value(BAD, 20);
        let at = bytes.windows(20).position(|w| w == text).unwrap();
        bytes[at + 500] ^= 1;
        let mut file = env.fs.create(&dir.join(&name), IoActivity::Other).unwrap();
        file.append(&bytes).unwrap();
        file.close().unwrap();
        let check = |e: &spanlith::Error| {
            let text = e.to_string();
            assert_eq!(e.kind(), spanlith::ErrorKind::Corruption, "{text}");
            let told = ["Blob CRC mismatch", &name[..], &at.to_string()[..]];
            assert!(told.iter().all(|part| text.contains(part)), "{text}");
        };
        let mut cursor = cf.cursor(ReadOptions::default());
        show(&mut cursor, BAD, 1000);
        check(&cursor.next().unwrap_err());
        assert!(cursor.seek(&key(BAD + 1)).unwrap());
        for n in BAD + 1..KEYS {
            assert_eq!(cursor.value(), value(n, 1000));
            assert_eq!(cursor.next().unwrap(), n + 1 < KEYS);
        }
        assert!(cursor.seek_to_last().unwrap());
        for n in (BAD + 1..KEYS).rev() {
            assert_eq!(cursor.value(), value(n, 1000));
            match cursor.prev() {
                Err(e) if n == BAD + 1 => check(&e),
                found => assert!(found.unwrap() && n > BAD + 1),
            }
        }
        assert!(cursor.seek_for_prev(&key(BAD - 1)).unwrap());
        for n in (0..BAD).rev() {
            assert_eq!(cursor.value(), value(n, 1000));
            assert_eq!(cursor.prev().unwrap(), n > 0);
        }
    }
}

fn blobs(env: &Env) -> Vec<String> {
    let mut names = env.fs.list(Path::new("/db")).unwrap();
    names.retain(|name| name.ends_with(".blob"));
    names
}

/// A compaction that moves all values into new blob files.
fn collect() -> CompactRangeOptions {
    CompactRangeOptions {
        bottommost: BottommostCompaction::Force,
        blob_gc: BlobGcChoice {
            policy: BlobGcPolicy::Force,
            age_cutoff: Some(1.0),
        },
        ..CompactRangeOptions::default()
    }
}

/// A step that could not be read leaves nothing that would be taken for values, although nothing is verified.
#[test]
fn a_step_that_fails_is_made_up_for_and_leaves_nothing_behind() {
    for nanos in [QUICK, SLOW] {
        for nth in 1..6 {
            let faults = Arc::new(FaultFs::new(Arc::new(MemFs::new())));
            let (_, db) = open_in(faults.clone(), nanos, |_| {});
            let cf = db.default_cf();
            for n in 0..300 {
                cf.put(key(n), value(n, 1000)).unwrap();
            }
            cf.flush(true).unwrap();
            cf.get(key(0)).unwrap().unwrap();
            let mut options = ReadOptions::default();
            options.verify_checksums = false;
            let mut cursor = cf.cursor(options);
            let rule = faults.add(FaultRule::fail(OpClass::Read, nth, 5).named(".blob"));
            show(&mut cursor, 300, 1000);
            assert_eq!(faults.fired(rule), 1);
        }
    }
}

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// A cursor, what it shows, and where it stands.
struct Walk {
    cursor: Cursor,
    model: Model,
    at: Option<Vec<u8>>,
}

impl Walk {
    fn new(cf: &Cf, model: &Model, snapshot: Option<Snapshot>) -> Self {
        let mut options = ReadOptions::default();
        options.snapshot = snapshot;
        Self {
            cursor: cf.cursor(options),
            model: model.clone(),
            at: None,
        }
    }

    fn go(&mut self, rng: &mut Rng) {
        let after = |model: &Model, from: Bound<Vec<u8>>| {
            let next = model.range((from, Bound::Unbounded)).next();
            next.map(|(k, _)| k.clone())
        };
        let before = |model: &Model, to: Bound<Vec<u8>>| {
            let last = model.range((Bound::Unbounded, to)).next_back();
            last.map(|(k, _)| k.clone())
        };
        let target = key(rng.below(400) as usize);
        let forward = rng.below(2) == 0;
        self.at = match forward {
            true => {
                self.cursor.seek(&target).unwrap();
                after(&self.model, Bound::Included(target))
            }
            false => {
                self.cursor.seek_for_prev(&target).unwrap();
                before(&self.model, Bound::Included(target))
            }
        };
        self.check();
        let (steps, mut forward) = (rng.below(120), forward);
        for _ in 0..steps {
            let Some(at) = self.at.take() else { return };
            if rng.below(25) == 0 {
                forward = !forward;
            }
            self.at = match forward {
                true => {
                    self.cursor.next().unwrap();
                    after(&self.model, Bound::Excluded(at))
                }
                false => {
                    self.cursor.prev().unwrap();
                    before(&self.model, Bound::Excluded(at))
                }
            };
            self.check();
        }
    }

    fn check(&self) {
        assert_eq!(self.cursor.valid(), self.at.is_some());
        if let Some(at) = &self.at {
            assert_eq!(self.cursor.key(), at);
            assert!(self.cursor.value() == self.model[at], "value of {at:?}");
        }
    }
}

/// Cursors that live on while values are overwritten, and while blob files that they show are collected.
#[test]
fn cursors_show_what_was_there_when_they_were_made_whatever_is_collected() {
    let mut rng = Rng::new(seed("scan-windows"));
    for nanos in [QUICK, SLOW] {
        for compression in [CompressionType::None, CompressionType::Lz4] {
            let (env, db) = open(nanos, |options| {
                options.blob_compression_type = compression;
                options.enable_blob_garbage_collection = true;
            });
            let cf = db.default_cf();
            let mut model = Model::new();
            let mut walks: Vec<Walk> = Vec::new();
            let mut snapshots: Vec<(Snapshot, Model)> = Vec::new();
            let mut seen = BTreeSet::new();
            for round in 0..24 {
                let from = rng.below(300) as usize;
                for step in 0..80 {
                    // Stretches in the order of keys, and keys here and there.
                    let n = match round % 3 {
                        0 => from + step,
                        _ => rng.below(400) as usize,
                    };
                    if rng.below(12) == 0 {
                        cf.delete(key(n)).unwrap();
                        model.remove(&key(n));
                        continue;
                    }
                    let len = [20, 300, 1500, 20_000][rng.below(4) as usize];
                    let value = value(rng.below(10_000) as usize, len);
                    cf.put(key(n), &value).unwrap();
                    model.insert(key(n), value);
                }
                cf.flush(true).unwrap();
                match rng.below(4) {
                    0 => snapshots.push((db.snapshot(), model.clone())),
                    1 if !snapshots.is_empty() => drop(snapshots.remove(0)),
                    _ => {}
                }
                seen.extend(blobs(&env));
                if round % 4 == 3 {
                    cf.compact_range_opt(None, None, &collect()).unwrap();
                }
                walks.push(Walk::new(&cf, &model, None));
                if let Some((snapshot, then)) = snapshots.last() {
                    walks.push(Walk::new(&cf, then, Some(snapshot.clone())));
                }
                if walks.len() > 5 {
                    walks.drain(..2);
                }
                for walk in &mut walks {
                    walk.go(&mut rng);
                }
            }
            walks.clear();
            let left = blobs(&env);
            assert!(left.len() < seen.len(), "{left:?} of {seen:?}");
        }
    }
}
