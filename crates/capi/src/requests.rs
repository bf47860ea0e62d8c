//! Asynchronous requests for C programs: `include/spanlith.h`.
//!
//! `spanlith_async_t` issues requests of a family, and each answers with a token. A token is checked, waited for, or told about by
//! a callback; its result is taken once, and it is destroyed like any handle. Requests own their bytes: the
//! caller's may go as soon as the call returns.
//!
//! An issue that finds no room is refused with `Resource busy: …` and returns no token; nothing is outstanding then, and the program
//! issues it again later. A handle of the other kind (`spanlith_async_set_waits`) lets requests wait for
//! room instead.
//!
//! A token is used by one thread at a time. Threads that complete requests touch no token: they call the callback.

use crate::batch::rocksdb_writebatch_t;
use crate::db::rocksdb_t;
use crate::family::rocksdb_column_family_handle_t;
use crate::ffi::{boxed, bytes, lend, report, set_error, unbox};
use crate::get::copied;
use crate::read_options::rocksdb_readoptions_t;
use crate::transaction::rocksdb_transaction_t;
use crate::write_options::rocksdb_writeoptions_t;
use libc::{c_char, c_void};
use spanlith::{AsyncCf, Page, Pinned, ReadFuture, TxnOptions, WriteFuture};
use spanlith_base::{Error, ErrorKind, Result};
use std::future::Future;
use std::pin::Pin;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};

/// Issues requests of a family.
pub struct spanlith_async_t(AsyncCf);

/// A request and its result.
pub struct spanlith_token_t(State);

enum State {
    Write(WriteFuture),
    Get(ReadFuture<Option<Pinned>>),
    Scan(ReadFuture<Page>),
    Flush(ReadFuture<()>),
    Done(Result<Answer>),
}

enum Answer {
    Nothing,
    Value(Option<Pinned>),
    Page(Page),
}

/// Called once, when a request is done, by the thread that completed it or by the one that sets the callback.
pub type DoneCallback = Option<unsafe extern "C" fn(*mut c_void)>;

impl State {
    /// Returns whether the result is there. The question has no thread look after the request.
    fn is_ready(&self) -> bool {
        match self {
            Self::Write(f) => f.is_ready(),
            Self::Get(f) => f.is_ready(),
            Self::Scan(f) => f.is_ready(),
            Self::Flush(f) => f.is_ready(),
            Self::Done(_) => true,
        }
    }

    /// Takes the result if it is there.
    fn look(&mut self) -> bool {
        let result = match self {
            Self::Write(f) => f.try_result().map(|r| r.map(|()| Answer::Nothing)),
            Self::Flush(f) => f.try_result().map(|r| r.map(|()| Answer::Nothing)),
            Self::Get(f) => f.try_result().map(|r| r.map(Answer::Value)),
            Self::Scan(f) => f.try_result().map(|r| r.map(Answer::Page)),
            Self::Done(_) => return true,
        };
        match result {
            Some(result) => {
                *self = Self::Done(result);
                true
            }
            None => false,
        }
    }

    /// Waits for the result.
    fn wait(&mut self) -> &mut Result<Answer> {
        if !self.is_ready() || !self.look() {
            let placeholder = Self::Done(Ok(Answer::Nothing));
            let result = match std::mem::replace(self, placeholder) {
                Self::Write(f) => f.wait().map(|()| Answer::Nothing),
                Self::Flush(f) => f.wait().map(|()| Answer::Nothing),
                Self::Get(f) => f.wait().map(Answer::Value),
                Self::Scan(f) => f.wait().map(Answer::Page),
                Self::Done(result) => result,
            };
            *self = Self::Done(result);
        }
        match self {
            Self::Done(result) => result,
            _ => unreachable!("it was waited for"),
        }
    }

