//! Scans over values in blob files: how many reads they cost, and that they show what is there (R-TR-03, R-TR-14).

use spanlith::options::{CfOptions, CompressionType};
use spanlith::trace::{TraceHeader, TraceOptions, TraceReader, TraceRecord};
use spanlith::{Cf, Db, Env, ReadOptions};
use spanlith_env::mem::MemFs;
use spanlith_env::{IoActivity, VirtualClock};
use spanlith_testkit::{Rng, seed};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

const FILES: usize = 24;
const KEYS: usize = 480;
const VALUE: usize = 3000;

fn memory() -> Env {
    Env {
        fs: Arc::new(MemFs::new()),
        clock: Arc::new(VirtualClock::new()),
        ..Env::system()
    }
}

pub(crate) fn open(env: &Env, change: impl FnOnce(&mut CfOptions)) -> Db {
    let mut options = CfOptions::default();
    options.disable_auto_compactions = true;
    options.level0_slowdown_writes_trigger = 1000;
    options.level0_stop_writes_trigger = 1000;
    options.compression = CompressionType::None;
    options.enable_blob_files = true;
    options.min_blob_size = 100;
    change(&mut options);
    Db::builder("/db")
        .create_if_missing(true)
        .env(env.clone())
        .cf_options(options)
        .open()
        .unwrap()
}

fn key(n: usize) -> String {
    format!("key{n:05}")
}

fn value(n: usize) -> Vec<u8> {
    let mut value = format!("value {n} ").into_bytes();
    value.resize(VALUE, b'a' + (n % 26) as u8);
    value
}

/// Neighbouring keys lie in different blob files, of which there are many more than a scan follows.
fn scatter(cf: &Cf) {
    for file in 0..FILES {
        for n in (0..KEYS).filter(|n| n % FILES == file) {
            cf.put(key(n), value(n)).unwrap();
        }
        cf.flush(true).unwrap();
    }
}

/// Reads of blob files while `work` runs, that of header and footer left out: those made alone, and those made with others.
fn reads(env: &Env, db: &Db, work: impl FnOnce()) -> (usize, usize) {
    let (mut alone, mut together) = (0, 0);
    for (operation, length) in calls(env, db, ".blob", work) {
        match &operation[..] {
            _ if length < 100 => {}
            b"Read" => alone += 1,
            b"MultiRead" => together += 1,
            other => panic!("{}", other.escape_ascii()),
        }
    }
    (alone, together)
}

/// Calls for files with that extension that have a length, while `work` runs: their names and lengths.
pub(crate) fn calls(
    env: &Env,
    db: &Db,
    extension: &str,
    work: impl FnOnce(),
) -> Vec<(Vec<u8>, u64)> {
    let path = Path::new("/calls");
    db.start_io_trace(path, &TraceOptions::default()).unwrap();
    work();
    db.end_io_trace().unwrap();
    let mut reader = TraceReader::new(env.fs.open_sequential(path).unwrap());
    let header = TraceHeader::from_record(&reader.next_record().unwrap().unwrap()).unwrap();
    let mut calls = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        let TraceRecord::Call(call) = header.decode(&record).unwrap() else {
            panic!("not a call")
        };
        if let Some(length) = call.length
            && call.file_name.ends_with(extension.as_bytes())
        {
            calls.push((call.operation.to_vec(), length));
        }
    }
    calls
}

/// Opens all blob files, so that what is counted are values.
fn warm(cf: &Cf) {
    for n in 0..FILES {
        cf.get(key(n)).unwrap().unwrap();
    }
}

