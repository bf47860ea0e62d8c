//! The list of the files of a backup, `meta/ID`, in RocksDB's form.
//!
//! ```text
//! schema_version 2.1                       not in the first schema
//! <Unix seconds>
//! <sequence number>
//! metadata <hexadecimal>                   only if the program gave some
//! <number of files, without those left out>
//! <path below the backup directory> crc32 <CRC32C, decimal>
//! ```
//!
//! The second schema has further fields, in pairs, in the header, after each file and after the last file. Fields
//! that are not known are ignored, unless their name begins with `ni::`.

use crate::version::{FileKind, parse_file_name};
use spanlith_base::{Error, Result};
use std::collections::HashSet;
use std::fmt::Write;

/// Directory of lists.
pub(super) const META_DIR: &str = "meta";
/// Directory of files that one backup has for itself, in a directory by its number.
pub(super) const PRIVATE_DIR: &str = "private";
/// Directory of tables that backups share by the number of the file.
pub(super) const SHARED_DIR: &str = "shared";
/// Directory of tables that backups share by a name that says where they come from.
pub(super) const SHARED_CHECKSUM_DIR: &str = "shared_checksum";

/// Largest list that is read, in bytes; a line has some 80.
pub(super) const BYTES_MAX: u64 = 1 << 28;

/// Before the number of a schema.
const SCHEMA: &str = "schema_version ";
/// Behind the last file, before more fields.
const FOOTER: &str = "// FOOTER";
/// Name of the field of the program's metadata.
const METADATA: &str = "metadata";
/// Field of a file that is in another backup directory.
const EXCLUDED: &str = "ni::excluded";
/// How names of fields begin that whoever does not know them may not pass over.
const NOT_IGNORED: &str = "ni::";

/// A file of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MetaFile {
    /// Where it is, below the backup directory, with slashes.
    pub path: String,
    /// CRC32C of all of it.
    pub crc: Option<u32>,
    /// Its bytes, if the list has them.
    pub size: Option<u64>,
    /// It is in another backup directory.
    pub is_excluded: bool,
}

/// Describes what the list of a backup says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Meta {
    /// Unix seconds.
    pub timestamp: i64,
    /// Of the database when the backup was begun.
    pub sequence: u64,
    /// Says what the program gave.
    pub app_metadata: Vec<u8>,
    pub files: Vec<MetaFile>,
}

/// The name that a file of a backup has in a database: that of a shared file has more in it.
///
/// `None` if it is no path of a file of a backup.
pub(super) fn database_name(path: &str) -> Option<String> {
    let (dir, name) = path.rsplit_once('/')?;
    let name = match dir {
        SHARED_CHECKSUM_DIR => {
            let (stem, suffix) = name.rsplit_once('.')?;
            let (number, _) = stem.split_once('_')?;
            format!("{number}.{suffix}")
        }
        SHARED_DIR => name.to_string(),
        _ => {
            let id = dir.strip_prefix(PRIVATE_DIR)?.strip_prefix('/')?;
            backup_id(id)?;
            name.to_string()
        }
    };
    let kind = parse_file_name(&name)?;
    let is_shared = dir == SHARED_DIR || dir == SHARED_CHECKSUM_DIR;
    let fits = match kind {
        FileKind::Table(_) | FileKind::Blob(_) => true,
        FileKind::Log(_) | FileKind::Manifest(_) | FileKind::Options(_) | FileKind::Current => {
            !is_shared
        }
        _ => false,
    };
    (fits && !name.starts_with('/')).then_some(name)
}

/// The size that a shared file has by its name, if that says one.
pub(super) fn size_in_name(path: &str) -> Option<u64> {
    let name = path.strip_prefix(SHARED_CHECKSUM_DIR)?;
    let (stem, _) = name.rsplit_once('.')?;
    let mut parts = stem.split('_').skip(2);
    let size = parts.next()?.parse().ok()?;
    parts.next().is_none().then_some(size)
}

/// The number of a backup as names have it: decimal, not 0, no leading zeros.
pub(super) fn backup_id(name: &str) -> Option<u32> {
    let id: u32 = name.parse().ok()?;
    (id > 0 && id.to_string() == name).then_some(id)
}

