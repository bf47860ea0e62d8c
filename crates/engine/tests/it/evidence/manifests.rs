//! The MANIFEST: no change and no cut of it goes unnoticed.

use super::*;

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
    // What an edit that was never synced may leave.
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
