//! Describes what FIFO compaction does by itself.
//!
//! The newest data is kept, in level 0, and the oldest files are deleted whole, also under snapshots: once
//! their newest key is older than `ttl`, and while all data takes more than it may. With `allow_compaction`
//! small files are merged, with `file_temperature_age_thresholds` a file that has aged is rewritten with
//! another temperature. Data that another style left in deeper levels goes first, from the deepest level and
//! the smallest key on. All numbers and the order are those of RocksDB 11.8.

use super::inputs::{Draft, Files, PickerInput, Picking, total_size};
use super::plan::{CompactionPlan, CompactionReason};
use crate::options::Temperature;
use crate::version::FileMeta;
use crate::version::levels::multiply;
use std::sync::Arc;

/// Smallest bound of a tier.
const TIER_MIN: u64 = 10 << 10;

/// The next compaction of a family, if any is due and can run beside those that are running.
pub fn pick_fifo(input: &PickerInput<'_>) -> Option<CompactionPlan> {
    let fifo = Fifo::new(input);
    fifo.expired()
        .or_else(|| fifo.oversized())
        .or_else(|| fifo.small_files())
        .or_else(|| fifo.aged())
        .or_else(|| fifo.misleading())
}

/// Returns whether [`pick_fifo`] would look for something to do.
pub fn fifo_needs_compaction(input: &PickerInput<'_>) -> bool {
    Fifo::new(input).score() >= 1.0
}

/// A pick in progress.
struct Fifo<'a> {
    picking: Picking<'a>,
    /// Level 0, newest first.
    files: &'a [Arc<FileMeta>],
}

/// Unix seconds of the newest key of a file, as its table says; `None` if it does not, or is not open.
fn told_newest(file: &FileMeta) -> Option<u64> {
    let time = file.reader.get()?.properties().newest_key_time;
    (time > 0).then_some(time)
}

/// Unix seconds after which nothing in the file was written, by what is known; `None` for unknown. A file
/// holds nothing that is newer than itself.
fn newest_for_ttl(file: &FileMeta) -> Option<u64> {
    let known = match file.reader.get() {
        Some(reader) => told_newest(file).unwrap_or_else(|| reader.properties().creation_time),
        None => file.made_at(),
    };
    (known > 0).then_some(known)
}

impl<'a> Fifo<'a> {
    fn new(input: &'a PickerInput<'a>) -> Self {
        let picking = Picking::new(input);
        let files = input.version.files(0);
        Self { picking, files }
    }

    fn score(&self) -> f64 {
        let score = self.picking.targets.top_score();
        let (ttl, now) = (self.picking.input.options.ttl, self.picking.input.now);
        if score < 1.0 && ttl > 0 && now > ttl {
            let is_expired = |f: &&Arc<FileMeta>| {
                let time = f.ancester_time();
                !f.is_being_compacted() && time > 0 && time < now - ttl
            };
            let expired = self.files.iter().filter(is_expired).count();
            if expired > 0 {
                return expired as f64;
            }
        }
        if score < 1.0 && self.next_aged(true).is_some() {
            return 1.1;
        }
        score
    }

    fn level0_is_busy(&self) -> bool {
        self.picking.level0_is_busy()
    }

    /// How much all data may take.
    fn limit(&self) -> u64 {
        let o = &self.picking.input.options.fifo;
        match o.max_data_files_size {
            0 => o.max_table_files_size,
            limit => limit,
        }
    }

    fn counts_blobs(&self) -> bool {
        self.picking.input.options.fifo.max_data_files_size > 0
    }

    /// The oldest files, as far as their newest key is older than `ttl`, if the rest is not too large: then
    /// sizes decide.
    fn expired(&self) -> Option<CompactionPlan> {
        let (ttl, now) = (self.picking.input.options.ttl, self.picking.input.now);
        if ttl == 0 || now <= ttl || self.level0_is_busy() {
            return None;
        }
        let is_expired = |f: &&Arc<FileMeta>| newest_for_ttl(f).is_some_and(|t| t < now - ttl);
        let count = self.files.iter().rev().take_while(is_expired).count();
        let (rest, taken) = self.files.split_at(self.files.len() - count);
        let mut size = total_size(rest);
        if self.counts_blobs() {
            let version = self.picking.version();
            let all = version.total_size();
            let left = all - total_size(taken);
            let blobs = match all {
                0 => 0,
                all => (left as f64 / all as f64 * version.blob_bytes() as f64) as u64,
            };
            size = left.saturating_add(blobs);
        }
        if taken.is_empty() || size > self.limit() {
            return None;
        }
        Some(self.deletion(0, taken.to_vec(), CompactionReason::FifoTtl))
    }

