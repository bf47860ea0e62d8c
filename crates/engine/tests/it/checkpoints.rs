//! Checkpoints: what is in them, what they share with the database, and what a failure or a power loss leaves.

use crate::world::World;
use spanlith::options::{CfOptions, DbOptions, OwnDbOptions};
use spanlith::{
    Cf, CompactRangeOptions, Db, DbPath, ErrorKind, FamilyOptions, OpenBuilder, StorageKind,
    StorageOptions, WriteBatch, WriteOptions,
};
use spanlith_env::{Env, FaultRule, FileSystem, FsOp, MemFs, OpClass};
use spanlith_testkit::TempDir;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

fn builder(dir: impl AsRef<Path>, change: impl FnOnce(&mut DbOptions)) -> OpenBuilder {
    let mut options = DbOptions::default();
    options.create_if_missing = true;
    options.create_missing_column_families = true;
    change(&mut options);
    Db::builder(dir)
        .options(options)
        .family(FamilyOptions::new("two"))
        .no_info_log()
}

fn families(db: &Db) -> [Cf; 2] {
    [db.default_cf(), db.cf("two").unwrap()]
}

fn fill(db: &Db, keys: std::ops::Range<u32>) {
    for cf in families(db) {
        for k in keys.clone() {
            cf.put(format!("k{k:04}"), format!("v{k}")).unwrap();
        }
    }
}

/// Everything in all families, without sequence numbers.
type Contents = Vec<(String, Vec<u8>, Vec<u8>)>;

fn contents(db: &Db) -> Contents {
    let mut all = Vec::new();
    for cf in db.cfs() {
        for entry in cf.iter() {
            let (k, v) = entry.unwrap();
            all.push((cf.name().to_string(), k.to_vec(), v.to_vec()));
        }
    }
    all
}

fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap();
    let mut names: Vec<String> = entries
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn inode(path: PathBuf) -> u64 {
    std::fs::metadata(path).unwrap().ino()
}

/// `log_size_for_flush`: logs are copied, or memtables flushed.
const NEVER: u64 = u64::MAX;
const ALWAYS: u64 = 0;

#[test]
fn a_checkpoint_holds_what_the_database_held() {
    type Change = fn(&mut DbOptions);
    let variants: [(&str, Change); 5] = [
        ("plain", |_| {}),
        ("held back", |o| o.manual_wal_flush = true),
        ("reused", |o| o.recycle_log_file_num = 3),
        ("tracked", |o| o.track_and_verify_wals_in_manifest = true),
        ("atomic", |o| o.atomic_flush = true),
    ];
    for (what, change) in variants {
        let temp = TempDir::new("checkpoint");
        let db = builder(temp.join("db"), change).open().unwrap();
        fill(&db, 0..200);
        db.default_cf().flush(true).unwrap();
        fill(&db, 100..300);
        // "two" has not been flushed: both logs are needed.
        let (copied, flushed) = (temp.join("copied"), temp.join("flushed"));
        db.checkpoint_opt(&copied, NEVER).unwrap();
        let before = contents(&db);
        let unlogged = WriteOptions::new().disable_wal(what != "reused");
        for cf in families(&db) {
            cf.put_opt("unlogged", "v", &unlogged).unwrap();
        }
        db.checkpoint_opt(&flushed, ALWAYS).unwrap();
        let after = contents(&db);
        fill(&db, 250..400);
        for cf in families(&db) {
            cf.compact_range(None, None).unwrap();
        }
        for (dir, want) in [(copied, before), (flushed, after)] {
            for round in 0..2 {
                let again = builder(&dir, change)
                    .create_if_missing(false)
                    .open()
                    .unwrap();
                assert_eq!(contents(&again), want, "{what}, {dir:?}");
                again.verify_checksums().unwrap();
                // Changes to it do not reach the database.
                if round == 1 {
                    again.default_cf().delete_range("", "z").unwrap();
                    again.default_cf().compact_range(None, None).unwrap();
                }
                again.close().unwrap();
            }
        }
        assert!(db.default_cf().get("k0001").unwrap().is_some());
        db.verify_checksums().unwrap();
        db.close().unwrap();
    }
}

