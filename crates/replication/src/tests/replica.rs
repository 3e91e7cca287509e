//! A server with a primary.

use super::{Bench, id};
use crate::settings::{DisklessLoad, Settings};
use crate::stream::Position;

fn place() -> Position {
    Position { id: id(0xaa), offset: 100, db: 3 }
}

impl Bench {
    /// Runs the handshake up to PSYNC.
    fn shake_hands(&mut self) -> Vec<String> {
        self.pass(100);
        let link = self.link();
        self.run(|node, now, out| node.connected(now, link, out));
        self.receive("+PONG\r\n");
        self.receive("+OK\r\n+OK\r\n+OK\r\n")
    }

    fn loaded(&mut self, db: u32) -> Vec<String> {
        let link = self.link();
        self.run(|node, now, out| node.loaded(now, link, db, out));
        self.take_actions()
    }

    fn lost(&mut self) -> Vec<String> {
        let link = self.link();
        self.run(|node, now, out| node.link_closed(now, link, "reset", out));
        self.take_actions()
    }

    fn applied(&mut self, bytes: &[u8]) {
        let link = self.link();
        assert!(self.node.may_apply(link));
        self.run(|node, now, out| node.applied(now, link, bytes, 0, out));
    }

    fn state(&self) -> &'static str {
        self.node.follower().expect("a replica").state_name()
    }
}

#[test]
fn full_sync_of_a_new_replica() {
    let mut bench =
        Bench::replica(Settings { password: "p".to_string(), ..Settings::default() }, None);
    assert_eq!(bench.state(), "connect");
    bench.pass(100);
    assert_eq!(bench.take_actions(), ["connect 1 to above:7000"]);
    assert_eq!(bench.state(), "connecting");
    let link = bench.link();
    bench.run(|node, now, out| node.connected(now, link, out));
    assert_eq!(bench.take_actions(), ["1> *1 $4 PING"]);
    assert_eq!(
        bench.receive("-NOAUTH Authentication required.\r\n"),
        [
            "1> *2 $4 AUTH $1 p *3 $8 REPLCONF $14 listening-port $4 6379 *5 $8 REPLCONF $4 capa $3 eof \
             $4 capa $6 psync2 *3 $8 REPLCONF $7 version $5 9.1.0"
        ]
    );
    assert_eq!(bench.state(), "handshake");
    assert!(bench.receive("+OK\r\n-ERR what port\r\n+OK\r\n-ER").is_empty());
    assert_eq!(bench.receive("R what version\r\n"), ["1> *3 $5 PSYNC $1 ? $2 -1"]);
    assert!(bench.receive("\n\r\n\n").is_empty(), "signs of life");
    assert!(bench.receive(&format!("+FULLRESYNC {} 55\r\n\n", id(0xbb))).is_empty());
    assert_eq!(bench.state(), "sync");
    assert_eq!(bench.receive("$5\r\nhel"), ["load File Some(5)", "payload hel"]);
    assert_eq!(bench.receive("lo"), ["payload lo", "EndLoad"]);
    assert!(bench.node.position().is_none(), "there are no data now");
    let stream = b"*1\r\n$4\r\nPING\r\n";
    assert_eq!(bench.run(|node, now, out| node.received(now, link, stream, &|| false, out)), 0);
    bench.pass(2000);
    assert_eq!(bench.take_actions(), ["1> \n", "1> \n"], "signs of life while it loads");
    assert_eq!(bench.loaded(4), ["stream from 55 in 4", "1> *3 $8 REPLCONF $3 ACK $2 55", "Read"]);
    assert_eq!(bench.node.position(), Some(Position { id: id(0xbb), offset: 55, db: 4 }));
    assert_eq!(bench.receive("*1\r\n$4\r\nPING\r\n"), ["stream 0..14"]);
    bench.pass(1000);
    assert_eq!(bench.take_actions(), ["1> *3 $8 REPLCONF $3 ACK $2 55"], "received, not applied");
    bench.applied(stream);
    bench.run(|node, _, _| node.durable(Some(60)));
    bench.run(|node, now, out| node.get_ack(now, link, out));
    assert_eq!(bench.take_actions(), ["1> *5 $8 REPLCONF $3 ACK $2 69 $4 FACK $2 60"]);
    assert_eq!(bench.state(), "connected");
}

#[test]
fn replica_continues_after_a_lost_link() {
    let mut bench = Bench::replica(Settings::default(), Some(place()));
    let ask = format!("1> *3 $5 PSYNC $40 {} $3 101", id(0xaa));
    assert_eq!(bench.shake_hands(), [ask]);
    assert_eq!(
        bench.receive("+CONTINUE\r\n*1\r\n"),
        ["stream from 100 in 3", "1> *3 $8 REPLCONF $3 ACK $3 100", "stream 11..15"]
    );
    bench.applied(b"*1\r\n$4\r\nPING\r\n");
    assert_eq!(bench.lost(), ["disconnect 1", "connect 2 to above:7000"], "at once");
    assert!(bench.node.follower().expect("a replica").down_since().is_some());
    bench.shake_hands();
    let other = id(0xcc);
    assert_eq!(
        bench.receive(&format!("+CONTINUE {other}\r\n")),
        ["stream from 114 in 0", "2> *3 $8 REPLCONF $3 ACK $3 114"]
    );
    let history = *bench.node.stream().history();
    assert_eq!((history.id, history.second.map(|second| second.valid_to)), (other, Some(115)));
    bench.pass(61_000);
    let wants = bench.take_actions();
    assert!(
        wants.ends_with(&["disconnect 2".into(), "connect 3 to above:7000".into()]),
        "{wants:?}"
    );
}

