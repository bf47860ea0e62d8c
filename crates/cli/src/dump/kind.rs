//! Describes what kind of file a file is: by what it holds and, where that does not tell, by its name.
//!
//! A verb that is given a file of another kind says what it is and which verb shows it, instead of calling it
//! damaged.

use crate::fail::{At, Failure, shell_word, way_out};
use spanlith::blob::{BlobHeader, HEADER_LEN, read_range};
use spanlith::version::{FileKind, VersionEdit, filenames, parse_file_name};
use spanlith::{Error, ErrorKind, SubCode};
use spanlith_env::Env;
use spanlith_wal::{BatchIter, LogReader, ReadEvent};
use std::path::Path;

/// Longest file that is read as a whole in order to know it.
const SMALL_MAX: u64 = 4096;
/// Last eight bytes of table files: block-based ones of RocksDB and of LevelDB.
const TABLE_MAGICS: [u64; 2] = [0x88e2_41b7_85f4_cff7, 0xdb47_7524_8b80_fb57];
/// Beginning of OPTIONS files that RocksDB writes.
const OPTIONS_HEAD: &[u8] = b"# This is a RocksDB option file";
/// In the first record of traces.
const TRACE_MAGIC: &[u8] = b"feedcafedeadbeef";

/// A kind of file that a verb shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Table,
    Log,
    Manifest,
    Blob,
    Options,
    Trace,
    Current,
    Identity,
    /// The info log, `LOG`.
    InfoLog,
}

impl Kind {
    /// The kind with its article.
    pub fn name(self) -> &'static str {
        match self {
            Self::Table => "a table",
            Self::Log => "a write-ahead log",
            Self::Manifest => "a MANIFEST",
            Self::Blob => "a blob file",
            Self::Options => "an OPTIONS file",
            Self::Trace => "a trace",
            Self::Current => "a CURRENT file, which names the MANIFEST",
            Self::Identity => "an IDENTITY file, which holds the id of the database",
            Self::InfoLog => "the info log of a database, which is text",
        }
    }

    /// The command that shows such a file.
    fn verb(self, path: &Path) -> String {
        let file = shell_word(path);
        match self {
            Self::Table => format!("spanlith sst dump {file}"),
            Self::Log => format!("spanlith wal dump {file}"),
            Self::Manifest => format!("spanlith manifest dump {file}"),
            Self::Blob => format!("spanlith blob dump {file}"),
            Self::Options => format!("spanlith options dump {file}"),
            Self::Trace => format!("spanlith trace dump {file}"),
            Self::Current | Self::Identity | Self::InfoLog => format!("cat {file}"),
        }
    }
}

/// The kind that the name of a file says.
fn by_name(path: &Path) -> Option<Kind> {
    let name = path.file_name()?.to_string_lossy();
    match parse_file_name(&name)? {
        FileKind::Table(_) => Some(Kind::Table),
        FileKind::Log(_) => Some(Kind::Log),
        FileKind::Manifest(_) => Some(Kind::Manifest),
        FileKind::Blob(_) => Some(Kind::Blob),
        FileKind::Options(_) => Some(Kind::Options),
        FileKind::Current => Some(Kind::Current),
        FileKind::Identity => Some(Kind::Identity),
        FileKind::InfoLog | FileKind::OldInfoLog(_) => Some(Kind::InfoLog),
        _ => None,
    }
}

/// The kind of a file; `None` if neither its bytes nor its name tell.
pub fn of(path: &Path) -> Option<Kind> {
    let fs = Env::system().fs;
    let size = fs.size(path).ok()?;
    let file = fs.open_random(path).ok()?;
    let end = read_range(&file, size.saturating_sub(8), size.min(8)).ok()?;
    let magic = <[u8; 8]>::try_from(end.as_slice()).map(u64::from_le_bytes);
    if magic.is_ok_and(|magic| TABLE_MAGICS.contains(&magic)) {
        return Some(Kind::Table);
    }
    let head = read_range(&file, 0, size.min(SMALL_MAX)).ok()?;
    let header = head.get(..HEADER_LEN).map(BlobHeader::decode);
    if header.is_some_and(|header| header.is_ok()) {
        return Some(Kind::Blob);
    }
    if head.starts_with(OPTIONS_HEAD) {
        return Some(Kind::Options);
    }
    if head
        .windows(TRACE_MAGIC.len())
        .take(64)
        .any(|w| w == TRACE_MAGIC)
    {
        return Some(Kind::Trace);
    }
    if filenames::parse_current(&head).is_ok() && size <= SMALL_MAX {
        return Some(Kind::Current);
    }
    by_records(path).or_else(|| by_name(path))
}

