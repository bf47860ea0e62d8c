//! Logs: what witnesses, closing records and ends prove, and what they do not.

use super::*;
use crate::world::World;
use spanlith::options::SyncedLogDamage;
use spanlith::{Error, ErrorKind, WriteBatch};

/// Bytes of the log that figures are compared with.
const REFERENCE_LEN: usize = 5518;

/// Bytes in front of the mark of a note: record header, batch header, tag, length.
const BEFORE_MARK: usize = 7 + 12 + 2;

/// A log of 72 records, a witness in front of each of 36 synced batches, with values of `size` bytes;
/// the first is longer by `more`.
fn reference_database(size: usize, more: usize) -> (Arc<MemFs>, Db) {
    let fs = Arc::new(MemFs::new());
    let db = Setup::dense().open(&fs).unwrap();
    let cf = db.default_cf();
    for n in 0..35 {
        let len = size + if n == 0 { more } else { 0 };
        cf.put_opt(format!("k{n:02}"), vec![b'v'; len], &synced())
            .unwrap();
    }
    db.write_opt(&WriteBatch::new(), &synced()).unwrap();
    (fs, db)
}

/// As [`reference_database`], of exactly the reference length.
fn reference() -> (Arc<MemFs>, Db) {
    for size in (80..100).rev() {
        let len = log_len(&reference_database(size, 0).0);
        if let Some(more) = REFERENCE_LEN.checked_sub(len) {
            let (fs, db) = reference_database(size, more);
            assert_eq!(log_len(&fs), REFERENCE_LEN);
            return (fs, db);
        }
    }
    panic!("no size fits");
}

fn log_len(fs: &MemFs) -> usize {
    fs.read_file(&log_path(fs)).unwrap().len()
}

/// The image with a byte of its log changed.
fn flipped(image: &MemFs, at: usize, by: u8) -> MemFs {
    let fs = image.process_crash_clone();
    let path = log_path(&fs);
    let mut bytes = fs.read_file(&path).unwrap();
    bytes[at] ^= by;
    fs.write_file(&path, &bytes).unwrap();
    fs
}

fn is_proof(e: &Error) -> bool {
    e.kind() == ErrorKind::Corruption && e.to_string().contains("had been synced")
}

/// Offsets whose change is not reported as damage; what opens is a prefix of `all`.
fn unproven(image: &MemFs, all: &Rows) -> Vec<usize> {
    let mut out = Vec::new();
    for at in 0..log_len(image) {
        let by = [0x01, 0x80, 0xff][at % 3];
        match Setup::default().look(flipped(image, at, by)) {
            Ok(found) => {
                assert!(found.iter().all(|(k, v)| all.get(k) == Some(v)), "{at}");
                out.push(at);
            }
            Err(e) => assert!(is_proof(&e), "{at}: {e}"),
        }
    }
    out
}

#[test]
fn every_change_below_the_last_witness_is_reported() {
    crate::suite_disk::needs_log_files("the test changes bytes in files of logs");
    let (fs, db) = reference();
    let image = fs.process_crash_clone();
    let all = rows(&db);
    let unproven = unproven(&image, &all);
    // The last group: its witness and its batch.
    let bytes = fs.read_file(&log_path(&fs)).unwrap();
    let witnesses = places(&bytes, b"spanlith");
    assert_eq!(witnesses.len(), 36);
    let last = witnesses[35] - BEFORE_MARK;
    assert_eq!(unproven, (last..REFERENCE_LEN).collect::<Vec<_>>());
    let proven = REFERENCE_LEN - unproven.len();
    println!("without a closing record: {proven} of {REFERENCE_LEN} changes are proven");
    assert!(proven >= 5462, "{proven}");
}

#[test]
fn every_change_after_a_clean_close_is_reported() {
    crate::suite_disk::needs_log_files("the test changes bytes in files of logs");
    let (fs, db) = reference();
    let all = rows(&db);
    drop(db);
    assert!(log_len(&fs) > REFERENCE_LEN, "a closing record follows");
    assert_eq!(unproven(&fs, &all), [] as [usize; 0]);
    // So is every cut, and the loss of the whole log.
    let path = log_path(&fs);
    let bytes = fs.read_file(&path).unwrap();
    for len in (0..bytes.len()).step_by(7) {
        let cut = fs.process_crash_clone();
        cut.write_file(&path, &bytes[..len]).unwrap();
        assert!(is_proof(&Setup::default().look(cut).unwrap_err()), "{len}");
    }
    let gone = fs.process_crash_clone();
    gone.delete(&path).unwrap();
    assert!(is_proof(&Setup::default().look(gone).unwrap_err()));
}

