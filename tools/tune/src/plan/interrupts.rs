//! The placement of interrupts and of the work that they cause.
//!
//! The kernel's work for a packet is done on the CPU that took its interrupt. If all interrupts go
//! to one CPU, as on some machines by default, that CPU limits every server. Two solutions were
//! published, both 20 % faster with SET and 40 % with GET:
//!
//! * *dedicated*: two of six CPUs take all interrupts, servers use the others. It is the steadier
//!   one, but servers lose these CPUs.
//! * *spread*: over all CPUs of the servers. It has the lower maximum of latency.
//!
//! A card divides its work over a number of queues with an interrupt each. If there are fewer
//! queues than CPUs for the work, the kernel divides it further (RPS, at the price of an interrupt
//! between CPUs). If there are enough, RPS is disabled. The CPUs of the servers are assigned to the
//! transmit queues (XPS) in the same order as to the interrupts. So with spread interrupts a reply
//! is sent by the queue whose interrupt its CPU takes.

use weft_base::cpulist::CpuSet;
use weft_base::machine::Machine;

use super::model::{Instance, Interface, Irq, Queue};
use super::request::Card;
use crate::cpus::Cpus;

/// I/O threads for each core of interrupts: three servers had two CPUs.
const THREADS_PER_CORE: usize = 2;

/// The largest part of a machine's cores for interrupts: two of six.
const PART: usize = 3;

/// The number of cores for interrupts only: one for every two I/O threads, but not more than a
/// third, and not one that an I/O thread needs. At least 1.
pub fn dedicated_cores(cores: usize, threads: usize) -> usize {
    let wanted = threads.div_ceil(THREADS_PER_CORE);
    wanted.min(cores / PART).min(cores.saturating_sub(threads)).max(1)
}

/// The CPUs of that many cores, siblings included: the lowest numbers of the near nodes, not more
/// than half of a node if there are others.
pub fn dedicated_cpus(machine: &Machine, usable: &CpuSet, near: &[usize], cores: usize) -> Cpus {
    let mut nodes: Vec<usize> = machine.nodes.iter().map(|node| node.id).collect();
    let largest = |node: usize| {
        let cpus = machine.node(node).map(|node| node.cpus.intersection(usable));
        cpus.map_or(0, |cpus| machine.cores(&cpus))
    };
    nodes.sort_by_cached_key(|&node| {
        let rank = near.iter().position(|&near| near == node).unwrap_or(usize::MAX);
        (rank, std::cmp::Reverse(largest(node)), node)
    });
    let of_node = |node: usize| -> Vec<Cpus> {
        let mut found: Vec<(usize, Cpus)> = Vec::new();
        for cpu in machine.cpus.iter().filter(|cpu| cpu.node == node && usable.contains(cpu.id)) {
            if found.iter().all(|(core, _)| *core != cpu.core) {
                found.push((cpu.core, Cpus(cpu.siblings.intersection(usable))));
            }
        }
        found.into_iter().map(|(_, cpus)| cpus).collect()
    };
    let nodes: Vec<Vec<Cpus>> = nodes.into_iter().map(of_node).collect();
    // With several near nodes they take turns.
    let groups = near.len().clamp(1, nodes.len());
    let (near, far) = nodes.split_at(groups);
    let half = |cores: &[Cpus]| cores.len().div_ceil(2);
    let longest = near.iter().map(|cores| half(cores)).max().unwrap_or(0);
    let in_turn = (0..longest)
        .flat_map(|at| near.iter().filter(move |n| at < half(n)).filter_map(move |n| n.get(at)));
    let then = far.iter().flat_map(|cores| cores.iter().take(half(cores)));
    let rest = nodes.iter().flat_map(|cores| cores.iter().skip(half(cores)));
    in_turn.chain(then).chain(rest).take(cores).fold(Cpus::default(), |all, core| all.and(core))
}

/// All CPUs of these servers.
pub fn servers_cpus(instances: &[Instance]) -> Cpus {
    instances.iter().fold(Cpus::default(), |all, instance| all.and(&instance.mask()))
}

/// Places the interrupts and queues of all cards: interrupts on `takers`, sending on
/// `servers`.
pub fn place(machine: &Machine, cards: &[Card], takers: &Cpus, servers: &Cpus) -> Vec<Interface> {
    // One counter for all cards, so that the first CPUs don't get the first queue of each.
    let mut turn = 0;
    cards.iter().map(|card| place_card(machine, card, takers, servers, &mut turn)).collect()
}

fn place_card(
    machine: &Machine,
    card: &Card,
    takers: &Cpus,
    servers: &Cpus,
    turn: &mut usize,
) -> Interface {
    let takers = near_ones(machine, card.node, takers);
    let start = *turn % takers.len();
    let takers: Vec<usize> = takers[start..].iter().chain(&takers[..start]).copied().collect();
    *turn += card.irqs.len();
    let irq = |(at, (number, name)): (usize, &(u32, String))| Irq {
        number: *number,
        name: name.clone(),
        cpus: Cpus::from_iter([takers[at % takers.len()]]),
    };
    let named = |names: &[String], shares: Vec<Cpus>| {
        names.iter().cloned().zip(shares).map(|(name, cpus)| Queue { name, cpus }).collect()
    };
    let receive = match card.receive.len() {
        queues if queues < takers.len() => deal(&takers, queues),
        queues => vec![Cpus::default(); queues],
    };
    let senders: Vec<usize> = servers.iter().collect();
    Interface {
        name: card.name.clone(),
        irqs: card.irqs.iter().enumerate().map(irq).collect(),
        receive: named(&card.receive, receive),
        transmit: named(&card.transmit, deal(&senders, card.transmit.len())),
    }
}

/// The CPUs of a set on the card's node, or all if none is.
fn near_ones(machine: &Machine, node: Option<usize>, cpus: &Cpus) -> Vec<usize> {
    let node = node.and_then(|node| machine.node(node));
    let near: Vec<usize> =
        node.map(|node| node.cpus.intersection(cpus).iter().collect()).unwrap_or_default();
    if near.is_empty() { cpus.iter().collect() } else { near }
}

/// Distributes CPUs over queues in turns; with more queues than CPUs it starts again.
fn deal(cpus: &[usize], queues: usize) -> Vec<Cpus> {
    let hand = |queue: usize| match queue < cpus.len() {
        true => cpus.iter().skip(queue).step_by(queues).copied().collect(),
        false => Cpus::from_iter([cpus[queue % cpus.len()]]),
    };
    (0..queues).map(hand).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_for_interrupts_grow_with_the_threads_within_bounds() {
        for (cores, threads, expected) in
            [(6, 3, 2), (40, 4, 2), (40, 1, 1), (24, 16, 8), (24, 20, 4), (4, 4, 1), (2, 1, 1)]
        {
            assert_eq!(dedicated_cores(cores, threads), expected, "{threads} on {cores}");
        }
    }

    #[test]
    fn dealing_gives_each_queue_a_cpu() {
        let dealt = |cpus: &[usize], queues| -> Vec<String> {
            deal(cpus, queues).iter().map(ToString::to_string).collect()
        };
        assert_eq!(dealt(&[2, 3, 4, 5], 1), ["2-5"]);
        assert_eq!(dealt(&[2, 3, 4, 5, 6], 2), ["2,4,6", "3,5"]);
        assert_eq!(dealt(&[2, 3], 3), ["2", "3", "2"]);
        assert_eq!(dealt(&[2], 0), [""; 0]);
    }
}
