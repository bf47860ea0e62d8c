//! Devices of [`super::MemFs`]: files of a fixed size that are written in place.
//!
//! A power loss takes from a device what its cache holds, by whole writes or by sectors.

use super::fs::{FsOp, Shared};
use super::tree::FileRef;
use crate::device::{BlockDevice, Durability, Geometry};
use crate::errors;
use spanlith_base::Result;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const BLOCK: u32 = 4096;

/// A device that is open.
pub(super) struct MemDevice {
    pub(super) shared: Arc<Shared>,
    pub(super) file: FileRef,
    pub(super) path: PathBuf,
    pub(super) size: u64,
    /// Kept while it is open for writing: nobody else may.
    pub(super) _holder: Option<Arc<()>>,
}

impl MemDevice {
    fn check(&self, context: &str, offset: u64, len: usize) -> Result<()> {
        match offset.checked_add(len as u64) {
            Some(end) if end <= self.size => Ok(()),
            _ => Err(errors::from_errno(context, &self.path, libc::ENOSPC).with_offset(offset)),
        }
    }
}

impl BlockDevice for MemDevice {
    fn geometry(&self) -> Geometry {
        Geometry {
            size: self.size,
            block: BLOCK,
            is_volatile: true,
            is_block_device: false,
        }
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.check("While reading a speed disk", offset, buf.len())?;
        if let Some((_, media)) = &self.file.lock().device {
            media.read(offset, buf);
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, data: &[u8], durability: Durability) -> Result<()> {
        self.check("While writing a speed disk", offset, data.len())?;
        self.shared.observe(|| FsOp::Write {
            path: self.path.clone(),
            offset,
            len: data.len(),
        });
        let tree = self.shared.tree.lock();
        if let Some((_, media)) = &mut self.file.lock().device {
            match durability {
                Durability::Cached => media.write_cached(offset, data),
                Durability::Durable => media.write_durable(offset, data),
            }
        }
        drop(tree);
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        self.shared.observe(|| FsOp::Sync {
            path: self.path.clone(),
        });
        let tree = self.shared.tree.lock();
        if let Some((_, media)) = &mut self.file.lock().device {
            media.flush();
        }
        drop(tree);
        Ok(())
    }

    fn unlock(&self) {
        self.file.lock().holder = std::sync::Weak::new();
    }

    fn path(&self) -> &Path {
        &self.path
    }
}
