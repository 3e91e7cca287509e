//! The model of `docs/scaling.md`: from figures of a small machine to 128 threads.
//!
//! ```text
//! cargo run -p weft-tune --example scaling                # prints the tables of the page
//! cargo run -p weft-tune --example scaling -- FILE.toml   # with your own figures
//! cargo run -p weft-tune --example scaling -- --line      # measures how long a cache line takes to move
//! ```
//!
//! The inputs are in `tools/tune/data/scaling.toml`, each with its origin. `tools/tune/tests/scaling.rs` compares the tables
//! with those of the page.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use serde::Deserialize;

/// The published curve that the second model is fitted to.
const PUBLISHED: &str = include_str!("../data/redis-6.2.1-io-threads-sweep.csv");

/// Shards of the keyspace.
const SHARDS: f64 = 256.0;

/// Numbers of threads of the prediction.
const THREADS: [u32; 7] = [2, 4, 8, 16, 32, 64, 128];

/// Figures of a machine.
#[derive(Debug, Deserialize)]
struct Inputs {
    /// Microseconds for a cache line to move between two cores of the measured machine.
    line_us: f64,
    /// The same of machines for which the model predicts.
    other_lines_us: Vec<f64>,
    workload: Vec<Workload>,
}

/// One kind of request.
#[derive(Debug, Deserialize)]
struct Workload {
    name: String,
    /// CPU of the server per request in microseconds, with one I/O thread and with two.
    one_us: f64,
    two_us: f64,
    /// The part of `one_us` in which the shard is locked, at most.
    held_us: f64,
    /// Cache lines per request that move if another thread used the key's shard last.
    lines: f64,
    /// Bytes per request from memory.
    bytes: f64,
    /// CPU of the one thread that merges all writes, per request; 0 if there is none.
    merge_us: f64,
}

impl Workload {
    /// CPU of the I/O threads per request.
    fn cpu_us(&self, threads: f64, line_us: f64) -> f64 {
        // Another thread used the shard last with this probability.
        let moved = self.lines * line_us * (1.0 - 1.0 / threads);
        let held = self.held_us + moved;
        let busy = (threads - 1.0) * held / (self.one_us + moved) / SHARDS;
        // Half of the holder's time remains, and the lock's line moves there and back.
        self.one_us + moved + busy.min(1.0) * (held / 2.0 + 2.0 * line_us)
    }

    /// Millions of requests per second of all threads.
    fn rate(&self, threads: f64, line_us: f64) -> f64 {
        let rate = threads / self.cpu_us(threads, line_us);
        if self.merge_us > 0.0 { rate.min(1.0 / self.merge_us) } else { rate }
    }
}

/// The tables of the page.
///
/// # Panics
/// If the text is not a file of inputs.
pub fn tables(text: &str) -> String {
    let inputs: Inputs = toml::from_str(text).expect("a file of inputs");
    let mut out = String::new();
    let written = compare(&inputs, &mut out)
        .and_then(|()| predict(&inputs, &mut out))
        .and_then(|()| name_limits(&inputs, &mut out))
        .and_then(|()| fit_published(&mut out));
    written.expect("memory");
    out
}

/// Two threads: the model and the measurement.
fn compare(inputs: &Inputs, out: &mut String) -> std::fmt::Result {
    writeln!(out, "### Two threads: model and measurement\n")?;
    writeln!(out, "CPU of the server per request, in microseconds; lower is better.\n")?;
    writeln!(
        out,
        "| requests | one thread, measured | two threads, model | two threads, measured | the model is off by |"
    )?;
    writeln!(out, "|---|---|---|---|---|")?;
    for load in &inputs.workload {
        let model = load.cpu_us(2.0, inputs.line_us);
        let off = 100.0 * (model / load.two_us - 1.0);
        let Workload { name, one_us, two_us, .. } = load;
        writeln!(out, "| {name} | {one_us:.2} | {model:.2} | {two_us:.2} | {off:+.0} % |")?;
    }
    Ok(())
}

fn predict(inputs: &Inputs, out: &mut String) -> std::fmt::Result {
    writeln!(out, "\n### Prediction\n")?;
    writeln!(
        out,
        "Millions of requests per second if each thread has a core of its own; higher is better. In brackets: CPU per request relative \
         to one thread; lower is better.\n"
    )?;
    let numbers = THREADS.map(|threads| format!(" {threads} |")).concat();
    writeln!(out, "| requests, threads: | a line moves in |{numbers}")?;
    writeln!(out, "|---|---|{}", "---|".repeat(THREADS.len()))?;
    for load in &inputs.workload {
        for line_us in std::iter::once(&inputs.line_us).chain(&inputs.other_lines_us) {
            write!(out, "| {} | {:.0} ns |", load.name, 1000.0 * line_us)?;
            for threads in THREADS.map(f64::from) {
                let cpu = load.cpu_us(threads, *line_us) / load.one_us;
                write!(out, " {} ({cpu:.2}) |", short(load.rate(threads, *line_us)))?;
            }
            writeln!(out)?;
        }
    }
    Ok(())
}

/// Two digits or more.
fn short(value: f64) -> String {
    let decimals = match value {
        v if v < 1.0 => 2,
        v if v < 10.0 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}")
}

