//! Sizes of values.
//!
//! A realistic load needs values of different sizes. They are given as a list of sizes or ranges
//! with weights, or as a log-normal law, which fits most caches in production (Atikoglu et al.,
//! "Workload Analysis of a Large-Scale Key-Value Store", 2012, and later studies):
//!
//! | text | sizes in bytes |
//! |---|---|
//! | `64` | 64 |
//! | `16-1024` | each size of the range equally often |
//! | `64:7,1024-2048:2,65536:1` | by weight 7, 2 and 1 |
//! | `lognormal:MEDIAN:SIGMA` | median and the deviation of the logarithm; at most [`MAX`] |
//!
//! The requests are prepared, one for each of at most [`STEPS`] sizes at evenly spaced quantiles.
//! So the distribution has steps of a 256th, and drawing a size costs one random number.

use std::str::FromStr;

use statrs::distribution::{ContinuousCDF, LogNormal};

/// The largest value, as in the reference: 1 GiB.
pub const MAX: usize = 1 << 30;

/// The most distinct sizes of a continuous law or of wide ranges.
pub const STEPS: usize = 256;

/// A requested distribution of sizes.
#[derive(Clone, Debug, PartialEq)]
pub enum SizeDistribution {
    /// Ranges, both ends included, with their weights.
    Ranges(Vec<(usize, usize, u32)>),
    /// Median, and the standard deviation of the natural logarithm.
    LogNormal(f64, f64),
}

impl SizeDistribution {
    /// One size.
    pub fn fixed(size: usize) -> SizeDistribution {
        SizeDistribution::Ranges(vec![(size, size, 1)])
    }

    /// Sizes to choose from evenly: one if all are equal, else at most [`STEPS`].
    pub fn steps(&self) -> Vec<usize> {
        if let SizeDistribution::Ranges(ranges) = self
            && let [(low, high, _)] = ranges[..]
            && high - low < STEPS
        {
            return (low..=high).collect();
        }
        (0..STEPS).map(|i| self.quantile((i as f64 + 0.5) / STEPS as f64)).collect()
    }

    fn quantile(&self, q: f64) -> usize {
        match self {
            SizeDistribution::Ranges(ranges) => {
                let total: f64 = ranges.iter().map(|range| f64::from(range.2)).sum();
                let mut rest = q * total;
                for &(low, high, weight) in ranges {
                    let weight = f64::from(weight);
                    if rest < weight {
                        return low + ((high - low + 1) as f64 * rest / weight) as usize;
                    }
                    rest -= weight;
                }
                ranges.last().map_or(1, |range| range.1)
            }
            SizeDistribution::LogNormal(median, sigma) => LogNormal::new(median.ln(), *sigma)
                .map_or(1, |law| (law.inverse_cdf(q).round() as usize).clamp(1, MAX)),
        }
    }
}

impl FromStr for SizeDistribution {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("{text:?} is neither SIZE[-SIZE][:WEIGHT],... nor lognormal:MEDIAN:SIGMA");
        if let Some(law) = text.strip_prefix("lognormal:") {
            let (median, sigma) = law.split_once(':').ok_or_else(wrong)?;
            let number = |n: &str| n.parse::<f64>().ok().filter(|n| *n > 0.0 && n.is_finite());
            let (median, sigma) = number(median).zip(number(sigma)).ok_or_else(wrong)?;
            return Ok(SizeDistribution::LogNormal(median, sigma));
        }
        let size = |n: &str| n.parse::<usize>().ok().filter(|n| (1..=MAX).contains(n));
        let range = |part: &str| {
            let (sizes, weight) = part.split_once(':').unwrap_or((part, "1"));
            let (low, high) = sizes.split_once('-').unwrap_or((sizes, sizes));
            let weight = weight.parse::<u32>().ok().filter(|weight| *weight > 0)?;
            let (low, high) = size(low).zip(size(high))?;
            (low <= high).then_some((low, high, weight))
        };
        let ranges = text.split(',').map(range).collect::<Option<Vec<_>>>().ok_or_else(wrong)?;
        Ok(SizeDistribution::Ranges(ranges))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(text: &str) -> Vec<usize> {
        text.parse::<SizeDistribution>().unwrap().steps()
    }

    #[test]
    fn small_choices_are_exact() {
        assert_eq!(steps("64"), [64]);
        assert_eq!(steps("3-5"), [3, 4, 5]);
    }

    #[test]
    fn weights_are_met() {
        let sizes = steps("64:3,1000:1");
        assert_eq!(sizes.len(), STEPS);
        assert_eq!(sizes.iter().filter(|&&size| size == 64).count(), STEPS * 3 / 4);
        assert!(sizes.iter().all(|&size| size == 64 || size == 1000));
    }

    #[test]
    fn ranges_are_even() {
        let sizes = steps("1-1000");
        let mean = sizes.iter().sum::<usize>() as f64 / sizes.len() as f64;
        assert!((mean - 500.5).abs() < 2.0, "{mean}");
        assert!(sizes.is_sorted() && sizes[0] <= 4 && sizes[STEPS - 1] >= 996);
    }

    #[test]
    fn a_lognormal_law_has_its_median_and_spread() {
        let sizes = steps("lognormal:200:1");
        assert!((195..=205).contains(&sizes[STEPS / 2]), "{}", sizes[STEPS / 2]);
        let ratio = sizes[STEPS * 84 / 100] as f64 / 200.0;
        assert!((2.5..3.0).contains(&ratio), "{ratio}");
    }

    #[test]
    fn wrong_texts_are_refused() {
        for text in ["", "0", "5-3", "64:0", "64:", "64,,65", "lognormal:5", "lognormal:0:1", "x"] {
            assert!(text.parse::<SizeDistribution>().is_err(), "{text}");
        }
    }
}
