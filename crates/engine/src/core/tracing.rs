//! Traces of an open database: starting and ending them. What is recorded is decided where requests come in.

use super::{Engine, StateMutex, WriteGate, gate};
use crate::info_log::InfoLog;
use crate::trace::{
    BlockTrace, BlockTraceOptions, CallTrace, Extension, OnStop, Ordered, Recorder,
    RecorderOptions, Tap, Ticket, TraceKind, TraceOptions, TraceSummary, busy, filter, kinds,
};
use spanlith_base::{Error, Result};
use spanlith_env::{Clock, Env, FileSystem, IoWatch};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Recorders of what the database does outside: calls to the file system, and blocks that are looked up.
#[derive(Clone, Debug)]
pub(crate) struct Watchers {
    /// The outside world that nobody watches: trace files are written there.
    pub outside: Env,
    /// Knows which writing calls are under way.
    pub stalls: Option<Arc<IoWatch>>,
    /// I/O traces.
    pub calls: Arc<CallTrace>,
    /// Traces of looked-up blocks.
    pub blocks: Arc<BlockTrace>,
}

impl Watchers {
    /// Watches `env` from here on.
    pub(crate) fn of(env: &mut Env, stalls: Option<Arc<IoWatch>>) -> Self {
        let outside = env.clone();
        let calls = Arc::new(CallTrace::new(env.clock.clone()));
        env.fs = calls.wrap(env.fs.clone());
        Self {
            outside,
            stalls,
            calls,
            blocks: Arc::default(),
        }
    }
}

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
    #[inline]
    pub(crate) fn record(&self, kind: u8, encode: impl FnOnce(&mut Vec<u8>)) -> Option<Ticket> {
        if !self.queries.is_on() || !self.wants(bit_of(kind)) {
            return None;
        }
        match self.queries.record(kind, encode) {
            true => self.queries.ticket(),
            false => None,
        }
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

/// Starts and ends traces: the switches, and those who look at them.
pub(crate) struct TraceControl<'a> {
    tracing: &'a Tracing,
    watchers: &'a Watchers,
    gate: &'a WriteGate,
    /// Guards the gate.
    state: &'a StateMutex,
    clock: &'a Arc<dyn Clock>,
    log: &'a Arc<InfoLog>,
}

impl<'a> TraceControl<'a> {
    /// The traces of a database.
    pub(crate) fn of(engine: &'a Engine) -> Self {
        Self {
            tracing: &engine.tracing,
            watchers: &engine.c.watchers,
            gate: &engine.gate,
            state: &engine.state,
            clock: &engine.c.env.clock,
            log: engine.reporter.log(),
        }
    }

    /// Begins a trace of queries; one that is being written ends.
    pub(crate) fn start(
        &self,
        fs: &dyn FileSystem,
        path: &Path,
        options: &TraceOptions,
    ) -> Result<()> {
        let how = RecorderOptions {
            kind: TraceKind::Queries,
            max_bytes: options.max_trace_file_size,
            sampling: options.sampling_frequency,
            with_extension: options.with_extension,
        };
        let recorder = self.recorder(fs, path, &how)?;
        let t = self.tracing;
        t.filter.store(options.filter, Ordering::Relaxed);
        t.is_ordered
            .store(options.preserve_write_order, Ordering::Relaxed);
        let old = t.queries.replace(Some(recorder));
        self.set_gates();
        if let Some(old) = old
            && let Err(e) = old.finish()
        {
            self.log.warn(format_args!("the trace before: {e}"));
        }
        Ok(())
    }

    fn recorder(
        &self,
        fs: &dyn FileSystem,
        path: &Path,
        how: &RecorderOptions,
    ) -> Result<Arc<Recorder>> {
        let clock = self.clock.clone();
        Recorder::create(fs, clock, path, how, tell(self.log))
    }

    /// Begins a trace of looked-up blocks.
    pub(crate) fn start_blocks(
        &self,
        fs: &dyn FileSystem,
        path: &Path,
        options: &BlockTraceOptions,
    ) -> Result<()> {
        let blocks = &self.watchers.blocks;
        if blocks.is_on() {
            return Err(busy());
        }
        let how = RecorderOptions {
            kind: TraceKind::Blocks,
            max_bytes: options.max_trace_file_size,
            // By blocks, not by lookups.
            sampling: 1,
            with_extension: false,
        };
        blocks.start(self.recorder(fs, path, &how)?, options)?;
        self.set_gates();
        Ok(())
    }

    /// Ends the trace of looked-up blocks; nothing happens without one.
    pub(crate) fn end_blocks(&self) -> Result<Option<TraceSummary>> {
        let ended = self.watchers.blocks.end();
        self.set_gates();
        ended
    }

    /// Begins a trace of calls of the file system.
    pub(crate) fn start_calls(
        &self,
        fs: &dyn FileSystem,
        path: &Path,
        options: &TraceOptions,
    ) -> Result<()> {
        let calls = &self.watchers.calls;
        if calls.is_on() {
            return Err(busy());
        }
        let how = RecorderOptions {
            kind: TraceKind::Calls,
            max_bytes: options.max_trace_file_size,
            sampling: options.sampling_frequency,
            with_extension: false,
        };
        // Its error is not told through the info log: a line there is a call, too, and the thread that writes one holds
        // the lock of the log. The end of the trace returns it.
        let clock = self.clock.clone();
        calls.start(Recorder::create(fs, clock, path, &how, Box::new(|_| ()))?)
    }

    /// Ends the trace of calls of the file system; nothing happens without one.
    pub(crate) fn end_calls(&self) -> Result<Option<TraceSummary>> {
        self.watchers.calls.end()
    }

    /// Ends the trace of queries.
    pub(crate) fn end(&self) -> Result<TraceSummary> {
        let ended = self.tracing.queries.replace(None);
        self.set_gates();
        match ended {
            Some(recorder) => recorder.finish(),
            None => Err(Error::io("No trace file to close")),
        }
    }

    /// Has writers and readers look whether they are traced, or no more. Whoever of several comes last sees what holds.
    fn set_gates(&self) {
        let _state = self.state.lock();
        let queries = self.tracing.queries.is_on();
        let reads = queries || self.watchers.blocks.is_on();
        for (bit, is_on) in [(gate::TRACE, queries), (gate::TRACE_READS, reads)] {
            self.gate.put(bit, is_on);
        }
    }

    /// Ends all traces, as the database closes.
    pub(crate) fn end_all(&self) {
        let queries = self.tracing.queries.replace(None);
        let ended = [
            queries.map(|recorder| recorder.finish()).transpose(),
            self.end_blocks(),
            self.end_calls(),
        ];
        for e in ended.into_iter().filter_map(Result::err) {
            self.log.warn(format_args!("trace: {e}"));
        }
    }
}
