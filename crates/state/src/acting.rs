//! Running commands of the slow lane that CLIENT KILL and changes of users wait for.

use crate::clients::ClientShared;
use std::sync::{Arc, Mutex, MutexGuard};

/// Running commands that may do more than change keys, or that send keys to another server. The reply to a client that
/// kills such a client, or takes rights away from its user, waits for the end of the command.
///
/// A job of type `J` that completes the reply waits here, so that it occupies no thread: a script may run without end.
#[derive(Debug)]
pub struct Acting<J>(Mutex<Actions<J>>);

#[derive(Debug)]
struct Actions<J> {
    last: u64,
    running: Vec<Action>,
    waiting: Vec<(Vec<ActionId>, J)>,
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

impl<J> Default for Acting<J> {
    fn default() -> Self {
        Acting(Mutex::new(Actions { last: 0, running: Vec::new(), waiting: Vec::new() }))
    }
}

impl<J> Actions<J> {
    fn is_running(&self, command: &ActionId) -> bool {
        self.running.iter().any(|action| action.number == command.number)
    }
}

impl<J> Acting<J> {
    /// Registers a running command of the client, until [`Acting::end`]. `delays_kill`: CLIENT KILL waits for it, too.
    pub fn begin(&self, client: &Arc<ClientShared>, delays_kill: bool) -> ActionId {
        let mut state = self.state();
        state.last += 1;
        let number = state.last;
        state.running.push(Action { number, client: client.clone(), delays_kill });
        ActionId { client: client.id, number }
    }

    /// The registered commands of clients that satisfy `is`, which also gets whether the command delays CLIENT KILL.
    pub fn commands(&self, is: impl Fn(&ClientShared, bool) -> bool) -> Vec<ActionId> {
        let state = self.state();
        let running = state.running.iter().filter(|action| is(&action.client, action.delays_kill));
        running.map(|a| ActionId { client: a.client.id, number: a.number }).collect()
    }

    /// Keeps `job` until these commands have ended: [`Acting::end`] returns it then. Returns it now if they have.
    pub fn wait(&self, commands: Vec<ActionId>, job: J) -> Option<J> {
        let mut state = self.state();
        if !commands.iter().any(|command| state.is_running(command)) {
            return Some(job);
        }
        state.waiting.push((commands, job));
        None
    }

    /// The command has ended. Returns the jobs that have waited for it and wait for no other.
    pub fn end(&self, command: ActionId) -> Vec<J> {
        let mut state = self.state();
        state.running.retain(|action| action.number != command.number);
        if state.waiting.is_empty() {
            return Vec::new();
        }
        let waiting = std::mem::take(&mut state.waiting);
        let (waiting, ready): (Vec<_>, Vec<_>) = waiting
            .into_iter()
            .partition(|(commands, _)| commands.iter().any(|command| state.is_running(command)));
        state.waiting = waiting;
        ready.into_iter().map(|(_, job)| job).collect()
    }

    fn state(&self) -> MutexGuard<'_, Actions<J>> {
        self.0.lock().unwrap_or_else(|p| p.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn job_waits_for_the_last_of_its_commands() {
        let acting = Acting::default();
        let client = |id| Arc::new(ClientShared::of_primary(id, 0, Default::default(), 0));
        let (first, second) = (acting.begin(&client(1), true), acting.begin(&client(2), false));
        assert_eq!(acting.commands(|client, _| client.id == 2), [second]);
        assert_eq!(acting.commands(|_, delays_kill| delays_kill), [first]);
        assert_eq!(acting.wait(vec![first, second], "both"), None);
        assert_eq!(acting.wait(vec![second], "second"), None);
        assert!(acting.end(first).is_empty());
        let later = acting.begin(&client(2), true);
        assert_eq!(acting.end(second), ["both", "second"]);
        assert_eq!(acting.wait(vec![first, second], "late"), Some("late"));
        assert!(acting.end(later).is_empty());
    }
}
