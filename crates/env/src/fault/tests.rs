use super::*;
use crate::MemFs;
use crate::device::Durability;

fn fault_fs() -> (MemFs, FaultFs) {
    let mem = MemFs::new();
    let fs = FaultFs::new(Arc::new(mem.clone()));
    (mem, fs)
}

fn create(fs: &FaultFs, name: &str) -> Box<dyn WritableFile> {
    fs.create(Path::new(name), IoActivity::Other).unwrap()
}

#[test]
fn the_nth_append_fails_once_in_the_systems_words_and_poisons_its_file() {
    let (mem, fs) = fault_fs();
    let rule = fs.add(FaultRule::fail(OpClass::Append, 2, libc::ENOSPC).short(3));
    let mut file = create(&fs, "/000010.log");
    file.append(b"first").unwrap();
    let e = file.append(b"second").unwrap_err();
    assert_eq!(
        e.to_string(),
        "IO error: No space left on device: While appending to file: /000010.log: \
         No space left on device"
    );
    assert_eq!(e.os_error(), Some(libc::ENOSPC));
    for result in [
        file.append(b"third"),
        file.sync(),
        file.write_back(0, 1),
        file.close(),
    ] {
        assert_eq!(result.unwrap_err().to_string(), e.to_string());
    }
    assert_eq!(file.len(), 5);
    assert_eq!(
        mem.read_file(Path::new("/000010.log")).unwrap(),
        b"firstsec"
    );
    assert_eq!(
        (fs.fired(rule), fs.fired_total(), fs.calls(OpClass::Append)),
        (1, 1, 2)
    );
    create(&fs, "/other").append(b"works").unwrap();
}

#[test]
fn a_failed_sync_leaves_the_bytes_pending_and_is_never_repeated() {
    let (mem, fs) = fault_fs();
    mem.write_file(Path::new("/f"), b"").unwrap();
    fs.add(FaultRule::fail(OpClass::Sync, 1, libc::EIO));
    let mut file = create(&fs, "/f");
    file.append(b"bytes").unwrap();
    let e = file.sync().unwrap_err();
    assert_eq!(
        e.to_string(),
        "IO error: While fdatasync: /f: Input/output error"
    );
    assert_eq!(file.sync().unwrap_err().os_error(), Some(libc::EIO));
    assert_eq!(fs.calls(OpClass::Sync), 1);
    assert_eq!(mem.strict_clone().read_file(Path::new("/f")).unwrap(), b"");
}

#[test]
fn rules_choose_by_path_and_last_as_long_as_they_are_told() {
    let (_, fs) = fault_fs();
    let twice = fs.add(
        FaultRule::fail(OpClass::Create, 2, libc::EMFILE)
            .times(2)
            .named(".sst"),
    );
    let create = |name: &str| fs.create(Path::new(name), IoActivity::Other).is_ok();
    assert!(create("/1.sst") && create("/1.log"));
    assert!(!create("/2.sst") && create("/2.log"));
    assert!(!create("/3.sst") && create("/4.sst"));
    assert_eq!(fs.fired(twice), 2);
    let always = fs.add(FaultRule::fail(OpClass::Create, 1, libc::EIO).forever());
    assert!(!create("/5.sst") && !create("/5.log") && !create("/6.log"));
    fs.remove(always);
    assert!(create("/7.log"));
    fs.add(FaultRule::fail(OpClass::Create, 1, libc::EIO).when(|path| path.starts_with("/d")));
    assert!(create("/8.log"));
    assert!(!create("/d/9.log"));
}

