//! Histories made by hand, valid and invalid.

use super::super::{Answer, Event, Op};
use super::*;

/// A millisecond of the histories' clock.
const MS: u64 = 1_000_000;

fn op(op: Op, call: u64, ret: u64, answer: Answer) -> Event {
    Event { op, call, ret, answer: Some(answer), connection: 0, half_closed: false }
}

fn event(line: &str, call: u64, ret: u64, answer: Answer) -> Event {
    op(Op::Command(words(line)), call, ret, answer)
}

/// An event at `ms` milliseconds, executed within one.
fn at(line: &str, ms: u64, answer: Answer) -> Event {
    event(line, ms * MS, ms * MS + MS, answer)
}

fn lost(line: &str, call: u64, ret: u64) -> Event {
    Event { answer: None, ..event(line, call, ret, Answer::Nil) }
}

fn on(connection: u32, event: Event) -> Event {
    Event { connection, ..event }
}

fn half_closed(event: Event) -> Event {
    Event { half_closed: true, ..event }
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(String::from).collect()
}

fn text(t: &str) -> Answer {
    Answer::Text(t.into())
}

fn int(n: i64) -> Answer {
    Answer::Int(n)
}

#[track_caller]
fn fits(history: History) {
    assert_eq!(check(&history), Verdict::Linearizable);
}

#[track_caller]
fn fails(history: History) {
    assert!(matches!(check(&history), Verdict::Impossible(_)), "{history:?}");
}

#[test]
fn read_may_see_or_miss_an_overlapping_write() {
    for seen in [Answer::Nil, text("1")] {
        fits(vec![vec![event("SET a1 1", 0, 10, text("OK"))], vec![event("GET a1", 5, 6, seen)]]);
    }
}

#[test]
fn stale_read_is_found() {
    fails(vec![
        vec![event("SET a1 1", 0, 10, text("OK"))],
        vec![event("GET a1", 11, 12, Answer::Nil)],
    ]);
}

#[test]
fn two_readers_must_agree_on_the_order() {
    let history = |second: &str| {
        vec![
            vec![event("SET a1 1", 0, 100, text("OK"))],
            vec![event("SET a1 2", 0, 100, text("OK"))],
            vec![event("GET a1", 10, 20, text("1")), event("GET a1", 21, 30, text("2"))],
            vec![event("GET a1", 31, 40, text(second))],
        ]
    };
    fits(history("2"));
    fails(history("1"));
}

#[test]
fn partial_transaction_must_not_be_visible() {
    let commands = vec![words("SET a1 1"), words("SET b1 1")];
    let answer = Answer::List(vec![text("OK"), text("OK")]);
    let exec = op(Op::Exec(commands), 0, 100, answer);
    let seen =
        |a, b| vec![vec![exec.clone()], vec![event("MGET a1 b1", 1, 2, Answer::List(vec![a, b]))]];
    fits(seen(Answer::Nil, Answer::Nil));
    fits(seen(text("1"), text("1")));
    fails(seen(text("1"), Answer::Nil));
}

#[test]
fn watch_breaks_only_when_its_key_changes() {
    let history = |other: &str, answer: Answer| {
        vec![
            vec![
                op(Op::Watch(vec!["a1".into()]), 0, 1, text("OK")),
                op(Op::Exec(vec![words("GET a1")]), 10, 11, answer),
            ],
            vec![event(other, 5, 6, text("OK"))],
        ]
    };
    let ran = |seen| Answer::List(vec![seen]);
    fits(history("SET a1 1", Answer::Nil));
    fails(history("SET a1 1", ran(text("1"))));
    fits(history("SET b1 1", ran(Answer::Nil)));
    fails(history("SET b1 1", Answer::Nil));
}

#[test]
fn element_goes_to_one_blocked_client() {
    let got = |who: bool| match who {
        true => Answer::List(vec![text("l1"), text("x")]),
        false => Answer::Nil,
    };
    let history = |a, b| {
        vec![
            vec![event("BLPOP l1 0.001", 0, 5 * MS, got(a))],
            vec![event("BLPOP l1 0.001", 0, 5 * MS, got(b))],
            vec![event("RPUSH l1 x", 10, 20, int(1))],
        ]
    };
    fits(history(true, false));
    fails(history(true, true));
}

