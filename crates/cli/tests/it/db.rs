//! Round trips through the verbs of `db`.

use crate::support::{contents, db, run, run_with_input};
use serde_json::Value;
use spanlith_testkit::{Rng, TempDir, adversarial_keys, hex, seed, test_name};

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

#[test]
fn what_is_put_can_be_got_and_deleted() {
    let temp = TempDir::new("cli points");
    let dir = temp.join("db");
    db("put", &dir, &["--create", "language", "Rust"]).ok();
    db("put", &dir, &["--sync", "zero\\x00", "0x00ff"]).ok();
    db("put", &dir, &["-minus", ""]).ok();
    db("put", &dir, &["--hex", "00ff", "0a"]).ok();
    assert_eq!(db("get", &dir, &["language"]).ok(), "Rust\n");
    assert_eq!(db("get", &dir, &["zero\\x00"]).ok(), "\\x00\\xff\n");
    assert_eq!(db("get", &dir, &["--hex", "7a65726f00"]).ok(), "00ff\n");
    assert_eq!(db("get", &dir, &["-minus"]).ok(), "\n");
    let all = "\\x00\\xff\t\\n\n-minus\t\nlanguage\tRust\nzero\\x00\t\\x00\\xff\n";
    assert_eq!(db("scan", &dir, &[]).ok(), all);
    db("delete", &dir, &["language"]).ok();
    db("delete", &dir, &["never there"]).ok();
    let missing = db("get", &dir, &["language"]);
    assert!(
        missing.err.starts_with("NotFound: no entry for language; "),
        "{missing:?}"
    );
    assert_eq!((missing.code, missing.out.as_str()), (Some(1), ""));
    assert_eq!(db("count", &dir, &[]).ok(), "3\n");
    let found = json(&db("get", &dir, &["--json", "--hex", "00ff"]).ok());
    assert_eq!(
        (&found["found"], &found["value"]),
        (&Value::from(true), &serde_json::json!({ "hex": "0a" }))
    );
    let missing = db("get", &dir, &["--json", "no"]);
    assert_eq!(
        (missing.code, json(&missing.out)["found"].as_bool()),
        (Some(1), Some(false))
    );
}

#[test]
fn a_scan_keeps_to_its_range_in_both_directions() {
    let temp = TempDir::new("cli range");
    let dir = temp.join("db");
    let lines: String = (0..10).map(|n| format!("k{n}\tv{n}\n")).collect();
    let load = run_with_input(
        ["db", "load", "--create", "--db", dir.to_str().unwrap()],
        lines.as_bytes(),
    );
    assert!(
        load.code == Some(0) && load.err.starts_with("10 entries loaded"),
        "{load:?}"
    );
    let keys = |rest: &[&str]| db("scan", &dir, &[&["--keys-only"], rest].concat()).ok();
    assert_eq!(keys(&["--from", "k3", "--to", "k6"]), "k3\nk4\nk5\n");
    assert_eq!(
        keys(&["--from", "k3", "--to", "k6", "--reverse"]),
        "k5\nk4\nk3\n"
    );
    assert_eq!(keys(&["--from", "k8", "--limit", "1"]), "k8\n");
    assert_eq!(keys(&["--reverse", "--limit", "2"]), "k9\nk8\n");
    assert_eq!(keys(&["--hex", "--from", "6b39"]), "6b39\n");
    for empty in [
        ["--from", "k6", "--to", "k3"],
        ["--from", "k3", "--to", "k3"],
    ] {
        assert_eq!(keys(&empty), "");
        assert_eq!(keys(&[&empty[..], &["--reverse"]].concat()), "");
        assert_eq!(db("count", &dir, &empty).ok(), "0\n");
    }
    assert_eq!(keys(&["--limit", "0"]), "");
    assert_eq!(db("count", &dir, &["--from", "k5"]).ok(), "5\n");
    let line = db("scan", &dir, &["--json", "--limit", "1"]).ok();
    assert_eq!(line, "{\"key\":\"k0\",\"value\":\"v0\"}\n");
}

