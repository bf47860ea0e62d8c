//! mixgraph ([WL] §7, A.3): gets, puts and seeks of a model of ZippyDB or of UDB's Assoc family.

use super::load::{client, fill};
use super::{Call, Drive, Driver, Load, Parameter, Phase};
use crate::generate::mixgraph::{Kind, Model, Queries, Semantics, VARIANTS};
use crate::generate::{Keys, Values};
use crate::store::{Direction, Result, Store};

/// The row of the table.
pub const DRIVER: Driver = Driver {
    name: "mixgraph",
    title: "gets, puts and seeks of a fitted model ([WL] §7), as db_bench draws them or as the text says",
    parameters: &[
        Parameter {
            name: "semantics",
            default: "paper",
            what: "tool: db_bench's draws, number for number; paper: the text's",
        },
        Parameter {
            name: "variant",
            default: "prefix_dist",
            what: "all_random, all_dist, prefix_random, prefix_dist",
        },
        Parameter {
            name: "model",
            default: "zippydb",
            what: "zippydb or assoc",
        },
        Parameter {
            name: "key_size",
            default: "48",
            what: "bytes of a key",
        },
        Parameter {
            name: "value_size",
            default: "43",
            what: "bytes of a value that the load puts",
        },
        Parameter {
            name: "sine_a",
            default: "0",
            what: "amplitude of the rate, as a share of rate; 0: constant",
        },
        Parameter {
            name: "sine_period",
            default: "60",
            what: "period of the rate in seconds",
        },
    ],
    families: &[],
    transactions: false,
    run,
    check: None,
};

fn run(d: &Drive<'_>) -> Result<Vec<Phase>> {
    let s = d.settings;
    let keys = s.whole("keys", 1)?;
    let key_size = usize::try_from(s.whole("key_size", 8)?)
        .unwrap_or(8)
        .min(1 << 16);
    let semantics = [Semantics::Tool, Semantics::Paper][s.word("semantics", &["tool", "paper"])?];
    let variant = VARIANTS[s.word("variant", &VARIANTS.map(|v| v.0))?].1;
    let model = match s.word("model", &["zippydb", "assoc"])? {
        0 => Model::zippydb(keys),
        _ => Model::assoc(keys),
    };
    let ratio = s.number("compression_ratio", 0.1, 1.0)?;
    let (seed, load) = (s.seed()?, Load::of(s)?);
    let load = load.with_sine(
        s.number("sine_a", 0.0, 1.0)?,
        s.number("sine_period", 1e-3, 1e9)?,
    );
    let (mut names, mut values) = (Keys::new(key_size), s.values(u64::MAX)?);
    let filled = fill(d.store, 0, keys, move |n, key, value| {
        key.clear();
        key.extend_from_slice(names.set(n));
        value.clear();
        value.extend_from_slice(values.next());
    })?;
    d.store.flush()?;
    d.store.wait_idle()?;
    let measured = load.run("mixgraph", d.store, |thread| {
        let mut queries = Queries::new(semantics, model, variant, seed, thread);
        let mut names = Keys::new(key_size);
        let mut values = Values::with_ratio(1 << 10, ratio, seed ^ (thread << 32));
        let mut value = Vec::new();
        Ok(client(move |store| {
            let q = queries.draw();
            let key = names.set(q.key);
            Ok(Some(match q.kind {
                Kind::Get => {
                    let found = store.get(0, key, &mut value)?;
                    Call::read("get", found, key.len() + value.len())
                }
                Kind::Put => {
                    let size = usize::try_from(q.value_size).unwrap_or(0);
                    store.put(0, key, values.sized(size))?;
                    Call::wrote("put", key.len() + size)
                }
                Kind::Seek => {
                    let limit = usize::try_from(q.scan_length).unwrap_or(0) + 1;
                    let bytes = scanned(store, key, limit)?;
                    Call::read("seek", bytes > 0, bytes)
                }
            }))
        }))
    })?;
    Ok(vec![filled, measured])
}

fn scanned(store: &dyn Store, start: &[u8], limit: usize) -> Result<usize> {
    let mut bytes = 0;
    store.scan(0, start, Direction::Forward, limit, &mut |key, value| {
        bytes += key.len() + value.len();
        true
    })?;
    Ok(bytes)
}
