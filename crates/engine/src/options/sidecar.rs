//! The file `SPANLITH` beside OPTIONS: options that RocksDB does not have.
//!
//! RocksDB's parser refuses names that it does not know, so ours stand in a file of their own, in the
//! same grammar:
//!
//! ```text
//! [Version]
//!   sidecar_version=1
//!   spanlith_version=0.1.0
//!   db_id=…                      of the database it belongs to
//!   options_file=OPTIONS-000007  written together with it
//!   directory=0 default /disk/a  of each directory of tables that is not the database's: its place in the list of
//!                                a family, the family (escaped, without spaces), and the directory
//! [DBOptions]
//!   witness_spacing=16384        only what is not at its default
//! [CFOptions "default"]          of each family that has one that is not
//!   …
//! [Checksum]
//!   crc32c=1a2b3c4d              of all bytes before this section; may be missing if edited by hand
//! ```
//!
//! It is advice: who opens a database says its options. Without the file all are at their defaults, and
//! then none is written. Names of a newer version of the file are kept; otherwise they are errors.

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic
    )
)]

use super::device::DeviceOption;
use super::ini::{escape, trim, unescape};
use super::own::set_own;
use super::own_rows::{OwnCfOptions, OwnDbOptions};
use super::table::OptionTable;
use spanlith_base::checksum::crc32c;
use spanlith_base::{Error, Result, SubCode};
use spanlith_env::{Directory, Env, IoActivity};
use std::path::{Path, PathBuf};

/// Name of the file.
pub const SIDECAR_FILE: &str = "SPANLITH";
/// Name while it is written.
pub const SIDECAR_TEMP: &str = "SPANLITH.tmp";

/// The version that this build writes.
const VERSION: u64 = 1;
/// Largest file that is read, in bytes.
const BYTES_MAX: u64 = 1 << 20;
/// Says what the last section begins with.
const CHECKSUM: &str = "[Checksum]";

/// Contents of the file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sidecar {
    /// Its version.
    pub version: u64,
    /// Id of the database that it belongs to.
    pub db_id: String,
    /// Name of the OPTIONS file that was written together with it.
    pub options_file: String,
    /// Options of the database.
    pub db: OwnDbOptions,
    /// Options of families, by their names; those at their defaults are left out when the file is written.
    pub families: Vec<(String, OwnCfOptions)>,
    /// Directories of tables, for families that have others than the database's: told to who opens with other ones.
    pub directories: Vec<(String, Vec<PathBuf>)>,
    /// Lines that this build does not know, of a newer version: section and line.
    pub unknown: Vec<(String, String)>,
}

impl Sidecar {
    /// The file of a database.
    pub fn new(
        db_id: &str,
        options_file: &str,
        db: &OwnDbOptions,
        families: impl IntoIterator<Item = (String, OwnCfOptions)>,
    ) -> Self {
        let plain = OwnCfOptions::default();
        let families = families.into_iter().filter(|f| f.1 != plain);
        Self {
            version: VERSION,
            db_id: db_id.to_string(),
            options_file: options_file.to_string(),
            // CURRENT says which speed disk there is: here it would outlive the way back to files.
            db: OwnDbOptions {
                sd_path: String::new(),
                // The caller of the next open says what is emulated.
                env_device: DeviceOption::default(),
                sd_device: DeviceOption::default(),
                sd_tables_path: String::new(),
                ..db.clone()
            },
            families: families.collect(),
            directories: Vec::new(),
            unknown: Vec::new(),
        }
    }

    /// Returns whether it says more than no file does.
    pub fn says_something(&self) -> bool {
        self.db != OwnDbOptions::default()
            || !self.families.is_empty()
            || !self.directories.is_empty()
            || !self.unknown.is_empty()
    }

    /// Options of the family called `name`; the defaults if it has no section.
    pub fn family(&self, name: &str) -> OwnCfOptions {
        let found = self.families.iter().find(|f| f.0 == name);
        found.map(|f| f.1.clone()).unwrap_or_default()
    }

