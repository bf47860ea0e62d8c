//! Where the search for parameters begins.

use super::family::Family;
use super::solve::least_squares;

/// Starts for a family; at least one.
pub(super) fn of(family: Family, xs: &[f64], ys: &[f64]) -> Vec<Vec<f64>> {
    match family {
        Family::Power => vec![power(xs, ys)],
        Family::PowerOffset => {
            let floor = ys.iter().copied().fold(f64::INFINITY, f64::min);
            let lowered: Vec<f64> = ys.iter().map(|y| y - floor + 1e-9).collect();
            let bare = power(xs, ys);
            let above = power(xs, &lowered);
            vec![
                vec![bare[0], bare[1], 0.0],
                vec![above[0], above[1], floor],
                vec![above[0], -0.5, floor],
            ]
        }
        Family::TwoPowers => {
            let (head, tail) = halves(xs, ys);
            let (a, b) = (power(&head.0, &head.1), power(&tail.0, &tail.1));
            vec![
                vec![a[0], a[1], b[0], b[1]],
                vec![a[0], a[1], a[0] / 10.0, a[1] / 3.0],
                vec![a[0], a[1] * 2.0, b[0] / 2.0, b[1] / 2.0],
            ]
        }
        Family::Exponential => vec![exponential(xs, ys)],
        Family::TwoExponentials => {
            let (head, tail) = halves(xs, ys);
            let b = exponential(&tail.0, &tail.1);
            let left: Vec<f64> = head
                .0
                .iter()
                .zip(&head.1)
                .map(|(x, y)| (y - b[0] * (b[1] * x).exp()).max(1e-12))
                .collect();
            let a = exponential(&head.0, &left);
            let plain = exponential(xs, ys);
            let mut all = vec![
                vec![a[0], a[1], b[0], b[1]],
                vec![plain[0], plain[1] * 4.0, plain[0] / 8.0, plain[1] / 2.0],
            ];
            // The head may be a point or two.
            let (first, second) = (ys.first().copied(), ys.get(1).copied());
            if let (Some(y0), Some(y1), Some(x0)) = (first, second, xs.first())
                && y0 > y1
                && y1 > 0.0
            {
                let rate = (y1 / y0).ln();
                all.push(vec![y0 / (rate * x0).exp(), rate, b[0], b[1]]);
            }
            all
        }
        Family::Weibull => weibull(xs, ys),
        Family::Pareto => pareto(xs, ys),
        Family::Sine => sine(xs, ys),
        Family::Polynomial(_) => Vec::new(),
    }
}

type Points = (Vec<f64>, Vec<f64>);

fn halves(xs: &[f64], ys: &[f64]) -> (Points, Points) {
    let at = (xs.len() / 4).max(2).min(xs.len());
    let of = |s: &[f64]| s.to_vec();
    let tail = xs.len() / 2;
    (
        (of(&xs[..at]), of(&ys[..at])),
        (of(&xs[tail..]), of(&ys[tail..])),
    )
}

/// Line through points: constant and slope.
fn line(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    let ones = vec![1.0; points.len()];
    let xs: Vec<f64> = points.iter().map(|p| p.0).collect();
    let ys: Vec<f64> = points.iter().map(|p| p.1).collect();
    let c = least_squares(&[ones, xs], &ys)?;
    Some((c[0], c[1]))
}

/// From the line of logarithms.
fn power(xs: &[f64], ys: &[f64]) -> Vec<f64> {
    let sign = if ys.iter().sum::<f64>() < 0.0 {
        -1.0
    } else {
        1.0
    };
    let logs: Vec<(f64, f64)> = xs
        .iter()
        .zip(ys)
        .filter(|&(&x, &y)| x > 0.0 && sign * y > 0.0)
        .map(|(x, y)| (x.ln(), (sign * y).ln()))
        .collect();
    match line(&logs) {
        Some((c, slope)) => vec![sign * c.exp(), slope],
        None => vec![1.0, 1.0],
    }
}

