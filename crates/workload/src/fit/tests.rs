//! Every family's parameters are found again, from data with noise (R-WL-23).

use super::*;
use spanlith_testkit::Rng;

/// A number between -1 and 1.
fn noise(rng: &mut Rng) -> f64 {
    2.0 * rng.unit() - 1.0
}

fn places(n: usize, from: f64, to: f64) -> Vec<f64> {
    (0..n)
        .map(|i| from + (to - from) * i as f64 / (n - 1) as f64)
        .collect()
}

/// Fits the family to its own curve with noise; the largest relative error of a parameter.
fn recovered(family: Family, truth: &[f64], xs: &[f64], share: f64) -> f64 {
    let mut rng = Rng::new(7);
    let clean: Vec<f64> = xs.iter().map(|&x| family.at(x, truth)).collect();
    let size = clean.iter().fold(0.0f64, |m, y| m.max(y.abs()));
    let ys: Vec<f64> = clean
        .iter()
        .map(|y| y + share * size * noise(&mut rng))
        .collect();
    let fit = family.fit(xs, &ys).unwrap();
    assert!(fit.r2 > 0.9, "{family:?}: {fit:?}");
    let off = fit
        .parameters
        .iter()
        .zip(truth)
        .map(|(p, t)| (p - t).abs() / t.abs().max(0.05));
    off.fold(0.0, f64::max)
}

#[test]
fn every_family_finds_its_parameters_again() {
    let wide = places(2_000, 1.0, 1000.0);
    let cases: &[(Family, &[f64], &[f64])] = &[
        (Family::Power, &[0.002312, 0.3467], &wide),
        (Family::PowerOffset, &[40.0, -0.7, 3.0], &wide),
        (Family::TwoPowers, &[50.0, -1.6, 4.0, -0.2], &wide),
        (Family::Exponential, &[9.0, -0.004], &wide),
        (Family::TwoExponentials, &[14.0, -0.05, 2.0, -0.001], &wide),
        (Family::Polynomial(1), &[3.0, -0.5], &wide),
        (
            Family::Polynomial(3),
            &[1.0, 0.5, -0.02, 0.0004],
            &places(2_000, 0.0, 60.0),
        ),
        (Family::Weibull, &[120.0, 1.4], &wide),
        (Family::Pareto, &[0.2615, 25.45, 1.0], &wide),
        (
            Family::Sine,
            &[1000.0, 0.013, 0.7, 4500.0],
            &places(2_000, 0.0, 2000.0),
        ),
    ];
    for (family, truth, xs) in cases {
        let off = recovered(*family, truth, xs, 0.002);
        assert!(off < 0.08, "{family:?}: a parameter is off by {off}");
    }
}

#[test]
fn the_published_key_ranges_are_two_exponentials() {
    // p_x = 14.18 e^(-2.917 x) + 0.0164 e^(-0.08082 x), thirty ranges.
    let xs = places(30, 1.0, 30.0);
    let truth = [14.18, -2.917, 0.0164, -0.08082];
    let ys: Vec<f64> = xs
        .iter()
        .map(|&x| Family::TwoExponentials.at(x, &truth))
        .collect();
    let (fit, _) = best(
        &[Family::Power, Family::Exponential, Family::TwoExponentials],
        &xs,
        &ys,
    )
    .unwrap();
    assert_eq!(fit.family, Family::TwoExponentials);
    assert!(fit.largest < 1e-3, "{fit:?}");
}

#[test]
fn the_right_family_is_chosen() {
    let xs = places(2000, 1.0, 400.0);
    let mut rng = Rng::new(9);
    let shapes = [
        Family::Power,
        Family::Exponential,
        Family::Weibull,
        Family::Pareto,
        Family::Sine,
    ];
    for (family, truth) in [
        (Family::Power, vec![80.0, -0.9]),
        (Family::Weibull, vec![90.0, 2.2]),
        (Family::Pareto, vec![0.9, 20.0, 1.0]),
        (Family::Sine, vec![5.0, 0.05, 0.3, 20.0]),
    ] {
        let ys: Vec<f64> = xs
            .iter()
            .map(|&x| family.at(x, &truth) + 1e-3 * noise(&mut rng))
            .collect();
        assert_eq!(best(&shapes, &xs, &ys).unwrap().0.family, family);
    }
    // Equally good, the one with fewer parameters.
    let ys: Vec<f64> = xs.iter().map(|x| 2.0 * x + 1.0).collect();
    let all = [
        Family::Polynomial(5),
        Family::Polynomial(1),
        Family::Polynomial(3),
    ];
    assert_eq!(
        best(&all, &xs, &ys).unwrap().0.family,
        Family::Polynomial(1)
    );
}

#[test]
fn what_cannot_be_fitted_is_no_fit() {
    assert_eq!(Family::Power.fit(&[1.0], &[1.0]), None);
    assert_eq!(Family::Power.fit(&[1.0, 2.0], &[1.0]), None);
    assert_eq!(best(&[], &[1.0], &[1.0]), None);
    // Constants and zeros are harmless.
    for family in Family::ALL {
        let xs = places(50, 0.0, 10.0);
        for ys in [vec![0.0; 50], vec![3.0; 50]] {
            if let Some(fit) = family.fit(&xs, &ys) {
                assert!(fit.sse.is_finite() && fit.parameters.iter().all(|p| p.is_finite()));
            }
        }
        assert_eq!(Family::by_name(&family.name()), Some(family));
    }
}

#[test]
fn correlations_are_those_of_the_books() {
    let line: Vec<(f64, f64)> = (0..50)
        .map(|i| (f64::from(i), 3.0 - 2.0 * f64::from(i)))
        .collect();
    assert!((pearson(&line) + 1.0).abs() < 1e-12);
    let curve: Vec<(f64, f64)> = (1..50)
        .map(|i| (f64::from(i), f64::from(i).powi(5)))
        .collect();
    assert!((spearman(&curve) - 1.0).abs() < 1e-12 && pearson(&curve) < 0.95);
    // By hand: (1,2), (2,1), (3,4), (4,3), (5,5) has r = 0.8.
    let few = [(1.0, 2.0), (2.0, 1.0), (3.0, 4.0), (4.0, 3.0), (5.0, 5.0)];
    assert!((pearson(&few) - 0.8).abs() < 1e-12 && (spearman(&few) - 0.8).abs() < 1e-12);
    assert_eq!(pearson(&[(1.0, 1.0), (1.0, 2.0)]), 0.0);
}

#[test]
fn distances_of_distributions() {
    assert_eq!(ks(&[1.0, 2.0, 3.0], &[1.0, 2.0, 3.0]), 0.0);
    assert_eq!(ks(&[1.0, 2.0], &[3.0, 4.0]), 1.0);
    assert_eq!(ks(&[1.0, 2.0, 3.0, 4.0], &[1.0, 2.0, 9.0, 9.0]), 0.5);
    assert_eq!((ks(&[], &[]), ks(&[1.0], &[])), (0.0, 1.0));
}
