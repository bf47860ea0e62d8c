//! `find`, `top` and the verbs of `db` that describe or maintain.

use crate::support::{contents, db, run, run_with_input};
use serde_json::Value;
use spanlith_testkit::{TempDir, golden_case, test_name};
use std::path::{Path, PathBuf};

/// Five entries in a table, then an update and a deletion in the log.
fn make(temp: &TempDir) -> PathBuf {
    let dir = temp.join("db");
    let path = dir.to_str().unwrap();
    let lines: String = (1..=5).map(|n| format!("key{n}\tvalue{n}\n")).collect();
    let loaded = run_with_input(["db", "load", "--create", "--db", path], lines.as_bytes());
    assert_eq!(loaded.code, Some(0));
    db("flush", &dir, &[]).ok();
    run_with_input(["db", "load", "--db", path], b"key2\tnew\n");
    dir
}

fn json_lines(text: &str) -> Vec<Value> {
    text.lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect()
}

/// Runs a verb that must leave the directory as it is.
fn unchanged(dir: &Path, args: &[&str]) -> String {
    let before = contents(dir);
    let mut all = args.to_vec();
    all.extend(["--db", dir.to_str().unwrap()]);
    let run = run(&all);
    assert_eq!(run.code, Some(0), "{args:?}: {run:?}");
    assert!(contents(dir) == before, "{args:?} changed something");
    run.out
}

#[test]
fn find_shows_every_version_of_a_key() {
    let temp = TempDir::new(test_name!());
    let dir = make(&temp);
    let found = json_lines(&unchanged(&dir, &["find", "key2", "--json"]));
    let facts: Vec<_> = found
        .iter()
        .map(|v| {
            (
                v["sequence"].as_u64(),
                v["state"].as_str(),
                v["value"].as_str(),
            )
        })
        .collect();
    assert_eq!(
        facts,
        [
            (Some(6), Some("visible"), Some("new")),
            (Some(2), Some("hidden"), Some("value2")),
        ],
        "{found:?}"
    );
    assert!(found[0]["file"].as_str().unwrap().ends_with(".log"));
    assert_eq!(found[1]["level"], 0);
    let text = unchanged(&dir, &["find", "key2"]);
    assert!(
        text.contains("put") && text.contains("(level 0)  value2"),
        "{text}"
    );
    let none = run(["find", "nokey", "--db", dir.to_str().unwrap()]).fails(1);
    assert!(none.starts_with("nothing found: 0 tables"), "{none}");

    // Range tombstones that cover the key are versions.
    let dir = golden_case("golden-11.8", "range-tombstones").copy_to(temp.join("ranges"));
    let found = json_lines(&unchanged(&dir, &["find", "key00045", "--json"]));
    assert_eq!(found[0]["type"], "delete_range", "{found:?}");
    assert_eq!(
        (&found[0]["from"], &found[0]["to"]),
        (&"key00040".into(), &"key00060".into())
    );
    assert_eq!(
        (&found[0]["state"], &found[1]["state"]),
        (&"deletes".into(), &"covered".into()),
        "{found:?}"
    );

    // All families are searched, and timestamps do not matter.
    let dir = golden_case("golden-7.8", "multi-cf").copy_to(temp.join("families"));
    let found = json_lines(&unchanged(&dir, &["find", "shared", "--json"]));
    let families: Vec<&str> = found
        .iter()
        .map(|v| v["family"].as_str().unwrap())
        .collect();
    assert_eq!(families, ["default", "meta", "rev", "rev"], "{found:?}");
    let states: Vec<&str> = found.iter().map(|v| v["state"].as_str().unwrap()).collect();
    assert_eq!(
        states,
        ["visible", "visible", "flushed", "visible"],
        "{found:?}"
    );
    let dir = golden_case("golden-11.8", "udt-u64").copy_to(temp.join("timestamps"));
    let found = json_lines(&unchanged(&dir, &["find", "key00000", "--json"]));
    assert!(
        found.len() > 1 && found[0]["timestamp"] == "9f00000000000000",
        "{found:?}"
    );
}

