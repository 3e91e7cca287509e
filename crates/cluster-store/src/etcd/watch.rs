//! A watch: one HTTP response that etcd never finishes, with one line of JSON for each message.

use super::calls::{Calls, Trouble};
use super::connection::Control;
use super::decode::{Decoder, Message};
use super::lines::Lines;
use super::reject::Rejection;
use crate::store::{Batch, Canceller, Error, Revision, Watch, WatchEnd};
use serde_json::Value;
use std::collections::VecDeque;
use std::io::{self, Read};
use std::sync::Arc;
use std::time::{Duration, Instant};
use ureq::BodyReader;

/// See the module documentation.
pub struct EtcdWatch {
    stream: Stream,
    batches: VecDeque<Batch>,
    end: Option<WatchEnd>,
    next: Revision,
}

/// The messages of a response.
struct Stream {
    reader: BodyReader<'static>,
    control: Arc<Control>,
    lines: Lines,
    decoder: Decoder,
}

impl EtcdWatch {
    /// Starts a watch with the request `body`.
    pub fn open(
        calls: &Calls,
        decoder: &Decoder,
        body: &Value,
        from: Revision,
        timeout: Duration,
    ) -> Result<EtcdWatch, Error> {
        calls.stream("/v3/watch", body, timeout, |reader, control| {
            let (lines, decoder) = (Lines::default(), decoder.clone());
            let mut stream = Stream { reader, control, lines, decoder };
            let end = match stream.message().map_err(|e| e.into_trouble())? {
                Message::Created => None,
                Message::Compacted { oldest } => Some(WatchEnd::Compacted { oldest: Some(oldest) }),
                Message::Ended(rejection) => return Err(Trouble::Rejection(rejection)),
                Message::Changes(_) => return Err(Trouble::malformed("changes first".into())),
            };
            Ok(EtcdWatch { stream, batches: VecDeque::new(), end, next: from })
        })
    }

    fn end(&mut self, end: WatchEnd) -> WatchEnd {
        let end = match self.stream.control.is_cancelled() {
            true => WatchEnd::Cancelled,
            false => end,
        };
        self.end = Some(end.clone());
        end
    }
}

impl Watch for EtcdWatch {
    fn next(&mut self, timeout: Duration) -> Result<Option<Batch>, WatchEnd> {
        if self.stream.control.is_cancelled() {
            return Err(self.end(WatchEnd::Cancelled));
        }
        self.stream.control.set_deadline(Instant::now() + timeout);
        loop {
            if let Some(batch) = self.batches.pop_front() {
                self.next = batch.revision.next();
                return Ok(Some(batch));
            }
            if let Some(end) = &self.end {
                return Err(end.clone());
            }
            match self.stream.message() {
                // The request asks for one revision more.
                Ok(Message::Changes(batches)) => {
                    let next = self.next;
                    self.batches.extend(batches.into_iter().filter(|b| b.revision >= next));
                }
                Ok(Message::Created) => {}
                Ok(Message::Compacted { oldest }) => {
                    return Err(self.end(WatchEnd::Compacted { oldest: Some(oldest) }));
                }
                Ok(Message::Ended(rejection)) => return Err(self.end(watch_end(rejection))),
                Err(Broken::TimedOut) if !self.stream.control.is_cancelled() => return Ok(None),
                Err(broken) => return Err(self.end(WatchEnd::Closed(broken.to_string()))),
            }
        }
    }

    fn resume_from(&self) -> Revision {
        self.next
    }

    fn canceller(&self) -> Canceller {
        let control = self.stream.control.clone();
        Canceller::new(move || control.cancel())
    }
}

impl Drop for EtcdWatch {
    /// A canceller may live longer, and would keep the connection open.
    fn drop(&mut self) {
        self.stream.control.cancel();
    }
}

fn watch_end(rejection: Rejection) -> WatchEnd {
    match rejection {
        Rejection::Refused(why) => WatchEnd::Refused(why),
        // A new watch gets a new token.
        other => WatchEnd::Closed(Error::from(other).to_string()),
    }
}

/// Why there is no message.
enum Broken {
    /// Perhaps the next read has one.
    TimedOut,
    Read(io::Error),
    Malformed(String),
}

impl Broken {
    fn into_trouble(self) -> Trouble {
        Trouble::Rejection(Rejection::TryElsewhere(self.to_string()))
    }
}

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Broken::TimedOut => f.write_str("timed out"),
            Broken::Read(e) => e.fmt(f),
            Broken::Malformed(why) => write!(f, "not a response of etcd: {why}"),
        }
    }
}

impl Stream {
    /// The next message, by the deadline of the control.
    fn message(&mut self) -> Result<Message, Broken> {
        loop {
            if let Some(line) = self.lines.take() {
                return self.decoder.message(&line).map_err(Broken::Malformed);
            }
            let mut bytes = [0; 16 * 1024];
            match self.reader.read(&mut bytes) {
                Ok(0) => return Err(Broken::Read(io::ErrorKind::UnexpectedEof.into())),
                Ok(n) => self.lines.add(&bytes[..n]).map_err(Broken::Malformed)?,
                Err(e) if is_timeout(&e) => return Err(Broken::TimedOut),
                Err(e) => return Err(Broken::Read(e)),
            }
        }
    }
}

/// ureq wraps its errors for readers.
fn is_timeout(e: &io::Error) -> bool {
    let wrapped = e.get_ref().and_then(|inner| inner.downcast_ref::<ureq::Error>());
    e.kind() == io::ErrorKind::TimedOut || matches!(wrapped, Some(ureq::Error::Timeout(_)))
}
