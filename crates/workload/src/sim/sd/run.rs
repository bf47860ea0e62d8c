//! Events of the simulated machine.
//!
//! ```text
//! call by call   client: issue ─► queue ─► leader: group, log, wake ─► each inserts its own ─► client
//! asynchronous   client: issue ─► queue ─► writer: group, log, insert all, publish ─► client takes results
//! reads          client or a reader: processor ─► device, if no cache has it ─► client
//! ```
//!
//! One group is under way at a time; what comes meanwhile forms the next one. Its entries become visible when all of
//! them are in the memtable, in the order of the queue.

use super::costs::Costs;
use super::log::Log;
use crate::generate::Rng;
use spanlith::Result;
use spanlith_env::emulated::{DeviceSpec, Direction, Model};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// The requests of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    /// Writes only.
    Writes,
    /// YCSB-A: half reads, half writes.
    A,
    /// YCSB-B: 95 % reads.
    B,
    /// YCSB-E: 95 % scans, 5 % writes.
    E,
    /// YCSB-F: half reads, half reads that are followed by a write.
    F,
}

impl Mix {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Writes, Self::A, Self::B, Self::E, Self::F];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Writes => "writes",
            Self::A => "A",
            Self::B => "B",
            Self::E => "E",
            Self::F => "F",
        }
    }

    fn draw(self, rng: &mut Rng) -> Kind {
        let percent = rng.below(100);
        match self {
            Self::Writes => Kind::Write,
            Self::A if percent < 50 => Kind::Write,
            Self::F if percent < 50 => Kind::ReadThenWrite,
            Self::B if percent < 5 => Kind::Write,
            Self::E if percent < 5 => Kind::Write,
            Self::E => Kind::Scan,
            Self::A | Self::B | Self::F => Kind::Read,
        }
    }
}

/// Where the log goes, and how clients call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// A file with the tables, calls one by one.
    WithTables,
    /// A file on the log's device, calls one by one.
    File,
    /// A speed disk, calls one by one.
    Disk,
    /// A speed disk, calls outstanding.
    Async,
}

impl Way {
    /// All of them, from the plainest on.
    pub const ALL: [Self; 4] = [Self::WithTables, Self::File, Self::Disk, Self::Async];

    /// In words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::WithTables => "log with the tables",
            Self::File => "log in a file on the speed disk",
            Self::Disk => "log in pages on the speed disk",
            Self::Async => "the same, asynchronous calls",
        }
    }
}

/// Describes what is simulated.
#[derive(Clone, Copy, Debug)]
pub struct Params {
    /// Cores for clients and engine; those of flushes and compactions are left out.
    pub cores: usize,
    /// Clients that call one by one.
    pub threads: usize,
    /// Threads of the engine that read for calls that are outstanding.
    pub readers: usize,
    /// Clients that have calls outstanding, and how many each.
    pub clients: (usize, usize),
    /// Device of the tables.
    pub tables: DeviceSpec,
    /// Device of the log, where it is elsewhere.
    pub log: DeviceSpec,
    /// Where the log goes.
    pub way: Way,
    /// The requests of clients.
    pub mix: Mix,
    /// Bytes of an entry in the log.
    pub entry_bytes: usize,
    /// Reads of a hundred that a cache answers.
    pub cached_percent: u64,
    /// The service times of processors.
    pub costs: Costs,
    /// Simulated seconds, of which the first fifth is not counted.
    pub seconds: f64,
    /// Of the random choices.
    pub seed: u64,
}

impl Params {
    /// The set-up of the document: 40 cores of which 8 flush and compact, 40 threads, or 8 clients with 50 calls each.
    pub fn new(tables: DeviceSpec, log: DeviceSpec, way: Way, mix: Mix) -> Self {
        Self {
            cores: 32,
            threads: 40,
            readers: 64,
            clients: (8, 50),
            tables,
            log,
            way,
            mix,
            entry_bytes: 1040,
            cached_percent: 60,
            costs: Costs::reference(),
            seconds: 1.0,
            seed: 301,
        }
    }
}

/// Nanoseconds of calls.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Latency {
    /// In the mean.
    pub mean: f64,
    /// Half are faster.
    pub p50: f64,
    /// 90 % are faster.
    pub p90: f64,
    /// 99 % are faster.
    pub p99: f64,
    /// 99.9 % are faster.
    pub p999: f64,
}

