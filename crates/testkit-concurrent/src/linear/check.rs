//! The search for an order of the operations that explains all replies.
//!
//! Wing and Gong's search (1993) with Lowe's memory of visited positions (2017). From a state and
//! the set of operations done so far, it tries each operation that may come next: one that was
//! called before any of the remaining ones had returned. If none fits, it goes back. A client runs
//! one operation after the other, so the set of operations done is a position per client. The
//! search never enters a position again after it has left it.
//!
//! A history is linearizable if its parts with different keys are (Herlihy and Wing's locality). So
//! keys that no operation connects are checked separately, each with all disturbances; see
//! [`parts`].
//!
//! Most histories are explained at the first try, in O(operations). The worst case is exponential
//! in the number of clients.

use super::commands::{is_read, timeout_ms};
use super::digest::digest;
use super::scripts;
use super::{Answer, Event, History, Op, State};
use std::collections::{HashMap, HashSet};

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Such an order exists.
    Linearizable,
    /// No order exists. The text shows the end of the longest attempt.
    Impossible(String),
    /// The search visited too many positions.
    Unknown,
}

/// Positions per operation before a check stops.
const PATIENCE: usize = 40;

/// The number of finished operations of each client.
type Place = Vec<u32>;

struct Step {
    place: Place,
    state: State,
    /// Clients whose next operation is still to be tried here, the best guess last.
    next: Vec<usize>,
    /// States after an operation of this client that are still to be tried.
    ready: Vec<(usize, State)>,
}

/// Searches for an order of `history`, from an empty store.
pub fn check(history: &History) -> Verdict {
    if let Some(why) = unexplained_end(history) {
        return Verdict::Impossible(why);
    }
    for part in parts(history) {
        match check_part(&part) {
            Verdict::Linearizable => {}
            other => return other,
        }
    }
    Verdict::Linearizable
}

fn check_part(history: &History) -> Verdict {
    let total: usize = history.iter().map(Vec::len).sum();
    if total == 0 {
        return Verdict::Linearizable;
    }
    let start = Step::new(history, vec![0; history.len()], State::default());
    let mut longest = (0, start.place.clone(), start.state.clone());
    let mut path = vec![start];
    let mut been = HashSet::new();
    let hints = Hints::of(history);
    while let Some(step) = path.last_mut() {
        let (client, state) = match step.ready.pop() {
            Some(ready) => ready,
            None => {
                let Some(client) = step.next.pop() else {
                    path.pop();
                    continue;
                };
                if hints.forbids(history, &step.place, client) {
                    continue;
                }
                let event = &history[client][step.place[client] as usize];
                let mut states = step.state.step(client, event);
                if event.half_closed {
                    // The last one is tried first. An operation without a reply usually was not
                    // executed, since it was queued after a wait.
                    states.reverse();
                }
                let may_move = (event.answer.is_some() && determines_change(&event.op)
                    || is_read_only(&event.op))
                    && !hints.unblocked.contains(&(client, step.place[client] as usize));
                if may_move && states.iter().any(|state| state.is_as(&step.state)) {
                    // An operation that only reads can be executed now: in any valid order it can
                    // be moved to this position. An operation without a reply, or whose reply
                    // doesn't show its effect, may have an effect later.
                    step.next.clear();
                    step.ready.clear();
                    step.ready.push((client, step.state.clone()));
                    continue;
                }
                step.ready.extend(states.into_iter().map(|state| (client, state)));
                continue;
            }
        };
        let mut place = step.place.clone();
        place[client] += 1;
        if !been.insert(state.digest() ^ digest(&place)) {
            continue;
        }
        if been.len() > PATIENCE * total + 1000 {
            return Verdict::Unknown;
        }
        let done: usize = place.iter().map(|n| *n as usize).sum();
        if done == total && state.is_settled() {
            return Verdict::Linearizable;
        }
        if done > longest.0 {
            longest = (done, place.clone(), state.clone());
        }
        path.push(Step::new(history, place, state));
    }
    Verdict::Impossible(describe(history, &longest.1, &longest.2))
}

