//! weft-cluster: advances the time of the machine, and executes its actions in their order.

use crate::publish::Publisher;
use crate::{Shared, spawn};
use std::collections::VecDeque;
use std::time::{Duration, Instant};
use weft_cluster::SlotSet;
use weft_cluster::node::{Action, DrainId, Duty, Operation, RequestId};
use weft_config::Id;
use weft_process::log_notice;
use weft_replication_driver::cluster::PromiseQuestion;
use weft_replication_driver::hub;
use weft_state::acting::ActionId;

/// Interval of ticks.
const TICK: Duration = Duration::from_millis(100);
/// Interval of checks for the end of commands that a suspension waits for.
const DRAIN: Duration = Duration::from_millis(2);

/// Starts the thread.
///
/// # Errors
/// Those of the system.
pub fn start(driver: Shared) -> std::io::Result<()> {
    spawn("weft-cluster", move || {
        weft_scheduler::placement::bind_to(&driver.srv.placement().bio);
        let mut thread = Thread {
            driver,
            publisher: Publisher::new(driver),
            drains: Vec::new(),
            replies: Vec::new(),
            ticked: Instant::now(),
        };
        loop {
            thread.turn();
        }
    })
}

struct Thread {
    driver: Shared,
    publisher: Publisher,
    /// Suspensions, with the commands in the slow lane that began before them.
    drains: Vec<(DrainId, Vec<ActionId>)>,
    /// Replies that follow the publication of what they report.
    replies: Vec<(RequestId, Result<(), String>)>,
    ticked: Instant,
}

impl Thread {
    fn turn(&mut self) {
        let actions = self.wait();
        for action in actions {
            self.execute(action);
        }
        self.publisher.publish();
        if self.publisher.shows_store() {
            self.driver.set_ready();
        }
        for (request, result) in self.replies.drain(..) {
            self.driver.request_ended(request, result);
        }
        self.check_drains();
        self.driver.follow_moves();
        self.begin_again();
    }

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

    /// Takes the actions that wait. Advances the time when a tick is due.
    fn wait(&mut self) -> VecDeque<Action> {
        let pause = if self.drains.is_empty() { TICK } else { DRAIN };
        let mut machine = self.driver.machine();
        if !machine.has_actions() {
            let left = pause.min(TICK.saturating_sub(self.ticked.elapsed()));
            let waited = self.driver.changed.wait_timeout(machine, left);
            machine = waited.unwrap_or_else(|p| p.into_inner()).0;
        }
        if self.ticked.elapsed() >= TICK {
            self.ticked = Instant::now();
            // Replication reports its offset itself: a value read here could be older than its report.
            machine.pass(self.driver.now(), |event| event.tick());
        }
        machine.take()
    }

    fn execute(&mut self, action: Action) {
        let srv = self.driver.srv;
        match action {
            Action::Store { op, operation } => {
                // Everything that a transaction gives away has ended before it is sent.
                if matches!(operation, Operation::Transact(_)) {
                    self.publisher.publish();
                }
                self.driver.store.request(op, operation);
            }
            Action::AcknowledgeUntil(until) => srv.acknowledge_until(until),
            Action::Serve(slots) => self.publisher.serve(slots),
            Action::Drain(id) => {
                self.publisher.publish();
                let commands = srv.slow.acting.commands(|_, _| true);
                self.drains.push((id, commands));
            }
            Action::Duty(duty) => self.change_duty(duty),
            Action::Confirm { through } => hub(srv).confirm(srv, through),
            Action::AskPromise { member, epoch, ask } => {
                hub(srv).ask_promise(srv, PromiseQuestion { epoch, ask, member });
            }
            Action::Promise { to, epoch, ask } => hub(srv).promise(srv, to, epoch, ask),
            Action::Publish => self.publisher.look_again(),
            Action::Reply { request, result } => self.replies.push((request, result)),
            Action::Log(text) => log_notice!("Cluster: {text}"),
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
                self.driver.change_role(duty);
                let quorum = srv.config().int(Id::CLUSTER_WRITE_QUORUM) > 0;
                hub(srv).set_quorum(srv, quorum);
            }
            Duty::None | Duty::Follow { .. } => {
                let srv = self.driver.srv;
                // Writes that are not confirmed are never answered: they may be lost.
                hub(srv).abandon_unconfirmed(srv);
                hub(srv).set_quorum(srv, false);
                self.publisher.publish();
                self.driver.change_role(duty);
            }
        }
    }

    /// Reports suspensions whose commands have ended.
    fn check_drains(&mut self) {
        if self.drains.is_empty() {
            return;
        }
        let srv = self.driver.srv;
        let running = srv.slow.acting.commands(|_, _| true);
        let is_done =
            |commands: &[ActionId]| !commands.iter().any(|command| running.contains(command));
        let (done, left): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.drains).into_iter().partition(|(_, of)| is_done(of));
        self.drains = left;
        for (id, _) in done {
            // A replica that gets the role must have everything, and say so at once.
            hub(srv).report_written(srv);
            let slots = self.driver.machine().node().slots_of_drain(id);
            let has_keys = slots.is_some_and(|slots| self.has_keys(&slots));
            self.driver.pass(|event| event.node.drained(event.now, id, has_keys, event.out));
        }
    }
}

impl Thread {
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
