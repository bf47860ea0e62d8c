//! Draws differential programs: lines for the runner.
//!
//! Steers around what is undefined in RocksDB or differs from run to run: see `docs/compat.md` and
//! the reference's known defects. Everything else is drawn, errors included.

mod batches;
mod options;
mod styles;

use crate::model::player::SLOTS;
use spanlith_testkit::{KeyGen, KeyShape, Rng, hex};

/// A program: lines for the runner, and `swap` and `abandon`, which end a segment.
pub type Lines = Vec<String>;

struct Maker<'a> {
    rng: &'a mut Rng,
    keys: KeyGen,
    /// 0 none, 1 `uint64add`, 2 the runner's own.
    merge: u64,
    reverse: u64,
    levels: u64,
    /// Nothing happens in the background: counts can be compared.
    exact: bool,
    unlogged: bool,
    /// Operands on which the operator fails. A flush or compaction that folds one may stop RocksDB's
    /// writes, so such a program has none, and its database is destroyed at the end.
    failing_merges: bool,
    /// Single deletes. RocksDB forgets sequence numbers when a recovered log cancels out, so a program
    /// with single deletes does not look at numbers.
    singles: bool,
    /// A family was dropped. What its memtable held took sequence numbers, which RocksDB may forget in a
    /// crash, so the rest of the program does not look at numbers.
    has_dropped: bool,
    /// Deletions of ranges. Not beside single deletes: a range between a put and its single delete is
    /// undefined.
    ranges: bool,
    /// Prefix extractors. Keys are long enough to have prefixes, and iterators are asked for all keys,
    /// since what others see beyond their prefix is undefined.
    prefixes: bool,
    /// Most options have blob files; compactions are asked what to do with old ones.
    blobs: bool,
    /// Other compaction styles than the leveled one, and changes from one to another.
    styles: bool,
    /// A compaction filter. What it has removed depends on what was compacted, so such a program
    /// compacts nothing but when it says so.
    filter: bool,
    /// Column families: what is in each slot of the runner. `None` without families.
    families: Option<[Slot; FAMILIES]>,
    made: u64,
    stamp: u64,
    values: u64,
    /// A write since the last flush is in no log.
    exposed: bool,
    out: Lines,
}

/// Slots for family handles in the runner.
const FAMILIES: usize = 6;

/// Describes what a slot holds.
#[derive(Clone, Copy, PartialEq)]
enum Slot {
    Free,
    Live,
    /// A handle of a family that was dropped: it reads, and its writes may stop RocksDB's.
    Dropped,
}

const PROPERTIES: &[&str] = &[
    "num-snapshots",
    "oldest-snapshot-sequence",
    "background-errors",
    "is-file-deletions-enabled",
    "num-files-at-level77",
    "no-such-property",
    "",
];

/// Bytes of the longest fixed prefix.
const PREFIX_MAX: usize = 3;

/// The same in both libraries when no background work interferes.
const EXACT_PROPERTIES: &[&str] = &[
    "num-entries-active-mem-table",
    "num-entries-imm-mem-tables",
    "num-deletes-active-mem-table",
    "num-deletes-imm-mem-tables",
    "num-immutable-mem-table",
    "num-files-at-level0",
    "num-files-at-level1",
    "estimate-num-keys",
    "is-write-stopped",
    "actual-delayed-write-rate",
    "num-blob-files",
    "total-blob-file-size",
    "live-blob-file-size",
    "live-blob-file-garbage-size",
    "blob-stats",
];

