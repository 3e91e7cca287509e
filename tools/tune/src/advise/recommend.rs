//! The recommended configuration: io-threads, io-threads-do-reads and placement of one server.
//!
//! All three are settings of the server, not of a command, so they are chosen for all commands
//! and loads of the sweep together. The gain of a setting is the geometric mean of its gains over
//! them, weighted where asked for. Its interval comes from the spread of repeated runs, pooled
//! over all cells of the server, by Student's t; the 95 % are for all settings at once
//! (Bonferroni), for the best of twenty equal settings always looks better than it is. Without
//! repeats the distances from the fitted laws stand in for the spread.
//!
//! A setting is worth a change if its interval lies above no gain at all. Some settings are within
//! 3 % of the best, or their difference may be chance. Of these, the one with the fewest threads is
//! recommended: threads that gain nothing cost CPU and memory.

use serde::Serialize;
use std::collections::BTreeMap;

use crate::report::summary::{Load, Series};
use crate::results::grid::Placement;
use crate::results::{Reads, Threads};
use crate::stats::{mean, pooled_variance, t_quantile};

/// A gain below which a thread isn't worth it, as a share.
const SMALL: f64 = 0.03;

/// A possible configuration.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Setting {
    /// io-threads.
    pub io_threads: Threads,
    /// io-threads-do-reads.
    pub reads: Reads,
    /// Name of the placement.
    pub placement: String,
}

/// The gain of a setting over the present one.
#[derive(Clone, Debug, Serialize)]
pub struct Gain {
    /// The setting.
    pub setting: Setting,
    /// As a factor; 1 is no gain.
    pub factor: f64,
    /// 95 % for all settings at once. None if the runs can't decide.
    pub interval: Option<(f64, f64)>,
    /// CPU time per request as a factor, if it was measured.
    pub cpu_factor: Option<f64>,
    /// Commands and loads compared.
    pub compared: usize,
    /// Runs that the generator limited: with a faster one the gain may be larger.
    pub client_limited: usize,
}

impl Gain {
    /// Whether the interval lies above no gain.
    fn is_sure(&self) -> bool {
        self.interval.is_some_and(|(low, _)| low > 1.0)
    }
}

/// The present configuration and its source.
#[derive(Clone, Debug, Default)]
pub struct Now {
    /// None if it is unknown.
    pub io_threads: Option<Threads>,
    /// None if it is unknown.
    pub reads: Option<Reads>,
    /// The server's own default for reads; none if it does not report it.
    pub own_reads: Option<Reads>,
    /// The source, for people.
    pub source: String,
}

impl Now {
    fn is_it(&self, setting: &Setting) -> bool {
        let reads = match setting.reads {
            Reads::Own => self.own_reads.unwrap_or(Reads::Own),
            set => set,
        };
        let wanted = match self.reads {
            Some(Reads::Own) => self.own_reads,
            other => other,
        };
        self.io_threads.is_none_or(|threads| threads == setting.io_threads)
            && wanted.is_none_or(|wanted| wanted == reads || reads == Reads::Own)
    }
}

/// The advice.
#[derive(Clone, Debug, Serialize)]
pub struct Advice {
    /// The base of the comparison: the present setting, as far as it was measured.
    pub now: Setting,
    /// The source of the present setting, or that it is unknown, for people.
    pub known: String,
    /// The setting to change to; none: no change.
    pub change: Option<Gain>,
    /// The reason, for people.
    pub reason: String,
    /// All settings except the present one, in their order.
    pub gains: Vec<Gain>,
}

/// The spread of single runs as the variance of logarithms, and its degrees of freedom.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// Variance.
    pub variance: f64,
    /// Degrees of freedom.
    pub freedom: usize,
}

impl Spread {
    /// The spread of the repeats in these series; none without repeats.
    pub fn of_repeats(series: &[&Series]) -> Option<Self> {
        let logs: Vec<Vec<f64>> = series
            .iter()
            .flat_map(|series| series.points.values())
            .map(|point| point.rps().iter().map(|rps| rps.ln()).collect())
            .collect();
        let (variance, freedom) = pooled_variance(logs.iter().map(Vec::as_slice))?;
        Some(Self { variance, freedom })
    }
}

/// A command under a load.
type Item = (Load, String);

/// The runs of a setting: logarithms of requests per second and, if known, of CPU time.
#[derive(Debug, Default)]
struct Runs {
    rps: Vec<f64>,
    cpu: Option<f64>,
    limited: usize,
}

