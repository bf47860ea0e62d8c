//! Inputs to start from, made from files that RocksDB wrote (`fixtures/`).

use super::{backup, database, speed};
use spanlith_env::RandomAccessFile;
use spanlith_table::{ReaderOptions, TableReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Largest file that is taken.
const SIZE_MAX: u64 = 8 << 10;

/// An input: its target and its bytes.
pub type Seed = (&'static str, Vec<u8>);

/// All seeds from the folder `fixtures`; at most `per_target` of each target, spread evenly.
///
/// # Panics
/// If `fixtures` cannot be read.
pub fn seeds(fixtures: &Path, per_target: usize) -> Vec<Seed> {
    let mut files = Vec::new();
    walk(fixtures, &mut files);
    files.sort();
    let mut all: Vec<Seed> = Vec::new();
    for path in &files {
        let bytes = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        from_file(path, bytes, &mut all);
    }
    all.extend(database::seeds().into_iter().map(|(_, b)| ("database", b)));
    all.extend(backup::seeds().into_iter().map(|b| ("backup_list", b)));
    all.extend(speed::seeds().into_iter().map(|b| ("speed_disk", b)));
    all.push((
        "range_tombstones",
        b"\x01\x05\x09\x03\x04\x0a\x02\x09\x04".to_vec(),
    ));
    all.push(("unique_id", b"a-db-id\nABCDEFGHIJKLMNOPQRST\n12".to_vec()));
    let strings = "write_buffer_size=1M;block_based_table_factory={block_size=4K;filter_policy=bloomfilter:10:false};max_open_files=-1";
    all.push(("options_string", strings.into()));
    thin(all, per_target)
}

fn thin(mut all: Vec<Seed>, per_target: usize) -> Vec<Seed> {
    all.sort();
    all.dedup();
    let mut out = Vec::new();
    for of_target in all.chunk_by(|a, b| a.0 == b.0) {
        let step = of_target.len().div_ceil(per_target.max(1)).max(1);
        out.extend(of_target.iter().step_by(step).cloned());
    }
    out
}

fn walk(folder: &Path, files: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(folder);
    let entries = entries.unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            walk(&path, files);
        } else if entry.metadata().is_ok_and(|m| m.len() <= SIZE_MAX) {
            files.push(path);
        }
    }
}

fn with_flags(flags: u8, bytes: &[u8]) -> Vec<u8> {
    [&[flags], bytes].concat()
}

fn from_file(path: &Path, bytes: Vec<u8>, all: &mut Vec<Seed>) {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    all.push(("file_name", name.as_bytes().to_vec()));
    if name == "CURRENT" {
        all.push(("current", bytes));
    } else if path.parent().is_some_and(|dir| dir.ends_with("meta")) {
        all.push(("backup_list", with_flags(0, &bytes)));
    } else if name.starts_with("MANIFEST-") {
        records(&bytes, "version_edit", all);
        all.push(("log_reader", with_flags(0, &bytes)));
    } else if name.starts_with("OPTIONS-") {
        all.push(("options_file", bytes));
    } else if name.ends_with(".log") {
        records(&bytes, "write_batch", all);
        let number: u64 = name.trim_end_matches(".log").parse().unwrap_or(0);
        all.push(("log_reader", with_flags((number as u8 & 0x7f) << 1, &bytes)));
    } else if name.ends_with(".blob") {
        all.push(("blob_file", with_flags(0, &bytes)));
    } else if name.starts_with("r118-cuckoo") && name.ends_with(".sst") {
        all.push(("cuckoo_table", bytes));
    } else if name.starts_with("r118-plain") && name.ends_with(".sst") {
        all.push(("plain_table", bytes));
    } else if name.ends_with(".sst") {
        all.push(("table", with_flags(0, &bytes)));
        blocks(&bytes, all);
    } else if name.ends_with(".trace") {
        all.push(("trace_replay", bytes.clone()));
        all.push(("trace", bytes));
    }
}

/// The payloads of whole records in the first block of a log.
fn records(log: &[u8], target: &'static str, all: &mut Vec<Seed>) {
    let mut at = 0;
    while let Some(header) = log.get(at..at + 7) {
        let size = usize::from(u16::from_le_bytes([header[4], header[5]]));
        let skip = if header[6] == 5 { 11 } else { 7 };
        let payload = log.get(at + skip..at + skip + size);
        if let (1 | 5, Some(payload)) = (header[6], payload) {
            all.push((target, payload.to_vec()));
        }
        if size == 0 && header[6] == 0 {
            break;
        }
        at += skip + size;
    }
}

/// The blocks of a table.
fn blocks(file: &[u8], all: &mut Vec<Seed>) {
    let memory = Arc::new(super::assemble::MemoryFile(file.to_vec()));
    let size = memory.size();
    let Ok(reader) = TableReader::open(memory, size, ReaderOptions::default()) else {
        return;
    };
    let Ok(dump) = reader.dump() else { return };
    let stored = |offset: u64, size: u64| {
        let (start, end) = (offset as usize, (offset + size) as usize);
        let contents = file.get(start..end)?;
        Some((contents, *file.get(end)?))
    };
    let new = u8::from(dump.footer.format_version >= 6);
    let index_flags = u8::from(!dump.index_keys_are_user_keys) << 1
        | u8::from(!dump.properties.index_value_is_delta_encoded) << 2;
    let index_type = dump
        .properties
        .user_collected
        .get("rocksdb.block.based.table.index.type");
    let index_type = index_type.and_then(|t| t.first()).copied().unwrap_or(0);
    let index_flags = index_flags | (index_type & 15) << 4;
    if let Some((contents, 0)) = stored(dump.index_handle.offset, dump.index_handle.size) {
        all.push(("index_block", with_flags(new | index_flags, contents)));
    }
    for (_, handle) in dump.index.iter().take(2) {
        if let Some((contents, kind)) = stored(handle.offset, handle.size) {
            all.push(("data_block", with_flags(new | kind << 4, contents)));
            if kind != 0 {
                let version = dump.footer.format_version.min(7) as u8;
                let head = [kind & 15 | version << 4, 0];
                all.push(("compression", [&head, contents].concat()));
            }
        }
    }
    for (name, handle) in &dump.metaindex {
        let Some((contents, kind)) = stored(handle.offset, handle.size) else {
            continue;
        };
        let number = match name.as_str() {
            "rocksdb.range_del" => 0,
            "rocksdb.compression_dict" => 1,
            "rocksdb.properties" => {
                all.push(("properties", contents.to_vec()));
                2
            }
            "fullfilter.rocksdb.BuiltinBloomFilter" => {
                all.push(("filter", contents.to_vec()));
                6
            }
            "partitionedfilter.rocksdb.BuiltinBloomFilter" => 7,
            _ => continue,
        };
        all.push((
            "meta_block",
            with_flags(new | number << 1 | kind << 4, contents),
        ));
    }
}
