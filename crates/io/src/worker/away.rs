//! Connections whose command is not on this thread: blocked on a key, or running in the slow lane.
//!
//! Their later requests wait until it finishes. Meanwhile a blocked client's input is read ahead,
//! so that its hang-up is noticed: [`weft_state::ahead`]. See [`weft_executor::blocking`] and
//! [`weft_executor::slow`].

use crate::worker::Worker;
use crate::worker::events::CALL;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use weft_commands::{Error, FAST_WORK};
use weft_executor::blocking;
use weft_executor::cluster;
use weft_executor::dispatch::reply::{count_waited, refuse};
use weft_executor::pubsub;
use weft_executor::slow;
use weft_executor::tracking;
use weft_executor::transaction;
use weft_memory::holdings::{Charge, ClientMemoryKind};
use weft_net::lifecycle::Awaited;
use weft_replication_driver::hub;
use weft_replication_driver::primary::waits;
use weft_resp::Reply;
use weft_state::args::ArgBuf;
use weft_state::attempt::Attempt;
use weft_state::authority::NO_TERM;
use weft_state::conn::{Conn, DeferredRequest, State};
use weft_state::packed_requests::PackedRequests;
use weft_state::session::{ReplyMode, Session};
use weft_state::slow_lane::{Job, SlowMessage};
use weft_state::waiting::{WaitMessage, Waiting};

/// Delay before checking a timed-out client again while another thread retries its command.
const LOOK_AGAIN_MS: i64 = 1;

const DEMOTED: Error = Error::new(
    "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)",
);
const UNBLOCKED: Error = Error::new("UNBLOCKED client unblocked via CLIENT UNBLOCK");

impl Worker {
    /// Handles a message about blocked clients, and returns its cost.
    pub(super) fn handle_wait(&mut self, message: WaitMessage) -> usize {
        match message {
            WaitMessage::Served { waiting, reply, unit, term } => {
                self.served(&waiting, reply, unit, term);
            }
            WaitMessage::Retry { waiting } => self.retry(waiting),
            WaitMessage::Unblocked { waiting, error } => self.unblocked(waiting, error),
            WaitMessage::Demoted => {
                let cost = CALL * self.conns.len();
                self.demoted();
                return cost;
            }
            WaitMessage::Rerouted => {
                let cost = CALL * self.conns.len();
                self.rerouted();
                return cost;
            }
        }
        CALL
    }

    /// Handles the result of a command in the slow lane, and returns its cost.
    pub(super) fn handle_slow(&mut self, message: SlowMessage) -> usize {
        match message {
            SlowMessage::Done { client, reply, session, unit } => {
                self.slow_done(client, reply, session, unit);
            }
            SlowMessage::Blocked { waiting } => self.slow_blocked(waiting),
            SlowMessage::Paused { client, kept, session } => {
                self.slow_paused(client, kept, session);
            }
        }
        CALL
    }

    /// Records when a blocked client times out.
    pub(super) fn note_deadline(&mut self, waiting: &Waiting) {
        if let Some(at) = waiting.deadline_ms {
            self.deadlines.push(at, waiting.client);
        }
    }

    /// Removes deadlines of waits that ended early, once there are many. Amortized O(1) for each
    /// wait. Not allowed while a batch is being executed: a client that blocks in it is not in the
    /// blocked state yet.
    #[inline]
    pub(super) fn forget_deadlines(&mut self) {
        if self.deadlines.is_crowded() {
            self.forget_old_deadlines();
        }
    }

    #[cold]
    fn forget_old_deadlines(&mut self) {
        let now = self.core.srv.mono_ms();
        let conns = &self.conns;
        self.deadlines.retain(|at, client| {
            let waiting = conns.of_client(client).and_then(|conn| conn.state.waiting());
            waiting.and_then(|waiting| waiting.deadline_ms).is_some_and(|own| is_of(own, at, now))
        });
    }