#[test]
fn scattered_values_are_read_together_in_either_direction() {
    let env = memory();
    let db = open(&env, |_| {});
    let cf = db.default_cf();
    scatter(&cf);
    warm(&cf);
    let mut seen = 0;
    let (alone, together) = reads(&env, &db, || {
        let mut cursor = cf.cursor(ReadOptions::default());
        let mut found = cursor.seek_to_first().unwrap();
        while found {
            assert_eq!(cursor.value(), value(seen));
            seen += 1;
            found = cursor.next().unwrap();
        }
    });
    assert_eq!(seen, KEYS);
    assert_eq!(alone, 2, "two that lie apart make a scattered scan");
    // Windows of 8, 16, 32, … entries; within a file four neighbours make one read once a window spans several rounds of
    // the files.
    assert!((FILES..KEYS).contains(&together), "{together}");
    let (alone, together) = reads(&env, &db, || {
        let mut cursor = cf.cursor(ReadOptions::default());
        let mut found = cursor.seek_to_last().unwrap();
        while found {
            seen -= 1;
            assert_eq!(cursor.value(), value(seen));
            found = cursor.prev().unwrap();
        }
    });
    assert_eq!(seen, 0);
    assert_eq!(alone, 2);
    assert!((FILES..KEYS).contains(&together), "{together}");
}

/// A scan that ends early has read at most about as much again as it showed.
#[test]
fn what_is_read_ahead_is_bounded_by_what_was_shown_and_by_the_bound() {
    let env = memory();
    let db = open(&env, |_| {});
    let cf = db.default_cf();
    scatter(&cf);
    warm(&cf);
    for shown in [1, 2, 3, 10, 26, 60] {
        let (alone, together) = reads(&env, &db, || {
            let mut cursor = cf.cursor(ReadOptions::default());
            cursor.seek_to_first().unwrap();
            for _ in 1..shown {
                cursor.next().unwrap();
            }
        });
        assert_eq!(alone, shown.min(2));
        assert!(together <= 2 * shown + 8, "{shown}: {together}");
    }
    // To the upper bound, not beyond.
    let (alone, together) = reads(&env, &db, || {
        let options = ReadOptions::default().upper(key(7));
        assert_eq!(cf.iter_opt(options).count(), 7);
    });
    assert_eq!((alone, together), (2, 5));
}

#[test]
fn keys_alone_touch_no_blob_file_in_either_direction() {
    let env = memory();
    let db = open(&env, |_| {});
    let cf = db.default_cf();
    scatter(&cf);
    let lazy = || {
        let mut options = ReadOptions::default();
        options.allow_unprepared_value = true;
        options
    };
    let counts = reads(&env, &db, || {
        let mut cursor = cf.cursor(lazy());
        let mut n = 0;
        let mut found = cursor.seek_to_first().unwrap();
        while found {
            n += 1;
            found = cursor.next().unwrap();
        }
        assert_eq!(n, KEYS);
        let mut found = cursor.seek_to_last().unwrap();
        while found {
            n -= 1;
            assert_eq!(cursor.key(), key(n).as_bytes());
            found = cursor.prev().unwrap();
        }
        assert_eq!(n, 0);
    });
    assert_eq!(counts, (0, 0));
    warm(&cf);
    // Now and then a value: those in between are not read.
    let counts = reads(&env, &db, || {
        let mut cursor = cf.cursor(lazy());
        let mut found = cursor.seek_to_last().unwrap();
        let mut n = KEYS;
        while found {
            n -= 1;
            if n.is_multiple_of(10) {
                assert!(cursor.prepare_value().unwrap());
                assert_eq!(cursor.value(), value(n));
            }
            found = cursor.prev().unwrap();
        }
    });
    assert_eq!(counts, (KEYS / 10, 0));
    // Every value after all: they are read together.
    let (alone, _) = reads(&env, &db, || {
        let mut cursor = cf.cursor(lazy());
        let mut found = cursor.seek_to_first().unwrap();
        let mut n = 0;
        while found {
            assert!(cursor.prepare_value().unwrap());
            assert_eq!(cursor.value(), value(n));
            n += 1;
            found = cursor.next().unwrap();
        }
    });
    assert_eq!(alone, 2);
}

