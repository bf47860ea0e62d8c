//! Random trees: flushes and compactions in any order, several at once. Entries are tracked in
//! memory, so that V1, V2 and C2 are checked after every step.

use super::*;
use crate::version::edit::NewFile;
use crate::version::{FileMeta, VersionBuilder, VersionEdit};
use spanlith_base::Comparator;
use spanlith_base::keys::{internal_key, pack_tag};
use spanlith_testkit::{Rng, seed, test_name};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Bytes an entry counts for.
const ENTRY: u64 = 100;

/// User key and sequence number.
type Entry = (Vec<u8>, u64);

struct Tree {
    rng: Rng,
    options: LevelOptions,
    version: Arc<Version>,
    contents: HashMap<u64, Vec<Entry>>,
    running: Vec<(RunningCompaction, CompactionPlan)>,
    next_file: u64,
    next_seqno: u64,
    next_epoch: u64,
    trivial_moves: u64,
    merges: u64,
    intra_level0: u64,
    two_outputs: u64,
}

impl Tree {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let options = LevelOptions {
            num_levels: 3 + rng.below(4) as u32,
            level_compaction_dynamic_level_bytes: rng.below(2) == 0,
            max_bytes_for_level_base: 40 * ENTRY,
            max_bytes_for_level_multiplier: 2.0 + rng.below(3) as f64,
            level0_file_num_compaction_trigger: 2 + rng.below(3) as i32,
            target_file_size_base: 8 * ENTRY,
            max_compaction_bytes: [0, 30 * ENTRY][rng.index(2)],
            compaction_pri: [
                CompactionPri::MinOverlappingRatio,
                CompactionPri::ByCompensatedSize,
                CompactionPri::OldestLargestSeqFirst,
                CompactionPri::OldestSmallestSeqFirst,
            ][rng.index(4)],
            precludes_last_level: rng.below(3) == 0,
            ..LevelOptions::default()
        };
        let version = version_of(options.num_levels as usize, "");
        Self {
            rng,
            options,
            version,
            contents: HashMap::new(),
            running: Vec::new(),
            next_file: 1,
            next_seqno: 1,
            next_epoch: 1,
            trivial_moves: 0,
            merges: 0,
            intra_level0: 0,
            two_outputs: 0,
        }
    }

    /// A tree of sorted runs.
    fn universal(seed: u64) -> Self {
        let mut tree = Self::new(seed);
        let (o, rng) = (&mut tree.options, &mut tree.rng);
        o.style = CompactionStyle::Universal;
        o.level_compaction_dynamic_level_bytes = false;
        o.num_levels = 1 + rng.below(6) as u32;
        o.level0_stop_writes_trigger = 6 + rng.below(20) as i32;
        o.write_buffer_size = 20 * ENTRY;
        o.target_file_size_base = [8 * ENTRY, 3 * ENTRY][rng.index(2)];
        let u = &mut o.universal;
        u.max_size_amplification_percent = [25, 200, 900][rng.index(3)];
        u.size_ratio = [0, 1, 50, 200][rng.index(4)];
        u.min_merge_width = 2 + rng.below(3) as u32;
        u.max_merge_width = [3, u32::MAX][rng.index(2)];
        u.allow_trivial_move = rng.below(2) == 0;
        u.incremental = rng.below(2) == 0;
        u.max_read_amp = [-1, 0, 12][rng.index(3)];
        tree.version = version_of(tree.options.num_levels as usize, "");
        tree
    }

    fn apply(&mut self, edit: &VersionEdit) {
        let mut builder = VersionBuilder::new(&self.version);
        builder.apply(edit).unwrap();
        // V1: building checks order and disjointness.
        self.version = Arc::new(builder.build().unwrap());
        self.check_ages();
    }

    /// V2: of one user key, what lies higher is newer.
    fn check_ages(&self) {
        let mut oldest_above: BTreeMap<&[u8], u64> = BTreeMap::new();
        let mut check = |files: &[&Arc<FileMeta>]| {
            let mut here: Vec<&Entry> = files
                .iter()
                .flat_map(|f| &self.contents[&f.number])
                .collect();
            here.sort();
            for (key, seqno) in &here {
                if let Some(oldest) = oldest_above.get(&key[..]) {
                    assert!(seqno < oldest, "V2: {key:?}@{seqno} lies below @{oldest}");
                }
            }
            for (key, seqno) in here {
                let oldest = oldest_above.entry(key).or_insert(*seqno);
                *oldest = (*oldest).min(*seqno);
            }
        };
        for file in self.version.files(0) {
            check(&[file]);
        }
        for level in 1..self.version.num_levels() {
            check(&self.version.files(level).iter().collect::<Vec<_>>());
        }
    }

    /// The file that holds `entries`, which are in internal-key order.
    fn new_file(&mut self, level: usize, entries: Vec<Entry>, epoch: u64) -> NewFile {
        let number = self.next_file;
        self.next_file += 1;
        let key = |e: &Entry| internal_key(&e.0, pack_tag(e.1, 1));
        let seqnos = || entries.iter().map(|e| e.1);
        let file = NewFile {
            level: level as u32,
            number,
            size: entries.len() as u64 * ENTRY,
            smallest: key(&entries[0]),
            largest: key(entries.last().unwrap()),
            smallest_seqno: seqnos().min().unwrap(),
            largest_seqno: seqnos().max().unwrap(),
            epoch_number: epoch,
            marked_for_compaction: self.rng.below(40) == 0,
            ..NewFile::default()
        };
        self.contents.insert(number, entries);
        file
    }

    fn flush(&mut self) {
        let narrow = self.rng.below(3) == 0;
        let first = self.rng.below(60);
        let mut entries: Vec<Entry> = (0..self.rng.between(1, 12))
            .map(|_| {
                let key = if narrow {
                    first + self.rng.below(4)
                } else {
                    self.rng.below(64)
                };
                self.next_seqno += 1;
                (format!("key{key:02}").into_bytes(), self.next_seqno)
            })
            .collect();
        sort_entries(&mut entries);
        let epoch = self.next_epoch;
        self.next_epoch += 1;
        let file = self.new_file(0, entries, epoch);
        let mut edit = VersionEdit::new();
        edit.add_file(file);
        self.apply(&edit);
    }

    fn running(&self) -> Vec<RunningCompaction> {
        self.running.iter().map(|r| r.0.clone()).collect()
    }

    fn with_input<T>(&self, f: impl FnOnce(&PickerInput<'_>) -> T) -> T {
        let running = self.running();
        f(&PickerInput {
            version: &self.version,
            options: &self.options,
            running: &running,
            oldest_snapshot: self.next_seqno.is_multiple_of(3).then_some(self.next_seqno),
            now: self.next_seqno,
            ahead_seconds: 0,
            young_after: self.young_after(),
            placed: &[],
        })
    }

    /// Everything ages within 400 writes, if it counts.
    fn young_after(&self) -> Option<u64> {
        let after = self.next_seqno.saturating_sub(400);
        self.options.precludes_last_level.then_some(after)
    }

    fn start(&mut self, plan: CompactionPlan) {
        let (smallest, largest) = plan.user_key_range(&Comparator::Bytewise);
        assert!(plan.inputs.iter().all(|(_, files)| !files.is_empty()));
        for (level, files) in &plan.inputs {
            for file in files {
                assert!(!file.is_being_compacted(), "C2: inputs are disjoint");
                assert_eq!(self.version.locate(file.number).map(|l| l.0), Some(*level));
                file.set_being_compacted(true);
            }
        }
        let outputs = |p: &CompactionPlan, low: &[u8], high: &[u8]| {
            let second = p.proximal.clone();
            let second = second.map(|p| (p.level, p.smallest, p.largest));
            let first = (p.output_level, low.to_vec(), high.to_vec());
            [Some(first), second].into_iter().flatten()
        };
        for (other, its_plan) in &self.running {
            for mine in outputs(&plan, &smallest, &largest) {
                for its in outputs(its_plan, &other.smallest, &other.largest) {
                    let apart = mine.2 < its.1 || mine.1 > its.2;
                    let elsewhere = mine.0 != its.0 || mine.0 == 0;
                    assert!(apart || elsewhere, "C2: outputs do not conflict");
                }
            }
        }
        self.check_inputs(&plan);
        let id = self.next_file;
        (self.running).push((plan.running(id, &Comparator::Bytewise), plan));
    }

    /// Inputs are cut cleanly, and nothing that overlaps is left out in the output level.
    fn check_inputs(&self, plan: &CompactionPlan) {
        let taken: BTreeSet<u64> = plan.input_files().map(|f| f.number).collect();
        let keys_of = |f: &FileMeta| -> BTreeSet<Vec<u8>> {
            self.contents[&f.number]
                .iter()
                .map(|e| e.0.clone())
                .collect()
        };
        for (level, files) in plan.inputs.iter().filter(|(level, _)| *level > 0) {
            let inside: BTreeSet<_> = files.iter().flat_map(|f| keys_of(f)).collect();
            for file in self.version.files(*level) {
                let clean = taken.contains(&file.number) || keys_of(file).is_disjoint(&inside);
                assert!(clean, "a user key is split at the edge of L{level}");
            }
        }
        if plan.output_level > 0 {
            let c = &Comparator::Bytewise;
            for file in self.version.files(plan.output_level) {
                let overlaps = plan.input_files().any(|f| {
                    c.compare_internal(&f.smallest, &file.largest).is_le()
                        && c.compare_internal(&f.largest, &file.smallest).is_ge()
                });
                assert!(taken.contains(&file.number) || !overlaps);
            }
        }
        if plan.bottommost && plan.output_level > 0 {
            let (low, high) = plan.user_key_range(&Comparator::Bytewise);
            for level in plan.output_level + 1..self.version.num_levels() {
                assert!(!self.version.overlaps(level, &low, &high));
            }
        }
    }

    fn finish(&mut self, index: usize) {
        let (_, plan) = self.running.swap_remove(index);
        let mut edit = VersionEdit::new();
        for (level, files) in &plan.inputs {
            for file in files {
                edit.delete_file(*level as u32, file.number);
                file.set_being_compacted(false);
            }
        }
        if plan.is_trivial_move {
            self.trivial_moves += 1;
            for file in plan.input_files() {
                edit.add_file(file.to_new_file(plan.output_level as u32));
            }
        } else {
            self.merges += 1;
            self.intra_level0 += u64::from(plan.output_level == 0);
            let mut entries: Vec<Entry> = plan
                .input_files()
                .flat_map(|f| self.contents[&f.number].clone())
                .collect();
            sort_entries(&mut entries);
            let epoch = plan.input_files().map(|f| f.epoch_number).min().unwrap();
            let (mut low, mut high) = (entries, Vec::new());
            if let Some(proximal) = &plan.proximal {
                self.two_outputs += 1;
                let young = self.young_after().unwrap();
                let after = young.max(proximal.last_level_through);
                (high, low) = low.into_iter().partition(|e| e.1 > after);
                let inside = |e: &Entry| e.0 >= proximal.smallest && e.0 <= proximal.largest;
                assert!(high.iter().all(inside), "data moves up");
            }
            let above = plan.proximal.as_ref().map_or(0, |p| p.level);
            for (level, entries) in [(plan.output_level, low), (above, high)] {
                for output in cut(&plan, entries) {
                    let mut file = self.new_file(level, output, epoch);
                    file.marked_for_compaction = false;
                    edit.add_file(file);
                }
            }
        }
        self.apply(&edit);
    }

    fn step(&mut self) {
        match self.rng.below(10) {
            0..=2 => self.flush(),
            3..=6 if self.running.len() < 3 => {
                if let Some(plan) = self.with_input(pick) {
                    self.start(plan);
                } else if self.running.is_empty() {
                    let idle = self.with_input(|i| !needs_compaction(i));
                    // Universal compaction looks whenever there are as many runs as the trigger says, and
                    // for a marked file with nothing to merge it with.
                    let may_look = self.options.precludes_last_level || !self.options.is_leveled();
                    assert!(
                        idle || may_look,
                        "something is due and nothing is in the way"
                    );
                }
            }
            7 if self.running.len() < 3 => self.manual(),
            _ if !self.running.is_empty() => {
                let index = self.rng.index(self.running.len());
                self.finish(index);
            }
            _ => {}
        }
    }

    fn manual(&mut self) {
        if !self.options.is_leveled() {
            if let Some(Some(plan)) = self.with_input(|i| pick_universal_whole(i, 0)) {
                self.start(plan);
            }
            return;
        }
        let deepest = self.version.num_levels() - 1;
        let level = self.rng.index(deepest);
        let base = LevelTargets::compute(&self.version, &self.options).base_level;
        let output_level = match level {
            0 => base,
            _ if self.rng.below(4) == 0 => level,
            _ => level + 1,
        };
        let begin = format!("key{:02}", self.rng.below(64)).into_bytes();
        let end = format!("key{:02}", self.rng.below(64)).into_bytes();
        let range = ManualRange {
            level,
            output_level,
            output_path: 0,
            begin: (begin <= end).then_some(&begin),
            end: (begin <= end).then_some(&end),
            first_own_file: None,
        };
        if let ManualOutcome::Pick(pick) = self.with_input(|i| pick_manual_range(i, &range)) {
            self.start(pick.plan);
        }
    }
}

