//! Devices in memory: as slow as real ones of several kinds, by a clock that may be virtual, and with a cache that is
//! lost with the power, writes that tear, and faults.

mod device;
mod model;
mod profile;

pub use device::{EmulatedDevice, Fault, FaultKind, Op};
pub use model::{Direction, Model};
pub use profile::Profile;
pub use spanlith_env::mem::{Media, PowerLoss};
