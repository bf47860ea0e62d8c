//! `--trace`, `--trace-blocks` and `--trace-io`: what a load that is measured asks, looks up and calls, recorded.

use clap::Args;
use spanlith::Db;
use spanlith::trace::TraceOptions;
use spanlith_workload::store::TraceFiles;
use std::path::PathBuf;

/// Files of traces.
#[derive(Clone, Debug, Default, Args)]
pub struct TraceFlags {
    /// Records all requests in a file of RocksDB's format
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Records which blocks are looked up in the cache; spanlith trace blocks FILE sums it up
    #[arg(long, value_name = "FILE")]
    trace_blocks: Option<PathBuf>,
    /// Records the calls of the file system; spanlith trace io FILE sums it up
    #[arg(long, value_name = "FILE")]
    trace_io: Option<PathBuf>,
}

impl TraceFlags {
    /// As stores take them.
    pub fn files(&self) -> TraceFiles {
        TraceFiles {
            requests: self.trace.clone(),
            blocks: self.trace_blocks.clone(),
            calls: self.trace_io.clone(),
        }
    }

    /// Returns whether none is named.
    pub fn is_empty(&self) -> bool {
        self.files() == TraceFiles::default()
    }

    /// Begins the traces of a database; they end with it.
    ///
    /// # Errors
    /// Of creating the files.
    pub fn start(&self, db: &Db) -> spanlith::Result<()> {
        if let Some(file) = &self.trace {
            db.start_trace(file, &TraceOptions::default())?;
        }
        self.files().start_own(db)
    }
}
