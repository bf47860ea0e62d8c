//! Builder and reader at their edges: refusals, failures of the file, what the caller may ask.

mod common;

use common::{MemFile, build, expected, fixture, open, scan};
use spanlith_base::CompressionType;
use spanlith_base::keys::{MAX_SEQUENCE, internal_key, pack_tag, user_key};
use spanlith_base::{Comparator, ErrorKind, ValueType};
use spanlith_cache::Policy;
use spanlith_table::{
    Block, BlockCache, BuilderOptions, CollectedEntry, CollectorContext, Collectors, FilterKind,
    ReadParams, ReaderOptions, TableBuilder, TableIter, TableOptions, TablePropertiesCollector,
    TablePropertiesCollectorFactory, TableReader,
};
use std::ops::ControlFlow;
use std::sync::Arc;

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

fn numbered(n: u64) -> Entries {
    let key = |i: u64| internal_key(format!("key{i:06}").as_bytes(), pack_tag(i + 1, 1));
    (0..n).map(|i| (key(i), vec![i as u8; 50])).collect()
}

fn with_bloom() -> BuilderOptions {
    BuilderOptions {
        table: TableOptions {
            filter: FilterKind::Bloom { bits: 10.0 },
            ..TableOptions::default()
        },
        ..BuilderOptions::default()
    }
}

#[test]
fn readers_are_shared_and_iterators_are_sent_between_threads() {
    fn shared<T: Send + Sync + 'static>() {}
    fn sent<T: Send + 'static>() {}
    shared::<TableReader>();
    sent::<TableIter>();
    sent::<TableBuilder>();
}

#[test]
fn keys_out_of_order_are_refused_for_good() {
    let key = |k: &[u8], seqno| internal_key(k, pack_tag(seqno, 1));
    let bytewise = [
        (key(b"b", 5), key(b"a", 9)),
        (key(b"b", 5), key(b"b", 5)),
        (key(b"b", 5), key(b"b", 6)),
        (key(b"ba", 5), key(b"b", 5)),
    ];
    for (first, second) in bytewise {
        let mut builder = TableBuilder::new(BuilderOptions::default(), MemFile::create().0);
        builder.add(&first, b"").unwrap();
        let e = builder.add(&second, b"").unwrap_err();
        assert_eq!(e.kind(), ErrorKind::InvalidArgument);
        assert!(e.message().starts_with("T1: "), "{e}");
        assert!(builder.add(&key(b"z", 1), b"").is_err());
        assert!(builder.finish().is_err());
    }
    let options = BuilderOptions {
        comparator: Comparator::ReverseBytewise,
        ..BuilderOptions::default()
    };
    let mut builder = TableBuilder::new(options, MemFile::create().0);
    builder.add(&key(b"b", 5), b"").unwrap();
    builder.add(&key(b"a", 5), b"").unwrap();
    assert!(builder.add(&key(b"aa", 5), b"").is_err());
}

#[test]
fn what_cannot_be_written_is_refused() {
    let table = TableOptions::default();
    let refused = [
        TableOptions {
            format_version: 1,
            ..table.clone()
        },
        TableOptions {
            format_version: 9,
            ..table
        },
    ];
    for table in refused {
        let options = BuilderOptions {
            table,
            ..BuilderOptions::default()
        };
        let mut builder = TableBuilder::new(options.clone(), MemFile::create().0);
        let e = builder
            .add(&internal_key(b"k", 1 << 8 | 1), b"")
            .unwrap_err();
        assert_eq!(e.kind(), ErrorKind::NotSupported);
        let e = TableBuilder::new(options, MemFile::create().0)
            .finish()
            .unwrap_err();
        assert_eq!(e.kind(), ErrorKind::NotSupported);
    }
    for kind in [0x0f, 0x77] {
        let mut builder = TableBuilder::new(BuilderOptions::default(), MemFile::create().0);
        let e = builder
            .add(&internal_key(b"k", pack_tag(1, kind)), b"")
            .unwrap_err();
        assert_eq!(e.kind(), ErrorKind::NotSupported, "type {kind:#x}");
    }
    let mut builder = TableBuilder::new(BuilderOptions::default(), MemFile::create().0);
    assert_eq!(
        builder.add(b"short", b"").unwrap_err().kind(),
        ErrorKind::InvalidArgument
    );
}

