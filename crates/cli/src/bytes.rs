//! Keys and values as text, both ways.
//!
//! Output is plain ASCII: printable bytes stand for themselves, a backslash is doubled, tab, line
//! feed and carriage return are `\t`, `\n`, `\r`, every other byte is `\xNN`, and so is the first of a
//! text that begins with `0x`. Input understands the
//! same, takes other characters as their UTF-8 bytes, and `0x…` as hexadecimal; what is shown can
//! therefore be given back. With `--hex` both directions are bare hexadecimal.

use crate::fail::Usage;

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
    let cut = bytes.get(..max).unwrap_or(bytes);
    let mut text = show(cut, false);
    if text.len() > max || bytes.len() > max {
        text.truncate(max);
        text.push('…');
    }
    text
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
    }
}
