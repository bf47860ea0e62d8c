//! The logs of an open database as the state mutex knows them: which there are, how large, and which are needed (WAL3).
//!
//! Bookkeeping only; files are the business of [`LogSet`](super::LogSet).

use crate::version::VersionEdit;
use spanlith_base::{FileNumber, SequenceNumber};
use std::collections::{BTreeMap, VecDeque};

/// A log's number and bytes.
pub(crate) type SizedLog = (FileNumber, u64);

/// See the head of the module.
#[derive(Debug, Default)]
pub(crate) struct LogList {
    /// Logs on disk, oldest first; the last is being written.
    live: VecDeque<FileNumber>,
    /// Bytes of those that are not written any more.
    closed: BTreeMap<FileNumber, u64>,
    /// Logs below this number may go: the MANIFEST says that nobody needs them (WAL3).
    kept: FileNumber,
    /// Number of the first log that this engine made. Older ones may be of another form and are not
    /// written again.
    first_own: FileNumber,
    /// Logs that will not grow, and their synced bytes, that the MANIFEST does not tell yet.
    ends: Vec<SizedLog>,
    /// Logs that nobody needs, kept to be written again.
    reusable: VecDeque<FileNumber>,
    /// The families that need this log, or older ones, were told to flush because the logs are too
    /// large; not told again while it is there.
    being_released: FileNumber,
}

impl LogList {
    /// No log is there yet; those below `kept` are not needed.
    pub(crate) fn new(kept: FileNumber) -> Self {
        Self {
            kept,
            ..Self::default()
        }
    }

    /// Number below which logs are not needed (WAL3).
    pub(crate) fn kept(&self) -> FileNumber {
        self.kept
    }

    /// Logs below `number` are not needed: the MANIFEST says so.
    pub(super) fn keep_from(&mut self, number: FileNumber) {
        self.kept = self.kept.max(number);
    }

    /// The log that is being written.
    pub(crate) fn newest(&self) -> Option<FileNumber> {
        self.live.back().copied()
    }

    /// The oldest log that is there.
    pub(crate) fn oldest(&self) -> Option<FileNumber> {
        self.live.front().copied()
    }

    /// The oldest log from `number` on.
    pub(super) fn oldest_from(&self, number: FileNumber) -> Option<FileNumber> {
        self.live.iter().copied().find(|&n| n >= number)
    }

    /// Returns whether the log is there.
    pub(crate) fn contains(&self, number: FileNumber) -> bool {
        self.live.contains(&number)
    }

    /// All logs that are there, oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = FileNumber> + '_ {
        self.live.iter().copied()
    }

    /// The needed ones of them.
    pub(crate) fn needed(&self) -> impl Iterator<Item = FileNumber> + '_ {
        self.iter().filter(|&n| n >= self.kept)
    }

    /// Bytes of a log that is not written any more.
    pub(crate) fn closed_size(&self, number: FileNumber) -> Option<u64> {
        self.closed.get(&number).copied()
    }

    /// Bytes of logs from `first` on that are not written any more.
    pub(crate) fn closed_bytes(&self, first: FileNumber) -> u64 {
        self.closed.range(first..).map(|l| l.1).sum()
    }

    /// Returns whether this engine made the log.
    pub(crate) fn is_own(&self, number: FileNumber) -> bool {
        number >= self.first_own
    }

    /// Log `number` is being written from now on, `before` is not any more.
    pub(crate) fn begin(&mut self, number: FileNumber, before: Option<SizedLog>) {
        debug_assert!(
            self.newest().is_none_or(|newest| newest < number),
            "WAL3: logs are listed in their order"
        );
        self.live.push_back(number);
        self.closed.extend(before);
    }

    /// As [`Self::begin`]; no file of a log before is written again, under whatever name.
    pub(crate) fn begin_apart(&mut self, number: FileNumber, before: Option<SizedLog>) {
        self.begin(number, before);
        self.first_own = number;
    }

    /// After recovery: these logs, oldest first, were replayed and stay until their entries are in tables.
    pub(crate) fn add_replayed(&mut self, logs: &[SizedLog]) {
        self.closed.extend(logs.iter().copied());
        self.live.extend(logs.iter().map(|l| l.0));
    }

    /// Takes the logs off the list that are not needed, oldest first.
    pub(crate) fn take_dead(&mut self) -> Vec<FileNumber> {
        let keep = self.kept;
        debug_assert!(
            self.live.iter().is_sorted(),
            "WAL3: logs are listed in their order"
        );
        let n = self.live.iter().take_while(|&&l| l < keep).count();
        self.closed.retain(|&n, _| n >= keep);
        self.live.drain(..n).collect()
    }

    /// Keeps a dead log to be written again, if this engine made it and fewer than `max` are kept. Returns whether it does.
    pub(super) fn keep_for_reuse(&mut self, number: FileNumber, max: usize) -> bool {
        let keeps = self.is_own(number) && self.reusable.len() < max;
        if keeps {
            self.reusable.push_back(number);
        }
        keeps
    }

    /// A log to be written again, if there is one.
    pub(crate) fn take_reusable(&mut self) -> Option<FileNumber> {
        self.reusable.pop_front()
    }

    /// Says, of the files that are there now, which are logs with contents.
    pub(super) fn known(&self) -> KnownLogs {
        KnownLogs {
            reusable: self.reusable.clone(),
            newest: self.newest(),
        }
    }

    /// Logs too many are there: returns whether those who need the oldest one are to be told, which they were not yet.
    pub(crate) fn begin_release(&mut self) -> bool {
        let oldest = self.oldest().unwrap_or(0);
        let is_news = self.being_released < oldest;
        if is_news {
            self.being_released = oldest;
        }
        is_news
    }

    /// These logs do not grow any more; the bytes are synced.
    pub(crate) fn note_ends(&mut self, ends: impl IntoIterator<Item = SizedLog>) {
        self.ends.extend(ends);
    }

    /// The record that says which logs ended, and with how many synced bytes, if that was not said yet and they are still
    /// needed once `records` are written; the newest write in tables is `last_sequence`.
    pub(super) fn take_ends(
        &mut self,
        records: &[VersionEdit],
        last_sequence: SequenceNumber,
    ) -> Option<VersionEdit> {
        let kept = records.iter().filter_map(|e| e.min_log_number_to_keep);
        let kept = kept.fold(self.kept, u64::max);
        let ends = std::mem::take(&mut self.ends);
        let log_ends: Vec<_> = ends.into_iter().filter(|l| l.0 >= kept).collect();
        (!log_ends.is_empty()).then(|| VersionEdit {
            log_ends,
            prev_log_number: Some(0),
            last_sequence: Some(last_sequence),
            ..VersionEdit::default()
        })
    }
}

