//! The error type of every fallible call.
//!
//! One word wide and cheap to clone, because one failed sync answers a whole write group and every
//! later call. [`Error::rocksdb_text`] is RocksDB's text: the kind's prefix, the subcode's text if there
//! is one, then the message; C programs parse it, at least before the first colon. `Display` prints the
//! same, but for errors that RocksDB words for its developers ([`Error::in_plain_words`]) or leaves
//! without a message: there the prefix is followed by a sentence for users.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Result with [`Error`] as its default error.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Describes what the caller can do about an error; RocksDB's status codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The thing to open does not exist.
    NotFound,
    /// Bytes contradict their format, checksum or each other.
    Corruption,
    /// A valid request that this build cannot do.
    NotSupported,
    /// The caller's mistake, bad options included.
    InvalidArgument,
    /// The operating system failed.
    Io,
    /// Internal to merge resolution.
    MergeInProgress,
    /// Asked not to wait, or not to do I/O.
    Incomplete,
    /// The database is closing.
    ShutdownInProgress,
    /// A lock or deadline ran out.
    TimedOut,
    /// Stopped by the user or by a limit.
    Aborted,
    /// A conflict, or a full queue.
    Busy,
    /// A transaction is past its time.
    Expired,
    /// History is too short to decide.
    TryAgain,
    /// A manual request is over its limit.
    CompactionTooLarge,
    /// A handle outlived its column family.
    ColumnFamilyDropped,
}

impl ErrorKind {
    /// RocksDB's text before the first colon.
    pub fn prefix(self) -> &'static str {
        match self {
            Self::NotFound => "NotFound",
            Self::Corruption => "Corruption",
            Self::NotSupported => "Not implemented",
            Self::InvalidArgument => "Invalid argument",
            Self::Io => "IO error",
            Self::MergeInProgress => "Merge in progress",
            Self::Incomplete => "Result incomplete",
            Self::ShutdownInProgress => "Shutdown in progress",
            Self::TimedOut => "Operation timed out",
            Self::Aborted => "Operation aborted",
            Self::Busy => "Resource busy",
            Self::Expired => "Operation expired",
            Self::TryAgain => "Operation failed. Try again.",
            Self::CompactionTooLarge => "Compaction too large",
            Self::ColumnFamilyDropped => "Column family dropped",
        }
    }

    /// A sentence in place of a message that is empty.
    fn explanation(self) -> &'static str {
        match self {
            Self::NotFound => "there is no such entry",
            Self::Corruption => "the data is damaged",
            Self::NotSupported => "this build cannot do it",
            Self::InvalidArgument => "the call makes no sense in this state",
            Self::Io => "the operating system failed",
            Self::MergeInProgress => "merge operands have not been folded yet",
            Self::Incomplete => "the answer needs a wait or a read that the caller excludes",
            Self::ShutdownInProgress => "the database is closing",
            Self::TimedOut => "the time for the call has run out; repeat it with more time",
            Self::Aborted => "the work was stopped before its end",
            Self::Busy => "another writer changed or holds what the call needs; repeat it",
            Self::Expired => "the transaction has outlived its time; roll it back and begin anew",
            Self::TryAgain => "the history in memory is too short to decide; begin anew",
            Self::CompactionTooLarge => "the compaction is over its limit",
            Self::ColumnFamilyDropped => "the handle is of a column family that was dropped",
        }
    }
}

/// Finer distinction inside a kind; RocksDB's subcodes 1 to 19 in order, then ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum SubCode {
    MutexTimeout,
    LockTimeout,
    LockLimit,
    NoSpace,
    Deadlock,
    StaleFile,
    MemoryLimit,
    SpaceLimit,
    PathNotFound,
    MergeOperandsInsufficientCapacity,
    ManualCompactionPaused,
    Overwritten,
    TxnNotPrepared,
    IoFenced,
    MergeOperatorFailed,
    MergeOperandThresholdExceeded,
    PrefetchLimitReached,
    NotExpectedCodePath,
    CompactionAborted,
    /// Ours: the LOCK file is held; no text of its own.
    LockHeld,
    /// Ours: the asynchronous queue is full.
    QueueFull,
}

