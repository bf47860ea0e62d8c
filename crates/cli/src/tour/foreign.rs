//! Directories written by RocksDB 11.8.1, compiled in, unpacked and read.
//!
//! Read twice: for reading only, after which no byte may have changed, and for reading and writing,
//! which rewrites MANIFEST and log in RocksDB's formats; the contents must be the same both times.

use super::show::Show;
use crate::bytes::{push_hex, show_short};
use crate::fail::{At, Failure};
use crate::inventory::Inventory;
use crate::term;
use serde_json::json;
use spanlith::{Cf, Db};
use spanlith_base::checksum::xxh3_64;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// A directory as files, and what a reader must see.
struct Golden {
    name: &'static str,
    about: &'static str,
    files: &'static [(&'static str, &'static [u8])],
    /// A line for the family, then `KEYHEX TAB VALUEHEX` for each entry.
    expected: &'static str,
}

macro_rules! golden {
    ($name:literal, $about:literal, [$($file:literal),* $(,)?]) => {
        Golden {
            name: $name,
            about: $about,
            files: &[$((
                $file,
                include_bytes!(concat!("../../assets/", $name, "/db/", $file)) as &[u8],
            )),*],
            expected: include_str!(concat!("../../assets/", $name, "/expected.tsv")),
        }
    };
}

const GOLDEN: [Golden; 2] = [
    golden!(
        "multi-level-dynamic",
        "six tables in two levels, uncompressed",
        [
            "000039.sst",
            "000040.sst",
            "000049.log",
            "000052.sst",
            "000054.sst",
            "000055.sst",
            "000056.sst",
            "CURRENT",
            "IDENTITY",
            "LOCK",
            "MANIFEST-000005",
            "OPTIONS-000007",
        ]
    ),
    golden!(
        "default",
        "two LZ4 tables, deletions, and entries that are only in the log",
        [
            "000012.sst",
            "000013.log",
            "000014.sst",
            "CURRENT",
            "IDENTITY",
            "LOCK",
            "MANIFEST-000005",
            "OPTIONS-000007",
        ]
    ),
];

/// Step 1; the directories.
pub fn run(dir: &Path, show: &mut Show) -> anyhow::Result<Vec<PathBuf>> {
    let mut dirs = Vec::new();
    let mut summary = Vec::new();
    for golden in &GOLDEN {
        let to = dir.join(format!("rocksdb-{}", golden.name));
        unpack(golden, &to)?;
        summary.push(one(golden, &to, show)?);
        dirs.push(to);
    }
    show.record("rocksdb_directories", json!(summary));
    Ok(dirs)
}

fn unpack(golden: &Golden, to: &Path) -> anyhow::Result<()> {
    let write = || -> std::io::Result<()> {
        std::fs::create_dir(to)?;
        golden
            .files
            .iter()
            .try_for_each(|(name, bytes)| std::fs::write(to.join(name), bytes))
    };
    write().map_err(|e| {
        Failure::new(
            format!("cannot unpack into {}: {e}", to.display()),
            "choose a directory with room you may write to: spanlith tour --dir DIR",
        )
        .into()
    })
}

fn one(golden: &Golden, dir: &Path, show: &mut Show) -> anyhow::Result<serde_json::Value> {
    let expected: Vec<&str> = golden
        .expected
        .lines()
        .filter(|l| !l.starts_with('#'))
        .collect();
    let inventory = Inventory::read(dir).at(dir)?;
    let writer = inventory.writer().unwrap_or_else(|| "?".to_string());
    show.say(&format!(
        "{}: {}, written by RocksDB {writer}",
        golden.name, golden.about
    ));
    for family in inventory.families.values() {
        let levels: Vec<String> = family
            .levels()
            .into_iter()
            .map(|(level, (files, size))| {
                let files = term::counted(files, "file");
                format!("L{level}: {files}, {}", term::bytes(size))
            })
            .collect();
        let logs: u64 = inventory.live_logs().map(|l| l.1).sum();
        show.dim(&format!("{}; log {}", levels.join("; "), term::bytes(logs)));
    }
    let before = fingerprint(dir)?;
    let start = Instant::now();
    let db = Db::builder(dir).open_read_only().at(dir)?;
    let opened = start.elapsed();
    let cf = db.default_cf();
    for entry in cf.iter().take(3) {
        let (key, value) = entry.at(dir)?;
        show.dim(&format!(
            "{} = {}",
            show_short(&key, 24),
            show_short(&value, 48)
        ));
    }
    let equal = matching(&cf, &expected).at(dir)?;
    db.close().at(dir)?;
    let unchanged = fingerprint(dir)? == before;
    show.verdict(
        equal == Some(expected.len()),
        &format!(
            "{} of {} entries equal what RocksDB shows; opened in {}",
            equal.unwrap_or(0),
            expected.len(),
            term::nanos(u64::try_from(opened.as_nanos()).unwrap_or(u64::MAX))
        ),
    );
    show.verdict(unchanged, "reading changed no byte of the directory");
    let db = Db::builder(dir).open().at(dir)?;
    let again = matching(&db.default_cf(), &expected).at(dir)?;
    db.close().at(dir)?;
    show.verdict(
        again == Some(expected.len()),
        "opened for writing and closed: still the same entries",
    );
    Ok(json!({
        "name": golden.name, "written_by": writer, "entries": expected.len(),
        "equal": equal == Some(expected.len()) && again == Some(expected.len()),
        "unchanged": unchanged, "open_seconds": opened.as_secs_f64(),
    }))
}

/// Number of entries if they are the expected ones; `None` at the first difference.
fn matching(cf: &Cf, expected: &[&str]) -> spanlith::Result<Option<usize>> {
    let mut lines = expected.iter();
    let mut line = Vec::new();
    let mut equal = 0;
    for entry in cf.iter() {
        let (key, value) = entry?;
        line.clear();
        push_hex(&mut line, &key);
        line.push(b'\t');
        push_hex(&mut line, &value);
        if lines.next().map(|l| l.as_bytes()) != Some(&line[..]) {
            return Ok(None);
        }
        equal += 1;
    }
    Ok(lines.next().is_none().then_some(equal))
}

/// Names and checksums of all files.
fn fingerprint(dir: &Path) -> anyhow::Result<Vec<(String, u64)>> {
    let mut out = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        out.push((name, xxh3_64(&std::fs::read(entry.path())?)));
    }
    out.sort();
    Ok(out)
}
