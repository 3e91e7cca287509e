//! One cell: a fresh server, the data that its command needs, a warm-up, the measurement.

use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use weft_base::cpulist;
use weft_base::topology;

use super::client::{Client, Reply};
use super::generator::{Generator, Job};
use super::proc::{Others, Usage};
use super::run::{Runner, Trouble};
use super::server::{Failure, Running, Server, Wanted};
use super::stop::Stop;
use crate::results::grid::{Grid, Placement, Span};
use crate::results::model::{CpuTime, Measured, Program};
use crate::results::{Cell, Key, Outcome, Threads};

/// Elements stored for cells that run for a time, if the grid has no number: the number of requests
/// is not known in advance.
const PREFILL: u64 = 1_000_000;
/// More than generators send in addition to the requested number.
const SPARE: u64 = 10_000;
/// Requests in flight while storing elements.
const PREFILL_PIPELINE: u32 = 64;

/// Commands that remove or read, with those that store the elements they need.
const NEEDS: [(&str, &str); 5] =
    [("GET", "SET"), ("LPOP", "LPUSH"), ("RPOP", "RPUSH"), ("SPOP", "SADD"), ("ZPOPMIN", "ZADD")];

/// The state that all cells share.
pub struct Bench<'a> {
    grid: Grid,
    generator: &'a dyn Generator,
    stop: &'a Stop,
    servers: Vec<Server>,
    /// Changes of the grid, for readers.
    remarks: Vec<String>,
    /// Server's and generator's CPUs by placement.
    cpus: Vec<(String, String)>,
    port: Option<u16>,
    limit: Duration,
}

impl<'a> Bench<'a> {
    /// Finds the servers, asks for the settings that they support, and checks the CPUs. Settings
    /// that a server lacks are removed from the grid.
    ///
    /// # Errors
    /// If a server does not start or supports nothing of the grid, or CPUs are missing.
    pub fn prepare(
        mut grid: Grid,
        generator: &'a dyn Generator,
        stop: &'a Stop,
        port: Option<u16>,
        limit: u64,
    ) -> Result<Self> {
        let cpus = grid.placements.iter().map(cpus_of).collect::<Result<_>>()?;
        let servers: Vec<Server> = grid
            .servers
            .iter()
            .map(|spec| Server::prepare(spec, port, stop))
            .collect::<Result<_>>()?;
        let mut remarks = Vec::new();
        for (at, server) in servers.iter().enumerate() {
            let mut threads = grid.threads_of(&grid.servers[at]).to_vec();
            if !threads.contains(&Threads::Auto) || server.takes_auto(port, stop) {
                continue;
            }
            let spec = &mut grid.servers[at];
            threads.retain(|threads| *threads != Threads::Auto);
            ensure!(!threads.is_empty(), "server {} does not know io-threads auto", spec.name);
            remarks.push(format!("{}: does not know io-threads auto, left out", spec.name));
            spec.io_threads = Some(threads);
        }
        let limit = Duration::from_secs(limit);
        Ok(Self { grid, generator, stop, servers, remarks, cpus, port, limit })
    }

    /// The grid after these changes.
    pub fn grid(&self) -> &Grid {
        &self.grid
    }

    /// The servers for the header, and remarks on them.
    ///
    /// # Errors
    /// If a server can't be run.
    pub fn programs(&self) -> Result<(Vec<Program>, Vec<String>)> {
        let programs = self.servers.iter().map(Server::program).collect::<Result<_>>()?;
        let names = self.grid.servers.iter().map(|spec| &spec.name);
        let remarks = names.zip(&self.servers).flat_map(|(name, s)| {
            let remarks = s.remarks(&self.grid.io_threads_do_reads).into_iter();
            remarks.map(move |remark| format!("{name}: {remark}"))
        });
        Ok((programs, remarks.chain(self.remarks.iter().cloned()).collect()))
    }

    /// Runs a cell. None if the sweep must stop.
    ///
    /// # Errors
    /// If the key is not of this grid.
    pub fn run(&self, key: &Key) -> Result<Option<Cell>> {
        let server = self.grid.servers.iter().position(|spec| spec.name == key.server);
        let server = &self.servers[server.context("a server of another grid")?];
        let placement = self.grid.placements.iter().position(|p| p.name == key.placement);
        let cpus = &self.cpus[placement.context("a placement of another grid")?];
        let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let begun = Instant::now();
        let mut remarks = server.remarks(&[key.reads]);
        let outcome = match self.measure(key, server, cpus, &mut remarks) {
            Ok(measured) => Outcome::Measured(measured),
            Err(_) if self.stop.asked() => return Ok(None),
            Err(Trouble::Stopped) => return Ok(None),
            Err(Trouble::Failed(Failure { reason, log })) => Outcome::Failed { reason, log },
        };
        Ok(Some(Cell {
            key: key.clone(),
            started: Some(started.as_millis() as f64 / 1000.0),
            took: Some((begun.elapsed().as_secs_f64() * 1000.0).round() / 1000.0),
            outcome,
            remarks,
        }))
    }

