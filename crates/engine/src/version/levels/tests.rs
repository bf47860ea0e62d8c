use super::super::testing::{parse_size, print_size, version_of};
use super::*;

const MIB: u64 = 1 << 20;

fn dynamic() -> LevelOptions {
    LevelOptions {
        max_bytes_for_level_base: 100 * MIB,
        target_file_size_base: 10 * MIB,
        ..LevelOptions::default()
    }
}

fn fixed() -> LevelOptions {
    LevelOptions {
        level_compaction_dynamic_level_bytes: false,
        ..dynamic()
    }
}

/// One file per level with the sizes given as `L6=4GB`.
fn sizes(levels: &str) -> Version {
    let mut text = String::new();
    for word in levels.split_whitespace() {
        let (level, size) = word.split_once('=').unwrap();
        text += &format!("{level} {} a..z {}\n", text.len() + 1, parse_size(size));
    }
    std::sync::Arc::into_inner(version_of(7, &text)).unwrap()
}

fn targets(levels: &str, options: &LevelOptions) -> (usize, String, Option<usize>) {
    let t = LevelTargets::compute(&sizes(levels), options);
    let text: Vec<_> = t.max_bytes.iter().map(|&b| print_size(b)).collect();
    (t.base_level, text.join(" "), t.lowest_unnecessary_level)
}

/// Levels and scores, highest first, scores to three digits.
fn scores(version: &Version, options: &LevelOptions) -> String {
    let t = LevelTargets::compute(version, options);
    let scored = t.scores.iter().filter(|s| s.1 > 0.0);
    scored
        .map(|(level, score)| format!("L{level}={score:.3}"))
        .collect::<Vec<_>>()
        .join(" ")
}

#[test]
fn static_targets_grow_from_level_one() {
    let (base, bytes, unnecessary) = targets("", &fixed());
    assert_eq!(
        bytes,
        "100MB 100MB 1000MB 10000MB 100000MB 1000000MB 10000000MB"
    );
    assert_eq!((base, unnecessary), (1, None));
    let additional = LevelOptions {
        max_bytes_for_level_multiplier_additional: vec![1, 2, 1, 3],
        max_bytes_for_level_multiplier: 2.0,
        ..fixed()
    };
    let (_, bytes, _) = targets("", &additional);
    assert_eq!(bytes, "100MB 100MB 400MB 800MB 4800MB 9600MB 19200MB");
}

#[test]
fn an_empty_tree_compacts_into_the_last_level() {
    let (base, bytes, unnecessary) = targets("L0=50MB", &dynamic());
    assert_eq!(bytes, "inf inf inf inf inf inf inf");
    assert_eq!((base, unnecessary), (6, None));
}

#[test]
fn dynamic_targets_follow_the_largest_level() {
    // The last level alone: everything fits there.
    let (base, bytes, _) = targets("L6=90MB", &dynamic());
    assert_eq!((base, &bytes[..]), (6, "inf inf inf inf inf inf 100MB"));
    // Past the base size the level above becomes the base level.
    let (base, bytes, _) = targets("L6=200MB", &dynamic());
    assert_eq!((base, &bytes[..]), (5, "inf inf inf inf inf 100MB 200MB"));
    let (base, bytes, _) = targets("L6=3000MB", &dynamic());
    assert_eq!(
        (base, &bytes[..]),
        (4, "inf inf inf inf 100MB 300MB 3000MB")
    );
    // Five levels above the last are all needed; no target is below the base size.
    let (base, bytes, _) = targets("L6=9000000MB", &dynamic());
    assert_eq!(
        (base, &bytes[..]),
        (1, "inf 100MB 900MB 9000MB 90000MB 900000MB 9000000MB")
    );
}

#[test]
fn levels_the_data_does_not_need_are_marked_unnecessary() {
    // 500 MB in the last level need one level above; levels 3 and 4 hold data all the same.
    let (base, bytes, unnecessary) = targets("L3=20MB L4=30MB L6=500MB", &dynamic());
    assert_eq!((base, unnecessary), (3, Some(4)));
    assert!(bytes.starts_with("inf inf inf 100MB"), "{bytes}");
    let version = sizes("L3=20MB L4=30MB L6=500MB");
    // Drained from the top, ahead of levels that are merely nearly full.
    assert_eq!(scores(&version, &dynamic()), "L3=10.020 L4=10.010");
}

