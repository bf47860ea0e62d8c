//! Step 7: the database gets a speed disk, a file of which its log then is, a child that writes with sync is killed, and the
//! log comes back into files.
//!
//! On the one disk that the tour has a log in a file of fixed size is faster than one that grows, since a sync changes
//! nothing of the file system; on a faster device it is faster still.

use super::crash::{self, Left};
use super::show::Show;
use crate::fail::At;
use crate::term;
use serde_json::json;
use spanlith::migrate_to_files;
use spanlith::options::DbOptions;
use spanlith_env::{Env, create_device_file};
use spanlith_speed::{FormatOptions, Target, format_disk};
use std::path::Path;

/// Of the disk.
const BYTES: u64 = 64 << 20;

/// Runs the step; the entries that the child left. `files` is what the child before left, whose log was a file.
pub fn run(
    dir: &Path,
    data: &Path,
    acks: u64,
    files: &Left,
    show: &mut Show,
) -> anyhow::Result<u64> {
    let disk = dir.join("log.sd");
    let env = Env::system();
    create_device_file(&disk, BYTES).at(dir)?;
    let device = Target::parse(&disk.to_string_lossy()).and_then(|t| t.open(&*env.fs, false));
    let mut instance = [0; 16];
    instance[..8].copy_from_slice(&env.rng.next_u64().to_le_bytes());
    instance[8..].copy_from_slice(&env.rng.next_u64().to_le_bytes());
    device
        .and_then(|device| format_disk(&*device, &FormatOptions::default(), instance))
        .at(dir)?;
    show.say(&format!(
        "{} of {} is a speed disk now",
        disk.display(),
        term::bytes(BYTES)
    ));
    let left = crash::run(data, Some(&disk), acks, show)?;
    show.say(&format!(
        "synced writes by second: {} with the log in files, {} on the speed disk",
        term::count(files.rate as u64),
        term::count(left.rate as u64)
    ));
    let migrated = migrate_to_files(&env, data, &DbOptions::default(), None, false).at(data)?;
    show.verdict(
        !migrated.was_on_files,
        &format!(
            "taken away again: {} in files, the directory is RocksDB's to open",
            term::counted(migrated.logs as u64, "log")
        ),
    );
    show.record(
        "speed_disk",
        json!({
            "synced_per_second": left.rate, "synced_per_second_in_files": files.rate,
            "logs_brought_back": migrated.logs,
        }),
    );
    Ok(left.found)
}
