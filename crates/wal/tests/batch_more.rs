//! Write batches: markers, timestamps, and the entries that milestone 1 did not write.

use spanlith_base::ErrorKind;
use spanlith_testkit::unhex;
use spanlith_wal::{
    BatchIter, BatchOp, PrepareKind, WriteBatch, reconcile_timestamps, verify_checksums,
};

fn ops(batch: &WriteBatch) -> Vec<BatchOp<'_>> {
    batch.iter().unwrap().map(Result::unwrap).collect()
}

fn body(batch: &WriteBatch, hex: &str) {
    assert_eq!(
        Some(batch.body().to_vec()),
        unhex(&hex.replace(' ', "")),
        "{hex}"
    );
    let again = WriteBatch::from_bytes(batch.as_bytes()).unwrap();
    assert_eq!(again.flags(), batch.flags());
}

#[test]
fn entities_blob_references_and_timed_puts_have_rocksdbs_bytes() {
    let mut b = WriteBatch::new();
    b.put_entity_cf(0, b"k", b"\x01\x00").unwrap();
    b.put_entity_cf(5, b"k", b"\x01\x00").unwrap();
    b.put_blob_index_cf(0, b"k", b"i").unwrap();
    b.put_blob_index_cf(5, b"k", b"i").unwrap();
    b.timed_put_cf(0, b"k", b"v", 258).unwrap();
    b.timed_put_cf(5, b"k", b"v", 258).unwrap();
    let want = "16 016b 020100  17 05 016b 020100  11 016b 0169  10 05 016b 0169 \
                18 016b 09760201000000000000  19 05 016b 09760201000000000000";
    body(&b, want);
    assert_eq!(b.count(), 6);
    assert!(b.has_wide_column_entity() && b.has_blob_index());
    assert!(b.has_value_preferred_seqno() && !b.has_two_phase());
}

#[test]
fn a_batch_that_begins_with_a_noop_becomes_a_prepared_section() {
    for (kind, tag, unprepared) in [
        (PrepareKind::Committed, "09", false),
        (PrepareKind::Prepared, "12", false),
        (PrepareKind::Unprepared, "13", true),
    ] {
        let mut b = WriteBatch::new();
        b.mark_noop();
        b.put(b"k", b"v").unwrap();
        b.set_save_point();
        assert!(!b.has_two_phase());
        b.mark_prepared(b"x1", kind).unwrap();
        body(&b, &format!("{tag} 01 016b 0176 0a 027831"));
        assert_eq!((b.count(), b.has_end_prepare()), (1, true));
        assert_eq!(
            (b.has_begin_prepare(), b.has_begin_unprepare()),
            (!unprepared, unprepared)
        );
        assert!(b.rollback_to_save_point().is_err());
    }
    let mut b = WriteBatch::new();
    for _ in 0..2 {
        let text = b.mark_prepared(b"x", PrepareKind::Committed).unwrap_err();
        let want = "Invalid argument: a batch to be prepared begins with a no-op";
        assert_eq!(text.to_string(), want);
        b.put(b"k", b"v").unwrap();
    }
}

#[test]
fn decisions_are_markers_without_count() {
    let mut b = WriteBatch::new();
    b.mark_commit(b"x1").unwrap();
    assert!(b.has_commit() && !b.has_rollback());
    b.mark_rollback(b"x2").unwrap();
    b.mark_commit_with_timestamp(b"x3", b"12345678").unwrap();
    body(&b, "0b 027831  0c 027832  15 083132333435363738 027833");
    assert_eq!(b.count(), 0);
    assert!(b.has_commit() && b.has_rollback() && b.has_two_phase());
    assert!(b.mark_commit_with_timestamp(b"x", b"").is_err());
}

