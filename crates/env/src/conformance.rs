//! Describes what every file system must do, as a suite that runs on any of them.
//!
//! [`run`] takes a file system and an existing empty directory, gives each case a directory of its own,
//! and panics with the case's name where a promise of [`crate::traits`] is broken. Error texts are
//! part of the promise, because clients match on them.

use crate::traits::{Access, EntryKind, FileSystem, IoActivity, OpenHow, ReadRequest};
use spanlith_base::{ErrorKind, Result, SubCode};
use std::path::Path;

type Case = (&'static str, fn(&dyn FileSystem, &Path));

/// The cases, by name.
pub const CASES: &[Case] = &[
    (
        "missing files are named in the words of RocksDB",
        missing_files,
    ),
    (
        "appended bytes are read back, in order and at any offset",
        reading,
    ),
    ("creating an existing file empties it", creating),
    ("a closed file refuses appends and syncs for good", closing),
    ("reserved space does not show in the size", reserving),
    ("a rename replaces its target and nothing else", renaming),
    ("an open file outlives its name", deleting),
    ("two names of a file are one file", linking),
    (
        "directories are created once, listed sorted, deleted empty",
        directories,
    ),
    (
        "a directory with files can be renamed",
        renaming_directories,
    ),
    (
        "an open directory is synced wherever it is",
        open_directories,
    ),
    ("a directory is not a file", directory_as_file),
    ("a lock is given to one at a time", locking),
    ("a small file is read whole up to a limit", reading_all),
    ("many threads read one file", parallel_reading),
    ("places are absolute and have space", places),
    (
        "several reads are made at once, each with its result",
        reading_many,
    ),
    (
        "a reopened file is appended to after what is there",
        reopening,
    ),
    (
        "a file written again from its front keeps what comes after",
        overwriting,
    ),
    (
        "bytes in the middle of a reopened file are written over",
        writing_over,
    ),
    ("a file that is written can be cut and extended", truncating),
    (
        "direct files hold what was written, at any alignment",
        direct,
    ),
];

/// Runs all cases on `fs` below the existing directory `root`.
///
/// # Panics
/// If a promise is broken.
pub fn run(fs: &dyn FileSystem, root: &Path) {
    for (number, (name, case)) in CASES.iter().enumerate() {
        let dir = root.join(format!("case{number:02}"));
        fs.create_dir_if_missing(&dir)
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        let shown = std::panic::AssertUnwindSafe(|| case(fs, &dir));
        if let Err(panic) = std::panic::catch_unwind(shown) {
            eprintln!("broken promise: {name}");
            std::panic::resume_unwind(panic);
        }
    }
}

fn put(fs: &dyn FileSystem, path: &Path, bytes: &[u8]) {
    let mut file = fs.create(path, IoActivity::Other).unwrap();
    file.append(bytes).unwrap();
    file.sync().unwrap();
    file.close().unwrap();
}

fn get(fs: &dyn FileSystem, path: &Path) -> Vec<u8> {
    fs.read_all(path, u64::MAX).unwrap()
}

fn text<T>(result: Result<T>) -> String {
    match result {
        Ok(_) => "Ok".into(),
        Err(e) => e.to_string(),
    }
}

fn missing_files(fs: &dyn FileSystem, dir: &Path) {
    let path = dir.join("CURRENT");
    let check = |got: String, context: &str, path: &Path| {
        let enoent = "No such file or directory";
        assert_eq!(
            got,
            format!(
                "IO error: {enoent}: {context}: {}: {enoent}",
                path.display()
            )
        );
    };
    let sequential = fs.open_sequential(&path).map(drop);
    assert_eq!(sequential.as_ref().unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(
        sequential.as_ref().unwrap_err().subcode(),
        Some(SubCode::PathNotFound)
    );
    assert_eq!(
        sequential.as_ref().unwrap_err().os_error(),
        Some(libc::ENOENT)
    );
    check(
        text(sequential),
        "While opening a file for sequentially reading",
        &path,
    );
    check(
        text(fs.open_random(&path)),
        "While open a file for random read",
        &path,
    );
    check(text(fs.size(&path)), "while stat a file for size", &path);
    check(
        text(fs.modified(&path)),
        "while stat a file for modification time",
        &path,
    );
    check(text(fs.delete(&path)), "while unlink() file", &path);
    check(text(fs.list(&path)), "While opendir", &path);
    check(text(fs.sync_dir(&path)), "While open directory", &path);
    check(text(fs.delete_dir(&path)), "file rmdir", &path);
    let to = dir.join("to");
    let context = format!("While renaming a file to {}", to.display());
    check(text(fs.rename(&path, &to)), &context, &path);
    let context = format!("while link file to {}", to.display());
    check(text(fs.link(&path, &to)), &context, &path);
    let below = dir.join("no/such");
    check(
        text(fs.create(&below, IoActivity::Wal)),
        "While open a file for appending",
        &below,
    );
    check(
        text(fs.create_dir_if_missing(&below)),
        "While mkdir if missing",
        &below,
    );
    check(text(fs.lock(&below)), "while open a file for lock", &below);
    assert_eq!(fs.entry(&path).unwrap(), None);
    assert_eq!(fs.entry(&below).unwrap(), None);
}

fn reading(fs: &dyn FileSystem, dir: &Path) {
    let path = dir.join("f");
    let big: Vec<u8> = (0..300_000u32).map(|i| (i % 251) as u8).collect();
    let mut file = fs.create(&path, IoActivity::Flush).unwrap();
    assert!(file.is_empty());
    for piece in [&b"abc"[..], b"", b"defgh", &big] {
        file.append(piece).unwrap();
    }
    assert_eq!(file.len(), 8 + big.len() as u64);
    assert_eq!(file.path(), path);
    // Not buffered: others see the bytes before any sync.
    assert_eq!(fs.size(&path).unwrap(), 8 + big.len() as u64);
    file.write_back(0, 8).unwrap();
    file.sync().unwrap();
    file.close().unwrap();
    let all = get(fs, &path);
    assert_eq!(&all[..8], b"abcdefgh");
    assert!(all[8..] == big);

    let random = fs.open_random(&path).unwrap();
    assert_eq!(random.size(), all.len() as u64);
    assert_eq!(random.path(), path);
    random.read_ahead(0, 100);
    for (offset, len) in [
        (0, 3),
        (1, 5),
        (2, 7),
        (7, 1),
        (3, 100_000),
        (all.len() - 4, 4),
    ] {
        let mut buf = vec![0; len];
        assert_eq!(random.read_at(offset as u64, &mut buf).unwrap(), len);
        assert!(buf == all[offset..offset + len], "{offset} {len}");
    }
    let mut buf = [9; 10];
    assert_eq!(random.read_at(all.len() as u64 - 4, &mut buf).unwrap(), 4);
    assert_eq!(&buf[..4], &all[all.len() - 4..]);
    assert_eq!(random.read_at(all.len() as u64, &mut buf).unwrap(), 0);
    assert_eq!(random.read_at(1 << 40, &mut buf).unwrap(), 0);
    assert_eq!(random.read_at(0, &mut []).unwrap(), 0);
}

fn creating(fs: &dyn FileSystem, dir: &Path) {
    let path = dir.join("f");
    put(fs, &path, b"a long first version");
    put(fs, &path, b"second");
    assert_eq!(get(fs, &path), b"second");
    assert_eq!(fs.list(dir).unwrap(), ["f"]);
}

fn closing(fs: &dyn FileSystem, dir: &Path) {
    let path = dir.join("f");
    let mut file = fs.create(&path, IoActivity::Other).unwrap();
    file.append(b"x").unwrap();
    file.close().unwrap();
    file.close().unwrap();
    let first = text(file.append(b"y"));
    let want = format!(
        "IO error: While appending to file: {}: Bad file descriptor",
        path.display()
    );
    assert_eq!(first, want);
    assert_eq!(text(file.sync()), want);
    assert_eq!(text(file.close()), want);
    assert_eq!(file.len(), 1);
    assert_eq!(get(fs, &path), b"x");
}

fn reserving(fs: &dyn FileSystem, dir: &Path) {
    let path = dir.join("f");
    let mut file = fs.create(&path, IoActivity::Wal).unwrap();
    file.preallocate(1 << 20);
    file.append(b"1234").unwrap();
    assert_eq!(fs.size(&path).unwrap(), 4);
    file.sync().unwrap();
    file.close().unwrap();
    assert_eq!(get(fs, &path), b"1234");
}

fn renaming(fs: &dyn FileSystem, dir: &Path) {
    let (a, b) = (dir.join("a"), dir.join("b"));
    put(fs, &a, b"new");
    put(fs, &b, b"old");
    let reader = fs.open_random(&b).unwrap();
    fs.rename(&a, &b).unwrap();
    fs.sync_dir(dir).unwrap();
    assert_eq!(fs.list(dir).unwrap(), ["b"]);
    assert_eq!(get(fs, &b), b"new");
    let mut buf = [0; 3];
    assert_eq!(reader.read_at(0, &mut buf).unwrap(), 3);
    assert_eq!(&buf, b"old");
    fs.rename(&b, &b).unwrap();
    assert_eq!(get(fs, &b), b"new");
    let inner = dir.join("d");
    fs.create_dir_if_missing(&inner).unwrap();
    fs.rename(&b, &inner.join("c")).unwrap();
    assert_eq!(fs.list(dir).unwrap(), ["d"]);
    assert_eq!(get(fs, &inner.join("c")), b"new");
    put(fs, &a, b"file");
    assert_eq!(
        fs.rename(&a, &inner).unwrap_err().os_error(),
        Some(libc::EISDIR)
    );
}

fn deleting(fs: &dyn FileSystem, dir: &Path) {
    let path = dir.join("f");
    put(fs, &path, b"content");
    let random = fs.open_random(&path).unwrap();
    let mut writer = fs.create(&dir.join("w"), IoActivity::Other).unwrap();
    fs.delete(&path).unwrap();
    fs.delete(&dir.join("w")).unwrap();
    assert_eq!(fs.list(dir).unwrap(), Vec::<String>::new());
    assert_eq!(fs.entry(&path).unwrap(), None);
    let mut buf = [0; 7];
    assert_eq!(random.read_at(0, &mut buf).unwrap(), 7);
    assert_eq!(&buf, b"content");
    writer.append(b"into nothing").unwrap();
    writer.sync().unwrap();
    writer.close().unwrap();
    put(fs, &path, b"next");
    assert_eq!(get(fs, &path), b"next");
}

fn linking(fs: &dyn FileSystem, dir: &Path) {
    let (a, b) = (dir.join("a"), dir.join("b"));
    let mut file = fs.create(&a, IoActivity::Other).unwrap();
    file.append(b"one").unwrap();
    assert_eq!(fs.link_count(&a).unwrap(), 1);
    fs.link(&a, &b).unwrap();
    assert_eq!(fs.link_count(&b).unwrap(), 2);
    file.append(b"two").unwrap();
    file.close().unwrap();
    assert_eq!(get(fs, &b), b"onetwo");
    assert_eq!(fs.link(&a, &b).unwrap_err().os_error(), Some(libc::EEXIST));
    fs.delete(&a).unwrap();
    assert_eq!(get(fs, &b), b"onetwo");
    assert_eq!(fs.link_count(&b).unwrap(), 1);
    assert!(fs.link_count(&a).is_err());
}

fn directories(fs: &dyn FileSystem, dir: &Path) {
    let inner = dir.join("inner");
    fs.create_dir_if_missing(&inner).unwrap();
    fs.create_dir_if_missing(&inner).unwrap();
    fs.sync_dir(dir).unwrap();
    for name in ["b", "a", "000010.log", "000009.sst"] {
        put(fs, &inner.join(name), b"");
    }
    assert_eq!(
        fs.list(&inner).unwrap(),
        ["000009.sst", "000010.log", "a", "b"]
    );
    assert_eq!(fs.entry(&inner).unwrap(), Some(EntryKind::Dir));
    assert_eq!(fs.entry(&inner.join("a")).unwrap(), Some(EntryKind::File));
    assert_eq!(
        fs.delete_dir(&inner).unwrap_err().os_error(),
        Some(libc::ENOTEMPTY)
    );
    for name in fs.list(&inner).unwrap() {
        fs.delete(&inner.join(name)).unwrap();
    }
    fs.delete_dir(&inner).unwrap();
    assert_eq!(fs.entry(&inner).unwrap(), None);

    let file = dir.join("file");
    put(fs, &file, b"x");
    assert_eq!(
        text(fs.create_dir_if_missing(&file)),
        format!(
            "IO error: `{}' exists but is not a directory",
            file.display()
        )
    );
    assert_eq!(fs.list(&file).unwrap_err().os_error(), Some(libc::ENOTDIR));
    assert_eq!(
        fs.delete_dir(&file).unwrap_err().os_error(),
        Some(libc::ENOTDIR)
    );
    let below = file.join("below");
    assert_eq!(fs.size(&below).unwrap_err().os_error(), Some(libc::ENOTDIR));
    assert_eq!(fs.entry(&below).unwrap(), None);
}

fn open_directories(fs: &dyn FileSystem, dir: &Path) {
    let (old, new) = (dir.join("old"), dir.join("new"));
    fs.create_dir_if_missing(&old).unwrap();
    let open = fs.open_dir(&old).unwrap();
    open.sync().unwrap();
    fs.rename(&old, &new).unwrap();
    let file = new.join("f");
    put(fs, &file, b"x");
    open.sync().unwrap();
    assert_eq!(
        text(fs.open_dir(&file)),
        format!(
            "IO error: While open directory: {}: Not a directory",
            file.display()
        )
    );
    fs.delete(&file).unwrap();
    fs.delete_dir(&new).unwrap();
    open.sync().unwrap();
    assert!(fs.open_dir(&new).is_err());
}

fn renaming_directories(fs: &dyn FileSystem, dir: &Path) {
    let (temporary, made) = (dir.join("c.tmp"), dir.join("c"));
    fs.create_dir_if_missing(&temporary).unwrap();
    put(fs, &temporary.join("f"), b"content");
    fs.rename(&temporary, &made).unwrap();
    assert_eq!(fs.list(dir).unwrap(), ["c"]);
    assert_eq!(get(fs, &made.join("f")), b"content");
    let inside = made.join("deeper");
    assert_eq!(
        fs.rename(&made, &inside).unwrap_err().os_error(),
        Some(libc::EINVAL)
    );
    fs.create_dir_if_missing(&temporary).unwrap();
    assert_eq!(
        fs.rename(&temporary, &made).unwrap_err().os_error(),
        Some(libc::ENOTEMPTY)
    );
    fs.rename(&made, &temporary).unwrap();
    assert_eq!(get(fs, &temporary.join("f")), b"content");
}

fn directory_as_file(fs: &dyn FileSystem, dir: &Path) {
    assert_eq!(
        fs.open_sequential(dir).err().unwrap().os_error(),
        Some(libc::EISDIR)
    );
    assert_eq!(
        fs.open_random(dir).err().unwrap().os_error(),
        Some(libc::EISDIR)
    );
    let create = fs.create(dir, IoActivity::Other).err().unwrap();
    assert_eq!(create.os_error(), Some(libc::EISDIR));
    assert!(fs.delete(dir).is_err());
    assert_eq!(fs.entry(dir).unwrap(), Some(EntryKind::Dir));
}

fn locking(fs: &dyn FileSystem, dir: &Path) {
    let path = dir.join("LOCK");
    let held = fs.lock(&path).unwrap();
    assert_eq!(fs.list(dir).unwrap(), ["LOCK"]);
    assert_eq!(fs.size(&path).unwrap(), 0);
    for spelling in [path.clone(), dir.join(".").join("LOCK")] {
        let e = fs.lock(&spelling).err().unwrap();
        assert_eq!(e.kind(), ErrorKind::Io);
        assert_eq!(e.subcode(), Some(SubCode::LockHeld));
        let shown = e.to_string();
        let start = "IO error: lock hold by current process, acquire time ";
        assert!(shown.starts_with(start), "{shown}");
        let end = format!(": {}: No locks available", spelling.display());
        let middle = shown[start.len()..]
            .strip_suffix(&end)
            .unwrap_or_else(|| panic!("{shown}"));
        let (time, thread) = middle.split_once(" acquiring thread ").unwrap();
        assert!(
            time.parse::<u64>().is_ok() && thread.parse::<u64>().is_ok(),
            "{shown}"
        );
    }
    let other = fs.lock(&dir.join("LOCK2")).unwrap();
    drop(held);
    let again = fs.lock(&path).unwrap();
    drop((again, other));
    assert_eq!(fs.list(dir).unwrap(), ["LOCK", "LOCK2"]);
}

fn reading_all(fs: &dyn FileSystem, dir: &Path) {
    let path = dir.join("f");
    put(fs, &path, &[7; 10_000]);
    assert_eq!(fs.read_all(&path, 10_000).unwrap(), [7; 10_000]);
    let e = fs.read_all(&path, 9_999).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Corruption);
    assert_eq!(e.path(), Some(&*path));
}

fn parallel_reading(fs: &dyn FileSystem, dir: &Path) {
    let path = dir.join("f");
    let bytes: Vec<u8> = (0..64_000u32).flat_map(|i| i.to_le_bytes()).collect();
    put(fs, &path, &bytes);
    let file = fs.open_random(&path).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4u32 {
            let (file, bytes) = (&file, &bytes);
            scope.spawn(move || {
                for step in 0..200u32 {
                    let at = ((thread * 7919 + step * 104_729) % 60_000) as usize * 4;
                    let mut buf = [0; 400];
                    assert_eq!(file.read_at(at as u64, &mut buf).unwrap(), 400);
                    assert!(buf == bytes[at..at + 400]);
                }
            });
        }
    });
}

