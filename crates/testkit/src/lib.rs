//! Describes what the tests of all crates share.
//!
//! | need | item |
//! |---|---|
//! | a seed that is printed and can be repeated | [`seed`], [`test_name!`] |
//! | random numbers | [`Rng`] |
//! | keys and values that find mistakes | [`KeyGen`], [`ValueGen`], [`adversarial_keys`] |
//! | scripts with exact expected output | [`run_golden`], [`Directive`] |
//! | a folder that disappears | [`TempDir`], [`copy_dir`] |
//! | databases written by RocksDB | [`golden_cases`], [`read_expected_tsv`] |
//! | what RocksDB recovers from damaged logs | [`recovery_outcomes`] |
//! | bytes as text | [`hex`], [`unhex`], [`printable`] |
//!
//! Uses `base` and `env` only, so that every crate above those can have it as a development
//! dependency. Helpers panic with a message that names the file and line at fault: a test has no
//! better use for an error.
#![forbid(unsafe_code)]

mod fixtures;
mod generate;
mod golden;
mod hex;
mod recovery;
mod rng;
mod seed;
mod temp;

pub use fixtures::{
    ExpectedFamily, GoldenCase, fixtures_dir, golden_case, golden_cases, read_expected_tsv,
};
pub use generate::{KeyGen, KeyShape, ValueGen, adversarial_keys};
pub use golden::{Directive, run_golden};
pub use hex::{hex, printable, unhex};
pub use recovery::{RecoveryOutcome, named_keys, recovery_outcomes};
pub use rng::Rng;
pub use seed::seed;
pub use temp::{TempDir, copy_dir};

#[doc(hidden)]
pub use seed::function_name_of;
