//! A panic while a group of writes is carried out, in a user's comparator for instance.
//!
//! Writers wait on their own stacks for the leader, and the queue points to them. So the thread that unwinds
//! brings the group to its end first: all of its writers get an error, and the database refuses writes
//! (W5), because nobody knows how far the group got. On the ordinary way these guards cost nothing.

use super::Stages;
use super::pipeline::{GroupOf, Writer, own};
use spanlith_base::sync::atomic::Ordering;
use spanlith_base::sync::thread;

/// The leader before it has formed its group. Forgotten once it has made room.
pub(super) struct Unled<'a, S: Stages> {
    pub stages: &'a S,
    pub waiter: &'a Writer<S>,
}

impl<S: Stages> Drop for Unled<'_, S> {
    #[cold]
    fn drop(&mut self) {
        let e = self.stages.panicked();
        let queue = &self.stages.pipeline().queue;
        let mut group = queue.form(self.waiter, |_, _| false);
        group.for_each(|r| r.error = Some(e.clone()));
        queue.finish(&group);
    }
}

/// A group on its way. Dropping it lets its writers go.
pub(super) struct Carried<'a, S: Stages> {
    pub stages: &'a S,
    pub group: GroupOf<S>,
    /// All stages are over, and each request says how it went.
    pub is_done: bool,
}

impl<S: Stages> Drop for Carried<'_, S> {
    #[inline]
    fn drop(&mut self) {
        if !self.is_done {
            self.abandon();
        }
        self.stages.pipeline().queue.finish(&self.group);
    }
}

impl<S: Stages> Carried<'_, S> {
    #[cold]
    fn abandon(&mut self) {
        // Followers insert their own batches as long as they have not reported back. Acquire: pairs
        // with the Release of the report.
        while self.stages.pipeline().apply_left.load(Ordering::Acquire) != 0 {
            thread::yield_now();
        }
        let e = self.stages.panicked();
        self.group.for_each(|r| r.error = Some(e.clone()));
    }
}

/// A follower that inserts its own batch. Dropping it reports back to the leader.
pub(super) struct Following<'a, S: Stages> {
    pub stages: &'a S,
    pub waiter: &'a Writer<S>,
    /// The request says how it went.
    pub is_done: bool,
}

impl<S: Stages> Drop for Following<'_, S> {
    fn drop(&mut self) {
        if !self.is_done {
            // The leader makes it everybody's.
            own(self.waiter).error = Some(self.stages.panicked());
        }
        let pipeline = self.stages.pipeline();
        pipeline.apply_left.fetch_sub(1, Ordering::Release);
        pipeline.queue.applied(self.waiter);
    }
}