impl Meta {
    /// Reads a list.
    ///
    /// # Errors
    /// `Corruption`; `NotSupported` of a schema, or of a field that may not be passed over.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let Some(text) = text.strip_suffix('\n') else {
            return Err(incomplete());
        };
        let mut lines = text.split('\n');
        let mut next = || lines.next().ok_or_else(incomplete);
        let mut line = next()?;
        let mut is_second = false;
        if let Some(schema) = line.strip_prefix(SCHEMA) {
            if schema != "1" && schema.split('.').next() != Some("2") {
                let text = format!("Unsupported/unrecognized schema version: {schema}");
                return Err(Error::not_supported(text));
            }
            is_second = schema != "1";
            line = next()?;
        }
        let mut meta = Self {
            timestamp: line.parse().map_err(|_| incomplete())?,
            sequence: next()?.parse().map_err(|_| incomplete())?,
            ..Self::default()
        };
        let count: usize = loop {
            let line = next()?;
            let Some((name, value)) = line.split_once(' ') else {
                break line.parse().map_err(|_| incomplete())?;
            };
            if name == METADATA {
                let bad = || Error::corruption("the metadata are not hexadecimal");
                meta.app_metadata = unhex(value).ok_or_else(bad)?;
            } else if !is_second {
                return Err(incomplete());
            } else {
                check_ignorable(name)?;
            }
        };
        // Files that were left out do not count.
        let (mut has_footer, mut names) = (false, HashSet::new());
        for line in lines.by_ref() {
            if is_second && line == FOOTER {
                has_footer = true;
                break;
            }
            let (name, file) = parse_file(line, is_second)?;
            if !names.insert(name) {
                let text = format!("two files of a backup are one in a database: {}", file.path);
                return Err(Error::corruption(text));
            }
            meta.files.push(file);
        }
        if meta.files.iter().filter(|f| !f.is_excluded).count() != count {
            return Err(incomplete());
        }
        if has_footer {
            for line in lines {
                check_ignorable(line.split(' ').next().unwrap_or(line))?;
            }
        }
        if meta.files.is_empty() {
            return Err(incomplete());
        }
        Ok(meta)
    }

    /// The list as it is written; the second schema if `schema` says so, or a file needs it.
    pub(super) fn to_text(&self, schema: u32) -> String {
        let mut out = String::new();
        if schema > 1 {
            out.push_str(SCHEMA);
            out.push_str("2.1\n");
        }
        // Writing into a text does not fail.
        let _ = writeln!(out, "{}\n{}", self.timestamp, self.sequence);
        if !self.app_metadata.is_empty() {
            let _ = write!(out, "{METADATA} ");
            for byte in &self.app_metadata {
                let _ = write!(out, "{byte:02X}");
            }
            out.push('\n');
        }
        let is_here = |f: &&MetaFile| !f.is_excluded;
        let _ = writeln!(out, "{}", self.files.iter().filter(is_here).count());
        let elsewhere = self.files.iter().filter(|f| f.is_excluded);
        for file in self.files.iter().filter(is_here).chain(elsewhere) {
            out.push_str(&file.path);
            if file.is_excluded {
                let _ = write!(out, " {EXCLUDED} true");
            }
            if let Some(crc) = file.crc {
                let _ = write!(out, " crc32 {crc}");
            }
            out.push('\n');
        }
        out
    }
}

fn incomplete() -> Error {
    Error::corruption("Inconsistent number of files or missing/incomplete header")
}

/// A file, and its name in a database.
fn parse_file(line: &str, is_second: bool) -> Result<(String, MetaFile)> {
    let mut words = line.split(' ');
    let path = words.next().unwrap_or_default();
    let none = || Error::corruption(format!("{path:?} is no file of a backup"));
    let in_database = database_name(path).ok_or_else(none)?;
    let mut file = MetaFile {
        path: path.to_string(),
        crc: None,
        size: None,
        is_excluded: false,
    };
    while let Some(name) = words.next() {
        let value = words.next().ok_or_else(|| bad_field(path, name))?;
        match name {
            "crc32" => file.crc = Some(value.parse().map_err(|_| bad_field(path, name))?),
            "size" if is_second => {
                file.size = Some(value.parse().map_err(|_| bad_field(path, name))?);
            }
            EXCLUDED if is_second => {
                file.is_excluded = match value {
                    "true" => true,
                    "false" => false,
                    _ => return Err(bad_field(path, name)),
                };
            }
            _ if is_second => check_ignorable(name)?,
            _ => {
                return Err(Error::corruption(format!(
                    "Unknown checksum type for {path}"
                )));
            }
        }
    }
    if file.crc.is_none() && !is_second {
        return Err(bad_field(path, "crc32"));
    }
    Ok((in_database, file))
}

fn bad_field(path: &str, name: &str) -> Error {
    Error::corruption(format!("{path} has no value of {name}"))
}

