//! `db explain --writes`: what held writes up, from the info logs of a directory.
//!
//! Understood are our lines and those of RocksDB about delays and stops, and ours about slow writes. The times that writers
//! were held up are reckoned from the line that begins a delay or a stop to the one that ends it, family by family; RocksDB
//! writes no line when it ends, so that of its logs only the beginnings are known. Where writers waited is told by our dumps of statistics, of which
//! the last of each log counts: its sums go on since the database was opened.

use crate::fail::At as _;
use serde_json::json;
use spanlith_env::Env;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

/// The kind of thing that a line says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Delay,
    Stop,
    End,
    Slow,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Delay => "delay",
            Self::Stop => "stop",
            Self::End => "end",
            Self::Slow => "slow",
        }
    }
}

/// A line about writes.
#[derive(Clone, Debug, PartialEq)]
struct Note {
    /// As in the log: UTC.
    time: String,
    /// Microseconds of it, from some day on.
    micros: u64,
    kind: Kind,
    /// The family, where one is named.
    family: String,
    text: String,
}

/// The sum of the notes.
#[derive(Debug, Default, PartialEq)]
struct Summary {
    delays: u64,
    stops: u64,
    slow: u64,
    delayed_micros: u64,
    stopped_micros: u64,
    longest_micros: u64,
}

