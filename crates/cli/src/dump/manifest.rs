//! Dumps a MANIFEST: a line for each edit, then one for each file it adds or removes.

use super::kind::AtFile;
use super::{Dump, Record, verify_hint};
use crate::bytes::hex as to_hex;
use crate::fail::Failure;
use spanlith::version::edit::UNKNOWN_CHECKSUM_FUNCTION;
use spanlith::version::{NewFile, VersionEdit};
use spanlith_env::Env;
use spanlith_wal::{LogReader, ReadEvent};
use std::io::{BufWriter, Write};
use std::process::ExitCode;

pub fn run(args: &Dump) -> anyhow::Result<ExitCode> {
    let path = args.file.as_path();
    let file = Env::system().fs.open_sequential(path).at_file(path)?;
    let mut reader = LogReader::new(file, 0);
    let mut out = BufWriter::new(std::io::stdout().lock());
    let mut damaged = 0u64;
    loop {
        let event = match reader.next_event() {
            Ok(event) => event,
            Err(e) => {
                out.flush()?;
                return Err::<ExitCode, _>(e).at_file(path);
            }
        };
        let (offset, what) = match event {
            ReadEvent::Record { offset, .. } => match VersionEdit::decode(reader.record()) {
                Ok(edit) => {
                    for record in records(&edit, offset, reader.record().len(), args.hex) {
                        record.print(&mut out, args.json)?;
                    }
                    continue;
                }
                Err(e) => (offset, e.to_string()),
            },
            ReadEvent::Corruption {
                offset,
                dropped,
                kind,
                ..
            } => (offset, format!("{kind} ({dropped} bytes dropped)")),
            ReadEvent::Eof => break,
            _ => (
                reader.position(),
                "a record that belongs into a write-ahead log".to_string(),
            ),
        };
        damaged += 1;
        Record::new("damage")
            .with("offset", offset)
            .with("what", what)
            .print(&mut out, args.json)?;
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

/// The lines of an edit.
fn records(e: &VersionEdit, offset: u64, bytes: usize, hex: bool) -> Vec<Record> {
    let mut head = Record::new("edit")
        .with("offset", offset)
        .with("bytes", bytes);
    head = head.with("cf", e.column_family);
    if let Some(name) = &e.column_family_add {
        head = head.bytes("add_family", name, false);
    }
    if e.column_family_drop {
        head = head.with("drop_family", true);
    }
    for (name, text) in [("comparator", &e.comparator), ("db_id", &e.db_id)] {
        if let Some(text) = text {
            head = head.bytes(name, text, false);
        }
    }
    let number = |v: Option<u64>| v.map(serde_json::Value::from);
    let fields: Vec<(&'static str, Option<serde_json::Value>)> = vec![
        ("log_number", number(e.log_number)),
        ("prev_log_number", number(e.prev_log_number)),
        ("next_file_number", number(e.next_file_number)),
        ("last_sequence", number(e.last_sequence)),
        ("min_log_number_to_keep", number(e.min_log_number_to_keep)),
        (
            "max_column_family",
            number(e.max_column_family.map(u64::from)),
        ),
        (
            "remaining_in_atomic_group",
            number(e.remaining_in_atomic_group.map(u64::from)),
        ),
        ("wal_deletion", number(e.wal_deletion)),
        (
            "full_history_ts_low",
            e.full_history_ts_low.as_deref().map(|v| to_hex(v).into()),
        ),
        (
            "persist_user_defined_timestamps",
            e.persist_user_defined_timestamps
                .map(serde_json::Value::from),
        ),
        (
            "subcompaction_progress",
            e.subcompaction_progress
                .as_deref()
                .map(|v| to_hex(v).into()),
        ),
        (
            "last_compacted_manifest_file_size",
            number(e.last_compacted_manifest_file_size),
        ),
    ];
    for (name, value) in fields {
        if let Some(value) = value {
            head = head.with(name, value);
        }
    }
    let mut out = vec![head];
    for (level, key) in &e.compact_cursors {
        out.push(
            Record::new("compact_cursor")
                .with("level", *level)
                .key("key", key, hex),
        );
    }
    for (level, number) in &e.deleted_files {
        out.push(
            Record::new("delete_file")
                .with("level", *level)
                .with("number", *number),
        );
    }
    out.extend(e.new_files.iter().map(|f| new_file(f, hex)));
    for b in &e.blob_file_additions {
        let mut r = Record::new("add_blob_file")
            .with("number", b.number)
            .with("count", b.total_count)
            .with("bytes", b.total_bytes);
        if !b.checksum_method.is_empty() {
            r = r
                .bytes("checksum_method", &b.checksum_method, false)
                .with("checksum", to_hex(&b.checksum_value));
        }
        out.push(r);
    }
    for g in &e.blob_file_garbages {
        out.push(
            Record::new("blob_garbage")
                .with("number", g.number)
                .with("count", g.count)
                .with("bytes", g.bytes),
        );
    }
    for w in &e.wal_additions {
        let mut r = Record::new("add_log").with("number", w.number);
        if let Some(size) = w.synced_size {
            r = r.with("synced_bytes", size);
        }
        out.push(r);
    }
    out
}

fn new_file(f: &NewFile, hex: bool) -> Record {
    let mut r = Record::new("add_file")
        .with("level", f.level)
        .with("number", f.number)
        .with("bytes", f.size)
        .key("smallest", &f.smallest, hex)
        .key("largest", &f.largest, hex)
        .with("smallest_seqno", f.smallest_seqno)
        .with("largest_seqno", f.largest_seqno);
    let numbers = [
        ("path_id", u64::from(f.path_id)),
        ("epoch_number", f.epoch_number),
        ("oldest_ancester_time", f.oldest_ancester_time),
        ("file_creation_time", f.file_creation_time),
        ("oldest_blob_file_number", f.oldest_blob_file_number),
        (
            "compensated_range_deletion_size",
            f.compensated_range_deletion_size,
        ),
        ("tail_size", f.tail_size),
        ("temperature", u64::from(f.temperature)),
    ];
    for (name, value) in numbers {
        if value != 0 {
            r = r.with(name, value);
        }
    }
    if f.unique_id != [0, 0] {
        r = r.with(
            "unique_id",
            format!("{:016x}{:016x}", f.unique_id[0], f.unique_id[1]),
        );
    }
    if f.marked_for_compaction {
        r = r.with("marked_for_compaction", true);
    }
    if !f.user_defined_timestamps_persisted {
        r = r.with("user_defined_timestamps_persisted", false);
    }
    if f.file_checksum_func_name != UNKNOWN_CHECKSUM_FUNCTION {
        r = r
            .bytes("file_checksum_func_name", &f.file_checksum_func_name, false)
            .with("file_checksum", to_hex(&f.file_checksum));
    }
    let bytes = [
        ("min_timestamp", &f.min_timestamp),
        ("max_timestamp", &f.max_timestamp),
        ("open_metadata", &f.open_metadata),
    ];
    for (name, value) in bytes {
        if !value.is_empty() {
            r = r.with(name, to_hex(value));
        }
    }
    r
}
