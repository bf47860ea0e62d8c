//! How values of options are printed and parsed.
//!
//! | type | printed | accepted |
//! |---|---|---|
//! | bool | `true`, `false` | also `1`, `0` |
//! | integer | decimal | decimal with suffix k, m, g, t (powers of 1024); `-n` wraps for unsigned 64 bits, as `strtoull` does |
//! | float | six decimals, more if they matter | decimal |
//! | string, object | as is | as is |
//! | vector | joined by `:` | elements may stand in braces |

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic
    )
)]

use spanlith_base::{Error, Result};

/// Why a value does not parse.
#[derive(Clone, Debug)]
pub enum ValueError {
    /// Not a number; the C++ function that says so in RocksDB's text.
    Number(&'static str),
    /// Neither true nor false.
    Bool,
    /// Not a name of the enumeration.
    Enum,
    /// A struct has no field of this name.
    Field(String),
    /// Not the positions of a struct.
    Positions,
    /// Anything else.
    Other(Error),
}

impl ValueError {
    /// The error for the option called `name`.
    pub fn into_error(self, name: &str) -> Error {
        match self {
            Self::Number(what) => Error::invalid_argument(format!("Error parsing {name}:{what}")),
            Self::Bool => Error::invalid_argument(format!("Error parsing {name}:")),
            Self::Enum => Error::invalid_argument(format!("Error parsing:: {name}")),
            Self::Field(field) => {
                Error::invalid_argument(format!("Unrecognized option: {name}.{field}"))
            }
            Self::Positions => {
                Error::invalid_argument(format!("unable to parse the specified CF option {name}"))
            }
            Self::Other(error) => error,
        }
    }
}

/// The type of an option's field.
pub trait OptionValue: Sized {
    /// Whether it is a struct of options.
    const NESTED: bool = false;
    /// Prints it.
    fn print(&self) -> String;
    /// Parses it, keeping what `text` does not name.
    ///
    /// # Errors
    /// Why it does not parse; `self` may be partly changed then.
    fn parse_into(&mut self, text: &str) -> Result<(), ValueError>;
}

impl OptionValue for bool {
    fn print(&self) -> String {
        self.to_string()
    }

    fn parse_into(&mut self, text: &str) -> Result<(), ValueError> {
        *self = match text {
            "true" | "1" => true,
            "false" | "0" => false,
            _ => return Err(ValueError::Bool),
        };
        Ok(())
    }
}

/// Digits, perhaps signed, perhaps with a size suffix.
fn parse_integer(text: &str) -> Option<i128> {
    let (digits, shift) = match text.char_indices().last()? {
        (at, 'k' | 'K') => (text.get(..at)?, 10),
        (at, 'm' | 'M') => (text.get(..at)?, 20),
        (at, 'g' | 'G') => (text.get(..at)?, 30),
        (at, 't' | 'T') => (text.get(..at)?, 40),
        _ => (text, 0),
    };
    digits.parse::<i128>().ok()?.checked_mul(1 << shift)
}

macro_rules! integers {
    ($($ty:ty, $what:literal;)*) => {$(
        impl OptionValue for $ty {
            fn print(&self) -> String {
                self.to_string()
            }

            fn parse_into(&mut self, text: &str) -> Result<(), ValueError> {
                *self = parse_integer(text)
                    .and_then(|n| n.try_into().ok())
                    .ok_or(ValueError::Number($what))?;
                Ok(())
            }
        }
    )*};
}

integers! {
    u8, "stoull";
    u32, "stoull";
    i32, "stoi";
    i64, "stoll";
}

impl OptionValue for u64 {
    fn print(&self) -> String {
        self.to_string()
    }

    fn parse_into(&mut self, text: &str) -> Result<(), ValueError> {
        let n = parse_integer(text).ok_or(ValueError::Number("stoull"))?;
        *self = match (u64::try_from(n), i64::try_from(n)) {
            (Ok(n), _) => n,
            (Err(_), Ok(negative)) => negative.cast_unsigned(),
            _ => return Err(ValueError::Number("stoull")),
        };
        Ok(())
    }
}

impl OptionValue for f64 {
    fn print(&self) -> String {
        let short = format!("{self:.6}");
        if short.parse() == Ok(*self) {
            short
        } else {
            self.to_string()
        }
    }

    fn parse_into(&mut self, text: &str) -> Result<(), ValueError> {
        let n: f64 = text.parse().map_err(|_| ValueError::Number("stod"))?;
        if n.is_nan() {
            return Err(ValueError::Number("stod"));
        }
        *self = n;
        Ok(())
    }
}

impl OptionValue for String {
    fn print(&self) -> String {
        self.clone()
    }

    fn parse_into(&mut self, text: &str) -> Result<(), ValueError> {
        text.clone_into(self);
        Ok(())
    }
}

impl<T: OptionValue + Default> OptionValue for Vec<T> {
    fn print(&self) -> String {
        let parts: Vec<String> = self
            .iter()
            .map(|v| {
                let text = v.print();
                if text.contains(':') {
                    format!("{{{text}}}")
                } else {
                    text
                }
            })
            .collect();
        parts.join(":")
    }

    fn parse_into(&mut self, text: &str) -> Result<(), ValueError> {
        let mut all = Vec::new();
        for part in super::text::split_outside_braces(text, ':').map_err(ValueError::Other)? {
            let mut value = T::default();
            value.parse_into(super::text::strip_braces(part.trim()))?;
            all.push(value);
        }
        *self = all;
        Ok(())
    }
}
