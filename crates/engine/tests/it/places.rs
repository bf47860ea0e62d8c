//! Where files lie and how long, as measured on RocksDB 11.8.1: directories that are made, kept files, trash, a database
//! that is moved.

use spanlith::options::{CfOptions, DbOptions};
use spanlith::{
    Db, DbPath, FamilyOptions, OpenBuilder, ReadOptions, ReadTier, WriteBatch, WriteOptions,
};
use spanlith_env::{Env, MemFs};
use spanlith_testkit::TempDir;
use std::path::Path;
use std::sync::Arc;

fn builder(dir: &Path, change: impl FnOnce(&mut DbOptions)) -> OpenBuilder {
    let mut options = DbOptions::default();
    options.create_if_missing = true;
    change(&mut options);
    Db::builder(dir).options(options).no_info_log()
}

/// Names in a directory that contain a text, in order.
fn names(dir: &Path, part: &str) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap();
    let names = entries.map(|e| e.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|n| n.contains(part)).collect();
    names.sort();
    names
}

#[test]
fn a_family_that_is_made_brings_its_directories_with_it() {
    crate::suite_disk::needs_table_files(
        "the test looks for tables in the directory of the database",
    );
    let temp = TempDir::new("places");
    let at = |name: &str| temp.join(name);
    let db = builder(&at("db"), |_| {})
        .db_paths(vec![DbPath::new(at("of-all"), 0)])
        .family(FamilyOptions::new("default").paths(vec![DbPath::new(at("own"), 0)]))
        .open()
        .unwrap();
    assert!(at("of-all").exists(), "the next family may need it");
    let other = FamilyOptions::new("other");
    let own = vec![DbPath::new(at("a"), 1 << 10), DbPath::new(at("b"), 0)];
    for (family, dir) in [
        (other, "of-all"),
        (FamilyOptions::new("third").paths(own), "a"),
    ] {
        let cf = db.create_cf(family).unwrap();
        cf.put("k", "v").unwrap();
        cf.flush(true).unwrap();
        assert_eq!(names(&at(dir), ".sst").len(), 1, "{dir}");
    }
    assert!(at("b").exists());
    db.close().unwrap();
}

#[test]
fn a_database_that_was_moved_opens_by_its_own_options() {
    let temp = TempDir::new("moved");
    let (old, new) = (temp.join("old"), temp.join("new"));
    let text = |path: &Path| path.display().to_string();
    for spelled in [
        text(&old),
        text(&old) + "/",
        text(&old).replace("/old", "//old/"),
    ] {
        let db = builder(&old, |o| o.wal_dir = spelled.clone())
            .open()
            .unwrap();
        db.default_cf().put("k", "v").unwrap();
        assert_eq!(db.options().db.wal_dir, "", "{spelled}");
        let stored = db.options().db;
        db.close().unwrap();
        std::fs::rename(&old, &new).unwrap();
        let db = Db::builder(&new).options(stored).open().unwrap();
        assert_eq!(
            db.default_cf().get("k").unwrap().as_deref(),
            Some(&b"v"[..])
        );
        db.close().unwrap();
        std::fs::remove_dir_all(&new).unwrap();
    }
    // Another directory keeps its text, but for a slash.
    let logs = text(&temp.join("logs"));
    let db = builder(&old, |o| o.wal_dir = logs.clone() + "/")
        .open()
        .unwrap();
    assert_eq!(db.options().db.wal_dir, logs);
    db.close().unwrap();
}

#[test]
fn deletions_that_are_off_keep_manifests_and_options_until_they_are_on_again() {
    let temp = TempDir::new("kept");
    let db = builder(temp.path(), |o| {
        (o.max_manifest_file_size, o.max_manifest_space_amp_pct) = (1, 0)
    })
    .open()
    .unwrap();
    let cf = db.default_cf();
    db.disable_file_deletions();
    db.disable_file_deletions();
    for n in 0..3 {
        cf.put("k", "v").unwrap();
        cf.flush(true).unwrap();
        let size = format!("{}", (n + 1) << 20);
        cf.set_options(&[("write_buffer_size", size.as_str())])
            .unwrap();
    }
    let counts = || ["MANIFEST-", "OPTIONS-"].map(|part| names(temp.path(), part).len());
    let [manifests, options] = counts();
    assert!(
        manifests >= 4 && options >= 4,
        "{:?}",
        names(temp.path(), "")
    );
    db.enable_file_deletions();
    assert_eq!(counts(), [manifests, options], "off as often as on");
    db.enable_file_deletions();
    assert_eq!(counts(), [1, 2]);
    db.close().unwrap();
}

