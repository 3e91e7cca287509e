//! A server with replicas.

use super::{Bench, id};
use crate::action::{ConnId, SnapshotId};
use crate::primary::{Done, Goal, Waits};
use crate::settings::{OutputLimit, Settings};

const OPTIONS: &str = "listening-port 1 capa eof capa psync2 version 9.1.0";

fn eager() -> Settings {
    Settings { diskless_delay: 0, ..Settings::default() }
}

fn disk() -> Settings {
    Settings { diskless_sync: false, ..Settings::default() }
}

impl Bench {
    fn began(&mut self, snapshot: u64) -> Vec<String> {
        self.run(|node, now, out| node.snapshot_began(now, SnapshotId(snapshot), out));
        self.take_actions()
    }

    fn ready(&mut self, snapshot: u64, bytes: u64) -> Vec<String> {
        self.run(|node, now, out| node.snapshot_ready(now, SnapshotId(snapshot), bytes, out));
        self.take_actions()
    }

    fn sent(&mut self, conn: u64) -> Vec<String> {
        self.run(|node, now, out| node.bulk_sent(now, ConnId(conn), out));
        self.take_actions()
    }

    fn closed(&mut self, conn: u64) -> Vec<String> {
        self.run(|node, now, out| node.closed(now, ConnId(conn), out));
        self.take_actions()
    }

    fn states(&self) -> Vec<&'static str> {
        let views = self.node.primary().views(self.now, self.node.stream().offset());
        views.iter().map(|view| view.state).collect()
    }
}

#[test]
fn replconf_replies_match_valkey() {
    let mut bench = Bench::primary(Settings::default());
    let long = format!("ip-address {}", "x".repeat(300));
    for (args, reply) in [
        ("a", "-ERR syntax error"),
        ("listening-port x", "-ERR value is not an integer or out of range"),
        ("foo bar", "-ERR Unrecognized REPLCONF option: foo"),
        ("capa eof foo bar", "-ERR Unrecognized REPLCONF option: foo"),
        ("version a", "-ERR Unrecognized version format: a"),
        ("rdb-only 2", "-ERR value is out of range, value must between 0 and 1"),
        ("rdb-only x", "-ERR value is not an integer or out of range"),
        ("rdb-filter-only data", "-ERR Unsupported rdb-filter-only option: data"),
        ("rdb-filter-only \"", "-ERR Missing rdb-filter-only values"),
        (&long, "-ERR REPLCONF ip-address provided by replica instance is too long: 300 bytes"),
        ("capa x", "+OK"),
        ("CAPA eof Version 9.1.0", "+OK"),
    ] {
        assert_eq!(bench.replconf(1, args), [format!("1: {reply}")], "{args}");
    }
    assert!(bench.replconf(1, "ack 5").is_empty(), "has no reply");
    assert!(bench.replconf(1, "getack *").is_empty());
    assert!(!bench.node.primary().is_replica(ConnId(1)));
}

#[test]
fn streamed_copy_begins_after_the_delay_and_stream_after_the_first_ack() {
    let mut bench = Bench::primary(Settings::default());
    bench.write(3);
    assert_eq!(bench.node.stream().offset(), 0, "without a backlog the offset stays");
    bench.replconf(1, OPTIONS);
    assert_eq!(bench.sync(1, "? -1"), ["KeepWrites"]);
    assert_eq!(bench.node.stream().history().id, id(2), "unkept writes end the history");
    bench.pass(2000);
    assert_eq!(bench.take_actions(), ["1: \n", "1: \n"], "signs of life");
    bench.replconf(2, OPTIONS);
    assert!(bench.sync(2, "? -1").is_empty());
    bench.pass(3000);
    let wants = bench.take_actions();
    assert_eq!(wants.last().map(String::as_str), Some("snapshot 1 Stream 80 all"));
    bench.write(1);
    let mark = id(3);
    assert_eq!(
        bench.began(1),
        [
            format!("1: +FULLRESYNC {} 37", id(2)),
            format!("1: snapshot 1 after $EOF:{mark} marked"),
            format!("2: +FULLRESYNC {} 37", id(2)),
            format!("2: snapshot 1 after $EOF:{mark} marked"),
        ]
    );
    bench.replconf(3, OPTIONS);
    assert!(bench.sync(3, "? -1").is_empty(), "too late for this snapshot");
    bench.write(1);
    assert_eq!(bench.states(), ["wait_bgsave", "wait_bgsave", "wait_bgsave"]);
    assert!(bench.sent(1).is_empty());
    assert_eq!(bench.states()[0], "online");
    assert_eq!(bench.replconf(1, "ack 37"), ["1: stream from 37", "Acknowledged"]);
    assert_eq!(
        bench.replconf(2, "ack 37"),
        ["Acknowledged"],
        "before the end of its copy is reported"
    );
    assert_eq!(bench.sent(2), ["2: stream from 37"]);
    bench.pass(5000);
    assert!(
        bench.take_actions().contains(&"snapshot 2 Stream 80 all".to_string()),
        "the third replica gets the next snapshot"
    );
}

