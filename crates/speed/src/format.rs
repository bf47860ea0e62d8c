//! Describes what is on a device: finding a speed disk, and making one.

use crate::directory::Directory;
use crate::layout::{
    DIRECTORIES, DIRECTORY_MAX, GROUP_BYTES_DEFAULT, Layout, SUPERBLOCKS, TablesArea, WAL_START,
};
use crate::superblock::{SUPERBLOCK_BYTES, Superblock};
use crate::top::format_tables;
use spanlith_base::{Error, Result};
use spanlith_env::{BlockDevice, Durability};

/// Smallest page: what most file systems write at once.
const PAGE_MIN: u32 = 4096;

/// How a disk is formatted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FormatOptions {
    /// Bytes of a page group; 0: 4 MiB, or a sixteenth of a small disk.
    pub group_bytes: u64,
    /// Bytes of a page; 0: the physical block of the device, at least 4096.
    pub page_size: u32,
    /// Format even if data is there, which is then lost.
    pub force: bool,
    /// Bytes at the end that take tables; 0: none, the disk is for logs alone.
    pub tables: u64,
}

/// Describes what was found on a device.
pub(crate) struct Opened {
    pub(crate) superblock: Superblock,
    pub(crate) superblock_slot: usize,
    pub(crate) directory: Directory,
    pub(crate) directory_slot: usize,
}

/// Reads superblock and directory.
///
/// # Errors
/// `Corruption` if there is no speed disk, or it is larger than the device; `NotSupported` for a later version;
/// of the device.
pub(crate) fn read_disk(device: &dyn BlockDevice) -> Result<Opened> {
    let path = device.path();
    let (superblock, superblock_slot) = read_superblock(device)?;
    let size = device.geometry().size;
    if size < superblock.size {
        return Err(Error::corruption(format!(
            "speed disk {} has {size} bytes; it had {} when it was formatted",
            path.display(),
            superblock.size
        ))
        .with_path(path));
    }
    let mut best: Option<(Directory, usize)> = None;
    for (slot, &at) in DIRECTORIES.iter().enumerate() {
        let mut bytes = vec![0; DIRECTORY_MAX];
        device.read_at(at, &mut bytes)?;
        let found = Directory::decode(&bytes, &superblock.instance, &superblock.layout);
        let found = found.map_err(|e| e.with_path(path).with_offset(at))?;
        if let Some(found) = found
            && best
                .as_ref()
                .is_none_or(|(b, _)| b.generation < found.generation)
        {
            best = Some((found, slot));
        }
    }
    let Some((directory, directory_slot)) = best else {
        let text = format!(
            "speed disk {}: both copies of the log directory are damaged",
            path.display()
        );
        return Err(Error::corruption(text).with_path(path));
    };
    Ok(Opened {
        superblock,
        superblock_slot,
        directory,
        directory_slot,
    })
}

/// The newest superblock, and which of the copies it is.
///
/// # Errors
/// As [`read_disk`].
pub fn read_superblock(device: &dyn BlockDevice) -> Result<(Superblock, usize)> {
    let path = device.path();
    let none = || {
        let text = format!(
            "{} holds no speed disk; `spanlith sd format` makes one",
            path.display()
        );
        Error::corruption(text).with_path(path)
    };
    if device.geometry().size < WAL_START {
        return Err(none());
    }
    let mut best: Option<(Superblock, usize)> = None;
    for (slot, &at) in SUPERBLOCKS.iter().enumerate() {
        let mut bytes = vec![0; SUPERBLOCK_BYTES];
        device.read_at(at, &mut bytes)?;
        let found = Superblock::decode(&bytes).map_err(|e| e.with_path(path).with_offset(at))?;
        if let Some(found) = found
            && best
                .as_ref()
                .is_none_or(|(b, _)| b.generation < found.generation)
        {
            best = Some((found, slot));
        }
    }
    best.ok_or_else(none)
}

