//! Commands that take data out of a database as files, and bring it in as files.

use super::{Ldb, Stop};
use crate::os_text;
use spanlith::{
    BackupEngine, BackupOptions, CreateBackupOptions, FamilyOptions, IngestOptions, RestoreOptions,
    SstWriter,
};
use spanlith_env::Env;
use std::io::{BufRead, Write};
use std::path::PathBuf;

/// Flags of `ingest_extern_sst` with what they are if they are not given.
const INGEST_FLAGS: [(&str, bool); 6] = [
    ("move_files", false),
    ("snapshot_consistency", true),
    ("allow_global_seqno", true),
    ("allow_blocking_flush", true),
    ("ingest_behind", false),
    ("write_global_seqno", true),
];

impl Ldb {
    fn backup_dir(&self) -> Result<PathBuf, Stop> {
        let remote = ["backup_env_uri", "backup_fs_uri"];
        if remote.iter().any(|name| self.args.option(name).is_some()) {
            let text = "Not implemented: --backup_env_uri and --backup_fs_uri";
            return Err(Stop::failed(text));
        }
        self.args.number("num_threads")?;
        self.args.number("stderr_log_level")?;
        let dir = self.args.path("backup_dir");
        dir.filter(|dir| !dir.as_os_str().is_empty())
            .ok_or_else(|| Stop::failed("--backup_dir: missing backup directory"))
    }

    pub(super) fn backup(&mut self) -> Result<(), Stop> {
        let dir = self.backup_dir()?;
        let (_, cf) = self.open_to_write()?;
        writeln!(self.out, "open db OK")?;
        let backups = BackupEngine::open(BackupOptions::new(dir), &Env::system())?;
        writeln!(self.out, "open backup engine OK")?;
        backups.create(cf.db(), &CreateBackupOptions::default())?;
        writeln!(self.out, "create new backup OK")?;
        self.close(cf)
    }

    pub(super) fn restore(&mut self) -> Result<(), Stop> {
        let (dir, to) = (self.backup_dir()?, self.dir()?);
        let meta = dir.join("meta");
        if !meta.exists() {
            // Nothing is made there.
            let text = format!("NotFound: {} is missing", meta.display());
            return Err(Stop::failed(text));
        }
        let backups = BackupEngine::open(BackupOptions::new(dir), &Env::system())?;
        writeln!(self.out, "open restore engine OK")?;
        backups.restore(None, &to, &to, &RestoreOptions::default())?;
        Ok(writeln!(self.out, "restore from backup OK")?)
    }

    pub(super) fn write_external(&mut self) -> Result<(), Stop> {
        let [path] = &self.args.words[..] else {
            return Err(Stop::failed("output SST file path must be specified"));
        };
        let path = os_text::to_path(path);
        let (target, cf) = self.open_to_write()?;
        let family = FamilyOptions::new(cf.name())
            .options(cf.options())
            .table_options(cf.table_options())
            .comparator(cf.comparator().clone());
        let mut table = SstWriter::create(&path, family)
            .map_err(|e| Stop::failed(format!("failed to open SST file: {e}")))?;
        let mut bad = 0u64;
        for line in std::io::stdin().lock().split(b'\n') {
            match self.entry(&line?)? {
                Some((key, value)) => {
                    let value = target.stored(value);
                    let put = table.put(key, value);
                    let text = |e| format!("failed to write record to file: {e}");
                    put.map_err(|e| Stop::failed(text(e)))?;
                }
                None => bad += 1,
            }
        }
        table
            .finish()
            .map_err(|e| Stop::failed(format!("Failed to finish writing to file: {e}")))?;
        if bad > 0 {
            tell!("Warning: {bad} bad lines ignored.");
        }
        tell!("external SST file written to {}", path.display());
        self.close(cf)
    }

    pub(super) fn ingest_external(&mut self) -> Result<(), Stop> {
        let [path] = &self.args.words[..] else {
            return Err(Stop::failed("input SST path must be specified"));
        };
        let path = os_text::to_path(path);
        let [moves, consistent, numbers, flushes, behind, rewrites] =
            INGEST_FLAGS.map(|(name, default)| match self.args.option(name) {
                Some(text) => text == "true",
                None => default || self.args.is(name),
            });
        if rewrites && !numbers {
            return Err(Stop::failed(
                "ldb cannot write global_seqno to the ingested SST when global_seqno is not allowed",
            ));
        }
        let (_, cf) = self.open_to_write()?;
        let options = IngestOptions::new()
            .move_files(moves)
            .snapshot_consistency(consistent)
            .allow_global_seqno(numbers)
            .allow_blocking_flush(flushes)
            .ingest_behind(behind);
        cf.ingest([path], &options)
            .map_err(|e| Stop::failed(format!("failed to ingest external SST: {e}")))?;
        tell!("external SST files ingested");
        self.close(cf)
    }
}