#[test]
fn timeout_does_not_run_while_units_are_applied() {
    let mut bench = Bench::replica(Settings::default(), Some(place()));
    bench.shake_hands();
    bench.receive("+CONTINUE\r\n");
    assert_eq!(bench.receive("*1\r\n$4\r\nPING\r\n"), ["stream 0..14"]);
    // Units are blocked, or wait for their shards: the replica continues to acknowledge.
    bench.pass(600_000);
    assert!(bench.take_actions().iter().all(|line| line.ends_with("ACK $3 100")));
    let (link, now) = (bench.link(), bench.now);
    bench.applied(b"*1\r\n$4\r\nPING\r\n");
    bench.pass(1000);
    bench.node.mark_reading(now, link);
    bench.pass(55_000);
    assert_eq!(bench.state(), "connected", "the timeout restarts");
    bench.pass(6000);
    assert!(bench.take_actions().contains(&"connect 2 to above:7000".to_string()));
    // Events of another attempt have no effect.
    bench.shake_hands();
    bench.receive("+CONTINUE\r\n*1\r\n$4\r\nPING\r\n");
    bench.node.mark_reading(bench.now, link);
    bench.pass(61_000);
    assert_eq!(bench.state(), "connected");
}

#[test]
fn new_id_or_copy_disconnects_replicas() {
    let mut bench = Bench::replica(Settings::default(), Some(place()));
    bench.shake_hands();
    bench.receive("+CONTINUE\r\n");
    bench.attach(8);
    bench.lost();
    bench.shake_hands();
    assert!(
        bench
            .receive(&format!("+CONTINUE {}\r\n", id(0xaa)))
            .iter()
            .all(|line| !line.contains("close"))
    );
    bench.lost();
    bench.shake_hands();
    assert!(
        bench.receive(&format!("+CONTINUE {}\r\n", id(0xcc))).contains(&"8: close".to_string())
    );
    bench.attach(9);
    bench.lost();
    bench.shake_hands();
    bench.receive(&format!("+FULLRESYNC {} 5\r\n$3\r\nab", id(0xdd)));
    assert!(bench.node.primary().has_replicas(), "the old data are still there");
    assert_eq!(
        bench.sync(10, "? -1"),
        ["10: -NOMASTERLINK Can't SYNC while not connected with my master"]
    );
    assert_eq!(bench.receive("c"), ["payload c", "EndLoad", "9: close"]);
}

#[test]
fn refusals_are_logged_and_retried() {
    for (answers, log) in [
        ("-LOADING x\r\n", "Error reply to PING from primary: '-LOADING x'"),
        ("+PONG\r\n-ERR invalid password\r\n", "Unable to AUTH to PRIMARY: -ERR invalid password"),
        (
            "+PONG\r\n+\r\n+\r\n+\r\n+\r\n-LOADING x\r\n",
            "unable to PSYNC but should be in the future",
        ),
        (
            "+PONG\r\n+\r\n+\r\n+\r\n+\r\n-NOMASTERLINK x\r\n",
            "unable to PSYNC but should be in the future",
        ),
        ("+PONG\r\n+\r\n+\r\n+\r\n+\r\n+CONTINUE\r\n", "a history that it was not asked for"),
        (
            "+PONG\r\n+\r\n+\r\n+\r\n+\r\n+FULLRESYNC\r\n-ERR x\r\n",
            "PRIMARY aborted replication with an error: ERR x",
        ),
        (
            "+PONG\r\n+\r\n+\r\n+\r\n+\r\n-ERR what\r\n+x\r\n",
            "the first byte is not '$' (we received '+x')",
        ),
    ] {
        let mut bench =
            Bench::replica(Settings { password: "p".to_string(), ..Settings::default() }, None);
        bench.pass(100);
        let link = bench.link();
        bench.run(|node, now, out| node.connected(now, link, out));
        bench.take_actions();
        bench.run(|node, now, out| node.received(now, link, answers.as_bytes(), &|| false, out));
        let said = bench.log();
        assert!(said.contains(log), "{said}");
        assert_eq!(bench.state(), "connect");
        bench.pass(900);
        assert!(bench.take_actions().is_empty());
        bench.pass(100);
        assert_eq!(bench.take_actions(), ["connect 2 to above:7000"], "again in a second");
    }
}

