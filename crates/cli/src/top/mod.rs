//! `spanlith top`: a database that another process has open, from outside.
//!
//! Nothing is locked or opened: the MANIFEST gives levels and sizes, the directory gives logs, the info
//! log gives jobs, stalls and complaints, the system gives memory and I/O of the process that holds the
//! lock. Rates are differences between two looks.

mod log;
pub mod process;

use crate::fail::{At, Failure};
use crate::inventory::Inventory;
use crate::term::{Paint, bytes, count};
use clap::Args;
use log::LogTail;
use process::Process;
use serde_json::{Value, json};
use spanlith::version::filenames;
use std::fmt::Write as _;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Looks at a directory that changes meanwhile, before giving up.
const TRIES: usize = 5;

const EXAMPLES: &str = "\
Examples:
  spanlith top --db /data/db                 refreshes each second until Ctrl-C
  spanlith top --db /data/db --once          one look
  spanlith top --db /data/db --json --interval 10 --looks 6

What only the process knows (memory by owner, cache hits) is not here unless its info log says so:
stats_dump_period_sec decides how often it does.";

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
    inventory: Inventory,
    process: Option<Process>,
    log: LogTail,
}

/// Differences per second.
#[derive(Default)]
struct Rates {
    log_bytes: f64,
    sequence: f64,
    files: f64,
    read_bytes: Option<f64>,
    written_bytes: Option<f64>,
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
        let looks = if self.once { Some(1) } else { self.looks };
        let live = std::io::stdout().is_terminal() && !self.json && looks != Some(1);
        let mut before: Option<Look> = None;
        let mut done = 0u64;
        loop {
            let now = self.look()?;
            let rates = before.as_ref().map(|b| rates(b, &now));
            let mut out = std::io::stdout().lock();
            if self.json {
                writeln!(out, "{}", as_json(&now, rates.as_ref()))?;
            } else {
                if live {
                    // Home, then clear to the end of the screen.
                    write!(out, "\x1b[H\x1b[2J")?;
                } else if done > 0 {
                    writeln!(out)?;
                }
                write!(out, "{}", as_text(&now, rates.as_ref()))?;
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

    fn look(&self) -> anyhow::Result<Look> {
        let mut tries = 0;
        let inventory = loop {
            tries += 1;
            match Inventory::read(&self.db) {
                Ok(i) => break i,
                // A file that was listed may be gone when its size is asked for.
                Err(_) if tries < TRIES && self.db.join(filenames::CURRENT_FILE).exists() => {}
                Err(e) => return Err(e).at(&self.db),
            }
        };
        let pid = process::holder(&self.db.join(filenames::LOCK_FILE));
        let log = LogTail::read(&self.db.join("LOG"));
        let log = log.map_err(|e| Failure::new(e.to_string(), "check owner and permissions"))?;
        Ok(Look {
            at: Instant::now(),
            inventory,
            process: pid.and_then(Process::look),
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
        "process": look.process.as_ref().map(Process::json),
        "families": families,
        "flushed_sequence": i.last_sequence,
        "next_file": i.next_file,
        "live_logs": i.live_logs().count(),
        "live_log_bytes": i.live_logs().map(|l| l.1).sum::<u64>(),
        "table_bytes": i.table_bytes(),
        "directory_bytes": i.listing.values().sum::<u64>(),
        "log": look.log.json(),
        "per_second": rates.map(|r| json!({
            "log_bytes": r.log_bytes, "flushed_sequence": r.sequence, "files": r.files,
            "process_read_bytes": r.read_bytes, "process_written_bytes": r.written_bytes,
        })),
    })
}

fn as_text(look: &Look, rates: Option<&Rates>) -> String {
    let paint = Paint::stdout();
    let i = &look.inventory;
    let mut out = String::new();
    let mut line = |name: &str, value: String| {
        let _ = writeln!(out, "{} {value}", paint.bold(format!("{name:10}")));
    };
    line("database", i.dir.display().to_string());
    line(
        "process",
        match &look.process {
            Some(p) => {
                let opt = |v: Option<u64>| v.map_or_else(|| "?".to_string(), bytes);
                format!(
                    "{} ({}), {} resident, {} threads, {} descriptors, {} read, {} written",
                    p.pid,
                    p.name,
                    opt(p.resident),
                    p.threads.unwrap_or(0),
                    p.descriptors
                        .map_or_else(|| "?".to_string(), |n| n.to_string()),
                    opt(p.read_bytes),
                    opt(p.written_bytes)
                )
            }
            None => "nobody has it open, as far as this system tells".to_string(),
        },
    );
    let logs = i.live_logs().map(|l| l.1).sum::<u64>();
    line(
        "size",
        format!(
            "{} in tables, {} in {} live logs, {} in all",
            bytes(i.table_bytes()),
            bytes(logs),
            i.live_logs().count(),
            bytes(i.listing.values().sum())
        ),
    );
    line(
        "progress",
        format!(
            "sequence number {} flushed, next file {}",
            count(i.last_sequence),
            i.next_file
        ),
    );
    if let Some(r) = rates {
        let of = |v: Option<f64>| v.map_or_else(|| "?".to_string(), |n| bytes(n as u64));
        line(
            "per second",
            format!(
                "{} logged, {:.1} files made, process reads {}, writes {}",
                bytes(r.log_bytes as u64),
                r.files,
                of(r.read_bytes),
                of(r.written_bytes)
            ),
        );
    }
    for f in i.families.values() {
        let levels: Vec<String> = f
            .levels()
            .into_iter()
            .map(|(level, (files, size))| format!("L{level} {files} ({})", bytes(size)))
            .collect();
        let name = crate::bytes::show_short(f.name.as_bytes(), 40);
        let levels = if levels.is_empty() {
            "no tables".to_string()
        } else {
            levels.join("  ")
        };
        line("family", format!("{name}: {levels}"));
    }
    for text in &look.log.stats {
        line("stats", text.clone());
    }
    for text in &look.log.events {
        line("job", text.clone());
    }
    for text in &look.log.complaints {
        line("log", paint.yellow(text));
    }
    out
}
