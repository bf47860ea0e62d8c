//! Turns blocks of unusual form into ordinary ones before they are used.
//!
//! ```text
//! keys ... | values ... | restart array | [hash index] | fixed32 start of the values | footer
//! entry: varint32 shared, varint32 non_shared, varint32 value_len, [varint32 value_offset], key
//! ```
//!
//! Blocks of format version 8 may begin with the prefix that all their user keys share, up to the first
//! restart point; keys at restart points are stored without it.
//!
//! Blocks with separated keys and values (bit 28 of the footer) say where a value begins only at
//! restart points; elsewhere it begins where the value before it ended. Other blocks are rewritten
//! because their table changes what its entries mean: sequence numbers that the MANIFEST knows,
//! timestamps that were left out, values that lie elsewhere in the file. All of them keep their
//! restart points, and with them the hash index. Searching then knows one form only, which keeps
//! the ordinary path as short as it is; the price is one pass over each such block that is loaded.
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

use super::entry::bad_entry;
use super::parse::{Parts, parts};
use super::seek::common_prefix;
use spanlith_base::coding::{get_varint32, put_fixed32, put_varint32};
use spanlith_base::{Error, Result};
use std::borrow::Cow;

/// An ordinary block with the entries of `data`, each changed by `change`, which may alter the key
/// and returns the value to store.
///
/// # Errors
/// `Corruption` for bad entries; what `change` returns.
pub(crate) fn rewrite<F>(data: &[u8], mut change: F) -> Result<Vec<u8>>
where
    F: for<'a> FnMut(&mut Vec<u8>, &'a [u8]) -> Result<Cow<'a, [u8]>>,
{
    let parts = parts(data)?;
    let mut source = Source::new(data, &parts)?;
    let mut out = Vec::with_capacity(data.len() + data.len() / 8);
    let mut restarts = Vec::new();
    let mut key = Vec::new();
    let mut last = Vec::new();
    while let Some((is_restart, value)) = source.next()? {
        key.clear();
        key.extend_from_slice(&source.key);
        let value = change(&mut key, value)?;
        let shared = if is_restart {
            restarts.push(u32::try_from(out.len()).map_err(|_| bad_entry())?);
            0
        } else {
            common_prefix(&last, &key)
        };
        let own = key.get(shared..).unwrap_or_default();
        put_varint32(&mut out, shared as u32);
        put_varint32(&mut out, own.len() as u32);
        put_varint32(
            &mut out,
            u32::try_from(value.len()).map_err(|_| bad_entry())?,
        );
        out.extend_from_slice(own);
        out.extend_from_slice(&value);
        std::mem::swap(&mut last, &mut key);
    }
    if restarts.is_empty() {
        restarts.push(0);
    }
    if restarts.len() != parts.num_restarts {
        return Err(Error::corruption("bad restart point in block"));
    }
    for &restart in &restarts {
        put_fixed32(&mut out, restart);
    }
    let mut footer = restarts.len() as u32;
    if let Some(buckets) = data.get(parts.buckets).filter(|b| !b.is_empty()) {
        out.extend_from_slice(buckets);
        out.extend_from_slice(&(buckets.len() as u16).to_le_bytes());
        footer |= super::parse::HASH_INDEX;
    }
    put_fixed32(&mut out, footer);
    Ok(out)
}

/// Walks the entries of a block of either form.
struct Source<'a> {
    keys: &'a [u8],
    /// Says what keys that share nothing with the one before are stored without.
    prefix: &'a [u8],
    /// The values, if they are separated.
    values: Option<&'a [u8]>,
    /// The restart array.
    restarts: &'a [u8],
    at: usize,
    value_at: usize,
    key: Vec<u8>,
}

impl<'a> Source<'a> {
    fn new(data: &'a [u8], parts: &Parts) -> Result<Self> {
        Ok(Self {
            keys: data.get(..parts.entries_end).ok_or_else(bad_entry)?,
            values: match parts.separated {
                true => Some(
                    data.get(parts.entries_end..parts.restarts)
                        .ok_or_else(bad_entry)?,
                ),
                false => None,
            },
            // A hash index follows, whose bytes are no restart points.
            restarts: (data.get(parts.restarts..))
                .and_then(|rest| rest.get(..4 * parts.num_restarts))
                .ok_or_else(bad_entry)?,
            prefix: data.get(..parts.prefix).ok_or_else(bad_entry)?,
            at: parts.prefix,
            value_at: 0,
            key: Vec::new(),
        })
    }

