//! Experiments: what a published document measured, run again at the scale of this machine.
//!
//! An entry is one file with one constant and one function, and one row of [`EXPERIMENTS`]
//! (`docs/howto/add-an-experiment.md`). [`Bench`] gives a run its directory, scale, seed and stores,
//! [`Findings`] takes what it measured, [`outcome`] is a finished run with its JSON.

mod b_tree;
mod bench;
mod file_reads;
mod findings;
mod on_device;
pub mod outcome;
mod run;
mod separation;
mod steady;
mod x_sd_1;
mod x_sd_10;
mod x_sd_11;
mod x_sd_12;
mod x_sd_13;
mod x_sd_14;
mod x_sd_2;
mod x_sd_3;
mod x_sd_4;
mod x_sd_5;
mod x_sd_6;
mod x_sd_7;
mod x_sd_8;
mod x_sd_9;
mod x_sp_1;
mod x_sp_4;
mod x_tr_1;
mod x_tr_2;
mod x_tr_3;
mod x_tr_4;
mod x_wc_1;
mod x_wc_10;
mod x_wc_11;
mod x_wc_12;
mod x_wc_13;
mod x_wc_14;
mod x_wc_15;
mod x_wc_16;
mod x_wc_17;
mod x_wc_2;
mod x_wc_3;
mod x_wc_4;
mod x_wc_5;
mod x_wc_6;
mod x_wc_7;
mod x_wc_8;
mod x_wc_9;
mod x_wl_1;
mod x_wl_2;
mod x_wl_3;
mod x_wl_4;
mod x_wl_5;
mod x_wl_6;
mod x_wl_7;
mod x_wl_8;
mod x_xp_1;
mod x_xp_5;

pub use bench::{Bench, Progress, Quiet};
pub use findings::{Bound, Check, Figure, Findings, Series, Spread};
pub use outcome::Outcome;
pub use run::{Plan, run};

use crate::store::StoreName;

/// Outcome of an experiment's function.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an experiment could not be made. A criterion that fails is no error.
#[derive(Debug)]
pub struct Error(String);

impl Error {
    /// An error with a text.
    pub fn new(text: impl std::fmt::Display) -> Self {
        Self(text.to_string())
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

macro_rules! from {
    ($($kind:ty)*) => {
        $(impl From<$kind> for Error {
            fn from(e: $kind) -> Self {
                Self(e.to_string())
            }
        })*
    };
}

from! { crate::store::Error spanlith::Error std::io::Error }

/// One experiment of a document.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// Its name: `X-SP-1`.
    pub id: &'static str,
    /// Says what it shows, in a line.
    pub title: &'static str,
    /// The document and its figure or table.
    pub document: &'static str,
    /// Requirements that it verifies.
    pub requirements: &'static str,
    /// Says what is run, at scale 1.
    pub setup: &'static str,
    /// When it passes, in words; the function's checks say it in numbers.
    pub criterion: &'static str,
    /// Stores that it can run on.
    pub stores: Stores,
    /// Runs it once.
    pub run: fn(&Bench<'_>) -> Result<Findings>,
}

/// Stores that an experiment can run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stores {
    /// This engine only; other names are refused.
    Ours,
    /// Trees with RocksDB's options and statistics.
    RocksDbLike,
    /// This engine only, on emulated devices that the experiment names.
    OnDevices,
    /// Stores with transactions.
    Transactional,
}

impl Stores {
    /// Returns whether a store is one of them.
    pub fn allow(self, name: &StoreName) -> bool {
        match self {
            Self::Ours | Self::OnDevices => *name == StoreName::Ours,
            Self::RocksDbLike => name.is_rocksdb_like(),
            Self::Transactional => *name != StoreName::Slab,
        }
    }

    /// In words.
    pub fn text(self) -> &'static str {
        match self {
            Self::Ours => "spanlith only",
            Self::OnDevices => "spanlith only, on devices of its own",
            Self::RocksDbLike => "spanlith and rocksdb",
            Self::Transactional => "any store with transactions",
        }
    }
}

/// All experiments, in the order in which lists show them.
pub const EXPERIMENTS: &[Experiment] = &[
    x_sd_1::ENTRY,
    x_sd_2::ENTRY,
    x_sd_3::ENTRY,
    x_sd_4::ENTRY,
    x_sd_5::ENTRY,
    x_sd_6::ENTRY,
    x_sd_7::ENTRY,
    x_sd_8::ENTRY,
    x_sd_9::ENTRY,
    x_sd_10::ENTRY,
    x_sd_11::ENTRY,
    x_sd_12::ENTRY,
    x_sd_13::ENTRY,
    x_sd_14::ENTRY,
    x_sp_1::ENTRY,
    x_sp_4::ENTRY,
    x_tr_1::ENTRY,
    x_tr_2::ENTRY,
    x_tr_3::ENTRY,
    x_tr_4::ENTRY,
    x_wc_1::ENTRY,
    x_wc_2::ENTRY,
    x_wc_3::ENTRY,
    x_wc_4::ENTRY,
    x_wc_5::ENTRY,
    x_wc_6::ENTRY,
    x_wc_7::ENTRY,
    x_wc_8::ENTRY,
    x_wc_9::ENTRY,
    x_wc_10::ENTRY,
    x_wc_11::ENTRY,
    x_wc_12::ENTRY,
    x_wc_13::ENTRY,
    x_wc_14::ENTRY,
    x_wc_15::ENTRY,
    x_wc_16::ENTRY,
    x_wc_17::ENTRY,
    x_wl_1::ENTRY,
    x_wl_2::ENTRY,
    x_wl_3::ENTRY,
    x_wl_4::ENTRY,
    x_wl_5::ENTRY,
    x_wl_6::ENTRY,
    x_wl_7::ENTRY,
    x_wl_8::ENTRY,
    x_xp_1::ENTRY,
    x_xp_5::ENTRY,
];

