//! An open loop of GETs and SETs on the keys of some slots of a cluster of two nodes, which follows redirects as clients do.
//!
//!     cluster_load FILE PORTS RATE SLOTS KEYS SIZE WRITES CONNECTIONS
//!
//! `PORTS` are `PORT,PORT`; keys are `{tag}:0` to `{tag}:KEYS-1` in each of the slots 0 to SLOTS-1. `WRITES` are in percent. Each
//! node has this many connections, each with one request at a time. Request k is due at start + k / RATE; its latency counts from
//! then, also while no connection is free. The load ends at the end of the standard input. `FILE` gets three 64-bit numbers for
//! each request: when it was due, when it was answered (CLOCK_MONOTONIC, ns), and 1 if it was a write. Prints a line of JSON:
//! redirects, refusals that were tried again, other errors.
//!
//! `benches/groups/moves.py` uses it.

use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::time::{ClockId, clock_gettime};
use std::collections::{BTreeMap, VecDeque};
use std::error::Error;
use std::io::{self, BufWriter, Read, Write};
use std::net::TcpStream;
use weft_base::slot::key_slot;

type Failure = Box<dyn Error>;

const SLOTS: usize = 16384;
/// Refusals (CLUSTERDOWN, TRYAGAIN) are tried again after this time, in ns.
const RETRY: u64 = 1_000_000;

fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[derive(Clone, Copy)]
struct Request {
    due: u64,
    slot: usize,
    key: u32,
    is_write: bool,
    asking: bool,
}

struct Connection {
    stream: TcpStream,
    node: usize,
    input: Vec<u8>,
    output: Vec<u8>,
    flight: Option<Request>,
    /// A reply to ASKING comes first.
    skips: bool,
}

struct Load {
    epoll: rustix::fd::OwnedFd,
    connections: Vec<Connection>,
    ports: Vec<String>,
    /// The node of each slot.
    owners: Vec<usize>,
    tags: Vec<String>,
    free: Vec<Vec<usize>>,
    queues: Vec<VecDeque<Request>>,
    refused: VecDeque<(u64, Request)>,
    value: Vec<u8>,
    samples: Vec<[u64; 3]>,
    counts: BTreeMap<String, u64>,
}

/// Numbers that look random (xorshift).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }
}

/// The end of the reply at the begin of these bytes, if it is complete.
fn end_of_reply(bytes: &[u8]) -> Option<usize> {
    let line = bytes.windows(2).position(|two| two == b"\r\n")? + 2;
    let length = match bytes[0] {
        b'$' => std::str::from_utf8(&bytes[1..line - 2]).ok()?.parse::<i64>().ok()?,
        _ => -1,
    };
    let end = if length < 0 { line } else { line + length as usize + 2 };
    (bytes.len() >= end).then_some(end)
}

/// A tag in each slot.
fn tags(slots: usize) -> Vec<String> {
    let mut tags = vec![String::new(); slots];
    let mut missing = slots;
    for number in 0_u32.. {
        if missing == 0 {
            break;
        }
        let tag = number.to_string();
        let slot = usize::from(key_slot(tag.as_bytes()));
        if slot < slots && tags[slot].is_empty() {
            tags[slot] = tag;
            missing -= 1;
        }
    }
    tags
}

impl Load {
    fn open(
        ports: &[String],
        slots: usize,
        connections: usize,
        size: usize,
    ) -> Result<Load, Failure> {
        let (nodes, mut numbers) = (ports.len(), Numbers(1));
        let mut load = Load {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            connections: Vec::new(),
            ports: ports.to_vec(),
            owners: vec![0; SLOTS],
            tags: tags(slots),
            free: vec![Vec::new(); nodes],
            queues: vec![VecDeque::new(); nodes],
            refused: VecDeque::new(),
            value: (0..size).map(|_| b'a' + numbers.below(26) as u8).collect(),
            samples: Vec::new(),
            counts: BTreeMap::new(),
        };
        for (node, port) in ports.iter().enumerate() {
            for _ in 0..connections {
                let stream = TcpStream::connect(format!("127.0.0.1:{port}"))?;
                stream.set_nodelay(true)?;
                stream.set_nonblocking(true)?;
                let at = load.connections.len();
                epoll::add(
                    &load.epoll,
                    &stream,
                    epoll::EventData::new_u64(at as u64),
                    epoll::EventFlags::IN,
                )?;
                let (input, output) = (Vec::new(), Vec::new());
                load.connections.push(Connection {
                    stream,
                    node,
                    input,
                    output,
                    flight: None,
                    skips: false,
                });
                load.free[node].push(at);
            }
        }
        Ok(load)
    }

    fn send(&mut self, request: Request, node: usize) -> Result<(), Failure> {
        let Some(at) = self.free[node].pop() else {
            self.queues[node].push_back(request);
            return Ok(());
        };
        let connection = &mut self.connections[at];
        let key = format!("{{{}}}:{}", self.tags[request.slot], request.key);
        connection.output.clear();
        if request.asking {
            connection.output.extend_from_slice(b"*1\r\n$6\r\nASKING\r\n");
        }
        match request.is_write {
            false => write!(connection.output, "*2\r\n$3\r\nGET\r\n${}\r\n{key}\r\n", key.len())?,
            true => {
                let length = self.value.len();
                write!(
                    connection.output,
                    "*3\r\n$3\r\nSET\r\n${}\r\n{key}\r\n${length}\r\n",
                    key.len()
                )?;
                connection.output.extend_from_slice(&self.value);
                connection.output.extend_from_slice(b"\r\n");
            }
        }
        connection.skips = request.asking;
        connection.flight = Some(request);
        // One small request fits an empty socket buffer.
        connection.stream.write_all(&connection.output)?;
        Ok(())
    }

