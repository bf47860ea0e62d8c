//! The logs of a disk are read beside the one who opens and replays them: it then waits for the device, or for the replay,
//! and not for one after the other.
//!
//! One thread reads and verifies all pages in order, and lists those that count ([`Listing`]). It ends with the last page, or
//! when the disk is dropped. [`SpeedDisk::conclude`] waits for it and gives the verdict.

use super::{STAGE_READING, SpeedDisk};
use crate::directory::{Directory, LogEnd};
use crate::listing::Listing;
use crate::log::Log;
use crate::scan::{Pages, bytes_of, judge, read_listed};
use crate::superblock::Superblock;
use crate::usage::{LogReading, SpeedOptions};
use crate::verify::is_worth_a_thread;
use spanlith_base::{Error, Result};
use spanlith_env::BlockDevice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};

/// Logs that are being read.
pub(super) struct Beside {
    directory: Arc<Directory>,
    thread: JoinHandle<Result<Vec<Pages>>>,
    stop: Arc<AtomicBool>,
}

/// Returns whether the logs of a disk are read beside.
pub(super) fn is_beside(
    superblock: &Superblock,
    directory: &Directory,
    options: &SpeedOptions,
) -> bool {
    let is_asked_for = match options.reading {
        LogReading::AtOnce => false,
        LogReading::BesideReplay => is_worth_a_thread(bytes_of(&superblock.layout, directory)),
        LogReading::AlwaysBeside => true,
    };
    is_asked_for && !options.read_only && !options.accept_damage
}

impl Beside {
    /// Begins to read `logs`, which are those of `directory`.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub(super) fn begin(
        device: &Arc<dyn BlockDevice>,
        superblock: Superblock,
        directory: Directory,
        logs: Vec<Arc<Log>>,
    ) -> Result<Self> {
        let (device, directory) = (device.clone(), Arc::new(directory));
        let stop = Arc::new(AtomicBool::new(false));
        let ends = directory.logs.iter().map(|entry| match entry.end {
            LogEnd::Closed(end) => Some(end),
            LogEnd::Open(_) | LogEnd::Broken(_) => None,
        });
        let logs = logs.into_iter().zip(ends).collect();
        let mut listing = Listing::new(logs, directory.floor, stop.clone());
        let of_thread = directory.clone();
        let body = move || {
            let found = read_listed(&*device, &superblock, &of_thread, &mut listing);
            listing.end(found.as_ref().err());
            found
        };
        let thread = Builder::new().name("spanlith-logs".to_string());
        let thread = thread.spawn(body);
        Ok(Self {
            directory,
            thread: thread.map_err(|e| Error::io(format!("no thread to read logs: {e}")))?,
            stop,
        })
    }

    /// Waits until all is read.
    fn join(self) -> Result<(Arc<Directory>, Vec<Pages>)> {
        match self.thread.join() {
            Ok(found) => Ok((self.directory, found?)),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

impl SpeedDisk {
    /// Waits until the logs are read, if that goes on beside, and gives the verdict: what counts is made durable, and the disk
    /// may be written to. Whoever replays logs calls it before anything of them has an effect.
    ///
    /// # Errors
    /// As [`Self::open`], now and ever after.
    pub fn conclude(&self) -> Result<()> {
        if self.stage.load(Ordering::Acquire) != STAGE_READING {
            return Ok(());
        }
        let mut meta = self.meta.lock();
        let Some(beside) = meta.beside.take() else {
            return meta.refused.clone().map_or(Ok(()), Err);
        };
        let concluded = beside.join().and_then(|(directory, pages)| {
            let found = judge(&directory, pages, None);
            self.take_over(&mut meta, found, false)
        });
        if let Err(e) = &concluded {
            meta.refused = Some(e.clone());
        }
        concluded
    }

    /// Returns whether logs are being read, and [`Self::conclude`] is still to be called.
    pub fn is_being_read(&self) -> bool {
        self.stage.load(Ordering::Acquire) == STAGE_READING
    }
}

impl Drop for SpeedDisk {
    /// The device is free afterwards.
    fn drop(&mut self) {
        if let Some(beside) = self.meta.get_mut().beside.take() {
            beside.stop.store(true, Ordering::Relaxed);
            // Nobody is left to be told.
            let _ = beside.thread.join();
        }
    }
}
