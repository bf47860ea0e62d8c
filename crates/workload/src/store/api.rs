//! Describes what a store must be able to do to be measured.

use super::Counters;
use std::fmt;
use std::path::{Path, PathBuf};

/// Why a call of a store failed: its own words, after the name of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    text: String,
    conflict: bool,
}

/// Outcome of a call of a store.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error of `store`.
    pub fn new(store: &str, text: impl fmt::Display) -> Self {
        Self {
            text: format!("{store}: {text}"),
            conflict: false,
        }
    }

    /// A call that the store does not have.
    pub fn unsupported(store: &str, call: &str) -> Self {
        Self::new(store, format!("the store has no {call}"))
    }

    /// An error that goes away when the transaction is tried again.
    pub fn conflict(store: &str, text: impl fmt::Display) -> Self {
        Self {
            conflict: true,
            ..Self::new(store, text)
        }
    }

    /// Returns whether another transaction was in the way, so that the same one may be tried again.
    pub fn is_conflict(&self) -> bool {
        self.conflict
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Error {}

/// Direction of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the first key at or after the start.
    Forward,
    /// From the last key at or before the start.
    Backward,
}

/// Describes what a transaction sees of others that commit meanwhile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// Each read sees what is committed by then.
    #[default]
    ReadCommitted,
    /// All reads see what was committed when the transaction began; a write of a key that was written since is a conflict.
    RepeatableRead,
}

/// One update of a [`Batch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// A new value of a key.
    Put {
        /// Number of the family.
        family: usize,
        /// The key.
        key: &'a [u8],
        /// Its value.
        value: &'a [u8],
    },
    /// The end of a key.
    Delete {
        /// Number of the family.
        family: usize,
        /// The key.
        key: &'a [u8],
    },
}

/// Updates that become visible together.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    bytes: Vec<u8>,
    /// Family, length of the key, length of the value if there is one.
    changes: Vec<(usize, usize, Option<usize>)>,
}

impl Batch {
    /// Adds a new value of a key.
    pub fn put(&mut self, family: usize, key: &[u8], value: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        self.changes.push((family, key.len(), Some(value.len())));
    }

    /// Adds the end of a key.
    pub fn delete(&mut self, family: usize, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.changes.push((family, key.len(), None));
    }

    /// Forgets all updates and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.changes.clear();
    }

    /// Number of updates.
    pub fn len(&self) -> usize {
        self.changes.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Bytes of keys and values.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The updates, in order.
    pub fn iter(&self) -> impl Iterator<Item = Change<'_>> {
        let mut rest = self.bytes.as_slice();
        self.changes
            .iter()
            .map(move |&(family, key_len, value_len)| {
                let (key, behind) = rest.split_at(key_len);
                match value_len {
                    None => {
                        rest = behind;
                        Change::Delete { family, key }
                    }
                    Some(len) => {
                        let (value, behind) = behind.split_at(len);
                        rest = behind;
                        Change::Put { family, key, value }
                    }
                }
            })
    }
}

/// Files into which a store records what it is asked and does, from its opening to its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceFiles {
    /// For requests; of all stores that have traces.
    pub requests: Option<PathBuf>,
    /// For blocks that are looked up in the cache; this engine's only.
    pub blocks: Option<PathBuf>,
    /// For calls of the file system; this engine's only.
    pub calls: Option<PathBuf>,
}

/// How a store is opened. Families are numbered: 0 is the default one, the others follow in order.
#[derive(Clone, Debug, Default)]
pub struct StoreOptions {
    /// RocksDB's options by name, `name=value;name=value`; those of tables by their bare names, too. Stores that
    /// are no log-structured trees refuse them.
    pub options: String,
    /// Options that only this engine has, in the same form. Other stores refuse them.
    pub own: String,
    /// Bytes of the cache of blocks or pages; the store's own default if left out.
    pub cache_bytes: Option<u64>,
    /// Names of the families beside the default one. They are made if they are missing.
    pub families: Vec<String>,
    /// Every write survives a power cut when it returns.
    pub sync: bool,
    /// [`Store::begin`] will be called.
    pub transactions: bool,
    /// Writes are not logged. Stores that cannot do without refuse it.
    pub disable_wal: bool,
    /// Files that take a record of it.
    pub traces: TraceFiles,
}

/// Files and bytes of one level; a store without levels has one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Level {
    /// Number of files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Reads and writes that become visible together or not at all. Dropping it takes it back.
///
/// A call that fails with [`Error::is_conflict`] leaves only the drop; then all may be tried again.
pub trait Transaction {
    /// Copies the value that the transaction sees.
    ///
    /// # Errors
    /// The store's.
    fn get(&mut self, family: usize, key: &[u8], value: &mut Vec<u8>) -> Result<bool>;

    /// The same, and nobody else changes the key until the transaction ends.
    ///
    /// # Errors
    /// The store's; a conflict.
    fn get_for_update(&mut self, family: usize, key: &[u8], value: &mut Vec<u8>) -> Result<bool>;

    /// Puts a value.
    ///
    /// # Errors
    /// The store's; a conflict.
    fn put(&mut self, family: usize, key: &[u8], value: &[u8]) -> Result<()>;

