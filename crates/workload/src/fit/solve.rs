//! Least squares: linear systems, and the method of Levenberg and Marquardt for the rest.

/// Rounds of improvement at most.
const ROUNDS: usize = 200;
/// Improvement, as a share of the sum of squares, below which it ends.
const ENOUGH: f64 = 1e-12;

/// Solves a symmetric system by elimination with pivots; `None` if it has no single solution.
pub(super) fn linear(mut a: Vec<Vec<f64>>, mut b: Vec<f64>) -> Option<Vec<f64>> {
    let n = b.len();
    for col in 0..n {
        let pivot = (col..n).max_by(|&i, &j| a[i][col].abs().total_cmp(&a[j][col].abs()))?;
        if a[pivot][col].abs() < 1e-300 || !a[pivot][col].is_finite() {
            return None;
        }
        a.swap(col, pivot);
        b.swap(col, pivot);
        for row in col + 1..n {
            let factor = a[row][col] / a[col][col];
            let above = a[col].clone();
            for (value, above) in a[row].iter_mut().zip(&above).skip(col) {
                *value -= factor * above;
            }
            b[row] -= factor * b[col];
        }
    }
    let mut x = vec![0.0; n];
    for row in (0..n).rev() {
        let known: f64 = (row + 1..n).map(|k| a[row][k] * x[k]).sum();
        x[row] = (b[row] - known) / a[row][row];
    }
    x.iter().all(|v| v.is_finite()).then_some(x)
}

/// Coefficients `c` for which `Σ c[j]·basis[j](x)` comes closest to `y`.
pub(super) fn least_squares(basis: &[Vec<f64>], ys: &[f64]) -> Option<Vec<f64>> {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
    let a = basis
        .iter()
        .map(|row| basis.iter().map(|col| dot(row, col)).collect())
        .collect();
    let b = basis.iter().map(|row| dot(row, ys)).collect();
    linear(a, b)
}

/// Sum of squares of what a curve misses; infinite where it has no value.
pub(super) fn sse(curve: &dyn Fn(f64, &[f64]) -> f64, p: &[f64], xs: &[f64], ys: &[f64]) -> f64 {
    let missed = xs.iter().zip(ys).map(|(&x, &y)| (y - curve(x, p)).powi(2));
    let sum: f64 = missed.sum();
    if sum.is_finite() { sum } else { f64::INFINITY }
}

/// Improves parameters as long as that helps; returns them with the sum of squares.
pub(super) fn improve(
    curve: &dyn Fn(f64, &[f64]) -> f64,
    start: &[f64],
    xs: &[f64],
    ys: &[f64],
) -> (Vec<f64>, f64) {
    let mut p = start.to_vec();
    let mut error = sse(curve, &p, xs, ys);
    let mut damping = 1e-3;
    for _ in 0..ROUNDS {
        if !error.is_finite() || error == 0.0 {
            break;
        }
        let slopes: Vec<Vec<f64>> = (0..p.len()).map(|j| slope(curve, &p, j, xs)).collect();
        let missed: Vec<f64> = xs.iter().zip(ys).map(|(&x, &y)| y - curve(x, &p)).collect();
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
        let square: Vec<Vec<f64>> = slopes
            .iter()
            .map(|row| slopes.iter().map(|col| dot(row, col)).collect())
            .collect();
        let right: Vec<f64> = slopes.iter().map(|row| dot(row, &missed)).collect();
        let mut better = None;
        for _ in 0..12 {
            let mut damped = square.clone();
            for (j, row) in damped.iter_mut().enumerate() {
                row[j] += damping * row[j].max(1e-30);
            }
            let step = linear(damped, right.clone());
            if let Some(step) = step {
                let next: Vec<f64> = p.iter().zip(&step).map(|(a, b)| a + b).collect();
                let of_next = sse(curve, &next, xs, ys);
                if of_next < error {
                    better = Some((next, of_next));
                    damping = (damping / 9.0).max(1e-15);
                    break;
                }
            }
            damping *= 11.0;
        }
        let Some((next, of_next)) = better else { break };
        let gain = (error - of_next) / error;
        (p, error) = (next, of_next);
        if gain < ENOUGH {
            break;
        }
    }
    (p, error)
}

/// How the curve changes with a parameter, at all places.
fn slope(curve: &dyn Fn(f64, &[f64]) -> f64, p: &[f64], j: usize, xs: &[f64]) -> Vec<f64> {
    let h = 1e-6 * p[j].abs().max(1e-9);
    let (mut up, mut down) = (p.to_vec(), p.to_vec());
    up[j] += h;
    down[j] -= h;
    let of = |&x: &f64| {
        let d = (curve(x, &up) - curve(x, &down)) / (2.0 * h);
        if d.is_finite() { d } else { 0.0 }
    };
    xs.iter().map(of).collect()
}
