//! Logs that RocksDB wrote are read, and written again byte for byte.

mod support;

use spanlith_wal::{BatchIter, BatchOp, LogReader, LogWriter, ReadEvent, WriteBatch};
use support::{MemFile, Sink, Source};

fn fixture(name: &str) -> Vec<u8> {
    let path = format!("{}/../../fixtures/wal/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// All records; panics on any other event.
fn records(bytes: &[u8], number: u64) -> Vec<(u64, u64, Vec<u8>)> {
    let mut reader = LogReader::new(Source::boxed(bytes), number);
    let mut found = Vec::new();
    loop {
        match reader.next_event().unwrap() {
            ReadEvent::Record { offset, end } => {
                found.push((offset, end, reader.record().to_vec()));
            }
            ReadEvent::Eof => return found,
            other => panic!("{other:?}"),
        }
    }
}

fn rewrite(records: &[(u64, u64, Vec<u8>)]) -> Vec<u8> {
    let file = MemFile::default();
    let mut writer = LogWriter::new(Sink::boxed(&file), 1);
    for (_, _, payload) in records {
        writer.add_record(payload).unwrap();
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
            other => panic!("not of milestone 1: {other:?}"),
        }
        .unwrap();
    }
    batch.set_sequence(BatchIter::new(rep).unwrap().sequence());
    batch.into_bytes()
}

#[test]
fn logs_of_rocksdb_are_read_and_written_again_byte_for_byte() {
    for (name, count) in [
        ("wal-only-7.8.log", 28),
        ("wal-unflushed-11.8.log", 113),
        ("edge-value-32736.log", 3),
        ("edge-value-32737.log", 3),
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
