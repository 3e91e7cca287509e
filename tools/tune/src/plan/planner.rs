//! The planner: makes a plan from a machine and a request. Reads and changes nothing.
//!
//! Interrupts first, since servers can't use CPUs that are reserved for them; then the servers;
//! then the remaining interrupts follow the servers.

use weft_base::cpulist::CpuSet;
use weft_base::machine::Machine;

use super::interrupts;
use super::model::{Kind, Plan, Scheme, VERSION};
use super::pairs;
use super::place;
use super::request::{Choice, Request};
use crate::cpus::Cpus;

/// The reason why no plan can be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Impossible {
    /// There is nothing to place.
    NoServers,
    /// None of the named CPUs can be used.
    NoCpus,
}

impl std::fmt::Display for Impossible {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Impossible::NoServers => "there is no server with a thread to place",
            Impossible::NoCpus => "none of the named CPUs is online and allowed",
        })
    }
}

impl std::error::Error for Impossible {}

/// Plans. O(servers x CPUs log CPUs).
///
/// # Errors
/// [`Impossible`]
pub fn plan(machine: &Machine, request: &Request) -> Result<Plan, Impossible> {
    let usable = match &request.only {
        Some(only) => Cpus(machine.usable().intersection(only)),
        None => Cpus(machine.usable()),
    };
    if usable.is_empty() {
        return Err(Impossible::NoCpus);
    }
    if request.servers.is_empty() || request.servers.iter().any(|server| server.threads == 0) {
        return Err(Impossible::NoServers);
    }
    let mut notes = Vec::new();
    let near = near_nodes(machine, &usable, request);
    let (scheme, reason) = choose(machine, &usable, request, &mut notes);
    let interrupts = match scheme {
        Scheme::Dedicated => {
            let cores = interrupts::dedicated_cores(machine.cores(&usable), threads(request));
            interrupts::dedicated_cpus(machine, &usable, &near, cores)
        }
        Scheme::Spread | Scheme::None => Cpus::default(),
    };
    let room = usable.without(&interrupts);
    let instances =
        pairs::place(machine, &room, &near, &request.servers, &request.pairs, &mut notes);
    let servers = interrupts::servers_cpus(&instances);
    let takers = if interrupts.is_empty() { &servers } else { &interrupts };
    let cards = if scheme == Scheme::None { &[][..] } else { &request.cards };
    let interfaces = interrupts::place(machine, cards, takers, &servers);
    remark(machine, &usable, request, &mut notes);
    Ok(Plan { version: VERSION, scheme, reason, usable, interrupts, instances, interfaces, notes })
}

fn threads(request: &Request) -> usize {
    request.servers.iter().map(|server| server.threads).sum()
}

/// The nodes of the interfaces, if they have usable CPUs.
fn near_nodes(machine: &Machine, usable: &CpuSet, request: &Request) -> Vec<usize> {
    let mut near = Vec::new();
    for node in request.cards.iter().filter_map(|card| card.node) {
        let cpus = machine.node(node).map(|node| node.cpus.intersection(usable));
        if cpus.is_some_and(|cpus| !cpus.is_empty()) && !near.contains(&node) {
            near.push(node);
        }
    }
    near
}

/// The scheme, and the reason. Both published ones were equally fast, so the number of spare cores
/// decides.
fn choose(
    machine: &Machine,
    usable: &Cpus,
    request: &Request,
    notes: &mut Vec<String>,
) -> (Scheme, String) {
    let cores = machine.cores(usable);
    let aside = interrupts::dedicated_cores(cores, threads(request));
    let servers: usize = request
        .servers
        .iter()
        .map(|server| server.threads + place::background_cpus(server.threads))
        .sum();
    let asked = "as asked for".to_string();
    match request.irq {
        Choice::None => (Scheme::None, asked),
        _ if request.cards.is_empty() => {
            (Scheme::None, "no network interface has interrupts to place".to_string())
        }
        Choice::Spread => (Scheme::Spread, asked),
        Choice::Dedicated if cores < 2 => {
            notes.push("One core cannot be split: interrupts share it with the servers.".into());
            (Scheme::Spread, "there is one core only".to_string())
        }
        Choice::Dedicated => (Scheme::Dedicated, asked),
        Choice::Auto if servers + aside <= cores => (
            Scheme::Dedicated,
            format!(
                "{cores} cores are enough for the servers, {servers} with their background \
                 work, and {aside} more for interrupts, so that no server is interrupted"
            ),
        ),
        Choice::Auto => (
            Scheme::Spread,
            format!(
                "the servers and their background work have use for {servers} cores and there \
                 are {cores}, so that none can be set aside for interrupts"
            ),
        ),
    }
}

/// Adds other remarks.
fn remark(machine: &Machine, usable: &Cpus, request: &Request, notes: &mut Vec<String>) {
    if let Some(only) = &request.only {
        let missing = Cpus(only.clone()).without(usable);
        if !missing.is_empty() {
            notes.push(format!("Not online or not allowed, and left out: CPUs {missing}."));
        }
    }
    let time = machine.quota.map_or(usize::MAX, |quota| quota.cpus());
    if threads(request) > time {
        notes.push(format!(
            "The control group allows the time of {time} CPUs: with {} I/O threads all of them \
             will be stopped in turn under load.",
            threads(request)
        ));
    }
    for server in &request.servers {
        let Some((kind, has)) = server.runs.filter(|(_, has)| *has != server.threads) else {
            continue;
        };
        let (name, wants) = (&server.name, server.threads);
        notes.push(match kind {
            Kind::Weft => format!(
                "{name} runs with {has} I/O threads and is planned with {wants}: CONFIG SET \
                 io-threads {wants} before the plan is applied."
            ),
            Kind::Forking => format!(
                "{name} runs with {has} I/O threads and is planned with {wants}: Valkey 9 takes \
                 CONFIG SET io-threads {wants}; Redis and older Valkey must be started again with it, \
                 and threads that are not there are not placed."
            ),
        });
    }
    for card in request.cards.iter().filter(|card| card.irqs.is_empty()) {
        notes.push(format!("{} has no own interrupts; its queues are placed.", card.name));
    }
}
