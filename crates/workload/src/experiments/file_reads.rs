//! Reads of files that a piece of work makes, from an I/O trace of the database, and what a device would take for them.

use super::Result;
use spanlith::Db;
use spanlith::trace::{TraceHeader, TraceOptions, TraceRecord};
use std::path::Path;

/// Reads of tables or of blob files.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Reads {
    /// Those that were made one by one.
    pub alone: f64,
    /// Those that were made with others.
    pub together: f64,
    /// Bytes of both.
    pub bytes: f64,
}

/// Reads by what the files hold.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct FileReads {
    /// Of keys, references, indexes and filters.
    pub tables: Reads,
    /// Of values.
    pub blobs: Reads,
}

/// A device that reads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Device {
    /// Microseconds until a read of no bytes is back.
    pub latency: f64,
    /// Bytes in a microsecond.
    pub bandwidth: f64,
    /// Reads at a time that do not hinder each other.
    pub depth: f64,
}

/// The Intel P4610 of [SPANDB], as its model is fitted there.
pub(super) const P4610: Device = Device {
    latency: 77.0,
    bandwidth: 3200.0,
    depth: 10.0,
};

impl Reads {
    pub(super) fn all(&self) -> f64 {
        self.alone + self.together
    }

    /// Microseconds that a device takes: each read waits for itself, those that are made together in as many rounds as
    /// its depth makes of them.
    pub(super) fn micros(&self, device: Device) -> f64 {
        let waits = self.alone + self.together / device.depth;
        waits * device.latency + self.bytes / device.bandwidth
    }

    fn add(&mut self, operation: &[u8], bytes: u64) {
        match operation {
            b"Read" => self.alone += 1.0,
            b"MultiRead" => self.together += 1.0,
            _ => return,
        }
        self.bytes += bytes as f64;
    }
}

/// Does some work and counts the reads that the database makes meanwhile. The trace is written to `scratch`.
pub(super) fn counted(
    db: &Db,
    scratch: &Path,
    work: impl FnOnce() -> Result<()>,
) -> Result<FileReads> {
    db.start_io_trace(scratch, &TraceOptions::default())?;
    let done = work();
    db.end_io_trace()?;
    done?;
    let mut reader = crate::traces::reader(scratch)?;
    let mut reads = FileReads::default();
    let Some(first) = reader.next_record()? else {
        return Ok(reads);
    };
    let header = TraceHeader::from_record(&first)?;
    while let Some(record) = reader.next_record()? {
        let TraceRecord::Call(call) = header.decode(&record)? else {
            continue;
        };
        let bytes = call.length.unwrap_or(0);
        if call.file_name.ends_with(b".sst") {
            reads.tables.add(call.operation, bytes);
        } else if call.file_name.ends_with(b".blob") {
            reads.blobs.add(call.operation, bytes);
        }
    }
    Ok(reads)
}
