//! Deletes one table that the caller names, by the rules of RocksDB's former `DeleteFile`.
//!
//! The table leaves the version in an edit of its own, so that the call either has no effect or a
//! durable one. Only a table whose loss uncovers nothing older may go: one of the last level that has
//! tables, or the oldest of level 0 where no deeper level has any.

use crate::core::Engine;
use crate::version::{FileKind, VersionEdit, parse_file_name};
use spanlith_base::{Error, Result};
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Engine {
    /// Deletes the table called `name` (`/000012.sst` or `000012.sst`), whatever snapshots see in it.
    ///
    /// # Errors
    /// `InvalidArgument` if no family has the table, if it is being compacted, or if its place is not
    /// one from which a table may go; errors of the MANIFEST.
    pub(crate) fn delete_table_file(self: &Arc<Self>, name: &str) -> Result<()> {
        self.writable()?;
        let Some(FileKind::Table(number)) = parse_file_name(name) else {
            return Err(Error::invalid_argument(format!(
                "Invalid file name: {name}"
            )));
        };
        let refused = |why: &str| Err(Error::invalid_argument(format!("{why}: {name}")));
        let (family, level, file) = {
            let state = self.state.lock();
            let found = state.families.values().find_map(|family| {
                let (level, file) = family
                    .version
                    .file_iter()
                    .find(|(_, f)| f.number == number)?;
                Some((family, level, file.clone()))
            });
            let Some((family, level, file)) = found else {
                return refused("File not found");
            };
            let version = &family.version;
            if file.is_being_compacted() {
                return refused("File is being compacted");
            }
            let mut deeper = level + 1..version.num_levels();
            if deeper.any(|deeper| !version.files(deeper).is_empty()) {
                return refused("File not in last level");
            }
            if level == 0
                && version
                    .files(0)
                    .last()
                    .is_some_and(|oldest| oldest.number != number)
            {
                return refused("File in level 0, but not oldest");
            }
            file.being_compacted.store(true, Ordering::Relaxed);
            (family.family.clone(), level, file)
        };
        let mut edit = VersionEdit::default();
        edit.deleted_files.push((level as u32, number));
        let done = self.log_and_apply(&family, edit, |_| {});
        {
            let _state = self.state.lock();
            file.being_compacted.store(false, Ordering::Relaxed);
        }
        self.state.notify_all();
        drop(file);
        self.purge_and_log();
        Ok(done?)
    }
}
