//! `doctor`: what it says before is what opening then does, and it changes nothing.

use crate::support::{contents, run};
use serde_json::Value;
use spanlith::options::InfoLogLevel;
use spanlith::{Db, Logger};
use spanlith_testkit::{Rng, TempDir, copy_dir, golden_case, seed, test_name};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// Runs `doctor --json`; checks that it changes nothing and that exit code and verdict agree.
fn examine(dir: &Path) -> Value {
    let before = contents(dir);
    let run = run(["doctor", "--json", "--db", dir.to_str().unwrap()]);
    assert!(contents(dir) == before, "doctor changed {}", dir.display());
    let found: Value = serde_json::from_str(&run.out).unwrap_or_else(|e| panic!("{e}: {run:?}"));
    let code = if found["healthy"] == true { 0 } else { 1 };
    assert_eq!(run.code, Some(code), "{run:?}");
    found
}

#[derive(Default)]
struct Ear(Mutex<Vec<String>>);

impl Logger for Ear {
    fn log(&self, level: InfoLogLevel, line: &str) {
        if [InfoLogLevel::Warn, InfoLogLevel::Error].contains(&level) {
            self.0.lock().unwrap().push(line.to_string());
        }
    }
}

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

/// Returns what opening does: an error, or its warnings and what can then be read.
fn open(dir: &Path) -> Result<(Vec<String>, Result<Entries, String>), String> {
    let ear = Arc::new(Ear::default());
    let db = Db::builder(dir).all_families().logger(ear.clone()).open();
    let db = db.map_err(|e| e.to_string())?;
    let warnings = ear.0.lock().unwrap().clone();
    let entries: Result<Entries, String> = db
        .default_cf()
        .iter()
        .map(|e| {
            e.map(|(k, v)| (k.to_vec(), v.to_vec()))
                .map_err(|e| e.to_string())
        })
        .collect();
    Ok((warnings, entries))
}

/// A database with tables in two levels and a log, as a killed process leaves it, and beside it, under
/// `closed`, as it was closed: then its log says that all of it is synced.
fn make(dir: &Path) -> Entries {
    let closed = dir.with_extension("closed");
    let db = Db::open(&closed).unwrap();
    let cf = db.default_cf();
    let key = |n: u32| format!("key{n:04}");
    for n in 0..120 {
        cf.put(key(n), format!("{n:0>40}")).unwrap();
        if n == 40 {
            cf.compact_all().unwrap();
        }
        if n == 80 {
            cf.flush(true).unwrap();
        }
    }
    let entries = cf.iter().map(|e| e.map(|(k, v)| (k.to_vec(), v.to_vec())));
    let entries = entries.collect::<Result<_, _>>().unwrap();
    copy_dir(&closed, dir);
    db.close().unwrap();
    entries
}

#[test]
fn whatever_opening_refuses_or_drops_the_doctor_says_before() {
    let temp = TempDir::new(test_name!());
    let mut rng = Rng::new(seed(test_name!()));
    let source = temp.join("source");
    let entries = make(&source);
    assert_eq!(examine(&source)["healthy"], true);
    let names: Vec<String> = contents(&source)
        .into_iter()
        .filter(|(n, c)| !c.is_empty() && !["LOCK", "LOG", "IDENTITY"].contains(&n.as_str()))
        .map(|(n, _)| n)
        .filter(|n| !n.starts_with("LOG.") && !n.starts_with("OPTIONS"))
        .collect();
    assert!(names.len() >= 5, "{names:?}");
    let (mut refused, mut dropped, mut silent) = (0, 0, 0);
    for round in 0..18 {
        let source = match round % 2 {
            0 => source.clone(),
            _ => source.with_extension("closed"),
        };
        for name in &names {
            let dir = temp.join(format!("{round} {name}"));
            copy_dir(&source, &dir);
            // Files that were obsolete when the process was killed are gone after a close.
            if !dir.join(name).exists() {
                continue;
            }
            let mut bytes = std::fs::read(dir.join(name)).unwrap();
            let at = rng.index(bytes.len());
            let flips = round % 3 != 2;
            match flips {
                true => bytes[at] ^= 1 << rng.index(8),
                false => bytes.truncate(at),
            }
            std::fs::write(dir.join(name), bytes).unwrap();
            let said = examine(&dir);
            let context = format!("{name} byte {at} flipped {flips}: {said}");
            match open(&dir) {
                Err(e) => {
                    refused += 1;
                    assert_eq!(said["open"]["error"], e.as_str(), "{context}");
                    assert_eq!(said["healthy"], false, "{context}");
                }
                Ok((warnings, read)) => {
                    assert_eq!(said["open"]["error"], Value::Null, "{context}");
                    let told: Vec<&str> = said["open"]["warnings"]
                        .as_array()
                        .unwrap()
                        .iter()
                        .map(|w| w.as_str().unwrap())
                        .collect();
                    assert_eq!(told, warnings, "{context}");
                    if warnings.iter().any(|w| w.contains("dropped")) {
                        dropped += 1;
                        assert!(
                            said["healthy"] == false || said["cases"][0]["damage"] == "torn",
                            "{context}"
                        );
                    }
                    if read.as_ref() != Ok(&entries) {
                        let named = said["cases"]
                            .as_array()
                            .unwrap()
                            .iter()
                            .any(|c| c["file"] == name.as_str());
                        // A file that ends between two records looks as if it had been so.
                        silent += u32::from(!named);
                        assert!(named || !flips, "{context}");
                    }
                }
            }
        }
    }
    println!("{refused} refused, {dropped} dropped, {silent} unnoticeable");
    assert!(refused > 10 && dropped > 2, "{refused} {dropped}");
}

