//! The distributions of the numbers that replace placeholders.
//!
//! | text | numbers in `0..space` |
//! |---|---|
//! | `uniform` | each as often as any other |
//! | `zipf` or `zipf:S` | number k as often as 1/(k+1)^S; S is 1 when not given |
//! | `gauss` or `gauss:SD` | around the middle, with a standard deviation of SD times the space, 1/6 if not given;
//! numbers outside are drawn again |
//! | `seq` | one after the other, over all threads, each group counting for itself |
//! | `hot:KEYS:TRAFFIC` | a share TRAFFIC of the requests goes to the first share KEYS of the numbers, the rest to the others |
//!
//! Low numbers are the popular ones under `zipf` and `hot`. They are not scattered: a server that
//! hashes its keys doesn't notice the order, but it helps a reader of the keyspace.

use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Normal, Zipf};

use crate::template::GROUPS;

/// A requested distribution of keys.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum KeyDistribution {
    Uniform,
    /// The exponent.
    Zipf(f64),
    /// The standard deviation as a share of the space.
    Gauss(f64),
    Sequential,
    /// The share of hot keys, and the share of requests for them.
    Hot(f64, f64),
}

impl FromStr for KeyDistribution {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("{text:?} is none of uniform, zipf:S, gauss:SD, seq and hot:KEYS:TRAFFIC");
        let mut parts = text.split(':');
        let name = parts.next().unwrap_or_default();
        let numbers: Vec<f64> =
            parts.map(|n| n.parse().map_err(|_| wrong())).collect::<Result<_, _>>()?;
        let share = |x: f64| x > 0.0 && x < 1.0;
        match (name, numbers[..].as_ref()) {
            ("uniform", []) => Ok(KeyDistribution::Uniform),
            ("seq" | "sequential", []) => Ok(KeyDistribution::Sequential),
            ("zipf", []) => Ok(KeyDistribution::Zipf(1.0)),
            ("zipf", &[s]) if s >= 0.0 && s.is_finite() => Ok(KeyDistribution::Zipf(s)),
            ("gauss", []) => Ok(KeyDistribution::Gauss(1.0 / 6.0)),
            ("gauss", &[sd]) if sd > 0.0 && sd.is_finite() => Ok(KeyDistribution::Gauss(sd)),
            ("hot", &[keys, traffic]) if share(keys) && share(traffic) => {
                Ok(KeyDistribution::Hot(keys, traffic))
            }
            _ => Err(wrong()),
        }
    }
}

impl std::fmt::Display for KeyDistribution {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            KeyDistribution::Uniform => write!(f, "uniform"),
            KeyDistribution::Zipf(s) => write!(f, "zipf:{s}"),
            KeyDistribution::Gauss(sd) => write!(f, "gauss:{sd}"),
            KeyDistribution::Sequential => write!(f, "seq"),
            KeyDistribution::Hot(keys, traffic) => write!(f, "hot:{keys}:{traffic}"),
        }
    }
}

/// The counters of `seq`, shared by all threads and kept from one test to the next.
pub type Counters = Arc<[AtomicU64; GROUPS]>;

/// Draws numbers for one thread.
#[derive(Debug)]
pub struct Drawer {
    space: u64,
    rng: SmallRng,
    how: How,
}

#[derive(Debug)]
enum How {
    Uniform,
    Zipf(Zipf<f64>),
    Gauss(Normal<f64>),
    Sequential(Counters),
    Hot { hot: u64, traffic: f64 },
}

impl Drawer {
    /// Numbers in `0..space`; always 0 if `space` is 0.
    pub fn new(distribution: KeyDistribution, space: u64, seed: u64, counters: Counters) -> Drawer {
        let wide = space.max(1) as f64;
        let how = match distribution {
            KeyDistribution::Uniform => How::Uniform,
            KeyDistribution::Zipf(s) => Zipf::new(wide, s).map_or(How::Uniform, How::Zipf),
            KeyDistribution::Gauss(sd) => {
                Normal::new(wide / 2.0, wide * sd).map_or(How::Uniform, How::Gauss)
            }
            KeyDistribution::Sequential => How::Sequential(counters),
            // Both parts have at least one key; a space of one key has no two parts.
            KeyDistribution::Hot(..) if space < 2 => How::Uniform,
            KeyDistribution::Hot(keys, traffic) => {
                How::Hot { hot: ((wide * keys) as u64).clamp(1, space - 1), traffic }
            }
        };
        Drawer { space, rng: SmallRng::seed_from_u64(seed), how }
    }

    /// The next number of a group.
    #[inline]
    pub fn draw(&mut self, group: usize) -> u64 {
        if self.space == 0 {
            return 0;
        }
        match &self.how {
            How::Uniform => self.rng.random_range(0..self.space),
            How::Zipf(zipf) => (zipf.sample(&mut self.rng) as u64 - 1).min(self.space - 1),
            How::Gauss(normal) => loop {
                let drawn = normal.sample(&mut self.rng).floor();
                if drawn >= 0.0 && drawn < self.space as f64 {
                    break drawn as u64;
                }
            },
            How::Sequential(counters) => {
                counters[group].fetch_add(1, Ordering::Relaxed) % self.space
            }
            How::Hot { hot, traffic } => {
                if self.rng.random_bool(*traffic) {
                    self.rng.random_range(0..*hot)
                } else {
                    self.rng.random_range(*hot..self.space)
                }
            }
        }
    }