#[test]
fn what_a_scan_prints_can_be_loaded_again() {
    let temp = TempDir::new("cli load");
    let mut rng = Rng::new(seed(test_name!()));
    let mut entries: Vec<(Vec<u8>, Vec<u8>)> = adversarial_keys()
        .into_iter()
        .filter(|k| k.len() < 10_000)
        .map(|k| (k.clone(), k))
        .collect();
    for _ in 0..3000 {
        let key = rng.index(12);
        let value = rng.index(300);
        entries.push((rng.bytes(key), rng.bytes(value)));
    }
    let input: String = entries
        .iter()
        .map(|(k, v)| format!("{}\t{}\n", hex(k), hex(v)))
        .collect();
    let (first, second) = (temp.join("first"), temp.join("second"));
    let file = temp.join("input.tsv");
    std::fs::write(&file, &input).unwrap();
    let load = db(
        "load",
        &first,
        &["--create", "--hex", "--json", file.to_str().unwrap()],
    )
    .ok();
    assert_eq!(json(&load)["entries"], entries.len());
    let scan = db("scan", &first, &["--hex"]).ok();
    let mut expected: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    for (key, value) in entries {
        expected.retain(|e| e.0 != key);
        expected.push((key, value));
    }
    expected.sort();
    let expected: String = expected
        .iter()
        .map(|(k, v)| format!("{}\t{}\n", hex(k), hex(v)))
        .collect();
    assert!(scan == expected, "the scan differs from the model");
    for form in [&["--hex"][..], &[]] {
        let text = db("scan", &first, form).ok();
        let args = [
            "db",
            "load",
            "--create",
            "--batch-size",
            "7",
            "--db",
            second.to_str().unwrap(),
        ];
        let load = run_with_input(args.iter().chain(form), text.as_bytes());
        assert_eq!(load.code, Some(0), "{load:?}");
        assert!(db("scan", &second, &["--hex"]).ok() == scan, "{form:?}");
        std::fs::remove_dir_all(&second).unwrap();
    }
}

#[test]
fn a_bad_line_stops_a_load_and_says_where() {
    let temp = TempDir::new("cli bad line");
    let dir = temp.join("db");
    let args = ["db", "load", "--create", "--db", dir.to_str().unwrap()];
    let err = run_with_input(args, b"a\t1\nb\t2\nno tab here\nc\t3\n").fails(1);
    assert!(
        err.starts_with("error: line 3: no tab between key and value\n"),
        "{err}"
    );
    assert!(
        err.contains("the 2 lines before it are in") && err.contains("tail -n +3"),
        "{err}"
    );
    assert_eq!(db("scan", &dir, &[]).ok(), "a\t1\nb\t2\n");
}

#[test]
fn options_and_merge_operator_of_a_directory_survive_a_write() {
    let temp = TempDir::new("cli options");
    let case = spanlith_testkit::golden_case("golden-11.8", "multi-level-dynamic");
    let dir = case.copy_to(temp.join("case"));
    db("put", &dir, &["key", "value"]).ok();
    let info = json(&db("info", &dir, &["--json"]).ok());
    let options = &info["families"][0]["options"];
    assert_eq!(options["target_file_size_base"], "2000", "{info}");
    assert_eq!(options["compression"], "kNoCompression", "{info}");
    assert_eq!(
        db("count", &dir, &[]).ok(),
        format!("{}\n", case.entries + 1)
    );
    assert_eq!(db("verify", &dir, &[]).code, Some(0));
}