    /// Passes a request to the slow lane. Returns the flag that cancels it. A session in a
    /// transaction goes along, because the transaction's commands may change it: its connection
    /// does nothing until the session returns.
    pub(super) fn send_to_slow_lane(
        &mut self,
        index: usize,
        args: Arc<Vec<ArgBuf>>,
        attempt: Attempt,
    ) -> Arc<AtomicBool> {
        let cmd = self.core.srv.table.find(args[0].bytes());
        let Some(cmd) = cmd.map(|cmd| match args.get(1) {
            Some(word) if !cmd.subcommands.is_empty() => {
                cmd.subcommand(word.bytes()).unwrap_or(cmd)
            }
            _ => cmd,
        }) else {
            unreachable!("the command was looked up before");
        };
        let cancel = Arc::new(AtomicBool::new(false));
        let conn = &mut self.conns[index];
        let own = &mut conn.session;
        if conn.output.term == NO_TERM {
            conn.output.term = own.replies.term;
        }
        own.replies.term = NO_TERM;
        let mut session = own.detached();
        if cmd.takes_session() {
            std::mem::swap(own, &mut session);
        } else if let Some(own) = &mut own.pushes.tracks {
            own.spend();
        }
        let bytes = args.iter().map(ArgBuf::memory).sum();
        let charge =
            Charge::new(&session.shared.memory.holdings, ClientMemoryKind::Arguments, bytes);
        let (srv, cancel_too) = (self.core.srv, cancel.clone());
        let queued_ms = srv.mono_ms();
        slow::send(srv, Job { cmd, args, session, attempt, cancel: cancel_too, charge, queued_ms });
        cancel
    }

    /// Takes back a session that went along with its command.
    fn take_back(&mut self, index: usize, session: Option<Box<Session>>) {
        if let Some(session) = session {
            session.shared.activity.db.store(session.db as u32, Ordering::Relaxed);
            self.conns[index].session = *session;
        }
    }

    /// Releases the resources of a returned session whose client has closed meanwhile.
    fn drop_session(&self, session: Option<Box<Session>>) {
        if let Some(mut session) = session {
            // It may have registered as a replica meanwhile.
            hub(self.core.srv).left(self.core.srv, &session.shared);
            pubsub::leave_for_good(self.core.srv, &session.shared);
            transaction::discard(self.core.srv, &mut session);
            tracking::leave_for_good(self.core.srv, &session.shared);
        }
    }

    fn slow_done(
        &mut self,
        client: u64,
        mut reply: Reply,
        session: Option<Box<Session>>,
        unit: u64,
    ) {
        let Some(index) = self.conns.index_of(client) else { return self.drop_session(session) };
        self.take_back(index, session);
        self.withhold(index, self.unit_of_replies(index, unit));
        self.answer(index, &mut reply, Awaited::Slow);
        self.release_withheld();
    }

    fn slow_paused(&mut self, client: u64, kept: DeferredRequest, session: Option<Box<Session>>) {
        let Some(index) = self.conns.index_of(client) else {
            kept.attempt.retry.iter().for_each(|waiting| self.abandon(waiting));
            return self.drop_session(session);
        };
        self.take_back(index, session);
        self.release_pushes(index);
        let conn = &mut self.conns[index];
        if !conn.state.pause_after_slow() {
            kept.attempt.retry.iter().for_each(|waiting| self.abandon(waiting));
            return;
        }
        conn.input.kept.push_front(kept);
        conn.session.shared.activity.blocked.store(true, Ordering::Relaxed);
        self.widen_interest(index);
        // The pause may have ended before this arrived.
        if !self.core.srv.is_paused() {
            self.resume(index, Awaited::Pause);
        }
    }

    fn slow_blocked(&mut self, waiting: Arc<Waiting>) {
        let Some(index) = self.conns.index_of(waiting.client) else {
            return self.abandon(&waiting);
        };
        self.waits_after_all(index, &waiting);
    }

