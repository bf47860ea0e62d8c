//! `db verify` finds what was flipped, cut or removed, and names it.

use crate::support::{contents, db, run, run_with_input};
use serde_json::Value;
use spanlith_testkit::{Rng, TempDir, copy_dir, golden_case, seed, test_name};
use std::path::{Path, PathBuf};

fn flip(path: &Path, at: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[at] ^= 0x40;
    std::fs::write(path, bytes).unwrap();
}

fn findings(dir: &Path) -> Vec<(String, String)> {
    let report = db("verify", dir, &["--json"]);
    let object: Value =
        serde_json::from_str(&report.out).unwrap_or_else(|e| panic!("{e}: {report:?}"));
    let found: Vec<(String, String)> = object["findings"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|f| f["grade"] == "damage")
        .map(|f| {
            (
                f["file"].as_str().unwrap().to_string(),
                f["offset"].to_string(),
            )
        })
        .collect();
    assert_eq!(
        report.code,
        Some(i32::from(!found.is_empty())),
        "{report:?}"
    );
    assert_eq!(object["ok"], found.is_empty());
    found
}

/// A copy of a case and the names of its tables.
fn copy(temp: &TempDir, name: &str) -> (PathBuf, Vec<String>) {
    let dir = golden_case("golden-11.8", name).copy_to(temp.join(name));
    let tables = contents(&dir)
        .into_keys()
        .filter(|n| n.ends_with(".sst"))
        .collect();
    (dir, tables)
}

#[test]
fn every_flipped_byte_of_a_block_is_found_in_its_file() {
    let temp = TempDir::new("cli flips");
    let mut rng = Rng::new(seed(test_name!()));
    let (dir, tables) = copy(&temp, "multi-level-dynamic");
    assert_eq!(findings(&dir), []);
    for round in 0..40 {
        let work = temp.join(format!("round {round}"));
        copy_dir(&dir, &work);
        let table = rng.pick(&tables).clone();
        let len = std::fs::metadata(work.join(&table)).unwrap().len();
        // Every byte before the footer belongs to a block or its trailer.
        let at = rng.index(usize::try_from(len).unwrap() - 53);
        flip(&work.join(&table), at);
        let found = findings(&work);
        assert!(
            found.iter().any(|f| f.0 == table),
            "byte {at} of {table}: {found:?}"
        );
        assert!(
            found.iter().all(|f| f.0 == table),
            "byte {at} of {table}: {found:?}"
        );
    }
}

#[test]
fn all_damage_is_listed_not_only_the_first() {
    let temp = TempDir::new("cli all damage");
    let (dir, tables) = copy(&temp, "multi-level");
    let [a, b, c, ..] = &tables[..] else {
        panic!("{tables:?}")
    };
    // Two blocks of one table, the end of a second, the whole of a third.
    let blocks = crate::support::run(["sst", "dump", "--json", dir.join(a).to_str().unwrap()]).ok();
    let offsets: Vec<u64> = blocks
        .lines()
        .map(|l| serde_json::from_str::<Value>(l).unwrap())
        .filter(|r| r["record"] == "data_block")
        .map(|r| r["offset"].as_u64().unwrap())
        .collect();
    let mut expected = Vec::new();
    for offset in offsets.iter().take(2) {
        flip(&dir.join(a), usize::try_from(*offset).unwrap() + 3);
        expected.push((a.clone(), offset.to_string()));
    }
    let bytes = std::fs::read(dir.join(b)).unwrap();
    std::fs::write(dir.join(b), &bytes[..bytes.len() - 10]).unwrap();
    std::fs::remove_file(dir.join(c)).unwrap();
    let found = findings(&dir);
    for e in &expected {
        assert!(found.contains(e), "{e:?} in {found:?}");
    }
    assert!(
        found.iter().any(|f| f.0 == *b) && found.iter().any(|f| f.0 == *c),
        "{found:?}"
    );
    let text = db("verify", &dir, &[]);
    assert_eq!(text.code, Some(1));
    assert!(
        text.out
            .contains(&format!("damage: {a} at offset {}", offsets[0])),
        "{text:?}"
    );
    assert!(
        text.out.contains("missing; the MANIFEST names it in level"),
        "{text:?}"
    );
    assert!(text.err.starts_with("next:  copy "), "{text:?}");
}

