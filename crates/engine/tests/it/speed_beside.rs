//! Logs on a speed disk that are read beside their replay: nothing of the replay has an effect before the verdict.

use spanlith::options::{CfOptions, DbOptions};
use spanlith::{Db, ErrorKind, Result, WriteBatch, WriteOptions};
use spanlith_env::{Durability, Env, FaultFs, FaultRule, FileSystem, MemFs, OpClass};
use spanlith_speed::{FormatOptions, Target, format_disk};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

const DISK: &str = "/fast/disk";
const DISK_BYTES: u64 = 32 << 20;
/// Batches, of sixteen values of 4 KiB each: more than the 8 MiB from which on logs are read beside.
const BATCHES: u32 = 160;
const EIO: i32 = 5;

fn open(fs: Arc<dyn FileSystem>, write_buffer: usize) -> Result<Db> {
    let mut options = DbOptions::default();
    options.create_if_missing = true;
    let mut cf = CfOptions::default();
    cf.write_buffer_size = write_buffer as u64;
    Db::builder("/db")
        .env(Env::test(fs, 7).0)
        .options(options)
        .cf_options(cf)
        .no_info_log()
        .set(format!("sd_path={DISK}"))?
        .open()
}

fn key(batch: u32, n: u32) -> String {
    format!("key{:06}", batch * 16 + n)
}

/// A database that was killed with all of it in its log.
fn killed() -> MemFs {
    let mem = Arc::new(MemFs::new());
    mem.make_device(Path::new(DISK), DISK_BYTES).unwrap();
    let device = Target::parse(DISK).unwrap().open(&*mem, false).unwrap();
    let options = FormatOptions {
        group_bytes: 1 << 20,
        ..FormatOptions::default()
    };
    format_disk(&*device, &options, *b"0123456789abcdef").unwrap();
    drop(device);
    let db = open(mem.clone(), 256 << 20).unwrap();
    for batch in 0..BATCHES {
        let mut updates = WriteBatch::new();
        for n in 0..16 {
            updates.put(key(batch, n), [batch as u8; 4096]);
        }
        db.write_opt(&updates, &WriteOptions::new().sync(true))
            .unwrap();
    }
    let killed = mem.process_crash_clone();
    db.close().unwrap();
    killed
}

/// The bytes of the disk.
fn disk_of(mem: &MemFs) -> Vec<u8> {
    let mut bytes = vec![0; DISK_BYTES as usize];
    let device = Target::parse(DISK).unwrap().open(mem, true).unwrap();
    device.read_at(0, &mut bytes).unwrap();
    bytes
}

/// Flips a bit of the disk.
fn flip(mem: &MemFs, at: usize) {
    let begin = at / 4096 * 4096;
    let mut page = disk_of(mem)[begin..begin + 4096].to_vec();
    page[at - begin] ^= 1;
    let device = Target::parse(DISK).unwrap().open(mem, false).unwrap();
    device
        .write_at(begin as u64, &page, Durability::Durable)
        .unwrap();
}

/// The files of the database and the disk.
fn everything(mem: &MemFs) -> BTreeMap<String, Vec<u8>> {
    let names = mem.list(Path::new("/db")).unwrap().into_iter();
    let read = |name: String| {
        let path = format!("/db/{name}");
        let bytes = mem.read_file(Path::new(&path)).unwrap();
        (path, bytes)
    };
    let files = names.map(read);
    files.chain([(DISK.to_string(), disk_of(mem))]).collect()
}

fn check_whole(db: &Db) {
    for batch in 0..BATCHES {
        let found = db.default_cf().get(key(batch, batch % 16)).unwrap();
        assert!(
            found.is_some_and(|v| v[..] == [batch as u8; 4096]),
            "batch {batch}"
        );
    }
}

#[test]
fn what_was_logged_is_replayed_while_it_is_read() {
    // In memory at once, and in tables by the way.
    for write_buffer in [256 << 20, 1 << 20] {
        let killed = Arc::new(killed());
        let db = open(killed.clone(), write_buffer).unwrap();
        check_whole(&db);
        db.close().unwrap();
        let db = open(killed, write_buffer).unwrap();
        check_whole(&db);
        db.close().unwrap();
    }
}

#[test]
fn damage_found_after_the_replay_began_refuses_the_open_and_changes_nothing() {
    for write_buffer in [256 << 20, 1 << 20] {
        let mem = killed();
        let disk = disk_of(&mem);
        // A page in the second half of what was written.
        let at = (256 << 10) + (6 << 20) + 100;
        assert_ne!(disk[at..at + 8], [0; 8]);
        flip(&mem, at);
        let before = everything(&mem);
        let mem = Arc::new(mem);
        let e = open(mem.clone(), write_buffer).err().unwrap();
        let text = e.to_string();
        assert_eq!(e.kind(), ErrorKind::Corruption, "{text}");
        for part in ["is damaged or missing", "/fast/disk", "/db/CURRENT"] {
            assert!(text.contains(part), "{text}");
        }
        let after = everything(&mem);
        let changed = after
            .iter()
            .filter(|(path, bytes)| before.get(*path) != Some(bytes));
        let changed: Vec<&String> = changed.map(|(path, _)| path).collect();
        assert_eq!(changed, [""; 0]);
        assert_eq!(before.len(), after.len());
        // It is refused again, and whole again once the byte is back.
        open(mem.clone(), write_buffer).err().unwrap();
        flip(&mem, at);
        let db = open(mem, write_buffer).unwrap();
        check_whole(&db);
        db.close().unwrap();
    }
}

#[test]
fn a_read_that_fails_beside_the_replay_fails_the_open() {
    let mem = Arc::new(killed());
    for nth in [3, 6, 10] {
        let fs = FaultFs::new(mem.clone());
        fs.add(FaultRule::fail(OpClass::DeviceRead, nth, EIO));
        let e = open(Arc::new(fs), 1 << 20).err().unwrap();
        assert_eq!(e.kind(), ErrorKind::Io, "{e}");
    }
    let db = open(mem, 1 << 20).unwrap();
    check_whole(&db);
    db.close().unwrap();
}
