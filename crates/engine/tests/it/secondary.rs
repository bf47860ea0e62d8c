//! Databases open for reading that follow the one that writes.

use spanlith::options::DbOptions;
use spanlith::{Db, ErrorKind, FamilyOptions, OpenBuilder, Secondary};
use spanlith_testkit::{Rng, TempDir, seed};
use std::collections::BTreeMap;

fn writer(temp: &TempDir) -> Db {
    let small = spanlith::options::CfOptions::new()
        .write_buffer_size(64u64 << 10)
        .target_file_size_base(64u64 << 10);
    let family = |name: &str| FamilyOptions::new(name).options(small.clone());
    Db::builder(temp.join("db"))
        .create_if_missing(true)
        .options(
            DbOptions::new()
                .create_missing_column_families(true)
                .create_if_missing(true),
        )
        .family(family("default"))
        .family(family("other"))
        .open()
        .unwrap()
}

fn reader(temp: &TempDir) -> OpenBuilder {
    Db::builder(temp.join("db"))
        .family(FamilyOptions::new("default"))
        .family(FamilyOptions::new("other"))
}

fn contents(db: &Db, family: &str) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let cf = db.cf(family).unwrap();
    cf.iter()
        .map(|entry| entry.map(|(k, v)| (k.to_vec(), v.to_vec())).unwrap())
        .collect()
}

fn same(writer: &Db, secondary: &Secondary) {
    for family in ["default", "other"] {
        assert!(
            contents(writer, family) == contents(secondary, family),
            "{family}"
        );
    }
}

#[test]
fn a_secondary_shows_what_was_written_when_it_catches_up() {
    crate::suite_disk::needs_log_files("following a database with logs on a speed disk is refused");
    let temp = TempDir::new("secondary");
    let db = writer(&temp);
    let cf = db.default_cf();
    cf.put("a", "1").unwrap();
    let secondary = reader(&temp).open_secondary(temp.join("second")).unwrap();
    same(&db, &secondary);
    assert!(temp.join("second").join("LOG").exists());
    cf.put("a", "2").unwrap();
    db.cf("other").unwrap().put("b", "3").unwrap();
    let before = secondary.default_cf().iter();
    assert_eq!(
        secondary.default_cf().get("a").unwrap().as_deref(),
        Some(&b"1"[..])
    );
    secondary.catch_up().unwrap();
    same(&db, &secondary);
    let shown: Vec<_> = before.map(|entry| entry.unwrap().1.to_vec()).collect();
    assert_eq!(shown, [b"1".to_vec()], "an iterator keeps its state");
    for refused in [
        secondary.default_cf().put("x", "y"),
        secondary.default_cf().flush(true),
        secondary.default_cf().compact_all(),
    ] {
        let e = refused.unwrap_err();
        assert_eq!(e.kind(), ErrorKind::NotSupported);
        assert_eq!(e.message(), "Not supported operation in secondary mode.");
    }
    let snapshot = secondary.snapshot();
    cf.put("a", "3").unwrap();
    assert_eq!(
        secondary.catch_up().unwrap_err().kind(),
        ErrorKind::NotSupported
    );
    drop(snapshot);
    secondary.catch_up().unwrap();
    same(&db, &secondary);
}

#[test]
fn tables_that_the_writer_deletes_can_be_read_until_the_next_catch_up() {
    crate::suite_disk::needs_log_files("following a database with logs on a speed disk is refused");
    let temp = TempDir::new("secondary-files");
    let db = writer(&temp);
    let cf = db.default_cf();
    for key in 0..2_000u32 {
        cf.put(key.to_be_bytes(), [7; 100]).unwrap();
    }
    cf.flush(true).unwrap();
    let secondary = reader(&temp).open_secondary(temp.join("second")).unwrap();
    let before = contents(&secondary, "default");
    for key in 0..2_000u32 {
        cf.put(key.to_be_bytes(), [8; 100]).unwrap();
    }
    cf.compact_all().unwrap();
    assert!(contents(&secondary, "default") == before);
    secondary.catch_up().unwrap();
    same(&db, &secondary);
    // A table that was opened in the first catch-up is still open in the second, though its file is gone.
    cf.delete_range(0u32.to_be_bytes(), 1_000u32.to_be_bytes())
        .unwrap();
    db.cf("other").unwrap().put("k", "v").unwrap();
    secondary.catch_up().unwrap();
    let kept = contents(&secondary, "default");
    cf.compact_all().unwrap();
    assert!(contents(&secondary, "default") == kept && kept.len() == 1_000);
}

#[test]
fn a_family_that_is_dropped_keeps_its_last_state() {
    crate::suite_disk::needs_log_files("following a database with logs on a speed disk is refused");
    let temp = TempDir::new("secondary-dropped");
    let db = writer(&temp);
    db.cf("other").unwrap().put("k", "v").unwrap();
    let secondary = reader(&temp).open_secondary(temp.join("second")).unwrap();
    db.drop_cf(&db.cf("other").unwrap()).unwrap();
    db.default_cf().put("k", "w").unwrap();
    secondary.catch_up().unwrap();
    assert_eq!(contents(&secondary, "other").len(), 1);
    assert_eq!(contents(&secondary, "default").len(), 1);
}

#[test]
fn random_histories_look_alike_after_each_catch_up() {
    crate::suite_disk::needs_log_files("following a database with logs on a speed disk is refused");
    let mut rng = Rng::new(seed("secondary"));
    let temp = TempDir::new("secondary-random");
    let db = writer(&temp);
    let secondary = reader(&temp).open_secondary(temp.join("second")).unwrap();
    for round in 0..60 {
        for _ in 0..rng.below(300) {
            let cf = db.cf(["default", "other"][rng.below(2) as usize]).unwrap();
            let key = rng.below(500).to_be_bytes();
            match rng.below(20) {
                0 => cf
                    .delete_range(key, (rng.below(500) + 500).to_be_bytes())
                    .unwrap(),
                1..=4 => cf.delete(key).unwrap(),
                _ => cf.put(key, vec![round; rng.below(200) as usize]).unwrap(),
            }
        }
        match rng.below(6) {
            0 => db.default_cf().flush(true).unwrap(),
            1 => db.cf("other").unwrap().compact_all().unwrap(),
            2 => db.flush(true).unwrap(),
            _ => {}
        }
        secondary.catch_up().unwrap();
        same(&db, &secondary);
    }
}
