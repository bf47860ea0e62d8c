//! Tests of the file system: it is one, and its calls take what the device takes.

use super::*;
use crate::mem::MemFs;
use crate::{FaultFs, FaultRule, OpClass, VirtualClock, conformance};

fn device(text: &str, clock: &Arc<VirtualClock>) -> Arc<Emulator> {
    Emulator::new(text.parse().unwrap(), clock.clone())
}

fn memory(text: &str) -> (DeviceFs, Arc<VirtualClock>) {
    let clock = Arc::new(VirtualClock::new());
    let files = device(text, &clock);
    let inner = Arc::new(MemFs::new());
    inner.create_dir_if_missing(Path::new("/db")).unwrap();
    (DeviceFs::new(inner, Some(files), None), clock)
}

fn took(clock: &VirtualClock, call: impl FnOnce()) -> u64 {
    let begun = clock.monotonic_nanos();
    call();
    clock.monotonic_nanos() - begun
}

#[test]
fn it_is_a_file_system() {
    for spec in ["S", "O:cache=0", "H:cache=8k"] {
        let (fs, _) = memory(spec);
        conformance::run(&fs, Path::new("/db"));
    }
    // With nothing emulated it is the one below.
    let inner = Arc::new(MemFs::new());
    inner.create_dir_if_missing(Path::new("/db")).unwrap();
    conformance::run(&DeviceFs::new(inner, None, None), Path::new("/db"));
}

#[test]
fn calls_take_what_the_device_takes() {
    let (fs, clock) = memory("S:cache=1m");
    let path = Path::new("/db/000004.log");
    let mut file = fs.create(path, IoActivity::Wal).unwrap();
    let appended = took(&clock, || file.append(&[7; 100]).unwrap());
    let synced = took(&clock, || file.sync().unwrap());
    assert_eq!((appended, synced), (0, 37_000 + 112_850 + 400_000));
    assert_eq!(
        took(&clock, || fs.sync_dir(Path::new("/db")).unwrap()),
        112_850 + 400_000
    );
    file.append(&vec![7; 4 << 20]).unwrap();
    file.sync().unwrap();
    file.close().unwrap();
    let random = fs.open_random(path).unwrap();
    let read = |offset, len: usize| {
        took(&clock, || {
            let mut buf = vec![0; len];
            assert_eq!(random.read_at(offset, &mut buf).unwrap(), len);
        })
    };
    // The end is still cached, the front is not.
    assert_eq!(
        (read((4 << 20) - 4096, 4096), read(0, 4096), read(0, 4096)),
        (0, 36_000, 0)
    );
    // From there on it is read from front to back: 128 KiB at once.
    let ahead = read(4096, 4096);
    assert!(ahead > 36_000 && read(8192, 100_000) == 0, "{ahead}");
    let mut stream = fs.open_sequential(path).unwrap();
    let mut buf = [0; 1000];
    assert_eq!(
        took(&clock, || {
            stream.read(&mut buf).unwrap();
        }),
        0
    );
    let usage = fs.files().unwrap().usage();
    assert_eq!((usage.reads, usage.read_bytes), (2, 4096 + 131_072));
    assert!(
        usage.write_bytes >= (4 << 20) && usage.cached_reads >= 3,
        "{usage:?}"
    );
}

#[test]
fn a_large_transfer_takes_the_time_of_the_bandwidth() {
    for name in ["H", "S", "N1", "N2", "O", "H-RAID5", "S-RAID5"] {
        let (fs, clock) = memory(&format!("{name}:cache=0"));
        let path = Path::new("/db/000004.sst");
        let mut file = fs.create(path, IoActivity::Flush).unwrap();
        let data = vec![1; 32 << 20];
        let written = took(&clock, || file.append(&data).unwrap());
        let profile = crate::emulated::Profile::by_name(name).unwrap();
        let expected = data.len() as f64 / profile.write_bandwidth as f64 * 1e9;
        assert!(
            (written as f64 / expected - 1.0).abs() < 0.06,
            "{name}: {written} {expected}"
        );
        let random = fs.open_random(path).unwrap();
        let mut back = vec![0; data.len()];
        let read = took(&clock, || {
            assert_eq!(random.read_at(0, &mut back).unwrap(), back.len())
        });
        let expected = data.len() as f64 / profile.read_bandwidth as f64 * 1e9;
        assert!(
            (read as f64 / expected - 1.0).abs() < 0.06,
            "{name}: {read} {expected}"
        );
    }
}

