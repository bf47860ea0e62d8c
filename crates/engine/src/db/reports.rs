//! Describes what the database says of itself now and then: statistics in the info log, and counters kept for
//! later questions.
//!
//! One timer serves both; it holds no reference that would keep the database open.

use super::Db;
use super::properties::Properties;
use super::stats_family::persist_stats;
use crate::core::{Engine, StatsSlice};
use crate::write::WriteWaits;
use spanlith_base::stats::Ticker;

/// Reports of a database about itself.
pub(super) struct Reports<'a> {
    engine: &'a Engine,
}

impl<'a> Reports<'a> {
    pub(super) fn of(engine: &'a Engine) -> Self {
        Self { engine }
    }

    /// Writes the statistics of the database and its families to the info log.
    pub(super) fn dump(&self) {
        let log = self.engine.reporter.log();
        log.info(format_args!("------- DUMPING STATS -------"));
        let properties = Properties::of(self.engine);
        log.info(format_args!("{}", properties.db_stats_text()));
        log.info(format_args!("{}", WriteWaits::new(self.engine).text()));
        for family in self.engine.families.load_full().iter() {
            log.info(format_args!("{}", properties.family_report(family)));
        }
        if let Some(statistics) = self.engine.reporter.statistics() {
            log.info(format_args!("STATISTICS:\n {}", statistics.text()));
        }
        properties.written_bytes().tell(log);
    }

    /// Adds the counters of now to the history.
    pub(super) fn keep(&self) {
        let Some(statistics) = self.engine.reporter.statistics() else {
            return;
        };
        let now: Vec<u64> = Ticker::ALL.iter().map(|&t| statistics.ticker(t)).collect();
        if self.engine.c.options.persist_stats_to_disk {
            return persist_stats(self.engine, now);
        }
        let bytes_max = self.engine.options().stats_history_buffer_size;
        let at = self.engine.c.env.clock.now_micros();
        self.engine.reporter.history().push(at, now, bytes_max);
    }
}

impl Db {
    /// Returns what the counters rose by in the periods that ended in `[from, until)`, in microseconds since the
    /// epoch; oldest first. Empty without statistics. With `persist_stats_to_disk` those of earlier
    /// sittings too, by the second.
    pub fn stats_history(&self, from: u64, until: u64) -> Vec<StatsSlice> {
        if self.engine().c.options.persist_stats_to_disk {
            return self.persisted_stats(from, until);
        }
        let history = self.engine().reporter.history();
        history.between(from, until)
    }
}
