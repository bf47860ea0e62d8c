//! Describes what the engine refuses with, and whether `docs/operations.md` knows the way out.

use std::path::{Path, PathBuf};

/// Constructors of errors that are no damage.
const KINDS: [&str; 6] = [
    "not_supported",
    "invalid_argument",
    "busy",
    "incomplete",
    "aborted",
    "try_again",
];

fn sources(dir: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && name != "tests" {
            sources(&path, out);
        } else if name.ends_with(".rs") && name != "tests.rs" && name != "double.rs" {
            out.push(path);
        }
    }
}

/// The string literal that an expression begins with, perhaps within `format!`.
fn literal(text: &str) -> Option<String> {
    let text = text.trim_start();
    let text = text.strip_prefix('&').unwrap_or(text);
    let text = match text.strip_prefix("format!(") {
        Some(inner) => inner.trim_start(),
        None => text,
    };
    let mut out = String::new();
    let mut chars = text.strip_prefix('"')?.chars().peekable();
    loop {
        match chars.next()? {
            '"' => return Some(out),
            '\\' => match chars.next()? {
                // The line goes on after its indentation.
                '\n' => while chars.next_if(|c| c.is_whitespace()).is_some() {},
                'n' => out.push(' '),
                c => out.push(c),
            },
            c => out.push(c),
        }
    }
}

/// The longest part of a text between the places where names and numbers are put in.
fn fixed(text: &str) -> &str {
    let parts = text.split('{').enumerate().map(|(n, part)| match n {
        0 => part,
        _ => part.split_once('}').map_or("", |(_, rest)| rest),
    });
    parts.max_by_key(|p| p.len()).unwrap_or("").trim()
}

#[test]
fn every_refusal_of_the_engine_has_its_way_out() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let known = std::fs::read_to_string(root.join("docs/operations.md")).unwrap();
    let mut files = Vec::new();
    sources(&root.join("crates/engine/src"), &mut files);
    let (mut found, mut missing) = (0, Vec::new());
    for file in &files {
        let text = std::fs::read_to_string(file).unwrap();
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        for kind in KINDS {
            for after in code.split(&format!("Error::{kind}(")).skip(1) {
                let Some(text) = literal(after) else { continue };
                let part = fixed(&text);
                // A text that is put together from an option's name has a row of its own.
                if part.len() < 4 {
                    continue;
                }
                found += 1;
                if !known.contains(part) {
                    missing.push(format!("{}: {kind}: {part}", file.display()));
                }
            }
        }
    }
    assert!(found > 80, "{found}");
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}
