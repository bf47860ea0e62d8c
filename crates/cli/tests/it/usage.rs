//! Bad input: exit code, message, way out; nothing made, nothing changed.

use crate::support::{contents, db, holder, run};
use spanlith_testkit::{TempDir, golden_case, test_name};
use std::path::Path;

#[test]
fn a_command_line_that_makes_no_sense_ends_with_2_and_a_hint() {
    for (args, hint) in [
        (
            &["dbb"][..],
            "some similar subcommands exist: 'blob', 'db_bench', 'db'",
        ),
        (&["db", "scn"], "a similar subcommand exists: 'scan'"),
        (
            &["db", "scan", "--limi", "--db", "x"],
            "a similar argument exists: '--limit'",
        ),
        (&["db", "scan"], "--db <DIR>"),
        (
            &["db", "get", "--db", "x", "--hex", "xyz"],
            "with --hex give an even number of digits",
        ),
        (
            &["db", "get", "--db", "x", "0xz"],
            "for the text itself write",
        ),
        (&["db", "get", "--db", "x", "a\\q"], "escapes are"),
        (
            &["db", "get", "--db", "x", "--comparator", "mine", "k"],
            "known: bytewise, reverse",
        ),
        (
            &["db", "get", "--db", "x", "--merge-operator", "mine", "k"],
            "known: uint64add",
        ),
        (&["bench", "readrandm"], "did you mean readrandom?"),
        (&["bench"], "for example: spanlith bench fillrandom"),
        (&["bench", "fillseq", "--num", "0"], "--help"),
        (&["bench", "fillseq", "--rate", "0"], "--help"),
        (&["bench", "ycsbg"], "did you mean ycsb"),
        (&["bench", "ycsba", "--distribution", "zipf"], "zipfian"),
        (
            &["bench", "fillseq", "--options", "nonsense=1"],
            "--options takes",
        ),
        (&[], "Examples:"),
    ] {
        let err = run(args).fails(2);
        assert!(err.contains(hint), "{args:?}: {err}");
    }
}

#[test]
fn help_teaches_by_examples() {
    for args in [
        &["--help"][..],
        &["db", "--help"],
        &["bench", "--help"],
        &["tour", "--help"],
        &["find", "--help"],
        &["doctor", "--help"],
        &["compat", "--help"],
        &["shell", "--help"],
        &["top", "--help"],
        &["sst", "--help"],
        &["wal", "--help"],
        &["manifest", "--help"],
        &["blob", "--help"],
        &["options", "--help"],
        &["trace", "--help"],
        &["stress", "--help"],
        &["stress", "kill", "--help"],
        &["db", "backup", "--help"],
        &["db", "restore", "--help"],
    ] {
        let help = run(args).ok();
        assert!(help.contains("Examples:"), "{args:?}: {help}");
        assert!(!help.contains("crash-writer"), "{args:?}: {help}");
    }
    assert!(run(["--version"]).ok().starts_with("spanlith "));
}

#[test]
fn a_directory_without_a_database_is_left_alone() {
    let temp = TempDir::new("cli none");
    let missing = temp.join("missing");
    let empty = temp.join("empty");
    std::fs::create_dir(&empty).unwrap();
    std::fs::write(temp.join("file"), "text").unwrap();
    for verb in [
        &["get", "k"][..],
        &["scan"],
        &["count"],
        &["info"],
        &["verify"],
        &["put", "k", "v"],
    ] {
        for dir in [&missing, &empty] {
            let err = db(verb[0], dir, &verb[1..]).fails(1);
            assert!(
                err.contains("next:  there is no database in"),
                "{verb:?}: {err}"
            );
            assert!(err.contains("put --create --db"), "{verb:?}: {err}");
        }
        let err = db(verb[0], &temp.join("file"), &verb[1..]).fails(1);
        assert!(err.contains("next:  "), "{verb:?}: {err}");
    }
    assert!(!missing.exists());
    assert!(
        contents(&empty).keys().all(|n| n == "LOCK"),
        "{:?}",
        contents(&empty).keys()
    );
    let err = db("put", &temp.join("file/db"), &["--create", "k", "v"]).fails(1);
    assert!(err.starts_with("error: IO error: "), "{err}");
}

#[test]
fn a_wrong_comparator_is_refused_and_the_right_one_found() {
    let temp = TempDir::new("cli comparator");
    let dir = golden_case("golden-11.8", "default").copy_to(temp.join("case"));
    let err = db("scan", &dir, &["--comparator", "reverse"]).fails(1);
    let text = "error: Invalid argument: rocksdb.ReverseBytewiseComparator: does not match existing \
                comparator leveldb.BytewiseComparator";
    assert!(err.starts_with(text), "{err}");
    assert!(err.contains("next:  leave --comparator out"), "{err}");

    let own = temp.join("own");
    db(
        "put",
        &own,
        &["--create", "--comparator", "reverse", "a", "1"],
    )
    .ok();
    db("put", &own, &["b", "2"]).ok();
    assert_eq!(db("scan", &own, &[]).ok(), "b\t2\na\t1\n");
    let err = db("scan", &own, &["--cf", "no"]).fails(1);
    assert!(err.contains("Column family not found: no"), "{err}");
    assert!(err.contains("families of this database: default"), "{err}");
}

