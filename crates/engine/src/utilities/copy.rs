//! Puts the files of a copy into another directory: linked where that is possible, else copied.

use super::storage::{StorageFile, StorageKind};
use crate::core::Reporter;
use spanlith_base::stats::Ticker;
use spanlith_base::{Error, Result};
use spanlith_env::{FileSystem, IoActivity};
use std::path::Path;

/// Bytes of one read.
pub(super) const STEP: usize = 1 << 20;

/// Copies files of one database.
pub(super) struct Copier<'a> {
    fs: &'a dyn FileSystem,
    reporter: &'a Reporter,
}

impl<'a> Copier<'a> {
    /// Copies within the file system `fs`.
    pub(super) fn new(fs: &'a dyn FileSystem, reporter: &'a Reporter) -> Self {
        Self { fs, reporter }
    }

    /// Makes `file` in `dir`, durable but for its name.
    pub(super) fn put(&self, file: &StorageFile, dir: &Path) -> Result<()> {
        let to = dir.join(&file.name);
        if let Some(contents) = &file.contents {
            return self.write_copy(&to, contents);
        }
        let from = file.path();
        if !file.is_trimmed && !file.is_reused {
            let log = self.reporter.log();
            match self.fs.link(&from, &to) {
                Ok(()) => {
                    log.info(format_args!("checkpoint: linked {}", file.name));
                    return self.sync_linked(file, &to);
                }
                // Another file system, or one without links. What else is wrong the copy says.
                Err(e) => log.info(format_args!("checkpoint: copies {}: {e}", file.name)),
            }
        }
        self.copy(&from, &to, file.size)
    }

    /// A log may have bytes that no sync has asked for; tables, blob files and options were synced when they were
    /// written.
    fn sync_linked(&self, file: &StorageFile, at: &Path) -> Result<()> {
        if file.kind != StorageKind::Log {
            return Ok(());
        }
        let mut log = self.fs.reopen(at, IoActivity::Other)?;
        log.sync()?;
        log.close()
    }

    fn write_copy(&self, to: &Path, contents: &[u8]) -> Result<()> {
        let mut out = self.fs.create(to, IoActivity::Other)?;
        out.append(contents)?;
        out.sync()?;
        out.close()
    }

    /// Copies the first `size` bytes.
    pub(super) fn copy(&self, from: &Path, to: &Path, size: u64) -> Result<()> {
        let mut out = self.fs.create(to, IoActivity::Other)?;
        read_pieces(self.fs, from, Some(size), STEP, &mut |bytes| {
            out.append(bytes)
        })?;
        out.sync()?;
        out.close()?;
        if let Some(s) = self.reporter.statistics() {
            s.add(Ticker::CheckpointReadBytes, size);
            s.add(Ticker::CheckpointWriteBytes, size);
        }
        Ok(())
    }
}

/// Reads the first `size` bytes of a file, or all of it, gives them to `each` in pieces of up to `step`, and answers
/// their number.
pub(super) fn read_pieces(
    fs: &dyn FileSystem,
    path: &Path,
    size: Option<u64>,
    step: usize,
    each: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Result<u64> {
    let mut source = fs.open_sequential(path)?;
    let limit = size.unwrap_or(u64::MAX);
    let most = |left: u64| step.min(usize::try_from(left).unwrap_or(step));
    let mut buf = vec![0; most(limit)];
    let mut done = 0;
    while done < limit {
        let n = source.read(&mut buf[..most(limit - done)])?;
        if n == 0 {
            break;
        }
        each(&buf[..n])?;
        done += n as u64;
    }
    match size {
        Some(size) if done < size => Err(Error::corruption("file too small")
            .with_path(path)
            .with("expected", size)
            .with("found", done)),
        _ => Ok(done),
    }
}
