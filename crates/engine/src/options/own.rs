//! Options that RocksDB does not have, by name: lookup, text form, and the nearest name of one that is unknown.
//!
//! The rows are in [`super::own_rows`]. Values live in the field `own` of [`DbOptions`] and [`CfOptions`], so
//! they take the same way as the options they stand beside. One text, `name=value;name=value`, may name
//! options of both scopes; it is applied as a whole or not at all.
//!
//! | where | how |
//! |---|---|
//! | Rust | `OpenBuilder::set`, `FamilyOptions::set`, or the fields `own` |
//! | C | `spanlith_options_set`, `spanlith_options_get` |
//! | command line | `--set name=value` |
//! | an open database | `Db::set_options`, `Cf::set_options`, beside RocksDB's names |
//! | on disk | the file `SPANLITH` ([`super::Sidecar`]); never in an OPTIONS file, whose readers refuse unknown names |

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic
    )
)]

use super::own_rows::{OwnCfOptions, OwnDbOptions};
use super::table::{OptionRow, OptionTable};
use super::text::split_pairs;
use super::{BlockBasedTableOptions, CfOptions, DbOptions};
use spanlith_base::{Error, Result};

/// Describes what an own option belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionScope {
    /// The whole database.
    Database,
    /// One column family.
    Family,
}

/// The description of one own option.
#[derive(Clone, Debug)]
pub struct OwnOption {
    /// Its name.
    pub name: &'static str,
    /// Says what it belongs to.
    pub scope: OptionScope,
    /// Rust type of the field.
    pub type_name: &'static str,
    /// Default, as text.
    pub default: String,
    /// Smallest and largest value, if not every value of the type is accepted.
    pub bounds: Option<(String, String)>,
    /// Says whether it may be changed on an open database.
    pub mutable: bool,
    /// Says what it is for.
    pub doc: &'static str,
}

/// All own options, those of the database first, in the order of their rows.
pub fn own_options() -> Vec<OwnOption> {
    fn described<T: OptionTable>(scope: OptionScope) -> impl Iterator<Item = OwnOption> {
        let default = T::default();
        T::ROWS.iter().map(move |row: &OptionRow<T>| OwnOption {
            name: row.name,
            scope,
            type_name: row.type_name,
            default: (row.get)(&default),
            bounds: (row.bounds)(),
            mutable: row.mutable,
            doc: row.doc,
        })
    }
    let database = described::<OwnDbOptions>(OptionScope::Database);
    let family = described::<OwnCfOptions>(OptionScope::Family);
    database.chain(family).collect()
}

/// Sets one own option if `T` has one of that name. `None` if it has not.
pub(super) fn set_own<T: OptionTable>(into: &mut T, name: &str, value: &str) -> Option<Result<()>> {
    let row = T::row(name)?;
    let set = (row.set)(into, value).map_err(|e| e.into_error(name, value));
    Some(set.and_then(|()| into.check_bounds()))
}

/// Applies `name=value;name=value` to whichever of database and family has each name.
///
/// # Errors
/// `InvalidArgument` for a name that is unknown (with the nearest one that is known), a wrong value and one
/// out of bounds; nothing is changed then.
pub fn apply_own(text: &str, db: &mut OwnDbOptions, cf: &mut OwnCfOptions) -> Result<()> {
    let (mut new_db, mut new_cf) = (db.clone(), cf.clone());
    for (name, value) in split_pairs(text)? {
        let set = set_own(&mut new_db, &name, &value);
        let set = set.or_else(|| set_own(&mut new_cf, &name, &value));
        set.unwrap_or_else(|| Err(unknown(&name)))?;
    }
    (*db, *cf) = (new_db, new_cf);
    Ok(())
}

/// All own options with their values, as [`apply_own`] takes them.
pub fn own_text(db: &OwnDbOptions, cf: &OwnCfOptions) -> String {
    fn text<T: OptionTable>(options: &T) -> String {
        let rows = T::ROWS.iter();
        rows.map(|row| format!("{}={};", row.name, (row.get)(options)))
            .collect()
    }
    text(db) + &text(cf)
}

/// The value of the own option called `name`.
///
/// # Errors
/// `InvalidArgument` for a name that is unknown.
pub fn get_own(name: &str, db: &OwnDbOptions, cf: &OwnCfOptions) -> Result<String> {
    let value = db.get_option(name).or_else(|| cf.get_option(name));
    value.ok_or_else(|| unknown(name))
}

