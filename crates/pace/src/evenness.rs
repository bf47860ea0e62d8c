//! How even a series of throughputs is.

/// Describes what is said of a series.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Evenness {
    /// Windows.
    pub windows: usize,
    /// Mean of a window.
    pub mean: f64,
    /// Median of a window.
    pub median: f64,
    /// The least window.
    pub min: f64,
    /// Standard deviation by mean.
    pub variation: f64,
    /// Windows below half of the median, and below a tenth: near-stops.
    pub below_half: usize,
    /// See [`Self::below_half`].
    pub below_tenth: usize,
    /// Most windows in a row without anything.
    pub longest_gap: usize,
}

/// Looks at a series of amounts per window of equal length.
pub fn evenness(series: &[f64]) -> Evenness {
    if series.is_empty() {
        return Evenness::default();
    }
    let n = series.len() as f64;
    let mean = series.iter().sum::<f64>() / n;
    let variance = series.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n;
    let mut sorted = series.to_vec();
    sorted.sort_by(f64::total_cmp);
    let median = sorted[sorted.len() / 2];
    let below = |share: f64| series.iter().filter(|&&v| v < median * share).count();
    let (mut gap, mut longest_gap) = (0, 0);
    for &v in series {
        gap = if v > 0.0 { 0 } else { gap + 1 };
        longest_gap = longest_gap.max(gap);
    }
    Evenness {
        windows: series.len(),
        mean,
        median,
        min: sorted[0],
        variation: if mean > 0.0 {
            variance.sqrt() / mean
        } else {
            0.0
        },
        below_half: below(0.5),
        below_tenth: below(0.1),
        longest_gap,
    }
}

/// Standard deviation of a series around its own line of best fit, by its mean: what goes up and down, without what only
/// drifts.
pub fn swing(series: &[f64]) -> f64 {
    let n = series.len() as f64;
    let mean = series.iter().sum::<f64>() / n.max(1.0);
    if series.len() < 3 || mean <= 0.0 {
        return 0.0;
    }
    let middle = (n - 1.0) / 2.0;
    let at = |i: usize| i as f64 - middle;
    let (mut both, mut square) = (0.0, 0.0);
    for (i, v) in series.iter().enumerate() {
        both += at(i) * (v - mean);
        square += at(i) * at(i);
    }
    let slope = both / square;
    let rest = |(i, v): (usize, &f64)| (v - mean - slope * at(i)).powi(2);
    (series.iter().enumerate().map(rest).sum::<f64>() / n).sqrt() / mean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drift_is_no_swing() {
        assert_eq!(swing(&[]), 0.0);
        assert_eq!(swing(&[0.0; 5]), 0.0);
        let drift: Vec<f64> = (0..100).map(|i| 200.0 - f64::from(i)).collect();
        assert!(swing(&drift) < 1e-9);
        let saw: Vec<f64> = (0..100).map(|i| 100.0 + f64::from(i % 2) * 100.0).collect();
        assert!((swing(&saw) - 1.0 / 3.0).abs() < 0.01, "{}", swing(&saw));
    }

    #[test]
    fn a_flat_line_is_even_and_a_saw_is_not() {
        assert_eq!(evenness(&[]), Evenness::default());
        let flat = evenness(&[5.0; 10]);
        assert_eq!(
            (flat.variation, flat.below_half, flat.longest_gap),
            (0.0, 0, 0)
        );
        let saw = evenness(&[10.0, 10.0, 10.0, 0.0, 0.5, 0.0, 0.0, 4.0, 10.0, 10.0, 10.0]);
        assert_eq!((saw.median, saw.min), (10.0, 0.0));
        assert_eq!(
            (saw.below_half, saw.below_tenth, saw.longest_gap),
            (5, 4, 2)
        );
        assert!(saw.variation > 0.6);
        assert_eq!(evenness(&[0.0, 0.0]).longest_gap, 2);
    }
}