#[test]
fn a_failure_of_the_file_fails_the_table() {
    for appends in 0..2 {
        let (file, _) = MemFile::failing_after(appends);
        let mut builder = TableBuilder::new(BuilderOptions::default(), Box::new(file));
        let value = vec![7; 100_000];
        let mut failed = None;
        for (key, _) in numbered(50) {
            if let Err(e) = builder.add(&key, &value) {
                failed = Some(e);
                break;
            }
        }
        assert_eq!(failed.unwrap().kind(), ErrorKind::Io);
        assert_eq!(builder.finish().unwrap_err().kind(), ErrorKind::Io);
    }
    let (file, _) = MemFile::failing_after(0);
    let mut builder = TableBuilder::new(BuilderOptions::default(), Box::new(file));
    builder.add(&numbered(1)[0].0, b"v").unwrap();
    assert_eq!(builder.finish().unwrap_err().kind(), ErrorKind::Io);
}

#[test]
fn the_summary_describes_the_file() {
    let entries = numbered(1000);
    let (file, bytes) = MemFile::create();
    let mut builder = TableBuilder::new(with_bloom(), file);
    let mut size = builder.file_size();
    assert_eq!(size, 0);
    for (key, value) in &entries {
        builder.add(key, value).unwrap();
        assert!(builder.file_size() >= size);
        size = builder.file_size();
    }
    assert_eq!(builder.num_entries(), 1000);
    assert_eq!(builder.last_key(), entries[999].0);
    let summary = builder.finish().unwrap();
    let bytes = bytes.lock().unwrap().clone();
    assert_eq!(summary.file_size, bytes.len() as u64);
    // The last block was open: it is not counted before it is finished.
    let data = summary.properties.data_size;
    assert!(data > size && data - size < 4200, "{data} and {size}");
    assert_eq!(summary.tail_size, summary.file_size - data);
    let options = ReaderOptions {
        expected_unique_id: Some(summary.unique_id),
        ..ReaderOptions::default()
    };
    let reader = open(bytes, options).unwrap();
    // Only their writer knows the blocks as they were before compression.
    let mut written = summary.properties.clone();
    let trailers = 5 * written.num_data_blocks;
    let raw = std::mem::take(&mut written.uncompressed_data_size);
    assert_eq!(raw, written.data_size - trailers);
    assert_eq!(*reader.properties(), written);
    assert_eq!(reader.verify_contents().unwrap(), 1000);
    let p = reader.properties();
    assert_eq!((p.num_entries, p.num_filter_entries), (1000, 1000));
    assert_eq!(
        (p.key_smallest_seqno, p.key_largest_seqno),
        (Some(1), Some(1000))
    );
    assert_eq!(p.raw_value_size, 50_000);
    assert_eq!(
        p.num_data_blocks as usize,
        reader.num_data_blocks().unwrap()
    );
}

#[test]
fn a_table_without_entries_opens_and_holds_nothing() {
    for format_version in [5, 7] {
        let mut options = with_bloom();
        options.table.format_version = format_version;
        let reader = open(build(options, &Vec::new()), ReaderOptions::default()).unwrap();
        assert!(!reader.has_filter());
        assert!(scan(&reader).unwrap().is_empty());
        let mut iter = reader.iter(ReadParams::default());
        iter.seek(&internal_key(b"k", 1));
        assert!(!iter.valid());
        iter.seek_for_prev(&internal_key(b"k", 1));
        assert!(!iter.valid());
        iter.seek_to_last();
        assert!(!iter.valid());
        iter.status().unwrap();
        let sink = |_: u64, _: &[u8], _: &Arc<spanlith_table::Block>| ControlFlow::Continue(());
        reader
            .get(b"k", MAX_SEQUENCE, &ReadParams::default(), sink)
            .unwrap();
    }
}

#[test]
fn a_read_that_must_not_wait_is_incomplete_until_the_block_is_cached() {
    let entries = numbered(500);
    let bytes = build(with_bloom(), &entries);
    for cache_index_and_filter_blocks in [false, true] {
        let options = ReaderOptions {
            cache: Some(BlockCache::new(1 << 20, Policy::Lru)),
            cache_index_and_filter_blocks,
            ..ReaderOptions::default()
        };
        let reader = open(bytes.clone(), options).unwrap();
        let no_io = ReadParams {
            cache_only: true,
            ..ReadParams::default()
        };
        let get = |params: &ReadParams| {
            let mut found = false;
            reader
                .get(
                    user_key(&entries[100].0),
                    MAX_SEQUENCE,
                    params,
                    |_, _, _| {
                        found = true;
                        ControlFlow::Break(())
                    },
                )
                .map(|()| found)
        };
        let e = get(&no_io).unwrap_err();
        assert_eq!(e.to_string(), "Result incomplete: no blocking io");
        let mut iter = reader.iter(no_io);
        iter.seek_to_first();
        assert!(!iter.valid());
        assert_eq!(iter.status().unwrap_err().kind(), ErrorKind::Incomplete);
        // Reading without filling changes nothing; filling does.
        assert!(
            get(&ReadParams {
                fill_cache: false,
                ..ReadParams::default()
            })
            .unwrap()
        );
        assert!(get(&no_io).is_err());
        assert!(get(&ReadParams::default()).unwrap());
        assert!(get(&no_io).unwrap());
        iter.seek(&entries[100].0);
        assert!(iter.valid());
        iter.status().unwrap();
    }
}

