//! fjall behind the trait [`Store`]: a log-structured tree in Rust.
//!
//! A family is a partition with fjall's own defaults. Without [`StoreOptions::sync`] a write reaches the system
//! before it returns, as RocksDB's does. Transactions are those of `single_writer_tx`: one writes at a time.

use super::plain::{added, files_and_bytes, refuse};
use super::{
    Batch, Change, Counters, Direction, Error, Isolation, Level, Result, Store, StoreOptions,
    Transaction,
};
use fjall::{
    Config, PartitionCreateOptions, PersistMode, TxKeyspace, TxPartitionHandle, WriteTransaction,
};
use std::path::{Path, PathBuf};
use std::time::Duration;

const NAME: &str = "fjall";

fn failed(e: impl std::fmt::Display) -> Error {
    Error::new(NAME, e)
}

/// An open keyspace.
pub struct Fjall {
    dir: PathBuf,
    keyspace: TxKeyspace,
    families: Vec<TxPartitionHandle>,
    sync: bool,
    transactions: bool,
}

type Pair = (fjall::Slice, fjall::Slice);

/// Shows entries of an iterator.
fn walk(
    entries: impl Iterator<Item = fjall::Result<Pair>>,
    limit: usize,
    each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
) -> Result<usize> {
    let mut seen = 0;
    for entry in entries.take(limit) {
        let (key, value) = entry.map_err(failed)?;
        seen += 1;
        if !each(&key, &value) {
            break;
        }
    }
    Ok(seen)
}

fn copied(found: Option<fjall::Slice>, value: &mut Vec<u8>) -> bool {
    value.clear();
    found.is_some_and(|found| {
        value.extend_from_slice(&found);
        true
    })
}

impl Fjall {
    /// Opens the keyspace in `dir`, or makes it.
    ///
    /// # Errors
    /// fjall's; options that it does not have.
    pub fn open(dir: &Path, options: &StoreOptions) -> Result<Self> {
        refuse(NAME, options, true)?;
        let mut config = Config::new(dir);
        if let Some(bytes) = options.cache_bytes {
            config = config.cache_size(bytes);
        }
        let keyspace = config.open_transactional().map_err(failed)?;
        let names = options.families.iter().map(String::as_str);
        let families = std::iter::once("default").chain(names).map(|name| {
            let made = PartitionCreateOptions::default();
            keyspace.open_partition(name, made).map_err(failed)
        });
        let families = families.collect::<Result<Vec<_>>>()?;
        Ok(Self {
            dir: dir.to_path_buf(),
            keyspace,
            families,
            sync: options.sync,
            transactions: options.transactions,
        })
    }

    fn persisted(&self) -> Result<()> {
        match self.sync {
            true => self.keyspace.persist(PersistMode::SyncData).map_err(failed),
            false => Ok(()),
        }
    }

    fn start(&self) -> FjallTransaction<'_> {
        let txn = self.keyspace.write_tx();
        FjallTransaction {
            families: &self.families,
            txn: match self.sync {
                true => txn.durability(Some(PersistMode::SyncData)),
                false => txn,
            },
        }
    }
}

impl Store for Fjall {
    fn label(&self) -> &str {
        NAME
    }

    fn dir(&self) -> &Path {
        &self.dir
    }

    fn put(&self, family: usize, key: &[u8], value: &[u8]) -> Result<()> {
        let family = &self.families[family];
        // Beside transactions a write waits for the one that is open; without them it need not.
        match self.transactions {
            true => family.insert(key, value),
            false => family.inner().insert(key, value),
        }
        .map_err(failed)?;
        self.persisted()
    }

    fn get(&self, family: usize, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let found = self.families[family].inner().get(key).map_err(failed)?;
        Ok(copied(found, value))
    }

    fn delete(&self, family: usize, key: &[u8]) -> Result<()> {
        let family = &self.families[family];
        match self.transactions {
            true => family.remove(key),
            false => family.inner().remove(key),
        }
        .map_err(failed)?;
        self.persisted()
    }

