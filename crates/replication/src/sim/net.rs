//! Connections between servers: ordered bytes with delays, splits, and cuts at any byte.

use crate::action::{ConnId, LinkId};
use std::collections::VecDeque;
use weft_base::rng::Rng;

/// One direction.
#[derive(Default)]
pub(super) struct Pipe {
    pub bytes: VecDeque<u8>,
    /// The sender has closed it; the reader sees the end once it is empty.
    pub ending: bool,
    /// The reader has seen the end, or has closed it itself.
    pub ended: bool,
    /// A delivery is scheduled.
    pub scheduled: bool,
}

/// An end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum End {
    Replica,
    Primary,
}

/// A server between two restarts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Life {
    pub server: usize,
    pub life: u32,
}

pub(super) struct Connection {
    pub replica: Life,
    pub link: LinkId,
    pub primary: Life,
    pub conn: ConnId,
    pub to_primary: Pipe,
    pub to_replica: Pipe,
    /// Bytes vanish without an error.
    pub dead: bool,
}

impl Connection {
    /// The pipe from which `end` reads.
    pub fn pipe_to(&mut self, end: End) -> &mut Pipe {
        match end {
            End::Replica => &mut self.to_replica,
            End::Primary => &mut self.to_primary,
        }
    }

    pub fn life(&self, end: End) -> Life {
        match end {
            End::Replica => self.replica,
            End::Primary => self.primary,
        }
    }

    /// Cuts the connection: some of the bytes in it still arrive.
    pub fn cut(&mut self, rng: &mut Rng) {
        for pipe in [&mut self.to_primary, &mut self.to_replica] {
            let arrives = rng.below(pipe.bytes.len() as u64 + 1) as usize;
            pipe.bytes.truncate(arrives);
            pipe.ending = true;
        }
    }
}