#[test]
fn index_and_filter_in_the_cache_survive_its_eviction() {
    let entries = numbered(2000);
    let bytes = build(with_bloom(), &entries);
    let options = ReaderOptions {
        // Too small for anything to stay.
        cache: Some(BlockCache::new(100, Policy::Clock)),
        cache_index_and_filter_blocks: true,
        ..ReaderOptions::default()
    };
    let reader = open(bytes.clone(), options).unwrap();
    assert!(reader.has_filter());
    assert!(
        entries
            .iter()
            .all(|(key, _)| reader.may_match_version(user_key(key), &ReadParams::default()))
    );
    let absent = (0..1000)
        .filter(|i| {
            reader.may_match_version(format!("absent{i}").as_bytes(), &ReadParams::default())
        })
        .count();
    assert!(absent < 50, "{absent}");
    assert_eq!(scan(&reader).unwrap(), entries);
    let resident = open(bytes, ReaderOptions::default()).unwrap();
    assert!(resident.memory_usage() > reader.memory_usage() + 2500);
}

#[test]
fn a_hash_taken_once_serves_every_table() {
    let reader = open(
        build(with_bloom(), &numbered(300)),
        ReaderOptions::default(),
    )
    .unwrap();
    for i in 0..600u64 {
        let key = format!("key{i:06}");
        let hash = TableReader::filter_hash(key.as_bytes());
        reader.prefetch_filter(hash);
        let mut found = 0;
        let sink = |_: u64, _: &[u8], _: &Arc<Block>| {
            found += 1;
            ControlFlow::Continue(())
        };
        let params = ReadParams::default();
        reader
            .get_hashed(key.as_bytes(), hash, MAX_SEQUENCE, &params, sink)
            .unwrap();
        assert_eq!(found, u64::from(i < 300), "{key}");
    }
}

#[test]
fn pinned_values_outlive_iterator_reader_and_cache() {
    let entries = numbered(200);
    let options = ReaderOptions {
        cache: Some(BlockCache::new(1 << 20, Policy::Lru)),
        ..ReaderOptions::default()
    };
    let reader = open(build(BuilderOptions::default(), &entries), options).unwrap();
    let mut iter = reader.iter(ReadParams::default());
    let mut pinned = Vec::new();
    iter.seek_to_first();
    while iter.valid() {
        pinned.push(iter.value_pinned());
        iter.next();
    }
    drop((iter, reader));
    assert!(
        pinned
            .iter()
            .zip(&entries)
            .all(|(p, (_, value))| &**p == value)
    );
}

#[test]
fn unique_ids_are_those_that_rocksdb_records() {
    // As recorded in the MANIFEST of the database the table is from.
    for (table, want) in [
        (
            "default-000012.sst",
            [0x6721_0be6_f96f_799a, 0x70b9_f95e_444b_376f],
        ),
        (
            "format-version-5-000014.sst",
            [0x06e9_7548_08ad_0611, 0xc5cb_cfcb_44d3_4701],
        ),
    ] {
        let reader = open(fixture(table), ReaderOptions::default()).unwrap();
        assert_eq!(reader.properties().unique_id(), want, "{table}");
    }
}

