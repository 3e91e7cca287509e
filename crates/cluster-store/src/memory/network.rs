//! The simulated store with its clients: requests and answers take time, get lost, and are cut off, as a seed decides.
//!
//! Pure: a caller passes the time, and gets events. The same seed and the same calls give the same events, so a simulation
//! of thousands of runs repeats exactly. The store stays linearizable under every fault: a request takes effect at one
//! moment between its call and its answer, or never.

use super::state::{Planted, State};
use crate::store::{
    Batch, Error, Lease, LeaseId, Outcome, Revision, Snapshot, Transaction, WatchEnd,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::time::Duration;
use weft_base::rng::Rng;

/// A client of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub u32);

/// A request, and the watch that it may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// The calls of [`crate::Store`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    Read { prefix: Vec<u8> },
    Transact(Transaction),
    Grant { ttl: Duration },
    KeepAlive(LeaseId),
    Revoke(LeaseId),
    Watch { prefix: Vec<u8>, from: Revision },
}

/// The results of [`Request`]s.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Read(Snapshot),
    Transacted(Outcome),
    Granted(Lease),
    Alive(Duration),
    Revoked,
    Watching,
}

/// A message to a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The end of a request: exactly one for each.
    Answered { client: ClientId, request: RequestId, result: Result<Answer, Error> },
    /// Of a watch, by the request that started it.
    Changed { client: ClientId, watch: RequestId, batch: Batch },
    /// The last event of a watch.
    Ended { client: ClientId, watch: RequestId, end: WatchEnd },
}

/// The weather of the simulation.
#[derive(Clone, Debug)]
pub struct Settings {
    pub seed: u64,
    /// How long each message takes in one direction.
    pub delay: Range<Duration>,
    /// How many of a thousand answers get lost after the request has taken effect.
    pub lost_answers: u64,
    pub minimum_ttl: Duration,
    pub planted: Option<Planted>,
}

impl Default for Settings {
    /// A fast and reliable store.
    fn default() -> Self {
        Settings {
            seed: 1,
            delay: Duration::ZERO..Duration::ZERO,
            lost_answers: 0,
            minimum_ttl: Duration::from_secs(2),
            planted: None,
        }
    }
}

/// How a client is cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Connections are refused and reset: the client learns of it at once.
    Refused,
    /// Messages vanish: the client waits for its timeout. Watches stay silent, and catch up afterwards.
    Silent,
}

#[derive(Debug)]
struct Pending {
    client: ClientId,
    /// Whether its effect matters to a caller who doesn't learn of it.
    has_effect: bool,
}

#[derive(Debug)]
struct Watching {
    client: ClientId,
    prefix: Vec<u8>,
    /// The first revision that isn't on its way yet.
    next: Revision,
    /// Messages of one watch arrive in their order.
    last_arrival: Duration,
    /// Messages for a client that is cut off silently.
    held: VecDeque<Event>,
}

#[derive(Debug)]
enum Step {
    /// A request reaches the store.
    Arrive(RequestId, ClientId, Request),
    /// A message reaches its client.
    Deliver(Event),
    Timeout(RequestId),
}

/// See the module documentation.
#[derive(Debug)]
pub struct Network {
    settings: Settings,
    state: State,
    rng: Rng,
    now: Duration,
    is_running: bool,
    /// By time, then in the order of their creation.
    steps: BTreeMap<(Duration, u64), Step>,
    created: u64,
    pending: BTreeMap<RequestId, Pending>,
    watches: BTreeMap<RequestId, Watching>,
    cuts: BTreeMap<ClientId, Cut>,
    lose_next: BTreeSet<ClientId>,
    events: Vec<Event>,
}

impl Network {
    pub fn new(settings: Settings) -> Network {
        Network {
            state: State::new(settings.minimum_ttl, settings.planted),
            rng: Rng::new(settings.seed),
            settings,
            now: Duration::ZERO,
            is_running: true,
            steps: BTreeMap::new(),
            created: 0,
            pending: BTreeMap::new(),
            watches: BTreeMap::new(),
            cuts: BTreeMap::new(),
            lose_next: BTreeSet::new(),
            events: Vec::new(),
        }
    }

    /// The time of the last call.
    pub fn now(&self) -> Duration {
        self.now
    }

