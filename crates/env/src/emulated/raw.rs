//! Loads of a device alone, in virtual time: what it does with requests of many threads, by way of files and directly.
//!
//! The threads are counters in a loop that always serves the one that is first, so that a run takes no time and gives
//! the same figures everywhere.

use super::host::Host;
use super::model::Direction;
use super::spec::DeviceSpec;
use crate::rng::SeededRng;
use std::path::PathBuf;

/// Which way requests take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// As to a block device. A write is durable when it is done.
    Device,
    /// Appends to files, one for each thread, each followed by a sync; reads of one large file past the page cache.
    Files,
}

/// A load in a closed loop: every thread makes its next request when the last one is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawLoad {
    /// Threads.
    pub threads: usize,
    /// Bytes of a request.
    pub bytes: u64,
    /// Reads of a hundred requests.
    pub read_percent: u64,
    /// Requests go to random places of `span`, or each thread goes from front to back through its own part.
    pub is_random: bool,
    /// Bytes of the device that are used.
    pub span: u64,
    /// Which way they take.
    pub way: Way,
    /// Writes are made durable one by one.
    pub is_durable: bool,
}

/// Describes what a load came to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RawRate {
    /// Requests per second.
    pub per_second: f64,
    /// Nanoseconds of a request in the mean.
    pub mean_nanos: f64,
}

impl RawRate {
    /// Bytes per second of requests of `bytes`.
    pub fn bytes_per_second(&self, bytes: u64) -> f64 {
        self.per_second * bytes as f64
    }
}

impl RawLoad {
    /// Requests of 4 KiB at random places of 10 GB by 8 threads, half of them reads: the load by which the document on
    /// 3D XPoint compares devices (its figure 1).
    pub fn mixed() -> Self {
        Self {
            threads: 8,
            bytes: 4096,
            read_percent: 50,
            is_random: true,
            span: 10_000_000_000,
            way: Way::Device,
            is_durable: false,
        }
    }

    /// Durable writes of 4 KiB from front to back by 16 threads (figure 2 of the document on speed disks).
    pub fn durable_writes(way: Way) -> Self {
        Self {
            threads: 16,
            read_percent: 0,
            is_random: false,
            way,
            is_durable: true,
            ..Self::mixed()
        }
    }

    /// Runs `requests` of it on the device of `spec`, whose cache is left out.
    pub fn run(&self, spec: &DeviceSpec, requests: u64, seed: u64) -> RawRate {
        let rng = SeededRng::new(seed);
        let mut host = Host::new(&spec.with_cache(0));
        let threads = self.threads.max(1);
        let part = (self.span / threads as u64).max(self.bytes);
        let mut free = vec![0u64; threads];
        let mut next: Vec<u64> = (0..threads as u64).map(|t| t * part).collect();
        let files: Vec<_> = (0..threads)
            .map(|t| host.create(&PathBuf::from(format!("/raw/{t}"))))
            .collect();
        let large = host.open(&PathBuf::from("/raw/large"), self.span);
        let (mut waited, mut last) = (0u128, 0);
        for _ in 0..requests {
            let thread = (0..threads).min_by_key(|&t| free.get(t).copied());
            let thread = thread.unwrap_or(0);
            let now = free.get(thread).copied().unwrap_or(0);
            let is_read = rng.below(100) < self.read_percent;
            let offset = match (self.is_random, next.get_mut(thread)) {
                (false, Some(next)) => {
                    let offset = *next;
                    *next += self.bytes;
                    offset % self.span.max(1)
                }
                _ => rng.below((self.span / self.bytes).max(1)) * self.bytes,
            };
            let done = match (self.way, is_read) {
                (Way::Device, true) => host.model().serve(now, Direction::Read, offset, self.bytes),
                (Way::Device, false) => {
                    let model = host.model();
                    let done = model.serve(now, Direction::Write, offset, self.bytes);
                    match self.is_durable {
                        true => model.flush(done),
                        false => done,
                    }
                }
                (Way::Files, true) => host.read(large, now, (offset, self.bytes), true, 0),
                (Way::Files, false) => {
                    let file = files.get(thread).copied().unwrap_or_default();
                    // The block goes to the device with the sync, if there is one.
                    let is_direct = !self.is_durable;
                    host.append_later(file, self.bytes);
                    match is_direct {
                        true => host.write_back(file, now, u64::MAX),
                        false => host.sync(file, now),
                    }
                }
            };
            waited += u128::from(done - now);
            last = last.max(done);
            if let Some(free) = free.get_mut(thread) {
                *free = done;
            }
        }
        let requests = requests.max(1) as f64;
        RawRate {
            per_second: requests / (last.max(1) as f64 / 1e9),
            mean_nanos: waited as f64 / requests,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(name: &str, load: RawLoad) -> f64 {
        load.run(&name.parse().unwrap(), 40_000, 301).per_second
    }

    /// R-XP-03: 26 and 408 thousand requests per second on SATA flash and 3D XPoint.
    #[test]
    fn the_raw_ratio_of_xpoint_to_flash_is_the_printed_one() {
        let (flash, xpoint) = (run("S", RawLoad::mixed()), run("O", RawLoad::mixed()));
        assert!((flash / 26_000.0 - 1.0).abs() < 0.02, "{flash}");
        assert!((xpoint / 408_000.0 - 1.0).abs() < 0.02, "{xpoint}");
        let ratio = xpoint / flash;
        assert!((ratio / 15.7 - 1.0).abs() < 0.02, "{ratio}");
    }

    /// R-SPAN-01: 4.05 times as slow by way of files; large reads as fast.
    #[test]
    fn small_durable_writes_cost_more_by_way_of_files_and_large_reads_do_not() {
        let write = |way| run("O", RawLoad::durable_writes(way));
        let ratio = write(Way::Device) / write(Way::Files);
        assert!((ratio / 4.05 - 1.0).abs() < 0.01, "{ratio}");
        let read = |way| {
            let load = RawLoad {
                bytes: 1 << 20,
                read_percent: 100,
                way,
                ..RawLoad::durable_writes(way)
            };
            run("O", load)
        };
        let ratio = read(Way::Device) / read(Way::Files);
        assert!((ratio - 1.0).abs() < 0.1, "{ratio}");
        // The larger a write, the less the journal matters.
        let large = |way| {
            let load = RawLoad {
                bytes: 64 << 10,
                ..RawLoad::durable_writes(way)
            };
            run("O", load)
        };
        let ratio = large(Way::Device) / large(Way::Files);
        assert!((1.0..2.0).contains(&ratio), "{ratio}");
    }

    #[test]
    fn a_run_is_a_function_of_its_seed() {
        let load = RawLoad::mixed();
        let spec = "N1".parse().unwrap();
        assert_eq!(load.run(&spec, 1000, 1), load.run(&spec, 1000, 1));
        assert_ne!(load.run(&spec, 1000, 1), load.run(&spec, 1000, 2));
        let rate = load.run(&spec, 1000, 1);
        assert!(rate.mean_nanos > 18_000.0 && rate.bytes_per_second(4096) > 1e6);
    }
}
