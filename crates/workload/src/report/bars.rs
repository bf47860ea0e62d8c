//! Horizontal bars: for each place of a figure the document's number and what each store measured.
//!
//! Printed numbers are outlined, measured ones filled; a thin line from the least to the most of several runs lies on
//! a bar. Every bar carries its number, so nobody has to read it off an axis.

use super::chart::escape;
use crate::experiments::{Figure, Series, Spread};
use std::fmt::Write;

const WIDTH: f64 = 1080.0;
const BAR: f64 = 15.0;
const GAP: f64 = 12.0;
/// Height of the names of series, and of each further line of them.
const LEGEND: f64 = 26.0;
const LEGEND_LINE: f64 = 18.0;
/// Room for a number after the longest bar.
const NUMBER: f64 = 110.0;
/// Colours of the style sheet for bars.
const COLOURS: usize = 6;

/// A number with three significant digits, and no more than it has.
pub fn short(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    let digits = 2 - value.abs().log10().floor() as i32;
    if digits <= 0 {
        return format!(
            "{}{}",
            minus(value),
            super::text::count(value.abs().round() as u64)
        );
    }
    let text = format!("{value:.*}", usize::try_from(digits).unwrap_or(0).min(12));
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

fn minus(value: f64) -> &'static str {
    if value < 0.0 { "-" } else { "" }
}

fn largest(figure: &Figure) -> f64 {
    let all = figure.series.iter().flat_map(|s| s.values.iter().flatten());
    all.copied().filter(|v| v.is_finite()).fold(0.0, f64::max)
}

/// The class of a bar: outlined if printed, with dashes from the second one on, else filled with the colour of its number among the
/// measured.
fn class(figure: &Figure, index: usize) -> String {
    let series = &figure.series[index];
    let same = figure.series[..index].iter();
    let before = same.filter(|s| s.printed == series.printed).count();
    match series.printed {
        true if before > 0 => "printed dashed".to_string(),
        true => "printed".to_string(),
        false => format!("f{}", before % COLOURS),
    }
}

/// Places of the names of series: as many in a line as fit; and how many lines that takes.
fn legend_places(figure: &Figure, left: f64) -> (Vec<(f64, f64)>, f64) {
    let (mut x, mut line) = (left, 0.0);
    let mut places = Vec::new();
    for series in &figure.series {
        let width = 36.0 + 6.6 * series.name.chars().count() as f64;
        if x > left && x + width > WIDTH {
            (x, line) = (left, line + 1.0);
        }
        places.push((x, line * LEGEND_LINE));
        x += width;
    }
    (places, LEGEND + line * LEGEND_LINE)
}

fn legend(out: &mut String, figure: &Figure, places: &[(f64, f64)]) {
    for (index, (series, (x, y))) in figure.series.iter().zip(places).enumerate() {
        let _ = write!(
            out,
            "<rect class=\"{}\" x=\"{x:.1}\" y=\"{:.1}\" width=\"12\" height=\"12\" rx=\"2\"/>\
             <text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            class(figure, index),
            y + 4.0,
            x + 17.0,
            y + 14.0,
            escape(&series.name)
        );
    }
}

fn bar(
    out: &mut String,
    class: &str,
    series: &Series,
    place: &str,
    runs: &[f64],
    at: (f64, f64),
    unit: f64,
) {
    let Some(spread) = Spread::of(runs) else {
        return;
    };
    let (left, y) = at;
    let length = |value: f64| (value.max(0.0) * unit).max(0.5);
    let _ = write!(
        out,
        "<rect class=\"{class}\" x=\"{left:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"1.5\">\
         <title>{} · {}: {}</title></rect>",
        length(spread.median),
        BAR - 3.0,
        escape(place),
        escape(&series.name),
        short(spread.median),
    );
    let mut end = left + length(spread.median);
    if spread.least < spread.most {
        let middle = y + (BAR - 3.0) / 2.0;
        let _ = write!(
            out,
            "<line class=\"spread\" x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{middle:.1}\" y2=\"{middle:.1}\"/>",
            left + length(spread.least),
            left + length(spread.most),
        );
        end = end.max(left + length(spread.most));
    }
    let _ = write!(
        out,
        "<text class=\"value\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
        end + 6.0,
        y + BAR - 5.0,
        short(spread.median)
    );
}

