//! The futures, and how a thread waits for one without a runtime.
//!
//! A future is one word or two and owns no bytes of the request. It may be polled by any executor, or waited for by a
//! thread. Dropping it does not take an accepted write back; a write that still waits for room is
//! withdrawn, and a read that has not begun is left out.

use super::carry::Requests;
use super::cell::{GroupCell, JobCell};
use super::plan::Kind;
use super::queue::{Fate, Issued, Slot};
use spanlith_base::Result;
use spanlith_base::sync::{Condvar, Mutex};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

/// The result of an asynchronous write.
///
/// The write is on its way when this future exists, unless it already knows an error. It is `Ok` under the same
/// conditions as the synchronous call: with `sync` the write survives a power cut, and reads see it. Dropping the future
/// leaves an accepted write as it is: it will be written, and nobody learns of its outcome. A write that
/// waits for room ([`WriteFuture::is_accepted`]) is withdrawn by a drop, and nothing of it is written.
#[must_use = "the outcome of the write is in the future"]
pub struct WriteFuture(State);

enum State {
    /// `None` once it was yielded.
    Known(Option<Result<()>>),
    Member(Arc<GroupCell>, u32),
    Waiting(Arc<Slot>),
    Job(ReadFuture<()>),
}

/// The result of an asynchronous read, scan or flush.
///
/// Dropping it before it is ready leaves the read out if it has not begun; one that has begun ends, and its result is
/// dropped. A flush that has begun goes on.
#[must_use = "the result is in the future"]
pub struct ReadFuture<T>(ReadState<T>);

enum ReadState<T> {
    /// `None` once it was yielded.
    Known(Option<Result<T>>),
    Job(Arc<JobCell<Result<T>>>, Kind),
    Over,
}

/// Nothing in a future is pinned.
impl<T> Unpin for ReadFuture<T> {}

impl fmt::Debug for WriteFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.0 {
            State::Known(_) => "WriteFuture(known)",
            State::Member(..) => "WriteFuture(accepted)",
            State::Waiting(_) => "WriteFuture(waiting for room)",
            State::Job(_) => "WriteFuture(job)",
        })
    }
}

impl<T> fmt::Debug for ReadFuture<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.0 {
            ReadState::Known(_) => "ReadFuture(known)",
            ReadState::Job(..) => "ReadFuture(queued)",
            ReadState::Over => "ReadFuture(over)",
        })
    }
}

impl WriteFuture {
    pub(crate) fn known(result: Result<()>) -> Self {
        Self(State::Known(Some(result)))
    }

    pub(super) fn issued(issued: Result<Issued>) -> Self {
        Self(match issued {
            Ok(Issued::Accepted(cell, member)) => State::Member(cell, member),
            Ok(Issued::Waiting(slot)) => State::Waiting(slot),
            Err(e) => State::Known(Some(Err(e))),
        })
    }

    pub(crate) fn job(job: ReadFuture<()>) -> Self {
        Self(State::Job(job))
    }

    /// Returns whether the write has its place in the order of writes. False while it waits for room, and if it was refused.
    pub fn is_accepted(&mut self) -> bool {
        self.look();
        match &self.0 {
            State::Member(..) | State::Job(_) => true,
            State::Waiting(_) => false,
            State::Known(known) => !matches!(known, Some(Err(_))),
        }
    }

    /// A slot whose fate is known gives way to what it is now.
    fn look(&mut self) {
        if let State::Waiting(slot) = &self.0 {
            match slot.fate(None) {
                Fate::Waiting => {}
                Fate::Accepted(cell, member) => self.0 = State::Member(cell, member),
                Fate::Failed(e) => self.0 = State::Known(Some(Err(e))),
            }
        }
    }