#[test]
fn every_class_fails_with_its_own_words() {
    let (mem, fs) = fault_fs();
    let f = Path::new("/f");
    mem.write_file(f, b"content").unwrap();
    let open = fs.open_random(f).unwrap();
    let mut sequential = fs.open_sequential(f).unwrap();
    let root = fs.open_dir(Path::new("/")).unwrap();
    let classes = [
        OpClass::Create,
        OpClass::Rename,
        OpClass::Delete,
        OpClass::Link,
        OpClass::Dir,
        OpClass::OpenDir,
        OpClass::SyncDir,
        OpClass::Lock,
        OpClass::Open,
        OpClass::Read,
        OpClass::List,
        OpClass::Stat,
    ];
    for class in classes {
        fs.add(FaultRule::fail(class, 1, libc::EIO).forever());
    }
    let to = Path::new("/to");
    let mut buf = [0; 4];
    let failed: Vec<String> = [
        fs.create(f, IoActivity::Other).map(drop),
        fs.rename(f, to),
        fs.delete(f),
        fs.link(f, to),
        fs.create_dir_if_missing(to),
        fs.delete_dir(to),
        fs.open_dir(Path::new("/")).map(drop),
        root.sync(),
        fs.lock(f).map(drop),
        fs.open_sequential(f).map(drop),
        fs.open_random(f).map(drop),
        open.read_at(2, &mut buf).map(drop),
        sequential.read(&mut buf).map(drop),
        fs.list(Path::new("/")).map(drop),
        fs.size(f).map(drop),
        fs.entry(f).map(drop),
        fs.modified(f).map(drop),
    ]
    .into_iter()
    .map(|result| {
        let shown = result.unwrap_err().to_string();
        shown
            .strip_prefix("IO error: ")
            .unwrap()
            .replace(": Input/output error", "")
    })
    .collect();
    let want = "While open a file for appending: /f|While renaming a file to /to: /f|\
        while unlink() file: /f|while link file to /to: /f|While mkdir if missing: /to|\
        file rmdir: /to|While open directory: /|While fsync: /|While lock file: /f|\
        While opening a file for sequentially reading: /f|While open a file for random read: /f|\
        While pread offset 2 len 4: /f|While reading file sequentially: /f|While opendir: /|\
        while stat a file for size: /f|while stat a file: /f|\
        while stat a file for modification time: /f";
    assert_eq!(failed.join("|"), want);
    fs.clear();
    assert_eq!(fs.list(Path::new("/")).unwrap(), ["f"]);
    assert_eq!(open.read_at(2, &mut buf).unwrap(), 4);
    root.sync().unwrap();
    assert_eq!(fs.fired_total(), 17);
}

#[test]
fn a_full_disk_takes_what_fits_and_works_again_with_space() {
    let (mem, fs) = fault_fs();
    fs.set_budget(Some(10));
    let mut a = create(&fs, "/a");
    let mut b = create(&fs, "/b");
    a.append(b"1234567").unwrap();
    assert_eq!(fs.free_space(Path::new("/")).unwrap(), 3);
    assert_eq!(
        b.append(b"abcdef").unwrap_err().os_error(),
        Some(libc::ENOSPC)
    );
    assert_eq!(mem.read_file(Path::new("/b")).unwrap(), b"abc");
    assert!(a.append(b"8").is_err());
    assert_eq!((fs.appended(), fs.fired_total()), (10, 2));
    fs.set_budget(None);
    assert!(a.append(b"8").is_err(), "a poisoned file stays so");
    create(&fs, "/c").append(b"works").unwrap();
}

#[test]
fn a_skipped_call_reports_success_and_does_nothing() {
    let (mem, fs) = fault_fs();
    let skip = |class| FaultRule::with_effect(class, 1, Effect::Skip);
    fs.add(skip(OpClass::Sync));
    fs.add(skip(OpClass::SyncDir).forever());
    fs.add(skip(OpClass::Delete));
    let mut file = create(&fs, "/f");
    file.append(b"x").unwrap();
    file.sync().unwrap();
    fs.sync_dir(Path::new("/")).unwrap();
    assert!(mem.strict_clone().list(Path::new("/")).unwrap().is_empty());
    mem.sync_dir(Path::new("/")).unwrap();
    assert_eq!(mem.strict_clone().read_file(Path::new("/f")).unwrap(), b"");
    file.sync().unwrap();
    assert_eq!(mem.strict_clone().read_file(Path::new("/f")).unwrap(), b"x");
    fs.delete(Path::new("/f")).unwrap();
    assert_eq!(fs.list(Path::new("/")).unwrap(), ["f"]);
}

