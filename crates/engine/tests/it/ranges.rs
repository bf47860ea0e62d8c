//! Range deletion: reads at every snapshot, in both directions, over memtables, tables and levels,
//! through flushes, compactions and reopening.

use spanlith::listener::CompactionInfo;
use spanlith::options::{BlockBasedTableOptions, CfOptions, DbOptions};
use spanlith::{
    BottommostCompaction, CompactRangeOptions, Db, ErrorKind, EventListener, ReadOptions, Snapshot,
    StringAppend, WriteBatch,
};
use spanlith_base::perf::{self, PerfCounter};
use spanlith_env::{Env, MemFs};
use spanlith_testkit::{Rng, seed, test_name};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::{Arc, Mutex};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Tables and levels so small that tombstones span several of them.
fn open(dir: &Path) -> Db {
    let mut cf = CfOptions::default();
    cf.write_buffer_size = 16 << 10;
    cf.target_file_size_base = 4 << 10;
    cf.max_bytes_for_level_base = 16 << 10;
    cf.max_bytes_for_level_multiplier = 3.0;
    cf.level0_file_num_compaction_trigger = 3;
    Db::builder(dir)
        .create_if_missing(true)
        .cf_options(cf)
        .merge_operator(Arc::new(StringAppend::new(b",")))
        .open()
        .unwrap()
}

fn key(n: u64) -> Vec<u8> {
    format!("k{n:04}").into_bytes()
}

fn erase(model: &mut Model, begin: &[u8], end: &[u8]) {
    let doomed = model.range::<[u8], _>((Bound::Included(begin), Bound::Excluded(end)));
    let doomed: Vec<Vec<u8>> = doomed.map(|e| e.0.clone()).collect();
    for k in doomed {
        model.remove(&k);
    }
}

fn append(model: &mut Model, key: &[u8], operand: &[u8]) {
    let value = model.entry(key.to_vec()).or_default();
    if !value.is_empty() {
        value.push(b',');
    }
    value.extend_from_slice(operand);
}

/// Everything that can be read agrees with the model.
fn check(db: &Db, model: &Model, at: Option<&Snapshot>, rng: &mut Rng) {
    let options = || {
        let o = ReadOptions::new();
        at.map_or(o.clone(), |s| o.snapshot(s))
    };
    let cf = db.default_cf();
    let rows: Model = cf
        .iter_opt(options())
        .map(|e| e.map(|(k, v)| (k.into_vec(), v.into_vec())).unwrap())
        .collect();
    assert_eq!(rows, *model);
    let mut cursor = cf.cursor(options());
    let mut back = Vec::new();
    cursor.seek_to_last().unwrap();
    while cursor.valid() {
        back.push((cursor.key().to_vec(), cursor.value().to_vec()));
        cursor.prev().unwrap();
    }
    cursor.status().unwrap();
    back.reverse();
    let forward: Vec<_> = model.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
    assert_eq!(back, forward);
    for _ in 0..60 {
        let k = key(rng.below(KEYS + 2));
        let found = cf.get_opt(&k, &options()).unwrap().map(|v| v.to_vec());
        assert_eq!(found.as_ref(), model.get(&k), "{}", k.escape_ascii());
    }
    walk(&mut cursor, model, rng);
}

/// A walk with changes of direction, also inside ranges that are deleted.
fn walk(cursor: &mut spanlith::Cursor, model: &Model, rng: &mut Rng) {
    for _ in 0..12 {
        let from = key(rng.below(KEYS));
        let mut expected = if rng.one_in(2) {
            cursor.seek(&from).unwrap();
            model.range(from..).next()
        } else {
            cursor.seek_for_prev(&from).unwrap();
            model.range(..=from).next_back()
        };
        for _ in 0..8 {
            cursor.status().unwrap();
            let now = cursor.valid().then(|| (cursor.key(), cursor.value()));
            assert_eq!(now, expected.map(|(k, v)| (&k[..], &v[..])));
            let Some((k, _)) = expected else { break };
            expected = if rng.one_in(2) {
                cursor.next().unwrap();
                let behind = (Bound::Excluded(k), Bound::Unbounded);
                model.range::<Vec<u8>, _>(behind).next()
            } else {
                cursor.prev().unwrap();
                model.range::<Vec<u8>, _>(..k).next_back()
            };
        }
    }
}