    /// The oldest files, until the rest is not too large. In a deeper level, which another style left, age is
    /// not known: files with the smallest keys go first.
    fn oversized(&self) -> Option<CompactionPlan> {
        let version = self.picking.version();
        let last = version.num_non_empty_levels().saturating_sub(1);
        let mut size = version.total_size();
        if self.counts_blobs() {
            size = size.saturating_add(version.blob_bytes());
        }
        let limit = self.limit();
        if size <= limit || self.level0_is_busy() {
            return None;
        }
        let files = version.files(last);
        // As in RocksDB each file stands for an equal share of tables and blob files.
        let share = self
            .counts_blobs()
            .then(|| (size / files.len().max(1) as u64).max(1));
        let mut taken = Files::new();
        let oldest_first: Vec<&Arc<FileMeta>> = match last {
            0 => files.iter().rev().collect(),
            _ => files.iter().filter(|f| !f.is_being_compacted()).collect(),
        };
        for file in oldest_first {
            if size <= limit {
                break;
            }
            size = size.saturating_sub(share.unwrap_or(file.size));
            taken.push(Arc::clone(file));
        }
        if last == 0 {
            taken.reverse();
        }
        (!taken.is_empty()).then(|| self.deletion(last, taken, CompactionReason::FifoMaxSize))
    }

    /// Small files that are merged into one.
    fn small_files(&self) -> Option<CompactionPlan> {
        let o = &self.picking.input.options.fifo;
        if !o.allow_compaction || self.files.is_empty() {
            return None;
        }
        let data = o.max_data_files_size;
        if o.use_kv_ratio_compaction && data > 0 && data >= o.max_table_files_size {
            let plan = self.rewrite(self.tier()?, CompactionReason::FifoReduceNumFiles);
            // RocksDB lists these files oldest first and looks at the last one.
            return Some(CompactionPlan {
                bottommost: false,
                ..plan
            });
        }
        let files = self.cheapest()?;
        Some(self.rewrite(files, CompactionReason::FifoReduceNumFiles))
    }

    /// The newest files, as long as each further one makes the work per removed file cheaper, if that is less
    /// than a memtable: large files are not rewritten.
    fn cheapest(&self) -> Option<Files> {
        let o = self.picking.input.options;
        let (newest, older) = self.files.split_first()?;
        if newest.is_being_compacted() {
            return None;
        }
        let (mut bytes, mut best, mut count) = (newest.size, u64::MAX, 1);
        for file in older {
            bytes = bytes.saturating_add(file.size);
            let per_removed_file = bytes / count as u64;
            if file.is_being_compacted()
                || per_removed_file > best
                || bytes > o.max_compaction_bytes
            {
                break;
            }
            best = per_removed_file;
            count += 1;
        }
        let fewest = usize::try_from(o.level0_file_num_compaction_trigger).unwrap_or(usize::MAX);
        let is_cheap = best < multiply(o.write_buffer_size, 1.1);
        (count >= fewest && is_cheap).then(|| self.files[..count].to_vec())
    }

    /// Files of one tier that together reach its bound. Bounds fall from the size a file should come to by
    /// the trigger's factor; the lowest tier goes first.
    fn tier(&self) -> Option<Files> {
        let o = self.picking.input.options;
        let version = self.picking.version();
        let trigger = u64::try_from(o.level0_file_num_compaction_trigger).unwrap_or(0);
        let level0_only = version.num_non_empty_levels() <= 1;
        if trigger <= 1
            || !level0_only
            || self.level0_is_busy()
            || (self.files.len() as u64) < trigger
        {
            return None;
        }
        let target = match o.max_compaction_bytes {
            0 => {
                let tables = total_size(self.files);
                let blobs = version.blob_bytes();
                let ratio = match blobs {
                    0 => 1.0,
                    _ => tables as f64 / (tables + blobs) as f64,
                };
                (o.fifo.max_data_files_size as f64 * ratio) as u64 / trigger
            }
            set => set,
        };
        if target == 0 || total_size(self.files) == 0 {
            return None;
        }
        let mut bounds: Vec<u64> =
            std::iter::successors(Some(target), |bound| Some(bound / trigger))
                .take_while(|bound| *bound >= TIER_MIN)
                .collect();
        if bounds.is_empty() {
            bounds.push(target);
        }
        bounds.iter().rev().find_map(|&bound| self.batch(bound))
    }

