//! Backups: what is in them, what they share, what restoring leaves, damage, failures, power losses.

use crate::world::World;
use spanlith::options::DbOptions;
use spanlith::{
    BackupEngine, BackupNames, BackupOptions, Cf, CreateBackupOptions, Db, ErrorKind,
    FamilyOptions, OpenBuilder, RestoreMode, RestoreOptions, SubCode, WriteOptions,
};
use spanlith_env::{Env, FaultRule, FileSystem, FsOp, MemFs, OpClass};
use spanlith_testkit::{TempDir, golden_cases};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
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

fn open_in(env: &Env, dir: &str) -> Db {
    builder(dir, |_| {}).env(env.clone()).open().unwrap()
}

fn families(db: &Db) -> [Cf; 2] {
    [db.default_cf(), db.cf("two").unwrap()]
}

fn fill(db: &Db, keys: std::ops::Range<u32>) {
    for cf in families(db) {
        for k in keys.clone() {
            cf.put(format!("k{k:04}"), format!("v{k}").repeat(40))
                .unwrap();
        }
    }
}

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

fn backups_in(env: &Env, dir: impl AsRef<Path>) -> BackupEngine {
    BackupEngine::open(BackupOptions::new(dir), env).unwrap()
}

fn ids(backups: &BackupEngine) -> Vec<u32> {
    backups.backups().iter().map(|b| b.id).collect()
}

fn plain() -> CreateBackupOptions {
    CreateBackupOptions::default()
}

fn restore(backups: &BackupEngine, id: u32, dir: impl AsRef<Path>) -> spanlith::Result<()> {
    let dir = dir.as_ref();
    backups.restore(Some(id), dir, dir, &RestoreOptions::default())
}

fn files(dir: &Path) -> Vec<String> {
    let mut all = Vec::new();
    let mut todo = vec![dir.to_path_buf()];
    while let Some(next) = todo.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                todo.push(path);
            } else {
                let below = path.strip_prefix(dir).unwrap();
                all.push(below.to_str().unwrap().to_string());
            }
        }
    }
    all.sort();
    all
}

#[test]
fn backups_are_restored_as_they_were() {
    type Change = fn(&mut BackupOptions);
    let variants: [(&str, Change); 6] = [
        ("defaults", |_| {}),
        ("no sharing", |o| o.share_table_files = false),
        ("by number", |o| o.share_files_with_checksum = false),
        ("by checksum", |o| o.names = BackupNames::ChecksumAndSize),
        ("by session", |o| o.names = BackupNames::Session),
        ("second schema", |o| {
            o.schema_version = 2;
            o.sync = false;
        }),
    ];
    for (what, change) in variants {
        let temp = TempDir::new("backups");
        let env = Env::system();
        let mut options = BackupOptions::new(temp.join("backups"));
        change(&mut options);
        let backups = BackupEngine::open(options.clone(), &env).unwrap();
        let db = builder(temp.join("db"), |_| {}).open().unwrap();
        let mut wanted = Vec::new();
        for round in 0..4 {
            fill(&db, round * 50..round * 50 + 100);
            if round == 1 {
                db.flush(true).unwrap();
            }
            if round == 3 {
                let unlogged = WriteOptions::new().disable_wal(true);
                db.default_cf().put_opt("unlogged", "v", &unlogged).unwrap();
            }
            let mut how = plain();
            how.flush_before_backup = round == 3;
            how.app_metadata = format!("round {round}").into_bytes();
            assert_eq!(backups.create(&db, &how).unwrap(), round + 1, "{what}");
            wanted.push(contents(&db));
        }
        fill(&db, 0..300);
        db.close().unwrap();
        // As whoever opens the directory later.
        let backups = BackupEngine::open(options, &env).unwrap();
        let infos = backups.backups();
        for (info, want) in infos.iter().zip(&wanted) {
            assert_eq!(
                info.app_metadata,
                format!("round {}", info.id - 1).into_bytes()
            );
            backups.verify(info.id, true).unwrap();
            // Over what was there before.
            restore(&backups, info.id, temp.join("restored")).unwrap();
            let db = builder(temp.join("restored"), |_| {}).open().unwrap();
            assert_eq!(contents(&db), *want, "{what} {}", info.id);
            db.verify_checksums().unwrap();
            fill(&db, 0..10);
            db.close().unwrap();
        }
        assert_eq!(infos.len(), 4);
        backups.purge(1).unwrap();
        assert_eq!(ids(&backups), [4]);
        backups.verify(4, true).unwrap();
        backups.collect_garbage().unwrap();
        let last = backups.backups().remove(0);
        let left = files(&temp.join("backups"));
        assert_eq!(left.len(), last.files as usize + 1, "{what}: {left:?}");
        backups.delete(4).unwrap();
        assert_eq!(files(&temp.join("backups")), [""; 0], "{what}");
        assert_eq!(backups.delete(4).unwrap_err().kind(), ErrorKind::NotFound);
        let none = backups.restore(
            None,
            temp.join("x"),
            temp.join("x"),
            &RestoreOptions::default(),
        );
        assert_eq!(none.unwrap_err().to_string(), "NotFound: Backup not found");
    }
}

