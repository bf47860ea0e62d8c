//! Puts the files of a copy into another directory: linked where that is possible, else copied.

use super::storage::{StorageFile, StorageKind};
use crate::core::Engine;
use spanlith_base::stats::Ticker;
use spanlith_base::{Error, Result};
use spanlith_env::IoActivity;
use std::path::Path;

/// Bytes of one read.
const STEP: usize = 1 << 20;

impl Engine {
    /// Makes `file` in `dir`, durable but for its name.
    pub(super) fn put_copy(&self, file: &StorageFile, dir: &Path) -> Result<()> {
        let to = dir.join(&file.name);
        if let Some(contents) = &file.contents {
            return self.write_copy(&to, contents);
        }
        let from = file.path();
        if !file.is_trimmed && !file.is_reused {
            let log = &self.c.log;
            match self.c.env.fs.link(&from, &to) {
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
        let mut log = self.c.env.fs.reopen(at, IoActivity::Other)?;
        log.sync()?;
        log.close()
    }

    fn write_copy(&self, to: &Path, contents: &[u8]) -> Result<()> {
        let mut out = self.c.env.fs.create(to, IoActivity::Other)?;
        out.append(contents)?;
        out.sync()?;
        out.close()
    }

    /// Copies the first `size` bytes.
    fn copy(&self, from: &Path, to: &Path, size: u64) -> Result<()> {
        let fs = &self.c.env.fs;
        let mut source = fs.open_sequential(from)?;
        let mut out = fs.create(to, IoActivity::Other)?;
        let mut buf = vec![0; STEP.min(size.max(1) as usize)];
        let mut left = size;
        while left > 0 {
            let want = buf.len().min(left as usize);
            let n = source.read(&mut buf[..want])?;
            if n == 0 {
                return Err(Error::corruption("file too small")
                    .with_path(from)
                    .with("expected", size)
                    .with("found", size - left));
            }
            out.append(&buf[..n])?;
            left -= n as u64;
        }
        out.sync()?;
        out.close()?;
        if let Some(s) = &self.c.statistics {
            s.add(Ticker::CheckpointReadBytes, size);
            s.add(Ticker::CheckpointWriteBytes, size);
        }
        Ok(())
    }
}