/// R-TR-14: the entry whose value is damaged fails, and no other.
#[test]
fn damage_in_what_was_read_ahead_is_told_at_its_entry() {
    let env = memory();
    let db = open(&env, |_| {});
    let cf = db.default_cf();
    scatter(&cf);
    let bad = KEYS / 2;
    let text = format!("value {bad} ").into_bytes();
    let dir = Path::new("/db");
    let blobs: Vec<String> = (env.fs.list(dir).unwrap().into_iter())
        .filter(|name| name.ends_with(".blob"))
        .collect();
    assert_eq!(blobs.len(), FILES);
    let mut damaged = 0;
    for name in blobs {
        let path = dir.join(name);
        let mut bytes = env.fs.read_all(&path, u64::MAX).unwrap();
        if let Some(at) = bytes.windows(text.len()).position(|w| w == text) {
            bytes[at + 1000] ^= 1;
            let mut file = env.fs.create(&path, IoActivity::Other).unwrap();
            file.append(&bytes).unwrap();
            file.close().unwrap();
            damaged += 1;
        }
    }
    assert_eq!(damaged, 1);
    let mut cursor = cf.cursor(ReadOptions::default());
    let mut found = cursor.seek_to_first();
    let mut n = 0;
    while let Ok(true) = found {
        assert_eq!(cursor.value(), value(n));
        n += 1;
        found = cursor.next();
    }
    assert_eq!(n, bad);
    let e = found.unwrap_err();
    assert_eq!(e.kind(), spanlith_base::ErrorKind::Corruption, "{e}");
    assert!(e.to_string().contains(".blob"), "{e}");
    // Behind it all is well.
    let mut found = cursor.seek(key(bad + 1).as_bytes()).unwrap();
    let mut n = bad + 1;
    while found {
        assert_eq!(cursor.value(), value(n));
        n += 1;
        found = cursor.next().unwrap();
    }
    assert_eq!(n, KEYS);
}

/// Scans and turns over all kinds of entries, against a map.
#[test]
fn scans_show_what_a_map_shows() {
    let mut rng = Rng::new(seed("scan-values"));
    let env = memory();
    let db = open(&env, |options| options.min_blob_size = 50);
    let cf = db.default_cf();
    let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    for round in 0..20 {
        for _ in 0..60 {
            let key = key(rng.below(300) as usize).into_bytes();
            match rng.below(10) {
                0 => {
                    cf.delete(&key).unwrap();
                    model.remove(&key);
                }
                1 if round % 5 == 0 => {
                    let end = self::key(rng.below(300) as usize).into_bytes();
                    if key < end {
                        cf.delete_range(&key, &end).unwrap();
                        model.retain(|k, _| *k < key || *k >= end);
                    }
                }
                _ => {
                    let len = [10, 60, 500, 70_000][rng.below(4) as usize];
                    let fill = rng.below(256) as u8;
                    let value = vec![fill; len];
                    cf.put(&key, &value).unwrap();
                    model.insert(key, value);
                }
            }
        }
        if round < 18 {
            cf.flush(true).unwrap();
        }
    }
    for _ in 0..40 {
        let lazy = rng.below(2) == 0;
        let mut options = ReadOptions::default();
        options.allow_unprepared_value = lazy;
        let mut cursor = cf.cursor(options);
        let start = key(rng.below(300) as usize).into_bytes();
        let mut at = model.range(start.clone()..).next().map(|(k, _)| k.clone());
        cursor.seek(&start).unwrap();
        let mut forward = true;
        for _ in 0..60 {
            let Some(current) = at.clone() else {
                assert!(!cursor.valid());
                break;
            };
            assert_eq!(cursor.key(), current);
            if !lazy || rng.below(4) != 0 {
                assert!(cursor.prepare_value().unwrap());
                assert!(cursor.value() == model[&current], "value of {current:?}");
            }
            if rng.below(12) == 0 {
                forward = !forward;
            }
            at = match forward {
                true => {
                    cursor.next().unwrap();
                    let behind = (
                        std::ops::Bound::Excluded(current),
                        std::ops::Bound::Unbounded,
                    );
                    model.range(behind).next().map(|(k, _)| k.clone())
                }
                false => {
                    cursor.prev().unwrap();
                    model.range(..current).next_back().map(|(k, _)| k.clone())
                }
            };
        }
    }
}

