//! Clients that must authenticate and have not done so.
//!
//! Their number and their time are limited, so that clients without a password can't use up `maxclients`. The list is
//! touched when such a client connects, authenticates or leaves: no other client pays for it.

use crate::clients::ClientShared;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use weft_process::log_warning;

/// Minimum time between two log lines about closed clients.
const QUIET_MS: i64 = 1000;

/// The clients, and how many were closed since the last log line.
#[derive(Debug, Default)]
pub struct Unauthenticated {
    state: Mutex<State>,
    arrivals: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    /// By arrival.
    queue: BTreeMap<u64, Entry>,
    /// The keys of `queue` by client.
    keys: HashMap<u64, u64>,
    /// Clients closed for their number, and for their time, that the log does not show yet.
    crowded: u64,
    late: u64,
    logged_ms: Option<i64>,
}

#[derive(Debug)]
struct Entry {
    client: Arc<ClientShared>,
    since_ms: i64,
}

impl Unauthenticated {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|p| p.into_inner())
    }

    /// The place of a new connection in the order of all. Threads may add their connections in another order.
    pub fn next_arrival(&self) -> u64 {
        self.arrivals.fetch_add(1, Ordering::Relaxed)
    }

    /// Adds a client that has to authenticate, at this monotonic time.
    pub fn add(&self, client: &Arc<ClientShared>, arrival: u64, now_ms: i64) {
        let state = &mut *self.state();
        state.forget(client.id);
        state.keys.insert(client.id, arrival);
        state.queue.insert(arrival, Entry { client: client.clone(), since_ms: now_ms });
    }

    /// The client has authenticated or left.
    pub fn remove(&self, id: u64) {
        self.state().forget(id);
    }

    pub fn len(&self) -> usize {
        self.state().queue.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes the oldest client if there are more than `most`. The caller closes it.
    pub fn take_oldest_beyond(&self, most: usize) -> Option<Arc<ClientShared>> {
        let state = &mut *self.state();
        let taken = if state.queue.len() > most { state.take_first() } else { None };
        state.crowded += u64::from(taken.is_some());
        taken
    }

    /// Removes the oldest client if it was added before this monotonic time. The caller closes it.
    pub fn take_older_than(&self, since_ms: i64) -> Option<Arc<ClientShared>> {
        let state = &mut *self.state();
        let oldest = state.queue.first_key_value()?.1.since_ms;
        let taken = if oldest < since_ms { state.take_first() } else { None };
        state.late += u64::from(taken.is_some());
        taken
    }

    /// Logs how many clients were closed, at most once in [`QUIET_MS`].
    pub fn report(&self, now_ms: i64) {
        let state = &mut *self.state();
        let is_quiet = state.logged_ms.is_some_and(|last| now_ms - last < QUIET_MS);
        let (crowded, late) = (state.crowded, state.late);
        if is_quiet || (crowded, late) == (0, 0) {
            return;
        }
        (state.crowded, state.late, state.logged_ms) = (0, 0, Some(now_ms));
        log_warning!(
            "Closed clients that had not authenticated: {crowded} because there were too many, {late} after \
             unauthenticated-client-timeout"
        );
    }
}

impl State {
    fn forget(&mut self, id: u64) {
        if let Some(key) = self.keys.remove(&id) {
            self.queue.remove(&key);
        }
    }

    fn take_first(&mut self) -> Option<Arc<ClientShared>> {
        let (_, Entry { client, .. }) = self.queue.pop_first()?;
        self.keys.remove(&client.id);
        Some(client)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oldest_client_is_taken_first() {
        let all = Unauthenticated::default();
        let clients: Vec<_> = (0..5)
            .map(|id| Arc::new(ClientShared::of_primary(id, 0, Default::default(), 0)))
            .collect();
        // Another order than that of arrival.
        clients.iter().rev().for_each(|client| all.add(client, client.id, 10 * client.id as i64));
        let id = |taken: Option<Arc<ClientShared>>| taken.map(|client| client.id);
        assert_eq!(id(all.take_oldest_beyond(5)), None);
        assert_eq!(id(all.take_oldest_beyond(4)), Some(0));
        // RESET starts anew.
        all.add(&clients[1], 5, 50);
        all.remove(3);
        all.remove(3);
        assert_eq!(id(all.take_older_than(20)), None);
        assert_eq!(id(all.take_older_than(21)), Some(2));
        assert_eq!(id(all.take_older_than(1000)), Some(4));
        assert_eq!(id(all.take_oldest_beyond(0)), Some(1));
        assert_eq!(id(all.take_oldest_beyond(0)), None);
        assert!(all.is_empty() && all.state().keys.is_empty());
    }
}
