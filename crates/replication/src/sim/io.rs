//! A simulated I/O layer: delays, splits and reorders at random.

use super::net::{Connection, End, Life, Pipe};
use super::server::{Loading, Sender, Server, Snapshot};
use super::truth::Unit;
use super::world::World;
use crate::Ms;
use crate::action::{Action, ConnId, LinkId, Load, SnapshotId, Target};
use crate::apply::{Kind, Splitter};
use weft_resp::{Limits, Parser, Step};

/// Maximum bytes in a connection before its sender must wait.
const WINDOW: usize = 600;
/// Maximum delay of one step, in ms.
const STEP: Ms = 20;

/// A scheduled event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    Tick(Life),
    Write(usize),
    Connected(usize),
    NoConnection(Life, LinkId),
    Deliver(usize, End),
    LateEnd(Life, LinkId),
    Reread(Life, LinkId),
    Pump(usize),
    BulkSent(usize),
    Written(usize, u64),
    SnapshotBegan(Life, SnapshotId),
    SnapshotReady(Life, SnapshotId),
    Loaded(Life, LinkId),
    Apply(Life, LinkId),
    Paused(Life),
    Collect(Life),
    Rule,
    See(Life),
    Duty(Life),
    Commit(Life),
    Chaos,
    Calm,
    Quiet,
    Check,
}

impl World {
    /// Executes a machine's actions.
    pub fn act(&mut self, server: usize, actions: Vec<Action>, received: &[u8]) {
        for action in actions {
            self.say(|| format!("{server}: {action:?}"));
            self.act_once(server, action, received);
        }
        let end = self.servers[server].node.stream().offset();
        let behind =
            |sender: &Sender| sender.cursor.is_some_and(|cursor| cursor < end) && !sender.scheduled;
        let behind: Vec<ConnId> = self.servers[server]
            .senders
            .iter()
            .filter(|(_, sender)| behind(sender))
            .map(|(conn, _)| *conn)
            .collect();
        for conn in behind {
            self.pump_soon(conn);
        }
    }

    fn act_once(&mut self, server: usize, action: Action, received: &[u8]) {
        let life = self.life(server);
        match action {
            Action::Reply { conn, bytes } => self.put(self.conn(conn), End::Replica, &bytes),
            Action::Snapshot { snapshot, target, form: _ } => {
                self.servers[server].snapshots.push(Snapshot { id: snapshot, target, bytes: None });
                self.soon(150, Event::SnapshotBegan(life, snapshot));
            }
            Action::AbandonSnapshot { snapshot } => {
                self.servers[server].snapshots.retain(|known| known.id != snapshot);
            }
            Action::SendBulk { conn, snapshot, head, mark } => {
                self.send_bulk(server, conn, snapshot, head, mark)
            }
            Action::SendStream { conn, from } => {
                match self.servers[server].senders.get_mut(&conn) {
                    Some(sender) => sender.cursor = Some(from),
                    None => self.fault("a stream to an unknown connection".to_string()),
                }
                self.pump_soon(conn);
            }
            Action::Close { conn, flush } => {
                self.servers[server].senders.remove(&conn);
                let at = self.conn(conn);
                if !flush {
                    self.connections[at].cut(&mut self.rng);
                }
                self.connections[at].to_replica.ending = true;
                self.connections[at].to_primary.ended = true;
                self.schedule(at, End::Replica);
            }
            Action::PauseWrites => self.soon(400, Event::Paused(life)),
            Action::ResumeWrites => self.servers[server].paused = false,
            Action::Promoted => self.tally.promotions += 1,
            Action::Acknowledged | Action::KeepWrites | Action::DropWrites | Action::Demoted => {}
            Action::Connect { link, host: _, port } => {
                self.connect(life, link, usize::from(port) - 1)
            }
            Action::Send { link, bytes } => {
                self.check_ack(server, &bytes);
                if let Some(&at) = self.links.get(&(server, life.life, link)) {
                    self.put(at, End::Primary, &bytes);
                }
            }
            Action::Disconnect { link } => self.disconnect(life, link),
            Action::BeginLoad { link, load, bytes: _ } => {
                self.servers[server].loading = Some(Loading { link, load, bytes: Vec::new() });
                if load == Load::Direct {
                    self.servers[server].drop_data();
                }
            }
            Action::Payload { link, bytes } => match &mut self.servers[server].loading {
                Some(loading) if loading.link == link => loading.bytes.extend(bytes),
                Some(_) | None => self.fault("bytes of a copy that has not begun".to_string()),
            },
            Action::EndLoad { link } => {
                let one = &mut self.servers[server];
                if one.loading.as_ref().is_some_and(|loading| loading.load == Load::File) {
                    one.drop_data();
                    one.loading.as_mut().expect("it is there").load = Load::Direct;
                }
                let longest = if self.chance(20) { 4000 } else { 300 };
                self.soon(longest, Event::Loaded(life, link));
            }
            Action::Swap { .. } => {
                let one = &mut self.servers[server];
                match one.beside.take() {
                    Some(data) => {
                        one.drop_data();
                        one.data = data;
                    }
                    None => self.fault("nothing to swap in".to_string()),
                }
            }
            Action::AbandonLoad { .. } => {
                self.servers[server].loading = None;
                self.servers[server].beside = None;
            }
            Action::BeginStream { link, at } => {
                self.servers[server].splitter = Some((link, Splitter::new(at.db)));
            }
            Action::Stream { link, bytes } => {
                if let Some((of, splitter)) = &mut self.servers[server].splitter
                    && *of == link
                {
                    splitter.push(&received[bytes]);
                    self.soon(STEP, Event::Apply(life, link));
                } else {
                    self.fault("a stream that has not begun".to_string());
                }
            }
            Action::Read { link } => self.later(0, Event::Reread(life, link)),
            Action::Log { text, .. } => {
                self.tally.dropped_for_limits += u64::from(text.contains("output buffer limits"));
                self.tally.timeouts += u64::from(text.contains("imeout"));
            }
        }
    }

