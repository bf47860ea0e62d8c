//! Traces of RocksDB 7.8.3 (`fixtures/trace`), and what is left of them when they are cut or changed.

use super::*;
use spanlith_base::{ErrorKind, Result};
use spanlith_env::SequentialFile;
use spanlith_testkit::fixtures_dir;

/// Bytes as a file that gives out few at a time.
struct Bytes(Vec<u8>, usize);

impl SequentialFile for Bytes {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        let rest = &self.0[self.1..];
        let n = rest.len().min(buf.len()).min(100);
        buf[..n].copy_from_slice(&rest[..n]);
        self.1 += n;
        Ok(n)
    }
}

fn reader(bytes: &[u8]) -> TraceReader {
    TraceReader::new(Box::new(Bytes(bytes.to_vec(), 0)))
}

fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(fixtures_dir().join("trace").join(name)).unwrap()
}

/// Header and records of a trace as text.
fn lines(bytes: &[u8]) -> Result<Vec<String>> {
    let mut reader = reader(bytes);
    let mut header = None;
    let mut lines = Vec::new();
    while let Some(record) = reader.next_record()? {
        let line = match header {
            None => format!("{:?}", header.insert(TraceHeader::from_record(&record)?)),
            Some(header) => format!("{} {:?}", record.timestamp, header.decode(&record)?),
        };
        lines.push(line);
    }
    Ok(lines)
}

fn text(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

/// A record, taken apart and written as the list of vectors writes it.
fn described(record: &TraceRecord<'_>) -> String {
    let bound = |b: &Option<&[u8]>| b.map_or("-".to_string(), text);
    match record {
        TraceRecord::End => "end".to_string(),
        TraceRecord::Query(Query::Write { batch }) => {
            let ops = spanlith_wal::BatchIter::new(batch).unwrap();
            let ops: Vec<_> = ops
                .map(|op| {
                    use spanlith_wal::BatchOp as O;
                    match op.unwrap() {
                        O::Put { cf, key, value } => {
                            format!("put {cf} {} {}", text(key), text(value))
                        }
                        O::Delete { cf, key } => format!("delete {cf} {}", text(key)),
                        O::SingleDelete { cf, key } => format!("single {cf} {}", text(key)),
                        O::DeleteRange { cf, begin, end } => {
                            format!("range {cf} {} {}", text(begin), text(end))
                        }
                        O::LogData { blob } => format!("log {}", text(blob)),
                        other => panic!("not in the fixture: {other:?}"),
                    }
                })
                .collect();
            format!("write [{}]", ops.join(", "))
        }
        TraceRecord::Query(Query::Get { cf, key }) => format!("get {cf} {}", text(key)),
        TraceRecord::Query(Query::MultiGet(keys)) => {
            let all: Vec<_> = keys
                .iter()
                .map(|(cf, k)| format!("{cf} {}", text(k)))
                .collect();
            assert_eq!(all.len(), keys.len());
            format!("multi_get [{}]", all.join(", "))
        }
        TraceRecord::Query(Query::Seek {
            backward,
            cf,
            key,
            lower,
            upper,
        }) => {
            let name = if *backward { "seek_for_prev" } else { "seek" };
            format!(
                "{name} {cf} {} {} {}",
                text(key),
                bound(lower),
                bound(upper)
            )
        }
        other => format!("{other:?}"),
    }
}

#[test]
fn a_trace_of_queries_reads_as_rocksdb_wrote_it() {
    let bytes = fixture("query.trace");
    let mut reader = reader(&bytes);
    let header = TraceHeader::from_record(&reader.next_record().unwrap().unwrap()).unwrap();
    assert_eq!(
        header,
        TraceHeader {
            timestamp: 1795215346336657,
            rocksdb: (7, 8),
            form: TraceForm::Queries { version: (0, 2) }
        }
    );
    let mut found = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        let what = described(&header.decode(&record).unwrap());
        found.push((record.timestamp - header.timestamp, what));
    }
    let expected = [
        (34, "write [put 0 a 1]"),
        (889, "write [put 1 b 22]"),
        (902, "write [delete 0 nosuch]"),
        (910, "write [single 1 zz]"),
        (917, "write [range 0 r1 r2]"),
        (929, "write [put 0 c 333, put 1 d 4444, delete 0 e, log ld]"),
        (940, "get 0 a"),
        (1003, "get 1 missing"),
        (1023, "multi_get [0 a, 0 c, 1 x]"),
        (1068, "seek 0 b a d"),
        (1105, "seek_for_prev 0 c a d"),
        (1130, "seek 0 a a d"),
        (1143, "seek 1 d - -"),
        (1144, "seek_for_prev 1 a - -"),
        (1149, "end"),
    ];
    let found: Vec<_> = found.iter().map(|(t, s)| (*t, s.as_str())).collect();
    assert_eq!(found, expected);
    assert_eq!(reader.torn(), None);
    assert_eq!(reader.position(), bytes.len() as u64);
}

