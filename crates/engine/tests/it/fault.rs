//! One failing call, wherever it happens: the error surfaces, nothing acknowledged is lost, nothing
//! hangs, and the database opens again once the cause is gone (reliability, sections 2.2, 3.2).

use spanlith::options::{CfOptions, DbOptions};
use spanlith::{Db, Result, WriteOptions};
use spanlith_env::{Env, FaultFs, FaultRule, FileSystem, MemFs, OpClass};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

const EIO: i32 = 5;
const ENOSPC: i32 = 28;
const EMFILE: i32 = 24;

fn options() -> CfOptions {
    let mut cf = CfOptions::default();
    cf.write_buffer_size = 16 << 10;
    cf.arena_block_size = 4096;
    cf.level0_file_num_compaction_trigger = 2;
    cf.target_file_size_base = 8 << 10;
    cf.max_bytes_for_level_base = 32 << 10;
    cf
}

fn open(env: &Env) -> Result<Db> {
    Db::builder("/db")
        .create_if_missing(true)
        .cf_options(options())
        .env(env.clone())
        .no_info_log()
        .open()
}

/// Describes what is known of each key: value, or absent; `None` beside it if a failed write left it open.
#[derive(Default)]
struct Oracle {
    sure: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Keys whose last write failed, with what it would have set.
    unsure: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// Writes, flushes, compacts, reopens. Errors end the script.
fn script(env: &Env, oracle: &mut Oracle) -> Result<()> {
    for round in 0..3u32 {
        let db = open(env)?;
        let cf = db.default_cf();
        for i in 0..120u32 {
            let key = format!("{:04}", i * 7 % 90).into_bytes();
            let value = format!("{round}-{i}-{}", "v".repeat(100)).into_bytes();
            let sync = WriteOptions::new().sync(i % 10 == 0);
            match cf.put_opt(&key, &value, &sync) {
                Ok(()) => {
                    oracle.unsure.remove(&key);
                    oracle.sure.insert(key, value);
                }
                Err(e) => {
                    oracle.unsure.insert(key, value);
                    return Err(e);
                }
            }
            if i == 60 {
                db.flush(true)?;
                cf.get("0007")?;
            }
        }
        cf.compact_range(None, None)?;
        let n = cf.iter().collect::<Result<Vec<_>>>()?.len();
        assert_eq!(n, oracle.sure.len());
        db.close()?;
    }
    Ok(())
}

fn check(env: &Env, oracle: &Oracle, what: &str) {
    let db = open(env).unwrap_or_else(|e| panic!("{what}: cannot open again: {e}"));
    let cf = db.default_cf();
    for (key, value) in &oracle.sure {
        let got = cf.get(key).unwrap_or_else(|e| panic!("{what}: {e}"));
        let also = oracle.unsure.get(key);
        let fine = got.as_deref() == Some(value)
            || got.is_some() && got.as_deref() == also.map(|v| &v[..]);
        assert!(fine, "{what}: key {} lost", key.escape_ascii());
    }
    for entry in cf.iter() {
        let (key, value) = entry.unwrap();
        let known = oracle.sure.get(&*key) == Some(&value.to_vec())
            || oracle.unsure.get(&*key) == Some(&value.to_vec());
        assert!(known, "{what}: invented {}", key.escape_ascii());
    }
    cf.put("and it", "goes on").unwrap();
    db.flush(true).unwrap();
}

#[test]
fn one_failing_call_loses_nothing_wherever_it_is() {
    let mut runs = 0;
    let mut failed_runs = 0;
    for (class, errno) in [
        (OpClass::Append, EIO),
        (OpClass::Append, ENOSPC),
        (OpClass::Sync, EIO),
        (OpClass::Create, EMFILE),
        (OpClass::Rename, EIO),
        (OpClass::Delete, EIO),
        (OpClass::SyncDir, EIO),
        (OpClass::Open, EMFILE),
        (OpClass::Read, EIO),
        (OpClass::Close, EIO),
        (OpClass::List, EIO),
        (OpClass::Lock, EIO),
    ] {
        // Every call of the rarer classes, a stride through the frequent ones.
        let total = {
            let fs = Arc::new(FaultFs::new(Arc::new(MemFs::new())));
            let (env, ..) = Env::test(fs.clone(), 1);
            script(&env, &mut Oracle::default()).unwrap();
            fs.calls(class)
        };
        let stride = (total / 40).max(1);
        for nth in (1..=total).step_by(stride as usize) {
            for forever in [false, true] {
                let what = format!("{class:?} call {nth} fails with {errno}, forever {forever}");
                let fs = Arc::new(FaultFs::new(Arc::new(MemFs::new())));
                let (env, ..) = Env::test(fs.clone(), 1);
                let rule = FaultRule::fail(class, nth, errno).short(3);
                fs.add(if forever { rule.forever() } else { rule });
                let mut oracle = Oracle::default();
                let result = script(&env, &mut oracle);
                runs += 1;
                failed_runs += u32::from(result.is_err());
                if let Err(e) = result {
                    let text = e.to_string();
                    assert!(text.starts_with("IO error: "), "{what}: {text}");
                }
                fs.clear();
                check(&env, &oracle, &what);
            }
        }
    }
    assert!(runs > 300, "{runs}");
    assert!(failed_runs > 200, "{failed_runs} of {runs}");
}

#[test]
fn a_full_disk_stops_writes_keeps_reads_and_opens_again_when_there_is_room() {
    crate::suite_disk::needs_table_files(
        "the file system of the tables is full here, not the disk",
    );
    for budget in (0..60).map(|i| i * 3_000 + 500) {
        let mem = Arc::new(MemFs::new());
        let fs = Arc::new(FaultFs::new(mem));
        let (env, ..) = Env::test(fs.clone(), 3);
        let db = open(&env).unwrap();
        let cf = db.default_cf();
        fs.set_budget(Some(budget));
        let mut acked = Vec::new();
        let error = (0u32..).find_map(|i| match cf.put(i.to_be_bytes(), [7; 500]) {
            Ok(()) => {
                acked.push(i);
                None
            }
            Err(e) => Some(e),
        });
        let text = error.unwrap().to_string();
        assert!(
            text.starts_with("IO error: No space left on device: "),
            "{text}"
        );
        assert!(text.contains("/db/"), "names the file: {text}");
        for i in &acked {
            assert!(cf.get(i.to_be_bytes()).unwrap().is_some(), "reads go on");
        }
        let refused = cf.put("x", "y").unwrap_err().to_string();
        assert!(
            refused.starts_with("IO error: No space left on device: ")
                && refused.contains("resume=when-there-is-space"),
            "the cause stays visible: {refused}"
        );
        drop((cf, db));
        fs.set_budget(None);
        let db = open(&env).unwrap();
        for i in &acked {
            assert!(
                db.default_cf().get(i.to_be_bytes()).unwrap().is_some(),
                "{i} lost"
            );
        }
    }
}

/// Holds E2.
#[test]
fn a_failed_sync_is_never_tried_again_on_the_same_log() {
    crate::suite_disk::needs_log_files("calls for files of logs fail here, not those for a device");
    let mem = Arc::new(MemFs::new());
    let fs = Arc::new(FaultFs::new(mem.clone()));
    let (env, ..) = Env::test(fs.clone(), 5);
    let db = open(&env).unwrap();
    let cf = db.default_cf();
    let synced = WriteOptions::new().sync(true);
    cf.put_opt("kept", "1", &synced).unwrap();
    fs.add(FaultRule::fail(OpClass::Sync, 1, EIO).named(".log"));
    let e = cf.put_opt("open", "2", &synced).unwrap_err();
    assert!(e.to_string().starts_with("IO error: "), "{e}");
    assert!(cf.put_opt("refused", "3", &synced).is_err());
    assert!(db.sync().is_err());
    assert!(
        db.clone().close().is_err(),
        "close reports what stopped writes"
    );
    drop((cf, db));
    // The disk may have kept nothing after the last good sync.
    let (after, ..) = Env::test(Arc::new(mem.strict_clone()), 6);
    let db = open(&after).unwrap();
    assert!(db.default_cf().get("kept").unwrap().is_some());
    assert!(db.default_cf().get("refused").unwrap().is_none());
    let names = after.fs.list(Path::new("/db")).unwrap();
    assert!(names.iter().any(|n| n == "CURRENT"));
}

/// The sync of an earlier log is recorded in the MANIFEST, which says first that it failed.
#[test]
fn a_synced_write_that_failed_at_the_manifest_stays_away_after_a_resume() {
    crate::suite_disk::needs_log_files("calls for files of logs fail here, not those for a device");
    let mem = Arc::new(MemFs::new());
    let fs = Arc::new(FaultFs::new(mem.clone()));
    let open = |fs| {
        let (env, ..) = Env::test(fs, 1);
        let mut db_options = DbOptions::default();
        db_options.create_if_missing = true;
        db_options.track_and_verify_wals_in_manifest = true;
        let mut cf_options = options();
        // A log with writes that are not synced stays behind.
        cf_options.max_write_buffer_number = 8;
        cf_options.min_write_buffer_number_to_merge = 3;
        let builder = Db::builder("/db").options(db_options);
        let builder = builder.cf_options(cf_options).env(env).no_info_log();
        builder.open().unwrap()
    };
    let db = open(fs.clone());
    let cf = db.default_cf();
    let logs = || {
        let names = mem.list(Path::new("/db")).unwrap();
        names.iter().filter(|n| n.ends_with(".log")).count()
    };
    // The next write seals the memtable: it begins a log, and is alone in it.
    cf.put("filling", [b'v'; 80_000]).unwrap();
    assert_eq!(logs(), 1);
    let synced = WriteOptions::new().sync(true);
    fs.add(FaultRule::fail(OpClass::Sync, 1, EIO).named("MANIFEST"));
    cf.put_opt("failed", "1", &synced).unwrap_err();
    assert_eq!((fs.fired_total(), logs()), (1, 2));
    db.resume().unwrap();
    cf.put_opt("later", "2", &synced).unwrap();
    assert_eq!(cf.get("failed").unwrap(), None);
    let after = open(Arc::new(FaultFs::new(Arc::new(mem.strict_clone()))));
    let cf = after.default_cf();
    assert_eq!(cf.get("failed").unwrap(), None);
    assert_eq!(cf.get("later").unwrap().as_deref(), Some(&b"2"[..]));
}
