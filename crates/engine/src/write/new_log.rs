//! Makes log files: new ones, or old ones that are written again from their front.

use crate::core::{CurrentLog, Lsm, Opening, is_lack};
use spanlith_base::Result;
use spanlith_env::{PacedFile, SyncPace, WritableFile};
use spanlith_wal::{LogOptions, LogPlace, LogWriter};

/// Most bytes that are reserved for a log at once.
const PREALLOCATED_MAX: u64 = 1 << 30;

/// Creates logs as the options in force say.
pub(crate) struct LogFactory<'a> {
    lsm: &'a Lsm,
}

impl<'a> LogFactory<'a> {
    /// For the logs of these trees.
    pub(crate) fn new(lsm: &'a Lsm) -> Self {
        Self { lsm }
    }

    /// Creates the log file of `number`.
    pub(crate) fn create(&self, number: u64) -> Result<LogWriter> {
        let made = self.try_to_create(number);
        match made {
            Err(e) if is_lack(&e) => {
                // Tables that nobody uses now give their descriptors back.
                self.lsm.c.io.close_idle();
                self.try_to_create(number)
            }
            made => made,
        }
        .inspect_err(|_| self.discard(number))
    }

    /// Removes a log that was begun and is not going to be used: replay must not stop at it. One that
    /// cannot be removed is given up with all others by the next resume.
    pub(super) fn discard(&self, number: u64) {
        let logs = self.lsm.logs.store();
        if let Ok(true) | Err(_) = logs.is_there(number, LogPlace::Live)
            && logs.delete(number, LogPlace::Live).is_err()
        {
            self.lsm.state.lock().trouble.log_poisoned = true;
        }
    }

    fn try_to_create(&self, number: u64) -> Result<LogWriter> {
        let o = self.lsm.options().to_arc();
        let reused = self.lsm.state.lock().logs.take_reusable();
        let mut file = match reused.map(|old| self.reuse(old, number)) {
            Some(Ok(file)) => file,
            Some(Err(_)) | None => {
                let mut file = self.lsm.logs.store().create(number)?;
                if o.allow_fallocate {
                    let size = self
                        .lsm
                        .families
                        .default()
                        .settings()
                        .options
                        .write_buffer_size;
                    // Reserved space is nobody else's until the log is closed.
                    file.preallocate((size + size / 10).min(PREALLOCATED_MAX));
                }
                file
            }
        };
        if o.wal_bytes_per_sync > 0 {
            let pace = SyncPace {
                bytes_per_sync: o.wal_bytes_per_sync,
                is_strict: o.strict_bytes_per_sync,
            };
            file = Box::new(PacedFile::new(file, None, pace));
        }
        let form = LogOptions {
            compression: o.wal_compression,
            buffer_size: match o.manual_wal_flush {
                true => o.writable_file_max_buffer_size as usize,
                false => 0,
            },
            recyclable: o.recycle_log_file_num > 0,
        };
        LogWriter::new_with(file, number, form)
    }

    /// Gives the obsolete log `old` the name of a new one, to be written from its front. Nothing is
    /// cut off: saving the file system that work is the point.
    fn reuse(&self, old: u64, number: u64) -> Result<Box<dyn WritableFile>> {
        let file = self.lsm.logs.store().recycle(old, number);
        file.inspect_err(|e| {
            // A new file does as well; what is left of the old one is found at the next open.
            self.lsm
                .reporter
                .log()
                .warn(format_args!("cannot write log {old:06} again: {e}"));
        })
    }

    /// Writes what a log after `last` begins with; returns the sequence number of its last record.
    pub(super) fn begin(&self, new: &mut LogWriter, last: &CurrentLog) -> Result<u64> {
        let Some(before) = last.writer() else {
            return Ok(0);
        };
        if self.lsm.c.options.track_and_verify_wals {
            new.add_predecessor(before.log_number(), before.len(), last.last_record())?;
        }
        if !self.lsm.c.options.own.evidence {
            return Ok(0);
        }
        let opening = Opening {
            number: before.log_number(),
            size: before.len(),
            sequence: self.lsm.visible(),
        };
        let batch = opening.to_batch(&self.lsm.c.db_id)?;
        new.add_record(batch.as_bytes())?;
        Ok(batch.sequence())
    }
}
