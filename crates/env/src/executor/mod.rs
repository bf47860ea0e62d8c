//! Executors: real threads, and a queue that runs when a test says so.

mod manual;
mod threads;
mod timers;

pub use manual::ManualExecutor;
pub use threads::ThreadExecutor;

#[cfg(test)]
mod tests;
