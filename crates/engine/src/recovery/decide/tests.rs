//! The outcome tables of RocksDB: 60 directories of logs in four modes, replayed by a model that has
//! no engine, so that only the decisions are compared.

use super::*;
use crate::version::VersionEdit;
use spanlith_env::SequentialFile;
use spanlith_testkit::{RecoveryOutcome, fixtures_dir, named_keys, recovery_outcomes};
use spanlith_wal::{BatchIter, BatchOp, LogReader};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

struct Bytes(Vec<u8>, usize);

impl SequentialFile for Bytes {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        let n = buf.len().min(self.0.len() - self.1);
        buf[..n].copy_from_slice(&self.0[self.1..self.1 + n]);
        self.1 += n;
        Ok(n)
    }
}

fn reader(path: &Path, number: u64) -> LogReader {
    let bytes = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    LogReader::new(Box::new(Bytes(bytes, 0)), number)
}

#[derive(Default)]
struct Family {
    name: String,
    log_number: u64,
    tables: usize,
    keys: BTreeSet<String>,
}

/// Returns what a MANIFEST of the fixtures says.
fn families(base: &Path) -> (BTreeMap<u32, Family>, u64) {
    let current = std::fs::read_to_string(base.join("CURRENT")).unwrap();
    let mut manifest = reader(&base.join(current.trim_end()), 0);
    let mut families = BTreeMap::from([(0, Family::default())]);
    families.get_mut(&0).unwrap().name = "default".to_string();
    let mut last_sequence = 0;
    while let ReadEvent::Record { .. } = manifest.next_event().unwrap() {
        let edit = VersionEdit::decode(manifest.record()).unwrap();
        let family = families.entry(edit.column_family).or_default();
        if let Some(name) = edit.column_family_add {
            family.name = String::from_utf8(name).unwrap();
        }
        family.log_number = edit.log_number.unwrap_or(family.log_number);
        family.tables += edit.new_files.len();
        last_sequence = edit.last_sequence.unwrap_or(last_sequence);
    }
    (families, last_sequence)
}

/// The logs: those of the base directory, replaced, deleted or added by the variant.
fn logs(case: &RecoveryOutcome) -> Vec<(u64, PathBuf)> {
    let root = fixtures_dir().join("wal/recovery");
    let variant = root.join("variants").join(&case.variant);
    let mut found = BTreeMap::new();
    for folder in [root.join(&case.base), variant] {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let number = |end| name.strip_suffix(end)?.parse::<u64>().ok();
            if let Some(n) = number(".log.deleted") {
                found.remove(&n);
            } else if let Some(n) = number(".log") {
                found.insert(n, path);
            }
        }
    }
    found.into_iter().collect()
}

fn mode_of(case: &RecoveryOutcome) -> WalRecoveryMode {
    WalRecoveryMode::from_number(case.mode).unwrap()
}

/// Replays as recovery does, but into sets of keys.
fn replay(case: &RecoveryOutcome) -> Result<(BTreeMap<u32, Family>, u64)> {
    let root = fixtures_dir().join("wal/recovery");
    let (mut families, mut last_sequence) = families(&root.join(&case.base));
    // These are the contents of the tables of the fixtures.
    for family in families.values_mut().filter(|f| f.tables > 0) {
        family.keys.insert("x0".to_string());
    }
    let mut decider = Decider::new(mode_of(case), true, false, 0);
    for (number, path) in logs(case) {
        decider.begin_log(number);
        let mut reader = reader(&path, number);
        'log: loop {
            let event = reader.next_event().unwrap();
            let verdict = match &event {
                ReadEvent::Eof => break 'log,
                ReadEvent::Record { .. } => {
                    batch(&mut decider, reader.record(), number, &mut families)?
                }
                event => decider.event(event, reader.is_recycled())?,
            };
            if let Verdict::NextLog(_) = verdict {
                break 'log;
            }
        }
        decider.end_log(0);
        if let Some(next) = decider.next_sequence() {
            last_sequence = last_sequence.max(next - 1);
        }
    }
    let tables = families.values();
    decider.finish(tables.map(|f| (f.name.as_str(), f.log_number, f.tables > 0)))?;
    Ok((families, last_sequence))
}

fn batch(
    decider: &mut Decider,
    rep: &[u8],
    log: u64,
    families: &mut BTreeMap<u32, Family>,
) -> Result<Verdict> {
    let sequence = rep.first_chunk::<8>().filter(|_| rep.len() >= 12);
    let verdict = decider.record(sequence.map(|b| u64::from_le_bytes(*b)))?;
    if verdict != Verdict::GoOn {
        return Ok(verdict);
    }
    let ops = BatchIter::new(rep)?.collect::<Result<Vec<_>>>()?;
    if let Some(BatchOp::DeleteRange { begin, end, .. }) = ops.first()
        && begin > end
    {
        let text = "end key comes before start key";
        return decider.damage(Error::invalid_argument(text));
    }
    let first = BatchIter::new(rep)?.sequence();
    let mut next = first;
    for op in ops {
        let Some(cf) = op.cf() else { continue };
        next += 1;
        let BatchOp::Put { key, .. } = op else {
            panic!("{op:?}")
        };
        if let Some(family) = families.get_mut(&cf).filter(|f| log >= f.log_number) {
            let key = String::from_utf8(key.to_vec()).unwrap();
            family.keys.insert(key);
        }
    }
    decider.accept(first, next)?;
    Ok(Verdict::GoOn)
}

