//! Names of the files of a database directory.
//!
//! All numbered kinds share one counter. Numbers are decimal, padded with zeros to six digits when
//! written and of any length when read. Names not listed here belong to somebody else and are never
//! touched.
//!
//! ```text
//! CURRENT  LOCK  IDENTITY  LOG  LOG.old.T
//! MANIFEST-N  OPTIONS-N  OPTIONS-N.dbtmp  METADB-N
//! N.log  N.sst (or N.ldb)  N.blob  N.dbtmp
//! ```

use super::CurrentMarks;
use spanlith_base::{Error, Result};

/// Name of the file that names the live MANIFEST.
pub const CURRENT_FILE: &str = "CURRENT";
/// Name of the lock file.
pub const LOCK_FILE: &str = "LOCK";
/// Name of the file that holds the database id.
pub const IDENTITY_FILE: &str = "IDENTITY";
/// Name of the info log.
pub const INFO_LOG_FILE: &str = "LOG";
/// Folder below the folder of the logs that keeps obsolete logs.
pub const ARCHIVE_DIR: &str = "archive";
/// Suffix of a file that was renamed and waits for its deletion.
pub const TRASH_SUFFIX: &str = ".trash";

/// Describes what the name of a file in a database directory says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileKind {
    /// `CURRENT`.
    Current,
    /// `LOCK`.
    Lock,
    /// `IDENTITY`.
    Identity,
    /// `MANIFEST-N`.
    Manifest(u64),
    /// `N.log`.
    Log(u64),
    /// `N.sst` or `N.ldb`.
    Table(u64),
    /// `N.blob`.
    Blob(u64),
    /// `OPTIONS-N`.
    Options(u64),
    /// `OPTIONS-N.dbtmp`.
    OptionsTemp(u64),
    /// `N.dbtmp`.
    Temp(u64),
    /// `METADB-N`, obsolete, recognised only.
    MetaDb(u64),
    /// `LOG`.
    InfoLog,
    /// `LOG.old.T`; T is in microseconds, 0 when the name has none.
    OldInfoLog(u64),
}

impl FileKind {
    /// The number drawn from the shared counter, if the kind has one.
    pub fn number(self) -> Option<u64> {
        match self {
            Self::Manifest(n)
            | Self::Log(n)
            | Self::Table(n)
            | Self::Blob(n)
            | Self::Options(n)
            | Self::OptionsTemp(n)
            | Self::Temp(n)
            | Self::MetaDb(n) => Some(n),
            Self::Current | Self::Lock | Self::Identity | Self::InfoLog | Self::OldInfoLog(_) => {
                None
            }
        }
    }
}

/// `N.sst`.
pub fn table_file_name(number: u64) -> String {
    format!("{number:06}.sst")
}

/// `N.ldb`, the older suffix, tried when the `.sst` is absent.
pub fn legacy_table_file_name(number: u64) -> String {
    format!("{number:06}.ldb")
}

/// `N.log`.
pub fn log_file_name(number: u64) -> String {
    format!("{number:06}.log")
}

/// `N.blob`.
pub fn blob_file_name(number: u64) -> String {
    format!("{number:06}.blob")
}

/// `MANIFEST-N`.
pub fn manifest_file_name(number: u64) -> String {
    format!("MANIFEST-{number:06}")
}

/// `OPTIONS-N`.
pub fn options_file_name(number: u64) -> String {
    format!("OPTIONS-{number:06}")
}

/// `OPTIONS-N.dbtmp`.
pub fn options_temp_file_name(number: u64) -> String {
    format!("OPTIONS-{number:06}.dbtmp")
}

/// `N.dbtmp`.
pub fn temp_file_name(number: u64) -> String {
    format!("{number:06}.dbtmp")
}

/// `LOG.old.T`, `T` in microseconds.
pub fn old_info_log_file_name(micros: u64) -> String {
    format!("{INFO_LOG_FILE}.old.{micros}")
}

/// Prefix of the info log's name when it lies outside the database directory: the absolute path of
/// the database without its leading `/`, unusual characters replaced by `_`, then `_LOG`.
pub fn info_log_prefix(absolute_db_path: &str) -> String {
    let path = absolute_db_path
        .strip_prefix('/')
        .unwrap_or(absolute_db_path);
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let mut flat: String = path
        .chars()
        .map(|c| if plain(c) { c } else { '_' })
        .collect();
    flat.push('_');
    flat.push_str(INFO_LOG_FILE);
    flat
}

/// Content of `CURRENT` that makes `MANIFEST-manifest_number` the live one.
pub fn current_content(manifest_number: u64) -> String {
    format!("{}\n", manifest_file_name(manifest_number))
}

/// The same, and what else stands on a speed disk.
pub fn marked_current_content(manifest_number: u64, marks: &CurrentMarks) -> String {
    current_content(manifest_number) + &marks.lines()
}

