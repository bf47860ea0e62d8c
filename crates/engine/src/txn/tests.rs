//! A batch over a database reads as the database does after the batch was written.

use super::{IndexedBatch, Overlay, OverlayParts};
use crate::db::{Cf, Db, FamilyOptions};
use crate::merge::operator_by_name;
use crate::options::CfOptions;
use crate::read::ReadOptions;
use crate::write::WriteOptions;
use spanlith_base::{Comparator, ErrorKind};
use spanlith_env::{Env, ManualExecutor, MemFs, SeededRng, VirtualClock};
use std::sync::Arc;

fn open(order: Comparator) -> Db {
    let env = Env {
        fs: Arc::new(MemFs::new()),
        clock: Arc::new(VirtualClock::new()),
        executor: Arc::new(ManualExecutor::new()),
        rng: Arc::new(SeededRng::new(1)),
    };
    let family = FamilyOptions::new("default")
        .options(CfOptions::default())
        .comparator(order)
        .merge_operator(operator_by_name("stringappend").unwrap());
    let builder = Db::builder("/db")
        .env(env)
        .create_if_missing(true)
        .family(family);
    builder.open().unwrap()
}

fn key(rng: &mut spanlith_testkit::Rng) -> Vec<u8> {
    format!("k{:02}", rng.below(30)).into_bytes()
}

fn overlay(cf: &Cf, bounds: &[Option<Vec<u8>>; 2]) -> Overlay {
    let mut options = ReadOptions::default();
    [options.lower, options.upper] = bounds.clone();
    Overlay::new(OverlayParts {
        base: cf.cursor(options),
        cf: Some(cf.clone()),
        order: cf.comparator().clone(),
        lower: bounds[0].clone(),
        upper: bounds[1].clone(),
    })
}

/// Adds an update both to the indexed batch and, when asked, to nothing else.
fn random_update(batch: &mut IndexedBatch, cf: &Cf, rng: &mut spanlith_testkit::Rng) {
    let k = key(rng);
    let value = format!("{}", rng.below(1000));
    match rng.below(5) {
        0 | 1 => batch.put(Some(cf), &k, value.as_bytes()).unwrap(),
        2 => batch.delete(Some(cf), &k).unwrap(),
        _ => batch.merge(Some(cf), &k, value.as_bytes()).unwrap(),
    }
}

#[test]
fn a_batch_over_a_database_reads_as_the_database_after_the_write() {
    let mut rng = spanlith_testkit::Rng::new(spanlith_testkit::seed("batch_over_database"));
    for round in 0..60 {
        let order = match round % 2 {
            0 => Comparator::Bytewise,
            _ => Comparator::ReverseBytewise,
        };
        let (a, b) = (open(order.clone()), open(order));
        let (cf, written) = (a.default_cf(), b.default_cf());
        let mut start = IndexedBatch::new(cf.comparator().clone());
        for _ in 0..rng.below(40) {
            random_update(&mut start, &cf, &mut rng);
        }
        for db in [&a, &b] {
            db.write_raw(start.batch(), &WriteOptions::default())
                .unwrap();
        }
        let mut batch = IndexedBatch::new(cf.comparator().clone());
        for _ in 0..rng.below(30) {
            random_update(&mut batch, &cf, &mut rng);
        }
        if rng.below(2) == 0 {
            batch.set_save_point();
            for _ in 0..10 {
                random_update(&mut batch, &cf, &mut rng);
            }
            batch.rollback_to_save_point().unwrap();
        }
        b.write_raw(batch.batch(), &WriteOptions::default())
            .unwrap();

        let options = ReadOptions::default();
        for n in 0..30 {
            let k = format!("k{n:02}");
            let got = batch.get_over(&cf, k.as_bytes(), &options).unwrap();
            let want = written.get(&k).unwrap();
            assert_eq!(got.as_deref(), want.as_deref(), "round {round}, {k}");
        }
        let mut bounds = [None, None];
        for bound in &mut bounds {
            if rng.below(3) == 0 {
                *bound = Some(key(&mut rng));
            }
        }
        let mut options = ReadOptions::default();
        [options.lower, options.upper] = bounds.clone();
        let mut want = written.cursor(options);
        let mut got = overlay(&cf, &bounds);
        for step in 0..80 {
            let k = key(&mut rng);
            let mut what = rng.below(12);
            if what >= 4 && !want.valid() {
                what %= 4;
            }
            match what {
                0 => {
                    drop(want.seek(&k));
                    got.seek(&batch, &k);
                }
                1 => {
                    drop(want.seek_for_prev(&k));
                    got.seek_for_prev(&batch, &k);
                }
                2 => {
                    drop(want.seek_to_first());
                    got.seek_to_first(&batch);
                }
                3 => {
                    drop(want.seek_to_last());
                    got.seek_to_last(&batch);
                }
                4..8 => {
                    drop(want.next());
                    got.next(&batch);
                }
                _ => {
                    drop(want.prev());
                    got.prev(&batch);
                }
            }
            let here = format!("round {round}, step {step}, move {what}, bounds {bounds:?}");
            assert_eq!(got.status().map_err(|e| e.to_string()), Ok(()), "{here}");
            assert_eq!(got.valid(), want.valid(), "{here}");
            if want.valid() {
                assert_eq!(
                    (got.key(), got.value()),
                    (want.key(), want.value()),
                    "{here}"
                );
            }
        }
    }
}

