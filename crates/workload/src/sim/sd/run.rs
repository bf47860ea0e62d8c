//! Events of the simulated machine.
//!
//! ```text
//! call by call   client: issue ─► queue ─► leader: company, group, log, insert, publish, wake ─► client
//! asynchronous   client: issue ─► queue ─► writer: group, log, insert all, publish ─► client takes results
//! reads          client or a reader: processor ─► device, if no cache has it ─► client
//! ```
//!
//! One group is under way at a time; what comes meanwhile forms the next one. Calls one by one on a speed disk have several groups
//! in flight (`sd_writes_in_flight`): leadership passes on as soon as a group is on its way to the device. A group goes into
//! the memtable once it and all groups before it are durable, and becomes visible in the order of the queue; what that
//! costs shows beside [`Params::is_relaxed`].
//!
//! As in the engine, a leader waits for company ([`Company`]), inserts all of its group, publishes it and then wakes the others one
//! after the other, the next leader first. Only of a group of [`PARALLEL_BYTES`] that is alone under way does each insert its
//! own. A group that is inserted and waits for those before it keeps no other from taking off. A log with the tables takes time of
//! their device.

use super::company::Company;
use super::costs::Costs;
use super::log::Log;
use crate::generate::Rng;
use spanlith::Result;
use spanlith_env::emulated::{DeviceSpec, Direction, Model};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Bytes from which on the members of a group insert beside each other: that of the engine's pipeline.
const PARALLEL_BYTES: usize = 32 << 10;

/// Entries of a scan, which lie beside each other.
const SCAN_ENTRIES: usize = 50;

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
    /// LinkBench as its operations come to a store: 56 % scans, 11 % writes, 13 % reads, 20 % reads that are followed by a write.
    Graph,
}

