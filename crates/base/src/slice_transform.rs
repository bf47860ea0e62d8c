//! Prefix extractors: which part of a user key is its prefix.
//!
//! Tables record the extractor's name; prefix filters of a table are asked only by a reader whose
//! extractor has the same name.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A prefix extractor supplied by the user. Must be stable over the life of the data.
pub trait UserSliceTransform: Send + Sync {
    /// Name recorded in tables.
    fn name(&self) -> &str;
    /// The prefix of `key`. Called only for keys that are in the domain.
    fn transform<'a>(&self, key: &'a [u8]) -> &'a [u8];
    /// Returns whether `key` has a prefix.
    fn in_domain(&self, key: &[u8]) -> bool;
}

/// Describes what tells extractors from each other as their names do, at the cost of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtractorId(NonZeroU64);

/// A place for one that changes.
#[derive(Debug)]
pub struct ExtractorCell(AtomicU64);

impl ExtractorCell {
    /// Holds `id`.
    pub fn new(id: ExtractorId) -> Self {
        Self(AtomicU64::new(id.0.get()))
    }

    /// Returns what it holds. Relaxed: it publishes nothing.
    #[inline]
    pub fn get(&self) -> ExtractorId {
        NonZeroU64::new(self.0.load(Ordering::Relaxed)).map_or(NO_EXTRACTOR, ExtractorId)
    }

    /// Replaces it.
    pub fn set(&self, id: ExtractorId) {
        self.0.store(id.0.get(), Ordering::Relaxed);
    }
}

/// Stands for no extractor.
pub const NO_EXTRACTOR: ExtractorId = ExtractorId(NonZeroU64::MAX);

/// The part of a user key that is its prefix.
#[derive(Clone)]
pub enum SliceTransform {
    /// The first that many bytes; shorter keys have no prefix.
    FixedPrefix(usize),
    /// The first that many bytes, or all of a shorter key.
    CappedPrefix(usize),
    /// The whole key.
    Noop,
    /// The user's.
    Custom(Arc<dyn UserSliceTransform>),
}

impl SliceTransform {
    /// Name recorded in tables.
    pub fn name(&self) -> String {
        match self {
            Self::FixedPrefix(n) => format!("rocksdb.FixedPrefix.{n}"),
            Self::CappedPrefix(n) => format!("rocksdb.CappedPrefix.{n}"),
            Self::Noop => "rocksdb.Noop".to_string(),
            Self::Custom(c) => c.name().to_string(),
        }
    }

    /// A number that stands for [`Self::name`]; no extractor is [`NO_EXTRACTOR`].
    pub fn id(&self) -> ExtractorId {
        let (kind, value) = match self {
            Self::FixedPrefix(n) => (1, *n as u64),
            Self::CappedPrefix(n) => (2, *n as u64),
            Self::Noop => (3, 0),
            Self::Custom(c) => {
                let known = c.name().starts_with("rocksdb.");
                if let Some(same) = Self::from_text(c.name()).filter(|_| known) {
                    return same.id();
                }
                let mut hasher = DefaultHasher::new();
                c.name().hash(&mut hasher);
                (4, hasher.finish())
            }
        };
        let id = kind << 60 | value & ((1 << 60) - 1);
        ExtractorId(NonZeroU64::new(id).unwrap_or(NO_EXTRACTOR.0))
    }

    /// Returns whether `name` is this extractor's, without making a text of the latter.
    pub fn is_named(&self, name: &str) -> bool {
        let numbered = |start: &str, n: usize| {
            name.strip_prefix(start)
                .is_some_and(|text| length(text) == Some(n))
        };
        match self {
            Self::FixedPrefix(n) => numbered("rocksdb.FixedPrefix.", *n),
            Self::CappedPrefix(n) => numbered("rocksdb.CappedPrefix.", *n),
            Self::Noop => name == "rocksdb.Noop",
            Self::Custom(c) => name == c.name(),
        }
    }

    /// Returns whether `key` has a prefix.
    #[inline]
    pub fn in_domain(&self, key: &[u8]) -> bool {
        match self {
            Self::FixedPrefix(n) => key.len() >= *n,
            Self::CappedPrefix(_) | Self::Noop => true,
            Self::Custom(c) => c.in_domain(key),
        }
    }

    /// The prefix of `key`. Requires: in the domain (a shorter key than a fixed prefix is returned
    /// whole).
    #[inline]
    pub fn transform<'a>(&self, key: &'a [u8]) -> &'a [u8] {
        match self {
            Self::FixedPrefix(n) | Self::CappedPrefix(n) => &key[..key.len().min(*n)],
            Self::Noop => key,
            Self::Custom(c) => c.transform(key),
        }
    }

    /// The prefix of `key` if it has one.
    #[inline]
    pub fn prefix<'a>(&self, key: &'a [u8]) -> Option<&'a [u8]> {
        self.in_domain(key).then(|| self.transform(key))
    }

    /// Length of a prefix of full length: a fixed prefix's, or a capped one's at its cap.
    pub fn full_length(&self) -> Option<usize> {
        match self {
            Self::FixedPrefix(n) | Self::CappedPrefix(n) => Some(*n),
            Self::Noop | Self::Custom(_) => None,
        }
    }

    /// The built-in extractor of a name or of an option text: `rocksdb.FixedPrefix.4`, `fixed:4`,
    /// `rocksdb.CappedPrefix.4`, `capped:4`, `rocksdb.Noop`. `None` for anything else, also for the
    /// texts that mean no extractor (`nullptr` and the empty text).
    pub fn from_text(text: &str) -> Option<Self> {
        let numbered = |starts: [&str; 2]| {
            starts
                .iter()
                .find_map(|start| text.strip_prefix(start))
                .and_then(length)
        };
        if let Some(n) = numbered(["rocksdb.FixedPrefix.", "fixed:"]) {
            return Some(Self::FixedPrefix(n));
        }
        if let Some(n) = numbered(["rocksdb.CappedPrefix.", "capped:"]) {
            return Some(Self::CappedPrefix(n));
        }
        (text == "rocksdb.Noop").then_some(Self::Noop)
    }
}

