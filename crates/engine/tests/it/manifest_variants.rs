//! MANIFEST, CURRENT and tables that were changed by hand, and a database written without RocksDB
//! (`fixtures/manifest`): each opens as RocksDB 11.8.1 opens it, or fails in its words.

use spanlith::options::CfOptions;
use spanlith::{Db, FamilyOptions, OpenBuilder};
use spanlith_testkit::{TempDir, fixtures_dir, golden_case, read_expected_tsv};
use std::path::Path;

/// Families of the directory that a variant changes.
fn builder(dir: &Path, base: &str) -> OpenBuilder {
    let builder = Db::builder(dir).no_info_log();
    match base {
        "atomic-flush" => builder
            .family(FamilyOptions::new("cf1"))
            .family(FamilyOptions::new("cf2")),
        _ => builder,
    }
}

/// Returns what opening and reading gives, as the table of outcomes has it.
fn outcome(dir: &Path, base: &str) -> String {
    let db = match builder(dir, base).open() {
        Ok(db) => db,
        Err(e) => return e.to_string().replace(&*dir.to_string_lossy(), "t"),
    };
    let mut out = String::from("OK");
    for cf in db.cfs() {
        let rows = cf.iter().map(Result::unwrap).count();
        out += &format!(" {}:{rows}", cf.name());
    }
    out + &format!(" seq {}", db.latest_sequence_number())
}

#[test]
fn every_changed_manifest_ends_as_in_rocksdb() {
    crate::suite_disk::needs_table_files(
        "the MANIFEST is read for the tables on the disk first, with other words for its damage",
    );
    let root = fixtures_dir().join("manifest");
    let table = std::fs::read_to_string(root.join("outcomes-11.8.tsv")).unwrap();
    let mut failures = Vec::new();
    let mut cases = 0;
    for line in table.lines().skip(1) {
        let [name, base, expected] = line.splitn(3, '\t').collect::<Vec<_>>()[..] else {
            panic!("a row of three columns: {line}");
        };
        let temp = TempDir::new("manifest");
        let dir = golden_case("golden-7.8", base).copy_to(temp.path());
        let variant = root.join("variants").join(name);
        // Git keeps no empty folders: these two change nothing.
        let changes = !matches!(name, "intact" | "atomic-complete");
        assert_eq!(variant.is_dir(), changes, "{name}");
        for entry in std::fs::read_dir(variant).into_iter().flatten() {
            let path = entry.unwrap().path();
            let file = path.file_name().unwrap().to_string_lossy().into_owned();
            match file.strip_suffix(".deleted") {
                Some(gone) => std::fs::remove_file(dir.join(gone)).unwrap(),
                None => drop(std::fs::copy(&path, dir.join(file)).unwrap()),
            }
        }
        let found = outcome(&dir, base);
        // Ours say where in the MANIFEST, too.
        let is_same = match found.split_once(": offset=") {
            Some((text, _)) => text == expected,
            None => found == expected,
        };
        if !is_same {
            failures.push(format!("{name}: {found} and not {expected}"));
        }
        cases += 1;
    }
    assert_eq!(cases, 33);
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Legacy and recyclable records, a value over four records, a family with the reverse order, an unknown tag that may
/// be ignored, neither IDENTITY nor OPTIONS.
#[test]
fn a_database_that_was_written_by_hand_is_read() {
    let root = fixtures_dir().join("manifest/handmade");
    let families = read_expected_tsv(root.join("expected.tsv"));
    assert_eq!(families.len(), 2);
    let temp = TempDir::new("handmade");
    for entry in std::fs::read_dir(root.join("db")).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, temp.path().join(path.file_name().unwrap())).unwrap();
    }
    let open = || {
        let mut reverse = CfOptions::default();
        reverse.comparator = "rocksdb.ReverseBytewiseComparator".to_string();
        let reverse = FamilyOptions::new("rev").options(reverse);
        Db::builder(temp.path()).no_info_log().family(reverse)
    };
    let check = |db: &Db| {
        assert_eq!(db.latest_sequence_number(), 57);
        for family in &families {
            let cf = db.cf(&family.name).unwrap();
            let rows = cf.iter().map(|e| {
                let (key, value) = e.unwrap();
                (key.into_vec(), value.into_vec())
            });
            assert_eq!(rows.collect::<Vec<_>>(), family.entries, "{}", family.name);
        }
    };
    check(&open().open_read_only().unwrap());
    check(&open().open().unwrap());
    check(&open().open().unwrap());
}
