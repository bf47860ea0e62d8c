//! Writes and flushes of a device that fail, and what of the logs is there afterwards.

use super::SpeedDisk;
use crate::format::{FormatOptions, format_disk};
use crate::target::Target;
use crate::usage::SpeedOptions;
use crate::writer::LogFile;
use spanlith_env::{FaultFs, FaultRule, MemFs, OpClass, WritableFile};
use std::path::Path;
use std::sync::Arc;

const DISK: &str = "/disk";
const EIO: i32 = 5;
/// Pages of a group.
const PAGES: usize = 16;

struct World {
    mem: Arc<MemFs>,
    fs: FaultFs,
    disk: Arc<SpeedDisk>,
}

impl World {
    fn new(tables: u64) -> Self {
        let mem = Arc::new(MemFs::new());
        mem.make_device(Path::new(DISK), 4 << 20).unwrap();
        let fs = FaultFs::new(mem.clone());
        let device = Target::parse(DISK).unwrap().open(&fs, false).unwrap();
        let options = FormatOptions {
            group_bytes: PAGES as u64 * 4096,
            tables,
            ..FormatOptions::default()
        };
        format_disk(&*device, &options, [3; 16]).unwrap();
        let disk = SpeedDisk::open(device, &SpeedOptions::default()).unwrap();
        Self { mem, fs, disk }
    }

    fn log(&self, number: u64) -> LogFile {
        let log = self.disk.create_log(number).unwrap();
        LogFile::new(self.disk.clone(), log, Path::new("log"))
    }

    fn fail(&self, class: OpClass) -> FaultRule {
        FaultRule::fail(class, 1, EIO)
    }

    /// Bytes of a log that `fs` has, to somebody who opens the disk.
    fn found(fs: &MemFs, number: u64) -> u64 {
        let device = Target::parse(DISK).unwrap().open(fs, true).unwrap();
        let options = SpeedOptions {
            read_only: true,
            ..SpeedOptions::default()
        };
        let disk = SpeedDisk::open(device, &options).unwrap();
        disk.log(number).map_or(0, |log| log.len())
    }
}

#[test]
fn a_page_that_fails_to_be_written_again_keeps_what_was_acknowledged() {
    for (class, keep) in [(OpClass::DeviceWrite, 3), (OpClass::DeviceWrite, 600)] {
        for is_synced in [false, true] {
            let world = World::new(0);
            let mut log = world.log(4);
            log.append(&[1; 700]).unwrap();
            world.fs.add(world.fail(class).short(keep));
            let failed = match is_synced {
                true => {
                    log.expect_sync();
                    log.append(&[2; 700]).and_then(|()| log.sync())
                }
                false => log.append(&[2; 700]),
            };
            failed.unwrap_err();
            assert_eq!(World::found(&world.mem.process_crash_clone(), 4), 700);
        }
    }
}

#[test]
fn a_log_that_gets_no_further_group_leaves_its_last_page_as_it_is() {
    let world = World::new(0);
    let mut log = world.log(4);
    let payload = 4096 - crate::page::PAGE_HEADER;
    let front = PAGES * payload - 100;
    log.append(&vec![1; front]).unwrap();
    world.fs.add(world.fail(OpClass::DeviceWrite));
    // It fills the page, and asks for a group after it.
    log.append(&[2; 500]).unwrap_err();
    let mut next = world.log(5);
    next.append(&[3; 100]).unwrap();
    next.sync().unwrap();
    let lost = world.mem.strict_clone();
    assert_eq!(World::found(&lost, 4), front as u64);
    assert_eq!(World::found(&lost, 5), 100);
}

#[test]
fn a_flush_that_fails_for_tables_is_no_matter_of_logs_that_are_durable() {
    let world = World::new(1 << 20);
    let mut log = world.log(4);
    log.append(&[1; 100]).unwrap();
    log.sync().unwrap();
    let top = world.disk.top().unwrap();
    let mut table = top.create("1.sst", Path::new("table")).unwrap();
    table.append(&[2; 8192]).unwrap();
    world.fs.add(world.fail(OpClass::DeviceFlush));
    table.sync().unwrap_err();
    log.append(&[1; 100]).unwrap();
    log.sync().unwrap();
    assert_eq!(World::found(&world.mem.strict_clone(), 4), 200);
    // One that has a page in the cache is told.
    log.append(&[1; 100]).unwrap();
    let mut table = top.create("2.sst", Path::new("table")).unwrap();
    table.append(&[2; 8192]).unwrap();
    world.fs.add(world.fail(OpClass::DeviceFlush));
    table.sync().unwrap_err();
    log.append(&vec![1; 9000]).unwrap();
    let e = log.sync().unwrap_err();
    assert!(e.to_string().contains("failed before"), "{e}");
}
