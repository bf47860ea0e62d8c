//! Remembers ranges of keys in which readers found nothing, so that later readers need not look.
//!
//! A *run* `[from, to)` learned at a sequence number says: no key in it is visible to a reader of the same
//! view (memtables and tables) at that number or a later one. It stays true while no value is added within; an
//! added value cuts the run off in front of its key (V2 holds for every sequence number that was published: an
//! entry is told to the runs before its number is published, and a reader looks at runs after it loads its number).
//!
//! A run is learned in two steps. The reader sets a *watch* where the run begins, then looks at everything
//! from there on anew; values added meanwhile are noted in the watch, and the run ends in front of the smallest.
//! Nothing falls between the two: either the reader meets the leaf of an insertion changed, or the insertion
//! finds the watch. Writer: the leaf's version is taken (`SeqCst`), the entry is linked, the flag is loaded
//! (`SeqCst`). Reader: the flag is stored, a `SeqCst` fence, then versions of leaves are loaded. If the reader
//! loads a version that is older than the writer's, its fence comes before the writer's exchange in the one order
//! of all `SeqCst` operations, and so the writer's load of the flag sees what was stored before the fence.
//!
//! While nobody watches and no run is known, an insertion pays one load. Deletions are never told: they make
//! nothing visible. Keys are compared under the lock, so this is not for comparators of users.

use spanlith_base::sync::Mutex;
use spanlith_base::sync::atomic::{AtomicBool, Ordering, fence};
use spanlith_base::{Comparator, SequenceNumber};

/// Rank of a lock under which nothing else is taken.
const RANK: u8 = 90;

/// Runs that are remembered; the one used longest ago goes first.
const RUNS_MAX: usize = 8;

/// Readers that may learn at once.
const WATCHES_MAX: usize = 4;

/// A run must spare at least so many deleted keys. It does not pay to set a watch for fewer.
pub const DEAD_RUN_KEYS_MIN: u32 = 32;

/// Describes the reader that asks: what it sees.
#[derive(Clone, Copy, Debug)]
pub struct DeadRunReader {
    /// Number of the state of memtables and tables; the same number always means the same state.
    pub view: u64,
    /// Largest sequence number that it sees.
    pub snapshot: SequenceNumber,
}

/// How a reader that stands on a deleted key goes on.
#[derive(Debug, PartialEq, Eq)]
pub enum DeadRunEntry {
    /// Step by step: enough others learn at the moment, or the reader's state is not the one of which runs are
    /// remembered.
    Unknown,
    /// By looking anew at the key and what follows it, then [`finish`](crate::MemTable::finish_dead_run).
    Watch(DeadRunWatch),
    /// From the key given on, where nothing was found in front of it; then `finish`, if there is a watch.
    Jump(Vec<u8>, Option<DeadRunWatch>),
    /// There is nothing after the key.
    Nothing,
}

/// A watch that must be finished.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub struct DeadRunWatch(u64);

struct Run {
    from: Vec<u8>,
    /// Excluded; `None` for the end of all keys.
    to: Option<Vec<u8>>,
    reader: DeadRunReader,
}

struct Watch {
    id: u64,
    from: Vec<u8>,
    /// Smallest key of a value added since, if it is not in front.
    lowest: Option<Vec<u8>>,
}

#[derive(Default)]
struct State {
    /// The one used last comes last.
    runs: Vec<Run>,
    watches: Vec<Watch>,
    made: u64,
    /// Number of the state of which runs are remembered; 0 for any.
    view: u64,
}

/// The runs of one memtable.
pub(crate) struct DeadRuns {
    /// There are runs or watches; see above for its orders.
    is_watched: AtomicBool,
    state: Mutex<State>,
}

impl Run {
    fn holds(&self, c: &Comparator, key: &[u8]) -> bool {
        c.compare(&self.from, key).is_le()
            && (self.to.as_ref()).is_none_or(|to| c.compare(key, to).is_lt())
    }
}

