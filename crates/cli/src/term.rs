//! The terminal: colour, progress, numbers for people.
//!
//! Colour only where the stream is a terminal, `NO_COLOR` is not set and `TERM` is not `dumb`.
//! Progress goes to standard error and only to a terminal, so that output can be piped.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use std::fmt::Write;
use std::io::IsTerminal;
use std::time::Duration;

pub use spanlith_workload::report::text::{bytes, count, counted, nanos, utc};

/// Wraps text in colours, or leaves it.
#[derive(Clone, Copy, Debug)]
pub struct Paint {
    on: bool,
}

macro_rules! colours {
    ($($name:ident $code:literal)*) => {
        $(#[doc = concat!("Text in ", stringify!($name), ".")]
        pub fn $name(self, text: impl std::fmt::Display) -> String {
            if self.on { format!(concat!("\x1b[", $code, "m{}\x1b[0m"), text) } else { text.to_string() }
        })*
    };
}

impl Paint {
    /// For a stream that is, or is not, a terminal.
    fn new(terminal: bool) -> Self {
        let no_colour = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|v| v == "dumb");
        Self {
            on: terminal && !no_colour && !dumb,
        }
    }

    /// Without colour.
    #[cfg(test)]
    pub fn none() -> Self {
        Self { on: false }
    }

    /// For standard output.
    pub fn stdout() -> Self {
        Self::new(std::io::stdout().is_terminal())
    }

    /// For standard error.
    pub fn stderr() -> Self {
        Self::new(std::io::stderr().is_terminal())
    }

    colours! { bold "1" dim "2" red "31;1" green "32" yellow "33" cyan "36" }
}

/// Returns whether a live view makes sense.
pub fn is_live() -> bool {
    std::io::stderr().is_terminal()
}

/// Columns and rows of the terminal that standard output is; `None` if it is none.
pub fn size() -> Option<(usize, usize)> {
    let term = console::Term::stdout();
    let (rows, columns) = term.size_checked().filter(|_| term.is_term())?;
    Some((columns.into(), rows.into()))
}

/// Columns that a text takes, without its colours.
pub fn width(text: &str) -> usize {
    console::measure_text_width(text)
}

/// A text of at most so many columns; what is cut off is shown by an ellipsis.
pub fn cut(text: &str, columns: usize) -> String {
    console::truncate_str(text, columns, "…").into_owned()
}

/// A text filled with blanks to so many columns, at its right.
pub fn padded(text: &str, columns: usize) -> String {
    let missing = columns.saturating_sub(width(text));
    format!("{text}{}", " ".repeat(missing))
}

/// A bar over `total` things called `unit`; bytes if the unit is `B`.
pub fn bar(total: u64, unit: &str, message: &str) -> ProgressBar {
    let amounts = if unit == "B" {
        "{bytes}/{total_bytes} {bytes_per_sec}".to_string()
    } else {
        format!("{{done}}/{{all}} {unit} {{rate}}")
    };
    let template = format!("  {{msg}} [{{bar:30}}] {{percent:>3}} % {amounts} {{eta}}");
    styled(
        ProgressBar::with_draw_target(Some(total), target()),
        &template,
        message,
    )
}

/// A spinner that counts things called `unit`; bytes if the unit is `B`.
pub fn spinner(unit: &str, message: &str) -> ProgressBar {
    let amount = if unit == "B" {
        "{bytes}".to_string()
    } else {
        format!("{{done}} {unit}")
    };
    let template = format!("  {{spinner}} {{msg}} {amount} {{rate}}");
    let bar = styled(
        ProgressBar::with_draw_target(None, target()),
        &template,
        message,
    );
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// A progress line nobody sees.
pub fn hidden() -> ProgressBar {
    ProgressBar::hidden()
}

/// One line that is replaced each time its message is set.
pub fn live_line() -> ProgressBar {
    styled(
        ProgressBar::with_draw_target(None, target()),
        "  {wide_msg}",
        "",
    )
}

fn target() -> ProgressDrawTarget {
    if is_live() {
        ProgressDrawTarget::stderr_with_hz(8)
    } else {
        ProgressDrawTarget::hidden()
    }
}

fn styled(bar: ProgressBar, template: &str, message: &str) -> ProgressBar {
    if let Ok(style) = ProgressStyle::with_template(template) {
        let style = style
            .progress_chars("=> ")
            .with_key("done", |s: &ProgressState, w: &mut dyn Write| {
                let _ = w.write_str(&count(s.pos()));
            })
            .with_key("all", |s: &ProgressState, w: &mut dyn Write| {
                let _ = w.write_str(&count(s.len().unwrap_or_default()));
            })
            .with_key("rate", |s: &ProgressState, w: &mut dyn Write| {
                let _ = write!(w, "{}/s", count(s.per_sec() as u64));
            });
        bar.set_style(style);
    }
    bar.set_message(message.to_string());
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_terminal_nothing_is_coloured() {
        let paint = Paint { on: false };
        assert_eq!(paint.red("x"), "x");
        assert_eq!(Paint { on: true }.red("x"), "\x1b[31;1mx\x1b[0m");
    }
}
