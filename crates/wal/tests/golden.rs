//! Logs that RocksDB wrote are read, and written again byte for byte.

mod support;

use spanlith_base::CompressionType;
use spanlith_testkit::{fixtures_dir, unhex};
use spanlith_wal::record::{SET_COMPRESSION_TYPE, is_recyclable};
use spanlith_wal::{BatchIter, BatchOp, LogOptions, LogReader, ReadEvent, WriteBatch};
use std::path::{Path, PathBuf};
use support::{Found, MemFile, Source, events, records};

fn fixture(name: &str) -> Vec<u8> {
    let path = fixtures_dir().join(name);
    std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn rewrite(records: &[Found]) -> Vec<u8> {
    let file = MemFile::default();
    let mut writer = file.writer();
    for (n, (_, end, payload)) in records.iter().enumerate() {
        // In one piece, and in pieces that fall anywhere.
        if n % 2 == 0 {
            writer.add_record(payload).unwrap();
        } else {
            let (a, b) = payload.split_at(payload.len() / 3);
            writer.add_record_parts(&[a, &[], b]).unwrap();
        }
        assert_eq!(writer.len(), *end);
    }
    file.bytes()
}

/// Encodes the entries of a batch anew, through the methods of [`WriteBatch`].
fn reencode(rep: &[u8]) -> Vec<u8> {
    let mut batch = WriteBatch::new();
    for op in BatchIter::new(rep).unwrap() {
        match op.unwrap() {
            BatchOp::Put { cf, key, value } => batch.put_cf(cf, key, value),
            BatchOp::Delete { cf, key } => batch.delete_cf(cf, key),
            BatchOp::SingleDelete { cf, key } => batch.single_delete_cf(cf, key),
            BatchOp::Merge { cf, key, value } => batch.merge_cf(cf, key, value),
            BatchOp::DeleteRange { cf, begin, end } => batch.delete_range_cf(cf, begin, end),
            BatchOp::LogData { blob } => batch.put_log_data(blob),
            other => panic!("cannot be built: {other:?}"),
        }
        .unwrap();
    }
    batch.set_sequence(BatchIter::new(rep).unwrap().sequence());
    batch.into_bytes()
}

#[test]
fn logs_of_rocksdb_are_read_and_written_again_byte_for_byte() {
    // Counts of an independent dissector.
    for (name, count) in [
        ("golden/golden-7.8/wal-only/db/000004.log", 28),
        ("golden/golden-11.8/wal-unflushed/db/000004.log", 113),
        ("wal/edge-value-32736.log", 3),
        ("wal/edge-value-32737.log", 3),
    ] {
        let bytes = fixture(name);
        let found = records(&bytes, 4);
        assert_eq!(found.len(), count, "{name}");
        assert_eq!(rewrite(&found), bytes, "{name}");
        for (_, _, rep) in &found {
            assert_eq!(&reencode(rep), rep, "{name}");
            let checked = WriteBatch::from_bytes(rep.clone()).unwrap();
            assert_eq!(checked.as_bytes(), rep);
        }
    }
}

#[test]
fn a_recyclable_log_is_read_under_its_own_number_only() {
    let bytes = fixture("wal/edge-recyclable-32732.log");
    let number = u64::from(u32::from_le_bytes(bytes[7..11].try_into().unwrap()));
    // Only the low 32 bits are stored.
    for number in [number, number + (7 << 32)] {
        let (found, other) = events(LogReader::new(Source::boxed(&bytes[..]), number));
        let spans: Vec<_> = found.iter().map(|(a, b, p)| (*a, *b, p.len())).collect();
        assert_eq!(
            spans,
            [(0, 32761, 32750), (32768, 32801, 22), (32801, 32833, 21)]
        );
        assert_eq!(other, []);
    }
    let mut reader = LogReader::new(Source::boxed(bytes), number + 1);
    assert_eq!(
        reader.next_event().unwrap(),
        ReadEvent::OldRecord { offset: 0 }
    );
    assert_eq!(reader.next_event().unwrap(), ReadEvent::Eof);
    assert!(reader.is_recycled());
}

#[test]
fn the_record_of_one_put_has_the_published_bytes() {
    let mut batch = WriteBatch::new();
    batch.put(b"a", b"1").unwrap();
    batch.set_sequence(1);
    let file = MemFile::default();
    file.writer().add_record(batch.as_bytes()).unwrap();
    let want = unhex("e99f78191100010100000000000000010000000101610131");
    assert_eq!(Some(file.bytes()), want);
}

fn files(folder: &Path, wanted: &dyn Fn(&str) -> bool, out: &mut Vec<PathBuf>) {
    let mut entries: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap())
        .collect();
    entries.sort_by_key(std::fs::DirEntry::path);
    for entry in entries {
        if entry.path().is_dir() {
            files(&entry.path(), wanted, out);
        } else if wanted(&entry.file_name().to_string_lossy()) {
            out.push(entry.path());
        }
    }
}

