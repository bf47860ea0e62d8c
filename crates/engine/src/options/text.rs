//! The one-line form of options, `a=b;c={d=e;f=g;}`, and names that span several structs.
//!
//! A column family's table options are reached through `block_based_table_factory={…}` or
//! `table_factory={id=BlockBasedTable;…}`, as in RocksDB.

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic
    )
)]

use super::own::nearest;
use super::table::OptionTable;
use super::{BlockBasedTableOptions, CfOptions, DbOptions, objects, table_factory};
use spanlith_base::{Error, Result};

/// `text` without one pair of braces around all of it.
pub(crate) fn strip_braces(text: &str) -> &str {
    let inner = text.strip_prefix('{').and_then(|t| t.strip_suffix('}'));
    match inner {
        Some(inner) if is_balanced(inner) => inner.trim(),
        _ => text,
    }
}

/// Returns whether no closing brace comes before its opening one, and none is left open.
fn is_balanced(text: &str) -> bool {
    let mut depth = 0usize;
    for c in text.chars() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => return false,
            '}' => depth -= 1,
            _ => {}
        }
    }
    depth == 0
}

/// The parts of `text` between separators that do not stand in braces; an empty last part is left
/// out.
///
/// # Errors
/// `InvalidArgument` if braces do not match.
pub(crate) fn split_outside_braces(text: &str, separator: char) -> Result<Vec<&str>> {
    if !is_balanced(text) {
        return Err(Error::invalid_argument(
            "Mismatched curly braces for nested options",
        ));
    }
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0usize, 0usize);
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            c if c == separator && depth == 0 => {
                parts.push(text.get(start..at).unwrap_or_default());
                start = at + c.len_utf8();
            }
            _ => {}
        }
    }
    let last = text.get(start..).unwrap_or_default();
    if !last.trim().is_empty() {
        parts.push(last);
    }
    Ok(parts)
}

/// Splits `a=b;c={d=e;}` (perhaps in braces) into names and values; values lose one pair of braces
/// only where they are parsed. As in RocksDB `{}` alone is no text of pairs; see [`nested_pairs`].
///
/// # Errors
/// `InvalidArgument`, in RocksDB's words, for a part without `=`, an empty one that is not the last, and braces
/// that do not match.
pub fn split_pairs(text: &str) -> Result<Vec<(String, String)>> {
    let mut rest = text.trim();
    while rest != "{}"
        && let Some(inner) = rest.strip_prefix('{').and_then(|t| t.strip_suffix('}'))
    {
        rest = inner.trim();
    }
    let mut pairs = Vec::new();
    while !rest.is_empty() {
        let Some(at) = rest.find(['=', '{', '}', ';']) else {
            return Err(Error::invalid_argument(
                "Mismatched key value pair, '=' expected",
            ));
        };
        let (name, behind) = rest.split_at(at);
        let Some(behind) = behind.strip_prefix('=') else {
            return Err(unexpected_in_key());
        };
        let name = name.trim();
        if name.is_empty() {
            return Err(Error::invalid_argument("Empty key found"));
        }
        let (value, behind) = next_value(behind.trim_start())?;
        pairs.push((name.to_string(), value.trim().to_string()));
        rest = behind;
    }
    Ok(pairs)
}

/// As [`split_pairs`], of a value, which loses one pair of braces: `{}` has no pairs.
///
/// # Errors
/// As [`split_pairs`].
pub fn nested_pairs(text: &str) -> Result<Vec<(String, String)>> {
    split_pairs(strip_braces(text.trim()))
}

/// RocksDB's words where a name is expected and a brace or a semicolon stands.
pub(crate) fn unexpected_in_key() -> Error {
    Error::invalid_argument("Unexpected char in key")
}

/// The value at the start of `text`, with its braces, and what stands after the semicolon after it.
fn next_value(text: &str) -> Result<(&str, &str)> {
    if !text.starts_with('{') {
        return Ok(text.split_once(';').unwrap_or((text, "")));
    }
    let mut depth = 0usize;
    let closing = text.char_indices().find(|(_, c)| {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        depth == 0
    });
    let Some((at, _)) = closing else {
        return Err(Error::invalid_argument(
            "Mismatched curly braces for nested options",
        ));
    };
    let (value, behind) = text.split_at(at + 1);
    let behind = behind.trim_start();
    match behind.strip_prefix(';') {
        Some(rest) => Ok((value, rest)),
        None if behind.is_empty() => Ok((value, "")),
        None => Err(Error::invalid_argument(
            "Unexpected chars after nested options",
        )),
    }
}