#[test]
fn sync_with_a_primary_without_psync() {
    let mut bench = Bench::replica(Settings::default(), Some(place()));
    bench.shake_hands();
    assert_eq!(bench.receive("-ERR unknown command 'PSYNC'\r\n"), ["1> SYNC"]);
    bench.receive("$0\r\n");
    assert_eq!(bench.loaded(0), ["stream from 0 in 0", "Read"]);
    bench.pass(3000);
    assert!(bench.take_actions().is_empty(), "it doesn't understand acknowledgements");
    bench.lost();
    assert_eq!(bench.shake_hands(), ["2> *3 $5 PSYNC $1 ? $2 -1"]);
    assert!(bench.node.position().is_none(), "the data have no valid position");
}

#[test]
fn copies_are_loaded_as_configured() {
    let same = format!("+FULLRESYNC {} 900\r\n$EOF:{}\r\n", id(0xaa), "m".repeat(40));
    let end = format!("copy{}", "m".repeat(40));
    for (load, begins, ends, loaded) in [
        (DisklessLoad::Disabled, "load File None", &["payload copy", "EndLoad"][..], 3),
        (DisklessLoad::OnEmptyDb, "load File None", &["payload copy", "EndLoad"][..], 3),
        (
            DisklessLoad::SwapDb,
            "load Staged { serve: true } None",
            &["payload copy", "EndLoad"][..],
            4,
        ),
        (DisklessLoad::FlushBeforeLoad, "load Direct None", &["payload copy", "EndLoad"][..], 3),
    ] {
        let mut bench =
            Bench::replica(Settings { diskless_load: load, ..Settings::default() }, Some(place()));
        bench.shake_hands();
        assert_eq!(bench.receive(&same), [begins]);
        assert_eq!(bench.node.position().is_some(), load != DisklessLoad::FlushBeforeLoad);
        assert_eq!(bench.receive(&end), ends);
        assert_eq!(
            bench.node.position().is_some(),
            load == DisklessLoad::SwapDb,
            "the old data serve on"
        );
        let wants = bench.loaded(1);
        assert_eq!(wants.len(), loaded, "{wants:?}");
        assert_eq!(wants[0] == "Swap", load == DisklessLoad::SwapDb);
        assert_eq!(bench.node.position(), Some(Position { id: id(0xaa), offset: 900, db: 1 }));
    }
    let mut bench = Bench::replica(
        Settings { diskless_load: DisklessLoad::OnEmptyDb, ..Settings::default() },
        None,
    );
    bench.shake_hands();
    let link = bench.link();
    bench.run(|node, now, out| node.received(now, link, same.as_bytes(), &|| true, out));
    assert_eq!(bench.take_actions(), ["load Direct None"]);
}

#[test]
fn failed_copy_leaves_no_position_once_the_old_data_are_dropped() {
    let mut bench = Bench::replica(Settings::default(), Some(place()));
    bench.shake_hands();
    bench.receive(&format!("+FULLRESYNC {} 900\r\n$5\r\nhel", id(0xbb)));
    assert_eq!(bench.lost(), ["AbandonLoad", "disconnect 1"]);
    bench.pass(1000);
    let ask = format!("2> *3 $5 PSYNC $40 {} $3 101", id(0xaa));
    assert_eq!(bench.shake_hands(), [ask], "the old data are whole");
    bench.receive(&format!("+FULLRESYNC {} 900\r\n$5\r\nhello", id(0xbb)));
    let link = bench.link();
    bench.run(|node, now, out| node.load_failed(now, link, "no memory", out));
    assert_eq!(bench.take_actions(), ["AbandonLoad", "disconnect 2"]);
    bench.pass(1000);
    assert_eq!(bench.shake_hands(), ["3> *3 $5 PSYNC $1 ? $2 -1"]);
}

#[test]
fn link_lost_during_loading_needs_no_second_copy() {
    let mut bench = Bench::replica(Settings::default(), None);
    bench.shake_hands();
    bench.receive(&format!("+FULLRESYNC {} 900\r\n$5\r\nhello", id(0xbb)));
    assert!(bench.lost().is_empty());
    assert_eq!(bench.loaded(0), ["disconnect 1", "connect 2 to above:7000"]);
    assert_eq!(bench.shake_hands(), [format!("2> *3 $5 PSYNC $40 {} $3 901", id(0xbb))]);
}

#[test]
fn each_step_times_out() {
    let mut bench = Bench::replica(Settings::default(), Some(place()));
    let silence = |bench: &mut Bench| {
        bench.take_actions();
        bench.pass(60_000);
        assert!(!bench.take_actions().iter().any(|want| want.starts_with("disconnect")));
        bench.pass(200);
        assert!(
            bench.take_actions().iter().any(|want| want.starts_with("disconnect")),
            "{}",
            bench.state()
        );
        bench.pass(1000);
    };
    bench.pass(100);
    silence(&mut bench);
    let link = bench.link();
    bench.run(|node, now, out| node.connected(now, link, out));
    silence(&mut bench);
    bench.shake_hands();
    silence(&mut bench);
    bench.shake_hands();
    bench.receive(&format!("+FULLRESYNC {} 900\r\n", id(0xbb)));
    silence(&mut bench);
    bench.shake_hands();
    bench.receive(&format!("+FULLRESYNC {} 900\r\n$5\r\n", id(0xbb)));
    silence(&mut bench);
}
