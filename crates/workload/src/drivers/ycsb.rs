//! YCSB's workloads A to F and W (updates only), with the knobs that [WL] asks for: sizes, ratios, compression,
//! throughput, and a distribution over key ranges.

use super::load::fill;
use super::{Call, Drive, Driver, Load, Parameter, Phase};
use crate::generate::mixgraph::{Model, Queries, Semantics, Variant, pareto};
use crate::generate::ycsb::{Layout, Mix, Records};
use crate::generate::{Population, Requests, Rng, THETA, Values, Zipfian, fnv64};
use crate::store::{Direction, Result, Store};
use std::sync::Arc;

/// The row of the table.
pub const DRIVER: Driver = Driver {
    name: "ycsb",
    title: "YCSB's workloads A to F, and W with updates only",
    parameters: &[
        Parameter {
            name: "workloads",
            default: "a,b,c,f,d,e",
            what: "letters, run one behind the other on the same records",
        },
        Parameter {
            name: "distribution",
            default: "",
            what: "which records; each workload's own if empty; keyrange: mixgraph's key ranges",
        },
        Parameter {
            name: "mix",
            default: "",
            what: "read,update,insert,scan,modify in percent, instead of the workloads' own",
        },
        Parameter {
            name: "fields",
            default: "10",
            what: "fields of a record; 1 makes the value the field alone",
        },
        Parameter {
            name: "value_size",
            default: "100",
            what: "bytes of a field",
        },
        Parameter {
            name: "value_law",
            default: "constant",
            what: "constant, or pareto: sizes of [WL]'s model (with fields=1)",
        },
        Parameter {
            name: "scan_length",
            default: "100",
            what: "longest scan",
        },
        Parameter {
            name: "scan_law",
            default: "uniform",
            what: "lengths of scans: uniform or zipfian",
        },
        Parameter {
            name: "insert_order",
            default: "hashed",
            what: "hashed or ordered",
        },
        Parameter {
            name: "theta",
            default: "0.99",
            what: "skew of the zipfian distributions",
        },
        Parameter {
            name: "hot_set",
            default: "0.2",
            what: "share of the records that is hot in hotspot",
        },
        Parameter {
            name: "hot_share",
            default: "0.8",
            what: "share of the requests that goes there",
        },
        Parameter {
            name: "warm_up",
            default: "0",
            what: "share of the operations made before those that count",
        },
    ],
    families: &[],
    transactions: false,
    run,
    check: None,
};

/// Which records are asked for.
#[derive(Clone, Debug)]
enum Picks {
    Ycsb(Requests),
    Ranges(Queries),
}

/// Describes what all threads share.
#[derive(Clone)]
struct Shape {
    hashed: bool,
    layout: Layout,
    law: Option<(f64, f64, f64)>,
    scan_max: u64,
    scan_zipfian: bool,
}

impl Shape {
    fn key(&self, n: u64, out: &mut Vec<u8>) {
        use std::io::Write;
        out.clear();
        let number = if self.hashed { fnv64(n) } else { n };
        // Writing to memory cannot fail.
        let _ = write!(out, "user{number}");
    }

    /// A whole new value.
    fn compose(&self, rng: &mut Rng, values: &mut Values, out: &mut Vec<u8>) {
        out.clear();
        if let Some(law) = self.law {
            let size = pareto(1.0 - rng.unit(), law).ceil().clamp(10.0, 1024.0);
            out.extend_from_slice(values.sized(size as usize));
        } else if self.layout.offsets.len() == 1 {
            out.extend_from_slice(values.next());
        } else {
            out.extend_from_slice(&self.layout.blank);
            for field in 0..self.layout.offsets.len() {
                self.layout.set(out, field, values.next());
            }
        }
    }
}

