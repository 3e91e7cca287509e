//! Sending one snapshot to several sockets.
//!
//! What is streamed goes to all at the pace of the slowest, as nobody keeps it; what is in a file to each
//! at its own. When writes wait for the snapshot ([`waits`]) and a socket is full, the rest of a
//! stream goes to a file without a name, from which each replica gets it at its own pace: so the snapshot ends
//! at the pace of the disk. A socket that takes nothing for `repl-timeout` is given up, and the others go on. Nobody
//! spins: who has nothing to send sleeps in the kernel until a socket takes something.

use crate::hub;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{SendFlags, Shutdown, send, shutdown};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use weft_executor::snapshot_waits as waits;
use weft_process::{log_notice, log_warning};
use weft_replication::action::ConnId;
use weft_state::replica_socket::{Job, Lent};
use weft_state::server::Server;

/// Bytes given to a socket, or read from a file, at once.
const AT_ONCE: usize = 256 << 10;
/// The longest sleep in milliseconds: then it is seen whether all of this is wanted still.
const LOOK_MS: i64 = 100;
/// Who has taken something so lately need not be asked about: `repl-timeout` is no shorter.
const SOON: Duration = Duration::from_millis(900);

/// One replica.
struct Member {
    conn: ConnId,
    socket: Arc<OwnedFd>,
    /// What it gets before anything that all get.
    own: Vec<u8>,
    /// How much of that, or of what all get, it has.
    at: usize,
    /// How much of the file was taken from it.
    from_file: u64,
    mark: Option<[u8; 40]>,
    /// When its socket took something last.
    moved: Instant,
}

/// How a member stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// It has everything.
    Done,
    /// Its socket is full.
    Full,
    /// It is gone.
    Gone,
}

impl Member {
    fn new(lent: Lent) -> Member {
        let Lent { conn, socket, first, mark } = lent;
        Member { conn, socket, own: first, at: 0, from_file: 0, mark, moved: Instant::now() }
    }

    /// Sends what the socket takes of `bytes`, of which `at` are gone.
    fn send(
        socket: &OwnedFd,
        at: &mut usize,
        moved: &mut Instant,
        bytes: &[u8],
        sent: &mut u64,
    ) -> Standing {
        while *at < bytes.len() {
            let part = &bytes[*at..bytes.len().min(*at + AT_ONCE)];
            match send(socket, part, SendFlags::NOSIGNAL) {
                Ok(n) => {
                    *at += n;
                    *sent += n as u64;
                    *moved = Instant::now();
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Standing::Full,
                Err(_) => return Standing::Gone,
            }
        }
        Standing::Done
    }

    /// Sends what is its own.
    fn send_own(&mut self, sent: &mut u64) -> Standing {
        let Member { socket, own, at, moved, .. } = self;
        let standing = Self::send(socket, at, moved, own, sent);
        if standing == Standing::Done && !own.is_empty() {
            own.clear();
            *at = 0;
        }
        standing
    }

    /// Sends what is its own, and then what all get.
    fn send_common(&mut self, bytes: &[u8], sent: &mut u64) -> Standing {
        if !self.own.is_empty() {
            match self.send_own(sent) {
                Standing::Done => {}
                standing @ (Standing::Full | Standing::Gone) => return standing,
            }
        }
        let Member { socket, at, moved, .. } = self;
        Self::send(socket, at, moved, bytes, sent)
    }

    /// Sends what is its own, and then on from the file.
    fn send_file(&mut self, file: &File, length: u64, sent: &mut u64) -> io::Result<Standing> {
        loop {
            match self.send_own(sent) {
                Standing::Done if self.from_file == length => return Ok(Standing::Done),
                Standing::Done => {}
                standing @ (Standing::Full | Standing::Gone) => return Ok(standing),
            }
            let left = usize::try_from(length - self.from_file).unwrap_or(usize::MAX);
            self.own.resize(left.min(AT_ONCE), 0);
            file.read_exact_at(&mut self.own, self.from_file)?;
            self.from_file += self.own.len() as u64;
        }
    }
}

/// Time that replicas may keep a snapshot waiting for which writes wait, before a file takes the rest.
const SPILL_AFTER: Duration = Duration::from_millis(100);

/// The rest of a stream, for replicas that are slower than the snapshot may be.
struct Spill {
    file: File,
    length: u64,
}

/// See the module.
pub struct FanOut {
    srv: &'static Server,
    job: Arc<Job>,
    members: Vec<Member>,
    /// How long sockets were full while writes waited.
    kept_waiting: Duration,
    spill: Option<Spill>,
}

impl FanOut {
    /// To all whose sockets come.
    pub fn new(srv: &'static Server, job: &Arc<Job>) -> FanOut {
        let members = job.gather().into_iter().map(Member::new).collect();
        let kept_waiting = Duration::ZERO;
        FanOut { srv, job: job.clone(), members, kept_waiting, spill: None }
    }

