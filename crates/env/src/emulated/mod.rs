//! Devices that are emulated: as slow as real ones of several kinds, by a clock that may be virtual.
//!
//! | module | |
//! |---|---|
//! | `profile`, `spec` | which devices there are, and how they are named |
//! | `model` | when a request is done |
//! | `host`, `pages` | files on a device, and the host's page cache |
//! | `fs` | a file system whose calls take the time of a device |
//! | `raw` | loads of a device alone, in virtual time |

mod fs;
mod host;
mod model;
mod pages;
mod profile;
mod raw;
mod spec;
mod wait;

pub use fs::{DeviceFs, Emulator};
pub use host::{DeviceUsage, FileId, Host};
pub use model::{Direction, Model};
pub use profile::Profile;
pub use raw::{RawLoad, RawRate, Way};
pub use spec::DeviceSpec;
pub use wait::wait_until;