#[test]
fn every_log_of_the_golden_databases_is_read_and_written_again_byte_for_byte() {
    let mut paths = Vec::new();
    files(
        &fixtures_dir().join("golden"),
        &|name| name.ends_with(".log"),
        &mut paths,
    );
    assert!(paths.len() > 100, "{}", paths.len());
    let (mut batches, mut compressed, mut predecessors, mut sizes) = (0, 0, 0, 0);
    for path in paths {
        let number: u64 = path.file_stem().unwrap().to_string_lossy().parse().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let options = LogOptions {
            recyclable: bytes.get(6).is_some_and(|t| is_recyclable(*t)),
            compression: match bytes.get(6) {
                Some(&SET_COMPRESSION_TYPE) => CompressionType::Zstd,
                _ => CompressionType::None,
            },
            buffer_size: 0,
        };
        compressed += u32::from(options.compression == CompressionType::Zstd);
        let again = MemFile::default();
        let mut writer = again.writer_with(number, options);
        let mut reader = LogReader::new(Source::boxed(bytes.clone()), number);
        loop {
            match reader.next_event().unwrap() {
                ReadEvent::Record { .. } => {
                    for op in BatchIter::new(reader.record()).unwrap() {
                        op.unwrap_or_else(|e| panic!("{}: {e}", path.display()));
                    }
                    batches += 1;
                    writer.add_record(reader.record()).unwrap();
                }
                ReadEvent::Predecessor {
                    log_number,
                    size,
                    last_sequence,
                } => {
                    predecessors += 1;
                    writer
                        .add_predecessor(log_number, size, last_sequence)
                        .unwrap();
                }
                ReadEvent::TimestampSizes(found) => {
                    sizes += 1;
                    // Twice, and with a size of zero: written once.
                    writer.add_timestamp_sizes(&found).unwrap();
                    writer.add_timestamp_sizes(&found).unwrap();
                    writer.add_timestamp_sizes(&[(77, 0)]).unwrap();
                }
                // The bytes after the new records of a recycled file.
                ReadEvent::OldRecord { .. } => assert!(reader.is_recycled()),
                ReadEvent::Corruption { tail, .. } => {
                    assert!(tail && reader.is_recycled(), "{}", path.display());
                }
                ReadEvent::Eof => break,
            }
        }
        let again = again.bytes();
        assert!(bytes.starts_with(&again), "{}", path.display());
        assert!(again.len() == bytes.len() || options.recyclable);
    }
    println!("{batches} batches, {compressed} compressed, {predecessors} {sizes}");
    assert!(batches > 1000 && compressed >= 2 && predecessors > 0 && sizes > 0);
}

#[test]
fn every_golden_manifest_is_read_and_written_again_byte_for_byte() {
    let mut paths = Vec::new();
    files(
        &fixtures_dir().join("golden"),
        &|name| name.starts_with("MANIFEST-"),
        &mut paths,
    );
    assert!(paths.len() > 100, "{}", paths.len());
    for path in paths {
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(rewrite(&records(&bytes, 0)), bytes, "{}", path.display());
    }
}
