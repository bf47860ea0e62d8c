//! `reference`: a synthetic day of UDB, ZippyDB or UP2X ([WL] §4, R-WL-15 to R-WL-20), event by event in the order of time.

use super::load::{client, fill};
use super::{Call, Drive, Driver, Load, Parameter, Phase};
use crate::generate::Values;
use crate::generate::reference::{Action, REFERENCES};
use crate::store::{Direction, Result, Store};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The row of the table.
pub const DRIVER: Driver = Driver {
    name: "reference",
    title: "a synthetic day of UDB, ZippyDB or UP2X with the published marginals ([WL] §4)",
    parameters: &[
        Parameter {
            name: "database",
            default: "zippydb",
            what: "udb, zippydb or up2x",
        },
        Parameter {
            name: "keys",
            default: "20000",
            what: "keys that each family holds before the day",
        },
    ],
    families: &["1", "2", "3", "4", "5"],
    transactions: false,
    run,
    check: None,
};

fn run(d: &Drive<'_>) -> Result<Vec<Phase>> {
    let s = d.settings;
    let database = REFERENCES[s.word("database", &REFERENCES.map(|r| r.name))?];
    let (keys, seed) = (s.whole("keys", 1)?, s.seed()?);
    let ratio = s.number("compression_ratio", 0.1, 1.0)?;
    let mut phases = Vec::new();
    for (family, of) in database.families.iter().enumerate() {
        let mut values = Values::with_ratio(40, ratio, seed);
        let mut filled = fill(d.store, family, keys, move |n, key, value| {
            database.key(family, n, key);
            *value = values.next().to_vec();
        })?;
        filled.name = format!("load {}", of.name);
        phases.push(filled);
    }
    let load = Load::of(s)?;
    let day = Arc::new(database.day(load.ops.min(50_000_000), seed));
    let next = Arc::new(AtomicUsize::new(0));
    let mut phase = load.run(database.name, d.store, |thread| {
        let (day, next) = (Arc::clone(&day), Arc::clone(&next));
        let mut values = Values::with_ratio(1 << 16, ratio, seed ^ (thread + 1));
        let (mut key, mut value) = (Vec::new(), Vec::new());
        Ok(client(move |store: &dyn Store| {
            let Some(event) = day.get(next.fetch_add(1, Ordering::Relaxed)) else {
                return Ok(None);
            };
            let family = event.family;
            database.key(family, event.key, &mut key);
            Ok(Some(match event.action {
                Action::Get => {
                    let found = store.get(family, &key, &mut value)?;
                    Call::read("get", found, key.len() + value.len())
                }
                Action::Put => {
                    let size = usize::try_from(event.value_size).unwrap_or(0);
                    store.put(family, &key, values.sized(size))?;
                    Call::wrote("put", key.len() + size)
                }
                // Operands are counters of eight bytes, whatever the size of the day's; their keys are apart from those
                // that puts give values of other sizes.
                Action::Merge => {
                    key[0] |= 0x80;
                    store.merge(family, &key, 1)?;
                    Call::wrote("merge", key.len() + 8)
                }
                Action::Delete => {
                    store.delete(family, &key)?;
                    Call::wrote("delete", key.len())
                }
                // Only keys of their own may be deleted this way, since puts may come twice.
                Action::SingleDelete => {
                    key[0] |= 0x40;
                    store.single_delete(family, &key)?;
                    Call::wrote("single delete", key.len())
                }
                Action::Scan => {
                    let limit = usize::try_from(event.scan_length).unwrap_or(1);
                    let mut bytes = 0;
                    store.scan(family, &key, Direction::Forward, limit, &mut |k, v| {
                        bytes += k.len() + v.len();
                        true
                    })?;
                    Call::read("scan", bytes > 0, bytes)
                }
            }))
        }))
    })?;
    phase.notes.push(format!(
        "{} events of {} families; times within the day are their order, the rate is the parameter's",
        day.len(),
        database.families.len()
    ));
    phases.push(phase);
    Ok(phases)
}
