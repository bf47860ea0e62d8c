//! Charts as inline SVG, drawn without a library.
//!
//! Colours are classes that the page's style sheet defines for light and dark. Lines differ in dashes as
//! well as in colour and carry their names at their ends, so that nobody has to match colours; each
//! point has a tooltip.

use super::text::short_count;
use std::fmt::Write;

const LEFT: f64 = 62.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 38.0;
/// Least distance of two names at the ends of lines.
const NAME_HEIGHT: f64 = 14.0;

/// How values become heights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// From zero.
    Linear,
    /// By powers of ten.
    Log,
}

/// Which round numbers the axis may show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Steps {
    /// 1, 2, 5 times a power of ten.
    Decimal,
    /// Powers of two, so that marks are exact with one digit after the point in KiB, MiB and so on.
    Binary,
}

/// One line, or one layer of a stack.
#[derive(Clone, Debug)]
pub struct Line {
    /// Its name, short.
    pub name: String,
    /// Number of its colour: `c0`... in the style sheet.
    pub colour: usize,
    /// A value for each place on the x axis.
    pub values: Vec<f64>,
}

/// A chart over time or another axis.
#[derive(Clone, Debug)]
pub struct Chart<'a> {
    /// Says what it shows, for those who cannot see it.
    pub title: &'a str,
    /// Places on the x axis, rising.
    pub xs: &'a [f64],
    /// Name and unit of the x axis.
    pub x_title: &'a str,
    /// Marks of the x axis, if they are not round numbers.
    pub x_marks: Option<&'a [(f64, &'a str)]>,
    /// The lines.
    pub lines: &'a [Line],
    /// How values become heights.
    pub scale: Scale,
    /// Round numbers of the y axis.
    pub steps: Steps,
    /// Lines lie on one another and are filled.
    pub stacked: bool,
    /// The only line is filled.
    pub filled: bool,
    /// The first value holds from zero on: it is that of the interval that ends there.
    pub from_zero: bool,
    /// A level to compare with, and its name.
    pub mark: Option<(f64, &'a str)>,
    /// A value with its unit.
    pub format: fn(f64) -> String,
    /// Width in units of which text is 12 high.
    pub width: f64,
    /// Height in the same units.
    pub height: f64,
}

impl<'a> Chart<'a> {
    /// Lines over the seconds of a run, of counts, in half the width of the page.
    pub fn over_time(title: &'a str, xs: &'a [f64], lines: &'a [Line]) -> Self {
        Self {
            title,
            xs,
            x_title: "seconds",
            x_marks: None,
            lines,
            scale: Scale::Linear,
            steps: Steps::Decimal,
            stacked: false,
            filled: false,
            from_zero: true,
            mark: None,
            format: short_count,
            width: 640.0,
            height: 230.0,
        }
    }
}

/// Characters that mean something in HTML become harmless.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
    out
}

/// Round numbers from 0 to at least `max`, about `wanted` of them.
fn round_steps(max: f64, wanted: f64, steps: Steps) -> Vec<f64> {
    let max = if max > 0.0 { max } else { 1.0 };
    let rough = max / wanted;
    let step = match steps {
        Steps::Decimal => {
            let power = 10_f64.powf(rough.log10().floor());
            let factor = [1.0, 2.0, 5.0, 10.0]
                .into_iter()
                .find(|f| f * power >= rough * 0.999);
            factor.unwrap_or(10.0) * power
        }
        Steps::Binary => rough.log2().ceil().max(0.0).exp2(),
    };
    let count = (max / step).ceil().max(1.0) as usize;
    (0..=count).map(|n| n as f64 * step).collect()
}