/// The logs at some moment, to judge files by that are listed later.
pub(super) struct KnownLogs {
    reusable: VecDeque<FileNumber>,
    newest: Option<FileNumber>,
}

impl KnownLogs {
    /// Returns whether a file of that number, live or archived, is a log with contents: neither kept to be written again
    /// nor in the making at that moment.
    pub(super) fn has_contents(&self, number: FileNumber) -> bool {
        !self.reusable.contains(&number) && self.newest.is_none_or(|newest| number <= newest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wal3_logs_go_oldest_first_and_only_below_the_number_that_is_kept() {
        let mut logs = LogList::new(4);
        logs.add_replayed(&[(4, 40), (6, 60)]);
        logs.begin_apart(8, None);
        logs.begin(9, Some((8, 80)));
        assert_eq!(logs.needed().collect::<Vec<_>>(), [4, 6, 8, 9]);
        assert_eq!((logs.closed_bytes(0), logs.closed_bytes(6)), (180, 140));
        assert!(logs.take_dead().is_empty());
        logs.keep_from(9);
        logs.keep_from(5);
        assert_eq!(logs.take_dead(), [4, 6, 8]);
        assert_eq!((logs.oldest(), logs.newest()), (Some(9), Some(9)));
        assert_eq!((logs.closed_size(8), logs.closed_bytes(0)), (None, 0));
        // Only what this engine made is written again, and not too much of it.
        assert!(!logs.keep_for_reuse(6, 1) && logs.keep_for_reuse(8, 1));
        assert!(!logs.keep_for_reuse(9, 1));
        let known = logs.known();
        logs.begin(10, Some((9, 90)));
        assert!(!known.has_contents(8) && known.has_contents(9) && !known.has_contents(10));
        assert_eq!(
            (logs.take_reusable(), logs.take_reusable()),
            (Some(8), None)
        );
    }

    #[test]
    fn those_who_need_the_oldest_log_are_told_once() {
        let mut logs = LogList::new(0);
        logs.begin(3, None);
        assert!(logs.begin_release() && !logs.begin_release());
        logs.begin(5, Some((3, 1)));
        assert!(!logs.begin_release());
        logs.keep_from(5);
        logs.take_dead();
        assert!(logs.begin_release());
    }

    #[test]
    fn ends_are_told_once_and_only_of_logs_that_stay() {
        let mut logs = LogList::new(2);
        logs.note_ends([(1, 10), (3, 30), (5, 50)]);
        let gives_up = VersionEdit {
            min_log_number_to_keep: Some(4),
            ..VersionEdit::default()
        };
        let edit = logs.take_ends(&[gives_up], 7).unwrap();
        assert_eq!(
            (edit.log_ends, edit.last_sequence),
            (vec![(5, 50)], Some(7))
        );
        assert!(logs.take_ends(&[], 7).is_none());
    }
}
