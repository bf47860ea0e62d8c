//! Dumps a write-ahead log: a line for each batch, then one for each of its entries.

use super::{Dump, Record, folder, verify_hint};
use crate::bytes::show;
use crate::fail::{At, Failure};
use spanlith::version::{FileKind, parse_file_name};
use spanlith_env::Env;
use spanlith_wal::{BatchIter, BatchOp, LogReader, ReadEvent};
use std::io::{BufWriter, Write};
use std::process::ExitCode;

/// Bytes gathered before they are written out.
const OUTPUT_BUFFER: usize = 256 << 10;

pub fn run(args: &Dump) -> anyhow::Result<ExitCode> {
    let path = args.file.as_path();
    let file = Env::system().fs.open_sequential(path).at(folder(path))?;
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
                return Err::<ExitCode, _>(e).at(folder(path));
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
        let mut record = Record::new(name(&op));
        if op.is_counted() {
            record = record.with("sequence", sequence);
            sequence += 1;
        }
        if let Some(cf) = op.cf() {
            record = record.with("cf", cf);
        }
        fields(record, &op, args.hex).print(out, args.json)?;
    }
    Ok(Ok(()))
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
        r.with("key", show(a, hex)).with(name, show(b, hex))
    };
    match *op {
        BatchOp::Put { key, value, .. }
        | BatchOp::Merge { key, value, .. }
        | BatchOp::ValuePreferredSeqno { key, value, .. } => two(record, key, "value", value),
        BatchOp::BlobIndex { key, index, .. } => two(record, key, "index", index),
        BatchOp::WideColumnEntity { key, entity, .. } => two(record, key, "entity", entity),
        BatchOp::Delete { key, .. } | BatchOp::SingleDelete { key, .. } => {
            record.with("key", show(key, hex))
        }
        BatchOp::DeleteRange { begin, end, .. } => record
            .with("begin", show(begin, hex))
            .with("end", show(end, hex)),
        BatchOp::LogData { blob } => record.with("data", show(blob, hex)),
        BatchOp::BeginPrepare(kind) => record.with("policy", format!("{kind:?}").to_lowercase()),
        BatchOp::EndPrepare { xid } | BatchOp::Commit { xid } | BatchOp::Rollback { xid } => {
            record.with("xid", show(xid, hex))
        }
        BatchOp::CommitWithTimestamp { ts, xid } => record
            .with("xid", show(xid, hex))
            .with("timestamp", show(ts, hex)),
        BatchOp::Noop => record,
    }
}
