//! One thread of a round: draws operations, does them and records them.
//!
//! Of the keys, the even ones are counters: eight bytes, which `merge` adds to. The odd ones hold a
//! number followed by filler that is derived from it, so that a torn value is noticed and memtables
//! fill. Numbers are random and thus unique.

use super::history::{Action, Effect, Event};
use crate::model::check::{flushed, options_at};
use spanlith::{Cf, Db, ReadOptions, Snapshot, WriteBatch, WriteOptions};
use spanlith_testkit::Rng;
use std::sync::atomic::{AtomicU64, Ordering};

/// One round: its keys, so that none holds anything at first, and its clock.
pub struct Round {
    prefix: String,
    names: Vec<Vec<u8>>,
    db: Db,
    /// Families; key `n` lives in family `n % len`.
    cfs: Vec<Cf>,
    clock: AtomicU64,
}

impl Round {
    /// A round with `count` keys in the families `cfs`.
    pub fn new(db: &Db, cfs: Vec<Cf>, number: u64, count: usize) -> Self {
        let prefix = format!("r{number:08}-");
        Self {
            names: (0..=count)
                .map(|n| format!("{prefix}{n:02}").into_bytes())
                .collect(),
            prefix,
            db: db.clone(),
            cfs,
            clock: AtomicU64::new(1),
        }
    }

    /// The database.
    pub fn db(&self) -> &Db {
        &self.db
    }

    /// Number of keys.
    #[expect(clippy::len_without_is_empty, reason = "a round has keys")]
    pub fn len(&self) -> usize {
        self.names.len() - 1
    }

    /// A thread of the round. Its values have at most `filler_max` bytes more than their number.
    pub fn client(&self, thread: usize, rng: Rng, filler_max: u64, mix: Mix) -> Client<'_> {
        Client {
            thread,
            keys: self,
            rng,
            filler_max,
            mix,
            events: Vec::new(),
        }
    }

    fn cf(&self, key: usize) -> &Cf {
        &self.cfs[key % self.cfs.len()]
    }

    fn index_of(&self, name: &[u8]) -> Option<usize> {
        self.names.iter().position(|n| n == name)
    }
}

/// How often each operation is drawn: put, delete, merge, batch, range deletion, get, multi-get,
/// opening or closing a snapshot, iterator, flush.
#[derive(Clone, Copy, Debug)]
pub struct Mix([u32; 10]);

impl Mix {
    /// All of them.
    pub const ALL: Self = Self([24, 8, 10, 12, 2, 24, 8, 6, 5, 1]);
    /// Writes only.
    pub const WRITES: Self = Self([4, 2, 3, 6, 1, 0, 0, 0, 0, 0]);
    /// Reads of one moment each.
    pub const READS: Self = Self([0, 0, 0, 0, 0, 3, 3, 0, 3, 0]);
    /// Snapshots that are read and released, and a few writes between.
    pub const SNAPSHOTS: Self = Self([1, 0, 0, 0, 0, 1, 0, 6, 0, 0]);
}

/// Returns whether `merge` may be used on the key.
fn is_counter(key: usize) -> bool {
    // In pairs, so that both families have both kinds.
    (key / 2).is_multiple_of(2)
}

fn encode(key: usize, number: u64, filler: usize) -> Vec<u8> {
    let mut bytes = number.to_le_bytes().to_vec();
    if !is_counter(key) {
        bytes.resize(8 + filler, number as u8);
    }
    bytes
}

fn decode(bytes: Option<&[u8]>) -> Result<Option<u64>, String> {
    let Some(bytes) = bytes else { return Ok(None) };
    let Some((head, filler)) = bytes.split_first_chunk() else {
        return Err(format!("a value of {} bytes", bytes.len()));
    };
    let number = u64::from_le_bytes(*head);
    match filler.iter().all(|b| *b == number as u8) {
        true => Ok(Some(number)),
        false => Err(format!("a torn value: {}", bytes.escape_ascii())),
    }
}

/// A view that stays open over other operations of its thread.
struct View {
    at: Snapshot,
    invoked: u64,
    returned: u64,
    seen: Vec<(usize, Option<u64>)>,
}

/// One thread.
pub struct Client<'a> {
    thread: usize,
    keys: &'a Round,
    rng: Rng,
    /// Longest filler of a value in bytes.
    filler_max: u64,
    mix: Mix,
    events: Vec<Event>,
}

type Done = Result<(), String>;

