//! Describes what reads of tables are for.

use spanlith_base::stats::Histogram;
use std::cell::Cell;

/// Describes what a read of a table is for: decides in which histogram its times go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadActivity {
    /// None of the others.
    #[default]
    Unknown,
    /// A get.
    Get,
    /// A multi-get.
    MultiGet,
    /// An iterator.
    Iterator,
    /// A flush, which opens the table it wrote.
    Flush,
    /// A compaction.
    Compaction,
    /// Opening the database.
    DbOpen,
    /// Verifying all tables.
    VerifyDbChecksum,
}

thread_local! {
    /// Says what the calling thread opens tables for.
    static CURRENT: Cell<ReadActivity> = const { Cell::new(ReadActivity::Unknown) };
}

impl ReadActivity {
    /// The histogram of how long reads of files for it take, in microseconds.
    pub(crate) fn histogram(self) -> Option<Histogram> {
        match self {
            Self::Unknown => None,
            Self::Get => Some(Histogram::FileReadGetMicros),
            Self::MultiGet => Some(Histogram::FileReadMultigetMicros),
            Self::Iterator => Some(Histogram::FileReadDbIteratorMicros),
            Self::Flush => Some(Histogram::FileReadFlushMicros),
            Self::Compaction => Some(Histogram::FileReadCompactionMicros),
            Self::DbOpen => Some(Histogram::FileReadDbOpenMicros),
            Self::VerifyDbChecksum => Some(Histogram::FileReadVerifyDbChecksumMicros),
        }
    }

    /// Tables that the calling thread opens until the result is dropped are opened for this.
    #[must_use]
    pub fn enter(self) -> impl Drop {
        Entered(CURRENT.replace(self))
    }

    /// Returns what the calling thread opens tables for.
    pub(crate) fn current() -> Self {
        CURRENT.get()
    }
}

/// Puts back what was before.
struct Entered(ReadActivity);

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}