/// No flag names it: the OPTIONS file of the directory does.
#[test]
fn the_prefix_extractor_of_a_directory_is_that_of_tables_written_to_it() {
    let temp = TempDir::new("cli extractor");
    for (version, name, extractor) in [
        ("golden-11.8", "prefix-bloom", "rocksdb.FixedPrefix.6"),
        ("golden-7.8", "prefix-capped", "rocksdb.CappedPrefix"),
    ] {
        let case = spanlith_testkit::golden_case(version, name);
        let dir = case.copy_to(temp.join(name));
        let before = contents(&dir);
        db("put", &dir, &["key", "value"]).ok();
        db("flush", &dir, &[]).ok();
        let files = contents(&dir);
        let made = files.keys().rfind(|n| n.ends_with(".sst")).unwrap();
        assert!(!before.contains_key(made), "{name}: {made}");
        let properties = run(["sst", "properties", dir.join(made).to_str().unwrap()]).ok();
        let line = "property\tname=rocksdb.prefix.extractor.name\tvalue=";
        let found = properties.lines().find_map(|l| l.strip_prefix(line));
        assert!(
            found.is_some_and(|found| found.starts_with(extractor)),
            "{name}: {properties}"
        );
    }
}

#[test]
fn a_flag_says_what_a_component_of_a_foreign_name_does() {
    let temp = TempDir::new("cli components");
    let dir = temp.join("db");
    let order = ["--comparator", "acme.Order=reverse"];
    for key in ["a", "b"] {
        db("put", &dir, &[&order[..], &["--create", key, "1"]].concat()).ok();
    }
    let err = db("scan", &dir, &[]).fails(1);
    assert!(err.contains("unknown comparator acme.Order"), "{err}");
    assert!(
        err.contains("next:  --comparator acme.Order=bytewise"),
        "{err}"
    );
    assert_eq!(db("scan", &dir, &order).ok(), "b\t1\na\t1\n");
    // Another family, whose order is known, needs no flag to be read.
    let two = ["--cf", "two"];
    let plain = ["--comparator", "bytewise", "--create", "k", "2"];
    db("put", &dir, &[&order[..], &two, &plain].concat()).ok();
    assert_eq!(db("get", &dir, &[&two[..], &["k"]].concat()).ok(), "2\n");
    let ttl = temp.join("ttl");
    db("put", &ttl, &["--create", "--ttl", "k", "v"]).ok();
    assert_eq!(db("get", &ttl, &["--ttl", "k"]).ok(), "v\n");
    assert_eq!(db("get", &ttl, &["--hex", "6b"]).ok().len(), 2 + 8 + 1);
}