    /// The store itself, for the invariants of a simulation.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Sends a request; its [`Event::Answered`] follows, at the latest after `timeout`.
    pub fn send(
        &mut self,
        now: Duration,
        client: ClientId,
        request: Request,
        timeout: Duration,
    ) -> RequestId {
        self.run_until(now);
        self.created += 1;
        let id = RequestId(self.created);
        let has_effect = !matches!(request, Request::Read { .. } | Request::Watch { .. });
        self.pending.insert(id, Pending { client, has_effect });
        if !self.is_running || self.cuts.get(&client) == Some(&Cut::Refused) {
            self.answer(id, Err(Error::Unavailable("connection refused".into())));
            return id;
        }
        self.schedule(now + timeout, Step::Timeout(id));
        if self.cuts.get(&client) != Some(&Cut::Silent) {
            let arrival = now + self.delay();
            self.schedule(arrival, Step::Arrive(id, client, request));
        }
        id
    }

    /// Advances the time; returns the events, in order. Time never goes back.
    pub fn advance(&mut self, now: Duration) -> Vec<Event> {
        self.run_until(now);
        std::mem::take(&mut self.events)
    }

    /// When `advance` has something to do again. `None`: never, unless a client sends a request.
    pub fn next_step(&self) -> Option<Duration> {
        if !self.events.is_empty() {
            return Some(self.now);
        }
        let step = self.steps.keys().next().map(|(at, _)| *at);
        let end = self.state.next_end().filter(|_| self.is_running);
        step.into_iter().chain(end).min().map(|at| at.max(self.now))
    }

    /// Ends a watch.
    pub fn cancel(&mut self, watch: RequestId) {
        self.end_watch(watch, WatchEnd::Cancelled);
    }

    /// Cuts a client off.
    pub fn cut(&mut self, client: ClientId, cut: Cut) {
        self.cuts.insert(client, cut);
        if cut == Cut::Refused {
            self.reset(|pending| pending == client);
        }
    }

    /// Connects a client again; watches that were silent deliver what they held.
    pub fn heal(&mut self, client: ClientId) {
        self.cuts.remove(&client);
        let of_client = self.watches.values_mut().filter(|watching| watching.client == client);
        let held: Vec<Event> = of_client.flat_map(|watching| watching.held.drain(..)).collect();
        for event in held {
            self.deliver(event);
        }
    }

    /// Loses the answer to the next request of a client that takes effect.
    pub fn lose_next_answer(&mut self, client: ClientId) {
        self.lose_next.insert(client);
    }

    /// Forgets history, as an operator or etcd itself does. Watches that have not got it yet end.
    pub fn compact(&mut self, revision: Revision) {
        self.state.compact(revision);
        self.report_changes();
    }

    /// Stops the store. Requests on their way and all watches end.
    pub fn stop(&mut self) {
        self.is_running = false;
        self.reset(|_| true);
    }

    /// Starts the store again, with its data; leases get their whole TTL.
    pub fn start(&mut self) {
        self.is_running = true;
        self.state.renew_leases(self.now);
    }

    /// Breaks the connections of the clients for which `is_hit`.
    fn reset(&mut self, is_hit: impl Fn(ClientId) -> bool) {
        let requests: Vec<RequestId> =
            self.pending.iter().filter(|(_, p)| is_hit(p.client)).map(|(id, _)| *id).collect();
        for id in requests {
            self.lose(id, "connection reset");
        }
        let watches: Vec<RequestId> =
            self.watches.iter().filter(|(_, w)| is_hit(w.client)).map(|(id, _)| *id).collect();
        for id in watches {
            self.end_watch(id, WatchEnd::Closed("connection reset".into()));
        }
    }

    fn run_until(&mut self, now: Duration) {
        debug_assert!(now >= self.now, "time goes back");
        loop {
            let step = self.steps.keys().next().copied().filter(|(at, _)| *at <= now);
            let end = self.state.next_end().filter(|end| self.is_running && *end <= now);
            match (step, end) {
                (None, None) => break,
                (Some((at, _)), Some(end)) if end <= at => self.end_leases(end),
                (None, Some(end)) => self.end_leases(end),
                (Some(key), _) => {
                    self.now = self.now.max(key.0);
                    let step = self.steps.remove(&key).expect("its key was just seen");
                    self.execute(step);
                }
            }
        }
        self.now = self.now.max(now);
    }

    fn end_leases(&mut self, at: Duration) {
        self.now = self.now.max(at);
        self.state.expire(self.now);
        self.report_changes();
    }

    fn execute(&mut self, step: Step) {
        match step {
            Step::Arrive(id, client, request) => self.arrive(id, client, request),
            Step::Deliver(event) => self.deliver(event),
            Step::Timeout(id) => self.lose(id, "timed out"),
        }
    }

