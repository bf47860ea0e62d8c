//! Children made by `fork` open databases of their own. A test binary of its own, so that no other test's threads run
//! when it forks.

use spanlith_capi::*;
use std::ffi::{CStr, CString, c_char, c_int};
use std::path::Path;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};

unsafe extern "C" {
    fn fork() -> c_int;
    fn waitpid(pid: c_int, status: *mut c_int, options: c_int) -> c_int;
    fn _exit(code: c_int) -> !;
    fn alarm(seconds: u32) -> u32;
}

/// Seconds after which a child that hangs is killed.
const PATIENCE: u32 = 120;

/// A child that runs `in_child` and ends; its process id.
fn start(in_child: impl FnOnce() -> Result<(), String>) -> c_int {
    // SAFETY: The child has one thread; it ends without running destructors of what it inherited.
    unsafe {
        match fork() {
            0 => {
                alarm(PATIENCE);
                let code = match in_child() {
                    Ok(()) => 0,
                    Err(text) => {
                        eprintln!("child: {text}");
                        1
                    }
                };
                _exit(code)
            }
            pid => pid,
        }
    }
}

/// Waits for the end of a child; one that hangs or fails fails.
fn wait(pid: c_int) {
    let mut status = -1;
    // SAFETY: A child of this process.
    assert_eq!(unsafe { waitpid(pid, &raw mut status, 0) }, pid);
    assert_eq!(status, 0, "status of the child (14: it hung)");
}

fn in_child(in_child: impl FnOnce() -> Result<(), String>) {
    wait(start(in_child));
}

fn call<T>(f: impl FnOnce(*mut *mut c_char) -> T) -> Result<T, String> {
    let mut text = null_mut();
    let out = f(&raw mut text);
    if text.is_null() {
        return Ok(out);
    }
    // SAFETY: A text of the library.
    Err(unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned())
}

struct Db {
    db: *mut rocksdb_t,
    write: *mut rocksdb_writeoptions_t,
    read: *mut rocksdb_readoptions_t,
}

// SAFETY: Databases may be used by any thread.
unsafe impl Sync for Db {}

fn options() -> *mut rocksdb_options_t {
    // SAFETY: A fresh handle.
    unsafe {
        let o = rocksdb_options_create();
        rocksdb_options_set_create_if_missing(o, 1);
        rocksdb_options_set_write_buffer_size(o, 64 << 10);
        rocksdb_options_set_level0_file_num_compaction_trigger(o, 2);
        o
    }
}

impl Db {
    fn open(options: *mut rocksdb_options_t, dir: &Path) -> Result<Self, String> {
        let path = CString::new(dir.to_str().unwrap()).unwrap();
        // SAFETY: Valid handles.
        unsafe {
            Ok(Self {
                db: call(|e| rocksdb_open(options, path.as_ptr(), e))?,
                write: rocksdb_writeoptions_create(),
                read: rocksdb_readoptions_create(),
            })
        }
    }

    fn put(&self, key: &str, value: &[u8]) -> Result<(), String> {
        let (k, n) = (key.as_ptr().cast(), key.len());
        // SAFETY: Lengths are right.
        call(|e| unsafe {
            rocksdb_put(
                self.db,
                self.write,
                k,
                n,
                value.as_ptr().cast(),
                value.len(),
                e,
            );
        })
    }

    fn has(&self, key: &str) -> Result<bool, String> {
        let mut len = 0;
        let (k, n) = (key.as_ptr().cast(), key.len());
        // SAFETY: Lengths are right; the value is not looked at.
        let found = call(|e| unsafe { rocksdb_get(self.db, self.read, k, n, &raw mut len, e) })?;
        Ok(!found.is_null())
    }

    fn flush(&self) -> Result<(), String> {
        // SAFETY: Valid handles.
        call(|e| unsafe {
            let o = rocksdb_flushoptions_create();
            rocksdb_flush(self.db, o, e);
        })
    }

    fn compact(&self) {
        // SAFETY: The whole range.
        unsafe { rocksdb_compact_range(self.db, null_mut(), 0, null_mut(), 0) }
    }

    fn close(self) {
        // SAFETY: Not used again.
        unsafe { rocksdb_close(self.db) }
    }

