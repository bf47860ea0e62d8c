//! Versions written down as text, for tests.
//!
//! ```text
//! L0 12 a#5..f#9 4MB epoch=3 busy marked
//! L1 10 a..c! 64MB
//! ```
//!
//! Level, number, bounds, size, flags. A bound is a user key, a sequence number after `#` (1 if it is
//! left out), and `!` for the exclusive sentinel of a range tombstone. Further flags: `blob=N`,
//! `path=N`, `entries=N`, `deletions=N` (with keys of 10 and values of 90 bytes), `ranges=N` (as many of the
//! deletions are of ranges), `made=N` and `data=N` (when the file was made and its oldest data written),
//! `warmth=N` (temperature). A line `blob 7 1MB 300KB` is a blob file with its number, size, and garbage.

use super::edit::{BlobFileAddition, BlobFileGarbage, NewFile, VersionEdit};
use super::file_meta::FileStats;
use super::{Version, VersionBuilder};
use spanlith_base::Comparator;
use spanlith_base::keys::{MAX_SEQUENCE, ValueType, internal_key, pack_tag, tag, tag_sequence};
use std::sync::Arc;

/// Bytes from `64MB`, `1KB`, `7`.
pub fn parse_size(text: &str) -> u64 {
    let units = [("KB", 10), ("MB", 20), ("GB", 30), ("TB", 40)];
    for (unit, shift) in units {
        if let Some(number) = text.strip_suffix(unit) {
            return number.parse::<u64>().unwrap() << shift;
        }
    }
    text.parse().unwrap_or_else(|_| panic!("size {text:?}"))
}

/// The shortest exact form of a size.
pub fn print_size(bytes: u64) -> String {
    if bytes == u64::MAX {
        return "inf".to_string();
    }
    for (unit, shift) in [("GB", 30), ("MB", 20), ("KB", 10)] {
        if bytes > 0 && bytes.is_multiple_of(1 << shift) {
            return format!("{}{unit}", bytes >> shift);
        }
    }
    bytes.to_string()
}

/// An internal key from `key`, `key#7` or `key!`.
pub fn parse_key(text: &str) -> Vec<u8> {
    if let Some(user) = text.strip_suffix('!') {
        let sentinel = pack_tag(MAX_SEQUENCE, ValueType::RangeDeletion as u8);
        return internal_key(user.as_bytes(), sentinel);
    }
    let (user, seqno) = text.split_once('#').unwrap_or((text, "1"));
    internal_key(user.as_bytes(), pack_tag(seqno.parse().unwrap(), 1))
}

/// A file from its line, and whether it is in a running plan, and its statistics.
pub fn parse_file(line: &str) -> (NewFile, bool, Option<FileStats>) {
    let mut words = line.split_whitespace();
    let mut next = || {
        words
            .next()
            .unwrap_or_else(|| panic!("short line {line:?}"))
    };
    let level = next().strip_prefix('L').unwrap().parse().unwrap();
    let number = next().parse().unwrap();
    let (smallest, largest) = next().split_once("..").unwrap();
    let (smallest, largest) = (parse_key(smallest), parse_key(largest));
    let seqno = |key: &[u8]| match tag_sequence(tag(key)) {
        MAX_SEQUENCE => 1,
        other => other,
    };
    let (a, b) = (seqno(&smallest), seqno(&largest));
    let mut file = NewFile {
        level,
        number,
        size: parse_size(next()),
        smallest,
        largest,
        smallest_seqno: a.min(b),
        largest_seqno: a.max(b),
        epoch_number: number,
        ..NewFile::default()
    };
    let mut busy = false;
    let mut stats: Option<FileStats> = None;
    for word in words {
        let (name, value) = word.split_once('=').unwrap_or((word, "0"));
        let value: u64 = value.parse().unwrap();
        match name {
            "busy" => busy = true,
            "marked" => file.marked_for_compaction = true,
            "epoch" => file.epoch_number = value,
            "blob" => file.oldest_blob_file_number = value,
            "made" => file.file_creation_time = value,
            "data" => file.oldest_ancester_time = value,
            "warmth" => file.temperature = value as u8,
            "ranges" => {
                let s = stats.get_or_insert_default();
                s.num_range_deletions = value;
            }
            "path" => file.path_id = value as u32,
            "entries" => {
                let s = stats.get_or_insert_default();
                s.num_entries = value;
                s.raw_key_size = 10 * value;
                s.raw_value_size += 90 * value;
            }
            "deletions" => {
                let s = stats.get_or_insert_default();
                s.num_deletions = value;
                s.raw_value_size -= 90 * value;
            }
            other => panic!("unknown flag {other:?}"),
        }
    }
    (file, busy, stats)
}

/// Adds a blob file, from its line without the first word: one blob by each byte.
fn add_blob_file(edit: &mut VersionEdit, line: &str) {
    let mut numbers = line.split_whitespace().map(parse_size);
    let mut next = || numbers.next().expect("number, size, and garbage");
    let (number, total, garbage) = (next(), next(), next());
    edit.blob_file_additions.push(BlobFileAddition {
        number,
        total_count: total,
        total_bytes: total,
        ..BlobFileAddition::default()
    });
    if garbage > 0 {
        edit.blob_file_garbages.push(BlobFileGarbage {
            number,
            count: garbage,
            bytes: garbage,
        });
    }
}

/// A version of `num_levels` levels with one file per line.
pub fn version_of(num_levels: usize, text: &str) -> Arc<Version> {
    let mut edit = VersionEdit::new();
    let all = || text.lines().map(str::trim).filter(|l| !l.is_empty());
    for line in all().filter_map(|l| l.strip_prefix("blob ")) {
        add_blob_file(&mut edit, line);
    }
    let lines = || all().filter(|l| !l.starts_with("blob "));
    for line in lines() {
        edit.add_file(parse_file(line).0);
    }
    let mut builder =
        VersionBuilder::new(&Arc::new(Version::empty(Comparator::Bytewise, num_levels)));
    builder.apply(&edit).unwrap();
    let version = builder.build().unwrap();
    for line in lines() {
        let (file, busy, stats) = parse_file(line);
        let (level, index) = version.locate(file.number).unwrap();
        let meta = &version.files(level)[index];
        meta.set_being_compacted(busy);
        if let Some(stats) = stats {
            meta.stats.set(stats).unwrap();
        }
    }
    Arc::new(version)
}

/// Numbers of files, in order.
pub fn numbers(files: &[Arc<super::FileMeta>]) -> Vec<u64> {
    files.iter().map(|f| f.number).collect()
}
