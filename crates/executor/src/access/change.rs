//! Putting other users into force.
//!
//! The command that does it has [`Needs::Stop`](weft_state::command_table::Needs::Stop), so the I/O threads are between two
//! commands. Their next command finds the new generation. Clients of deleted users are closed as by CLIENT KILL, and so
//! are subscribers that their user may no longer receive messages for: their subscriptions end here, before the reply.
//!
//! Commands in the slow lane continue. A command on keys holds its shards, so no other client sees its effect before it
//! ends, and it counts as earlier. A transaction, a script or a server command may do more than change keys: the reply waits for those
//! of the users that have changed, as that of CLIENT KILL does. A change that would have to wait for a busy script is
//! refused.

use crate::dispatch::busy;
use crate::dispatch::core::ConnCx;
use crate::dispatch::outcome::Suspend;
use crate::end_client::end_client;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use weft_acl::{User, Users};
use weft_commands::Error;
use weft_pubsub::registry::Kind;
use weft_state::acting::ActionId;
use weft_state::clients::ClientShared;
use weft_state::conn::ConnectionMessage;
use weft_state::mailbox::Message;
use weft_state::server::Server;
use weft_state::session::PendingReply;

/// Puts the users that `change` makes of the present ones into force. `change` also returns the number that the command
/// will reply with, if it is one.
///
/// If [`ConnCx::suspend`] is set afterwards, the reply must wait: the command runs again, and finds
/// [`finish_change`].
///
/// # Errors
/// That of `change`, or BUSY. Then nothing has changed.
pub fn change_users(
    cx: &mut ConnCx<'_>,
    change: impl FnOnce(&Users) -> Result<(Users, usize), Error>,
) -> Result<(), Error> {
    let mut count = 0;
    let before = cx.srv().access.change(|before| {
        let (users, number) = change(before)?;
        count = number;
        match busy::error_of_commands(cx.srv(), &commands_to_wait_for(cx, before, &users)) {
            Some(e) => Err(e),
            None => Ok(users),
        }
    })?;
    follow_change(cx, &before, count);
    Ok(())
}

/// Makes clients follow a change of users: see [`change_users`].
fn follow_change(cx: &mut ConnCx<'_>, before: &Users, count: usize) {
    let srv = cx.srv();
    let users = srv.access.users();
    close_clients(cx, |client, user| match users.get(&user.name) {
        None => true,
        Some(now) => {
            before
                .get(&user.name)
                .is_some_and(|before| !Arc::ptr_eq(before, now) && before.may_lose_channels(now))
                && subscribes_against(client, now)
        }
    });
    let commands = commands_to_wait_for(cx, before, &users);
    if !commands.is_empty() {
        cx.session.replies.pending = Some(Box::new(PendingReply { count, commands }));
        cx.suspend = Some(Suspend::Slow { has_run: true });
    }
}

/// The running commands of users that have other rights after a change, which its reply waits for. In a transaction, it
/// doesn't wait.
fn commands_to_wait_for(cx: &ConnCx<'_>, before: &Users, now: &Users) -> Vec<ActionId> {
    if cx.in_transaction() {
        return Vec::new();
    }
    let has_changed = |user: &User| match (before.get(&user.name), now.get(&user.name)) {
        (Some(before), Some(now)) => !Arc::ptr_eq(before, now),
        (Some(_), None) => true,
        (None, _) => false,
    };
    let me = cx.session.shared.id;
    cx.srv().slow.acting.commands(|client, _| {
        client.id != me && user_of(client).is_some_and(|user| has_changed(&user))
    })
}

/// To be called first by each command that changes users. If it has changed them in an earlier run, and the commands that
/// it has waited for have ended: returns the number to reply with.
pub fn finish_change(cx: &mut ConnCx<'_>) -> Option<usize> {
    let pending = cx.session.replies.pending.take()?;
    // They may have subscribed, or logged in, since.
    let users = cx.srv().access.users();
    close_clients(cx, |client, user| {
        pending.commands.iter().any(|command| command.client == client.id)
            && users.get(&user.name).is_none_or(|now| subscribes_against(client, now))
    });
    Some(pending.count)
}

/// Closes the clients that `must_close` selects by their user. The calling client still gets its reply.
fn close_clients(cx: &mut ConnCx<'_>, must_close: impl Fn(&ClientShared, &User) -> bool) {
    let srv = cx.srv();
    for client in srv.clients.registry.all() {
        if !user_of(&client).is_some_and(|user| must_close(&client, &user)) {
            continue;
        }
        if client.id == cx.session.shared.id {
            cx.session.close = true;
        } else {
            close(srv, client);
        }
    }
}

fn close(srv: &'static Server, client: Arc<ClientShared>) {
    end_client(srv, &client);
    srv.clients.registry.remove(client.id);
    srv.threads[client.thread()]
        .mailbox
        .send(Message::Connection(ConnectionMessage::Kill { client }));
}

/// The user of a client, as other threads see it. `None`: the link to our primary.
fn user_of(client: &ClientShared) -> Option<Arc<User>> {
    client.with_names(|names| names.user.clone())
}

/// Whether a client has a subscription that `user` does not allow. O(subscriptions * patterns of the user).
fn subscribes_against(client: &ClientShared, user: &User) -> bool {
    if !client.is_subscriber() || client.pushes.is_node_link.load(Ordering::Relaxed) {
        return false;
    }
    let subscriber = client.subscriber();
    let Some(subscriber) = subscriber.as_deref() else { return false };
    [(Kind::Pattern, true), (Kind::Channel, false), (Kind::Shard, false)].iter().any(
        |(kind, is_pattern)| {
            !subscriber.all_names(*kind, |name| user.may_access_channel(name, *is_pattern))
        },
    )
}
