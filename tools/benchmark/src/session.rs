//! A server and the tool's knowledge of it: addresses, cluster, configuration, CPU; and plans for
//! runs.

use std::io::ErrorKind;
use std::sync::Arc;

use weft_base::clock::Clock;

use crate::cluster::Cluster;
use crate::connect::{Address, Transport};
use crate::control::{Control, PATIENCE, Reply, greetings};
use crate::cpu::ServerCpu;
use crate::keys::{Counters, KeyDistribution};
use crate::options::{Amount, Options, Target};
use crate::plan::Plan;
use crate::run::plain;
use crate::stream::NonBlocking;
use crate::suite::{Suite, Test};
use crate::template::encode;
use weft_connection::tls;

/// Connections per thread before another thread is started.
const CLIENTS_PER_THREAD: usize = 16;

/// Requests per second that a thread can certainly send.
const RATE_PER_THREAD: f64 = 50_000.0;

/// The persistence settings of a server: `save` and `appendonly`.
pub type Config = Option<(String, String)>;

/// A server, or a cluster.
#[derive(Debug)]
pub struct Session {
    pub target: Target,
    pub cluster: Option<Arc<Cluster>>,
    /// Places of the nodes, for messages; one without a cluster.
    pub names: Vec<String>,
    addresses: Vec<Address>,
    greetings: Vec<Vec<String>>,
    /// Its name and version, if it reports them.
    pub version: Option<String>,
    /// By node.
    pub config: Vec<Config>,
    pub cpu: Option<ServerCpu>,
    pub threads: usize,
    counters: Counters,
    clock: Clock,
}

impl Session {
    /// Connects to a server and reads its facts.
    ///
    /// # Errors
    /// If it can't be reached, or refuses.
    pub fn open(
        target: &Target,
        options: &Options,
        transport: &Transport,
    ) -> Result<Session, String> {
        let greetings = greetings(options);
        let fetch = |mode| Cluster::fetch(target, mode, transport, greetings.clone());
        let cluster = options.cluster.map(fetch).transpose().map_err(|e| {
            format!("Failed to fetch cluster configuration from {target}: {}", plain(&e))
        })?;
        let cluster = cluster.map(Arc::new);
        let targets = match &cluster {
            None => vec![target.clone()],
            Some(cluster) => cluster.nodes().iter().map(|node| node.target.clone()).collect(),
        };
        let mut session = Session {
            target: target.clone(),
            cluster,
            names: targets.iter().map(Target::to_string).collect(),
            addresses: Vec::new(),
            greetings,
            version: None,
            config: Vec::new(),
            cpu: None,
            threads: 1,
            counters: Counters::default(),
            clock: Clock::system(),
        };
        for target in &targets {
            let could_not = |e: std::io::Error| {
                format!("Could not connect to server at {target}: {}", plain(&e))
            };
            let address = Address::resolve(target, transport).map_err(could_not)?;
            let mut control = Control::connect(&address).map_err(could_not)?;
            control
                .greet(&session.greetings)
                .map_err(|e| format!("Node {target} replied with error:\n{}", plain(&e)))?;
            session.config.push(configuration(&mut control, target)?);
            session.version = session.version.or_else(|| version(&mut control));
            session.addresses.push(address);
        }
        session.cpu = ServerCpu::find(&session.addresses, &session.greetings);
        let local = session.addresses.iter().any(Address::is_local);
        session.threads = threads(options, weft_base::topology::usable_cpus(), local);
        Ok(session)
    }

    /// Its name and version with its address, because two servers may have one name.
    pub fn name(&self) -> String {
        match &self.version {
            Some(version) => format!("{version} ({})", self.target),
            None => self.target.to_string(),
        }
    }

    /// The first command of a test that the server doesn't know. None also if the server doesn't
    /// answer: then the test reports it.
    pub fn lacks(&self, test: &Test) -> Option<String> {
        let mut control = self.control(0).ok()?;
        let unknown = |name: &&str| match control.ask(&["COMMAND", "INFO", name]) {
            Ok(reply) => matches!(reply.items(), [Reply::Null]),
            Err(_) => false,
        };
        let mut names = test.kinds.iter().map(|kind| kind.name.as_str());
        names.find(unknown).map(str::to_string)
    }

    /// A connection to a node, by its index, with greetings.
    ///
    /// # Errors
    /// If it can't be reached, or refuses.
    pub fn control(&self, node: usize) -> std::io::Result<Control> {
        let mut control = Control::connect(&self.addresses[node])?;
        control.greet(&self.greetings)?;
        Ok(control)
    }

    /// The first commands on every connection.
    pub fn greetings(&self) -> &[Vec<String>] {
        &self.greetings
    }

    /// Sends the preparation of a test, once.
    ///
    /// # Errors
    /// If the server is gone. The test itself reports an error reply.
    pub fn prepare(&self, test: &Test) -> Result<(), String> {
        let Some(request) = &test.prepare else { return Ok(()) };
        for (node, name) in self.names.iter().enumerate() {
            self.control(node)
                .and_then(|mut control| control.ask(request))
                .map_err(|e| format!("Could not prepare the test at {name}: {}", plain(&e)))?;
        }
        Ok(())
    }

