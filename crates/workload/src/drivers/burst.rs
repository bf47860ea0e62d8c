//! `burst` ([XP] Fig 18, R-XP-22): a mix with few writes, bursts of writes in between.

use super::mixed::{key_size, load, mix};
use super::{Drive, Driver, Load, Parameter, Phase};
use crate::store::Result;

/// The row of the table.
pub const DRIVER: Driver = Driver {
    name: "burst",
    title: "quiet times and bursts of writes, each a phase of its own ([XP] Fig 18, R-XP-22)",
    parameters: &[
        Parameter {
            name: "bursts",
            default: "3",
            what: "how many",
        },
        Parameter {
            name: "quiet_seconds",
            default: "7",
            what: "length of a quiet time",
        },
        Parameter {
            name: "burst_seconds",
            default: "5",
            what: "length of a burst",
        },
        Parameter {
            name: "quiet_inserts",
            default: "0.1",
            what: "share of puts in quiet times",
        },
        Parameter {
            name: "burst_inserts",
            default: "0.9",
            what: "share of puts in bursts",
        },
        Parameter {
            name: "quiet_rate",
            default: "0",
            what: "operations per second in quiet times; 0: closed loop",
        },
        Parameter {
            name: "burst_rate",
            default: "0",
            what: "the same in bursts",
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
    let common = Load::of(s)?;
    let kind = |name: &str| -> Result<(Load, f64)> {
        let rate = s.number(&format!("{name}_rate"), 0.0, 1e9)?;
        let part = Load {
            ops: u64::MAX,
            seconds: Some(s.number(&format!("{name}_seconds"), 1e-3, 1e6)?),
            rate: (rate > 0.0).then_some(rate),
            ..common
        };
        Ok((part, s.number(&format!("{name}_inserts"), 0.0, 1.0)?))
    };
    let (quiet, burst) = (kind("quiet")?, kind("burst")?);
    let mut phases = vec![load(d, key_size(d)?)?];
    for round in 0..s.whole("bursts", 1)? {
        for (part, (load, inserts), name) in [(0, quiet, "quiet"), (1, burst, "burst")] {
            let name = format!("{name} {}", round + 1);
            phases.push(load.run(name, d.store, |t| mix(d, t, 2 * round + part, inserts))?);
        }
    }
    Ok(phases)
}
