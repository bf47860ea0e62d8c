//! Describes what the database says of itself now and then: statistics in the info log, and counters kept for
//! later questions.
//!
//! One timer serves both; it holds no reference that would keep the database open.

use super::Db;
use super::properties::Properties;
use crate::core::{Engine, StatsSlice};
use crate::options::{DbOptions, InfoLogLevel};
use spanlith_base::stats::Ticker;
use std::sync::{Arc, Weak};
use std::time::Duration;

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

impl Engine {
    /// Starts, changes or ends the reports if their periods differ from those before.
    pub(crate) fn start_reports(self: &Arc<Self>, before: &DbOptions, now: &DbOptions) {
        let periods = |o: &DbOptions| {
            let logged = self.reporter.log().is_enabled(InfoLogLevel::Info);
            let dump = if logged { o.stats_dump_period_sec } else { 0 };
            let counted = self.reporter.statistics().is_some();
            let keep = if counted {
                o.stats_persist_period_sec
            } else {
                0
            };
            (u64::from(dump), u64::from(keep))
        };
        if periods(before) == periods(now) {
            return;
        }
        let (dump, keep) = periods(now);
        let step = gcd(dump, keep);
        if step == 0 || self.c.read_only {
            return self.timers.reports.stop();
        }
        let me = Arc::downgrade(self);
        let mut seconds = 0u64;
        let due = move |seconds: u64, period: u64| period > 0 && seconds.is_multiple_of(period);
        let tick = Box::new(move || {
            seconds += step;
            tick(&me, due(seconds, dump), due(seconds, keep))
        });
        let executor = &*self.c.env.executor;
        let period = Duration::from_secs(step);
        self.timers.reports.restart(executor, "stats", period, tick);
    }

    /// Writes the statistics of the database and its families to the info log.
    pub(crate) fn dump_stats(&self) {
        let log = self.reporter.log();
        log.info(format_args!("------- DUMPING STATS -------"));
        let properties = Properties::of(self);
        log.info(format_args!("{}", properties.db_stats_text()));
        log.info(format_args!("{}", self.write_times_text()));
        for family in self.families.load_full().iter() {
            log.info(format_args!("{}", properties.family_report(family)));
        }
        if let Some(statistics) = self.reporter.statistics() {
            log.info(format_args!("STATISTICS:\n {}", statistics.text()));
        }
        properties.written_bytes().tell(log);
    }

    /// Adds the counters of now to the history.
    pub(crate) fn keep_stats(self: &Arc<Self>) {
        let Some(statistics) = self.reporter.statistics() else {
            return;
        };
        let now: Vec<u64> = Ticker::ALL.iter().map(|&t| statistics.ticker(t)).collect();
        if self.c.options.persist_stats_to_disk {
            return self.persist_stats(now);
        }
        let bytes_max = self.options().stats_history_buffer_size;
        let at = self.c.env.clock.now_micros();
        self.reporter.history().push(at, now, bytes_max);
    }
}

/// One tick; false ends the timer.
fn tick(engine: &Weak<Engine>, dump: bool, keep: bool) -> bool {
    let Some(engine) = engine.upgrade() else {
        return false;
    };
    if engine.stopping() {
        return false;
    }
    if dump {
        engine.dump_stats();
    }
    if keep {
        engine.keep_stats();
    }
    true
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
