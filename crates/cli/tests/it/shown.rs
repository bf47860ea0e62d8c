//! Describes what scans and dumps show beside keys and values: columns, timestamps, tombstones, blobs.

use crate::support::{contents, db, run};
use serde_json::Value;
use spanlith_testkit::{TempDir, golden_case, test_name};

/// The files of a directory that end so, in order.
fn files(dir: &std::path::Path, end: &str) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap();
    let paths = entries.map(|e| e.unwrap().path().display().to_string());
    let mut found: Vec<String> = paths.filter(|p| p.ends_with(end)).collect();
    found.sort();
    found
}

#[test]
fn scans_show_columns_and_timestamps_on_request() {
    let temp = TempDir::new(test_name!());
    let dir = golden_case("golden-11.8", "wide-columns").copy_to(temp.join("columns"));
    let shown = db("scan", &dir, &["--columns", "--limit", "2"]).ok();
    let lines = "key00000\t=default-value\tattr_a=value-a\tattr_b=value-b\n\
                 key00001\tattr_a=value-a\tattr_b=value-b\n";
    assert_eq!(shown, lines);
    let shown = db("scan", &dir, &["--columns", "--json", "--limit", "1"]).ok();
    assert!(
        shown.contains(r#"{"name":"attr_b","value":"value-b"}"#),
        "{shown}"
    );

    let dir = golden_case("golden-11.8", "udt-u64").copy_to(temp.join("timestamps"));
    let shown = db("scan", &dir, &["--timestamps", "--limit", "1"]).ok();
    assert!(shown.starts_with("key00000\t159\t"), "{shown}");
    let value = db("get", &dir, &["key00000"]).ok();
    assert_eq!(shown, format!("key00000\t159\t{value}"));
}

#[test]
fn dumps_show_range_tombstones_blob_references_and_blobs() {
    let temp = TempDir::new(test_name!());
    let dir = golden_case("golden-11.8", "range-tombstones").copy_to(temp.join("ranges"));
    let shown = run(["sst", "dump", "--no-index", &files(&dir, "12.sst")[0]]).ok();
    let line = "range_tombstone\tsequence=202\tfrom=key00040\tto=key00060\n";
    assert!(shown.contains(line), "{shown}");

    let dir = golden_case("golden-11.8", "blob").copy_to(temp.join("blobs"));
    let shown = run(["sst", "dump", "--no-index", &files(&dir, ".sst")[0]]).ok();
    let reference = "key=key00000\tblob_file=10\tblob_offset=70\tblob_bytes=127\t";
    assert!(shown.contains(reference), "{shown}");
    let blob = &files(&dir, ".blob")[0];
    let shown = run(["blob", "dump", blob]).ok();
    assert!(shown.contains("\tcompression=7\tblobs=36\n"), "{shown}");
    assert_eq!(
        shown.lines().filter(|l| l.starts_with("blob\t")).count(),
        36
    );
    let value = db("get", &dir, &["key00001"]).ok();
    let line = format!("blob\toffset=237\tstored_bytes=127\tkey=key00001\tvalue={value}");
    assert!(shown.contains(&line), "{shown}");

    // A byte of a value changes.
    let mut bytes = std::fs::read(blob).unwrap();
    bytes[100] ^= 1;
    std::fs::write(blob, bytes).unwrap();
    let err = run(["blob", "dump", blob]).fails(1);
    assert!(err.contains("Corruption"), "{err}");
}

#[test]
fn one_file_is_checked_described_and_compared() {
    let temp = TempDir::new(test_name!());
    let dir = golden_case("golden-11.8", "blob").copy_to(temp.join("db"));
    let files: Vec<String> = contents(&dir).into_keys().collect();
    let file = |begin: &str, end: &str| {
        let name = files
            .iter()
            .find(|n| n.starts_with(begin) && n.ends_with(end));
        dir.join(name.unwrap()).to_str().unwrap().to_string()
    };
    let (table, log, blob) = (file("0", ".sst"), file("0", ".log"), file("0", ".blob"));
    let (manifest, options) = (file("MANIFEST", ""), file("OPTIONS", ""));
    for (noun, verb, path, what) in [
        ("sst", "verify", &table, "entries"),
        ("wal", "check", &log, "updates"),
        ("manifest", "check", &manifest, "records"),
        ("blob", "verify", &blob, "values"),
        ("options", "check", &options, "families default"),
    ] {
        let whole = run([noun, verb, path]).ok();
        assert!(whole.starts_with("ok: ") && whole.contains(what), "{whole}");
        let other = temp.join("damaged");
        let mut bytes = std::fs::read(path).unwrap();
        let at = match noun {
            "options" => String::from_utf8_lossy(&bytes)
                .find("max_open_files")
                .unwrap(),
            // The header of a blob file has no checksum, that of a record has.
            "blob" => 40,
            _ => 9,
        };
        bytes[at] ^= 0x10;
        std::fs::write(&other, bytes).unwrap();
        let other = other.to_str().unwrap();
        let damaged = run([noun, verb, path, other, "--json"]);
        assert_eq!(
            (damaged.code, damaged.err.as_str()),
            (Some(1), ""),
            "{damaged:?}"
        );
        let lines: Vec<Value> = damaged
            .out
            .lines()
            .map(|l| serde_json::from_str(l).unwrap())
            .collect();
        assert_eq!(
            (&lines[0]["ok"], &lines[1]["ok"]),
            (&true.into(), &false.into()),
            "{damaged:?}"
        );
        run([noun, verb, "no such file"]).fails(1);
    }
    let properties = run(["sst", "properties", &table]).ok();
    assert!(
        properties.lines().all(|l| l.starts_with("property\t"))
            && properties.contains("rocksdb.num.entries")
    );
    let layout = run(["sst", "layout", &table]).ok();
    assert!(
        layout.contains("block\toffset=0\t") && layout.contains("sum\tof=data\t"),
        "{layout}"
    );
    let live = run(["blob", "live", "--db", dir.to_str().unwrap()]).ok();
    assert!(
        live.contains("live ") && live.contains(" values, "),
        "{live}"
    );

    let path = temp.join("own");
    for key in ["a", "b", "c"] {
        db("put", &path, &["--create", key, "v"]).ok();
    }
    let own = path.to_str().unwrap();
    let json = db("dump", &path, &["--json"]).ok();
    let first: Value = serde_json::from_str(json.lines().next().unwrap()).unwrap();
    assert_eq!(
        (&first["family"], &first["key"]),
        (&"default".into(), &"a".into())
    );
    let since = run(["wal", "since", "3", "--db", own]).ok();
    assert!(
        since.contains("key=c") && !since.contains("key=b"),
        "{since}"
    );
    let gap = run(["wal", "since", "1", "--db", own]).fails(1);
    assert!(
        gap.contains("the logs begin with sequence number 3"),
        "{gap}"
    );
    let same = run(["options", "diff", own, own]).ok();
    assert_eq!(same, "");
    db("set-options", &path, &["write_buffer_size=1M"]).ok();
    let all = run(["options", "dump", own]).ok();
    assert!(
        all.contains("family default\twrite_buffer_size=1048576\n"),
        "{all}"
    );
    let diff = run(["options", "diff", own, &options]);
    assert_eq!(diff.code, Some(1), "{diff:?}");
    assert!(
        diff.out
            .contains("family default\twrite_buffer_size\t1048576\t"),
        "{diff:?}"
    );
}
