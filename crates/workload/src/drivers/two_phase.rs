//! `two-phase`: a closed loop finds what the store can do, then an open loop at a share of it shows honest latencies.

use super::mixed::{key_size, load, mix};
use super::{Drive, Driver, Load, Parameter, Phase};
use crate::store::Result;

/// The row of the table.
pub const DRIVER: Driver = Driver {
    name: "two-phase",
    title: "a closed loop for the throughput, then open loops at shares of it for the latencies",
    parameters: &[
        Parameter {
            name: "shares",
            default: "50,80",
            what: "percent of the throughput of the closed loop, separated by commas",
        },
        Parameter {
            name: "insert_ratio",
            default: "0.5",
            what: "share of puts, 0 to 1",
        },
        Parameter {
            name: "key_size",
            default: "16",
            what: "bytes of a key",
        },
        Parameter {
            name: "value_size",
            default: "1024",
            what: "bytes of a value",
        },
    ],
    families: &[],
    transactions: false,
    run,
    check: None,
};

fn run(d: &Drive<'_>) -> Result<Vec<Phase>> {
    let s = d.settings;
    let (shares, inserts) = (s.list("shares")?, s.number("insert_ratio", 0.0, 1.0)?);
    let closed = Load {
        rate: None,
        ..Load::of(s)?
    };
    let mut phases = vec![load(d, key_size(d)?)?];
    let first = closed.run("closed loop", d.store, |t| mix(d, t, 0, inserts))?;
    let most = first.per_second();
    phases.push(first);
    for (round, share) in (1..).zip(shares) {
        let rate = (most * share as f64 / 100.0).max(1.0);
        let open = Load {
            rate: Some(rate),
            ..closed
        };
        phases.push(open.run(format!("open loop at {share} %"), d.store, |t| {
            mix(d, t, round, inserts)
        })?);
    }
    Ok(phases)
}
