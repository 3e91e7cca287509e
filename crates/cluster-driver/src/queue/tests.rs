//! All sequences of actions, of steps of weft-duty between them, and of time, up to a length.

use super::*;
use std::sync::Arc;
use weft_cluster::node::{DrainId, Duty, LeaseId, OpId, RequestId, Transaction};

/// One step of a sequence.
#[derive(Clone, Copy, Debug)]
enum Step {
    Serve,
    Drain,
    Duty,
    Transact,
    Extend,
    Shorten,
    End,
    Confirm,
    KeepAlive,
    /// weft-duty takes an action, or has done it.
    Work,
    /// The deadline passes.
    Time,
}

const STEPS: [Step; 11] = [
    Step::Serve,
    Step::Drain,
    Step::Duty,
    Step::Transact,
    Step::Extend,
    Step::Shorten,
    Step::End,
    Step::Confirm,
    Step::KeepAlive,
    Step::Work,
    Step::Time,
];

/// The actions that the machine has emitted, and the deadline in force.
#[derive(Clone, Debug, Default)]
struct Model {
    queue: Queue,
    now: Ms,
    /// The actions, in the order of the machine; whether each is done.
    actions: Vec<(Kind, bool)>,
    /// The action that weft-duty executes.
    at: Option<usize>,
    /// The deadlines of the machine, each with its action.
    deadlines: Vec<(usize, Ms)>,
    in_force: Ms,
    steps: Vec<Step>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Serve,
    Drain,
    Duty,
    Transact,
    Deadline,
    Confirm,
    KeepAlive,
}

const LEASE: Ms = 100;

impl Model {
    fn step(&mut self, step: Step) {
        self.steps.push(step);
        let number = self.actions.len();
        let wanted = self.deadlines.last().map_or(0, |(_, until)| *until);
        match step {
            Step::Work => return self.work(),
            Step::Time => return self.now += 2 * LEASE,
            Step::Serve => self.push(Kind::Serve, Action::Serve(Arc::default())),
            Step::Drain => self.push(Kind::Drain, Action::Drain(DrainId(1))),
            Step::Duty => self.push(Kind::Duty, Action::Duty(Duty::None)),
            Step::Transact => {
                let of = Transaction { compares: Vec::new(), writes: Vec::new() };
                self.push(Kind::Transact, store(Operation::Transact(of)));
            }
            Step::KeepAlive => {
                self.push(Kind::KeepAlive, store(Operation::KeepAlive { lease: LeaseId(1) }));
            }
            Step::Confirm => self.push(Kind::Confirm, Action::Confirm { through: number as u64 }),
            Step::Extend => self.deadline(wanted.max(self.now + LEASE) + 1),
            Step::Shorten => self.deadline(wanted / 2),
            Step::End => self.deadline(0),
        }
        assert!(self.in_force <= self.deadlines.last().map_or(0, |(_, until)| *until), "{self:#?}");
    }

    fn deadline(&mut self, until: Ms) {
        let number = self.actions.len();
        let earlier = self.deadlines.last().map_or(0, |(_, until)| *until);
        let waiting = self.queue.len();
        self.deadlines.push((number, until));
        self.push(Kind::Deadline, Action::AcknowledgeUntil(until));
        if self.actions[number].1 || self.queue.len() > waiting {
            return;
        }
        // It has bounded those that wait, or has taken the place of the last one.
        let done = match until > earlier {
            true => self.find_waiting(Kind::Deadline, true),
            false => number,
        };
        self.actions[done].1 = true;
    }

    /// The first action of a kind that waits; or the last one before the present one.
    fn find_waiting(&self, of: Kind, is_last: bool) -> usize {
        let waits = |(kind, done): &(Kind, bool)| *kind == of && !done;
        let found = match is_last {
            true => self.actions[..self.actions.len() - 1].iter().rposition(waits),
            false => self.actions.iter().position(waits),
        };
        found.expect("pushed")
    }

    fn push(&mut self, kind: Kind, action: Action) {
        let number = self.actions.len();
        self.actions.push((kind, false));
        let at_once = self.queue.push(self.now, action);
        assert!(kind != Kind::KeepAlive || at_once.is_some(), "a keepalive waits: {self:#?}");
        if let Some(action) = at_once {
            self.execute(number, &action, true);
            self.actions[number].1 = true;
        }
    }