impl Chart<'_> {
    /// Returns whether there is anything to draw.
    pub fn is_empty(&self) -> bool {
        self.xs.len() < 2 || self.lines.is_empty()
    }

    fn right(&self) -> f64 {
        let longest = self.lines.iter().map(|l| l.name.chars().count()).max();
        match (self.names(), self.mark) {
            (true, _) => 20.0 + 7.8 * longest.unwrap_or(0) as f64,
            (false, Some((_, name))) => 12.0 + 7.0 * name.chars().count() as f64,
            (false, None) => 16.0,
        }
    }

    /// Returns whether lines carry names.
    fn names(&self) -> bool {
        self.lines.len() > 1 || self.stacked
    }

    fn x(&self, value: f64) -> f64 {
        let (first, last) = (self.first(), self.last());
        let share = (value - first) / (last - first).max(1e-12);
        LEFT + share * (self.width - LEFT - self.right())
    }

    /// Time begins at zero; other axes where their values do.
    fn first(&self) -> f64 {
        match self.x_marks {
            None => 0.0,
            Some(_) => self.xs.first().copied().unwrap_or(0.0),
        }
    }

    fn last(&self) -> f64 {
        self.xs.last().copied().unwrap_or(1.0)
    }

    /// Marks of the y axis; the outer ones bound it.
    fn y_marks(&self) -> Vec<f64> {
        let tops: Vec<f64> = match self.stacked {
            true => (0..self.xs.len())
                .map(|i| self.lines.iter().map(|l| l.values[i]).sum())
                .collect(),
            false => self.lines.iter().flat_map(|l| l.values.clone()).collect(),
        };
        let mark = self.mark.map(|m| m.0);
        let max = tops.iter().copied().chain(mark).fold(0.0, f64::max);
        if self.scale == Scale::Linear {
            return round_steps(max * 1.02, 4.0, self.steps);
        }
        let positive = tops.iter().copied().filter(|v| *v > 0.0);
        let min = positive.fold(f64::INFINITY, f64::min).min(max.max(1.0));
        let low = min.log10().floor();
        let high = max.max(min * 1.01).log10().ceil().max(low + 1.0);
        let (low, high) = (low as i32, high as i32);
        let all: Vec<f64> = (low..=high).map(|e| 10_f64.powi(e)).collect();
        if all.len() > 3 {
            return all;
        }
        // Few powers of ten: halves of them as well, and no more than is needed.
        let mut fine: Vec<f64> = (low..=high)
            .flat_map(|e| [1.0, 2.0, 5.0].map(|f| f * 10_f64.powi(e)))
            .collect();
        let begin = fine.iter().rposition(|v| *v <= min).unwrap_or(0);
        let end = fine
            .iter()
            .position(|v| *v >= max)
            .unwrap_or(fine.len() - 1);
        fine.truncate(end.max(begin + 1) + 1);
        fine.drain(..begin);
        fine
    }

    fn y(&self, value: f64, marks: &[f64]) -> f64 {
        let (Some(&low), Some(&high)) = (marks.first(), marks.last()) else {
            return TOP;
        };
        let share = match self.scale {
            Scale::Linear => value / high,
            Scale::Log => (value.max(low) / low).log10() / (high / low).log10(),
        };
        let room = self.height - TOP - BOTTOM;
        TOP + room * (1.0 - share.clamp(0.0, 1.0))
    }

    /// The SVG element.
    pub fn svg(&self) -> String {
        let mut out = String::new();
        let marks = self.y_marks();
        // Writing to a string cannot fail, here and below.
        let _ = write!(
            out,
            "<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">",
            self.width,
            self.height,
            escape(self.title)
        );
        self.axes(&mut out, &marks);
        if self.stacked {
            self.layers(&mut out, &marks);
        } else {
            self.curves(&mut out, &marks);
        }
        self.tooltips(&mut out);
        out.push_str("</svg>");
        out
    }

    fn axes(&self, out: &mut String, marks: &[f64]) {
        let (end, floor) = (self.width - self.right(), self.height - BOTTOM);
        for &value in marks {
            let y = self.y(value, marks);
            let _ = write!(
                out,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{end:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
                 <text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 7.0,
                y + 4.0,
                escape(&(self.format)(value))
            );
        }
        let round;
        let named;
        let x_marks: &[(f64, &str)] = match self.x_marks {
            Some(marks) => marks,
            None => {
                round = round_steps(self.last(), 6.0, Steps::Decimal);
                named = round.iter().map(|v| plain(*v)).collect::<Vec<_>>();
                &round
                    .iter()
                    .copied()
                    .zip(named.iter().map(String::as_str))
                    .filter(|(v, _)| *v <= self.last() * 1.0001)
                    .collect::<Vec<_>>()
            }
        };
        for (value, name) in x_marks {
            let x = self.x(*value);
            let _ = write!(
                out,
                "<line class=\"axis\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{floor}\" y2=\"{}\"/>\
                 <text class=\"tick\" x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                floor + 4.0,
                floor + 16.0,
                escape(name)
            );
        }
        let _ = write!(
            out,
            "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{end:.1}\" y1=\"{floor}\" y2=\"{floor}\"/>\
             <text class=\"tick\" x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            f64::midpoint(LEFT, end),
            self.height - 5.0,
            escape(self.x_title)
        );
        if let Some((value, name)) = self.mark {
            let y = self.y(value, marks);
            let _ = write!(
                out,
                "<line class=\"mark\" x1=\"{LEFT}\" x2=\"{end:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
                 <text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                end + 5.0,
                y + 4.0,
                escape(name)
            );
        }
    }

    fn path(&self, heights: impl Iterator<Item = f64>) -> String {
        let mut path = String::new();
        let mut heights = heights.peekable();
        let from_zero = self.from_zero && self.xs.first().is_some_and(|x| *x > self.first());
        if let Some(y) = heights.peek().filter(|_| from_zero) {
            let _ = write!(path, "M{LEFT:.1} {y:.1}");
        }
        for (i, (x, y)) in self.xs.iter().zip(heights).enumerate() {
            let letter = if i == 0 && !from_zero { 'M' } else { 'L' };
            let _ = write!(path, "{letter}{:.1} {y:.1}", self.x(*x));
        }
        path
    }

    fn curves(&self, out: &mut String, marks: &[f64]) {
        let floor = self.height - BOTTOM;
        let mut ends = Vec::new();
        for line in self.lines {
            let path = self.path(line.values.iter().map(|v| self.y(*v, marks)));
            let c = line.colour;
            if self.filled {
                let first = match self.from_zero {
                    true => self.x(self.first()),
                    false => self.x(self.xs[0]),
                };
                let last = self.x(self.last());
                let _ = write!(
                    out,
                    "<path class=\"fill f{c}\" d=\"{path}L{last:.1} {floor}L{first:.1} {floor}Z\"/>"
                );
            }
            // Dashes tell lines apart; one alone needs none.
            let solid = if self.names() { "" } else { " solid" };
            let _ = write!(out, "<path class=\"line c{c}{solid}\" d=\"{path}\"/>");
            ends.push((
                self.y(line.values.last().copied().unwrap_or(0.0), marks),
                line,
            ));
        }
        self.ends(out, ends);
    }

    fn layers(&self, out: &mut String, marks: &[f64]) {
        let mut below = vec![0.0; self.xs.len()];
        let mut ends = Vec::new();
        for line in self.lines {
            let above: Vec<f64> = below.iter().zip(&line.values).map(|(b, v)| b + v).collect();
            let mut path = self.path(above.iter().map(|v| self.y(*v, marks)));
            for (x, b) in self.xs.iter().zip(&below).rev() {
                let _ = write!(path, "L{:.1} {:.1}", self.x(*x), self.y(*b, marks));
            }
            let c = line.colour;
            let _ = write!(out, "<path class=\"layer f{c}\" d=\"{path}Z\"/>");
            let last = self.xs.len() - 1;
            let middle = f64::midpoint(below[last], above[last]);
            ends.push((self.y(middle, marks), line));
            below = above;
        }
        self.ends(out, ends);
    }

    /// Names at the ends of lines, moved apart where they would overlap.
    fn ends(&self, out: &mut String, mut ends: Vec<(f64, &Line)>) {
        if !self.names() {
            return;
        }
        ends.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut places: Vec<f64> = Vec::new();
        for (y, _) in &ends {
            let least = places.last().map_or(TOP, |p| p + NAME_HEIGHT);
            places.push(y.max(least));
        }
        // From below: what was pushed out of the chart goes back up.
        let mut most = self.height - BOTTOM;
        for place in places.iter_mut().rev() {
            *place = place.min(most);
            most = *place - NAME_HEIGHT;
        }
        let x = self.width - self.right();
        for ((y, line), place) in ends.iter().zip(places) {
            let _ = write!(
                out,
                "<path class=\"lead c{c}\" d=\"M{x:.1} {y:.1}L{:.1} {place:.1}\"/>\
                 <text class=\"name n{c}\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                x + 9.0,
                x + 12.0,
                place + 4.0,
                escape(&line.name),
                c = line.colour
            );
        }
    }

    /// Invisible columns that say what is at their place.
    fn tooltips(&self, out: &mut String) {
        let room = self.height - TOP - BOTTOM;
        let mut from = LEFT;
        for (i, &x) in self.xs.iter().enumerate() {
            let to = match self.xs.get(i + 1) {
                Some(&next) => f64::midpoint(self.x(x), self.x(next)),
                None => self.width - self.right(),
            };
            let mut text = match self.x_marks {
                None => format!("{} s", plain((x * 100.0).round() / 100.0)),
                Some(_) => String::new(),
            };
            if let Some(mark) = self.x_marks.and_then(|m| m.get(i)) {
                text.push_str(mark.1);
            }
            for line in self.lines.iter().rev() {
                let value = (self.format)(line.values[i]);
                let _ = write!(text, "\n{} {value}", line.name);
            }
            let _ = write!(
                out,
                "<rect class=\"hit\" x=\"{from:.1}\" y=\"{TOP}\" width=\"{:.1}\" height=\"{room}\">\
                 <title>{}</title></rect>",
                (to - from).max(0.1),
                escape(&text)
            );
            from = to;
        }
    }
}