impl Client<'_> {
    fn tick(&self) -> u64 {
        self.keys.clock.fetch_add(1, Ordering::SeqCst)
    }

    fn key(&mut self) -> usize {
        self.rng.index(self.keys.len())
    }

    fn record(&mut self, verb: &'static str, invoked: u64, returned: u64, action: Action) {
        self.events.push(Event {
            thread: self.thread,
            verb,
            invoked,
            returned,
            action,
        });
    }

    /// Does `count` operations and returns what it recorded.
    ///
    /// # Errors
    /// An operation that failed, a torn value, or a snapshot that is not repeatable.
    pub fn run(mut self, count: u64) -> Result<Vec<Event>, String> {
        let mut view: Option<View> = None;
        for _ in 0..count {
            match self.rng.weighted(&self.mix.0) {
                0 => self.put()?,
                1 => self.delete()?,
                2 => self.merge()?,
                3 => self.batch()?,
                4 => self.delete_range()?,
                5 => self.get()?,
                6 => self.multi_get()?,
                7 => match view.take() {
                    Some(view) => self.close_view(view)?,
                    None => view = Some(self.open_view()?),
                },
                8 => self.walk()?,
                _ => {
                    let wait = self.rng.one_in(8);
                    let answer = self.keys.db.flush(wait);
                    flushed(wait, answer).map_err(|e| format!("flush: {e}"))?;
                }
            }
            if let Some(view) = &mut view
                && self.rng.one_in(2)
            {
                let key = self.key();
                self.look(view, key)?;
            }
        }
        if let Some(view) = view {
            self.close_view(view)?;
        }
        Ok(self.events)
    }

    fn write(
        &mut self,
        verb: &'static str,
        effects: Vec<(usize, Effect)>,
        work: impl FnOnce(&Self) -> spanlith::Result<()>,
    ) -> Done {
        let invoked = self.tick();
        let done = work(self);
        let returned = self.tick();
        done.map_err(|e| format!("{verb}: {e}"))?;
        self.record(verb, invoked, returned, Action::Write(effects));
        Ok(())
    }

    /// An effect on a key and the bytes that go with it.
    fn effect(&mut self, key: usize) -> (Effect, Vec<u8>) {
        let number = self.rng.next_u64();
        let filler = self.rng.skewed(self.filler_max) as usize;
        let bytes = encode(key, number, filler);
        match self.rng.below(4) {
            0 => (Effect::Delete, bytes),
            1 | 2 if is_counter(key) => (Effect::Add(number), bytes),
            _ => (Effect::Put(number), bytes),
        }
    }

    fn options(&mut self) -> WriteOptions {
        WriteOptions::new().sync(self.rng.one_in(40))
    }

    fn put(&mut self) -> Done {
        let (key, number, options) = (self.key(), self.rng.next_u64(), self.options());
        let filler = self.rng.skewed(self.filler_max) as usize;
        let value = encode(key, number, filler);
        self.write("put", vec![(key, Effect::Put(number))], |c| {
            c.keys.cf(key).put_opt(&c.keys.names[key], &value, &options)
        })
    }

    fn delete(&mut self) -> Done {
        let (key, options) = (self.key(), self.options());
        self.write("delete", vec![(key, Effect::Delete)], |c| {
            c.keys.cf(key).delete_opt(&c.keys.names[key], &options)
        })
    }

    fn merge(&mut self) -> Done {
        let counters: Vec<usize> = (0..self.keys.len()).filter(|k| is_counter(*k)).collect();
        let (key, number) = (*self.rng.pick(&counters), self.rng.next_u64());
        self.write("merge", vec![(key, Effect::Add(number))], |c| {
            let operand = encode(key, number, 0);
            c.keys.cf(key).merge(&c.keys.names[key], operand)
        })
    }

    fn batch(&mut self) -> Done {
        let mut batch = WriteBatch::new();
        let mut effects = Vec::new();
        for _ in 0..2 + self.rng.below(5) {
            let key = self.key();
            let (effect, bytes) = self.effect(key);
            let (cf, name) = (self.keys.cf(key), &self.keys.names[key]);
            match effect {
                Effect::Put(_) => batch.put_cf(cf, name, bytes),
                Effect::Delete => batch.delete_cf(cf, name),
                Effect::Add(_) => batch.merge_cf(cf, name, bytes),
            };
            effects.push((key, effect));
        }
        let options = self.options();
        self.write("batch", effects, |c| c.keys.db.write_opt(&batch, &options))
    }

    fn delete_range(&mut self) -> Done {
        let (a, b) = (self.key(), self.key());
        let (first, end) = (a.min(b), a.max(b) + 1);
        let families = self.keys.cfs.len();
        let hit = (first..end).filter(|k| k % families == a % families);
        let effects = hit.map(|k| (k, Effect::Delete)).collect();
        self.write("delete_range", effects, |c| {
            let names = &c.keys.names;
            c.keys.cf(a).delete_range(&names[first], &names[end])
        })
    }

    fn get(&mut self) -> Done {
        let key = self.key();
        let invoked = self.tick();
        let found = self.keys.cf(key).get(&self.keys.names[key]);
        let returned = self.tick();
        let found = found.map_err(|e| format!("get: {e}"))?;
        let seen = vec![(key, decode(found.as_deref())?)];
        self.record("get", invoked, returned, Action::Observe(seen));
        Ok(())
    }

    fn multi_get(&mut self) -> Done {
        let some: Vec<usize> = (0..2 + self.rng.below(5)).map(|_| self.key()).collect();
        let keys: Vec<(&Cf, &[u8])> = some
            .iter()
            .map(|k| (self.keys.cf(*k), self.keys.names[*k].as_slice()))
            .collect();
        let invoked = self.tick();
        let found = self.keys.db.multi_get(&keys);
        let returned = self.tick();
        let mut seen = Vec::new();
        for (key, value) in some.iter().zip(found) {
            let value = value.map_err(|e| format!("multi_get: {e}"))?;
            seen.push((*key, decode(value.as_deref())?));
        }
        self.record("multi_get", invoked, returned, Action::Observe(seen));
        Ok(())
    }

    fn open_view(&mut self) -> Result<View, String> {
        let invoked = self.tick();
        let at = self.keys.db.snapshot();
        let returned = self.tick();
        Ok(View {
            at,
            invoked,
            returned,
            seen: Vec::new(),
        })
    }

    /// Reads a key under the snapshot; what it saw of the key before it must see again.
    fn look(&mut self, view: &mut View, key: usize) -> Done {
        let options = options_at(Some(&view.at));
        let found = self.keys.cf(key).get_opt(&self.keys.names[key], &options);
        let found = found.map_err(|e| format!("get under a snapshot: {e}"))?;
        let now = decode(found.as_deref())?;
        match view.seen.iter().find(|(k, _)| *k == key) {
            None => view.seen.push((key, now)),
            Some((_, before)) if *before == now => {}
            Some((_, before)) => {
                return Err(format!(
                    "snapshot {} is not repeatable: key {key} held {before:x?}, now {now:x?}",
                    view.at.seqno()
                ));
            }
        }
        Ok(())
    }

    fn close_view(&mut self, mut view: View) -> Done {
        for key in 0..self.keys.len() {
            self.look(&mut view, key)?;
        }
        let seen = Action::Observe(view.seen);
        self.record("snapshot", view.invoked, view.returned, seen);
        Ok(())
    }

    /// Walks a family with an iterator, which shows the moment at which it was made.
    fn walk(&mut self) -> Done {
        let family = self.rng.index(self.keys.cfs.len());
        let last = &self.keys.names[self.keys.len()];
        let options = ReadOptions::new().lower(&self.keys.prefix).upper(last);
        let invoked = self.tick();
        let mut cursor = self.keys.cfs[family].cursor(options);
        let returned = self.tick();
        // Others write meanwhile; so may this thread.
        if self.rng.one_in(4) {
            self.put()?;
        }
        let backward = self.rng.one_in(3);
        let mut seen: Vec<(usize, Option<u64>)> = (0..self.keys.len())
            .filter(|k| k % self.keys.cfs.len() == family)
            .map(|k| (k, None))
            .collect();
        let mut there = match backward {
            true => cursor.seek_to_last(),
            false => cursor.seek_to_first(),
        }
        .map_err(|e| format!("iterator: {e}"))?;
        let mut previous: Option<usize> = None;
        while there {
            let key = self.keys.index_of(cursor.key());
            let Some(place) = seen.iter_mut().find(|(k, _)| Some(*k) == key) else {
                let name = cursor.key().escape_ascii();
                return Err(format!("the iterator shows a key nobody wrote: {name}"));
            };
            if previous.is_some_and(|p| (p < place.0) == backward) || previous == key {
                return Err(format!("the iterator comes to key {} out of turn", place.0));
            }
            previous = key;
            place.1 = decode(Some(cursor.value()))?;
            let moved = match backward {
                true => cursor.prev(),
                false => cursor.next(),
            };
            there = moved.map_err(|e| format!("iterator: {e}"))?;
        }
        let verb = if backward {
            "iterator-back"
        } else {
            "iterator"
        };
        self.record(verb, invoked, returned, Action::Observe(seen));
        Ok(())
    }
}