impl Step {
    fn new(history: &History, place: Place, state: State) -> Step {
        let pending = || {
            let clients = history.iter().enumerate();
            clients.filter_map(|(c, events)| Some((c, events.get(place[c] as usize)?)))
        };
        let latest = pending().map(|(_, event)| event.ret).min().unwrap_or(0);
        let mut next: Vec<(u64, usize)> = pending()
            .filter(|(_, event)| event.call <= latest)
            .map(|(c, event)| (probable_time(event), c))
            .collect();
        // Usually the operation that returned first was executed first.
        next.sort_unstable_by(|a, b| b.cmp(a));
        let next = next.into_iter().map(|(_, c)| c).collect();
        Step { place, state, next, ready: Vec::new() }
    }
}

/// A connection that ended without a reason in the history.
fn unexplained_end(history: &History) -> Option<String> {
    let killed = |client: usize, connection: u32, before: u64| {
        history.iter().flatten().any(|event| {
            event.op == Op::Kill { client, connection }
                && event.call < before
                && matches!(event.answer, None | Some(Answer::Int(1)))
        })
    };
    for (client, events) in history.iter().enumerate() {
        for (last, next) in events.iter().zip(events.iter().skip(1)) {
            let same = last.connection == next.connection;
            if !same && !last.half_closed && !killed(client, last.connection, next.call) {
                return Some(format!("client {client}: no event ended {}", line(last)));
            }
        }
    }
    None
}

/// Splits the history by independent keys: no operation names keys of two parts, and none concerns
/// all keys. Operations on clients instead of keys are in every part.
fn parts(history: &History) -> Vec<History> {
    let mut groups = Groups::default();
    // The groups of each event; `None`: all groups.
    let mut of_events: Vec<Vec<Option<usize>>> = Vec::new();
    for events in history {
        let mut watched: Vec<&str> = Vec::new();
        let mut connection = 0;
        let mut of_client = Vec::new();
        for event in events {
            if event.connection != connection {
                connection = event.connection;
                watched.clear();
            }
            let keys = match &event.op {
                Op::Command(args) => keys_of(args),
                Op::Watch(keys) => {
                    watched.extend(keys.iter().map(String::as_str));
                    Some(watched.clone())
                }
                Op::Exec(commands) => {
                    let each: Option<Vec<Vec<&str>>> =
                        commands.iter().map(|args| keys_of(args)).collect();
                    each.map(|each| each.concat().into_iter().chain(watched.drain(..)).collect())
                }
                Op::Kill { .. } | Op::Unblock { .. } | Op::Pause { .. } | Op::Unpause => {
                    of_client.push(None);
                    continue;
                }
            };
            match keys.as_deref() {
                Some([first, rest @ ..]) => {
                    let group = groups.of(first);
                    rest.iter().for_each(|key| groups.join(group, key));
                    of_client.push(Some(group));
                }
                // An operation on all keys: everything is one part.
                Some([]) | None => return vec![history.clone()],
            }
        }
        of_events.push(of_client);
    }
    // It may be unknown which wait an UNBLOCK has ended. Then the parts of all candidates are
    // merged.
    for unblock in history.iter().flatten() {
        if let (Op::Unblock { client, .. }, Some(Answer::Int(1))) = (&unblock.op, &unblock.answer) {
            let ended = history[*client].iter().zip(&of_events[*client]);
            let ended = ended.filter(|(event, _)| ended_by(event, unblock));
            let of: Vec<usize> = ended.filter_map(|(_, group)| *group).collect();
            of.windows(2).for_each(|two| groups.unite(two[0], two[1]));
        }
    }
    let mut numbers: Vec<usize> = groups.roots();
    if numbers.is_empty() {
        return vec![history.clone()];
    }
    let part = |number: usize| -> History {
        let of_client = |(events, of): (&Vec<Event>, &Vec<Option<usize>>)| -> Vec<Event> {
            let is_in = |group: &Option<usize>| group.is_none_or(|g| groups.root(g) == number);
            events.iter().zip(of).filter(|(_, g)| is_in(g)).map(|(e, _)| e.clone()).collect()
        };
        let mut part: History = history.iter().zip(&of_events).map(of_client).collect();
        // An unblocked client waited for keys of one part.
        for n in 0..part.len() {
            let mut events = std::mem::take(&mut part[n]);
            events.retain(|event| match (&event.op, &event.answer) {
                (Op::Unblock { client, .. }, Some(Answer::Int(1))) => {
                    let here =
                        part.get(*client).is_some_and(|es| es.iter().any(|e| ended_by(e, event)));
                    here || !history[*client].iter().any(|e| ended_by(e, event))
                }
                _ => true,
            });
            part[n] = events;
        }
        part
    };
    numbers.sort_unstable();
    numbers.into_iter().map(part).collect()
}

