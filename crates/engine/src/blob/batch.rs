//! Many values at once: references are sorted by file and offset, neighbours are read together.
//!
//! Extents that lie at most [`GAP_MAX`] bytes apart become one read, of at most [`SPAN_MAX`] bytes; all reads, of whatever
//! files, are made together ([`read_together`]). A value whose file or bytes are not as they should be is read alone,
//! so that the error is the one of a single read and concerns nobody else.

use super::index::{BlobIndex, BlobPointer};
use super::reader::{BlobFileReader, Extent};
use super::source::{BlobRead, BlobSource};
use crate::version::Version;
use spanlith_base::{Error, Pinned, Result};
use spanlith_env::{RandomAccessFile, ReadRequest, read_together};
use std::sync::Arc;

/// Bytes between two extents that are read rather than left out.
const GAP_MAX: u64 = 16 << 10;
/// Bytes of a read that more than one value shares.
const SPAN_MAX: u64 = 1 << 20;

/// A reference that is to be read.
struct Wanted {
    place: usize,
    pointer: BlobPointer,
}

/// A value to be read, and the bytes of the file that it takes.
struct Piece<'w> {
    wanted: &'w Wanted,
    extent: Extent,
}

/// One read of a file.
struct Span {
    /// Which of the files.
    file: usize,
    /// First and one past the last of the pieces that it serves.
    pieces: (usize, usize),
    /// Where it begins and ends in the file.
    start: u64,
    end: u64,
}

/// Values that are read together.
#[derive(Default)]
struct Plan<'w> {
    files: Vec<Arc<BlobFileReader>>,
    pieces: Vec<Piece<'w>>,
    spans: Vec<Span>,
}

impl BlobSource {
    /// The values that tables' entries refer to, each given by its user key and blob index, in the same
    /// order; as [`Self::resolve`], which is what each error says. Costs fewer reads than single calls if
    /// values lie close to each other, and reads that do not wait for each other.
    pub(crate) fn resolve_many(
        &self,
        version: &Version,
        entries: &[(&[u8], &[u8])],
        how: BlobRead,
    ) -> Vec<Result<Pinned>> {
        let none = || Err(Error::incomplete("a blob was not read"));
        let mut answers: Vec<Result<Pinned>> = entries.iter().map(|_| none()).collect();
        let mut wanted = Vec::with_capacity(entries.len());
        for (place, (user_key, index)) in entries.iter().enumerate() {
            let pointer = BlobIndex::decode(index).and_then(|i| i.pointer());
            match pointer {
                Ok(pointer) if how.may_read && version.blob_files.contains_key(&pointer.file) => {
                    match self.cached(user_key, &pointer, how) {
                        Some(value) => answers[place] = Ok(value),
                        None => wanted.push(Wanted { place, pointer }),
                    }
                }
                _ => answers[place] = self.resolve(version, user_key, index, how),
            }
        }
        if let [only] = &wanted[..] {
            answers[only.place] = self.get(entries[only.place].0, &only.pointer, how);
            return answers;
        }
        wanted.sort_unstable_by_key(|w| (w.pointer.file, w.pointer.offset));
        let plan = self.plan(entries, &wanted, how, &mut answers);
        self.read_planned(entries, &plan, how, &mut answers);
        answers
    }