/// The SVG element of a figure.
pub fn svg(figure: &Figure) -> String {
    let longest = figure.places.iter().map(|p| p.chars().count()).max();
    let left = (14.0 + 6.9 * longest.unwrap_or(0) as f64).clamp(60.0, 420.0);
    let unit = (WIDTH - left - NUMBER) / largest(figure).max(1e-300);
    let group = BAR * figure.series.len() as f64 + GAP;
    let (names, legend_height) = legend_places(figure, left);
    let height = legend_height + group * figure.places.len() as f64 + 4.0;
    let mut out = format!(
        "<svg viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"{}\">",
        escape(&figure.title)
    );
    legend(&mut out, figure, &names);
    for (n, place) in figure.places.iter().enumerate() {
        let top = legend_height + group * n as f64;
        let _ = write!(
            out,
            "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\
             <line class=\"axis\" x1=\"{left:.1}\" x2=\"{left:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"/>",
            left - 8.0,
            top + (group - GAP) / 2.0 + 4.0,
            escape(place),
            top - 2.0,
            top + group - GAP,
        );
        for (index, series) in figure.series.iter().enumerate() {
            let y = top + BAR * index as f64;
            let runs = &series.values[n];
            bar(
                &mut out,
                &class(figure, index),
                series,
                place,
                runs,
                (left, y),
                unit,
            );
        }
    }
    out.push_str("</svg>");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits() {
        for (value, text) in [
            (0.0, "0"),
            (1.0, "1"),
            (1.11149, "1.11"),
            (0.012_345, "0.0123"),
            (123.4, "123"),
            (1_234_567.8, "1 234 568"),
            (-2.5, "-2.5"),
            (-4321.0, "-4 321"),
        ] {
            assert_eq!(short(value), text);
        }
    }

    #[test]
    fn every_number_has_its_bar_and_missing_ones_have_none() {
        let figure = Figure::new("a < b", "x", ["one & two", "three"])
            .printed("paper", &[Some(2.0), None])
            .measured("ours", &[Some(1.0), Some(0.0)]);
        let svg = svg(&figure);
        assert_eq!(svg.matches("<title>").count(), 3, "{svg}");
        assert!(svg.contains("a &lt; b") && svg.contains("one &amp; two"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }

    #[test]
    fn a_second_series_of_printed_numbers_looks_otherwise() {
        let figure = Figure::new("t", "x", ["a"])
            .printed("one", &[Some(1.0)])
            .printed("other", &[Some(1.0)])
            .measured("ours", &[Some(1.0)]);
        let svg = svg(&figure);
        // A bar and its name's.
        assert_eq!(svg.matches("class=\"printed\"").count(), 2, "{svg}");
        assert_eq!(svg.matches("class=\"printed dashed\"").count(), 2);
    }

    #[test]
    fn names_that_do_not_fit_into_a_line_go_to_the_next() {
        let name = "a store with a name of forty characters";
        let mut figure = Figure::new("t", "x", ["a"]);
        for _ in 0..6 {
            figure = figure.all_measured(name, &[1.0]);
        }
        let (places, height) = legend_places(&figure, 60.0);
        let wide = 17.0 + 6.6 * name.len() as f64;
        assert!(places.iter().all(|(x, _)| x + wide <= WIDTH), "{places:?}");
        assert!(height > LEGEND && places.last().unwrap().1 < height);
        assert!(places.windows(2).all(|w| w[0] != w[1]));
    }

    #[test]
    fn figures_of_nothing_and_of_wild_numbers_are_drawn() {
        let empty = Figure::new("t", "x", ["a"]);
        let wild = Figure::new("t", "x", ["a", "b"]).measured("s", &[Some(f64::NAN), Some(-1.0)]);
        for figure in [empty, wild] {
            let svg = svg(&figure);
            assert!(
                svg.ends_with("</svg>") && !svg.contains("width=\"NaN"),
                "{svg}"
            );
        }
    }
}
