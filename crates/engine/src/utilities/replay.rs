//! Replay of traces of queries: what one database was asked is asked of another (R-WL-04).
//!
//! A record is due when as much time has passed since the replay began as had passed when it was recorded, divided by
//! the speed; late ones are asked at once. One thread asks in the order of the trace. Several take turns, as in RocksDB,
//! unless the order of each key's requests is to be kept: then a key has its thread, and what concerns several keys is
//! asked alone.
//!
//! Of a transaction that was prepared a trace has its section twice. It is applied where it was committed.

use crate::db::{Cf, Db};
use crate::read::ReadOptions;
use crate::trace::{
    Extension, ExtensionReader, Query, RawRecord, TornTrace, TraceForm, TraceHeader, TraceReader,
    TraceRecord, extension_path, kinds,
};
use crate::write::WriteOptions;
use spanlith_base::{Error, Result};
use spanlith_env::{Clock, Env};
use spanlith_wal::{BATCH_HEADER_SIZE, BatchIter, BatchOp, WriteBatch};
use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Requests that wait for a thread.
const QUEUE: usize = 1024;
/// Largest wait in one piece, so that a stop is seen.
const NAP: u64 = 100_000_000;

/// How a trace is replayed.
#[derive(Clone, Debug)]
pub struct ReplayOptions {
    /// Threads that ask; 0 is 1.
    pub threads: u32,
    /// Speed: 2 asks twice as fast as it was recorded.
    pub fast_forward: f64,
    /// With several threads: requests of a key in their order.
    pub keeps_key_order: bool,
    /// Steps forward after a seek for which the file beside the trace has no number.
    pub scan_steps: u64,
    /// How writes are made.
    pub write: WriteOptions,
}

impl Default for ReplayOptions {
    fn default() -> Self {
        Self {
            threads: 1,
            fast_forward: 1.0,
            keeps_key_order: false,
            scan_steps: 0,
            write: WriteOptions::default(),
        }
    }
}

/// A request that was replayed.
#[derive(Clone, Copy, Debug)]
pub struct Replayed<'a> {
    /// Kind of its record.
    pub kind: u8,
    /// Nanoseconds between its turn and its beginning.
    pub lag: u64,
    /// Nanoseconds it took.
    pub nanos: u64,
    /// Keys that were found; steps of a scan are none.
    pub found: u64,
    /// Why it failed.
    pub error: Option<&'a Error>,
}

/// Describes what a replay did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplaySummary {
    /// Writes.
    pub writes: u64,
    /// Gets.
    pub gets: u64,
    /// Multi-gets.
    pub multi_gets: u64,
    /// Seeks in both directions.
    pub seeks: u64,
    /// Steps after them.
    pub steps: u64,
    /// Records that are no requests, and sections of transactions that were not committed yet.
    pub skipped: u64,
    /// Keys that were found.
    pub found: u64,
    /// A record that the file does not hold completely: the trace ended there.
    pub torn: Option<TornTrace>,
}

impl ReplaySummary {
    /// Requests.
    pub fn requests(&self) -> u64 {
        self.writes + self.gets + self.multi_gets + self.seeks
    }
}

/// Replays a trace.
pub struct Replayer {
    target: Target,
    env: Env,
    path: PathBuf,
    state: Option<State>,
}

struct State {
    reader: TraceReader,
    header: TraceHeader,
    /// Records after the header that were read.
    ordinal: u64,
    /// Steps after seeks, by ordinal.
    steps: HashMap<u64, (u64, u64)>,
    is_over: bool,
}

/// Describes who is asked.
struct Target {
    db: Db,
    families: BTreeMap<u32, Cf>,
}

/// A record on its way to a thread.
struct Task {
    kind: u8,
    offset: u64,
    payload: Vec<u8>,
    steps: Option<(u64, u64)>,
    due: u64,
}

#[derive(Default)]
struct Counts {
    all: [AtomicU64; 7],
}

