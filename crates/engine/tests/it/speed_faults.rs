//! Calls of a device that fail under the logs and the tables of a speed disk: the error surfaces as one of a file does, nothing
//! acknowledged is lost, and the database goes on once the cause is gone (`fault` and `errors` say the same of files).

use crate::world::World;
use spanlith::options::{CfOptions, DbOptions};
use spanlith::{Db, ErrorKind, FamilyOptions, Result, Severity, WriteOptions};
use spanlith_env::{Effect, Env, FaultRule, MemFs, OpClass};
use spanlith_speed::{FormatOptions, Target, format_disk};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

const EIO: i32 = 5;
const EMFILE: i32 = 24;
const ENOSPC: i32 = 28;

const DISK: &str = "/fast/disk";

/// Says what is on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holds {
    Logs,
    LogsAndTables,
}

const BOTH: [Holds; 2] = [Holds::Logs, Holds::LogsAndTables];

/// Calls of a device, with the errors they may meet.
const CALLS: [(OpClass, i32); 5] = [
    (OpClass::DeviceWrite, EIO),
    (OpClass::DeviceWrite, ENOSPC),
    (OpClass::DeviceFlush, EIO),
    (OpClass::DeviceRead, EIO),
    (OpClass::DeviceOpen, EMFILE),
];

/// A world with a speed disk.
fn world(holds: Holds) -> World {
    let world = World::new(11);
    world.mem.make_device(Path::new(DISK), 4 << 20).unwrap();
    let device = Target::parse(DISK).unwrap();
    let device = device.open(&*world.mem, false).unwrap();
    let options = FormatOptions {
        group_bytes: 64 << 10,
        tables: match holds {
            Holds::Logs => 0,
            Holds::LogsAndTables => 2 << 20,
        },
        ..FormatOptions::default()
    };
    format_disk(&*device, &options, *b"0123456789abcdef").unwrap();
    world
}

fn open(env: &Env) -> Result<Db> {
    let mut cf = CfOptions::default();
    cf.write_buffer_size = 16 << 10;
    cf.arena_block_size = 4096;
    cf.level0_file_num_compaction_trigger = 2;
    cf.target_file_size_base = 8 << 10;
    let mut options = DbOptions::default();
    options.create_if_missing = true;
    options.create_missing_column_families = true;
    Db::builder("/db")
        .options(options)
        .cf_options(cf.clone())
        .family(FamilyOptions::new("two").options(cf))
        .set(format!("sd_path={DISK};sd_placement=lad:3"))?
        .env(env.clone())
        .no_info_log()
        .open()
}

/// Opens what a file system holds, by itself.
fn reopen(mem: MemFs) -> Result<Db> {
    open(&Env::test(Arc::new(mem), 12).0)
}

fn synced() -> WriteOptions {
    WriteOptions::new().sync(true)
}

/// Writes in their order, and how many of them were acknowledged, and were by a sync.
#[derive(Default)]
struct History {
    writes: Vec<(Vec<u8>, Vec<u8>)>,
    acknowledged: usize,
    synced: usize,
}

impl History {
    /// A write to both families.
    fn put(&mut self, db: &Db, key: &str, value: &str, sync: bool) -> Result<()> {
        let mut batch = spanlith::WriteBatch::new();
        for cf in [Some(db.default_cf()), db.cf("two")].iter().flatten() {
            batch.put_cf(cf, key, value);
        }
        self.writes.push((key.into(), value.into()));
        db.write_opt(&batch, &WriteOptions::new().sync(sync))?;
        self.acknowledged = self.writes.len();
        if sync {
            self.synced = self.acknowledged;
        }
        Ok(())
    }

