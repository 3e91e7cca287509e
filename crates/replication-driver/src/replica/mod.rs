//! The primary of this server: the link to it, the copy of its data, and its stream.
//!
//! ```text
//!  weft-replica: connect ─► read ─► Hub::step: received ─► commands ─► copy: file, pipe, new tables
//!                             ▲                               └────► apply: units, in order
//!                             └──────────── next bytes ◄───────────────┘
//! ```
//!
//! * this file: the state shared with the link's thread, in the hub ([`Follow`])
//! * [`link`] - the thread: one attempt after another; [`socket`]: the connection; [`client`]: the
//!   link as a client
//! * [`copy`] - the primary's data, into a file or straight to the loader; [`pipe`]: connects the
//!   two
//! * [`apply`] - applies units of the stream atomically; [`command`]: the meaning of a command
//!
//! One thread serves all attempts. Commands for an attempt are queued in `orders`, and dropped when
//! the attempt ends. Only sending is immediate, on the thread that executes the action: it never
//! blocks, and the link to a primary that doesn't read is closed.

pub mod apply;
mod client;
mod command;
pub mod copy;
mod handle;
pub mod link;
mod pipe;
mod socket;

use crate::State;
use crate::replica::handle::{Link, WakeFlag};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use weft_keyspace::commit::{end_group, settle};
use weft_keyspace::{ExecContext, Guard, StagedData};
use weft_process::log_warning;
use weft_replication::action::{LinkId, Load};
use weft_replication::{Action, Position};
use weft_state::server::Server;

/// The hub's state of the link.
#[derive(Default)]
pub struct Follow {
    /// The current attempt.
    present: Option<Arc<Link>>,
    /// Queued commands for its thread, in order.
    orders: VecDeque<LinkCommand>,
    /// Wakes the thread, once there is one.
    wake_flag: Option<Arc<WakeFlag>>,
    /// The thread waits until no action is pending.
    waits: bool,
    /// A complete copy, for the attempt that loaded it.
    copy: Option<(LinkId, StagedData)>,
}

/// A command for the thread of the link.
pub(super) enum LinkCommand {
    Begin(Load, Option<u64>),
    Payload(Vec<u8>),
    End,
    BeginStream(Position),
    Stream(Range<usize>),
    Read,
}

impl Follow {
    /// The attempt with this id, if it is the current one.
    pub fn of(&self, link: LinkId) -> Option<&Arc<Link>> {
        self.present.as_ref().filter(|present| present.id == link)
    }

    /// The current attempt.
    pub fn present(&self) -> Option<&Arc<Link>> {
        self.present.as_ref()
    }

    /// Wakes the thread if it waits, because no action is pending.
    pub fn notify_settled(&mut self) {
        if std::mem::take(&mut self.waits) {
            self.wake();
        }
    }

    fn wake(&self) {
        if let Some(wake_flag) = &self.wake_flag {
            wake_flag.set();
        }
    }
}

pub fn connect(srv: &'static Server, state: &mut State, link: LinkId, host: String, port: u16) {
    let follow = &mut state.link;
    end(srv, follow);
    follow.present = Some(Arc::new(Link::new(link, host, port)));
    if follow.wake_flag.is_none() {
        match link::start(srv) {
            Ok(wake_flag) => follow.wake_flag = Some(wake_flag),
            // The attempt times out, and the next one tries to start the thread again.
            Err(e) => log_warning!("There is no thread for the link to the primary: {e}"),
        }
    }
    follow.wake();
}

pub fn disconnect(srv: &'static Server, state: &mut State, link: LinkId) {
    if state.link.of(link).is_some() {
        end(srv, &mut state.link);
        state.link.wake();
    }
}

/// Ends the current attempt. Its thread drops its part of a copy.
fn end(srv: &Server, follow: &mut Follow) {
    if let Some(link) = follow.present.take() {
        client::hide(srv, &link);
        link.end();
    }
    follow.orders.clear();
    if let Some((_, copy)) = follow.copy.take() {
        srv.process.background.bio.free_copy(copy);
    }
}

/// Queues a command for the link's thread, or executes the action at once.
pub fn queue_command(
    srv: &'static Server,
    state: &mut State,
    guard: Option<&Guard<'_>>,
    action: Action,
) {
    let (link, order) = match action {
        Action::Send { link, bytes } => {
            if let Some(link) = state.link.of(link) {
                link.send(&bytes);
            }
            return;
        }
        Action::Swap { link } => return swap(srv, state, guard, link),
        Action::BeginLoad { link, load, bytes } => (link, LinkCommand::Begin(load, bytes)),
        Action::Payload { link, bytes } => (link, LinkCommand::Payload(bytes)),
        Action::EndLoad { link } => (link, LinkCommand::End),
        Action::BeginStream { link, at } => {
            if let Some(link) = state.link.of(link) {
                client::show(srv, link, at.db);
            }
            (link, LinkCommand::BeginStream(at))
        }
        Action::Stream { link, bytes } => (link, LinkCommand::Stream(bytes)),
        Action::Read { link } => (link, LinkCommand::Read),
        // Ending the link also drops the copy.
        Action::AbandonLoad { .. } => return,
        other => unreachable!("no order of a link: {other:?}"),
    };
    if state.link.of(link).is_some() {
        state.link.orders.push_back(order);
    }
}

/// Replaces the old data with the copy in the new tables.
fn swap(srv: &'static Server, state: &mut State, guard: Option<&Guard<'_>>, link: LinkId) {
    let Some(guard) = guard else { return };
    // A copy of another attempt was dropped with it.
    let Some((_, beside)) = state.link.copy.take_if(|(of, _)| *of == link) else { return };
    let mut context = ExecContext::new(srv.now_ms(), 0);
    for taken in guard.exchange_all(&mut context, beside) {
        srv.process.background.bio.free_tables(taken.contents);
    }
    forget(guard, &mut context);
    srv.nodes.replication.loads_async.store(false, Ordering::SeqCst);
}

/// Commits that all keys are gone. The effect log gets nothing, because its readers start again.
fn forget(guard: &Guard<'_>, context: &mut ExecContext) {
    settle(guard, context);
    context.effects.take_notices();
    context.effects.clear_log();
    end_group(guard, context);
}
