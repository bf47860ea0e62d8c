//! How much two variables have to do with each other (R-WL-22).

/// Pearson's r of pairs; 0 if one of the variables does not vary, or there are fewer than two pairs.
pub fn pearson(pairs: &[(f64, f64)]) -> f64 {
    let n = pairs.len() as f64;
    if pairs.len() < 2 {
        return 0.0;
    }
    let mean_x = pairs.iter().map(|p| p.0).sum::<f64>() / n;
    let mean_y = pairs.iter().map(|p| p.1).sum::<f64>() / n;
    let (mut xy, mut xx, mut yy) = (0.0, 0.0, 0.0);
    for (x, y) in pairs {
        let (dx, dy) = (x - mean_x, y - mean_y);
        xy += dx * dy;
        xx += dx * dx;
        yy += dy * dy;
    }
    match xx * yy > 0.0 {
        true => (xy / (xx * yy).sqrt()).clamp(-1.0, 1.0),
        false => 0.0,
    }
}

/// Spearman's ρ: Pearson's r of ranks, equal values sharing theirs.
pub fn spearman(pairs: &[(f64, f64)]) -> f64 {
    let xs: Vec<f64> = pairs.iter().map(|p| p.0).collect();
    let ys: Vec<f64> = pairs.iter().map(|p| p.1).collect();
    let ranked: Vec<_> = ranks(&xs).into_iter().zip(ranks(&ys)).collect();
    pearson(&ranked)
}

fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut ranks = vec![0.0; values.len()];
    let mut from = 0;
    while from < order.len() {
        let value = values[order[from]];
        let mut to = from;
        while to < order.len() && values[order[to]] == value {
            to += 1;
        }
        let shared = (from + to - 1) as f64 / 2.0;
        for &at in &order[from..to] {
            ranks[at] = shared;
        }
        from = to;
    }
    ranks
}
