//! A device in memory.

use spanlith_env::emulated::{Direction, Model, Profile, wait_until};

use spanlith_base::sync::Mutex;
use spanlith_base::{Error, Result};
use spanlith_env::mem::{Media, PowerLoss};
use spanlith_env::{BlockDevice, Clock, Durability, Geometry, Rng};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Describes what a request was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// A write.
    Write {
        /// Where.
        offset: u64,
        /// The kind.
        data: Vec<u8>,
        /// How.
        durability: Durability,
    },
    /// A flush.
    Flush,
}

/// Describes what goes wrong with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// It fails and does nothing.
    Error,
    /// It says that it was done, and was not.
    Lost,
    /// A write goes to another place, so many bytes further.
    Astray(u64),
    /// One bit of what is read or written is another one.
    BitFlip,
    /// It takes so many nanoseconds longer.
    Delay(u64),
    /// It and everything after it fails: the device is gone.
    Gone,
}

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Which request it hits, counted from 0 over reads, writes and flushes.
    pub request: u64,
    /// Says what goes wrong.
    pub kind: FaultKind,
}

struct State {
    media: Media,
    model: Model,
    requests: u64,
    faults: Vec<Fault>,
    is_gone: bool,
    record: Option<Vec<Op>>,
}

/// A device in memory that takes the time that a real one takes, by a clock, if it has one.
pub struct EmulatedDevice {
    path: PathBuf,
    size: u64,
    block: u32,
    is_volatile: bool,
    clock: Option<Arc<dyn Clock>>,
    state: Mutex<State>,
}

impl EmulatedDevice {
    /// A device of `size` bytes that holds zeros and takes no time.
    pub fn new(profile: Profile, size: u64) -> Self {
        Self::with_media(profile, size, Media::default())
    }

    /// A device that holds what another held.
    pub fn with_media(profile: Profile, size: u64, media: Media) -> Self {
        Self {
            path: PathBuf::from(format!("emulated {}", profile.name)),
            size,
            block: 4096,
            is_volatile: profile.is_volatile,
            clock: None,
            state: Mutex::new(
                90,
                State {
                    media,
                    model: Model::new(profile),
                    requests: 0,
                    faults: Vec::new(),
                    is_gone: false,
                    record: None,
                },
            ),
        }
    }

    /// Takes the time of its profile by `clock`.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Writes so many bytes as a whole.
    #[must_use]
    pub fn with_block(mut self, block: u32) -> Self {
        self.block = block;
        self
    }

    /// Has a request fail.
    pub fn add_fault(&self, fault: Fault) {
        self.state.lock().faults.push(fault);
    }

    /// Requests so far.
    pub fn requests(&self) -> u64 {
        self.state.lock().requests
    }

    /// Remembers writes and flushes from now on.
    pub fn record(&self) {
        self.state.lock().record = Some(Vec::new());
    }

    /// How many writes and flushes were remembered.
    pub fn recorded(&self) -> usize {
        self.state.lock().record.as_ref().map_or(0, Vec::len)
    }

    /// Writes and flushes that were remembered.
    pub fn take_record(&self) -> Vec<Op> {
        self.state.lock().record.take().unwrap_or_default()
    }

    /// Returns what it holds.
    pub fn media(&self) -> Media {
        self.state.lock().media.clone()
    }

    /// The device after the power was gone.
    #[must_use]
    pub fn after(&self, loss: PowerLoss, rng: &dyn Rng) -> Self {
        let state = self.state.lock();
        let media = state.media.after(loss, rng);
        let mut device = Self::with_media(*state.model.profile(), self.size, media);
        device.block = self.block;
        device.clock.clone_from(&self.clock);
        device
    }

    /// Counts a request; what goes wrong with it.
    fn next(&self, state: &mut State, what: &str, offset: u64) -> Result<Option<FaultKind>> {
        let request = state.requests;
        state.requests += 1;
        let at = state.faults.iter().position(|f| f.request == request);
        let kind = at.map(|at| state.faults.swap_remove(at).kind);
        state.is_gone |= kind == Some(FaultKind::Gone);
        if state.is_gone || kind == Some(FaultKind::Error) {
            let e = std::io::Error::from_raw_os_error(if state.is_gone { 19 } else { 5 });
            let context = format!("While {what} a speed disk");
            return Err(Error::from_io(&context, &self.path, e).with_offset(offset));
        }
        Ok(kind)
    }

    fn wait(&self, done: u64, fault: Option<FaultKind>) {
        let extra = match fault {
            Some(FaultKind::Delay(nanos)) => nanos,
            _ => 0,
        };
        if let Some(clock) = &self.clock {
            wait_until(&**clock, done + extra);
        }
    }

    fn now(&self) -> u64 {
        self.clock.as_ref().map_or(0, |c| c.monotonic_nanos())
    }

