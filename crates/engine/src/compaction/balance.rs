//! Equations over the entries of a job that writes tables (`compaction_verify_record_count`,
//! `flush_verify_memtable_count`).
//!
//! Three must hold before anything is installed: what was read is what tables or memtables said they
//! hold; what was read was either written or dropped for a reason; what was written is in the tables.
//! RocksDB knows the first and the third. The second holds because each place that decides about an
//! entry counts it by itself, apart from the place that reads on (C4): an entry that is passed over without
//! a decision, or handed out twice, breaks it. Range tombstones stand outside all three.

use spanlith_base::{Error, Result, Severity};

/// Entries that were read and not written, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dropped {
    /// A newer entry of the key hides them from all that would see them.
    pub hidden: u64,
    /// Deletions of either kind that hide nothing any more.
    pub obsolete: u64,
    /// A range tombstone deletes them.
    pub covered: u64,
    /// A filter removed them.
    pub filtered: u64,
    /// Their timestamps are later than what a trimmed history ends with.
    pub trimmed: u64,
    /// They went into a merge result that stands for several.
    pub folded: u64,
    /// Single deletes and what they cancelled.
    pub cancelled: u64,
    /// Pairs of a single delete and what it cancelled, which are among `cancelled`.
    pub pairs: u64,
    /// Single deletes, among `cancelled`, above another deletion that takes over.
    pub superseded: u64,
    /// Single deletes that met something else than a value: `superseded`, and what else they cancelled.
    pub mismatched: u64,
    /// Single deletes, among `obsolete`, that met nothing.
    pub single_fallthru: u64,
    /// Entries, among `hidden`, that a deletion at the bottom passes over, and such deletions, among
    /// `obsolete`, that are dropped then. RocksDB counts neither.
    pub passed_over: u64,
    pub needless: u64,
    /// Bytes of keys and values of entries that were read as part of another: what is folded into a merge
    /// result, what a single delete cancels, and `passed_over`.
    pub joined_bytes: u64,
}

impl Dropped {
    /// Of all reasons.
    pub(crate) fn total(&self) -> u64 {
        let seen = self.hidden + self.obsolete + self.covered + self.filtered + self.trimmed;
        seen + self.folded + self.cancelled
    }

    /// Takes in another part of the job.
    pub(crate) fn add(&mut self, other: &Self) {
        self.hidden += other.hidden;
        self.obsolete += other.obsolete;
        self.covered += other.covered;
        self.filtered += other.filtered;
        self.trimmed += other.trimmed;
        self.folded += other.folded;
        self.cancelled += other.cancelled;
        self.pairs += other.pairs;
        self.superseded += other.superseded;
        self.mismatched += other.mismatched;
        self.single_fallthru += other.single_fallthru;
        self.passed_over += other.passed_over;
        self.needless += other.needless;
        self.joined_bytes += other.joined_bytes;
    }

    /// Entries that RocksDB counts as replaced by newer ones: what ranges delete is hidden too, and of a pair of
    /// put and single delete one is.
    pub(crate) fn replaced(&self) -> u64 {
        self.hidden + self.covered + self.pairs - self.passed_over
    }

    /// Entries that RocksDB counts as obsolete deletions, without range tombstones: of a pair of put and
    /// single delete one is, and at the bottom what a filter removes becomes a deletion.
    pub(crate) fn expired(&self, bottommost: bool) -> u64 {
        let removed = if bottommost { self.filtered } else { 0 };
        // Those that a filter removed may be among the needless ones.
        self.obsolete + self.pairs + self.superseded + removed - self.needless
    }

    /// Everything `read` must be what was `written` and what was dropped.
    ///
    /// # Errors
    /// `Corruption` with all the numbers.
    pub(crate) fn check(&self, read: u64, written: u64) -> Result<()> {
        if read == written + self.total() {
            return Ok(());
        }
        // C4: something was passed over, or handed out twice.
        Err(
            mismatch("Number of entries read does not match number of entries written or dropped")
                .with("read", read)
                .with("written", written)
                .with("hidden", self.hidden)
                .with("obsolete", self.obsolete)
                .with("covered", self.covered)
                .with("filtered", self.filtered)
                .with("folded", self.folded)
                .with("cancelled", self.cancelled),
        )
    }
}

/// The error of an equation that does not hold: a job that finds one is tried once more.
#[cold]
fn mismatch(message: impl Into<String>) -> Error {
    Error::corruption(message.into()).with_severity(Severity::Hard)
}

/// A compaction must read what the properties of its inputs count.
pub(crate) fn check_inputs(expected: u64, read: u64) -> Result<()> {
    if read == expected {
        return Ok(());
    }
    Err(mismatch(format!(
        "Compaction number of input keys does not match number of keys processed. \
         Expected {expected} but processed {read}"
    )))
}

/// A flush must read what was inserted into its memtables.
pub(crate) fn check_memtables(expected: u64, read: u64) -> Result<()> {
    if read == expected {
        return Ok(());
    }
    // M2: a sealed memtable took no entry after it was counted, and lost none.
    Err(mismatch(format!(
        "Expected {expected} entries in memtables, but read {read}"
    )))
}

/// The tables of a job (`compaction` or `flush`) must hold what was handed to their writers.
pub(crate) fn check_outputs(job: &str, written: u64, stored: u64) -> Result<()> {
    if stored == written {
        return Ok(());
    }
    let to = if job == "flush" { " to the table" } else { "" };
    Err(mismatch(format!(
        "Number of keys in {job} output SST files does not match number of keys added{to}. \
         Expected {written} but there are {stored} in output SST files"
    )))
}

/// Faults that tests plant on the thread that runs the jobs.
#[cfg(test)]
pub(crate) mod plant {
    use std::cell::Cell;

    /// Describes what goes wrong, once.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Fault {
        /// The input passes over an entry that nobody sees.
        ReadsPast,
        /// An entry is read and forgotten.
        Forgets,
        /// An entry is output as two.
        Doubles,
        /// An entry is handed out that does not reach the table.
        NotStored,
    }

    thread_local! {
        static PLANTED: Cell<Option<(Fault, u64)>> = const { Cell::new(None) };
    }

    /// Plants a fault that happens at the `n`-th chance, from 0; `None` removes it.
    pub(crate) fn plant(fault: Option<(Fault, u64)>) {
        PLANTED.set(fault);
    }

    /// Returns whether the fault happens now.
    pub(crate) fn strikes(fault: Fault) -> bool {
        match PLANTED.get() {
            Some((planted, 0)) if planted == fault => {
                PLANTED.set(None);
                true
            }
            Some((planted, n)) if planted == fault => {
                PLANTED.set(Some((planted, n - 1)));
                false
            }
            _ => false,
        }
    }

    /// Returns whether the fault has yet to happen.
    pub(crate) fn is_planted() -> bool {
        PLANTED.get().is_some()
    }
}

#[cfg(test)]
mod tests;
