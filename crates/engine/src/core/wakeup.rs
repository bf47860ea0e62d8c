//! How often a database looks at its files by itself: for their age, and for reads that passed through them.
//!
//! As RocksDB: `max_compaction_trigger_wakeup_seconds`, less if the database wakes up for its statistics anyway, and
//! at most a fifth of the shortest time after which an option asks for a compaction.

use crate::options::{CfOptions, DbOptions};
use std::time::Duration;

/// Part of the shortest time by which a compaction may be late.
const LATE_PART: u64 = 5;

/// The shortest time after which an option of the family asks for a compaction, in seconds; `None` if none does.
fn shortest_age(cf: &CfOptions) -> Option<u64> {
    let thresholds = &cf.compaction_options_fifo.file_temperature_age_thresholds;
    let ages = [
        cf.periodic_compaction_seconds,
        cf.ttl,
        thresholds.0.first().map_or(0, |t| t.age),
        u64::from(cf.bottommost_file_compaction_delay),
    ];
    // Values that mean "as RocksDB thinks right" ask for nothing by themselves.
    let asks = |age: &u64| *age > 0 && *age <= u64::MAX / 2;
    ages.into_iter().filter(asks).min()
}

/// The time between two looks.
pub(super) fn wakeup_period<'a>(
    db: &DbOptions,
    families: impl Iterator<Item = &'a CfOptions>,
) -> Duration {
    let statistics = [db.stats_dump_period_sec, db.stats_persist_period_sec];
    let statistics = statistics.into_iter().filter(|s| *s > 0).map(u64::from);
    let shortest = families.filter_map(shortest_age).min();
    let seconds = statistics
        .chain(shortest.map(|age| age / LATE_PART))
        .fold(db.max_compaction_trigger_wakeup_seconds, u64::min);
    Duration::from_secs(seconds.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_follows_the_shortest_of_what_asks_for_it() {
        let mut db = DbOptions::default();
        let mut cf = CfOptions::default();
        (db.stats_dump_period_sec, db.stats_persist_period_sec) = (0, 0);
        (cf.ttl, cf.periodic_compaction_seconds) = (0, 0);
        let period = |db: &DbOptions, cf: &CfOptions| {
            let families = [CfOptions::default(), cf.clone()];
            wakeup_period(db, families[1..].iter()).as_secs()
        };
        assert_eq!(period(&db, &cf), 12 * 60 * 60);
        db.max_compaction_trigger_wakeup_seconds = 1000;
        assert_eq!(period(&db, &cf), 1000);
        db.stats_dump_period_sec = 600;
        assert_eq!(period(&db, &cf), 600);
        cf.ttl = 1000;
        assert_eq!(period(&db, &cf), 200);
        cf.periodic_compaction_seconds = 100;
        assert_eq!(period(&db, &cf), 20);
        cf.bottommost_file_compaction_delay = 3;
        assert_eq!(period(&db, &cf), 1, "never 0");
        (
            cf.bottommost_file_compaction_delay,
            cf.periodic_compaction_seconds,
        ) = (0, u64::MAX - 1);
        assert_eq!(period(&db, &cf), 200);
        db.max_compaction_trigger_wakeup_seconds = 0;
        assert_eq!(period(&db, &cf), 1);
    }
}
