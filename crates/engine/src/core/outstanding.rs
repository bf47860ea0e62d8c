//! The seam between an open database and its asynchronous requests.
//!
//! The requests live in the module `requests`, which uses writes and reads. The engine holds them only to end them when it
//! closes and to report on them; a database without asynchronous requests has none.

use super::Engine;
use std::any::Any;
use std::sync::Arc;

/// Asynchronous requests of a database.
pub(crate) trait Outstanding: Send + Sync {
    /// Accepts no request from now on, and carries out all that were accepted, on this thread as far as no other has
    /// begun. Requests that wait for room fail.
    fn finish(&self, engine: &Arc<Engine>);
    /// The text of the property `spanlith.async-requests`.
    fn report(&self) -> String;
    /// Itself, for the module that it belongs to.
    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}
