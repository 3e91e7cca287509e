//! Handling kernel events and messages from other threads.

use crate::worker::{LISTENERS, MAILBOX, Worker, token};
use std::sync::atomic::Ordering;
use weft_net::lifecycle::{Awaited, Ended};
use weft_net::poll::Ready;
use weft_pubsub::run::Run;
use weft_state::conn::ResumeMessage;
use weft_state::mailbox::Message;
use weft_state::push::PushMessage;

/// Amount of mailbox work per iteration, in pushes appended to outputs: some milliseconds. Other
/// threads may send faster than this thread processes, without end. The handler of a message returns
/// its approximate cost in this unit.
const AT_ONCE: usize = 16 << 10;

/// Cost of a message that needs a system call, in the same unit.
pub(super) const CALL: usize = 16;

impl Worker {
    pub(super) fn on_event(&mut self, event: Ready) {
        if self.execution.batch.is_full() {
            self.flush();
            // Messages that clients of this batch had to read ahead are handled now, so that
            // clients of the next batch don't read them again.
            if self.core.inbox.has_read_ahead() {
                self.handle_messages();
            }
        }
        if event.token >= LISTENERS {
            // Both may close or add connections: a connection that the batch has read from must not
            // be replaced by another in the same slot.
            self.flush();
            if event.token == MAILBOX {
                return self.on_mail();
            }
            return self.accept((event.token - LISTENERS) as usize);
        }
        let Some(index) = self.find(event.token) else { return };
        if self.conns[index].stream.is_shaking_hands() {
            return self.shake_hands(index);
        }
        if event.write && self.conns[index].interest.write {
            self.on_writable(index);
        }
        if event.read && self.find(event.token).is_some() {
            self.on_input(index, event);
        }
    }

    /// The index of the connection with this token, if it still exists.
    pub(super) fn find(&self, token_of: u64) -> Option<usize> {
        let index = token_of as u32 as usize;
        self.conns.get(index).filter(|c| token(index, c.generation) == token_of).map(|_| index)
    }

    /// Handles input, or the end of it.
    fn on_input(&mut self, index: usize, event: Ready) {
        if self.conns[index].state.is_in_batch() {
            self.flush();
        }
        let Some(conn) = self.conns.get(index) else { return };
        if conn.state.reads() {
            return self.on_readable(index);
        }
        // A command of the client is in progress. If the connection is broken, the reply can't be
        // sent. A client in a wait queue waits for a key, even while its command is being retried.
        let stands = || self.core.srv.clients.blocked.of_client(conn.session.shared.id).is_some();
        let gone = event.ended && (conn.state.peer_ended() == Ended::Close || stands());
        if event.broken {
            return self.close(index);
        }
        if gone {
            return self.hung_up(index);
        }
        if conn.state.reads_ahead() {
            return self.read_ahead(index);
        }
        // The socket was watched, but its state doesn't read now. Stop watching only here, so that
        // only clients that send meanwhile cost a system call.
        self.set_interest(index);
    }

    /// Watches the socket for exactly the events that the state needs.
    fn set_interest(&mut self, index: usize) {
        let conn = &mut self.conns[index];
        let want = conn.wanted();
        if want != conn.interest {
            conn.interest = want;
            let _ = self.poll.change(&conn.stream, token(index, conn.generation), want);
        }
    }

    /// Watches the socket for at least the events that the state needs.
    pub(super) fn widen_interest(&mut self, index: usize) {
        let conn = &self.conns[index];
        if !conn.interest.covers(conn.wanted()) {
            self.set_interest(index);
        }
    }

    pub(super) fn on_mail(&mut self) {
        self.core.srv.threads[self.core.id].mailbox.acknowledge();
        self.handle_messages();
    }

    /// Handles the messages in the mailbox, up to a limit that gives connections a chance.
    fn handle_messages(&mut self) {
        let mailbox = &self.core.srv.threads[self.core.id].mailbox;
        self.has_mail = false;
        let mut spent = 0;
        let mut run: Option<Run> = None;
        while let Some((number, message)) = self.core.inbox.next(|| mailbox.take()) {
            if !matches!(message, Message::Push(PushMessage::Published(_))) {
                self.end_run(&mut run);
            }
            spent += match message {
                Message::Push(message) => self.handle_push(message, number, &mut run),
                Message::Connection(message) => self.handle_connection(message),
                Message::Move(message) => self.handle_move(message),
                Message::Resume(message) => self.handle_resume(message),
                Message::Wait(message) => self.handle_wait(message),
                Message::Slow(message) => self.handle_slow(message),
                Message::Replica(message) => self.handle_replica(message),
                Message::Offload(message) => self.handle_offload(message),
                Message::Durable => self.handle_durable(),
                Message::TermEnded => self.end_withheld(),
                Message::Thread(message) => self.handle_thread(message),
                Message::Inquiry(inquiry) => self.answer_inquiry(&inquiry),
            };
            if spent > AT_ONCE {
                self.has_mail = true;
                break;
            }
        }
        self.end_run(&mut run);
    }

    /// Resumes connections. Returns the cost.
    fn handle_resume(&mut self, message: ResumeMessage) -> usize {
        match message {
            ResumeMessage::Unpark { token } => {
                if let Some(index) = self.find(token) {
                    self.resume(index, Awaited::Shard);
                }
                1
            }
            ResumeMessage::Unpause => {
                let cost = self.conns.len();
                self.resume_all(Awaited::Pause);
                cost
            }
        }
    }

    /// Resumes the connection if it waits for `by`.
    pub(super) fn resume(&mut self, index: usize, by: Awaited) {
        if self.conns[index].state.resumed(by) {
            if by == Awaited::Pause {
                self.conns[index].session.shared.activity.blocked.store(false, Ordering::Relaxed);
            }
            self.conns.queued.push(index);
        }
    }

    fn resume_all(&mut self, by: Awaited) {
        let all: Vec<usize> = self.conns.indices();
        all.into_iter().for_each(|index| self.resume(index, by));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::sync::Arc;
    use weft_admin::commands;
    use weft_config::Config;
    use weft_durability::aof::Aof;
    use weft_replication_driver::Hub;
    use weft_state::replication_status::ReplicationStatus;
    use weft_state::server::{Parts, Server};

    fn server() -> &'static Server {
        let (table, functions) = commands::table();
        let replication = Arc::<ReplicationStatus>::default();
        let parts = Parts {
            functions: Box::new(functions),
            journal: Box::new(Aof::new(commands::stay_off)),
            replication: replication.clone(),
            replicator: Box::new(Hub::new(replication)),
            run_thread: crate::threads::run,
        };
        Server::new(Config::default(), String::new(), table, parts)
    }

    /// The first I/O thread of a new server.
    fn worker() -> Worker {
        let srv = server();
        srv.threads.fill(1).expect("descriptors");
        srv.ks.safepoints().use_up_to(1);
        srv.threads.note_started(1);
        Worker::new(0, srv, Vec::new()).expect("descriptors")
    }

    #[test]
    fn full_mailbox_does_not_starve_connections() {
        let mut worker = worker();
        let mailbox = &worker.core.srv.threads[0].mailbox;
        let bytes = Arc::new(b"+a line of MONITOR\r\n".to_vec());
        for _ in 0..2 * AT_ONCE {
            mailbox.send(Message::Push(PushMessage::Monitor { client: 1, bytes: bytes.clone() }));
        }
        worker.on_mail();
        assert!(worker.has_mail && worker.is_busy(), "all messages were handled at once");
        worker.on_mail();
        assert!(!worker.has_mail && !worker.is_busy());
    }
}