impl SubCode {
    /// RocksDB's text for the subcode; empty for our own.
    pub fn text(self) -> &'static str {
        match self {
            Self::MutexTimeout => "Timeout Acquiring Mutex",
            Self::LockTimeout => "Timeout waiting to lock key",
            Self::LockLimit => "Failed to acquire lock due to max_num_locks limit",
            Self::NoSpace => "No space left on device",
            Self::Deadlock => "Deadlock",
            Self::StaleFile => "Stale file handle",
            Self::MemoryLimit => "Memory limit reached",
            Self::SpaceLimit => "Space limit reached",
            Self::PathNotFound => "No such file or directory",
            Self::MergeOperandsInsufficientCapacity => "Insufficient capacity for merge operands",
            Self::ManualCompactionPaused => "Manual compaction paused",
            Self::Overwritten => " (overwritten)",
            Self::TxnNotPrepared => "Txn not prepared",
            Self::IoFenced => "IO fenced off",
            Self::MergeOperatorFailed => "Merge operator failed",
            Self::MergeOperandThresholdExceeded => "Number of operands merged exceeded threshold",
            Self::PrefetchLimitReached => "MultiScan reached file prefetch limit",
            Self::NotExpectedCodePath => "Not expected code path",
            Self::CompactionAborted => "All compactions aborted",
            Self::LockHeld | Self::QueueFull => "",
        }
    }
}

/// Describes what the database does from now on because of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Severity {
    /// Only the call failed.
    None,
    /// Background work retries; writes go on.
    Soft,
    /// Writes stop until the cause is gone.
    Hard,
    /// Writes stop until the database is reopened.
    Fatal,
    /// The data needs repair.
    Unrecoverable,
}