/// An order and an operator whose names only their program knows.
struct Foreign(&'static str);

impl spanlith::UserComparator for Foreign {
    fn name(&self) -> &str {
        self.0
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
        match self.0 {
            "acme.Down" => b.cmp(a),
            _ => a.cmp(b),
        }
    }
}

impl spanlith::MergeOperator for Foreign {
    fn name(&self) -> &str {
        self.0
    }
    fn full_merge(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        let all = base.into_iter().chain(operands.iter().copied());
        Some(all.max().unwrap_or_default().to_vec())
    }
}

#[test]
fn flags_for_several_recorded_names_are_given_one_by_one() {
    use spanlith::{Comparator, Db, FamilyOptions};
    use std::sync::Arc;
    let temp = TempDir::new("cli flags");
    let dir = temp.join("db");
    let made = Db::builder(&dir)
        .create_if_missing(true)
        .comparator(Comparator::User(Arc::new(Foreign("acme.Up"))))
        .merge_operator(Arc::new(Foreign("acme.Most")))
        .open()
        .unwrap();
    let order = Comparator::User(Arc::new(Foreign("acme.Down")));
    let two = made
        .create_cf(FamilyOptions::new("two").comparator(order))
        .unwrap();
    for (key, operand) in [("a", "3"), ("a", "7"), ("b", "1"), ("a", "5")] {
        made.default_cf().merge(key, operand).unwrap();
        two.put(key, operand).unwrap();
    }
    drop(two);
    made.close().unwrap();
    let up = ["--comparator", "acme.Up=bytewise"];
    let down = ["--comparator", "acme.Down=reverse"];
    let most = ["--merge-operator", "acme.Most=max"];
    let scan = |flags: &[&[&str]], cf: &str| {
        let flags = flags.concat();
        db("scan", &dir, &[&flags[..], &["--cf", cf]].concat())
    };
    let all = [&up[..], &down[..], &most[..]];
    assert_eq!(scan(&all, "default").ok(), "a\t7\nb\t1\n");
    assert_eq!(scan(&all, "two").ok(), "b\t1\na\t5\n");
    for (n, cf) in [(0, "default"), (1, "two"), (2, "default")] {
        let mut some = all.to_vec();
        some.remove(n);
        let err = scan(&some, cf).fails(1);
        let missed = [
            "comparator acme.Up",
            "comparator acme.Down",
            "merge_operator",
        ][n];
        assert!(err.contains(missed) && err.contains("next:  "), "{err}");
    }
}

#[test]
fn options_this_build_lacks_are_refused_for_writing_until_told() {
    let temp = TempDir::new("cli default options");
    let case = spanlith_testkit::golden_case("golden-11.8", "fifo");
    let dir = case.copy_to(temp.join("case"));
    let options = std::fs::read_dir(&dir).unwrap().map(|e| e.unwrap().path());
    let is_options = |p: &std::path::PathBuf| p.to_string_lossy().contains("OPTIONS-");
    for path in options.filter(is_options) {
        let text = std::fs::read_to_string(&path).unwrap();
        let lacking = text.replace("allow_ingest_behind=false", "allow_ingest_behind=true");
        assert_ne!(text, lacking);
        std::fs::write(&path, lacking).unwrap();
    }
    let before = contents(&dir);
    let err = db("put", &dir, &["key", "value"]).fails(1);
    assert!(
        err.starts_with("error: Not implemented: allow_ingest_behind"),
        "{err}"
    );
    assert!(
        err.contains("next:  ") && err.contains("--default-options"),
        "{err}"
    );
    assert!(contents(&dir) == before);
    db("put", &dir, &["--default-options", "key", "value"]).ok();
    assert_eq!(db("get", &dir, &["key"]).ok(), "value\n");
}

#[test]
fn info_describes_a_directory_completely() {
    let temp = TempDir::new("cli info");
    let case = spanlith_testkit::golden_case("golden-11.8", "multi-cf");
    let dir = case.copy_to(temp.join("case"));
    let info = json(&db("info", &dir, &["--json"]).ok());
    assert_eq!(info["written_by"], "11.8.1");
    let families: Vec<&str> = info["families"]
        .as_array()
        .unwrap()
        .iter()
        .map(|f| f["name"].as_str().unwrap())
        .collect();
    assert!(
        families.contains(&"default") && families.contains(&"counters"),
        "{families:?}"
    );
    let text = db("info", &dir, &["--files"]).ok();
    assert!(text.contains("rocksdb.ReverseBytewiseComparator"), "{text}");
    let one = db("info", &dir, &["--cf", "counters"]).ok();
    assert!(
        one.contains("counters (id ") && !one.contains("default (id "),
        "{one}"
    );
    let counters = json(&db("verify", &dir, &["--json", "--cf", "counters"]).out);
    let all = json(&db("verify", &dir, &["--json"]).out);
    assert!(
        counters["tables"].as_u64() < all["tables"].as_u64(),
        "{counters} {all}"
    );
    let err = db("info", &dir, &["--cf", "no"]).fails(1);
    assert!(
        err.contains("Column family not found: no") && err.contains("counters"),
        "{err}"
    );
}

#[test]
fn a_reader_that_stops_early_is_no_failure() {
    let temp = TempDir::new("cli pipe");
    let dir = temp.join("db");
    let lines: String = (0..20_000)
        .map(|n| format!("key{n:06}\t{}\n", "v".repeat(50)))
        .collect();
    let args = ["db", "load", "--create", "--db", dir.to_str().unwrap()];
    assert_eq!(run_with_input(args, lines.as_bytes()).code, Some(0));
    let mut child = crate::support::command(["db", "scan", "--db", dir.to_str().unwrap()])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(output.stderr, b"");
    assert_eq!(
        run(["db", "count", "--db", dir.to_str().unwrap()]).ok(),
        "20000\n"
    );
}

/// Text in UTF-8 was shown as `\xd0\xba`, and in JSON escaped within a string.
#[test]
fn utf8_is_text_and_other_bytes_have_one_form_in_json() {
    let temp = TempDir::new(test_name!());
    let dir = temp.join("db");
    db("put", &dir, &["--create", "ключ", "значение\\t1"]).ok();
    db("put", &dir, &["0x6bff", "\\xd0"]).ok();
    let shown = db("scan", &dir, &[]).ok();
    assert_eq!(shown, "k\\xff\t\\xd0\nключ\tзначение\\t1\n");
    assert_eq!(db("get", &dir, &["ключ"]).ok(), "значение\\t1\n");
    let forms = |text: &str| -> Vec<(Value, Value)> {
        let lines = text.lines().map(json).filter(|o| o["record"] != "table");
        let lines = lines.filter(|o| !o["key"].is_null());
        lines
            .map(|o| (o["key"].clone(), o["value"].clone()))
            .collect()
    };
    let wanted = vec![
        (
            serde_json::json!({ "hex": "6bff" }),
            serde_json::json!({ "hex": "d0" }),
        ),
        (Value::from("ключ"), Value::from("значение\t1")),
    ];
    assert_eq!(forms(&db("scan", &dir, &["--json"]).ok()), wanted);
    assert_eq!(forms(&db("scan", &dir, &["--json", "--raw"]).ok()), wanted);
    assert_eq!(forms(&db("dump", &dir, &["--json"]).ok()), wanted);
    db("flush", &dir, &[]);
    // Each entry is in a table of its own, the second one in the later table.
    let tables = contents(&dir).into_keys().filter(|n| n.ends_with(".sst"));
    let mut dumped: Vec<String> = tables
        .map(|t| dir.join(t).display().to_string())
        .map(|t| run(["sst", "dump", "--no-index", "--json", &t]).ok())
        .collect();
    dumped.reverse();
    let dumped = dumped.concat();
    let entries = dumped.lines().filter(|l| l.contains(r#""record":"entry""#));
    assert_eq!(forms(&entries.collect::<Vec<_>>().join("\n")), wanted);
    let files = db("files", &dir, &["--json"]).ok();
    let bounds: Vec<Value> = files.lines().map(json).collect();
    for (key, _) in &wanted {
        let is_bound = |o: &Value| o["smallest_key"] == *key && o["largest_key"] == *key;
        assert!(bounds.iter().any(is_bound), "{key} in {files}");
    }
    // The output is loaded back.
    let copy = temp.join("copy");
    let path = copy.to_str().unwrap();
    run_with_input(
        ["db", "load", "--create", "--json", "--db", path],
        shown.as_bytes(),
    )
    .ok();
    assert_eq!(db("scan", &copy, &[]).ok(), shown);
}

/// Keys such as addresses were taken as hexadecimal, as `ldb load` does with --hex only.
#[test]
fn a_line_that_is_loaded_is_text_even_if_it_begins_with_0x() {
    let temp = TempDir::new(test_name!());
    let dir = temp.join("db");
    let path = dir.to_str().unwrap();
    let lines = "0xdAC17F958D2ee523a2206206994597C13D831ec7\t0x01\n0xz\tv\n";
    run_with_input(
        ["db", "load", "--create", "--json", "--db", path],
        lines.as_bytes(),
    )
    .ok();
    let shown = db("scan", &dir, &[]).ok();
    assert_eq!(shown, lines.replace("0x", "\\x30x"));
    let hex = "30786441\t61\n";
    run_with_input(
        ["db", "load", "--hex", "--json", "--db", path],
        hex.as_bytes(),
    )
    .ok();
    assert_eq!(db("get", &dir, &["\\x30xdA"]).ok(), "a\n");
}
