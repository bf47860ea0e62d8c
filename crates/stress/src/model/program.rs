//! Programs: a setup, the options of the first open, and a list of operations, with a text form.
//!
//! The meaning of an operation may depend on the state it meets (`toggle` puts or removes), never on
//! chance, so that a program without some of its operations is a program too: reduction needs that.

use super::setup::{Setup, Tuning};
use spanlith_testkit::{hex, unhex};
use std::fmt;

/// A value: number of its author, length, and what its bytes look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueSpec {
    /// Unique per operation.
    pub stamp: u64,
    /// Bytes.
    pub len: u32,
    /// 0 compressible, 1 random.
    pub style: u8,
}

impl ValueSpec {
    /// The bytes: the stamp first, as much as fits.
    pub fn bytes(&self) -> Vec<u8> {
        let len = self.len as usize;
        let mut out = self.stamp.to_le_bytes().to_vec();
        if self.style == 0 {
            out.resize(len.max(8), b'a' + (self.stamp % 26) as u8);
        } else {
            let mut rng = spanlith_testkit::Rng::new(self.stamp);
            let more = rng.bytes(len.saturating_sub(8));
            out.extend_from_slice(&more);
        }
        out.truncate(len);
        out
    }
}

/// How a write is made durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Logged.
    Logged,
    /// Logged and synced.
    Synced,
    /// Not logged.
    Unlogged,
}

/// One update of a batch, or alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Update {
    /// Sets a key.
    Put(Vec<u8>, ValueSpec),
    /// Removes a key.
    Delete(Vec<u8>),
    /// Puts a key of the single-delete class if it is absent, else single-deletes it.
    Toggle(Vec<u8>, ValueSpec),
    /// Adds an operand.
    Merge(Vec<u8>, ValueSpec),
    /// Removes the keys between two, the first in the order of the database included.
    DeleteRange(Vec<u8>, Vec<u8>),
}

/// A point in time to read at: now, or a snapshot's slot.
pub type At = Option<u8>;

/// A bound or key that may be missing.
pub type MaybeKey = Option<Vec<u8>>;

/// One operation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the text form names the fields")]
pub enum Op {
    Write(Update, Durability),
    Batch(Vec<Update>, Durability),
    Get(Vec<u8>, At),
    MultiGet(Vec<Vec<u8>>, At),
    Scan {
        lower: MaybeKey,
        upper: MaybeKey,
        back: bool,
        at: At,
    },
    /// All from a key on that has its prefix.
    Within(Vec<u8>, At),
    Iter {
        slot: u8,
        lower: MaybeKey,
        upper: MaybeKey,
        at: At,
    },
    Seek(u8, Vec<u8>),
    SeekForPrev(u8, Vec<u8>),
    First(u8),
    Last(u8),
    Next(u8, u32),
    Prev(u8, u32),
    Refresh(u8),
    DropIter(u8),
    Snapshot(u8),
    Release(u8),
    Flush(bool),
    Sync,
    Compact(MaybeKey, MaybeKey),
    /// Runs up to so many background jobs.
    Work(u32),
    /// Clean close, open with other options.
    Reopen(Tuning),
    /// The process ends, the operating system lives.
    Kill(Tuning),
    /// Power loss at the `after`-th change of the file system from here on (0 is now).
    PowerLoss {
        after: u32,
        choice: u64,
        tuning: Tuning,
    },
    /// Opens a copy for reading only and compares.
    ReadOnly,
    /// Drops a family and creates it anew, empty.
    Recreate(u64),
    /// So many seconds pass, and are taken down.
    Pass(u32),
}

/// A setup, options and operations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Fixed for life.
    pub setup: Setup,
    /// Options of the first open.
    pub tuning: Tuning,
    /// Says what is done.
    pub ops: Vec<Op>,
}

fn key_text(key: &[u8]) -> String {
    let plain = !key.is_empty()
        && key
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || *b == b'_' || *b == b'-');
    if plain {
        String::from_utf8_lossy(key).into_owned()
    } else {
        format!("0x{}", hex(key))
    }
}