fn reading_many(fs: &dyn FileSystem, dir: &Path) {
    let path = dir.join("f");
    let bytes: Vec<u8> = (0..50_000u32).flat_map(|i| i.to_le_bytes()).collect();
    put(fs, &path, &bytes);
    let file = fs.open_random(&path).unwrap();
    for access in [
        Access::Random,
        Access::Sequential,
        Access::NotNeeded,
        Access::Normal,
    ] {
        file.advise(access);
    }
    // More than fit into one group; overlapping, empty, past the end.
    let places: Vec<(u64, usize)> = (0..150u64)
        .map(|i| (i * 1327, (i as usize * 37) % 3000))
        .chain([
            (0, 200_000),
            (199_990, 100),
            (200_000, 10),
            (1 << 40, 10),
            (5, 0),
        ])
        .collect();
    for count in [0, 1, 2, places.len()] {
        let places = &places[places.len() - count..];
        let mut bufs: Vec<Vec<u8>> = places.iter().map(|(_, len)| vec![1; *len]).collect();
        let mut requests: Vec<ReadRequest<'_>> = places
            .iter()
            .zip(&mut bufs)
            .map(|((offset, _), buf)| ReadRequest::new(*offset, buf))
            .collect();
        file.read_many(&mut requests);
        for (request, (offset, len)) in requests.iter().zip(places) {
            let from = (*offset).min(bytes.len() as u64) as usize;
            let want = &bytes[from..(from + len).min(bytes.len())];
            assert_eq!(
                *request.result.as_ref().unwrap(),
                want.len(),
                "{offset} {len}"
            );
            assert!(request.buf[..want.len()] == *want, "{offset} {len}");
        }
    }
}

