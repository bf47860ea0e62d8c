//! The tables of one family as files of their own, for a family of another database ([`Db::import_cf`]).
//!
//! They are made in `DIR.tmp`, linked where that is possible, and the directory is renamed once all of them are durable.

use super::checkpoint::{make_dir, without_slashes};
use super::copy::Copier;
use super::dirs::{delete_dir_of_files, parent};
use super::storage::Kept;
use crate::core::Engine;
use crate::db::{Cf, Db, LiveFile};
use crate::version::filenames;
use spanlith_base::{Error, Result};
use std::path::{Path, PathBuf};

/// The tables of a family outside of a database, as [`Cf::export`] made them.
#[derive(Clone, Debug, Default)]
pub struct ExportedFamily {
    /// Name of the order of its keys.
    pub comparator: String,
    /// The tables, with their levels, numbers and ages: by level, newest first in level 0, else by key.
    pub files: Vec<LiveFile>,
}

impl Cf {
    /// Puts the tables of the family into `dir`, which must not exist: everything that is written by now, which is
    /// flushed first. Tables are linked, and copied where that is not possible.
    ///
    /// # Errors
    /// `InvalidArgument` if there is something at `dir`, or it is no name; `NotSupported` of a family with blob files,
    /// and of a database that was opened for reading; of the flush; `Io`. Nothing is left of an export that failed, as
    /// far as it can be removed.
    pub fn export(&self, dir: impl AsRef<Path>) -> Result<ExportedFamily> {
        let db = self.db();
        let engine = db.engine();
        let fs = &engine.c.env.fs;
        if engine.c.read_only {
            return Err(Error::not_supported(
                "Export of a family of a database opened for reading",
            ));
        }
        if fs.entry(dir.as_ref())?.is_some() {
            return Err(Error::invalid_argument("Specified export_dir exists"));
        }
        let dir = without_slashes(dir.as_ref())
            .ok_or_else(|| Error::invalid_argument("Specified export_dir invalid"))?;
        let mut staging = dir.clone().into_os_string();
        staging.push(".tmp");
        let staging = PathBuf::from(staging);
        delete_dir_of_files(&**fs, &staging)?;
        let mut place = &staging;
        let made = fill(self, db, &staging).and_then(|files| {
            fs.rename(&staging, &dir)?;
            place = &dir;
            fs.sync_dir(parent(&dir))?;
            Ok(files)
        });
        let log = engine.reporter.log();
        match made {
            Ok(mut files) => {
                for file in &mut files {
                    file.path = dir.join(filenames::table_file_name(file.number));
                }
                let (name, count) = (self.name(), files.len());
                log.info(format_args!(
                    "export: [{name}] is in {}, {count} tables",
                    dir.display()
                ));
                Ok(ExportedFamily {
                    comparator: self.comparator().name().to_string(),
                    files,
                })
            }
            Err(e) => {
                log.warn(format_args!("export: {} failed: {e}", dir.display()));
                if let Err(e) = delete_dir_of_files(&**fs, place) {
                    log.warn(format_args!("export: {} stays: {e}", place.display()));
                }
                Err(e)
            }
        }
    }
}

/// Makes the directory with everything in it, all durable.
fn fill(cf: &Cf, db: &Db, staging: &Path) -> Result<Vec<LiveFile>> {
    let engine: &Engine = db.engine();
    let fs = &engine.c.env.fs;
    make_dir(&**fs, staging)?;
    cf.flush(true)?;
    let _kept = Kept::new(db);
    let copier = Copier::new(&**fs, &engine.reporter);
    let (version, files) = cf.version_and_files();
    if !version.blob_files.is_empty() {
        return Err(Error::not_supported("Export of a family with blob files"));
    }
    for file in &files {
        let to = staging.join(filenames::table_file_name(file.number));
        // The copy reports any other fault.
        if fs.link(&file.path, &to).is_err() {
            copier.copy(&file.path, &to, file.size)?;
        }
    }
    fs.sync_dir(staging)?;
    Ok(files)
}