impl Mix {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Writes,
        Self::A,
        Self::B,
        Self::E,
        Self::F,
        Self::Graph,
    ];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Writes => "writes",
            Self::A => "A",
            Self::B => "B",
            Self::E => "E",
            Self::F => "F",
            Self::Graph => "graph",
        }
    }

    pub(super) fn draw(self, rng: &mut Rng) -> Kind {
        let percent = rng.below(100);
        match self {
            Self::Writes => Kind::Write,
            Self::A if percent < 50 => Kind::Write,
            Self::F if percent < 50 => Kind::ReadThenWrite,
            Self::B if percent < 5 => Kind::Write,
            Self::E if percent < 5 => Kind::Write,
            Self::E => Kind::Scan,
            Self::Graph if percent < 56 => Kind::Scan,
            Self::Graph if percent < 67 => Kind::Write,
            Self::Graph if percent < 87 => Kind::ReadThenWrite,
            Self::A | Self::B | Self::F | Self::Graph => Kind::Read,
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
    /// The own option `sd_writes_in_flight`: groups of calls one by one that are on their way to a speed disk at a time.
    pub in_flight: usize,
    /// Groups become visible as soon as they are durable themselves, whatever is before them. The engine never does that: a
    /// crash could take back what was seen.
    pub is_relaxed: bool,
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
            in_flight: 2,
            is_relaxed: false,
            entry_bytes: 1040,
            cached_percent: 60,
            costs: Costs::reference(),
            seconds: 1.0,
            seed: 301,
        }
    }

    /// Groups that may be under way at a time: files are synced by one, and calls outstanding are written by one.
    fn groups_at_once(&self) -> usize {
        match self.way {
            Way::Disk => self.in_flight.max(1),
            Way::WithTables | Way::File | Way::Async => 1,
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
    pub(super) fn of(mut nanos: Vec<u64>) -> Self {
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
    /// Time that durable writes wait for groups before theirs until they are visible.
    pub publish: Latency,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
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
    /// The next leader runs.
    Awake,
    /// The leader of that group has waited for company for long enough.
    Alone(u64),
    /// The leader has the bytes of its group.
    Encoded(u64),
    /// The group is durable.
    Durable(u64),
    /// All of the group is in the memtable.
    Inserted(u64),
    /// A read begins.
    Read(usize),
    /// A read has the processor's part after it.
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

/// A group of writes from its forming until it is visible.
struct Group {
    number: u64,
    calls: Vec<usize>,
    /// Each of them inserted its own.
    is_parallel: bool,
    /// Time that the device took.
    log_time: u64,
    /// When it was durable.
    durable: Option<u64>,
    /// When it began to go into the memtable.
    applied: Option<u64>,
    /// When all of it was there.
    inserted: Option<u64>,
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
    /// Groups under way, oldest first.
    flights: VecDeque<Group>,
    /// Number of the next one.
    next_group: u64,
    /// A leader was woken or is at work, until its group is on its way to the device.
    is_leading: bool,
    company: Company,
    /// Bytes of the log on the device of the tables.
    beside_tables: u64,
    /// A leader waits for company, and had so many.
    waits_with: Option<usize>,
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
    /// Nanoseconds that each write waited for groups before its own.
    publish: Vec<u64>,
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
        flights: VecDeque::new(),
        next_group: 0,
        is_leading: false,
        company: Company::new(),
        beside_tables: 0,
        waits_with: None,
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
        publish: Vec::new(),
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
                Event::Awake => {
                    self.is_leading = false;
                    self.lead(now);
                }
                Event::Alone(group) => {
                    if self.waits_with.is_some() && group == self.next_group {
                        self.form(now);
                    }
                }
                Event::Encoded(group) => self.send_off(now, group)?,
                Event::Durable(group) => self.land(now, group),
                Event::Inserted(group) => self.publish(now, group),
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
            publish: Latency::of(self.publish),
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
        match self.waits_with {
            Some(_) if self.company.is_complete(self.queue.len()) => self.form(now),
            _ => self.lead(now),
        }
    }

    /// Forms a group of all that waits, if one more may be under way, once its leader has the company that it waits for.
    fn lead(&mut self, now: u64) {
        if self.is_leading || self.is_full() || self.queue.is_empty() {
            return;
        }
        self.is_leading = true;
        let patience = match self.is_async() {
            true => 0,
            false => self.company.patience(self.queue.len()),
        };
        match patience {
            0 => self.form(now),
            _ => {
                self.waits_with = Some(self.queue.len());
                self.at(now + patience, Event::Alone(self.next_group));
            }
        }
    }

    /// Forms a group of all that waits.
    fn form(&mut self, now: u64) {
        if let Some(before) = self.waits_with.take() {
            self.company.waited(before, self.queue.len());
        }
        let bytes = self.queue.len() * self.p.entry_bytes;
        let is_alone = self.p.groups_at_once() == 1 && !self.is_async();
        let group = Group {
            number: self.next_group,
            calls: self.queue.drain(..).collect(),
            is_parallel: is_alone && bytes >= PARALLEL_BYTES,
            log_time: 0,
            durable: None,
            applied: None,
            inserted: None,
        };
        self.next_group += 1;
        let entries = group.calls.len() as u64;
        if now >= self.counted_from {
            self.groups = (self.groups.0 + 1, self.groups.1 + entries);
        }
        let c = self.p.costs;
        let encoded = self.cores.run(now, c.group + entries * c.log_entry);
        self.at(encoded, Event::Encoded(group.number));
        self.flights.push_back(group);
    }

    /// Returns whether as many groups are under way as may be.
    fn is_full(&self) -> bool {
        let most = self.p.groups_at_once();
        let under_way = self
            .flights
            .iter()
            .filter(|g| most == 1 || g.inserted.is_none());
        under_way.count() >= most
    }

    fn flight(&mut self, number: u64) -> Option<&mut Group> {
        self.flights.iter_mut().find(|g| g.number == number)
    }

    /// The group is on its way to the device, and somebody else may lead.
    fn send_off(&mut self, now: u64, number: u64) -> Result<()> {
        let entry_bytes = self.p.entry_bytes;
        let entries = self.flight(number).map_or(0, |g| g.calls.len());
        let bytes = entries * entry_bytes + 12;
        let durable = self.log.write(now, bytes)?;
        if self.p.way == Way::WithTables {
            // Reads wait for what the log writes; far from all tables.
            let place = (1 << 50) + self.beside_tables;
            self.tables.serve_with_journal(now, place, bytes as u64);
            self.beside_tables += bytes as u64;
        }
        if let Some(group) = self.flight(number) {
            group.log_time = durable - now;
        }
        if self.p.groups_at_once() > 1 {
            self.company.sent_off(entries);
        }
        self.at(durable, Event::Durable(number));
        self.is_leading = false;
        self.pass_on(now);
        Ok(())
    }

    /// The next leader sleeps, unless one thread writes for all; its group is what waits when it runs.
    fn pass_on(&mut self, now: u64) {
        if self.is_async() {
            return self.lead(now);
        }
        if !self.is_leading && !self.is_full() && !self.queue.is_empty() {
            self.is_leading = true;
            self.at(now + self.p.costs.switch, Event::Awake);
        }
    }

    /// The group is durable; so it goes into the memtable, and those after it that waited for it.
    fn land(&mut self, now: u64, number: u64) {
        if let Some(group) = self.flight(number) {
            group.durable = Some(now);
            let took = group.log_time;
            self.company.note_sync(took);
        }
        let is_relaxed = self.p.is_relaxed;
        let durable = |g: &&mut Group| is_relaxed || g.durable.is_some();
        let mut ready = Vec::new();
        for group in self.flights.iter_mut().take_while(durable) {
            if group.durable.is_some() && group.applied.is_none() {
                group.applied = Some(now);
                ready.push((group.number, group.calls.len() as u64, group.is_parallel));
            }
        }
        for (number, entries, is_parallel) in ready {
            self.insert(now, number, entries, is_parallel);
        }
    }

    fn insert(&mut self, now: u64, number: u64, entries: u64, is_parallel: bool) {
        let c = self.p.costs;
        let mut end = now;
        if !is_parallel {
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
        self.at(end, Event::Inserted(number));
    }

    /// The group is in the memtable: it and those that waited for it become visible.
    fn publish(&mut self, now: u64, number: u64) {
        if let Some(group) = self.flight(number) {
            group.inserted = Some(now);
        }
        let mut visible = Vec::new();
        if self.p.is_relaxed {
            let at = self.flights.iter().position(|g| g.number == number);
            visible.extend(at.and_then(|at| self.flights.remove(at)));
        }
        while self.flights.front().is_some_and(|g| g.inserted.is_some()) {
            visible.extend(self.flights.pop_front());
        }
        for group in &visible {
            if self.p.groups_at_once() == 1 {
                self.company.synced(group.calls.len(), self.queue.len());
            }
        }
        let leads = !self.queue.is_empty();
        self.pass_on(now);
        for group in visible {
            self.release(now, &group, leads);
        }
    }

    /// The group is visible, and its calls are over. `leads`: its leader has woken the next one.
    fn release(&mut self, now: u64, group: &Group, leads: bool) {
        let c = self.p.costs;
        let own = c.issue + c.group + c.log_entry + group.log_time + c.insert;
        let waited = |from: Option<u64>, to: Option<u64>| {
            let (from, to) = (from.unwrap_or(now), to.unwrap_or(now));
            to.saturating_sub(from)
        };
        let waited = waited(group.durable, group.applied) + waited(group.inserted, Some(now));
        // Those that sleep; the others have inserted their own just now.
        let sleeping = match self.is_async() || group.is_parallel {
            true => 0,
            false => group.calls.len() as u64 - 1,
        };
        let first = now + c.wake * u64::from(leads && !self.is_async());
        let mut awake = self.cores.run(first, sleeping * c.wake);
        for (n, &number) in (0..).zip(&group.calls) {
            let Some(&call) = self.calls.get(number) else {
                continue;
            };
            // A client that waits for results is woken once. The leader goes on when it has woken the others.
            let resumed = match (self.is_async(), sleeping, n) {
                (true, ..) => now + c.switch,
                (false, 0, _) => now,
                (false, _, 0) => awake,
                (false, ..) => {
                    awake -= c.wake;
                    awake + c.wake + c.switch
                }
            };
            if now >= self.counted_from {
                self.write_time.0 += resumed - call.begun;
                self.write_time.1 += own.min(resumed - call.begun);
                self.publish.push(waited);
            }
            self.finish(resumed, number);
        }
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
            let bytes = match self.calls.get(call).map(|c| c.kind) {
                Some(Kind::Scan) => (SCAN_ENTRIES * self.p.entry_bytes).next_multiple_of(4096),
                _ => 4096,
            };
            done = self
                .tables
                .serve(now, Direction::Read, offset, bytes as u64);
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
    fn each_step_towards_a_speed_disk_is_faster() {
        let rates = Way::ALL.map(|way| outcome(way, Mix::Writes).per_second);
        // Asynchronous calls have one thread that inserts, which carries no more than several leaders do on so many cores.
        assert!(rates[..3].is_sorted() && rates[3] > rates[1], "{rates:?}");
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

    /// Groups in flight hide the time of the device, and one at a time waits for none before it.
    #[test]
    fn groups_in_flight_carry_more_and_wait_for_those_before_them() {
        let of = |in_flight, is_relaxed| {
            let (tables, log) = ("S".parse().unwrap(), "N2".parse().unwrap());
            let mut params = Params::new(tables, log, Way::Disk, Mix::Writes);
            params.threads = 8;
            params.seconds = 0.05;
            (params.in_flight, params.is_relaxed) = (in_flight, is_relaxed);
            run(&params).unwrap()
        };
        let (one, two, relaxed) = (of(1, false), of(2, false), of(2, true));
        assert!(two.per_second > one.per_second, "{one:?} {two:?}");
        assert_eq!(one.publish, Latency::default());
        assert_eq!(relaxed.publish, Latency::default());
        assert!(two.publish.p50 <= two.publish.p999);
    }
}