fn exponential(xs: &[f64], ys: &[f64]) -> Vec<f64> {
    let sign = if ys.iter().sum::<f64>() < 0.0 {
        -1.0
    } else {
        1.0
    };
    let logs: Vec<(f64, f64)> = xs
        .iter()
        .zip(ys)
        .filter(|&(_, &y)| sign * y > 0.0)
        .map(|(x, y)| (*x, (sign * y).ln()))
        .collect();
    match line(&logs) {
        Some((c, slope)) => vec![sign * c.exp(), slope],
        None => vec![1.0, 0.0],
    }
}

/// The place at which a rising curve passes a value.
fn passes(xs: &[f64], ys: &[f64], value: f64) -> f64 {
    let at = ys.iter().position(|&y| y >= value);
    at.map_or_else(|| xs.last().copied().unwrap_or(1.0), |at| xs[at])
}

/// From the line of `ln(-ln(1 - F))` over `ln x`.
fn weibull(xs: &[f64], ys: &[f64]) -> Vec<Vec<f64>> {
    let logs: Vec<(f64, f64)> = xs
        .iter()
        .zip(ys)
        .filter(|&(&x, &y)| x > 0.0 && y > 0.0 && y < 1.0)
        .map(|(x, y)| (x.ln(), (-(1.0 - y).ln()).ln()))
        .collect();
    let scale = passes(xs, ys, 0.632).max(1e-9);
    let mut starts = vec![vec![scale, 1.0]];
    if let Some((c, k)) = line(&logs)
        && k > 0.0
    {
        starts.push(vec![(-c / k).exp(), k]);
    }
    starts
}

/// By moments, as far as a distribution function tells them, and by quantiles.
fn pareto(xs: &[f64], ys: &[f64]) -> Vec<Vec<f64>> {
    let first = xs.first().copied().unwrap_or(0.0);
    let (mut mean, mut square, mut before) = (0.0, 0.0, 0.0);
    for (x, y) in xs.iter().zip(ys) {
        let share = (y - before).max(0.0);
        mean += share * (x - first);
        square += share * (x - first).powi(2);
        before = *y;
    }
    let variance = square - mean * mean;
    let mut starts = Vec::new();
    if mean > 0.0 && variance > 0.0 {
        let ratio = mean * mean / variance;
        starts.push(vec![0.5 * (1.0 - ratio), 0.5 * mean * (ratio + 1.0), first]);
    }
    let median = (passes(xs, ys, 0.5) - first).max(1e-9);
    for k in [0.01, 0.25, 1.0, 2.5] {
        let sigma = median * k / (2f64.powf(k) - 1.0);
        starts.push(vec![k, sigma, first]);
        starts.push(vec![k, sigma, 0.0]);
    }
    starts
}

/// From the frequency with the most power.
fn sine(xs: &[f64], ys: &[f64]) -> Vec<Vec<f64>> {
    let n = ys.len() as f64;
    let mean = ys.iter().sum::<f64>() / n;
    let (low, high) = (xs.first().copied(), xs.last().copied());
    let span = (high.unwrap_or(1.0) - low.unwrap_or(0.0)).max(1e-9);
    let power = |b: f64| {
        let (mut s, mut c) = (0.0, 0.0);
        for (x, y) in xs.iter().zip(ys) {
            s += (y - mean) * (b * x).sin();
            c += (y - mean) * (b * x).cos();
        }
        (s, c)
    };
    let most = (ys.len() / 2).clamp(2, 400);
    // Half periods, so that less than one whole period is seen, too.
    let all = (1..=2 * most).map(|k| {
        let b = std::f64::consts::PI * k as f64 / span;
        let (s, c) = power(b);
        (s * s + c * c, b, s, c)
    });
    let mut all: Vec<_> = all.collect();
    all.sort_by(|a, b| b.0.total_cmp(&a.0));
    let start = |&(_, b, s, c): &(f64, f64, f64, f64)| {
        let amplitude = 2.0 * (s * s + c * c).sqrt() / n;
        vec![amplitude, b, c.atan2(s), mean]
    };
    all.iter().take(4).map(start).collect()
}
