//! The reference: an ordered map with history.
//!
//! Every key has its versions by sequence number; a read at a sequence number folds merge operands
//! down to the first put or removal. Writes are also kept as a list of commits, so that the contents
//! found after a crash can be explained by a prefix of it.
//!
//! Shares no code with the engine, the merge operators included.

use super::setup::{MergeKind, Setup};
use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::Hasher;
use std::ops::Bound;
use std::rc::Rc;

/// Key → value, in bytewise order.
pub type Contents = BTreeMap<Vec<u8>, Vec<u8>>;

/// Describes what one entry does to its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Sets it.
    Put(Rc<[u8]>),
    /// Removes it.
    Delete,
    /// Removes what was put once.
    SingleDelete,
    /// Adds an operand.
    Merge(Rc<[u8]>),
    /// Removes all keys from its key up to, but not including, this one, in the order of the
    /// database.
    DeleteRange(Rc<[u8]>),
}

/// A batch, as committed.
#[derive(Clone, Debug)]
pub struct Commit {
    /// Updates in order.
    pub changes: Vec<(Vec<u8>, Change)>,
    /// Says whether the log has it.
    pub logged: bool,
}

/// Describes what a crash must keep and may keep, in numbers of commits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// So many commits are durable as far as they were logged.
    pub durable: usize,
    /// So many are in durable tables, logged or not.
    pub flushed: usize,
    /// So many were issued.
    pub issued: usize,
}

/// The reference database.
#[derive(Clone, Debug)]
pub struct History {
    setup: Setup,
    reverse: bool,
    merge: MergeKind,
    /// Contents when the list of commits began.
    base: Contents,
    /// Ascending sequence numbers per key. Those of `base` have number 0.
    versions: BTreeMap<Vec<u8>, Vec<(u64, Change)>>,
    commits: Vec<Commit>,
    /// Sequence number of the newest entry; the engine's, once known.
    seqno: u64,
    /// Says what a crash now has to keep.
    bounds: Bounds,
}

/// Folds operands, newest first, over `existing`.
fn fold(merge: MergeKind, existing: Option<&[u8]>, newest_first: &[Rc<[u8]>]) -> Vec<u8> {
    match merge {
        MergeKind::Append => {
            let mut out = existing.map(<[u8]>::to_vec);
            for operand in newest_first.iter().rev() {
                match &mut out {
                    None => out = Some(operand.to_vec()),
                    Some(text) => {
                        text.push(b',');
                        text.extend_from_slice(operand);
                    }
                }
            }
            out.unwrap_or_default()
        }
        MergeKind::Add | MergeKind::None => {
            let number = |b: &[u8]| <[u8; 8]>::try_from(b).map_or(0, u64::from_le_bytes);
            let sum = newest_first
                .iter()
                .fold(existing.map_or(0, number), |s, o| s.wrapping_add(number(o)));
            sum.to_le_bytes().to_vec()
        }
    }
}

/// Keys from `begin` up to `end`, in the order of the database, as a range of bytes.
fn range<'a>(reverse: bool, begin: &'a [u8], end: &'a [u8]) -> (Bound<&'a [u8]>, Bound<&'a [u8]>) {
    let empty = if reverse { begin <= end } else { begin >= end };
    if empty {
        // A range that is valid and empty.
        return (Bound::Included(begin), Bound::Excluded(begin));
    }
    if reverse {
        (Bound::Excluded(end), Bound::Included(begin))
    } else {
        (Bound::Included(begin), Bound::Excluded(end))
    }
}

fn digest_of(key: &[u8], value: &[u8]) -> u64 {
    let mut h = DefaultHasher::new();
    h.write_u64(key.len() as u64);
    h.write(key);
    h.write(value);
    h.finish()
}

/// Contents with a digest that is kept up to date.
#[derive(Clone)]
struct Tracked {
    setup: Setup,
    contents: Contents,
    digest: u64,
}

