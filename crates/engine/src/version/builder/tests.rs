use super::super::edit::BlobFileAddition;
use super::super::testing::{numbers, parse_file, version_of};
use super::*;
use std::sync::atomic::Ordering;

fn edit(deleted: &[(u32, u64)], added: &str) -> VersionEdit {
    let mut edit = VersionEdit::new();
    edit.deleted_files = deleted.to_vec();
    for line in added.lines().map(str::trim).filter(|l| !l.is_empty()) {
        edit.add_file(parse_file(line).0);
    }
    edit
}

fn apply(base: &Arc<Version>, edits: &[VersionEdit]) -> Result<Version> {
    let mut builder = VersionBuilder::new(base);
    for edit in edits {
        builder.apply(edit)?;
    }
    builder.build()
}

fn failure(base: &Arc<Version>, edits: &[VersionEdit]) -> String {
    apply(base, edits).unwrap_err().to_string()
}

#[test]
fn unchanged_levels_and_files_are_shared_with_the_base() {
    let base = version_of(4, "L1 5 a..c 10\nL1 6 d..f 10\nL2 7 a..z 10");
    let next = apply(&base, &[edit(&[(1, 5)], "L1 8 b..c 5")]).unwrap();
    assert!(Arc::ptr_eq(&base.levels[2], &next.levels[2]));
    assert_eq!(numbers(next.files(1)), [8, 6]);
    assert!(Arc::ptr_eq(&base.files(1)[1], &next.files(1)[1]));
}

#[test]
fn a_moved_file_keeps_its_identity_unless_its_description_changes() {
    let base = version_of(4, "L0 9 a..c 10 busy");
    let moved = edit(&[(0, 9)], "L1 9 a..c 10");
    let mut builder = VersionBuilder::new(&base);
    builder.apply(&moved).unwrap();
    assert!(builder.removed_files().is_empty());
    let next = builder.build().unwrap();
    assert!(Arc::ptr_eq(&base.files(0)[0], &next.files(1)[0]));

    let changed = edit(&[(0, 9)], "L1 9 a..c 10 path=1");
    let next = apply(&base, &[changed]).unwrap();
    let (old, new) = (&base.files(0)[0], &next.files(1)[0]);
    assert!(new.path_id == 1 && new.is_being_compacted());
    old.set_being_compacted(false);
    assert!(!new.is_being_compacted(), "the job that moved it ends");
    new.mark_obsolete();
    assert!(
        old.obsolete.load(Ordering::Relaxed),
        "both describe one file"
    );
}

#[test]
fn a_mark_that_comes_while_a_file_is_moved_stays_with_it() {
    let move_of = |line: &str| edit(&[(0, 9)], line);
    let marked_when_moved = |mark_first: bool| {
        let base = version_of(4, "L0 9 a..c 10");
        let old = &base.files(0)[0];
        let moved = match mark_first {
            true => move_of("L1 9 a..c 10 marked"),
            false => move_of("L1 9 a..c 10"),
        };
        old.suggest();
        let next = apply(&base, &[moved]).unwrap();
        let new = &next.files(1)[0];
        Arc::ptr_eq(old, new) && new.is_marked()
    };
    assert!(marked_when_moved(true) && marked_when_moved(false));

    // A mark that a MANIFEST sets and takes back.
    let base = version_of(4, "L0 9 a..c 10");
    let set = apply(&base, &[move_of("L1 9 a..c 10 marked")]).unwrap();
    assert!(set.files(1)[0].is_marked());
    let base = version_of(4, "L0 9 a..c 10 marked");
    let taken = apply(&base, &[move_of("L1 9 a..c 10")]).unwrap();
    assert!(!taken.files(1)[0].is_marked());
}

#[test]
fn removed_files_are_those_of_the_base_that_are_gone() {
    let base = version_of(4, "L0 9 a..c 10\nL1 5 a..c 10\nL1 6 d..e 10");
    let mut builder = VersionBuilder::new(&base);
    builder
        .apply(&edit(&[(0, 9), (1, 5)], "L1 10 a..c 20\nL1 11 f..g 1"))
        .unwrap();
    builder
        .apply(&edit(&[(1, 11), (1, 6)], "L2 6 d..e 10"))
        .unwrap();
    assert_eq!(numbers(&builder.removed_files()), [9, 5]);
    let next = builder.build().unwrap();
    assert_eq!(numbers(next.files(1)), [10]);
    assert_eq!(numbers(next.files(2)), [6]);
}

