//! The benchmarks by name: db_bench's and YCSB's.

use super::settings::Settings;

/// Everything `bench` can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    FillSeq,
    FillRandom,
    FillUniqueRandom,
    FillBatch,
    FillSync,
    Fill100K,
    Overwrite,
    UpdateRandom,
    AppendRandom,
    MergeRandom,
    ReadRandom,
    ReadHot,
    ReadMissing,
    ReadSeq,
    ReadReverse,
    MultiReadRandom,
    SeekRandom,
    ReadWhileWriting,
    ReadWhileMerging,
    SeekRandomWhileWriting,
    SeekRandomWhileMerging,
    ReadRandomWriteRandom,
    DeleteSeq,
    DeleteRandom,
    DeleteRangeRandom,
    FillFamilies,
    ReadFamilies,
    YcsbLoad,
    YcsbA,
    YcsbB,
    YcsbC,
    YcsbD,
    YcsbE,
    YcsbF,
    YcsbW,
    Compact,
    Flush,
    WaitForCompaction,
    Stats,
    LevelStats,
    SsTables,
}

/// Name, kind, what it does.
pub const ALL: &[(&str, Kind, &str)] = &[
    (
        "fillseq",
        Kind::FillSeq,
        "puts every key once, in order, into a fresh database",
    ),
    (
        "fillrandom",
        Kind::FillRandom,
        "puts random keys into a fresh database",
    ),
    (
        "filluniquerandom",
        Kind::FillUniqueRandom,
        "puts every key once, in random order, into a fresh database",
    ),
    (
        "fillbatch",
        Kind::FillBatch,
        "as fillseq, in batches (--batch-size, else 1000)",
    ),
    (
        "fillsync",
        Kind::FillSync,
        "as fillrandom with sync; a thousandth of --num",
    ),
    (
        "fill100K",
        Kind::Fill100K,
        "as fillrandom with values of 100 000 bytes; a thousandth of --num",
    ),
    (
        "overwrite",
        Kind::Overwrite,
        "puts random keys into the existing database",
    ),
    (
        "updaterandom",
        Kind::UpdateRandom,
        "gets a random key and puts it again",
    ),
    (
        "appendrandom",
        Kind::AppendRandom,
        "gets a random key, appends a value, puts it again",
    ),
    (
        "mergerandom",
        Kind::MergeRandom,
        "adds 1 to random counters by merges",
    ),
    ("readrandom", Kind::ReadRandom, "gets random keys"),
    (
        "readhot",
        Kind::ReadHot,
        "gets random keys of the first hundredth",
    ),
    (
        "readmissing",
        Kind::ReadMissing,
        "gets keys that are not there, among those that are",
    ),
    (
        "readseq",
        Kind::ReadSeq,
        "one scan from the first key to the last",
    ),
    (
        "readreverse",
        Kind::ReadReverse,
        "one scan from the last key to the first",
    ),
    (
        "multireadrandom",
        Kind::MultiReadRandom,
        "multi-get of --batch-size (else 32) random keys",
    ),
    (
        "seekrandom",
        Kind::SeekRandom,
        "seeks random keys with a new iterator, then --seek-nexts steps",
    ),
    (
        "readwhilewriting",
        Kind::ReadWhileWriting,
        "readrandom on --threads while one more thread puts",
    ),
    (
        "readwhilemerging",
        Kind::ReadWhileMerging,
        "readrandom on --threads while one more thread merges",
    ),
    (
        "seekrandomwhilewriting",
        Kind::SeekRandomWhileWriting,
        "seekrandom on --threads while one more thread puts",
    ),
    (
        "seekrandomwhilemerging",
        Kind::SeekRandomWhileMerging,
        "seekrandom on --threads while one more thread merges",
    ),
    (
        "readrandomwriterandom",
        Kind::ReadRandomWriteRandom,
        "gets, --readwritepercent of all, and puts; 'mixed' for short",
    ),
    ("deleteseq", Kind::DeleteSeq, "deletes every key, in order"),
    ("deleterandom", Kind::DeleteRandom, "deletes random keys"),
    (
        "deleterangerandom",
        Kind::DeleteRangeRandom,
        "range deletions of --range-size keys at random places",
    ),
    (
        "fillfamilies",
        Kind::FillFamilies,
        "batches of a random key in each of --families families",
    ),
    (
        "readfamilies",
        Kind::ReadFamilies,
        "gets random keys from random families of --families",
    ),
    (
        "ycsbload",
        Kind::YcsbLoad,
        "YCSB: inserts --num records, in hashed order, into a fresh database",
    ),
    (
        "ycsba",
        Kind::YcsbA,
        "YCSB A: 50 % reads, 50 % updates, zipfian",
    ),
    (
        "ycsbb",
        Kind::YcsbB,
        "YCSB B: 95 % reads, 5 % updates, zipfian",
    ),
    ("ycsbc", Kind::YcsbC, "YCSB C: reads, zipfian"),
    (
        "ycsbd",
        Kind::YcsbD,
        "YCSB D: 95 % reads, 5 % inserts, latest",
    ),
    (
        "ycsbe",
        Kind::YcsbE,
        "YCSB E: 95 % short scans, 5 % inserts, zipfian",
    ),
    (
        "ycsbf",
        Kind::YcsbF,
        "YCSB F: 50 % reads, 50 % read-modify-writes, zipfian",
    ),
    ("ycsbw", Kind::YcsbW, "YCSB-like: updates only, zipfian"),
    ("compact", Kind::Compact, "compacts everything"),
    ("flush", Kind::Flush, "writes the memtables out"),
    (
        "waitforcompaction",
        Kind::WaitForCompaction,
        "waits until nothing runs or is due",
    ),
    ("stats", Kind::Stats, "prints rocksdb.stats"),
    (
        "levelstats",
        Kind::LevelStats,
        "prints files and sizes by level",
    ),
    (
        "sstables",
        Kind::SsTables,
        "prints every table with its keys",
    ),
];

