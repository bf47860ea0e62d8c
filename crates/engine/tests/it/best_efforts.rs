//! Best-efforts recovery of directories of RocksDB 11.8.1 with files taken away or damaged
//! (`fixtures/best-efforts`): the same rows, and the same tables left, as RocksDB had.

use spanlith::options::{CfOptions, DbOptions};
use spanlith::{Db, FamilyOptions, OpenBuilder};
use spanlith_testkit::{TempDir, copy_dir, fixtures_dir};
use std::path::Path;

/// One operation: `rm:FILE`, `cut:FILE:SIZE` (negative: bytes less), `flip:FILE:OFFSET`,
/// `put:FILE:TEXT`, `copy:FROM:TO`, `none`.
fn damage(dir: &Path, operation: &str) {
    let parts: Vec<&str> = operation.split(':').collect();
    let path = dir.join(parts.get(1).unwrap_or(&""));
    let read = || std::fs::read(&path).unwrap();
    match parts[..] {
        ["none"] => {}
        ["rm", _] => std::fs::remove_file(&path).unwrap(),
        ["cut", _, size] => {
            let size: i64 = size.parse().unwrap();
            let mut bytes = read();
            let size = if size < 0 {
                bytes.len() as i64 + size
            } else {
                size
            };
            bytes.truncate(size as usize);
            std::fs::write(&path, bytes).unwrap();
        }
        ["flip", _, offset] => {
            let mut bytes = read();
            bytes[offset.parse::<usize>().unwrap()] ^= 1;
            std::fs::write(&path, bytes).unwrap();
        }
        ["put", _, text] => std::fs::write(&path, text).unwrap(),
        ["copy", _, to] => drop(std::fs::copy(&path, dir.join(to)).unwrap()),
        _ => panic!("{operation}"),
    }
}

fn quiet() -> CfOptions {
    let mut o = CfOptions::default();
    o.disable_auto_compactions = true;
    o
}

fn builder(dir: &Path, families: &[&str], create: bool) -> OpenBuilder {
    let mut options = DbOptions::default();
    options.best_efforts_recovery = true;
    options.create_if_missing = create;
    let builder = Db::builder(dir).options(options);
    families.iter().fold(builder, |b, name| {
        b.family(FamilyOptions::new(*name).options(quiet()))
    })
}

fn rows(db: &Db, families: &[&str]) -> spanlith::Result<String> {
    let mut all = Vec::new();
    for name in families {
        let mut rows = Vec::new();
        for entry in db.cf(name).unwrap().iter() {
            let (key, value) = entry?;
            let text = [key.as_ref(), value.as_ref()].map(String::from_utf8_lossy);
            rows.push(text.join("="));
        }
        all.push(rows.join(","));
    }
    Ok(format!("rows {}", all.join(" | ")))
}

fn tables(dir: &Path) -> String {
    let names = std::fs::read_dir(dir).unwrap();
    let names = names.map(|e| e.unwrap().file_name().into_string().unwrap());
    let mut tables: Vec<String> = names.filter(|n| n.ends_with(".sst")).collect();
    tables.sort();
    tables.join(" ")
}

/// Returns what an error is, as RocksDB words it.
fn kind(error: &spanlith::Error) -> String {
    error.to_string().split(':').next().unwrap().to_string()
}

struct Case {
    base: String,
    damage: String,
    families: Vec<String>,
    create: bool,
    outcome: String,
    tables: String,
}

fn cases() -> Vec<Case> {
    let path = fixtures_dir().join("best-efforts/outcomes-11.8.tsv");
    let text = std::fs::read_to_string(path).unwrap();
    let lines = text.lines().skip(1);
    let case = |line: &str| {
        let fields: Vec<&str> = line.split('\t').collect();
        let [base, damage, options, outcome, tables] = fields[..] else {
            panic!("{line}");
        };
        let usual: &[&str] = match base {
            "families" | "atomic" => &["default", "one", "two"],
            _ => &["default"],
        };
        let families = match options.strip_prefix("cfs=") {
            Some(names) => names.split(',').map(str::to_string).collect(),
            None => usual.iter().map(|n| n.to_string()).collect(),
        };
        Case {
            base: base.to_string(),
            damage: damage.to_string(),
            families,
            create: options == "create",
            outcome: outcome.to_string(),
            tables: tables.to_string(),
        }
    };
    lines.map(case).collect()
}

