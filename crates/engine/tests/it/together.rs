//! Flushes that are atomic over the families they name, beside everything else that may happen to these.

use crate::world::World;
use spanlith::listener::MemtableInfo;
use spanlith::options::CfOptions;
use spanlith::{Cf, Db, EventListener, FamilyOptions, FlushOptions, WriteBatch, WriteOptions};
use spanlith_env::{Env, FaultRule, FsOp, MemFs, OpClass};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

const NAMES: [&str; 3] = ["a", "b", "c"];

const TOGETHER: FlushOptions = FlushOptions {
    wait: true,
    allow_write_stall: true,
    atomic: true,
};

const SOON: FlushOptions = FlushOptions {
    wait: false,
    ..TOGETHER
};

const ALONE: FlushOptions = FlushOptions {
    atomic: false,
    ..SOON
};

fn open(w: &World, options: &CfOptions) -> (Db, [Cf; 3]) {
    let db = Db::builder("/db").create_if_missing(true);
    let db = db.env(w.env.clone()).no_info_log().open().unwrap();
    let make = |name| db.create_cf(FamilyOptions::new(name).options(options.clone()));
    let families = NAMES.map(|name| make(name).unwrap());
    (db, families)
}

/// The same in each family, in no log.
fn write(db: &Db, families: &[&Cf], key: &str) {
    let mut batch = WriteBatch::new();
    for family in families {
        batch.put_cf(*family, key, "v");
    }
    let unlogged = WriteOptions::new().disable_wal(true);
    db.write_opt(&batch, &unlogged).unwrap();
}

/// Keys by family after a power loss that takes all that is not synced.
fn after_power_loss(fs: &MemFs) -> [usize; 3] {
    let mut env = Env::system();
    env.fs = Arc::new(fs.crash_clone(&mut |_| 0));
    let mut builder = Db::builder("/db").env(env).no_info_log();
    for name in NAMES {
        builder = builder.family(FamilyOptions::new(name));
    }
    let db = builder.open().unwrap();
    NAMES.map(|name| db.cf(name).unwrap().iter().count())
}

/// Returns what power losses during `work` leave, each outcome once.
fn power_losses(w: &World, work: impl FnOnce()) -> Vec<[usize; 3]> {
    let images = Arc::new(Mutex::new(Vec::new()));
    let (seen, of) = (images.clone(), w.mem.clone());
    let observer = move |_: &FsOp| seen.lock().unwrap().push(of.crash_clone(&mut |_| 0));
    w.mem.set_observer(Some(Arc::new(observer)));
    work();
    w.mem.set_observer(None);
    let images = std::mem::take(&mut *images.lock().unwrap());
    let mut counts: Vec<_> = images.iter().map(after_power_loss).collect();
    counts.push(after_power_loss(&w.mem));
    counts.dedup();
    counts
}

/// Its memtables were drained twice: a panic, or what was sealed next was forgotten.
#[test]
fn a_family_that_is_named_twice_is_flushed_once() {
    for how in [
        TOGETHER,
        FlushOptions {
            wait: true,
            ..ALONE
        },
    ] {
        let w = World::new(1);
        let (db, [a, b, c]) = open(&w, &CfOptions::default());
        write(&db, &[&a, &b, &c], "1");
        db.flush_cfs_opt(&[&a, &b, &a, &a], how).unwrap();
        assert_eq!([&a, &b, &c].map(|f| f.live_files().len()), [1, 1, 0]);
        write(&db, &[&a, &b, &c], "2");
        db.flush_cfs_opt(&[&a, &a, &b], how).unwrap();
        assert_eq!(after_power_loss(&w.mem), [2, 2, 0]);
    }
}

/// As soon as it hears of a sealed memtable, writes to two families and seals that of one.
#[derive(Default)]
struct SealsMore {
    of: OnceLock<(Db, Cf, Cf)>,
    done: Mutex<bool>,
}

impl EventListener for SealsMore {
    fn on_memtable_sealed(&self, _: &MemtableInfo) {
        let Some((db, a, b)) = self.of.get() else {
            return;
        };
        if std::mem::replace(&mut *self.done.lock().unwrap(), true) {
            return;
        }
        write(db, &[a, b], "2");
        a.flush_opt(ALONE).unwrap();
    }
}

