//! Traces of queries that are made here, request by request, by a day of a reference workload or by a model, and what they say when they are
//! read again.

use crate::generate::Values;
use crate::generate::reference::{Action, Event, Reference};
use crate::model::{GenerateOptions, Model, Observation, ObserveOptions, generate};
use spanlith::trace::{
    Extension, ExtensionReader, TraceReader, extension_path, kinds, put_get, put_query_header,
    put_record, put_seek, put_write_head,
};
use spanlith::{Error, Result};
use spanlith_env::SequentialFile;
use spanlith_wal::WriteBatch;
use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};

/// Microseconds since 1970 at which all these traces begin.
const BEGAN: u64 = 1_700_000_000_000_000;

/// One request of a trace.
#[derive(Clone, Copy, Debug)]
pub enum Ask<'a> {
    /// A get of a key.
    Get(&'a [u8]),
    /// A put of a key and its value.
    Put(&'a [u8], &'a [u8]),
    /// An operand of a merge operator for a key.
    Merge(&'a [u8], &'a [u8]),
    /// A deletion of a key.
    Delete(&'a [u8]),
    /// A deletion of a key that was put once.
    SingleDelete(&'a [u8]),
    /// A seek to a key, and so many steps after it.
    Seek(&'a [u8], u64),
}

/// A file that is written from front to back, and its path for errors.
struct Out(BufWriter<File>, PathBuf);

impl Out {
    fn create(path: &Path) -> Result<Self> {
        let file = File::create(path).map_err(|e| Error::from_io("While creating", path, e))?;
        let buffered = BufWriter::with_capacity(1 << 20, file);
        Ok(Self(buffered, path.to_path_buf()))
    }

    fn push(&mut self, bytes: &[u8]) -> Result<()> {
        let written = self.0.write_all(bytes);
        written.map_err(|e| Error::from_io("While writing", &self.1, e))
    }

    fn end(&mut self) -> Result<()> {
        let flushed = self.0.flush();
        flushed.map_err(|e| Error::from_io("While writing", &self.1, e))
    }
}

/// Writes a trace of queries, and the file beside it.
pub struct TraceWriter {
    trace: Out,
    beside: Out,
    ordinal: u64,
    payload: Vec<u8>,
    record: Vec<u8>,
}

impl TraceWriter {
    /// Begins a trace in a new file, which takes the place of an older one.
    ///
    /// # Errors
    /// Of the files.
    pub fn create(path: &Path) -> Result<Self> {
        let mut out = Self {
            trace: Out::create(path)?,
            beside: Out::create(&extension_path(path))?,
            ordinal: 0,
            payload: Vec::new(),
            record: Vec::new(),
        };
        put_query_header(&mut out.payload);
        put_record(&mut out.record, BEGAN, kinds::BEGIN, &out.payload);
        out.trace.push(&out.record)?;
        out.record.clear();
        Extension::put_header(&mut out.record, BEGAN);
        out.beside.push(&out.record)?;
        Ok(out)
    }

    /// Adds a request of a family, so many microseconds after the beginning.
    ///
    /// # Errors
    /// Of the files; a key or value of 4 GiB.
    pub fn ask(&mut self, at: u64, cf: u32, ask: Ask<'_>) -> Result<()> {
        self.payload.clear();
        let mut steps = 0;
        let kind = match ask {
            Ask::Get(key) => {
                put_get(&mut self.payload, cf, key);
                kinds::GET
            }
            Ask::Seek(key, next) => {
                steps = next;
                put_seek(&mut self.payload, cf, key, None, None);
                kinds::SEEK
            }
            _ => {
                let mut batch = WriteBatch::new();
                match ask {
                    Ask::Put(key, value) => batch.put_cf(cf, key, value)?,
                    Ask::Merge(key, value) => batch.merge_cf(cf, key, value)?,
                    Ask::SingleDelete(key) => batch.single_delete_cf(cf, key)?,
                    Ask::Get(key) | Ask::Seek(key, _) | Ask::Delete(key) => {
                        batch.delete_cf(cf, key)?;
                    }
                }
                put_write_head(&mut self.payload, batch.as_bytes().len());
                self.payload.extend_from_slice(batch.as_bytes());
                kinds::WRITE
            }
        };
        self.record.clear();
        put_record(&mut self.record, BEGAN + at, kind, &self.payload);
        self.trace.push(&self.record)?;
        let extension = Extension {
            ordinal: self.ordinal,
            kind,
            cf,
            nanos: 1000,
            found: 1,
            next: steps,
            ..Extension::default()
        };
        self.ordinal += 1;
        self.record.clear();
        extension.encode(&mut self.record);
        self.beside.push(&self.record)
    }

    /// Ends the trace; requests in it.
    ///
    /// # Errors
    /// Of the files.
    pub fn finish(mut self) -> Result<u64> {
        self.trace.end()?;
        self.beside.end()?;
        Ok(self.ordinal)
    }
}

/// A file read from front to back.
struct FromFront(File, PathBuf);

impl FromFront {
    fn open(path: &Path) -> Result<Box<Self>> {
        let file = File::open(path).map_err(|e| Error::from_io("While opening", path, e))?;
        Ok(Box::new(Self(file, path.to_path_buf())))
    }
}

impl SequentialFile for FromFront {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        loop {
            match self.0.read(buf) {
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                result => {
                    return result.map_err(|e| Error::from_io("While reading", &self.1, e));
                }
            }
        }
    }
}

/// A reader of the records of a trace.
///
/// # Errors
/// Of opening the file.
pub fn reader(path: &Path) -> Result<TraceReader> {
    Ok(TraceReader::new(FromFront::open(path)?))
}

/// Returns what a trace says, with the file beside it. All keys are kept.
///
/// # Errors
/// Of the files; `Corruption` if they are no traces.
pub fn observe(path: &Path) -> Result<Observation> {
    let beside = ExtensionReader::new(FromFront::open(&extension_path(path))?)?;
    let options = ObserveOptions {
        keys_max: usize::MAX,
    };
    Observation::read(&mut reader(path)?, Some(beside), options)
}

/// Writes a trace of what a model describes.
///
/// # Errors
/// As [`generate`]; of the files.
pub fn of_model(model: &Model, seed: u64, path: &Path) -> Result<()> {
    let options = GenerateOptions {
        seed,
        ..GenerateOptions::default()
    };
    let (mut trace, mut beside) = (Out::create(path)?, Out::create(&extension_path(path))?);
    generate(model, &options, &mut trace.0, &mut beside.0)?;
    trace.end()?;
    beside.end()
}

/// Writes a day of a reference workload as a trace; requests in it.
///
/// # Errors
/// Of the files.
pub fn of_day(database: &Reference, day: &[Event], seed: u64, path: &Path) -> Result<u64> {
    let mut values = Values::with_ratio(1 << 16, 0.5, seed);
    let (mut trace, mut key) = (TraceWriter::create(path)?, Vec::new());
    for event in day {
        database.key(event.family, event.key, &mut key);
        let cf = u32::try_from(event.family).unwrap_or(0);
        let size = usize::try_from(event.value_size).unwrap_or(0);
        let ask = match event.action {
            Action::Get => Ask::Get(&key),
            Action::Put => Ask::Put(&key, values.sized(size)),
            Action::Merge => Ask::Merge(&key, values.sized(size)),
            Action::Delete => Ask::Delete(&key),
            Action::SingleDelete => Ask::SingleDelete(&key),
            Action::Scan => Ask::Seek(&key, event.scan_length),
        };
        trace.ask(event.at, cf, ask)?;
    }
    trace.finish()
}