fn kill(client: usize, connection: u32, call: u64, ret: u64, answer: i64) -> Event {
    op(Op::Kill { client, connection }, call, ret, int(answer))
}

#[test]
fn command_of_a_killed_client_may_have_run_or_not() {
    for seen in [Answer::Nil, text("1")] {
        fits(vec![
            vec![lost("SET a1 1", 0, 20), on(1, event("GET a1", 30, 31, seen))],
            vec![kill(0, 0, 5, 10, 1)],
        ]);
    }
}

#[test]
fn command_of_a_killed_client_does_not_run_after_the_reply_to_kill() {
    // No client saw the value at 12, after the kill; so it never appears.
    let history = |seen| {
        vec![
            vec![lost("SET a1 1", 0, 20), on(1, event("GET a1", 30, 31, seen))],
            vec![kill(0, 0, 5, 10, 1), event("GET a1", 12, 13, Answer::Nil)],
        ]
    };
    fits(history(Answer::Nil));
    fails(history(text("1")));
}

#[test]
fn command_of_a_killed_client_does_not_run_twice_or_in_part() {
    let history = |seen: i64| {
        vec![
            vec![lost("INCRBY n1 1", 0, 20), on(1, event("INCRBY n1 1", 30, 31, int(seen)))],
            vec![kill(0, 0, 5, 10, 1)],
        ]
    };
    fits(history(1));
    fits(history(2));
    fails(history(3));
}

#[test]
fn connections_end_for_a_reason() {
    let ended = |killed: i64| {
        vec![
            vec![lost("SET a1 1", 0, 20), on(1, event("GET a1", 30, 31, text("1")))],
            vec![kill(0, 0, 5, 10, killed)],
        ]
    };
    fits(ended(1));
    // The KILL found no client, but the connection ended.
    fails(ended(0));
    // A connection is killed only once.
    let mut twice = ended(1);
    twice[1].push(kill(0, 0, 12, 13, 1));
    fails(twice);
}

#[test]
fn killed_connection_gets_no_reply() {
    fails(vec![vec![event("SET a1 1", 20, 21, text("OK"))], vec![kill(0, 0, 5, 10, 1)]]);
    fits(vec![vec![event("SET a1 1", 8, 21, text("OK"))], vec![kill(0, 0, 5, 10, 1)]]);
}

#[test]
fn watch_ends_with_its_connection() {
    let history = |answer| {
        vec![
            vec![
                op(Op::Watch(vec!["a1".into()]), 0, 1, text("OK")),
                lost("GET a1", 10, 20),
                on(1, op(Op::Exec(vec![words("GET a1")]), 30, 31, answer)),
            ],
            vec![kill(0, 0, 5, 9, 1), event("SET a1 1", 22, 23, text("OK"))],
        ]
    };
    fits(history(Answer::List(vec![text("1")])));
    fails(history(Answer::Nil));
}

#[test]
fn half_closed_connection_executes_a_prefix_of_its_commands() {
    let history = |a, b, second: Option<Answer>| {
        let second = Event { answer: second, ..event("SET b1 1", 0, 20, Answer::Nil) };
        vec![
            vec![
                half_closed(lost("SET a1 1", 0, 20)),
                half_closed(second),
                on(1, event("MGET a1 b1", 30, 31, Answer::List(vec![a, b]))),
            ],
            vec![],
        ]
    };
    fits(history(Answer::Nil, Answer::Nil, None));
    fits(history(text("1"), Answer::Nil, None));
    fits(history(text("1"), text("1"), None));
    // The second command without the first.
    fails(history(Answer::Nil, text("1"), None));
    fails(history(Answer::Nil, Answer::Nil, Some(text("OK"))));
}

fn unblock(error: bool, call: u64, ret: u64, answer: i64) -> Event {
    op(Op::Unblock { client: 0, connection: 0, error }, call, ret, int(answer))
}

