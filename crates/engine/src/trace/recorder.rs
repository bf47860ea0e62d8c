//! Writing a trace while callers are served.
//!
//! Each thread fills a ring of its own ([`spanlith_base::sync::Ring`]), without a lock. A thread of the trace empties all of them a hundred
//! times a second, or when one is half full, and merges them into the file ([`super::sink`]), so that the file is a
//! trace at any moment and its memory is bounded. A caller that finds its ring full writes itself: nothing is lost. Where time is
//! not the machine's there is no such thread, and callers write.
//!
//! Records are ordered by stamps that callers take as they come in, of the processor's counter if the machine has one that
//! can be trusted, which costs half of a look at a clock. A call that ended before another began stands before it: the
//! writer merges what is older than its own stamp, taken before it looks at any ring. A record that reaches its ring
//! only then is of a call that had not done anything yet, so all that began after it ended have later stamps than the
//! writer's.
//!
//! [`Tap`] is the switch: off, it costs one relaxed load. A file that cannot be written stops the trace and nothing else.

use super::encode::{put_access_header, put_query_header, put_record};
use super::extension::Extension;
use super::kinds;
use super::sink::{EXTENSION, Moment, Sink, Times};
use spanlith_base::sync::{Fill, Mutex, Producer, RECORD_MAX, Ring};
use spanlith_base::{Error, Result};
use spanlith_env::{Clock, FileSystem, IoActivity, Ticks, start_thread};
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering, fence};
use std::sync::{Arc, Weak};
use std::thread::{JoinHandle, Thread};
use std::time::Duration;

/// The file, held during I/O; below the locks of file systems.
const SINK_RANK: u8 = 94;
/// Buffers, their list and the switch. None is held while another is taken.
const LEAF_RANK: u8 = 95;

/// Time between two looks of the trace's thread at the rings.
const LOOKS: Duration = Duration::from_millis(10);
/// Ticks that the writer's stamp is put back: much more than the instructions that a processor has under way take.
const MARGIN: u64 = 30_000;
/// Largest payload: its length has 32 bits.
const PAYLOAD_MAX: usize = u32::MAX as usize;

/// Bytes of a record before its payload.
pub(super) const HEAD: usize = spanlith_base::sync::RECORD_HEAD;

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
    /// Records in the file after its header, without the end.
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

/// Where stamps come from.
#[derive(Clone)]
enum Stamps {
    Ticks(Ticks, Arc<dyn Clock>),
    Clock(Arc<dyn Clock>),
}

impl Stamps {
    fn of(clock: Arc<dyn Clock>) -> Self {
        match Ticks::of_machine() {
            Some(ticks) if clock.is_of_machine() => Self::Ticks(ticks, clock),
            _ => Self::Clock(clock),
        }
    }

    #[inline]
    fn now(&self) -> u64 {
        match self {
            Self::Ticks(ticks, _) => ticks.now(),
            Self::Clock(clock) => clock.monotonic_nanos(),
        }
    }

    /// A stamp that no record has that is pushed from now on by a call that begins from now on.
    fn until(&self) -> u64 {
        match self {
            Self::Ticks(ticks, _) => ticks.now().saturating_sub(MARGIN),
            Self::Clock(clock) => clock.monotonic_nanos(),
        }
    }

    /// A stamp and the clock at that moment.
    fn moment(&self) -> Moment {
        match self {
            Self::Ticks(ticks, clock) => {
                // The quickest of a few looks: the thread may be stopped between two readings.
                let look = |_| {
                    let before = ticks.now();
                    let nanos = clock.monotonic_nanos();
                    let stamp = ticks.now();
                    (stamp.saturating_sub(before), Moment { stamp, nanos })
                };
                let quickest = (0..4).map(look).min_by_key(|(took, _)| *took);
                quickest.map_or(Moment::default(), |(_, moment)| moment)
            }
            Self::Clock(clock) => {
                let nanos = clock.monotonic_nanos();
                Moment {
                    stamp: nanos,
                    nanos,
                }
            }
        }
    }
}

