//! Writer and reader against each other: block ends, damage, metadata records, random logs.

mod support;

use spanlith_base::CompressionType;
use spanlith_base::checksum::{crc32c, mask};
use spanlith_env::{FileSystem, IoActivity, MemFs};
use spanlith_testkit::{Rng, seed, test_name};
use spanlith_wal::record::{BLOCK_SIZE, HEADER_SIZE};
use spanlith_wal::{CorruptionKind, LogOptions, LogReader, LogWriter, ReadEvent};
use std::path::Path;
use support::{MemFile, Source, events, records};

/// A physical record of any type, with a good checksum.
fn physical(record_type: u8, number: Option<u32>, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![0; 4];
    out.extend_from_slice(&(payload.len() as u16).to_le_bytes());
    out.push(record_type);
    out.extend_from_slice(
        &number.map(u32::to_le_bytes).unwrap_or_default()[..number.map_or(0, |_| 4)],
    );
    out.extend_from_slice(payload);
    let crc = mask(crc32c(&out[6..]));
    out[..4].copy_from_slice(&crc.to_le_bytes());
    out
}

fn payload(n: usize, len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + n * 7 + 1) as u8).collect()
}

#[test]
fn a_record_that_ends_anywhere_near_the_end_of_a_block_comes_back() {
    for first in BLOCK_SIZE - 40..BLOCK_SIZE + 40 {
        for second in [0, 1, 30, BLOCK_SIZE - 7, BLOCK_SIZE, 2 * BLOCK_SIZE] {
            let file = MemFile::default();
            let mut writer = file.writer();
            let wrote = [payload(1, first), payload(2, second), payload(3, 5)];
            for p in &wrote {
                writer.add_record(p).unwrap();
            }
            assert_eq!(file.0.lock().unwrap().appends, 3, "one append per record");
            let read: Vec<_> = records(&file.bytes(), 1).into_iter().map(|r| r.2).collect();
            assert_eq!(read, wrote, "{first} {second}");
        }
    }
}

#[test]
fn parts_are_written_as_their_concatenation_would_be() {
    let mut rng = Rng::new(seed(test_name!()));
    for _ in 0..300 {
        let parts: Vec<Vec<u8>> = (0..rng.below(6))
            .map(|n| payload(n as usize, rng.skewed(70_000) as usize))
            .collect();
        let (whole, pieces) = (MemFile::default(), MemFile::default());
        let start = payload(9, rng.index(BLOCK_SIZE));
        let (mut a, mut b) = (whole.writer(), pieces.writer());
        a.add_record(&start).unwrap();
        b.add_record(&start).unwrap();
        a.add_record(&parts.concat()).unwrap();
        b.add_record_parts(&parts.iter().map(Vec::as_slice).collect::<Vec<_>>())
            .unwrap();
        assert_eq!(whole.bytes(), pieces.bytes());
    }
}

#[test]
fn a_huge_record_goes_out_in_bounded_appends() {
    let file = MemFile::default();
    let big = payload(1, 10 << 20);
    let mut writer = file.writer();
    writer.add_record(b"before").unwrap();
    writer.add_record(&big).unwrap();
    writer.add_record(b"after").unwrap();
    assert_eq!(file.0.lock().unwrap().appends, 2 + 10);
    let read: Vec<_> = records(&file.bytes(), 1).into_iter().map(|r| r.2).collect();
    assert_eq!(read, [b"before".to_vec(), big, b"after".to_vec()]);
}

#[test]
fn a_writer_goes_on_where_a_file_ends() {
    let (once, twice) = (MemFile::default(), MemFile::default());
    let mut writer = once.writer();
    for n in 0..20 {
        let p = payload(n, n * 1717);
        writer.add_record(&p).unwrap();
        twice.writer().add_record(&p).unwrap();
    }
    assert_eq!(once.bytes(), twice.bytes());
}

