//! redb behind the trait [`Store`]: a B+-tree that copies pages, in Rust.
//!
//! A family is a table. One transaction writes at a time, and every put is a transaction of its own. Without
//! [`StoreOptions::sync`] commits have `Durability::Eventual`. redb opens a table by its name in each transaction,
//! which is part of what its calls cost here.

use super::plain::{added, files_and_bytes, refuse};
use super::{
    Batch, Change, Counters, Direction, Error, Isolation, Level, Result, Store, StoreOptions,
    Transaction,
};
use redb::{Database, Durability, ReadableTable, TableDefinition, WriteTransaction};
use std::path::{Path, PathBuf};

const NAME: &str = "redb";

fn failed(e: impl std::fmt::Display) -> Error {
    Error::new(NAME, e)
}

/// An open database.
#[derive(Debug)]
pub struct Redb {
    dir: PathBuf,
    db: Database,
    families: Vec<String>,
    durability: Durability,
}

/// The table of a family.
fn definition(name: &str) -> TableDefinition<'_, &'static [u8], &'static [u8]> {
    TableDefinition::new(name)
}

fn copied(found: Option<redb::AccessGuard<'_, &'static [u8]>>, value: &mut Vec<u8>) -> bool {
    value.clear();
    found.is_some_and(|found| {
        value.extend_from_slice(found.value());
        true
    })
}

/// Shows entries of a table.
fn walk(
    table: &impl ReadableTable<&'static [u8], &'static [u8]>,
    start: &[u8],
    direction: Direction,
    limit: usize,
    each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
) -> Result<usize> {
    let mut seen = 0;
    let mut show =
        |entry: std::result::Result<(redb::AccessGuard<'_, _>, redb::AccessGuard<'_, _>), _>| {
            let (key, value): (
                redb::AccessGuard<'_, &'static [u8]>,
                redb::AccessGuard<'_, &'static [u8]>,
            ) = entry.map_err(|e: redb::StorageError| failed(e))?;
            seen += 1;
            Ok::<bool, Error>(each(key.value(), value.value()))
        };
    match direction {
        Direction::Forward => {
            for entry in table.range(start..).map_err(failed)?.take(limit) {
                if !show(entry)? {
                    break;
                }
            }
        }
        Direction::Backward => {
            for entry in table.range(..=start).map_err(failed)?.rev().take(limit) {
                if !show(entry)? {
                    break;
                }
            }
        }
    }
    Ok(seen)
}

impl Redb {
    /// Opens the database in `dir`, or makes it.
    ///
    /// # Errors
    /// redb's; options that it does not have.
    pub fn open(dir: &Path, options: &StoreOptions) -> Result<Self> {
        refuse(NAME, options, true)?;
        let mut families = vec!["default".to_string()];
        families.extend(options.families.iter().cloned());
        let mut builder = Database::builder();
        if let Some(bytes) = options.cache_bytes {
            builder.set_cache_size(usize::try_from(bytes).unwrap_or(usize::MAX));
        }
        let db = builder.create(dir.join("data.redb")).map_err(failed)?;
        let txn = db.begin_write().map_err(failed)?;
        for name in &families {
            txn.open_table(definition(name)).map_err(failed)?;
        }
        txn.commit().map_err(failed)?;
        Ok(Self {
            dir: dir.to_path_buf(),
            db,
            families,
            durability: match options.sync {
                true => Durability::Immediate,
                false => Durability::Eventual,
            },
        })
    }

    fn start(&self) -> Result<RedbTransaction<'_>> {
        let mut txn = self.db.begin_write().map_err(failed)?;
        txn.set_durability(self.durability);
        Ok(RedbTransaction {
            families: &self.families,
            txn,
        })
    }
}

impl Store for Redb {
    fn label(&self) -> &str {
        NAME
    }

    fn dir(&self) -> &Path {
        &self.dir
    }

    fn put(&self, family: usize, key: &[u8], value: &[u8]) -> Result<()> {
        let mut txn = self.start()?;
        txn.put(family, key, value)?;
        Box::new(txn).commit()
    }

