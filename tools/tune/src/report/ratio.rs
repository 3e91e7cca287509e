//! Servers compared: the ratio of their throughputs, and its confidence interval.
//!
//! The first server of a grid is compared with each of the others, under one load and placement,
//! with the same reads setting (or each server's own). A ratio is that of medians. Its interval is
//! of 95 %, by Student's t from the spread of repeated runs, pooled over all points of the two.
//! Runs vary by factors, so the spread is that of logarithms. Over all commands the ratio is the
//! geometric mean.

use super::summary::{Point, Series};
use crate::results::model::Measured;
use crate::results::{Reads, Threads};
use crate::stats::{median, pooled_variance, t95};

/// Two servers of one load.
#[derive(Debug)]
pub struct Versus<'a> {
    /// The compared series.
    pub first: &'a Series,
    /// The series to compare with.
    pub second: &'a Series,
    /// With equal threads, and finally each at its best.
    pub rows: Vec<Row>,
    /// The difference between this pair and other pairs of the same servers; empty without others.
    pub setting: String,
}

/// Both servers at one setting.
#[derive(Debug)]
pub struct Row {
    /// Threads of the first and of the second.
    pub threads: (Threads, Threads),
    /// Whether these are the best of each.
    pub best: bool,
    /// By command, in their order.
    pub commands: Vec<Option<Ratio>>,
    /// Over all commands that both ran.
    pub all: Option<Ratio>,
    /// CPU time per request over all commands.
    pub cpu: Option<Ratio>,
}

/// A ratio with its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// First divided by second.
    pub factor: f64,
    /// None if no run was repeated.
    pub interval: Option<(f64, f64)>,
}

impl Ratio {
    /// Whether there is a difference beyond chance.
    pub fn differs(&self) -> bool {
        self.interval.is_some_and(|(low, high)| low > 1.0 || high < 1.0)
    }

    /// `1.46×`.
    pub fn text(&self) -> String {
        format!("{:.2}×", self.factor)
    }

    /// `1.35–1.58`; empty if unknown.
    pub fn band(&self) -> String {
        self.interval.map_or(String::new(), |(low, high)| format!("{low:.2}–{high:.2}"))
    }
}

/// A figure of a run.
type Figure = fn(&Measured) -> Option<f64>;

fn rps(measured: &Measured) -> Option<f64> {
    Some(measured.rps)
}

fn cpu(measured: &Measured) -> Option<f64> {
    measured.server_cpu_us.map(|cpu| cpu.total())
}

/// The pairs among the series of one load.
pub fn of<'a>(series: &[&'a Series], commands: &[&str]) -> Vec<Versus<'a>> {
    let mut found: Vec<Versus> = Vec::new();
    for (at, second) in series.iter().enumerate() {
        let alike = |first: &&&Series| {
            (first.sweep, &first.placement, first.reads)
                == (second.sweep, &second.placement, second.reads)
        };
        let Some(first) = series[..at].iter().find(alike) else { continue };
        let rows = rows(first, second, commands);
        if !rows.is_empty() {
            found.push(Versus { first, second, rows, setting: String::new() });
        }
    }
    let names: Vec<(&str, &str)> = found.iter().map(Versus::names).collect();
    let often = |pair| names.iter().filter(|other| **other == pair).count() > 1;
    let several: Vec<bool> = names.iter().map(|pair| often(*pair)).collect();
    for (versus, _) in found.iter_mut().zip(several).filter(|(_, several)| *several) {
        versus.setting = versus.distinguishing_setting();
    }
    found
}

fn rows(first: &Series, second: &Series, commands: &[&str]) -> Vec<Row> {
    let others = second.threads();
    let both = first.threads().into_iter().filter(|threads| others.contains(threads));
    let mut rows: Vec<Row> = both
        .map(|threads| row(first, second, (threads, threads), false, commands))
        .filter(|row| row.all.is_some())
        .collect();
    if let Some(best) = best(first, commands).zip(best(second, commands)) {
        let row = row(first, second, best, true, commands);
        rows.extend(row.all.is_some().then_some(row));
    }
    rows
}

/// The number of threads that serves most over all commands, among those that ran every command.
fn best(series: &Series, commands: &[&str]) -> Option<Threads> {
    let ran = series.commands_of(commands);
    let sum = |threads: Threads| -> Option<f64> {
        ran.iter().map(|command| Some(series.point(threads, command)?.median()?.ln())).sum()
    };
    let sums = series.threads().into_iter().filter_map(|threads| Some((threads, sum(threads)?)));
    sums.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(threads, _)| threads)
}

