//! Delivering published messages: appending them to clients' output, then sending.
//!
//! ```text
//!  mailbox ─► appended to each receiver's output     at once, in mailbox order
//!             the connection joins the send queue
//!  queue   ─► sent                                   some connections in each iteration
//! ```
//!
//! A message for a thousand clients costs a thousand system calls. Doing them all in one iteration
//! would delay the other clients and the publisher. While the send queue is processed, more
//! messages are published, and a queued client gets all of its messages in one system call. So the
//! more there is to send, the less each message costs. A client gets each message after at most one
//! pass over the queue.

use crate::worker::Worker;
use crate::write::refuse_answer;
use crate::write::send_pending;
use std::sync::atomic::Ordering;
use weft_executor::pubsub;
use weft_net::backlog::Backlog;
use weft_pubsub::message::Published;
use weft_pubsub::run::Run;
use weft_state::attention;
use weft_state::clients::ClientShared;
use weft_state::conn::State;
use weft_state::held_back::Push;
use weft_state::push::PushMessage;
use weft_state::session::Session;
use weft_tracking::message::Message as Invalidation;

/// Each iteration sends to this fraction of the queue, within the bounds below. The fraction does
/// not depend on the queue's length, so the cost of a message doesn't either.
const SHARE: usize = 16;
const AT_LEAST: usize = 16;
const AT_MOST: usize = 256;

const KILOBYTE: usize = 1024;

#[inline]
fn write(out: &mut Backlog, session: &Session, push: Push<'_>) {
    out.write(|reply| push.write(session.proto, session.pushes.subscribes, reply));
}

/// The weight of the messages in the mailbox.
fn weight(run: &Run) -> usize {
    run.each().map(|(_, message)| message.weight()).sum()
}

impl Worker {
    /// Handles message `number`, and returns its cost.
    #[inline]
    pub(super) fn handle_push(
        &mut self,
        message: PushMessage,
        number: u64,
        run: &mut Option<Run>,
    ) -> usize {
        match message {
            PushMessage::Published(published) => {
                let cost = published.receivers();
                self.add_to_run(run, number, published);
                return cost;
            }
            PushMessage::Invalidation { client, what } => self.push_to(&client, &what, number),
            PushMessage::Expected { client } => self.expect_push(client),
            PushMessage::HoldBack { client } => self.hold_back_pushes(client),
            PushMessage::Monitor { client, bytes } => self.feed(client, &bytes),
        }
        1
    }

    /// Adds a message to the run of consecutive messages, or delivers that run and begins another.
    fn add_to_run(&mut self, run: &mut Option<Run>, number: u64, message: Box<Published>) {
        let message = match run {
            Some(run) => match run.add(message) {
                Ok(()) => return,
                Err(message) => message,
            },
            None => message,
        };
        if let Some(before) = run.replace(Run::new(number, message)) {
            self.deliver_run(&before);
        }
    }

    /// Delivers the current run: the next item in the mailbox is not a message, or there is none.
    pub(super) fn end_run(&mut self, run: &mut Option<Run>) {
        if let Some(run) = run.take() {
            self.deliver_run(&run);
        }
    }

    /// Appends a run of consecutive messages to the outputs of their receivers.
    fn deliver_run(&mut self, run: &Run) {
        if !self.may_deliver(run) {
            return self.handed_on(weight(run));
        }
        let Some(ids) = run.together() else {
            return run.each().for_each(|(number, message)| self.hand_on_one(message, number));
        };
        for id in ids.iter() {
            let Some(index) = self.conns.index_of(*id) else { continue };
            let conn = &mut self.conns[index];
            let takes_all = conn.session.pushes.seen <= run.first()
                && conn.output.held_back.is_none()
                && conn.replica.is_none()
                && !conn.state.is_closing();
            if takes_all {
                let bytes = run.bytes(conn.session.proto);
                conn.output.backlog.write_with_room(bytes.len(), |reply| reply.raw(bytes));
                self.appended(index, false);
            } else {
                self.append_some(*id, run);
            }
        }
        self.handed_on(weight(run));
    }

    /// Appends the messages of a run that a client has not received yet, one by one: any of them
    /// may close it.
    #[cold]
    fn append_some(&mut self, id: u64, run: &Run) {
        for (number, message) in run.each() {
            for (part, _) in message.parts() {
                let Some(index) = self.conns.index_of(id) else { return };
                self.append_push(index, number, Push::Published(part));
            }
        }
    }

    /// Appends a message to the outputs of its receivers.
    fn hand_on_one(&mut self, published: &Published, number: u64) {
        for (part, ids) in published.parts() {
            for id in ids.iter() {
                let Some(index) = self.conns.index_of(*id) else { continue };
                self.append_push(index, number, Push::Published(part));
            }
        }
        self.handed_on(published.weight());
    }

    /// Accounts for messages of this weight that left the mailbox.
    fn handed_on(&self, weight: usize) {
        let srv = self.core.srv;
        let crowd = &srv.threads[self.core.id].crowd;
        crowd.sub(weight, |waiter| srv.threads.unpark(waiter));
        if srv.attention.load(Ordering::Relaxed) & attention::CROWDED != 0 && !crowd.is_full() {
            pubsub::crowded_thread(srv);
        }
    }

