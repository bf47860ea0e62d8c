//! Reads that are recorded in a trace, as their calls begin, or whose lookups of blocks are.

use super::ReadOptions;
use super::multi_get::Sink;
use super::stored::Entity;
use super::timestamps::Timed;
use crate::core::{Engine, Family};
use crate::trace::{Extension, Ticket, kinds, put_get, put_multi_get};
use spanlith_base::{Pinned, Result};

impl Engine {
    #[cold]
    #[inline(never)]
    pub(super) fn get_traced(
        &self,
        family: &Family,
        key: &[u8],
        options: &ReadOptions,
    ) -> Result<Option<Pinned>> {
        let ticket = self.trace_get(family, key);
        let lookups = self.trace_lookups(options);
        // Readers of tables tell of counted reads only.
        let answer = match lookups.is_some() {
            true => self.get_observed(family, key, options),
            false => self.get_untraced(family, key, options),
        };
        if let Some(ticket) = ticket {
            let size = |value: &Pinned| value.len();
            self.extend_get(
                ticket,
                family,
                answer.as_ref().ok().and_then(Option::as_ref).map(size),
            );
        }
        answer
    }

    #[cold]
    pub(super) fn get_timed_traced(
        &self,
        family: &Family,
        key: &[u8],
        options: &ReadOptions,
    ) -> Result<Option<Timed>> {
        let ticket = self.trace_get(family, key);
        let _lookups = self.trace_lookups(options);
        let answer = self.get_timed_untraced(family, key, options);
        if let Some(ticket) = ticket {
            let size = |found: &Timed| found.0.len();
            self.extend_get(
                ticket,
                family,
                answer.as_ref().ok().and_then(Option::as_ref).map(size),
            );
        }
        answer
    }

    #[cold]
    pub(super) fn get_entity_traced(
        &self,
        family: &Family,
        key: &[u8],
        options: &ReadOptions,
    ) -> Result<Option<Entity>> {
        let ticket = self.trace_get(family, key);
        let _lookups = self.trace_lookups(options);
        let answer = self.get_entity_untraced(family, key, options);
        if let Some(ticket) = ticket {
            let size = |_: &Entity| 0;
            self.extend_get(
                ticket,
                family,
                answer.as_ref().ok().and_then(Option::as_ref).map(size),
            );
        }
        answer
    }

    #[cold]
    pub(super) fn merge_operands_traced(
        &self,
        family: &Family,
        key: &[u8],
        max: usize,
        options: &ReadOptions,
    ) -> Result<Vec<Pinned>> {
        let ticket = self.trace_get(family, key);
        let _lookups = self.trace_lookups(options);
        let answer = self.merge_operands_untraced(family, key, max, options);
        if let Some(ticket) = ticket {
            let found = answer.as_ref().ok().filter(|all| !all.is_empty());
            let size = found.map(|all| all.iter().map(|operand| operand.len()).sum());
            self.extend_get(ticket, family, size);
        }
        answer
    }

    /// As [`Self::multi_get`], recorded.
    #[cold]
    pub(super) fn multi_get_traced(
        &self,
        family: &Family,
        keys: &[&[u8]],
        options: &ReadOptions,
        sink: &mut Sink<'_>,
    ) {
        let ticket = self.trace_multi_get(keys.iter().map(|key| (family.id, *key)));
        let _lookups = self.trace_lookups(options);
        let (mut found, mut bytes) = (0, 0);
        self.multi_get_untraced(family, keys, options, &mut |at, answer| {
            if let Ok(Some(value)) = &answer {
                found += 1;
                bytes += value.len() as u64;
            }
            sink(at, answer);
        });
        self.extend_multi_get(ticket, family.id, found, bytes);
    }

    /// Blocks that are looked up until the result is dropped belong to this read, if a trace of them is being written.
    pub(crate) fn trace_lookups(&self, options: &ReadOptions) -> Option<impl Drop + use<>> {
        let blocks = &self.c.watchers.blocks;
        blocks.enter_get(options.snapshot.is_some())
    }

    fn trace_get(&self, family: &Family, key: &[u8]) -> Option<Ticket> {
        let id = family.id;
        self.tracing.record(kinds::GET, |to| put_get(to, id, key))
    }

    fn extend_get(&self, ticket: Ticket, family: &Family, size: Option<usize>) {
        let extension = Extension {
            kind: kinds::GET,
            cf: family.id,
            found: size.is_some().into(),
            bytes: size.unwrap_or(0) as u64,
            ..Extension::default()
        };
        self.tracing.extend(ticket, extension);
    }

    /// Records a multi-get, if a trace is being written.
    pub(crate) fn trace_multi_get<'a>(
        &self,
        keys: impl Iterator<Item = (u32, &'a [u8])>,
    ) -> Option<Ticket> {
        if !self.tracing.queries.is_on() {
            return None;
        }
        self.tracing
            .record(kinds::MULTI_GET, |to| put_multi_get(to, keys))
    }

    /// Notes what a multi-get found.
    pub(crate) fn extend_multi_get(&self, ticket: Option<Ticket>, cf: u32, found: u64, bytes: u64) {
        let Some(ticket) = ticket else { return };
        let extension = Extension {
            kind: kinds::MULTI_GET,
            cf,
            found,
            bytes,
            ..Extension::default()
        };
        self.tracing.extend(ticket, extension);
    }
}
