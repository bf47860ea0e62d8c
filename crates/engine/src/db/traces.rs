//! Tracing an open database.

use super::Db;
use super::cursor_moves::Move;
use crate::core::{Family, TraceControl, Tracing};
use crate::read::ReadOptions;
use crate::trace::{
    BlockTraceOptions, Extension, Ticket, TraceOptions, TraceSummary, kinds, put_seek,
};
use spanlith_base::Result;
use spanlith_env::{Clock, Env};
use std::path::Path;

impl Db {
    /// The outside world it was opened in.
    pub fn env(&self) -> &Env {
        &self.engine().c.watchers.outside
    }

    /// Begins to record what callers ask in a file of RocksDB's format, which its tools read
    /// (`docs/formats/trace.md`). The file is created, or cut to nothing; a trace that is being written ends. The
    /// database goes on if the file cannot be written later: the trace then stops, which the info log and
    /// [`Self::end_trace`] say.
    ///
    /// # Errors
    /// Of creating the file.
    pub fn start_trace(&self, path: impl AsRef<Path>, options: &TraceOptions) -> Result<()> {
        self.start_trace_in(self.env(), path.as_ref(), options)
    }

    /// As [`Self::start_trace`], in a file of another environment.
    ///
    /// # Errors
    /// As [`Self::start_trace`].
    pub fn start_trace_in(&self, env: &Env, path: &Path, options: &TraceOptions) -> Result<()> {
        TraceControl::of(self.engine()).start(&*env.fs, path, options)
    }

    /// Ends the trace: everything that was recorded is in the file when this returns. Closing the database does the
    /// same.
    ///
    /// # Errors
    /// `Io` if no trace is being written, or why it stopped earlier.
    pub fn end_trace(&self) -> Result<TraceSummary> {
        TraceControl::of(self.engine()).end()
    }

    /// Begins to record which blocks are looked up in the block cache: for whom, which, and whether they were there. The
    /// file has RocksDB's format, which `block_cache_trace_analyzer` reads. Gets, multi-gets, iterators made from now on,
    /// and tables that are opened take part; compactions read past the cache. It costs a get as much as statistics do,
    /// and a record for each lookup. A file that cannot be written later stops the trace, not the database.
    ///
    /// # Errors
    /// `Busy` while such a trace is being written; of creating the file.
    pub fn start_block_cache_trace(
        &self,
        path: impl AsRef<Path>,
        options: &BlockTraceOptions,
    ) -> Result<()> {
        self.start_block_cache_trace_in(self.env(), path.as_ref(), options)
    }

    /// As [`Self::start_block_cache_trace`], in a file of another environment.
    ///
    /// # Errors
    /// As [`Self::start_block_cache_trace`].
    pub fn start_block_cache_trace_in(
        &self,
        env: &Env,
        path: &Path,
        options: &BlockTraceOptions,
    ) -> Result<()> {
        TraceControl::of(self.engine()).start_blocks(&*env.fs, path, options)
    }

    /// Ends the trace of looked-up blocks; `None` if there was none. Closing the database does the same.
    ///
    /// # Errors
    /// Why it stopped earlier.
    pub fn end_block_cache_trace(&self) -> Result<Option<TraceSummary>> {
        TraceControl::of(self.engine()).end_blocks()
    }

    /// Begins to record the calls that the file system gets from this database: which, on which file, how many bytes
    /// where, how long they took and how they ended. The file has RocksDB's format, which `io_tracer_parser` reads.
    /// `max_trace_file_size` and `sampling_frequency` of the options are honoured; the others are of queries.
    ///
    /// # Errors
    /// `Busy` while such a trace is being written; of creating the file.
    pub fn start_io_trace(&self, path: impl AsRef<Path>, options: &TraceOptions) -> Result<()> {
        self.start_io_trace_in(self.env(), path.as_ref(), options)
    }

    /// As [`Self::start_io_trace`], in a file of another environment.
    ///
    /// # Errors
    /// As [`Self::start_io_trace`].
    pub fn start_io_trace_in(&self, env: &Env, path: &Path, options: &TraceOptions) -> Result<()> {
        TraceControl::of(self.engine()).start_calls(&*env.fs, path, options)
    }

    /// Ends the trace of calls of the file system; `None` if there was none. Closing the database does the same.
    ///
    /// # Errors
    /// Why it stopped earlier.
    pub fn end_io_trace(&self) -> Result<Option<TraceSummary>> {
        TraceControl::of(self.engine()).end_calls()
    }
}

/// A positioning of a cursor that was recorded, and what followed it.
pub(super) struct TracedSeek {
    ticket: Ticket,
    began: u64,
    extension: Extension,
}

impl TracedSeek {
    /// Counts a step.
    pub(super) fn step(&mut self, to: Move<'_>) {
        match to {
            Move::Next => self.extension.next += 1,
            Move::Prev => self.extension.prev += 1,
            _ => {}
        }
    }

    /// Begins to record a move to a place, if it is one that traces have: of those to either end, only those to a bound.
    #[cold]
    pub(super) fn begin(
        tracing: &Tracing,
        clock: &dyn Clock,
        family: &Family,
        options: &ReadOptions,
        to: Move<'_>,
    ) -> Option<Self> {
        let (lower, upper) = (options.lower.as_deref(), options.upper.as_deref());
        let (kind, key) = match to {
            Move::Seek(key) => (kinds::SEEK, key),
            Move::SeekForPrev(key) => (kinds::SEEK_FOR_PREV, key),
            Move::First => (kinds::SEEK, lower?),
            Move::Last => (kinds::SEEK_FOR_PREV, upper?),
            Move::Next | Move::Prev => return None,
        };
        let encode = |to: &mut Vec<u8>| put_seek(to, family.id, key, lower, upper);
        let ticket = tracing.record(kind, encode)?;
        Some(Self {
            ticket,
            began: clock.monotonic_nanos(),
            extension: Extension {
                kind,
                cf: family.id,
                ..Extension::default()
            },
        })
    }

    /// Notes the size of the entry that was found, or that there is none.
    pub(super) fn note_found(&mut self, clock: &dyn Clock, entry: Option<usize>) {
        let now = clock.monotonic_nanos();
        // 0 would be taken for a time that is still to be found.
        self.extension.nanos = now.saturating_sub(self.began).max(1);
        self.extension.found = entry.is_some().into();
        self.extension.bytes = entry.unwrap_or(0) as u64;
    }

    /// Records what followed.
    #[cold]
    pub(super) fn end(self, tracing: &Tracing) {
        tracing.extend(self.ticket, self.extension);
    }
}
