//! Devices that fail by plan: each call is one of a class, on the path of the device.

use super::{Effect, OpClass, Shared};
use crate::device::{BlockDevice, Durability, Geometry};
use crate::errors;
use spanlith_base::{Error, Result};
use std::path::Path;
use std::sync::Arc;

/// A device that is open.
pub(super) struct FaultDevice {
    pub(super) shared: Arc<Shared>,
    pub(super) inner: Arc<dyn BlockDevice>,
}

impl FaultDevice {
    fn error(&self, context: &str, offset: u64, errno: i32) -> Error {
        errors::from_errno(context, self.inner.path(), errno).with_offset(offset)
    }
}

impl BlockDevice for FaultDevice {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        match self.shared.decide(OpClass::DeviceRead, self.inner.path()) {
            Some(Effect::Fail { errno, .. }) => {
                Err(self.error("While reading a speed disk", offset, errno))
            }
            Some(Effect::FlipBit { bit }) => {
                self.inner.read_at(offset, buf)?;
                let bit = bit % (buf.len().max(1) as u64 * 8);
                if let Some(byte) = buf.get_mut((bit / 8) as usize) {
                    *byte ^= 1 << (bit % 8);
                }
                Ok(())
            }
            Some(Effect::Skip) | None => self.inner.read_at(offset, buf),
        }
    }

    fn write_at(&self, offset: u64, data: &[u8], durability: Durability) -> Result<()> {
        match self.shared.decide(OpClass::DeviceWrite, self.inner.path()) {
            Some(Effect::Skip) => Ok(()),
            Some(Effect::Fail { errno, keep }) => {
                let kept = data.get(..keep).unwrap_or(data);
                if !kept.is_empty() {
                    self.inner.write_at(offset, kept, durability)?;
                }
                Err(self.error("While writing a speed disk", offset, errno))
            }
            Some(Effect::FlipBit { .. }) | None => self.inner.write_at(offset, data, durability),
        }
    }

    fn flush(&self) -> Result<()> {
        match self.shared.decide(OpClass::DeviceFlush, self.inner.path()) {
            Some(Effect::Skip) => Ok(()),
            Some(Effect::Fail { errno, .. }) => {
                Err(self.error("While flushing a speed disk", 0, errno))
            }
            Some(Effect::FlipBit { .. }) | None => self.inner.flush(),
        }
    }

    fn write_back(&self, offset: u64, len: u64, is_strict: bool) {
        self.inner.write_back(offset, len, is_strict);
    }

    fn unlock(&self) {
        self.inner.unlock();
    }

    fn storage(&self) -> Option<u64> {
        self.inner.storage()
    }

    fn path(&self) -> &Path {
        self.inner.path()
    }
}