#[test]
fn a_flipped_bit_is_wrong_once_and_right_when_read_again() {
    let (mem, fs) = fault_fs();
    let f = Path::new("/f");
    mem.write_file(f, &[0; 8]).unwrap();
    fs.add(FaultRule::with_effect(
        OpClass::Read,
        1,
        Effect::FlipBit { bit: 64 + 10 },
    ));
    let file = fs.open_random(f).unwrap();
    let mut buf = [0; 8];
    file.read_at(0, &mut buf).unwrap();
    assert_eq!(buf, [0, 4, 0, 0, 0, 0, 0, 0]);
    file.read_at(0, &mut buf).unwrap();
    assert_eq!(buf, [0; 8]);
}

#[test]
fn a_failed_close_counts_as_a_failed_sync() {
    let (_, fs) = fault_fs();
    fs.add(FaultRule::fail(OpClass::Close, 1, libc::EIO));
    let mut file = create(&fs, "/f");
    let e = file.close().unwrap_err();
    assert_eq!(
        e.to_string(),
        "IO error: While closing file after writing: /f: Input/output error"
    );
    assert_eq!(file.sync().unwrap_err().to_string(), e.to_string());
}

#[test]
fn calls_of_a_device_fail_by_plan_and_a_short_write_leaves_its_front() {
    let (mem, fs) = fault_fs();
    let path = Path::new("/disk");
    mem.make_device(path, 1 << 16).unwrap();
    let access = DeviceAccess::Write { offset: 0, len: 0 };
    fs.add(FaultRule::fail(OpClass::DeviceOpen, 1, libc::ENODEV));
    let opened = fs.open_device(path, access).map(drop).unwrap_err();
    let device = fs.open_device(path, access).unwrap();
    device.write_at(0, &[1; 8], Durability::Durable).unwrap();
    fs.add(FaultRule::fail(OpClass::DeviceWrite, 1, libc::ENOSPC).short(3));
    let written = device.write_at(0, &[2; 8], Durability::Durable);
    fs.add(FaultRule::fail(OpClass::DeviceRead, 1, libc::EIO));
    let mut buf = [0; 8];
    let read = device.read_at(0, &mut buf);
    fs.add(FaultRule::fail(OpClass::DeviceFlush, 1, libc::EIO));
    let flushed = device.flush();
    for (failed, begin) in [
        (Err(opened), "IO error: While opening a speed disk: /disk: "),
        (
            written,
            "IO error: No space left on device: While writing a speed disk: /disk: ",
        ),
        (read, "IO error: While reading a speed disk: /disk: "),
        (flushed, "IO error: While flushing a speed disk: /disk: "),
    ] {
        let text = failed.unwrap_err().to_string();
        assert!(text.starts_with(begin), "{text}");
    }
    device.read_at(0, &mut buf).unwrap();
    assert_eq!(buf, [2, 2, 2, 1, 1, 1, 1, 1]);
    fs.add(FaultRule::with_effect(
        OpClass::DeviceRead,
        1,
        Effect::FlipBit { bit: 8 },
    ));
    device.read_at(0, &mut buf).unwrap();
    assert_eq!(buf, [2, 3, 2, 1, 1, 1, 1, 1]);
    fs.add(FaultRule::with_effect(
        OpClass::DeviceFlush,
        1,
        Effect::Skip,
    ));
    device.write_at(0, &[4; 8], Durability::Cached).unwrap();
    device.flush().unwrap();
    let lost = mem.strict_clone();
    let access = DeviceAccess::Read;
    lost.open_device(path, access)
        .unwrap()
        .read_at(0, &mut buf)
        .unwrap();
    assert_eq!(buf[0], 2);
    assert_eq!((fs.fired_total(), fs.calls(OpClass::DeviceFlush)), (6, 2));
}
