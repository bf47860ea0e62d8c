//! A simulated store without a log: an index in memory, values in slots of 4 KiB that are changed in place (the model of KVell that
//! `store::slab` is, R-SPAN-54).
//!
//! ```text
//! client ─► worker of the key: up to `batch` calls ─► reads of pages that no cache has ─► writes of pages ─► clients
//! ```
//!
//! A worker has one batch under way at a time. A call is over when the device has its page; nothing is flushed, since the document's
//! store relies on devices that keep what they have taken.

use super::costs::Costs;
use super::run::{Kind, Latency, Mix, Outcome};
use crate::generate::Rng;
use spanlith_env::emulated::{DeviceSpec, Direction, Model};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

const PAGE: u64 = 4096;
/// Pages that a scan needs, one for each entry: neighbours in the index are none on the device.
const SCAN_PAGES: u64 = 50;
/// Nanoseconds of handing a batch to the device and of taking its results.
const SUBMIT: u64 = 2_000;
/// Pages of the device.
const PAGES: u64 = 1 << 27;

/// Describes what is simulated.
#[derive(Clone, Copy, Debug)]
pub struct SlabParams {
    /// Threads that own a part of the keys each.
    pub workers: usize,
    /// Most calls that a worker has under way.
    pub batch: usize,
    /// Calls that clients have outstanding.
    pub outstanding: usize,
    /// The device of the slots.
    pub device: DeviceSpec,
    /// The requests of clients.
    pub mix: Mix,
    /// Pages of a hundred that a cache has.
    pub cached_percent: u64,
    /// The service times of processors.
    pub costs: Costs,
    /// Simulated seconds, of which the first fifth is not counted.
    pub seconds: f64,
    /// Of the random choices.
    pub seed: u64,
}

impl SlabParams {
    /// As many workers as use a device fully, with caches as [`super::Params`] has them.
    pub fn new(device: DeviceSpec, mix: Mix, batch: usize, outstanding: usize) -> Self {
        Self {
            workers: 16,
            batch,
            outstanding,
            device,
            mix,
            cached_percent: 60,
            costs: Costs::reference(),
            seconds: 1.0,
            seed: 301,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A call begun then reaches a worker.
    Arrive(usize, u64),
    /// A worker has the pages of its batch.
    Fetched(usize),
    /// A worker's batch is over.
    Done(usize),
}

#[derive(Default)]
struct Worker {
    queue: VecDeque<(Kind, u64)>,
    batch: Vec<(Kind, u64)>,
}

struct Machine {
    p: SlabParams,
    rng: Rng,
    model: Model,
    workers: Vec<Worker>,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    made: u64,
    used: u64,
    counted_from: u64,
    latencies: Vec<u64>,
}

/// Runs it.
pub fn run_slab(p: &SlabParams) -> Outcome {
    let mut machine = Machine {
        p: *p,
        rng: Rng::new(p.seed),
        model: Model::new(p.device.scaled_profile()),
        workers: (0..p.workers.max(1)).map(|_| Worker::default()).collect(),
        events: BinaryHeap::new(),
        made: 0,
        used: 0,
        counted_from: (p.seconds * 2e8) as u64,
        latencies: Vec::new(),
    };
    for n in 0..p.outstanding {
        machine.issue(n as u64);
    }
    let end = (p.seconds * 1e9) as u64;
    while let Some(Reverse((now, _, event))) = machine.events.pop() {
        if now >= end {
            break;
        }
        match event {
            Event::Arrive(worker, begun) => machine.arrive(now, worker, begun),
            Event::Fetched(worker) => machine.fetched(now, worker),
            Event::Done(worker) => machine.done(now, worker),
        }
    }
    let counted = end.saturating_sub(machine.counted_from).max(1) as f64;
    let threads = machine.workers.len() as f64;
    Outcome {
        per_second: machine.latencies.len() as f64 / (counted / 1e9),
        latency: Latency::of(machine.latencies),
        processor: machine.used as f64 / (end as f64 * threads),
        ..Outcome::default()
    }
}

impl Machine {
    fn at(&mut self, time: u64, event: Event) {
        self.events.push(Reverse((time, self.made, event)));
        self.made += 1;
    }

    fn issue(&mut self, now: u64) {
        let worker = self.rng.below(self.workers.len() as u64) as usize;
        let c = self.p.costs;
        self.at(now + c.issue + c.request, Event::Arrive(worker, now));
    }

    fn arrive(&mut self, now: u64, worker: usize, begun: u64) {
        let kind = self.p.mix.draw(&mut self.rng);
        if let Some(w) = self.workers.get_mut(worker) {
            w.queue.push_back((kind, begun));
        }
        self.begin(now, worker);
    }

    /// Takes a batch, if the worker is free: looks keys up and reads pages.
    fn begin(&mut self, now: u64, worker: usize) {
        let most = self.p.batch.max(1);
        let Some(w) = self.workers.get_mut(worker) else {
            return;
        };
        if !w.batch.is_empty() || w.queue.is_empty() {
            return;
        }
        let count = w.queue.len().min(most);
        w.batch = w.queue.drain(..count).collect();
        let c = self.p.costs;
        let (mut pages, mut nanos) = (0, SUBMIT);
        for (kind, _) in &w.batch {
            let (asks, takes) = match kind {
                Kind::Scan => (SCAN_PAGES, c.scan),
                _ => (1, c.get),
            };
            pages += asks;
            nanos += takes;
        }
        self.used += nanos;
        let submitted = now + nanos;
        let mut done = submitted;
        for _ in 0..pages {
            if self.rng.below(100) >= self.p.cached_percent {
                let place = self.rng.below(PAGES) * PAGE;
                let read = self.model.serve(submitted, Direction::Read, place, PAGE);
                done = done.max(read);
            }
        }
        self.at(done, Event::Fetched(worker));
    }

    fn fetched(&mut self, now: u64, worker: usize) {
        let batch = self.workers.get(worker).map_or(&[][..], |w| &w.batch);
        let writes = |k: &(Kind, u64)| matches!(k.0, Kind::Write | Kind::ReadThenWrite);
        let pages = batch.iter().filter(|k| writes(k)).count();
        let mut done = now;
        if pages > 0 {
            self.used += SUBMIT;
        }
        for _ in 0..pages {
            let place = self.rng.below(PAGES) * PAGE;
            let wrote = self
                .model
                .serve(now + SUBMIT, Direction::Write, place, PAGE);
            done = done.max(wrote);
        }
        self.at(done, Event::Done(worker));
    }

    fn done(&mut self, now: u64, worker: usize) {
        let batch = self
            .workers
            .get_mut(worker)
            .map(|w| std::mem::take(&mut w.batch));
        let resumed = now + self.p.costs.switch;
        for (_, begun) in batch.unwrap_or_default() {
            if now >= self.counted_from {
                self.latencies.push(resumed - begun);
            }
            self.issue(resumed);
        }
        self.begin(now, worker);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_takes_its_page_and_batches_carry_more() {
        let of = |batch, outstanding| {
            let mut p = SlabParams::new("O".parse().unwrap(), Mix::Writes, batch, outstanding);
            p.seconds = 0.05;
            p.cached_percent = 100;
            run_slab(&p)
        };
        let c = Costs::reference();
        let own = c.issue + c.request + c.get + c.switch + 2 * SUBMIT;
        assert_eq!(of(1, 1).latency.p50, (own + 10_000) as f64);
        assert_eq!(of(1, 1), of(1, 1));
        assert!(of(64, 400).per_second > of(1, 400).per_second);
    }
}
