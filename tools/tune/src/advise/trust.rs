//! Decides which points follow the law, and how far beyond them it is reliable.
//!
//! A point is *outside the law* if it is more than 10 % away from the law's prediction, and also
//! outside of the 95 % interval of a law without this point: the one in question, or the one fitted
//! to all points with fewer threads. Both are used because a law from few points has a wide
//! interval far away, while the step from the previous point to this one may be certain. Such a
//! point shows an effect outside the law: no CPU left, a second socket, SMT.
//!
//! If the points to fit are not chosen by hand, points that are outside of the law of all others
//! are excluded one by one, the farthest first, while at least four remain.

use super::usl::{Fitted, Law, fit};

/// The distance from which a point may be outside, as a share.
pub const FAR: f64 = 0.10;
/// The fewest points that remain.
const LEAST: usize = 4;

/// All runs with one number of threads.
#[derive(Clone, Debug, PartialEq)]
pub struct Level {
    /// Threads.
    pub threads: u32,
    /// Requests per second of each run.
    pub runs: Vec<f64>,
}

impl Level {
    /// The level's typical throughput: the geometric mean, since runs vary by factors.
    pub fn typical(&self) -> f64 {
        let logs: f64 = self.runs.iter().map(|rps| rps.ln()).sum();
        (logs / self.runs.len() as f64).exp()
    }

    fn n(&self) -> f64 {
        f64::from(self.threads)
    }
}

/// The runs of some levels, in the form of the fit.
pub fn runs_of<'a>(levels: impl IntoIterator<Item = &'a Level>) -> Vec<(f64, f64)> {
    let runs = levels.into_iter().flat_map(|level| level.runs.iter().map(|rps| (level.n(), *rps)));
    runs.collect()
}

/// A level compared with the law.
#[derive(Clone, Debug)]
pub struct Judged {
    /// Threads.
    pub threads: u32,
    /// The measured requests per second.
    pub measured: f64,
    /// The requests per second by the law.
    pub predicted: f64,
    /// Whether the law was fitted to it.
    pub fitted: bool,
    /// Whether it is outside, by the rule of this file.
    pub outside: bool,
}

impl Judged {
    /// Prediction over measurement, less 1.
    pub fn error(&self) -> f64 {
        self.predicted / self.measured - 1.0
    }
}

/// Chooses the levels to fit: those in `chosen`, or all except those outside of the law.
pub fn choose(levels: &[Level], chosen: Option<&[u32]>, seed: u64) -> Vec<Level> {
    let mut kept: Vec<Level> = match chosen {
        Some(chosen) => {
            return levels.iter().filter(|l| chosen.contains(&l.threads)).cloned().collect();
        }
        None => levels.to_vec(),
    };
    while kept.len() > LEAST {
        let farthest = kept
            .iter()
            .enumerate()
            .filter_map(|(i, level)| {
                let others: Vec<Level> =
                    kept.iter().filter(|l| l.threads != level.threads).cloned().collect();
                let away = distance(fit(&runs_of(&others))?, level);
                (away > FAR && is_beyond(&others, level, seed)).then_some((i, away))
            })
            .max_by(|a, b| a.1.total_cmp(&b.1));
        match farthest {
            Some((i, _)) => kept.remove(i),
            None => break,
        };
    }
    kept
}

/// Judges every level by the law fitted to `kept`.
pub fn judge(levels: &[Level], kept: &[Level], law: &Law, seed: u64) -> Vec<Judged> {
    levels
        .iter()
        .map(|level| {
            let fitted = kept.iter().any(|l| l.threads == level.threads);
            let far = !fitted && distance(*law, level) > FAR;
            let outside = far && {
                let below: Vec<Level> =
                    levels.iter().filter(|l| l.threads < level.threads).cloned().collect();
                is_beyond(kept, level, seed) || is_beyond(&below, level, seed)
            };
            Judged {
                threads: level.threads,
                measured: level.typical(),
                predicted: law.at(level.n()),
                fitted,
                outside,
            }
        })
        .collect()
}

