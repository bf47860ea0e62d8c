//! `sweep` (R-XP-30): throughput against latency for a growing number of threads, and where the knee is.

use super::mixed::{key_size, load, mix};
use super::{Drive, Driver, Load, Parameter, Phase};
use crate::store::Result;

/// The row of the table.
pub const DRIVER: Driver = Driver {
    name: "sweep",
    title: "a mix on 1, 2, 4 … threads: throughput against latency, the knee marked (R-XP-30)",
    parameters: &[
        Parameter {
            name: "clients",
            default: "1,2,4,8",
            what: "threads, separated by commas",
        },
        Parameter {
            name: "insert_ratio",
            default: "0.1",
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

/// Throughput must grow by this factor of what a perfect scaling from the step before would give, or the step before is the
/// knee.
const WORTH: f64 = 0.25;

/// The place of the knee: the last step after which more clients add little.
fn knee(clients: &[u64], throughput: &[f64]) -> usize {
    let steps = clients.windows(2).zip(throughput.windows(2));
    let worth = steps.map(|(c, t)| t[1] / t[0] - 1.0 >= WORTH * (c[1] as f64 / c[0] as f64 - 1.0));
    worth.take_while(|worth| *worth).count()
}

fn run(d: &Drive<'_>) -> Result<Vec<Phase>> {
    let s = d.settings;
    let (clients, inserts) = (s.list("clients")?, s.number("insert_ratio", 0.0, 1.0)?);
    let common = Load::of(s)?;
    let mut phases = vec![load(d, key_size(d)?)?];
    for (round, &threads) in (0..).zip(&clients) {
        let load = Load {
            threads: threads.min(1024),
            ..common
        };
        phases.push(load.run(format!("{threads} clients"), d.store, |t| {
            mix(d, t, round, inserts)
        })?);
    }
    let throughput: Vec<f64> = phases[1..].iter().map(Phase::per_second).collect();
    phases[1 + knee(&clients, &throughput)]
        .notes
        .push("knee: more clients add less than a quarter of what they would at best".to_string());
    Ok(phases)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_knee_is_where_more_clients_stop_to_pay() {
        assert_eq!(knee(&[1, 2, 4, 8], &[10.0, 19.0, 30.0, 31.0]), 2);
        assert_eq!(knee(&[1, 2, 4], &[10.0, 10.0, 10.0]), 0);
        assert_eq!(knee(&[1, 2], &[10.0, 20.0]), 1);
        assert_eq!(knee(&[4], &[1.0]), 0);
    }
}