#[test]
fn damage_of_manifest_and_log_is_found_at_its_record() {
    let temp = TempDir::new("cli logs");
    let (dir, _) = copy(&temp, "default");
    flip(&dir.join("MANIFEST-000005"), 20);
    let found = findings(&dir);
    assert_eq!(
        found[0],
        ("MANIFEST-000005".to_string(), "0".to_string()),
        "{found:?}"
    );

    let dir = temp.join("log");
    let args = [
        "db",
        "load",
        "--create",
        "--batch-size",
        "1",
        "--db",
        dir.to_str().unwrap(),
    ];
    let lines: String = (0..50).map(|n| format!("key{n}\tvalue{n}\n")).collect();
    assert_eq!(run_with_input(args, lines.as_bytes()).code, Some(0));
    assert_eq!(findings(&dir), []);
    let files = contents(&dir);
    let (log, closed) = files
        .iter()
        .find(|(n, c)| n.ends_with(".log") && !c.is_empty())
        .unwrap();
    let wal = crate::support::run(["wal", "dump", dir.join(log).to_str().unwrap()]).ok();
    let offset = wal
        .lines()
        .filter(|l| l.starts_with("batch"))
        .nth(10)
        .unwrap();
    let offset = offset
        .split("offset=")
        .nth(1)
        .unwrap()
        .split('\t')
        .next()
        .unwrap();
    flip(&dir.join(log), offset.parse::<usize>().unwrap() + 9);
    let found = findings(&dir);
    assert_eq!(found[0], (log.clone(), offset.to_string()), "{found:?}");

    // The log of a closed database says that all of it is synced: a cut is damage.
    std::fs::write(dir.join(log), &closed[..closed.len() - 3]).unwrap();
    assert!(db("count", &dir, &[]).fails(1).contains("had been synced"));

    // A cut last record is what a crash leaves: said, but no damage.
    let live = temp.join("live");
    let dir = temp.join("killed");
    let killed = spanlith::Db::open(&live).unwrap();
    for n in 0..50 {
        let cf = killed.default_cf();
        cf.put(format!("key{n}"), format!("value{n}")).unwrap();
    }
    spanlith_testkit::copy_dir(&live, &dir);
    drop(killed);
    let files = contents(&dir);
    let mut logs = files.iter();
    let log = logs.find(|(n, c)| n.ends_with(".log") && !c.is_empty());
    let (log, bytes) = log.unwrap();
    std::fs::write(dir.join(log), &bytes[..bytes.len() - 3]).unwrap();
    assert_eq!(findings(&dir), []);
    let text = db("verify", &dir, &[]).ok();
    assert!(text.contains(&format!("note: {log} at offset ")), "{text}");
    assert!(text.contains("torn end"), "{text}");
    assert_eq!(db("count", &dir, &[]).ok(), "49\n");
}

#[test]
fn another_table_under_the_name_is_found_by_its_unique_id() {
    let temp = TempDir::new("cli swapped");
    let (dir, tables) = copy(&temp, "multi-level");
    std::fs::copy(dir.join(&tables[0]), dir.join(&tables[1])).unwrap();
    let found = findings(&dir);
    assert!(found.iter().all(|f| f.0 == tables[1]), "{found:?}");
    let text = db("verify", &dir, &[]).out;
    assert!(text.contains("unique ID"), "{text}");
    assert!(text.contains("the MANIFEST says"), "{text}");
}

