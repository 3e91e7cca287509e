//! weft-duty: executes the actions that may wait for commands, one after the other.
//!
//! A change of the role waits for the end of all commands, also of a script that runs for minutes. Nothing here delays the lease:
//! see [`crate::queue`].

use crate::publish::Publisher;
use crate::thread::TICK;
use crate::{Shared, spawn};
use std::sync::Arc;
use std::time::{Duration, Instant};
use weft_cluster::SlotSet;
use weft_cluster::node::{Action, DrainId, Duty, RequestId};
use weft_config::Id;
use weft_replication_driver::hub;
use weft_state::acting::ActionId;
use weft_state::inquiry::Inquiry;
use weft_state::server::Server;

/// Interval of checks for the end of commands that a suspension waits for.
const DRAIN: Duration = Duration::from_millis(2);

/// Starts the thread.
///
/// # Errors
/// Those of the system.
pub fn start(driver: Shared) -> std::io::Result<()> {
    spawn("weft-duty", move || {
        weft_scheduler::placement::bind_to(&driver.srv.placement().bio);
        let mut thread = Thread {
            driver,
            publisher: Publisher::new(driver),
            drains: Vec::new(),
            replies: Vec::new(),
        };
        loop {
            thread.turn();
        }
    })
}

struct Thread {
    driver: Shared,
    publisher: Publisher,
    drains: Vec<Drain>,
    /// Replies that follow the publication of what they report.
    replies: Vec<(RequestId, Result<(), String>)>,
}

/// A suspension that begins. It has begun when nothing from before it is left.
struct Drain {
    id: DrainId,
    /// The commands in the slow lane that began before it.
    commands: Vec<ActionId>,
    /// Since when they have ended.
    ended: Option<Instant>,
    /// The present question to the I/O threads, and the number of those that were answered.
    inquiry: Option<Arc<Inquiry>>,
    answered: usize,
}

impl Drain {
    /// Whether the clients have all replies and messages from before. `limit`: then the wait ends in any case.
    fn is_quiet(&mut self, srv: &Server, limit: Duration) -> bool {
        /// See [`weft_state::inquiry`].
        const TIMES: usize = 2;
        let ended = *self.ended.get_or_insert_with(Instant::now);
        match self.inquiry.as_ref().map(|inquiry| inquiry.result()) {
            _ if ended.elapsed() > limit => return true,
            Some(None) => return false,
            Some(Some(withholds)) => {
                self.answered += 1;
                if self.answered >= TIMES && !withholds {
                    return true;
                }
            }
            None => {}
        }
        self.inquiry = Some(srv.inquire());
        false
    }
}

impl Thread {
    fn turn(&mut self) {
        // Actions that come meanwhile have their turn after the publication.
        for _ in 0..self.wait() {
            if let Some(action) = self.take() {
                self.execute(action);
                self.driver.queue().done();
            }
        }
        self.publisher.publish();
        if self.publisher.shows_store() {
            self.driver.set_ready();
        }
        // A reply to MIGRATESLOTS says that the move has begun.
        self.driver.follow_moves();
        for (request, result) in self.replies.drain(..) {
            self.driver.request_ended(request, result);
        }
        self.check_drains();
        self.begin_again();
    }

    /// Waits until there is something to do. Returns the number of actions that wait.
    fn wait(&self) -> usize {
        let pause = if self.drains.is_empty() { TICK } else { DRAIN };
        let mut queue = self.driver.queue();
        if queue.len() == 0 {
            let waited = self.driver.queued.wait_timeout(queue, pause);
            queue = waited.unwrap_or_else(|p| p.into_inner()).0;
        }
        queue.len()
    }

    /// Takes the next action. A deadline is in force when this returns.
    fn take(&mut self) -> Option<Action> {
        let is_deadline = self.driver.queue().is_deadline_next();
        if is_deadline {
            self.publisher.publish_losses();
        }
        let mut queue = self.driver.queue();
        let action = queue.take();
        if let Some(Action::AcknowledgeUntil(until)) = action {
            // Before weft-cluster can set an earlier one.
            self.driver.srv.acknowledge_until(until);
        }
        action
    }