#[test]
fn trash_of_an_earlier_process_goes_when_the_database_is_opened() {
    let temp = TempDir::new("trash");
    let at = |name: &str| temp.join(name);
    let open = || {
        builder(&at("db"), |o| o.wal_dir = at("logs").display().to_string())
            .family(FamilyOptions::new("default").paths(vec![DbPath::new(at("own"), 0)]))
            .open()
            .unwrap()
    };
    open().close().unwrap();
    let trash = [
        "db/000100.sst.trash",
        "own/000101.sst.trash",
        "own/000102.blob.trash",
        "logs/000103.log.trash",
    ];
    let foreign = ["db/notes.trash", "own/000104.log.trashy", "logs/000105.sst"];
    for name in trash.iter().chain(&foreign) {
        std::fs::write(at(name), "x").unwrap();
    }
    open().close().unwrap();
    assert_eq!(trash.map(|name| at(name).exists()), [false; 4]);
    assert_eq!(foreign.map(|name| at(name).exists()), [true; 3]);
}

#[test]
fn tables_of_a_dropped_family_go_with_its_last_handle() {
    crate::suite_disk::needs_table_files(
        "the test looks for tables in the directory of the database",
    );
    let temp = TempDir::new("dropped");
    let db = builder(temp.path(), |_| {}).open().unwrap();
    let cf = db.create_cf(FamilyOptions::new("short-lived")).unwrap();
    for _ in 0..2 {
        cf.put("k", "v").unwrap();
        cf.flush(true).unwrap();
    }
    let again = cf.clone();
    db.drop_cf(&cf).unwrap();
    drop(cf);
    assert_eq!(names(temp.path(), ".sst").len(), 2, "a handle still reads");
    assert_eq!(again.get("k").unwrap().as_deref(), Some(&b"v"[..]));
    drop(again);
    // A job that looks for work may hold the families a little longer, and deletes the tables then.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !names(temp.path(), ".sst").is_empty() && std::time::Instant::now() < deadline {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert_eq!(names(temp.path(), ".sst"), [] as [String; 0]);
    db.close().unwrap();
}

#[test]
fn a_directory_for_the_info_log_that_cannot_be_made_fails_the_open() {
    let temp = TempDir::new("log-dir");
    std::fs::write(temp.join("file"), "x").unwrap();
    let mut options = DbOptions::default();
    options.create_if_missing = true;
    options.db_log_dir = temp.join("file/sub").display().to_string();
    let e = Db::builder(temp.join("db"))
        .options(options)
        .open()
        .unwrap_err();
    assert!(e.to_string().starts_with("IO error: "), "{e}");
}

#[test]
fn tables_are_opened_later_only_without_statistics_at_open() {
    let temp = TempDir::new("later");
    let open = |skip| {
        let builder = builder(&temp.join("db"), |o| {
            (o.open_files_async, o.skip_stats_update_on_db_open) = (true, skip);
        });
        builder.open().map(drop)
    };
    let text = "Invalid argument: open_files_async requires skip_stats_update_on_db_open = true.";
    assert_eq!(open(false).unwrap_err().to_string(), text);
    open(true).unwrap();
}

/// RocksDB has one default cache for a table factory, not for a family.
#[test]
fn families_without_a_cache_of_their_own_share_one() {
    let temp = TempDir::new("shared-cache");
    let open = |name| {
        let builder = builder(&temp.join(name), |o| {
            o.create_missing_column_families = true
        });
        builder.family(FamilyOptions::new("other")).open().unwrap()
    };
    let (db, elsewhere) = (open("one"), open("two"));
    let late = db.create_cf(FamilyOptions::new("late")).unwrap();
    let cf = db.default_cf();
    cf.put("k", vec![b'v'; 10_000]).unwrap();
    cf.flush(true).unwrap();
    cf.get("k").unwrap();
    let usage = |cf: &spanlith::Cf| {
        cf.property("rocksdb.block-cache-usage")
            .unwrap()
            .parse::<u64>()
            .unwrap()
    };
    let used = usage(&cf);
    assert!(used > 10_000, "{used}");
    assert_eq!(
        [usage(&db.cf("other").unwrap()), usage(&late)],
        [used, used]
    );
    // The other database's cache has the entry of its statistics alone.
    assert_eq!(usage(&elsewhere.default_cf()), 64);
}

