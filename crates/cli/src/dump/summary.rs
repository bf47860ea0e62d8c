//! `trace blocks` and `trace io`: sums of a trace of looked-up blocks, and of one of calls of the file system.

use super::kind::AtFile;
use super::trace::open;
use super::{Dump, Record};
use crate::bytes::show;
use crate::fail::Failure;
use spanlith::trace::{TornTrace, TraceRecord};
use spanlith::{Error, Result};
use spanlith_workload::analyze::{BlockSums, CallSums, Calls, Lookups};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

/// Describes a trace besides its sums.
#[derive(Default)]
struct Span {
    /// Timestamps of the first and the last record.
    times: Option<(u64, u64)>,
    torn: Option<TornTrace>,
}

/// Goes over the records; `add` returns false for one that does not belong into a trace of its kind.
fn read(path: &Path, mut add: impl FnMut(&TraceRecord<'_>) -> bool) -> Result<Option<Span>> {
    let (mut reader, header) = open(path)?;
    let mut span = Span::default();
    while let Some(record) = reader.next_record()? {
        let at = |e: Error| e.with_path(path).with("offset", record.offset);
        match header.decode(&record).map_err(at)? {
            TraceRecord::End => break,
            TraceRecord::Unknown(_) => continue,
            decoded if !add(&decoded) => return Ok(None),
            _ => {}
        }
        let first = span.times.map_or(record.timestamp, |(first, _)| first);
        span.times = Some((first, record.timestamp));
    }
    span.torn = reader.torn();
    Ok(Some(span))
}

/// The error of a trace of another kind.
fn other(path: &Path, wanted: &str) -> anyhow::Error {
    let what = format!("{}: no trace of {wanted}", path.display());
    let hint = "spanlith trace dump shows its records; bench and drive record such traces with --trace-blocks and --trace-io";
    Failure::new(what, hint).into()
}

fn of_lookups(record: Record, l: &Lookups) -> Record {
    record
        .with("lookups", l.count)
        .with("hits", l.hits)
        .with("hit_ratio", rounded(l.hit_ratio()))
        .with("bytes", l.bytes)
        .with("missed_bytes", l.missed_bytes)
        .with("not_inserted", l.not_inserted)
}

fn of_calls(record: Record, c: &Calls) -> Record {
    let l = &c.latency;
    record
        .with("calls", l.count())
        .with("failed", c.failed)
        .with("bytes", c.bytes)
        .with("nanos", c.nanos)
        .with("p50_nanos", l.percentile(50.0))
        .with("p99_nanos", l.percentile(99.0))
        .with("max_nanos", l.max())
}

fn rounded(ratio: f64) -> f64 {
    (ratio * 1e4).round() / 1e4
}

fn torn(span: &Span) -> Option<Record> {
    span.torn.map(|TornTrace { offset, bytes }| {
        Record::new("torn_end")
            .with("offset", offset)
            .with("bytes", bytes)
    })
}

fn print_all(records: impl IntoIterator<Item = Record>, json: bool) -> std::io::Result<ExitCode> {
    let mut out = std::io::stdout().lock();
    for record in records {
        record.print(&mut out, json)?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Sums up looked-up blocks.
pub fn blocks(args: &Dump) -> anyhow::Result<ExitCode> {
    let path = args.file.as_path();
    let mut sums = BlockSums::default();
    let add = |record: &TraceRecord<'_>| match record {
        TraceRecord::Block(block) => {
            sums.add(block);
            true
        }
        _ => false,
    };
    let Some(span) = read(path, add).at_file(path)? else {
        return Err(other(path, "looked-up blocks"));
    };
    let (from, to) = span.times.unwrap_or_default();
    let all = Record::new("all").with("micros", to.saturating_sub(from));
    let mut lines = vec![of_lookups(all, &sums.all)];
    for (kind, l) in &sums.by_kind {
        lines.push(of_lookups(Record::new("kind").with("name", *kind), l));
    }
    for (caller, l) in &sums.by_caller {
        lines.push(of_lookups(Record::new("caller").with("name", *caller), l));
    }
    for (level, l) in &sums.by_level {
        lines.push(of_lookups(Record::new("level").with("level", *level), l));
    }
    for (family, l) in &sums.by_family {
        let line = Record::new("family").bytes("name", family, args.hex);
        lines.push(of_lookups(line, l));
    }
    lines.extend(torn(&span));
    Ok(print_all(lines, args.json)?)
}

/// Sums up calls of the file system.
pub fn calls(args: &Dump) -> anyhow::Result<ExitCode> {
    let path = args.file.as_path();
    let mut sums = CallSums::default();
    let add = |record: &TraceRecord<'_>| match record {
        TraceRecord::Call(call) => {
            sums.add(call);
            true
        }
        _ => false,
    };
    let Some(span) = read(path, add).at_file(path)? else {
        return Err(other(path, "calls of the file system"));
    };
    // The timestamps of such traces are nanoseconds.
    let (from, to) = span.times.unwrap_or_default();
    let all = Record::new("all").with("micros", to.saturating_sub(from) / 1000);
    let mut lines = vec![of_calls(all, &sums.all)];
    for (operation, c) in &sums.by_operation {
        let name = show(operation, args.hex);
        lines.push(of_calls(Record::new("operation").with("name", name), c));
    }
    for ((file, operation), c) in &sums.by_file {
        let line = Record::new("file").with("kind", *file);
        lines.push(of_calls(
            line.with("operation", show(operation, args.hex)),
            c,
        ));
    }
    lines.extend(torn(&span));
    Ok(print_all(lines, args.json)?)
}
