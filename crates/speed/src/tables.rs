//! The directory on a speed disk that holds tables: how much there is room for, how busy it is, and which new tables
//! go there ([`crate::placement`]).
//!
//! Tables are files of that directory, which is one of a file system or of the disk itself. Their requests are timed, and
//! those of all other tables of the database ([`crate::meter`]); they are written in pieces that give way to the log
//! ([`crate::yielding`]). Nobody else asks the clock or takes the lock: a database without such a directory has nothing of this.

use crate::disk::SpeedDisk;
use crate::meter::{Meter, Metered, MeteredWriter};
use crate::placement::{Facts, LogTime, Move, Placement};
use crate::pointer::{Pointer, Policy};
use crate::yielding::Yielding;
use spanlith_base::sync::Mutex;
use spanlith_env::{Clock, RandomAccessFile, WritableFile};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// A leaf among the locks of the engine.
const RANK: u8 = 90;
/// A look at the load weighs as one part of these.
const WEIGHT: f64 = 5.0;

/// Says what a database wants of the directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TablesOptions {
    /// Which levels go there.
    pub policy: Policy,
    /// Bytes that tables may take; 0: as much as its file system has.
    pub size: u64,
    /// Bytes per second that the disk reads and writes; 0: nobody knows.
    pub bandwidth: u64,
    /// Bytes that stay free on its file system.
    pub spare: u64,
}

/// Describes a table that is going to be written.
#[derive(Clone, Copy, Debug, Default)]
pub struct NewTable {
    /// Its level, counted from the top.
    pub rank: u32,
    /// The number of its file.
    pub number: u64,
    /// A flush writes it.
    pub is_flush: bool,
    /// Bytes that it is going to have, at most.
    pub bytes: u64,
}

/// Says what the tables of a database take now.
#[derive(Clone, Debug, Default)]
pub struct TableBytes {
    /// Bytes of tables in the directory.
    pub there: u64,
    /// Bytes of each level, wherever they are, from the top.
    pub levels: Vec<u64>,
    /// Bytes that flushes and compactions may write next.
    pub reserved: u64,
    /// Tables of [`SpeedTables::begun`] that `there` has.
    pub installed: Vec<u64>,
    /// Tables of [`SpeedTables::begun`] of which no file is there.
    pub gone: Vec<u64>,
    /// Writes since the open.
    pub writes: u64,
    /// Nanoseconds that writers were held back since the open, of all together.
    pub held_nanos: u64,
}

/// Figures of the directory.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TablesUsage {
    /// The pointer, in levels from the top; -1: nothing goes there.
    pub levels: f64,
    /// Bytes of tables at the last look, and of those begun that were not installed then.
    pub used: u64,
    /// Bytes that tables may take, at the last look.
    pub capacity: u64,
    /// Bytes read since the open.
    pub read: u64,
    /// Bytes written since the open.
    pub written: u64,
    /// Nanoseconds that writes of tables waited for the log.
    pub waited: u64,
    /// Tables that belonged there and found no room.
    pub refused: u64,
}

/// The counters behind [`TablesUsage`]. All are Relaxed: they order nothing.
#[derive(Default)]
struct Counters {
    refused: AtomicU64,
}

/// A table that goes there and is not known to be installed: it takes its bytes until it is, or is gone.
#[derive(Default)]
struct Begun {
    bytes: u64,
    /// Bytes of these that the file system no longer has free. Relaxed: it orders nothing.
    written: Arc<AtomicU64>,
    is_created: bool,
    /// No file of it was there at a look. At the second one it is given up.
    was_missed: bool,
}

#[derive(Default)]
struct State {
    placement: Placement,
    used: u64,
    capacity: u64,
    /// By number.
    begun: BTreeMap<u64, Begun>,
    /// When the load was looked at, if it was, and what had been read and written then.
    looked: Option<u64>,
    moved: u64,
    /// Share of the bandwidth, smoothed.
    share: f64,
}

impl State {
    /// Bytes of the tables that are begun, and how many of them are written.
    fn begun_bytes(&self) -> (u64, u64) {
        self.begun.values().fold((0, 0), |(bytes, written), b| {
            let of_it = b.written.load(Ordering::Relaxed).min(b.bytes);
            (bytes.saturating_add(b.bytes), written + of_it)
        })
    }

