//! The order in which threads take CPUs.

use super::{Cpu, Machine};
use crate::cpulist::CpuSet;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// A core counts as slow if its speed is less than this part of the fastest one's: 4/5. Efficiency
/// cores have 40 to 70 %. Cores that differ only by silicon quality or turbo steps have more than
/// 90 % and must keep their order.
const SLOW: (u64, u64) = (4, 5);

impl Machine {
    /// The CPUs of `from` that `threads` threads should take, in this order: as many as there are
    /// threads, or all of `from` if it has fewer. CPUs that are not online are left out.
    ///
    /// 1. Distinct cores of one node: the one with the most cores in `from`, so that it holds all
    ///    threads if any node does; among equals the one with the lowest number.
    /// 2. Cores of further nodes, by their distance from the first; at the same distance the one
    ///    with the most cores.
    /// 3. Siblings of cores already taken, node by node in the same order, when no core is left.
    ///
    /// Another node's core precedes a sibling. A thread in another node was measured to cost the
    /// server 13 % of its throughput (Redis 6 with four threads on two nodes, 249,000 requests per
    /// second against 284,000). Two siblings share the execution units of one core, and a busy pair
    /// does little more than one thread alone.
    ///
    /// Within a node the lowest numbers come first, but slow cores (if a machine has two kinds)
    /// after all others. O(CPUs log CPUs).
    pub fn preferred(&self, from: &CpuSet, threads: usize) -> Vec<usize> {
        self.preferred_avoiding(from, threads, &CpuSet::new())
    }

    /// Like [`Machine::preferred`], when other threads have `taken` some CPUs. Those are never
    /// chosen. A core with a taken CPU is not free: its other CPUs are only used when no free core
    /// is left.
    pub fn preferred_avoiding(&self, from: &CpuSet, threads: usize, taken: &CpuSet) -> Vec<usize> {
        let free: Vec<&Cpu> = self
            .cpus
            .iter()
            .filter(|cpu| from.contains(cpu.id) && !taken.contains(cpu.id))
            .collect();
        let mut in_core: BTreeMap<usize, usize> = BTreeMap::new();
        for cpu in self.cpus.iter().filter(|cpu| taken.contains(cpu.id)) {
            *in_core.entry(cpu.core).or_default() += 1;
        }
        // For each CPU, the number of its core's CPUs before it that are used.
        let before: Vec<usize> = free
            .iter()
            .map(|cpu| {
                let used = in_core.entry(cpu.core).or_default();
                *used += 1;
                *used - 1
            })
            .collect();
        let mut cores_of: BTreeMap<usize, usize> = BTreeMap::new();
        for (cpu, &before) in free.iter().zip(&before) {
            *cores_of.entry(cpu.node).or_default() += usize::from(before == 0);
        }
        let rank = self.rank_nodes(&cores_of);
        let speeds = speeds(&free);
        let fastest = speeds.iter().copied().max().unwrap_or(0);
        let mut order: Vec<_> = free
            .iter()
            .zip(before)
            .zip(speeds)
            .map(|((cpu, before), speed)| {
                (before, rank[&cpu.node], is_slow(speed, fastest), cpu.id)
            })
            .collect();
        order.sort_unstable();
        order.into_iter().take(threads).map(|(.., id)| id).collect()
    }

    /// The rank of each node in the order, given its number of free cores.
    fn rank_nodes(&self, cores_of: &BTreeMap<usize, usize>) -> BTreeMap<usize, usize> {
        let first = cores_of.iter().max_by_key(|&(&id, &cores)| (cores, Reverse(id)));
        let distances = first
            .and_then(|(&id, _)| self.node(id))
            .map(|node| node.distances.as_slice())
            .unwrap_or_default();
        let distance = |id: usize| {
            let at = self.nodes.iter().position(|node| node.id == id);
            at.and_then(|at| distances.get(at)).copied().unwrap_or(u32::MAX)
        };
        let mut nodes: Vec<_> = cores_of
            .iter()
            .map(|(&id, &cores)| {
                // Some firmware reports another node as nearer than the node itself.
                let is_first = first.is_some_and(|(&first, _)| first == id);
                (!is_first, distance(id), Reverse(cores), id)
            })
            .collect();
        nodes.sort_unstable();
        nodes.into_iter().enumerate().map(|(rank, (.., id))| (id, rank)).collect()
    }
}

/// The speed of each CPU, in a unit that is known for all of them: the kernel's estimate, else the
/// frequency, which does not compare cores of different types. All 0 if neither is known.
fn speeds(cpus: &[&Cpu]) -> Vec<u64> {
    let all = |of: fn(&Cpu) -> Option<u64>| cpus.iter().map(|cpu| of(cpu)).collect();
    let known: Option<Vec<u64>> = all(|cpu| cpu.capacity.map(u64::from));
    known.or_else(|| all(|cpu| cpu.max_khz)).unwrap_or_else(|| vec![0; cpus.len()])
}

fn is_slow(speed: u64, fastest: u64) -> bool {
    u128::from(speed) * u128::from(SLOW.1) < u128::from(fastest) * u128::from(SLOW.0)
}