impl Tracked {
    fn of(contents: &Contents, setup: Setup) -> Self {
        let digest = contents
            .iter()
            .fold(0u64, |d, (k, v)| d.wrapping_add(digest_of(k, v)));
        Self {
            setup,
            contents: contents.clone(),
            digest,
        }
    }

    fn apply(&mut self, merge: MergeKind, commit: &Commit) {
        for (key, change) in &commit.changes {
            if let Change::DeleteRange(end) = change {
                let doomed = self
                    .contents
                    .range::<[u8], _>(range(self.setup.reverse, key, end));
                let family = self.setup.family_of(key);
                let doomed: Vec<Vec<u8>> = doomed
                    .map(|e| e.0.clone())
                    .filter(|k| self.setup.family_of(k) == family)
                    .collect();
                for key in doomed {
                    if let Some(old) = self.contents.remove(&key) {
                        self.digest = self.digest.wrapping_sub(digest_of(&key, &old));
                    }
                }
                continue;
            }
            let old = self.contents.get(key).map(Vec::as_slice);
            if let Some(old) = old {
                self.digest = self.digest.wrapping_sub(digest_of(key, old));
            }
            let new = match change {
                Change::Put(v) => Some(v.to_vec()),
                Change::Delete | Change::SingleDelete | Change::DeleteRange(_) => None,
                Change::Merge(o) => Some(fold(merge, old, std::slice::from_ref(o))),
            };
            match new {
                Some(new) => {
                    self.digest = self.digest.wrapping_add(digest_of(key, &new));
                    self.contents.insert(key.clone(), new);
                }
                None => drop(self.contents.remove(key)),
            }
        }
    }
}

impl History {
    /// An empty database.
    pub fn new(setup: &Setup) -> Self {
        Self {
            setup: *setup,
            reverse: setup.reverse,
            merge: setup.merge,
            base: Contents::new(),
            versions: BTreeMap::new(),
            commits: Vec::new(),
            seqno: 0,
            bounds: Bounds::default(),
        }
    }

    /// Sequence number of the newest entry.
    pub fn seqno(&self) -> u64 {
        self.seqno
    }

    /// Returns what a crash now has to keep and may keep.
    pub fn bounds(&self) -> Bounds {
        Bounds {
            issued: self.commits.len(),
            ..self.bounds
        }
    }

    /// Adds a commit whose call is about to be made. Its outcome is unknown until [`Self::promise`]
    /// or the next read says otherwise.
    pub fn commit(&mut self, changes: Vec<(Vec<u8>, Change)>, logged: bool) {
        for (key, change) in &changes {
            self.seqno += 1;
            if let Change::DeleteRange(end) = change {
                let doomed = range(self.reverse, key, end);
                let family = self.setup.family_of(key);
                for (other, list) in self.versions.range_mut::<[u8], _>(doomed) {
                    if self.setup.family_of(other) != family {
                        continue;
                    }
                    list.push((self.seqno, Change::Delete));
                }
                continue;
            }
            let list = self.versions.entry(key.clone()).or_default();
            list.push((self.seqno, change.clone()));
        }
        self.commits.push(Commit { changes, logged });
    }

    /// Everything logged so far is durable now.
    pub fn logged_is_durable(&mut self) {
        self.bounds.durable = self.commits.len();
    }

    /// Everything so far is in durable tables now.
    pub fn all_is_durable(&mut self) {
        self.bounds.durable = self.commits.len();
        self.bounds.flushed = self.commits.len();
    }

    /// Returns whether every commit is in the log.
    pub fn is_all_logged(&self) -> bool {
        self.commits.iter().all(|c| c.logged)
    }

    /// Sequence number before the last commit.
    pub fn seqno_before_last(&self) -> u64 {
        let last = self.commits.last().map_or(0, |c| c.changes.len());
        self.seqno - last as u64
    }

