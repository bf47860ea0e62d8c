//! The OPTIONS file.
//!
//! ```text
//! [Version]
//!   rocksdb_version=11.8.1
//!   options_file_version=1.1
//!
//! [DBOptions]
//!   name=value                      two blanks before each line, and a line of two blanks at the end
//!
//! [CFOptions "default"]             first; then [TableOptions/BlockBasedTable "default"]
//! ```
//!
//! `#` starts a comment unless a backslash stands before it. `\`, `#`, `:`, line feed and carriage
//! return are escaped with a backslash; `:` only needs it in section arguments. The first of two
//! lines with one name wins. A value cannot begin or end with a blank: the format trims.

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic
    )
)]

use super::order;
use super::table::OptionTable;
use super::text::{is_unknown, not_recognized, set_cf_option, set_db_option};
use super::{BlockBasedTableOptions, CfOptions, DbOptions, OwnCfOptions, table_factory};
use spanlith_base::{Error, Result};

/// The version our files claim: their names are those of this RocksDB.
pub const ROCKSDB_VERSION: [u32; 3] = [11, 8, 1];

/// The version that a file claims if it has names that came later: RocksDB 11.8 passes over them, if it is told to,
/// only in files of a later version.
pub const NEWER_ROCKSDB_VERSION: [u32; 3] = [11, 12, 0];

/// One column family of an OPTIONS file.
#[derive(Clone, Debug, PartialEq)]
pub struct ParsedCf {
    /// Its name.
    pub name: String,
    /// Its options.
    pub options: CfOptions,
    /// Options of its block-based tables; defaults if it has no section for them.
    pub table: BlockBasedTableOptions,
    /// Names and values of a section for another table format.
    pub other_table: Vec<(String, String)>,
}

/// Contents of an OPTIONS file.
#[derive(Clone, Debug, PartialEq)]
pub struct ParsedOptions {
    /// RocksDB version that the file claims; zeros if it claims none.
    pub rocksdb_version: [u32; 3],
    /// Options of the database.
    pub db: DbOptions,
    /// Families in the order of the file; the first is `default`.
    pub cfs: Vec<ParsedCf>,
    /// Names that were skipped, if that was asked for and allowed.
    pub ignored: Vec<String>,
}

impl ParsedOptions {
    /// The family called `name`.
    pub fn cf(&self, name: &str) -> Option<&ParsedCf> {
        self.cfs.iter().find(|cf| cf.name == name)
    }
}

/// Writes an OPTIONS file. Families come in the order given; RocksDB wants `default` first.
pub fn write_options_file(
    db: &DbOptions,
    cfs: &[(String, CfOptions, BlockBasedTableOptions)],
) -> String {
    let families: Vec<_> = cfs
        .iter()
        .map(|(name, cf, table)| (name, FamilyText::new(cf, table)))
        .collect();
    let mut out = options_file_head(db, families.iter().any(|f| f.1.is_newer));
    for (name, text) in &families {
        text.push(name, &mut out);
    }
    out
}

/// Returns what an OPTIONS file says before its families; `is_newer` if one of these has names that came after the
/// release that the file would claim.
pub(crate) fn options_file_head(db: &DbOptions, is_newer: bool) -> String {
    let [major, minor, patch] = match is_newer || db.uses_newer() {
        true => NEWER_ROCKSDB_VERSION,
        false => ROCKSDB_VERSION,
    };
    let mut out = format!(
        "# This is an option file in RocksDB's format, written by Spanlith.\n\
         \n\
         [Version]\n  rocksdb_version={major}.{minor}.{patch}\n  options_file_version=1.1\n"
    );
    section(&mut out, "\n[DBOptions]", order::DB.lines(db));
    out
}

/// Describes what an OPTIONS file says of a family, whatever it is called. Families with the same options share it.
#[derive(Debug, PartialEq)]
pub(crate) struct FamilyText {
    options: String,
    factory: String,
    table: String,
    /// Names are among these that RocksDB 11.8 does not have.
    pub(crate) is_newer: bool,
    /// Options that RocksDB does not have are at their defaults; no OPTIONS file says them.
    pub(crate) is_plain: bool,
}

