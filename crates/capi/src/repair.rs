//! Putting a database together again whose CURRENT or MANIFEST is lost.

use crate::db::{Mode, builder, family_options};
use crate::ffi::{path, report};
use crate::options::rocksdb_options_t;
use libc::c_char;
use spanlith::FamilyOptions;
use spanlith_base::Result;
use std::path::PathBuf;

/// Repairs a database; all families have the options of the handle.
fn repair(dir: PathBuf, options: &rocksdb_options_t) -> Result<()> {
    let default = family_options("default", options, Mode::ReadWrite)?;
    let others = |name: &str| {
        // They were good for the default family.
        let family = family_options(name, options, Mode::ReadWrite);
        family.unwrap_or_else(|_| FamilyOptions::new(name))
    };
    let builder = builder(dir, options, vec![default])?;
    builder.repair_with(&others).map(drop)
}

c_api! {
    /// Makes a new MANIFEST of the tables and logs of a database that is not open. What cannot be read or is not needed any
    /// more is in `lost/` afterwards. All families get the options given; those of a family in another order than the
    /// built-in ones have to be of that order. A missing directory becomes an empty database.
    fn rocksdb_repair_db(
        options: *const rocksdb_options_t,
        name: *const c_char,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, (), || repair(path(name), &*options));
    }
}
