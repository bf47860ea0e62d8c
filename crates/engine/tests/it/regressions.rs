//! Mistakes found by `spanlith-stress`, in their smallest form.

use spanlith::{Db, WriteOptions};

/// A flush dropped a single delete because a newer pair of put and single delete stood above it; the
/// put it was meant for lay in a table and came back. The shape: put below, then three toggles.
#[test]
fn a_single_delete_under_a_cancelled_pair_still_removes_the_put_below() {
    let dir = tempfile::tempdir().unwrap();
    for newest_is_put in [false, true] {
        let db = Db::open(dir.path().join(newest_is_put.to_string())).unwrap();
        let cf = db.default_cf();
        let remove = || cf.single_delete_opt("k", &WriteOptions::new()).unwrap();
        cf.put("k", "old").unwrap();
        db.flush(true).unwrap();
        remove();
        cf.put("k", "new").unwrap();
        if !newest_is_put {
            remove();
        }
        db.flush(true).unwrap();
        if newest_is_put {
            remove();
            db.flush(true).unwrap();
        }
        assert_eq!(cf.get("k").unwrap().as_deref(), None);
        cf.compact_range(None, None).unwrap();
        assert_eq!(cf.get("k").unwrap().as_deref(), None);
    }
}

/// Each open left one more OPTIONS file until the next: the old ones went before the new one was
/// written. Two are kept, as RocksDB does.
#[test]
fn two_options_files_are_kept_after_any_number_of_opens() {
    let dir = tempfile::tempdir().unwrap();
    for _ in 0..4 {
        Db::open(dir.path()).unwrap().close().unwrap();
    }
    let names = std::fs::read_dir(dir.path()).unwrap();
    let names = names.map(|e| e.unwrap().file_name().into_string().unwrap());
    assert_eq!(names.filter(|n| n.starts_with("OPTIONS-")).count(), 2);
}
