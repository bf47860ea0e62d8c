//! Dumps and checks a trace of queries, of looked-up blocks, or of calls of the file system.

use super::kind::AtFile;
use super::{Dump, Record, wal};
use crate::bytes::hex as bare_hex;
use crate::fail::Failure;
use crate::term::{count, counted};
use spanlith::trace::{
    BlockAccess, FileCall, Query, RawRecord, TornTrace, TraceForm, TraceHeader, TraceReader,
    TraceRecord,
};
use spanlith::{Error, Result};
use spanlith_env::Env;
use spanlith_wal::BatchIter;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;

/// Bytes gathered before they are written out.
const OUTPUT_BUFFER: usize = 256 << 10;

/// A trace, read as far as its header.
pub fn open(path: &Path) -> Result<(TraceReader, TraceHeader)> {
    let mut reader = TraceReader::new(Env::system().fs.open_sequential(path)?);
    let header = match reader.next_record().map_err(|e| e.with_path(path))? {
        Some(first) => TraceHeader::from_record(&first),
        None => Err(Error::corruption("no trace: not one whole record")),
    };
    Ok((reader, header.map_err(|e| e.with_path(path))?))
}

fn form(header: &TraceHeader) -> Record {
    let release = |(major, minor): (u32, u32)| format!("{major}.{minor}");
    let record = Record::new("trace").with("timestamp", header.timestamp);
    let record = match header.form {
        TraceForm::Queries { version } => record
            .with("of", "queries")
            .with("version", release(version)),
        TraceForm::Accesses => record.with("of", "blocks or calls"),
    };
    record.with("rocksdb_version", release(header.rocksdb))
}

pub fn run(args: &Dump) -> anyhow::Result<ExitCode> {
    let path = args.file.as_path();
    let (mut reader, header) = open(path).at_file(path)?;
    let mut out = BufWriter::with_capacity(OUTPUT_BUFFER, std::io::stdout().lock());
    form(&header).print(&mut out, args.json)?;
    let mut damaged = 0u64;
    loop {
        let record = match reader.next_record() {
            Ok(Some(record)) => record,
            Ok(None) => break,
            Err(e) => {
                out.flush()?;
                return Err::<ExitCode, _>(e.with_path(path)).at_file(path);
            }
        };
        match header.decode(&record) {
            Ok(TraceRecord::End) => {
                head("end", &record).print(&mut out, args.json)?;
                break;
            }
            Ok(decoded) => {
                if let Err(what) = print(&record, &decoded, args, &mut out)? {
                    damaged += 1;
                    damage(&record, &what).print(&mut out, args.json)?;
                }
            }
            Err(e) => {
                damaged += 1;
                damage(&record, &e.to_string()).print(&mut out, args.json)?;
            }
        }
    }
    if let Some(TornTrace { offset, bytes }) = reader.torn() {
        // As the end of a process leaves it; nothing tells it from damage.
        Record::new("torn_end")
            .with("offset", offset)
            .with("bytes", bytes)
            .print(&mut out, args.json)?;
    }
    out.flush()?;
    if damaged > 0 {
        let what = format!(
            "{}: {}, marked 'damage' above",
            path.display(),
            counted(damaged, "damaged record")
        );
        let hint = "trace_analyzer --try_process_corrupted_trace counts what lies before the first";
        return Err(Failure::new(what, hint).into());
    }
    Ok(ExitCode::SUCCESS)
}

fn head(kind: &'static str, record: &RawRecord<'_>) -> Record {
    Record::new(kind)
        .with("offset", record.offset)
        .with("timestamp", record.timestamp)
}

fn damage(record: &RawRecord<'_>, what: &str) -> Record {
    head("damage", record).with("what", what)
}

/// Prints a record; the inner result is that of taking a batch apart.
fn print(
    record: &RawRecord<'_>,
    decoded: &TraceRecord<'_>,
    args: &Dump,
    out: &mut dyn Write,
) -> std::io::Result<std::result::Result<(), String>> {
    let line = match decoded {
        TraceRecord::Query(query) => return print_query(record, query, args, out),
        TraceRecord::Block(block) => of_block(head("block", record), block, args.hex),
        TraceRecord::Call(call) => of_call(head("call", record), call, args.hex),
        TraceRecord::Unknown(kind) => head("unknown", record)
            .with("type", *kind)
            .with("bytes", record.payload.len()),
        TraceRecord::End => head("end", record),
    };
    line.print(out, args.json).map(Ok)
}

