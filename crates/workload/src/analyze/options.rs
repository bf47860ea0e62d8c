//! Describes what is counted, and what is written.

use super::Operation;
use std::path::PathBuf;

/// Settings of an analysis. The names in the comments are the flags of `trace_analyzer`.
#[derive(Clone, Debug)]
pub struct AnalyzerOptions {
    /// Operations that are analysed (`analyze_get` and so on); nothing is known of the others but their number.
    pub operations: Vec<Operation>,
    /// Files of keys and of how their number grows (`output_key_stats`).
    pub key_stats: bool,
    /// File of how many keys were accessed how often (`output_access_count_stats`).
    pub access_counts: bool,
    /// File of each access with its second (`output_time_series`).
    pub time_series: bool,
    /// Files of accesses per second (`output_qps_stats`).
    pub qps: bool,
    /// File of the sizes of keys (`output_key_distribution`).
    pub key_sizes: bool,
    /// File of the sizes of values (`output_value_distribution`).
    pub value_sizes: bool,
    /// Keys that share so many leading bytes are counted together; 0 for not (`output_prefix_cut`).
    pub prefix_len: usize,
    /// Width in bytes of a range of value sizes (`value_interval`), at least 1.
    pub value_interval: u64,
    /// How many of the most accessed keys and prefixes are told (`print_top_k_access`).
    pub top: usize,
    /// Keys accessed as often or less are left out of distributions (`output_ignore_count`).
    pub ignore_count: u64,
    /// Of each operation, only one access of so many is counted (1 / `sample_ratio`), at least 1.
    pub sample_every: u32,
    /// Pairs of operations: how often the second followed the first on one key, and after what time
    /// (`print_correlation`).
    pub correlations: Vec<(Operation, Operation)>,
    /// The sums over everything are told (`print_overall_stats`).
    pub overall: bool,
    /// The readable part of a damaged trace is analysed (`try_process_corrupted_trace`).
    pub tolerate_damage: bool,
    /// Bytes that keys may take in memory, about; more of them go through files. With correlations all keys stay in memory. Accesses
    /// in time series take 12 bytes in a file, and 4 bytes of memory for each key.
    pub memory_bytes: usize,
    /// Directory of those files, which have no names; the system's temporary directory if left out.
    pub scratch: Option<PathBuf>,
}

impl Default for AnalyzerOptions {
    fn default() -> Self {
        Self {
            operations: Vec::new(),
            key_stats: false,
            access_counts: false,
            time_series: false,
            qps: false,
            key_sizes: false,
            value_sizes: false,
            prefix_len: 0,
            value_interval: 8,
            top: 1,
            ignore_count: 0,
            sample_every: 1,
            correlations: Vec::new(),
            overall: true,
            tolerate_damage: false,
            memory_bytes: 128 << 20,
            scratch: None,
        }
    }
}

impl AnalyzerOptions {
    pub(super) fn scratch(&self) -> PathBuf {
        self.scratch.clone().unwrap_or_else(std::env::temp_dir)
    }

    pub(super) fn is_analysed(&self, operation: Operation) -> bool {
        self.operations.contains(&operation)
    }
}
