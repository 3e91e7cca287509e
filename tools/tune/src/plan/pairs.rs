//! A primary and its replica do the same work at the same time, and one must survive problems of
//! the other. So no threads of the two share a core if there is another one.
//!
//! First the servers are placed without regard to pairs, which mostly is enough. If that leaves a
//! pair on one core, servers in pairs are placed before others. If that doesn't help either, the
//! cores are divided into two sides. Replication forms a tree, whose levels alternate between the
//! sides. Each side has whole cores in proportion to its work. Replicas of the same primary may
//! share cores.

use std::collections::VecDeque;

use weft_base::cpulist::CpuSet;
use weft_base::machine::Machine;

use super::model::Instance;
use super::place::{self, background_cpus};
use super::request::Server;

/// A replica and its primary, by their indexes among the servers.
pub type Pair = (usize, usize);

/// Places servers as [`place::place`] does, with `pairs` apart from each other where that is
/// possible.
pub fn place(
    machine: &Machine,
    room: &CpuSet,
    near: &[usize],
    servers: &[Server],
    pairs: &[Pair],
    notes: &mut Vec<String>,
) -> Vec<Instance> {
    let in_order: Vec<usize> = (0..servers.len()).collect();
    let is_paired = |at: &usize| pairs.iter().any(|&(a, b)| a == *at || b == *at);
    let (mut paired_first, others): (Vec<usize>, Vec<usize>) =
        in_order.iter().copied().partition(is_paired);
    paired_first.extend(others);
    let attempts: [&dyn Fn() -> Option<Placed>; 3] = [
        &|| Some(in_sequence(machine, room, near, servers, &in_order)),
        &|| Some(in_sequence(machine, room, near, servers, &paired_first)),
        &|| on_sides(machine, room, near, servers, pairs),
    ];
    let mut best: Option<(usize, Placed)> = None;
    for attempt in attempts {
        let Some(placed) = attempt() else { continue };
        let wrong = together(machine, &placed.0, pairs).count();
        if best.as_ref().is_none_or(|(least, _)| wrong < *least) {
            best = Some((wrong, placed));
        }
        if wrong == 0 {
            break;
        }
    }
    let (instances, said) = best.map(|(_, placed)| placed).unwrap_or_default();
    notes.extend(said);
    for (replica, primary) in together(machine, &instances, pairs) {
        notes.push(format!(
            "{} is a replica of {} and shares a core with it: there is no other.",
            servers[replica].name, servers[primary].name
        ));
    }
    instances
}

/// Instances and remarks about them.
type Placed = (Vec<Instance>, Vec<String>);

/// The pairs in which a thread of one may run on a core of the other.
pub fn together<'p>(
    machine: &'p Machine,
    instances: &'p [Instance],
    pairs: &'p [Pair],
) -> impl Iterator<Item = Pair> + 'p {
    let cores = |at: usize| -> CpuSet {
        let cpus = instances[at].mask();
        let siblings = cpus.iter().filter_map(|cpu| machine.cpu(cpu));
        siblings.flat_map(|cpu| cpu.siblings.iter()).chain(cpus.iter()).collect()
    };
    let shares = move |&(a, b): &Pair| !cores(a).intersection(&instances[b].mask()).is_empty();
    pairs.iter().copied().filter(shares)
}

/// Places servers in the sequence `order`; the result is in their own order.
fn in_sequence(
    machine: &Machine,
    room: &CpuSet,
    near: &[usize],
    servers: &[Server],
    order: &[usize],
) -> Placed {
    let mut notes = Vec::new();
    let sequence: Vec<Server> = order.iter().map(|&at| servers[at].clone()).collect();
    let placed = place::place(machine, room, near, &sequence, &mut notes);
    let mut placed: Vec<(usize, Instance)> = order.iter().copied().zip(placed).collect();
    placed.sort_by_key(|(at, _)| *at);
    (placed.into_iter().map(|(_, instance)| instance).collect(), notes)
}

