//! The page of `twin`: distances, effects, distributions over each other, and the curves that come close.

use super::Compared;
use super::run::Effects;
use super::twin::{FREE, Pair, Result, ratio};
use crate::term;
use std::fmt::Write;

const STYLE: &str = "
:root { color-scheme: light dark; --ink: #1c2230; --paper: #fff; --line: #c9ced8; --one: #1f5fbf; --two: #c2410c; --soft: #5a6272 }
@media (prefers-color-scheme: dark) { :root { --ink: #e8eaf0; --paper: #15181f; --line: #3a4150; --one: #7db0ff; --two: #ff9d66; --soft: #a7afbf } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 68rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums }
th, td { text-align: right; padding: .3rem .8rem; border-bottom: 1px solid var(--line) }
th:first-child, td:first-child { text-align: left }
.wide { overflow-x: auto } .numbers td { white-space: nowrap }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(19rem, 1fr)); gap: 1.5rem }
figure { margin: 0 } figcaption { font-size: .95rem }
svg { width: 100%; height: auto; border: 1px solid var(--line); box-sizing: border-box }
.grid { stroke: var(--line); fill: none }
.one { stroke: var(--one); fill: none; stroke-width: 2 } .two { stroke: var(--two); fill: none; stroke-width: 2; stroke-dasharray: 6 4 }
.key1 { color: var(--one) } .key2 { color: var(--two) } .soft { color: var(--soft) }
text { fill: var(--soft); font-size: 11px }
";

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// Where values stand in a chart.
struct Axes {
    low: f64,
    high: f64,
}

impl Axes {
    const WIDTH: f64 = 320.0;
    const HEIGHT: f64 = 180.0;
    const LEFT: f64 = 30.0;
    const RIGHT: f64 = 12.0;
    const BOTTOM: f64 = 22.0;
    const TOP: f64 = 12.0;
    /// Between the middles of two marks at least.
    const APART: f64 = 40.0;

    /// Logarithmic; a single value stands in the middle.
    fn x(&self, value: f64) -> f64 {
        let place = |x: f64| (x + 1.0).ln();
        let (from, to) = (place(self.low), place(self.high));
        let part = match to > from {
            true => (place(value) - from) / (to - from),
            false => 0.5,
        };
        Self::LEFT + part * (Self::WIDTH - Self::LEFT - Self::RIGHT)
    }

    fn y(share: f64) -> f64 {
        let height = Self::HEIGHT - Self::BOTTOM - Self::TOP;
        Self::HEIGHT - Self::BOTTOM - share * height
    }

    /// The least and the most value, and powers of ten between them as far as there is room.
    fn marks(&self) -> Vec<f64> {
        let mut marks = vec![self.low];
        let powers = (0..18).map(|power| 10.0_f64.powi(power));
        for value in powers.chain([self.high]) {
            let before = marks.last().copied().unwrap_or(self.low);
            let is_last = value == self.high && value > self.low;
            if value <= self.low || value >= self.high && !is_last {
                continue;
            }
            if is_last && marks.len() > 1 && self.x(value) - self.x(before) < Self::APART {
                marks.pop();
            }
            let before = marks.last().copied().unwrap_or(self.low);
            if is_last || self.x(value) - self.x(before) >= Self::APART {
                marks.push(value);
            }
        }
        marks
    }

    /// Lines and what they stand for.
    fn draw(&self, svg: &mut String) {
        let right = Self::WIDTH - Self::RIGHT;
        for share in [0.0, 0.5, 1.0] {
            let y = Self::y(share);
            let _ = write!(
                svg,
                "<path class=grid d=\"M{} {y}H{right}\"/><text x=\"{}\" y=\"{}\" text-anchor=\"end\">{share}</text>",
                Self::LEFT,
                Self::LEFT - 5.0,
                y + 4.0
            );
        }
        let marks = self.marks();
        for (at, value) in marks.iter().enumerate() {
            let anchor = match (at, at + 1 == marks.len()) {
                (0, true) => "middle",
                (0, false) => "start",
                (_, true) => "end",
                _ => "middle",
            };
            let x = self.x(*value);
            let _ = write!(
                svg,
                "<path class=grid d=\"M{x:.1} {}v4\"/><text x=\"{x:.1}\" y=\"{}\" text-anchor=\"{anchor}\">{value:.0}</text>",
                Self::y(0.0),
                Self::HEIGHT - 5.0
            );
        }
    }
}

/// Two distribution functions over a logarithmic axis.
fn chart(c: &Compared) -> String {
    let all = c.curves.iter().flatten().map(|p| p.0);
    let (low, high) = all.fold((f64::INFINITY, 1.0f64), |(l, h), x| (l.min(x), h.max(x)));
    let axes = Axes {
        low: low.min(high),
        high,
    };
    let mut svg = format!(
        "<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">",
        Axes::WIDTH,
        Axes::HEIGHT,
        escape(&c.name)
    );
    axes.draw(&mut svg);
    for (curve, class) in c.curves.iter().zip(["one", "two"]) {
        let mut path = String::new();
        let mut before = 0.0;
        for (at, &(x, y)) in curve.iter().enumerate() {
            let command = if at == 0 { 'M' } else { 'L' };
            let x = axes.x(x);
            let _ = write!(
                path,
                "{command}{x:.1} {:.1}L{x:.1} {:.1}",
                Axes::y(before),
                Axes::y(y)
            );
            before = y;
        }
        let _ = write!(svg, "<path class=\"{class}\" d=\"{path}\"/>");
    }
    format!(
        "<figure>{svg}</svg><figcaption>{}: KS {:.4}</figcaption></figure>",
        escape(&c.name),
        c.distance
    )
}

fn effects(pairs: &[Pair]) -> String {
    let mut rows = String::new();
    for p in pairs {
        let (a, b) = (&p.original, &p.twin);
        let cell = |x: f64, y: f64, shown: [String; 2]| {
            let by = (ratio(x, y) - 1.0) * 100.0;
            format!(
                "<td>{}</td><td>{}</td><td>{by:+.1} %</td>",
                shown[0], shown[1]
            )
        };
        let _ = write!(
            rows,
            "<tr><td>{:.1} %</td>{}<td>{:.3}</td><td>{:.3}</td><td>{:+.1}</td>{}</tr>",
            p.part * 100.0,
            cell(
                a.reads as f64,
                b.reads as f64,
                [term::count(a.reads), term::count(b.reads)]
            ),
            a.hit_ratio,
            b.hit_ratio,
            (b.hit_ratio - a.hit_ratio) * 100.0,
            cell(
                a.written as f64,
                b.written as f64,
                [term::bytes(a.written), term::bytes(b.written)]
            ),
        );
    }
    format!(
        "<div class=wide><table class=numbers><tr><th>cache</th><th>block reads</th><th>twin</th><th></th><th>hit ratio</th><th>twin</th>\
         <th>points</th><th>bytes written</th><th>twin</th><th></th></tr>{rows}</table></div>"
    )
}

/// Stalls and throughput, of replays that wait for nothing.
fn free(how: &str, [a, b]: &[Effects; 2]) -> String {
    format!(
        "<div class=wide><table class=numbers><tr><th>{how}, cache of {:.1} %</th><th>the trace</th><th>its twin</th></tr>\
         <tr><td>seconds that writers were held up</td><td>{:.2}</td><td>{:.2}</td></tr>\
         <tr><td>requests per second</td><td>{}</td><td>{}</td></tr></table></div>",
        FREE * 100.0,
        a.stalled,
        b.stalled,
        term::count(a.rate as u64),
        term::count(b.rate as u64),
    )
}

fn curves(result: &Result) -> String {
    let mut rows = String::new();
    let mut row = |name: &str, c: &spanlith_workload::model::Curve| {
        let numbers: Vec<String> = c
            .fit
            .parameters
            .iter()
            .map(|p| format!("{p:.4e}"))
            .collect();
        let next = c.next.as_ref().map_or(String::new(), |n| n.family.name());
        let _ = write!(
            rows,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{:.4}</td><td>{:.4}</td><td>{:.3}</td><td>{next}</td></tr>",
            escape(name),
            c.fit.family.name(),
            numbers.join(", "),
            c.fit.fse,
            c.fit.r2,
            c.fit.largest
        );
    };
    if let Some(rate) = &result.model.rate_curve {
        row("requests per second", rate);
    }
    for (cf, family) in &result.model.families {
        for (name, c) in &family.curves {
            row(&format!("family {cf}: {name}"), c);
        }
    }
    format!(
        "<div class=wide><table><tr><th>variable</th><th>closest curve</th><th>parameters</th><th>FSE</th><th>R²</th>\
         <th>largest distance</th><th>next</th></tr>{rows}</table></div>"
    )
}

/// The whole page.
pub fn html(result: &Result) -> String {
    let most = result
        .compared
        .iter()
        .map(|c| c.distance)
        .fold(0.0, f64::max);
    let mut page = format!(
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content=\"width=device-width\">\
         <title>Twin of {0}</title><style>{STYLE}</style><main><h1>A trace and its twin</h1>\
         <p>{0}: {1} over {2:.1} s. The largest distance of Kolmogorov and Smirnov is <b>{most:.4}</b>; made in {3:.1} s, \
         over tables of {4} and {5}.</p>",
        escape(&result.trace.display().to_string()),
        term::counted(result.model.requests, "request"),
        result.model.seconds,
        result.seconds,
        term::bytes(result.bytes[0]),
        term::bytes(result.bytes[1]),
    );
    let _ = write!(
        page,
        "<h2>What both do to the engine</h2><p class=soft>The same options; the block cache as a share of the tables. {} \
         Replayed are the first {} of each, for this table in step with flushes and compactions.</p>",
        match result.is_from_checkpoint {
            true =>
                "The original begins from the checkpoint, the twin with as many keys and bytes.",
            false => "Both databases begin with the keys that are accessed.",
        },
        term::counted(result.replayed, "request")
    );
    page.push_str(&effects(&result.pairs));
    page.push_str(&free("as fast as it goes", &result.free));
    if let Some((bytes, both)) = &result.limited {
        let how = format!("with {}/s for flushes and compactions", term::bytes(*bytes));
        page.push_str(&free(&how, both));
    }
    page.push_str("<h2>Distributions</h2><p><span class=key1>the trace</span>, <span class=key2>its twin (dashed)</span></p>\
                   <div class=charts>");
    result
        .compared
        .iter()
        .for_each(|c| page.push_str(&chart(c)));
    page.push_str("</div><h2>Curves</h2><p class=soft>The family of the smallest standard error; requests are made of \
                   tables, not of curves.</p>");
    page.push_str(&curves(result));
    page.push_str("</main></html>\n");
    page
}
