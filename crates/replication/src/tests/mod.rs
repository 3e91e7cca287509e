//! Scripts for one server: its input and its actions, line by line.

mod cluster;
mod primary;
mod replica;
mod roles;

use crate::Ms;
use crate::action::{Action, ConnId, LinkId};
use crate::id::ReplicationId;
use crate::node::{Node, Start};
use crate::settings::Settings;
use crate::stream::PING;
use crate::stream::Position;

pub(super) const PEER: &str = "10.0.0.9";

/// A server whose ids are 01..., 02... and so on.
pub(super) struct Bench {
    pub node: Node,
    pub now: Ms,
    out: Vec<Action>,
}

/// The n-th generated id.
pub(super) fn id(n: u8) -> ReplicationId {
    ReplicationId::from_random([n; 20])
}

impl Bench {
    pub fn new(settings: Settings, start: Start) -> Bench {
        let (mut out, mut last) = (Vec::new(), 0);
        let ids = Box::new(move || {
            last += 1;
            id(last)
        });
        let node = Node::new(0, settings, ids, start, &mut out);
        Bench { node, now: 0, out }
    }

    pub fn primary(settings: Settings) -> Bench {
        Bench::new(settings, Start { position: None, primary: None })
    }

    pub fn replica(settings: Settings, position: Option<Position>) -> Bench {
        Bench::new(settings, Start { position, primary: Some(("above".to_string(), 7000)) })
    }

    /// The actions since the last call, without the log.
    pub fn take_actions(&mut self) -> Vec<String> {
        self.out.drain(..).filter_map(describe).collect()
    }

    /// The log lines since the last call; drops the actions.
    pub fn log(&mut self) -> String {
        let text = |action| match action {
            Action::Log { text, .. } => Some(text),
            _ => None,
        };
        self.out.drain(..).filter_map(text).collect::<Vec<_>>().join("\n")
    }

    /// Advances the time, tick by tick.
    pub fn pass(&mut self, ms: Ms) {
        let until = self.now + ms;
        while self.now < until {
            self.now = until.min(self.now + 100);
            self.node.tick(self.now, &mut self.out);
        }
    }

    pub fn replconf(&mut self, conn: u64, args: &str) -> Vec<String> {
        let args: Vec<&[u8]> = args.split(' ').map(str::as_bytes).collect();
        self.node.replconf(self.now, ConnId(conn), PEER, &args, &mut self.out);
        self.take_actions()
    }

    pub fn sync(&mut self, conn: u64, args: &str) -> Vec<String> {
        let args: Vec<&[u8]> = args.split_whitespace().map(str::as_bytes).collect();
        self.node.sync(self.now, ConnId(conn), PEER, &args, &mut self.out);
        self.take_actions()
    }

    /// Writes this many PINGs of 14 bytes, after a SELECT.
    pub fn write(&mut self, count: usize) {
        for _ in 0..count {
            self.node.write(self.now, |units| units.unit(&[(0, PING)]), &mut self.out);
        }
    }

    /// Calls the machine.
    pub fn run<T>(&mut self, what: impl FnOnce(&mut Node, Ms, &mut Vec<Action>) -> T) -> T {
        what(&mut self.node, self.now, &mut self.out)
    }

    /// The primary sends these bytes, all of which are consumed.
    pub fn receive(&mut self, text: &str) -> Vec<String> {
        let link = self.link();
        let bytes = text.as_bytes();
        let taken = self.node.received(self.now, link, bytes, &|| false, &mut self.out);
        assert_eq!(taken, bytes.len());
        self.take_actions()
    }

    pub fn link(&self) -> LinkId {
        self.node.follower().expect("a replica").link()
    }

    /// Attaches a replica that is online and has an announced port.
    pub fn attach(&mut self, conn: u64) {
        self.replconf(conn, &format!("listening-port {conn} capa eof capa psync2 version 9.1.0"));
        let (id, next) = (self.node.stream().history().id, self.node.stream().offset() + 1);
        self.sync(conn, &format!("{id} {next}"));
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).replace("\r\n", " ").trim_end_matches(' ').to_string()
}

fn describe(action: Action) -> Option<String> {
    Some(match action {
        Action::Reply { conn, bytes } => format!("{}: {}", conn.0, text(&bytes)),
        Action::Snapshot { snapshot, target, form } => {
            let parts = if form.parts.data { "all" } else { "functions" };
            format!("snapshot {} {target:?} {} {parts}", snapshot.0, form.rdb_version)
        }
        Action::AbandonSnapshot { snapshot } => format!("abandon {}", snapshot.0),
        Action::SendBulk { conn, snapshot, head, mark } => {
            let marked = if mark.is_some() { " marked" } else { "" };
            format!("{}: snapshot {} after {}{marked}", conn.0, snapshot.0, text(&head))
        }
        Action::SendStream { conn, from } => format!("{}: stream from {from}", conn.0),
        Action::Close { conn, flush } => {
            format!("{}: close{}", conn.0, if flush { " later" } else { "" })
        }
        Action::Connect { link, host, port } => format!("connect {} to {host}:{port}", link.0),
        Action::Send { link, bytes } => format!("{}> {}", link.0, text(&bytes)),
        Action::Disconnect { link } => format!("disconnect {}", link.0),
        Action::BeginLoad { load, bytes, .. } => format!("load {load:?} {bytes:?}"),
        Action::Payload { bytes, .. } => format!("payload {}", text(&bytes)),
        Action::BeginStream { at, .. } => format!("stream from {} in {}", at.offset, at.db),
        Action::Stream { bytes, .. } => format!("stream {bytes:?}"),
        Action::Log { .. } => return None,
        other @ (Action::Acknowledged
        | Action::KeepWrites
        | Action::DropWrites
        | Action::PauseWrites
        | Action::ResumeWrites
        | Action::Demoted
        | Action::Promoted
        | Action::EndLoad { .. }
        | Action::Swap { .. }
        | Action::AbandonLoad { .. }
        | Action::Read { .. }) => {
            let name = format!("{other:?}");
            name.split(' ').next().unwrap_or_default().to_string()
        }
    })
}
