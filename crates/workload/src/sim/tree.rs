//! The tree of a simulated database: versions of files that exist as ranges and sizes.
//!
//! Keys are spread evenly: a file that covers a part of the key space holds that part of the data at most. Merging what is
//! spread evenly replaces what both hold.

use spanlith::picker::{CompactionPlan, PickerInput, RunningCompaction, pick_beside, pick_leveled};
use spanlith::version::edit::NewFile;
use spanlith::version::{
    FileMeta, LevelOptions, LevelTargets, Version, VersionBuilder, VersionEdit,
};
use spanlith_base::Comparator;
use spanlith_base::keys::{internal_key, pack_tag, user_key};
use std::sync::Arc;

/// Keys are numbers below that, as eight bytes.
const KEY_SPACE: u64 = 1 << 40;

/// The files of one family.
pub(super) struct Tree {
    pub options: LevelOptions,
    pub version: Arc<Version>,
    pub running: Vec<RunningCompaction>,
    /// Bytes of all keys that exist, each once.
    data_bytes: f64,
    next_file: u64,
    next_seqno: u64,
}

impl Tree {
    pub(super) fn new(options: LevelOptions, data_bytes: u64) -> Self {
        Self {
            version: Arc::new(Version::empty(
                Comparator::Bytewise,
                options.num_levels as usize,
            )),
            options,
            running: Vec::new(),
            data_bytes: data_bytes as f64,
            next_file: 1,
            next_seqno: 1,
        }
    }

    fn apply(&mut self, edit: &VersionEdit) {
        let mut builder = VersionBuilder::new(&self.version).with_consistency_checks(false);
        builder
            .apply(edit)
            .expect("V1: files that were made here fit");
        let version = builder.build();
        self.version = Arc::new(version.expect("V1: files that were made here fit"));
    }

    fn file(&mut self, level: usize, (from, to): (u64, u64), size: u64) -> NewFile {
        let number = self.next_file;
        self.next_file += 1;
        self.next_seqno += 2;
        let key = |k: u64, seqno: u64| internal_key(&k.to_be_bytes(), pack_tag(seqno, 1));
        NewFile {
            level: level as u32,
            number,
            size,
            smallest: key(from, self.next_seqno),
            largest: key(to.max(from), self.next_seqno - 1),
            smallest_seqno: self.next_seqno - 1,
            largest_seqno: self.next_seqno,
            epoch_number: number,
            ..NewFile::default()
        }
    }

    /// Fills the last level with all data, as after a long time.
    pub(super) fn fill(&mut self) {
        let level = self.options.num_levels as usize - 1;
        let bytes = self.data_bytes as u64;
        let mut edit = VersionEdit::new();
        for file in self.cut(level, (0, KEY_SPACE - 1), bytes) {
            edit.add_file(file);
        }
        self.apply(&edit);
    }

    /// Fills the levels above the last one up to their targets, as after a long time of writes. Requires: [`Self::fill`].
    pub(super) fn fill_upper(&mut self) {
        let targets = self.targets();
        let last = self.options.num_levels as usize - 1;
        let mut edit = VersionEdit::new();
        for level in targets.base_level.max(1)..last {
            let bytes = targets.max_bytes.get(level).copied().unwrap_or(0);
            if bytes > 0 && bytes < u64::MAX {
                for file in self.cut(level, (0, KEY_SPACE - 1), bytes) {
                    edit.add_file(file);
                }
            }
        }
        self.apply(&edit);
    }

    /// Brings a memtable of `bytes`.
    pub(super) fn flush(&mut self, bytes: u64) {
        let mut edit = VersionEdit::new();
        let file = self.file(0, (0, KEY_SPACE - 1), self.distinct(bytes as f64, 1.0));
        edit.add_file(file);
        self.apply(&edit);
    }

    /// Drops the tables below level 0 that lie in the lower half of the keys and are not being compacted.
    pub(super) fn drop_lower_half(&mut self) {
        let mut edit = VersionEdit::new();
        for level in 1..self.version.num_levels() {
            for file in self.version.files(level) {
                if key_of(&file.largest) < KEY_SPACE / 2 && !file.is_being_compacted() {
                    edit.delete_file(level as u32, file.number);
                }
            }
        }
        self.apply(&edit);
    }

    /// Returns what is left of `bytes` of evenly spread updates of a part of the keys once each key is there once.
    fn distinct(&self, bytes: f64, part: f64) -> u64 {
        let room = (self.data_bytes * part).max(1.0);
        (room * (1.0 - (-bytes / room).exp())) as u64
    }

