//! `spanlith top`: a database that another process has open, from outside.
//!
//! Nothing is locked or opened: the MANIFEST gives levels and sizes, the directory gives logs, the info
//! log gives jobs, stalls and complaints, the system gives memory and I/O of the process that holds the
//! lock. Rates are differences between two looks.

mod log;
pub mod process;
mod screen;

use crate::fail::{At, Failure};
use crate::inventory::Inventory;
use crate::term::{self, Paint};
use crate::written::drive_of;
use clap::Args;
pub use log::LogTail;
use process::Process;
use screen::{HISTORY, History, Room};
use serde_json::{Value, json};
use spanlith::version::filenames;
use std::fmt::Write as _;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Looks at a directory that changes meanwhile, before giving up.
const TRIES: usize = 5;

const EXAMPLES: &str = "\
Examples:
  spanlith top --db /data/db                 refreshes each second until Ctrl-C
  spanlith top --db /data/db --once          one look
  spanlith top --db /data/db --json --interval 10 --looks 6

\"logged\" is what the logs grew by, at least that (≥) if one was deleted meanwhile;
\"written\" and \"read\" is what the process had its device do; \"entries\" are those
that flushes put into tables. The mean is that of the last 60 looks. Jobs,
complaints and statistics are from the end of the info log.
What only the process knows (memory by owner, cache hits) is not here unless its
info log says so: stats_dump_period_sec decides how often it does.";

/// Shows a live database from outside: levels, logs, jobs, stalls, the process that has it open
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Top {
    /// Directory of the database
    #[arg(long, value_name = "DIR")]
    db: PathBuf,
    /// Seconds between two looks
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    interval: f64,
    /// One look only
    #[arg(long, conflicts_with = "looks")]
    once: bool,
    /// Ends after so many looks
    #[arg(long, value_name = "N")]
    looks: Option<u64>,
    /// Prints JSON, one object per look
    #[arg(long)]
    json: bool,
}

/// One look.
struct Look {
    at: Instant,
    /// Time of the look, in microseconds since the epoch.
    micros: u64,
    inventory: Inventory,
    /// The process that has the database open.
    holder: Option<u32>,
    /// Says what the system tells of it.
    process: Option<Process>,
    log: LogTail,
}

/// Differences per second.
#[derive(Clone, Default)]
struct Rates {
    log_bytes: f64,
    /// A log went between the looks: what was written to it since the first is not known.
    is_less: bool,
    sequence: f64,
    files: f64,
    read_bytes: Option<f64>,
    written_bytes: Option<f64>,
}

/// The picture on a terminal: each is drawn over the last one.
#[derive(Default)]
struct Picture {
    lines: usize,
    room: Option<(usize, usize)>,
}

impl Picture {
    /// Returns what makes the terminal show these lines instead of the last ones. Lines are overwritten, not
    /// cleared before, so that nothing flickers.
    fn draw(&mut self, lines: &[String], size: (usize, usize)) -> String {
        let mut out = String::new();
        match self.room {
            // Lines were wrapped anew: nobody knows where they are.
            Some(before) if before != size => out.push_str("\x1b[H\x1b[2J"),
            // Writing to a string cannot fail, here and below.
            Some(_) if self.lines > 0 => {
                let _ = write!(out, "\x1b[{}A\r", self.lines);
            }
            _ => {}
        }
        for line in lines {
            let _ = write!(out, "{line}\x1b[K\r\n");
        }
        out.push_str("\x1b[J");
        self.room = Some(size);
        self.lines = lines.len();
        out
    }
}

impl Top {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        if !(0.01..=86_400.0).contains(&self.interval) {
            return Err(crate::fail::Usage::new(
                format!("--interval {} makes no sense", self.interval),
                "give seconds between 0.01 and 86400",
            )
            .into());
        }
        if self.looks == Some(0) {
            let hint = "--looks 1, or --once, is one look";
            return Err(crate::fail::Usage::new("--looks 0 shows nothing", hint).into());
        }
        let looks = if self.once { Some(1) } else { self.looks };
        let live = std::io::stdout().is_terminal() && !self.json && looks != Some(1);
        let paint = Paint::stdout();
        let mut picture = Picture::default();
        let mut before: Option<Look> = None;
        let mut history = History::new();
        let mut done = 0u64;
        loop {
            let now = Look::take(&self.db)?;
            let rates = before.as_ref().map(|b| rates(b, &now));
            history.extend(rates.clone());
            history.drain(..history.len().saturating_sub(HISTORY));
            let mut out = std::io::stdout().lock();
            if self.json {
                writeln!(out, "{}", as_json(&now, rates.as_ref()))?;
            } else if let Some(size) = term::size().filter(|_| live) {
                let room = Room {
                    columns: size.0,
                    // The cursor stays below the picture.
                    rows: size.1.saturating_sub(2).max(1),
                };
                let mut lines = screen::lines(&now, &history, paint, room);
                let every = format!("every {} s, Ctrl-C ends", self.interval);
                lines.push(paint.dim(term::cut(&every, room.columns)));
                write!(out, "{}", picture.draw(&lines, size))?;
            } else {
                if done > 0 {
                    writeln!(out)?;
                }
                for line in screen::lines(&now, &history, paint, Room::ENDLESS) {
                    writeln!(out, "{line}")?;
                }
            }
            out.flush()?;
            drop(out);
            done += 1;
            if looks.is_some_and(|n| done >= n) {
                return Ok(ExitCode::SUCCESS);
            }
            before = Some(now);
            std::thread::sleep(Duration::from_secs_f64(self.interval));
        }
    }
}

