//! YCSB's core workloads A to F, and a load.
//!
//! A record is one entry: key `user` and the hashed record number, value the fields, each with length
//! and name and length and content, big-endian, as YCSB's binding of RocksDB serialises them. An
//! update changes one field, so it reads the record first; with one field or `--write-all-fields` it
//! replaces the value unread.

use super::kind::Kind;
use super::settings::Settings;
use super::workload::write_options;
use clap::{Args, ValueEnum};
use spanlith::{Cf, ReadOptions, Result, WriteOptions};
use spanlith_workload::generate::ycsb::{Layout, Mix, Records};
use spanlith_workload::generate::{
    Distribution, Population, Requests, Rng, THETA, Values, Zipfian, fnv64,
};
use spanlith_workload::measure::Meter;

/// Flags of the YCSB workloads.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "YCSB")]
pub struct YcsbSettings {
    /// Fields of a record
    #[arg(long, value_name = "N", default_value_t = 10,
          value_parser = clap::value_parser!(u64).range(1..=10_000))]
    fields: u64,
    /// Bytes of a field
    #[arg(long, value_name = "BYTES", default_value_t = 100)]
    field_length: usize,
    /// Updates replace the whole value instead of one field
    #[arg(long)]
    write_all_fields: bool,
    /// Which records requests ask for; each workload has its own if left out
    #[arg(long, value_name = "NAME")]
    distribution: Option<Distribution>,
    /// Order of insertion: by the hash of the record number, or by the number
    #[arg(long, value_enum, value_name = "ORDER", default_value = "hashed")]
    insert_order: InsertOrder,
    /// Digits of a key at least, filled with zeros
    #[arg(long, value_name = "DIGITS", default_value_t = 0,
          value_parser = clap::value_parser!(u64).range(0..=1000))]
    zero_padding: u64,
    /// Longest scan
    #[arg(long, value_name = "RECORDS", default_value_t = 100,
          value_parser = clap::value_parser!(u64).range(1..))]
    max_scan_length: u64,
    /// Distribution of the lengths of scans
    #[arg(long, value_enum, value_name = "NAME", default_value = "uniform")]
    scan_length: ScanLength,
    /// Skew of the zipfian distributions, in 0..1
    #[arg(long, value_name = "THETA", default_value_t = THETA, value_parser = skew)]
    zipfian_constant: f64,
    /// Share of the records that is hot in 'hotspot'
    #[arg(long, value_name = "SHARE", default_value_t = 0.2, value_parser = proportion)]
    hotspot_set: f64,
    /// Share of the requests that goes there
    #[arg(long, value_name = "SHARE", default_value_t = 0.8, value_parser = proportion)]
    hotspot_requests: f64,
}

/// Order of keys against that of record numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum InsertOrder {
    /// Keys are hashes
    Hashed,
    /// Keys are the numbers
    Ordered,
}

/// How long scans are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ScanLength {
    /// All lengths alike
    Uniform,
    /// Short ones most
    Zipfian,
}

fn proportion(text: &str) -> std::result::Result<f64, String> {
    match text.parse::<f64>() {
        Ok(n) if (0.0..=1.0).contains(&n) => Ok(n),
        Ok(n) => Err(format!("{n} is no share: 0 to 1")),
        Err(e) => Err(e.to_string()),
    }
}

fn skew(text: &str) -> std::result::Result<f64, String> {
    match text.parse::<f64>() {
        Ok(n) if n > 0.0 && n < 1.0 => Ok(n),
        Ok(n) => Err(format!("{n} is no skew: above 0, below 1")),
        Err(e) => Err(e.to_string()),
    }
}

impl YcsbSettings {
    /// For the header and JSON.
    pub fn text(&self) -> String {
        format!(
            "records of {} fields of {} bytes, {}, {} order",
            self.fields,
            self.field_length,
            match self.distribution {
                None => "distribution of the workload".to_string(),
                Some(d) => format!("{d:?}").to_lowercase(),
            },
            match self.insert_order {
                InsertOrder::Hashed => "hashed",
                InsertOrder::Ordered => "ordered",
            }
        )
    }
}

/// One thread's state.
struct Client<'a> {
    cf: &'a Cf,
    s: &'a Settings,
    records: &'a Records,
    rng: Rng,
    requests: Requests,
    scan_lengths: Option<Zipfian>,
    layout: Layout,
    contents: Values,
    key: String,
    value: Vec<u8>,
    read: ReadOptions,
    write: WriteOptions,
}

