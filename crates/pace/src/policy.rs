//! The names of the policies.

use std::fmt;
use std::str::FromStr;

/// By which rules writes are slowed down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ThrottlePolicy {
    /// RocksDB 5.17's, as "Algorithm 1" of the study of RocksDB on 3D XPoint prints it. For experiments: it comes to a
    /// near-stop on fast devices.
    Rocksdb517,
    /// RocksDB 11.8's.
    #[default]
    Rocksdb,
    /// Two stages: in the first the rate does not fall below what is acceptable.
    TwoStage,
    /// Paced by the measured capacity of the stage that is under pressure.
    Smooth,
}

impl ThrottlePolicy {
    /// All of them, in the order of their age.
    pub const ALL: [Self; 4] = [
        Self::Rocksdb517,
        Self::Rocksdb,
        Self::TwoStage,
        Self::Smooth,
    ];

    /// The name by which it is chosen.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rocksdb517 => "rocksdb_517",
            Self::Rocksdb => "rocksdb",
            Self::TwoStage => "two_stage",
            Self::Smooth => "smooth",
        }
    }

    /// Returns whether every writer waits for itself, before it joins the queue, and not the leader of its group for all.
    pub fn is_outside_queue(self) -> bool {
        self == Self::Smooth
    }
}

impl fmt::Display for ThrottlePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for ThrottlePolicy {
    type Err = String;

    /// The policy of a name. The error lists the names there are.
    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|p| p.name() == text);
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("no policy is called {text:?}; there are {names}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_to_policies_and_back() {
        for p in ThrottlePolicy::ALL {
            assert_eq!(p.name().parse(), Ok(p));
            assert_eq!(p.to_string(), p.name());
        }
        let e = "fast".parse::<ThrottlePolicy>().unwrap_err();
        assert!(e.contains("\"fast\"") && e.contains("two_stage"), "{e}");
        assert_eq!(ThrottlePolicy::default(), ThrottlePolicy::Rocksdb);
    }
}
