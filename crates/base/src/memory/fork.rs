//! `fork` while other threads take or give memory: the child gets the locks of this module free.
//!
//! A child has the memory of its parent as it was at that moment, and only the thread that forked. A lock that another
//! thread held would be held in it for ever. So whoever forks takes them all first, as the C library does with those of
//! `malloc`, and lets go of them on both sides. They are leaves: nobody waits for long, and nobody who forks has one.
#![expect(unsafe_code, reason = "registers handlers with the C library")]

use super::{ahead, region, slab};
use std::cell::RefCell;
use std::sync::Once;

/// Describes what the thread that forks holds meanwhile.
struct Held {
    _slab: slab::Locked,
    _region: region::Locked,
    ahead: ahead::Locked,
}

thread_local! {
    static HELD: RefCell<Option<Held>> = const { RefCell::new(None) };
}

/// Has every later `fork` do so. Called before memory is mapped for the first time.
#[cold]
pub(super) fn prepare() {
    static ASKED: Once = Once::new();
    ASKED.call_once(|| {
        // SAFETY: The handlers are functions of this library, which forgets them when it is unloaded. That there is
        // no memory for them is an error nobody can act on.
        let _ = unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
    });
}

extern "C" fn before() {
    // In the order in which they are taken elsewhere: a slab maps regions under its lock.
    let slab = slab::lock_all();
    let region = region::lock();
    let ahead = ahead::lock();
    let held = Held {
        _slab: slab,
        _region: region,
        ahead,
    };
    // A thread that is being torn down does not fork.
    let _ = HELD.try_with(|slot| slot.replace(Some(held)));
}

extern "C" fn in_parent() {
    let _ = HELD.try_with(|slot| drop(slot.take()));
}

extern "C" fn in_child() {
    let _ = HELD.try_with(|slot| {
        if let Some(mut held) = slot.take() {
            ahead::forget_thread(&mut held.ahead);
        }
    });
}
