//! The info log: `LOG` in the database directory, in RocksDB's line format.
//!
//! ```text
//! 2026/11/21-23:59:59.123456 7 [WARN] message          time in UTC, thread, level unless INFO
//! 2026/11/21-23:59:59.123456 7 EVENT_LOG_v1 {"time_micros": 1795305599123456, "event": "…"}
//! ```
//!
//! The `LOG` found at open becomes `LOG.old.MICROS`. So does the current one when it reaches its
//! size or age; a new piece starts with the header lines again. Pieces have 8 MiB and all of them 80
//! MiB, unless `max_log_file_size` is set; at most `keep_log_file_num` are kept, oldest go first. With
//! `db_log_dir` the files lie there and the name starts with the database's path.
//!
//! Failing to write the log never fails the database: the line is counted as lost and a new piece is
//! tried a minute later. Every line is handed to the operating system at once, but for the hundreds
//! of lines that dump options, which go together; nothing is synced.
//!
//! Threads: any. The lock is below the file system's and above everything else; one line is written
//! under it.

use crate::options::{DbOptions, InfoLogLevel};
use spanlith_base::CompressionType;
use spanlith_base::Result;
use spanlith_base::sync::Mutex;
use spanlith_env::{Clock, Env, IoActivity, WritableFile};
use std::fmt::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Size of a piece when `max_log_file_size` is 0.
const PIECE_BYTES: u64 = 8 << 20;
/// Size of all pieces when `max_log_file_size` is 0.
const TOTAL_BYTES: u64 = 80 << 20;
/// Longest line; the rest is cut.
const LINE_BYTES_MAX: usize = 64 << 10;
/// Bytes of lines held back to be written together.
const HELD_BYTES_MAX: usize = 32 << 10;
/// Bytes of header lines repeated in each piece.
const HEADER_BYTES_MAX: usize = 1 << 20;
/// Time between attempts to get a working file.
const RETRY_MICROS: u64 = 60_000_000;
/// Above the engine's locks, below those of executors and file systems.
const RANK: u8 = 93;

/// A value in an event.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
#[allow(
    dead_code,
    reason = "all that JSON needs, though no event uses every kind yet"
)]
pub enum EventValue<'a> {
    U64(u64),
    I64(i64),
    F64(f64),
    Bool(bool),
    Str(&'a str),
    List(&'a [u64]),
    Object(&'a [(&'a str, EventValue<'a>)]),
}

/// Takes the lines of the info log instead of the file `LOG`.
///
/// Called on the thread that has something to say, perhaps with locks of the database held: it must
/// neither use the database nor wait for somebody who does.
pub trait Logger: Send + Sync {
    /// One line without time, thread and line feed. What belongs to an event begins with
    /// `EVENT_LOG_v1`.
    fn log(&self, level: InfoLogLevel, line: &str);
}

/// Writes the info log.
pub struct InfoLog {
    level: InfoLogLevel,
    /// `None` for a log that goes nowhere, or to a logger.
    sink: Option<Sink>,
    /// Takes the lines instead of the sink; with the clock for events.
    logger: Option<(Arc<dyn Logger>, Arc<dyn Clock>)>,
}

struct Sink {
    env: Env,
    names: Names,
    piece_bytes: u64,
    /// Bytes of all pieces; `u64::MAX` means any.
    total_bytes: u64,
    keep_count: u64,
    /// Age of a piece; `u64::MAX` means any.
    piece_micros: u64,
    state: Mutex<State>,
}

/// Where the files lie and what they are called.
struct Names {
    dir: PathBuf,
    current: String,
    old_prefix: String,
}

struct State {
    file: Option<Box<dyn WritableFile>>,
    /// When the piece was started, or when it failed.
    since_micros: u64,
    lost_lines: u64,
    /// Header lines without their time.
    header: Vec<String>,
    header_bytes: usize,
    line: String,
    /// Lines that wait to be written together; `None` if every line is written at once.
    held: Option<String>,
}

impl fmt::Debug for InfoLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InfoLog")
            .field("path", &self.sink.as_ref().map(|s| s.names.current_path()))
            .finish_non_exhaustive()
    }
}

impl InfoLog {
    /// A log that goes nowhere.
    pub fn none() -> Arc<Self> {
        Arc::new(Self {
            level: InfoLogLevel::Header,
            sink: None,
            logger: None,
        })
    }

