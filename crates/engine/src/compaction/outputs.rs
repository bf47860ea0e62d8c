//! The tables a compaction writes, one after the other.

#[cfg(test)]
use super::balance::plant;
use super::job::CompactionJob;
use super::units::tombstone_starts;
use crate::core::{
    CoveredBytes, Lsm, NewTable, Recheck, SeqnoTimes, bottommost_compression_options, codec_choice,
    path_of_output,
};
use crate::filter::TableCreation;
use crate::output::{TableEnd, TableOutput, TableTarget, builder_options};
use crate::picker::OutputCutter;
use crate::version::{IoNanos, IoTimes, NewFile, Version};
use spanlith_base::range_del::{
    CompactionRangeDels, OutputBounds, OutputTombstone, before_versions,
};
use spanlith_base::{Result, SequenceNumber, keys};
use spanlith_env::IoActivity;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Outputs of a job to one level, or of one range of a job that is split.
pub(super) struct Outputs<'a> {
    lsm: &'a Lsm,
    job: &'a CompactionJob,
    /// The level that the outputs go to.
    level: usize,
    /// Numbers of the range tombstones that belong to this level.
    tombstones: RangeInclusive<SequenceNumber>,
    cutter: OutputCutter,
    open: Option<TableOutput>,
    pub done: Vec<NewTable>,
    /// Entries written.
    pub entries: u64,
    /// Range tombstones that hide nothing any more and were not written.
    pub dropped_ranges: u64,
    /// Entries of the finished tables, without range tombstones, as their properties count them.
    pub stored: u64,
    /// Numbers and path ids.
    created: Vec<(u64, u32)>,
    ancester_time: u64,
    newest_key_time: u64,
    epoch: u64,
    /// Internal key at which the first output begins to be responsible for range tombstones, `None`
    /// if it is from the beginning.
    lower: Option<Vec<u8>>,
    /// Internal key at which the last output ends to be responsible.
    upper: Option<Vec<u8>>,
    /// Every snapshot sees range tombstones up to this number.
    pub settled_up_to: SequenceNumber,
    /// Says what lies below the output level; asked for range tombstones.
    pub version: Option<Arc<Version>>,
    /// Places where range tombstones begin, from the next one on in descending order.
    starts: Vec<Vec<u8>>,
    /// Such a place, if the open output begins there.
    begins_at: Option<Vec<u8>>,
    /// The size of an output includes what it will have with one more data block
    /// (`target_file_size_is_upper_bound`).
    counts_tail: bool,
    /// Directory of the open output.
    path_id: u32,
    /// When the entries were written, for families that keep it.
    pub times: Option<Arc<SeqnoTimes>>,
    /// How long writing takes, with `report_bg_io_stats`.
    io_times: Option<Arc<IoTimes>>,
}

