//! The writer of tables outside of a database, and files that are taken in just when something else goes on.

use crate::world::World;
use spanlith::listener::{CompactionInfo, ExternalFileInfo};
use spanlith::options::{CfOptions, CompressionType, DbOptions};
use spanlith::{
    Cf, CompactFilesOptions, Comparator, Db, ErrorKind, EventListener, FamilyOptions,
    IngestOptions, ReadOptions, SstWriter,
};
use spanlith_env::{Env, FaultRule, IoActivity, MemFs, OpClass};
use spanlith_table::{ReaderOptions, TableReader};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn writer(env: &Env, family: FamilyOptions) -> SstWriter {
    SstWriter::new(family, &DbOptions::default(), env, None).unwrap()
}

fn plain(env: &Env, path: &str, keys: &[&str], value: &str) {
    let mut table = writer(env, FamilyOptions::new(""));
    table.open(path).unwrap();
    keys.iter().for_each(|k| table.put(k, value).unwrap());
    table.finish().unwrap();
}

fn refusal<T: std::fmt::Debug>(result: spanlith::Result<T>) -> String {
    result.unwrap_err().to_string()
}

/// Texts and order of RocksDB 11.8.1's `SstFileWriter`.
#[test]
fn a_writer_takes_keys_in_order_and_says_what_it_does_not_take() {
    let w = World::new(1);
    let mut table = writer(&w.env, FamilyOptions::new(""));
    let not_open = "Invalid argument: File is not opened";
    assert_eq!(refusal(table.put("a", "v")), not_open);
    assert_eq!(refusal(table.delete_range("a", "b")), not_open);
    assert_eq!(refusal(table.finish()), not_open);
    assert_eq!(table.file_size(), 0);
    table.open("/a.sst").unwrap();
    let empty = "Invalid argument: Cannot create sst file with no entries";
    assert_eq!(refusal(table.finish()), empty);
    table.put("", "the empty key").unwrap();
    let order = "Invalid argument: Keys must be added in strict ascending order.";
    assert_eq!(refusal(table.put("", "v")), order);
    table.put("b", "v").unwrap();
    assert_eq!(refusal(table.delete("b")), order);
    assert_eq!(refusal(table.merge("a", "v")), order);
    let range = "Invalid argument: end key comes before start key";
    assert_eq!(refusal(table.delete_range("z", "b")), range);
    // Deletes nothing, and is nothing.
    table.delete_range("b", "b").unwrap();
    table.delete_range("x", "z").unwrap();
    table.delete_range("a", "c").unwrap();
    let timestamp = "Invalid argument: Timestamp size mismatch";
    assert_eq!(refusal(table.put_at("c", b"12345678", "v")), timestamp);
    table.delete("c").unwrap();
    table.merge("d", "v").unwrap();
    let file = table.finish().unwrap();
    assert_eq!((file.entries, file.range_deletions), (6, 2));
    assert_eq!(
        (&file.smallest[..], &file.largest[..]),
        (&b""[..], &b"d"[..])
    );
    assert_eq!(file.size, w.env.fs.size(Path::new("/a.sst")).unwrap());
    assert_eq!(table.file_size(), file.size);
    assert_eq!(refusal(table.finish()), not_open);
    // The next one, which has a number of its own.
    table.open("/b.sst").unwrap();
    table.put("a", "v").unwrap();
    table.finish().unwrap();
    let ids = ["/a.sst", "/b.sst"].map(|path| {
        let file = w.env.fs.open_random(Path::new(path)).unwrap();
        let size = file.size();
        let reader = TableReader::open(file, size, ReaderOptions::default()).unwrap();
        let p = reader.properties();
        let external =
            |name: &str| p.user_collected[&format!("rocksdb.external_sst_file.{name}")].clone();
        assert_eq!(external("version"), 2u32.to_le_bytes());
        assert_eq!(external("global_seqno"), 0u64.to_le_bytes());
        assert_eq!(
            (&p.db_id[..], p.column_family_id),
            ("SST Writer", 2147483647)
        );
        p.unique_id()
    });
    assert_ne!(ids[0], ids[1]);
}

