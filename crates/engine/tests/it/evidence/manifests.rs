//! The MANIFEST: no change and no cut of it goes unnoticed.

use super::*;
use spanlith_env::{FaultFs, FaultRule, OpClass};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A database with families and edits; its log was synced after the last edit, or it was closed.
fn image(closed: bool, written: bool) -> (MemFs, Setup, Rows) {
    let mut setup = Setup::dense();
    setup.options.create_missing_column_families = true;
    setup.families = vec!["one"];
    let fs = Arc::new(MemFs::new());
    let db = setup.open(&fs).unwrap();
    let (cf, one) = (db.default_cf(), db.cf("one").unwrap());
    for n in 0..6 {
        cf.put(format!("a{n}"), "first").unwrap();
        one.put(format!("b{n}"), "first").unwrap();
    }
    db.flush(true).unwrap();
    one.flush(true).unwrap();
    for n in 3..9 {
        cf.put(format!("a{n}"), "second").unwrap();
    }
    db.flush(true).unwrap();
    cf.compact_range(None, None).unwrap();
    let two = db.create_cf(FamilyOptions::new("two")).unwrap();
    two.put("c", "third").unwrap();
    db.flush(true).unwrap();
    two.flush(true).unwrap();
    setup.families.push("two");
    if written {
        for n in 0..3 {
            one.put_opt(format!("d{n}"), "fourth", &synced()).unwrap();
        }
    }
    let all = rows(&db);
    drop((cf, one, two));
    let image = match closed {
        true => {
            drop(db);
            fs.process_crash_clone()
        }
        false => fs.process_crash_clone(),
    };
    (image, setup, all)
}

#[test]
fn no_change_of_a_manifest_is_silent() {
    for (closed, written) in [(false, true), (true, true), (true, false)] {
        let (image, setup, all) = image(closed, written);
        assert_eq!(setup.look(image.process_crash_clone()).unwrap(), all);
        let path = manifest_path(&image);
        let bytes = image.read_file(&path).unwrap();
        let (mut reported, mut harmless) = (0, Vec::new());
        for at in 0..bytes.len() {
            for by in [0x04, 0xff] {
                let mut changed = bytes.clone();
                changed[at] ^= by;
                let fs = image.process_crash_clone();
                fs.write_file(&path, &changed).unwrap();
                match setup.look(fs) {
                    Err(_) => reported += 1,
                    Ok(found) => {
                        assert_eq!(found, all, "{closed} {written} {at} {by:#x}");
                        harmless.push((at, by));
                    }
                }
            }
        }
        assert_eq!(
            harmless,
            [],
            "of {} bytes, {reported} reported",
            bytes.len()
        );
    }
}

#[test]
fn no_cut_of_a_manifest_is_silent() {
    for (closed, written) in [(false, true), (true, true), (true, false), (false, false)] {
        let (image, setup, all) = image(closed, written);
        let path = manifest_path(&image);
        let bytes = image.read_file(&path).unwrap();
        for len in 0..bytes.len() {
            for zeros in [false, true] {
                let mut cut = bytes[..len].to_vec();
                if zeros {
                    cut.resize(bytes.len(), 0);
                }
                let fs = image.process_crash_clone();
                fs.write_file(&path, &cut).unwrap();
                if let Ok(found) = setup.look(fs) {
                    assert_eq!(found, all, "{closed} {written} {len} {zeros}");
                }
            }
        }
    }
}

#[test]
fn a_torn_append_to_a_manifest_is_no_damage() {
    let (image, setup, all) = image(false, true);
    let path = manifest_path(&image);
    let bytes = image.read_file(&path).unwrap();
    // These are the bytes that an edit which was never synced may leave.
    let edit = &bytes[..60];
    for len in 1..edit.len() {
        for zeros in [false, true] {
            let mut torn = bytes.clone();
            torn.extend_from_slice(&edit[..len]);
            if zeros {
                torn.resize(bytes.len() + edit.len(), 0);
            }
            let fs = image.process_crash_clone();
            fs.write_file(&path, &torn).unwrap();
            match setup.look(fs) {
                Ok(found) => assert_eq!(found, all, "{len} {zeros}"),
                // Bytes that look like a record and are none.
                Err(e) => assert!(zeros, "{len}: {e}"),
            }
        }
    }
}