    /// Both families hold what they held after some of the writes, `least` or more.
    fn check(&self, db: &Db, least: usize, what: &str) {
        let found = |name: &str| -> BTreeMap<Vec<u8>, Vec<u8>> {
            let entries = db.cf(name).unwrap().iter();
            let entries = entries.map(|e| e.unwrap_or_else(|e| panic!("{what}: {e}")));
            entries.map(|(k, v)| (k.to_vec(), v.to_vec())).collect()
        };
        let (one, two) = (found("default"), found("two"));
        assert!(one == two, "{what}: a batch over both is in one");
        let mut model = BTreeMap::new();
        let mut writes = self.writes.iter().cloned();
        model.extend(writes.by_ref().take(least));
        while model != one {
            let next = writes.next();
            let (key, value) = next.unwrap_or_else(|| panic!("{what}: none of the states"));
            model.insert(key, value);
        }
    }
}

/// Writes, flushes, compacts and opens again. An error ends it.
fn script(env: &Env, history: &mut History) -> Result<()> {
    for round in 0..3u32 {
        let db = open(env)?;
        for i in 0..100u32 {
            let key = format!("{:04}", i * 7 % 60);
            let value = format!("{round}-{i}-{}", "v".repeat(100));
            history.put(&db, &key, &value, i % 5 == 0)?;
            if i == 50 {
                db.flush(true)?;
                db.default_cf().get("0007")?;
            }
        }
        db.default_cf().compact_range(None, None)?;
        assert_eq!(
            db.default_cf().iter().collect::<Result<Vec<_>>>()?.len(),
            60
        );
        db.close()?;
    }
    Ok(())
}

#[test]
fn one_failing_call_of_a_device_loses_nothing_wherever_it_is() {
    let (mut runs, mut failed) = (0, 0);
    for (holds, (class, errno)) in BOTH.iter().flat_map(|&h| CALLS.map(|c| (h, c))) {
        let total = {
            let world = world(holds);
            script(&world.env, &mut History::default()).unwrap();
            world.fs.calls(class)
        };
        let stride = (total / 25).max(1);
        for nth in (1..=total).step_by(stride as usize) {
            for (forever, keep) in [(false, 3), (true, 4096)] {
                let what = format!(
                    "{holds:?}: {class:?} {nth} of {total} fails with {errno}, forever {forever}"
                );
                let world = world(holds);
                let rule = FaultRule::fail(class, nth, errno).short(keep);
                world.fs.add(if forever { rule.forever() } else { rule });
                let mut history = History::default();
                let result = script(&world.env, &mut history);
                runs += 1;
                if let Err(e) = &result {
                    failed += 1;
                    let text = e.to_string();
                    assert!(text.starts_with("IO error: "), "{what}: {text}");
                }
                world.fs.clear();
                let opened = |mem| reopen(mem).unwrap_or_else(|e| panic!("{what}: {e}"));
                let lost = opened(world.mem.strict_clone());
                history.check(&lost, history.synced, &format!("{what}, power lost"));
                let db = open(&world.env).unwrap_or_else(|e| panic!("{what}: {e}"));
                history.check(&db, history.acknowledged, &what);
                db.default_cf()
                    .put_opt("and it", "goes on", &synced())
                    .unwrap();
                db.flush(true).unwrap();
                db.close().unwrap();
            }
        }
    }
    assert!(runs > 200, "{runs}");
    assert!(failed > 100, "{failed} of {runs}");
}

