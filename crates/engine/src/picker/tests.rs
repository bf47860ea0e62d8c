//! Golden scripts of picks, and random trees that are compacted to the end.

use super::manual::{ManualOutcome, ManualRange, pick_manual_range};
use super::plan::{CompactionPlan, CompactionReason, OutputCutter};
use super::proximal::ProximalOutput;
use super::*;
use crate::options::values::OptionValue;
use crate::options::{CompactionPri, CompactionStyle, Temperature};
use crate::version::testing::{parse_size, print_size, version_of};
use crate::version::{ForcedBlobGc, LevelOptions, LevelTargets, Version};
use spanlith_base::CompressionType;
use spanlith_testkit::{Directive, run_golden};
use std::path::Path;
use std::sync::Arc;

mod random;

/// Describes what a script has defined so far.
struct Script {
    options: LevelOptions,
    version: Arc<Version>,
    running: Vec<RunningCompaction>,
    /// Tables that one compaction with two outputs wrote.
    placed: Vec<u64>,
}

impl Script {
    fn run(&mut self, line: &str, input: &str) -> String {
        let d = Directive::parse(line);
        match d.name.as_str() {
            "options" => self.set_options(&d),
            "define" => {
                self.version = version_of(self.options.num_levels as usize, input);
                self.running.clear();
                "ok".to_string()
            }
            "running" => {
                let value = |key: &str| d.values[key].clone();
                self.running.push(RunningCompaction {
                    id: 1,
                    output_level: d.value("output").unwrap(),
                    smallest: value("begin").into_bytes(),
                    largest: value("end").into_bytes(),
                    input_levels: vec![d.value("from").unwrap()],
                    proximal: d.value("proximal").map(|level| ProximalOutput {
                        level,
                        smallest: value("begin").into_bytes(),
                        largest: value("end").into_bytes(),
                        last_level_through: 0,
                    }),
                });
                "ok".to_string()
            }
            "placed" => {
                let tables = input.split_whitespace();
                self.placed = tables.map(|n| n.parse().unwrap()).collect();
                "ok".to_string()
            }
            "targets" => self.targets(),
            "pick" => {
                let picked = pick(&self.input(&d));
                let needed = needs_compaction(&self.input(&d));
                // Files that another style left in deeper levels are not looked for, and found all the same.
                let is_fifo = self.options.style == CompactionStyle::Fifo;
                assert!(
                    needed || picked.is_none() || is_fifo,
                    "{line}: picked, but nothing was due"
                );
                picked.map_or_else(|| "nothing".to_string(), |p| print_plan(&p))
            }
            "beside" => {
                let picked = pick_beside(&self.input(&d));
                picked.map_or_else(|| "nothing".to_string(), |p| print_plan(&p))
            }
            "manual" => self.manual(&d),
            "whole" => match pick_universal_whole(&self.input(&d), 0) {
                None => "conflict".to_string(),
                Some(plan) => plan.map_or_else(|| "nothing".to_string(), |p| print_plan(&p)),
            },
            other => panic!("unknown directive {other:?}"),
        }
    }