/// `db space --exact` against the same entries read one by one.
fn exact_space_is_what_a_scan_yields(dir: &Path) {
    let out = unchanged(dir, &["db", "space", "--exact", "--json"]);
    let space: Value = serde_json::from_str(&out).unwrap();
    let db = spanlith::Db::builder(dir).open_read_only().unwrap();
    let rows = db.default_cf().iter().map(|e| e.unwrap());
    let (mut entries, mut bytes) = (0, 0);
    for (key, value) in rows {
        entries += 1;
        bytes += key.len() + value.len();
    }
    let family = &space["families"][0];
    assert!(entries > 0);
    assert_eq!(
        (&family["live_entries"], &family["live_bytes"]),
        (&entries.into(), &bytes.into())
    );
    let files = family["total"]["bytes"].as_u64().unwrap() as f64;
    let told = family["exact_space_amplification"].as_f64().unwrap();
    assert!((told - files / bytes as f64).abs() < 1e-9, "{family}");
}

#[test]
fn files_and_space_say_what_each_file_is() {
    let temp = TempDir::new(test_name!());
    let dir = make(&temp);
    let files = json_lines(&unchanged(&dir, &["db", "files", "--json"]));
    let listed = contents(&dir).len();
    assert_eq!(files.len(), listed, "{files:?}");
    let table = files.iter().find(|f| f["kind"] == "table").unwrap();
    assert_eq!(
        (&table["state"], &table["level"], &table["smallest_key"]),
        (&"live".into(), &0.into(), &"key1".into())
    );
    let space: Value = serde_json::from_str(&unchanged(&dir, &["db", "space", "--json"])).unwrap();
    assert_eq!(space["families"][0]["total"]["entries"], 5, "{space}");
    assert!(space["families"][0]["live_bytes"].is_null(), "nobody asked");
    exact_space_is_what_a_scan_yields(&dir);
    let total: u64 = space["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|f| f["bytes"].as_u64().unwrap())
        .sum();
    let sizes: u64 = contents(&dir).values().map(|c| c.len() as u64).sum();
    assert_eq!(total, sizes);
    std::fs::remove_file(dir.join(table["name"].as_str().unwrap())).unwrap();
    let run = db("files", &dir, &[]);
    assert_eq!(run.code, Some(1));
    assert!(run.out.contains("\tmissing\t"), "{run:?}");
}

#[test]
fn explain_follows_a_get_through_filters_and_levels() {
    let temp = TempDir::new(test_name!());
    let dir = golden_case("golden-11.8", "multi-level").copy_to(temp.join("case"));
    let first = db("scan", &dir, &["--keys-only", "--limit", "1"]).ok();
    let steps = json_lines(&unchanged(
        &dir,
        &["db", "explain", first.trim_end(), "--json"],
    ));
    assert_eq!(steps[0]["place"], "memtables");
    assert!(
        steps.iter().any(|s| s["found"]["type"] == "put"),
        "{steps:?}"
    );
    let text = unchanged(&dir, &["db", "explain", "zzz"]);
    assert!(text.contains("no table's range holds the key"), "{text}");
    let notes = json_lines(&unchanged(&dir, &["db", "explain", "--writes", "--json"]));
    assert_eq!(notes[notes.len() - 1]["kind"], "summary");
}

#[test]
fn properties_options_and_memory_are_read_without_a_change() {
    let temp = TempDir::new(test_name!());
    let dir = make(&temp);
    let text = unchanged(&dir, &["db", "properties"]);
    assert!(text.contains("rocksdb.num-files-at-level0\t1\n"), "{text}");
    assert_eq!(
        unchanged(&dir, &["db", "properties", "num-files-at-level0"]),
        "1\n"
    );
    let all: Value =
        serde_json::from_str(&unchanged(&dir, &["db", "properties", "--json"])).unwrap();
    assert!(all["rocksdb.estimate-num-keys"].is_u64(), "{all}");
    let err = db("properties", &dir, &["no-such"]).fails(2);
    assert!(err.contains("unknown property 'rocksdb.no-such'"), "{err}");
    let memory: Value =
        serde_json::from_str(&unchanged(&dir, &["db", "memory", "--json"])).unwrap();
    assert!(
        memory["memory"]["memtables"].as_u64().unwrap() > 0,
        "{memory}"
    );

    assert_eq!(
        db("set-options", &dir, &["write_buffer_size=32M"]).ok(),
        "write_buffer_size=33554432\n"
    );
    let changed = unchanged(
        &dir,
        &[
            "db",
            "options",
            "--changed",
            "--cf",
            "default",
            "write_buffer",
        ],
    );
    assert!(
        changed.ends_with("family default\t* write_buffer_size=33554432\n"),
        "{changed}"
    );
    db("set-options", &dir, &["write_buffer_size"]).fails(2);
    let err = db("set-options", &dir, &["no_such_option=1"]).fails(1);
    assert!(err.contains("no_such_option"), "{err}");
}

#[test]
fn flush_and_compactions_change_tables_and_no_contents() {
    let temp = TempDir::new(test_name!());
    let dir = make(&temp);
    let before = db("scan", &dir, &[]).ok();
    db("flush", &dir, &[]).ok();
    let files = json_lines(&db("files", &dir, &["--json"]).ok());
    let names: Vec<&str> = files
        .iter()
        .filter(|f| f["kind"] == "table")
        .map(|f| f["name"].as_str().unwrap())
        .collect();
    assert_eq!(names.len(), 2);
    let path = dir.to_str().unwrap();
    let done = run([
        "db",
        "compact-files",
        "--level",
        "4",
        "--db",
        path,
        names[0],
        names[1],
    ]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(
        done.out.contains("2 tables") && done.out.contains("-> 1 table,"),
        "{done:?}"
    );
    assert_eq!(db("scan", &dir, &[]).ok(), before);
    let done = db("compact", &dir, &["--json", "--force-bottommost"]).ok();
    assert_eq!(
        serde_json::from_str::<Value>(&done).unwrap()["tables_after"],
        1,
        "{done}"
    );
    assert_eq!(db("scan", &dir, &[]).ok(), before);
    let err = db("compact-files", &dir, &["--level", "4", "99"]).fails(1);
    assert!(err.contains("table 99 is not in family default"), "{err}");
    let to = temp.join("as-of-now");
    let made = db("checkpoint", &dir, &["--json", to.to_str().unwrap()]).ok();
    let made: Value = serde_json::from_str(&made).unwrap();
    assert!(made["files"].as_u64() > Some(4), "{made}");
    assert_eq!(db("scan", &to, &[]).ok(), before);
    let err = db("checkpoint", &dir, &[to.to_str().unwrap()]).fails(1);
    assert!(
        err.contains("as-of-now") && err.contains("Directory exists"),
        "{err}"
    );
}

#[test]
fn a_dump_of_all_families_can_be_loaded() {
    let temp = TempDir::new(test_name!());
    let dir = golden_case("golden-7.8", "multi-cf").copy_to(temp.join("case"));
    let dump = unchanged(&dir, &["db", "dump"]);
    assert!(dump.contains("@family\tmeta\n"), "{dump}");
    assert!(
        dump.contains("@family\trev\trocksdb.ReverseBytewiseComparator\n"),
        "{dump}"
    );
    let copy = temp.join("copy");
    let path = copy.to_str().unwrap();
    let text = format!("{dump}@family\todd name\n\\x40family\tdefault\n");
    let loaded = run_with_input(
        ["db", "load", "--dump", "--create", "--db", path],
        text.as_bytes(),
    );
    assert_eq!(loaded.code, Some(0), "{loaded:?}");
    assert!(unchanged(&copy, &["db", "dump"]) == text);
    assert_eq!(
        db("get", &copy, &["--cf", "odd name", "\\x40family"]).ok(),
        "default\n"
    );
    let file = temp.join("dump.tsv");
    let done = run(["db", "dump", "--db", path, file.to_str().unwrap()]);
    assert_eq!(done.code, Some(0));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
    run(["db", "dump", "--db", path, file.to_str().unwrap()]).fails(1);
}

#[test]
fn top_describes_a_database_that_another_process_has_open() {
    let temp = TempDir::new(test_name!());
    let dir = make(&temp);
    let path = dir.to_str().unwrap();
    let look = unchanged(&dir, &["top", "--once"]);
    assert!(look.contains("nobody has it open"), "{look}");
    assert!(look.contains("\n  L0               1 "), "{look}");
    let looks = json_lines(&unchanged(
        &dir,
        &["top", "--json", "--looks", "2", "--interval", "0.01"],
    ));
    assert_eq!(looks.len(), 2);
    assert!(
        looks[0]["per_second"].is_null() && looks[1]["per_second"].is_object(),
        "{looks:?}"
    );
    let db = spanlith::Db::open(&dir).unwrap();
    db.default_cf().put("more", "x").unwrap();
    let look = run(["top", "--once", "--json", "--db", path]).ok();
    let look: Value = serde_json::from_str(&look).unwrap();
    if cfg!(target_os = "linux") {
        assert_eq!(look["process"]["pid"], std::process::id(), "{look}");
    }
    drop(db);
    run(["top", "--db", path, "--interval", "0"]).fails(2);
}

#[test]
fn compat_names_the_releases_and_what_decides() {
    let temp = TempDir::new(test_name!());
    let compat = |dir: &Path| -> Value {
        serde_json::from_str(&unchanged(dir, &["compat", "--json", "--deep"])).unwrap()
    };
    let old = golden_case("golden-7.8", "default").copy_to(temp.join("old"));
    let found = compat(&old);
    assert_eq!(
        (&found["oldest"], &found["before"]),
        (&"6.27".into(), &Value::Null),
        "{found}"
    );
    assert_eq!(found["written_by"], "7.8.3");
    let new = golden_case("golden-11.8", "default").copy_to(temp.join("new"));
    let found = compat(&new);
    assert_eq!(found["oldest"], "10.4", "{found}");
    let text = unchanged(&new, &["compat", "--require", "11.8.1"]);
    assert!(
        text.contains("* >= 10.4   tables of format version 7: "),
        "{text}"
    );
    assert!(text.ends_with("RocksDB 11.8 can open it\n"), "{text}");
    let path = new.to_str().unwrap();
    let refused = run(["compat", "--require", "7.8", "--db", path]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    run(["compat", "--require", "x", "--db", path]).fails(2);
    let blobs = golden_case("golden-7.8", "blob").copy_to(temp.join("blobs"));
    let found = compat(&blobs);
    assert!(
        found["bounds"]
            .as_array()
            .unwrap()
            .iter()
            .any(|b| b["from"] == "6.18"),
        "{found}"
    );
}

#[test]
fn the_shell_reads_and_writes_only_if_asked() {
    let temp = TempDir::new(test_name!());
    let dir = make(&temp);
    let shell = |args: &[&str], input: &str| {
        let mut all = vec!["shell", "--db", dir.to_str().unwrap()];
        all.extend(args);
        run_with_input(all, input.as_bytes())
    };
    let before = contents(&dir);
    let read = shell(
        &[],
        "get key1\nget 'no such'\nscan key2 key4\ncount\nfamilies\nscan key1 key5 1\nhelp\nquit\nput a b\n",
    );
    assert!(contents(&dir) == before);
    assert_eq!(read.code, Some(0), "{read:?}");
    let expected = "value1\nkey2\tnew\nkey3\tvalue3\n5\ndefault\nkey1\tvalue1\nget KEY ";
    assert!(read.out.starts_with(expected), "{read:?}");
    assert!(read.err.starts_with("no entry\n… more; scan"), "{read:?}");
    let narrow = |l: &str| l.chars().count() <= 80;
    assert!(read.out.lines().all(narrow), "{read:?}");
    let json = shell(
        &["--json"],
        "get key1\nget none\nscan key2 key3\ncount\nstats\n",
    )
    .ok();
    let lines: Vec<Value> = json
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    assert_eq!(lines[0]["value"], "value1");
    assert_eq!(
        (&lines[1]["found"], &lines[1]["value"]),
        (&Value::from(false), &Value::Null)
    );
    assert_eq!(
        (&lines[2]["key"], &lines[3]["count"]),
        (&Value::from("key2"), &Value::from(5))
    );
    assert_eq!(
        (&lines[4]["family"], lines.len()),
        (&Value::from("default"), 5)
    );
    let refused = shell(&[], "put a b\n");
    assert!(
        refused.err.contains("spanlith shell --write --db "),
        "{refused:?}"
    );
    refused.fails(1);
    shell(&[], "scann\n").fails(2);
    let short = shell(&[], "get\n").fails(2);
    assert!(short.contains("next:  get KEY;"), "{short}");
    let written = shell(&["--write"], "put 'a b' c\ndelete key1\nget 'a b'\nstats\n");
    assert_eq!(written.code, Some(0), "{written:?}");
    assert!(
        written.out.starts_with("c\ndefault: about ") && written.err == "ok\nok\n",
        "{written:?}"
    );
    assert_eq!(db("get", &dir, &["a b"]).ok(), "c\n");

    let dir = golden_case("golden-7.8", "multi-cf").copy_to(temp.join("families"));
    let path = dir.to_str().unwrap();
    let used = run_with_input(["shell", "--db", path], b"use meta\nget shared\nuse nope\n");
    assert_eq!(
        (used.code, used.out.as_str()),
        (Some(1), "in-meta\n"),
        "{used:?}"
    );
}