impl Latency {
    fn of(mut nanos: Vec<u64>) -> Self {
        nanos.sort_unstable();
        let at = |share: f64| {
            let last = nanos.len().saturating_sub(1) as f64;
            nanos.get((last * share) as usize).copied().unwrap_or(0) as f64
        };
        let sum: u128 = nanos.iter().map(|&n| u128::from(n)).sum();
        Self {
            mean: sum as f64 / nanos.len().max(1) as f64,
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
        }
    }
}

/// Describes what a run came to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Calls per second.
    pub per_second: f64,
    /// Of all calls.
    pub latency: Latency,
    /// Entries of a group in the mean.
    pub group: f64,
    /// Share of the cores' time that was used.
    pub processor: f64,
    /// Share of the time of writes that is neither processor time of theirs nor the device's.
    pub waiting: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Read,
    Write,
    Scan,
    ReadThenWrite,
}

/// A call under way.
#[derive(Clone, Copy, Debug)]
struct Call {
    client: usize,
    kind: Kind,
    begun: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A client may make its next call.
    Ready(usize),
    /// A write joins the queue.
    Join(usize),
    /// The leader has the bytes of its group.
    Encoded,
    /// The group is durable.
    Durable,
    /// All of the group is in the memtable.
    Inserted,
    /// A read begins.
    Read(usize),
    /// A read has the processor's part behind it.
    Looked(usize),
    /// A read has its blocks.
    Fetched(usize),
}

/// Cores, of which each is free at some time.
struct Cores {
    free: BinaryHeap<Reverse<u64>>,
    used: u64,
}

impl Cores {
    /// When a burst of `nanos` that is ready at `now` has run.
    fn run(&mut self, now: u64, nanos: u64) -> u64 {
        let Reverse(free) = self.free.pop().unwrap_or_default();
        let end = free.max(now) + nanos;
        self.free.push(Reverse(end));
        self.used += nanos;
        end
    }
}

struct Machine {
    p: Params,
    rng: Rng,
    cores: Cores,
    log: Log,
    tables: Model,
    /// By time, and in the order in which they were made.
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    made: u64,
    calls: Vec<Call>,
    free_calls: Vec<usize>,
    /// Writes that wait.
    queue: VecDeque<usize>,
    group: Vec<usize>,
    is_writing: bool,
    /// Readers that are free; clients read themselves without calls outstanding.
    readers: usize,
    reads: VecDeque<usize>,
    /// When each client's thread is free.
    clients: Vec<u64>,
    counted_from: u64,
    latencies: Vec<u64>,
    groups: (u64, u64),
    /// Nanoseconds of writes, and of those the ones that their own work took.
    write_time: (u64, u64),
    /// Time that the log took for the present group.
    log_time: u64,
}

/// Runs it.
///
/// # Errors
/// Of the log.
pub fn run(params: &Params) -> Result<Outcome> {
    let log = match params.way {
        Way::WithTables => Log::file(&params.tables),
        Way::File => Log::file(&params.log),
        Way::Disk | Way::Async => Log::disk(params.log.scaled_profile())?,
    };
    let is_async = params.way == Way::Async;
    let (clients, outstanding) = match is_async {
        true => params.clients,
        false => (params.threads, 1),
    };
    let cores = params.cores.max(1);
    let mut machine = Machine {
        p: *params,
        rng: Rng::new(params.seed),
        cores: Cores {
            free: (0..cores).map(|_| Reverse(0)).collect(),
            used: 0,
        },
        log,
        tables: Model::new(params.tables.scaled_profile()),
        events: BinaryHeap::new(),
        made: 0,
        calls: Vec::new(),
        free_calls: Vec::new(),
        queue: VecDeque::new(),
        group: Vec::new(),
        is_writing: false,
        readers: match is_async {
            true => params.readers.max(1),
            false => usize::MAX,
        },
        reads: VecDeque::new(),
        clients: vec![0; clients],
        counted_from: (params.seconds * 2e8) as u64,
        latencies: Vec::new(),
        groups: (0, 0),
        write_time: (0, 0),
        log_time: 0,
    };
    for client in 0..clients {
        for _ in 0..outstanding.max(1) {
            machine.at(client as u64, Event::Ready(client));
        }
    }
    machine.run((params.seconds * 1e9) as u64)
}