/// Draws a program.
pub fn draw_lines(rng: &mut Rng) -> Lines {
    let len = match rng.below(10) {
        0..4 => rng.between(10, 60),
        4..9 => rng.between(60, 300),
        _ => rng.between(500, 1500),
    };
    let space = *rng.pick(&[3, 10, 40, 40, 150]);
    let shape = *rng.pick(&[KeyShape::Uniform, KeyShape::Zipf, KeyShape::Adversarial]);
    let failing_merges = rng.one_in(20);
    let exact = failing_merges || rng.one_in(4);
    let families = !failing_merges && rng.one_in(2);
    let singles = !failing_merges && rng.one_in(2);
    let filter = exact && !failing_merges && !singles && rng.one_in(2);
    let mut m = Maker {
        filter,
        keys: KeyGen::new(shape, space),
        merge: if failing_merges { 2 } else { rng.below(3) },
        reverse: u64::from(rng.one_in(5)),
        levels: *rng.pick(&[7, 7, 7, 2, 3]),
        exact,
        // With families a crash may lose writes of some of them only.
        unlogged: !families && rng.one_in(5),
        failing_merges,
        singles,
        has_dropped: false,
        ranges: !failing_merges && !singles && rng.one_in(2),
        prefixes: rng.one_in(4),
        blobs: rng.one_in(3),
        styles: rng.one_in(3),
        families: families.then_some([Slot::Free; FAMILIES]),
        made: 0,
        stamp: 0,
        values: rng.below(3),
        exposed: false,
        out: Vec::new(),
        rng,
    };
    let setup = m.setup(m.reverse);
    m.out.push(setup);
    m.say(&["listcf"]);
    m.open();
    for _ in 0..len {
        m.op();
    }
    m.say(&["dumpall", "close"]);
    if failing_merges {
        m.say(&["destroydb"]);
    }
    m.out
}