/// The distance of the measurement from the law, as a share of the measurement.
fn distance(law: Law, level: &Level) -> f64 {
    (law.at(level.n()) / level.typical() - 1.0).abs()
}

/// Whether a level is outside of the interval of the others' law. False if these can't decide.
fn is_beyond(others: &[Level], level: &Level, seed: u64) -> bool {
    let expected = Fitted::of(&runs_of(others), seed).and_then(|law| law.expected(level.n()));
    expected.is_some_and(|(low, high)| !(low..=high).contains(&level.typical()))
}

/// The result of predicting the upper levels by the law of the lower ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BackTest {
    /// The law was fitted up to this number of threads.
    pub fitted_to: u32,
    /// And compared up to this number.
    pub asked_to: u32,
    /// Its largest error there, as a share.
    pub worst: f64,
}

impl BackTest {
    /// The factor by which the law was right beyond its own points.
    pub fn reach(&self) -> f64 {
        f64::from(self.asked_to) / f64::from(self.fitted_to)
    }
}

/// Fits the lower six tenths of the levels (three at least) and compares the rest. None without a
/// rest.
pub fn back_test(kept: &[Level]) -> Option<BackTest> {
    let lower = (kept.len() * 6).div_ceil(10).max(3);
    let (below, above) = kept.split_at_checked(lower)?;
    let law = fit(&runs_of(below))?;
    let worst = above.iter().map(|level| distance(law, level)).reduce(f64::max)?;
    Some(BackTest { fitted_to: below.last()?.threads, asked_to: above.last()?.threads, worst })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn levels(rps: &[f64]) -> Vec<Level> {
        rps.iter().zip(1..).map(|(rps, threads)| Level { threads, runs: vec![*rps] }).collect()
    }

    /// 60000 N / (1 + 0.2 (N - 1)), with half a percent of noise.
    fn lawful(count: u32) -> Vec<f64> {
        let noise = [1.004, 0.996, 1.002, 0.998, 1.005, 0.995, 1.0, 1.003];
        (1..=count)
            .map(|n| (f64::from(n), noise[n as usize % noise.len()]))
            .map(|(n, noise)| 60_000.0 * n / (1.0 + 0.2 * (n - 1.0)) * noise)
            .collect()
    }

    #[test]
    fn only_the_point_outside_the_law_is_excluded() {
        let mut rps = lawful(10);
        assert_eq!(choose(&levels(&rps), None, 1).len(), 10);
        rps[9] *= 0.7;
        let kept = choose(&levels(&rps), None, 1);
        assert_eq!(kept.len(), 9);
        let law = fit(&runs_of(&kept)).unwrap();
        let judged = judge(&levels(&rps), &kept, &law, 1);
        let outside: Vec<u32> = judged.iter().filter(|j| j.outside).map(|j| j.threads).collect();
        assert_eq!(outside, [10]);
        // The same in the middle.
        rps[9] /= 0.7;
        rps[4] *= 1.3;
        assert!(choose(&levels(&rps), None, 1).iter().all(|level| level.threads != 5));
    }

    #[test]
    fn law_is_fitted_to_the_chosen_points() {
        let kept = choose(&levels(&lawful(10)), Some(&[1, 2, 3, 99]), 1);
        assert_eq!(kept.iter().map(|l| l.threads).collect::<Vec<_>>(), [1, 2, 3]);
    }

    #[test]
    fn noise_is_not_taken_for_a_broken_law() {
        let noise = [1.2, 0.85, 1.1, 0.8, 1.25, 0.9, 1.15, 0.82];
        let rps: Vec<f64> = lawful(8).iter().zip(noise).map(|(rps, noise)| rps * noise).collect();
        assert_eq!(choose(&levels(&rps), None, 1).len(), 8);
    }

    #[test]
    fn back_test_predicts_points_outside_the_fit() {
        let test = back_test(&levels(&lawful(10))).unwrap();
        assert_eq!((test.fitted_to, test.asked_to), (6, 10));
        assert!(test.worst < 0.05, "{test:?}");
        assert_eq!(back_test(&levels(&lawful(3))), None);
        assert_eq!(back_test(&levels(&lawful(2))), None);
    }
}