fn maybe_text(key: &MaybeKey) -> String {
    key.as_ref()
        .map_or_else(|| "*".to_string(), |k| key_text(k))
}

fn at_text(at: At) -> String {
    at.map_or_else(|| "now".to_string(), |s| format!("s{s}"))
}

impl fmt::Display for ValueSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let style = if self.style == 0 { 'c' } else { 'r' };
        write!(f, "{}.{}.{style}", self.stamp, self.len)
    }
}

impl fmt::Display for Update {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Put(k, v) => write!(f, "put {} {v}", key_text(k)),
            Self::Delete(k) => write!(f, "delete {}", key_text(k)),
            Self::Toggle(k, v) => write!(f, "toggle {} {v}", key_text(k)),
            Self::Merge(k, v) => write!(f, "merge {} {v}", key_text(k)),
            Self::DeleteRange(a, b) => write!(f, "deleterange {} {}", key_text(a), key_text(b)),
        }
    }
}

fn durability_text(d: Durability) -> &'static str {
    match d {
        Durability::Logged => "logged",
        Durability::Synced => "synced",
        Durability::Unlogged => "unlogged",
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write(u, d) => write!(f, "{} {u}", durability_text(*d)),
            Self::Batch(list, d) => {
                write!(f, "batch {}", durability_text(*d))?;
                list.iter().try_for_each(|u| write!(f, " ; {u}"))
            }
            Self::Get(k, at) => write!(f, "get {} {}", key_text(k), at_text(*at)),
            Self::MultiGet(keys, at) => {
                write!(f, "multiget {}", at_text(*at))?;
                keys.iter().try_for_each(|k| write!(f, " {}", key_text(k)))
            }
            Self::Scan {
                lower,
                upper,
                back,
                at,
            } => write!(
                f,
                "{} {} {} {}",
                if *back { "scanback" } else { "scan" },
                maybe_text(lower),
                maybe_text(upper),
                at_text(*at)
            ),
            Self::Within(k, at) => write!(f, "within {} {}", key_text(k), at_text(*at)),
            Self::Iter {
                slot,
                lower,
                upper,
                at,
            } => write!(
                f,
                "iter {slot} {} {} {}",
                maybe_text(lower),
                maybe_text(upper),
                at_text(*at)
            ),
            Self::Seek(s, k) => write!(f, "seek {s} {}", key_text(k)),
            Self::SeekForPrev(s, k) => write!(f, "seekforprev {s} {}", key_text(k)),
            Self::First(s) => write!(f, "first {s}"),
            Self::Last(s) => write!(f, "last {s}"),
            Self::Next(s, n) => write!(f, "next {s} {n}"),
            Self::Prev(s, n) => write!(f, "prev {s} {n}"),
            Self::Refresh(s) => write!(f, "refresh {s}"),
            Self::DropIter(s) => write!(f, "dropiter {s}"),
            Self::Snapshot(s) => write!(f, "snapshot {s}"),
            Self::Release(s) => write!(f, "release {s}"),
            Self::Flush(wait) => write!(f, "{}", if *wait { "flush" } else { "startflush" }),
            Self::Sync => write!(f, "sync"),
            Self::Compact(a, b) => write!(f, "compact {} {}", maybe_text(a), maybe_text(b)),
            Self::Work(n) => write!(f, "work {n}"),
            Self::Reopen(t) => write!(f, "reopen {t}"),
            Self::Kill(t) => write!(f, "kill {t}"),
            Self::PowerLoss {
                after,
                choice,
                tuning,
            } => write!(f, "powerloss {after} {choice} {tuning}"),
            Self::ReadOnly => write!(f, "readonly"),
            Self::Recreate(n) => write!(f, "recreate {n}"),
            Self::Pass(n) => write!(f, "pass {n}"),
        }
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "setup {}", self.setup)?;
        writeln!(f, "open {}", self.tuning)?;
        self.ops.iter().try_for_each(|op| writeln!(f, "{op}"))
    }
}

