//! The tables that an [`Inventory`] names: where they lie, and readers of them.
//!
//! Readers are opened without the engine, so that a directory which does not open can be read too.

use crate::db::verify::comparator_or_stand_in;
use crate::inventory::{Family, Inventory};
use crate::places::Places;
use spanlith::Result;
use spanlith::version::{NewFile, SPEED_PATH, filenames};
use spanlith_table::{ReadParams, ReaderOptions, TableReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes read at once by walks over whole tables.
const READAHEAD: usize = 1 << 20;

/// Name of a table as it lies in the directory: `.sst`, or `.ldb` as LevelDB calls it.
pub fn name(i: &Inventory, number: u64) -> String {
    let name = filenames::table_file_name(number);
    let legacy = filenames::legacy_table_file_name(number);
    if !i.listing.contains_key(&name) && i.listing.contains_key(&legacy) {
        return legacy;
    }
    name
}

/// The directory with that path id of a family; `None` if nobody said.
pub fn place<'a>(
    i: &'a Inventory,
    places: &'a Places,
    family: &Family,
    path_id: u32,
) -> Option<&'a Path> {
    let speed = i.tables_dir.as_deref().filter(|_| path_id == SPEED_PATH);
    speed.or_else(|| places.dir(&family.name, path_id))
}

/// Path of a table; tables of directories that nobody named are looked for in that of the database.
pub fn path(i: &Inventory, places: &Places, family: &Family, f: &NewFile) -> PathBuf {
    match place(i, places, family, f.path_id) {
        Some(dir) => dir.join(filenames::table_file_name(f.number)),
        None => i.dir.join(name(i, f.number)),
    }
}

/// A reader of a table that knows what the MANIFEST says of it.
///
/// # Errors
/// As [`TableReader::open`].
pub fn open(
    i: &Inventory,
    places: &Places,
    family: &Family,
    f: &NewFile,
) -> Result<Arc<TableReader>> {
    let file = crate::reading::env()
        .fs
        .open_random(&path(i, places, family, f))?;
    let size = file.size();
    let options = ReaderOptions {
        comparator: comparator_or_stand_in(&family.comparator),
        expected_unique_id: Some(f.unique_id),
        largest_seqno: f.largest_seqno,
        stripped_timestamps: !f.user_defined_timestamps_persisted,
        file_number: f.number,
        level: i32::try_from(f.level).unwrap_or(-1),
        ..ReaderOptions::default()
    };
    TableReader::open(file, size, options)
}

/// How walks over whole tables read.
pub fn walk() -> ReadParams {
    ReadParams {
        bypass_cache: true,
        readahead: READAHEAD,
        ..ReadParams::default()
    }
}

/// How single keys are read.
pub fn point() -> ReadParams {
    ReadParams {
        bypass_cache: true,
        ..ReadParams::default()
    }
}

/// User key of a bound in the MANIFEST, with its timestamp if it has one.
pub fn user(internal: &[u8]) -> &[u8] {
    spanlith_base::keys::split_internal(internal).map_or(internal, |(user, _)| user)
}
