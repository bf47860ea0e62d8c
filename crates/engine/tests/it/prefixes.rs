//! Prefix seeks that leave tables out by their filters.

use spanlith::options::{BlockBasedTableOptions, CfOptions};
use spanlith::{CompactFilesOptions, Db, ReadOptions};
use spanlith_base::SliceTransform;
use spanlith_base::perf::{self, PerfCounter};
use spanlith_testkit::{Rng, TempDir, seed, test_name};
use std::collections::BTreeMap;

fn open(dir: &TempDir) -> Db {
    open_with(dir, "fixed:1")
}

fn open_with(dir: &TempDir, extractor: &str) -> Db {
    let mut options = CfOptions::default().prefix_extractor(extractor);
    options.disable_auto_compactions = true;
    Db::builder(dir.path())
        .create_if_missing(true)
        .cf_options(options)
        .table_options(BlockBasedTableOptions::default().filter_policy("bloomfilter:20:false"))
        .open()
        .unwrap()
}

/// Compacts the tables of level 0 into `level`, one entry to a table.
fn compact_to(db: &Db, level: usize) {
    let cf = db.default_cf();
    let files = cf.live_files().into_iter().filter(|f| f.level == 0);
    let files: Vec<u64> = files.map(|f| f.number).collect();
    let options = CompactFilesOptions {
        output_file_size_limit: 1,
        ..CompactFilesOptions::default()
    };
    cf.compact_files(&files, level, &options).unwrap();
}

/// Keys from `p1` on, before `q`.
fn scan(db: &Db, options: ReadOptions) -> Vec<String> {
    let mut cursor = db.default_cf().cursor(options);
    let mut found = Vec::new();
    let mut more = cursor.seek(b"p1").unwrap();
    while more && cursor.key() < b"q".as_slice() {
        found.push(String::from_utf8(cursor.key().to_vec()).unwrap());
        more = cursor.next().unwrap();
    }
    cursor.status().unwrap();
    found
}

/// Everything that the range tombstones of a table left out delete in older places stays deleted, and a table that
/// reaches into the prefix by a tombstone only does not end its level.
#[test]
fn a_table_left_out_by_its_filter_still_deletes() {
    let dir = TempDir::new("left-out");
    let db = open(&dir);
    let cf = db.default_cf();
    for key in ["p1", "p2", "p3"] {
        cf.put(key, "old").unwrap();
    }
    cf.flush(true).unwrap();
    compact_to(&db, 6);
    cf.put("o9", "v").unwrap();
    cf.delete_range("o95", "p25").unwrap();
    cf.put("p7", "v").unwrap();
    cf.put("q1", "v").unwrap();
    cf.flush(true).unwrap();
    compact_to(&db, 5);
    let files = db.property("rocksdb.num-files-at-level5").unwrap();
    assert_eq!(files, "2");
    drop((cf, db));
    let db = open(&dir);
    for (same, auto) in [(true, false), (false, true), (false, false)] {
        let mut options = ReadOptions::default().prefix_same_as_start(same);
        if auto {
            options.auto_prefix = true;
            options = options.upper("q");
        }
        assert_eq!(
            scan(&db, options),
            ["p3", "p7"],
            "same prefix {same}, auto {auto}"
        );
    }
}

/// Without any mode a seek leaves out what has nothing of the prefix, until it comes to the end of the
/// prefix: then it shows all there is, in both directions, as one that never left anything out.
#[test]
fn tables_left_out_come_back_behind_the_prefix() {
    let dir = TempDir::new("come-back");
    let db = open(&dir);
    let cf = db.default_cf();
    let mut rng = Rng::new(seed(test_name!()));
    // Levels 6 to 4, level 0 and the memtable, each with keys of a few prefixes.
    for place in 0..6 {
        for _ in 0..6 {
            let key = [b'a' + rng.below(12) as u8, b'0' + rng.below(10) as u8];
            match rng.below(8) {
                0 => cf.delete(key).unwrap(),
                1 => {
                    let mut end = key;
                    end[0] += rng.below(3) as u8;
                    end[1] += 1;
                    cf.delete_range(key, end).unwrap();
                }
                _ => cf.put(key, [b'0' + place]).unwrap(),
            }
        }
        if place < 5 {
            cf.flush(true).unwrap();
        }
        if place < 3 {
            compact_to(&db, 6 - usize::from(place));
        }
    }
    let total = || {
        let mut options = ReadOptions::default();
        options.total_order = true;
        options
    };
    for round in 0..2000 {
        let target = [b'a' + rng.below(13) as u8, b'0' + rng.below(10) as u8];
        // With no bound, within the prefix, at its end, or anywhere.
        let (mut within, mut all) = (ReadOptions::default(), total());
        let bound = match round % 4 {
            0 => None,
            1 => Some(vec![target[0], b'9']),
            2 => Some(vec![target[0] + 1]),
            _ => Some(vec![
                target[0] + rng.below(4) as u8,
                b'0' + rng.below(10) as u8,
            ]),
        };
        if let Some(bound) = bound {
            within = within.upper(bound.clone());
            all = all.upper(bound);
        }
        let (mut plain, mut all) = (cf.cursor(within), cf.cursor(all));
        plain.seek(&target).unwrap();
        all.seek(&target).unwrap();
        for _ in 0..rng.below(20) {
            assert_eq!(plain.valid(), all.valid(), "from {target:?}");
            if !all.valid() {
                break;
            }
            assert_eq!(
                (plain.key(), plain.value()),
                (all.key(), all.value()),
                "from {target:?}"
            );
            if rng.below(5) == 0 {
                plain.prev().unwrap();
                all.prev().unwrap();
            } else {
                plain.next().unwrap();
                all.next().unwrap();
            }
        }
    }
}

