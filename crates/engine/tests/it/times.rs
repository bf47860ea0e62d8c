//! Sequence numbers that tell when entries were written (`preserve_internal_time_seconds`).

use spanlith::listener::{CompactionInfo, TableFileInfo};
use spanlith::options::{CfOptions, CompactionStyle, CompressionType};
use spanlith::{
    BottommostCompaction, Cf, CompactFilesOptions, CompactRangeOptions, Db, EventListener,
    FamilyOptions, FlushOptions, ReadOptions, Snapshot, WriteBatch,
};
use spanlith_base::coding::get_varint64;
use spanlith_env::{Env, MemFs, VirtualClock};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Keeps the times that tables were written with, the newest last.
#[derive(Default)]
struct Written(Mutex<Vec<Vec<(u64, u64)>>>);

impl EventListener for Written {
    fn on_table_file_created(&self, info: &TableFileInfo) {
        let mut bytes = &info.properties.seqno_to_time_mapping[..];
        let mut pairs: Vec<(u64, u64)> = Vec::new();
        if !bytes.is_empty() {
            bytes = get_varint64(bytes).unwrap().1;
        }
        while !bytes.is_empty() {
            let (seqno, rest) = get_varint64(bytes).unwrap();
            let (time, rest) = get_varint64(rest).unwrap();
            let before = pairs.last().copied().unwrap_or((0, 0));
            pairs.push((before.0 + seqno, before.1 + time));
            bytes = rest;
        }
        self.0.lock().unwrap().push(pairs);
    }
}

struct World {
    env: Env,
    clock: Arc<VirtualClock>,
    written: Arc<Written>,
}

impl World {
    fn new() -> Self {
        let (env, _, clock) = Env::test(Arc::new(MemFs::new()), 7);
        clock.set_micros(1_000_000 * 1_000_000);
        Self {
            env,
            clock,
            written: Arc::default(),
        }
    }

    fn open(&self, preserve: u64) -> Db {
        let mut cf = CfOptions::default();
        cf.preserve_internal_time_seconds = preserve;
        self.open_with(cf)
    }

    /// Four levels; what was written in the last 1000 seconds stays out of the last one.
    fn open_young(&self, base_bytes: u64) -> Db {
        let mut cf = CfOptions::default();
        cf.preclude_last_level_data_seconds = 1000;
        cf.num_levels = 4;
        cf.max_bytes_for_level_base = base_bytes;
        cf.target_file_size_base = 4 << 10;
        cf.level0_file_num_compaction_trigger = 2;
        cf.compression = CompressionType::None;
        self.open_with(cf)
    }

    fn open_with(&self, cf: CfOptions) -> Db {
        Db::builder(Path::new("/db"))
            .create_if_missing(true)
            .no_info_log()
            .env(self.env.clone())
            .listener(self.written.clone())
            .cf_options(cf)
            .open()
            .unwrap()
    }

    fn pass(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }

    /// The times in the newest table.
    fn times(&self) -> Vec<(u64, u64)> {
        self.written.0.lock().unwrap().last().unwrap().clone()
    }
}

fn compact(cf: &Cf) {
    let force = CompactRangeOptions {
        bottommost: BottommostCompaction::Force,
        ..CompactRangeOptions::default()
    };
    cf.compact_range_opt(None, None, &force).unwrap();
}

/// Smallest and largest sequence numbers of the tables.
fn seqnos(cf: &Cf) -> Vec<(u64, u64)> {
    let files = cf.live_files();
    files
        .iter()
        .map(|f| (f.smallest_seqno, f.largest_seqno))
        .collect()
}

fn put_ten(cf: &Cf) {
    for n in 0..10 {
        cf.put(format!("{n}"), "value").unwrap();
    }
}

const NOW: u64 = 1_000_000;

