//! The commands that a script calls.

use super::asked::{AskedSlot, find_keys, is_readonly, slot_of_command};
use super::known::KnownTopology;
use weft_cluster::{Asker, Slot, Verdict};
use weft_command_spec::{Flags, GetKeys};
use weft_commands::Error;
use weft_keyspace::{ExecContext, Guard};
use weft_state::cluster::ClusterState;
use weft_state::command_table::Cmd;
use weft_state::session::{Asking, Session};

const NOT_HERE: Error = Error::new("ERR Attempted to access a non local key in a cluster node");
const SUSPENDED: Error = Error::new("TRYAGAIN The slot of an undeclared key is being moved");
const SLOTS_MOVE: Error = Error::new("TRYAGAIN Slots are being moved");
const OTHER_SLOT: Error =
    Error::new("ERR Script attempted to access keys that do not hash to the same slot");

/// Checks whether this node serves a command that a script calls, before the script takes its shards. Returns the slot if the
/// keys must be looked for: [`check_keys`].
///
/// `crosses_slots`: the script may access keys of several slots.
///
/// # Errors
/// The error of the call.
pub fn check(
    state: &ClusterState,
    topology: &mut KnownTopology,
    session: &mut Session,
    (cmd, args): (&Cmd, &[&[u8]]),
    crosses_slots: bool,
) -> Result<Option<Slot>, Error> {
    let slot = match slot_of_command(cmd.spec, args) {
        AskedSlot::None if cmd.spec.flags.has(Flags::WRITE) => {
            let topology = topology.renew(state);
            let is_quiet = topology.is_none_or(|topology| topology.suspended.is_empty());
            return if is_quiet { Ok(None) } else { Err(SLOTS_MOVE) };
        }
        AskedSlot::None => return Ok(None),
        AskedSlot::One(slot) => slot,
        AskedSlot::Several => return Err(NOT_HERE),
    };
    let Some(topology) = topology.renew(state) else { return Ok(None) };
    let looks = match topology.routes.verdict(slot, asker(session, cmd)) {
        Verdict::Here => None,
        Verdict::LookAtKeys => Some(slot),
        refused => return Err(error(cmd, refused)),
    };
    // The slot is about to go to another node, and the script didn't declare it.
    if session.slot.is_none() && topology.suspended.contains(slot) {
        return Err(SUSPENDED);
    }
    if !crosses_slots && *session.slot.get_or_insert(slot) != slot {
        return Err(OTHER_SLOT);
    }
    Ok(looks)
}

/// Checks a command on a slot in transit, whose shards the script holds.
///
/// # Errors
/// The error of the call.
pub fn check_keys(
    topology: &KnownTopology,
    (context, guard): (&mut ExecContext, &Guard<'_>),
    session: &Session,
    (cmd, args): (&Cmd, &[&[u8]]),
    slot: Slot,
) -> Result<(), Error> {
    let Some(topology) = topology.topology() else { return Ok(()) };
    let keys = find_keys(context, guard, session, cmd, args);
    match topology.routes.verdict_of_keys(slot, asker(session, cmd), keys) {
        Verdict::Here => Ok(()),
        refused => Err(error(cmd, refused)),
    }
}

fn asker(session: &Session, cmd: &Cmd) -> Asker {
    let flags = cmd.spec.flags;
    Asker {
        writes: flags.has(Flags::WRITE),
        readonly: is_readonly(&session.shared),
        asking: session.options.asking != Asking::No || flags.has(Flags::ASKING),
        shard_channels: flags.has(Flags::PUBSUB),
        migrates: cmd.spec.special.get_keys == GetKeys::Migrate,
    }
}

fn error(cmd: &Cmd, verdict: Verdict<'_>) -> Error {
    let name = cmd.full_name;
    match verdict {
        Verdict::DownReadsOnly => Error::owned(format!(
            "ERR Can not execute a write command '{name}' while the cluster is down and readonly"
        )),
        Verdict::Down => Error::owned(format!(
            "ERR Can not execute a command '{name}' while the cluster is down"
        )),
        Verdict::Here
        | Verdict::LookAtKeys
        | Verdict::Moved(_)
        | Verdict::Ask(_)
        | Verdict::TryAgain
        | Verdict::Unbound => NOT_HERE,
    }
}