impl<'a> Outputs<'a> {
    /// The outputs to `level` of the keys from `start` on and before `end`; `None` is open. Of the range
    /// tombstones those with the numbers `tombstones` belong there.
    pub(super) fn new(
        lsm: &'a Lsm,
        job: &'a CompactionJob,
        (level, tombstones): (usize, RangeInclusive<SequenceNumber>),
        start: Option<&[u8]>,
        end: Option<&[u8]>,
    ) -> Self {
        let plan = &job.plan;
        let files = || plan.inputs.iter().flat_map(|i| &i.1);
        let comparator = &job.family.comparator;
        let in_range = || {
            files().filter(|f| {
                let (low, high) = (f.smallest_user_key(), f.largest_user_key());
                start.is_none_or(|s| comparator.compare(high, s).is_ge())
                    && end.is_none_or(|e| comparator.compare(low, e).is_lt())
            })
        };
        let newest_key_time = in_range()
            .filter_map(|f| job.family.cache.reader(f).ok())
            .map(|reader| reader.properties().newest_key_time)
            .max()
            .unwrap_or(0);
        let ancester_time = in_range()
            .map(|f| f.ancester_time())
            .filter(|&t| t > 0)
            .min()
            .unwrap_or_else(|| lsm.c.env.clock.now_seconds());
        let epoch = files().map(|f| f.epoch_number).min().unwrap_or(0);
        let limit = |key| before_versions(comparator, comparator.strip_timestamp(key));
        let (lower, upper) = (start.map(limit), end.map(limit));
        Self {
            lsm,
            job,
            level,
            tombstones,
            cutter: OutputCutter::new(plan, comparator.clone(), start, end),
            open: None,
            done: Vec::new(),
            entries: 0,
            dropped_ranges: 0,
            stored: 0,
            created: Vec::new(),
            ancester_time,
            newest_key_time,
            epoch,
            lower,
            upper,
            settled_up_to: 0,
            version: None,
            starts: Vec::new(),
            begins_at: None,
            counts_tail: job.settings.options.target_file_size_is_upper_bound,
            times: None,
            path_id: plan.output_path,
            io_times: (job.settings.options.report_bg_io_stats)
                .then(|| Arc::new(IoTimes::new(lsm.c.env.clock.clone()))),
        }
    }

    /// How long writing took; nothing if nobody wants to know.
    pub(super) fn io_nanos(&self) -> IoNanos {
        self.io_times
            .as_ref()
            .map_or_else(IoNanos::default, |t| t.nanos())
    }

    #[inline]
    pub(super) fn add(
        &mut self,
        key: &[u8],
        value: &[u8],
        ranges: &CompactionRangeDels,
    ) -> Result<()> {
        if !self.starts.is_empty() {
            self.pass_starts(Some(key), ranges)?;
        }
        self.open_for(key, ranges)?;
        let table = self.open.as_mut().expect("opened above");
        #[cfg(test)]
        if plant::strikes(plant::Fault::NotStored) {
            self.entries += 1;
            return Ok(());
        }
        table.add(key, value)?;
        self.entries += 1;
        Ok(())
    }

    /// Sees to it that the output is open that the key belongs to; tells whether it is a new one.
    #[inline(always)]
    fn open_for(&mut self, key: &[u8], ranges: &CompactionRangeDels) -> Result<bool> {
        let mut size = self.open.as_ref().map_or(0, TableOutput::file_size);
        if self.counts_tail {
            let rest = TableOutput::rest_size_estimate;
            size += self.open.as_ref().map_or(0, rest);
        }
        let cut = self.cutter.should_cut_before(key, size) && self.open.is_some();
        if cut {
            self.finish_file(ranges, Some(key))?;
        }
        if self.open.is_none() {
            self.start_file()?;
        }
        Ok(cut)
    }

    /// Cuts outputs at the range tombstones of the inputs too, as if entries stood where they begin:
    /// a tombstone over many files of the level below would drag all of them along. To be called
    /// before the first entry.
    pub(super) fn cut_at_tombstones(&mut self, ranges: &CompactionRangeDels) {
        let plan = &self.job.plan;
        if ranges.is_empty() || plan.bottommost || plan.output_level == 0 {
            return;
        }
        let comparator = &self.job.family.comparator;
        let (lower, upper) = (self.lower.as_deref(), self.upper.as_deref());
        let mut starts = tombstone_starts(plan, comparator);
        starts.retain(|start| {
            let against = |limit| comparator.compare_internal(start, limit);
            lower.is_none_or(|l| against(l).is_ge()) && upper.is_none_or(|u| against(u).is_lt())
        });
        starts.reverse();
        self.starts = starts;
    }

    /// Goes over the places before `key` where range tombstones begin.
    #[cold]
    fn pass_starts(&mut self, key: Option<&[u8]>, ranges: &CompactionRangeDels) -> Result<()> {
        while let Some(start) = self.starts.pop() {
            let comparator = &self.job.family.comparator;
            if key.is_some_and(|key| comparator.compare_internal(&start, key).is_gt()) {
                self.starts.push(start);
                break;
            }
            if self.open_for(&start, ranges)? {
                self.begins_at = Some(start);
            }
        }
        Ok(())
    }

