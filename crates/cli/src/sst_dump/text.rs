//! Entries and properties of tables in the reference's layout.

use crate::dump::open_table;
use crate::ldb::args::upper;
use spanlith::blob::BlobIndex;
use spanlith_base::CompressionType;
use spanlith_base::ValueType;
use spanlith_base::checksum::xxh3_128;
use spanlith_base::keys::{split_internal, tag_sequence, tag_type};
use spanlith_table::{TableProperties, TableReader};
use std::fmt::Write as _;
use std::io::Write;
use std::path::Path;

/// Added to the words of an internal id before they are hashed, so that zeros stay zeros.
const ZERO_LOW: u64 = 6_417_269_962_128_484_497;
const ZERO_HIGH: u64 = 17_391_078_804_906_429_400;

/// `'key' seq:N, type:T`; the key raw, or in hexadecimal.
pub fn internal_key(user: &[u8], sequence: u64, kind: u8, hex: bool) -> Vec<u8> {
    let mut out = vec![b'\''];
    match hex {
        true => out.extend_from_slice(upper(user).as_bytes()),
        false => out.extend_from_slice(user),
    }
    out.extend_from_slice(format!("' seq:{sequence}, type:{kind}").as_bytes());
    out
}

/// An entry: its internal key, ` => `, its value.
pub fn entry_line(user: &[u8], sequence: u64, kind: u8, value: &[u8], hex: bool) -> Vec<u8> {
    let mut out = internal_key(user, sequence, kind, hex);
    out.extend_from_slice(b" => ");
    match hex {
        true => out.extend_from_slice(upper(value).as_bytes()),
        false => out.extend_from_slice(value),
    }
    out
}

/// As [`entry_line`], but of a reference to a blob what it refers to.
pub fn decoded_line(user: &[u8], sequence: u64, kind: u8, value: &[u8], hex: bool) -> Vec<u8> {
    let text = match kind == ValueType::BlobIndex as u8 {
        true => blob_text(value, hex),
        false => None,
    };
    match text {
        Some(text) => {
            let mut out = internal_key(user, sequence, kind, hex);
            out.extend_from_slice(format!(" => {text}").as_bytes());
            out
        }
        None => entry_line(user, sequence, kind, value, hex),
    }
}

/// `[blob ref] file:14 offset:70 size:154 compression: LZ4`; `None` for what cannot be read.
fn blob_text(value: &[u8], hex: bool) -> Option<String> {
    let (kind, pointer, expiration) = match BlobIndex::decode(value).ok()? {
        BlobIndex::Blob(pointer) => ("[blob ref]", pointer, None),
        BlobIndex::BlobTtl(pointer, at) => ("[blob ref with TTL]", pointer, Some(at)),
        BlobIndex::InlinedTtl(value, at) => {
            let value = match hex {
                true => upper(value),
                false => String::from_utf8_lossy(value).into_owned(),
            };
            return Some(format!("[inlined blob] value:{value} exp:{at}"));
        }
    };
    let codec = CompressionType::from_stored_byte(pointer.compression)?;
    let mut out = format!(
        "{kind} file:{} offset:{} size:{} compression: {}",
        pointer.file,
        pointer.offset,
        pointer.size,
        codec.word()
    );
    if let Some(at) = expiration {
        out.push_str(&format!(" exp:{at}"));
    }
    Some(out)
}

/// The id of a table that users see, of the one that the MANIFEST records.
pub fn public_id(internal: [u64; 2]) -> String {
    let (low, high) = (
        internal[0].wrapping_add(ZERO_LOW),
        internal[1].wrapping_add(ZERO_HIGH),
    );
    let mut bytes = [0u8; 16];
    bytes[..8].copy_from_slice(&low.to_le_bytes());
    bytes[8..].copy_from_slice(&high.to_le_bytes());
    let (high, low) = xxh3_128(&bytes, 0);
    let shown = |word: u64| upper(&word.to_le_bytes());
    format!("{}-{}", shown(low), shown(high))
}