    /// A log whose lines from `level` on go to `logger`; there is no file.
    pub fn to_logger(env: &Env, logger: Arc<dyn Logger>, level: InfoLogLevel) -> Arc<Self> {
        Arc::new(Self {
            level,
            sink: None,
            logger: Some((logger, Arc::clone(&env.clock))),
        })
    }

    /// Starts a new `LOG` for the database in `dir`; an old one is renamed.
    ///
    /// # Errors
    /// `Io` if the file cannot be created.
    pub fn open(env: &Env, dir: &Path, options: &DbOptions) -> Result<Arc<Self>> {
        let names = Names::new(env, dir, &options.db_log_dir);
        env.fs.create_dir_if_missing(&names.dir)?;
        let explicit = options.max_log_file_size != 0;
        let sink = Sink {
            env: env.clone(),
            names,
            piece_bytes: if explicit {
                options.max_log_file_size
            } else {
                PIECE_BYTES
            },
            total_bytes: if explicit { u64::MAX } else { TOTAL_BYTES },
            keep_count: options.keep_log_file_num.max(1),
            piece_micros: match options.log_file_time_to_roll {
                0 => u64::MAX,
                seconds => seconds.saturating_mul(1_000_000),
            },
            state: Mutex::new(
                RANK,
                State {
                    file: None,
                    since_micros: 0,
                    lost_lines: 0,
                    header: Vec::new(),
                    header_bytes: 0,
                    line: String::new(),
                    held: None,
                },
            ),
        };
        {
            let mut state = sink.state.lock();
            let now = env.clock.now_micros();
            state.file = Some(sink.new_piece(now)?);
            state.since_micros = now;
        }
        Ok(Arc::new(Self {
            level: options.info_log_level,
            sink: Some(sink),
            logger: None,
        }))
    }

    /// Returns whether lines of `level` are written.
    pub fn is_enabled(&self, level: InfoLogLevel) -> bool {
        self.is_heard() && level >= self.level
    }

    /// Returns whether lines go anywhere.
    fn is_heard(&self) -> bool {
        self.sink.is_some() || self.logger.is_some()
    }

    /// Writes a line that is repeated at the start of each piece, whatever the level.
    pub fn header(&self, message: fmt::Arguments<'_>) {
        self.write(InfoLogLevel::Header, message);
    }

    /// Writes a line for developers.
    #[allow(dead_code, reason = "all levels exist, though not all are used yet")]
    pub fn debug(&self, message: fmt::Arguments<'_>) {
        self.write(InfoLogLevel::Debug, message);
    }

    /// Writes a line about a decision.
    pub fn info(&self, message: fmt::Arguments<'_>) {
        self.write(InfoLogLevel::Info, message);
    }

    /// Writes a line about something that should not be.
    pub fn warn(&self, message: fmt::Arguments<'_>) {
        self.write(InfoLogLevel::Warn, message);
    }

    /// Writes a line about a failure.
    #[allow(dead_code, reason = "all levels exist, though not all are used yet")]
    pub fn error(&self, message: fmt::Arguments<'_>) {
        self.write(InfoLogLevel::Error, message);
    }

