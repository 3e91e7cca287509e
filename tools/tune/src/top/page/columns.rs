//! The columns of the page's tables.

use std::cmp::Ordering;

use ratatui::style::Style;

use super::style::{Palette, bytes, micros, percent, rate};
use super::table::{Column, Side, UNKNOWN, descending};
use crate::top::report::{Command, Cpu, Interface, Thread};

/// Cells of a bar.
const BAR: usize = 10;

fn or_unknown<V>(value: Option<V>, text: fn(V) -> String) -> String {
    value.map_or(UNKNOWN.to_string(), text)
}

fn plain<T>(_: &T, _: Palette) -> Style {
    Style::new()
}

/// Threads, the busiest first.
pub const THREADS: &[Column<Thread>] = &[
    Column {
        title: "thread",
        width: 15,
        rank: 0,
        side: Side::Left,
        text: |thread| thread.name.clone(),
        // The order of the report.
        order: |_, _| Ordering::Equal,
        style: |thread, palette| match io(thread, |io| io.is_active) {
            Some(true) => palette.strong(),
            Some(false) => palette.dim(),
            None => Style::new(),
        },
    },
    Column {
        title: "CPU %",
        width: 6,
        rank: 0,
        side: Side::Right,
        text: |thread| or_unknown(thread.cpu_percent, percent),
        order: |a, b| descending(a.cpu_percent, b.cpu_percent),
        style: |thread, palette| palette.load(thread.cpu_percent.unwrap_or(0.0)),
    },
    Column {
        title: "wait %",
        width: 7,
        rank: 2,
        side: Side::Right,
        text: |thread| or_unknown(thread.wait_percent, percent),
        order: |a, b| descending(a.wait_percent, b.wait_percent),
        style: |thread, palette| match thread.wait_percent {
            Some(percent) if percent >= 10.0 => palette.warning(),
            Some(_) | None => Style::new(),
        },
    },
    Column {
        title: "CPU",
        width: 4,
        rank: 1,
        side: Side::Right,
        text: |thread| or_unknown(thread.last_cpu, |cpu| cpu.to_string()),
        order: |a, b| a.last_cpu.cmp(&b.last_cpu),
        style: plain,
    },
    Column {
        title: "node",
        width: 5,
        rank: 3,
        side: Side::Right,
        text: |thread| or_unknown(thread.node, |node| node.to_string()),
        order: |a, b| a.node.cmp(&b.node),
        style: plain,
    },
    Column {
        title: "vol/s",
        width: 6,
        rank: 2,
        side: Side::Right,
        text: |thread| or_unknown(thread.voluntary_per_second, rate),
        order: |a, b| descending(a.voluntary_per_second, b.voluntary_per_second),
        style: plain,
    },
    Column {
        title: "invol/s",
        width: 8,
        rank: 2,
        side: Side::Right,
        text: |thread| or_unknown(thread.involuntary_per_second, rate),
        order: |a, b| descending(a.involuntary_per_second, b.involuntary_per_second),
        style: plain,
    },
    Column {
        title: "reads/s",
        width: 8,
        rank: 4,
        side: Side::Right,
        text: |thread| io_text(thread, io(thread, |io| io.reads_per_second), rate),
        order: |a, b| descending(io(a, |io| io.reads_per_second), io(b, |io| io.reads_per_second)),
        style: plain,
    },
    Column {
        title: "req/s",
        width: 6,
        rank: 1,
        side: Side::Right,
        text: |thread| io_text(thread, io(thread, |io| io.requests_per_second), rate),
        order: |a, b| {
            descending(io(a, |io| io.requests_per_second), io(b, |io| io.requests_per_second))
        },
        style: plain,
    },
    Column {
        title: "conns",
        width: 6,
        rank: 3,
        side: Side::Right,
        text: |thread| io_text(thread, io(thread, |io| io.connections), |count| count.to_string()),
        order: |a, b| io(b, |io| io.connections).cmp(&io(a, |io| io.connections)),
        style: plain,
    },
    Column {
        title: "tid",
        width: 8,
        rank: 5,
        side: Side::Right,
        text: |thread| or_unknown(thread.tid, |tid| tid.to_string()),
        order: |a, b| a.tid.cmp(&b.tid),
        style: |_, palette| palette.dim(),
    },
];

fn io<V>(thread: &Thread, of: fn(&crate::top::report::IoThread) -> Option<V>) -> Option<V> {
    thread.io.as_ref().and_then(of)
}

