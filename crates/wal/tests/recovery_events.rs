//! Damaged logs: the events of the reader, and what each recovery mode makes of them, against what
//! RocksDB 11.8.1 recovered from the same files.

mod support;

use spanlith_testkit::fixtures_dir;
use spanlith_wal::{BatchIter, BatchOp, CorruptionKind, LogReader, ReadEvent};
use std::collections::BTreeMap;
use support::{Source, events};

/// Renders events: `3` records, then `!text` for damage (`?text` if only a tail), and so on.
fn render(bytes: &[u8], number: u64) -> String {
    let mut reader = LogReader::new(Source::boxed(bytes), number);
    let (mut out, mut run) = (Vec::new(), 0);
    loop {
        let event = reader.next_event().unwrap();
        if let ReadEvent::Record { .. } = event {
            run += 1;
            continue;
        }
        if run > 0 {
            out.push(run.to_string());
            run = 0;
        }
        match event {
            ReadEvent::Corruption {
                kind, tail: true, ..
            } => out.push(format!("?{kind}")),
            ReadEvent::Corruption {
                kind, tail: false, ..
            } => out.push(format!("!{kind}")),
            ReadEvent::OldRecord { .. } => out.push("old record".to_string()),
            ReadEvent::Eof => return out.join(", "),
            other => out.push(format!("{other:?}")),
        }
    }
}

