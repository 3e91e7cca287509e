//! `weft-tune plan`: the placement of servers, their background work and interrupts.
//!
//! | file | holds |
//! |---|---|
//! | [`request`] | the input |
//! | [`planner`] | makes a plan from a machine and a request; a pure function |
//! | [`place`] | the placement of servers |
//! | [`pairs`] | the same, with primaries and their replicas apart; [`replicas`]: finds these pairs
//! |
//! | [`interrupts`] | the placement of interrupts |
//! | [`model`] | the plan and its file |
//! | [`show`] | the plan for people |
//!
//! Nothing is changed here, and nothing needs root: a plan can be made before the machine is
//! available, from a copy of its `/proc` and `/sys`.

mod interrupts;
mod model;
mod pairs;
mod place;
mod planner;
mod replicas;
mod request;
mod show;
#[cfg(test)]
mod tests;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use weft_base::cpulist::{self, CpuSet};
use weft_base::machine::Machine;

pub use model::{Instance, Interface, Kind, Plan, Queue};
#[cfg(test)]
pub use model::{Irq, Scheme, VERSION};

use crate::apply::{Process, Real, Servers};
use crate::host::Host;
use crate::host::net::{self, Direction};
use pairs::Pair;
use replicas::ReplicaOf;
use request::{Card, Choice, Request, Server};

/// The most threads of a planned server if the user names no number. Unused threads sleep, but each
/// needs its own CPU.
const THREADS: usize = 4;

/// Plans where servers, their background threads and interrupts should go.
///
/// Changes nothing. `apply` carries the plan out.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// How many servers
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..), conflicts_with_all = ["pid", "port"])]
    instances: u16,

    /// I/O threads of each, the main thread among them [default: those that run, or as many
    /// as there are cores for, up to 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,

    #[command(flatten)]
    servers: Servers,

    /// One server is a replica of another, by their numbers in the plan: `2:1` for the second of
    /// the first. They share no core while there is another one; may be repeated [default: as
    /// running servers say]
    #[arg(long, value_name = "REPLICA:PRIMARY")]
    replica_of: Vec<ReplicaOf>,

    /// A network interface whose interrupts are placed; may be repeated [default: all that
    /// are up and have interrupts]
    #[arg(long, value_name = "NAME")]
    interface: Vec<String>,

    /// Where interrupts go
    #[arg(long, value_enum, default_value_t = Choice::Auto)]
    irq: Choice,

    /// Use these CPUs only, as in 0-7:2 or 1,10-11
    #[arg(long, value_name = "LIST", value_parser = cpu_list)]
    cpus: Option<CpuSet>,

    /// Write the plan to this file, for `apply`
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    /// Print the plan as JSON
    #[arg(long)]
    json: bool,

    /// The machine whose /proc and /sys are below this folder
    #[arg(long, value_name = "FOLDER", default_value = "/", value_parser = crate::host::folder)]
    root: PathBuf,
}

fn cpu_list(text: &str) -> Result<CpuSet, String> {
    match cpulist::parse(text) {
        Ok(cpus) if cpus.is_empty() => Err("names no CPU".to_string()),
        Ok(cpus) => Ok(cpus),
        Err(e) => Err(e.to_string()),
    }
}

/// The subcommand.
///
/// # Errors
/// If no plan can be made or written.
pub fn run(args: Args) -> anyhow::Result<()> {
    let machine = Machine::read(&args.root);
    let plan = make(&args, &machine)?;
    match args.json {
        true => print!("{}", plan.to_json()),
        false => print!("{}", show::text(&machine, &plan)),
    }
    if let Some(out) = &args.out {
        fs::write(out, plan.to_json()).with_context(|| format!("{}", out.display()))?;
        eprintln!("weft-tune: the plan is in {}", out.display());
    }
    Ok(())
}