    fn merge(&self, family: usize, key: &[u8], operand: u64) -> Result<()> {
        let (mut txn, mut value) = (self.start(), Vec::new());
        let found = txn.get(family, key, &mut value)?;
        let new = added(found.then_some(value.as_slice()), operand);
        txn.put(family, key, &new)?;
        Box::new(txn).commit()
    }

    fn write(&self, batch: &Batch) -> Result<()> {
        if self.transactions {
            let mut txn = self.start();
            for change in batch.iter() {
                match change {
                    Change::Put { family, key, value } => txn.put(family, key, value)?,
                    Change::Delete { family, key } => txn.delete(family, key)?,
                }
            }
            return Box::new(txn).commit();
        }
        let mut out = self.keyspace.inner().batch();
        for change in batch.iter() {
            match change {
                Change::Put { family, key, value } => {
                    out.insert(self.families[family].inner(), key, value);
                }
                Change::Delete { family, key } => out.remove(self.families[family].inner(), key),
            }
        }
        out.commit().map_err(failed)?;
        self.persisted()
    }

    fn scan(
        &self,
        family: usize,
        start: &[u8],
        direction: Direction,
        limit: usize,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<usize> {
        let family = self.families[family].inner();
        match direction {
            Direction::Forward => walk(family.range(start..), limit, each),
            Direction::Backward => walk(family.range(..=start).rev(), limit, each),
        }
    }

    /// The transaction is the only one that writes until it ends, which is more than either isolation asks for.
    fn begin(&self, _: Isolation) -> Result<Box<dyn Transaction + '_>> {
        Ok(Box::new(self.start()))
    }

    fn flush(&self) -> Result<()> {
        for family in &self.families {
            family.inner().rotate_memtable_and_wait().map_err(failed)?;
        }
        self.keyspace.persist(PersistMode::SyncAll).map_err(failed)
    }

    fn compact(&self) -> Result<()> {
        for family in &self.families {
            family.inner().major_compact().map_err(failed)?;
        }
        Ok(())
    }

    fn wait_idle(&self) -> Result<()> {
        // A job that is due may not have begun: quiet counts when it lasts for a while.
        let mut quiet = 0;
        while quiet < 10 {
            let is_busy = self.keyspace.inner().active_compactions() > 0;
            quiet = if is_busy { 0 } else { quiet + 1 };
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    fn levels(&self) -> Result<Vec<Level>> {
        let (files, all) = files_and_bytes(&self.dir).map_err(failed)?;
        let journals = files_and_bytes(&self.dir.join("journals")).map_err(failed)?;
        Ok(vec![Level {
            files: files.saturating_sub(journals.0),
            bytes: all.saturating_sub(journals.1),
        }])
    }

    fn counters(&self) -> Counters {
        Counters::default()
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.keyspace.persist(PersistMode::SyncAll).map_err(failed)
    }
}

/// The transaction that writes.
struct FjallTransaction<'a> {
    families: &'a [TxPartitionHandle],
    txn: WriteTransaction<'a>,
}

impl Transaction for FjallTransaction<'_> {
    fn get(&mut self, family: usize, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let found = self.txn.get(&self.families[family], key);
        Ok(copied(found.map_err(failed)?, value))
    }

    fn get_for_update(&mut self, family: usize, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        self.get(family, key, value)
    }

    fn put(&mut self, family: usize, key: &[u8], value: &[u8]) -> Result<()> {
        self.txn.insert(&self.families[family], key, value);
        Ok(())
    }

    fn delete(&mut self, family: usize, key: &[u8]) -> Result<()> {
        self.txn.remove(&self.families[family], key);
        Ok(())
    }

    fn scan(
        &mut self,
        family: usize,
        start: &[u8],
        direction: Direction,
        limit: usize,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<usize> {
        let family = &self.families[family];
        match direction {
            Direction::Forward => walk(self.txn.range(family, start..), limit, each),
            Direction::Backward => walk(self.txn.range(family, ..=start).rev(), limit, each),
        }
    }

    fn commit(self: Box<Self>) -> Result<()> {
        self.txn.commit().map_err(failed)
    }
}