fn print_query(
    record: &RawRecord<'_>,
    query: &Query<'_>,
    args: &Dump,
    out: &mut dyn Write,
) -> std::io::Result<std::result::Result<(), String>> {
    let hex = args.hex;
    match *query {
        Query::Write { batch } => {
            let ops = match BatchIter::new(batch) {
                Ok(ops) => ops,
                Err(e) => return Ok(Err(e.to_string())),
            };
            head("write", record)
                .with("bytes", batch.len())
                .with("count", ops.header_count())
                .print(out, args.json)?;
            for op in ops {
                match op {
                    Ok(op) => wal::entry(&op, None, hex).print(out, args.json)?,
                    Err(e) => return Ok(Err(e.to_string())),
                }
            }
        }
        Query::Get { cf, key } => head("get", record)
            .with("cf", cf)
            .bytes("key", key, hex)
            .print(out, args.json)?,
        Query::Seek {
            backward,
            cf,
            key,
            lower,
            upper,
        } => {
            let name = if backward { "seek_for_prev" } else { "seek" };
            let mut line = head(name, record).with("cf", cf).bytes("key", key, hex);
            for (name, bound) in [("lower_bound", lower), ("upper_bound", upper)] {
                if let Some(bound) = bound {
                    line = line.bytes(name, bound, hex);
                }
            }
            line.print(out, args.json)?;
        }
        Query::MultiGet(keys) => {
            head("multi_get", record)
                .with("count", keys.len())
                .print(out, args.json)?;
            for (cf, key) in keys.iter() {
                Record::new("key")
                    .with("cf", cf)
                    .bytes("key", key, hex)
                    .print(out, args.json)?;
            }
        }
    }
    Ok(Ok(()))
}

fn of_block(line: Record, block: &BlockAccess<'_>, hex: bool) -> Record {
    let mut line = line
        .with("kind", block.block.name())
        .with("block_key", bare_hex(block.key))
        .with("bytes", block.size)
        .with("cf", block.cf)
        .bytes("cf_name", block.cf_name, hex)
        .with("level", block.level)
        .with("file", block.file)
        .with("caller", block.caller.name())
        .with("hit", block.is_hit)
        .with("no_insert", block.no_insert);
    if let Some(reference) = &block.reference {
        line = line
            .with("get_id", reference.get_id)
            .with("from_snapshot", reference.from_snapshot)
            .bytes("internal_key", reference.internal_key, hex);
        if let Some((bytes, keys, exists)) = reference.found {
            line = line
                .with("entry_bytes", bytes)
                .with("block_keys", keys)
                .with("key_exists", exists);
        }
    }
    line
}

fn of_call(line: Record, call: &FileCall<'_>, hex: bool) -> Record {
    let mut line = line
        .bytes("operation", call.operation, hex)
        .with("nanoseconds", call.latency)
        .bytes("status", call.status, hex)
        .bytes("file", call.file_name, hex);
    for (name, number) in [
        ("file_size", call.file_size),
        ("length", call.length),
        ("at", call.offset),
    ] {
        if let Some(number) = number {
            line = line.with(name, number);
        }
    }
    match call.request_id {
        Some(id) => line.bytes("request_id", id, hex),
        None => line,
    }
}

/// Every record of a trace, and that each decodes.
pub fn check(path: &Path) -> std::result::Result<String, String> {
    let look = || -> Result<String> {
        let (mut reader, header) = open(path)?;
        let (mut records, mut ended, mut damage) = (0u64, false, Vec::new());
        while let Some(record) = reader.next_record()? {
            let decoded = header.decode(&record).and_then(|decoded| match decoded {
                TraceRecord::Query(Query::Write { batch }) => {
                    let mut ops = BatchIter::new(batch)?;
                    ops.try_for_each(|op| op.map(drop)).map(|()| false)
                }
                other => Ok(other == TraceRecord::End),
            });
            match decoded {
                Ok(true) => {
                    ended = true;
                    break;
                }
                Ok(false) => records += 1,
                Err(e) => damage.push(format!("at {}: {e}", record.offset)),
            }
        }
        if !damage.is_empty() {
            return Err(Error::corruption(damage.join("; ")));
        }
        let end = match (reader.torn(), ended, header.form) {
            (Some(torn), ..) => format!(", ends inside a record at {}", torn.offset),
            (None, false, TraceForm::Queries { .. }) => ", was not ended".to_string(),
            _ => String::new(),
        };
        Ok(format!("{} records{end}", count(records)))
    };
    look().map_err(|e| e.to_string())
}
