//! Tables: whole files, and single blocks in a table that is otherwise sound.

use super::assemble::{Assembler, MemoryFile, handle_bytes, mend_footer, plain_block};
use spanlith_base::keys::{internal_key, pack_tag, split_internal};
use spanlith_base::range_del::{FragmentedTombstones, RangeTombstone};
use spanlith_base::{Comparator, ErrorKind};
use spanlith_table::filter::Filter;
use spanlith_table::{ReadParams, ReaderOptions, TableProperties, TableReader};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Steps of one walk. An index may name one block many times, so a small file can hold many entries.
const STEPS: usize = 20_000;

/// Opens and reads a whole file. Byte 0: bit 0 verifies checksums, so that damage must be noticed.
pub fn table(data: &[u8]) {
    let Some((&flags, file)) = data.split_first() else {
        return;
    };
    let mut file = file.to_vec();
    let verify = flags & 1 != 0;
    if !verify && let Some(at) = file.len().checked_sub(53) {
        mend_footer(&mut file, at as u64);
    }
    read_all(file, verify);
}

/// A cuckoo table as it is: nothing of it has a checksum. Its magic number is mended.
pub fn cuckoo_table(data: &[u8]) {
    with_magic(data, 0x9267_89d0_c5f1_7873);
}

/// A plain table as it is, in the same way.
pub fn plain_table(data: &[u8]) {
    with_magic(data, 0x4f34_18eb_7a8f_13b8);
}

/// Reads a file with that magic number.
fn with_magic(data: &[u8], magic: u64) {
    let mut file = data.to_vec();
    if let Some(end) = file.len().checked_sub(8).and_then(|at| file.get_mut(at..)) {
        end.copy_from_slice(&magic.to_le_bytes());
    }
    read_all(file, true);
}

/// Version 5 or 7, by bit 0, or 8, by bit 3.
fn version_of(flags: u8) -> u32 {
    match (flags & 8, flags & 1) {
        (0, 0) => 5,
        (0, _) => 7,
        _ => 8,
    }
}

/// One data block. Byte 0: bits 0 and 3 choose the version, bit 1 an index of internal keys, bits 4..8
/// the compression type; the block as stored follows.
pub fn data_block(data: &[u8]) {
    let Some((&flags, block)) = data.split_first() else {
        return;
    };
    let mut table = Assembler::new(version_of(flags));
    let handle = table.block(block, flags >> 4);
    let whole = flags & 2 != 0;
    let last = vec![0xff; 24];
    let key = if whole {
        internal_key(&last, pack_tag(0, 0))
    } else {
        last
    };
    table.meta("rocksdb.properties", &sound_properties(!whole).encode(), 0);
    read_all(
        table.finish(&plain_block(&[(key, handle_bytes(handle))])),
        true,
    );
}

/// A compressed data block. Byte 0: bits 0..4 the compression type, bits 4..8 the format version; byte 1
/// the length of a dictionary, which follows; then the block as stored.
pub fn compression(data: &[u8]) {
    let [kind, dictionary, rest @ ..] = data else {
        return;
    };
    let (dictionary, block) = rest.split_at(rest.len().min(usize::from(*dictionary)));
    let version = u32::from(kind >> 4).clamp(1, 7);
    let mut table = Assembler::new(version);
    let handle = table.block(block, kind & 15);
    if !dictionary.is_empty() {
        table.meta("rocksdb.compression_dict", dictionary, 0);
    }
    let key = internal_key(&[0xff; 24], pack_tag(0, 0));
    let mut properties = sound_properties(false);
    properties.compression_name = match version {
        7 => format!("BuiltinV2;{:02X};", kind & 15),
        _ => String::new(),
    };
    table.meta("rocksdb.properties", &properties.encode(), 0);
    read_all(
        table.finish(&plain_block(&[(key, handle_bytes(handle))])),
        true,
    );
}

/// An index block over four sound data blocks. Byte 0: bits 0 and 3 as for [`data_block`], bit 1 internal
/// keys, bit 2 whole handles, bits 4..8 the index type of the properties.
pub fn index_block(data: &[u8]) {
    let Some((&flags, block)) = data.split_first() else {
        return;
    };
    let mut table = Assembler::new(version_of(flags));
    four_blocks(&mut table);
    let mut properties = sound_properties(flags & 2 == 0);
    properties.index_value_is_delta_encoded = flags & 4 == 0;
    let kind = u32::from(flags >> 4).to_le_bytes().to_vec();
    properties
        .user_collected
        .insert("rocksdb.block.based.table.index.type".to_string(), kind);
    table.meta("rocksdb.properties", &properties.encode(), 0);
    read_all(table.finish(block), true);
}

/// Meta blocks beside sound data. Byte 0: bit 0 as for [`data_block`], bits 1..4 the name, bits 4..8
/// the compression type.
pub fn meta_block(data: &[u8]) {
    const NAMES: [&str; 8] = [
        "rocksdb.range_del",
        "rocksdb.compression_dict",
        "rocksdb.properties",
        "rocksdb.stats",
        "rocksdb.hashindex.prefixes",
        "rocksdb.hashindex.metadata",
        "fullfilter.rocksdb.BuiltinBloomFilter",
        "partitionedfilter.rocksdb.BuiltinBloomFilter",
    ];
    let Some((&flags, block)) = data.split_first() else {
        return;
    };
    let mut table = Assembler::new(if flags & 1 == 0 { 5 } else { 7 });
    let index = four_blocks(&mut table);
    let name = NAMES[usize::from(flags >> 1 & 7)];
    if name != "rocksdb.properties" {
        table.meta("rocksdb.properties", &sound_properties(true).encode(), 0);
    }
    table.meta(name, block, flags >> 4);
    read_all(table.finish(&index), true);
}

