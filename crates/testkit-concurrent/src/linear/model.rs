//! The server with one client at a time: databases, and the state of its clients.
//!
//! If more than one thing can have happened (a deadline is near, a reply never came),
//! [`State::step`] returns all possible states.

use super::answer::Answer;
use super::commands::{self, Context};
use super::db::{Db, Mortal};
use super::digest::digest;
use super::history::{Event, Op};
use super::scripts;
use super::time::{Life, Moment, SLACK};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hash;
use std::sync::Arc;

/// A watch of a client.
#[derive(Clone, Debug, Hash)]
struct Watch {
    /// The watch ends with its connection.
    connection: u32,
    keys: BTreeSet<String>,
    broken: bool,
}

/// A pause: no command that it forbids is executed before this time.
#[derive(Clone, Copy, Debug, Hash)]
struct Paused {
    until: u64,
    all: bool,
    /// After this time expired keys are removed again.
    over: u64,
}

/// How long a pause may outlast its time: the server checks ten times a second.
const TICK: u64 = 200_000_000;

/// The state of a client, except its keys.
#[derive(Clone, Debug, Default, Hash)]
struct Known {
    watch: Option<Watch>,
    /// Connections up to this one execute no more commands.
    ended: Option<u32>,
    /// UNBLOCK has ended its wait; the client has not received the reply yet.
    unblocked: Option<Unblocked>,
}

/// The end of a wait.
#[derive(Clone, Copy, Debug, Hash)]
struct Unblocked {
    connection: u32,
    error: bool,
    /// The return of the UNBLOCK: the wait began before it.
    ret: u64,
}

/// The server. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// Clients use the first database; SWAPDB exchanges the two.
    dbs: [Db; 2],
    clients: BTreeMap<usize, Arc<Known>>,
    pause: Option<Paused>,
    /// The number of writes to a key, including those that left it unchanged: they break watches.
    touches: u64,
}

/// The times at which the operation may have been executed, by its own call and return.
fn span(event: &Event) -> Moment {
    Moment { earliest: event.call, latest: event.ret }
}

impl State {
    /// The digest of this state.
    pub(super) fn digest(&self) -> u128 {
        let rest = digest(&(&self.clients, self.pause));
        self.dbs[0].digest() ^ self.dbs[1].digest().rotate_left(1) ^ rest
    }

    /// A line for each key and client; long lines are cut.
    pub fn describe(&self) -> String {
        let mut text = String::new();
        for (n, db) in self.dbs.iter().enumerate() {
            for key in db.names() {
                let line = format!("  db {n} {key} {:?} {:?}", db.deadline(key), db.get(key));
                text.extend(line.chars().take(150).chain(['\n']));
            }
        }
        for (client, known) in &self.clients {
            text.push_str(&format!("  client {client} {known:?}\n"));
        }
        format!("{text}  {:?}\n", self.pause)
    }

    /// Whether no UNBLOCK is pending.
    pub(super) fn is_settled(&self) -> bool {
        self.clients.values().all(|known| known.unblocked.is_none())
    }

    /// Whether the step from `before` to this state only read.
    pub(super) fn is_as(&self, before: &State) -> bool {
        self.touches == before.touches && self.digest() == before.digest()
    }

    fn known(&self, client: usize) -> Known {
        self.clients.get(&client).map(|known| (**known).clone()).unwrap_or_default()
    }

    fn note(&mut self, client: usize, change: impl FnOnce(&mut Known)) {
        change(Arc::make_mut(self.clients.entry(client).or_default()));
    }