#[test]
fn a_sync_covers_what_was_added_before_it() {
    let file = MemFile::default();
    let mut writer = file.writer();
    assert!(writer.is_synced() && writer.is_empty());
    writer.add_record(b"x").unwrap();
    assert!(!writer.is_synced());
    writer.sync().unwrap();
    assert!(writer.is_synced());
    assert_eq!(
        (writer.synced_len(), writer.len(), writer.log_number()),
        (8, 8, 1)
    );
    writer.add_record(b"yy").unwrap();
    assert_eq!((writer.synced_len(), writer.is_synced()), (8, false));
    writer.close().unwrap();
}

#[test]
fn after_a_failed_append_nothing_more_is_logged() {
    let file = MemFile::default();
    file.0.lock().unwrap().fail_at = Some(2);
    let mut writer = file.writer();
    writer.add_record(b"kept").unwrap();
    for _ in 0..2 {
        assert_eq!(
            writer.add_record(b"lost").unwrap_err().to_string(),
            "IO error: no space"
        );
        assert!(writer.add_record_parts(&[&[0; 100_000]]).is_err());
    }
    assert!(writer.sync().is_err());
    assert_eq!((writer.synced_len(), writer.is_synced()), (0, false));
    assert_eq!(records(&file.bytes(), 1).len(), 1);
}

#[test]
fn metadata_records_are_events() {
    let mut log = Vec::new();
    let mut info = Vec::new();
    for n in [3u64, 1234, 99] {
        info.extend_from_slice(&n.to_le_bytes());
    }
    log.extend(physical(130, None, &info));
    log.extend(physical(131, Some(7), &info[..23]));
    log.extend(physical(10, None, &[5, 0, 0, 0, 8, 0, 9, 0, 0, 0, 16, 0]));
    log.extend(physical(10, None, &[5, 0, 0, 0, 8, 0]));
    log.extend(physical(11, Some(7), &[6, 0, 0, 0, 0, 0]));
    log.extend(physical(10, None, &[6, 0, 0, 0, 0]));
    log.extend(physical(1, None, b"data"));
    log.extend(physical(9, None, &[7, 0, 0, 0]));
    log.extend(physical(9, None, &[7]));
    let (found, other) = events(LogReader::new(Source::boxed(log), 7));
    assert_eq!(found.len(), 1);
    let kinds: Vec<_> = other
        .iter()
        .filter_map(|e| match e {
            ReadEvent::Corruption {
                kind, tail: false, ..
            } => Some(*kind),
            _ => None,
        })
        .collect();
    let predecessor = ReadEvent::Predecessor {
        log_number: 3,
        size: 1234,
        last_sequence: 99,
    };
    assert_eq!(other[0], predecessor);
    assert_eq!(other[2], ReadEvent::TimestampSizes(vec![(5, 8), (9, 16)]));
    assert_eq!(
        kinds,
        [
            CorruptionKind::BadPredecessor,
            CorruptionKind::RepeatedTimestampSize,
            CorruptionKind::ZeroTimestampSize,
            CorruptionKind::BadTimestampSizes,
            CorruptionKind::CompressionNotFirst,
            CorruptionKind::BadCompressionRecord,
        ]
    );
}

#[test]
fn a_codec_that_logs_do_not_use_is_refused_by_name() {
    let log = physical(9, None, &[4, 0, 0, 0]);
    let mut reader = LogReader::new(Source::boxed(log), 7);
    let text = reader.next_event().unwrap_err().to_string();
    let want = "Not implemented: wal_compression other than ZSTD: offset=0 type=4";
    assert_eq!(text, want);
    assert_eq!(reader.next_event().unwrap_err().to_string(), text);
}

