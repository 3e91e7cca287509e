//! Connections between servers: bytes in order, late, in pieces, and cut at any byte.

use crate::action::{ConnId, LinkId};
use std::collections::VecDeque;
use weft_base::rng::Rng;

/// One direction.
#[derive(Default)]
pub(super) struct Pipe {
    pub bytes: VecDeque<u8>,
    /// Nothing more is put in; when it is empty, the end is told.
    pub ending: bool,
    /// Whoever reads has been told, or has closed it himself.
    pub ended: bool,
    /// A delivery is on its way.
    pub scheduled: bool,
}

/// Which end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum End {
    Replica,
    Primary,
}

/// A server in one of its lives.
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
    /// Bytes vanish, and nobody is told.
    pub dead: bool,
}

impl Connection {
    /// What `end` reads from.
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

    /// Takes it away: of what is on its way, some still arrives.
    pub fn cut(&mut self, rng: &mut Rng) {
        for pipe in [&mut self.to_primary, &mut self.to_replica] {
            let arrives = rng.below(pipe.bytes.len() as u64 + 1) as usize;
            pipe.bytes.truncate(arrives);
            pipe.ending = true;
        }
    }
}
