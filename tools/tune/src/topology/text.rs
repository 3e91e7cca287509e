//! The text for people.
//!
//! It must stay readable on a machine of a thousand CPUs: regular facts are printed once (a list
//! with a stride, "each CPU n with n+24"), and only exceptions are listed.

use std::fmt::Write;

use super::caches::Caches;
use super::report::{Core, Node, Report, Socket};
use crate::cpus::{Cpus, strided};
use crate::host::limits::Limits;
use crate::host::net::{Direction, Interface, Irq, Queue};
use crate::report::numbers::memory;

/// The whole text.
pub fn print(report: &Report) -> String {
    let mut out = String::new();
    // Writing into a string does not fail.
    let _ = head(report, &mut out);
    let _ = nodes(&report.nodes, &mut out);
    let _ = sockets(&report.sockets, &mut out);
    let _ = caches(&report.caches, &mut out);
    let _ = interfaces(&report.interfaces, &mut out);
    let _ = limits(&report.limits, &mut out);
    out
}

type Done = Result<(), std::fmt::Error>;

fn head(report: &Report, out: &mut String) -> Done {
    let siblings = report.sockets.iter().flat_map(|socket| &socket.cores).map(|c| c.cpus.len());
    let smt = match siblings.max() {
        Some(most) if most > 1 => format!("SMT with up to {most} CPUs on a core"),
        Some(_) | None => "no SMT".to_string(),
    };
    writeln!(
        out,
        "{} on {} in {}, {}; {smt}",
        counted(report.online.len(), "CPU"),
        counted(report.cores(), "core"),
        counted(report.sockets.len(), "socket"),
        counted(report.nodes.len(), "memory node"),
    )?;
    writeln!(out, "  online   {}", strided(&report.online))?;
    if !report.offline.is_empty() {
        writeln!(out, "  offline  {}", strided(&report.offline))?;
    }
    let part = if report.usable == report.online { " (all)" } else { "" };
    writeln!(out, "  usable   {}{part}", strided(&report.usable))?;
    if let Some(bytes) = report.memory_bytes {
        writeln!(out, "  memory   {}", memory(bytes))?;
    }
    for remark in &report.remarks {
        writeln!(out, "  remark   {remark}")?;
    }
    Ok(())
}

fn nodes(nodes: &[Node], out: &mut String) -> Done {
    writeln!(out, "\nMemory nodes")?;
    for node in nodes {
        let cpus = if node.cpus.is_empty() { "none".into() } else { strided(&node.cpus) };
        write!(out, "  node {:<3} CPUs {cpus}", node.id)?;
        if let Some(kib) = node.memory_kib {
            write!(out, "; {}", memory(kib << 10))?;
        }
        if let Some(kib) = node.free_kib {
            write!(out, ", {} free", memory(kib << 10))?;
        }
        writeln!(out)?;
    }
    write!(out, "  distances")?;
    for node in nodes {
        write!(out, "{:>5}", node.id)?;
    }
    writeln!(out)?;
    for node in nodes {
        write!(out, "  {:>9}", node.id)?;
        for distance in &node.distances {
            write!(out, "{distance:>5}")?;
        }
        writeln!(out)?;
    }
    Ok(())
}

fn sockets(sockets: &[Socket], out: &mut String) -> Done {
    writeln!(out, "\nSockets")?;
    for socket in sockets {
        let cores = counted(socket.cores.len(), "core");
        writeln!(out, "  socket {:<3} {cores}, CPUs {}", socket.id, strided(&socket.cpus))?;
        if let Some(siblings) = siblings(&socket.cores) {
            writeln!(out, "    siblings: {siblings}")?;
        }
        for line in frequencies(&socket.cores) {
            writeln!(out, "    {line}")?;
        }
    }
    Ok(())
}

/// The CPUs that share cores; none if each has its own.
fn siblings(cores: &[Core]) -> Option<String> {
    if cores.iter().all(|core| core.cpus.len() == 1) {
        return None;
    }
    // On most machines the second CPUs of cores are numbered after all the first ones, or
    // right after each.
    let steps: Option<Vec<Option<usize>>> = cores
        .iter()
        .map(|core| match core.cpus.iter().collect::<Vec<usize>>()[..] {
            [first, second] => Some(Some(second - first)),
            _ => None,
        })
        .collect();
    if let Some([Some(step), rest @ ..]) = steps.as_deref()
        && rest.iter().all(|other| *other == Some(*step))
    {
        return Some(format!("each CPU n with n+{step}"));
    }
    let shared = cores.iter().filter(|core| core.cpus.len() > 1);
    Some(shared.map(|core| core.cpus.to_string().replace(',', "+")).collect::<Vec<_>>().join(" "))
}