    /// Has `waker` woken when the result is there; true if it is.
    fn register(&mut self, waker: &Waker) -> bool {
        let mut cx = Context::from_waker(waker);
        let is_pending = match self {
            Self::Write(f) => match Pin::new(f).poll(&mut cx) {
                std::task::Poll::Ready(r) => {
                    *self = Self::Done(r.map(|()| Answer::Nothing));
                    false
                }
                std::task::Poll::Pending => true,
            },
            Self::Flush(f) => match Pin::new(f).poll(&mut cx) {
                std::task::Poll::Ready(r) => {
                    *self = Self::Done(r.map(|()| Answer::Nothing));
                    false
                }
                std::task::Poll::Pending => true,
            },
            Self::Get(f) => match Pin::new(f).poll(&mut cx) {
                std::task::Poll::Ready(r) => {
                    *self = Self::Done(r.map(Answer::Value));
                    false
                }
                std::task::Poll::Pending => true,
            },
            Self::Scan(f) => match Pin::new(f).poll(&mut cx) {
                std::task::Poll::Ready(r) => {
                    *self = Self::Done(r.map(Answer::Page));
                    false
                }
                std::task::Poll::Pending => true,
            },
            Self::Done(_) => false,
        };
        !is_pending
    }
}

/// A callback of a C program and its state.
struct Callback {
    call: unsafe extern "C" fn(*mut c_void),
    state: *mut c_void,
    was_called: AtomicBool,
}

// SAFETY: The C program says that its callback may be called with its state on any thread.
unsafe impl Send for Callback {}
// SAFETY: As above.
unsafe impl Sync for Callback {}

impl Callback {
    fn call(&self) {
        // AcqRel: whoever calls is alone.
        if !self.was_called.swap(true, Ordering::AcqRel) {
            // SAFETY: As promised where it was set.
            unsafe { (self.call)(self.state) };
        }
    }
}

impl Wake for Callback {
    fn wake(self: Arc<Self>) {
        self.call();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.call();
    }
}

/// A token of a request that was issued; NULL and an error for one that was refused for lack of room or at a closed database.
unsafe fn token(errptr: *mut *mut c_char, state: State) -> *mut spanlith_token_t {
    let mut state = state;
    if state.is_ready()
        && state.look()
        && let State::Done(Err(e)) = &state
        && matches!(e.kind(), ErrorKind::Busy | ErrorKind::ShutdownInProgress)
    {
        // SAFETY: The caller says that it is NULL or valid.
        unsafe { set_error(errptr, e) };
        return ptr::null_mut();
    }
    boxed(spanlith_token_t(state))
}

fn no_page() -> Error {
    Error::invalid_argument("the request is not a scan")
}

/// The page of a token, waited for; `None` if there is none.
fn page(token: &mut spanlith_token_t) -> Option<&Page> {
    match token.0.wait() {
        Ok(Answer::Page(page)) => Some(page),
        _ => None,
    }
}

