//! TPC-C's five transactions at key-value level ([SPACE] §5, R-WL-35), with consistency conditions 1 to 4 at the end.
//!
//! All tables and indexes lie in the default family, each behind a byte of its own. No terminals, no thinking: transactions
//! follow one another, and no result is a tpmC. Numbers of rows are parameters; the standard's are named there.

mod check;
mod rows;
mod transactions;

use super::load::{client, fill};
use super::{Call, Drive, Driver, Load, Parameter, Phase, Settings};
use crate::generate::{Rng, Values};
use crate::store::{Batch, Error, Isolation, Result, Store};
use rows::{Customer, District, Order, OrderLine, Row, Stock, Warehouse, table};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The row of the table.
pub const DRIVER: Driver = Driver {
    name: "tpcc",
    title: "TPC-C's five transactions on keys and values, with its consistency conditions 1 to 4",
    parameters: &[
        Parameter {
            name: "warehouses",
            default: "1",
            what: "warehouses, each with ten districts",
        },
        Parameter {
            name: "customers",
            default: "300",
            what: "customers, and orders to begin with, of a district; the standard has 3000",
        },
        Parameter {
            name: "items",
            default: "10000",
            what: "items, and stocks of a warehouse; the standard has 100000",
        },
        Parameter {
            name: "isolation",
            default: "rc",
            what: "rc: reads see what is committed; rr: all reads of a transaction see one state. Stores with one writer at a time have more",
        },
    ],
    families: &[],
    transactions: true,
    run,
    check: Some(|d| check::verdicts(d.store, warehouses(d.settings)?)),
};

/// Districts of a warehouse.
const DISTRICTS: u32 = 10;
/// Transactions and their shares in percent.
const MIX: [(&str, u64); 5] = [
    ("new_order", 45),
    ("payment", 43),
    ("order_status", 4),
    ("delivery", 4),
    ("stock_level", 4),
];
/// Tries of a transaction that others are in the way of.
const TRIES: u32 = 1000;

/// Numbers of rows, and what threads count together.
#[derive(Debug)]
struct Shared {
    warehouses: u32,
    customers: u32,
    items: u32,
    /// Numbers rows of the history.
    history: AtomicU64,
    conflicts: AtomicU64,
    /// Constant of the non-uniform numbers.
    c: u64,
    isolation: Isolation,
}

/// Non-uniform random number of the standard.
fn nurand(rng: &mut Rng, a: u64, c: u64, low: u64, high: u64) -> u64 {
    let span = high - low + 1;
    (((rng.below(a + 1) | (low + rng.below(span))) + c) % span) + low
}

/// Last name of a number below 1000, of three syllables.
fn last_name(number: u64) -> String {
    const SYLLABLES: [&str; 10] = [
        "BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING",
    ];
    let at = |n: u64| SYLLABLES[(n % 10) as usize];
    [at(number / 100), at(number / 10), at(number)].concat()
}

struct Client {
    shared: Arc<Shared>,
    rng: Rng,
    filler: Values,
    home: u32,
    value: Vec<u8>,
}

impl Client {
    fn new(shared: &Arc<Shared>, seed: u64, thread: u64) -> Self {
        Self {
            shared: Arc::clone(shared),
            rng: Rng::new(seed.wrapping_add(thread << 8)),
            filler: Values::with_ratio(512, 0.5, seed ^ thread),
            home: 1 + (thread % u64::from(shared.warehouses)) as u32,
            value: Vec::new(),
        }
    }

    fn customer(&mut self) -> u32 {
        let (c, high) = (self.shared.c, u64::from(self.shared.customers));
        nurand(&mut self.rng, 1023, c, 1, high) as u32
    }

    fn item(&mut self) -> u32 {
        let (c, high) = (self.shared.c, u64::from(self.shared.items));
        nurand(&mut self.rng, 8191, c, 1, high) as u32
    }

    fn name(&mut self) -> String {
        let most = u64::from(self.shared.customers).min(1000) - 1;
        last_name(nurand(&mut self.rng, 255, self.shared.c, 0, most))
    }

