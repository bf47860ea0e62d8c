//! Describes what a run found: figures with printed and measured numbers side by side, and checks.

/// Places from which on a figure shows a course.
const COURSE: usize = 20;

/// Values of several runs, as median and extremes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The middle one.
    pub median: f64,
    /// The smallest.
    pub least: f64,
    /// The largest.
    pub most: f64,
}

impl Spread {
    /// Of values; `None` of no values.
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (least, most) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let median = match sorted.len() % 2 {
            1 => sorted[middle],
            _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
        };
        Some(Self {
            median,
            least,
            most,
        })
    }
}

/// One row of bars: what a store measured, or what the document printed.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Name of the store, or of the document.
    pub name: String,
    /// Says whether the numbers are the document's, or those that a model predicts.
    pub printed: bool,
    /// For each place of the figure the values of all runs; none where there is no number.
    pub values: Vec<Vec<f64>>,
}

/// A chart that puts series side by side at named places.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Says what it shows.
    pub title: String,
    /// Unit of the numbers.
    pub unit: String,
    /// Names of the places on the x axis.
    pub places: Vec<String>,
    /// The rows of bars, printed ones first.
    pub series: Vec<Series>,
}

impl Figure {
    /// A figure without series.
    pub fn new<T: Into<String>>(
        title: impl Into<String>,
        unit: impl Into<String>,
        places: impl IntoIterator<Item = T>,
    ) -> Self {
        Self {
            title: title.into(),
            unit: unit.into(),
            places: places.into_iter().map(Into::into).collect(),
            series: Vec::new(),
        }
    }

    /// Returns whether it shows a course with so many places that pages draw lines, and texts leave it out.
    pub fn is_course(&self) -> bool {
        self.places.len() >= COURSE
    }

    fn add(mut self, name: &str, printed: bool, values: &[Option<f64>]) -> Self {
        assert_eq!(values.len(), self.places.len(), "a value for each place");
        let values = values.iter().map(|v| v.iter().copied().collect());
        self.series.push(Series {
            name: name.to_string(),
            printed,
            values: values.collect(),
        });
        self
    }

    /// Adds the document's numbers, or those of a model; `None` where it has none.
    #[must_use]
    pub fn printed(self, name: &str, values: &[Option<f64>]) -> Self {
        self.add(name, true, values)
    }

    /// Adds what a store measured; `None` where it measured nothing.
    #[must_use]
    pub fn measured(self, name: &str, values: &[Option<f64>]) -> Self {
        self.add(name, false, values)
    }

    /// Adds what a store measured at every place.
    #[must_use]
    pub fn all_measured(self, name: &str, values: &[f64]) -> Self {
        let values: Vec<Option<f64>> = values.iter().copied().map(Some).collect();
        self.measured(name, &values)
    }
}

/// When a number passes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// At most.
    AtMost(f64),
    /// At least.
    AtLeast(f64),
    /// From one number to another, both included.
    Within(f64, f64),
}

impl Bound {
    /// Returns whether a number lies within. One that is not a number never does.
    pub fn holds(self, value: f64) -> bool {
        match self {
            Self::AtMost(most) => value <= most,
            Self::AtLeast(least) => value >= least,
            Self::Within(least, most) => value >= least && value <= most,
        }
    }
}

impl std::fmt::Display for Bound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        use crate::report::chart::plain;
        match self {
            Self::AtMost(most) => write!(f, "at most {}", plain(*most)),
            Self::AtLeast(least) => write!(f, "at least {}", plain(*least)),
            Self::Within(least, most) => write!(f, "{} to {}", plain(*least), plain(*most)),
        }
    }
}

/// One number that must lie within a bound. Of several runs the median is judged.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    /// The number, in words, with its store.
    pub what: String,
    /// The bound.
    pub bound: Bound,
    /// The number in each run.
    pub values: Vec<f64>,
}

impl Check {
    /// Returns whether the median of the runs lies within the bound.
    pub fn passed(&self) -> bool {
        Spread::of(&self.values).is_some_and(|s| self.bound.holds(s.median))
    }
}

/// Everything that a run found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Findings {
    /// Figures, in order.
    pub figures: Vec<Figure>,
    /// The pass criterion, number by number.
    pub checks: Vec<Check>,
    /// Remarks on how to read the numbers.
    pub notes: Vec<String>,
}

impl Findings {
    /// Adds a number that must lie within a bound.
    pub fn check(&mut self, what: impl Into<String>, bound: Bound, value: f64) {
        self.checks.push(Check {
            what: what.into(),
            bound,
            values: vec![value],
        });
    }

    /// Adds a remark.
    pub fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }

    /// Returns whether all checks pass. An experiment without checks does not pass.
    pub fn passed(&self) -> bool {
        !self.checks.is_empty() && self.checks.iter().all(Check::passed)
    }

    /// Adds the values of another run of the same experiment.
    ///
    /// # Panics
    /// If the runs have different figures or checks: an experiment decides on them by its set-up, not by chance.
    pub fn merge(&mut self, other: Self) {
        assert_eq!(self.figures.len(), other.figures.len(), "same figures");
        assert_eq!(self.checks.len(), other.checks.len(), "same checks");
        for (mine, theirs) in self.figures.iter_mut().zip(other.figures) {
            assert_eq!(mine.series.len(), theirs.series.len(), "{}", mine.title);
            for (a, b) in mine.series.iter_mut().zip(theirs.series) {
                if a.printed {
                    continue;
                }
                for (values, more) in a.values.iter_mut().zip(b.values) {
                    values.extend(more);
                }
            }
        }
        for (mine, theirs) in self.checks.iter_mut().zip(other.checks) {
            mine.values.extend(theirs.values);
        }
        for note in other.notes {
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(value: f64) -> Findings {
        let mut out = Findings::default();
        let figure = Figure::new("f", "x", ["a", "b"])
            .printed("paper", &[Some(1.0), None])
            .measured("s", &[Some(value), None]);
        out.figures.push(figure);
        out.check("value", Bound::AtMost(2.0), value);
        out
    }

    #[test]
    fn the_median_of_runs_is_judged() {
        let mut all = findings(1.0);
        all.merge(findings(9.0));
        assert!(!all.passed());
        all.merge(findings(2.0));
        assert!(all.passed());
        assert_eq!(all.figures[0].series[0].values, [vec![1.0], vec![]]);
        assert_eq!(
            all.figures[0].series[1].values,
            [vec![1.0, 9.0, 2.0], vec![]]
        );
        let spread = Spread::of(&all.checks[0].values).unwrap();
        assert_eq!((spread.least, spread.median, spread.most), (1.0, 2.0, 9.0));
    }

    #[test]
    fn nothing_and_no_number_do_not_pass() {
        assert!(!Findings::default().passed());
        assert!(!findings(f64::NAN).passed());
        assert!(Bound::Within(1.0, 2.0).holds(2.0) && !Bound::AtLeast(1.0).holds(0.9));
        assert_eq!(Bound::Within(0.85, 1.15).to_string(), "0.85 to 1.15");
    }
}