struct Client {
    shape: Shape,
    mix: Mix,
    records: Arc<Records>,
    picks: Picks,
    rng: Rng,
    lengths: Zipfian,
    values: Values,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Client {
    fn pick(&mut self) {
        let count = self.records.count();
        let n = match &mut self.picks {
            Picks::Ycsb(requests) => requests.draw(&mut self.rng, count),
            Picks::Ranges(queries) => queries.draw().key % count.max(1),
        };
        self.shape.key(n, &mut self.key);
    }

    fn update(&mut self, store: &dyn Store, read_first: bool) -> Result<Call> {
        self.pick();
        let part = if read_first {
            "read-modify-write"
        } else {
            "update"
        };
        let whole = self.shape.layout.offsets.len() == 1;
        let mut call = Call::wrote(part, 0);
        if read_first || !whole {
            let found = store.get(0, &self.key, &mut self.value)?;
            call = Call::read(part, found, self.key.len() + self.value.len());
        }
        if whole || self.value.len() != self.shape.layout.blank.len() {
            self.shape
                .compose(&mut self.rng, &mut self.values, &mut self.value);
        } else {
            let field = self.rng.below(self.shape.layout.offsets.len() as u64) as usize;
            let content = self.values.next();
            self.shape.layout.set(&mut self.value, field, content);
        }
        store.put(0, &self.key, &self.value)?;
        call.bytes += (self.key.len() + self.value.len()) as u64;
        Ok(call)
    }

    fn scan(&mut self, store: &dyn Store) -> Result<Call> {
        self.pick();
        let length = 1 + match self.shape.scan_zipfian {
            true => self.lengths.rank(self.rng.unit()),
            false => self.rng.below(self.shape.scan_max),
        };
        let limit = usize::try_from(length).unwrap_or(usize::MAX);
        let (mut bytes, mut found) = (0, false);
        let start = &self.key;
        store.scan(0, start, Direction::Forward, limit, &mut |key, value| {
            found |= key == start.as_slice();
            bytes += key.len() + value.len();
            true
        })?;
        Ok(Call {
            bytes: bytes as u64,
            ..Call::read("scan", found, 0)
        })
    }

    fn insert(&mut self, store: &dyn Store) -> Result<Call> {
        let n = self.records.claim();
        self.shape.key(n, &mut self.key);
        self.shape
            .compose(&mut self.rng, &mut self.values, &mut self.value);
        store.put(0, &self.key, &self.value)?;
        self.records.acknowledge(n);
        Ok(Call::wrote("insert", self.key.len() + self.value.len()))
    }
}

impl super::Client for Client {
    fn call(&mut self, store: &dyn Store) -> Result<Option<Call>> {
        let (m, dice) = (self.mix, self.rng.below(100));
        Ok(Some(if dice < m.read {
            self.pick();
            let found = store.get(0, &self.key, &mut self.value)?;
            Call::read("read", found, self.key.len() + self.value.len())
        } else if dice < m.read + m.update {
            self.update(store, false)?
        } else if dice < m.read + m.update + m.modify {
            self.update(store, true)?
        } else if dice < m.read + m.update + m.modify + m.scan {
            self.scan(store)?
        } else {
            self.insert(store)?
        }))
    }
}

/// The mixes to run, with their names and distributions.
fn mixes(d: &Drive<'_>) -> Result<Vec<(String, Mix, crate::generate::Distribution)>> {
    let s = d.settings;
    let wrong = |text: String| crate::store::Error::new("ycsb", text);
    let zipfian = crate::generate::Distribution::Zipfian;
    if !s.text("mix").is_empty() {
        let shares: Vec<u64> = s
            .text("mix")
            .split(',')
            .map(|n| n.trim().parse().unwrap_or(u64::MAX))
            .collect();
        let [read, update, insert, scan, modify] = shares[..] else {
            return Err(wrong(
                "mix takes five shares: read,update,insert,scan,modify".to_string(),
            ));
        };
        if shares.iter().any(|n| *n > 100) || shares.iter().sum::<u64>() != 100 {
            return Err(wrong(format!(
                "the shares of mix={} are not 100 together",
                s.text("mix")
            )));
        }
        let mix = Mix {
            read,
            update,
            insert,
            scan,
            modify,
        };
        return Ok(vec![("ycsb mix".to_string(), mix, zipfian)]);
    }
    let letters = s.text("workloads").split(',').map(|l| {
        let mut chars = l.trim().chars();
        let letter = chars.next().filter(|_| chars.clone().next().is_none());
        let found = letter.and_then(|l| Mix::of(l.to_ascii_lowercase()));
        let (mix, usual) =
            found.ok_or_else(|| wrong(format!("'{l}' is no workload: a to f, w")))?;
        Ok((format!("ycsb {l}"), mix, usual))
    });
    letters.collect()
}

fn run(d: &Drive<'_>) -> Result<Vec<Phase>> {
    let s = d.settings;
    let keys = s.whole("keys", 1)?;
    let fields = s.whole("fields", 1)?.min(10_000);
    let size = usize::try_from(s.whole("value_size", 1)?).unwrap_or(1);
    let shape = Shape {
        hashed: s.word("insert_order", &["hashed", "ordered"])? == 0,
        layout: Layout::new(fields, size),
        law: (s.word("value_law", &["constant", "pareto"])? == 1)
            .then_some(Model::zippydb(1).value),
        scan_max: s.whole("scan_length", 1)?,
        scan_zipfian: s.word("scan_law", &["uniform", "zipfian"])? == 1,
    };
    if shape.law.is_some() && fields != 1 {
        return Err(crate::store::Error::new(
            "ycsb",
            "value_law=pareto needs fields=1",
        ));
    }
    let theta = s.number("theta", 1e-6, 0.999_999)?;
    let (hot_set, hot_share) = (
        s.number("hot_set", 0.0, 1.0)?,
        s.number("hot_share", 0.0, 1.0)?,
    );
    let by_range = s.text("distribution") == "keyrange";
    let chosen = match s.text("distribution") {
        "" | "keyrange" => None,
        _ => Some(s.distribution("distribution")?),
    };
    let (seed, load, warm_up) = (s.seed()?, Load::of(s)?, s.number("warm_up", 0.0, 10.0)?);
    let mixes = mixes(d)?;
    let records = Arc::new(Records::default());
    let (part, mut values, mut rng) = (shape.clone(), s.values(u64::MAX)?, Rng::new(seed));
    let mut phases = vec![fill(d.store, 0, keys, move |n, key, value| {
        part.key(n, key);
        part.compose(&mut rng, &mut values, value);
    })?];
    records.reset(keys);
    for (round, (name, mix, usual)) in mixes.into_iter().enumerate() {
        let population = Population {
            records: records.count(),
            expected_inserts: load.ops.min(1 << 40) * mix.insert / 100,
            theta: if theta == 0.99 { THETA } else { theta },
            hot_set,
            hot_share,
        };
        let make = |thread: u64, warm: u64| {
            let own = seed
                .wrapping_add((round as u64) << 48)
                .wrapping_add(warm << 40)
                .wrapping_add(thread << 8);
            let ranges = || {
                let model = Model {
                    ratios: [1.0, 0.0, 0.0],
                    ..Model::zippydb(keys)
                };
                Queries::new(
                    Semantics::Paper,
                    model,
                    Variant::PrefixDist,
                    seed,
                    thread + (warm << 20),
                )
            };
            Ok(Box::new(Client {
                shape: shape.clone(),
                mix,
                records: Arc::clone(&records),
                picks: match by_range {
                    true => Picks::Ranges(ranges()),
                    false => Picks::Ycsb(Requests::new(chosen.unwrap_or(usual), population)),
                },
                rng: Rng::new(own),
                lengths: Zipfian::new(shape.scan_max, theta),
                values: s.values(thread + 1)?,
                key: Vec::new(),
                value: Vec::new(),
            }) as Box<dyn super::Client>)
        };
        if warm_up > 0.0 {
            let ops = (load.ops.min(1 << 40) as f64 * warm_up) as u64;
            let warm = Load {
                ops: ops.max(1),
                rate: None,
                ..load
            };
            warm.run("warm-up", d.store, |thread| make(thread, 1))?;
        }
        phases.push(load.run(name, d.store, |thread| make(thread, 0))?);
        records.settle();
    }
    Ok(phases)
}