impl State {
    fn watch(&mut self, from: &[u8]) -> Option<DeadRunWatch> {
        if self.watches.len() == WATCHES_MAX {
            return None;
        }
        self.made += 1;
        self.watches.push(Watch {
            id: self.made,
            from: from.to_vec(),
            lowest: None,
        });
        Some(DeadRunWatch(self.made))
    }

    fn remembers(&self, reader: DeadRunReader) -> bool {
        self.view == 0 || self.view == reader.view
    }

    fn is_empty(&self) -> bool {
        self.runs.is_empty() && self.watches.is_empty()
    }
}

impl DeadRuns {
    pub(crate) fn new() -> Self {
        Self {
            is_watched: AtomicBool::new(false),
            state: Mutex::new(RANK, State::default()),
        }
    }

    /// Returns whether added values must be told. Requires: the value is linked.
    #[inline(always)]
    pub(crate) fn is_watched(&self) -> bool {
        #[cfg(loom)]
        fence(Ordering::SeqCst);
        self.is_watched.load(Ordering::SeqCst)
    }

    /// A value of `key` was added, which is not published yet.
    #[cold]
    pub(crate) fn note(&self, c: &Comparator, key: &[u8]) {
        let mut state = self.state.lock();
        for watch in &mut state.watches {
            let is_lower = (watch.lowest.as_ref()).is_none_or(|l| c.compare(key, l).is_lt());
            if is_lower && c.compare(&watch.from, key).is_le() {
                watch.lowest = Some(key.to_vec());
            }
        }
        state.runs.retain_mut(|run| {
            if !run.holds(c, key) {
                return true;
            }
            run.to = Some(key.to_vec());
            c.compare(&run.from, key).is_lt()
        });
        self.is_watched.store(!state.is_empty(), Ordering::SeqCst);
    }

    pub(crate) fn enter(&self, c: &Comparator, reader: DeadRunReader, key: &[u8]) -> DeadRunEntry {
        let mut state = self.state.lock();
        if !state.remembers(reader) {
            return DeadRunEntry::Unknown;
        }
        let known = state.runs.iter().position(|run| {
            run.reader.view == reader.view
                && run.reader.snapshot <= reader.snapshot
                && run.holds(c, key)
        });
        let entry = if let Some(at) = known {
            let run = state.runs.remove(at);
            let to = run.to.clone();
            state.runs.push(run);
            match to {
                Some(to) => {
                    let watch = state.watch(&to);
                    DeadRunEntry::Jump(to, watch)
                }
                None => DeadRunEntry::Nothing,
            }
        } else {
            match state.watch(key) {
                Some(watch) => DeadRunEntry::Watch(watch),
                None => DeadRunEntry::Unknown,
            }
        };
        self.is_watched.store(!state.is_empty(), Ordering::SeqCst);
        drop(state);
        fence(Ordering::SeqCst);
        entry
    }

    /// Forgets runs of other states than that of the number, those under way too.
    pub(crate) fn forget(&self, view: u64) {
        let mut state = self.state.lock();
        state.view = view;
        state.runs.retain(|run| run.reader.view == view);
        self.is_watched.store(!state.is_empty(), Ordering::SeqCst);
    }

    /// Ends a watch that has learned nothing.
    pub(crate) fn abandon(&self, watch: &DeadRunWatch) {
        let mut state = self.state.lock();
        state.watches.retain(|w| w.id != watch.0);
        self.is_watched.store(!state.is_empty(), Ordering::SeqCst);
    }