#[test]
fn tables_are_shared_and_not_copied_again() {
    let temp = TempDir::new("shared");
    let db = builder(temp.join("db"), |_| {}).open().unwrap();
    let backups = backups_in(&Env::system(), temp.join("backups"));
    let bytes = Arc::new(AtomicU64::new(0));
    let mut options = BackupOptions::new(temp.join("counted"));
    options.progress_interval = 1;
    let counted = BackupEngine::open(options, &Env::system()).unwrap();
    let mut how = plain();
    let seen = bytes.clone();
    how.progress = Some(Arc::new(move || {
        seen.fetch_add(1, Ordering::Relaxed);
    }));
    fill(&db, 0..1000);
    db.flush(true).unwrap();
    backups.create(&db, &plain()).unwrap();
    counted.create(&db, &how).unwrap();
    let whole = bytes.swap(0, Ordering::Relaxed);
    assert_eq!(whole, counted.backups()[0].size, "each byte is told");
    counted.create(&db, &how).unwrap();
    let again = bytes.load(Ordering::Relaxed);
    assert!(again < whole / 3, "{again} of {whole}");
    backups.create(&db, &plain()).unwrap();
    let shared = files(&temp.join("backups"));
    let shared: Vec<_> = shared.iter().filter(|f| f.starts_with("shared")).collect();
    assert_eq!(shared.len(), 2, "two tables: {shared:?}");
    // Another database may use the numbers again.
    let other = builder(temp.join("other"), |_| {}).open().unwrap();
    fill(&other, 0..900);
    other.flush(true).unwrap();
    backups.create(&other, &plain()).unwrap();
    let (db, other) = (contents(&db), contents(&other));
    for (id, want) in [(2, &db), (3, &other)] {
        restore(&backups, id, temp.join("restored")).unwrap();
        let found = builder(temp.join("restored"), |_| {}).open().unwrap();
        assert_eq!(contents(&found), *want);
        found.close().unwrap();
    }
}

#[test]
fn a_number_that_means_another_file_is_refused_where_numbers_are_all() {
    let temp = TempDir::new("numbers");
    let mut options = BackupOptions::new(temp.join("backups"));
    options.share_files_with_checksum = false;
    let backups = BackupEngine::open(options, &Env::system()).unwrap();
    for (name, keys) in [("one", 0..100), ("two", 100..200)] {
        let db = builder(temp.join(name), |_| {}).open().unwrap();
        fill(&db, keys);
        db.flush(true).unwrap();
        let made = backups.create(&db, &plain());
        assert_eq!(made.is_ok(), name == "one", "{made:?}");
    }
    assert_eq!(ids(&backups), [1]);
    backups.verify(1, true).unwrap();
    assert_eq!(files(&temp.join("backups/private")).len(), 4);
}

