//! The ways to use a connection, and to leave it.

use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

use rustix::net::sockopt::{Timeout, set_socket_linger, set_socket_timeout};

use super::Tally;
use super::requests::{self, Batch, Source};
use crate::rng::Rng;
use crate::value::Value;
use crate::{Client, Server};

/// Longer than most pauses and waits of a run; then a client looks for something else to do.
const IMPATIENCE: Duration = Duration::from_millis(300);
/// A server that does not read takes no more; then the connection is dropped.
const SEND_PATIENCE: Duration = Duration::from_secs(2);
/// Most things done with one connection.
const USES: usize = 6;

/// A connection with requests that are still to be answered, or it must be closed.
pub struct Pending {
    pub client: Client,
    /// Replies that have not come.
    pub left: usize,
    /// What was sent, for the message.
    pub sent: Vec<u8>,
}

/// One client, connection after connection.
pub struct Life<'a> {
    pub server: &'a Server,
    pub source: &'a Source,
    pub rng: Rng,
    pub tally: &'a Tally,
    pub until: Instant,
    /// One of those that this client lost patience with.
    pub pending: Option<Pending>,
}

/// Whether the connection may be used again.
enum Then {
    GoOn,
    Leave,
    /// It must be answered at the end of the run.
    Keep(Pending),
}