#[test]
fn a_trace_of_blocks_reads_as_rocksdb_wrote_it() {
    let bytes = fixture("blockcache.trace");
    let mut reader = reader(&bytes);
    let header = TraceHeader::from_record(&reader.next_record().unwrap().unwrap()).unwrap();
    assert_eq!(header.form, TraceForm::Accesses);
    assert_eq!(
        (header.timestamp, header.rocksdb),
        (1795215346548936, (7, 8))
    );
    let mut found = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        let TraceRecord::Block(block) = header.decode(&record).unwrap() else {
            panic!("not a block");
        };
        assert_eq!((block.block, block.size), (TracedBlock::Data, 608));
        assert_eq!(
            (block.cf, block.cf_name, block.level),
            (0, &b"default"[..], 0)
        );
        assert_eq!((block.file, block.no_insert), (11, false));
        assert_eq!(block.key[..8], *b"\x86\x9b\xa8\x5a\x6d\xad\x9f\x22");
        let reference = block.reference.map(|r| {
            assert!(!r.from_snapshot);
            (r.get_id, text(r.internal_key), r.found.unwrap())
        });
        found.push((
            record.timestamp - header.timestamp,
            block.caller.name(),
            block.is_hit,
            reference,
        ));
    }
    let get = |at, hit, id, key: &str, found| (at, "get", hit, Some((id, key.to_string(), found)));
    assert_eq!(
        found[0],
        get(
            118,
            false,
            1,
            "key005\\x01\\x06\\x00\\x00\\x00\\x00\\x00\\x00",
            (64, 16, true)
        )
    );
    assert_eq!(
        found[1],
        get(
            136,
            true,
            2,
            "key006\\x01\\x07\\x00\\x00\\x00\\x00\\x00\\x00",
            (64, 16, true)
        )
    );
    assert_eq!(
        found[2],
        get(
            139,
            true,
            3,
            "key0055\\x16d\\x00\\x00\\x00\\x00\\x00\\x00",
            (0, 16, false)
        )
    );
    assert_eq!(found[4], (227, "iterator", false, None));
    assert_eq!(
        found[5],
        get(
            243,
            true,
            4,
            "key001\\x01\\x02\\x00\\x00\\x00\\x00\\x00\\x00",
            (64, 16, true)
        )
    );
    assert_eq!(found.len(), 7);
}

#[test]
fn a_trace_of_calls_reads_as_rocksdb_wrote_it() {
    let bytes = fixture("io.trace");
    let mut reader = reader(&bytes);
    let header = TraceHeader::from_record(&reader.next_record().unwrap().unwrap()).unwrap();
    let mut found = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        let TraceRecord::Call(call) = header.decode(&record).unwrap() else {
            panic!("not a call");
        };
        assert_eq!((call.status, call.request_id), (&b"OK"[..], None));
        found.push((
            record.timestamp,
            text(call.operation),
            call.latency,
            text(call.file_name),
            (call.file_size, call.length, call.offset),
        ));
    }
    let call = |at, name: &str, latency, file: &str, numbers| {
        (at, name.to_string(), latency, file.to_string(), numbers)
    };
    assert_eq!(found.len(), 25);
    assert_eq!(
        found[0],
        call(
            4609257416231,
            "GetFileSize",
            121,
            "000004.log",
            (Some(0), None, None)
        )
    );
    assert_eq!(
        found[1],
        call(
            4609257441312,
            "Append",
            3733,
            "000004.log",
            (None, Some(25), None)
        )
    );
    assert_eq!(
        found[2],
        call(
            4609257499515,
            "GetFileSize",
            35,
            "000004.log",
            (Some(25), None, None)
        )
    );
    assert_eq!(
        found[3],
        call(
            4609257500792,
            "Append",
            783,
            "000004.log",
            (None, Some(25), None)
        )
    );
    assert_eq!(
        found[23],
        call(
            4609328167837,
            "Close",
            3929988,
            "000004.log",
            (None, None, None)
        )
    );
    assert_eq!(
        found[24],
        call(
            4609336388827,
            "Read",
            2993,
            "000011.sst",
            (None, Some(60), Some(0))
        )
    );
}

