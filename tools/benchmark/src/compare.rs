//! Two servers in turns: the ratio of their figures, and its confidence interval.
//!
//! Two runs one after the other differ by other work of the machine. Here rounds alternate, each in
//! the reverse order of the one before (A B, B A, A B ...), so a drift affects both alike, and the
//! differences between rounds show the influence of chance. Each round gives one ratio. Ratios are
//! averaged by their logarithms, so that A to B is the inverse of B to A, and the interval is
//! Student's for their mean. It holds as far as rounds are independent of each other.

use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::result::Ratio;

/// Rounds of pairs of figures, first server and second: one list for each test.
type Rounds = Vec<(f64, f64)>;

/// The mean ratio of pairs, with its interval; none for less than two pairs or figures that are
/// not positive.
pub fn ratio(pairs: &[(f64, f64)], confidence: f64) -> Option<Ratio> {
    if pairs.len() < 2 || pairs.iter().any(|(a, b)| !(*a > 0.0 && *b > 0.0)) {
        return None;
    }
    let logs: Vec<f64> = pairs.iter().map(|(a, b)| (a / b).ln()).collect();
    let n = logs.len() as f64;
    let mean = logs.iter().sum::<f64>() / n;
    let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let t = StudentsT::new(0.0, 1.0, n - 1.0).ok()?.inverse_cdf(0.5 + confidence / 2.0);
    let half = t * (variance / n).sqrt();
    Some(Ratio { ratio: mean.exp(), low: (mean - half).exp(), high: (mean + half).exp() })
}

/// The figures of all tests together: in each round the geometric mean over the tests. None when
/// tests have different numbers of rounds, or there is no test.
pub fn over_all(tests: &[Rounds]) -> Option<Rounds> {
    let rounds = tests.first()?.len();
    if tests.iter().any(|test| test.len() != rounds) {
        return None;
    }
    let mean = |figures: &dyn Fn(&Rounds) -> f64| {
        (tests.iter().map(|test| figures(test).ln()).sum::<f64>() / tests.len() as f64).exp()
    };
    Some((0..rounds).map(|i| (mean(&|test| test[i].0), mean(&|test| test[i].1))).collect())
}

/// Whether the second server goes first in this round, counted from 0.
pub fn is_reversed(round: u32) -> bool {
    // A B, B A, B A, A B: a steady drift cancels out over four rounds.
    matches!(round % 4, 1 | 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand::rngs::SmallRng;
    use rand_distr::{Distribution, Normal};

    #[test]
    fn a_known_sample_has_its_known_interval() {
        // logarithms -1, 0, 1: mean 0, deviation 1, t(0.975, 2) = 4.302653
        let e = std::f64::consts::E;
        let found = ratio(&[(1.0, e), (1.0, 1.0), (e, 1.0)], 0.95).unwrap();
        assert!((found.ratio - 1.0).abs() < 1e-12);
        assert!((found.high.ln() - 4.302_653 / 3f64.sqrt()).abs() < 1e-4, "{found:?}");
        assert!((found.low * found.high - 1.0).abs() < 1e-9);
        assert!(!found.differs());
    }

    #[test]
    fn the_other_way_round_is_the_inverse() {
        let pairs = [(2.0, 1.0), (2.2, 1.0), (1.9, 1.0)];
        let there = ratio(&pairs, 0.99).unwrap();
        let back = ratio(&pairs.map(|(a, b)| (b, a)), 0.99).unwrap();
        assert!((there.ratio * back.ratio - 1.0).abs() < 1e-12);
        assert!((there.low * back.high - 1.0).abs() < 1e-12);
        assert!(there.differs() && back.differs());
    }

    #[test]
    fn intervals_hold_as_often_as_they_say() {
        let mut rng = SmallRng::seed_from_u64(7);
        let noise = Normal::new(0.0f64, 0.05).unwrap();
        let mut held = 0;
        for _ in 0..2000 {
            let pairs: Vec<(f64, f64)> = (0..10)
                .map(|_| (noise.sample(&mut rng).exp() * 1.2, noise.sample(&mut rng).exp()))
                .collect();
            let found = ratio(&pairs, 0.9).unwrap();
            held += i32::from(found.low < 1.2 && 1.2 < found.high);
        }
        assert!((1750..=1850).contains(&held), "{held} of 2000");
    }

    #[test]
    fn all_tests_together_are_their_mean_in_each_round() {
        let tests = [vec![(1.0, 2.0), (4.0, 1.0)], vec![(4.0, 8.0), (9.0, 1.0)]];
        let all = over_all(&tests).unwrap();
        assert!((all[0].0 - 2.0).abs() < 1e-12 && (all[0].1 - 4.0).abs() < 1e-12);
        assert!((all[1].0 - 6.0).abs() < 1e-12 && (all[1].1 - 1.0).abs() < 1e-12);
        assert_eq!(over_all(&[vec![(1.0, 1.0)], vec![]]), None);
        assert_eq!(over_all(&[]), None);
    }

    #[test]
    fn too_little_gives_nothing() {
        assert_eq!(ratio(&[(1.0, 1.0)], 0.95), None);
        assert_eq!(ratio(&[(1.0, 1.0), (0.0, 1.0)], 0.95), None);
    }

    #[test]
    fn each_server_goes_first_as_often() {
        assert_eq!((0..100).filter(|&round| is_reversed(round)).count(), 50);
    }
}