/// Which count.
#[derive(Clone, Copy)]
enum Count {
    Write,
    Get,
    MultiGet,
    Seek,
    Step,
    Skip,
    Found,
}

impl Counts {
    fn add(&self, count: Count, n: u64) {
        // Relaxed: read when all threads have ended.
        self.all[count as usize].fetch_add(n, Ordering::Relaxed);
    }

    fn summary(&self, torn: Option<TornTrace>) -> ReplaySummary {
        let [writes, gets, multi_gets, seeks, steps, skipped, found] =
            std::array::from_fn(|at| self.all[at].load(Ordering::Relaxed));
        ReplaySummary {
            writes,
            gets,
            multi_gets,
            seeks,
            steps,
            skipped,
            found,
            torn,
        }
    }
}

/// Describes what threads of a replay share.
struct Run<'a> {
    target: &'a Target,
    header: TraceHeader,
    options: &'a ReplayOptions,
    clock: &'a dyn Clock,
    counts: Counts,
    observe: Option<&'a (dyn Fn(Replayed<'_>) + Sync)>,
    failed: AtomicBool,
    /// Error of the earliest record that failed, and where that is.
    error: Mutex<Option<(u64, Error)>>,
    under_way: AtomicU64,
}

impl Replayer {
    /// A replay of the trace in a file of `env`, into these families; none are all of the database. Nothing is read yet.
    ///
    /// # Errors
    /// Of opening the file.
    pub fn new(db: &Db, families: &[Cf], env: &Env, path: &Path) -> Result<Self> {
        env.fs.open_sequential(path)?;
        let families = match families {
            [] => db.cfs(),
            some => some.to_vec(),
        };
        Ok(Self {
            target: Target {
                db: db.clone(),
                families: families.into_iter().map(|cf| (cf.id(), cf)).collect(),
            },
            env: env.clone(),
            path: path.to_path_buf(),
            state: None,
        })
    }

    /// Goes to the first record; may be called again. Reads the file beside the trace, if there is one that belongs to
    /// it, whose numbers of steps stay in memory: 24 bytes for each scan.
    ///
    /// # Errors
    /// `Incomplete` if the file is empty; `Corruption` if it is no trace, or is one of other things than queries; of
    /// reading.
    pub fn prepare(&mut self) -> Result<()> {
        self.state = None;
        let file = self.env.fs.open_sequential(&self.path)?;
        let mut reader = TraceReader::new(file);
        let in_file = |e: Error| e.with_path(&self.path);
        let header = match reader.next_record()? {
            Some(record) => Some(TraceHeader::from_record(&record).map_err(in_file)?),
            None => None,
        };
        let Some(header) = header else {
            return Err(in_file(match reader.torn() {
                None => Error::incomplete(""),
                Some(_) => {
                    Error::corruption("Corrupted trace file. It ends inside its first record")
                }
            }));
        };
        if !matches!(header.form, TraceForm::Queries { .. }) {
            let text = "Corrupted trace file. Incorrect magic. It is a trace of blocks or of calls";
            return Err(in_file(Error::corruption(text)));
        }
        let steps = self.read_steps(&header)?;
        self.state = Some(State {
            reader,
            header,
            ordinal: 0,
            steps,
            is_over: false,
        });
        Ok(())
    }

    fn read_steps(&self, header: &TraceHeader) -> Result<HashMap<u64, (u64, u64)>> {
        let mut steps = HashMap::new();
        let path = extension_path(&self.path);
        if self.env.fs.entry(&path)?.is_none() {
            return Ok(steps);
        }
        let in_file = |e: Error| e.with_path(&path);
        let file = self.env.fs.open_sequential(&path)?;
        let mut beside = ExtensionReader::new(file).map_err(in_file)?;
        if beside.timestamp() != header.timestamp {
            return Ok(steps);
        }
        while let Some(Extension {
            ordinal,
            kind,
            next,
            prev,
            ..
        }) = beside.next_record().map_err(in_file)?
        {
            if matches!(kind, kinds::SEEK | kinds::SEEK_FOR_PREV) {
                steps.insert(ordinal, (next, prev));
            }
        }
        Ok(steps)
    }