    /// The client's command has left the slow lane and blocks.
    fn waits_after_all(&mut self, index: usize, waiting: &Arc<Waiting>) {
        let conn = &mut self.conns[index];
        if !conn.state.waits_after_all(waiting.clone()) {
            // The connection is closing. Its command was cancelled before the client was in a wait
            // queue.
            return self.abandon(waiting);
        }
        conn.session.shared.activity.blocked.store(true, Ordering::Relaxed);
        self.account_memory(index);
        self.note_deadline(waiting);
        self.release_pushes(index);
        self.widen_interest(index);
    }

    /// The connection of a client if it is still blocked by `waiting`. Its thread is notified of
    /// the wait before another thread can find it in the wait queue.
    fn waiting(&self, waiting: &Arc<Waiting>) -> Option<usize> {
        let index = self.conns.index_of(waiting.client)?;
        let state = &self.conns[index].state;
        state.waiting().is_some_and(|own| Arc::ptr_eq(own, waiting)).then_some(index)
    }

    /// Another thread has served the blocked client.
    fn served(&mut self, waiting: &Arc<Waiting>, mut reply: Reply, unit: u64, term: u64) {
        if let Some(index) = self.waiting(waiting) {
            if term != NO_TERM {
                self.set_term(index, term);
            }
            self.withhold(index, self.unit_of_replies(index, unit));
            self.answer(index, &mut reply, Awaited::Key);
            self.release_withheld();
        }
    }

    /// Retries the command of a blocked client, with all its keys locked.
    fn retry(&mut self, waiting: Arc<Waiting>) {
        let Some(index) = self.waiting(&waiting) else { return self.abandon(&waiting) };
        if waiting.state.is_retry() && waiting.args.len() > FAST_WORK {
            // Before it executes: it may have blocked in an earlier term.
            self.set_term(index, self.core.srv.nodes.cluster.authority.term());
            self.retry_in_slow_lane(index, waiting);
        } else if waiting.state.is_retry() {
            self.set_term(index, NO_TERM);
            let args = waiting.args.to_vec();
            let attempt = Attempt { retry: Some(waiting), ..Attempt::FIRST };
            let kept =
                DeferredRequest { attempt, ..DeferredRequest::new(PackedRequests::of(args)) };
            let conn = &mut self.conns[index];
            conn.input.kept.push_front(kept);
            conn.session.shared.activity.blocked.store(false, Ordering::Relaxed);
            self.resume(index, Awaited::Key);
        }
    }

    /// Like [`Worker::retry`], for a command that would be sent to the slow lane anyway: its
    /// arguments aren't copied.
    #[cold]
    fn retry_in_slow_lane(&mut self, index: usize, waiting: Arc<Waiting>) {
        let args = waiting.args.clone();
        let cancel =
            self.send_to_slow_lane(index, args, Attempt { retry: Some(waiting), ..Attempt::FIRST });
        let conn = &mut self.conns[index];
        conn.session.shared.activity.blocked.store(false, Ordering::Relaxed);
        conn.state.tries_elsewhere(cancel);
    }

    /// Ends a retry that neither succeeded nor blocked again, such as one that was refused before
    /// it ran: the next client in the wait queue gets its chance.
    pub(super) fn end_retry(&self, waiting: &Arc<Waiting>) {
        if waiting.state.is_retry() {
            self.abandon(waiting);
        }
    }

    /// CLIENT UNBLOCK.
    fn unblocked(&mut self, waiting: Arc<Waiting>, error: bool) {
        if let Some(index) = self.waiting(&waiting) {
            self.end_wait(index, &waiting, error);
        }
    }

