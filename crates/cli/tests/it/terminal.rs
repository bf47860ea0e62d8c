//! Describes what is drawn on a terminal only: progress of long work, and the line of a running benchmark.

use crate::support::command;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use spanlith_testkit::TempDir;
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::process::Stdio;

/// Runs the binary with standard error on a terminal of 100 columns; what it drew there, and its standard
/// output.
fn drawn(args: &[&str]) -> (String, String) {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let path = std::ffi::OsStr::from_bytes(name.as_bytes());
    let slave = OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .unwrap();
    let size = Winsize {
        ws_row: 40,
        ws_col: 100,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&slave, size).unwrap();
    let child = command(args)
        .env("TERM", "xterm")
        .stdout(Stdio::piped())
        .stderr(slave)
        .spawn()
        .unwrap();
    let reader = std::thread::spawn(move || {
        let mut seen = Vec::new();
        // Ends with an error once the last process has closed its side.
        let _ = File::from(master).read_to_end(&mut seen);
        String::from_utf8_lossy(&seen).into_owned()
    });
    let output = child.wait_with_output().unwrap();
    let seen = reader.join().unwrap();
    assert!(output.status.success(), "{args:?}: {seen}");
    (seen, String::from_utf8(output.stdout).unwrap())
}

#[test]
fn a_benchmark_shows_a_line_that_changes_each_second() {
    let (seen, out) = drawn(&["bench", "fillrandom", "--num", "100000", "--duration", "4"]);
    let mut seconds: Vec<&str> = seen
        .split("fillrandom ")
        .filter(|line| line.contains(" ops/s  p50 "))
        .filter_map(|line| line.split(" s ").next())
        .collect();
    seconds.dedup();
    assert!((2..=6).contains(&seconds.len()), "{seen:?}");
    assert!(seen.contains(" s left  "), "{seen:?}");
    // It goes to the terminal, and not into what may be piped.
    assert!(!out.contains(" s left "), "{out}");
}

#[test]
fn a_long_verification_draws_a_bar_on_a_terminal_and_takes_it_away() {
    let temp = TempDir::new("cli terminal");
    let path = temp.join("db");
    let path = path.to_str().unwrap();
    drawn(&["bench", "fillseq", "--num", "200000", "--db", path]);
    let (seen, out) = drawn(&["db", "verify", "--deep", "--db", path]);
    assert!(seen.contains("verifying ["), "{seen:?}");
    assert!(seen.contains(" % "), "{seen:?}");
    assert!(!out.contains('%'), "{out}");
    // The last thing is an empty line.
    let last = seen.rsplit('\r').next().unwrap();
    assert!(!last.contains("verifying"), "{seen:?}");
}

#[test]
fn what_nobody_takes_ends_a_program_without_a_panic() {
    let temp = TempDir::new("cli nobody");
    let nowhere = temp.join("nowhere").display().to_string();
    let full = || Stdio::from(File::options().write(true).open("/dev/full").unwrap());
    let closed = || {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        Stdio::from(writer)
    };
    for tool in ["ldb", "sst_dump", "db_bench", "trace_analyzer"] {
        for flag in ["--help", "--version"] {
            if (tool, flag) == ("db_bench", "--version") {
                continue;
            }
            let run = |out: Stdio| command([tool, flag]).stdout(out).output().unwrap();
            let done = run(full());
            assert_eq!(done.status.code(), Some(1), "{tool} {flag}: {done:?}");
            let done = run(closed());
            assert_eq!(done.status.code(), Some(0), "{tool} {flag}: {done:?}");
        }
    }
    for args in [
        &["doctor", "--db", &nowhere][..],
        &["ldb", "bogus"],
        &["db", "get", "k", "--db", &nowhere],
    ] {
        let done = command(args).stderr(full()).status().unwrap();
        assert_eq!(done.code(), Some(1), "{args:?}");
    }
}