    fn district(&mut self) -> u32 {
        1 + self.rng.below(u64::from(DISTRICTS)) as u32
    }

    fn transact(&mut self, store: &dyn Store, name: &'static str) -> Result<Call> {
        let before = self.rng.clone();
        for _ in 0..TRIES {
            // A transaction that is tried again does the same.
            self.rng = before.clone();
            let result = match name {
                "new_order" => self.new_order(store),
                "payment" => self.payment(store),
                "order_status" => self.order_status(store),
                "delivery" => self.delivery(store),
                _ => self.stock_level(store),
            };
            match result {
                Err(e) if e.is_conflict() => {
                    self.shared.conflicts.fetch_add(1, Ordering::Relaxed);
                }
                result => return result.map(|bytes| Call::wrote(name, bytes)),
            }
        }
        let text = "a transaction was in conflict a thousand times";
        Err(Error::new("tpcc", text))
    }
}

impl super::Client for Client {
    fn call(&mut self, store: &dyn Store) -> Result<Option<Call>> {
        let mut dice = self.rng.below(100);
        let mut name = MIX[0].0;
        for (transaction, share) in MIX {
            if dice < share {
                name = transaction;
                break;
            }
            dice -= share;
        }
        self.transact(store, name).map(Some)
    }
}

/// Puts everything that belongs to a district of a warehouse.
fn load_district(maker: &mut Client, batch: &mut Batch, w: u32, d: u32) {
    let shared = Arc::clone(&maker.shared);
    let orders = shared.customers;
    let district = District {
        ytd: 3_000_000,
        next_order: orders + 1,
        tax: 1000,
    };
    batch.put(
        0,
        &table::district(w, d),
        &district.encode(maker.filler.sized(75)),
    );
    for c in 1..=shared.customers {
        let number = match c <= 1000 {
            true => u64::from(c - 1),
            false => nurand(&mut maker.rng, 255, shared.c, 0, 999),
        };
        let customer = Customer {
            balance: -1000,
            ytd_payment: 1000,
            payments: 1,
            deliveries: 0,
        };
        batch.put(
            0,
            &table::customer(w, d, c),
            &customer.encode(maker.filler.sized(480)),
        );
        batch.put(0, &table::customer_name(w, d, &last_name(number), c), &[]);
    }
    for o in 1..=orders {
        let lines = 5 + maker.rng.below(11) as u32;
        let is_new = o > orders - orders * 3 / 10;
        let carrier = if is_new {
            0
        } else {
            1 + maker.rng.below(10) as u32
        };
        // Each customer has one order to begin with, in another order than their numbers.
        let c = (u64::from(o) * 7919 % u64::from(orders)) as u32 + 1;
        let order = Order {
            customer: c,
            carrier,
            lines,
        };
        batch.put(0, &table::order(w, d, o), &order.encode(&[]));
        batch.put(0, &table::order_customer(w, d, c, o), &[]);
        if is_new {
            batch.put(0, &table::new_order(w, d, o), &[]);
        }
        for n in 1..=lines {
            let line = OrderLine {
                item: maker.item(),
                supplier: w,
                quantity: 5,
                amount: if is_new {
                    1 + maker.rng.below(999_999) as u32
                } else {
                    0
                },
                delivered: u32::from(!is_new),
            };
            batch.put(
                0,
                &table::order_line(w, d, o, n),
                &line.encode(maker.filler.sized(24)),
            );
        }
    }
}

