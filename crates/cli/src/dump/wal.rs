//! Dumps a write-ahead log: a line for each batch, then one for each of its entries.

use super::kind::AtFile;
use super::{Dump, Record, verify_hint};
use crate::fail::{At, Failure};
use crate::inventory::Inventory;
use clap::Args;
use spanlith::version::filenames::{ARCHIVE_DIR, log_file_name};
use spanlith::version::{FileKind, parse_file_name};
use spanlith_env::Env;
use spanlith_wal::{BatchIter, BatchOp, LogReader, ReadEvent};
use std::collections::BTreeMap;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// Bytes gathered before they are written out.
const OUTPUT_BUFFER: usize = 256 << 10;

pub fn run(args: &Dump) -> anyhow::Result<ExitCode> {
    let path = args.file.as_path();
    let file = Env::system().fs.open_sequential(path).at_file(path)?;
    // Recyclable records carry the number of their log, which the name tells.
    let number = path
        .file_name()
        .and_then(|n| parse_file_name(&n.to_string_lossy()))
        .and_then(FileKind::number)
        .unwrap_or(0);
    let mut reader = LogReader::new(file, number);
    let mut out = BufWriter::with_capacity(OUTPUT_BUFFER, std::io::stdout().lock());
    let mut damaged = 0u64;
    loop {
        let event = match reader.next_event() {
            Ok(event) => event,
            Err(e) => {
                out.flush()?;
                return Err::<ExitCode, _>(e).at_file(path);
            }
        };
        match event {
            ReadEvent::Record { offset, .. } => {
                if let Err(why) = batch(reader.record(), offset, args, &mut out)? {
                    damaged += 1;
                    damage(offset, &why).print(&mut out, args.json)?;
                }
            }
            ReadEvent::Corruption {
                offset,
                dropped,
                kind,
                ..
            } => {
                damaged += 1;
                damage(offset, &kind.to_string())
                    .with("dropped", dropped)
                    .print(&mut out, args.json)?;
            }
            ReadEvent::OldRecord { offset } => {
                Record::new("older_log_begins")
                    .with("offset", offset)
                    .print(&mut out, args.json)?;
            }
            ReadEvent::TimestampSizes(sizes) => {
                let sizes: Vec<_> = sizes.iter().map(|(cf, n)| format!("{cf}:{n}")).collect();
                Record::new("timestamp_sizes")
                    .with("families", sizes.join(","))
                    .print(&mut out, args.json)?;
            }
            ReadEvent::Predecessor {
                log_number,
                size,
                last_sequence,
            } => {
                Record::new("predecessor")
                    .with("log", log_number)
                    .with("bytes", size)
                    .with("last_sequence", last_sequence)
                    .print(&mut out, args.json)?;
            }
            ReadEvent::Eof => break,
        }
    }
    out.flush()?;
    if damaged > 0 {
        return Err(Failure::new(
            format!(
                "{}: {}, marked 'damage' above",
                path.display(),
                crate::term::counted(damaged, "damaged place")
            ),
            verify_hint(path),
        )
        .into());
    }
    Ok(ExitCode::SUCCESS)
}

/// Which database, and from where on.
#[derive(Debug, Args)]
pub struct Since {
    /// The first sequence number
    sequence: u64,
    /// Directory of the database
    #[arg(long, value_name = "DIR")]
    db: PathBuf,
    /// Directory of the logs if they are neither in the database's nor where its options say
    #[arg(long, value_name = "DIR")]
    wal_dir: Option<PathBuf>,
    /// Keys and values in bare hexadecimal
    #[arg(long)]
    hex: bool,
    /// Prints JSON, one object a line
    #[arg(long)]
    json: bool,
}

impl Since {
    /// Prints the batches from the sequence number on, archived logs first; a gap in front of them is a
    /// failure.
    ///
    /// # Errors
    /// Of reading the logs, and of writing.
    pub fn run(&self) -> anyhow::Result<ExitCode> {
        let i = Inventory::read_with_disk(&self.db, self.wal_dir.as_deref()).at(&self.db)?;
        let archive = i.wal_dir.join(ARCHIVE_DIR);
        let mut logs: BTreeMap<u64, PathBuf> = BTreeMap::new();
        // A database without an archive has no such directory.
        for name in crate::reading::env().fs.list(&archive).unwrap_or_default() {
            if let Some(FileKind::Log(n)) = parse_file_name(&name) {
                logs.insert(n, archive.join(name));
            }
        }
        let live = i
            .logs
            .keys()
            .map(|&n| (n, i.wal_dir.join(log_file_name(n))));
        logs.extend(live);
        let mut out = BufWriter::with_capacity(OUTPUT_BUFFER, std::io::stdout().lock());
        let mut first = None;
        for (number, path) in logs {
            let file = crate::reading::env()
                .fs
                .open_sequential(&path)
                .at(&i.wal_dir)?;
            let mut reader = LogReader::new(file, number);
            let args = Dump {
                file: path,
                hex: self.hex,
                json: self.json,
            };
            loop {
                let (offset, what) = match reader.next_event().at(&i.wal_dir)? {
                    ReadEvent::Eof => break,
                    ReadEvent::Record { offset, .. } => {
                        let span = BatchIter::new(reader.record());
                        let span = span.map(|b| (b.sequence(), u64::from(b.header_count())));
                        match span {
                            Ok((begin, n)) if begin.saturating_add(n) <= self.sequence => continue,
                            Ok((begin, _)) => {
                                first.get_or_insert(begin);
                                match batch(reader.record(), offset, &args, &mut out)? {
                                    Ok(()) => continue,
                                    Err(why) => (offset, why),
                                }
                            }
                            Err(e) => (offset, e.to_string()),
                        }
                    }
                    ReadEvent::Corruption { offset, kind, .. } => (offset, kind.to_string()),
                    _ => continue,
                };
                out.flush()?;
                return Err(Failure::new(
                    format!("{} at {offset}: {what}", args.file.display()),
                    verify_hint(&args.file),
                )
                .into());
            }
        }
        out.flush()?;
        match first {
            Some(first) if first > self.sequence.max(1) => Err(Failure::new(
                format!(
                    "the logs begin with sequence number {first}: those from {} on are in tables only",
                    self.sequence
                ),
                "wal_ttl_seconds and wal_size_limit_mb keep logs for longer",
            )
            .into()),
            _ => Ok(ExitCode::SUCCESS),
        }
    }
}

