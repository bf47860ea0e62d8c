//! Traces of an open database: starting and ending them. What is recorded is decided where requests come in.

use super::{Engine, Payload, gate};
use crate::info_log::InfoLog;
use crate::trace::{
    Extension, OnStop, Ordered, Recorder, RecorderOptions, Tap, Ticket, TraceOptions, TraceSummary,
    filter, kinds,
};
use spanlith_base::{Error, Result};
use spanlith_env::FileSystem;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The switches of traces.
#[derive(Default)]
pub(crate) struct Tracing {
    /// Says what callers ask.
    pub queries: Tap,
    /// Kinds that are not recorded. Relaxed, as the next: set before the switch, for a trace at a time.
    filter: AtomicU64,
    /// Writes are recorded by leaders.
    is_ordered: AtomicBool,
    /// For them.
    pub ordered: Ordered,
}

impl Tracing {
    /// Returns whether requests of a kind are recorded.
    fn wants(&self, bit: u64) -> bool {
        self.filter.load(Ordering::Relaxed) & bit == 0
    }

    /// Returns whether leaders record writes.
    #[inline]
    pub(crate) fn is_ordered(&self) -> bool {
        self.queries.is_on() && self.is_ordered.load(Ordering::Relaxed)
    }

    /// Records a request, unless its kind is not wanted.
    pub(crate) fn record(&self, kind: u8, encode: impl FnOnce(&mut Vec<u8>)) -> Option<Ticket> {
        if !self.wants(bit_of(kind)) {
            return None;
        }
        self.queries.record(kind, encode)
    }

    /// Records a write as its leader comes to it.
    #[cold]
    pub(crate) fn record_ordered(&self, encode: impl FnOnce(&mut Vec<u8>)) {
        if self.wants(filter::WRITE) {
            self.queries.record_in(&self.ordered, kinds::WRITE, encode);
        }
    }

    /// Notes what became of a request.
    #[cold]
    pub(crate) fn extend(&self, ticket: Ticket, extension: Extension) {
        self.queries.extend(ticket, extension);
    }
}

fn bit_of(kind: u8) -> u64 {
    match kind {
        kinds::GET => filter::GET,
        kinds::WRITE => filter::WRITE,
        kinds::SEEK => filter::SEEK,
        kinds::SEEK_FOR_PREV => filter::SEEK_FOR_PREV,
        _ => filter::MULTI_GET,
    }
}

/// Says in the info log that a trace stops by itself.
fn tell(log: &Arc<InfoLog>) -> OnStop {
    let log = log.clone();
    Box::new(move |e| log.warn(format_args!("the trace stops here: {e}")))
}

impl Engine {
    /// Begins a trace of queries; one that is being written ends.
    pub(crate) fn start_trace(
        &self,
        fs: &dyn FileSystem,
        path: &Path,
        options: &TraceOptions,
    ) -> Result<()> {
        let how = RecorderOptions {
            max_bytes: options.max_trace_file_size,
            sampling: options.sampling_frequency,
            with_extension: options.with_extension,
        };
        let clock = self.c.env.clock.clone();
        let recorder = Recorder::create(fs, clock, path, &how, tell(&self.c.log))?;
        let t = &self.tracing;
        t.filter.store(options.filter, Ordering::Relaxed);
        t.is_ordered
            .store(options.preserve_write_order, Ordering::Relaxed);
        let old = t.queries.replace(Some(Arc::new(recorder)));
        self.set_trace_gate();
        if let Some(old) = old
            && let Err(e) = old.finish(true)
        {
            self.c.log.warn(format_args!("the trace before: {e}"));
        }
        Ok(())
    }

    /// Ends the trace of queries.
    pub(crate) fn end_trace(&self) -> Result<TraceSummary> {
        let ended = self.tracing.queries.replace(None);
        self.set_trace_gate();
        match ended {
            Some(recorder) => recorder.finish(true),
            None => Err(Error::io("No trace file to close")),
        }
    }

    /// Has writers look whether they are traced, or no more. Whoever of several comes last sees what holds.
    fn set_trace_gate(&self) {
        let _state = self.state.lock();
        match self.tracing.queries.is_on() {
            true => self.write_gate.fetch_or(gate::TRACE, Ordering::Relaxed),
            false => self.write_gate.fetch_and(!gate::TRACE, Ordering::Relaxed),
        };
    }

    /// Ends all traces, as the database closes.
    pub(crate) fn end_traces(&self) {
        if let Some(recorder) = self.tracing.queries.replace(None)
            && let Err(e) = recorder.finish(true)
        {
            self.c.log.warn(format_args!("trace: {e}"));
        }
    }

    /// Notes what became of a write.
    #[cold]
    pub(crate) fn extend_write(&self, ticket: Ticket, payload: &Payload<'_>, is_done: bool) {
        let extension = Extension {
            kind: kinds::WRITE,
            cf: match payload {
                Payload::One { cf, .. } => *cf,
                _ => 0,
            },
            found: is_done.into(),
            bytes: payload.bytes() as u64,
            ..Extension::default()
        };
        self.tracing.extend(ticket, extension);
    }
}
