//! Point reads: memtables, then tables from newer to older places, until the answer is known.

use crate::core::SuperVersion;
use crate::merge::{MergeOperator, MergeState, full_merge};
use crate::version::TableCache;
use spanlith_base::keys::{self, ValueType};
use spanlith_base::{Comparator, Error, Pinned, Result, SequenceNumber};
use spanlith_memtable::MemTable;
use spanlith_table::{Block, ReadParams, TableReader};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Values found in a memtable up to this size are copied, so that a small result does not hold a
/// whole memtable.
const COPY_MAX: usize = 4096;

/// What point reads need besides the superversion.
#[derive(Clone, Copy)]
pub(crate) struct ReadContext<'a> {
    pub comparator: &'a Comparator,
    pub cache: &'a TableCache,
    pub merge_operator: Option<&'a Arc<dyn MergeOperator>>,
    pub params: ReadParams,
}

/// Where a lookup stands.
enum Answer {
    /// Nothing decisive yet.
    Open,
    Found(Pinned),
    /// A tombstone: older places do not matter.
    Deleted,
}

/// One lookup, carried from newer to older places.
pub(super) struct Lookup<'a> {
    key: &'a [u8],
    snapshot: SequenceNumber,
    answer: Answer,
    merge: MergeState,
}

impl<'a> Lookup<'a> {
    pub(super) fn new(key: &'a [u8], snapshot: SequenceNumber) -> Self {
        Self {
            key,
            snapshot,
            answer: Answer::Open,
            merge: MergeState::default(),
        }
    }

    pub(super) fn done(&self) -> bool {
        !matches!(self.answer, Answer::Open)
    }

    /// Takes in one entry; true when older ones do not matter.
    #[inline]
    fn visit(&mut self, tag: u64, pin: impl FnOnce() -> Pinned) -> Result<bool> {
        match ValueType::from_byte(keys::tag_type(tag)) {
            Some(ValueType::Value) => self.answer = Answer::Found(pin()),
            Some(ValueType::Deletion | ValueType::SingleDeletion) => self.answer = Answer::Deleted,
            Some(ValueType::Merge) => {
                self.merge.push(pin());
                return Ok(false);
            }
            kind => return Err(unsupported(kind, keys::tag_type(tag))),
        }
        Ok(true)
    }

    #[inline]
    pub(super) fn in_memtable(&mut self, mem: &Arc<MemTable>) -> Result<()> {
        let mut entry = mem.find(self.key, self.snapshot);
        while let Some(e) = entry {
            let pin = || {
                let value = e.value();
                if value.len() <= COPY_MAX {
                    Pinned::copy_of(value)
                } else {
                    pin_memtable(value, mem)
                }
            };
            if self.visit(e.tag(), pin)? {
                return Ok(());
            }
            entry = e.next_older();
        }
        Ok(())
    }

    #[inline]
    pub(super) fn in_table(&mut self, table: &TableReader, params: &ReadParams) -> Result<()> {
        let mut failed = None;
        let (key, snapshot) = (self.key, self.snapshot);
        table.get(key, snapshot, params, |tag, value, block| {
            match self.visit(tag, || pin_block(value, block)) {
                Ok(false) => ControlFlow::Continue(()),
                Ok(true) => ControlFlow::Break(()),
                Err(e) => {
                    failed = Some(e);
                    ControlFlow::Break(())
                }
            }
        })?;
        failed.map_or(Ok(()), Err)
    }

    /// The result once all places were visited, or the answer is known.
    pub(super) fn finish(
        self,
        operator: Option<&Arc<dyn MergeOperator>>,
    ) -> Result<Option<Pinned>> {
        if self.merge.is_empty() {
            return Ok(match self.answer {
                Answer::Found(v) => Some(v),
                Answer::Open | Answer::Deleted => None,
            });
        }
        let base = match &self.answer {
            Answer::Found(v) => Some(&**v),
            Answer::Open | Answer::Deleted => None,
        };
        let merged = full_merge(operator, self.key, base, self.merge.operands())?;
        Ok(Some(Pinned::from_vec(merged)))
    }
}

#[cold]
fn unsupported(kind: Option<ValueType>, byte: u8) -> Error {
    match kind {
        Some(k) => Error::not_supported(format!("entries of type {k:?}")),
        None => Error::corruption("unknown value type in an internal key").with("type", byte),
    }
}

#[expect(unsafe_code, reason = "a value is returned without a copy")]
fn pin_memtable(value: &[u8], mem: &Arc<MemTable>) -> Pinned {
    // SAFETY: Entries of a memtable never move or change before it is dropped (M1).
    unsafe { Pinned::from_owner(value, mem.clone()) }
}

#[expect(unsafe_code, reason = "a value is returned without a copy")]
#[inline]
fn pin_block(value: &[u8], block: &Arc<Block>) -> Pinned {
    // SAFETY: `TableReader::get` hands out values that lie in the block it names, and a block is
    // immutable.
    unsafe { Pinned::from_owner(value, block.clone()) }
}

impl SuperVersion {
    /// The value of `key` at `snapshot`.
    pub(crate) fn get(
        &self,
        key: &[u8],
        snapshot: SequenceNumber,
        ctx: &ReadContext<'_>,
    ) -> Result<Option<Pinned>> {
        let mut lookup = Lookup::new(key, snapshot);
        lookup.in_memtable(&self.mem)?;
        if !lookup.done() {
            for mem in &self.imm {
                lookup.in_memtable(mem)?;
                if lookup.done() {
                    break;
                }
            }
            if !lookup.done() {
                self.get_from_tables(&mut lookup, ctx)?;
            }
        }
        lookup.finish(ctx.merge_operator)
    }

    fn get_from_tables(&self, lookup: &mut Lookup<'_>, ctx: &ReadContext<'_>) -> Result<()> {
        let key = lookup.key;
        for (n, level) in self.version.levels.iter().enumerate() {
            if level.files.is_empty() {
                continue;
            }
            if n == 0 {
                for file in level.files_covering(key) {
                    lookup.in_table(ctx.cache.reader(file)?, &ctx.params)?;
                    if lookup.done() {
                        return Ok(());
                    }
                }
                continue;
            }
            // Versions of one user key may span adjacent files; go on while the next one begins
            // with it.
            let Some(mut at) = level.find_file_for_user_key(key) else {
                continue;
            };
            while level.covers_user_key(at, key) {
                lookup.in_table(ctx.cache.reader(&level.files[at])?, &ctx.params)?;
                if lookup.done() {
                    return Ok(());
                }
                at += 1;
            }
        }
        Ok(())
    }
}
