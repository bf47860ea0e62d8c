//! `db dump --salvage` of directories whose MANIFEST or logs contradict themselves.

use crate::support::{contents, db, run};
use serde_json::Value;
use spanlith::Db;
use spanlith_testkit::{TempDir, copy_dir, golden_case, test_name};
use std::path::{Path, PathBuf};

/// Entries of a round.
const ENTRIES: usize = 100;
/// Rounds, each in a table of its own but for the last two, which are in logs.
const ROUNDS: usize = 6;

/// Golden directories of which all entries are found without their MANIFEST.
const CASES: [&str; 6] = [
    "blob",
    "bottommost-zeroed",
    "merge-pending",
    "multi-cf",
    "range-tombstones",
    "reverse-comparator",
];

/// A closed database with a MANIFEST of several edits, of flushes and of a compaction, and two logs.
fn make(dir: &Path) {
    let db = Db::open(dir).unwrap();
    let other = db.create_cf(spanlith::FamilyOptions::new("other")).unwrap();
    let cf = db.default_cf();
    let fill = |round: usize| {
        for n in 0..ENTRIES {
            cf.put(format!("{round}:{n:05}"), format!("{n:0>60}"))
                .unwrap();
        }
    };
    for round in 0..ROUNDS - 2 {
        fill(round);
        cf.flush(true).unwrap();
        if round == 1 {
            cf.compact_range(None, None).unwrap();
        }
    }
    // Needs the log of the round that begins, which the other one does not.
    other.put("key", "value").unwrap();
    fill(ROUNDS - 2);
    cf.flush(true).unwrap();
    fill(ROUNDS - 1);
    db.close().unwrap();
}

fn file(dir: &Path, begin: &str, end: &str) -> Vec<PathBuf> {
    let files = contents(dir);
    let found = files
        .iter()
        .filter(|(n, c)| n.starts_with(begin) && n.ends_with(end) && !c.is_empty());
    found.map(|(n, _)| dir.join(n)).collect()
}

/// The entries of the default family that are salvaged, and what is said.
fn salvage(dir: &Path) -> (usize, String) {
    let before = contents(dir);
    let done = db("dump", dir, &["--salvage", "--cf", "default"]);
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert_eq!(before, contents(dir));
    let lines = done.out.lines().filter(|l| !l.starts_with('@'));
    (lines.count(), done.err)
}

fn cases(dir: &Path) -> Vec<Value> {
    let said = run(["doctor", "--json", "--db", dir.to_str().unwrap()]);
    assert_eq!(said.code, Some(1), "{said:?}");
    let said: Value = serde_json::from_str(&said.out).unwrap();
    said["cases"].as_array().unwrap().clone()
}

#[test]
fn one_flipped_bit_of_the_manifest_costs_the_record_that_it_hits_not_the_database() {
    let temp = TempDir::new(test_name!());
    let (source, dir) = (temp.join("source"), temp.join("patient"));
    make(&source);
    let manifest = file(&source, "MANIFEST", "").remove(0);
    let name = manifest.file_name().unwrap();
    let bytes = std::fs::read(&manifest).unwrap();
    copy_dir(&source, &dir);
    for at in (9..bytes.len()).step_by(41) {
        let mut flipped = bytes.clone();
        flipped[at] ^= 0x10;
        std::fs::write(dir.join(name), flipped).unwrap();
        let (entries, said) = salvage(&dir);
        assert!(
            entries >= 2 * ENTRIES,
            "byte {at}: {entries} entries, {said}"
        );
    }
    // The last edits once more: tables are added again and deleted again.
    for tail in [bytes.len() / 2, 512.min(bytes.len())] {
        let longer = [&bytes[..], &bytes[bytes.len() - tail..]].concat();
        std::fs::write(dir.join(name), longer).unwrap();
        let (entries, said) = salvage(&dir);
        assert_eq!(entries, ROUNDS * ENTRIES, "{tail}: {said}");
    }
}