    // ---- connections

    fn connect(&mut self, replica: Life, link: LinkId, target: usize) {
        if target == replica.server || self.fault_chance(15) {
            return self.soon(STEP, Event::NoConnection(replica, link));
        }
        let at = self.connections.len();
        let primary = self.life(target);
        self.connections.push(Connection {
            replica,
            link,
            primary,
            conn: ConnId(at as u64),
            to_primary: Pipe::default(),
            to_replica: Pipe::default(),
            dead: false,
        });
        self.links.insert((replica.server, replica.life, link), at);
        self.servers[target].senders.insert(ConnId(at as u64), Sender::default());
        self.soon(STEP, Event::Connected(at));
    }

    fn disconnect(&mut self, life: Life, link: LinkId) {
        let one = &mut self.servers[life.server];
        one.held.clear();
        one.splitter = None;
        if let Some(&at) = self.links.get(&(life.server, life.life, link)) {
            self.connections[at].cut(&mut self.rng);
            self.connections[at].to_replica.ended = true;
            self.schedule(at, End::Primary);
        }
        if self.chance(30) {
            self.soon(3000, Event::LateEnd(life, link));
        }
    }

    /// Sends bytes to `end`.
    fn put(&mut self, at: usize, end: End, bytes: &[u8]) {
        let pipe = self.connections[at].pipe_to(end);
        if !pipe.ending && !pipe.ended {
            pipe.bytes.extend(bytes);
            self.schedule(at, end);
        }
    }

    pub fn schedule(&mut self, at: usize, end: End) {
        let dead = self.connections[at].dead;
        let pipe = self.connections[at].pipe_to(end);
        if !pipe.scheduled && !dead && !pipe.ended && (pipe.ending || !pipe.bytes.is_empty()) {
            pipe.scheduled = true;
            self.soon(STEP, Event::Deliver(at, end));
        }
    }

    /// Delivers some of the bytes in the pipe, and the end of the connection after the last one.
    pub fn deliver(&mut self, at: usize, end: End) {
        let length = self.connections[at].pipe_to(end).bytes.len() as u64;
        let some = if self.chance(50) { length } else { self.rng.below(length + 1) };
        let connection = &mut self.connections[at];
        let (life, dead, link, conn) =
            (connection.life(end), connection.dead, connection.link, connection.conn);
        let pipe = connection.pipe_to(end);
        pipe.scheduled = false;
        if pipe.ended || dead {
            return;
        }
        let bytes: Vec<u8> = pipe.bytes.drain(..some as usize).collect();
        let ended = pipe.bytes.is_empty() && pipe.ending;
        pipe.ended = ended;
        if self.is_alive(life) {
            let server = life.server;
            match end {
                End::Replica => self.arrives(life, link, &bytes),
                End::Primary => self.is_asked(server, conn, &bytes),
            }
            if ended && end == End::Replica {
                self.call(server, |node, now, out| node.link_closed(now, link, "cut", out));
            } else if ended {
                self.servers[server].senders.remove(&conn);
                self.call(server, |node, now, out| node.closed(now, conn, out));
            }
        }
        self.schedule(at, end);
    }

