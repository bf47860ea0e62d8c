//! LMDB's C functions behind types that cannot be used wrongly: an environment, its databases, and transactions.
//!
//! A value that LMDB returns lies in its map and is valid until the transaction ends or writes, so that it is shown to
//! a closure or copied, never handed out. An environment is opened once in a process, which LMDB requires.
#![allow(unsafe_code)]

use super::NAME;
use crate::store::{Direction, Error, Result};
use libc::{c_int, c_uint};
use lmdb_master_sys as sys;
use std::ffi::{CStr, CString};
use std::path::Path;
use std::ptr::null_mut;
use std::sync::{Mutex, PoisonError};

/// Address space of the map, of which pages are used as the file grows.
const MAP_BYTES: usize = 1 << 38;
/// Transactions that read at the same time.
const READERS_MAX: c_uint = 1024;

/// An error of LMDB, with the call that failed.
fn failed(call: &str, code: c_int) -> Error {
    // SAFETY: the function takes any number and returns a text that ends with a zero byte and is not freed.
    let text = unsafe { CStr::from_ptr(sys::mdb_strerror(code)) };
    Error::new(NAME, format!("{call}: {}", text.to_string_lossy()))
}

fn checked(call: &str, code: c_int) -> Result<()> {
    match code {
        0 => Ok(()),
        code => Err(failed(call, code)),
    }
}

/// The bytes of a slice as LMDB takes them. LMDB does not write through the pointer.
fn val(bytes: &[u8]) -> sys::MDB_val {
    sys::MDB_val {
        mv_size: bytes.len(),
        mv_data: bytes.as_ptr().cast_mut().cast(),
    }
}

const fn nothing() -> sys::MDB_val {
    sys::MDB_val {
        mv_size: 0,
        mv_data: null_mut(),
    }
}

/// The bytes that LMDB returned.
///
/// # Safety
/// `val` was filled by a call of a transaction that neither ended nor wrote since.
unsafe fn bytes<'a>(val: &sys::MDB_val) -> &'a [u8] {
    match val.mv_size {
        0 => &[],
        // SAFETY: LMDB points to as many bytes, which stay until the transaction ends or writes.
        len => unsafe { std::slice::from_raw_parts(val.mv_data.cast(), len) },
    }
}

/// Version of the library.
pub(super) fn version() -> String {
    let (mut major, mut minor, mut patch) = (0, 0, 0);
    // SAFETY: the three numbers outlive the call.
    unsafe { sys::mdb_version(&raw mut major, &raw mut minor, &raw mut patch) };
    format!("{major}.{minor}.{patch}")
}

/// A database in the environment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Table(sys::MDB_dbi);

/// A read transaction that was reset and waits for its next use.
#[derive(Debug)]
struct Idle(*mut sys::MDB_txn);

// SAFETY: the environment has MDB_NOTLS, with which a read transaction belongs to whoever uses it, not to a thread.
unsafe impl Send for Idle {}

/// An open environment.
#[derive(Debug)]
pub(super) struct Env {
    env: *mut sys::MDB_env,
    idle: Mutex<Vec<Idle>>,
}

// SAFETY: LMDB's environments may be used by any thread; transactions are kept apart by the types here.
unsafe impl Send for Env {}
// SAFETY: as above.
unsafe impl Sync for Env {}

impl Env {
    /// Opens the environment in a directory, or makes it, with tables by their names.
    pub(super) fn open(dir: &Path, names: &[&str], sync: bool) -> Result<(Self, Vec<Table>)> {
        let path = CString::new(dir.as_os_str().as_encoded_bytes())
            .map_err(|_| Error::new(NAME, "a path holds a zero byte"))?;
        let mut env = null_mut();
        // SAFETY: the pointer outlives the call.
        checked("mdb_env_create", unsafe {
            sys::mdb_env_create(&raw mut env)
        })?;
        // From here on the environment is closed when the value is dropped.
        let out = Self {
            env,
            idle: Mutex::new(Vec::new()),
        };
        let flags = sys::MDB_NOTLS | if sync { 0 } else { sys::MDB_NOSYNC };
        // SAFETY: the environment is made and not open; the path ends with a zero byte and outlives the call.
        unsafe {
            checked(
                "mdb_env_set_mapsize",
                sys::mdb_env_set_mapsize(env, MAP_BYTES),
            )?;
            checked(
                "mdb_env_set_maxreaders",
                sys::mdb_env_set_maxreaders(env, READERS_MAX),
            )?;
            let count = names.len() as sys::MDB_dbi;
            checked("mdb_env_set_maxdbs", sys::mdb_env_set_maxdbs(env, count))?;
            checked(
                "mdb_env_open",
                sys::mdb_env_open(env, path.as_ptr(), flags, 0o644),
            )?;
        }
        let txn = out.write()?;
        let tables = names.iter().map(|name| txn.table(name));
        let tables = tables.collect::<Result<Vec<_>>>()?;
        txn.commit()?;
        Ok((out, tables))
    }

