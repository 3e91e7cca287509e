//! Changes of role.

use super::{Bench, id};
use crate::action::ConnId;
use crate::node::Start;
use crate::settings::Settings;
use crate::stream::Position;

impl Bench {
    fn fail_over(&mut self, args: &str) -> Result<(), String> {
        let args: Vec<&[u8]> = args.split_whitespace().map(str::as_bytes).collect();
        self.run(|node, now, out| node.fail_over(now, &args, out))?;
        self.run(|node, now, out| node.writes_paused(now, out));
        Ok(())
    }

    /// A primary with two replicas; the first lags behind.
    fn with_two() -> Bench {
        let mut bench = Bench::primary(Settings { diskless_delay: 0, ..Settings::default() });
        bench.sync(9, "? -1");
        bench.attach(1);
        bench.attach(2);
        bench.run(|node, now, out| node.closed(now, ConnId(9), out));
        bench.write(1);
        bench.take_actions();
        bench
    }
}

fn place() -> Position {
    Position { id: id(0xaa), offset: 100, db: 3 }
}

#[test]
fn restarted_primary_continues_under_a_new_id() {
    let mut bench =
        Bench::new(Settings::default(), Start { position: Some(place()), primary: None });
    assert_eq!(bench.take_actions(), ["KeepWrites"]);
    let wants = bench.sync(1, &format!("{} 101", id(0xaa)));
    assert_eq!(wants, ["1: +CONTINUE", "1: stream from 100"]);
    let wants = bench.sync(2, &format!("{} 102", id(0xaa)));
    assert_eq!(wants, ["snapshot 1 Disk 11 all"], "written after the file");
    let history = *bench.node.stream().history();
    assert_eq!((history.id, history.offset), (id(2), 100));
}

#[test]
fn promotion_and_demotion() {
    let mut bench = Bench::replica(Settings::default(), Some(place()));
    bench.pass(100);
    let link = bench.link();
    bench.run(|node, now, out| node.connected(now, link, out));
    bench.receive("+PONG\r\n");
    bench.receive("+OK\r\n+OK\r\n+OK\r\n+CONTINUE\r\n");
    bench.replconf(5, "capa psync2");
    bench.attach(5);
    assert_eq!(bench.run(|node, now, out| node.replica_of_none(now, out)), Ok(()));
    assert_eq!(bench.take_actions(), ["disconnect 1", "KeepWrites", "Promoted", "5: close"]);
    let history = *bench.node.stream().history();
    assert_eq!(history.second.map(|second| (second.id, second.valid_to)), Some((id(0xaa), 101)));
    assert!(!bench.node.may_apply(link), "late units are not applied");
    bench.attach(6);
    bench.write(1);
    assert_eq!(bench.node.stream().offset(), 137, "its database is selected first");
    assert_eq!(bench.run(|node, now, out| node.replica_of(now, "Other", 1, out)), Ok(true));
    assert_eq!(
        bench.take_actions(),
        ["Demoted", "DropWrites", "connect 2 to Other:1"],
        "its replicas stay"
    );
    assert_eq!(bench.run(|node, now, out| node.replica_of(now, "other", 1, out)), Ok(false));
    assert_eq!(bench.run(|node, now, out| node.replica_of(now, "third", 1, out)), Ok(true));
    assert_eq!(bench.take_actions(), ["disconnect 2", "connect 3 to third:1"]);
    assert_eq!(bench.node.position().map(|place| place.offset), Some(137));
}

#[test]
fn failover_errors_match_valkey() {
    let mut bench = Bench::primary(Settings::default());
    assert_eq!(bench.fail_over("abort"), Err("ERR No failover in progress.".into()));
    assert_eq!(bench.fail_over(""), Err("ERR FAILOVER requires connected replicas.".into()));
    let mut bench = Bench::with_two();
    for (args, error) in [
        ("to x 1", "ERR FAILOVER target HOST and PORT is not a replica."),
        ("force", "ERR FAILOVER with force option requires both a timeout and target HOST and IP."),
    ] {
        assert_eq!(bench.fail_over(args), Err(error.to_string()));
    }
    bench.sync(3, "? -1");
    bench.replconf(3, "listening-port 3");
    assert_eq!(
        bench.fail_over("to 10.0.0.9 3"),
        Err("ERR FAILOVER target replica is not online.".into())
    );
    assert_eq!(bench.fail_over(""), Ok(()));
    assert_eq!(bench.fail_over(""), Err("ERR FAILOVER already in progress.".into()));
    let refused = bench.run(|node, now, out| node.replica_of(now, "x", 1, out));
    assert_eq!(refused, Err("ERR REPLICAOF not allowed while failing over.".into()));
    bench.take_actions();
    assert_eq!(bench.sync(4, "? -1"), ["4: -NOMASTERLINK Can't SYNC while failing over"]);
    let mut bench = Bench::replica(Settings::default(), None);
    let refused = bench.fail_over("");
    assert_eq!(refused, Err("ERR FAILOVER is not valid when server is a replica.".into()));
}

