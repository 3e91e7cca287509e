//! A node of a cluster: duties, handshakes and reports.

use super::{Bench, id};
use crate::action::ConnId;
use crate::cluster::{Cluster, Greeting, PromiseQuestion, ShardMember, ShardPrimary};
use crate::node::Node;
use crate::settings::{DisklessLoad, Settings};
use crate::stream::Position;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use weft_cluster::node::{Duty, Member, OpId, Revision};
use weft_cluster::{NodeId, ShardId};

/// Answers every question alike, and records the reports.
#[derive(Default)]
struct Scribe {
    refuses: AtomicBool,
    reports: Mutex<Vec<String>>,
}

impl Scribe {
    fn note(&self, report: String) {
        self.reports.lock().expect("no call panics").push(report);
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.reports.lock().expect("no call panics"))
    }

    fn agrees(&self) -> bool {
        !self.refuses.load(Ordering::Relaxed)
    }

    fn refuse(&self) {
        self.refuses.store(true, Ordering::Relaxed);
    }
}

impl ShardMember for Scribe {
    fn admits(&self, _: Member, _: ShardId, _: Revision) -> bool {
        self.agrees()
    }

    fn progress(&self, member: Member, epoch: Revision, acked: u64, whole: bool) {
        let state = if whole { "whole" } else { "copy" };
        self.note(format!("{} in {epoch}: {acked} {state}", member.incarnation));
    }

    fn gone(&self, member: Member) {
        self.note(format!("{} gone", member.incarnation));
    }

    fn may_follow(&self, _: NodeId, _: Revision) -> bool {
        self.agrees()
    }

    fn drops_data(&self, _: NodeId, epoch: Revision) -> bool {
        self.note(format!("drop in {epoch}"));
        self.agrees()
    }

    fn has_data(&self, offset: u64) {
        self.note(format!("has {offset}"));
    }

    fn heard_primary(&self) {
        self.note("heard".to_string());
    }

    fn written(&self, offset: u64) {
        self.note(format!("written {offset}"));
    }

    fn promise_asked(&self, _: NodeId, epoch: Revision, ask: OpId) {
        self.note(format!("asked {} in {epoch}", ask.0));
    }

    fn promised(&self, member: Member, ask: OpId) {
        self.note(format!("{} promised {}", member.incarnation, ask.0));
    }
}

fn node_id(n: u8) -> NodeId {
    NodeId::from_random([n; 20])
}

fn place(offset: u64) -> Position {
    Position { id: id(0xaa), offset, db: 0 }
}

fn member(position: Option<Position>, settings: Settings) -> (Bench, Arc<Scribe>) {
    let scribe = Arc::new(Scribe::default());
    let me = Member { node: node_id(1), incarnation: 7 };
    let cluster = Cluster { me, shard: scribe.clone() };
    let mut last = 0;
    let ids = Box::new(move || {
        last += 1;
        id(last)
    });
    let node = Node::in_cluster(0, settings, ids, position, cluster);
    (Bench { node, now: 0, out: Vec::new() }, scribe)
}

fn above(epoch: Revision) -> ShardPrimary {
    let host = "above".to_string();
    ShardPrimary { host, port: 7000, node: node_id(2), shard: node_id(9), epoch }
}

fn greeting(epoch: u64, incarnation: u64) -> String {
    format!("weft-cluster {} {epoch} {} {incarnation}", node_id(9), node_id(3))
}

impl Bench {
    fn lead(&mut self, epoch: u64) -> Vec<String> {
        self.run(|node, now, out| node.lead(now, node_id(9), epoch, out));
        self.take_actions()
    }

    fn hold(&mut self) -> Vec<String> {
        self.run(|node, now, out| node.hold(now, out));
        self.take_actions()
    }

    /// Follows, up to the reply to the greeting.
    fn greet_above(&mut self, epoch: u64, answer: &str) -> Vec<String> {
        self.run(|node, now, out| node.follow_shard(now, &above(epoch), out));
        let link = self.link();
        self.run(|node, now, out| node.connected(now, link, out));
        self.receive("+PONG\r\n");
        self.receive(&format!("+OK\r\n+OK\r\n+OK\r\n{answer}\r\n"))
    }
}

#[test]
fn member_begins_without_a_role() {
    let (mut bench, scribe) = member(Some(place(100)), Settings::default());
    assert_eq!(scribe.take(), ["has 100"]);
    bench.pass(5000);
    assert!(bench.take_actions().is_empty() && scribe.take().is_empty());
    assert!(!bench.node.is_primary());
    assert_eq!(bench.node.position(), Some(place(100)));
    assert_eq!(bench.node.duty(), Some(Duty::None));
    assert!(bench.hold().is_empty());
}

