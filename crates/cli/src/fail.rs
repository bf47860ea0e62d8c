//! Describes what goes wrong, and the way out.
//!
//! Every message ends with what to do next. Exit codes: 1 if the work failed or damage was found,
//! 2 if the command line made no sense. A reader that closes the pipe early is no failure.

use crate::db::components::{Recorded, user_text};
use crate::inventory::Inventory;
use spanlith::options::objects;
use spanlith::version::{FileKind, parse_file_name};
use spanlith::{Error, ErrorKind, SubCode};
use std::fmt;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::ExitCode;

/// Says what the system says where a file stands for a directory.
const NOT_A_DIRECTORY: i32 = 20;

/// A command line that makes no sense: exit code 2.
#[derive(Debug)]
pub struct Usage {
    message: String,
    hint: String,
}

impl Usage {
    /// A mistake and how to write it instead.
    pub fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            hint: hint.into(),
        }
    }

    /// The way out.
    pub fn hint(&self) -> &str {
        &self.hint
    }
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Usage {}

/// Work that failed, with the way out: exit code 1.
#[derive(Debug)]
pub struct Failure {
    message: String,
    hint: String,
}

impl Failure {
    /// Returns what failed and what to do next.
    pub fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            hint: hint.into(),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// Says which directory an engine's error is about, and so what to do next.
pub trait At<T> {
    /// Turns an engine's error into a [`Failure`].
    fn at(self, dir: &Path) -> anyhow::Result<T>;
}

impl<T> At<T> for Result<T, Error> {
    fn at(self, dir: &Path) -> anyhow::Result<T> {
        self.map_err(|e| Failure::new(e.to_string(), way_out(&e, dir)).into())
    }
}

/// Returns what the user can do about an engine's error.
pub fn way_out(e: &Error, dir: &Path) -> String {
    // The folder of a file that is named without one.
    let dir = match dir.as_os_str().is_empty() {
        true => Path::new("."),
        false => dir,
    };
    let holds_database = dir.join("CURRENT").exists();
    let path = dir;
    let dir = shell_word(dir);
    let message = e.message();
    if e.subcode() == Some(SubCode::LockHeld) {
        return match e.lock_owner() {
            Some(pid) => format!(
                "process {pid} has the database open: wait for it or stop it; get, scan, count, \
                 info and verify need no lock"
            ),
            None => "another process has the database open: wait for it or stop it; get, scan, \
                     count, info and verify need no lock"
                .to_string(),
        };
    }
    if message.contains("does not exist (create_if_missing is false)")
        || (e.subcode() == Some(SubCode::PathNotFound)
            && (["CURRENT", "opendir"]
                .iter()
                .any(|part| message.contains(part))
                || message.contains("/LOCK: ")))
    {
        // Where something is left of one, a new one would hide it.
        if holds_remains(path) {
            return format!("spanlith doctor --db {dir} says what is left and the way out");
        }
        return format!(
            "there is no database in {dir}: check the path, or make one with \
             spanlith db put --create --db {dir} KEY VALUE"
        );
    }
    if e.os_error() == Some(NOT_A_DIRECTORY) || message.contains("exists but is not a directory") {
        return format!(
            "{dir} is a file, or goes through one; a directory is wanted here (--db takes the directory of a \
             database). spanlith sst dump, wal dump, manifest dump and blob dump show one file"
        );
    }
    if message.contains("does not match existing comparator") {
        return "leave --comparator out, or give the name the message ends with; orders other than \
                bytewise and reverse need the program that defines them"
            .to_string();
    }
    if message.contains("merge_operator") || e.subcode() == Some(SubCode::MergeOperatorFailed) {
        return operator_hint(path);
    }
    if message.contains("on the speed disk is missing, and with it") {
        return format!(
            "bring the directory back, or name its new place: spanlith db migrate --to-files --sd-tables-path DIR --db \
             {dir}; if it is gone for good, a backup is the better way, and --lose-tables in its place opens the rest"
        );
    }
    if let Some(hint) = about_lost_speed_disk(message, &dir) {
        return hint;
    }
    if message.contains("are on the speed disk") {
        return format!(
            "get, put, scan, count, checkpoint and backup work as it is; spanlith db migrate --to-files --db {dir} makes \
             it a directory that every command, and RocksDB, reads"
        );
    }
    match e.kind() {
        ErrorKind::Corruption if !holds_database && holds_remains(path) => {
            format!("spanlith doctor --db {dir} says what is left and the way out")
        }
        ErrorKind::Corruption if !holds_database => {
            format!("{dir} holds no database, so the file may be something else: ls -l {dir}")
        }
        ErrorKind::Corruption => {
            format!("spanlith db verify --db {dir} lists all damage, with file and offset")
        }
        ErrorKind::NotSupported => format!(
            "this build lacks it; spanlith db info --db {dir} shows what the directory uses, and \
             RocksDB still opens it"
        ),
        ErrorKind::Io if e.subcode() == Some(SubCode::NoSpace) => {
            "free space on the device and repeat the command; nothing that was acknowledged is lost"
                .to_string()
        }
        ErrorKind::Io => match e.os_error() {
            Some(13 | 1 | 30) => format!(
                "check owner and permissions: ls -ld {dir}; get, scan, count, info and verify only \
                 need to read"
            ),
            Some(24 | 23) => "raise the limit of open files: ulimit -n".to_string(),
            _ => match nearest_folder(path) {
                Some(parent) => format!(
                    "{dir} is not there: check the path; what there is of it: ls -l {}",
                    shell_word(parent)
                ),
                None => format!("check the path and the device: ls -l {dir}"),
            },
        },
        ErrorKind::InvalidArgument => format!("spanlith db info --db {dir} shows what is there"),
        _ => format!("spanlith db info --db {dir} shows the state of the database"),
    }
}

/// Returns what to do where a database's speed disk is not there.
fn about_lost_speed_disk(message: &str, dir: &str) -> Option<String> {
    let (_, rest) = message.split_once("speed disk ")?;
    let is_told = message.contains("is missing, and with it the logs");
    let is_away = || {
        let disk = rest.split_once(", of which").map(|(disk, _)| disk);
        disk.is_some_and(|disk| !Path::new(disk).exists())
    };
    (is_told || is_away()).then(|| {
        format!(
            "the speed disk is not there: bring it back; if it has another name now, spanlith db migrate --to-files \
             --sd-path DISK --db {dir} brings the logs into files; if it is gone for good, --lose-logs in its place \
             opens the tables without the writes since the last flush"
        )
    })
}

/// The deepest directory on a path that is there; `None` if the path itself is.
fn nearest_folder(path: &Path) -> Option<&Path> {
    if path.exists() {
        return None;
    }
    let mut above = path.ancestors().skip(1);
    let found = above.find(|dir| dir.as_os_str().is_empty() || dir.exists())?;
    Some(match found.as_os_str().is_empty() {
        true => Path::new("."),
        false => found,
    })
}

/// Returns what the system says, without the number of the error.
pub fn of_system(e: &std::io::Error) -> String {
    let text = e.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_string()
}

/// Names the next command after output that tells of damage.
pub fn ask_doctor(dir: &Path) {
    let dir = shell_word(dir);
    tell!("next:  spanlith doctor --db {dir} says what is at stake and the way out");
}

/// Returns whether a directory has files that only a database makes.
pub fn holds_remains(dir: &Path) -> bool {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut names = entries.map(|e| e.file_name().to_string_lossy().into_owned());
    names.any(|name| {
        matches!(
            parse_file_name(&name),
            Some(FileKind::Table(_) | FileKind::Blob(_) | FileKind::Log(_) | FileKind::Manifest(_))
        )
    })
}

/// Returns what to do where merge operands cannot be folded: names what the directory records, and nothing that writes.
fn operator_hint(dir: &Path) -> String {
    let recorded = Inventory::read(dir).map(|i| {
        let names = i
            .families
            .values()
            .map(|f| user_text(&i.merge_operator(&f.name)));
        let mut names: Vec<String> = names.filter(|n| !objects::is_null(n)).collect();
        names.sort();
        names.dedup();
        names
    });
    let recorded = recorded.unwrap_or_default();
    let dir = shell_word(dir);
    let raw = format!("spanlith db scan --raw --db {dir} shows operands as they are");
    let unknown = recorded
        .iter()
        .find(|n| matches!(Recorded::of(n), Recorded::Unknown));
    match (unknown, recorded.is_empty()) {
        (Some(text), _) => {
            let name = objects::id(text).unwrap_or(text);
            format!(
                "the directory records the merge operator {name}, which only its program has; {raw}; where a \
                 built-in one does the same, --merge-operator {name}=KIND reads with it"
            )
        }
        (None, false) => format!(
            "leave --merge-operator out: the directory records {}; {raw}",
            recorded.join(", ")
        ),
        (None, true) => format!(
            "no file of the directory names the merge operator, its program does; {raw}; --merge-operator KIND \
             reads with a built-in one"
        ),
    }
}

/// The path, quoted if a shell would split or interpret it; bytes that are no text as bash takes them.
pub fn shell_word(path: &Path) -> String {
    let Some(text) = path.to_str() else {
        let mut word = String::from("$'");
        for &b in path.as_os_str().as_bytes() {
            match b {
                b'\'' | b'\\' => word.extend(['\\', char::from(b)]),
                b' '..=b'~' => word.push(char::from(b)),
                _ => word.push_str(&format!("\\x{b:02x}")),
            }
        }
        return word + "'";
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:,@".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_string()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

/// Prints what was asked for: a help, a version. The exit code says whether it could be written.
pub fn show(text: &str) -> ExitCode {
    let mut out = std::io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => report(&e.into()),
    }
}

/// Prints an error to standard error and chooses the exit code.
pub fn report(e: &anyhow::Error) -> ExitCode {
    let closed = |c: &(dyn std::error::Error + 'static)| {
        c.downcast_ref::<std::io::Error>()
            .is_some_and(|e| e.kind() == std::io::ErrorKind::BrokenPipe)
    };
    if e.chain().any(closed) {
        return ExitCode::SUCCESS;
    }
    let paint = crate::term::Paint::stderr();
    tell!("{} {e:#}", paint.red("error:"));
    let mut code = 1;
    let hint = if let Some(u) = e.downcast_ref::<Usage>() {
        code = 2;
        Some(u.hint.clone())
    } else if let Some(f) = e.downcast_ref::<Failure>() {
        Some(f.hint.clone())
    } else {
        e.downcast_ref::<Error>()
            .map(|e| way_out(e, e.path().unwrap_or(Path::new("DIR"))))
    };
    // Work without a hint of its own: writing the output, reading the input.
    let hint = hint.unwrap_or_else(|| format!("{} --help shows what it takes", crate::called()));
    tell!(
        "{}  {}",
        paint.bold("next:"),
        not_in_a_circle(hint, &crate::called())
    );
    ExitCode::from(code)
}

/// A hint that does not send to the verb that failed.
fn not_in_a_circle(hint: String, called: &str) -> String {
    let Some(rest) = hint.strip_prefix(called) else {
        return hint;
    };
    if !rest.starts_with(' ') || rest.starts_with(" --help") {
        return hint;
    }
    let dir = rest
        .split_once("--db ")
        .map(|(_, dir)| dir.split(' ').next().unwrap_or(dir));
    match (dir, called) {
        (Some(dir), "spanlith doctor") => format!(
            "look at the files themselves: ls -l {dir}; restore what is damaged from a backup or a replica"
        ),
        (Some(dir), _) => {
            format!("spanlith doctor --db {dir} says what is at stake and the way out")
        }
        (None, _) => format!("{called} --help shows what it takes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_of_the_lock_is_named() {
        let e = Error::io("While lock file")
            .with_subcode(SubCode::LockHeld)
            .with_lock_owner(42);
        assert!(way_out(&e, Path::new("d")).starts_with("process 42 has the database open"));
    }

    #[test]
    fn no_hint_names_the_verb_that_failed() {
        let hint = || "spanlith db verify --db d lists all damage".to_string();
        assert_eq!(not_in_a_circle(hint(), "spanlith db scan"), hint());
        let other = not_in_a_circle(hint(), "spanlith db verify");
        assert!(other.starts_with("spanlith doctor --db d says"), "{other}");
        let doctors = "spanlith doctor --db d says what is left".to_string();
        let other = not_in_a_circle(doctors, "spanlith doctor");
        assert!(
            other.starts_with("look at the files themselves: ls -l d;"),
            "{other}"
        );
        let help = "spanlith db scan --help shows what it takes".to_string();
        assert_eq!(not_in_a_circle(help.clone(), "spanlith db scan"), help);
    }

    #[test]
    fn a_path_with_blanks_is_quoted() {
        assert_eq!(shell_word(Path::new("/data/x-1.db")), "/data/x-1.db");
        assert_eq!(shell_word(Path::new("my db")), "'my db'");
        assert_eq!(shell_word(Path::new("it's")), "'it'\\''s'");
        let bytes = std::ffi::OsStr::from_bytes(b"/d/\xff it's\n");
        assert_eq!(shell_word(Path::new(bytes)), "$'/d/\\xff it\\'s\\x0a'");
    }
}
