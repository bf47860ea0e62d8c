use super::*;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

fn create(path: &Path) -> Box<dyn WritableFile> {
    PosixFs::new().create(path, IoActivity::Other).unwrap()
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_poisons_the_file_and_reads_as_rocksdb_says_it() {
    let mut file = create(Path::new("/dev/full"));
    let want = "IO error: No space left on device: While appending to file: /dev/full: \
        No space left on device";
    let first = file.append(b"x").unwrap_err();
    assert_eq!(first.to_string(), want);
    assert_eq!(first.subcode(), Some(spanlith_base::SubCode::NoSpace));
    for result in [
        file.append(b""),
        file.sync(),
        file.write_back(0, 1),
        file.close(),
    ] {
        assert_eq!(result.unwrap_err().to_string(), want);
    }
    assert_eq!(file.len(), 0);
}

#[cfg(target_os = "linux")]
#[test]
fn closing_or_dropping_gives_reserved_space_back() {
    let dir = tempfile::tempdir().unwrap();
    for close in [true, false] {
        let path = dir.path().join(format!("f{close}"));
        let mut file = create(&path);
        file.preallocate(8 << 20);
        file.append(b"some bytes").unwrap();
        file.sync().unwrap();
        if close {
            file.close().unwrap();
        }
        drop(file);
        let meta = std::fs::metadata(&path).unwrap();
        assert_eq!(meta.len(), 10);
        assert!(
            meta.blocks() * 512 < 1 << 20,
            "{} blocks kept",
            meta.blocks()
        );
    }
}

#[test]
fn a_symbolic_link_is_not_followed_for_writing() {
    let dir = tempfile::tempdir().unwrap();
    let (target, link) = (dir.path().join("target"), dir.path().join("link"));
    std::fs::write(&target, b"precious").unwrap();
    std::os::unix::fs::symlink(&target, &link).unwrap();
    let fs = PosixFs::new();
    let e = fs.create(&link, IoActivity::Other).err().unwrap();
    assert_eq!(e.os_error(), Some(libc::ELOOP));
    assert_eq!(fs.lock(&link).err().unwrap().os_error(), Some(libc::ELOOP));
    assert_eq!(fs.read_all(&link, 100).unwrap(), b"precious");
    fs.delete(&link).unwrap();
    assert_eq!(fs.read_all(&target, 100).unwrap(), b"precious");
}

#[test]
fn nobody_else_may_write_what_is_created() {
    let dir = tempfile::tempdir().unwrap();
    let (file, inner, lock) = (
        dir.path().join("f"),
        dir.path().join("d"),
        dir.path().join("LOCK"),
    );
    let fs = PosixFs::new();
    create(&file).close().unwrap();
    fs.create_dir_if_missing(&inner).unwrap();
    drop(fs.lock(&lock).unwrap());
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    // Exactly 0644 and 0755 under the usual umask; any umask only takes bits away.
    assert_eq!(mode(&file) & !0o644, 0);
    assert_eq!(mode(&lock) & !0o644, 0);
    assert_eq!(mode(&inner) & !0o755, 0);
    assert_eq!(mode(&file) & 0o600, 0o600);
    assert_eq!(mode(&inner) & 0o700, 0o700);
}

#[test]
fn a_name_with_a_nul_is_refused_and_a_huge_one_too() {
    let fs = PosixFs::new();
    let nul = Path::new("a\0b");
    assert!(fs.open_random(nul).is_err());
    assert!(fs.create(nul, IoActivity::Other).is_err());
    assert!(fs.free_space(nul).is_err());
    let long = "x".repeat(5000);
    assert_eq!(
        fs.size(Path::new(&long)).unwrap_err().os_error(),
        Some(libc::ENAMETOOLONG)
    );
}

#[test]
fn a_dangling_link_is_nothing_and_a_pipe_is_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let link = dir.path().join("link");
    std::os::unix::fs::symlink("nowhere", &link).unwrap();
    let fs = PosixFs::new();
    assert_eq!(fs.entry(&link).unwrap(), None);
    assert_eq!(fs.list(dir.path()).unwrap(), ["link"]);
    assert_eq!(
        fs.entry(Path::new("/dev/null")).unwrap(),
        Some(EntryKind::Other)
    );
}

#[test]
fn modification_time_is_in_seconds_of_now() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    create(&path).append(b"x").unwrap();
    let now = std::time::SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs();
    let modified = PosixFs::new().modified(&path).unwrap();
    assert!(modified.abs_diff(now) < 100, "{modified} {now}");
}

/// Calls that end with these error numbers, the last one first, and then well.
fn calls(mut errors: Vec<i32>) -> impl FnMut() -> io::Result<()> {
    move || match errors.pop() {
        Some(errno) => Err(io::Error::from_raw_os_error(errno)),
        None => Ok(()),
    }
}

#[test]
fn an_interrupted_call_is_made_again_and_no_other() {
    let mut call = calls(vec![libc::EIO, libc::EINTR, libc::EINTR]);
    let e = retry("While calling", Path::new("/f"), &mut call).unwrap_err();
    assert_eq!(e.os_error(), Some(libc::EIO));
    retry("While calling", Path::new("/f"), call).unwrap();
}

#[test]
fn a_change_of_names_that_was_made_when_it_was_interrupted_is_made() {
    let ends = |errors: &[i32], is_made| {
        change_again(ErrorKind::NotFound, || is_made, calls(errors.to_vec()))
            .map_err(|e| e.raw_os_error().unwrap())
    };
    let (gone, again) = (libc::ENOENT, libc::EINTR);
    assert_eq!(ends(&[], true), Ok(()));
    assert_eq!(ends(&[again, again], true), Ok(()));
    assert_eq!(ends(&[gone, again], true), Ok(()));
    // Nobody made it, it was not interrupted, or it failed otherwise.
    assert_eq!(ends(&[gone, again], false), Err(gone));
    assert_eq!(ends(&[gone], true), Err(gone));
    assert_eq!(ends(&[libc::EIO, again], true), Err(libc::EIO));
}

#[cfg(target_os = "linux")]
#[test]
fn an_unlinked_file_is_freed_when_its_contents_are_let_go() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    create(&path).append(&[7; 4096]).unwrap();
    let fs = PosixFs::new();
    let unlinked = fs.unlink(&path).unwrap();
    assert_eq!(fs.entry(&path).unwrap(), None);
    let held = unlinked._contents.as_ref().unwrap().metadata().unwrap();
    assert_eq!((held.nlink(), held.len()), (0, 4096));
    let e = fs.unlink(&path).err().unwrap();
    assert_eq!(e.subcode(), Some(spanlith_base::SubCode::PathNotFound));
}