#[test]
fn leader_continues_the_history_of_its_data() {
    let (mut bench, scribe) = member(Some(place(100)), Settings::default());
    scribe.take();
    assert_eq!(bench.lead(5), ["KeepWrites", "Promoted"]);
    assert_eq!(scribe.take(), ["written 100"]);
    let second = bench.node.stream().history().second.map(|second| (second.id, second.valid_to));
    assert_eq!(second, Some((id(0xaa), 101)));
    assert!(bench.lead(5).is_empty(), "nothing has changed");
    bench.write(2);
    assert!(scribe.take().is_empty());
    bench.pass(100);
    let end = bench.node.stream().offset();
    assert_eq!(scribe.take(), [format!("written {end}")]);
    bench.node.report_position();
    assert!(scribe.take().is_empty(), "it is reported");
    // The backlog is kept without replicas: offsets must count all writes.
    bench.pass(Settings::default().backlog_ttl + 10_000);
    assert!(bench.node.stream().backlog().is_some());
}

#[test]
fn primary_accepts_replicas_of_its_epoch_only() {
    let (mut bench, scribe) = member(None, Settings::default());
    let other = ["1: -NOMASTERLINK Not the primary of this shard and epoch"];
    assert_eq!(bench.replconf(1, &greeting(5, 1)), other);
    bench.lead(5);
    scribe.take();
    for epoch in [4, 6] {
        assert_eq!(bench.replconf(1, &greeting(epoch, 1)), other);
    }
    let of_other_shard = greeting(5, 1).replace(&node_id(9).to_string(), &node_id(8).to_string());
    assert_eq!(bench.replconf(1, &of_other_shard), other);
    assert_eq!(bench.replconf(1, "weft-cluster 1 2"), ["1: -ERR syntax error"]);
    let only = "1: -NOMASTERLINK Only a replica of this shard can SYNC with a node of a cluster";
    assert_eq!(bench.sync(1, "? -1"), [only]);
    assert_eq!(bench.sync(1, ""), [only]);
    assert!(scribe.take().is_empty());
    let second = bench.node.stream().history().second.expect("it was promoted").id;
    assert_eq!(bench.replconf(1, &greeting(5, 1)), [format!("1: +OK {second} 1")]);
    bench.attach(1);
    bench.take_actions();
    assert_eq!(scribe.take(), [] as [&str; 0]);
    bench.write(1);
    bench.replconf(1, "ack 10");
    assert_eq!(scribe.take(), ["1 in 5: 10 whole"]);
    bench.run(|node, now, out| node.closed(now, ConnId(1), out));
    assert_eq!(scribe.take(), ["1 gone"]);
}

#[test]
fn busy_primary_refuses_handshakes() {
    let (mut bench, scribe) = member(None, Settings::default());
    bench.lead(5);
    bench.replconf(1, &greeting(5, 1));
    scribe.refuse();
    let busy = "-NOMASTERLINK The primary accepts no replica now";
    assert_eq!(bench.replconf(2, &greeting(5, 2)), [format!("2: {busy}")]);
    assert_eq!(bench.sync(1, "? -1"), [format!("1: {busy}")], "also if it agreed before");
}

#[test]
fn copy_is_reported_before_it_is_sent() {
    let settings = Settings { diskless_sync: false, ..Settings::default() };
    let (mut bench, scribe) = member(None, settings);
    bench.lead(5);
    bench.replconf(1, &greeting(5, 1));
    scribe.take();
    assert_eq!(bench.sync(1, "? -1"), ["snapshot 1 Disk 11 all"]);
    assert_eq!(scribe.take(), ["1 in 5: 0 copy"]);
    bench.replconf(1, "ack 0");
    assert!(scribe.take().is_empty(), "it can't have the copy yet");
    let snapshot = crate::action::SnapshotId(1);
    bench.run(|node, now, out| node.snapshot_began(now, snapshot, out));
    bench.run(|node, now, out| node.snapshot_ready(now, snapshot, 10, out));
    bench.run(|node, now, out| node.bulk_sent(now, ConnId(1), out));
    assert!(scribe.take().is_empty());
    bench.replconf(1, "ack 0");
    assert_eq!(scribe.take(), ["1 in 5: 0 whole"]);
}

