//! The history of a request that is executed more than once.

use crate::waiting::Waiting;
use std::sync::Arc;

/// The history of a request before its next execution. It accompanies the request from the batch to the queue
/// of deferred requests, to the slow lane and back.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// The client is blocked with this request. The retry locks all of its keys.
    pub retry: Option<Arc<Waiting>>,
    /// How often the request found a shard busy.
    pub tries: u32,
    /// The command has been executed before and was suspended; MONITOR has shown it.
    pub has_run: bool,
}

impl Attempt {
    /// The request has never been executed.
    pub const FIRST: Attempt = Attempt { retry: None, tries: 0, has_run: false };
}

/// [`Attempt::FIRST`], for requests that borrow it.
pub static FIRST: Attempt = Attempt::FIRST;
