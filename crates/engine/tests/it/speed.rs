//! Databases whose logs are on a speed disk.

use spanlith::options::DbOptions;
use spanlith::{
    BackupEngine, BackupOptions, CreateBackupOptions, Db, ErrorKind, FamilyOptions, OpenBuilder,
    RestoreOptions, SubCode, TxnOptions, WriteBatch, WriteOptions, migrate_to_files,
};
use spanlith_env::{Env, FaultFs, FaultRule, FileSystem, MemFs, OpClass};
use spanlith_speed::{FormatOptions, Target, format_disk};
use spanlith_testkit::TempDir;
use std::path::Path;
use std::sync::Arc;

const DISK: &str = "/fast/disk";

fn format(fs: &dyn FileSystem, disk: &str, force: bool) {
    let device = Target::parse(disk).unwrap().open(fs, false).unwrap();
    let options = FormatOptions {
        group_bytes: 64 << 10,
        force,
        ..FormatOptions::default()
    };
    format_disk(&*device, &options, *b"0123456789abcdef").unwrap();
}

/// A world in memory with a speed disk of 2 MiB.
fn world() -> (Arc<MemFs>, Env) {
    let mem = Arc::new(MemFs::new());
    mem.make_device(Path::new(DISK), 2 << 20).unwrap();
    format(&*mem, DISK, false);
    let env = env_of(&mem);
    (mem, env)
}

fn env_of(mem: &Arc<MemFs>) -> Env {
    Env::test(mem.clone(), 7).0
}

fn builder(env: &Env, disk: &str) -> OpenBuilder {
    let mut options = DbOptions::default();
    options.create_if_missing = true;
    options.create_missing_column_families = true;
    let builder = Db::builder("/db")
        .env(env.clone())
        .options(options)
        .family(FamilyOptions::new("two"))
        .no_info_log();
    match disk {
        "" => builder,
        disk => builder.set(format!("sd_path={disk}")).unwrap(),
    }
}

fn synced() -> WriteOptions {
    let mut options = WriteOptions::default();
    options.sync = true;
    options
}

fn put(db: &Db, key: &str, value: &str, options: &WriteOptions) {
    let mut batch = WriteBatch::new();
    batch.put(key, value);
    batch.put_cf(&db.cf("two").unwrap(), key, value);
    db.write_opt(&batch, options).unwrap();
}

fn get(db: &Db, key: &str) -> Option<Vec<u8>> {
    let one = db.default_cf().get(key).unwrap().map(|v| v.to_vec());
    let two = db.cf("two").unwrap().get(key).unwrap().map(|v| v.to_vec());
    assert_eq!(one, two);
    one
}

fn logs(fs: &dyn FileSystem) -> Vec<String> {
    let names = fs.list(Path::new("/db")).unwrap().into_iter();
    names.filter(|n| n.ends_with(".log")).collect()
}

#[test]
fn synced_writes_survive_a_power_loss_and_unsynced_ones_the_process() {
    let (mem, env) = world();
    let db = builder(&env, DISK).open().unwrap();
    for i in 0..200 {
        put(&db, &format!("a{i:03}"), "synced", &synced());
    }
    for i in 0..200 {
        put(&db, &format!("b{i:03}"), "logged", &WriteOptions::default());
    }
    assert_eq!(logs(&*mem), [""; 0], "no log is a file");
    let current = mem.read_file(Path::new("/db/CURRENT")).unwrap();
    let current = String::from_utf8(current).unwrap();
    assert!(
        current.contains("\nspeed-disk 1 3031") && current.ends_with("stays /fast/disk\n"),
        "{current}"
    );
    let lost = Arc::new(mem.strict_clone());
    let killed = Arc::new(mem.process_crash_clone());
    for (fs, logged) in [(lost, false), (killed, true)] {
        // CURRENT knows the disk.
        let env = env_of(&fs);
        let e = builder(&env, "").open_secondary("/second").err().unwrap();
        assert!(e.to_string().contains("are on a speed disk"), "{e}");
        let read = builder(&env, "").open_read_only().unwrap();
        assert_eq!(get(&read, "a199").as_deref(), Some(&b"synced"[..]));
        assert_eq!(get(&read, "b199").is_some(), logged);
        drop(read);
        let db = builder(&env, "").open().unwrap();
        assert_eq!(get(&db, "a000").as_deref(), Some(&b"synced"[..]));
        assert_eq!(get(&db, "a199").as_deref(), Some(&b"synced"[..]));
        assert_eq!(get(&db, "b199").is_some(), logged);
        put(&db, "more", "and more", &synced());
        db.close().unwrap();
        let db = builder(&env, "").open().unwrap();
        assert_eq!(get(&db, "more").as_deref(), Some(&b"and more"[..]));
        db.close().unwrap();
    }
}

