//! Checksums of whole files (`file_checksum_gen_factory`).

use spanlith::options::DbOptions;
use spanlith::version::FileMeta;
use spanlith::{Db, ErrorKind, OpenBuilder};
use spanlith_base::checksum::crc32c;
use spanlith_testkit::{TempDir, copy_dir, fixtures_dir};
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn builder(dir: &Path) -> OpenBuilder {
    let mut options = DbOptions::default();
    options.create_if_missing = true;
    options.file_checksum_gen_factory = "FileChecksumGenCrc32cFactory".to_string();
    Db::builder(dir).options(options)
}

fn tables(db: &Db) -> Vec<Arc<FileMeta>> {
    let tables = db.default_cf().tables();
    tables.into_iter().map(|t| t.1).collect()
}

fn flip(path: &Path) {
    let mut bytes = std::fs::read(path).unwrap();
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn flushes_and_compactions_record_a_checksum_of_each_table() {
    crate::suite_disk::needs_table_files(
        "the test looks for tables in the directory of the database",
    );
    let temp = TempDir::new("checksums");
    let dir = temp.path();
    let path = |f: &FileMeta| -> PathBuf { dir.join(format!("{:06}.sst", f.number)) };
    let check = |db: &Db| {
        for f in tables(db) {
            let bytes = std::fs::read(path(&f)).unwrap();
            assert_eq!(f.file_checksum, crc32c(&bytes).to_be_bytes());
            assert_eq!(f.file_checksum_func_name, b"FileChecksumCrc32c");
        }
        db.verify_file_checksums().unwrap();
    };
    let db = builder(dir).open().unwrap();
    for n in 0..3 {
        // Overlapping, so that they are rewritten and not moved.
        for key in ["a", "k"] {
            db.default_cf().put(key, format!("{n}")).unwrap();
        }
        db.flush(true).unwrap();
    }
    check(&db);
    db.default_cf().compact_range(None, None).unwrap();
    assert_eq!(tables(&db).len(), 1);
    check(&db);
    // Recovery writes tables, too.
    db.default_cf().put("recovered", "x").unwrap();
    db.close().unwrap();
    let db = builder(dir).open().unwrap();
    assert_eq!(tables(&db).len(), 2);
    check(&db);
    db.close().unwrap();
    let plain = Db::builder(dir).open().unwrap();
    let error = plain.verify_file_checksums().unwrap_err();
    assert_eq!(
        error.to_string(),
        "Invalid argument: Cannot verify file checksum if options.file_checksum_gen_factory is \
         null"
    );
    plain.close().unwrap();
    let db = builder(dir).open().unwrap();
    let damaged = path(&tables(&db)[1]);
    flip(&damaged);
    let error = db.verify_file_checksums().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    let text = format!("Corruption: {} file checksum mismatch", damaged.display());
    assert!(error.to_string().starts_with(&text), "{error}");
}

#[test]
fn checksums_that_rocksdb_recorded_of_tables_and_blob_files_are_verified() {
    let temp = TempDir::new("checksums");
    let dir = temp.path().join("db");
    let fixture = fixtures_dir().join("golden/golden-11.8/file-checksum/db");
    copy_dir(fixture, &dir);
    let db = builder(&dir).open().unwrap();
    let read = tables(&db).len();
    assert!(read >= 2);
    db.verify_file_checksums().unwrap();
    let blob = dir.join("000013.blob");
    flip(&blob);
    let error = db.verify_file_checksums().unwrap_err().to_string();
    assert!(
        error.contains("000013.blob file checksum mismatch"),
        "{error}"
    );
}

#[test]
fn a_factory_that_does_not_exist_is_refused_by_the_name_of_the_option() {
    let temp = TempDir::new("checksums");
    let mut options = DbOptions::default();
    options.create_if_missing = true;
    options.file_checksum_gen_factory = "FileChecksumGenMine".to_string();
    let error = Db::builder(temp.path())
        .options(options)
        .open()
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotSupported);
    assert!(error.to_string().contains("file_checksum_gen_factory"));
}
