//! Tests of what needs no database.

use super::compactions::Row;
use super::human;
use crate::core::JobNumbers;

/// Rows and numbers as RocksDB 11.8.1 printed them.
#[test]
fn numbers_for_people_read_as_rocksdbs() {
    for (bytes, text) in [
        (53_767, "52.51 KB"),
        (34_480, "33.67 KB"),
        (0, "0.00 KB"),
        (32 << 20, "32.00 MB"),
        (1 << 50, "1024.00 TB"),
    ] {
        assert_eq!(human::bytes(bytes), text);
    }
    for (n, text) in [
        (0, "0"),
        (9_999, "9999"),
        (15_010, "15K"),
        (10_000_000, "10M"),
        (20_000_000_000, "20G"),
    ] {
        assert_eq!(human::number(n), text);
    }
    assert_eq!(human::duration(0), "00:00:0.000");
    assert_eq!(human::duration(3_723_004_000), "01:02:3.004");
}

#[test]
fn a_row_of_the_table_has_rocksdbs_columns() {
    let jobs = JobNumbers {
        micros: 106_000,
        cpu_micros: 4_000,
        read_upper_bytes: 99_000,
        written_bytes: 34_480,
        entries_read: 10_000,
        entries_dropped: 2_500,
        jobs: 1,
        ..JobNumbers::default()
    };
    let mut out = String::new();
    Row {
        name: "L6",
        files: 1,
        busy_files: 0,
        bytes: 34_480,
        score: 0.0,
        amplification: 0.3,
        jobs: &jobs,
    }
    .write(&mut out);
    assert_eq!(
        out,
        "  L6      1/0     33.67 KB   0.0      0.0     0.0      0.0       0.0       0.0      0.0       \
         0.0   0.3      0.9      0.3      0.11              0.00         1    0.106     10K   2500       \
         0.0       0.0\n"
    );
}

/// As RocksDB 11.8.1 answers.
#[test]
fn digits_behind_a_name_count_only_where_they_say_a_level() {
    for (name, asked) in [
        ("rocksdb.estimate-num-keys5", "rocksdb.estimate-num-keys"),
        ("rocksdb.stats", "rocksdb.stats"),
        (
            "rocksdb.num-files-at-level00",
            "rocksdb.num-files-at-level00",
        ),
        ("rocksdb.num-files-at-level", "rocksdb.num-files-at-level"),
        (
            "rocksdb.aggregated-table-properties3",
            "rocksdb.aggregated-table-properties",
        ),
        (
            "rocksdb.aggregated-table-properties-at-level3",
            "rocksdb.aggregated-table-properties-at-level3",
        ),
        ("rocksdb.num-snapshots1a", "rocksdb.num-snapshots1a"),
        ("12", ""),
    ] {
        assert_eq!(super::without_digits(name), asked);
    }
}