#[test]
fn logs_go_with_their_memtables_and_a_full_disk_goes_on_in_files() {
    let (mem, env) = world();
    let db = builder(&env, DISK).open().unwrap();
    // Thirty times what the disk holds, a page for each commit.
    for i in 0..3000u32 {
        put(
            &db,
            &format!("k{:04}", i % 1000),
            &format!("v{i}"),
            &synced(),
        );
        if i % 100 == 99 {
            db.flush(true).unwrap();
        }
    }
    assert_eq!(logs(&*mem), [""; 0]);
    // Nobody flushes here: background jobs run when they are told to.
    for i in 3000..4000u32 {
        put(
            &db,
            &format!("k{:04}", i % 1000),
            &format!("v{i}"),
            &synced(),
        );
    }
    assert!(!logs(&*mem).is_empty(), "the rest is in files");
    let lost = Arc::new(mem.strict_clone());
    drop(db);
    let db = builder(&env_of(&lost), "").open().unwrap();
    for i in 0..1000 {
        let want = format!("v{}", 3000 + i);
        assert_eq!(
            get(&db, &format!("k{i:04}")).as_deref(),
            Some(want.as_bytes())
        );
    }
    db.close().unwrap();
}

#[test]
fn checkpoints_backups_and_changes_have_the_logs() {
    let (mem, env) = world();
    let db = builder(&env, DISK).open().unwrap();
    for i in 0..300 {
        put(&db, &format!("k{i:03}"), "v", &synced());
    }
    let changes: Vec<_> = db.changes(0).unwrap().collect::<Result<_, _>>().unwrap();
    assert_eq!(changes.len(), 300);
    db.checkpoint_opt("/copy", u64::MAX).unwrap();
    let backups = BackupEngine::open(BackupOptions::new("/backups"), &env).unwrap();
    backups
        .create(&db, &CreateBackupOptions::default())
        .unwrap();
    db.close().unwrap();
    backups
        .restore(None, "/restored", "/restored", &RestoreOptions::default())
        .unwrap();
    // Copies need no speed disk.
    mem.delete(Path::new(DISK)).unwrap();
    for dir in ["/copy", "/restored"] {
        let db = Db::builder(dir)
            .env(env.clone())
            .family(FamilyOptions::new("two"))
            .no_info_log()
            .open()
            .unwrap();
        assert_eq!(get(&db, "k299").as_deref(), Some(&b"v"[..]), "{dir}");
        db.close().unwrap();
    }
}

#[test]
fn a_prepared_transaction_is_found_again() {
    let (mem, env) = world();
    let mut options = DbOptions::default();
    (
        options.create_if_missing,
        options.create_missing_column_families,
    ) = (true, true);
    options.allow_2pc = true;
    let db = builder(&env, DISK).options(options.clone()).open().unwrap();
    let mut t = db.transaction_opt(TxnOptions::pessimistic(), synced());
    t.set_name(b"one").unwrap();
    t.put(&db.default_cf(), "k", "prepared").unwrap();
    t.prepare().unwrap();
    put(&db, "other", "v", &synced());
    db.flush(true).unwrap();
    let lost = Arc::new(mem.strict_clone());
    drop((t, db));
    let db = builder(&env_of(&lost), "").options(options).open().unwrap();
    let mut found = db.prepared_transactions().unwrap();
    assert_eq!(found.len(), 1);
    found[0].commit().unwrap();
    drop(found);
    assert_eq!(
        db.default_cf().get("k").unwrap().unwrap().as_ref(),
        b"prepared"
    );
    db.close().unwrap();
}

