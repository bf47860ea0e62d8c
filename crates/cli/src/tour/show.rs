//! Describes what the tour prints, and the summary it collects.

use crate::term::Paint;
use serde_json::{Map, Value, json};
use std::io::Write;
use std::process::ExitCode;

/// Prints steps and collects results. With JSON the text goes to standard error.
pub struct Show {
    json: bool,
    paint: Paint,
    steps: u32,
    problems: Vec<String>,
    summary: Map<String, Value>,
}

impl Show {
    pub fn new(json: bool) -> Self {
        let paint = if json {
            Paint::stderr()
        } else {
            Paint::stdout()
        };
        Self {
            json,
            paint,
            steps: 0,
            problems: Vec::new(),
            summary: Map::new(),
        }
    }

    /// The colours in use.
    pub fn paint(&self) -> Paint {
        self.paint
    }

    /// Breaks a line between words where the terminal would break it anywhere.
    fn put_wrapped(&self, line: &str) {
        match crate::term::size().filter(|_| !self.json) {
            Some((columns, _)) => wrapped(line, columns).iter().for_each(|l| self.put(l)),
            None => self.put(line),
        }
    }

    fn put(&self, line: &str) {
        // Nobody may be reading any more; the tour goes on for its own sake.
        let _ = if self.json {
            writeln!(std::io::stderr(), "{line}")
        } else {
            let mut out = std::io::stdout().lock();
            writeln!(out, "{line}").and_then(|()| out.flush())
        };
    }

    /// The first line.
    pub fn title(&self, text: &str) {
        self.put(&self.paint.bold(text));
    }

    /// Begins a step.
    pub fn step(&mut self, title: &str) {
        self.steps += 1;
        self.put(&format!(
            "\n{}",
            self.paint.cyan(format!("{}. {title}", self.steps))
        ));
    }

    /// A line of the step.
    pub fn say(&self, text: &str) {
        self.put_wrapped(&format!("   {text}"));
    }

    /// A line in the background.
    pub fn dim(&self, text: &str) {
        self.put(&format!("   {}", self.paint.dim(text)));
    }

    /// A command to copy.
    pub fn command(&self, what: &str, command: &str) {
        self.put(&format!("   {what:14} {}", self.paint.bold(command)));
    }

    /// Something that must hold: `ok` or a problem.
    pub fn verdict(&mut self, ok: bool, text: &str) {
        if ok {
            self.put_wrapped(&format!("   {} {text}", self.paint.green("ok")));
        } else {
            self.wrong(text);
        }
    }

    /// A problem.
    pub fn wrong(&mut self, text: &str) {
        self.put_wrapped(&format!("   {} {text}", self.paint.red("WRONG")));
        self.problems.push(text.to_string());
    }

    /// A result for the summary.
    pub fn record(&mut self, name: &str, value: Value) {
        self.summary.insert(name.to_string(), value);
    }

    /// The last line, the summary, the exit code.
    pub fn finish(mut self, seconds: f64) -> anyhow::Result<ExitCode> {
        let ok = self.problems.is_empty();
        self.put(&if ok {
            format!(
                "\n{} ({seconds:.0} s)",
                self.paint.green("Everything is as it should be")
            )
        } else {
            format!(
                "\n{} ({seconds:.0} s)",
                self.paint
                    .red(crate::term::counted(self.problems.len() as u64, "problem"))
            )
        });
        if self.json {
            self.record("ok", json!(ok));
            let problems = json!(self.problems);
            self.record("problems", problems);
            writeln!(std::io::stdout(), "{}", Value::Object(self.summary))?;
        }
        Ok(if ok {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }
}

/// A line in pieces of at most so many columns, broken at blanks; those after the first are indented.
fn wrapped(line: &str, columns: usize) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    let mut rest = line;
    loop {
        let indent = if out.is_empty() { "" } else { "      " };
        let room = columns.saturating_sub(indent.len());
        let fits = |end: usize| crate::term::width(&rest[..end]) <= room;
        if fits(rest.len()) {
            out.push(format!("{indent}{rest}"));
            return out;
        }
        let begin = rest.len() - rest.trim_start().len();
        let mut blanks = rest.match_indices(' ').map(|m| m.0);
        let Some(at) = blanks.rfind(|&at| at > begin && fits(at)) else {
            // One word that is too long: the terminal breaks it.
            out.push(format!("{indent}{rest}"));
            return out;
        };
        out.push(format!("{indent}{}", &rest[..at]));
        rest = rest[at..].trim_start();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_break_between_words() {
        assert_eq!(wrapped("   short", 20), ["   short"]);
        let text = "   one two three four five";
        assert_eq!(
            wrapped(text, 14),
            ["   one two", "      three", "      four", "      five"]
        );
        assert_eq!(wrapped("   unbreakablyLong", 8), ["   unbreakablyLong"]);
        let painted = format!("   {} two three", "\u{1b}[32mone\u{1b}[0m");
        assert_eq!(wrapped(&painted, 10).len(), 2);
    }
}