#[test]
fn replica_joins_a_disk_snapshot_in_progress() {
    let mut bench = Bench::primary(disk());
    bench.replconf(1, OPTIONS);
    assert_eq!(bench.sync(1, "? -1"), ["KeepWrites", "snapshot 1 Disk 80 all"]);
    bench.replconf(2, OPTIONS);
    assert!(bench.sync(2, "? -1").is_empty());
    let full = format!("+FULLRESYNC {} 0", id(2));
    assert_eq!(bench.began(1), [format!("1: {full}"), format!("2: {full}")]);
    bench.write(2);
    bench.replconf(3, OPTIONS);
    assert_eq!(bench.sync(3, "? -1"), [format!("3: {full}")]);
    bench.replconf(4, "listening-port 4");
    assert!(bench.sync(4, "").is_empty(), "it needs an older form");
    assert_eq!(
        bench.ready(1, 99),
        [
            "1: snapshot 1 after $99",
            "2: snapshot 1 after $99",
            "3: snapshot 1 after $99",
            "snapshot 2 Disk 11 all",
        ]
    );
    assert_eq!(bench.states(), ["send_bulk", "send_bulk", "send_bulk", "wait_bgsave"]);
    assert_eq!(bench.sent(3), ["3: stream from 0"]);
    assert!(bench.began(2).is_empty(), "SYNC has no reply line");
    assert_eq!(bench.ready(2, 5), ["4: snapshot 2 after $5"]);
    assert_eq!(bench.sent(4), ["4: stream from 51"]);
    bench.pass(200_000);
    assert!(bench.node.primary().is_replica(ConnId(4)), "SYNC replicas don't acknowledge");
    assert!(!bench.node.primary().is_replica(ConnId(3)));
}

#[test]
fn enough_replicas_end_the_delay() {
    let mut bench = Bench::primary(Settings { diskless_max_replicas: 2, ..Settings::default() });
    bench.replconf(1, OPTIONS);
    assert_eq!(bench.sync(1, "? -1"), ["KeepWrites"]);
    bench.replconf(2, OPTIONS);
    assert_eq!(bench.sync(2, "? -1"), ["snapshot 1 Stream 80 all"]);
}

#[test]
fn rdb_only_and_filtered_copies() {
    let mut bench = Bench::primary(disk());
    bench.replconf(1, "rdb-only 1 rdb-filter-only functions");
    assert_eq!(bench.sync(1, ""), ["1: -ERR Filtered replica requires EOF capability"]);
    bench.replconf(1, "capa eof");
    let wants = bench.sync(1, "");
    assert_eq!(wants, ["KeepWrites"], "it goes over the socket, after the delay");
    bench.pass(5000);
    assert!(bench.take_actions().contains(&"snapshot 1 Stream 11 functions".to_string()));
    assert_eq!(bench.began(1), [format!("1: snapshot 1 after $EOF:{} marked", id(3))]);
    bench.write(1000);
    assert_eq!(bench.node.primary().views(0, 14_037)[0].pending, 0, "no stream is kept for it");
    assert_eq!(bench.sent(1), ["1: close later"]);
}