#[test]
fn backups_of_rocksdb_are_restored_and_added_to() {
    let mut seen = 0;
    for case in golden_cases().into_iter().filter(|c| c.name == "backup") {
        let temp = TempDir::new("backup-golden");
        let dir = case.copy_to(temp.path());
        let root = dir.parent().unwrap().join("backup");
        let backups = backups_in(&Env::system(), &root);
        assert_eq!(ids(&backups), [1, 2]);
        assert!(backups.damaged().is_empty());
        let expected = case.expected_families().remove(0).entries;
        let look = |dir: &Path| {
            let db = Db::open(dir).unwrap();
            let rows = db.default_cf().iter().map(|e| e.unwrap());
            let rows: Vec<_> = rows.map(|(k, v)| (k.to_vec(), v.to_vec())).collect();
            db.close().unwrap();
            rows
        };
        for id in [1, 2] {
            backups.verify(id, true).unwrap();
            restore(&backups, id, temp.join("restored")).unwrap();
            let rows = look(&temp.join("restored"));
            match id {
                1 => assert_eq!(rows.len(), 40),
                _ => assert_eq!(rows, expected),
            }
        }
        let db = Db::open(&dir).unwrap();
        db.default_cf().put("more", "v").unwrap();
        assert_eq!(backups.create(&db, &plain()).unwrap(), 3);
        db.close().unwrap();
        let shared = files(&root.join("shared_checksum")).len();
        restore(&backups, 3, temp.join("restored")).unwrap();
        assert_eq!(look(&temp.join("restored")).len(), expected.len() + 1);
        backups.purge(1).unwrap();
        assert!(files(&root.join("shared_checksum")).len() <= shared);
        backups.verify(3, true).unwrap();
        seen += 1;
    }
    assert_eq!(seen, 2);
}

#[test]
fn restoring_leaves_what_it_must() {
    crate::suite_disk::needs_table_files(
        "the test looks for tables in the directory of the database",
    );
    let temp = TempDir::new("restoring");
    let (home, wal) = (temp.join("db"), temp.join("logs"));
    let open = || {
        builder(&home, |o| {
            o.wal_dir = wal.display().to_string();
            o.wal_ttl_seconds = 3600;
        })
        .open()
    };
    let backups = backups_in(&Env::system(), temp.join("backups"));
    let db = open().unwrap();
    fill(&db, 0..100);
    db.flush(true).unwrap();
    backups.create(&db, &plain()).unwrap();
    let want = contents(&db);
    let tables = || {
        let names = files(&home).into_iter().filter(|f| f.ends_with(".sst"));
        let modified = |name: &String| {
            let is = std::fs::metadata(home.join(name)).unwrap();
            is.modified().unwrap()
        };
        names
            .map(|name| (modified(&name), name))
            .collect::<Vec<_>>()
    };
    let before = tables();

    // Not under a database that is open.
    let held = backups.restore(None, &home, &wal, &RestoreOptions::default());
    assert_eq!(held.unwrap_err().subcode(), Some(SubCode::LockHeld));
    fill(&db, 100..200);
    db.flush(true).unwrap();
    db.close().unwrap();
    std::fs::write(home.join("notes.txt"), "mine").unwrap();

    let mut how = RestoreOptions::default();
    how.mode = RestoreMode::KeepSame;
    backups.restore(None, &home, &wal, &how).unwrap();
    assert_eq!(tables(), before, "the same bytes stay");
    assert!(home.join("notes.txt").exists());
    let db = open().unwrap();
    assert_eq!(contents(&db), want);
    db.close().unwrap();

    // A file that only looks the same is replaced.
    let table = files(&home)
        .into_iter()
        .find(|f| f.ends_with(".sst"))
        .unwrap();
    let mut bytes = std::fs::read(home.join(&table)).unwrap();
    bytes[10] ^= 1;
    std::fs::write(home.join(&table), bytes).unwrap();
    backups.restore(None, &home, &wal, &how).unwrap();
    let db = open().unwrap();
    assert_eq!(contents(&db), want);
    db.verify_checksums().unwrap();
    db.close().unwrap();
}

#[test]
fn a_backup_without_logs_goes_on_with_the_logs_that_were_kept() {
    crate::suite_disk::needs_log_files("keep_log_files is refused with logs on a speed disk");
    let temp = TempDir::new("without-logs");
    let home = temp.join("db");
    let open = || builder(&home, |o| o.wal_ttl_seconds = 3600).open().unwrap();
    let mut options = BackupOptions::new(temp.join("backups"));
    options.backup_log_files = false;
    let backups = BackupEngine::open(options, &Env::system()).unwrap();
    let db = open();
    fill(&db, 0..100);
    let mut how = plain();
    how.flush_before_backup = true;
    backups.create(&db, &how).unwrap();
    let flushed = contents(&db);
    fill(&db, 50..150);
    let all = contents(&db);
    db.close().unwrap();

    let mut keep = RestoreOptions::default();
    keep.keep_log_files = true;
    backups.restore(None, &home, &home, &keep).unwrap();
    let db = open();
    assert_eq!(contents(&db), all);
    db.close().unwrap();
    restore(&backups, 1, &home).unwrap();
    let db = open();
    assert_eq!(contents(&db), flushed);
    db.close().unwrap();
}

