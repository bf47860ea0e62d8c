//! Describes what an operator must be told, and what a verb must not do before it knows that it can.

use crate::support::{contents, db, run};
use spanlith::version::VersionEdit;
use spanlith::{Db, FamilyOptions};
use spanlith_env::{Env, IoActivity};
use spanlith_testkit::{TempDir, golden_case};
use spanlith_wal::LogWriter;
use std::path::Path;

fn make(dir: &Path) {
    let db = Db::builder(dir).create_if_missing(true).open().unwrap();
    let cf = db.default_cf();
    cf.put("flushed", "1").unwrap();
    cf.flush(true).unwrap();
    cf.put("logged", "2").unwrap();
    db.close().unwrap();
}

fn remove(dir: &Path, part: &str) -> usize {
    let names = contents(dir).into_keys().filter(|n| n.contains(part));
    names
        .map(|n| std::fs::remove_file(dir.join(n)).unwrap())
        .count()
}

fn doctor(dir: &Path) -> crate::support::Run {
    run(["doctor", "--db", dir.to_str().unwrap()])
}

/// R-COMP-14: where something of a database is left, no hint makes a new one, and none of the verbs does.
#[test]
fn what_is_left_of_a_database_is_not_covered_by_a_new_one() {
    let temp = TempDir::new("cli remains");
    let dir = temp.join("db");
    make(&dir);
    std::fs::remove_file(dir.join("CURRENT")).unwrap();
    let before = contents(&dir);
    for (verb, rest) in [
        ("get", &["flushed"][..]),
        ("scan", &[]),
        ("info", &[]),
        ("verify", &[]),
        ("put", &["k", "v"]),
        ("put", &["--create", "k", "v"]),
        ("flush", &["--create"]),
        ("compact", &[]),
        ("families", &[]),
        ("set-options", &["write_buffer_size=1M"]),
    ] {
        let err = db(verb, &dir, rest).fails(1);
        assert!(!err.contains("--create"), "{verb}: {err}");
        assert!(err.contains("spanlith doctor --db"), "{verb}: {err}");
        assert!(contents(&dir) == before, "{verb} {rest:?}");
    }
    let said = doctor(&dir);
    assert_eq!(said.code, Some(1));
    let way_out = said
        .out
        .lines()
        .find(|l| l.contains("printf 'MANIFEST-"))
        .expect("a way out");
    let command = &way_out[way_out.find("printf").unwrap()..];
    let done = std::process::Command::new("sh")
        .args(["-c", command])
        .status()
        .unwrap();
    assert!(done.success());
    assert_eq!(doctor(&dir).code, Some(0));
    assert_eq!(db("count", &dir, &[]).ok(), "2\n");
}

/// An empty database over a whole one, as earlier releases left it: every MANIFEST is looked at.
#[test]
fn a_manifest_that_knows_the_tables_is_found_beside_a_current_one_that_knows_none() {
    let temp = TempDir::new("cli covered");
    let dir = temp.join("db");
    make(&dir);
    let names: Vec<String> = contents(&dir).into_keys().collect();
    let manifest = names.iter().find(|n| n.starts_with("MANIFEST-")).unwrap();
    std::fs::rename(dir.join(manifest), dir.join("MANIFEST-000044")).unwrap();
    let edit = VersionEdit {
        comparator: Some("leveldb.BytewiseComparator".into()),
        log_number: Some(0),
        next_file_number: Some(2),
        last_sequence: Some(0),
        ..VersionEdit::default()
    };
    let fs = Env::system().fs;
    let file = fs
        .create(&dir.join("MANIFEST-000001"), IoActivity::Manifest)
        .unwrap();
    let mut log = LogWriter::new(file, 0);
    log.add_record(&edit.encode()).unwrap();
    log.close().unwrap();
    std::fs::write(dir.join("CURRENT"), "MANIFEST-000001\n").unwrap();
    let said = doctor(&dir);
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(
        said.out.contains("printf 'MANIFEST-000044\\n'"),
        "{}",
        said.out
    );
    std::fs::write(dir.join("CURRENT"), "MANIFEST-000044\n").unwrap();
    assert_eq!(db("get", &dir, &["flushed"]).ok(), "1\n");
}

