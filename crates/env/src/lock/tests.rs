use super::*;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

/// Tells the child half of the test which file to lock.
const PATH: &str = "SPANLITH_TEST_LOCK_PATH";

/// The child half: holds the lock until its standard input ends. Without the variable, a no-op.
#[test]
fn child_holds_the_lock() {
    let Some(path) = std::env::var_os(PATH) else {
        return;
    };
    let _held = lock(Path::new(&path)).unwrap();
    println!("held");
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

#[test]
fn a_lock_of_another_process_is_refused_with_its_process_id() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("LOCK");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "lock::tests::child_holds_the_lock",
            "--nocapture",
        ])
        .env(PATH, &path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let stdout = BufReader::new(child.stdout.take().unwrap());
    let mut lines = stdout.lines().map(|line| line.unwrap());
    assert!(lines.any(|line| line.contains("held")), "the child failed");
    let e = lock(&path).err().unwrap();
    let pid = child.id();
    let want = format!(
        "IO error: While lock file: {}: Resource temporarily unavailable: holder={pid}",
        path.display()
    );
    assert_eq!(e.to_string(), want);
    assert_eq!(e.subcode(), Some(SubCode::LockHeld));
    assert_eq!(e.lock_owner(), Some(pid));
    drop(child.stdin.take());
    lines.for_each(drop);
    assert!(child.wait().unwrap().success());
    drop(lock(&path).unwrap());
}

#[test]
fn a_second_request_does_not_open_the_file_and_so_keeps_the_lock() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("LOCK");
    let held = lock(&path).unwrap();
    std::fs::hard_link(&path, dir.path().join("same file")).unwrap();
    std::os::unix::fs::symlink(dir.path(), dir.path().join("here")).unwrap();
    let spellings = ["LOCK", "./LOCK", "here/LOCK", "here/here/LOCK", "same file"];
    for spelling in spellings {
        let e = lock(&dir.path().join(spelling)).err();
        let shown = e
            .unwrap_or_else(|| panic!("{spelling} was locked twice"))
            .to_string();
        assert!(
            shown.starts_with("IO error: lock hold by current process"),
            "{shown}"
        );
    }
    // Another process still finds it locked.
    let other = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "lock::tests::child_holds_the_lock",
            "--nocapture",
        ])
        .env(PATH, &path)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(!other.status.success());
    let said = [other.stdout, other.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    let holder = format!("holder={}", std::process::id());
    assert!(said.contains(&holder), "{said}");
    drop(held);
    drop(lock(&dir.path().join("same file")).unwrap());
}

#[test]
fn a_deleted_and_recreated_file_is_another_lock() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("LOCK");
    let held = lock(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    // The table still knows the path, so that this process does not open the database twice.
    assert!(lock(&path).is_err());
    drop(held);
    drop(lock(&path).unwrap());
}

#[test]
fn racing_threads_get_the_lock_one_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("LOCK");
    let inside = std::sync::atomic::AtomicUsize::new(0);
    let got: usize = std::thread::scope(|scope| {
        let thread = || {
            let mut got = 0;
            for _ in 0..300 {
                if let Ok(held) = lock(&path) {
                    let before = inside.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                    assert_eq!(before, 0);
                    inside.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                    drop(held);
                    got += 1;
                }
            }
            got
        };
        let threads: Vec<_> = (0..3).map(|_| scope.spawn(thread)).collect();
        threads.into_iter().map(|t| t.join().unwrap()).sum()
    });
    assert!(got > 0);
}
