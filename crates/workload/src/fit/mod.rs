//! Curves through data: the families that models of workloads are made of (R-WL-23).
//!
//! [`Family::fit`] finds the parameters of one family by least squares ([`solve`]) from several starts; [`best`] tries all
//! and takes the one with the smallest standard error, `FSE = sqrt(SSE / (n - p))`, the fewer parameters on a tie. Every
//! fit says its FSE, R² and the largest distance of curve and data, which for distribution functions is that of
//! Kolmogorov and Smirnov ([`ks`] has it for two samples).
//!
//! Threads: everything is a function of its arguments.

mod correlation;
mod family;
mod solve;
mod starts;
#[cfg(test)]
mod tests;

pub use correlation::{pearson, spearman};
pub use family::{Family, Fit, best};

/// Largest distance of the distribution functions of two samples, which are sorted; 1 if only one is empty.
pub fn ks(a: &[f64], b: &[f64]) -> f64 {
    if a.is_empty() || b.is_empty() {
        return if a.is_empty() && b.is_empty() {
            0.0
        } else {
            1.0
        };
    }
    let (mut i, mut j, mut most) = (0, 0, 0.0f64);
    while let (Some(&x), Some(&y)) = (a.get(i), b.get(j)) {
        let at = x.min(y);
        while a.get(i).is_some_and(|&v| v <= at) {
            i += 1;
        }
        while b.get(j).is_some_and(|&v| v <= at) {
            j += 1;
        }
        let (p, q) = (i as f64 / a.len() as f64, j as f64 / b.len() as f64);
        most = most.max((p - q).abs());
    }
    most
}
