//! Four bytes of time after a value.

use spanlith_base::{Error, Pinned, Result};

/// Bytes of time after a value.
pub const TIME_LEN: usize = 4;

/// The time of the first release of RocksDB that wrote times: what a value has there before it is no time.
const TIME_MIN: i32 = 1_368_146_402;

/// Appends a time in seconds since the epoch.
pub fn append_time(value: &mut Vec<u8>, seconds: u64) {
    value.extend_from_slice(&(seconds as u32).to_le_bytes());
}

/// A value and its time; `None` if it is too short to have one.
pub fn split_time(stored: &[u8]) -> Option<(&[u8], u32)> {
    let (value, time) = stored.split_last_chunk::<TIME_LEN>()?;
    Some((value, u32::from_le_bytes(*time)))
}

/// A value as it was given; one that is too short to have a time is shown whole.
pub fn without_time(stored: &[u8]) -> &[u8] {
    split_time(stored).map_or(stored, |(value, _)| value)
}

/// The error of a value that has no room for a time.
pub(crate) fn too_short() -> Error {
    Error::corruption("Error: value's length less than timestamp's\n")
}

/// A value that was read, as its reader sees it.
///
/// # Errors
/// `Corruption` if it has no time, in RocksDB's words.
pub(crate) fn shown(stored: Pinned) -> Result<Pinned> {
    let (value, time) = split_time(&stored).ok_or_else(too_short)?;
    // As in RocksDB a signed number here and an unsigned one where ages are told.
    if time.cast_signed() < TIME_MIN {
        return Err(Error::corruption(
            "Error: Timestamp < ttl feature release time!\n",
        ));
    }
    let len = value.len();
    Ok(stored.slice(..len))
}

/// Answers of a multi-get as their reader sees them.
pub(crate) fn shown_all(answers: &mut [Result<Option<Pinned>>]) {
    for answer in answers {
        let stored = std::mem::replace(answer, Ok(None));
        *answer = stored.and_then(|value| value.map(shown).transpose());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_put_behind_values_and_taken_off_again() {
        let mut stored = b"value".to_vec();
        append_time(&mut stored, 0x0102_0304_6152_5354);
        assert_eq!(stored, b"value\x54\x53\x52\x61");
        assert_eq!(split_time(&stored), Some((&b"value"[..], 0x6152_5354)));
        assert_eq!(&*shown(Pinned::from_vec(stored)).unwrap(), b"value");
        assert_eq!(without_time(b"abc"), b"abc");
        assert_eq!(without_time(b"abcd"), b"");
    }

    /// The texts are RocksDB 11.8.1's for the same bytes.
    #[test]
    fn what_has_no_time_is_corruption() {
        let text = |stored: &'static [u8]| {
            let e = shown(Pinned::from_static(stored)).unwrap_err();
            e.to_string()
        };
        assert_eq!(
            text(b"123"),
            "Corruption: Error: value's length less than timestamp's\n"
        );
        let early = "Corruption: Error: Timestamp < ttl feature release time!\n";
        assert_eq!(text(b"v\xe1\x41\x8c\x51"), early);
        assert_eq!(text(b"v\xff\xff\xff\xff"), early);
        assert!(shown(Pinned::from_static(b"v\xe2\x41\x8c\x51")).is_ok());
    }
}
