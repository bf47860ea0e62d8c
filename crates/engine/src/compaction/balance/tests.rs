//! The equations hold in every job, and break when an entry is lost or doubled.

use super::plant::{self, Fault};
use super::{Dropped, check_inputs, check_memtables, check_outputs};
use crate::db::Db;
use crate::merge::operator_by_name;
use crate::options::{CfOptions, DbOptions};
use crate::write::WriteOptions;
use spanlith_base::{ErrorKind, Result};
use spanlith_env::{Env, ManualExecutor, MemFs, SeededRng, VirtualClock};
use std::sync::Arc;

fn open(verifies: bool) -> Db {
    let env = Env {
        fs: Arc::new(MemFs::new()),
        clock: Arc::new(VirtualClock::new()),
        executor: Arc::new(ManualExecutor::new()),
        rng: Arc::new(SeededRng::new(1)),
    };
    let options = DbOptions {
        compaction_verify_record_count: verifies,
        flush_verify_memtable_count: verifies,
        ..DbOptions::default()
    };
    let cf = CfOptions {
        disable_auto_compactions: true,
        ..CfOptions::default()
    };
    let builder = Db::builder("/db").env(env).options(options);
    let builder = builder.create_if_missing(true).cf_options(cf);
    builder
        .merge_operator(operator_by_name("stringappend").unwrap())
        .open()
        .unwrap()
}

/// Three tables with overwritten keys, deletions, single deletes, merges and a range tombstone.
fn fill(db: &Db) -> Result<()> {
    let cf = db.default_cf();
    for round in 0..3 {
        for i in 0..60 {
            let key = format!("{i:02}");
            match (i + round) % 6 {
                0 => cf.delete(&key)?,
                1 => cf.merge(&key, "m")?,
                _ => cf.put(&key, format!("{round}"))?,
            }
        }
        if round == 1 {
            cf.delete_range("20", "25")?;
        }
        let once = format!("s{round}");
        cf.put(&once, "")?;
        cf.single_delete_opt(&once, &WriteOptions::default())?;
        db.flush(true)?;
    }
    Ok(())
}

#[test]
fn each_equation_names_what_does_not_match() {
    let mut dropped = Dropped {
        hidden: 1,
        obsolete: 2,
        covered: 3,
        filtered: 4,
        folded: 5,
        cancelled: 6,
        ..Dropped::default()
    };
    assert!(dropped.check(30, 9).is_ok());
    assert!(dropped.check(30, 8).is_err());
    assert!(dropped.check(29, 9).is_err());
    let other = dropped;
    dropped.add(&other);
    assert_eq!(dropped.total(), 42);
    assert!(check_inputs(3, 3).is_ok());
    assert!(check_memtables(3, 3).is_ok());
    assert!(check_outputs("flush", 3, 3).is_ok());
    let texts = [
        check_inputs(3, 2),
        check_memtables(3, 4),
        check_outputs("compaction", 3, 2),
        check_outputs("flush", 3, 2),
    ];
    let texts = texts.map(|e| e.unwrap_err().to_string());
    let expected = [
        "Corruption: Compaction number of input keys does not match number of keys processed. \
         Expected 3 but processed 2",
        "Corruption: Expected 3 entries in memtables, but read 4",
        "Corruption: Number of keys in compaction output SST files does not match number of keys \
         added. Expected 3 but there are 2 in output SST files",
        "Corruption: Number of keys in flush output SST files does not match number of keys added \
         to the table. Expected 3 but there are 2 in output SST files",
    ];
    assert_eq!(texts, expected);
}

/// Runs `job` once for every entry that `fault` can strike, on a new database each.
fn sweep(fault: Fault, beginning: &str, job: impl Fn(&Db, u64) -> Result<()>) {
    let mut struck = 0;
    for n in (0..).step_by(7) {
        let db = open(true);
        let done = job(&db, n);
        if plant::is_planted() {
            plant::plant(None);
            done.unwrap();
            break;
        }
        let e = done.expect_err("an entry was lost or doubled unnoticed");
        assert_eq!(e.kind(), ErrorKind::Corruption, "{fault:?} {n}: {e}");
        assert!(e.to_string().starts_with(beginning), "{fault:?} {n}: {e}");
        struck += 1;
    }
    assert!(struck > 5, "{fault:?} struck {struck} times");
}

const CASES: [Fault; 3] = [Fault::Forgets, Fault::Doubles, Fault::NotStored];

fn beginning(fault: Fault, job: &str) -> String {
    match fault {
        Fault::NotStored => format!("Corruption: Number of keys in {job} output SST files"),
        _ => "Corruption: Number of entries read does not match".to_string(),
    }
}

#[test]
fn an_entry_that_a_compaction_loses_or_doubles_is_noticed() {
    for fault in CASES {
        sweep(fault, &beginning(fault, "compaction"), |db, n| {
            fill(db).unwrap();
            plant::plant(Some((fault, n)));
            db.default_cf().compact_range(None, None)
        });
    }
}

#[test]
fn an_entry_that_the_input_of_a_compaction_passes_over_is_noticed() {
    let db = open(true);
    fill(&db).unwrap();
    let before: Vec<_> = db.live_files().iter().map(|f| f.number).collect();
    plant::plant(Some((Fault::ReadsPast, 10)));
    let e = db.default_cf().compact_range(None, None).unwrap_err();
    let text = "Corruption: Compaction number of input keys does not match";
    assert!(e.to_string().starts_with(text), "{e}");
    let after: Vec<_> = db.live_files().iter().map(|f| f.number).collect();
    assert_eq!(before, after, "the inputs stay");
}

#[test]
fn an_entry_that_a_flush_loses_or_doubles_is_noticed() {
    let write = |db: &Db, fault, n| {
        for i in 0..60 {
            db.default_cf().put(format!("{i:02}"), "v").unwrap();
        }
        plant::plant(Some((fault, n)));
        db.flush(true)
    };
    for fault in CASES {
        sweep(fault, &beginning(fault, "flush"), |db, n| {
            write(db, fault, n)
        });
    }
    let e = write(&open(true), Fault::ReadsPast, 10).unwrap_err();
    let text = "Corruption: Expected 60 entries in memtables, but read 59";
    assert!(e.to_string().starts_with(text), "{e}");
}

#[test]
fn without_the_options_nothing_is_counted_against_anything() {
    let db = open(false);
    plant::plant(Some((Fault::Forgets, 10)));
    fill(&db).unwrap();
    assert!(!plant::is_planted());
    plant::plant(Some((Fault::NotStored, 10)));
    db.default_cf().compact_range(None, None).unwrap();
    assert!(!plant::is_planted());
}
