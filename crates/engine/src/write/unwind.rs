//! A panic while a group of writes is carried out, in a user's comparator for instance.
//!
//! Writers wait on their own stacks for the leader, and the queue points to them. So whoever unwinds
//! brings the group to its end first: all of its writers get an error, and the database refuses writes
//! (W5), because nobody knows how far the group got. On the ordinary way these guards cost nothing.

use super::pipeline::own;
use crate::core::{Engine, Request};
use spanlith_base::sync::{Group, Waiter};
use std::sync::atomic::Ordering;

/// The leader before it has formed its group. Forgotten once it has made room.
pub(super) struct Unled<'a> {
    pub engine: &'a Engine,
    pub waiter: &'a Waiter<Request<'static>>,
}

impl Drop for Unled<'_> {
    #[cold]
    fn drop(&mut self) {
        let e = self.engine.write_panicked();
        let mut group = self.engine.queue.form(self.waiter, |_, _| false);
        group.for_each(|r| r.error = Some(e.clone()));
        self.engine.queue.finish(&group);
    }
}

/// A group on its way. Dropping it lets its writers go.
pub(super) struct Carried<'a> {
    pub engine: &'a Engine,
    pub group: Group<Request<'static>>,
    /// All stages are over, and each request says how it went.
    pub is_done: bool,
}

impl Drop for Carried<'_> {
    #[inline]
    fn drop(&mut self) {
        if !self.is_done {
            self.give_up();
        }
        self.engine.queue.finish(&self.group);
    }
}

impl Carried<'_> {
    #[cold]
    fn give_up(&mut self) {
        // Followers insert their own batches as long as they have not reported back. Acquire: pairs
        // with the Release of the report.
        while self.engine.apply_left.load(Ordering::Acquire) != 0 {
            std::thread::yield_now();
        }
        let e = self.engine.write_panicked();
        self.group.for_each(|r| r.error = Some(e.clone()));
    }
}

/// A follower that inserts its own batch. Dropping it reports back to the leader.
pub(super) struct Following<'a> {
    pub engine: &'a Engine,
    pub waiter: &'a Waiter<Request<'static>>,
    /// The request says how it went.
    pub is_done: bool,
}

impl Drop for Following<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            // The leader makes it everybody's.
            own(self.waiter).error = Some(self.engine.write_panicked());
        }
        self.engine.apply_left.fetch_sub(1, Ordering::Release);
        self.engine.queue.applied(self.waiter);
    }
}
