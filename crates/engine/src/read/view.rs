//! Describes what an iterator shows besides what its snapshot says: timestamps and prefixes.
//!
//! With timestamps a key has versions by time, newest first. An iterator shows the newest version
//! that is not later than its own timestamp or, with a first timestamp, all versions between the
//! two, deletions included. With `prefix_same_as_start` it ends where the prefix of the key it was
//! sent to ends. An iterator that does neither is *plain* and pays one branch.

use spanlith_base::keys::{self, MAX_SEQUENCE};
use spanlith_base::slice_transform::SliceTransform;
use spanlith_base::timestamp::put_padded;
use spanlith_base::{Comparator, Error, Result};
use spanlith_table::{PrefixSeek, ReadParams, prefix_ends_at};

/// Says whether and how a version counts.
pub(crate) struct Seen {
    /// By its timestamp.
    pub visible: bool,
    /// It is older than one that was shown, or deleted, and must not be shown.
    pub same: bool,
}

/// The rules of one iterator.
#[derive(Clone)]
pub(crate) struct View {
    plain: bool,
    timestamp_size: usize,
    /// With timestamps only.
    times: Option<Box<Times>>,
    extractor: Option<SliceTransform>,
    /// The iterator stays within the prefix it was sent to.
    pub stays_in_prefix: bool,
    /// Keys with one prefix lie together: what is required of extractors, but known of plain orders only.
    is_ordered: bool,
    /// The prefix filters of tables may not be asked.
    total_order: bool,
    /// The prefix filters of tables may be asked if the upper bound allows it.
    auto_prefix: bool,
    prefix: Option<Vec<u8>>,
    /// Values in blob files are fetched when they are asked for.
    pub may_put_off: bool,
    /// How filters are read.
    pub params: ReadParams,
}

/// The timestamps that a view shows.
#[derive(Clone)]
struct Times {
    /// The latest to show.
    until: Vec<u8>,
    /// The earliest to show; empty shows one version of each key.
    from: Vec<u8>,
}

/// The part of a read's options that concerns the view.
pub(crate) struct ViewOptions<'a> {
    pub timestamp: Option<&'a [u8]>,
    pub start_timestamp: Option<&'a [u8]>,
    pub extractor: Option<SliceTransform>,
    pub prefix_same_as_start: bool,
    pub total_order: bool,
    pub auto_prefix: bool,
    pub may_put_off: bool,
    pub params: ReadParams,
}

impl View {
    /// The view of an iterator.
    ///
    /// # Errors
    /// `InvalidArgument` if the timestamps are not those of the family.
    pub(crate) fn new(comparator: &Comparator, family: &str, o: ViewOptions<'_>) -> Result<Self> {
        let size = comparator.timestamp_size();
        check_timestamp(size, family, o.timestamp)?;
        if let Some(start) = o.start_timestamp {
            check_timestamp(size, family, Some(start))?;
        }
        let stays_in_prefix = o.prefix_same_as_start && o.extractor.is_some();
        Ok(Self {
            plain: size == 0 && !stays_in_prefix,
            timestamp_size: size,
            times: (size > 0).then(|| {
                Box::new(Times {
                    until: o.timestamp.unwrap_or_default().to_vec(),
                    from: o.start_timestamp.unwrap_or_default().to_vec(),
                })
            }),
            auto_prefix: o.auto_prefix && o.extractor.is_some(),
            extractor: o.extractor,
            stays_in_prefix,
            is_ordered: !matches!(comparator, Comparator::User(_)),
            total_order: o.total_order,
            prefix: None,
            may_put_off: o.may_put_off,
            params: o.params,
        })
    }

    /// The view of an iterator that goes ahead of this one: it fetches no values, and nobody counts it.
    pub(crate) fn without_values(&self) -> Self {
        let mut view = self.clone();
        view.may_put_off = true;
        view.params.is_counted = false;
        view
    }

