//! Mistakes that tests plant, to show that the crash programme finds them. They are those of the published
//! prototype of a speed disk, and some of our own. Outside tests none exists.

/// A mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(test), allow(dead_code))]
pub(crate) enum Plant {
    /// A page counts whatever its checksum is.
    NoChecksum,
    /// The epoch does not rise with an open, so that colours repeat.
    SameEpoch,
    /// A log is read to its last valid page, whatever is missing before.
    Holes,
    /// Pages of an earlier user of the group count.
    NoColour,
    /// A page that was made durable is written again with more payload.
    Rewrite,
    /// One durable write stands for all that was written before.
    DurableAlone,
    /// Page groups are given to the next log before the directory without the old one is durable.
    EarlyReuse,
    /// Pages are written before the directory that names their group is durable.
    LateDirectory,
    /// The directory is written in place.
    OneDirectory,
    /// An open records what it found without making it durable.
    Unflushed,
    /// Pages of a table are free before its deletion is durable.
    TablesEarlyReuse,
    /// Pages of a table are free while somebody reads it.
    TablesReaders,
    /// A table is recorded before its bytes are durable.
    TablesUnflushed,
    /// The metadata log of tables is written again in place.
    TablesOneHalf,
    /// A page of the metadata log counts whatever its checksum is.
    TablesNoChecksum,
    /// A rename removes what it replaces first.
    TablesTwoSteps,
}