impl FamilyText {
    pub(crate) fn new(cf: &CfOptions, table: &BlockBasedTableOptions) -> Self {
        let (mut options, mut of_table) = (String::new(), String::new());
        let factory = super::objects::id(&cf.table_factory).unwrap_or_default();
        // Options of the factory have a section of their own.
        let written = order::CF.lines(cf).map(|(name, value)| match name {
            "table_factory" => (name, factory.to_string()),
            _ => (name, value),
        });
        lines(&mut options, written);
        if factory == "BlockBasedTable" {
            lines(&mut of_table, order::TABLE.lines(table));
        } else {
            let format = table_factory::format_of(&cf.table_factory).unwrap_or_default();
            lines(&mut of_table, table_factory::rows_of(&format).into_iter());
        }
        Self {
            options,
            factory: factory.to_string(),
            table: of_table,
            is_newer: cf.uses_newer() || table.uses_newer(),
            is_plain: cf.own == OwnCfOptions::default(),
        }
    }

    /// Adds the sections of the family called `name`.
    pub(crate) fn push(&self, name: &str, out: &mut String) {
        let name = escape(name, true);
        let factory = &self.factory;
        out.push_str(&format!("\n[CFOptions \"{name}\"]"));
        out.push_str(&self.options);
        out.push_str(&format!("[TableOptions/{factory} \"{name}\"]"));
        out.push_str(&self.table);
    }
}

fn section(out: &mut String, title: &str, options: impl Iterator<Item = (&'static str, String)>) {
    out.push_str(title);
    lines(out, options);
}

/// Says what follows the title of a section.
fn lines(out: &mut String, options: impl Iterator<Item = (&'static str, String)>) {
    out.push_str("\n  ");
    for (name, value) in options {
        out.push_str(name);
        out.push('=');
        push_escaped(out, &value, false);
        out.push_str("\n  ");
    }
    out.push('\n');
}

pub(crate) fn escape(text: &str, colons: bool) -> String {
    let mut out = String::with_capacity(text.len());
    push_escaped(&mut out, text, colons);
    out
}

fn push_escaped(out: &mut String, text: &str, colons: bool) {
    // Hardly any value has something to escape.
    let mut rest = text;
    let is_special = |b: u8| matches!(b, b'\n' | b'\r' | b'\\' | b'#') || (colons && b == b':');
    while let Some(at) = rest.bytes().position(is_special)
        && let Some((before, special)) = rest.split_at_checked(at)
        && let Some((special, after)) = special.split_at_checked(1)
    {
        out.push_str(before);
        out.push('\\');
        out.push_str(match special {
            "\n" => "n",
            "\r" => "r",
            other => other,
        });
        rest = after;
    }
    out.push_str(rest);
}

pub(super) fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('n') => out.push('\n'),
                Some('r') => out.push('\r'),
                Some(c) => out.push(c),
                None => out.push('\\'),
            },
            c => out.push(c),
        }
    }
    out
}

/// The line without comment and surrounding blanks.
pub(super) fn trim(line: &str) -> &str {
    let mut before = ' ';
    for (at, c) in line.char_indices() {
        if c == '#' && before != '\\' {
            return line.get(..at).unwrap_or_default().trim();
        }
        before = c;
    }
    line.trim()
}

fn error_at(line: usize, text: &str) -> Error {
    Error::invalid_argument(format!(
        "[RocksDBOptionsParser Error] : {text} (at line {line})"
    ))
}

/// Which section lines belong to.
enum Section {
    Nothing,
    Version,
    Db,
    Cf,
    /// Index of the family, and whether the format is ours.
    Table(usize, bool),
}

struct Parser {
    ignore_unknown: bool,
    section: Section,
    /// Names seen in this section.
    seen: Vec<String>,
    /// The first name in this section that nobody knows.
    unknown: Option<String>,
    version: [u32; 3],
    db: Option<DbOptions>,
    cfs: Vec<ParsedCf>,
    ignored: Vec<String>,
}

