//! How busy a device is with calls and with tables, and how flushes and compactions share what is left.

use spanlith_env::emulated::{DeviceSpec, Profile};
use spanlith_speed::Asked;

/// Bytes of a request of calls.
const PAGE: f64 = 4096.0;
/// Share of the last step in what is remembered.
const FRESH: f64 = 0.2;
/// Busier than that nothing counts as: a queue that never ends is one of closed clients.
const BUSY_MAX: f64 = 0.95;
/// Share of a device that tables get whatever calls do.
const LEAST: f64 = 0.05;

/// A device under two kinds of load.
pub(super) struct Device {
    profile: Profile,
    /// Bytes of a request of flushes and compactions.
    unit: f64,
    /// Shares of its time, of the last steps: of calls, of tables, and of channels that write.
    calls: f64,
    tables: f64,
    writing: f64,
    asked: Asked,
}

impl Device {
    pub(super) fn new(spec: &DeviceSpec, unit: u64) -> Self {
        Self {
            profile: spec.scaled_profile(),
            unit: unit as f64,
            calls: 0.0,
            tables: 0.0,
            writing: 0.0,
            asked: Asked::default(),
        }
    }

    /// The requests of tables, with the time that each took.
    pub(super) fn asked(&self) -> Asked {
        self.asked
    }

    /// Bytes per second that it writes.
    pub(super) fn write_bandwidth(&self) -> f64 {
        self.profile.write_bandwidth as f64
    }

    /// Share of its time that tables take.
    pub(super) fn tables(&self) -> f64 {
        self.tables.min(BUSY_MAX)
    }

    /// Share of its time that is taken.
    pub(super) fn busy(&self) -> f64 {
        (self.calls + self.tables).min(BUSY_MAX)
    }

    fn read_service(&self) -> f64 {
        let p = &self.profile;
        let alone = (p.read_nanos + p.seek_nanos + p.read_seek_nanos) as f64;
        alone * (1.0 + p.mix_percent as f64 / 100.0 * self.writing.min(1.0))
    }

    /// Nanoseconds of a read of a page, with its queue.
    pub(super) fn read_nanos(&self) -> f64 {
        self.read_service() / (1.0 - self.busy())
    }

    /// Nanoseconds of a durable write of a page, with its queue.
    pub(super) fn write_nanos(&self) -> f64 {
        self.profile.write_nanos as f64 / (1.0 - self.busy())
    }

    /// Reads of pages that it carries beside tables.
    pub(super) fn reads_per_second(&self) -> f64 {
        let channels = self.profile.channels as f64 * 1e9 / self.read_service();
        let link = self.profile.read_bandwidth as f64 / PAGE;
        channels.min(link) * (1.0 - self.tables())
    }

    /// Says what calls asked for in a step: reads of pages, and bytes of the log.
    pub(super) fn note_calls(&mut self, reads: f64, logged: f64, step: f64) {
        let link = self.profile.read_bandwidth as f64 / PAGE;
        let channels = self.profile.channels as f64 * 1e9 / self.read_service();
        let share = reads / (link.min(channels) * step) + logged / (self.write_bandwidth() * step);
        self.asked.reads += reads as u64;
        self.asked.reads_nanos += (reads * self.read_nanos()) as u64;
        self.calls += FRESH * (share - self.calls);
    }

    /// Says what flushes and compactions did in a step: bytes read and written, and how many times as long each took as it would
    /// have beside calls alone.
    fn note_work(&mut self, bytes_read: f64, bytes_written: f64, waits: f64) {
        let (read, write) = self.nanos_by_byte();
        self.asked.inputs += bytes_read as u64;
        self.asked.inputs_nanos += (bytes_read * read * waits) as u64;
        self.asked.outputs += bytes_written as u64;
        self.asked.outputs_nanos += (bytes_written * write * waits) as u64;
    }

    /// Share of its time for tables, at least a little.
    fn left(&self) -> f64 {
        (1.0 - self.calls).max(LEAST)
    }

