//! Writing a trace while callers are served.
//!
//! Each thread appends its records to a buffer of its own, under a lock that nobody else wants but now and then. The
//! thread whose buffer is full takes what all buffers hold and merges it into the file ([`super::sink`]), so that the
//! file is a trace at any moment and its memory is bounded. Records are ordered by a clock that never goes back and that
//! is read under the lock of the buffer: a call that ended before another began stands before it. The writer merges what
//! is older than its own look at the clock, taken before it locks the buffers: what comes later cannot be older.
//!
//! [`Tap`] is the switch: off, it costs one relaxed load. A file that cannot be written stops the trace and nothing else.

use super::encode::{put_access_header, put_query_header, put_record};
use super::extension::Extension;
use super::kinds;
use super::sink::{EXTENSION, Sink, Times};
use spanlith_base::sync::Mutex;
use spanlith_base::{Error, Result};
use spanlith_env::{Clock, FileSystem, IoActivity};
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

/// The file, held during I/O; below the locks of file systems.
const SINK_RANK: u8 = 94;
/// Buffers, their list and the switch. None is held while another is taken.
const LEAF_RANK: u8 = 95;

/// Bytes of a buffer at which its thread writes.
const WRITE_AT: usize = 64 << 10;
/// Bytes at which it waits for another thread that writes.
const WAIT_AT: usize = 1 << 20;
/// Largest payload: its length has 32 bits.
const PAYLOAD_MAX: usize = u32::MAX as usize;

/// Bytes of a record before its payload.
pub(super) const HEAD: usize = 13;

/// Bytes of a record of a usual size.
const USUAL: usize = 256;

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// Kinds of traces, by what they record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TraceKind {
    /// Requests of callers.
    Queries,
    /// Blocks that are looked up.
    Blocks,
    /// Calls of the file system.
    Calls,
}

impl TraceKind {
    fn put_header(self, to: &mut Vec<u8>) {
        match self {
            Self::Queries => put_query_header(to),
            Self::Blocks | Self::Calls => put_access_header(to),
        }
    }

    /// Returns whether the last record says that the trace was ended.
    fn has_end(self) -> bool {
        self == Self::Queries
    }
}

/// How a trace is written.
pub(crate) struct RecorderOptions {
    pub kind: TraceKind,
    pub max_bytes: u64,
    pub sampling: u64,
    /// The file beside it.
    pub with_extension: bool,
}

/// Describes what was recorded, and what not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceSummary {
    /// Records in the file behind its header, without the end.
    pub records: u64,
    /// Records that were left out because the file had reached its size, or could not be written.
    pub dropped: u64,
    /// Bytes of the file.
    pub bytes: u64,
}

/// A request that is under way, for [`Recorder::extend`].
#[derive(Clone, Copy)]
pub(crate) struct Ticket {
    /// Id of the trace.
    recorder: u64,
    /// Buffer and place in it.
    thread: u32,
    place: u64,
    began: u64,
}

/// The buffer of one thread.
struct Buffer {
    index: u32,
    state: Mutex<Buffered>,
}

#[derive(Default)]
struct Buffered {
    /// Records with the clock's nanoseconds instead of timestamps.
    bytes: Vec<u8>,
    /// Records of the trace so far.
    places: u64,
    /// Requests since the last one that was recorded.
    skipped: u64,
    is_closed: bool,
}

/// Told once, when a trace stops by itself.
pub(crate) type OnStop = Box<dyn Fn(&Error) + Send + Sync>;

/// A trace that is being written.
pub(crate) struct Recorder {
    id: u64,
    kind: TraceKind,
    clock: Arc<dyn Clock>,
    sampling: u64,
    with_extension: bool,
    /// Nothing more is recorded. Relaxed: a hint.
    stopped: AtomicBool,
    dropped: AtomicU64,
    buffers: Mutex<Buffers>,
    sink: Mutex<Sink>,
    on_stop: OnStop,
}

struct Buffers {
    all: Vec<Arc<Buffer>>,
    /// Number of the next one; none is given twice.
    next: u32,
    is_closed: bool,
}

/// The file beside a trace, with what becomes of its requests: [`super::Extension`].
pub fn extension_path(trace: &Path) -> PathBuf {
    let mut name = trace.as_os_str().to_owned();
    name.push(".ext");
    PathBuf::from(name)
}