#[test]
fn level_zero_scores_by_count_or_bytes() {
    let four = "L0 1 a..b 1MB\nL0 2 c..d 1MB\nL0 3 e..f 1MB\nL0 4 g..h 1MB\n";
    let v = version_of(7, four);
    assert_eq!(scores(&v, &fixed()), "L0=1.000");
    assert_eq!(scores(&v, &dynamic()), "L0=1.000");
    let v = version_of(7, &format!("{four}L0 5 i..j 1MB"));
    assert_eq!(scores(&v, &fixed()), "L0=1.250");
    assert_eq!(scores(&v, &dynamic()), "L0=12.500");
    let v = version_of(7, &format!("{four}L0 5 i..j 1MB busy"));
    assert_eq!(
        scores(&v, &dynamic()),
        "L0=1.000",
        "files being compacted do not count"
    );
    let one = version_of(7, "L0 1 a..b 150MB");
    assert_eq!(scores(&one, &fixed()), "L0=1.500");
    assert_eq!(
        scores(&one, &dynamic()),
        "L0=10.100",
        "bytes of the base level make it due"
    );
    let large = version_of(7, "L0 1 a..b 600MB\nL5 2 a..b 120MB\nL6 3 a..b 1000MB");
    // Base level 5 with target 100 MB: 600 / max(120, 100).
    assert_eq!(scores(&large, &dynamic()), "L0=50.000 L5=1.714");
}

#[test]
fn data_coming_down_lowers_the_score_of_a_full_level() {
    let v = sizes("L4=200MB L5=600MB L6=3000MB");
    // L4: 200/100 x 10; then 100 MB are on their way to L5: 600/(300+100) x 10.
    assert_eq!(scores(&v, &dynamic()), "L4=20.000 L5=15.000");
    let v = sizes("L4=50MB L5=600MB L6=3000MB");
    assert_eq!(scores(&v, &dynamic()), "L5=20.000 L4=0.500");
    let v = sizes("L1=250MB L2=500MB");
    assert_eq!(scores(&v, &fixed()), "L1=2.500 L2=0.500");
}

#[test]
fn debt_is_what_must_be_rewritten_until_all_levels_fit() {
    let debt = |levels: &str, o: &LevelOptions| {
        let t = LevelTargets::compute(&sizes(levels), o);
        t.pending_compaction_bytes / MIB
    };
    assert_eq!(debt("L0=40MB L1=90MB", &fixed()), 0);
    // Level 0 is due by bytes: 120 into 90; 110 too many in L1; nothing below to merge with.
    assert_eq!(debt("L0=120MB L1=90MB", &fixed()), 120 + 90);
    // 300 MB: 200 too many, next level three times as large, so each byte costs 1 + 900/300.
    assert_eq!(debt("L1=300MB L2=900MB", &fixed()), 800);
    // L2 then holds 900 + 200 = 1100, 100 too many; L3 is 4400: 100 x (1 + 4400/1100).
    assert_eq!(debt("L1=300MB L2=900MB L3=4400MB", &fixed()), 800 + 500);
    assert_eq!(debt("L5=300MB L6=3000MB", &dynamic()), 0);
}

#[test]
fn surplus_tombstones_make_a_file_weigh_more() {
    // 1000 values of 90 bytes in 50 000 of 100 000 raw bytes: 45 bytes per value on disk.
    let v = version_of(
        7,
        "L1 1 a..b 50000 entries=1000\n\
         L1 2 c..d 7 entries=100 deletions=49\n\
         L1 3 e..f 7 entries=100 deletions=80\n\
         L1 4 g..h 7",
    );
    let t = LevelTargets::compute(&v, &fixed());
    let weight = |i: usize| t.compensated_size(&v.files(1)[i]);
    let average = t.average_value_size;
    assert!((40..=50).contains(&average), "{average}");
    assert_eq!(weight(1), 7, "fewer tombstones than values");
    assert_eq!(weight(2), 7 + 60 * average * 2);
    assert_eq!(weight(3), 7, "unknown properties");
    // The figure stays although values become larger, until the file comes to another level.
    let larger = LevelTargets {
        average_value_size: average * 3,
        ..t.clone()
    };
    let file = &v.files(1)[2];
    assert_eq!(larger.compensated_size(file), 7 + 60 * average * 2);
    file.forget_weight();
    assert_eq!(larger.compensated_size(file), 7 + 60 * average * 3 * 2);
}

