//! Logs that are not of the legacy form: recyclable, compressed, buffered, with metadata.

mod support;

use spanlith_base::CompressionType;
use spanlith_testkit::{Rng, seed, test_name};
use spanlith_wal::record::{BLOCK_SIZE, RECYCLABLE_HEADER_SIZE};
use spanlith_wal::{CorruptionKind, LogOptions, LogReader, ReadEvent};
use support::{MemFile, Source, events, records};

fn forms() -> impl Iterator<Item = LogOptions> + Clone {
    (0..8).map(|n| LogOptions {
        recyclable: n & 1 != 0,
        compression: [CompressionType::None, CompressionType::Zstd][n / 2 % 2],
        buffer_size: [0, 5000][n / 4],
    })
}

fn some_record(rng: &mut Rng, room: usize) -> Vec<u8> {
    let len = match rng.below(10) {
        0 => rng.index(3 * BLOCK_SIZE),
        1 => room.saturating_sub(rng.index(2 * RECYCLABLE_HEADER_SIZE + 2)),
        _ => rng.index(300),
    };
    if rng.below(3) == 0 {
        return vec![rng.next_u64() as u8; len];
    }
    rng.bytes(len)
}

#[test]
fn records_of_every_form_come_back_and_a_cut_leaves_a_prefix() {
    let mut rng = Rng::new(seed(test_name!()));
    for form in forms().cycle().take(80) {
        let file = MemFile::default();
        let mut writer = file.writer_with(9, form);
        let mut wrote = Vec::new();
        for _ in 0..rng.below(40) {
            let record = some_record(&mut rng, BLOCK_SIZE - writer.len() as usize % BLOCK_SIZE);
            if rng.below(2) == 0 {
                writer.add_record(&record).unwrap();
            } else {
                let (a, b) = record.split_at(rng.index(record.len() + 1));
                writer.add_record_parts(&[a, b]).unwrap();
            }
            assert_eq!(writer.len() - writer.buffered(), file.bytes().len() as u64);
            assert!(writer.buffered() <= form.buffer_size as u64);
            wrote.push(record);
        }
        writer.sync().unwrap();
        assert!(writer.is_synced() && writer.buffered() == 0);
        let bytes = file.bytes();
        let whole = records(&bytes, 9);
        assert!(whole.iter().map(|r| &r.2).eq(&wrote), "{form:?}");
        for _ in 0..10 {
            let cut = rng.index(bytes.len() + 1);
            let (found, other) = events(LogReader::new(Source::boxed(&bytes[..cut]), 9));
            let expected = whole.iter().filter(|r| r.1 <= cut as u64).count();
            assert_eq!(found, whole[..expected]);
            for event in &other {
                assert!(
                    matches!(event, ReadEvent::Corruption { tail: true, .. }),
                    "{event:?}"
                );
            }
        }
    }
}

#[test]
fn damage_of_a_compressed_log_never_invents_a_record() {
    let mut rng = Rng::new(seed(test_name!()));
    for form in forms().cycle().take(200) {
        let file = MemFile::default();
        let mut writer = file.writer_with(9, form);
        let mut wrote = Vec::new();
        for n in 0..rng.below(30) {
            let mut record = some_record(&mut rng, 500);
            record.extend_from_slice(&n.to_le_bytes());
            writer.add_record(&record).unwrap();
            wrote.push(record);
        }
        writer.flush().unwrap();
        let mut bytes = file.bytes();
        for _ in 0..=rng.below(2) {
            if !bytes.is_empty() {
                let at = rng.index(bytes.len());
                bytes[at] ^= 1 << rng.below(8);
            }
        }
        let mut reader = LogReader::new(Source::boxed(bytes), 9);
        let mut rest = wrote.iter();
        // A damaged name of the codec is an error.
        while let Ok(event) = reader.next_event() {
            match event {
                ReadEvent::Record { .. } => {
                    assert!(rest.any(|w| w == reader.record()), "{form:?}");
                }
                ReadEvent::Eof => break,
                _ => {}
            }
        }
    }
}

