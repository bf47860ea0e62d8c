//! The page of `spanlith experiment`: each experiment with printed and measured numbers side by side.

use super::bars::{self, short};
use super::chart::{Chart, Line, escape, plain};
use super::{STYLE, text};
use crate::experiments::{Check, Figure, Outcome, Spread};
use std::fmt::Write;

/// Marks of the axis below lines, about.
const MARKS: usize = 10;
/// Colours of the style sheet for lines.
const COLOURS: usize = 6;

fn verdict(passed: bool) -> &'static str {
    match passed {
        true => "<b class=\"passed\">passed</b>",
        false => "<b class=\"failed\">not passed</b>",
    }
}

fn number(runs: &[f64]) -> String {
    match Spread::of(runs) {
        None => String::new(),
        Some(s) if s.least < s.most => format!(
            "{} <small>{} … {}</small>",
            short(s.median),
            short(s.least),
            short(s.most)
        ),
        Some(s) => short(s.median),
    }
}

fn summary(out: &mut String, outcomes: &[Outcome]) {
    out.push_str(
        "<section style=\"margin-top:24px\"><div class=\"card\"><div class=\"scroll\"><table><thead><tr>\
         <th>experiment</th><th>document</th><th>checks</th><th></th></tr></thead><tbody>",
    );
    for (n, o) in outcomes.iter().enumerate() {
        let passed = o.findings.checks.iter().filter(|c| c.passed()).count();
        let _ = write!(
            out,
            "<tr><td><a href=\"#e{n}\"><b>{}</b></a> {}</td><td>{}</td><td>{passed} of {}</td><td>{}</td></tr>",
            escape(&o.id),
            escape(&o.title),
            escape(&o.document),
            o.findings.checks.len(),
            verdict(o.passed())
        );
    }
    out.push_str("</tbody></table></div></div></section>");
}

/// Lines through the places of a figure that has so many that bars would fill pages, all of them measured; `None` of others.
fn lines(figure: &Figure) -> Option<String> {
    if !figure.is_course() {
        return None;
    }
    let mut lines = Vec::new();
    for (colour, series) in figure.series.iter().enumerate() {
        let values = series
            .values
            .iter()
            .map(|runs| Spread::of(runs).map(|s| s.median));
        lines.push(Line {
            name: series.name.clone(),
            colour: colour % COLOURS,
            values: values.collect::<Option<Vec<_>>>()?,
        });
    }
    let xs: Vec<f64> = (0..figure.places.len()).map(|n| n as f64).collect();
    let step = figure.places.len().div_ceil(MARKS);
    let marks = xs
        .iter()
        .copied()
        .zip(figure.places.iter().map(String::as_str));
    // The last one has its mark.
    let skip = (figure.places.len() - 1) % step;
    let marks: Vec<(f64, &str)> = marks.skip(skip).step_by(step).collect();
    let chart = Chart {
        x_title: "",
        x_marks: Some(&marks),
        from_zero: false,
        format: plain,
        width: 1080.0,
        height: 380.0,
        ..Chart::over_time(&figure.title, &xs, &lines)
    };
    (!chart.is_empty()).then(|| chart.svg())
}

fn figure(out: &mut String, figure: &Figure) {
    let _ = write!(
        out,
        "<div class=\"card\" style=\"margin-top:12px\"><h3>{} <small>{}</small></h3><div class=\"scroll wide\">{}</div>\
         <details><summary>Numbers</summary><div class=\"scroll\"><table><thead><tr><th></th>",
        escape(&figure.title),
        escape(&figure.unit),
        lines(figure).unwrap_or_else(|| bars::svg(figure))
    );
    for series in &figure.series {
        let _ = write!(out, "<th>{}</th>", escape(&series.name));
    }
    out.push_str("</tr></thead><tbody>");
    for (n, place) in figure.places.iter().enumerate() {
        let _ = write!(out, "<tr><td>{}</td>", escape(place));
        for series in &figure.series {
            let _ = write!(out, "<td>{}</td>", number(&series.values[n]));
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div></details></div>");
}

fn checks(out: &mut String, checks: &[Check]) {
    out.push_str(
        "<div class=\"card\" style=\"margin-top:12px\"><h3>Pass criterion, number by number</h3>\
         <div class=\"scroll\"><table><thead><tr><th>number</th><th>measured</th><th>wanted</th><th></th></tr>\
         </thead><tbody>",
    );
    for check in checks {
        let _ = write!(
            out,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            escape(&check.what),
            number(&check.values),
            check.bound,
            verdict(check.passed())
        );
    }
    out.push_str("</tbody></table></div></div>");
}

fn section(out: &mut String, n: usize, o: &Outcome) {
    let _ = write!(
        out,
        "<section id=\"e{n}\"><div class=\"head\"><h2>{} · {}</h2><p class=\"sub\">{}</p></div>\
         <div class=\"card\"><table class=\"facts\"><tbody>",
        escape(&o.id),
        escape(&o.title),
        verdict(o.passed())
    );
    let runs = if o.runs == 1 { "run" } else { "runs" };
    let how = format!(
        "scale {}, seed {}, {} {runs}, {:.1} s, {}",
        short(o.scale),
        o.seed,
        o.runs,
        o.seconds,
        text::utc(o.started)
    );
    for (name, value) in [
        ("document", o.document.as_str()),
        ("requirements", &o.requirements),
        ("set-up at scale 1", &o.setup),
        ("criterion", &o.criterion),
        ("stores", &o.stores.join(", ")),
        ("this run", &how),
    ] {
        let _ = write!(out, "<tr><th>{name}</th><td>{}</td></tr>", escape(value));
    }
    out.push_str("</tbody></table></div>");
    for f in &o.findings.figures {
        figure(out, f);
    }
    checks(out, &o.findings.checks);
    for note in &o.findings.notes {
        let _ = write!(out, "<p class=\"note\">{}</p>", escape(note));
    }
    out.push_str("<details><summary>Machine and program</summary><table class=\"facts\"><tbody>");
    for (name, value) in &o.environment {
        let _ = write!(
            out,
            "<tr><th>{}</th><td>{}</td></tr>",
            escape(name),
            escape(value)
        );
    }
    out.push_str("</tbody></table></details></section>");
}

/// The whole page.
pub fn html(outcomes: &[Outcome]) -> String {
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <title>Spanlith experiments</title>\n<style>\n{STYLE}</style></head>\n<body><main>\n\
         <header><h1>Spanlith experiments</h1><p class=\"sub\">What published documents measured, run again at the \
         scale of this machine: outlined bars are printed numbers, filled ones were measured. Ratios, signs and \
         orders are judged, not absolute numbers.</p></header>"
    );
    if cfg!(debug_assertions) {
        out.push_str(
            "<p class=\"warn\"><b>Debug build.</b> Times say nothing; counts and bytes do.</p>",
        );
    }
    summary(&mut out, outcomes);
    for (n, outcome) in outcomes.iter().enumerate() {
        section(&mut out, n, outcome);
    }
    out.push_str("</main></body></html>\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::outcome::tests::sample;

    #[test]
    fn a_page_holds_everything_and_asks_for_nothing() {
        let page = html(&[sample()]);
        for part in [
            "X-T-1",
            "Reads &amp; &lt;writes&gt;",
            "at most 2",
            "not passed",
            "read with care",
            "kernel",
            "1 of 2",
        ] {
            assert!(page.contains(part), "{part}");
        }
        for foreign in ["http:", "https:", "src=", "@import", "<script", "NaN"] {
            assert!(!page.contains(foreign), "{foreign}");
        }
    }
}