    /// Ends a connection that its thread owns, who sees that it has ended.
    fn cut(member: &Member) {
        let _ = shutdown(&member.socket, Shutdown::Both);
    }

    /// Has `step` send to each member, again and again, until all are done, or until a file is to take over,
    /// if this `may_spill`; tells the machine of each that is done, if `tells`. Whether all are.
    fn drive(
        &mut self,
        tells: bool,
        may_spill: bool,
        mut step: impl FnMut(&mut Member, &mut u64) -> io::Result<Standing>,
    ) -> io::Result<bool> {
        loop {
            let (mut full, mut done, mut sent) = (Vec::new(), Vec::new(), 0);
            let mut at = 0;
            while at < self.members.len() {
                match step(&mut self.members[at], &mut sent)? {
                    Standing::Gone => Self::cut(&self.members.swap_remove(at)),
                    Standing::Done if tells => done.push(self.members.swap_remove(at).conn),
                    Standing::Done => at += 1,
                    Standing::Full => {
                        full.push(at);
                        at += 1;
                    }
                }
            }
            let hub = hub(self.srv);
            hub.published.sent.fetch_add(sent, Ordering::Relaxed);
            for conn in done {
                hub.step(self.srv, |node, now, out| node.bulk_sent(now, conn, out));
            }
            if full.is_empty() {
                return match self.members.is_empty() && !tells {
                    true => Err(io::Error::other("no replica is left")),
                    false => Ok(true),
                };
            }
            if self.job.is_over() {
                return Err(io::Error::other("it was abandoned"));
            }
            if may_spill && self.kept_waiting > SPILL_AFTER {
                return Ok(false);
            }
            let began = Instant::now();
            self.wait(&full);
            if waits::is_waited_for(self.srv) {
                self.kept_waiting += began.elapsed();
            }
            self.give_up_stuck(&full);
        }
    }

    /// Sleeps until one of these sockets takes something.
    fn wait(&self, full: &[usize]) {
        let mut polled: Vec<PollFd<'_>> =
            full.iter().map(|at| PollFd::new(&*self.members[*at].socket, PollFlags::OUT)).collect();
        let timeout = Timespec { tv_sec: 0, tv_nsec: LOOK_MS * 1_000_000 };
        let _ = poll(&mut polled, Some(&timeout));
    }

    /// Of those whose sockets are `full`, lets go of those who have taken nothing for too long.
    fn give_up_stuck(&mut self, full: &[usize]) {
        let is_late = |member: &Member, than: Duration| member.moved.elapsed() > than;
        // Most of the time nobody has to ask.
        if !full.iter().any(|at| is_late(&self.members[*at], SOON)) {
            return;
        }
        let timeout = Duration::from_millis(hub(self.srv).lock().node.settings().timeout);
        // From behind, so that places stay what they are.
        for at in full.iter().rev() {
            if is_late(&self.members[*at], timeout) {
                let member = self.members.swap_remove(*at);
                let hub = hub(self.srv);
                hub.step(self.srv, |node, now, out| node.bulk_stuck(now, member.conn, out));
                // Behind that, so that it is known why.
                Self::cut(&member);
            }
        }
    }

