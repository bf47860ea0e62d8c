//! Huge pages tried before anybody needs them.
//!
//! A huge page takes 0.1 to 0.3 ms, and one that the host of a virtual machine never backed 5 ms: a writer
//! would wait that long. Whether they come fast is found out by a thread of its own ([`super::huge`]), while takers
//! get regions whose pages come in small steps. It starts with the first region that is wanted and goes when
//! nothing was wanted for [`IDLE_AFTER`].
//!
//! One for the process, like the regions. A child made by `fork` starts its own.

use super::region::Region;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long the thread waits for the next wish.
const IDLE_AFTER: Duration = Duration::from_secs(10);

pub(super) struct State {
    /// A huge page is to be tried.
    is_wanted: bool,
    /// The thread is there.
    runs: bool,
}

/// A leaf.
static STATE: Mutex<State> = Mutex::new(State {
    is_wanted: false,
    runs: false,
});
static WISH: Condvar = Condvar::new();

/// The lock, while the process forks.
pub(super) type Locked = MutexGuard<'static, State>;

pub(super) fn lock() -> Locked {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// In a child: there is no thread yet.
pub(super) fn forget_thread(state: &mut Locked) {
    **state = State {
        is_wanted: false,
        runs: false,
    };
}

/// Somebody takes regions and does not know whether huge pages come fast.
#[cold]
pub(super) fn want() {
    let mut state = STATE.lock().unwrap_or_else(PoisonError::into_inner);
    if state.is_wanted {
        return;
    }
    state.is_wanted = true;
    let starts = !state.runs;
    state.runs = true;
    drop(state);
    if !starts {
        WISH.notify_one();
    } else if std::thread::Builder::new()
        .name("spanlith-pages".to_owned())
        .stack_size(64 << 10)
        .spawn(work)
        .is_err()
    {
        // Takers get regions without pages, and the next one tries again to have one.
        let mut state = STATE.lock().unwrap_or_else(PoisonError::into_inner);
        *state = State {
            is_wanted: false,
            runs: false,
        };
    }
}

fn work() {
    let mut state = STATE.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        if state.is_wanted {
            // Before the work: who takes what was made wants the next.
            state.is_wanted = false;
            drop(state);
            Region::make_ready();
            state = STATE.lock().unwrap_or_else(PoisonError::into_inner);
            continue;
        }
        let (waited, timeout) = WISH
            .wait_timeout(state, IDLE_AFTER)
            .unwrap_or_else(PoisonError::into_inner);
        state = waited;
        if timeout.timed_out() && !state.is_wanted {
            state.runs = false;
            return;
        }
    }
}
