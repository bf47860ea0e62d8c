//! Values of options between C and Rust.

use spanlith::options::block_based::LowHalf;
use spanlith::options::{
    BlockSearchType, CacheTier, ChecksumType, CompactionPri, CompactionStopStyle, CompactionStyle,
    CompressionType, DataBlockIndexType, IndexShorteningMode, IndexType, InfoLogLevel,
    OptimizeKeyCommonPrefix, PinningTier, PrepopulateBlobCache, PrepopulateBlockCache, Temperature,
    WalRecoveryMode,
};
use spanlith_base::{Error, Result};
use std::collections::BTreeMap;

/// Complaints about values, by option; reported when the options are used.
pub(crate) type Deferred = BTreeMap<&'static str, Complaint>;

/// Describes what is to be said about a value that did not fit its option.
#[derive(Clone, Debug)]
pub(crate) struct Complaint {
    pub(crate) error: Error,
    /// The value: the getter of the option gives it back.
    pub(crate) value: f64,
}

impl From<Error> for Complaint {
    /// About what has no getter.
    fn from(error: Error) -> Self {
        Self { error, value: 0.0 }
    }
}

/// A number of C's.
pub(crate) trait Number: Copy {
    /// Exact for every number an enumeration has.
    fn as_f64(self) -> f64;
    /// Takes the lowest bits, as C does.
    fn of_f64(value: f64) -> Self;
}

macro_rules! numbers {
    ($($ty:ty),*) => {$(
        impl Number for $ty {
            fn as_f64(self) -> f64 {
                self as f64
            }

            fn of_f64(value: f64) -> Self {
                value as i64 as Self
            }
        }
    )*};
}

numbers!(u8, i32, u32, i64, u64, usize, f64);

/// The first complaint, if there is one.
pub(crate) fn first_complaint(deferred: &Deferred) -> Result<()> {
    let first = deferred.values().next();
    first.map_or(Ok(()), |c| Err(c.error.clone()))
}

/// A value that C can set.
pub(crate) trait FromC<C>: Sized {
    /// Converts; `Err` is what to say when the value is used.
    fn from_c(value: C) -> Result<Self>;
}

/// A value that C can get.
pub(crate) trait ToC<C> {
    /// Converts.
    fn to_c(&self) -> C;
}

/// Stores a converted value, or the complaint about it.
pub(crate) fn assign<C: Number, T: FromC<C>>(
    slot: &mut T,
    raw: C,
    name: &'static str,
    deferred: &mut Deferred,
) {
    match T::from_c(raw) {
        Ok(value) => {
            *slot = value;
            deferred.remove(name);
        }
        Err(error) => {
            let value = raw.as_f64();
            deferred.insert(name, Complaint { error, value });
        }
    }
}

macro_rules! same {
    ($($ty:ty),*) => {$(
        impl FromC<$ty> for $ty {
            fn from_c(value: $ty) -> Result<Self> {
                Ok(value)
            }
        }

        impl ToC<$ty> for $ty {
            fn to_c(&self) -> $ty {
                *self
            }
        }
    )*};
}

same!(u8, i32, u32, i64, u64, f64);

// C's number types wrap where they differ from the option's, as the conversions of C++ do.
macro_rules! wrapping {
    ($($ty:ty as $c:ty),*) => {$(
        impl FromC<$c> for $ty {
            fn from_c(value: $c) -> Result<Self> {
                Ok(value as Self)
            }
        }

        impl ToC<$c> for $ty {
            fn to_c(&self) -> $c {
                *self as $c
            }
        }
    )*};
}

wrapping!(u64 as usize, u32 as i32);

macro_rules! booleans {
    ($($c:ty),*) => {$(
        impl FromC<$c> for bool {
            fn from_c(value: $c) -> Result<Self> {
                Ok(value != 0)
            }
        }

        impl ToC<$c> for bool {
            fn to_c(&self) -> $c {
                (*self).into()
            }
        }
    )*};
}

booleans!(u8, i32);

impl FromC<u32> for LowHalf {
    fn from_c(value: u32) -> Result<Self> {
        Ok(Self(value))
    }
}

impl ToC<u32> for LowHalf {
    fn to_c(&self) -> u32 {
        self.0
    }
}

macro_rules! enums {
    ($($ty:ty),* $(,)?) => {$(
        impl FromC<i32> for $ty {
            fn from_c(value: i32) -> Result<Self> {
                Self::from_number(value).ok_or_else(|| {
                    Error::invalid_argument("option has no such value")
                        .with("type", stringify!($ty))
                        .with("value", value)
                })
            }
        }

        impl ToC<i32> for $ty {
            fn to_c(&self) -> i32 {
                self.number()
            }
        }
    )*};
}

enums!(
    BlockSearchType,
    CacheTier,
    ChecksumType,
    CompactionPri,
    CompactionStopStyle,
    CompactionStyle,
    DataBlockIndexType,
    IndexShorteningMode,
    IndexType,
    InfoLogLevel,
    OptimizeKeyCommonPrefix,
    PinningTier,
    PrepopulateBlobCache,
    PrepopulateBlockCache,
    Temperature,
    WalRecoveryMode,
);

impl FromC<i32> for CompressionType {
    fn from_c(value: i32) -> Result<Self> {
        // RocksDB's parameter is an int, its enumeration a byte.
        Self::from_byte(value as u8).ok_or_else(|| {
            Error::invalid_argument("Using a CompressionType other than built-in ...")
        })
    }
}

impl ToC<i32> for CompressionType {
    fn to_c(&self) -> i32 {
        self.as_byte().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_enum_value_keeps_the_old_one_and_is_remembered() {
        let mut deferred = Deferred::new();
        let mut style = CompactionStyle::Level;
        assign(&mut style, 77, "compaction_style", &mut deferred);
        assert_eq!(style, CompactionStyle::Level);
        let text = first_complaint(&deferred).unwrap_err().to_string();
        assert_eq!(
            text,
            "Invalid argument: option has no such value: type=CompactionStyle value=77"
        );
        assign(&mut style, 2, "compaction_style", &mut deferred);
        assert_eq!(style, CompactionStyle::Fifo);
        assert!(first_complaint(&deferred).is_ok());
    }
}
