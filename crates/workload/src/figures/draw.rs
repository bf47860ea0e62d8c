//! A figure as SVG: axes with their least and largest numbers, a legend, and a mark for each series that differs in colour and
//! in dashes.

use super::{Form, Plot};
use crate::report::bars::short;
use crate::report::chart::escape;
use std::fmt::Write;

const WIDTH: f64 = 520.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 58.0;
const BOTTOM: f64 = 40.0;
const TOP: f64 = 12.0;
/// Room for the legend.
const RIGHT: f64 = 120.0;
/// Colours of the page's style sheet.
const COLOURS: usize = 6;

/// From numbers to places on the drawing.
struct Axes {
    from: f64,
    to: f64,
    most: f64,
    is_log: bool,
}

impl Axes {
    fn of(plot: &Plot) -> Self {
        let points = || plot.series.iter().flat_map(|s| &s.1);
        let is_log = plot.form == Form::Distribution;
        let (mut from, mut to) = (f64::INFINITY, f64::NEG_INFINITY);
        for (x, _) in points() {
            (from, to) = (from.min(*x), to.max(*x));
        }
        if plot.form == Form::Bars {
            (from, to) = (0.0, plot.labels.len() as f64);
        }
        Self {
            from,
            to,
            most: points().map(|p| p.1).fold(0.0, f64::max),
            is_log,
        }
    }

    fn x(&self, x: f64) -> f64 {
        let axis = |x: f64| if self.is_log { (x + 1.0).ln() } else { x };
        let (from, to) = (axis(self.from), axis(self.to));
        LEFT + (axis(x) - from) / (to - from).max(1e-9) * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, y: f64) -> f64 {
        HEIGHT - BOTTOM - y / self.most.max(1e-300) * (HEIGHT - BOTTOM - TOP)
    }
}

/// The drawing. Colours are the classes `s0` to `s5` of the page.
pub fn svg(plot: &Plot) -> String {
    let axes = Axes::of(plot);
    let mut out = format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">",
        escape(&plot.title)
    );
    frame(&mut out, plot, &axes);
    for (n, (name, points)) in plot.series.iter().enumerate() {
        match plot.form {
            Form::Bars => bars(&mut out, plot, &axes, n, points),
            Form::Distribution | Form::Lines => line(&mut out, plot, &axes, n, points),
            Form::Dots => dots(&mut out, &axes, n, points),
        }
        let y = TOP + 14.0 * (n as f64 + 1.0);
        let _ = write!(
            out,
            "<rect class=\"f{0}\" x=\"{1}\" y=\"{2}\" width=\"10\" height=\"10\"/><text x=\"{3}\" y=\"{y}\">{4}</text>",
            n % COLOURS,
            WIDTH - RIGHT + 8.0,
            y - 9.0,
            WIDTH - RIGHT + 22.0,
            escape(name)
        );
    }
    out.push_str("</svg>");
    out
}

/// Axes, their ends, and their names.
fn frame(out: &mut String, plot: &Plot, axes: &Axes) {
    let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
    let _ = write!(
        out,
        "<path class=\"axis\" d=\"M{LEFT} {TOP}V{bottom}H{right}\"/>\
         <text x=\"{0}\" y=\"{1}\" text-anchor=\"end\">{2}</text><text x=\"{0}\" y=\"{bottom}\" text-anchor=\"end\">0</text>\
         <text x=\"{3}\" y=\"{4}\" text-anchor=\"middle\">{5}</text>\
         <text transform=\"translate(12 {6}) rotate(-90)\" text-anchor=\"middle\">{7}</text>",
        LEFT - 4.0,
        TOP + 8.0,
        short(axes.most),
        (LEFT + right) / 2.0,
        HEIGHT - 6.0,
        escape(plot.axes[0]),
        (TOP + bottom) / 2.0,
        escape(plot.axes[1])
    );
    if plot.form == Form::Bars {
        for (n, label) in plot.labels.iter().enumerate() {
            let x = axes.x(n as f64 + 0.5);
            let _ = write!(
                out,
                "<text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                bottom + 14.0,
                escape(label)
            );
        }
        return;
    }
    for (value, anchor) in [(axes.from, "start"), (axes.to, "end")] {
        let _ = write!(
            out,
            "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"{anchor}\">{}</text>",
            axes.x(value),
            bottom + 14.0,
            short(value)
        );
    }
}

fn bars(out: &mut String, plot: &Plot, axes: &Axes, series: usize, points: &[(f64, f64)]) {
    let place = (axes.x(1.0) - axes.x(0.0)) * 0.8;
    let width = place / plot.series.len().max(1) as f64;
    for (x, y) in points {
        let left = axes.x(*x) + place * 0.125 + width * series as f64;
        let top = axes.y(*y);
        let label = plot.labels.get(*x as usize).map_or("", String::as_str);
        let _ = write!(
            out,
            "<rect class=\"f{}\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\"><title>{}, {}: {}</title></rect>",
            series % COLOURS,
            (width - 1.0).max(0.5),
            (HEIGHT - BOTTOM - top).max(0.5),
            escape(label),
            escape(&plot.series[series].0),
            short(*y)
        );
    }
}

/// One path of short strokes, so that thousands of dots stay small.
fn dots(out: &mut String, axes: &Axes, series: usize, points: &[(f64, f64)]) {
    let mut path = String::new();
    for (x, y) in points {
        let _ = write!(path, "M{:.1} {:.1}h1.5", axes.x(*x), axes.y(*y));
    }
    let _ = write!(out, "<path class=\"s{}\" d=\"{path}\"/>", series % COLOURS);
}

fn line(out: &mut String, plot: &Plot, axes: &Axes, series: usize, points: &[(f64, f64)]) {
    let mut path = String::new();
    let mut before = axes.y(0.0);
    for (n, (x, y)) in points.iter().enumerate() {
        let (x, y) = (axes.x(*x), axes.y(*y));
        let command = if n == 0 { 'M' } else { 'L' };
        // A distribution function is flat up to each value.
        match plot.form {
            Form::Distribution => {
                let _ = write!(path, "{command}{x:.1} {before:.1}L{x:.1} {y:.1}");
            }
            _ => {
                let _ = write!(path, "{command}{x:.1} {y:.1}");
            }
        }
        before = y;
    }
    if plot.form == Form::Distribution {
        let _ = write!(path, "H{:.1}", WIDTH - RIGHT);
    }
    let _ = write!(
        out,
        "<path class=\"s{} d{}\" d=\"{path}\"/>",
        series % COLOURS,
        series % 3
    );
}