/// A sealed memtable waits for its flush when the database is closed: the log that it needs is an older
/// one, and the current one holds nothing of the user.
#[test]
fn every_change_of_an_older_log_after_a_clean_close_is_reported() {
    crate::suite_disk::needs_log_files("the test changes bytes in files of logs");
    let fs = Arc::new(MemFs::new());
    let db = Setup::default().open(&fs).unwrap();
    for n in 0..20 {
        db.default_cf().put(format!("k{n:02}"), "value").unwrap();
    }
    let older = log_path(&fs);
    db.flush(false).unwrap();
    let all = rows(&db);
    drop(db);
    assert_eq!(paths(&fs, "/db", ".log").len(), 2, "no flush has run");
    assert_eq!(
        Setup::default().look(fs.process_crash_clone()).unwrap(),
        all
    );
    let bytes = fs.read_file(&older).unwrap();
    let damaged = |bytes: &[u8]| {
        let fs = fs.process_crash_clone();
        fs.write_file(&older, bytes).unwrap();
        Setup::default().look(fs).unwrap_err()
    };
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= [0x01, 0x80, 0xff][at % 3];
        let e = damaged(&changed);
        assert!(is_proof(&e), "{at}: {e}");
        let e = damaged(&bytes[..at]);
        assert!(is_proof(&e), "cut to {at}: {e}");
    }
}

#[test]
fn with_the_default_spacing_every_change_below_the_last_witness_is_reported() {
    crate::suite_disk::needs_log_files("the test changes bytes in files of logs");
    let fs = Arc::new(MemFs::new());
    let setup = Setup::default();
    let db = setup.open(&fs).unwrap();
    for n in 0..400 {
        let value = vec![b'v'; 100];
        db.default_cf()
            .put_opt(format!("key{n:04}"), value, &synced())
            .unwrap();
    }
    let image = fs.process_crash_clone();
    let bytes = image.read_file(&log_path(&image)).unwrap();
    let witnesses = places(&bytes, b"spanlith");
    assert!((4..=7).contains(&witnesses.len()), "{witnesses:?}");
    for pair in witnesses.windows(2) {
        assert!(pair[1] - pair[0] > 8192, "{pair:?}");
    }
    let last = witnesses[witnesses.len() - 1] - BEFORE_MARK;
    let (mut below, mut reported) = (0, 0);
    for at in (0..last).step_by(61) {
        below += 1;
        match setup.look(flipped(&image, at, 0x10)) {
            Err(e) => {
                assert!(is_proof(&e), "{at}: {e}");
                reported += 1;
            }
            // Zeros that fill a block, which nobody reads.
            Ok(found) => assert_eq!(found, rows(&db), "{at}"),
        }
    }
    assert!(reported >= below - 1, "{reported} of {below}");
    println!(
        "default spacing: {} of {} bytes lie behind the last witness",
        bytes.len() - last,
        bytes.len()
    );
    assert!(bytes.len() - last < 8192 + 4096);
}

#[test]
fn a_torn_tail_is_no_damage_in_any_place() {
    crate::suite_disk::needs_log_files("the test changes bytes in files of logs");
    let fs = Arc::new(MemFs::new());
    let setup = Setup::dense();
    let db = setup.open(&fs).unwrap();
    let cf = db.default_cf();
    for n in 0..3 {
        cf.put_opt(format!("k{n}"), "synced", &synced()).unwrap();
    }
    let safe = log_len(&fs);
    for n in 3..6 {
        cf.put(format!("k{n}"), "not synced").unwrap();
    }
    let image = fs.process_crash_clone();
    let path = log_path(&image);
    let bytes = image.read_file(&path).unwrap();
    for len in safe..bytes.len() {
        for fill in [None, Some(0), Some(0x55)] {
            let fs = image.process_crash_clone();
            let mut torn = bytes[..len].to_vec();
            if let Some(fill) = fill {
                torn.resize(bytes.len(), fill);
            }
            fs.write_file(&path, &torn).unwrap();
            let found = setup
                .look(fs)
                .unwrap_or_else(|e| panic!("{len} {fill:?}: {e}"));
            assert!(found.len() >= 3, "{len}");
        }
    }
    // Synced bytes are not torn.
    for len in 0..safe {
        let fs = image.process_crash_clone();
        fs.write_file(&path, &bytes[..len]).unwrap();
        // Cut off with all that could tell.
        assert!(setup.look(fs).is_ok(), "{len}");
        let fs = image.process_crash_clone();
        let mut zeroed = bytes.clone();
        zeroed[len..safe].fill(0);
        fs.write_file(&path, &zeroed).unwrap();
        assert!(is_proof(&setup.look(fs).unwrap_err()), "{len}");
    }
}