#[test]
fn damage_is_named_with_keys_and_a_way_out() {
    let temp = TempDir::new(test_name!());
    let source = temp.join("source");
    make(&source);
    let files: Vec<String> = contents(&source).into_keys().collect();
    let find = |end: &str| {
        files
            .iter()
            .filter(|n| n.ends_with(end))
            .cloned()
            .collect::<Vec<_>>()
    };
    let damaged = |name: &str, change: &dyn Fn(&mut Vec<u8>)| {
        let dir = temp.join(format!("{name} {}", contents(&temp.join("")).len()));
        copy_dir(&source, &dir);
        let mut bytes = std::fs::read(dir.join(name)).unwrap();
        change(&mut bytes);
        std::fs::write(dir.join(name), bytes).unwrap();
        dir
    };
    let case = |dir: &Path| examine(dir)["cases"][0].clone();

    let table = &find(".sst")[0];
    let dir = damaged(table, &|b| b[30] ^= 4);
    let found = case(&dir);
    assert_eq!(
        (&found["damage"], &found["file"]),
        (&"flipped".into(), &table.as_str().into())
    );
    assert!(
        found["at_stake"]
            .as_str()
            .unwrap()
            .contains("entries from key0000 up to"),
        "{found}"
    );
    assert!(
        found["way_out"].as_str().unwrap().contains("from a backup"),
        "{found}"
    );
    let text = run(["doctor", "--db", dir.to_str().unwrap()]);
    assert_eq!(text.code, Some(1));
    assert!(
        text.out
            .contains("damaged: it opens, and reads of the damaged parts fail"),
        "{text:?}"
    );
    assert!(
        text.err.starts_with("next:  copy the directory"),
        "{text:?}"
    );

    let dir = damaged(table, &|b| b.truncate(700));
    assert_eq!(case(&dir)["damage"], "truncated");
    let dir = damaged(table, &|_| {});
    std::fs::remove_file(dir.join(table)).unwrap();
    assert_eq!(case(&dir)["damage"], "missing");
    assert!(
        case(&dir)["at_stake"]
            .as_str()
            .unwrap()
            .contains("keys key0000 .. ")
    );
    let tables = find(".sst");
    let dir = damaged(table, &|_| {});
    std::fs::copy(dir.join(&tables[1]), dir.join(&tables[0])).unwrap();
    assert!(
        examine(&dir)["cases"]
            .as_array()
            .unwrap()
            .iter()
            .any(|c| c["damage"] == "swapped")
    );

    let log = find(".log").pop().unwrap();
    let dir = damaged(&log, &|b| b[90] ^= 1);
    let found = case(&dir);
    assert_eq!(found["damage"], "flipped", "{found}");
    let said = examine(&dir);
    assert_eq!(
        said["verdict"], "damaged: it opens without some of its contents",
        "{said}"
    );
    let dir = damaged(&log, &|b| b.truncate(b.len() - 5));
    let said = examine(&dir);
    assert_eq!(
        (&said["healthy"], &said["cases"][0]["damage"]),
        (&true.into(), &"torn".into()),
        "{said}"
    );

    let dir = damaged("CURRENT", &|b| b.clear());
    let found = case(&dir);
    assert_eq!(found["file"], "CURRENT");
    let way_out = found["way_out"].as_str().unwrap();
    let repair = way_out.split_once(": ").unwrap().1;
    assert!(
        std::process::Command::new("sh")
            .args(["-c", repair])
            .status()
            .unwrap()
            .success()
    );
    assert_eq!(examine(&dir)["healthy"], true);
    let manifest = files.iter().find(|n| n.starts_with("MANIFEST")).unwrap();
    let dir = damaged(manifest, &|b| b[60] ^= 1);
    let said = examine(&dir);
    assert_eq!(said["verdict"], "damaged: it does not open", "{said}");
}