const KEYS: u64 = 300;

#[test]
fn reads_agree_with_a_model_through_range_deletions_flushes_and_compactions() {
    let mut rng = Rng::new(seed(test_name!()));
    let dir = tempfile::tempdir().unwrap();
    let mut db = open(dir.path());
    let mut model = Model::new();
    let mut snapshots: Vec<(Snapshot, Model)> = Vec::new();
    for step in 0..1_500 {
        let k = key(rng.below(KEYS));
        let cf = db.default_cf();
        match rng.weighted(&[60, 8, 14, 8, 3, 2, 3, 2, 1]) {
            0 => {
                let v = format!("{step}-{}", "x".repeat(rng.index(60))).into_bytes();
                cf.put(&k, &v).unwrap();
                model.insert(k, v);
            }
            1 => {
                cf.delete(&k).unwrap();
                model.remove(&k);
            }
            2 => {
                let operand = format!("{step}");
                cf.merge(&k, &operand).unwrap();
                append(&mut model, &k, operand.as_bytes());
            }
            3 => {
                let n = rng.below(KEYS);
                let (b, e) = (key(n), key(n + rng.skewed(KEYS / 2)));
                cf.delete_range(&b, &e).unwrap();
                erase(&mut model, &b, &e);
            }
            4 => {
                // In one batch, later updates are newer.
                let n = rng.below(KEYS);
                let (b, e) = (key(n), key(n + 20));
                let mut batch = spanlith_wal::WriteBatch::new();
                batch.put(&k, b"before").unwrap();
                batch.delete_range(&k, &k).unwrap();
                batch.delete_range(&b, &e).unwrap();
                batch.merge(&b, b"after").unwrap();
                db.write_raw(&batch, &Default::default()).unwrap();
                model.insert(k, b"before".to_vec());
                erase(&mut model, &b, &e);
                append(&mut model, &b, b"after");
            }
            5 => cf.flush(true).unwrap(),
            6 => {
                snapshots.push((db.snapshot(), model.clone()));
                if snapshots.len() > 4 {
                    let at = rng.index(snapshots.len());
                    snapshots.swap_remove(at);
                }
            }
            7 => {
                let n = rng.below(KEYS);
                let (b, e) = (key(n), key(n + 60));
                cf.compact_range(Some(&b), Some(&e)).unwrap();
            }
            _ => {
                snapshots.clear();
                drop(cf);
                db.close().unwrap();
                db = open(dir.path());
            }
        }
        if step % 40 == 0 {
            check(&db, &model, None, &mut rng);
            for (snapshot, then) in &snapshots {
                check(&db, then, Some(snapshot), &mut rng);
            }
        }
    }
    snapshots.clear();
    db.default_cf().compact_range(None, None).unwrap();
    check(&db, &model, None, &mut rng);
}

/// Outputs are cut between versions of one key that snapshots keep, range tombstones begin and end
/// there, and tables with parts of them are compacted again and again.
#[test]
fn tombstones_survive_cuts_between_versions_of_the_key_they_begin_at() {
    let first = seed(test_name!());
    for round in 0..12 {
        let mut rng = Rng::new(first + round);
        let (env, ..) = Env::test(Arc::new(MemFs::new()), 1);
        let mut cf = CfOptions::default();
        cf.target_file_size_base = *rng.pick(&[1, 300, 1000, 3000]);
        cf.level_compaction_dynamic_level_bytes = rng.one_in(2);
        cf.num_levels = *rng.pick(&[3, 4, 7]);
        cf.disable_auto_compactions = true;
        let mut table = BlockBasedTableOptions::default();
        table.block_size = 64;
        let builder = Db::builder("/db").create_if_missing(true).env(env);
        let builder = builder.no_info_log().table_options(table);
        let db = builder.cf_options(cf).open().unwrap();
        let cf = db.default_cf();
        let mut model = Model::new();
        let mut snapshots: Vec<(Snapshot, Model)> = Vec::new();
        for step in 0..200 {
            let k = key(rng.below(6));
            match rng.weighted(&[9, 3, 3, 3, 2]) {
                0 => {
                    let v = format!("{step}").repeat(*rng.pick(&[1, 30, 300]));
                    cf.put(&k, &v).unwrap();
                    model.insert(k, v.into_bytes());
                }
                1 => {
                    let n = rng.below(6);
                    let (b, e) = (key(n), key(n + 1 + rng.below(3)));
                    cf.delete_range(&b, &e).unwrap();
                    erase(&mut model, &b, &e);
                }
                2 => {
                    snapshots.push((db.snapshot(), model.clone()));
                    if snapshots.len() > 5 {
                        snapshots.swap_remove(rng.index(6));
                    }
                }
                3 => cf.flush(true).unwrap(),
                _ => {
                    let n = rng.below(6);
                    let (b, e) = (key(n), key(n + 1 + rng.below(3)));
                    let o = CompactRangeOptions {
                        bottommost: BottommostCompaction::Force,
                        change_level: rng.one_in(3),
                        target_level: Some(1 + rng.index(2)),
                        ..CompactRangeOptions::default()
                    };
                    let begin = rng.one_in(2).then_some(&b[..]);
                    let end = rng.one_in(2).then_some(&e[..]);
                    // A file that cannot be put into another level stays where it is.
                    let done = cf.compact_range_opt(begin, end, &o);
                    assert!(done.is_ok() || o.change_level, "{done:?}");
                    check(&db, &model, None, &mut rng);
                    for (snapshot, then) in &snapshots {
                        check(&db, then, Some(snapshot), &mut rng);
                    }
                }
            }
        }
        snapshots.clear();
    }
}