#[test]
fn a_dump_shows_footer_blocks_and_properties() {
    let reader = open(fixture("r118-v7-abc.sst"), ReaderOptions::default()).unwrap();
    let dump = reader.dump().unwrap();
    assert_eq!(dump.footer.format_version, 7);
    assert_eq!(dump.footer.checksum.base, 0x0a8d_3751);
    let names: Vec<&str> = dump
        .metaindex
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    assert_eq!(names, ["rocksdb.index", "rocksdb.properties"]);
    assert_eq!((dump.index_handle.offset, dump.index_handle.size), (52, 13));
    assert!(dump.index_keys_are_user_keys);
    assert_eq!(dump.index.len(), 1);
    assert_eq!(dump.index[0].0, b"c");
    assert_eq!((dump.index[0].1.offset, dump.index[0].1.size), (0, 47));
    let properties = dump.properties.display();
    let has = |name: &str, value: &str| properties.contains(&(name.into(), value.into()));
    assert!(has("rocksdb.num.entries", "3"));
    assert!(has("rocksdb.compression", ";;"));
    assert!(has("rocksdb.original.file.number", "9"));
    assert_eq!(scan(&reader).unwrap(), expected("abc.tsv"));
}

/// Collects what it is shown.
#[derive(Default)]
struct Shown(Vec<String>);

impl TablePropertiesCollector for Shown {
    fn add(&mut self, e: &CollectedEntry<'_>) {
        let line = format!("{:?} {} {}", e.kind, e.key.escape_ascii(), e.seqno);
        self.0.push(line);
    }

    fn finish(&mut self) -> Vec<(String, Vec<u8>)> {
        vec![
            ("shown".into(), self.0.join(",").into_bytes()),
            ("rocksdb.num.entries".into(), b"lie".to_vec()),
        ]
    }

    fn readable(&self) -> Vec<(String, String)> {
        vec![("shown".into(), format!("{} entries", self.0.len()))]
    }

    fn needs_compaction(&self) -> bool {
        self.0.len() > 3
    }
}

struct MakesShown;

impl TablePropertiesCollectorFactory for MakesShown {
    fn name(&self) -> &str {
        "Shown"
    }

    fn create(&self, context: &CollectorContext) -> Option<Box<dyn TablePropertiesCollector>> {
        (context.column_family_id == 7).then(|| Box::new(Shown::default()) as Box<_>)
    }
}

#[test]
fn collectors_see_every_entry_and_add_properties() {
    for (column_family_id, collects) in [(7, true), (8, false)] {
        let options = BuilderOptions {
            column_family_id,
            collectors: Collectors(vec![Arc::new(MakesShown), Arc::new(MakesShown)]),
            ..BuilderOptions::default()
        };
        let (file, bytes) = MemFile::create();
        let mut builder = TableBuilder::new(options, file);
        let key = |k: &[u8], seqno, kind| internal_key(k, pack_tag(seqno, kind as u8));
        builder.add(&key(b"a", 5, ValueType::Value), b"v").unwrap();
        builder
            .add(&key(b"b", 4, ValueType::Deletion), b"")
            .unwrap();
        builder.add(&key(b"c", 3, ValueType::Merge), b"m").unwrap();
        builder
            .add_range_tombstone(&key(b"a", 9, ValueType::RangeDeletion), b"d")
            .unwrap();
        let summary = builder.finish().unwrap();
        assert_eq!(summary.needs_compaction, collects);
        let readable = summary.properties.readable.get("shown").cloned();
        assert_eq!(readable, collects.then(|| "4 entries".to_string()));
        let reader = open(bytes.lock().unwrap().clone(), ReaderOptions::default()).unwrap();
        let p = reader.properties();
        assert_eq!(p.property_collectors_names, "[Shown,Shown]");
        assert_eq!(p.num_entries, 4, "what is there stays");
        let shown = p.user_collected.get("shown").map(|v| v.as_slice());
        let want = &b"Value a 5,Deletion b 4,Merge c 3,RangeDeletion a 9"[..];
        assert_eq!(shown, collects.then_some(want));
    }
}

#[test]
fn checks_while_writing_change_no_byte_and_whole_keys_read_the_same() {
    let entries = numbered(500);
    for compression in [
        CompressionType::None,
        CompressionType::Lz4,
        CompressionType::Zstd,
    ] {
        let mut options = with_bloom();
        options.compression = compression;
        options.compression_options.max_dict_bytes = 1 << 10;
        options.context_checksum_base = Some(7);
        let plain = build(options.clone(), &entries);
        options.table.verify_compression = true;
        options.table.verify_filters = true;
        assert!(build(options.clone(), &entries) == plain, "{compression:?}");
        options.table.use_delta_encoding = false;
        let whole = build(options, &entries);
        let open = |bytes| open(bytes, ReaderOptions::default()).unwrap();
        let (short, long) = (open(plain), open(whole));
        assert_eq!(scan(&long).unwrap(), scan(&short).unwrap());
        assert!(long.properties().data_size > short.properties().data_size);
    }
}