fn check_ignorable(name: &str) -> Result<()> {
    if name.starts_with(NOT_IGNORED) {
        let text =
            format!("Unrecognized non-ignorable meta file field {name} (from future version?)");
        return Err(Error::not_supported(text));
    }
    Ok(())
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    let digit = |b: u8| char::from(b).to_digit(16);
    let pairs = digits.chunks_exact(2);
    let byte = |pair: &[u8]| u8::try_from(digit(pair[0])? * 16 + digit(pair[1])?).ok();
    pairs.map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_rocksdb_is_read_and_written_the_same() {
        let text = "1795299042\n40\nmetadata 0AFF\n2\n\
            shared_checksum/000009_sNDVQYJ8W88LQCPU37EA9_3731.sst crc32 120229368\n\
            private/1/CURRENT crc32 2659179228\n";
        let meta = Meta::parse(text).unwrap();
        assert_eq!((meta.timestamp, meta.sequence), (1_795_299_042, 40));
        assert_eq!(meta.app_metadata, [0x0a, 0xff]);
        assert_eq!(meta.to_text(1), text);
        let second = format!("schema_version 2.1\n{text}");
        assert_eq!(Meta::parse(&second).unwrap(), meta);
        assert_eq!(meta.to_text(2), second);
    }

    #[test]
    fn a_list_in_which_two_files_are_one_in_a_database_is_refused() {
        for second in ["private/1/CURRENT", "shared/000009.sst"] {
            let text = format!(
                "1\n2\n3\nprivate/1/CURRENT crc32 1\n\
                shared_checksum/000009_sNDVQYJ8W88LQCPU37EA9_3731.sst crc32 2\n{second} crc32 3\n"
            );
            let error = Meta::parse(&text).unwrap_err().to_string();
            assert!(
                error.ends_with(&format!("one in a database: {second}")),
                "{error}"
            );
        }
    }

    #[test]
    fn fields_of_the_second_schema_are_known_ignored_or_refused() {
        let with = |field: &str| {
            let count = u32::from(!field.contains("true"));
            let text = format!(
                "schema_version 2.0\n1\n2\nmore x\n{count}\nshared/000009.sst{field}\n// FOOTER\nmore y\n"
            );
            Meta::parse(&text)
        };
        let file = with(" ni::excluded true temp 3 size 7")
            .unwrap()
            .files
            .remove(0);
        assert_eq!(
            (file.is_excluded, file.size, file.crc),
            (true, Some(7), None)
        );
        let refused = with(" ni::later 1").unwrap_err();
        assert!(refused.to_string().contains("ni::later"), "{refused}");
        for wrong in [" crc32", " crc32 x", " ni::excluded maybe", " size -1"] {
            assert!(with(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn every_cut_of_a_list_is_an_error() {
        let text = "1\n2\n1\nprivate/1/CURRENT crc32 5\n";
        Meta::parse(text).unwrap();
        for len in 0..text.len() {
            assert!(Meta::parse(&text[..len]).is_err(), "{len}");
        }
        for wrong in [
            "1\n2\n0\n",
            "1\n2\n2\nprivate/1/CURRENT crc32 5\n",
            "1\n2\n1\nprivate/1/CURRENT crc32 5\nprivate/1/MANIFEST-000005 crc32 5\n",
            "1\n2\n1\nprivate/1/CURRENT crc33 5\n",
            "1\n2\n18446744073709551615\nprivate/1/CURRENT crc32 5\n",
            "schema_version 3.0\n1\n2\n1\nprivate/1/CURRENT crc32 5\n",
        ] {
            assert!(Meta::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn names_say_sizes() {
        assert_eq!(size_in_name("shared_checksum/000009_sA_12.sst"), Some(12));
        assert_eq!(size_in_name("shared_checksum/000009_77_12.blob"), Some(12));
        for none in [
            "shared_checksum/000009_sA.sst",
            "shared/000009.sst",
            "private/1/000009.sst",
        ] {
            assert_eq!(size_in_name(none), None, "{none}");
        }
    }

    #[test]
    fn paths_lead_nowhere_else() {
        for (path, name) in [
            ("shared_checksum/000009_sA_12.sst", "000009.sst"),
            ("shared_checksum/000010_77_12.blob", "000010.blob"),
            ("shared/000009.sst", "000009.sst"),
            ("private/12/MANIFEST-000005", "MANIFEST-000005"),
        ] {
            assert_eq!(database_name(path).as_deref(), Some(name));
        }
        for wrong in [
            "000009.sst",
            "../000009.sst",
            "private/000009.sst",
            "private/../000009.sst",
            "private/01/000009.sst",
            "private/1/../000009.sst",
            "private/1/LOCK",
            "private/1/x",
            "shared/CURRENT",
            "shared_checksum/000009.sst",
            "shared//000009.sst",
            "/shared/000009.sst",
        ] {
            assert_eq!(database_name(wrong), None, "{wrong}");
        }
    }
}
