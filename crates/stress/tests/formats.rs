//! The examples in `docs/formats/` are decoded by our own code, so that pages and code agree.

use spanlith::options::parse_options_file;
use spanlith::version::VersionEdit;
use spanlith::version::filenames::{
    current_content, marked_current_content, parse_current, parse_marked_current,
};
use spanlith_base::checksum::{crc32c, crc32c_append, mask};
use spanlith_base::coding::{get_fixed32, get_fixed64, get_varint64};
use spanlith_base::keys::{internal_key, pack_tag};
use spanlith_base::{Comparator, Result};
use spanlith_env::{RandomAccessFile, SequentialFile};
use spanlith_table::filter::{Filter, FilterBuilder, hash64};
use spanlith_table::format::Footer;
use spanlith_table::{ReaderOptions, TableReader};
use spanlith_wal::{BatchIter, BatchOp, LogReader, ReadEvent};
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn page(name: &str) -> String {
    let path = root().join("docs/formats").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The lines of the fenced block of that title.
fn fenced(page_name: &str, title: &str) -> String {
    let text = page(page_name);
    let start = text.find(&format!("```{title}\n"));
    let start = start.unwrap_or_else(|| panic!("{page_name} has no example {title}"));
    let body = &text[start..];
    let body = &body[body.find('\n').unwrap() + 1..];
    body[..body.find("```").unwrap()].to_string()
}

/// The bytes of an example; what follows a `;` is comment.
fn example(page_name: &str, title: &str) -> Vec<u8> {
    let text = fenced(page_name, &format!("hex {title}"));
    let digits = text.lines().flat_map(|l| {
        let bytes = l.split(';').next().unwrap_or_default();
        bytes.split_whitespace().map(|b| {
            assert_eq!(b.len(), 2, "{title}: {b}");
            u8::from_str_radix(b, 16).unwrap()
        })
    });
    digits.collect()
}

struct Bytes(std::io::Cursor<Vec<u8>>);

impl SequentialFile for Bytes {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        Ok(std::io::Read::read(&mut self.0, buf).unwrap())
    }
}

fn events(log: Vec<u8>, number: u64) -> Vec<(ReadEvent, Vec<u8>)> {
    let mut reader = LogReader::new(Box::new(Bytes(std::io::Cursor::new(log))), number);
    let mut out = Vec::new();
    loop {
        let event = reader.next_event().unwrap();
        if event == ReadEvent::Eof {
            return out;
        }
        let record = reader.record().to_vec();
        out.push((event, record));
    }
}

#[test]
fn the_records_of_the_log_page_read_as_it_says() {
    for (title, number) in [("log-full", 0), ("log-recyclable", 9)] {
        let found = events(example("log.md", title), number);
        let [(ReadEvent::Record { offset: 0, .. }, record)] = &found[..] else {
            panic!("{title}: {found:?}");
        };
        let ops: Vec<_> = BatchIter::new(record)
            .unwrap()
            .map(Result::unwrap)
            .collect();
        let put = BatchOp::Put {
            cf: 0,
            key: b"a",
            value: b"1",
        };
        assert_eq!(ops, [put], "{title}");
    }
    let predecessor = events(example("log.md", "log-predecessor"), 0);
    let expected = ReadEvent::Predecessor {
        log_number: 4,
        size: 470,
        last_sequence: 20,
    };
    assert_eq!(predecessor, [(expected, Vec::new())]);
    let compression = example("log.md", "log-compression");
    let sum = mask(crc32c(&compression[6..]));
    assert_eq!(get_fixed32(&compression, 0), Some(sum));
}