#[test]
fn a_speed_disk_lies_on_a_device_of_its_own() {
    let clock = Arc::new(VirtualClock::new());
    let inner = Arc::new(MemFs::new());
    inner.make_device(Path::new("/disk"), 1 << 20).unwrap();
    let disks = device("O", &clock);
    let fs = DeviceFs::new(inner, None, Some(disks.clone()));
    let access = DeviceAccess::Write { offset: 0, len: 0 };
    let disk = fs.open_device(Path::new("/disk"), access).unwrap();
    let write = || disk.write_at(0, &[1; 4096], Durability::Durable).unwrap();
    assert_eq!(took(&clock, write), 10_000);
    assert_eq!(took(&clock, || disk.flush().unwrap()), 0);
    let mut back = [0; 4096];
    assert_eq!(took(&clock, || disk.read_at(0, &mut back).unwrap()), 10_000);
    assert_eq!(back, [1; 4096]);
}

#[test]
fn a_directory_may_be_on_another_device() {
    let (fs, clock) = memory("S");
    let logs = Path::new("/db/logs");
    let fs = fs.with_directory(logs, device("O", &clock));
    fs.create_dir_if_missing(logs).unwrap();
    let (log, table) = (logs.join("4.log"), Path::new("/db/4.sst"));
    let synced = |path: &Path| {
        let mut file = fs.create(path, IoActivity::Wal).unwrap();
        file.append(b"x").unwrap();
        took(&clock, || file.sync().unwrap())
    };
    assert_eq!((synced(&log), synced(table)), (40_500, 549_850));
    assert_eq!(took(&clock, || fs.sync_dir(logs).unwrap()), 30_500);
    fs.rename(&log, Path::new("/db/5.log")).unwrap();
    assert_eq!(fs.read_all(Path::new("/db/5.log"), 10).unwrap(), b"x");
    fs.delete(Path::new("/db/5.log")).unwrap();
    // Another file of that name is not the one that was there.
    assert_eq!(synced(&log), 40_500);
}

#[test]
fn faults_and_losses_are_those_of_the_file_system_below() {
    let clock = Arc::new(VirtualClock::new());
    let memory = MemFs::new();
    let faults = Arc::new(FaultFs::new(Arc::new(memory.clone())));
    let fs = DeviceFs::new(faults.clone(), Some(device("S", &clock)), None);
    let (path, lost) = (Path::new("/f"), Path::new("/lost"));
    let mut file = fs.create(path, IoActivity::Wal).unwrap();
    fs.sync_dir(Path::new("/")).unwrap();
    file.append(b"synced").unwrap();
    file.sync().unwrap();
    file.append(b" and not").unwrap();
    faults.add(FaultRule::fail(OpClass::Sync, 1, 5));
    let failed = took(&clock, || {
        file.sync().unwrap_err();
    });
    // A call that failed below takes no time here.
    assert_eq!(failed, 0);
    fs.create(lost, IoActivity::Wal).unwrap();
    let after = memory.strict_clone();
    assert_eq!(after.read_file(path).unwrap(), b"synced");
    assert!(after.read_file(lost).is_err());
}

#[test]
fn syncs_below_are_left_out_on_demand() {
    let clock = Arc::new(VirtualClock::new());
    let memory = MemFs::new();
    let fs = DeviceFs::new(Arc::new(memory.clone()), Some(device("O", &clock)), None);
    let fs = fs.without_syncs();
    let path = Path::new("/f");
    let mut file = fs.create(path, IoActivity::Wal).unwrap();
    fs.sync_dir(Path::new("/")).unwrap();
    file.append(b"x").unwrap();
    assert_eq!(took(&clock, || file.sync().unwrap()), 10_000 + 30_500);
    assert!(memory.strict_clone().read_file(path).is_err());
    assert_eq!(memory.process_crash_clone().read_file(path).unwrap(), b"x");
    file.close().unwrap();
    // A closed file refuses syncs all the same.
    file.sync().unwrap_err();
}