/// Without a MANIFEST nothing was salvaged, with a flipped one everything.
#[test]
fn without_a_manifest_the_same_is_salvaged_as_with_a_flipped_one() {
    let temp = TempDir::new(test_name!());
    let source = temp.join("source");
    make(&source);
    let name = file(&source, "MANIFEST", "").remove(0);
    let name = name.file_name().unwrap();
    let len = std::fs::metadata(source.join(name)).unwrap().len();
    type Damage<'a> = (&'a str, Box<dyn Fn(&Path)>);
    let manifest = |dir: &Path| dir.join(name);
    let damages: [Damage; 4] = [
        ("zeros", {
            let zeros = vec![0; usize::try_from(len).unwrap()];
            let name = name.to_owned();
            Box::new(move |dir| std::fs::write(dir.join(&name), &zeros).unwrap())
        }),
        ("empty", {
            let name = name.to_owned();
            Box::new(move |dir| std::fs::write(dir.join(&name), "").unwrap())
        }),
        ("gone", {
            let name = name.to_owned();
            Box::new(move |dir| std::fs::remove_file(dir.join(&name)).unwrap())
        }),
        ("gone with CURRENT", {
            let name = name.to_owned();
            Box::new(move |dir| {
                std::fs::remove_file(dir.join(&name)).unwrap();
                std::fs::remove_file(dir.join("CURRENT")).unwrap();
            })
        }),
    ];
    for (what, damage) in damages {
        let dir = temp.join(what);
        copy_dir(&source, &dir);
        assert!(manifest(&dir).exists());
        damage(&dir);
        let cases = cases(&dir);
        let ways: Vec<&str> = cases
            .iter()
            .map(|c| c["way_out"].as_str().unwrap())
            .collect();
        let salvages = |way: &&str| way.contains("db dump --salvage") && way.contains("backup");
        assert!(ways.iter().any(salvages), "{what}: {cases:?}");
        let (entries, said) = salvage(&dir);
        assert_eq!(entries, ROUNDS * ENTRIES, "{what}: {said}");
        assert!(said.contains("may come to light"), "{what}: {said}");
        let other = db("dump", &dir, &["--salvage", "--cf", "other"]);
        assert_eq!(
            other.out, "@family\tother\nkey\tvalue\n",
            "{what}: {}",
            other.err
        );
    }
    // Values in blob files, operands, range tombstones, families, numbers that are 0, another order of keys.
    for case in CASES {
        let dir = golden_case("golden-11.8", case).copy_to(temp.join(case));
        let wanted = db("dump", &dir, &[]).ok();
        for entry in std::fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if name == "CURRENT" || name.starts_with("MANIFEST") {
                std::fs::remove_file(path).unwrap();
            }
        }
        let salvaged = db("dump", &dir, &["--salvage"]);
        assert_eq!(salvaged.out, wanted, "{case}: {}", salvaged.err);
    }
    // Nothing of a database.
    let none = temp.join("none");
    std::fs::create_dir(&none).unwrap();
    let said = db("dump", &none, &["--salvage"]).fails(1);
    assert!(said.contains("no MANIFEST, no table and no log"), "{said}");
}

#[test]
fn a_copied_log_is_a_case_and_left_out_and_exchanged_logs_are_replayed_in_order() {
    let temp = TempDir::new(test_name!());
    let source = temp.join("source");
    make(&source);
    let logs = file(&source, "0", ".log");
    assert_eq!(logs.len(), 2, "{logs:?}");
    let name = |log: &PathBuf| log.file_name().unwrap().to_str().unwrap().to_string();

    let dir = temp.join("copied");
    copy_dir(&source, &dir);
    std::fs::copy(&logs[1], dir.join("000123.log")).unwrap();
    let found = cases(&dir);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(
        (&found[0]["file"], &found[0]["damage"]),
        (&"000123.log".into(), &"swapped".into())
    );
    assert!(
        found[0]["way_out"].as_str().unwrap().contains("--salvage"),
        "{found:?}"
    );
    let (entries, said) = salvage(&dir);
    assert_eq!(entries, ROUNDS * ENTRIES, "{said}");
    assert!(
        said.contains("left out: of log 000123, or its place: "),
        "{said}"
    );

    let dir = temp.join("exchanged");
    copy_dir(&source, &dir);
    std::fs::copy(&logs[0], dir.join(name(&logs[1]))).unwrap();
    std::fs::copy(&logs[1], dir.join(name(&logs[0]))).unwrap();
    let (entries, said) = salvage(&dir);
    assert_eq!(entries, ROUNDS * ENTRIES, "{said}");
    assert!(said.contains("come in front of those of log "), "{said}");
}

