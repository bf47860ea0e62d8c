//! Files in memory, and a random number generator, for the tests of this crate.
#![allow(dead_code, reason = "each test binary uses its part")]

use spanlith_base::{Error, Result};
use spanlith_env::{SequentialFile, WritableFile};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// What a [`MemFile`] was told.
#[derive(Debug, Default)]
pub struct State {
    pub bytes: Vec<u8>,
    pub appends: usize,
    pub synced: usize,
    pub fail_at: Option<usize>,
}

/// A file whose contents the test can see.
#[derive(Clone, Debug, Default)]
pub struct MemFile(pub Arc<Mutex<State>>);

impl MemFile {
    pub fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap().bytes.clone()
    }
}

/// The writer's end.
pub struct Sink(pub MemFile, pub PathBuf);

impl Sink {
    pub fn boxed(file: &MemFile) -> Box<dyn WritableFile> {
        Box::new(Self(file.clone(), PathBuf::from("000001.log")))
    }
}

impl WritableFile for Sink {
    fn append(&mut self, data: &[u8]) -> Result<()> {
        let mut s = self.0.0.lock().unwrap();
        s.appends += 1;
        if s.fail_at.is_some_and(|n| s.appends >= n) {
            return Err(Error::io("no space"));
        }
        s.bytes.extend_from_slice(data);
        Ok(())
    }
    fn sync(&mut self) -> Result<()> {
        let mut s = self.0.0.lock().unwrap();
        s.synced = s.bytes.len();
        Ok(())
    }
    fn len(&self) -> u64 {
        self.0.0.lock().unwrap().bytes.len() as u64
    }
    fn close(&mut self) -> Result<()> {
        Ok(())
    }
    fn path(&self) -> &Path {
        &self.1
    }
}

/// Bytes read in pieces of at most `piece` bytes; an error instead of the byte at `fail_at`.
pub struct Source {
    pub bytes: Vec<u8>,
    pub pos: usize,
    pub piece: usize,
    pub fail_at: Option<usize>,
}

impl Source {
    pub fn boxed(bytes: impl Into<Vec<u8>>) -> Box<dyn SequentialFile> {
        Box::new(Self {
            bytes: bytes.into(),
            pos: 0,
            piece: usize::MAX,
            fail_at: None,
        })
    }
}

impl SequentialFile for Source {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        if self.fail_at.is_some_and(|at| self.pos >= at) {
            return Err(Error::io("bad sector"));
        }
        let n = buf.len().min(self.piece).min(self.bytes.len() - self.pos);
        buf[..n].copy_from_slice(&self.bytes[self.pos..self.pos + n]);
        self.pos += n;
        Ok(n)
    }
}

/// SplitMix64.
pub struct Random(u64);

impl Random {
    /// `SEED` of the environment, or `default`; printed, so that a failure can be repeated.
    pub fn new(default: u64) -> Self {
        let seed = std::env::var("SEED")
            .ok()
            .and_then(|s| s.parse().ok())
            .unwrap_or(default);
        println!("SEED={seed}");
        Self(seed)
    }
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    /// In `0..n`.
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }
}
