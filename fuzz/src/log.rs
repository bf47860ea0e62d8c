//! Logs and write batches.

use spanlith_base::Result;
use spanlith_base::checksum::{crc32c, mask};
use spanlith_env::SequentialFile;
use spanlith_wal::record::{
    BLOCK_SIZE, HEADER_SIZE, RECYCLABLE_HEADER_SIZE, TYPE_OFFSET, is_recyclable,
};
use spanlith_wal::{BATCH_HEADER_SIZE, BatchIter, BatchOp, LogReader, ReadEvent, WriteBatch};

/// A file that is read once, a few bytes fewer at a time than asked for now and then.
pub struct Bytes {
    rest: Vec<u8>,
    at: usize,
}

impl Bytes {
    /// A file of these bytes.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self { rest: bytes, at: 0 }
    }
}

impl SequentialFile for Bytes {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        let n = buf.len().min(self.rest.len() - self.at);
        buf[..n].copy_from_slice(&self.rest[self.at..self.at + n]);
        self.at += n;
        Ok(n)
    }
}

/// Gives every physical record of a log its right checksum, as far as its lengths lead.
pub fn mend_log(log: &mut [u8]) {
    for block in log.chunks_mut(BLOCK_SIZE) {
        let mut at = 0;
        while let Some(header) = block.get(at..at + HEADER_SIZE) {
            let kind = header[TYPE_OFFSET];
            let size = usize::from(u16::from_le_bytes([header[4], header[5]]));
            let header_size = if is_recyclable(kind) {
                RECYCLABLE_HEADER_SIZE
            } else {
                HEADER_SIZE
            };
            let end = at + header_size + size;
            let Some(covered) = block.get(at + TYPE_OFFSET..end) else {
                break;
            };
            let sum = mask(crc32c(covered)).to_le_bytes();
            block[at..at + 4].copy_from_slice(&sum);
            at = end;
        }
    }
}

/// Reads a log to its end. Byte 0: bit 0 leaves the checksums alone; bits 1.. are the log number.
pub fn log_reader(data: &[u8]) {
    let Some((&flags, log)) = data.split_first() else {
        return;
    };
    let mut log = log.to_vec();
    if flags & 1 == 0 {
        mend_log(&mut log);
    }
    let size = log.len() as u64;
    let file = Bytes::new(log);
    let mut reader = LogReader::new(Box::new(file), u64::from(flags >> 1));
    let mut events = 0;
    let mut last_end = 0;
    loop {
        events += 1;
        // A header takes at least seven bytes, and one finding is at most two events.
        assert!(events <= 2 * (size / 7 + 4), "WAL2: the log does not end");
        match reader.next_event() {
            Ok(ReadEvent::Eof) => break,
            Ok(ReadEvent::Record { offset, end }) => {
                assert!(offset >= last_end && end > offset && end <= size);
                last_end = end;
                batch(reader.record());
            }
            Ok(_) => {}
            Err(error) => {
                let again = reader.next_event().expect_err("an error is final");
                assert_eq!(error.to_string(), again.to_string());
                return;
            }
        }
    }
    assert!(matches!(reader.next_event(), Ok(ReadEvent::Eof)));
}

/// Walks a write batch and builds it anew.
pub fn write_batch(data: &[u8]) {
    batch(data);
    if let Ok(parsed) = WriteBatch::from_bytes(data) {
        assert_eq!(parsed.as_bytes(), data);
        let _ = parsed.flags();
        let mut twice = WriteBatch::new();
        if twice.append(&parsed).is_ok() {
            assert_eq!(twice.body(), parsed.body());
        }
    }
}

fn batch(rep: &[u8]) {
    let Ok(iter) = BatchIter::new(rep) else {
        assert!(rep.len() < BATCH_HEADER_SIZE);
        return;
    };
    let mut steps = 0;
    let mut copy = WriteBatch::new();
    for entry in iter {
        steps += 1;
        assert!(steps <= rep.len(), "the batch does not end");
        match entry {
            Ok(op) => rebuild(&mut copy, &op),
            Err(_) => steps = rep.len(),
        }
    }
    // The result is a batch.
    let count = copy.iter().map(|i| i.filter(|e| e.is_ok()).count());
    assert!(count.is_ok_and(|n| n >= copy.count() as usize));
}

/// Adds what this build can express; the rest is left out.
fn rebuild(copy: &mut WriteBatch, op: &BatchOp<'_>) {
    let outcome = match *op {
        BatchOp::Put { cf, key, value } => copy.put_cf(cf, key, value),
        BatchOp::Delete { cf, key } => copy.delete_cf(cf, key),
        BatchOp::SingleDelete { cf, key } => copy.single_delete_cf(cf, key),
        BatchOp::Merge { cf, key, value } => copy.merge_cf(cf, key, value),
        BatchOp::DeleteRange { cf, begin, end } => copy.delete_range_cf(cf, begin, end),
        BatchOp::LogData { blob } => copy.put_log_data(blob),
        _ => Ok(()),
    };
    outcome.expect("what a batch held fits into a batch");
}
