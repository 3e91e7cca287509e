//! The CPUs of each server.
//!
//! I/O threads come first: each gets its own CPU, on its own core if possible, and all of a server
//! are on one node if one has the cores. (Measured on two nodes: a server across them loses 13 % of
//! its throughput; two siblings of a core share its execution units, which is worse when both are
//! busy.) Servers go to the node of the network interface first.
//!
//! Then a server saves, rewrites its log, frees and syncs: much work, but not always. So if cores
//! suffice a server gets a *window*: the CPUs of its I/O threads and one more for each four of them
//! (rounded up). Its background work stays on those. A window is not exclusive: when cores run out,
//! I/O threads of further servers take its CPUs, one by one.
//!
//! This results in the published placement of three servers with one thread each on CPUs 2 to 5:
//!
//! ```text
//! CPU          2        3        4        5
//! window 1  [ I/O 1   backgr. 1 ]                        taskset 2-3
//! window 2                    [ I/O 2   backgr. 2 ]      taskset 4-5
//! server 3            I/O 3   [    backgr. 3      ]      taskset 3-5
//! ```
//!
//! Server 3 finds no window. Its thread takes the background CPU of the first, and its own
//! background work goes to the window with the fewest tenants, which is another one: so each pair
//! of CPUs has three tasks.

use std::cmp::Reverse;

use weft_base::cpulist::CpuSet;
use weft_base::machine::Machine;

use super::model::Instance;
use super::request::Server;
use crate::cpus::Cpus;

/// I/O threads to one CPU for background work.
const THREADS_PER_BACKGROUND_CPU: usize = 4;

/// CPUs for the background work of a server with that many I/O threads, if there is room.
pub fn background_cpus(threads: usize) -> usize {
    threads.div_ceil(THREADS_PER_BACKGROUND_CPU)
}

/// Places servers on the CPUs `room`, those on `near` nodes first. The result is in the order of
/// `servers`; deviations from the ideal go to `notes`.
pub fn place(
    machine: &Machine,
    room: &CpuSet,
    near: &[usize],
    servers: &[Server],
    notes: &mut Vec<String>,
) -> Vec<Instance> {
    let threads: usize = servers.iter().map(|server| server.threads).sum();
    if threads > room.len() {
        return share(machine, room, servers, threads, notes);
    }
    let mut placer = Placer { machine, room, near, threads: Cpus::default(), windows: Vec::new() };
    // The largest first: small ones fit anywhere.
    let mut order: Vec<usize> = (0..servers.len()).collect();
    order.sort_by_key(|&at| Reverse(servers[at].threads));
    let mut placed: Vec<(usize, Instance)> =
        order.into_iter().map(|at| (at, placer.server(&servers[at], notes))).collect();
    placed.sort_by_key(|(at, _)| *at);
    placed.iter_mut().for_each(|(_, instance)| placer.settle(instance, notes));
    placed.into_iter().map(|(_, instance)| instance).collect()
}

/// CPUs of one server, which others may share later.
struct Window {
    cpus: Cpus,
    /// Its owner, I/O threads of others, and background work of others.
    tenants: usize,
}

struct Placer<'a> {
    machine: &'a Machine,
    room: &'a CpuSet,
    near: &'a [usize],
    /// CPUs with an I/O thread.
    threads: Cpus,
    windows: Vec<Window>,
}