/// Advises on the series of one server. `weight` is that of a command. If the present setting is
/// unknown or was not measured, the base is the first setting with the fewest threads, and the
/// advice says so.
pub fn advise(
    series: &[&Series],
    now: &Now,
    spread: Option<Spread>,
    weight: impl Fn(&str) -> f64,
) -> Option<Advice> {
    let settings = settings(series);
    let measured = settings.keys().find(|setting| now.is_it(setting));
    let (known, now) = match (now.io_threads, measured) {
        (Some(_), Some(measured)) => (format!("Now, {}", now.source), measured.clone()),
        (Some(threads), None) => {
            let first = settings.keys().next()?;
            let reads = now.reads.map_or(String::new(), |reads| format!(" and reads {reads}"));
            let known = format!(
                "Now, {}, it has io-threads {threads}{reads}, which the sweep did not measure; \
                 compared with",
                now.source
            );
            (known, first.clone())
        }
        (None, measured) => {
            let first = measured.or(settings.keys().next())?;
            let known = "The present configuration is not known (--port asks a running server, --now \
                         sets it); compared with";
            (known.to_string(), first.clone())
        }
    };
    let others: Vec<&Setting> = settings.keys().filter(|setting| **setting != now).collect();
    let width = |freedom: usize| t_quantile(1.0 - 0.025 / others.len() as f64, freedom);
    let compare = |from: &Setting, to: &Setting| {
        gain(to, &settings[from], &settings[to], spread, &width, &weight)
    };
    let gains: Vec<Gain> = others.iter().filter_map(|to| compare(&now, to)).collect();
    let best = gains.iter().max_by(|a, b| a.factor.total_cmp(&b.factor));
    let (change, reason) = match best {
        None => (None, "there is nothing to compare with".to_string()),
        Some(best) if best.interval.is_none() => {
            (None, "one run a cell cannot separate gain from chance: use more repeats".to_string())
        }
        Some(best) if !gains.iter().any(Gain::is_sure) => {
            let other = format!("{}: {}", describe(&best.setting), percent(best));
            (None, format!("no setting gains beyond doubt; the best other is {other}"))
        }
        Some(best) => {
            let enough = gains.iter().filter(|gain| gain.is_sure()).find(|gain| {
                compare(&gain.setting, &best.setting)
                    .is_none_or(|more| !more.is_sure() || more.factor < 1.0 + SMALL)
            });
            let chosen = enough.unwrap_or(best);
            (Some(chosen.clone()), reason(chosen, best))
        }
    };
    Some(Advice { now, known, change, reason, gains })
}

fn reason(chosen: &Gain, best: &Gain) -> String {
    if chosen.setting == best.setting {
        return "the fastest of the sweep".into();
    }
    format!(
        "the fewest threads that the fastest ({}, {}) does not beat by more than {:.0} % beyond \
         doubt",
        describe(&best.setting),
        percent(best),
        100.0 * SMALL
    )
}

/// A setting for people, without default parts.
pub fn describe(setting: &Setting) -> String {
    let Setting { io_threads, reads, placement } = setting;
    let reads = match reads {
        Reads::Own => "",
        Reads::Off => ", io-threads-do-reads no",
        Reads::On => ", io-threads-do-reads yes",
    };
    let placement = match *placement == Placement::default().name {
        true => String::new(),
        false => format!(", placement {placement}"),
    };
    format!("io-threads {io_threads}{reads}{placement}")
}

/// A gain with its interval for people.
pub fn percent(gain: &Gain) -> String {
    match gain.interval {
        Some((low, high)) => {
            format!("{} ({} to {})", change(gain.factor), change(low), change(high))
        }
        None => format!("about {}", change(gain.factor)),
    }
}

/// A factor as a whole percentage: less than one percent is worth no configuration.
pub fn change(factor: f64) -> String {
    // Without "-0 %".
    format!("{:+.0} %", (100.0 * (factor - 1.0)).round() + 0.0)
}

/// All settings with their runs by item.
fn settings(series: &[&Series]) -> BTreeMap<Setting, BTreeMap<Item, Runs>> {
    let mut settings: BTreeMap<Setting, BTreeMap<Item, Runs>> = BTreeMap::new();
    for series in series {
        for ((threads, command), point) in &series.points {
            if point.runs.is_empty() {
                continue;
            }
            let setting = Setting {
                io_threads: *threads,
                reads: series.reads,
                placement: series.placement.clone(),
            };
            let runs = Runs {
                rps: point.rps().iter().map(|rps| rps.ln()).collect(),
                cpu: point.cpu().filter(|cpu| *cpu > 0.0).map(f64::ln),
                limited: point.runs.iter().filter(|run| run.client_limited).count(),
            };
            settings.entry(setting).or_default().insert((series.load, command.clone()), runs);
        }
    }
    settings
}

