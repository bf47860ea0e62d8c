//! The MANIFEST over the life of a database: when it is continued and when it is written anew, and
//! where the id of the database stands.

use spanlith::options::{DbOptions, OwnDbOptions};
use spanlith::version::{VersionEdit, filenames};
use spanlith::{Db, ErrorKind, FamilyOptions, OpenBuilder};
use spanlith_env::{Env, IoActivity};
use spanlith_testkit::TempDir;
use spanlith_wal::{LogReader, LogWriter, ReadEvent};
use std::path::{Path, PathBuf};

fn builder(dir: &Path, change: impl FnOnce(&mut DbOptions)) -> OpenBuilder {
    let mut options = DbOptions::default();
    options.create_if_missing = true;
    change(&mut options);
    Db::builder(dir).options(options)
}

/// The MANIFEST that CURRENT names.
fn manifest(dir: &Path) -> PathBuf {
    let content = std::fs::read(dir.join("CURRENT")).unwrap();
    let number = filenames::parse_marked_current(&content).unwrap().0;
    dir.join(filenames::manifest_file_name(number))
}

fn edits(dir: &Path) -> Vec<VersionEdit> {
    let file = Env::system().fs.open_sequential(&manifest(dir)).unwrap();
    let mut reader = LogReader::new(file, 0);
    let mut out = Vec::new();
    loop {
        match reader.next_event().unwrap() {
            ReadEvent::Record { .. } => out.push(VersionEdit::decode(reader.record()).unwrap()),
            ReadEvent::Eof => return out,
            other => panic!("{other:?}"),
        }
    }
}

fn ids(dir: &Path) -> Vec<String> {
    let ids = edits(dir).into_iter().filter_map(|e| e.db_id);
    ids.map(|id| String::from_utf8_lossy(&id).into_owned())
        .collect()
}

fn put_and_flush(db: &Db, key: &str) {
    db.default_cf().put(key, key).unwrap();
    db.flush(true).unwrap();
}

fn keys(db: &Db) -> Vec<String> {
    let rows = db.default_cf().iter().map(|e| e.unwrap().0.into_vec());
    rows.map(|k| String::from_utf8(k).unwrap()).collect()
}

/// Without evidence: with it, a cut MANIFEST of a closed database is refused.
fn unproven(builder: OpenBuilder) -> OpenBuilder {
    let mut evidence = OwnDbOptions::default();
    evidence.evidence = false;
    builder.own(evidence)
}

fn reused(dir: &Path) -> OpenBuilder {
    builder(dir, |o| o.reuse_manifest_on_open = true)
}

#[test]
fn a_manifest_that_never_became_current_goes_when_the_one_before_it_is_continued() {
    let tmp = TempDir::new("manifest-left");
    let dir = tmp.path();
    put_and_flush(&reused(dir).open().unwrap(), "a");
    let current = manifest(dir);
    let left = dir.join(filenames::manifest_file_name(50));
    std::fs::copy(&current, &left).unwrap();
    let db = reused(dir).open().unwrap();
    assert_eq!((manifest(dir), left.exists()), (current, false));
    put_and_flush(&db, "b");
    drop(db);
    assert_eq!(keys(&reused(dir).open().unwrap()), ["a", "b"]);
}

#[test]
fn a_manifest_is_continued_by_the_next_open_if_the_options_say_so() {
    let temp = TempDir::new("manifest");
    let dir = temp.path();
    let db = builder(dir, |_| ()).open().unwrap();
    put_and_flush(&db, "a");
    db.create_cf(FamilyOptions::new("second")).unwrap();
    db.close().unwrap();
    let first = manifest(dir);
    let size = std::fs::metadata(&first).unwrap().len();
    for key in ["b", "c"] {
        let db = reused(dir).family(FamilyOptions::new("second")).open();
        let db = db.unwrap();
        assert_eq!(manifest(dir), first);
        put_and_flush(&db, key);
        db.cf("second").unwrap().put(key, "2").unwrap();
        db.close().unwrap();
    }
    assert_eq!(manifest(dir), first);
    assert!(std::fs::metadata(&first).unwrap().len() > size);
    assert_eq!(ids(dir).len(), 1, "the id is recorded once");
    // Without the option a new one begins.
    let db = builder(dir, |_| ()).family(FamilyOptions::new("second"));
    let db = db.open().unwrap();
    assert_ne!(manifest(dir), first);
    assert_eq!(keys(&db), ["a", "b", "c"]);
    assert_eq!(db.cf("second").unwrap().iter().count(), 2);
}