    fn set_options(&mut self, d: &Directive) -> String {
        let o = &mut self.options;
        let size = |key: &str| d.values.get(key).map(|v| parse_size(v));
        if d.words.iter().any(|w| w == "defaults") {
            *o = small_options();
        }
        o.level_compaction_dynamic_level_bytes = d
            .value("dynamic")
            .unwrap_or(o.level_compaction_dynamic_level_bytes);
        o.level0_file_num_compaction_trigger = d
            .value("trigger")
            .unwrap_or(o.level0_file_num_compaction_trigger);
        o.max_bytes_for_level_base = size("base").unwrap_or(o.max_bytes_for_level_base);
        o.target_file_size_base = size("target").unwrap_or(o.target_file_size_base);
        o.max_compaction_bytes = size("limit").unwrap_or(o.max_compaction_bytes);
        o.num_levels = d.value("levels").unwrap_or(o.num_levels);
        let style = |name: &str| match name {
            "level" => CompactionStyle::Level,
            "universal" => CompactionStyle::Universal,
            "fifo" => CompactionStyle::Fifo,
            other => panic!("style={other}"),
        };
        if let Some(name) = d.values.get("style") {
            o.style = style(name);
            o.compression = CompressionType::Lz4;
        }
        if let Some(text) = d.values.get("universal") {
            o.universal = Default::default();
            // In scripts `{}` means the defaults, which RocksDB's parser of strings refuses.
            if text != "{}" {
                o.universal.parse_into(text).unwrap();
            }
        }
        if let Some(text) = d.values.get("fifo") {
            o.fifo = Default::default();
            // In scripts `{}` means the defaults, which RocksDB's parser of strings refuses.
            if text != "{}" {
                o.fifo.parse_into(text).unwrap();
            }
        }
        if let (Some(age_cutoff), Some(threshold)) = (d.value("cutoff"), d.value("force")) {
            o.forced_blob_gc = Some(ForcedBlobGc {
                age_cutoff,
                threshold,
            });
        }
        o.ttl = d.value("ttl").unwrap_or(o.ttl);
        o.periodic_compaction_seconds = d.value("period").unwrap_or(o.periodic_compaction_seconds);
        o.write_buffer_size = size("buffer").unwrap_or(o.write_buffer_size);
        o.level0_stop_writes_trigger = d.value("stop").unwrap_or(o.level0_stop_writes_trigger);
        o.precludes_last_level = d.value("precludes").unwrap_or(o.precludes_last_level);
        if let Some(text) = d.values.get("paths") {
            o.path_targets = text.split(',').map(parse_size).collect();
            o.path_count = o.path_targets.len();
        }
        if let Some(pri) = d.values.get("pri") {
            o.compaction_pri = match pri.as_str() {
                "size" => CompactionPri::ByCompensatedSize,
                "largest_seq" => CompactionPri::OldestLargestSeqFirst,
                "smallest_seq" => CompactionPri::OldestSmallestSeqFirst,
                "overlap" => CompactionPri::MinOverlappingRatio,
                other => panic!("pri={other}"),
            };
        }
        "ok".to_string()
    }

    fn input(&self, d: &Directive) -> PickerInput<'_> {
        PickerInput {
            version: &self.version,
            options: &self.options,
            running: &self.running,
            oldest_snapshot: d.value("snapshot"),
            now: d.value("now").unwrap_or(0),
            ahead_seconds: d.value("ahead").unwrap_or(0),
            young_after: d.value("young"),
            placed: &self.placed,
        }
    }

    fn targets(&self) -> String {
        let t = LevelTargets::compute(&self.version, &self.options);
        let targets: Vec<_> = t.max_bytes.iter().map(|&b| print_size(b)).collect();
        let scores: Vec<_> = t
            .scores
            .iter()
            .map(|(l, s)| format!("L{l}={s:.2}"))
            .collect();
        format!(
            "base L{}\ntargets {}\nscores {}\ndebt {}",
            t.base_level,
            targets.join(" "),
            scores.join(" "),
            print_size(t.pending_compaction_bytes)
        )
    }

    fn manual(&self, d: &Directive) -> String {
        let range = ManualRange {
            level: d.value("level").unwrap(),
            output_level: d.value("output").unwrap(),
            output_path: 0,
            begin: d.values.get("begin").map(|v| v.as_bytes()),
            end: d.values.get("end").map(|v| v.as_bytes()),
            first_own_file: d.value("own"),
        };
        match pick_manual_range(&self.input(d), &range) {
            ManualOutcome::Nothing => "nothing".to_string(),
            ManualOutcome::Conflict => "conflict".to_string(),
            ManualOutcome::Pick(pick) => {
                let next = pick.next_begin.map(|k| String::from_utf8(k).unwrap());
                format!(
                    "{}\nnext {}",
                    print_plan(&pick.plan),
                    next.as_deref().unwrap_or("-")
                )
            }
        }
    }
}