    pub(crate) fn finish(
        &self,
        c: &Comparator,
        reader: DeadRunReader,
        watch: &DeadRunWatch,
        found: Found<'_>,
    ) {
        let mut state = self.state.lock();
        let Some(at) = state.watches.iter().position(|w| w.id == watch.0) else {
            debug_assert!(false, "a watch is finished once");
            return;
        };
        let Watch { from, lowest, .. } = state.watches.swap_remove(at);
        let to = match (found.to, lowest) {
            (Some(to), Some(lowest)) if c.compare(&lowest, to).is_lt() => Some(lowest),
            (Some(to), _) => Some(to.to_vec()),
            (None, lowest) => lowest,
        };
        if state.remembers(reader) && to.as_ref().is_none_or(|to| c.compare(&from, to).is_lt()) {
            let before = state
                .runs
                .iter_mut()
                .find(|run| run.reader.view == reader.view && run.to.as_deref() == Some(&from[..]));
            if let Some(run) = before {
                run.to = to;
                run.reader.snapshot = run.reader.snapshot.max(reader.snapshot);
            } else if found.skipped >= u64::from(DEAD_RUN_KEYS_MIN) {
                state.runs.retain(|run| run.reader.view >= reader.view);
                if state.runs.len() == RUNS_MAX {
                    state.runs.remove(0);
                }
                state.runs.push(Run { from, to, reader });
            }
        }
        self.is_watched.store(!state.is_empty(), Ordering::SeqCst);
    }
}

/// Describes what a reader met from where its watch begins.
#[derive(Clone, Copy, Debug)]
pub struct Found<'a> {
    /// The first key after that it sees, or a bound after which it did not look; `None` if there is neither.
    pub to: Option<&'a [u8]>,
    /// Deleted keys that it passed over.
    pub skipped: u64,
}