#[test]
fn another_blob_file_under_the_name_is_found_by_its_size_or_by_the_number_of_its_blobs() {
    use spanlith::blob::{BlobFooter, BlobHeader, BlobRecordHeader};
    let temp = TempDir::new("cli exchanged blobs");
    let source = golden_case("golden-11.8", "blob-gc").copy_to(temp.join("blob-gc"));
    assert_eq!(findings(&source), []);
    let files = contents(&source);
    let blobs: Vec<_> = files.iter().filter(|(n, _)| n.ends_with(".blob")).collect();
    let [(a, whole), (b, _), ..] = blobs[..] else {
        panic!("{} blob files", blobs.len())
    };
    let swapped = |dir: &Path, names: &[&String]| {
        let found: Vec<String> = findings(dir).into_iter().map(|f| f.0).collect();
        assert_eq!(found.iter().collect::<Vec<_>>(), names);
        let said = crate::support::run(["doctor", "--db", dir.to_str().unwrap()]);
        assert_eq!(said.code, Some(1), "{said:?}");
        for name in names {
            assert!(said.out.contains(&format!("swapped: {name}")), "{said:?}");
        }
    };
    let dir = temp.join("exchanged");
    copy_dir(&source, &dir);
    std::fs::copy(source.join(a), dir.join(b)).unwrap();
    std::fs::copy(source.join(b), dir.join(a)).unwrap();
    swapped(&dir, &[a, b]);

    // As many bytes, in a single blob.
    let dir = temp.join("one blob");
    copy_dir(&source, &dir);
    let mut one = Vec::new();
    BlobHeader::default().encode(&mut one);
    let value = vec![b'v'; whole.len() - 30 - 32 - 32 - 1];
    BlobRecordHeader::new(b"k", &value).encode(&mut one);
    one.push(b'k');
    one.extend(value);
    let footer = BlobFooter {
        blobs: 1,
        ..BlobFooter::default()
    };
    footer.encode(&mut one);
    assert_eq!(one.len(), whole.len());
    std::fs::write(dir.join(a), one).unwrap();
    swapped(&dir, &[a]);
}

#[test]
fn a_log_that_is_gone_from_before_a_later_one_is_found_in_the_manifest() {
    let temp = TempDir::new("cli gone log");
    let (live, dir) = (temp.join("live"), temp.join("copy"));
    let db_live = spanlith::Db::open(&live).unwrap();
    let cf = db_live.default_cf();
    let other = db_live.create_cf(spanlith::FamilyOptions::new("other"));
    other.unwrap().put("holds", "the log").unwrap();
    for round in 0..2 {
        cf.put("key", format!("{round}")).unwrap();
        cf.flush(true).unwrap();
    }
    cf.put("key", "last").unwrap();
    spanlith_testkit::copy_dir(&live, &dir);
    drop((cf, db_live));
    assert_eq!(findings(&dir), []);
    let files = contents(&dir);
    let logs: Vec<_> = files.keys().filter(|n| n.ends_with(".log")).collect();
    assert!(logs.len() > 1, "{logs:?}");
    std::fs::remove_file(dir.join(logs[0])).unwrap();
    let found = findings(&dir);
    assert!(
        found.iter().any(|f| f.0.starts_with("MANIFEST-")),
        "{found:?}"
    );
    let text = db("verify", &dir, &[]).out;
    assert!(text.contains("is gone though log"), "{text}");
}

#[test]
fn no_verb_shows_a_damaged_manifest_as_if_it_were_whole() {
    let temp = TempDir::new(test_name!());
    let (dir, _) = copy(&temp, "multi-level-dynamic");
    let manifest = contents(&dir)
        .into_keys()
        .find(|n| n.starts_with("MANIFEST"))
        .unwrap();
    let len = std::fs::metadata(dir.join(&manifest)).unwrap().len();
    flip(&dir.join(&manifest), usize::try_from(len).unwrap() / 2);
    let path = dir.to_str().unwrap();
    for args in [
        &["find", "key00000"][..],
        &["compat"],
        &["db", "explain", "key00000"],
        &["db", "space"],
        &["db", "files"],
        &["db", "families"],
        &["blob", "live"],
    ] {
        let run = run_with_input(args.iter().chain(&["--db", path]), b"");
        let said = format!("{}{}", run.out, run.err);
        assert_eq!(run.code, Some(1), "{args:?}: {said}");
        assert!(
            said.contains(&format!("unread: {manifest}: ")),
            "{args:?}: {said}"
        );
    }
}

/// They ended with 1 and left what to do open.
#[test]
fn verbs_that_show_and_find_damage_name_the_next_command() {
    let temp = TempDir::new(test_name!());
    let dir = golden_case("golden-11.8", "default").copy_to(temp.join("case"));
    let table = contents(&dir).into_keys().find(|n| n.ends_with(".sst"));
    std::fs::remove_file(dir.join(table.unwrap())).unwrap();
    let path = dir.to_str().unwrap();
    for verb in [&["db", "files"][..], &["compat"], &["find", "key00001"]] {
        let err = run([verb, &["--db", path]].concat()).fails(1);
        assert!(
            err.contains("next:  spanlith doctor --db "),
            "{verb:?}: {err}"
        );
    }
}