impl Recorder {
    /// Begins a trace in a new file, which takes the place of an older one.
    pub(crate) fn create(
        fs: &dyn FileSystem,
        clock: Arc<dyn Clock>,
        path: &Path,
        options: &RecorderOptions,
        on_stop: OnStop,
    ) -> Result<Self> {
        let mut file = fs.create(path, IoActivity::Other)?;
        let timestamp = clock.now_micros();
        let mut head = Vec::new();
        let mut payload = Vec::new();
        options.kind.put_header(&mut payload);
        put_record(&mut head, timestamp, kinds::BEGIN, &payload);
        file.append(&head)?;
        let extension = match options.with_extension {
            false => None,
            true => {
                let mut beside = fs.create(&extension_path(path), IoActivity::Other)?;
                let mut head = Vec::new();
                Extension::put_header(&mut head, timestamp);
                beside.append(&head)?;
                Some(beside)
            }
        };
        let times = match options.kind {
            TraceKind::Calls => Times::Monotonic,
            _ => Times::OfDay {
                micros: timestamp,
                nanos: clock.monotonic_nanos(),
            },
        };
        let sink = Sink::new(file, extension, times, options.max_bytes);
        Ok(Self {
            kind: options.kind,
            // Relaxed: it only has to be another one.
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            clock,
            sampling: options.sampling,
            with_extension: options.with_extension,
            stopped: AtomicBool::new(false),
            dropped: AtomicU64::new(0),
            buffers: Mutex::new(
                LEAF_RANK,
                Buffers {
                    all: Vec::new(),
                    next: 0,
                    is_closed: false,
                },
            ),
            sink: Mutex::new(SINK_RANK, sink),
            on_stop,
        })
    }

    fn new_buffer(&self) -> Option<Arc<Buffer>> {
        let mut buffers = self.buffers.lock();
        if buffers.is_closed {
            return None;
        }
        let index = buffers.next;
        buffers.next += 1;
        let buffer = Arc::new(Buffer {
            index,
            state: Mutex::new(LEAF_RANK, Buffered::default()),
        });
        buffers.all.push(buffer.clone());
        Some(buffer)
    }

    /// Records a request of this moment; `encode` appends its payload.
    #[inline]
    fn record(
        &self,
        buffer: &Buffer,
        kind: u8,
        encode: impl FnOnce(&mut Vec<u8>),
    ) -> Option<Ticket> {
        if self.stopped.load(Ordering::Relaxed) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        let mut state = buffer.state.lock();
        if state.is_closed {
            return None;
        }
        if self.sampling > 1 {
            state.skipped += 1;
            if state.skipped < self.sampling {
                return None;
            }
            state.skipped = 0;
        }
        let began = self.clock.monotonic_nanos();
        let bytes = &mut state.bytes;
        // At once for all pieces of a usual record.
        bytes.reserve(USUAL);
        let at = begin(bytes, began, kind);
        encode(bytes);
        if !end(bytes, at) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        let len = bytes.len();
        let place = state.places;
        state.places += 1;
        drop(state);
        if len >= WRITE_AT {
            self.write_out(len >= WAIT_AT);
        }
        Some(Ticket {
            recorder: self.id,
            thread: buffer.index,
            place,
            began,
        })
    }

    /// Notes what became of a request; its ordinal, and its time if that is 0, are found here.
    fn extend(&self, buffer: &Buffer, ticket: Ticket, mut extension: Extension) {
        let mut state = buffer.state.lock();
        if state.is_closed {
            return;
        }
        let now = self.clock.monotonic_nanos();
        if extension.nanos == 0 {
            extension.nanos = now.saturating_sub(ticket.began);
        }
        let bytes = &mut state.bytes;
        let at = begin(bytes, now, EXTENSION);
        bytes.extend_from_slice(&ticket.thread.to_le_bytes());
        bytes.extend_from_slice(&ticket.place.to_le_bytes());
        extension.encode(bytes);
        end(bytes, at);
        let len = bytes.len();
        drop(state);
        if len >= WRITE_AT {
            self.write_out(len >= WAIT_AT);
        }
    }