#[test]
fn operands_without_a_base_are_no_answer_and_need_a_family_with_an_operator() {
    let db = open(Comparator::Bytewise);
    let cf = db.default_cf();
    let mut batch = IndexedBatch::new(Comparator::Bytewise);
    batch.merge(None, b"k", b"1").unwrap();
    let e = batch.get(None, b"k").unwrap_err();
    assert_eq!(e.kind(), ErrorKind::MergeInProgress);
    assert_eq!(e.rocksdb_text(), "Merge in progress: ");
    batch.delete(None, b"k").unwrap();
    batch.merge(None, b"k", b"2").unwrap();
    let e = batch.get(None, b"k").unwrap_err();
    assert_eq!(
        e.to_string(),
        "Invalid argument: Must provide a column family"
    );
    assert_eq!(batch.get(Some(&cf), b"k").unwrap().unwrap(), b"2");
    assert_eq!(batch.get(Some(&cf), b"other").unwrap(), None);
    batch.clear();
    assert!(batch.find(0, b"k").unwrap().is_nothing());
}

#[test]
fn a_handle_of_the_default_family_brings_its_order() {
    let db = open(Comparator::ReverseBytewise);
    let cf = db.default_cf();
    let mut batch = IndexedBatch::new(Comparator::Bytewise);
    batch.put(Some(&cf), b"a", b"1").unwrap();
    batch.put(Some(&cf), b"b", b"2").unwrap();
    let mut iter = overlay(&cf, &[None, None]);
    iter.seek_to_first(&batch);
    assert_eq!(iter.key(), b"b");
    iter.next(&batch);
    assert_eq!(iter.key(), b"a");
}

#[test]
fn a_move_from_nowhere_is_an_error_until_the_next_positioning() {
    let db = open(Comparator::Bytewise);
    let mut batch = IndexedBatch::new(Comparator::Bytewise);
    batch.put(None, b"k", b"v").unwrap();
    let mut iter = overlay(&db.default_cf(), &[None, None]);
    assert!(!iter.valid());
    iter.next(&batch);
    let e = iter.status().unwrap_err();
    assert_eq!(e.to_string(), "Not implemented: Next() on invalid iterator");
    iter.seek_to_first(&batch);
    assert_eq!((iter.key(), iter.value()), (&b"k"[..], &b"v"[..]));
    // Updates made during the walk are seen.
    batch.put(None, b"l", b"w").unwrap();
    iter.next(&batch);
    assert_eq!((iter.key(), iter.value()), (&b"l"[..], &b"w"[..]));
}