#[test]
fn a_log_that_the_manifest_expects_and_that_is_gone_is_told() {
    let temp = TempDir::new("cli lost log");
    // A log of RocksDB.
    let case = golden_case("golden-11.8", "merge-pending");
    let dir = case.copy_to(temp.join("case"));
    std::fs::write(dir.join("LOCK"), "").unwrap();
    assert_eq!(doctor(&dir).code, Some(0));
    assert!(remove(&dir, ".log") > 0);
    let said = doctor(&dir);
    assert_eq!(said.code, Some(1), "{}", said.out);
    assert!(
        said.out
            .contains("says that this log or a later one is needed"),
        "{}",
        said.out
    );
    assert!(
        said.out.contains("opens without some of its contents"),
        "{}",
        said.out
    );
    let said = db("verify", &dir, &[]);
    assert_eq!(said.code, Some(1), "{}", said.out);
    assert!(
        said.out.contains("this log or a later one is needed"),
        "{}",
        said.out
    );
    assert!(
        db("info", &dir, &[])
            .out
            .contains("this log or a later one is needed")
    );
    // Of a copy that nobody has had open it is a remark: it may have been made after a flush.
    std::fs::remove_file(dir.join("LOCK")).unwrap();
    let said = db("verify", &dir, &[]);
    assert_eq!(said.code, Some(0), "{}", said.out);
    assert!(
        said.out.contains("note: ") && said.out.contains("checkpoint or backup"),
        "{}",
        said.out
    );
    assert_eq!(doctor(&dir).code, Some(0));
}

#[test]
fn what_can_be_checked_is_checked_before_anything_is_opened_for_writing() {
    let temp = TempDir::new("cli checked first");
    let dir = temp.join("db");
    make(&dir);
    let before = contents(&dir);
    let at = |name: &str| temp.join(name).display().to_string();
    std::fs::write(temp.join("no.sst"), "no table").unwrap();
    std::fs::create_dir(temp.join("there")).unwrap();
    let (table, gone, there) = (at("no.sst"), at("gone.sst"), at("there"));
    for (verb, rest) in [
        ("set-options", &["write_bufer_size=1M"][..]),
        ("set-options", &["write_buffer_size=many"]),
        ("set-options", &["--database", "max_open_filez=7"]),
        ("ingest", &[&table]),
        ("ingest", &[&gone]),
        ("checkpoint", &[&there]),
        ("compact-files", &["--level", "1", "777"]),
    ] {
        let err = db(verb, &dir, rest).fails(1);
        assert!(err.contains("next:  "), "{verb}: {err}");
        assert!(contents(&dir) == before, "{verb} {rest:?}: {err}");
    }
    let order = spanlith::Comparator::ReverseBytewise;
    let made = Db::builder(&dir)
        .family(FamilyOptions::new("default"))
        .open()
        .unwrap();
    let down = FamilyOptions::new("down").comparator(order);
    drop(made.create_cf(down).unwrap());
    made.close().unwrap();
    let table = at("up.sst");
    let input = temp.join("input");
    std::fs::write(&input, "a\t1\nb\t2\n").unwrap();
    run([
        "sst",
        "write",
        "--db",
        dir.to_str().unwrap(),
        &table,
        input.to_str().unwrap(),
    ]);
    assert!(Path::new(&table).exists());
    let before = contents(&dir);
    let err = db("ingest", &dir, &["--cf", "down", &table]).fails(1);
    assert!(err.contains("its keys are in the order"), "{err}");
    assert!(contents(&dir) == before);
    db("ingest", &dir, &[&table]).ok();
}