/// Other names: what db_bench calls the same thing, and short forms.
const ALIASES: &[(&str, Kind)] = &[
    ("mixed", Kind::ReadRandomWriteRandom),
    ("compactall", Kind::Compact),
    ("fill100k", Kind::Fill100K),
];

impl Kind {
    /// Returns what db_bench calls an operation of it.
    pub fn operation(self) -> &'static str {
        match self {
            Self::ReadRandom
            | Self::ReadHot
            | Self::ReadMissing
            | Self::ReadSeq
            | Self::ReadReverse
            | Self::MultiReadRandom
            | Self::ReadWhileWriting
            | Self::ReadWhileMerging
            | Self::ReadFamilies => "read",
            Self::SeekRandom | Self::SeekRandomWhileWriting | Self::SeekRandomWhileMerging => {
                "seek"
            }
            Self::DeleteSeq | Self::DeleteRandom => "delete",
            Self::MergeRandom => "merge",
            Self::UpdateRandom | Self::AppendRandom => "update",
            Self::FillSeq
            | Self::FillRandom
            | Self::FillUniqueRandom
            | Self::FillBatch
            | Self::FillSync
            | Self::Fill100K
            | Self::FillFamilies
            | Self::DeleteRangeRandom
            | Self::Overwrite => "write",
            _ => "op",
        }
    }

    /// The benchmark of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        let alias = ALIASES.iter().find(|a| a.0 == name).map(|a| a.1);
        alias.or_else(|| ALL.iter().find(|w| w.0 == name).map(|w| w.1))
    }

    /// Returns what it does, in a few words.
    pub fn what(self) -> &'static str {
        ALL.iter().find(|w| w.1 == self).map_or("", |w| w.2)
    }

    /// Returns whether it begins with a database of its own.
    pub fn is_fresh(self) -> bool {
        matches!(
            self,
            Self::FillSeq
                | Self::FillRandom
                | Self::FillUniqueRandom
                | Self::FillBatch
                | Self::FillSync
                | Self::Fill100K
                | Self::YcsbLoad
        )
    }

    /// Returns whether it is one call on the whole database.
    pub fn is_single_call(self) -> bool {
        matches!(self, Self::Compact | Self::Flush | Self::WaitForCompaction) || self.is_text()
    }

    /// Returns whether it only prints what the database says of itself.
    pub fn is_text(self) -> bool {
        matches!(self, Self::Stats | Self::LevelStats | Self::SsTables)
    }

    /// Returns whether it is one of YCSB's.
    pub fn is_ycsb(self) -> bool {
        matches!(
            self,
            Self::YcsbLoad
                | Self::YcsbA
                | Self::YcsbB
                | Self::YcsbC
                | Self::YcsbD
                | Self::YcsbE
                | Self::YcsbF
                | Self::YcsbW
        )
    }

    /// Operations of all threads together, if neither time nor the end of the keys ends it.
    pub fn operations(self, s: &Settings) -> Option<u64> {
        let thousandth = (s.num / 1000).max(1);
        match self {
            Self::FillSeq | Self::FillBatch | Self::FillUniqueRandom | Self::YcsbLoad => None,
            Self::DeleteSeq => None,
            Self::ReadSeq | Self::ReadReverse => s.reads,
            _ if s.duration > 0 => None,
            Self::FillSync | Self::Fill100K | Self::DeleteRangeRandom => Some(thousandth),
            Self::FillRandom
            | Self::FillFamilies
            | Self::Overwrite
            | Self::DeleteRandom
            | Self::MergeRandom => Some(s.num),
            _ => Some(s.reads.unwrap_or(s.num)),
        }
    }

    /// Operations that end it in any case: once through all keys.
    pub fn keys_to_walk(self, s: &Settings) -> Option<u64> {
        matches!(
            self,
            Self::FillSeq
                | Self::FillBatch
                | Self::FillUniqueRandom
                | Self::YcsbLoad
                | Self::DeleteSeq
        )
        .then_some(s.num)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found() {
        for (name, kind, _) in ALL {
            assert_eq!(Kind::from_name(name), Some(*kind));
        }
        for (name, kind) in ALIASES {
            assert_eq!(Kind::from_name(name), Some(*kind));
        }
        assert_eq!(Kind::from_name("fill"), None);
    }
}
