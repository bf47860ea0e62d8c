//! Describes what must hold between the MANIFEST and the files before anything is read or changed.

use super::elsewhere;
use super::manifest::Recovered;
use super::request::OpenRequest;
use crate::core::family_paths;
use crate::version::filenames;
use spanlith_base::{Error, Result};
use std::collections::BTreeMap;

/// The options can be met by what was recovered, and its tables are there.
///
/// # Errors
/// `InvalidArgument` for a family that is missing; `Corruption` that names a file.
pub(super) fn check_recovered(request: &OpenRequest, r: &Recovered, manifest: u64) -> Result<()> {
    let options = &request.options;
    if options.use_direct_reads
        || options.use_direct_io_for_flush_and_compaction
        || options.use_direct_io_for_compaction_reads
    {
        let path = request.dir.join(filenames::manifest_file_name(manifest));
        request.env.fs.check_direct(&path)?;
    }
    if (!options.create_missing_column_families || request.read_only)
        && let Some(f) = r.missing.first()
    {
        let text = format!("Column family not found: {}", f.name);
        return Err(Error::invalid_argument(text));
    }
    if options.best_efforts_recovery {
        return Ok(());
    }
    check_files(request, r, manifest)
}

/// Every log that the MANIFEST tracks and recovery needs is there and as long as was synced.
pub(super) fn check_tracked(
    request: &OpenRequest,
    tracked: &BTreeMap<u64, Option<u64>>,
    first_log: u64,
    logs: &[u64],
) -> Result<()> {
    for (&n, &synced) in tracked.range(first_log..) {
        if !logs.contains(&n) {
            let text = format!("Missing WAL with log number: {n}.");
            return Err(Error::corruption(text));
        }
        let path = request.wal_dir().join(filenames::log_file_name(n));
        let size = request.env.fs.size(&path)?;
        if let Some(synced) = synced.filter(|&synced| size < synced) {
            return Err(Error::corruption(format!(
                "Size mismatch: WAL (log number: {n}) in MANIFEST is {synced} bytes , but actually \
                 is {size} bytes on disk."
            ))
            .with_path(&path));
        }
    }
    Ok(())
}

/// Every table that the MANIFEST names is there and has its size.
fn check_files(request: &OpenRequest, r: &Recovered, manifest: u64) -> Result<()> {
    let suffix = format!(
        "  The file {} may be corrupted.",
        request
            .dir
            .join(filenames::manifest_file_name(manifest))
            .display()
    );
    let files = r.families.iter().flat_map(|family| {
        let paths = family_paths(&request.dir, &family.request);
        let files = family.version.file_iter().map(|f| f.1.clone());
        files.map(move |f| (&family.request.name, paths.clone(), f))
    });
    for (family, paths, f) in files {
        let path = paths.table(f.number, f.path_id);
        let size = match request.env.fs.size(&path) {
            Ok(s) => s,
            Err(e) if e.subcode() == Some(spanlith_base::SubCode::PathNotFound) => {
                let name = filenames::table_file_name(f.number);
                if let Some(e) = elsewhere::table_elsewhere(request, family, &paths, &name) {
                    return Err(e.with_path(&path));
                }
                let text = "No such file or directory";
                return Err(Error::corruption(format!(
                    "Corruption: IO error: {text}: While open a file for random read: {}: {text}{suffix}",
                    path.display()
                ))
                .with_path(&path));
            }
            Err(e) => return Err(e),
        };
        if size != f.size {
            return Err(Error::corruption(format!(
                "Sst file size mismatch between expected {} and file system {size} sstable: {}{suffix}",
                f.size,
                path.display()
            ))
            .with_path(&path));
        }
    }
    Ok(())
}