    /// The last commit failed and is known not to be there: it never was.
    pub fn retract(&mut self) {
        let seqno = self.seqno_before_last();
        if self.commits.pop().is_some() {
            for list in self.versions.values_mut() {
                list.retain(|(s, _)| *s <= seqno);
            }
            self.seqno = seqno;
            self.bounds.durable = self.bounds.durable.min(self.commits.len());
            self.bounds.flushed = self.bounds.flushed.min(self.commits.len());
        }
    }

    /// Forgets history: the database holds `contents`, all of it durable, and is at `seqno`. No
    /// snapshot or iterator of before may be asked for again.
    pub fn restart(&mut self, contents: Contents, seqno: u64) {
        self.versions = contents
            .iter()
            .map(|(k, v)| (k.clone(), vec![(0, Change::Put(v.as_slice().into()))]))
            .collect();
        self.base = contents;
        self.commits.clear();
        self.seqno = seqno;
        self.bounds = Bounds::default();
    }

    fn resolve(&self, versions: &[(u64, Change)], seqno: u64) -> Option<Vec<u8>> {
        let mut operands = Vec::new();
        let seen = versions.partition_point(|v| v.0 <= seqno);
        for (_, change) in versions[..seen].iter().rev() {
            match change {
                Change::Put(v) if operands.is_empty() => return Some(v.to_vec()),
                Change::Put(v) => return Some(fold(self.merge, Some(v), &operands)),
                Change::Delete | Change::SingleDelete | Change::DeleteRange(_) => break,
                Change::Merge(o) => operands.push(o.clone()),
            }
        }
        (!operands.is_empty()).then(|| fold(self.merge, None, &operands))
    }

    /// The value of a key at a sequence number.
    pub fn get(&self, key: &[u8], seqno: u64) -> Option<Vec<u8>> {
        self.resolve(self.versions.get(key)?, seqno)
    }

    /// All contents at a sequence number.
    pub fn contents(&self, seqno: u64) -> Contents {
        self.versions
            .iter()
            .filter_map(|(k, v)| Some((k.clone(), self.resolve(v, seqno)?)))
            .collect()
    }

