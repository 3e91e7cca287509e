//! The simulated world: a clock, scheduled events, servers, and connections between them.

use super::io::Event;
use super::net::{Connection, End, Life};
use super::server::{File, Server};
use super::shard::{Shard, cluster_of};
use super::truth::{Data, EMPTY, Truth, Unit};
use crate::Ms;
use crate::action::{Action, ConnId, Ids, LinkId};
use crate::id::ReplicationId;
use crate::node::{Node, Start};
use crate::settings::{DisklessLoad, OutputLimit, Settings};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use weft_base::rng::Rng;
use weft_resp::append_request;

/// Totals, so that a test can check that its events happened.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub units: u64,
    pub partial: u64,
    pub full: u64,
    pub cuts: u64,
    pub restarts: u64,
    pub promotions: u64,
    pub failovers: u64,
    pub loads_failed: u64,
    pub dropped_for_limits: u64,
    pub timeouts: u64,
}

impl Tally {
    pub fn add(&mut self, other: &Tally) {
        self.units += other.units;
        self.partial += other.partial;
        self.full += other.full;
        self.cuts += other.cuts;
        self.restarts += other.restarts;
        self.promotions += other.promotions;
        self.failovers += other.failovers;
        self.loads_failed += other.loads_failed;
        self.dropped_for_limits += other.dropped_for_limits;
        self.timeouts += other.timeouts;
    }
}

pub(super) struct World {
    pub rng: Rng,
    pub now: Ms,
    order: u64,
    queue: BinaryHeap<Reverse<(Ms, u64, Event)>>,
    pub servers: Vec<Server>,
    pub connections: Vec<Connection>,
    pub links: HashMap<(usize, u32, LinkId), usize>,
    pub truth: Truth,
    numbers: u32,
    /// Maximum time between two writes of a client, in ms.
    pub pause: Ms,
    /// Faults have stopped.
    pub calm: bool,
    /// The final primary of each server.
    pub final_roles: Vec<(usize, Option<usize>)>,
    pub wrong: Option<String>,
    pub tally: Tally,
    /// Prints everything.
    pub verbose: bool,
    /// In a run with a cluster.
    pub shard: Option<Shard>,
}

impl World {
    pub fn new(seed: u64, has_shard: bool) -> World {
        let mut world = World {
            rng: Rng::new(seed),
            now: 1000,
            order: 0,
            queue: BinaryHeap::new(),
            servers: Vec::new(),
            connections: Vec::new(),
            links: HashMap::new(),
            truth: Truth::default(),
            numbers: 0,
            pause: 150,
            calm: false,
            final_roles: Vec::new(),
            wrong: None,
            tally: Tally::default(),
            verbose: false,
            shard: has_shard.then(Shard::new),
        };
        world.pause = [60, 150, 1500][world.rng.below(3) as usize];
        for server in 0..2 + world.rng.below(3) as usize {
            let follows = (server > 0).then(|| world.rng.below(server as u64) as usize);
            world.start(server, 0, None, follows);
            let delay = world.rng.below(100);
            world.later(delay, Event::Write(server));
        }
        world
    }

    pub fn chance(&mut self, percent: u64) -> bool {
        self.rng.below(100) < percent
    }

    /// The chance of a fault: zero once faults have stopped.
    pub fn fault_chance(&mut self, percent: u64) -> bool {
        !self.calm && self.chance(percent)
    }

    pub fn later(&mut self, delay: Ms, event: Event) {
        self.order += 1;
        self.queue.push(Reverse((self.now + delay, self.order, event)));
    }

    pub fn soon(&mut self, most: Ms, event: Event) {
        let delay = self.rng.below(most + 1);
        self.later(delay, event);
    }

    pub fn next(&mut self) -> Option<Event> {
        let Reverse((at, _, event)) = self.queue.pop()?;
        self.now = at;
        Some(event)
    }

    pub fn fault(&mut self, text: String) {
        self.wrong.get_or_insert(text);
    }

    pub fn say(&self, text: impl FnOnce() -> String) {
        if self.verbose {
            println!("{:>7} {}", self.now, text());
        }
    }