    /// The moment at which a request takes effect.
    fn arrive(&mut self, id: RequestId, client: ClientId, request: Request) {
        // A packet on its way outlives the connection, but not the store's end.
        if !self.is_running || self.cuts.contains_key(&client) {
            return;
        }
        let result = match request {
            Request::Read { prefix } => Ok(Answer::Read(self.state.read(&prefix))),
            Request::Transact(transaction) => {
                self.state.transact(&transaction).map(Answer::Transacted)
            }
            Request::Grant { ttl } => Ok(Answer::Granted(self.state.grant(ttl, self.now))),
            Request::KeepAlive(lease) => self.state.keep_alive(lease, self.now).map(Answer::Alive),
            Request::Revoke(lease) => {
                self.state.revoke(lease);
                Ok(Answer::Revoked)
            }
            Request::Watch { prefix, from } => {
                self.start_watch(id, client, prefix, from);
                return;
            }
        };
        let is_lost =
            self.lose_next.remove(&client) || self.rng.below(1000) < self.settings.lost_answers;
        if !is_lost {
            let arrival = self.now + self.delay();
            let event = Event::Answered { client, request: id, result };
            self.schedule(arrival, Step::Deliver(event));
        } else if self.rng.below(2) == 0 {
            self.lose(id, "connection reset");
        }
        self.report_changes();
    }

    fn start_watch(&mut self, id: RequestId, client: ClientId, prefix: Vec<u8>, from: Revision) {
        // Its caller has given up.
        if !self.pending.contains_key(&id) {
            return;
        }
        let arrival = self.now + self.delay();
        let event = Event::Answered { client, request: id, result: Ok(Answer::Watching) };
        self.schedule(arrival, Step::Deliver(event));
        let held = VecDeque::new();
        let watching = Watching { client, prefix, next: from, last_arrival: arrival, held };
        self.watches.insert(id, watching);
        self.report_changes();
    }

    /// Sends each watch the changes that it hasn't got.
    fn report_changes(&mut self) {
        let ids: Vec<RequestId> = self.watches.keys().copied().collect();
        for id in ids {
            let delay = self.delay();
            let Some(watching) = self.watches.get_mut(&id) else { continue };
            let arrival = (self.now + delay).max(watching.last_arrival);
            let client = watching.client;
            let events: Vec<Event> = match self.state.changes(&watching.prefix, watching.next) {
                Ok(batches) => {
                    let sent = batches.into_iter();
                    sent.map(|batch| Event::Changed { client, watch: id, batch }).collect()
                }
                Err(oldest) => {
                    let end = WatchEnd::Compacted { oldest: Some(oldest) };
                    vec![Event::Ended { client, watch: id, end }]
                }
            };
            // A watch may wait for a revision of the future.
            watching.next = watching.next.max(self.state.revision().next());
            watching.last_arrival = arrival;
            for event in events {
                self.schedule(arrival, Step::Deliver(event));
            }
        }
    }

    fn deliver(&mut self, event: Event) {
        match event {
            Event::Answered { client, request, result } => {
                if !self.cuts.contains_key(&client) {
                    self.answer(request, result);
                }
            }
            Event::Changed { client, watch, .. } | Event::Ended { client, watch, .. } => {
                let Some(watching) = self.watches.get_mut(&watch) else { return };
                if self.cuts.contains_key(&client) {
                    watching.held.push_back(event);
                    return;
                }
                if let Event::Ended { .. } = event {
                    self.watches.remove(&watch);
                }
                self.events.push(event);
            }
        }
    }

    fn end_watch(&mut self, watch: RequestId, end: WatchEnd) {
        if let Some(Watching { client, .. }) = self.watches.remove(&watch) {
            // Before its answer, the answer alone ends it.
            if !self.pending.contains_key(&watch) {
                self.events.push(Event::Ended { client, watch, end });
            }
        }
    }

    /// Ends a request without an answer.
    fn lose(&mut self, id: RequestId, why: &str) {
        let Some(pending) = self.pending.get(&id) else { return };
        let error = match pending.has_effect {
            true => Error::Unknown(why.into()),
            false => Error::Unavailable(why.into()),
        };
        self.answer(id, Err(error));
    }

    fn answer(&mut self, request: RequestId, result: Result<Answer, Error>) {
        let Some(Pending { client, .. }) = self.pending.remove(&request) else { return };
        if result.is_err() {
            self.watches.remove(&request);
        }
        self.events.push(Event::Answered { client, request, result });
    }

    fn schedule(&mut self, at: Duration, step: Step) {
        self.created += 1;
        self.steps.insert((at, self.created), step);
    }

    fn delay(&mut self) -> Duration {
        let Range { start, end } = self.settings.delay;
        let width = end.saturating_sub(start).as_nanos();
        start + Duration::from_nanos(self.rng.below(u64::try_from(width).unwrap_or(u64::MAX)))
    }
}