#[test]
fn new_link_of_a_member_replaces_its_earlier_ones() {
    let (mut bench, scribe) = member(None, Settings::default());
    bench.lead(5);
    for conn in [1, 2] {
        bench.replconf(conn, &greeting(5, conn));
        bench.attach(conn);
    }
    scribe.take();
    let answer = bench.replconf(3, &greeting(5, 1));
    assert_eq!((answer.len(), answer[0].as_str()), (2, "1: close"));
    assert_eq!(scribe.take(), ["1 gone"]);
    bench.replconf(1, "ack 0");
    assert!(scribe.take().is_empty(), "that link is over");
    bench.replconf(2, "ack 0");
    assert_eq!(scribe.take(), ["2 in 5: 0 whole"]);
}

#[test]
fn links_end_with_their_epoch() {
    let (mut bench, scribe) = member(None, Settings::default());
    bench.lead(5);
    bench.replconf(1, &greeting(5, 1));
    bench.attach(1);
    bench.replconf(2, &greeting(5, 2));
    let id = bench.node.stream().history().id;
    scribe.take();
    assert_eq!(bench.lead(6), ["1: close", "2: close"], "also one that has only greeted");
    assert_eq!(scribe.take(), ["1 gone", "2 gone", "written 0"]);
    assert_eq!(bench.node.stream().history().id, id);
    bench.replconf(1, &greeting(6, 1));
    bench.attach(1);
    bench.take_actions();
    scribe.take();
    assert_eq!(bench.hold(), ["Demoted", "DropWrites", "1: close"]);
    assert_eq!(scribe.take(), ["1 gone", "has 0"]);
    assert!(bench.node.position().is_some());
}

#[test]
fn replica_greets_its_primary_and_reports() {
    let (mut bench, scribe) = member(Some(place(100)), Settings::default());
    scribe.take();
    let asks = bench.greet_above(5, "+OK");
    assert_eq!(asks, [format!("1> *3 $5 PSYNC $40 {} $3 101", id(0xaa))]);
    bench.receive(&format!("+CONTINUE {}\r\n", id(0xbb)));
    assert_eq!(scribe.take(), ["has 100", "has 100"], "when it stood down, and before its ACK");
    let unit = "*1\r\n$4\r\nPING\r\n";
    bench.receive(unit);
    let link = bench.link();
    assert!(bench.node.may_apply(link));
    bench.run(|node, now, out| node.applied(now, link, unit.as_bytes(), 0, out));
    bench.pass(100);
    assert_eq!(scribe.take(), ["heard", "has 114"]);
    bench.pass(200);
    assert!(scribe.take().is_empty());
    bench.run(|node, now, out| node.follow_shard(now, &above(5), out));
    assert!(bench.take_actions().is_empty(), "it does already");
    assert_eq!(bench.hold(), ["disconnect 1"]);
    assert_eq!(scribe.take(), ["has 114"]);
    assert!(!bench.node.may_apply(link));
    bench.run(|node, now, out| node.applied(now, link, unit.as_bytes(), 0, out));
    assert_eq!(bench.node.stream().offset(), 114);
    bench.pass(5000);
    assert!(bench.take_actions().is_empty());
}

#[test]
fn new_epoch_begins_a_new_link() {
    let (mut bench, _) = member(Some(place(100)), Settings::default());
    bench.greet_above(5, "+OK");
    bench.receive("+CONTINUE\r\n");
    let old = bench.link();
    let asks = bench.greet_above(6, "+OK");
    assert_eq!(asks, [format!("2> *3 $5 PSYNC $40 {} $3 101", id(0xaa))]);
    assert!(!bench.node.may_apply(old));
    let text = format!("{:?}", bench.node.duty());
    assert!(text.contains("epoch: 6"), "{text}");
}

#[test]
fn replica_never_follows_without_a_greeting() {
    for answer in ["-ERR syntax error", "-NOMASTERLINK Not the primary"] {
        let (mut bench, _) = member(Some(place(100)), Settings::default());
        assert_eq!(bench.greet_above(5, answer), ["disconnect 1"]);
        // It tries again, soon at first, and each second later.
        for (attempt, pause) in (2..).zip([100, 200, 400, 800, 1000, 1000]) {
            bench.pass(pause - 100);
            assert!(bench.take_actions().is_empty());
            bench.pass(100);
            assert_eq!(bench.take_actions(), [format!("connect {attempt} to above:7000")]);
            let link = bench.link();
            bench.run(|node, now, out| node.connected(now, link, out));
            bench.receive("+PONG\r\n");
            bench.receive(&format!("+OK\r\n+OK\r\n+OK\r\n{answer}\r\n"));
        }
    }
    let (mut bench, _) = member(Some(place(100)), Settings::default());
    bench.greet_above(5, "+OK");
    assert_eq!(bench.receive("-ERR unknown command\r\n"), ["disconnect 1"], "no SYNC");
}

