//! The statistics of reports and advice.
//!
//! Throughput varies by factors, not by amounts: a run that is 3 % slow is so at any speed. So
//! spreads and intervals are those of logarithms, and are returned as factors.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// Arithmetic mean; NaN without values.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Standard deviation of a sample (n - 1); none below two values.
pub fn deviation(values: &[f64]) -> Option<f64> {
    let mean = mean(values);
    let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    (values.len() > 1).then(|| (squares / (values.len() - 1) as f64).sqrt())
}

/// The middle value, or the mean of the two in the middle; NaN without values.
pub fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

/// The value below which a share `q` of the values lies, with linear interpolation; NaN without
/// values.
pub fn quantile(values: &[f64], q: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let at = q.clamp(0.0, 1.0) * last as f64;
    let (low, high) = (at.floor() as usize, at.ceil() as usize);
    sorted[low] + (sorted[high] - sorted[low]) * (at - low as f64)
}

/// Half the width of a 95 % interval in standard errors: Student's t for this many degrees of
/// freedom. Infinite for 0.
pub fn t95(freedom: usize) -> f64 {
    t_quantile(0.975, freedom)
}

/// The quantile `q` of Student's distribution. Infinite for 0 degrees of freedom.
pub fn t_quantile(q: f64, freedom: usize) -> f64 {
    if freedom == 0 {
        return f64::INFINITY;
    }
    StudentsT::new(0.0, 1.0, freedom as f64).map_or(f64::INFINITY, |t| t.inverse_cdf(q))
}

/// The variance of logarithms within groups, pooled over the groups, and its degrees of freedom.
/// None if no group has two values.
pub fn pooled_variance<'a>(groups: impl Iterator<Item = &'a [f64]>) -> Option<(f64, usize)> {
    let (mut squares, mut freedom) = (0.0, 0);
    for logs in groups.filter(|logs| logs.len() > 1) {
        let mean = mean(logs);
        squares += logs.iter().map(|v| (v - mean).powi(2)).sum::<f64>();
        freedom += logs.len() - 1;
    }
    (freedom > 0).then(|| (squares / freedom as f64, freedom))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        assert_eq!(mean(&[1.0, 2.0, 6.0]), 3.0);
        assert_eq!(deviation(&[2.0, 4.0]), Some(2.0f64.sqrt()));
        assert_eq!(deviation(&[2.0]), None);
        assert_eq!((median(&[3.0, 1.0, 2.0]), median(&[4.0, 1.0, 2.0, 3.0])), (2.0, 2.5));
        assert_eq!(quantile(&[0.0, 10.0], 0.25), 2.5);
        assert!(median(&[]).is_nan());
        // From tables of the distribution.
        assert!((t95(3) - 3.182_446).abs() < 1e-5 && (t95(30) - 2.042_272).abs() < 1e-5);
        assert!(t95(0).is_infinite());
    }

    #[test]
    fn spread_is_pooled_over_groups() {
        let groups: [&[f64]; 3] = [&[1.0, 3.0], &[10.0, 10.0, 13.0], &[5.0]];
        assert_eq!(pooled_variance(groups.into_iter()), Some((8.0 / 3.0, 3)));
        assert_eq!(pooled_variance([&[1.0][..]].into_iter()), None);
    }
}
