//! User code that calls back into its database: filters and listeners that write in a job, or where a write waits.

use crate::compaction::small;
use spanlith::listener::{CompactionInfo, EventListener, MemtableInfo};
use spanlith::options::DbOptions;
use spanlith::{
    CompactionFilter, Comparator, Db, FamilyOptions, FilterDecision, FilterValue, MergeOperator,
    UserComparator, WeakDb,
};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

/// Writes to its database in every entry of a compaction, once writers are stopped.
#[derive(Default)]
struct Writes {
    db: OnceLock<WeakDb>,
    /// Writers are stopped.
    go: AtomicBool,
    wrote: AtomicUsize,
    errors: Mutex<Vec<String>>,
}

impl Writes {
    fn write(&self, key: &str) {
        let Some(db) = self.db.get().and_then(WeakDb::upgrade) else {
            return;
        };
        match db.default_cf().put(key, "by a callback") {
            Ok(()) => {
                self.wrote.fetch_add(1, Ordering::Relaxed);
            }
            Err(e) => self.errors.lock().unwrap().push(e.to_string()),
        }
    }
}

impl CompactionFilter for Writes {
    fn name(&self) -> &str {
        "test.Writes"
    }

    fn filter(&self, _: usize, key: &[u8], _: FilterValue<'_>) -> FilterDecision {
        if key.starts_with(b"user") {
            while !self.go.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            self.write(&format!("filter-{}", String::from_utf8_lossy(key)));
        }
        FilterDecision::Keep
    }
}

impl EventListener for Writes {
    fn on_compaction_completed(&self, info: &CompactionInfo) {
        self.write(&format!("listener-{}", info.job));
    }
}

/// A filter in the only compaction that would end the stop, with a writer before it in the queue, hung.
#[test]
fn a_filter_and_a_listener_write_while_writers_are_stopped_at_level_0() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = small();
    options.disable_auto_compactions = true;
    options.level0_file_num_compaction_trigger = 2;
    options.level0_slowdown_writes_trigger = 2;
    options.level0_stop_writes_trigger = 3;
    let callbacks = Arc::new(Writes::default());
    let db = Db::builder(dir.path())
        .create_if_missing(true)
        .no_info_log()
        .cf_options(options)
        .compaction_filter(callbacks.clone())
        .listener(callbacks.clone())
        .open()
        .unwrap();
    assert!(callbacks.db.set(db.downgrade()).is_ok());
    let cf = db.default_cf();
    for file in 0..3 {
        // They overlap, so that none is moved past the filter.
        for key in ["user0", "user1", "user2"] {
            cf.put(key, format!("{file}")).unwrap();
        }
        cf.flush(true).unwrap();
    }
    cf.set_options(&[("disable_auto_compactions", "false")])
        .unwrap();
    std::thread::scope(|scope| {
        for writer in 0..3 {
            let cf = &cf;
            scope.spawn(move || cf.put(format!("writer{writer}"), "v").unwrap());
        }
        callbacks.go.store(true, Ordering::Release);
    });
    db.wait_idle(None).unwrap();
    assert_eq!(*callbacks.errors.lock().unwrap(), Vec::<String>::new());
    for key in ["filter-user0", "filter-user2", "writer0", "writer2"] {
        assert!(cf.get(key).unwrap().is_some(), "{key}");
    }
    assert!(callbacks.wrote.load(Ordering::Relaxed) >= 3);
    drop(cf);
    db.close().unwrap();
}

/// Writes where a memtable was sealed, once.
#[derive(Default)]
struct InWrite {
    db: OnceLock<WeakDb>,
    answer: Mutex<Option<String>>,
}

impl EventListener for InWrite {
    fn on_memtable_sealed(&self, _: &MemtableInfo) {
        let mut answer = self.answer.lock().unwrap();
        if let Some(db) = self.db.get().and_then(WeakDb::upgrade)
            && answer.is_none()
        {
            *answer = Some(match db.default_cf().put("nested", "v") {
                Ok(()) => "written".to_string(),
                Err(e) => e.to_string(),
            });
        }
    }
}