/// Traces of 11.8.1 have the same form.
#[test]
fn traces_of_the_newer_release_read_the_same() {
    let bytes = fixture("query-11.8.trace");
    let mut reader = reader(&bytes);
    let header = TraceHeader::from_record(&reader.next_record().unwrap().unwrap()).unwrap();
    assert_eq!(header.rocksdb, (11, 8));
    let mut found = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        let decoded = header.decode(&record).unwrap();
        match decoded {
            // These are kinds that the other test does not print.
            TraceRecord::Query(Query::Write { batch }) if found.len() == 6 => {
                assert!(batch.ends_with(b"\x03sum\x08\x01\0\0\0\0\0\0\0"));
                found.push("merge".to_string());
            }
            _ => found.push(described(&decoded)),
        }
    }
    let expected = [
        "write [put 0 key0 ]",
        "write [put 1 key1 v]",
        "write [put 0 key2 vv]",
        "write [put 1 key3 vvv]",
        "write [put 0 key4 vvvv]",
        "write [put 1 key5 vvvvv]",
        "merge",
        "write [delete 0 key0]",
        "write [single 1 key1]",
        "write [range 0 a b]",
        "get 0 key2",
        "get 0 nosuch",
        "multi_get [0 key2, 1 key3, 0 x]",
        "seek 0 key1 - key9",
        "seek_for_prev 0 key7 - key9",
        "seek_for_prev 0 key9 - key9",
        "write [log note]",
        "end",
    ];
    assert_eq!(found, expected);
    let blocks = lines(&fixture("blockcache-11.8.trace")).unwrap();
    let of = |what: &str| blocks.iter().filter(|l| l.contains(what)).count();
    assert_eq!(
        (blocks.len(), of("RangeDeletions"), of("get_id: ")),
        (6, 1, 3)
    );
    let calls = lines(&fixture("io-11.8.trace")).unwrap();
    assert_eq!(calls.len(), 39);
    assert!(calls.iter().skip(1).all(|l| l.contains(" Call(FileCall")));
}

/// A trace whose process died ends anywhere: what is whole before that is read, and where it tore is said.
#[test]
fn a_trace_cut_anywhere_gives_the_records_before() {
    for name in ["query.trace", "blockcache.trace", "io.trace"] {
        let bytes = fixture(name);
        let whole = lines(&bytes).unwrap();
        let mut starts = Vec::new();
        let mut all = reader(&bytes);
        while let Some(record) = all.next_record().unwrap() {
            starts.push(record.offset as usize);
        }
        for cut in 0..bytes.len() {
            let records = starts.iter().skip(1).filter(|&&s| s <= cut).count();
            assert_eq!(
                lines(&bytes[..cut]).unwrap(),
                whole[..records],
                "{name} cut at {cut}"
            );
            let mut cut_reader = reader(&bytes[..cut]);
            while cut_reader.next_record().unwrap().is_some() {}
            let last = starts.iter().copied().filter(|&s| s <= cut).max().unwrap();
            let torn = (cut > last).then_some(TornTrace {
                offset: last as u64,
                bytes: (cut - last) as u64,
            });
            assert_eq!(cut_reader.torn(), torn, "{name} cut at {cut}");
        }
    }
}

/// R-REL hostile input: no byte makes a reader panic, and what is refused is refused as damage.
#[test]
fn a_trace_with_any_byte_changed_reads_or_is_damaged() {
    let mut refused = 0;
    for name in ["query.trace", "blockcache.trace", "io.trace"] {
        let bytes = fixture(name);
        for at in 0..bytes.len() {
            for change in [0x01, 0x80, 0xff] {
                let mut changed = bytes.clone();
                changed[at] ^= change;
                if let Err(e) = lines(&changed) {
                    assert_eq!(e.kind(), ErrorKind::Corruption, "{name} at {at}: {e}");
                    refused += 1;
                }
            }
        }
    }
    assert!(refused > 1000, "{refused}");
}

#[test]
fn a_record_that_claims_four_gigabytes_costs_no_memory() {
    let mut bytes = fixture("query.trace");
    bytes[9..13].copy_from_slice(&u32::MAX.to_le_bytes());
    let mut reader = reader(&bytes);
    assert_eq!(reader.next_record().unwrap(), None);
    assert_eq!(
        reader.torn(),
        Some(TornTrace {
            offset: 0,
            bytes: 627
        })
    );
    assert!(reader.memory() < 1 << 20);
}

