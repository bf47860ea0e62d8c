//! Flushes that scans ask for (`memtable_op_scan_flush_trigger`, `memtable_avg_op_scan_flush_trigger`), and
//! `sample_for_compression`, the third option of RocksDB's that works with estimates (R-SPACE-07, R-SPACE-22).

use spanlith::options::CfOptions;
use spanlith::{Db, ReadOptions};
use spanlith_env::{Env, MemFs};
use std::sync::Arc;

fn open(change: impl FnOnce(&mut CfOptions)) -> Db {
    let mut cf = CfOptions::default();
    cf.disable_auto_compactions = true;
    change(&mut cf);
    Db::builder("db")
        .env(Env::test(Arc::new(MemFs::new()), 1).0)
        .create_if_missing(true)
        .cf_options(cf)
        .open()
        .unwrap()
}

fn key(n: u32) -> Vec<u8> {
    format!("k{n:04}").into_bytes()
}

/// Tables after the next write.
fn tables_after_a_write(db: &Db) -> u64 {
    db.default_cf().put(key(9000), "x").unwrap();
    db.wait_idle(None).unwrap();
    db.property("rocksdb.num-files-at-level0")
        .unwrap()
        .parse()
        .unwrap()
}

#[test]
fn a_move_over_many_hidden_entries_of_the_memtable_has_it_flushed() {
    // Deleted, of which a move passes the deletion and the value; overwritten three times.
    for overwritten in [false, true] {
        for (trigger, flushes) in [(0, false), (11, false), (10, true)] {
            let db = open(|o| {
                o.memtable_op_scan_flush_trigger = trigger;
                o.max_sequential_skip_in_iterations = 100;
            });
            let cf = db.default_cf();
            match overwritten {
                false => {
                    (0..5).for_each(|n| cf.put(key(n), "v").unwrap());
                    (0..5).for_each(|n| cf.delete(key(n)).unwrap());
                }
                true => (0..11).for_each(|_| cf.put(key(4), "v").unwrap()),
            }
            cf.put(key(5), "v").unwrap();
            let mut cursor = cf.cursor(ReadOptions::new());
            match overwritten {
                false => assert!(cursor.seek(&key(0)).unwrap()),
                true => assert!(cursor.seek(&key(4)).unwrap() && cursor.next().unwrap()),
            }
            assert_eq!(cursor.entry().unwrap().0, key(5));
            let tables = tables_after_a_write(&db);
            assert_eq!(tables, flushes.into(), "{trigger} {overwritten}");
        }
    }
}

#[test]
fn the_average_of_moves_asks_for_a_flush_when_the_iterator_leaves() {
    // Two hidden entries before each of ten that are shown.
    for (average, flushes) in [(3, false), (2, true)] {
        let db = open(|o| {
            o.memtable_op_scan_flush_trigger = 12;
            o.memtable_avg_op_scan_flush_trigger = average;
        });
        let cf = db.default_cf();
        for n in 0..20 {
            cf.put(key(n), "v").unwrap();
        }
        for n in (0..20).step_by(2) {
            cf.delete(key(n)).unwrap();
        }
        let mut cursor = cf.cursor(ReadOptions::new());
        assert!(cursor.seek_to_first().unwrap());
        for _ in 0..9 {
            assert!(cursor.next().unwrap());
        }
        assert_eq!(tables_after_a_write(&db), 0, "no single move asks");
        // The end of the scan: by another move to a place, or with the iterator.
        if average == 2 {
            assert!(cursor.seek(&key(1)).unwrap());
        }
        drop(cursor);
        assert_eq!(tables_after_a_write(&db), flushes.into(), "{average}");
    }
}

#[test]
fn entries_of_tables_and_backward_moves_ask_for_no_flush() {
    let db = open(|o| o.memtable_op_scan_flush_trigger = 4);
    let cf = db.default_cf();
    for n in 0..10 {
        cf.put(key(n), "v").unwrap();
        cf.delete(key(n)).unwrap();
    }
    cf.flush(true).unwrap();
    cf.put(key(11), "v").unwrap();
    let mut cursor = cf.cursor(ReadOptions::new());
    assert!(cursor.seek(&key(0)).unwrap());
    assert_eq!(tables_after_a_write(&db), 1);
    for n in 0..10 {
        cf.put(key(n), "v").unwrap();
        cf.delete(key(n)).unwrap();
    }
    let mut cursor = cf.cursor(ReadOptions::new());
    assert!(!cursor.seek_for_prev(&key(10)).unwrap());
    assert_eq!(tables_after_a_write(&db), 1);
    // Set at run time: iterators made from then on follow it.
    cf.set_options(&[("memtable_op_scan_flush_trigger", "0")])
        .unwrap();
    assert!(cf.cursor(ReadOptions::new()).seek(&key(0)).unwrap());
    assert_eq!(tables_after_a_write(&db), 1);
    cf.set_options(&[("memtable_op_scan_flush_trigger", "4")])
        .unwrap();
    assert!(cf.cursor(ReadOptions::new()).seek(&key(0)).unwrap());
    assert_eq!(tables_after_a_write(&db), 2);
}

#[test]
fn tables_estimate_their_size_with_other_codecs() {
    let db = open(|_| {});
    let estimates = |db: &Db| {
        let cf = db.default_cf();
        for n in 0..2000 {
            cf.put(key(n), "v".repeat(50)).unwrap();
        }
        cf.flush(true).unwrap();
        let all = db.property("rocksdb.aggregated-table-properties").unwrap();
        let number = |name: &str| {
            let of = all.split("; ").find_map(|p| p.strip_prefix(name));
            of.unwrap()[1..].parse::<u64>().unwrap()
        };
        (
            number("slow compression estimated data size"),
            number("fast compression estimated data size"),
            number("data block size"),
        )
    };
    let (slow, fast, _) = estimates(&db);
    assert_eq!((slow, fast), (0, 0));
    db.default_cf()
        .set_options(&[("sample_for_compression", "1"), ("compression", "kZSTD")])
        .unwrap();
    let before = estimates(&open(|_| {})).2;
    let (slow, fast, both) = estimates(&db);
    // Of every block of the second table: what it takes by its own codec.
    assert_eq!(slow, both - before);
    assert!(fast > slow && fast < before, "{slow} {fast} {before}");
}