#[test]
fn entries_keep_their_numbers_at_the_bottom_until_they_are_old_enough() {
    let world = World::new();
    let db = world.open(1000);
    assert_eq!(
        db.latest_sequence_number(),
        100,
        "reserved for the time before"
    );
    let cf = db.default_cf();
    put_ten(&cf);
    cf.flush(true).unwrap();
    assert_eq!(world.times(), [(100, NOW)]);
    compact(&cf);
    assert_eq!(seqnos(&cf), [(101, 110)]);
    assert_eq!(world.times(), [(100, NOW)]);

    // Numbers that tell their time are worth no compaction when a snapshot ends.
    let files: Vec<u64> = cf.live_files().iter().map(|f| f.number).collect();
    let snapshot = db.snapshot();
    cf.put("a", "in memory").unwrap();
    drop(snapshot);
    db.wait_idle(None).unwrap();
    let still: Vec<u64> = cf.live_files().iter().map(|f| f.number).collect();
    assert_eq!(still, files);

    world.pass(10);
    // Changes of options are one of the moments at which the time is taken down.
    cf.set_options(&[("ttl", "0")]).unwrap();
    world.pass(999);
    compact(&cf);
    assert_eq!(
        seqnos(&cf),
        [(101, 111)],
        "written less than 1000 seconds ago, for all we know"
    );
    assert_eq!(world.times(), [(100, NOW), (111, NOW + 10)]);
    world.pass(1);
    compact(&cf);
    assert_eq!(seqnos(&cf), [(0, 0)]);
    assert_eq!(world.times(), []);
    db.close().unwrap();
}

#[test]
fn reserved_numbers_and_times_in_tables_outlast_the_option() {
    let world = World::new();
    world.open(1000).close().unwrap();
    let db = world.open(0);
    assert_eq!(db.latest_sequence_number(), 100);
    let cf = db.default_cf();
    cf.put("a", "b").unwrap();
    cf.flush(true).unwrap();
    assert_eq!(world.times(), []);

    cf.set_options(&[("preserve_internal_time_seconds", "500")])
        .unwrap();
    put_ten(&cf);
    cf.flush(true).unwrap();
    assert_eq!(world.times(), [(101, NOW)]);
    assert_eq!(seqnos(&cf).len(), 2);
    compact(&cf);
    assert_eq!(seqnos(&cf), [(101, 111)]);
    db.close().unwrap();

    // Earlier entries are dated by their table, as well as that goes.
    world.pass(499);
    let db = world.open(500);
    let cf = db.default_cf();
    compact(&cf);
    assert_eq!(seqnos(&cf), [(101, 111)]);
    world.pass(1);
    compact(&cf);
    assert_eq!(seqnos(&cf), [(0, 111)], "only number 101 has a time");
    cf.set_options(&[("preserve_internal_time_seconds", "0")])
        .unwrap();
    compact(&cf);
    assert_eq!(seqnos(&cf), [(0, 0)]);
    db.close().unwrap();
}

/// Level, smallest key and sequence numbers of the tables.
fn places(cf: &Cf) -> Vec<(usize, String, u64, u64)> {
    let text = |key: &[u8]| String::from_utf8_lossy(key).into_owned();
    let mut all: Vec<_> = (cf.live_files().iter())
        .map(|f| {
            (
                f.level,
                text(&f.smallest),
                f.smallest_seqno,
                f.largest_seqno,
            )
        })
        .collect();
    all.sort();
    all
}

fn place(level: usize, key: &str, from: u64, to: u64) -> (usize, String, u64, u64) {
    (level, key.to_string(), from, to)
}

/// One of the moments at which the time is taken down, and files are looked at again.
fn note_time(cf: &Cf) {
    cf.set_options(&[("ttl", "0")]).unwrap();
}

