//! `mixed` (db_bench's randomreadrandomwrite, [XP] §III): gets and inserts of random keys in a given ratio.

use super::load::{client, fill};
use super::{Call, Drive, Driver, Load, Parameter, Phase};
use crate::generate::{Keys, Rng};
use crate::store::{Result, Store};

/// The row of the table.
pub const DRIVER: Driver = Driver {
    name: "randomreadrandomwrite",
    title: "gets and puts of uniformly chosen keys, by the ratio of insertions ([XP])",
    parameters: &[
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

/// Loads the keys of db_bench in order.
pub(super) fn load(d: &Drive<'_>, key_size: usize) -> Result<Phase> {
    let (mut names, mut values) = (Keys::new(key_size), d.settings.values(u64::MAX)?);
    let phase = fill(
        d.store,
        0,
        d.settings.whole("keys", 1)?,
        move |n, key, value| {
            key.clear();
            key.extend_from_slice(names.set(n));
            value.clear();
            value.extend_from_slice(values.next());
        },
    )?;
    d.store.flush()?;
    d.store.wait_idle()?;
    Ok(phase)
}

/// Bytes of a key, from the parameter.
pub(super) fn key_size(d: &Drive<'_>) -> Result<usize> {
    Ok(usize::try_from(d.settings.whole("key_size", 8)?)
        .unwrap_or(8)
        .min(1 << 16))
}

/// A client of a mix of gets and puts.
pub(super) fn mix<'c>(
    d: &Drive<'_>,
    thread: u64,
    round: u64,
    inserts: f64,
) -> Result<Box<dyn super::Client + 'c>> {
    let keys = d.settings.whole("keys", 1)?;
    let stream = d
        .settings
        .seed()?
        .wrapping_add(thread << 8)
        .wrapping_add(round << 40);
    let (mut rng, mut values) = (Rng::new(stream), d.settings.values(thread)?);
    let (mut names, mut value) = (Keys::new(key_size(d)?), Vec::new());
    Ok(client(move |store: &dyn Store| {
        let key = names.set(rng.below(keys));
        Ok(Some(if rng.unit() < inserts {
            let value = values.next();
            store.put(0, key, value)?;
            Call::wrote("put", key.len() + value.len())
        } else {
            let found = store.get(0, key, &mut value)?;
            Call::read("get", found, key.len() + value.len())
        }))
    }))
}

fn run(d: &Drive<'_>) -> Result<Vec<Phase>> {
    let inserts = d.settings.number("insert_ratio", 0.0, 1.0)?;
    let measured = Load::of(d.settings)?;
    let loaded = load(d, key_size(d)?)?;
    let phase = measured.run("randomreadrandomwrite", d.store, |t| mix(d, t, 0, inserts))?;
    Ok(vec![loaded, phase])
}