    // ---- a replica

    /// Bytes arrive from the primary.
    pub fn arrives(&mut self, life: Life, link: LinkId, bytes: &[u8]) {
        let one = &mut self.servers[life.server];
        one.held.extend(bytes);
        let all = std::mem::take(&mut one.held);
        let is_empty = one.data == super::truth::EMPTY;
        let taken = self.call_with(life.server, &all, |node, now, out| {
            node.received(now, link, &all, &|| is_empty, out)
        });
        self.servers[life.server].held = all[taken..].to_vec();
    }

    /// A loader has succeeded or failed. It reports this even if the load was abandoned.
    pub fn loaded(&mut self, life: Life, link: LinkId) {
        let fails = self.fault_chance(15);
        let one = &mut self.servers[life.server];
        let ours = one.loading.as_ref().is_some_and(|loading| loading.link == link);
        let image = one.loading.as_ref().and_then(|loading| Server::read_image(&loading.bytes));
        let db = match image {
            Some((data, db)) if ours && !fails => {
                let loading = one.loading.take().expect("it is ours");
                match loading.load {
                    Load::Staged { .. } => one.beside = Some(data),
                    Load::Direct | Load::File => one.data = data,
                }
                db
            }
            None if ours && !fails => return self.fault("an invalid copy".to_string()),
            Some(_) | None if ours => {
                self.tally.loads_failed += 1;
                return self.call(life.server, |node, now, out| {
                    node.load_failed(now, link, "by chance", out)
                });
            }
            Some(_) | None => 0,
        };
        _ = self.call(life.server, |node, now, out| node.loaded(now, link, db, out));
    }

    /// Applies a few units.
    pub fn apply(&mut self, life: Life, link: LinkId) {
        for _ in 0..=self.rng.below(3) {
            let one = &mut self.servers[life.server];
            if !one.node.may_apply(link) {
                return self.call(life.server, |node, now, out| node.refuse_stream(now, link, out));
            }
            let one = &mut self.servers[life.server];
            let Some((of, splitter)) = &mut one.splitter else { return };
            if *of != link {
                return;
            }
            let unit = match splitter.next_unit() {
                Ok(Some(unit)) => unit,
                Ok(None) => {
                    let now = self.now + one.skew;
                    return one.node.mark_reading(now, link);
                }
                Err(broken) => return self.fault(format!("invalid stream: {broken}")),
            };
            let (kind, bytes, db) = (unit.kind(), unit.bytes().to_vec(), unit.db());
            let number =
                |arg: &[u8]| std::str::from_utf8(arg).ok().and_then(|text| text.parse().ok());
            let commands: Option<Unit> =
                unit.commands().map(|(db, mut args)| Some((db, number(args.nth(1)?)?))).collect();
            if kind == Kind::Write {
                let applied = commands.ok_or("an invalid unit".to_string());
                match applied.and_then(|unit| self.truth.apply(one.data, &unit)) {
                    Ok(data) => one.data = data,
                    Err(wrong) => return self.fault(format!("server {}: {wrong}", life.server)),
                }
            }
            if self.shard.is_some() {
                self.check_epoch(life, link);
            }
            self.call(life.server, |node, now, out| {
                node.applied(now, link, &bytes, db, out);
                if kind == Kind::GetAck {
                    node.get_ack(now, link, out);
                }
            });
        }
        self.soon(STEP, Event::Apply(life, link));
    }

    /// A replica must not acknowledge more than it has.
    fn check_ack(&mut self, server: usize, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        let mut words = text.split("\r\n").skip_while(|word| *word != "ACK").skip(2);
        if let Some(offset) = words.next().and_then(|word| word.parse::<u64>().ok()) {
            let has = self.servers[server].node.stream().offset();
            if offset > has {
                self.fault(format!("server {server} confirms {offset} and has {has}"));
            }
        }
    }

    // ---- a primary