/// Other names of options of a column family.
pub(super) const CF_ALIASES: &[&str] = &[
    "memtable",
    "memtable_veirfy_per_key_checksum_on_seek",
    "block_based_table_factory",
    "plain_table_factory",
];

/// Sets one option of a database by name.
///
/// # Errors
/// `InvalidArgument` for an unknown name or a bad value.
pub fn set_db_option(db: &mut DbOptions, name: &str, value: &str) -> Result<()> {
    db.set_option(name, value)
}

/// Sets one option of a column family by name, table options included.
///
/// # Errors
/// `InvalidArgument` for an unknown name or a bad value.
pub fn set_cf_option(
    cf: &mut CfOptions,
    table: &mut BlockBasedTableOptions,
    name: &str,
    value: &str,
) -> Result<()> {
    match name {
        "memtable" | "memtable_factory" => {
            if objects::id(value) == Some("cuckoo") {
                return Err(Error::invalid_argument(
                    "cuckoo hash memtable is not supported anymore.: cuckoo",
                ));
            }
            return cf.set_option("memtable_factory", value);
        }
        "memtable_veirfy_per_key_checksum_on_seek" => {
            return cf.set_option("memtable_verify_per_key_checksum_on_seek", value);
        }
        "block_based_table_factory" => {
            check_factory(cf, name)?;
            return set_table_options(table, value);
        }
        "plain_table_factory" => {
            check_factory(cf, name)?;
            return set_factory_options(cf, value);
        }
        "table_factory" => return set_table_factory(cf, table, value),
        _ => {}
    }
    match name.split_once('.') {
        Some(("plain_table_factory", field)) => {
            check_factory(cf, name)?;
            table_factory::set_option(&mut cf.table_factory, field, value)
        }
        Some(("table_factory", field)) if has_other_factory(cf) => {
            table_factory::set_option(&mut cf.table_factory, field, value)
        }
        Some(("block_based_table_factory" | "table_factory", field)) => {
            table.set_option(field, value)
        }
        _ => cf.set_option(name, value),
    }
}

/// Chooses the factory of new tables, with its options.
fn set_table_factory(
    cf: &mut CfOptions,
    table: &mut BlockBasedTableOptions,
    value: &str,
) -> Result<()> {
    let id = objects::id(value);
    // As in RocksDB, what names no factory changes nothing.
    let is_name = |id: &str| {
        let is_part = |c: char| c.is_ascii_alphanumeric() || "_-.:".contains(c);
        !id.is_empty() && id.chars().all(is_part)
    };
    if id.map_or(value.trim().is_empty(), |id| !is_name(id)) {
        return Ok(());
    }
    if !value.trim_start().starts_with('{') {
        cf.table_factory = value.to_string();
        return Ok(());
    }
    let present = objects::id(&cf.table_factory).unwrap_or_default();
    if id.is_none() && has_other_factory(cf) {
        return set_factory_options(cf, value);
    }
    let id = id.unwrap_or(present).to_string();
    if id == "BlockBasedTable" {
        set_table_options(table, value)?;
    }
    if table_factory::is_other(&id) {
        cf.table_factory = table_factory::text_of(&table_factory::format_of(value)?);
        return Ok(());
    }
    cf.table_factory = id;
    Ok(())
}

/// Returns whether new tables have no blocks.
pub(super) fn has_other_factory(cf: &CfOptions) -> bool {
    objects::id(&cf.table_factory).is_some_and(table_factory::is_other)
}

/// Sets options of the factory that there is, of tables without blocks.
fn set_factory_options(cf: &mut CfOptions, value: &str) -> Result<()> {
    for (name, value) in nested_pairs(value)? {
        table_factory::set_option(&mut cf.table_factory, &name, &value)?;
    }
    Ok(())
}

/// The names of single formats change the factory that is there; they make none.
///
/// # Errors
/// `InvalidArgument` if the factory is of another format.
pub(super) fn check_factory(cf: &CfOptions, name: &str) -> Result<()> {
    let id = match name.split_once('.').map_or(name, |(whole, _)| whole) {
        "plain_table_factory" => "PlainTable",
        _ => "BlockBasedTable",
    };
    let present = objects::id(&cf.table_factory).unwrap_or(&cf.table_factory);
    if present == id {
        return Ok(());
    }
    let text = format!("Cannot modify {present} as {name}");
    Err(Error::invalid_argument(text))
}