#[test]
fn wait_ends_early_only_by_unblock() {
    let history =
        |waited: Answer, by: Event| vec![vec![event("BLPOP l1 0.5", 0, 20 * MS, waited)], vec![by]];
    let error = || Answer::Error("UNBLOCKED client unblocked via CLIENT UNBLOCK".into());
    fits(history(Answer::Nil, unblock(false, 5, 10, 1)));
    fits(history(error(), unblock(true, 5, 10, 1)));
    // No UNBLOCK, or another kind of UNBLOCK.
    fails(history(Answer::Nil, unblock(false, 5, 10, 0)));
    fails(history(error(), unblock(false, 5, 10, 1)));
    fails(history(Answer::Nil, unblock(true, 5, 10, 1)));
    fails(history(error(), unblock(true, 5, 10, 0)));
}

#[test]
fn unblocked_client_gets_no_element() {
    let got = Answer::List(vec![text("l1"), text("x")]);
    let history = |unblocked| {
        vec![
            vec![event("BLPOP l1 0.5", 0, 20 * MS, got.clone())],
            vec![unblock(false, 5, 10, unblocked)],
            vec![event("RPUSH l1 x", 0, 30, int(1))],
        ]
    };
    fits(history(0));
    fails(history(1));
}

#[test]
fn ended_wait_can_not_be_ended_again() {
    let history = |second| {
        vec![
            vec![event("BLPOP l1 0.5", 0, 20 * MS, Answer::Nil)],
            vec![unblock(false, 5, 10, 1), unblock(false, 15, 16, second)],
        ]
    };
    fits(history(0));
    fails(history(1));
}

/// The second of two UNBLOCKs, each of which has ended a wait, ran concurrently with both waits;
/// and the two waits have no keys in common.
#[test]
fn unblock_may_have_ended_either_of_two_waits() {
    let error = || Answer::Error("UNBLOCKED client unblocked via CLIENT UNBLOCK".into());
    let history = |second: Answer| {
        vec![
            vec![
                event("BLPOP l20 0.5", 0, 70 * MS, error()),
                event("BLPOP l10 0.5", 71 * MS, 81 * MS, second),
            ],
            vec![unblock(true, 33 * MS, 34 * MS, 1), unblock(true, 47 * MS, 80 * MS, 1)],
        ]
    };
    fits(history(error()));
    fails(history(Answer::Nil));
}

#[test]
fn pause_delays_the_commands_of_its_mode() {
    let history = |line: &str, answer: Answer, all, ret| {
        vec![
            vec![op(Op::Pause { ms: 100, all }, 0, MS, text("OK"))],
            vec![event(line, 2 * MS, ret, answer)],
        ]
    };
    fails(history("SET a1 1", text("OK"), false, 50 * MS));
    fits(history("SET a1 1", text("OK"), false, 101 * MS));
    fits(history("GET a1", Answer::Nil, false, 50 * MS));
    fails(history("GET a1", Answer::Nil, true, 50 * MS));
}

#[test]
fn unpause_ends_a_pause() {
    let history = |set: u64| {
        vec![
            vec![
                op(Op::Pause { ms: 100, all: false }, 0, MS, text("OK")),
                op(Op::Unpause, 20 * MS, 21 * MS, text("OK")),
            ],
            vec![event("SET a1 1", set * MS, set * MS + 10, text("OK"))],
        ]
    };
    fits(history(22));
    fails(history(10));
}

#[test]
fn key_exists_until_its_deadline() {
    let history =
        |ms, seen| vec![vec![at("SET x1 v PX 100", 0, text("OK")), at("GET x1", ms, seen)]];
    fits(history(50, text("v")));
    fails(history(50, Answer::Nil));
    fits(history(100, text("v")));
    fits(history(100, Answer::Nil));
    fits(history(150, Answer::Nil));
    fails(history(150, text("v")));
}

#[test]
fn expired_key_never_comes_back() {
    let history = |then| {
        vec![
            vec![at("SET x1 v PX 100", 0, text("OK")), at("GET x1", 98, Answer::Nil)],
            vec![at("GET x1", 100, then)],
        ]
    };
    fits(history(Answer::Nil));
    fails(history(text("v")));
    let mut again = history(text("w"));
    again[1].insert(0, event("SET x1 w", 99 * MS, 99 * MS + 1, text("OK")));
    fits(again);
}

