//! Keys and values as text, both ways.
//!
//! Bytes that are UTF-8 are shown as text: printable characters stand for themselves, a backslash is
//! doubled, tab, line feed and carriage return are `\t`, `\n`, `\r`, the bytes of other control
//! characters, and of characters that reorder or hide text, are `\xNN`, and so is the first of a text
//! that begins with `0x`. Of bytes that are not UTF-8 every one outside printable ASCII is `\xNN`. Input
//! understands the same, takes other characters as their UTF-8 bytes and, on the command line, `0x…` as
//! hexadecimal; what is shown can therefore be given back. With `--hex` both directions are bare
//! hexadecimal. In JSON bytes are a string where they are UTF-8, else `{"hex": "…"}` ([`json`]).

use crate::fail::Usage;
use serde_json::Value;

/// Lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    let mut out = Vec::with_capacity(bytes.len() * 2);
    push_hex(&mut out, bytes);
    String::from_utf8(out).unwrap_or_default()
}

/// Appends lower-case hexadecimal.
pub fn push_hex(out: &mut Vec<u8>, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.reserve(bytes.len() * 2);
    for b in bytes {
        out.push(DIGITS[usize::from(b >> 4)]);
        out.push(DIGITS[usize::from(b & 15)]);
    }
}

/// Appends the escaped form.
pub fn push_escaped(out: &mut Vec<u8>, mut bytes: &[u8]) {
    // Else it would be read back as hexadecimal.
    if let (true, Some(rest)) = (bytes.starts_with(b"0x"), bytes.get(1..)) {
        out.extend_from_slice(b"\\x30");
        bytes = rest;
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => {
            let mut utf8 = [0; 4];
            for c in text.chars() {
                match (c.is_ascii(), is_shown(c)) {
                    (false, true) => out.extend_from_slice(c.encode_utf8(&mut utf8).as_bytes()),
                    _ => push_bytes(out, c.encode_utf8(&mut utf8).as_bytes()),
                }
            }
        }
        Err(_) => push_bytes(out, bytes),
    }
}

/// Appends printable ASCII as it is and all other bytes escaped.
fn push_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    for &b in bytes {
        match b {
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            0x20..=0x7e => out.push(b),
            _ => {
                out.extend_from_slice(b"\\x");
                push_hex(out, &[b]);
            }
        }
    }
}

/// Returns whether a character can be printed: no control character, and none that reorders, hides or breaks the text
/// around it.
fn is_shown(c: char) -> bool {
    let hides = matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}');
    !c.is_control() && !hides
}

/// Bytes in JSON: a string where they are UTF-8, else, and where hexadecimal is asked for, `{"hex": "…"}`.
pub fn json(bytes: &[u8], as_hex: bool) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) if !as_hex => text.into(),
        _ => serde_json::json!({ "hex": hex(bytes) }),
    }
}

/// Appends bytes in the form asked for.
pub fn push(out: &mut Vec<u8>, bytes: &[u8], as_hex: bool) {
    if as_hex {
        push_hex(out, bytes)
    } else {
        push_escaped(out, bytes)
    }
}

/// Bytes in the form asked for.
pub fn show(bytes: &[u8], as_hex: bool) -> String {
    let mut out = Vec::with_capacity(bytes.len());
    push(&mut out, bytes, as_hex);
    String::from_utf8(out).unwrap_or_default()
}

/// As [`show`] in escaped form, cut after `max` characters.
pub fn show_short(bytes: &[u8], max: usize) -> String {
    // Four bytes are one character at most.
    let mut cut = bytes.get(..max.saturating_mul(4)).unwrap_or(bytes);
    if let Err(e) = std::str::from_utf8(cut)
        && e.error_len().is_none()
        && cut.len() < bytes.len()
    {
        // The cut went through a character.
        cut = &cut[..e.valid_up_to()];
    }
    let text = show(cut, false);
    match text.char_indices().nth(max) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None if cut.len() < bytes.len() => format!("{text}…"),
        None => text,
    }
}

/// Reads a key or value the user typed.
///
/// # Errors
/// [`Usage`] that says what is wrong and how to write it.
pub fn parse(text: &str, as_hex: bool) -> Result<Vec<u8>, Usage> {
    if as_hex {
        let digits = text.strip_prefix("0x").unwrap_or(text);
        return unhex(digits).ok_or_else(|| {
            Usage::new(
                format!("'{text}' is not hexadecimal"),
                "with --hex give an even number of digits 0-9 a-f, or leave --hex out",
            )
        });
    }
    match text.strip_prefix("0x") {
        Some(digits) => unhex(digits).ok_or_else(|| {
            Usage::new(
                format!("'{text}' begins with 0x but is not hexadecimal"),
                format!("for the text itself write '\\x30{}'", &text[1..]),
            )
        }),
        None => unescape(text.as_bytes()),
    }
}

/// Reads a key or value of a line of text: as [`parse`], but `0x…` is text like any other, as `ldb load` takes it.
///
/// # Errors
/// As [`parse`].
pub fn parse_line(text: &str, as_hex: bool) -> Result<Vec<u8>, Usage> {
    match as_hex {
        true => parse(text, true),
        false => unescape(text.as_bytes()),
    }
}

fn unhex(digits: &str) -> Option<Vec<u8>> {
    let digits = digits.as_bytes();
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    digits
        .chunks(2)
        .map(|p| Some(nibble(p[0])? << 4 | nibble(p[1])?))
        .collect()
}

