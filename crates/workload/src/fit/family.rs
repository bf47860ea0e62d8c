//! The families, and how well one of their curves goes through data.

use super::solve::{improve, least_squares, sse};
use super::starts;

/// A family of curves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// `a·x^b`.
    Power,
    /// `a·x^b + c`.
    PowerOffset,
    /// `a·x^b + c·x^d`.
    TwoPowers,
    /// `a·e^(b·x)`.
    Exponential,
    /// `a·e^(b·x) + c·e^(d·x)`.
    TwoExponentials,
    /// A polynomial of that degree, 1 to 5; the constant first.
    Polynomial(u8),
    /// Distribution function `1 - e^(-(x/λ)^k)`; parameters λ, k.
    Weibull,
    /// Distribution function of the generalised Pareto distribution; parameters k, σ, θ. k = 0 is the exponential one.
    Pareto,
    /// `A·sin(B·x + C) + D`.
    Sine,
}

/// A curve through data.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// Which family.
    pub family: Family,
    /// Its parameters, in the order that the family says.
    pub parameters: Vec<f64>,
    /// Sum of squares of what it misses.
    pub sse: f64,
    /// Standard error: `sqrt(SSE / (n - p))`.
    pub fse: f64,
    /// Share of the variance that it explains.
    pub r2: f64,
    /// Largest distance.
    pub largest: f64,
}

impl Family {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::Power,
        Self::PowerOffset,
        Self::TwoPowers,
        Self::Exponential,
        Self::TwoExponentials,
        Self::Polynomial(1),
        Self::Polynomial(2),
        Self::Polynomial(3),
        Self::Polynomial(4),
        Self::Polynomial(5),
        Self::Weibull,
        Self::Pareto,
        Self::Sine,
    ];

    /// Name, as in model files.
    pub fn name(self) -> String {
        match self {
            Self::Power => "power".into(),
            Self::PowerOffset => "power-offset".into(),
            Self::TwoPowers => "two-powers".into(),
            Self::Exponential => "exponential".into(),
            Self::TwoExponentials => "two-exponentials".into(),
            Self::Polynomial(n) => format!("polynomial-{n}"),
            Self::Weibull => "weibull".into(),
            Self::Pareto => "pareto".into(),
            Self::Sine => "sine".into(),
        }
    }

    /// The family of that name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|f| f.name() == name)
    }

    /// Number of parameters.
    pub fn parameters(self) -> usize {
        match self {
            Self::Power | Self::Exponential | Self::Weibull => 2,
            Self::PowerOffset | Self::Pareto => 3,
            Self::TwoPowers | Self::TwoExponentials | Self::Sine => 4,
            Self::Polynomial(n) => usize::from(n) + 1,
        }
    }

    /// Its value at `x`; not a number where it has none.
    pub fn at(self, x: f64, p: &[f64]) -> f64 {
        match (self, p) {
            (Self::Power, &[a, b]) => a * x.powf(b),
            (Self::PowerOffset, &[a, b, c]) => a * x.powf(b) + c,
            (Self::TwoPowers, &[a, b, c, d]) => a * x.powf(b) + c * x.powf(d),
            (Self::Exponential, &[a, b]) => a * (b * x).exp(),
            (Self::TwoExponentials, &[a, b, c, d]) => a * (b * x).exp() + c * (d * x).exp(),
            (Self::Polynomial(_), p) => p.iter().rev().fold(0.0, |sum, c| sum * x + c),
            (Self::Weibull, &[scale, k]) => match x > 0.0 && scale > 0.0 {
                true => 1.0 - (-(x / scale).powf(k)).exp(),
                false if scale > 0.0 => 0.0,
                false => f64::NAN,
            },
            (Self::Pareto, &[k, sigma, theta]) => pareto(x, k, sigma, theta),
            (Self::Sine, &[a, b, c, d]) => a * (b * x + c).sin() + d,
            _ => f64::NAN,
        }
    }

    /// The curve of this family that comes closest to data; `None` if there are fewer points than parameters, or none of
    /// its curves has values at all of them.
    pub fn fit(self, xs: &[f64], ys: &[f64]) -> Option<Fit> {
        if xs.len() != ys.len() || xs.len() <= self.parameters() {
            return None;
        }
        let curve = |x: f64, p: &[f64]| self.at(x, p);
        let found = match self {
            Self::Polynomial(n) => {
                // In units of the largest x, so that powers of it stay comparable.
                let unit = xs.iter().fold(0.0f64, |m, x| m.max(x.abs())).max(1e-300);
                let power = |j: i32| xs.iter().map(|x| (x / unit).powi(j)).collect();
                let basis: Vec<Vec<f64>> = (0..=i32::from(n)).map(power).collect();
                let mut p = least_squares(&basis, ys)?;
                for (j, c) in p.iter_mut().enumerate() {
                    *c /= unit.powi(j as i32);
                }
                let error = sse(&curve, &p, xs, ys);
                (p, error)
            }
            _ => {
                let starts = starts::of(self, xs, ys);
                let all = starts.iter().map(|start| improve(&curve, start, xs, ys));
                all.min_by(|a, b| a.1.total_cmp(&b.1))?
            }
        };
        self.judged(found.0, xs, ys)
    }

    /// How well given parameters go through data.
    pub fn judged(self, parameters: Vec<f64>, xs: &[f64], ys: &[f64]) -> Option<Fit> {
        let curve = |x: f64, p: &[f64]| self.at(x, p);
        let error = sse(&curve, &parameters, xs, ys);
        if !error.is_finite() || parameters.iter().any(|p| !p.is_finite()) {
            return None;
        }
        let n = ys.len() as f64;
        let mean = ys.iter().sum::<f64>() / n;
        let total: f64 = ys.iter().map(|y| (y - mean).powi(2)).sum();
        let free = (n - self.parameters() as f64).max(1.0);
        let missed = xs.iter().zip(ys);
        let largest = missed.map(|(&x, &y)| (y - self.at(x, &parameters)).abs());
        Some(Fit {
            family: self,
            sse: error,
            fse: (error / free).sqrt(),
            r2: if total > 0.0 {
                1.0 - error / total
            } else {
                1.0
            },
            largest: largest.fold(0.0, f64::max),
            parameters,
        })
    }
}

/// The distribution function of the generalised Pareto distribution.
fn pareto(x: f64, k: f64, sigma: f64, theta: f64) -> f64 {
    if sigma <= 0.0 {
        return f64::NAN;
    }
    let z = (x - theta) / sigma;
    if z <= 0.0 {
        return 0.0;
    }
    if k.abs() < 1e-9 {
        return 1.0 - (-z).exp();
    }
    let base = 1.0 + k * z;
    // Below 0 the distribution ends.
    if base <= 0.0 {
        return 1.0;
    }
    1.0 - base.powf(-1.0 / k)
}

/// The fit of the smallest standard error among families, and the one after it. A family with more parameters has to be
/// better by a thousandth.
pub fn best(families: &[Family], xs: &[f64], ys: &[f64]) -> Option<(Fit, Option<Fit>)> {
    let mut fits: Vec<Fit> = families.iter().filter_map(|f| f.fit(xs, ys)).collect();
    fits.sort_by(|a, b| a.fse.total_cmp(&b.fse));
    let limit = fits.first()?.fse * 1.001 + 1e-15;
    let as_good = fits.iter().take_while(|f| f.fse <= limit).enumerate();
    let (at, _) = as_good.min_by_key(|(at, f)| (f.family.parameters(), *at))?;
    let first = fits.remove(at);
    Some((first, fits.into_iter().next()))
}
