//! A merge operator that never merges.

use super::MergeOperator;
use crate::options::objects;

/// Stands for an operator of which only the recorded text is known: flushes and compactions keep all operands as
/// they are, so that the program that has the operator folds them later. Reads of keys that have operands fail.
#[derive(Clone, Debug)]
pub struct Unfolded {
    text: String,
    name: String,
}

impl Unfolded {
    /// With the text that OPTIONS has, or the name that tables have. New tables and the next OPTIONS file record
    /// the same.
    pub fn new(text: &str) -> Self {
        Self {
            text: text.to_string(),
            name: objects::id(text).unwrap_or(text).to_string(),
        }
    }
}

impl MergeOperator for Unfolded {
    fn name(&self) -> &str {
        &self.name
    }

    fn options_text(&self) -> String {
        self.text.clone()
    }

    fn full_merge(&self, _: &[u8], _: Option<&[u8]>, _: &[&[u8]]) -> Option<Vec<u8>> {
        None
    }
}
