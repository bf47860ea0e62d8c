//! The file of a trace: merges the buffers of threads by time.
//!
//! Records of buffers carry stamps of a counter, or the nanoseconds of a clock, that never go back; timestamps are derived
//! from them, by what a clock said at two moments, so that they rise whatever the clock of the day does meanwhile. Extensions ([`super::Extension`]) come by the same buffers and go
//! into the file beside the trace, once the ordinal of their record is known.

use super::encode::put_record;
use super::extension::Extension;
use super::kinds;
use super::recorder::{HEAD, TraceSummary};
use spanlith_base::coding::{get_fixed32, get_fixed64};
use spanlith_base::sync::Ring;
use spanlith_base::{Error, Result};
use spanlith_env::WritableFile;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

/// Kind of an extension in a buffer: thread (fixed32) and place (fixed64) of its record, stamps that it took if the extension
/// does not say (fixed64), then the extension with its length in front, without an ordinal.
pub(super) const EXTENSION: u8 = 0xe0;
/// Bytes of thread, place and time.
const TICKET: usize = 20;

/// Bytes that are handed to the file at once.
const CHUNK: usize = 256 << 10;
/// Records of one thread that are handed to the file as they are, without being collected first.
const DIRECT: usize = 16 << 10;
/// A buffer that held more is not kept.
const KEPT_MAX: usize = 1 << 20;

/// Describes what was taken from the buffer of one thread, as far as it is not in the file yet.
#[derive(Default)]
struct Taken {
    bytes: Vec<u8>,
    /// Where what is not merged begins.
    at: usize,
    /// Records of the trace that were merged.
    places: u64,
    /// Ordinal of the last of them, if no extension has asked for it.
    last: Option<u64>,
    is_gone: bool,
}

/// The half of an extension and its record that came first.
enum Half {
    /// Ordinal of the record.
    Record(u64),
    /// Says what became of it.
    Extension(Extension),
}

/// Says what timestamps are, of records that carry nanoseconds of a clock that never goes back.
#[derive(Clone, Copy, Debug)]
pub(super) enum Times {
    /// Microseconds since 1970, of which so many had passed at that moment of the other clock.
    OfDay { micros: u64, nanos: u64 },
    /// The nanoseconds themselves.
    Monotonic,
}

/// A stamp, and what the clock said then.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Moment {
    pub stamp: u64,
    pub nanos: u64,
}

/// Turns stamps into nanoseconds of the clock: along the line through two moments.
#[derive(Clone, Copy, Debug)]
struct Scale {
    last: Moment,
    /// Nanoseconds of a stamp between the last two moments, times 2^32.
    pace: u64,
    first: Moment,
}

impl Scale {
    fn pace(from: Moment, to: Moment) -> Option<u64> {
        let nanos = u128::from(to.nanos.saturating_sub(from.nanos)) << 32;
        let stamps = u128::from(to.stamp.saturating_sub(from.stamp));
        u64::try_from(nanos.checked_div(stamps)?).ok()
    }

    fn advance(&mut self, to: Moment) {
        self.pace = Self::pace(self.last, to).unwrap_or(self.pace);
        self.last = to;
    }

    /// Nanoseconds of so many stamps.
    fn span(stamps: u64, pace: u64) -> u64 {
        ((u128::from(stamps) * u128::from(pace)) >> 32) as u64
    }

    /// Moment of a stamp of before the last moment.
    fn nanos(&self, stamp: u64) -> u64 {
        let ago = Self::span(self.last.stamp.saturating_sub(stamp), self.pace);
        self.last.nanos.saturating_sub(ago)
    }

    /// Nanoseconds that so many stamps took, by the pace of the whole trace.
    fn took(&self, stamps: u64) -> u64 {
        Self::span(
            stamps,
            Self::pace(self.first, self.last).unwrap_or(self.pace),
        )
    }
}

/// The file, and the one beside it.
pub(super) struct Sink {
    file: Option<Box<dyn WritableFile>>,
    extension: Option<Box<dyn WritableFile>>,
    out: Vec<u8>,
    out_extension: Vec<u8>,
    taken: BTreeMap<u32, Taken>,
    halves: HashMap<(u32, u64), Half>,
    times: Times,
    scale: Scale,
    /// Timestamp of the last record.
    timestamp: u64,
    max_bytes: u64,
    bytes: u64,
    records: u64,
    dropped: u64,
    error: Option<Error>,
}

/// When, and which kind.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Head {
    stamp: u64,
    /// Behind records of the same moment.
    is_extension: bool,
    thread: u32,
}

impl Taken {
    fn head(&self, thread: u32) -> Option<Head> {
        let rest = self.bytes.get(self.at..)?;
        Some(Head {
            stamp: get_fixed64(rest, 0)?,
            is_extension: *rest.get(8)? == EXTENSION,
            thread,
        })
    }
}