#[test]
fn the_way_back_to_files_can_be_repeated_from_every_step() {
    let (mem, env) = world();
    let db = builder(&env, DISK).open().unwrap();
    for i in 0..300 {
        put(&db, &format!("k{i:03}"), "v", &synced());
    }
    drop(db);
    let start = Arc::new(mem.strict_clone());
    let changes = {
        let fs = Arc::new(start.process_crash_clone());
        let moved = migrate(&fs).unwrap();
        assert!(moved.logs >= 1 && !moved.was_on_files);
        fs.op_count()
    };
    for cut in 0..changes {
        // The power goes after so many changes.
        let fs = Arc::new(start.process_crash_clone());
        let left = Arc::new(std::sync::Mutex::new(None));
        let (count, taken) = (std::sync::atomic::AtomicU64::new(0), left.clone());
        let camera = Arc::downgrade(&fs);
        fs.set_observer(Some(Arc::new(move |_| {
            if count.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == cut
                && let Some(fs) = camera.upgrade()
            {
                *taken.lock().unwrap() = Some(fs.strict_clone());
            }
        })));
        migrate(&fs).unwrap();
        fs.set_observer(None);
        let left = Arc::new(left.lock().unwrap().take().unwrap());
        if cut % 2 == 0 {
            migrate(&left).unwrap();
        }
        let db = builder(&env_of(&left), "").open().unwrap();
        assert_eq!(get(&db, "k299").as_deref(), Some(&b"v"[..]), "cut {cut}");
        db.close().unwrap();
        if cut % 2 == 0 {
            let current = left.read_file(Path::new("/db/CURRENT")).unwrap();
            assert!(!current.windows(10).any(|w| w == b"speed-disk"));
        }
    }
    // The disk is nobody's again, and may become somebody's.
    let fs = Arc::new(start.process_crash_clone());
    migrate(&fs).unwrap();
    assert!(migrate(&fs).unwrap().was_on_files);
    let db = builder(&env_of(&fs), DISK).open().unwrap();
    assert_eq!(get(&db, "k000").as_deref(), Some(&b"v"[..]));
    db.close().unwrap();
}

fn migrate(fs: &Arc<MemFs>) -> spanlith::Result<spanlith::ToFiles> {
    migrate_to_files(
        &env_of(fs),
        Path::new("/db"),
        &DbOptions::default(),
        None,
        false,
    )
}

#[test]
fn disks_that_are_missing_foreign_old_or_in_use_are_refused_by_name() {
    let (mem, env) = world();
    let e = builder(&env, "/nowhere").open().unwrap_err();
    assert_eq!(e.subcode(), Some(SubCode::PathNotFound), "{e}");
    assert!(
        mem.list(Path::new("/")).unwrap().iter().all(|n| n != "db"),
        "nothing was made"
    );
    let db = builder(&env, DISK).open().unwrap();
    put(&db, "k", "v", &synced());
    // Somebody else's database.
    let e = Db::builder("/other")
        .env(env.clone())
        .create_if_missing(true)
        .set(format!("sd_path={DISK}"))
        .unwrap();
    assert_eq!(e.open().unwrap_err().subcode(), Some(SubCode::LockHeld));
    db.close().unwrap();
    let e = Db::builder("/third")
        .env(env.clone())
        .create_if_missing(true)
        .set(format!("sd_path={DISK}"))
        .unwrap();
    let e = e.open().unwrap_err();
    assert!(
        e.to_string()
            .contains("belongs to the database with identity"),
        "{e}"
    );
    // Another disk than the one with the logs.
    mem.make_device(Path::new("/fast/second"), 2 << 20).unwrap();
    format(&*mem, "/fast/second", false);
    let same = builder(&env, "/fast/second").open();
    assert!(same.is_err());
    // One that was formatted, or came from an old image.
    let old = mem.process_crash_clone();
    format(&old, DISK, true);
    let e = builder(&env_of(&Arc::new(old)), "").open().unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Corruption, "{e}");
    // None at all.
    mem.delete(Path::new(DISK)).unwrap();
    let e = builder(&env, "").open().unwrap_err();
    assert!(
        e.to_string().contains("speed disk /fast/disk is missing"),
        "{e}"
    );
    assert!(
        e.to_string().contains("every write since the last flush"),
        "{e}"
    );
    let given_up = migrate_to_files(&env, Path::new("/db"), &DbOptions::default(), None, true);
    assert!(given_up.unwrap().lost_logs);
    // The MANIFEST knows of the log, and that is said once more.
    let e = builder(&env, "").open().unwrap_err();
    assert!(e.to_string().contains("had been synced"), "{e}");
    let lossy = builder(&env, "").set("synced_log_damage=truncate").unwrap();
    lossy.open().unwrap().close().unwrap();
}

#[test]
fn destroying_a_database_frees_its_disk() {
    let (mem, env) = world();
    let db = builder(&env, DISK).open().unwrap();
    put(&db, "k", "v", &synced());
    db.close().unwrap();
    Db::destroy_with("/db", &env, &DbOptions::default(), &[]).unwrap();
    assert!(mem.entry(Path::new("/db")).unwrap().is_none());
    let db = builder(&env, DISK).open().unwrap();
    assert_eq!(get(&db, "k"), None);
    db.close().unwrap();
}