fn row(
    first: &Series,
    second: &Series,
    threads: (Threads, Threads),
    best: bool,
    commands: &[&str],
) -> Row {
    let pairs: Vec<Option<(&Point, &Point)>> = commands
        .iter()
        .map(|command| first.point(threads.0, command).zip(second.point(threads.1, command)))
        .collect();
    let spread = spread(&[first, second], rps);
    let one = |pair: &Option<(&Point, &Point)>| ratio(&[(*pair)?], rps, spread);
    let all: Vec<(&Point, &Point)> = pairs.iter().flatten().copied().collect();
    Row {
        threads,
        best,
        commands: pairs.iter().map(one).collect(),
        all: ratio(&all, rps, spread),
        cpu: ratio(&all, cpu, self::spread(&[first, second], cpu)),
    }
}

/// Variance of logarithms of a figure and its degrees of freedom, over all points.
fn spread(series: &[&Series], figure: Figure) -> Option<(f64, usize)> {
    let points = series.iter().flat_map(|series| series.points.values());
    let logs: Vec<Vec<f64>> = points.map(|point| logs(point, figure)).collect();
    pooled_variance(logs.iter().map(Vec::as_slice))
}

fn logs(point: &Point, figure: Figure) -> Vec<f64> {
    point.each(figure).into_iter().filter(|value| *value > 0.0).map(f64::ln).collect()
}

/// The geometric mean of the ratios of pairs that have the figure on both sides.
fn ratio(
    pairs: &[(&Point, &Point)],
    figure: Figure,
    spread: Option<(f64, usize)>,
) -> Option<Ratio> {
    let (mut sum, mut shares, mut count) = (0.0, 0.0, 0.0);
    for (first, second) in pairs {
        let (a, b) = (logs(first, figure), logs(second, figure));
        if a.is_empty() || b.is_empty() {
            continue;
        }
        sum += median(&a) - median(&b);
        shares += 1.0 / a.len() as f64 + 1.0 / b.len() as f64;
        count += 1.0;
    }
    if count == 0.0 {
        return None;
    }
    let log = sum / count;
    let interval = spread.map(|(variance, freedom)| {
        let half = t95(freedom) * (variance * shares).sqrt() / count;
        ((log - half).exp(), (log + half).exp())
    });
    Some(Ratio { factor: log.exp(), interval })
}