/// Prints what the info logs in `dir` say of writes.
pub fn run(dir: &Path, as_json: bool) -> anyhow::Result<ExitCode> {
    let fs = Env::system().fs;
    let mut logs: Vec<_> = fs
        .list(dir)
        .at(dir)?
        .into_iter()
        .filter(|name| name == "LOG" || name.starts_with("LOG.old."))
        .collect();
    // Old ones by their time, the current one last.
    logs.sort_by_key(|name| (name == "LOG", name.clone()));
    let (mut notes, mut summary) = (Vec::new(), Summary::default());
    let mut waits = Vec::new();
    for name in &logs {
        let path = dir.join(name);
        let file = fs.open_random(&path).at(&path)?;
        let mut bytes = vec![0; usize::try_from(file.size()).unwrap_or(0)];
        let n = file.read_at(0, &mut bytes).at(&path)?;
        bytes.truncate(n);
        let text = String::from_utf8_lossy(&bytes);
        let of_file: Vec<Note> = text.lines().filter_map(note).collect();
        // By file: a stall in which a process ended goes on for nobody.
        summarize(&of_file, &mut summary);
        notes.extend(of_file);
        waits.extend(last_waits(&text).map(|line| (name.clone(), line.to_string())));
    }
    let mut out = std::io::stdout().lock();
    for n in &notes {
        match as_json {
            true => {
                let object = json!({
                    "time": n.time, "kind": n.kind.name(), "family": n.family, "text": n.text,
                });
                writeln!(out, "{object}")?;
            }
            false => writeln!(out, "{} {}", n.time, n.text)?,
        }
    }
    for (log, text) in &waits {
        match as_json {
            true => {
                let object = json!({ "kind": "waits", "log": log, "text": text });
                writeln!(out, "{object}")?;
            }
            false => writeln!(out, "{log}: waits since the open: {text}")?,
        }
    }
    let seconds = |micros: u64| micros as f64 / 1e6;
    if as_json {
        let object = json!({
            "kind": "summary", "logs": logs.len(), "delays": summary.delays, "stops": summary.stops,
            "slow": summary.slow, "delayed_seconds": seconds(summary.delayed_micros),
            "stopped_seconds": seconds(summary.stopped_micros),
            "longest_seconds": seconds(summary.longest_micros),
        });
        writeln!(out, "{object}")?;
    } else {
        writeln!(
            out,
            "{} info logs: {} delays for {:.1} s, {} stops for {:.1} s, the longest {:.1} s; {} lines of slow writes",
            logs.len(),
            summary.delays,
            seconds(summary.delayed_micros),
            summary.stops,
            seconds(summary.stopped_micros),
            seconds(summary.longest_micros),
            summary.slow,
        )?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns what a line of a log says of writes; `None` if that is nothing.
fn note(line: &str) -> Option<Note> {
    let (time, rest) = line.split_once(' ')?;
    let micros = micros(time)?;
    let kinds = [
        ("Stalling writes", Kind::Delay),
        ("Stopping writes", Kind::Stop),
        ("Writes go on", Kind::End),
        ("Slow write: ", Kind::Slow),
    ];
    let (at, kind) = kinds
        .iter()
        .find_map(|(words, kind)| Some((rest.find(words)?, *kind)))?;
    // `[name] ` in front of the words, but for a slow write, which names none: there it is the level of the line.
    let before = rest.get(..at)?.trim_end();
    let family = before.strip_suffix(']').and_then(|b| b.rsplit_once('['));
    let family = family.filter(|_| kind != Kind::Slow);
    let family = family.map_or(String::new(), |f| f.1.to_string());
    let shown = match family.is_empty() {
        true => rest.get(at..)?.to_string(),
        false => format!("[{family}] {}", rest.get(at..)?),
    };
    Some(Note {
        time: time.to_string(),
        micros,
        kind,
        family,
        text: shown,
    })
}

/// Returns where writers waited, as the last dump of statistics in a log says.
fn last_waits(text: &str) -> Option<&str> {
    let mut lines = text.lines().rev();
    lines.find_map(|line| line.strip_prefix("Write waits: "))
}

/// Microseconds of `YYYY/MM/DD-HH:MM:SS.ffffff`, counted in months of 31 days: good for differences within a month.
fn micros(time: &str) -> Option<u64> {
    let (date, clock) = time.split_once('-')?;
    let number = |text: &str| text.parse::<u64>().ok().filter(|&n| n < 10_000_000);
    let mut parts = date.split('/');
    let mut next = || parts.next().and_then(number);
    let (year, month, day) = (next()?, next()?, next()?);
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let mut parts = clock.split(':');
    let mut next = || parts.next().and_then(number);
    let (hour, minute, second) = (next()?, next()?, next()?);
    let days = (year * 12 + month) * 31 + day;
    let seconds = ((days * 24 + hour) * 60 + minute) * 60 + second;
    Some(seconds * 1_000_000 + number(fraction)?.min(999_999))
}

/// Adds what the lines of one file say.
fn summarize(notes: &[Note], s: &mut Summary) {
    // The state of each family, and since when it holds.
    let mut since: BTreeMap<&str, (Kind, u64)> = BTreeMap::new();
    for n in notes {
        match n.kind {
            Kind::Slow => {
                s.slow += 1;
                continue;
            }
            Kind::Delay => s.delays += 1,
            Kind::Stop => s.stops += 1,
            Kind::End => {}
        }
        if let Some((kind, began)) = since.remove(n.family.as_str()) {
            let took = n.micros.saturating_sub(began);
            s.longest_micros = s.longest_micros.max(took);
            match kind {
                Kind::Stop => s.stopped_micros += took,
                _ => s.delayed_micros += took,
            }
        }
        // RocksDB says when a stall begins, and not when it ends.
        if n.kind != Kind::End && !n.text.contains(" writes because ") {
            since.insert(&n.family, (n.kind, n.micros));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "2026/11/27-23:59:59.500000 7 [WARN] [default] Stalling writes: Delayed(L0FileCountLimit), 0 immutable memtables, 20 level-0 files, rate 16777216\n\
        2026/11/28-00:00:00.000000 7 EVENT_LOG_v1 {\"job\": 1}\n\
        2026/11/28-00:00:01.500000 7 [WARN] [default] Stopping writes: Stopped(MemtableLimit), 2 immutable memtables, 30 level-0 files\n\
        2026/11/28-00:00:01.600000 8 [WARN] Slow write: 5000 us; policy rocksdb, pace 1 bytes/s\n\
        2026/11/28-00:00:02.000000 7 [default] Writes go on\n\
        torn line\n\
        2026/11/28-00:00:09.000000 7f [WARN] [/column_family.cc:988] [meta] Stopping writes because we have 2 immutable memtables\n\
        2026/11/28-05:00:09.000000 7f [WARN] [/column_family.cc:988] [meta] Stopping writes because we have 2 immutable memtables\n";

    #[test]
    fn delays_and_stops_are_reckoned_from_their_lines() {
        let notes: Vec<Note> = LOG.lines().filter_map(note).collect();
        let kinds: Vec<&str> = notes.iter().map(|n| n.kind.name()).collect();
        assert_eq!(kinds, ["delay", "stop", "slow", "end", "stop", "stop"]);
        assert_eq!(
            (notes[0].family.as_str(), notes[2].family.as_str()),
            ("default", "")
        );
        assert_eq!(
            notes[4].text,
            "[meta] Stopping writes because we have 2 immutable memtables"
        );
        let mut s = Summary::default();
        summarize(&notes, &mut s);
        assert_eq!((s.delays, s.stops, s.slow), (1, 3, 1));
        assert_eq!(
            (s.delayed_micros, s.stopped_micros, s.longest_micros),
            (2_000_000, 500_000, 2_000_000)
        );
    }

    #[test]
    fn the_last_dump_of_a_log_says_where_writers_waited() {
        assert_eq!(last_waits(LOG), None);
        let log =
            "Write waits: pace 1.000 s\nx Write waits: no dump\nWrite waits: queue 2.000 s\ntorn";
        assert_eq!(last_waits(log), Some("queue 2.000 s"));
    }

    #[test]
    fn times_that_are_none_are_no_notes() {
        for time in [
            "",
            "x",
            "2026/11/28",
            "a/b/c-1:2:3.4",
            "2026/11/28-1:2",
            "99999999/1/1-1:1:1.0",
        ] {
            assert_eq!(micros(time), None, "{time}");
        }
        assert_eq!(note("2026/11/28-00:00:01.6 7 nothing"), None);
        assert!(micros("2026/11/28-00:00:02.0") > micros("2026/11/28-00:00:01.999999"));
    }
}
