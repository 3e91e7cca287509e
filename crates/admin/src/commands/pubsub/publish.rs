//! PUBLISH and SPUBLISH.

use crate::commands::pubsub::{FLAGS, plan};
use weft_command_spec::{CommandRole, Flags, NOT_A_KEY, keys};
use weft_commands::CmdResult;
use weft_executor::cluster::slot_stats;
use weft_executor::dispatch::ServerCommand;
use weft_executor::dispatch::core::ConnCx;
use weft_executor::dispatch::core::Held;
use weft_executor::dispatch::outcome::Suspend;
use weft_executor::pubsub::{publish_patiently, publish_to_cluster};
use weft_keyspace::commit::seal;
use weft_keyspace::log::Target;
use weft_keyspace::{Db, ShardSet};
use weft_pubsub::registry::Kind;
use weft_pubsub::registry::{CanWait, MailboxFull};

const PUBLISHES: Flags = FLAGS.or(Flags::FAST).or(Flags::REPLICATES_UNFLAGGED);

pub const PUBLISH: ServerCommand =
    plan("publish", 3, PUBLISHES, "2.0.0", |cx| publish(cx, Kind::Channel))
        .about("Sends a message to all subscribers of a channel.", "channel message")
        .complexity("O(N+M) where N is the number of receivers and M the number of patterns")
        .publishes(CommandRole::Publish)
        .build();

pub const SPUBLISH: ServerCommand =
    plan("spublish", 3, PUBLISHES, "7.0.0", |cx| publish(cx, Kind::Shard))
        .about("Sends a message to all subscribers of a shard channel.", "shardchannel message")
        .complexity("O(N) where N is the number of receivers")
        .keys(&keys::one(&[NOT_A_KEY]))
        .publishes(CommandRole::ShardPublish)
        .build();

fn publish(cx: &mut ConnCx<'_>, kind: Kind) -> CmdResult {
    // A transaction can't stop in the middle.
    let patience = if cx.in_transaction() { CanWait::None } else { CanWait::Some };
    let srv = cx.srv();
    // In a cluster with a store, replicas get messages by their links, as all nodes do.
    let told = if srv.ks.log().wants(Target::REPLICAS) && !srv.nodes.cluster.has_store() {
        publish_and_log(cx, kind, patience)
    } else {
        publish_to_cluster(srv, kind, cx.args[1], cx.args[2], patience, &mut || {})
    };
    match told {
        Ok(receivers) => {
            if kind == Kind::Shard && cx.core.settings.log.counts_slots {
                slot_stats::count_message(cx.core, cx.args[1], cx.args[2], receivers);
            }
            cx.reply.int(receivers as i64);
        }
        Err(MailboxFull(thread)) => cx.suspend = Some(Suspend::MailboxFull(thread)),
    }
    Ok(())
}

/// Also logs the message for replicas and other log readers, but not for the AOF, which needs no
/// messages. The log position is assigned while no other client can publish to the channel, so
/// subscribers and the log see the same order.
#[cold]
fn publish_and_log(
    cx: &mut ConnCx<'_>,
    kind: Kind,
    patience: CanWait,
) -> Result<usize, MailboxFull> {
    let ConnCx { core, session, args, held, .. } = cx;
    let (srv, context, db) = (core.srv, &mut core.context, session.db);
    let publish = |accepted: &mut dyn FnMut()| {
        publish_patiently(srv, kind, args[1], args[2], patience, accepted)
    };
    match held {
        // In a transaction or in the slow lane: it is committed with the other effects.
        Held::Guard(guard) => {
            publish(&mut || Db::new(guard, context, db).log_for(Target::REPLICAS, args))
        }
        Held::Nothing(inside) => match inside.guard(context, ShardSet::of([])) {
            Ok(guard) => publish(&mut || {
                Db::new(&guard, context, db).log_for(Target::REPLICAS, args);
                seal(&guard, context);
            }),
            Err(_) => unreachable!("an empty set of shards is never busy"),
        },
        Held::Stop(_) | Held::Aside => unreachable!("it needs nothing"),
    }
}