    /// A life of a database: writes that need flushes and compactions, by name, and reads.
    fn live(options: *mut rocksdb_options_t, dir: &Path, name: &str) -> Result<(), String> {
        let db = Self::open(options, dir)?;
        for n in 0..400 {
            db.put(&format!("{name}{n}"), &[7; 1000])?;
        }
        db.flush()?;
        db.compact();
        for n in 0..400 {
            if !db.has(&format!("{name}{n}"))? {
                return Err(format!("{name}{n} is not there"));
            }
        }
        db.close();
        Ok(())
    }
}

fn flushes_in_children_of_children(dir: &Path) {
    Db::live(options(), dir, "parent").unwrap();
    in_child(|| {
        Db::live(options(), dir, "child")?;
        in_child(|| Db::live(options(), dir, "grandchild"));
        Db::live(options(), &dir.with_extension("second"), "second")
    });
    let db = Db::open(options(), dir).unwrap();
    for name in ["parent", "child", "grandchild"] {
        assert!(db.has(&format!("{name}399")).unwrap(), "{name}");
    }
    db.close();
}

/// The threads of the parent work on all the while: whatever they held when it forked is not held in the child.
fn opens_another_database_beside_a_busy_parent(dir: &Path) {
    let db = Db::open(options(), dir).unwrap();
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let busy = scope.spawn(|| {
            let mut n = 0u64;
            while !ends.load(Ordering::Relaxed) {
                db.put(&format!("k{n}"), &[1; 500]).unwrap();
                n += 1;
            }
        });
        for round in 0..12 {
            let other = dir.with_extension(format!("{round}"));
            in_child(|| {
                // The parent's is the parent's.
                match Db::open(options(), dir) {
                    Err(e) if e.contains("While lock file") => {}
                    other => return Err(format!("opened twice: {:?}", other.err())),
                }
                Db::live(options(), &other, "other")
            });
        }
        ends.store(true, Ordering::Relaxed);
        busy.join().unwrap();
    });
    db.close();
}

/// A child that lets go of what it inherited keeps the lock that it took itself.
fn keeps_its_lock_when_it_closes_what_it_inherited(dir: &Path) {
    let inherited = Db::open(options(), dir).unwrap();
    let closed = dir.with_extension("closed");
    let handle = inherited.db;
    let child = start(|| {
        while !closed.exists() {
            std::thread::yield_now();
        }
        let mine = Db::open(options(), dir)?;
        // SAFETY: Closing twice, in two processes, is what is tested.
        unsafe { rocksdb_close(handle) };
        in_child(|| match Db::open(options(), dir) {
            Err(e) if e.contains("While lock file") => Ok(()),
            other => Err(format!("the lock is lost: {:?}", other.err())),
        });
        mine.put("k", b"v")?;
        mine.close();
        Ok(())
    });
    inherited.close();
    std::fs::write(&closed, "").unwrap();
    wait(child);
    let db = Db::open(options(), dir).unwrap();
    assert!(db.has("k").unwrap());
    db.close();
}

/// A file to be deleted by and by goes in the child, too, whose manager came from the parent.
fn deletes_its_trash(dir: &Path) {
    // SAFETY: Valid handles.
    let o = unsafe {
        let o = options();
        let env = rocksdb_create_default_env();
        let manager = rocksdb_sst_file_manager_create(env);
        rocksdb_sst_file_manager_set_delete_rate_bytes_per_second(manager, 100 << 20);
        rocksdb_sst_file_manager_set_max_trash_db_ratio(manager, 10.0);
        rocksdb_options_set_sst_file_manager(o, manager);
        o
    };
    Db::live(o, dir, "parent").unwrap();
    in_child(|| {
        let db = Db::open(o, dir)?;
        for round in 0..3 {
            db.put("again", &[round; 100])?;
            db.flush()?;
        }
        db.compact();
        // Ends with the child's patience if nobody deletes.
        while std::fs::read_dir(dir)
            .unwrap()
            .any(|f| f.unwrap().file_name().to_string_lossy().ends_with(".trash"))
        {
            std::thread::yield_now();
        }
        db.close();
        Ok(())
    });
}

#[test]
fn a_child_has_threads_locks_and_memory_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    flushes_in_children_of_children(&dir.path().join("a"));
    opens_another_database_beside_a_busy_parent(&dir.path().join("b"));
    keeps_its_lock_when_it_closes_what_it_inherited(&dir.path().join("c"));
    deletes_its_trash(&dir.path().join("d"));
}
