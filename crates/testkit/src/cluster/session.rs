//! A client of a cluster that follows redirects, and that never claims to know more about a request than it does.
//!
//! It connects to nodes directly, also where the cluster announces ports of proxies.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::slot::slot_of;
use crate::client::{Client, describe};
use crate::value::Value;

const REDIRECTS: usize = 16;
/// How long [`Session::until_done`] tries.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a reply may take before the request counts as without an answer.
const REPLY: Duration = Duration::from_secs(3);
/// Errors before which nothing was executed.
const REFUSALS: [&str; 9] = [
    "CLUSTERDOWN",
    "TRYAGAIN",
    "LOADING",
    "MASTERDOWN",
    "READONLY",
    "NOREPLICAS",
    "BUSY",
    "NOAUTH",
    "OOM",
];

/// The knowledge about a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It was executed and has this reply.
    Done(Value),
    /// It was not executed, and never will be.
    Refused(String),
    /// It may have been executed, or be executed later.
    Unknown(String),
}

impl Answer {
    pub fn done(self) -> Option<Value> {
        match self {
            Answer::Done(value) => Some(value),
            _ => None,
        }
    }
}

/// See the module's documentation.
pub struct Session {
    /// The announced and the real port of each node.
    ports: Vec<(u16, u16)>,
    connections: HashMap<usize, Client>,
    owners: HashMap<u16, usize>,
    /// Where to ask next for a slot whose owner isn't known.
    next: usize,
}

enum Step {
    End(Answer),
    Go { to: usize, asking: bool },
}

impl Session {
    pub fn new(ports: Vec<(u16, u16)>) -> Session {
        Session { ports, connections: HashMap::new(), owners: HashMap::new(), next: 0 }
    }

    /// Sends a command on this key to the node that serves it.
    pub fn cmd<A: AsRef<[u8]>>(&mut self, key: &str, args: &[A]) -> Answer {
        let slot = slot_of(key.as_bytes());
        let mut node = self.owners.get(&slot).copied().unwrap_or_else(|| {
            self.next = (self.next + 1) % self.ports.len();
            self.next
        });
        let mut asking = false;
        for _ in 0..REDIRECTS {
            match self.step(slot, node, asking, args) {
                Step::End(answer) => return answer,
                Step::Go { to, asking: ask } => (node, asking) = (to, ask),
            }
        }
        Answer::Refused("too many redirects".into())
    }

    fn step<A: AsRef<[u8]>>(&mut self, slot: u16, node: usize, asking: bool, args: &[A]) -> Step {
        let answer = self.send(node, asking, args);
        let Answer::Done(Value::Error(error)) = &answer else {
            match &answer {
                Answer::Done(_) if !asking => _ = self.owners.insert(slot, node),
                Answer::Done(_) => {}
                _ => _ = self.owners.remove(&slot),
            }
            return Step::End(answer);
        };
        let error = String::from_utf8_lossy(error).into_owned();
        let words: Vec<&str> = error.split(' ').collect();
        if let [kind @ ("MOVED" | "ASK"), _, address, ..] = words[..] {
            let port = address.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
            let to = port.and_then(|port: u16| self.ports.iter().position(|p| p.0 == port));
            let Some(to) = to else {
                self.owners.remove(&slot);
                return Step::End(Answer::Refused(format!("an unknown node: {error}")));
            };
            if kind == "MOVED" {
                self.owners.insert(slot, to);
            }
            return Step::Go { to, asking: kind == "ASK" };
        }
        if REFUSALS.iter().any(|refusal| error.starts_with(refusal)) {
            self.owners.remove(&slot);
            return Step::End(Answer::Refused(error));
        }
        Step::End(answer)
    }

    /// Sends a command to this node, whatever it owns.
    pub fn send<A: AsRef<[u8]>>(&mut self, node: usize, asking: bool, args: &[A]) -> Answer {
        if !self.connections.contains_key(&node) {
            match Client::try_tcp(self.ports[node].1) {
                Ok(mut client) => {
                    client.set_timeout(REPLY);
                    self.connections.insert(node, client);
                }
                Err(error) => return Answer::Refused(error.to_string()),
            }
        }
        let client = self.connections.get_mut(&node).expect("connected");
        let asked = match asking {
            true => client.try_cmd(&["ASKING"]).map(|_| ()),
            false => Ok(()),
        };
        match asked.and_then(|()| client.try_cmd(args)) {
            Ok(reply) => Answer::Done(reply.value),
            Err(error) => {
                self.connections.remove(&node);
                Answer::Unknown(error.to_string())
            }
        }
    }

    /// Repeats a command until it is answered, also if it may be executed several times.
    ///
    /// # Panics
    /// If no node answers it.
    #[track_caller]
    pub fn until_done<A: AsRef<[u8]>>(&mut self, key: &str, args: &[A]) -> Value {
        let begin = Instant::now();
        loop {
            match self.cmd(key, args) {
                Answer::Done(value) => return value,
                other if begin.elapsed() > PATIENCE => panic!("{}: {other:?}", describe(args)),
                _ => std::thread::sleep(Duration::from_millis(10)),
            }
        }
    }
}
