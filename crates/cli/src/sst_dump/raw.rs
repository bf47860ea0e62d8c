//! `--command=raw`: everything in a table, in a text file beside it.

use super::text::properties_text;
use super::{Outcome, say};
use crate::ldb::args::upper;
use spanlith_base::keys::split_internal;
use spanlith_table::TableReader;
use spanlith_table::format::BlockHandle;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const RULE: &str = "--------------------------------------";
/// The number that block-based tables end in.
const MAGIC: u64 = 0x88e2_41b7_85f4_cff7;

/// `NAME_dump.txt` beside `NAME.sst`.
fn target(path: &Path) -> PathBuf {
    let text = path.to_string_lossy();
    let stem = text.strip_suffix(".sst").unwrap_or(&text);
    PathBuf::from(format!("{stem}_dump.txt"))
}

fn hex_of(handle: BlockHandle) -> String {
    let mut bytes = Vec::new();
    handle.encode(&mut bytes);
    upper(&bytes)
}

/// Characters with a blank after each.
fn spaced(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len() * 2);
    for &b in bytes {
        match b {
            0 => out.extend_from_slice(b"\\0"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b => out.push(b),
        }
        out.push(b' ');
    }
    out
}

/// Writes the file and says where it is.
pub fn write(path: &Path, reader: &Arc<TableReader>, out: &mut dyn Write) -> Outcome<()> {
    let target = target(path);
    let file = File::create(&target).map_err(|e| format!("{}: {e}", target.display()))?;
    let mut file = BufWriter::new(file);
    dump(reader, &mut file)?;
    file.flush().map_err(say)?;
    writeln!(out, "raw dump written to file {}", target.display()).map_err(say)
}

fn entry(file: &mut dyn Write, key: &[u8], value: &[u8]) -> std::io::Result<()> {
    writeln!(file, "  HEX    {}: {}", upper(key), upper(value))?;
    file.write_all(b"  ASCII  ")?;
    file.write_all(&spaced(key))?;
    file.write_all(b": ")?;
    file.write_all(&spaced(value))?;
    file.write_all(b"\n  ------\n")
}

fn dump(reader: &Arc<TableReader>, file: &mut dyn Write) -> Outcome<()> {
    let dump = reader.dump().map_err(say)?;
    let footer = &dump.footer;
    let index = footer.index.unwrap_or(dump.index_handle);
    let mut head = format!("Footer Details:\n{RULE}\n");
    head += &format!("  metaindex handle: {}\n", hex_of(footer.metaindex));
    head += &format!("  index handle: {}\n", hex_of(index));
    head += &format!("  table_magic_number: {MAGIC}\n");
    head += &format!("  format version: {}\n  \n", footer.format_version);
    head += &format!("Metaindex Details:\n{RULE}\n");
    for (name, handle) in &dump.metaindex {
        let what = match name.as_str() {
            "rocksdb.properties" => "Properties block handle".to_string(),
            "rocksdb.compression_dict" => "Compression dictionary block handle".to_string(),
            "rocksdb.range_del" => "Range deletion block handle".to_string(),
            name if name.contains("filter") => "Filter block handle".to_string(),
            name => format!("{name} block handle"),
        };
        head += &format!("  {what}: {}\n", hex_of(*handle));
    }
    head += &format!("\nTable Properties:\n{RULE}\n");
    head += &properties_text(&dump.properties, "  ", ": ");
    head += &format!("  \nIndex Details:\n{RULE}\n");
    head += "  Block key hex dump: Data block handle\n  Block key ascii\n\n";
    file.write_all(head.as_bytes()).map_err(say)?;
    for (separator, handle) in &dump.index {
        let user = match dump.index_keys_are_user_keys {
            true => separator,
            false => split_internal(separator).map_or(separator.as_slice(), |(user, _)| user),
        };
        writeln!(file, "  HEX    {}: {}", upper(user), hex_of(*handle)).map_err(say)?;
        file.write_all(b"  ASCII  ").map_err(say)?;
        file.write_all(&spaced(user)).map_err(say)?;
        file.write_all(b"\n  ------\n").map_err(say)?;
    }
    writeln!(file).map_err(say)?;
    let mut entries = reader.iter(crate::tables::walk());
    entries.seek_to_first();
    let mut block = None;
    while entries.valid() {
        let here = entries.block_number();
        if block != Some(here) {
            if block.is_some() {
                writeln!(file).map_err(say)?;
            }
            block = Some(here);
            let handle = dump
                .index
                .get(here)
                .map(|b| hex_of(b.1))
                .unwrap_or_default();
            writeln!(file, "Data Block # {} @ {handle}\n{RULE}", here + 1).map_err(say)?;
        }
        if let Some((user, _)) = split_internal(entries.key()) {
            entry(file, user, entries.value()).map_err(say)?;
        }
        entries.next();
    }
    entries.status().map_err(say)?;
    let tombstones = reader.range_tombstones().map_err(say)?;
    if !tombstones.is_empty() {
        writeln!(file, "\nRange deletions:\n{RULE}").map_err(say)?;
        for (begin, end, _) in tombstones {
            entry(file, &begin, &end).map_err(say)?;
        }
    }
    let sizes = || dump.index.iter().map(|b| b.1.size);
    let blocks = dump.index.len();
    writeln!(
        file,
        "\nData Block Summary:\n{RULE}\n  # data blocks: {blocks}"
    )
    .map_err(say)?;
    if let (Some(min), Some(max)) = (sizes().min(), sizes().max()) {
        let average = sizes().sum::<u64>() as f64 / blocks as f64;
        writeln!(
            file,
            "  min data block size: {min}\n  max data block size: {max}\n  avg data block size: \
             {average:.6}"
        )
        .map_err(say)?;
    }
    Ok(())
}
