//! A connection to one of the two servers, and its requests.

use std::io;

use weft_testkit::client::{Client, Reply, encode_into};

use super::commands::{BASELINE, PASSWORD};
use super::ear::{self, Ear};
use super::target::{Target, connect};

/// The connection of the episodes.
pub struct Session {
    target: Target,
    client: Client,
    ear: Option<Ear>,
}

/// Sent after every batch, to detect an additional or a missing reply.
const MARK: &str = "end-of-batch";

impl Session {
    /// Connects.
    pub fn open(target: &Target) -> io::Result<Session> {
        Ok(Session { target: target.clone(), client: connect(target)?, ear: None })
    }

    /// Subscribes to keyspace notifications from the next episode on.
    pub fn listen(&mut self) -> io::Result<()> {
        self.ear = Some(Ear::open(&self.target)?);
        Ok(())
    }

    /// The notifications since the last call, if subscribed.
    pub fn heard(&mut self) -> io::Result<Vec<String>> {
        self.ear.as_mut().map_or(Ok(Vec::new()), Ear::heard)
    }

    /// The server's name.
    pub fn name(&self) -> &str {
        &self.target.name
    }

    /// Replaces this connection by a new one.
    ///
    /// The server closes the old connection, on request. If the client closed it, a server with
    /// several threads could still list it when the new connection requests the clients.
    pub fn reopen(&mut self) -> io::Result<()> {
        // Errors of the old connection don't matter.
        let _ = self.client.send_raw(b"QUIT\r\n");
        let _ = self.client.read_to_close();
        self.client = connect(&self.target)?;
        Ok(())
    }

    /// A new connection to an empty server with the configuration of the start of an episode.
    /// Returns the replies to the CONFIG SETs.
    pub fn start_over(&mut self) -> io::Result<Vec<Reply>> {
        self.reopen()?;
        // An episode may have ended within the script that sets a password.
        self.client.try_cmd(&["AUTH", PASSWORD])?;
        let mut commands: Vec<Vec<&str>> =
            BASELINE.iter().map(|(name, value)| vec!["CONFIG", "SET", name, value]).collect();
        // Their replies are compared, so that a missing parameter is noticed.
        let settings = commands.len();
        commands.extend([vec!["SLOWLOG", "RESET"], vec!["FLUSHALL"]]);
        let mut replies = self.client.pipeline(&commands)?;
        replies.truncate(settings);
        if let Some(ear) = &mut self.ear {
            self.client.try_cmd(&["DEBUG", "SET-ACTIVE-EXPIRE", "0"])?;
            self.client.try_cmd(&["CONFIG", "SET", "notify-keyspace-events", ear::CLASSES])?;
            ear.heard()?;
        }
        // The pause of an earlier episode must not stop this one, nor may its CLIENT REPLY mode
        // suppress replies.
        self.reopen()?;
        Ok(replies)
    }

    /// Sends requests with `count` replies in total. Returns the received replies; if they are
    /// fewer than `count`, also the error.
    pub fn exchange(&mut self, requests: &[u8], count: usize) -> (Vec<Reply>, Option<String>) {
        let mut payload = requests.to_vec();
        encode_into(&["PING", MARK], &mut payload);
        let mut replies = Vec::with_capacity(count + 1);
        let mut failure = match self.client.exchange(&payload, count + 1, &mut replies) {
            Ok(()) => None,
            Err(e) => Some(e.to_string()),
        };
        if replies.len() > count {
            let mark = replies.pop().expect("one more than count");
            if mark.value.bytes() != Some(MARK.as_bytes()) {
                failure = Some(format!(
                    "an additional or a missing reply: the mark after the batch is {}",
                    mark.value
                ));
            }
        }
        self.client.take_pushes();
        (replies, failure)
    }

    /// Like [`Session::exchange`], for requests after which the server closes.
    pub fn exchange_last(&mut self, requests: &[u8], count: usize) -> (Vec<Reply>, Option<String>) {
        let mut replies = Vec::with_capacity(count);
        let outcome = self.client.exchange(requests, count, &mut replies);
        let failure = match outcome.and_then(|()| self.client.read_to_close()) {
            Ok(rest) if rest.is_empty() => None,
            Ok(rest) => Some(format!("{} bytes more before the close", rest.len())),
            Err(e) => Some(format!("not closed: {e}")),
        };
        (replies, failure)
    }

    /// One command, outside of an episode.
    pub fn ask<A: AsRef<[u8]>>(&mut self, args: &[A]) -> io::Result<Reply> {
        self.client.try_cmd(args)
    }

    /// Many commands.
    pub fn ask_all<A: AsRef<[u8]>>(&mut self, commands: &[Vec<A>]) -> io::Result<Vec<Reply>> {
        self.client.pipeline(commands)
    }
}