#[test]
fn the_codec_is_that_of_the_last_level() {
    let w = World::new(2);
    let codec = |change: fn(&mut CfOptions)| {
        let mut cf = CfOptions::default();
        change(&mut cf);
        let mut table = writer(&w.env, FamilyOptions::new("").options(cf));
        table.open("/a.sst").unwrap();
        (0..100).for_each(|n| table.put(format!("{n:09}"), "value value value").unwrap());
        table.finish().unwrap();
        let file = w.env.fs.open_random(Path::new("/a.sst")).unwrap();
        let size = file.size();
        let reader = TableReader::open(file, size, ReaderOptions::default()).unwrap();
        reader.properties().compression_name.clone()
    };
    assert_eq!(codec(|cf| cf.compression = CompressionType::None), ";;");
    assert_eq!(
        codec(|cf| cf.compression = CompressionType::Zstd),
        "BuiltinV2;07;"
    );
    assert_eq!(
        codec(|cf| cf.compression_per_level = vec![CompressionType::None, CompressionType::Zstd]),
        "BuiltinV2;07;"
    );
    assert_eq!(
        codec(|cf| {
            cf.compression_per_level = vec![CompressionType::Zstd];
            cf.bottommost_compression = CompressionType::Lz4;
        }),
        "BuiltinV2;04;"
    );
}

