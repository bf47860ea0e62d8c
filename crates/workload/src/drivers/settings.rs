//! Parameters of drivers: names, defaults, and values that the command line sets.

use super::Driver;
use crate::generate::{Distribution, Values};
use std::collections::BTreeMap;

/// One parameter.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// Its value if nobody sets it.
    pub default: &'static str,
    /// Says what it means, with its unit.
    pub what: &'static str,
}

/// Parameters of every driver.
pub const COMMON: &[Parameter] = &[
    Parameter {
        name: "keys",
        default: "100000",
        what: "keys or records of the data set",
    },
    Parameter {
        name: "ops",
        default: "100000",
        what: "operations of the measured part, of all threads together",
    },
    Parameter {
        name: "seconds",
        default: "0",
        what: "length of the measured part; 0: as long as the operations take",
    },
    Parameter {
        name: "threads",
        default: "1",
        what: "threads",
    },
    Parameter {
        name: "rate",
        default: "0",
        what: "operations per second that begin whether or not others ended; 0: closed loop",
    },
    Parameter {
        name: "arrivals",
        default: "regular",
        what: "gaps of the open loop: regular or poisson",
    },
    Parameter {
        name: "value_size",
        default: "100",
        what: "bytes of a value, where the driver has no law of its own",
    },
    Parameter {
        name: "compression_ratio",
        default: "0.5",
        what: "what ZSTD leaves of a value, 0.1 to 1",
    },
    Parameter {
        name: "seed",
        default: "301",
        what: "seed of all random choices",
    },
];

/// Values of all parameters of a driver.
#[derive(Clone, Debug, Default)]
pub struct Settings(BTreeMap<&'static str, String>);

impl Settings {
    /// The defaults of a driver, changed by texts `name=value`.
    ///
    /// # Errors
    /// Names a parameter that the driver does not have, or a text without `=`.
    pub fn of<S: AsRef<str>>(
        driver: &Driver,
        changes: impl IntoIterator<Item = S>,
    ) -> Result<Self, String> {
        // A driver may have another default for a common parameter.
        let all = || COMMON.iter().chain(driver.parameters);
        let mut out: BTreeMap<&'static str, String> =
            all().map(|p| (p.name, p.default.to_string())).collect();
        for change in changes {
            let change = change.as_ref();
            let (name, value) = change
                .split_once('=')
                .ok_or_else(|| format!("'{change}' is not of the form name=value"))?;
            let parameter = all().find(|p| p.name == name).ok_or_else(|| {
                let names: Vec<&str> = all().map(|p| p.name).collect();
                format!(
                    "{} has no parameter '{name}': one of {}",
                    driver.name,
                    names.join(" ")
                )
            })?;
            out.insert(parameter.name, value.to_string());
        }
        Ok(Self(out))
    }

    /// All names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.iter().map(|(name, value)| (*name, value.as_str()))
    }

    /// The text of a parameter.
    ///
    /// # Panics
    /// If the driver did not declare it.
    pub fn text(&self, name: &str) -> &str {
        let value = self.0.get(name);
        value.unwrap_or_else(|| panic!("parameter {name} is not declared"))
    }

    /// A whole number of at least `least`.
    ///
    /// # Errors
    /// Names the parameter.
    pub fn whole(&self, name: &str, least: u64) -> crate::store::Result<u64> {
        match self.text(name).parse::<u64>() {
            Ok(n) if n >= least => Ok(n),
            _ => Err(self.wrong(name, &format!("a whole number of at least {least}"))),
        }
    }

    /// A number from `least` to `most`.
    ///
    /// # Errors
    /// Names the parameter.
    pub fn number(&self, name: &str, least: f64, most: f64) -> crate::store::Result<f64> {
        match self.text(name).parse::<f64>() {
            Ok(n) if n >= least && n <= most => Ok(n),
            _ => Err(self.wrong(name, &format!("a number from {least} to {most}"))),
        }
    }

    /// One of several words: its place among them.
    ///
    /// # Errors
    /// Names the parameter and the words.
    pub fn word(&self, name: &str, words: &[&str]) -> crate::store::Result<usize> {
        let text = self.text(name);
        let place = words.iter().position(|w| *w == text);
        place.ok_or_else(|| self.wrong(name, &format!("one of {}", words.join(", "))))
    }

    /// A list of whole numbers, separated by commas.
    ///
    /// # Errors
    /// Names the parameter.
    pub fn list(&self, name: &str) -> crate::store::Result<Vec<u64>> {
        let numbers = self.text(name).split(',').map(|n| n.trim().parse::<u64>());
        match numbers.collect::<Result<Vec<_>, _>>() {
            Ok(list) if list.iter().all(|n| *n > 0) => Ok(list),
            _ => Err(self.wrong(name, "whole numbers above 0, separated by commas")),
        }
    }

    /// Which records requests ask for.
    ///
    /// # Errors
    /// Names the parameter and the distributions.
    pub fn distribution(&self, name: &str) -> crate::store::Result<Distribution> {
        self.text(name)
            .parse()
            .map_err(|e: String| self.wrong(name, &e))
    }

    fn wrong(&self, name: &str, wanted: &str) -> crate::store::Error {
        let text = format!("'{}' is not what it takes: {wanted}", self.text(name));
        crate::store::Error::new(name, text)
    }

    /// The seed.
    ///
    /// # Errors
    /// If it is no whole number.
    pub fn seed(&self) -> crate::store::Result<u64> {
        self.whole("seed", 0)
    }

    /// Values as the parameters ask for, of a thread.
    ///
    /// # Errors
    /// Names the parameter.
    pub fn values(&self, thread: u64) -> crate::store::Result<Values> {
        let size = usize::try_from(self.whole("value_size", 1)?).unwrap_or(usize::MAX);
        let ratio = self.number("compression_ratio", 0.1, 1.0)?;
        Ok(Values::with_ratio(
            size.min(1 << 28),
            ratio,
            self.seed()? ^ (thread << 32),
        ))
    }
}