#[test]
fn files_that_are_left_out_are_named_when_they_are_missed() {
    let temp = TempDir::new("left-out");
    let db = builder(temp.join("db"), |_| {}).open().unwrap();
    fill(&db, 0..100);
    db.flush(true).unwrap();
    let mut how = plain();
    how.exclude = Some(Arc::new(|path: &str| path.ends_with(".sst")));
    let first = backups_in(&Env::system(), temp.join("first"));
    let refused = first.create(&db, &how).unwrap_err().to_string();
    assert_eq!(
        refused,
        "Invalid argument: exclude_files_callback requires schema_version >= 2"
    );
    let mut options = BackupOptions::new(temp.join("second"));
    options.schema_version = 2;
    let backups = BackupEngine::open(options.clone(), &Env::system()).unwrap();
    let id = backups.create(&db, &how).unwrap();
    let backups = BackupEngine::open(options, &Env::system()).unwrap();
    assert_eq!(backups.backups()[0].excluded.len(), 2);
    backups.verify(id, true).unwrap();
    let missed = restore(&backups, id, temp.join("restored")).unwrap_err();
    assert_eq!(missed.kind(), ErrorKind::InvalidArgument);
    assert!(!temp.join("restored").exists(), "nothing was begun");
}

#[test]
fn a_backup_can_be_stopped() {
    let temp = TempDir::new("stopped");
    let db = builder(temp.join("db"), |_| {}).open().unwrap();
    fill(&db, 0..1000);
    db.flush(true).unwrap();
    let mut options = BackupOptions::new(temp.join("backups"));
    options.progress_interval = 1;
    options.io_buffer_size = 1000;
    let backups = Arc::new(BackupEngine::open(options, &Env::system()).unwrap());
    backups.create(&db, &plain()).unwrap();
    fill(&db, 0..1000);
    let mut how = plain();
    how.flush_before_backup = true;
    let stop = Arc::downgrade(&backups);
    how.progress = Some(Arc::new(move || stop.upgrade().unwrap().stop()));
    let before = files(&temp.join("backups"));
    for _ in 0..2 {
        let stopped = backups.create(&db, &how).unwrap_err();
        assert_eq!(stopped.to_string(), "Result incomplete: Backup stopped");
    }
    assert_eq!(files(&temp.join("backups")), before);
    restore(&backups, 1, temp.join("restored")).unwrap();
}

/// Any bit of a backup is changed, and any file of it is cut: restoring gives what was saved or says so and
/// leaves what is there.
#[test]
fn damage_is_found_before_anything_is_replaced() {
    let w = World::new(1);
    let db = open_in(&w.env, "/db");
    fill(&db, 0..3);
    db.flush(true).unwrap();
    fill(&db, 3..5);
    let backups = backups_in(&w.env, "/backups");
    backups.create(&db, &plain()).unwrap();
    let want = contents(&db);
    fill(&db, 5..7);
    let newer = contents(&db);
    db.close().unwrap();
    let mut all = vec!["meta/1".to_string()];
    for dir in ["private/1", "shared_checksum"] {
        let names = w.fs.list(&Path::new("/backups").join(dir)).unwrap();
        all.extend(names.iter().map(|name| format!("{dir}/{name}")));
    }
    let (mut refused, mut same) = (0, 0);
    for name in all {
        let path = Path::new("/backups").join(&name);
        let whole = w.mem.read_file(&path).unwrap();
        let step = whole.len() / 40 + 1;
        let changes = (0..whole.len()).step_by(step).flat_map(|at| {
            let mut flipped = whole.clone();
            flipped[at] ^= 1 << (at % 8);
            [flipped, whole[..at].to_vec()]
        });
        for changed in changes {
            w.mem.write_file(&path, &changed).unwrap();
            let backups = backups_in(&w.env, "/backups");
            let verified = backups.verify(1, true);
            match restore(&backups, 1, "/db") {
                Ok(()) => {
                    // Its times and names are not what is restored.
                    assert!(name == "meta/1" || name.ends_with("SPANLITH"), "{name}");
                    verified.unwrap();
                    let db = open_in(&w.env, "/db");
                    assert_eq!(contents(&db), want, "{name}");
                    fill(&db, 5..7);
                    db.close().unwrap();
                    same += 1;
                }
                Err(e) => {
                    assert!(verified.is_err(), "{name}: {e}");
                    let db = open_in(&w.env, "/db");
                    assert_eq!(contents(&db), newer, "{name}: {e}");
                    db.close().unwrap();
                    refused += 1;
                }
            }
        }
        w.mem.write_file(&path, &whole).unwrap();
    }
    assert!(refused > 300 && same > 0, "{refused} {same}");
}

