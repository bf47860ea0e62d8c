//! Runs a program against a database and the reference, one operation at a time.

use super::check::{Check, compare_all, flushed, options_at, read_all};
use super::crashing::{Camera, Choice, Image};
use super::history::{Change, History, short};
use super::program::{At, Durability, MaybeKey, Op, Program, Update};
use super::setup::{Setup, Tuning};
use super::view::{View, in_mode};
use super::world::{FaultPlan, MEM_DIR, World, family_options, open_with};
use spanlith::{Cf, Cursor, Db, ReadOptions, Snapshot, WriteBatch, WriteOptions};
use spanlith_env::{Env, FileSystem, MemFs};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Slots for snapshots and for iterators.
pub const SLOTS: usize = 4;

/// Operations an armed power loss waits for its change before it strikes anyway.
const PATIENCE: u32 = 40;

/// Describes what went wrong, and where.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Index of the operation; one past the end for the final comparison.
    pub op: usize,
    /// In words.
    pub text: String,
}

/// How often each thing was done.
#[derive(Clone, Debug, Default)]
pub struct Tally(pub BTreeMap<&'static str, u64>);

impl Tally {
    /// Counts one more.
    pub fn add(&mut self, what: &'static str, n: u64) {
        *self.0.entry(what).or_default() += n;
    }

    /// Adds another tally.
    pub fn merge(&mut self, other: &Tally) {
        for (what, n) in &other.0 {
            self.add(what, *n);
        }
    }

    /// How often.
    pub fn get(&self, what: &str) -> u64 {
        self.0.get(what).copied().unwrap_or(0)
    }
}

struct OpenCursor {
    cursor: Cursor,
    family: u64,
    seqno: u64,
    lower: MaybeKey,
    upper: MaybeKey,
    /// Key it stands on.
    at: MaybeKey,
}

/// A database, its reference and its world.
pub struct Player {
    pub(super) setup: Setup,
    pub(super) tuning: Tuning,
    /// The world.
    pub world: World,
    db: Option<Db>,
    /// The reference.
    pub history: History,
    snapshots: [Option<(Snapshot, u64)>; SLOTS],
    cursors: [Option<OpenCursor>; SLOTS],
    camera: Option<Camera>,
    /// Options of the open after an armed power loss, and the operations it may still wait.
    loss: Option<(Tuning, u32)>,
    /// Tables that nothing named after a crash and that were left alone.
    orphans: BTreeSet<String>,
    /// Commits are kept over clean reopenings, so that images of before can still be explained.
    pub keep_history: bool,
    /// Counts.
    pub tally: Tally,
}

pub(super) fn say<T>(what: &str, result: spanlith::Result<T>) -> Result<T, String> {
    result.map_err(|e| format!("{what}: {e}"))
}

impl Player {
    /// An empty world for `program`, nothing opened yet.
    pub fn new(program: &Program, plan: Option<FaultPlan>) -> Self {
        let mut player = Self {
            setup: program.setup,
            tuning: program.tuning,
            world: World::new(&program.setup, plan),
            db: None,
            history: History::new(&program.setup),
            snapshots: Default::default(),
            cursors: Default::default(),
            camera: None,
            loss: None,
            orphans: BTreeSet::new(),
            keep_history: false,
            tally: Tally::default(),
        };
        player.watch();
        player
    }

    /// Opens the new database.
    ///
    /// # Errors
    /// Of the open.
    pub fn start(&mut self) -> Check {
        let tuning = self.tuning;
        self.open(&tuning)?;
        // Some are set aside for the time before if times are kept.
        let seqno = self.db().latest_sequence_number();
        self.history.restart(Default::default(), seqno);
        Ok(())
    }

    fn watch(&mut self) {
        self.camera = self.world.mem().map(Camera::new);
    }

    /// The database, if it is open.
    pub fn database(&self) -> Option<&Db> {
        self.db.as_ref()
    }

    /// The camera on the file system in memory.
    pub fn camera(&self) -> Option<&Camera> {
        self.camera.as_ref()
    }

    fn open(&mut self, tuning: &Tuning) -> Check {
        let db = say("open", self.world.open(tuning))?;
        self.tuning = *tuning;
        self.db = Some(db);
        self.tally.add("opens", 1);
        Ok(())
    }

    fn db(&self) -> &Db {
        self.db.as_ref().expect("open between operations")
    }

    pub(super) fn family(&self, family: u64) -> Cf {
        let name = Setup::family_name(family);
        self.db().cf(&name).expect("every open names all families")
    }

    /// The family a key lives in.
    fn cf_of(&self, key: &[u8]) -> Cf {
        self.family(self.setup.family_of(key))
    }

    /// All families.
    fn cfs(&self) -> Vec<Cf> {
        (0..self.setup.families).map(|f| self.family(f)).collect()
    }

    fn flush(&self, wait: bool) -> Check {
        let cfs = self.cfs();
        let all: Vec<&Cf> = cfs.iter().collect();
        say("flush", flushed(wait, self.db().flush_cfs(&all, wait)))
    }

    /// Drops a family and creates it anew. Everything is durable before and after, so that no crash
    /// has to explain keys that went with the family.
    fn recreate(&mut self, family: u64) -> Check {
        if family == 0 || family >= self.setup.families {
            return Ok(());
        }
        self.strike(true)?;
        self.let_go();
        self.flush(true)?;
        let cf = self.family(family);
        say("drop", self.db().drop_cf(&cf))?;
        drop(cf);
        let options = family_options(&self.setup, &self.tuning, family);
        say("create", self.db().create_cf(options))?;
        let seqno = self.history.seqno();
        let mut contents = self.history.contents(seqno);
        contents.retain(|k, _| self.setup.family_of(k) != family);
        self.history.restart(contents, seqno);
        self.tell_camera();
        self.tally.add("families recreated", 1);
        compare_all(self.db(), &self.history)
    }

    fn let_go(&mut self) {
        self.snapshots = Default::default();
        self.cursors = Default::default();
    }

    /// The bounds changed: images taken from now on have to know.
    fn tell_camera(&self) {
        if let Some(camera) = &self.camera {
            camera.set_bounds(self.history.bounds());
        }
    }

    /// Runs one operation, then whatever power loss has struck meanwhile.
    ///
    /// # Errors
    /// What differed from the reference.
    pub fn step(&mut self, op: &Op) -> Check {
        self.run(op)?;
        self.tally.add("operations", 1);
        self.strike(false)
    }

    /// Handles an armed power loss: continues from the image once there is one. `now` does not wait.
    fn strike(&mut self, now: bool) -> Check {
        let Some((tuning, patience)) = self.loss else {
            return Ok(());
        };
        let camera = self.camera.as_ref().expect("power losses are simulated");
        if camera.armed() && !now && patience > 0 {
            self.loss = Some((tuning, patience - 1));
            return Ok(());
        }
        if camera.armed() {
            camera.take_now();
        }
        let image = camera.images().pop().expect("taken above or before");
        self.loss = None;
        self.tally.add("power losses", 1);
        self.continue_from(image, &tuning)
    }

    /// Goes on with what a crash left.
    fn continue_from(&mut self, image: Image, tuning: &Tuning) -> Check {
        let Image {
            fs,
            bounds,
            before,
            choice,
            answers,
            change: _,
        } = image;
        self.let_go();
        self.camera = None;
        self.db = None;
        self.world.replace_mem(fs);
        self.watch();
        let context = |e| format!("after a crash before {before}, {choice:?} {answers:?}: {e}");
        self.open(tuning).map_err(context)?;
        let found = read_all(self.db(), &self.history).map_err(context)?;
        self.history.explain(&found, bounds).map_err(context)?;
        let seqno = self.db().latest_sequence_number();
        self.history.restart(found, seqno);
        self.tell_camera();
        self.orphans = self.unnamed_tables()?;
        self.tally
            .add("orphans left alone", self.orphans.len() as u64);
        Ok(())
    }

    /// Tables in the directory that the current version does not name.
    fn unnamed_tables(&self) -> Result<BTreeSet<String>, String> {
        let Some(fs) = self.world.mem() else {
            return Ok(BTreeSet::new());
        };
        let of = |cf: Cf| cf.property("rocksdb.sstables").unwrap_or_default();
        let listing: String = self.cfs().into_iter().map(of).collect();
        let named: BTreeSet<u64> = listing
            .lines()
            .filter_map(|l| l.strip_prefix(' ')?.split_once(':')?.0.parse().ok())
            .collect();
        let names = say("list", fs.list(MEM_DIR.as_ref()))?;
        let number = |n: &str| n.strip_suffix(".sst")?.parse::<u64>().ok();
        Ok(names
            .into_iter()
            .filter(|n| number(n).is_some_and(|n| !named.contains(&n)))
            .collect())
    }

    /// Returns what should no longer be there after an open and all background work.
    fn check_directory(&mut self) -> Check {
        let Some(fs) = self.world.mem().cloned() else {
            return Ok(());
        };
        while self.world.work(1000) > 0 {}
        let left = self.unnamed_tables()?;
        if let Some(name) = left.iter().find(|n| !self.orphans.contains(*n)) {
            return Err(format!("{name} is left behind: no version names it"));
        }
        let names = say("list", fs.list(MEM_DIR.as_ref()))?;
        let manifests = names.iter().filter(|n| n.starts_with("MANIFEST-")).count();
        let options = names.iter().filter(|n| n.starts_with("OPTIONS-")).count();
        let temporary = names.iter().any(|n| n.ends_with(".dbtmp"));
        if manifests != 1 || options > 2 || temporary {
            return Err(format!("files are left behind: {names:?}"));
        }
        Ok(())
    }

    fn run(&mut self, op: &Op) -> Check {
        match op {
            Op::Write(update, d) => self.write_one(update, *d),
            Op::Batch(updates, d) => self.write_batch(updates, *d),
            Op::Get(key, at) => self.get(key, *at),
            Op::MultiGet(keys, at) => self.multi_get(keys, *at),
            Op::Scan {
                lower,
                upper,
                back,
                at,
            } => self.scan(lower, upper, *back, *at),
            Op::Within(key, at) => self.within(key, *at),
            Op::Iter {
                slot,
                lower,
                upper,
                at,
            } => {
                let (options, seqno) = self.read_at(*at);
                let options = in_mode(bounded(options, lower, upper), *slot);
                let family = u64::from(*slot) % self.setup.families;
                let cursor = self.family(family).cursor(options);
                self.cursors[usize::from(*slot)] = Some(OpenCursor {
                    cursor,
                    family,
                    seqno,
                    lower: lower.clone(),
                    upper: upper.clone(),
                    at: None,
                });
                Ok(())
            }
            Op::Seek(slot, key) => self.position(*slot, Some(key), true),
            Op::SeekForPrev(slot, key) => self.position(*slot, Some(key), false),
            Op::First(slot) => self.position(*slot, None, true),
            Op::Last(slot) => self.position(*slot, None, false),
            Op::Next(slot, n) => self.walk(*slot, *n, true),
            Op::Prev(slot, n) => self.walk(*slot, *n, false),
            Op::Refresh(slot) => {
                let now = self.history.seqno();
                if let Some(c) = &mut self.cursors[usize::from(*slot)] {
                    say("refresh", c.cursor.refresh(None))?;
                    c.seqno = now;
                    c.at = None;
                    if c.cursor.valid() {
                        return Err("a refreshed iterator has a position".to_string());
                    }
                }
                Ok(())
            }
            Op::DropIter(slot) => {
                self.cursors[usize::from(*slot)] = None;
                Ok(())
            }
            Op::Snapshot(slot) => {
                let snapshot = self.db().snapshot();
                let (got, want) = (snapshot.seqno(), self.history.seqno());
                if got != want {
                    return Err(format!("snapshot at {got}, the last write was {want}"));
                }
                self.snapshots[usize::from(*slot)] = Some((snapshot, want));
                Ok(())
            }
            Op::Release(slot) => {
                self.snapshots[usize::from(*slot)] = None;
                Ok(())
            }
            Op::Flush(wait) => {
                self.flush(*wait)?;
                if *wait {
                    self.history.all_is_durable();
                    self.tell_camera();
                }
                Ok(())
            }
            Op::Sync => {
                say("sync", self.db().sync())?;
                self.history.logged_is_durable();
                self.tell_camera();
                Ok(())
            }
            Op::Compact(begin, end) => {
                for cf in self.cfs() {
                    let done = cf.compact_range(begin.as_deref(), end.as_deref());
                    say("compact_range", done)?;
                }
                Ok(())
            }
            Op::Work(n) => {
                let ran = self.world.work(*n);
                self.tally.add("jobs", u64::from(ran));
                Ok(())
            }
            Op::Reopen(tuning) => self.reopen(tuning),
            Op::Kill(tuning) => self.kill(tuning),
            Op::PowerLoss {
                after,
                choice,
                tuning,
            } => {
                self.strike(true)?;
                let Some(camera) = &self.camera else {
                    return self.reopen(tuning);
                };
                self.loss = Some((*tuning, PATIENCE));
                camera.arm(*after, Choice::of(*choice));
                if *after == 0 {
                    self.strike(true)?;
                }
                Ok(())
            }
            Op::ReadOnly => self.read_only(),
            Op::Recreate(family) => self.recreate(*family),
            Op::Pass(seconds) => {
                self.world.pass(*seconds);
                // A change of options is one of the moments at which time is taken down, and the one at
                // which files are looked at again. At times nothing is young any more.
                let young = if seconds.is_multiple_of(4) {
                    0
                } else {
                    self.tuning.young
                };
                let text = young.to_string();
                for cf in self.cfs() {
                    let options = [("preclude_last_level_data_seconds", &text[..])];
                    say("set_options", cf.set_options(&options))?;
                }
                Ok(())
            }
        }
    }

    pub(super) fn read_at(&self, at: At) -> (ReadOptions, u64) {
        match at.and_then(|s| self.snapshots[usize::from(s)].as_ref()) {
            Some((snapshot, seqno)) => (options_at(Some(snapshot)), *seqno),
            None => (options_at(None), self.history.seqno()),
        }
    }

    /// Returns what updates mean now.
    fn resolve(&self, updates: &[Update]) -> Vec<(Vec<u8>, Change)> {
        let mut toggled: BTreeMap<&[u8], bool> = BTreeMap::new();
        let one = |update: &'_ Update| match update {
            Update::Put(k, v) => (k.clone(), Change::Put(v.bytes().into())),
            Update::Delete(k) => (k.clone(), Change::Delete),
            Update::Merge(k, v) => (k.clone(), Change::Merge(v.bytes().into())),
            Update::Toggle(k, v) => (k.clone(), Change::Put(v.bytes().into())),
            // The end that comes first in the order of the database begins the range.
            Update::DeleteRange(a, b) if self.history.before(b, a) => {
                (b.clone(), Change::DeleteRange(a.as_slice().into()))
            }
            Update::DeleteRange(a, b) => (a.clone(), Change::DeleteRange(b.as_slice().into())),
        };
        let mut ranges: Vec<(Vec<u8>, std::rc::Rc<[u8]>)> = Vec::new();
        let mut out = Vec::with_capacity(updates.len());
        for update in updates {
            let mut change = one(update);
            if let (begin, Change::DeleteRange(end)) = &change {
                let h = &self.history;
                let family = self.setup.family_of(begin);
                let within = |k: &[u8]| {
                    self.setup.family_of(k) == family && !h.before(k, begin) && h.before(k, end)
                };
                for (_, there) in toggled.iter_mut().filter(|t| within(t.0)) {
                    *there = false;
                }
                ranges.push((begin.clone(), end.clone()));
            }
            if let Update::Toggle(k, _) = update {
                let seqno = self.history.seqno();
                let there = toggled.entry(k).or_insert_with(|| {
                    let h = &self.history;
                    let gone = |r: &(Vec<u8>, std::rc::Rc<[u8]>)| {
                        self.setup.family_of(k) == self.setup.family_of(&r.0)
                            && !h.before(k, &r.0)
                            && h.before(k, &r.1)
                    };
                    h.get(k, seqno).is_some() && !ranges.iter().any(gone)
                });
                if *there {
                    change.1 = Change::SingleDelete;
                }
                *there = !*there;
            }
            out.push(change);
        }
        out
    }

    /// Enters a commit that is about to be made.
    fn issue(&mut self, changes: Vec<(Vec<u8>, Change)>, d: Durability) -> WriteOptions {
        self.history.commit(changes, d != Durability::Unlogged);
        self.tell_camera();
        WriteOptions::new()
            .sync(d == Durability::Synced)
            .disable_wal(d == Durability::Unlogged)
    }

    /// A commit was acknowledged.
    fn acknowledged(&mut self, d: Durability) -> Check {
        if d == Durability::Synced {
            self.history.logged_is_durable();
            self.tell_camera();
        }
        let (got, want) = (self.db().latest_sequence_number(), self.history.seqno());
        if got != want {
            return Err(format!("sequence number {got}, should be {want}"));
        }
        Ok(())
    }

    fn write_one(&mut self, update: &Update, d: Durability) -> Check {
        let changes = self.resolve(std::slice::from_ref(update));
        let (key, change) = changes[0].clone();
        let o = self.issue(changes, d);
        let cf = self.cf_of(&key);
        let done = match &change {
            Change::Put(v) => cf.put_opt(&key, v, &o),
            Change::Delete => cf.delete_opt(&key, &o),
            Change::SingleDelete => cf.single_delete_opt(&key, &o),
            Change::Merge(v) => cf.merge_opt(&key, v, &o),
            Change::DeleteRange(end) => cf.delete_range_opt(&key, end, &o),
        };
        say("write", done)?;
        self.acknowledged(d)
    }

    fn write_batch(&mut self, updates: &[Update], d: Durability) -> Check {
        let changes = self.resolve(updates);
        let mut batch = WriteBatch::new();
        for (key, change) in &changes {
            let cf = &self.cf_of(key);
            match change {
                Change::Put(v) => batch.put_cf(cf, key, v),
                Change::Delete => batch.delete_cf(cf, key),
                Change::SingleDelete => batch.single_delete_cf(cf, key),
                Change::Merge(v) => batch.merge_cf(cf, key, v),
                Change::DeleteRange(end) => batch.delete_range_cf(cf, key, end),
            };
        }
        let o = self.issue(changes, d);
        say("batch", self.db().write_opt(&batch, &o))?;
        self.acknowledged(d)
    }

    fn get(&mut self, key: &[u8], at: At) -> Check {
        let (options, seqno) = self.read_at(at);
        let got = say("get", self.cf_of(key).get_opt(key, &options))?;
        same_value(key, self.history.get(key, seqno), got.as_deref())
    }

    fn multi_get(&mut self, keys: &[Vec<u8>], at: At) -> Check {
        let (options, seqno) = self.read_at(at);
        let slices: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        // Every family is asked for all keys: those of others are absent.
        for family in 0..self.setup.families {
            let got = self.family(family).multi_get_opt(&slices, &options);
            if got.len() != keys.len() {
                return Err(format!("multi-get: {} answers", got.len()));
            }
            for (key, got) in keys.iter().zip(got) {
                let got = say("multi-get", got)?;
                let here = self.setup.family_of(key) == family;
                let want = here.then(|| self.history.get(key, seqno)).flatten();
                same_value(key, want, got.as_deref())?;
            }
        }
        Ok(())
    }

    fn scan(&mut self, lower: &MaybeKey, upper: &MaybeKey, back: bool, at: At) -> Check {
        let (options, seqno) = self.read_at(at);
        let bound = lower.as_ref().or(upper.as_ref());
        let family = bound.map_or(0, |k| k.len() as u64) % self.setup.families;
        let mut cursor = self.family(family).cursor(bounded(options, lower, upper));
        let view = View {
            history: &self.history,
            family,
            seqno,
            lower,
            upper,
        };
        let mut want = view.find(None, false, !back);
        let mut on = if back {
            say("seek_to_last", cursor.seek_to_last())?
        } else {
            say("seek_to_first", cursor.seek_to_first())?
        };
        loop {
            same_entry(&want, on, &cursor)?;
            let Some((key, _)) = want else { return Ok(()) };
            want = view.find(Some(&key), true, !back);
            on = if back {
                say("prev", cursor.prev())?
            } else {
                say("next", cursor.next())?
            };
        }
    }

    fn position(&mut self, slot: u8, key: Option<&Vec<u8>>, forward: bool) -> Check {
        let Some(c) = &mut self.cursors[usize::from(slot)] else {
            return Ok(());
        };
        let view = View {
            history: &self.history,
            family: c.family,
            seqno: c.seqno,
            lower: &c.lower,
            upper: &c.upper,
        };
        let want = view.find(key.map(Vec::as_slice), false, forward);
        let on = match (key, forward) {
            (Some(k), true) => say("seek", c.cursor.seek(k))?,
            (Some(k), false) => say("seek_for_prev", c.cursor.seek_for_prev(k))?,
            (None, true) => say("seek_to_first", c.cursor.seek_to_first())?,
            (None, false) => say("seek_to_last", c.cursor.seek_to_last())?,
        };
        same_entry(&want, on, &c.cursor)?;
        c.at = want.map(|w| w.0);
        Ok(())
    }

    fn walk(&mut self, slot: u8, count: u32, forward: bool) -> Check {
        let Some(c) = &mut self.cursors[usize::from(slot)] else {
            return Ok(());
        };
        let view = View {
            history: &self.history,
            family: c.family,
            seqno: c.seqno,
            lower: &c.lower,
            upper: &c.upper,
        };
        for _ in 0..count {
            let want = match &c.at {
                Some(key) => view.find(Some(key), true, forward),
                None => None,
            };
            let on = if forward {
                say("next", c.cursor.next())?
            } else {
                say("prev", c.cursor.prev())?
            };
            same_entry(&want, on, &c.cursor)?;
            c.at = want.map(|w| w.0);
        }
        Ok(())
    }

    fn reopen(&mut self, tuning: &Tuning) -> Check {
        self.strike(true)?;
        self.let_go();
        self.check_directory()?;
        let db = self.db.take().expect("open between operations");
        say("close", db.close())?;
        self.history.all_is_durable();
        self.tell_camera();
        self.open(tuning)?;
        compare_all(self.db(), &self.history)?;
        let (got, want) = (self.db().latest_sequence_number(), self.history.seqno());
        if got != want {
            return Err(format!("reopened at sequence number {got}, not {want}"));
        }
        if !self.keep_history {
            let contents = self.history.contents(want);
            self.history.restart(contents, want);
            self.tell_camera();
        }
        self.tally.add("reopens", 1);
        self.check_directory()
    }

    /// Bounds after the end of the process: everything logged is there (D2).
    fn kill(&mut self, tuning: &Tuning) -> Check {
        self.strike(true)?;
        let Some(fs) = self.world.mem() else {
            return self.reopen(tuning);
        };
        let mut bounds = self.history.bounds();
        bounds.durable = bounds.issued;
        let image = Image {
            fs: fs.process_crash_clone(),
            bounds,
            before: "the next operation, of the process only".to_string(),
            change: 0,
            choice: Choice::All,
            answers: Vec::new(),
        };
        self.tally.add("kills", 1);
        self.continue_from(image, tuning)
    }

    /// Opens a copy for reading only: the contents are there, and nothing changes on disk (D11).
    fn read_only(&mut self) -> Check {
        let Some(fs) = self.world.mem() else {
            return Ok(());
        };
        let copy: MemFs = fs.process_crash_clone();
        let (env, _, _) = Env::test(Arc::new(copy.clone()), 1);
        let opened = open_with(&self.setup, &self.tuning, env, MEM_DIR.as_ref(), true);
        let db = say("open read-only", opened)?;
        let found = read_all(&db, &self.history)?;
        let mut bounds = self.history.bounds();
        bounds.durable = bounds.issued;
        self.history
            .explain(&found, bounds)
            .map_err(|e| format!("read-only: {e}"))?;
        drop(db);
        if copy.op_count() != 0 {
            return Err(format!("read-only open made {} changes", copy.op_count()));
        }
        self.tally.add("read-only opens", 1);
        Ok(())
    }

    /// Closes the database; the player is of no further use but for its world and its history.
    ///
    /// # Errors
    /// Of the close.
    pub fn close(&mut self) -> Check {
        self.let_go();
        match self.db.take() {
            Some(db) => say("close", db.close()),
            None => Ok(()),
        }
    }

    /// Closes and compares everything once more.
    ///
    /// # Errors
    /// What differs.
    pub fn finish(mut self) -> Result<Tally, (String, Tally)> {
        let tuning = self.tuning;
        let done = self.reopen(&tuning);
        let done = done.and_then(|()| {
            let db = self.db.take().expect("just opened");
            say("close", db.close())
        });
        let tally = std::mem::take(&mut self.tally);
        done.map(|()| tally.clone()).map_err(|e| (e, tally))
    }
}

