//! Which device, or which part of one, a speed disk is: `PATH` or `PATH@OFFSET+SIZE`.

use spanlith_base::{Error, Result};
use spanlith_env::{BlockDevice, DeviceAccess, Durability, FileSystem, Geometry};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Parts begin and end at multiples of this.
const ALIGNMENT: u64 = 1 << 16;

/// A place for a speed disk. Several databases share a device by parts that do not overlap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The file or device.
    pub path: PathBuf,
    /// First byte.
    pub offset: u64,
    /// Bytes; 0: to the end.
    pub len: u64,
}

impl Target {
    /// Reads `PATH` or `PATH@OFFSET+SIZE`, both in bytes and multiples of 65536.
    ///
    /// # Errors
    /// `InvalidArgument`.
    pub fn parse(text: &str) -> Result<Self> {
        let wrong = |what: &str| {
            Error::invalid_argument(format!(
                "speed disk {text:?}: {what}; it is PATH or PATH@OFFSET+SIZE with multiples of {ALIGNMENT}"
            ))
        };
        let whole = |path: &str| Self {
            path: PathBuf::from(path),
            offset: 0,
            len: 0,
        };
        if text.is_empty() {
            return Err(wrong("no path"));
        }
        let Some((path, part)) = text.rsplit_once('@') else {
            return Ok(whole(text));
        };
        let Some((offset, len)) = part.split_once('+') else {
            return Ok(whole(text));
        };
        let (Ok(offset), Ok(len)) = (offset.parse::<u64>(), len.parse::<u64>()) else {
            return Ok(whole(text));
        };
        if path.is_empty() || len == 0 || offset % ALIGNMENT != 0 || len % ALIGNMENT != 0 {
            return Err(wrong("a part that makes no sense"));
        }
        Ok(Self {
            offset,
            len,
            ..whole(path)
        })
    }

    /// Opens it for reading, or for writing and for nobody else.
    ///
    /// # Errors
    /// As [`FileSystem::open_device`]; `InvalidArgument` for a part that the device does not have.
    pub fn open(&self, fs: &dyn FileSystem, read_only: bool) -> Result<Arc<dyn BlockDevice>> {
        let (offset, len) = (self.offset, self.len);
        let access = match read_only {
            true => DeviceAccess::Read,
            false => DeviceAccess::Write { offset, len },
        };
        let device = fs.open_device(&self.path, access)?;
        match len {
            0 => Ok(device),
            _ => Ok(Arc::new(DevicePart::new(device, offset, len)?)),
        }
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.len {
            0 => write!(f, "{}", self.path.display()),
            len => write!(f, "{}@{}+{len}", self.path.display(), self.offset),
        }
    }
}

/// A part of a device.
pub struct DevicePart {
    device: Arc<dyn BlockDevice>,
    offset: u64,
    len: u64,
}

impl DevicePart {
    /// `len` bytes from `offset` on.
    ///
    /// # Errors
    /// `InvalidArgument` if the device ends before.
    pub fn new(device: Arc<dyn BlockDevice>, offset: u64, len: u64) -> Result<Self> {
        let size = device.geometry().size;
        if offset.checked_add(len).is_none_or(|end| end > size) {
            let text = format!(
                "{} has {size} bytes, and no part of {len} from byte {offset} on",
                device.path().display()
            );
            return Err(Error::invalid_argument(text).with_path(device.path()));
        }
        Ok(Self {
            device,
            offset,
            len,
        })
    }

    fn place(&self, offset: u64, len: usize) -> Result<u64> {
        match offset.checked_add(len as u64) {
            Some(end) if end <= self.len => Ok(self.offset + offset),
            _ => Err(Error::io(format!(
                "{len} bytes from byte {offset} on are behind the end of this part of {}",
                self.path().display()
            ))
            .with_path(self.path())),
        }
    }
}

impl BlockDevice for DevicePart {
    fn geometry(&self) -> Geometry {
        Geometry {
            size: self.len,
            ..self.device.geometry()
        }
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.device.read_at(self.place(offset, buf.len())?, buf)
    }

    fn write_at(&self, offset: u64, data: &[u8], durability: Durability) -> Result<()> {
        let at = self.place(offset, data.len())?;
        self.device.write_at(at, data, durability)
    }

    fn flush(&self) -> Result<()> {
        self.device.flush()
    }

    fn write_back(&self, offset: u64, len: u64, is_strict: bool) {
        let within = self.place(offset, usize::try_from(len).unwrap_or(usize::MAX));
        if let Ok(at) = within {
            self.device.write_back(at, len, is_strict);
        }
    }

    fn unlock(&self) {
        self.device.unlock();
    }

    fn storage(&self) -> Option<u64> {
        self.device.storage()
    }

    fn path(&self) -> &Path {
        self.device.path()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_named_by_offset_and_size() {
        let whole = Target::parse("/a@b").unwrap();
        assert_eq!((whole.path.as_path(), whole.len), (Path::new("/a@b"), 0));
        let part = Target::parse("/dev/x@131072+1048576").unwrap();
        assert_eq!((part.offset, part.len), (131_072, 1_048_576));
        assert_eq!(part.to_string(), "/dev/x@131072+1048576");
        assert_eq!(Target::parse(&part.to_string()).unwrap(), part);
        for text in ["", "@65536+65536", "/x@1+65536", "/x@0+0", "/x@0+70000"] {
            let e = Target::parse(text).unwrap_err();
            assert!(
                e.to_string().starts_with("Invalid argument: speed disk"),
                "{e}"
            );
        }
    }
}