/// In RocksDB only iterators know memtables as a tier.
#[test]
fn lookups_ask_tables_in_the_tier_of_memtables_and_iterators_do_not() {
    let temp = TempDir::new("tier");
    let db = builder(temp.path(), |_| {}).open().unwrap();
    let cf = db.default_cf();
    cf.put("table", "1").unwrap();
    cf.flush(true).unwrap();
    cf.put("memtable", "2").unwrap();
    let options = ReadOptions::default().read_tier(ReadTier::Memtables);
    assert_eq!(
        cf.get_opt("table", &options).unwrap().as_deref(),
        Some(&b"1"[..])
    );
    let keys: Vec<_> = cf
        .iter_opt(options)
        .map(|e| e.unwrap().0.into_vec())
        .collect();
    assert_eq!(keys, [b"memtable"]);
}

#[test]
fn a_table_factory_with_its_id_begins_from_the_defaults() {
    let temp = TempDir::new("factory");
    let mut table = spanlith::options::BlockBasedTableOptions::default();
    table.block_restart_interval = 7;
    let family = FamilyOptions::new("default")
        .options(CfOptions::default())
        .table_options(table);
    let db = builder(temp.path(), |_| {}).family(family).open().unwrap();
    let cf = db.default_cf();
    let interval = || cf.table_options().block_restart_interval;
    cf.set_options(&[("block_based_table_factory", "{block_size=4000}")])
        .unwrap();
    assert_eq!((cf.table_options().block_size, interval()), (4000, 7));
    cf.set_options(&[("table_factory", "{id=BlockBasedTable;block_size=5000}")])
        .unwrap();
    assert_eq!((cf.table_options().block_size, interval()), (5000, 16));
}

/// Files that a handle, or an iterator, of a closed database held are left alone: the directory may be
/// another database's by now, with files of the same numbers.
#[test]
fn handles_that_outlive_their_database_delete_nothing() {
    let temp = TempDir::new("outlived");
    let fill = |cf: &spanlith::Cf| {
        for n in 0..5 {
            cf.put(format!("k{n}"), "v").unwrap();
            cf.flush(true).unwrap();
        }
    };
    let open = || {
        let options = CfOptions::default().disable_auto_compactions(true);
        let builder = builder(temp.path(), |_| {});
        builder.cf_options(options).open().unwrap()
    };
    let db = open();
    let family = db.create_cf(FamilyOptions::new("gone")).unwrap();
    fill(&family);
    db.drop_cf(&family).unwrap();
    fill(&db.default_cf());
    let mut cursor = db.default_cf().cursor(ReadOptions::new());
    cursor.seek_to_first().unwrap();
    db.default_cf().compact_range(None, None).unwrap();
    db.close().unwrap();
    for entry in std::fs::read_dir(temp.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            std::fs::remove_file(path).unwrap();
        }
    }

    let db = open();
    for _ in 0..4 {
        fill(&db.default_cf());
    }
    assert!(cursor.next().unwrap(), "it still reads");
    drop((family, cursor));
    db.close().unwrap();
    let db = open();
    for n in 0..5 {
        let key = format!("k{n}");
        assert!(db.default_cf().get(&key).unwrap().is_some(), "{key}");
    }
}

