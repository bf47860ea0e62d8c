//! Writing the MANIFEST: the durable truth about which files make up the database.

use super::Engine;
use crate::version::{Version, VersionEdit, filenames};
use spanlith_base::{FileNumber, Result, SequenceNumber};
use spanlith_env::{Env, IoActivity};
use spanlith_wal::LogWriter;
use std::path::Path;

/// Guarded by the manifest token.
pub(crate) struct ManifestState {
    /// `None`: the next edit starts a new file (at open, and after a failed write: E2).
    pub writer: Option<LogWriter>,
    /// Number of the file named by CURRENT.
    pub number: FileNumber,
}

/// Counters that a snapshot of the version set records.
pub(crate) struct SnapshotFacts<'a> {
    pub version: &'a Version,
    pub comparator: &'a str,
    pub db_id: &'a str,
    pub log_number: FileNumber,
    pub min_log_number: FileNumber,
    pub table_sequence: SequenceNumber,
}

/// The records a new MANIFEST begins with (`docs/formats/manifest.md`, "snapshot").
pub(crate) fn snapshot_edits(f: &SnapshotFacts<'_>) -> Vec<VersionEdit> {
    let first = VersionEdit {
        db_id: Some(f.db_id.into()),
        ..VersionEdit::default()
    };
    let names = VersionEdit {
        comparator: Some(f.comparator.into()),
        persist_user_defined_timestamps: Some(true),
        ..VersionEdit::default()
    };
    let mut files = VersionEdit {
        log_number: Some(f.log_number),
        last_sequence: Some(f.table_sequence),
        ..f.version.to_edit()
    };
    if f.min_log_number > 0 {
        files.min_log_number_to_keep = Some(f.min_log_number);
    }
    vec![first, names, files]
}

/// Installs `CURRENT` naming MANIFEST `number`: temporary file, sync, rename, directory sync.
pub(crate) fn write_current(env: &Env, dir: &Path, number: FileNumber) -> Result<()> {
    let temp = dir.join(filenames::temp_file_name(number));
    let mut file = env.fs.create(&temp, IoActivity::Manifest)?;
    file.append(filenames::current_content(number).as_bytes())?;
    file.sync()?;
    file.close()?;
    env.fs.rename(&temp, &dir.join(filenames::CURRENT_FILE))?;
    env.fs.sync_dir(dir)
}

impl Engine {
    /// Starts MANIFEST `number` with a snapshot of the installed version and `edit`, synced, and
    /// makes it current.
    pub(super) fn roll_manifest(
        &self,
        number: FileNumber,
        facts: &SnapshotFacts<'_>,
        edit: &VersionEdit,
    ) -> Result<LogWriter> {
        let env = &self.c.env;
        let path = self.path(filenames::manifest_file_name(number));
        let mut writer = LogWriter::new(env.fs.create(&path, IoActivity::Manifest)?, 0);
        for e in snapshot_edits(facts) {
            writer.add_record(&e.encode())?;
        }
        writer.add_record(&edit.encode())?;
        writer.sync()?;
        env.fs.sync_dir(&self.c.dir)?;
        write_current(env, &self.c.dir, number)?;
        Ok(writer)
    }
}
