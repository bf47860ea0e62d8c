//! Describes what one thread's files cost: RocksDB's I/O statistics context.
//!
//! As [`crate::perf`], whose level decides here too: bytes and counts from level 2 on, times where the
//! caller's [`crate::perf::is_timed`] says so.

use crate::perf;
use std::cell::Cell;
use std::fmt::Write;

macro_rules! io_stats {
    ($($Variant:ident, $text:literal;)*) => {
        /// A number about the calling thread's files; times are in nanoseconds.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs, reason = "RocksDB's name says it")]
        pub enum IoStat { $($Variant),* }

        impl IoStat {
            /// All, in the order of RocksDB's report.
            pub const ALL: &'static [Self] = &[$(Self::$Variant),*];

            /// RocksDB's name.
            pub fn name(self) -> &'static str {
                const NAMES: &[&str] = &[$($text),*];
                NAMES[self as usize]
            }
        }
    };
}

io_stats! {
    BytesRead, "bytes_read";
    BytesWritten, "bytes_written";
    OpenNanos, "open_nanos";
    AllocateNanos, "allocate_nanos";
    WriteNanos, "write_nanos";
    ReadNanos, "read_nanos";
    RangeSyncNanos, "range_sync_nanos";
    FsyncNanos, "fsync_nanos";
    PrepareWriteNanos, "prepare_write_nanos";
    LoggerNanos, "logger_nanos";
    CpuWriteNanos, "cpu_write_nanos";
    CpuReadNanos, "cpu_read_nanos";
    HotFileBytesRead, "hot_file_bytes_read";
    WarmFileBytesRead, "warm_file_bytes_read";
    CoolFileBytesRead, "cool_file_bytes_read";
    ColdFileBytesRead, "cold_file_bytes_read";
    IceFileBytesRead, "ice_file_bytes_read";
    HotFileReadCount, "hot_file_read_count";
    WarmFileReadCount, "warm_file_read_count";
    CoolFileReadCount, "cool_file_read_count";
    ColdFileReadCount, "cold_file_read_count";
    IceFileReadCount, "ice_file_read_count";
}

const SIZE: usize = IoStat::ALL.len();

thread_local! {
    static VALUES: [Cell<u64>; SIZE] = const { [const { Cell::new(0) }; SIZE] };
}

/// Adds to a number of the calling thread, from level 2 on.
#[inline]
pub fn add(stat: IoStat, n: u64) {
    if perf::is_on() {
        VALUES.with(|values| {
            let value = &values[stat as usize];
            value.set(value.get().wrapping_add(n));
        });
    }
}

/// The calling thread's number.
pub fn value(stat: IoStat) -> u64 {
    VALUES.with(|values| values[stat as usize].get())
}

/// Sets all numbers of the calling thread to zero.
pub fn reset() {
    VALUES.with(|values| values.iter().for_each(|value| value.set(0)));
}

/// RocksDB's text: `name = value` for each number, separated by a comma and a blank.
pub fn report(without_zeros: bool) -> String {
    let mut out = String::new();
    for &stat in IoStat::ALL {
        let value = value(stat);
        if value != 0 || !without_zeros {
            let comma = if out.is_empty() { "" } else { ", " };
            // Writing to a string cannot fail.
            let _ = write!(out, "{comma}{} = {value}", stat.name());
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_counted_from_the_level_of_counts_on() {
        add(IoStat::BytesRead, 5);
        assert_eq!(report(true), "");
        perf::set_level(2);
        add(IoStat::BytesRead, 5);
        add(IoStat::FsyncNanos, 7);
        assert_eq!(value(IoStat::BytesRead), 5);
        assert_eq!(report(true), "bytes_read = 5, fsync_nanos = 7");
        assert!(report(false).contains("bytes_written = 0, "));
        reset();
        assert_eq!(report(true), "");
    }
}