/// Makes a speed disk of `device` that belongs to nobody. `instance` is drawn by the caller.
///
/// # Errors
/// `InvalidArgument` if there is something that might be wanted, without `force`: anything but zeros in front, or
/// a speed disk that has an owner; or if the device is too small. `Corruption` if it has fewer bytes than it says. Of the device.
pub fn format_disk(
    device: &dyn BlockDevice,
    options: &FormatOptions,
    instance: [u8; 16],
) -> Result<Superblock> {
    let geometry = device.geometry();
    let page_size = match options.page_size {
        0 => geometry.block.max(PAGE_MIN),
        asked if asked < geometry.block => {
            let text = format!(
                "pages of {asked} bytes on {}, which writes {} bytes at once: a page could tear its neighbours",
                device.path().display(),
                geometry.block
            );
            return Err(Error::invalid_argument(text).with_path(device.path()));
        }
        asked => asked,
    };
    let tables = match options.tables {
        0 => None,
        bytes => Some(TablesArea::new(geometry.size, bytes, page_size)),
    };
    let for_logs = tables.map_or(geometry.size, |t| t.start);
    let group_bytes = match options.group_bytes {
        0 => GROUP_BYTES_DEFAULT
            .min(for_logs.saturating_sub(WAL_START) / 16)
            .max(u64::from(page_size)),
        asked => asked,
    };
    let layout = Layout::new(for_logs, page_size, group_bytes)?;
    if let Some(tables) = &tables {
        tables.check(geometry.size, layout.end(), page_size)?;
    }
    let generation = match options.force {
        true => read_superblock(device).map_or(0, |(s, _)| s.generation),
        false => {
            check_empty(device)?;
            0
        }
    };
    let superblock = Superblock {
        generation: generation + 1,
        instance,
        epoch: 0,
        size: geometry.size,
        layout,
        write_nanos: 0,
        flush_nanos: 0,
        owner: String::new(),
        tables,
    };
    let ends = Ends::write(device, page_size, &instance)?;
    // The old copies go first: a format that is cut short leaves no disk, and not an old one with a new directory.
    let zeros = vec![0; WAL_START as usize];
    device.write_at(0, &zeros, Durability::Durable)?;
    let directory = Directory {
        generation: 1,
        instance,
        floor: 1,
        logs: Vec::new(),
    };
    let mut bytes = directory.encode()?;
    bytes.resize(bytes.len().next_multiple_of(page_size as usize), 0);
    device.write_at(DIRECTORIES[0], &bytes, Durability::Durable)?;
    format_tables(device, &superblock)?;
    ends.check(device)?;
    let mut bytes = superblock.encode();
    bytes.resize(bytes.len().next_multiple_of(page_size as usize), 0);
    device.write_at(SUPERBLOCKS[0], &bytes, Durability::Durable)?;
    Ok(superblock)
}

/// The last pages of a device, of its half, its quarter and so on, each written with its place: a device may say that it is
/// larger than it is, and refuse its end or write it somewhere else.
struct Ends {
    pages: Vec<(u64, Vec<u8>)>,
}

impl Ends {
    /// Writes them. They belong to groups or to pages of tables that are free, or to nothing.
    fn write(device: &dyn BlockDevice, page_size: u32, instance: &[u8; 16]) -> Result<Self> {
        let page = u64::from(page_size);
        let mut pages = Vec::new();
        let mut size = device.geometry().size;
        while size > WAL_START + page {
            let at = (size / page - 1) * page;
            let mut bytes = instance.repeat(page_size as usize / instance.len());
            if let Some(place) = bytes.get_mut(..8) {
                place.copy_from_slice(&at.to_le_bytes());
            }
            device.write_at(at, &bytes, Durability::Durable)?;
            pages.push((at, bytes));
            size /= 2;
        }
        Ok(Self { pages })
    }

    /// Refuses a device that has not kept them.
    fn check(&self, device: &dyn BlockDevice) -> Result<()> {
        for (at, bytes) in &self.pages {
            let mut found = vec![0; bytes.len()];
            device.read_at(*at, &mut found)?;
            if found != *bytes {
                let text = format!(
                    "{} does not hold the {} bytes that it says it has: what was written at byte {at} is not there",
                    device.path().display(),
                    device.geometry().size
                );
                return Err(Error::corruption(text).with_path(device.path()));
            }
        }
        Ok(())
    }
}