    /// Nanoseconds of a byte of tables for one who waits for each request: reads, writes.
    fn nanos_by_byte(&self) -> (f64, f64) {
        let p = &self.profile;
        let of = |latency: u64, bandwidth: u64| {
            (latency as f64 / self.unit + 1e9 / bandwidth as f64) / self.left()
        };
        let read = of(
            p.read_nanos + p.seek_nanos + p.read_seek_nanos,
            p.read_bandwidth,
        );
        (read, of(p.write_nanos + p.seek_nanos, p.write_bandwidth))
    }
}

/// The load of a flush or a compaction, by byte of its inputs.
pub(super) struct Load {
    /// Bytes read, and written, of each device.
    pub(super) reads: [f64; 2],
    pub(super) writes: [f64; 2],
    /// Bytes of inputs per second if it is alone.
    speed: f64,
}

impl Load {
    pub(super) fn new(
        devices: &[Device; 2],
        reads: [f64; 2],
        writes: [f64; 2],
        processor: f64,
    ) -> Self {
        let mut nanos = 1e9 / processor;
        for (n, device) in devices.iter().enumerate() {
            let (read, write) = device.nanos_by_byte();
            nanos += reads[n] * read + writes[n] * write;
        }
        Self {
            reads,
            writes,
            speed: 1e9 / nanos,
        }
    }

    /// Bytes of its inputs that each of `loads`, of which so many are left, gets done in a step.
    pub(super) fn share(devices: &mut [Device; 2], loads: &[(f64, Self)], step: f64) -> Vec<f64> {
        let ask = |(left, load): &(f64, Self)| (load.speed * step).min(left.max(0.0));
        let mut asked: Vec<f64> = loads.iter().map(ask).collect();
        let taken = |asked: &[f64], n: usize, p: &Profile| {
            let pairs = loads.iter().zip(asked);
            pairs.fold((0.0, 0.0), |(read, write), ((_, load), bytes)| {
                let link = |b: u64| b as f64 * step;
                (
                    read + load.reads[n] * bytes / link(p.read_bandwidth),
                    write + load.writes[n] * bytes / link(p.write_bandwidth),
                )
            })
        };
        let mut waits = [1.0; 2];
        for (n, device) in devices.iter().enumerate() {
            let (read, write) = taken(&asked, n, &device.profile);
            let over = read.max(write) / device.left();
            waits[n] = over.max(1.0);
            if over > 1.0 {
                for ((_, load), bytes) in loads.iter().zip(&mut asked) {
                    if load.reads[n] + load.writes[n] > 0.0 {
                        *bytes /= over;
                    }
                }
            }
        }
        for (n, device) in devices.iter_mut().enumerate() {
            let (read, write) = taken(&asked, n, &device.profile);
            let sum = |of: &dyn Fn(&Self) -> f64| {
                let pairs = loads.iter().zip(&asked);
                pairs.map(|((_, load), bytes)| of(load) * bytes).sum()
            };
            device.note_work(sum(&|l| l.reads[n]), sum(&|l| l.writes[n]), waits[n]);
            device.tables += FRESH * (read.max(write) - device.tables);
            device.writing += FRESH * (write - device.writing);
        }
        asked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_get_what_calls_leave_and_make_calls_wait() {
        let new = || {
            let of = |name: &str, unit| Device::new(&name.parse().unwrap(), unit);
            [of("S", 1 << 20), of("O", 64 << 10)]
        };
        let mut devices = new();
        let idle = devices[0].read_nanos();
        let mut carried = Vec::new();
        for calls in [0.0, 60_000.0] {
            devices = new();
            for _ in 0..100 {
                devices[0].note_calls(calls * 0.01, 0.0, 0.01);
                let loads: Vec<(f64, Load)> = (0..8)
                    .map(|_| (1e9, Load::new(&devices, [1.0, 0.0], [1.0, 0.0], 1e9)))
                    .collect();
                let done = Load::share(&mut devices, &loads, 0.01);
                carried.push(done.iter().sum::<f64>() / 0.01);
            }
        }
        // All of the bandwidth, and less beside calls.
        assert!((carried[99] - 510e6).abs() < 10e6, "{}", carried[99]);
        assert!(carried[199] < 0.7 * carried[99], "{}", carried[199]);
        assert!(devices[0].read_nanos() > 2.0 * idle);
        assert_eq!(devices[1].tables(), 0.0);
    }
}
