//! Our primary: the link to it, the copy of its data, and its stream.
//!
//! ```text
//!  weft-replica: connect ─► read ─► Hub::step: received ─► orders ─► copy: file, pipe, beside
//!                             ▲                               └────► apply: units, in their order
//!                             └──────────── next bytes ◄───────────────┘
//! ```
//!
//! * this file: what others tell the thread of the link, in the hub's state ([`Follow`])
//! * [`link`] - the thread: one attempt after the other; [`socket`]: the connection; [`client`]: how it is seen
//!   among the clients
//! * [`copy`] - the primary's data, into a file or straight to the loader; [`pipe`] between the two
//! * [`apply`] - units of the stream, each as a whole; [`command`]: what one of them is
//!
//! There is one thread, for all attempts. What is to be done for an attempt is left in its *orders*; those
//! of an attempt that was given up are dropped. Only sending is done at once, by whoever finds that it is to
//! be done: it never waits, and a primary that takes nothing is left.

pub mod apply;
mod client;
mod command;
pub mod copy;
mod handle;
pub mod link;
mod pipe;
mod socket;

use crate::State;
use crate::replica::handle::{Bell, Link};
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

/// What the hub knows of the link.
#[derive(Default)]
pub struct Follow {
    /// The attempt that is being made.
    present: Option<Arc<Link>>,
    /// What its thread has still to do, in order.
    orders: VecDeque<Order>,
    /// Of the thread, once there is one.
    bell: Option<Arc<Bell>>,
    /// It waits until everything is done that is pending.
    waits: bool,
    /// A copy that is complete, for the attempt that loaded it.
    copy: Option<(LinkId, StagedData)>,
}

/// What the thread of the link is to do.
pub(super) enum Order {
    Begin(Load, Option<u64>),
    Payload(Vec<u8>),
    End,
    BeginStream(Position),
    Stream(Range<usize>),
    Read,
}

impl Follow {
    /// The attempt of that number, if it is the present one.
    pub fn of(&self, link: LinkId) -> Option<&Arc<Link>> {
        self.present.as_ref().filter(|present| present.id == link)
    }

    /// The present attempt.
    pub fn present(&self) -> Option<&Arc<Link>> {
        self.present.as_ref()
    }

    /// Nothing is pending any more.
    pub fn tell_settled(&mut self) {
        if std::mem::take(&mut self.waits) {
            self.ring();
        }
    }

    fn ring(&self) {
        if let Some(bell) = &self.bell {
            bell.ring();
        }
    }
}

pub fn connect(srv: &'static Server, state: &mut State, link: LinkId, host: String, port: u16) {
    let follow = &mut state.link;
    end(srv, follow);
    follow.present = Some(Arc::new(Link::new(link, host, port)));
    if follow.bell.is_none() {
        match link::start(srv) {
            Ok(bell) => follow.bell = Some(bell),
            // The attempt comes to nothing by its timeout, and the next one tries again.
            Err(e) => log_warning!("There is no thread for the link to the primary: {e}"),
        }
    }
    follow.ring();
}

pub fn disconnect(srv: &'static Server, state: &mut State, link: LinkId) {
    if state.link.of(link).is_some() {
        end(srv, &mut state.link);
        state.link.ring();
    }
}

/// Gives the present attempt up. Its thread throws away what it has of a copy.
fn end(srv: &Server, follow: &mut Follow) {
    if let Some(link) = follow.present.take() {
        client::hide(srv, &link);
        link.end();
    }
    follow.orders.clear();
    if let Some((_, copy)) = follow.copy.take() {
        srv.background.bio.free_copy(copy);
    }
}

/// What the thread of the link has to do.
pub fn order(srv: &'static Server, state: &mut State, guard: Option<&Guard<'_>>, action: Action) {
    let (link, order) = match action {
        Action::Send { link, bytes } => {
            if let Some(link) = state.link.of(link) {
                link.send(&bytes);
            }
            return;
        }
        Action::Swap { link } => return swap(srv, state, guard, link),
        Action::BeginLoad { link, load, bytes } => (link, Order::Begin(load, bytes)),
        Action::Payload { link, bytes } => (link, Order::Payload(bytes)),
        Action::EndLoad { link } => (link, Order::End),
        Action::BeginStream { link, at } => {
            if let Some(link) = state.link.of(link) {
                client::show(srv, link, at.db);
            }
            (link, Order::BeginStream(at))
        }
        Action::Stream { link, bytes } => (link, Order::Stream(bytes)),
        Action::Read { link } => (link, Order::Read),
        // The link is given up with it, and what there is of a copy goes then.
        Action::AbandonLoad { .. } => return,
        other => unreachable!("no order of a link: {other:?}"),
    };
    if state.link.of(link).is_some() {
        state.link.orders.push_back(order);
    }
}

/// Puts the copy that was loaded beside the old data in their place.
fn swap(srv: &'static Server, state: &mut State, guard: Option<&Guard<'_>>, link: LinkId) {
    let Some(guard) = guard else { return };
    // One of another attempt went with that.
    let Some((_, beside)) = state.link.copy.take_if(|(of, _)| *of == link) else { return };
    let mut context = ExecContext::new(srv.now_ms(), 0);
    for taken in guard.exchange_all(&mut context, beside) {
        srv.background.bio.free_tables(taken.contents);
    }
    forget(guard, &mut context);
    srv.replication.loads_beside.store(false, Ordering::SeqCst);
}

/// Commits that all keys have gone. In the log of effects it is nothing: what reads it begins anew.
fn forget(guard: &Guard<'_>, context: &mut ExecContext) {
    settle(guard, context);
    context.effects.take_notices();
    context.effects.clear_log();
    end_group(guard, context);
}
