//! Connections whose command is elsewhere: waiting for a key, or in the slow lane.
//!
//! Their requests are not executed and their sockets not read until it is back; that they are
//! hung up on is noticed. See [`crate::blocking`] and [`crate::slow`].

use super::Worker;
use crate::blocking::Waiting;
use crate::dispatch::table::Run;
use crate::dispatch::transaction;
use crate::io::ReplyMode;
use crate::io::conn::{ArgBuf, Suspended};
use crate::slow::Job;
use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use weft_commands::Error;
use weft_resp::Reply;

/// How soon to look again at a client whose time is over while another thread is at it.
const LOOK_AGAIN_MS: i64 = 1;

const UNBLOCKED: Error = Error::new("UNBLOCKED client unblocked via CLIENT UNBLOCK");

impl Worker {
    fn index_of(&self, client: u64) -> Option<usize> {
        self.by_client.get(&client).copied()
    }

    /// The connection stands in line: suspended until it is served or its time is over.
    pub(super) fn block(&mut self, index: usize) {
        let session = &self.conns[index].session;
        session.shared.blocked.store(true, Ordering::Relaxed);
        if let Some(waiting) = &session.waiting
            && let Some(at) = waiting.deadline_ms
        {
            self.deadlines.push(Reverse((at, waiting.client)));
        }
        self.suspend(index, Suspended::Blocked);
    }

    /// Passes a request to the slow lane.
    pub(super) fn pass_on(&mut self, index: usize, args: Vec<ArgBuf>) {
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
        own.slow = Some(cancel.clone());
        let mut session = own.detached();
        match cmd.run {
            Run::Exec => {
                session.transaction = own.transaction.take();
                session.watched = own.watched.take();
                transaction::renew_shared(own);
            }
            Run::Data { .. } | Run::Server(_) | Run::Watch => {}
        }
        self.suspend(index, Suspended::Slow);
        self.core.srv.slow.send(Job { cmd, args, session, cancel });
    }

    pub(super) fn slow_done(&mut self, client: u64, mut reply: Reply) {
        let Some(index) = self.index_of(client) else { return };
        self.conns[index].session.slow = None;
        self.answer(index, &mut reply, Suspended::Slow);
    }

    pub(super) fn slow_blocked(&mut self, client: u64, waiting: Arc<Waiting>) {
        let Some(index) = self.index_of(client) else {
            waiting.state.give_up();
            return self.core.srv.lines.leave(&self.core.srv.ks, &waiting);
        };
        let conn = &mut self.conns[index];
        conn.session.slow = None;
        conn.session.waiting = Some(waiting);
        self.block(index);
    }

    /// Another thread has served the client.
    pub(super) fn served(&mut self, client: u64, mut reply: Reply) {
        let Some(index) = self.index_of(client) else { return };
        if self.conns[index].session.waiting.take().is_some() {
            self.answer(index, &mut reply, Suspended::Blocked);
        }
    }

    /// Runs the command of a waiting client again, with all its keys in hand.
    pub(super) fn retry(&mut self, client: u64) {
        let Some(index) = self.index_of(client) else { return };
        let conn = &mut self.conns[index];
        let Some(waiting) = conn.session.waiting.as_ref().filter(|w| w.state.is_retry()) else {
            return;
        };
        conn.again.push_front(waiting.args.clone());
        conn.suspended = None;
        self.renew_interest(index);
        self.enqueue(index);
    }

    pub(super) fn unblocked(&mut self, client: u64, error: bool) {
        let Some(index) = self.index_of(client) else { return };
        self.end_wait(index, error);
    }

    /// Answers a client that has given up waiting.
    fn end_wait(&mut self, index: usize, error: bool) {
        let Some(waiting) = self.conns[index].session.waiting.take() else { return };
        let srv = self.core.srv;
        srv.lines.leave(&srv.ks, &waiting);
        let mut reply = Reply::new(waiting.proto);
        if error {
            crate::dispatch::execute::refuse(&self.core, &mut reply, &UNBLOCKED);
        } else {
            reply.raw(&waiting.timeout_reply);
        }
        self.answer(index, &mut reply, Suspended::Blocked);
    }

    /// Sends the reply of a command that was elsewhere, and goes on with the connection.
    fn answer(&mut self, index: usize, reply: &mut Reply, was: Suspended) {
        let session = &mut self.conns[index].session;
        session.shared.blocked.store(false, Ordering::Relaxed);
        match session.reply_mode {
            ReplyMode::On => {}
            ReplyMode::Off => reply.clear(),
            ReplyMode::SkipNext | ReplyMode::Skipping => {
                session.reply_mode = ReplyMode::On;
                reply.clear();
            }
        }
        self.deliver(index, reply);
        if self.conns.contains(index) {
            self.resume(index, was);
        }
    }

    /// Milliseconds until the time of the next waiting client is over.
    pub(super) fn until_deadline(&self, now_ms: i64) -> Option<i64> {
        self.deadlines.peek().map(|Reverse((at, _))| (at - now_ms).max(0))
    }

    /// Answers the clients whose time is over.
    pub(super) fn end_waits(&mut self) {
        if self.deadlines.is_empty() {
            return;
        }
        let now = self.core.srv.now_ms();
        while let Some(Reverse((at, client))) = self.deadlines.peek().copied() {
            if at > now {
                return;
            }
            self.deadlines.pop();
            let Some(index) = self.index_of(client) else { continue };
            let Some(waiting) = self.conns[index].session.waiting.clone() else { continue };
            if waiting.deadline_ms.is_none_or(|deadline| deadline > now) {
                // An old entry of a client that waits for something else by now.
                continue;
            }
            if waiting.state.give_up() {
                self.end_wait(index, false);
            } else if !waiting.state.is_over() {
                // It is being tried; that may come to nothing.
                self.deadlines.push(Reverse((now + LOOK_AGAIN_MS, client)));
            }
        }
    }

    /// The connection is about to end: nobody waits any more.
    pub(super) fn forget(&self, session: &crate::io::Session) {
        if let Some(cancel) = &session.slow {
            cancel.store(true, Ordering::Relaxed);
        }
        if let Some(waiting) = &session.waiting {
            waiting.state.give_up();
            self.core.srv.lines.leave(&self.core.srv.ks, waiting);
        }
    }
}