fn reopening(fs: &dyn FileSystem, dir: &Path) {
    let path = dir.join("f");
    let mut file = fs.reopen(&path, IoActivity::Manifest).unwrap();
    assert_eq!(file.len(), 0);
    file.append(b"one").unwrap();
    file.close().unwrap();
    let mut file = fs.reopen(&path, IoActivity::Manifest).unwrap();
    assert_eq!((file.len(), file.path()), (3, &*path));
    file.append(b"two").unwrap();
    assert_eq!(file.len(), 6);
    file.sync().unwrap();
    file.close().unwrap();
    assert_eq!(get(fs, &path), b"onetwo");
    assert_eq!(
        fs.reopen(dir, IoActivity::Other).err().unwrap().os_error(),
        Some(libc::EISDIR)
    );
    assert!(fs.reopen(&dir.join("no/such"), IoActivity::Other).is_err());
}

fn overwriting(fs: &dyn FileSystem, dir: &Path) {
    let path = dir.join("f");
    put(fs, &path, b"0123456789");
    let mut file = fs.overwrite(&path, IoActivity::Wal).unwrap();
    assert_eq!((file.len(), file.path()), (0, &*path));
    file.append(b"ab").unwrap();
    file.append(b"c").unwrap();
    assert_eq!(file.len(), 3);
    assert_eq!(get(fs, &path), b"abc3456789");
    file.sync().unwrap();
    file.close().unwrap();
    assert_eq!(get(fs, &path), b"abc3456789");
    let mut file = fs.overwrite(&path, IoActivity::Wal).unwrap();
    file.append(b"longer than before").unwrap();
    file.close().unwrap();
    assert_eq!(get(fs, &path), b"longer than before");
    let mut file = fs.reopen(&path, IoActivity::Wal).unwrap();
    file.append(b"!").unwrap();
    file.close().unwrap();
    assert_eq!(get(fs, &path), b"longer than before!");
    let missing = fs.overwrite(&dir.join("missing"), IoActivity::Wal);
    assert_eq!(missing.err().unwrap().os_error(), Some(libc::ENOENT));
    assert!(fs.overwrite(dir, IoActivity::Wal).is_err());
}