    /// Returns whether the result is there. Unlike a poll, the question has no thread look after the write.
    pub fn is_ready(&self) -> bool {
        match &self.0 {
            State::Known(_) => true,
            State::Member(cell, member) => cell.result(*member).is_some(),
            State::Waiting(slot) => match slot.fate(None) {
                Fate::Waiting => false,
                Fate::Accepted(cell, member) => cell.result(member).is_some(),
                Fate::Failed(_) => true,
            },
            State::Job(job) => job.is_ready(),
        }
    }

    /// The result, if it is there, without waiting. It is yielded once.
    ///
    /// # Errors
    /// Those of the write.
    ///
    /// # Panics
    /// If it was yielded before.
    pub fn try_result(&mut self) -> Option<Result<()>> {
        let result = self.result(&|| None);
        if result.is_none() {
            self.attend();
        }
        result
    }

    /// Waits on this thread, which may carry out what is queued. Not to be called where blocking is forbidden.
    ///
    /// # Errors
    /// Those of the write; `Busy` if there was no room and its handle does not wait; `ShutdownInProgress` if the
    /// database was closed before it was accepted.
    pub fn wait(mut self) -> Result<()> {
        wait(&mut self)
    }
}

impl<T: Send + 'static> ReadFuture<T> {
    pub(super) fn known(result: Result<T>) -> Self {
        Self(ReadState::Known(Some(result)))
    }

    pub(super) fn queued(cell: Arc<JobCell<Result<T>>>, kind: Kind) -> Self {
        Self(ReadState::Job(cell, kind))
    }

    /// Returns whether the result is there. Unlike a poll, the question has no thread look after the read.
    pub fn is_ready(&self) -> bool {
        match &self.0 {
            ReadState::Known(_) => true,
            ReadState::Job(cell, _) => cell.is_done(),
            ReadState::Over => false,
        }
    }

    /// The result, if it is there, without waiting. It is yielded once.
    ///
    /// # Errors
    /// Those of the read.
    ///
    /// # Panics
    /// If it was yielded before.
    pub fn try_result(&mut self) -> Option<Result<T>> {
        let result = self.result(&|| None);
        if result.is_none() {
            self.attend();
        }
        result
    }

    /// Waits on this thread, which may carry out what is queued. Not to be called where blocking is forbidden.
    ///
    /// # Errors
    /// Those of the read; `Busy` if there was no room and its handle does not wait; `ShutdownInProgress` if the
    /// database was closed before it was queued.
    pub fn wait(mut self) -> Result<T> {
        wait(&mut self)
    }
}

/// Describes what both futures can do for those that poll or wait.
trait Awaited {
    type Output;
    /// The result; without one, `waker` is asked for whom to wake, if anybody.
    fn result(&mut self, waker: &dyn Fn() -> Option<Waker>) -> Option<Self::Output>;
    /// Returns what carries it out, and the requests it belongs to.
    fn carrier(&self) -> Option<(Arc<Requests>, Kind)>;
    /// Sees to it that some thread carries it out.
    fn attend(&self) {
        if let Some((requests, _)) = self.carrier() {
            requests.attend();
        }
    }
}

impl Awaited for WriteFuture {
    type Output = Result<()>;

    fn result(&mut self, waker: &dyn Fn() -> Option<Waker>) -> Option<Result<()>> {
        loop {
            let known = match &mut self.0 {
                State::Known(known) => return Some(known.take().unwrap_or_else(|| yielded())),
                State::Job(job) => job.result(waker),
                State::Member(cell, member) => cell.result(*member).or_else(|| {
                    let waker = waker()?;
                    match cell.register(*member, waker) {
                        true => None,
                        false => cell.result(*member),
                    }
                }),
                State::Waiting(slot) => {
                    match slot.fate(waker()) {
                        Fate::Waiting => return None,
                        Fate::Accepted(cell, member) => self.0 = State::Member(cell, member),
                        Fate::Failed(e) => self.0 = State::Known(Some(Err(e))),
                    }
                    continue;
                }
            };
            if known.is_some() {
                self.0 = State::Known(None);
            }
            return known;
        }
    }

