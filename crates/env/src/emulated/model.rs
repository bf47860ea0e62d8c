//! When a request is done: channels that serve one request each, and a bandwidth that all share.
//!
//! ```text
//! begin = max(arrival, channel free)     service = latency + bytes beyond 4 KiB at the bandwidth
//! done  = max(begin + service, end of the transfer on the shared link)
//! ```

use super::profile::Profile;
use std::collections::VecDeque;

/// Describes what a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Reads.
    Read,
    /// Writes.
    Write,
}

/// Bytes that the latency covers.
pub(super) const UNIT: u64 = 4096;
/// A write of so many bytes is never random, and one within so many before the end of another continues it.
const STREAM_BYTES: u64 = 64 << 10;
/// Writes that a device remembers to see which others continue them.
const STREAMS: usize = 16;
/// The price of making a longer file durable, in writes of 4 KiB to the journal of a file system, in hundredths, so that
/// a write of 4 KiB takes 4.05 times as long by way of files.
const JOURNAL_PERCENT: u64 = 305;
const SECOND: u128 = 1_000_000_000;

/// The queue of a device, by a clock that the caller tells. One thread at a time.
#[derive(Clone, Debug)]
pub struct Model {
    profile: Profile,
    /// When each channel is free.
    channels: Vec<u64>,
    /// Says whether its last request was a write.
    writes: Vec<bool>,
    /// When the link is free, of reads and of writes.
    links: [u64; 2],
    /// Where the last request ended.
    address: u64,
    /// Where the last writes ended, the latest last.
    streams: VecDeque<u64>,
}

impl Model {
    /// An idle device.
    pub fn new(profile: Profile) -> Self {
        Self {
            channels: vec![0; profile.channels.max(1)],
            writes: vec![false; profile.channels.max(1)],
            links: [0; 2],
            address: u64::MAX,
            streams: VecDeque::from([0]),
            profile,
        }
    }

    /// The device.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// When a request for `bytes` at `offset` that arrives at `now` is done; all in nanoseconds.
    pub fn serve(&mut self, now: u64, direction: Direction, offset: u64, bytes: u64) -> u64 {
        let random = match direction {
            Direction::Read => 0,
            Direction::Write => self.note_write(offset, bytes),
        };
        self.serve_extra(now, direction, offset, bytes, (random, 0))
    }

    /// As [`Self::serve`], of a write that makes a file longer: the journal of the file system is written with it.
    /// `bytes` may be 0.
    pub fn serve_with_journal(&mut self, now: u64, offset: u64, bytes: u64) -> u64 {
        let service = self.profile.write_nanos * JOURNAL_PERCENT / 100;
        let moved = UNIT * JOURNAL_PERCENT / 100;
        if bytes == 0 {
            // The journal alone, wherever it lies.
            let less = self.profile.write_nanos;
            let extra = (service.saturating_sub(less), moved);
            return self.serve_extra(now, Direction::Write, self.address, 0, extra);
        }
        let extra = (service + self.note_write(offset, bytes), moved);
        self.serve_extra(now, Direction::Write, offset, bytes, extra)
    }

    /// Says that a writer begins at `offset`: its first write is not a random one.
    pub fn open_stream(&mut self, offset: u64) {
        if self.streams.len() == STREAMS {
            self.streams.pop_front();
        }
        self.streams.push_back(offset);
    }

    /// Returns what a write costs more because it continues no other, and remembers it.
    fn note_write(&mut self, offset: u64, bytes: u64) -> u64 {
        let continues = |s: &u64| offset <= *s && s.saturating_sub(offset) <= STREAM_BYTES;
        let found = self.streams.iter().position(continues);
        if let Some(at) = found {
            self.streams.remove(at);
        }
        self.open_stream(offset.wrapping_add(bytes));
        match found.is_none() && bytes < STREAM_BYTES {
            true => self.profile.random_write_nanos,
            false => 0,
        }
    }

