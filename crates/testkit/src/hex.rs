//! Bytes as text and back.

/// `bytes` as lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

/// The bytes that `text` spells in hexadecimal; `None` if it is not hexadecimal or of odd length.
/// White space between bytes is allowed.
pub fn unhex(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 2);
    for word in text.split_ascii_whitespace() {
        let digits = word.as_bytes();
        if digits.len() % 2 != 0 {
            return None;
        }
        for pair in digits.chunks(2) {
            let high = char::from(pair[0]).to_digit(16)?;
            let low = char::from(pair[1]).to_digit(16)?;
            bytes.push((high * 16 + low) as u8);
        }
    }
    Some(bytes)
}

/// `bytes` for a person: printable ASCII as it is, the rest as `\xNN`; cut after 64 bytes with the
/// full length after it. Empty bytes are `""`.
pub fn printable(bytes: &[u8]) -> String {
    const SHOWN_MAX: usize = 64;
    let mut text = String::new();
    for byte in bytes.iter().take(SHOWN_MAX) {
        match byte {
            b'\\' => text.push_str("\\\\"),
            b' '..=b'~' => text.push(char::from(*byte)),
            _ => text.push_str(&format!("\\x{byte:02x}")),
        }
    }
    if bytes.is_empty() {
        text.push_str("\"\"");
    } else if bytes.len() > SHOWN_MAX {
        text.push_str(&format!("...({} bytes)", bytes.len()));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_goes_there_and_back() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(unhex(&hex(&all)), Some(all));
        assert_eq!(hex(&[0x0f, 0xf0]), "0ff0");
        assert_eq!(unhex("0FF0 01\n"), Some(vec![0x0f, 0xf0, 0x01]));
        assert_eq!(unhex(""), Some(vec![]));
    }

    #[test]
    fn what_is_not_hexadecimal_has_no_bytes() {
        for text in ["0", "0g", "00 0", "é0"] {
            assert_eq!(unhex(text), None, "{text}");
        }
    }

    #[test]
    fn text_for_people_shows_every_byte_and_is_cut() {
        assert_eq!(printable(b""), "\"\"");
        assert_eq!(printable(b"a\\b\x00\xff"), "a\\\\b\\x00\\xff");
        assert_eq!(
            printable(&[b'x'; 65]),
            format!("{}...(65 bytes)", "x".repeat(64))
        );
    }
}