/// Returns what this build makes of a case: rows or error, and the tables left.
fn outcome(case: &Case, dir: &Path) -> (String, String) {
    copy_dir(fixtures_dir().join("best-efforts").join(&case.base), dir);
    case.damage.split(' ').for_each(|d| damage(dir, d));
    let families: Vec<&str> = case.families.iter().map(String::as_str).collect();
    let db = match builder(dir, &families, case.create).open() {
        Ok(db) => db,
        Err(e) => return (format!("error {}", kind(&e)), String::new()),
    };
    let first = match rows(&db, &families) {
        Ok(rows) => rows,
        Err(e) => return (format!("read {}", kind(&e)), tables(dir)),
    };
    // The recovered entries stay, with those written from then on, and need no best efforts.
    let last = families[families.len() - 1];
    db.cf(last).unwrap().put("zz", "new").unwrap();
    db.close().unwrap();
    let left = tables(dir);
    let plain = families.iter().fold(Db::builder(dir), |b, name| {
        b.family(FamilyOptions::new(*name).options(quiet()))
    });
    let db = plain.open().unwrap();
    let again = rows(&db, &families).unwrap();
    let comma = if first.ends_with(' ') { "" } else { "," };
    assert_eq!(again, format!("{first}{comma}zz=new"));
    (first, left)
}

#[test]
fn damaged_directories_recover_to_what_rocksdb_makes_of_them() {
    crate::suite_disk::needs_log_files(
        "a best-efforts recovery without CURRENT is refused with a speed disk",
    );
    let wrong = |(n, case): (usize, &Case)| {
        let temp = TempDir::new("best-efforts");
        let (got, left) = outcome(case, &temp.path().join(format!("case{n}")));
        let same = (&got, &left) == (&case.outcome, &case.tables);
        (!same).then(|| {
            format!(
                "{} {}: {got} [{left}], RocksDB: {} [{}]",
                case.base, case.damage, case.outcome, case.tables
            )
        })
    };
    // Several at a time: opens wait for the disk.
    let cases = cases();
    assert_eq!(cases.len(), 76);
    let numbered: Vec<(usize, &Case)> = cases.iter().enumerate().collect();
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let parts = numbered.chunks(10);
        let threads = parts.map(|p| {
            scope.spawn(move || {
                crate::suite_disk::needs_log_files("as above");
                p.iter().copied().filter_map(wrong).collect::<Vec<String>>()
            })
        });
        let threads: Vec<_> = threads.collect();
        threads
            .into_iter()
            .flat_map(|t| t.join().unwrap())
            .collect()
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn files_that_are_left_out_are_put_aside_and_not_deleted() {
    let temp = TempDir::new("best-efforts");
    let dir = temp.path().join("db");
    copy_dir(fixtures_dir().join("best-efforts/flat"), &dir);
    std::fs::remove_file(dir.join("000011.sst")).unwrap();
    let db = builder(&dir, &["default"], false).open().unwrap();
    assert_eq!(tables(&dir), "000009.sst");
    db.close().unwrap();
    let lost = dir.join("lost");
    assert_eq!(tables(&lost), "000013.sst 000015.sst");
    assert!(lost.join("000014.log").is_file(), "logs are not replayed");
}

#[test]
fn a_read_only_open_to_best_efforts_changes_nothing() {
    let temp = TempDir::new("best-efforts");
    let dir = temp.path().join("db");
    copy_dir(fixtures_dir().join("best-efforts/flat"), &dir);
    std::fs::remove_file(dir.join("000015.sst")).unwrap();
    std::fs::remove_file(dir.join("CURRENT")).unwrap();
    let list = || std::fs::read_dir(&dir).unwrap().count();
    let before = list();
    let db = builder(&dir, &["default"], false).open_read_only().unwrap();
    assert_eq!(
        rows(&db, &["default"]).unwrap(),
        "rows k0=v0,k1=v1,k2=v2,same=s2"
    );
    drop(db);
    assert_eq!(list(), before);
}

#[test]
fn what_an_earlier_recovery_saved_keeps_its_name() {
    let temp = TempDir::new("best-efforts-twice");
    let dir = temp.path().join("db");
    copy_dir(fixtures_dir().join("best-efforts/blobs"), &dir);
    // A table that no MANIFEST names is put aside, twice under the same number.
    let stray = dir.join("000900.sst");
    for text in ["first", "second"] {
        std::fs::write(&stray, text).unwrap();
        builder(&dir, &["default"], false).open().unwrap();
        assert!(!stray.exists());
    }
    let saved = |name: &str| std::fs::read_to_string(dir.join("lost").join(name)).unwrap();
    assert_eq!(saved("000900.sst"), "first");
    assert_eq!(saved("000900.sst.1"), "second");
}
