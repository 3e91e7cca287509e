//! Handles errors, redirections and closed connections.

use super::conn::{Conn, Flight, GREETING, Phase};
use super::{Failure, Worker};
use crate::cluster::is_redirection;
use crate::control::Reply;
use crate::skipper::Types;

impl Worker {
    /// Whether another node sent a good reply; otherwise the error is counted, or ends the run.
    #[cold]
    pub(super) fn on_bad(
        &mut self,
        i: usize,
        flight: &Flight,
        reply: Types,
        request: Option<Vec<u8>>,
        now: u64,
    ) -> Result<bool, Failure> {
        let mut error =
            if reply == Types::ERROR { self.conns[i].skipper.error() } else { String::new() };
        let mut reply = reply;
        if let Some(request) = request
            && is_redirection(&error)
        {
            match self.redirect(i, flight, &request, &error)? {
                Some(Reply::Error(again)) => error = again,
                Some(other) => (reply, error) = (other.types(), String::new()),
                // It was counted there.
                None => return Ok(false),
            }
        }
        if flight.kind == GREETING {
            return Err(format!("Error from server: {error}"));
        }
        let kind = &self.plan.test.kinds[usize::from(flight.kind)];
        let (key, message) = if !error.is_empty() {
            let key = error.split(' ').next().unwrap_or_default().to_string();
            (key, format!("Error from server{}: {error}", self.at_node(i)))
        } else if flight.expect.meets(reply) {
            ("content".to_string(), format!("Wrong content in the reply to {}", kind.name))
        } else {
            let message = format!(
                "Wrong type of reply to {}: {reply}, expected was {}",
                kind.name, flight.expect
            );
            ("type".to_string(), message)
        };
        if !self.plan.keep_going {
            return Err(message);
        }
        if flight.counted {
            *self.tally.errors.entry(key).or_default() += 1;
            self.tally.last_ns = now;
        }
        Ok(false)
    }

    /// The right node's reply to a request; none if it was good and is counted.
    fn redirect(
        &mut self,
        i: usize,
        flight: &Flight,
        request: &[u8],
        error: &str,
    ) -> Result<Option<Reply>, Failure> {
        let Some(from) = self.node_target(i) else {
            return Ok(Some(Reply::Error(error.to_string())));
        };
        let Some(follower) = &mut self.follower else {
            return Ok(Some(Reply::Error(error.to_string())));
        };
        let reply = follower
            .follow(request, &from, error)
            .map_err(|e| format!("Error: following \"{error}\": {e}"))?;
        if flight.counted {
            self.tally.redirected += 1;
        }
        if flight.expect.meets(reply.types()) {
            // Its latency ends now, including the redirection.
            let now = self.now();
            self.record(Some((*flight, 1)), now);
            return Ok(None);
        }
        Ok(Some(reply))
    }

    fn node_target(&self, i: usize) -> Option<crate::options::Target> {
        let cluster = self.plan.cluster.as_ref()?;
        Some(cluster.nodes().get(self.conns[i].node)?.target.clone())
    }

    fn at_node(&self, i: usize) -> String {
        self.node_target(i).map_or(String::new(), |target| format!(" {target}"))
    }

    /// Replaces a connection whose batch is done.
    pub(super) fn reconnect(&mut self, i: usize) -> Result<(), Failure> {
        let node = self.conns[i].node;
        let address = self.plan.addresses.get(node).or(self.plan.addresses.first());
        let failed = |e: std::io::Error| format!("Could not connect to server: {e}");
        let address = address.ok_or("Could not connect to server: no address")?;
        let stream = address.start_connect().map_err(failed)?;
        let mut conn = Conn::new(stream, Phase::Connecting, node);
        self.watch(&mut conn, i).map_err(|e| failed(e.into()))?;
        // The old socket leaves the epoll set when it is closed here.
        self.conns[i] = conn;
        Ok(())
    }
}
