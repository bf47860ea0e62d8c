//! Directories written by RocksDB.

use crate::support::{contents, db, db_in, run};
use spanlith_testkit::{ExpectedFamily, GoldenCase, TempDir, golden_case, golden_cases, hex};
use std::path::{Path, PathBuf};

/// `KEYHEX TAB VALUEHEX` lines of the default family.
fn expected_scan(case: &GoldenCase) -> String {
    let families = case.expected_families();
    let line = |(key, value): &(Vec<u8>, Vec<u8>)| format!("{}\t{}\n", hex(key), hex(value));
    families[0].entries.iter().map(line).collect()
}

#[test]
fn every_directory_of_the_first_milestone_reads_as_rocksdb_shows_it_and_stays_unchanged() {
    let temp = TempDir::new("cli golden");
    let cases: Vec<_> = golden_cases()
        .into_iter()
        .filter(|c| c.milestone == 1)
        .collect();
    assert!(cases.len() >= 27, "{} cases", cases.len());
    for case in &cases {
        let name = format!("{}/{}", case.directory, case.name);
        let dir = case.copy_to(temp.join(&case.directory).join(&case.name));
        let before = contents(&dir);
        let expected = expected_scan(case);
        assert_eq!(db("scan", &dir, &["--hex"]).ok(), expected, "{name}");
        assert_eq!(
            db("count", &dir, &[]).ok(),
            format!("{}\n", case.entries),
            "{name}"
        );
        if let Some(line) = expected.lines().last() {
            let (key, value) = line.split_once('\t').unwrap();
            assert_eq!(
                db("get", &dir, &["--hex", key]).ok(),
                format!("{value}\n"),
                "{name}"
            );
        }
        let info = db("info", &dir, &[]).ok();
        assert!(
            info.contains(&format!("RocksDB {}", case.written_by)),
            "{name}: {info}"
        );
        let report = db("verify", &dir, &["--deep"]);
        assert!(report.out.contains("ok: "), "{name}: {report:?}");
        assert_eq!(report.code, Some(0), "{name}: {report:?}");
        assert!(
            contents(&dir) == before,
            "{name}: reading changed the directory"
        );
    }
}

#[test]
fn merge_operators_are_found_in_the_options_file() {
    let temp = TempDir::new("cli merge");
    let case = golden_case("golden-11.8", "merge-pending");
    let dir = case.copy_to(temp.join("case"));
    assert_eq!(db("scan", &dir, &["--hex"]).ok(), expected_scan(&case));
    let err = db("scan", &dir, &["--merge-operator", "none"]).fails(1);
    assert!(
        err.starts_with("error: Invalid argument: merge_operator"),
        "{err}"
    );
    assert!(
        err.contains("next:  leave --merge-operator out: the directory records "),
        "{err}"
    );
}

/// Kept by RocksDB for itself.
const STATS_FAMILY: &str = "___rocksdb_stats_history___";

/// Returns what no file of a directory says.
fn flags(case: &GoldenCase, family: &str) -> Vec<&'static str> {
    match (case.name.as_str(), family) {
        ("ttl-db", _) => vec!["--ttl"],
        ("db-paths", _) => vec!["--db-paths", "db-paths/p0:4096,db-paths/p1:1048576"],
        ("cf-paths", _) => vec!["--cf-paths", "elsewhere=cf-paths/cf1:1048576"],
        _ => Vec::new(),
    }
}

/// The lines that a scan of the family prints.
fn expected_lines(family: &ExpectedFamily) -> String {
    let line = |(key, value): &(Vec<u8>, Vec<u8>)| format!("{}\t{}\n", hex(key), hex(value));
    family.entries.iter().map(line).collect()
}

/// Scans all families; the first refusal, if any. A refusal ends in a way out.
fn judge(case: &GoldenCase, dir: &Path, at: &Path) -> Result<(), String> {
    for family in case.expected_families() {
        if family.name == STATS_FAMILY {
            continue;
        }
        let mut rest = vec!["--hex", "--cf", &family.name];
        rest.extend(flags(case, &family.name));
        let scan = db_in(at, "scan", dir, &rest);
        if scan.code == Some(0) {
            assert_eq!(
                (scan.out, scan.err.as_str()),
                (expected_lines(&family), ""),
                "{}/{} family {}: misread",
                case.directory,
                case.name,
                family.name
            );
            continue;
        }
        let err = scan.fails(1);
        assert!(err.starts_with("error: "), "{err}");
        let last = err.lines().last().unwrap();
        assert!(last.starts_with("next: "), "{err}");
        return Err(err.lines().next().unwrap_or_default().to_string());
    }
    Ok(())
}

#[test]
fn every_family_of_every_directory_is_scanned_as_rocksdb_shows_it() {
    let temp = TempDir::new("cli all golden");
    let cases = golden_cases();
    assert_eq!(cases.len(), 166);
    for case in &cases {
        let name = format!("{}/{}", case.directory, case.name);
        let at = temp.join(&case.directory);
        let dir = case.copy_to(at.join(&case.name));
        let before = contents(&dir);
        assert_eq!(judge(case, &dir, &at), Ok(()), "{name}");
        // Describing does not need the engine.
        let info = db("info", &dir, &[]).ok();
        assert!(info.contains("sequence number"), "{name}: {info}");
        assert!(
            contents(&dir) == before,
            "{name}: reading changed the directory"
        );
    }
}