#[test]
fn young_data_stays_out_of_the_last_level_until_it_is_old_enough() {
    let world = World::new();
    let db = world.open_young(1 << 20);
    assert_eq!(db.latest_sequence_number(), 100, "reserved");
    let cf = db.default_cf();
    let all = || cf.compact_range(None, None).unwrap();
    put_ten(&cf);
    note_time(&cf);
    cf.flush(true).unwrap();
    all();
    assert_eq!(places(&cf), [place(2, "0", 101, 110)]);

    world.pass(600);
    for n in 5..8 {
        cf.put(format!("{n}"), "newer").unwrap();
    }
    cf.delete("9").unwrap();
    note_time(&cf);
    cf.flush(true).unwrap();
    all();
    assert_eq!(places(&cf), [place(2, "0", 101, 113)], "nothing lies below");
    assert_eq!(cf.get("9").unwrap(), None);

    // The first ten are old now, the newer ones are not; as in RocksDB the first of these goes with the old.
    world.pass(500);
    all();
    let split = [place(2, "6", 112, 113), place(3, "0", 0, 111)];
    assert_eq!(places(&cf), split, "what is old has no number any more");

    // Data in the last level stays there, however long data may be young.
    cf.set_options(&[("preclude_last_level_data_seconds", "1000000")])
        .unwrap();
    cf.put("55", "newest").unwrap();
    cf.flush(true).unwrap();
    all();
    assert_eq!(
        places(&cf),
        [place(2, "55", 112, 115), place(3, "0", 0, 111)]
    );
    let seen: Vec<_> = (cf.iter().map(|e| e.unwrap()))
        .map(|(k, v)| format!("{}={}", k.escape_ascii(), v.escape_ascii()))
        .collect();
    let want = "0=value 1=value 2=value 3=value 4=value 5=newer 55=newest 6=newer 7=newer 8=value";
    assert_eq!(seen.join(" "), want);
    db.close().unwrap();
}

#[test]
fn what_a_snapshot_sees_stays_out_of_the_last_level_with_the_tombstones_over_it() {
    let world = World::new();
    let db = world.open_young(1 << 20);
    let cf = db.default_cf();
    put_ten(&cf);
    let snapshot = db.snapshot();
    let mut batch = WriteBatch::new();
    batch.delete_range("2", "5").put("3", "again");
    db.write(&batch).unwrap();
    note_time(&cf);
    cf.flush(true).unwrap();
    // Everything is old, but the snapshot tells the two apart.
    world.pass(2000);
    cf.compact_range(None, None).unwrap();
    assert_eq!(places(&cf), [place(2, "2", 111, 112), place(3, "0", 0, 0)]);
    let keys = |snapshot: Option<&Snapshot>| -> String {
        let mut options = ReadOptions::default();
        options.snapshot = snapshot.cloned();
        let mut all = cf.iter_opt(options);
        std::iter::from_fn(move || all.next())
            .map(|e| e.unwrap().0[0] as char)
            .collect()
    };
    assert_eq!(keys(None), "01356789");
    assert_eq!(keys(Some(&snapshot)), "0123456789");
    drop(snapshot);
    cf.compact_range(None, None).unwrap();
    assert_eq!(places(&cf), [place(3, "0", 0, 0)]);
    assert_eq!(keys(None), "01356789");
    db.close().unwrap();
}

/// RocksDB 11.8.1 writes such data into the same level over and over.
#[test]
fn young_data_that_does_not_fit_its_level_is_left_alone_until_it_is_old() {
    let world = World::new();
    let db = world.open_young(8 << 10);
    let cf = db.default_cf();
    for round in 0..6 {
        for n in 0..40 {
            cf.put(format!("{n:02}{round}"), [b'v'; 200]).unwrap();
        }
        note_time(&cf);
        cf.flush(true).unwrap();
        db.wait_idle(None).unwrap();
    }
    let in_level = |level| (places(&cf).iter()).filter(|p| p.0 == level).count();
    assert!(in_level(2) > 4, "{:?}", places(&cf));
    assert_eq!(in_level(3), 0);
    let made = world.written.0.lock().unwrap().len();
    note_time(&cf);
    db.wait_idle(None).unwrap();
    assert_eq!(world.written.0.lock().unwrap().len(), made, "nothing to do");
    world.pass(1500);
    note_time(&cf);
    db.wait_idle(None).unwrap();
    assert!(in_level(2) < 3 && in_level(3) > 4, "{:?}", places(&cf));
    db.close().unwrap();
}

