//! Describes what is there after the end of the process and after a power loss, by operation: the table of
//! `docs/durability.md`, row by row.

use spanlith::options::DbOptions;
use spanlith::{Cf, Db, FamilyOptions, WriteOptions};
use spanlith_env::{Env, FileSystem, MemFs};
use std::path::Path;
use std::sync::Arc;

const DIR: &str = "/db";

/// A row: what is written after the logged key `before` and the unlogged key `unlogged`, and whether `key`
/// is kept when the process ends and when the power fails.
struct Row {
    name: &'static str,
    options: fn(&mut DbOptions),
    act: fn(&Db, &Cf),
    process: bool,
    power: bool,
}

fn put(cf: &Cf) {
    cf.put("key", "1").unwrap();
}

fn as_usual(_: &mut DbOptions) {}

fn held_back(options: &mut DbOptions) {
    options.manual_wal_flush = true;
}

const ROWS: &[Row] = &[
    Row {
        name: "write with sync",
        options: as_usual,
        act: |_, cf| {
            let synced = WriteOptions::new().sync(true);
            cf.put_opt("key", "1", &synced).unwrap();
        },
        process: true,
        power: true,
    },
    Row {
        name: "write without sync",
        options: as_usual,
        act: |_, cf| put(cf),
        process: true,
        power: false,
    },
    Row {
        name: "write with manual_wal_flush",
        options: held_back,
        act: |_, cf| put(cf),
        process: false,
        power: false,
    },
    Row {
        name: "flush_wal(false)",
        options: held_back,
        act: |db, cf| {
            put(cf);
            db.flush_wal(false).unwrap();
        },
        process: true,
        power: false,
    },
    Row {
        name: "flush_wal(true)",
        options: held_back,
        act: |db, cf| {
            put(cf);
            db.flush_wal(true).unwrap();
        },
        process: true,
        power: true,
    },
    Row {
        name: "sync",
        options: as_usual,
        act: |db, cf| {
            put(cf);
            db.sync().unwrap();
        },
        process: true,
        power: true,
    },
    Row {
        name: "write with disable_wal",
        options: as_usual,
        act: |_, cf| {
            let unlogged = WriteOptions::new().disable_wal(true);
            cf.put_opt("key", "1", &unlogged).unwrap();
        },
        process: false,
        power: false,
    },
    Row {
        name: "waiting flush",
        options: as_usual,
        act: |_, cf| {
            let unlogged = WriteOptions::new().disable_wal(true);
            cf.put_opt("key", "1", &unlogged).unwrap();
            cf.flush(true).unwrap();
        },
        process: true,
        power: true,
    },
];

fn open(fs: &MemFs, change: fn(&mut DbOptions), families: &[&str]) -> Db {
    let mut env = Env::system();
    env.fs = Arc::new(fs.clone());
    let mut options = DbOptions::default();
    options.create_if_missing = true;
    change(&mut options);
    let mut builder = Db::builder(Path::new(DIR))
        .options(options)
        .env(env)
        .no_info_log();
    for name in families {
        builder = builder.family(FamilyOptions::new(*name));
    }
    builder.open().unwrap()
}

/// Returns what power losses may leave: all that they can take, and choices between.
fn after_power_losses(fs: &MemFs) -> impl Iterator<Item = MemFs> {
    let some = (1..20u64).map(|seed| {
        let mut rng = spanlith_testkit::Rng::new(seed);
        fs.crash_clone(&mut |n| if n == 0 { 0 } else { rng.below(n) })
    });
    std::iter::once(fs.strict_clone()).chain(some)
}

fn has(db: &Db, key: &str) -> bool {
    db.default_cf().get(key).unwrap().is_some()
}

#[test]
fn each_operation_keeps_what_the_table_of_promises_says() {
    for row in ROWS {
        let fs = MemFs::new();
        let db = open(&fs, row.options, &[]);
        let cf = db.default_cf();
        cf.put("before", "0").unwrap();
        (row.act)(&db, &cf);
        let ended = fs.process_crash_clone();
        let lost = after_power_losses(&fs);
        let kept = has(&open(&ended, as_usual, &[]), "key");
        assert_eq!(kept, row.process, "{}: the process ends", row.name);
        for (n, left) in lost.enumerate() {
            let db = open(&left, as_usual, &[]);
            let (before, kept) = (has(&db, "before"), has(&db, "key"));
            // The first loss takes all it can, so what may be lost is.
            assert!(kept || !row.power, "{}: loss {n} took it", row.name);
            assert!(!kept || row.power || n > 0, "{}: loss {n}", row.name);
            assert!(before || !kept, "{}: loss {n} took what is older", row.name);
        }
    }
}

#[test]
fn a_clean_close_makes_durable_what_was_only_logged_or_held_back() {
    for options in [as_usual, held_back] {
        let fs = MemFs::new();
        let db = open(&fs, options, &[]);
        db.default_cf().put("key", "1").unwrap();
        db.close().unwrap();
        for left in after_power_losses(&fs) {
            assert!(has(&open(&left, as_usual, &[]), "key"));
        }
    }
}

#[test]
fn families_and_options_that_were_changed_stay_so_after_a_power_loss() {
    let fs = MemFs::new();
    let db = open(&fs, as_usual, &[]);
    db.create_cf(FamilyOptions::new("made")).unwrap();
    let gone = db.create_cf(FamilyOptions::new("gone")).unwrap();
    db.drop_cf(&gone).unwrap();
    let changed = [("level0_file_num_compaction_trigger", "77")];
    db.default_cf().set_options(&changed).unwrap();
    let ended = std::iter::once(fs.process_crash_clone());
    for left in ended.chain(after_power_losses(&fs)) {
        let names = left.list(Path::new(DIR)).unwrap();
        let newest = names
            .into_iter()
            .filter(|n| n.starts_with("OPTIONS-"))
            .max()
            .unwrap();
        let text = left.read_file(&Path::new(DIR).join(newest)).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(
            text.contains("level0_file_num_compaction_trigger=77"),
            "{text}"
        );
        // All families must be named, and none that is not there.
        let db = open(&left, as_usual, &["made"]);
        assert!(db.cf("made").is_some() && db.cf("gone").is_none());
    }
}
