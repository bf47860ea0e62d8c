//! Collects what logs hold of each family.

use spanlith_base::Result;
use spanlith_env::FileSystem;
use spanlith_wal::{BatchIter, BatchOp, Salvaged, each_salvaged};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// The newest sequence number that each log has of each family, by log and family, and the numbers of its records.
#[derive(Clone, Debug, Default)]
pub(super) struct Updates {
    newest: BTreeMap<(u64, u32), u64>,
    /// By log: the first number of a run of records, and the one after its last. Records after damage are not in it: a
    /// replay may pass over them.
    runs: BTreeMap<u64, Vec<(u64, u64)>>,
    /// Families of prepared sections.
    prepared: BTreeSet<u32>,
    damaged: BTreeSet<u64>,
}

/// Describes a prepared section, whose entries have no numbers until it is committed.
#[derive(Default)]
struct Section {
    entries: u64,
    /// By family: how many entries stand in front of its last one.
    last: BTreeMap<u32, u64>,
    /// There is damage in front of it.
    is_behind_damage: bool,
}

/// Logs that are read, in their order.
#[derive(Default)]
struct Reading {
    updates: Updates,
    /// Sections that nobody decided about, by name of the transaction.
    sections: BTreeMap<Vec<u8>, Section>,
}

impl Reading {
    fn take(&mut self, log: u64, found: Salvaged<'_>) {
        let Ok(batch) = BatchIter::new(found.record) else {
            return;
        };
        let first = batch.sequence();
        let (mut sequence, mut is_sure) = (first, !found.is_behind_damage);
        let mut open: Option<Section> = None;
        for op in batch.into_iter().map_while(Result::ok) {
            match op {
                BatchOp::BeginPrepare(_) => {
                    open = Some(Section {
                        is_behind_damage: found.is_behind_damage,
                        ..Section::default()
                    });
                }
                BatchOp::EndPrepare { xid } => {
                    if let Some(section) = open.take() {
                        self.updates.prepared.extend(section.last.keys());
                        self.sections.insert(xid.to_vec(), section);
                    }
                }
                // The entries get their numbers now. Without the section nothing is committed.
                BatchOp::Commit { xid } | BatchOp::CommitWithTimestamp { xid, .. } => {
                    let Some(section) = self.sections.remove(xid) else {
                        continue;
                    };
                    for (&cf, &at) in &section.last {
                        self.updates.note(log, cf, sequence.saturating_add(at));
                    }
                    sequence = sequence.saturating_add(section.entries);
                    is_sure &= !section.is_behind_damage;
                }
                BatchOp::Rollback { xid } => drop(self.sections.remove(xid)),
                op => match (op.cf(), &mut open) {
                    (Some(cf), Some(section)) => {
                        section.last.insert(cf, section.entries);
                        section.entries += 1;
                    }
                    (Some(cf), None) => {
                        self.updates.note(log, cf, sequence);
                        sequence = sequence.saturating_add(1);
                    }
                    (None, _) => {}
                },
            }
        }
        if is_sure && sequence > first {
            let runs = self.updates.runs.entry(log).or_default();
            match runs.last_mut().filter(|run| run.1 == first) {
                Some(run) => run.1 = sequence,
                None => runs.push((first, sequence)),
            }
        }
    }
}

impl Updates {
    /// Reads the logs from number `from` on. What cannot be read is left out: their replay reports it.
    ///
    /// # Errors
    /// Of the file system.
    pub(super) fn read(
        fs: &dyn FileSystem,
        logs: &BTreeMap<u64, PathBuf>,
        from: u64,
    ) -> Result<Self> {
        let mut reading = Reading::default();
        for (&log, path) in logs.range(from..) {
            let met = each_salvaged(fs, path, log, &mut |found| reading.take(log, found))?;
            if met.is_damaged && !met.is_recycled {
                reading.updates.damaged.insert(log);
            }
        }
        Ok(reading.updates)
    }

    fn note(&mut self, log: u64, family: u32, sequence: u64) {
        let newest = self.newest.entry((log, family)).or_default();
        *newest = sequence.max(*newest);
    }

    /// Ids of the families that they name.
    pub(super) fn families(&self) -> BTreeSet<u32> {
        let written = self.newest.keys().map(|(_, family)| family);
        written.chain(&self.prepared).copied().collect()
    }