/// A table that a seek leaves out is not read.
#[test]
fn a_plain_seek_asks_the_filters() {
    let dir = TempDir::new("asks");
    let db = open(&dir);
    let cf = db.default_cf();
    for key in ["a1", "c1"] {
        cf.put(key, "v").unwrap();
        cf.flush(true).unwrap();
        cf.put("z1", key).unwrap();
        cf.flush(true).unwrap();
    }
    drop((cf, db));
    let db = open(&dir);
    let cf = db.default_cf();
    perf::reset();
    perf::set_level(2);
    let mut cursor = cf.cursor(ReadOptions::default());
    assert!(cursor.seek(b"c0").unwrap());
    assert_eq!(cursor.key(), b"c1");
    let read = perf::value(PerfCounter::BlockReadCount);
    assert_eq!(read, 1, "data blocks read");
    assert!(cursor.next().unwrap());
    assert_eq!((cursor.key(), cursor.value()), (&b"z1"[..], &b"c1"[..]));
    // An absent prefix, with a bound in it or at its end: nothing can come after it.
    perf::reset();
    for bound in ["b9", "c"] {
        let mut cursor = cf.cursor(ReadOptions::default().upper(bound));
        assert!(!cursor.seek(b"b1").unwrap());
    }
    assert_eq!(perf::value(PerfCounter::BlockReadCount), 0);
    assert_eq!(perf::value(PerfCounter::BlockCacheHitCount), 0);
    perf::set_level(1);
}

/// A table passed by because it has nothing of the prefix holds entries after it all the same, and the next
/// table may have no filter that says it has nothing.
#[test]
fn a_table_passed_by_is_read_behind_the_prefix() {
    let dir = TempDir::new("passed-by");
    let db = open_with(&dir, "nullptr");
    db.default_cf().put("r5", "v").unwrap();
    db.flush(true).unwrap();
    compact_to(&db, 5);
    drop(db);
    let db = open(&dir);
    let cf = db.default_cf();
    for key in ["o9", "q1"] {
        cf.put(key, "v").unwrap();
    }
    cf.delete_range("q2", "r5").unwrap();
    cf.flush(true).unwrap();
    compact_to(&db, 5);
    assert_eq!(db.property("rocksdb.num-files-at-level5").unwrap(), "2");
    let mut cursor = cf.cursor(ReadOptions::default());
    assert!(cursor.seek(b"p1").unwrap());
    assert_eq!(cursor.key(), b"q1");
}

/// As in RocksDB, which finds keys of such memtables by their prefix alone.
#[test]
fn memtables_that_hash_prefixes_have_no_ends() {
    let all = |db: &Db, options: ReadOptions| {
        let mut cursor = db.default_cf().cursor(options);
        let mut found = [Vec::new(), Vec::new()];
        let mut more = cursor.seek_to_first().unwrap();
        while more {
            found[0].push(String::from_utf8(cursor.key().to_vec()).unwrap());
            more = cursor.next().unwrap();
        }
        more = cursor.seek_to_last().unwrap();
        while more {
            found[1].push(String::from_utf8(cursor.key().to_vec()).unwrap());
            more = cursor.prev().unwrap();
        }
        found[1].reverse();
        assert_eq!(found[0], found[1]);
        found[0].clone()
    };
    for (factory, hashes) in [
        ("prefix_hash:1000", true),
        ("hash_linkedlist:1000", true),
        ("skip_list", false),
        ("vector", false),
    ] {
        let dir = TempDir::new(test_name!());
        let mut options = CfOptions::default().prefix_extractor("fixed:1");
        options.memtable_factory = factory.to_string();
        let mut db_options = spanlith::options::DbOptions::default();
        db_options.create_if_missing = true;
        db_options.allow_concurrent_memtable_write = false;
        let builder = Db::builder(dir.path()).options(db_options);
        let db = builder.cf_options(options).open().unwrap();
        let cf = db.default_cf();
        cf.put("p1", "flushed").unwrap();
        cf.flush(true).unwrap();
        cf.put("p2", "v").unwrap();
        cf.put("q1", "v").unwrap();
        let whole = ["p1", "p2", "q1"];
        let want = if hashes { &whole[..1] } else { &whole[..] };
        assert_eq!(all(&db, ReadOptions::default()), want, "{factory}");
        let mut total = ReadOptions::default();
        total.total_order = true;
        assert_eq!(all(&db, total), whole, "{factory}");
        let mut automatic = ReadOptions::default();
        automatic.auto_prefix = true;
        assert_eq!(all(&db, automatic), whole, "{factory}");
        assert_eq!(scan(&db, ReadOptions::default()), ["p1", "p2"], "{factory}");
    }
}