/// The usual duration of an operation without contention, in nanoseconds. Only a guess.
const USUAL: u64 = 300_000;

/// The probable time of execution. For an operation without a reply it is some time before its
/// client noticed that.
fn probable_time(event: &Event) -> u64 {
    let waits = matches!(&event.op, Op::Command(args) if timeout_ms(args).is_some());
    match &event.answer {
        None if !event.half_closed && !waits => event.ret.min(event.call + USUAL),
        _ => event.ret,
    }
}

/// Whether an operation only reads, whatever its result is.
fn is_read_only(op: &Op) -> bool {
    match op {
        Op::Command(args) => is_read(args),
        Op::Watch(_) | Op::Exec(_) | Op::Kill { .. } | Op::Unblock { .. } => false,
        Op::Pause { .. } | Op::Unpause => false,
    }
}

/// Whether the reply determines the change: if the operation changes nothing here, it changes
/// nothing in any state with the same reply. FLUSHALL, for example, has the same reply for an empty
/// database.
fn determines_change(op: &Op) -> bool {
    match op {
        Op::Command(words) => reply_determines_change(words),
        Op::Exec(commands) => commands.iter().all(|words| reply_determines_change(words)),
        Op::Watch(_) | Op::Kill { .. } | Op::Unblock { .. } => true,
        Op::Pause { .. } | Op::Unpause => false,
    }
}

fn reply_determines_change(words: &[String]) -> bool {
    match words[0].as_str() {
        "SET" | "MSET" | "RENAME" | "COPY" | "LMOVE" | "BLMOVE" | "ZADD" | "HSET" | "PEXPIRE"
        | "PEXPIREAT" | "HPEXPIRE" | "XCLAIM" | "SUNIONSTORE" | "FLUSHALL" | "FILL" | "SWAPDB" => {
            false
        }
        "SORT" => is_read(words),
        "EVALSHA" => match scripts::inner(words) {
            Some(mut commands) => commands.all(reply_determines_change),
            None => scripts::tells(words),
        },
        _ => true,
    }
}

/// Whether `unblock` may have ended the wait `event` of the same client.
fn ended_by(event: &Event, unblock: &Event) -> bool {
    let waits = matches!(&event.op, Op::Command(args) if timeout_ms(args).is_some());
    let with_error = matches!(unblock.op, Op::Unblock { error: true, .. });
    let fits = match &event.answer {
        None => true,
        Some(Answer::Nil) => !with_error,
        Some(Answer::Error(_)) => with_error,
        Some(_) => false,
    };
    waits && fits && event.call <= unblock.ret && unblock.call <= event.ret
}

/// The keys that a command names. `None`: it concerns all keys.
fn keys_of(args: &[String]) -> Option<Vec<&str>> {
    if let Some(commands) = scripts::inner(args) {
        let counts = |command: &&[String]| command[0] != "~";
        let each: Option<Vec<Vec<&str>>> = commands.filter(counts).map(keys_of).collect();
        return each.map(|each| each.concat());
    }
    let keys: Vec<&str> =
        args[1..].iter().map(String::as_str).filter(|word| scripts::is_key(word)).collect();
    (!keys.is_empty()).then_some(keys)
}

/// Groups of connected keys (union-find).
#[derive(Default)]
struct Groups<'a> {
    numbers: HashMap<&'a str, usize>,
    /// The parent of each key; the representative of a group is its own parent.
    parents: Vec<usize>,
}

impl<'a> Groups<'a> {
    fn of(&mut self, key: &'a str) -> usize {
        let fresh = self.parents.len();
        let number = *self.numbers.entry(key).or_insert(fresh);
        if number == fresh {
            self.parents.push(fresh);
        }
        self.root(number)
    }

    fn root(&self, mut number: usize) -> usize {
        while self.parents[number] != number {
            number = self.parents[number];
        }
        number
    }

    fn join(&mut self, group: usize, key: &'a str) {
        let other = self.of(key);
        let root = self.root(group);
        self.parents[other] = root;
    }

    fn unite(&mut self, a: usize, b: usize) {
        let (a, b) = (self.root(a), self.root(b));
        self.parents[b] = a;
    }

