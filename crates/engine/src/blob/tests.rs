//! Blob files written by RocksDB, and damaged ones.

use super::format::{FOOTER_LEN, HEADER_LEN, RECORD_HEADER_LEN};
use super::*;
use spanlith_base::CompressionType;
use spanlith_base::{ErrorKind, Result};
use spanlith_env::{Env, FileSystem};
use spanlith_testkit::{TempDir, fixtures_dir, unhex};
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn fs() -> Arc<dyn FileSystem> {
    Env::system().fs
}

/// All blob files below a folder.
pub(super) fn blob_files(dir: &Path, out: &mut Vec<PathBuf>) {
    let mut entries: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            blob_files(&path, out);
        } else if path.extension().is_some_and(|e| e == "blob") {
            out.push(path);
        }
    }
}

/// Keys and pointers of all records of a file, from its bytes.
pub(super) fn records(file: u64, bytes: &[u8]) -> Vec<(Vec<u8>, BlobPointer)> {
    let header = BlobHeader::decode(&bytes[..HEADER_LEN]).unwrap();
    let mut out = Vec::new();
    let mut at = HEADER_LEN;
    while at < bytes.len() - FOOTER_LEN {
        let record = BlobRecordHeader::decode(&bytes[at..at + RECORD_HEADER_LEN]).unwrap();
        let key_at = at + RECORD_HEADER_LEN;
        let value_at = key_at + record.key_len as usize;
        let pointer = BlobPointer {
            file,
            offset: value_at as u64,
            size: record.value_len,
            compression: header.compression,
        };
        out.push((bytes[key_at..value_at].to_vec(), pointer));
        at = value_at + record.value_len as usize;
    }
    assert_eq!(at, bytes.len() - FOOTER_LEN);
    out
}

pub(super) fn open(path: &Path) -> Result<BlobFileReader> {
    BlobFileReader::open(fs().open_random(path)?, ExpectedFamily::Any)
}

#[test]
fn every_record_of_rocksdbs_blob_files_is_read() {
    let mut files = Vec::new();
    blob_files(&fixtures_dir().join("blob"), &mut files);
    blob_files(&fixtures_dir().join("golden"), &mut files);
    assert!(files.len() >= 30, "{} files", files.len());
    let mut read = 0;
    for path in &files {
        let bytes = std::fs::read(path).unwrap();
        let records = records(1, &bytes);
        let reader = match open(path) {
            Ok(reader) => reader,
            Err(e) => {
                assert_eq!(e.kind(), ErrorKind::NotSupported, "{e}");
                let known = CompressionType::from_stored_byte(bytes[13]);
                assert!(known.is_none_or(|t| t.codec().is_err()), "{e}");
                continue;
            }
        };
        assert_eq!(
            reader.blobs(),
            records.len() as u64,
            "footer of {}",
            path.display()
        );
        for (key, pointer) in &records {
            let checked = reader.get(key, pointer, true).unwrap();
            assert_eq!(checked, reader.get(key, pointer, false).unwrap());
            read += 1;
        }
    }
    assert!(read >= 60, "{read} records");
}

#[test]
fn values_are_those_that_rocksdb_returns() {
    let mut compared = 0;
    for entry in std::fs::read_dir(fixtures_dir().join("blob")).unwrap() {
        let tsv = entry.unwrap().path();
        if tsv.extension().is_none_or(|e| e != "tsv") {
            continue;
        }
        let text = std::fs::read_to_string(&tsv).unwrap();
        let mut expected: HashMap<Vec<u8>, HashSet<Vec<u8>>> = HashMap::new();
        for line in text.lines().filter(|l| !l.starts_with('#')) {
            let mut fields = line.split('\t');
            let key = unhex(fields.next().unwrap()).unwrap();
            // Of an entity: the default column, then name=value.
            for value in fields {
                let value = value.split('=').next_back().unwrap();
                expected
                    .entry(key.clone())
                    .or_default()
                    .insert(unhex(value).unwrap());
            }
        }
        let mut files = Vec::new();
        blob_files(&tsv.with_extension(""), &mut files);
        let mut found: HashMap<Vec<u8>, HashSet<Vec<u8>>> = HashMap::new();
        let mut complete = true;
        for path in files {
            let Ok(reader) = open(&path) else {
                complete = false;
                continue;
            };
            for (key, pointer) in records(1, &std::fs::read(&path).unwrap()) {
                let value = reader.get(&key, &pointer, true).unwrap();
                found.entry(key).or_default().insert(value.to_vec());
            }
        }
        for (key, values) in expected.iter().filter(|_| complete) {
            for value in values.iter().filter(|v| v.len() >= 30) {
                assert!(
                    found.get(key).is_some_and(|f| f.contains(value)),
                    "{} {}",
                    tsv.display(),
                    key.escape_ascii()
                );
                compared += 1;
            }
        }
    }
    assert!(compared >= 20, "{compared} values");
}

