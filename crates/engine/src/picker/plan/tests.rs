use super::*;
use crate::version::testing::{parse_key, version_of};

const KIB: u64 = 1 << 10;

/// A plan with target 1000 KB over the files of level 2 as grandparents.
fn plan(grandparents: &str) -> CompactionPlan {
    let version = version_of(3, grandparents);
    CompactionPlan {
        inputs: Vec::new(),
        proximal: None,
        output_level: 1,
        output_path: 0,
        base_level: 1,
        grandparents: version.files(2).to_vec(),
        target_file_size: 1000 * KIB,
        max_output_file_size: 2000 * KIB,
        max_compaction_bytes: 10_000 * KIB,
        compression: CompressionType::None,
        is_last_data_level: false,
        old_files: Vec::new(),
        partition_prefix: None,
        split_key: None,
        next_cursor: None,
        may_split: false,
        is_full: false,
        bottommost: false,
        is_trivial_move: false,
        only_deletes: false,
        is_leveled: true,
        output_temperature: Temperature::Unknown,
        reason: CompactionReason::LevelMaxLevelSize,
        score: 1.0,
    }
}

fn cutter(plan: &CompactionPlan) -> OutputCutter {
    OutputCutter::new(plan, Comparator::Bytewise, None, None)
}

/// The keys before which a cut is made; each word is `key:size`, the size in KB before the key.
fn cuts(plan: &CompactionPlan, keys: &str) -> String {
    let mut cutter = cutter(plan);
    let mut found = Vec::new();
    for word in keys.split_whitespace() {
        let (key, size) = word.split_once(':').unwrap();
        if cutter.should_cut_before(&parse_key(key), size.parse::<u64>().unwrap() * KIB) {
            found.push(key);
        }
    }
    found.join(" ")
}

#[test]
fn without_grandparents_only_the_size_cuts() {
    let p = plan("");
    assert_eq!(cuts(&p, "a:0 b:1999 c:2000 d:0 e:2001"), "c e");
    assert_eq!(
        cuts(&p, "a:5000 b:0"),
        "",
        "nothing is open before the first key"
    );
    let level0 = CompactionPlan {
        output_level: 0,
        ..plan("L2 1 b..c 9MB")
    };
    assert_eq!(
        cuts(&level0, "a:0 b:5000 d:9000 e:99000"),
        "",
        "level 0 is never cut"
    );
}

#[test]
fn an_output_ends_at_a_boundary_when_it_is_half_full_or_more() {
    let p = plan("L2 1 b..c 1KB\nL2 2 e..f 1KB\nL2 3 h..i 1KB");
    // Entering the first file: 55 percent are needed.
    assert_eq!(cuts(&p, "a:0 b:549"), "");
    assert_eq!(cuts(&p, "a:0 b:550"), "b");
    assert_eq!(cuts(&p, "a:0 ab:999 b:999"), "b", "only boundaries count");
    // The second boundary needs 60, the third 65.
    assert_eq!(cuts(&p, "a:0 b:100 d:599"), "");
    assert_eq!(cuts(&p, "a:0 b:100 d:600"), "d");
    assert_eq!(cuts(&p, "a:0 b:100 d:200 e:649"), "");
    assert_eq!(cuts(&p, "a:0 b:100 d:200 e:650"), "e");
    // A cut starts the count again.
    assert_eq!(cuts(&p, "a:0 b:550 d:550 e:550"), "b d e");
}

#[test]
fn the_threshold_ends_at_ninety_percent() {
    let many: String = (0..20)
        .map(|i| {
            let c = char::from(b'a' + i);
            format!("L2 {} {c}1..{c}2 10\n", i + 1)
        })
        .collect();
    let p = plan(&many);
    let mut keys: String = (0..15)
        .map(|i| {
            let c = char::from(b'a' + i);
            format!("{c}0:100 {c}1:100 ")
        })
        .collect();
    keys.insert_str(0, "0:0 ");
    assert_eq!(cuts(&p, &format!("{keys} t:899")), "");
    assert_eq!(cuts(&p, &format!("{keys} t:900")), "t");
}

#[test]
fn an_output_ends_before_it_would_overlap_too_much() {
    let p = plan("L2 1 b..c 5MB\nL2 2 e..f 5MB\nL2 3 h..i 5MB");
    // 5 MB are fine; two files are 10 240 KB with the output more than 10 000 KB.
    assert_eq!(cuts(&p, "a:0 b:1 e:2"), "e");
    // The new output begins inside the second file: its 5 MB count, with the third too much.
    assert_eq!(cuts(&p, "a:0 b:1 e:2 f:0 h:1"), "e h");
    assert_eq!(
        cuts(&p, "b:0 e:1"),
        "e",
        "the first key may lie inside a file"
    );
}