fn bounded(mut options: ReadOptions, lower: &MaybeKey, upper: &MaybeKey) -> ReadOptions {
    options.lower = lower.clone();
    options.upper = upper.clone();
    options
}

fn same_value(key: &[u8], want: Option<Vec<u8>>, got: Option<&[u8]>) -> Check {
    if want.as_deref() == got {
        return Ok(());
    }
    let side = |v: Option<&[u8]>| v.map_or_else(|| "absent".to_string(), short);
    Err(format!(
        "value of {}: want {}, found {}",
        short(key),
        side(want.as_deref()),
        side(got)
    ))
}

pub(super) fn same_entry(want: &Option<(Vec<u8>, Vec<u8>)>, on: bool, cursor: &Cursor) -> Check {
    let got = cursor.entry();
    let same =
        on == got.is_some() && want.as_ref().map(|(k, v)| (k.as_slice(), v.as_slice())) == got;
    if same {
        return Ok(());
    }
    let side = |e: Option<(&[u8], &[u8])>| {
        e.map_or_else(
            || "nothing".to_string(),
            |(k, v)| format!("{} = {}", short(k), short(v)),
        )
    };
    Err(format!(
        "iterator: want {}, found {} (move said {on}, status {:?})",
        side(want.as_ref().map(|(k, v)| (k.as_slice(), v.as_slice()))),
        side(got),
        cursor.status()
    ))
}