    /// Ends a client's wait on timeout or CLIENT UNBLOCK, and replies.
    fn end_wait(&mut self, index: usize, waiting: &Arc<Waiting>, error: bool) {
        let srv = self.core.srv;
        blocking::leave(srv, waiting);
        let mut reply = Reply::new(waiting.context.proto);
        if error {
            self.set_term(index, NO_TERM);
            // Counted as rejected, as in Valkey.
            self.core.stats().commands[waiting.cmd.number].rejected.add(1);
            refuse(&self.core, &mut reply, &UNBLOCKED);
        } else if let Some(done) = hub(srv).result_at_timeout(srv, waiting) {
            waits::answer(&mut reply, done);
        } else {
            self.set_term(index, srv.nodes.cluster.authority.term());
            reply.raw(&waiting.timeout_reply);
        }
        count_waited(&self.core, waiting, waiting.spent_ns, &reply, false);
        self.answer(index, &mut reply, Awaited::Key);
    }

    /// This server has become a replica: clients blocked on keys or on replicas would wait forever,
    /// so they get an error. As in Valkey their connections are then closed, except those that
    /// declared the `redirect` capability.
    fn demoted(&mut self) {
        let srv = self.core.srv;
        // A CLUSTER command may be the reason of the change: its client waits for it.
        let waits =
            |conn: &Conn| conn.state.waiting().filter(|waiting| !waiting.is_of_cluster()).cloned();
        let all: Vec<_> =
            self.conns.iter().filter_map(|(index, conn)| Some((index, waits(conn)?))).collect();
        for (index, waiting) in all {
            // Another thread is serving this client, and its reply is on the way.
            if !waiting.state.give_up() {
                continue;
            }
            blocking::leave(srv, &waiting);
            self.set_term(index, NO_TERM);
            self.core.stats().commands[waiting.cmd.number].rejected.add(1);
            let session = &mut self.conns[index].session;
            let to = hub(srv).primary_of().filter(|_| session.options.redirect_capable);
            let error = match to {
                Some((host, port)) => Error::owned(format!("REDIRECT {host}:{port}")),
                None => {
                    session.close = true;
                    DEMOTED
                }
            };
            let mut reply = Reply::new(waiting.context.proto);
            refuse(&self.core, &mut reply, &error);
            count_waited(&self.core, &waiting, waiting.spent_ns, &reply, false);
            self.answer(index, &mut reply, Awaited::Key);
        }
    }

    /// This node of a cluster has lost slots: clients blocked on their keys get a redirect, and subscriptions to their
    /// shard channels end.
    fn rerouted(&mut self) {
        for index in self.conns.indices() {
            let waiting = self.conns.get(index).and_then(|conn| conn.state.waiting().cloned());
            if let Some(waiting) = waiting {
                self.reroute(index, &waiting);
            }
            let Some(conn) = self.conns.get_mut(index) else { continue };
            if !conn.session.shared.is_subscriber() || conn.state.is_closing() {
                continue;
            }
            let (core, session) = (&mut self.core, &mut conn.session);
            let mut pushes = Reply::new(session.proto);
            cluster::change::end_lost_subscriptions(core, session, &mut pushes);
            if !pushes.is_empty() {
                conn.output.backlog.write(|reply| reply.append(&mut pushes));
                let is_paused = conn.output.held_back.is_some();
                self.appended(index, is_paused);
            }
        }
    }

    /// Ends the wait of a client that is blocked on a slot which another node serves now.
    fn reroute(&mut self, index: usize, waiting: &Arc<Waiting>) {
        let Some(error) = cluster::change::error_of_blocked(&mut self.core, waiting) else {
            return;
        };
        // Another thread is serving this client, and its reply is on the way.
        if !waiting.state.give_up() {
            return;
        }
        blocking::leave(self.core.srv, waiting);
        self.set_term(index, NO_TERM);
        self.core.stats().commands[waiting.cmd.number].rejected.add(1);
        let mut reply = Reply::new(waiting.context.proto);
        refuse(&self.core, &mut reply, &error);
        count_waited(&self.core, waiting, waiting.spent_ns, &reply, false);
        self.answer(index, &mut reply, Awaited::Key);
    }

