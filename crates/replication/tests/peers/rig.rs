//! Minimal I/O around the machines for real servers: one thread that serves every socket in turn.
//! Its data are the applied units, and its snapshots are empty.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use weft_replication::action::{Action, ConnId, LinkId, SnapshotId, Target};
use weft_replication::apply::{Kind, Splitter};
use weft_replication::{Node, ReplicationId, Settings, Start};
use weft_resp::{Limits, Parser, Step};

/// Timeout of every wait. Only a hang takes this long.
const PATIENCE: Duration = Duration::from_secs(60);

/// A file without keys: magic, end, and no checksum.
const NO_KEYS: &[u8] = b"REDIS0009\xff\0\0\0\0\0\0\0\0";

/// Commands with their databases.
pub type Unit = Vec<(u32, Vec<String>)>;

struct Replica {
    socket: TcpStream,
    asked: Vec<u8>,
    cursor: Option<u64>,
    /// Bytes to write before the stream.
    queue: Vec<u8>,
    bulk: bool,
    ends: bool,
}

pub struct Rig {
    pub node: Node,
    pub units: Vec<Unit>,
    /// All log lines.
    pub log: Vec<String>,
    listener: TcpListener,
    replicas: BTreeMap<ConnId, Replica>,
    last_conn: u64,
    link: Option<(LinkId, TcpStream)>,
    held: Vec<u8>,
    splitter: Splitter,
    started: Instant,
    ticked: u64,
    /// Events to pass to the machine next.
    tell: Vec<Tell>,
}

enum Tell {
    Connected(LinkId),
    Refused(LinkId),
    Loaded(LinkId),
    Read(LinkId),
    Began(SnapshotId, Target),
    Paused,
}

impl Rig {
    /// A server; with a port, a replica of the server on that port.
    pub fn new(settings: Settings, primary: Option<u16>) -> Rig {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        listener.set_nonblocking(true).expect("a socket");
        let port = listener.local_addr().expect("an address").port();
        let settings = Settings { port, ..settings };
        let mut rng = weft_base::rng::Rng::from_os();
        let ids = Box::new(move || {
            ReplicationId::from_random(std::array::from_fn(|_| rng.next_u64() as u8))
        });
        let start =
            Start { position: None, primary: primary.map(|port| ("127.0.0.1".into(), port)) };
        let node = Node::new(0, settings, ids, start, &mut Vec::new());
        Rig {
            node,
            units: Vec::new(),
            log: Vec::new(),
            listener,
            replicas: BTreeMap::new(),
            last_conn: 0,
            link: None,
            held: Vec::new(),
            splitter: Splitter::new(0),
            started: Instant::now(),
            ticked: 0,
            tell: Vec::new(),
        }
    }

    pub fn port(&self) -> u16 {
        self.node.settings().port
    }

    fn now(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }

    /// Runs until a condition holds.
    #[track_caller]
    pub fn until(&mut self, what: &str, mut holds: impl FnMut(&mut Rig) -> bool) {
        let begun = Instant::now();
        while !holds(self) {
            assert!(begun.elapsed() < PATIENCE, "{what} does not happen\n{}", self.log.join("\n"));
            self.step();
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Writes a unit as a primary.
    pub fn write(&mut self, unit: &[(usize, &[&str])]) {
        let texts: Vec<(usize, Vec<u8>)> = unit
            .iter()
            .map(|(db, words)| {
                let (words, mut out): (Vec<&[u8]>, _) =
                    (words.iter().map(|word| word.as_bytes()).collect(), Vec::new());
                weft_resp::append_request(&words, &mut out);
                (*db, out)
            })
            .collect();
        let commands: Vec<(usize, &[u8])> =
            texts.iter().map(|(db, text)| (*db, &text[..])).collect();
        self.call(|node, now, out| node.write(now, |units| units.unit(&commands), out));
    }

    /// Closes all connections.
    pub fn cut(&mut self) {
        if let Some((link, _)) = self.link.take() {
            self.call(|node, now, out| node.link_closed(now, link, "cut", out));
        }
        let all: Vec<ConnId> = std::mem::take(&mut self.replicas).into_keys().collect();
        for conn in all {
            self.call(|node, now, out| node.closed(now, conn, out));
        }
    }

    pub fn call<T>(&mut self, what: impl FnOnce(&mut Node, u64, &mut Vec<Action>) -> T) -> T {
        let (mut out, now) = (Vec::new(), self.now());
        let result = what(&mut self.node, now, &mut out);
        self.act(out, &[]);
        result
    }

    fn act(&mut self, actions: Vec<Action>, received: &[u8]) {
        for action in actions {
            match action {
                Action::Reply { conn, bytes } => self.queue(conn, &bytes),
                Action::Snapshot { snapshot, target, .. } => {
                    self.tell.push(Tell::Began(snapshot, target))
                }
                Action::SendBulk { conn, head, mark, .. } => {
                    self.queue(conn, &head);
                    self.queue(conn, NO_KEYS);
                    self.queue(conn, mark.as_ref().map_or(&[], |mark| &mark[..]));
                    self.replicas.entry(conn).and_modify(|replica| replica.bulk = true);
                }
                Action::SendStream { conn, from } => {
                    self.replicas.entry(conn).and_modify(|replica| replica.cursor = Some(from));
                }
                Action::Close { conn, .. } => {
                    self.replicas.entry(conn).and_modify(|replica| replica.ends = true);
                }
                Action::Connect { link, host, port } => {
                    match TcpStream::connect((host.as_str(), port)) {
                        Ok(socket) => {
                            socket.set_nonblocking(true).expect("a socket");
                            self.link = Some((link, socket));
                            self.tell.push(Tell::Connected(link));
                        }
                        Err(_) => self.tell.push(Tell::Refused(link)),
                    }
                }
                Action::Send { link, bytes } => {
                    if let Some((of, socket)) = &mut self.link
                        && *of == link
                    {
                        socket.write_all(&bytes).ok();
                    }
                }
                Action::Disconnect { link } => {
                    self.link.take_if(|(of, _)| *of == link);
                    self.held.clear();
                }
                Action::EndLoad { link } => self.tell.push(Tell::Loaded(link)),
                Action::BeginStream { at, .. } => self.splitter = Splitter::new(at.db),
                Action::Stream { link, bytes } => {
                    self.splitter.push(&received[bytes]);
                    self.apply(link);
                }
                Action::Read { link } => self.tell.push(Tell::Read(link)),
                Action::PauseWrites => self.tell.push(Tell::Paused),
                Action::Log { text, .. } => self.log.push(text),
                Action::AbandonSnapshot { .. }
                | Action::BeginLoad { .. }
                | Action::Payload { .. }
                | Action::Swap { .. }
                | Action::AbandonLoad { .. }
                | Action::Acknowledged
                | Action::KeepWrites
                | Action::DropWrites
                | Action::ResumeWrites
                | Action::Demoted
                | Action::Promoted => {}
            }
        }
    }

    fn queue(&mut self, conn: ConnId, bytes: &[u8]) {
        self.replicas.entry(conn).and_modify(|replica| replica.queue.extend(bytes));
    }

    fn apply(&mut self, link: LinkId) {
        while let Some(unit) = self.splitter.next_unit().expect("a stream") {
            let (kind, bytes, db) = (unit.kind(), unit.bytes().to_vec(), unit.db());
            let text = |arg: &[u8]| String::from_utf8_lossy(arg).into_owned();
            let commands: Unit =
                unit.commands().map(|(db, args)| (db, args.map(text).collect())).collect();
            if kind == Kind::Write {
                self.units.push(commands);
            }
            let (mut out, now) = (Vec::new(), self.started.elapsed().as_millis() as u64);
            self.node.applied(now, link, &bytes, db, &mut out);
            if kind == Kind::GetAck {
                self.node.get_ack(now, link, &mut out);
            }
            self.act(out, &[]);
        }
        self.node.mark_reading(self.now(), link);
    }

    fn step(&mut self) {
        if self.now() >= self.ticked + 50 {
            self.ticked = self.now();
            self.call(|node, now, out| node.tick(now, out));
        }
        for tell in std::mem::take(&mut self.tell) {
            match tell {
                Tell::Connected(link) => self.call(|node, now, out| node.connected(now, link, out)),
                Tell::Refused(link) => {
                    self.call(|node, now, out| node.link_closed(now, link, "refused", out));
                }
                Tell::Loaded(link) => {
                    _ = self.call(|node, now, out| node.loaded(now, link, 0, out));
                }
                Tell::Paused => self.call(|node, now, out| node.writes_paused(now, out)),
                Tell::Read(link) => self.received(link, &[]),
                Tell::Began(snapshot, target) => {
                    self.call(|node, now, out| node.snapshot_began(now, snapshot, out));
                    if target == Target::Disk {
                        let length = NO_KEYS.len() as u64;
                        self.call(|node, now, out| node.snapshot_ready(now, snapshot, length, out));
                    }
                }
            }
        }
        self.read_link();
        if let Ok((socket, _)) = self.listener.accept() {
            socket.set_nonblocking(true).expect("a socket");
            self.last_conn += 1;
            let (asked, queue) = (Vec::new(), Vec::new());
            let replica = Replica { socket, asked, cursor: None, queue, bulk: false, ends: false };
            self.replicas.insert(ConnId(self.last_conn), replica);
        }
        let all: Vec<ConnId> = self.replicas.keys().copied().collect();
        for conn in all {
            self.serve(conn);
        }
    }

    fn read_link(&mut self) {
        let Some((link, socket)) = &mut self.link else { return };
        let link = *link;
        let mut bytes = [0; 4096];
        match socket.read(&mut bytes) {
            Ok(0) => self.link_ended(link),
            Ok(n) => self.received(link, &bytes[..n]),
            Err(e) if e.kind() == ErrorKind::WouldBlock => {}
            Err(_) => self.link_ended(link),
        }
    }

    fn link_ended(&mut self, link: LinkId) {
        self.link = None;
        self.call(|node, now, out| node.link_closed(now, link, "closed", out));
    }

    fn received(&mut self, link: LinkId, bytes: &[u8]) {
        self.held.extend(bytes);
        let all = std::mem::take(&mut self.held);
        let (mut out, now) = (Vec::new(), self.now());
        let taken = self.node.received(now, link, &all, &|| true, &mut out);
        self.act(out, &all);
        self.held = all[taken..].to_vec();
    }

    fn serve(&mut self, conn: ConnId) {
        let Some(replica) = self.replicas.get_mut(&conn) else { return };
        let mut bytes = [0; 4096];
        let ended = match replica.socket.read(&mut bytes) {
            Ok(n) => {
                replica.asked.extend(&bytes[..n]);
                n == 0
            }
            Err(e) => e.kind() != ErrorKind::WouldBlock,
        };
        for request in requests(&mut replica.asked) {
            self.request(conn, &request);
        }
        let Some(replica) = self.replicas.get_mut(&conn) else { return };
        let queue = std::mem::take(&mut replica.queue);
        replica.socket.write_all(&queue).ok();
        let sent = std::mem::take(&mut replica.bulk);
        if let Some(cursor) = replica.cursor {
            let backlog = self.node.stream().backlog().expect("it is kept for a replica");
            let pieces = backlog.read_at(cursor, 1 << 20).expect("a replica's bytes are kept");
            for piece in pieces {
                replica.socket.write_all(piece.as_ref()).ok();
                replica.cursor = replica.cursor.map(|cursor| cursor + piece.as_ref().len() as u64);
            }
            let to = replica.cursor.unwrap_or(cursor);
            if to != cursor {
                self.call(|node, now, out| node.written(now, conn, to, out));
            }
        }
        if sent {
            self.call(|node, now, out| node.bulk_sent(now, conn, out));
        }
        if ended || self.replicas.get(&conn).is_some_and(|replica| replica.ends) {
            self.replicas.remove(&conn);
            self.call(|node, now, out| node.closed(now, conn, out));
        }
    }

    fn request(&mut self, conn: ConnId, args: &[Vec<u8>]) {
        let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        let Some((name, rest)) = args.split_first() else {
            return self.call(|node, now, out| node.newline(now, conn, out));
        };
        match name.to_ascii_uppercase().as_slice() {
            b"PING" => self.queue(conn, b"+PONG\r\n"),
            b"REPLCONF" => {
                self.call(|node, now, out| node.replconf(now, conn, "127.0.0.1", rest, out))
            }
            b"PSYNC" => self.call(|node, now, out| node.sync(now, conn, "127.0.0.1", rest, out)),
            b"SYNC" => self.call(|node, now, out| node.sync(now, conn, "127.0.0.1", &[], out)),
            _ => self.queue(conn, b"-ERR unknown command\r\n"),
        }
    }
}

/// Removes the complete requests.
fn requests(asked: &mut Vec<u8>) -> Vec<Vec<Vec<u8>>> {
    let (mut parser, mut found, mut end) = (Parser::default(), Vec::new(), 0);
    loop {
        let mut spans = Vec::new();
        match parser.next(asked, &mut spans, &Limits::default()) {
            Step::Complete => {
                found.push(spans.iter().map(|span| span.of(asked).to_vec()).collect())
            }
            Step::Inline(args) => found.push(args),
            _ => break,
        }
        end = parser.pos;
    }
    asked.drain(..end);
    found
}