/// Empty for threads without connections.
fn io_text<V>(thread: &Thread, value: Option<V>, text: fn(V) -> String) -> String {
    if thread.io.is_some() { or_unknown(value, text) } else { String::new() }
}

/// CPUs, by number.
pub const CPUS: &[Column<Cpu>] = &[
    Column {
        title: "CPU",
        width: 4,
        rank: 0,
        side: Side::Right,
        text: |cpu| cpu.cpu.to_string(),
        order: |a, b| a.cpu.cmp(&b.cpu),
        style: plain,
    },
    Column {
        title: "node",
        width: 5,
        rank: 3,
        side: Side::Right,
        text: |cpu| cpu.node.to_string(),
        order: |a, b| a.node.cmp(&b.node),
        style: plain,
    },
    Column {
        title: "busy %",
        width: 7,
        rank: 0,
        side: Side::Right,
        text: |cpu| percent(cpu.busy_percent),
        order: |a, b| descending(Some(a.busy_percent), Some(b.busy_percent)),
        style: |cpu, palette| palette.load(cpu.busy_percent),
    },
    Column {
        title: "",
        width: BAR as u16,
        rank: 4,
        side: Side::Left,
        text: |cpu| bar(cpu.busy_percent),
        order: |a, b| descending(Some(a.busy_percent), Some(b.busy_percent)),
        style: |_, palette| palette.curve(),
    },
    Column {
        title: "user",
        width: 5,
        rank: 2,
        side: Side::Right,
        text: |cpu| percent(cpu.user_percent),
        order: |a, b| descending(Some(a.user_percent), Some(b.user_percent)),
        style: plain,
    },
    Column {
        title: "sys",
        width: 5,
        rank: 2,
        side: Side::Right,
        text: |cpu| percent(cpu.system_percent),
        order: |a, b| descending(Some(a.system_percent), Some(b.system_percent)),
        style: plain,
    },
    Column {
        title: "irq",
        width: 5,
        rank: 2,
        side: Side::Right,
        text: |cpu| percent(cpu.interrupt_percent),
        order: |a, b| descending(Some(a.interrupt_percent), Some(b.interrupt_percent)),
        style: plain,
    },
    Column {
        title: "steal",
        width: 6,
        rank: 3,
        side: Side::Right,
        text: |cpu| percent(cpu.stolen_percent),
        order: |a, b| descending(Some(a.stolen_percent), Some(b.stolen_percent)),
        style: |cpu, palette| match cpu.stolen_percent {
            stolen if stolen >= 1.0 => palette.warning(),
            _ => Style::new(),
        },
    },
    Column {
        title: "nic/s",
        width: 6,
        rank: 1,
        side: Side::Right,
        text: |cpu| rate(cpu.network_interrupts_per_second),
        order: |a, b| {
            let key = |cpu: &Cpu| Some(cpu.network_interrupts_per_second);
            descending(key(a), key(b))
        },
        style: plain,
    },
    Column {
        title: "rx/s",
        width: 6,
        rank: 1,
        side: Side::Right,
        text: |cpu| rate(cpu.net_rx_per_second),
        order: |a, b| descending(Some(a.net_rx_per_second), Some(b.net_rx_per_second)),
        style: plain,
    },
    Column {
        title: "threads",
        width: 8,
        rank: 1,
        side: Side::Rest,
        text: |cpu| cpu.threads.join(" "),
        order: |a, b| b.threads.len().cmp(&a.threads.len()),
        style: |_, palette| palette.dim(),
    },
];

/// A bar of ten cells, in eighths of a cell.
fn bar(percent: f64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (percent / 100.0 * (BAR * 8) as f64).round() as usize;
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}

