//! Counting CPU time and traffic by hash slot: `cluster-slot-stats-enabled`.
//!
//! The time of each command counts for the slot of its keys, inside scripts and transactions, too. The bytes of a request and its
//! reply count once, when the reply is complete.

use super::asked::{find_slot, slot_of_command};
use crate::dispatch::core::Core;
use crate::dispatch::request::Request;
use weft_cluster::SlotSet;
use weft_resp::Reply;
use weft_resp::reply::Mark;
use weft_state::command_table::Cmd;
use weft_state::server::Server;
use weft_state::session::Session;
use weft_state::slot_stats::{SlotTotals, ThreadSlots};
use weft_state::waiting::Waiting;

/// The bytes of MULTI, which count once its EXEC has run.
const MULTI: usize = "*1\r\n$5\r\nMULTI\r\n".len();

/// Counts the time of a command.
#[cold]
pub fn count_time(core: &Core, cmd: &Cmd, request: &Request<'_>, ns: u64) {
    let slot = slot_of_command(cmd.spec, request.args).one();
    add(core, slot, SlotTotals { cpu_ns: ns, ..SlotTotals::default() });
}

/// Counts the bytes of a request that is no EXEC, and of its reply, which begins at `mark`.
#[cold]
pub fn count_bytes(
    core: &Core,
    session: &Session,
    cmd: &Cmd,
    request: &Request<'_>,
    (reply, mark): (&Reply, Mark),
) {
    let slot = slot_of_command(cmd.spec, request.args).one();
    let bytes_out = bytes_out(session, reply, mark);
    add(core, slot, SlotTotals { cpu_ns: 0, bytes_in: request.bytes() as u64, bytes_out });
}

/// Counts the bytes of an EXEC that has run commands, and of its reply. Its slot is [`Session::slot`].
#[cold]
pub fn count_exec(core: &Core, session: &Session, request: &Request<'_>, reply: (&Reply, Mark)) {
    let bytes_in = (MULTI + request.bytes()) as u64;
    let bytes_out = bytes_out(session, reply.0, reply.1);
    add(core, session.slot, SlotTotals { cpu_ns: 0, bytes_in, bytes_out });
}

/// Counts the bytes of a request that is queued, or refused after its slot was known.
#[cold]
pub fn count_request(core: &Core, session: &Session, cmd: &Cmd, request: &Request<'_>) {
    if cmd.spec.fits(request.args.len()) {
        let slot = find_slot(session, cmd, request.args).one();
        let bytes_in = request.bytes() as u64;
        add(core, slot, SlotTotals { bytes_in, ..SlotTotals::default() });
    }
}

/// Counts a command whose client was blocked.
#[cold]
pub fn count_waited(core: &Core, waiting: &Waiting, cpu_ns: u64, reply: &Reply) {
    let args = waiting.client_args();
    let slot = slot_of_command(waiting.cmd.spec, &args).one();
    let bytes_in = Request::new(Some(waiting.cmd), &args, &[]).bytes() as u64;
    let bytes_out = if waiting.context.drops_reply { 0 } else { reply.len() as u64 };
    add(core, slot, SlotTotals { cpu_ns, bytes_in, bytes_out });
}

/// Counts a message that was published to a shard channel.
#[cold]
pub fn count_message(core: &Core, channel: &[u8], message: &[u8], receivers: usize) {
    let push: [&[u8]; 3] = [b"smessage", channel, message];
    let bytes_out = (receivers * Request::new(None, &push, &[]).bytes()) as u64;
    let slot = weft_base::slot::key_slot(channel);
    add(core, Some(slot), SlotTotals { bytes_out, ..SlotTotals::default() });
}

/// Makes slots that this node has gained or lost count from zero.
pub fn forget(srv: &Server, slots: &SlotSet) {
    if !slots.is_empty() {
        let threads = srv.all_stats().map(|thread| &thread.slots);
        srv.statistics.slots.reset(threads, slots.iter());
    }
}

fn bytes_out(session: &Session, reply: &Reply, mark: Mark) -> u64 {
    if session.replies.mode.drops() { 0 } else { reply.len_since(mark) as u64 }
}

fn add(core: &Core, slot: Option<u16>, more: SlotTotals) {
    let Some(slot) = slot else { return };
    let counters = &core.stats().slots;
    if !counters.is_used() {
        core.srv.memory.add_statistics(ThreadSlots::BYTES);
    }
    counters.add(slot, more);
}
