//! Which of the tables of a family are part of it, and where: a pure function of what the tables and the MANIFEST say.
//!
//! Without a MANIFEST all tables go to level 0, which may overlap, the one with the newest entry last. With one, a table
//! that it names keeps its place. About others there are these cases, if all that it names is there:
//!
//! - An edit removed it: what replaced it is there.
//! - All it holds is not newer than what the named tables hold: it is an output whose edit was never written. That takes
//!   sequence numbers. Those of the deepest level are 0, and a table from outside does not always have its own: it is put
//!   aside as a loss, since nothing tells an output that nobody needs from a table whose edit the MANIFEST has lost. On top
//!   the former, which a killed compaction leaves, would bring merge operands to count twice; in `lost/` neither is gone.
//! - The logs hold all of it: the flush that wrote it did not end, and the logs are replayed.
//! - Its number was given out before the last record of the MANIFEST, and so were all sequence numbers in it before the
//!   newest that had come to tables. Then it is obsolete, and was replaced before that MANIFEST began, or another family
//!   has those numbers and the edit is lost. It is put aside as a loss: on top, keys would return that were deleted.
//! - It begins after everything that the named tables hold: the MANIFEST does not know of it yet, and it goes on top. So
//!   do those that the logs hold, where that keeps the order: a log that is replayed may have more than they do.
//!
//! In any other case the MANIFEST is not the one that belongs to the tables. They are then placed as without one.

use super::known::{Known, KnownFamily, is_same};
use super::tables::Described;
use crate::version::NewFile;
use spanlith_base::Comparator;
use spanlith_base::keys::user_key;
use std::collections::{BTreeMap, BTreeSet};

/// The tables of a family, placed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Placed {
    pub files: Vec<NewFile>,
    /// Tables that are no part of it, and why.
    pub left: Vec<Left>,
    /// Tables that the MANIFEST names and that are not there, or not whole.
    pub missing: Vec<u64>,
    /// The MANIFEST said where all of them belong.
    pub is_known: bool,
    /// The MANIFEST is not the one that belongs to the tables.
    pub is_doubted: bool,
    /// Some of what was left out is in the logs.
    pub needs_logs: bool,
}

/// A table that is no part of its family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Left {
    pub number: u64,
    pub why: &'static str,
    pub is_loss: bool,
    /// An edit removed it.
    pub is_obsolete: bool,
}

/// Describes what the MANIFEST says of all families.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reach {
    /// Newest sequence number that has come to tables.
    last_sequence: u64,
    /// Numbers below this were given out.
    next_file: u64,
}

impl Reach {
    pub(super) fn of(known: Option<&Known>) -> Self {
        known.map_or_else(Self::default, |k| Self {
            last_sequence: k.last_sequence,
            next_file: k.next_file,
        })
    }
}

