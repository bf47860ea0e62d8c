//! The state of a verification: what it has found so far, how fast it may read, and whether it goes on.

use super::report::{Finding, VerifyLevel, VerifyOptions, VerifyProgress, VerifyReport};
use spanlith_base::{Error, Result};
use spanlith_env::{
    Env, IoDirection, IoPriority, PacedReader, RandomAccessFile, RateLimiter, RateLimiterMode,
    RateLimiterOptions,
};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

/// Told how far a verification is, after every piece of at most some MiB; says whether it goes on.
pub type Progress<'p> = &'p mut dyn FnMut(&VerifyProgress<'_>) -> ControlFlow<()>;

/// Checks files and collects findings.
///
/// Its methods fail only when the verification is called off, with `Aborted`; whatever is wrong with a
/// file is a finding.
pub struct Verifier<'a> {
    pub(super) env: Env,
    pub(super) report: VerifyReport,
    limiter: Option<Arc<RateLimiter>>,
    progress: Progress<'a>,
    file: String,
    done_bytes: u64,
    total_bytes: u64,
}

impl std::fmt::Debug for Verifier<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Verifier")
            .field("file", &self.file)
            .field("report", &self.report)
            .finish_non_exhaustive()
    }
}

impl<'a> Verifier<'a> {
    /// Begins a verification in `env`.
    pub fn new(env: &Env, options: &VerifyOptions, progress: Progress<'a>) -> Self {
        let limiter = (options.bytes_per_second > 0).then(|| {
            let limits = RateLimiterOptions {
                mode: RateLimiterMode::Reads,
                ..RateLimiterOptions::new(options.bytes_per_second)
            };
            Arc::new(RateLimiter::new(&limits, env.clock.clone()))
        });
        Self {
            env: env.clone(),
            report: VerifyReport {
                level: options.level,
                ..VerifyReport::default()
            },
            limiter,
            progress,
            file: String::new(),
            done_bytes: 0,
            total_bytes: 0,
        }
    }

    /// Says how many bytes there are: of tables and of everything else that is read once.
    pub fn expect(&mut self, table_bytes: u64, other_bytes: u64) {
        let (tables, others) = match self.level() {
            VerifyLevel::Quick => (0, 0),
            VerifyLevel::Checksums => (1, 1),
            // Blocks, entries, order across tables.
            VerifyLevel::Full => (3, 1),
        };
        self.total_bytes += table_bytes * tables + other_bytes * others;
    }

    /// Changes how much is verified of what comes next.
    pub fn set_level(&mut self, level: VerifyLevel) {
        self.report.level = level;
    }

    /// Returns what was found.
    pub fn finish(self) -> VerifyReport {
        self.report
    }

    /// Adds a finding.
    pub fn add(&mut self, finding: Finding) {
        self.report.findings.push(finding);
    }

    /// How much is verified.
    pub(super) fn level(&self) -> VerifyLevel {
        self.report.level
    }

    pub(super) fn findings(&self) -> usize {
        self.report.findings.len()
    }

    /// The file at hand is `name`.
    pub(super) fn begin(&mut self, name: &str) -> Result<()> {
        name.clone_into(&mut self.file);
        self.step(0)
    }

    /// So many more bytes are done.
    ///
    /// # Errors
    /// `Aborted` if the verification is called off.
    pub(super) fn step(&mut self, bytes: u64) -> Result<()> {
        self.done_bytes += bytes;
        let now = VerifyProgress {
            file: &self.file,
            done_bytes: self.done_bytes,
            total_bytes: self.total_bytes.max(self.done_bytes),
            findings: self.report.findings.len(),
        };
        if (self.progress)(&now).is_continue() && !self.report.was_called_off {
            return Ok(());
        }
        self.report.was_called_off = true;
        Err(Error::aborted("verification called off"))
    }

    /// Waits until so many bytes, which were read without asking, are due.
    pub(super) fn pace(&self, mut bytes: u64) {
        let Some(limiter) = &self.limiter else {
            return;
        };
        let burst = limiter.single_burst_bytes().max(1);
        while bytes > 0 {
            let part = bytes.min(burst);
            limiter.request(part, IoPriority::Low, IoDirection::Read);
            bytes -= part;
        }
    }

    /// Opens a file whose reads wait as the pace says.
    ///
    /// # Errors
    /// Of the file system.
    pub(super) fn open(&self, path: &Path) -> Result<Arc<dyn RandomAccessFile>> {
        let file = self.env.fs.open_random(path)?;
        Ok(match &self.limiter {
            None => file,
            Some(limiter) => Arc::new(PacedReader::new(file, limiter.clone(), IoPriority::Low)),
        })
    }
}
