//! Bytes that are nearly always text, as text, and back without loss.
//!
//! RocksDB takes any bytes for the name of a family; here names are strings. A byte that does not belong to
//! UTF-8 becomes one of 256 code points at the end of the last private plane, and bytes that spell one of these
//! code points become four of them, so that each byte sequence has a text of its own.

use std::borrow::Cow;

/// The code point of byte 0.
const FIRST: u32 = 0x0010_FF00;
/// First byte of the encoding of that code point and of the 255 after it.
const FIRST_UTF8_BYTE: u8 = 0xf4;

/// The byte that a code point stands for.
fn byte_of(c: char) -> Option<u8> {
    u8::try_from(u32::from(c).wrapping_sub(FIRST)).ok()
}

/// The text of some bytes; what is UTF-8 is itself.
pub fn text_of_bytes(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    let push_bytes = |text: &mut String, bytes: &[u8]| {
        let chars = bytes.iter().map(|&b| FIRST + u32::from(b));
        text.extend(chars.filter_map(char::from_u32));
    };
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match byte_of(c) {
                None => text.push(c),
                Some(_) => push_bytes(&mut text, c.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        push_bytes(&mut text, chunk.invalid());
    }
    text
}

/// The bytes of a text.
pub fn bytes_of_text(text: &str) -> Cow<'_, [u8]> {
    // The encoding of all 256 code points begins with this byte, which few texts have.
    let may_have_some = text.as_bytes().contains(&FIRST_UTF8_BYTE);
    if !may_have_some || !text.chars().any(|c| byte_of(c).is_some()) {
        return Cow::Borrowed(text.as_bytes());
    }
    let mut bytes = Vec::with_capacity(text.len());
    for c in text.chars() {
        match byte_of(c) {
            Some(byte) => bytes.push(byte),
            None => bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    Cow::Owned(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_bytes_have_a_text_of_their_own_and_come_back() {
        let mut rng = 7_u64;
        let mut seen = std::collections::BTreeMap::new();
        let special = [0xf4, 0x8f, 0xbf, 0xbe, 0xbc, 0x80, 0xff, b'a', 0xc3, 0xa9];
        for round in 0..20_000 {
            let mut bytes = Vec::new();
            for _ in 0..round % 9 {
                rng = rng.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                bytes.push(special[(rng >> 33) as usize % special.len()]);
            }
            let text = text_of_bytes(&bytes);
            assert_eq!(*bytes_of_text(&text), bytes[..], "{text:?}");
            if let Some(other) = seen.insert(text, bytes.clone()) {
                assert_eq!(other, bytes);
            }
        }
        assert_eq!(text_of_bytes("a é 語".as_bytes()), "a é 語");
        assert_eq!(*bytes_of_text("a é 語"), *"a é 語".as_bytes());
        assert_eq!(text_of_bytes(b"\xff\xfe").chars().count(), 2);
        let spelled = "\u{10ff41}";
        assert_eq!(text_of_bytes(spelled.as_bytes()).chars().count(), 4);
    }
}
