//! Messages to an I/O thread that become output of its clients, but no reply.

use crate::clients::ClientShared;
use std::sync::Arc;
use weft_pubsub::inbox::{Addressed, To};
use weft_pubsub::message::Published;
use weft_tracking::message::Message as Invalidation;

/// A message about output that no request has asked for.
#[derive(Debug)]
pub enum PushMessage {
    /// For the clients of the thread that subscribe to its channel.
    Published(Box<Published>),
    /// An invalidation message for this client.
    Invalidation { client: Arc<ClientShared>, what: Invalidation },
    /// More pushes for this client will follow.
    Expected { client: u64 },
    /// A command of this client runs in the slow lane now: pushes that arrive from here on must follow its reply.
    HoldBack { client: u64 },
    /// Bytes to append to the output of this client if it is still in MONITOR.
    Monitor { client: u64, bytes: Arc<Vec<u8>> },
}

impl Addressed for PushMessage {
    #[inline]
    fn to(&self) -> To {
        match self {
            PushMessage::Published(_) => To::Listeners,
            PushMessage::Invalidation { client, .. } => To::Client(client.id),
            PushMessage::Expected { .. }
            | PushMessage::HoldBack { .. }
            | PushMessage::Monitor { .. } => To::Thread,
        }
    }
}
