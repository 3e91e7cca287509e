//! The search for an order of the operations that explains what every client saw.
//!
//! Wing and Gong's search (1993) with Lowe's memory of where it has been (2017): from a state and
//! the set of operations done so far, try each operation that may come next, that is, that was
//! called before any of those still to be done had returned; where none fits, go back. A client
//! does one thing after the other, so the set of operations done is a position per client, and a
//! place that was left once is never entered again.
//!
//! Most histories are explained at the first try, in O(operations); the worst case is exponential
//! in the number of clients.

use super::model::digest;
use super::{History, State};
use std::collections::HashSet;

/// What a check has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// There is such an order.
    Linearizable,
    /// There is none. The text shows where the longest attempt got stuck.
    Impossible(String),
    /// Too many places were tried.
    Unknown,
}

/// Places tried before a check gives up, per operation.
const PATIENCE: usize = 200;

/// How far each client has come.
type Place = Vec<u32>;

struct Step {
    place: Place,
    state: State,
    /// Clients whose next operation is still to be tried here, the best guess last.
    next: Vec<usize>,
}

/// Looks for an order of `history`, from an empty store.
pub fn check(history: &History) -> Verdict {
    let total: usize = history.iter().map(Vec::len).sum();
    let start = Step::new(history, vec![0; history.len()], State::default());
    let mut longest = (0, start.place.clone(), start.state.clone());
    let mut path = vec![start];
    let mut been = HashSet::new();
    while let Some(step) = path.last_mut() {
        let Some(client) = step.next.pop() else {
            path.pop();
            continue;
        };
        let event = &history[client][step.place[client] as usize];
        let mut state = step.state.clone();
        if !state.step(client, &event.op, &event.answer) {
            continue;
        }
        let mut place = step.place.clone();
        place[client] += 1;
        if !been.insert(state.digest() ^ digest(&place)) {
            continue;
        }
        if been.len() > PATIENCE * total + 1000 {
            return Verdict::Unknown;
        }
        let done: usize = place.iter().map(|n| *n as usize).sum();
        if done == total {
            return Verdict::Linearizable;
        }
        if done > longest.0 {
            longest = (done, place.clone(), state.clone());
        }
        path.push(Step::new(history, place, state));
    }
    if total == 0 {
        return Verdict::Linearizable;
    }
    Verdict::Impossible(describe(history, &longest.1, &longest.2))
}

impl Step {
    fn new(history: &History, place: Place, state: State) -> Step {
        let pending = || {
            let clients = history.iter().enumerate();
            clients.filter_map(|(c, events)| Some((c, events.get(place[c] as usize)?)))
        };
        let first_return = pending().map(|(_, event)| event.ret).min().unwrap_or(0);
        let mut next: Vec<(u64, usize)> = pending()
            .filter(|(_, event)| event.call <= first_return)
            .map(|(c, event)| (event.ret, c))
            .collect();
        // Who returned first was done first, as a rule.
        next.sort_unstable_by(|a, b| b.cmp(a));
        Step { place, state, next: next.into_iter().map(|(_, c)| c).collect() }
    }
}

fn describe(history: &History, place: &Place, state: &State) -> String {
    let mut text = format!("state: {state:?}\nnone of these can be next:\n");
    for (client, events) in history.iter().enumerate() {
        if let Some(event) = events.get(place[client] as usize) {
            text.push_str(&format!(
                "  client {client} [{}..{}] {:?} -> {:?}\n",
                event.call, event.ret, event.op, event.answer
            ));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::{Answer, Event, Op};
    use super::*;

    fn event(line: &str, call: u64, ret: u64, answer: Answer) -> Event {
        Event { op: Op::Command(words(line)), call, ret, answer }
    }

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(String::from).collect()
    }

    fn text(t: &str) -> Answer {
        Answer::Text(t.into())
    }

    fn is_impossible(history: &History) -> bool {
        matches!(check(history), Verdict::Impossible(_))
    }

    #[test]
    fn a_read_may_see_a_write_that_overlaps_or_not() {
        for seen in [Answer::Nil, text("1")] {
            let history =
                vec![vec![event("SET a 1", 0, 10, text("OK"))], vec![event("GET a", 5, 6, seen)]];
            assert_eq!(check(&history), Verdict::Linearizable);
        }
    }

    #[test]
    fn a_stale_read_is_found() {
        let history = vec![
            vec![event("SET a 1", 0, 10, text("OK"))],
            vec![event("GET a", 11, 12, Answer::Nil)],
        ];
        assert!(is_impossible(&history));
    }

    #[test]
    fn two_readers_must_agree_on_the_order() {
        let history = |second: &str| {
            vec![
                vec![event("SET a 1", 0, 100, text("OK"))],
                vec![event("SET a 2", 0, 100, text("OK"))],
                vec![event("GET a", 10, 20, text("1")), event("GET a", 21, 30, text("2"))],
                vec![event("GET a", 31, 40, text(second))],
            ]
        };
        assert_eq!(check(&history("2")), Verdict::Linearizable);
        assert!(is_impossible(&history("1")));
    }

    #[test]
    fn half_a_transaction_must_not_be_seen() {
        let exec = Event {
            op: Op::Exec(vec![words("SET a 1"), words("SET b 1")]),
            call: 0,
            ret: 100,
            answer: Answer::List(vec![text("OK"), text("OK")]),
        };
        let seen = |a, b| {
            vec![vec![exec.clone()], vec![event("MGET a b", 1, 2, Answer::List(vec![a, b]))]]
        };
        assert_eq!(check(&seen(Answer::Nil, Answer::Nil)), Verdict::Linearizable);
        assert_eq!(check(&seen(text("1"), text("1"))), Verdict::Linearizable);
        assert!(is_impossible(&seen(text("1"), Answer::Nil)));
    }

    #[test]
    fn a_watch_breaks_when_its_key_changes_and_not_otherwise() {
        let history = |other: &str, answer: Answer| {
            vec![
                vec![
                    Event { op: Op::Watch(vec!["a".into()]), call: 0, ret: 1, answer: text("OK") },
                    Event { op: Op::Exec(vec![words("GET a")]), call: 10, ret: 11, answer },
                ],
                vec![event(other, 5, 6, text("OK"))],
            ]
        };
        let ran = |seen| Answer::List(vec![seen]);
        assert_eq!(check(&history("SET a 1", Answer::Nil)), Verdict::Linearizable);
        assert!(is_impossible(&history("SET a 1", ran(text("1")))));
        assert_eq!(check(&history("SET b 1", ran(Answer::Nil))), Verdict::Linearizable);
        assert!(is_impossible(&history("SET b 1", Answer::Nil)));
    }

    #[test]
    fn one_element_goes_to_one_waiter() {
        let got = |who: bool| match who {
            true => Answer::List(vec![text("l"), text("x")]),
            false => Answer::Nil,
        };
        let history = |a, b| {
            vec![
                vec![event("BLPOP l 1", 0, 50, got(a))],
                vec![event("BLPOP l 1", 0, 50, got(b))],
                vec![event("RPUSH l x", 10, 20, Answer::Int(1))],
            ]
        };
        assert_eq!(check(&history(true, false)), Verdict::Linearizable);
        assert!(is_impossible(&history(true, true)));
    }
}