impl Maker<'_> {
    fn say(&mut self, lines: &[&str]) {
        self.out.extend(lines.iter().map(|l| (*l).to_string()));
    }

    fn setup(&self, reverse: u64) -> String {
        format!("setup {reverse} {} {}", self.merge, u64::from(self.filter))
    }

    fn raw_key(&mut self) -> Vec<u8> {
        loop {
            let mut key = self.keys.draw(self.rng);
            if self.prefixes && key.len() < PREFIX_MAX {
                key.resize(PREFIX_MAX, b'_');
            }
            if key.len() <= 300 {
                return key;
            }
        }
    }

    fn key(&mut self) -> String {
        text(&self.raw_key())
    }

    /// Two keys in the order of the comparator: what a reversed range does to RocksDB is a defect.
    fn range(&mut self) -> String {
        let (mut a, mut b) = (self.raw_key(), self.raw_key());
        if (a > b) != (self.reverse == 1) {
            std::mem::swap(&mut a, &mut b);
        }
        if a == b {
            // An empty range takes a sequence number that RocksDB forgets over a flush and reopening;
            // ours keeps it.
            let longer = if self.reverse == 1 { &mut a } else { &mut b };
            longer.push(0);
        }
        format!("{} {}", text(&a), text(&b))
    }

    /// Slots in a state.
    fn slots(&self, wanted: Slot) -> Vec<usize> {
        let slots = self.families.iter().flatten().enumerate();
        slots
            .filter(|(_, s)| **s == wanted)
            .map(|(n, _)| n)
            .collect()
    }

    /// A family to write to: `@N `, or nothing for the default family by the plain functions.
    fn live(&mut self) -> String {
        let live = self.slots(Slot::Live);
        if live.is_empty() || self.rng.one_in(4) {
            return String::new();
        }
        format!("@{} ", self.rng.pick(&live))
    }

    /// A family to read from.
    fn any(&mut self) -> String {
        let dropped = self.slots(Slot::Dropped);
        if !dropped.is_empty() && self.rng.one_in(6) {
            return format!("@{} ", self.rng.pick(&dropped));
        }
        self.live()
    }

    /// Creates and drops families.
    fn family(&mut self) {
        let free = self.slots(Slot::Free);
        let droppable: Vec<usize> = self
            .slots(Slot::Live)
            .into_iter()
            .filter(|n| *n > 0)
            .collect();
        let dropped = self.slots(Slot::Dropped);
        match self.rng.below(8) {
            0..4 if !free.is_empty() => {
                let slot = *self.rng.pick(&free);
                self.made += 1;
                let (name, options) = (self.made, self.options());
                self.out.push(format!("mkcf {slot} f{name} {options}"));
                self.set(slot, Slot::Live);
            }
            4 | 5 if !droppable.is_empty() => {
                let slot = *self.rng.pick(&droppable);
                // A batch for a family that is gone may stop RocksDB's writes.
                self.say(&["b 0 clear", "b 1 clear", "b 2 clear"]);
                self.say(&["w 0 clear", "w 1 clear", "w 2 clear"]);
                self.out.push(format!("dropcf {slot}"));
                self.set(slot, Slot::Dropped);
                self.has_dropped = true;
            }
            6 if !dropped.is_empty() => {
                let slot = *self.rng.pick(&dropped);
                self.out.push(format!("closecf {slot}"));
                self.set(slot, Slot::Free);
            }
            7 => self.say(&["mkcf 9 default x=y", "listcf"]),
            _ => self.say(&["flushcfs"]),
        }
    }

    fn set(&mut self, slot: usize, state: Slot) {
        if let Some(slots) = &mut self.families {
            slots[slot] = state;
        }
    }

    fn maybe(&mut self) -> String {
        if self.rng.one_in(2) {
            return "*".to_string();
        }
        self.key()
    }

    fn value(&mut self) -> String {
        self.stamp += 1;
        let len = match self.values {
            0 => self.rng.between(0, 30),
            1 => self.rng.between(100, 900),
            _ => self.rng.skewed(5000),
        };
        format!("s{}.{len}", self.stamp)
    }

    fn operand(&mut self) -> String {
        self.stamp += 1;
        match self.merge {
            1 if self.rng.one_in(12) => format!("s{}.{}", self.stamp, self.rng.below(12)),
            1 => format!("u{}", self.stamp),
            _ if self.failing_merges && self.rng.one_in(8) => hex(b"FAIL"),
            _ => format!("s{}.{}", self.stamp, self.rng.below(6)),
        }
    }

    fn at(&mut self) -> String {
        if self.rng.one_in(3) {
            self.rng.index(SLOTS).to_string()
        } else {
            "now".to_string()
        }
    }

    /// Write flags: 1 sync, 2 no log, 3 both, which is an error.
    fn flags(&mut self) -> u64 {
        match self.rng.below(40) {
            0..6 => 1,
            6 => 3,
            7..20 if self.unlogged => {
                self.exposed = true;
                2
            }
            _ => 0,
        }
    }

    fn open(&mut self) {
        let options = self.options();
        if self.rng.one_in(30) {
            let wrong = self.wrong_open(&options);
            self.out.extend(wrong);
        }
        if let Some(slots) = &mut self.families {
            // They are opened in the order of their creation.
            let live = slots.iter().filter(|s| **s == Slot::Live).count().max(1);
            *slots = [Slot::Free; FAMILIES];
            slots[..live].fill(Slot::Live);
            let more = if self.rng.one_in(2) {
                format!("|{}|{}", self.options(), self.options())
            } else {
                String::new()
            };
            self.out.push(format!("open all {options}{more}"));
        } else {
            let kind = *self
                .rng
                .pick(&["rw", "rw", "rw", "rw", "rw", "rw", "cf:default", "all"]);
            self.out.push(format!("open {kind} {options}"));
        }
        self.exposed = false;
    }

    /// Opens that fail and leave nothing behind.
    fn wrong_open(&mut self, options: &str) -> Lines {
        let must_exist = options.replace("create_if_missing=true", "create_if_missing=false");
        let opens = if self.families.is_some() { 3 } else { 7 };
        match 6 - self.rng.below(opens) {
            0 => vec![format!("open cf:default,nope {options}"), "close".into()],
            1 => vec![format!("open cf:nope {must_exist}"), "close".into()],
            2 => vec![
                self.setup(1 - self.reverse),
                format!("open rw {must_exist}"),
                "close".into(),
                self.setup(self.reverse),
            ],
            3 => vec![format!("open rw {options}no_such_option=1;")],
            4 => vec![format!("open rw {options}write_buffer_size=many;")],
            5 => vec![format!("open rw {options}broken")],
            6 if self.families.is_some() => {
                vec![format!("open cf:nope {must_exist}"), "close".into()]
            }
            _ => vec![
                format!("open ro {must_exist}"),
                "dump".into(),
                "close".into(),
            ],
        }
    }

    fn write(&mut self) {
        let (key, flags, family) = (self.key(), self.flags(), self.live());
        let line = match self.rng.below(10) {
            0 if self.ranges => format!("range {} {flags}", self.range()),
            0 | 1 => format!("del {key} {flags}"),
            2 | 3 => format!("merge {key} {} {flags}", self.operand()),
            4 if self.singles && !self.unlogged => {
                let key = text(format!("single{}", self.rng.below(6)).as_bytes());
                format!("toggle {key} {} {}", self.value(), flags)
            }
            _ => {
                // Values under a numeric operator are mostly numbers.
                let value = if self.merge == 1 && !self.rng.one_in(5) {
                    self.operand()
                } else {
                    self.value()
                };
                format!("put {key} {value} {flags}")
            }
        };
        self.out.push(family + &line);
    }

    /// Writes, read back from the log.
    fn logged(&mut self) {
        let n = 1 + self.rng.below(4);
        for _ in 0..n {
            let (key, value, family) = (self.key(), self.value(), self.live());
            self.out.push(format!("{family}put {key} {value} 0"));
        }
        self.out.push(format!("wal {}", 1 + self.rng.below(n)));
    }

    fn read(&mut self) {
        let at = self.at();
        let line = if self.rng.one_in(4) {
            let n = self.rng.skewed(12);
            let keys: Vec<String> = (0..n).map(|_| self.key()).collect();
            if self.families.is_some() && self.rng.one_in(2) {
                let slot = |k: &String| format!("{}/{k}", self.rng.index(FAMILIES));
                let keys: Vec<String> = keys.iter().map(slot).collect();
                self.out.push(format!("mgetcf {at} {}", keys.join(" ")));
                return;
            }
            format!("mget {} {at} {}", self.rng.below(2), keys.join(" "))
        } else if self.rng.one_in(8) {
            format!("kme {at} {}", self.key())
        } else if self.families.is_some() && self.rng.one_in(20) {
            self.out.push(format!("citer {at}"));
            return;
        } else {
            format!("get {} {at} {}", self.rng.below(4), self.key())
        };
        let family = self.any();
        self.out.push(family + line.trim_end());
    }

    fn iterate(&mut self, may_refresh: bool) {
        let slot = self.rng.index(SLOTS);
        if self.rng.one_in(12) {
            return self.walk();
        }
        let line = match self.rng.below(16) {
            0 | 1 => {
                let (at, lower, upper) = (self.at(), self.maybe(), self.maybe());
                let mut flags = self.rng.below(8);
                if self.prefixes {
                    // All keys, or prefixes where that makes no difference.
                    flags += *self.rng.pick(&[8, 16]);
                }
                if self.rng.one_in(8) {
                    flags += 32;
                }
                let family = self.any();
                format!("{family}iter {slot} {at} {lower} {upper} {flags}")
            }
            2 => format!("first {slot}"),
            3 => format!("last {slot}"),
            4..7 => format!("seek {slot} {}", self.key()),
            7..10 => format!("sfp {slot} {}", self.key()),
            10..13 => format!("next {slot} {}", 1 + self.rng.skewed(10)),
            13..15 => format!("prev {slot} {}", 1 + self.rng.skewed(10)),
            _ if may_refresh && self.rng.one_in(2) => format!("refresh {slot}"),
            _ => format!("iterdrop {slot}"),
        };
        self.out.push(line);
    }

    /// An iterator of a call of its own: within a prefix, or one that follows what is written.
    fn walk(&mut self) {
        // The entries of a tailing iterator beyond its prefix are undefined, and RocksDB's knows range
        // tombstones only at times. Without an extractor the other is an ordinary one.
        let within = self.prefixes || self.ranges || self.rng.one_in(2);
        let verb = if within { "pseek" } else { "tail" };
        let count = self.rng.skewed(10);
        let key = self.key();
        let family = self.any();
        self.out.push(format!("{family}{verb} {key} {count}"));
    }

    fn reopen(&mut self) {
        let keep = !self.exposed;
        match self.rng.below(6) {
            0 | 1 if keep => self.say(&["abandon"]),
            2 if keep => self.say(&["abandon", "swap"]),
            0..4 => self.say(&["dumpall", "close", "swap"]),
            4 if self.rng.one_in(4) => {
                self.say(&["destroydb", "close", "destroydb", "listcf"]);
                if let Some(slots) = &mut self.families {
                    *slots = [Slot::Free; FAMILIES];
                }
            }
            _ => self.say(&["close", "listcf"]),
        }
        if self.rng.one_in(8) {
            let mut options = self.options();
            let has_blobs = |line: &String| line.contains("enable_blob_files=true");
            if self.ranges || self.out.iter().any(has_blobs) {
                // All tables open and in one level: RocksDB then reads by means that know neither range tombstones
                // nor values in blob files.
                options = options.replace("max_open_files=-1", "max_open_files=5000");
            }
            self.out.push(format!("open ro {options}"));
            for _ in 0..5 {
                match self.rng.below(4) {
                    0 => self.write(),
                    // RocksDB refuses to refresh an iterator of a read-only database; here it works.
                    1 => self.iterate(false),
                    2 => self.read(),
                    _ => self.say(&["flush 1"]),
                }
            }
            self.say(&["dump", "close"]);
        }
        self.open();
        if self.rng.one_in(2) {
            self.say(&["dumpall"]);
        }
    }

    /// Sequence numbers are the same in both.
    fn shows_numbers(&self) -> bool {
        !self.singles && !self.has_dropped
    }

    fn property(&mut self) {
        let list = if self.exact && self.rng.one_in(2) {
            EXACT_PROPERTIES
        } else {
            PROPERTIES
        };
        let name = *self.rng.pick(list);
        if !self.shows_numbers() && name == "oldest-snapshot-sequence" {
            return;
        }
        let verb = if self.rng.one_in(2) {
            "propint"
        } else {
            "propval"
        };
        let family = self.live();
        self.out.push(format!("{family}{verb} rocksdb.{name}"));
    }

    fn op(&mut self) {
        match self.rng.below(1000) {
            0..430 => self.write(),
            430..475 => self.batch(),
            475..490 if !self.failing_merges => self.indexed(),
            475..490 => self.batch(),
            // Elsewhere the log may be gone by the time it is read.
            490..494 if self.exact && !self.has_dropped => self.logged(),
            494..497 => self.set_options(),
            490..510 => self.scratch(),
            510..640 => self.read(),
            640..840 => self.iterate(true),
            840..860 => {
                let slot = self.rng.index(SLOTS);
                let verb = if self.shows_numbers() {
                    "snap"
                } else {
                    "snapq"
                };
                self.out.push(format!("{verb} {slot}"));
            }
            860..872 => {
                let slot = self.rng.index(SLOTS);
                self.out.push(format!("release {slot}"));
            }
            872..914 | 978.. if self.failing_merges => self.read(),
            872..900 => {
                let wait = u64::from(self.exact || !self.rng.one_in(4));
                let family = self.any();
                self.out.push(format!("{family}flush {wait}"));
                self.exposed &= wait == 0;
            }
            900..908 => {
                let (a, b) = (self.maybe(), self.maybe());
                let family = self.live();
                if self.blobs && self.rng.one_in(2) {
                    // How old blob files are treated: RocksDB's numbers, 2 as the options say.
                    let policy = self.rng.below(3);
                    let cutoff = *self.rng.pick(&["-1", "0", "0.4", "1"]);
                    self.out
                        .push(format!("{family}compactblobs {a} {b} {policy} {cutoff}"));
                    return;
                }
                self.out.push(format!("{family}compact {a} {b}"));
            }
            908..914 => self.say(&["wait"]),
            914..922 => {
                let sync = self.rng.below(2);
                self.out.push(format!("flushwal {sync}"));
            }
            922..955 => self.property(),
            955..970 if self.blobs && self.rng.one_in(2) => self.property(),
            955..962 if self.shows_numbers() => self.say(&["seqno"]),
            955..970 if self.families.is_some() => self.family(),
            955..970 => self.say(&["family"]),
            970..978 if self.rng.one_in(2) => self.say(&["dumpall"]),
            970..978 => {
                let family = self.any();
                self.out.push(format!("{family}dump"));
            }
            978..982 => {
                let options = self.options();
                self.out.push(format!("options {options}"));
            }
            _ => self.reopen(),
        }
    }
}

fn text(key: &[u8]) -> String {
    if key.is_empty() {
        "-".to_string()
    } else {
        hex(key)
    }
}
