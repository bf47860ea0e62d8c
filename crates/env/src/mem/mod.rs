//! An in-memory file system that knows what a power loss may do to it.
//!
//! * [`content`]: the bytes of one file, and which of them are durable;
//! * [`tree`]: directories, and which of their changes are durable;
//! * [`crash`]: the states a power loss may leave;
//! * [`device`], [`media`]: files of a fixed size that are written in place;
//! * [`fs`]: the file-system interface over them.

mod content;
mod crash;
mod device;
mod fs;
mod media;
mod tree;

pub use fs::{FsOp, MemFs, Observer};
pub use media::{Media, PowerLoss};

#[cfg(test)]
mod tests;