/// R-TR-03, partial reads: only what is asked for is read, where nothing is to be verified.
#[test]
fn a_part_of_a_value_costs_its_bytes() {
    let env = memory();
    let db = open(&env, |_| {});
    let cf = db.default_cf();
    let large: Vec<u8> = (0..1_000_000u32).map(|n| (n % 251) as u8).collect();
    cf.put("large", &large).unwrap();
    cf.put("small", "0123456789").unwrap();
    cf.flush(true).unwrap();
    cf.put("memory", &large[..5000]).unwrap();
    cf.get("large").unwrap().unwrap();
    let mut bare = ReadOptions::default();
    bare.verify_checksums = false;
    let part = |key: &str, range, options: &ReadOptions| {
        let found = cf.get_range(key, range, options).unwrap();
        found.map(|part| (part.bytes.to_vec(), part.value_len))
    };
    for (options, alone) in [(&bare, 2), (&ReadOptions::default(), 4)] {
        let reads = reads(&env, &db, || {
            let expected = (large[500_000..500_300].to_vec(), 1_000_000);
            assert_eq!(part("large", 500_000..500_300, options), Some(expected));
            let expected = (large[999_800..].to_vec(), 1_000_000);
            assert_eq!(part("large", 999_800..2_000_000, options), Some(expected));
            if alone == 4 {
                let expected = (Vec::new(), 1_000_000);
                for range in [1_000_000..1_000_001, 5..5] {
                    assert_eq!(part("large", range, options), Some(expected.clone()));
                }
            }
        });
        assert_eq!(reads, (alone, 0));
    }
    let reads = reads(&env, &db, || {
        // Nothing to read.
        let expected = (Vec::new(), 1_000_000);
        for range in [1_000_000..1_000_001, 5..5] {
            assert_eq!(part("large", range, &bare), Some(expected.clone()));
        }
        assert_eq!(part("small", 2..5, &bare), Some((b"234".to_vec(), 10)));
        assert_eq!(
            part("memory", 0..3, &bare),
            Some((large[..3].to_vec(), 5000))
        );
        assert_eq!(part("none", 0..3, &bare), None);
    });
    assert_eq!(reads, (0, 0));
}

/// R-TR-03: the property says how much of the tree is in the cache.
#[test]
fn the_residency_of_keys_follows_what_was_read() {
    let env = memory();
    let db = open(&env, |_| {});
    let cf = db.default_cf();
    scatter(&cf);
    let cold = cf.index_residency().unwrap();
    assert_eq!((cold.tables, cold.cached_blocks), (FILES as u64, 0));
    assert!(cold.blocks >= FILES as u64 && cold.share() == 0.0);
    assert_eq!(
        Some(cold.bytes),
        db.int_property("rocksdb.live-sst-files-size")
    );
    cf.get(key(0)).unwrap().unwrap();
    assert_eq!(cf.index_residency().unwrap().cached_blocks, 1);
    for entry in cf.iter() {
        entry.unwrap();
    }
    let warm = cf.index_residency().unwrap();
    assert_eq!((warm.cached_blocks, warm.share()), (warm.blocks, 1.0));
    assert!(warm.cached_bytes > 0 && warm.reader_bytes > 0);
    let text = db.property("spanlith.index-residency").unwrap();
    assert!(text.contains("\nresident: 1.0000\n"), "{text}");
}

