//! Databases written by RocksDB 7.8.3 and 11.8.1 (`fixtures/golden`): those of milestone 1 read back
//! equal, read-only and read-write; the others read equal too or are refused by name. None is
//! misread.

use spanlith::{Db, ErrorKind};
use spanlith_testkit::{ExpectedFamily, GoldenCase, TempDir, golden_cases};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

type Rows = Vec<(Vec<u8>, Vec<u8>)>;

fn rows(db: &Db) -> spanlith::Result<Rows> {
    let all = db.default_cf().iter();
    all.map(|e| e.map(|(k, v)| (k.into_vec(), v.into_vec())))
        .collect()
}

fn expected(family: &ExpectedFamily) -> Rows {
    family.entries.clone()
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
fn read(dir: &Path) -> Result<Rows, spanlith::Error> {
    let before = snapshot_of(dir);
    let read_only = Db::builder(dir).open_read_only().and_then(|db| rows(&db));
    assert!(before == snapshot_of(dir), "reading changed the directory");
    let db = match Db::builder(dir).open() {
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
    let again = rows(&Db::builder(dir).open()?)?;
    assert!(again == first, "the second open sees something else");
    Ok(first)
}

fn judge(case: &GoldenCase) -> Result<(), String> {
    let temp = TempDir::new("golden");
    let dir = case.copy_to(temp.path());
    let families = case.expected_families();

    let ours = read(&dir);
    let name = format!("{}/{}", case.directory, case.name);
    match ours {
        Ok(rows) => {
            // Refusals are by feature; what opens must be right, whatever its milestone.
            let mut want = families.first().map(expected).unwrap_or_default();
            if case.name == "ttl-db" {
                // Opened plainly, as here, a TTL database shows the four bytes of time.
                assert_eq!(rows.len(), want.len());
                for (w, r) in want.iter_mut().zip(&rows) {
                    w.1.extend_from_slice(&r.1[r.1.len() - 4..]);
                }
            }
            if rows == want {
                Ok(())
            } else {
                Err(format!("{name}: misread"))
            }
        }
        Err(e) if case.milestone == 1 => Err(format!("{name}: {e}")),
        Err(e) => {
            let fair = matches!(
                e.kind(),
                ErrorKind::NotSupported | ErrorKind::InvalidArgument
            ) || e.kind() == ErrorKind::Corruption
                && case.without_that.contains("Corruption");
            if fair {
                Ok(())
            } else {
                Err(format!("{name}: refused with {e}"))
            }
        }
    }
}

#[test]
fn golden_databases_read_back_equal_or_are_refused_by_name() {
    let cases = golden_cases();
    assert_eq!(cases.len(), 142);
    let mut failures = Vec::new();
    let mut of_milestone_1 = 0;
    for case in &cases {
        of_milestone_1 += usize::from(case.milestone == 1);
        if let Err(e) = judge(case) {
            failures.push(e);
        }
    }
    assert!(
        failures.is_empty(),
        "{} failures:\n{}",
        failures.len(),
        failures.join("\n")
    );
    assert_eq!(of_milestone_1, 27);
}
