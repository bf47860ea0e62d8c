//! Options as rows: one declaration yields field, default, chaining setter, and a row to print,
//! parse and change the option by its RocksDB name.
//!
//! ```text
//! options! {
//!     /// Options of one column family.
//!     pub struct CfOptions {
//!         /// Doc for the person who must choose.
//!         mutable write_buffer_size: u64 = 64 << 20;
//!         fixed wal_ttl_seconds as "WAL_ttl_seconds": u64 = 0;
//!         parsed env: String = String::new();
//!         fixed percent: u32 = 10, in 0..=100;
//!     }
//!     ignored { "name_that_means_nothing" }
//!     own OwnCfOptions
//!     at_open FixedCfOptions
//! }
//! ```
//!
//! `mutable` may be changed on an open database, `fixed` may not, `parsed` is read by name but never
//! written to an OPTIONS file. `newer` and `newer_mutable` are options that RocksDB has since 11.9: they are written
//! only if they are not the defaults, so that 11.8 reads all other files. `in` bounds a value: an open and a change at run time refuse others.
//! `own` adds a field of that name with the options that RocksDB does not have ([`super::own`]). `at_open`
//! yields a second struct with the same fields, in which a `mutable` option has the type [`ChangesWhileOpen`]: who
//! keeps the options that a database was opened with keeps that struct, and cannot read a value that may have
//! been replaced meanwhile.

use super::values::ValueError;
use spanlith_base::{Error, Result};
use std::cell::LazyCell;

/// Stands for the value of an option that may be changed on an open database, where only those are kept that
/// may not. Such a value is read from the options in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangesWhileOpen;

/// A struct of options, of which those that cannot be changed on an open database are kept apart.
pub trait AtOpen {
    /// The struct with these.
    type Fixed: Clone + std::fmt::Debug;

    /// The options that stay as they are until the database is closed.
    fn at_open(&self) -> Self::Fixed;
}

/// One option of `T`.
pub struct OptionRow<T> {
    /// RocksDB's name.
    pub name: &'static str,
    /// Rust type of the field.
    pub type_name: &'static str,
    /// Says whether it may be changed on an open database.
    pub mutable: bool,
    /// Says whether it is written to OPTIONS files.
    pub written: bool,
    /// Says whether RocksDB 11.8 does not know it, so that only values other than the default are written.
    pub newer: bool,
    /// Says whether the value is a struct one of whose options is newer and not the default.
    pub nested_newer: fn(&T) -> bool,
    /// Says whether the value is a struct, so that `name.field` addresses a part.
    pub nested: bool,
    /// Says what it is for.
    pub doc: &'static str,
    /// Smallest and largest value, printed; `None` if the type alone decides.
    pub bounds: fn() -> Option<(String, String)>,
    /// Says whether the value lies within the bounds.
    pub is_within: fn(&T) -> bool,
    /// Prints the value.
    pub get: fn(&T) -> String,
    /// Parses a value into the field; structs keep the fields that are not named.
    pub set: fn(&mut T, &str) -> std::result::Result<(), ValueError>,
}

/// A struct of options.
pub trait OptionTable: Default + 'static {
    /// Its options, in the order they are written.
    const ROWS: &'static [OptionRow<Self>];
    /// Names that are accepted and mean nothing (any more).
    const IGNORED: &'static [&'static str];

    /// The row called `name`.
    fn row(name: &str) -> Option<&'static OptionRow<Self>> {
        Self::ROWS.iter().find(|r| r.name == name)
    }

    /// The printed value of the option called `name`.
    fn get_option(&self, name: &str) -> Option<String> {
        Self::row(name).map(|r| (r.get)(self))
    }

    /// Sets the option called `name`, or `name.field` of a struct.
    ///
    /// # Errors
    /// `InvalidArgument` for an unknown name or a value that does not parse.
    fn set_option(&mut self, name: &str, value: &str) -> Result<()> {
        if let Some(row) = Self::row(name) {
            return (row.set)(self, value).map_err(|e| e.into_error(name, value));
        }
        if let Some((whole, field)) = name.split_once('.')
            && let Some(row) = Self::row(whole)
            && row.nested
        {
            return (row.set)(self, &format!("{{{field}={value}}}"))
                .map_err(|e| e.into_error(whole, value));
        }
        if Self::IGNORED.contains(&name) {
            return Ok(());
        }
        Err(Error::invalid_argument(format!(
            "Could not find option: : {name}"
        )))
    }

    /// Returns whether an option that RocksDB 11.8 does not know is not the default, in a struct within this one too.
    fn uses_newer(&self) -> bool {
        let default = LazyCell::new(Self::default);
        Self::ROWS.iter().any(|r| {
            (r.newer && !is_as_in(LazyCell::force(&default), self, r)) || (r.nested_newer)(self)
        })
    }

    /// Refuses values outside of their bounds.
    ///
    /// # Errors
    /// `InvalidArgument` with name, value and bounds of the first.
    fn check_bounds(&self) -> Result<()> {
        let Some(row) = Self::ROWS.iter().find(|r| !(r.is_within)(self)) else {
            return Ok(());
        };
        let (low, high) = (row.bounds)().unwrap_or_default();
        let (name, value) = (row.name, (row.get)(self));
        Err(Error::invalid_argument(format!(
            "{name} must be from {low} to {high}, not {value}"
        )))
    }

    /// Names of the options whose value is not the default.
    fn changed(&self) -> Vec<&'static str> {
        let default = Self::default();
        Self::ROWS
            .iter()
            .filter(|r| (r.get)(self) != (r.get)(&default))
            .map(|r| r.name)
            .collect()
    }
}