    fn start_file(&mut self) -> Result<()> {
        let number = self.lsm.catalog.new_file_number();
        let plan = &self.job.plan;
        self.path_id = path_of_output(
            self.lsm,
            &self.job.family,
            (self.level, number),
            plan.input_bytes().min(plan.max_output_file_size),
            plan.output_path,
        );
        let path = self.job.family.table_path(number, self.path_id);
        let lsm = self.lsm;
        let mut options = builder_options(
            &self.lsm.c,
            &self.lsm.reporter,
            &self.job.family,
            &self.job.settings,
            number,
            self.job.plan.compression,
            self.ancester_time,
        );
        options.newest_key_time = self.newest_key_time;
        options.counters = lsm.reporter.write_counters(TableCreation::Compaction);
        options.hash_contents = Recheck::of_compaction(&self.job.settings.options).contents;
        options.filter_level = self.level as i32;
        // Reads that come down to the last level are expected to find their key there.
        options.skip_filters =
            self.is_deepest() && self.job.settings.options.optimize_filters_for_hits;
        if self.job.plan.is_last_data_level {
            options.compression_options =
                bottommost_compression_options(&self.job.settings.options);
            options.codec_choice = codec_choice(&self.job.settings.options, true);
        }
        let target = TableTarget {
            path: &path,
            activity: IoActivity::Compaction,
            io_times: self.io_times.as_ref(),
        };
        let table = self
            .open
            .insert(TableOutput::create(lsm, &target, options)?);
        if self.job.settings.levels.blob_budget.is_some() {
            table.record_blob_refs();
        }
        self.created.push((number, self.path_id));
        Ok(())
    }

    /// Ends the last output; makes one for range tombstones if there is none but for them.
    pub(super) fn finish(&mut self, ranges: &CompactionRangeDels) -> Result<()> {
        self.pass_starts(None, ranges)?;
        if self.open.is_none() && self.done.is_empty() && !ranges.is_empty() {
            self.start_file()?;
        }
        self.finish_file(ranges, None)
    }

    /// Ends the open output, with the range tombstones up to where the next begins: at the internal
    /// key `next`, if there is one.
    fn finish_file(&mut self, ranges: &CompactionRangeDels, next: Option<&[u8]>) -> Result<()> {
        let Some(mut table) = self.open.take() else {
            return Ok(());
        };
        table.settle();
        if !ranges.is_empty() {
            self.add_tombstones(ranges, next, &mut table)?;
        }
        if table.is_empty() {
            let number = table.number();
            table.abandon();
            let path = self.job.family.table_path(number, self.path_id);
            self.lsm.c.purge.discard(number, &path);
            return Ok(());
        }
        let job = self.job;
        let end = TableEnd {
            family: &job.family,
            level: self.level,
            ancester_time: self.ancester_time,
            created: self.lsm.c.env.clock.now_seconds(),
            times: self.times.as_deref(),
            checks: Recheck::of_compaction(&job.settings.options),
            path_id: self.path_id,
        };
        let table = table.finish(self.lsm, &end, |file| {
            file.oldest_ancester_time = self.ancester_time_of(file);
            file.epoch_number = self.epoch;
            file.temperature = job.output_temperature(self.level);
        })?;
        let p = &table.properties;
        self.stored += p.num_entries.saturating_sub(p.num_range_deletions);
        self.done.push(table);
        Ok(())
    }