#[test]
fn a_file_of_the_system_is_a_speed_disk_too() {
    let temp = TempDir::new("speed");
    let disk = temp.join("log.sd");
    spanlith_env::create_device_file(&disk, 4 << 20).unwrap();
    let env = Env::system();
    format(&*env.fs, disk.to_str().unwrap(), false);
    let open = || {
        Db::builder(temp.join("db"))
            .create_if_missing(true)
            .set(format!("sd_path={}", disk.display()))
            .unwrap()
            .open()
    };
    let db = open().unwrap();
    let cf = db.default_cf();
    std::thread::scope(|scope| {
        for t in 0..4 {
            let cf = &cf;
            scope.spawn(move || {
                for i in 0..100 {
                    cf.put_opt(format!("{t}-{i:03}"), "v", &synced()).unwrap();
                }
            });
        }
    });
    let e = open().unwrap_err();
    assert_eq!(e.subcode(), Some(SubCode::LockHeld));
    // The handle of the family outlives the close, and keeps the disk from nobody.
    db.close().unwrap();
    let db = open().unwrap();
    assert_eq!(db.default_cf().iter().count(), 400);
    db.close().unwrap();
    drop(cf);
}

/// Copies come without IDENTITY, which is what a disk knows its database by.
#[test]
fn a_copy_gets_a_speed_disk_of_its_own_at_its_first_open() {
    let (mem, env) = world();
    let db = builder(&env, DISK).open().unwrap();
    put(&db, "k", "v", &synced());
    db.checkpoint_opt("/copy", u64::MAX).unwrap();
    db.close().unwrap();
    assert!(mem.read_file(Path::new("/copy/IDENTITY")).is_err());
    mem.make_device(Path::new("/fast/other"), 2 << 20).unwrap();
    format(&*mem, "/fast/other", false);
    let open = |disk: &str| {
        let builder = Db::builder("/copy").env(env.clone());
        let builder = builder.family(FamilyOptions::new("two")).no_info_log();
        match disk {
            "" => builder.open(),
            disk => builder.set(format!("sd_path={disk}")).unwrap().open(),
        }
    };
    let copy = open("/fast/other").unwrap();
    put(&copy, "more", "w", &synced());
    copy.close().unwrap();
    let names = mem.list(Path::new("/copy")).unwrap();
    assert!(!names.iter().any(|n| n.ends_with(".log")), "{names:?}");
    let lost = env_of(&Arc::new(mem.strict_clone()));
    let copy = Db::builder("/copy")
        .env(lost)
        .family(FamilyOptions::new("two"))
        .no_info_log()
        .open()
        .unwrap();
    assert_eq!(get(&copy, "k").as_deref(), Some(&b"v"[..]));
    assert_eq!(get(&copy, "more").as_deref(), Some(&b"w"[..]));
    copy.close().unwrap();
    // CURRENT has the last word on the disk, and the MANIFEST on the id of the database.
    for damage in [&b"\xff\xfe"[..], b""] {
        mem.write_file(Path::new("/copy/IDENTITY"), damage).unwrap();
        let read = Db::builder("/copy").env(env.clone()).all_families();
        read.open_read_only().unwrap();
        open("").unwrap().close().unwrap();
    }
    // An error over a changed name of the disk says where it stands.
    let current = mem.read_file(Path::new("/copy/CURRENT")).unwrap();
    let current = String::from_utf8(current).unwrap();
    let changed = current.replace("/fast/other", "/fast/0ther");
    mem.write_file(Path::new("/copy/CURRENT"), changed.as_bytes())
        .unwrap();
    let e = open("").unwrap_err().to_string();
    assert!(
        e.contains("/copy/CURRENT") && e.contains("/fast/0ther"),
        "{e}"
    );
}

#[test]
fn a_database_that_is_not_made_after_all_leaves_its_disk_to_others() {
    let (_, env) = world();
    let at = |dir: &str, create: bool| {
        let mut options = DbOptions::default();
        options.create_if_missing = true;
        options.create_missing_column_families = create;
        let builder = Db::builder(dir).env(env.clone()).options(options);
        let builder = builder.family(FamilyOptions::new("two")).no_info_log();
        builder.set(format!("sd_path={DISK}")).unwrap().open()
    };
    // Refused after the making: the family is not there and may not be made.
    let e = at("/db", false).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::InvalidArgument, "{e}");
    for dir in ["/db", "/other"] {
        let db = at(dir, true).unwrap();
        put(&db, "k", "v", &synced());
        db.close().unwrap();
        Db::destroy_with(dir, &env, &DbOptions::default(), &[]).unwrap();
    }
}