#[test]
fn the_image_of_a_log_inside_a_value_proves_nothing() {
    crate::suite_disk::needs_log_files("the test changes bytes in files of logs");
    let other = {
        let (fs, _db) = reference();
        fs.read_file(&log_path(&fs)).unwrap()
    };
    let setup = Setup::dense();
    let fs = Arc::new(MemFs::new());
    let db = setup.open(&fs).unwrap();
    let cf = db.default_cf();
    for n in 0..40 {
        cf.put_opt(format!("old{n}"), "value", &synced()).unwrap();
    }
    let earlier = fs.read_file(&log_path(&fs)).unwrap();
    db.flush(true).unwrap();
    for n in 0..40 {
        cf.put_opt(format!("k{n}"), "value", &synced()).unwrap();
    }
    let image_before = fs.process_crash_clone();
    let own = fs.read_file(&log_path(&fs)).unwrap();
    for (name, value) in [("other", other), ("earlier", earlier), ("own", own.clone())] {
        let fs = Arc::new(image_before.process_crash_clone());
        // The same as a process that goes on: reopening would start another log.
        let db_file = log_path(&fs);
        let record = framed(own.len(), db.latest_sequence_number() + 1, &value);
        let at = own.len();
        let mut bytes = own.clone();
        bytes.extend_from_slice(&record);
        fs.write_file(&db_file, &bytes).unwrap();
        let whole = setup.look(fs.process_crash_clone()).unwrap();
        assert!(whole.keys().any(|k| k.1 == b"image"), "{name}");
        let damaged = flipped(&fs, at + 1, 0x20);
        let found = setup
            .look(damaged)
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(found.len(), whole.len() - 1, "{name}");
    }
}

/// The record of a batch that puts `image`, at an offset of a log.
fn framed(offset: usize, sequence: u64, value: &[u8]) -> Vec<u8> {
    let fs = MemFs::new();
    let path = Path::new("/log");
    let mut file = fs.create(path, spanlith_env::IoActivity::Wal).unwrap();
    file.append(&vec![0; offset]).unwrap();
    let mut writer = spanlith_wal::LogWriter::new(file, 0);
    let mut batch = spanlith_wal::WriteBatch::new();
    batch.put(b"image", value).unwrap();
    batch.set_sequence(sequence);
    writer.add_record(batch.as_bytes()).unwrap();
    fs.read_file(path).unwrap()[offset..].to_vec()
}

#[test]
fn proof_is_reported_in_three_modes_and_counted_in_the_fourth() {
    crate::suite_disk::needs_log_files("the test changes bytes in files of logs");
    let (fs, db) = reference();
    let image = fs.process_crash_clone();
    drop(db);
    for mode in WalRecoveryMode::ALL {
        let setup = Setup::default().mode(*mode);
        let damaged = || flipped(&image, 1000, 0x40);
        let skips = *mode == WalRecoveryMode::SkipAnyCorruptedRecords;
        match setup.look(damaged()) {
            Ok(_) => assert!(skips, "{mode}"),
            Err(e) => assert!(!skips && is_proof(&e), "{mode}: {e}"),
        }
        // As RocksDB, if asked for.
        let lenient = ["truncate", "off"].map(|how| {
            let mut setup = setup.clone();
            match how {
                "off" => setup.evidence.evidence = false,
                _ => {
                    setup.evidence.synced_log_damage = spanlith::options::SyncedLogDamage::Truncate
                }
            }
            setup.look(damaged()).map(|rows| rows.len())
        });
        let by_mode = matches!(
            mode,
            WalRecoveryMode::PointInTimeRecovery | WalRecoveryMode::SkipAnyCorruptedRecords
        );
        for outcome in lenient {
            match outcome {
                Ok(found) => assert!(by_mode && found < 35, "{mode}: {found}"),
                Err(e) => assert!(!by_mode && !is_proof(&e), "{mode}: {e}"),
            }
        }
    }
}