c_api! {
    /// Issues asynchronous requests of a family; with NULL for it, of the default one. Requests are refused when there is no room.
    fn spanlith_async_create(
        db: *mut rocksdb_t,
        cf: *mut rocksdb_column_family_handle_t,
    ) -> *mut spanlith_async_t {
        let family = match cf.as_ref() {
            Some(cf) => cf.cf.to_async(),
            None => (*db).cf.to_async(),
        };
        boxed(spanlith_async_t(family.without_waiting()))
    }

    /// The same requests with another answer to lack of room: with 1 they wait for it, with 0 they are refused.
    fn spanlith_async_set_waits(requests: *mut spanlith_async_t, waits: u8) {
        let requests = &mut *requests;
        requests.0 = match waits {
            0 => requests.0.without_waiting(),
            _ => requests.0.cf().to_async(),
        };
    }

    /// Ends it; its requests go on, and their tokens stay good.
    fn spanlith_async_destroy(requests: *mut spanlith_async_t) {
        drop(unbox(requests));
    }

    /// Sets a key.
    fn spanlith_async_put(
        requests: *mut spanlith_async_t,
        options: *const rocksdb_writeoptions_t,
        key: *const c_char,
        keylen: usize,
        val: *const c_char,
        vallen: usize,
        errptr: *mut *mut c_char,
    ) -> *mut spanlith_token_t {
        report(errptr, ptr::null_mut(), || {
            let (key, value) = (bytes(key, keylen), bytes(val, vallen));
            let put = (*requests).0.put_opt(key, value, &(*options).options);
            Ok(token(errptr, State::Write(put)))
        })
    }

    /// Adds a merge operand.
    fn spanlith_async_merge(
        requests: *mut spanlith_async_t,
        options: *const rocksdb_writeoptions_t,
        key: *const c_char,
        keylen: usize,
        val: *const c_char,
        vallen: usize,
        errptr: *mut *mut c_char,
    ) -> *mut spanlith_token_t {
        report(errptr, ptr::null_mut(), || {
            let (key, operand) = (bytes(key, keylen), bytes(val, vallen));
            let merge = (*requests).0.merge_opt(key, operand, &(*options).options);
            Ok(token(errptr, State::Write(merge)))
        })
    }

    /// Removes a key.
    fn spanlith_async_delete(
        requests: *mut spanlith_async_t,
        options: *const rocksdb_writeoptions_t,
        key: *const c_char,
        keylen: usize,
        errptr: *mut *mut c_char,
    ) -> *mut spanlith_token_t {
        report(errptr, ptr::null_mut(), || {
            let delete = (*requests).0.delete_opt(bytes(key, keylen), &(*options).options);
            Ok(token(errptr, State::Write(delete)))
        })
    }

    /// Applies a batch, which is copied.
    fn spanlith_async_write(
        requests: *mut spanlith_async_t,
        options: *const rocksdb_writeoptions_t,
        batch: *const rocksdb_writebatch_t,
        errptr: *mut *mut c_char,
    ) -> *mut spanlith_token_t {
        report(errptr, ptr::null_mut(), || {
            let write = (*requests).0.write_raw(&(*batch).batch, &(*options).options);
            Ok(token(errptr, State::Write(write)))
        })
    }

    /// Asks for the value of a key.
    fn spanlith_async_get(
        requests: *mut spanlith_async_t,
        options: *const rocksdb_readoptions_t,
        key: *const c_char,
        keylen: usize,
        errptr: *mut *mut c_char,
    ) -> *mut spanlith_token_t {
        report(errptr, ptr::null_mut(), || {
            let get = (*requests).0.get_opt(bytes(key, keylen), &(*options).options);
            Ok(token(errptr, State::Get(get)))
        })
    }

    /// Asks for the entries between the options' bounds, which are copied, at most `entries_max` of them and about a megabyte.
    fn spanlith_async_scan(
        requests: *mut spanlith_async_t,
        options: *const rocksdb_readoptions_t,
        entries_max: usize,
        errptr: *mut *mut c_char,
    ) -> *mut spanlith_token_t {
        report(errptr, ptr::null_mut(), || {
            let scan = (*requests).0.scan(&(*options).for_scan(), entries_max);
            Ok(token(errptr, State::Scan(scan)))
        })
    }

    /// Writes the family's memtables out.
    fn spanlith_async_flush(
        requests: *mut spanlith_async_t,
        errptr: *mut *mut c_char,
    ) -> *mut spanlith_token_t {
        report(errptr, ptr::null_mut(), || {
            Ok(token(errptr, State::Flush((*requests).0.flush())))
        })
    }

    /// Commits a transaction. The handle has a new one afterwards, with default options, and may be destroyed at once.
    fn spanlith_transaction_commit_async(
        txn: *mut rocksdb_transaction_t,
        errptr: *mut *mut c_char,
    ) -> *mut spanlith_token_t {
        report(errptr, ptr::null_mut(), || {
            let txn = &*txn;
            let new = txn.cf.db().transaction(TxnOptions::pessimistic());
            txn.shared().forget();
            let old = std::mem::replace(txn.get_mut(), new);
            Ok(token(errptr, State::Write(old.commit_async())))
        })
    }

    /// 1 if the request is done, 0 while it is in progress.
    fn spanlith_token_check(token: *mut spanlith_token_t) -> u8 {
        u8::from((*token).0.look())
    }

    /// Waits until the request is done; the thread may carry out requests meanwhile.
    fn spanlith_token_wait(token: *mut spanlith_token_t) {
        (*token).0.wait();
    }

    /// Has `callback` called once with `state` when the request is done: by the thread that completes it, or at once. The token must
    /// not be destroyed before; a token that is takes the callback with it.
    fn spanlith_token_on_done(
        token: *mut spanlith_token_t,
        callback: DoneCallback,
        state: *mut c_void,
    ) {
        let Some(call) = callback else { return };
        let callback = Arc::new(Callback {
            call,
            state,
            was_called: AtomicBool::new(false),
        });
        if (*token).0.register(&Waker::from(callback.clone())) {
            callback.call();
        }
    }

    /// Waits for the request; the error tells how it went.
    fn spanlith_token_status(token: *mut spanlith_token_t, errptr: *mut *mut c_char) {
        report(errptr, (), || match (*token).0.wait() {
            Ok(_) => Ok(()),
            Err(e) => Err(e.clone()),
        });
    }

    /// Waits for a get and takes its value, from `malloc`; NULL and 0 if there is none, or if it was taken before.
    fn spanlith_token_take_value(
        token: *mut spanlith_token_t,
        vallen: *mut usize,
        errptr: *mut *mut c_char,
    ) -> *mut c_char {
        *vallen = 0;
        report(errptr, ptr::null_mut(), || match (*token).0.wait() {
            Ok(Answer::Value(value)) => Ok(copied(value.take(), vallen)),
            Ok(_) => Err(Error::invalid_argument("the request is not a get")),
            Err(e) => Err(e.clone()),
        })
    }

    /// Waits for a scan; the number of its entries.
    fn spanlith_token_page_len(token: *mut spanlith_token_t, errptr: *mut *mut c_char) -> usize {
        report(errptr, 0, || match (*token).0.wait() {
            Ok(Answer::Page(page)) => Ok(page.entries.len()),
            Ok(_) => Err(no_page()),
            Err(e) => Err(e.clone()),
        })
    }

    /// The key of an entry of a scan's page, as long as the token lives; NULL and 0 after the last one.
    fn spanlith_token_page_key(
        token: *mut spanlith_token_t,
        at: usize,
        keylen: *mut usize,
    ) -> *const c_char {
        *keylen = 0;
        match page(&mut *token).and_then(|page| page.entries.get(at)) {
            Some(entry) => lend(&entry.0, keylen),
            None => ptr::null(),
        }
    }

    /// Its value.
    fn spanlith_token_page_value(
        token: *mut spanlith_token_t,
        at: usize,
        vallen: *mut usize,
    ) -> *const c_char {
        *vallen = 0;
        match page(&mut *token).and_then(|page| page.entries.get(at)) {
            Some(entry) => lend(&entry.1, vallen),
            None => ptr::null(),
        }
    }

    /// The key at which the next page begins; NULL and 0 at the end of the range.
    fn spanlith_token_page_next(
        token: *mut spanlith_token_t,
        keylen: *mut usize,
    ) -> *const c_char {
        *keylen = 0;
        match page(&mut *token).and_then(|page| page.next.as_ref()) {
            Some(key) => lend(key, keylen),
            None => ptr::null(),
        }
    }

    /// Ends a token. A write that was accepted is written all the same; one that waits for room is withdrawn, and a read that
    /// has not begun is left out.
    fn spanlith_token_destroy(token: *mut spanlith_token_t) {
        drop(unbox(token));
    }
}
