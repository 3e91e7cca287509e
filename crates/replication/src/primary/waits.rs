//! Clients that wait until their writes are elsewhere: WAIT and WAITAOF.

use super::Primary;
use crate::Ms;

/// What a client waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// So many replicas have it.
    Replicas(usize),
    /// It is on this server's disk, if `local`, and on that of so many replicas.
    Disk { local: bool, replicas: usize },
}

/// What a client is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    Replicas(usize),
    Disk { local: usize, replicas: usize },
}

#[derive(Clone, Debug)]
struct Wait<K> {
    client: K,
    /// The stream's end behind the client's last write.
    offset: u64,
    /// That write's place in our own log on disk.
    local: u64,
    goal: Goal,
    until: Option<Ms>,
}

/// All clients that wait. `K` names one.
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
    /// How it stands with what lies before these places: `local` in our own log, of which `durable` is safe.
    #[must_use]
    pub fn stand(
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

    /// A client waits; for ever if there is no `until`.
    pub fn add(&mut self, client: K, goal: Goal, offset: u64, local: u64, until: Option<Ms>) {
        self.waits.push(Wait { client, offset, local, goal, until });
    }

    /// A client is gone, or was told otherwise.
    pub fn remove(&mut self, client: K) {
        self.waits.retain(|wait| wait.client != client);
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waits.is_empty()
    }

    /// When the next one has waited long enough.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Ms> {
        self.waits.iter().filter_map(|wait| wait.until).min()
    }

    /// Those who need not wait any longer, in the order in which they came, and what each is told.
    /// O(clients * replicas).
    pub fn settle(&mut self, now: Ms, primary: &Primary, durable: u64) -> Vec<(K, Done)> {
        let mut done = Vec::new();
        self.waits.retain(|wait| {
            let (reached, stands) =
                Self::stand(wait.goal, primary, wait.offset, wait.local, durable);
            let over = reached || wait.until.is_some_and(|until| now >= until);
            if over {
                done.push((wait.client, stands));
            }
            !over
        });
        done
    }
}