impl Client<'_> {
    fn set_key(&mut self, n: u64) {
        use std::fmt::Write;
        let hashed = match self.s.ycsb.insert_order {
            InsertOrder::Hashed => fnv64(n),
            InsertOrder::Ordered => n,
        };
        self.key.clear();
        let width = self.s.ycsb.zero_padding as usize;
        // Writing to a string cannot fail.
        let _ = write!(self.key, "user{hashed:0width$}");
    }

    /// Fills the value with a whole new record.
    fn compose(&mut self) {
        self.value.clear();
        self.value.extend_from_slice(&self.layout.blank);
        for field in 0..self.layout.offsets.len() {
            let content = self.contents.next();
            self.layout.set(&mut self.value, field, content);
        }
    }

    fn size(&self) -> u64 {
        (self.key.len() + self.value.len()) as u64
    }

    /// Takes the number of a record that exists, as the distribution says, and makes its key.
    fn pick(&mut self) {
        let n = self.requests.draw(&mut self.rng, self.records.count());
        self.set_key(n);
    }

    /// Reads the record of the key into the value; whether it is there.
    fn get(&mut self) -> Result<bool> {
        self.value.clear();
        let value = self.cf.get_opt(&self.key, &self.read)?;
        Ok(value.is_some_and(|v| {
            self.value.extend_from_slice(&v);
            true
        }))
    }

    fn put(&mut self) -> Result<()> {
        self.cf.put_opt(&self.key, &self.value, &self.write)
    }

    fn insert(&mut self, n: u64) -> Result<()> {
        self.set_key(n);
        self.compose();
        self.put()
    }

    fn read(&mut self, meter: &mut Meter<'_>) -> Result<()> {
        self.pick();
        let found = self.get()?;
        meter.looked_up(1, u64::from(found), if found { self.size() } else { 0 });
        Ok(())
    }

    /// Changes the record; a record that was loaded with other fields is replaced.
    fn update(&mut self, read_first: bool, meter: &mut Meter<'_>) -> Result<()> {
        self.pick();
        let whole = self.s.ycsb.write_all_fields || self.layout.offsets.len() == 1;
        let (mut looked_up, mut found, mut bytes) = (0, 0, 0);
        if read_first || !whole {
            looked_up = 1;
            found = u64::from(self.get()?);
            bytes = found * self.size();
        }
        if whole || self.value.len() != self.layout.blank.len() {
            self.compose();
        } else {
            let field = self.rng.below(self.layout.offsets.len() as u64) as usize;
            let content = self.contents.next();
            self.layout.set(&mut self.value, field, content);
        }
        self.put()?;
        bytes += self.size();
        if looked_up > 0 {
            meter.looked_up(looked_up, found, bytes);
        } else {
            meter.done(1, bytes);
        }
        Ok(())
    }

    fn scan(&mut self, meter: &mut Meter<'_>) -> Result<()> {
        self.pick();
        let max = self.s.ycsb.max_scan_length;
        let length = 1 + match &self.scan_lengths {
            None => self.rng.below(max),
            Some(zipfian) => zipfian.rank(self.rng.unit()),
        };
        let mut cursor = self.cf.cursor(ReadOptions::new());
        let mut on = cursor.seek(self.key.as_bytes())?;
        let found = u64::from(on && cursor.key() == self.key.as_bytes());
        let (mut seen, mut bytes) = (0, 0);
        while on && seen < length {
            seen += 1;
            bytes += (cursor.key().len() + cursor.value().len()) as u64;
            on = cursor.next()?;
        }
        drop(cursor);
        meter.looked_up(1, found, bytes);
        Ok(())
    }
}

/// Returns what one thread does.
///
/// # Errors
/// The first of the database.
pub fn run(
    kind: Kind,
    cf: &Cf,
    s: &Settings,
    thread: u64,
    rng: Rng,
    meter: &mut Meter<'_>,
) -> Result<()> {
    let y = &s.ycsb;
    let records: &Records = &s.records;
    let (mix, usual) = mix_of(kind);
    let operations = kind.operations(s).unwrap_or(s.num);
    let population = Population {
        records: records.count(),
        expected_inserts: operations * mix.insert / 100,
        theta: y.zipfian_constant,
        hot_set: y.hotspot_set,
        hot_share: y.hotspot_requests,
    };
    let zipfian_lengths = y.scan_length == ScanLength::Zipfian;
    let mut client = Client {
        cf,
        s,
        records,
        rng,
        requests: Requests::new(y.distribution.unwrap_or(usual), population),
        scan_lengths: zipfian_lengths.then(|| Zipfian::new(y.max_scan_length, y.zipfian_constant)),
        layout: Layout::new(y.fields, y.field_length),
        contents: Values::new(y.field_length, s.seed ^ (thread << 32)),
        key: String::new(),
        value: Vec::new(),
        read: ReadOptions::new(),
        write: write_options(kind, s),
    };
    meter.restart();
    if kind == Kind::YcsbLoad {
        // Claimed one by one, so that a load that is cut short leaves the first records, not some.
        while meter.go_on(1) {
            let n = records.claim();
            if n >= s.num {
                break;
            }
            client.insert(n)?;
            records.acknowledge(n);
            meter.done(1, client.size());
        }
        return Ok(());
    }
    while meter.go_on(1) {
        let dice = client.rng.below(100);
        if dice < mix.read {
            meter.part("read");
            client.read(meter)?;
        } else if dice < mix.read + mix.update {
            meter.part("update");
            client.update(false, meter)?;
        } else if dice < mix.read + mix.update + mix.modify {
            meter.part("read-modify-write");
            client.update(true, meter)?;
        } else if dice < mix.read + mix.update + mix.modify + mix.scan {
            meter.part("scan");
            client.scan(meter)?;
        } else {
            meter.part("insert");
            let n = records.claim();
            client.insert(n)?;
            records.acknowledge(n);
            meter.done(1, client.size());
        }
    }
    Ok(())
}

/// The mix of a workload and how it picks records; all are reads for one that has no letter.
fn mix_of(kind: Kind) -> (Mix, Distribution) {
    let letter = match kind {
        Kind::YcsbA => 'a',
        Kind::YcsbB => 'b',
        Kind::YcsbC => 'c',
        Kind::YcsbD => 'd',
        Kind::YcsbE => 'e',
        Kind::YcsbF => 'f',
        _ => 'w',
    };
    Mix::of(letter).unwrap_or((Mix::default(), Distribution::Zipfian))
}