    /// Writes an event as one line of JSON, at level INFO: time, job if there is one, name, fields.
    pub fn event(&self, job: Option<u64>, event: &str, fields: &[(&str, EventValue<'_>)]) {
        self.event_after(&[], job, event, fields);
    }

    /// As [`Self::event`], with fields that stand before the job.
    fn event_after(
        &self,
        lead: &[(&str, EventValue<'_>)],
        job: Option<u64>,
        event: &str,
        fields: &[(&str, EventValue<'_>)],
    ) {
        if InfoLogLevel::Info < self.level {
            return;
        }
        let clock = match (&self.sink, &self.logger) {
            (_, Some((_, clock))) => clock,
            (Some(sink), None) => &sink.env.clock,
            (None, None) => return,
        };
        let mut json = format!("{{\"time_micros\": {}", clock.now_micros());
        for (name, value) in lead {
            push_field(&mut json, name, *value);
        }
        if let Some(job) = job {
            // Writing to a string cannot fail.
            let _ = write!(json, ", \"job\": {job}");
        }
        push_field(&mut json, "event", EventValue::Str(event));
        for (name, value) in fields {
            push_field(&mut json, name, *value);
        }
        json.push('}');
        self.write(InfoLogLevel::Info, format_args!("EVENT_LOG_v1 {json}"));
    }

    /// Writes the first lines of a log as RocksDB's readers expect them: version, session, files.
    pub fn summary(&self, dir: &Path, session_id: &str) {
        let Some(sink) = &self.sink else { return };
        let [major, minor, patch] = crate::options::ini::ROCKSDB_VERSION;
        self.header(format_args!("RocksDB version: {major}.{minor}.{patch}"));
        self.header(format_args!(
            "Spanlith version: {}",
            env!("CARGO_PKG_VERSION")
        ));
        self.header(format_args!("DB SUMMARY"));
        self.header(format_args!("DB Session ID:  {session_id}"));
        let files = sink.env.fs.list(dir).unwrap_or_default();
        let size = |name: &str| sink.env.fs.size(&dir.join(name)).unwrap_or(0);
        let with_suffix = |suffix: &str| -> Vec<&String> {
            files.iter().filter(|name| name.ends_with(suffix)).collect()
        };
        for name in ["CURRENT", "IDENTITY"] {
            if files.iter().any(|f| f == name) {
                self.header(format_args!("{name} file:  {name}"));
            }
        }
        for name in files.iter().filter(|f| f.starts_with("MANIFEST-")) {
            self.header(format_args!(
                "MANIFEST file:  {name} size: {} Bytes",
                size(name)
            ));
        }
        let tables = with_suffix(".sst");
        let first: String = tables
            .iter()
            .take(9)
            .map(|name| format!("{name} "))
            .collect();
        let shown = dir.display();
        self.header(format_args!(
            "SST files in {shown} dir, Total Num: {}, files: {first}",
            tables.len()
        ));
        let logs: String = with_suffix(".log")
            .iter()
            .map(|name| format!("{name} size: {} ; ", size(name)))
            .collect();
        self.header(format_args!("Write Ahead Log file in {shown}: {logs}"));
    }

    /// Writes what this build can do, as RocksDB's readers look for it.
    pub fn dump_support(&self) {
        // As in RocksDB, what it was built for, and not what it finds.
        let crc = match cfg!(any(target_feature = "sse4.2", target_feature = "crc")) {
            true => "Supported",
            false => "Not supported",
        };
        let arch = match cfg!(target_arch = "x86_64") {
            true => "x86",
            false => std::env::consts::ARCH,
        };
        self.header(format_args!("Compression algorithms supported:"));
        // In RocksDB's order.
        for codec in [
            CompressionType::Zstd,
            CompressionType::Xpress,
            CompressionType::Bzip2,
            CompressionType::Lz4,
            CompressionType::Zlib,
            CompressionType::Lz4Hc,
            CompressionType::Snappy,
        ] {
            let is_there = u8::from(codec.is_written());
            self.header(format_args!("\t{codec} supported: {is_there}"));
        }
        self.header(format_args!("Fast CRC32 supported: {crc} on {arch}"));
        self.header(format_args!("Jemalloc supported: 0"));
    }

    fn write(&self, level: InfoLogLevel, message: fmt::Arguments<'_>) {
        if level < self.level {
            return;
        }
        if let Some((logger, _)) = &self.logger {
            let line = message.to_string();
            logger.log(level, line.trim_end_matches('\n'));
        } else if let Some(sink) = &self.sink {
            sink.write(level, message);
        }
    }
}

impl Sink {
    fn write(&self, level: InfoLogLevel, message: fmt::Arguments<'_>) {
        let now = self.env.clock.now_micros();
        let state = &mut *self.state.lock();
        let mut line = std::mem::take(&mut state.line);
        line.clear();
        push_prefix(&mut line, now);
        let body = line.len();
        match level {
            InfoLogLevel::Debug => line.push_str("[DEBUG] "),
            InfoLogLevel::Warn => line.push_str("[WARN] "),
            InfoLogLevel::Error => line.push_str("[ERROR] "),
            InfoLogLevel::Fatal => line.push_str("[FATAL] "),
            InfoLogLevel::Info | InfoLogLevel::Header => {}
        }
        // A value that refuses to print is not worth a failure; what it printed so far stays.
        let _ = line.write_fmt(message);
        if line.len() > LINE_BYTES_MAX {
            let end = (0..=LINE_BYTES_MAX)
                .rev()
                .find(|at| line.is_char_boundary(*at));
            line.truncate(end.unwrap_or(0));
        }
        while line.ends_with('\n') {
            line.pop();
        }
        line.push('\n');
        if level == InfoLogLevel::Header
            && let Some(text) = line.get(body..)
            && state.header_bytes + text.len() <= HEADER_BYTES_MAX
        {
            state.header_bytes += text.len();
            state.header.push(text.to_string());
        }
        let full = |state: &State, held: &str| {
            let file = state.file.as_ref().map_or(0, |f| f.len());
            let more = held.len() + line.len();
            more > HELD_BYTES_MAX || file + more as u64 > self.piece_bytes
        };
        match state.held.take() {
            None => self.append(state, &line, now),
            Some(mut held) => {
                if full(state, &held) {
                    self.append_held(state, &held, now);
                    held.clear();
                }
                held.push_str(&line);
                state.held = Some(held);
            }
        }
        state.line = line;
    }

    /// Begins or ends to hold lines back, so that many are written together.
    fn hold(&self, held: bool) {
        let now = self.env.clock.now_micros();
        let state = &mut *self.state.lock();
        if let Some(lines) = state.held.take() {
            self.append_held(state, &lines, now);
        }
        // Small pieces are cut line by line.
        state.held = (held && self.piece_bytes > HEADER_BYTES_MAX as u64).then(String::new);
    }

    fn append_held(&self, state: &mut State, lines: &str, now: u64) {
        if !lines.is_empty() {
            self.append(state, lines, now);
        }
    }

    /// Appends a line, or several that fit, to the piece, or to a new one if it is full, old or broken.
    fn append(&self, state: &mut State, line: &str, now: u64) {
        let age = now.saturating_sub(state.since_micros);
        let due = match &state.file {
            Some(file) => {
                (!file.is_empty() && file.len() + line.len() as u64 > self.piece_bytes)
                    || age >= self.piece_micros
            }
            None => age >= RETRY_MICROS,
        };
        if due {
            state.file = None;
            state.since_micros = now;
            if let Ok(mut file) = self.new_piece(now)
                && self.repeat_header(state, &mut *file, now).is_ok()
            {
                state.file = Some(file);
            }
        }
        let written = state
            .file
            .as_mut()
            .is_some_and(|f| f.append(line.as_bytes()).is_ok());
        if !written {
            state.lost_lines += line.matches('\n').count() as u64;
            if state.file.take().is_some() {
                state.since_micros = now;
            }
        }
    }

    fn repeat_header(
        &self,
        state: &mut State,
        file: &mut dyn WritableFile,
        now: u64,
    ) -> Result<()> {
        let mut text = String::new();
        for line in &state.header {
            push_prefix(&mut text, now);
            text.push_str(line);
        }
        if state.lost_lines > 0 {
            push_prefix(&mut text, now);
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "[WARN] {} lines of this log were lost",
                state.lost_lines
            );
        }
        if !text.is_empty() {
            file.append(text.as_bytes())?;
        }
        state.lost_lines = 0;
        Ok(())
    }

    /// Renames the present piece, deletes what is too much, creates a new piece.
    fn new_piece(&self, now: u64) -> Result<Box<dyn WritableFile>> {
        let fs = &self.env.fs;
        let current = self.names.current_path();
        let mut old = self.old_pieces();
        if fs.entry(&current)?.is_some() {
            // Behind all others, even if the clock stands still or was set back.
            let newest = old.first().copied();
            let micros = newest
                .and_then(|n| n.checked_add(1))
                .map_or(now, |n| n.max(now));
            fs.rename(&current, &self.names.old_path(micros))?;
            old.insert(0, micros);
        }
        self.purge(&old);
        fs.create(&current, IoActivity::Other)
    }

    /// Times of the old pieces, newest first.
    fn old_pieces(&self) -> Vec<u64> {
        let names = self.env.fs.list(&self.names.dir).unwrap_or_default();
        let mut old: Vec<u64> = names
            .iter()
            .filter_map(|name| self.names.micros(name))
            .collect();
        old.sort_unstable_by(|a, b| b.cmp(a));
        old
    }

    /// Deletes the oldest of the pieces `old` beyond the limits. Failing to is no reason not to log.
    fn purge(&self, old: &[u64]) {
        let fs = &self.env.fs;
        let mut bytes = self.piece_bytes;
        let mut kept = 1;
        for &micros in old {
            let path = self.names.old_path(micros);
            bytes = bytes.saturating_add(fs.size(&path).unwrap_or(0));
            kept += 1;
            if kept > self.keep_count || bytes > self.total_bytes {
                // It is tried again with the next piece.
                let _ = fs.delete(&path);
            }
        }
    }
}

impl Names {
    fn new(env: &Env, dir: &Path, log_dir: &str) -> Self {
        let (dir, current) = if log_dir.is_empty() {
            (dir.to_path_buf(), "LOG".to_string())
        } else {
            let absolute = env.fs.absolute(dir);
            let flat: String = absolute
                .to_string_lossy()
                .trim_start_matches('/')
                .chars()
                .map(|c| match c {
                    '0'..='9' | 'A'..='Z' | 'a'..='z' | '-' | '_' | '.' => c,
                    _ => '_',
                })
                .collect();
            (PathBuf::from(log_dir), format!("{flat}_LOG"))
        };
        let old_prefix = format!("{current}.old.");
        Self {
            dir,
            current,
            old_prefix,
        }
    }

    fn current_path(&self) -> PathBuf {
        self.dir.join(&self.current)
    }

    fn old_path(&self, micros: u64) -> PathBuf {
        self.dir.join(format!("{}{micros}", self.old_prefix))
    }

    /// The time in the name of an old piece; `None` for any other file.
    fn micros(&self, name: &str) -> Option<u64> {
        let digits = name.strip_prefix(&self.old_prefix)?;
        digits
            .bytes()
            .all(|b| b.is_ascii_digit())
            .then(|| digits.parse().ok())?
    }
}

/// Appends `YYYY/MM/DD-HH:MM:SS.micros THREAD `.
fn push_prefix(line: &mut String, micros: u64) {
    let seconds = micros / 1_000_000;
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    // By hand: an open writes some three hundred lines.
    let mut text = *b"0000/00/00-00:00:00.000000 ";
    let fields = [
        (0..4, year),
        (5..7, month),
        (8..10, day),
        (11..13, hour),
        (14..16, minute),
        (17..19, second),
        (20..26, micros % 1_000_000),
    ];
    for (field, mut value) in fields {
        for digit in text[field].iter_mut().rev() {
            *digit += (value % 10) as u8;
            value /= 10;
        }
    }
    line.push_str(std::str::from_utf8(&text).unwrap_or_default());
    // Writing to a string cannot fail.
    let _ = write!(line, "{} ", thread_number());
}

/// Year, month and day of a day since the epoch (proleptic Gregorian).
fn civil(days: u64) -> (u64, u64, u64) {
    // Counted from 1 March 0000, so that a leap day ends its year.
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

/// A small number that tells threads of this process apart.
fn thread_number() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    /// Relaxed: it only hands out distinct numbers.
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local! {
        static NUMBER: u64 = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    // A thread whose locals are gone already may still log.
    NUMBER.try_with(|n| *n).unwrap_or(0)
}

fn push_field(json: &mut String, name: &str, value: EventValue<'_>) {
    json.push_str(", ");
    push_member(json, name, value);
}

fn push_member(json: &mut String, name: &str, value: EventValue<'_>) {
    push_json_string(json, name);
    json.push_str(": ");
    // Writing to a string cannot fail.
    let _ = match value {
        EventValue::U64(n) => write!(json, "{n}"),
        EventValue::I64(n) => write!(json, "{n}"),
        EventValue::F64(n) if n.is_finite() => write!(json, "{n}"),
        EventValue::F64(_) => write!(json, "null"),
        EventValue::Bool(b) => write!(json, "{}", u8::from(b)),
        EventValue::Str(s) => {
            push_json_string(json, s);
            Ok(())
        }
        EventValue::Object(members) => {
            json.push('{');
            for (n, (name, value)) in members.iter().enumerate() {
                json.push_str(if n > 0 { ", " } else { "" });
                push_member(json, name, *value);
            }
            json.push('}');
            Ok(())
        }
        EventValue::List(numbers) => {
            json.push('[');
            for (n, number) in numbers.iter().enumerate() {
                let comma = if n > 0 { ", " } else { "" };
                let _ = write!(json, "{comma}{number}");
            }
            json.push(']');
            Ok(())
        }
    };
}

fn push_json_string(json: &mut String, text: &str) {
    json.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => json.extend(['\\', c]),
            c if c < ' ' => {
                // Writing to a string cannot fail.
                let _ = write!(json, "\\u{:04x}", u32::from(c));
            }
            c => json.push(c),
        }
    }
    json.push('"');
}

mod dump;
pub mod events;
mod template;
pub use dump::DumpParts;

#[cfg(test)]
mod tests;