#[test]
fn first_caught_up_replica_takes_over() {
    let mut bench = Bench::with_two();
    assert_eq!(bench.fail_over(""), Ok(()));
    assert_eq!(bench.take_actions(), ["PauseWrites"]);
    let end = bench.node.stream().offset();
    bench.pass(12_000);
    assert_eq!(bench.node.stream().offset(), end, "no ping goes in between");
    bench.replconf(1, "ack 10");
    bench.take_actions();
    let wants = bench.replconf(2, &format!("ack {end}"));
    assert_eq!(wants, ["Acknowledged", "Demoted", "DropWrites", "connect 1 to 10.0.0.9:2"]);
    assert_eq!(bench.node.failover().name(), "failover-in-progress");
    let link = bench.link();
    bench.run(|node, now, out| node.connected(now, link, out));
    bench.receive("+PONG\r\n");
    let id = bench.node.stream().history().id;
    let ask =
        format!("1> *4 $5 PSYNC $40 {id} ${} {} $8 FAILOVER", (end + 1).to_string().len(), end + 1);
    assert_eq!(bench.receive("+OK\r\n+OK\r\n+OK\r\n"), [ask]);
    let wants = bench.receive(&format!("+CONTINUE {}\r\n", super::id(0xee)));
    assert!(wants.contains(&"ResumeWrites".to_string()) && wants.contains(&"1: close".to_string()));
    assert_eq!(bench.node.failover().name(), "no-failover");
}

#[test]
fn failover_timeout_aborts_or_forces() {
    let mut bench = Bench::with_two();
    assert_eq!(bench.fail_over("to 10.0.0.9 1 timeout 500"), Ok(()));
    let end = bench.node.stream().offset();
    bench.replconf(2, &format!("ack {end}"));
    bench.pass(400);
    assert_eq!(bench.node.failover().name(), "waiting-for-sync", "another replica is the target");
    bench.take_actions();
    bench.pass(200);
    assert_eq!(bench.take_actions(), ["ResumeWrites"]);
    assert!(bench.node.is_primary());
    assert_eq!(bench.fail_over("to 10.0.0.9 1 timeout 500 force"), Ok(()));
    bench.take_actions();
    bench.pass(600);
    assert_eq!(bench.take_actions(), ["Demoted", "DropWrites", "connect 1 to 10.0.0.9:1"]);
    let link = bench.link();
    bench.run(|node, now, out| node.connected(now, link, out));
    bench.receive("+PONG\r\n");
    bench.receive("+OK\r\n+OK\r\n+OK\r\n");
    let before = bench.node.stream().history().id;
    let wants = bench.receive("-ERR PSYNC FAILOVER replid must match my replid.\r\n");
    assert!(wants.contains(&"Promoted".to_string()) && wants.contains(&"ResumeWrites".to_string()));
    let history = bench.node.stream().history();
    assert_eq!(history.second.map(|second| second.id), Some(before));
}

#[test]
fn replica_takes_over_only_from_its_primary() {
    let mut bench = Bench::replica(Settings::default(), Some(place()));
    let refused = bench.sync(1, &format!("{} 101 FAILOVER", id(0xbb)));
    assert_eq!(refused, ["1: -ERR PSYNC FAILOVER replid must match my replid."]);
    bench.replconf(1, "capa psync2");
    let wants = bench.sync(1, &format!("{} 101 failover", id(0xaa)));
    assert!(bench.node.is_primary());
    let now = bench.node.stream().history().id;
    assert_eq!(
        wants,
        [
            "KeepWrites".to_string(),
            "Promoted".into(),
            format!("1: +CONTINUE {now}"),
            "1: stream from 100".into()
        ]
    );
    let refused = bench.sync(2, &format!("{now} 101 failover"));
    assert_eq!(refused, ["2: -ERR PSYNC FAILOVER can't be sent to a master."]);
}
