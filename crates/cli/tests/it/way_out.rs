//! Describes what `doctor` prints as the way out, followed to the letter.

use crate::support::{SPANLITH, contents, db, run};
use serde_json::Value;
use spanlith::{Db, FamilyOptions};
use spanlith_testkit::{TempDir, copy_dir, golden_case, test_name};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Entries of each family in tables, and again as many in the log.
const ENTRIES: usize = 200;
const FAMILIES: [&str; 3] = ["default", "users", "images"];

/// A database of three families that was closed: all of its log is known to be synced.
fn make(dir: &Path) {
    let mut builder = Db::builder(dir).create_if_missing(true);
    for name in FAMILIES {
        builder = builder.family(FamilyOptions::new(name));
    }
    let mut options = spanlith::options::DbOptions::default();
    options.create_missing_column_families = true;
    let db = builder
        .options(options)
        .create_if_missing(true)
        .open()
        .unwrap();
    for flushed in [true, false] {
        for n in 0..ENTRIES {
            for name in FAMILIES {
                let key = format!("{name}:{flushed}:{n:05}");
                db.cf(name).unwrap().put(key, format!("{n:0>60}")).unwrap();
            }
        }
        for name in FAMILIES.into_iter().filter(|_| flushed) {
            db.cf(name).unwrap().flush(true).unwrap();
        }
    }
    db.close().unwrap();
}

/// The commands in a text.
fn commands(way_out: &str) -> Vec<String> {
    let from = |word: &str| way_out.match_indices(word).map(|m| m.0).collect::<Vec<_>>();
    let mut starts = from("spanlith db dump --salvage");
    starts.extend(from("spanlith db flush"));
    starts.extend(from("printf "));
    let command = |at: usize| way_out[at..].split("; ").next().unwrap().to_string();
    starts.into_iter().map(command).collect()
}

/// Returns what follows a damage: each command that the doctor names, run on a fresh copy, and the entries of
/// each family afterwards, the new directory's if one is made.
fn follow(source: &Path, temp: &TempDir, damage: &dyn Fn(&Path)) -> Vec<(String, Vec<usize>)> {
    let dir = temp.join("patient");
    let paths = ["", ".salvaged", ".tsv"].map(|s| PathBuf::from(format!("{}{s}", dir.display())));
    let fresh = || {
        for path in &paths {
            let _ = std::fs::remove_dir_all(path);
            let _ = std::fs::remove_file(path);
        }
        copy_dir(source, &dir);
        damage(&dir);
    };
    fresh();
    let before = contents(&dir);
    let said = run(["doctor", "--json", "--db", dir.to_str().unwrap()]);
    assert_eq!(said.code, Some(1), "{said:?}");
    let said: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(before, contents(&dir));
    let mut todo: Vec<String> = Vec::new();
    for case in said["cases"].as_array().unwrap() {
        for command in commands(case["way_out"].as_str().unwrap()) {
            if !todo.contains(&command) {
                todo.push(command);
            }
        }
    }
    assert!(!todo.is_empty(), "{said}");
    let bin = Path::new(SPANLITH).parent().unwrap().display();
    let path = format!("{bin}:{}", std::env::var("PATH").unwrap_or_default());
    let mut out = Vec::new();
    for command in todo {
        fresh();
        let mut shell = Command::new("sh");
        let done = shell
            .args(["-c", &command])
            .env("PATH", &path)
            .output()
            .unwrap();
        assert!(done.status.success(), "{command}: {done:?}");
        let salvages = command.contains("--salvage");
        if salvages {
            assert_eq!(before, contents(&dir), "salvaging changes nothing");
        }
        let result = &paths[usize::from(salvages)];
        let healthy = run(["doctor", "--db", result.to_str().unwrap()]);
        assert_eq!(healthy.code, Some(0), "{command}: {healthy:?}");
        let count = |name| {
            let run = db("count", result, &["--cf", name]);
            run.ok().trim().replace(' ', "").parse().unwrap()
        };
        let kind = [
            "--salvage",
            "--give-up-damage",
            "--default-options",
            "printf",
        ]
        .into_iter()
        .find(|word| command.contains(word));
        out.push((
            kind.unwrap_or_default().to_string(),
            FAMILIES.map(count).to_vec(),
        ));
    }
    out
}

fn flip(path: &Path, at: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[at] ^= 0x10;
    std::fs::write(path, bytes).unwrap();
}

/// The file whose name begins and ends so; the first of several.
fn file(dir: &Path, begin: &str, end: &str) -> PathBuf {
    let files = contents(dir);
    let found = files
        .iter()
        .find(|(n, c)| n.starts_with(begin) && n.ends_with(end) && !c.is_empty());
    dir.join(found.unwrap().0)
}

