//! Clients that wait for a CLUSTER command: its requests to the machine, one after the other.

use crate::Driver;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use weft_cluster::node::{Action, NodeRequest, RequestId};
use weft_executor::blocking;
use weft_process::log_warning;
use weft_state::waiting::Waiting;

/// The commands that have no reply yet.
#[derive(Default)]
pub struct Requests {
    running: BTreeMap<RequestId, Command>,
}

struct Command {
    /// `None`: the client has its reply already.
    waiting: Option<Arc<Waiting>>,
    /// Requests to make after the present one.
    rest: VecDeque<NodeRequest>,
}

impl Driver {
    /// Makes the requests, one after the other, for a client that is blocked meanwhile. It gets OK when the last one is done and
    /// the topology in force shows it, or the error of the one that fails.
    pub fn request(&self, requests: Vec<NodeRequest>, waiting: Arc<Waiting>) {
        self.go_on(Command { waiting: Some(waiting), rest: requests.into() });
    }

    /// Makes the requests of a transaction, whose client can't wait.
    pub fn request_without_reply(&self, requests: Vec<NodeRequest>) {
        if !requests.is_empty() {
            self.go_on(Command { waiting: None, rest: requests.into() });
        }
    }

    fn go_on(&self, mut command: Command) {
        let request = command.rest.pop_front();
        let id = self.pass(|event| event.next_request());
        self.requests().running.insert(id, command);
        self.pass(|event| match request {
            Some(request) => event.node.request(event.now, id, request, event.out),
            None => {
                event.out.push(Action::Publish);
                event.out.push(Action::Reply { request: id, result: Ok(()) });
            }
        });
    }

    /// A request has ended, and the topology in force shows its effect.
    pub fn request_ended(&self, id: RequestId, result: Result<(), String>) {
        let Some(command) = self.requests().running.remove(&id) else { return };
        // Also for a client that is gone: the requests of one command belong together.
        match result {
            Ok(()) if !command.rest.is_empty() => self.go_on(command),
            result => match (command.waiting, result) {
                (Some(waiting), result) => answer(self, &waiting, result),
                (None, Ok(())) => {}
                (None, Err(text)) => {
                    log_warning!("A CLUSTER command of a transaction failed: {text}")
                }
            },
        }
    }

    /// Replies to a client that waits.
    pub fn reply(&self, waiting: &Arc<Waiting>, result: Result<(), String>) {
        answer(self, waiting, result);
    }
}

fn answer(driver: &Driver, waiting: &Arc<Waiting>, result: Result<(), String>) {
    if !waiting.state.give_up() {
        return;
    }
    blocking::answer(driver.srv, waiting, |reply| match result {
        Ok(()) => reply.ok(),
        Err(text) => reply.error(text.as_bytes()),
    });
}