    /// Deletes a key.
    ///
    /// # Errors
    /// The store's; a conflict.
    fn delete(&mut self, family: usize, key: &[u8]) -> Result<()>;

    /// Shows at most `limit` entries that the transaction sees, from a start on, until `each` returns false.
    ///
    /// # Errors
    /// The store's.
    fn scan(
        &mut self,
        family: usize,
        start: &[u8],
        direction: Direction,
        limit: usize,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<usize>;

    /// Makes everything visible.
    ///
    /// # Errors
    /// The store's; a conflict. Nothing is visible then.
    fn commit(self: Box<Self>) -> Result<()>;
}

/// An open store. Calls may come from any thread at the same time.
pub trait Store: Send + Sync {
    /// Name and version, as reports show it: `spanlith 0.1.0`.
    fn label(&self) -> &str;

    /// Directory of its files.
    fn dir(&self) -> &Path;

    /// Puts a value.
    ///
    /// # Errors
    /// The store's.
    fn put(&self, family: usize, key: &[u8], value: &[u8]) -> Result<()>;

    /// Copies the value of a key into `value`, which is emptied before; false if there is none.
    ///
    /// # Errors
    /// The store's.
    fn get(&self, family: usize, key: &[u8], value: &mut Vec<u8>) -> Result<bool>;

    /// Deletes a key.
    ///
    /// # Errors
    /// The store's.
    fn delete(&self, family: usize, key: &[u8]) -> Result<()>;

    /// Deletes a key that was put at most once since it was last deleted. Stores that know no such thing delete it.
    ///
    /// # Errors
    /// The store's.
    fn single_delete(&self, family: usize, key: &[u8]) -> Result<()> {
        self.delete(family, key)
    }

    /// Adds an operand of eight bytes, little-endian, to a counter. Stores without merge operators read and write.
    ///
    /// # Errors
    /// The store's.
    fn merge(&self, family: usize, key: &[u8], operand: u64) -> Result<()>;

    /// Makes all updates of a batch visible together.
    ///
    /// # Errors
    /// The store's; nothing is visible then.
    fn write(&self, batch: &Batch) -> Result<()>;

    /// Number of the keys that were found. The keys may be asked for together.
    ///
    /// # Errors
    /// The first of the store's.
    fn multi_get(&self, family: usize, keys: &[&[u8]]) -> Result<usize> {
        let mut value = Vec::new();
        let mut found = 0;
        for key in keys {
            found += usize::from(self.get(family, key, &mut value)?);
        }
        Ok(found)
    }

    /// Shows at most `limit` entries from a start on, until `each` returns false; returns how many.
    ///
    /// # Errors
    /// The store's.
    fn scan(
        &self,
        family: usize,
        start: &[u8],
        direction: Direction,
        limit: usize,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<usize>;

    /// Begins a transaction that is isolated at least so much. The store was opened with
    /// [`StoreOptions::transactions`].
    ///
    /// # Errors
    /// The store's.
    fn begin(&self, isolation: Isolation) -> Result<Box<dyn Transaction + '_>>;

    /// Writes to files what is in memory.
    ///
    /// # Errors
    /// The store's.
    fn flush(&self) -> Result<()>;

    /// Rewrites everything, so that only the newest values are left.
    ///
    /// # Errors
    /// The store's.
    fn compact(&self) -> Result<()>;

    /// Waits until nothing is flushed or compacted any more.
    ///
    /// # Errors
    /// The store's.
    fn wait_idle(&self) -> Result<()>;

    /// Files and bytes by level, of all families. Logs and memory do not count.
    ///
    /// # Errors
    /// The store's.
    fn levels(&self) -> Result<Vec<Level>>;

    /// Returns what the store counted since it was opened.
    fn counters(&self) -> Counters;

    /// Begins to record all requests in a trace of RocksDB's format.
    ///
    /// # Errors
    /// The store's; if it has no traces.
    fn start_trace(&self, _file: &Path) -> Result<()> {
        Err(Error::unsupported(self.label(), "traces"))
    }

    /// Ends the trace: everything is in the file.
    ///
    /// # Errors
    /// The store's; if it has no traces.
    fn end_trace(&self) -> Result<()> {
        Err(Error::unsupported(self.label(), "traces"))
    }

    /// Ends all work and closes the files.
    ///
    /// # Errors
    /// The store's.
    fn close(self: Box<Self>) -> Result<()>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_gives_back_what_was_added() {
        let mut batch = Batch::default();
        batch.put(0, b"a", b"1");
        batch.delete(2, b"bb");
        batch.put(1, b"", b"");
        let seen: Vec<Change<'_>> = batch.iter().collect();
        let put = |family, key, value| Change::Put { family, key, value };
        assert_eq!(
            seen,
            [
                put(0, &b"a"[..], &b"1"[..]),
                Change::Delete {
                    family: 2,
                    key: b"bb"
                },
                put(1, &b""[..], &b""[..])
            ]
        );
        assert_eq!((batch.len(), batch.bytes()), (3, 4));
        batch.clear();
        assert!(batch.is_empty() && batch.iter().next().is_none());
    }
}
