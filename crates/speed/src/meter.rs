//! How long requests of tables take, by the kind of their work.
//!
//! A read of at most [`CALL_BYTES`] is one of calls: a block, or a few. A larger one is one of compactions, which read ahead, or of a
//! long scan. Reads through a descriptor are counted and not timed. All that is written is written by
//! flushes and compactions; waiting for the log and for a sync is a part of it.

use crate::placement::Asked;
use spanlith_base::Result;
use spanlith_env::{Access, Clock, RandomAccessFile, ReadRequest, WritableFile};
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Most bytes of a read that counts as one of calls.
const CALL_BYTES: u64 = 64 << 10;

/// Counts the requests of the tables of a disk. All numbers are Relaxed: they order nothing.
pub(crate) struct Meter {
    clock: Arc<dyn Clock>,
    reads: AtomicU64,
    reads_bytes: AtomicU64,
    reads_nanos: AtomicU64,
    inputs: AtomicU64,
    inputs_nanos: AtomicU64,
    outputs: AtomicU64,
    outputs_nanos: AtomicU64,
}

impl Meter {
    pub(crate) fn new(clock: &Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self {
            clock: clock.clone(),
            reads: AtomicU64::new(0),
            reads_bytes: AtomicU64::new(0),
            reads_nanos: AtomicU64::new(0),
            inputs: AtomicU64::new(0),
            inputs_nanos: AtomicU64::new(0),
            outputs: AtomicU64::new(0),
            outputs_nanos: AtomicU64::new(0),
        })
    }

    /// The totals since the open.
    pub(crate) fn asked(&self) -> Asked {
        let of = |n: &AtomicU64| n.load(Ordering::Relaxed);
        Asked {
            reads: of(&self.reads),
            reads_nanos: of(&self.reads_nanos),
            inputs: of(&self.inputs),
            inputs_nanos: of(&self.inputs_nanos),
            outputs: of(&self.outputs),
            outputs_nanos: of(&self.outputs_nanos),
        }
    }

    /// Bytes read since the open.
    pub(crate) fn bytes_read(&self) -> u64 {
        self.reads_bytes.load(Ordering::Relaxed) + self.inputs.load(Ordering::Relaxed)
    }

    fn now(&self) -> u64 {
        self.clock.monotonic_nanos()
    }

    /// Some requests that began at `began` have read `bytes` of each.
    fn read(&self, bytes: impl Iterator<Item = u64>, began: u64) {
        let took = self.now().saturating_sub(began);
        let (mut calls, mut called, mut ahead) = (0, 0, 0);
        for n in bytes {
            match n <= CALL_BYTES {
                true => (calls, called) = (calls + 1, called + n),
                false => ahead += n,
            }
        }
        let add = |to: &AtomicU64, n: u64| to.fetch_add(n, Ordering::Relaxed);
        // A batch that has both is one of calls.
        if calls > 0 {
            add(&self.reads, calls);
            add(&self.reads_nanos, took);
        } else {
            add(&self.inputs_nanos, took);
        }
        add(&self.reads_bytes, called);
        add(&self.inputs, ahead);
    }

    /// Counts bytes that were written.
    pub(crate) fn wrote(&self, bytes: u64) {
        self.outputs.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts the time of `work` as that of writing.
    pub(crate) fn while_writing(&self, work: impl FnOnce() -> Result<()>) -> Result<()> {
        let began = self.now();
        let done = work();
        let took = self.now().saturating_sub(began);
        self.outputs_nanos.fetch_add(took, Ordering::Relaxed);
        done
    }
}

/// A table that is read.
pub(crate) struct Metered {
    file: Arc<dyn RandomAccessFile>,
    meter: Arc<Meter>,
}

impl Metered {
    pub(crate) fn of(
        file: Arc<dyn RandomAccessFile>,
        meter: &Arc<Meter>,
    ) -> Arc<dyn RandomAccessFile> {
        let meter = meter.clone();
        Arc::new(Self { file, meter })
    }
}

