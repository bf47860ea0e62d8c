//! Durable writes of a log that are under way beside each other.
//!
//! ```text
//!   begin (in the order of the log)     write (any thread, side by side)      settle
//!   ordinals, pages, places ──────────► one durable write of the device ────► durable once all before it are
//! ```
//!
//! The pages of a flight are a run of one page group. They are listed in the log, and count as durable, in the order of
//! their ordinals: a flight that ends first waits for those before it, and fails if one of them fails, since recovery
//! ends at the first page that is missing.

use crate::disk::SpeedDisk;
use crate::log::Log;
use crate::scan::PageRef;
use spanlith_base::{Error, Result};
use spanlith_env::{Durability, SyncUnderWay};
use std::sync::Arc;

/// Pages of a flight, as the log keeps them until they are durable.
#[derive(Debug)]
pub(crate) struct Listed {
    /// Its ordinals: from here to before there.
    pub(crate) ordinals: (u64, u64),
    pub(crate) pages: Vec<PageRef>,
    pub(crate) bytes: u64,
    pub(crate) is_written: bool,
}

/// A durable write that was begun.
pub(crate) struct Flight {
    disk: Arc<SpeedDisk>,
    log: Arc<Log>,
    /// The first page, and all of them as they are written.
    first: u32,
    bytes: AlignedBytes,
    ordinals: (u64, u64),
    is_reported: bool,
}

impl Flight {
    /// Registers `listed` as the last pages of the log. Requires: the ordinals are those that
    /// [`SpeedDisk::begin_durable`] gave, and no other write of the log has begun since.
    pub(crate) fn begin(
        disk: &Arc<SpeedDisk>,
        log: &Arc<Log>,
        (first, bytes): (u32, AlignedBytes),
        listed: Listed,
    ) -> Self {
        let ordinals = listed.ordinals;
        let mut state = log.state.lock();
        state.ahead += listed.bytes;
        state.flights.push_back(listed);
        drop(state);
        Self {
            disk: disk.clone(),
            log: log.clone(),
            first,
            bytes,
            ordinals,
            is_reported: false,
        }
    }

    /// Writes the pages.
    pub(crate) fn write(&mut self) -> Result<()> {
        let written = self
            .disk
            .write_pages(self.first, &self.bytes, Durability::Durable);
        self.is_reported = true;
        self.disk.end_flight(&self.log, self.ordinals, &written);
        written
    }

    /// Returns whether the pages and all before them are durable.
    pub(crate) fn is_settled(&self) -> bool {
        self.disk.is_durable_before(self.ordinals.1)
    }

    /// Waits until the pages and all before them are durable. Requires: [`Self::write`], of all flights before, too, by
    /// some thread.
    pub(crate) fn settle(&self) -> Result<()> {
        self.disk.wait_durable(self.ordinals.1)
    }
}

impl SyncUnderWay for Flight {
    fn end(mut self: Box<Self>) -> Result<()> {
        self.write()?;
        self.settle()
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        if !self.is_reported {
            let e =
                Err(Error::io("a write to a speed disk was given up").with_path(self.disk.path()));
            self.disk.end_flight(&self.log, self.ordinals, &e);
        }
    }
}

/// Bytes that begin at a multiple of [`AlignedBytes::ALIGNMENT`] in memory, as writes that pass the page cache by ask for.
#[derive(Debug, Default)]
pub(crate) struct AlignedBytes {
    bytes: Vec<u8>,
    begin: usize,
}

impl AlignedBytes {
    const ALIGNMENT: usize = 4096;

    /// So many zeros.
    pub(crate) fn zeroed(len: usize) -> Self {
        let mut bytes: Vec<u8> = Vec::with_capacity(len + Self::ALIGNMENT);
        let begin = bytes.as_ptr().align_offset(Self::ALIGNMENT);
        bytes.resize(begin + len, 0);
        Self { bytes, begin }
    }

    /// Makes it `len` bytes long; new ones are zeros.
    pub(crate) fn resize(&mut self, len: usize) {
        if self.bytes.capacity() < self.begin + len || self.bytes.capacity() == 0 {
            let mut larger = Self::zeroed(len.max(2 * self.len()));
            larger.bytes.truncate(larger.begin);
            larger.bytes.extend_from_slice(self);
            *self = larger;
        }
        self.bytes.resize(self.begin + len, 0);
    }

    /// Empties it, and keeps its memory.
    pub(crate) fn clear(&mut self) {
        self.bytes.truncate(self.begin);
    }
}

impl std::ops::Deref for AlignedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes.get(self.begin..).unwrap_or_default()
    }
}

impl std::ops::DerefMut for AlignedBytes {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.bytes.get_mut(self.begin..).unwrap_or_default()
    }
}