/// Level base 100 MB, files of 10 MB, compactions of at most 250 MB.
fn small_options() -> LevelOptions {
    LevelOptions {
        max_bytes_for_level_base: 100 << 20,
        target_file_size_base: 10 << 20,
        level_compaction_dynamic_level_bytes: false,
        ..LevelOptions::default()
    }
}

fn print_plan(p: &CompactionPlan) -> String {
    let list = |files: &[Arc<crate::version::FileMeta>]| {
        files
            .iter()
            .map(|f| f.number.to_string())
            .collect::<Vec<_>>()
            .join(",")
    };
    let inputs: Vec<_> = p
        .inputs
        .iter()
        .map(|(level, files)| format!("L{level}:{}", list(files)))
        .collect();
    let verb = match (p.only_deletes, p.is_trivial_move) {
        (true, _) => "delete",
        (_, true) => "move",
        _ => "merge",
    };
    let mut text = format!(
        "{verb} {} -> L{}\n{} target={} cut={}",
        inputs.join(" + "),
        p.output_level,
        p.reason.name(),
        print_size(p.target_file_size),
        print_size(p.max_output_file_size)
    );
    if p.output_path != 0 {
        text += &format!(" path={}", p.output_path);
    }
    if let Some(proximal) = &p.proximal {
        text += &format!(" proximal=L{}", proximal.level);
    }
    if p.output_temperature != Temperature::Unknown {
        text += &format!(" temperature={}", p.output_temperature);
    }
    if !p.is_leveled && p.compression == CompressionType::None {
        text += " plain";
    }
    if p.bottommost {
        text += " bottommost";
    }
    if !p.grandparents.is_empty() {
        text += &format!(" grandparents={}", list(&p.grandparents));
    }
    text
}

fn run_script(name: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("src/picker/golden")
        .join(name);
    let mut script = Script {
        options: small_options(),
        version: version_of(7, ""),
        running: Vec::new(),
        placed: Vec::new(),
    };
    run_golden(path, |line, input| script.run(line, input));
}

/// A tree in which nothing runs, no snapshot lives and nothing is young.
fn at_rest<'a>(version: &'a Arc<Version>, options: &'a LevelOptions) -> PickerInput<'a> {
    PickerInput {
        version,
        options,
        running: &[],
        oldest_snapshot: None,
        now: 0,
        ahead_seconds: 0,
        young_after: None,
        placed: &[],
    }
}

#[test]
fn files_in_turn_take_in_what_lies_clean_within_and_are_cut_at_the_cursor_behind_the_first_key() {
    let text = "L1 1 b..c 1MB\nL1 2 d..f 60MB\nL1 3 g..k 1MB\nL2 4 a..h 10MB\nL2 5 i..l 10MB\n";
    let options = LevelOptions {
        num_levels: 4,
        compaction_pri: CompactionPri::RoundRobin,
        max_bytes_for_level_base: 50 << 20,
        level_compaction_dynamic_level_bytes: false,
        ..LevelOptions::default()
    };
    let pick = |at_output: usize, key: &str| {
        let mut made = version_of(4, text);
        let version = Arc::get_mut(&mut made).expect("nobody else has it");
        let start = version.files(1)[1].smallest.clone();
        version.compact_cursors.insert(1, start);
        let mut cursor = version.files(2)[at_output].smallest.clone();
        cursor[..1].copy_from_slice(key.as_bytes());
        version.compact_cursors.insert(2, cursor);
        pick_leveled(&at_rest(&made, &options)).unwrap()
    };
    let plan = pick(0, "a");
    // The third needs more of the output level; the first, on the left, does not.
    assert_eq!(
        print_plan(&plan).lines().next(),
        Some("merge L1:1,2 + L2:4 -> L2")
    );
    let (level, next) = plan.next_cursor.unwrap();
    assert_eq!(
        (level, next[0]),
        (1, b'b'),
        "two files on from the one whose turn it was"
    );
    assert_eq!(plan.split_key, None, "the range begins there");
    assert!(pick(0, "b").split_key.is_some());
    assert_eq!(pick(0, "i").split_key, None, "behind the range");
}

