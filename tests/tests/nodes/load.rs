//! Writers whose acknowledged writes must stay.
//!
//! A key has a counter that only grows: a sorted set's score, raised by ZADD GT. So a request without an answer may be
//! executed at any later time without harm, and a score below an acknowledged one is a lost write.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use weft_testkit::cluster::Cluster;
use weft_testkit::cluster::session::{Answer, Session};
use weft_testkit::cluster::slot::{SLOTS, key_in};

const WRITERS: usize = 3;
const KEYS: usize = 24;
const PAUSE: Duration = Duration::from_millis(2);

/// Running writers.
pub struct Load {
    is_over: Arc<AtomicBool>,
    acknowledged: Arc<AtomicU64>,
    writers: Vec<JoinHandle<Writer>>,
}

/// The end of a run.
#[derive(Debug, Default)]
pub struct Outcome {
    pub acknowledged: u64,
    pub unanswered: u64,
    pub refused: u64,
    /// Acknowledged writes that were seen to be missing.
    pub lost: Vec<String>,
    /// Errors that a client must never see.
    pub errors: Vec<String>,
}

struct Key {
    name: String,
    acknowledged: u64,
    sent: u64,
}

struct Writer {
    session: Session,
    keys: Vec<Key>,
    outcome: Outcome,
}

impl Load {
    /// The number of keys that it writes.
    pub const KEYS: usize = WRITERS * KEYS;

    pub fn start(cluster: &Cluster) -> Load {
        static RUNS: AtomicU64 = AtomicU64::new(0);
        let run = RUNS.fetch_add(1, Ordering::Relaxed);
        let is_over = Arc::new(AtomicBool::new(false));
        let acknowledged = Arc::new(AtomicU64::new(0));
        let writers = (0..WRITERS).map(|number| {
            let mut writer = Writer::new(cluster.session(), run, number);
            let (is_over, acknowledged) = (Arc::clone(&is_over), Arc::clone(&acknowledged));
            thread::spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    writer.write_and_read(&acknowledged);
                }
                writer
            })
        });
        let writers = writers.collect();
        Load { is_over, acknowledged, writers }
    }

    /// Writes that were acknowledged so far.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::Relaxed)
    }

    /// Ends the writers and looks for all acknowledged writes. The cluster must serve all slots.
    #[track_caller]
    pub fn finish(mut self) -> Outcome {
        self.is_over.store(true, Ordering::Relaxed);
        let mut all = Outcome::default();
        for writer in self.writers.drain(..) {
            let mut writer = writer.join().expect("a writer doesn't panic");
            for number in 0..writer.keys.len() {
                let key = &writer.keys[number];
                let score = writer.session.until_done(&key.name, &["ZSCORE", &key.name, "m"]);
                writer.judge(number, score.bytes());
            }
            let Outcome { acknowledged, unanswered, refused, lost, errors } = writer.outcome;
            all.acknowledged += acknowledged;
            all.unanswered += unanswered;
            all.refused += refused;
            all.lost.extend(lost);
            all.errors.extend(errors);
        }
        all
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

impl Writer {
    fn new(session: Session, run: u64, number: usize) -> Writer {
        let key = |i: usize| {
            let slot = (i * usize::from(SLOTS) / KEYS + number * 7) % usize::from(SLOTS);
            Key {
                name: key_in(slot as u16, &format!("load:{run}:{number}")),
                acknowledged: 0,
                sent: 0,
            }
        };
        Writer { session, keys: (0..KEYS).map(key).collect(), outcome: Outcome::default() }
    }

    fn write_and_read(&mut self, acknowledged: &AtomicU64) {
        for number in 0..self.keys.len() {
            let key = &mut self.keys[number];
            key.sent += 1;
            let score = key.sent.to_string();
            match self.session.cmd(&key.name, &["ZADD", &key.name, "GT", &score, "m"]) {
                Answer::Done(reply) => match reply.error() {
                    Some(error) => self.outcome.errors.push(format!("{}: {error}", key.name)),
                    None => {
                        key.acknowledged = key.sent;
                        self.outcome.acknowledged += 1;
                        acknowledged.fetch_add(1, Ordering::Relaxed);
                    }
                },
                Answer::Refused(_) => self.outcome.refused += 1,
                Answer::Unknown(_) => self.outcome.unanswered += 1,
            }
            let read = self
                .session
                .cmd(&self.keys[number].name, &["ZSCORE", &self.keys[number].name, "m"]);
            if let Answer::Done(score) = read {
                self.judge(number, score.bytes());
            }
            thread::sleep(PAUSE);
        }
    }

    fn judge(&mut self, number: usize, score: Option<&[u8]>) {
        let key = &mut self.keys[number];
        let text = String::from_utf8_lossy(score.unwrap_or(b"0"));
        let found: u64 = text.parse().unwrap_or_default();
        if found > key.sent {
            self.outcome.errors.push(format!("{}: {text}, and {} was sent", key.name, key.sent));
        }
        if found < key.acknowledged {
            self.outcome
                .lost
                .push(format!("{}: {found} instead of {}", key.name, key.acknowledged));
            // Reported once.
            key.acknowledged = found;
        }
    }
}
