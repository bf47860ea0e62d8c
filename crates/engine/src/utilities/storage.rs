//! Of which files a copy of the database consists, and how much of each.
//!
//! The list is one moment: with write leadership, the manifest token and the state mutex in hand nothing is
//! written, so that the versions, the bytes of the MANIFEST and those of the log fit each other. Whoever opens the
//! copy finds every write that was logged by then, in all families, and nothing after it. (RocksDB looks at the logs
//! after the versions, and lets writes go on in between; with evidence, whose records in logs name bytes of the
//! MANIFEST, that would not do.)

use crate::core::{Engine, Place};
use crate::db::Db;
use crate::listener::FlushReason;
use crate::options::sidecar::SIDECAR_FILE;
use crate::options::{FlushOptions, Temperature};
use crate::recovery::manifest_of_copy;
use crate::version::{FileKind, Version, filenames, parse_file_name};
use crate::write::FlushCall;
use spanlith_base::{FileNumber, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Describes what a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorageKind {
    /// A log.
    Log,
    /// A table.
    Table,
    /// The MANIFEST.
    Manifest,
    /// CURRENT.
    Current,
    /// Options: the newest OPTIONS file, and the file of options that RocksDB does not have.
    Options,
    /// A blob file.
    Blob,
}

impl StorageKind {
    /// RocksDB's number of it (`FileType`).
    pub fn number(self) -> i32 {
        match self {
            Self::Log => 0,
            Self::Table => 2,
            Self::Manifest => 3,
            Self::Current => 4,
            Self::Options => 9,
            Self::Blob => 10,
        }
    }
}

/// A file of a copy.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StorageFile {
    /// Its name in the copy.
    pub name: String,
    /// The directory that it is in now.
    pub dir: PathBuf,
    /// Its number; 0 of one that has none.
    pub number: FileNumber,
    /// Says what it is.
    pub kind: StorageKind,
    /// How many bytes of it belong to the copy.
    pub size: u64,
    /// Its temperature as the MANIFEST has it.
    pub temperature: Temperature,
    /// Checksum of the whole file, if it is known and was asked for; else empty.
    pub checksum: Vec<u8>,
    /// Name of the function that made the checksum; as RocksDB, `Unknown` if there is no checksum although it was
    /// asked for.
    pub checksum_function: Vec<u8>,
    /// Of a table, the session that wrote it, if it is known and was asked for; else empty.
    pub session_id: String,
    /// Says what the copy's file holds, whatever stands in this one.
    pub contents: Option<Vec<u8>>,
    /// Only the first `size` bytes belong to the copy; it may grow, so that it cannot be linked.
    pub is_trimmed: bool,
    /// It is written again in place once it is not needed any more, so that it cannot be linked.
    pub is_reused: bool,
}

impl StorageFile {
    /// Where it is now.
    pub fn path(&self) -> PathBuf {
        self.dir.join(&self.name)
    }
}

/// Describes what [`Db::storage_files`] does before it looks.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct StorageOptions {
    /// Memtables are flushed if the logs have so many bytes; 0 always, `u64::MAX` never, but of a database with
    /// two-phase commit (`allow_2pc`) always. What was written without a log is in the copy only if it is flushed.
    pub flush_from: u64,
    /// All families are flushed at one moment, so that of what was written without a log the copy has all or
    /// nothing.
    pub atomic_flush: bool,
    /// Files come with their checksums.
    pub with_checksums: bool,
    /// Tables come with the session that wrote them: each is opened, if it is not open.
    pub with_sessions: bool,
}

impl StorageOptions {
    /// See the field.
    #[must_use]
    pub fn flush_from(mut self, bytes: u64) -> Self {
        self.flush_from = bytes;
        self
    }

    /// See the field.
    #[must_use]
    pub fn atomic_flush(mut self, yes: bool) -> Self {
        self.atomic_flush = yes;
        self
    }

    /// See the field.
    #[must_use]
    pub fn with_checksums(mut self, yes: bool) -> Self {
        self.with_checksums = yes;
        self
    }

    /// See the field.
    #[must_use]
    pub fn with_sessions(mut self, yes: bool) -> Self {
        self.with_sessions = yes;
        self
    }
}

impl Db {
    /// The files of which a copy of the database consists at one moment: tables, blob files, the MANIFEST, CURRENT,
    /// options, logs. They stay as long as deletions are disabled, which the caller sees to
    /// ([`Self::disable_file_deletions`]).
    ///
    /// # Errors
    /// Of the flush; the background error that stops writes; `NotSupported` of a database that was opened for
    /// reading with some of its families only; `Io`.
    pub fn storage_files(&self, options: &StorageOptions) -> Result<Vec<StorageFile>> {
        StorageList {
            engine: self.engine(),
        }
        .files(options)
    }
}