    /// The text of the file.
    pub fn to_text(&self) -> String {
        let mut out = format!(
            "# Spanlith options; written by the engine\n[Version]\n  sidecar_version={}\n  \
             spanlith_version={}\n  db_id={}\n  options_file={}\n",
            self.version.max(VERSION),
            env!("CARGO_PKG_VERSION"),
            escape(&self.db_id, false),
            escape(&self.options_file, false),
        );
        for (family, dirs) in &self.directories {
            for (at, dir) in dirs.iter().enumerate() {
                let (family, dir) = (without_spaces(family), dir.to_string_lossy());
                out.push_str(&format!(
                    "  directory={at} {family} {}\n",
                    escape(&dir, false)
                ));
            }
        }
        out.push_str("[DBOptions]\n");
        push_changed(&mut out, &self.db);
        let mut section = "[DBOptions]";
        for (of, line) in &self.unknown {
            if of != section {
                out.push_str(of);
                out.push('\n');
                section = of;
            }
            out.push_str(&format!("  {line}\n"));
        }
        for (name, options) in &self.families {
            out.push_str(&family_section(name));
            out.push('\n');
            push_changed(&mut out, options);
        }
        let sum = crc32c(out.as_bytes());
        out.push_str(&format!("{CHECKSUM}\n  crc32c={sum:08x}\n"));
        out
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    /// `Corruption` if the checksum is another, `InvalidArgument` with the line for what is not
    /// understood.
    pub fn parse(text: &str) -> Result<Self> {
        let mut sidecar = Self::default();
        let mut section = String::new();
        let mut names: Vec<(usize, String, String, String)> = Vec::new();
        let mut at = 0;
        for (index, line) in text.split_inclusive('\n').enumerate() {
            let (begin, number) = (at, index + 1);
            at += line.len();
            let line = trim(line);
            if line.is_empty() {
                continue;
            }
            if line.starts_with('[') && line.ends_with(']') {
                section = line.to_string();
                if section == CHECKSUM {
                    let before = text.get(..begin).unwrap_or_default();
                    check_sum(before, text.get(at..).unwrap_or_default())?;
                }
                continue;
            }
            let Some((name, value)) = line.split_once('=') else {
                return Err(bad(number, "a line that is neither a section nor a value"));
            };
            let (name, value) = (name.trim(), unescape(value.trim()));
            match (section.as_str(), name) {
                ("[Version]", "sidecar_version") => {
                    let version = value.parse();
                    sidecar.version = version.map_err(|_| bad(number, "a wrong version"))?;
                }
                ("[Version]", "db_id") => sidecar.db_id = value,
                ("[Version]", "options_file") => sidecar.options_file = value,
                ("[Version]", "directory") => sidecar.add_directory(&value),
                ("[Version]" | CHECKSUM, _) => {}
                ("", _) => return Err(bad(number, "a value outside of sections")),
                _ => names.push((number, section.clone(), name.to_string(), value)),
            }
        }
        if sidecar.version == 0 {
            return Err(bad(1, "no sidecar_version"));
        }
        for (number, section, name, value) in names {
            let set = match family_of(&section) {
                Some(family) => sidecar.set_of_family(&family, &name, &value),
                None if section == "[DBOptions]" => set_own(&mut sidecar.db, &name, &value),
                None => None,
            };
            match set {
                Some(set) => set.map_err(|e| bad(number, e.message()))?,
                None if sidecar.version > VERSION => {
                    let line = format!("{name}={}", escape(&value, false));
                    sidecar.unknown.push((section, line));
                }
                None => return Err(bad(number, &format!("unknown option {name}"))),
            }
        }
        Ok(sidecar)
    }

    /// Takes in a directory; what cannot be understood is no worse than what was never written.
    fn add_directory(&mut self, value: &str) {
        let mut parts = value.splitn(3, ' ').skip(1);
        let (Some(family), Some(dir)) = (parts.next(), parts.next()) else {
            return;
        };
        let family = with_spaces(family);
        match self.directories.iter_mut().find(|d| d.0 == family) {
            Some((_, dirs)) => dirs.push(PathBuf::from(dir)),
            None => self.directories.push((family, vec![PathBuf::from(dir)])),
        }
    }

    /// Sets an option of the family called `name`; `None` if families have no such option.
    fn set_of_family(&mut self, name: &str, option: &str, value: &str) -> Option<Result<()>> {
        let mut changed = self.family(name);
        let set = set_own(&mut changed, option, value)?;
        self.families.retain(|f| f.0 != name);
        self.families.push((name.to_string(), changed));
        Some(set)
    }

    /// Reads the file in `dir`; `None` if there is none.
    ///
    /// # Errors
    /// Of the file; as [`Self::parse`].
    pub fn load(env: &Env, dir: &Path) -> Result<Option<Self>> {
        let path = dir.join(SIDECAR_FILE);
        let bytes = match env.fs.read_all(&path, BYTES_MAX) {
            Ok(bytes) => bytes,
            Err(e) if e.subcode() == Some(SubCode::PathNotFound) => return Ok(None),
            Err(e) => return Err(e),
        };
        let text = String::from_utf8(bytes);
        let text = text.map_err(|_| Error::corruption("not UTF-8 text").with_path(&path))?;
        Self::parse(&text).map(Some).map_err(|e| e.with_path(&path))
    }

    /// Writes the file in `dir`: temporary file, sync, rename, sync of the directory, which is `open`.
    ///
    /// # Errors
    /// Of the file system.
    pub fn store(&self, env: &Env, dir: &Path, open: &dyn Directory) -> Result<()> {
        let (fs, temp) = (&env.fs, dir.join(SIDECAR_TEMP));
        let mut file = fs.create(&temp, IoActivity::Other)?;
        file.append(self.to_text().as_bytes())?;
        file.sync()?;
        file.close()?;
        fs.rename(&temp, &dir.join(SIDECAR_FILE))?;
        open.sync()
    }
}

/// A name of a family as one word.
fn without_spaces(name: &str) -> String {
    name.replace('%', "%25").replace(' ', "%20")
}

fn with_spaces(word: &str) -> String {
    word.replace("%20", " ").replace("%25", "%")
}

/// The line that begins the section of a family.
fn family_section(name: &str) -> String {
    format!("[CFOptions \"{}\"]", escape(name, false))
}

/// The family whose section `line` begins.
fn family_of(line: &str) -> Option<String> {
    let name = line.strip_prefix("[CFOptions \"")?.strip_suffix("\"]")?;
    Some(unescape(name))
}

/// Appends the options that are not at their defaults.
fn push_changed<T: OptionTable>(out: &mut String, options: &T) {
    let plain = T::default();
    for row in T::ROWS {
        let value = (row.get)(options);
        if value != (row.get)(&plain) {
            out.push_str(&format!("  {}={}\n", row.name, escape(&value, false)));
        }
    }
}

/// Compares the checksum that `rest` names with that of the bytes before its section.
fn check_sum(before: &str, rest: &str) -> Result<()> {
    let lines = rest.lines().map(trim);
    let said = lines.filter_map(|l| l.strip_prefix("crc32c=")).next();
    match said.map(|hex| u32::from_str_radix(hex, 16)) {
        None => Ok(()),
        Some(Ok(sum)) if sum == crc32c(before.as_bytes()) => Ok(()),
        Some(_) => Err(Error::corruption(
            "checksum of the options of Spanlith mismatch",
        )),
    }
}

#[cold]
fn bad(line: usize, what: &str) -> Error {
    Error::invalid_argument(format!("{SIDECAR_FILE}, line {line}: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let plain = Sidecar::new("id", "OPTIONS-000007", &OwnDbOptions::default(), []);
        assert!(!plain.says_something());
        let evidence = OwnDbOptions::new()
            .evidence(false)
            .witness_spacing(16384u64)
            .reserve_file_bytes(1u64 << 20);
        let sidecar = Sidecar::new("id", "OPTIONS-000007", &evidence, []);
        assert!(sidecar.says_something());
        let text = sidecar.to_text();
        assert!(text.contains("\n  witness_spacing=16384\n") && !text.contains("lost_files"));
        assert_eq!(Sidecar::parse(&text).unwrap(), sidecar);
        assert_eq!(Sidecar::parse(&plain.to_text()).unwrap(), plain);
    }

    #[test]
    fn directories_of_tables_are_read_again_and_are_nothing_to_older_builds() {
        let mut sidecar = Sidecar::new("id", "OPTIONS-000007", &OwnDbOptions::default(), []);
        let dirs = |names: &[&str]| names.iter().map(PathBuf::from).collect();
        sidecar.directories = vec![
            ("default".into(), dirs(&["/disk/a", "/disk/b # c"])),
            ("a b%20".into(), dirs(&["/with space"])),
        ];
        assert!(sidecar.says_something());
        let text = sidecar.to_text();
        assert_eq!(Sidecar::parse(&text).unwrap(), sidecar, "{text}");
        assert_eq!(sidecar.version, 1);
        let odd = "[Version]\n  sidecar_version=1\n  directory=0\n  directory=\n";
        assert!(Sidecar::parse(odd).unwrap().directories.is_empty());
    }

    #[test]
    fn a_changed_byte_is_noticed_and_a_file_edited_by_hand_needs_no_checksum() {
        let evidence = OwnDbOptions::new().evidence(false);
        let text = Sidecar::new("id", "OPTIONS-000007", &evidence, []).to_text();
        for at in 0..text.find("[Checksum]").unwrap() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            let changed = String::from_utf8(bytes).unwrap();
            assert!(Sidecar::parse(&changed).is_err(), "{changed}");
        }
        let by_hand = "[Version]\nsidecar_version=1\n[DBOptions]\nevidence=false # so\n";
        assert_eq!(Sidecar::parse(by_hand).unwrap().db, evidence);
    }

    #[test]
    fn names_of_a_newer_version_are_kept_and_others_are_errors_with_their_line() {
        let old = "[Version]\n  sidecar_version=1\n[DBOptions]\n  flux=7\n";
        assert_eq!(
            Sidecar::parse(old).unwrap_err().to_string(),
            "Invalid argument: SPANLITH, line 4: unknown option flux"
        );
        let new = "[Version]\n  sidecar_version=2\n[DBOptions]\n  flux=7\n  evidence=false\n\
                   [CFOptions \"a\"]\n  swirl=adaptive\n";
        let sidecar = Sidecar::parse(new).unwrap();
        assert!(!sidecar.db.evidence && sidecar.says_something());
        assert_eq!(sidecar.unknown.len(), 2);
        assert_eq!(Sidecar::parse(&sidecar.to_text()).unwrap(), sidecar);
        for wrong in [
            "x=1\n",
            "[Version]\nsidecar_version=1\n[DBOptions]\nword\n",
            "",
        ] {
            assert!(Sidecar::parse(wrong).is_err(), "{wrong}");
        }
    }
}
