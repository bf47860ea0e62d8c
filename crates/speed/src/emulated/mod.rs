//! A device in memory that is as slow as a real one, by a clock that may be virtual, and with a cache that is lost with the
//! power, writes that tear, and faults. Which devices there are is said in [`spanlith_env::emulated`].

mod device;

pub use device::{EmulatedDevice, Fault, FaultKind, Op};
pub use spanlith_env::emulated::{Direction, Model, Profile};
pub use spanlith_env::mem::{Media, PowerLoss};
