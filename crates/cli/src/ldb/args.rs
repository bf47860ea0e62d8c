//! The command line of `ldb`: `--name=value`, `--flag`, and words, in any order.
//!
//! The first word is the command. Names that neither all commands nor the one given know are refused, as
//! the reference does. Bytes that are not UTF-8 are spelled as by [`os_text`] until they are used.

use super::Stop;
use crate::{bytes, os_text};
use spanlith_base::byte_text::bytes_of_text;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// Names with values that every command takes.
const COMMON_OPTIONS: [&str; 23] = [
    "db",
    "path",
    "env_uri",
    "fs_uri",
    "secondary_path",
    "column_family",
    "try_load_options",
    "bloom_bits",
    "fix_prefix_len",
    "compression_type",
    "compression_max_dict_bytes",
    "block_size",
    "auto_compaction",
    "db_write_buffer_size",
    "write_buffer_size",
    "file_size",
    "min_blob_size",
    "blob_file_size",
    "blob_compression_type",
    "blob_garbage_collection_age_cutoff",
    "blob_garbage_collection_force_threshold",
    "blob_compaction_readahead_size",
    "prepopulate_blob_cache",
];

/// Names without values that every command takes.
const COMMON_FLAGS: [&str; 9] = [
    "hex",
    "key_hex",
    "value_hex",
    "ttl",
    "disable_consistency_checks",
    "ignore_unknown_options",
    "try_load_options",
    "enable_blob_files",
    "enable_blob_garbage_collection",
];

/// Describes what was given.
#[derive(Debug, Default)]
pub struct Args {
    /// The command; empty if there is none.
    pub command: String,
    /// Words after it.
    pub words: Vec<String>,
    options: BTreeMap<String, String>,
    flags: BTreeSet<String>,
    /// Keys are hexadecimal.
    pub key_hex: bool,
    /// Values are hexadecimal.
    pub value_hex: bool,
}

impl Args {
    /// Takes the arguments apart.
    pub fn parse(args: impl IntoIterator<Item = String>) -> Self {
        let mut out = Self::default();
        for arg in args {
            match arg.strip_prefix("--") {
                Some(named) => match named.split_once('=') {
                    Some((name, value)) => {
                        out.options.insert(name.to_string(), value.to_string());
                    }
                    None => {
                        out.flags.insert(named.to_string());
                    }
                },
                None if out.command.is_empty() => out.command = arg,
                None => out.words.push(arg),
            }
        }
        out.key_hex = out.is("hex") || out.is("key_hex");
        out.value_hex = out.is("hex") || out.is("value_hex");
        out
    }

    /// Refuses names that are neither common nor among those of the command.
    pub fn check(&self, own: &[&str]) -> Result<(), Stop> {
        let known = |name: &str, common: &[&str]| common.contains(&name) || own.contains(&name);
        let option = self
            .options
            .keys()
            .find(|n| !known(n, &COMMON_OPTIONS) && !known(n, &COMMON_FLAGS));
        let flag = self.flags.iter().find(|n| !known(n, &COMMON_FLAGS));
        match option.or(flag) {
            Some(name) => Err(Stop::Said(format!("Invalid command-line option {name}"))),
            None => Ok(()),
        }
    }

    /// Returns whether a flag is set; `--flag=true` counts as well.
    pub fn is(&self, name: &str) -> bool {
        self.flags.contains(name) || self.options.get(name).is_some_and(|v| v == "true")
    }

    /// The value of an option.
    pub fn option(&self, name: &str) -> Option<&str> {
        self.options.get(name).map(String::as_str)
    }

    /// The value of an option as a path.
    pub fn path(&self, name: &str) -> Option<PathBuf> {
        self.option(name).map(os_text::to_path)
    }

    /// The value of an option as a number.
    pub fn number(&self, name: &str) -> Result<Option<u64>, Stop> {
        let parse = |text: &str| {
            text.parse()
                .map_err(|_| Stop::failed(format!("{name} has an invalid value")))
        };
        self.option(name).map(parse).transpose()
    }

    /// Entries to show at most; as in the reference a negative number means all.
    pub fn most(&self) -> Result<Option<u64>, Stop> {
        let parse = |text: &str| {
            let n: i64 = text
                .parse()
                .map_err(|_| Stop::failed("max_keys has an invalid value"))?;
            Ok(u64::try_from(n).ok())
        };
        let text = self.option("max_keys").filter(|text| !text.is_empty());
        text.map_or(Ok(None), parse)
    }

    /// A key as it was typed.
    pub fn key(&self, text: &str) -> Result<Vec<u8>, Stop> {
        input(text, self.key_hex)
    }

    /// A value as it was typed.
    pub fn value(&self, text: &str) -> Result<Vec<u8>, Stop> {
        input(text, self.value_hex)
    }

    /// A key given as an option.
    pub fn key_option(&self, name: &str) -> Result<Option<Vec<u8>>, Stop> {
        self.option(name).map(|text| self.key(text)).transpose()
    }

    /// A key as it is shown.
    pub fn show_key(&self, key: &[u8]) -> Vec<u8> {
        shown(key, self.key_hex)
    }

    /// A value as it is shown.
    pub fn show_value(&self, value: &[u8]) -> Vec<u8> {
        shown(value, self.value_hex)
    }
}

fn input(text: &str, hex: bool) -> Result<Vec<u8>, Stop> {
    if !hex {
        return Ok(bytes_of_text(text).into_owned());
    }
    let digits = text
        .strip_prefix("0x")
        .ok_or_else(|| Stop::failed(format!("Invalid hex input {text}.  Must start with 0x")))?;
    bytes::parse(digits, true).map_err(|_| Stop::failed(format!("Invalid hex input {text}")))
}

fn shown(bytes: &[u8], hex: bool) -> Vec<u8> {
    match hex {
        true => format!("0x{}", upper(bytes)).into_bytes(),
        false => bytes.to_vec(),
    }
}

/// Upper-case hexadecimal.
pub fn upper(bytes: &[u8]) -> String {
    bytes::hex(bytes).to_uppercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Args {
        Args::parse(line.split(' ').map(str::to_string))
    }

    #[test]
    fn names_values_and_words_stand_in_any_order() {
        let a = parse("--db=d scan --hex --from=0x61 word");
        assert_eq!(
            (a.command.as_str(), &a.words[..]),
            ("scan", &["word".to_string()][..])
        );
        assert_eq!(
            (a.option("db"), a.key_hex, a.value_hex),
            (Some("d"), true, true)
        );
        assert_eq!(a.key_option("from").ok().flatten(), Some(b"a".to_vec()));
        assert_eq!(a.show_key(b"\x6b1"), b"0x6B31");
        assert!(a.check(&["from"]).is_ok() && a.check(&[]).is_err());
    }

    #[test]
    fn numbers_and_hexadecimal_are_checked() {
        let a = parse("get --max_keys=x --key_hex");
        assert!(a.number("max_keys").is_err() && a.number("other").is_ok());
        let most = |text: &str| parse(text).most().ok();
        assert_eq!(most("scan --max_keys=3"), Some(Some(3)));
        assert_eq!(most("scan --max_keys=-1"), Some(None));
        assert_eq!(most("scan --max_keys="), Some(None));
        assert_eq!(most("scan --max_keys=x"), None);
        assert!(a.key("61").is_err() && a.key("0x6").is_err() && a.key("0xzz").is_err());
        assert_eq!(a.value("61").ok(), Some(b"61".to_vec()));
    }
}
