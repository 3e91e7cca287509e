//! Sends one snapshot to several sockets.
//!
//! A streamed snapshot goes to all replicas at the pace of the slowest, because no thread stores
//! it. A snapshot in a file goes to each at its pace. If writes wait for the snapshot ([`waits`])
//! and a socket is full, the rest of a stream goes to an unnamed file, from which each replica gets
//! it at its pace. So the snapshot ends at the pace of the disk. A socket that takes no byte for
//! `repl-timeout` is closed, and the others continue. No thread spins: the sender sleeps in the
//! kernel until a socket is writable.

use crate::hub;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{Shutdown, shutdown};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use weft_executor::snapshot_waits as waits;
use weft_net::stream::Stream;
use weft_process::{log_notice, log_warning};
use weft_replication::action::ConnId;
use weft_state::replica_socket::{Job, Lent};
use weft_state::server::Server;

/// Maximum bytes per send, or per read of the file.
const AT_ONCE: usize = 256 << 10;
/// Maximum sleep in milliseconds before the sender checks whether the snapshot is still needed.
const LOOK_MS: i64 = 100;
/// A socket that made progress within this time needs no check, because `repl-timeout` is at least
/// as long.
const SOON: Duration = Duration::from_millis(900);

/// A replica.
struct Member {
    conn: ConnId,
    socket: Stream,
    /// Bytes for this replica only, sent before the common bytes.
    own: Vec<u8>,
    /// Number of those bytes, or of the common bytes, that were sent.
    at: usize,
    /// Bytes read from the file so far.
    from_file: u64,
    mark: Option<[u8; 40]>,
    /// Time at which the socket last took bytes.
    moved: Instant,
}

/// The state of a member after a send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SendState {
    /// Everything was sent.
    Done,
    /// The socket is full.
    Full,
    /// The connection is closed.
    Gone,
}

impl Member {
    fn new(lent: Lent) -> Member {
        let Lent { conn, socket, first, mark } = lent;
        Member { conn, socket, own: first, at: 0, from_file: 0, mark, moved: Instant::now() }
    }

    /// Sends what the socket takes of `bytes`, of which `at` are sent.
    fn send(
        socket: &Stream,
        at: &mut usize,
        moved: &mut Instant,
        bytes: &[u8],
        sent: &mut u64,
    ) -> SendState {
        while *at < bytes.len() {
            let part = &bytes[*at..bytes.len().min(*at + AT_ONCE)];
            match socket.send(part) {
                Ok(n) => {
                    *at += n;
                    *sent += n as u64;
                    *moved = Instant::now();
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return SendState::Full,
                Err(_) => return SendState::Gone,
            }
        }
        SendState::Done
    }

    /// Sends this replica's own bytes.
    fn send_private(&mut self, sent: &mut u64) -> SendState {
        let Member { socket, own, at, moved, .. } = self;
        let standing = Self::send(socket, at, moved, own, sent);
        if standing == SendState::Done && !own.is_empty() {
            own.clear();
            *at = 0;
        }
        standing
    }

    /// Sends this replica's own bytes, then the common ones.
    fn send_common(&mut self, bytes: &[u8], sent: &mut u64) -> SendState {
        if !self.own.is_empty() {
            match self.send_private(sent) {
                SendState::Done => {}
                standing @ (SendState::Full | SendState::Gone) => return standing,
            }
        }
        let Member { socket, at, moved, .. } = self;
        Self::send(socket, at, moved, bytes, sent)
    }

    /// Sends this replica's own bytes, then the rest of the file.
    fn send_file(&mut self, file: &File, length: u64, sent: &mut u64) -> io::Result<SendState> {
        loop {
            match self.send_private(sent) {
                SendState::Done if self.from_file == length => return Ok(SendState::Done),
                SendState::Done => {}
                standing @ (SendState::Full | SendState::Gone) => return Ok(standing),
            }
            let left = usize::try_from(length - self.from_file).unwrap_or(usize::MAX);
            self.own.resize(left.min(AT_ONCE), 0);
            file.read_exact_at(&mut self.own, self.from_file)?;
            self.from_file += self.own.len() as u64;
        }
    }
}

/// How long replicas may delay a snapshot for which writes wait, before the rest goes to a file.
const SPILL_AFTER: Duration = Duration::from_millis(100);

/// The rest of a stream, for replicas slower than the snapshot.
struct Spill {
    file: File,
    length: u64,
}

/// Sends a snapshot to several sockets. See the module documentation.
pub struct FanOut {
    srv: &'static Server,
    job: Arc<Job>,
    members: Vec<Member>,
    /// How long sockets were full while writes waited.
    kept_waiting: Duration,
    spill: Option<Spill>,
}

impl FanOut {
    /// Collects the sockets of the replicas.
    pub fn new(srv: &'static Server, job: &Arc<Job>) -> FanOut {
        let members = job.gather().into_iter().map(Member::new).collect();
        let kept_waiting = Duration::ZERO;
        FanOut { srv, job: job.clone(), members, kept_waiting, spill: None }
    }