#[test]
fn a_manifest_that_does_not_end_clean_is_not_continued() {
    type Damage = fn(&mut Vec<u8>);
    let damages: [(&str, Damage); 3] = [
        ("a cut record", |bytes| bytes.truncate(bytes.len() - 3)),
        ("zeros", |bytes| bytes.extend([0; 100])),
        ("the beginning of a record", |bytes| {
            bytes.extend([1, 2, 3, 4, 200, 0, 1, 7]);
        }),
    ];
    for (what, damage) in damages {
        let temp = TempDir::new("manifest");
        let dir = temp.path();
        let db = unproven(builder(dir, |_| ())).open().unwrap();
        put_and_flush(&db, "a");
        // Something that may be lost.
        db.create_cf(FamilyOptions::new("lost")).unwrap();
        db.close().unwrap();
        let first = manifest(dir);
        let mut bytes = std::fs::read(&first).unwrap();
        damage(&mut bytes);
        std::fs::write(&first, bytes).unwrap();
        let lost = Db::list_families(dir, &Env::system()).unwrap().len() == 1;
        let open = || match lost {
            true => unproven(reused(dir)),
            false => unproven(reused(dir)).family(FamilyOptions::new("lost")),
        };
        let db = open().open().unwrap();
        assert_ne!(manifest(dir), first, "{what}");
        put_and_flush(&db, "b");
        db.close().unwrap();
        let second = manifest(dir);
        let db = open().open().unwrap();
        assert_eq!(manifest(dir), second, "{what}");
        assert_eq!(keys(&db), ["a", "b"], "{what}");
    }
}

#[test]
fn a_manifest_that_ends_inside_an_atomic_group_is_not_continued() {
    let temp = TempDir::new("manifest");
    let dir = temp.path();
    let db = builder(dir, |_| ()).open().unwrap();
    put_and_flush(&db, "a");
    db.close().unwrap();
    let first = manifest(dir);
    let fs = Env::system().fs;
    let file = fs.reopen(&first, IoActivity::Manifest).unwrap();
    let mut writer = LogWriter::new(file, 0);
    let half = VersionEdit {
        remaining_in_atomic_group: Some(1),
        ..VersionEdit::default()
    };
    writer.add_record(&half.encode()).unwrap();
    writer.close().unwrap();
    let db = reused(dir).open().unwrap();
    assert_ne!(manifest(dir), first);
    assert_eq!(keys(&db), ["a"]);
}

#[test]
fn a_manifest_grows_by_the_percentage_of_its_snapshot_before_it_is_written_anew() {
    let temp = TempDir::new("manifest");
    let dir = temp.path();
    let options = |percent: i32| {
        builder(dir, move |o| {
            o.max_manifest_file_size = 1;
            o.max_manifest_space_amp_pct = percent;
        })
    };
    // Nothing is allowed: every edit starts a new file.
    let db = options(0).open().unwrap();
    for n in 0..3 {
        let before = manifest(dir);
        put_and_flush(&db, &format!("a{n}"));
        assert_ne!(manifest(dir), before);
    }
    db.close().unwrap();
    let db = options(1_000_000).open().unwrap();
    let before = manifest(dir);
    for n in 0..3 {
        put_and_flush(&db, &format!("b{n}"));
    }
    assert_eq!(manifest(dir), before);
    let edits = edits(dir);
    let compact = edits
        .iter()
        .filter_map(|e| e.last_compacted_manifest_file_size);
    let compact: Vec<u64> = compact.collect();
    assert!(matches!(compact[..], [size] if size > 100), "{compact:?}");
    db.close().unwrap();
    // The size of the snapshot survives a reopening.
    let db = options(1_000_000)
        .options(reusing(1_000_000))
        .open()
        .unwrap();
    put_and_flush(&db, "c");
    assert_eq!(manifest(dir), before);
    db.close().unwrap();
    let db = options(0).options(reusing(0)).open().unwrap();
    assert_ne!(manifest(dir), before);
    assert_eq!(keys(&db).len(), 7);
}