fn name_limits(inputs: &Inputs, out: &mut String) -> std::fmt::Result {
    writeln!(out, "\n### Limits\n")?;
    writeln!(
        out,
        "| requests | all for one key, millions/s | one thread merges all writes, millions/s | memory at 128 threads, GB/s |"
    )?;
    writeln!(out, "|---|---|---|---|")?;
    for load in &inputs.workload {
        let key = short(1.0 / (load.held_us + load.lines * inputs.line_us));
        let merged = if load.merge_us > 0.0 { short(1.0 / load.merge_us) } else { "-".to_string() };
        let memory = short(load.rate(128.0, inputs.line_us) * load.bytes / 1000.0);
        writeln!(out, "| {} | {key} | {merged} | {memory} |", load.name)?;
    }
    Ok(())
}

/// Fits the law of a server with one executing thread to the published curve.
fn fit_published(out: &mut String) -> std::fmt::Result {
    writeln!(out, "\n### The published curve of Redis 6.2.1\n")?;
    writeln!(
        out,
        "Microseconds per request = serial + shared / threads + growth × threads, fitted to 1 to 10 threads; 64-byte values, \
         Hyper-Threading off.\n"
    )?;
    writeln!(
        out,
        "| reads | command | serial | shared | growth | largest error | best published, requests/s | limit by the serial part |"
    )?;
    writeln!(out, "|---|---|---|---|---|---|---|---|")?;
    for (reads, command) in [
        ("off", "GET"),
        ("off", "SET"),
        ("off", "MSET"),
        ("on", "GET"),
        ("on", "SET"),
        ("on", "MSET"),
    ] {
        let points = published(reads, command);
        let [serial, shared, growth] = fit(&points);
        let time = |threads: f64| serial + shared / threads + growth * threads;
        let errors = points.iter().map(|(threads, us)| (time(*threads) / us - 1.0).abs());
        let most = 100.0 * errors.fold(0.0, f64::max);
        let best = points.iter().map(|(_, us)| 1e3 / us).fold(0.0, f64::max);
        let limit = 1e3 / serial;
        writeln!(
            out,
            "| {reads} | {command} | {serial:.2} | {shared:.2} | {growth:.3} | {most:.1} % | {best:.0},000 | {limit:.0},000 |"
        )?;
    }
    Ok(())
}

/// Threads and microseconds per request.
fn published(reads: &str, command: &str) -> Vec<(f64, f64)> {
    let prefix = format!("{reads},off,64,");
    let rows = PUBLISHED.lines().filter_map(|line| line.strip_prefix(&prefix));
    let points = rows.filter_map(|row| match row.split(',').collect::<Vec<_>>()[..] {
        [threads, name, rate] if name == command => {
            Some((threads.parse().ok()?, 1e6 / rate.parse::<f64>().ok()?))
        }
        _ => None,
    });
    points.filter(|(threads, _)| *threads <= 10.0).collect()
}

/// The three factors with the least sum of squared relative errors.
fn fit(points: &[(f64, f64)]) -> [f64; 3] {
    let mut system = [[0.0; 4]; 3];
    for (threads, us) in points {
        let terms = [1.0 / us, 1.0 / threads / us, threads / us];
        for (row, left) in system.iter_mut().zip(terms) {
            for (cell, right) in row.iter_mut().zip(terms) {
                *cell += left * right;
            }
            row[3] += left;
        }
    }
    for pivot in 0..3 {
        let row = system[pivot].map(|cell| cell / system[pivot][pivot]);
        for (i, other) in system.iter_mut().enumerate() {
            let factor = if i == pivot { 0.0 } else { other[pivot] };
            let reduced: Vec<f64> = other.iter().zip(row).map(|(a, b)| a - factor * b).collect();
            other.copy_from_slice(&reduced);
        }
        system[pivot] = row;
    }
    system.map(|row| row[3])
}

/// Microseconds for a cache line to move between two threads, which write it in turns.
fn line_us() -> f64 {
    const TURNS: u64 = 400_000;
    // Other processes use the machine, so the shortest of many windows counts.
    const WINDOW: u64 = 200;
    let word = AtomicU64::new(0);
    let wait_and_write = |parity: u64| {
        let mut best = f64::INFINITY;
        let mut begin = Instant::now();
        for turn in 0..TURNS {
            while word.load(Ordering::Acquire) != 2 * turn + parity {
                std::hint::spin_loop();
            }
            word.store(2 * turn + parity + 1, Ordering::Release);
            if turn % WINDOW == 0 {
                let seconds = begin.elapsed().as_secs_f64();
                begin = Instant::now();
                // The first window has not been a whole one.
                best = if turn == 0 { best } else { best.min(seconds) };
            }
        }
        best * 1e6 / (2 * WINDOW) as f64
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| wait_and_write(1));
        wait_and_write(0).max(other.join().expect("no panic"))
    })
}

/// The command line.
///
/// # Errors
/// If the file of inputs can't be read.
pub fn main() -> std::io::Result<()> {
    let argument = std::env::args().nth(1);
    match argument.as_deref() {
        Some("--line") => println!("line_us = {:.3}", line_us()),
        Some(file) => print!("{}", tables(&std::fs::read_to_string(file)?)),
        None => print!("{}", tables(include_str!("../data/scaling.toml"))),
    }
    Ok(())
}
