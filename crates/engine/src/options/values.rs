//! How values of options are printed and parsed.
//!
//! | type | printed | accepted |
//! |---|---|---|
//! | bool | `true`, `false` | also `1`, `0` |
//! | integer | decimal | decimal with suffix k, m, g, t (powers of 1024); `-n` wraps for unsigned 64 bits; white space before it and whatever stands after it mean nothing |
//! | float | six decimals, more if they matter | decimal; the same |
//! | string, object | as is | as is |
//! | vector | joined by `:` | elements may stand in braces |
//!
//! One pair of braces around a value means nothing. All of this is as RocksDB reads them, which leaves numbers to
//! the C library.

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic
    )
)]

use super::text::strip_braces;
use spanlith_base::{Error, Result};

/// Why a value does not parse.
#[derive(Clone, Debug)]
pub enum ValueError {
    /// Not a number; the C++ function that says so in RocksDB's text.
    Number(&'static str),
    /// A number that is too large for its type, as it stands.
    Range(String),
    /// Neither true nor false.
    Bool,
    /// Not a name of the enumeration, which has these.
    Enum(Vec<&'static str>),
    /// The same, of an enumeration that RocksDB describes otherwise.
    Unmapped(Vec<&'static str>),
    /// A struct has no field of this name; the nearest that it has.
    Field(String, Option<&'static str>),
    /// Not the positions of a struct.
    Positions,
    /// Anything else.
    Other(Error),
}

impl ValueError {
    /// The error for the option called `name` that was given as `value`: RocksDB's message, and in plain words what
    /// is wrong with which value, and one that would do.
    pub fn into_error(self, name: &str, value: &str) -> Error {
        let example = match &self {
            Self::Number("stod") => "0.5",
            Self::Number("stoi") | Self::Range(_) => "4",
            Self::Number(_) if name.ends_with("size") || name.contains("bytes") => "64M",
            Self::Number(_) => "10",
            Self::Bool => "true",
            Self::Enum(names) | Self::Unmapped(names) => names.first().copied().unwrap_or_default(),
            _ => "",
        };
        let is = match &self {
            Self::Number(_) => "is no number, or too large for one".to_string(),
            Self::Range(_) => "is too large for it".to_string(),
            Self::Bool => "is neither true nor false".to_string(),
            Self::Enum(names) | Self::Unmapped(names) => {
                format!("is none of its values: {}", names.join(", "))
            }
            _ => String::new(),
        };
        let plain = match value.trim() {
            "" => format!("{name} has no value; write for example {name}={example}"),
            value => format!("{name}: '{value}' {is}; write for example {name}={example}"),
        };
        let error = match self {
            Self::Number(what) => Error::invalid_argument(format!("Error parsing {name}:{what}")),
            Self::Range(value) => Error::invalid_argument(format!("Error parsing {name}:{value}")),
            Self::Bool => Error::invalid_argument(format!("Error parsing {name}:")),
            Self::Enum(_) => Error::invalid_argument(format!("Error parsing:: {name}")),
            Self::Unmapped(_) => Error::invalid_argument(format!("No mapping for enum : {name}")),
            Self::Field(field, nearest) => {
                let error = Error::invalid_argument(format!("Unrecognized option: {name}.{field}"));
                let nearest = nearest.unwrap_or_default();
                return error.in_plain_words(format!(
                    "{name} has no field {field}; the nearest name is {nearest}"
                ));
            }
            Self::Positions => {
                return Error::invalid_argument(format!(
                    "unable to parse the specified CF option {name}"
                ));
            }
            Self::Other(error) => return error,
        };
        error.in_plain_words(plain)
    }
}

/// The type of an option's field.
pub trait OptionValue: Sized {
    /// Says whether it is a struct of options.
    const NESTED: bool = false;
    /// Returns whether it is a struct with an option that RocksDB 11.8 does not know and that is not the default.
    fn uses_newer(&self) -> bool {
        false
    }
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
        *self = match strip_braces(text) {
            "true" | "1" => true,
            "false" | "0" => false,
            _ => return Err(ValueError::Bool),
        };
        Ok(())
    }
}

/// White space of the C library.
fn is_space(c: char) -> bool {
    c.is_ascii_whitespace() || c == '\x0b'
}

/// The number at the start of `text`, and what stands after it; `None` if there are no digits.
fn leading_integer(text: &str) -> Option<(i128, &str)> {
    let text = text.trim_start_matches(is_space);
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let len = unsigned.bytes().take_while(u8::is_ascii_digit).count();
    let digits = unsigned.get(..len).filter(|d| !d.is_empty())?;
    // More digits than fit are too large for every type.
    let number = digits.parse::<i128>().unwrap_or(i128::MAX);
    let number = if text.starts_with('-') {
        -number
    } else {
        number
    };
    Some((number, unsigned.get(len..).unwrap_or_default()))
}

/// How far the size suffix at the start of `rest` shifts to the left.
fn suffix_shift(rest: &str, has_tera: bool) -> u32 {
    match rest.bytes().next() {
        Some(b'k' | b'K') => 10,
        Some(b'm' | b'M') => 20,
        Some(b'g' | b'G') => 30,
        Some(b't' | b'T') if has_tera => 40,
        _ => 0,
    }
}

fn parse_u64(text: &str) -> Result<u64, ValueError> {
    const WHAT: ValueError = ValueError::Number("stoull");
    let (number, rest) = leading_integer(text).ok_or(WHAT)?;
    // A negative number wraps as long as its digits fit.
    let number = match u64::try_from(number.unsigned_abs()) {
        Ok(n) if number < 0 => n.wrapping_neg(),
        Ok(n) => n,
        Err(_) => return Err(WHAT),
    };
    Ok(number << suffix_shift(rest, true))
}

macro_rules! integers {
    ($($ty:ty, $parse:expr;)*) => {$(
        impl OptionValue for $ty {
            fn print(&self) -> String {
                self.to_string()
            }

            fn parse_into(&mut self, text: &str) -> Result<(), ValueError> {
                let text = strip_braces(text);
                let parse: fn(&str) -> Result<$ty, ValueError> = $parse;
                *self = parse(text)?;
                Ok(())
            }
        }
    )*};
}

integers! {
    u8, |text| parse_u64(text)?.try_into().map_err(|_| ValueError::Range(text.to_string()));
    u32, |text| parse_u64(text)?.try_into().map_err(|_| ValueError::Range(text.to_string()));
    u64, parse_u64;
    i32, |text| {
        const WHAT: ValueError = ValueError::Number("stoi");
        let (number, rest) = leading_integer(text).ok_or(WHAT)?;
        let number = i32::try_from(number).map_err(|_| WHAT)?;
        Ok(number << suffix_shift(rest, false))
    };
    i64, |text| {
        const WHAT: ValueError = ValueError::Number("stoll");
        let (number, rest) = leading_integer(text).ok_or(WHAT)?;
        let number = i64::try_from(number).map_err(|_| WHAT)?;
        Ok(number << suffix_shift(rest, true))
    };
}

/// The number at the start of `text`.
fn leading_float(text: &str) -> Option<f64> {
    let text = text.trim_start_matches(is_space);
    if let Some(hex) = leading_hex_float(text) {
        return Some(hex);
    }
    text.get(..float_len(text))?.parse().ok()
}

/// Length of the longest start of `text` that is a decimal number, or the name of one; 0 if there is none.
fn float_len(text: &str) -> usize {
    let bytes = text.as_bytes();
    let digits = |from: usize| {
        let rest = bytes.get(from..).unwrap_or_default();
        rest.iter().take_while(|b| b.is_ascii_digit()).count()
    };
    let sign = |at: usize| usize::from(matches!(bytes.get(at), Some(b'+' | b'-')));
    let begin = sign(0);
    for name in ["infinity", "inf", "nan"] {
        let end = begin + name.len();
        if text
            .get(begin..end)
            .is_some_and(|t| t.eq_ignore_ascii_case(name))
        {
            return end;
        }
    }
    let mut end = begin + digits(begin);
    let mut count = end - begin;
    if bytes.get(end) == Some(&b'.') {
        let part = digits(end + 1);
        count += part;
        end += 1 + part;
    }
    if count == 0 {
        return 0;
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let from = end + 1 + sign(end + 1);
        let power = digits(from);
        if power > 0 {
            end = from + power;
        }
    }
    end
}

/// As `strtod` reads hexadecimal: `0x1F.8p-3`.
fn leading_hex_float(text: &str) -> Option<f64> {
    let (sign, text) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    let text = text
        .strip_prefix("0x")
        .or_else(|| text.strip_prefix("0X"))?;
    let digits = |t: &str| t.len() - t.trim_start_matches(|c: char| c.is_ascii_hexdigit()).len();
    let (whole, rest) = text.split_at(digits(text));
    let (part, rest) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at(digits(rest)),
        None => ("", rest),
    };
    if whole.is_empty() && part.is_empty() {
        // `0x` alone is the number 0 and a rest.
        return None;
    }
    let value = |sum: f64, c: char| sum * 16.0 + f64::from(c.to_digit(16).unwrap_or(0));
    let mantissa = whole.chars().chain(part.chars()).fold(0.0, value);
    let exponent = rest.strip_prefix(['p', 'P']).unwrap_or("");
    let mut ends = (1..=exponent.len().min(8)).rev();
    let power = ends.find_map(|n| exponent.get(..n)?.parse::<i32>().ok());
    let scale = power.unwrap_or(0) - 4 * part.len().min(1 << 10) as i32;
    Some(sign * mantissa * 2f64.powi(scale))
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
        let text = strip_braces(text);
        let says_infinite = || text.to_ascii_lowercase().contains("inf");
        // `stod` refuses what is too large, and takes infinity by name.
        let fits = |n: &f64| !n.is_nan() && (n.is_finite() || says_infinite());
        let number = leading_float(text).filter(fits);
        *self = number.ok_or(ValueError::Number("stod"))?;
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
        let text = strip_braces(text);
        for part in super::text::split_outside_braces(text, ':').map_err(ValueError::Other)? {
            let mut value = T::default();
            value.parse_into(strip_braces(part.trim()))?;
            all.push(value);
        }
        *self = all;
        Ok(())
    }
}