    /// Every key that was ever written since the restart.
    pub fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.versions.keys().map(Vec::as_slice)
    }

    /// Returns what is fixed for life.
    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    /// `a < b` in the order of the database.
    pub fn before(&self, a: &[u8], b: &[u8]) -> bool {
        if self.reverse { a > b } else { a < b }
    }

    /// The first entry of a family at or after (`forward`) or at or before a key in the order of the database, or
    /// from the end if there is no key; `strictly` leaves the key itself out.
    pub fn nearest(
        &self,
        family: u64,
        from: Option<&[u8]>,
        strictly: bool,
        forward: bool,
        seqno: u64,
    ) -> Option<(Vec<u8>, Vec<u8>)> {
        let bound = match from {
            None => Bound::Unbounded,
            Some(k) if strictly => Bound::Excluded(k),
            Some(k) => Bound::Included(k),
        };
        let entry = |(k, v): (&Vec<u8>, &Vec<(u64, Change)>)| {
            let here = self.setup.family_of(k) == family;
            let value = here.then(|| self.resolve(v, seqno))??;
            Some((k.clone(), value))
        };
        if forward != self.reverse {
            let mut range = self.versions.range::<[u8], _>((bound, Bound::Unbounded));
            range.find_map(entry)
        } else {
            let range = self.versions.range::<[u8], _>((Bound::Unbounded, bound));
            range.rev().find_map(entry)
        }
    }

    /// Explains contents found after a crash by a prefix of the commits (D1, D3, D4, D5). Unlogged
    /// commits may be missing unless they had been flushed.
    ///
    /// # Errors
    /// What is lost, or invented, seen from the nearest prefix.
    pub fn explain(&self, found: &Contents, bounds: Bounds) -> Result<usize, String> {
        let target = Tracked::of(found, self.setup);
        let all_logged = self.commits[..bounds.issued].iter().all(|c| c.logged);
        let mut tables = Tracked::of(&self.base, self.setup);
        let first = if all_logged { 0 } else { bounds.flushed };
        let mut at = 0;
        for flushed in first..=bounds.issued {
            for commit in &self.commits[at..flushed] {
                tables.apply(self.merge, commit);
            }
            at = flushed;
            let mut state = tables.clone();
            for prefix in flushed..=bounds.issued {
                if prefix > flushed && self.commits[prefix - 1].logged {
                    state.apply(self.merge, &self.commits[prefix - 1]);
                }
                if prefix < bounds.durable {
                    continue;
                }
                if state.digest == target.digest && state.contents == target.contents {
                    return Ok(prefix);
                }
            }
            if all_logged {
                break;
            }
        }
        Err(self.describe(found, bounds))
    }

    /// Why nothing explains what was found.
    fn describe(&self, found: &Contents, bounds: Bounds) -> String {
        let mut state = Tracked::of(&self.base, self.setup);
        let mut nearest = (0, usize::MAX, Contents::new());
        for prefix in 0..=bounds.issued {
            if prefix > 0 {
                state.apply(self.merge, &self.commits[prefix - 1]);
            }
            let off = distance(&state.contents, found);
            if prefix >= bounds.durable && off < nearest.1 {
                nearest = (prefix, off, state.contents.clone());
            }
        }
        let prefix = nearest.0;
        let mut text = format!(
            "no prefix of the commits explains what was recovered: {} issued, {} durable, {} \
             flushed; nearest is {prefix}:",
            bounds.issued, bounds.durable, bounds.flushed
        );
        text.push_str(&difference(&nearest.2, found));
        // An earlier prefix than allowed may explain it: a loss, not a hole.
        let mut early = Tracked::of(&self.base, self.setup);
        let target = Tracked::of(found, self.setup);
        for p in 0..=bounds.issued {
            if p > 0 {
                early.apply(self.merge, &self.commits[p - 1]);
            }
            if early.digest == target.digest {
                text.push_str(&format!("\n  LOST: it is the state after {p} commits"));
                return text;
            }
        }
        text.push_str("\n  HOLE: it is the state after no number of commits");
        text
    }
}

fn distance(a: &Contents, b: &Contents) -> usize {
    let mut off = 0;
    for (k, v) in a {
        off += usize::from(b.get(k) != Some(v));
    }
    off + b.keys().filter(|k| !a.contains_key(*k)).count()
}

/// The first differences between expected and found contents, one per line.
pub fn difference(want: &Contents, found: &Contents) -> String {
    let mut text = String::new();
    let mut shown = 0;
    let mut line = |key: &[u8], w: Option<&Vec<u8>>, f: Option<&Vec<u8>>| {
        if shown < 5 {
            let side = |v: Option<&Vec<u8>>| v.map_or_else(|| "absent".into(), |v| short(v));
            text.push_str(&format!(
                "\n  {}: want {}, found {}",
                short(key),
                side(w),
                side(f)
            ));
        }
        shown += 1;
    };
    for (k, v) in want {
        if found.get(k) != Some(v) {
            line(k, Some(v), found.get(k));
        }
    }
    for (k, v) in found {
        if !want.contains_key(k) {
            line(k, None, Some(v));
        }
    }
    if shown > 5 {
        text.push_str(&format!("\n  and {} more", shown - 5));
    }
    text
}