#[test]
fn file_sizes_grow_from_the_base_level() {
    let o = LevelOptions {
        target_file_size_multiplier: 2,
        ..dynamic()
    };
    let all = |o: &LevelOptions, base| {
        (0..7)
            .map(|l| o.target_file_size(l, base) / MIB / 10)
            .collect::<Vec<_>>()
    };
    assert_eq!(all(&o, 4), [1, 1, 2, 4, 1, 1, 2]);
    let o = LevelOptions {
        level_compaction_dynamic_level_bytes: false,
        ..o
    };
    assert_eq!(all(&o, 1), [1, 1, 2, 4, 8, 16, 32]);
    assert_eq!(dynamic().compaction_bytes_limit(), 250 * MIB);
    let set = LevelOptions {
        max_compaction_bytes: 3,
        ..dynamic()
    };
    assert_eq!(set.compaction_bytes_limit(), 3);
}

#[test]
fn the_codec_depends_on_the_level() {
    use CompressionType::{Lz4, None as Plain};
    let o = LevelOptions {
        compression: Lz4,
        ..dynamic()
    };
    let v = sizes("L4=1MB L6=3000MB");
    assert_eq!(o.compression_for(0), Lz4);
    assert_eq!(o.output_compression(&v, 4, 4), Lz4);
    let per_level = LevelOptions {
        compression_per_level: vec![Plain, Plain, Lz4],
        ..dynamic()
    };
    assert_eq!(per_level.compression_for(0), Plain);
    assert_eq!(per_level.output_compression(&v, 0, 4), Plain);
    assert_eq!(per_level.output_compression(&v, 4, 4), Plain);
    assert_eq!(per_level.output_compression(&v, 5, 4), Lz4);
    assert_eq!(
        per_level.output_compression(&v, 6, 4),
        Lz4,
        "the last entry repeats"
    );
    let bottom = LevelOptions {
        bottommost_compression: Some(Lz4),
        ..dynamic()
    };
    assert_eq!(bottom.output_compression(&v, 5, 4), Plain);
    assert_eq!(bottom.output_compression(&v, 6, 4), Lz4);
    let by_depth = LevelOptions {
        compression: Lz4,
        codec_by_depth: true,
        ..dynamic()
    };
    assert_eq!(by_depth.compression_for(0), Plain);
    assert_eq!(by_depth.output_compression(&v, 4, 4), Lz4);
    let listed = LevelOptions {
        compression_per_level: vec![Lz4],
        ..by_depth
    };
    assert_eq!(listed.compression_for(0), Lz4);
}

#[test]
fn marked_files_alone_make_work() {
    let v = version_of(7, "L5 1 a..b 1 marked\nL6 2 a..b 1 marked");
    let t = LevelTargets::compute(&v, &dynamic());
    // Those of the deepest level stay where they are.
    assert_eq!((t.marked_files, t.top_score() >= 1.0), (1, true));
    let v = version_of(7, "L5 1 a..b 1 marked busy\nL6 2 a..b 1 marked");
    let t = LevelTargets::compute(&v, &dynamic());
    assert_eq!((t.marked_files, t.top_score() >= 1.0), (0, false));
    // Level 0 is never the last word.
    let v = version_of(7, "L0 1 a..b 1 marked");
    assert_eq!(LevelTargets::compute(&v, &dynamic()).marked_files, 1);
    let v = version_of(1, "L0 1 a..b 1 marked");
    assert_eq!(LevelTargets::compute(&v, &dynamic()).marked_files, 1);
}

#[test]
fn odd_numbers_of_levels_do_no_harm() {
    for o in [dynamic(), fixed()] {
        for levels in 0..3 {
            let text = if levels > 0 { "L0 1 a..b 1GB" } else { "" };
            let v = version_of(levels, text);
            let t = LevelTargets::compute(&v, &o);
            assert_eq!(t.scores.len(), levels.saturating_sub(1));
        }
    }
}
