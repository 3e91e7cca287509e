//! CLUSTERSCAN: iterates over the keys of all nodes, slot by slot, driven by the client.
//!
//! A cursor `fingerprint-{tag}-number` names the slot by its hash tag, so clients send it to the node of the slot, as if it were a
//! key. The number is a position among the slot's keys on the node with this fingerprint, which is a part of its run id. Every
//! other node begins the slot anew: the order of keys differs from node to node. After the last slot of a row of its own, a node
//! returns a cursor for the next slot, and the client continues at another node.
//!
//! **Guarantee.** A key that exists during the whole scan is returned at least once: within a slot, the table guarantees it, and a
//! slot that has moved is begun anew.

use super::topology;
use weft_base::limits::SLOTS;
use weft_base::num::{parse_i64, parse_u64_loose};
use weft_base::slot::{key_slot, slot_tag};
use weft_cluster::Slot;
use weft_commands::generic::scan::Filter;
use weft_commands::{CmdResult, Error};
use weft_executor::dispatch::core::ConnCx;
use weft_keyspace::{Db, shard_of};
use weft_resp::Reply;
use weft_state::cluster::Topology;
use weft_state::command_table::Needs;

const INVALID_CURSOR: Error = Error::new("ERR Invalid cursor");
const INVALID_SLOT: Error = Error::new("ERR Invalid or out of range slot");
const SLOT_TWICE: Error = Error::new("ERR SLOT option can only be specified once");
const OTHER_SLOT: Error = Error::new("ERR Cursor slot mismatch with SLOT argument");

/// The length of a fingerprint.
const FINGERPRINT: usize = 8;

/// A position among the keys of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cursor<'a> {
    /// `0`: the scan begins, or has ended.
    Zero,
    At {
        slot: Slot,
        fingerprint: &'a [u8],
        number: u64,
    },
}

impl<'a> Cursor<'a> {
    fn parse(text: &'a [u8]) -> Result<Cursor<'a>, Error> {
        if text == b"0" {
            return Ok(Cursor::Zero);
        }
        let mut parts = text.split(|byte| *byte == b'-');
        let (Some(fingerprint), Some(tag), Some(number), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(INVALID_CURSOR);
        };
        let number = parse_u64_loose(number).ok_or(INVALID_CURSOR)?;
        Ok(Cursor::At { slot: key_slot(tag), fingerprint, number })
    }

    /// The first key of a slot.
    fn first_of(slot: Slot) -> Cursor<'static> {
        Cursor::At { slot, fingerprint: b"0", number: 0 }
    }

    fn write(self, reply: &mut Reply) {
        match self {
            Cursor::Zero => reply.bulk(b"0"),
            Cursor::At { slot, fingerprint, number } => {
                let tail = format!("-{{{}}}-{number}", slot_tag(slot));
                reply.bulk(&[fingerprint, tail.as_bytes()].concat());
            }
        }
    }
}

struct Options<'a> {
    cursor: Cursor<'a>,
    filter: Filter<'a>,
    /// SLOT.
    slot: Option<Slot>,
    /// The slot of all keys that match MATCH.
    matching: Option<Slot>,
}

