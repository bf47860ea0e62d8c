//! Checks that span tables: levels are disjoint (V1), and of a key the newer entry lies higher (V2).

use super::report::Finding;
use super::table::{FamilyToVerify, TableToVerify, of_file};
use super::verifier::Verifier;
use spanlith_base::keys::user_key;
use spanlith_base::{Comparator, Result};
use spanlith_table::{ReadParams, TableIter, TableReader};
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Bytes of entries between two looks at whether the verification goes on.
const LOOK: u64 = 1 << 20;

/// A table and its reader.
type Opened<'t> = (&'t TableToVerify, Arc<TableReader>);

/// The entries of one place: a table of level 0, or all tables of a deeper level.
struct Place<'t> {
    rest: std::vec::IntoIter<Opened<'t>>,
    table: &'t TableToVerify,
    iter: TableIter,
}

impl<'t> Place<'t> {
    fn new(tables: Vec<Opened<'t>>) -> Option<Self> {
        let mut rest = tables.into_iter();
        let (table, reader) = rest.next()?;
        let mut place = Self {
            rest,
            table,
            iter: first_entry(&reader),
        };
        place.settle();
        Some(place)
    }

    /// Goes to the next table while the present one has no more entries.
    fn settle(&mut self) {
        while !self.iter.valid() && self.iter.status().is_ok() {
            let Some((table, reader)) = self.rest.next() else {
                return;
            };
            (self.table, self.iter) = (table, first_entry(&reader));
        }
    }

    fn next(&mut self) {
        self.iter.next();
        self.settle();
    }
}

fn first_entry(reader: &Arc<TableReader>) -> TableIter {
    let mut iter = reader.iter(ReadParams {
        bypass_cache: true,
        fill_cache: false,
        readahead: 1 << 20,
        ..ReadParams::default()
    });
    iter.seek_to_first();
    iter
}

/// Of the places with an entry left, the one whose entry comes first; of equal entries the highest.
fn lowest(places: &[Place<'_>], comparator: &Comparator) -> Option<usize> {
    let with_entry = places.iter().enumerate().filter(|(_, p)| p.iter.valid());
    let least =
        with_entry.min_by(|(_, a), (_, b)| comparator.compare_internal(a.iter.key(), b.iter.key()));
    least.map(|(at, _)| at)
}

impl Verifier<'_> {
    /// V1: below level 0 tables are disjoint and in order.
    pub(super) fn check_disjoint(&mut self, family: &FamilyToVerify) {
        let comparator = &family.readers.comparator;
        for pair in family.tables.windows(2) {
            let [a, b] = pair else { continue };
            let is_wrong = a.level == b.level
                && a.level > 0
                && comparator.compare_internal(&a.file.largest, &b.file.smallest) != Ordering::Less;
            if is_wrong {
                let what = format!(
                    "V1: overlaps {}, which comes before it in level {}",
                    a.name, a.level
                );
                let (first, last) = (b.file.smallest_user_key(), a.file.largest_user_key());
                self.add(Finding::damage(&b.name, None, what).with_keys(first, last));
            }
        }
    }

    /// V2: walks all entries of all tables in order; of one key, no entry may lie in a higher place than
    /// a newer one.
    pub(super) fn check_places(
        &mut self,
        family: &FamilyToVerify,
        tables: Vec<Opened<'_>>,
    ) -> Result<()> {
        let comparator = &family.readers.comparator;
        let mut levels: Vec<(usize, Vec<Opened<'_>>)> = Vec::new();
        for opened in tables {
            let level = opened.0.level;
            match levels.last_mut() {
                Some((last, all)) if *last == level && level > 0 => all.push(opened),
                _ => levels.push((level, vec![opened])),
            }
        }
        let mut places: Vec<_> = levels.into_iter().filter_map(|l| Place::new(l.1)).collect();
        if places.len() < 2 {
            return Ok(());
        }
        let mut key: Vec<u8> = Vec::new();
        let (mut deepest, mut unseen) = (0, 0);
        let mut told = BTreeSet::new();
        while let Some(at) = lowest(&places, comparator) {
            let Some(place) = places.get_mut(at) else {
                break;
            };
            let entry = place.iter.key();
            let is_same = !key.is_empty() && user_key(entry) == user_key(&key);
            if is_same && at < deepest && entry != key && told.insert(place.table.file.number) {
                let what = "V2: holds an older entry of a key than a table below it";
                let concerned = user_key(entry);
                let finding = Finding::damage(&place.table.name, None, what);
                self.add(finding.with_keys(concerned, concerned));
            }
            deepest = if is_same { deepest.max(at) } else { at };
            unseen += (entry.len() + place.iter.value().len()) as u64;
            key.clear();
            key.extend_from_slice(entry);
            place.next();
            if unseen >= LOOK {
                self.step(std::mem::take(&mut unseen))?;
            }
        }
        for place in &places {
            if let Err(e) = place.iter.status() {
                let finding = Finding::from_error(&place.table.name, None, &e);
                self.add(of_file(place.table, finding));
            }
        }
        self.step(unseen)
    }
}
