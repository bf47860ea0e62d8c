//! A MANIFEST that is cut after a power loss: what a flush had acknowledged is there, or the open says
//! that something is gone.

use super::*;
use spanlith_testkit::Rng;

/// How the databases of a case are written.
#[derive(Clone, Copy, Debug, Default)]
struct Case {
    /// Several memtables are sealed before the first is flushed.
    piles_up: bool,
    /// Without the log.
    unlogged: bool,
    /// Logs are in a directory of their own.
    apart: bool,
    /// With a second family that holds the logs back.
    families: bool,
    /// The MANIFEST of the open before is continued.
    continued: bool,
}

/// A database that was flushed, and what its flushes acknowledged.
fn written(case: Case) -> (Arc<MemFs>, Setup, Db, Rows) {
    let mut setup = Setup::default();
    setup.options.create_missing_column_families = true;
    setup.options.reuse_manifest_on_open = case.continued;
    if case.apart {
        setup.options.wal_dir = "/logs".into();
    }
    if case.families {
        setup.families = vec!["one"];
    }
    let fs = Arc::new(MemFs::new());
    if case.continued {
        let db = setup.open(&fs).unwrap();
        db.default_cf().put_opt("z", "", &synced()).unwrap();
        drop(db);
    }
    let db = setup.open(&fs).unwrap();
    let cf = db.default_cf();
    let how = WriteOptions::new().disable_wal(case.unlogged);
    for round in 0..4 {
        if case.families {
            let one = db.cf("one").unwrap();
            one.put_opt(format!("o{round}"), "one", &how).unwrap();
        }
        for n in 0..5 {
            let key = format!("k{n}.{round}");
            cf.put_opt(key, format!("{round}"), &how).unwrap();
        }
        if case.piles_up {
            cf.flush(false).unwrap();
            cf.put_opt(format!("p{round}"), "piled up", &how).unwrap();
        }
        cf.flush(true).unwrap();
    }
    let mut flushed = rows(&db);
    flushed.retain(|key, _| key.0 == "default");
    // Entries that are not flushed may go.
    cf.put_opt("later", "", &WriteOptions::new()).unwrap();
    (fs, setup, db, flushed)
}

/// Cuts the MANIFEST of `image` everywhere; every open must find what was flushed, or fail.
fn cut_everywhere(what: &str, image: &MemFs, setup: &Setup, flushed: &Rows) {
    let holds = |fs: MemFs| match setup.look(fs) {
        Ok(found) => Some(flushed.iter().all(|(k, v)| found.get(k) == Some(v))),
        Err(_) => None,
    };
    let whole = setup.look(image.process_crash_clone());
    assert!(whole.is_ok(), "{what}: {whole:?}");
    assert_eq!(holds(image.process_crash_clone()), Some(true), "{what}");
    let path = manifest_path(image);
    let bytes = image.read_file(&path).unwrap();
    for len in 0..bytes.len() {
        let fs = image.process_crash_clone();
        fs.write_file(&path, &bytes[..len]).unwrap();
        let held = holds(fs);
        assert_ne!(held, Some(false), "{what}: {len} of {}", bytes.len());
    }
}

#[test]
fn no_cut_of_a_manifest_after_a_power_loss_hides_what_was_flushed() {
    crate::suite_disk::needs_log_files("the test changes bytes in files of logs");
    let seed = spanlith_testkit::seed("cut_after_power_loss");
    let mut rng = Rng::new(seed);
    let plain = Case::default();
    let cases = [
        plain,
        Case {
            piles_up: true,
            ..plain
        },
        Case {
            unlogged: true,
            ..plain
        },
        Case {
            apart: true,
            ..plain
        },
        Case {
            families: true,
            ..plain
        },
        Case {
            continued: true,
            ..plain
        },
        Case {
            apart: true,
            piles_up: true,
            ..plain
        },
    ];
    for case in cases {
        let (fs, setup, _db, flushed) = written(case);
        cut_everywhere(
            &format!("{case:?} strict"),
            &fs.strict_clone(),
            &setup,
            &flushed,
        );
        for turn in 0..2 {
            let image = fs.crash_clone(&mut |n| rng.below(n));
            let what = format!("{case:?} turn {turn}");
            cut_everywhere(&what, &image, &setup, &flushed);
        }
    }
}

#[test]
fn a_log_that_is_gone_from_before_a_later_one_is_missed() {
    crate::suite_disk::needs_log_files("the test changes bytes in files of logs");
    let (fs, setup, _db, flushed) = written(Case {
        families: true,
        ..Case::default()
    });
    let image = fs.process_crash_clone();
    let logs = paths(&image, "/db", ".log");
    assert!(logs.len() > 1, "{logs:?}");
    let oldest = logs.iter().min().unwrap();
    image.delete(oldest).unwrap();
    let e = setup.look(image.process_crash_clone()).unwrap_err();
    let name = oldest.file_stem().unwrap().to_string_lossy().into_owned();
    let text = format!("Corruption: log {name} is gone, which MANIFEST 000005 says recovery needs");
    assert!(e.to_string().starts_with(&text), "{e}");
    // Callers that ask for it get the rest, and a copy without any log holds the flushed entries.
    let mut lenient = setup.clone();
    lenient.evidence.synced_log_damage = spanlith::options::SyncedLogDamage::Truncate;
    lenient.look(image.process_crash_clone()).unwrap();
    for log in &logs {
        // One is gone already.
        let _ = image.delete(log);
    }
    let mut found = lenient.look(image.process_crash_clone()).unwrap();
    found.retain(|key, _| key.0 == "default");
    assert_eq!(found, flushed);
    let (fs, setup, _db, flushed) = written(Case::default());
    let image = fs.process_crash_clone();
    for log in paths(&image, "/db", ".log") {
        image.delete(&log).unwrap();
    }
    assert_eq!(setup.look(image).unwrap(), flushed);
}
