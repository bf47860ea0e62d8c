//! Golden scripts: commands with the exact output that they must give.
//!
//! ```text
//! # A comment; kept when the file is rewritten.
//! define level=0
//! first line of input
//! ----
//! first line of output
//!
//! pick
//! ----
//! ----
//! output that holds
//!
//! an empty line
//! ----
//! ----
//! ```
//!
//! A case is a directive line, input lines up to `----`, output lines up to an empty line or the end
//! of the file. Output that contains an empty line or a line `----` stands between doubled `----`.
//! Empty lines and comments (`#` in the first column) between cases are kept. With `BLESS=1` the
//! file is rewritten with the output of this run, and the difference is what a reviewer reads.
//!
//! The runner compares text only. What a directive means is the test's business; [`Directive`]
//! splits the usual `name word key=value` form.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

/// Runs the script at `path`: `run` is called once per case with its directive line and its input
/// (lines joined by `\n`, without a final one), and returns the output.
///
/// # Panics
/// If the script cannot be read or is malformed, or if any output differs; all differences are
/// listed. With `BLESS=1` in the environment the script is rewritten instead.
pub fn run_golden(path: impl AsRef<Path>, mut run: impl FnMut(&str, &str) -> String) {
    let path = path.as_ref();
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let items = parse(&text).unwrap_or_else(|e| panic!("{}:{e}", path.display()));
    let mut rewritten = String::new();
    let mut differences = String::new();
    for item in &items {
        match item {
            Item::Kept(line) => {
                rewritten.push_str(line);
                rewritten.push('\n');
            }
            Item::Case {
                line,
                directive,
                input,
                expected,
            } => {
                let actual = normalise(&run(directive, input));
                if actual != *expected {
                    let _ = write!(
                        differences,
                        "\n{}:{line}: {directive}\n--- expected\n{expected}\n--- actual\n{actual}\n",
                        path.display()
                    );
                }
                render(&mut rewritten, directive, input, &actual);
            }
        }
    }
    if differences.is_empty() {
        return;
    }
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(path, rewritten).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        return;
    }
    panic!("output differs (BLESS=1 rewrites the script){differences}");
}

/// A directive line taken apart: `name word word key=value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directive {
    /// The first word.
    pub name: String,
    /// The words without `=`, in order.
    pub words: Vec<String>,
    /// The words of the form `key=value`.
    pub values: BTreeMap<String, String>,
}

impl Directive {
    /// Splits `line` at white space.
    pub fn parse(line: &str) -> Directive {
        let mut all = line.split_whitespace();
        let name = all.next().unwrap_or_default().to_string();
        let (mut words, mut values) = (Vec::new(), BTreeMap::new());
        for word in all {
            match word.split_once('=') {
                Some((key, value)) => {
                    values.insert(key.to_string(), value.to_string());
                }
                None => words.push(word.to_string()),
            }
        }
        Directive {
            name,
            words,
            values,
        }
    }

    /// The value of `key`, parsed; `None` if it is not given.
    ///
    /// # Panics
    /// If it is given and does not parse.
    pub fn value<T: std::str::FromStr>(&self, key: &str) -> Option<T> {
        self.values.get(key).map(|text| {
            text.parse()
                .unwrap_or_else(|_| panic!("{}: {key}={text} does not parse", self.name))
        })
    }
}

enum Item {
    /// An empty line or a comment between cases.
    Kept(String),
    Case {
        line: usize,
        directive: String,
        input: String,
        expected: String,
    },
}

const MARK: &str = "----";

fn parse(text: &str) -> Result<Vec<Item>, String> {
    let mut items = Vec::new();
    let mut lines = text
        .lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line))
        .peekable();
    while let Some((number, line)) = lines.next() {
        if line.trim().is_empty() || line.starts_with('#') {
            items.push(Item::Kept(line.trim_end().to_string()));
            continue;
        }
        if line == MARK {
            return Err(format!("{number}: output without a directive"));
        }
        let mut input = Vec::new();
        loop {
            match lines.next() {
                Some((_, MARK)) => break,
                Some((_, text)) => input.push(text),
                None => return Err(format!("{number}: directive without {MARK}")),
            }
        }
        let mut expected: Vec<&str> = Vec::new();
        if lines.next_if(|(_, text)| *text == MARK).is_some() {
            loop {
                match lines.next() {
                    Some((_, MARK)) if lines.next_if(|(_, text)| *text == MARK).is_some() => break,
                    Some((_, text)) => expected.push(text),
                    None => return Err(format!("{number}: output without its closing marks")),
                }
            }
        } else {
            while let Some((_, text)) = lines.next_if(|(_, text)| !text.is_empty()) {
                expected.push(text);
            }
        }
        items.push(Item::Case {
            line: number,
            directive: line.to_string(),
            input: input.join("\n"),
            expected: expected.join("\n"),
        });
    }
    Ok(items)
}