    /// Adds the range tombstones that an output is responsible for.
    ///
    /// That begins where the output does, with an entry or with the tombstone that it was cut at, and
    /// ends before all versions of the key that the next begins with, or with the last entry if that is
    /// a version of the same key.
    #[cold]
    fn add_tombstones(
        &mut self,
        ranges: &CompactionRangeDels,
        next: Option<&[u8]>,
        table: &mut TableOutput,
    ) -> Result<()> {
        let (family, plan) = (&self.job.family, &self.job.plan);
        let comparator = &family.comparator;
        let begins_at = self.begins_at.take();
        let lower = if self.done.is_empty() {
            self.lower.clone()
        } else {
            begins_at.or_else(|| Some(table.smallest().to_vec()).filter(|s| !s.is_empty()))
        };
        let upper = next.map_or_else(
            || self.upper.clone(),
            |next| {
                let (next, last) = (keys::user_key(next), table.largest());
                let shares = !last.is_empty()
                    && comparator
                        .compare_without_timestamp(next, true, keys::user_key(last), true)
                        .is_eq();
                Some(match shares {
                    true => last.to_vec(),
                    false => before_versions(comparator, comparator.strip_timestamp(next)),
                })
            },
        );
        let part = OutputBounds {
            lower: lower.as_deref(),
            upper: upper.as_deref(),
            next,
            settled_up_to: self.settled_up_to,
            drops_settled: plan.bottommost,
        };
        if plan.bottommost && self.job.is_counted(&self.lsm.reporter) {
            let all = OutputBounds {
                drops_settled: false,
                ..part
            };
            let settled = ranges.output(&all).iter().filter(|t| t.is_settled).count();
            self.dropped_ranges += settled as u64;
        }
        let version = self.version.as_deref().filter(|_| !plan.bottommost);
        let mut covered = version.map(|v| CoveredBytes::new(family, v, plan.output_level + 1));
        for t in ranges.output(&part) {
            if !self.tombstones.contains(&t.seqno) {
                continue;
            }
            if t.is_settled && self.hides_nothing(&t) {
                self.dropped_ranges += 1;
                continue;
            }
            table.add_tombstone(comparator, &t, covered.as_mut())?;
        }
        Ok(())
    }

    /// Returns whether no reader goes on below these outputs.
    fn is_deepest(&self) -> bool {
        self.job.plan.bottommost && self.level == self.job.plan.output_level
    }

    /// Returns whether nothing below the output level lies in the range of a tombstone.
    fn hides_nothing(&self, t: &OutputTombstone) -> bool {
        let level = self.job.plan.output_level;
        let comparator = &self.job.family.comparator;
        let Some(version) = self
            .version
            .as_deref()
            .filter(|_| level > 0 && self.job.plan.is_leveled)
        else {
            return false;
        };
        let (start, end) = (keys::user_key(&t.smallest), keys::user_key(&t.largest));
        let compare = |a: &[u8], b: &[u8]| comparator.compare_without_timestamp(a, true, b, true);
        (level + 1..version.num_levels()).all(|below| {
            let files = version.files(below);
            let at = files.partition_point(|f| compare(f.largest_user_key(), start).is_lt());
            let next = files.get(at).map(|f| f.smallest_user_key());
            next.is_none_or(|next| compare(end, next).is_le())
        })
    }

    /// When the oldest entry was written that may have come into a finished table: only the inputs count
    /// that its range overlaps. The table itself says what all inputs say.
    fn ancester_time_of(&self, output: &NewFile) -> u64 {
        let c = &self.job.family.comparator;
        let inputs = self.job.plan.input_files().filter(|f| {
            c.compare_internal(&f.largest, &output.smallest).is_ge()
                && c.compare_internal(&f.smallest, &output.largest).is_le()
        });
        let times = inputs.map(|f| f.ancester_time()).filter(|&t| t > 0);
        times.min().unwrap_or(self.ancester_time)
    }

    /// Deletes everything written; nothing refers to it.
    pub(super) fn remove_all(mut self) {
        if let Some(table) = self.open.take() {
            table.abandon();
        }
        for (n, path_id) in &self.created {
            let path = self.job.family.table_path(*n, *path_id);
            self.lsm.c.purge.discard(*n, &path);
        }
    }
}