#[test]
fn adding_what_is_there_and_deleting_what_is_not_are_corruption() {
    let base = version_of(4, "L0 9 a..c 10");
    assert_eq!(
        failure(&base, &[edit(&[], "L2 9 a..c 10")]),
        "Corruption: VersionBuilder: Cannot add table file #9 to level 2 since it is already in the \
         LSM tree on level 0"
    );
    assert_eq!(
        failure(&base, &[edit(&[(1, 77)], "")]),
        "Corruption: VersionBuilder: Cannot delete table file #77 from level 1 since it is not in \
         the LSM tree"
    );
    assert_eq!(
        failure(&base, &[edit(&[(1, 9)], "")]),
        "Corruption: VersionBuilder: Cannot delete table file #9 from level 1 since it is on level 0"
    );
    let twice = [edit(&[(0, 9)], ""), edit(&[(0, 9)], "")];
    assert!(failure(&base, &twice).contains("not in the LSM tree"));
}

#[test]
fn deletions_come_before_additions_inside_an_edit() {
    let base = version_of(4, "L1 5 a..c 10");
    let next = apply(&base, &[edit(&[(1, 5)], "L2 5 a..c 10")]).unwrap();
    assert_eq!((next.num_files(1), next.num_files(2)), (0, 1));
}

#[test]
fn a_file_below_the_last_level_is_refused_only_if_it_stays() {
    let base = version_of(3, "");
    let add = edit(&[], "L5 5 a..c 10");
    assert_eq!(
        failure(&base, std::slice::from_ref(&add)),
        "Invalid argument: db has more levels than options.num_levels"
    );
    let back = edit(&[(5, 5)], "L2 5 a..c 10");
    assert_eq!(numbers(apply(&base, &[add, back]).unwrap().files(2)), [5]);
}

/// Holds V1.
#[test]
fn overlapping_files_of_a_sorted_level_are_corruption() {
    let base = version_of(4, "L1 5 a..d#2 10");
    assert_eq!(
        failure(&base, &[edit(&[], "L1 6 d#3..f 10")]),
        "Corruption: force_consistency_checks(VersionBuilder): L1 has overlapping ranges: file #5 \
         largest key: '64' seq:2, type:1 vs. file #6 smallest key: '64' seq:3, type:1"
    );
    // Older versions of the same user key may follow in the next file.
    assert!(apply(&base, &[edit(&[], "L1 6 d#1..f 10")]).is_ok());
    // The check can be turned off.
    let mut builder = VersionBuilder::new(&base).with_consistency_checks(false);
    builder.apply(&edit(&[], "L1 6 c..f 10")).unwrap();
    assert_eq!(numbers(builder.build().unwrap().files(1)), [5, 6]);
}

#[test]
fn files_that_meet_at_a_range_tombstones_end_do_not_overlap() {
    let base = version_of(4, "L1 5 a..d! 10");
    let next = apply(&base, &[edit(&[], "L1 6 d#9..f 10")]).unwrap();
    assert_eq!(numbers(next.files(1)), [5, 6]);
}

#[test]
fn level_zero_is_ordered_by_epoch_then_sequence() {
    let base = version_of(
        4,
        "L0 5 a#7..b#9 1 epoch=2\nL0 6 a#1..b#4 1 epoch=3\nL0 7 c#8..d#9 1 epoch=2",
    );
    assert_eq!(numbers(base.files(0)), [6, 7, 5]);
    let overlap = failure(&base, &[edit(&[], "L0 8 a..b 1 epoch=3")]);
    assert!(
        overlap.contains("L0 files of same epoch number but overlapping range #"),
        "{overlap}"
    );
}

#[test]
fn missing_epochs_are_inferred_from_the_deepest_level_up() {
    let base = version_of(5, "");
    let files = "
        L0 20 a#30..z#40 1 epoch=0
        L0 21 a#50..z#60 1 epoch=0
        L2 10 a..c 1 epoch=0
        L2 11 d..e 1 epoch=7
        L4 3 a..z 1 epoch=0";
    let next = apply(&base, &[edit(&[], files)]).unwrap();
    let epochs: Vec<_> = next
        .file_iter()
        .map(|(_, f)| (f.number, f.epoch_number))
        .collect();
    assert_eq!(epochs, [(21, 4), (20, 3), (10, 2), (11, 2), (3, 1)]);
    assert_eq!(next.max_epoch_number(), 4);

    let mut builder = VersionBuilder::new(&base).with_first_epoch(2);
    builder.apply(&edit(&[], files)).unwrap();
    assert_eq!(builder.build().unwrap().files(4)[0].epoch_number, 2);
}