/// Cuts white space at the ends of lines and empty lines at the end: editors remove both.
fn normalise(output: &str) -> String {
    let lines: Vec<&str> = output.lines().map(str::trim_end).collect();
    lines.join("\n").trim_end_matches('\n').to_string()
}

fn render(text: &mut String, directive: &str, input: &str, output: &str) {
    text.push_str(directive);
    text.push('\n');
    if !input.is_empty() {
        text.push_str(input);
        text.push('\n');
    }
    text.push_str(MARK);
    text.push('\n');
    let doubled = output.lines().any(|line| line.is_empty() || line == MARK);
    if doubled {
        let _ = writeln!(text, "{MARK}\n{output}\n{MARK}\n{MARK}");
    } else if !output.is_empty() {
        let _ = writeln!(text, "{output}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCRIPT: &str = "\
# Upper-cases its input.
up
one
two
----
ONE
TWO

# Nothing in, nothing out.
none
----

gap x y=2
----
----
a

----
b
----
----
";

    fn answer(directive: &str, input: &str) -> String {
        match Directive::parse(directive).name.as_str() {
            "up" => input.to_uppercase(),
            "none" => String::new(),
            "gap" => "a  \n\n----\nb\n\n".to_string(),
            other => panic!("unknown directive {other}"),
        }
    }

    fn rewrite(text: &str, mut run: impl FnMut(&str, &str) -> String) -> String {
        let mut out = String::new();
        for item in parse(text).unwrap() {
            match item {
                Item::Kept(line) => out.push_str(&format!("{line}\n")),
                Item::Case {
                    directive, input, ..
                } => {
                    let output = normalise(&run(&directive, &input));
                    render(&mut out, &directive, &input, &output);
                }
            }
        }
        out
    }

    #[test]
    fn a_script_with_the_right_output_passes_and_is_rewritten_as_it_is() {
        let dir = crate::TempDir::new("golden");
        std::fs::write(dir.join("script.txt"), SCRIPT).unwrap();
        run_golden(dir.join("script.txt"), answer);
        assert_eq!(rewrite(SCRIPT, answer), SCRIPT);
    }

    #[test]
    fn a_difference_names_file_line_and_both_texts() {
        let dir = crate::TempDir::new("golden");
        std::fs::write(dir.join("script.txt"), SCRIPT.replace("TWO", "THREE")).unwrap();
        let path = dir.join("script.txt");
        let message = std::panic::catch_unwind(|| run_golden(&path, answer)).unwrap_err();
        let message = message.downcast_ref::<String>().unwrap();
        assert!(message.contains("script.txt:2: up"), "{message}");
        assert!(
            message.contains("THREE") && message.contains("TWO"),
            "{message}"
        );
        assert_eq!(rewrite(&SCRIPT.replace("TWO", "THREE"), answer), SCRIPT);
    }

    #[test]
    fn a_malformed_script_is_refused_with_its_line() {
        for (text, reason) in [
            ("----\n", "1: output without a directive"),
            ("\nup\none\n", "2: directive without ----"),
            ("up\n----\n----\nx\n", "1: output without its closing marks"),
        ] {
            assert_eq!(parse(text).err().as_deref(), Some(reason));
        }
    }

    #[test]
    fn a_directive_falls_into_words_and_values() {
        let directive = Directive::parse("pick  L0 l0_trigger=4 with=a=b");
        assert_eq!(directive.name, "pick");
        assert_eq!(directive.words, ["L0"]);
        assert_eq!(directive.value::<u32>("l0_trigger"), Some(4));
        assert_eq!(directive.value::<String>("with").as_deref(), Some("a=b"));
        assert_eq!(directive.value::<u32>("absent"), None);
    }
}