    /// The oldest files side by side that are smaller than a bound and together reach it, but not much more.
    fn batch(&self, bound: u64) -> Option<Files> {
        let fits = |f: &FileMeta| f.size < bound && !f.is_being_compacted();
        let mut end = self.files.len();
        while end > 0 {
            let (mut start, mut bytes) = (end, 0_u64);
            while start > 0 && fits(&self.files[start - 1]) {
                let size = self.files[start - 1].size;
                if bytes >= bound && bytes + size > bound.saturating_mul(2) {
                    break;
                }
                bytes += size;
                start -= 1;
            }
            if end - start >= 2 && bytes >= bound {
                return Some(self.files[start..end].to_vec());
            }
            end = start.min(end - 1);
        }
        None
    }

    /// The oldest file whose age calls for another temperature.
    fn aged(&self) -> Option<CompactionPlan> {
        if self.level0_is_busy() {
            return None;
        }
        let (file, temperature) = self.next_aged(false)?;
        let plan = self.rewrite(vec![Arc::clone(file)], CompactionReason::ChangeTemperature);
        Some(CompactionPlan {
            output_temperature: temperature,
            ..plan
        })
    }

    /// A file in which RocksDB misses keys, by itself. What another style left in deeper levels is deleted first.
    fn misleading(&self) -> Option<CompactionPlan> {
        let is_free = |f: &&Arc<FileMeta>| f.is_misleading() && !f.is_being_compacted();
        let file = self.files.iter().find(is_free)?;
        if self.level0_is_busy() {
            return None;
        }
        let reason = CompactionReason::FilesMarkedForCompaction;
        Some(self.rewrite(vec![Arc::clone(file)], reason))
    }

    /// The oldest file that is to change its temperature, and to what. `passes_busy` looks past files that
    /// are in a running plan.
    fn next_aged(&self, passes_busy: bool) -> Option<(&'a Arc<FileMeta>, Temperature)> {
        let ages = &self
            .picking
            .input
            .options
            .fifo
            .file_temperature_age_thresholds
            .0;
        let now = self.picking.input.now;
        let youngest = ages.first()?;
        if self.picking.version().num_levels() > 1 || now <= youngest.age {
            return None;
        }
        for (index, file) in self.files.iter().enumerate().rev() {
            if file.is_being_compacted() {
                match passes_busy {
                    true => continue,
                    false => return None,
                }
            }
            // The next newer file holds nothing that is older.
            let newer = || index.checked_sub(1).map(|i| self.files[i].ancester_time());
            let time = told_newest(file).or_else(|| newer().filter(|t| *t > 0));
            let Some(time) = time else {
                continue;
            };
            if time > now - youngest.age {
                return None;
            }
            let reached = |age: u64| now >= age && time <= now - age;
            let older = ages[1..].iter().rfind(|a| reached(a.age));
            let wanted = older.unwrap_or(youngest).temperature;
            if u32::from(file.temperature) != wanted as u32 {
                return Some((file, wanted));
            }
        }
        None
    }

    fn deletion(&self, level: usize, files: Files, reason: CompactionReason) -> CompactionPlan {
        let plan = self.plan(level, files, reason);
        CompactionPlan {
            only_deletes: true,
            proximal: None,
            ..plan
        }
    }

    /// A plan that writes files of level 0 anew, as one.
    fn rewrite(&self, files: Files, reason: CompactionReason) -> CompactionPlan {
        let plan = self.plan(0, files, reason);
        CompactionPlan {
            // By level there is nothing to choose.
            compression: self.picking.input.options.compression,
            is_last_data_level: false,
            ..plan
        }
    }

    fn plan(&self, level: usize, files: Files, reason: CompactionReason) -> CompactionPlan {
        let plan = self.picking.plan(Draft {
            inputs: vec![(level, files)],
            output_level: level,
            output_path: Some(0),
            grandparents: Files::new(),
            reason,
            score: self.score(),
            level0_inputs_are_apart: false,
        });
        CompactionPlan {
            is_trivial_move: false,
            may_split: false,
            ..plan
        }
    }
}
