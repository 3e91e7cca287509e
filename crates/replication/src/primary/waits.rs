//! Clients blocked in WAIT and WAITAOF until their writes are replicated or durable.

use super::Primary;
use crate::Ms;

/// The condition that a client waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// This many replicas have the write.
    Replicas(usize),
    /// The write is durable on this server's disk, if `local`, and on those of this many replicas.
    Disk { local: bool, replicas: usize },
}

/// The result for a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    Replicas(usize),
    Disk { local: usize, replicas: usize },
}

#[derive(Clone, Debug)]
struct Wait<K> {
    client: K,
    /// End of the stream after the client's last write.
    offset: u64,
    /// Position of that write in the local log on disk.
    local: u64,
    goal: Goal,
    until: Option<Ms>,
}

/// All waiting clients. `K` identifies a client.
#[derive(Clone, Debug)]
pub struct Waits<K> {
    waits: Vec<Wait<K>>,
}

impl<K> Default for Waits<K> {
    fn default() -> Waits<K> {
        Waits { waits: Vec::new() }
    }
}

impl<K: Copy + PartialEq> Waits<K> {
    /// Evaluates a goal for these positions. `local` is in the local log, which is durable up to
    /// `durable`. Returns whether the goal is reached, and the result.
    #[must_use]
    pub fn evaluate(
        goal: Goal,
        primary: &Primary,
        offset: u64,
        local: u64,
        durable: u64,
    ) -> (bool, Done) {
        match goal {
            Goal::Replicas(wanted) => {
                let replicas = primary.acked(offset);
                (replicas >= wanted, Done::Replicas(replicas))
            }
            Goal::Disk { local: wants_local, replicas: wanted } => {
                let replicas = primary.acked_on_disk(offset);
                let is_local = durable >= local;
                let done = replicas >= wanted && (is_local || !wants_local);
                (done, Done::Disk { local: usize::from(is_local), replicas })
            }
        }
    }

    /// Adds a client, which waits without limit if `until` is `None`.
    pub fn add(&mut self, client: K, goal: Goal, offset: u64, local: u64, until: Option<Ms>) {
        self.waits.push(Wait { client, offset, local, goal, until });
    }

    /// Removes a client that disconnected or was unblocked otherwise.
    pub fn remove(&mut self, client: K) {
        self.waits.retain(|wait| wait.client != client);
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waits.is_empty()
    }

    /// The next timeout.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Ms> {
        self.waits.iter().filter_map(|wait| wait.until).min()
    }

    /// Removes the clients whose wait is over and returns their results, in order of arrival.
    /// O(clients * replicas).
    pub fn take_finished(&mut self, now: Ms, primary: &Primary, durable: u64) -> Vec<(K, Done)> {
        let mut done = Vec::new();
        self.waits.retain(|wait| {
            let (reached, result) =
                Self::evaluate(wait.goal, primary, wait.offset, wait.local, durable);
            let over = reached || wait.until.is_some_and(|until| now >= until);
            if over {
                done.push((wait.client, result));
            }
            !over
        });
        done
    }
}