#[test]
fn without_evidence_logs_hold_the_records_of_users_only() {
    crate::suite_disk::needs_log_files("the test changes bytes in files of logs");
    let write = |setup: &Setup| {
        let fs = Arc::new(MemFs::new());
        let db = setup.open(&fs).unwrap();
        let cf = db.default_cf();
        for round in 0..3 {
            for n in 0..700 {
                let options = WriteOptions::new().sync(n % 5 == 0);
                cf.put_opt(format!("key{round}{n:04}"), vec![b'v'; 150], &options)
                    .unwrap();
            }
        }
        let changes = db.changes(0).unwrap().map(|c| c.unwrap().batch.len());
        assert_eq!(changes.collect::<Vec<_>>(), vec![1; 2100]);
        drop((cf, db));
        (fs.read_file(&log_path(&fs)).unwrap(), fs)
    };
    let mut off = Setup::default();
    off.evidence.evidence = false;
    let (plain, fs) = write(&off);
    assert_eq!(places(&plain, b"spanlith"), [] as [usize; 0]);
    let manifest = fs.read_file(&manifest_path(&fs)).unwrap();
    // The tag of a mark, as a varint.
    assert_eq!(
        places(&manifest, &[0x81, 0xd8, 0xc1, 0x9a, 0x05]),
        [] as [usize; 0]
    );
    let (noted, _) = write(&Setup::default());
    let cost = (noted.len() - plain.len()) as f64 / plain.len() as f64;
    println!(
        "evidence: {} of {} bytes",
        noted.len() - plain.len(),
        plain.len()
    );
    assert!(cost > 0.0 && cost <= 0.005, "{cost}");
}

#[test]
fn witnesses_hold_in_logs_of_every_form() {
    crate::suite_disk::needs_log_files("the test changes bytes in files of logs");
    use spanlith::options::CompressionType;
    let forms: [fn(&mut DbOptions); 4] = [
        |o| o.recycle_log_file_num = 1,
        |o| o.wal_compression = CompressionType::Zstd,
        |o| o.manual_wal_flush = true,
        |o| {
            o.wal_compression = CompressionType::Zstd;
            o.recycle_log_file_num = 1;
        },
    ];
    for (form, set) in forms.into_iter().enumerate() {
        let mut setup = Setup::dense();
        set(&mut setup.options);
        let fs = Arc::new(MemFs::new());
        let db = setup.open(&fs).unwrap();
        let cf = db.default_cf();
        for n in 0..20 {
            cf.put_opt(format!("k{n:02}"), "value", &synced()).unwrap();
        }
        let hidden = db.changes(0).unwrap().count();
        assert_eq!(hidden, 20, "form {form}");
        let image = fs.process_crash_clone();
        let len = log_len(&image);
        for at in (0..len / 2).step_by(5) {
            let e = setup.look(flipped(&image, at, 0x08)).unwrap_err();
            assert!(is_proof(&e), "form {form}, offset {at}: {e}");
        }
    }
}

#[test]
fn the_end_of_a_log_that_nobody_writes_to_any_more_is_vouched_for() {
    crate::suite_disk::needs_log_files("the test changes bytes in files of logs");
    let world = World::new(3);
    let open = || {
        let builder = Db::builder("/db").create_if_missing(true).no_info_log();
        builder.env(world.env.clone()).open().unwrap()
    };
    let db = open();
    let put = |n: u32| {
        db.default_cf()
            .put_opt(format!("k{n}"), "synced", &synced())
    };
    let idle = || world.executor.tick("disk");
    put(1).unwrap();
    put(2).unwrap();
    idle();
    let before = log_len(&world.mem);
    idle();
    let told = log_len(&world.mem);
    assert!(told > before, "a witness");
    idle();
    assert_eq!(log_len(&world.mem), told, "nothing is new");
    // Bytes that are not synced are no news, and neither is a writer that is busy.
    db.default_cf().put("k3", "not synced").unwrap();
    let written = log_len(&world.mem);
    idle();
    idle();
    assert_eq!(log_len(&world.mem), written);
    let image = world.mem.process_crash_clone();
    let all = rows(&db);
    // Every change of what had been synced is proven, though the log is far shorter than the spacing.
    for at in 0..before {
        let fs = flipped(&image, at, 0xff);
        match Setup::default().look(fs) {
            Ok(found) => assert_eq!(found, all, "byte {at}"),
            Err(e) => assert!(is_proof(&e), "byte {at}: {e}"),
        }
    }
}

