//! Whose a MANIFEST is.
//!
//! The MANIFEST names the database, and so does IDENTITY. RocksDB believes the first and rewrites the
//! second. If the two differ, our notes in the logs tell which of them was exchanged: they count only
//! with the name of the database they were written in.

use super::current::find_identity;
use super::manifest::Recovered;
use super::request::OpenRequest;
use crate::core::{Note, NotePlace};
use crate::options::SyncedLogDamage;
use crate::version::filenames;
use spanlith_base::{Error, Result};
use spanlith_wal::{LogReader, ReadEvent};

/// Refuses the MANIFEST of another database: one that names another than IDENTITY, where notes in logs
/// are of the one that IDENTITY names. Reads the logs, but only if the names differ.
///
/// # Errors
/// `Corruption` that names the MANIFEST; those of IDENTITY and of listing.
pub(super) fn check_whose(
    request: &OpenRequest,
    recovered: &Recovered,
    manifest: u64,
) -> Result<()> {
    let evidence = &request.options.own;
    let judges = evidence.evidence && evidence.synced_log_damage == SyncedLogDamage::Refuse;
    if !judges || request.options.best_efforts_recovery {
        return Ok(());
    }
    let Some(named) = &recovered.db_id else {
        return Ok(());
    };
    let Some(other) = find_identity(&request.env, &request.dir)?.filter(|id| id != named) else {
        return Ok(());
    };
    for log in request.list_numbers()?.1 {
        // A log that cannot be read may not be needed; if it is, replay meets the error again.
        if has_note_of(request, log, &other).unwrap_or(false) {
            let path = request.dir.join(filenames::manifest_file_name(manifest));
            return Err(Error::corruption(format!(
                "MANIFEST {manifest:06} is of database {named}, but IDENTITY and log {log:06} are of {other}"
            ))
            .with_path(&path));
        }
    }
    Ok(())
}

/// Returns whether a log holds a note of the database given. Damage is passed over.
fn has_note_of(request: &OpenRequest, log: u64, db_id: &str) -> Result<bool> {
    let path = request.wal_dir().join(filenames::log_file_name(log));
    let mut reader = LogReader::new(request.env.fs.open_sequential(&path)?, log);
    loop {
        match reader.next_event()? {
            ReadEvent::Record { offset, .. } => {
                let place = NotePlace { db_id, log, offset };
                if Note::of_batch(reader.record(), &place).is_some() {
                    return Ok(true);
                }
            }
            ReadEvent::Eof | ReadEvent::OldRecord { .. } => return Ok(false),
            _ => {}
        }
    }
}
