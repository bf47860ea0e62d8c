//! Backward moves over values that are copied and values that stay in their blocks.

use spanlith::options::{BlockBasedTableOptions, CfOptions};
use spanlith::{Cursor, Db, ReadOptions, StringAppend};
use spanlith_env::{Env, MemFs};
use spanlith_testkit::{Rng, seed};
use std::collections::BTreeMap;
use std::sync::Arc;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn open() -> Db {
    let (env, _, _) = Env::test(Arc::new(MemFs::new()), 1);
    let builder = Db::builder("/db").create_if_missing(true).env(env);
    let builder = builder.merge_operator(Arc::new(StringAppend::new(b",")));
    let table = BlockBasedTableOptions::default().block_size(1500u64);
    let builder = builder.table_options(table.no_block_cache(true));
    let options = CfOptions::new().disable_auto_compactions(true);
    builder.cf_options(options).no_info_log().open().unwrap()
}

/// One write, to the database and to the model.
fn write(db: &Db, model: &mut Model, rng: &mut Rng) {
    let cf = db.default_cf();
    let key = format!("key{:03}", rng.below(120)).into_bytes();
    let len = *rng.pick(&[0, 20, 511, 512, 513, 3000]);
    let value = rng.bytes(len);
    match rng.below(10) {
        0 => {
            cf.delete(&key).unwrap();
            model.remove(&key);
        }
        1 | 2 => {
            cf.merge(&key, &value).unwrap();
            match model.get_mut(&key) {
                Some(old) => {
                    old.push(b',');
                    old.extend_from_slice(&value);
                }
                None => {
                    model.insert(key, value);
                }
            }
        }
        _ => {
            cf.put(&key, &value).unwrap();
            model.insert(key, value);
        }
    }
}

/// The entry under the cursor is the one at `place` of the model; `None` is none.
#[track_caller]
fn stands(cursor: &Cursor, entries: &[(&Vec<u8>, &Vec<u8>)], place: Option<usize>) {
    match place {
        None => assert!(!cursor.valid()),
        Some(place) => {
            let (key, value) = entries[place];
            assert_eq!(cursor.key(), key);
            assert_eq!(cursor.value(), value);
        }
    }
}

#[test]
fn walks_that_turn_show_what_the_model_has() {
    let mut rng = Rng::new(seed("walks_that_turn"));
    for _ in 0..20 {
        let db = open();
        let mut model = Model::new();
        let flushes = rng.below(4);
        for _ in 0..=flushes {
            for _ in 0..rng.between(1, 150) {
                write(&db, &mut model, &mut rng);
            }
            db.default_cf().flush(true).unwrap();
        }
        if rng.one_in(2) {
            db.default_cf().compact_range(None, None).unwrap();
        }
        for _ in 0..rng.below(40) {
            write(&db, &mut model, &mut rng);
        }
        let entries: Vec<_> = model.iter().collect();
        let mut options = ReadOptions::default();
        options.pin_data = rng.one_in(3);
        let mut cursor = db.default_cf().cursor(options);
        let mut place = None;
        for _ in 0..600 {
            // Mostly backward.
            match (place, rng.below(20)) {
                (None, _) | (_, 0) => {
                    let key = format!("key{:03}", rng.below(121)).into_bytes();
                    cursor.seek_for_prev(&key).unwrap();
                    place = entries.partition_point(|e| *e.0 <= key).checked_sub(1);
                }
                (_, 1) => {
                    let key = format!("key{:03}", rng.below(121)).into_bytes();
                    cursor.seek(&key).unwrap();
                    let at = entries.partition_point(|e| *e.0 < key);
                    place = (at < entries.len()).then_some(at);
                }
                (Some(at), 2..=5) => {
                    cursor.next().unwrap();
                    place = (at + 1 < entries.len()).then_some(at + 1);
                }
                (Some(at), _) => {
                    cursor.prev().unwrap();
                    place = at.checked_sub(1);
                }
            }
            stands(&cursor, &entries, place);
        }
    }
}

#[test]
fn a_long_value_outlives_the_block_that_the_stream_has_left() {
    let db = open();
    let cf = db.default_cf();
    for n in 0..50u8 {
        cf.put([n], vec![n; 700]).unwrap();
    }
    cf.flush(true).unwrap();
    let mut cursor = cf.cursor(ReadOptions::default());
    cursor.seek_to_last().unwrap();
    for n in (0..50u8).rev() {
        // Two values fill a block: at every second one the stream is in the block before, and no cache keeps this one.
        assert_eq!(cursor.key(), [n]);
        assert_eq!(cursor.value(), vec![n; 700]);
        cursor.prev().unwrap();
    }
    assert!(!cursor.valid());
}