#[test]
fn a_failed_write_to_a_device_is_overcome_without_opening_again() {
    let cases = [
        (OpClass::DeviceWrite, EIO, 0),
        (OpClass::DeviceWrite, EIO, 20),
        (OpClass::DeviceWrite, ENOSPC, 4096),
        (OpClass::DeviceFlush, EIO, 0),
    ];
    for (holds, (class, errno, keep)) in BOTH.iter().flat_map(|&h| cases.map(|c| (h, c))) {
        for first_is_synced in [true, false] {
            let what =
                format!("{holds:?}: {class:?} {errno} keep {keep}, synced {first_is_synced}");
            let world = world(holds);
            let db = open(&world.env).unwrap();
            let mut history = History::default();
            for i in 0..30 {
                let key = format!("a{i:02}");
                // Those that are not synced fill more than a page.
                let value = "v".repeat(if i < 20 { 1 } else { 500 });
                history.put(&db, &key, &value, i < 20).unwrap();
            }
            let rule = FaultRule::fail(class, 1, errno).short(keep);
            world.fs.add(rule.forever());
            let first = history.put(&db, "open", "?", first_is_synced);
            let first = first.and_then(|()| db.sync()).unwrap_err();
            assert_eq!(first.kind(), ErrorKind::Io, "{what}: {first}");
            let refused = history.put(&db, "refused", "x", false).unwrap_err();
            history.writes.retain(|(key, _)| key != b"refused");
            assert_eq!(refused.severity(), Severity::Hard, "{what}: {refused}");
            // Readers go on, and the cause is still there.
            history.check(&db, history.acknowledged, &what);
            let again = db.resume().unwrap_err();
            assert_eq!(again.kind(), ErrorKind::Io, "{what}: {again}");
            history.check(
                &reopen(world.mem.strict_clone()).unwrap(),
                history.synced,
                &what,
            );
            world.fs.clear();
            db.resume().unwrap_or_else(|e| panic!("{what}: {e}"));
            for i in 0..30 {
                history.put(&db, &format!("b{i:02}"), "w", false).unwrap();
            }
            history.put(&db, "last", "1", true).unwrap();
            // A write that was not acknowledged stays away: readers did not see it.
            let open = db.default_cf().get("open").unwrap().is_some();
            if !open {
                history.writes.retain(|(key, _)| key != b"open");
            }
            let all = history.writes.len();
            history.check(&db, all, &what);
            history.check(&reopen(world.mem.strict_clone()).unwrap(), all, &what);
            db.flush(true).unwrap();
            db.wait_idle(None).unwrap();
            assert_eq!(db.property("spanlith.background-errors").unwrap(), "");
            db.close().unwrap();
            history.check(&self::open(&world.env).unwrap(), all, &what);
        }
    }
}

#[test]
fn a_second_failing_call_at_any_step_of_a_resume_leaves_everything_for_the_next() {
    for (holds, (class, errno)) in BOTH.iter().flat_map(|&h| CALLS.map(|c| (h, c))) {
        for nth in 1..60 {
            let what = format!("{holds:?}: {class:?} {nth}");
            let world = world(holds);
            let db = open(&world.env).unwrap();
            let mut history = History::default();
            for i in 0..20 {
                history
                    .put(&db, &format!("a{i:02}"), "v", i % 3 == 0)
                    .unwrap();
            }
            world.fs.add(FaultRule::fail(OpClass::DeviceWrite, 1, EIO));
            history.put(&db, "open", "?", true).unwrap_err();
            history.writes.pop();
            let rule = world.fs.add(FaultRule::fail(class, nth, errno));
            let first = db.resume();
            if world.fs.fired(rule) == 0 {
                first.unwrap();
                break;
            }
            world.fs.clear();
            if first.is_err() {
                // Any state that a power loss leaves now can be opened.
                let lost = reopen(world.mem.strict_clone());
                let lost = lost.unwrap_or_else(|e| panic!("{what}: {e}"));
                history.check(&lost, history.synced, &what);
                db.resume().unwrap_or_else(|e| panic!("{what}: {e}"));
            }
            for i in 0..10 {
                history.put(&db, &format!("b{i:02}"), "v", false).unwrap();
            }
            db.sync().unwrap();
            history.check(&db, history.acknowledged, &what);
            history.check(
                &reopen(world.mem.strict_clone()).unwrap(),
                history.acknowledged,
                &what,
            );
            db.close().unwrap();
        }
    }
}

/// Settles whether the write that failed came about, which a reader says.
fn settle_last(db: &Db, history: &mut History) {
    let (key, value) = history.writes.last().cloned().unwrap();
    let found = db.default_cf().get(&key).unwrap();
    if found.as_deref() != Some(&value[..]) {
        history.writes.pop();
    }
}

