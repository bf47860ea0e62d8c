//! Many values at once: references are sorted by file and offset, neighbours are read together.
//!
//! Extents that lie at most [`GAP_MAX`] bytes apart become one read, of at most [`SPAN_MAX`] bytes; all
//! reads of a file are handed to the file system together.

use super::index::{BlobIndex, BlobPointer};
use super::reader::Extent;
use super::source::{BlobRead, BlobSource};
use crate::version::Version;
use spanlith_base::{Error, Pinned, Result};
use spanlith_env::ReadRequest;

/// Bytes between two extents that are read rather than left out.
const GAP_MAX: u64 = 16 << 10;
/// Bytes of a read that more than one value shares.
const SPAN_MAX: u64 = 1 << 20;

/// A reference that is to be read.
struct Wanted {
    place: usize,
    pointer: BlobPointer,
}

impl BlobSource {
    /// The values that tables' entries refer to, each given by its user key and blob index, in the same
    /// order; as [`Self::resolve`], which is what each error says. Costs fewer reads than single calls if
    /// values lie close to each other.
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
                    match self.cached(&pointer) {
                        Some(value) => answers[place] = Ok(value),
                        None => wanted.push(Wanted { place, pointer }),
                    }
                }
                _ => answers[place] = self.resolve(version, user_key, index, how),
            }
        }
        wanted.sort_unstable_by_key(|w| (w.pointer.file, w.pointer.offset));
        for of_file in wanted.chunk_by(|a, b| a.pointer.file == b.pointer.file) {
            self.read_together(entries, of_file, how, &mut answers);
        }
        answers
    }

    /// Reads values of one file, in the order of their offsets.
    fn read_together(
        &self,
        entries: &[(&[u8], &[u8])],
        wanted: &[Wanted],
        how: BlobRead,
        answers: &mut [Result<Pinned>],
    ) {
        let alone = |w: &Wanted| self.get(entries[w.place].0, &w.pointer, how);
        let reader = match wanted {
            [] => return,
            [only] => {
                answers[only.place] = alone(only);
                return;
            }
            [first, ..] => match self.reader(first.pointer.file) {
                Ok(reader) => reader,
                Err(_) => {
                    wanted.iter().for_each(|w| answers[w.place] = alone(w));
                    return;
                }
            },
        };
        let mut extents: Vec<(&Wanted, Extent)> = Vec::with_capacity(wanted.len());
        for w in wanted {
            match reader.extent(entries[w.place].0, &w.pointer, how.verify_checksums) {
                Ok(extent) => extents.push((w, extent)),
                Err(_) => answers[w.place] = alone(w),
            }
        }
        // Each span: first and one past the last extent, where it begins and ends in the file.
        let mut spans: Vec<(usize, usize, u64, u64)> = Vec::new();
        for (n, (_, extent)) in extents.iter().enumerate() {
            match spans.last_mut() {
                Some((_, last, start, end))
                    if extent.offset <= end.saturating_add(GAP_MAX)
                        && extent.end() - *start <= SPAN_MAX =>
                {
                    (*last, *end) = (n + 1, extent.end().max(*end));
                }
                _ => spans.push((n, n + 1, extent.offset, extent.end())),
            }
        }
        // An extent lies within the file, so that its size bounds what is allocated.
        let mut buffers: Vec<Vec<u8>> = spans
            .iter()
            .map(|(_, _, start, end)| vec![0; (end - start) as usize])
            .collect();
        let mut requests: Vec<ReadRequest<'_>> = spans
            .iter()
            .zip(&mut buffers)
            .map(|(span, buf)| ReadRequest {
                offset: span.2,
                buf,
                result: Ok(0),
            })
            .collect();
        reader.file().read_many(&mut requests);
        let lengths: Vec<Option<usize>> = requests
            .into_iter()
            .map(|request| request.result.ok())
            .collect();
        for ((span, buffer), read) in spans.iter().zip(buffers).zip(lengths) {
            let is_whole = read == Some(buffer.len());
            let bytes = Pinned::from_vec(buffer);
            for (w, extent) in &extents[span.0..span.1] {
                let user_key = entries[w.place].0;
                let from = (extent.offset - span.2) as usize;
                let value = match is_whole {
                    false => alone(w),
                    true => {
                        let own = match span.1 - span.0 {
                            1 => bytes.clone(),
                            // A value of its own, so that no one value keeps all of them in memory.
                            _ => Pinned::copy_of(&bytes[from..from + extent.len]),
                        };
                        match reader.value_in(user_key, &w.pointer, *extent, own) {
                            Ok(value) => {
                                if let Some(reads) = self.reads() {
                                    reads.add(w.pointer.size);
                                }
                                if how.fill_cache {
                                    self.keep(&w.pointer, &value);
                                }
                                Ok(value)
                            }
                            // Reads it by itself, from a file that is opened anew.
                            Err(_) => alone(w),
                        }
                    }
                };
                answers[w.place] = value;
            }
        }
    }
}
