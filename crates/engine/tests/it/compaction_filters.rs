//! Compaction filters and their factories.

use crate::compaction::{keys, open_with, shape, small};
use spanlith::{
    CompactionFilter, CompactionFilterFactory, Db, FilterContext, FilterDecision, FilterValue,
    RemoveEmptyValues, Severity, TableCreation,
};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Says what the key says, and counts its calls.
#[derive(Default)]
struct ByKey(AtomicUsize);

impl CompactionFilter for ByKey {
    fn name(&self) -> &str {
        "test.ByKey"
    }

    fn filter(&self, _level: usize, key: &[u8], value: FilterValue<'_>) -> FilterDecision {
        self.0.fetch_add(1, Ordering::Relaxed);
        match (key, value) {
            (_, FilterValue::Operand(b"drop")) => FilterDecision::Remove,
            (b"drop", FilterValue::Value(_)) => FilterDecision::Remove,
            (b"purge", FilterValue::Value(_)) => FilterDecision::Purge,
            (b"change", FilterValue::Value(_)) => FilterDecision::ChangeValue(b"changed".to_vec()),
            (b"skip", FilterValue::Value(_)) => FilterDecision::RemoveAndSkipUntil(b"t".to_vec()),
            _ => FilterDecision::Keep,
        }
    }
}

#[test]
fn a_filter_removes_changes_and_skips_what_a_compaction_rewrites() {
    let dir = tempfile::tempdir().unwrap();
    let filter = Arc::new(ByKey::default());
    let open = || {
        Db::builder(dir.path())
            .create_if_missing(true)
            .no_info_log()
            .cf_options(small())
            .merge_operator(Arc::new(spanlith::StringAppend::new(b",")))
            .compaction_filter(filter.clone())
            .open()
            .unwrap()
    };
    let db = open();
    let cf = db.default_cf();
    for key in [
        "a", "change", "drop", "keep", "purge", "skip", "skipped", "z",
    ] {
        cf.put(key, "v").unwrap();
    }
    for operand in ["x", "drop", "y"] {
        cf.merge("m", operand).unwrap();
    }
    db.flush(true).unwrap();
    assert_eq!(
        filter.0.load(Ordering::Relaxed),
        0,
        "a flush is not filtered"
    );
    let snapshot = db.snapshot();
    cf.put("keep", "new").unwrap();
    cf.compact_range(None, None).unwrap();
    assert_eq!(keys(&cf), "a change keep m z");
    assert_eq!(cf.get("change").unwrap().as_deref(), Some(&b"changed"[..]));
    assert_eq!(cf.get("keep").unwrap().as_deref(), Some(&b"new"[..]));
    assert_eq!(
        cf.get("m").unwrap().as_deref(),
        Some(&b"x,drop,y"[..]),
        "the snapshot protects operands, not values"
    );
    drop(snapshot);
    drop((cf, db));
    let db = open();
    assert_eq!(keys(&db.default_cf()), "a change keep m z");
}

/// Removes every value, and keeps operands.
struct NoValues;

impl CompactionFilter for NoValues {
    fn name(&self) -> &str {
        "NoValues"
    }

    fn filter(&self, _level: usize, _key: &[u8], value: FilterValue<'_>) -> FilterDecision {
        match value {
            FilterValue::Operand(_) => FilterDecision::Keep,
            _ => FilterDecision::Remove,
        }
    }
}

#[test]
fn an_operand_above_a_deleted_range_is_no_value_for_a_filter() {
    let dir = tempfile::tempdir().unwrap();
    let builder = Db::builder(dir.path()).create_if_missing(true);
    let builder = builder.merge_operator(Arc::new(spanlith::StringAppend::new(b",")));
    let db = builder
        .compaction_filter(Arc::new(NoValues))
        .open()
        .unwrap();
    let cf = db.default_cf();
    cf.merge("k", "1").unwrap();
    cf.delete_range("a", "z").unwrap();
    cf.merge("k", "2").unwrap();
    cf.compact_range(None, None).unwrap();
    assert_eq!(cf.get("k").unwrap().as_deref(), Some(&b"2"[..]));
}

