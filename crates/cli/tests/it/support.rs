//! Runs the binary and looks at directories.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::Write;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

/// The binary under test.
pub const SPANLITH: &str = env!("CARGO_BIN_EXE_spanlith");

/// Describes what a run left.
#[derive(Debug)]
pub struct Run {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Run {
    /// Standard output of a run that must have succeeded without a word on standard error.
    #[track_caller]
    pub fn ok(self) -> String {
        assert_eq!(
            (self.code, self.err.as_str()),
            (Some(0), ""),
            "{}",
            self.out
        );
        self.out
    }

    /// Standard error of a run that must have ended with `code`.
    #[track_caller]
    pub fn fails(self, code: i32) -> String {
        assert_eq!(self.code, Some(code), "{}\n{}", self.out, self.err);
        assert!(!self.err.contains("panicked"), "{}", self.err);
        self.err
    }
}

/// A command of the binary; set up to print no colour.
pub fn command<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(SPANLITH);
    command.args(args).env("NO_COLOR", "1").stdin(Stdio::null());
    command
}

/// Runs the binary.
pub fn run<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Run {
    run_with_input(args, b"")
}

/// A `db load` that has `b` = 2 in, and holds its database until its input, the second of these, is dropped. `get` reads `b`.
pub fn holder<S: AsRef<OsStr>>(
    load: impl IntoIterator<Item = S>,
    get: impl Fn() -> Run,
) -> (Child, ChildStdin) {
    let mut holder = command(load)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = holder.stdin.take().unwrap();
    input.write_all(b"b\t2\n").unwrap();
    while get().code != Some(0) {
        assert!(holder.try_wait().unwrap().is_none(), "the holder ended");
        std::thread::yield_now();
    }
    (holder, input)
}

/// Runs the binary with something to read.
pub fn run_with_input<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>, input: &[u8]) -> Run {
    finish(command(args), input)
}

fn finish(mut command: Command, input: &[u8]) -> Run {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    let output = std::thread::scope(|scope| {
        scope.spawn(move || {
            // A program that does not read its input closes the pipe.
            let _ = stdin.write_all(input);
        });
        child.wait_with_output().expect("the binary ends")
    });
    Run {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).expect("output is text"),
        err: String::from_utf8(output.stderr).expect("messages are text"),
    }
}

/// Runs `spanlith db VERB --db DIR REST`.
pub fn db(verb: &str, dir: &Path, rest: &[&str]) -> Run {
    let dir = dir.to_str().expect("temporary paths are text");
    run(["db", verb, "--db", dir].iter().chain(rest))
}

/// As [`db`], with `at` as the current directory.
pub fn db_in(at: &Path, verb: &str, dir: &Path, rest: &[&str]) -> Run {
    let dir = dir.to_str().expect("temporary paths are text");
    let mut command = command(["db", verb, "--db", dir].iter().chain(rest));
    command.current_dir(at);
    finish(command, b"")
}

/// Names and contents of all files below a directory.
pub fn contents(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut out = BTreeMap::new();
    for entry in std::fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        let name = path
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        if path.is_dir() {
            out.extend(
                contents(&path)
                    .into_iter()
                    .map(|(n, c)| (format!("{name}/{n}"), c)),
            );
        } else {
            out.insert(name, std::fs::read(&path).expect("a file"));
        }
    }
    out
}
