//! The text of `--once`: the same facts and tables as the page, in full.

use super::facts::facts;
use super::page::columns::landing;
use super::page::style::{age, bytes, micros, percent, rate};
use super::report::Report;
use crate::report::numbers::grouped;

/// A report as text.
pub fn print(report: &Report) -> String {
    let server = &report.server;
    let mut out = format!(
        "{} {} at {}, process {}, up {}\n\n",
        server.kind,
        server.version,
        server.address,
        server.process_id,
        age(server.uptime_seconds)
    );
    let mut fact = |name: &str, text: &str| out += &format!("{name:<9}  {text}\n");
    let per_second = grouped(report.requests.per_second);
    fact("Requests", &format!("{per_second}/s, measured for {:.1} s", report.seconds));
    let latency = &report.latency;
    let ping = match (latency.p50_us, latency.p99_us, latency.max_us) {
        (Some(p50), Some(p99), Some(max)) => format!(
            "median {}, p99 {}, max {} of {} probes",
            micros(p50),
            micros(p99),
            micros(max),
            latency.probes
        ),
        _ => latency.error.clone().unwrap_or_else(|| "no probes".into()),
    };
    fact("PING", &ping);
    for line in facts(report) {
        fact(line.name, &line.text);
    }
    out + &commands(report) + &threads(report) + &cpus(report) + &interfaces(report)
}

fn commands(report: &Report) -> String {
    let rows = report.commands.iter().map(|command| {
        vec![
            command.name.clone(),
            rate(command.calls_per_second),
            micros(command.usec_per_call),
            percent(command.time_percent),
            rate(command.errors_per_second),
            command.p99_us.map_or("-".into(), micros),
        ]
    });
    let heading = ["command", "calls/s", "per call", "time %", "errors/s", "p99 ever"];
    table(&heading, rows.collect())
}

fn threads(report: &Report) -> String {
    let rows = report.threads.iter().map(|thread| {
        let number = |value: Option<f64>, text: fn(f64) -> String| value.map_or("-".into(), text);
        let index = |value: Option<usize>| value.map_or("-".into(), |index| index.to_string());
        vec![
            thread.name.clone(),
            number(thread.cpu_percent, percent),
            number(thread.wait_percent, percent),
            index(thread.last_cpu),
            index(thread.node),
            number(thread.voluntary_per_second, rate),
            number(thread.involuntary_per_second, rate),
        ]
    });
    let heading = ["thread", "CPU %", "wait %", "CPU", "node", "vol/s", "invol/s"];
    table(&heading, rows.collect())
}

fn cpus(report: &Report) -> String {
    let rows = report.cpus.iter().map(|cpu| {
        vec![
            cpu.cpu.to_string(),
            cpu.node.to_string(),
            percent(cpu.busy_percent),
            percent(cpu.user_percent),
            percent(cpu.system_percent),
            percent(cpu.interrupt_percent),
            percent(cpu.stolen_percent),
            rate(cpu.network_interrupts_per_second),
            rate(cpu.net_rx_per_second),
        ]
    });
    let heading = ["CPU", "node", "busy %", "user", "sys", "irq", "steal", "nic/s", "rx/s"];
    table(&heading, rows.collect())
}

fn interfaces(report: &Report) -> String {
    let rows = report.interfaces.iter().map(|interface| {
        vec![
            interface.name.clone(),
            bytes(interface.received_bytes_per_second),
            bytes(interface.sent_bytes_per_second),
            rate(interface.interrupts_per_second),
            landing(interface),
        ]
    });
    table(&["interface", "in/s", "out/s", "irq/s", "on CPU"], rows.collect())
}

/// Rows under a heading: the first column at its left, the others at their right. Nothing without
/// rows.
fn table(heading: &[&str], rows: Vec<Vec<String>>) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let heading = heading.iter().map(ToString::to_string).collect();
    let lines: Vec<Vec<String>> = std::iter::once(heading).chain(rows).collect();
    let widths: Vec<usize> = (0..lines[0].len())
        .map(|at| lines.iter().map(|line| line[at].chars().count()).max().unwrap_or(0))
        .collect();
    let mut out = String::from("\n");
    for line in lines {
        let cells = line.iter().zip(&widths).enumerate().map(|(at, (text, &width))| match at {
            0 => format!("{text:<width$}"),
            _ => format!("{text:>width$}"),
        });
        out += cells.collect::<Vec<_>>().join("  ").trim_end();
        out += "\n";
    }
    out
}