    fn measure(
        &self,
        key: &Key,
        server: &Server,
        (server_cpus, bench_cpus): &(String, String),
        remarks: &mut Vec<String>,
    ) -> Result<Measured, Trouble> {
        if self.stop.asked() {
            return Err(Trouble::Stopped);
        }
        let wanted = Wanted {
            io_threads: Some(key.io_threads),
            reads: key.reads,
            cpus: server_cpus,
            port: self.port,
        };
        let mut running = server.start(&wanted, self.stop)?;
        let end = Instant::now() + self.limit;
        let runner = Runner { generator: self.generator, cpus: bench_cpus, end, stop: self.stop };
        if let Some(job) = self.prefill(key, running.port) {
            runner.run(&mut running, &job)?;
        }
        let job = |span| self.job(key, running.port, span);
        let (warmup, measure) = (job(self.grid.warmup), job(self.grid.measure));
        if !matches!(self.grid.warmup, Span::Requests(0)) && self.grid.warmup != Span::Seconds(0.0)
        {
            runner.run(&mut running, &warmup)?;
        }
        let (before, others) = (Usage::of(running.pid()), Others::begin());
        let ran = runner.run(&mut running, &measure)?;
        let used = Usage::of(running.pid()).zip(before).map(|(after, b)| after.since(&b));
        let others = used
            .zip(ran.cpu)
            .and_then(|(server, generator)| others?.end(server.user + server.system + generator));
        let found = ran
            .result(self.generator, &measure)
            .map_err(|e| Failure::new(format!("{e:#}"), running.log()))?;
        remarks.extend(found.remark.map(String::from));
        if let Some((command, _)) = needs(&key.command).filter(|_| ran_empty(&running)) {
            remarks.push(format!("{command} ran out of elements: use a larger prefill"));
        }
        let per_request = |seconds: f64| seconds * 1e6 / found.requests.max(1) as f64;
        Ok(Measured {
            rps: found.rps,
            requests: found.requests,
            mean_of: 1,
            latency_ms: found.latency,
            server_cpu_us: used.map(|used| CpuTime {
                user: per_request(used.user),
                system: per_request(used.system),
            }),
            server_switches: used.map(|used| used.switches),
            generator_busy: found.busy,
            others_cpus: others.map(|cpus| (cpus * 1000.0).round() / 1000.0),
        })
    }

    fn job(&self, key: &Key, port: u16, span: Span) -> Job {
        Job {
            port,
            command: key.command.clone(),
            span,
            clients: key.clients,
            pipeline: key.pipeline,
            data_bytes: key.data_bytes,
            threads: self.grid.generator_threads,
            keyspace: self.grid.keyspace,
            sequential: false,
        }
    }

    /// The job that stores what a command needs; none for commands that need nothing.
    fn prefill(&self, key: &Key, port: u16) -> Option<Job> {
        let (taker, giver) = needs(&key.command)?;
        let requests = |span| match span {
            Span::Requests(n) => n,
            Span::Seconds(_) => PREFILL,
        };
        let elements = match (taker, self.grid.prefill) {
            // It removes nothing: one key, or each key once.
            ("GET", _) => self.grid.keyspace.max(1),
            (_, Some(elements)) => elements,
            (_, None) => {
                let wanted = requests(self.grid.warmup) + requests(self.grid.measure);
                // Generators send more than they count; a remainder shows that there were enough
                // elements.
                (wanted + wanted / 8 + SPARE).min(100 * PREFILL)
            }
        };
        let distinct = giver == "SADD" || giver == "ZADD" || self.grid.keyspace > 0;
        (elements > 0).then(|| Job {
            command: giver.into(),
            pipeline: PREFILL_PIPELINE,
            // One connection, so that numbers come in order and none is left out.
            clients: 1,
            threads: 1,
            keyspace: if distinct { elements } else { 0 },
            sequential: distinct,
            ..self.job(key, port, Span::Requests(elements))
        })
    }
}

fn needs(command: &str) -> Option<(&'static str, &'static str)> {
    NEEDS.into_iter().find(|(taker, _)| *taker == command)
}

/// Whether the single collection of the test is gone.
fn ran_empty(running: &Running) -> bool {
    let size = Client::connect(running.port).and_then(|mut client| client.ask(&["DBSIZE"]));
    matches!(size, Ok(Reply::Number(0)))
}

/// A placement's lists as numbers.
fn cpus_of(placement: &Placement) -> Result<(String, String)> {
    let resolve = |list: &str| {
        resolve(list, Path::new("/")).with_context(|| format!("placement {}", placement.name))
    };
    Ok((resolve(&placement.server_cpus)?, resolve(&placement.bench_cpus)?))
}

/// A list of CPUs, or those of `node0`; some of these CPUs must be allowed.
fn resolve(list: &str, root: &Path) -> Result<String> {
    let text = match list.strip_prefix("node") {
        Some(node) => {
            let node: u32 = node.parse().with_context(|| format!("'{list}' is not a node"))?;
            let file = root.join(format!("sys/devices/system/node/node{node}/cpulist"));
            fs::read_to_string(file).with_context(|| format!("there is no {list}"))?
        }
        None => list.to_string(),
    };
    let cpus = cpulist::parse(text.trim())?;
    let allowed = topology::allowed_cpus();
    ensure!(
        cpus.is_empty() || !cpus.intersection(&allowed).is_empty(),
        "of the CPUs {list} none may be used here (allowed: {allowed})"
    );
    Ok(cpus.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_nodes_become_cpus() {
        let folder = tempfile::tempdir().unwrap();
        let node = folder.path().join("sys/devices/system/node/node0");
        fs::create_dir_all(&node).unwrap();
        let first = topology::allowed_cpus().iter().next().unwrap();
        fs::write(node.join("cpulist"), format!("{first}\n")).unwrap();
        assert_eq!(resolve("node0", folder.path()).unwrap(), first.to_string());
        assert_eq!(resolve("", folder.path()).unwrap(), "");
        for wrong in ["node1", "nodeX", "x", "65000"] {
            assert!(resolve(wrong, folder.path()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn removing_commands_have_enough_elements() {
        assert_eq!(needs("LPOP"), Some(("LPOP", "LPUSH")));
        assert_eq!(needs("SET"), None);
    }
}
