//! Connections whose command is elsewhere: waiting for a key, or in the slow lane.
//!
//! Their requests are not executed until it is back. What a waiting client sends is read meanwhile, and its hang-up
//! noticed: [`weft_state::ahead`]. See [`weft_executor::blocking`] and [`weft_executor::slow`].

use crate::worker::Worker;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use weft_commands::{Error, FAST_WORK};
use weft_executor::blocking;
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
use weft_state::conn::{Conn, Kept, State};
use weft_state::later::Later;
use weft_state::session::{ReplyMode, Session};
use weft_state::slow_lane::Job;
use weft_state::waiting::Waiting;

/// How soon to look again at a client whose time is over while another thread is at it.
const LOOK_AGAIN_MS: i64 = 1;

const DEMOTED: Error = Error::new(
    "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)",
);
const UNBLOCKED: Error = Error::new("UNBLOCKED client unblocked via CLIENT UNBLOCK");

impl Worker {
    /// Remembers when the time of a client that waits is over.
    pub(super) fn note_deadline(&mut self, waiting: &Waiting) {
        if let Some(at) = waiting.deadline_ms {
            self.deadlines.push(at, waiting.client);
        }
    }

    /// Forgets those of waits that ended early, once there are many. Amortized O(1) for each wait. Not
    /// while there is a batch: who comes to wait in it is not in that state yet.
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