/// Places servers on two sides without a common core. `None` if there is only one core.
fn on_sides(
    machine: &Machine,
    room: &CpuSet,
    near: &[usize],
    servers: &[Server],
    pairs: &[Pair],
) -> Option<Placed> {
    let of_server = sides(servers, pairs);
    let cores = cores(machine, room, near);
    let weights = [false, true].map(|side| weight(servers, |at| of_server[at] == side));
    if cores.len() < 2 || weights.contains(&0) {
        return None;
    }
    let share = cores.len() * weights[0] / (weights[0] + weights[1]);
    let (here, there) = cores.split_at(share.clamp(1, cores.len() - 1));
    let mut notes = Vec::new();
    let mut all: Vec<(usize, Instance)> = Vec::new();
    for (side, cores) in [(false, here), (true, there)] {
        let cpus: CpuSet = cores.iter().flat_map(CpuSet::iter).collect();
        let own: Vec<usize> = (0..servers.len()).filter(|&at| of_server[at] == side).collect();
        let sequence: Vec<Server> = own.iter().map(|&at| servers[at].clone()).collect();
        all.extend(own.into_iter().zip(place::place(machine, &cpus, near, &sequence, &mut notes)));
    }
    all.sort_by_key(|(at, _)| *at);
    Some((all.into_iter().map(|(_, instance)| instance).collect(), notes))
}

/// The side of each server: the two of a pair on different ones, the others on the side with less
/// work. Three servers that replicate in a circle don't fit two sides.
fn sides(servers: &[Server], pairs: &[Pair]) -> Vec<bool> {
    let mut sides: Vec<Option<bool>> = vec![None; servers.len()];
    for &(_, first) in pairs {
        let mut waiting = VecDeque::from([(first, false)]);
        while let Some((at, side)) = waiting.pop_front() {
            if sides[at].is_some() {
                continue;
            }
            sides[at] = Some(side);
            let others = pairs.iter().filter_map(|&(a, b)| match at {
                _ if a == at => Some(b),
                _ if b == at => Some(a),
                _ => None,
            });
            waiting.extend(others.map(|other| (other, !side)));
        }
    }
    for at in 0..servers.len() {
        if sides[at].is_none() {
            let [here, there] =
                [false, true].map(|side| weight(servers, |at| sides[at] == Some(side)));
            sides[at] = Some(there < here);
        }
    }
    sides.into_iter().map(|side| side == Some(true)).collect()
}

/// The number of CPUs that the servers with `is` can use.
fn weight(servers: &[Server], is: impl Fn(usize) -> bool) -> usize {
    let own = servers.iter().enumerate().filter(|(at, _)| is(*at));
    own.map(|(_, server)| server.threads + background_cpus(server.threads)).sum()
}

