//! `rocksdb_replayer_t` and `rocksdb_trace_reader_t`: traces of queries, asked again or read.

use crate::db::rocksdb_t;
use crate::env::rocksdb_env_t;
use crate::family::rocksdb_column_family_handle_t;
use crate::ffi::{array, boxed, malloc_copy, path, report};
use crate::sst_file_writer::rocksdb_envoptions_t;
use crate::trace::env_of;
use libc::c_char;
use spanlith::trace::{TraceReader, put_record};
use spanlith::{Cf, Env, ReplayOptions, Replayer, Result};
use spanlith_base::Error;
use std::path::PathBuf;
use std::ptr;

/// How a trace is replayed.
#[derive(Default)]
pub struct rocksdb_replay_options_t(ReplayOptions);

/// Replays a trace.
pub struct rocksdb_replayer_t(Replayer);

/// Reads the records of a trace.
pub struct rocksdb_trace_reader_t {
    env: Env,
    path: PathBuf,
    /// `None` once it was closed.
    reader: Option<TraceReader>,
}

impl rocksdb_trace_reader_t {
    fn open(&mut self) -> Result<()> {
        self.reader = Some(TraceReader::new(self.env.fs.open_sequential(&self.path)?));
        Ok(())
    }

    fn reader(&mut self) -> Result<&mut TraceReader> {
        let closed = || Error::io("TraceReader is closed.");
        self.reader.as_mut().ok_or_else(closed)
    }

    /// The next record with its head; `None` at the end.
    fn read(&mut self) -> Result<Option<Vec<u8>>> {
        let reader = self.reader()?;
        if let Some(record) = reader.next_record()? {
            let mut whole = Vec::new();
            put_record(&mut whole, record.timestamp, record.kind, record.payload);
            return Ok(Some(whole));
        }
        match reader.torn() {
            None => Ok(None),
            Some(torn) => {
                Err(Error::corruption("Corrupted trace file.").with("offset", torn.offset))
            }
        }
    }
}

c_api! {
    /// Options of replays: one thread, at the original speed.
    fn rocksdb_replay_options_create() -> *mut rocksdb_replay_options_t {
        boxed(rocksdb_replay_options_t::default())
    }

    /// Sets the number of threads; 0 is 1.
    fn rocksdb_replay_options_set_num_threads(
        options: *mut rocksdb_replay_options_t,
        num_threads: u32,
    ) {
        (*options).0.threads = num_threads;
    }

    /// Number of threads.
    fn rocksdb_replay_options_get_num_threads(options: *mut rocksdb_replay_options_t) -> u32 {
        (*options).0.threads
    }

    /// Sets the speed.
    fn rocksdb_replay_options_set_fast_forward(
        options: *mut rocksdb_replay_options_t,
        fast_forward: f64,
    ) {
        (*options).0.fast_forward = fast_forward;
    }

    /// The speed.
    fn rocksdb_replay_options_get_fast_forward(options: *mut rocksdb_replay_options_t) -> f64 {
        (*options).0.fast_forward
    }

    /// A replay of a trace into these families; without any, into the default one. The database must stay open as long
    /// as it is used; it keeps it open.
    fn rocksdb_new_default_replayer(
        db: *mut rocksdb_t,
        column_families: *mut *mut rocksdb_column_family_handle_t,
        num_column_families: usize,
        env: *mut rocksdb_env_t,
        _env_options: *const rocksdb_envoptions_t,
        trace_path: *const c_char,
        errptr: *mut *mut c_char,
    ) -> *mut rocksdb_replayer_t {
        report(errptr, ptr::null_mut(), || {
            let handles = array(column_families.cast_const(), num_column_families);
            let mut families: Vec<Cf> = handles.iter().map(|&h| Cf::clone(&(*h).cf)).collect();
            if families.is_empty() {
                families.push((*db).cf.clone());
            }
            let env = env_of(env, db);
            let replayer = Replayer::new((*db).cf.db(), &families, &env, &path(trace_path))?;
            Ok(boxed(rocksdb_replayer_t(replayer)))
        })
    }

    /// Goes to the first record; may be called again.
    fn rocksdb_replayer_prepare(replayer: *mut rocksdb_replayer_t, errptr: *mut *mut c_char) {
        report(errptr, (), || (*replayer).0.prepare());
    }

    /// When the trace was begun, in microseconds; 0 before it was prepared.
    fn rocksdb_replayer_get_header_timestamp(replayer: *const rocksdb_replayer_t) -> u64 {
        (*replayer).0.header_timestamp()
    }

    /// Asks what is left of the trace; NULL options are the defaults. A trace that ends inside a record is
    /// `Corruption`, as in RocksDB, once everything before was asked.
    fn rocksdb_replayer_replay(
        replayer: *mut rocksdb_replayer_t,
        options: *const rocksdb_replay_options_t,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, (), || {
            let options = options.as_ref().map_or_else(ReplayOptions::default, |o| o.0.clone());
            let done = (*replayer).0.replay(&options, None)?;
            match done.torn {
                None => Ok(()),
                Some(torn) => {
                    Err(Error::corruption("Corrupted trace file.").with("offset", torn.offset))
                }
            }
        });
    }

    /// A reader of a trace; NULL is the environment of the process.
    fn rocksdb_trace_reader_create(
        env: *mut rocksdb_env_t,
        _env_options: *const rocksdb_envoptions_t,
        trace_path: *const c_char,
        errptr: *mut *mut c_char,
    ) -> *mut rocksdb_trace_reader_t {
        report(errptr, ptr::null_mut(), || {
            let env = env.as_ref().map_or_else(Env::system, |env| env.env.clone());
            let mut reader = rocksdb_trace_reader_t { env, path: path(trace_path), reader: None };
            reader.open()?;
            Ok(boxed(reader))
        })
    }

    /// The next record with its head, to be freed by the caller; NULL without an error at the end.
    fn rocksdb_trace_reader_read(
        reader: *mut rocksdb_trace_reader_t,
        size: *mut usize,
        errptr: *mut *mut c_char,
    ) -> *mut c_char {
        *size = 0;
        report(errptr, ptr::null_mut(), || {
            Ok((*reader).read()?.map_or(ptr::null_mut(), |record| {
                *size = record.len();
                malloc_copy(&record)
            }))
        })
    }

    /// Goes back to the beginning.
    fn rocksdb_trace_reader_reset(reader: *mut rocksdb_trace_reader_t, errptr: *mut *mut c_char) {
        report(errptr, (), || {
            (*reader).reader()?;
            (*reader).open()
        });
    }

    /// Gives the file up.
    fn rocksdb_trace_reader_close(reader: *mut rocksdb_trace_reader_t, errptr: *mut *mut c_char) {
        report(errptr, (), || {
            (*reader).reader = None;
            Ok(())
        });
    }
}

destroyers! {
    rocksdb_replay_options_destroy(rocksdb_replay_options_t);
    rocksdb_replayer_destroy(rocksdb_replayer_t);
    rocksdb_trace_reader_destroy(rocksdb_trace_reader_t);
}
