//! Describes what the threads of a benchmark need to know, as flags, and the text that `--help` ends with.

use super::ycsb::YcsbSettings;
use clap::Args;
use spanlith_workload::generate::ycsb::Records;
use std::sync::Arc;

/// Benchmarks, examples and what the words mean.
pub(super) const HELP: &str = "\
Benchmarks, run in the order given. They write:
  fillseq               puts every key once, in order, into a fresh database
  fillrandom            puts random keys into a fresh database
  filluniquerandom      puts every key once, in random order, into a fresh database
  fillbatch             as fillseq, in batches (--batch-size, else 1000)
  fillsync              as fillrandom with sync; a thousandth of --num
  fill100K              as fillrandom with values of 100 000 bytes; a thousandth of --num
  overwrite             puts random keys into the existing database
  updaterandom          gets a random key and puts it again
  appendrandom          gets a random key, appends a value, puts it again
  mergerandom           adds 1 to random counters by merges (uint64add if --options names no operator)
  deleteseq             deletes every key, in order
  deleterandom          deletes random keys
  deleterangerandom     range deletions of --range-size keys at random places; --num / 1000 of them
  fillfamilies          batches of a random key in each of --families families
they read:
  readrandom            gets random keys
  readhot               gets random keys of the first hundredth
  readmissing           gets keys that are not there, among those that are
  readseq, readreverse  one scan over everything; an operation is one entry
  seekrandom            seeks random keys with a new iterator, then --seek-nexts steps
  multireadrandom       multi-get of --batch-size (else 32) random keys; an operation is one key
  readfamilies          gets random keys from random families of --families
they do both:
  readwhilewriting, readwhilemerging              readrandom on --threads while one more thread writes
  seekrandomwhilewriting, seekrandomwhilemerging  seekrandom, the same
  readrandomwriterandom                           gets, --readwritepercent of all, and puts; 'mixed' for short
YCSB (records are --num, operations --reads):
  ycsbload              inserts the records into a fresh database
  ycsba .. ycsbf        A 50/50 read update, B 95/5, C read, D read latest, E scans, F read-modify-write
  ycsbw                 updates only
  ycsb                  all of them in YCSB's order: load A B C F D, load E
and on the whole database:
  compact, flush, waitforcompaction, stats, levelstats, sstables
alone, without a database:
  raw                   what emulated devices do with requests, in virtual time; all of them, or the one of --device

Examples:
  spanlith bench fillrandom readrandom seekrandom --num 1000000
  spanlith bench fillrandom mixed --num 5000000 --duration 60 --threads 2 --report bench.html
  spanlith bench ycsb --num 100000 --threads 2
  spanlith bench ycsbload ycsba --num 1000000 --rate 20000 --duration 60
  spanlith bench fillrandom readrandom --sync --device S
  spanlith bench fillrandom --db /data/bench && spanlith bench readrandom --db /data/bench \\
      --use-existing-db --cache-mb 512

--report writes one page with charts that any browser shows, without a network. --rate asks for a
load that does not wait for answers: a call that starts late because an earlier one was slow counts
from when it was meant to start, as a user would feel it. Without --rate each thread makes its next call
when the last one has returned, and a stall counts once however long it lasts.

Without --db the database lives in a temporary directory and is removed at the end.";

/// Describes what the threads need to know.
#[derive(Clone, Debug, Args)]
pub struct Settings {
    /// Points of a series are never joined
    #[arg(skip)]
    pub(super) keep_points: bool,
    /// Keys in the key space, and operations of most benchmarks
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) num: u64,
    /// Operations of the reading benchmarks; --num if left out
    #[arg(long, value_name = "N")]
    pub(super) reads: Option<u64>,
    /// Bytes of a value
    #[arg(
        long,
        value_name = "BYTES",
        default_value_t = 100,
        alias = "value_size"
    )]
    pub(super) value_size: usize,
    /// Bytes of a key
    #[arg(long, value_name = "BYTES", default_value_t = 16, alias = "key_size",
          value_parser = at_least_one)]
    pub(super) key_size: usize,
    /// Threads
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub(super) threads: u64,
    /// Runs for so long instead of counting operations; scans and ordered fills end with the keys
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub(super) duration: u64,
    /// Operations per second that begin whether or not earlier ones are over; latencies count from then
    #[arg(long, value_name = "OPS", value_parser = rate)]
    pub(super) rate: Option<f64>,
    /// Gaps between those: equal, or random as of callers that know nothing of each other
    #[arg(long, value_enum, default_value = "regular", requires = "rate")]
    pub(super) arrivals: Arrivals,
    /// Takes a point of the series of --report and --json so often; 100 for --report, else none
    #[arg(long, value_name = "MILLISECONDS", alias = "report_interval_ms",
          value_parser = clap::value_parser!(u64).range(10..=3_600_000))]
    pub(super) report_interval_ms: Option<u64>,
    /// Seed of all random choices
    #[arg(long, default_value_t = 301)]
    pub(super) seed: u64,
    /// Entries per write, keys per multi-get
    #[arg(long, value_name = "N", default_value_t = 1, alias = "batch_size",
          value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) batch_size: u64,
    /// Calls that each thread has outstanding at once, asynchronously, in fillrandom, fillsync, overwrite,
    /// readrandom, readhot and readmissing; 1 for synchronous calls
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pub(super) outstanding: u64,
    /// Every write survives a power cut when it returns
    #[arg(long)]
    pub(super) sync: bool,
    /// Writes are not logged
    #[arg(long, alias = "disable_wal", conflicts_with = "sync")]
    pub(super) disable_wal: bool,
    /// Share of gets in readrandomwriterandom
    #[arg(long = "readwritepercent", value_name = "PERCENT", default_value_t = 90,
          value_parser = clap::value_parser!(u64).range(0..=100))]
    pub(super) read_percent: u64,
    /// Entries read after each seek
    #[arg(long, value_name = "N", default_value_t = 10, alias = "seek_nexts")]
    pub(super) seek_nexts: u64,
    /// Keys that a range deletion covers
    #[arg(long, value_name = "N", default_value_t = 100,
          value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) range_size: u64,
    /// Column families of fillfamilies and readfamilies, beside the default one
    #[arg(long, value_name = "N", default_value_t = 4,
          value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub(super) families: u64,
    #[command(flatten)]
    pub(super) ycsb: YcsbSettings,
    /// Number of the benchmark in the list, so that each draws its own random numbers.
    #[arg(skip)]
    pub(super) round: u64,
    /// The records of YCSB that exist.
    #[arg(skip)]
    pub(super) records: Arc<Records>,
}

/// Gaps between intended starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Arrivals {
    /// Equal
    Regular,
    /// Exponential
    Poisson,
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(n) if n.is_finite() && n > 0.0 => Ok(n),
        Ok(_) => Err("must be above 0 operations per second".to_string()),
        Err(e) => Err(e.to_string()),
    }
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("must be at least 1".to_string()),
        Ok(n) => Ok(n),
        Err(e) => Err(format!("{e}")),
    }
}

impl Settings {
    /// Seed of one thread of this benchmark.
    pub(super) fn stream(&self, thread: u64) -> u64 {
        self.seed
            .wrapping_add(self.round << 40)
            .wrapping_add(thread << 8)
    }

    /// The same with values of another size.
    pub(super) fn with_value_size(&self, value_size: usize) -> Self {
        Self {
            value_size,
            ..self.clone()
        }
    }

    /// Bytes of a key and its value.
    pub(super) fn entry_size(&self) -> u64 {
        (self.key_size + self.value_size) as u64
    }
}