fn record(kind: u8, payload: &[u8]) -> RawRecord<'_> {
    RawRecord {
        offset: 7,
        timestamp: 1,
        kind,
        payload,
    }
}

#[test]
fn records_of_the_first_version_are_bare() {
    let head = b"feedcafedeadbeef\tTrace Version: 0.1\tRocksDB Version: 6.8\tFormat: x\n";
    let header = TraceHeader::from_record(&record(kinds::BEGIN, head)).unwrap();
    assert_eq!(header.form, TraceForm::Queries { version: (0, 1) });
    let decode = |kind, payload| header.decode(&record(kind, payload));
    assert_eq!(
        decode(kinds::GET, b"\x05\0\0\0\x02ab").unwrap(),
        TraceRecord::Query(Query::Get { cf: 5, key: b"ab" })
    );
    assert_eq!(
        decode(kinds::WRITE, b"batch").unwrap(),
        TraceRecord::Query(Query::Write { batch: b"batch" })
    );
    assert!(matches!(
        decode(kinds::SEEK_FOR_PREV, b"\0\0\0\0\0"),
        Ok(TraceRecord::Query(Query::Seek { backward: true, .. }))
    ));
    for (kind, payload) in [
        (kinds::GET, &b"\x05\0\0\0\x03ab"[..]),
        (kinds::GET, b"\x05\0\0\0\x02abc"),
        (kinds::GET, b"\x05\0\0"),
        (kinds::MULTI_GET, b""),
    ] {
        let e = decode(kind, payload).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Corruption);
        assert!(e.to_string().contains("offset"), "{e}");
    }
}

#[test]
fn what_is_no_header_is_refused_in_the_words_of_rocksdb() {
    for (kind, payload, text) in [
        (kinds::GET, &b"feedcafedeadbeef"[..], "Incorrect header."),
        (kinds::BEGIN, b"feedcafedeadbee", "Incorrect magic."),
        (kinds::BEGIN, b"", "Incorrect magic."),
        (
            kinds::BEGIN,
            b"\x10feedcafedeadbeeg\x07\0\0\0\x08\0\0\0",
            "Incorrect magic.",
        ),
        (
            kinds::BEGIN,
            b"feedcafedeadbeef\tTrace Version: 0.2\n",
            "Incorrect header.",
        ),
        (
            kinds::BEGIN,
            b"feedcafedeadbeef\tTrace Version: x.2\tRocksDB Version: 7.8\n",
            "Incorrect header.",
        ),
    ] {
        let e = TraceHeader::from_record(&record(kind, payload)).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Corruption);
        assert!(
            e.to_string()
                .contains(&format!("Corrupted trace file. {text}")),
            "{e}"
        );
    }
}

#[test]
fn members_that_do_not_fit_are_damage() {
    let header = TraceHeader {
        timestamp: 0,
        rocksdb: (11, 8),
        form: TraceForm::Queries { version: (0, 2) },
    };
    for (kind, payload, why) in [
        (
            kinds::GET,
            &b"\x0c\0\0\0\0\0\0\0\0\0\0\0\x01"[..],
            "key beyond the end",
        ),
        (kinds::GET, b"\x04\0\0\0\0\0\0\0\0\0\0\0", "no key"),
        (
            kinds::GET,
            b"\x0c\x08\0\0\0\0\0\0\0\0\0\0\x01k",
            "a member that no release knows",
        ),
        (
            kinds::GET,
            b"\x0d\0\0\0\0\0\0\0\0\0\0\0\x01k",
            "the bit that is never set",
        ),
        (
            kinds::GET,
            b"\x0c\0\0\0\0\0\0\0\0\0\0\0\x01kk",
            "bytes behind",
        ),
        (
            kinds::MULTI_GET,
            b"\0\x07\0\0\0\0\0\0\xff\xff\xff\xff\x04\0\0\0\0\x02\x01k",
            "four billion keys",
        ),
        (
            kinds::MULTI_GET,
            b"\0\x07\0\0\0\0\0\0\x01\0\0\0\x04\0\0\0\0\x03\x01kk",
            "keys behind the last",
        ),
        (
            kinds::MULTI_GET,
            b"\0\x07\0\0\0\0\0\0\x02\0\0\0\x08\0\0\0\0\0\0\0\0\x02\x01k",
            "one key of two",
        ),
    ] {
        let e = header.decode(&record(kind, payload)).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Corruption, "{why}");
    }
    let other = header.decode(&record(kinds::FILE_CALL, b"")).unwrap();
    assert_eq!(other, TraceRecord::Unknown(kinds::FILE_CALL));
}