    /// Sends the reply of a command that did not run on this thread, and resumes the connection.
    fn answer(&mut self, index: usize, reply: &mut Reply, by: Awaited) {
        let conn = &mut self.conns[index];
        let session = &mut conn.session;
        session.shared.activity.blocked.store(false, Ordering::Relaxed);
        session.shared.touch(self.core.srv.mono_ms());
        match session.replies.mode {
            ReplyMode::On => {}
            ReplyMode::Off => drop_reply(session, reply),
            ReplyMode::SkipNext | ReplyMode::Skipping => {
                session.replies.mode = ReplyMode::On;
                drop_reply(session, reply);
            }
        }
        if session.close {
            conn.state.close();
        }
        self.resume(index, by);
        if self.needs_authority(index) && !self.check_authority(index, reply) {
            return;
        }
        self.deliver(index, reply);
        self.release_pushes(index);
    }

    /// Milliseconds until the next blocked client times out.
    pub(super) fn until_deadline(&self, now_ms: i64) -> Option<i64> {
        self.deadlines.first().map(|(at, _)| (at - now_ms).max(0))
    }

    /// Ends the waits that have timed out.
    pub(super) fn end_waits(&mut self) {
        if self.deadlines.is_empty() {
            return;
        }
        let now = self.core.srv.mono_ms();
        while let Some((_, client)) = self.deadlines.pop_due(now) {
            let Some(index) = self.conns.index_of(client) else { continue };
            let Some(waiting) = self.conns[index].state.waiting().cloned() else { continue };
            if waiting.deadline_ms.is_none_or(|deadline| deadline > now) {
                // A stale entry of a client that now waits for something else.
                continue;
            }
            if waiting.state.give_up() {
                self.end_wait(index, &waiting, false);
            } else if !waiting.state.is_over() {
                // Another thread retries the command, which may fail.
                self.deadlines.push(now + LOOK_AGAIN_MS, client);
            }
        }
    }

    /// Cancels the pending command of a connection that is about to close.
    pub(super) fn forget(&self, client: u64, state: &State, kept: Option<&DeferredRequest>) {
        match state {
            State::Slow(cancel) => {
                cancel.store(true, Ordering::Relaxed);
                // The client may be next in a wait queue, and the slow lane may take long to see
                // the cancellation.
                if let Some(waiting) = self.core.srv.clients.blocked.of_client(client) {
                    self.abandon(&waiting);
                }
            }
            State::Waiting(waiting) => self.abandon(waiting),
            State::Reading
            | State::Ready
            | State::Executing
            | State::Parked
            | State::Paused
            | State::Withheld(_)
            | State::Full
            | State::Closing => {}
        }
        if let Some(waiting) = kept.and_then(|kept| kept.attempt.retry.as_ref()) {
            self.abandon(waiting);
        }
    }

    pub(super) fn abandon(&self, waiting: &Arc<Waiting>) {
        blocking::abandon(self.core.srv, waiting);
    }
}

/// Whether the client with deadline `deadline` may need an entry for `at`. After its deadline it
/// needs any entry: its command is being retried, and the entry is for the check after the retry.
fn is_of(deadline: i64, at: i64, now: i64) -> bool {
    deadline == at || deadline <= now
}

/// Drops the command's reply, as CLIENT REPLY asks, but keeps pushes.
fn drop_reply(session: &mut Session, reply: &mut Reply) {
    match session.replies.keep.take() {
        Some(mark) => reply.truncate(mark),
        None => reply.clear(),
    }
}

#[cfg(test)]
mod tests {
    use super::is_of;

    #[test]
    fn client_retried_at_its_deadline_keeps_its_entry() {
        assert!(is_of(100, 100, 50), "it is waiting");
        assert!(!is_of(100, 70, 50) && !is_of(100, 130, 50), "an earlier wait");
        assert!(is_of(100, 103, 102), "it is checked again");
    }
}