/// Properties by their shown names.
pub fn properties(p: &TableProperties) -> Vec<(&'static str, String)> {
    let or = |text: &str, none: &str| match text.is_empty() {
        true => none.to_string(),
        false => text.to_string(),
    };
    let average = |sum: u64| match p.num_entries {
        0 => format!("{:.6}", 0.0),
        n => format!("{:.6}", sum as f64 / n as f64),
    };
    let id = spanlith_table::unique_id::unique_id(&p.db_id, &p.db_session_id, p.orig_file_number);
    let has_id = !p.db_id.is_empty() && !p.db_session_id.is_empty() && p.orig_file_number > 0;
    let n = |n: u64| n.to_string();
    // The value that a writer of tables records if it knows no family.
    let unknown = u64::from(i32::MAX.unsigned_abs());
    let family = p.column_family_id < u64::from(u32::MAX) && p.column_family_id != unknown;
    let (user_key, delta) = (
        u8::from(p.index_key_is_user_key),
        u8::from(p.index_value_is_delta_encoded),
    );
    let index = match (user_key, delta) {
        (1, 1) => "index block size (user-key? 1, delta-value? 1)",
        (1, _) => "index block size (user-key? 1, delta-value? 0)",
        (_, 1) => "index block size (user-key? 0, delta-value? 1)",
        _ => "index block size (user-key? 0, delta-value? 0)",
    };
    let mut out = vec![
        ("# data blocks", n(p.num_data_blocks)),
        ("# entries", n(p.num_entries)),
        ("# deletions", n(p.num_deletions)),
        ("# merge operands", n(p.num_merge_operands)),
        ("# range deletions", n(p.num_range_deletions)),
        ("raw key size", n(p.raw_key_size)),
        ("raw average key size", average(p.raw_key_size)),
        ("raw value size", n(p.raw_value_size)),
        ("raw average value size", average(p.raw_value_size)),
        ("data block size", n(p.data_size)),
        (index, n(p.index_size)),
    ];
    if p.index_partitions > 0 {
        out.push(("# index partitions", n(p.index_partitions)));
        out.push(("top-level index size", n(p.top_level_index_size)));
    }
    out.extend([
        ("filter block size", n(p.filter_size)),
        ("# entries for filter", n(p.num_filter_entries)),
        (
            "(estimated) table size",
            n(p.data_size + p.index_size + p.filter_size),
        ),
        ("filter policy name", or(&p.filter_policy_name, "N/A")),
        ("prefix extractor name", or(&p.prefix_extractor_name, "N/A")),
        (
            "column family ID",
            if family {
                n(p.column_family_id)
            } else {
                "N/A".to_string()
            },
        ),
        ("column family name", or(&p.column_family_name, "N/A")),
        ("comparator name", or(&p.comparator_name, "N/A")),
        ("merge operator name", or(&p.merge_operator_name, "N/A")),
        (
            "property collectors names",
            or(&p.property_collectors_names, "N/A"),
        ),
        ("SST file compression algo", or(&p.compression_name, "N/A")),
        (
            "SST file compression options",
            or(&p.compression_options, "N/A"),
        ),
        ("creation time", n(p.creation_time)),
        ("time stamp of earliest key", n(p.oldest_key_time)),
        ("file creation time", n(p.file_creation_time)),
        (
            "slow compression estimated data size",
            n(p.slow_compression_estimated_data_size),
        ),
        (
            "fast compression estimated data size",
            n(p.fast_compression_estimated_data_size),
        ),
        ("DB identity", p.db_id.clone()),
        ("DB session identity", p.db_session_id.clone()),
        ("DB host id", p.db_host_id.clone()),
        ("original file number", n(p.orig_file_number)),
        (
            "unique ID",
            if has_id {
                public_id(id)
            } else {
                "N/A".to_string()
            },
        ),
        ("Sequence number to time mapping", String::new()),
    ]);
    out
}

/// `  name: value` lines, or with other separators.
pub fn properties_text(p: &TableProperties, before: &str, between: &str) -> String {
    let mut out = String::new();
    for (name, value) in properties(p) {
        let _ = writeln!(out, "{before}{name}{between}{value}");
    }
    out
}

/// Returns what `--show_properties` prints.
pub fn properties_section(reader: &TableReader, out: &mut dyn Write) -> std::io::Result<()> {
    const RULE: &str = "------------------------------";
    let p = reader.properties();
    writeln!(out, "Table Properties:\n{RULE}")?;
    write!(out, "{}", properties_text(p, "  ", ": "))?;
    writeln!(out, "  Raw user collected properties\n{RULE}")?;
    // Counts that are properties of their own since.
    let mut rows: Vec<(String, Vec<u8>)> = Vec::new();
    for (name, value) in &p.user_collected {
        rows.push((name.clone(), value.clone()));
    }
    for (name, n) in [
        ("rocksdb.deleted.keys", p.num_deletions),
        ("rocksdb.merge.operands", p.num_merge_operands),
    ] {
        if rows.iter().all(|r| r.0 != name) {
            rows.push((name.to_string(), varint(n)));
        }
    }
    rows.sort();
    for (name, value) in rows {
        writeln!(out, "  # {name}: 0x{}", upper(&value))?;
    }
    Ok(())
}

fn varint(n: u64) -> Vec<u8> {
    let mut out = Vec::new();
    spanlith_base::coding::put_varint64(&mut out, n);
    out
}

/// All entries, then the properties, as lists of live files show tables.
///
/// # Errors
/// Of reading the table, as text in an I/O error, and of writing.
pub fn scan_with_properties(
    path: &Path,
    hex: bool,
    decode: bool,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    let failed = |e: spanlith::Error| std::io::Error::other(e.to_string());
    writeln!(out, "Process {}", path.display())?;
    let reader = open_table(path).map_err(failed)?;
    writeln!(out, "Sst file format: {}", reader.format_name())?;
    let mut entries = reader.iter(crate::tables::walk());
    entries.seek_to_first();
    while entries.valid() {
        if let Some((user, tag)) = split_internal(entries.key()) {
            let (sequence, kind) = (tag_sequence(tag), tag_type(tag));
            let line = if decode { decoded_line } else { entry_line };
            out.write_all(&line(user, sequence, kind, entries.value(), hex))?;
            writeln!(out)?;
        }
        entries.next();
    }
    entries.status().map_err(failed)?;
    writeln!(out, "\nTable Properties:")?;
    write!(out, "{}", properties_text(reader.properties(), "", "="))?;
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_ids_are_those_of_the_reference() {
        let id = [12_029_814_950_551_659_452, 17_999_514_067_072_990_513];
        assert_eq!(public_id(id), "6D97D9F646258A2A-444F6F64AE52E2CA");
        assert_eq!(public_id([0, 0]), "0000000000000000-0000000000000000");
    }
}