/// The cores of `room`, node by node, those on `near` nodes first.
fn cores(machine: &Machine, room: &CpuSet, near: &[usize]) -> Vec<CpuSet> {
    let mut nodes: Vec<_> = machine.nodes.iter().collect();
    nodes.sort_by_key(|node| {
        (near.iter().position(|near| *near == node.id).unwrap_or(usize::MAX), node.id)
    });
    let mut cores: Vec<CpuSet> = Vec::new();
    for cpu in nodes.iter().flat_map(|node| node.cpus.intersection(room).iter().collect::<Vec<_>>())
    {
        if cores.iter().all(|core| !core.contains(cpu)) {
            let siblings = machine.cpu(cpu).map(|cpu| cpu.siblings.intersection(room));
            cores.push(
                siblings
                    .filter(|own| own.contains(cpu))
                    .unwrap_or_else(|| [cpu].into_iter().collect()),
            );
        }
    }
    cores
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpus::Cpus;
    use crate::plan::planner;
    use crate::plan::request::{Choice, Request};
    use crate::plan::tests::{any_machine, read, servers};
    use proptest::prelude::*;
    use weft_testkit::machines::known;

    fn planned(
        machine: &Machine,
        threads: &[usize],
        pairs: &[Pair],
    ) -> (Vec<Instance>, Vec<String>) {
        let (servers, pairs, irq) = (servers(threads), pairs.to_vec(), Choice::None);
        let request = Request { servers, pairs, irq, ..Request::default() };
        let plan = planner::plan(machine, &request).expect("a plan");
        (plan.instances, plan.notes)
    }

    fn masks(instances: &[Instance]) -> Vec<String> {
        instances.iter().map(|instance| instance.mask().to_string()).collect()
    }

    #[test]
    fn two_on_two_cores_have_one_each() {
        let machine = read(&known::virtual_machine());
        let (alone, _) = planned(&machine, &[1, 1], &[]);
        assert_eq!(together(&machine, &alone, &[(1, 0)]).count(), 1, "{:?}", masks(&alone));
        let (apart, notes) = planned(&machine, &[1, 1], &[(1, 0)]);
        assert_eq!(masks(&apart), ["0", "1"]);
        assert!(!notes.iter().any(|note| note.contains("replica")), "{notes:?}");
    }

    #[test]
    fn third_of_three_servers_shares_a_core() {
        let machine = read(&known::six_cores());
        let only: Cpus = (2..6).collect();
        let place = |pairs: &[Pair]| {
            let mut notes = Vec::new();
            masks(&super::place(&machine, &only, &[], &servers(&[1, 1, 1]), pairs, &mut notes))
        };
        assert_eq!(place(&[]), ["2-3", "4-5", "3-5"], "as if nothing were known");
        assert_eq!(place(&[(1, 0)]), ["2-3", "4-5", "3-5"]);
        assert_eq!(place(&[(2, 0)]), ["2-3", "3-5", "4-5"]);
        // Two replicas of one primary, and a chain: some servers must share, and those are not a
        // pair.
        for pairs in [[(1, 0), (2, 0)], [(1, 0), (2, 1)]] {
            let mut notes = Vec::new();
            let placed =
                super::place(&machine, &only, &[], &servers(&[1, 1, 1]), &pairs, &mut notes);
            assert_eq!(together(&machine, &placed, &pairs).count(), 0, "{:?}", masks(&placed));
        }
    }

    #[test]
    fn single_core_gives_a_remark() {
        let machine = read(&known::container());
        let (_, notes) = planned(&machine, &[1, 1], &[(0, 1)]);
        let said = "s0 is a replica of s1 and shares a core with it: there is no other.";
        assert!(notes.iter().any(|note| note == said), "{notes:?}");
    }

    #[test]
    fn siblings_of_a_core_are_one_core() {
        let machine = read(&known::two_sockets(true));
        let cores = machine.cores(&machine.usable());
        // As many threads as there are CPUs, two in each core.
        let threads = [cores, cores];
        let (apart, _) = planned(&machine, &threads, &[(1, 0)]);
        assert_eq!(together(&machine, &apart, &[(1, 0)]).count(), 0, "{:?}", masks(&apart));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]

        /// Each server but the first follows an earlier one, or none.
        #[test]
        fn no_pair_shares_a_core_while_there_are_two(
            machine in any_machine(),
            threads in prop::collection::vec(1..7usize, 1..7),
            follows in prop::collection::vec(0..7usize, 7),
        ) {
            let pairs: Vec<Pair> = (1..threads.len())
                .filter(|&at| follows[at] < at)
                .map(|at| (at, follows[at]))
                .collect();
            let (instances, notes) = planned(&machine, &threads, &pairs);
            let wrong = together(&machine, &instances, &pairs).count();
            let said = notes.iter().filter(|note| note.contains("is a replica of")).count();
            prop_assert_eq!(wrong, said);
            if machine.cores(&machine.usable()) > 1 {
                prop_assert_eq!(wrong, 0, "{:?} of {:?}", masks(&instances), pairs);
            }
            // Requirements on every plan.
            for (instance, &threads) in instances.iter().zip(&threads) {
                prop_assert_eq!(instance.threads, threads);
                prop_assert!(!instance.background.is_empty() && !instance.server.is_empty());
                let usable = machine.usable();
                prop_assert_eq!(instance.mask().intersection(&usable), instance.mask().0);
            }
        }
    }
}
