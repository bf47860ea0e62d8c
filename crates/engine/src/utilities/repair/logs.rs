//! Collects what logs hold of each family.

use spanlith_base::Result;
use spanlith_env::FileSystem;
use spanlith_wal::{BatchIter, each_record};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// The newest sequence number that each log has of each family, by log and family, and the numbers of its records.
#[derive(Clone, Debug, Default)]
pub(super) struct Updates {
    newest: BTreeMap<(u64, u32), u64>,
    /// By log: the first number of a run of records, and the one after its last.
    runs: BTreeMap<u64, Vec<(u64, u64)>>,
    damaged: BTreeSet<u64>,
}

impl Updates {
    /// Reads all logs. What cannot be read is left out: their replay reports it.
    ///
    /// # Errors
    /// Of the file system.
    pub(super) fn read(fs: &dyn FileSystem, logs: &BTreeMap<u64, PathBuf>) -> Result<Self> {
        let mut newest: BTreeMap<(u64, u32), u64> = BTreeMap::new();
        let mut damaged = BTreeSet::new();
        let mut runs: BTreeMap<u64, Vec<(u64, u64)>> = BTreeMap::new();
        for (&log, path) in logs {
            let mut take = |_: u64, record: &[u8]| {
                let Ok(batch) = BatchIter::new(record) else {
                    return;
                };
                let mut sequence = batch.sequence();
                let first = sequence;
                for op in batch.into_iter().map_while(Result::ok) {
                    if let Some(cf) = op.cf() {
                        let newest = newest.entry((log, cf)).or_default();
                        *newest = sequence.max(*newest);
                    }
                    sequence = sequence.saturating_add(u64::from(op.is_counted()));
                }
                let runs = runs.entry(log).or_default();
                match runs.last_mut().filter(|run| run.1 == first) {
                    Some(run) => run.1 = sequence,
                    None => runs.push((first, sequence)),
                }
            };
            let met = each_record(fs, path, log, &mut take)?;
            if met.is_damaged && !met.is_recycled {
                damaged.insert(log);
            }
        }
        Ok(Self {
            newest,
            runs,
            damaged,
        })
    }

    /// Ids of the families that they name.
    pub(super) fn families(&self) -> BTreeSet<u32> {
        self.newest.keys().map(|(_, family)| *family).collect()
    }

    /// Returns whether the logs from a number on have records of all sequence numbers from `first` to `last`. Only then
    /// do they hold all that a table with these numbers does: the logs in which it began may be gone.
    pub(super) fn cover(&self, from_log: u64, (first, last): (u64, u64)) -> bool {
        let mut runs: Vec<(u64, u64)> = self
            .runs
            .range(from_log..)
            .flat_map(|(_, runs)| runs)
            .copied()
            .collect();
        runs.sort_unstable();
        let end = runs.iter().fold(first, |end, run| match run.0 <= end {
            true => end.max(run.1),
            false => end,
        });
        end > last
    }

    /// The first log with an update of a family that is newer than a number.
    pub(super) fn first_beyond(&self, family: u32, sequence: u64) -> Option<u64> {
        let of_family = self.newest.iter().filter(|((_, id), _)| *id == family);
        let mut beyond = of_family.filter(|(_, newest)| **newest > sequence);
        beyond.next().map(|((log, _), _)| *log)
    }

    /// Logs of which something cannot be read: damage, or what a crash cut off.
    pub(super) fn damaged(&self) -> &BTreeSet<u64> {
        &self.damaged
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_cover_what_they_have_without_a_gap() {
        let logs = Updates {
            runs: [
                (8, vec![(10, 15), (20, 25)]),
                (9, vec![(15, 20)]),
                (12, vec![(30, 40)]),
            ]
            .into(),
            ..Updates::default()
        };
        assert!(logs.cover(0, (10, 24)) && logs.cover(8, (12, 12)) && logs.cover(9, (15, 19)));
        // It begins before them, ends behind them, or has numbers of a log that is gone or not needed.
        assert!(!logs.cover(0, (9, 12)) && !logs.cover(0, (20, 25)) && !logs.cover(0, (24, 31)));
        assert!(!logs.cover(9, (12, 19)) && !logs.cover(13, (30, 31)) && !logs.cover(0, (50, 60)));
    }
}