/// A decimal length without sign or leading zeros.
fn length(text: &str) -> Option<usize> {
    let plain = text.bytes().all(|b| b.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    plain.then(|| text.parse().ok()).flatten()
}

impl PartialEq for SliceTransform {
    /// By name, as RocksDB compares extractors.
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::FixedPrefix(a), Self::FixedPrefix(b))
            | (Self::CappedPrefix(a), Self::CappedPrefix(b)) => a == b,
            (Self::Noop, Self::Noop) => true,
            (Self::Custom(a), other) | (other, Self::Custom(a)) => other.is_named(a.name()),
            _ => false,
        }
    }
}

impl Eq for SliceTransform {}

impl fmt::Debug for SliceTransform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_rocksdb_and_lead_back() {
        let cases = [
            (SliceTransform::FixedPrefix(4), "rocksdb.FixedPrefix.4"),
            (SliceTransform::CappedPrefix(12), "rocksdb.CappedPrefix.12"),
            (SliceTransform::Noop, "rocksdb.Noop"),
        ];
        for (transform, name) in &cases {
            assert_eq!(transform.name(), *name);
            assert!(transform.is_named(name));
            assert!(!transform.is_named("rocksdb.FixedPrefix.5"));
            assert_eq!(SliceTransform::from_text(name).as_ref(), Some(transform));
        }
        assert_ne!(cases[0].0, cases[1].0);
        assert_eq!(
            SliceTransform::from_text("fixed:4"),
            Some(SliceTransform::FixedPrefix(4))
        );
        assert_eq!(
            SliceTransform::from_text("capped:0"),
            Some(SliceTransform::CappedPrefix(0))
        );
        for bad in [
            "",
            "nullptr",
            "fixed:",
            "fixed:x",
            "fixed:+4",
            "fixed:04",
            "rocksdb.Noop.1",
        ] {
            assert_eq!(SliceTransform::from_text(bad), None, "{bad}");
        }
    }

    #[test]
    fn an_id_stands_for_the_name() {
        struct Named(&'static str);
        impl UserSliceTransform for Named {
            fn name(&self) -> &str {
                self.0
            }
            fn transform<'a>(&self, key: &'a [u8]) -> &'a [u8] {
                key
            }
            fn in_domain(&self, _key: &[u8]) -> bool {
                true
            }
        }
        let own = |name| SliceTransform::Custom(Arc::new(Named(name)));
        let all = [
            SliceTransform::FixedPrefix(0),
            SliceTransform::FixedPrefix(4),
            SliceTransform::CappedPrefix(4),
            SliceTransform::Noop,
            own("own"),
            own("fixed:4"),
        ];
        for (i, one) in all.iter().enumerate() {
            assert_ne!(one.id(), NO_EXTRACTOR);
            for (j, other) in all.iter().enumerate() {
                assert_eq!(one.id() == other.id(), i == j, "{one:?}, {other:?}");
            }
        }
        assert_eq!(own("own").id(), own("own").id());
        assert_eq!(own("rocksdb.FixedPrefix.4").id(), all[1].id());
        let cell = ExtractorCell::new(NO_EXTRACTOR);
        cell.set(all[1].id());
        assert_eq!(cell.get(), all[1].id());
    }

    #[test]
    fn a_fixed_prefix_needs_its_length_and_a_capped_one_does_not() {
        let fixed = SliceTransform::FixedPrefix(3);
        assert_eq!(fixed.prefix(b"ab"), None);
        assert_eq!(fixed.prefix(b"abcd"), Some(&b"abc"[..]));
        let capped = SliceTransform::CappedPrefix(3);
        assert_eq!(capped.prefix(b"ab"), Some(&b"ab"[..]));
        assert_eq!(capped.prefix(b"abcd"), Some(&b"abc"[..]));
        assert_eq!(SliceTransform::Noop.prefix(b"abcd"), Some(&b"abcd"[..]));
    }

    #[test]
    fn a_custom_extractor_is_compared_by_name() {
        struct UpTo(u8);
        impl UserSliceTransform for UpTo {
            fn name(&self) -> &str {
                "up.to"
            }
            fn transform<'a>(&self, key: &'a [u8]) -> &'a [u8] {
                let end = key.iter().position(|&b| b == self.0).unwrap_or(key.len());
                &key[..end]
            }
            fn in_domain(&self, key: &[u8]) -> bool {
                key.contains(&self.0)
            }
        }
        let slash = SliceTransform::Custom(Arc::new(UpTo(b'/')));
        assert_eq!(slash.prefix(b"a/b"), Some(&b"a"[..]));
        assert_eq!(slash.prefix(b"ab"), None);
        assert_eq!(slash, SliceTransform::Custom(Arc::new(UpTo(b':'))));
        assert_ne!(slash, SliceTransform::Noop);
    }
}