/// Describes what becomes of a table that the MANIFEST does not name.
enum Fate {
    Left(&'static str),
    Lost(&'static str),
    Obsolete,
    Logged,
    Top,
    /// The MANIFEST does not belong to the tables.
    Doubt,
}

impl Fate {
    /// `newest` is the newest sequence number of the tables that are named.
    fn of(
        t: &Described,
        known: &KnownFamily,
        newest: u64,
        reach: Reach,
        is_logged: &dyn Fn((u64, u64)) -> bool,
    ) -> Self {
        let f = &t.file;
        let is_older = f.number < reach.next_file && f.largest_seqno <= reach.last_sequence;
        if known.deleted.contains(&f.number) {
            return Self::Obsolete;
        }
        if f.smallest_seqno == 0 || t.is_unnumbered {
            return match f.largest_seqno <= newest || is_older {
                true => Self::Lost(
                    "the MANIFEST does not name it, and its sequence numbers do not tell if other tables hold all of it",
                ),
                false => Self::Doubt,
            };
        }
        if f.largest_seqno <= newest {
            return Self::Left("left over: the tables that the MANIFEST names hold all of it");
        }
        match (f.smallest_seqno, f.largest_seqno) {
            numbers if is_logged(numbers) => Self::Logged,
            _ if is_older => Self::Lost(
                "the MANIFEST does not name it, though it is not newer: it was replaced, most likely",
            ),
            (smallest, _) if smallest > newest => Self::Top,
            _ => Self::Doubt,
        }
    }
}

/// Places the tables of a family. `is_logged` says whether the logs that it needs have all of some sequence numbers.
pub(super) fn place(
    tables: &BTreeMap<u64, Described>,
    known: Option<&KnownFamily>,
    reach: Reach,
    is_logged: impl Fn((u64, u64)) -> bool,
) -> Placed {
    let Some(known) = known else {
        return on_top(tables, Vec::new());
    };
    let is_there = |f: &NewFile| {
        let there = tables.get(&f.number);
        there.is_some_and(|t| is_same(&t.file, f))
    };
    let (there, gone): (Vec<&NewFile>, Vec<&NewFile>) =
        known.files.values().partition(|f| is_there(f));
    let missing: Vec<u64> = gone.iter().map(|f| f.number).collect();
    let named: BTreeSet<u64> = there.iter().map(|f| f.number).collect();
    let strangers = tables.values().filter(|t| !named.contains(&t.file.number));
    let mut strangers: Vec<&Described> = strangers.collect();
    if !missing.is_empty() && !strangers.is_empty() {
        return doubted(tables, missing);
    }
    strangers.sort_by_key(|t| (t.file.largest_seqno, t.file.number));
    let newest = known.newest();
    let fates = strangers.into_iter();
    let fates = fates.map(|t| (t, Fate::of(t, known, newest, reach, &is_logged)));
    let fates: Vec<(&Described, Fate)> = fates.collect();
    let has_top = fates.iter().any(|(_, fate)| matches!(fate, Fate::Top));
    let mut placed = Placed {
        files: there.into_iter().cloned().collect(),
        missing,
        is_known: true,
        ..Placed::default()
    };
    let mut epoch = placed.files.iter().map(|f| f.epoch_number).max();
    for (stranger, fate) in fates {
        let f = &stranger.file;
        let (why, is_loss) = match fate {
            Fate::Obsolete => ("obsolete: the MANIFEST says what replaced it", false),
            Fate::Left(why) => (why, false),
            Fate::Lost(why) => (why, true),
            Fate::Logged if !has_top || f.smallest_seqno <= newest => {
                placed.needs_logs = true;
                ("left over: the logs hold all of it", false)
            }
            Fate::Logged | Fate::Top => {
                let next = epoch.unwrap_or(0) + 1;
                epoch = Some(next);
                placed.is_known = false;
                placed.files.push(NewFile {
                    epoch_number: next,
                    ..f.clone()
                });
                continue;
            }
            Fate::Doubt => return doubted(tables, placed.missing),
        };
        placed.left.push(Left {
            number: f.number,
            why,
            is_loss,
            is_obsolete: matches!(fate, Fate::Obsolete),
        });
    }
    placed
}

/// All tables in level 0, against what the MANIFEST says.
fn doubted(tables: &BTreeMap<u64, Described>, missing: Vec<u64>) -> Placed {
    Placed {
        is_doubted: true,
        ..on_top(tables, missing)
    }
}

/// All tables in level 0.
fn on_top(tables: &BTreeMap<u64, Described>, missing: Vec<u64>) -> Placed {
    let mut files: Vec<NewFile> = tables.values().map(|t| t.file.clone()).collect();
    // The newest of level 0 is asked first.
    files.sort_by_key(|f| (f.largest_seqno, f.number));
    for (epoch, f) in (1..).zip(&mut files) {
        f.epoch_number = epoch;
    }
    Placed {
        files,
        missing,
        ..Placed::default()
    }
}

/// Returns whether two tables of level 0 overlap in keys and in sequence numbers: then the newer entry of a key may
/// stand in the table that is asked later, until a compaction has brought them in order.
pub(super) fn is_interleaved(files: &[NewFile], order: &Comparator) -> bool {
    let overlap = |a: &NewFile, b: &NewFile| {
        let before = |x: &[u8], y: &[u8]| order.compare(user_key(x), user_key(y)).is_lt();
        !before(&a.largest, &b.smallest) && !before(&b.largest, &a.smallest)
    };
    let mut upper: Vec<&NewFile> = files.iter().filter(|f| f.level == 0).collect();
    upper.sort_by_key(|f| f.epoch_number);
    upper.iter().enumerate().any(|(at, newer)| {
        let older = upper[..at].iter().rev();
        let mut mixed = older.filter(|older| older.largest_seqno >= newer.smallest_seqno);
        mixed.any(|older| overlap(older, newer))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanlith_base::ValueType;
    use spanlith_base::keys::{internal_key, pack_tag};

    fn table(number: u64, keys: (&str, &str), seqnos: (u64, u64)) -> Described {
        let key =
            |k: &str, seqno| internal_key(k.as_bytes(), pack_tag(seqno, ValueType::Value as u8));
        Described {
            family: 0,
            name: "default".to_string(),
            comparator: String::new(),
            is_unnumbered: false,
            file: NewFile {
                number,
                size: number,
                smallest: key(keys.0, seqnos.0),
                largest: key(keys.1, seqnos.1),
                smallest_seqno: seqnos.0,
                largest_seqno: seqnos.1,
                ..NewFile::default()
            },
        }
    }

    fn all(tables: &[Described]) -> BTreeMap<u64, Described> {
        let pairs = tables.iter().map(|t| (t.file.number, t.clone()));
        pairs.collect()
    }

    /// A MANIFEST that names these in level 3, in epochs from 7 on.
    fn known(tables: &[&Described]) -> KnownFamily {
        let files = tables.iter().zip(7..).map(|(t, epoch_number)| {
            let file = NewFile {
                level: 3,
                epoch_number,
                ..t.file.clone()
            };
            (file.number, file)
        });
        KnownFamily {
            files: files.collect(),
            ..KnownFamily::default()
        }
    }

    fn never(_: (u64, u64)) -> bool {
        false
    }

    fn levels(placed: &Placed) -> Vec<(u64, u32, u64)> {
        let files = placed.files.iter();
        files.map(|f| (f.number, f.level, f.epoch_number)).collect()
    }

    #[test]
    fn without_a_manifest_the_table_with_the_newest_entry_is_on_top() {
        let tables = [table(9, ("a", "b"), (1, 4)), table(5, ("a", "b"), (5, 6))];
        let placed = place(&all(&tables), None, Reach::default(), never);
        assert_eq!(levels(&placed), [(9, 0, 1), (5, 0, 2)]);
        assert!(!placed.is_known);
    }

    #[test]
    fn a_table_that_the_manifest_names_keeps_its_place() {
        let tables = [table(4, ("a", "b"), (1, 4)), table(5, ("c", "d"), (0, 3))];
        let placed = place(
            &all(&tables),
            Some(&known(&[&tables[0], &tables[1]])),
            Reach::default(),
            never,
        );
        assert_eq!(levels(&placed), [(4, 3, 7), (5, 3, 8)]);
        assert!(placed.is_known && placed.left.is_empty() && placed.missing.is_empty());
    }

    #[test]
    fn strangers_are_told_apart_by_what_they_hold() {
        let old = table(4, ("a", "m"), (1, 10));
        let removed = table(3, ("a", "m"), (1, 9));
        let output = table(5, ("a", "m"), (2, 10));
        let flushed = table(6, ("a", "m"), (11, 20));
        let beyond = table(7, ("a", "m"), (21, 30));
        let mut manifest = known(&[&old]);
        manifest.deleted.insert(3);
        let tables = all(&[old, removed, output, flushed, beyond]);
        let reach = Reach::default();
        let place = |tables: &_, last| {
            place(tables, Some(&manifest), reach, |numbers: (u64, u64)| {
                numbers.1 <= last
            })
        };
        let left = |placed: &Placed| placed.left.iter().map(|l| l.number).collect::<Vec<_>>();
        let placed = place(&tables, 30);
        assert_eq!(levels(&placed), [(4, 3, 7)]);
        assert_eq!(left(&placed), [3, 5, 6, 7]);
        assert!(placed.is_known && placed.needs_logs);
        // The logs end in front of one: with both on top none of them is replayed for what these hold.
        let placed = place(&tables, 20);
        assert_eq!(levels(&placed), [(4, 3, 7), (6, 0, 8), (7, 0, 9)]);
        assert_eq!(left(&placed), [3, 5]);
        assert!(!placed.is_known && !placed.needs_logs);
        // Without the logs the flushed table is all there is of its entries.
        let placed = place(&tables, 0);
        assert_eq!(levels(&placed), [(4, 3, 7), (6, 0, 8), (7, 0, 9)]);
        assert!(placed.left.iter().all(|l| !l.is_loss));
    }

    /// Compactions into the deepest level give entries the number 0.
    #[test]
    fn a_table_without_numbers_is_neither_left_over_nor_on_top() {
        let old = table(4, ("a", "m"), (1, 10));
        let zeroed = table(9, ("n", "z"), (0, 0));
        let tables = all(&[old.clone(), zeroed.clone()]);
        let placed = place(&tables, Some(&known(&[&old])), Reach::default(), never);
        assert_eq!(levels(&placed), [(4, 3, 7)]);
        let left = placed.left[0];
        assert!(left.number == 9 && left.is_loss && !left.is_obsolete);
        // Taken in from outside: its number is a guess.
        let mut outside = table(9, ("n", "z"), (10, 10));
        outside.is_unnumbered = true;
        let tables = all(&[old.clone(), outside]);
        let placed = place(&tables, Some(&known(&[&old])), Reach::default(), never);
        assert!(placed.left[0].is_loss);
    }

    /// The MANIFEST was begun anew before the file was deleted, and no named table has a number any more.
    #[test]
    fn what_was_replaced_before_the_manifest_began_does_not_go_on_top() {
        let zeroed = table(9, ("a", "m"), (0, 0));
        let reach = Reach {
            last_sequence: 100,
            next_file: 10,
        };
        for seqnos in [(60, 100), (0, 100), (100, 100)] {
            let replaced = table(8, ("a", "m"), seqnos);
            let tables = all(&[zeroed.clone(), replaced]);
            let placed = place(&tables, Some(&known(&[&zeroed])), reach, never);
            assert_eq!(levels(&placed), [(9, 3, 7)], "{seqnos:?}");
            assert!(placed.left[0].is_loss);
            // Of a family that has nothing any more.
            let placed = place(&tables, Some(&known(&[])), reach, never);
            assert!(placed.files.is_empty(), "{seqnos:?}");
        }
        // Of a number that was given out later, or newer than what had come to tables: the MANIFEST does not know it.
        for (number, seqnos) in [(10, (60, 100)), (8, (90, 101))] {
            let new = table(number, ("a", "m"), seqnos);
            let tables = all(&[zeroed.clone(), new]);
            let placed = place(&tables, Some(&known(&[&zeroed])), reach, never);
            assert_eq!(levels(&placed), [(9, 3, 7), (number, 0, 8)]);
        }
    }

    #[test]
    fn a_manifest_that_does_not_belong_to_the_tables_places_none() {
        let old = table(4, ("a", "m"), (1, 10));
        let gone = table(5, ("a", "m"), (11, 20));
        let both = table(8, ("a", "m"), (1, 25));
        // It holds more than what is named, and not after it.
        let placed = place(
            &all(&[old.clone(), both.clone()]),
            Some(&known(&[&old])),
            Reach::default(),
            never,
        );
        assert_eq!(levels(&placed), [(4, 0, 1), (8, 0, 2)]);
        assert!(placed.is_doubted);
        // The table that is named is missing, and another one is there, even if an edit removed it.
        let mut manifest = known(&[&old, &gone]);
        manifest.deleted.insert(8);
        let tables = all(&[old.clone(), both]);
        let placed = place(&tables, Some(&manifest), Reach::default(), never);
        assert_eq!(levels(&placed), [(4, 0, 1), (8, 0, 2)]);
        assert!(placed.is_doubted);
        assert_eq!(placed.missing, [5]);
        // The remaining tables of those that are named keep their places.
        let placed = place(
            &all(std::slice::from_ref(&old)),
            Some(&known(&[&old, &gone])),
            Reach::default(),
            never,
        );
        assert_eq!(levels(&placed), [(4, 3, 7)]);
        assert!(!placed.is_doubted);
        // A file of that number that is another table is not the one that is named.
        let mut other = old.clone();
        other.file.size += 1;
        let placed = place(
            &all(&[other]),
            Some(&known(&[&old])),
            Reach::default(),
            never,
        );
        assert_eq!(levels(&placed), [(4, 0, 1)]);
        assert_eq!(placed.missing, [4]);
    }

    #[test]
    fn tables_are_interleaved_if_they_share_keys_and_numbers() {
        let order = Comparator::Bytewise;
        let is =
            |tables: &[Described]| is_interleaved(&on_top(&all(tables), Vec::new()).files, &order);
        let low = table(4, ("a", "m"), (1, 10));
        assert!(!is(&[low.clone(), table(5, ("a", "m"), (11, 20))]));
        assert!(is(&[low.clone(), table(5, ("m", "z"), (10, 20))]));
        assert!(!is(&[low.clone(), table(5, ("n", "z"), (5, 20))]));
        assert!(is(&[
            low,
            table(5, ("n", "z"), (11, 30)),
            table(6, ("b", "c"), (9, 40))
        ]));
    }
}