impl Placer<'_> {
    fn server(&mut self, server: &Server, notes: &mut Vec<String>) -> Instance {
        let full = server.threads + background_cpus(server.threads);
        let window = [full, server.threads + 1].into_iter().find_map(|size| self.window(size));
        let (io, background) = match window {
            Some(cpus) => {
                let (io, background) = cpus.split_at(server.threads);
                self.windows.push(Window { cpus: cpus.iter().copied().collect(), tenants: 1 });
                self.threads = self.threads.and(&io.iter().copied().collect());
                (io.to_vec(), background.iter().copied().collect())
            }
            None => self.place_without_window(server),
        };
        self.remark(server, &io, notes);
        Instance {
            name: server.name.clone(),
            threads: server.threads,
            server: io.iter().copied().collect(),
            io,
            background,
            process: server.process,
            kind: server.runs.map(|(kind, _)| kind),
        }
    }

    /// `size` CPUs on free cores of one node.
    fn window(&self, size: usize) -> Option<Vec<usize>> {
        let taken = self.taken();
        self.nodes(&taken).into_iter().find_map(|node| self.whole_cores(node, size, &taken))
    }

    /// `count` free CPUs on separate cores of one node.
    fn whole_cores(&self, node: usize, count: usize, taken: &Cpus) -> Option<Vec<usize>> {
        let here = self.on_node(node);
        let found = self.machine.preferred_avoiding(&here, count, taken);
        let whole = found.len() == count && self.machine.cores(&set(&found)) == count;
        (whole && found.iter().all(|&cpu| !self.shares_core(cpu, taken))).then_some(found)
    }

    /// CPUs that already have work, also in the background.
    fn taken(&self) -> Cpus {
        self.windows.iter().fold(self.threads.clone(), |all, window| all.and(&window.cpus))
    }

    /// The nodes in the order in which servers fill them: near ones, then those with the
    /// most free cores.
    fn nodes(&self, taken: &Cpus) -> Vec<usize> {
        let mut nodes: Vec<usize> = self.machine.nodes.iter().map(|node| node.id).collect();
        let free = |node: usize| {
            let cpus = self.on_node(node);
            let free = cpus.iter().filter(|&cpu| !self.shares_core(cpu, taken));
            self.machine.cores(&free.collect())
        };
        nodes.sort_by_cached_key(|&node| {
            let rank = self.near.iter().position(|&near| near == node).unwrap_or(usize::MAX);
            (rank, Reverse(free(node)), node)
        });
        nodes
    }

    fn on_node(&self, node: usize) -> CpuSet {
        let cpus = self.machine.node(node).map(|node| node.cpus.intersection(self.room));
        cpus.unwrap_or_default()
    }

    /// Whether this CPU, or another one of its core, is taken.
    fn shares_core(&self, cpu: usize, taken: &Cpus) -> bool {
        let siblings = self.machine.cpu(cpu).map(|cpu| cpu.siblings.intersection(taken));
        siblings.is_none_or(|taken| !taken.is_empty())
    }

    /// Finds CPUs if no window is left: I/O threads on free cores, then on those with background
    /// work of others only, then on siblings; background work where the load is lowest.
    fn place_without_window(&mut self, server: &Server) -> (Vec<usize>, Cpus) {
        let taken = self.taken();
        let count = server.threads;
        let one_node = |taken: &Cpus| {
            let nodes = self.nodes(taken).into_iter();
            nodes.filter_map(|node| self.whole_cores(node, count, taken)).next()
        };
        // Among one node's cores, free ones come before those with background work.
        let on_one_node = one_node(&taken).or_else(|| {
            let found = one_node(&self.threads)?;
            let node = self.machine.cpu(found[0]).map(|cpu| cpu.node)?;
            Some(self.free_first(&self.on_node(node), count, &taken))
        });
        let io = on_one_node.unwrap_or_else(|| self.free_first(self.room, count, &taken));
        self.threads = self.threads.and(&set(&io));
        let mut visited = Vec::new();
        for (at, window) in self.windows.iter_mut().enumerate() {
            if io.iter().any(|&cpu| window.cpus.contains(cpu)) {
                window.tenants += 1;
                visited.push(at);
            }
        }
        let background = self.background(&io, &visited, background_cpus(count));
        (io, background)
    }

    /// `count` CPUs out of `from` without an I/O thread: on free cores first, then on others.
    fn free_first(&self, from: &CpuSet, count: usize, taken: &Cpus) -> Vec<usize> {
        let is_free = |&cpu: &usize| !self.shares_core(cpu, taken);
        let free: CpuSet = from.iter().filter(is_free).collect();
        let mut found = self.machine.preferred_avoiding(&free, count, taken);
        // A sibling of a CPU just found is no longer a free core.
        let mut whole = CpuSet::new();
        found.retain(|&cpu| {
            let first = !self.shares_core(cpu, &Cpus(whole.clone()));
            whole.insert(cpu);
            first
        });
        let busy = self.threads.and(&set(&found));
        found.extend(self.machine.preferred_avoiding(from, count - found.len(), &busy));
        found
    }

    /// CPUs for background work outside of a window: free cores, else unused siblings of the own
    /// threads, else the window with the fewest tenants that is not in `visited`, else the threads'
    /// CPUs.
    fn background(&mut self, io: &[usize], visited: &[usize], count: usize) -> Cpus {
        let taken = self.taken();
        let free: CpuSet = self.room.iter().filter(|&cpu| !self.shares_core(cpu, &taken)).collect();
        if !free.is_empty() {
            let near =
                self.machine.cpu(io[0]).map(|cpu| self.on_node(cpu.node).intersection(&free));
            let from = near.filter(|near| !near.is_empty()).unwrap_or(free);
            let cpus: Cpus = self.machine.preferred(&from, count).into_iter().collect();
            self.windows.push(Window { cpus: cpus.clone(), tenants: 1 });
            return cpus;
        }
        let siblings = io.iter().filter_map(|&cpu| self.machine.cpu(cpu));
        let siblings: Cpus = siblings.flat_map(|cpu| cpu.siblings.iter()).collect();
        let unused = Cpus(siblings.intersection(self.room)).without(&taken);
        if !unused.is_empty() {
            let cpus: Cpus = unused.iter().take(count).collect();
            self.windows.push(Window { cpus: cpus.clone(), tenants: 1 });
            return cpus;
        }
        let others = self.windows.iter_mut().enumerate().filter(|(at, _)| !visited.contains(at));
        match others.min_by_key(|(_, window)| window.tenants) {
            Some((_, window)) => {
                window.tenants += 1;
                window.cpus.clone()
            }
            None => set(io),
        }
    }

    /// Moves background work whose CPUs now have I/O threads, if any CPU is still unused.
    fn settle(&mut self, instance: &mut Instance, notes: &mut Vec<String>) {
        let unused = Cpus(self.room.clone()).without(&self.taken());
        if !instance.background.without(&self.threads).is_empty() {
            return;
        }
        if unused.is_empty() {
            if instance.background.without(&instance.server).is_empty() {
                notes.push(format!(
                    "No CPU is left for the background work of {}: it shares those of its I/O \
                     threads, and will be felt.",
                    instance.name
                ));
            }
            return;
        }
        let home = self.machine.cpu(instance.io[0]).map(|cpu| self.on_node(cpu.node));
        let near = home.map(|home| home.intersection(&unused)).filter(|near| !near.is_empty());
        let from = near.unwrap_or(unused.0);
        let cpus = self.machine.preferred(&from, background_cpus(instance.threads));
        instance.background = set(&cpus);
        self.windows.push(Window { cpus: set(&cpus), tenants: 1 });
    }

    /// Adds a remark if a server's threads could not be kept together or apart.
    fn remark(&self, server: &Server, io: &[usize], notes: &mut Vec<String>) {
        let mut nodes: Vec<usize> =
            io.iter().filter_map(|&cpu| self.machine.cpu(cpu)).map(|cpu| cpu.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        if nodes.len() > 1 {
            let nodes: Vec<String> = nodes.iter().map(ToString::to_string).collect();
            notes.push(format!(
                "No node has {} free cores: the I/O threads of {} lie on nodes {}.",
                server.threads,
                server.name,
                nodes.join(" and ")
            ));
        }
        let alone = |cpu: usize| {
            let siblings =
                self.machine.cpu(cpu).map(|cpu| cpu.siblings.intersection(&self.threads));
            siblings.is_none_or(|busy| busy.len() == 1)
        };
        if !io.iter().all(|&cpu| alone(cpu)) {
            notes.push(format!(
                "There are not enough free cores: I/O threads of {} share theirs with another.",
                server.name
            ));
        }
    }
}