/// Returns whether the option of the row has its default.
/// Returns whether two values have the same option of a row.
pub(super) fn is_as_in<T: OptionTable>(one: &T, other: &T, row: &OptionRow<T>) -> bool {
    (row.get)(one) == (row.get)(other)
}

macro_rules! option_word {
    (name $field:ident) => {
        stringify!($field)
    };
    (name $field:ident $key:literal) => {
        $key
    };
    (mutable mutable) => {
        true
    };
    (mutable newer_mutable) => {
        true
    };
    (newer newer) => {
        true
    };
    (newer newer_mutable) => {
        true
    };
    (newer $other:ident) => {
        false
    };
    (mutable $other:ident) => {
        false
    };
    (written parsed) => {
        false
    };
    (written $other:ident) => {
        true
    };
}

/// Type and value of a field of the struct with the options that stay.
macro_rules! option_at_open {
    (type mutable $ty:ty) => {
        $crate::options::table::ChangesWhileOpen
    };
    (type newer_mutable $ty:ty) => {
        $crate::options::table::ChangesWhileOpen
    };
    (type $other:ident $ty:ty) => {
        $ty
    };
    (value mutable $value:expr) => {
        $crate::options::table::ChangesWhileOpen
    };
    (value newer_mutable $value:expr) => {
        $crate::options::table::ChangesWhileOpen
    };
    (value $other:ident $value:expr) => {
        $value.clone()
    };
}

/// Bounds of an option, if its row says some.
macro_rules! option_bounds {
    (printed) => {
        None
    };
    (printed $bounds:expr) => {{
        let bounds = $bounds;
        let low = $crate::options::values::OptionValue::print(bounds.start());
        let high = $crate::options::values::OptionValue::print(bounds.end());
        Some((low, high))
    }};
    (within $value:expr) => {{
        let _ = $value;
        true
    }};
    (within $value:expr, $bounds:expr) => {
        ($bounds).contains($value)
    };
}

/// The struct with the options that stay, if one is asked for.
macro_rules! option_at_open_struct {
    ($Name:ident { $($rest:tt)* } { $($own:tt)* }) => {};
    (
        $Name:ident $Fixed:ident
        { $( $word:ident $field:ident: $ty:ty; )* }
        { $(own $Own:ident)? }
    ) => {
        #[doc = concat!("Those of [`", stringify!($Name), "`] that cannot be changed on an open database.")]
        #[derive(Clone, Debug)]
        #[allow(missing_docs, reason = "the fields are described where they may be set")]
        pub struct $Fixed {
            $( pub $field: option_at_open!(type $word $ty), )*
            $( pub own: <$Own as $crate::options::table::AtOpen>::Fixed, )?
        }

        impl $crate::options::table::AtOpen for $Name {
            type Fixed = $Fixed;

            #[allow(clippy::clone_on_copy, reason = "some types are, others are not")]
            fn at_open(&self) -> $Fixed {
                $Fixed {
                    $( $field: option_at_open!(value $word self.$field), )*
                    $( own: <$Own as $crate::options::table::AtOpen>::at_open(&self.own), )?
                }
            }
        }
    };
}

