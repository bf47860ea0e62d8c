//! `--command=recompress`: how large a table would be under other codecs.
//!
//! The table is built anew in memory, once per codec and level.

use super::{Outcome, say};
use spanlith_base::CompressionType;
use spanlith_base::compression::DEFAULT_LEVEL;
use spanlith_base::keys::internal_key;
use spanlith_env::{FileSystem, IoActivity, MemFs};
use spanlith_table::{
    BuilderOptions, CompressionOptions, TableBuilder, TableProperties, TableReader,
};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// Block size if none is given.
const BLOCK_SIZE: u64 = 16_384;

/// Prints a line per codec and level.
pub fn run(
    reader: &Arc<TableReader>,
    codecs: &[String],
    block_size: Option<u64>,
    (from, to): (Option<i32>, Option<i32>),
    out: &mut dyn Write,
) -> Outcome<()> {
    let chosen: Vec<CompressionType> = match codecs.is_empty() {
        true => CompressionType::written().collect(),
        false => {
            let find = |name: &String| {
                let found = CompressionType::from_name(name).filter(|t| t.is_written());
                found.ok_or_else(|| format!("{name} is not a valid CompressionType"))
            };
            codecs.iter().map(find).collect::<Outcome<_>>()?
        }
    };
    let levels = match (from, to) {
        (None, None) => DEFAULT_LEVEL..=DEFAULT_LEVEL,
        (Some(from), Some(to)) if chosen.len() == 1 => from..=to,
        _ => {
            let text = "compression_level_from, compression_level_to and one compression type must be \
                        specified together";
            return Err(text.to_string());
        }
    };
    let block_size = block_size.unwrap_or(BLOCK_SIZE);
    writeln!(out, "Block Size: {block_size}").map_err(say)?;
    for codec in chosen {
        writeln!(out, "Compression: {:<24}", codec.name()).map_err(say)?;
        for level in levels.clone() {
            let start = Instant::now();
            let p = build(reader, codec, level, block_size).map_err(say)?;
            let (size, p) = p;
            let micros = start.elapsed().as_micros();
            let blocks = p.num_data_blocks;
            let (rejected, bypassed) = (
                p.num_data_blocks_compression_rejected,
                p.num_data_blocks_compression_bypassed,
            );
            let compressed = blocks.saturating_sub(rejected + bypassed);
            let share =
                |n: u64| format!("{n:6} ({:5.1}%)", 100.0 * n as f64 / blocks.max(1) as f64);
            writeln!(
                out,
                "Compression level: {level} Size: {size:10} Blocks: {blocks:6} Time Taken: {micros:10} \
                 microsecs Compressed: {} Not compressed (ratio): {} Not compressed (abort): {}",
                share(compressed),
                share(rejected),
                share(bypassed)
            )
            .map_err(say)?;
        }
    }
    Ok(())
}

/// The table with another codec: its size and properties.
fn build(
    reader: &Arc<TableReader>,
    codec: CompressionType,
    level: i32,
    block_size: u64,
) -> spanlith::Result<(u64, TableProperties)> {
    let fs = MemFs::new();
    let file = fs.create(Path::new("/table"), IoActivity::Other)?;
    let mut options = BuilderOptions {
        comparator: reader.options().comparator.clone(),
        compression: codec,
        compression_options: CompressionOptions {
            level,
            ..CompressionOptions::default()
        },
        ..BuilderOptions::default()
    };
    options.table.block_size = usize::try_from(block_size).unwrap_or(usize::MAX);
    options.table.format_version = reader.footer().format_version.clamp(2, 8);
    let mut builder = TableBuilder::new(options, file);
    let mut entries = reader.iter(crate::tables::walk());
    entries.seek_to_first();
    while entries.valid() {
        builder.add(entries.key(), entries.value())?;
        entries.next();
    }
    entries.status()?;
    for (begin, end, sequence) in reader.range_tombstones()? {
        let tag = sequence << 8 | spanlith_base::ValueType::RangeDeletion as u64;
        builder.add_range_tombstone(&internal_key(&begin, tag), &end)?;
    }
    let done = builder.finish()?;
    Ok((done.file_size, done.properties))
}
