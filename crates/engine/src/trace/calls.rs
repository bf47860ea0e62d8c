//! I/O traces of an open database: from the calls that its file system gets to records.
//!
//! Records have the form of RocksDB's, which names methods; syncs, requests for write-back, reservations, renames and
//! the like, which RocksDB leaves out, are recorded as well. Their timestamps are nanoseconds of the clock of the process, as
//! RocksDB's are. Trace files themselves are written past the file system that is traced.

use super::access::FileCall as Record;
use super::blocks::busy;
use super::kinds;
use super::recorder::{Recorder, Tap, TraceSummary};
use spanlith_base::Result;
use spanlith_env::{CallTap, CallsFs, Clock, FileCall, FileSystem, NoteCall};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

/// Makes records of calls.
struct Records(Arc<Tap>);

/// The switch of I/O traces of one database.
#[derive(Debug)]
pub(crate) struct CallTrace {
    records: Arc<Tap>,
    switch: Arc<CallTap>,
}

impl CallTrace {
    /// Off.
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        let records = Arc::<Tap>::default();
        let to = Box::new(Records(records.clone()));
        Self {
            records,
            switch: Arc::new(CallTap::new(clock, to)),
        }
    }

    /// A file system whose calls are traced while a trace is being written.
    pub(crate) fn wrap(&self, fs: Arc<dyn FileSystem>) -> Arc<dyn FileSystem> {
        Arc::new(CallsFs::new(fs, self.switch.clone()))
    }

    /// Begins a trace.
    ///
    /// # Errors
    /// `Busy` if one is being written.
    pub(crate) fn start(&self, recorder: Arc<Recorder>) -> Result<()> {
        match self.records.begin(recorder, || self.switch.turn(true)) {
            true => Ok(()),
            false => Err(busy()),
        }
    }

    /// Returns whether a trace is being written.
    pub(crate) fn is_on(&self) -> bool {
        self.records.is_on()
    }

    /// Ends the trace, if one is being written.
    pub(crate) fn end(&self) -> Result<Option<TraceSummary>> {
        let turn_off = || self.switch.turn(false);
        let recorder = self.records.replace_and(None, turn_off);
        recorder.map(|recorder| recorder.finish()).transpose()
    }
}

impl NoteCall for Records {
    fn note(&self, call: &FileCall<'_>) {
        let status = call.error.map_or("OK".to_string(), ToString::to_string);
        let name = call.path.file_name().unwrap_or(call.path.as_os_str());
        let record = Record {
            operation: call.operation.as_bytes(),
            latency: call.nanos,
            status: status.as_bytes(),
            file_name: name.as_bytes(),
            file_size: call.file_size,
            length: call.length,
            offset: call.offset,
            request_id: None,
        };
        self.0.record(kinds::FILE_CALL, |to| record.encode(to));
    }
}
