//! Gives the trees the bodies of their background work.

use super::reports::Reports;
use crate::compaction::Compactor;
use crate::core::{BackgroundWork, Engine, Family, Lsm, Together, Voucher};
use crate::flush::Flusher;
use crate::write::Resume;
use spanlith_base::Result;
use std::sync::Arc;

impl BackgroundWork for Engine {
    fn lsm(&self) -> &Lsm {
        self
    }

    fn flush(&self, family: &Arc<Family>) {
        Flusher::new(self, self.log_retirement()).run(family);
    }

    fn flush_together(&self, listed: Together) {
        Flusher::new(self, self.log_retirement()).flush_together(listed);
    }

    fn compact(&self) {
        Compactor::new(self).run_next();
    }

    fn merge_beside(&self) {
        Compactor::new(self).run_beside();
    }

    fn resume_by_itself(&self) -> Result<()> {
        Resume::of(self).by_itself()
    }

    fn report(&self, dump: bool, keep: bool) {
        let reports = Reports::of(self);
        if dump {
            reports.dump();
        }
        if keep {
            reports.keep();
        }
    }

    fn vouch_when_idle(&self) {
        Voucher::new(self, &self.leader).vouch_when_idle();
    }
}
