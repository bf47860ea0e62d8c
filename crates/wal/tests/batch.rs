//! Write batches: bytes, limits, save points, every tag, and bytes that are no batch.

use spanlith_testkit::{Rng, seed, test_name, unhex};
use spanlith_wal::{BATCH_HEADER_SIZE, BatchIter, BatchOp, PrepareKind, WriteBatch};

fn ops(rep: &[u8]) -> Vec<BatchOp<'_>> {
    BatchIter::new(rep).unwrap().map(Result::unwrap).collect()
}

fn error(rep: &[u8]) -> String {
    let all: Result<Vec<_>, _> = match BatchIter::new(rep) {
        Ok(iter) => iter.collect(),
        Err(e) => Err(e),
    };
    let text = all.map(|ops| format!("{ops:?}")).unwrap_err().to_string();
    assert_eq!(WriteBatch::from_bytes(rep).unwrap_err().to_string(), text);
    text
}

/// A header with `count`, then entries in hexadecimal.
fn rep(count: u32, entries: &str) -> Vec<u8> {
    let mut rep = vec![0; 8];
    rep.extend_from_slice(&count.to_le_bytes());
    rep.extend(unhex(&entries.replace(' ', "")).unwrap());
    rep
}

#[test]
fn entries_have_rocksdbs_bytes() {
    let mut b = WriteBatch::new();
    b.put(b"c", b"3").unwrap();
    b.delete(b"a").unwrap();
    b.put_log_data(b"log-data-blob").unwrap();
    b.merge(b"m", b"x").unwrap();
    b.merge(b"m", b"y").unwrap();
    b.single_delete(b"b").unwrap();
    b.delete_range(b"r1", b"r5").unwrap();
    b.set_sequence(3);
    let want = "0300000000000000 06000000 01016301 33 000161 030d6c6f672d646174612d626c6f62 \
                02016d0178 02016d0179 070162 0f0272310272 35";
    assert_eq!(Some(b.as_bytes().to_vec()), unhex(&want.replace(' ', "")));
    assert_eq!((b.count(), b.sequence(), b.data_size()), (6, 3, 12 + 43));

    let mut b = WriteBatch::new();
    b.put_cf(1, b"k", b"v").unwrap();
    b.delete_cf(300, b"k").unwrap();
    b.merge_cf(u32::MAX, b"k", b"").unwrap();
    b.single_delete_cf(2, b"").unwrap();
    b.delete_range_cf(3, b"a", b"b").unwrap();
    let want = "05 01 016b 0176  04 ac02 016b  06 ffffffff0f 016b 00  08 02 00  0e 03 0161 0162";
    assert_eq!(b.as_bytes(), rep(5, want));
    let cfs: Vec<_> = ops(b.as_bytes()).iter().map(BatchOp::cf).collect();
    assert_eq!(cfs, [Some(1), Some(300), Some(u32::MAX), Some(2), Some(3)]);
}