/// A number without needless digits.
pub fn plain(value: f64) -> String {
    let text = format!("{value:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    text.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart<'a>(xs: &'a [f64], lines: &'a [Line]) -> Chart<'a> {
        Chart {
            format: plain,
            ..Chart::over_time("a < b", xs, lines)
        }
    }

    fn line(name: &str, values: &[f64]) -> Line {
        Line {
            name: name.to_string(),
            colour: 0,
            values: values.to_vec(),
        }
    }

    #[test]
    fn axes_have_round_numbers_that_reach_the_top() {
        assert_eq!(round_steps(93.0, 4.0, Steps::Decimal), [0.0, 50.0, 100.0]);
        assert_eq!(round_steps(0.0, 4.0, Steps::Decimal), [0.0, 0.5, 1.0]);
        let mib = f64::from(1 << 20);
        assert_eq!(
            round_steps(70.0 * mib, 4.0, Steps::Binary),
            [0.0, 32.0, 64.0, 96.0].map(|n| n * mib)
        );
        assert_eq!(round_steps(0.0, 4.0, Steps::Binary), [0.0, 1.0]);
    }

    #[test]
    fn marks_of_bytes_are_named_exactly_and_in_little_room() {
        for exponent in 0..400 {
            let max = 1.1_f64.powi(exponent);
            let marks = round_steps(max, 4.0, Steps::Binary);
            assert!(marks.len() <= 5 && *marks.last().unwrap() >= max, "{max}");
            for mark in marks {
                let name = super::super::text::short_bytes(mark);
                let (number, unit) = name.split_once(' ').unwrap();
                let power = ["B", "KiB", "MiB", "GiB"].iter().position(|u| *u == unit);
                let value = number.parse::<f64>().unwrap() * 1024_f64.powi(power.unwrap() as i32);
                assert!(value == mark && (name.len() < 8 || unit == "GiB"), "{name}");
            }
        }
    }

    #[test]
    fn logarithmic_axes_bound_all_values() {
        let xs = [1.0, 2.0];
        for values in [
            [3.0, 4.0],
            [1.0, 1e6],
            [0.0, 0.0],
            [0.0, 50.0],
            [100.0, 100.0],
        ] {
            let lines = [line("x", &values)];
            let c = Chart {
                scale: Scale::Log,
                ..chart(&xs, &lines)
            };
            let marks = c.y_marks();
            assert!(marks.len() >= 2, "{values:?}: {marks:?}");
            let max = values[1];
            assert!(*marks.last().unwrap() >= max, "{values:?}: {marks:?}");
            let svg = c.svg();
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }

    #[test]
    fn names_do_not_overlap_and_stay_inside() {
        let xs = [1.0, 2.0];
        let lines: Vec<Line> = (0..6)
            .map(|n| line(&format!("p{n}"), &[1.0, 1.0]))
            .collect();
        let svg = chart(&xs, &lines).svg();
        let places: Vec<f64> = svg
            .split("<text class=\"name")
            .skip(1)
            .map(|t| {
                let y = t.split(" y=\"").nth(1).unwrap();
                y.split('"').next().unwrap().parse().unwrap()
            })
            .collect();
        assert_eq!(places.len(), 6);
        for pair in places.windows(2) {
            assert!(pair[1] - pair[0] >= NAME_HEIGHT - 0.11, "{places:?}");
        }
        assert!(places.iter().all(|y| *y > 0.0 && *y < 240.0), "{places:?}");
    }

    #[test]
    fn text_is_escaped_and_numbers_are_short() {
        let xs = [0.5, 1.0];
        let lines = [line("<x>", &[1.0, 2.0])];
        let svg = chart(&xs, &lines).svg();
        assert!(svg.contains("a &lt; b") && svg.contains("&lt;x&gt; 2"));
        assert_eq!(
            (plain(2.0), plain(0.25)),
            ("2".to_string(), "0.25".to_string())
        );
    }
}