#[test]
fn directories_of_rocksdb_are_healthy() {
    let temp = TempDir::new(test_name!());
    for (version, name) in [
        ("golden-7.8", "default"),
        ("golden-7.8", "multi-cf"),
        ("golden-11.8", "blob"),
        ("golden-11.8", "range-tombstones"),
        ("golden-11.8", "udt-u64"),
    ] {
        let dir = golden_case(version, name).copy_to(temp.join(format!("{version} {name}")));
        let said = examine(&dir);
        assert_eq!(said["healthy"], true, "{version} {name}: {said}");
    }
}

#[test]
fn a_directory_without_a_database_has_no_doctor() {
    let temp = TempDir::new(test_name!());
    let path = temp.join("");
    let err = run(["doctor", "--db", path.to_str().unwrap()]).fails(1);
    assert!(err.contains("there is no database in"), "{err}");
}

/// Two folders: one of an open database, and `killed`, a copy of it from just before its last flush, with the table of
/// that flush. `write` writes what is flushed.
fn killed_behind_a_flush(temp: &TempDir, write: impl FnOnce(&spanlith::Cf)) -> PathBuf {
    let (live, dir) = (temp.join("live"), temp.join("killed"));
    let mut evidence = spanlith::options::OwnDbOptions::default();
    // As of RocksDB: nothing in the MANIFEST explains the table.
    evidence.evidence = false;
    let db = Db::builder(&live).create_if_missing(true);
    let db = db.own(evidence).open().unwrap();
    let cf = db.default_cf();
    cf.put("a", "first").unwrap();
    cf.flush(true).unwrap();
    write(&cf);
    copy_dir(&live, &dir);
    let before = contents(&live);
    cf.flush(true).unwrap();
    let mut made = contents(&live);
    made.retain(|name, _| name.ends_with(".sst") && !before.contains_key(name));
    let (name, table) = made.first_key_value().unwrap();
    std::fs::write(dir.join(name), table).unwrap();
    dir
}

#[test]
fn a_table_that_a_kill_left_unnamed_counts_as_dropped_only_if_its_updates_are_not_recovered() {
    let temp = TempDir::new(test_name!());
    let dir = killed_behind_a_flush(&temp, |cf| cf.put("b", "second").unwrap());
    let found = examine(&dir);
    assert_eq!(found["healthy"], true, "{found}");
    let warning = found["open"]["warnings"][0].as_str().unwrap();
    // The later one of the two tables.
    let name = contents(&dir).into_keys().rfind(|n| n.ends_with(".sst"));
    assert!(warning.starts_with(&name.unwrap()), "{found}");
    assert_eq!(
        found["open"]["files_gone"].as_array().unwrap().len(),
        2,
        "{found}"
    );

    // Without the log its updates are nowhere else.
    let log = contents(&dir)
        .into_iter()
        .rfind(|(n, c)| n.ends_with(".log") && !c.is_empty());
    std::fs::write(dir.join(log.unwrap().0), b"").unwrap();
    let found = examine(&dir);
    assert_eq!(found["healthy"], false, "{found}");
}

/// Only the highest number was compared, which the log had from a later write.
#[test]
fn a_table_that_a_kill_left_unnamed_counts_as_dropped_if_some_of_it_was_in_no_log() {
    let temp = TempDir::new(test_name!());
    let dir = killed_behind_a_flush(&temp, |cf| {
        let unlogged = spanlith::WriteOptions::new().disable_wal(true);
        cf.put_opt("b", "in no log", &unlogged).unwrap();
        cf.put("c", "logged").unwrap();
    });
    let found = examine(&dir);
    assert_eq!(found["healthy"], false, "{found}");
}