/// Words of a line, with errors that name what is missing.
struct Words<'a> {
    line: &'a str,
    rest: std::str::SplitAsciiWhitespace<'a>,
}

impl<'a> Words<'a> {
    fn new(line: &'a str) -> Self {
        Self {
            line,
            rest: line.split_ascii_whitespace(),
        }
    }

    fn word(&mut self) -> Result<&'a str, String> {
        self.rest
            .next()
            .ok_or_else(|| format!("line is too short: {}", self.line))
    }

    fn number<T: std::str::FromStr>(&mut self) -> Result<T, String> {
        let word = self.word()?;
        word.parse()
            .map_err(|_| format!("not a number: {word} in: {}", self.line))
    }

    fn key(&mut self) -> Result<Vec<u8>, String> {
        key_of(self.word()?)
    }

    fn maybe(&mut self) -> Result<MaybeKey, String> {
        let word = self.word()?;
        (word != "*").then(|| key_of(word)).transpose()
    }

    fn at(&mut self) -> Result<At, String> {
        match self.word()? {
            "now" => Ok(None),
            word => word
                .strip_prefix('s')
                .and_then(|n| n.parse().ok())
                .map(Some)
                .ok_or_else(|| format!("not a point in time: {word}")),
        }
    }

    fn value(&mut self) -> Result<ValueSpec, String> {
        let word = self.word()?;
        let wrong = || format!("not a value: {word}");
        let mut parts = word.split('.');
        let mut part = || parts.next().ok_or_else(wrong);
        Ok(ValueSpec {
            stamp: part()?.parse().map_err(|_| wrong())?,
            len: part()?.parse().map_err(|_| wrong())?,
            style: u8::from(part()? == "r"),
        })
    }

    fn update(&mut self) -> Result<Update, String> {
        Ok(match self.word()? {
            "put" => Update::Put(self.key()?, self.value()?),
            "delete" => Update::Delete(self.key()?),
            "toggle" => Update::Toggle(self.key()?, self.value()?),
            "merge" => Update::Merge(self.key()?, self.value()?),
            "deleterange" => Update::DeleteRange(self.key()?, self.key()?),
            other => return Err(format!("unknown update {other}")),
        })
    }

    fn remainder(&mut self) -> String {
        self.rest.by_ref().collect::<Vec<_>>().join(" ")
    }
}

fn key_of(word: &str) -> Result<Vec<u8>, String> {
    match word.strip_prefix("0x") {
        None => Ok(word.as_bytes().to_vec()),
        Some(digits) => unhex(digits).ok_or_else(|| format!("not hexadecimal: {word}")),
    }
}

fn durability(word: &str) -> Option<Durability> {
    match word {
        "logged" => Some(Durability::Logged),
        "synced" => Some(Durability::Synced),
        "unlogged" => Some(Durability::Unlogged),
        _ => None,
    }
}

