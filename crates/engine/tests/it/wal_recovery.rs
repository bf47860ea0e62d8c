//! Damaged logs of RocksDB: 60 directories opened in each of the four recovery modes end as the tables
//! of `fixtures/wal/recovery` say (11.8.1 first, 7.8.3 where they agree).

use spanlith::options::{DbOptions, WalRecoveryMode};
use spanlith::{Db, FamilyOptions};
use spanlith_testkit::{RecoveryOutcome, TempDir, fixtures_dir, named_keys, recovery_outcomes};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The base directory with the changes of the variant.
fn directory(row: &RecoveryOutcome, to: &Path) {
    let root = fixtures_dir().join("wal/recovery");
    let variant = root.join("variants").join(&row.variant);
    for from in [root.join(&row.base), variant] {
        for entry in std::fs::read_dir(from).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if let Some(gone) = name.strip_suffix(".deleted") {
                std::fs::remove_file(to.join(gone)).unwrap();
            } else if name != "about.txt" && name != "LOCK" {
                std::fs::copy(&path, to.join(name)).unwrap();
            }
        }
    }
}

fn open(row: &RecoveryOutcome, dir: &Path, mode: WalRecoveryMode) -> spanlith::Result<Db> {
    let mut options = DbOptions::default();
    options.wal_recovery_mode = mode;
    let mut builder = Db::builder(dir).options(options).no_info_log();
    if row.base != "noflush" {
        builder = builder.family(FamilyOptions::new("x"));
    }
    builder.open()
}

fn keys(db: &Db) -> BTreeMap<String, BTreeSet<String>> {
    let families = db.cfs().into_iter().map(|cf| {
        let keys = cf
            .iter()
            .map(|e| String::from_utf8(e.unwrap().0.into_vec()).unwrap());
        (cf.name().to_string(), keys.collect())
    });
    families.collect()
}

fn judge(row: &RecoveryOutcome) -> Result<(), String> {
    let temp = TempDir::new("wal-recovery");
    directory(row, temp.path());
    let mode = WalRecoveryMode::from_number(row.mode).unwrap();
    let name = format!("{} {mode}", row.variant);
    let opened = open(row, temp.path(), mode);
    if row.status != "OK" && !row.status.starts_with("HANG") {
        let want = match row
            .status
            .strip_prefix("Corruption: SST file is ahead of WALs in CF ")
        {
            Some(cf) => format!(
                "Corruption: Column family inconsistency: SST file contains data beyond the point \
                 of corruption in CF {cf}"
            ),
            None => row.status.trim_end_matches('…').trim_end().to_string(),
        };
        return match opened {
            Err(e) if e.path().is_none() || e.offset().is_none() => {
                Err(format!("{name}: {e}: names no place"))
            }
            Err(e) if e.to_string().starts_with(&want) => Ok(()),
            Err(e) => Err(format!("{name}: {e} and not {want}")),
            Ok(_) => Err(format!("{name}: opens and should not: {want}")),
        };
    }
    let db = opened.map_err(|e| format!("{name}: {e}"))?;
    let found = keys(&db);
    if row.status == "OK" {
        for part in row.recovered.split(';').filter(|p| !p.trim().is_empty()) {
            let (family, want) = part.trim().split_once(':').unwrap();
            if found[family] != named_keys(want) {
                return Err(format!(
                    "{name}: {family}: {:?} and not {want}",
                    found[family]
                ));
            }
        }
    }
    // Recovered entries stay, in the strictest mode too.
    db.default_cf()
        .put("new", "1")
        .map_err(|e| format!("{name}: {e}"))?;
    drop(db);
    let again = open(row, temp.path(), WalRecoveryMode::AbsoluteConsistency);
    let again = keys(&again.map_err(|e| format!("{name}: second open: {e}"))?);
    let mut want = found;
    want.get_mut("default").unwrap().insert("new".to_string());
    if again != want {
        return Err(format!("{name}: {again:?} and not {want:?}"));
    }
    Ok(())
}

#[test]
fn every_damaged_log_ends_as_in_rocksdb() {
    let rows = recovery_outcomes();
    assert_eq!(rows.len(), 4 * 60);
    let failures: Vec<String> = rows.iter().filter_map(|r| judge(r).err()).collect();
    assert!(
        failures.is_empty(),
        "{} failures:\n{}",
        failures.len(),
        failures.join("\n")
    );
}