/// The error for a name that no own option has.
pub(super) fn unknown(name: &str) -> Error {
    let is_rocksdbs = DbOptions::row(name).is_some()
        || CfOptions::row(name).is_some()
        || BlockBasedTableOptions::row(name).is_some();
    if is_rocksdbs {
        return Error::invalid_argument(format!(
            "Could not find option: {name} is an option of RocksDB, and is set as there"
        ));
    }
    let nearest = nearest(name, own_options().into_iter().map(|o| o.name));
    let nearest = nearest.unwrap_or_default();
    Error::invalid_argument(format!(
        "Could not find option: {name}; the nearest name is {nearest}"
    ))
}

/// The one of some names that is most like `name`.
pub(super) fn nearest<'n>(name: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    names.min_by_key(|known| distance(name, known))
}

/// Letters that have to be inserted, removed or replaced to make one name of the other. Takes time in
/// proportion to both lengths; of the first no more than 64 letters are looked at.
fn distance(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.chars().count()).collect();
    for (above, a) in one.chars().take(64).enumerate() {
        let mut diagonal = above;
        let mut left = above + 1;
        for (cell, b) in row.iter_mut().skip(1).zip(other.chars()) {
            let replaced = diagonal + usize::from(a != b);
            diagonal = *cell;
            left = replaced.min(diagonal + 1).min(left + 1);
            *cell = left;
        }
        if let Some(first) = row.first_mut() {
            *first = above + 1;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::enums::OrphanFiles;
    use super::*;

    options! {
        /// For tests: rows with everything that a row can say.
        pub struct Sample {
            /// Bounded.
            mutable percent: u32 = 10, in 1..=100;
            /// Unbounded.
            fixed name: String = "x".to_string();
        }
        ignored {}
    }

    #[test]
    fn a_text_names_options_of_both_scopes_and_is_applied_as_a_whole() {
        let (mut db, mut cf) = (OwnDbOptions::default(), OwnCfOptions::default());
        apply_own(
            "evidence=false; orphan_files=delete;witness_spacing=4k",
            &mut db,
            &mut cf,
        )
        .unwrap();
        assert!(!db.evidence && db.orphan_files == OrphanFiles::Delete);
        assert_eq!(get_own("witness_spacing", &db, &cf).unwrap(), "4096");
        let before = db.clone();
        for wrong in ["evidence=true;nothing=1", "evidence=true;witness_spacing=x"] {
            assert!(apply_own(wrong, &mut db, &mut cf).is_err(), "{wrong}");
            assert_eq!(db, before, "{wrong}");
        }
        let (mut again, mut cf_again) = (OwnDbOptions::default(), OwnCfOptions::default());
        apply_own(&own_text(&db, &cf), &mut again, &mut cf_again).unwrap();
        assert_eq!((again, cf_again), (db, cf));
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_nearest_one() {
        let said = |name: &str| unknown(name).to_string();
        assert_eq!(
            said("witnes_spacing"),
            "Invalid argument: Could not find option: witnes_spacing; the nearest name is witness_spacing"
        );
        assert!(said("orphans").ends_with("nearest name is orphan_files"));
        assert!(said("write_buffer_size").contains("is an option of RocksDB"));
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!((distance("", "abc"), distance("abc", "")), (3, 3));
    }

    #[test]
    fn values_out_of_their_bounds_are_refused_with_the_bounds() {
        let mut sample = Sample::default();
        let set = set_own(&mut sample, "percent", "101").unwrap();
        assert_eq!(
            set.unwrap_err().to_string(),
            "Invalid argument: percent must be from 1 to 100, not 101"
        );
        assert!(set_own(&mut sample, "percent", "100").unwrap().is_ok());
        assert!(set_own(&mut sample, "name", "anything").unwrap().is_ok());
        assert!(set_own(&mut sample, "none", "1").is_none());
        assert_eq!((Sample::ROWS[1].bounds)(), None);
        let sample = Sample::new().percent(0u32).name("y");
        assert!(
            sample.check_bounds().is_err(),
            "set as a field, and checked at open"
        );
    }

    /// A name in two tables would make one of the two unreachable, and a name of RocksDB's would be taken for it.
    #[test]
    fn names_are_unique_and_none_is_rocksdbs() {
        let all = own_options();
        for (at, option) in all.iter().enumerate() {
            let name = option.name;
            assert!(all[..at].iter().all(|o| o.name != name), "{name} twice");
            assert!(DbOptions::row(name).is_none() && CfOptions::row(name).is_none());
            assert!(BlockBasedTableOptions::row(name).is_none());
            assert!(!DbOptions::IGNORED.contains(&name) && !CfOptions::IGNORED.contains(&name));
            assert!(!option.doc.trim().is_empty());
        }
        OwnDbOptions::default().check_bounds().unwrap();
        OwnCfOptions::default().check_bounds().unwrap();
    }
}