fn writing_over(fs: &dyn FileSystem, dir: &Path) {
    let path = dir.join("f");
    put(fs, &path, b"0123456789");
    let mut file = fs.reopen(&path, IoActivity::Other).unwrap();
    match file.write_over(2, b"ab") {
        Err(e) => {
            // A file system may have no such files; then nothing has happened.
            assert_eq!(e.kind(), spanlith_base::ErrorKind::NotSupported);
            assert_eq!(get(fs, &path), b"0123456789");
        }
        Ok(()) => {
            file.append(b"x").unwrap();
            file.write_over(0, b"").unwrap();
            file.write_over(8, b"yz").unwrap();
            assert_eq!(file.len(), 11);
            file.sync().unwrap();
            file.close().unwrap();
            assert_eq!(get(fs, &path), b"01ab4567yzx");
        }
    }
}

fn truncating(fs: &dyn FileSystem, dir: &Path) {
    let path = dir.join("f");
    let mut file = fs.create(&path, IoActivity::Wal).unwrap();
    file.append(b"abcdef").unwrap();
    file.append(b"ghi").unwrap();
    file.truncate(7).unwrap();
    assert_eq!((file.len(), get(fs, &path)), (7, b"abcdefg".to_vec()));
    file.append(b"X").unwrap();
    file.truncate(10).unwrap();
    file.write_back_strictly(0, 8).unwrap();
    file.append(b"Y").unwrap();
    file.sync().unwrap();
    assert_eq!(get(fs, &path), b"abcdefgX\0\0Y");
    file.truncate(0).unwrap();
    file.append(b"Z").unwrap();
    file.close().unwrap();
    assert_eq!(get(fs, &path), b"Z");
    assert_eq!(
        text(file.truncate(0)),
        format!(
            "IO error: While ftruncate file to size 0: {}: Bad file descriptor",
            path.display()
        )
    );
}