/// The plain value after one that was left unread is asked for by itself, in either direction.
#[test]
fn a_plain_value_beside_one_that_was_left_unread_is_itself() {
    let env = memory();
    let db = open(&env, |_| {});
    let cf = db.default_cf();
    cf.put("a", [b'a'; 500]).unwrap();
    cf.put("b", "plain").unwrap();
    cf.put("c", [b'c'; 500]).unwrap();
    cf.flush(true).unwrap();
    let mut lazy = ReadOptions::default();
    lazy.allow_unprepared_value = true;
    let mut cursor = cf.cursor(lazy);
    assert!(cursor.seek_to_first().unwrap() && cursor.next().unwrap());
    assert!(cursor.prepare_value().unwrap());
    assert_eq!((cursor.key(), cursor.value()), (&b"b"[..], &b"plain"[..]));
    assert!(cursor.seek_to_last().unwrap() && cursor.prev().unwrap());
    assert!(cursor.prepare_value().unwrap());
    assert_eq!((cursor.key(), cursor.value()), (&b"b"[..], &b"plain"[..]));
    assert!(cursor.prev().unwrap() && cursor.prepare_value().unwrap());
    assert_eq!(cursor.value(), [b'a'; 500]);
}

/// Behind either end there is nothing to fetch, whatever was left unread in front of it.
#[test]
fn nothing_is_fetched_behind_the_end() {
    let env = memory();
    let db = open(&env, |_| {});
    let cf = db.default_cf();
    cf.put("a", [b'a'; 500]).unwrap();
    cf.flush(true).unwrap();
    let mut lazy = ReadOptions::default();
    lazy.allow_unprepared_value = true;
    let mut cursor = cf.cursor(lazy);
    assert!(cursor.seek_to_first().unwrap() && !cursor.next().unwrap());
    assert!(!cursor.prepare_value().unwrap());
    assert!(cursor.seek_to_last().unwrap() && !cursor.prev().unwrap());
    assert!(!cursor.prepare_value().unwrap());
    assert!(cursor.seek(b"a").unwrap() && !cursor.seek(b"b").unwrap());
    assert!(!cursor.prepare_value().unwrap());
}

/// A scan that ends in front of a run of deletions does not have it read by the scout.
#[test]
fn nobody_goes_ahead_over_many_deletions() {
    let env = memory();
    let db = open(&env, |options| {
        options.write_buffer_size = 64 << 20;
    });
    let cf = db.default_cf();
    scatter(&cf);
    for n in 0..50_000 {
        cf.delete(format!("{} {n:05}", key(20))).unwrap();
    }
    cf.flush(true).unwrap();
    warm(&cf);
    let mut cursor = cf.cursor(ReadOptions::default());
    let bytes_of = |work: &mut dyn FnMut()| -> u64 {
        let calls = calls(&env, &db, ".sst", work);
        calls.iter().map(|(_, length)| length).sum()
    };
    let few = bytes_of(&mut || {
        let mut found = cursor.seek_to_first().unwrap();
        for n in 0..20 {
            assert!(found && cursor.value() == value(n));
            found = cursor.next().unwrap();
        }
        // The entry in front of the run; the scout has been there.
        assert_eq!(cursor.key(), key(20).as_bytes());
    });
    let all = bytes_of(&mut || {
        let mut found = cursor.valid();
        for n in 20..KEYS {
            assert!(found && cursor.value() == value(n));
            found = cursor.next().unwrap();
        }
        assert!(!found);
    });
    assert!(few * 2 < all, "{few} and {all}");
}

/// Values that were passed over begin the reading ahead anew, with as few as at first.
#[test]
fn values_that_nobody_wanted_shorten_what_is_read_ahead() {
    let env = memory();
    let db = open(&env, |_| {});
    let cf = db.default_cf();
    scatter(&cf);
    warm(&cf);
    let mut lazy = ReadOptions::default();
    lazy.allow_unprepared_value = true;
    let mut cursor = cf.cursor(lazy);
    let mut found = cursor.seek_to_first().unwrap();
    for n in 0..200 {
        // Up to 64 entries are read at once by then.
        if n < 60 {
            assert!(found && cursor.prepare_value().unwrap());
            assert_eq!(cursor.value(), value(n));
        }
        found = cursor.next().unwrap();
    }
    let reads = reads(&env, &db, || {
        for n in 200..203 {
            assert!(cursor.prepare_value().unwrap());
            assert_eq!(cursor.value(), value(n));
            cursor.next().unwrap();
        }
    });
    assert_eq!(reads, (2, 8));
}
