//! A store without a log and without compaction, to compare with: slabs of equal slots, and an index in memory.
//!
//! It is a model of KVell, to which [SPAN] compares (R-SPAN-54). Every key has one slot in the file of its size class;
//! a new value of the same class is written in place, by one write of at most a page, and costs no other I/O. The
//! index of all keys lies in memory and is rebuilt by reading all slots. A value whose class changes gets a new slot
//! with a larger sequence number before its old one is emptied, so that a kill in between leaves two, of which the newer one counts.
//!
//! A batch is visible as a whole, but a kill may leave a part of it, and a power cut may tear a page: whoever
//! compares must know that this store promises less. It has no transactions.

mod file;
mod index;

use super::plain::{files_and_bytes, refuse};
use super::{
    Batch, Change, Counters, Direction, Error, Level, Result, Store, StoreOptions, Transaction,
};
use file::Slabs;
use index::Index;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

pub(super) const NAME: &str = "slab";

fn failed(e: impl std::fmt::Display) -> Error {
    Error::new(NAME, e)
}

/// Files and index: a change of one is a change of the other.
#[derive(Debug)]
struct Data {
    slabs: Slabs,
    index: Index,
}

/// An open store.
#[derive(Debug)]
pub struct Slab {
    dir: PathBuf,
    data: RwLock<Data>,
    sync: bool,
}

impl Slab {
    /// Opens the store in `dir`, or makes it. Reads every slot.
    ///
    /// # Errors
    /// Of the files; options that the store does not have.
    pub fn open(dir: &Path, options: &StoreOptions) -> Result<Self> {
        refuse(NAME, options, false)?;
        if options.transactions {
            return Err(Error::unsupported(NAME, "transactions"));
        }
        let families = options.families.len() + 1;
        let mut index = Index::new(families);
        let slabs = Slabs::open(dir, |entry, place| index.found(entry, place)).map_err(failed)?;
        if let Some(family) = index.unknown() {
            let text = format!(
                "{} holds family {family}, which was not named",
                dir.display()
            );
            return Err(failed(text));
        }
        let mut data = Data { slabs, index };
        for place in data.index.take_stale() {
            data.slabs.clear(place).map_err(failed)?;
        }
        Ok(Self {
            dir: dir.to_path_buf(),
            data: RwLock::new(data),
            sync: options.sync,
        })
    }

    fn read(&self) -> RwLockReadGuard<'_, Data> {
        self.data.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self) -> RwLockWriteGuard<'_, Data> {
        self.data.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes what was written last through a power cut, if every write has to.
    fn synced(&self) -> Result<()> {
        match self.sync {
            true => self.read().slabs.sync().map_err(failed),
            false => Ok(()),
        }
    }
}

impl Data {
    fn put(&mut self, family: usize, key: &[u8], value: &[u8]) -> std::io::Result<()> {
        let old = self.index.get(family, key);
        let place = self.slabs.put(family, key, value, old)?;
        self.index.set(family, key, place);
        if let Some(old) = old.filter(|old| *old != place) {
            self.slabs.clear(old)?;
        }
        Ok(())
    }

    fn delete(&mut self, family: usize, key: &[u8]) -> std::io::Result<()> {
        match self.index.remove(family, key) {
            Some(place) => self.slabs.clear(place),
            None => Ok(()),
        }
    }

    fn get(&self, family: usize, key: &[u8], value: &mut Vec<u8>) -> std::io::Result<bool> {
        value.clear();
        match self.index.get(family, key) {
            Some(place) => self.slabs.value(place, key, value).map(|()| true),
            None => Ok(false),
        }
    }
}

impl Store for Slab {
    fn label(&self) -> &str {
        NAME
    }

    fn dir(&self) -> &Path {
        &self.dir
    }

    fn put(&self, family: usize, key: &[u8], value: &[u8]) -> Result<()> {
        self.change().put(family, key, value).map_err(failed)?;
        self.synced()
    }

    fn get(&self, family: usize, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        self.read().get(family, key, value).map_err(failed)
    }

    fn delete(&self, family: usize, key: &[u8]) -> Result<()> {
        self.change().delete(family, key).map_err(failed)?;
        self.synced()
    }

    fn merge(&self, family: usize, key: &[u8], operand: u64) -> Result<()> {
        let mut value = Vec::new();
        let mut data = self.change();
        data.get(family, key, &mut value).map_err(failed)?;
        let old = value.as_slice().try_into().map_or(0, u64::from_le_bytes);
        let new = old.wrapping_add(operand).to_le_bytes();
        data.put(family, key, &new).map_err(failed)?;
        drop(data);
        self.synced()
    }

    /// Changes are visible together, but are not undone if one fails.
    fn write(&self, batch: &Batch) -> Result<()> {
        let mut data = self.change();
        for change in batch.iter() {
            match change {
                Change::Put { family, key, value } => data.put(family, key, value),
                Change::Delete { family, key } => data.delete(family, key),
            }
            .map_err(failed)?;
        }
        drop(data);
        self.synced()
    }

    fn scan(
        &self,
        family: usize,
        start: &[u8],
        direction: Direction,
        limit: usize,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<usize> {
        let data = self.read();
        let (mut seen, mut value) = (0, Vec::new());
        for (key, place) in data.index.from(family, start, direction).take(limit) {
            value.clear();
            data.slabs.value(place, key, &mut value).map_err(failed)?;
            seen += 1;
            if !each(key, &value) {
                break;
            }
        }
        Ok(seen)
    }

    fn begin(&self, _: super::Isolation) -> Result<Box<dyn Transaction + '_>> {
        Err(Error::unsupported(NAME, "transactions"))
    }

    fn flush(&self) -> Result<()> {
        self.read().slabs.sync().map_err(failed)
    }

    fn compact(&self) -> Result<()> {
        Err(Error::unsupported(
            NAME,
            "compaction: slots are written in place",
        ))
    }

    fn wait_idle(&self) -> Result<()> {
        Ok(())
    }

    fn levels(&self) -> Result<Vec<Level>> {
        let (files, bytes) = files_and_bytes(&self.dir).map_err(failed)?;
        Ok(vec![Level { files, bytes }])
    }

    fn counters(&self) -> Counters {
        Counters::default()
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.flush()
    }
}

#[cfg(test)]
mod tests;