#[test]
fn stream_that_may_not_be_applied_ends_the_link() {
    let (mut bench, scribe) = member(Some(place(100)), Settings::default());
    bench.greet_above(5, "+OK");
    bench.receive("+CONTINUE\r\n");
    bench.receive("*1\r\n$4\r\nPING\r\n");
    let link = bench.link();
    scribe.refuse();
    assert!(!bench.node.may_apply(link));
    bench.run(|node, now, out| node.refuse_stream(now, link, out));
    assert_eq!(bench.take_actions(), ["disconnect 1"]);
    bench.run(|node, now, out| node.refuse_stream(now, link, out));
    assert!(bench.take_actions().is_empty());
}

#[test]
fn data_stay_if_the_shard_refuses_a_copy() {
    for load in [DisklessLoad::Disabled, DisklessLoad::FlushBeforeLoad, DisklessLoad::SwapDb] {
        let settings = Settings { diskless_load: load, ..Settings::default() };
        let (mut bench, scribe) = member(Some(place(100)), settings);
        bench.greet_above(5, "+OK");
        bench.receive(&format!("+FULLRESYNC {} 500\r\n", id(0xbb)));
        scribe.refuse();
        bench.receive("$4\r\nabcd");
        let link = bench.link();
        let is_taken = bench.run(|node, now, out| node.loaded(now, link, 0, out));
        assert!(!is_taken && bench.node.position() == Some(place(100)));
        let reports = scribe.take();
        assert_eq!(reports.iter().filter(|report| *report == "drop in 5").count(), 1);
        assert!(!bench.take_actions().contains(&"Swap".to_string()));
    }
}

#[test]
fn copy_makes_data_incomplete_until_it_is_loaded() {
    let (mut bench, scribe) = member(Some(place(100)), Settings::default());
    bench.greet_above(5, &format!("+OK {} 81", id(0xaa)));
    bench.receive(&format!("+FULLRESYNC {} 500\r\n", id(0xbb)));
    scribe.take();
    bench.receive("$4\r\nabc");
    assert!(scribe.take().is_empty());
    let link = bench.link();
    bench.run(|node, now, out| node.received(now, link, b"d", &|| false, out));
    assert_eq!(scribe.take(), ["drop in 5"]);
    assert_eq!(bench.node.discarded(), 20);
    assert!(bench.log().contains("Discarding 20 bytes of writes"));
    bench.pass(300);
    assert_eq!(scribe.take(), ["heard"]);
    assert!(bench.run(|node, now, out| node.loaded(now, link, 0, out)));
    assert_eq!(scribe.take(), ["has 500", "has 500"], "loaded, and before its ACK");
}

#[test]
fn nothing_is_discarded_if_the_backlog_was_too_short() {
    let (mut bench, _) = member(Some(place(100)), Settings::default());
    bench.greet_above(5, &format!("+OK {} 101", id(0xaa)));
    bench.receive(&format!("+FULLRESYNC {} 500\r\n$1\r\nx", id(0xbb)));
    assert_eq!(bench.node.discarded(), 0);
}

#[test]
fn backups_need_no_greeting() {
    let (mut bench, scribe) = member(None, Settings { diskless_delay: 0, ..Settings::default() });
    bench.lead(5);
    scribe.take();
    bench.replconf(1, "rdb-only 1 capa eof");
    let (id, next) = (bench.node.stream().history().id, bench.node.stream().offset() + 1);
    assert!(bench.sync(1, &format!("{id} {next}"))[0].starts_with("1: -NOMASTERLINK"));
    assert_eq!(bench.sync(1, ""), ["snapshot 1 Stream 11 all"]);
    assert!(scribe.take().is_empty());
}