    /// A uniform number in `0..bound`, for other uses than keys. 0 if `bound` is 0.
    #[inline]
    pub fn below(&mut self, bound: usize) -> usize {
        if bound < 2 { 0 } else { self.rng.random_range(0..bound) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use statrs::distribution::{ChiSquared, ContinuousCDF, Normal as Bell};

    const DRAWS: usize = 200_000;

    fn drawer(text: &str, space: u64) -> Drawer {
        Drawer::new(text.parse().unwrap(), space, 42, Counters::default())
    }

    /// Pearson's test: the chance of counts this far from the expected shares, or farther.
    fn p_value(counts: &[u64], shares: &[f64]) -> f64 {
        let (draws, sum) = (counts.iter().sum::<u64>() as f64, shares.iter().sum::<f64>());
        let expected = shares.iter().map(|share| share / sum * draws);
        let chi: f64 = counts.iter().zip(expected).map(|(&n, e)| (n as f64 - e).powi(2) / e).sum();
        ChiSquared::new(counts.len() as f64 - 1.0).unwrap().sf(chi)
    }

    fn counts(text: &str, space: u64, bins: usize, bin: impl Fn(u64) -> usize) -> Vec<u64> {
        let mut drawer = drawer(text, space);
        let mut counts = vec![0; bins];
        for _ in 0..DRAWS {
            let drawn = drawer.draw(0);
            assert!(drawn < space);
            counts[bin(drawn)] += 1;
        }
        counts
    }

    #[test]
    fn zipf_fits() {
        for exponent in [0.5, 0.99, 1.0, 1.3] {
            let counts = counts(&format!("zipf:{exponent}"), 100, 100, |n| n as usize);
            let shares: Vec<f64> = (1..=100).map(|k| f64::from(k).powf(-exponent)).collect();
            let p = p_value(&counts, &shares);
            assert!(p > 0.001, "exponent {exponent}: p = {p}");
        }
    }

    #[test]
    fn zipf_over_a_large_space_fits_in_its_head_and_its_tail() {
        let space = 1_000_000;
        let bin = |n: u64| if n < 10 { n as usize } else { 10 + (n >= 1000) as usize };
        let counts = counts("zipf:1.1", space, 12, bin);
        let share = |range: std::ops::Range<u64>| range.map(|n| (n as f64 + 1.0).powf(-1.1)).sum();
        let mut shares: Vec<f64> = (0..10).map(|n| share(n..n + 1)).collect();
        shares.extend([share(10..1000), share(1000..space)]);
        let p = p_value(&counts, &shares);
        assert!(p > 0.001, "p = {p}");
    }

    #[test]
    fn gauss_fits() {
        for sd in [0.05, 1.0 / 6.0, 0.4] {
            let counts = counts(&format!("gauss:{sd}"), 1000, 20, |n| n as usize / 50);
            let bell = Bell::new(500.0, 1000.0 * sd).unwrap();
            let share = |i: usize| bell.cdf(50.0 * (i as f64 + 1.0)) - bell.cdf(50.0 * i as f64);
            // Bins that expect less than five draws would invalidate the test: they are left out.
            let kept: Vec<usize> = (0..20).filter(|&i| share(i) * DRAWS as f64 > 5.0).collect();
            let p = p_value(
                &kept.iter().map(|&i| counts[i]).collect::<Vec<_>>(),
                &kept.iter().map(|&i| share(i)).collect::<Vec<_>>(),
            );
            assert!(p > 0.001, "deviation {sd}: p = {p}");
        }
    }

    #[test]
    fn uniform_and_hot_fit() {
        let p = p_value(&counts("uniform", 1000, 1000, |n| n as usize), &[1.0; 1000]);
        assert!(p > 0.001, "p = {p}");
        let counts = counts("hot:0.1:0.8", 1000, 2, |n| (n >= 100) as usize);
        let p = p_value(&counts, &[0.8, 0.2]);
        assert!(p > 0.001, "p = {p}");
    }

    #[test]
    fn the_test_of_fit_can_fail() {
        let counts = counts("zipf:1.05", 100, 100, |n| n as usize);
        let shares: Vec<f64> = (1..=100).map(|k| 1.0 / f64::from(k)).collect();
        assert!(p_value(&counts, &shares) < 0.001);
    }

    #[test]
    fn sequences_count_for_each_group_and_over_threads() {
        let counters = Counters::default();
        let mut two = [0, 1]
            .map(|seed| Drawer::new(KeyDistribution::Sequential, 3, seed, Arc::clone(&counters)));
        assert_eq!([two[0].draw(0), two[1].draw(0), two[0].draw(0), two[1].draw(0)], [0, 1, 2, 0]);
        assert_eq!(two[0].draw(1), 0);
    }

    #[test]
    fn no_space_is_one_key() {
        for text in ["uniform", "zipf", "gauss", "seq", "hot:0.5:0.5"] {
            assert_eq!(drawer(text, 0).draw(0), 0);
            assert_eq!(drawer(text, 1).draw(0), 0);
        }
    }

    #[test]
    fn texts_are_read_and_printed() {
        for text in ["uniform", "zipf:1.1", "gauss:0.1", "seq", "hot:0.1:0.9"] {
            assert_eq!(text.parse::<KeyDistribution>().unwrap().to_string(), text);
        }
        for text in ["", "zipf:x", "zipf:-1", "gauss:0", "hot", "hot:1:0.5", "hot:0.5:0", "seq:1"] {
            assert!(text.parse::<KeyDistribution>().is_err(), "{text}");
        }
    }
}
