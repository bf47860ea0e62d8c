//! Reads new tables back before they are recorded (`paranoid_file_checks`).

use super::Engine;
use super::family::{Family, FamilySettings};
use crate::version::{FileMeta, NewFile, TableCache, TableIo, TableIoOptions};
use spanlith_base::{Error, Result};
use spanlith_table::{ReadParams, ReaderOptions, TableSummary};

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
        let o = &self.c.options;
        let own = TableCache {
            io: TableIo::new(
                self.c.env.fs.clone(),
                TableIoOptions {
                    direct_reads: o.use_direct_reads,
                    ..TableIoOptions::default()
                },
            ),
            paths: family.cache.paths.clone(),
            readers: ReaderOptions {
                cache: None,
                ..family.cache.readers.clone()
            },
            verify_unique_id: family.cache.verify_unique_id,
        };
        let meta = FileMeta::from_new_file(file, None);
        let reader = own.reader(&meta)?;
        let mut iter = reader.iter(ReadParams::default());
        let mut read = spanlith_table::ContentHash::default();
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