#[test]
fn deadlines_are_set_moved_removed_and_reported() {
    let then = |line: &str, answer, ms, seen| {
        vec![vec![
            at("SET x1 v PX 50", 0, text("OK")),
            at(line, 10, answer),
            at("GET x1", ms, seen),
        ]]
    };
    fits(then("PERSIST x1", int(1), 200, text("v")));
    fails(then("PERSIST x1", int(1), 200, Answer::Nil));
    fails(then("PERSIST x1", int(0), 200, Answer::Nil));
    fits(then("PEXPIRE x1 100", int(1), 90, text("v")));
    fails(then("PEXPIRE x1 100", int(1), 150, text("v")));
    fits(then("PTTL x1", int(40), 20, text("v")));
    fails(then("PTTL x1", int(20), 20, text("v")));
    fails(then("PTTL x1", int(-1), 20, text("v")));
    fits(then("SET x1 w", text("OK"), 200, text("w")));
}

#[test]
fn expired_key_breaks_its_watch() {
    let history = |ms, answer| {
        vec![vec![
            at("SET x1 v PX 50", 0, text("OK")),
            op(Op::Watch(vec!["x1".into()]), 10 * MS, 11 * MS, text("OK")),
            op(Op::Exec(vec![words("SET a1 1")]), ms * MS, ms * MS + 1, answer),
        ]]
    };
    let ran = || Answer::List(vec![text("OK")]);
    fits(history(20, ran()));
    fails(history(20, Answer::Nil));
    fits(history(100, Answer::Nil));
    fails(history(100, ran()));
}

#[test]
fn fields_expire_one_by_one() {
    let history = |ms, a, b| {
        vec![vec![
            at("HSET e1 f1 1", 0, int(1)),
            at("HSET e1 f2 2", 1, int(1)),
            at("HPEXPIRE e1 50 FIELDS 1 f1", 2, Answer::List(vec![int(1)])),
            at("HGET e1 f1", ms, a),
            at("HGET e1 f2", ms + 1, b),
        ]]
    };
    fits(history(20, text("1"), text("2")));
    fails(history(20, Answer::Nil, text("2")));
    fits(history(100, Answer::Nil, text("2")));
    fails(history(100, text("1"), text("2")));
    fails(history(100, Answer::Nil, Answer::Nil));
}

#[test]
fn hash_may_remain_with_expired_fields_only() {
    let named = |name: &str| Answer::texts([name.to_string()]);
    let history = |second: &str, seen: Answer| {
        vec![vec![
            at("HSET e1 f1 1", 0, int(1)),
            at("HSET e1 f2 2", 1, int(1)),
            at(second, 2, Answer::List(vec![int(1)])),
            at("HGET e1 f2", 50, Answer::Nil),
            at("HDEL e1 f1", 51, int(1)),
            at("KEYS *", 52, seen),
        ]]
    };
    let expires = "HPEXPIRE e1 5 FIELDS 1 f2";
    fits(history(expires, named("e1")));
    fits(history(expires, Answer::List(Vec::new())));
    fails(vec![vec![
        at("HSET e1 f1 1", 0, int(1)),
        at("HDEL e1 f1", 1, int(1)),
        at("KEYS *", 2, named("e1")),
    ]]);
}

#[test]
fn stream_ids_ascend_and_groups_get_each_entry_once() {
    let entry = |id: &str, value: &str| {
        Answer::List(vec![text(id), Answer::List(vec![text("f"), text(value)])])
    };
    let got = |entries: Vec<Answer>| {
        Answer::List(vec![Answer::List(vec![text("t1"), Answer::List(entries)])])
    };
    let read = "XREADGROUP GROUP g C1 COUNT 2 STREAMS t1 >";
    let history = |first: Answer, second: Answer, acknowledged: i64| {
        vec![vec![
            at("XGROUP CREATE t1 g 0 MKSTREAM", 0, text("OK")),
            at("XADD t1 MAXLEN 4 7-* f a", 1, text("7-0")),
            at("XADD t1 MAXLEN 4 7-* f b", 2, text("7-1")),
            at("XADD t1 MAXLEN 4 7-* f c", 3, text("7-2")),
            at(read, 4, first),
            at(read, 5, second),
            at("XACK t1 g 7-0 7-2 7-9", 6, int(acknowledged)),
        ]]
    };
    let (both, last) =
        (got(vec![entry("7-0", "a"), entry("7-1", "b")]), got(vec![entry("7-2", "c")]));
    fits(history(both.clone(), last.clone(), 2));
    fails(history(both.clone(), both.clone(), 2));
    fails(history(both.clone(), Answer::Nil, 2));
    fails(history(last.clone(), both.clone(), 2));
    fails(history(both, last, 3));
}