impl Op {
    /// Reads one line.
    ///
    /// # Errors
    /// A text naming what is wrong.
    pub fn parse(line: &str) -> Result<Self, String> {
        let mut w = Words::new(line);
        let verb = w.word()?;
        if let Some(d) = durability(verb) {
            return Ok(Self::Write(w.update()?, d));
        }
        Ok(match verb {
            "batch" => {
                let mut parts = line.split(" ; ");
                let head = parts.next().unwrap_or("").trim_end_matches(" ;");
                let d = head
                    .strip_prefix("batch ")
                    .and_then(|d| durability(d.trim()));
                let d = d.ok_or_else(|| format!("not a batch: {line}"))?;
                let updates = parts.map(|p| Words::new(p).update());
                Self::Batch(updates.collect::<Result<_, _>>()?, d)
            }
            "get" => Self::Get(w.key()?, w.at()?),
            "multiget" => {
                let at = w.at()?;
                Self::MultiGet(w.rest.map(key_of).collect::<Result<_, _>>()?, at)
            }
            "scan" | "scanback" => Self::Scan {
                lower: w.maybe()?,
                upper: w.maybe()?,
                back: verb == "scanback",
                at: w.at()?,
            },
            "within" => Self::Within(w.key()?, w.at()?),
            "iter" => Self::Iter {
                slot: w.number()?,
                lower: w.maybe()?,
                upper: w.maybe()?,
                at: w.at()?,
            },
            "seek" => Self::Seek(w.number()?, w.key()?),
            "seekforprev" => Self::SeekForPrev(w.number()?, w.key()?),
            "first" => Self::First(w.number()?),
            "last" => Self::Last(w.number()?),
            "next" => Self::Next(w.number()?, w.number()?),
            "prev" => Self::Prev(w.number()?, w.number()?),
            "refresh" => Self::Refresh(w.number()?),
            "dropiter" => Self::DropIter(w.number()?),
            "snapshot" => Self::Snapshot(w.number()?),
            "release" => Self::Release(w.number()?),
            "flush" => Self::Flush(true),
            "startflush" => Self::Flush(false),
            "sync" => Self::Sync,
            "compact" => Self::Compact(w.maybe()?, w.maybe()?),
            "work" => Self::Work(w.number()?),
            "reopen" => Self::Reopen(Tuning::parse(&w.remainder())?),
            "kill" => Self::Kill(Tuning::parse(&w.remainder())?),
            "powerloss" => Self::PowerLoss {
                after: w.number()?,
                choice: w.number()?,
                tuning: Tuning::parse(&w.remainder())?,
            },
            "readonly" => Self::ReadOnly,
            "recreate" => Self::Recreate(w.number()?),
            "pass" => Self::Pass(w.number()?),
            other => return Err(format!("unknown operation {other}")),
        })
    }
}

impl Program {
    /// The options of every open.
    pub fn tunings(&self) -> impl Iterator<Item = &Tuning> {
        let later = self.ops.iter().filter_map(|op| match op {
            Op::Reopen(t) | Op::Kill(t) | Op::PowerLoss { tuning: t, .. } => Some(t),
            _ => None,
        });
        std::iter::once(&self.tuning).chain(later)
    }

    /// Returns whether one of these families ever writes tables without checksums, whose damage nothing notices.
    pub fn has_unchecked(&self, mut families: std::ops::Range<u64>) -> bool {
        families.any(|f| self.tunings().any(|t| t.of_family(f).checksum == 0))
    }

    /// Reads the text form; empty lines and lines that begin with `#` are skipped.
    ///
    /// # Errors
    /// A text naming the line and what is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut lines = text
            .lines()
            .map(str::trim)
            .filter(|l| !l.is_empty() && !l.starts_with('#'));
        let mut head = |word: &str| {
            let line = lines.next().unwrap_or("");
            line.strip_prefix(word)
                .map(str::to_string)
                .ok_or_else(|| format!("expected a line `{word} …`, found: {line}"))
        };
        let setup = Setup::parse(&head("setup")?)?;
        let tuning = Tuning::parse(&head("open")?)?;
        let ops = lines.map(Op::parse).collect::<Result<_, _>>()?;
        Ok(Self { setup, tuning, ops })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_begins_with_its_stamp_and_has_its_length() {
        let spec = |len, style| ValueSpec {
            stamp: 0x0102,
            len,
            style,
        };
        assert_eq!(spec(3, 0).bytes(), [2, 1, 0]);
        assert_eq!(spec(0, 1).bytes(), b"");
        let long = spec(100, 1).bytes();
        assert_eq!(
            (long.len(), &long[..8]),
            (100, &[2, 1, 0, 0, 0, 0, 0, 0][..])
        );
    }

    #[test]
    fn a_line_that_is_no_operation_is_refused_with_its_text() {
        for (line, want) in [
            ("get", "line is too short: get"),
            ("next 0 x", "not a number: x in: next 0 x"),
            ("logged jump a", "unknown update jump"),
            ("dance", "unknown operation dance"),
            ("get a then", "not a point in time: then"),
        ] {
            assert_eq!(Op::parse(line).unwrap_err(), want);
        }
    }
}
