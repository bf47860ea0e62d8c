//! A MANIFEST made of the tables, blob files and logs that are there, where none can be read.
//!
//! Each table says of which family it is and how that orders its keys; its bounds and sequence numbers are read from its
//! entries. All tables go to level 0, which may overlap, the one with the newest entries first. Which of them
//! compactions had replaced only a MANIFEST says: an older value, or one that had been deleted, may come to light. Logs
//! are replayed from the first that has an update newer than all tables of a family, so that as a rule no merge operand
//! counts twice: that takes the numbers as the tables have them, and those of the deepest level are 0. A family that was
//! compacted, while another one kept its logs, is replayed from the first of these.
//!
//! Nothing below changes: the MANIFEST is in memory. `db repair` writes one.

use super::mend::rewrite;
use crate::inventory::Inventory;
use crate::overlay::Overlay;
use crate::term::count;
use spanlith::version::{filenames, parse_file_name};
use spanlith::{RemadeManifest, Result, remake_manifest};
use spanlith_env::{Env, FileSystem, IoActivity};
use std::sync::Arc;

/// Describes what was made.
pub struct Remade {
    /// The directory as the MANIFEST that was made describes it.
    pub inventory: Inventory,
    /// Files that could not be taken, and why.
    pub left_out: Vec<String>,
}

/// Makes a MANIFEST for a directory, of which `i` says what files there are. `None` if there are neither tables nor
/// logs.
///
/// # Errors
/// Of reading the directory.
pub fn remake(i: &Inventory) -> Result<Option<Remade>> {
    let parsed = i.options.as_ref().and_then(|o| o.parsed.as_ref().ok());
    let named = parsed.iter().flat_map(|p| &p.cfs);
    let named: Vec<(String, String)> = named
        .map(|cf| (cf.name.clone(), cf.options.comparator.clone()))
        .collect();
    let system = Env::system();
    let Some(made) = remake_manifest(&system, &i.dir, &i.wal_dir, &named)? else {
        return Ok(None);
    };
    let RemadeManifest { records, left_out } = made;
    let number = i
        .listing
        .keys()
        .filter_map(|name| parse_file_name(name)?.number());
    let number = number.max().unwrap_or(0) + 1;
    let name = filenames::manifest_file_name(number);
    let fs = Arc::new(Overlay::new(system.fs));
    rewrite(&*fs, &i.dir.join(&name), 0, &records)?;
    let mut current = fs.create(&i.dir.join(filenames::CURRENT_FILE), IoActivity::Other)?;
    current.append(format!("{name}\n").as_bytes())?;
    current.close()?;
    let env = Env {
        fs,
        ..Env::system()
    };
    let wal_dir = (i.wal_dir != i.dir).then_some(i.wal_dir.as_path());
    let mut inventory = Inventory::read_on(&env, &i.dir, wal_dir)?;
    inventory.made = Some(records);
    Ok(Some(Remade {
        inventory,
        left_out,
    }))
}

/// One line about what a MANIFEST that was made cannot say.
pub fn caveat(i: &Inventory) -> String {
    let tables = i.families.values().map(|f| f.files.len() as u64).sum();
    format!(
        "which of the {} tables are obsolete, which only a MANIFEST says: what had been deleted or overwritten may come \
         to light",
        count(tables)
    )
}