impl<'a> Options<'a> {
    fn parse(args: &[&'a [u8]]) -> Result<Options<'a>, Error> {
        let mut slot = None;
        let filter = Filter::parse(&args[2..], |word, value| {
            if !word.eq_ignore_ascii_case(b"slot") {
                return Ok(false);
            }
            if slot.is_some() {
                return Err(SLOT_TWICE);
            }
            let number = parse_i64(value).and_then(|n| Slot::try_from(n).ok());
            slot = Some(number.filter(|slot| usize::from(*slot) < SLOTS).ok_or(INVALID_SLOT)?);
            Ok(true)
        })?;
        let cursor = Cursor::parse(args[1])?;
        let matching = filter.slot();
        Ok(Options { cursor, filter, slot, matching })
    }
}

/// The shards of the slots that a call scans. None for invalid arguments.
pub fn shards(args: &[&[u8]]) -> Needs {
    let options = match args {
        [_, _, ..] => Options::parse(args),
        [..] => return Needs::Nothing,
    };
    match options {
        Ok(Options { cursor: Cursor::At { slot, .. }, slot: None, matching: None, filter }) => {
            Needs::SlotsFrom { slot, keys: filter.count }
        }
        Ok(Options { cursor: Cursor::At { slot, .. }, .. }) => Needs::Shard(shard_of(slot)),
        Ok(Options { cursor: Cursor::Zero, .. }) | Err(_) => Needs::Nothing,
    }
}

pub fn cluster_scan(cx: &mut ConnCx<'_>) -> CmdResult {
    let topology = topology(cx)?;
    let options = Options::parse(cx.args)?;
    let mut keys = Reply::new(cx.reply.proto);
    let mut found = 0;
    let next = match options.cursor {
        Cursor::Zero => match (options.slot, options.matching) {
            (Some(slot), Some(matching)) if slot != matching => Cursor::Zero,
            (slot, matching) => Cursor::first_of(slot.or(matching).unwrap_or(0)),
        },
        Cursor::At { slot, .. } if options.slot.is_some_and(|only| only != slot) => {
            return Err(OTHER_SLOT);
        }
        Cursor::At { slot, fingerprint, number } => match options.matching {
            Some(matching) if matching > slot && options.slot.is_none() => {
                Cursor::first_of(matching)
            }
            Some(matching) if matching != slot => Cursor::Zero,
            _ => {
                let run_id = &cx.srv().process.run_id.as_bytes()[..FINGERPRINT];
                let number = if fingerprint == run_id { number } else { 0 };
                let next = visit_keys(cx, &topology, &options, (slot, number), |name| {
                    keys.bulk(name);
                    found += 1;
                });
                match next {
                    Some((slot, 0)) => Cursor::first_of(slot),
                    Some((slot, number)) => Cursor::At { slot, fingerprint: run_id, number },
                    None => Cursor::Zero,
                }
            }
        },
    };
    cx.reply.array(2);
    next.write(cx.reply);
    cx.reply.array(found);
    cx.reply.append(&mut keys);
    Ok(())
}

/// Visits keys from a position on: a slot, and a number in it. Returns the next position. `None`: the scan has ended.
fn visit_keys(
    cx: &mut ConnCx<'_>,
    topology: &Topology,
    options: &Options<'_>,
    (mut slot, mut number): (Slot, u64),
    mut visit: impl FnMut(&[u8]),
) -> Option<(Slot, u64)> {
    let is_one_slot = options.slot.or(options.matching).is_some();
    let me = topology.me;
    let owner = topology.map.node(me).map_or(me, |node| node.primary());
    let is_ours = |slot: &Slot| topology.map.owner(*slot).is_some_and(|node| node.id == owner);
    // A cursor without braces, or a slot that is being imported.
    if !is_ours(&slot) {
        return (slot..SLOTS as Slot).find(is_ours).filter(|_| !is_one_slot).map(|slot| (slot, 0));
    }
    let mut db = Db::new(cx.guard(), &mut cx.core.context, cx.session.db);
    let (mut keys, mut steps) = (0, 0);
    loop {
        let is_empty = db.keyspace().slot_len(slot, db.index()) == 0;
        if !is_empty {
            let is_enough = keys >= options.filter.count || steps >= options.filter.max_steps();
            if is_enough || !db.holds(shard_of(slot)) {
                return Some((slot, number));
            }
            steps += 1;
            number = db.scan_slot(slot, number, |record| {
                keys += 1;
                if options.filter.matches(&record) {
                    visit(record.key());
                }
            });
        }
        if is_empty || number == 0 {
            if is_one_slot || usize::from(slot) + 1 == SLOTS {
                return None;
            }
            (slot, number) = (slot + 1, 0);
            if !is_ours(&slot) {
                return Some((slot, 0));
            }
        }
    }
}