#[test]
fn unneeded_and_failed_snapshots_are_abandoned() {
    let mut bench = Bench::primary(eager());
    bench.replconf(1, OPTIONS);
    assert_eq!(bench.sync(1, "? -1"), ["KeepWrites", "snapshot 1 Stream 80 all"]);
    assert_eq!(bench.closed(1), ["abandon 1"]);
    assert!(bench.began(1).is_empty(), "too late");
    bench.replconf(2, OPTIONS);
    assert_eq!(bench.sync(2, "? -1"), ["snapshot 2 Stream 80 all"]);
    bench.run(|node, now, out| node.snapshot_failed(now, SnapshotId(2), "no memory", out));
    assert_eq!(
        bench.take_actions(),
        ["2: -ERR BGSAVE failed, replication can't continue", "2: close later"]
    );
    bench.replconf(3, OPTIONS);
    bench.sync(3, "? -1");
    bench.began(3);
    bench.run(|node, now, out| node.snapshot_failed(now, SnapshotId(3), "no memory", out));
    assert_eq!(bench.take_actions(), ["3: close"]);
    bench.replconf(4, OPTIONS);
    bench.sync(4, "? -1");
    bench.began(4);
    bench.run(|node, now, out| node.bulk_stuck(now, ConnId(4), out));
    assert_eq!(bench.take_actions(), ["4: close", "abandon 4"]);
}

#[test]
fn psync_continues_within_the_backlog() {
    let mut bench = Bench::primary(eager());
    bench.replconf(1, OPTIONS);
    bench.sync(1, "? -1");
    bench.write(2);
    let now = id(2);
    assert_eq!(bench.sync(1, &format!("{now} 1")), [""; 0], "it is a replica already");
    bench.replconf(2, "capa psync2");
    assert_eq!(
        bench.sync(2, &format!("{now} 24")),
        [format!("2: +CONTINUE {now}"), "2: stream from 23".into()]
    );
    assert_eq!(bench.sync(3, &format!("{now} 52")), ["3: +CONTINUE", "3: stream from 51"]);
    assert_eq!(bench.sync(4, "x y"), ["4: -ERR value is not an integer or out of range"]);
    for (conn, asked, why) in [
        (5, format!("{now} 53"), "greater than the primary replication offset"),
        (6, format!("{now} 0"), "for lack of backlog (Replica request was: 0)"),
        (7, format!("{} 1", id(1)), "Replication ID mismatch"),
        (8, "? -1".to_string(), "Full resync requested by replica"),
    ] {
        let args: Vec<&[u8]> = asked.split(' ').map(str::as_bytes).collect();
        bench.run(|node, now, out| node.sync(now, ConnId(conn), "x", &args, out));
        let log = bench.log();
        assert!(log.contains(why), "{log}");
    }
    let counts = bench.node.primary().counts();
    assert_eq!((counts.sync_full, counts.sync_partial_ok, counts.sync_partial_err), (5, 2, 3));
}

#[test]
fn pings_timeouts_and_backlog_ttl() {
    let mut bench = Bench::primary(Settings { timeout: 20_000, ..Settings::default() });
    assert!(bench.node.stream().kept().is_none(), "nothing is kept yet");
    bench.replconf(9, OPTIONS);
    bench.sync(9, "? -1");
    bench.attach(1);
    bench.closed(9);
    let begin = bench.node.stream().offset();
    bench.pass(15_000);
    assert_eq!(bench.node.stream().offset(), begin + 14, "a ping each ten seconds");
    bench.run(|node, now, out| node.newline(now, ConnId(1), out));
    bench.pass(15_000);
    assert!(bench.node.primary().is_replica(ConnId(1)), "a line end is a sign of life");
    bench.take_actions();
    bench.pass(6000);
    assert_eq!(bench.take_actions(), ["1: close"]);
    let (id, offset) = (bench.node.stream().history().id, bench.node.stream().offset());
    bench.pass(3_598_000);
    assert!(bench.node.stream().kept().is_some());
    bench.pass(3000);
    assert_eq!(bench.take_actions(), ["DropWrites"]);
    assert!(bench.node.stream().kept().is_none() && bench.node.position().is_none());
    assert!(bench.node.stream().history().id != id, "the next writes are not kept");
    assert_eq!(bench.node.stream().offset(), offset);
}

