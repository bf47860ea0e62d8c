//! Tells the listener of a reader which blocks were looked up: [`crate::lookups`].

use super::TableReader;
use crate::activity::ReadActivity;
use crate::block::Block;
use crate::format::BlockHandle;
use crate::lookups::{BlockLookup, CachedKind, GetLookup, LookupTap, Lookups, Pending, Sought};
use crate::options::ReadParams;
use spanlith_base::keys::{ValueType, tag_type};

/// Bytes of sequence number and type after a user key.
const TAG_LEN: u64 = 8;

/// The entry that a search ended with: its tag, and bytes of the value.
pub(super) type Seen = Option<(u64, usize)>;

impl TableReader {
    /// The listener, if there is one.
    #[inline]
    fn listener(&self) -> Option<&LookupTap> {
        let counters = self.options.counters.as_ref()?;
        counters.lookups.as_deref().filter(|tap| tap.is_on())
    }

    /// Returns whether somebody listens.
    #[inline]
    pub(super) fn is_listened_to(&self) -> bool {
        self.listener().is_some()
    }

    /// Tells of a lookup, or lets it wait until the block has been searched.
    pub(super) fn note_lookup(
        &self,
        (kind, handle): (CachedKind, BlockHandle),
        block: &Block,
        params: &ReadParams,
        is_hit: bool,
    ) {
        let Some(tap) = self.listener() else {
            return;
        };
        let key = self.cache_key(handle);
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&key.file.to_le_bytes());
        bytes[8..].copy_from_slice(&key.block.to_le_bytes());
        let pending = Pending {
            offset: handle.offset,
            key: bytes,
            bytes: block.memory_usage() as u64,
            is_hit,
            no_insert: !params.fill_cache,
            is_searched: params.activity == ReadActivity::Get,
        };
        let is_get = matches!(params.activity, ReadActivity::Get | ReadActivity::MultiGet);
        if !is_get {
            return self.tell(tap, (kind, params.activity), &pending, None);
        }
        if kind == CachedKind::Data {
            if !Lookups::wait(pending) {
                // A get that walks over a table, as those at timestamps do.
                self.tell(tap, (kind, ReadActivity::Iterator), &pending, None);
            }
            return;
        }
        let (id, from_snapshot) = Lookups::current();
        let get = GetLookup {
            id,
            from_snapshot,
            sought: None,
        };
        self.tell(tap, (kind, params.activity), &pending, Some(get));
    }

    /// Tells of the data blocks that were searched for a key, or of all as the get leaves the table.
    #[cold]
    pub(super) fn note_searched(
        &self,
        (user_key, tag): (&[u8], u64),
        seen: Seen,
        params: &ReadParams,
        is_over: bool,
    ) {
        let waiting = Lookups::take(is_over);
        let (Some(tap), Some(last)) = (self.listener(), waiting.len().checked_sub(1)) else {
            return;
        };
        let (id, from_snapshot) = Lookups::current();
        let p = &self.properties;
        let block_entries = p.num_entries.div_ceil(p.num_data_blocks.max(1));
        for (at, pending) in waiting.iter().enumerate() {
            // The entry found was in the last of them.
            let found = seen.filter(|&(tag, _)| at == last && holds_value(tag));
            let sought = Sought {
                user_key,
                tag: found.map_or(tag, |(tag, _)| tag),
                entry_bytes: found.map_or(0, |(_, value)| {
                    user_key.len() as u64 + TAG_LEN + value as u64
                }),
                block_entries,
                is_found: found.is_some(),
            };
            let get = GetLookup {
                id,
                from_snapshot,
                sought: Some(sought),
            };
            let what = (CachedKind::Data, params.activity);
            self.tell(tap, what, pending, Some(get));
        }
    }

    fn tell(
        &self,
        tap: &LookupTap,
        (kind, activity): (CachedKind, ReadActivity),
        lookup: &Pending,
        get: Option<GetLookup<'_>>,
    ) {
        tap.note(&BlockLookup {
            kind,
            key: lookup.key,
            bytes: lookup.bytes,
            level: self.options.level,
            file: self.options.file_number,
            column_family_id: self.properties.column_family_id,
            column_family_name: &self.properties.column_family_name,
            activity,
            is_hit: lookup.is_hit,
            no_insert: lookup.no_insert,
            get,
        });
    }
}

/// Returns whether an entry is a value, wherever that lies.
fn holds_value(tag: u64) -> bool {
    matches!(
        ValueType::from_byte(tag_type(tag)),
        Some(
            ValueType::Value
                | ValueType::BlobIndex
                | ValueType::WideColumnEntity
                | ValueType::ValuePreferredSeqno
        )
    )
}