    /// Has a file take the rest of the stream, after `bytes`, of which members have some.
    fn spill(&mut self, bytes: &[u8]) -> io::Result<()> {
        for member in &mut self.members {
            let Member { own, at, .. } = member;
            if own.is_empty() {
                own.extend_from_slice(&bytes[*at..]);
            } else {
                own.drain(..*at);
                own.extend_from_slice(bytes);
            }
            *at = 0;
        }
        let file = self.srv.persistence.nameless_file()?;
        self.spill = Some(Spill { file, length: 0 });
        self.srv.replication.spilled.fetch_add(1, Ordering::Relaxed);
        log_notice!(
            "Writes wait for a snapshot that replicas take slowly: a file takes the rest of it"
        );
        Ok(())
    }

    /// Appends to the file, and sends what sockets take of it, without a wait.
    fn write_spilled(&mut self, bytes: &[u8]) -> io::Result<()> {
        /// What one of them gets at once: no more, as the snapshot waits.
        const SOME: u64 = 1 << 20;
        let FanOut { srv, members, spill: Some(Spill { file, length }), .. } = self else {
            return Ok(());
        };
        file.write_all(bytes)?;
        *length += bytes.len() as u64;
        let (mut at, mut sent) = (0, 0);
        while at < members.len() {
            let member = &mut members[at];
            let to = (*length).min(member.from_file + SOME);
            match member.send_file(file, to, &mut sent)? {
                Standing::Gone => Self::cut(&members.swap_remove(at)),
                Standing::Done | Standing::Full => at += 1,
            }
        }
        srv.replication.sent.fetch_add(sent, Ordering::Relaxed);
        match (members.is_empty(), self.job.is_over()) {
            (true, _) => Err(io::Error::other("no replica is left")),
            (_, true) => Err(io::Error::other("it was abandoned")),
            (false, false) => Ok(()),
        }
    }

    /// Sends what is left of a stream in its file, and the marks of the end, and tells the machine of each
    /// who has it. The snapshot has ended.
    ///
    /// # Errors
    /// It was abandoned.
    pub fn finish(mut self) -> io::Result<()> {
        if let Some(Spill { file, length }) = self.spill.take() {
            self.members.iter_mut().for_each(|member| member.moved = Instant::now());
            self.drive(false, false, |member, sent| member.send_file(&file, length, sent))?;
        }
        for member in &mut self.members {
            member.own = member.mark.map(|mark| mark.to_vec()).unwrap_or_default();
            member.at = 0;
            member.moved = Instant::now();
        }
        self.drive(true, false, |member, sent| Ok(member.send_own(sent))).map(drop)
    }

    /// Sends a file of that length, and tells the machine of each who has it.
    ///
    /// # Errors
    /// It can't be read, and those who have not all of it are cut off.
    pub fn send_file(mut self, file: &File, length: u64) -> io::Result<()> {
        let done = self.drive(true, false, |member, sent| member.send_file(file, length, sent));
        if let Err(e) = &done {
            log_warning!("Read error sending DB to replicas: {e}");
        }
        self.members.iter().for_each(Self::cut);
        done.map(drop)
    }
}

impl Write for FanOut {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_all(bytes)?;
        Ok(bytes.len())
    }

    /// Sends to all of them.
    ///
    /// # Errors
    /// Nobody is left, or it was abandoned.
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.spill.is_some() {
            return self.write_spilled(bytes);
        }
        for member in &mut self.members {
            // Who had to wait for us is not late.
            member.moved = Instant::now();
            if member.own.is_empty() {
                member.at = 0;
            }
        }
        match self.drive(false, true, |member, sent| Ok(member.send_common(bytes, sent)))? {
            true => Ok(()),
            false => self.spill(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
