//! Makes a failing list shorter while it fails (delta debugging).

/// The shortest list found that `fails`, by removing ever smaller pieces, with at most `budget` calls.
pub fn reduce<T: Clone>(
    list: &[T],
    mut budget: usize,
    mut fails: impl FnMut(&[T]) -> bool,
) -> Vec<T> {
    let mut best = list.to_vec();
    let mut piece = best.len().div_ceil(2);
    while piece > 0 && budget > 0 {
        let mut at = 0;
        let mut shorter = false;
        while at < best.len() && budget > 0 {
            let mut candidate = best[..at].to_vec();
            candidate.extend_from_slice(&best[(at + piece).min(best.len())..]);
            budget -= 1;
            if fails(&candidate) {
                best = candidate;
                shorter = true;
            } else {
                at += piece;
            }
        }
        if !shorter || piece > best.len() {
            piece = piece.min(best.len()) / 2;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::reduce;

    #[test]
    fn only_what_the_failure_needs_is_left() {
        let list: Vec<u32> = (0..100).collect();
        let needs = |l: &[u32]| l.contains(&17) && l.contains(&71) && l.contains(&72);
        assert_eq!(reduce(&list, 10_000, needs), [17, 71, 72]);
    }

    #[test]
    fn a_spent_budget_gives_the_best_so_far() {
        let list: Vec<u32> = (0..100).collect();
        let mut calls = 0;
        let best = reduce(&list, 3, |l| {
            calls += 1;
            l.contains(&99)
        });
        assert_eq!(calls, 3);
        assert!(best.contains(&99) && best.len() <= 50);
    }
}
