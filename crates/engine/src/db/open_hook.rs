//! The hook by which a test-suite adds options to every open for writing of its process.
//!
//! The suite of the engine runs with a speed disk, too: each of its databases then gets one of its own, without a word in
//! the tests (`tests/it/suite_disk.rs`). Nobody else sets the hook.

use spanlith_env::Env;
use std::path::Path;
use std::sync::OnceLock;

/// Returns options that RocksDB does not have for a database in a directory, as [`OpenBuilder::set`](super::OpenBuilder::set)
/// takes them.
pub type OpenHook = fn(&Path, &Env) -> Option<String>;

static HOOK: OnceLock<OpenHook> = OnceLock::new();

/// Asks `hook` at every later open for writing of a database that has no speed disk and names none. The first hook stays.
#[doc(hidden)]
pub fn set_open_hook(hook: OpenHook) {
    // A later one is told nothing: this is for one caller in a process.
    let _ = HOOK.set(hook);
}

/// Asks the hook, if there is one.
pub(super) fn asked(dir: &Path, env: &Env) -> Option<String> {
    HOOK.get().and_then(|hook| hook(dir, env))
}

/// Returns whether there is a hook.
pub(super) fn is_set() -> bool {
    HOOK.get().is_some()
}
