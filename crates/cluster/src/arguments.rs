//! Slots, nodes and times in the arguments of CLUSTER commands.

use crate::id::NodeId;
use crate::map::{Map, Node};
use crate::refusal::{Refusal, refusal, refusal_with};
use crate::slots::{Slot, SlotRange};
use weft_base::limits::SLOTS;
use weft_base::num::parse_i64;

/// The slot in `arg`.
pub fn slot(arg: &[u8]) -> Result<Slot, Refusal> {
    let slot = parse_i64(arg).filter(|slot| (0..SLOTS as i64).contains(slot));
    slot.map(|slot| slot as Slot).ok_or_else(|| refusal("Invalid or out of range slot"))
}

/// The range from one argument to the other. `capital`: how the error begins.
pub fn range(first: &[u8], last: &[u8], capital: &str) -> Result<SlotRange, Refusal> {
    let range = SlotRange { first: slot(first)?, last: slot(last)? };
    match range.first <= range.last {
        true => Ok(range),
        false => Err(refusal(format!(
            "{capital} slot number {} is greater than end slot number {}",
            range.first, range.last
        ))),
    }
}

/// The node of the map with the id `arg`. `text` begins the error.
pub fn node<'a>(map: &'a Map, arg: &[u8], text: &str) -> Result<&'a Node, Refusal> {
    let node = NodeId::parse(arg).and_then(|id| map.node(id));
    node.ok_or_else(|| refusal_with(text, arg))
}

/// An integer.
pub fn integer(arg: &[u8]) -> Result<i64, Refusal> {
    parse_i64(arg).ok_or_else(|| refusal("value is not an integer or out of range"))
}

/// A timeout in milliseconds, checked only.
pub fn timeout(arg: &[u8], now_ms: i64) -> Result<(), Refusal> {
    match parse_i64(arg) {
        None => Err(refusal("timeout is not an integer or out of range")),
        Some(..0) => Err(refusal("timeout is negative")),
        Some(ms) if ms > i64::MAX - now_ms => Err(refusal("timeout is out of range")),
        Some(_) => Ok(()),
    }
}
