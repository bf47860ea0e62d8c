#![allow(
    clippy::disallowed_methods,
    reason = "tests read fixtures from the real file system"
)]

use super::*;
use spanlith_testkit::{Rng, fixtures_dir, seed, test_name};
use std::path::{Path, PathBuf};

/// Records of a file in the legacy log format: blocks of 32 KiB, header of 7 bytes (checksum, length,
/// type), types 1 full, 2 first, 3 middle, 4 last.
fn log_records(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut records = Vec::new();
    let mut record = Vec::new();
    for block in bytes.chunks(32 << 10) {
        let mut rest = block;
        while rest.len() >= 7 {
            let len = usize::from(u16::from_le_bytes([rest[4], rest[5]]));
            let kind = rest[6];
            if kind == 0 || rest.len() < 7 + len {
                break;
            }
            record.extend_from_slice(&rest[7..7 + len]);
            if kind == 1 || kind == 4 {
                records.push(std::mem::take(&mut record));
            }
            rest = &rest[7 + len..];
        }
    }
    records
}

fn manifests_below(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            manifests_below(&path, found);
        } else if path
            .file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .starts_with("MANIFEST-")
        {
            found.push(path);
        }
    }
}

fn golden_records(release: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let mut paths = Vec::new();
    manifests_below(&fixtures_dir().join("golden").join(release), &mut paths);
    paths.sort();
    let mut records = Vec::new();
    for path in paths {
        for record in log_records(&std::fs::read(&path).unwrap()) {
            records.push((path.clone(), record));
        }
    }
    records
}

fn file() -> NewFile {
    NewFile {
        level: 3,
        number: 500,
        size: 1 << 40,
        smallest: b"a\x01\x00\x00\x00\x00\x00\x00\x01".to_vec(),
        largest: b"z\x01\x00\x00\x00\x00\x00\x00\x01".to_vec(),
        smallest_seqno: 1,
        largest_seqno: 77,
        ..NewFile::default()
    }
}

fn full_edit() -> VersionEdit {
    VersionEdit {
        db_id: Some(b"id".to_vec()),
        comparator: Some(b"cmp".to_vec()),
        log_number: Some(1 << 33),
        prev_log_number: Some(0),
        next_file_number: Some(300),
        max_column_family: Some(9),
        min_log_number_to_keep: Some(7),
        last_sequence: Some(MAX),
        compact_cursors: vec![(2, b"cursor\0\0\0\0\0\0\0\0".to_vec())],
        deleted_files: vec![(0, 9), (1, 3), (1, 200)],
        new_files: vec![
            NewFile {
                path_id: 3,
                marked_for_compaction: true,
                oldest_blob_file_number: 12,
                oldest_ancester_time: 5,
                file_creation_time: 6,
                epoch_number: 7,
                file_checksum: b"sum".to_vec(),
                file_checksum_func_name: b"crc".to_vec(),
                temperature: 8,
                unique_id: [1, u64::MAX],
                compensated_range_deletion_size: 99,
                tail_size: 1000,
                user_defined_timestamps_persisted: false,
                min_timestamp: b"min".to_vec(),
                max_timestamp: b"max".to_vec(),
                open_metadata: b"open".to_vec(),
                ..file()
            },
            NewFile {
                number: 501,
                ..file()
            },
        ],
        blob_file_additions: vec![BlobFileAddition {
            number: 12,
            total_count: 4,
            total_bytes: 400,
            checksum_method: b"m".to_vec(),
            checksum_value: b"v".to_vec(),
        }],
        blob_file_garbages: vec![BlobFileGarbage {
            number: 12,
            count: 1,
            bytes: 100,
        }],
        wal_additions: vec![
            WalAddition {
                number: 4,
                synced_size: Some(470),
            },
            WalAddition {
                number: 5,
                synced_size: None,
            },
        ],
        wal_deletion: Some(4),
        column_family: 6,
        column_family_add: Some(b"name".to_vec()),
        column_family_drop: true,
        remaining_in_atomic_group: Some(0),
        full_history_ts_low: Some(b"low".to_vec()),
        persist_user_defined_timestamps: Some(false),
        subcompaction_progress: Some(b"progress".to_vec()),
        last_compacted_manifest_file_size: Some(127),
        manifest_mark: Some(1 << 20),
        log_cuts: vec![(12, 0), (13, 1 << 40)],
        log_ends: vec![(11, 300)],
        oldest_log: Some(13),
    }
}

const MAX: u64 = spanlith_base::keys::MAX_SEQUENCE;

fn error(record: &[u8]) -> String {
    VersionEdit::decode(record).unwrap_err().to_string()
}

#[test]
fn every_record_of_the_golden_manifests_of_11_8_encodes_to_the_same_bytes() {
    let records = golden_records("golden-11.8");
    assert!(records.len() > 800, "only {} records found", records.len());
    for (path, record) in records {
        let edit = VersionEdit::decode(&record).unwrap_or_else(|e| panic!("{path:?}: {e}"));
        assert_eq!(edit.encode(), record, "{path:?}: {edit:?}");
    }
}