#[cfg(all(test, any(loom, shuttle)))]
mod loom_tests;

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    const C: Comparator = Comparator::Bytewise;
    const KEYS_MIN: u64 = DEAD_RUN_KEYS_MIN as u64;

    fn reader(snapshot: u64) -> DeadRunReader {
        DeadRunReader { view: 7, snapshot }
    }

    fn found(to: Option<&str>) -> Found<'_> {
        Found {
            to: to.map(str::as_bytes),
            skipped: KEYS_MIN,
        }
    }

    fn watch(runs: &DeadRuns, at: DeadRunReader, key: &str) -> DeadRunWatch {
        match runs.enter(&C, at, key.as_bytes()) {
            DeadRunEntry::Watch(watch) => watch,
            other => panic!("{key}: {other:?}"),
        }
    }

    /// Where a reader that stands on `key` goes: `None` if it has to look itself, an empty key for the end.
    fn jump(runs: &DeadRuns, at: DeadRunReader, key: &str) -> Option<String> {
        match runs.enter(&C, at, key.as_bytes()) {
            DeadRunEntry::Jump(to, watch) => {
                runs.abandon(&watch.unwrap());
                Some(String::from_utf8(to).unwrap())
            }
            DeadRunEntry::Nothing => Some(String::new()),
            DeadRunEntry::Watch(watch) => {
                runs.abandon(&watch);
                None
            }
            DeadRunEntry::Unknown => panic!("{key}: watches are left over"),
        }
    }

    fn learned(from: &str, to: Option<&str>) -> DeadRuns {
        let runs = DeadRuns::new();
        let watch = watch(&runs, reader(10), from);
        runs.finish(&C, reader(10), &watch, found(to));
        runs
    }

    #[test]
    fn a_run_is_for_readers_of_its_view_that_see_as_much() {
        let runs = learned("d", Some("m"));
        assert_eq!(jump(&runs, reader(10), "d"), Some("m".into()));
        assert_eq!(jump(&runs, reader(11), "lzz"), Some("m".into()));
        assert_eq!(jump(&runs, reader(9), "d"), None);
        assert_eq!(jump(&runs, reader(10), "c"), None);
        assert_eq!(jump(&runs, reader(10), "m"), None);
        let other = DeadRunReader {
            view: 8,
            snapshot: 10,
        };
        assert_eq!(jump(&runs, other, "d"), None);
        assert_eq!(
            jump(&learned("d", None), reader(10), "z"),
            Some(String::new())
        );
    }

    #[test]
    fn a_value_within_cuts_a_run_off_and_one_at_its_start_ends_it() {
        let runs = learned("d", Some("m"));
        runs.note(&C, b"m");
        runs.note(&C, b"c");
        assert_eq!(jump(&runs, reader(12), "e"), Some("m".into()));
        runs.note(&C, b"g");
        assert_eq!(jump(&runs, reader(12), "e"), Some("g".into()));
        assert_eq!(jump(&runs, reader(12), "h"), None);
        runs.note(&C, b"d");
        assert_eq!(jump(&runs, reader(12), "d"), None);
        assert!(!runs.is_watched());
        let runs = learned("d", None);
        runs.note(&C, b"x");
        assert_eq!(jump(&runs, reader(12), "e"), Some("x".into()));
    }

    #[test]
    fn what_is_added_under_a_watch_ends_the_run() {
        for (added, to) in [
            ("f", Some("f")),
            ("m", Some("m")),
            ("x", Some("m")),
            ("b", Some("m")),
        ] {
            let runs = DeadRuns::new();
            let watch = watch(&runs, reader(10), "d");
            assert!(runs.is_watched());
            runs.note(&C, added.as_bytes());
            runs.note(&C, b"y");
            runs.finish(&C, reader(10), &watch, found(Some("m")));
            assert_eq!(jump(&runs, reader(10), "d").as_deref(), to, "{added}");
        }
        let runs = DeadRuns::new();
        let watch = watch(&runs, reader(10), "d");
        runs.note(&C, b"d");
        runs.finish(&C, reader(10), &watch, found(None));
        assert!(!runs.is_watched());
    }

    #[test]
    fn a_run_grows_at_its_end_unless_that_was_cut_off() {
        for cut in [false, true] {
            let runs = learned("d", Some("m"));
            let DeadRunEntry::Jump(_, Some(watch)) = runs.enter(&C, reader(20), b"d") else {
                panic!("the run is known");
            };
            if cut {
                runs.note(&C, b"k");
            }
            let few = Found {
                skipped: 1,
                ..found(Some("p"))
            };
            runs.finish(&C, reader(20), &watch, few);
            let to = if cut { "k" } else { "p" };
            assert_eq!(jump(&runs, reader(20), "e"), Some(to.into()));
            // A longer run says more, and not to those who saw less.
            assert_eq!(jump(&runs, reader(15), "e").is_some(), cut);
        }
    }

    #[test]
    fn short_runs_are_not_kept_and_long_ones_take_the_place_of_the_oldest() {
        let runs = DeadRuns::new();
        let few = Found {
            skipped: KEYS_MIN - 1,
            ..found(Some("m"))
        };
        let short = watch(&runs, reader(10), "d");
        runs.finish(&C, reader(10), &short, few);
        assert!(!runs.is_watched());
        for n in 0..=RUNS_MAX {
            let (from, to) = (format!("{n}"), format!("{n}x"));
            let w = watch(&runs, reader(10), &from);
            runs.finish(&C, reader(10), &w, found(Some(&to)));
            if n > 0 {
                // The first stays, since it is used.
                assert_eq!(jump(&runs, reader(10), "0"), Some("0x".into()));
            }
        }
        assert_eq!(jump(&runs, reader(10), "1"), None);
        assert_eq!(jump(&runs, reader(10), "2"), Some("2x".into()));
    }

    #[test]
    fn a_new_state_leaves_nothing_for_insertions_to_tell() {
        let runs = learned("d", Some("m"));
        let under_way = watch(&runs, reader(10), "p");
        runs.forget(8);
        runs.finish(&C, reader(10), &under_way, found(None));
        assert!(!runs.is_watched());
        // Readers of the old one set no watch either.
        let old = runs.enter(&C, reader(20), b"d");
        assert_eq!(old, DeadRunEntry::Unknown);
        let newer = DeadRunReader {
            view: 8,
            snapshot: 10,
        };
        let later = watch(&runs, newer, "p");
        runs.finish(&C, newer, &later, found(None));
        runs.forget(8);
        assert!(runs.is_watched(), "the state is the same");
    }

    #[test]
    fn no_more_than_a_few_learn_at_once() {
        let runs = DeadRuns::new();
        let all: Vec<_> = (0..WATCHES_MAX)
            .map(|_| watch(&runs, reader(10), "d"))
            .collect();
        assert_eq!(runs.enter(&C, reader(10), b"d"), DeadRunEntry::Unknown);
        all.iter().for_each(|w| runs.abandon(w));
        assert!(!runs.is_watched());
    }
}