#[test]
fn a_database_that_a_backup_replaces_leaves_its_disk_empty() {
    let (_, env) = world();
    let db = builder(&env, DISK).open().unwrap();
    put(&db, "k", "saved", &synced());
    let backups = BackupEngine::open(BackupOptions::new("/backups"), &env).unwrap();
    backups
        .create(&db, &CreateBackupOptions::default())
        .unwrap();
    put(&db, "k", "later", &synced());
    db.close().unwrap();
    let mut options = RestoreOptions::default();
    options.keep_log_files = true;
    let e = backups.restore(None, "/db", "/db", &options).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::NotSupported, "{e}");
    assert!(
        e.to_string()
            .contains("keep_log_files with logs on a speed disk"),
        "{e}"
    );
    options.keep_log_files = false;
    for _ in 0..2 {
        backups.restore(None, "/db", "/db", &options).unwrap();
        let db = builder(&env, DISK).open().unwrap();
        assert_eq!(get(&db, "k").as_deref(), Some(&b"saved"[..]));
        put(&db, "k", "later", &synced());
        db.close().unwrap();
    }
}

#[test]
fn best_efforts_without_current_are_refused_with_a_speed_disk() {
    let (mem, env) = world();
    let db = builder(&env, "").open().unwrap();
    put(&db, "k", "v", &synced());
    db.close().unwrap();
    mem.delete(Path::new("/db/CURRENT")).unwrap();
    let mut options = DbOptions::default();
    options.best_efforts_recovery = true;
    let e = builder(&env, DISK).options(options).open().unwrap_err();
    assert_eq!(e.kind(), ErrorKind::NotSupported, "{e}");
    assert!(
        e.to_string().contains("best_efforts_recovery with logs"),
        "{e}"
    );
}

#[test]
fn a_current_that_lost_its_line_about_the_disk_is_no_reason_to_lose_logs() {
    let (mem, env) = world();
    let db = builder(&env, DISK).open().unwrap();
    put(&db, "k", "flushed", &synced());
    db.flush(true).unwrap();
    put(&db, "k", "logged", &synced());
    db.close().unwrap();
    let current = mem.read_file(Path::new("/db/CURRENT")).unwrap();
    let end = current.iter().position(|&b| b == b'\n').unwrap() + 1;
    mem.write_file(Path::new("/db/CURRENT"), &current[..end])
        .unwrap();
    for open in [
        builder(&env, "").open_read_only(),
        builder(&env, "").open(),
        builder(&env, DISK).open(),
    ] {
        let e = open.err().unwrap();
        assert_eq!(e.kind(), ErrorKind::Corruption, "{e}");
    }
    mem.write_file(Path::new("/db/CURRENT"), &current).unwrap();
    let db = builder(&env, "").open().unwrap();
    assert_eq!(get(&db, "k").as_deref(), Some(&b"logged"[..]));
    db.close().unwrap();
}

/// A process without descriptors would otherwise go on without the logs, and write a CURRENT that does not know them.
#[test]
fn a_current_that_cannot_be_read_once_is_no_database_without_a_disk() {
    let (mem, env) = world();
    let db = builder(&env, DISK).open().unwrap();
    put(&db, "k", "logged", &synced());
    db.close().unwrap();
    let mut refused = 0;
    for call in 1.. {
        let mem = Arc::new(mem.process_crash_clone());
        let fs = Arc::new(FaultFs::new(mem.clone()));
        fs.add(FaultRule::fail(OpClass::Open, call, 24));
        let env = Env::test(fs.clone(), 7).0;
        match builder(&env, "").open() {
            Ok(db) => {
                assert_eq!(
                    get(&db, "k").as_deref(),
                    Some(&b"logged"[..]),
                    "call {call}"
                );
                db.close().unwrap();
            }
            Err(e) => {
                refused += 1;
                assert_eq!(e.kind(), ErrorKind::Io, "call {call}: {e}");
            }
        }
        let current = mem.read_file(Path::new("/db/CURRENT")).unwrap();
        assert!(
            current.windows(10).any(|w| w == b"speed-disk"),
            "call {call}"
        );
        if fs.fired_total() == 0 {
            break;
        }
    }
    assert!(refused > 2, "{refused}");
}