#[test]
fn tables_are_written_anew_where_blocks_get_another_codec() {
    let first_line = |codec_by_depth: bool, text: &str| {
        let options = LevelOptions {
            num_levels: 4,
            max_bytes_for_level_base: 50 << 20,
            level_compaction_dynamic_level_bytes: false,
            compression: CompressionType::Zstd,
            codec_by_depth,
            ..LevelOptions::default()
        };
        let version = version_of(4, text);
        let plan = pick_leveled(&at_rest(&version, &options)).unwrap();
        print_plan(&plan).lines().next().map(str::to_owned)
    };
    for (text, inputs, is_anew) in [
        ("L1 1 a..b 60MB\nL2 5 i..l 10MB\n", "L1:1 -> L2", true),
        (
            "L1 1 a..b 60MB\nL2 5 i..l 10MB\nL3 6 x..z 10MB\n",
            "L1:1 -> L2",
            false,
        ),
        ("L1 1 a..b 60MB\n", "L1:1 -> L2", false),
        ("L0 9 a..c 900MB\nL1 1 x..z 10MB\n", "L0:9 -> L1", true),
    ] {
        assert_eq!(first_line(false, text), Some(format!("move {inputs}")));
        let verb = if is_anew { "merge" } else { "move" };
        assert_eq!(first_line(true, text), Some(format!("{verb} {inputs}")));
    }
}

#[test]
fn level_zero_is_moved_merged_or_kept_as_the_script_says() {
    run_script("level0.txt");
}

#[test]
fn runs_are_merged_as_the_script_says() {
    run_script("universal.txt");
}

#[test]
fn the_oldest_files_are_deleted_as_the_script_says() {
    run_script("fifo.txt");
}

#[test]
fn sorted_levels_are_picked_as_the_script_says() {
    run_script("levels.txt");
}

#[test]
fn marked_files_are_picked_as_the_script_says() {
    run_script("marked.txt");
}

#[test]
fn manual_compactions_proceed_as_the_script_says() {
    run_script("manual.txt");
}

#[test]
fn files_that_reads_pass_through_in_vain_go_down_the_hottest_first() {
    let text = "L0 1 i..k 1MB\nL1 3 d..f 1MB\nL1 2 i..j 1MB\nL2 4 a..h 10MB\nL3 5 a..z 99MB\n";
    let made = version_of(4, text);
    let options = |style| LevelOptions {
        style,
        num_levels: 4,
        max_bytes_for_level_base: 100 << 20,
        level0_file_num_compaction_trigger: 10,
        level_compaction_dynamic_level_bytes: false,
        read_triggered_compaction_threshold: 0.001,
        ..LevelOptions::default()
    };
    let pick_in = |options: &LevelOptions| {
        let input = at_rest(&made, options);
        let plan = pick(&input);
        assert_eq!(plan.is_some(), needs_compaction(&input));
        plan.map(|p| print_plan(&p).lines().take(2).collect::<Vec<_>>().join(" "))
    };
    let leveled = options(CompactionStyle::Level);
    let universal = options(CompactionStyle::Universal);
    // In the deepest level, and as many as the threshold says, they move nothing.
    made.files(3)[0].add_wasted_reads(1 << 40);
    made.files(1)[0].add_wasted_reads(1048);
    assert_eq!((pick_in(&leveled), pick_in(&universal)), (None, None));
    made.files(1)[0].add_wasted_reads(1);
    let begins = |plan: Option<String>, with: &str| {
        let plan = plan.unwrap();
        assert!(plan.starts_with(with), "{plan}");
        assert!(plan.contains("ReadTriggered"), "{plan}");
    };
    begins(pick_in(&leveled), "merge L1:3 + L2:4 -> L2");
    begins(pick_in(&universal), "merge L1:3 + L2:4 -> L2");
    made.files(0)[0].add_wasted_reads(3000);
    begins(pick_in(&leveled), "merge L0:1 + L1:2 -> L1");
    begins(pick_in(&universal), "merge L0:1 + L1:2 -> L1");
    let off = LevelOptions {
        read_triggered_compaction_threshold: 0.0,
        ..leveled
    };
    assert_eq!(pick_in(&off), None);
}
