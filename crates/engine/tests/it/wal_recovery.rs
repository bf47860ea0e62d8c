//! Damaged logs of RocksDB: 60 directories opened in each of the four recovery modes end as the tables
//! of `fixtures/wal/recovery` say (11.8.1 first, 7.8.3 where they agree).

use spanlith::options::{DbOptions, WalRecoveryMode};
use spanlith::{Db, FamilyOptions};
use spanlith_testkit::{TempDir, fixtures_dir};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

struct Row {
    variant: String,
    base: String,
    mode: WalRecoveryMode,
    status: String,
    recovered: String,
}

fn rows() -> Vec<Row> {
    let mut rows = BTreeMap::new();
    for table in ["outcomes.tsv", "outcomes-11.8.tsv"] {
        let path = fixtures_dir().join("wal/recovery").join(table);
        for line in std::fs::read_to_string(path).unwrap().lines().skip(1) {
            let fields: Vec<String> = line.split('\t').map(str::to_string).collect();
            let [variant, base, mode, status, recovered, _] =
                <[String; 6]>::try_from(fields).unwrap();
            let key = (variant.clone(), mode.clone());
            let mode = match mode.as_str() {
                "TolerateCorruptedTail" => WalRecoveryMode::TolerateCorruptedTailRecords,
                "Absolute" => WalRecoveryMode::AbsoluteConsistency,
                "PointInTime" => WalRecoveryMode::PointInTimeRecovery,
                "SkipAny" => WalRecoveryMode::SkipAnyCorruptedRecords,
                other => panic!("{other}"),
            };
            let row = Row {
                variant,
                base,
                mode,
                status,
                recovered,
            };
            rows.insert(key, row);
        }
    }
    rows.into_values().collect()
}

/// The base directory with the changes of the variant.
fn directory(row: &Row, to: &Path) {
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

/// Keys named by `k0-6 k10-19 (17)`.
fn named(text: &str) -> BTreeSet<String> {
    let words = text.split_whitespace().filter(|w| !w.starts_with('('));
    words
        .flat_map(|word| {
            let numbers = word.strip_prefix('k').and_then(|w| {
                let (from, to) = w.split_once('-').unwrap_or((w, w));
                Some((from.parse::<u32>().ok()?, to.parse::<u32>().ok()?))
            });
            match numbers {
                Some((from, to)) => (from..=to).map(|n| format!("k{n:02}")).collect(),
                None => vec![word.to_string()],
            }
        })
        .collect()
}

fn open(row: &Row, dir: &Path, mode: WalRecoveryMode) -> spanlith::Result<Db> {
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

fn judge(row: &Row) -> Result<(), String> {
    let temp = TempDir::new("wal-recovery");
    directory(row, temp.path());
    let name = format!("{} {:?}", row.variant, row.mode);
    let opened = open(row, temp.path(), row.mode);
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
            if found[family] != named(want) {
                return Err(format!(
                    "{name}: {family}: {:?} and not {want}",
                    found[family]
                ));
            }
        }
    }
    // What was recovered stays, in the strictest mode too.
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
    let rows = rows();
    assert_eq!(rows.len(), 4 * 60);
    let failures: Vec<String> = rows.iter().filter_map(|r| judge(r).err()).collect();
    assert!(
        failures.is_empty(),
        "{} failures:\n{}",
        failures.len(),
        failures.join("\n")
    );
}