#[test]
fn every_tag_is_decoded() {
    let (k, v) = (&b"k"[..], &b"vv"[..]);
    for (hex, want, counted) in [
        ("00 016b", BatchOp::Delete { cf: 0, key: k }, 1),
        (
            "01 016b 027676",
            BatchOp::Put {
                cf: 0,
                key: k,
                value: v,
            },
            1,
        ),
        (
            "02 016b 027676",
            BatchOp::Merge {
                cf: 0,
                key: k,
                value: v,
            },
            1,
        ),
        ("03 027676", BatchOp::LogData { blob: v }, 0),
        ("04 09 016b", BatchOp::Delete { cf: 9, key: k }, 1),
        (
            "05 09 016b 027676",
            BatchOp::Put {
                cf: 9,
                key: k,
                value: v,
            },
            1,
        ),
        (
            "05 00 016b 027676",
            BatchOp::Put {
                cf: 0,
                key: k,
                value: v,
            },
            1,
        ),
        (
            "06 09 016b 027676",
            BatchOp::Merge {
                cf: 9,
                key: k,
                value: v,
            },
            1,
        ),
        ("07 016b", BatchOp::SingleDelete { cf: 0, key: k }, 1),
        ("08 09 016b", BatchOp::SingleDelete { cf: 9, key: k }, 1),
        ("09", BatchOp::BeginPrepare(PrepareKind::Committed), 0),
        ("0a 027676", BatchOp::EndPrepare { xid: v }, 0),
        ("0b 027676", BatchOp::Commit { xid: v }, 0),
        ("0c 027676", BatchOp::Rollback { xid: v }, 0),
        ("0d", BatchOp::Noop, 0),
        (
            "0e 09 016b 027676",
            BatchOp::DeleteRange {
                cf: 9,
                begin: k,
                end: v,
            },
            1,
        ),
        (
            "0f 016b 027676",
            BatchOp::DeleteRange {
                cf: 0,
                begin: k,
                end: v,
            },
            1,
        ),
        (
            "10 09 016b 027676",
            BatchOp::BlobIndex {
                cf: 9,
                key: k,
                index: v,
            },
            1,
        ),
        (
            "11 016b 027676",
            BatchOp::BlobIndex {
                cf: 0,
                key: k,
                index: v,
            },
            1,
        ),
        ("12", BatchOp::BeginPrepare(PrepareKind::Prepared), 0),
        ("13", BatchOp::BeginPrepare(PrepareKind::Unprepared), 0),
        (
            "15 016b 027676",
            BatchOp::CommitWithTimestamp { ts: k, xid: v },
            0,
        ),
        (
            "16 016b 027676",
            BatchOp::WideColumnEntity {
                cf: 0,
                key: k,
                entity: v,
            },
            1,
        ),
        (
            "17 09 016b 027676",
            BatchOp::WideColumnEntity {
                cf: 9,
                key: k,
                entity: v,
            },
            1,
        ),
        (
            "18 016b 027676",
            BatchOp::ValuePreferredSeqno {
                cf: 0,
                key: k,
                value: v,
            },
            1,
        ),
        (
            "19 09 016b 027676",
            BatchOp::ValuePreferredSeqno {
                cf: 9,
                key: k,
                value: v,
            },
            1,
        ),
    ] {
        let bytes = rep(counted, hex);
        assert_eq!(ops(&bytes), [want], "{hex}");
        assert_eq!(u32::from(want.is_counted()), counted);
        // Cut anywhere, it is an error that names the entry.
        for cut in BATCH_HEADER_SIZE + 1..bytes.len() {
            let text = error(&bytes[..cut]);
            assert!(text.starts_with("Corruption: bad "), "{hex} {cut} {text}");
        }
    }
}

#[test]
fn what_is_no_batch_is_refused_with_rocksdbs_text() {
    for len in 0..BATCH_HEADER_SIZE {
        assert_eq!(
            error(&vec![0; len]),
            "Corruption: malformed WriteBatch (too small)"
        );
    }
    for tag in (0x14..=0x14u32).chain(0x1a..=0xff) {
        let text = error(&rep(1, &format!("{tag:02x} 016b 0176")));
        let printed = if tag < 0x80 { tag } else { tag + 0xffff_ff00 };
        let want = format!("Corruption: unknown WriteBatch tag: {printed}");
        assert_eq!(text, want);
    }
    for (count, entries) in [(2, "01 016b 0176"), (0, "01 016b 0176"), (1, "0d"), (7, "")] {
        let text = error(&rep(count, entries));
        assert!(
            text.starts_with("Corruption: WriteBatch has wrong count: count="),
            "{text}"
        );
    }
    for (entries, want) in [
        ("01 056b", "bad WriteBatch Put"),
        ("01 016b 05 76", "bad WriteBatch Put"),
        ("01 808080808001", "bad WriteBatch Put"),
        ("05 ffffffffffff", "bad WriteBatch Put"),
        ("00 02 6b", "bad WriteBatch Delete"),
        ("03 05", "bad WriteBatch Blob"),
        ("0a", "bad EndPrepare XID"),
    ] {
        assert_eq!(error(&rep(1, entries)), format!("Corruption: {want}"));
    }
    // After an error the walk is over.
    let bytes = rep(1, "14 00");
    let mut iter = BatchIter::new(&bytes).unwrap();
    assert!(iter.next().unwrap().is_err());
    assert!(iter.next().is_none());
    // Parts of a batch have no count to compare.
    let mut part = BatchIter::entries(&bytes[BATCH_HEADER_SIZE..BATCH_HEADER_SIZE]);
    assert!(part.next().is_none());
}

#[test]
fn lengths_of_one_and_two_and_more_bytes_are_read_alike() {
    for len in [0, 1, 127, 128, 129, 16_383, 16_384, 100_000] {
        let value = vec![7u8; len];
        let key = vec![8u8; len];
        let mut b = WriteBatch::new();
        b.put(b"k", &value).unwrap();
        b.put(&key, b"v").unwrap();
        b.delete(&key).unwrap();
        assert_eq!(
            ops(b.as_bytes()),
            [
                BatchOp::Put {
                    cf: 0,
                    key: b"k",
                    value: &value
                },
                BatchOp::Put {
                    cf: 0,
                    key: &key,
                    value: b"v"
                },
                BatchOp::Delete { cf: 0, key: &key },
            ]
        );
    }
}