/// Reads an OPTIONS file.
///
/// # Errors
/// `InvalidArgument` with RocksDB's text for anything that is not an OPTIONS file or names an
/// unknown option; `Corruption` if a section is missing.
pub fn parse_options_file(text: &str) -> Result<ParsedOptions> {
    parse_options_file_with(text, false)
}

/// As [`parse_options_file`]; `ignore_unknown` skips unknown names if the file claims a newer
/// RocksDB than ours.
///
/// # Errors
/// As [`parse_options_file`].
pub fn parse_options_file_with(text: &str, ignore_unknown: bool) -> Result<ParsedOptions> {
    let parser = Parser::parse(text, ignore_unknown)?;
    let Some(db) = parser.db else {
        let text = "A RocksDB Option file must have a single DBOptions section";
        return Err(Error::corruption(text));
    };
    if parser.cfs.is_empty() {
        let text = "A RocksDB Option file must have a single CFOptions:default section";
        return Err(Error::corruption(text));
    }
    Ok(ParsedOptions {
        rocksdb_version: parser.version,
        db,
        cfs: parser.cfs,
        ignored: parser.ignored,
    })
}

/// The options of the database alone, of a text that may have no families; unknown names are ignored. `None` without a section of the
/// database.
///
/// # Errors
/// `Corruption` and `InvalidArgument` of a text that cannot be understood.
pub(crate) fn parse_db_options(text: &str) -> Result<Option<DbOptions>> {
    Parser::parse(text, true).map(|parser| parser.db)
}

impl Parser {
    /// Takes in all sections.
    fn parse(text: &str, ignore_unknown: bool) -> Result<Self> {
        let mut parser = Self {
            ignore_unknown,
            section: Section::Nothing,
            seen: Vec::new(),
            unknown: None,
            version: [0; 3],
            db: None,
            cfs: Vec::new(),
            ignored: Vec::new(),
        };
        for (index, line) in text.lines().enumerate() {
            let line = trim(line);
            if line.is_empty() {
                continue;
            }
            if line.starts_with('[') && line.ends_with(']') {
                parser.open_section(line, index + 1)?;
            } else {
                parser.statement(line, index + 1)?;
            }
        }
        parser.close_section()?;
        Ok(parser)
    }

    /// As in RocksDB a bad value is reported before an unknown name.
    fn close_section(&mut self) -> Result<()> {
        match self.unknown.take() {
            Some(name) => Err(not_recognized(&name)),
            None => Ok(()),
        }
    }

    fn open_section(&mut self, line: &str, number: usize) -> Result<()> {
        self.close_section()?;
        self.seen.clear();
        let inner = line
            .strip_prefix('[')
            .and_then(|l| l.strip_suffix(']'))
            .unwrap_or(line);
        let (title, argument) = match inner.split_once('"') {
            Some((title, rest)) => {
                let argument = rest.rsplit_once('"').map_or(rest, |(argument, _)| argument);
                (title.trim(), unescape(argument))
            }
            None => (inner.trim(), String::new()),
        };
        self.section = match title {
            "Version" => Section::Version,
            "DBOptions" => {
                if self.db.is_some() {
                    let text = "More than one DBOption section found in the option config file";
                    return Err(error_at(number, text));
                }
                self.db = Some(DbOptions::default());
                Section::Db
            }
            "CFOptions" => {
                let is_default = argument == "default";
                if is_default != self.cfs.is_empty() {
                    let text = "Default column family must be the first CFOptions section in the \
                                option config file";
                    return Err(error_at(number, text));
                }
                if self.cfs.iter().any(|cf| cf.name == argument) {
                    let text = "Two identical column families found in option config file";
                    return Err(error_at(number, text));
                }
                self.cfs.push(ParsedCf {
                    name: argument,
                    options: CfOptions::default(),
                    table: BlockBasedTableOptions::default(),
                    other_table: Vec::new(),
                });
                Section::Cf
            }
            title => {
                let Some(factory) = title
                    .strip_prefix("TableOptions/")
                    .filter(|f| !f.is_empty())
                else {
                    return Err(Error::invalid_argument(format!("Unknown section {line}")));
                };
                let Some(index) = self.cfs.iter().position(|cf| cf.name == argument) else {
                    let text = format!(
                        "Does not find a matched column family name in TableOptions section.  \
                         Column Family Name:{argument}"
                    );
                    return Err(error_at(number, &text));
                };
                Section::Table(index, factory == "BlockBasedTable")
            }
        };
        Ok(())
    }