const CLASSES: [OpClass; 11] = [
    OpClass::Append,
    OpClass::Sync,
    OpClass::Close,
    OpClass::Create,
    OpClass::Rename,
    OpClass::Dir,
    OpClass::OpenDir,
    OpClass::SyncDir,
    OpClass::Open,
    OpClass::Read,
    OpClass::Stat,
];

#[test]
fn whichever_call_fails_a_backup_is_whole_or_not_there() {
    let (mut failed, mut made_it) = (0, 0);
    for class in CLASSES {
        for nth in 1.. {
            let w = World::new(3);
            let db = open_in(&w.env, "/db");
            fill(&db, 0..10);
            db.flush(true).unwrap();
            let backups = backups_in(&w.env, "/backups");
            backups.create(&db, &plain()).unwrap();
            fill(&db, 10..20);
            db.flush(true).unwrap();
            fill(&db, 20..22);
            let rule = w.fs.add(
                FaultRule::fail(class, nth, 5).when(|path: &Path| path.starts_with("/backups")),
            );
            let made = backups.create(&db, &plain());
            let fired = w.fs.fired(rule);
            w.fs.clear();
            match made {
                Ok(id) => {
                    made_it += u64::from(fired > 0);
                    assert_eq!((id, ids(&backups)), (2, vec![1, 2]));
                }
                Err(_) => {
                    failed += 1;
                    assert_eq!(ids(&backups), [1], "{class:?} {nth}");
                    assert_eq!(ids(&backups_in(&w.env, "/backups")), [1], "{class:?} {nth}");
                }
            }
            let last = backups.create(&db, &plain()).unwrap();
            backups.collect_garbage().unwrap();
            let again = backups_in(&w.env, "/backups");
            assert!(again.damaged().is_empty(), "{class:?} {nth}");
            for id in ids(&again) {
                again.verify(id, true).unwrap();
            }
            restore(&again, last, "/restored").unwrap();
            let restored = open_in(&w.env, "/restored");
            assert_eq!(contents(&restored), contents(&db), "{class:?} {nth}");
            restored.close().unwrap();
            db.close().unwrap();
            if fired == 0 {
                break;
            }
        }
    }
    assert!(failed > 30 && made_it < failed, "{failed} {made_it}");
}

#[test]
fn whichever_call_of_restoring_fails_it_can_be_done_again() {
    crate::suite_disk::needs_log_files(
        "a restore that is cut leaves a disk that has to be formatted",
    );
    let (mut failed, mut untouched) = (0, 0);
    for class in CLASSES {
        for nth in 1.. {
            let w = World::new(3);
            let db = open_in(&w.env, "/db");
            fill(&db, 0..10);
            db.flush(true).unwrap();
            fill(&db, 10..12);
            let backups = backups_in(&w.env, "/backups");
            backups.create(&db, &plain()).unwrap();
            let want = contents(&db);
            fill(&db, 12..20);
            let newer = contents(&db);
            db.close().unwrap();
            let rule = w.fs.add(FaultRule::fail(class, nth, 5));
            let restored = restore(&backups, 1, "/db");
            let fired = w.fs.fired(rule);
            w.fs.clear();
            if restored.is_err() {
                failed += 1;
                if w.fs.entry(Path::new("/db/CURRENT")).unwrap().is_some() {
                    // It is the one or the other, whole.
                    let db = open_in(&w.env, "/db");
                    let found = contents(&db);
                    assert!(found == newer || found == want, "{class:?} {nth}");
                    untouched += u64::from(found == newer);
                    db.close().unwrap();
                }
                restore(&backups, 1, "/db").unwrap();
            }
            let db = open_in(&w.env, "/db");
            assert_eq!(contents(&db), want, "{class:?} {nth}");
            db.close().unwrap();
            if fired == 0 {
                break;
            }
        }
    }
    assert!(failed > 40 && untouched > 20, "{failed} {untouched}");
}