/// Tables that jobs of a dropped family read or wrote go with it.
#[test]
fn a_family_that_is_dropped_while_a_job_runs_leaves_no_tables() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    struct Slow(Arc<AtomicBool>);
    impl spanlith::CompactionFilter for Slow {
        fn name(&self) -> &'static str {
            "slow"
        }
        fn filter(
            &self,
            _: usize,
            _: &[u8],
            _: spanlith::FilterValue<'_>,
        ) -> spanlith::FilterDecision {
            self.0.store(true, Ordering::Release);
            std::thread::sleep(std::time::Duration::from_millis(2));
            spanlith::FilterDecision::Keep
        }
    }
    let temp = TempDir::new("dropped");
    let began = Arc::new(AtomicBool::new(false));
    let db = builder(temp.path(), |_| {}).open().unwrap();
    let family = FamilyOptions::new("gone")
        .options(CfOptions::default().level0_file_num_compaction_trigger(2))
        .compaction_filter(Arc::new(Slow(began.clone())));
    let family = db.create_cf(family).unwrap();
    for _ in 0..2 {
        for n in 0..50 {
            family.put(format!("k{n}"), "v").unwrap();
        }
        family.flush(true).unwrap();
    }
    // The job is the last to hold the family.
    while !began.load(Ordering::Acquire) {
        std::thread::yield_now();
    }
    db.drop_cf(&family).unwrap();
    drop(family);
    db.wait_idle(None).unwrap();
    let tables = || -> Vec<String> {
        let names = std::fs::read_dir(temp.path()).unwrap();
        let names = names.map(|e| e.unwrap().file_name().into_string().unwrap());
        names.filter(|n| n.ends_with(".sst")).collect()
    };
    // The job has ended a moment before its files go.
    for _ in 0..500 {
        if tables().is_empty() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("{:?}", tables());
}

/// Deletions that are enabled again after the database was closed delete none of its logs: they may be
/// another's.
#[test]
fn deletions_enabled_after_a_close_delete_nothing() {
    crate::suite_disk::needs_log_files("the test looks for files of logs by name");
    let temp = TempDir::new("enabled late");
    let logs = || -> Vec<String> {
        let names = std::fs::read_dir(temp.path()).unwrap();
        let names = names.map(|e| e.unwrap().file_name().into_string().unwrap());
        let mut logs: Vec<_> = names.filter(|n| n.ends_with(".log")).collect();
        logs.sort();
        logs
    };
    let db = builder(temp.path(), |_| {}).open().unwrap();
    let other = db.clone();
    db.disable_file_deletions();
    for _ in 0..3 {
        db.default_cf().put("k", "v").unwrap();
        db.flush(true).unwrap();
    }
    db.close().unwrap();
    let before = logs();
    assert!(before.len() > 2, "{before:?}");
    other.enable_file_deletions();
    assert_eq!(logs(), before);
}

/// A table that a flush wrote for a family that was dropped meanwhile is deleted.
#[test]
fn a_family_that_is_dropped_while_it_is_flushed_leaves_no_table() {
    use std::sync::{Arc, OnceLock};
    struct Drops(OnceLock<(spanlith::Db, spanlith::Cf)>);
    impl spanlith::EventListener for Drops {
        fn on_flush_begin(&self, _: &spanlith::listener::FlushInfo) {
            if let Some((db, family)) = self.0.get() {
                db.drop_cf(family).unwrap();
            }
        }
    }
    for atomic in [false, true] {
        let temp = TempDir::new("dropped in a flush");
        let drops = Arc::new(Drops(OnceLock::new()));
        let db = builder(temp.path(), |o| o.atomic_flush = atomic);
        let db = db.listener(drops.clone()).open().unwrap();
        let family = db.create_cf(FamilyOptions::new("gone")).unwrap();
        family.put("k", "v").unwrap();
        let _ = drops.0.set((db.clone(), family.clone()));
        // The error may say that the family is gone, or not: that depends on who notices first.
        let _ = family.flush(true);
        db.wait_idle(None).unwrap();
        let names = std::fs::read_dir(temp.path()).unwrap();
        let names = names.map(|e| e.unwrap().file_name().into_string().unwrap());
        let tables: Vec<_> = names.filter(|n| n.ends_with(".sst")).collect();
        assert!(tables.is_empty(), "atomic {atomic}: {tables:?}");
    }
}

/// Directories that this process has open below `dir`, wherever they were moved.
fn open_dirs(dir: &Path) -> usize {
    let dir = dir.canonicalize().unwrap();
    let links = std::fs::read_dir("/proc/self/fd").unwrap();
    let open = links.filter_map(|l| std::fs::read_link(l.ok()?.path()).ok());
    open.filter(|p| p.starts_with(&dir) && p.is_dir()).count()
}