/// Puts the items, then the warehouses: one call for each district and one for the stock of each warehouse.
fn load(d: &Drive<'_>, shared: &Arc<Shared>, seed: u64) -> Result<Vec<Phase>> {
    let mut filler = Values::with_ratio(64, 0.5, seed);
    let mut items = fill(d.store, 0, shared.items.into(), move |n, key, value| {
        *key = table::item(n as u32 + 1);
        *value = (100 + (n * 7919 % 9900) as u32).to_be_bytes().to_vec();
        value.extend_from_slice(filler.sized(60));
    })?;
    items.name = "load items".to_string();
    let parts = u64::from(shared.warehouses) * u64::from(DISTRICTS + 1);
    let rest = Load::all(parts).run("load warehouses", d.store, |_| {
        let mut maker = Client::new(shared, seed ^ 0x10ad, 0);
        let (mut part, mut batch) = (0, Batch::default());
        Ok(client(move |store: &dyn Store| {
            let (w, district) = (part / (DISTRICTS + 1) + 1, part % (DISTRICTS + 1));
            part += 1;
            batch.clear();
            if district > 0 {
                load_district(&mut maker, &mut batch, w, district);
            } else {
                let warehouse = Warehouse {
                    ytd: 30_000_000,
                    tax: 1000,
                };
                batch.put(
                    0,
                    &table::warehouse(w),
                    &warehouse.encode(maker.filler.sized(75)),
                );
                for i in 1..=maker.shared.items {
                    let stock = Stock {
                        quantity: 10 + maker.rng.below(91) as u32,
                        ytd: 0,
                        orders: 0,
                        remote: 0,
                    };
                    batch.put(
                        0,
                        &table::stock(w, i),
                        &stock.encode(maker.filler.sized(290)),
                    );
                }
            }
            store.write(&batch)?;
            Ok(Some(Call {
                ops: batch.len() as u64,
                ..Call::wrote("put", batch.bytes())
            }))
        }))
    })?;
    Ok(vec![items, rest])
}

/// A number of rows that is at most `most`.
fn rows_of(s: &Settings, name: &str, least: u64, most: u32) -> Result<u32> {
    let n = u32::try_from(s.whole(name, least)?).ok();
    n.filter(|n| *n <= most)
        .ok_or_else(|| Error::new(name, format!("is at most {most}")))
}

fn warehouses(s: &Settings) -> Result<u32> {
    rows_of(s, "warehouses", 1, 100_000)
}

fn run(d: &Drive<'_>) -> Result<Vec<Phase>> {
    let s = d.settings;
    let seed = s.seed()?;
    let shared = Arc::new(Shared {
        warehouses: warehouses(s)?,
        customers: rows_of(s, "customers", 10, 100_000)?,
        items: rows_of(s, "items", 100, 10_000_000)?,
        history: AtomicU64::new(1 + d.first_number()?),
        conflicts: AtomicU64::new(0),
        c: Rng::new(seed).below(256),
        isolation: match s.word("isolation", &["rc", "rr"])? {
            0 => Isolation::ReadCommitted,
            _ => Isolation::RepeatableRead,
        },
    });
    let measured = Load::of(s)?;
    let mut phases = match d.is_loaded {
        true => Vec::new(),
        false => load(d, &shared, seed)?,
    };
    (d.loaded)();
    let mut phase = measured.run("tpcc", d.store, |thread| {
        Ok(Box::new(Client::new(&shared, seed, thread)) as Box<dyn super::Client>)
    })?;
    phase.settle(d.store)?;
    phase.verdicts = check::verdicts(d.store, shared.warehouses)?;
    let orders = phase.tally.parts.get("new_order");
    let orders = orders.map_or(0, crate::measure::Histogram::count);
    let each = |bytes: u64| bytes as f64 / orders.max(1) as f64;
    phase.notes.push(format!(
        "{orders} New-Orders: {:.0} bytes on disk and {:.0} written to the device for each; {} transactions were tried again",
        each(phase.disk_bytes),
        each(phase.usage.device_written),
        shared.conflicts.load(Ordering::Relaxed)
    ));
    phases.push(phase);
    Ok(phases)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_non_uniform_numbers_are_the_standards() {
        assert_eq!(last_name(371), "PRICALLYOUGHT");
        assert_eq!(last_name(40), "BARPRESBAR");
        let seed = 5;
        let mut rng = Rng::new(seed);
        let mut seen = vec![0_u32; 1001];
        for _ in 0..200_000 {
            let n = nurand(&mut rng, 255, 77, 1, 1000);
            assert!((1..=1000).contains(&n), "{n}, seed {seed}");
            seen[n as usize] += 1;
        }
        // Some numbers come far more often than others: that is what makes it non-uniform.
        seen.sort_unstable();
        assert!(seen[990] > 3 * seen[200].max(1), "seed {seed}");
    }
}
