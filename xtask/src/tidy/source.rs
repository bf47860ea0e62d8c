//! Rust source as the rules see it: the same text with comments, strings and characters blanked out,
//! line by line, and the stretches that belong to tests.

use std::ops::Range;

/// One Rust file.
pub struct Source {
    /// The text as it is.
    text: String,
    /// As long as the text; comments, strings and characters are spaces, line ends are kept.
    code: String,
    /// Stretches of `code` under `#[cfg(test)]`.
    tests: Vec<Range<usize>>,
}

impl Source {
    /// Reads `text`.
    pub fn parse(text: &str) -> Source {
        let code = blank(text);
        let tests = test_ranges(&code);
        Source {
            text: text.to_string(),
            code,
            tests,
        }
    }

    /// The text as it is.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The text without comments and literals.
    pub fn code(&self) -> &str {
        &self.code
    }

    /// The line (from 1) of the byte at `position`.
    pub fn line(&self, position: usize) -> usize {
        1 + self.code.as_bytes()[..position]
            .iter()
            .filter(|byte| **byte == b'\n')
            .count()
    }

    /// Returns whether the byte at `position` belongs to code under `#[cfg(test)]`.
    pub fn in_test(&self, position: usize) -> bool {
        self.tests.iter().any(|range| range.contains(&position))
    }

    /// Number of lines.
    pub fn lines(&self) -> usize {
        self.text.lines().count()
    }

    /// Number of lines outside `#[cfg(test)]`.
    pub fn lines_without_tests(&self) -> usize {
        let inside: usize = self
            .tests
            .iter()
            .map(|r| self.line(r.end.min(self.code.len())) - self.line(r.start))
            .sum();
        self.lines().saturating_sub(inside)
    }

    /// Names of the modules declared as `#[cfg(test)] mod name;`.
    pub fn test_module_files(&self) -> Vec<String> {
        let mut names = Vec::new();
        for range in &self.tests {
            let item = self.code[range.clone()].trim_end();
            let Some(declaration) = item.strip_suffix(';') else {
                continue;
            };
            let mut words = declaration.split_whitespace().rev();
            if let (Some(name), Some("mod")) = (words.next(), words.next()) {
                names.push(name.to_string());
            }
        }
        names
    }

    /// Positions of `needle` in the code, as whole words at those ends that are word characters.
    pub fn find(&self, needle: &str) -> Vec<usize> {
        find_words(&self.code, needle)
    }
}

/// Positions of `needle` in `text` that are not part of a longer word.
pub fn find_words(text: &str, needle: &str) -> Vec<usize> {
    let word = |c: char| c.is_alphanumeric() || c == '_';
    let starts = needle.starts_with(word);
    let ends = needle.ends_with(word);
    let fits = |at: usize| {
        let before = text[..at].chars().next_back().is_some_and(word);
        let after = text[at + needle.len()..].chars().next().is_some_and(word);
        !(starts && before || ends && after)
    };
    text.match_indices(needle)
        .map(|(at, _)| at)
        .filter(|at| fits(*at))
        .collect()
}

/// Replaces every byte of comments and literals with a space.
fn blank(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    let mut after_word = false;
    while at < bytes.len() {
        let end = literal_end(bytes, at, after_word);
        if end > at {
            for byte in &mut out[at..end] {
                if *byte != b'\n' {
                    *byte = b' ';
                }
            }
            after_word = false;
            at = end;
        } else {
            after_word = bytes[at] == b'_' || bytes[at].is_ascii_alphanumeric();
            at += 1;
        }
    }
    // Bytes beyond ASCII are left whole or blanked whole, because literals end at ASCII bytes.
    String::from_utf8(out).expect("blanking keeps UTF-8 whole")
}

/// The end of the comment or literal that begins at `at`; `at` if none begins there.
fn literal_end(bytes: &[u8], at: usize, after_word: bool) -> usize {
    let rest = &bytes[at..];
    if rest.starts_with(b"//") {
        return rest
            .iter()
            .position(|b| *b == b'\n')
            .map_or(bytes.len(), |n| at + n);
    }
    if rest.starts_with(b"/*") {
        return block_comment_end(bytes, at);
    }
    if rest[0] == b'"' {
        return string_end(bytes, at + 1);
    }
    if rest[0] == b'\'' {
        return character_end(bytes, at);
    }
    if after_word {
        return at;
    }
    // b"", c"", r"", br"", cr"", with # before the quote in the raw forms, and b''.
    let prefix = rest
        .iter()
        .take_while(|b| matches!(b, b'b' | b'c' | b'r'))
        .count();
    if prefix == 0 || prefix > 2 {
        return at;
    }
    let raw = rest[..prefix].contains(&b'r');
    let hashes = rest[prefix..].iter().take_while(|b| **b == b'#').count();
    match rest.get(prefix + hashes) {
        Some(b'"') if raw => {
            let mut close = vec![b'"'];
            close.resize(1 + hashes, b'#');
            let start = at + prefix + hashes + 1;
            let found = bytes[start..].windows(close.len()).position(|w| w == close);
            found.map_or(bytes.len(), |n| start + n + close.len())
        }
        Some(b'"') if hashes == 0 => string_end(bytes, at + prefix + 1),
        Some(b'\'') if hashes == 0 && rest[..prefix] == *b"b" => character_end(bytes, at + 1),
        _ => at,
    }
}