fn rows(db: &Db, options: ReadOptions) -> Vec<String> {
    let rows = db.default_cf().iter_opt(options);
    rows.map(|e| String::from_utf8(e.unwrap().0.into_vec()).unwrap())
        .collect()
}

#[test]
fn a_range_whose_end_comes_first_is_refused_and_an_empty_one_removes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let cf = db.default_cf();
    cf.put("b", "1").unwrap();
    let e = cf.delete_range("c", "a").unwrap_err();
    assert_eq!(e.kind(), ErrorKind::InvalidArgument);
    assert!(
        e.to_string()
            .starts_with("Invalid argument: end key comes before start key")
    );
    let before = db.latest_sequence_number();
    cf.delete_range("b", "b").unwrap();
    assert_eq!(db.latest_sequence_number(), before + 1);
    assert_eq!(rows(&db, ReadOptions::new()), ["b"]);
}

#[test]
fn a_range_deleted_is_gone_for_reads_without_a_snapshot_from_before() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let cf = db.default_cf();
    for k in ["a", "b", "c", "d"] {
        cf.put(k, "1").unwrap();
    }
    let before = db.snapshot();
    cf.delete_range("b", "d").unwrap();
    cf.put("c", "2").unwrap();
    for round in 0..4 {
        assert_eq!(rows(&db, ReadOptions::new()), ["a", "c", "d"], "{round}");
        let old = ReadOptions::new().snapshot(&before);
        assert_eq!(rows(&db, old.clone()), ["a", "b", "c", "d"], "{round}");
        assert_eq!(cf.get_opt("c", &old).unwrap().as_deref(), Some(&b"1"[..]));
        assert_eq!(cf.get("b").unwrap(), None);
        assert_eq!(
            cf.multi_get(["b", "c"])[1].as_ref().unwrap().as_deref(),
            Some(&b"2"[..])
        );
        let mut blind = ReadOptions::new();
        blind.ignore_range_deletions = true;
        assert_eq!(rows(&db, blind.clone()), ["a", "b", "c", "d"], "{round}");
        assert_eq!(cf.get_opt("b", &blind).unwrap().as_deref(), Some(&b"1"[..]));
        match round {
            0 => cf.flush(true).unwrap(),
            1 => cf.compact_range(None, None).unwrap(),
            _ => {
                // A second file with a tombstone of its own over the same keys.
                cf.delete_range("b", "c").unwrap();
                cf.flush(true).unwrap();
            }
        }
    }
}

