//! weft-cluster: advances the time of the machine, and gives its actions to those that execute them.
//!
//! It never waits for commands or for the store. Actions that may wait are in the [`Queue`](crate::queue::Queue) of weft-duty:
//! [`crate::duties`].

use crate::{Shared, spawn};
use std::collections::VecDeque;
use std::time::{Duration, Instant};
use weft_cluster::node::Action;
use weft_process::log_notice;
use weft_replication_driver::cluster::PromiseQuestion;
use weft_replication_driver::hub;

/// Interval of ticks.
pub const TICK: Duration = Duration::from_millis(100);

/// Starts the thread.
///
/// # Errors
/// Those of the system.
pub fn start(driver: Shared) -> std::io::Result<()> {
    spawn("weft-cluster", move || {
        weft_scheduler::placement::bind_to(&driver.srv.placement().bio);
        let mut thread = Thread { driver, ticked: Instant::now() };
        loop {
            thread.wait().into_iter().for_each(|action| driver.accept(action));
        }
    })
}

struct Thread {
    driver: Shared,
    ticked: Instant,
}

impl Thread {
    /// Takes the actions that wait. Advances the time when a tick is due.
    fn wait(&mut self) -> VecDeque<Action> {
        let mut machine = self.driver.machine();
        if !machine.has_actions() {
            let left = TICK.saturating_sub(self.ticked.elapsed());
            let waited = self.driver.changed.wait_timeout(machine, left);
            machine = waited.unwrap_or_else(|p| p.into_inner()).0;
        }
        if self.ticked.elapsed() >= TICK {
            self.ticked = Instant::now();
            // Replication reports its offset itself: a value read here could be older than its report.
            let is_leaving = self.driver.srv.is_leaving();
            machine.pass(self.driver.now(), is_leaving, |event| event.tick());
        }
        machine.take()
    }
}

impl crate::Driver {
    /// Executes an action of the machine, or leaves it to weft-duty. Only weft-cluster calls it, in the order of the actions.
    fn accept(&self, action: Action) {
        let mut queue = self.queue();
        let now = queue.push(self.now(), action);
        if let Some(Action::AcknowledgeUntil(until)) = now {
            // Before weft-duty can take a later deadline.
            return self.srv.acknowledge_until(until);
        }
        drop(queue);
        match now {
            Some(action) => self.execute_at_once(action),
            None => self.queued.notify_one(),
        }
    }

    fn execute_at_once(&self, action: Action) {
        match action {
            Action::Store { op, operation } => self.store.request(op, operation),
            Action::Confirm { through } => hub(self.srv).confirm(self.srv, through),
            Action::Log(text) => log_notice!("Cluster: {text}"),
            Action::AskPromise { member, epoch, ask } => {
                hub(self.srv).ask_promise(self.srv, PromiseQuestion { epoch, ask, member });
            }
            Action::Promise { to, epoch, ask } => hub(self.srv).promise(self.srv, to, epoch, ask),
            Action::AcknowledgeUntil(_)
            | Action::Serve(_)
            | Action::Drain(_)
            | Action::Duty(_)
            | Action::Publish
            | Action::Reply { .. } => unreachable!("they have their turn"),
        }
    }
}