    /// Returns whether the snapshot says it all.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.plain
    }

    /// Returns whether all versions are shown, by internal key.
    #[inline]
    pub(crate) fn all_versions(&self) -> bool {
        self.times.as_ref().is_some_and(|t| !t.from.is_empty())
    }

    /// Latest timestamp to show; `None` without timestamps.
    pub(crate) fn until(&self) -> Option<&[u8]> {
        self.times.as_ref().map(|t| &t.until[..])
    }

    /// Where the versions of `key` that are shown begin.
    pub(crate) fn target(&self, out: &mut Vec<u8>, key: &[u8], tag: u64) {
        out.clear();
        // One allocation for the first target of an iterator.
        out.reserve(key.len() + self.timestamp_size + keys::TAG_LEN);
        out.extend_from_slice(key);
        if let Some(times) = &self.times {
            out.extend_from_slice(&times.until);
        }
        out.extend_from_slice(&tag.to_le_bytes());
    }

    fn timed(&self, out: &mut Vec<u8>, key: &[u8], byte: u8, tag: u64) {
        out.clear();
        put_padded(out, key, self.timestamp_size, byte);
        out.extend_from_slice(&tag.to_le_bytes());
    }

    /// Before all versions of `key`.
    pub(crate) fn newest(&self, out: &mut Vec<u8>, key: &[u8]) {
        self.timed(out, key, 0xff, keys::seek_tag(MAX_SEQUENCE));
    }

    /// Behind all versions of `key`.
    pub(crate) fn oldest(&self, out: &mut Vec<u8>, key: &[u8]) {
        self.timed(out, key, 0, 0);
    }

    /// Notes the prefix to stay in.
    pub(crate) fn begin(&mut self, key: &[u8]) {
        if self.stays_in_prefix {
            let prefix = self.extractor.as_ref().and_then(|e| e.prefix(key));
            self.prefix = prefix.map(<[u8]>::to_vec);
        }
    }

    /// Leaves the prefix open.
    pub(crate) fn begin_anywhere(&mut self) {
        self.prefix = None;
    }

    /// How the filters of tables may be asked for the prefix of `key`; `None` if they may not.
    pub(crate) fn prefix_seek<'a>(
        &self,
        key: &'a [u8],
        upper_bound: Option<&'a [u8]>,
    ) -> Option<PrefixSeek<'a>> {
        // An iterator that stays within a prefix may be asked to be complete for all that.
        let prefix_mode = !self.total_order
            && !self.auto_prefix
            && (self.prefix.is_some() || self.comes_back(key).is_some());
        (prefix_mode || self.auto_prefix && upper_bound.is_some()).then_some(PrefixSeek {
            key,
            upper_bound,
            needs_bound: !prefix_mode,
        })
    }

    /// Returns what tells that the prefix of `key` is after an iterator that goes on from there: tables that have
    /// nothing with it are read then. `None` if such an iterator must read all tables at once, or if it
    /// never goes on.
    ///
    /// RocksDB does not read them at all: after the prefix its iterators may miss keys.
    pub(crate) fn comes_back(&self, key: &[u8]) -> Option<&SliceTransform> {
        let extractor = self.extractor.as_ref()?;
        (self.is_ordered && !self.stays_in_prefix && extractor.prefix(key).is_some())
            .then_some(extractor)
    }

    /// As [`Self::comes_back`], for what a seek leaves out; `None` also if its bound ends the iterator with
    /// the prefix.
    pub(crate) fn awaits(
        &self,
        comparator: &Comparator,
        seek: PrefixSeek<'_>,
    ) -> Option<&SliceTransform> {
        let extractor = self.comes_back(seek.key).filter(|_| !seek.needs_bound)?;
        let prefix = extractor.prefix(seek.key)?;
        let bound = seek.upper_bound;
        let is_over = bound.is_some_and(|b| prefix_ends_at(extractor, comparator, prefix, b));
        (!is_over).then_some(extractor)
    }

    /// Returns whether a key lies outside the prefix to stay in.
    pub(crate) fn leaves_prefix(&self, user_key: &[u8]) -> bool {
        let Some(prefix) = &self.prefix else {
            return false;
        };
        let bare = &user_key[..user_key.len().saturating_sub(self.timestamp_size)];
        let own = self.extractor.as_ref().and_then(|e| e.prefix(bare));
        own != Some(&prefix[..])
    }

    /// Returns whether the timestamp of a stored key is among those shown.
    pub(crate) fn sees(&self, comparator: &Comparator, user_key: &[u8]) -> bool {
        let Some(times) = &self.times else {
            return true;
        };
        let timestamp = comparator.split_timestamp(user_key).1;
        comparator
            .compare_timestamp(timestamp, &times.until)
            .is_le()
            && (times.from.is_empty()
                || comparator.compare_timestamp(timestamp, &times.from).is_ge())
    }

    /// Looks at a stored key; `last` is the one that was shown or deleted before, and `same` says
    /// whether both are versions of one key. `None` beyond the prefix.
    #[cold]
    pub(crate) fn look(
        &self,
        comparator: &Comparator,
        user_key: &[u8],
        last: &[u8],
        same: bool,
    ) -> Option<Seen> {
        if self.leaves_prefix(user_key) {
            return None;
        }
        // Of all versions, those written twice with one timestamp count once.
        let same = same && (!self.all_versions() || comparator.equal(user_key, last));
        Some(Seen {
            visible: self.sees(comparator, user_key),
            same,
        })
    }
}

/// Refuses a timestamp where there should be none, none where there should be one, and one of
/// another size; texts as RocksDB's.
///
/// # Errors
/// `InvalidArgument`.
pub(crate) fn check_timestamp(size: usize, family: &str, given: Option<&[u8]>) -> Result<()> {
    match given {
        None if size == 0 => Ok(()),
        None => Err(timestamp_missing(family)),
        Some(_) if size == 0 => Err(Error::invalid_argument(format!(
            "cannot call this method on column family {family} that does not enable timestamp"
        ))),
        Some(given) if given.len() != size => Err(Error::invalid_argument(format!(
            "Timestamp sizes mismatch: expect {size}, {} given",
            given.len()
        ))),
        Some(_) => Ok(()),
    }
}

/// The refusal of an operation without a timestamp.
#[cold]
pub(crate) fn timestamp_missing(family: &str) -> Error {
    Error::invalid_argument(format!(
        "cannot call this method on column family {family} that enables timestamp"
    ))
}
