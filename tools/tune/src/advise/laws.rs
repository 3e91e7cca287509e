//! The laws of a series: one for each command, with judgement and predictions.

use serde::Serialize;

use super::recommend::Spread;
use super::trust::{self, BackTest, FAR, Level};
use super::usl::{Fitted, Interval};
use crate::report::summary::Series;

/// The options of the command line.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Threads to fit to; none: all that follow the law.
    pub fit: Option<&'a [u32]>,
    /// Threads to predict for; none: some beyond the largest.
    pub predict: Option<&'a [u32]>,
    /// The seed of the intervals.
    pub seed: u64,
    /// The CPUs of the host.
    pub cpus: Option<u32>,
}

/// The laws of one series.
#[derive(Debug, Serialize)]
pub struct SeriesLaws {
    /// Name of the series and its load.
    pub name: String,
    /// By command.
    pub laws: Vec<CommandLaw>,
}

/// The law of one command.
#[derive(Debug, Serialize)]
pub struct CommandLaw {
    /// Name of the command.
    pub command: String,
    /// Threads whose runs were left out because the generator limited them.
    pub client_limited: Vec<u32>,
    /// None if there are fewer than three numbers of threads to fit to.
    pub fit: Option<FitResult>,
}

/// A law and its predictions.
#[derive(Debug, Serialize)]
pub struct FitResult {
    /// Threads it was fitted to.
    pub fitted_to: Vec<u32>,
    /// Throughput of one thread, requests per second.
    pub lambda: f64,
    /// Contention.
    pub sigma: f64,
    /// 95 % interval of sigma.
    pub sigma_interval: Option<Interval>,
    /// Coherency.
    pub kappa: f64,
    /// 95 % interval of kappa.
    pub kappa_interval: Option<Interval>,
    /// Threads beyond which throughput falls.
    pub peak: Option<f64>,
    /// Spread of runs around the law as a variance of logarithms, and its degrees of freedom.
    pub scatter: Option<(f64, usize)>,
    /// Each measured number of threads, compared with the law.
    pub points: Vec<PointResult>,
    /// The error of the lower points' law on the upper points.
    pub back_test: Option<BackTestResult>,
    /// Predictions for more threads.
    pub predictions: Vec<Prediction>,
}

/// A measured point compared with the law.
#[derive(Debug, Serialize)]
pub struct PointResult {
    /// Threads.
    pub threads: u32,
    /// Requests per second.
    pub measured: f64,
    /// Requests per second.
    pub predicted: f64,
    /// Predicted over measured, less 1.
    pub error: f64,
    /// Whether the law was fitted to this point.
    pub fitted: bool,
    /// Whether this point is outside the law.
    pub outside: bool,
}

/// See [`BackTest`].
#[derive(Clone, Copy, Debug, Serialize)]
pub struct BackTestResult {
    /// The law was fitted up to this number of threads.
    pub fitted_to: u32,
    /// And compared up to this number.
    pub asked_to: u32,
    /// Its largest error there, as a share.
    pub worst: f64,
}

/// The predicted gain of more threads.
#[derive(Debug, Serialize)]
pub struct Prediction {
    /// The number of threads.
    pub threads: u32,
    /// Requests per second.
    pub rps: f64,
    /// 95 % interval of a run, if the law holds so far.
    pub interval: Option<Interval>,
    /// The reliability of the prediction.
    pub trust: Trust,
}

/// The reliability of a prediction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trust {
    /// Between measured points that follow the law.
    Measured,
    /// Not farther than the back test.
    Tested,
    /// Farther than the back test.
    Untested,
    /// Some point at or below it is outside the law.
    Broken,
    /// More threads than CPUs.
    NoCpu,
}

impl Trust {
    /// Whether more than the first two digits are reliable.
    pub fn is_good(self) -> bool {
        match self {
            Self::Measured | Self::Tested => true,
            Self::Untested | Self::Broken | Self::NoCpu => false,
        }
    }

    /// As text for people.
    pub fn text(self) -> &'static str {
        match self {
            Self::Measured => "within the measurements",
            Self::Tested => "tested",
            Self::Untested => "untested: a guess",
            Self::Broken => "not to be believed: fewer threads broke the law",
            Self::NoCpu => "not to be believed: more threads than CPUs",
        }
    }
}

/// Fits each command of a series.
pub fn of(series: &Series, commands: &[&str], request: &Request) -> SeriesLaws {
    SeriesLaws {
        name: format!("{}: {}", series.label, series.load),
        laws: commands.iter().map(|command| command_law(series, command, request)).collect(),
    }
}

fn command_law(series: &Series, command: &str, request: &Request) -> CommandLaw {
    let mut client_limited = Vec::new();
    let mut levels = Vec::new();
    for (threads, point) in series.of(command) {
        // The server's own choice is not a number of threads.
        let Some(threads) = threads.count() else { continue };
        let free = point.runs.iter().filter(|run| !run.client_limited);
        let runs: Vec<f64> = free.map(|run| run.measured.rps).collect();
        if runs.len() < point.runs.len() {
            client_limited.push(threads);
        }
        if !runs.is_empty() {
            levels.push(Level { threads, runs });
        }
    }
    CommandLaw { command: command.into(), client_limited, fit: fit(&levels, request) }
}