#[test]
fn a_filter_does_not_bring_back_what_a_range_deletes() {
    let dir = tempfile::tempdir().unwrap();
    let builder = Db::builder(dir.path()).create_if_missing(true);
    let filtered = builder.compaction_filter(Arc::new(ByKey::default()));
    let db = filtered.open().unwrap();
    let cf = db.default_cf();
    cf.put("change", "value").unwrap();
    db.flush(true).unwrap();
    cf.delete_range("a", "z").unwrap();
    cf.compact_range(None, None).unwrap();
    assert_eq!(cf.get("change").unwrap(), None);
    cf.put("change", "value").unwrap();
    db.flush(true).unwrap();
    cf.compact_range(None, None).unwrap();
    assert_eq!(cf.get("change").unwrap().as_deref(), Some(&b"changed"[..]));
}

/// Keeps everything, and notes what it was asked about.
#[derive(Default)]
struct Asked(Mutex<Vec<String>>);

impl CompactionFilter for Asked {
    fn name(&self) -> &str {
        "Asked"
    }

    fn filter(&self, _level: usize, _key: &[u8], value: FilterValue<'_>) -> FilterDecision {
        let (kind, value) = match value {
            FilterValue::Operand(o) => ("operand", o),
            FilterValue::Value(v) => ("value", v),
            FilterValue::Entity(e) => ("entity", e),
        };
        let note = format!("{kind} {}", String::from_utf8_lossy(value));
        self.0.lock().unwrap().push(note);
        FilterDecision::Keep
    }
}

/// The operands decide nothing, so the value is the newest entry of its key.
#[test]
fn a_filter_is_asked_about_the_value_below_operands_that_a_range_deletes() {
    let dir = tempfile::tempdir().unwrap();
    let asked = Arc::new(Asked::default());
    let builder = Db::builder(dir.path()).create_if_missing(true);
    let db = builder
        .compaction_filter(asked.clone())
        .merge_operator(Arc::new(spanlith::StringAppend::new(b",")))
        .open()
        .unwrap();
    let cf = db.default_cf();
    cf.put("k", "base").unwrap();
    db.flush(true).unwrap();
    cf.merge("k", "more").unwrap();
    db.flush(true).unwrap();
    cf.delete_range("a", "z").unwrap();
    cf.compact_range(None, None).unwrap();
    assert_eq!(cf.get("k").unwrap(), None);
    assert_eq!(*asked.0.lock().unwrap(), ["operand more", "value base"]);
}

/// As RocksDB's does, whatever the snapshots see.
#[test]
fn a_filter_is_asked_about_the_value_below_operands_that_a_snapshot_keeps_from_it() {
    let dir = tempfile::tempdir().unwrap();
    let builder = Db::builder(dir.path()).create_if_missing(true);
    let db = builder
        .compaction_filter(Arc::new(ByKey::default()))
        .merge_operator(Arc::new(spanlith::StringAppend::new(b",")))
        .open()
        .unwrap();
    let cf = db.default_cf();
    cf.put("change", "value").unwrap();
    let snapshot = db.snapshot();
    cf.merge("change", "more").unwrap();
    cf.compact_range(None, None).unwrap();
    let found = cf.get("change").unwrap();
    assert_eq!(found.as_deref(), Some(&b"changed,more"[..]));
    drop(snapshot);
}

/// Drops everything, for the jobs it is told to.
struct Everything {
    when: TableCreation,
    seen: Arc<AtomicUsize>,
}

impl CompactionFilter for Everything {
    fn name(&self) -> &str {
        "test.Everything"
    }

    fn filter(&self, _: usize, _: &[u8], _: FilterValue<'_>) -> FilterDecision {
        FilterDecision::Remove
    }
}