fn sort_entries(entries: &mut [Entry]) {
    entries.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
}

/// Cuts the entries of a plan into outputs.
fn cut(plan: &CompactionPlan, entries: Vec<Entry>) -> Vec<Vec<Entry>> {
    let mut cutter = OutputCutter::new(plan, Comparator::Bytewise, None, None);
    let mut outputs: Vec<Vec<Entry>> = Vec::new();
    let mut open: Vec<Entry> = Vec::new();
    for entry in entries {
        let key = internal_key(&entry.0, pack_tag(entry.1, 1));
        if cutter.should_cut_before(&key, open.len() as u64 * ENTRY) {
            assert!(!open.is_empty(), "a cut with nothing open");
            outputs.push(std::mem::take(&mut open));
        }
        open.push(entry);
        let full = open.len() as u64 * ENTRY > plan.max_output_file_size.saturating_add(ENTRY);
        assert!(
            plan.output_level == 0 || !full,
            "an output grows past its limit"
        );
    }
    if !open.is_empty() {
        outputs.push(open);
    }
    outputs
}

/// Holds V2.
#[test]
fn random_runs_keep_their_invariants_and_come_to_rest() {
    let first = seed(test_name!());
    let (mut moves, mut merges, mut level0, mut wide, mut two) = (0, 0, 0, 0, 0);
    for round in 0..60 {
        println!("round {round}");
        let mut tree = Tree::universal(first.wrapping_add(round));
        for _ in 0..300 {
            tree.step();
        }
        while !tree.running.is_empty() {
            tree.finish(0);
        }
        let mut steps = 0;
        while let Some(plan) = tree.with_input(pick) {
            wide += u64::from(plan.inputs.len() > 2);
            tree.start(plan);
            tree.finish(0);
            steps += 1;
            if tree.options.precludes_last_level && steps == 50 {
                // Young data comes back to the level above the last one, and is merged again.
                break;
            }
            assert!(steps < 1000, "compaction does not come to rest");
        }
        two += tree.two_outputs;
        moves += tree.trivial_moves;
        merges += tree.merges;
        level0 += tree.intra_level0;
    }
    println!(
        "{moves} moves, {merges} merges, {level0} within level 0, {wide} of many levels, {two} with two outputs"
    );
    assert!(
        moves > 2 && merges > 1000 && level0 > 200 && two > 20,
        "the test has lost its variety"
    );
}

