//! Verbs that take data out of a database as files, and bring it in as files.

use crate::support::{contents, run, run_with_input};
use serde_json::Value;
use spanlith_testkit::{TempDir, test_name};

/// Lines of keys in a range, with values.
fn lines(keys: std::ops::Range<u32>) -> String {
    keys.map(|k| format!("key{k:04}\tvalue {k}\n")).collect()
}

fn json(text: &str) -> Vec<Value> {
    let lines = text.lines().map(serde_json::from_str);
    lines.collect::<Result<_, _>>().unwrap()
}

#[test]
fn backups_are_made_listed_verified_restored_and_deleted() {
    let temp = TempDir::new(test_name!());
    let (db, backups, to) = (temp.join("db"), temp.join("backups"), temp.join("to"));
    let [db, backups, to] = [&db, &backups, &to].map(|p| p.to_str().unwrap());
    run_with_input(
        ["db", "load", "--create", "--db", db, "--json"],
        lines(0..300).as_bytes(),
    )
    .ok();
    let create = ["db", "backup", "create", "--db", db, backups];
    let said = run(create.iter().copied().chain(["--note", "the first"])).ok();
    assert!(said.starts_with("backup 1: "), "{said}");
    run(["db", "put", "--db", db, "later", "yes"]).ok();
    let said = run(create.iter().copied().chain(["--flush", "--json"])).ok();
    assert_eq!(json(&said)[0]["id"], 2, "{said}");

    let list = json(&run(["db", "backup", "list", backups, "--json"]).ok());
    assert_eq!(
        (&list[0]["note"], &list[0]["sequence"]),
        (&"the first".into(), &300.into())
    );
    let said = run(["db", "backup", "list", backups]).ok();
    assert!(said.contains("UTC, sequence number 300, "), "{said}");
    let said = run(["db", "backup", "verify", backups, "--checksums"]).ok();
    assert_eq!(said, "backup 1: ok\nbackup 2: ok\n");

    let restore = ["db", "restore", "--from", backups, "--db", to];
    let count = || run(["db", "count", "--db", to]).ok();
    run(restore.iter().copied().chain(["--id", "1"])).ok();
    assert_eq!(count(), "300\n");
    let said = run(restore.iter().copied().chain(["--keep-same", "--json"])).ok();
    assert_eq!(json(&said)[0]["id"], 2, "{said}");
    assert_eq!(count(), "301\n");

    // A changed byte is found, named and not restored; what was there stays.
    let before = contents(to.as_ref());
    let dir = std::fs::read_dir(temp.join("backups/private/2")).unwrap();
    let mut paths = dir.map(|e| e.unwrap().path());
    let is_manifest = |p: &std::path::PathBuf| p.to_string_lossy().contains("MANIFEST");
    let manifest = paths.find(is_manifest).unwrap();
    let mut bytes = std::fs::read(&manifest).unwrap();
    bytes[20] ^= 1;
    std::fs::write(&manifest, bytes).unwrap();
    let verified = run(["db", "backup", "verify", backups, "--checksums"]);
    assert_eq!(verified.code, Some(1));
    assert!(
        verified
            .out
            .contains("backup 2: not ok: Corruption: File corrupted: Checksum mismatch for "),
        "{}",
        verified.out
    );
    // In the place of what is there only when told to.
    let err = run(restore).fails(1);
    assert!(
        err.contains("there is a database already") && err.contains("--replace"),
        "{err}"
    );
    let err = run(restore.iter().copied().chain(["--replace"])).fails(1);
    assert!(
        err.contains("Checksum mismatch") && err.contains("says which can be restored"),
        "{err}"
    );
    assert_eq!(contents(to.as_ref()), before);

    let said = run(["db", "backup", "delete", backups, "2", "--json"]).ok();
    assert_eq!(json(&said)[0]["left"], serde_json::json!([1]));
    assert!(
        run(["db", "backup", "delete", backups, "2"])
            .fails(1)
            .contains("Backup not found")
    );
    let said = run(["db", "backup", "purge", backups, "--keep", "0"]).ok();
    assert!(said.contains("0 backups left"), "{said}");
    let err = run(["db", "backup", "list", to]).fails(1);
    assert!(err.contains("no directory of backups"), "{err}");
}

#[test]
fn tables_are_written_and_taken_in() {
    let temp = TempDir::new(test_name!());
    let (db, table) = (temp.join("db"), temp.join("bulk.sst"));
    let [db, table] = [&db, &table].map(|p| p.to_str().unwrap());
    run(["db", "put", "--create", "--db", db, "key0100", "old"]).ok();
    let write = ["sst", "write", table, "--db", db];
    let said = run_with_input(write, lines(0..200).as_bytes()).ok();
    assert!(said.contains("200 entries"), "{said}");
    assert!(
        run_with_input(write, b"a\tb\n")
            .fails(2)
            .contains("give the table a name that is free")
    );
    let said = run([
        "db",
        "ingest",
        "--db",
        db,
        "--verify-checksums",
        table,
        "--json",
    ])
    .ok();
    assert_eq!(json(&said)[0]["files"], 1);
    assert_eq!(
        run(["db", "get", "--db", db, "key0100"]).ok(),
        "value 100\n"
    );
    assert_eq!(run(["db", "count", "--db", db]).ok(), "200\n");

    // An input that cannot be a table leaves none, and a file that is none takes nothing in.
    let none = temp.join("none.sst");
    let none = none.to_str().unwrap();
    for (input, want) in [
        (
            "b\t1\na\t2\n",
            "line 2: Invalid argument: Keys must be added",
        ),
        ("a\t1\nb\n", "line 2: no tab between key and value"),
        ("", "there are no lines"),
    ] {
        let err = run_with_input(["sst", "write", none, "--db", db], input.as_bytes()).fails(1);
        assert!(
            err.contains(want) && err.contains("nothing was made"),
            "{err}"
        );
        assert!(!temp.join("none.sst").exists());
    }
    std::fs::write(none, "no table").unwrap();
    let err = run(["db", "ingest", "--db", db, table, none]).fails(1);
    assert!(
        err.contains("Corruption") && err.contains("no file was taken in"),
        "{err}"
    );
    assert_eq!(run(["db", "count", "--db", db]).ok(), "200\n");
}