impl Look {
    /// Looks at a directory.
    fn take(dir: &Path) -> anyhow::Result<Self> {
        let mut tries = 0;
        let inventory = loop {
            tries += 1;
            match Inventory::read_with_disk(dir, None) {
                Ok(i) => break i,
                // A file that was listed may be gone when its size is asked for.
                Err(_) if tries < TRIES && dir.join(filenames::CURRENT_FILE).exists() => {}
                Err(e) => return Err(e).at(dir),
            }
        };
        let holder = process::holder(&dir.join(filenames::LOCK_FILE));
        let log = LogTail::read(&dir.join("LOG"));
        let log = log.map_err(|e| Failure::new(e.to_string(), "check owner and permissions"))?;
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        Ok(Self {
            at: Instant::now(),
            micros: since.map_or(0, |d| u64::try_from(d.as_micros()).unwrap_or(0)),
            inventory,
            process: holder.and_then(Process::look),
            holder,
            log,
        })
    }
}

/// Bytes of all logs, or of those the look before did not have beyond what it saw.
fn grown(before: &Inventory, now: &Inventory) -> u64 {
    let seen = |n: &u64| before.logs.get(n).copied().unwrap_or(0);
    now.logs
        .iter()
        .map(|(n, size)| size.saturating_sub(seen(n)))
        .sum()
}

fn rates(before: &Look, now: &Look) -> Rates {
    let seconds = (now.at - before.at).as_secs_f64().max(1e-6);
    let per = |n: u64| n as f64 / seconds;
    let (a, b) = (&before.inventory, &now.inventory);
    let of = |get: fn(&Process) -> Option<u64>| {
        let (p, q) = (before.process.as_ref()?, now.process.as_ref()?);
        (p.pid == q.pid).then(|| Some(per(get(q)?.saturating_sub(get(p)?))))?
    };
    Rates {
        log_bytes: per(grown(a, b)),
        is_less: a.logs.keys().any(|n| !b.logs.contains_key(n)),
        sequence: per(b.last_sequence.saturating_sub(a.last_sequence)),
        files: per(b.next_file.saturating_sub(a.next_file)),
        read_bytes: of(|p| p.read_bytes),
        written_bytes: of(|p| p.written_bytes),
    }
}

fn as_json(look: &Look, rates: Option<&Rates>) -> Value {
    let i = &look.inventory;
    let families: Vec<Value> = i
        .families
        .values()
        .map(|f| {
            let levels: Vec<Value> = f
                .levels()
                .into_iter()
                .map(|(level, (files, size))| {
                    json!({ "level": level, "files": files, "bytes": size })
                })
                .collect();
            json!({ "name": f.name, "levels": levels, "blob_files": f.blobs.len() })
        })
        .collect();
    json!({
        "process": look.process.as_ref().map(Process::json), "holder": look.holder,
        "families": families,
        "flushed_sequence": i.last_sequence,
        "next_file": i.next_file,
        "live_logs": i.live_logs().count(),
        "live_log_bytes": i.live_logs().map(|l| l.1).sum::<u64>(),
        "table_bytes": i.table_bytes(),
        "directory_bytes": i.listing.values().sum::<u64>(),
        "log": look.log.json(look.holder.is_some()),
        "written": look.log.written.as_ref().map(|w| w.json(drive_of(&i.dir))),
        "per_second": rates.map(|r| json!({
            "log_bytes": r.log_bytes, "log_bytes_is_lower_bound": r.is_less,
            "flushed_sequence": r.sequence, "files": r.files,
            "process_read_bytes": r.read_bytes, "process_written_bytes": r.written_bytes,
        })),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_is_drawn_over_the_last_one_unless_the_terminal_changed() {
        let mut picture = Picture::default();
        let lines = ["one".to_string(), "two".to_string()];
        let first = picture.draw(&lines, (80, 24));
        assert_eq!(first, "one\x1b[K\r\ntwo\x1b[K\r\n\x1b[J");
        let second = picture.draw(&lines[..1], (80, 24));
        assert_eq!(second, "\x1b[2A\rone\x1b[K\r\n\x1b[J");
        let third = picture.draw(&lines, (100, 24));
        assert!(third.starts_with("\x1b[H\x1b[2Jone"), "{third:?}");
    }
}