    /// The states after `event` of `client` returned its result. An empty list: it can't be
    /// executed now.
    pub fn step(&self, client: usize, event: &Event) -> Vec<State> {
        let moment = span(event);
        let known = self.known(client);
        let ended = known.ended.is_some_and(|last| event.connection <= last);
        let mut next = Vec::new();
        if event.answer.is_none() && (ended || event.half_closed) {
            // It was not executed, and no later command of the connection was.
            let mut state = self.clone();
            state.note(client, |known| {
                known.ended = known.ended.max(Some(event.connection));
                known.unblocked = None;
            });
            next.push(state);
        }
        let answers_wait =
            matches!(&event.op, Op::Command(args) if commands::timeout_ms(args).is_some());
        if ended || self.is_paused(event) || (known.unblocked.is_some() && !answers_wait) {
            return next;
        }
        match &event.op {
            Op::Command(args) => self.single(client, event, args, moment, &mut next),
            Op::Watch(keys) => next.extend(self.expired(keys, moment).map(|mut state| {
                state.note(client, |known| {
                    let fresh = Watch {
                        connection: event.connection,
                        keys: BTreeSet::new(),
                        broken: false,
                    };
                    let old = known.watch.take().filter(|w| w.connection == event.connection);
                    let mut watch = old.unwrap_or(fresh);
                    watch.keys.extend(keys.iter().cloned());
                    known.watch = Some(watch);
                });
                state
            })),
            Op::Exec(commands) => self.exec(client, event, commands, moment, &mut next),
            Op::Kill { client: other, connection } => {
                let mut state = self.clone();
                let already = self.known(*other).ended.is_some_and(|last| last >= *connection);
                match event.answer {
                    Some(Answer::Int(1)) | None if !already => {
                        state.note(*other, |known| known.ended = Some(*connection));
                        next.push(state);
                    }
                    // The connection may have been closing already, without an event that shows it.
                    Some(Answer::Int(0)) => next.push(state),
                    _ => {}
                }
            }
            Op::Unblock { client: other, connection, error } => {
                let mut state = self.clone();
                match event.answer {
                    Some(Answer::Int(0)) => next.push(state),
                    Some(Answer::Int(1)) if self.known(*other).unblocked.is_none() => {
                        let (connection, error, ret) = (*connection, *error, event.ret);
                        let unblocked = Unblocked { connection, error, ret };
                        state.note(*other, |known| known.unblocked = Some(unblocked));
                        next.push(state);
                    }
                    _ => {}
                }
            }
            Op::Pause { ms, all } => {
                let until = (event.call + ms * 1_000_000).saturating_sub(SLACK);
                let over = event.ret + ms * 1_000_000 + SLACK + TICK;
                let mut state = self.clone();
                // The stricter mode and the later end apply.
                let old = self.pause.filter(|pause| pause.until > event.call + SLACK);
                state.pause = Some(Paused {
                    until: old.map_or(until, |old| old.until.max(until)),
                    all: *all || old.is_some_and(|old| old.all),
                    over: self.pause.map_or(over, |pause| pause.over.max(over)),
                });
                next.push(state);
            }
            Op::Unpause => {
                // Commands that began before the end may still hide keys instead of removing them.
                let ended = |old: Paused| Paused {
                    until: 0,
                    all: false,
                    over: old.over.min(event.ret + TICK),
                };
                next.push(State { pause: self.pause.map(ended), ..self.clone() });
            }
        }
        next
    }

    /// Whether a pause forbids the reply that the client has received.
    fn is_paused(&self, event: &Event) -> bool {
        let Some(pause) = self.pause.filter(|pause| event.ret < pause.until) else { return false };
        let waits = |args: &[String]| commands::timeout_ms(args).is_some();
        match &event.op {
            // The end of a wait is not a command.
            Op::Command(args) if waits(args) && !matches!(event.answer, Some(Answer::List(_))) => {
                false
            }
            Op::Command(args) => pause.all || !commands::is_read(args),
            Op::Watch(_) => pause.all,
            Op::Exec(list) => pause.all || list.iter().any(|args| !commands::is_read(args)),
            // A pause doesn't delay commands that disturb other clients.
            Op::Kill { .. } | Op::Unblock { .. } | Op::Pause { .. } | Op::Unpause => false,
        }
    }

    /// This state, and those in which some of the keys and fields in `words` have expired now.
    fn expired(&self, words: &[String], moment: Moment) -> impl Iterator<Item = State> + use<> {
        let mut states = vec![self.clone()];
        let stays = self.pause.is_some_and(|pause| moment.earliest <= pause.over);
        // A transaction may swap the databases.
        let dbs = if words.iter().any(|word| word == "SWAPDB") { 0..2 } else { 0..1 };
        for db in dbs {
            for (mortal, life) in self.dbs[db].mortals(words, moment) {
                match life {
                    Life::Lives => {}
                    Life::Over => states.iter_mut().for_each(|s| s.expire(db, &mortal, stays)),
                    Life::Open => {
                        let mut gone = states.clone();
                        gone.iter_mut().for_each(|state| state.expire(db, &mortal, stays));
                        states.extend(gone);
                    }
                }
            }
        }
        states.into_iter()
    }

    /// `stays`: the key may not be removed now, only hidden.
    fn expire(&mut self, db: usize, mortal: &Mortal, stays: bool) {
        self.dbs[db].expire(mortal, stays);
        match mortal {
            Mortal::Key(key) | Mortal::Field(key, _) if db == 0 => {
                self.changed(std::slice::from_ref(key));
            }
            Mortal::Key(_) | Mortal::Field(..) => {}
        }
    }

    fn changed(&mut self, keys: &[String]) {
        self.touches += 1;
        for known in self.clients.values_mut() {
            let hit = known.watch.as_ref().is_some_and(|watch| {
                !watch.broken && keys.iter().any(|key| watch.keys.contains(key))
            });
            if hit && let Some(watch) = &mut Arc::make_mut(known).watch {
                watch.broken = true;
            }
        }
    }