impl Sink {
    pub(super) fn new(
        file: Box<dyn WritableFile>,
        extension: Option<Box<dyn WritableFile>>,
        times: Times,
        begin: Moment,
        max_bytes: u64,
    ) -> Self {
        Self {
            bytes: file.len(),
            file: Some(file),
            extension,
            out: Vec::new(),
            out_extension: Vec::new(),
            taken: BTreeMap::new(),
            halves: HashMap::new(),
            times,
            scale: Scale {
                last: begin,
                pace: 1 << 32,
                first: begin,
            },
            timestamp: 0,
            max_bytes,
            records: 0,
            dropped: 0,
            error: None,
        }
    }

    /// Takes what the ring of a thread holds.
    pub(super) fn take(&mut self, ring: &Ring) {
        ring.take(self.room(ring.index));
    }

    /// Takes a record that is too large for a ring, after what the ring held before.
    pub(super) fn take_large(&mut self, thread: u32, record: &[u8]) {
        self.room(thread).extend_from_slice(record);
    }

    fn room(&mut self, thread: u32) -> &mut Vec<u8> {
        let taken = self.taken.entry(thread).or_default();
        if taken.at == taken.bytes.len() {
            taken.bytes.clear();
            taken.at = 0;
        }
        &mut taken.bytes
    }

    /// These threads put nothing into their buffers any more.
    pub(super) fn forget(&mut self, threads: &[u32]) {
        for thread in threads {
            if let Some(taken) = self.taken.get_mut(thread) {
                taken.is_gone = true;
            }
        }
    }

    /// Writes the records of before `until`. `now` is later than all of them. The error that ends the trace is returned once.
    pub(super) fn merge(&mut self, until: u64, now: Moment) -> Option<Error> {
        self.scale.advance(now);
        let had_error = self.error.is_some();
        let mut taken = std::mem::take(&mut self.taken);
        let heads = taken.iter().filter_map(|(&thread, t)| t.head(thread));
        let mut heads: BinaryHeap<Reverse<Head>> = heads.map(Reverse).collect();
        while let Some(Reverse(first)) = heads.pop() {
            if first.stamp >= until {
                break;
            }
            let Some(from) = taken.get_mut(&first.thread) else {
                break;
            };
            // As long as its records stand before those of all others, no other is looked at.
            let next = heads.peek().map(|head| head.0);
            let is_next = |at: &Head| at.stamp < until && next.is_none_or(|next| *at <= next);
            if self.extension.is_none() && self.error.is_none() {
                self.put_run(from, first.thread, is_next);
            }
            let mut head = from.head(first.thread);
            while let Some(at) = head.filter(is_next) {
                self.put(at, from);
                head = from.head(first.thread);
            }
            heads.extend(head.map(Reverse));
        }
        taken.retain(|_, t| {
            if t.at == t.bytes.len() && t.bytes.capacity() > KEPT_MAX {
                (t.bytes, t.at) = (Vec::new(), 0);
            }
            !t.is_gone || t.at < t.bytes.len()
        });
        self.taken = taken;
        self.hand_over();
        self.error.clone().filter(|_| !had_error)
    }

    /// Moves records of a thread as long as `is_next` and the file's size allow, with one copy for all of them. There
    /// are no extensions.
    fn put_run(&mut self, from: &mut Taken, thread: u32, is_next: impl Fn(&Head) -> bool) {
        let begin = from.at;
        while self.bytes <= self.max_bytes
            && let Some(rest) = from.bytes.get_mut(from.at..)
            && let Some(stamp) = get_fixed64(rest, 0)
        {
            let head = Head {
                stamp,
                is_extension: false,
                thread,
            };
            let len = HEAD + get_fixed32(rest, 9).unwrap_or(0) as usize;
            debug_assert!(rest.get(8) != Some(&EXTENSION) && len <= rest.len());
            if !is_next(&head) {
                break;
            }
            let timestamp = self.timestamp(stamp);
            if let Some(to) = rest.get_mut(..8) {
                to.copy_from_slice(&timestamp.to_le_bytes());
            }
            from.at += len.min(rest.len());
            from.places += 1;
            self.bytes += len as u64;
            self.records += 1;
        }
        let run = from.bytes.get(begin..from.at).unwrap_or_default();
        if run.len() < DIRECT {
            self.out.extend_from_slice(run);
        } else {
            self.hand_over();
            if let (Some(file), None) = (&mut self.file, &self.error) {
                self.error = file.append(run).err();
            }
        }
        if self.out.len() >= CHUNK {
            self.hand_over();
        }
    }