    fn roots(&self) -> Vec<usize> {
        (0..self.parents.len()).filter(|n| self.parents[*n] == *n).collect()
    }
}

/// Facts about single events, known before the search; events are identified by client and number.
struct Hints {
    /// Operations without a reply that were executed, since another client read a value that only
    /// they wrote. Without this the search would assume that such an operation never happened. It
    /// would fail much later, and then try all orders of the events in between.
    seen: HashSet<(usize, usize)>,
    /// Waits that an UNBLOCK may have ended: the order of the two matters.
    unblocked: HashSet<(usize, usize)>,
}

impl Hints {
    fn of(history: &History) -> Hints {
        Hints { seen: Hints::seen(history), unblocked: Hints::unblocked(history) }
    }

    fn unblocked(history: &History) -> HashSet<(usize, usize)> {
        let mut found = HashSet::new();
        for unblock in history.iter().flatten() {
            if let (Op::Unblock { client, .. }, Some(Answer::Int(1))) =
                (&unblock.op, &unblock.answer)
            {
                let events = history[*client].iter().enumerate();
                let ended = events.filter(|(_, event)| ended_by(event, unblock));
                found.extend(ended.map(|(n, _)| (*client, n)));
            }
        }
        found
    }

    fn seen(history: &History) -> HashSet<(usize, usize)> {
        let lost = |event: &&Event| event.answer.is_none();
        let mut by_value: HashMap<&str, Vec<(usize, usize)>> = HashMap::new();
        for (client, events) in history.iter().enumerate() {
            for (n, event) in events.iter().enumerate().filter(|(_, event)| lost(event)) {
                let words: Vec<&String> = match &event.op {
                    Op::Command(args) => args.iter().collect(),
                    Op::Exec(commands) => commands.iter().flatten().collect(),
                    _ => Vec::new(),
                };
                // Values written by the load have the form client.operation.number.
                let unique = |word: &&String| word.split('.').count() > 2;
                for word in words.into_iter().filter(unique) {
                    let writers = by_value.entry(word).or_default();
                    if writers.last() != Some(&(client, n)) {
                        writers.push((client, n));
                    }
                }
            }
        }
        let mut seen = HashSet::new();
        for event in history.iter().flatten() {
            if let Some(answer) = &event.answer {
                answer.each_text(&mut |text| {
                    if let Some([one]) = by_value.get(text).map(Vec::as_slice) {
                        seen.insert(*one);
                    }
                });
            }
        }
        seen
    }

    /// Whether the next operation of `client` must not come now: a KILL must not precede an
    /// operation that it would prevent.
    fn forbids(&self, history: &History, place: &Place, client: usize) -> bool {
        match &history[client][place[client] as usize].op {
            Op::Kill { client: other, connection } => {
                let at = place[*other] as usize;
                let events = &history[*other][at..];
                let on_it = events.iter().take_while(|event| event.connection <= *connection);
                on_it.enumerate().any(|(n, _)| self.seen.contains(&(*other, at + n)))
            }
            _ => false,
        }
    }
}

fn describe(history: &History, place: &Place, state: &State) -> String {
    let mut text = format!("{}none of these can be next:\n", state.describe());
    for (client, events) in history.iter().enumerate() {
        if let Some(event) = events.get(place[client] as usize) {
            text.push_str(&format!("  client {client} {}\n", line(event)));
        }
    }
    text.push_str("before:\n");
    for (client, events) in history.iter().enumerate() {
        let done = place[client] as usize;
        for event in &events[done.saturating_sub(3)..done] {
            text.push_str(&format!("  client {client} {}\n", line(event)));
        }
    }
    text
}

/// An event in one line.
pub fn line(event: &Event) -> String {
    let Event { op, call, ret, answer, connection, half_closed } = event;
    let op = match op {
        Op::Command(args) => args.join(" "),
        Op::Exec(commands) => {
            let inside: Vec<String> = commands.iter().map(|args| args.join(" ")).collect();
            format!("EXEC [{}]", inside.join("; "))
        }
        other => format!("{other:?}"),
    };
    let answer = answer.as_ref().map_or("(lost)".to_string(), |answer| format!("{answer:?}"));
    let half_closed = if *half_closed { " half-closed" } else { "" };
    format!("[{call}..{ret}] connection {connection}{half_closed}: {op} -> {answer}")
}

#[cfg(test)]
mod tests;