#[test]
fn options_that_no_database_takes_are_refused_by_the_writer_too() {
    let w = World::new(3);
    let mut cf = CfOptions::default();
    cf.compression = CompressionType::Disable;
    let family = FamilyOptions::new("").options(cf);
    let made = SstWriter::new(family, &DbOptions::default(), &w.env, None);
    assert_eq!(made.unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn keys_with_timestamps_are_taken_in_with_them() {
    let w = World::new(4);
    let family = || {
        let comparator = Comparator::from_name("leveldb.BytewiseComparator.u64ts").unwrap();
        FamilyOptions::new("default").comparator(comparator)
    };
    let at = |n: u64| n.to_le_bytes();
    let mut table = writer(&w.env, family());
    table.open("/a.sst").unwrap();
    assert_eq!(
        refusal(table.put("a", "v")),
        "Invalid argument: Timestamp size mismatch"
    );
    table.put_at("a", &at(7), "a7").unwrap();
    table.put_at("a", &at(3), "a3").unwrap();
    assert!(
        table.put_at("a", &at(5), "late").is_err(),
        "the newest first"
    );
    table.delete_at("b", &at(4)).unwrap();
    table.put_at("b", &at(2), "b2").unwrap();
    table.delete_range_at("x", "z", &at(9)).unwrap();
    table.finish().unwrap();
    let open = || {
        let b = Db::builder("/db").create_if_missing(true).family(family());
        b.env(w.env.clone()).no_info_log().open().unwrap()
    };
    let db = open();
    let cf = db.default_cf();
    cf.put_at(b"y", &at(1), b"y1", &Default::default()).unwrap();
    // Newer by its timestamp than what is there, as files have to be.
    cf.put_at(b"a", &at(1), b"a1", &Default::default()).unwrap();
    let check = |cf: &Cf, when: &str| {
        let seen = |key: &str, n: u64| {
            let options = ReadOptions::new().timestamp(at(n));
            let found = cf.get_with_timestamp(key.as_bytes(), &options).unwrap();
            found.map(|(v, _)| String::from_utf8(v.to_vec()).unwrap())
        };
        for (key, n, want) in [
            ("a", 2, Some("a1")),
            ("a", 3, Some("a3")),
            ("a", 8, Some("a7")),
            ("b", 3, Some("b2")),
            ("b", 4, None),
            ("y", 8, Some("y1")),
            ("y", 9, None),
        ] {
            assert_eq!(seen(key, n).as_deref(), want, "{key} at {n}, {when}");
        }
    };
    cf.ingest(["/a.sst"], &IngestOptions::new()).unwrap();
    check(&cf, "taken in");
    let twice = cf.ingest(["/a.sst", "/a.sst"], &IngestOptions::new());
    assert_eq!(twice.unwrap_err().kind(), ErrorKind::NotSupported);
    cf.compact_range(None, None).unwrap();
    check(&cf, "compacted");
    drop(cf);
    db.close().unwrap();
    let db = open();
    check(&db.default_cf(), "opened again");
    db.close().unwrap();
}

/// Levels that stay where they are, so that files find several.
fn open(env: &Env, listener: Option<Arc<dyn EventListener>>) -> Db {
    let mut cf = CfOptions::default();
    cf.disable_auto_compactions = true;
    cf.level_compaction_dynamic_level_bytes = false;
    let builder = Db::builder("/db").create_if_missing(true).cf_options(cf);
    let builder = match listener {
        Some(listener) => builder.listener(listener),
        None => builder,
    };
    builder.env(env.clone()).no_info_log().open().unwrap()
}

/// Writes a sequence number into a file, as RocksDB 7.8 does into files that it was told to link.
fn patch(env: &Env, path: &Path, number: u64) {
    let mut bytes = env.fs.read_all(path, 1 << 20).unwrap();
    // Names are stored without what they share with the one before.
    let name = b"global_seqno";
    let at = bytes.windows(name.len()).position(|w| w == name).unwrap() + name.len();
    bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
    let mut file = env.fs.create(path, IoActivity::Other).unwrap();
    file.append(&bytes).unwrap();
    file.close().unwrap();
}

#[test]
fn a_number_that_another_database_wrote_into_the_file_is_taken_out_of_a_copy() {
    let w = World::new(8);
    let db = open(&w.env, None);
    let cf = db.default_cf();
    cf.put("b", "old").unwrap();
    let path = Path::new("/f.sst");
    plain(&w.env, "/f.sst", &["a", "b"], "new");
    let read = |path: &Path| w.env.fs.read_all(path, 1 << 20).unwrap();
    let pristine = read(path);
    patch(&w.env, path, 77);
    let patched = read(path);
    assert_ne!(pristine, patched);
    let options = IngestOptions::new().link_files(true);
    cf.ingest([path], &options).unwrap();
    assert_eq!(read(path), patched);
    let live = db.live_files();
    let taken = live.iter().find(|f| f.largest_seqno == 2).unwrap();
    assert_eq!(read(&taken.path), pristine);
    assert_eq!(cf.get("b").unwrap().as_deref(), Some(&b"new"[..]));
    drop(cf);
    db.close().unwrap();
}

/// Longest wait for what is not going to wait.
const LONG: Duration = Duration::from_secs(20);

/// Has `act` run, on a thread of its own, while a file whose name contains `part` is written to for the first time;
/// what it answered.
fn beside<T: Send + 'static>(
    w: &World,
    part: &'static str,
    act: impl FnOnce() -> T + Send + 'static,
) -> Receiver<T> {
    let (go, gone) = channel::<()>();
    let (answer, answered) = channel();
    let (told, result) = channel();
    std::thread::spawn(move || {
        if gone.recv().is_ok() {
            let answer_of = act();
            // Nobody waits any more if it took too long.
            let _ = (answer.send(()), told.send(answer_of));
        }
    });
    let first = Mutex::new(Some((go, answered)));
    let rule = FaultRule::fail(OpClass::Append, u64::MAX, 5).when(move |path: &Path| {
        let is_meant = path.to_string_lossy().contains(part);
        let first = first.lock().unwrap().take_if(|_| is_meant);
        if let Some((go, answered)) = first {
            go.send(()).unwrap();
            answered
                .recv_timeout(LONG)
                .expect("it waits for what waits for it");
        }
        false
    });
    w.fs.add(rule);
    result
}

/// Takes a file in when a compaction has begun.
#[derive(Default)]
struct Begun(Mutex<Option<Cf>>);

impl EventListener for Begun {
    fn on_compaction_begin(&self, _: &CompactionInfo) {
        let cf = self.0.lock().unwrap().take();
        if let Some(cf) = cf {
            cf.ingest(["/later.sst"], &IngestOptions::new()).unwrap();
        }
    }
}

#[test]
fn a_compaction_and_an_ingestion_keep_out_of_each_others_ranges() {
    let w = World::new(5);
    let begun = Arc::new(Begun::default());
    let db = open(&w.env, Some(begun.clone()));
    let cf = db.default_cf();
    let numbers = |db: &Db, level| {
        let files = db.live_files();
        let of_level = files.iter().filter(|f| f.level == level);
        of_level.map(|f| f.number).collect::<Vec<_>>()
    };
    let compact = |cf: &Cf, numbers: &[u64], level| {
        let options = CompactFilesOptions::default();
        cf.compact_files(numbers, level, &options)
    };
    // In levels 6 and 4 a file around the keys to come, which has none of them.
    for level in [6, 4] {
        cf.put("a", "v").unwrap();
        cf.put("z", "v").unwrap();
        cf.flush(true).unwrap();
        compact(&cf, &numbers(&db, 0), level).unwrap();
    }
    plain(&w.env, "/inner.sst", &["k", "l"], "inner");
    let (other, upper) = (cf.clone(), numbers(&db, 4));
    let met = beside(&w, "MANIFEST", move || {
        let options = CompactFilesOptions::default();
        other.compact_files(&upper, 5, &options)
    });
    cf.ingest(["/inner.sst"], &IngestOptions::new()).unwrap();
    w.fs.clear();
    let refused = met.recv_timeout(LONG).unwrap().unwrap_err().to_string();
    let text = "A running compaction is writing to the same output level";
    assert!(refused.contains(text), "{refused}");
    assert_eq!(numbers(&db, 5).len(), 1);

    // The other way round: when the compaction has begun, a file comes that would fit into its output's level.
    plain(&w.env, "/later.sst", &["m", "n"], "later");
    *begun.0.lock().unwrap() = Some(cf.clone());
    compact(&cf, &[numbers(&db, 4), numbers(&db, 5)].concat(), 5).unwrap();
    assert!(begun.0.lock().unwrap().is_none());
    assert_eq!(numbers(&db, 5).len(), 1);
    for (key, want) in [("a", "v"), ("k", "inner"), ("m", "later"), ("z", "v")] {
        let found = cf.get(key).unwrap();
        assert_eq!(found.as_deref(), Some(want.as_bytes()), "{key}");
    }
    let report = db.verify(spanlith::VerifyLevel::Full).unwrap();
    assert!(report.findings.is_empty(), "{report:?}");
    drop(cf);
    db.close().unwrap();
}

/// One file has a number, since it overlaps, and one has none: a reader must not see the second alone.
#[test]
fn files_with_and_without_a_number_appear_together() {
    let (mut env, ..) = Env::test(Arc::new(MemFs::new()), 6);
    env.executor = Env::system().executor;
    env.clock = Env::system().clock;
    let db = open(&env, None);
    let cf = db.default_cf();
    let done = AtomicBool::new(false);
    let reached = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let next = reached.load(Ordering::Relaxed) + 1;
                    let fresh = format!("m{next:06}");
                    let found = cf.multi_get([b"a", fresh.as_bytes()]);
                    let [old, fresh] = &found[..] else {
                        panic!("two answers")
                    };
                    let number = |v: &spanlith::Result<Option<spanlith::Pinned>>| {
                        let v = v.as_ref().unwrap().as_ref();
                        v.map_or(0, |v| {
                            String::from_utf8(v.to_vec())
                                .unwrap()
                                .parse::<u64>()
                                .unwrap()
                        })
                    };
                    let (old, fresh) = (number(old), number(fresh));
                    assert!(
                        fresh == 0 || old >= fresh,
                        "{fresh} without the other, which is {old}"
                    );
                    assert!(old < next || fresh == next, "{old} without {next}");
                }
            });
        }
        for round in 1..400u64 {
            let value = round.to_string();
            plain(&env, "/old.sst", &["a"], &value);
            plain(&env, "/fresh.sst", &[&format!("m{round:06}")], &value);
            cf.ingest(["/fresh.sst", "/old.sst"], &IngestOptions::new())
                .unwrap();
            reached.store(round, Ordering::Relaxed);
            if round % 50 == 0 {
                cf.compact_range(None, None).unwrap();
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    drop(cf);
    db.close().unwrap();
}

#[derive(Default)]
struct Heard(Mutex<Vec<ExternalFileInfo>>, Mutex<Option<Cf>>);

impl EventListener for Heard {
    fn on_external_file_ingested(&self, info: &ExternalFileInfo) {
        self.0.lock().unwrap().push(info.clone());
        // No lock is held: a listener may write, and take in more.
        let cf = self.1.lock().unwrap().take();
        if let Some(cf) = cf {
            cf.put("heard", "v").unwrap();
            cf.ingest(["/more.sst"], &IngestOptions::new()).unwrap();
        }
    }
}

#[test]
fn listeners_hear_of_each_file_and_may_use_the_database() {
    let w = World::new(7);
    let heard = Arc::new(Heard::default());
    let db = open(&w.env, Some(heard.clone()));
    let cf = db.default_cf();
    *heard.1.lock().unwrap() = Some(cf.clone());
    cf.put("b", "v").unwrap();
    plain(&w.env, "/one.sst", &["a", "c"], "1");
    plain(&w.env, "/two.sst", &["x"], "2");
    plain(&w.env, "/more.sst", &["h", "i"], "3");
    let options = IngestOptions::new().move_files(true);
    cf.ingest(["/one.sst", "/two.sst"], &options).unwrap();
    let told: Vec<_> = heard
        .0
        .lock()
        .unwrap()
        .iter()
        .map(|i| {
            let p = |p: &Path| p.display().to_string();
            (
                p(&i.external_path),
                i.global_seqno,
                i.properties.num_entries,
                p(&i.internal_path),
            )
        })
        .collect();
    let told: Vec<_> = told.iter().map(|t| (&t.0[..], t.1, t.2)).collect();
    // The listener's own came between the two, and made them overlap nothing.
    assert_eq!(
        told,
        [("/one.sst", 2, 2), ("/more.sst", 4, 2), ("/two.sst", 0, 1)]
    );
    let internal = heard.0.lock().unwrap()[0].internal_path.clone();
    assert!(w.env.fs.entry(&internal).unwrap().is_some());
    let p = db.property("rocksdb.cfstats").unwrap();
    assert!(
        p.contains("AddFile(Total Files): cumulative 3, interval 3"),
        "{p}"
    );
    assert!(p.contains("AddFile(Keys): cumulative 5, interval 5"), "{p}");
    heard.1.lock().unwrap().take();
    drop(cf);
    db.close().unwrap();
}