#[test]
fn every_outcome_of_rocksdb_is_ours_or_a_hang_of_its_own() {
    let cases = recovery_outcomes();
    assert_eq!(cases.len(), 4 * 60);
    let mut hangs = 0;
    for case in cases {
        let name = format!("{} {:?}", case.variant, mode_of(&case));
        let got = replay(&case);
        if case.status.starts_with("HANG") {
            // Its log ends where 7.8.3 ends it; only then is there no such row.
            assert!(got.is_ok(), "{name}");
            hangs += 1;
            continue;
        }
        if case.status != "OK" {
            let Err(error) = got else {
                panic!("{name} opens")
            };
            let (got, want) = (error.to_string(), case.status.trim_end_matches('…'));
            // The family is named differently by the two releases.
            let want = match want.strip_prefix("Corruption: SST file is ahead of WALs in CF ") {
                Some(cf) => format!(
                    "Corruption: Column family inconsistency: SST file contains data beyond the \
                     point of corruption in CF {cf}"
                ),
                None => want.trim_end().to_string(),
            };
            assert!(got.starts_with(&want), "{name}: {got} and not {want}");
            continue;
        }
        let (families, last_sequence) = got.unwrap_or_else(|e| panic!("{name}: {e}"));
        for part in case.recovered.split(';').filter(|p| !p.trim().is_empty()) {
            let (family, keys) = part.trim().split_once(':').unwrap();
            let found = families.values().find(|f| f.name == family).unwrap();
            assert_eq!(found.keys, named_keys(keys), "{name} {family}");
        }
        assert_eq!(format!("seq={last_sequence}"), case.last_sequence, "{name}");
    }
    assert_eq!(hangs, 4);
}

fn predecessor(number: u64, size: u64, last_sequence: u64) -> ReadEvent {
    ReadEvent::Predecessor {
        log_number: number,
        size,
        last_sequence,
    }
}

#[test]
fn a_predecessor_that_is_not_what_was_seen_is_damage() {
    let absolute = WalRecoveryMode::AbsoluteConsistency;
    for (recorded, text) in [
        ((4, 100, 7), None),
        (
            (5, 100, 7),
            Some("Mismatched predecessor log number of WAL file 000009.log Recorded 5. Observed 4"),
        ),
        (
            (4, 100, 8),
            Some(
                "Mismatched last sequence number recorded in the WAL of log number 4. Recorded 8. \
                 Observed 7. (Last sequence number equal to 0 indicates no WAL records)",
            ),
        ),
        (
            (4, 101, 7),
            Some(
                "Mismatched size of the WAL of log number 4. Recorded 101 bytes. Observed 100 bytes.",
            ),
        ),
    ] {
        let (number, size, last_sequence) = recorded;
        let event = predecessor(number, size, last_sequence);
        let run = |mode, verify| {
            let mut d = Decider::new(mode, true, verify, 0);
            d.begin_log(4);
            d.accept(7, 9).unwrap();
            d.end_log(100);
            d.begin_log(9);
            d.event(&event, false)
        };
        match text {
            None => assert_eq!(run(absolute, true).unwrap(), Verdict::GoOn),
            Some(text) => {
                let error = run(absolute, true).unwrap_err().to_string();
                assert_eq!(error, format!("Corruption: {text}"));
                let stop = run(WalRecoveryMode::PointInTimeRecovery, true).unwrap();
                assert_eq!(stop, Verdict::NextLog(format!("Corruption: {text}")));
                let skip = run(WalRecoveryMode::SkipAnyCorruptedRecords, true);
                assert_eq!(skip.unwrap(), Verdict::GoOn);
                assert_eq!(run(absolute, false).unwrap(), Verdict::GoOn);
            }
        }
    }
}

#[test]
fn the_first_log_may_name_only_a_predecessor_that_is_not_needed() {
    for (min_log, fails) in [(4, true), (5, false)] {
        let mut d = Decider::new(WalRecoveryMode::AbsoluteConsistency, true, true, min_log);
        d.begin_log(9);
        let got = d.event(&predecessor(4, 1, 1), false);
        assert_eq!(got.is_err(), fails);
        if let Err(e) = got {
            assert_eq!(e.to_string(), "Corruption: Missing WAL of log number 4");
        }
    }
}

#[test]
fn without_paranoid_checks_every_mode_goes_on() {
    for mode in [
        WalRecoveryMode::TolerateCorruptedTailRecords,
        WalRecoveryMode::AbsoluteConsistency,
        WalRecoveryMode::PointInTimeRecovery,
    ] {
        let mut d = Decider::new(mode, false, false, 0);
        let skip = |v| matches!(v, Ok(Verdict::Skip(_)));
        assert!(skip(d.record(None)));
        assert!(skip(d.damage(Error::corruption("x"))));
    }
}