#[test]
fn the_process_that_holds_the_lock_is_named_and_reading_goes_on() {
    let temp = TempDir::new("cli lock");
    let dir = temp.join("db");
    db("put", &dir, &["--create", "a", "1"]).ok();
    let path = dir.to_str().unwrap();
    let load = ["db", "load", "--batch-size", "1", "--db", path];
    let (mut holder, input) = holder(load, || db("get", &dir, &["b"]));
    let err = db("put", &dir, &["c", "3"]).fails(1);
    assert!(
        err.starts_with("error: IO error: While lock file: "),
        "{err}"
    );
    let named = format!("next:  process {} has the database open", holder.id());
    assert!(err.contains(&named), "{err}");
    assert_eq!(db("scan", &dir, &[]).ok(), "a\t1\nb\t2\n");
    drop(input);
    assert!(holder.wait().unwrap().success());
    db("put", &dir, &["c", "3"]).ok();
}

#[test]
fn a_truncated_directory_fails_with_the_file_and_the_next_command() {
    let temp = TempDir::new("cli truncated");
    let case = golden_case("golden-11.8", "default");
    for (n, name) in ["CURRENT", "MANIFEST-000005", "000012.sst", "000014.sst"]
        .iter()
        .enumerate()
    {
        let dir = case.copy_to(temp.join(n.to_string()));
        let file = dir.join(name);
        let bytes = std::fs::read(&file).unwrap();
        std::fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();
        let before = contents(&dir);
        let err = db("scan", &dir, &[]).fails(1);
        assert!(err.starts_with("error: Corruption: "), "{name}: {err}");
        assert!(
            err.contains("next:  spanlith db verify --db "),
            "{name}: {err}"
        );
        assert!(contents(&dir) == before, "{name}");
    }
}

#[test]
fn what_makes_no_sense_changes_nothing() {
    let temp = TempDir::new(test_name!());
    let (dir, new) = (temp.join("db"), temp.join("new"));
    db("put", &dir, &["--create", "k", "v"]).ok();
    db("flush", &dir, &[]);
    let before = contents(&dir);
    let words = temp.join("words");
    std::fs::write(&words, "no tab here\n").unwrap();
    let words = words.to_str().unwrap();
    let refused = |verb: &str, dir: &Path, rest: &[&str], code: i32, text: &str| {
        let err = db(verb, dir, rest).fails(code);
        assert!(
            err.contains(text) && err.contains("next:  "),
            "{verb} {rest:?}: {err}"
        );
    };
    refused("load", &new, &["--create", words], 1, "line 1: no tab");
    refused(
        "load",
        &new,
        &["--create", "--dump", words],
        1,
        "nothing was written",
    );
    assert!(!new.exists());
    refused("load", &dir, &[words], 1, "nothing was written");
    refused(
        "compact",
        &dir,
        &["--from", "z", "--to", "a"],
        2,
        "--from lies behind --to",
    );
    refused(
        "compact-files",
        &dir,
        &["--level", "1", "99"],
        1,
        "table 99 is not in family",
    );
    refused(
        "options",
        &dir,
        &["nonsense"],
        1,
        "no option has 'nonsense'",
    );
    refused(
        "get",
        Path::new(words),
        &["k"],
        1,
        "takes the directory of a database",
    );
    assert!(contents(&dir) == before);
    refused("set-options", &dir, &["nonsense=1"], 1, "db options --db ");
    let tour = run(["tour", "--dir", dir.to_str().unwrap()]).fails(1);
    assert!(
        tour.contains("is not empty") && !tour.contains("rm -r"),
        "{tour}"
    );
}

#[test]
fn own_options_are_set_and_listed_by_name() {
    let temp = TempDir::new(test_name!());
    let dir = temp.join("db");
    let set = [
        "--create",
        "--set",
        "witness_spacing=4k",
        "--set",
        "min_free_bytes=5",
    ];
    db("put", &dir, &[&set[..], &["a", "b"]].concat()).ok();
    let out = db("options", &dir, &["--own", "--changed"]).ok();
    let lines: Vec<&str> = out.lines().filter(|l| !l.starts_with(' ')).collect();
    let wanted = [
        "database\t* witness_spacing=4096",
        "database\t* min_free_bytes=5, may be changed while open",
    ];
    assert_eq!(lines, wanted, "{out}");
    // Later opens keep what the file says, and a change while open is recorded.
    db("set-options", &dir, &["--database", "min_free_bytes=6"]).ok();
    let out = db("options", &dir, &["--own", "free", "--json"]).ok();
    let object: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (&object["value"], &object["default"]),
        (&"6".into(), &"0".into())
    );
    let out = run(["db", "options", "--own"]).ok();
    assert!(out.contains("witness_spacing=8192"), "{out}");
    let err = db("put", &dir, &["--set", "witnes_spacing=1", "a", "b"]).fails(2);
    assert!(err.contains("the nearest name is witness_spacing"), "{err}");
    for verb in [
        &["bench", "fillseq", "--num", "10"][..],
        &["stress", "run", "--ops", "50", "--real", "0"],
    ] {
        let err = run([verb, &["--set", "evidense=false"]].concat()).fails(2);
        assert!(err.contains("the nearest name is evidence"), "{err}");
        run([verb, &["--set", "evidence=false"]].concat()).ok();
    }
}