/// A directory with a log of many records, some of which reach over the end of a block, as a killed process leaves it.
fn long_log(dir: &Path) -> PathBuf {
    let live = dir.with_extension("live");
    let mut evidence = spanlith::options::OwnDbOptions::default();
    // As of RocksDB: nothing says how much of the log was durable.
    evidence.evidence = false;
    let db = Db::builder(&live).create_if_missing(true);
    let db = db.own(evidence).open().unwrap();
    for n in 0..2000 {
        let value = format!("value{n} ").repeat(1 + n % 20);
        db.default_cf().put(format!("key{n:06}"), value).unwrap();
    }
    copy_dir(&live, dir);
    db.close().unwrap();
    let log = contents(dir)
        .into_iter()
        .rfind(|(n, c)| n.ends_with(".log") && !c.is_empty());
    dir.join(log.unwrap().0)
}

/// The rest of the record that reaches into the next block was a case of its own, with updates of its own.
#[test]
fn one_flipped_byte_of_a_log_is_one_case() {
    let temp = TempDir::new(test_name!());
    let dir = temp.join("db");
    let log = long_log(&dir);
    let bytes = std::fs::read(&log).unwrap();
    let mut rng = Rng::new(seed(test_name!()));
    for block in [0, 2, 4] {
        let mut flipped = bytes.clone();
        // Not in the first header, whose place decides what kind of log it is.
        let at = (block << 15) + 100 + rng.index(20_000);
        flipped[at] ^= 4;
        std::fs::write(&log, flipped).unwrap();
        let said = examine(&dir);
        let cases = said["cases"].as_array().unwrap();
        assert_eq!(cases.len(), 1, "byte {at}: {said}");
        assert_eq!(cases[0]["damage"], "flipped", "byte {at}: {said}");
    }
}

/// A flipped size makes a record look cut off, and the open drops all that follows without a word.
#[test]
fn a_record_that_looks_torn_is_damage_if_whole_ones_follow() {
    let temp = TempDir::new(test_name!());
    let dir = temp.join("db");
    let log = long_log(&dir);
    let mut bytes = std::fs::read(&log).unwrap();
    // The upper byte of the size of a record near the end, which then reaches beyond it.
    let from = bytes.len() - 3000;
    let key = from + bytes[from..].windows(3).position(|w| w == b"key").unwrap();
    // Header of the record (7), of the batch (12), kind (1), length of the key (1).
    bytes[key - 21 + 5] ^= 0x40;
    std::fs::write(&log, bytes).unwrap();
    let said = examine(&dir);
    assert_eq!(said["healthy"], false, "{said}");
    assert_eq!(
        said["verdict"], "damaged: it opens without some of its contents",
        "{said}"
    );
    let what = said["cases"][0]["what"].as_str().unwrap();
    assert!(what.contains("whole records follow"), "{said}");
    let way_out = said["cases"][0]["way_out"].as_str().unwrap();
    assert!(way_out.contains("--salvage"), "{said}");
}

#[test]
fn a_file_that_nobody_needs_and_a_program_that_cannot_open_do_not_contradict_the_verdict() {
    let temp = TempDir::new(test_name!());
    let dir = golden_case("golden-11.8", "txn-write-prepared").copy_to(temp.join("db"));
    let text = run(["doctor", "--db", dir.to_str().unwrap()]);
    assert!(!text.out.contains("opening this program"), "{text:?}");
    let words = [
        "opening cannot be tried with this program",
        "opening succeeds",
    ];
    assert!(words.iter().any(|w| text.out.contains(w)), "{text:?}");
    // Cases are listed; how many remarks a check made would contradict them.
    assert!(!text.out.contains("finding"), "{text:?}");
    // Directories that the options name and that are not there are no lack of the program.
    let dir = golden_case("golden-11.8", "db-paths").copy_to(temp.join("paths"));
    let text = run(["doctor", "--db", dir.to_str().unwrap()]);
    assert!(text.out.contains("opening is refused: "), "{text:?}");
}