    /// Timestamp of the header in microseconds; 0 before [`Self::prepare`].
    pub fn header_timestamp(&self) -> u64 {
        self.state.as_ref().map_or(0, |s| s.header.timestamp)
    }

    /// Asks what is left of the trace. The summary is that of the requests up to an error.
    ///
    /// # Errors
    /// `InvalidArgument` for a speed that is not above 0; `Incomplete` before [`Self::prepare`] and after the end;
    /// `Corruption` with the place of a record that cannot be read, or whose family is not among those that were given;
    /// of the requests, those that find nothing excepted: the replay stops at the first.
    pub fn replay(
        &mut self,
        options: &ReplayOptions,
        observe: Option<&(dyn Fn(Replayed<'_>) + Sync)>,
    ) -> Result<ReplaySummary> {
        if options.fast_forward <= 0.0 || options.fast_forward.is_nan() {
            return Err(Error::invalid_argument("Wrong fast forward speed!"));
        }
        let Some(state) = &mut self.state else {
            return Err(Error::incomplete("Not prepared!"));
        };
        if state.is_over {
            return Err(Error::incomplete("Trace end."));
        }
        let clock = &*self.env.clock;
        let run = Run {
            target: &self.target,
            header: state.header,
            options,
            clock,
            counts: Counts::default(),
            observe,
            failed: AtomicBool::new(false),
            error: Mutex::new(None),
            under_way: AtomicU64::new(0),
        };
        let read = match options.threads {
            0 | 1 => run.alone(state),
            threads => run.together(state, threads as usize),
        };
        let failed = run
            .error
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some((offset, e)) = failed {
            return Err(e.with("offset", offset));
        }
        read?;
        state.is_over = true;
        Ok(run.counts.summary(state.reader.torn()))
    }
}

/// A record, and the steps after its seek.
type Turn<'a> = (RawRecord<'a>, Option<(u64, u64)>);

impl State {
    /// The next record, unless it is the end.
    fn next(&mut self) -> Result<Option<Turn<'_>>> {
        let ordinal = self.ordinal;
        let record = self.reader.next_record()?;
        self.ordinal += 1;
        let steps = |kind| match kind {
            kinds::SEEK | kinds::SEEK_FOR_PREV => self.steps.get(&ordinal).copied(),
            _ => None,
        };
        Ok(record
            .filter(|record| record.kind != kinds::END)
            .map(|record| (record, steps(record.kind))))
    }
}

/// Returns whether a record of that kind asks something.
fn asks(kind: u8) -> bool {
    matches!(kind, kinds::WRITE..=kinds::SEEK_FOR_PREV | kinds::MULTI_GET)
}

