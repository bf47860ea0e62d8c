//! What scans and dumps show beside keys and values: columns, timestamps, tombstones, blobs.

use crate::support::{db, run};
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
    assert!(shown.contains(r#""attr_b":"value-b""#), "{shown}");

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
