//! The order in which threads take CPUs.

use super::{Cpu, Machine};
use crate::cpulist::CpuSet;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// A core counts as slow when it has less than this part of the fastest one's speed: 4/5.
/// Efficiency cores have 40 to 70 %; cores that differ only by the silicon's luck, or by their
/// turbo steps, have more than 90 % and must not be torn out of their order.
const SLOW: (u64, u64) = (4, 5);

impl Machine {
    /// The CPUs of `from` that `threads` threads should take, in the order in which they should
    /// take them: as many as there are threads, or all of `from` where that is less. CPUs that
    /// are not online are left out.
    ///
    /// 1. Distinct cores of one node: the one with the most cores in `from`, so that it holds
    ///    all threads if any node does; among equals the one with the lowest number.
    /// 2. Cores of further nodes, by their distance from the first; at the same distance the
    ///    one with the most cores.
    /// 3. Siblings of cores already taken, node by node in the same order, when no core is left.
    ///
    /// That another node's core comes before a sibling: a thread in another node was measured
    /// to cost the server 13 % of its throughput (Redis 6 with four threads on two nodes,
    /// 249,000 requests per second against 284,000), while two siblings share the execution
    /// units of one core, and a busy pair does little more than one thread would alone.
    ///
    /// Within a node the lowest numbers come first, but slow cores (where a machine has two
    /// sorts) after all others. O(CPUs log CPUs).
    pub fn preferred(&self, from: &CpuSet, threads: usize) -> Vec<usize> {
        self.preferred_beside(from, threads, &CpuSet::new())
    }

    /// [`Machine::preferred`] on a machine where others have `taken` some CPUs: those are never
    /// chosen, and a core with a CPU among them is no free core but half of one, to be used
    /// only when no free core is left.
    pub fn preferred_beside(&self, from: &CpuSet, threads: usize, taken: &CpuSet) -> Vec<usize> {
        let free: Vec<&Cpu> = self
            .cpus
            .iter()
            .filter(|cpu| from.contains(cpu.id) && !taken.contains(cpu.id))
            .collect();
        let mut in_core: BTreeMap<usize, usize> = BTreeMap::new();
        for cpu in self.cpus.iter().filter(|cpu| taken.contains(cpu.id)) {
            *in_core.entry(cpu.core).or_default() += 1;
        }
        // How many of its core's CPUs are used before each CPU.
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

    /// The place of each node in the order, given how many free cores each has.
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
                // Firmware has been seen to call another node nearer than the own one.
                let is_first = first.is_some_and(|(&first, _)| first == id);
                (!is_first, distance(id), Reverse(cores), id)
            })
            .collect();
        nodes.sort_unstable();
        nodes.into_iter().enumerate().map(|(rank, (.., id))| (id, rank)).collect()
    }
}

/// How fast each CPU is, in whatever unit is known of all of them: the kernel's estimate before
/// the frequency, which does not compare cores of different make. All 0 where none is.
fn speeds(cpus: &[&Cpu]) -> Vec<u64> {
    let all = |of: fn(&Cpu) -> Option<u64>| cpus.iter().map(|cpu| of(cpu)).collect();
    let known: Option<Vec<u64>> = all(|cpu| cpu.capacity.map(u64::from));
    known.or_else(|| all(|cpu| cpu.max_khz)).unwrap_or_else(|| vec![0; cpus.len()])
}

fn is_slow(speed: u64, fastest: u64) -> bool {
    u128::from(speed) * u128::from(SLOW.1) < u128::from(fastest) * u128::from(SLOW.0)
}