#[test]
fn what_never_changes_is_linked_and_the_rest_copied() {
    crate::suite_disk::needs_log_files("the test looks for files of logs by name");
    let temp = TempDir::new("linked");
    let (home, wal, other) = (temp.join("db"), temp.join("logs"), temp.join("other"));
    let open = |reused| {
        builder(&home, |o| {
            o.wal_dir = wal.display().to_string();
            o.recycle_log_file_num = reused;
        })
        .db_paths(vec![DbPath::new(&home, 1), DbPath::new(&other, 1 << 40)])
        .own(OwnDbOptions::default().witness_spacing(4096u64))
        .open()
        .unwrap()
    };
    let db = open(0);
    for _ in 0..2 {
        fill(&db, 0..100);
        db.default_cf().flush(true).unwrap();
    }
    let second = CompactRangeOptions {
        target_path_id: 1,
        ..CompactRangeOptions::default()
    };
    let cf = db.default_cf();
    cf.compact_range_opt(None, None, &second).unwrap();
    cf.set_options(&[("paranoid_file_checks", "true")]).unwrap();
    fill(&db, 0..10);
    let made = temp.join("made");
    db.checkpoint_opt(&made, NEVER).unwrap();
    let logs = names(&wal);
    assert!(logs.len() > 1, "{logs:?}");
    let tables = names(&other);
    assert_eq!(tables.len(), 1, "a table in another directory: {tables:?}");
    let same = |dir: &Path, name: &str| inode(dir.join(name)) == inode(made.join(name));
    assert!(same(&other, &tables[0]));
    assert!(same(&wal, &logs[0]), "a log that is not written any more");
    assert!(!same(&wal, logs.last().unwrap()));
    let mut want: Vec<String> = logs.iter().chain(&tables).cloned().collect();
    for name in names(&home) {
        let is_options = name.starts_with("OPTIONS");
        if is_options || name.starts_with("MANIFEST") || name == "CURRENT" || name == "SPANLITH" {
            want.push(name);
        }
    }
    // Only the newest of two OPTIONS files.
    want.sort();
    let older = want.iter().position(|n| n.starts_with("OPTIONS")).unwrap();
    want.remove(older);
    assert_eq!(names(&made), want);
    db.close().unwrap();

    let db = open(2);
    fill(&db, 0..100);
    db.default_cf().flush(true).unwrap();
    fill(&db, 0..10);
    let made = temp.join("reused");
    db.checkpoint_opt(&made, NEVER).unwrap();
    for log in names(&made).iter().filter(|n| n.ends_with(".log")) {
        assert_ne!(inode(wal.join(log)), inode(made.join(log)), "{log}");
    }
    db.close().unwrap();
}

#[test]
fn memtables_are_flushed_if_the_logs_are_as_large_as_said() {
    let temp = TempDir::new("flushed-from");
    let db = builder(temp.join("db"), |_| {}).open().unwrap();
    fill(&db, 0..1000);
    let size = db.current_log_file().unwrap().size;
    let tables = || db.live_files().len();
    db.checkpoint_opt(temp.join("a"), size + 1).unwrap();
    assert_eq!(tables(), 0);
    db.checkpoint_opt(temp.join("b"), size).unwrap();
    assert_eq!(tables(), 2);
    db.close().unwrap();
}