/// Holds C2.
#[test]
fn random_trees_keep_their_invariants_and_come_to_rest() {
    let first = seed(test_name!());
    let (mut moves, mut merges, mut intra, mut two_outputs) = (0, 0, 0, 0);
    for round in 0..40 {
        println!("round {round}");
        let mut tree = Tree::new(first.wrapping_add(round));
        for _ in 0..400 {
            tree.step();
        }
        while !tree.running.is_empty() {
            tree.finish(0);
        }
        let entries = |t: &Tree| -> usize {
            t.version
                .file_iter()
                .map(|(_, f)| t.contents[&f.number].len())
                .sum()
        };
        let before = entries(&tree);
        let mut steps = 0;
        while let Some(plan) = tree.with_input(pick_leveled) {
            if plan.reason == CompactionReason::BottommostFiles {
                // Nothing zeroes sequence numbers here: such plans would never end.
                break;
            }
            tree.start(plan);
            tree.finish(0);
            steps += 1;
            assert!(steps < 1000, "compaction does not come to rest");
        }
        assert_eq!(entries(&tree), before, "no entry is lost");
        let targets = LevelTargets::compute(&tree.version, &tree.options);
        let is_young = tree.options.precludes_last_level;
        assert!(targets.top_score() < 1.0 || is_young, "{targets:?}");
        two_outputs += tree.two_outputs;
        moves += tree.trivial_moves;
        merges += tree.merges;
        intra += tree.intra_level0;
    }
    println!(
        "{moves} moves, {merges} merges, {intra} within level 0, {two_outputs} with two outputs"
    );
    assert!(
        moves > 500 && merges > 2000 && intra > 50 && two_outputs > 100,
        "the test has lost its variety"
    );
}