#[test]
fn fragments_on_both_sides_of_a_foreign_record_are_not_joined() {
    // First, then something else, then Last: no record may come out of it.
    for (between, want) in [
        (
            physical(10, None, &[1, 0, 0, 0, 8, 0]),
            CorruptionKind::TimestampSizesInside,
        ),
        (physical(200, None, b"?"), CorruptionKind::ErrorInMiddle),
        (physical(77, None, b"?"), CorruptionKind::UnknownType(77)),
        (
            physical(2, None, b"other"),
            CorruptionKind::PartialBeforeFirst,
        ),
        (
            physical(1, None, b"other"),
            CorruptionKind::PartialBeforeFull,
        ),
    ] {
        let log = [
            physical(2, None, b"one"),
            between,
            physical(4, None, b"two"),
        ]
        .concat();
        let (found, other) = events(LogReader::new(Source::boxed(log), 7));
        assert!(found.iter().all(|r| r.2 != b"onetwo"), "{want}");
        let ReadEvent::Corruption {
            kind, tail: false, ..
        } = other[0]
        else {
            panic!()
        };
        assert_eq!(kind, want);
    }
}

#[test]
fn an_empty_first_fragment_before_a_whole_record_is_forgotten() {
    // Old writers left one at the end of a block.
    let log = [physical(2, None, b""), physical(1, None, b"x")].concat();
    let (found, other) = events(LogReader::new(Source::boxed(log), 7));
    assert_eq!((found.len(), other), (1, vec![]));
}

#[test]
fn old_bytes_inside_a_fragmented_record_end_the_log() {
    let log = [physical(6, Some(7), b"one"), physical(8, Some(6), b"two")].concat();
    let mut reader = LogReader::new(Source::boxed(log), 7);
    let first = reader.next_event().unwrap();
    let want = "error reading trailing data due to encountering old record";
    assert!(
        matches!(first, ReadEvent::Corruption { kind, tail: true, .. } if kind.to_string() == want)
    );
    assert!(matches!(
        reader.next_event().unwrap(),
        ReadEvent::OldRecord { .. }
    ));
    assert_eq!(reader.next_event().unwrap(), ReadEvent::Eof);
}

#[test]
fn a_length_past_its_block_costs_the_block_only() {
    let file = MemFile::default();
    let mut writer = file.writer();
    for n in 0..100 {
        writer.add_record(&payload(n, 1000)).unwrap();
    }
    let mut bytes = file.bytes();
    bytes[4..6].copy_from_slice(&[0xff, 0xff]);
    let (found, other) = events(LogReader::new(Source::boxed(bytes), 1));
    let want = ReadEvent::Corruption {
        offset: 0,
        dropped: BLOCK_SIZE as u64,
        kind: CorruptionKind::BadLength,
        tail: false,
    };
    assert_eq!(other[0], want);
    assert!(CorruptionKind::BadLength.ends_recycled());
    assert!(found.len() > 60 && found[0].0 > BLOCK_SIZE as u64);
}

#[test]
fn a_read_error_is_final_and_not_the_end_of_the_log() {
    let file = MemFile::default();
    let mut writer = file.writer();
    for n in 0..100 {
        writer.add_record(&payload(n, 1000)).unwrap();
    }
    let mut source = Source::new(file.bytes());
    source.fail_at = Some(2 * BLOCK_SIZE);
    let mut reader = LogReader::new(Box::new(source), 1);
    let mut read = 0;
    let error = loop {
        match reader.next_event() {
            Ok(ReadEvent::Record { .. }) => read += 1,
            Ok(other) => panic!("{other:?}"),
            Err(e) => break e,
        }
    };
    assert_eq!(
        (read, error.to_string().as_str()),
        (65, "IO error: bad sector")
    );
    assert!(reader.next_event().is_err());
}

#[test]
fn short_reads_change_nothing() {
    let file = MemFile::default();
    let mut writer = file.writer();
    for n in 0..40 {
        writer.add_record(&payload(n, n * 200)).unwrap();
    }
    let whole = records(&file.bytes(), 1);
    for piece in [1, 7, 1000, BLOCK_SIZE - 1] {
        let mut source = Source::new(file.bytes());
        source.piece = piece;
        let (found, other) = events(LogReader::new(Box::new(source), 1));
        assert_eq!((found, other), (whole.clone(), vec![]));
    }
}