/// Three levels of universal compaction, which merges any two runs, and writes that stop at two.
fn open_universal(world: &World, compaction: &Compactions) -> Db {
    let mut cf = CfOptions::default();
    cf.compaction_style = CompactionStyle::Universal;
    cf.preclude_last_level_data_seconds = 1000;
    cf.num_levels = 3;
    cf.level0_file_num_compaction_trigger = 2;
    cf.level0_slowdown_writes_trigger = 2;
    cf.level0_stop_writes_trigger = 2;
    cf.compression = CompressionType::None;
    Db::builder(Path::new("/db"))
        .create_if_missing(true)
        .no_info_log()
        .env(world.env.clone())
        .listener(Arc::new(compaction.clone()))
        .cf_options(cf)
        .open()
        .unwrap()
}

/// Counts compactions.
#[derive(Clone, Default)]
struct Compactions(Arc<AtomicU64>);

impl EventListener for Compactions {
    fn on_compaction_completed(&self, _: &CompactionInfo) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Old data in the last level, and young data above it.
fn put_old_and_young(world: &World, cf: &Cf) {
    for n in 0..100 {
        cf.put(format!("{n:02}"), [b'o'; 100]).unwrap();
    }
    note_time(cf);
    world.pass(2000);
    note_time(cf);
    cf.compact_range(None, None).unwrap();
    for n in 0..150 {
        cf.put(format!("{n:03}"), [b'y'; 100]).unwrap();
    }
    note_time(cf);
}

/// RocksDB 11.8.1 merges the two runs over and over, and the second flush waits until the data is old.
#[test]
fn runs_of_young_and_of_old_data_are_merged_once_and_flushes_do_not_wait_for_more() {
    let (world, merged) = (World::new(), Compactions::default());
    let db = open_universal(&world, &merged);
    let cf = db.default_cf();
    put_old_and_young(&world, &cf);
    cf.flush(true).unwrap();
    db.wait_idle(None).unwrap();
    let levels = || -> Vec<usize> { places(&cf).iter().map(|p| p.0).collect() };
    assert_eq!(levels(), [1, 2]);
    let made = merged.0.load(Ordering::Relaxed);
    cf.put("more", "1").unwrap();
    let is_patient = FlushOptions::default();
    assert!(is_patient.wait && !is_patient.allow_write_stall);
    cf.flush_opt(is_patient).unwrap();
    db.wait_idle(None).unwrap();
    assert_eq!(levels(), [1, 2]);
    let later = merged.0.load(Ordering::Relaxed);
    assert!(later <= made + 2, "{made} and then {later}");
    world.pass(1500);
    note_time(&cf);
    db.wait_idle(None).unwrap();
    assert_eq!(levels(), [2], "all is old");
    db.close().unwrap();
}

/// The data is old, and a snapshot keeps it above the last level.
#[test]
fn a_snapshot_that_keeps_data_up_starts_no_compactions_until_it_goes() {
    let (world, merged) = (World::new(), Compactions::default());
    let universal = open_universal(&world, &merged);
    let snapshot_at = |db: &Db, cf: &Cf| {
        cf.put("before", "1").unwrap();
        let snapshot = db.snapshot();
        put_old_and_young(&world, cf);
        world.pass(2000);
        note_time(cf);
        snapshot
    };
    let cf = universal.default_cf();
    let snapshot = snapshot_at(&universal, &cf);
    cf.flush(true).unwrap();
    universal.wait_idle(None).unwrap();
    assert_eq!(places(&cf).len(), 2, "{:?}", places(&cf));
    drop(snapshot);
    universal.wait_idle(None).unwrap();
    assert_eq!(places(&cf).len(), 1, "{:?}", places(&cf));
    universal.close().unwrap();

    let world = World::new();
    let db = world.open_young(8 << 10);
    let cf = db.default_cf();
    let snapshot = db.snapshot();
    put_old_and_young(&world, &cf);
    world.pass(2000);
    note_time(&cf);
    cf.flush(true).unwrap();
    db.wait_idle(None).unwrap();
    let in_level = |level| (places(&cf).iter()).filter(|p| p.0 == level).count();
    assert!(in_level(2) > 4, "{:?}", places(&cf));
    let made = world.written.0.lock().unwrap().len();
    note_time(&cf);
    db.wait_idle(None).unwrap();
    assert_eq!(world.written.0.lock().unwrap().len(), made, "nothing to do");
    drop(snapshot);
    db.wait_idle(None).unwrap();
    assert!(in_level(3) > 0, "{:?}", places(&cf));
    db.close().unwrap();
}

#[test]
fn a_timed_put_takes_the_number_of_its_time_once_it_is_at_the_bottom() {
    let world = World::new();
    let db = world.open(1000);
    let cf = db.default_cf();
    let mut batch = WriteBatch::new();
    batch.timed_put_cf(spanlith::FamilyRef::by_id(0), "half", "1", NOW - 500);
    batch.timed_put_cf(spanlith::FamilyRef::by_id(0), "unknown", "2", NOW - 5000);
    batch.timed_put_cf(spanlith::FamilyRef::by_id(0), "later", "3", NOW + 5000);
    db.write(&batch).unwrap();
    let same = |what: &str| {
        for (key, value) in [("half", "1"), ("unknown", "2"), ("later", "3")] {
            assert_eq!(&*cf.get(key).unwrap().unwrap(), value.as_bytes(), "{what}");
        }
    };
    same("in memory");
    let snapshot = db.snapshot();
    cf.put("more", "4").unwrap();
    cf.flush(true).unwrap();
    same("flushed");
    assert_eq!(world.times().first().unwrap().0, 1, "for the unknown one");
    compact(&cf);
    same("compacted");
    assert_eq!(seqnos(&cf), [(0, 104)]);
    drop(snapshot);
    let db = {
        drop(cf);
        db.close().unwrap();
        world.open(0)
    };
    let cf = db.default_cf();
    compact(&cf);
    assert_eq!(seqnos(&cf), [(0, 0)], "plain values without numbers");
    assert_eq!(&*cf.get("half").unwrap().unwrap(), b"1");
    db.close().unwrap();
}

/// Keeps what each table says of time, less [`NOW`]: its oldest ancestor, its making, its oldest and
/// newest key.
#[derive(Default)]
struct Ages(Mutex<Vec<[i64; 4]>>);

impl EventListener for Ages {
    fn on_table_file_created(&self, info: &TableFileInfo) {
        let p = &info.properties;
        let times = [
            p.creation_time,
            p.file_creation_time,
            p.oldest_key_time,
            p.newest_key_time,
        ];
        let since = |t: u64| if t == 0 { 0 } else { t as i64 - NOW as i64 };
        self.0.lock().unwrap().push(times.map(since));
    }
}

impl Ages {
    fn last(&self) -> [i64; 4] {
        *self.0.lock().unwrap().last().unwrap()
    }
}

/// The figures are those of RocksDB 11.8.1 after the same.
#[test]
fn tables_tell_when_their_entries_came() {
    let world = World::new();
    let ages = Arc::new(Ages::default());
    let open = || {
        Db::builder(Path::new("/db"))
            .create_if_missing(true)
            .no_info_log()
            .env(world.env.clone())
            .listener(ages.clone())
            .open()
            .unwrap()
    };
    let db = open();
    let cf = db.default_cf();
    let other = db.create_cf(FamilyOptions::new("other")).unwrap();
    world.pass(2);
    cf.put("a", "1").unwrap();
    world.pass(2);
    cf.put("b", "2").unwrap();
    other.put("a", "1").unwrap();
    world.pass(2);
    cf.flush(true).unwrap();
    assert_eq!(ages.last(), [2, 6, 2, 6]);
    other.flush(true).unwrap();
    assert_eq!(ages.last(), [4, 6, 4, 6]);
    world.pass(1);
    cf.put("a", "3").unwrap();
    world.pass(2);
    cf.flush(true).unwrap();
    assert_eq!(ages.last(), [7, 9, 7, 9]);
    world.pass(2);
    compact(&cf);
    assert_eq!(ages.last(), [2, 11, 0, 9], "the oldest key is not told");
    cf.put("c", "4").unwrap();
    world.pass(3);
    db.drop_cf(&other).unwrap();
    drop((cf, other, db));
    let db = open();
    compact(&db.default_cf());
    let of_replay = "what a log held is as old as its replay, for all that is known";
    assert_eq!(ages.last(), [2, 14, 0, 14], "{of_replay}");
}

/// Hears why compactions ran, and where they led.
#[derive(Default)]
struct Reasons(Mutex<Vec<(&'static str, usize)>>);

impl EventListener for Reasons {
    fn on_compaction_completed(&self, info: &CompactionInfo) {
        let mut heard = self.0.lock().unwrap();
        heard.push((info.reason.0, info.output_level));
    }
}

/// A table in level 6 and two in level 5, the second of which is 100 seconds younger.
fn two_in_level_five(world: &World, cf: CfOptions) -> (Db, Arc<Reasons>) {
    let reasons = Arc::new(Reasons::default());
    let db = Db::builder(Path::new("/db"))
        .create_if_missing(true)
        .no_info_log()
        .env(world.env.clone())
        .listener(reasons.clone())
        .cf_options(cf.level_compaction_dynamic_level_bytes(false))
        .open()
        .unwrap();
    let cf = db.default_cf();
    for (key, level, seconds) in [("z", 6, 0), ("a", 5, 100), ("b", 5, 100)] {
        cf.put(key, "value").unwrap();
        cf.flush(true).unwrap();
        let files = cf.live_files().into_iter().filter(|f| f.level == 0);
        let files: Vec<u64> = files.map(|f| f.number).collect();
        let made = cf.compact_files(&files, level, &CompactFilesOptions::default());
        made.unwrap();
        world.pass(seconds);
    }
    reasons.0.lock().unwrap().clear();
    (db, reasons)
}

#[test]
fn a_table_goes_down_once_its_data_is_older_than_its_time_to_live() {
    let world = World::new();
    let mut options = CfOptions::default();
    (options.ttl, options.periodic_compaction_seconds) = (1000, 0);
    let (db, reasons) = two_in_level_five(&world, options);
    let cf = db.default_cf();
    let levels = || cf.live_files().iter().map(|f| f.level).collect::<Vec<_>>();
    let look = || {
        cf.set_options(&[("level0_stop_writes_trigger", "50")])
            .unwrap();
        db.wait_idle(None).unwrap();
    };
    world.pass(800);
    look();
    assert_eq!(
        levels(),
        [5, 5, 6],
        "the older one is just as old as allowed"
    );
    world.pass(1);
    look();
    assert_eq!(levels(), [5, 6, 6]);
    world.pass(100);
    look();
    assert_eq!(levels(), [6, 6, 6]);
    assert_eq!(*reasons.0.lock().unwrap(), [("Ttl", 6); 2]);
    db.close().unwrap();
}

#[test]
fn a_table_is_rewritten_once_it_is_older_than_the_period() {
    let world = World::new();
    let mut options = CfOptions::default();
    (options.ttl, options.periodic_compaction_seconds) = (0, 1000);
    let (db, reasons) = two_in_level_five(&world, options);
    let cf = db.default_cf();
    let numbers = || cf.live_files().iter().map(|f| f.number).collect::<Vec<_>>();
    let look = || {
        cf.set_options(&[("level0_stop_writes_trigger", "50")])
            .unwrap();
        db.wait_idle(None).unwrap();
    };
    let before = numbers();
    world.pass(800);
    look();
    assert_eq!(numbers(), before, "none is older than allowed");
    world.pass(1);
    look();
    let after = numbers();
    assert_eq!(after.iter().filter(|n| before.contains(n)).count(), 1);
    assert_eq!(reasons.0.lock().unwrap()[0].0, "PeriodicCompaction");
    assert_eq!(cf.iter().count(), 3);
    db.close().unwrap();
}