    fn work(&mut self) {
        if let Some(number) = self.at.take() {
            self.actions[number].1 = true;
            return self.queue.done();
        }
        let Some(action) = self.queue.take() else { return };
        let number = self.find_waiting(kind_of(&action), false);
        self.execute(number, &action, false);
        self.at = Some(number);
    }

    /// Checks the order.
    fn execute(&mut self, number: usize, action: &Action, at_once: bool) {
        let earlier = &self.actions[..number];
        let all_done = earlier.iter().all(|(_, done)| *done);
        let duties_done = earlier.iter().all(|(kind, done)| *done || *kind != Kind::Duty);
        match action {
            Action::AcknowledgeUntil(until) if *until > self.in_force => {
                // In time, it is the same lease: nothing was given or taken away.
                let extends = self.now < self.in_force && duties_done && at_once;
                assert!(extends || all_done, "{number}: {self:#?}");
                self.in_force = *until;
            }
            Action::AcknowledgeUntil(until) => self.in_force = *until,
            Action::Confirm { through } => {
                assert_eq!(*through, number as u64, "{self:#?}");
                let later = &self.actions[number + 1..];
                let none_begun = later.iter().all(|(kind, done)| !done || *kind != Kind::Duty);
                assert!(duties_done && none_begun, "{number}: {self:#?}");
            }
            Action::Store { operation: Operation::KeepAlive { .. }, .. } => {}
            _ => assert!(all_done, "{number}: {self:#?}"),
        }
    }
}

fn store(operation: Operation) -> Action {
    Action::Store { op: OpId(1), operation }
}

fn kind_of(action: &Action) -> Kind {
    match action {
        Action::Serve(_) => Kind::Serve,
        Action::Drain(_) => Kind::Drain,
        Action::Duty(_) => Kind::Duty,
        Action::AcknowledgeUntil(_) => Kind::Deadline,
        Action::Confirm { .. } => Kind::Confirm,
        Action::Store { operation: Operation::Transact(_), .. } => Kind::Transact,
        Action::Store { .. } => Kind::KeepAlive,
        other => unreachable!("{other:?}"),
    }
}

fn explore(model: &Model, depth: usize) {
    if depth == 0 {
        // In the end everything is done, and the last deadline is in force.
        let mut model = model.clone();
        while model.at.is_some() || model.queue.len() > 0 {
            model.work();
        }
        assert_eq!(model.in_force, model.deadlines.last().map_or(0, |(_, until)| *until));
        return;
    }
    for step in STEPS {
        let mut next = model.clone();
        next.step(step);
        explore(&next, depth - 1);
    }
}

#[test]
fn order_holds_in_all_sequences() {
    explore(&Model::default(), 5);
    // With a role, a lease and a change of the role that waits.
    let mut begun = Model::default();
    for step in [Step::Extend, Step::Work, Step::Work, Step::Duty] {
        begun.step(step);
    }
    explore(&begun, 5);
}

#[test]
fn keepalives_and_extensions_pass_a_drain_but_not_a_role() {
    let mut queue = Queue::default();
    assert!(queue.push(0, Action::AcknowledgeUntil(100)).is_none(), "a lease begins in its turn");
    assert!(queue.take().is_some());
    assert!(queue.push(10, Action::Drain(DrainId(1))).is_none());
    let extends = queue.push(90, Action::AcknowledgeUntil(190));
    assert!(matches!(extends, Some(Action::AcknowledgeUntil(190))));
    assert!(queue.push(90, Action::Duty(Duty::None)).is_none());
    assert!(queue.push(91, Action::AcknowledgeUntil(191)).is_none());
    let grant = store(Operation::Grant { ttl: 100 });
    assert!(queue.push(92, grant).is_some());
    let ends = queue.push(93, Action::AcknowledgeUntil(0));
    assert!(matches!(ends, Some(Action::AcknowledgeUntil(0))));
    let reply = Action::Reply { request: RequestId(1), result: Ok(()) };
    assert!(queue.push(94, reply).is_none());
    while let Some(action) = queue.take() {
        assert!(!matches!(action, Action::AcknowledgeUntil(1..)), "it was shortened: {action:?}");
    }
}
