//! Makes backups.

use super::files::{Mover, Place, check_stopped};
use super::meta::{META_DIR, Meta, MetaFile, PRIVATE_DIR, SHARED_CHECKSUM_DIR, SHARED_DIR};
use super::{Backup, BackupEngine, CreateBackupOptions, ExcludeFile, State, add, size_error};
use crate::db::Db;
use crate::options::sidecar::SIDECAR_FILE;
use crate::utilities::dirs::{delete_dir_of_files, delete_if_there};
use crate::utilities::storage::{Kept, StorageFile, StorageKind, StorageOptions};
use spanlith_base::{Error, Result};
use spanlith_env::FileSystem;
use std::path::PathBuf;

/// The newest schema of lists that is written.
const SCHEMA_MAX: u32 = 2;
/// Name of the function whose checksums of whole files can be compared with ours.
const CRC32C_FUNCTION: &[u8] = b"FileChecksumCrc32c";

/// A backup that is being made.
struct Making<'a> {
    engine: &'a BackupEngine,
    state: &'a State,
    db_fs: &'a dyn FileSystem,
    id: u32,
    mover: Mover<'a>,
    exclude: Option<&'a ExcludeFile>,
    meta: Meta,
    sizes: Vec<u64>,
    /// Shared files that are new, to be deleted if the backup fails.
    new_shared: Vec<PathBuf>,
}

impl BackupEngine {
    /// Makes a backup of the database as it is now, and answers its number. Tables that an earlier backup has are not
    /// copied again. Writes go on meanwhile; files of the database are not deleted as long as it takes.
    ///
    /// # Errors
    /// `Incomplete` after [`Self::stop`]; of the flush; the background error that stops writes; `Corruption` of a file
    /// that is not what the MANIFEST says; `NotSupported` and `InvalidArgument` of options; `Io`. Nothing is left of a
    /// backup that failed, as far as it can be removed.
    pub fn create(&self, db: &Db, options: &CreateBackupOptions) -> Result<u32> {
        let o = &self.options;
        if o.schema_version > SCHEMA_MAX {
            return Err(Error::not_supported(format!(
                "Only BackupEngineOptions::schema_version <= {SCHEMA_MAX} is supported"
            )));
        }
        if o.schema_version == 0 {
            return Err(Error::invalid_argument(
                "BackupEngineOptions::schema_version must be >= 1",
            ));
        }
        if options.exclude.is_some() && o.schema_version < 2 {
            return Err(Error::invalid_argument(
                "exclude_files_callback requires schema_version >= 2",
            ));
        }
        let mut state = self.lock();
        check_stopped(&self.stop)?;
        let newest = |ids: Option<&u32>| ids.copied().unwrap_or(0);
        let newest =
            newest(state.backups.keys().next_back()).max(newest(state.damaged.keys().next_back()));
        let id = newest.checked_add(1);
        let id =
            id.ok_or_else(|| Error::invalid_argument("there are no further numbers of backups"))?;

        let mut mover = Mover::new(o, o.backup_limiter.as_deref(), &self.stop);
        mover.progress = (options.progress.as_deref()).map(|call| (o.progress_interval, call));
        let mut making = Making {
            engine: self,
            state: &state,
            db_fs: &*db.engine().c.env.fs,
            id,
            mover,
            exclude: options.exclude.as_ref(),
            meta: Meta {
                timestamp: i64::try_from(self.env.clock.now_seconds()).unwrap_or(i64::MAX),
                sequence: db.latest_sequence_number(),
                app_metadata: options.app_metadata.clone(),
                files: Vec::new(),
            },
            sizes: Vec::new(),
            new_shared: Vec::new(),
        };
        let log = db.engine().reporter.log();
        log.info(format_args!("backup {id}: begins in {}", o.dir.display()));
        let made = making.fill(db, options).and_then(|()| making.list());
        if let Err(e) = made {
            log.warn(format_args!("backup {id}: failed: {e}"));
            if let Err(left) = making.take_back() {
                log.warn(format_args!("backup {id}: something stays: {left}"));
            }
            return Err(e);
        }
        let Making { meta, sizes, .. } = making;
        let size = sizes.iter().sum();
        let files = meta.files.len();
        log.info(format_args!(
            "backup {id}: is there, files={files} bytes={size}"
        ));
        add(&mut state, id, Backup { meta, size }, &sizes);
        Ok(id)
    }
}

