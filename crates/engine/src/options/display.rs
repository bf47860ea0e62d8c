//! Options as text, both ways: `name=value;name=value`.
//!
//! A value that differs from the default is printed; one that is not named keeps its default when parsed.

use super::table::OptionTable;
use super::text::split_pairs;
use super::{BlockBasedTableOptions, CfOptions, DbOptions};
use spanlith_base::{Error, Result};
use std::fmt;
use std::str::FromStr;

fn print<T: OptionTable>(options: &T, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (n, name) in options.changed().into_iter().enumerate() {
        let value = options.get_option(name).unwrap_or_default();
        // Braces keep what a value contains from ending it.
        let braces = value.contains([';', '=']) && !value.starts_with('{');
        let (open, close) = if braces { ("{", "}") } else { ("", "") };
        let separator = if n == 0 { "" } else { ";" };
        write!(f, "{separator}{name}={open}{value}{close}")?;
    }
    Ok(())
}

fn parse<T: OptionTable>(text: &str) -> Result<T> {
    let mut options = T::default();
    for (name, value) in split_pairs(text)? {
        options.set_option(&name, &value)?;
    }
    Ok(options)
}

macro_rules! as_text {
    ($($Options:ty),*) => { $(
        impl fmt::Display for $Options {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                print(self, f)
            }
        }

        impl FromStr for $Options {
            type Err = Error;

            fn from_str(text: &str) -> Result<Self> {
                parse(text)
            }
        }
    )* };
}

as_text!(DbOptions, CfOptions, BlockBasedTableOptions);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_printed_as_what_differs_and_parsed_back() {
        let cf = CfOptions::new().write_buffer_size(1u64 << 20).num_levels(5);
        assert_eq!(cf.to_string(), "write_buffer_size=1048576;num_levels=5");
        assert_eq!(cf.to_string().parse::<CfOptions>().unwrap(), cf);
        assert_eq!(DbOptions::default().to_string(), "");
        assert_eq!("".parse::<DbOptions>().unwrap(), DbOptions::default());
        let mut cf = CfOptions::new();
        cf.set_option("compression_opts", "{level=3;max_dict_bytes=4096}")
            .unwrap();
        assert_eq!(cf.to_string().parse::<CfOptions>().unwrap(), cf);
        let err = "no_such=1".parse::<BlockBasedTableOptions>().unwrap_err();
        assert!(err.to_string().contains("no_such"), "{err}");
    }
}