    fn execute(&mut self, action: Action) {
        let srv = self.driver.srv;
        match action {
            Action::Store { op, operation } => {
                // Everything that a transaction gives away has ended before it is sent.
                self.publisher.publish();
                self.driver.store.request(op, operation);
            }
            Action::Serve(slots) => self.publisher.serve(slots),
            Action::Drain(id) => {
                self.publisher.publish();
                let commands = srv.slow.acting.commands(|_, _| true);
                let drain = Drain { id, commands, ended: None, inquiry: None, answered: 0 };
                self.drains.push(drain);
            }
            Action::Duty(duty) => self.change_duty(duty),
            Action::Confirm { through } => hub(srv).confirm(srv, through),
            Action::Publish => self.publisher.look_again(),
            Action::Reply { request, result } => self.replies.push((request, result)),
            // It was set when it was taken.
            Action::AcknowledgeUntil(_) => {}
            Action::AskPromise { .. } | Action::Promise { .. } | Action::Log(_) => {
                unreachable!("they never wait")
            }
        }
    }

    /// A primary that ends redirects its clients before its role changes, and one that begins has its role before clients come.
    fn change_duty(&mut self, duty: Duty) {
        let led = self.publisher.leads();
        self.publisher.set_duty(duty);
        match duty {
            Duty::Lead { .. } => {
                let srv = self.driver.srv;
                if led {
                    // Another epoch: earlier writes wait for replicas that are not listed any more.
                    hub(srv).abandon_unconfirmed(srv);
                }
                // Until its map is published.
                srv.nodes.cluster.authority.set_changes_role(!led);
                self.driver.change_role(duty);
                let quorum = srv.config().int(Id::CLUSTER_WRITE_QUORUM) > 0;
                hub(srv).set_quorum(srv, quorum);
            }
            Duty::None | Duty::Follow { .. } => {
                let srv = self.driver.srv;
                // Writes that are not confirmed are never answered: they may be lost.
                hub(srv).abandon_unconfirmed(srv);
                let authority = &srv.nodes.cluster.authority;
                authority.set_changes_role(led && matches!(duty, Duty::Follow { .. }));
                self.publisher.publish();
                hub(srv).set_quorum(srv, false);
                self.driver.change_role(duty);
                authority.set_changes_role(false);
            }
        }
    }

    /// Reports suspensions that have begun. If the role is about to go, the clients get first what they wait for: afterwards, this
    /// node may acknowledge nothing.
    fn check_drains(&mut self) {
        if self.drains.is_empty() {
            return;
        }
        let srv = self.driver.srv;
        let running = srv.slow.acting.commands(|_, _| true);
        let is_role = self.publisher.serves_nothing();
        let limit = Duration::from_millis(self.driver.machine().node().timeout() / 4);
        let is_done = |drain: &mut Drain| {
            !drain.commands.iter().any(|command| running.contains(command))
                && (!is_role || drain.is_quiet(srv, limit))
        };
        let done: Vec<Drain> = self.drains.extract_if(.., is_done).collect();
        for Drain { id, .. } in done {
            // A replica that gets the role must have everything, and say so at once.
            hub(srv).report_written(srv);
            let slots = self.driver.machine().node().slots_of_drain(id);
            let has_keys = slots.is_some_and(|slots| self.has_keys(&slots));
            self.driver.pass(|event| event.node.drained(event.now, id, has_keys, event.out));
        }
    }
}

impl Thread {
    /// A node that has left its shard while it loaded a copy begins again without data.
    fn begin_again(&self) {
        let srv = self.driver.srv;
        if !self.publisher.is_idle() || !self.driver.machine().node().has_lost_data() {
            return;
        }
        // No load can begin any more. The end of one has dropped all data, unless the earlier data were still there.
        let is_settled = hub(srv).lock().pending.is_empty() && !srv.persistence.loading.is_on();
        if is_settled {
            let offset = hub_offset(self.driver);
            self.driver.pass(|event| event.node.data_at(event.now, offset, None, event.out));
        }
    }

    /// Whether there are keys of these slots.
    fn has_keys(&self, slots: &SlotSet) -> bool {
        let ks = &self.driver.srv.ks;
        slots.iter().any(|slot| ks.occupied_databases().any(|db| ks.slot_len(slot, db) > 0))
    }
}

/// The end of this server's data in the replication stream.
fn hub_offset(driver: Shared) -> u64 {
    hub(driver.srv).published.offset.load(std::sync::atomic::Ordering::SeqCst)
}
