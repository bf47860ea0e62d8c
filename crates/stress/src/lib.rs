//! Programs that attack the engine: what it promises is checked against a reference.
//!
//! | programme | what it finds |
//! |---|---|
//! | [`model`] | wrong answers, over any sequence of operations, reopenings and crashes |
//! | [`crash`] | what is lost, invented or unopenable after a power loss at any change |
#![forbid(unsafe_code)]

pub mod crash;
pub mod model;