#[test]
fn slow_replica_is_dropped_at_its_output_limit() {
    let output = OutputLimit { hard: 5000, soft: 2000, soft_time: 1000 };
    let mut bench = Bench::primary(Settings { output, backlog_size: 1000, ..eager() });
    bench.replconf(9, OPTIONS);
    bench.sync(9, "? -1");
    for conn in 1..=3 {
        bench.attach(conn);
    }
    let kept = |bench: &Bench| bench.node.stream().kept().map_or(0, |kept| kept.end - kept.start);
    let written = |bench: &mut Bench, conn| {
        let end = bench.node.stream().offset();
        bench.run(|node, now, out| node.written(now, ConnId(conn), end, out));
    };
    for round in 0..400 {
        bench.write(1);
        written(&mut bench, 1);
        if round == 100 {
            written(&mut bench, 2);
        }
        assert!(kept(&bench) <= 5000 + 256 + 23, "{}", kept(&bench));
    }
    assert_eq!(bench.take_actions(), ["3: close"]);
    bench.pass(500);
    assert!(bench.node.primary().is_replica(ConnId(2)));
    bench.pass(600);
    assert!(
        bench.take_actions().contains(&"2: close".to_string()),
        "over the soft limit for too long"
    );
    assert!(kept(&bench) <= 1000 + 256, "{}", kept(&bench));
    assert!(bench.node.primary().is_replica(ConnId(1)));
}

#[test]
fn waits_end_by_acknowledgements_and_timeouts() {
    let mut bench = Bench::primary(Settings { min_replicas: 2, ..eager() });
    bench.replconf(9, OPTIONS);
    bench.sync(9, "? -1");
    bench.attach(1);
    assert!(!bench.node.may_write(bench.now), "one is online");
    bench.attach(2);
    assert!(bench.node.may_write(bench.now));
    let end = bench.run(|node, now, out| {
        node.write(now, |units| units.unit(&[(0, crate::stream::PING)]), out)
    });
    assert_eq!(end, 37);
    let mut waits = Waits::default();
    waits.add('a', Goal::Replicas(1), end, 0, None);
    waits.add('b', Goal::Replicas(2), end, 0, Some(500));
    waits.add('c', Goal::Disk { local: true, replicas: 1 }, end, 70, None);
    waits.add('d', Goal::Replicas(9), end, 0, Some(900));
    waits.remove('d');
    bench.run(|node, now, out| node.request_acks(now, out));
    bench.run(|node, now, out| node.request_acks(now, out));
    assert_eq!(bench.node.stream().offset(), end + 37, "asked once");
    let mut settle =
        |bench: &Bench, durable| waits.take_finished(bench.now, bench.node.primary(), durable);
    assert!(settle(&bench, 70).is_empty());
    assert!(bench.replconf(1, "ack 36").contains(&"Acknowledged".to_string()));
    assert!(settle(&bench, 70).is_empty());
    bench.replconf(1, "ack 37 fack 36");
    assert_eq!(settle(&bench, 70), [('a', Done::Replicas(1))]);
    bench.replconf(2, "ack 36 fack 99999999");
    assert!(settle(&bench, 69).is_empty(), "on the replica's disk, not on this server's");
    assert_eq!(settle(&bench, 70), [('c', Done::Disk { local: 1, replicas: 1 })]);
    bench.now = 500;
    assert_eq!(settle(&bench, 0), [('b', Done::Replicas(1))], "as many as there are in time");
    assert!(waits.is_empty());
    bench.now = 10_100;
    assert!(!bench.node.may_write(bench.now), "too long ago");
    let views = bench.node.primary().views(bench.now, 74);
    let first = &views[0];
    assert_eq!(
        (first.host.as_str(), first.port, first.ack_offset, first.lag),
        ("10.0.0.9", 1, 37, 10_100)
    );
}

#[test]
fn stream_is_kept_without_replicas_while_it_must_be() {
    let mut bench = Bench::primary(Settings { backlog_ttl: 1000, ..Settings::default() });
    bench.write(1);
    assert_eq!(bench.node.stream().offset(), 0, "nothing is kept");
    bench.run(|node, _, out| node.keep_stream(true, out));
    assert_eq!(bench.take_actions(), ["KeepWrites"]);
    bench.write(1);
    let offset = bench.node.stream().offset();
    assert!(offset > 0);
    bench.pass(10_000);
    bench.run(|node, _, out| node.keep_stream(true, out));
    assert_eq!(bench.take_actions(), [""; 0]);
    assert_eq!(bench.node.stream().offset(), offset);
    bench.run(|node, _, out| node.keep_stream(false, out));
    bench.pass(2000);
    assert_eq!(bench.take_actions(), ["DropWrites"]);
    assert!(bench.node.stream().backlog().is_none());
}
