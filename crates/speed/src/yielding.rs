//! Tables on the storage of a speed disk give way to its logs, wherever on it they are: in a directory of tables, in the disk
//! itself, or beside a disk that is a file.
//!
//! Flushes, compactions and the durable writes of the logs share one device there. A table goes to the device in pieces:
//! each waits while a log is written, as [`LogGate::give_way`] says, and before it is handed to the device the piece
//! before it has arrived. So a log has at most two pieces in front of it, where otherwise it would wait for as much as the
//! page cache has gathered. While the log is in use, a table takes half of the time of the device: after each piece as
//! much passes as it took, a millisecond at most. Beside logs that are idle a table is written at the speed of the
//! device. Pieces of a table that passes the page cache by have arrived when they are written; the rest is the same.
//!
//! [`LogGate::give_way`]: crate::LogGate::give_way

use crate::disk::SpeedDisk;
use crate::gate::PIECE_BYTES;
use spanlith_base::Result;
use spanlith_env::{Clock, SyncUnderWay, WritableFile};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A table that is written.
pub(crate) struct Yielding {
    file: Box<dyn WritableFile>,
    disk: Arc<SpeedDisk>,
    clock: Arc<dyn Clock>,
    /// Nanoseconds that pieces waited while a log was written. Relaxed: a figure.
    waited: Arc<AtomicU64>,
}

impl Yielding {
    /// `file`, whose pieces give way to the logs of `disk`.
    pub(crate) fn new(
        file: Box<dyn WritableFile>,
        disk: Arc<SpeedDisk>,
        clock: Arc<dyn Clock>,
        waited: Arc<AtomicU64>,
    ) -> Self {
        Self {
            file,
            disk,
            clock,
            waited,
        }
    }
}

impl WritableFile for Yielding {
    fn append(&mut self, data: &[u8]) -> Result<()> {
        for piece in data.chunks(PIECE_BYTES) {
            let gate = self.disk.gate();
            let waited = gate.give_way(&*self.clock);
            self.waited.fetch_add(waited, Ordering::Relaxed);
            let (at, began) = (self.file.len(), self.clock.monotonic_nanos());
            self.file.append(piece)?;
            self.file.write_back_strictly(at, piece.len() as u64)?;
            let now = self.clock.monotonic_nanos();
            gate.share(&*self.clock, now.saturating_sub(began), now);
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        self.file.sync()
    }

    fn expect_sync(&mut self) {
        self.file.expect_sync();
    }

    fn begin_sync(&mut self) -> Result<Option<Box<dyn SyncUnderWay>>> {
        self.file.begin_sync()
    }

    fn len(&self) -> u64 {
        self.file.len()
    }

    fn is_empty(&self) -> bool {
        self.file.is_empty()
    }

    fn write_back(&mut self, _offset: u64, _len: u64) -> Result<()> {
        // Each piece was handed over when it was appended.
        Ok(())
    }

    fn write_back_strictly(&mut self, offset: u64, len: u64) -> Result<()> {
        self.file.write_back_strictly(offset, len)
    }

    fn truncate(&mut self, len: u64) -> Result<()> {
        self.file.truncate(len)
    }

    fn preallocate(&mut self, len: u64) {
        self.file.preallocate(len);
    }

    fn close(&mut self) -> Result<()> {
        self.file.close()
    }

    fn path(&self) -> &Path {
        self.file.path()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{FormatOptions, format_disk};
    use crate::fs::SpeedFs;
    use crate::target::Target;
    use crate::{SpeedDisk, SpeedOptions};
    use spanlith_env::{Env, FileSystem, IoActivity, MemFs, PosixFs, create_device_file};
    use spanlith_testkit::TempDir;

    /// A table on the file system of the disk waits for a log that is written, and then shares the time with it; nothing
    /// else does: other files, tables on another storage, tables beside an idle log (R-SPAN-35).
    #[test]
    fn only_tables_on_the_storage_of_the_log_give_way_to_it_and_only_while_it_is_written() {
        let dir = TempDir::new("beside");
        let path = dir.path().join("sd");
        create_device_file(&path, 2 << 20).unwrap();
        let posix: Arc<dyn FileSystem> = Arc::new(PosixFs);
        let target = Target::parse(path.to_str().unwrap()).unwrap();
        let device = target.open(&*posix, false).unwrap();
        let options = FormatOptions {
            group_bytes: 64 << 10,
            ..FormatOptions::default()
        };
        format_disk(&*device, &options, *b"0123456789abcdef").unwrap();
        let disk = SpeedDisk::open(device, &SpeedOptions::default()).unwrap();
        let fs = SpeedFs::new(posix, dir.path());
        fs.attach(disk.clone(), path.to_str().unwrap());
        // Time that passes by sleeping alone.
        let clock = Env::test(Arc::new(MemFs::new()), 1).0.clock;
        let data: Vec<u8> = (0..200_000u32).map(|i| (i % 251) as u8).collect();
        let slept = |name: &str, activity| {
            let path = dir.path().join(name);
            let before = clock.monotonic_nanos();
            let mut file = fs.create(&path, activity).unwrap();
            file.append(&data).unwrap();
            file.sync().unwrap();
            assert_eq!(file.len(), data.len() as u64);
            file.close().unwrap();
            assert_eq!(std::fs::read(path).unwrap(), data);
            clock.monotonic_nanos() - before
        };
        let busy = disk.gate().enter(true);
        assert_eq!(slept("1.sst", IoActivity::Flush), 0, "nobody asked for it");
        assert!(!fs.give_way(&clock, Path::new("/proc"), None));
        assert!(fs.give_way(&clock, dir.path(), None));
        assert!(slept("2.sst", IoActivity::Flush) >= 4 * 50_000);
        assert!(slept("3.sst", IoActivity::Compaction) >= 4 * 50_000);
        assert_eq!(slept("MANIFEST-000004", IoActivity::Manifest), 0);
        drop(busy);
        assert_eq!(slept("5.sst", IoActivity::Flush), 0, "the log is idle");
    }
}