    /// Moves what buffers hold into the file, unless another thread does and `waits` is false.
    #[cold]
    fn write_out(&self, waits: bool) {
        let sink = match waits {
            true => Some(self.sink.lock()),
            false => self.sink.try_lock(),
        };
        let Some(mut sink) = sink else { return };
        // Before the buffers are locked: see above.
        let until = self.clock.monotonic_nanos();
        self.collect(&mut sink, false);
        let failed = sink.merge(until);
        let is_full = sink.is_full();
        drop(sink);
        if is_full || failed.is_some() {
            self.stopped.store(true, Ordering::Relaxed);
        }
        if let Some(e) = failed {
            (self.on_stop)(&e);
        }
    }

    fn collect(&self, sink: &mut Sink, is_last: bool) {
        let buffers = {
            let mut buffers = self.buffers.lock();
            buffers.is_closed |= is_last;
            buffers.all.clone()
        };
        let mut gone = Vec::new();
        for buffer in &buffers {
            // A thread that is gone: nobody but the list and this copy has its buffer. Looked at before its bytes are taken,
            // since until it goes it may add some. Acquire: the lock below comes after its last one.
            if Arc::strong_count(buffer) == 2 {
                fence(Ordering::Acquire);
                gone.push(buffer.index);
            }
            let mut state = buffer.state.lock();
            state.is_closed |= is_last;
            sink.take(buffer.index, &mut state.bytes);
        }
        if !gone.is_empty() {
            self.buffers.lock().all.retain(|b| !gone.contains(&b.index));
            sink.forget(&gone);
        }
    }

    /// Returns whether it takes no more records.
    fn is_over(&self) -> bool {
        self.buffers.lock().is_closed
    }

    /// Ends the trace.
    ///
    /// # Errors
    /// Why it stopped earlier; of the file. What was written is there in any case.
    pub(crate) fn finish(&self) -> Result<TraceSummary> {
        let mut sink = self.sink.lock();
        self.collect(&mut sink, true);
        sink.merge(u64::MAX);
        let now = self.clock.monotonic_nanos();
        let mut summary = sink.finish(self.kind.has_end().then_some(now))?;
        summary.dropped += self.dropped.load(Ordering::Relaxed);
        Ok(summary)
    }
}

/// A buffer of the calling thread, and the trace it belongs to.
struct Attached {
    recorder: Arc<Recorder>,
    buffer: Arc<Buffer>,
}

thread_local! {
    /// Buffers of the calling thread, one of each trace that it takes part in.
    static ATTACHED: RefCell<Vec<Attached>> = const { RefCell::new(Vec::new()) };
}

/// The switch of one kind of trace of one database.
pub(crate) struct Tap {
    /// Id of the trace that is being written; 0 is none. Relaxed: the buffers' locks order everything.
    id: AtomicU64,
    current: Mutex<Option<Arc<Recorder>>>,
}

impl Default for Tap {
    fn default() -> Self {
        Self {
            id: AtomicU64::new(0),
            current: Mutex::new(LEAF_RANK, None),
        }
    }
}

impl std::fmt::Debug for Tap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tap").field("is_on", &self.is_on()).finish()
    }
}

