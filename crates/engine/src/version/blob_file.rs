//! A blob file of a version, and its end.
//!
//! All descriptions of a file, which differ by their garbage, share one [`BlobLife`]. When the newest
//! version does not hold the file any more its owner marks it obsolete, and when the last holder (a
//! version that an iterator or a job keeps) lets go, the drop reports the number to the
//! [`PurgeSink`], never earlier (V5). A file that no version ever installed is not marked and stays.
//!
//! Threads: shared freely; the flag orders nothing but itself, and its last read follows all drops
//! because it sits in an `Arc`.

use super::edit::BlobFileAddition;
use super::file_meta::PurgeSink;
use spanlith_base::FileNumber;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

/// Bytes of the records of new blob files, without headers and footers of the files: what RocksDB counts.
pub(crate) fn blob_bytes(files: &[BlobFileAddition]) -> u64 {
    files.iter().map(|f| f.total_bytes).sum()
}

/// A blob file and how much of it is garbage.
#[derive(Clone, Debug)]
pub struct BlobFileMeta {
    /// The file as it was added.
    pub file: BlobFileAddition,
    /// Blobs nobody refers to.
    pub garbage_count: u64,
    /// Bytes of their records.
    pub garbage_bytes: u64,
    /// Shared by all descriptions of the file.
    life: Arc<BlobLife>,
}

impl BlobFileMeta {
    /// A file that an edit adds. It reports to `sink` when it may be deleted.
    pub fn new(file: BlobFileAddition, sink: Option<Weak<dyn PurgeSink>>) -> Self {
        let life = Arc::new(BlobLife {
            number: file.number,
            is_obsolete: AtomicBool::new(false),
            sink,
        });
        Self {
            file,
            garbage_count: 0,
            garbage_bytes: 0,
            life,
        }
    }

    /// The same file with other garbage.
    #[must_use]
    pub fn with_garbage(&self, count: u64, bytes: u64) -> Self {
        Self {
            garbage_count: count,
            garbage_bytes: bytes,
            ..self.clone()
        }
    }

    /// Bytes of the file.
    pub fn size(&self) -> u64 {
        self.file.file_size()
    }

    /// The newest version does not hold the file any more, and that is durable (V3).
    pub fn mark_obsolete(&self) {
        self.life.is_obsolete.store(true, Ordering::Relaxed);
    }
}

/// Says whether a file is still needed.
struct BlobLife {
    number: FileNumber,
    is_obsolete: AtomicBool,
    sink: Option<Weak<dyn PurgeSink>>,
}

impl fmt::Debug for BlobLife {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlobLife")
            .field("number", &self.number)
            .field("is_obsolete", &self.is_obsolete)
            .finish_non_exhaustive()
    }
}

impl Drop for BlobLife {
    fn drop(&mut self) {
        if *self.is_obsolete.get_mut()
            && let Some(sink) = self.sink.as_ref().and_then(Weak::upgrade)
        {
            sink.blob_file_obsolete(self.number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[derive(Default)]
    struct Sink(Mutex<Vec<u64>>);

    impl PurgeSink for Sink {
        fn file_obsolete(&self, number: u64, path_id: u32, _size: u64) {
            panic!("a table: {number}, {path_id}");
        }

        fn blob_file_obsolete(&self, number: u64) {
            self.0.lock().unwrap().push(number);
        }
    }

    #[test]
    fn only_a_file_that_was_marked_is_reported_and_by_its_last_description() {
        let sink: Arc<Sink> = Arc::default();
        let reported = || sink.0.lock().unwrap().clone();
        let new = |number| {
            let weak: Weak<dyn PurgeSink> = Arc::downgrade(&(sink.clone() as Arc<dyn PurgeSink>));
            let file = BlobFileAddition {
                number,
                ..BlobFileAddition::default()
            };
            BlobFileMeta::new(file, Some(weak))
        };
        drop(new(4));
        let first = new(5);
        let second = first.with_garbage(1, 10);
        first.mark_obsolete();
        drop(first);
        assert_eq!(reported(), [0; 0]);
        drop(second);
        assert_eq!(reported(), [5]);
    }
}