    /// Returns whether the logs from a number on have records of all sequence numbers from `first` to `last`, with no damage
    /// in front of one in its log. Only then do they hold all that a table with these numbers does: the logs in which it
    /// began may be gone.
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
    use spanlith_env::{IoActivity, MemFs};
    use spanlith_wal::{LogWriter, PrepareKind, WriteBatch};
    use std::path::Path;

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
        // It begins before them, ends after them, or has numbers of a log that is gone or not needed.
        assert!(!logs.cover(0, (9, 12)) && !logs.cover(0, (20, 25)) && !logs.cover(0, (24, 31)));
        assert!(!logs.cover(9, (12, 19)) && !logs.cover(13, (30, 31)) && !logs.cover(0, (50, 60)));
    }

    fn batch(sequence: u64, families: &[u32]) -> WriteBatch {
        let mut batch = WriteBatch::new();
        batch.mark_noop();
        for &family in families {
            batch.put_cf(family, b"key", b"value").unwrap();
        }
        batch.set_sequence(sequence);
        batch
    }

    /// Writes logs of these batches.
    fn logs(fs: &MemFs, all: &[(u64, &[WriteBatch])]) -> BTreeMap<u64, PathBuf> {
        let mut paths = BTreeMap::new();
        for (number, batches) in all {
            let path = Path::new("/").join(number.to_string());
            let file = fs.create(&path, IoActivity::Wal).unwrap();
            let mut log = LogWriter::new(file, *number);
            for batch in *batches {
                log.add_record(batch.as_bytes()).unwrap();
            }
            log.close().unwrap();
            paths.insert(*number, path);
        }
        paths
    }

    /// Its entries are newer than everything that was written between prepare and commit.
    #[test]
    fn a_prepared_section_counts_where_it_is_committed() {
        let fs = MemFs::new();
        let mut section = batch(10, &[1, 2, 1]);
        let kind = PrepareKind::Committed;
        section.mark_prepared(b"xid", kind).unwrap();
        let mut commit = batch(20, &[]);
        commit.mark_commit(b"xid").unwrap();
        let mut unknown = batch(23, &[]);
        unknown.mark_commit(b"other").unwrap();
        let between = [batch(10, &[1; 10])];
        let after = [commit, unknown, batch(23, &[2])];
        let paths = logs(&fs, &[(8, &[section]), (9, &between), (10, &after)]);
        let read = |from| Updates::read(&fs, &paths, from).unwrap();
        let found = read(0);
        assert_eq!(
            found.runs,
            [(9, vec![(10, 20)]), (10, vec![(20, 24)])].into()
        );
        assert_eq!(found.first_beyond(1, 19), Some(10));
        assert_eq!(found.first_beyond(1, 22), None);
        assert_eq!(found.first_beyond(2, 0), Some(10));
        assert_eq!(found.first_beyond(2, 22), Some(10));
        // Without the section there is nothing to commit.
        assert_eq!(read(9).first_beyond(1, 19), None);
        let undecided = Updates::read(&fs, &[(8, paths[&8].clone())].into(), 0).unwrap();
        assert_eq!(undecided.families(), [1, 2].into());
        assert_eq!(undecided.first_beyond(1, 0), None);
        assert!(undecided.runs.is_empty());
    }

    /// A replay drops the rest of a block after damage.
    #[test]
    fn records_behind_damage_cover_nothing() {
        let fs = MemFs::new();
        let batches: Vec<WriteBatch> = (10..15).map(|n| batch(n, &[0])).collect();
        let paths = logs(&fs, &[(8, &batches)]);
        let whole = Updates::read(&fs, &paths, 0).unwrap();
        assert!(whole.cover(0, (10, 14)) && whole.damaged().is_empty());
        let mut bytes = fs.read_file(&paths[&8]).unwrap();
        let second = bytes.len() / 5;
        bytes[second + 20] ^= 1;
        fs.write_file(&paths[&8], &bytes).unwrap();
        let found = Updates::read(&fs, &paths, 0).unwrap();
        assert_eq!(found.damaged(), &[8].into());
        assert!(found.cover(0, (10, 10)));
        assert!(!found.cover(0, (10, 11)) && !found.cover(0, (12, 14)));
        // They are looked for all the same.
        assert_eq!(found.first_beyond(0, 13), Some(8));
    }
}