impl Tap {
    /// Returns whether a trace is being written.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.id.load(Ordering::Relaxed) != 0
    }

    /// Puts another trace, or none, in place of the current one, which is returned.
    pub(crate) fn replace(&self, recorder: Option<Arc<Recorder>>) -> Option<Arc<Recorder>> {
        self.replace_and(recorder, || ())
    }

    /// As [`Self::replace`], and `also` happens before another begins or ends.
    pub(super) fn replace_and(
        &self,
        recorder: Option<Arc<Recorder>>,
        also: impl FnOnce(),
    ) -> Option<Arc<Recorder>> {
        let mut current = self.current.lock();
        also();
        let id = recorder.as_ref().map_or(0, |r| r.id);
        let old = std::mem::replace(&mut *current, recorder);
        self.id.store(id, Ordering::Relaxed);
        old
    }

    /// Puts a trace in place if none is being written, and has `also` happen before it can end; false if one is.
    pub(super) fn begin(&self, recorder: Recorder, also: impl FnOnce()) -> bool {
        let mut current = self.current.lock();
        let begins = current.is_none();
        if begins {
            self.id.store(recorder.id, Ordering::Relaxed);
            *current = Some(Arc::new(recorder));
            also();
        }
        begins
    }

    /// Records a request of this moment; `encode` appends its payload. A ticket comes back if what becomes of the
    /// request is to be told to [`Self::extend`].
    pub(crate) fn record(&self, kind: u8, encode: impl FnOnce(&mut Vec<u8>)) -> Option<Ticket> {
        self.with_buffer(|recorder, buffer| {
            let ticket = recorder.record(buffer, kind, encode);
            ticket.filter(|_| recorder.with_extension)
        })
        .flatten()
    }

    /// As [`Self::record`], into a buffer of the caller, who sees to the order of records.
    pub(crate) fn record_in(&self, ordered: &Ordered, kind: u8, encode: impl FnOnce(&mut Vec<u8>)) {
        let id = self.id.load(Ordering::Relaxed);
        let of = |a: &Attached| (a.recorder.clone(), a.buffer.clone());
        let found = ordered
            .0
            .lock()
            .as_ref()
            .filter(|a| a.recorder.id == id)
            .map(of);
        let (recorder, buffer) = match found {
            Some(found) => found,
            None => {
                let Some(attached) = self.attach() else {
                    return;
                };
                let new = of(&attached);
                *ordered.0.lock() = Some(attached);
                new
            }
        };
        recorder.record(&buffer, kind, encode);
    }

    /// Notes what became of a request; its ordinal, and its time if that is 0, are found here.
    pub(crate) fn extend(&self, ticket: Ticket, extension: Extension) {
        self.with_buffer(|recorder, buffer| {
            if recorder.id == ticket.recorder {
                recorder.extend(buffer, ticket, extension);
            }
        });
    }

    fn attach(&self) -> Option<Attached> {
        let recorder = self.current.lock().clone()?;
        let buffer = recorder.new_buffer()?;
        Some(Attached { recorder, buffer })
    }

    #[inline]
    fn with_buffer<T>(&self, f: impl FnOnce(&Recorder, &Buffer) -> T) -> Option<T> {
        let id = self.id.load(Ordering::Relaxed);
        let mut f = Some(f);
        let called = ATTACHED.try_with(|attached| {
            let attached = attached.borrow();
            let found = attached.iter().find(|a| a.recorder.id == id)?;
            let f = f.take()?;
            Some(f(&found.recorder, &found.buffer))
        });
        // A thread that is being torn down has no locals any more.
        match called {
            Ok(Some(result)) => Some(result),
            Ok(None) => self.with_new_buffer(f?),
            Err(_) => None,
        }
    }

    #[cold]
    fn with_new_buffer<T>(&self, f: impl FnOnce(&Recorder, &Buffer) -> T) -> Option<T> {
        let Attached { recorder, buffer } = self.attach()?;
        let kept = Attached {
            recorder: recorder.clone(),
            buffer: buffer.clone(),
        };
        // A write of the trace itself that is traced finds the list borrowed; then it has the buffer for one record.
        let _ = ATTACHED.try_with(|attached| {
            if let Ok(mut attached) = attached.try_borrow_mut() {
                attached.retain(|a| !a.recorder.is_over());
                attached.push(kept);
            }
        });
        Some(f(&recorder, &buffer))
    }
}

/// A buffer for records whose order the caller sees to, by a lock of his own.
pub(crate) struct Ordered(Mutex<Option<Attached>>);

impl Default for Ordered {
    fn default() -> Self {
        Self(Mutex::new(LEAF_RANK, None))
    }
}

/// Appends the head of a record whose length is not known yet; returns where the record begins.
#[inline]
fn begin(bytes: &mut Vec<u8>, nanos: u64, kind: u8) -> usize {
    let at = bytes.len();
    let mut head = [0; HEAD];
    head[..8].copy_from_slice(&nanos.to_le_bytes());
    head[8] = kind;
    bytes.extend_from_slice(&head);
    at
}

/// Fills the length in; takes the record back if it has no room for that.
#[inline]
fn end(bytes: &mut Vec<u8>, at: usize) -> bool {
    let len = bytes.len() - at - HEAD;
    if len > PAYLOAD_MAX {
        bytes.truncate(at);
        return false;
    }
    bytes[at + 9..at + HEAD].copy_from_slice(&(len as u32).to_le_bytes());
    true
}