    /// The smoothed share of the bandwidth that tables took, of which `moved` bytes were read and written since the open; `None` while nobody knows the bandwidth.
    fn share_of_bandwidth(&mut self, moved: u64, bandwidth: u64, now: u64) -> Option<f64> {
        let is_first = self.looked.is_none();
        let passed = now.saturating_sub(self.looked.unwrap_or(0));
        let bytes = moved.saturating_sub(self.moved);
        self.looked = Some(now);
        self.moved = moved;
        if bandwidth == 0 || passed == 0 {
            return None;
        }
        let rate = bytes as f64 * 1e9 / passed as f64;
        let share = rate / bandwidth as f64;
        self.share = match is_first {
            true => share,
            // A long pause counts as much as the seconds that it took.
            false => {
                let weight = (passed as f64 / 1e9 / WEIGHT).min(1.0);
                self.share * (1.0 - weight) + share * weight
            }
        };
        Some(self.share)
    }

    /// Forgets the tables that are installed, or were discarded.
    fn end_begun(&mut self, bytes: &TableBytes) {
        for number in &bytes.installed {
            self.begun.remove(number);
        }
        for number in &bytes.gone {
            if let Some(b) = self.begun.get_mut(number) {
                match b.is_created || b.was_missed {
                    true => _ = self.begun.remove(number),
                    false => b.was_missed = true,
                }
            }
        }
    }
}

/// The disk that has the logs, too.
struct SharedDisk {
    disk: Arc<SpeedDisk>,
    /// Nanoseconds of a durable write of a page, as calibrated; 0 if nobody did.
    calibrated: u64,
}

/// The directory, while a database is open.
pub struct SpeedTables {
    dir: PathBuf,
    clock: Arc<dyn Clock>,
    /// The speed disk of the logs, once it is attached.
    log: OnceLock<SharedDisk>,
    /// A copy of the pointer for who must not wait. Relaxed: it stands for itself.
    pointer: AtomicI32,
    state: Mutex<State>,
    counters: Arc<Counters>,
    /// Nanoseconds that tables waited for the log. Relaxed, too.
    waited: Arc<AtomicU64>,
    /// The requests of tables that are there, and of those that are elsewhere.
    here: Arc<Meter>,
    elsewhere: Arc<Meter>,
}

impl std::fmt::Debug for SpeedTables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SpeedTables")
            .field("dir", &self.dir)
            .finish_non_exhaustive()
    }
}