    fn statement(&mut self, line: &str, number: usize) -> Result<()> {
        let Some((name, value)) = line.split_once('=') else {
            return Err(error_at(number, "A valid statement must have a '='."));
        };
        let (name, value) = (name.trim(), value.trim());
        if name.is_empty() {
            return Err(error_at(
                number,
                "A valid statement must have a variable name.",
            ));
        }
        if self.seen.iter().any(|s| s == name) {
            return Ok(());
        }
        self.seen.push(name.to_string());
        let value = unescape(value);
        let result = match (&self.section, self.db.as_mut(), self.cfs.last_mut()) {
            (Section::Nothing, ..) => return Ok(()),
            (Section::Version, ..) => return self.version_option(name, &value),
            (Section::Db, Some(db), _) => set_db_option(db, name, &value),
            (Section::Cf, _, Some(cf)) => {
                set_cf_option(&mut cf.options, &mut cf.table, name, &value)
            }
            (Section::Table(index, ours), ..) => match self.cfs.get_mut(*index) {
                Some(cf) if *ours => cf.table.set_option(name, &value),
                Some(cf) if table_factory::format_of(&cf.options.table_factory).is_ok() => {
                    table_factory::set_option(&mut cf.options.table_factory, name, &value)
                }
                Some(cf) => {
                    cf.other_table.push((name.to_string(), value));
                    return Ok(());
                }
                None => return Ok(()),
            },
            (Section::Db | Section::Cf, ..) => return Ok(()),
        };
        match result {
            // As in RocksDB also a value that nobody understands.
            Err(_) if self.ignore_unknown => {
                self.ignored.push(name.to_string());
                Ok(())
            }
            Err(error) if is_unknown(&error) => {
                self.unknown.get_or_insert_with(|| name.to_string());
                Ok(())
            }
            other => other,
        }
    }

    fn version_option(&mut self, name: &str, value: &str) -> Result<()> {
        match name {
            "rocksdb_version" => {
                self.version = parse_version("rocksdb_version", value, 3)?;
                // Our own names, or fewer: an unknown one is a mistake.
                let [major, minor, _] = self.version;
                let [our_major, our_minor, _] = ROCKSDB_VERSION;
                if (major, minor) <= (our_major, our_minor) {
                    self.ignore_unknown = false;
                }
            }
            "options_file_version" => {
                let [major, ..] = parse_version("options_file_version", value, 2)?;
                if major < 1 {
                    let text = "A valid options_file_version must be at least 1.";
                    return Err(Error::invalid_argument(text));
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// Parses `a.b.c` with at most `parts` numbers.
fn parse_version(name: &str, text: &str, parts: usize) -> Result<[u32; 3]> {
    let bad = |why: &str| Error::invalid_argument(format!("A valid {name} {why}"));
    if text.chars().any(|c| !c.is_ascii_digit() && c != '.') {
        return Err(bad("can only contains dots and numbers."));
    }
    let found: Vec<&str> = text.split('.').collect();
    if found.len() > parts {
        return Err(bad(&format!(
            "can only contains at most {} dots.",
            parts - 1
        )));
    }
    if text.is_empty() || found.first().is_some_and(|f| f.is_empty()) {
        return Err(bad("must start with a number."));
    }
    let mut version = [0; 3];
    for (slot, part) in version.iter_mut().zip(found) {
        if !part.is_empty() {
            *slot = part.parse().map_err(|_| bad("is out of range."))?;
        }
    }
    Ok(version)
}