#[test]
fn flags_follow_the_contents_and_are_found_again_in_bytes() {
    let mut b = WriteBatch::new();
    assert!(b.flags().is_plain() && b.is_empty());
    b.put(b"a", b"").unwrap();
    b.delete(b"a").unwrap();
    b.single_delete(b"a").unwrap();
    b.put_log_data(b"").unwrap();
    assert!(b.has_put() && b.has_delete() && b.has_single_delete() && b.has_log_data());
    assert!(b.flags().is_plain() && !b.has_merge());
    b.set_save_point();
    b.merge(b"a", b"").unwrap();
    b.delete_range(b"a", b"b").unwrap();
    assert!(b.has_merge() && b.has_delete_range() && !b.flags().is_plain());
    let again = WriteBatch::from_bytes(b.as_bytes()).unwrap();
    assert_eq!((again.flags(), &again), (b.flags(), &b));
    assert_eq!(WriteBatch::from_rep(b.as_bytes()).flags(), b.flags());
    b.rollback_to_save_point().unwrap();
    assert!(b.flags().is_plain());
    let other = WriteBatch::from_bytes(rep(3, "11 016b 00 16 016b 00 18 016b 00 0b 00")).unwrap();
    assert!(other.has_blob_index() && other.has_wide_column_entity());
    assert!(other.has_value_preferred_seqno() && other.has_two_phase() && !other.has_put());
}

#[test]
fn save_points_nest_and_truncate() {
    let mut b = WriteBatch::new();
    assert_eq!(
        b.rollback_to_save_point().unwrap_err().rocksdb_text(),
        "NotFound: "
    );
    assert_eq!(b.pop_save_point().unwrap_err().rocksdb_text(), "NotFound: ");
    b.put(b"a", b"1").unwrap();
    let one = b.clone();
    b.set_save_point();
    b.put(b"b", b"2").unwrap();
    let two = b.clone();
    b.set_save_point();
    b.delete(b"c").unwrap();
    b.rollback_to_save_point().unwrap();
    assert_eq!(b, two);
    b.set_save_point();
    b.pop_save_point().unwrap();
    b.rollback_to_save_point().unwrap();
    assert_eq!((&b, b.count()), (&one, 1));
    b.set_save_point();
    b.clear();
    assert!(b.rollback_to_save_point().is_err());
    assert_eq!(b, WriteBatch::new());
}

#[test]
fn a_batch_at_its_limit_takes_the_entry_back() {
    let mut b = WriteBatch::with_limits(0, 20);
    b.put(b"k", b"v").unwrap();
    let before = b.clone();
    for result in [b.put(b"k", b"v"), b.put_log_data(b"vvv"), b.append(&before)] {
        let text = result.unwrap_err().to_string();
        assert_eq!(text, "Operation aborted: Memory limit reached");
    }
    assert_eq!((&b, b.has_log_data()), (&before, false));
    b.delete(b"k").unwrap();
    b.set_size_max(0);
    b.append(&before).unwrap();
    assert_eq!((b.count(), ops(b.as_bytes()).len()), (3, 3));
    b.reserve(100);
}

#[test]
fn bytes_taken_as_they_are_show_their_damage_when_walked() {
    let b = WriteBatch::from_rep(&b"short"[..]);
    assert_eq!((b.data_size(), b.count()), (12, 0));
    let b = WriteBatch::from_rep(rep(2, "01 016b 0176 ff"));
    assert!(b.has_put());
    assert_eq!(b.iter().unwrap().filter(Result::is_err).count(), 1);
    assert_eq!(b.iter().unwrap().header_count(), 2);
}

#[test]
fn random_bytes_never_panic_and_sound_ones_come_back() {
    let mut rng = Rng::new(seed(test_name!()));
    for _ in 0..20_000 {
        let len = rng.index(60);
        let mut bytes = rng.bytes(len);
        for b in &mut bytes {
            // Small numbers are tags and lengths.
            if rng.chance(2, 3) {
                *b &= 0x1f;
            }
        }
        let mut count = 0u64;
        let mut entries = Vec::new();
        let mut iter = BatchIter::entries(&bytes);
        while let Some(Ok(op)) = iter.next() {
            count += u64::from(op.is_counted());
            entries.push(op);
        }
        assert!(entries.len() <= bytes.len());
        assert_eq!(iter.found(), count);
        let _ = WriteBatch::from_bytes(&bytes[..]);
        let _ = WriteBatch::from_rep(&bytes[..]);
    }
}