/// The bits of a filter, asked about a few hashes and keys.
pub fn filter(data: &[u8]) {
    let filter = Filter::parse(data.to_vec());
    let _ = filter.is_understood();
    assert!(filter.memory_usage() < data.len() + 4096);
    for (i, key) in data.chunks(7).take(16).enumerate() {
        let hash = spanlith_table::filter::hash64(key).rotate_left(i as u32);
        filter.prefetch(hash);
        assert_eq!(filter.may_match_hash(hash), Filter::query_bytes(data, hash));
        let _ = filter.may_match(key);
    }
    // The same bytes as the filter of a table.
    let mut table = vec![1 | 6 << 1];
    table.extend_from_slice(data);
    meta_block(&table);
}

/// Properties decode to what they encode to.
pub fn properties(data: &[u8]) {
    let Ok(decoded) = TableProperties::decode(data) else {
        return;
    };
    let _ = (decoded.display(), decoded.unique_id());
    let encoded = decoded.encode();
    match TableProperties::decode(&encoded) {
        Ok(again) => assert_eq!(again.encode(), encoded),
        Err(e) => panic!("what was encoded does not decode: {e}"),
    }
}

fn sound_properties(user_keys: bool) -> TableProperties {
    TableProperties {
        index_key_is_user_key: user_keys,
        index_value_is_delta_encoded: false,
        comparator_name: Comparator::Bytewise.name().to_string(),
        num_entries: 4,
        num_data_blocks: 4,
        ..TableProperties::default()
    }
}

/// Data blocks of one entry each; the contents of their index, with user keys and whole handles.
fn four_blocks(table: &mut Assembler) -> Vec<u8> {
    let entries: Vec<_> = [b"b", b"d", b"f", b"h"]
        .iter()
        .enumerate()
        .map(|(i, key)| {
            let entry = (
                internal_key(*key, pack_tag(10 + i as u64, 1)),
                b"value".to_vec(),
            );
            let handle = table.block(&plain_block(&[entry]), 0);
            (key.to_vec(), handle_bytes(handle))
        })
        .collect();
    plain_block(&entries)
}

/// Opens a table and asks it everything.
fn read_all(file: Vec<u8>, verify: bool) {
    let size = file.len() as u64;
    let file = Arc::new(MemoryFile(file));
    for comparator in [Comparator::Bytewise, Comparator::ReverseBytewise] {
        let options = ReaderOptions {
            comparator,
            verify_checksums: verify,
            ..ReaderOptions::default()
        };
        match TableReader::open(file.clone(), size, options) {
            Ok(reader) => return read_table(&reader, verify),
            Err(e) if e.kind() == ErrorKind::InvalidArgument => {}
            Err(_) => return,
        }
    }
}

fn read_table(reader: &Arc<TableReader>, verify: bool) {
    let params = ReadParams {
        verify_checksums: verify,
        ..ReadParams::default()
    };
    let mut iter = reader.iter(params);
    let mut some: Vec<Vec<u8>> = vec![Vec::new(), vec![0; 8], vec![0xff; 40]];
    let mut steps = 0;
    iter.seek_to_first();
    while iter.valid() && steps < STEPS {
        if some.len() < 40 {
            some.push(iter.key().to_vec());
        }
        let _ = iter.value_pinned().len() + iter.value().len();
        steps += 1;
        iter.next();
    }
    let ended = iter.status().is_ok() && steps < STEPS;
    let mut back = 0;
    iter.seek_to_last();
    while iter.valid() && back < STEPS {
        back += 1;
        iter.prev();
    }
    if ended && iter.status().is_ok() && reader.verify_contents().is_ok() {
        assert_eq!(steps, back, "T1: forwards and backwards differ");
    }
    for key in &some {
        if key.len() >= 8 {
            iter.seek(key);
            let _ = iter.valid() && iter.key().is_empty();
            iter.prev();
            iter.seek_for_prev(key);
            let _ = iter.status();
        }
        if let Some((user, tag)) = split_internal(key) {
            let _ = reader.may_match_version(user, &ReadParams::default());
            let _ = reader.approximate_offset(key);
            let mut seen = 0;
            let _ = reader.get(user, tag >> 8, &params, |_, _, _| {
                seen += 1;
                if seen < 100 {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            });
        }
    }
    if let Ok(tombstones) = reader.range_tombstones() {
        let list = tombstones.iter().map(|(start, end, seqno)| RangeTombstone {
            start,
            end,
            seqno: *seqno,
        });
        let comparator = &reader.options().comparator;
        let _ = FragmentedTombstones::build_bounded(comparator, list, STEPS);
    }
    if verify {
        let _ = reader.verify_checksums();
    }
    let _ = reader.dump();
}