#[test]
fn a_deletion_under_a_deleted_range_stays_at_the_bottom_while_a_snapshot_needs_the_put_below() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = CfOptions::default();
    options.num_levels = 2;
    options.disable_auto_compactions = true;
    let (db, cf) = {
        let builder = Db::builder(dir.path()).create_if_missing(true);
        let db = builder.cf_options(options).open().unwrap();
        let cf = db.default_cf();
        (db, cf)
    };
    cf.put("k", "1").unwrap();
    let first = db.snapshot();
    cf.delete("k").unwrap();
    let second = db.snapshot();
    cf.delete_range("k", "m").unwrap();
    cf.put("z", "1").unwrap();
    cf.flush(true).unwrap();
    drop(second);
    // Between the others, so that the two files are rewritten, not moved.
    cf.put("y", "1").unwrap();
    cf.compact_range(None, None).unwrap();
    // Three puts, less the deletion and the range deletion as if each hid one.
    let keys = cf.property("rocksdb.estimate-num-keys").unwrap();
    assert_eq!(keys, "1");
    let old = ReadOptions::new().snapshot(&first);
    assert_eq!(cf.get_opt("k", &old).unwrap().as_deref(), Some(&b"1"[..]));
    assert_eq!(cf.get("k").unwrap(), None);
}

#[test]
fn merge_operands_under_a_deleted_range_are_forgotten() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let cf = db.default_cf();
    let value = || cf.get("k").unwrap().map(|v| v.to_vec());
    for flushes in [false, true] {
        let step = || {
            if flushes {
                cf.flush(true).unwrap();
            }
        };
        cf.put("k", "base").unwrap();
        cf.merge("k", "1").unwrap();
        step();
        cf.delete_range("a", "z").unwrap();
        assert_eq!(value(), None);
        step();
        cf.merge("k", "2").unwrap();
        cf.merge("k", "3").unwrap();
        assert_eq!(value().unwrap(), b"2,3");
        let mut cursor = cf.cursor(ReadOptions::new());
        cursor.seek_to_last().unwrap();
        assert_eq!(cursor.value(), b"2,3");
        cursor.seek_to_first().unwrap();
        assert_eq!(cursor.value(), b"2,3");
        drop(cursor);
        step();
        cf.compact_range(None, None).unwrap();
        assert_eq!(value().unwrap(), b"2,3");
    }
}

#[test]
fn a_flush_of_nothing_but_a_range_deletion_writes_a_table_that_acts_and_is_compacted_away() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let cf = db.default_cf();
    for n in 0..200 {
        cf.put(key(n), vec![b'v'; 100]).unwrap();
    }
    cf.compact_range(None, None).unwrap();
    cf.delete_range(key(10), key(190)).unwrap();
    cf.flush(true).unwrap();
    assert_eq!(rows(&db, ReadOptions::new()).len(), 20);
    cf.compact_range(None, None).unwrap();
    assert_eq!(rows(&db, ReadOptions::new()).len(), 20);
    cf.delete_range(key(0), key(999)).unwrap();
    cf.compact_range(None, None).unwrap();
    db.wait_idle(None).unwrap();
    assert_eq!(rows(&db, ReadOptions::new()).len(), 0);
    let files = db.int_property("rocksdb.total-sst-files-size");
    assert_eq!(
        files,
        Some(0),
        "tombstones at the bottom go with what they hid"
    );
}

#[test]
fn a_tombstone_over_many_outputs_protects_snapshots_and_hides_the_rest() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let cf = db.default_cf();
    for n in 0..300 {
        cf.put(key(n), vec![b'a'; 100]).unwrap();
    }
    cf.compact_range(None, None).unwrap();
    let snapshot = db.snapshot();
    cf.delete_range(key(5), key(295)).unwrap();
    for n in (0..300).step_by(3) {
        cf.put(key(n), vec![b'b'; 100]).unwrap();
    }
    cf.compact_range(None, None).unwrap();
    let old = ReadOptions::new().snapshot(&snapshot);
    assert_eq!(rows(&db, old.clone()).len(), 300);
    assert_eq!(rows(&db, ReadOptions::new()).len(), 107);
    for n in 0..300 {
        let gone = (5..295).contains(&n) && n % 3 != 0;
        assert_eq!(cf.get(key(n)).unwrap().is_none(), gone, "{n}");
        assert!(cf.get_opt(key(n), &old).unwrap().is_some());
    }
    drop((old, snapshot));
    // The files' entries are rewritten once no snapshot needs them.
    cf.put(key(0), "c").unwrap();
    cf.put(key(299), "c").unwrap();
    cf.compact_range(None, None).unwrap();
    assert_eq!(rows(&db, ReadOptions::new()).len(), 107);
}

