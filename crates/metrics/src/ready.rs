//! Whether the server should get requests: `/readyz`.

use std::sync::atomic::Ordering;
use weft_replication_driver::hub;
use weft_state::attention;
use weft_state::server::Server;

/// Why the server is not ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotReady {
    Loading,
    OutOfSync,
    NoLease,
    Stopping,
}

impl NotReady {
    /// The body of the response.
    pub fn text(self) -> &'static str {
        match self {
            NotReady::Loading => "loading\n",
            NotReady::OutOfSync => "replica is not in sync with its primary\n",
            NotReady::NoLease => "primary holds no lease\n",
            NotReady::Stopping => "stopping\n",
        }
    }
}

/// # Errors
/// The server is not ready.
pub fn check(srv: &Server) -> Result<(), NotReady> {
    if srv.is_stopping() {
        return Err(NotReady::Stopping);
    }
    if srv.persistence.loading.is_on() {
        return Err(NotReady::Loading);
    }
    let state = hub(srv).lock();
    let is_in_sync = state.node.follower().is_none_or(|follower| follower.is_online());
    drop(state);
    if !is_in_sync {
        return Err(NotReady::OutOfSync);
    }
    match lease_left_ms(srv) {
        Some(0) => Err(NotReady::NoLease),
        Some(_) | None => Ok(()),
    }
}

/// Milliseconds for which this node may acknowledge as a primary; `None` if it needs no lease for that.
pub fn lease_left_ms(srv: &Server) -> Option<u64> {
    if srv.attention.load(Ordering::Relaxed) & attention::LEASE == 0 {
        return None;
    }
    if hub(srv).lock().node.follower().is_some() {
        return None;
    }
    let now = u64::try_from(srv.mono_ms()).unwrap_or(0);
    Some(srv.nodes.cluster.authority.bounded_until().saturating_sub(now))
}