/// Tells logs and MANIFESTs by their first record.
fn by_records(path: &Path) -> Option<Kind> {
    let number = path
        .file_name()
        .and_then(|n| parse_file_name(&n.to_string_lossy()))
        .and_then(FileKind::number)
        .unwrap_or(0);
    for number in [number, 0] {
        let file = Env::system().fs.open_sequential(path).ok()?;
        let mut reader = LogReader::new(file, number);
        if !matches!(reader.next_event(), Ok(ReadEvent::Record { .. })) {
            continue;
        }
        let record = reader.record();
        let is_batch = || {
            let mut batch = BatchIter::new(record).ok()?;
            batch.all(|op| op.is_ok()).then_some(())
        };
        if VersionEdit::decode(record).is_ok() {
            return Some(Kind::Manifest);
        }
        if is_batch().is_some() {
            return Some(Kind::Log);
        }
    }
    None
}

/// Refuses a path at which no file of the kind stands: nothing, a directory, a file of another kind.
///
/// # Errors
/// [`Failure`] that says what stands there, and what to do.
pub fn expect(path: &Path, wanted: Kind) -> anyhow::Result<()> {
    match is_another(path, wanted) {
        Some((what, hint)) => Err(Failure::new(what, hint).into()),
        None => Ok(()),
    }
}

/// Returns what stands at a path instead of a file of the kind, and what to do; `None` if it may be one.
pub fn is_another(path: &Path, wanted: Kind) -> Option<(String, String)> {
    let shown = path.display();
    if path.is_dir() {
        let inside =
            crate::fail::holds_remains(path) || path.join(filenames::CURRENT_FILE).exists();
        let hint = match inside {
            true => format!(
                "name a file in it: ls {0}; the whole database: spanlith db info --db {0}",
                shell_word(path)
            ),
            false => format!("name a file: ls {}", shell_word(path)),
        };
        return Some((
            format!("{shown} is a directory, not {}", wanted.name()),
            hint,
        ));
    }
    if !path.exists() {
        let hint = format!("check the path: ls {}", shell_word(super::folder(path)));
        return Some((format!("{shown}: there is no such file"), hint));
    }
    let kind = of(path)?;
    // An empty file, or a damaged one, is what its name says.
    let is_it = kind == wanted || by_name(path) == Some(wanted);
    (!is_it).then(|| {
        (
            format!("{shown} is {}, not {}", kind.name(), wanted.name()),
            format!("{} shows it", kind.verb(path)),
        )
    })
}

/// Says which file an engine's error is about, and so what to do next.
pub trait AtFile<T> {
    /// Turns an engine's error about one file into a [`Failure`].
    fn at_file(self, path: &Path) -> anyhow::Result<T>;
}

impl<T> AtFile<T> for Result<T, Error> {
    fn at_file(self, path: &Path) -> anyhow::Result<T> {
        let folder = super::folder(path);
        match self {
            Err(e) if e.subcode() == Some(SubCode::PathNotFound) => Err(Failure::new(
                format!("{}: there is no such file", path.display()),
                format!("check the path: ls {}", shell_word(folder)),
            )
            .into()),
            Err(e) if e.kind() == ErrorKind::Corruption => {
                let hint = match folder.join(filenames::CURRENT_FILE).exists() {
                    true => way_out(&e, folder),
                    false => format!(
                        "restore {} from a copy; its other files stay readable",
                        shell_word(path)
                    ),
                };
                Err(Failure::new(e.to_string(), hint).into())
            }
            other => other.at(folder),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanlith_testkit::{TempDir, golden_case, test_name};

    #[test]
    fn files_are_known_by_what_they_hold_whatever_their_names() {
        let temp = TempDir::new(test_name!());
        let mut seen = Vec::new();
        for case in ["default", "blob"] {
            let dir = golden_case("golden-11.8", case).copy_to(temp.join(case));
            for entry in std::fs::read_dir(&dir).unwrap() {
                let path = entry.unwrap().path();
                let Some(named) = by_name(&path) else {
                    continue;
                };
                if std::fs::metadata(&path).unwrap().len() == 0 {
                    continue;
                }
                assert_eq!(of(&path), Some(named), "{}", path.display());
                let other = temp.join("nameless");
                std::fs::copy(&path, &other).unwrap();
                if ![Kind::Identity, Kind::InfoLog].contains(&named) {
                    assert_eq!(of(&other), Some(named), "{}", path.display());
                }
                seen.push(named);
            }
        }
        for kind in [
            Kind::Table,
            Kind::Log,
            Kind::Manifest,
            Kind::Blob,
            Kind::Options,
        ] {
            assert!(seen.contains(&kind), "{kind:?}");
        }
    }
}
