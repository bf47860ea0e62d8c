//! Logs and tables that lie where the directory was last opened with, and not where they are looked for now.
//!
//! `wal_dir` is an option that every open gives anew. Opened with another one after a crash, RocksDB finds no log,
//! takes the database for one that was flushed, and numbers on; what was only logged is gone, and the old logs become
//! obsolete. The newest OPTIONS file says where the logs were.
//!
//! `db_paths` and `cf_paths` are given anew by every open, too. With others tables are missing; where they were stands in
//! the file `SPANLITH`, or one of the directories that are given has them in another place of the list.

use super::request::OpenRequest;
use crate::options::Sidecar;
use crate::options::ini::parse_db_options;
use crate::options::sidecar::SIDECAR_FILE;
use crate::version::{FileKind, FilePaths, filenames, parse_file_name};
use spanlith_base::byte_text::text_of_bytes;
use spanlith_base::{Error, FileNumber, Result};
use spanlith_env::{FileSystem, SequentialFile};
use spanlith_wal::{BatchIter, LogReader, ReadEvent};
use std::path::{Path, PathBuf};

/// Longest OPTIONS file that is read.
const OPTIONS_MAX: u64 = 16 << 20;

/// Refuses to open without the logs that are in the directory that the newest OPTIONS file names. `here` are the logs
/// found in that of the request, of which `first` is the first that may be needed. A directory that nobody has had
/// open (`was_open`) is a copy: its options name the logs of the original.
///
/// # Errors
/// `InvalidArgument` that names both directories; those of listing.
pub(super) fn check_elsewhere(
    request: &OpenRequest,
    here: &[FileNumber],
    first: FileNumber,
    was_open: bool,
) -> Result<()> {
    if request.options.best_efforts_recovery {
        return Ok(());
    }
    let (fs, given) = (&request.env.fs, request.wal_dir());
    // Where the logs hold updates, they are those of whoever wrote last.
    let holds =
        |n: &FileNumber| has_updates(request, &given.join(filenames::log_file_name(*n)), *n);
    if !was_open || here.iter().any(holds) {
        return Ok(());
    }
    let Some((name, recorded)) = recorded_wal_dir(request)? else {
        return Ok(());
    };
    if recorded == given {
        return Ok(());
    }
    let Ok(names) = fs.list(&recorded) else {
        return Ok(());
    };
    let mut logs: Vec<FileNumber> = Vec::new();
    for log in &names {
        if let Some(FileKind::Log(n)) = parse_file_name(log)
            && n >= first
            && has_updates(request, &recorded.join(log), n)
        {
            logs.push(n);
        }
    }
    let Some(oldest) = logs.iter().min() else {
        return Ok(());
    };
    // The same directory by another name.
    let canonical = |dir: &PathBuf| std::path::absolute(dir).ok();
    if canonical(&recorded) == canonical(&given) {
        return Ok(());
    }
    Err(Error::invalid_argument(format!(
        "wal_dir is {}, where there is no log, but {name} says that the logs are in {}, and log {oldest:06} is there, \
         which recovery needs: open with that directory, or move its logs",
        given.display(),
        recorded.display(),
    ))
    .with_path(&recorded.join(filenames::log_file_name(*oldest))))
}

/// Why the table called `name` of a family is not in `given`, the directories of its tables, if it lies somewhere else
/// that is known.
pub(super) fn table_elsewhere(
    request: &OpenRequest,
    family: &str,
    given: &FilePaths,
    name: &str,
) -> Option<Error> {
    let fs = &request.env.fs;
    let there = |dir: &Path| fs.size(&dir.join(name)).is_ok();
    let list = |dirs: &mut dyn Iterator<Item = &Path>| {
        let dirs: Vec<_> = dirs.map(|d| d.display().to_string()).collect();
        dirs.join(", ")
    };
    let given_list = list(&mut given.dirs());
    let sidecar = Sidecar::load(&request.env, &request.dir).ok().flatten();
    let recorded = sidecar.map(|s| s.directories).unwrap_or_default();
    let recorded = recorded.into_iter().find(|d| d.0 == family);
    let recorded = recorded.map(|d| d.1).unwrap_or_default();
    if recorded.iter().any(|dir| there(dir)) {
        let was = list(&mut recorded.iter().map(PathBuf::as_path));
        return Some(Error::invalid_argument(format!(
            "tables of family {family} are looked for in {given_list}, but {SIDECAR_FILE} says that they are in {was}, and \
             {name} is there: open with these directories in this order, or move the tables"
        )));
    }
    let mut known = given.dirs().chain([request.dir.as_path()]);
    let at = known.find(|dir| there(dir))?;
    Some(Error::invalid_argument(format!(
        "tables of family {family} are looked for in {given_list}, each where its place in the list says, but {name} is in \
         {}: open with the directories that the database had, in their order, or move the table",
        at.display()
    )))
}

/// Returns whether a log has updates, and not only notes about the database. One that cannot be read may have some.
fn has_updates(request: &OpenRequest, path: &Path, number: FileNumber) -> bool {
    let Ok(file) = request.env.fs.open_sequential(path) else {
        return false;
    };
    let mut reader = LogReader::new(file, number);
    loop {
        match reader.next_event() {
            Ok(ReadEvent::Record { .. }) => {
                if BatchIter::new(reader.record()).is_ok_and(|batch| batch.header_count() > 0) {
                    return true;
                }
            }
            Ok(ReadEvent::Eof | ReadEvent::OldRecord { .. }) => return false,
            Ok(ReadEvent::Corruption { tail, .. }) => return !tail,
            Ok(_) => {}
            Err(_) => return true,
        }
    }
}

