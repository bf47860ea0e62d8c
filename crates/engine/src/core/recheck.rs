//! Reads new tables back before they are recorded (`paranoid_file_checks`, `verify_output_flags`).

use super::family::Family;
use crate::options::{CfOptions, FixedDbOptions};
use crate::version::{FileChecksum, FileMeta, NewFile, TableIo, TableIoOptions};
use spanlith_base::{Error, Result};
use spanlith_env::FileSystem;
use spanlith_table::{ContentHash, ReadParams, TableSummary};
use std::sync::Arc;

/// Bits of `verify_output_flags`: what is verified, and of which tables.
mod flag {
    pub const BLOCKS: u32 = 1 << 0;
    pub const CONTENTS: u32 = 1 << 1;
    pub const FILE_CHECKSUM: u32 = 1 << 2;
    pub const OF_COMPACTIONS: u32 = 1 << 10;
}

/// Describes what is verified of a new table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Recheck {
    /// The checksums of all blocks.
    pub blocks: bool,
    /// That its entries are those that were handed to the writer.
    pub contents: bool,
    /// The checksum of the whole file, if it has one.
    pub file_checksum: bool,
}

impl Recheck {
    /// Returns what the options ask of flushes: the flags mean compactions only.
    pub(crate) fn of_flush(options: &CfOptions) -> Self {
        Self {
            contents: options.paranoid_file_checks,
            ..Self::default()
        }
    }

    /// Returns what the options ask of compactions.
    pub(crate) fn of_compaction(options: &CfOptions) -> Self {
        let flags = match options.verify_output_flags {
            flags if flags & flag::OF_COMPACTIONS != 0 => flags,
            _ => 0,
        };
        Self {
            blocks: flags & flag::BLOCKS != 0,
            contents: options.paranoid_file_checks || flags & flag::CONTENTS != 0,
            file_checksum: flags & flag::FILE_CHECKSUM != 0,
        }
    }

    /// Reads a table that was just written from the file in `fs`, past the block cache, and verifies of it what
    /// is asked for. Costs a read of the whole table for each kind of check.
    ///
    /// # Errors
    /// `Corruption` if entries or a checksum differ, or whatever reading finds.
    pub(crate) fn verify(
        self,
        (fs, options): (&Arc<dyn FileSystem>, &FixedDbOptions),
        family: &Family,
        file: &NewFile,
        summary: &TableSummary,
    ) -> Result<()> {
        let checks = self;
        if checks == Self::default() {
            return Ok(());
        }
        let path = family.table_path(file.number, file.path_id);
        if checks.file_checksum && !file.file_checksum.is_empty() {
            let (function, sum) = (&file.file_checksum_func_name, &file.file_checksum);
            FileChecksum::of(options).verify(&**fs, &path, function, sum)?;
        }
        if !checks.blocks && !checks.contents {
            return Ok(());
        }
        let io = TableIo::new(
            fs.clone(),
            TableIoOptions {
                direct_reads: options.use_direct_reads,
                ..TableIoOptions::default()
            },
        );
        let own = family.cache.apart(io);
        let meta = FileMeta::from_new_file(file, None);
        let reader = own.reader(&meta)?;
        if checks.blocks {
            reader.verify_checksums()?;
        }
        if !checks.contents {
            return Ok(());
        }
        let mut iter = reader.iter(ReadParams::default());
        let mut read = ContentHash::default();
        iter.seek_to_first();
        while iter.valid() {
            read.add(iter.key(), iter.value());
            iter.next();
        }
        iter.status()?;
        if summary.content.is_some_and(|written| written != read) {
            return Err(Error::corruption("Paranoid checksums do not match").with_path(&path));
        }
        Ok(())
    }
}