#[derive(Clone, Debug)]
struct Inner {
    kind: ErrorKind,
    subcode: Option<SubCode>,
    severity: Severity,
    message: String,
    /// The message for users, where that differs.
    plain: Option<String>,
    facts: Vec<(&'static str, String)>,
    path: Option<PathBuf>,
    offset: Option<u64>,
    lock_owner: Option<u32>,
    source: Option<Arc<std::io::Error>>,
}

/// An error: kind, subcode, severity, message, facts, and where it happened.
#[derive(Clone)]
pub struct Error(Arc<Inner>);

macro_rules! constructors {
    ($($(#[$doc:meta])* $name:ident => $kind:ident;)*) => {
        $($(#[$doc])* #[cold] pub fn $name(message: impl Into<String>) -> Self {
            Self::new(ErrorKind::$kind, message)
        })*
    };
}

impl Error {
    /// An error of `kind` with a message; add facts with [`Self::with`].
    #[cold]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Arc::new(Inner {
            kind,
            subcode: None,
            severity: Severity::None,
            message: message.into(),
            plain: None,
            facts: Vec::new(),
            path: None,
            offset: None,
            lock_owner: None,
            source: None,
        }))
    }

    constructors! {
        /// Bytes contradict format, checksum or each other.
        corruption => Corruption;
        /// Valid request this build cannot do.
        not_supported => NotSupported;
        /// The caller's mistake.
        invalid_argument => InvalidArgument;
        /// The thing to be opened does not exist.
        not_found => NotFound;
        /// Operating system; prefer [`Self::from_io`].
        io => Io;
        /// Asked not to wait.
        incomplete => Incomplete;
        /// Closing.
        shutdown => ShutdownInProgress;
        /// Stopped by user or limit.
        aborted => Aborted;
        /// Conflict.
        busy => Busy;
    }

    /// Wraps an operating-system error as RocksDB prints it: `CONTEXT: PATH: STRERROR`.
    #[cold]
    pub fn from_io(context: &str, path: &Path, source: std::io::Error) -> Self {
        let text = os_text(&source);
        let mut e = Self::new(
            ErrorKind::Io,
            format!("{context}: {}: {text}", path.display()),
        );
        {
            let i = e.inner();
            i.subcode = match source.kind() {
                std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
                    Some(SubCode::NoSpace)
                }
                std::io::ErrorKind::NotFound => Some(SubCode::PathNotFound),
                std::io::ErrorKind::StaleNetworkFileHandle => Some(SubCode::StaleFile),
                _ => None,
            };
            i.path = Some(path.to_path_buf());
            i.source = Some(Arc::new(source));
        }
        e
    }

    fn inner(&mut self) -> &mut Inner {
        Arc::make_mut(&mut self.0)
    }

    /// Adds a fact, printed as `name=value` after the message.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl fmt::Display) -> Self {
        let text = value.to_string();
        self.inner().facts.push((name, text));
        self
    }

    /// Sets what `Display` prints in place of the message, which stays RocksDB's: which value is wrong, and what to
    /// write instead.
    #[must_use]
    #[cold]
    pub fn in_plain_words(mut self, text: impl Into<String>) -> Self {
        self.inner().plain = Some(text.into());
        self
    }

    /// The whole text as RocksDB has it, for programs that compare it.
    pub fn rocksdb_text(&self) -> String {
        RocksDbText(self).to_string()
    }

    /// The fact of that name.
    pub fn fact(&self, name: &str) -> Option<&str> {
        let fact = self.0.facts.iter().find(|f| f.0 == name);
        fact.map(|f| f.1.as_str())
    }

    /// Names the file the error is about (printed as `file=…` if the message does not name it).
    #[must_use]
    pub fn with_path(mut self, path: &Path) -> Self {
        let p = path.to_path_buf();
        let i = self.inner();
        if i.path.is_none() {
            i.path = Some(p);
        }
        self
    }

    /// Names the position in the file.
    #[must_use]
    pub fn with_offset(mut self, offset: u64) -> Self {
        self.inner().offset = Some(offset);
        self
    }

    /// Sets the subcode.
    #[must_use]
    pub fn with_subcode(mut self, subcode: SubCode) -> Self {
        self.inner().subcode = Some(subcode);
        self
    }

    /// Sets the severity.
    #[must_use]
    pub fn with_severity(mut self, severity: Severity) -> Self {
        self.inner().severity = severity;
        self
    }

    /// Records the process that holds the LOCK file.
    #[must_use]
    pub fn with_lock_owner(mut self, pid: u32) -> Self {
        self.inner().lock_owner = Some(pid);
        self
    }

    /// The kind.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The subcode, if any.
    pub fn subcode(&self) -> Option<SubCode> {
        self.0.subcode
    }

    /// Returns what the database does from now on because of it.
    pub fn severity(&self) -> Severity {
        self.0.severity
    }

    /// The message without prefix and facts.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The file the error is about.
    pub fn path(&self) -> Option<&Path> {
        self.0.path.as_deref()
    }

    /// The position in that file.
    pub fn offset(&self) -> Option<u64> {
        self.0.offset
    }

    /// Process id of the holder of the LOCK file, if it could be read.
    pub fn lock_owner(&self) -> Option<u32> {
        self.0.lock_owner
    }

    /// The operating system's error number, if that was the cause.
    pub fn os_error(&self) -> Option<i32> {
        self.0.source.as_ref().and_then(|s| s.raw_os_error())
    }

    /// Returns whether the same call may succeed later without other action.
    pub fn is_retryable(&self) -> bool {
        matches!(
            self.0.kind,
            ErrorKind::Busy | ErrorKind::TryAgain | ErrorKind::TimedOut | ErrorKind::Incomplete
        ) || self.0.severity == Severity::Soft
    }
}