/// Commands, the most frequent first.
pub const COMMANDS: &[Column<Command>] = &[
    Column {
        title: "command",
        width: 16,
        rank: 0,
        side: Side::Left,
        text: |command| command.name.clone(),
        order: |a, b| a.name.cmp(&b.name),
        style: plain,
    },
    Column {
        title: "calls/s",
        width: 8,
        rank: 0,
        side: Side::Right,
        text: |command| rate(command.calls_per_second),
        order: |a, b| descending(Some(a.calls_per_second), Some(b.calls_per_second)),
        style: |_, palette| palette.strong(),
    },
    Column {
        title: "per call",
        width: 9,
        rank: 1,
        side: Side::Right,
        text: |command| micros(command.usec_per_call),
        order: |a, b| descending(Some(a.usec_per_call), Some(b.usec_per_call)),
        style: plain,
    },
    Column {
        title: "time %",
        width: 7,
        rank: 1,
        side: Side::Right,
        text: |command| percent(command.time_percent),
        order: |a, b| descending(Some(a.time_percent), Some(b.time_percent)),
        style: plain,
    },
    Column {
        title: "p50",
        width: 8,
        rank: 3,
        side: Side::Right,
        text: |command| or_unknown(command.p50_us, micros),
        order: |a, b| descending(a.p50_us, b.p50_us),
        style: |_, palette| palette.dim(),
    },
    Column {
        title: "p99",
        width: 8,
        rank: 2,
        side: Side::Right,
        text: |command| or_unknown(command.p99_us, micros),
        order: |a, b| descending(a.p99_us, b.p99_us),
        style: |_, palette| palette.dim(),
    },
    Column {
        title: "p99.9",
        width: 8,
        rank: 3,
        side: Side::Right,
        text: |command| or_unknown(command.p999_us, micros),
        order: |a, b| descending(a.p999_us, b.p999_us),
        style: |_, palette| palette.dim(),
    },
    Column {
        title: "err/s",
        width: 6,
        rank: 2,
        side: Side::Right,
        text: |command| rate(command.errors_per_second),
        order: |a, b| descending(Some(a.errors_per_second), Some(b.errors_per_second)),
        style: |command, palette| match command.errors_per_second {
            errors if errors > 0.0 => palette.problem(),
            _ => palette.dim(),
        },
    },
];

/// Network interfaces, by received bytes.
pub const INTERFACES: &[Column<Interface>] = &[
    Column {
        title: "interface",
        width: 10,
        rank: 0,
        side: Side::Left,
        text: |interface| interface.name.clone(),
        order: |a, b| a.name.cmp(&b.name),
        style: plain,
    },
    Column {
        title: "in/s",
        width: 9,
        rank: 0,
        side: Side::Right,
        text: |interface| bytes(interface.received_bytes_per_second),
        order: |a, b| {
            let key = |interface: &Interface| Some(interface.received_bytes_per_second);
            descending(key(a), key(b))
        },
        style: plain,
    },
    Column {
        title: "out/s",
        width: 9,
        rank: 0,
        side: Side::Right,
        text: |interface| bytes(interface.sent_bytes_per_second),
        order: |a, b| descending(Some(a.sent_bytes_per_second), Some(b.sent_bytes_per_second)),
        style: plain,
    },
    Column {
        title: "packets/s",
        width: 9,
        rank: 2,
        side: Side::Right,
        text: |i| rate(i.received_packets_per_second + i.sent_packets_per_second),
        order: |a, b| {
            let key =
                |i: &Interface| Some(i.received_packets_per_second + i.sent_packets_per_second);
            descending(key(a), key(b))
        },
        style: plain,
    },
    Column {
        title: "irq/s",
        width: 6,
        rank: 1,
        side: Side::Right,
        text: |interface| rate(interface.interrupts_per_second),
        order: |a, b| descending(Some(a.interrupts_per_second), Some(b.interrupts_per_second)),
        style: plain,
    },
    Column {
        title: "on CPU",
        width: 12,
        rank: 1,
        side: Side::Rest,
        text: landing,
        order: |a, b| b.interrupts_by_cpu.len().cmp(&a.interrupts_by_cpu.len()),
        style: plain,
    },
];

/// The CPUs that take an interface's interrupts, most first, with their shares.
pub fn landing(interface: &Interface) -> String {
    if interface.interrupts_per_second <= 0.0 {
        return UNKNOWN.to_string();
    }
    let mut cpus: Vec<(usize, f64)> =
        interface.interrupts_by_cpu.iter().map(|(cpu, rate)| (*cpu, *rate)).collect();
    cpus.retain(|(_, rate)| *rate > 0.0);
    cpus.sort_by(|a, b| b.1.total_cmp(&a.1));
    let share = |(cpu, rate): &(usize, f64)| {
        format!("{cpu}: {:.0} %", rate / interface.interrupts_per_second * 100.0)
    };
    cpus.iter().map(share).collect::<Vec<_>>().join("  ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_ten_cells_long() {
        assert_eq!([0.0, 50.0, 55.0, 100.0].map(bar), ["", "█████", "█████▌", "██████████"]);
    }

    #[test]
    fn interrupts_land_on_the_busiest_first() {
        let interface = Interface {
            interrupts_per_second: 100.0,
            interrupts_by_cpu: [(0, 25.0), (3, 75.0), (5, 0.0)].into(),
            ..Interface::default()
        };
        assert_eq!(landing(&interface), "3: 75 %  0: 25 %");
    }
}