impl Machine {
    fn at(&mut self, time: u64, event: Event) {
        self.events.push(Reverse((time, self.made, event)));
        self.made += 1;
    }

    fn run(mut self, end: u64) -> Result<Outcome> {
        while let Some(Reverse((now, _, event))) = self.events.pop() {
            if now >= end {
                break;
            }
            match event {
                Event::Ready(client) => self.issue(now, client),
                Event::Join(call) => self.join(now, call),
                Event::Encoded => {
                    let bytes = self.group.len() * self.p.entry_bytes + 12;
                    let durable = self.log.write(now, bytes)?;
                    self.log_time = durable - now;
                    self.at(durable, Event::Durable);
                }
                Event::Durable => self.insert(now),
                Event::Inserted => self.publish(now),
                Event::Read(call) => self.read(now, call),
                Event::Looked(call) => self.looked(now, call),
                Event::Fetched(call) => self.fetched(now, call),
            }
        }
        let counted = (end - self.counted_from.min(end)).max(1) as f64;
        let done = self.latencies.len() as f64;
        Ok(Outcome {
            per_second: done / (counted / 1e9),
            latency: Latency::of(self.latencies),
            group: self.groups.1 as f64 / self.groups.0.max(1) as f64,
            processor: self.cores.used as f64 / (end as f64 * self.p.cores.max(1) as f64),
            waiting: 1.0 - self.write_time.1 as f64 / self.write_time.0.max(1) as f64,
        })
    }

    fn is_async(&self) -> bool {
        self.p.way == Way::Async
    }

    /// A client makes a call.
    fn issue(&mut self, now: u64, client: usize) {
        let c = self.p.costs;
        let nanos = match self.is_async() {
            true => c.issue + c.request,
            false => c.issue,
        };
        let free = self.clients.get(client).copied().unwrap_or(0).max(now);
        let issued = self.cores.run(free, nanos);
        if let Some(client) = self.clients.get_mut(client) {
            *client = issued;
        }
        let call = Call {
            client,
            kind: self.p.mix.draw(&mut self.rng),
            begun: free,
        };
        let number = match self.free_calls.pop() {
            Some(number) => number,
            None => {
                self.calls.push(call);
                self.calls.len() - 1
            }
        };
        if let Some(place) = self.calls.get_mut(number) {
            *place = call;
        }
        match call.kind {
            Kind::Write => self.at(issued, Event::Join(number)),
            _ => self.at(issued, Event::Read(number)),
        }
    }

    fn join(&mut self, now: u64, call: usize) {
        self.queue.push_back(call);
        if !self.is_writing {
            self.lead(now);
        }
    }

    /// Forms a group of all that waits.
    fn lead(&mut self, now: u64) {
        if self.queue.is_empty() {
            return;
        }
        self.is_writing = true;
        self.group = self.queue.drain(..).collect();
        let entries = self.group.len() as u64;
        if now >= self.counted_from {
            self.groups = (self.groups.0 + 1, self.groups.1 + entries);
        }
        let c = self.p.costs;
        let encoded = self.cores.run(now, c.group + entries * c.log_entry);
        self.at(encoded, Event::Encoded);
    }

    fn insert(&mut self, now: u64) {
        let c = self.p.costs;
        let entries = self.group.len() as u64;
        let mut end = now;
        if self.is_async() || entries == 1 {
            end = self.cores.run(now, entries * c.insert);
        } else {
            // The leader wakes one after the other, and each inserts its own.
            for n in 1..entries {
                let awake = now + n * c.wake + c.switch;
                end = end.max(self.cores.run(awake, c.insert));
            }
            end = end.max(self.cores.run(now + (entries - 1) * c.wake, c.insert));
            self.cores.used += (entries - 1) * c.wake;
        }
        self.at(end, Event::Inserted);
    }

