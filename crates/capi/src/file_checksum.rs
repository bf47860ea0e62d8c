//! `rocksdb_file_checksum_gen_factory_t`: checksums of whole files.

use crate::db::rocksdb_t;
use crate::ffi::{boxed, report};
use crate::options::rocksdb_options_t;
use crate::read_options::rocksdb_readoptions_t;
use libc::c_char;

/// Makes the generators of file checksums; the name is its option's value.
pub struct rocksdb_file_checksum_gen_factory_t(&'static str);

c_api! {
    /// CRC-32C of whole files.
    fn rocksdb_file_checksum_gen_crc32c_factory_create() -> *mut rocksdb_file_checksum_gen_factory_t {
        boxed(rocksdb_file_checksum_gen_factory_t("FileChecksumGenCrc32cFactory"))
    }

    /// Records checksums of whole files. NULL changes nothing.
    fn rocksdb_options_set_file_checksum_gen_factory(
        opt: *mut rocksdb_options_t,
        factory: *mut rocksdb_file_checksum_gen_factory_t,
    ) {
        if let (Some(options), Some(factory)) = (opt.as_mut(), factory.as_ref()) {
            options.db.file_checksum_gen_factory = factory.0.to_string();
        }
    }

    /// Compares every table and blob file with the checksum recorded for it.
    fn rocksdb_verify_file_checksums(db: *mut rocksdb_t, errptr: *mut *mut c_char) {
        report(errptr, (), || (*db).cf.db().verify_file_checksums());
    }

    /// Compares every table and blob file with the checksum recorded for it, whatever the options say.
    fn rocksdb_verify_file_checksums_with_options(
        db: *mut rocksdb_t,
        options: *const rocksdb_readoptions_t,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, (), || {
            (*options).check_activity("VerifyFileChecksums", (7, "kVerifyFileChecksums"))?;
            (*db).cf.db().verify_file_checksums()
        });
    }
}

destroyers! {
    rocksdb_file_checksum_gen_factory_destroy(rocksdb_file_checksum_gen_factory_t);
}