    fn carrier(&self) -> Option<(Arc<Requests>, Kind)> {
        match &self.0 {
            State::Member(cell, _) => Some((cell.requests.upgrade()?, Kind::Write)),
            State::Waiting(slot) => Some((slot.requests.upgrade()?, Kind::Write)),
            State::Job(job) => job.carrier(),
            State::Known(_) => None,
        }
    }
}

impl<T> Awaited for ReadFuture<T> {
    type Output = Result<T>;

    fn result(&mut self, waker: &dyn Fn() -> Option<Waker>) -> Option<Result<T>> {
        let result = match &mut self.0 {
            ReadState::Known(known) => return Some(known.take().unwrap_or_else(|| yielded())),
            ReadState::Job(cell, _) => cell.take(waker()),
            ReadState::Over => yielded(),
        };
        if result.is_some() {
            self.0 = ReadState::Over;
        }
        result
    }

    fn carrier(&self) -> Option<(Arc<Requests>, Kind)> {
        match &self.0 {
            ReadState::Job(cell, kind) => Some((cell.requests.upgrade()?, *kind)),
            _ => None,
        }
    }
}

#[cold]
fn yielded() -> ! {
    panic!("a future was asked again after it had yielded its result")
}

fn poll<F: Awaited>(future: &mut F, cx: &Context<'_>) -> Poll<F::Output> {
    match future.result(&|| Some(cx.waker().clone())) {
        Some(result) => Poll::Ready(result),
        None => {
            future.attend();
            Poll::Pending
        }
    }
}

impl Future for WriteFuture {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        poll(&mut *self, cx)
    }
}

impl<T> Future for ReadFuture<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        poll(&mut *self, cx)
    }
}

/// Where a thread sleeps until it is woken.
struct Parker {
    is_woken: Mutex<bool>,
    woken: Condvar,
}

/// Nothing is called under it.
const PARKER_RANK: u8 = 95;

impl Wake for Parker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        *self.is_woken.lock() = true;
        self.woken.notify_one();
    }
}

/// Waits for a future on the calling thread.
fn wait<F: Awaited>(future: &mut F) -> F::Output {
    let mut parker: Option<(Arc<Parker>, Waker)> = None;
    loop {
        if let Some(result) = future.result(&|| None) {
            return result;
        }
        if let Some((requests, kind)) = future.carrier()
            && requests.carry_one(kind)
        {
            continue;
        }
        let (parker, waker) = parker.get_or_insert_with(|| {
            let parker = Arc::new(Parker {
                is_woken: Mutex::new(PARKER_RANK, false),
                woken: Condvar::new(),
            });
            (parker.clone(), Waker::from(parker))
        });
        if let Some(result) = future.result(&|| Some(waker.clone())) {
            return result;
        }
        future.attend();
        let mut is_woken = parker.is_woken.lock();
        while !*is_woken {
            is_woken = parker.woken.wait(is_woken);
        }
        *is_woken = false;
    }
}

impl Drop for WriteFuture {
    fn drop(&mut self) {
        let member = match &self.0 {
            State::Waiting(slot) if slot.requests.upgrade().is_none_or(|r| r.is_here()) => {
                slot.withdraw()
            }
            State::Member(cell, member) => Some((cell.clone(), *member)),
            _ => None,
        };
        if let Some((cell, member)) = member
            && cell.result(member).is_none()
            && let Some(requests) = cell.requests.upgrade()
            && requests.is_here()
        {
            cell.forget(member);
            // Nobody may be left to look.
            requests.attend();
        }
    }
}

impl<T> Drop for ReadFuture<T> {
    fn drop(&mut self) {
        if let ReadState::Job(cell, _) = &self.0
            && let Some(requests) = cell.requests.upgrade()
            && requests.is_here()
        {
            cell.abandon();
            // The thread that comes to it takes it out of the queue.
            requests.attend();
        }
    }
}