#[test]
fn what_stands_behind_the_end_of_the_log_is_applied_only() {
    let mut b = WriteBatch::new();
    b.mark_commit(b"x").unwrap();
    assert!(!b.ends_log_early() && b.log_part() == (b.body(), 0));
    b.end_log_here();
    b.put(b"k", b"v").unwrap();
    assert!(b.ends_log_early());
    assert_eq!(b.log_part(), (&b"\x0b\x01x"[..], 0));
    assert_eq!((b.count(), ops(&b).len()), (1, 2));
    let mut log = WriteBatch::new();
    log.delete(b"a").unwrap();
    log.append_log_part(&b).unwrap();
    body(&log, "00 0161 0b 0178");
    assert!(log.has_delete() && log.has_commit() && !log.has_put());
    let mut all = WriteBatch::new();
    all.append(&b).unwrap();
    assert!(all.has_put() && all.count() == 1);
    b.clear();
    assert!(!b.ends_log_early());
}

#[test]
fn timestamps_stand_behind_keys_and_are_overwritten_in_place() {
    let ts = b"TTTTTTTT";
    let mut b = WriteBatch::new();
    b.put_cf_at(1, b"k", &[0; 8], b"v").unwrap();
    b.delete_cf_at(1, b"k", &[0; 8]).unwrap();
    b.single_delete_cf_at(1, b"k", &[0; 8]).unwrap();
    b.merge_cf_at(1, b"k", &[0; 8], b"m").unwrap();
    b.delete_range_cf_at(1, b"a", b"b", &[0; 8]).unwrap();
    b.put_cf(2, b"untouched", b"v").unwrap();
    b.put_log_data(b"note").unwrap();
    let sizes = |cf: u32| -> Option<usize> { (cf <= 2).then_some(if cf == 1 { 8 } else { 0 }) };
    let before = b.clone();
    b.update_timestamps(ts, sizes).unwrap();
    let want = [
        BatchOp::Put {
            cf: 1,
            key: b"kTTTTTTTT",
            value: b"v",
        },
        BatchOp::Delete {
            cf: 1,
            key: b"kTTTTTTTT",
        },
        BatchOp::SingleDelete {
            cf: 1,
            key: b"kTTTTTTTT",
        },
        BatchOp::Merge {
            cf: 1,
            key: b"kTTTTTTTT",
            value: b"m",
        },
        BatchOp::DeleteRange {
            cf: 1,
            begin: b"aTTTTTTTT",
            end: b"bTTTTTTTT",
        },
        BatchOp::Put {
            cf: 2,
            key: b"untouched",
            value: b"v",
        },
        BatchOp::LogData { blob: b"note" },
    ];
    assert_eq!(ops(&b), want);

    for (ts, sizes, text) in [
        (
            &b"short"[..],
            &(|_| Some(8usize)) as &dyn Fn(u32) -> Option<usize>,
            "Invalid argument: timestamp size mismatch",
        ),
        // The families may be any, or one may be unknown.
        (b"", &|_| Some(8), "Invalid argument: Timestamp is empty"),
        (b"", &|_| Some(0), "Invalid argument: Timestamp is empty"),
        (b"", &|_| None, "Invalid argument: Timestamp is empty"),
        (b"TTTTTTTT", &|_| None, "NotFound: "),
        (
            b"TTTTTTTTTTTTTTTT",
            &|_| Some(16),
            "Corruption: key is shorter than its timestamp",
        ),
    ] {
        let mut c = before.clone();
        assert_eq!(
            c.update_timestamps(ts, sizes).unwrap_err().rocksdb_text(),
            text
        );
        assert_eq!(c, before);
    }
}