    /// Runs one command; returns its reply if it can be executed now.
    fn run(
        &mut self,
        args: &[String],
        moment: Moment,
        may_give_up: bool,
        answer: Option<&Answer>,
    ) -> Option<Answer> {
        if scripts::is_script(args) {
            return scripts::run(args, answer, |args, got| self.run(args, moment, true, got));
        }
        if args[0] == "SWAPDB" {
            let there: Vec<String> =
                self.dbs.iter().flat_map(|db| db.names().map(String::from)).collect();
            self.changed(&there);
            self.dbs.swap(0, 1);
            return Some(Answer::ok());
        }
        if args[0] == "FLUSHALL" {
            self.dbs[1] = Db::default();
        }
        let mut context =
            Context { db: &mut self.dbs[0], moment, changed: Vec::new(), may_give_up, answer };
        let answer = context.run(args);
        let changed = context.changed;
        if !changed.is_empty() {
            self.changed(&changed);
        }
        answer
    }

    /// The state in which the deadline that `args` sets is already over. Then the key is removed,
    /// which the next command of a transaction sees.
    fn already_over(&self, args: &[String], moment: Moment) -> Option<State> {
        let [name, key, _] = args else { return None };
        let deadline = self.dbs[0].deadline(key).filter(|_| name == "PEXPIREAT")?;
        (deadline.at(moment) != Life::Lives).then(|| {
            let mut gone = self.clone();
            gone.dbs[0].expire(&Mortal::Key(key.clone()), false);
            gone
        })
    }

    fn single(
        &self,
        client: usize,
        event: &Event,
        args: &[String],
        moment: Moment,
        next: &mut Vec<State>,
    ) {
        if let Some(unblocked) = self.known(client).unblocked {
            // The wait was ended without an element, with the reply that UNBLOCK requested.
            let Unblocked { connection, error, ret } = unblocked;
            let fits = match &event.answer {
                None => true,
                Some(Answer::Nil) => !error,
                Some(Answer::Error(text)) => error && text.starts_with("UNBLOCKED"),
                Some(_) => false,
            };
            if fits && connection == event.connection && event.call <= ret {
                let mut state = self.clone();
                state.note(client, |known| known.unblocked = None);
                next.push(state);
            }
            return;
        }
        // A wait that ends before its timeout must have been ended by UNBLOCK.
        let in_time = commands::timeout_ms(args)
            .is_none_or(|ms| event.ret.saturating_sub(event.call) + SLACK >= ms * 1_000_000);
        let may_give_up = event.answer.as_ref().is_none_or(|answer| answer.is_nil() && in_time);
        for mut state in self.expired(args, moment) {
            let answer = state.run(args, moment, may_give_up, event.answer.as_ref());
            if answer.is_some() && (event.answer.is_none() || answer == event.answer) {
                next.push(state);
            }
        }
    }

    fn exec(
        &self,
        client: usize,
        event: &Event,
        commands: &[Vec<String>],
        moment: Moment,
        next: &mut Vec<State>,
    ) {
        let watched = self.known(client).watch.filter(|w| w.connection == event.connection);
        let mut words: Vec<String> = commands.iter().flatten().cloned().collect();
        words.extend(watched.iter().flat_map(|watch| watch.keys.iter().cloned()));
        for mut state in self.expired(&words, moment) {
            // A key that has expired now also breaks the watch.
            let broken =
                watched.is_some() && state.known(client).watch.is_some_and(|watch| watch.broken);
            if watched.is_some() {
                state.note(client, |known| known.watch = None);
            }
            if broken {
                if event.answer.as_ref().is_none_or(Answer::is_nil) {
                    next.push(state);
                }
                continue;
            }
            let got = |n: usize| match &event.answer {
                Some(Answer::List(answers)) => answers.get(n),
                _ => None,
            };
            // The possible states so far, with the replies.
            let mut ways = vec![(state, Vec::new())];
            for (n, args) in commands.iter().enumerate() {
                for (mut state, mut answers) in std::mem::take(&mut ways) {
                    let Some(answer) = state.run(args, moment, true, got(n)) else { continue };
                    if got(n).is_some_and(|got| *got != answer) {
                        continue;
                    }
                    answers.push(answer);
                    if let Some(gone) = state.already_over(args, moment) {
                        ways.push((gone, answers.clone()));
                    }
                    ways.push((state, answers));
                }
            }
            let fits = |answers| match &event.answer {
                None => true,
                Some(answer) => *answer == Answer::List(answers),
            };
            next.extend(ways.into_iter().filter_map(|(state, got)| fits(got).then_some(state)));
        }
    }
}
