//! A concurrent history: what each operation did or saw, and between which two ticks of one clock.
//!
//! A state gives each key a number or none. Writes change several keys at one moment; observations
//! say what several keys held at one moment: a get, a multi-get, all reads under one snapshot, or one
//! walk of an iterator, each with the interval in which that moment must lie.

use std::fmt;

/// Describes what each key holds.
pub type State = Vec<Option<u64>>;

/// Describes what a write does to one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The key holds the number.
    Put(u64),
    /// The key holds nothing.
    Delete,
    /// The number is added, to 0 if the key holds nothing, modulo 2^64.
    Add(u64),
}

impl Effect {
    /// Returns what a key that holds `before` holds afterwards.
    pub fn apply(self, before: Option<u64>) -> Option<u64> {
        match self {
            Self::Put(n) => Some(n),
            Self::Delete => None,
            Self::Add(n) => Some(before.unwrap_or(0).wrapping_add(n)),
        }
    }
}

/// Describes what happened at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// These effects, in this order and with nothing between them.
    Write(Vec<(usize, Effect)>),
    /// These keys held these values.
    Observe(Vec<(usize, Option<u64>)>),
}

impl Action {
    /// Returns whether an observation agrees with `state`. True for writes.
    pub fn agrees(&self, state: &[Option<u64>]) -> bool {
        match self {
            Self::Write(_) => true,
            Self::Observe(seen) => seen.iter().all(|&(key, value)| state[key] == value),
        }
    }
}

/// An operation and the interval in which its moment lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Says who did it, for messages only: a thread may have several under way, such as an open snapshot.
    pub thread: usize,
    /// Says what it was called through, for messages.
    pub verb: &'static str,
    /// Tick before it began. Ticks are unique in a history.
    pub invoked: u64,
    /// Tick after it returned.
    pub returned: u64,
    /// Says what it did or saw.
    pub action: Action,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "[{:4}..{:4}] thread {} {}",
            self.invoked, self.returned, self.thread, self.verb
        )?;
        match &self.action {
            Action::Write(effects) => {
                for (key, effect) in effects {
                    match effect {
                        Effect::Put(n) => write!(f, " k{key}={n:x}")?,
                        Effect::Delete => write!(f, " k{key}=none")?,
                        Effect::Add(n) => write!(f, " k{key}+={n:x}")?,
                    }
                }
            }
            Action::Observe(seen) => {
                f.write_str(" saw")?;
                for (key, value) in seen {
                    match value {
                        Some(n) => write!(f, " k{key}:{n:x}")?,
                        None => write!(f, " k{key}:none")?,
                    }
                }
            }
        }
        Ok(())
    }
}

/// Operations on keys that hold nothing at first.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// Number of keys; events name them from 0.
    pub keys: usize,
    /// In any order.
    pub events: Vec<Event>,
}