#[test]
fn every_checkpoint_beside_writers_is_one_moment() {
    let temp = TempDir::new("moments");
    let db = builder(temp.join("db"), |o| o.max_background_jobs = 4)
        .cf_options(CfOptions::default().write_buffer_size(64u64 << 10))
        .open()
        .unwrap();
    let done = AtomicBool::new(false);
    // Of each writer the number of its last acknowledged batch.
    let acknowledged: Vec<AtomicU64> = (0..3).map(|_| AtomicU64::new(0)).collect();
    std::thread::scope(|scope| {
        for (writer, last) in acknowledged.iter().enumerate() {
            let (db, done) = (&db, &done);
            scope.spawn(move || {
                let cfs = families(db);
                for n in 1.. {
                    if done.load(Ordering::Relaxed) {
                        return;
                    }
                    let mut batch = WriteBatch::new();
                    for cf in &cfs {
                        batch.put_cf(cf, format!("last{writer}"), format!("{n:09}"));
                        batch.put_cf(cf, format!("w{writer}-{:04}", n % 500), vec![b'x'; 200]);
                    }
                    db.write(&batch).unwrap();
                    last.store(n, Ordering::Release);
                }
            });
        }
        for round in 0..12 {
            let made = temp.join(format!("made{round}"));
            let before: Vec<u64> = acknowledged
                .iter()
                .map(|n| n.load(Ordering::Acquire))
                .collect();
            db.checkpoint_opt(&made, [NEVER, ALWAYS][round % 2])
                .unwrap();
            let copy = builder(&made, |_| {}).open().unwrap();
            for (writer, before) in before.iter().enumerate() {
                let last = families(&copy).map(|cf| {
                    let value = cf.get(format!("last{writer}")).unwrap();
                    let text = value.map(|v| String::from_utf8(v.to_vec()).unwrap());
                    text.map_or(0, |t| t.parse::<u64>().unwrap())
                });
                assert_eq!(last[0], last[1], "half a batch, round {round}");
                assert!(last[0] >= *before, "round {round}: {last:?} {before}");
            }
            copy.close().unwrap();
            std::fs::remove_dir_all(made).unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
    db.close().unwrap();
}

#[test]
fn a_checkpoint_that_cannot_be_made_says_why_and_leaves_nothing() {
    crate::suite_disk::needs_log_files(
        "the test lists the directory that holds the file of the disk",
    );
    let temp = TempDir::new("refused");
    let db = builder(temp.join("db"), |_| {}).open().unwrap();
    fill(&db, 0..10);
    let refused = |dir: &Path| {
        let e = db.checkpoint(dir).unwrap_err();
        e.to_string()
            .replace(&temp.path().display().to_string(), "")
    };
    std::fs::create_dir(temp.join("there")).unwrap();
    std::fs::write(temp.join("file"), "x").unwrap();
    assert_eq!(
        refused(&temp.join("there")),
        "Invalid argument: Directory exists"
    );
    assert_eq!(
        refused(&temp.join("file")),
        "Invalid argument: Directory exists"
    );
    assert_eq!(
        refused(Path::new("")),
        "Invalid argument: invalid checkpoint directory name"
    );
    assert_eq!(
        refused(&temp.join("no/such")),
        "IO error: No such file or directory: While mkdir: /no/such.tmp: No such file or directory"
    );
    std::fs::create_dir_all(temp.join("left.tmp/sub")).unwrap();
    assert_eq!(
        refused(&temp.join("left")),
        "Operation aborted: Failed to clean the temporary directory /left.tmp needed before \
         checkpoint creation : IO error: while unlink() file: /left.tmp/sub: Is a directory"
    );
    // Files that an earlier attempt left are in nobody's way, nor is a slash at the end.
    std::fs::create_dir(temp.join("ends.tmp")).unwrap();
    std::fs::write(temp.join("ends.tmp/000001.sst"), "x").unwrap();
    let ends = format!("{}//", temp.join("ends").display());
    db.checkpoint(ends).unwrap();
    assert!(temp.join("ends/CURRENT").exists());
    assert!(!temp.join("ends/000001.sst").exists());
    db.close().unwrap();
    let read = builder(temp.join("db"), |_| {}).open_read_only().unwrap();
    let e = read.checkpoint(temp.join("of-reader")).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::NotSupported);
    assert_eq!(
        names(temp.path()),
        ["db", "ends", "file", "left.tmp", "there"]
    );
}

#[test]
fn whichever_call_fails_nothing_is_left_and_the_database_goes_on() {
    crate::suite_disk::needs_table_files("tables on a disk are copied, not linked");
    let classes = [
        OpClass::Append,
        OpClass::Sync,
        OpClass::Close,
        OpClass::Create,
        OpClass::Rename,
        OpClass::Link,
        OpClass::Dir,
        OpClass::OpenDir,
        OpClass::SyncDir,
        OpClass::Open,
        OpClass::Read,
        OpClass::Stat,
    ];
    let (mut failed, mut copied) = (0, 0);
    for class in classes {
        for nth in 1.. {
            let w = World::new(3);
            let open = |dir: &str, env: &Env| builder(dir, |_| {}).env(env.clone()).open().unwrap();
            let db = open("/db", &w.env);
            fill(&db, 0..20);
            db.flush(true).unwrap();
            fill(&db, 20..30);
            db.default_cf().flush(true).unwrap();
            let want = contents(&db);
            let during = move |path: &Path| class == OpClass::Link || !path.starts_with("/db");
            let rule = w.fs.add(FaultRule::fail(class, nth, 5).when(during));
            let made = db.checkpoint_opt("/made", NEVER);
            let fired = w.fs.fired(rule);
            w.fs.clear();
            let there = |name: &str| w.fs.entry(Path::new(name)).unwrap().is_some();
            match made {
                Ok(()) => {
                    copied += u64::from(fired > 0);
                    let copy = open("/made", &w.env);
                    assert_eq!(contents(&copy), want, "{class:?} {nth}");
                    copy.close().unwrap();
                }
                Err(e) => {
                    failed += 1;
                    assert!(e.to_string().contains("/"), "{class:?} {nth}: {e}");
                    assert!(!there("/made"), "{class:?} {nth}");
                    assert!(!there("/made.tmp"), "{class:?} {nth}");
                }
            }
            fill(&db, 30..40);
            db.checkpoint("/second").unwrap();
            let copy = open("/second", &w.env);
            assert_eq!(contents(&copy), contents(&db), "{class:?} {nth}");
            copy.close().unwrap();
            db.close().unwrap();
            if fired == 0 {
                break;
            }
        }
    }
    assert!(failed > 20 && copied > 2, "{failed} {copied}");
}

#[test]
fn a_power_loss_leaves_a_whole_checkpoint_or_none() {
    let w = World::new(4);
    let open = |env: &Env, dir: &str| builder(dir, |_| {}).env(env.clone()).open();
    let db = open(&w.env, "/db").unwrap();
    fill(&db, 0..20);
    db.default_cf().flush(true).unwrap();
    // Not synced: what the checkpoint holds is durable nevertheless.
    fill(&db, 20..30);
    let want = contents(&db);
    let images: Arc<Mutex<Vec<(String, MemFs)>>> = Arc::default();
    let (mem, kept) = (w.mem.clone(), images.clone());
    w.mem.set_observer(Some(Arc::new(move |op: &FsOp| {
        for keep_all in [false, true] {
            let image = mem.crash_clone(&mut |n| if keep_all { n - 1 } else { 0 });
            kept.lock().unwrap().push((format!("{op:?}"), image));
        }
    })));
    db.checkpoint_opt("/made", NEVER).unwrap();
    w.mem.set_observer(None);
    let last = ("the end".to_string(), w.mem.strict_clone());
    images.lock().unwrap().push(last);
    let (mut none, mut whole) = (0, 0);
    for (before, image) in images.lock().unwrap().drain(..) {
        let is_there = image.entry(Path::new("/made")).unwrap().is_some();
        assert!(is_there || before != "the end");
        let (env, ..) = Env::test(Arc::new(image), 5);
        open(&env, "/db").unwrap().close().unwrap();
        if is_there {
            let copy = open(&env, "/made").unwrap();
            assert_eq!(contents(&copy), want, "before {before}");
            copy.close().unwrap();
            whole += 1;
        } else {
            none += 1;
        }
    }
    assert!(none > 10 && whole > 1, "{none} {whole}");
    db.close().unwrap();
}

#[test]
fn the_files_of_a_copy_are_listed_with_what_belongs_to_it() {
    crate::suite_disk::needs_log_files("CURRENT of a copy is shorter by the line about the disk");
    let temp = TempDir::new("listed");
    let db = builder(temp.join("db"), |o| {
        o.file_checksum_gen_factory = "FileChecksumGenCrc32cFactory".to_string();
    })
    .open()
    .unwrap();
    fill(&db, 0..100);
    let options = StorageOptions::default().with_checksums(true);
    db.disable_file_deletions();
    let files = db.storage_files(&options).unwrap();
    let kinds: Vec<StorageKind> = files.iter().map(|f| f.kind).collect();
    use StorageKind::{Current, Log, Manifest, Options, Table};
    assert_eq!(kinds, [Table, Table, Manifest, Current, Options, Log]);
    for f in &files {
        let is_table = f.kind == Table;
        let function: &[u8] = if is_table {
            b"FileChecksumCrc32c"
        } else {
            b"Unknown"
        };
        assert_eq!(f.checksum_function, function, "{}", f.name);
        assert_eq!(f.checksum.len(), if is_table { 4 } else { 0 }, "{}", f.name);
        let len = std::fs::metadata(f.path()).unwrap().len();
        // All was flushed, so that the log holds no more than the note it begins with.
        let is_log = f.kind == Log;
        assert_eq!(f.size, if is_log { 0 } else { len }, "{}", f.name);
        let grows = matches!(f.kind, Manifest | Current | Log);
        assert_eq!(f.is_trimmed, grows, "{}", f.name);
        assert_eq!(f.contents.is_some(), f.kind == Current);
    }
    db.enable_file_deletions();
    db.close().unwrap();
}

/// Backups that look at sizes of logs take one that holds data for a flush that did not happen.
#[test]
fn the_log_of_a_checkpoint_that_flushed_is_empty() {
    let w = World::new(1);
    let db = Db::builder("/db").create_if_missing(true);
    let db = db.env(w.env.clone()).no_info_log().open().unwrap();
    let cf = db.default_cf();
    cf.put("a", "1").unwrap();
    db.checkpoint("/flushed").unwrap();
    cf.put("b", "2").unwrap();
    db.checkpoint_opt("/logged", u64::MAX).unwrap();
    let logs = |dir: &str| -> Vec<u64> {
        let names = w.mem.list(Path::new(dir)).unwrap();
        let logs = names.iter().filter(|n| n.ends_with(".log"));
        logs.map(|n| w.mem.size(&Path::new(dir).join(n)).unwrap())
            .collect()
    };
    assert_eq!(logs("/flushed"), [0]);
    assert!(logs("/logged").iter().all(|&len| len > 0));
    for (dir, count) in [("/flushed", 1), ("/logged", 2)] {
        let copy = Db::builder(dir).env(w.env.clone()).no_info_log();
        let copy = copy.open().unwrap();
        assert_eq!(copy.default_cf().iter().count(), count);
        copy.default_cf().put("c", "3").unwrap();
        drop(copy);
        let copy = Db::builder(dir).env(w.env.clone()).no_info_log();
        assert_eq!(copy.open().unwrap().default_cf().iter().count(), count + 1);
    }
}
