//! `payload` (KIOXIA's comparison [TR]): load, then updates and reads, for a list of payload sizes.
//!
//! The amount of data stays as it is given by `bytes`; the number of records follows from the payload.

use super::load::{client, fill};
use super::{Call, Drive, Driver, Load, Parameter, Phase};
use crate::generate::{Keys, Rng, Values};
use crate::store::{Result, Store};

/// The row of the table.
pub const DRIVER: Driver = Driver {
    name: "payload",
    title: "load and half updates, half reads for a list of payload sizes ([TR], R-TR-09)",
    parameters: &[
        Parameter {
            name: "payloads",
            default: "250,500,1000,2000,4000,8000,16000",
            what: "bytes of values, separated by commas",
        },
        Parameter {
            name: "bytes",
            default: "33554432",
            what: "bytes of values that each load puts",
        },
        Parameter {
            name: "update_ratio",
            default: "0.5",
            what: "share of updates, 0 to 1",
        },
    ],
    families: &[],
    transactions: false,
    run,
    check: None,
};

fn run(d: &Drive<'_>) -> Result<Vec<Phase>> {
    let s = d.settings;
    let (bytes, updates) = (s.whole("bytes", 1)?, s.number("update_ratio", 0.0, 1.0)?);
    let (seed, ratio) = (s.seed()?, s.number("compression_ratio", 0.1, 1.0)?);
    let load = Load::of(s)?;
    let mut phases = Vec::new();
    for (round, payload) in (0..).zip(s.list("payloads")?) {
        let size = usize::try_from(payload).unwrap_or(1).min(1 << 28);
        let records = (bytes / payload).max(1);
        // Each size has keys of its own, in front of all others' by their first byte.
        let name = move |names: &mut Keys, n: u64| names.set((round << 56) | n).to_vec();
        let (mut names, mut values) = (Keys::new(24), Values::with_ratio(size, ratio, seed));
        let mut filled = fill(d.store, 0, records, move |n, key, value| {
            *key = name(&mut names, n);
            value.clear();
            value.extend_from_slice(values.next());
        })?;
        filled.name = format!("load {payload} B");
        phases.push(filled);
        let run = load.run(format!("run {payload} B"), d.store, |thread| {
            let stream = seed.wrapping_add(thread << 8).wrapping_add(round << 40);
            let (mut rng, mut value) = (Rng::new(stream), Vec::new());
            let (mut names, mut values) = (Keys::new(24), Values::with_ratio(size, ratio, stream));
            Ok(client(move |store: &dyn Store| {
                let key = name(&mut names, rng.below(records));
                Ok(Some(if rng.unit() < updates {
                    let value = values.next();
                    store.put(0, &key, value)?;
                    Call::wrote("update", key.len() + value.len())
                } else {
                    let found = store.get(0, &key, &mut value)?;
                    Call::read("read", found, key.len() + value.len())
                }))
            }))
        })?;
        phases.push(run);
    }
    Ok(phases)
}