    /// Files of `bytes` over a range, cut as the options say.
    fn cut(&mut self, level: usize, (from, to): (u64, u64), bytes: u64) -> Vec<NewFile> {
        let target = match level {
            0 => u64::MAX,
            _ => self.options.target_file_size_base.max(1),
        };
        let files = bytes.div_ceil(target).clamp(1, 100_000);
        let width = (to - from) / files;
        let mut made = Vec::new();
        for i in 0..files {
            let begin = from + i * width;
            let end = if i + 1 == files {
                to
            } else {
                begin + width - 1
            };
            if end >= begin {
                made.push(self.file(level, (begin, end), bytes / files));
            }
        }
        made
    }

    pub(super) fn targets(&self) -> LevelTargets {
        LevelTargets::compute(&self.version, &self.options)
    }

    /// Picks a compaction and marks its inputs.
    pub(super) fn pick(&mut self) -> Option<CompactionPlan> {
        let plan = pick_leveled(&self.input())?;
        self.begin(&plan);
        Some(plan)
    }

    /// Picks a merge within level 0 beside a compaction out of it, and marks its inputs.
    pub(super) fn pick_beside(&mut self) -> Option<CompactionPlan> {
        let plan = pick_beside(&self.input())?;
        self.begin(&plan);
        Some(plan)
    }

    fn input(&self) -> PickerInput<'_> {
        PickerInput {
            version: &self.version,
            options: &self.options,
            running: &self.running,
            oldest_snapshot: None,
            now: 0,
            ahead_seconds: 0,
            young_after: None,
            placed: &[],
        }
    }

    fn begin(&mut self, plan: &CompactionPlan) {
        for file in plan.input_files() {
            file.set_being_compacted(true);
        }
        let (smallest, largest) = plan.user_key_range(&Comparator::Bytewise);
        self.running.push(RunningCompaction {
            id: plan.input_files().next().map_or(0, |f| f.number),
            output_level: plan.output_level,
            smallest,
            largest,
            input_levels: plan.inputs.iter().map(|i| i.0).collect(),
            proximal: None,
        });
    }

    /// Installs what a plan makes.
    pub(super) fn finish(&mut self, plan: &CompactionPlan) {
        let id = plan.input_files().next().map_or(0, |f| f.number);
        self.running.retain(|r| r.id != id);
        let mut edit = VersionEdit::new();
        for (level, files) in &plan.inputs {
            for file in files {
                edit.delete_file(*level as u32, file.number);
                file.set_being_compacted(false);
            }
        }
        if plan.is_trivial_move {
            for file in plan.input_files() {
                edit.add_file(file.to_new_file(plan.output_level as u32));
            }
        } else {
            let number = |key: &[u8]| key_of(key);
            let from = plan.input_files().map(|f| number(&f.smallest)).min();
            let to = plan.input_files().map(|f| number(&f.largest)).max();
            let range = (from.unwrap_or(0), to.unwrap_or(0));
            for file in self.cut(plan.output_level, range, self.merged(plan)) {
                edit.add_file(file);
            }
        }
        self.apply(&edit);
    }

    /// Bytes that the inputs of a plan come to.
    pub(super) fn merged(&self, plan: &CompactionPlan) -> u64 {
        let part = |f: &FileMeta| {
            let width = key_of(&f.largest).saturating_sub(key_of(&f.smallest)) + 1;
            width as f64 / KEY_SPACE as f64
        };
        // Each level covers its part of the keys; what two hold of the same part is replaced.
        let whole = plan.inputs.iter().map(|(level, files)| match level {
            0 => files.iter().map(|f| part(f)).fold(0.0, f64::max),
            _ => files.iter().map(|f| part(f)).sum::<f64>(),
        });
        let room = (self.data_bytes * whole.fold(0.0, f64::max).min(1.0)).max(1.0);
        let missing = plan.input_files().map(|f| {
            let share = (f.size as f64 / (self.data_bytes * part(f)).max(1.0)).min(1.0);
            (share, part(f) * self.data_bytes / room)
        });
        // Probability that a key is in none of them.
        let none: f64 = missing
            .map(|(share, part)| 1.0 - (share * part).min(1.0))
            .product();
        let kept = (room * (1.0 - none)) as u64;
        let largest = plan.input_files().map(|f| f.size).max().unwrap_or(0);
        kept.max(largest).min(plan.input_bytes())
    }
}

fn key_of(internal: &[u8]) -> u64 {
    let bytes = user_key(internal).try_into().unwrap_or([0; 8]);
    u64::from_be_bytes(bytes)
}