/// The number of the MANIFEST that the content of `CURRENT` names, for readers who know nothing of speed disks.
///
/// # Errors
/// `Corruption` if it does not end with a newline or is anything but one MANIFEST name; `NotSupported` if logs or tables are
/// on a speed disk.
pub fn parse_current(content: &[u8]) -> Result<u64> {
    let (number, marks) = parse_marked_current(content)?;
    let what = match (&marks.logs, &marks.tables) {
        (None, None) => return Ok(number),
        (Some(mark), _) => format!(
            "the logs of this database are on the speed disk {}",
            mark.target
        ),
        (None, Some(mark)) => format!("tables of this database are in {}", mark.dir),
    };
    Err(Error::not_supported(format!(
        "{what}, of which this knows nothing"
    )))
}

/// The number of the MANIFEST that the content of `CURRENT` names, and what stands on a speed disk.
///
/// # Errors
/// As [`parse_current`], `NotSupported` for marks of a later release only.
pub fn parse_marked_current(content: &[u8]) -> Result<(u64, CurrentMarks)> {
    let first = content.iter().position(|&b| b == b'\n').map(|at| at + 1);
    if let Some((name, marks)) = first.and_then(|at| content.split_at_checked(at))
        && !marks.is_empty()
        && let Some(marks) = CurrentMarks::parse(marks)?
    {
        return Ok((parse_plain_current(name)?, marks));
    }
    Ok((parse_plain_current(content)?, CurrentMarks::default()))
}

fn parse_plain_current(content: &[u8]) -> Result<u64> {
    let Some((b'\n', name)) = content.split_last() else {
        return Err(Error::corruption("CURRENT file does not end with newline"));
    };
    match std::str::from_utf8(name).ok().and_then(parse_file_name) {
        Some(FileKind::Manifest(n)) => Ok(n),
        _ => Err(Error::corruption("CURRENT file corrupted")),
    }
}

/// Returns whether the file was renamed for a later deletion; leftovers are deleted at open.
pub fn is_trash(name: &str) -> bool {
    name.len() > TRASH_SUFFIX.len() && name.ends_with(TRASH_SUFFIX)
}

/// Largest file number: RocksDB keeps the number of a path in the two bits above.
pub const FILE_NUMBER_MAX: u64 = (1 << 62) - 1;

/// Returns what `name` means in a database directory whose info log has its plain name; `None` if unknown, or if
/// its number is larger than any file's.
pub fn parse_file_name(name: &str) -> Option<FileKind> {
    parse_file_name_with_log_prefix(name, INFO_LOG_FILE)
}

/// As [`parse_file_name`], with the name of the info log given (see [`info_log_prefix`]).
pub fn parse_file_name_with_log_prefix(name: &str, log_prefix: &str) -> Option<FileKind> {
    let kind = parse_any_number(name, log_prefix)?;
    let number = kind.number().unwrap_or(0);
    (number <= FILE_NUMBER_MAX).then_some(kind)
}

fn parse_any_number(name: &str, log_prefix: &str) -> Option<FileKind> {
    let name = name.strip_prefix('/').unwrap_or(name);
    match name {
        CURRENT_FILE => return Some(FileKind::Current),
        LOCK_FILE => return Some(FileKind::Lock),
        IDENTITY_FILE => return Some(FileKind::Identity),
        _ => {}
    }
    if let Some(rest) = name.strip_prefix(log_prefix) {
        if rest.is_empty() {
            return Some(FileKind::InfoLog);
        }
        if rest == ".old" {
            return Some(FileKind::OldInfoLog(0));
        }
        let stamp = rest.strip_prefix(".old.")?;
        return Some(FileKind::OldInfoLog(whole_number(stamp)?));
    }
    if let Some(rest) = name.strip_prefix("MANIFEST-") {
        return Some(FileKind::Manifest(whole_number(rest)?));
    }
    if let Some(rest) = name.strip_prefix("METADB-") {
        return Some(FileKind::MetaDb(whole_number(rest)?));
    }
    if let Some(rest) = name.strip_prefix("OPTIONS-") {
        return match rest.strip_suffix(".dbtmp") {
            Some(number) => Some(FileKind::OptionsTemp(whole_number(number)?)),
            None => Some(FileKind::Options(whole_number(rest)?)),
        };
    }
    let (number, suffix) = name.split_once('.')?;
    let number = whole_number(number)?;
    Some(match suffix {
        "log" => FileKind::Log(number),
        "sst" | "ldb" => FileKind::Table(number),
        "blob" => FileKind::Blob(number),
        "dbtmp" => FileKind::Temp(number),
        _ => return None,
    })
}