    fn ids(&mut self) -> Ids {
        let mut rng = Rng::new(self.rng.next_u64());
        Box::new(move || ReplicationId::from_random(std::array::from_fn(|_| rng.next_u64() as u8)))
    }

    pub fn settings(&mut self, server: usize) -> Settings {
        let rng = &mut self.rng;
        let loads = [
            DisklessLoad::Disabled,
            DisklessLoad::OnEmptyDb,
            DisklessLoad::SwapDb,
            DisklessLoad::FlushBeforeLoad,
        ];
        let mut of = |choices: &[u64]| choices[rng.below(choices.len() as u64) as usize];
        Settings {
            backlog_size: of(&[100, 400, 2000, 20_000]),
            backlog_ttl: of(&[0, 1500]),
            timeout: 3000,
            ping_period: 500,
            diskless_sync: of(&[0, 1]) == 1,
            diskless_delay: of(&[0, 300]),
            diskless_max_replicas: of(&[0, 1, 2]) as usize,
            output: OutputLimit { hard: of(&[0, 1000, 5000]), soft: of(&[0, 500]), soft_time: 800 },
            diskless_load: loads[of(&[0, 1, 2, 3]) as usize],
            version: ["9.1.0", "8.1.0"][of(&[0, 0, 1]) as usize].to_string(),
            password: ["", "secret"][of(&[0, 1]) as usize].to_string(),
            port: port_of(server),
            ..Settings::default()
        }
    }

    /// Starts a server.
    pub fn start(&mut self, server: usize, life: u32, file: Option<File>, follows: Option<usize>) {
        let settings = self.settings(server);
        let ids = self.ids();
        let start = Start {
            position: file.and_then(|file| file.position),
            primary: follows.map(|follows| ("h".to_string(), port_of(follows))),
        };
        let mut out = Vec::new();
        let skew = self.rng.below(100_000);
        let (node, reports) = match self.shard {
            Some(_) => {
                let (cluster, reports) = cluster_of(Life { server, life });
                let position = start.position;
                let node = Node::in_cluster(self.now + skew, settings, ids, position, cluster);
                (node, Some(reports))
            }
            None => (Node::new(self.now + skew, settings, ids, start, &mut out), None),
        };
        let data = file.map_or(EMPTY, |file| file.data);
        let mut fresh = Server::new(node, life, data, skew);
        (fresh.file, fresh.reports) = (file, reports);
        if server == self.servers.len() {
            self.servers.push(fresh);
        } else {
            self.servers[server] = fresh;
        }
        self.act(server, out, &[]);
        self.check_invariants(server);
        self.soon(100, Event::Tick(Life { server, life }));
    }

    /// Calls a server's machine and executes its actions.
    pub fn call<T>(
        &mut self,
        server: usize,
        what: impl FnOnce(&mut Node, Ms, &mut Vec<Action>) -> T,
    ) -> T {
        self.call_with(server, &[], what)
    }

    pub fn call_with<T>(
        &mut self,
        server: usize,
        received: &[u8],
        what: impl FnOnce(&mut Node, Ms, &mut Vec<Action>) -> T,
    ) -> T {
        let mut out = Vec::new();
        let now = self.now + self.servers[server].skew;
        let result = what(&mut self.servers[server].node, now, &mut out);
        self.act(server, out, received);
        self.check_invariants(server);
        result
    }

    /// Whether the server has not restarted since.
    pub fn is_alive(&self, life: Life) -> bool {
        self.servers[life.server].life == life.life
    }

    pub fn life(&self, server: usize) -> Life {
        Life { server, life: self.servers[server].life }
    }

    /// Checks the invariants of a server.
    pub fn check_invariants(&mut self, server: usize) {
        let one = &mut self.servers[server];
        let stream = one.node.stream();
        let (history, end) = (*stream.history(), stream.offset());
        match stream.kept() {
            None => one.kept_from = None,
            Some(kept) => {
                let began = *one.kept_from.get_or_insert(kept.start);
                let (size, hard) =
                    (one.node.settings().backlog_size, one.node.settings().output.hard);
                if kept.end != end {
                    self.wrong =
                        Some(format!("the backlog ends at {} and the stream at {end}", kept.end));
                } else if kept.start > began.max(end.saturating_sub(size)) {
                    self.wrong =
                        Some(format!("server {server} keeps {kept:?} and is to keep {size}"));
                } else if hard > 0 && end - kept.start > hard.max(size) + size / 16 + 2048 {
                    self.wrong = Some(format!(
                        "server {server} keeps {kept:?} for replicas that may have {hard}"
                    ));
                }
            }
        }
        if !one.is_whole() && one.node.position().is_some() {
            self.fault(format!("server {server} has data in pieces and says where it is"));
        } else if one.node.position().is_some() {
            let data = one.streamed();
            one.trace.insert(end, data);
            if let Err(wrong) = self.truth.see(history.id, end, data) {
                self.fault(format!("server {server}: {wrong}"));
            }
        }
    }