/// The experiment of a name, in any case of letters.
pub fn find(id: &str) -> Option<&'static Experiment> {
    EXPERIMENTS.iter().find(|e| e.id.eq_ignore_ascii_case(id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanlith_testkit::{TempDir, test_name};

    /// Runs an entry small; the checks that fail.
    fn failed(id: &str, scale: f64) -> Vec<String> {
        let temp = TempDir::new(test_name!());
        let bench = Bench::new(scale, 301, &[StoreName::Ours], temp.path());
        let found = (find(id).unwrap().run)(&bench).unwrap_or_else(|e| panic!("{id}: {e}"));
        assert!(!found.checks.is_empty(), "{id}");
        let wrong = found.checks.iter().filter(|c| !c.passed());
        wrong
            .map(|c| format!("{id}: {} is {:?}, wanted {}", c.what, c.values, c.bound))
            .collect()
    }

    /// It judges no time and no race: its figures follow from the seed.
    #[test]
    fn the_model_of_key_ranges_passes_at_a_small_scale() {
        assert_eq!(failed("X-WL-2", 0.06), [] as [String; 0]);
    }

    /// In virtual time, so that its figures follow from the seed.
    #[test]
    fn loggers_and_paths_of_devices_pass_at_a_small_scale() {
        assert_eq!(failed("X-SD-1", 0.2), [] as [String; 0]);
    }

    /// The same.
    #[test]
    fn pairs_of_devices_pass_on_virtual_cores() {
        // A shortfall that the document of the speed disk tells: the tables' device bounds scans, however they are called.
        let wrong = failed("X-SD-5", 0.1).into_iter();
        let wrong: Vec<String> = wrong
            .filter(|w| !w.contains("E: speed disk over plain on S-"))
            .collect();
        assert_eq!(wrong, [] as [String; 0]);
    }

    /// The same.
    #[test]
    fn caches_graphs_and_orders_pass_in_virtual_time() {
        assert_eq!(failed("X-SD-6", 0.1), [] as [String; 0]);
        // Shortfalls that the document of the speed disk tells: with as many calls outstanding the tables' device bounds
        // LinkBench either way, and a write on O waits for the insertion of those before it.
        let wrong = failed("X-SD-7", 0.02).into_iter();
        let wrong: Vec<String> = wrong.filter(|w| !w.contains("400 threads")).collect();
        assert_eq!(wrong, [] as [String; 0]);
        let wrong = failed("X-SD-12", 0.02).into_iter();
        let wrong: Vec<String> = wrong
            .filter(|w| !w.contains("O, 2 in flight: p99 of a write, ordered over relaxed"))
            .collect();
        assert_eq!(wrong, [] as [String; 0]);
    }

    /// The same; shortfalls are told in the document of the speed disk, and some show at a large scale only. X-SD-3 is short as
    /// it is.
    #[test]
    fn levels_bursts_and_slots_show_what_they_must_in_virtual_time() {
        for (id, scale, judged) in [
            ("X-SD-2", 0.01, "writes: pl over"),
            ("X-SD-2", 0.1, "auto over the best"),
            ("X-SD-3", 1.0, ""),
            ("X-SD-8", 0.01, "S-O"),
            ("X-SD-9", 0.01, "height"),
        ] {
            let wrong = failed(id, scale).into_iter();
            let wrong: Vec<String> = wrong.filter(|w| w.contains(judged)).collect();
            assert_eq!(wrong, [] as [String; 0]);
        }
    }

    /// The same.
    #[test]
    fn pages_pad_what_they_must_and_power_losses_break_nothing() {
        for id in ["X-SD-11", "X-SD-13"] {
            assert_eq!(failed(id, 0.01), [] as [String; 0]);
        }
    }

    /// Judges what devices take by a virtual clock, and no processor time.
    #[test]
    fn the_place_of_the_log_orders_durable_puts() {
        let wrong = failed("X-XP-5", 0.02).into_iter();
        let wrong: Vec<String> = wrong.filter(|w| !w.contains("not synced")).collect();
        assert_eq!(wrong, [] as [String; 0]);
    }

    /// In virtual time, too.
    #[test]
    fn the_log_costs_what_its_device_does() {
        assert_eq!(failed("X-WC-7", 0.02), [] as [String; 0]);
    }

    /// The simulator has no time but its own.
    #[test]
    fn large_batches_wait_for_their_bytes_and_no_longer() {
        assert_eq!(failed("X-WC-15", 0.1), [] as [String; 0]);
    }

    /// The same.
    #[test]
    fn mishaps_are_no_reason_to_stand_still() {
        assert_eq!(failed("X-WC-16", 0.3), [] as [String; 0]);
    }

    #[test]
    fn what_must_hold_of_graphs_and_orders_holds_at_a_small_scale() {
        for id in ["X-SP-4", "X-WL-8"] {
            let wrong: Vec<String> = failed(id, 0.02)
                .into_iter()
                .filter(|w| w.contains("condition"))
                .collect();
            assert_eq!(wrong, [] as [String; 0]);
        }
    }

    #[test]
    fn ids_are_unique_and_entries_are_whole() {
        for (n, e) in EXPERIMENTS.iter().enumerate() {
            assert!(e.id.starts_with("X-"), "{}", e.id);
            assert_eq!(EXPERIMENTS.iter().position(|o| o.id == e.id), Some(n));
            for text in [e.title, e.document, e.requirements, e.setup, e.criterion] {
                assert!(!text.is_empty(), "{}", e.id);
            }
            assert!(find(&e.id.to_lowercase()).is_some());
        }
    }
}