#[test]
fn an_old_current_is_reported() {
    let (image, setup, _) = image(false, true);
    let fs = Arc::new(image);
    let (current, manifest) = (Path::new("/db/CURRENT"), manifest_path(&fs));
    let before = (
        fs.read_file(current).unwrap(),
        fs.read_file(&manifest).unwrap(),
    );
    let db = setup.open(&fs).unwrap();
    for n in 0..3 {
        let options = synced();
        db.default_cf()
            .put_opt(format!("e{n}"), "x", &options)
            .unwrap();
    }
    drop(db);
    fs.write_file(current, &before.0).unwrap();
    fs.write_file(&manifest, &before.1).unwrap();
    let e = setup.look(fs.process_crash_clone()).unwrap_err();
    assert!(e.to_string().starts_with("Corruption"), "{e}");
}

/// 41 of 2,550 opens beside a database that was written took a record which was half there for damage.
#[test]
fn an_open_for_reading_begins_anew_if_the_manifest_grew_under_it() {
    let (image, setup, all) = image(false, true);
    let path = manifest_path(&image);
    let bytes = image.read_file(&path).unwrap();
    // Inside a record, and before others, which say that it was durable.
    let cut = bytes.len() / 2;
    let open = |grows: bool| {
        let now = image.process_crash_clone();
        now.write_file(&path, &bytes[..cut]).unwrap();
        let faults = FaultFs::new(Arc::new(now.clone()));
        let opened = AtomicUsize::new(0);
        let (path, bytes) = (path.clone(), bytes.clone());
        let looks = FaultRule::fail(OpClass::Open, u64::MAX, 5).when(move |opening| {
            // Once it was read to its end: asked for what follows.
            if grows && opening == path && opened.fetch_add(1, Ordering::Relaxed) == 1 {
                let write = || now.write_file(&path, &bytes).unwrap();
                // Another thread: this one holds the lock of the plan.
                std::thread::scope(|scope| scope.spawn(write).join().unwrap());
            }
            false
        });
        faults.add(looks);
        let (env, ..) = Env::test(Arc::new(faults), 9);
        let families = setup.families.iter();
        let builder = Db::builder("/db").env(env).no_info_log();
        let builder = families.fold(builder, |b, name| b.family(FamilyOptions::new(*name)));
        builder.open_read_only().map(|db| rows(&db))
    };
    assert_eq!(open(true).unwrap(), all);
    open(false).unwrap_err();
}

/// The log went between the MANIFEST, which needed it, and the look for logs: its writes were missing.
#[test]
fn an_open_for_reading_misses_nothing_that_is_flushed_under_it() {
    crate::suite_disk::needs_log_files("the test changes bytes in files of logs");
    let setup = Setup::dense();
    let fs = Arc::new(MemFs::new());
    let db = setup.open(&fs).unwrap();
    db.default_cf().put_opt("k", "v", &synced()).unwrap();
    let all = rows(&db);
    let log = log_path(&fs);
    let faults = FaultFs::new(fs.clone());
    let (lists, primary) = (AtomicUsize::new(0), db.clone());
    let looks = FaultRule::fail(OpClass::List, u64::MAX, 5).when(move |_| {
        if lists.fetch_add(1, Ordering::Relaxed) == 0 {
            let flush = || primary.flush(true).unwrap();
            // As above.
            std::thread::scope(|scope| scope.spawn(flush).join().unwrap());
        }
        false
    });
    faults.add(looks);
    let (env, ..) = Env::test(Arc::new(faults), 9);
    let read = Db::builder("/db").env(env).no_info_log();
    let read = read.open_read_only().unwrap();
    assert_ne!(log_path(&fs), log, "the log is gone");
    assert_eq!(rows(&read), all);
}
