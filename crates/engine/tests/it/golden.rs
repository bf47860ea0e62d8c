//! Databases written by RocksDB 7.8.3, 11.8.1 and 11.12.0 (`fixtures/golden`) read back equal, read-only and
//! read-write.

use spanlith::options::{CfOptions, DbOptions, OptionsFile};
use spanlith::{Db, DbPath, FamilyOptions, OpenBuilder, ReadOptions};
use spanlith_env::Env;
use spanlith_testkit::{ExpectedFamily, GoldenCase, TempDir, golden_cases};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

type Rows = Vec<(Vec<u8>, Vec<u8>)>;

/// Contents by family.
type Contents = BTreeMap<String, Rows>;

/// Cases with tables from outside, of which only the MANIFEST says when they were taken in.
const NEEDS_MANIFEST: [&str; 2] = ["ingest", "ingested"];
/// Of so many repairs of golden directories one is tried.
const REPAIR_STEP: usize = 5;

/// Kept by RocksDB for itself.
const STATS_FAMILY: &str = "___rocksdb_stats_history___";

fn rows(db: &Db) -> spanlith::Result<Contents> {
    let mut out = Contents::new();
    for cf in db.cfs() {
        let mut options = ReadOptions::default();
        let timestamp = cf.comparator().timestamp_size();
        if timestamp != 0 {
            // The latest there is.
            options.timestamp = Some(vec![0xff; timestamp]);
        }
        let rows = cf
            .iter_opt(options)
            .map(|e| e.map(|(k, v)| (k.into_vec(), v.into_vec())));
        out.insert(
            cf.name().to_string(),
            rows.collect::<spanlith::Result<Rows>>()?,
        );
    }
    out.remove(STATS_FAMILY);
    Ok(out)
}

fn expected(families: &[ExpectedFamily]) -> Contents {
    let all = families.iter().map(|f| (f.name.clone(), f.entries.clone()));
    all.filter(|f| f.0 != STATS_FAMILY).collect()
}

/// Returns what a user has to know to open a directory: its families, their order and merge operators.
fn builder(dir: &Path, families: &[ExpectedFamily]) -> OpenBuilder {
    // Paths that no file of the database names, relative to the directory that holds the case.
    let case = dir.parent().unwrap_or(dir);
    let path = |name: &str, bytes| DbPath::new(case.join(name), bytes);
    let persisted = OptionsFile::load(&Env::system(), dir).ok();
    let mut builder = Db::builder(dir);
    let mut options = DbOptions::default();
    if case.join("p0").is_dir() {
        options.wal_dir = case.join("wal").display().to_string();
        let paths = vec![path("p0", 4096), path("p1", 1 << 20)];
        builder = builder.db_paths(paths);
    }
    if let Some(persisted) = &persisted {
        // Undecided transactions are set aside and stay in their logs.
        options.allow_2pc = persisted.db.allow_2pc;
        // The options that go with tables without timestamps.
        options.allow_concurrent_memtable_write = persisted.db.allow_concurrent_memtable_write;
    }
    builder = builder.options(options);
    for f in families {
        let mut known = persisted.iter().flat_map(|p| &p.families);
        let known = known.find(|k| k.0 == f.name);
        let mut options = CfOptions::default();
        if let Some((_, o, _)) = known {
            options.comparator.clone_from(&o.comparator);
            options.merge_operator.clone_from(&o.merge_operator);
            options.num_levels = o.num_levels;
            options.persist_user_defined_timestamps = o.persist_user_defined_timestamps;
        }
        let mut family = FamilyOptions::new(&f.name).options(options);
        if f.name == "elsewhere" {
            family = family.paths(vec![path("cf1", 1 << 20)]);
        }
        builder = builder.family(family);
    }
    builder
}

fn snapshot_of(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut out = BTreeMap::new();
    for e in std::fs::read_dir(dir).unwrap() {
        let path = e.unwrap().path();
        if path.is_dir() {
            out.extend(snapshot_of(&path));
        } else {
            out.insert(path.clone(), std::fs::read(&path).unwrap());
        }
    }
    out
}

/// The contents as this build reads them, or why it refuses.
fn read(dir: &Path, families: &[ExpectedFamily]) -> Result<Contents, spanlith::Error> {
    let before = snapshot_of(dir);
    let builder = || builder(dir, families);
    let read_only = builder().open_read_only().and_then(|db| rows(&db));
    assert!(before == snapshot_of(dir), "reading changed the directory");
    let db = match builder().open() {
        Ok(db) => db,
        Err(e) => {
            assert!(
                read_only.is_err(),
                "read-only opens what read-write refuses: {e}"
            );
            return Err(e);
        }
    };
    let first = rows(&db)?;
    assert!(read_only? == first, "read-only sees something else");
    db.close()?;
    let again = rows(&builder().open()?)?;
    assert!(again == first, "the second open sees something else");
    Ok(first)
}