/// States of a recorder.
mod state {
    /// Records.
    pub const ON: u8 = 0;
    /// Counts what it does not record: the file is full, or could not be written.
    pub const STOPPED: u8 = 1;
    /// Is over.
    pub const ENDED: u8 = 2;
}

/// Told once, when a trace stops by itself.
pub(crate) type OnStop = Box<dyn Fn(&Error) + Send + Sync>;

/// A trace that is being written.
pub(crate) struct Recorder {
    id: u64,
    kind: TraceKind,
    stamps: Stamps,
    sampling: u64,
    with_extension: bool,
    /// One of [`state`]. Relaxed: what is recorded beside the end of a trace may be in it or not.
    state: AtomicU8,
    dropped: AtomicU64,
    buffers: Mutex<Buffers>,
    sink: Mutex<Sink>,
    /// The thread that writes, while there is one.
    writer: Mutex<Option<JoinHandle<()>>>,
    on_stop: OnStop,
}

struct Buffers {
    all: Vec<Arc<Ring>>,
    /// Number of the next one; none is given twice.
    next: u32,
    is_closed: bool,
    /// The thread that writes.
    writer: Option<Thread>,
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
    ) -> Result<Arc<Self>> {
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
        let is_of_machine = clock.is_of_machine();
        let stamps = Stamps::of(clock);
        let sink = Sink::new(file, extension, times, stamps.moment(), options.max_bytes);
        let recorder = Arc::new(Self {
            kind: options.kind,
            // Relaxed: it only has to be another one.
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            stamps,
            sampling: options.sampling,
            with_extension: options.with_extension,
            state: AtomicU8::new(state::ON),
            dropped: AtomicU64::new(0),
            buffers: Mutex::new(
                LEAF_RANK,
                Buffers {
                    all: Vec::new(),
                    next: 0,
                    is_closed: false,
                    writer: None,
                },
            ),
            sink: Mutex::new(SINK_RANK, sink),
            writer: Mutex::new(LEAF_RANK, None),
            on_stop,
        });
        if is_of_machine {
            recorder.start_writer();
        }
        Ok(recorder)
    }

    /// Starts the thread that writes. Without one callers write, too.
    fn start_writer(self: &Arc<Self>) {
        let weak = Arc::downgrade(self);
        if let Ok(handle) = start_thread("spanlith-trace", move || write_on(&weak)) {
            self.buffers.lock().writer = Some(handle.thread().clone());
            *self.writer.lock() = Some(handle);
        }
    }

    fn new_buffer(&self) -> Option<Producer> {
        let mut buffers = self.buffers.lock();
        if buffers.is_closed {
            return None;
        }
        let producer = Ring::new(buffers.next);
        buffers.next += 1;
        buffers.all.push(producer.ring.clone());
        Some(producer)
    }

    /// Records a request of this moment; `encode` appends its payload. Returns whether it did.
    #[inline]
    fn record(&self, buffer: &Producer, kind: u8, encode: impl FnOnce(&mut Vec<u8>)) -> bool {
        if self.state.load(Ordering::Relaxed) != state::ON {
            self.leave_out();
            return false;
        }
        if self.sampling > 1 {
            let skipped = buffer.skipped.get() + 1;
            buffer.skipped.set(skipped % self.sampling);
            if skipped < self.sampling {
                return false;
            }
        }
        let began = self.stamps.now();
        let pushed = buffer.with_record(began, kind, encode, |record| self.push(buffer, record));
        match pushed {
            true => {
                buffer.stamp.set(began);
                buffer.places.set(buffer.places.get() + 1);
            }
            false => self.leave_out(),
        }
        pushed
    }

    /// The ticket of the last record of a buffer.
    fn ticket(&self, buffer: &Producer) -> Ticket {
        debug_assert!(buffer.places.get() > 0, "something was recorded");
        Ticket {
            recorder: self.id,
            thread: buffer.ring.index,
            place: buffer.places.get().saturating_sub(1),
            began: buffer.stamp.get(),
        }
    }

    #[cold]
    fn leave_out(&self) {
        if self.state.load(Ordering::Relaxed) != state::ENDED {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Appends a record; false if that cannot be.
    #[inline]
    fn push(&self, buffer: &Producer, record: &[u8]) -> bool {
        if record.len() <= RECORD_MAX
            && let Some(fill) = buffer.push(record)
        {
            if fill == Fill::Half {
                self.tell();
            }
            return true;
        }
        self.push_on(buffer, record)
    }

    /// A ring is half full.
    #[cold]
    fn tell(&self) {
        let writer = self.buffers.lock().writer.clone();
        match writer {
            Some(writer) => writer.unpark(),
            None => self.write_out(false),
        }
    }

    /// Makes room for a record, or hands one over that is too large for a ring.
    #[cold]
    fn push_on(&self, buffer: &Producer, record: &[u8]) -> bool {
        if record.len() - HEAD > PAYLOAD_MAX {
            return false;
        }
        loop {
            self.write_out(true);
            if record.len() > RECORD_MAX {
                let mut sink = self.sink.lock();
                if self.state.load(Ordering::Relaxed) != state::ON {
                    return false;
                }
                // Earlier records of this thread come first; it adds none meanwhile.
                sink.take(&buffer.ring);
                sink.take_large(buffer.ring.index, record);
                return true;
            }
            if self.state.load(Ordering::Relaxed) != state::ON {
                return false;
            }
            if buffer.push(record).is_some() {
                return true;
            }
        }
    }

    /// Notes what became of a request; its ordinal, and its time if that is 0, are found here.
    fn extend(&self, buffer: &Producer, ticket: Ticket, extension: Extension) {
        if self.state.load(Ordering::Relaxed) == state::ENDED {
            return;
        }
        let now = self.stamps.now();
        let took = match extension.nanos {
            0 => now.saturating_sub(ticket.began),
            _ => 0,
        };
        let encode = |bytes: &mut Vec<u8>| {
            bytes.extend_from_slice(&ticket.thread.to_le_bytes());
            bytes.extend_from_slice(&ticket.place.to_le_bytes());
            bytes.extend_from_slice(&took.to_le_bytes());
            extension.encode(bytes);
        };
        buffer.with_record(now, EXTENSION, encode, |record| self.push(buffer, record));
    }

    /// Moves what rings hold into the file, unless another thread does and `waits` is false.
    #[cold]
    fn write_out(&self, waits: bool) {
        let sink = match waits {
            true => Some(self.sink.lock()),
            false => self.sink.try_lock(),
        };
        let Some(mut sink) = sink else { return };
        if self.state.load(Ordering::Relaxed) == state::ENDED {
            return;
        }
        // Before any ring is looked at: see above.
        let until = self.stamps.until();
        self.collect(&mut sink);
        let failed = sink.merge(until, self.stamps.moment());
        let is_full = sink.is_full();
        drop(sink);
        if is_full || failed.is_some() {
            // Not over the end, which may have come.
            let (on, stopped) = (state::ON, state::STOPPED);
            let _ = self
                .state
                .compare_exchange(on, stopped, Ordering::Relaxed, Ordering::Relaxed);
        }
        if let Some(e) = failed {
            (self.on_stop)(&e);
        }
    }

    fn collect(&self, sink: &mut Sink) {
        let buffers = self.buffers.lock().all.clone();
        let mut gone = Vec::new();
        for ring in &buffers {
            // A thread that is gone: nobody but the list and this copy has its ring. Looked at before its records are taken,
            // since until it goes it may add some. Acquire: what is loaded below comes after its last one.
            if Arc::strong_count(ring) == 2 {
                fence(Ordering::Acquire);
                gone.push(ring.index);
            }
            sink.take(ring);
        }
        if !gone.is_empty() {
            self.buffers.lock().all.retain(|b| !gone.contains(&b.index));
            sink.forget(&gone);
        }
    }

    /// Returns whether it takes no more records.
    fn is_over(&self) -> bool {
        self.state.load(Ordering::Relaxed) == state::ENDED
    }

    /// Ends the trace.
    ///
    /// # Errors
    /// Why it stopped earlier; of the file. What was written is there in any case.
    pub(crate) fn finish(&self) -> Result<TraceSummary> {
        let writer = {
            let mut buffers = self.buffers.lock();
            buffers.is_closed = true;
            buffers.writer.take()
        };
        let mut sink = self.sink.lock();
        self.state.store(state::ENDED, Ordering::Relaxed);
        if let Some(writer) = writer {
            writer.unpark();
        }
        self.collect(&mut sink);
        let now = self.stamps.moment();
        sink.merge(u64::MAX, now);
        let finished = sink.finish(self.kind.has_end().then_some(now));
        drop(sink);
        let writer = self.writer.lock().take();
        if let Some(writer) = writer {
            // It does nothing any more; one that panicked has said so.
            let _ = writer.join();
        }
        let mut summary = finished?;
        summary.dropped += self.dropped.load(Ordering::Relaxed);
        Ok(summary)
    }
}

/// Empties rings until the trace is over.
fn write_on(recorder: &Weak<Recorder>) {
    loop {
        std::thread::park_timeout(LOOKS);
        let Some(recorder) = recorder.upgrade().filter(|r| !r.is_over()) else {
            return;
        };
        recorder.write_out(false);
    }
}

/// A buffer of the calling thread, and the trace it belongs to.
struct Attached {
    recorder: Arc<Recorder>,
    buffer: Producer,
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
    pub(super) fn begin(&self, recorder: Arc<Recorder>, also: impl FnOnce()) -> bool {
        let mut current = self.current.lock();
        let begins = current.is_none();
        if begins {
            self.id.store(recorder.id, Ordering::Relaxed);
            *current = Some(recorder);
            also();
        }
        begins
    }

    /// Records a request of this moment; `encode` appends its payload. Returns whether what becomes of the request is to be
    /// told to [`Self::extend`], with [`Self::ticket`]. A ticket is not returned from here: moving it through a few
    /// results reads words that were just written in parts, which waits for the record itself to reach the cache, a
    /// tenth of a microsecond.
    #[inline]
    pub(crate) fn record(&self, kind: u8, encode: impl FnOnce(&mut Vec<u8>)) -> bool {
        self.with_buffer(|recorder, buffer| {
            recorder.record(buffer, kind, encode) && recorder.with_extension
        })
        .unwrap_or(false)
    }

    /// The ticket of what the calling thread recorded last; `None` if that trace is not the current one any more.
    #[cold]
    #[inline(never)]
    pub(crate) fn ticket(&self) -> Option<Ticket> {
        self.with_buffer(|recorder, buffer| {
            (buffer.places.get() > 0).then(|| recorder.ticket(buffer))
        })
        .flatten()
    }

    /// As [`Self::record`], into a buffer of the caller, who sees to the order of records.
    pub(crate) fn record_in(&self, ordered: &Ordered, kind: u8, encode: impl FnOnce(&mut Vec<u8>)) {
        let id = self.id.load(Ordering::Relaxed);
        // Taken out and put back: a ring that is full is emptied meanwhile, and no lock is held during that.
        let kept = ordered.0.lock().take().filter(|a| a.recorder.id == id);
        let Some(attached) = kept.or_else(|| self.attach()) else {
            return;
        };
        attached.recorder.record(&attached.buffer, kind, encode);
        *ordered.0.lock() = Some(attached);
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
    fn with_buffer<T>(&self, f: impl FnOnce(&Recorder, &Producer) -> T) -> Option<T> {
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
    fn with_new_buffer<T>(&self, f: impl FnOnce(&Recorder, &Producer) -> T) -> Option<T> {
        let attached = self.attach()?;
        let result = f(&attached.recorder, &attached.buffer);
        // A write of the trace itself that is traced finds the list borrowed; then it has the buffer for one record.
        let _ = ATTACHED.try_with(|list| {
            if let Ok(mut list) = list.try_borrow_mut() {
                list.retain(|a| !a.recorder.is_over());
                list.push(attached);
            }
        });
        Some(result)
    }
}

/// A buffer for records whose order the caller sees to, by a lock of his own.
pub(crate) struct Ordered(Mutex<Option<Attached>>);

impl Default for Ordered {
    fn default() -> Self {
        Self(Mutex::new(LEAF_RANK, None))
    }
}