#[test]
fn the_batches_of_the_pages_read_as_they_say() {
    let two = example("write-batch.md", "batch-two");
    let iter = BatchIter::new(&two).unwrap();
    assert_eq!((iter.sequence(), iter.header_count()), (1, 2));
    let ops: Vec<_> = iter.map(Result::unwrap).collect();
    let expected = [
        BatchOp::Put {
            cf: 0,
            key: b"a",
            value: b"1",
        },
        BatchOp::LogData { blob: b"hi" },
        BatchOp::Delete { cf: 5, key: b"b" },
    ];
    assert_eq!(ops, expected);

    let entity = example("write-batch.md", "entity-one");
    assert_eq!(entity, b"\x01\x02\x00\x02\x03col\x01ddz");

    let opening = example("README.md", "opening-record");
    let iter = BatchIter::new(&opening).unwrap();
    assert_eq!((iter.sequence(), iter.header_count()), (21, 0));
    let ops: Vec<_> = iter.map(Result::unwrap).collect();
    let [BatchOp::LogData { blob }] = ops[..] else {
        panic!("{ops:?}");
    };
    assert_eq!((&blob[..8], blob.len()), (&b"spanlith"[..], 37));
    let id = b"11111111-2222-4333-8444-555555555555";
    let sum = crc32c_append(crc32c(id), &blob[12..]);
    assert_eq!(get_fixed32(blob, 8), Some(sum));
    let numbers = [13, 21, 29].map(|at| get_fixed64(blob, at).unwrap());
    assert_eq!(numbers, [4, 470, 20]);
}

#[test]
fn the_records_of_the_trace_page_read_as_it_says() {
    use spanlith::trace::{Query, TraceForm, TraceHeader, TraceReader, TraceRecord};
    let header = TraceHeader {
        timestamp: 0,
        rocksdb: (7, 8),
        form: TraceForm::Queries { version: (0, 2) },
    };
    let mut reader = TraceReader::new(Box::new(Bytes(std::io::Cursor::new(example(
        "trace.md",
        "trace-queries",
    )))));
    let mut times = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        match header.decode(&record).unwrap() {
            TraceRecord::Query(Query::Write { batch }) => {
                let op = BatchIter::new(batch).unwrap().next().unwrap().unwrap();
                let (cf, key, value) = (0, &b"a"[..], &b"1"[..]);
                assert_eq!(op, BatchOp::Put { cf, key, value });
            }
            TraceRecord::Query(Query::Get { cf, key }) => assert_eq!((cf, key), (0, &b"a"[..])),
            other => panic!("{other:?}"),
        }
        times.push(record.timestamp);
    }
    assert_eq!(times, [1795215346336691, 1795215346336691 + 906]);
    assert_eq!(reader.torn(), None);
}

#[test]
fn the_edit_of_the_manifest_page_reads_as_it_says() {
    let edit = VersionEdit::decode(&example("manifest.md", "manifest-flush")).unwrap();
    let scalars = (edit.log_number, edit.next_file_number, edit.last_sequence);
    assert_eq!(scalars, (Some(8), Some(10), Some(20)));
    let file = &edit.new_files[0];
    assert_eq!((file.level, file.number, file.size), (0, 9, 1241));
    assert_eq!(file.smallest, internal_key(b"key00000", pack_tag(1, 1)));
    assert_eq!(file.largest, internal_key(b"key00019", pack_tag(20, 1)));
    assert_ne!(file.unique_id, [0, 0]);
}

/// A file in memory.
struct Whole(Vec<u8>);

impl RandomAccessFile for Whole {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let rest = self.0.get(offset as usize..).unwrap_or_default();
        let n = rest.len().min(buf.len());
        buf[..n].copy_from_slice(&rest[..n]);
        Ok(n)
    }
    fn size(&self) -> u64 {
        self.0.len() as u64
    }
    fn path(&self) -> &Path {
        Path::new("example.sst")
    }
}

#[test]
fn the_blocks_of_the_table_page_are_those_of_a_table_of_rocksdb() {
    let file = std::fs::read(root().join("fixtures/table/r78-v5-abc.sst")).unwrap();
    let footer_bytes = example("sst.md", "footer-v5");
    assert!(file.ends_with(&footer_bytes));
    let size = file.len() as u64;
    let footer = Footer::decode(&footer_bytes, size, Path::new("example.sst")).unwrap();
    assert_eq!(footer.format_version, 5);
    assert_eq!((footer.metaindex.offset, footer.metaindex.size), (960, 32));
    let index = footer.index.unwrap();
    assert_eq!((index.offset, index.size), (52, 13));
    assert_eq!(file[..47], example("sst.md", "data-block"));
    assert_eq!(file[52..65], example("sst.md", "index-block"));
    let options = ReaderOptions {
        comparator: Comparator::Bytewise,
        ..ReaderOptions::default()
    };
    let reader = TableReader::open(Arc::new(Whole(file)), size, options).unwrap();
    let mut iter = reader.iter(Default::default());
    let mut keys = Vec::new();
    iter.seek_to_first();
    while iter.valid() {
        keys.push((iter.key().to_vec(), iter.value().to_vec()));
        iter.next();
    }
    iter.status().unwrap();
    let expected = [(b"a", b"1", 1), (b"b", b"2", 2), (b"c", b"3", 3)];
    let expected = expected.map(|(k, v, s)| (internal_key(k, pack_tag(s, 1)), v.to_vec()));
    assert_eq!(keys, expected);
}