#[test]
fn every_record_of_the_golden_manifests_of_7_8_decodes_and_keeps_its_meaning() {
    let records = golden_records("golden-7.8");
    assert!(records.len() > 300, "only {} records found", records.len());
    let mut files = 0;
    for (path, record) in records {
        let edit = VersionEdit::decode(&record).unwrap_or_else(|e| panic!("{path:?}: {e}"));
        // Epoch numbers did not exist, and file checksums were written without a function.
        assert!(edit.new_files.iter().all(|f| f.epoch_number == 0));
        files += edit.new_files.len();
        let mut again = VersionEdit::decode(&edit.encode()).unwrap();
        for (new, old) in again.new_files.iter_mut().zip(&edit.new_files) {
            assert!(new.file_checksum == old.file_checksum || old.file_checksum.is_empty());
        }
        assert_eq!(again, edit, "{path:?}");
    }
    assert!(files > 200, "only {files} files found");
}

#[test]
fn every_field_survives_the_way_to_bytes_and_back() {
    let edit = full_edit();
    let bytes = edit.encode();
    assert_eq!(VersionEdit::decode(&bytes).unwrap(), edit);
    assert_eq!(VersionEdit::decode(&bytes).unwrap().encode(), bytes);
    assert_eq!(VersionEdit::decode(b"").unwrap(), VersionEdit::new());
    assert!(VersionEdit::new().encode().is_empty());
    // The smallest log number is repeated in the first file only: custom tag 3, eight bytes.
    let hack = [3, 8, 7, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(bytes.windows(hack.len()).filter(|w| *w == hack).count(), 1);
}

#[test]
fn deleted_files_are_written_in_order_and_once() {
    let mut edit = VersionEdit::new();
    for (level, number) in [(2, 7), (0, 9), (2, 7), (0, 3)] {
        edit.delete_file(level, number);
    }
    let written = [6, 0, 3, 6, 0, 9, 6, 2, 7];
    assert_eq!(edit.encode(), written);
    let read = VersionEdit::decode(&written).unwrap();
    assert_eq!(read.deleted_files, [(0, 3), (0, 9), (2, 7)]);
}

#[test]
fn a_flush_of_7_8_reads_as_documented() {
    let mut record = vec![0x02, 0x08, 0x09, 0x00, 0x03, 0x0a, 0x04, 0xc9, 0x01, 0x67];
    record.extend([0x00, 0x09, 0xa1, 0x44, 0x10]);
    record.extend(b"key00000\x01\x01\0\0\0\0\0\0");
    record.push(0x10);
    record.extend(b"key00199\x01\xc8\0\0\0\0\0\0");
    record.extend([0x01, 0xc9, 0x01]);
    record.extend([0x05, 0x05, 1, 0, 0, 0, 0, 0x06, 0x05, 2, 0, 0, 0, 0]);
    record.extend(b"\x07\x00\x08\x07Unknown\x0c\x10");
    record.extend((0..16).collect::<Vec<u8>>());
    record.push(0x01);
    let edit = VersionEdit::decode(&record).unwrap();
    assert_eq!(edit.log_number, Some(8));
    assert_eq!(edit.next_file_number, Some(10));
    assert_eq!(edit.last_sequence, Some(201));
    assert_eq!(edit.largest_seqno_of_new_files(), 201);
    let [file] = &edit.new_files[..] else {
        panic!("one file")
    };
    assert_eq!((file.level, file.number, file.size), (0, 9, 8737));
    assert_eq!(&file.smallest[..8], b"key00000");
    assert_eq!((file.smallest_seqno, file.largest_seqno), (1, 201));
    assert_eq!(file.file_checksum_func_name, UNKNOWN_CHECKSUM_FUNCTION);
    assert_eq!(
        file.unique_id,
        [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908]
    );
}

#[test]
fn the_three_older_forms_of_a_new_file_are_read() {
    let key = b"\x09kkkkkkkkk";
    let mut v1 = vec![7, 1, 5, 100];
    v1.extend([&key[..], key].concat());
    let mut v2 = v1.clone();
    v2[0] = 100;
    v2.extend([3, 4]);
    let mut v3 = vec![102, 1, 5, 2, 100];
    v3.extend(&v2[4..]);
    let expected = NewFile {
        level: 1,
        number: 5,
        size: 100,
        smallest: key[1..].to_vec(),
        largest: key[1..].to_vec(),
        ..NewFile::default()
    };
    let read = |record: &[u8]| VersionEdit::decode(record).unwrap().new_files.remove(0);
    assert_eq!(read(&v1), expected);
    let with_seqnos = NewFile {
        smallest_seqno: 3,
        largest_seqno: 4,
        ..expected
    };
    assert_eq!(read(&v2), with_seqnos);
    assert_eq!(
        read(&v3),
        NewFile {
            path_id: 2,
            ..with_seqnos
        }
    );
    v3[3] = 4;
    assert_eq!(
        error(&v3),
        "Corruption: VersionEdit: new-file3 entry: path_id=4"
    );
    for record in [v1, v2] {
        for cut in 1..record.len() {
            assert!(
                error(&record[..cut]).contains("VersionEdit: new-file"),
                "cut at {cut}"
            );
        }
    }
}

#[test]
fn the_old_forms_of_blob_and_log_records_have_no_length() {
    // 8194, 8195, 8196, 8197 as varints.
    let record = [
        &[0x82, 0x40, 7, 2, 50, 0, 0, 0][..],
        &[0x83, 0x40, 7, 1, 20, 0],
        &[0x84, 0x40, 4, 2, 99, 1],
        &[0x85, 0x40, 4],
    ]
    .concat();
    let edit = VersionEdit::decode(&record).unwrap();
    assert_eq!(edit.blob_file_additions[0].total_bytes, 50);
    assert_eq!(edit.blob_file_garbages[0].bytes, 20);
    assert_eq!(
        edit.wal_additions,
        [WalAddition {
            number: 4,
            synced_size: Some(99)
        }]
    );
    assert_eq!(edit.wal_deletion, Some(4));
}

#[test]
fn unknown_fields_are_skipped_only_where_that_is_allowed() {
    // Tag 9092 has bit 8192; 500 has not.
    let skippable = [0x84, 0x47, 5, 1, 2, 3, 4, 5, 2, 8];
    assert_eq!(VersionEdit::decode(&skippable).unwrap().log_number, Some(8));
    let unknown = error(&[0xf4, 0x03, 1, 0]);
    assert_eq!(unknown, "Corruption: VersionEdit: unknown tag: tag=500");

    let with_custom = |tag: u8| {
        let mut edit = VersionEdit::new();
        edit.add_file(file());
        let mut record = edit.encode();
        assert_eq!(record.pop(), Some(1), "the terminator is last");
        record.extend([tag, 1, 0, 1]);
        record
    };
    let skipped = VersionEdit::decode(&with_custom(40)).unwrap();
    assert_eq!(skipped.new_files, [file()]);
    assert_eq!(
        error(&with_custom(70)),
        "Corruption: VersionEdit: new-file4 custom field not supported: tag=70"
    );
    // Blob records: tag 3 is skipped, tag 64 is not.
    let blob = |tag: u8| [0x91, 0x03, 7, 1, 20, tag, 1, 0, 0];
    assert_eq!(
        VersionEdit::decode(&blob(3))
            .unwrap()
            .blob_file_garbages
            .len(),
        1
    );
    assert!(error(&blob(64)).contains("forward incompatible custom field=64"));
}

#[test]
fn fields_of_the_wrong_size_are_corruption() {
    let with = |tag: u8, value: &[u8]| {
        let mut edit = VersionEdit::new();
        edit.add_file(file());
        let mut record = edit.encode();
        record.pop();
        record.push(tag);
        record.push(u8::try_from(value.len()).unwrap());
        record.extend(value);
        record.push(1);
        VersionEdit::decode(&record)
    };
    let cases: [(u8, &[u8], &str); 9] = [
        (2, &[], "need_compaction field wrong size"),
        (3, &[1; 7], "invalid min log number to keep"),
        (4, &[], "invalid oldest blob file number"),
        (5, &[0x80], "invalid oldest ancester time"),
        (9, &[1, 2], "temperature field wrong size"),
        (12, &[0; 15], "invalid unique id"),
        (13, &[], "invalid epoch number"),
        (65, &[0, 0], "path_id field wrong size"),
        (65, &[4], "path_id wrong value: path_id=4"),
    ];
    for (tag, value, text) in cases {
        let e = with(tag, value).unwrap_err().to_string();
        assert_eq!(e, format!("Corruption: VersionEdit: {text}"));
    }
    assert_eq!(with(65, &[3]).unwrap().new_files[0].path_id, 3);
    assert!(
        error(&[6, 0x80, 0x80, 0x80, 0x80, 0x08, 1]).contains("deleted file"),
        "level 2^31"
    );
    assert!(
        error(&[5, 1, 7, 0, 0, 0, 0, 0, 0, 0]).contains("compaction cursor"),
        "short key"
    );
    assert!(
        error(&[0x89, 0x40, 2, 0, 0]).contains("wrong size"),
        "two bytes for a flag"
    );
    assert!(error(&[0x80]).contains("invalid tag"));
}

#[test]
fn damaged_records_end_in_an_edit_or_corruption() {
    let bytes = full_edit().encode();
    for cut in 0..bytes.len() {
        let _ = VersionEdit::decode(&bytes[..cut]);
    }
    let mut rng = Rng::new(seed(test_name!()));
    for _ in 0..20_000 {
        let mut damaged = bytes.clone();
        for _ in 0..rng.between(1, 4) {
            let at = rng.index(damaged.len());
            damaged[at] = rng.next_u64().to_le_bytes()[0];
        }
        if let Ok(edit) = VersionEdit::decode(&damaged) {
            // An edit that is understood can be written down and is understood the same way.
            let again = VersionEdit::decode(&edit.encode()).unwrap();
            assert_eq!(again.new_files.len(), edit.new_files.len());
        }
    }
}
