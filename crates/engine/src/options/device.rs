//! The options `env_device` and `sd_device`: devices that are emulated, by name.

use super::text::strip_braces;
use super::values::{OptionValue, ValueError};
use spanlith_base::Error;
use spanlith_env::emulated::{DeviceFs, DeviceSpec, Emulator};
use spanlith_env::{Clock, Env};
use std::fmt;
use std::sync::Arc;

/// A device that is emulated, or none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceOption(Option<DeviceSpec>);

impl DeviceOption {
    /// The device.
    pub fn spec(&self) -> Option<&DeviceSpec> {
        self.0.as_ref()
    }

    fn emulator(&self, clock: &Arc<dyn Clock>) -> Option<Arc<Emulator>> {
        self.0.map(|spec| Emulator::new(spec, clock.clone()))
    }
}

impl fmt::Display for DeviceOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(spec) => spec.fmt(f),
            None => Ok(()),
        }
    }
}

impl OptionValue for DeviceOption {
    fn print(&self) -> String {
        self.to_string()
    }

    fn parse_into(&mut self, text: &str) -> Result<(), ValueError> {
        let text = strip_braces(text);
        self.0 = match text.is_empty() {
            true => None,
            false => {
                let spec = text.parse::<DeviceSpec>();
                Some(spec.map_err(|e| ValueError::Other(Error::invalid_argument(e)))?)
            }
        };
        Ok(())
    }
}

/// Puts the files of an environment on the device `files`, and its speed disks on `disks`, if there are any.
pub(crate) fn emulate(env: &mut Env, files: DeviceOption, disks: DeviceOption) {
    if files.0.is_none() && disks.0.is_none() {
        return;
    }
    let clock = &env.clock;
    let fs = DeviceFs::new(env.fs.clone(), files.emulator(clock), disks.emulator(clock));
    env.fs = Arc::new(fs.without_syncs());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_read_printed_and_refused_by_name() {
        let mut device = DeviceOption::default();
        for text in ["O:cache=0", "{N1}", ""] {
            device.parse_into(text).unwrap();
            assert_eq!(device.print(), strip_braces(text));
        }
        let e = device.parse_into("floppy").unwrap_err();
        let e = e.into_error("env_device", "floppy").to_string();
        assert!(e.contains("one of H, S, N1, N2, O"), "{e}");
    }
}
