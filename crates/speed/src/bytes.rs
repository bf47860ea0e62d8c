//! Integers in untrusted bytes: what lies after the end counts as zero, and callers check lengths first.

/// Four bytes at an offset.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array_at(bytes, at))
}

/// Two bytes at an offset.
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(array_at(bytes, at))
}

/// Eight bytes at an offset.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array_at(bytes, at))
}

/// `N` bytes at an offset.
pub(crate) fn array_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let part = at.checked_add(N).and_then(|end| bytes.get(at..end));
    part.and_then(|p| p.try_into().ok()).unwrap_or([0; N])
}
