//! Collectors of table properties: what they add, and that tables they mark are compacted.

use spanlith::options::CfOptions;
use spanlith::{
    Cf, CollectedEntry, CollectorContext, CompactOnDeletion, Db, EventListener,
    TablePropertiesCollector, TablePropertiesCollectorFactory, listener::CompactionInfo,
};
use std::path::Path;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex};

fn levels(cf: &Cf) -> Vec<String> {
    let count = |l| cf.property(&format!("rocksdb.num-files-at-level{l}"));
    (0..7).map(|l| count(l).unwrap()).collect()
}

fn open(dir: &Path, collectors: &str, disable_auto_compactions: bool) -> Db {
    let mut cf = CfOptions::default();
    cf.table_properties_collectors = collectors.to_string();
    cf.disable_auto_compactions = disable_auto_compactions;
    Db::builder(dir)
        .create_if_missing(true)
        .cf_options(cf)
        .open()
        .unwrap()
}

/// 200 keys in one table, deletions of 60 of them in another.
fn load(cf: &Cf) {
    for n in 0..200 {
        cf.put(format!("k{n:03}"), "value").unwrap();
    }
    cf.flush(true).unwrap();
    for n in 0..60 {
        cf.delete(format!("k{n:03}")).unwrap();
    }
    cf.flush(true).unwrap();
}

const DENSE: &str = "{{id=CompactOnDeletionCollector;window_size=100;deletion_trigger=50;}}";

/// Hears why compactions ran.
#[derive(Default)]
struct Reasons(Mutex<Vec<&'static str>>);

impl EventListener for Reasons {
    fn on_compaction_completed(&self, info: &CompactionInfo) {
        self.0.lock().unwrap().push(info.reason.0);
    }
}

#[test]
fn a_table_with_dense_deletions_is_compacted_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let reasons = Arc::new(Reasons::default());
    let db = Db::builder(dir.path())
        .create_if_missing(true)
        .table_properties_collector(Arc::new(CompactOnDeletion {
            window_size: 100,
            deletion_trigger: 50,
            ..CompactOnDeletion::default()
        }))
        .listener(reasons.clone())
        .open()
        .unwrap();
    load(&db.default_cf());
    db.wait_idle(None).unwrap();
    assert_eq!(
        levels(&db.default_cf()),
        ["0", "0", "0", "0", "0", "0", "1"]
    );
    assert_eq!(db.default_cf().iter().count(), 140);
    assert_eq!(*reasons.0.lock().unwrap(), ["FilesMarkedForCompaction"]);
    db.close().unwrap();
    let names = std::fs::read_dir(dir.path()).unwrap();
    let options = names
        .map(|f| f.unwrap().path())
        .find(|f| f.to_string_lossy().contains("OPTIONS-"))
        .unwrap();
    let text = std::fs::read_to_string(options).unwrap();
    let line = "  table_properties_collectors={{id=CompactOnDeletionCollector;min_file_size=0;\
                deletion_ratio=0.000000;deletion_trigger=50;window_size=100;}}\n";
    assert!(text.contains(line), "{text}");
}

#[test]
fn the_mark_outlives_the_process_and_the_option() {
    for (collectors, want) in [(DENSE, ["0", "1"]), ("", ["2", "0"])] {
        let dir = tempfile::tempdir().unwrap();
        let db = open(dir.path(), collectors, true);
        load(&db.default_cf());
        assert_eq!(levels(&db.default_cf())[0], "2");
        db.close().unwrap();
        let db = open(dir.path(), "", false);
        db.wait_idle(None).unwrap();
        let levels = levels(&db.default_cf());
        assert_eq!([&levels[0], &levels[6]], want, "{collectors}");
        assert_eq!(db.default_cf().iter().count(), 140);
    }
}

#[test]
fn thin_deletions_mark_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let thin = "{{id=CompactOnDeletionCollector;window_size=100;deletion_trigger=61;}}";
    let db = open(dir.path(), thin, false);
    load(&db.default_cf());
    db.wait_idle(None).unwrap();
    assert_eq!(levels(&db.default_cf())[0], "2");
}

/// Remembers the levels of the tables it collects for, and asks for nothing.
#[derive(Default)]
struct Levels(Arc<AtomicI32>);

struct Nothing;

impl TablePropertiesCollector for Nothing {
    fn add(&mut self, _: &CollectedEntry<'_>) {}

    fn finish(&mut self) -> Vec<(String, Vec<u8>)> {
        vec![("mine".to_string(), b"yes".to_vec())]
    }
}

impl TablePropertiesCollectorFactory for Levels {
    fn name(&self) -> &str {
        "Levels"
    }

    fn create(&self, context: &CollectorContext) -> Option<Box<dyn TablePropertiesCollector>> {
        self.0.store(context.level, Ordering::Relaxed);
        Some(Box::new(Nothing))
    }
}

#[test]
fn a_factory_of_the_user_is_asked_for_each_table_and_named_in_options() {
    let dir = tempfile::tempdir().unwrap();
    let level = Arc::new(AtomicI32::new(-1));
    let open = || {
        Db::builder(dir.path())
            .create_if_missing(true)
            .table_properties_collector(Arc::new(Levels(level.clone())))
            .open()
            .unwrap()
    };
    let db = open();
    load(&db.default_cf());
    assert_eq!(level.load(Ordering::Relaxed), 0);
    db.default_cf().compact_range(None, None).unwrap();
    assert_eq!(level.load(Ordering::Relaxed), 6);
    let text = db.default_cf().options().table_properties_collectors;
    db.close().unwrap();
    assert_eq!(text, "{Levels}");
    // OPTIONS names what nobody can make from a name; given again, it opens.
    open().close().unwrap();
}