    /// `extra`: nanoseconds of the channel and bytes of the link beyond those of the request itself.
    fn serve_extra(
        &mut self,
        now: u64,
        direction: Direction,
        offset: u64,
        bytes: u64,
        extra: (u64, u64),
    ) -> u64 {
        let p = &self.profile;
        let (latency, bandwidth) = match direction {
            Direction::Read => (p.read_nanos, p.read_bandwidth),
            Direction::Write => (p.write_nanos, p.write_bandwidth),
        };
        let transfer = |n: u64| (u128::from(n) * SECOND / u128::from(bandwidth.max(1))) as u64;
        let mut service = latency + transfer(bytes.saturating_sub(UNIT));
        if offset != self.address {
            service += p.seek_nanos;
            if direction == Direction::Read {
                service += p.read_seek_nanos;
            }
        }
        if direction == Direction::Read && p.mix_percent > 0 {
            let busy = self.channels.iter().zip(&self.writes);
            let writing = busy
                .filter(|&(&free, &writes)| writes && free > now)
                .count() as u64;
            service += service * p.mix_percent * writing / (100 * self.channels.len() as u64);
        }
        service += extra.0;
        let mut moved = bytes + extra.1;
        if direction == Direction::Write && p.raid_members > 0 && bytes < UNIT * 16 * p.raid_members
        {
            // Less than a stripe: old data and old parity are read, both are written.
            service += p.read_nanos;
            moved *= 4;
        }
        let at = (0..self.channels.len()).min_by_key(|&i| self.channels.get(i).copied());
        let at = at.unwrap_or(0);
        let begin = self.channels.get(at).copied().unwrap_or(0).max(now);
        let end = begin + service;
        if let (Some(channel), Some(writes)) = (self.channels.get_mut(at), self.writes.get_mut(at))
        {
            *channel = end;
            *writes = direction == Direction::Write;
        }
        let link = match direction {
            Direction::Read => &mut self.links[0],
            Direction::Write => &mut self.links[1],
        };
        *link = (*link).max(begin) + transfer(moved);
        self.address = offset.wrapping_add(bytes);
        end.max(*link)
    }

    /// When a flush that arrives at `now` is done: after all writes.
    pub fn flush(&mut self, now: u64) -> u64 {
        if !self.profile.is_volatile {
            return now;
        }
        let busiest = self.channels.iter().copied().max().unwrap_or(0);
        busiest.max(now) + self.profile.flush_nanos
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(name: &str) -> Model {
        Model::new(Profile::by_name(name).unwrap())
    }

    /// Requests of 4 KiB per second with `depth` of them under way.
    fn rate(name: &str, direction: Direction, depth: usize) -> f64 {
        const COUNT: u64 = 20_000;
        let mut model = model(name);
        let mut slots = vec![0u64; depth];
        for i in 0..COUNT {
            let slot = slots.iter_mut().min().unwrap();
            *slot = model.serve(*slot, direction, i * 4096, 4096);
        }
        COUNT as f64 / (*slots.iter().max().unwrap() as f64 / 1e9)
    }

    #[test]
    fn one_request_takes_the_latency_and_many_reach_the_bandwidth() {
        let one = rate("O", Direction::Write, 1);
        assert!((one - 100_000.0).abs() < 1_000.0, "{one}");
        let many = rate("O", Direction::Write, 64);
        // 2000 MB/s of 4 KiB are 488 k; six channels of 10 µs are 600 k.
        assert!((many - 488_000.0).abs() < 5_000.0, "{many}");
        let flash = rate("S", Direction::Write, 64);
        assert!((flash - 124_500.0).abs() < 2_000.0, "{flash}");
    }

    #[test]
    fn a_hard_disk_seeks_unless_the_next_address_follows() {
        let mut disk = model("H");
        let first = disk.serve(0, Direction::Write, 0, 4096);
        let second = disk.serve(first, Direction::Write, 4096, 4096) - first;
        let far = first + second;
        let third = disk.serve(far, Direction::Write, 1 << 30, 4096) - far;
        assert_eq!((second, third), (200_000, 4_200_000));
    }

    #[test]
    fn a_small_write_to_a_raid_costs_more_than_one_of_a_stripe() {
        let per_byte = |bytes: u64| {
            let mut raid = model("S-RAID5");
            let mut now = 0;
            for i in 0..1000 {
                now = raid.serve(now, Direction::Write, i * 10_000_000, bytes);
            }
            now as f64 / bytes as f64
        };
        assert!(per_byte(4096) > 4.0 * per_byte(1 << 20));
    }

    #[test]
    fn reads_wait_where_writes_are_under_way() {
        let mut flash = model("S");
        let alone = flash.serve(0, Direction::Read, 0, 4096);
        let mut flash = model("S");
        for i in 0..8 {
            flash.serve(0, Direction::Write, i << 20, 4096);
        }
        assert!(flash.serve(0, Direction::Read, 1 << 30, 4096) > 2 * alone);
        assert_eq!(model("O").flush(5), 5);
        assert_eq!(model("S").flush(5), 400_005);
    }
}