    fn get(&self, family: usize, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let txn = self.db.begin_read().map_err(failed)?;
        let table = txn.open_table(definition(&self.families[family]));
        let found = table.map_err(failed)?.get(key).map_err(failed)?;
        Ok(copied(found, value))
    }

    fn delete(&self, family: usize, key: &[u8]) -> Result<()> {
        let mut txn = self.start()?;
        txn.delete(family, key)?;
        Box::new(txn).commit()
    }

    fn merge(&self, family: usize, key: &[u8], operand: u64) -> Result<()> {
        let (mut txn, mut value) = (self.start()?, Vec::new());
        let found = txn.get(family, key, &mut value)?;
        let new = added(found.then_some(value.as_slice()), operand);
        txn.put(family, key, &new)?;
        Box::new(txn).commit()
    }

    fn write(&self, batch: &Batch) -> Result<()> {
        let txn = self.start()?;
        // Tables stay open as long as the changes are of one family.
        let mut open = None;
        for change in batch.iter() {
            let (Change::Put { family, .. } | Change::Delete { family, .. }) = change;
            if open.as_ref().is_none_or(|(f, _)| *f != family) {
                drop(open.take());
                let table = txn.txn.open_table(definition(&self.families[family]));
                open = Some((family, table.map_err(failed)?));
            }
            if let Some((_, table)) = &mut open {
                match change {
                    Change::Put { key, value, .. } => table.insert(key, value),
                    Change::Delete { key, .. } => table.remove(key),
                }
                .map_err(failed)?;
            }
        }
        drop(open);
        Box::new(txn).commit()
    }

    fn multi_get(&self, family: usize, keys: &[&[u8]]) -> Result<usize> {
        let txn = self.db.begin_read().map_err(failed)?;
        let table = txn.open_table(definition(&self.families[family]));
        let (table, mut value) = (table.map_err(failed)?, Vec::new());
        let mut found = 0;
        for key in keys {
            found += usize::from(copied(table.get(*key).map_err(failed)?, &mut value));
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
        let txn = self.db.begin_read().map_err(failed)?;
        let table = txn.open_table(definition(&self.families[family]));
        walk(&table.map_err(failed)?, start, direction, limit, each)
    }

    /// The transaction is alone until it ends, which is more than either isolation asks for.
    fn begin(&self, _: Isolation) -> Result<Box<dyn Transaction + '_>> {
        Ok(Box::new(self.start()?))
    }

    fn flush(&self) -> Result<()> {
        let mut txn = self.db.begin_write().map_err(failed)?;
        txn.set_durability(Durability::Immediate);
        txn.commit().map_err(failed)
    }

    fn compact(&self) -> Result<()> {
        Err(Error::unsupported(
            NAME,
            "compaction while others use the database",
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

/// The transaction that writes.
struct RedbTransaction<'a> {
    families: &'a [String],
    txn: WriteTransaction,
}

impl RedbTransaction<'_> {
    fn table(&self, family: usize) -> Result<redb::Table<'_, &'static [u8], &'static [u8]>> {
        let table = self.txn.open_table(definition(&self.families[family]));
        table.map_err(failed)
    }
}

impl Transaction for RedbTransaction<'_> {
    fn get(&mut self, family: usize, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let table = self.table(family)?;
        let found = table.get(key).map_err(failed)?;
        Ok(copied(found, value))
    }

    fn get_for_update(&mut self, family: usize, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        self.get(family, key, value)
    }

    fn put(&mut self, family: usize, key: &[u8], value: &[u8]) -> Result<()> {
        let mut table = self.table(family)?;
        table.insert(key, value).map(drop).map_err(failed)
    }

    fn delete(&mut self, family: usize, key: &[u8]) -> Result<()> {
        let mut table = self.table(family)?;
        table.remove(key).map(drop).map_err(failed)
    }

    fn scan(
        &mut self,
        family: usize,
        start: &[u8],
        direction: Direction,
        limit: usize,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<usize> {
        walk(&self.table(family)?, start, direction, limit, each)
    }

    fn commit(self: Box<Self>) -> Result<()> {
        self.txn.commit().map_err(failed)
    }
}