    fn check_range(&self, offset: u64, len: usize) -> Result<()> {
        match offset.checked_add(len as u64) {
            Some(end) if end <= self.size => Ok(()),
            _ => {
                let text =
                    format!("{len} bytes from byte {offset} on are behind the end of the device");
                Err(Error::io(text).with_path(&self.path))
            }
        }
    }
}

impl BlockDevice for EmulatedDevice {
    fn geometry(&self) -> Geometry {
        Geometry {
            size: self.size,
            block: self.block,
            is_volatile: self.is_volatile,
            is_block_device: true,
        }
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.check_range(offset, buf.len())?;
        let now = self.now();
        let (done, fault) = {
            let mut state = self.state.lock();
            let fault = self.next(&mut state, "reading", offset)?;
            state.media.read(offset, buf);
            let len = buf.len() as u64;
            (state.model.serve(now, Direction::Read, offset, len), fault)
        };
        if fault == Some(FaultKind::BitFlip)
            && let Some(byte) = buf.first_mut()
        {
            *byte ^= 1;
        }
        self.wait(done, fault);
        Ok(())
    }

    fn write_at(&self, offset: u64, data: &[u8], durability: Durability) -> Result<()> {
        self.check_range(offset, data.len())?;
        let now = self.now();
        let (done, fault) = {
            let mut state = self.state.lock();
            let fault = self.next(&mut state, "writing", offset)?;
            let (mut place, mut data) = (offset, std::borrow::Cow::Borrowed(data));
            match fault {
                Some(FaultKind::Astray(by)) => {
                    place = (offset + by).min(self.size - data.len() as u64);
                }
                Some(FaultKind::BitFlip) => {
                    let middle = data.len() / 2;
                    if let Some(byte) = data.to_mut().get_mut(middle) {
                        *byte ^= 1;
                    }
                }
                _ => {}
            }
            let is_durable = durability == Durability::Durable || !self.is_volatile;
            match (fault, is_durable) {
                (Some(FaultKind::Lost), _) => {}
                (_, true) => state.media.write_durable(place, &data),
                (_, false) => state.media.write_cached(place, &data),
            }
            let len = data.len() as u64;
            if let Some(record) = &mut state.record {
                record.push(Op::Write {
                    offset: place,
                    data: data.into_owned(),
                    durability,
                });
            }
            let mut done = state.model.serve(now, Direction::Write, offset, len);
            if durability == Durability::Durable {
                done = state.model.flush(done);
            }
            (done, fault)
        };
        self.wait(done, fault);
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        let now = self.now();
        let (done, fault) = {
            let mut state = self.state.lock();
            let fault = self.next(&mut state, "flushing", 0)?;
            if fault != Some(FaultKind::Lost) {
                state.media.flush();
            }
            if let Some(record) = &mut state.record {
                record.push(Op::Flush);
            }
            (state.model.flush(now), fault)
        };
        self.wait(done, fault);
        Ok(())
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanlith_env::VirtualClock;

    #[test]
    fn a_request_takes_the_time_of_its_profile() {
        let clock = Arc::new(VirtualClock::new());
        let profile = Profile::by_name("S").unwrap();
        let device = EmulatedDevice::new(profile, 1 << 20).with_clock(clock.clone());
        let begun = clock.monotonic_nanos();
        device.write_at(0, &[1; 4096], Durability::Cached).unwrap();
        assert_eq!(clock.monotonic_nanos() - begun, 37_000);
        device.write_at(0, &[1; 4096], Durability::Durable).unwrap();
        assert_eq!(clock.monotonic_nanos() - begun, 2 * 37_000 + 400_000);
    }

    #[test]
    fn faults_hit_the_request_they_are_for() {
        let profile = Profile::by_name("S").unwrap();
        let device = EmulatedDevice::new(profile, 1 << 20);
        let mut buf = [0; 512];
        for (request, kind) in [
            (0, FaultKind::Error),
            (1, FaultKind::Lost),
            (2, FaultKind::Astray(4096)),
            (4, FaultKind::BitFlip),
            (6, FaultKind::Gone),
        ] {
            device.add_fault(Fault { request, kind });
        }
        let write = |offset| device.write_at(offset, &[7; 512], Durability::Durable);
        write(0).unwrap_err();
        write(0).unwrap();
        write(0).unwrap();
        device.read_at(4096, &mut buf).unwrap();
        assert_eq!(buf, [7; 512]);
        write(0).unwrap();
        device.read_at(0, &mut buf).unwrap();
        assert_eq!((buf[0], buf[256]), (7, 6));
        write(0).unwrap_err();
        device.flush().unwrap_err();
        device
            .write_at(1 << 20, &[0; 1], Durability::Cached)
            .unwrap_err();
    }
}