/// The output of a compaction that was killed was thought to be lost if its values were in blob files.
#[test]
fn tables_with_values_in_blob_files_that_a_kill_left_are_compared_too() {
    let temp = TempDir::new(test_name!());
    let (live, dir) = (temp.join("live"), temp.join("db"));
    let mut evidence = spanlith::options::OwnDbOptions::default();
    evidence.evidence = false;
    let mut options = spanlith::options::CfOptions::default();
    options.enable_blob_files = true;
    options.min_blob_size = 8;
    options.disable_auto_compactions = true;
    let family = spanlith::FamilyOptions::new("default").options(options);
    let db = Db::builder(&live).create_if_missing(true).family(family);
    let db = db.own(evidence).open().unwrap();
    let cf = db.default_cf();
    for round in 0..2 {
        for n in 0..50 {
            cf.put(format!("key{n:03}"), format!("{round} {n:0>40}"))
                .unwrap();
        }
        cf.flush(true).unwrap();
    }
    copy_dir(&live, &dir);
    let before = contents(&live);
    cf.compact_all().unwrap();
    let mut made = contents(&live);
    made.retain(|name, _| name.ends_with(".sst") && !before.contains_key(name));
    assert!(!made.is_empty());
    for (name, table) in &made {
        std::fs::write(dir.join(name), table).unwrap();
    }
    let found = examine(&dir);
    assert_eq!(found["healthy"], true, "{found}");
    // A value that is hidden by a newer one is damaged: nothing that is read is lost.
    let blob = contents(&dir)
        .into_iter()
        .find(|(n, _)| n.ends_with(".blob"))
        .unwrap();
    let mut bytes = blob.1;
    let at = bytes.windows(3).position(|w| w == b"key").unwrap();
    bytes[at + 20] ^= 1;
    std::fs::write(dir.join(blob.0), bytes).unwrap();
    let found = examine(&dir);
    assert_eq!(
        found["verdict"], "damaged: it opens with all its contents",
        "{found}"
    );
}

/// A link that leads nowhere was not seen, and nothing said why the open is refused.
#[test]
fn a_link_that_leads_nowhere_under_the_name_of_a_log_is_a_case() {
    let temp = TempDir::new(test_name!());
    let dir = temp.join("db");
    make(&dir);
    std::os::unix::fs::symlink("/nowhere/at/all", dir.join("000999.log")).unwrap();
    let found = run(["doctor", "--json", "--db", dir.to_str().unwrap()]);
    let said: Value = serde_json::from_str(&found.out).unwrap();
    assert_eq!(
        (found.code, &said["healthy"]),
        (Some(1), &false.into()),
        "{said}"
    );
    let cases = said["cases"].as_array().unwrap();
    assert!(cases.iter().any(|c| c["file"] == "000999.log"), "{said}");
}

/// Two whole blob files of one length, each under the other's name, were called healthy.
#[test]
fn blob_files_of_one_length_under_each_others_names_are_found() {
    let temp = TempDir::new("doctor exchanged blobs of one length");
    let dir = temp.join("db");
    let mut options = spanlith::options::CfOptions::default();
    options.enable_blob_files = true;
    options.disable_auto_compactions = true;
    let builder = Db::builder(&dir)
        .create_if_missing(true)
        .cf_options(options);
    let db = builder.open().unwrap();
    for round in 0..2 {
        for n in 0..20 {
            let key = format!("key{round}{n:02}");
            db.default_cf().put(key, vec![b'a' + n; 50]).unwrap();
        }
        db.flush(true).unwrap();
    }
    db.close().unwrap();
    assert_eq!(examine(&dir)["healthy"], true);
    let files = contents(&dir).into_iter();
    let blobs: Vec<_> = files.filter(|(n, _)| n.ends_with(".blob")).collect();
    let [(a, first), (b, second)] = &blobs[..] else {
        panic!("{} blob files", blobs.len())
    };
    assert_eq!(first.len(), second.len());
    std::fs::write(dir.join(a), second).unwrap();
    std::fs::write(dir.join(b), first).unwrap();
    let found = examine(&dir);
    let cases = found["cases"].as_array().unwrap();
    let named: Vec<_> = cases
        .iter()
        .map(|c| (c["file"].as_str().unwrap(), c["damage"].as_str().unwrap()))
        .collect();
    assert_eq!(named, [(a.as_str(), "swapped"), (b.as_str(), "swapped")]);
    let verdict = found["verdict"].as_str().unwrap();
    assert!(
        verdict.contains("reads of the damaged parts fail"),
        "{verdict}"
    );
}