    fn begin(&self, flags: c_uint) -> Result<*mut sys::MDB_txn> {
        let mut txn = null_mut();
        // SAFETY: the environment is open; the pointer outlives the call.
        let code = unsafe { sys::mdb_txn_begin(self.env, null_mut(), flags, &raw mut txn) };
        checked("mdb_txn_begin", code).map(|()| txn)
    }

    /// Begins the one transaction that may write; waits for the one before.
    pub(super) fn write(&self) -> Result<Txn<'_>> {
        Ok(Txn {
            env: self,
            txn: self.begin(0)?,
            reads: false,
        })
    }

    /// Begins a transaction that reads.
    pub(super) fn read(&self) -> Result<Txn<'_>> {
        let idle = self
            .idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        let txn = match idle {
            None => self.begin(sys::MDB_RDONLY)?,
            Some(Idle(txn)) => {
                // SAFETY: the transaction was reset, and nobody else has it.
                let code = unsafe { sys::mdb_txn_renew(txn) };
                if code != 0 {
                    // SAFETY: as above; it is not used any more.
                    unsafe { sys::mdb_txn_abort(txn) };
                    return Err(failed("mdb_txn_renew", code));
                }
                txn
            }
        };
        Ok(Txn {
            env: self,
            txn,
            reads: true,
        })
    }

    /// Makes everything that was committed last through a power cut.
    pub(super) fn sync(&self) -> Result<()> {
        // SAFETY: the environment is open.
        checked("mdb_env_sync", unsafe { sys::mdb_env_sync(self.env, 1) })
    }
}

impl Drop for Env {
    fn drop(&mut self) {
        let idle = self.idle.get_mut().unwrap_or_else(PoisonError::into_inner);
        for Idle(txn) in idle.drain(..) {
            // SAFETY: the transaction is not used any more.
            unsafe { sys::mdb_txn_abort(txn) };
        }
        // SAFETY: all transactions borrow the environment, so that none is left.
        unsafe { sys::mdb_env_close(self.env) };
    }
}

/// A transaction. Dropping it takes back what it wrote.
#[derive(Debug)]
pub(super) struct Txn<'a> {
    env: &'a Env,
    txn: *mut sys::MDB_txn,
    reads: bool,
}

