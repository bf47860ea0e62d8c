//! Where a job's entries go: to the output level, or some of them to the level above it.
//!
//! With `preclude_last_level_data_seconds` a job into the last level has two outputs, told apart by
//! sequence number: what is young, or seen by a snapshot, goes to the *proximal* level, everything else,
//! and what was in the last level before, to the last one. Both lists of tables are cut by the same rules, each
//! by itself.

use super::job::CompactionJob;
use super::outputs::Outputs;
use crate::core::{JobTimes, Lsm, NewTable, SeqnoTimes};
use crate::output::{NewBlobFiles, ValueSink};
use crate::version::{IoNanos, NewFile, Version};
use spanlith_base::range_del::CompactionRangeDels;
use spanlith_base::{MAX_SEQUENCE, Result, SequenceNumber, keys};
use spanlith_env::IoActivity;
use std::sync::Arc;

/// The outputs of a job, or of one range of a job that is split.
pub(super) struct Placed<'a> {
    lsm: &'a Lsm,
    job: &'a CompactionJob,
    /// Where large values go; `None` if they stay in the tables.
    sink: Option<Box<ValueSink<'a>>>,
    main: Outputs<'a>,
    proximal: Option<Proximal<'a>>,
}

struct Proximal<'a> {
    /// Entries after this number belong here.
    after: SequenceNumber,
    outputs: Outputs<'a>,
}

impl<'a> Placed<'a> {
    /// The outputs of the keys from `start` on and before `end`; `None` is open.
    pub(super) fn new(
        lsm: &'a Lsm,
        job: &'a CompactionJob,
        times: &JobTimes,
        start: Option<&[u8]>,
        end: Option<&[u8]>,
    ) -> Self {
        let level = job.plan.output_level;
        let Some(proximal) = &job.plan.proximal else {
            let all = (level, 0..=MAX_SEQUENCE);
            return Self {
                lsm,
                job,
                sink: None,
                main: Outputs::new(lsm, job, all, start, end),
                proximal: None,
            };
        };
        let after = times.proximal_after;
        let above = (proximal.level, after + 1..=MAX_SEQUENCE);
        Self {
            lsm,
            job,
            sink: None,
            main: Outputs::new(lsm, job, (level, 0..=after), start, end),
            proximal: Some(Proximal {
                after,
                outputs: Outputs::new(lsm, job, above, start, end),
            }),
        }
    }

    fn each(&self) -> impl Iterator<Item = &Outputs<'a>> {
        let proximal = self.proximal.as_ref().map(|p| &p.outputs);
        std::iter::once(&self.main).chain(proximal)
    }

    fn each_mut(&mut self) -> impl Iterator<Item = &mut Outputs<'a>> {
        let proximal = self.proximal.as_mut().map(|p| &mut p.outputs);
        // In RocksDB's order, which shows in the numbers of tables.
        proximal.into_iter().chain(std::iter::once(&mut self.main))
    }

    /// Before the first entry: what is known only when the job runs.
    ///
    /// # Errors
    /// As [`ValueSink::new`].
    pub(super) fn begin(
        &mut self,
        settled_up_to: SequenceNumber,
        ranges: &CompactionRangeDels,
        version: &Arc<Version>,
        times: Option<&Arc<SeqnoTimes>>,
    ) -> Result<()> {
        for outputs in self.each_mut() {
            outputs.settled_up_to = settled_up_to;
            outputs.cut_at_tombstones(ranges);
            outputs.version = Some(version.clone());
            outputs.times = times.cloned();
        }
        let (job, activity) = (self.job, IoActivity::Compaction);
        let collect = job.old_blob_files(version).map(|files| (version, files));
        let family = (&*job.family, &*job.settings);
        let level = job.plan.output_level;
        self.sink = ValueSink::new(self.lsm, family, activity, level, collect)?;
        Ok(())
    }

    /// Blob files written, and what relocations left behind. Requires: [`Self::finish`].
    pub(super) fn take_blobs(&mut self) -> Option<NewBlobFiles> {
        self.sink.take().map(|sink| sink.into_files())
    }

    /// Adds an entry where it belongs.
    #[inline]
    pub(super) fn add(
        &mut self,
        key: &[u8],
        value: &[u8],
        ranges: &CompactionRangeDels,
    ) -> Result<()> {
        let (key, value) = match &mut self.sink {
            None => (key, value),
            Some(sink) => sink.pass(key, value)?,
        };
        match &mut self.proximal {
            Some(p) if keys::tag_sequence(keys::tag(key)) > p.after => {
                p.outputs.add(key, value, ranges)
            }
            _ => self.main.add(key, value, ranges),
        }
    }

    /// Ends the last outputs.
    pub(super) fn finish(&mut self, ranges: &CompactionRangeDels) -> Result<()> {
        self.each_mut().try_for_each(|o| o.finish(ranges))?;
        match &mut self.sink {
            None => Ok(()),
            Some(sink) => sink.finish(),
        }
    }

    /// Entries written.
    pub(super) fn entries(&self) -> u64 {
        self.each().map(|o| o.entries).sum()
    }

    /// Of these, entries written to the proximal level.
    pub(super) fn entries_above(&self) -> u64 {
        self.proximal.as_ref().map_or(0, |p| p.outputs.entries)
    }

    /// Entries of the finished tables, without range tombstones, as their properties count them.
    pub(super) fn stored(&self) -> u64 {
        self.each().map(|o| o.stored).sum()
    }

    /// Range tombstones that hide nothing any more and were not written.
    pub(super) fn dropped_ranges(&self) -> u64 {
        self.each().map(|o| o.dropped_ranges).sum()
    }

    /// The finished tables.
    pub(super) fn files(&self) -> impl Iterator<Item = &NewFile> {
        self.each().flat_map(|o| &o.done).map(|t| &t.file)
    }

    /// How long writing took; nothing if nobody wants to know.
    pub(super) fn io_nanos(&self) -> IoNanos {
        let mut sum = IoNanos::default();
        self.each().for_each(|o| sum.add(&o.io_nanos()));
        sum
    }

    /// The finished tables.
    pub(super) fn into_tables(self) -> impl Iterator<Item = NewTable> {
        let proximal = self.proximal.map(|p| p.outputs.done);
        self.main
            .done
            .into_iter()
            .chain(proximal.into_iter().flatten())
    }

    /// Deletes everything written; nothing refers to it.
    pub(super) fn remove_all(self) {
        if let Some(sink) = self.sink {
            sink.remove_all();
        }
        self.main.remove_all();
        if let Some(p) = self.proximal {
            p.outputs.remove_all();
        }
    }
}
