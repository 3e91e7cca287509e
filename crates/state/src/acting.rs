//! Running commands of the slow lane that CLIENT KILL and changes of users wait for.

use crate::clients::ClientShared;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

/// Running commands that may do more than change keys, or that send keys to another server. A thread that kills such a
/// client, or takes rights away from its user, waits for the end of the command.
#[derive(Debug, Default)]
pub struct Acting {
    state: Mutex<Actions>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct Actions {
    last: u64,
    running: Vec<Action>,
}

#[derive(Debug)]
struct Action {
    number: u64,
    client: Arc<ClientShared>,
    delays_kill: bool,
}

/// A running command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActionId {
    pub client: u64,
    number: u64,
}

impl Acting {
    /// Registers a running command of the client, until the result is dropped. `delays_kill`: CLIENT KILL waits for it,
    /// too.
    pub fn begin(&self, client: &Arc<ClientShared>, delays_kill: bool) -> Acts<'_> {
        let mut state = self.state();
        state.last += 1;
        let number = state.last;
        state.running.push(Action { number, client: client.clone(), delays_kill });
        Acts(self, number)
    }

    /// The registered commands of clients that satisfy `is`, which also gets whether the command delays CLIENT KILL.
    pub fn commands(&self, is: impl Fn(&ClientShared, bool) -> bool) -> Vec<ActionId> {
        let state = self.state();
        let running = state.running.iter().filter(|action| is(&action.client, action.delays_kill));
        running.map(|a| ActionId { client: a.client.id, number: a.number }).collect()
    }

    /// Blocks until these commands have ended.
    pub fn wait_for(&self, commands: &[ActionId]) {
        let one_runs = |state: &mut Actions| {
            state.running.iter().any(|a| commands.iter().any(|waited| waited.number == a.number))
        };
        drop(self.ended.wait_while(self.state(), one_runs));
    }

    fn state(&self) -> MutexGuard<'_, Actions> {
        self.state.lock().unwrap_or_else(|p| p.into_inner())
    }
}

/// The client's command counts as running until this is dropped.
pub struct Acts<'a>(&'a Acting, u64);

impl Drop for Acts<'_> {
    fn drop(&mut self) {
        self.0.state().running.retain(|action| action.number != self.1);
        self.0.ended.notify_all();
    }
}
