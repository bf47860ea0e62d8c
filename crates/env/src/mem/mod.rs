//! An in-memory file system that knows what a power loss may do to it.
//!
//! * [`content`]: the bytes of one file, and which of them are durable;
//! * [`tree`]: directories, and which of their changes are durable;
//! * [`crash`]: the states a power loss may leave;
//! * [`fs`]: the file-system interface over them.

mod content;
mod crash;
mod fs;
mod tree;

pub use fs::{FsOp, MemFs, Observer};

#[cfg(test)]
mod tests;