#[test]
fn keys_shows_one_point_in_time() {
    let keys = |names: &[&str]| Answer::texts(names.iter().map(|n| n.to_string()));
    let history = |seen: Answer| {
        vec![
            vec![event("SET s1 1", 0, 1, text("OK")), event("RENAME s1 s2", 10, 20, text("OK"))],
            vec![event("KEYS *", 12, 18, seen)],
        ]
    };
    fits(history(keys(&["s1"])));
    fits(history(keys(&["s2"])));
    fails(history(keys(&["s1", "s2"])));
    fails(history(keys(&[])));
}

#[test]
fn keys_are_counted_until_they_are_removed() {
    let history = |ms, count| {
        vec![vec![
            at("SET x1 v PX 50", 0, text("OK")),
            at("SET s1 v", 1, text("OK")),
            at("DBSIZE", ms, int(count)),
        ]]
    };
    fits(history(10, 2));
    fails(history(10, 1));
    fits(history(100, 2));
    fits(history(100, 1));
    fails(history(100, 0));
}

#[test]
fn key_that_expires_in_a_pause_is_hidden_and_may_be_counted() {
    let history = |paused: bool, then: Event| {
        let pause = op(Op::Pause { ms: 300, all: false }, 2 * MS, 3 * MS, text("OK"));
        let mut events = vec![at("SET x1 v PX 50", 0, text("OK"))];
        events.extend(paused.then_some(pause));
        events.extend([at("GET x1", 100, Answer::Nil), then]);
        vec![events]
    };
    for count in [0, 1] {
        fits(history(true, at("DBSIZE", 110, int(count))));
    }
    fails(history(true, at("DBSIZE", 110, int(2))));
    fails(history(false, at("DBSIZE", 110, int(1))));
    fails(history(true, at("GET x1", 110, text("v"))));
    fails(history(true, at("KEYS *", 110, Answer::texts(["x1".to_string()]))));
    // After a new write the key exists and counts once.
    let mut anew = history(true, at("SET x1 w", 500, text("OK")));
    anew[0].push(at("DBSIZE", 510, int(2)));
    fails(anew);
}

#[test]
fn hash_with_expired_fields_may_be_counted_and_listed() {
    let history = |then: Event| {
        vec![vec![
            at("HSET e1 f1 1", 0, int(1)),
            at("HPEXPIRE e1 50 FIELDS 1 f1", 2, Answer::List(vec![int(1)])),
            at("HGET e1 f1", 100, Answer::Nil),
            then,
        ]]
    };
    for names in [&[][..], &["e1".to_string()]] {
        fits(history(at("DBSIZE", 110, int(names.len() as i64))));
        fits(history(at("KEYS *", 110, Answer::texts(names.iter().cloned()))));
    }
    fails(history(at("HGET e1 f1", 110, text("1"))));
}

#[test]
fn refilled_hash_may_keep_its_expired_fields() {
    let history = |then: Event| {
        vec![vec![
            at("HSET e1 f1 1", 0, int(1)),
            at("HPEXPIRE e1 50 FIELDS 1 f1", 2, Answer::List(vec![int(1)])),
            at("HGET e1 f1", 100, Answer::Nil),
            at("HSET e1 f2 1", 110, int(1)),
            at("HDEL e1 f2", 120, int(1)),
            then,
        ]]
    };
    for names in [&[][..], &["e1".to_string()]] {
        fits(history(at("DBSIZE", 130, int(names.len() as i64))));
        fits(history(at("KEYS *", 130, Answer::texts(names.iter().cloned()))));
    }
    fails(history(at("DBSIZE", 130, int(2))));
    fails(history(at("HGET e1 f2", 130, text("1"))));
}

