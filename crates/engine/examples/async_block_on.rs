//! Asynchronous requests without a runtime: twenty lines that drive a future, and calls that wait on the thread.

#![allow(clippy::disallowed_methods, reason = "a directory of a user")]

use spanlith::{Db, WriteOptions};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

/// Wakes the thread that drives the future.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Drives a future on this thread.
fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// Runs the example.
pub fn main() -> spanlith::Result<()> {
    let dir = std::env::temp_dir().join(format!("spanlith-block-on-{}", std::process::id()));
    let db = Db::open(&dir)?;
    let cf = db.default_cf().to_async();
    let durable = WriteOptions::new().sync(true);

    // Fifty durable writes are outstanding at once and share one sync, or few.
    let writes: Vec<_> = (0..50)
        .map(|n| cf.put_opt(format!("key{n:02}"), "value", &durable))
        .collect();
    for write in writes {
        write.wait()?;
    }

    // An async block of the program, driven by the function above.
    let found = block_on(async {
        cf.put("name", "Spanlith").await?;
        cf.delete("key00").await?;
        cf.get("name").await
    })?;
    println!(
        "name: {}",
        found.map_or_else(String::new, |v| v.escape_ascii().to_string())
    );

    db.close()?;
    std::fs::remove_dir_all(&dir).ok();
    Ok(())
}