/// `strerror` text without Rust's "(os error N)" suffix.
fn os_text(e: &std::io::Error) -> String {
    let text = e.to_string();
    match text.rfind(" (os error ") {
        Some(at) => text[..at].to_string(),
        None => text,
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let i = &*self.0;
        if let Some(plain) = &i.plain {
            return write!(f, "{}: {plain}", i.kind.prefix());
        }
        let has_text = !i.message.is_empty() || i.subcode.is_some_and(|s| !s.text().is_empty());
        if !has_text {
            write!(f, "{}: {}", i.kind.prefix(), i.kind.explanation())?;
            return self.fmt_facts(f);
        }
        fmt::Display::fmt(&RocksDbText(self), f)
    }
}

/// An error in RocksDB's words.
struct RocksDbText<'a>(&'a Error);

impl fmt::Display for RocksDbText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let i = &*self.0.0;
        write!(f, "{}: ", i.kind.prefix())?;
        if let Some(sub) = i.subcode {
            let text = sub.text();
            f.write_str(text)?;
            if !text.is_empty() && !i.message.is_empty() {
                f.write_str(": ")?;
            }
        }
        f.write_str(&i.message)?;
        self.0.fmt_facts(f)
    }
}

impl Error {
    /// Prints file, offset and facts as far as the message does not name them.
    fn fmt_facts(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let i = &*self.0;
        let mut lead = ": ";
        if let Some(p) = &i.path {
            let p = p.to_string_lossy();
            if !i.message.contains(&*p) {
                write!(f, "{lead}file={p}")?;
                lead = " ";
            }
        }
        if let Some(o) = i.offset
            && !i.message.contains(&format!("offset {o} "))
        {
            write!(f, "{lead}offset={o}")?;
            lead = " ";
        }
        for (name, value) in &i.facts {
            write!(f, "{lead}{name}={value}")?;
            lead = " ";
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|e| e as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_prints_prefix_subcode_message_and_facts() {
        let e = Error::corruption("length prefix runs past the end")
            .with("length", 100)
            .with("available", 1);
        let want = "Corruption: length prefix runs past the end: length=100 available=1";
        assert_eq!(e.to_string(), want);
        assert_eq!(Error::busy("").rocksdb_text(), "Resource busy: ");
        let want = "Resource busy: another writer changed or holds what the call needs; repeat it";
        assert_eq!(Error::busy("").to_string(), want);
        let d = Error::busy("").with_subcode(SubCode::Deadlock);
        assert_eq!(d.to_string(), "Resource busy: Deadlock");
    }

    #[test]
    fn an_operating_system_error_reads_as_rocksdb_prints_it() {
        let e = Error::from_io(
            "While appending to file",
            Path::new("d/000010.log"),
            std::io::Error::from_raw_os_error(28),
        );
        assert_eq!(
            e.to_string(),
            "IO error: No space left on device: While appending to file: d/000010.log: \
             No space left on device"
        );
        assert_eq!(e.os_error(), Some(28));
    }

    #[test]
    fn plain_words_are_for_users_and_rocksdbs_for_programs() {
        let e = Error::invalid_argument("Error parsing ttl:stoull")
            .in_plain_words("ttl: 'abc' is no number");
        assert_eq!(e.to_string(), "Invalid argument: ttl: 'abc' is no number");
        assert_eq!(e.message(), "Error parsing ttl:stoull");
        assert_eq!(
            e.rocksdb_text(),
            "Invalid argument: Error parsing ttl:stoull"
        );
        // No kind leaves a colon with nothing after it.
        for kind in [
            ErrorKind::NotFound,
            ErrorKind::ColumnFamilyDropped,
            ErrorKind::Expired,
        ] {
            let text = Error::new(kind, "").to_string();
            assert!(text.len() > kind.prefix().len() + 5, "{text}");
        }
    }

    #[test]
    fn an_error_is_one_word() {
        assert_eq!(size_of::<Result<(), Error>>(), size_of::<usize>());
    }
}
