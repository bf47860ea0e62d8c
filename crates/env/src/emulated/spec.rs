//! A device as options and flags name it: `NAME[:cache=BYTES][:scale=PERCENT]`.

use super::profile::Profile;
use std::fmt;
use std::str::FromStr;

/// Bytes of page cache unless the text says otherwise.
const CACHE_DEFAULT: u64 = 64 << 20;
/// The most that makes sense: every page of it costs 60 to 90 bytes.
const CACHE_MAX: u64 = 1 << 40;

/// An emulated device for the files of a database: which one, and how much of it the host caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceSpec {
    /// The device, with all of its bandwidth.
    pub profile: Profile,
    /// Bytes of the host's page cache. 0: none, every call goes to the device.
    pub cache_bytes: u64,
    /// Share of the profile's bandwidth, in percent, for a machine with fewer cores than the one that was measured.
    pub scale_percent: u64,
}

impl DeviceSpec {
    /// `profile` with the usual cache and all of its bandwidth.
    pub fn new(profile: Profile) -> Self {
        Self {
            profile,
            cache_bytes: CACHE_DEFAULT,
            scale_percent: 100,
        }
    }

    /// The same with another cache.
    #[must_use]
    pub fn with_cache(mut self, cache_bytes: u64) -> Self {
        self.cache_bytes = cache_bytes;
        self
    }

    /// The profile with the share of its bandwidth.
    pub fn scaled_profile(&self) -> Profile {
        match self.scale_percent {
            100 => self.profile,
            percent => self.profile.scaled(percent),
        }
    }
}

impl fmt::Display for DeviceSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.profile.name)?;
        if self.cache_bytes != CACHE_DEFAULT {
            write!(f, ":cache={}", self.cache_bytes)?;
        }
        if self.scale_percent != 100 {
            write!(f, ":scale={}", self.scale_percent)?;
        }
        Ok(())
    }
}

/// A number of bytes, with `k`, `m` or `g` after it for powers of 1024.
fn size(text: &str) -> Option<u64> {
    let (digits, shift) = match text.as_bytes().last()?.to_ascii_lowercase() {
        b'k' => (text.get(..text.len() - 1)?, 10),
        b'm' => (text.get(..text.len() - 1)?, 20),
        b'g' => (text.get(..text.len() - 1)?, 30),
        _ => (text, 0),
    };
    let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    let bytes = is_number.then(|| digits.parse::<u64>().ok()).flatten()?;
    let bytes = bytes.checked_mul(1 << shift)?;
    (bytes <= CACHE_MAX).then_some(bytes)
}

impl FromStr for DeviceSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |what: &str| {
            format!(
                "emulated device '{text}': {what}; it is NAME[:cache=BYTES][:scale=PERCENT], and NAME one of {}",
                Profile::names()
            )
        };
        let mut parts = text.trim().split(':');
        let name = parts.next().unwrap_or_default();
        let profile = Profile::by_name(name).ok_or_else(|| wrong("no device of this name"))?;
        let mut spec = Self::new(profile);
        for part in parts {
            match part.split_once('=') {
                Some(("cache", bytes)) => {
                    let bytes =
                        size(bytes).ok_or_else(|| wrong("cache= takes bytes, as in 64m"))?;
                    spec.cache_bytes = bytes;
                }
                Some(("scale", percent)) => {
                    let percent = percent.parse().ok().filter(|p| (1..=10_000).contains(p));
                    spec.scale_percent = percent
                        .ok_or_else(|| wrong("scale= takes a percentage from 1 to 10000"))?;
                }
                _ => return Err(wrong("an unknown part")),
            }
        }
        Ok(spec)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_named_with_cache_and_scale() {
        let spec: DeviceSpec = "s".parse().unwrap();
        assert_eq!((spec.profile.name, spec.cache_bytes), ("S", 64 << 20));
        let spec: DeviceSpec = "O:cache=0:scale=5".parse().unwrap();
        assert_eq!(spec.to_string(), "O:cache=0:scale=5");
        assert_eq!(spec.scaled_profile().write_bandwidth, 100_000_000);
        let spec: DeviceSpec = "H-RAID5:cache=1g".parse().unwrap();
        assert_eq!(spec.to_string().parse::<DeviceSpec>().unwrap(), spec);
        for text in [
            "",
            "X",
            "S:cache",
            "S:cache=",
            "S:cache=1x",
            "S:cache=99999g",
            "S:scale=0",
            "S:fast=1",
        ] {
            let e = text.parse::<DeviceSpec>().unwrap_err();
            assert!(
                e.contains("one of H, S, N1, N2, O, H-RAID5, S-RAID5"),
                "{e}"
            );
        }
    }
}