/// The numbers that must be there, and what the disk held.
type Image = (Vec<u32>, MemFs);

#[test]
fn after_a_power_loss_every_backup_is_whole_or_not_there() {
    let w = World::new(4);
    let db = open_in(&w.env, "/db");
    let backups = backups_in(&w.env, "/backups");
    let images: Arc<Mutex<Vec<Image>>> = Arc::default();
    // Numbers that must be there.
    let acknowledged: Arc<Mutex<Vec<u32>>> = Arc::default();
    let (mem, kept, must) = (w.mem.clone(), images.clone(), acknowledged.clone());
    w.mem.set_observer(Some(Arc::new(move |_: &FsOp| {
        for keep_all in [false, true] {
            let image = mem.crash_clone(&mut |n| if keep_all { n - 1 } else { 0 });
            let must = must.lock().unwrap().clone();
            kept.lock().unwrap().push((must, image));
        }
    })));
    let mut wanted = Vec::new();
    for round in 0..3 {
        fill(&db, round * 5..round * 5 + 8);
        if round == 1 {
            db.flush(true).unwrap();
        }
        wanted.push(contents(&db));
        let id = backups.create(&db, &plain()).unwrap();
        acknowledged.lock().unwrap().push(id);
        if round == 2 {
            // From here on the first may be gone.
            acknowledged.lock().unwrap().remove(0);
            backups.purge(2).unwrap();
        }
    }
    w.mem.set_observer(None);
    let images = std::mem::take(&mut *images.lock().unwrap());
    assert!(images.len() > 100, "{}", images.len());
    for (at, (must, image)) in images.into_iter().enumerate() {
        let (env, ..) = Env::test(Arc::new(image), 5);
        if env.fs.entry(Path::new("/backups")).unwrap().is_none() {
            assert!(must.is_empty());
            continue;
        }
        let backups = backups_in(&env, "/backups");
        assert!(
            backups.damaged().is_empty(),
            "{at}: {:?}",
            backups.damaged()
        );
        let found = ids(&backups);
        assert!(
            must.iter().all(|id| found.contains(id)),
            "{at}: {must:?} {found:?}"
        );
        backups.collect_garbage().unwrap();
        for id in found {
            backups.verify(id, true).unwrap();
            restore(&backups, id, "/restored").unwrap();
            let db = open_in(&env, "/restored");
            assert_eq!(contents(&db), wanted[id as usize - 1], "{at} {id}");
            db.close().unwrap();
        }
    }
}

#[test]
fn after_a_power_loss_while_restoring_there_is_the_old_the_new_or_no_database() {
    crate::suite_disk::needs_log_files(
        "a restore that is cut leaves a disk that has to be formatted",
    );
    let w = World::new(6);
    let db = open_in(&w.env, "/db");
    fill(&db, 0..10);
    db.flush(true).unwrap();
    fill(&db, 10..12);
    let backups = backups_in(&w.env, "/backups");
    backups.create(&db, &plain()).unwrap();
    let saved = contents(&db);
    fill(&db, 12..20);
    db.flush(true).unwrap();
    let newer = contents(&db);
    db.close().unwrap();
    let images: Arc<Mutex<Vec<MemFs>>> = Arc::default();
    let (mem, kept) = (w.mem.clone(), images.clone());
    w.mem.set_observer(Some(Arc::new(move |_: &FsOp| {
        for keep_all in [false, true] {
            let image = mem.crash_clone(&mut |n| if keep_all { n - 1 } else { 0 });
            kept.lock().unwrap().push(image);
        }
    })));
    restore(&backups, 1, "/db").unwrap();
    w.mem.set_observer(None);
    let images = std::mem::take(&mut *images.lock().unwrap());
    let last = images.len();
    let (mut old, mut none, mut new) = (0, 0, 0);
    for (at, image) in images.into_iter().chain([w.mem.strict_clone()]).enumerate() {
        let (env, ..) = Env::test(Arc::new(image), 5);
        if env.fs.entry(Path::new("/db/CURRENT")).unwrap().is_some() {
            let db = open_in(&env, "/db");
            let found = contents(&db);
            assert!(found == saved || found == newer, "{at}");
            old += u32::from(found == newer);
            new += u32::from(found == saved);
            db.close().unwrap();
        } else {
            none += 1;
        }
        assert!(
            at < last || (none > 0 && new > 0),
            "what returned is durable"
        );
        restore(&backups_in(&env, "/backups"), 1, "/db").unwrap();
        let db = open_in(&env, "/db");
        assert_eq!(contents(&db), saved, "{at}");
        db.close().unwrap();
    }
    assert!(old > 10 && none > 5 && new > 0, "{old} {none} {new}");
}