#[test]
fn an_index_says_where_the_blob_is() {
    // Written by RocksDB: file 10, offset 64, size 12, LZ4.
    let bytes = [0x01, 0x0a, 0x40, 0x0c, 0x04];
    let pointer = BlobIndex::decode(&bytes).unwrap().pointer().unwrap();
    let expected = BlobPointer {
        file: 10,
        offset: 64,
        size: 12,
        compression: 4,
    };
    assert_eq!(pointer, expected);
    let mut out = Vec::new();
    pointer.encode(&mut out);
    assert_eq!(out, bytes);
    let legacy = [&[2u8, 9][..], &bytes[1..]].concat();
    let ttl = BlobIndex::decode(&legacy).unwrap();
    assert_eq!(ttl, BlobIndex::BlobTtl(expected, 9));
    assert_eq!(
        ttl.pointer().unwrap_err().to_string(),
        "Corruption: Unexpected TTL/inlined blob index"
    );
    assert_eq!(
        BlobIndex::decode(b"\x00\x05abc").unwrap(),
        BlobIndex::InlinedTtl(b"abc", 5)
    );
    let error = |b: &[u8]| BlobIndex::decode(b).unwrap_err().to_string();
    for cut in 1..bytes.len() {
        assert_eq!(
            error(&bytes[..cut]),
            "Corruption: Error while decoding blob index: Corrupted blob offset"
        );
    }
    assert!(error(&[&bytes[..], b"x"].concat()).ends_with("Corrupted blob offset"));
    assert!(error(&[3]).ends_with("Unknown blob index type: 3"));
    assert!(error(&[]).starts_with("Corruption: Error while decoding blob index"));
}

/// A blob file of one record, `key` to `value`.
fn one_record(key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    BlobHeader::default().encode(&mut bytes);
    BlobRecordHeader::new(key, value).encode(&mut bytes);
    bytes.extend_from_slice(key);
    bytes.extend_from_slice(value);
    BlobFooter {
        blobs: 1,
        ..BlobFooter::default()
    }
    .encode(&mut bytes);
    bytes
}

#[test]
fn written_bytes_are_rocksdbs() {
    let path = fixtures_dir().join("blob/r118-blob-gc-true");
    let mut files = Vec::new();
    blob_files(&path, &mut files);
    for path in files {
        let bytes = std::fs::read(path).unwrap();
        let mut ours = Vec::new();
        let header = BlobHeader::decode(&bytes[..HEADER_LEN]).unwrap();
        header.encode(&mut ours);
        let records = records(1, &bytes);
        for (key, p) in &records {
            let value = &bytes[p.offset as usize..][..p.size as usize];
            BlobRecordHeader::new(key, value).encode(&mut ours);
            ours.extend_from_slice(key);
            ours.extend_from_slice(value);
        }
        BlobFooter {
            blobs: records.len() as u64,
            ..BlobFooter::default()
        }
        .encode(&mut ours);
        assert_eq!(ours, bytes);
    }
}