impl CompactionFilterFactory for Everything {
    fn name(&self) -> &str {
        "test.Everything"
    }

    fn create(&self, context: &FilterContext) -> Option<Box<dyn CompactionFilter>> {
        assert_eq!(context.creation, self.when);
        assert_eq!(
            context.is_manual_compaction,
            self.when == TableCreation::Compaction
        );
        self.seen.fetch_add(1, Ordering::Relaxed);
        Some(Box::new(Self {
            when: self.when,
            seen: self.seen.clone(),
        }))
    }

    fn should_filter(&self, creation: TableCreation) -> bool {
        creation == self.when
    }
}

#[test]
fn a_factory_filters_the_kinds_of_jobs_it_asks_for() {
    for when in [TableCreation::Flush, TableCreation::Compaction] {
        let dir = tempfile::tempdir().unwrap();
        let seen = Arc::new(AtomicUsize::new(0));
        let factory = Everything {
            when,
            seen: seen.clone(),
        };
        let db = Db::builder(dir.path())
            .create_if_missing(true)
            .no_info_log()
            .cf_options(small())
            .compaction_filter_factory(Arc::new(factory))
            .open()
            .unwrap();
        let cf = db.default_cf();
        cf.put("a", "1").unwrap();
        db.flush(true).unwrap();
        let want = if when == TableCreation::Flush {
            ""
        } else {
            "a"
        };
        assert_eq!(keys(&cf), want, "{when:?}");
        cf.compact_range(None, None).unwrap();
        assert_eq!(keys(&cf), "", "{when:?}");
        assert_eq!(shape(&cf), "0 0 0 0 0 0".trim_end_matches(" 0"), "{when:?}");
        assert!(seen.load(Ordering::Relaxed) > 0);
    }
}

#[test]
fn the_built_in_filter_is_found_by_its_name_and_drops_empty_values() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = small();
    options.compaction_filter = RemoveEmptyValues::NAME.to_string();
    let db = open_with(dir.path(), options);
    let cf = db.default_cf();
    cf.put("empty", "").unwrap();
    cf.put("full", "v").unwrap();
    db.flush(true).unwrap();
    cf.compact_range(None, None).unwrap();
    assert_eq!(keys(&cf), "full");
}

/// Panics once it is told to.
#[derive(Default)]
struct Bomb(AtomicBool);

impl CompactionFilter for Bomb {
    fn name(&self) -> &str {
        "test.Bomb"
    }

    fn filter(&self, _: usize, _: &[u8], _: FilterValue<'_>) -> FilterDecision {
        assert!(!self.0.load(Ordering::Relaxed), "planted");
        FilterDecision::Keep
    }
}

#[test]
fn a_caller_whose_compaction_panics_gets_an_error_and_no_file_stays_busy() {
    for by_files in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let bomb = Arc::new(Bomb::default());
        let db = Db::builder(dir.path())
            .create_if_missing(true)
            .no_info_log()
            .cf_options(small())
            .compaction_filter(bomb.clone())
            .open()
            .unwrap();
        let cf = db.default_cf();
        for value in ["1", "2"] {
            cf.put("k", value).unwrap();
            cf.flush(true).unwrap();
        }
        bomb.0.store(true, Ordering::Relaxed);
        let numbers: Vec<u64> = db.live_files().iter().map(|f| f.number).collect();
        let done = match by_files {
            true => cf.compact_files(&numbers, 1, &Default::default()).map(drop),
            false => cf.compact_range(None, None),
        };
        let e = done.unwrap_err();
        let want = "Operation aborted: panic in a compaction job: planted";
        assert!(e.to_string().starts_with(want), "{e}");
        assert!(db.live_files().iter().all(|f| !f.being_compacted));
        assert_eq!(cf.put("k", "3").unwrap_err().severity(), Severity::Fatal);
        assert_eq!(cf.get("k").unwrap().as_deref(), Some(&b"2"[..]));
        assert!(db.close().is_err());
    }
}
