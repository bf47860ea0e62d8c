//! Iterators over what a transaction sees.

use super::overlay::{Overlay, OverlayParts};
use super::transaction::Transaction;
use crate::db::Cf;
use crate::read::ReadOptions;
use spanlith_base::Result;

/// Walks over the entries of a family as they would be if the transaction were committed now. Before the first move it stands
/// nowhere. All moves say whether it stands on an entry.
pub struct TxnCursor<'a> {
    transaction: &'a Transaction,
    overlay: Overlay,
}

impl Transaction {
    /// The raw iterator; the transaction stands still as long as it lives. What others commit meanwhile is not seen.
    pub fn cursor(&self, cf: &Cf, options: ReadOptions) -> TxnCursor<'_> {
        let overlay = Overlay::new(OverlayParts {
            order: cf.comparator().clone(),
            lower: options.lower.clone(),
            upper: options.upper.clone(),
            base: cf.cursor(options),
            cf: Some(cf.clone()),
        });
        TxnCursor {
            transaction: self,
            overlay,
        }
    }

    /// All entries of a family, own updates included, in the order of keys.
    ///
    /// # Errors
    /// Those of reading, and of merge operators; nothing follows one.
    pub fn iter(&self, cf: &Cf) -> impl Iterator<Item = Result<(Vec<u8>, Vec<u8>)>> + '_ {
        let mut cursor = self.cursor(cf, ReadOptions::default());
        let (mut has_begun, mut has_ended) = (false, false);
        std::iter::from_fn(move || {
            if has_ended {
                return None;
            }
            let moved = match std::mem::replace(&mut has_begun, true) {
                false => cursor.first(),
                true => cursor.next(),
            };
            has_ended = !matches!(moved, Ok(true));
            match moved {
                Ok(true) => cursor.entry().map(|(k, v)| Ok((k.to_vec(), v.to_vec()))),
                Ok(false) => None,
                Err(e) => Some(Err(e)),
            }
        })
    }
}

impl TxnCursor<'_> {
    fn stands(&self) -> Result<bool> {
        self.overlay.status()?;
        Ok(self.overlay.valid())
    }

    /// Moves to the first key at or after `key`.
    ///
    /// # Errors
    /// Those of reading, and of merge operators.
    pub fn seek(&mut self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.overlay.seek(self.transaction.batch(), key.as_ref());
        self.stands()
    }

    /// Moves to the last key at or before `key`.
    ///
    /// # Errors
    /// As [`Self::seek`].
    pub fn seek_for_prev(&mut self, key: impl AsRef<[u8]>) -> Result<bool> {
        let batch = self.transaction.batch();
        self.overlay.seek_for_prev(batch, key.as_ref());
        self.stands()
    }

    /// Moves to the first key.
    ///
    /// # Errors
    /// As [`Self::seek`].
    pub fn first(&mut self) -> Result<bool> {
        self.overlay.seek_to_first(self.transaction.batch());
        self.stands()
    }

    /// Moves to the last key.
    ///
    /// # Errors
    /// As [`Self::seek`].
    pub fn last(&mut self) -> Result<bool> {
        self.overlay.seek_to_last(self.transaction.batch());
        self.stands()
    }

    /// Moves to the next key; stays nowhere if it stands nowhere.
    ///
    /// # Errors
    /// As [`Self::seek`].
    #[expect(clippy::should_implement_trait, reason = "a move, as in `Cursor`")]
    pub fn next(&mut self) -> Result<bool> {
        if self.stands()? {
            self.overlay.next(self.transaction.batch());
        }
        self.stands()
    }

    /// Moves to the key before; stays nowhere if it stands nowhere.
    ///
    /// # Errors
    /// As [`Self::seek`].
    pub fn prev(&mut self) -> Result<bool> {
        if self.stands()? {
            self.overlay.prev(self.transaction.batch());
        }
        self.stands()
    }

    /// Key and value it stands on.
    pub fn entry(&self) -> Option<(&[u8], &[u8])> {
        let here = self.overlay.valid();
        here.then(|| (self.overlay.key(), self.overlay.value()))
    }
}
