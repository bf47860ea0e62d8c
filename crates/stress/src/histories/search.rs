//! Decides whether a history is linearizable: whether its operations can be put into one order that
//! keeps those apart that did not overlap, and in which every observation is what a single thread
//! would have seen.
//!
//! The search is Wing and Gong's with Lowe's memory of states: take any operation that began before
//! the first of the rest returned, and go on; come back when nothing fits. Two facts keep it short. An
//! observation that agrees with the state can be taken at once, since taking it later in any order
//! that works could be moved here; so only writes are tried in several orders. And a set of taken
//! operations with a state that led nowhere before leads nowhere again.
//!
//! The keys are searched together, not one by one: batches and observations of several keys have one
//! moment for all.

use super::history::{Action, Event, History, State};
use std::collections::HashSet;

/// Outcome of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// There is an order.
    Linearizable,
    /// There is none; the text shows where the longest attempt ended.
    Broken(String),
    /// The search was given up.
    Undecided,
}

/// A choice between writes that is still open.
struct Choice {
    /// State before any of them.
    state: State,
    /// How many operations were taken before.
    taken: usize,
    /// Writes that may come next.
    candidates: Vec<usize>,
    /// Which is tried next.
    next: usize,
}

struct Search<'h> {
    /// By tick of invocation.
    events: Vec<&'h Event>,
    /// One bit per event: taken.
    done: Vec<u64>,
    /// Taken events in order, so that a choice can be undone.
    order: Vec<usize>,
    state: State,
    /// Sets of taken events with their state, at which a choice was made before.
    seen: HashSet<(Box<[u64]>, State)>,
}

impl<'h> Search<'h> {
    fn new(history: &'h History) -> Self {
        let mut events: Vec<&Event> = history.events.iter().collect();
        events.sort_by_key(|e| e.invoked);
        Self {
            done: vec![0; events.len().div_ceil(64)],
            order: Vec::with_capacity(events.len()),
            state: vec![None; history.keys],
            seen: HashSet::new(),
            events,
        }
    }

    fn is_done(&self, event: usize) -> bool {
        self.done[event / 64] >> (event % 64) & 1 == 1
    }

    fn take(&mut self, event: usize) {
        self.done[event / 64] |= 1 << (event % 64);
        self.order.push(event);
        if let Action::Write(effects) = &self.events[event].action {
            for &(key, effect) in effects {
                self.state[key] = effect.apply(self.state[key]);
            }
        }
    }

    /// Goes back to a choice.
    fn undo(&mut self, taken: usize, state: &State) {
        for event in self.order.drain(taken..) {
            self.done[event / 64] &= !(1 << (event % 64));
        }
        self.state.clone_from(state);
    }

    /// Operations that may come next: those that began before any of the rest returned.
    fn candidates(&self) -> Vec<usize> {
        let mut first_return = u64::MAX;
        let mut found = Vec::new();
        for (n, word) in self.done.iter().enumerate() {
            if *word == u64::MAX {
                continue;
            }
            for event in n * 64..self.events.len().min(n * 64 + 64) {
                if self.is_done(event) {
                    continue;
                }
                // Later ones began later still.
                if self.events[event].invoked > first_return {
                    return found;
                }
                first_return = first_return.min(self.events[event].returned);
                found.push(event);
            }
        }
        found
    }

    /// Takes observations that agree until none does, and returns the writes that may come next.
    fn settle(&mut self) -> Vec<usize> {
        loop {
            let mut candidates = self.candidates();
            let before = self.order.len();
            candidates.retain(|&event| match &self.events[event].action {
                Action::Write(_) => true,
                seen @ Action::Observe(_) => {
                    if seen.agrees(&self.state) {
                        self.done[event / 64] |= 1 << (event % 64);
                        self.order.push(event);
                    }
                    false
                }
            });
            if self.order.len() == before {
                return candidates;
            }
        }
    }

    fn report(&self, longest: usize, order: &[usize], state: &State) -> String {
        let mut text = format!(
            "no order of {} operations works; the longest attempt takes {longest}\n",
            self.events.len()
        );
        let taken: HashSet<usize> = order.iter().copied().collect();
        text += "last taken:\n";
        for &event in &order[order.len().saturating_sub(8)..] {
            text += &format!("  {}\n", self.events[event]);
        }
        text += "state:";
        for (key, value) in state.iter().enumerate() {
            text += &match value {
                Some(n) => format!(" k{key}:{n:x}"),
                None => format!(" k{key}:none"),
            };
        }
        text += "\nnone of these fits:\n";
        let left = (0..self.events.len()).filter(|event| !taken.contains(event));
        for event in left.take(12) {
            text += &format!("  {}\n", self.events[event]);
        }
        text
    }
}

/// Searches for an order, giving up after `steps_max` choices.
pub fn check(history: &History, steps_max: u64) -> Verdict {
    let mut search = Search::new(history);
    let mut choices: Vec<Choice> = Vec::new();
    let mut longest: (usize, Vec<usize>, State) = (0, Vec::new(), search.state.clone());
    for _ in 0..steps_max {
        let candidates = search.settle();
        let taken = search.order.len();
        if taken == search.events.len() {
            return Verdict::Linearizable;
        }
        if taken >= longest.0 {
            longest = (taken, search.order.clone(), search.state.clone());
        }
        // With one candidate there is nothing to come back to.
        let is_new = candidates.len() < 2 || {
            let key = (search.done.clone().into_boxed_slice(), search.state.clone());
            search.seen.insert(key)
        };
        if is_new && !candidates.is_empty() {
            choices.push(Choice {
                state: search.state.clone(),
                taken,
                candidates,
                next: 0,
            });
        }
        let event = loop {
            let Some(choice) = choices.last_mut() else {
                return Verdict::Broken(search.report(longest.0, &longest.1, &longest.2));
            };
            if let Some(&event) = choice.candidates.get(choice.next) {
                choice.next += 1;
                let (taken, state) = (choice.taken, choice.state.clone());
                search.undo(taken, &state);
                break event;
            }
            choices.pop();
        };
        search.take(event);
    }
    Verdict::Undecided
}