/// Keeps the files of a database as long as it lives.
pub(super) struct Kept<'a>(&'a Db);

impl<'a> Kept<'a> {
    pub(super) fn new(db: &'a Db) -> Self {
        db.disable_file_deletions();
        Self(db)
    }
}

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        self.0.enable_file_deletions();
    }
}

/// Describes what was current at one moment.
struct Moment {
    /// Of each family its files.
    versions: Vec<(Arc<crate::core::Family>, Arc<Version>)>,
    manifest: FileNumber,
    /// Bytes of the MANIFEST; `None` if nobody writes it.
    manifest_len: Option<u64>,
    /// A number that no file has.
    next_file: FileNumber,
    /// Logs that recovery may need, oldest first, and their bytes, as far as those are known.
    logs: Vec<(FileNumber, Option<u64>)>,
}

/// Lists the files of a database at one moment.
struct StorageList<'a> {
    engine: &'a Engine,
}

impl StorageList<'_> {
    fn files(&self, options: &StorageOptions) -> Result<Vec<StorageFile>> {
        if !self.engine.c.read_only {
            self.flush_for_copy(options)?;
        }
        let moment = self.moment()?;
        let mut files = Vec::new();
        for (family, version) in &moment.versions {
            self.add_tables(&mut files, family, version, options);
        }
        self.add_manifest(&mut files, &moment)?;
        self.add_options(&mut files)?;
        let last = moment.logs.len().saturating_sub(1);
        for (at, &(number, len)) in moment.logs.iter().enumerate() {
            let name = filenames::log_file_name(number);
            let size = match len {
                Some(len) => len,
                None => {
                    let path = self.engine.logs.dir().join(&name);
                    self.engine.c.env.fs.size(&path)?
                }
            };
            files.push(StorageFile {
                is_trimmed: at == last,
                is_reused: self.engine.c.options.recycle_log_file_num > 0,
                ..file(StorageKind::Log, number, name, self.engine.logs.dir(), size)
            });
        }
        if options.with_checksums {
            let unknown = |f: &&mut StorageFile| f.checksum_function.is_empty();
            for f in files.iter_mut().filter(unknown) {
                f.checksum_function = b"Unknown".to_vec();
            }
        }
        Ok(files)
    }

    /// Flushes what the options want to have in tables.
    fn flush_for_copy(&self, options: &StorageOptions) -> Result<()> {
        let is_due = match options.flush_from {
            // An open of the copy without two-phase commit, or for reading, could not put a section that is in
            // one log and its commit in another together. As in RocksDB, the limit does not count.
            _ if self.engine.c.options.allow_2pc => true,
            0 => true,
            u64::MAX => false,
            from => {
                let leader = self.engine.leader.lock();
                let current = leader.log.writer().map_or(0, |log| log.len());
                drop(leader);
                let state = self.engine.state.lock();
                let closed = state.logs.closed_bytes(state.min_log_number());
                current + closed >= from
            }
        };
        if !is_due {
            return Ok(());
        }
        let how = FlushOptions {
            atomic: options.atomic_flush,
            ..FlushOptions::default()
        };
        let (lsm, leader) = (self.engine.lsm(), &self.engine.leader);
        FlushCall::of_all(lsm, leader, FlushReason::GetLiveFiles).run(how)
    }

    /// Looks at everything at once.
    fn moment(&self) -> Result<Moment> {
        let mut leader = self.engine.leader.lock();
        if let Some(e) = self.engine.refusal() {
            return Err(e);
        }
        // Records that `manual_wal_flush` holds back belong to the copy.
        let mut flushed = Ok(());
        for old in self.engine.logs.unsynced().iter_mut() {
            flushed = flushed.and_then(|()| old.flush());
        }
        flushed = flushed.and_then(|()| leader.log.flush());
        flushed.inspect_err(|e| self.engine.set_error(Place::Log, e))?;
        let manifest = self.engine.catalog.lock();
        let state = self.engine.state.lock();
        let logs = if self.engine.c.read_only {
            self.logs_on_disk(state.logs.kept())?
        } else {
            let len = |number| match leader.log.writer() {
                // With nothing but the note that it begins with it is as good as empty, as in RocksDB.
                Some(log) if log.log_number() == number => match leader.log.bytes() {
                    0 => Some(0),
                    _ => Some(log.len()),
                },
                _ => state.logs.closed_size(number),
            };
            state.logs.needed().map(|n| (n, len(n))).collect()
        };
        let versions = state.families.values();
        Ok(Moment {
            versions: versions
                .map(|f| (f.family.clone(), f.version.clone()))
                .collect(),
            manifest: manifest.number(),
            manifest_len: manifest.len(),
            next_file: self.engine.catalog.next_file(),
            logs,
        })
    }

    /// Logs in their directory, oldest first, from `first` on.
    fn logs_on_disk(&self, first: FileNumber) -> Result<Vec<(FileNumber, Option<u64>)>> {
        let names = self.engine.c.env.fs.list(self.engine.logs.dir())?;
        let numbers = names.iter().filter_map(|name| match parse_file_name(name) {
            Some(FileKind::Log(n)) if n >= first => Some((n, None)),
            _ => None,
        });
        let mut logs: Vec<_> = numbers.collect();
        logs.sort_unstable();
        Ok(logs)
    }

    fn add_tables(
        &self,
        files: &mut Vec<StorageFile>,
        family: &crate::core::Family,
        version: &Version,
        options: &StorageOptions,
    ) {
        let with_checksums = options.with_checksums;
        for (_, f) in version.file_iter() {
            let dir = family.table_path(f.number, f.path_id);
            let dir = dir.parent().unwrap_or(&self.engine.c.dir).to_path_buf();
            let name = filenames::table_file_name(f.number);
            let mut file = file(StorageKind::Table, f.number, name, &dir, f.size);
            file.temperature =
                Temperature::from_number(f.temperature.into()).unwrap_or(Temperature::Unknown);
            if with_checksums {
                file.checksum.clone_from(&f.file_checksum);
                file.checksum_function
                    .clone_from(&f.file_checksum_func_name);
            }
            // A table that cannot be opened is the business of whoever reads it.
            if options.with_sessions
                && let Ok(table) = family.cache.reader(f)
            {
                file.session_id
                    .clone_from(&table.properties().db_session_id);
            }
            files.push(file);
        }
        for blob in version.blob_files.values() {
            let (number, dir) = (blob.file.number, family.blob_dir());
            let name = filenames::blob_file_name(number);
            let mut file = file(StorageKind::Blob, number, name, dir, blob.size());
            if with_checksums {
                file.checksum.clone_from(&blob.file.checksum_value);
                file.checksum_function
                    .clone_from(&blob.file.checksum_method);
            }
            files.push(file);
        }
    }

    fn add_manifest(&self, files: &mut Vec<StorageFile>, moment: &Moment) -> Result<()> {
        let (dir, mut number) = (&self.engine.c.dir, moment.manifest);
        let mut name = filenames::manifest_file_name(number);
        let mut size = match moment.manifest_len {
            Some(len) => len,
            None => self.engine.c.env.fs.size(&dir.join(&name))?,
        };
        let mut contents = None;
        if self.engine.c.resources.tables.is_some() {
            let new = moment.next_file;
            let bytes = manifest_of_copy(&self.engine.c.env, dir, (number, size), new)?;
            (number, size) = (new, bytes.len() as u64);
            name = filenames::manifest_file_name(number);
            contents = Some(bytes);
        }
        files.push(StorageFile {
            is_trimmed: true,
            contents,
            ..file(StorageKind::Manifest, number, name, dir, size)
        });
        let contents = filenames::current_content(number).into_bytes();
        let name = filenames::CURRENT_FILE.to_string();
        files.push(StorageFile {
            is_trimmed: true,
            contents: Some(contents.clone()),
            ..file(StorageKind::Current, 0, name, dir, contents.len() as u64)
        });
        Ok(())
    }

    /// The newest OPTIONS file, and ours beside it.
    fn add_options(&self, files: &mut Vec<StorageFile>) -> Result<()> {
        // None is written meanwhile.
        let _turn = self.engine.options_files.hold();
        let (fs, dir) = (&self.engine.c.env.fs, &self.engine.c.dir);
        let names = fs.list(dir)?;
        let numbers = names.iter().filter_map(|name| match parse_file_name(name) {
            Some(FileKind::Options(n)) => Some(n),
            _ => None,
        });
        if let Some(number) = numbers.max() {
            let name = filenames::options_file_name(number);
            let size = fs.size(&dir.join(&name))?;
            files.push(file(StorageKind::Options, number, name, dir, size));
        }
        if names.iter().any(|name| name == SIDECAR_FILE) {
            let size = fs.size(&dir.join(SIDECAR_FILE))?;
            let name = SIDECAR_FILE.to_string();
            files.push(file(StorageKind::Options, 0, name, dir, size));
        }
        Ok(())
    }
}

/// A file that is copied as it is.
fn file(kind: StorageKind, number: FileNumber, name: String, dir: &Path, size: u64) -> StorageFile {
    StorageFile {
        name,
        dir: dir.to_path_buf(),
        number,
        kind,
        size,
        temperature: Temperature::Unknown,
        checksum: Vec::new(),
        checksum_function: Vec::new(),
        session_id: String::new(),
        contents: None,
        is_trimmed: false,
        is_reused: false,
    }
}
