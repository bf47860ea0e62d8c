//! TPC-C's consistency conditions 1 to 4 (clause 3.3.2).

use super::DISTRICTS;
use super::rows::{District, Order, Row, Warehouse, table};
use crate::drivers::Verdict;
use crate::store::{Direction, Error, Result, Store};

fn row<R: Row>(store: &dyn Store, key: &[u8]) -> Result<R> {
    let mut value = Vec::new();
    match store.get(0, key, &mut value)? {
        true => R::decode(&value),
        false => Err(Error::new("tpcc", format!("row {key:02x?} is missing"))),
    }
}

/// Shows all entries after a prefix.
fn all(store: &dyn Store, prefix: &[u8], each: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
    store.scan(
        0,
        prefix,
        Direction::Forward,
        usize::MAX,
        &mut |key, value| {
            let inside = key.starts_with(prefix);
            if inside {
                each(key, value);
            }
            inside
        },
    )?;
    Ok(())
}

fn number(key: &[u8]) -> u32 {
    key.last_chunk::<4>().map_or(0, |b| u32::from_be_bytes(*b))
}

/// The conditions of all warehouses.
///
/// # Errors
/// The store's; a row that is missing.
pub fn verdicts(store: &dyn Store, warehouses: u32) -> Result<Vec<Verdict>> {
    let mut wrong: [Vec<String>; 4] = Default::default();
    for w in 1..=warehouses {
        let mut sum = 0_u32;
        for d in 1..=DISTRICTS {
            let district: District = row(store, &table::district(w, d))?;
            sum = sum.wrapping_add(district.ytd);
            let (mut last, mut lines_wanted) = (0, 0_u64);
            all(store, &table::order(w, d, 0)[..9], &mut |key, value| {
                last = last.max(number(key));
                lines_wanted += Order::decode(value).map_or(0, |o| u64::from(o.lines));
            })?;
            let (mut first_new, mut last_new, mut new) = (u32::MAX, 0, 0_u32);
            all(store, &table::new_order(w, d, 0)[..9], &mut |key, _| {
                first_new = first_new.min(number(key));
                last_new = last_new.max(number(key));
                new += 1;
            })?;
            let mut lines = 0_u64;
            let prefix = &table::order_line(w, d, 0, 0)[..9];
            all(store, prefix, &mut |_, _| lines += 1)?;
            let place = format!("warehouse {w}, district {d}");
            if district.next_order != last + 1 || new > 0 && last_new != last {
                let next = district.next_order;
                wrong[1].push(format!(
                    "{place}: next {next}, last {last}, last new {last_new}"
                ));
            }
            if new > 0 && last_new - first_new + 1 != new {
                wrong[2].push(format!("{place}: {first_new} to {last_new}, {new} rows"));
            }
            if lines != lines_wanted {
                wrong[3].push(format!("{place}: {lines} lines, {lines_wanted} wanted"));
            }
        }
        let warehouse: Warehouse = row(store, &table::warehouse(w))?;
        if warehouse.ytd != sum {
            wrong[0].push(format!("warehouse {w}: {} and {sum}", warehouse.ytd));
        }
    }
    let what = [
        "condition 1: payments of a warehouse are those of its districts",
        "condition 2: the next order follows the last one and the last new one",
        "condition 3: new orders are numbered without gaps",
        "condition 4: orders have as many lines as they say",
    ];
    let verdicts = what.iter().zip(wrong).map(|(what, wrong)| Verdict {
        what: (*what).to_string(),
        wrong: (!wrong.is_empty()).then(|| wrong.join("; ")),
    });
    Ok(verdicts.collect())
}