fn direct(fs: &dyn FileSystem, dir: &Path) {
    let path = dir.join("f");
    put(fs, &path, b"probe");
    let how = OpenHow { is_direct: true };
    if let Err(e) = fs.check_direct(&path) {
        // A file system without direct I/O: the open says what is wrong.
        assert_eq!(
            e.to_string(),
            "Invalid argument: Direct I/O is not supported by the specified DB."
        );
        let e = fs.open_random_how(&path, how).err().unwrap();
        assert_eq!(e.os_error(), Some(libc::EINVAL));
        return;
    }
    assert_eq!(
        text(fs.check_direct(&dir.join("missing")))
            .split(':')
            .next()
            .unwrap(),
        "Invalid argument"
    );
    let bytes: Vec<u8> = (0..700_001u32).flat_map(|i| i.to_le_bytes()).collect();
    let mut file = fs.create_how(&path, IoActivity::Flush, how).unwrap();
    let mut at = 0;
    for (step, len) in [1, 4095, 4096, 100_000, 1 << 20, 7, 8192, 1 << 21]
        .into_iter()
        .enumerate()
    {
        let end = (at + len).min(bytes.len());
        file.append(&bytes[at..end]).unwrap();
        at = end;
        assert_eq!(file.len(), at as u64);
        if step % 2 == 1 {
            // Synced bytes are there, and appends go on after them.
            file.sync().unwrap();
            assert_eq!(fs.size(&path).unwrap(), at as u64);
            assert!(get(fs, &path) == bytes[..at], "{step}");
        }
    }
    assert_eq!(at, bytes.len());
    file.close().unwrap();
    assert!(get(fs, &path) == bytes);
    assert!(file.append(b"x").is_err());

    let reader = fs.open_random_how(&path, how).unwrap();
    assert_eq!(reader.size(), bytes.len() as u64);
    let mut buf = vec![0; 3 << 20];
    for (offset, len) in [
        (0, 4096),
        (0, 10),
        (4096, 8192),
        (4095, 2),
        (12_345, 100_000),
        (0, 3 << 20),
        (2_800_000, 4096),
    ] {
        let want = &bytes[offset..(offset + len).min(bytes.len())];
        assert_eq!(
            reader.read_at(offset as u64, &mut buf[..len]).unwrap(),
            want.len()
        );
        assert!(buf[..want.len()] == *want, "{offset} {len}");
    }
    assert_eq!(
        reader.read_at(bytes.len() as u64, &mut buf[..10]).unwrap(),
        0
    );
    assert_eq!(reader.read_at(1 << 50, &mut buf[..10]).unwrap(), 0);

    let mut file = fs.create_how(&path, IoActivity::Flush, how).unwrap();
    file.append(&bytes[..10_000]).unwrap();
    file.truncate(9_000).unwrap();
    file.append(&bytes[9_000..9_100]).unwrap();
    file.truncate(8_192).unwrap();
    file.append(&bytes[8_192..9_000]).unwrap();
    file.close().unwrap();
    assert!(get(fs, &path) == bytes[..9_000]);
}

fn places(fs: &dyn FileSystem, dir: &Path) {
    assert!(fs.absolute(dir).is_absolute());
    assert!(fs.absolute(Path::new("relative/name")).is_absolute());
    assert_eq!(
        fs.absolute(&dir.join("f")).parent(),
        Some(&*fs.absolute(dir))
    );
    assert!(fs.free_space(dir).unwrap() > 0);
}

#[cfg(test)]
mod tests {
    use super::run;
    use crate::{FaultFs, MemFs, PosixFs, TraceFs};
    use std::path::Path;
    use std::sync::Arc;

    #[test]
    fn the_real_file_system_conforms() {
        let dir = tempfile::tempdir().unwrap();
        run(&PosixFs::new(), dir.path());
    }

    #[test]
    fn the_in_memory_file_system_conforms() {
        run(&MemFs::new(), Path::new("/"));
    }

    #[test]
    fn the_doubles_conform_while_they_do_nothing() {
        let fs = FaultFs::new(Arc::new(MemFs::new()));
        run(&TraceFs::new(Arc::new(fs), Path::new("/")), Path::new("/"));
    }
}