fn fit(levels: &[Level], request: &Request) -> Option<FitResult> {
    let kept = trust::choose(levels, request.fit, request.seed);
    let runs = trust::runs_of(&kept);
    let fitted = Fitted::of(&runs, request.seed)?;
    let law = fitted.law;
    let judged = trust::judge(levels, &kept, &law, request.seed);
    let squares: f64 = runs.iter().map(|&(n, x)| (x / law.at(n)).ln().powi(2)).sum();
    let freedom = runs.len().saturating_sub(3);
    let back_test = trust::back_test(&kept);
    let largest = kept.last()?.threads;
    let broken = judged.iter().filter(|point| point.outside).map(|point| point.threads).min();
    let beyond = [largest + largest.div_ceil(2), 2 * largest];
    let predictions = request
        .predict
        .unwrap_or(&beyond)
        .iter()
        .map(|&threads| Prediction {
            threads,
            rps: law.at(f64::from(threads)),
            interval: fitted.expected(f64::from(threads)),
            trust: trust_in(threads, largest, broken, back_test, request.cpus),
        })
        .collect();
    Some(FitResult {
        fitted_to: kept.iter().map(|level| level.threads).collect(),
        lambda: law.lambda(),
        sigma: law.sigma(),
        sigma_interval: fitted.interval(|law| law.sigma()),
        kappa: law.kappa(),
        kappa_interval: fitted.interval(|law| law.kappa()),
        peak: law.peak(),
        scatter: (freedom > 0).then(|| (squares / freedom as f64, freedom)),
        points: judged
            .iter()
            .map(|point| PointResult {
                threads: point.threads,
                measured: point.measured,
                predicted: point.predicted,
                error: point.error(),
                fitted: point.fitted,
                outside: point.outside,
            })
            .collect(),
        back_test: back_test.map(|test| BackTestResult {
            fitted_to: test.fitted_to,
            asked_to: test.asked_to,
            worst: test.worst,
        }),
        predictions,
    })
}

fn trust_in(
    threads: u32,
    largest: u32,
    broken: Option<u32>,
    back_test: Option<BackTest>,
    cpus: Option<u32>,
) -> Trust {
    if broken.is_some_and(|broken| threads >= broken) {
        Trust::Broken
    } else if threads <= largest {
        Trust::Measured
    } else if cpus.is_some_and(|cpus| threads > cpus) {
        Trust::NoCpu
    } else if back_test.is_some_and(|test| {
        test.worst <= FAR && f64::from(threads) <= f64::from(largest) * test.reach()
    }) {
        Trust::Tested
    } else {
        Trust::Untested
    }
}

/// The spread of runs around their laws, pooled. It replaces the spread of repeats.
pub fn spread(laws: &[SeriesLaws]) -> Option<Spread> {
    let scatters =
        laws.iter().flat_map(|series| &series.laws).filter_map(|law| law.fit.as_ref()?.scatter);
    let (squares, freedom) = scatters.fold((0.0, 0), |(squares, all), (variance, freedom)| {
        (squares + variance * freedom as f64, all + freedom)
    });
    (freedom > 0).then(|| Spread { variance: squares / freedom as f64, freedom })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::summary::Summary;
    use crate::results::published;

    fn published_laws(fit: Option<&[u32]>) -> Vec<(String, Vec<CommandLaw>)> {
        let summary = Summary::of(published::sweeps());
        let request = Request { fit, predict: None, seed: 1, cpus: Some(24) };
        let laws = summary.series.iter().map(|series| {
            let laws = of(series, &summary.commands_of(&[series]), &request);
            (laws.name, laws.laws)
        });
        laws.collect()
    }

    /// Requirement on the published sweep: the law of 1 to 6 threads predicts 7 to 10 within 10 %
    /// for every command except MSET, and 11 is outside.
    #[test]
    fn six_threads_predict_ten_and_eleven_is_outside() {
        let mut checked = 0;
        for (name, laws) in published_laws(Some(&[1, 2, 3, 4, 5, 6])) {
            for law in laws.iter().filter(|law| law.command != "MSET") {
                let fit = law.fit.as_ref().unwrap();
                assert_eq!(fit.fitted_to, [1, 2, 3, 4, 5, 6]);
                for point in fit.points.iter().filter(|point| point.threads > 6) {
                    let at =
                        format!("{name} {} {}: {:+.3}", law.command, point.threads, point.error);
                    assert_eq!(point.outside, point.threads == 11, "{at}");
                    assert!(point.threads == 11 || point.error.abs() < 0.10, "{at}");
                    checked += 1;
                }
            }
        }
        assert_eq!(checked, 5 * 8 * 5);
    }

    #[test]
    #[ignore = "long: cargo xtask test --all"]
    fn automatic_choice_excludes_eleven() {
        for (name, laws) in published_laws(None) {
            for law in laws.iter().filter(|law| law.command != "MSET") {
                let fit = law.fit.as_ref().unwrap();
                let outside: Vec<u32> =
                    fit.points.iter().filter(|p| p.outside).map(|p| p.threads).collect();
                assert_eq!(outside, [11], "{name} {}", law.command);
                assert!(fit.predictions.iter().all(|p| p.trust == Trust::Broken));
            }
        }
    }

    #[test]
    fn trust_ends_beyond_the_back_test() {
        let good = BackTest { fitted_to: 6, asked_to: 10, worst: 0.05 };
        let (test, bad) = (Some(good), Some(BackTest { worst: 0.2, ..good }));
        assert_eq!(trust_in(8, 10, None, test, Some(48)), Trust::Measured);
        assert_eq!(trust_in(16, 10, None, test, Some(48)), Trust::Tested);
        assert_eq!(trust_in(17, 10, None, test, Some(48)), Trust::Untested);
        assert_eq!(trust_in(16, 10, None, test, Some(12)), Trust::NoCpu);
        assert_eq!(trust_in(16, 10, Some(11), test, Some(48)), Trust::Broken);
        assert_eq!(trust_in(16, 10, None, None, None), Trust::Untested);
        assert_eq!(trust_in(11, 10, None, bad, None), Trust::Untested);
    }
}