    /// Says which reads serve values that are sorted by file and offset. What cannot be planned is read alone.
    fn plan<'w>(
        &self,
        entries: &[(&[u8], &[u8])],
        wanted: &'w [Wanted],
        how: BlobRead,
        answers: &mut [Result<Pinned>],
    ) -> Plan<'w> {
        let mut plan = Plan::default();
        for of_file in wanted.chunk_by(|a, b| a.pointer.file == b.pointer.file) {
            let reader = of_file.first().map(|w| self.reader(w.pointer.file));
            let reader = reader.and_then(Result::ok);
            for w in of_file {
                let user_key = entries[w.place].0;
                let extent = (reader.as_ref())
                    .and_then(|r| r.extent(user_key, &w.pointer, how.verify_checksums).ok());
                match extent {
                    Some(extent) => plan.add(Piece { wanted: w, extent }),
                    None => answers[w.place] = self.get(user_key, &w.pointer, how),
                }
            }
            if let Some(reader) = reader {
                plan.files.push(reader);
            }
        }
        plan
    }

    fn read_planned(
        &self,
        entries: &[(&[u8], &[u8])],
        plan: &Plan<'_>,
        how: BlobRead,
        answers: &mut [Result<Pinned>],
    ) {
        for (span, mut bytes) in plan.spans.iter().zip(plan.read()) {
            for piece in &plan.pieces[span.pieces.0..span.pieces.1] {
                let w = piece.wanted;
                let user_key = entries[w.place].0;
                let reader = &plan.files[span.file];
                let value = (bytes.as_mut())
                    .map(|bytes| span.value(bytes, reader, user_key, (&w.pointer, piece.extent)));
                answers[w.place] = match value {
                    Some(Ok(value)) => {
                        if let Some(reads) = self.reads() {
                            reads.add(w.pointer.size);
                        }
                        if how.fill_cache {
                            self.keep(&w.pointer, &value);
                        }
                        Ok(value)
                    }
                    // Reads it by itself, from a file that is opened anew if need be.
                    Some(Err(_)) | None => self.get(user_key, &w.pointer, how),
                };
            }
        }
    }
}

impl<'w> Plan<'w> {
    /// Adds a value of the file that will be pushed next, after those before it.
    fn add(&mut self, piece: Piece<'w>) {
        let (file, at, extent) = (self.files.len(), self.pieces.len(), piece.extent);
        self.pieces.push(piece);
        match self.spans.last_mut() {
            Some(span)
                if span.file == file
                    && extent.offset >= span.start
                    && extent.offset <= span.end.saturating_add(GAP_MAX)
                    && extent.end() - span.start <= SPAN_MAX =>
            {
                span.pieces.1 = at + 1;
                span.end = extent.end().max(span.end);
            }
            _ => self.spans.push(Span {
                file,
                pieces: (at, at + 1),
                start: extent.offset,
                end: extent.end(),
            }),
        }
    }

    /// Makes all reads; the bytes of each that came whole.
    fn read(&self) -> Vec<Option<Vec<u8>>> {
        // An extent lies within the file, so that its size bounds what is allocated.
        let mut buffers: Vec<Vec<u8>> = (self.spans.iter())
            .map(|span| vec![0; (span.end - span.start) as usize])
            .collect();
        let mut requests: Vec<ReadRequest<'_>> = (self.spans.iter())
            .zip(&mut buffers)
            .map(|(span, buf)| ReadRequest::new(span.start, buf))
            .collect();
        let files: Vec<&dyn RandomAccessFile> = self
            .spans
            .iter()
            .map(|s| &**self.files[s.file].file())
            .collect();
        read_together(&files, &mut requests);
        let lengths: Vec<Option<usize>> = requests.into_iter().map(|r| r.result.ok()).collect();
        let whole = |(buffer, read): (Vec<u8>, Option<usize>)| {
            (read == Some(buffer.len())).then_some(buffer)
        };
        buffers.into_iter().zip(lengths).map(whole).collect()
    }
}

impl Span {
    /// The value of a piece of it.
    fn value(
        &self,
        bytes: &mut Vec<u8>,
        reader: &BlobFileReader,
        user_key: &[u8],
        (pointer, extent): (&BlobPointer, Extent),
    ) -> Result<Pinned> {
        if self.pieces.1 - self.pieces.0 == 1 {
            let mut own = std::mem::take(bytes);
            reader.keep_value(user_key, pointer, extent, &mut own)?;
            return Ok(Pinned::from_vec(own));
        }
        // A value of its own, so that no one value keeps all of them in memory.
        let (mut own, from) = (Vec::new(), (extent.offset - self.start) as usize);
        let part = &bytes[from..from + extent.len];
        reader.copy_value(user_key, pointer, extent, part, &mut own)?;
        Ok(Pinned::from_vec(own))
    }
}
