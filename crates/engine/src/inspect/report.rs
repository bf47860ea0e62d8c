//! Describes what a verification is asked for, and what it found.

use spanlith_base::{Error, ErrorKind};

/// How much is verified; each level includes those before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum VerifyLevel {
    /// Files are there, of the sizes and with the identities that the MANIFEST records.
    Quick,
    /// The checksum of every block, log record, MANIFEST record and blob.
    #[default]
    Checksums,
    /// Every entry: order, bounds, counts, sequence numbers, filters without false negatives, blobs
    /// that are referred to, and that newer entries lie above older ones.
    Full,
}

impl VerifyLevel {
    /// One word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::Checksums => "checksums",
            Self::Full => "full",
        }
    }
}

/// Describes what is to be verified, and at what pace.
#[derive(Clone, Debug, Default)]
pub struct VerifyOptions {
    /// How much.
    pub level: VerifyLevel,
    /// Bytes read per second, at most; 0 for no limit.
    pub bytes_per_second: u64,
    /// Only the tables and blob files of these families; empty for all.
    pub families: Vec<String>,
}

impl VerifyOptions {
    /// All families, at full speed.
    pub fn new(level: VerifyLevel) -> Self {
        Self {
            level,
            ..Self::default()
        }
    }
}

/// How far a verification is.
#[derive(Clone, Copy, Debug)]
pub struct VerifyProgress<'a> {
    /// The file at hand.
    pub file: &'a str,
    /// Bytes verified so far; those of a table that is read several times count each time.
    pub done_bytes: u64,
    /// Bytes there are to verify, as known when it began.
    pub total_bytes: u64,
    /// Findings so far.
    pub findings: usize,
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grade {
    /// Bytes are wrong or missing, or contradict each other.
    Damage,
    /// This build cannot check it.
    Unchecked,
    /// Worth knowing, nothing wrong.
    Note,
}

/// Something found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub grade: Grade,
    /// The file, relative to the directory where possible.
    pub file: String,
    /// Where in the file, in bytes, if known.
    pub offset: Option<u64>,
    /// First and last user key that are concerned, both inclusive, if known.
    pub keys: Option<(Vec<u8>, Vec<u8>)>,
    /// Says what is wrong. Names no key.
    pub what: String,
}

impl Finding {
    /// A finding in words.
    pub fn new(grade: Grade, file: &str, offset: Option<u64>, what: impl Into<String>) -> Self {
        Self {
            grade,
            file: file.to_string(),
            offset,
            keys: None,
            what: what.into(),
        }
    }

    /// A finding from an error of a reader: what this build does not support was not checked.
    pub fn from_error(file: &str, offset: Option<u64>, e: &Error) -> Self {
        let grade = match e.kind() {
            ErrorKind::NotSupported => Grade::Unchecked,
            _ => Grade::Damage,
        };
        Self::new(grade, file, e.offset().or(offset), e.to_string())
    }

    /// Damage.
    pub fn damage(file: &str, offset: Option<u64>, what: impl Into<String>) -> Self {
        Self::new(Grade::Damage, file, offset, what)
    }

    /// A remark.
    pub fn note(file: &str, offset: Option<u64>, what: impl Into<String>) -> Self {
        Self::new(Grade::Note, file, offset, what)
    }

    /// The same, with the user keys that are concerned.
    #[must_use]
    pub fn with_keys(self, first: &[u8], last: &[u8]) -> Self {
        Self {
            keys: Some((first.to_vec(), last.to_vec())),
            ..self
        }
    }
}

/// Describes what was verified and what was found.
#[derive(Clone, Debug, Default)]
pub struct VerifyReport {
    /// How much was asked for.
    pub level: VerifyLevel,
    /// All findings, of all grades, in the order in which they were found.
    pub findings: Vec<Finding>,
    /// Tables.
    pub tables: u64,
    /// Blocks whose checksum was compared.
    pub blocks: u64,
    /// Point entries of tables that were looked at.
    pub entries: u64,
    /// Blob files.
    pub blob_files: u64,
    /// Values in blob files whose checksum was compared.
    pub blobs: u64,
    /// Logs.
    pub logs: u64,
    /// Log records whose checksum was compared.
    pub log_records: u64,
    /// MANIFEST records whose checksum was compared.
    pub manifest_records: u64,
    /// Bytes of what was verified.
    pub bytes: u64,
    /// It was called off before the end.
    pub was_called_off: bool,
}

impl VerifyReport {
    /// Returns whether everything asked for was checked and nothing is damaged.
    pub fn is_clean(&self) -> bool {
        !self.was_called_off && self.problems().next().is_none()
    }

    /// Findings that are more than remarks.
    pub fn problems(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|f| f.grade != Grade::Note)
    }
}