fn block_comment_end(bytes: &[u8], mut at: usize) -> usize {
    let mut depth = 0;
    while at < bytes.len() {
        if bytes[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if bytes[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                break;
            }
        } else {
            at += 1;
        }
    }
    at
}

fn string_end(bytes: &[u8], mut at: usize) -> usize {
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// The end of a character literal at `at`, or `at` for a lifetime.
fn character_end(bytes: &[u8], at: usize) -> usize {
    let rest = &bytes[at + 1..];
    let inside = match rest.first() {
        // The character after the backslash cannot end the literal.
        Some(b'\\') => 2,
        Some(first) => match first {
            0x00..=0x7f => 1,
            0xc0..=0xdf => 2,
            0xe0..=0xef => 3,
            _ => 4,
        },
        None => return at,
    };
    if rest.first() == Some(&b'\\') {
        let close = rest[inside.min(rest.len())..]
            .iter()
            .position(|b| *b == b'\'');
        return close.map_or(at, |n| at + 1 + inside + n + 1);
    }
    if rest.get(inside) == Some(&b'\'') {
        at + 1 + inside + 1
    } else {
        at
    }
}

/// The stretches under an attribute `cfg` that names `test`, from the attribute to the end of its
/// item.
fn test_ranges(code: &str) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for (at, _) in code.match_indices("#[cfg(") {
        if ranges.last().is_some_and(|last| last.contains(&at)) {
            continue;
        }
        let close = match code[at..].find(']') {
            Some(n) => at + n,
            None => continue,
        };
        let condition = code[at + "#[cfg(".len()..close].replace("not(test)", "");
        if find_words(&condition, "test").is_empty() {
            continue;
        }
        ranges.push(at..item_end(code, close + 1));
    }
    ranges
}

/// The end of the item that begins at `at`: its `;`, or the brace that closes its first one.
fn item_end(code: &str, at: usize) -> usize {
    let mut depth = 0_usize;
    for (n, byte) in code.bytes().enumerate().skip(at) {
        match byte {
            b';' if depth == 0 => return n + 1,
            b'{' => depth += 1,
            b'}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return n + 1;
                }
            }
            _ => {}
        }
    }
    code.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_disappear_and_positions_stay() {
        let text = "a // x\n\"x\\\"x\" b r#\"x\"x\"# c 'x' d '\\'' e /* x /* x */ x */ f b'x' b\"x\" 'g h<'g>";
        let code = blank(text);
        assert_eq!(code.len(), text.len());
        assert!(!code.contains('x'), "{code}");
        let left: Vec<&str> = code.split_whitespace().collect();
        assert_eq!(left, ["a", "b", "c", "d", "e", "f", "'g", "h<'g>"]);
    }

    #[test]
    fn names_that_end_like_a_prefix_do_not_swallow_a_string() {
        assert_eq!(blank("attr\"x\" y").trim_end(), "attr    y");
        assert_eq!(
            blank("abc'x' 'é' y").split_whitespace().collect::<Vec<_>>(),
            ["abc", "y"]
        );
    }

    #[test]
    fn test_modules_are_found_with_their_braces() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n fn b() { \"}\" }\n}\nfn c() {}\n";
        let source = Source::parse(text);
        assert!(!source.in_test(text.find("fn a").unwrap()));
        assert!(source.in_test(text.find("fn b").unwrap()));
        assert!(!source.in_test(text.find("fn c").unwrap()));
        assert_eq!((source.lines(), source.lines_without_tests()), (6, 3));
    }

    #[test]
    fn conditions_that_only_mention_test_in_not_are_no_tests() {
        for (condition, test) in [
            ("test", true),
            ("all(test, loom)", true),
            ("any(test, feature = \"x\")", true),
            ("not(test)", false),
            ("feature = \"test\"", false),
            ("loom", false),
        ] {
            let source = Source::parse(&format!("#[cfg({condition})]\nfn a() {{ b }}\n"));
            assert_eq!(
                source.in_test(source.code().find('b').unwrap()),
                test,
                "{condition}"
            );
        }
    }

    #[test]
    fn words_are_found_whole() {
        assert_eq!(
            find_words("unsafe unsafe_code not_unsafe unsafe{", "unsafe"),
            [0, 30]
        );
        assert_eq!(find_words("a::b a::bc xa::b", "a::b"), [0]);
        assert_eq!(find_words("dbg!(x) xdbg!(y)", "dbg!("), [0]);
    }
}