    /// A run of a test, with a share of its requests or its time.
    pub fn plan(&self, options: &Options, suite: &Suite, test: Test, share: u32) -> Plan {
        let (requests, duration_ns) = match options.amount {
            Amount::Requests(n) => (Some(n.div_ceil(u64::from(share))), None),
            Amount::Time(time) => (None, Some((time / share).as_nanos() as u64)),
        };
        let mut greeting = Vec::new();
        self.greetings.iter().for_each(|words| encode(words, &mut greeting));
        Plan {
            test,
            content: suite.content(),
            pipeline: options.pipeline,
            requests,
            warmup_ns: options.warmup.as_nanos() as u64,
            duration_ns,
            rate: options.rate,
            keepalive: options.keepalive,
            keep_going: options.keep_going,
            verify: options.verify,
            keyspace: options.keyspace.unwrap_or(0),
            keys: options.keys,
            counters: Arc::clone(&self.counters),
            seed: options.seed,
            threads: self.threads.min(options.clients),
            precision: options.precision,
            greeting: (greeting, self.greetings.len() as u32),
            addresses: self.addresses.clone(),
            cluster: self.cluster.clone(),
            clock: self.clock.clone(),
        }
    }

    /// The run that sets every key once: in order, at full speed, and every error ends it.
    pub fn preload_plan(&self, options: &Options, suite: &Suite) -> Plan {
        Plan {
            pipeline: options.pipeline.max(32),
            requests: options.keyspace,
            warmup_ns: 0,
            duration_ns: None,
            rate: None,
            keep_going: false,
            keys: KeyDistribution::Sequential,
            counters: Counters::default(),
            ..self.plan(options, suite, suite.preload(), 1)
        }
    }

    /// Connects the clients of a run.
    ///
    /// # Errors
    /// If the server can't be reached, or refuses.
    pub fn connect(
        &self,
        plan: &Plan,
        clients: usize,
    ) -> Result<Vec<Vec<(NonBlocking, usize)>>, String> {
        crate::clients::connect(plan, clients, &self.names, &self.greetings)
    }
}

/// `save` and `appendonly`; none if the server doesn't answer.
fn configuration(control: &mut Control, target: &Target) -> Result<Config, String> {
    let mut values = Vec::new();
    for name in ["save", "appendonly"] {
        match control.ask(&["CONFIG", "GET", name]) {
            Ok(Reply::Error(error)) if error.starts_with("NOAUTH") => {
                return Err(format!("Node {target} replied with error:\n{error}"));
            }
            Ok(reply) if reply.items().len() >= 2 => {
                values.push(String::from_utf8_lossy(reply.items()[1].text()).into_owned());
            }
            // With TLS 1.3 the server requests a certificate only now.
            Err(e) if tls::is_failure(&e) => {
                return Err(format!("Could not connect to server at {target}: {e}"));
            }
            // The load would wait for it forever.
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                let seconds = PATIENCE.as_secs();
                return Err(format!(
                    "Node {target} accepts connections, but has not replied for {seconds} s"
                ));
            }
            Ok(_) | Err(_) => return Ok(None),
        }
    }
    Ok(values.pop().zip(values.pop()).map(|(appendonly, save)| (save, appendonly)))
}

/// Name and version of a server, by its INFO.
fn version(control: &mut Control) -> Option<String> {
    let reply = control.ask(&["INFO", "server"]).ok()?;
    let text = String::from_utf8_lossy(reply.text()).into_owned();
    let field = |name: &str| {
        let mut values = text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        values.next().map(str::trim).filter(|value| !value.is_empty())
    };
    let name = field("server_name").unwrap_or("redis");
    // Their own version is more useful than the Redis version that they emulate.
    let version = field(&format!("{name}_version")).or_else(|| field("redis_version"))?;
    Some(format!("{name} {version}"))
}

/// The number of generator threads. A server on this machine needs the other half of the CPUs.
fn threads(options: &Options, cpus: usize, local: bool) -> usize {
    let wanted = options.threads.unwrap_or_else(|| {
        let cpus = if local { cpus / 2 } else { cpus };
        let by_rate =
            options.rate.map_or(usize::MAX, |rate| (rate / RATE_PER_THREAD).ceil() as usize);
        cpus.min(options.clients / CLIENTS_PER_THREAD).min(by_rate)
    });
    wanted.clamp(1, options.clients)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::parse;

    #[test]
    fn threads_follow_connections_cpus_and_rate() {
        let of = |line: &str, cpus, local| {
            threads(&parse(line.split_whitespace().map(Into::into)).unwrap(), cpus, local)
        };
        assert_eq!((of("", 2, true), of("", 8, true), of("", 8, false)), (1, 3, 3));
        assert_eq!(
            (of("-c 500", 8, true), of("-c 500", 8, false), of("-c 1", 8, false)),
            (4, 8, 1)
        );
        assert_eq!(of("-c 500 --rps 1000", 8, true), 1);
        assert_eq!((of("--threads 3", 1, true), of("--threads 3 -c 2", 1, true)), (3, 2));
    }
}