#[test]
fn every_kind_of_damage_has_rocksdbs_text() {
    let dir = TempDir::new("blob");
    let value = [b'v'; 40];
    let good = one_record(b"key", &value);
    let at = (HEADER_LEN + RECORD_HEADER_LEN + 3) as u64;
    let pointer = BlobPointer {
        file: 1,
        offset: at,
        size: 40,
        compression: 0,
    };
    let path = dir.path().join("000001.blob");
    let try_read = |bytes: &[u8], key: &[u8], pointer: BlobPointer, verify| {
        std::fs::write(&path, bytes).unwrap();
        let reader = BlobFileReader::open(fs().open_random(&path).unwrap(), ExpectedFamily::Id(0))?;
        reader.get(key, &pointer, verify)
    };
    assert_eq!(*try_read(&good, b"key", pointer, true).unwrap(), value);
    let changed = |at: usize| {
        let mut bytes = good.clone();
        bytes[at] ^= 0x40;
        bytes
    };
    let end = good.len();
    let damaged: [(Vec<u8>, &str); 10] = [
        (good[..61].to_vec(), "Malformed blob file"),
        (
            changed(0),
            "Error while decoding blob log header: Magic number mismatch",
        ),
        (
            changed(4),
            "Error while decoding blob log header: Unknown header version",
        ),
        (changed(8), "Column family ID mismatch"),
        (changed(20), "Unexpected TTL blob file"),
        (
            good[..end - 1].to_vec(),
            "Error while decoding blob log footer: Magic number mismatch",
        ),
        (
            changed(end - 5),
            "Error while decoding blob log footer: CRC mismatch",
        ),
        (
            changed(HEADER_LEN),
            "Error while decoding blob record: Header CRC mismatch",
        ),
        (
            changed(HEADER_LEN + RECORD_HEADER_LEN),
            "Key mismatch when reading blob",
        ),
        (changed(at as usize), "Blob CRC mismatch"),
    ];
    for (bytes, text) in damaged {
        let e = try_read(&bytes, b"key", pointer, true).unwrap_err();
        assert!(
            e.to_string().starts_with(&format!("Corruption: {text}")),
            "{e}: not {text}"
        );
    }
    let unchecked = try_read(&changed(at as usize), b"key", pointer, false).unwrap();
    assert_eq!(unchecked[1..], value[1..]);

    let wrong = |p: BlobPointer, key: &[u8], text: &str| {
        let e = try_read(&good, key, p, true).unwrap_err();
        assert!(
            e.to_string().starts_with(&format!("Corruption: {text}")),
            "{e}: not {text}"
        );
    };
    let offset = "Invalid blob offset";
    wrong(
        BlobPointer {
            offset: at - 1,
            ..pointer
        },
        b"key",
        offset,
    );
    wrong(
        BlobPointer {
            size: 41,
            ..pointer
        },
        b"key",
        offset,
    );
    wrong(
        BlobPointer {
            offset: u64::MAX,
            ..pointer
        },
        b"key",
        offset,
    );
    wrong(
        BlobPointer {
            size: u64::MAX,
            ..pointer
        },
        b"key",
        offset,
    );
    wrong(pointer, b"longer key", offset);
    wrong(
        BlobPointer {
            size: 39,
            ..pointer
        },
        b"key",
        "Value size mismatch when reading blob",
    );
    wrong(
        BlobPointer {
            compression: 4,
            ..pointer
        },
        b"key",
        "Compression type mismatch when reading blob",
    );
    wrong(
        BlobPointer {
            offset: at + 1,
            size: 39,
            ..pointer
        },
        b"key",
        "Error while decoding blob record: Header CRC mismatch",
    );
}

#[test]
fn a_source_keeps_few_files_open_and_reads_only_if_it_may() {
    let dir = TempDir::new("blob");
    let at = (HEADER_LEN + RECORD_HEADER_LEN + 1) as u64;
    let pointer = |file| BlobPointer {
        file,
        offset: at,
        size: 5,
        compression: 0,
    };
    for n in 1..=4u64 {
        let bytes = one_record(b"k", format!("val-{n}").as_bytes());
        std::fs::write(dir.path().join(format!("{n:06}.blob")), bytes).unwrap();
    }
    let source = BlobSource::new(fs(), dir.path().to_path_buf(), ExpectedFamily::Id(0), 2);
    for n in [1, 2, 1, 3, 4, 1, 2, 3] {
        let value = source.get(b"k", &pointer(n), BlobRead::default()).unwrap();
        assert_eq!(*value, *format!("val-{n}").as_bytes());
        assert!(source.open_files() <= 2);
    }
    source.forget(3);
    assert_eq!(source.open_files(), 1);
    let from_memory = BlobRead {
        may_read: false,
        ..BlobRead::default()
    };
    let e = source.get(b"k", &pointer(2), from_memory).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Incomplete);
    let e = source
        .get(b"k", &pointer(9), BlobRead::default())
        .unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Io);
}

#[test]
fn a_damaged_handle_is_opened_anew() {
    let dir = TempDir::new("blob");
    let path = dir.path().join("000001.blob");
    std::fs::write(&path, one_record(b"k", b"first")).unwrap();
    let source = BlobSource::new(fs(), dir.path().to_path_buf(), ExpectedFamily::Any, 2);
    let pointer = BlobPointer {
        file: 1,
        offset: (HEADER_LEN + RECORD_HEADER_LEN + 1) as u64,
        size: 5,
        compression: 0,
    };
    source.reader(1).unwrap();
    // The open handle keeps seeing the old file, in which the key is another.
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, one_record(b"q", b"other")).unwrap();
    let value = source.get(b"q", &pointer, BlobRead::default()).unwrap();
    assert_eq!(&*value, b"other");
}