fn set(cpus: &[usize]) -> Cpus {
    cpus.iter().copied().collect()
}

/// Places more threads than there are CPUs: equal parts of the machine for the servers, or whole
/// nodes if there are fewer CPUs than servers.
fn share(
    machine: &Machine,
    room: &CpuSet,
    servers: &[Server],
    threads: usize,
    notes: &mut Vec<String>,
) -> Vec<Instance> {
    let order = machine.preferred(room, room.len());
    let each = order.len() / servers.len();
    let advice = match each {
        0 => "fewer servers would be faster".to_string(),
        each => format!("io-threads {each} would be faster"),
    };
    notes.push(format!(
        "There are {threads} I/O threads and {} CPUs for them: threads share CPUs. One thread \
         too many was measured to cost 15 % of the throughput; {advice}.",
        order.len()
    ));
    let nodes: Vec<Cpus> = machine
        .nodes
        .iter()
        .map(|node| Cpus(node.cpus.intersection(room)))
        .filter(|cpus| !cpus.is_empty())
        .collect();
    let part = |at: usize| match each {
        0 => nodes[at % nodes.len()].clone(),
        each => {
            // The remaining CPUs go to the first servers, one each.
            let more = order.len() % servers.len();
            let from = at * each + at.min(more);
            set(&order[from..from + each + usize::from(at < more)])
        }
    };
    let one = |(at, server): (usize, &Server)| {
        let cpus = part(at);
        // Some servers may still have a CPU for each thread.
        let fits = each > 0 && server.threads <= cpus.len();
        let io = if fits { machine.preferred(&cpus, server.threads) } else { Vec::new() };
        Instance {
            name: server.name.clone(),
            threads: server.threads,
            server: if fits { set(&io) } else { cpus.clone() },
            background: match cpus.without(&set(&io)) {
                rest if rest.is_empty() => cpus,
                rest => rest,
            },
            io,
            process: server.process,
            kind: server.runs.map(|(kind, _)| kind),
        }
    };
    servers.iter().enumerate().map(one).collect()
}