impl Run<'_> {
    /// When a record is due that was recorded then.
    fn due(&self, began: u64, timestamp: u64) -> u64 {
        let since = timestamp.saturating_sub(self.header.timestamp);
        let nanos = since as f64 * 1000.0 / self.options.fast_forward;
        began.saturating_add(nanos as u64)
    }

    /// Waits for a moment of the clock.
    fn wait_until(&self, due: u64) {
        while !self.failed.load(Ordering::Relaxed) {
            let left = due.saturating_sub(self.clock.monotonic_nanos());
            if left == 0 {
                return;
            }
            self.clock.sleep(Duration::from_nanos(left.min(NAP)));
        }
    }

    fn alone(&self, state: &mut State) -> Result<()> {
        let began = self.clock.monotonic_nanos();
        while let Some((record, steps)) = state.next()? {
            if !asks(record.kind) {
                self.counts.add(Count::Skip, 1);
                continue;
            }
            let due = self.due(began, record.timestamp);
            self.wait_until(due);
            self.ask(&record, steps, due);
            if self.failed.load(Ordering::Relaxed) {
                break;
            }
        }
        Ok(())
    }

    fn together(&self, state: &mut State, threads: usize) -> Result<()> {
        std::thread::scope(|scope| {
            let mut queues: Vec<SyncSender<Task>> = Vec::new();
            for _ in 0..threads {
                let (to, from) = sync_channel::<Task>(QUEUE / threads + 1);
                queues.push(to);
                scope.spawn(move || {
                    for task in from {
                        if !self.failed.load(Ordering::Relaxed) {
                            self.ask_task(&task);
                        }
                        // Release: pairs with the Acquire of who waits for all.
                        self.under_way.fetch_sub(1, Ordering::Release);
                    }
                });
            }
            let began = self.clock.monotonic_nanos();
            let mut turn = 0;
            while let Some((record, steps)) = state.next()? {
                if self.failed.load(Ordering::Relaxed) {
                    break;
                }
                if !asks(record.kind) {
                    self.counts.add(Count::Skip, 1);
                    continue;
                }
                let due = self.due(began, record.timestamp);
                self.wait_until(due);
                let task = Task {
                    kind: record.kind,
                    offset: record.offset,
                    payload: record.payload.to_vec(),
                    steps,
                    due,
                };
                let to = match self.options.keeps_key_order {
                    false => Some(turn),
                    true => self.thread_of(&record).map(|hash| hash % threads),
                };
                turn = (turn + 1) % threads;
                let Some(to) = to else {
                    while self.under_way.load(Ordering::Acquire) > 0 {
                        std::thread::yield_now();
                    }
                    self.ask_task(&task);
                    continue;
                };
                self.under_way.fetch_add(1, Ordering::Relaxed);
                if queues[to].send(task).is_err() {
                    break;
                }
            }
            Ok(())
        })
    }

    /// A number of the key that a record is about; none if there are several.
    fn thread_of(&self, record: &RawRecord<'_>) -> Option<usize> {
        let Ok(TraceRecord::Query(query)) = self.header.decode(record) else {
            return None;
        };
        let (cf, key) = match query {
            Query::Get { cf, key } => (cf, key),
            Query::Write { batch } => {
                let mut ops = BatchIter::new(batch).ok()?;
                let only = (ops.next()?.ok()?, ops.next());
                match only {
                    (
                        BatchOp::Put { cf, key, .. }
                        | BatchOp::Delete { cf, key }
                        | BatchOp::SingleDelete { cf, key }
                        | BatchOp::Merge { cf, key, .. },
                        None,
                    ) => (cf, key),
                    _ => return None,
                }
            }
            _ => return None,
        };
        let mut hasher = DefaultHasher::new();
        (cf, key).hash(&mut hasher);
        Some((hasher.finish() >> 1) as usize)
    }

    fn ask_task(&self, task: &Task) {
        let record = RawRecord {
            offset: task.offset,
            timestamp: 0,
            kind: task.kind,
            payload: &task.payload,
        };
        self.ask(&record, task.steps, task.due);
    }

    /// Makes one request, and notes its error.
    fn ask(&self, record: &RawRecord<'_>, steps: Option<(u64, u64)>, due: u64) {
        let began = self.clock.monotonic_nanos();
        let answer = self.request(record, steps);
        let took = self.clock.monotonic_nanos().saturating_sub(began);
        if let Ok(found) = answer {
            self.counts.add(Count::Found, found);
        }
        if let Some(observe) = self.observe {
            observe(Replayed {
                kind: record.kind,
                lag: began.saturating_sub(due),
                nanos: took,
                found: *answer.as_ref().unwrap_or(&0),
                error: answer.as_ref().err(),
            });
        }
        if let Err(e) = answer {
            let mut error = self.error.lock().unwrap_or_else(PoisonError::into_inner);
            if error.as_ref().is_none_or(|(at, _)| *at > record.offset) {
                *error = Some((record.offset, e));
            }
            self.failed.store(true, Ordering::Relaxed);
        }
    }

    /// Keys that a request found.
    fn request(&self, record: &RawRecord<'_>, steps: Option<(u64, u64)>) -> Result<u64> {
        let query = match self.header.decode(record)? {
            TraceRecord::Query(query) => query,
            _ => return Ok(0),
        };
        match query {
            Query::Write { batch } => self.write(batch),
            Query::Get { cf, key } => {
                self.counts.add(Count::Get, 1);
                let found = self.target.family(cf)?.get(key)?;
                Ok(found.is_some().into())
            }
            Query::MultiGet(keys) => {
                self.counts.add(Count::MultiGet, 1);
                let families: Result<Vec<(&Cf, &[u8])>> = keys
                    .iter()
                    .map(|(cf, key)| Ok((self.target.family(cf)?, key)))
                    .collect();
                let mut found = 0;
                for answer in self.target.db.multi_get(&families?) {
                    found += u64::from(answer?.is_some());
                }
                Ok(found)
            }
            Query::Seek {
                backward,
                cf,
                key,
                lower,
                upper,
            } => {
                self.counts.add(Count::Seek, 1);
                let options = ReadOptions {
                    lower: lower.map(<[u8]>::to_vec),
                    upper: upper.map(<[u8]>::to_vec),
                    ..ReadOptions::default()
                };
                let mut cursor = self.target.family(cf)?.cursor(options);
                let found = match backward {
                    false => cursor.seek(key)?,
                    true => cursor.seek_for_prev(key)?,
                };
                let scan = self.options.scan_steps;
                let default = if backward { (0, scan) } else { (scan, 0) };
                let (next, prev) = steps.unwrap_or(default);
                let mut made = 0;
                while made < next && cursor.valid() {
                    cursor.next()?;
                    made += 1;
                }
                let mut back = 0;
                while back < prev && cursor.valid() {
                    cursor.prev()?;
                    back += 1;
                }
                self.counts.add(Count::Step, made + back);
                Ok(found.into())
            }
        }
    }

    fn write(&self, rep: &[u8]) -> Result<u64> {
        let Some(batch) = applied(rep)? else {
            self.counts.add(Count::Skip, 1);
            return Ok(0);
        };
        self.counts.add(Count::Write, 1);
        self.target.db.write_raw(&batch, &self.options.write)?;
        Ok(0)
    }
}