#[test]
fn the_filter_page_gives_the_hashes_and_bits_that_the_code_makes() {
    let text = page("filters.md");
    let mut rows = 0;
    for line in text.lines() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let key = match cells.get(1) {
            Some(&"empty") => "",
            Some(cell) if cell.starts_with('`') && cells.len() == 6 => cell.trim_matches('`'),
            _ => continue,
        };
        rows += 1;
        let hash = u64::from_str_radix(cells[2], 16).unwrap();
        assert_eq!(hash64(key.as_bytes()), hash, "{key:?}");
    }
    assert_eq!(rows, 5);
    assert_eq!(example("filters.md", "filter-secret").len(), 192);

    let mut builder = FilterBuilder::new(10.0, None);
    builder.add(b"a");
    let bytes = example("filters.md", "filter-a");
    assert_eq!(*builder.finish(), *bytes);
    let filter = Filter::parse(bytes);
    assert!(filter.may_match(b"a") && !filter.may_match(b"b"));
}

#[test]
fn the_blob_page_shows_a_whole_file() {
    let file = example("blob.md", "blob-file");
    assert_eq!(get_fixed32(&file, 0), Some(0x0024_8f37));
    let record = &file[30..file.len() - 32];
    let lengths = (get_fixed64(record, 0), get_fixed64(record, 8));
    assert_eq!(lengths, (Some(4), Some(12)));
    assert_eq!(record.len(), 32 + 4 + 12);
    assert_eq!(get_fixed32(record, 24), Some(mask(crc32c(&record[..24]))));
    assert_eq!(get_fixed32(record, 28), Some(mask(crc32c(&record[32..]))));
    let footer = &file[file.len() - 32..];
    assert_eq!(get_fixed64(footer, 4), Some(1));
    assert_eq!(get_fixed32(footer, 28), Some(mask(crc32c(&footer[..28]))));

    let index = example("blob.md", "blob-index");
    let (number, rest) = get_varint64(&index[1..]).unwrap();
    let (offset, rest) = get_varint64(rest).unwrap();
    let (size, rest) = get_varint64(rest).unwrap();
    assert_eq!((index[0], number, rest), (1, 10, &[0][..]));
    let value = &file[offset as usize..][..size as usize];
    assert_eq!(value, b"a long value");
}

#[test]
fn the_small_files_of_the_pages_parse() {
    let current = example("db-directory.md", "current");
    assert_eq!(parse_current(&current).unwrap(), 5);
    assert_eq!(current_content(5).as_bytes(), current);
    let marked = example("db-directory.md", "marked-current");
    let (number, marks) = parse_marked_current(&marked).unwrap();
    let (mark, tables) = (marks.logs.clone().unwrap(), marks.tables.clone().unwrap());
    assert_eq!(
        (tables.token[..2].to_vec(), tables.is_leaving),
        (vec![0x10, 0x11], false)
    );
    assert_eq!(tables.dir, "/fast/tables");
    assert_eq!(
        (number, mark.epoch, mark.target.as_str()),
        (5, 7, "/fast/log.sd")
    );
    assert_eq!(marked_current_content(5, &marks).as_bytes(), marked);
    let e = parse_current(&marked).unwrap_err();
    assert!(
        e.to_string().contains("are on the speed disk /fast/log.sd"),
        "{e}"
    );
    let options = fenced("options-file.md", "text options-minimal");
    let parsed = parse_options_file(&options).unwrap();
    assert_eq!(parsed.rocksdb_version, [7, 8, 3]);
    assert_eq!(parsed.cfs.len(), 1);
}