    /// The group is visible, and its calls are over.
    fn publish(&mut self, now: u64) {
        let c = self.p.costs;
        let is_async = self.is_async();
        let group = std::mem::take(&mut self.group);
        let own = c.issue + c.group + c.log_entry + self.log_time + c.insert;
        for &number in &group {
            let Some(&call) = self.calls.get(number) else {
                continue;
            };
            // A client that waits for results is woken once; members of a group are awake.
            let resumed = match is_async {
                true => now + c.switch,
                false => now,
            };
            if now >= self.counted_from {
                self.write_time.0 += resumed - call.begun;
                self.write_time.1 += own.min(resumed - call.begun);
            }
            self.finish(resumed, number);
        }
        self.is_writing = false;
        // The next leader sleeps, unless one thread writes for all.
        let next = match is_async {
            true => now,
            false => now + c.switch,
        };
        self.lead(next);
    }

    fn finish(&mut self, now: u64, number: usize) {
        let Some(&call) = self.calls.get(number) else {
            return;
        };
        if now >= self.counted_from {
            self.latencies.push(now - call.begun);
        }
        self.free_calls.push(number);
        self.at(now, Event::Ready(call.client));
    }

    fn read(&mut self, now: u64, call: usize) {
        if self.readers == 0 {
            self.reads.push_back(call);
            return;
        }
        self.readers = self.readers.saturating_sub(usize::from(self.is_async()));
        let c = self.p.costs;
        let nanos = match self.calls.get(call).map(|c| c.kind) {
            Some(Kind::Scan) => c.scan,
            _ => c.get,
        };
        let looked = self.cores.run(now, nanos);
        self.at(looked, Event::Looked(call));
    }

    fn looked(&mut self, now: u64, call: usize) {
        let mut done = now;
        if self.rng.below(100) >= self.p.cached_percent {
            let offset = self.rng.below(1 << 27) * 4096;
            done = self.tables.serve(now, Direction::Read, offset, 4096);
        }
        self.at(done, Event::Fetched(call));
    }

    fn fetched(&mut self, now: u64, number: usize) {
        if self.is_async() {
            self.readers += 1;
            if let Some(next) = self.reads.pop_front() {
                self.read(now, next);
            }
        }
        match self.calls.get(number).map(|c| c.kind) {
            Some(Kind::ReadThenWrite) => self.at(now, Event::Join(number)),
            _ => {
                let resumed = match self.is_async() {
                    true => now + self.p.costs.switch,
                    false => now,
                };
                self.finish(resumed, number);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(way: Way, mix: Mix) -> Outcome {
        let mut params = Params::new("S-RAID5".parse().unwrap(), "O".parse().unwrap(), way, mix);
        params.seconds = 0.03;
        run(&params).unwrap()
    }

    #[test]
    fn each_step_towards_asynchronous_calls_on_a_speed_disk_is_faster() {
        let rates = Way::ALL.map(|way| outcome(way, Mix::Writes).per_second);
        assert!(rates.is_sorted(), "{rates:?}");
        assert!(rates[3] > 4.0 * rates[0], "{rates:?}");
        let all = outcome(Way::Async, Mix::Writes);
        assert!(all.group > 50.0 && all.group <= 400.0, "{all:?}");
        assert!(all.latency.p50 <= all.latency.p99, "{all:?}");
        assert!((0.0..=1.0).contains(&all.processor), "{all:?}");
        assert!((0.0..=1.0).contains(&all.waiting), "{all:?}");
    }

    #[test]
    fn a_run_is_a_function_of_its_parameters() {
        for mix in [Mix::A, Mix::E] {
            assert_eq!(outcome(Way::Async, mix), outcome(Way::Async, mix));
        }
    }

    /// A lone client waits for its own processor time and the device, and for nothing else.
    #[test]
    fn a_lone_synchronous_write_takes_what_its_parts_take() {
        let mut params = Params::new(
            "S".parse().unwrap(),
            "O".parse().unwrap(),
            Way::Disk,
            Mix::Writes,
        );
        params.threads = 1;
        params.seconds = 0.1;
        let c = params.costs;
        let expected = c.issue + c.group + c.log_entry + 10_000 + c.insert;
        let found = run(&params).unwrap();
        assert_eq!(found.latency.p50, expected as f64);
        assert_eq!(found.group, 1.0);
        assert!(found.waiting.abs() < 1e-6, "{found:?}");
    }
}
