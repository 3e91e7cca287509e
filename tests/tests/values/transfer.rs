//! MIGRATE of keys named twice, of refused keys, and to servers that do not answer.

use std::net::TcpListener;
use std::time::Duration;
use weft_testkit::{Client, Server};
use weft_tests::scene::{client, on_both, reply, reply_within, send};

fn migrate(client: &mut Client, to: u16, options: &[&str], keys: &[String]) -> String {
    let port = to.to_string();
    let head = ["MIGRATE", "127.0.0.1", &port, "", "0", "5000"];
    let all = head.into_iter().chain(options.iter().copied()).chain(["KEYS"]);
    let all: Vec<&str> = all.chain(keys.iter().map(String::as_str)).collect();
    let value = client.cmd(&all);
    value.error().unwrap_or_else(|| value.text())
}

/// A key that is named twice is sent twice, however many keys are in between.
#[test]
fn migrate_sends_a_key_twice_if_named_twice() {
    const BUSY: &str =
        "ERR Target instance replied with error: BUSYKEY Target key name already exists.";
    on_both(&[], &[], |server| {
        let target = Server::weft(&[]);
        let (mut ours, mut theirs) = (client(server), client(&target));
        for others in [0, 5, 300, 600] {
            let mut keys: Vec<String> = (0..=others).map(|n| format!("k{n}")).collect();
            keys.push("k0".into());
            for (options, said, left) in
                [(&["REPLACE"][..], "OK", 0), (&["COPY", "REPLACE"], "OK", 1), (&[], BUSY, 0)]
            {
                keys.iter().for_each(|key| ours.ok(&["SET", key, "v"]));
                theirs.ok(&["FLUSHALL"]);
                assert_eq!(migrate(&mut ours, target.port(), options, &keys), said, "{others}");
                assert_eq!(theirs.cmd(&["DBSIZE"]).int(), others + 1);
                assert_eq!(ours.cmd(&["EXISTS", "k0"]).int(), left, "{options:?} {others}");
            }
        }
    });
}

/// The target refuses one key. The other keys must be moved, so that no key is on both servers.
#[test]
fn only_refused_keys_stay() {
    on_both(&[], &[], |server| {
        let target = Server::weft(&[]);
        let (mut ours, mut theirs) = (client(server), client(&target));
        for (count, there) in [(5, vec![1]), (600, vec![0]), (600, vec![3, 299, 599])] {
            ours.ok(&["FLUSHALL"]);
            theirs.ok(&["FLUSHALL"]);
            let keys: Vec<String> = (0..count).map(|n| format!("k{n}")).collect();
            keys.iter().for_each(|key| ours.ok(&["SET", key, "v"]));
            there.iter().for_each(|n: &usize| theirs.ok(&["SET", &keys[*n], "other"]));
            let said = migrate(&mut ours, target.port(), &[], &keys);
            assert!(said.contains("BUSYKEY"), "{said}");
            assert_eq!(ours.cmd(&["DBSIZE"]).int(), there.len() as i64);
            there.iter().for_each(|n| assert_eq!(ours.cmd(&["GET", &keys[*n]]).text(), "v"));
            assert_eq!(theirs.cmd(&["DBSIZE"]).int(), count);
        }
    });
}