/// Random records, some of many blocks.
fn random_log(rng: &mut Rng) -> (Vec<u8>, Vec<Vec<u8>>) {
    let file = MemFile::default();
    let mut writer = file.writer();
    let mut wrote = Vec::new();
    for n in 0..rng.below(60) {
        let len = match rng.below(10) {
            0 => rng.index(3 * BLOCK_SIZE),
            // Up to the end of the block, more or less.
            1 => {
                let room = BLOCK_SIZE - (writer.len() as usize % BLOCK_SIZE);
                room.saturating_sub(rng.index(2 * HEADER_SIZE + 2))
            }
            _ => rng.index(300),
        };
        // The number makes every record different from every other.
        let mut record = rng.bytes(len);
        record.extend_from_slice(&n.to_le_bytes());
        writer.add_record(&record).unwrap();
        wrote.push(record);
    }
    (file.bytes(), wrote)
}

#[test]
fn random_logs_come_back_and_a_cut_leaves_a_prefix() {
    let mut rng = Rng::new(seed(test_name!()));
    for _ in 0..200 {
        let (bytes, wrote) = random_log(&mut rng);
        let whole = records(&bytes, 1);
        assert!(whole.iter().map(|r| &r.2).eq(&wrote));
        for _ in 0..20 {
            let cut = rng.index(bytes.len() + 1);
            let (found, other) = events(LogReader::new(Source::boxed(&bytes[..cut]), 1));
            // Exactly the records that are whole.
            let expected = whole.iter().filter(|r| r.1 <= cut as u64).count();
            assert_eq!(found, whole[..expected]);
            let ended = expected == 0 || found.last().is_some_and(|r| r.1 == cut as u64);
            for event in &other {
                assert!(
                    matches!(event, ReadEvent::Corruption { tail: true, .. }),
                    "{event:?}"
                );
            }
            if ended && cut > 0 && expected > 0 {
                assert_eq!(other, []);
            }
        }
    }
}

#[test]
fn damage_never_invents_a_record() {
    let mut rng = Rng::new(seed(test_name!()));
    for round in 0..400 {
        let (mut bytes, wrote) = random_log(&mut rng);
        if bytes.is_empty() {
            continue;
        }
        for _ in 0..=rng.below(3) {
            let at = rng.index(bytes.len());
            match rng.below(5) {
                0 => bytes[at] ^= 1 << rng.below(8),
                1 => {
                    let end = (at + rng.index(5000)).min(bytes.len());
                    bytes[at..end].fill(0);
                }
                2 => {
                    let end = (at + rng.index(100)).min(bytes.len());
                    rng.fill(&mut bytes[at..end]);
                }
                3 => bytes.extend(vec![rng.next_u64() as u8; at % 300]),
                _ => bytes.truncate(at.max(1)),
            }
        }
        let (found, _) = events(LogReader::new(Source::boxed(bytes), 1));
        // A subsequence of what was written, whole and in order.
        let mut rest = wrote.iter();
        for (_, _, record) in &found {
            assert!(
                rest.any(|w| w == record),
                "round {round}: a record that was never written"
            );
        }
    }
}