#[test]
fn backups_and_databases_may_be_in_different_worlds() {
    let (w, other) = (World::new(7), World::new(8));
    let db = open_in(&w.env, "/db");
    fill(&db, 0..10);
    db.flush(true).unwrap();
    fill(&db, 10..12);
    let mut options = BackupOptions::new("/backups");
    options.env = Some(other.env.clone());
    let backups = BackupEngine::open(options, &w.env).unwrap();
    backups.create(&db, &plain()).unwrap();
    restore(&backups, 1, "/restored").unwrap();
    let restored = open_in(&w.env, "/restored");
    assert_eq!(contents(&restored), contents(&db));
    let is_there = |w: &World, name: &str| w.fs.entry(Path::new(name)).unwrap().is_some();
    assert!(!is_there(&w, "/backups") && !is_there(&other, "/restored"));
}

#[test]
fn what_is_left_of_a_crash_goes_and_what_another_engine_made_stays() {
    let w = World::new(9);
    let db = open_in(&w.env, "/db");
    fill(&db, 0..10);
    db.flush(true).unwrap();
    let (first, second) = (
        backups_in(&w.env, "/backups"),
        backups_in(&w.env, "/backups"),
    );
    for id in 1..=2 {
        assert_eq!(first.create(&db, &plain()).unwrap(), id);
    }
    // Opened before there was any.
    second.collect_garbage().unwrap();
    first.verify(1, true).unwrap();
    let left = [
        "/backups/meta/.7.tmp",
        "/backups/private/7/CURRENT",
        "/backups/shared_checksum/000099_sX_3.sst.tmp",
        "/backups/shared_checksum/000099_sX_3.sst",
    ];
    w.mem
        .create_dir_if_missing(Path::new("/backups/private/7"))
        .unwrap();
    for name in left {
        w.mem.write_file(Path::new(name), b"abc").unwrap();
    }
    // Their lists cannot be read: what they may name stays.
    w.mem
        .write_file(Path::new("/backups/meta/5"), b"?")
        .unwrap();
    let third = backups_in(&w.env, "/backups");
    assert_eq!(third.damaged()[0].0, 5);
    third.purge(1).unwrap();
    let is_there = |name: &&str| w.fs.entry(Path::new(name)).unwrap().is_some();
    assert_eq!(left.iter().filter(|n| is_there(n)).count(), 2);
    third.delete(5).unwrap();
    assert_eq!(left.iter().filter(|n| is_there(n)).count(), 0);
    third.verify(2, true).unwrap();
}

#[test]
fn a_list_that_names_another_backups_own_files_does_it_no_harm() {
    let w = World::new(10);
    let db = open_in(&w.env, "/db");
    fill(&db, 0..10);
    let backups = backups_in(&w.env, "/backups");
    for id in 1..=2 {
        assert_eq!(backups.create(&db, &plain()).unwrap(), id);
    }
    let list = w.mem.read_file(Path::new("/backups/meta/1")).unwrap();
    let list = String::from_utf8(list).unwrap();
    // With a checksum that contradicts the other list's.
    let changed = |line: &str| match line.strip_prefix("private/1/MANIFEST-") {
        Some(_) => "private/2/MANIFEST-000005 crc32 1\n".to_string(),
        None => format!("{line}\n"),
    };
    let changed: String = list.lines().map(changed).collect();
    assert_ne!(list, changed);
    w.mem
        .write_file(Path::new("/backups/meta/1"), changed.as_bytes())
        .unwrap();
    let backups = backups_in(&w.env, "/backups");
    let (id, error) = backups.damaged().remove(0);
    assert_eq!(id, 1);
    let want =
        "Corruption: a file of another backup: private/2/MANIFEST-000005: file=/backups/meta/1";
    assert_eq!(error.to_string(), want);
    backups.verify(2, true).unwrap();
    backups.delete(1).unwrap();
    backups.verify(2, true).unwrap();
    backups_in(&w.env, "/backups").verify(2, true).unwrap();
}
