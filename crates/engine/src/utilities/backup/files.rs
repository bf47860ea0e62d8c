//! Copies of single files with their checksums, and their places in a backup directory.

use super::meta::{PRIVATE_DIR, SHARED_CHECKSUM_DIR, SHARED_DIR};
use super::{BackupNames, BackupOptions};
use crate::utilities::copy::{STEP, read_pieces};
use crate::utilities::storage::StorageFile;
use spanlith_base::checksum::crc32c_append;
use spanlith_base::{Error, Result};
use spanlith_env::{FileSystem, IoActivity, IoDirection, IoPriority, RateLimiter};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// How bytes are moved.
pub(super) struct Mover<'a> {
    pub limiter: Option<&'a RateLimiter>,
    /// Bytes of one read.
    pub step: usize,
    pub sync: bool,
    /// Ends what goes on.
    pub stop: &'a AtomicBool,
    /// Called each time so many bytes more were written.
    pub progress: Option<(u64, &'a (dyn Fn() + Send + Sync))>,
    /// Bytes since the last call.
    pub since_call: u64,
}

impl<'a> Mover<'a> {
    pub(super) fn new(
        options: &BackupOptions,
        limiter: Option<&'a RateLimiter>,
        stop: &'a AtomicBool,
    ) -> Self {
        let step = match options.io_buffer_size {
            0 => STEP,
            bytes => usize::try_from(bytes).unwrap_or(STEP).min(64 << 20),
        };
        // A piece that the limiter gives at once.
        let burst = limiter.map_or(u64::MAX, RateLimiter::single_burst_bytes);
        Self {
            limiter,
            step: step.min(usize::try_from(burst).unwrap_or(STEP)).max(1),
            sync: options.sync,
            stop,
            progress: None,
            since_call: 0,
        }
    }

    /// Reads `size` bytes of a file, or all of it, gives them to `each`, and answers their number and CRC32C.
    fn read(
        &self,
        fs: &dyn FileSystem,
        path: &Path,
        size: Option<u64>,
        each: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<(u64, u32)> {
        let (limiter, stop, mut crc) = (self.limiter, self.stop, 0);
        let done = read_pieces(fs, path, size, self.step, &mut |bytes| {
            check_stopped(stop)?;
            if let Some(limiter) = limiter {
                limiter.request(bytes.len() as u64, IoPriority::Low, IoDirection::Read);
            }
            crc = crc32c_append(crc, bytes);
            each(bytes)
        })?;
        Ok((done, crc))
    }

    /// CRC32C of the first `size` bytes.
    pub(super) fn checksum(&self, fs: &dyn FileSystem, path: &Path, size: u64) -> Result<u32> {
        Ok(self.read(fs, path, Some(size), &mut |_| Ok(()))?.1)
    }

    /// Copies a file, its first `size` bytes or all of it; answers number and CRC32C of the bytes. Its name is not
    /// durable yet. What is left of a copy that failed is the caller's to delete.
    pub(super) fn copy(
        &mut self,
        (from_fs, from): (&dyn FileSystem, &Path),
        (to_fs, to): (&dyn FileSystem, &Path),
        size: Option<u64>,
    ) -> Result<(u64, u32)> {
        let mut out = to_fs.create(to, IoActivity::Other)?;
        let (limiter, progress) = (self.limiter, self.progress);
        let mut since_call = self.since_call;
        let moved = self.read(from_fs, from, size, &mut |bytes| {
            if let Some(limiter) = limiter {
                limiter.request(bytes.len() as u64, IoPriority::Low, IoDirection::Write);
            }
            out.append(bytes)?;
            count(&mut since_call, bytes.len() as u64, progress);
            Ok(())
        });
        self.since_call = since_call;
        let moved = moved?;
        self.end(&mut *out)?;
        Ok(moved)
    }

    /// Writes a file that holds `contents`; answers the CRC32C.
    pub(super) fn write(&mut self, fs: &dyn FileSystem, to: &Path, contents: &[u8]) -> Result<u32> {
        let mut out = fs.create(to, IoActivity::Other)?;
        out.append(contents)?;
        count(&mut self.since_call, contents.len() as u64, self.progress);
        self.end(&mut *out)?;
        Ok(crc32c_append(0, contents))
    }

    fn end(&self, out: &mut dyn spanlith_env::WritableFile) -> Result<()> {
        if self.sync {
            out.sync()?;
        }
        out.close()
    }
}

/// Calls who wants to know once for each `interval` bytes that are full.
fn count(since: &mut u64, bytes: u64, progress: Option<(u64, &(dyn Fn() + Send + Sync))>) {
    let Some((interval, call)) = progress else {
        return;
    };
    *since += bytes;
    while *since >= interval.max(1) {
        *since -= interval.max(1);
        call();
    }
}

/// The error of whoever was told to stop.
pub(super) fn check_stopped(stop: &AtomicBool) -> Result<()> {
    // Relaxed: it orders nothing.
    match stop.load(Ordering::Relaxed) {
        true => Err(Error::incomplete("Backup stopped")),
        false => Ok(()),
    }
}

/// Where a file of a database goes in a backup directory, and whether backups share it there.
pub(super) enum Place {
    /// Only this backup has it.
    Private(String),
    /// By its number alone: the number must mean the same file in all backups.
    ByNumber(String),
    /// By a name that says where it comes from.
    ByOrigin(String),
    /// By a name with the CRC32C of all of it, which is not known yet.
    ByChecksum,
}

impl Place {
    pub(super) fn of(file: &StorageFile, id: u32, options: &BackupOptions) -> Self {
        if !options.share_table_files || !is_table_or_blob(file) {
            return Self::Private(format!("{PRIVATE_DIR}/{id}/{}", file.name));
        }
        if !options.share_files_with_checksum {
            return Self::ByNumber(format!("{SHARED_DIR}/{}", file.name));
        }
        let (stem, suffix) = split(&file.name);
        // Blob files do not say which session wrote them.
        match options.names {
            BackupNames::SessionAndSize if !file.session_id.is_empty() => {
                let (session, size) = (&file.session_id, file.size);
                Self::ByOrigin(format!(
                    "{SHARED_CHECKSUM_DIR}/{stem}_s{session}_{size}.{suffix}"
                ))
            }
            BackupNames::Session if !file.session_id.is_empty() => {
                let session = &file.session_id;
                Self::ByOrigin(format!("{SHARED_CHECKSUM_DIR}/{stem}_s{session}.{suffix}"))
            }
            _ => Self::ByChecksum,
        }
    }

    /// The path of [`Self::ByChecksum`].
    pub(super) fn by_checksum(file: &StorageFile, crc: u32) -> String {
        let (stem, suffix) = split(&file.name);
        format!("{SHARED_CHECKSUM_DIR}/{stem}_{crc}_{}.{suffix}", file.size)
    }
}

fn is_table_or_blob(file: &StorageFile) -> bool {
    use crate::utilities::storage::StorageKind::{Blob, Table};
    matches!(file.kind, Table | Blob)
}

fn split(name: &str) -> (&str, &str) {
    name.rsplit_once('.').unwrap_or((name, ""))
}