/// The memtable that was last sealed was looked up after leadership was let go of.
#[test]
fn what_one_family_seals_next_is_no_part_of_a_flush_of_several() {
    let w = World::new(1);
    let ears = Arc::new(SealsMore::default());
    let builder = Db::builder("/db").create_if_missing(true);
    let builder = builder.env(w.env.clone()).no_info_log();
    let db = builder.listener(ears.clone()).open().unwrap();
    let [a, b, c] = NAMES.map(|name| db.create_cf(FamilyOptions::new(name)).unwrap());
    write(&db, &[&a, &b, &c], "1");
    assert!(ears.of.set((db.clone(), a.clone(), b.clone())).is_ok());
    let losses = power_losses(&w, || {
        db.flush_cfs_opt(&[&a, &b], SOON).unwrap();
        w.executor.jobs.run_until_idle();
    });
    // The listener's own flush of the first family comes after it.
    assert_eq!(losses, [[0, 0, 0], [1, 1, 0], [2, 1, 0]]);
}

/// The caller waited for the end of the pause, though he said not to, and may be the one who ends it.
#[test]
fn a_pause_holds_back_a_flush_of_several_families_but_nobody_who_does_not_wait() {
    let w = World::new(1);
    let (db, [a, b, c]) = open(&w, &CfOptions::default());
    write(&db, &[&a, &b, &c], "1");
    db.pause_background_work().unwrap();
    db.flush_cfs_opt(&[&a, &b], SOON).unwrap();
    w.executor.jobs.run_until_idle();
    assert_eq!(after_power_loss(&w.mem), [0; 3]);
    let losses = power_losses(&w, || {
        db.continue_background_work().unwrap();
        db.wait_idle(None).unwrap();
    });
    assert_eq!(losses, [[0, 0, 0], [1, 1, 0]]);
}

/// Both were flushed by themselves once the error was over.
#[test]
fn a_flush_of_several_families_that_failed_is_tried_again_as_one() {
    crate::suite_disk::needs_table_files(
        "calls for files of tables fail here, not those for a device",
    );
    let w = World::new(1);
    let (db, [a, b, c]) = open(&w, &CfOptions::default());
    write(&db, &[&a, &b, &c], "1");
    let losses = power_losses(&w, || {
        w.fs.add(FaultRule::fail(OpClass::Sync, 2, 5).named(".sst"));
        db.flush_cfs_opt(&[&a, &b], TOGETHER).unwrap_err();
        for _ in 0..100 {
            w.pass(Duration::from_secs(10));
        }
    });
    assert_eq!(losses, [[0, 0, 0], [1, 1, 0]]);
    db.wait_idle(None).unwrap();
    write(&db, &[&a, &b, &c], "2");
    a.flush(true).unwrap();
    assert_eq!(after_power_loss(&w.mem), [2, 1, 0]);
}

#[test]
fn flushes_of_several_families_go_in_the_order_in_which_they_were_asked_for() {
    let w = World::new(1);
    let mut two = CfOptions::default();
    two.min_write_buffer_number_to_merge = 2;
    two.max_write_buffer_number = 9;
    let (db, [a, b, c]) = open(&w, &two);
    write(&db, &[&a, &b, &c], "1");
    // Queued, and waits.
    a.flush_opt(ALONE).unwrap();
    write(&db, &[&a, &b, &c], "2");
    db.flush_cfs_opt(&[&a, &b], SOON).unwrap();
    write(&db, &[&a, &b, &c], "3");
    db.flush_cfs_opt(&[&b, &c], SOON).unwrap();
    write(&db, &[&a, &b, &c], "4");
    // One memtable after all that: it is not forgotten.
    let losses = power_losses(&w, || {
        a.flush(true).unwrap();
        w.executor.jobs.run_until_idle();
    });
    assert_eq!(losses, [[0, 0, 0], [2, 2, 0], [2, 3, 3], [4, 3, 3]],);
}

#[test]
fn a_family_that_is_dropped_holds_back_no_flush_of_others() {
    let w = World::new(1);
    let (db, [a, b, c]) = open(&w, &CfOptions::default());
    write(&db, &[&a, &b, &c], "1");
    a.flush_opt(ALONE).unwrap();
    db.flush_cfs_opt(&[&a, &b], SOON).unwrap();
    write(&db, &[&a, &b, &c], "2");
    db.flush_cfs_opt(&[&b, &c], SOON).unwrap();
    db.drop_cf(&a).unwrap();
    w.executor.jobs.run_until_idle();
    db.wait_idle(None).unwrap();
    assert_eq!([&b, &c].map(|f| f.live_files().len()), [2, 1]);
    db.close().unwrap();
}

#[test]
fn a_close_does_not_wait_for_flushes_that_a_pause_holds_back() {
    let w = World::new(1);
    let (db, [a, b, c]) = open(&w, &CfOptions::default());
    write(&db, &[&a, &b, &c], "1");
    db.pause_background_work().unwrap();
    db.flush_cfs_opt(&[&a, &b], SOON).unwrap();
    db.close().unwrap();
    // Closing flushes what is in no log.
    assert_eq!(after_power_loss(&w.mem), [1; 3]);
}