    /// Shuts a connection down. The thread that owns it sees the end.
    fn cut(member: &Member) {
        let _ = shutdown(&member.socket, Shutdown::Both);
    }

    /// Calls `step` for each member repeatedly, until all are done or, with `may_spill`, until the
    /// rest must go to a file. `reports`: reports each finished member to the machine. Returns
    /// whether all are done.
    fn drive(
        &mut self,
        reports: bool,
        may_spill: bool,
        mut step: impl FnMut(&mut Member, &mut u64) -> io::Result<SendState>,
    ) -> io::Result<bool> {
        loop {
            let (mut full, mut done, mut sent) = (Vec::new(), Vec::new(), 0);
            let mut at = 0;
            while at < self.members.len() {
                match step(&mut self.members[at], &mut sent)? {
                    SendState::Gone => Self::cut(&self.members.swap_remove(at)),
                    SendState::Done if reports => done.push(self.members.swap_remove(at).conn),
                    SendState::Done => at += 1,
                    SendState::Full => {
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
                return match self.members.is_empty() && !reports {
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

    /// Sleeps until one of these sockets is writable.
    fn wait(&self, full: &[usize]) {
        let mut polled: Vec<PollFd<'_>> =
            full.iter().map(|at| PollFd::new(&self.members[*at].socket, PollFlags::OUT)).collect();
        let timeout = Timespec { tv_sec: 0, tv_nsec: LOOK_MS * 1_000_000 };
        let _ = poll(&mut polled, Some(&timeout));
    }

    /// Closes those of the `full` sockets that took no byte for too long.
    fn give_up_stuck(&mut self, full: &[usize]) {
        let is_late = |member: &Member, than: Duration| member.moved.elapsed() > than;
        // Avoids the lock in the common case.
        if !full.iter().any(|at| is_late(&self.members[*at], SOON)) {
            return;
        }
        let timeout = Duration::from_millis(hub(self.srv).lock().node.settings().timeout);
        // In descending order, so that the remaining indexes stay valid.
        for at in full.iter().rev() {
            if is_late(&self.members[*at], timeout) {
                let member = self.members.swap_remove(*at);
                let hub = hub(self.srv);
                hub.step(self.srv, |node, now, out| node.bulk_stuck(now, member.conn, out));
                // After the report, so that the reason is logged.
                Self::cut(&member);
            }
        }
    }

    /// Moves the rest of the stream to a file; members may have sent a part of `bytes`.
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
        let file = self.srv.persistence.unnamed_file()?;
        self.spill = Some(Spill { file, length: 0 });
        self.srv.nodes.replication.spilled.fetch_add(1, Ordering::Relaxed);
        log_notice!(
            "Writes wait for a snapshot that replicas read slowly: a file takes the rest of it"
        );
        Ok(())
    }

    /// Appends to the file, and sends without blocking what sockets take.
    fn write_spilled(&mut self, bytes: &[u8]) -> io::Result<()> {
        /// Maximum bytes to one member per call, because the snapshot waits.
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
                SendState::Gone => Self::cut(&members.swap_remove(at)),
                SendState::Done | SendState::Full => at += 1,
            }
        }
        srv.nodes.replication.sent.fetch_add(sent, Ordering::Relaxed);
        match (members.is_empty(), self.job.is_over()) {
            (true, _) => Err(io::Error::other("no replica is left")),
            (_, true) => Err(io::Error::other("it was abandoned")),
            (false, false) => Ok(()),
        }
    }

    /// Sends the rest of a stream from its file, and the end marks. Reports each finished replica
    /// to the machine. The snapshot has ended.
    ///
    /// # Errors
    /// The snapshot was abandoned.
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
        self.drive(true, false, |member, sent| Ok(member.send_private(sent))).map(drop)
    }

    /// Sends a file of this length. Reports each finished replica to the machine.
    ///
    /// # Errors
    /// The file can't be read. Unfinished replicas are disconnected.
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

    /// Sends the bytes to all members.
    ///
    /// # Errors
    /// No member is left, or the snapshot was abandoned.
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.spill.is_some() {
            return self.write_spilled(bytes);
        }
        for member in &mut self.members {
            // Time spent before this call doesn't count towards the timeout.
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