    /// A client writes to a server, if it accepts writes.
    pub fn write(&mut self, server: usize) {
        let one = &self.servers[server];
        if !one.node.is_primary() || one.paused || !one.is_whole() {
            return;
        }
        let commands = [1, 1, 1, 2, 3][self.rng.below(5) as usize];
        let mut unit: Unit = Vec::new();
        for _ in 0..commands {
            self.numbers += 1;
            unit.push((self.rng.below(3) as u32, self.numbers));
        }
        let texts: Vec<(usize, Vec<u8>)> = unit
            .iter()
            .map(|(db, number)| {
                let mut out = Vec::new();
                let padding = vec![b'x'; if number % 50 == 0 { 300 } else { 0 }];
                append_request(&[b"SET", number.to_string().as_bytes(), &padding], &mut out);
                (*db as usize, out)
            })
            .collect();
        self.tally.units += 1;
        let before = self.servers[server].data;
        self.servers[server].data = self.truth.write(before, unit);
        self.servers[server].under_way.push_back((before, texts));
        let life = self.life(server);
        let longest = [0, 0, 60, 600][self.rng.below(4) as usize];
        self.soon(longest, Event::Collect(life));
    }

    /// Appends pending units to the stream, in order.
    pub fn collect(&mut self, server: usize) {
        while let Some((_, texts)) = self.servers[server].under_way.pop_front() {
            if !self.servers[server].node.is_primary() {
                return self.fault(format!("server {server} handed over and had writes under way"));
            }
            let commands: Vec<(usize, &[u8])> =
                texts.iter().map(|(db, text)| (*db, &text[..])).collect();
            self.call(server, |node, now, out| node.write(now, |units| units.unit(&commands), out));
        }
    }

    /// Stops a server and starts it with the data of this file.
    pub fn restart(&mut self, server: usize, file: Option<File>, follows: Option<usize>) {
        self.tally.restarts += 1;
        let life = self.life(server);
        for at in 0..self.connections.len() {
            let connection = &mut self.connections[at];
            for end in [End::Replica, End::Primary] {
                if connection.life(end) == life && !connection.pipe_to(end).ended {
                    connection.cut(&mut self.rng);
                    connection.pipe_to(end).ended = true;
                }
            }
            self.schedule(at, End::Replica);
            self.schedule(at, End::Primary);
        }
        self.start(server, life.life + 1, file, follows);
    }

    /// The file that a server would save now.
    pub fn file(&self, server: usize) -> Option<File> {
        let one = &self.servers[server];
        one.is_whole().then(|| File { data: one.data, position: one.node.position() })
    }

    /// The server that another one follows.
    pub fn follows(&self, server: usize) -> Option<usize> {
        let follower = self.servers[server].node.follower()?;
        Some(usize::from(follower.primary().1) - 1)
    }

    /// Whether all servers have converged: same data, same offset, all links up.
    pub fn is_at_rest(&self) -> bool {
        let place = |server: &Server| {
            let history = server.node.stream().history();
            (server.data, history.id, history.offset)
        };
        let first: (Data, ReplicationId, u64) = place(&self.servers[0]);
        let is_well = |server: &Server| {
            server.is_whole() && server.node.follower().is_none_or(|follower| follower.is_online())
        };
        self.servers.iter().all(|server| place(server) == first && is_well(server))
    }

    pub fn conn(&self, conn: ConnId) -> usize {
        conn.0 as usize
    }
}

pub(super) fn port_of(server: usize) -> u16 {
    server as u16 + 1
}
