//! The database handle: opening, verbs, properties, closing.

mod builder;
mod close;
mod cursor;
mod handle;
mod properties;

pub use builder::OpenBuilder;
pub use cursor::{Cursor, Iter};
pub use handle::{Cf, Db};
