//! Arguments of tools that take any bytes, as text and back without loss.
//!
//! RocksDB's tools take keys, values and paths as the bytes they are. Here a command line is text, so bytes that
//! do not belong to UTF-8 travel as [`spanlith_base::byte_text`] spells them, which is also how the engine
//! spells names of families.

use spanlith_base::byte_text::{bytes_of_text, text_of_bytes};
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

/// The text of an argument.
pub fn of_os(argument: &OsStr) -> String {
    text_of_bytes(argument.as_bytes())
}

/// The argument of a text.
pub fn to_os(text: &str) -> OsString {
    OsString::from_vec(bytes_of_text(text).into_owned())
}

/// The path that a text names.
pub fn to_path(text: &str) -> PathBuf {
    to_os(text).into()
}

/// Writes a line to standard error, with the bytes that were given.
pub fn complain(text: &str) {
    let mut line = bytes_of_text(text).into_owned();
    line.push(b'\n');
    // Where nobody can be told the exit code says it.
    let _ = std::io::stderr().write_all(&line);
}
