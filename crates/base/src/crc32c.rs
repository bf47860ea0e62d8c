//! CRC-32C of short data, such as records of the log. [`crate::checksum`] chooses between it and the library.
//!
//! The library prepares three streams of words, which pays for kilobytes. For the record of a small write the preparation
//! is most of the work, and one stream of words that need not be aligned takes a third of its instructions.

/// Longest data that goes this way: the library's shortest stream.
pub(crate) const LEN_MAX: usize = 256;

/// Returns the CRC of the bytes whose CRC is `crc`, followed by `data`; nothing if the processor has no instruction
/// for it.
#[inline]
#[expect(unsafe_code, reason = "an instruction that not every processor has")]
#[cfg(target_arch = "x86_64")]
pub(crate) fn crc32c_append(crc: u32, data: &[u8]) -> Option<u32> {
    if !std::arch::is_x86_feature_detected!("sse4.2") {
        return None;
    }
    // SAFETY: The processor has the instructions that the function is compiled for.
    Some(unsafe { one_stream(crc, data) })
}

/// See above.
#[inline]
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn crc32c_append(_crc: u32, _data: &[u8]) -> Option<u32> {
    None
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2")]
fn one_stream(crc: u32, data: &[u8]) -> u32 {
    use std::arch::x86_64::{_mm_crc32_u8, _mm_crc32_u16, _mm_crc32_u32, _mm_crc32_u64};
    let mut state = u64::from(!crc);
    let (words, rest) = data.as_chunks::<8>();
    for word in words {
        state = _mm_crc32_u64(state, u64::from_le_bytes(*word));
    }
    let mut state = state as u32;
    let (words, rest) = rest.as_chunks::<4>();
    for word in words {
        state = _mm_crc32_u32(state, u32::from_le_bytes(*word));
    }
    let (words, rest) = rest.as_chunks::<2>();
    for word in words {
        state = _mm_crc32_u16(state, u16::from_le_bytes(*word));
    }
    for &byte in rest {
        state = _mm_crc32_u8(state, byte);
    }
    !state
}