    /// Bytes arrive from a possible replica.
    fn is_asked(&mut self, server: usize, conn: ConnId, bytes: &[u8]) {
        let Some(sender) = self.servers[server].senders.get_mut(&conn) else { return };
        sender.asked.extend(bytes);
        let asked = std::mem::take(&mut sender.asked);
        let mut parser = Parser::default();
        let mut end = 0;
        loop {
            let mut spans = Vec::new();
            let args: Vec<Vec<u8>> = match parser.next(&asked, &mut spans, &Limits::default()) {
                Step::Complete => spans.iter().map(|span| span.of(&asked).to_vec()).collect(),
                Step::Inline(args) => args,
                Step::More => break,
                other => return self.fault(format!("a replica says {other:?}")),
            };
            end = parser.pos;
            let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
            self.request(server, conn, &args);
        }
        if let Some(sender) = self.servers[server].senders.get_mut(&conn) {
            sender.asked = asked[end..].to_vec();
        }
    }

    fn request(&mut self, server: usize, conn: ConnId, args: &[&[u8]]) {
        let whole = self.servers[server].is_whole();
        let answer =
            |text: &str| vec![Action::Reply { conn, bytes: format!("{text}\r\n").into_bytes() }];
        match args {
            [] => self.call(server, |node, now, out| node.newline(now, conn, out)),
            [b"REPLCONF", args @ ..] if whole || args[0] == b"ACK" => {
                self.call(server, |node, now, out| node.replconf(now, conn, "h", args, out));
            }
            _ if !whole => self.act(server, answer("-LOADING data set"), &[]),
            [b"PING"] => self.act(server, answer("+PONG"), &[]),
            [b"AUTH", ..] => self.act(server, answer("+OK"), &[]),
            [b"PSYNC", args @ ..] => self.psync(server, conn, args),
            [b"SYNC"] => self.call(server, |node, now, out| node.sync(now, conn, "h", &[], out)),
            _ => self.fault("an unknown request".to_string()),
        }
    }

    /// Handles PSYNC, and checks the decision.
    fn psync(&mut self, server: usize, conn: ConnId, args: &[&[u8]]) {
        let takes_over = args.len() > 2;
        let mut out = Vec::new();
        let now = self.now + self.servers[server].skew;
        let one = &mut self.servers[server];
        let refused = one.node.failover().name() != "no-failover"
            || one.node.follower().is_some_and(|follower| !follower.is_online());
        let history = *one.node.stream().history();
        one.node.sync(now, conn, "h", args, &mut out);
        let says = |begin: &[u8]| {
            out.iter().any(
                |action| matches!(action, Action::Reply { bytes, .. } if bytes.starts_with(begin)),
            )
        };
        let (continues, errs) = (says(b"+CONTINUE"), says(b"-"));
        let id = crate::ReplicationId::parse(args[0]);
        let offset: i64 = std::str::from_utf8(args[1]).expect("text").parse().expect("a number");
        if let Some(id) = id {
            let offset = offset as u64 - 1;
            let theirs = self.truth.at(id, offset);
            let ours = one.trace.range(..=offset).next_back().map(|(_, data)| *data);
            let kept = one
                .node
                .stream()
                .kept()
                .is_some_and(|kept| kept.start <= offset && offset <= kept.end);
            // The data may be equal beyond the divergence of two histories, but no server can know
            // that.
            let is_second =
                history.second.is_some_and(|second| second.id == id && offset < second.valid_to);
            let known = id == history.id || is_second;
            let same = theirs.is_some() && theirs == ours;
            if continues && !(same && kept) {
                self.wrong.get_or_insert(format!(
                    "server {server} continues {id:?} at {offset}: data {ours:?} for {theirs:?}"
                ));
            } else if !continues && same && kept && known && !errs && !refused && !takes_over {
                self.wrong.get_or_insert(format!(
                    "server {server} could continue {id:?} at {offset}: {history:?}"
                ));
            }
        }
        self.tally.partial += u64::from(continues);
        self.tally.full += u64::from(!continues && !errs);
        self.tally.failovers += u64::from(takes_over && continues);
        self.act(server, out, &[]);
        self.check_invariants(server);
    }