#[test]
fn batches_of_a_log_are_brought_to_the_sizes_of_today() {
    let mut b = WriteBatch::new();
    b.set_sequence(9);
    b.put_cf_at(1, b"k", b"12345678", b"v").unwrap();
    b.put_cf(2, b"k", b"v").unwrap();
    b.put_log_data(b"note").unwrap();
    b.delete_range_cf_at(1, b"a", b"b", b"12345678").unwrap();
    b.put_cf(3, b"dropped", b"v").unwrap();
    b.timed_put_cf(2, b"t", b"v", 1).unwrap();
    let rep = b.as_bytes();
    let recorded = |cf| (cf == 1).then_some(8usize);
    // As it was: nothing to do.
    let same = reconcile_timestamps(rep, recorded, |cf| Some(if cf == 1 { 8 } else { 0 }));
    assert_eq!(same.unwrap(), None);
    // Family 1 lost its timestamps, family 2 got them, family 3 is gone.
    let running = |cf| match cf {
        1 => Some(0usize),
        2 => Some(4),
        _ => None,
    };
    let changed = reconcile_timestamps(rep, recorded, running)
        .unwrap()
        .unwrap();
    let mut want = WriteBatch::new();
    want.set_sequence(9);
    want.put_cf(1, b"k", b"v").unwrap();
    want.put_cf(2, b"k\0\0\0\0", b"v").unwrap();
    want.put_log_data(b"note").unwrap();
    want.delete_range_cf(1, b"a", b"b").unwrap();
    want.put_cf(3, b"dropped", b"v").unwrap();
    want.timed_put_cf(2, b"t\0\0\0\0", b"v", 1).unwrap();
    assert_eq!(changed, want);
    assert_eq!(changed.flags(), want.flags());
    assert_eq!(
        BatchIter::new(changed.as_bytes()).unwrap().header_count(),
        5
    );

    let text = reconcile_timestamps(rep, recorded, |_| Some(4)).unwrap_err();
    let want = "Invalid argument: WriteBatch contains unrecoverable timestamp size inconsistency.";
    assert_eq!(text.to_string(), want);
    let text = reconcile_timestamps(rep, |_| Some(100), |_| Some(0)).unwrap_err();
    assert_eq!(
        text.to_string(),
        "Corruption: key is shorter than its timestamp"
    );
}

#[test]
fn a_protected_batch_notices_that_its_bytes_changed() {
    let mut b = WriteBatch::new();
    b.put(b"before", b"1").unwrap();
    b.protect().unwrap();
    b.put_cf(3, b"key", b"value").unwrap();
    b.delete(b"gone").unwrap();
    b.single_delete_cf(3, b"once").unwrap();
    b.merge(b"key", b"operand").unwrap();
    b.delete_range(b"a", b"b").unwrap();
    b.put_entity_cf(0, b"k", b"\x01\x00").unwrap();
    b.put_blob_index_cf(0, b"k", b"i").unwrap();
    b.timed_put_cf(5, b"k", b"v", 258).unwrap();
    b.put_log_data(b"note").unwrap();
    assert_eq!(b.checksums().len(), 9);
    verify_checksums(b.body(), b.checksums()).unwrap();
    // Every bit but those of the note, which is not counted, and of its tag and length.
    let note = b"note".len() + 2;
    let mut body = b.body().to_vec();
    for bit in 0..(body.len() - note) * 8 {
        body[bit / 8] ^= 1 << (bit % 8);
        let error = verify_checksums(&body, b.checksums()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "bit {bit}");
        body[bit / 8] ^= 1 << (bit % 8);
    }
}

#[test]
fn checksums_follow_the_changes_of_a_batch() {
    let check = |b: &WriteBatch, count: usize| {
        assert_eq!(b.checksums().len(), count);
        verify_checksums(b.body(), b.checksums()).unwrap();
    };
    let mut other = WriteBatch::new();
    other.put_cf(1, b"o", b"v").unwrap();
    let mut b = WriteBatch::new();
    b.protect().unwrap();
    b.put(b"k", b"v").unwrap();
    b.set_save_point();
    b.append(&other).unwrap();
    check(&b, 2);
    other.protect().unwrap();
    b.append(&other).unwrap();
    check(&b, 3);
    b.rollback_to_save_point().unwrap();
    check(&b, 1);
    let mut limited = WriteBatch::with_limits(0, 30);
    limited.protect().unwrap();
    limited.put(b"k", b"v").unwrap();
    limited.put(b"k", &[0; 30]).unwrap_err();
    check(&limited, 1);
    b.clear();
    b.put_cf_at(0, b"k", &[1; 8], b"v").unwrap();
    b.update_timestamps(&[2; 8], |_| Some(8)).unwrap();
    check(&b, 1);
    assert!(b.is_protected());
    assert!(WriteBatch::from_rep(b.as_bytes()).checksums().is_empty());
}
