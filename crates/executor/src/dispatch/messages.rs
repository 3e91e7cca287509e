//! Messages that were published for a client before its command: they come before the reply.

use crate::dispatch::request::Task;
use crate::pubsub;
use weft_command_spec::Flags;

/// Appends the messages published for the client so far, before its reply.
#[inline]
pub fn append_messages(task: &mut Task<'_>) {
    if task.session.pushes.listens {
        begin(task);
        append_mail(task);
    }
}

/// Begins the command of a client that gets messages.
#[cold]
pub fn begin(task: &mut Task<'_>) {
    let in_transaction = task.session.transaction.is_some();
    // A command that runs again has begun before.
    if let Some(own) = &mut task.session.pushes.tracks
        && !task.request.attempt.has_run
        && task.request.attempt.retry.is_none()
    {
        own.begin(task.cmd.spec.flags.has(Flags::KEEPS_CACHING), in_transaction);
    }
}

/// The second half of [`append_messages`].
#[inline]
pub fn append_mail(task: &mut Task<'_>) {
    if task.session.pushes.listens {
        pubsub::append_messages(task.core, task.session, task.reply);
        task.mark = task.reply.mark();
    }
}
