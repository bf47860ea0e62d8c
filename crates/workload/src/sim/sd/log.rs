//! The log of the simulated machine: pages on a speed disk, or a file.

use spanlith::Result;
use spanlith_env::WritableFile;
use spanlith_env::emulated::{DeviceSpec, Direction, FileId, Host, Model, Profile};
use spanlith_speed::emulated::EmulatedDevice;
use spanlith_speed::{FormatOptions, LogFile, SpeedDisk, SpeedOptions, format_disk};
use std::path::Path;
use std::sync::Arc;

/// Of a page, as disks are formatted.
const PAGE_BYTES: u64 = 4096;
/// Of the speed disk; a log that fills half of it is followed by the next.
const DISK_BYTES: u64 = 256 << 20;

/// A log that takes batches: a file one at a time, a speed disk several beside each other.
pub(super) enum Log {
    /// A file: each batch is appended and synced.
    File { host: Box<Host>, file: FileId },
    /// Pages on a speed disk.
    Disk(Box<DiskLog>),
}

/// A log on a speed disk whose device takes no time, and the queue of the device that it stands for: so several batches can
/// be on their way at a time.
pub(super) struct DiskLog {
    disk: Arc<SpeedDisk>,
    model: Model,
    file: LogFile,
    number: u64,
    written: u64,
    /// Bytes to take batches from: what they hold does not matter.
    bytes: Vec<u8>,
}

impl Log {
    /// A file on the device of `spec`.
    pub(super) fn file(spec: &DeviceSpec) -> Self {
        let mut host = Box::new(Host::new(spec));
        let file = host.create(Path::new("/log"));
        Self::File { host, file }
    }

    /// A speed disk on the device of `profile`.
    pub(super) fn disk(profile: Profile) -> Result<Self> {
        let device = Arc::new(EmulatedDevice::new(profile, DISK_BYTES));
        format_disk(&*device, &FormatOptions::default(), *b"simulated  disk!")?;
        let disk = SpeedDisk::open(device, &SpeedOptions::default())?;
        let file = new_log(&disk, 1)?;
        Ok(Self::Disk(Box::new(DiskLog {
            disk,
            model: Model::new(profile),
            file,
            number: 1,
            written: 0,
            bytes: Vec::new(),
        })))
    }

    /// When a batch of `bytes` that arrives at `now` is on the device. Requires: of a file, the one before it is; calls come in
    /// the order of their time.
    pub(super) fn write(&mut self, now: u64, bytes: usize) -> Result<u64> {
        match self {
            Self::File { host, file } => {
                host.append(*file, now, bytes as u64, false);
                Ok(host.sync(*file, now))
            }
            Self::Disk(log) => log.write(now, bytes),
        }
    }
}

fn new_log(disk: &Arc<SpeedDisk>, number: u64) -> Result<LogFile> {
    let log = disk.create_log(number)?;
    Ok(LogFile::new(disk.clone(), log, Path::new("/log")))
}

impl DiskLog {
    fn write(&mut self, now: u64, bytes: usize) -> Result<u64> {
        if self.written + bytes as u64 > DISK_BYTES / 2 {
            // Prepared ahead and recycled in the background: the group does not wait for it.
            self.file.close()?;
            self.disk.delete_log(self.number)?;
            self.number += 1;
            self.file = new_log(&self.disk, self.number)?;
            self.written = 0;
        }
        self.bytes.resize(bytes.max(self.bytes.len()), 0x5a);
        let before = self.disk.usage().pages_written;
        self.file.expect_sync();
        self.file
            .append(self.bytes.get(..bytes).unwrap_or_default())?;
        self.file.sync()?;
        // Whole pages: one that is durable is not written again.
        let pages = self.disk.usage().pages_written - before;
        let place = self.written;
        self.written += pages * PAGE_BYTES;
        let arrives = self
            .model
            .serve(now, Direction::Write, place, pages * PAGE_BYTES);
        Ok(self.model.flush(arrives))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_takes_the_time_of_its_pages() {
        let profile = Profile::by_name("O").unwrap();
        let mut disk = Log::disk(profile).unwrap();
        // A page; then 100 of them: what lies beyond the first at 2 GB/s.
        assert_eq!(disk.write(0, 1000).unwrap(), 10_000);
        let took = disk.write(1_000_000, 400_000).unwrap() - 1_000_000;
        assert!((200_000..225_000).contains(&took), "{took}");
        let mut file = Log::file(&"O".parse().unwrap());
        assert_eq!(file.write(0, 1000).unwrap(), 40_500);
        // A log that fills the disk is followed by another.
        for n in 0..300u64 {
            let now = (2 + n) * 1_000_000_000;
            assert!(disk.write(now, 1 << 20).unwrap() < now + 1_000_000);
        }
    }
}
