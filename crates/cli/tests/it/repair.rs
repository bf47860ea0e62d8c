//! `db repair`: a directory without CURRENT and MANIFEST becomes a database again.

use crate::support::{contents, db, run};
use serde_json::Value;
use spanlith::{Db, FamilyOptions};
use spanlith_testkit::{TempDir, test_name};
use std::path::Path;

fn make(dir: &Path) {
    let db = Db::open(dir).unwrap();
    let other = db.create_cf(FamilyOptions::new("other")).unwrap();
    let cf = db.default_cf();
    cf.put("a", "in a table").unwrap();
    other.put("b", "in a table, too").unwrap();
    db.flush(true).unwrap();
    cf.put("c", "in the log").unwrap();
    db.close().unwrap();
}

fn lose_manifest(dir: &Path) {
    for name in contents(dir).into_keys() {
        if name == "CURRENT" || name.starts_with("MANIFEST") {
            std::fs::remove_file(dir.join(name)).unwrap();
        }
    }
}

#[test]
fn a_dry_run_shows_what_a_repair_does_and_changes_nothing() {
    let temp = TempDir::new(test_name!());
    let dir = temp.join("db");
    make(&dir);
    lose_manifest(&dir);
    let before = contents(&dir);
    let dry = db("repair", &dir, &["--dry-run", "--json"]).ok();
    assert!(before == contents(&dir));
    let done = db("repair", &dir, &["--json"]).ok();
    let [dry, done]: [Value; 2] = [dry, done].map(|text| serde_json::from_str(&text).unwrap());
    assert_eq!(
        (&dry["dry_run"], &done["dry_run"]),
        (&true.into(), &false.into())
    );
    for (name, value) in [
        ("tables", 3.into()),
        ("without_manifest", true.into()),
        ("families", serde_json::json!(["default", "other"])),
        ("missing", serde_json::json!([])),
    ] {
        assert_eq!((&dry[name], &done[name]), (&value, &value), "{name}");
    }
    assert_eq!(dry["lost"], done["lost"]);
    let lost = done["lost"].as_array().unwrap();
    assert!(lost.iter().all(|f| f["is_loss"] == false), "{lost:?}");
    let rows = "a\tin a table\nc\tin the log\n";
    assert_eq!(db("scan", &dir, &[]).ok(), rows);
    assert_eq!(
        db("scan", &dir, &["--cf", "other"]).ok(),
        "b\tin a table, too\n"
    );
    let path = dir.to_str().unwrap();
    let said = run(["doctor", "--db", path]).ok();
    assert!(said.contains("healthy"), "{said}");
    let again = db("repair", &dir, &[]).ok();
    assert!(again.contains("3 tables in 2 column families"), "{again}");
    assert_eq!(db("scan", &dir, &[]).ok(), rows);
}

#[test]
fn what_is_no_database_is_not_made_one() {
    let temp = TempDir::new(test_name!());
    let dir = temp.join("db");
    std::fs::create_dir(&dir).unwrap();
    let said = db("repair", &dir, &[]).fails(1);
    assert!(said.contains("no MANIFEST, no table and no log"), "{said}");
    assert!(contents(&dir).is_empty());
}