impl Life<'_> {
    /// Goes on until the time is over; answers one connection that was not answered yet.
    pub fn live(mut self) -> Option<Pending> {
        while Instant::now() < self.until {
            let Ok(client) = Client::try_tcp(self.server.port()) else {
                // no descriptors, no room
                Tally::count(&self.tally.closed, 1);
                std::thread::sleep(Duration::from_millis(5));
                continue;
            };
            Tally::count(&self.tally.connections, 1);
            if self.use_connection(client).is_err() {
                Tally::count(&self.tally.closed, 1);
            }
        }
        self.pending
    }

    fn use_connection(&mut self, mut client: Client) -> io::Result<()> {
        client.set_timeout(IMPATIENCE);
        set_socket_timeout(&client, Timeout::Send, Some(SEND_PATIENCE))?;
        for _ in 0..1 + self.rng.below(USES) {
            let batch = self.source.batch(&mut self.rng);
            Tally::count(&self.tally.requests, batch.answered as u64);
            client = match self.rng.below(21) {
                0..=11 => match self.polite(client, batch)? {
                    (client, Then::GoOn) => client.expect("a connection to go on with"),
                    (_, Then::Leave) => return Ok(()),
                    (_, Then::Keep(pending)) => {
                        self.pending = Some(pending);
                        return Ok(());
                    }
                },
                12 | 13 => return self.cut(client, &batch),
                14 | 15 => return self.half_close(client, &batch),
                16 => return self.deaf(client),
                17 => self.in_pieces(client, &batch)?,
                18 => return self.nonsense(client),
                19 => return self.keeper(client),
                _ => return self.watcher(client),
            };
        }
        Ok(())
    }

    /// Sends whole requests and reads all replies.
    fn polite(&mut self, mut client: Client, batch: Batch) -> io::Result<(Option<Client>, Then)> {
        client.send_raw(&batch.bytes)?;
        for read in 0..batch.answered {
            match client.read_reply() {
                Ok(reply) => self.note(&reply.value),
                Err(e) if is_silence(&e) => {
                    let left = batch.answered - read;
                    return Ok((None, Then::Keep(Pending { client, left, sent: batch.bytes })));
                }
                Err(e) => {
                    refuse_nonsense(&e);
                    return Ok((None, Then::Leave));
                }
            }
        }
        Ok((Some(client), Then::GoOn))
    }

    fn note(&self, value: &Value) {
        Tally::count(&self.tally.replies, 1);
        Tally::count(&self.tally.errors, u64::from(value.error().is_some()));
    }

    /// Leaves in the middle of a request, by a close or a reset.
    fn cut(&mut self, mut client: Client, batch: &Batch) -> io::Result<()> {
        let end = self.rng.below(batch.bytes.len() + 1);
        client.send_raw(&batch.bytes[..end])?;
        if self.rng.percent(50) {
            std::thread::sleep(Duration::from_millis(self.rng.below(3) as u64));
        }
        if self.rng.percent(30) {
            set_socket_linger(&client, Some(Duration::ZERO))?;
        }
        Ok(())
    }

    /// Closes its writing side and reads what comes until the server closes.
    fn half_close(&mut self, mut client: Client, batch: &Batch) -> io::Result<()> {
        let whole = self.rng.percent(70);
        let end = if whole { batch.bytes.len() } else { self.rng.below(batch.bytes.len() + 1) };
        client.send_raw(&batch.bytes[..end])?;
        client.finish_writing()?;
        loop {
            match client.read_reply() {
                Ok(reply) => self.note(&reply.value),
                // it may be paused or large: at the end there must be no client any more
                Err(e) if is_silence(&e) => return Ok(()),
                Err(e) => {
                    refuse_nonsense(&e);
                    return Ok(());
                }
            }
        }
    }

    /// Asks for much and reads nothing for a while, or never.
    fn deaf(&mut self, mut client: Client) -> io::Result<()> {
        let batch = self.source.with_large_replies(&mut self.rng);
        client.send_raw(&batch.bytes)?;
        std::thread::sleep(Duration::from_millis(self.rng.below(150) as u64));
        if self.rng.percent(50) {
            for _ in 0..batch.answered {
                match client.read_reply() {
                    Ok(reply) => self.note(&reply.value),
                    Err(e) => {
                        refuse_nonsense(&e);
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    /// A request that comes in many small reads.
    fn in_pieces(&mut self, mut client: Client, batch: &Batch) -> io::Result<Client> {
        let bytes = &batch.bytes[..batch.bytes.len().min(2000)];
        for piece in bytes.chunks(1 + self.rng.below(60)) {
            client.send_raw(piece)?;
            if self.rng.percent(10) {
                std::thread::yield_now();
            }
        }
        // the rest of what was begun
        client.send_raw(&batch.bytes[bytes.len()..])?;
        for _ in 0..batch.answered {
            match client.read_reply() {
                Ok(reply) => self.note(&reply.value),
                Err(e) => {
                    refuse_nonsense(&e);
                    return Err(e);
                }
            }
        }
        Ok(client)
    }

    fn nonsense(&mut self, mut client: Client) -> io::Result<()> {
        client.send_raw(&requests::garbage(&mut self.rng))?;
        // an error and a close, or silence
        while let Ok(reply) = client.read_reply() {
            self.note(&reply.value);
        }
        Ok(())
    }

    /// Keeps what it reads, and is told of changes until it leaves.
    fn keeper(&mut self, mut client: Client) -> io::Result<()> {
        const HOW: &[&str] = &["", "", " NOLOOP", " OPTOUT", " BCAST", " BCAST PREFIX k PREFIX s"];
        let how = *self.rng.pick(HOW);
        client.send_raw(format!("HELLO 3\r\nCLIENT TRACKING ON{how}\r\n").as_bytes())?;
        client.read_reply()?;
        client.read_reply()?;
        for _ in 0..1 + self.rng.below(USES) {
            let batch = self.source.batch(&mut self.rng);
            Tally::count(&self.tally.requests, batch.answered as u64);
            client = match self.polite(client, batch)? {
                (client, Then::GoOn) => client.expect("a connection to go on with"),
                (_, Then::Leave) => return Ok(()),
                (_, Then::Keep(pending)) => {
                    self.pending = Some(pending);
                    return Ok(());
                }
            };
            client.take_pushes();
        }
        Ok(())
    }

    /// A monitor that reads for a while, or does not.
    fn watcher(&mut self, mut client: Client) -> io::Result<()> {
        client.send_raw(b"MONITOR\r\n")?;
        let reads = self.rng.below(200);
        for _ in 0..reads {
            match client.read_reply() {
                Ok(_) => {}
                Err(e) => {
                    refuse_nonsense(&e);
                    return Ok(());
                }
            }
        }
        std::thread::sleep(Duration::from_millis(self.rng.below(50) as u64));
        Ok(())
    }
}

/// Whether nothing came in time, rather than an end.
pub fn is_silence(e: &io::Error) -> bool {
    matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

#[track_caller]
fn refuse_nonsense(e: &io::Error) {
    assert!(e.kind() != ErrorKind::InvalidData, "{e}");
}