/// Digits and nothing else, within 64 bits.
fn whole_number(digits: &str) -> Option<u64> {
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_written_name_parses_back() {
        for n in [0, 5, 999_999, 1_234_567, FILE_NUMBER_MAX] {
            let pairs = [
                (table_file_name(n), FileKind::Table(n)),
                (legacy_table_file_name(n), FileKind::Table(n)),
                (log_file_name(n), FileKind::Log(n)),
                (blob_file_name(n), FileKind::Blob(n)),
                (manifest_file_name(n), FileKind::Manifest(n)),
                (options_file_name(n), FileKind::Options(n)),
                (options_temp_file_name(n), FileKind::OptionsTemp(n)),
                (temp_file_name(n), FileKind::Temp(n)),
                (old_info_log_file_name(n), FileKind::OldInfoLog(n)),
            ];
            for (name, kind) in pairs {
                assert_eq!(parse_file_name(&name), Some(kind), "{name}");
                assert_eq!(parse_file_name(&format!("/{name}")), Some(kind), "/{name}");
                assert_eq!(parse_file_name(&format!("{name}x")), None, "{name}x");
                assert_eq!(parse_file_name(&format!(" {name}")), None);
            }
        }
        for n in [FILE_NUMBER_MAX + 1, u64::MAX] {
            for name in [table_file_name(n), log_file_name(n), manifest_file_name(n)] {
                assert_eq!(parse_file_name(&name), None, "{name}");
            }
        }
        assert_eq!(table_file_name(7), "000007.sst");
        assert_eq!(table_file_name(1_234_567), "1234567.sst");
    }

    #[test]
    fn fixed_names_match_exactly_and_padding_is_not_required() {
        assert_eq!(parse_file_name("CURRENT"), Some(FileKind::Current));
        assert_eq!(parse_file_name("LOCK"), Some(FileKind::Lock));
        assert_eq!(parse_file_name("IDENTITY"), Some(FileKind::Identity));
        assert_eq!(parse_file_name("LOG"), Some(FileKind::InfoLog));
        assert_eq!(
            parse_file_name("LOG.old.1700"),
            Some(FileKind::OldInfoLog(1700))
        );
        assert_eq!(parse_file_name("5.sst"), Some(FileKind::Table(5)));
        assert_eq!(parse_file_name("METADB-2"), Some(FileKind::MetaDb(2)));
        assert_eq!(FileKind::OldInfoLog(1700).number(), None);
        assert_eq!(FileKind::Temp(9).number(), Some(9));
    }

    #[test]
    fn foreign_names_are_unknown() {
        let foreign = [
            "",
            ".",
            "..",
            "/",
            "CURRENTx",
            "current",
            "MANIFEST-",
            "MANIFEST-x",
            "MANIFEST-+3",
            "MANIFEST-3.dbtmp",
            "OPTIONS-",
            "OPTIONS-7.tmp",
            "OPTIONS-.dbtmp",
            "000005",
            "5.",
            ".sst",
            "5.SST",
            "5.sst.trash",
            "-5.sst",
            "+5.sst",
            "0x5.sst",
            "18446744073709551616.sst",
            "LOGx",
            "LOG.old.x",
            "lost",
            "archive",
            "COMPACTION_PROGRESS-5",
        ];
        for name in foreign {
            assert_eq!(parse_file_name(name), None, "{name:?}");
        }
        assert!(is_trash("000005.sst.trash"));
        assert!(!is_trash(".trash"));
    }

    #[test]
    fn an_info_log_elsewhere_carries_the_flattened_path() {
        let prefix = info_log_prefix("/data/my db/x-1");
        assert_eq!(prefix, "data_my_db_x-1_LOG");
        let parse = |name: &str| parse_file_name_with_log_prefix(name, &prefix);
        assert_eq!(parse("data_my_db_x-1_LOG"), Some(FileKind::InfoLog));
        assert_eq!(
            parse("data_my_db_x-1_LOG.old.4"),
            Some(FileKind::OldInfoLog(4))
        );
        assert_eq!(parse("LOG"), None);
    }

    #[test]
    fn current_must_be_one_manifest_name_and_a_newline() {
        assert_eq!(parse_current(current_content(5).as_bytes()).unwrap(), 5);
        assert_eq!(parse_current(b"/MANIFEST-000005\n").unwrap(), 5);
        for bad in [&b""[..], b"MANIFEST-000005"] {
            let e = parse_current(bad).unwrap_err();
            assert_eq!(
                e.to_string(),
                "Corruption: CURRENT file does not end with newline"
            );
        }
        for bad in [
            &b"\n"[..],
            b"000005.sst\n",
            b"MANIFEST-000005\nMANIFEST-000006\n",
            b"\xff\n",
        ] {
            let e = parse_current(bad).unwrap_err();
            assert_eq!(e.to_string(), "Corruption: CURRENT file corrupted");
        }
    }
}