/// The gain of a setting over another, over all items that both ran. None without such an item.
fn gain(
    setting: &Setting,
    from: &BTreeMap<Item, Runs>,
    to: &BTreeMap<Item, Runs>,
    spread: Option<Spread>,
    width: &impl Fn(usize) -> f64,
    weight: &impl Fn(&str) -> f64,
) -> Option<Gain> {
    let pairs: Vec<(f64, &Runs, &Runs)> = to
        .iter()
        .filter_map(|(item, to)| Some((weight(&item.1), from.get(item)?, to)))
        .filter(|(weight, ..)| *weight > 0.0)
        .collect();
    let whole: f64 = pairs.iter().map(|(weight, ..)| weight).sum();
    if pairs.is_empty() {
        return None;
    }
    let weighted = |value: &dyn Fn(&Runs, &Runs) -> Option<f64>| -> Option<f64> {
        let terms = pairs.iter().map(|(weight, from, to)| Some(weight / whole * value(from, to)?));
        terms.sum()
    };
    let log = weighted(&|from, to| Some(mean(&to.rps) - mean(&from.rps)))?;
    let error = spread.map(|spread| {
        let parts = pairs.iter().map(|(weight, from, to)| {
            let share = (weight / whole).powi(2);
            share * (1.0 / from.rps.len() as f64 + 1.0 / to.rps.len() as f64)
        });
        width(spread.freedom) * (spread.variance * parts.sum::<f64>()).sqrt()
    });
    Some(Gain {
        setting: setting.clone(),
        factor: log.exp(),
        interval: error.map(|error| ((log - error).exp(), (log + error).exp())),
        cpu_factor: weighted(&|from, to| Some(to.cpu? - from.cpu?)).map(f64::exp),
        compared: pairs.len(),
        client_limited: pairs.iter().map(|(_, from, to)| from.limited + to.limited).sum(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::summary::Summary;
    use crate::report::summary::tests::sweep;
    use weft_base::rng::Rng;

    fn advice(runs: &[(u32, &[f64])]) -> Advice {
        let summary = Summary::of(vec![sweep(runs)]);
        let series: Vec<&Series> = summary.series.iter().collect();
        advise(&series, &Now::default(), Spread::of_repeats(&series), |_| 1.0).unwrap()
    }

    #[test]
    fn a_clear_gain_is_recommended_with_no_more_threads_than_it_takes() {
        let advice = advice(&[
            (1, &[100.0, 101.0, 99.0]),
            (2, &[170.0, 172.0, 171.0]),
            (4, &[240.0, 243.0, 241.0]),
            (8, &[243.0, 241.0, 245.0]),
        ]);
        assert_eq!(advice.now.io_threads, Threads::Count(1));
        assert!(advice.known.contains("not known"), "{}", advice.known);
        let change = advice.change.unwrap();
        assert_eq!(change.setting.io_threads, Threads::Count(4));
        let (low, high) = change.interval.unwrap();
        assert!(low > 2.2 && high < 2.6 && (2.39..2.43).contains(&change.factor), "{change:?}");
    }

    #[test]
    fn present_configuration_is_not_guessed() {
        let summary = Summary::of(vec![sweep(&[(1, &[100.0, 101.0]), (2, &[150.0, 151.0])])]);
        let series: Vec<&Series> = summary.series.iter().collect();
        let with = |io_threads, reads| {
            let now = Now { io_threads, reads, source: "as a test says".into(), ..Now::default() };
            let advice = advise(&series, &now, None, |_| 1.0).unwrap();
            (advice.now.io_threads, advice.known)
        };
        let (now, known) = with(Some(Threads::Count(2)), Some(Reads::Off));
        assert_eq!((now, known.as_str()), (Threads::Count(2), "Now, as a test says"));
        let (now, known) = with(Some(Threads::Auto), None);
        assert_eq!(now, Threads::Count(1));
        assert!(known.contains("io-threads auto, which the sweep did not measure"), "{known}");
        let (now, known) = with(None, None);
        assert_eq!(now, Threads::Count(1));
        assert!(known.contains("is not known"), "{known}");
    }

    #[test]
    fn a_gain_within_the_noise_is_no_change() {
        let advice = advice(&[
            (1, &[100.0, 120.0, 90.0]),
            (2, &[110.0, 95.0, 125.0]),
            (4, &[99.0, 130.0, 90.0]),
        ]);
        assert!(advice.change.is_none(), "{advice:?}");
        assert!(advice.reason.contains("beyond doubt"), "{}", advice.reason);
    }

    #[test]
    fn single_runs_give_no_advice() {
        let advice = advice(&[(1, &[100.0]), (2, &[200.0])]);
        assert!(advice.change.is_none() && advice.reason.contains("repeats"), "{}", advice.reason);
    }

    /// Of sweeps in which nothing differs, few may recommend a change.
    #[test]
    fn equal_settings_seldom_look_different() {
        let mut rng = Rng::new(3);
        let mut changes = 0;
        for _ in 0..200 {
            let noisy: Vec<[f64; 3]> = (0..8)
                .map(|_| std::array::from_fn(|_| 100.0 * (0.1 * (rng.next_f64() - 0.5)).exp()))
                .collect();
            let runs: Vec<(u32, &[f64])> =
                noisy.iter().zip(1..).map(|(runs, threads)| (threads, &runs[..])).collect();
            changes += u32::from(advice(&runs).change.is_some());
        }
        assert!(changes <= 15, "{changes} of 200");
    }
}