#[test]
fn every_way_out_works_when_it_is_followed_to_the_letter() {
    let temp = TempDir::new(test_name!());
    let source = temp.join("source");
    make(&source);
    let all = 2 * ENTRIES;
    let follow = |damage: &dyn Fn(&Path)| follow(&source, &temp, damage);
    let done = |kind: &str, counts: [usize; 3]| (kind.to_string(), counts.to_vec());

    let len = std::fs::metadata(file(&source, "0", ".log")).unwrap().len() as usize;
    let log = follow(&|d| flip(&file(d, "0", ".log"), len / 2));
    assert_eq!(log.len(), 2, "{log:?}");
    // The record and one that crosses the end of the block are lost; what is whole after it is not.
    let salvaged: usize = log[0].1.iter().sum();
    assert!((3 * all - 2..3 * all).contains(&salvaged), "{log:?}");
    let counts = &log[1].1;
    assert!(
        counts.iter().all(|n| (all - 120..all - 80).contains(n)),
        "{log:?}"
    );
    let cut = |d: &Path| {
        let log = std::fs::OpenOptions::new()
            .write(true)
            .open(file(d, "0", ".log"));
        log.unwrap().set_len(0).unwrap();
    };
    let lost = [ENTRIES; 3];
    let expect = [done("--salvage", lost), done("--give-up-damage", lost)];
    assert_eq!(follow(&cut), expect);

    let whole = [all; 3];
    assert_eq!(
        follow(&|d| flip(&d.join("CURRENT"), 2)),
        [done("printf", whole)]
    );
    assert_eq!(
        follow(&|d| flip(&d.join("CURRENT"), 12)),
        [done("printf", whole)]
    );
    let options = follow(&|d| {
        let path = file(d, "OPTIONS", "");
        let at = std::fs::read_to_string(&path)
            .unwrap()
            .find("max_open_files")
            .unwrap();
        flip(&path, at);
    });
    assert_eq!(options, [done("--default-options", whole)]);

    // The record at the front: the rest of the MANIFEST is found after it.
    let first = follow(&|d| flip(&file(d, "MANIFEST", ""), 9));
    assert_eq!(first, [done("--salvage", whole)]);
    let shorter = follow(&|d| {
        let path = file(d, "MANIFEST", "");
        let len = std::fs::metadata(&path).unwrap().len();
        let manifest = std::fs::OpenOptions::new().write(true).open(path).unwrap();
        manifest.set_len(len / 2).unwrap();
    });
    assert_eq!(shorter.len(), 1, "{shorter:?}");

    let block = follow(&|d| flip(&file(d, "0", ".sst"), 30));
    assert_eq!(block.len(), 1);
    let lost = 3 * all - block[0].1.iter().sum::<usize>();
    assert!((1..ENTRIES).contains(&lost), "{block:?}");
    let footer = follow(&|d| {
        let path = file(d, "0", ".sst");
        let len = std::fs::metadata(&path).unwrap().len() as usize;
        flip(&path, len - 2);
    });
    assert_eq!(
        footer[0].1.iter().sum::<usize>(),
        3 * all - ENTRIES,
        "{footer:?}"
    );
    let gone = follow(&|d| std::fs::remove_file(file(d, "0", ".sst")).unwrap());
    assert_eq!(gone, footer);
}

#[test]
fn the_values_of_a_damaged_blob_file_are_named_and_the_others_salvaged() {
    let temp = TempDir::new(test_name!());
    let dir = golden_case("golden-11.8", "blob").copy_to(temp.join("blob"));
    let path = file(&dir, "0", ".blob");
    let all: usize = db("count", &dir, &[]).ok().trim().parse().unwrap();
    let whole = db("dump", &dir, &[]).ok();
    flip(&path, 31);
    let said = run(["doctor", "--json", "--db", dir.to_str().unwrap()]);
    let said: Value = serde_json::from_str(&said.out).unwrap();
    let stake = said["cases"][0]["at_stake"].as_str().unwrap();
    assert!(
        stake.starts_with("the value of key00000 in family default"),
        "{said}"
    );
    let salvaged = db("dump", &dir, &["--salvage"]);
    assert_eq!(salvaged.code, Some(0), "{salvaged:?}");
    let lines: Vec<&str> = salvaged.out.lines().collect();
    assert!(lines.iter().all(|l| whole.lines().any(|w| w == *l)));
    assert!(lines.len() <= all && lines.len() > 1, "{}", lines.len());
    assert!(salvaged.err.contains("left out: value of "), "{salvaged:?}");
}