#[test]
fn a_log_of_another_database_is_named() {
    let temp = TempDir::new(test_name!());
    let [dir, other] = ["db", "other"].map(|name| temp.join(name));
    make(&dir);
    make(&other);
    let [ours, theirs] = [&dir, &other].map(|d| file(d, "0", ".log").pop().unwrap());
    let name = ours.file_name().unwrap().to_str().unwrap().to_string();
    assert!(!salvage(&dir).1.contains("doubtful"));
    std::fs::copy(&theirs, &ours).unwrap();
    let (_, said) = salvage(&dir);
    assert!(
        said.contains(&format!("doubtful: {name} may be of another database")),
        "{said}"
    );
}

#[test]
fn giving_up_damage_is_offered_only_if_the_database_opens_without_it() {
    let temp = TempDir::new(test_name!());
    let dir = temp.join("db");
    make(&dir);
    // Of what follows, some is in a table.
    let log = file(&dir, "0", ".log").remove(0);
    let mut bytes = std::fs::read(&log).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&log, bytes).unwrap();
    let cases = cases(&dir);
    assert!(
        cases[0]["what"].as_str().unwrap().contains("synced"),
        "{cases:?}"
    );
    let way_out = cases[0]["way_out"].as_str().unwrap();
    assert!(
        way_out.contains("--salvage") && !way_out.contains("--give-up-damage"),
        "{way_out}"
    );
    let refused = db("flush", &dir, &["--give-up-damage"]).fails(1);
    assert!(refused.contains("Column family inconsistency"), "{refused}");
}

#[test]
fn what_the_system_does_not_read_is_unchecked_and_a_log_of_that_kind_is_left_out() {
    let temp = TempDir::new(test_name!());
    let source = temp.join("source");
    make(&source);
    let cannot_be_read = |path: &Path| {
        std::fs::remove_file(path).unwrap();
        std::os::unix::fs::symlink(path.file_name().unwrap(), path).unwrap();
    };
    for end in [".sst", ".log"] {
        let dir = temp.join(format!("loop{end}"));
        copy_dir(&source, &dir);
        let path = file(&dir, "0", end).pop().unwrap();
        cannot_be_read(&path);
        let said = run(["doctor", "--json", "--db", dir.to_str().unwrap()]);
        assert_eq!(said.code, Some(1), "{said:?}");
        let said: Value = serde_json::from_str(&said.out).unwrap();
        assert!(
            said["verdict"].as_str().unwrap().starts_with("not known"),
            "{said}"
        );
        let case = &said["cases"][0];
        assert_eq!(case["damage"], "unchecked", "{said}");
        let way_out = case["way_out"].as_str().unwrap();
        assert!(
            way_out.starts_with("check the file and the device: ls -l "),
            "{said}"
        );
        let done = db("dump", &dir, &["--salvage", "--cf", "default"]);
        let entries = done.out.lines().filter(|l| !l.starts_with('@')).count();
        assert_eq!(
            (done.code, entries),
            (Some(0), (ROUNDS - 1) * ENTRIES),
            "{}",
            done.err
        );
    }
    let dir = temp.join("pipe");
    copy_dir(&source, &dir);
    let path = file(&dir, "0", ".sst").pop().unwrap();
    std::fs::remove_file(&path).unwrap();
    let made = std::process::Command::new("mkfifo").arg(&path).status();
    assert!(made.unwrap().success());
    let said = run(["doctor", "--db", dir.to_str().unwrap()]).fails(1);
    assert!(said.contains("neither a file nor a directory"), "{said}");
}
