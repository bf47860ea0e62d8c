//! Going on with the MANIFEST of the last open (`reuse_manifest_on_open`).
//!
//! Safe only if the file ends with the last record that was read: whatever lies after would be
//! joined with what is appended. A file that was cut, is damaged at its end or ends inside an atomic
//! group is left, and the next edit starts a new MANIFEST, as without the option.

use crate::core::{Catalog, Components, ManifestLogs};
use crate::info_log::InfoLog;
use crate::version::{VersionEdit, filenames};
use spanlith_base::Result;
use spanlith_env::IoActivity;
use spanlith_wal::LogWriter;
use std::collections::BTreeMap;

/// Describes what recovery found of a MANIFEST that may be continued.
pub(super) struct Reusable {
    /// Its size, if it can be continued.
    pub len: Option<u64>,
    /// Bytes of the snapshot that it begins with; 0 if it does not say.
    pub compact_size: u64,
    /// The database id that it records.
    pub db_id: Option<String>,
    /// Logs that it tracks, and how many bytes of them were synced.
    pub tracked: BTreeMap<u64, Option<u64>>,
    /// Logs that it says are cut, and where.
    pub cuts: BTreeMap<u64, u64>,
    /// Logs that it says do not grow any more, and their synced bytes.
    pub ends: BTreeMap<u64, u64>,
    /// The oldest log that it says recovery needs; 0 if it does not say.
    pub oldest_log: u64,
}

impl Reusable {
    /// Opens the present MANIFEST to append to it, if that is safe.
    ///
    /// # Errors
    /// Of the database id, if it has to be recorded. A file that cannot be opened is no error: the
    /// next edit starts a new one.
    pub(super) fn continue_manifest(
        self,
        c: &Components,
        catalog: &Catalog,
        log: &InfoLog,
    ) -> Result<()> {
        let Some(len) = self.len else {
            log.info(format_args!("the MANIFEST does not end clean: not reused"));
            return Ok(());
        };
        let fs = &c.env.fs;
        let mut manifest = catalog.lock();
        let path = c.dir.join(filenames::manifest_file_name(manifest.number()));
        let file = match fs.reopen(&path, IoActivity::Manifest) {
            Ok(file) if file.len() == len => file,
            Ok(_) => return Ok(()),
            Err(e) => {
                log.warn(format_args!("the MANIFEST cannot be reused: {e}"));
                return Ok(());
            }
        };
        let mut writer = LogWriter::new(file, 0);
        if c.options.write_dbid_to_manifest && self.db_id.as_deref() != Some(c.db_id.as_str()) {
            let edit = VersionEdit {
                db_id: Some(c.db_id.as_str().into()),
                ..VersionEdit::default()
            };
            writer.add_record(&edit.encode())?;
        }
        // The process before may have died between the rename of CURRENT and the sync after it; its
        // records are synced with the first of this one.
        c.dirs.sync(&c.dir)?;
        let tracked = self.tracked.into_iter();
        let logs = ManifestLogs {
            tracked: tracked.map(|(n, size)| (n, size.unwrap_or(0))).collect(),
            cuts: self.cuts,
            ends: self.ends,
            oldest: self.oldest_log,
        };
        manifest.go_on(writer, len, self.compact_size, logs);
        Ok(())
    }
}