    /// The next entry: whether it is a restart point, and its value. Its key is `self.key`.
    fn next(&mut self) -> Result<Option<(bool, &'a [u8])>> {
        let Some(rest) = self.keys.get(self.at..).filter(|rest| !rest.is_empty()) else {
            return Ok(None);
        };
        let next_restart = self.restarts.split_first_chunk::<4>();
        let is_restart =
            next_restart.is_some_and(|(r, _)| u32::from_le_bytes(*r) as usize == self.at);
        if let (true, Some((_, later))) = (is_restart, next_restart) {
            self.restarts = later;
        }
        let (shared, rest) = get_varint32(rest).ok_or_else(bad_entry)?;
        let (own, rest) = get_varint32(rest).ok_or_else(bad_entry)?;
        let (value_len, mut rest) = get_varint32(rest).ok_or_else(bad_entry)?;
        if self.values.is_some() && is_restart {
            let (value_at, behind) = get_varint32(rest).ok_or_else(bad_entry)?;
            self.value_at = value_at as usize;
            rest = behind;
        }
        let shared = shared as usize;
        if shared > self.key.len() || (is_restart && shared != 0) {
            return Err(bad_entry());
        }
        let (own, rest) = rest.split_at_checked(own as usize).ok_or_else(bad_entry)?;
        self.key.truncate(shared);
        if shared == 0 {
            self.key.extend_from_slice(self.prefix);
        }
        self.key.extend_from_slice(own);
        let value_len = value_len as usize;
        let (value, rest) = match self.values {
            None => rest.split_at_checked(value_len).ok_or_else(bad_entry)?,
            Some(values) => {
                let end = self.value_at.checked_add(value_len).ok_or_else(bad_entry)?;
                let value = values.get(self.value_at..end).ok_or_else(bad_entry)?;
                self.value_at = end;
                (value, rest)
            }
        };
        self.at = self.keys.len() - rest.len();
        Ok(Some((is_restart, value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::parse::HASH_INDEX;

    /// `spanlith-stress model --seed 60028`: the first buckets of the hash index, taken for a restart
    /// point, were the offset of an entry.
    #[test]
    fn buckets_of_a_hash_index_are_no_restart_points() {
        let mut data = vec![0, 9, 1, 0];
        data.extend_from_slice(b"atagtagta");
        let second = data.len() as u8;
        data.extend_from_slice(&[0, 9, 1]);
        data.extend_from_slice(b"btagtagta");
        let values = data.len() as u32;
        data.extend_from_slice(b"xy");
        put_fixed32(&mut data, 0);
        data.extend_from_slice(&[second, 0, 0, 0, 4, 0]);
        put_fixed32(&mut data, values);
        put_fixed32(&mut data, 1 | HASH_INDEX | 1 << 28);
        let mut seen = Vec::new();
        let done = rewrite(&data, |key, value| {
            seen.push((key.clone(), value.to_vec()));
            Ok(Cow::Borrowed(value))
        });
        assert!(done.is_ok(), "{done:?}");
        let want = [(&b"atagtagta"[..], &b"x"[..]), (b"btagtagta", b"y")];
        assert!(seen.iter().map(|(k, v)| (&k[..], &v[..])).eq(want));
    }

    /// Keys at restart points, and such as share nothing, stand without the prefix of all.
    #[test]
    fn a_common_prefix_is_put_in_front_of_the_keys_that_are_stored_without() {
        let mut data = b"user".to_vec();
        data.extend_from_slice(&[0, 9, 1]);
        data.extend_from_slice(b"1tagtagtax");
        data.extend_from_slice(&[4, 9, 1]);
        data.extend_from_slice(b"2tagtagtay");
        let second = data.len() as u32;
        data.extend_from_slice(&[0, 9, 1]);
        data.extend_from_slice(b"3tagtagtaz");
        for n in [4, second, 2] {
            put_fixed32(&mut data, n);
        }
        let mut seen = Vec::new();
        let plain = rewrite(&data, |key, value| {
            seen.push(
                String::from_utf8_lossy(key).into_owned() + "=" + &String::from_utf8_lossy(value),
            );
            Ok(Cow::Borrowed(value))
        });
        let want = ["user1tagtagta=x", "user2tagtagta=y", "user3tagtagta=z"];
        assert_eq!(seen, want);
        let plain = plain.unwrap();
        assert_eq!(parts(&plain).unwrap().prefix, 0);
    }
}