#[test]
fn random_bytes_end_in_bounded_steps() {
    let mut rng = Rng::new(seed(test_name!()));
    for _ in 0..2000 {
        let mut bytes = match rng.below(3) {
            0 => {
                let len = rng.index(3 * BLOCK_SIZE);
                rng.bytes(len)
            }
            1 => {
                let len = rng.index(200);
                rng.bytes(len)
            }
            _ => Vec::new(),
        };
        // Physical records of random types with good checksums, in random order.
        for _ in 0..rng.below(40) {
            let record_type = *rng.pick(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 130, 131, 200]);
            let number =
                matches!(record_type, 5..=8 | 11 | 131).then(|| if rng.one_in(4) { 2 } else { 1 });
            let len = *rng.pick(&[0, 1, 4, 6, 12, 24, 100]);
            let payload = rng.bytes(len);
            bytes.extend(physical(record_type, number, &payload));
        }
        let limit = 2 * (bytes.len() / HEADER_SIZE) + 8;
        let mut reader = LogReader::new(Source::boxed(bytes), 1);
        let mut position = 0;
        for step in 0.. {
            assert!(step <= limit, "more events than records");
            match reader.next_event() {
                Ok(ReadEvent::Eof) | Err(_) => break,
                Ok(_) => {}
            }
            assert!(reader.position() >= position);
            position = reader.position();
        }
    }
}

#[test]
fn records_have_a_longest_length_below_at_and_above() {
    // Two fragments at least: what one block holds needs no room of its own.
    let payload = vec![7u8; 100_000];
    let fs = MemFs::new();
    let path = Path::new("/log");
    let mut log = LogWriter::new(fs.create(path, IoActivity::Wal).unwrap(), 3);
    log.add_record(&payload).unwrap();
    log.add_record(b"behind").unwrap();
    for (most, fits) in [
        (100_001, true),
        (100_000, true),
        (99_999, false),
        (1, false),
    ] {
        let file = fs.open_sequential(path).unwrap();
        let mut reader = LogReader::new(file, 3).with_record_max(most);
        match reader.next_event().unwrap() {
            ReadEvent::Record { .. } => assert!(fits, "{most}"),
            ReadEvent::Corruption { kind, .. } => {
                assert!(!fits && kind == CorruptionKind::TooLarge, "{most}: {kind}");
            }
            other => panic!("{other:?}"),
        }
        // Reading goes on after it.
        let mut last = Vec::new();
        loop {
            match reader.next_event().unwrap() {
                ReadEvent::Record { .. } => last = reader.record().to_vec(),
                ReadEvent::Eof => break,
                _ => {}
            }
        }
        assert_eq!(last, b"behind", "{most}");
    }
}

#[test]
fn a_log_that_is_read_while_it_grows_gives_every_record_once_wherever_it_was_cut() {
    let lens = [5, BLOCK_SIZE - 60, 3, 80_000, 0, 9];
    let forms = [
        LogOptions::default(),
        LogOptions {
            recyclable: true,
            ..LogOptions::default()
        },
        LogOptions {
            compression: CompressionType::Zstd,
            ..LogOptions::default()
        },
    ];
    for options in forms {
        let file = MemFile::default();
        let mut writer = file.writer_with(1, options);
        let mut rng = Rng::new(seed(test_name!()));
        // Noise, so that compressed records run over blocks, too.
        let wrote = lens.map(|len| rng.bytes(len));
        for payload in &wrote {
            writer.add_record(payload).unwrap();
        }
        let bytes = file.bytes();
        for cut in (0..bytes.len()).filter(|n| n % 997 == 0 || n % BLOCK_SIZE < 90) {
            let mut reader = LogReader::new(Source::boxed(&bytes[..cut]), 1);
            let (mut found, mut read_to, mut is_whole) = (Vec::new(), 0, false);
            loop {
                match reader.next_event().unwrap() {
                    ReadEvent::Record { end, .. } => {
                        found.push(reader.record().to_vec());
                        read_to = end;
                    }
                    ReadEvent::Eof if is_whole => break,
                    _ if is_whole => panic!("cut at {cut}"),
                    _ if read_to == 0 => {
                        is_whole = true;
                        reader = LogReader::new(Source::boxed(&bytes[..]), 1);
                    }
                    _ => {
                        is_whole = true;
                        let from = LogReader::block_of(read_to) as usize;
                        let rest = Source::boxed(&bytes[from..]);
                        reader.read_on(rest, read_to).unwrap();
                    }
                }
            }
            assert!(found == wrote, "cut at {cut}");
        }
    }
}