fn set_table_options(table: &mut BlockBasedTableOptions, value: &str) -> Result<()> {
    for (name, value) in nested_pairs(value)? {
        if name != "id" {
            table.set_option(&name, &value)?;
        }
    }
    Ok(())
}

/// Returns whether `name` (without the field of a struct) means something to a column family.
pub(super) fn knows_cf_option(name: &str) -> bool {
    CfOptions::row(name).is_some()
        || CF_ALIASES.contains(&name)
        || CfOptions::IGNORED.contains(&name)
}

/// RocksDB's words for a name that no struct of options has.
pub(super) fn not_recognized(name: &str) -> Error {
    Error::invalid_argument(format!("Extra option not recognized: {name}"))
        .in_plain_words(no_such_option(name))
}

/// Says in plain words that no option has that name, and names the nearest one.
pub(super) fn no_such_option(name: &str) -> String {
    let whole = name.split_once('.').map_or(name, |(whole, _)| whole);
    let known = names::<DbOptions>().chain(names::<CfOptions>());
    let nearest = nearest(whole, known.chain(names::<BlockBasedTableOptions>()));
    match nearest {
        Some(known) if BlockBasedTableOptions::row(whole).is_some() => {
            format!("{name} is an option of tables: write block_based_table_factory={{{known}=…}}")
        }
        // Of a database, where one of a family is wanted, or the other way round.
        Some(known) if known == whole => {
            let of = match DbOptions::row(whole) {
                Some(_) => "the database",
                None => "column families",
            };
            format!("{name} is an option of {of}, and is not set here")
        }
        Some(nearest) => format!("there is no option {name}; the nearest name is {nearest}"),
        None => format!("there is no option {name}"),
    }
}

/// The names of the options of one kind.
fn names<T: OptionTable>() -> impl Iterator<Item = &'static str> {
    T::ROWS.iter().map(|row| row.name)
}

/// Returns whether a struct of options says that it has no such name.
pub(super) fn is_unknown(error: &Error) -> bool {
    error.message().starts_with("Could not find option")
}

/// An unknown table option is reported by the name it was given as: that of the factory if it stood in its braces.
pub(super) fn name_the_factory(error: Error, name: &str) -> Error {
    let whole = name.split_once('.').map_or(name, |(whole, _)| whole);
    if !whole.ends_with("table_factory") || !is_unknown(&error) {
        return error;
    }
    // The name that stands in its braces, or after its dot.
    let inner = error.message().rsplit(": ").next().unwrap_or_default();
    let plain = match nearest(inner, names::<BlockBasedTableOptions>()) {
        Some(nearest) => {
            format!("{whole}: tables have no option {inner}; the nearest name is {nearest}")
        }
        None => format!("{whole}: tables have no option {inner}"),
    };
    not_recognized(name).in_plain_words(plain)
}

/// Applies `a=b;c=d` to whichever of database, column family and table knows each name.
///
/// # Errors
/// `InvalidArgument`; nothing is changed then.
pub fn apply_options_string(
    text: &str,
    db: &mut DbOptions,
    cf: &mut CfOptions,
    table: &mut BlockBasedTableOptions,
) -> Result<()> {
    let (mut new_db, mut new_cf, mut new_table) = (db.clone(), cf.clone(), table.clone());
    let mut unknown = None;
    for (name, value) in split_pairs(text)? {
        let whole = name
            .split_once('.')
            .map_or(name.as_str(), |(whole, _)| whole);
        if DbOptions::row(whole).is_some() || DbOptions::IGNORED.contains(&name.as_str()) {
            new_db.set_option(&name, &value)?;
        } else if knows_cf_option(whole) {
            set_cf_option(&mut new_cf, &mut new_table, &name, &value)
                .map_err(|e| name_the_factory(e, &name))?;
        } else {
            // RocksDB reports a bad value before an unknown name.
            unknown.get_or_insert(name);
        }
    }
    if let Some(name) = unknown {
        return Err(not_recognized(&name));
    }
    (*db, *cf, *table) = (new_db, new_cf, new_table);
    Ok(())
}
