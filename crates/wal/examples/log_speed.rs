//! Nanoseconds per operation of the parts of the write path that belong to this crate.
//!
//! `cargo run --release -p spanlith-wal --example log_speed [part of a name]`: the best of 300 short rounds, so
//! that other load matters little.

use spanlith_base::Result;
use spanlith_env::{SequentialFile, WritableFile};
use spanlith_wal::{BatchIter, BatchOp, LogReader, LogWriter, ReadEvent, WriteBatch};
use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

/// Swallows what is written.
struct Nowhere(u64);

impl WritableFile for Nowhere {
    fn append(&mut self, data: &[u8]) -> Result<()> {
        self.0 += black_box(data).len() as u64;
        Ok(())
    }
    fn sync(&mut self) -> Result<()> {
        Ok(())
    }
    fn len(&self) -> u64 {
        self.0
    }
    fn close(&mut self) -> Result<()> {
        Ok(())
    }
    fn path(&self) -> &Path {
        Path::new("nowhere")
    }
}

/// Keeps what is written.
struct Memory(std::sync::Arc<std::sync::Mutex<Vec<u8>>>);

impl WritableFile for Memory {
    fn append(&mut self, data: &[u8]) -> Result<()> {
        if let Ok(mut bytes) = self.0.lock() {
            bytes.extend_from_slice(data);
        }
        Ok(())
    }
    fn sync(&mut self) -> Result<()> {
        Ok(())
    }
    fn len(&self) -> u64 {
        self.0.lock().map_or(0, |b| b.len() as u64)
    }
    fn close(&mut self) -> Result<()> {
        Ok(())
    }
    fn path(&self) -> &Path {
        Path::new("memory")
    }
}

struct Bytes(Vec<u8>, usize);

impl SequentialFile for Bytes {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        let rest = &self.0[self.1..];
        let n = rest.len().min(buf.len());
        buf[..n].copy_from_slice(&rest[..n]);
        self.1 += n;
        Ok(n)
    }
}

fn measure(name: &str, operations: u64, mut body: impl FnMut()) {
    if std::env::args()
        .nth(1)
        .is_some_and(|only| !name.contains(&only))
    {
        return;
    }
    let mut best = f64::MAX;
    for _ in 0..300 {
        let start = Instant::now();
        body();
        best = best.min(start.elapsed().as_nanos() as f64 / operations as f64);
    }
    println!("{name:<44} {best:>8.1} ns");
}

/// Walks a batch as the leader of a write group does.
#[inline(never)]
fn walk(rep: &[u8]) {
    let Ok(iter) = BatchIter::new(rep) else {
        return;
    };
    let mut bytes = 0;
    for op in iter {
        match op {
            Ok(BatchOp::Put { key, value, .. }) => bytes += key.len() + value.len(),
            Ok(BatchOp::Delete { key, .. }) => bytes += key.len(),
            Ok(_) | Err(_) => return,
        }
    }
    black_box(bytes);
}

fn main() -> Result<()> {
    const N: u64 = 40_000;
    let (key, value) = ([7u8; 16], [9u8; 100]);

    let mut batch = WriteBatch::new();
    measure("batch: clear, put 16+100", N, || {
        for _ in 0..N {
            batch.clear();
            black_box(batch.put(black_box(&key), black_box(&value)).is_ok());
        }
    });
    batch.clear();
    batch.put(&key, &value)?;
    let rep = batch.as_bytes().to_vec();
    measure("batch: walk 1 put", N, || {
        for _ in 0..N {
            walk(black_box(&rep));
        }
    });
    let mut large = WriteBatch::new();
    for _ in 0..1000 {
        large.put(&key, &value)?;
    }
    measure("batch: walk 1000 puts, each", N, || {
        for _ in 0..N / 1000 {
            walk(black_box(large.as_bytes()));
        }
    });
    measure("crc32c of 133 bytes", N, || {
        for _ in 0..N {
            black_box(spanlith_base::checksum::crc32c(black_box(
                &large.as_bytes()[6..139],
            )));
        }
    });
    let mut writer = LogWriter::new(Box::new(Nowhere(0)), 1);
    measure("log: add_record of 132 bytes", N, || {
        for _ in 0..N {
            black_box(writer.add_record(black_box(&rep)).is_ok());
        }
    });
    measure("log: add_record_parts of 12 + 120 bytes", N, || {
        for _ in 0..N {
            let (head, body) = black_box(&rep[..]).split_at(12);
            black_box(writer.add_record_parts(&[head, body]).is_ok());
        }
    });
    measure("log: add_record_parts of a put, 4 parts", N, || {
        let mut head = [1u8; 14];
        for n in 0..N {
            head[..8].copy_from_slice(&n.to_le_bytes());
            head[13] = 16;
            let parts: [&[u8]; 4] = [&head, black_box(&key), &[100], black_box(&value)];
            black_box(writer.add_record_parts(&parts).is_ok());
        }
    });
    let big = vec![3u8; 100_000];
    measure("log: add_record of 100,000 bytes", N / 1000, || {
        for _ in 0..N / 1000 {
            black_box(writer.add_record(black_box(&big)).is_ok());
        }
    });
    let bytes = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let mut writer = LogWriter::new(Box::new(Memory(bytes.clone())), 1);
    for _ in 0..200_000 {
        writer.add_record(&rep)?;
    }
    let bytes = bytes.lock().map_or_else(|_| Vec::new(), |b| b.clone());
    measure("log: read a record of 132 bytes", 200_000, || {
        let mut reader = LogReader::new(Box::new(Bytes(bytes.clone(), 0)), 1);
        while let Ok(ReadEvent::Record { .. }) = reader.next_event() {
            black_box(reader.record());
        }
    });
    Ok(())
}