fn files(dir: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, out);
        } else {
            out.push(path);
        }
    }
}

#[test]
fn every_manifest_and_log_can_be_dumped() {
    let mut all = Vec::new();
    files(&spanlith_testkit::fixtures_dir().join("golden"), &mut all);
    let (mut manifests, mut logs) = (0, 0);
    for path in all {
        let name = path.file_name().unwrap().to_str().unwrap();
        let text = path.to_str().unwrap();
        if name.starts_with("MANIFEST-") {
            manifests += 1;
            let dump = run(["manifest", "dump", text]).ok();
            assert!(dump.starts_with("edit\toffset=0\t"), "{text}: {dump}");
            for line in run(["manifest", "dump", "--json", text]).ok().lines() {
                serde_json::from_str::<serde_json::Value>(line).unwrap();
            }
        } else if name.ends_with(".log") && !text.contains("wal-zstd") {
            logs += 1;
            let dump = run(["wal", "dump", "--hex", text]);
            assert!(
                dump.code == Some(0) || dump.out.contains("damage\t"),
                "{text}: {dump:?}"
            );
        }
    }
    assert!(manifests > 140 && logs > 170, "{manifests} {logs}");
}

#[test]
fn families_and_undecided_transactions_are_listed() {
    let temp = TempDir::new("cli families");
    let case = golden_case("golden-11.8", "multi-cf");
    let dir = case.copy_to(temp.join("families"));
    let list = db("families", &dir, &[]).ok();
    for family in case.expected_families() {
        assert!(
            list.contains(&format!("{}\tid={}\t", family.name, family.id)),
            "{list}"
        );
    }
    assert!(
        list.contains("comparator=rocksdb.ReverseBytewiseComparator"),
        "{list}"
    );
    for line in db("families", &dir, &["--json"]).ok().lines() {
        serde_json::from_str::<serde_json::Value>(line).unwrap();
    }
    for name in ["txn-prepared", "txn-write-prepared"] {
        let case = golden_case("golden-11.8", name);
        let info = db("info", &case.copy_to(temp.join(name)), &[]).ok();
        assert_eq!(info.matches("undecided").count(), 2, "{info}");
        assert!(info.contains("xid-2, undecided") && info.contains("xid-3, undecided"));
    }
}

#[test]
fn a_dump_shows_every_record_of_a_file() {
    let case = golden_case("golden-11.8", "default");
    let file = |name: &str| {
        case.source()
            .join("db")
            .join(name)
            .to_str()
            .unwrap()
            .to_string()
    };
    let sst = run(["sst", "dump", &file("000012.sst")]).ok();
    let count = |kind: &str| sst.lines().filter(|l| l.starts_with(kind)).count();
    assert_eq!(count("table\t"), 1);
    assert!(
        sst.contains("property\tname=rocksdb.num.entries\tvalue="),
        "{sst}"
    );
    let entries = sst
        .lines()
        .find_map(|l| l.strip_prefix("property\tname=rocksdb.num.entries\tvalue="));
    assert_eq!(entries.unwrap().parse(), Ok(count("entry\t")));
    assert!(count("data_block\t") > 0 && count("meta_block\t") >= 3);
    let wal = run(["wal", "dump", "--json", &file("000013.log")]).ok();
    let kinds: Vec<String> = wal
        .lines()
        .map(|l| serde_json::from_str::<serde_json::Value>(l).unwrap()["record"].to_string())
        .collect();
    assert!(kinds.contains(&"\"batch\"".to_string()), "{kinds:?}");
    assert!(kinds.contains(&"\"put\"".to_string()), "{kinds:?}");
    let manifest = run(["manifest", "dump", &file("MANIFEST-000005")]).ok();
    assert!(
        manifest.contains("comparator=leveldb.BytewiseComparator"),
        "{manifest}"
    );
    assert!(
        manifest.contains("add_file\tlevel=0\tnumber="),
        "{manifest}"
    );
}

#[test]
fn verify_finds_tables_in_other_directories() {
    let temp = TempDir::new("cli verify paths");
    let cases = [
        ("golden-7.8", "db-paths"),
        ("golden-11.8", "db-paths"),
        ("golden-11.8", "cf-paths"),
    ];
    for (directory, name) in cases {
        let at = temp.join(directory).join(name);
        let case = golden_case(directory, name);
        let dir = case.copy_to(at.join(name));
        let unsaid = db_in(&at, "verify", &dir, &[]);
        assert_eq!(unsaid.code, Some(1), "{directory}/{name}: {unsaid:?}");
        let mut rest = vec!["--deep"];
        rest.extend(flags(&case, ""));
        let report = db_in(&at, "verify", &dir, &rest);
        assert_eq!(report.code, Some(0), "{directory}/{name}: {report:?}");
        let mut table = None;
        for (file, _) in contents(&at) {
            if file.ends_with(".sst") && !file.contains("/db/") {
                table = Some(at.join(file));
            }
        }
        std::fs::remove_file(table.unwrap()).unwrap();
        let report = db_in(&at, "verify", &dir, &rest);
        assert_eq!(report.code, Some(1), "{directory}/{name}: {report:?}");
        assert!(report.out.contains("missing; the MANIFEST"), "{report:?}");
    }
}