#[test]
fn each_kind_of_damage_is_named_as_rocksdb_names_it() {
    let eof = "error reading trailing data due to encountering EOF";
    for (variant, want) in [
        ("B-trunc-header", "9, ?truncated header".to_string()),
        ("B-trunc-payload", "9, ?truncated record body".to_string()),
        ("B-trunc-boundary", "9".to_string()),
        ("B-empty", String::new()),
        ("B-short6", "?truncated header".to_string()),
        ("B-zero-tail", "10".to_string()),
        ("B-zero-tail-6", "10, ?truncated header".to_string()),
        ("B-zero-block", "10".to_string()),
        ("B-ff-tail", "10, ?truncated record body".to_string()),
        ("B-flip-mid", "4, !checksum mismatch".to_string()),
        ("B-flip-last", "9, !checksum mismatch".to_string()),
        ("B-len-long-mid", "4, ?truncated record body".to_string()),
        ("B-zero-mid", "4".to_string()),
        (
            "B-type-unknown",
            "4, !unknown record type 85, 5".to_string(),
        ),
        ("B-type-ignorable", "10".to_string()),
        (
            "B-middle-first",
            "4, !missing start of fragmented record(1), 5".to_string(),
        ),
        (
            "B-last-first",
            "4, !missing start of fragmented record(2), 5".to_string(),
        ),
        (
            "B-first-full",
            "4, !partial record without end(1), 5".to_string(),
        ),
        ("B-first-eof", format!("9, ?{eof}")),
        ("B-tiny-record", "11".to_string()),
        ("B-recyclable-mix", "10".to_string()),
        ("B-recycled-stale", "6, old record".to_string()),
        (
            "B-recycled-stale-cut",
            "6, ?truncated record body".to_string(),
        ),
        ("B-recycled-wrong-log", "old record".to_string()),
        (
            "big-flip-first",
            "!checksum mismatch, !missing start of fragmented record(2), 10".into(),
        ),
        (
            "big-flip-last",
            "!checksum mismatch, !error in middle of record".to_string(),
        ),
        (
            "big-zero-block0-tail",
            "!checksum mismatch, !missing start of fragmented record(2), 10".to_string(),
        ),
        ("big-cut-in-last", "?truncated record body".to_string()),
        ("big-cut-block", format!("?{eof}")),
    ] {
        let path = fixtures_dir().join(format!("wal/recovery/variants/{variant}/000010.log"));
        let bytes = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        assert_eq!(render(&bytes, 10), want, "{variant}");
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    Tolerate,
    Absolute,
    PointInTime,
    SkipAny,
}

/// Describes what replay of some logs ends with.
#[derive(Debug, PartialEq)]
enum Outcome {
    Keys(Vec<String>),
    Failed(String),
}

/// A model of replay, small because it has one family and no tables.
fn replay(logs: &[(u64, Vec<u8>)], mode: Mode) -> Outcome {
    let mut keys = std::collections::BTreeSet::new();
    let mut next = 1;
    let mut stopped = false;
    for (number, bytes) in logs {
        let mut reader = LogReader::new(Source::boxed(&bytes[..]), *number);
        let mut first = true;
        loop {
            match reader.next_event().unwrap() {
                ReadEvent::Record { .. } => {
                    let batch = BatchIter::new(reader.record()).unwrap();
                    // After a stop, a log only counts if it continues the sequence.
                    if first && stopped && batch.sequence() != next {
                        return Outcome::Keys(keys.into_iter().collect());
                    }
                    first = false;
                    stopped = false;
                    if batch.sequence() < next {
                        return Outcome::Failed("backwards".to_string());
                    }
                    next = batch.sequence() + u64::from(batch.header_count());
                    for op in batch {
                        let Ok(BatchOp::Put { key, .. }) = op else {
                            panic!("{op:?}")
                        };
                        keys.insert(String::from_utf8(key.to_vec()).unwrap());
                    }
                }
                event @ ReadEvent::Corruption { tail, .. } => match mode {
                    Mode::Tolerate if tail => {}
                    Mode::Absolute | Mode::Tolerate => {
                        return Outcome::Failed(event.into_error().unwrap().to_string());
                    }
                    Mode::PointInTime => {
                        stopped = true;
                        break;
                    }
                    Mode::SkipAny => {}
                },
                ReadEvent::Eof => break,
                other => panic!("{other:?}"),
            }
        }
    }
    Outcome::Keys(keys.into_iter().collect())
}

fn table(name: &str) -> Vec<Vec<String>> {
    let path = fixtures_dir().join("wal/recovery").join(name);
    let text = std::fs::read_to_string(path).unwrap();
    text.lines()
        .skip(1)
        .map(|l| l.split('\t').map(str::to_string).collect())
        .collect()
}

/// Keys named by `k0-6 k10-19 (17)`.
fn named(text: &str) -> Vec<String> {
    let mut keys = Vec::new();
    for word in text.split_whitespace().filter(|w| !w.starts_with('(')) {
        match word
            .strip_prefix('k')
            .map(|w| w.split_once('-').unwrap_or((w, w)))
        {
            Some((from, to)) => {
                let (from, to): (u32, u32) = (from.parse().unwrap(), to.parse().unwrap());
                keys.extend((from..=to).map(|n| format!("k{n:02}")));
            }
            None => keys.push(word.to_string()),
        }
    }
    keys.sort();
    keys
}

/// Holds WAL2.
#[test]
fn replay_over_the_events_recovers_what_rocksdb_11_8_recovers() {
    let folder = fixtures_dir().join("wal/recovery");
    let mut rows = BTreeMap::new();
    for row in table("outcomes.tsv")
        .into_iter()
        .chain(table("outcomes-11.8.tsv"))
    {
        rows.insert((row[0].clone(), row[2].clone()), row);
    }
    let mut compared = 0;
    for ((variant, mode), row) in rows {
        if row[1] != "noflush" {
            continue;
        }
        let mode = match mode.as_str() {
            "TolerateCorruptedTail" => Mode::Tolerate,
            "Absolute" => Mode::Absolute,
            "PointInTime" => Mode::PointInTime,
            "SkipAny" => Mode::SkipAny,
            other => panic!("{other}"),
        };
        let mut logs = Vec::new();
        for number in [4u64, 8] {
            let name = format!("{number:06}.log");
            let changed = folder.join("variants").join(&variant).join(&name);
            if changed.with_extension("log.deleted").exists() {
                continue;
            }
            let path = if changed.exists() {
                changed
            } else {
                folder.join("noflush").join(name)
            };
            if path.exists() {
                logs.push((number, std::fs::read(path).unwrap()));
            }
        }
        assert!(!logs.is_empty(), "{variant}");
        let got = replay(&logs, mode);
        if row[3] == "OK" {
            let default = row[4]
                .split(';')
                .find_map(|p| p.trim().strip_prefix("default:"));
            assert_eq!(
                got,
                Outcome::Keys(named(default.unwrap())),
                "{variant} {mode:?}"
            );
        } else {
            assert!(
                matches!(got, Outcome::Failed(_)),
                "{variant} {mode:?} {got:?}"
            );
        }
        compared += 1;
    }
    assert!(compared >= 44, "{compared}");
}

#[test]
fn an_error_of_a_corruption_says_what_where_and_how_much() {
    let path = fixtures_dir().join("wal/recovery/variants/B-flip-mid/000010.log");
    let bytes = std::fs::read(path).unwrap();
    let len = bytes.len() as u64;
    let (found, other) = events(LogReader::new(Source::boxed(bytes), 10));
    let end = found.last().unwrap().1;
    let want = ReadEvent::Corruption {
        offset: end,
        dropped: len - end,
        kind: CorruptionKind::ChecksumMismatch,
        tail: false,
    };
    assert_eq!(other, std::slice::from_ref(&want));
    let text = want.into_error().unwrap().to_string();
    let want = format!(
        "Corruption: checksum mismatch: offset={end} dropped={}",
        len - end
    );
    assert_eq!(text, want);
    assert!(ReadEvent::Eof.into_error().is_none());
}