fn reusing(percent: i32) -> DbOptions {
    let mut o = DbOptions::default();
    o.reuse_manifest_on_open = true;
    o.max_manifest_file_size = 1;
    o.max_manifest_space_amp_pct = percent;
    o
}

#[test]
fn the_id_of_a_database_stands_where_the_options_say() {
    crate::suite_disk::needs_log_files("a speed disk needs an IDENTITY file");
    let temp = TempDir::new("manifest");
    let dir = temp.path();
    let identity = || std::fs::read_to_string(dir.join("IDENTITY")).ok();
    let open = |file: bool, manifest: bool| {
        builder(dir, move |o| {
            o.write_identity_file = file;
            o.write_dbid_to_manifest = manifest;
        })
        .open()
    };
    let refused = open(false, false).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    assert_eq!(
        refused.to_string(),
        "Invalid argument: write_dbid_to_manifest and write_identity_file cannot both be false"
    );
    open(false, true).unwrap().close().unwrap();
    assert_eq!(identity(), None);
    let id = ids(dir).remove(0);
    // The MANIFEST hands it over to the file, and the file to the MANIFEST.
    open(true, false).unwrap().close().unwrap();
    assert_eq!(identity().as_deref(), Some(&id[..]));
    assert_eq!(ids(dir), [""; 0]);
    open(true, true).unwrap().close().unwrap();
    assert_eq!(ids(dir), [&id[..]]);
    // A file that says something else is written again.
    std::fs::write(dir.join("IDENTITY"), "other").unwrap();
    open(true, true).unwrap().close().unwrap();
    assert_eq!(identity().as_deref(), Some(&id[..]));
    open(false, true).unwrap().close().unwrap();
    assert_eq!(identity(), None, "an obsolete file goes");
    assert_eq!(ids(dir), [&id[..]]);
}

#[test]
fn a_continued_manifest_gets_the_id_that_it_lacks() {
    let temp = TempDir::new("manifest");
    let dir = temp.path();
    let db = builder(dir, |o| o.write_dbid_to_manifest = false).open();
    db.unwrap().close().unwrap();
    let (first, id) = (manifest(dir), std::fs::read_to_string(dir.join("IDENTITY")));
    reused(dir).open().unwrap().close().unwrap();
    assert_eq!((manifest(dir), ids(dir)), (first, vec![id.unwrap()]));
}

/// RocksDB takes its bytes for the id, whatever they are.
#[test]
fn an_identity_file_that_is_damaged_is_written_again_from_the_manifest() {
    let temp = TempDir::new("manifest");
    let dir = temp.path();
    let open = |manifest: bool| builder(dir, |o| o.write_dbid_to_manifest = manifest).open();
    let damaged = [vec![0xff; 36], vec![b'x'; 70_000]];
    for bytes in &damaged {
        // There is no database yet in the first round.
        std::fs::write(dir.join("IDENTITY"), bytes).unwrap();
        open(true).unwrap().close().unwrap();
        let id = ids(dir).remove(0);
        assert_eq!(id.len(), 36, "{id}");
        assert_eq!(std::fs::read_to_string(dir.join("IDENTITY")).unwrap(), id);
    }
    let id = std::fs::read(dir.join("IDENTITY")).unwrap();
    open(false).unwrap().close().unwrap();
    for bytes in &damaged {
        std::fs::write(dir.join("IDENTITY"), bytes).unwrap();
        assert_eq!(open(true).unwrap_err().kind(), ErrorKind::Corruption);
    }
    std::fs::write(dir.join("IDENTITY"), id).unwrap();
    open(true).unwrap().close().unwrap();
}