impl RandomAccessFile for Metered {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let began = self.meter.now();
        let n = self.file.read_at(offset, buf)?;
        self.meter.read(std::iter::once(n as u64), began);
        Ok(n)
    }

    fn read_many(&self, requests: &mut [ReadRequest<'_>]) {
        let began = self.meter.now();
        self.file.read_many(requests);
        let read = requests.iter().filter_map(|r| r.result.as_ref().ok());
        self.meter.read(read.map(|n| *n as u64), began);
    }

    fn size(&self) -> u64 {
        self.file.size()
    }

    fn advise(&self, access: Access) {
        self.file.advise(access);
    }

    fn read_ahead(&self, offset: u64, len: usize) {
        self.file.read_ahead(offset, len);
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.file.descriptor()
    }

    fn note_read(&self, bytes: usize) {
        self.file.note_read(bytes);
        let read = &self.meter.reads_bytes;
        read.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    fn path(&self) -> &Path {
        self.file.path()
    }
}

/// A table that is written.
pub(crate) struct MeteredWriter {
    file: Box<dyn WritableFile>,
    meter: Arc<Meter>,
    /// Bytes of this table alone, if they are counted. Relaxed, too.
    of_table: Option<Arc<AtomicU64>>,
}

impl MeteredWriter {
    pub(crate) fn of(file: Box<dyn WritableFile>, meter: &Arc<Meter>) -> Box<dyn WritableFile> {
        Self::of_table(file, meter, None)
    }

    /// As [`Self::of`]; adds what is written to `of_table` as well.
    pub(crate) fn of_table(
        file: Box<dyn WritableFile>,
        meter: &Arc<Meter>,
        of_table: Option<Arc<AtomicU64>>,
    ) -> Box<dyn WritableFile> {
        Box::new(Self {
            file,
            meter: meter.clone(),
            of_table,
        })
    }
}

impl WritableFile for MeteredWriter {
    fn append(&mut self, data: &[u8]) -> Result<()> {
        self.meter.while_writing(|| self.file.append(data))?;
        let bytes = data.len() as u64;
        self.meter.wrote(bytes);
        if let Some(of_table) = &self.of_table {
            of_table.fetch_add(bytes, Ordering::Relaxed);
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        self.meter.while_writing(|| self.file.sync())
    }

    fn expect_sync(&mut self) {
        self.file.expect_sync();
    }

    fn len(&self) -> u64 {
        self.file.len()
    }

    fn write_back(&mut self, offset: u64, len: u64) -> Result<()> {
        let file = &mut self.file;
        self.meter.while_writing(|| file.write_back(offset, len))
    }

    fn write_back_strictly(&mut self, offset: u64, len: u64) -> Result<()> {
        let file = &mut self.file;
        self.meter
            .while_writing(|| file.write_back_strictly(offset, len))
    }

    fn truncate(&mut self, len: u64) -> Result<()> {
        self.file.truncate(len)
    }

    fn preallocate(&mut self, len: u64) {
        self.file.preallocate(len);
    }

    fn close(&mut self) -> Result<()> {
        self.file.close()
    }

    fn path(&self) -> &Path {
        self.file.path()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanlith_env::{Env, FileSystem, IoActivity, MemFs};
    use std::time::Duration;

    #[test]
    fn reads_of_calls_and_of_compactions_are_told_apart_and_timed() {
        let mem = Arc::new(MemFs::new());
        let clock = Env::test(mem.clone(), 1).0.clock;
        let meter = Meter::new(&clock);
        let file = mem.create(Path::new("/1.sst"), IoActivity::Compaction);
        let mut file = MeteredWriter::of(file.unwrap(), &meter);
        file.append(&vec![7; 1 << 20]).unwrap();
        meter
            .while_writing(|| {
                clock.sleep(Duration::from_micros(5));
                Ok(())
            })
            .unwrap();
        file.sync().unwrap();
        file.close().unwrap();
        let file = Metered::of(mem.open_random(Path::new("/1.sst")).unwrap(), &meter);
        file.read_at(0, &mut [0; 4096]).unwrap();
        file.read_at(0, &mut vec![0; 256 << 10]).unwrap();
        meter.read([100, 200].into_iter(), clock.monotonic_nanos() - 700);
        meter.read([CALL_BYTES + 1].into_iter(), clock.monotonic_nanos() - 90);
        let asked = meter.asked();
        let expected = Asked {
            reads: 3,
            reads_nanos: 700,
            inputs: (256 << 10) + CALL_BYTES + 1,
            inputs_nanos: 90,
            outputs: 1 << 20,
            outputs_nanos: 5_000,
        };
        assert_eq!(asked, expected);
        assert_eq!(meter.bytes_read(), 4096 + 300 + expected.inputs);
    }
}