#[test]
fn after_any_failing_call_a_resume_goes_on_and_nothing_acknowledged_is_lost() {
    let mut resumed = 0;
    for (holds, (class, errno)) in BOTH.iter().flat_map(|&h| CALLS.map(|c| (h, c))) {
        for (nth, times) in (1..80).map(|n| (n, if n % 3 == 0 { 3 } else { 1 })) {
            let what = format!("{holds:?}: {class:?} {nth}, {times} times {errno}");
            let world = world(holds);
            let db = open(&world.env).unwrap();
            let mut history = History::default();
            let rule = FaultRule::fail(class, nth, errno).short(3).times(times);
            let rule = world.fs.add(rule);
            for i in 0..120u32 {
                let key = format!("{:04}", i * 7 % 60);
                let value = format!("{i}-{}", "v".repeat(i as usize * 37 % 900));
                let sync = i % 4 == 0 || i % 7 == 0;
                let mut result = history.put(&db, &key, &value, sync);
                let is_put = result.is_err();
                if i % 40 == 39 && result.is_ok() {
                    result = db.flush(true).and_then(|()| db.wait_idle(None));
                }
                if let Err(e) = result {
                    assert_eq!(e.kind(), ErrorKind::Io, "{what}: {e}");
                    let lost = reopen(world.mem.strict_clone());
                    let lost = lost.unwrap_or_else(|e| panic!("{what}: {e}"));
                    history.check(&lost, history.synced, &format!("{what}, power lost"));
                    for tries in 0.. {
                        match db.resume() {
                            Ok(()) => break,
                            Err(e) => assert!(tries < 4, "{what}: {e}"),
                        }
                    }
                    resumed += 1;
                    if is_put {
                        settle_last(&db, &mut history);
                    }
                    let all = history.writes.len();
                    history.check(&db, all, &what);
                }
            }
            let fired = world.fs.fired(rule);
            world.fs.clear();
            // A flush that failed for tables may have lost pages of the log, which its next sync says.
            if let Err(e) = db.sync() {
                assert!(e.to_string().contains("failed before"), "{what}: {e}");
                db.resume().unwrap();
                db.sync().unwrap_or_else(|e| panic!("{what}: {e}"));
            }
            let all = history.writes.len();
            let lost = reopen(world.mem.strict_clone());
            let lost = lost.unwrap_or_else(|e| panic!("{what}: {e}"));
            history.check(&lost, all, &format!("{what}, power lost"));
            db.close().unwrap();
            history.check(&open(&world.env).unwrap(), all, &what);
            if fired == 0 {
                break;
            }
        }
    }
    assert!(resumed > 60, "{resumed}");
}

#[test]
fn pages_that_are_read_wrong_are_told_and_never_taken_for_others() {
    for holds in BOTH {
        let total = {
            let world = world(holds);
            script(&world.env, &mut History::default()).unwrap();
            let before = world.fs.calls(OpClass::DeviceRead);
            open(&world.env).unwrap();
            world.fs.calls(OpClass::DeviceRead) - before
        };
        let mut told = 0;
        for (nth, bit) in (1..=total).flat_map(|n| [3, 40_003, 400_005].map(|b| (n, b))) {
            let what = format!("{holds:?}: read {nth}, bit {bit}");
            let world = world(holds);
            let mut history = History::default();
            script(&world.env, &mut history).unwrap();
            let rule = FaultRule::with_effect(OpClass::DeviceRead, nth, Effect::FlipBit { bit });
            world.fs.add(rule);
            match open(&world.env) {
                Ok(db) => history.check(&db, history.acknowledged, &what),
                Err(e) => {
                    told += 1;
                    assert_eq!(e.kind(), ErrorKind::Corruption, "{what}: {e}");
                    assert!(e.to_string().contains(DISK), "{what}: {e}");
                }
            }
            world.fs.clear();
            let db = open(&world.env).unwrap_or_else(|e| panic!("{what}: {e}"));
            history.check(&db, history.acknowledged, &what);
        }
        assert!(told > 0, "{holds:?}");
    }
}

