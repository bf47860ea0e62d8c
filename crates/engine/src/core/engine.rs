//! The shared state of an open database.

use super::lsm::{Components, Lsm, LsmParts};
use super::options_file::{OptionsFiles, OptionsWriter};
use super::spare::SpareMemory;
use super::state::{DbState, LeaderState, Leadership, rank};
use super::transactions::Transactions;
use super::{LogRetirement, Outstanding, Payload, Tracing};
use crate::commit::CommitPipeline;
use crate::options::DbOptions;
use spanlith_base::sync::Mutex;
use std::ops::Deref;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock, Weak};

/// An open database: its trees, and the way that writes take into them.
pub(crate) struct Engine {
    /// The trees and the work on them. Verbs of these are reached through [`Deref`].
    lsm: Lsm,
    /// The OPTIONS files, and the order in which they are written.
    pub options_files: OptionsFiles,
    /// The queue of writers.
    pub pipeline: CommitPipeline<Payload<'static>>,
    /// Says what transactions share.
    pub transactions: Transactions,
    /// Held by who resumes after an error.
    pub resume_token: Mutex<()>,
    pub leader: Leadership,
    /// Counts ingestions, twice each: odd while superversions of one are being replaced.
    pub ingestions: AtomicU64,
    /// Traces that are being written.
    pub tracing: Tracing,
    /// Asynchronous requests, from the first one on.
    pub requests: OnceLock<Arc<dyn Outstanding>>,
    /// Dropped after all that holds memtables.
    #[expect(dead_code, reason = "does its work when it is dropped")]
    spare: SpareMemory,
}

impl Deref for Engine {
    type Target = Lsm;

    #[inline]
    fn deref(&self) -> &Lsm {
        &self.lsm
    }
}

impl Engine {
    /// Assembles an engine from its parts.
    pub(crate) fn new(
        c: Components,
        parts: LsmParts,
        leader: LeaderState,
        state: DbState,
        options: DbOptions,
    ) -> Arc<Self> {
        let in_flight = (c.speed.is_some()).then_some(c.options.own.sd_writes_in_flight);
        let clock = c.env.clock.clone();
        let spare = SpareMemory::new(c.env.executor.clone());
        Arc::new_cyclic(|me: &Weak<Self>| Self {
            lsm: Lsm::new(c, parts, state, options, me.clone()),
            options_files: OptionsFiles::default(),
            pipeline: CommitPipeline::new(),
            transactions: Transactions::new(clock),
            resume_token: Mutex::new(rank::RESUME, ()),
            leader: Leadership::new(rank::LEADER, leader, in_flight),
            ingestions: AtomicU64::new(0),
            spare,
            tracing: Tracing::default(),
            requests: OnceLock::new(),
        })
    }

    /// The trees and the work on them.
    #[inline]
    pub(crate) fn lsm(&self) -> &Lsm {
        &self.lsm
    }

    /// Puts logs away that hold nothing unflushed.
    pub(crate) fn log_retirement(&self) -> LogRetirement<'_> {
        LogRetirement::new(&self.lsm, &self.leader)
    }

    /// Writes OPTIONS files, and deletes them.
    pub(crate) fn options_writer(&self) -> OptionsWriter<'_> {
        OptionsWriter::new(self, &self.options_files)
    }
}
