//! Reads new tables back before they are recorded (`paranoid_file_checks`).

use super::Engine;
use super::family::{Family, FamilySettings};
use crate::version::{FileMeta, NewFile, TableIo, TableIoOptions};
use spanlith_base::{Error, Result};
use spanlith_table::{ContentHash, ReadParams, TableSummary};

impl Engine {
    /// Reads a table that was just written from the file, past the block cache, and compares it with
    /// what was handed to the writer. Costs a read of the whole table, and nothing without the option.
    ///
    /// # Errors
    /// `Corruption` if entries differ, or whatever reading finds.
    pub(crate) fn recheck_table(
        &self,
        family: &Family,
        settings: &FamilySettings,
        file: &NewFile,
        summary: &TableSummary,
    ) -> Result<()> {
        if !settings.options.paranoid_file_checks {
            return Ok(());
        }
        let io = TableIo::new(
            self.c.env.fs.clone(),
            TableIoOptions {
                direct_reads: self.c.options.use_direct_reads,
                ..TableIoOptions::default()
            },
        );
        let own = family.cache.apart(io);
        let meta = FileMeta::from_new_file(file, None);
        let reader = own.reader(&meta)?;
        let mut iter = reader.iter(ReadParams::default());
        let mut read = ContentHash::default();
        iter.seek_to_first();
        while iter.valid() {
            read.add(iter.key(), iter.value());
            iter.next();
        }
        iter.status()?;
        if summary.content.is_some_and(|written| written != read) {
            let path = family.table_path(file.number, file.path_id);
            return Err(Error::corruption("Paranoid checksums do not match").with_path(&path));
        }
        Ok(())
    }
}
