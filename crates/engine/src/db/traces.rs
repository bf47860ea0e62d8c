//! Tracing an open database.

use super::Db;
use super::cursor_moves::Move;
use crate::core::{Engine, Family};
use crate::read::ReadOptions;
use crate::trace::{
    BlockTraceOptions, Extension, Ticket, TraceOptions, TraceSummary, kinds, put_seek,
};
use spanlith_base::Result;
use spanlith_env::Env;
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
        self.engine().start_trace(&*env.fs, path, options)
    }

    /// Ends the trace: everything that was recorded is in the file when this returns. Closing the database does the
    /// same.
    ///
    /// # Errors
    /// `Io` if no trace is being written, or why it stopped earlier.
    pub fn end_trace(&self) -> Result<TraceSummary> {
        self.engine().end_trace()
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
        self.engine().start_block_trace(&*env.fs, path, options)
    }

    /// Ends the trace of looked-up blocks; `None` if there was none. Closing the database does the same.
    ///
    /// # Errors
    /// Why it stopped earlier.
    pub fn end_block_cache_trace(&self) -> Result<Option<TraceSummary>> {
        self.engine().end_block_trace()
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
        self.engine().start_io_trace(&*env.fs, path, options)
    }

    /// Ends the trace of calls of the file system; `None` if there was none. Closing the database does the same.
    ///
    /// # Errors
    /// Why it stopped earlier.
    pub fn end_io_trace(&self) -> Result<Option<TraceSummary>> {
        self.engine().end_io_trace()
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
}

impl Engine {
    /// Records a move to a place, if it is one that traces have: of those to either end, only those to a bound.
    #[cold]
    pub(super) fn trace_move(
        &self,
        family: &Family,
        options: &ReadOptions,
        to: Move<'_>,
    ) -> Option<TracedSeek> {
        let (lower, upper) = (options.lower.as_deref(), options.upper.as_deref());
        let (kind, key) = match to {
            Move::Seek(key) => (kinds::SEEK, key),
            Move::SeekForPrev(key) => (kinds::SEEK_FOR_PREV, key),
            Move::First => (kinds::SEEK, lower?),
            Move::Last => (kinds::SEEK_FOR_PREV, upper?),
            Move::Next | Move::Prev => return None,
        };
        let encode = |to: &mut Vec<u8>| put_seek(to, family.id, key, lower, upper);
        let ticket = self.tracing.record(kind, encode)?;
        Some(TracedSeek {
            ticket,
            began: self.c.env.clock.monotonic_nanos(),
            extension: Extension {
                kind,
                cf: family.id,
                ..Extension::default()
            },
        })
    }

    /// Notes what a positioning found.
    pub(super) fn note_found(&self, seek: &mut TracedSeek, entry: Option<usize>) {
        let now = self.c.env.clock.monotonic_nanos();
        // 0 would be taken for a time that is still to be found.
        seek.extension.nanos = now.saturating_sub(seek.began).max(1);
        seek.extension.found = entry.is_some().into();
        seek.extension.bytes = entry.unwrap_or(0) as u64;
    }

    /// Notes what followed a positioning.
    #[cold]
    pub(super) fn end_seek(&self, seek: TracedSeek) {
        self.tracing.extend(seek.ticket, seek.extension);
    }
}
