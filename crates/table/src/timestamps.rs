//! Describes what a table that is written does about user-defined timestamps: records their bounds in its
//! properties, or cuts them off.
//!
//! Keys of families that do not persist timestamps reach blocks, index, filter and bounds without
//! them; readers put the smallest timestamp, all zeros, in their place.

use crate::options::BuilderOptions;
use crate::properties::{TIMESTAMP_MAX, TIMESTAMP_MIN, TableProperties};
use spanlith_base::keys::{TAG_LEN, split_internal};
use spanlith_base::{Comparator, Error, Result};

/// Takes in the keys of one table.
#[derive(Default)]
pub(crate) struct TimestampWriter {
    comparator: Comparator,
    size: usize,
    strip: bool,
    /// Oldest and newest timestamp.
    bounds: Option<(Vec<u8>, Vec<u8>)>,
    /// The last key without its timestamp.
    key: Vec<u8>,
}

impl TimestampWriter {
    /// `None` if keys have no timestamps.
    pub(crate) fn of(options: &BuilderOptions) -> Option<Box<Self>> {
        let size = options.comparator.timestamp_size();
        let strip = !options.persist_timestamps;
        (size > 0).then(|| {
            Box::new(Self {
                comparator: options.comparator.clone(),
                size,
                strip,
                ..Self::default()
            })
        })
    }

    /// Notes the timestamp of an internal key; the key as it is stored.
    ///
    /// # Errors
    /// `InvalidArgument` for a key that is too short to have one.
    pub(crate) fn take_key<'a>(&'a mut self, key: &'a [u8]) -> Result<&'a [u8]> {
        let split = split_internal(key).filter(|(user, _)| user.len() >= self.size);
        let Some((user, _)) = split else {
            return Err(Error::invalid_argument("key is shorter than its timestamp"));
        };
        let (bare, timestamp) = user.split_at(user.len() - self.size);
        if self.strip {
            self.key.clear();
            self.key.extend_from_slice(bare);
            self.key.extend_from_slice(&key[key.len() - TAG_LEN..]);
            return Ok(&self.key);
        }
        match &mut self.bounds {
            None => self.bounds = Some((timestamp.to_vec(), timestamp.to_vec())),
            Some((oldest, newest)) => {
                if self.comparator.compare_timestamp(timestamp, oldest).is_lt() {
                    oldest.copy_from_slice(timestamp);
                }
                if self.comparator.compare_timestamp(timestamp, newest).is_gt() {
                    newest.copy_from_slice(timestamp);
                }
            }
        }
        Ok(key)
    }

    /// The end of a range tombstone as it is stored.
    pub(crate) fn take_end<'a>(&self, end: &'a [u8]) -> &'a [u8] {
        match self.strip {
            true => &end[..end.len().saturating_sub(self.size)],
            false => end,
        }
    }

    /// Adds what is to be known to the properties.
    pub(crate) fn finish(&self, properties: &mut TableProperties) {
        if self.strip {
            properties.user_defined_timestamps_persisted = Some(0);
            return;
        }
        // A table without a key has bounds the wrong way round: newer than all, older than all.
        let (oldest, newest) = match &self.bounds {
            Some((oldest, newest)) => (oldest.clone(), newest.clone()),
            None => (vec![0xff; self.size], vec![0; self.size]),
        };
        for (name, timestamp) in [(TIMESTAMP_MIN, oldest), (TIMESTAMP_MAX, newest)] {
            let text = timestamp.iter().map(|b| format!("{b:02X}")).collect();
            properties.readable.insert(name.to_string(), text);
            properties
                .user_collected
                .insert(name.to_string(), timestamp);
        }
    }
}