fn nibble(c: u8) -> Option<u8> {
    char::from(c)
        .to_digit(16)
        .and_then(|d| u8::try_from(d).ok())
}

fn unescape(text: &[u8]) -> Result<Vec<u8>, Usage> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first != b'\\' {
            out.push(*first);
            continue;
        }
        rest = match tail {
            [b'\\', t @ ..] => pushed(&mut out, b'\\', t),
            [b't', t @ ..] => pushed(&mut out, b'\t', t),
            [b'n', t @ ..] => pushed(&mut out, b'\n', t),
            [b'r', t @ ..] => pushed(&mut out, b'\r', t),
            [b'0', t @ ..] => pushed(&mut out, 0, t),
            [b'x', a, b, t @ ..] => match (nibble(*a), nibble(*b)) {
                (Some(a), Some(b)) => pushed(&mut out, a << 4 | b, t),
                _ => return Err(bad_escape(text)),
            },
            _ => return Err(bad_escape(text)),
        };
    }
    Ok(out)
}

fn pushed<'a>(out: &mut Vec<u8>, byte: u8, rest: &'a [u8]) -> &'a [u8] {
    out.push(byte);
    rest
}

fn bad_escape(text: &[u8]) -> Usage {
    Usage::new(
        format!("unknown escape in '{}'", String::from_utf8_lossy(text)),
        "escapes are \\\\ \\t \\n \\r \\0 \\xNN; or give hexadecimal as 0x…",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_looks_like_hexadecimal_comes_back_as_it_was() {
        for text in [&b"0xab"[..], b"0x", b"0", b"x0", b"0y", b"\\x30", b"@0xab"] {
            let shown = show(text, false);
            assert_eq!(parse(&shown, false).ok().as_deref(), Some(text), "{shown}");
        }
    }

    #[test]
    fn utf8_is_shown_as_text_and_other_bytes_are_escaped() {
        assert_eq!(show("ключ\tZürich".as_bytes(), false), "ключ\\tZürich");
        assert_eq!(show(b"\xd0\xba\xff", false), "\\xd0\\xba\\xff");
        // A mark that turns the direction of text, and an escape sequence of a terminal.
        assert_eq!(
            show("a\u{202e}b\u{1b}[1m\u{85}".as_bytes(), false),
            "a\\xe2\\x80\\xaeb\\x1b[1m\\xc2\\x85"
        );
        for text in ["ключ", "a\u{202e}b", "0xключ", "\u{feff}"] {
            let shown = show(text.as_bytes(), false);
            assert_eq!(parse(&shown, false).unwrap(), text.as_bytes(), "{shown}");
            assert_eq!(parse_line(&shown, false).unwrap(), text.as_bytes());
        }
    }

    #[test]
    fn bytes_have_one_form_in_json() {
        assert_eq!(json("a\t\\ключ".as_bytes(), false), "a\t\\ключ");
        assert_eq!(json(b"0xab", false), "0xab");
        assert_eq!(json(b"a\xff", false), serde_json::json!({ "hex": "61ff" }));
        assert_eq!(json(b"a", true), serde_json::json!({ "hex": "61" }));
    }

    #[test]
    fn a_line_of_text_is_hexadecimal_only_if_that_is_asked_for() {
        assert_eq!(parse_line("0xdAC1", false).unwrap(), b"0xdAC1");
        assert_eq!(parse_line("0xzz", false).unwrap(), b"0xzz");
        assert_eq!(parse_line("0xdAC1", true).unwrap(), [0xda, 0xc1]);
        assert_eq!(parse("0xdAC1", false).unwrap(), [0xda, 0xc1]);
    }

    #[test]
    fn what_is_shown_can_be_given_back() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(parse(&show(&all, false), false).unwrap(), all);
        assert_eq!(parse(&show(&all, true), true).unwrap(), all);
        assert_eq!(show(b"a\\\t\x00\xff", false), "a\\\\\\t\\x00\\xff");
        assert_eq!(show(b"", true), "");
    }

    #[test]
    fn hexadecimal_needs_no_flag_with_a_prefix() {
        assert_eq!(parse("0x00fF", false).unwrap(), [0, 255]);
        assert_eq!(parse("0x", false).unwrap(), b"");
        assert_eq!(parse("\\x30x12", false).unwrap(), b"0x12");
        assert_eq!(parse("Zürich", false).unwrap(), "Zürich".as_bytes());
    }

    #[test]
    fn bad_text_is_refused_with_the_way_to_write_it() {
        let e = parse("0xyz", false).unwrap_err();
        assert_eq!(e.hint(), "for the text itself write '\\x30xyz'");
        for bad in ["\\", "\\q", "\\x1", "\\x+1"] {
            assert!(parse(bad, false).is_err(), "{bad}");
        }
        for bad in ["1", "zz", "é", "+1"] {
            assert!(parse(bad, true).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_long_value_is_cut() {
        assert_eq!(show_short(b"abcdef", 3), "abc…");
        assert_eq!(show_short(b"abc", 3), "abc");
        assert_eq!(show_short(&[0; 9], 4), "\\x00…");
        assert_eq!(show_short("ключи".as_bytes(), 4), "ключ…");
        assert_eq!(show_short("ключ".as_bytes(), 4), "ключ");
        assert_eq!(show_short("€€€€€€€€".as_bytes(), 3), "€€€…");
        assert_eq!(show_short("aé".as_bytes(), 0), "…");
    }
}