impl Making<'_> {
    fn fs(&self) -> &'_ dyn FileSystem {
        self.engine.fs()
    }

    /// Copies the files.
    fn fill(&mut self, db: &Db, options: &CreateBackupOptions) -> Result<()> {
        let o = &self.engine.options;
        let private = self.engine.private_dir(self.id);
        // Of a backup that did not come to its list.
        delete_dir_of_files(self.fs(), &private)?;
        self.fs().create_dir_if_missing(&private)?;
        let _kept = Kept::new(db);
        let storage = StorageOptions::default()
            .flush_from(if options.flush_before_backup {
                0
            } else {
                u64::MAX
            })
            .atomic_flush(options.atomic_flush)
            .with_checksums(true)
            .with_sessions(o.share_table_files && o.share_files_with_checksum);
        for file in db.storage_files(&storage)? {
            if file.kind == StorageKind::Log && !o.backup_log_files {
                continue;
            }
            check_stopped(&self.engine.stop)?;
            self.put(&file)?;
        }
        Ok(())
    }

    fn put(&mut self, file: &StorageFile) -> Result<()> {
        match Place::of(file, self.id, &self.engine.options) {
            Place::Private(path) => {
                let crc = self.copy(file, &self.engine.path(&path))?;
                // RocksDB knows no such file, and lists name what it knows only. It has a checksum of its own.
                if file.name != SIDECAR_FILE {
                    self.note(path, file.size, Some(crc));
                }
                Ok(())
            }
            Place::ByOrigin(path) => self.share(file, path, None),
            Place::ByNumber(path) => {
                let crc = self.checksum(file)?;
                self.share(file, path, Some(crc))
            }
            Place::ByChecksum => {
                let crc = self.checksum(file)?;
                self.share(file, Place::by_checksum(file, crc), Some(crc))
            }
        }
    }

    /// Puts a file that backups share at `path`, if it is not there; `crc` if it is known.
    fn share(&mut self, file: &StorageFile, path: String, crc: Option<u32>) -> Result<()> {
        if let Some(known) = self.state.known.get(&path) {
            if known.size != file.size {
                return Err(size_error(&path, known.size, file.size));
            }
            if let (Some(mine), Some(there)) = (crc, known.crc)
                && mine != there
            {
                let text = format!("{path} is another file in an earlier backup");
                return Err(Error::corruption(text)
                    .with("expected", there)
                    .with("found", mine));
            }
            self.note(path, file.size, crc.or(known.crc));
            return Ok(());
        }
        if self.exclude.is_some_and(|exclude| exclude(&path)) {
            self.meta.files.push(MetaFile {
                path,
                crc: None,
                size: None,
                is_excluded: true,
            });
            return Ok(());
        }
        // Under its name it is whole. What lies there no backup has.
        let to = self.engine.path(&path);
        let temp = self.engine.path(&format!("{path}.tmp"));
        self.new_shared.push(temp.clone());
        let copied = self.copy(file, &temp)?;
        if crc.is_some_and(|crc| crc != copied) {
            return Err(
                Error::corruption("the file reads differently each time").with_path(&file.path())
            );
        }
        // The file that is there may belong to a damaged backup.
        if self.fs().entry(&to)?.is_none() {
            self.new_shared.push(to.clone());
        }
        self.fs().rename(&temp, &to)?;
        self.note(path, file.size, Some(copied));
        Ok(())
    }

    fn note(&mut self, path: String, size: u64, crc: Option<u32>) {
        self.sizes.push(size);
        self.meta.files.push(MetaFile {
            path,
            crc,
            size: None,
            is_excluded: false,
        });
    }

    fn checksum(&mut self, file: &StorageFile) -> Result<u32> {
        let fs = self.db_fs;
        let crc = self.mover.checksum(fs, &file.path(), file.size)?;
        check_recorded(file, crc)?;
        Ok(crc)
    }

    fn copy(&mut self, file: &StorageFile, to: &std::path::Path) -> Result<u32> {
        let (db_fs, fs) = (self.db_fs, self.engine.fs());
        let crc = match &file.contents {
            Some(contents) => self.mover.write(fs, to, contents)?,
            None => {
                let from = file.path();
                self.mover
                    .copy((db_fs, &from), (fs, to), Some(file.size))?
                    .1
            }
        };
        check_recorded(file, crc)?;
        Ok(crc)
    }

    /// Makes everything durable, and then writes the list.
    fn list(&mut self) -> Result<()> {
        let (fs, engine) = (self.engine.fs(), self.engine);
        let is_synced = engine.options.sync;
        if is_synced {
            fs.sync_dir(&engine.private_dir(self.id))?;
            fs.sync_dir(&engine.path(PRIVATE_DIR))?;
            for dir in [SHARED_DIR, SHARED_CHECKSUM_DIR] {
                if fs.entry(&engine.path(dir))?.is_some() {
                    fs.sync_dir(&engine.path(dir))?;
                }
            }
            fs.sync_dir(&engine.options.dir)?;
        }
        check_stopped(&engine.stop)?;
        // The progress that is reported counts bytes of the database.
        self.mover.progress = None;
        let text = self.meta.to_text(engine.options.schema_version);
        let temp = engine.path(META_DIR).join(format!(".{}.tmp", self.id));
        let written = self.mover.write(fs, &temp, text.as_bytes());
        let named = written.and_then(|_| fs.rename(&temp, &engine.meta_path(self.id)));
        if named.is_err() {
            let _ = delete_if_there(fs, &temp);
        }
        named?;
        if is_synced {
            fs.sync_dir(&engine.path(META_DIR))?;
        }
        Ok(())
    }

    /// Removes what there is of it, the list first.
    fn take_back(&self) -> Result<()> {
        let fs = self.fs();
        delete_if_there(fs, &self.engine.meta_path(self.id))?;
        // It may have had its name for a moment.
        fs.sync_dir(&self.engine.path(META_DIR))?;
        let new = self.new_shared.iter();
        let deleted = new.map(|path| delete_if_there(fs, path));
        let deleted = deleted.fold(Ok(()), Result::and);
        deleted.and(delete_dir_of_files(fs, &self.engine.private_dir(self.id)))
    }
}

/// Compares what was read with the checksum that the MANIFEST has, if it has one of our kind.
fn check_recorded(file: &StorageFile, crc: u32) -> Result<()> {
    let is_known = file.checksum_function == CRC32C_FUNCTION && !file.checksum.is_empty();
    if is_known && file.checksum != crc.to_be_bytes() {
        let text = "the checksum of the file is not the MANIFEST's";
        return Err(Error::corruption(text).with_path(&file.path()));
    }
    Ok(())
}
