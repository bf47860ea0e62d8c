//! Describes what must hold of LinkBench's families: counts, and the two orders of links.

use super::graph::{LinkValue, count_of, time_key};
use super::{COUNT, LINK, LINK_TIME};
use crate::drivers::Verdict;
use crate::store::{Direction, Result, Store};
use std::collections::BTreeMap;

/// Every entry of a family.
fn all(store: &dyn Store, family: usize, mut each: impl FnMut(&[u8], &[u8])) -> Result<()> {
    store.scan(
        family,
        &[],
        Direction::Forward,
        usize::MAX,
        &mut |key, value| {
            each(key, value);
            true
        },
    )?;
    Ok(())
}

fn number(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(u64::MAX, u64::from_be_bytes)
}

/// Looks at all links and counts.
///
/// # Errors
/// The store's.
pub fn verdicts(store: &dyn Store) -> Result<Vec<Verdict>> {
    let mut visible: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
    let (mut links, mut strangers, mut broken) = (0_u64, 0_u64, 0_u64);
    let mut by_time = Vec::new();
    all(store, LINK, |key, value| match LinkValue::decode(value) {
        Ok(link) if key.len() == 24 => {
            links += 1;
            if link.visible {
                *visible.entry(key[..16].to_vec()).or_default() += 1;
            }
            let (id1, kind, id2) = (number(&key[..8]), number(&key[8..16]), number(&key[16..]));
            by_time.push((
                time_key(id1, kind, link.visible, link.time, id2),
                value.to_vec(),
            ));
        }
        _ => broken += 1,
    })?;
    by_time.sort_unstable();
    let mut seen = 0;
    all(store, LINK_TIME, |key, value| {
        let same = by_time
            .get(seen)
            .is_some_and(|(k, v)| k == key && v == value);
        seen += 1;
        strangers += u64::from(!same);
    })?;
    let mut wrong_counts = 0_u64;
    all(store, COUNT, |key, value| {
        let there = visible.remove(key).unwrap_or(0);
        wrong_counts += u64::from(count_of(value).ok() != Some(there));
    })?;
    wrong_counts += visible.len() as u64;
    let verdict = |what: &str, wrong: Option<String>| Verdict {
        what: what.to_string(),
        wrong,
    };
    let orders = strangers > 0 || seen != by_time.len() || broken > 0;
    Ok(vec![
        verdict(
            "links by key and links by time are the same",
            orders.then(|| format!("{links} and {seen}, {strangers} differ, {broken} unreadable")),
        ),
        verdict(
            "every count is that of the visible links",
            (wrong_counts > 0).then(|| format!("{wrong_counts} are not")),
        ),
    ])
}
