//! A finished experiment, and its JSON, which is read back for pages of several.

use super::{Bound, Check, Figure, Findings, Series, Spread};
use serde_json::{Map, Value, json};

/// An experiment with all that it depends on.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Its name.
    pub id: String,
    /// Says what it shows.
    pub title: String,
    /// The document and its figure or table.
    pub document: String,
    /// Requirements that it verifies.
    pub requirements: String,
    /// Says what was run, at scale 1.
    pub setup: String,
    /// When it passes.
    pub criterion: String,
    /// Factor on the sizes of the set-up.
    pub scale: f64,
    /// Seed of all random choices.
    pub seed: u64,
    /// How often it was run.
    pub runs: u64,
    /// The stores.
    pub stores: Vec<String>,
    /// Says what was found.
    pub findings: Findings,
    /// Machine and program: names and values.
    pub environment: Vec<(String, String)>,
    /// Seconds since 1970 when it began.
    pub started: u64,
    /// How long it took.
    pub seconds: f64,
}

fn series_json(series: &Series) -> Value {
    let values = series.values.iter().map(|runs| match Spread::of(runs) {
        None => Value::Null,
        Some(s) => json!({ "median": s.median, "min": s.least, "max": s.most, "runs": runs }),
    });
    json!({ "name": series.name, "values": values.collect::<Vec<_>>() })
}

fn figure_json(figure: &Figure) -> Value {
    let of = |printed: bool| {
        let series = figure.series.iter().filter(|s| s.printed == printed);
        series.map(series_json).collect::<Vec<_>>()
    };
    json!({
        "title": figure.title, "unit": figure.unit, "places": figure.places,
        "printed": of(true), "measured": of(false),
    })
}

fn check_json(check: &Check) -> Value {
    let (kind, bounds) = match check.bound {
        Bound::AtMost(most) => ("at_most", vec![most]),
        Bound::AtLeast(least) => ("at_least", vec![least]),
        Bound::Within(least, most) => ("within", vec![least, most]),
    };
    json!({
        "what": check.what, "bound": kind, "bounds": bounds, "runs": check.values,
        "median": Spread::of(&check.values).map(|s| s.median), "passed": check.passed(),
    })
}

/// Reads members of one JSON object, and says which is missing or of another kind.
struct Reader<'a>(&'a Value);

impl<'a> Reader<'a> {
    fn member(&self, name: &str) -> Result<&'a Value, String> {
        self.0
            .get(name)
            .ok_or_else(|| format!("'{name}' is missing"))
    }

    fn text(&self, name: &str) -> Result<String, String> {
        let value = self.member(name)?.as_str();
        Ok(value
            .ok_or_else(|| format!("'{name}' is no text"))?
            .to_string())
    }

    fn number(&self, name: &str) -> Result<f64, String> {
        let value = self.member(name)?.as_f64();
        value.ok_or_else(|| format!("'{name}' is no number"))
    }

    fn whole(&self, name: &str) -> Result<u64, String> {
        let value = self.member(name)?.as_u64();
        value.ok_or_else(|| format!("'{name}' is no whole number"))
    }

    fn list(&self, name: &str) -> Result<&'a [Value], String> {
        let value = self.member(name)?.as_array();
        Ok(value.ok_or_else(|| format!("'{name}' is no list"))?)
    }

    fn texts(&self, name: &str) -> Result<Vec<String>, String> {
        let texts = self
            .list(name)?
            .iter()
            .map(|v| v.as_str().map(str::to_string));
        texts
            .collect::<Option<_>>()
            .ok_or_else(|| format!("'{name}' holds something other than texts"))
    }

    fn numbers(&self, name: &str) -> Result<Vec<f64>, String> {
        let numbers = self.list(name)?.iter().map(Value::as_f64);
        numbers
            .collect::<Option<_>>()
            .ok_or_else(|| format!("'{name}' holds something other than numbers"))
    }
}

fn read_series(value: &Value, printed: bool, places: usize) -> Result<Series, String> {
    let reader = Reader(value);
    let values = reader.list("values")?.iter().map(|v| match v {
        Value::Null => Ok(Vec::new()),
        v => Reader(v).numbers("runs"),
    });
    let values: Vec<_> = values.collect::<Result<_, _>>()?;
    if values.len() != places {
        return Err(format!("{} values for {places} places", values.len()));
    }
    Ok(Series {
        name: reader.text("name")?,
        printed,
        values,
    })
}

fn read_figure(value: &Value) -> Result<Figure, String> {
    let reader = Reader(value);
    let places = reader.texts("places")?;
    let mut series = Vec::new();
    for (name, printed) in [("printed", true), ("measured", false)] {
        for value in reader.list(name)? {
            series.push(read_series(value, printed, places.len())?);
        }
    }
    Ok(Figure {
        title: reader.text("title")?,
        unit: reader.text("unit")?,
        places,
        series,
    })
}

