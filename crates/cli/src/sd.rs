//! `spanlith sd`: speed disks.

use crate::bytes::hex;
use crate::fail::{Failure, Usage};
use crate::term::{self, Paint, count, counted};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use spanlith_env::{Clock, Env, create_device_file};
use spanlith_speed::crash::crash_programme;
use spanlith_speed::crash_tables::crash_programme_of_tables;
use spanlith_speed::{
    Calibration, FormatOptions, NO_FLUSH_NANOS, PAGE_HEADER, SpeedDisk, SpeedOptions, Superblock,
    Target, calibrate, format_disk, header_of, read_superblock, record_calibration,
};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

const EXAMPLES: &str = "\
Examples:
  spanlith sd format /fast/log.sd --size 256M      a file on the fast disk becomes a speed disk
  spanlith sd format /dev/nvme1n1                  so does a whole device
  spanlith sd format /dev/nvme1n1 --tables 40G     that also takes tables, without a file system
  spanlith sd format /dev/nvme1n1@0+1073741824     or a part of it, for one of several databases
  spanlith sd calibrate /fast/log.sd               how fast it makes small writes durable
  spanlith sd status /fast/log.sd                  whose it is, and what is on it
  spanlith sd dump /fast/log.sd --log 12           the pages of a log
  spanlith sd crash --states 1000000               loses the power of an emulated one, again and again

status and dump change nothing and take no lock. Exit codes: 0 success, 1 failure or damage, 2 bad usage.";

/// Size of a file that is made, if none is given.
const SIZE_DEFAULT: u64 = 256 << 20;

/// The verbs.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub enum Verb {
    /// Makes a speed disk of a device or a file; a file that is missing is made
    #[command(after_help = EXAMPLES)]
    Format(Format),
    /// Measures how fast it makes small writes durable, and records that
    #[command(after_help = EXAMPLES)]
    Calibrate(CalibrateArgs),
    /// Shows whose it is, its sizes, its logs and its tables
    #[command(after_help = EXAMPLES)]
    Status(Place),
    /// Shows the pages of its logs and where its tables are, or writes the bytes of a log into a file
    #[command(after_help = EXAMPLES)]
    Dump(Dump),
    /// Loses the power of an emulated speed disk at every request of random histories, and looks for what was lost
    #[command(after_help = EXAMPLES)]
    Crash(Crash),
}

/// A speed disk.
#[derive(Debug, Args)]
pub struct Place {
    /// PATH, or PATH@OFFSET+SIZE in bytes
    #[arg(value_name = "DISK")]
    disk: String,
    /// Prints JSON
    #[arg(long)]
    json: bool,
}

/// Flags of `format`.
#[derive(Debug, Args)]
pub struct Format {
    #[command(flatten)]
    place: Place,
    /// Size of a file that is missing; K, M and G are understood
    #[arg(long, value_name = "BYTES", value_parser = parse_size)]
    size: Option<u64>,
    /// Bytes of a page group
    #[arg(long, value_name = "BYTES", value_parser = parse_size, default_value = "0")]
    group_size: u64,
    /// Bytes of a page, at least the physical block of the device
    #[arg(long, value_name = "BYTES", value_parser = parse_size, default_value = "0")]
    page_size: u64,
    /// Bytes at its end that take tables of the database; without it, it takes logs alone
    #[arg(long, value_name = "BYTES", value_parser = parse_size, default_value = "0")]
    tables: u64,
    /// Formats whatever is there; it is lost
    #[arg(long)]
    force: bool,
}

/// Flags of `calibrate`.
#[derive(Debug, Args)]
pub struct CalibrateArgs {
    #[command(flatten)]
    place: Place,
    /// Calls of each kind
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rounds: u32,
}

/// Flags of `dump`.
#[derive(Debug, Args)]
pub struct Dump {
    #[command(flatten)]
    place: Place,
    /// This log only
    #[arg(long, value_name = "N")]
    log: Option<u64>,
    /// Writes the bytes of the log there, as the file that RocksDB would have; the file must not exist
    #[arg(long, value_name = "FILE", requires = "log")]
    out: Option<PathBuf>,
}

