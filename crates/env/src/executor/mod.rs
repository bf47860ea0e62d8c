//! Executors: real threads, and a queue that runs when a test says so.

mod manual;
mod threads;
mod timers;

pub use manual::ManualExecutor;
pub use threads::ThreadExecutor;

/// Starts a thread that is no job: it lasts as long as what it works for.
///
/// # Errors
/// Of the system.
pub fn start_thread(
    name: &str,
    work: impl FnOnce() + Send + 'static,
) -> std::io::Result<std::thread::JoinHandle<()>> {
    let builder = std::thread::Builder::new();
    builder.name(name.to_string()).spawn(work)
}

#[cfg(test)]
mod tests;