/// The contents of a database with prepared transactions of the policy write-prepared, which must be
/// named and is read only.
fn read_write_prepared(
    dir: &Path,
    families: &[ExpectedFamily],
) -> Result<Contents, spanlith::Error> {
    let before = snapshot_of(dir);
    let opened = builder(dir, families).write_prepared().open_read_only();
    let rows = opened.and_then(|db| rows(&db));
    assert!(before == snapshot_of(dir), "reading changed the directory");
    rows
}

/// Fails unless it reads equal.
fn judge(case: &GoldenCase) -> Result<(), String> {
    let temp = TempDir::new("golden");
    let dir = case.copy_to(temp.path());
    let families = case.expected_families();

    let ours = match read(&dir, &families) {
        Err(e) if e.to_string().contains("WritePrepared") => read_write_prepared(&dir, &families),
        ours => ours,
    };
    let name = format!("{}/{}", case.directory, case.name);
    match ours {
        Ok(rows) => {
            let mut want = expected(&families);
            if case.name == "ttl-db" {
                // Opened plainly, as here, a TTL database shows the four bytes of time.
                let (want, rows) = (want.get_mut("default").unwrap(), &rows["default"]);
                assert_eq!(rows.len(), want.len());
                for (w, r) in want.iter_mut().zip(rows) {
                    w.1.extend_from_slice(&r.1[r.1.len() - 4..]);
                }
            }
            if rows == want {
                Ok(())
            } else {
                Err(format!("{name}: misread"))
            }
        }
        Err(e) => Err(format!("{name}: {e}")),
    }
}

/// Repairs a case, with CURRENT and MANIFEST or without, and compares what is read then.
fn judge_repair(case: &GoldenCase, has_manifest: bool) -> Result<(), String> {
    let temp = TempDir::new("golden-repair");
    let dir = case.copy_to(temp.path());
    let families = case.expected_families();
    let name = format!("{}/{} {has_manifest}", case.directory, case.name);
    let builder = || builder(&dir, &families);
    // As it is read without a repair; what cannot be opened is of no concern here.
    let Ok(before) = builder().open_read_only().and_then(|db| rows(&db)) else {
        return Ok(());
    };
    if !has_manifest {
        for entry in std::fs::read_dir(&dir).unwrap() {
            let entry = entry.unwrap();
            let file = entry.file_name().to_string_lossy().into_owned();
            if file == "CURRENT" || file.starts_with("MANIFEST") {
                std::fs::remove_file(entry.path()).unwrap();
            }
        }
    }
    let report = builder().repair().map_err(|e| format!("{name}: {e}"))?;
    let lost: Vec<_> = report.lost.iter().filter(|f| f.is_loss).collect();
    let all = builder().open().and_then(|db| rows(&db));
    let all = all.map_err(|e| format!("{name}: {e}"))?;
    let is_missing = has_manifest && !report.missing.is_empty();
    match all == before && lost.is_empty() && !is_missing {
        true => Ok(()),
        false => Err(format!("{name}: {lost:?} {:?}", report.missing)),
    }
}

#[test]
fn golden_databases_read_as_before_when_they_were_repaired() {
    let cases = golden_cases();
    let both = [true, false].into_iter();
    let all = both.flat_map(|has_manifest| cases.iter().map(move |case| (case, has_manifest)));
    let failures: Vec<String> = all
        .enumerate()
        // A part of them, the same each time: all take half a minute.
        .filter(|(at, _)| at % REPAIR_STEP == 0)
        .filter(|(_, (case, has_manifest))| *has_manifest || !NEEDS_MANIFEST.contains(&&*case.name))
        .filter_map(|(_, (case, has_manifest))| judge_repair(case, has_manifest).err())
        .collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Holds O2.
#[test]
fn golden_databases_read_back_equal() {
    let cases = golden_cases();
    assert_eq!(cases.len(), 166);
    let failures: Vec<String> = cases.iter().filter_map(|case| judge(case).err()).collect();
    println!("{} of {} equal", cases.len() - failures.len(), cases.len());
    assert!(
        failures.is_empty(),
        "{} failures:\n{}",
        failures.len(),
        failures.join("\n")
    );
}