/// Flags of `crash`.
#[derive(Debug, Args)]
pub struct Crash {
    /// States to open, about
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    states: u64,
    /// All that is drawn follows from it
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Histories of tables beside a log; without it, of logs
    #[arg(long)]
    tables: bool,
    /// Prints JSON
    #[arg(long)]
    json: bool,
}

pub fn parse_size(text: &str) -> Result<u64, String> {
    let (digits, unit) = match text.as_bytes().last() {
        Some(b'K' | b'k') => (&text[..text.len() - 1], 10),
        Some(b'M' | b'm') => (&text[..text.len() - 1], 20),
        Some(b'G' | b'g') => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let n = digits
        .parse::<u64>()
        .map_err(|_| format!("{text} is no number of bytes"))?;
    n.checked_shl(unit)
        .filter(|bytes| bytes >> unit == n)
        .ok_or_else(|| format!("{text} is too much"))
}

/// Runs a verb.
///
/// # Errors
/// What cannot be opened, read or written, with the way out.
pub fn run(verb: Verb) -> anyhow::Result<ExitCode> {
    match verb {
        Verb::Format(format) => format.run(),
        Verb::Calibrate(args) => args.run(),
        Verb::Status(place) => place.status(),
        Verb::Dump(dump) => dump.run(),
        Verb::Crash(crash) => crash.run(),
    }
}

/// Returns what to do about an error of a speed disk.
fn failed(e: &spanlith::Error) -> anyhow::Error {
    let text = e.to_string();
    let hint = if text.contains("--force") {
        "look at it first (spanlith sd status, file -s); --force loses it"
    } else if e.subcode() == Some(spanlith::SubCode::LockHeld) {
        "a database has it open: close that first; status and dump need no lock"
    } else if text.contains("too small") {
        "give a larger device or --size; 64M is enough for a small database"
    } else if e.subcode() == Some(spanlith::SubCode::PathNotFound) {
        "check the path, or make one: spanlith sd format PATH --size 256M"
    } else {
        "spanlith sd status shows what is there"
    };
    Failure::new(text, hint).into()
}

fn target(text: &str) -> anyhow::Result<Target> {
    Target::parse(text)
        .map_err(|e| Usage::new(e.to_string(), "spanlith sd --help shows examples").into())
}

fn print(value: &Value) -> anyhow::Result<()> {
    writeln!(std::io::stdout(), "{value:#}")?;
    Ok(())
}

fn superblock_json(s: &Superblock) -> Value {
    json!({
        "instance": hex(&s.instance), "owner": s.owner, "epoch": s.epoch, "bytes": s.size,
        "page_size": s.layout.page_size, "group_bytes": s.layout.group_bytes(),
        "groups": s.layout.groups, "write_nanos": s.write_nanos, "flush_nanos": s.flush_nanos,
        "table_bytes": s.tables.map(|t| t.data_bytes()),
    })
}

fn show_superblock(out: &mut impl Write, s: &Superblock) -> std::io::Result<()> {
    writeln!(out, "instance    {}", hex(&s.instance))?;
    let owner = match s.owner.as_str() {
        "" => "nobody",
        owner => owner,
    };
    writeln!(out, "owner       {owner}")?;
    writeln!(out, "opened      {} for writing", counted(s.epoch, "time"))?;
    writeln!(
        out,
        "size        {}: {} of {}, pages of {}",
        term::bytes(s.size),
        counted(u64::from(s.layout.groups), "page group"),
        term::bytes(s.layout.group_bytes()),
        term::bytes(u64::from(s.layout.page_size)),
    )?;
    if let Some(tables) = &s.tables {
        let (bytes, log) = (tables.data_bytes(), 2 * tables.half_bytes);
        let (bytes, log) = (term::bytes(bytes), term::bytes(log));
        writeln!(
            out,
            "for tables  {bytes}, and {log} for their names and places"
        )?;
    }
    if s.write_nanos > 0 {
        let (write, flush) = (term::nanos(s.write_nanos), term::nanos(s.flush_nanos));
        writeln!(out, "calibrated  durable write {write}, flush {flush}")?;
    }
    Ok(())
}

impl Format {
    fn run(self) -> anyhow::Result<ExitCode> {
        let target = target(&self.place.disk)?;
        let env = Env::system();
        let is_made = !target.path.exists();
        if is_made {
            if target.len > 0 {
                let text = format!("{} does not exist", target.path.display());
                return Err(
                    Usage::new(text, "a part needs a device or a file that is there").into(),
                );
            }
            let size = self.size.unwrap_or(SIZE_DEFAULT);
            create_device_file(&target.path, size).map_err(|e| failed(&e))?;
        } else if self.size.is_some() {
            let text = format!(
                "--size is for a file that is made; {} exists",
                target.path.display()
            );
            return Err(Usage::new(text, "leave --size out, or remove the file").into());
        }
        let options = FormatOptions {
            group_bytes: self.group_size,
            page_size: u32::try_from(self.page_size).unwrap_or(u32::MAX),
            force: self.force,
            tables: self.tables,
        };
        let mut instance = [0; 16];
        instance[..8].copy_from_slice(&env.rng.next_u64().to_le_bytes());
        instance[8..].copy_from_slice(&env.rng.next_u64().to_le_bytes());
        let formatted = target
            .open(&*env.fs, false)
            .and_then(|device| format_disk(&*device, &options, instance));
        let superblock = match formatted {
            Ok(superblock) => superblock,
            Err(e) => {
                if is_made {
                    // Made a moment ago, by us, and of no use.
                    let _ = std::fs::remove_file(&target.path);
                }
                return Err(failed(&e));
            }
        };
        if self.place.json {
            print(&superblock_json(&superblock))?;
            return Ok(ExitCode::SUCCESS);
        }
        let mut out = std::io::stdout().lock();
        writeln!(out, "{target} is a speed disk")?;
        show_superblock(&mut out, &superblock)?;
        Ok(ExitCode::SUCCESS)
    }
}

impl CalibrateArgs {
    fn run(self) -> anyhow::Result<ExitCode> {
        let target = target(&self.place.disk)?;
        let env = Env::system();
        let device = target.open(&*env.fs, false).map_err(|e| failed(&e))?;
        let clock: &dyn Clock = &*env.clock;
        let found = calibrate(&*device, clock, self.rounds);
        let found = found.and_then(|c| record_calibration(&*device, &c).map(|()| c));
        let found: Calibration = found.map_err(|e| failed(&e))?;
        let is_no_op = found.flush < NO_FLUSH_NANOS;
        if self.place.json {
            let threads = found.threads.iter();
            let threads: Vec<Value> = threads
                .map(|(threads, rate)| json!({"threads": threads, "durable_writes_per_second": rate}))
                .collect();
            print(&json!({
                "write_nanos": found.write, "write_p99_nanos": found.write_p99,
                "cached_nanos": found.cached, "flush_nanos": found.flush,
                "idle_flush_nanos": found.idle_flush, "flush_looks_like_a_no_op": is_no_op,
                "threads": threads,
            }))?;
            return Ok(ExitCode::SUCCESS);
        }
        let mut out = std::io::stdout().lock();
        let times = [
            ("durable write of a page", found.write),
            ("  of a hundred the slowest but one", found.write_p99),
            ("write into the cache", found.cached),
            ("flush behind it", found.flush),
            ("flush with nothing to do", found.idle_flush),
        ];
        for (what, nanos) in times {
            writeln!(out, "{what:<36} {:>10}", term::nanos(nanos))?;
        }
        for (threads, rate) in &found.threads {
            let who = counted(*threads as u64, "thread");
            writeln!(out, "durable writes by {who:<18} {:>10}/s", count(*rate))?;
        }
        if is_no_op {
            writeln!(
                out,
                "The flush looks like a no-op: either the device has no volatile cache, or it does not do what it says. \
                 It is asked for all the same."
            )?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Place {
    fn open(&self, accept_damage: bool) -> anyhow::Result<(Superblock, Arc<SpeedDisk>)> {
        let target = target(&self.disk)?;
        let env = Env::system();
        let device = target.open(&*env.fs, true).map_err(|e| failed(&e))?;
        let (superblock, _) = read_superblock(&*device).map_err(|e| failed(&e))?;
        let options = SpeedOptions {
            read_only: true,
            accept_damage,
            ..SpeedOptions::default()
        };
        let disk = SpeedDisk::open(device, &options).map_err(|e| failed(&e))?;
        Ok((superblock, disk))
    }

    fn status(self) -> anyhow::Result<ExitCode> {
        let (superblock, disk) = self.open(true)?;
        let found = disk.found();
        let usage = disk.usage();
        let code = match found.damage {
            None => ExitCode::SUCCESS,
            Some(_) => ExitCode::FAILURE,
        };
        if self.json {
            let logs: Vec<Value> = found
                .logs
                .iter()
                .map(|l| {
                    json!({
                        "number": l.entry.number, "bytes": l.bytes, "groups": l.entry.groups.len(),
                        "end": l.entry.end.to_string(), "dropped_pages": l.dropped_pages,
                    })
                })
                .collect();
            let mut all = superblock_json(&superblock);
            all["logs"] = json!(logs);
            all["free_groups"] = json!(usage.free_groups);
            all["tables"] = json!(disk.tables_usage().map(|t| json!({
                "files": t.files, "free": t.free, "longest_free": t.longest,
            })));
            all["damage"] = json!(found.damage);
            print(&all)?;
            return Ok(code);
        }
        let mut out = std::io::stdout().lock();
        show_superblock(&mut out, &superblock)?;
        writeln!(
            out,
            "free        {} of {} page groups",
            usage.free_groups, usage.groups
        )?;
        if let Some(t) = disk.tables_usage() {
            writeln!(
                out,
                "tables      {}, {} of {} free, {} of that in one piece",
                counted(t.files as u64, "file"),
                term::bytes(t.free),
                term::bytes(t.capacity),
                term::bytes(t.longest)
            )?;
        }
        for log in &found.logs {
            write!(
                out,
                "log {:06}  {}, {} ({})",
                log.entry.number,
                term::bytes(log.bytes),
                counted(log.entry.groups.len() as u64, "page group"),
                log.entry.end
            )?;
            match log.dropped_pages {
                0 => writeln!(out)?,
                n => writeln!(out, "; {} behind a gap", counted(n, "page"))?,
            }
        }
        if let Some(damage) = &found.damage {
            writeln!(out, "{} {damage}", Paint::stdout().red("damaged:"))?;
        }
        Ok(code)
    }
}

impl Dump {
    fn run(self) -> anyhow::Result<ExitCode> {
        let (superblock, disk) = self.place.open(true)?;
        let wanted = |number: u64| self.log.is_none_or(|n| n == number);
        if let Some(number) = self.log
            && disk.log(number).is_none()
        {
            let text = format!("there is no log {number} on {}", self.place.disk);
            return Err(Failure::new(text, "spanlith sd status lists the logs").into());
        }
        if let (Some(path), Some(number)) = (&self.out, self.log) {
            return self.write_log(&disk, number, path);
        }
        let target = target(&self.place.disk)?;
        let env = Env::system();
        let device = target.open(&*env.fs, true).map_err(|e| failed(&e))?;
        let layout = superblock.layout;
        let mut out = std::io::BufWriter::new(std::io::stdout().lock());
        let mut page = vec![0; layout.page_size as usize];
        for log in disk.found().logs.iter().filter(|l| wanted(l.entry.number)) {
            let entry = &log.entry;
            if !self.place.json {
                writeln!(
                    out,
                    "log {:06} colour {:#x}: {}",
                    entry.number, entry.colour, entry.end
                )?;
            }
            for group in &entry.groups {
                for i in 0..layout.group_pages {
                    let number = group * layout.group_pages + i;
                    let at = layout.offset_of(number);
                    device.read_at(at, &mut page).map_err(|e| failed(&e))?;
                    let is_whole =
                        spanlith_speed::decode_page(&page, &superblock.instance).is_some();
                    let Some(h) = header_of(&page).filter(|h| h.colour == entry.colour) else {
                        continue;
                    };
                    if self.place.json {
                        let line = json!({
                            "log": entry.number, "page": number, "byte": at, "ordinal": h.ordinal,
                            "offset": h.offset, "bytes": h.len, "index": h.index, "batch": h.batch,
                            "witness": h.witness, "whole": is_whole,
                        });
                        writeln!(out, "{line}")?;
                        continue;
                    }
                    let state = if is_whole { "" } else { "  DAMAGED" };
                    writeln!(
                        out,
                        "  page {number:>7} at byte {at:>11}: ordinal {:>8}, {:>5} bytes from {:>9}, {} of {} in its \
                         batch, witness {}{state}",
                        h.ordinal,
                        h.len,
                        h.offset,
                        h.index + 1,
                        h.batch,
                        h.witness
                    )?;
                }
            }
        }
        if self.log.is_none() {
            self.show_tables(&disk, &mut out)?;
        }
        out.flush()?;
        Ok(ExitCode::SUCCESS)
    }

    /// The tables, and which pages each has.
    fn show_tables(&self, disk: &SpeedDisk, out: &mut impl Write) -> std::io::Result<()> {
        for (name, file) in disk.stored_tables() {
            let runs = file.runs.iter();
            if self.place.json {
                let runs: Vec<Value> = runs.map(|r| json!([r.first, r.pages])).collect();
                let line = json!({"table": name, "bytes": file.size, "runs": runs});
                writeln!(out, "{line}")?;
                continue;
            }
            let runs: Vec<String> = runs
                .map(|r| format!("{}..{}", r.first, u64::from(r.first) + u64::from(r.pages)))
                .collect();
            let (bytes, runs) = (term::bytes(file.size), runs.join(", "));
            writeln!(out, "table {name}: {bytes}, pages {runs}")?;
        }
        Ok(())
    }

    fn write_log(
        &self,
        disk: &Arc<SpeedDisk>,
        number: u64,
        path: &PathBuf,
    ) -> anyhow::Result<ExitCode> {
        let hint = "choose a name that is free, where you may write";
        let log = disk
            .log(number)
            .ok_or_else(|| Failure::new("no such log", hint))?;
        let file = std::fs::File::create_new(path);
        let mut file = file.map_err(|e| Failure::new(format!("{}: {e}", path.display()), hint))?;
        let mut buf = vec![0; (64 << 10) + PAGE_HEADER];
        let mut at = 0;
        loop {
            let n = log.read_at(disk, at, &mut buf).map_err(|e| failed(&e))?;
            if n == 0 {
                break;
            }
            file.write_all(&buf[..n])?;
            at += n as u64;
        }
        file.sync_all()?;
        writeln!(
            std::io::stdout(),
            "{}: {}",
            path.display(),
            counted(at, "byte")
        )?;
        Ok(ExitCode::SUCCESS)
    }
}

impl Crash {
    fn run(self) -> anyhow::Result<ExitCode> {
        let begun = Instant::now();
        let report = match self.tables {
            true => crash_programme_of_tables(self.seed, self.states),
            false => crash_programme(self.seed, self.states),
        };
        let seconds = begun.elapsed().as_secs_f64();
        let code = match report.broken.is_empty() {
            true => ExitCode::SUCCESS,
            false => ExitCode::FAILURE,
        };
        if self.json {
            print(&json!({
                "histories": report.histories, "states": report.states, "broken": report.broken,
                "kinds": report.kinds, "seconds": seconds, "seed": self.seed,
            }))?;
            return Ok(code);
        }
        let mut out = std::io::stdout().lock();
        writeln!(
            out,
            "{} of {} opened in {seconds:.1} s ({}/s), seed {}",
            counted(report.states, "state"),
            counted(report.histories, "history").replace("historys", "histories"),
            count((report.states as f64 / seconds.max(1e-9)) as u64),
            self.seed
        )?;
        for (kind, states) in &report.kinds {
            writeln!(out, "    {kind:<22} {:>12}", count(*states))?;
        }
        match report.broken.is_empty() {
            true => writeln!(out, "nothing lost, no hole, every one opened")?,
            false => {
                for broken in &report.broken {
                    writeln!(out, "{} {broken}", Paint::stdout().red("broken:"))?;
                }
            }
        }
        Ok(code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!(parse_size("4096"), Ok(4096));
        assert_eq!(parse_size("64M"), Ok(64 << 20));
        assert_eq!(parse_size("1g"), Ok(1 << 30));
        assert!(parse_size("").is_err() && parse_size("x").is_err());
        assert!(parse_size("99999999999999G").is_err());
    }
}