#[test]
fn range_deletions_in_the_log_are_recovered_also_read_only() {
    crate::suite_disk::needs_log_files(
        "the test copies the files of a database that is open, and a disk has one database",
    );
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let cf = db.default_cf();
    cf.put("a", "1").unwrap();
    cf.put("b", "1").unwrap();
    cf.flush(true).unwrap();
    cf.delete_range("a", "b").unwrap();
    db.sync().unwrap();
    drop(cf);
    // Not closed: the log holds the deletion.
    std::mem::forget(db);
    let copy = tempfile::tempdir().unwrap();
    for e in std::fs::read_dir(dir.path()).unwrap() {
        let e = e.unwrap();
        std::fs::copy(e.path(), copy.path().join(e.file_name())).unwrap();
    }
    let db = Db::builder(copy.path()).open_read_only().unwrap();
    assert_eq!(rows(&db, ReadOptions::new()), ["b"]);
    drop(db);
    let db = open(copy.path());
    assert_eq!(rows(&db, ReadOptions::new()), ["b"]);
    let mut batch = WriteBatch::new();
    batch.put("a", "2");
    db.write(&batch).unwrap();
    assert_eq!(rows(&db, ReadOptions::new()), ["a", "b"]);
}

#[test]
fn a_memtable_with_as_many_range_deletions_as_are_allowed_is_flushed() {
    let dir = tempfile::tempdir().unwrap();
    let mut cf = CfOptions::default();
    cf.memtable_max_range_deletions = 3;
    let db = Db::builder(dir.path())
        .create_if_missing(true)
        .cf_options(cf)
        .open()
        .unwrap();
    let tables = || db.int_property("rocksdb.live-sst-files-size").unwrap();
    let erase = |n| db.default_cf().delete_range(key(n), key(n + 1)).unwrap();
    for n in 0..3 {
        erase(n);
    }
    db.wait_idle(None).unwrap();
    assert_eq!(tables(), 0);
    // The next write finds it full.
    erase(3);
    db.wait_idle(None).unwrap();
    assert!(tables() > 0);
}

/// A get at a snapshot stopped at the table whose range tombstone is older than the version it looked
/// for, when that version lay in the next table: versions of one key may be cut apart.
#[test]
fn a_version_in_the_next_table_is_newer_than_the_tombstone_of_the_one_before() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let cf = db.default_cf();
    let early = db.snapshot();
    for n in 0..10 {
        cf.put(key(n), "old").unwrap();
    }
    cf.delete_range(key(0), key(20)).unwrap();
    cf.put(key(5), "middle").unwrap();
    let between = db.snapshot();
    db.flush(true).unwrap();
    // Two blocks that do not compress: the open one does not count when an output is measured.
    let mut x = 1_u32;
    let mut bytes = || {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        x as u8
    };
    let large: Vec<u8> = (0..8000).map(|_| bytes()).collect();
    cf.put(key(5), &large).unwrap();
    let late = db.snapshot();
    cf.put(key(5), &large).unwrap();
    cf.compact_range(None, None).unwrap();
    drop(late);
    let tables = cf.tables();
    let holding = tables.iter().filter(|(_, f)| {
        f.smallest_user_key() <= key(5).as_slice() && f.largest_user_key() >= key(5).as_slice()
    });
    assert_eq!(holding.count(), 2, "the versions were not cut apart");
    let get = |s: &Snapshot| cf.get_opt(key(5), &ReadOptions::new().snapshot(s)).unwrap();
    assert_eq!(get(&between).as_deref(), Some(&b"middle"[..]));
    assert_eq!(get(&early).as_deref(), None);
    assert_eq!(cf.get(key(5)).unwrap().map(|v| v.len()), Some(8000));
}

/// The differential programs, seed 43: a range deletion anywhere in memory had a manual compaction of
/// another range flush.
#[test]
fn a_compaction_of_a_range_leaves_a_memtable_whose_tombstones_lie_elsewhere() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let cf = db.default_cf();
    cf.delete_range(key(50), key(60)).unwrap();
    cf.compact_range(Some(&key(10)), Some(&key(20))).unwrap();
    assert_eq!(cf.tables().len(), 0);
    cf.compact_range(Some(&key(10)), Some(&key(55))).unwrap();
    assert_eq!(
        db.int_property("rocksdb.num-entries-active-mem-table"),
        Some(0)
    );
}