macro_rules! options {
    (
        $(#[$meta:meta])*
        pub struct $Name:ident {
            $(
                $(#[doc = $doc:literal])+
                $word:ident $field:ident $(as $key:literal)? : $ty:ty = $default:expr
                    $(, in $bounds:expr)?;
            )*
        }
        ignored { $($ignored:literal),* $(,)? }
        $(own $Own:ident)?
        $(at_open $Fixed:ident)?
    ) => {
        option_at_open_struct! {
            $Name $($Fixed)?
            { $( $word $field: $ty; )* }
            { $(own $Own)? }
        }

        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub struct $Name {
            $($(#[doc = $doc])+ pub $field: $ty,)*
            $(
                /// Options that RocksDB does not have. No OPTIONS file holds them: see
                /// [`Sidecar`](crate::options::Sidecar).
                pub own: $Own,
            )?
        }

        impl Default for $Name {
            fn default() -> Self {
                Self {
                    $($field: $default,)*
                    $(own: $Own::default(),)?
                }
            }
        }

        impl $Name {
            /// All defaults.
            pub fn new() -> Self {
                Self::default()
            }

            $(
                #[doc = concat!("Sets the field `", stringify!($field), "`.")]
                #[must_use]
                pub fn $field(mut self, value: impl Into<$ty>) -> Self {
                    self.$field = value.into();
                    self
                }
            )*

            $(
                /// Sets the options that RocksDB does not have.
                #[must_use]
                pub fn own(mut self, own: $Own) -> Self {
                    self.own = own;
                    self
                }
            )?
        }

        impl $crate::options::table::OptionTable for $Name {
            const ROWS: &'static [$crate::options::table::OptionRow<Self>] = &[$(
                $crate::options::table::OptionRow {
                    name: option_word!(name $field $($key)?),
                    type_name: stringify!($ty),
                    mutable: option_word!(mutable $word),
                    written: option_word!(written $word),
                    newer: option_word!(newer $word),
                    nested_newer: |o| {
                        $crate::options::values::OptionValue::uses_newer(&o.$field)
                    },
                    nested: <$ty as $crate::options::values::OptionValue>::NESTED,
                    doc: concat!($($doc, "\n"),+),
                    bounds: || option_bounds!(printed $($bounds)?),
                    is_within: |o| option_bounds!(within &o.$field $(, $bounds)?),
                    get: |o| $crate::options::values::OptionValue::print(&o.$field),
                    set: |o, text| {
                        $crate::options::values::OptionValue::parse_into(&mut o.$field, text)
                    },
                },
            )*];
            const IGNORED: &'static [&'static str] = &[$($ignored),*];
        }
    };
}

/// Prints a struct of options as `{a=b;c=d;}`.
pub(crate) fn print_nested<T: OptionTable>(value: &T) -> String {
    let mut out = String::from("{");
    let default = LazyCell::new(T::default);
    for row in T::ROWS {
        if row.newer && is_as_in(LazyCell::force(&default), value, row) {
            continue;
        }
        out.push_str(row.name);
        out.push('=');
        out.push_str(&(row.get)(value));
        out.push(';');
    }
    out.push('}');
    out
}

/// Parses `{a=b;c=d;}` (the braces may be missing) into the fields it names.
pub(crate) fn parse_nested<T: OptionTable>(
    into: &mut T,
    text: &str,
) -> std::result::Result<(), ValueError> {
    for (name, value) in super::text::nested_pairs(text).map_err(ValueError::Other)? {
        match T::row(&name) {
            Some(row) => {
                (row.set)(into, &value)
                    .map_err(|e| ValueError::Other(e.into_error(&name, &value)))?;
            }
            None if T::IGNORED.contains(&name.as_str()) => {}
            None => {
                let nearest = super::own::nearest(&name, T::ROWS.iter().map(|row| row.name));
                return Err(ValueError::Field(name, nearest));
            }
        }
    }
    Ok(())
}

/// As in RocksDB `{}` is no struct of options: that is said by leaving the value empty, or by `{ }`.
pub(crate) fn refuse_no_pairs(text: &str) -> std::result::Result<(), ValueError> {
    match text {
        "{}" => Err(ValueError::Other(super::text::unexpected_in_key())),
        _ => Ok(()),
    }
}

/// Makes structs of options usable as values of options.
macro_rules! nested_values {
    ($($Name:ty),*) => {$(
        impl $crate::options::values::OptionValue for $Name {
            const NESTED: bool = true;
            fn print(&self) -> String {
                $crate::options::table::print_nested(self)
            }
            fn uses_newer(&self) -> bool {
                $crate::options::table::OptionTable::uses_newer(self)
            }
            fn parse_into(
                &mut self,
                text: &str,
            ) -> Result<(), $crate::options::values::ValueError> {
                $crate::options::table::refuse_no_pairs(text)?;
                $crate::options::table::parse_nested(self, text)
            }
        }
    )*};
}