/// More MIGRATEs than the slow lane has threads wait for a silent server. Long commands do not wait
/// for them.
#[test]
fn long_commands_run_while_migrates_wait_for_silent_servers() {
    let server = Server::weft(&["--io-threads", "1"]);
    let mut long = client(&server);
    for n in 0..10 {
        let push: Vec<String> = (0..1000).map(|m| (n * 1000 + m).to_string()).collect();
        long.cmd(&[&["RPUSH".to_string(), "list".into()][..], &push].concat());
    }
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = silent.local_addr().expect("a port").port().to_string();
    let mut movers: Vec<Client> = (0..8)
        .map(|n| {
            let mut mover = client(&server);
            let key = format!("k{n}");
            mover.ok(&["SET", &key, "v"]);
            if n % 2 == 0 {
                send(&mut mover, &["MULTI"]);
                reply(&mut mover);
            }
            send(&mut mover, &["MIGRATE", "127.0.0.1", &port, &key, "0", "60000"]);
            if n % 2 == 0 {
                reply(&mut mover);
                send(&mut mover, &["EXEC"]);
            }
            mover
        })
        .collect();
    let mut held: Vec<_> = (0..4).map(|_| silent.accept().expect("a key is moved")).collect();
    assert_eq!(long.cmd(&["SORT", "list"]).items().len(), 10_000);
    // All MIGRATEs end, also those that had to wait for a thread.
    held.clear();
    let rest = std::thread::spawn(move || (0..4).for_each(|_| drop(silent.accept())));
    for mover in &mut movers {
        reply(mover);
    }
    rest.join().expect("no panic");
    assert_eq!(long.cmd(&["SORT", "list"]).items().len(), 10_000);
}

/// More clients than the slow lane has threads want to stop the world, and wait for a running
/// MIGRATE. Long commands still run.
#[test]
fn long_commands_run_while_stopping_the_world_waits_for_a_silent_server() {
    let server = Server::weft(&["--io-threads", "1"]);
    let mut long = client(&server);
    for n in 0..10 {
        let push: Vec<String> = (0..1000).map(|m| (n * 1000 + m).to_string()).collect();
        long.cmd(&[&["RPUSH".to_string(), "list".into()][..], &push].concat());
    }
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = silent.local_addr().expect("a port").port().to_string();
    let mut mover = client(&server);
    mover.ok(&["SET", "moved", "v"]);
    send(&mut mover, &["MIGRATE", "127.0.0.1", &port, "moved", "0", "60000"]);
    let held = silent.accept().expect("the key is moved");
    let mut stoppers: Vec<Client> = (0..8).map(|_| client(&server)).collect();
    for stopper in &mut stoppers {
        stopper.ok(&["MULTI"]);
        send(stopper, &["DBSIZE"]);
        reply(stopper);
        send(stopper, &["EXEC"]);
    }
    for _ in 0..20 {
        assert_eq!(long.cmd(&["SORT", "list"]).items().len(), 10_000);
    }
    assert!(
        reply_within(&mut stoppers[7], Duration::from_millis(50)).is_none(),
        "the transaction did not wait"
    );
    drop(held);
    reply(&mut mover);
    for stopper in &mut stoppers {
        assert_eq!(reply(stopper).items()[0].int(), 2);
    }
}

/// Stopping the world waits for running MIGRATEs, but not for those that have not begun.
#[test]
fn stopping_the_world_does_not_wait_for_queued_commands() {
    let server = Server::weft(&["--io-threads", "1"]);
    let mut stopper = client(&server);
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = silent.local_addr().expect("a port").port().to_string();
    let mut movers: Vec<Client> = (0..12).map(|_| client(&server)).collect();
    for (n, mover) in movers.iter_mut().enumerate() {
        let key = format!("k{n}");
        mover.ok(&["SET", &key, "v"]);
        send(mover, &["MIGRATE", "127.0.0.1", &port, &key, "0", "60000"]);
    }
    let running: Vec<_> = (0..4).map(|_| silent.accept().expect("a key is moved")).collect();
    send(&mut stopper, &["SWAPDB", "3", "4"]);
    assert!(
        reply_within(&mut stopper, Duration::from_millis(200)).is_none(),
        "SWAPDB did not wait"
    );
    drop(running);
    // The MIGRATEs that begin now hang like the first ones.
    assert_eq!(reply(&mut stopper).text(), "OK");
    let rest = std::thread::spawn(move || (0..8).for_each(|_| drop(silent.accept())));
    for mover in &mut movers {
        reply(mover);
    }
    rest.join().expect("no panic");
}