/// Titles of the section of the database, and of the first family, in an OPTIONS file.
const DATABASE: &[u8] = b"\n[DBOptions]";
const FAMILIES: &[u8] = b"\n[CFOptions ";

/// The beginning of a file up to the sections of families, of which there may be thousands, and whether there are any.
fn front(mut file: Box<dyn SequentialFile>) -> Result<(Vec<u8>, bool)> {
    let (mut bytes, mut looked_at) = (Vec::new(), 0);
    let mut buf = [0; 8 << 10];
    loop {
        match file.read(&mut buf)? {
            0 => return Ok((bytes, false)),
            read => bytes.extend_from_slice(&buf[..read]),
        }
        if let Some(end) = find(&bytes[looked_at..], FAMILIES) {
            bytes.truncate(looked_at + end);
            return Ok((bytes, true));
        }
        if bytes.len() as u64 > OPTIONS_MAX {
            return Ok((bytes, false));
        }
        looked_at = bytes.len().saturating_sub(FAMILIES.len() - 1);
    }
}

fn find(bytes: &[u8], text: &[u8]) -> Option<usize> {
    let (first, len) = (text.first()?, text.len());
    let mut from = 0;
    while let Some(at) = bytes.get(from..)?.iter().position(|byte| byte == first) {
        from += at;
        if bytes.get(from..from + len)? == text {
            return Some(from);
        }
        from += 1;
    }
    None
}

/// The directory of logs that `front`, the beginning of an OPTIONS file, records; `None` if it does not say so in the way of
/// files that no hand made. The default is not written.
fn wal_dir_in_front(front: &[u8]) -> Option<String> {
    let section = &front[find(front, DATABASE)?..];
    let Some(at) = find(section, b"wal_dir") else {
        return Some(String::new());
    };
    let line = section[..at]
        .strip_suffix(b"\n  ")
        .map(|_| &section[at..])?;
    let line = &line[..find(line, b"\n")?];
    let text = format!("[DBOptions]\n{}", text_of_bytes(line));
    Some(parse_db_options(&text).ok()??.wal_dir)
}

/// The directory of logs that the OPTIONS file at `path` records; `None` if it cannot be understood. It is in front of the
/// families, and no more is read than that.
fn wal_dir_of(fs: &dyn FileSystem, path: &Path) -> Option<String> {
    let (bytes, is_front) = front(fs.open_sequential(path).ok()?).ok()?;
    wal_dir_in_front(&bytes).or_else(|| {
        // A file that was made by hand may have it elsewhere.
        let whole = match is_front {
            true => fs.read_all(path, OPTIONS_MAX).ok()?,
            false => bytes,
        };
        Some(parse_db_options(&text_of_bytes(&whole)).ok()??.wal_dir)
    })
}

/// Name of the newest OPTIONS file and the directory of logs that it records; `None` if there is none that can be
/// understood.
fn recorded_wal_dir(request: &OpenRequest) -> Result<Option<(String, PathBuf)>> {
    let (fs, dir) = (&request.env.fs, &request.dir);
    let names = fs.list(dir)?;
    let numbers = names.iter().filter_map(|name| match parse_file_name(name) {
        Some(FileKind::Options(n)) => Some(n),
        _ => None,
    });
    let Some(number) = numbers.max() else {
        return Ok(None);
    };
    let name = filenames::options_file_name(number);
    let recorded = wal_dir_of(&**fs, &dir.join(&name));
    Ok(recorded.map(|recorded| match recorded.as_str() {
        "" => (name, dir.clone()),
        other => (name, PathBuf::from(other)),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanlith_env::{IoActivity, MemFs};

    /// An open reads no more than the options of the database, as far as they come first.
    #[test]
    fn families_need_not_be_understood_for_the_directory_of_logs() {
        let fs = MemFs::new();
        let path = Path::new("/OPTIONS-000007");
        let wal_dir = |text: &str| {
            let mut file = fs.create(path, IoActivity::Other).unwrap();
            file.append(text.as_bytes()).unwrap();
            file.close().unwrap();
            wal_dir_of(&fs, path)
        };
        let head = "[Version]\n  rocksdb_version=11.8.1\n  options_file_version=1.1\n";
        let db = "\n[DBOptions]\n  wal_dir=/lo\\#gs\n";
        let families = "\n[CFOptions \"default\"]\n  ttl=1\n";
        // The title of the families crosses two reads.
        let long = format!("#{}\n", "x".repeat((8 << 10) - head.len() - db.len() - 6));
        for text in [
            format!("{head}{db}"),
            format!("{head}{db}{families}"),
            format!("{head}{long}{db}{families}"),
            format!("{head}{db}{families}no statement\n[Nothing"),
            format!("{head}{families}{db}"),
            format!("{head}\n[DBOptions]\nwal_dir = /lo\\#gs{families}"),
        ] {
            assert_eq!(wal_dir(&text).as_deref(), Some("/lo#gs"), "{text}");
        }
        let in_front = |text: String| wal_dir_in_front(text.as_bytes());
        assert_eq!(in_front(format!("{head}{db}")).as_deref(), Some("/lo#gs"));
        assert_eq!(
            in_front(format!("{head}\n[DBOptions]\n  wal=1\n")).as_deref(),
            Some("")
        );
        assert_eq!(wal_dir(&format!("{head}{families}")), None);
        assert_eq!(wal_dir("no statement"), None);
    }
}
