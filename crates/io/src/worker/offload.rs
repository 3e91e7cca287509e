//! `io-threads-do-reads no`: the first thread reads and executes everything, as in Redis 6, and the
//! other I/O threads only write replies. Kept so that the two can be compared.
//!
//! ```text
//!  first thread                                   another one
//!  executes a batch
//!  Write(socket, reply), ...  ───────────────►    sends
//!  keeps a share for itself                       Written(reply, bytes sent), ...
//!  continues with other connections   ◄──────────
//! ```
//!
//! Redis spins until its threads are done; here the first thread continues. While another thread
//! sends a connection's reply, later replies of that connection wait in its backlog, which keeps
//! their order. As in Redis, a small number of replies is not offloaded.

use crate::worker::events::CALL;
use crate::worker::{Worker, token};
use crate::write::Sent;
use weft_net::backlog::Backlog;
use weft_resp::Reply;
use weft_state::mailbox::Message;
use weft_state::offload::{OffloadMessage, WriteJob, Written};

/// Replies per thread from which on other threads are used.
const WORTH_IT: usize = 2;

impl Worker {
    /// Whether the first thread does everything but writing.
    pub(super) fn is_divided(&self) -> bool {
        !self.core.settings.threads.all_read
    }

    /// Decides, before a batch's replies are sent, whether to offload them.
    pub(super) fn plan_offload(&mut self, replies: usize) {
        self.offload.is_open = self.is_divided() && {
            let threads = self.core.srv.threads.configured();
            threads > 1 && replies >= WORTH_IT * threads
        };
    }

    /// Queues a connection's reply to be sent by another thread. Returns whether that was possible.
    pub(super) fn offload(&mut self, index: usize, reply: &mut Reply) -> bool {
        let conn = &mut self.conns[index];
        let fits = self.offload.is_open
            && conn.output.sends()
            && !conn.state.is_closing()
            && !conn.has_output()
            && reply.contiguous().is_some();
        if fits {
            conn.output.writing = true;
            let token = token(index, conn.generation);
            let reply = std::mem::replace(reply, Reply::new(reply.proto));
            self.offload.jobs.push(WriteJob { token, socket: conn.stream.clone(), reply });
        }
        fits
    }

    /// Divides the queued replies among the threads. This thread sends its share last, so that the
    /// others start at once.
    pub(super) fn send_offloaded(&mut self) {
        self.offload.is_open = false;
        if self.offload.jobs.is_empty() {
            return;
        }
        let threads = self.core.srv.threads.configured();
        let share = self.offload.jobs.len().div_ceil(threads);
        for thread in (0..threads).filter(|thread| *thread != self.core.id) {
            let left = self.offload.jobs.len();
            if left <= share {
                break;
            }
            let jobs = self.offload.jobs.split_off(left - share);
            let message = Message::Offload(OffloadMessage::Write { from: self.core.id, jobs });
            self.core.srv.threads[thread].mailbox.send(message);
        }
        let own: Vec<Written> = self.offload.jobs.drain(..).map(WriteJob::run).collect();
        self.core.stats().network.writes.add(own.len() as u64);
        own.into_iter().for_each(|written| self.written(written));
    }

    /// Handles a message, and returns its cost.
    pub(super) fn handle_offload(&mut self, message: OffloadMessage) -> usize {
        match message {
            OffloadMessage::Write { from, jobs } => {
                let cost = CALL * jobs.len();
                self.write_for(from, jobs);
                cost
            }
            OffloadMessage::Written { done } => {
                let cost = CALL * done.len();
                done.into_iter().for_each(|written| self.written(written));
                cost
            }
        }
    }

    /// Sends replies for the thread that executed the requests.
    fn write_for(&mut self, from: usize, jobs: Vec<WriteJob>) {
        self.core.stats().network.writes.add(jobs.len() as u64);
        let done: Vec<Written> = jobs.into_iter().map(WriteJob::run).collect();
        self.core.srv.threads[from]
            .mailbox
            .send(Message::Offload(OffloadMessage::Written { done }));
    }

    /// Another thread has sent a reply: sends its remainder, then the output that was queued after
    /// it.
    fn written(&mut self, written: Written) {
        let Written { token, mut reply, sent } = written;
        let index = token as u32 as usize;
        let generation = (token >> 32) as u32;
        if self.conns.get(index).is_none_or(|conn| conn.generation != generation) {
            return;
        }
        let conn = &mut self.conns[index];
        // The connection may have become a replica's.
        conn.output.writing = conn.replica.is_some();
        let Some(sent) = sent else { return self.close(index) };
        let behind: Backlog = std::mem::take(&mut conn.output.backlog);
        conn.output.backlog.push(&mut reply, sent);
        conn.output.backlog.append(behind);
        let waits = conn.has_output();
        self.execution.recycle(reply);
        self.count_sent(index, sent);
        if waits {
            self.on_writable(index);
        } else {
            self.sent(index, Sent::All);
        }
    }
}
