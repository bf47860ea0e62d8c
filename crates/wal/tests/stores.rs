//! Both stores of logs keep the promises of the trait.

use spanlith_env::{FileSystem, MemFs};
use spanlith_wal::store::is_missing;
use spanlith_wal::{FileLogs, LogPlace, LogReader, LogStore, LogWriter, MemLogs, ReadEvent};
use std::path::Path;
use std::sync::Arc;

const LIVE: LogPlace = LogPlace::Live;
const ARCHIVE: LogPlace = LogPlace::Archive;

/// A store, and the store that a power loss leaves of it.
type Case = (Box<dyn LogStore>, Box<dyn Fn() -> Box<dyn LogStore>>);

fn files(fs: MemFs) -> Box<dyn LogStore> {
    let sync = fs.clone();
    let [live, archive] = DIRS.map(|dir| Path::new(dir).to_path_buf());
    let sync = Box::new(move |dir: &Path| sync.sync_dir(dir));
    Box::new(FileLogs::new(Arc::new(fs), live, archive, sync))
}

const DIRS: [&str; 2] = ["/logs", "/logs/archive"];

fn cases() -> Vec<Case> {
    let mem = MemLogs::new();
    let lost = mem.clone();
    let fs = MemFs::new();
    for dir in DIRS {
        fs.create_dir_if_missing(Path::new(dir)).unwrap();
    }
    for dir in ["/", DIRS[0]] {
        fs.sync_dir(Path::new(dir)).unwrap();
    }
    let mem_after = move || -> Box<dyn LogStore> {
        lost.lose_power();
        Box::new(lost.clone())
    };
    let kept = fs.clone();
    vec![
        (Box::new(mem), Box::new(mem_after)),
        (
            files(fs),
            Box::new(move || files(kept.crash_clone(&mut |_| 0))),
        ),
    ]
}

fn records(store: &dyn LogStore, number: u64, place: LogPlace) -> Vec<Vec<u8>> {
    let mut reader = LogReader::new(store.open(number, place).unwrap(), number);
    let mut all = Vec::new();
    loop {
        match reader.next_event().unwrap() {
            ReadEvent::Record { .. } => all.push(reader.record().to_vec()),
            ReadEvent::Eof => return all,
            other => panic!("{other:?}"),
        }
    }
}

fn write(store: &dyn LogStore, number: u64, text: &[u8]) -> LogWriter {
    let mut log = LogWriter::new(store.create(number).unwrap(), number);
    log.add_record(text).unwrap();
    log
}

#[test]
fn logs_are_made_found_archived_and_deleted_by_number() {
    for (store, _) in cases() {
        let store = &*store;
        assert!(store.list(LIVE).unwrap().is_empty());
        for number in [9, 7] {
            write(store, number, b"text").close().unwrap();
        }
        assert_eq!(store.list(LIVE).unwrap(), [7, 9]);
        assert_eq!(records(store, 7, LIVE), [b"text"]);
        assert_eq!(store.size(7, LIVE).unwrap(), 11);
        let open = store.open_random(7, LIVE).unwrap();
        store.archive(7).unwrap();
        assert_eq!(
            (store.list(LIVE).unwrap(), store.list(ARCHIVE).unwrap()),
            (vec![9], vec![7])
        );
        assert!(store.is_there(7, ARCHIVE).unwrap() && !store.is_there(7, LIVE).unwrap());
        assert_eq!(records(store, 7, ARCHIVE), [b"text"]);
        drop(store.delete(7, ARCHIVE).unwrap());
        let mut bytes = [0; 11];
        assert_eq!(
            open.read_at(0, &mut bytes).unwrap(),
            11,
            "open files stay readable"
        );
        assert!(bytes.ends_with(b"text"));
        for place in [LIVE, ARCHIVE] {
            assert!(is_missing(&store.open(7, place).err().unwrap()));
            assert!(is_missing(&store.size(7, place).unwrap_err()));
        }
    }
}

#[test]
fn a_log_is_continued_at_its_end_or_written_again_from_its_front() {
    for (store, _) in cases() {
        let store = &*store;
        write(store, 5, b"first").close().unwrap();
        let mut log = LogWriter::new(store.reopen(5).unwrap(), 5);
        log.add_record(b"second").unwrap();
        log.close().unwrap();
        assert_eq!(records(store, 5, LIVE), [&b"first"[..], b"second"]);
        let mut log = LogWriter::new(store.recycle(5, 8).unwrap(), 8);
        assert_eq!((log.len(), store.list(LIVE).unwrap()), (0, vec![8]));
        log.add_record(b"FIRST").unwrap();
        drop(log);
        assert_eq!(records(store, 8, LIVE)[0], b"FIRST");
    }
}

/// E1: bytes and the name have to be synced, each by its own call.
#[test]
fn a_power_loss_keeps_synced_bytes_of_logs_whose_names_were_synced() {
    for (store, lose_power) in cases() {
        let store = &*store;
        let mut synced = write(store, 3, b"kept");
        synced.sync().unwrap();
        store.sync_names(LIVE).unwrap();
        synced.add_record(b"lost").unwrap();
        let mut unnamed = write(store, 4, b"unnamed");
        unnamed.sync().unwrap();
        drop((synced, unnamed));
        let left = lose_power();
        assert_eq!(left.list(LIVE).unwrap(), [3]);
        assert_eq!(records(&*left, 3, LIVE), [b"kept"]);
    }
}