/// It waited behind the write that it was called by.
#[test]
fn a_listener_that_is_told_by_a_write_cannot_write() {
    let dir = tempfile::tempdir().unwrap();
    let listener = Arc::new(InWrite::default());
    let mut options = small();
    options.write_buffer_size = 64 << 10;
    let db = Db::builder(dir.path())
        .create_if_missing(true)
        .no_info_log()
        .cf_options(options)
        .listener(listener.clone())
        .open()
        .unwrap();
    assert!(listener.db.set(db.downgrade()).is_ok());
    let cf = db.default_cf();
    for i in 0..200 {
        cf.put(format!("{i:04}"), vec![b'x'; 1000]).unwrap();
    }
    let answer = listener.answer.lock().unwrap().clone();
    let refused = "Not implemented: Writing in a callback of a write that waits";
    assert_eq!(answer.as_deref(), Some(refused));
    assert_eq!(cf.get("nested").unwrap(), None);
    // Told by a flush that nobody waits behind, it may.
    *listener.answer.lock().unwrap() = None;
    cf.flush(true).unwrap();
    let answer = listener.answer.lock().unwrap().clone();
    assert_eq!(answer.as_deref(), Some("written"));
    drop(cf);
    db.close().unwrap();
}

/// The error of a comparator or a merge operator that writes to its database in the middle of a write.
const NESTED: &str = "Not implemented: Writing in a callback of a write that waits";

/// Orders bytewise, and writes to its database when told to.
#[derive(Default)]
struct WritesInOrder(Writes);

impl UserComparator for WritesInOrder {
    fn name(&self) -> &str {
        "test.WritesInOrder"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
        if self.0.go.swap(false, Ordering::Relaxed) {
            self.0.write("nested");
        }
        a.cmp(b)
    }
}

/// Both hung: the writer waited for itself.
#[test]
fn a_comparator_that_writes_while_a_write_is_inserted_is_told_so() {
    for family_comes_later in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let order = Arc::new(WritesInOrder::default());
        let comparator = || Comparator::User(order.clone());
        let builder = Db::builder(dir.path())
            .create_if_missing(true)
            .no_info_log();
        let db = match family_comes_later {
            false => builder.comparator(comparator()).open().unwrap(),
            true => builder.open().unwrap(),
        };
        let family = || FamilyOptions::new("later").comparator(comparator());
        let cf = match family_comes_later {
            false => db.default_cf(),
            true => db.create_cf(family()).unwrap(),
        };
        assert!(order.0.db.set(db.downgrade()).is_ok());
        cf.put("a", "1").unwrap();
        order.0.go.store(true, Ordering::Relaxed);
        cf.put("b", "2").unwrap();
        assert!(!order.0.go.load(Ordering::Relaxed), "it was not asked");
        assert_eq!(*order.0.errors.lock().unwrap(), [NESTED]);
        // A read is no write: what it calls may write.
        order.0.go.store(true, Ordering::Relaxed);
        assert_eq!(cf.get("b").unwrap().as_deref(), Some(&b"2"[..]));
        assert_eq!(order.0.wrote.load(Ordering::Relaxed), 1);
        assert_eq!(
            db.default_cf().get("nested").unwrap().as_deref(),
            Some(&b"by a callback"[..])
        );
        drop(cf);
        db.close().unwrap();
    }
}

impl MergeOperator for Writes {
    fn name(&self) -> &str {
        "test.Writes"
    }

    fn full_merge(&self, _: &[u8], existing: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        if self.go.swap(false, Ordering::Relaxed) {
            self.write("nested");
        }
        Some([existing.unwrap_or_default(), &operands.concat()].concat())
    }
}

#[test]
fn a_merge_operator_that_writes_while_operands_are_folded_into_a_memtable_is_told_so() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = small();
    options.max_successive_merges = 1;
    let operator = Arc::new(Writes::default());
    let db = Db::builder(dir.path())
        .create_if_missing(true)
        .no_info_log();
    let db = db.options(DbOptions::new().allow_concurrent_memtable_write(false));
    let db = db.create_if_missing(true).cf_options(options);
    let db = db.merge_operator(operator.clone()).open().unwrap();
    assert!(operator.db.set(db.downgrade()).is_ok());
    let cf = db.default_cf();
    cf.merge("a", "1").unwrap();
    operator.go.store(true, Ordering::Relaxed);
    cf.merge("a", "2").unwrap();
    assert_eq!(*operator.errors.lock().unwrap(), [NESTED]);
    assert_eq!(cf.get("a").unwrap().as_deref(), Some(&b"12"[..]));
    drop(cf);
    db.close().unwrap();
}