fn make(args: &Args, machine: &Machine) -> anyhow::Result<Plan> {
    let servers = servers(args, machine)?;
    let (pairs, said) = pairs_of(args, servers.len())?;
    let (cards, irq, only) = (cards(args)?, args.irq, args.cpus.clone());
    let request = Request { servers, pairs, cards, irq, only };
    let mut plan = planner::plan(machine, &request)?;
    plan.notes.extend(said);
    Ok(plan)
}

/// The pairs of primary and replica among the servers, with remarks: by the command line, or else
/// by the running servers.
fn pairs_of(args: &Args, servers: usize) -> anyhow::Result<(Vec<Pair>, Vec<String>)> {
    if !args.replica_of.is_empty() || args.servers.is_empty() {
        return Ok((replicas::named(&args.replica_of, servers)?, Vec::new()));
    }
    let system = Real::at(&args.root);
    let processes = args.servers.find(&system)?;
    Ok(replicas::running(&system, &processes, args.root == Path::new("/")))
}

/// The servers to place: the running ones, or the requested number.
fn servers(args: &Args, machine: &Machine) -> anyhow::Result<Vec<Server>> {
    let threads = args.threads.map(usize::from);
    if args.servers.is_empty() {
        let count = usize::from(args.instances);
        let cores = match &args.cpus {
            Some(only) => machine.cores(&machine.usable().intersection(only)),
            None => machine.cores(&machine.usable()),
        };
        // One core of each part is for background work.
        let threads = threads.unwrap_or((cores / count).saturating_sub(1).clamp(1, THREADS));
        let server =
            |at| Server { name: format!("instance {}", at + 1), threads, ..Server::default() };
        return Ok((0..count).map(server).collect());
    }
    let system = Real::at(&args.root);
    let found = args.servers.find(&system)?;
    let server = |(at, process): (usize, &Process)| Server {
        name: match args.servers.port.get(at) {
            Some(port) => format!("port {port}"),
            None => format!("process {}", process.id.pid),
        },
        threads: threads.unwrap_or(process.io_threads()),
        process: Some(process.id),
        runs: Some((kind(process), process.io_threads())),
    };
    Ok(found.iter().enumerate().map(server).collect())
}

/// The kind of a process, by the names of its threads.
fn kind(process: &Process) -> Kind {
    match process.threads.iter().any(|thread| thread.name.starts_with("weft-")) {
        true => Kind::Weft,
        false => Kind::Forking,
    }
}

/// The interfaces whose interrupts are placed: the named ones, or all that are up and have any.
fn cards(args: &Args) -> anyhow::Result<Vec<Card>> {
    let all = net::read(&Host::new(&args.root));
    let named = |name: &String| {
        let found = all.iter().find(|interface| interface.name == *name);
        found.with_context(|| format!("there is no network interface {name}"))
    };
    let chosen: Vec<&net::Interface> = match args.interface.is_empty() {
        true => all.iter().filter(|i| i.state == "up" && !i.irqs.is_empty()).collect(),
        false => args.interface.iter().map(named).collect::<anyhow::Result<_>>()?,
    };
    let mut cards: Vec<Card> = Vec::new();
    for interface in chosen {
        let mut card = card(interface);
        // Ports of one device may share an interrupt, and a name may be given twice.
        let is_new = |number: u32| cards.iter().all(|c| c.irqs.iter().all(|irq| irq.0 != number));
        card.irqs.retain(|irq| is_new(irq.0));
        if cards.iter().all(|other| other.name != card.name) {
            cards.push(card);
        }
    }
    Ok(cards)
}

fn card(interface: &net::Interface) -> Card {
    let queues = |direction: Direction| {
        let of_one = interface.queues.iter().filter(move |queue| queue.direction == direction);
        of_one.filter(|queue| queue.cpus.is_some()).map(net::Queue::name).collect()
    };
    Card {
        name: interface.name.clone(),
        node: interface.node,
        irqs: interface.irqs.iter().map(|irq| (irq.number, irq.name.clone())).collect(),
        receive: queues(Direction::Rx),
        transmit: queues(Direction::Tx),
    }
}
