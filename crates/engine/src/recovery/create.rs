//! Makes an empty database: IDENTITY, MANIFEST-000001, CURRENT, in RocksDB's order, each synced.

use super::request::OpenRequest;
use crate::core::{FamilyRequest, write_current};
use crate::version::{CurrentMarks, VersionEdit, filenames};
use spanlith_base::stats::Histogram;
use spanlith_base::{Result, SequenceNumber};
use spanlith_env::{Env, IoActivity};
use spanlith_wal::LogWriter;
use spanlith_wal::record::HEADER_SIZE;
use std::path::Path;

/// A random RFC 4122 identifier in text form.
pub(super) fn new_db_id(env: &Env) -> String {
    let (a, b) = (env.rng.next_u64(), env.rng.next_u64());
    // Version 4, variant 1.
    let a = a & !0xf000 | 0x4000;
    let b = b & !(0xc << 60) | (0x8 << 60);
    format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        a >> 32,
        (a >> 16) & 0xffff,
        a & 0xffff,
        b >> 48,
        b & 0xffff_ffff_ffff
    )
}

/// Writes IDENTITY: temporary file, sync, rename, directory sync.
pub(super) fn write_identity(env: &Env, dir: &Path, id: &str) -> Result<()> {
    let temp = dir.join(filenames::temp_file_name(0));
    let mut file = env.fs.create(&temp, IoActivity::Other)?;
    file.append(id.as_bytes())?;
    file.sync()?;
    file.close()?;
    env.fs.rename(&temp, &dir.join(filenames::IDENTITY_FILE))?;
    env.fs.sync_dir(dir)
}

/// Creates the files of an empty database in an existing directory, that of the request. `last_sequence`
/// is the last number that no write gets.
pub(super) fn create_database(
    request: &OpenRequest,
    default: &FamilyRequest,
    last_sequence: SequenceNumber,
) -> Result<()> {
    let OpenRequest {
        env, dir, options, ..
    } = request;
    let id = match super::current::find_identity(env, dir)? {
        Some(id) => id,
        None => {
            let id = new_db_id(env);
            if options.write_identity_file {
                write_identity(env, dir, &id)?;
            }
            id
        }
    };
    let path = dir.join(filenames::manifest_file_name(1));
    let mut log = LogWriter::new(env.fs.create(&path, IoActivity::Manifest)?, 0);
    let mut edit = VersionEdit {
        db_id: options.write_dbid_to_manifest.then(|| id.into()),
        comparator: Some(default.comparator.name().into()),
        persist_user_defined_timestamps: Some(default.options.persist_user_defined_timestamps),
        log_number: Some(0),
        next_file_number: Some(2),
        last_sequence: Some(last_sequence),
        ..VersionEdit::default()
    };
    let mut record = edit.encode();
    let mut size = None;
    // The mark makes the record longer by its own digits.
    while request.options.own.evidence && size != Some(HEADER_SIZE + record.len()) {
        size = Some(HEADER_SIZE + record.len());
        edit.manifest_mark = size.map(|n| n as u64);
        record = edit.encode();
    }
    log.add_record(&record)?;
    let clock = &env.clock;
    let timed = request.statistics.as_ref().filter(|s| s.wants_times());
    let timed = timed.map(|s| (s, clock.monotonic_nanos()));
    log.sync()?;
    if let Some((s, began)) = timed {
        let took = clock.monotonic_nanos().saturating_sub(began) / 1000;
        s.record_time(Histogram::ManifestFileSyncMicros, took);
    }
    log.close()?;
    let open = env.fs.open_dir(dir)?;
    open.sync()?;
    write_current(env, dir, &*open, 1, &CurrentMarks::default())
}
