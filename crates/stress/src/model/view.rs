//! Describes what the reference says an iterator finds, and iterators that stay within a prefix.

use super::check::Check;
use super::history::History;
use super::player::{Player, same_entry, say};
use super::program::{At, MaybeKey};
use spanlith::ReadOptions;

/// The reference under an iterator's bounds.
pub(super) struct View<'a> {
    pub history: &'a History,
    pub family: u64,
    pub seqno: u64,
    pub lower: &'a MaybeKey,
    pub upper: &'a MaybeKey,
}

impl View<'_> {
    /// The entry a move finds: at or after `key` going forward, at or before it going backward, from
    /// the end if there is no key.
    pub fn find(
        &self,
        key: Option<&[u8]>,
        strictly: bool,
        forward: bool,
    ) -> Option<(Vec<u8>, Vec<u8>)> {
        let h = self.history;
        let (mut from, mut strictly) = (key, strictly);
        if forward {
            if let Some(lower) = self.lower
                && from.is_none_or(|k| h.before(k, lower))
            {
                (from, strictly) = (Some(lower.as_slice()), false);
            }
        } else if let Some(upper) = self.upper
            && from.is_none_or(|k| !h.before(k, upper))
        {
            (from, strictly) = (Some(upper.as_slice()), true);
        }
        let entry = h.nearest(self.family, from, strictly, forward, self.seqno)?;
        let inside = self.lower.as_ref().is_none_or(|l| !h.before(&entry.0, l))
            && self.upper.as_ref().is_none_or(|u| h.before(&entry.0, u));
        inside.then_some(entry)
    }
}

/// Iterators show the same whether they ask the filters of prefixes for nothing, in general, or as far as
/// their bound allows it.
pub(super) fn in_mode(mut options: ReadOptions, slot: u8) -> ReadOptions {
    match slot % 3 {
        0 => {}
        1 => options.total_order = true,
        _ => options.auto_prefix = true,
    }
    options
}

impl Player {
    /// Everything from `key` on that has its prefix, or everything if it has none.
    pub(super) fn within(&mut self, key: &[u8], at: At) -> Check {
        let (options, seqno) = self.read_at(at);
        let family = key.len() as u64 % self.setup.families;
        let extractor = self.tuning.of_family(family).extractor();
        let prefix_of = |k: &[u8]| {
            let prefix = extractor.as_ref().and_then(|e| e.prefix(k));
            prefix.map(<[u8]>::to_vec)
        };
        let own = prefix_of(key);
        let mut cursor = self
            .family(family)
            .cursor(options.prefix_same_as_start(true));
        let view = View {
            history: &self.history,
            family,
            seqno,
            lower: &None,
            upper: &None,
        };
        let of_prefix = |entry: Option<(Vec<u8>, Vec<u8>)>| {
            entry.filter(|(k, _)| own.is_none() || prefix_of(k) == own)
        };
        let mut want = of_prefix(view.find(Some(key), false, true));
        let mut on = say("seek", cursor.seek(key))?;
        loop {
            same_entry(&want, on, &cursor)?;
            let Some((key, _)) = want else { return Ok(()) };
            want = of_prefix(view.find(Some(&key), true, true));
            on = say("next", cursor.next())?;
        }
    }
}
