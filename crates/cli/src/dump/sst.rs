//! Dumps a table file.

use super::kind::AtFile;
use super::{Dump, Record, SstDump, type_name};
use crate::db::verify::comparator_or_stand_in;
use spanlith::blob::BlobIndex;
use spanlith::{Comparator, Error, ErrorKind, Result};
use spanlith_base::ValueType;
use spanlith_base::keys::{split_internal, tag_sequence, tag_type};
use spanlith_env::RandomAccessFile;
use spanlith_table::format::BlockHandle;
use spanlith_table::{ReadParams, ReaderOptions, TableReader};
use std::collections::BTreeMap;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

/// Bytes gathered before they are written out.
const OUTPUT_BUFFER: usize = 256 << 10;

pub fn run(args: &SstDump) -> anyhow::Result<ExitCode> {
    let path = args.dump.file.as_path();
    let (hex, json) = (args.dump.hex, args.dump.json);
    let reader = open(path).at_file(path)?;
    let dump = reader.dump().at_file(path)?;
    let mut out = BufWriter::with_capacity(OUTPUT_BUFFER, std::io::stdout().lock());
    let footer = &dump.footer;
    Record::new("table")
        .with("file", path.display().to_string())
        .with("bytes", reader.file_size())
        .with("format_version", footer.format_version)
        .with("checksum", format!("{:?}", footer.checksum.kind))
        .with("checksum_base", footer.checksum.base)
        .with("footer_offset", footer.offset)
        .print(&mut out, json)?;
    let block = |kind, name: &str, handle: BlockHandle| {
        Record::new(kind)
            .with("name", name)
            .with("offset", handle.offset)
            .with("bytes", handle.size)
    };
    block("meta_block", "metaindex", footer.metaindex).print(&mut out, json)?;
    for (name, handle) in &dump.metaindex {
        block("meta_block", name, *handle).print(&mut out, json)?;
    }
    if let Some(handle) = footer.index {
        block("meta_block", "index", handle).print(&mut out, json)?;
    }
    for (name, value) in dump.properties.display() {
        Record::new("property")
            .with("name", name)
            .with("value", value)
            .print(&mut out, json)?;
    }
    if !args.no_index {
        for (n, (key, handle)) in dump.index.iter().enumerate() {
            let mut record = Record::new("data_block")
                .with("block", n)
                .with("offset", handle.offset)
                .with("bytes", handle.size);
            let (user, tag) = match split_internal(key).filter(|_| !dump.index_keys_are_user_keys) {
                Some((user, tag)) => (user, Some(tag)),
                None => (&key[..], None),
            };
            record = record.bytes("separator", user, hex);
            if let Some(tag) = tag {
                record = record.with("separator_sequence", tag_sequence(tag));
            }
            record.print(&mut out, json)?;
        }
    }
    if !args.no_entries
        && let Err(e) = entries(&reader, hex, json, &mut out)?
    {
        out.flush()?;
        return Err::<ExitCode, Error>(e).at_file(path);
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the properties only.
pub fn properties(args: &Dump) -> anyhow::Result<ExitCode> {
    let path = args.file.as_path();
    let reader = open(path).at_file(path)?;
    let mut out = std::io::stdout().lock();
    for (name, value) in reader.properties().display() {
        Record::new("property")
            .with("name", name)
            .with("value", value)
            .print(&mut out, args.json)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the blocks in the order in which they lie, and the sum of each kind.
pub fn layout(args: &Dump) -> anyhow::Result<ExitCode> {
    let path = args.file.as_path();
    let reader = open(path).at_file(path)?;
    let dump = reader.dump().at_file(path)?;
    let mut blocks: Vec<(BlockHandle, &str)> = vec![(dump.footer.metaindex, "metaindex")];
    blocks.extend(dump.metaindex.iter().map(|(name, h)| (*h, name.as_str())));
    blocks.extend(dump.footer.index.map(|h| (h, "index")));
    blocks.extend(dump.index.iter().map(|(_, h)| (*h, "data")));
    blocks.sort_by_key(|b| b.0.offset);
    let mut out = BufWriter::with_capacity(OUTPUT_BUFFER, std::io::stdout().lock());
    let mut sums: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for (handle, name) in blocks {
        Record::new("block")
            .with("offset", handle.offset)
            .with("bytes", handle.size)
            .with("of", name)
            .print(&mut out, args.json)?;
        let sum = sums.entry(name).or_default();
        *sum = (sum.0 + 1, sum.1.saturating_add(handle.size));
    }
    let size = reader.file_size();
    for (name, (blocks, bytes)) in sums {
        let percent = bytes as f64 * 100.0 / size.max(1) as f64;
        Record::new("sum")
            .with("of", name)
            .with("blocks", blocks)
            .with("bytes", bytes)
            .with("percent", (percent * 10.0).round() / 10.0)
            .print(&mut out, args.json)?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Prints all entries; the inner result is that of reading the table.
fn entries(
    reader: &Arc<TableReader>,
    hex: bool,
    json: bool,
    out: &mut dyn Write,
) -> std::io::Result<Result<()>> {
    let params = ReadParams {
        bypass_cache: true,
        readahead: 1 << 20,
        ..ReadParams::default()
    };
    let mut iter = reader.iter(params);
    iter.seek_to_first();
    while iter.valid() {
        let Some((user, tag)) = split_internal(iter.key()) else {
            return Ok(Err(Error::corruption("key without a tag")));
        };
        let mut record = Record::new("entry")
            .with("block", iter.block_number())
            .with("sequence", tag_sequence(tag))
            .with("type", type_name(tag_type(tag)))
            .bytes("key", user, hex);
        if tag_type(tag) == ValueType::BlobIndex as u8
            && let Ok(blob) = BlobIndex::decode(iter.value()).and_then(|i| i.pointer())
        {
            record = record
                .with("blob_file", blob.file)
                .with("blob_offset", blob.offset)
                .with("blob_bytes", blob.size)
                .with("blob_compression", blob.compression);
        }
        record.bytes("value", iter.value(), hex).print(out, json)?;
        iter.next();
    }
    if let Err(e) = iter.status() {
        return Ok(Err(e));
    }
    let tombstones = match reader.range_tombstones() {
        Ok(tombstones) => tombstones,
        Err(e) => return Ok(Err(e)),
    };
    for (begin, end, sequence) in tombstones {
        Record::new("range_tombstone")
            .with("sequence", sequence)
            .bytes("from", &begin, hex)
            .bytes("to", &end, hex)
            .print(out, json)?;
    }
    Ok(Ok(()))
}

/// Opens a table of any order: dumping compares no keys.
pub fn open(path: &Path) -> Result<Arc<TableReader>> {
    let file = crate::reading::env().fs.open_random(path)?;
    match open_with(&file, Comparator::Bytewise) {
        Err(e) if e.kind() == ErrorKind::InvalidArgument => {
            // The error names the table's comparator.
            let text = e.to_string();
            let name = text
                .split_once("table=")
                .and_then(|(_, rest)| rest.split(' ').next());
            match name {
                Some(name) => open_with(&file, comparator_or_stand_in(name)),
                None => Err(e),
            }
        }
        Err(e) if e.kind() == ErrorKind::NotSupported => {
            // Keys with timestamps: only their own order opens such a table.
            let orders = [
                "leveldb.BytewiseComparator.u64ts",
                "rocksdb.ReverseBytewiseComparator.u64ts",
            ];
            let mut opened = orders
                .iter()
                .filter_map(|name| Comparator::from_name(name))
                .filter_map(|order| open_with(&file, order).ok());
            opened.next().ok_or(e)
        }
        other => other,
    }
}

fn open_with(file: &Arc<dyn RandomAccessFile>, comparator: Comparator) -> Result<Arc<TableReader>> {
    let options = ReaderOptions {
        comparator,
        ..ReaderOptions::default()
    };
    TableReader::open(file.clone(), file.size(), options)
}