/// Refuses a device that holds something somebody may want.
fn check_empty(device: &dyn BlockDevice) -> Result<()> {
    let path = device.path();
    let refuse = |what: String| {
        let text = format!("{} {what}; --force formats it all the same", path.display());
        Err(Error::invalid_argument(text).with_path(path))
    };
    match read_superblock(device) {
        Ok((s, _)) if s.owner.is_empty() => return Ok(()),
        Ok((s, _)) => {
            return refuse(format!(
                "is the speed disk of the database with identity {}",
                s.owner
            ));
        }
        Err(_) => {}
    }
    let mut front = vec![0; usize::try_from(device.geometry().size.min(WAL_START)).unwrap_or(0)];
    device.read_at(0, &mut front)?;
    match front.iter().position(|&b| b != 0) {
        None => Ok(()),
        Some(at) => refuse(format!(
            "holds {}, the first at byte {at}",
            known(&front).unwrap_or("bytes of an unknown kind")
        )),
    }
}

/// Returns what the front of a device looks like.
fn known(front: &[u8]) -> Option<&'static str> {
    let has = |at: usize, magic: &[u8]| front.get(at..at + magic.len()) == Some(magic);
    let kinds: [(usize, &[u8], &'static str); 9] = [
        (
            1024 + 56,
            &[0x53, 0xef],
            "an ext2, ext3 or ext4 file system",
        ),
        (0, b"XFSB", "an XFS file system"),
        (65536 + 64, b"_BHRfS_M", "a Btrfs file system"),
        (0, b"LUKS", "an encrypted volume"),
        (512, b"LABELONE", "an LVM volume"),
        (512, b"EFI PART", "a partition table"),
        (510, &[0x55, 0xaa], "a boot sector or a partition table"),
        (4086, b"SWAPSPACE2", "swap space"),
        (4096, &[0xfc, 0x4e, 0x2b, 0xa9], "a part of a RAID"),
    ];
    let found = kinds.iter().find(|(at, magic, _)| has(*at, magic));
    found.map(|(_, _, what)| *what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emulated::{EmulatedDevice, Profile};
    use spanlith_env::Geometry;
    use std::path::Path;

    const SAID: u64 = 8 << 20;

    /// A device of half of the bytes that it says it has.
    struct Lying {
        inner: EmulatedDevice,
        /// The other half is the first one once more; else there is none.
        is_folded: bool,
    }

    impl Lying {
        fn place(&self, offset: u64) -> u64 {
            match self.is_folded {
                true => offset % (SAID / 2),
                false => offset,
            }
        }
    }

    impl BlockDevice for Lying {
        fn geometry(&self) -> Geometry {
            Geometry {
                size: SAID,
                ..self.inner.geometry()
            }
        }

        fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
            self.inner.read_at(self.place(offset), buf)
        }

        fn write_at(&self, offset: u64, data: &[u8], durability: Durability) -> Result<()> {
            self.inner.write_at(self.place(offset), data, durability)
        }

        fn flush(&self) -> Result<()> {
            self.inner.flush()
        }

        fn path(&self) -> &Path {
            self.inner.path()
        }
    }

    #[test]
    fn a_device_that_is_smaller_than_it_says_is_not_formatted() {
        for (is_folded, tables) in [(true, 0), (true, 2 << 20), (false, 0), (false, 2 << 20)] {
            let profile = Profile::by_name("O").unwrap();
            let device = Lying {
                inner: EmulatedDevice::new(profile, SAID / 2),
                is_folded,
            };
            let options = FormatOptions {
                tables,
                ..FormatOptions::default()
            };
            let e = format_disk(&device, &options, *b"0123456789abcdef").unwrap_err();
            let wanted = match is_folded {
                true => "does not hold the 8388608 bytes",
                false => "IO error: ",
            };
            assert!(e.to_string().contains(wanted), "{e}");
            read_superblock(&device).unwrap_err();
        }
    }
}
