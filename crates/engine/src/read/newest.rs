//! Says whether a key was written since: what conflicts of transactions are found by.
//!
//! Memtables and tables whose newest entry is older are passed over by what is known of them, so that a look costs a
//! search of the mutable memtable, and of a table only if it was written meanwhile. The caller holds a snapshot at the
//! sequence number in question: no flush or compaction drops what came after it.

use super::get::ReadContext;
use super::{ReadOptions, ReadTier};
use crate::core::{Family, FamilySet, SuperVersion, TrackedKey};
use spanlith_base::keys;
use spanlith_base::{Error, MAX_SEQUENCE, Result, SequenceNumber};
use spanlith_table::TableReader;
use std::ops::ControlFlow;

/// Looks whether keys were written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Newest {
    /// Someone counts what reads do.
    is_counted: bool,
}

impl Newest {
    /// `is_counted` says whether someone counts what reads do.
    pub(crate) fn new(is_counted: bool) -> Self {
        Self { is_counted }
    }

    /// Fails if one of the keys has a write after what was seen. Nothing is looked for that comes after `last`.
    ///
    /// # Errors
    /// `Busy` for a conflict; those of tables.
    pub(crate) fn check_unwritten(
        self,
        families: &FamilySet,
        keys: &[TrackedKey<'_>],
        last: SequenceNumber,
    ) -> Result<()> {
        for k in keys {
            if k.seen >= last {
                continue;
            }
            // The keys of a family that is gone are nobody's.
            if let Some(family) = families.get(k.cf)
                && self.is_written_since(family, k.key, k.seen)?
            {
                return Err(Error::busy(""));
            }
        }
        Ok(())
    }

    /// Returns whether a key has a write with a sequence number above `seen`, be it a deletion or a range deletion.
    ///
    /// # Errors
    /// Those of tables.
    pub(crate) fn is_written_since(
        self,
        family: &Family,
        key: &[u8],
        seen: SequenceNumber,
    ) -> Result<bool> {
        let superversion = family.superversion.load();
        if superversion.is_written_in_memory(key, seen) {
            return Ok(true);
        }
        self.is_written_in_tables(family, &superversion, key, seen)
    }

    /// Returns whether a key was written after the snapshot of the options; never without one.
    ///
    /// # Errors
    /// `NotSupported` for families with timestamps and for reads of what is persisted; those of tables.
    pub(crate) fn is_written_behind_snapshot(
        self,
        family: &Family,
        key: &[u8],
        options: &ReadOptions,
    ) -> Result<bool> {
        let Some(snapshot) = &options.snapshot else {
            return Ok(false);
        };
        if options.read_tier == ReadTier::Persisted {
            return Err(Error::not_supported(
                "Newer-version metadata is not supported with kPersistedTier",
            ));
        }
        if family.comparator.timestamp_size() > 0 {
            return Err(Error::not_supported(
                "Newer-version metadata is not supported with timestamps",
            ));
        }
        self.is_written_since(family, key, snapshot.seqno())
    }

    fn is_written_in_tables(
        self,
        family: &Family,
        superversion: &SuperVersion,
        key: &[u8],
        seen: SequenceNumber,
    ) -> Result<bool> {
        let ctx = ReadContext::new(family, &ReadOptions::default(), self.is_counted);
        let hash = TableReader::filter_hash(key);
        for (n, level) in superversion.version.occupied() {
            let ask = |file: &crate::version::FileMeta| -> Result<bool> {
                if file.largest_seqno <= seen {
                    return Ok(false);
                }
                let opened = ctx.cache.reader(file)?;
                if let Some(list) = file.tombstones.get()
                    && list.max_covering(key, MAX_SEQUENCE) > seen
                {
                    return Ok(true);
                }
                let mut newest = 0;
                opened.get_hashed(key, hash, MAX_SEQUENCE, &ctx.params, |tag, _, _| {
                    newest = keys::tag_sequence(tag);
                    ControlFlow::Break(())
                })?;
                Ok(newest > seen)
            };
            if *n == 0 {
                for file in level.files_covering(key) {
                    if ask(file)? {
                        return Ok(true);
                    }
                }
            } else {
                for at in level.find_covering(key) {
                    if ask(&level.files[at])? {
                        return Ok(true);
                    }
                }
            }
        }
        Ok(false)
    }
}

impl SuperVersion {
    fn is_written_in_memory(&self, key: &[u8], seen: SequenceNumber) -> bool {
        std::iter::once(&self.mem).chain(&self.imm).any(|mem| {
            mem.range_tombstones()
                .is_some_and(|list| list.max_covering(key, MAX_SEQUENCE) > seen)
                || mem
                    .find(key, MAX_SEQUENCE)
                    .is_some_and(|e| keys::tag_sequence(e.tag()) > seen)
        })
    }
}