    fn receive(&mut self, at: usize) -> Result<(), Failure> {
        let mut bytes = [0; 4096];
        let connection = &mut self.connections[at];
        match connection.stream.read(&mut bytes) {
            Ok(0) => return Err("a node has closed a connection".into()),
            Ok(read) => connection.input.extend_from_slice(&bytes[..read]),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(e) => return Err(e.into()),
        }
        while let Some(end) = end_of_reply(&self.connections[at].input) {
            let reply: Vec<u8> = self.connections[at].input.drain(..end).collect();
            if std::mem::take(&mut self.connections[at].skips) {
                continue;
            }
            let Some(request) = self.connections[at].flight.take() else {
                return Err("a reply without a request".into());
            };
            let node = self.connections[at].node;
            self.free[node].push(at);
            self.settle(request, &reply)?;
            if let Some(next) = self.queues[node].pop_front() {
                let owner = if next.asking { node } else { self.owners[next.slot] };
                self.send(next, owner)?;
            }
        }
        Ok(())
    }

    fn settle(&mut self, mut request: Request, reply: &[u8]) -> Result<(), Failure> {
        let time = now();
        if reply[0] != b'-' {
            self.samples.push([request.due, time, u64::from(request.is_write)]);
            return Ok(());
        }
        let text = String::from_utf8_lossy(&reply[1..]).trim_end().to_string();
        let kind = text.split(' ').next().unwrap_or_default().to_string();
        *self.counts.entry(kind.clone()).or_default() += 1;
        request.asking = kind == "ASK";
        match kind.as_str() {
            "MOVED" | "ASK" => {
                let port = text.rsplit(':').next().unwrap_or_default();
                let node = self.ports.iter().position(|own| own == port);
                let node = node.ok_or_else(|| format!("an unknown node: {text}"))?;
                if kind == "MOVED" {
                    self.owners[request.slot] = node;
                }
                self.send(request, node)
            }
            "CLUSTERDOWN" | "TRYAGAIN" => {
                self.refused.push_back((time + RETRY, request));
                Ok(())
            }
            _ => {
                self.samples.push([request.due, time, u64::from(request.is_write)]);
                Ok(())
            }
        }
    }

    fn run(&mut self, rate: f64, keys: u32, writes: u64) -> Result<(), Failure> {
        let (start, mut sent) = (now(), 0_u64);
        let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
        let stdin = io::stdin();
        let mut events = Vec::with_capacity(256);
        loop {
            let time = now();
            while start + (sent as f64 * 1e9 / rate) as u64 <= time {
                let due = start + (sent as f64 * 1e9 / rate) as u64;
                sent += 1;
                let slot = numbers.below(self.tags.len() as u64) as usize;
                let (key, is_write) =
                    (numbers.below(u64::from(keys)) as u32, numbers.below(100) < writes);
                self.send(Request { due, slot, key, is_write, asking: false }, self.owners[slot])?;
            }
            while self.refused.front().is_some_and(|(at, _)| *at <= time) {
                let Some((_, request)) = self.refused.pop_front() else { break };
                self.send(request, self.owners[request.slot])?;
            }
            if sent.is_multiple_of(64) {
                let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
                let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
                if poll(&mut fds, Some(&at_once))? > 0 {
                    return Ok(());
                }
            }
            let next = start + (sent as f64 * 1e9 / rate) as u64;
            let wait =
                Timespec { tv_sec: 0, tv_nsec: next.saturating_sub(now()).min(1_000_000) as i64 };
            events.clear();
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), Some(&wait))
            {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
            let ready: Vec<usize> =
                events.iter().map(|event: &epoll::Event| event.data.u64() as usize).collect();
            for at in ready {
                self.receive(at)?;
            }
        }
    }
}

fn main() -> Result<(), Failure> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [file, ports, rate, slots, keys, size, writes, connections] = &args[..] else {
        return Err("arguments: FILE PORT,PORT RATE SLOTS KEYS SIZE WRITES CONNECTIONS".into());
    };
    let ports: Vec<String> = ports.split(',').map(str::to_string).collect();
    let mut load = Load::open(&ports, slots.parse()?, connections.parse()?, size.parse()?)?;
    load.run(rate.parse()?, keys.parse()?, writes.parse()?)?;
    let mut out = BufWriter::new(std::fs::File::create(file)?);
    for sample in &load.samples {
        for number in sample {
            out.write_all(&number.to_ne_bytes())?;
        }
    }
    out.flush()?;
    let counts: Vec<String> =
        load.counts.iter().map(|(kind, count)| format!("\"{kind}\": {count}")).collect();
    println!("{{{}}}", counts.join(", "));
    Ok(())
}