/// Bytes, shortened for messages.
pub fn short(bytes: &[u8]) -> String {
    let head = &bytes[..bytes.len().min(24)];
    let dots = if head.len() < bytes.len() { "…" } else { "" };
    format!("\"{}{dots}\"({})", head.escape_ascii(), bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(merge: MergeKind, reverse: bool) -> History {
        History::new(&Setup {
            reverse,
            merge,
            levels: 7,
            families: 1,
            logs_apart: false,
            real: false,
            world_seed: 0,
            own: "",
        })
    }

    fn put(h: &mut History, k: &str, v: &str) {
        let change = Change::Put(v.as_bytes().into());
        h.commit(vec![(k.into(), change)], true);
    }

    #[test]
    fn a_read_at_a_sequence_number_sees_what_was_there() {
        let mut h = history(MergeKind::Append, false);
        put(&mut h, "a", "1");
        put(&mut h, "a", "2");
        h.commit(vec![("a".into(), Change::Delete)], true);
        let operand = Change::Merge(b"3"[..].into());
        h.commit(
            vec![("a".into(), operand.clone()), ("a".into(), operand)],
            true,
        );
        let at = |n| h.get(b"a", n).map(|v| String::from_utf8(v).unwrap());
        assert_eq!(at(0), None);
        assert_eq!(at(2).as_deref(), Some("2"));
        assert_eq!(at(3), None);
        assert_eq!(at(5).as_deref(), Some("3,3"));
    }

    #[test]
    fn the_nearest_entry_follows_the_order_of_the_database() {
        for reverse in [false, true] {
            let mut h = history(MergeKind::None, reverse);
            for k in ["a", "c", "e"] {
                put(&mut h, k, k);
            }
            let key = |from: Option<&str>, strictly, forward| {
                let from = from.map(str::as_bytes);
                let e = h.nearest(0, from, strictly, forward, 9)?;
                Some(String::from_utf8(e.0).unwrap())
            };
            let (first, last) = if reverse { ("e", "a") } else { ("a", "e") };
            assert_eq!(key(None, false, true).as_deref(), Some(first));
            assert_eq!(key(None, false, false).as_deref(), Some(last));
            assert_eq!(key(Some("c"), false, true).as_deref(), Some("c"));
            assert_eq!(key(Some("c"), true, true).as_deref(), Some(last));
            assert_eq!(key(Some("c"), true, false).as_deref(), Some(first));
            assert_eq!(key(Some(last), true, true), None);
        }
    }

    fn of(pairs: &[(&str, &str)]) -> Contents {
        let pairs = pairs.iter();
        pairs
            .map(|(k, v)| (k.as_bytes().into(), v.as_bytes().into()))
            .collect()
    }

    #[test]
    fn only_prefixes_between_the_bounds_explain_a_recovery() {
        let mut h = history(MergeKind::None, false);
        put(&mut h, "a", "1");
        put(&mut h, "b", "2");
        h.logged_is_durable();
        put(&mut h, "a", "3");
        let b = h.bounds();
        assert_eq!(h.explain(&of(&[("a", "1"), ("b", "2")]), b), Ok(2));
        assert_eq!(h.explain(&of(&[("a", "3"), ("b", "2")]), b), Ok(3));
        let lost = h.explain(&of(&[("a", "1")]), b).unwrap_err();
        assert!(
            lost.contains("LOST: it is the state after 1 commits"),
            "{lost}"
        );
        let hole = h.explain(&of(&[("a", "3")]), b).unwrap_err();
        assert!(hole.contains("HOLE"), "{hole}");
    }

    #[test]
    fn an_unlogged_commit_may_be_missing_until_it_is_flushed() {
        let mut h = history(MergeKind::None, false);
        h.commit(vec![("u".into(), Change::Put(b"1"[..].into()))], false);
        put(&mut h, "l", "2");
        h.logged_is_durable();
        assert!(h.explain(&of(&[("l", "2")]), h.bounds()).is_ok());
        assert!(
            h.explain(&of(&[("u", "1"), ("l", "2")]), h.bounds())
                .is_ok()
        );
        assert!(h.explain(&of(&[("u", "1")]), h.bounds()).is_err());
        h.all_is_durable();
        assert!(h.explain(&of(&[("l", "2")]), h.bounds()).is_err());
    }
}
