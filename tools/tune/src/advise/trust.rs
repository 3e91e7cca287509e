//! Which points follow the law, and how far beyond them it may be believed.
//!
//! A point is *outside the law* when it is more than 10 % away from what the law says of it, and
//! also outside of the 95 % interval of a law that has not seen it: the one in question, or the one
//! fitted to all points with fewer threads. Both are asked because a law from few points has a wide
//! interval far away, while the step from the last point before to this one may be beyond any
//! doubt. Such a point shows an effect outside the law: no CPU left, a second socket, SMT.
//!
//! When the points to fit are not chosen by hand, points that are outside of the law of all
//! others are set aside one by one, the farthest first, as long as four remain.

use super::usl::{Fitted, Law, fit};

/// The distance from which on a point may be outside, as a share.
pub const FAR: f64 = 0.10;
/// Points that must remain.
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

/// The runs of some levels, as the fit takes them.
pub fn runs_of<'a>(levels: impl IntoIterator<Item = &'a Level>) -> Vec<(f64, f64)> {
    let runs = levels.into_iter().flat_map(|level| level.runs.iter().map(|rps| (level.n(), *rps)));
    runs.collect()
}

/// A level against the law.
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
    /// By the rule of this file.
    pub outside: bool,
}

impl Judged {
    /// Prediction over measurement, less 1.
    pub fn error(&self) -> f64 {
        self.predicted / self.measured - 1.0
    }
}

/// Chooses the levels to fit: those that `chosen` names, or all but those outside of the law.
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

/// How far the measurement is from the law, as a share of the measurement.
fn distance(law: Law, level: &Level) -> f64 {
    (law.at(level.n()) / level.typical() - 1.0).abs()
}

/// Whether a level is outside of the interval of the law of others. Not when these cannot decide.
fn is_beyond(others: &[Level], level: &Level, seed: u64) -> bool {
    let expected = Fitted::of(&runs_of(others), seed).and_then(|law| law.expected(level.n()));
    expected.is_some_and(|(low, high)| !(low..=high).contains(&level.typical()))
}

/// The result of predicting the upper levels by the law of the lower ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BackTest {
    /// The law was fitted up to here.
    pub fitted_to: u32,
    /// And asked up to here.
    pub asked_to: u32,
    /// Its largest error on the way, as a share.
    pub worst: f64,
}

impl BackTest {
    /// How much farther than its own points the law was right.
    pub fn reach(&self) -> f64 {
        f64::from(self.asked_to) / f64::from(self.fitted_to)
    }
}

/// Fits the lower six tenths of the levels (three at least) and asks for the rest. None when
/// nothing would be left to ask for.
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

    /// 60000 N / (1 + 0.2 (N - 1)), with half a per cent of noise.
    fn lawful(count: u32) -> Vec<f64> {
        let noise = [1.004, 0.996, 1.002, 0.998, 1.005, 0.995, 1.0, 1.003];
        (1..=count)
            .map(|n| (f64::from(n), noise[n as usize % noise.len()]))
            .map(|(n, noise)| 60_000.0 * n / (1.0 + 0.2 * (n - 1.0)) * noise)
            .collect()
    }

    #[test]
    fn a_point_that_breaks_the_law_is_set_aside_and_no_other() {
        let mut rps = lawful(10);
        assert_eq!(choose(&levels(&rps), None, 1).len(), 10);
        rps[9] *= 0.7;
        let kept = choose(&levels(&rps), None, 1);
        assert_eq!(kept.len(), 9);
        let law = fit(&runs_of(&kept)).unwrap();
        let judged = judge(&levels(&rps), &kept, &law, 1);
        let outside: Vec<u32> = judged.iter().filter(|j| j.outside).map(|j| j.threads).collect();
        assert_eq!(outside, [10]);
        // the same in the middle
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
    fn a_back_test_asks_for_what_the_law_has_not_seen() {
        let test = back_test(&levels(&lawful(10))).unwrap();
        assert_eq!((test.fitted_to, test.asked_to), (6, 10));
        assert!(test.worst < 0.05, "{test:?}");
        assert_eq!(back_test(&levels(&lawful(3))), None);
        assert_eq!(back_test(&levels(&lawful(2))), None);
    }
}