    /// Moves one record of a thread.
    fn put(&mut self, head: Head, from: &mut Taken) {
        let rest = from.bytes.get(from.at..).unwrap_or_default();
        let len = get_fixed32(rest, 9).unwrap_or(0) as usize;
        let record = rest.get(..HEAD + len).unwrap_or(rest);
        from.at += record.len();
        let payload = record.get(HEAD..).unwrap_or_default();
        if head.is_extension {
            return self.put_extension(head.thread, from, payload.len());
        }
        let place = from.places;
        from.places += 1;
        if self.error.is_some() || self.is_full() {
            self.dropped += 1;
            from.last = None;
            return;
        }
        let timestamp = self.timestamp(head.stamp);
        let at = self.out.len();
        self.out.extend_from_slice(record);
        if let Some(to) = self.out.get_mut(at..at + 8) {
            to.copy_from_slice(&timestamp.to_le_bytes());
        }
        self.bytes += record.len() as u64;
        let ordinal = self.records;
        self.records += 1;
        if self.extension.is_some()
            && let Some(before) = from.last.replace(ordinal)
        {
            self.meet((head.thread, place - 1), before);
        }
        if self.out.len() >= CHUNK {
            self.hand_over();
        }
    }

    /// The payload of an extension lies right before the place of the thread.
    fn put_extension(&mut self, thread: u32, from: &mut Taken, len: usize) {
        let payload = from.bytes.get(from.at - len..from.at).unwrap_or_default();
        let (Some(of), Some(place), Some(took)) = (
            get_fixed32(payload, 0),
            get_fixed64(payload, 4),
            get_fixed64(payload, 12),
        ) else {
            return;
        };
        let encoded = payload.get(TICKET..).unwrap_or_default();
        let Some(mut extension) = Extension::of_buffer(encoded) else {
            return;
        };
        if extension.nanos == 0 {
            extension.nanos = self.scale.took(took);
        }
        if of == thread && place + 1 == from.places {
            // The usual case: the record before it.
            if let Some(ordinal) = from.last.take() {
                self.add_extension(extension, ordinal);
            }
            return;
        }
        match self.halves.remove(&(of, place)) {
            Some(Half::Record(ordinal)) => self.add_extension(extension, ordinal),
            Some(half @ Half::Extension(_)) => {
                self.halves.insert((of, place), half);
            }
            None => {
                // The last record of another thread, one that is not merged yet, or one that was dropped.
                self.halves.insert((of, place), Half::Extension(extension));
            }
        }
    }

    /// A record whose extension did not come right after it.
    fn meet(&mut self, at: (u32, u64), ordinal: u64) {
        match self.halves.remove(&at) {
            Some(Half::Extension(early)) => self.add_extension(early, ordinal),
            _ => {
                self.halves.insert(at, Half::Record(ordinal));
            }
        }
    }

    fn add_extension(&mut self, mut extension: Extension, ordinal: u64) {
        extension.ordinal = ordinal;
        extension.encode(&mut self.out_extension);
        if self.out_extension.len() >= CHUNK {
            self.hand_over();
        }
    }

    fn timestamp(&mut self, stamp: u64) -> u64 {
        let nanos = self.scale.nanos(stamp);
        let timestamp = match self.times {
            Times::OfDay {
                micros,
                nanos: base,
            } => micros + nanos.saturating_sub(base) / 1000,
            Times::Monotonic => nanos,
        };
        // A record that came late stands after younger ones.
        self.timestamp = self.timestamp.max(timestamp);
        self.timestamp
    }

    /// Gives the files what was put together.
    fn hand_over(&mut self) {
        for (file, out) in [
            (&mut self.file, &mut self.out),
            (&mut self.extension, &mut self.out_extension),
        ] {
            if let Some(file) = file
                && self.error.is_none()
                && !out.is_empty()
            {
                self.error = file.append(out).err();
            }
            out.clear();
        }
    }

    /// Returns whether it has reached its size.
    pub(super) fn is_full(&self) -> bool {
        self.bytes > self.max_bytes
    }

    /// Ends the trace, with a record that says so if a moment is given. Everything has been merged.
    pub(super) fn finish(&mut self, end: Option<Moment>) -> Result<TraceSummary> {
        // Extensions that came before the last record of another thread was known to be one.
        let last: Vec<((u32, u64), u64)> = self
            .taken
            .iter()
            .filter_map(|(&thread, t)| Some(((thread, t.places.checked_sub(1)?), t.last?)))
            .collect();
        for (at, ordinal) in last {
            self.meet(at, ordinal);
        }
        if let Some(now) = end {
            let timestamp = self.timestamp(now.stamp);
            let before = self.out.len();
            put_record(&mut self.out, timestamp, kinds::END, &[]);
            self.bytes += (self.out.len() - before) as u64;
        }
        self.hand_over();
        let files = [self.file.take(), self.extension.take()];
        for mut file in files.into_iter().flatten() {
            let closed = file.close();
            self.error = self.error.take().or(closed.err());
        }
        match self.error.take() {
            Some(e) => Err(e),
            None => Ok(TraceSummary {
                records: self.records,
                dropped: self.dropped,
                bytes: self.bytes,
            }),
        }
    }
}
