//! The ways in which clients use a connection, and leave it.

use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

use rustix::net::sockopt::{Timeout, set_socket_linger, set_socket_timeout};

use super::requests::{self, Batch, Source};
use super::tally::Tally;
use weft_testkit::rng::Rng;
use weft_testkit::value::Value;
use weft_testkit::{Client, Server};

/// Longer than most pauses and waits of a run. After that a client does something else.
const IMPATIENCE: Duration = Duration::from_millis(300);
/// If a server takes no bytes for so long, since it doesn't read, the client closes the connection.
const SEND_PATIENCE: Duration = Duration::from_secs(2);
/// The most uses of one connection.
const USES: usize = 6;

/// A connection with requests that the server must answer, or it must close the connection.
pub struct Pending {
    pub client: Client,
    /// Missing replies.
    pub left: usize,
    /// The sent bytes, for the message.
    pub sent: Vec<u8>,
}

/// One client, with one connection after the other.
pub struct Life<'a> {
    pub server: &'a Server,
    pub source: &'a Source,
    pub rng: Rng,
    pub tally: &'a Tally,
    pub until: Instant,
    /// A connection that this client abandoned while it waited for replies.
    pub pending: Option<Pending>,
}

/// The next step of a connection.
enum Next {
    Continue,
    Leave,
    /// Its requests must be answered by the end of the run.
    Keep(Pending),
}

impl Life<'_> {
    /// Runs until the time is over; returns a connection whose requests were not answered yet.
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
                0..=11 => match self.send_and_read_all(client, batch)? {
                    (client, Next::Continue) => client.expect("an open connection"),
                    (_, Next::Leave) => return Ok(()),
                    (_, Next::Keep(pending)) => {
                        self.pending = Some(pending);
                        return Ok(());
                    }
                },
                12 | 13 => return self.leave_in_mid_request(client, &batch),
                14 | 15 => return self.half_close(client, &batch),
                16 => return self.request_without_reading(client),
                17 => self.send_in_pieces(client, &batch)?,
                18 => return self.send_garbage(client),
                19 => return self.track_keys(client),
                _ => return self.monitor(client),
            };
        }
        Ok(())
    }

    /// Sends whole requests and reads all replies.
    fn send_and_read_all(
        &mut self,
        mut client: Client,
        batch: Batch,
    ) -> io::Result<(Option<Client>, Next)> {
        client.send_raw(&batch.bytes)?;
        for read in 0..batch.answered {
            match client.read_reply() {
                Ok(reply) => self.note(&reply.value),
                Err(e) if is_silence(&e) => {
                    let left = batch.answered - read;
                    return Ok((None, Next::Keep(Pending { client, left, sent: batch.bytes })));
                }
                Err(e) => {
                    refuse_nonsense(&e);
                    return Ok((None, Next::Leave));
                }
            }
        }
        Ok((Some(client), Next::Continue))
    }

    fn note(&self, value: &Value) {
        Tally::count(&self.tally.replies, 1);
        Tally::count(&self.tally.errors, u64::from(value.error().is_some()));
    }

    /// Leaves in the middle of a request, by a close or a reset.
    fn leave_in_mid_request(&mut self, mut client: Client, batch: &Batch) -> io::Result<()> {
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

    /// Closes its writing side and reads until the server closes.
    fn half_close(&mut self, mut client: Client, batch: &Batch) -> io::Result<()> {
        let whole = self.rng.percent(70);
        let end = if whole { batch.bytes.len() } else { self.rng.below(batch.bytes.len() + 1) };
        client.send_raw(&batch.bytes[..end])?;
        client.finish_writing()?;
        loop {
            match client.read_reply() {
                Ok(reply) => self.note(&reply.value),
                // The command may be paused or large. At the end of the run no client may be left.
                Err(e) if is_silence(&e) => return Ok(()),
                Err(e) => {
                    refuse_nonsense(&e);
                    return Ok(());
                }
            }
        }
    }

    /// Requests large replies and reads nothing for a while, or never.
    fn request_without_reading(&mut self, mut client: Client) -> io::Result<()> {
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

    /// Sends a request in many small pieces.
    fn send_in_pieces(&mut self, mut client: Client, batch: &Batch) -> io::Result<Client> {
        let bytes = &batch.bytes[..batch.bytes.len().min(2000)];
        for piece in bytes.chunks(1 + self.rng.below(60)) {
            client.send_raw(piece)?;
            if self.rng.percent(10) {
                std::thread::yield_now();
            }
        }
        // The rest of the begun request.
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

    fn send_garbage(&mut self, mut client: Client) -> io::Result<()> {
        client.send_raw(&requests::garbage(&mut self.rng))?;
        // an error and a close, or silence
        while let Ok(reply) = client.read_reply() {
            self.note(&reply.value);
        }
        Ok(())
    }

    /// Caches the values that it reads, and gets invalidations until it leaves.
    fn track_keys(&mut self, mut client: Client) -> io::Result<()> {
        const HOW: &[&str] = &["", "", " NOLOOP", " OPTOUT", " BCAST", " BCAST PREFIX k PREFIX s"];
        let how = *self.rng.pick(HOW);
        client.send_raw(format!("HELLO 3\r\nCLIENT TRACKING ON{how}\r\n").as_bytes())?;
        client.read_reply()?;
        client.read_reply()?;
        for _ in 0..1 + self.rng.below(USES) {
            let batch = self.source.batch(&mut self.rng);
            Tally::count(&self.tally.requests, batch.answered as u64);
            client = match self.send_and_read_all(client, batch)? {
                (client, Next::Continue) => client.expect("an open connection"),
                (_, Next::Leave) => return Ok(()),
                (_, Next::Keep(pending)) => {
                    self.pending = Some(pending);
                    return Ok(());
                }
            };
            client.take_pushes();
        }
        Ok(())
    }

    /// Runs MONITOR, and reads for a while or not at all.
    fn monitor(&mut self, mut client: Client) -> io::Result<()> {
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

/// Whether the error is a timeout, rather than the end of the connection.
pub fn is_silence(e: &io::Error) -> bool {
    matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

#[track_caller]
fn refuse_nonsense(e: &io::Error) {
    assert!(e.kind() != ErrorKind::InvalidData, "{e}");
}