fn damage(offset: u64, what: &str) -> Record {
    Record::new("damage")
        .with("offset", offset)
        .with("what", what)
}

/// Prints a batch; the inner result is that of decoding it.
fn batch(
    bytes: &[u8],
    offset: u64,
    args: &Dump,
    out: &mut dyn Write,
) -> std::io::Result<Result<(), String>> {
    let ops = match BatchIter::new(bytes) {
        Ok(ops) => ops,
        Err(e) => return Ok(Err(e.to_string())),
    };
    let mut sequence = ops.sequence();
    Record::new("batch")
        .with("offset", offset)
        .with("bytes", bytes.len())
        .with("sequence", sequence)
        .with("count", ops.header_count())
        .print(out, args.json)?;
    for op in ops {
        let op = match op {
            Ok(op) => op,
            Err(e) => return Ok(Err(e.to_string())),
        };
        entry(&op, Some(sequence), args.hex).print(out, args.json)?;
        sequence += u64::from(op.is_counted());
    }
    Ok(Ok(()))
}

/// The line of an entry, with its sequence number if it has one that means something.
pub fn entry(op: &BatchOp<'_>, sequence: Option<u64>, hex: bool) -> Record {
    let mut record = Record::new(name(op));
    if let (Some(sequence), true) = (sequence, op.is_counted()) {
        record = record.with("sequence", sequence);
    }
    if let Some(cf) = op.cf() {
        record = record.with("cf", cf);
    }
    fields(record, op, hex)
}

fn name(op: &BatchOp<'_>) -> &'static str {
    match op {
        BatchOp::Put { .. } => "put",
        BatchOp::Delete { .. } => "delete",
        BatchOp::SingleDelete { .. } => "single_delete",
        BatchOp::Merge { .. } => "merge",
        BatchOp::DeleteRange { .. } => "delete_range",
        BatchOp::LogData { .. } => "log_data",
        BatchOp::BlobIndex { .. } => "blob_index",
        BatchOp::WideColumnEntity { .. } => "wide_column_entity",
        BatchOp::ValuePreferredSeqno { .. } => "timed_put",
        BatchOp::BeginPrepare(_) => "begin_prepare",
        BatchOp::EndPrepare { .. } => "end_prepare",
        BatchOp::Commit { .. } => "commit",
        BatchOp::CommitWithTimestamp { .. } => "commit_with_timestamp",
        BatchOp::Rollback { .. } => "rollback",
        BatchOp::Noop => "noop",
    }
}

fn fields(record: Record, op: &BatchOp<'_>, hex: bool) -> Record {
    let two = |r: Record, a: &[u8], name: &'static str, b: &[u8]| {
        r.bytes("key", a, hex).bytes(name, b, hex)
    };
    match *op {
        BatchOp::Put { key, value, .. }
        | BatchOp::Merge { key, value, .. }
        | BatchOp::ValuePreferredSeqno { key, value, .. } => two(record, key, "value", value),
        BatchOp::BlobIndex { key, index, .. } => two(record, key, "index", index),
        BatchOp::WideColumnEntity { key, entity, .. } => two(record, key, "entity", entity),
        BatchOp::Delete { key, .. } | BatchOp::SingleDelete { key, .. } => {
            record.bytes("key", key, hex)
        }
        BatchOp::DeleteRange { begin, end, .. } => {
            record.bytes("begin", begin, hex).bytes("end", end, hex)
        }
        BatchOp::LogData { blob } => record.bytes("data", blob, hex),
        BatchOp::BeginPrepare(kind) => record.with("policy", format!("{kind:?}").to_lowercase()),
        BatchOp::EndPrepare { xid } | BatchOp::Commit { xid } | BatchOp::Rollback { xid } => {
            record.bytes("xid", xid, hex)
        }
        BatchOp::CommitWithTimestamp { ts, xid } => {
            record.bytes("xid", xid, hex).bytes("timestamp", ts, hex)
        }
        BatchOp::Noop => record,
    }
}
