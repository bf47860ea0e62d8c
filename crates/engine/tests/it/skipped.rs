//! How moves with a limit count the internal keys they pass over: as RocksDB's do.

use spanlith::options::CfOptions;
use spanlith::{Db, Error, ReadOptions, StringAppend};
use spanlith_base::perf::{self, PerfCounter};
use spanlith_env::{Env, MemFs};
use std::sync::Arc;

/// A database whose iterators seek after `reseek_after` versions of a key.
fn open(reseek_after: u64) -> Db {
    let (env, _, _) = Env::test(Arc::new(MemFs::new()), 1);
    let builder = Db::builder("/db").create_if_missing(true).env(env);
    let builder = builder.merge_operator(Arc::new(StringAppend::new(b",")));
    let options = CfOptions::new().max_sequential_skip_in_iterations(reseek_after);
    builder.cf_options(options).no_info_log().open().unwrap()
}

/// Keys that a walk shows if a move may pass over `most` internal keys.
fn walk(db: &Db, most: u64, forward: bool) -> Result<String, Error> {
    let mut options = ReadOptions::new();
    options.max_skipped = most;
    let mut cursor = db.default_cf().cursor(options);
    let mut keys = Vec::new();
    let mut valid = match forward {
        true => cursor.seek_to_first()?,
        false => cursor.seek_to_last()?,
    };
    while valid {
        keys.push(String::from_utf8_lossy(cursor.key()).into_owned());
        valid = match forward {
            true => cursor.next()?,
            false => cursor.prev()?,
        };
    }
    Ok(keys.join(" "))
}

fn put(db: &Db, key: &str, times: u32) {
    for n in 0..times {
        db.default_cf().put(key, n.to_string()).unwrap();
    }
}

#[track_caller]
fn is_too_many(result: Result<String, Error>) {
    assert_eq!(
        result.unwrap_err().to_string(),
        "Result incomplete: Too many internal keys skipped."
    );
}

#[test]
fn versions_that_a_range_deletes_do_not_count() {
    let db = open(8);
    put(&db, "a", 5);
    db.default_cf().delete_range("a", "b").unwrap();
    put(&db, "a", 1);
    put(&db, "b", 1);
    assert_eq!(walk(&db, 1, true).unwrap(), "a b");
    assert_eq!(walk(&db, 1, false).unwrap(), "b a");
    put(&db, "a", 2);
    is_too_many(walk(&db, 1, true));
    is_too_many(walk(&db, 1, false));
}

#[test]
fn versions_that_a_seek_leaves_behind_do_not_count() {
    let db = open(2);
    put(&db, "a", 20);
    put(&db, "b", 20);
    put(&db, "c", 1);
    // Three versions, then a seek.
    assert_eq!(walk(&db, 3, true).unwrap(), "a b c");
    is_too_many(walk(&db, 2, true));
    // Two versions, a third that is looked at, a seek to the newest, and that one on the way out.
    assert_eq!(walk(&db, 3, false).unwrap(), "c b a");
    is_too_many(walk(&db, 2, false));
    is_too_many(walk(&open_filled(8), 4, true));
    is_too_many(walk(&open_filled(8), 4, false));
}

fn open_filled(reseek_after: u64) -> Db {
    let db = open(reseek_after);
    put(&db, "a", 20);
    put(&db, "b", 20);
    db
}

/// Backward a merge of many operands is made from the newest to the oldest, and passed again as a whole.
#[test]
fn a_merge_after_a_seek_is_the_same_value() {
    for base in [true, false] {
        let db = open(2);
        let cf = db.default_cf();
        put(&db, "a", 1);
        if base {
            cf.put("b", "x").unwrap();
        } else {
            cf.delete("b").unwrap();
        }
        for n in 0..6 {
            cf.merge("b", n.to_string()).unwrap();
        }
        put(&db, "c", 1);
        let mut options = ReadOptions::new();
        options.max_skipped = 100;
        let mut cursor = cf.cursor(options);
        assert!(cursor.seek_to_last().unwrap());
        assert!(cursor.prev().unwrap());
        let want = if base { "x,0,1,2,3,4,5" } else { "0,1,2,3,4,5" };
        assert_eq!(cursor.value(), want.as_bytes());
        assert!(cursor.prev().unwrap());
        assert_eq!(cursor.key(), b"a");
        assert!(cursor.next().unwrap());
        assert_eq!(cursor.value(), want.as_bytes());
        assert!(cursor.prev().unwrap());
        assert_eq!(cursor.key(), b"a");
    }
}

/// Keys and values of a walk, first key first.
fn contents(db: &Db, options: ReadOptions, forward: bool) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut cursor = db.default_cf().cursor(options);
    let mut all = Vec::new();
    let mut valid = match forward {
        true => cursor.seek_to_first().unwrap(),
        false => cursor.seek_to_last().unwrap(),
    };
    while valid {
        all.push((cursor.key().to_vec(), cursor.value().to_vec()));
        valid = match forward {
            true => cursor.next().unwrap(),
            false => cursor.prev().unwrap(),
        };
    }
    if !forward {
        all.reverse();
    }
    all
}

#[test]
fn backward_moves_seek_over_many_versions() {
    let db = open(8);
    let cf = db.default_cf();
    let merge = |key: &str, times: u32| {
        for n in 0..times {
            cf.merge(key, n.to_string()).unwrap();
        }
    };
    put(&db, "a", 1);
    put(&db, "m", 300);
    put(&db, "merged", 300);
    merge("merged", 20);
    merge("operands", 30);
    put(&db, "p", 300);
    cf.delete("p").unwrap();
    let snapshot = db.snapshot();
    for key in ["m", "merged", "p", "z"] {
        put(&db, key, 300);
    }
    cf.delete("m").unwrap();
    merge("merged", 5);
    put(&db, "zz", 1);
    perf::reset();
    perf::set_level(2);
    for at in [None, Some(snapshot)] {
        let options = || {
            let options = ReadOptions::new();
            match &at {
                Some(snapshot) => options.snapshot(snapshot),
                None => options,
            }
        };
        let forward = contents(&db, options(), true);
        assert_eq!(forward, contents(&db, options(), false));
        assert!(forward.len() >= 4, "{forward:?}");
        // From an entry found forward, over versions that are too new.
        let mut cursor = cf.cursor(options());
        for pair in forward.windows(2) {
            assert!(cursor.seek(&pair[1].0).unwrap());
            assert!(cursor.prev().unwrap());
            assert_eq!((cursor.key(), cursor.value()), (&*pair[0].0, &*pair[0].1));
        }
    }
    perf::set_level(1);
    let steps = perf::value(PerfCounter::PrevOnMemtableCount);
    assert!(steps < 1000, "{steps} steps over some 2,800 versions");
}