impl SpeedTables {
    /// The directory `dir`, at which nothing was looked yet.
    pub fn new(dir: &Path, clock: Arc<dyn Clock>) -> Self {
        Self {
            dir: dir.to_path_buf(),
            here: Meter::new(&clock),
            elsewhere: Meter::new(&clock),
            clock,
            log: OnceLock::new(),
            pointer: AtomicI32::new(Pointer::NOTHING.stored()),
            state: Mutex::new(RANK, State::default()),
            counters: Arc::default(),
            waited: Arc::default(),
        }
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Gives way to the logs on `disk` from now on, once.
    pub fn share(&self, disk: &Arc<SpeedDisk>) {
        disk.gate().measure(&self.clock);
        // A database has one disk for its logs.
        let _ = self.log.set(SharedDisk {
            calibrated: disk.calibrated_nanos(),
            disk: disk.clone(),
        });
    }

    /// Returns whether `path` is a file of the directory.
    pub fn holds(&self, path: &Path) -> bool {
        path.parent() == Some(&self.dir)
    }

    /// The pointer of the last look.
    pub fn pointer(&self) -> Pointer {
        Pointer::load(self.pointer.load(Ordering::Relaxed))
    }

    /// Returns whether tables that are there stay when they come to a level. Before the first look they do.
    pub fn keeps(&self, rank: u32) -> bool {
        self.state.lock().looked.is_none() || self.pointer().takes_any(rank)
    }

    /// Returns whether it is time for a look, and so for [`TableBytes`].
    pub fn is_due(&self, options: &TablesOptions) -> bool {
        let now = self.clock.monotonic_nanos();
        self.state.lock().placement.is_due(options.policy, now)
    }

    /// Numbers of the tables that [`Self::takes`] let in and that no look has seen installed or gone.
    pub fn begun(&self) -> Vec<u64> {
        self.state.lock().begun.keys().copied().collect()
    }

    /// Looks at space and load, and moves the pointer if the rule says so. `free` is what the file system has.
    pub fn look(&self, options: &TablesOptions, bytes: TableBytes, free: u64) -> Option<Move> {
        let now = self.clock.monotonic_nanos();
        let log = self.log.get().and_then(|shared| {
            let nanos = shared.disk.gate().recent_nanos(now)?;
            let calibrated = shared.calibrated;
            (calibrated > 0).then_some(LogTime { nanos, calibrated })
        });
        let (fast, other) = (self.here.asked(), self.elsewhere.asked());
        let moved = self.here.bytes_read() + fast.outputs;
        let mut state = self.state.lock();
        let bandwidth = state.share_of_bandwidth(moved, options.bandwidth, now);
        state.end_begun(&bytes);
        state.used = bytes.there;
        let (begun, written) = state.begun_bytes();
        let there = bytes.there.saturating_add(written);
        let rest = there.saturating_add(free.saturating_sub(options.spare));
        state.capacity = match options.size {
            0 => rest,
            size => size.min(rest),
        };
        let facts = Facts {
            now,
            capacity: state.capacity,
            used: bytes.there.saturating_add(begun),
            reserved: bytes.reserved,
            levels: bytes.levels,
            bandwidth,
            log,
            fast,
            other,
            writes: bytes.writes,
            held_nanos: bytes.held_nanos,
        };
        let moved = state.placement.look(options.policy, &facts);
        let pointer = state.placement.pointer();
        self.pointer.store(pointer.stored(), Ordering::Relaxed);
        moved
    }

    /// Returns whether a new table goes into the directory. `free` is what its file system has.
    pub fn takes(&self, options: &TablesOptions, table: &NewTable, free: u64) -> bool {
        let pointer = self.pointer();
        if !pointer.takes(table.rank, table.number, table.is_flush) {
            return false;
        }
        let fits = {
            let mut state = self.state.lock();
            let used = state.used.saturating_add(state.begun_bytes().0);
            let fits = used.saturating_add(table.bytes) <= state.capacity
                && free >= table.bytes.saturating_add(options.spare);
            if fits {
                let begun = Begun {
                    bytes: table.bytes,
                    ..Begun::default()
                };
                state.begun.insert(table.number, begun);
            }
            fits
        };
        if !fits {
            self.note_full();
        }
        fits
    }

    /// A table that belongs there finds no room: fewer levels go there from now on.
    pub fn note_full(&self) {
        self.counters.refused.fetch_add(1, Ordering::Relaxed);
        let now = self.clock.monotonic_nanos();
        let mut state = self.state.lock();
        if state.placement.note_full(now).is_some() {
            let pointer = state.placement.pointer();
            self.pointer.store(pointer.stored(), Ordering::Relaxed);
        }
    }

    /// Figures of now.
    pub fn usage(&self) -> TablesUsage {
        let c = &self.counters;
        let state = self.state.lock();
        TablesUsage {
            levels: state.placement.pointer().levels(),
            used: state.used.saturating_add(state.begun_bytes().0),
            capacity: state.capacity,
            read: self.here.bytes_read(),
            written: self.here.asked().outputs,
            waited: self.waited.load(Ordering::Relaxed),
            refused: c.refused.load(Ordering::Relaxed),
        }
    }

    /// A file of the directory that is written in pieces which give way to the log.
    pub fn writer(&self, file: Box<dyn WritableFile>) -> Box<dyn WritableFile> {
        let number = number_of(file.path());
        let mut state = self.state.lock();
        let begun = number.and_then(|number| state.begun.get_mut(&number));
        let of_table = begun.map(|b| {
            b.is_created = true;
            b.written.clone()
        });
        drop(state);
        let file = match self.log.get() {
            Some(shared) => {
                let (disk, clock) = (shared.disk.clone(), self.clock.clone());
                Box::new(Yielding::new(file, disk, clock, self.waited.clone()))
            }
            None => file,
        };
        MeteredWriter::of_table(file, &self.here, of_table)
    }

    /// A file of the directory whose reads are timed.
    pub fn reader(&self, file: Arc<dyn RandomAccessFile>) -> Arc<dyn RandomAccessFile> {
        Metered::of(file, &self.here)
    }

    /// A table elsewhere that is written.
    pub fn other_writer(&self, file: Box<dyn WritableFile>) -> Box<dyn WritableFile> {
        MeteredWriter::of(file, &self.elsewhere)
    }

    /// A table elsewhere that is read.
    pub fn other_reader(&self, file: Arc<dyn RandomAccessFile>) -> Arc<dyn RandomAccessFile> {
        Metered::of(file, &self.elsewhere)
    }
}

/// The number in the name of a table.
fn number_of(path: &Path) -> Option<u64> {
    path.file_stem()?.to_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{FormatOptions, format_disk};
    use crate::target::Target;
    use spanlith_env::{Env, FileSystem, IoActivity, MemFs, PosixFs, ReadRequest, read_together};
    use spanlith_testkit::TempDir;
    use std::time::Duration;

    const MIB: u64 = 1 << 20;

    fn world() -> (Arc<MemFs>, Env, Arc<SpeedTables>) {
        let mem = Arc::new(MemFs::new());
        mem.create_dir_if_missing(Path::new("/fast")).unwrap();
        let env = Env::test(mem.clone(), 1).0;
        let tables = Arc::new(SpeedTables::new(Path::new("/fast"), env.clock.clone()));
        (mem, env, tables)
    }

    fn table(number: u64, bytes: u64) -> NewTable {
        NewTable {
            number,
            bytes,
            is_flush: true,
            ..NewTable::default()
        }
    }

    #[test]
    fn what_finds_no_room_goes_elsewhere_and_fewer_levels_follow() {
        let (_, env, tables) = world();
        let options = TablesOptions {
            size: 10 * MIB,
            ..TablesOptions::default()
        };
        assert!(
            !tables.takes(&options, &table(1, 1), u64::MAX),
            "not looked yet"
        );
        assert!(tables.is_due(&options));
        let bytes = || TableBytes {
            there: 2 * MIB,
            levels: vec![2 * MIB, MIB, MIB],
            ..TableBytes::default()
        };
        assert_eq!(tables.look(&options, bytes(), u64::MAX), Some(Move::Set));
        assert!(!tables.is_due(&options));
        assert!((tables.usage().levels - 3.0).abs() < 1e-9);
        assert!(tables.takes(&options, &table(2, 5 * MIB), u64::MAX));
        assert!(!tables.takes(&options, &table(3, 4 * MIB), u64::MAX));
        assert!((tables.usage().levels - 2.5).abs() < 1e-9);
        assert!(
            !tables.takes(&options, &table(4, 3 * MIB), 2 * MIB),
            "the file system"
        );
        assert!(tables.takes(&options, &table(5, 3 * MIB), 3 * MIB));
        let usage = tables.usage();
        assert_eq!(
            (usage.used, usage.capacity, usage.refused),
            (10 * MIB, 10 * MIB, 2)
        );
        // Without a size of its own it is what the file system has.
        env.clock.sleep(Duration::from_secs(2));
        let free = TablesOptions {
            spare: MIB,
            ..TablesOptions::default()
        };
        tables.look(&free, bytes(), 4 * MIB);
        assert_eq!(tables.usage().capacity, 5 * MIB);
    }

    /// The outputs of a long compaction take their room from the first to the last look at them.
    #[test]
    fn a_table_takes_its_room_until_it_is_installed_or_gone() {
        let (mem, env, tables) = world();
        let options = TablesOptions {
            policy: Policy::Lad(1),
            size: 10 * MIB,
            ..TablesOptions::default()
        };
        let look = |there: u64, installed: &[u64], gone: &[u64], free| {
            env.clock.sleep(Duration::from_secs(1));
            let bytes = TableBytes {
                there,
                levels: vec![there],
                installed: installed.to_vec(),
                gone: gone.to_vec(),
                ..TableBytes::default()
            };
            tables.look(&options, bytes, free);
            tables.usage().used
        };
        assert_eq!(look(0, &[], &[], u64::MAX), 0);
        for number in [7, 8, 9] {
            assert!(tables.takes(&options, &table(number, 3 * MIB), u64::MAX));
        }
        assert_eq!(tables.begun(), [7, 8, 9]);
        assert_eq!(look(0, &[], &[], u64::MAX), 9 * MIB);
        assert!(!tables.takes(&options, &table(10, 2 * MIB), u64::MAX));
        let file = |name: &str| {
            let path = Path::new("/fast").join(name);
            tables.writer(mem.create(&path, IoActivity::Compaction).unwrap())
        };
        let mut first = file("000007.sst");
        first.append(&vec![1; 2 << 20]).unwrap();
        let _second = file("000008.sst");
        // The file system has one MiB beside the two that are written.
        assert_eq!(look(0, &[], &[], MIB), 9 * MIB);
        assert_eq!(tables.usage().capacity, 3 * MIB);
        // The second was discarded; the third has no file yet, or never gets one.
        assert_eq!(look(2 * MIB, &[7], &[8, 9], u64::MAX), 5 * MIB);
        assert_eq!(tables.begun(), [9]);
        assert!(tables.takes(&options, &table(10, 2 * MIB), u64::MAX));
        assert_eq!(look(2 * MIB, &[], &[9], u64::MAX), 4 * MIB);
        assert_eq!(tables.begun(), [10]);
    }

    /// Reads through the descriptor count as others do.
    #[test]
    fn a_counted_table_is_read_together_with_others() {
        let (_, _, tables) = world();
        let (fs, temp) = (PosixFs::new(), TempDir::new("counted"));
        let open = |name: &str| {
            let path = temp.join(name);
            let mut file = fs.create(&path, IoActivity::Other).unwrap();
            file.append(&[7; 1000]).unwrap();
            file.close().unwrap();
            fs.open_random(&path).unwrap()
        };
        let (plain, counted) = (open("1.sst"), tables.reader(open("2.sst")));
        assert!(plain.descriptor().is_some() && counted.descriptor().is_some());
        let mut buffers = vec![vec![0; 100]; 3];
        let mut requests: Vec<_> = buffers
            .iter_mut()
            .zip([0, 300, 950])
            .map(|(buf, at)| ReadRequest::new(at, buf))
            .collect();
        read_together(&[&*plain, &*counted, &*counted], &mut requests);
        let read = requests.iter().map(|r| *r.result.as_ref().unwrap());
        assert_eq!(read.collect::<Vec<_>>(), [100, 100, 50]);
        assert_eq!(tables.usage().read, 150);
    }

    #[test]
    fn reads_and_writes_are_a_share_of_the_bandwidth() {
        let (mem, env, tables) = world();
        let path = Path::new("/fast/1.sst");
        assert!(tables.holds(path) && !tables.holds(Path::new("/fast/x/1.sst")));
        let options = TablesOptions {
            bandwidth: 2 * MIB,
            ..TablesOptions::default()
        };
        env.clock.sleep(Duration::from_secs(1));
        let look = |s| {
            env.clock.sleep(Duration::from_secs(s));
            let levels = vec![MIB; 4];
            tables.look(
                &options,
                TableBytes {
                    levels,
                    ..TableBytes::default()
                },
                1000 * MIB,
            )
        };
        assert_eq!(look(0), Some(Move::Set));
        let mut file = tables.writer(mem.create(path, IoActivity::Flush).unwrap());
        file.append(&vec![1; 5 * MIB as usize]).unwrap();
        file.close().unwrap();
        let file = tables.reader(mem.open_random(path).unwrap());
        let mut buf = vec![0; 4 * MIB as usize];
        assert_eq!(file.read_at(0, &mut buf).unwrap() as u64, 4 * MIB);
        let usage = tables.usage();
        assert_eq!((usage.read, usage.written), (4 * MIB, 5 * MIB));
        // 9 MiB in 5 s are 90 % of the bandwidth.
        assert_eq!(look(5), Some(Move::Load));
        // Then nothing.
        assert_eq!(look(5), None, "it went up a moment ago");
        assert_eq!(look(30), Some(Move::Room));
    }

    #[test]
    fn writes_of_tables_come_in_pieces_between_those_of_the_log() {
        let (mem, env, tables) = world();
        mem.make_device(Path::new("/sd"), 2 << 20).unwrap();
        let device = Target::parse("/sd").unwrap().open(&*mem, false).unwrap();
        let options = FormatOptions {
            group_bytes: 64 << 10,
            ..FormatOptions::default()
        };
        format_disk(&*device, &options, *b"0123456789abcdef").unwrap();
        let disk = SpeedDisk::open(device, &crate::SpeedOptions::default()).unwrap();
        tables.share(&disk);
        let path = Path::new("/fast/2.sst");
        let mut file = tables.writer(mem.create(path, IoActivity::Compaction).unwrap());
        let data: Vec<u8> = (0..300_000u32).map(|i| (i % 251) as u8).collect();
        file.append(&data).unwrap();
        assert_eq!(tables.usage().waited, 0);
        let under_way = disk.gate().enter(true);
        let before = env.clock.monotonic_nanos();
        file.append(&data).unwrap();
        // Five pieces, each after one step.
        assert_eq!(tables.usage().waited, 5 * 50_000);
        assert_eq!(env.clock.monotonic_nanos() - before, 5 * 50_000);
        drop(under_way);
        file.sync().unwrap();
        file.close().unwrap();
        assert_eq!(
            mem.read_file(path).unwrap(),
            [&data[..], &data[..]].concat()
        );
    }
}