/// Syncs go through directories that are open as long as the database, so a path that leads nowhere harms only what
/// makes files.
#[test]
fn synced_writes_go_on_when_the_directories_are_renamed_or_removed() {
    let temp = TempDir::new("away");
    let [home, logs, tables, away] = ["home", "logs", "tables", "away"].map(|name| temp.join(name));
    let put = |db: &Db, key: &str| {
        let mut batch = WriteBatch::new();
        batch.put(key, "v");
        db.write_opt(&batch, &WriteOptions::new().sync(true))
            .unwrap();
        assert!(db.default_cf().get(key).unwrap().is_some(), "{key}");
    };
    for wal_dir in [&home, &logs] {
        let open = || {
            let b = builder(&home, |o| o.wal_dir = wal_dir.display().to_string());
            let own = FamilyOptions::new("default").paths(vec![DbPath::new(&tables, 0)]);
            b.family(own).open().unwrap()
        };
        let db = open();
        for moved in [&home, &tables, wal_dir] {
            std::fs::rename(moved, &away).unwrap();
            put(&db, "a");
            db.sync().unwrap();
            std::fs::rename(&away, moved).unwrap();
            // A table, the next log and an edit of the MANIFEST.
            db.default_cf().flush(true).unwrap();
        }
        put(&db, "b");
        db.close().unwrap();
        let db = open();
        for key in ["a", "b"] {
            assert!(db.default_cf().get(key).unwrap().is_some(), "{key}");
        }
        for dir in [&home, &tables, &logs] {
            let _ = std::fs::remove_dir_all(dir);
        }
        put(&db, "c");
        db.close().unwrap();
    }
}

#[test]
fn directories_are_open_once_while_they_are_needed() {
    let temp = TempDir::new("held");
    let at = |name: &str| temp.join(name);
    let of_family =
        |name: &str, dir: &str| FamilyOptions::new(name).paths(vec![DbPath::new(at(dir), 0)]);
    let open = || {
        let b = builder(&at("db"), |o| o.wal_dir = at("logs").display().to_string());
        b.db_paths(vec![DbPath::new(at("tables"), 0)])
            .family(of_family("default", "own"))
    };
    let db = open().open().unwrap();
    assert_eq!(open_dirs(temp.path()), 4);
    let mut made = Vec::new();
    for (name, dir) in [("x", "other"), ("y", "other"), ("z", "logs")] {
        made.push(db.create_cf(of_family(name, dir)).unwrap());
    }
    assert_eq!(open_dirs(temp.path()), 5);
    for (cf, count) in made.iter().zip([5, 4, 4]) {
        cf.put("k", "v").unwrap();
        cf.flush(true).unwrap();
        db.drop_cf(cf).unwrap();
        assert_eq!(open_dirs(temp.path()), count, "{}", cf.name());
    }
    db.close().unwrap();
    // A handle that outlives the database holds none.
    assert_eq!(open_dirs(temp.path()), 0);
    drop(made);
    let db = open().open_read_only().unwrap();
    assert_eq!(open_dirs(temp.path()), 0);
    drop(db);
}

/// The parent of a new directory was not synced: what was acknowledged in it could go with its name.
#[test]
fn a_power_loss_leaves_the_directories_that_were_made() {
    let mem = MemFs::new();
    let open = |mem: &MemFs| {
        let (env, ..) = Env::test(Arc::new(mem.clone()), 3);
        let own = vec![DbPath::new("/own", 0)];
        let builder = builder(Path::new("/db"), |o| o.wal_dir = "/logs".to_string());
        let builder = builder.db_paths(vec![DbPath::new("/tables", 0)]).env(env);
        (builder, FamilyOptions::new("made").paths(own))
    };
    let (first, made) = open(&mem);
    let db = first.open().unwrap();
    let made = db.create_cf(made).unwrap();
    let synced = WriteOptions::new().sync(true);
    for cf in [&db.default_cf(), &made] {
        cf.put("flushed", "v").unwrap();
        cf.flush(true).unwrap();
        cf.put_opt("logged", "v", &synced).unwrap();
    }
    let after = mem.strict_clone();
    let (next, made) = open(&after);
    let db = next.family(made).open().unwrap();
    for name in ["default", "made"] {
        let cf = db.cf(name).unwrap();
        for key in ["flushed", "logged"] {
            assert!(cf.get(key).unwrap().is_some(), "{key} of {name}");
        }
    }
}