    /// Appends a push to the output of one client.
    fn push_to(&mut self, client: &ClientShared, what: &Invalidation, number: u64) {
        self.expect_push(client.id);
        if let Some(index) = self.conns.index_of(client.id) {
            self.append_push(index, number, Push::Told(what));
        }
        self.handed_on(what.weight());
    }

    /// Another client pushes to this one: check for pushes before its next reply.
    fn expect_push(&mut self, client: u64) {
        let Some(index) = self.conns.index_of(client) else { return };
        self.conns[index].session.note_redirection();
    }

    /// Appends push `number`, unless the client already received it before a reply.
    #[inline]
    fn append_push(&mut self, index: usize, number: u64, push: Push<'_>) {
        let conn = &mut self.conns[index];
        if conn.session.pushes.seen > number || conn.state.is_closing() {
            return;
        }
        if conn.replica.is_some() {
            refuse_answer(conn);
            return self.close(index);
        }
        let is_paused = match &mut conn.output.held_back {
            Some(held_back) => {
                held_back.keep(push);
                true
            }
            None => {
                write(&mut conn.output.backlog, &conn.session, push);
                false
            }
        };
        self.appended(index, is_paused);
    }

    /// Appends MONITOR output. A RESET may have ended MONITOR since: then the client expects
    /// replies only.
    fn feed(&mut self, client: u64, bytes: &[u8]) {
        let Some(index) = self.conns.index_of(client) else { return };
        let conn = &mut self.conns[index];
        if !conn.session.pushes.monitor || conn.state.is_closing() {
            return;
        }
        if conn.replica.is_some() {
            refuse_answer(conn);
            return self.close(index);
        }
        conn.output.backlog.write(|reply| reply.raw(bytes));
        self.appended(index, false);
    }

    /// Records that output was appended. With `is_paused` it is sent only after a reply.
    #[inline]
    pub(super) fn appended(&mut self, index: usize, is_paused: bool) {
        let conn = &mut self.conns[index];
        let pending = conn.output.untaken() as u64;
        if is_paused || conn.interest.write {
            // A client whose socket is full is sent to when it becomes writable.
            conn.session.shared.output.bytes.store(conn.output.memory() as u64, Ordering::Relaxed);
        } else if !conn.output.pushed {
            conn.output.pushed = true;
            self.pushes.pushed.push_back(index);
        }
        let limits = &self.core.settings.clients.output_limits;
        let limit = if conn.session.pushes.subscribes { &limits.pubsub } else { &limits.normal };
        if limit.hard > 0 && pending >= limit.hard {
            self.send_or_close(index);
        }
    }

    /// Closes a client above its output limit, unless sending brings it below.
    #[cold]
    fn send_or_close(&mut self, index: usize) {
        self.send_pushed(index, self.core.srv.mono_ms());
        if self.conns.get(index).is_some_and(|conn| self.over_output_limit(conn)) {
            self.close_overfull(index);
        }
    }

    /// Sends to the next connections of the queue.
    pub(super) fn send_pushes(&mut self) {
        if self.pushes.pushed.is_empty() {
            return;
        }
        let now_ms = self.core.srv.mono_ms();
        let count = (self.pushes.pushed.len() / SHARE).clamp(AT_LEAST, AT_MOST);
        for _ in 0..count {
            let Some(index) = self.pushes.pushed.pop_front() else { return };
            // The slot may be empty or reused, or a reply may have been sent together with the
            // pushes.
            if self.conns.get(index).is_some_and(|conn| conn.output.pushed) {
                self.send_pushed(index, now_ms);
            }
        }
    }

    fn send_pushed(&mut self, index: usize, now_ms: i64) {
        let conn = &mut self.conns[index];
        conn.output.pushed = false;
        let (sent, bytes) = send_pending(conn);
        conn.session.shared.touch(now_ms);
        // Counted like a request, so that subscribers are balanced across threads, too.
        let work = 1 + (bytes / KILOBYTE) as u64;
        self.upkeep.note_work(conn, work);
        self.wrote(index, sent, bytes);
        let Some(conn) = self.conns.get(index) else { return };
        if self.over_output_limit(conn) {
            return self.close_overfull(index);
        }
        self.account_memory(index);
    }

    /// A command of the client has started to run in the slow lane: pushes follow its reply.
    fn hold_back_pushes(&mut self, client: u64) {
        let Some(index) = self.conns.index_of(client) else { return };
        let conn = &mut self.conns[index];
        if matches!(conn.state, State::Slow(_)) {
            conn.output.held_back.get_or_insert_default();
        }
    }

    /// Queues the pushes that were held back during a command, after its reply.
    pub(super) fn release_pushes(&mut self, index: usize) {
        let Some(conn) = self.conns.get_mut(index) else { return };
        if let Some(held_back) = conn.output.held_back.take() {
            held_back
                .pushes()
                .for_each(|push| write(&mut conn.output.backlog, &conn.session, push));
            if conn.has_output() && !conn.output.pushed && !conn.interest.write {
                conn.output.pushed = true;
                self.pushes.pushed.push_back(index);
            }
        }
    }
}