/// The extractor is another now and then; tables and memtables keep the one they began with. What reads see
/// does not depend on it, but for the prefix an iterator stays in.
#[test]
fn an_extractor_changes_while_the_database_is_open() {
    let mut rng = Rng::new(seed(test_name!()));
    for round in 0..8 {
        let dir = TempDir::new("other-extractor");
        let mut options = CfOptions::default().prefix_extractor("fixed:2");
        options.disable_auto_compactions = true;
        options.memtable_prefix_bloom_size_ratio = 0.1;
        let mut table = BlockBasedTableOptions::default().filter_policy("bloomfilter:20:false");
        table.whole_key_filtering = round % 2 == 0;
        table.partition_filters = round % 4 >= 2;
        if table.partition_filters {
            table.index_type = spanlith::options::IndexType::TwoLevelIndexSearch;
        }
        let db = Db::builder(dir.path())
            .create_if_missing(true)
            .cf_options(options)
            .table_options(table)
            .open()
            .unwrap();
        let cf = db.default_cf();
        let mut extractor = SliceTransform::from_text("fixed:2");
        let mut model = BTreeMap::new();
        let key = |rng: &mut Rng| -> Vec<u8> {
            (0..1 + rng.below(3))
                .map(|_| b'a' + rng.below(4) as u8)
                .collect()
        };
        for step in 0..400 {
            let k = key(&mut rng);
            match rng.below(20) {
                0 => cf.flush(true).unwrap(),
                1 if step % 3 == 0 => cf.compact_range(None, None).unwrap(),
                2 => {
                    let texts = ["fixed:1", "fixed:2", "capped:2", "rocksdb.Noop", "nullptr"];
                    let text = texts[rng.below(5) as usize];
                    cf.set_options(&[("prefix_extractor", text)]).unwrap();
                    extractor = SliceTransform::from_text(text);
                }
                3..6 => {
                    cf.delete(&k).unwrap();
                    model.remove(&k);
                }
                _ => {
                    cf.put(&k, step.to_string()).unwrap();
                    model.insert(k, step.to_string());
                }
            }
            let k = key(&mut rng);
            let found = cf.get(&k).unwrap().map(|v| v.to_vec());
            let expected = model.get(&k).map(|v| v.as_bytes().to_vec());
            assert_eq!(found, expected, "{k:?} under {extractor:?}");
            let same = rng.below(2) == 0;
            let mut cursor = cf.cursor(ReadOptions::default().prefix_same_as_start(same));
            let mut more = cursor.seek(&k).unwrap();
            let prefix = extractor.as_ref().filter(|_| same).map(|e| e.prefix(&k));
            let within = |other: &[u8]| match (&extractor, prefix) {
                (Some(e), Some(Some(prefix))) => e.prefix(other) == Some(prefix),
                _ => true,
            };
            let mut expected = model.range(k.clone()..).take_while(|(k, _)| within(k));
            while more {
                let next = expected.next();
                assert_eq!(next.map(|(k, _)| &k[..]), Some(cursor.key()), "from {k:?}");
                more = cursor.next().unwrap();
            }
            assert_eq!(expected.next(), None, "from {k:?} under {extractor:?}");
        }
    }
}

/// The filters of a table are asked for its prefixes while its extractor is the one in use, also after another
/// was.
#[test]
fn filters_are_asked_while_their_extractor_is_in_use() {
    let dir = TempDir::new("extractor-in-use");
    let db = open_with(&dir, "fixed:2");
    let cf = db.default_cf();
    for key in ["aa1", "cc1"] {
        cf.put(key, "v").unwrap();
    }
    cf.flush(true).unwrap();
    for (text, is_asked) in [
        ("fixed:2", true),
        ("fixed:1", false),
        ("rocksdb.FixedPrefix.2", true),
        ("nullptr", false),
    ] {
        cf.set_options(&[("prefix_extractor", text)]).unwrap();
        perf::reset();
        perf::set_level(2);
        let mut cursor = cf.cursor(ReadOptions::default().prefix_same_as_start(true));
        let found = cursor.seek(b"bb").unwrap();
        let missed = perf::value(PerfCounter::BloomSstMissCount);
        perf::set_level(1);
        assert_eq!(found, text == "nullptr", "{text}");
        assert_eq!(missed > 0, is_asked, "{text}");
    }
    // The name is recorded.
    assert_eq!(cf.options().prefix_extractor, "nullptr");
    cf.set_options(&[("prefix_extractor", "capped:3")]).unwrap();
    assert_eq!(cf.options().prefix_extractor, "rocksdb.CappedPrefix.3");
}