impl Target {
    fn family(&self, cf: u32) -> Result<&Cf> {
        let unknown = || Error::corruption("Invalid Column Family ID.").with("family", cf);
        self.families.get(&cf).ok_or_else(unknown)
    }
}

/// The batch to write for a record; none for a section that is prepared, or a transaction that is rolled back.
fn applied(rep: &[u8]) -> Result<Option<WriteBatch>> {
    let whole = WriteBatch::from_bytes(rep.to_vec())?;
    let mut is_marked = false;
    let mut is_committed = false;
    let mut entries = 0u32;
    for op in BatchIter::new(rep)? {
        match op? {
            BatchOp::BeginPrepare(_) | BatchOp::EndPrepare { .. } | BatchOp::Rollback { .. } => {
                is_marked = true;
            }
            BatchOp::Commit { .. } | BatchOp::CommitWithTimestamp { .. } => {
                (is_marked, is_committed) = (true, true)
            }
            op if op.cf().is_some() => entries += 1,
            _ => {}
        }
    }
    if !is_marked {
        return Ok(Some(whole));
    }
    if !is_committed || entries == 0 {
        return Ok(None);
    }
    // Without its marks.
    let mut rest = BatchIter::new(rep)?;
    let mut plain = vec![0; BATCH_HEADER_SIZE - 4];
    plain.extend_from_slice(&entries.to_le_bytes());
    let mut from = rep.len() - rest.rest().len();
    while let Some(op) = rest.next() {
        let to = rep.len() - rest.rest().len();
        if op?.cf().is_some() {
            plain.extend_from_slice(rep.get(from..to).unwrap_or_default());
        }
        from = to;
    }
    WriteBatch::from_bytes(plain).map(Some)
}