    /// Passes a request to the slow lane; answers what cancels it. A session with a transaction
    /// goes along, as its commands may change it: its connection does nothing until it is back.
    pub(super) fn pass_on(
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
            unreachable!("it was found before");
        };
        let cancel = Arc::new(AtomicBool::new(false));
        let own = &mut self.conns[index].session;
        let mut session = own.detached();
        if cmd.takes_session() {
            std::mem::swap(own, &mut session);
        } else if let Some(own) = &mut own.pushes.tracks {
            own.spend();
        }
        let bytes = args.iter().map(ArgBuf::memory).sum();
        let charge =
            Charge::new(&session.shared.memory.holdings, ClientMemoryKind::Arguments, bytes);
        let job = Job { cmd, args, session, attempt, cancel: cancel.clone(), charge };
        slow::send(self.core.srv, job);
        cancel
    }

    /// Takes a session back that went along.
    fn take_back(&mut self, index: usize, session: Option<Box<Session>>) {
        if let Some(session) = session {
            session.shared.activity.db.store(session.db as u32, Ordering::Relaxed);
            self.conns[index].session = *session;
        }
    }

    /// The session of a client that has gone meanwhile is back.
    fn drop_session(&self, session: Option<Box<Session>>) {
        if let Some(mut session) = session {
            // It may have told of itself as a replica meanwhile.
            hub(self.core.srv).left(self.core.srv, &session.shared);
            pubsub::leave_for_good(self.core.srv, &session.shared);
            transaction::discard(self.core.srv, &mut session);
            tracking::leave_for_good(self.core.srv, &session.shared);
        }
    }

    pub(super) fn slow_done(
        &mut self,
        client: u64,
        mut reply: Reply,
        session: Option<Box<Session>>,
        unit: u64,
    ) {
        let Some(index) = self.conns.index_of(client) else { return self.drop_session(session) };
        self.take_back(index, session);
        self.withhold(index, unit);
        self.answer(index, &mut reply, Awaited::Slow);
        self.see_to_withheld();
    }

    pub(super) fn slow_paused(&mut self, client: u64, kept: Kept, session: Option<Box<Session>>) {
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
        // It may have ended before this was here.
        if self.core.srv.clients.pause.in_force(self.core.srv.mono_ms()).is_none() {
            self.resume(index, Awaited::Pause);
        }
    }

    pub(super) fn slow_blocked(&mut self, waiting: Arc<Waiting>) {
        let Some(index) = self.conns.index_of(waiting.client) else {
            return self.abandon(&waiting);
        };
        self.waits_after_all(index, &waiting);
    }

    /// The client's command has left the slow lane and waits.
    fn waits_after_all(&mut self, index: usize, waiting: &Arc<Waiting>) {
        let conn = &mut self.conns[index];
        if !conn.state.waits_after_all(waiting.clone()) {
            // It is being closed: what it had elsewhere was told so before there was somebody in line.
            return self.abandon(waiting);
        }
        conn.session.shared.activity.blocked.store(true, Ordering::Relaxed);
        self.account_memory(index);
        self.note_deadline(waiting);
        self.release_pushes(index);
        self.widen_interest(index);
    }

    /// The connection of a client that stands in line, if that is so. Its thread was told that before anybody
    /// could find it there.
    fn waiting(&self, waiting: &Arc<Waiting>) -> Option<usize> {
        let index = self.conns.index_of(waiting.client)?;
        let state = &self.conns[index].state;
        state.waiting().is_some_and(|own| Arc::ptr_eq(own, waiting)).then_some(index)
    }

    /// Another thread has served the client.
    pub(super) fn served(&mut self, waiting: &Arc<Waiting>, mut reply: Reply, unit: u64) {
        if let Some(index) = self.waiting(waiting) {
            self.withhold(index, unit);
            self.answer(index, &mut reply, Awaited::Key);
            self.see_to_withheld();
        }
    }

    /// Runs the command of a waiting client again, with all its keys in hand.
    pub(super) fn retry(&mut self, waiting: Arc<Waiting>) {
        let Some(index) = self.waiting(&waiting) else { return self.abandon(&waiting) };
        if waiting.state.is_retry() && waiting.args.len() > FAST_WORK {
            self.retry_in_slow_lane(index, waiting);
        } else if waiting.state.is_retry() {
            let args = waiting.args.to_vec();
            let attempt = Attempt { retry: Some(waiting), ..Attempt::FIRST };
            let kept = Kept { attempt, ..Kept::new(Later::of(args)) };
            let conn = &mut self.conns[index];
            conn.input.kept.push_front(kept);
            conn.session.shared.activity.blocked.store(false, Ordering::Relaxed);
            self.resume(index, Awaited::Key);
        }
    }

    /// As [`Worker::retry`], of a command that would be sent to the slow lane anyway: its arguments stay where they
    /// are.
    #[cold]
    fn retry_in_slow_lane(&mut self, index: usize, waiting: Arc<Waiting>) {
        let args = waiting.args.clone();
        let cancel = self.pass_on(index, args, Attempt { retry: Some(waiting), ..Attempt::FIRST });
        let conn = &mut self.conns[index];
        conn.session.shared.activity.blocked.store(false, Ordering::Relaxed);
        conn.state.tries_elsewhere(cancel);
    }

    /// A client that has come back to try again has ended with that, or waits on. One that was
    /// refused before it could try passes its turn on.
    pub(super) fn end_retry(&self, waiting: &Arc<Waiting>) {
        if waiting.state.is_retry() {
            self.abandon(waiting);
        }
    }

    /// CLIENT UNBLOCK.
    pub(super) fn unblocked(&mut self, waiting: Arc<Waiting>, error: bool) {
        if let Some(index) = self.waiting(&waiting) {
            self.end_wait(index, &waiting, error);
        }
    }

    /// Answers a client that has given up waiting.
    fn end_wait(&mut self, index: usize, waiting: &Arc<Waiting>, error: bool) {
        let srv = self.core.srv;
        blocking::leave(srv, waiting);
        let mut reply = Reply::new(waiting.context.proto);
        if error {
            // As the reference counts it.
            self.core.stats().commands[waiting.cmd.number].rejected.add(1);
            refuse(&self.core, &mut reply, &UNBLOCKED);
        } else if let Some(done) = hub(srv).end_of_wait(srv, waiting) {
            waits::answer(&mut reply, done);
        } else {
            reply.raw(&waiting.timeout_reply);
        }
        count_waited(&self.core, waiting, waiting.spent_ns, &reply, false);
        self.answer(index, &mut reply, Awaited::Key);
    }

    /// This server is a replica from now on: who waits for a key, or for replicas, waits for what will
    /// not come, and is told so. As in the reference its connection ends with that, unless it has said that
    /// it can go elsewhere.
    pub(super) fn demoted(&mut self) {
        let srv = self.core.srv;
        let waits = |conn: &Conn| conn.state.waiting().cloned();
        let all: Vec<_> =
            self.conns.iter().filter_map(|(index, conn)| Some((index, waits(conn)?))).collect();
        for (index, waiting) in all {
            // One that is being served has its reply on the way.
            if !waiting.state.give_up() {
                continue;
            }
            blocking::leave(srv, &waiting);
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

    /// Sends the reply of a command that was elsewhere, and goes on with the connection.
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
        self.deliver(index, reply);
        self.release_pushes(index);
    }

    /// Milliseconds until the time of the next waiting client is over.
    pub(super) fn until_deadline(&self, now_ms: i64) -> Option<i64> {
        self.deadlines.first().map(|(at, _)| (at - now_ms).max(0))
    }

    /// Answers the clients whose time is over.
    pub(super) fn end_waits(&mut self) {
        if self.deadlines.is_empty() {
            return;
        }
        let now = self.core.srv.mono_ms();
        while let Some((_, client)) = self.deadlines.pop_due(now) {
            let Some(index) = self.conns.index_of(client) else { continue };
            let Some(waiting) = self.conns[index].state.waiting().cloned() else { continue };
            if waiting.deadline_ms.is_none_or(|deadline| deadline > now) {
                // An old entry of a client that waits for something else by now.
                continue;
            }
            if waiting.state.give_up() {
                self.end_wait(index, &waiting, false);
            } else if !waiting.state.is_over() {
                // It is being tried; that may come to nothing.
                self.deadlines.push(now + LOOK_AGAIN_MS, client);
            }
        }
    }

    /// The connection of a client is about to end: what it has elsewhere ends with it.
    pub(super) fn forget(&self, client: u64, state: &State, kept: Option<&Kept>) {
        match state {
            State::Slow(cancel) => {
                cancel.store(true, Ordering::Relaxed);
                // It may be its turn in a line, and be long until the lane comes to it.
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

/// Whether the client whose time is over at `deadline` may need an entry for `at`. One whose time is over needs
/// any: it is being tried, and is looked at again a little later than at its deadline.
fn is_of(deadline: i64, at: i64, now: i64) -> bool {
    deadline == at || deadline <= now
}

/// CLIENT REPLY drops what a command has answered, but no pushes.
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
    fn who_is_being_tried_when_its_time_is_over_is_looked_at_again() {
        assert!(is_of(100, 100, 50), "it waits");
        assert!(!is_of(100, 70, 50) && !is_of(100, 130, 50), "an earlier wait");
        assert!(is_of(100, 103, 102), "it is looked at again");
    }
}