#[test]
fn greetings_are_encoded() {
    let me = Member { node: node_id(3), incarnation: u64::MAX };
    let of = Greeting { shard: node_id(9), epoch: 12, member: me };
    let mut bytes = Vec::new();
    of.encode(&mut bytes);
    let text = String::from_utf8(bytes).expect("text");
    let words: Vec<&[u8]> =
        text.lines().filter(|line| !line.starts_with(['*', '$'])).map(str::as_bytes).collect();
    assert_eq!(Greeting::parse(&words[1..]), Some(Ok(of)));
    assert_eq!(Greeting::parse(&[b"capa", b"eof"]), None);
    assert!(Greeting::parse(&words[1..5]).expect("a greeting").is_err());
    // Without a cluster it is an unknown option.
    let mut bench = Bench::primary(Settings::default());
    assert_eq!(bench.replconf(1, &greeting(5, 1)), ["1: -ERR syntax error"]);
}

fn question(epoch: u64, ask: u64, node: u8, incarnation: u64) -> PromiseQuestion {
    let member = Member { node: node_id(node), incarnation };
    PromiseQuestion { epoch, ask: OpId(ask), member }
}

#[test]
fn primary_asks_for_promises_in_the_stream() {
    let (mut bench, scribe) = member(None, Settings::default());
    bench.lead(5);
    bench.replconf(1, &greeting(5, 1));
    let ask = |bench: &mut Bench, of: PromiseQuestion| {
        let before = bench.node.stream().offset();
        bench.run(|node, now, out| node.ask_promise(now, of, out));
        bench.node.stream().offset() - before
    };
    assert_eq!(ask(&mut bench, question(5, 70, 3, 1)), 0, "it has only greeted");
    bench.replconf(1, "weft-promise 5 70");
    assert_eq!(scribe.take(), ["has 0", "written 0"], "nor does it promise");
    bench.attach(1);
    scribe.take();
    assert_eq!(ask(&mut bench, question(4, 70, 3, 1)), 0, "another epoch");
    assert_eq!(ask(&mut bench, question(5, 70, 3, 2)), 0, "another incarnation");
    let of = question(5, 70, 3, 1);
    let bytes = of.encode();
    assert_eq!(ask(&mut bench, of), bytes.len() as u64);
    assert_eq!(PromiseQuestion::parse(&bytes), Some(of));
    for other in ["weft-promise 4 70", "weft-promise 6 70", "weft-promise 5"] {
        bench.replconf(1, other);
        assert!(scribe.take().is_empty(), "{other}");
    }
    bench.replconf(2, "weft-promise 5 70");
    assert!(scribe.take().is_empty(), "a client that is no replica");
    assert!(bench.replconf(1, "weft-promise 5 70").is_empty(), "it has no reply");
    assert_eq!(scribe.take(), ["1 promised 70"]);
    bench.lead(6);
    scribe.take();
    bench.replconf(1, "weft-promise 5 70");
    assert!(scribe.take().is_empty(), "the link has ended with its epoch");
}

#[test]
fn replica_promises_to_the_primary_that_has_asked() {
    let (mut bench, scribe) = member(Some(place(100)), Settings::default());
    bench.greet_above(5, "+OK");
    bench.receive("+CONTINUE\r\n");
    scribe.take();
    let link = bench.link();
    let hear = |bench: &mut Bench, of: PromiseQuestion| {
        let mut splitter = crate::apply::Splitter::new(0);
        splitter.push(&of.encode());
        let unit = splitter.next_unit().expect("valid").expect("whole");
        assert_eq!((unit.kind(), unit.len()), (crate::apply::Kind::AskPromise, 0));
        bench.run(|node, _, _| node.promise_asked(link, unit.bytes()));
    };
    hear(&mut bench, question(5, 70, 3, 7));
    hear(&mut bench, question(5, 70, 1, 8));
    assert!(scribe.take().is_empty(), "others are asked");
    hear(&mut bench, question(5, 70, 1, 7));
    assert_eq!(scribe.take(), ["asked 70 in 5"]);
    let give = |bench: &mut Bench, to: u8, epoch: u64| {
        bench.run(|node, now, out| node.promise(now, node_id(to), epoch, OpId(70), out));
        bench.take_actions()
    };
    assert!(give(&mut bench, 3, 5).is_empty() && give(&mut bench, 2, 6).is_empty());
    assert_eq!(give(&mut bench, 2, 5), ["1> *4 $8 REPLCONF $12 weft-promise $1 5 $2 70"]);
    bench.hold();
    assert!(give(&mut bench, 2, 5).is_empty());
    hear(&mut bench, question(5, 71, 1, 7));
    assert!(!scribe.take().contains(&"asked 71 in 5".to_string()));
    bench.greet_above(6, "+OK");
    assert!(give(&mut bench, 2, 6).is_empty(), "before there is a link");
}