#[test]
fn the_new_records_of_a_recycled_file_come_back_and_the_old_ones_do_not() {
    let mut rng = Rng::new(seed(test_name!()));
    let form = LogOptions {
        recyclable: true,
        ..LogOptions::default()
    };
    for _ in 0..200 {
        let (old, new) = (MemFile::default(), MemFile::default());
        let (mut before, mut after) = (old.writer_with(3, form), new.writer_with(5, form));
        let mut wrote = Vec::new();
        for _ in 0..40 {
            before.add_record(&some_record(&mut rng, 500)).unwrap();
        }
        for _ in 0..rng.below(30) {
            let record = some_record(&mut rng, 500);
            after.add_record(&record).unwrap();
            wrote.push(record);
        }
        // The new log lies over the front of the old one.
        let (mut bytes, over) = (old.bytes(), new.bytes());
        let covered = over.len().min(bytes.len());
        bytes.splice(..covered, over.iter().copied());
        let (found, other) = events(LogReader::new(Source::boxed(bytes), 5));
        assert!(found.iter().map(|r| &r.2).eq(&wrote));
        for event in other {
            assert!(
                match &event {
                    ReadEvent::OldRecord { .. } => true,
                    ReadEvent::Corruption { kind, tail, .. } => *tail || kind.ends_recycled(),
                    _ => false,
                },
                "{event:?}"
            );
        }
    }
}

#[test]
fn compression_begins_with_the_first_record_and_is_named_once() {
    let form = LogOptions {
        compression: CompressionType::Zstd,
        ..LogOptions::default()
    };
    let file = MemFile::default();
    file.writer_with(1, form);
    assert_eq!(file.bytes()[6..], [9, 7, 0, 0, 0]);
    let name = file.bytes();
    let (_, other) = events(LogReader::new(
        Source::boxed([&name[..], &name].concat()),
        1,
    ));
    let twice = |event: &ReadEvent| {
        matches!(
            event,
            ReadEvent::Corruption {
                kind: CorruptionKind::CompressionTwice,
                ..
            }
        )
    };
    assert!(other.len() == 1 && twice(&other[0]), "{other:?}");

    // Sound records whose contents are no frame.
    let plain = MemFile::default();
    plain.writer().add_record(b"not a frame").unwrap();
    plain.writer().add_record(&[0; 40_000]).unwrap();
    let bytes = [&name[..], &plain.bytes()].concat();
    let (found, other) = events(LogReader::new(Source::boxed(bytes), 1));
    assert_eq!(found, []);
    let bad = |event: &ReadEvent| {
        matches!(
            event,
            ReadEvent::Corruption {
                kind: CorruptionKind::BadCompressedData,
                ..
            }
        )
    };
    assert!(bad(&other[0]), "{other:?}");
}

#[test]
fn metadata_is_never_split_and_comes_back_in_every_form() {
    for form in forms() {
        let file = MemFile::default();
        let mut writer = file.writer_with(9, form);
        writer.add_predecessor(7, 1234, 99).unwrap();
        // Up to the last bytes of the block, so that what follows does not fit.
        let mut bytes = vec![0; 1];
        let mut x = 1u32;
        while (writer.len() as usize) < BLOCK_SIZE - 80 {
            x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            bytes[0] = (x >> 24) as u8;
            writer.add_record(&bytes).unwrap();
        }
        let many: Vec<(u32, u16)> = (1..5000).map(|cf| (cf, 8)).collect();
        writer.add_timestamp_sizes(&many).unwrap();
        writer.add_record(b"last").unwrap();
        writer.flush().unwrap();
        let (found, other) = events(LogReader::new(Source::boxed(file.bytes()), 9));
        assert_eq!(found.last().unwrap().2, b"last");
        assert_eq!(
            other[0],
            ReadEvent::Predecessor {
                log_number: 7,
                size: 1234,
                last_sequence: 99
            }
        );
        let sizes: Vec<(u32, u16)> = other[1..]
            .iter()
            .flat_map(|event| match event {
                ReadEvent::TimestampSizes(sizes) => sizes.clone(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(sizes, many);
    }
}

#[test]
fn a_failed_append_of_a_buffered_log_is_repeated() {
    let file = MemFile::default();
    let mut writer = file.writer_with(
        1,
        LogOptions {
            buffer_size: 100,
            ..LogOptions::default()
        },
    );
    writer.add_record(b"x").unwrap();
    assert_eq!(file.bytes().len(), 0);
    writer.sync_written().unwrap();
    assert!(!writer.is_synced());
    file.0.lock().unwrap().fail_at = Some(1);
    assert!(writer.sync().is_err());
    assert!(writer.flush().is_err());
}