/// Has another thread write as soon as an error is told.
#[derive(Default)]
struct WritesAtOnce {
    db: std::sync::OnceLock<Db>,
    written: std::sync::Mutex<Option<std::thread::JoinHandle<spanlith::Result<()>>>>,
}

impl spanlith::EventListener for WritesAtOnce {
    fn on_background_error(
        &self,
        _: spanlith::listener::BackgroundErrorReason,
        _: &mut Option<Error>,
    ) {
        let db = self.db.get().unwrap().clone();
        let (done, is_done) = std::sync::mpsc::channel();
        let write = move || {
            let written = db.default_cf().put("behind", "v");
            // Nobody may listen any more.
            let _ = done.send(());
            written
        };
        *self.written.lock().unwrap() = Some(std::thread::spawn(write));
        // In case that leadership is not to be had here.
        let soon = std::time::Duration::from_millis(100);
        let _ = is_done.recv_timeout(soon);
    }
}

/// Leadership is let go of before the error is known: until then the file itself refuses what follows.
#[test]
fn nobody_writes_behind_a_witness_that_failed() {
    crate::suite_disk::needs_log_files("the test changes bytes in files of logs");
    let world = World::new(3);
    let ears = Arc::new(WritesAtOnce::default());
    let builder = Db::builder("/db").create_if_missing(true).no_info_log();
    let builder = builder.env(world.env.clone()).listener(ears.clone());
    let db = builder.open().unwrap();
    assert!(ears.db.set(db.clone()).is_ok());
    let put = |key: &str| db.default_cf().put_opt(key, "synced", &synced());
    put("k1").unwrap();
    put("k2").unwrap();
    world.executor.tick("disk");
    let rule = spanlith_env::FaultRule::fail(spanlith_env::OpClass::Append, 1, 5);
    world.fs.add(rule.named(".log"));
    world.executor.tick("disk");
    let written = ears
        .written
        .lock()
        .unwrap()
        .take()
        .expect("a witness failed");
    written.join().unwrap().unwrap_err();
}

/// A disk may put a sector in the place of another. Where records begin with both, reading goes on from the
/// wrong one and fails at its end, as at a torn tail.
#[test]
fn a_sector_of_an_unsynced_log_that_reads_as_the_next_is_reported() {
    crate::suite_disk::needs_log_files("the test changes bytes in files of logs");
    // With an opening record in front or not, recyclable headers or not, one sector or eight.
    for (recycled, sector) in [(0, 512), (0, 4096), (2, 512), (2, 4096)] {
        let mut setup = Setup::default();
        setup.options.recycle_log_file_num = recycled;
        let fs = Arc::new(MemFs::new());
        let db = setup.open(&fs).unwrap();
        let put = |n: usize, size: usize| db.default_cf().put(format!("{n:04}"), vec![b'v'; size]);
        // A record ends with the first sector, and with no other.
        put(0, 100).unwrap();
        db.flush_wal(false).unwrap();
        let (one, mut n) = (log_len(&fs), 1);
        while log_len(&fs) + one + 200 < sector {
            put(n, 100).unwrap();
            n += 1;
        }
        let rest = sector - log_len(&fs);
        let before = one - 100 + usize::from(rest - one + 100 > 127);
        put(n, rest - before).unwrap();
        assert_eq!(log_len(&fs), sector, "a record ends here");
        for n in n + 1..n + 100 {
            put(n, 93).unwrap();
        }
        let image = fs.process_crash_clone();
        let path = log_path(&image);
        let bytes = image.read_file(&path).unwrap();
        assert!(bytes.len() > 2 * sector);
        assert_eq!(setup.look(image.process_crash_clone()).unwrap(), rows(&db));
        let mut swapped = bytes.clone();
        swapped.copy_within(sector..2 * sector, 0);
        image.write_file(&path, &swapped).unwrap();
        let e = setup.look(image.process_crash_clone()).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Corruption);
        let text = format!("the record at 0 belongs at {sector}, where it stands once more");
        assert!(e.to_string().contains(&text), "{e}");
        assert_eq!(e.path(), Some(path.as_path()));
        // RocksDB's outcome where that is asked for.
        let mut rocksdb = setup.clone();
        rocksdb.evidence = OwnDbOptions::new().synced_log_damage(SyncedLogDamage::Truncate);
        rocksdb.look(image.process_crash_clone()).unwrap();
        // A torn tail after the same record is none.
        image.write_file(&path, &bytes[..2 * sector - 40]).unwrap();
        setup.look(image).unwrap();
    }
}
