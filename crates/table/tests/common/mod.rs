//! Files in memory, and helpers shared by the tests of tables.
#![allow(dead_code, reason = "not every test uses every helper")]

use spanlith_base::{Error, Result};
use spanlith_env::{RandomAccessFile, WritableFile};
use spanlith_table::{ReaderOptions, TableBuilder, TableReader};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// The bytes of a file that is being written.
pub type Shared = Arc<Mutex<Vec<u8>>>;

/// A file in memory.
pub struct MemFile {
    bytes: Shared,
    path: PathBuf,
    /// Appends that succeed before they fail.
    pub appends_left: usize,
}

impl MemFile {
    pub fn create() -> (Box<dyn WritableFile>, Shared) {
        let (file, bytes) = Self::failing_after(usize::MAX);
        (Box::new(file), bytes)
    }

    pub fn failing_after(appends_left: usize) -> (Self, Shared) {
        let bytes = Shared::default();
        (
            Self {
                bytes: bytes.clone(),
                path: "mem/000007.sst".into(),
                appends_left,
            },
            bytes,
        )
    }
}

impl WritableFile for MemFile {
    fn append(&mut self, data: &[u8]) -> Result<()> {
        if self.appends_left == 0 {
            return Err(Error::io("the disk is full").with_path(&self.path));
        }
        self.appends_left -= 1;
        self.bytes.lock().unwrap().extend_from_slice(data);
        Ok(())
    }
    fn sync(&mut self) -> Result<()> {
        Ok(())
    }
    fn len(&self) -> u64 {
        self.bytes.lock().unwrap().len() as u64
    }
    fn close(&mut self) -> Result<()> {
        Ok(())
    }
    fn path(&self) -> &Path {
        &self.path
    }
}

/// A finished file in memory.
pub struct ReadFile {
    pub bytes: Vec<u8>,
    pub path: PathBuf,
}

impl RandomAccessFile for ReadFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let rest = self.bytes.get(offset as usize..).unwrap_or_default();
        let n = rest.len().min(buf.len());
        buf[..n].copy_from_slice(&rest[..n]);
        Ok(n)
    }
    fn size(&self) -> u64 {
        self.bytes.len() as u64
    }
    fn path(&self) -> &Path {
        &self.path
    }
}

/// Opens the table in `bytes`.
pub fn open(bytes: Vec<u8>, options: ReaderOptions) -> Result<Arc<TableReader>> {
    let size = bytes.len() as u64;
    TableReader::open(
        Arc::new(ReadFile {
            bytes,
            path: "mem/000007.sst".into(),
        }),
        size,
        options,
    )
}

/// Writes `entries` (internal key, value) as a table.
pub fn build(options: spanlith_table::BuilderOptions, entries: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    let (file, bytes) = MemFile::create();
    let mut builder = TableBuilder::new(options, file);
    for (key, value) in entries {
        builder.add(key, value).unwrap();
    }
    let summary = builder.finish().unwrap();
    let bytes = bytes.lock().unwrap().clone();
    assert_eq!(summary.file_size, bytes.len() as u64);
    bytes
}

/// All entries in file order.
pub fn scan(reader: &Arc<TableReader>) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut iter = reader.iter(Default::default());
    let mut out = Vec::new();
    iter.seek_to_first();
    while iter.valid() {
        out.push((iter.key().to_vec(), iter.value().to_vec()));
        iter.next();
    }
    iter.status()?;
    Ok(out)
}

/// The folder of this crate's fixtures.
pub fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/table")
}

/// The bytes of a fixture.
pub fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(fixtures().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// Bytes of a hexadecimal text.
pub fn unhex(text: &str) -> Vec<u8> {
    assert!(text.len().is_multiple_of(2), "odd number of digits: {text}");
    (0..text.len() / 2)
        .map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap())
        .collect()
}

/// Point entries of an expectation file, as internal keys and values, in file order.
pub fn expected(name: &str) -> Vec<(Vec<u8>, Vec<u8>)> {
    let text = String::from_utf8(fixture(name)).unwrap();
    let mut out = Vec::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        if fields[0] != "P" {
            continue;
        }
        let tag = fields[2].parse::<u64>().unwrap() << 8 | fields[3].parse::<u64>().unwrap();
        let value = unhex(fields.get(4).unwrap_or(&""));
        out.push((
            spanlith_base::keys::internal_key(&unhex(fields[1]), tag),
            value,
        ));
    }
    out
}

/// Range tombstones of an expectation file (start, end, sequence number), in file order.
pub fn expected_tombstones(name: &str) -> Vec<(Vec<u8>, Vec<u8>, u64)> {
    let text = String::from_utf8(fixture(name)).unwrap();
    let rows = text.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split('\t').collect();
        let seqno = || fields[2].parse().unwrap();
        (fields[0] == "R").then(|| (unhex(fields[1]), unhex(fields[4]), seqno()))
    });
    rows.collect()
}

/// A small random number generator; the seed goes into every message.
pub struct Random(pub u64);

impl Random {
    /// Seed from `SEED`, or a fixed one.
    pub fn seeded(default: u64) -> (Self, u64) {
        let seed = std::env::var("SEED")
            .ok()
            .and_then(|s| s.parse().ok())
            .unwrap_or(default);
        println!("SEED={seed}");
        (Self(seed), seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}