#[test]
fn flushall_and_swapdb_are_atomic() {
    let flushed = |a, b| {
        vec![
            vec![event("MSET s1 1 s2 2", 0, 1, text("OK")), event("FLUSHALL", 10, 20, text("OK"))],
            vec![event("MGET s1 s2", 12, 18, Answer::List(vec![a, b]))],
        ]
    };
    fits(flushed(text("1"), text("2")));
    fits(flushed(Answer::Nil, Answer::Nil));
    fails(flushed(text("1"), Answer::Nil));
    let swapped = |second| {
        vec![vec![
            event("SET s1 1", 0, 1, text("OK")),
            event("SWAPDB 0 1", 2, 3, text("OK")),
            event("GET s1", 4, 5, Answer::Nil),
            event("SWAPDB 0 1", 6, 7, text("OK")),
            event("GET s1", 8, 9, second),
        ]]
    };
    fits(swapped(text("1")));
    fails(swapped(Answer::Nil));
}

#[test]
fn long_replies_are_compared_completely() {
    let sorted =
        |except: i64| Answer::texts((0..200).filter(|n| *n != except).map(|n| n.to_string()));
    let history = |seen| {
        vec![
            vec![event("SADD b1 0..200", 0, 1, int(200)), event("SREM b1 7", 10, 20, int(1))],
            vec![event("SORT b1", 12, 18, seen)],
        ]
    };
    fits(history(sorted(-1)));
    fits(history(sorted(7)));
    fails(history(sorted(8)));
}

#[test]
fn parts_are_connected_by_keys() {
    let history: History = vec![
        vec![event("SET a1 1", 0, 1, text("OK")), event("GET b1", 2, 3, Answer::Nil)],
        vec![event("MGET b1 c1", 0, 1, Answer::List(vec![Answer::Nil, Answer::Nil]))],
        vec![kill(0, 0, 5, 6, 0)],
    ];
    let parts = parts(&history);
    let sizes: Vec<Vec<usize>> =
        parts.iter().map(|part| part.iter().map(Vec::len).collect()).collect();
    assert_eq!(sizes, [[1, 0, 1], [1, 1, 1]]);
    let mut all = history;
    all[1].push(event("DBSIZE", 7, 8, int(1)));
    assert_eq!(super::parts(&all).len(), 1);
    fits(all);
}

#[test]
fn killed_wait_may_have_taken_a_missing_element() {
    let history = |ret| {
        vec![
            vec![
                lost("BLPOP l1 1", 0, 50),
                on(1, event("LRANGE l1 0 -1", 60, 61, Answer::List(vec![]))),
            ],
            vec![event("RPUSH l1 x", 20, ret, int(1))],
            vec![kill(0, 0, 30, 40, 1)],
        ]
    };
    fits(history(45));
    fits(history(35));
    let mut later = history(45);
    later[1][0].call = 42;
    fails(later);
}

#[test]
fn deadline_may_be_over_when_a_slow_transaction_sets_it() {
    let deleted_at_once = |ms: u64| {
        let lines = ["PEXPIREAT x1 20", "PEXPIREAT x1 40", "GET x1"];
        let exec = Op::Exec(lines.map(words).to_vec());
        let answer = Answer::List(vec![int(1), int(0), Answer::Nil]);
        vec![vec![at("SET x1 a", 0, text("OK")), op(exec, 10 * MS, (10 + ms) * MS, answer)]]
    };
    fits(deleted_at_once(44));
    fails(deleted_at_once(5));
}

/// An operation that changes nothing in one state may be needed in another state with the same
/// reply, where it does.
#[test]
fn command_without_effect_here_may_have_one_later() {
    fits(vec![
        vec![event("FLUSHALL", 0, 50, text("OK"))],
        vec![event("SET a1 1", 10, 100, text("OK")), event("GET a1", 110, 120, Answer::Nil)],
    ]);
    fits(vec![
        vec![event("RPUSH l1 1", 0, 1, int(1))],
        vec![event("LMOVE l1 l1 LEFT RIGHT", 10, 50, text("1"))],
        vec![event("RPUSH l1 2", 20, 100, int(2)), event("LPOP l1", 110, 120, text("2"))],
    ]);
}