#[test]
fn without_epochs_level_zero_is_ordered_and_checked_by_sequence() {
    let base = version_of(3, "");
    let next = apply(
        &base,
        &[edit(
            &[],
            "L0 5 a#40..b#50 1 epoch=0\nL0 9 a#10..b#20 1 epoch=0\nL0 7 c..d 1 epoch=0",
        )],
    );
    assert_eq!(numbers(next.unwrap().files(0)), [5, 9, 7]);
    let bad = "L0 5 a#10..b#50 1 epoch=0\nL0 9 a#10..b#20 1 epoch=0";
    assert_eq!(
        failure(&base, &[edit(&[], bad)]),
        "Corruption: force_consistency_checks(VersionBuilder): L0 files seqno 10 50 #5 vs. 10 20 #9"
    );
}

/// Holds G1.
#[test]
fn blob_files_live_as_long_as_tables_may_refer_to_them() {
    let blob = |number| BlobFileAddition {
        number,
        total_count: 10,
        total_bytes: 1000,
        ..BlobFileAddition::default()
    };
    let garbage = |number, count, bytes| VersionEdit {
        blob_file_garbages: vec![BlobFileGarbage {
            number,
            count,
            bytes,
        }],
        ..VersionEdit::default()
    };
    let empty = version_of(3, "");
    let mut first = edit(&[], "L1 50 a..c 1 blob=31\nL1 51 d..e 1 blob=33");
    first.blob_file_additions = vec![blob(30), blob(31), blob(32), blob(33)];
    let base = Arc::new(apply(&empty, std::slice::from_ref(&first)).unwrap());
    // 30 lies before the oldest file a table is linked to.
    assert_eq!(
        base.blob_files.keys().copied().collect::<Vec<_>>(),
        [31, 32, 33]
    );

    let next = apply(
        &base,
        &[
            garbage(32, 4, 400),
            garbage(32, 6, 600),
            garbage(33, 10, 1000),
        ],
    );
    let next = Arc::new(next.unwrap());
    // 32 is all garbage and linked to no table; 33 is linked.
    assert_eq!(
        next.blob_files.keys().copied().collect::<Vec<_>>(),
        [31, 33]
    );
    let gone = apply(&next, &[edit(&[(1, 50), (1, 51)], "")]).unwrap();
    assert!(gone.blob_files.is_empty());

    assert!(
        failure(&base, &[first]).contains("Blob file #30 already added")
            || base.blob_files.len() == 3
    );
    assert!(failure(&base, &[garbage(99, 1, 1)]).contains("Blob file #99 not found"));
    assert!(failure(&base, &[garbage(31, 11, 1)]).contains("Garbage overflow for blob file #31"));
    assert!(failure(&base, &[garbage(31, 1, u64::MAX)]).contains("Garbage overflow"));
    assert!(
        failure(&base, &[edit(&[], "L2 60 a..b 1 blob=77")]).contains("Blob file #77 is not part")
    );
}

#[test]
fn the_edit_of_a_version_recreates_it() {
    let mut first = edit(
        &[],
        "L0 9 a..c 10\nL0 8 b..d 10\nL1 5 a..c 10 blob=31\nL3 6 a..k 10 marked path=2",
    );
    first.blob_file_additions = vec![BlobFileAddition {
        number: 31,
        total_count: 3,
        total_bytes: 9,
        ..Default::default()
    }];
    first.blob_file_garbages = vec![BlobFileGarbage {
        number: 31,
        count: 1,
        bytes: 4,
    }];
    first.compact_cursors = vec![(1, b"key\0\0\0\0\0\0\0\0".to_vec())];
    let empty = version_of(4, "");
    let version = apply(&empty, &[first]).unwrap();
    let snapshot = version.to_edit();
    let again = apply(&empty, std::slice::from_ref(&snapshot)).unwrap();
    assert_eq!(again.to_edit(), snapshot);
    let order: Vec<_> = snapshot
        .new_files
        .iter()
        .map(|f| (f.level, f.number))
        .collect();
    assert_eq!(order, [(0, 9), (0, 8), (1, 5), (3, 6)]);
}
