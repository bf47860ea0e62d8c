//! The operations that are told apart.

/// Describes what was done with a key. The discriminants are the ids in the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Operation {
    Get,
    Put,
    Delete,
    SingleDelete,
    RangeDelete,
    Merge,
    Seek,
    SeekForPrev,
    MultiGet,
    PutEntity,
}

impl Operation {
    /// All of them, by their ids.
    pub const ALL: [Self; 10] = [
        Self::Get,
        Self::Put,
        Self::Delete,
        Self::SingleDelete,
        Self::RangeDelete,
        Self::Merge,
        Self::Seek,
        Self::SeekForPrev,
        Self::MultiGet,
        Self::PutEntity,
    ];

    /// The name in file names and texts.
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Put => "put",
            Self::Delete => "delete",
            Self::SingleDelete => "single_delete",
            Self::RangeDelete => "range_delete",
            Self::Merge => "merge",
            Self::Seek => "iterator_Seek",
            Self::SeekForPrev => "iterator_SeekForPrev",
            Self::MultiGet => "multiget",
            Self::PutEntity => "put_entity",
        }
    }

    /// The operation called so.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|o| o.name() == name)
    }

    /// Returns whether sizes of its values say anything.
    pub fn has_values(self) -> bool {
        matches!(self, Self::Put | Self::Merge | Self::PutEntity)
    }

    /// The id in the files.
    pub fn id(self) -> usize {
        self as usize
    }
}
