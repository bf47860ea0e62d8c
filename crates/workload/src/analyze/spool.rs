//! Bytes that do not fit into memory: files without names, which vanish with the process.

use std::fs::File;
use std::io::{BufReader, Read, Result, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that are kept before they are written.
const CHUNK: usize = 1 << 20;
/// Bytes that a reader asks for at once.
const STEP: usize = 64 << 10;

static NEXT: AtomicU64 = AtomicU64::new(0);

/// A new file in a directory, of which nobody else knows.
pub(super) fn nameless(dir: &Path) -> Result<File> {
    // Relaxed: it only has to be another one.
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = dir.join(format!("spanlith-analysis-{}-{number}", std::process::id()));
    let mut how = File::options();
    how.read(true).write(true).create_new(true);
    let with_path =
        |e: std::io::Error| std::io::Error::new(e.kind(), format!("{}: {e}", path.display()));
    let file = how.open(&path).map_err(with_path)?;
    std::fs::remove_file(&path).map_err(with_path)?;
    Ok(file)
}

/// A part of such a file.
#[derive(Clone, Debug)]
pub(super) struct Section {
    file: Arc<File>,
    begin: u64,
    end: u64,
}

impl Section {
    pub(super) fn new(file: &Arc<File>, begin: u64, end: u64) -> Self {
        Self {
            file: Arc::clone(file),
            begin,
            end,
        }
    }

    /// Reads it from front to back.
    pub(super) fn reader(&self) -> BufReader<SectionReader> {
        BufReader::with_capacity(STEP, SectionReader(self.clone()))
    }
}

/// The rest of a section.
#[derive(Debug)]
pub(super) struct SectionReader(Section);

impl Read for SectionReader {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        let left = self.0.end - self.0.begin;
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(buf.len());
        let n = self.0.file.read_at(&mut buf[..most], self.0.begin)?;
        self.0.begin += n as u64;
        Ok(n)
    }
}

/// Bytes one after the other: in memory while they are few, then in a file.
#[derive(Debug, Default)]
pub(super) struct Spool {
    file: Option<Arc<File>>,
    written: u64,
    buffer: Vec<u8>,
}

impl Spool {
    /// Adds bytes.
    pub(super) fn push(&mut self, dir: &Path, bytes: &[u8]) -> Result<()> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() < CHUNK {
            return Ok(());
        }
        if self.file.is_none() {
            self.file = Some(Arc::new(nameless(dir)?));
        }
        if let Some(file) = &self.file {
            file.write_all_at(&self.buffer, self.written)?;
            self.written += self.buffer.len() as u64;
            self.buffer.clear();
        }
        Ok(())
    }

    /// All of them from the front.
    pub(super) fn reader(&self) -> impl Read + '_ {
        let section = self
            .file
            .as_ref()
            .map(|f| Section::new(f, 0, self.written).reader());
        let written: Box<dyn Read> = match section {
            Some(reader) => Box::new(reader),
            None => Box::new(std::io::empty()),
        };
        written.chain(self.buffer.as_slice())
    }
}

/// Writes a file of sections.
pub(super) struct SectionWriter {
    file: Arc<File>,
    out: std::io::BufWriter<Arc<File>>,
    begin: u64,
    at: u64,
}

impl SectionWriter {
    pub(super) fn create(dir: &Path) -> Result<Self> {
        let file = Arc::new(nameless(dir)?);
        Ok(Self {
            out: std::io::BufWriter::with_capacity(CHUNK, Arc::clone(&file)),
            file,
            begin: 0,
            at: 0,
        })
    }

    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<()> {
        self.at += bytes.len() as u64;
        self.out.write_all(bytes)
    }

    /// Ends a section; the next one begins.
    pub(super) fn cut(&mut self) -> Result<Section> {
        self.out.flush()?;
        let begin = std::mem::replace(&mut self.begin, self.at);
        Ok(Section::new(&self.file, begin, self.at))
    }
}