/// Marks all files when a compaction begins.
#[derive(Default)]
struct Suggests(Mutex<Option<Db>>);

impl EventListener for Suggests {
    fn on_compaction_begin(&self, _: &CompactionInfo) {
        let db = self.0.lock().unwrap().clone();
        if let Some(db) = db {
            db.default_cf().suggest_compact_range(None, None).unwrap();
        }
    }
}

#[test]
fn a_table_that_is_marked_while_it_moves_keeps_its_range_tombstones_and_is_free_again() {
    let dir = tempfile::tempdir().unwrap();
    let suggests = Arc::new(Suggests::default());
    let (mut options, mut cf_options) = (DbOptions::default(), CfOptions::default());
    (options.create_if_missing, options.max_open_files) = (true, 100);
    cf_options.disable_auto_compactions = true;
    cf_options.level_compaction_dynamic_level_bytes = false;
    let db = Db::builder(dir.path())
        .options(options)
        .cf_options(cf_options)
        .listener(suggests.clone())
        .open()
        .unwrap();
    let cf = db.default_cf();
    cf.put("m", "old").unwrap();
    cf.flush(true).unwrap();
    let down = CompactRangeOptions {
        change_level: true,
        target_level: Some(2),
        ..CompactRangeOptions::default()
    };
    cf.compact_range_opt(None, None, &down).unwrap();
    cf.delete_range("m", "n").unwrap();
    cf.flush(true).unwrap();
    assert_eq!(crate::compaction::shape(&cf), "1 0 1");
    *suggests.0.lock().unwrap() = Some(db.clone());
    cf.compact_range(Some(b"a"), Some(b"z")).unwrap();
    *suggests.0.lock().unwrap() = None;
    // Wherever the tombstone came to.
    assert_eq!(cf.get("m").unwrap(), None);
    assert_eq!(cf.iter().count(), 0);
    assert!(db.live_files().iter().all(|f| !f.being_compacted));
    cf.compact_range(Some(b"a"), Some(b"z")).unwrap();
    assert_eq!(crate::compaction::shape(&cf), "0");
}

/// Entries below a range that a newer place deletes are not looked for, by the first seek of an iterator or a later one.
#[test]
fn a_seek_into_a_deleted_range_has_older_places_begin_behind_it() {
    let env = Env::test(Arc::new(MemFs::new()), 1).0;
    let db = Db::builder("db")
        .env(env)
        .create_if_missing(true)
        .open()
        .unwrap();
    let cf = db.default_cf();
    for n in 0..1000 {
        cf.put(key(n), b"v").unwrap();
    }
    cf.compact_range(None, None).unwrap();
    let before = db.snapshot();
    // Two that touch.
    cf.delete_range(key(100), key(500)).unwrap();
    cf.delete_range(key(500), key(900)).unwrap();
    for place in ["memtable", "level 0"] {
        let mut cursor = cf.cursor(ReadOptions::new());
        for (from, to, moved) in [(99, 99, 0), (100, 900, 1), (899, 900, 1), (900, 900, 0)] {
            for mut fresh in [None, Some(cf.cursor(ReadOptions::new()))] {
                let cursor = fresh.as_mut().unwrap_or(&mut cursor);
                perf::set_level(2);
                perf::reset();
                cursor.seek(&key(from)).unwrap();
                let counted = perf::value(PerfCounter::InternalRangeDelReseekCount);
                perf::set_level(1);
                assert_eq!(cursor.key(), key(to), "{place}: {from}");
                // Of fragments that touch a new iterator of memtables knows the first only.
                assert!(
                    (moved..=moved * 2).contains(&counted),
                    "{place}: {from}: {counted}"
                );
            }
        }
        let mut older = cf.cursor(ReadOptions::new().snapshot(&before));
        for from in [100, 899] {
            older.seek(&key(from)).unwrap();
            assert_eq!(older.key(), key(from), "{place}");
        }
        cf.flush(true).unwrap();
    }
    cf.put(key(300), b"new").unwrap();
    let mut cursor = cf.cursor(ReadOptions::new());
    for from in [200, 300, 200] {
        cursor.seek(&key(from)).unwrap();
        assert_eq!(cursor.key(), key(300));
        cursor.next().unwrap();
        assert_eq!(cursor.key(), key(900));
        cursor.prev().unwrap();
        assert_eq!(cursor.key(), key(300));
    }
}
