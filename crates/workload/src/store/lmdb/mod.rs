//! LMDB behind the trait [`Store`]: a B+-tree in a map of memory, with copies of pages that are written.
//!
//! A family is a named database. One transaction writes at a time, and every put is a transaction of its own. Without
//! [`StoreOptions::sync`] the environment has `MDB_NOSYNC`: what was committed survives the process, not a power cut. Transactions that read
//! are kept and renewed, as LMDB advises. Keys are 1 to 511 bytes long.

mod env;

use super::plain::{added, files_and_bytes, refuse};
use super::{
    Batch, Change, Counters, Direction, Error, Isolation, Level, Result, Store, StoreOptions,
    Transaction,
};
use env::{Env, Table, Txn};
use std::path::{Path, PathBuf};

const NAME: &str = "lmdb";

/// An open environment.
#[derive(Debug)]
pub struct Lmdb {
    label: String,
    dir: PathBuf,
    env: Env,
    families: Vec<Table>,
}

impl Lmdb {
    /// Opens the environment in `dir`, or makes it.
    ///
    /// # Errors
    /// LMDB's; options that it does not have.
    pub fn open(dir: &Path, options: &StoreOptions) -> Result<Self> {
        refuse(NAME, options, false)?;
        let mut names = vec!["default"];
        names.extend(options.families.iter().map(String::as_str));
        let (env, families) = Env::open(dir, &names, options.sync)?;
        Ok(Self {
            label: format!("{NAME} {}", env::version()),
            dir: dir.to_path_buf(),
            env,
            families,
        })
    }
}

impl Store for Lmdb {
    fn label(&self) -> &str {
        &self.label
    }

    fn dir(&self) -> &Path {
        &self.dir
    }

    fn put(&self, family: usize, key: &[u8], value: &[u8]) -> Result<()> {
        let mut txn = self.env.write()?;
        txn.put(self.families[family], key, value)?;
        txn.commit()
    }

    fn get(&self, family: usize, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        self.env.read()?.get(self.families[family], key, value)
    }

    fn delete(&self, family: usize, key: &[u8]) -> Result<()> {
        let mut txn = self.env.write()?;
        txn.delete(self.families[family], key)?;
        txn.commit()
    }

    fn merge(&self, family: usize, key: &[u8], operand: u64) -> Result<()> {
        let (mut txn, mut value) = (self.env.write()?, Vec::new());
        let table = self.families[family];
        let found = txn.get(table, key, &mut value)?;
        let new = added(found.then_some(value.as_slice()), operand);
        txn.put(table, key, &new)?;
        txn.commit()
    }

    fn write(&self, batch: &Batch) -> Result<()> {
        let mut txn = self.env.write()?;
        for change in batch.iter() {
            match change {
                Change::Put { family, key, value } => txn.put(self.families[family], key, value)?,
                Change::Delete { family, key } => txn.delete(self.families[family], key)?,
            }
        }
        txn.commit()
    }

    fn multi_get(&self, family: usize, keys: &[&[u8]]) -> Result<usize> {
        let (txn, mut value) = (self.env.read()?, Vec::new());
        let mut found = 0;
        for key in keys {
            found += usize::from(txn.get(self.families[family], key, &mut value)?);
        }
        Ok(found)
    }

    fn scan(
        &self,
        family: usize,
        start: &[u8],
        direction: Direction,
        limit: usize,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<usize> {
        let txn = self.env.read()?;
        txn.scan(self.families[family], start, direction, limit, each)
    }

    /// The transaction is alone until it ends, which is more than either isolation asks for.
    fn begin(&self, _: Isolation) -> Result<Box<dyn Transaction + '_>> {
        Ok(Box::new(LmdbTransaction {
            families: &self.families,
            txn: self.env.write()?,
        }))
    }

    fn flush(&self) -> Result<()> {
        self.env.sync()
    }

    fn compact(&self) -> Result<()> {
        Err(Error::unsupported(
            NAME,
            "compaction in place, only copies without free pages",
        ))
    }

    fn wait_idle(&self) -> Result<()> {
        Ok(())
    }

    fn levels(&self) -> Result<Vec<Level>> {
        let (files, bytes) = files_and_bytes(&self.dir).map_err(|e| Error::new(NAME, e))?;
        Ok(vec![Level { files, bytes }])
    }

    fn counters(&self) -> Counters {
        Counters::default()
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.env.sync()
    }
}

/// The transaction that writes.
struct LmdbTransaction<'a> {
    families: &'a [Table],
    txn: Txn<'a>,
}

impl Transaction for LmdbTransaction<'_> {
    fn get(&mut self, family: usize, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        self.txn.get(self.families[family], key, value)
    }

    fn get_for_update(&mut self, family: usize, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        self.txn.get(self.families[family], key, value)
    }

    fn put(&mut self, family: usize, key: &[u8], value: &[u8]) -> Result<()> {
        self.txn.put(self.families[family], key, value)
    }

    fn delete(&mut self, family: usize, key: &[u8]) -> Result<()> {
        self.txn.delete(self.families[family], key)
    }

    fn scan(
        &mut self,
        family: usize,
        start: &[u8],
        direction: Direction,
        limit: usize,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<usize> {
        self.txn
            .scan(self.families[family], start, direction, limit, each)
    }

    fn commit(self: Box<Self>) -> Result<()> {
        self.txn.commit()
    }
}