impl Txn<'_> {
    fn table(&self, name: &str) -> Result<Table> {
        let name = CString::new(name).map_err(|_| Error::new(NAME, "a name holds a zero byte"))?;
        let mut dbi = 0;
        // SAFETY: the transaction is open; name and number outlive the call.
        let code =
            unsafe { sys::mdb_dbi_open(self.txn, name.as_ptr(), sys::MDB_CREATE, &raw mut dbi) };
        checked("mdb_dbi_open", code).map(|()| Table(dbi))
    }

    /// Copies a value.
    pub(super) fn get(&self, table: Table, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        value.clear();
        let (mut key, mut found) = (val(key), nothing());
        // SAFETY: the transaction is open; key and result outlive the call.
        let code = unsafe { sys::mdb_get(self.txn, table.0, &raw mut key, &raw mut found) };
        if code == sys::MDB_NOTFOUND {
            return Ok(false);
        }
        checked("mdb_get", code)?;
        // SAFETY: the call above filled it.
        value.extend_from_slice(unsafe { bytes(&found) });
        Ok(true)
    }

    /// Puts a value. The transaction was begun with [`Env::write`]; LMDB refuses it otherwise.
    pub(super) fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<()> {
        let (mut key, mut value) = (val(key), val(value));
        // SAFETY: the transaction is open; LMDB copies key and value and does not write through the pointers.
        let code = unsafe { sys::mdb_put(self.txn, table.0, &raw mut key, &raw mut value, 0) };
        checked("mdb_put", code)
    }

    /// Deletes a key, if it is there.
    pub(super) fn delete(&mut self, table: Table, key: &[u8]) -> Result<()> {
        let mut key = val(key);
        // SAFETY: the transaction is open, the key outlives the call.
        let code = unsafe { sys::mdb_del(self.txn, table.0, &raw mut key, null_mut()) };
        match code {
            sys::MDB_NOTFOUND => Ok(()),
            code => checked("mdb_del", code),
        }
    }

    /// Shows at most `limit` entries from a start on, until `each` returns false.
    pub(super) fn scan(
        &self,
        table: Table,
        start: &[u8],
        direction: Direction,
        limit: usize,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<usize> {
        let mut cursor = null_mut();
        // SAFETY: the transaction is open; the pointer outlives the call.
        checked("mdb_cursor_open", unsafe {
            sys::mdb_cursor_open(self.txn, table.0, &raw mut cursor)
        })?;
        let cursor = Cursor(cursor);
        let mut entry = cursor.first(start, direction)?;
        let step = match direction {
            Direction::Forward => sys::MDB_NEXT,
            Direction::Backward => sys::MDB_PREV,
        };
        let mut seen = 0;
        while let Some((key, value)) = entry.filter(|_| seen < limit) {
            seen += 1;
            // SAFETY: the cursor filled both, and its transaction does nothing else meanwhile.
            let go_on = unsafe { each(bytes(&key), bytes(&value)) };
            if !go_on || seen == limit {
                break;
            }
            entry = cursor.get(&[], step)?;
        }
        Ok(seen)
    }

    /// Makes visible what was written.
    pub(super) fn commit(mut self) -> Result<()> {
        let txn = std::mem::replace(&mut self.txn, null_mut());
        // SAFETY: the transaction is open and is not used any more, whatever comes out.
        checked("mdb_txn_commit", unsafe { sys::mdb_txn_commit(txn) })
    }
}

impl Drop for Txn<'_> {
    fn drop(&mut self) {
        if self.txn.is_null() {
            return;
        }
        if !self.reads {
            // SAFETY: the transaction is open and is not used any more.
            unsafe { sys::mdb_txn_abort(self.txn) };
            return;
        }
        // SAFETY: the transaction is open, and nobody looks at what it returned any more.
        unsafe { sys::mdb_txn_reset(self.txn) };
        let mut idle = self.env.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.push(Idle(self.txn));
    }
}

/// A cursor, closed when it is dropped.
struct Cursor(*mut sys::MDB_cursor);

/// Where a cursor stands.
type At = Option<(sys::MDB_val, sys::MDB_val)>;

impl Cursor {
    fn get(&self, key: &[u8], op: sys::MDB_cursor_op) -> Result<At> {
        let (mut key, mut value) = (val(key), nothing());
        // SAFETY: the cursor is open; key and value outlive the call.
        let code = unsafe { sys::mdb_cursor_get(self.0, &raw mut key, &raw mut value, op) };
        match code {
            sys::MDB_NOTFOUND => Ok(None),
            code => checked("mdb_cursor_get", code).map(|()| Some((key, value))),
        }
    }

    /// The first entry at or after a start, or at or before it.
    fn first(&self, start: &[u8], direction: Direction) -> Result<At> {
        match direction {
            // LMDB has no empty keys, and does not seek one.
            Direction::Forward if start.is_empty() => self.get(&[], sys::MDB_FIRST),
            Direction::Backward if start.is_empty() => Ok(None),
            Direction::Forward => self.get(start, sys::MDB_SET_RANGE),
            Direction::Backward => match self.get(start, sys::MDB_SET_RANGE)? {
                None => self.get(&[], sys::MDB_LAST),
                // SAFETY: the cursor has just filled the key.
                Some(at) if unsafe { bytes(&at.0) } == start => Ok(Some(at)),
                Some(_) => self.get(&[], sys::MDB_PREV),
            },
        }
    }
}

impl Drop for Cursor {
    fn drop(&mut self) {
        // SAFETY: the cursor is open, and its transaction outlives it.
        unsafe { sys::mdb_cursor_close(self.0) };
    }
}