#[test]
fn a_disk_that_vanishes_is_an_error_that_ends_and_takes_nothing_acknowledged_with_it() {
    for holds in BOTH {
        let world = world(holds);
        let db = open(&world.env).unwrap();
        let mut history = History::default();
        for i in 0..30 {
            history.put(&db, &format!("a{i:02}"), "v", i < 20).unwrap();
        }
        let all = [
            OpClass::DeviceOpen,
            OpClass::DeviceRead,
            OpClass::DeviceWrite,
            OpClass::DeviceFlush,
        ];
        for class in all {
            // No such device or address.
            world.fs.add(FaultRule::fail(class, 1, 6).forever());
        }
        let e = history.put(&db, "open", "?", true).unwrap_err();
        assert!(e.to_string().contains(DISK), "{e}");
        assert_eq!(db.resume().unwrap_err().kind(), ErrorKind::Io);
        history.check(&db, history.acknowledged, "readers go on");
        assert!(db.close().is_err());
        let e = open(&world.env).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Io, "{e}");
        assert!(e.to_string().contains(DISK), "{e}");
        world.fs.clear();
        history.check(
            &open(&world.env).unwrap(),
            history.acknowledged,
            "it is back",
        );
    }
}

#[test]
fn a_device_that_is_for_reading_only_is_refused_for_writes_and_read() {
    let world = world(Holds::Logs);
    let db = open(&world.env).unwrap();
    let mut history = History::default();
    history.put(&db, "k", "v", true).unwrap();
    db.close().unwrap();
    // Operation not permitted, as of a loop device that was made so.
    world
        .fs
        .add(FaultRule::fail(OpClass::DeviceWrite, 1, 1).forever());
    world
        .fs
        .add(FaultRule::fail(OpClass::DeviceFlush, 1, 1).forever());
    let before = world.mem.read_file(Path::new("/db/CURRENT")).unwrap();
    let e = open(&world.env).unwrap_err();
    assert!(
        e.to_string()
            .contains("speed disk: /fast/disk: Operation not permitted"),
        "{e}"
    );
    assert_eq!(
        world.mem.read_file(Path::new("/db/CURRENT")).unwrap(),
        before
    );
    let read = Db::builder("/db").env(world.env.clone()).all_families();
    let read = read.open_read_only().unwrap();
    history.check(&read, 1, "for reading");
    world.fs.clear();
    history.check(&open(&world.env).unwrap(), 1, "for writing");
}

/// From a write on of which a part has arrived, every call fails, and the disk is back when the database is opened again.
#[test]
fn a_device_that_vanishes_in_the_middle_of_a_write_takes_nothing_acknowledged_along() {
    const ENODEV: i32 = 19;
    for (holds, nth) in BOTH
        .iter()
        .flat_map(|&h| (1..40).step_by(3).map(move |n| (h, n)))
    {
        let what = format!("{holds:?}, gone with write {nth}");
        let world = world(holds);
        let db = open(&world.env).unwrap();
        let rule = FaultRule::fail(OpClass::DeviceWrite, nth, ENODEV);
        world.fs.add(rule.short(700).forever());
        let mut history = History::default();
        let write = |i: u32, history: &mut History| {
            let value = "v".repeat(1 + (i * 37 % 900) as usize);
            history.put(&db, &format!("{:03}", i % 70), &value, i.is_multiple_of(3))
        };
        let first = (0..2000).find_map(|i| write(i, &mut history).err());
        let e = first.unwrap_or_else(|| panic!("{what}: no write failed"));
        assert!(e.to_string().starts_with("IO error: "), "{what}: {e}");
        for class in [
            OpClass::DeviceRead,
            OpClass::DeviceFlush,
            OpClass::DeviceOpen,
        ] {
            world.fs.add(FaultRule::fail(class, 1, ENODEV).forever());
        }
        // Nothing hangs, and nothing is taken.
        for i in 0..5 {
            assert!(write(i, &mut history).is_err(), "{what}: taken after it");
        }
        // Either is right: a close says what it could not write, and there may be nothing.
        let _ = db.close();
        world.fs.clear();
        let lost = reopen(world.mem.strict_clone()).unwrap_or_else(|e| panic!("{what}: {e}"));
        history.check(&lost, history.synced, &format!("{what}, power lost"));
        let db = open(&world.env).unwrap_or_else(|e| panic!("{what}: {e}"));
        history.check(&db, history.acknowledged, &what);
        db.close().unwrap();
    }
}