fn read_check(value: &Value) -> Result<Check, String> {
    let reader = Reader(value);
    let bounds = reader.numbers("bounds")?;
    let bound = match (reader.text("bound")?.as_str(), bounds.as_slice()) {
        ("at_most", [most]) => Bound::AtMost(*most),
        ("at_least", [least]) => Bound::AtLeast(*least),
        ("within", [least, most]) => Bound::Within(*least, *most),
        (kind, _) => {
            return Err(format!(
                "'{kind}' with {} numbers is no bound",
                bounds.len()
            ));
        }
    };
    // A number that JSON cannot hold is written as null.
    let values = reader.list("runs")?.iter();
    Ok(Check {
        what: reader.text("what")?,
        bound,
        values: values.map(|v| v.as_f64().unwrap_or(f64::NAN)).collect(),
    })
}

impl Outcome {
    /// Returns whether all checks pass.
    pub fn passed(&self) -> bool {
        self.findings.passed()
    }

    /// All of it.
    pub fn json(&self) -> Value {
        let environment: Map<String, Value> = self
            .environment
            .iter()
            .map(|(name, value)| (name.replace(' ', "_"), json!(value)))
            .collect();
        json!({
            "id": self.id, "title": self.title, "document": self.document,
            "requirements": self.requirements, "setup": self.setup, "criterion": self.criterion,
            "scale": self.scale, "seed": self.seed, "runs": self.runs, "stores": self.stores,
            "figures": self.findings.figures.iter().map(figure_json).collect::<Vec<_>>(),
            "checks": self.findings.checks.iter().map(check_json).collect::<Vec<_>>(),
            "notes": self.findings.notes, "passed": self.passed(),
            "environment": environment, "started": self.started, "seconds": self.seconds,
        })
    }

    /// The outcome that [`Self::json`] made the value of.
    ///
    /// # Errors
    /// Names the member that is missing or wrong.
    pub fn from_json(value: &Value) -> Result<Self, String> {
        let reader = Reader(value);
        let figures = reader.list("figures")?.iter().map(read_figure);
        let checks = reader.list("checks")?.iter().map(read_check);
        let environment = reader.member("environment")?.as_object();
        let environment = environment.ok_or("'environment' is no object")?.iter();
        Ok(Self {
            id: reader.text("id")?,
            title: reader.text("title")?,
            document: reader.text("document")?,
            requirements: reader.text("requirements")?,
            setup: reader.text("setup")?,
            criterion: reader.text("criterion")?,
            scale: reader.number("scale")?,
            seed: reader.whole("seed")?,
            runs: reader.whole("runs")?,
            stores: reader.texts("stores")?,
            findings: Findings {
                figures: figures.collect::<Result<_, _>>()?,
                checks: checks.collect::<Result<_, _>>()?,
                notes: reader.texts("notes")?,
            },
            environment: environment
                .map(|(name, v)| (name.replace('_', " "), v.as_str().unwrap_or("").to_string()))
                .collect(),
            started: reader.whole("started")?,
            seconds: reader.number("seconds")?,
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// An outcome with everything in it.
    pub(crate) fn sample() -> Outcome {
        let mut findings = Findings::default();
        let figure = Figure::new("Reads & <writes>", "blocks", ["one", "two"])
            .printed("paper", &[Some(1.0), None])
            .measured("spanlith", &[Some(1.5), Some(0.25)]);
        findings.figures.push(figure);
        findings.check("most", Bound::AtMost(2.0), 1.5);
        findings.check("between", Bound::Within(0.5, 1.0), 0.25);
        findings.note("read with care");
        Outcome {
            id: "X-T-1".into(),
            title: "a test".into(),
            document: "[T] Fig 1".into(),
            requirements: "R-T-01".into(),
            setup: "small".into(),
            criterion: "passes".into(),
            scale: 0.5,
            seed: 7,
            runs: 1,
            stores: vec!["spanlith".into()],
            findings,
            environment: vec![("kernel".into(), "Linux".into())],
            started: 1_700_000_000,
            seconds: 1.25,
        }
    }

    #[test]
    fn json_is_read_back_whole() {
        let outcome = sample();
        let value = outcome.json();
        assert_eq!(value["passed"], false);
        assert_eq!(
            value["figures"][0]["measured"][0]["values"][0]["median"],
            1.5
        );
        assert_eq!(Outcome::from_json(&value), Ok(outcome));
    }

    #[test]
    fn json_that_lacks_something_is_refused_by_name() {
        let whole = sample().json();
        for name in ["id", "figures", "checks", "seed", "environment"] {
            let mut value = whole.clone();
            value.as_object_mut().unwrap().remove(name);
            let e = Outcome::from_json(&value).unwrap_err();
            assert!(e.contains(name), "{e}");
        }
        let mut value = whole;
        value["figures"][0]["places"] = json!(["one"]);
        assert!(Outcome::from_json(&value).is_err());
    }
}
