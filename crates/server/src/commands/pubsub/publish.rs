//! PUBLISH and SPUBLISH.

use super::{FLAGS, plan};
use crate::dispatch::{ConnCx, ServerCommand};
use crate::pubsub::registry::{Crowded, Patience};
use crate::pubsub::{Kind, publish_patiently};
use weft_commands::spec::keys;
use weft_commands::{CmdResult, Flags};

const PUBLISHES: Flags = FLAGS.or(Flags::FAST).or(Flags::REPLICATES_UNTOLD);

pub const PUBLISH: ServerCommand =
    plan("publish", 3, PUBLISHES, "2.0.0", |cx| publish(cx, Kind::Channel))
        .about("Sends a message to all who listen to a channel.", "channel message")
        .complexity("O(N+M) where N is the number of receivers and M the number of patterns")
        .build();

pub const SPUBLISH: ServerCommand =
    plan("spublish", 3, PUBLISHES, "7.0.0", |cx| publish(cx, Kind::Shard))
        .about("Sends a message to all who listen to a shard channel.", "shardchannel message")
        .complexity("O(N) where N is the number of receivers")
        .keys(&keys::one(&["not_key"]))
        .build();

fn publish(cx: &mut ConnCx<'_>, kind: Kind) -> CmdResult {
    // A transaction can't stop in the middle.
    let patience = if cx.in_transaction { Patience::None } else { Patience::Some };
    match publish_patiently(cx.srv(), kind, cx.args[1], cx.args[2], patience) {
        Ok(receivers) => cx.reply.int(receivers as i64),
        Err(Crowded(thread)) => cx.crowded = Some(thread),
    }
    Ok(())
}