#[test]
fn an_output_ends_where_it_would_step_over_a_whole_file() {
    // 1000 KB target: more than 125 KB stepped over.
    let large = plan("L2 1 b..c 1KB\nL2 2 e..f 126KB\nL2 3 h..i 1KB");
    assert_eq!(cuts(&large, "a:0 d:1 g:2"), "g", "gap to gap");
    assert_eq!(cuts(&large, "a:0 c:1 h:2"), "h", "file to file");
    assert_eq!(cuts(&large, "a:0 d:1 f:2 g:3"), "", "the file was met");
    assert_eq!(
        cuts(&large, "a:0 b:1 e:2"),
        "",
        "from file to file without one between"
    );
    let small = plan("L2 1 b..c 1KB\nL2 2 e..f 125KB\nL2 3 h..i 1KB");
    assert_eq!(cuts(&small, "a:0 d:1 g:2"), "");
}

#[test]
fn a_user_key_split_over_files_counts_once() {
    let p = plan("L2 1 b..d#9 40KB\nL2 2 d#8..d#5 40KB\nL2 3 d#4..f 40KB");
    let mut c = cutter(&p);
    assert!(!c.should_cut_before(&parse_key("a"), 0));
    assert!(!c.should_cut_before(&parse_key("d#7"), 1));
    assert_eq!(
        (c.index, c.in_gap),
        (2, false),
        "the last file with the key"
    );
    assert_eq!(c.overlapped_bytes, 120 * KIB);
    // A cut before the key leaves the new output with all three.
    let mut c = cutter(&p);
    c.should_cut_before(&parse_key("c"), 0);
    assert_eq!(c.overlapped_bytes, 40 * KIB);
    assert!(c.should_cut_before(&parse_key("d#7"), 2000 * KIB));
    assert_eq!((c.overlapped_bytes, c.boundaries), (120 * KIB, 0));
}

#[test]
fn where_round_robin_goes_on_an_output_begins_unless_another_cut_hides_it() {
    let p = CompactionPlan {
        split_key: Some(parse_key("d#9")),
        ..plan("")
    };
    assert_eq!(cuts(&p, "a:0 c:1 d#7:2 e:1"), "d#7");
    assert_eq!(
        cuts(&p, "a:0 d#7:2000 e:1 f:2"),
        "d#7 e",
        "then the next key"
    );
    assert_eq!(cuts(&p, "d#7:0 e:1 f:2"), "e", "the first key is not asked");
    let mut behind = OutputCutter::new(&p, Comparator::Bytewise, Some(b"d"), None);
    assert!(!behind.should_cut_before(&parse_key("d#7"), 0));
    assert!(
        !behind.should_cut_before(&parse_key("e"), 1),
        "another range"
    );
}

#[test]
fn outputs_end_around_old_files() {
    let p = CompactionPlan {
        old_files: version_of(3, "L1 1 d..f 1KB\nL1 2 h..i 1KB")
            .files(1)
            .to_vec(),
        ..plan("")
    };
    assert_eq!(cuts(&p, "a:0 c:1 d:2 e:3 g:4 h:1 k:2"), "d g h k");
    assert_eq!(
        cuts(&p, "a:0 d:2000 e:1 g:2"),
        "d g",
        "in one with another cut"
    );
    assert_eq!(
        cuts(&p, "d:0 e:1 g:2"),
        "g",
        "the first output may begin there"
    );
    assert_eq!(cuts(&p, "a:0 g:1 j:2"), "", "files stepped over");
}

#[test]
fn a_partitioner_cuts_where_the_prefix_changes_and_not_in_level_zero() {
    let mut p = CompactionPlan {
        partition_prefix: Some(1),
        ..plan("")
    };
    assert_eq!(cuts(&p, "aa:0 ab:1 ba:2 bb:0 c:1"), "ba c");
    p.output_level = 0;
    assert_eq!(cuts(&p, "aa:0 ab:1 ba:2 bb:0 c:1"), "");
}

#[test]
fn ranges_of_a_plan_cover_all_inputs() {
    let version = version_of(3, "L0 1 m..z 1\nL0 2 a..c 1\nL1 3 b..n 7");
    let p = CompactionPlan {
        inputs: vec![
            (0, version.files(0).to_vec()),
            (1, version.files(1).to_vec()),
        ],
        ..plan("")
    };
    let range = p.user_key_range(&Comparator::Bytewise);
    assert_eq!(range, (b"a".to_vec(), b"z".to_vec()));
    assert_eq!(p.input_files().map(|f| f.size).sum::<u64>(), 9);
    assert_eq!(
        p.to_string(),
        "merge L0:2,1 + L1:3 -> L1 (LevelMaxLevelSize, score 1.00, base L1)"
    );
}
