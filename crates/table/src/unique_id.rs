//! The identity of a table across copies: 128 bits from the database's id and session and the
//! file's original number. The MANIFEST records it, and the reader compares.
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

use spanlith_base::checksum::xxh3_128;

/// Digits of the lower part of a session id.
const LOWER_DIGITS: usize = 12;

fn base36(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0u64, |sum, &c| {
        let digit = match c {
            b'0'..=b'9' => c - b'0',
            b'A'..=b'Z' => c - b'A' + 10,
            _ => return None,
        };
        Some(sum.wrapping_mul(36).wrapping_add(u64::from(digit)))
    })
}

/// The two words of a session id; `None` if it is malformed.
fn decode_session(session: &str) -> Option<(u64, u64)> {
    let bytes = session.as_bytes();
    let split = bytes
        .len()
        .checked_sub(LOWER_DIGITS)
        .filter(|n| (1..=12).contains(n))?;
    let (a, b) = bytes.split_at_checked(split)?;
    let (a, b) = (base36(a)?, base36(b)?);
    Some((a >> 2, b & (u64::MAX >> 2) | (a & 3) << 62))
}

/// The internal unique id that RocksDB records in the MANIFEST.
pub fn unique_id(db_id: &str, db_session_id: &str, file_number: u64) -> [u64; 2] {
    let (upper, lower) = decode_session(db_session_id).unwrap_or_else(|| {
        let (high, low) = xxh3_128(db_session_id.as_bytes(), 0);
        (high, if low == 0 { high | 1 } else { low })
    });
    let (high, _) = xxh3_128(db_id.as_bytes(), upper);
    [lower, high ^ file_number]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A session id as RocksDB prints one: 20 base-36 digits of (upper, lower).
    fn encode_session(upper: u64, lower: u64) -> String {
        let mut out = [b'0'; 20];
        let mut put = |value: u64, range: std::ops::Range<usize>| {
            let mut rest = value;
            for digit in out.get_mut(range).into_iter().flatten().rev() {
                let d = (rest % 36) as u8;
                *digit = if d < 10 { b'0' + d } else { b'A' + d - 10 };
                rest /= 36;
            }
        };
        put(upper << 2 | lower >> 62, 0..8);
        put(lower & u64::MAX >> 2, 8..20);
        out.iter().map(|&b| char::from(b)).collect()
    }

    #[test]
    fn a_session_id_survives_encoding() {
        for (upper, lower) in [
            (0, 1),
            (0x1234_5678, 0xfedc_ba98_7654_3210),
            (1 << 38, u64::MAX),
        ] {
            let text = encode_session(upper, lower);
            assert_eq!(text.len(), 20);
            assert_eq!(decode_session(&text), Some((upper, lower)), "{text}");
        }
        assert_eq!(decode_session("F2JAEHDH6WS1ADNSNBH!"), None);
        assert_eq!(decode_session("ADNSNBHM1234"), None);
    }

    #[test]
    fn a_malformed_session_still_has_an_id() {
        assert_ne!(unique_id("db", "", 7), [0, 0]);
        assert_ne!(unique_id("db", "", 7), unique_id("db", "", 8));
    }
}