/// The frequencies, with their cores if they differ.
fn frequencies(cores: &[Core]) -> Vec<String> {
    let mut found: Vec<(u64, Cpus)> = Vec::new();
    for core in cores {
        let Some(khz) = core.max_khz else { continue };
        match found.iter_mut().find(|(other, _)| *other == khz) {
            Some((_, cpus)) => *cpus = cpus.and(&core.cpus),
            None => found.push((khz, core.cpus.clone())),
        }
    }
    let all = found.len() == 1;
    let line = |(khz, cpus): (u64, Cpus)| {
        let whose = if all { String::new() } else { format!(": CPUs {}", strided(&cpus)) };
        format!("up to {} MHz{whose}", khz / 1000)
    };
    found.into_iter().map(line).collect()
}

fn caches(caches: &[Caches], out: &mut String) -> Done {
    if caches.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nCaches")?;
    for Caches { level, kind, kib, shared_by } in caches {
        let kind = match kind.as_str() {
            "Data" => "d",
            "Instruction" => "i",
            _ => "",
        };
        let most = shared_by.iter().map(|cpus| cpus.len()).max().unwrap_or(0);
        let size = format!("{kib} KiB");
        writeln!(
            out,
            "  {:<4} {size:>10} x {}, each of {}",
            format!("L{level}{kind}"),
            shared_by.len(),
            counted(most, "CPU"),
        )?;
    }
    Ok(())
}

fn interfaces(interfaces: &[Interface], out: &mut String) -> Done {
    if interfaces.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nNetwork interfaces")?;
    for interface in interfaces {
        let mut facts = vec![interface.state.clone()];
        facts.extend(interface.speed_mbit.map(|mbit| format!("{mbit} Mbit/s")));
        facts.push(interface.driver.clone().unwrap_or_else(|| "no device".to_string()));
        facts.extend(interface.pci.as_ref().map(|pci| format!("at {pci}")));
        facts.extend(interface.node.map(|node| format!("node {node}")));
        writeln!(out, "  {}: {}", interface.name, facts.join(", "))?;
        for irq in &interface.irqs {
            writeln!(out, "    {}", irq_line(irq))?;
        }
        for queue in &interface.queues {
            writeln!(out, "    {}", queue_line(queue))?;
        }
    }
    Ok(())
}

fn irq_line(irq: &Irq) -> String {
    let shown = |cpus: &Option<Cpus>| cpus.as_ref().map_or("not readable".into(), |c| strided(c));
    let mut line = format!("irq {} {}: CPUs {}", irq.number, irq.name, shown(&irq.affinity));
    if let Some(effective) =
        irq.effective.as_ref().filter(|cpus| Some(*cpus) != irq.affinity.as_ref())
    {
        let _ = write!(line, ", now {}", strided(effective));
    }
    let _ = write!(line, "; {} so far", irq.total());
    line
}

fn queue_line(queue: &Queue) -> String {
    let (name, how) = (
        queue.name(),
        match queue.direction {
            Direction::Rx => "RPS",
            Direction::Tx => "XPS",
        },
    );
    match &queue.cpus {
        None => format!("{name}: no {how}"),
        Some(cpus) if cpus.is_empty() => format!("{name}: {how} off"),
        Some(cpus) => format!("{name}: {how} CPUs {}", strided(cpus)),
    }
}

fn limits(limits: &Limits, out: &mut String) -> Done {
    writeln!(out, "\nLimits of control groups")?;
    if *limits == Limits::default() {
        return writeln!(out, "  none");
    }
    if let Some(cpu) = limits.cpu {
        let (quota, period) = (cpu.quota_us, cpu.period_us);
        writeln!(out, "  CPU time {:.2} CPUs ({quota} us in {period} us)", cpu.cpus())?;
    }
    if let Some(throttling) = limits.throttling {
        let milliseconds = throttling.throttled_us / 1000;
        let (throttled, periods) = (throttling.throttled, throttling.periods);
        writeln!(out, "  throttled in {throttled} of {periods} periods, {milliseconds} ms")?;
    }
    if let Some(cpus) = &limits.cpus {
        writeln!(out, "  CPUs     {}", strided(cpus))?;
    }
    for (what, bytes) in
        [("memory  ", limits.memory_bytes), ("slowed from", limits.memory_high_bytes)]
    {
        if let Some(bytes) = bytes {
            writeln!(out, "  {what} {}", memory(bytes))?;
        }
    }
    Ok(())
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}
