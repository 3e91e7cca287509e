//! Moving connections between threads: completely, in order, and only between commands.
//!
//! ```text
//!  owner                                         new owner
//!  removes the connection from its loop
//!  stores the new owner's number
//!  Moved(connection) ────────────────────────►   adds it to its loop
//! ```
//!
//! Other threads find a client's thread by that number, which changes during the move. The only
//! message sent to a moving client is Kill, and it isn't lost. If it arrives after the connection
//! left, it is forwarded by the number. If it arrives before the connection, the connection is
//! already marked as killed.
//!
//! Messages published or pushed to the client move with it. The old owner takes the publishers'
//! locks, appends the messages in its own mailbox to the client's output, and puts the connection
//! into the new owner's mailbox. Later messages queue after the connection there, so no message is
//! lost, duplicated or early.
//!
//! Some connections don't move, because other threads know where they are: those whose command runs
//! elsewhere (blocked on a key or shard, or in the slow lane), those with unread replies, and
//! monitors. A client with very many subscriptions doesn't move either, since that takes long.

use crate::worker::events::CALL;
use crate::worker::{Worker, token};
use std::sync::atomic::Ordering;
use weft_executor::pubsub;
use weft_net::interest::Interest;
use weft_process::log_warning;
use weft_resp::Reply;
use weft_state::authority::NO_TERM;
use weft_state::conn::{Conn, MoveMessage};
use weft_state::mailbox::Message;

/// Clients with more subscriptions don't move.
const SUBSCRIPTIONS: usize = 1000;

impl Worker {
    /// Handles a message, and returns its cost.
    pub(super) fn handle_move(&mut self, message: MoveMessage) -> usize {
        let all = CALL * self.conns.len();
        match message {
            MoveMessage::Moved(conn) => {
                self.move_in(*conn);
                return CALL;
            }
            MoveMessage::Shed { to, share } => self.shed(to, share),
            MoveMessage::Scatter => self.scatter(),
        }
        all
    }

    /// Moves connections worth `share` of this thread's work to thread `to`, the heaviest first.
    fn shed(&mut self, to: usize, share: f64) {
        // The decision may be out of date.
        if to == self.core.id || to >= self.core.srv.threads.active() {
            return;
        }
        let mut all: Vec<(u64, usize)> =
            self.conns.iter().map(|(index, conn)| (self.recent_work(conn), index)).collect();
        all.sort_unstable_by(|a, b| b.cmp(a));
        let total: u64 = all.iter().map(|(work, _)| work).sum();
        let mut left = total as f64 * share;
        for (work, index) in all {
            // Rounded to the nearest connection: moving half a connection's work too much is fine.
            if work == 0 || left <= 0.0 {
                return;
            }
            if work as f64 / 2.0 <= left && self.may_move(&self.conns[index]) {
                left -= work as f64;
                self.move_out(index, to);
            }
        }
    }

    /// Moves all movable connections to active threads.
    pub(super) fn hand_over(&mut self) {
        for index in self.conns.indices() {
            if self.may_move(&self.conns[index]) {
                self.move_out(index, self.core.srv.threads.emptiest());
            }
        }
    }

    /// Moves all movable connections to random threads, active or not.
    fn scatter(&mut self) {
        let all: Vec<usize> = self.conns.indices();
        let threads = self.core.srv.threads.configured() as u64;
        for index in all {
            if self.may_move(&self.conns[index]) {
                let to = (self.core.context.random() % threads) as usize;
                self.move_out(index, to);
            }
        }
    }

    /// Work of a connection in the last two load periods.
    fn recent_work(&self, conn: &Conn) -> u64 {
        if self.upkeep.period.wrapping_sub(conn.usage.work_period) <= 1 {
            conn.usage.work
        } else {
            0
        }
    }

    fn may_move(&self, conn: &Conn) -> bool {
        let session = &conn.session;
        !session.pushes.monitor
            // Commands for replicas are sent to the connection's thread.
            && !session.shared.replica.is_known.load(Ordering::SeqCst)
            && conn.state.may_move(conn.pending())
            // All publishers wait while the subscriptions are changed to the new thread.
            && session.shared.pushes.subscriptions.all() <= SUBSCRIPTIONS
    }

    fn move_out(&mut self, index: usize, to: usize) {
        if to == self.core.id {
            return;
        }
        let srv = self.core.srv;
        let Some(mut conn) = self.conns.remove(index) else { return };
        let accounted = std::mem::take(&mut conn.usage.accounted);
        self.core.stats().client_memory.add(0u64.wrapping_sub(accounted));
        self.poll.remove(&conn.stream);
        srv.threads[self.core.id].stats.network.connections.shared_sub(1);
        srv.threads[to].stats.network.connections.shared_add(1);
        self.core.stats().network.moved.add(1);
        let from = self.core.id;
        let shared = conn.session.shared.clone();
        let route = shared.route();
        // Pushes are rare, and most are taken before the publishers are locked out.
        let listens = conn.session.pushes.listens || route.was_pushed_to;
        if listens {
            self.take_along(&mut conn);
        }
        let subscriber = shared.subscriber();
        let registry = srv.clients.registry_of(&shared);
        let moment =
            subscriber.as_ref().map(|s| registry.relocate(shared.id, from, to, &**s));
        if moment.is_some() {
            self.take_along(&mut conn);
        }
        shared.set_thread(to);
        srv.threads[to].mailbox.put(Message::Move(MoveMessage::Moved(Box::new(conn))));
        drop((moment, subscriber, route));
        srv.threads[to].mailbox.ring();
    }

    /// Appends the messages in this thread's mailbox to the output of a connection that is about to
    /// move.
    fn take_along(&mut self, conn: &mut Conn) {
        let mut pushes = Reply::new(conn.session.proto);
        pubsub::append_messages(&mut self.core, &mut conn.session, &mut pushes);
        conn.session.replies.keep = None;
        let term = std::mem::replace(&mut conn.session.replies.term, NO_TERM);
        if term != NO_TERM && !self.core.srv.may_acknowledge(term) {
            // Its new thread closes it.
            conn.session.shared.killed.store(true, Ordering::Relaxed);
            return;
        }
        conn.output.backlog.push(&mut pushes, 0);
    }

    /// Adds a connection that another thread has moved here.
    fn move_in(&mut self, mut conn: Conn) {
        conn.generation = self.conns.next_generation();
        conn.interest = Interest::READ;
        conn.usage.work_period = self.upkeep.period;
        conn.usage.work = 0;
        // Earlier pushes are already in its output.
        conn.session.pushes.seen = 0;
        let arrival = conn.state.on_arrival(conn.pending());
        conn.output.pushed = arrival.send;
        let killed = conn.session.shared.killed.load(Ordering::Relaxed);
        let index = self.conns.insert(conn);
        let conn = &self.conns[index];
        let added = self.poll.add(&conn.stream, token(index, conn.generation), Interest::READ);
        if let Err(e) = &added {
            log_warning!("Registering a client connection that was moved: {e}");
        }
        if killed || added.is_err() {
            return self.close(index);
        }
        self.account_memory(index);
        if arrival.queue {
            self.conns.queued.push(index);
        }
        if arrival.send {
            self.pushes.pushed.push_back(index);
        }
    }
}
