//! What has happened, and what is done about it.

use crate::worker::{LISTENERS, MAILBOX, Worker, token};
use std::sync::atomic::Ordering;
use weft_net::lifecycle::{Awaited, Ended};
use weft_net::poll::Ready;
use weft_pubsub::run::Run;
use weft_state::mailbox::Message;

/// What is worked off of the mail before connections have a turn: in pushes that are appended to outputs,
/// some milliseconds. Others may send faster than this thread works it off, and for ever.
const AT_ONCE: usize = 16 << 10;

/// What a message costs that makes a call of the kernel, in the same.
const CALL: usize = 16;

impl Worker {
    pub(super) fn on_event(&mut self, event: Ready) {
        if self.execution.batch.is_full() {
            self.flush();
            // What clients of that batch had to look at ahead is not looked at again by those of the next.
            if self.core.mail.has_read_ahead() {
                self.work_off();
            }
        }
        if event.token >= LISTENERS {
            // Both may end or begin connections: a batch must not find another one in the slot
            // of one that it has read from.
            self.flush();
            if event.token == MAILBOX {
                return self.on_mail();
            }
            return self.accept((event.token - LISTENERS) as usize);
        }
        let Some(index) = self.find(event.token) else { return };
        if event.write && self.conns[index].interest.write {
            self.on_writable(index);
        }
        if event.read && self.find(event.token).is_some() {
            self.on_input(index, event);
        }
    }

    /// The connection of that token, if it is still there.
    pub(super) fn find(&self, token_of: u64) -> Option<usize> {
        let index = token_of as u32 as usize;
        self.conns.get(index).filter(|c| token(index, c.generation) == token_of).map(|_| index)
    }

    /// There is something to read, or never will be again.
    fn on_input(&mut self, index: usize, event: Ready) {
        if self.conns[index].state.is_in_batch() {
            self.flush();
        }
        let Some(conn) = self.conns.get(index) else { return };
        if conn.state.reads() {
            return self.on_readable(index);
        }
        // What it asked for is under way. Nobody would take the answer of a broken one.
        // Who stands in line waits for a key, also while its command tries by itself.
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
        // It is watched for what it does not read now: only who sends meanwhile costs a system call.
        self.set_interest(index);
    }

    /// Watches the socket for what the state says, and for nothing else.
    fn set_interest(&mut self, index: usize) {
        let conn = &mut self.conns[index];
        let want = conn.wanted();
        if want != conn.interest {
            conn.interest = want;
            let _ = self.poll.change(&conn.fd, token(index, conn.generation), want);
        }
    }

    /// Watches the socket for all that the state says, and possibly more.
    pub(super) fn widen_interest(&mut self, index: usize) {
        let conn = &self.conns[index];
        if !conn.interest.covers(conn.wanted()) {
            self.set_interest(index);
        }
    }

    pub(super) fn on_mail(&mut self) {
        self.core.srv.threads[self.core.id].mailbox.acknowledge();
        self.work_off();
    }

    /// Works off what has come, or so much of it that others have to have a turn.
    fn work_off(&mut self) {
        let mailbox = &self.core.srv.threads[self.core.id].mailbox;
        self.has_mail = false;
        let mut spent = 0;
        let mut run: Option<Run> = None;
        while let Some((number, message)) = self.core.mail.next(|| mailbox.take()) {
            spent += self.cost(&message);
            if !matches!(message, Message::Published(_)) {
                self.end_run(&mut run);
            }
            match message {
                Message::Published(published) => self.add_to_run(&mut run, number, published),
                Message::Push { client, what } => self.push_to(&client, &what, number),
                Message::PushedTo { client } => self.pushed_to(client),
                Message::SlowBegun { client } => self.slow_begun(client),
                Message::Accepted(accepted) => self.adopt(accepted),
                Message::Unpark { token } => {
                    if let Some(index) = self.find(token) {
                        self.resume(index, Awaited::Shard);
                    }
                }
                Message::Moved(conn) => self.move_in(*conn),
                Message::Shed { to, share } => self.shed(to, share),
                Message::Write { from, jobs } => self.write_for(from, jobs),
                Message::Written { done } => done.into_iter().for_each(|w| self.written(w)),
                Message::Scatter => self.scatter(),
                Message::Kill { client } => self.kill(client),
                Message::Feed { client, bytes } => self.feed(client, &bytes),
                Message::Replica { client, order } => self.for_replica(client, order),
                Message::StreamGrown => self.feed_all(),
                Message::Demoted => self.demoted(),
                Message::Durable => self.durable(),
                Message::Unpause => self.resume_all(Awaited::Pause),
                Message::Served { waiting, reply, unit } => self.served(&waiting, reply, unit),
                Message::Retry { waiting } => self.retry(waiting),
                Message::Unblocked { waiting, error } => self.unblocked(waiting, error),
                Message::SlowDone { client, reply, session, unit } => {
                    self.slow_done(client, reply, session, unit);
                }
                Message::SlowBlocked { waiting } => self.slow_blocked(waiting),
                Message::SlowPaused { client, kept, session } => {
                    self.slow_paused(client, kept, session);
                }
                Message::Listen { listeners } => self.listen(listeners),
                // Whether this thread is active may have changed: its cron sees to that.
                Message::Wake => {
                    self.upkeep.next_cron_ms = 0;
                    self.bind_again();
                }
                Message::Stop => {}
            }
            if spent > AT_ONCE {
                self.has_mail = true;
                break;
            }
        }
        self.end_run(&mut run);
    }

    /// What it takes to work a message off, about: see [`AT_ONCE`].
    #[inline]
    fn cost(&self, message: &Message) -> usize {
        match message {
            Message::Published(published) => published.receivers(),
            Message::Push { .. }
            | Message::Feed { .. }
            | Message::PushedTo { .. }
            | Message::SlowBegun { .. }
            | Message::Unpark { .. }
            | Message::Wake
            | Message::Stop => 1,
            Message::Accepted(_)
            | Message::Moved(_)
            | Message::Kill { .. }
            | Message::Durable
            | Message::Served { .. }
            | Message::Retry { .. }
            | Message::Unblocked { .. }
            | Message::SlowDone { .. }
            | Message::SlowBlocked { .. }
            | Message::SlowPaused { .. }
            | Message::Replica { .. }
            | Message::Listen { .. } => CALL,
            Message::Write { jobs, .. } => CALL * jobs.len(),
            Message::Written { done } => CALL * done.len(),
            Message::Unpause => self.conns.len(),
            Message::Shed { .. } | Message::Scatter | Message::Demoted => CALL * self.conns.len(),
            Message::StreamGrown => CALL * self.pushes.streams.len(),
        }
    }

    /// What the connection may have waited for is there.
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

    /// The first I/O thread of a server of its own.
    fn worker() -> Worker {
        let srv = server();
        srv.threads.fill(1).expect("descriptors");
        srv.ks.safepoints().use_up_to(1);
        srv.threads.note_started(1);
        Worker::new(0, srv, Vec::new()).expect("descriptors")
    }

    #[test]
    fn mail_without_end_leaves_turns_to_connections() {
        let mut worker = worker();
        let mailbox = &worker.core.srv.threads[0].mailbox;
        let bytes = Arc::new(b"+a line of MONITOR\r\n".to_vec());
        for _ in 0..2 * AT_ONCE {
            mailbox.send(Message::Feed { client: 1, bytes: bytes.clone() });
        }
        worker.on_mail();
        assert!(worker.has_mail && worker.is_busy(), "all of it was worked off at once");
        worker.on_mail();
        assert!(!worker.has_mail && !worker.is_busy());
    }
}