impl Versus<'_> {
    fn names(&self) -> (&'_ str, &'_ str) {
        (&self.first.server, &self.second.server)
    }

    /// The setting that these two share and other pairs of the same servers don't.
    fn distinguishing_setting(&self) -> String {
        let reads = match self.first.reads {
            Reads::Own => "reads as each server chooses".to_string(),
            set => format!("reads {set}"),
        };
        match self.first.placement.as_str() {
            "anywhere" => reads,
            placement => format!("{reads}, {placement}"),
        }
    }

    /// The most important row: each server at its best.
    pub fn best(&self) -> Option<&Row> {
        self.rows.iter().find(|row| row.best)
    }

    /// That row as a sentence.
    pub fn sentence(&self) -> Option<String> {
        let row = self.best()?;
        let all = row.all?;
        let (a, b) = (&self.first.server, &self.second.server);
        let (factor, band) = (all.factor, all.band().replace('–', " to "));
        let served = match (all.interval.is_some(), all.differs()) {
            (true, true) => format!("{a} serves {factor:.2} times the requests of {b} ({band})"),
            (true, false) => format!(
                "no difference in what {a} and {b} serve is beyond chance ({factor:.2} times, {band})"
            ),
            (false, _) => format!(
                "{a} served {factor:.2} times the requests of {b} in single runs, which say nothing \
                 of chance"
            ),
        };
        let cpu = row.cpu.filter(Ratio::differs).map(|cpu| {
            let band = cpu.band().replace('–', " to ");
            format!(", and takes {:.2} times the CPU per request ({band})", cpu.factor)
        });
        let (of_a, of_b) = row.threads;
        let at = match of_a == of_b {
            true => format!("both at their best: io-threads {of_a}"),
            false => format!("each at its best: io-threads {of_a} and {of_b}"),
        };
        let cpu = cpu.unwrap_or_default();
        let cpu = if all.differs() { cpu } else { cpu.replace("and takes", &format!("{a} takes")) };
        let setting = match self.setting.as_str() {
            "" => String::new(),
            setting => format!("With {setting}: "),
        };
        Some(format!("{setting}{served}{cpu}; {at}."))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::summary::Summary;
    use crate::report::summary::tests::sweep;

    /// Two servers in one sweep.
    fn two(a: &[(u32, &[f64])], b: &[(u32, &[f64])]) -> Summary {
        with_reads(a, b, &[])
    }

    /// The same with each of these settings of io-threads-do-reads.
    fn with_reads(a: &[(u32, &[f64])], b: &[(u32, &[f64])], more: &[Reads]) -> Summary {
        let (mut whole, other) = (sweep(a), sweep(b));
        let spec = whole.header.grid.servers[0].clone();
        whole
            .header
            .grid
            .servers
            .push(crate::results::grid::ServerSpec { name: "b".into(), ..spec });
        whole.cells.extend(other.cells.into_iter().map(|mut cell| {
            cell.key.server = "b".into();
            cell
        }));
        let first = whole.cells.clone();
        for reads in more {
            whole.cells.extend(first.iter().cloned().map(|mut cell| {
                cell.key.reads = *reads;
                cell
            }));
        }
        Summary::of(vec![whole])
    }

    fn versus<T>(summary: &Summary, inspect: impl FnOnce(&[Versus]) -> T) -> T {
        let series = summary.series_of(summary.loads()[0]);
        inspect(&of(&series, &summary.commands_of(&series)))
    }

    #[test]
    fn the_first_server_is_compared_with_the_others() {
        let summary = two(
            &[(1, &[100.0, 101.0, 99.0]), (2, &[200.0, 202.0, 198.0])],
            &[(1, &[100.0, 101.0, 99.0]), (2, &[50.0, 50.5, 49.5]), (4, &[40.0])],
        );
        versus(&summary, |found| {
            assert_eq!(found.len(), 1);
            let rows = &found[0].rows;
            assert_eq!(rows.len(), 3, "1 and 2, which both ran, and the best of each");
            let equal = rows[0].all.unwrap();
            assert!(!equal.differs() && (equal.factor - 1.0).abs() < 1e-9, "{equal:?}");
            let four = rows[1].all.unwrap();
            // Four times, by hand; 0.01 of spread, t(6) = 2.447: 1.0202 to either side.
            assert!((four.factor - 4.0).abs() < 1e-9 && four.differs());
            let (low, high) = four.interval.unwrap();
            assert!((3.9..3.95).contains(&low) && (4.05..4.1).contains(&high), "{four:?}");
            assert!(rows[2].best);
            assert_eq!(rows[2].threads, (Threads::Count(2), Threads::Count(1)));
            let sentence = found[0].sentence().unwrap();
            assert!(sentence.contains("serves 2.00 times the requests of b (1.9"), "{sentence}");
            assert!(sentence.ends_with("io-threads 2 and 1."), "{sentence}");
        });
    }

    #[test]
    fn pairs_of_the_same_servers_name_their_common_setting() {
        let a: &[(u32, &[f64])] = &[(1, &[100.0, 101.0])];
        let b: &[(u32, &[f64])] = &[(1, &[50.0, 51.0])];
        versus(&two(a, b), |found| assert_eq!(found[0].setting, ""));
        let own = sweep(a).cells[0].key.reads;
        let other = if own == Reads::On { Reads::Off } else { Reads::On };
        versus(&with_reads(a, b, &[other]), |found| {
            assert_eq!(found.len(), 2);
            assert_ne!(found[0].setting, found[1].setting);
            for versus in found {
                assert!(versus.setting.contains("reads"), "{}", versus.setting);
                let sentence = versus.sentence().unwrap();
                assert!(sentence.starts_with(&format!("With {}: ", versus.setting)), "{sentence}");
            }
        });
    }

    #[test]
    fn single_runs_have_no_interval() {
        let summary = two(&[(1, &[100.0])], &[(1, &[50.0])]);
        versus(&summary, |found| {
            assert_eq!(found[0].rows[0].all.unwrap().interval, None);
            let sentence = found[0].sentence().unwrap();
            assert!(
                sentence.contains("2.00 times") && sentence.contains("single runs"),
                "{sentence}"
            );
        });
    }

    #[test]
    fn other_machines_and_settings_are_not_compared() {
        let summary = Summary::of(crate::results::published::sweeps());
        for load in summary.loads() {
            let series = summary.series_of(load);
            assert!(of(&series, &summary.commands_of(&series)).is_empty());
        }
    }
}