    pub fn snapshot_began(&mut self, life: Life, snapshot: SnapshotId) {
        let server = life.server;
        self.collect(server);
        let fails = self.fault_chance(10) || !self.servers[server].is_whole();
        let padding = self.rng.below(1500) as usize;
        let Some(at) = self.servers[server].snapshots.iter().position(|known| known.id == snapshot)
        else {
            return self.call(server, |node, now, out| node.snapshot_began(now, snapshot, out));
        };
        if fails {
            self.servers[server].snapshots.remove(at);
            return self.call(server, |node, now, out| {
                node.snapshot_failed(now, snapshot, "by chance", out)
            });
        }
        let (mut out, now) = (Vec::new(), self.now + self.servers[server].skew);
        let one = &mut self.servers[server];
        one.node.snapshot_began(now, snapshot, &mut out);
        one.snapshots[at].bytes = Some(one.image(padding));
        let target = one.snapshots[at].target;
        self.act(server, out, &[]);
        self.check_invariants(server);
        if target == Target::Disk {
            self.soon(300, Event::SnapshotReady(life, snapshot));
        }
    }

    pub fn snapshot_ready(&mut self, life: Life, snapshot: SnapshotId) {
        let fails = self.fault_chance(10);
        let known = self.servers[life.server].snapshots.iter().find(|known| known.id == snapshot);
        let length = known.and_then(|known| known.bytes.as_ref()).map_or(0, Vec::len) as u64;
        self.call(life.server, |node, now, out| match fails {
            true => node.snapshot_failed(now, snapshot, "by chance", out),
            false => node.snapshot_ready(now, snapshot, length, out),
        });
    }

    fn send_bulk(
        &mut self,
        server: usize,
        conn: ConnId,
        snapshot: SnapshotId,
        head: Vec<u8>,
        mark: Option<[u8; 40]>,
    ) {
        let one = &mut self.servers[server];
        let image = one
            .snapshots
            .iter()
            .find(|known| known.id == snapshot)
            .and_then(|known| known.bytes.clone());
        match (image, one.senders.get_mut(&conn)) {
            (Some(image), Some(sender)) => {
                let mut bytes = [head, image].concat();
                bytes.extend(mark.iter().flatten());
                (sender.bulk, sender.progress) = (Some((bytes, 0)), self.now);
            }
            _ => self.fault("a snapshot that is not there".to_string()),
        }
        self.pump_soon(conn);
    }

    fn pump_soon(&mut self, conn: ConnId) {
        let at = self.conn(conn);
        let server = self.connections[at].primary.server;
        if let Some(sender) = self.servers[server].senders.get_mut(&conn)
            && !std::mem::replace(&mut sender.scheduled, true)
        {
            self.soon(STEP, Event::Pump(at));
        }
    }

    /// Sends some of a replica's pending bytes.
    pub fn pump(&mut self, at: usize) {
        let (life, conn) = (self.connections[at].primary, self.connections[at].conn);
        if !self.is_alive(life) {
            return;
        }
        let full = self.connections[at].to_replica.bytes.len() > WINDOW;
        let some = 1 + self.rng.below(300) as usize;
        let one = &mut self.servers[life.server];
        let end = one.node.stream().offset();
        let Some(sender) = one.senders.get_mut(&conn) else { return };
        sender.scheduled = false;
        if full {
            let is_stuck = sender.bulk.is_some() && self.now - sender.progress > 3000;
            self.pump_soon(conn);
            if is_stuck {
                self.call(life.server, |node, now, out| node.bulk_stuck(now, conn, out));
            }
            return;
        }
        if let Some((bytes, sent)) = &mut sender.bulk {
            sender.progress = self.now;
            let part = bytes[*sent..bytes.len().min(*sent + some)].to_vec();
            *sent += part.len();
            let all = *sent == bytes.len();
            if all {
                sender.bulk = None;
            }
            self.put(at, End::Replica, &part);
            match all {
                true => self.soon(50, Event::BulkSent(at)),
                false => self.pump_soon(conn),
            }
        } else if let Some(cursor) = sender.cursor {
            let Some(pieces) =
                one.node.stream().backlog().and_then(|backlog| backlog.read_at(cursor, some))
            else {
                return self.fault(format!(
                    "server {} has dropped bytes that a replica needs",
                    life.server
                ));
            };
            let bytes: Vec<u8> = pieces.iter().flat_map(|piece| piece.as_ref().to_vec()).collect();
            let to = cursor + bytes.len() as u64;
            sender.cursor = Some(to);
            self.put(at, End::Replica, &bytes);
            self.soon(50, Event::Written(at, to));
            if to < end {
                self.pump_soon(conn);
            }
        }
    }
}
