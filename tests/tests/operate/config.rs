//! Listening addresses, the log and shutdown, changed at run time. Each scene runs on the reference
//! first.

use rustix::process::Signal;
use std::net::{TcpListener, TcpStream};
use weft_testkit::{Client, Server};
use weft_tests::scene::{client, info, on_both, reply, reply_text, send, until, until_blocked};

const DEBUG: [&str; 2] = ["--enable-debug-command", "yes"];

/// Whether a server listens at this address.
fn answers(host: &str, port: u16) -> bool {
    TcpStream::connect((host, port)).is_ok()
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("the listener is bound").port()
}

fn set(admin: &mut Client, pairs: &[&str]) -> String {
    reply_text(admin, &[&["CONFIG", "SET"], pairs].concat())
}

fn value(admin: &mut Client, name: &str) -> String {
    admin.cmd(&["CONFIG", "GET", name]).items()[1].text()
}

#[test]
fn config_set_changes_the_port_or_keeps_it() {
    on_both(&["--bind", "127.0.0.1"], &[], |server| {
        let mut admin = client(server);
        let (first, next) = (server.port(), free_port());
        let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let in_use = taken.local_addr().expect("the listener is bound").port();
        assert_eq!(
            set(&mut admin, &["port", &in_use.to_string()]),
            "ERR CONFIG SET failed (possibly related to argument 'port') - Unable to listen on this \
             port. Check server logs."
        );
        assert_eq!(value(&mut admin, "port"), first.to_string());
        assert!(answers("127.0.0.1", first));
        let log = server.log();
        for line in [
            &format!(
                "Could not create server TCP listening socket 127.0.0.1:{in_use}: bind: Address \
                 already in use"
            )[..],
            "Failed applying new configuration. Possibly related to new port setting. Restoring \
             previous settings.",
        ] {
            assert_eq!(log.matches(line).count(), 1, "{}: {line}", server.name());
        }
        assert_eq!(set(&mut admin, &["port", &next.to_string()]), "OK");
        assert!(answers("127.0.0.1", next) && !answers("127.0.0.1", first));
        assert_eq!(info(&mut admin, "tcp_port"), u64::from(next));
        assert_eq!(Client::tcp(next).cmd(&["PING"]).text(), "PONG");
        // Both at once: the error names the first one that fails, and nothing changes.
        assert_eq!(
            set(&mut admin, &["port", &first.to_string(), "bind", "1.2.3.4"]),
            "ERR CONFIG SET failed (possibly related to argument 'port') - Unable to listen on this \
             port. Check server logs."
        );
        assert!(answers("127.0.0.1", next) && !answers("127.0.0.1", first));
        assert_eq!(set(&mut admin, &["port", &first.to_string(), "bind", "127.0.0.2"]), "OK");
        assert!(answers("127.0.0.2", first) && !answers("127.0.0.1", first));
        assert_eq!(set(&mut admin, &["port", "0"]), "OK");
        assert!(!answers("127.0.0.2", first));
        assert_eq!(admin.cmd(&["PING"]).text(), "PONG");
        assert_eq!(set(&mut admin, &["port", &first.to_string(), "bind", "127.0.0.1"]), "OK");
        assert!(answers("127.0.0.1", first));
    });
}

#[test]
fn config_set_changes_the_addresses_or_keeps_them() {
    on_both(&["--bind", "127.0.0.1"], &[], |server| {
        let mut admin = client(server);
        let port = server.port();
        let refused = "ERR CONFIG SET failed (possibly related to argument 'bind') - Failed to \
                       bind to specified addresses.";
        for wrong in ["1.2.3.4", "127.0.0.1 1.2.3.4", "no.such.host.invalid"] {
            assert_eq!(set(&mut admin, &["bind", wrong]), refused, "{wrong}");
            assert_eq!(value(&mut admin, "bind"), "127.0.0.1");
            assert!(answers("127.0.0.1", port) && !answers("127.0.0.2", port));
        }
        // From one address to all addresses, which conflict with each other, and back.
        for (addresses, others) in
            [("127.0.0.1 127.0.0.2", true), ("*", true), ("-1.2.3.4 127.0.0.1", false), ("*", true)]
        {
            assert_eq!(set(&mut admin, &["bind", addresses]), "OK", "{addresses}");
            assert_eq!(value(&mut admin, "bind"), addresses);
            assert!(answers("127.0.0.1", port), "{addresses}");
            assert_eq!(answers("127.0.0.2", port), others, "{addresses}");
        }
        // The listeners that conflict with an unavailable address stay open.
        assert_eq!(set(&mut admin, &["bind", "127.0.0.1 1.2.3.4"]), refused);
        assert!(answers("127.0.0.1", port) && answers("127.0.0.2", port));
        assert_eq!(client(server).cmd(&["PING"]).text(), "PONG");
        assert_eq!(set(&mut admin, &["bind", ""]), "OK");
        assert!(!answers("127.0.0.1", port));
        assert_eq!(set(&mut admin, &["bind", "127.0.0.1"]), "OK");
        assert_eq!(client(server).cmd(&["PING"]).text(), "PONG");
    });
}

/// Clients connect all the time, and each of them is served.
#[test]
fn clients_that_connect_during_an_address_change_are_served() {
    let server = Server::weft(&["--bind", "127.0.0.1", "--io-threads", "4"]);
    let mut admin = client(&server);
    std::thread::scope(|scope| {
        let others: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| (0..100).all(|_| client(&server).cmd(&["PING"]).text() == "PONG"))
            })
            .collect();
        for n in 0..100 {
            let addresses = ["127.0.0.1 127.0.0.3", "127.0.0.1", "127.0.0.1 127.0.0.2"][n % 3];
            assert_eq!(set(&mut admin, &["bind", addresses]), "OK");
        }
        assert!(others.into_iter().all(|other| other.join().expect("every client is served")));
    });
}

#[test]
fn log_lines_can_be_json() {
    on_both(&DEBUG, &[], |server| {
        let mut admin = client(server);
        admin.ok(&["CONFIG", "SET", "log-format", "json", "log-timestamp-format", "milliseconds"]);
        admin.ok(&["DEBUG", "LOG", "hi \"x\" \\ a\nb\tc \u{1} \u{e9}"]);
        let log = server.log();
        let line = log.lines().find(|line| line.contains("DEBUG LOG")).expect("the line is logged");
        let start = format!("{{\"pid\":{},\"role\":\"primary\",\"timestamp\":\"", server.pid());
        let end = "\",\"level\":\"warning\",\"message\":\"DEBUG LOG: hi \\\"x\\\" \\\\ a\\nb\\tc \
                   \\u0001 \u{e9}\"}";
        let time = line.strip_prefix(&start).and_then(|line| line.strip_suffix(end));
        let time = time.unwrap_or_else(|| panic!("{}: {line}", server.name()));
        assert!(time.parse::<u64>().is_ok(), "{time}");
    });
}

#[test]
fn server_logs_start_and_exit() {
    on_both(&[], &[], |server| {
        let log = server.log();
        let at = |text: &str| log.find(text).unwrap_or_else(|| panic!("{}: {text}", server.name()));
        assert!(at("Server initialized") < at("Ready to accept connections tcp"));
        server.stop_term();
        assert_eq!(server.log().matches("is now ready to exit, bye bye...").count(), 1);
    });
}

#[test]
fn pid_file_is_removed_with_one_log_line() {
    on_both(&["--pidfile", "pid"], &[], |server| {
        let path = server.dir().join("pid");
        assert_eq!(std::fs::read_to_string(&path).unwrap().trim(), server.pid().to_string());
        server.stop_term();
        assert!(!path.exists());
        assert_eq!(server.log().matches("Removing the pid file.").count(), 1);
    });
}

#[test]
fn oom_score_is_set_refused_and_restored() {
    on_both(&[], &[], |server| {
        let mut admin = client(server);
        let path = format!("/proc/{}/oom_score_adj", server.pid());
        let score = || -> i64 { std::fs::read_to_string(&path).unwrap().trim().parse().unwrap() };
        let first = score();
        let name = "oom-score-adj";
        let values = "oom-score-adj-values";
        assert_eq!(set(&mut admin, &[name, "yes", values, "10 20 30"]), "OK");
        assert_eq!(score(), first + 10);
        // Without the privilege, a process can't lower its score below the previous one.
        let answer = set(&mut admin, &[name, "absolute", values, "-1000 20 30"]);
        if answer != "OK" {
            assert_eq!(
                answer,
                "ERR CONFIG SET failed (possibly related to argument 'oom-score-adj') - Failed to \
                 set current oom_score_adj. Check server logs."
            );
            assert_eq!((score(), value(&mut admin, values)), (first + 10, "10 20 30".into()));
        }
        assert_eq!(set(&mut admin, &[name, "no"]), "OK");
        assert_eq!(score(), first, "{}", server.name());
    });
}

/// Without a tick the requested shutdown does not begin.
#[test]
fn shutdown_by_signal_can_be_aborted() {
    on_both(&DEBUG, &[], |server| {
        let mut admin = client(server);
        let none = "ERR No shutdown in progress.";
        for signal in [Signal::TERM, Signal::INT] {
            assert_eq!(reply_text(&mut admin, &["SHUTDOWN", "ABORT"]), none);
            admin.ok(&["DEBUG", "PAUSE-CRON", "1"]);
            server.signal(signal);
            until("the shutdown is aborted", || {
                reply_text(&mut admin, &["SHUTDOWN", "ABORT"]) == "OK"
            });
            admin.ok(&["DEBUG", "PAUSE-CRON", "0"]);
            assert_eq!(reply_text(&mut admin, &["SHUTDOWN", "ABORT"]), none);
        }
        assert_eq!(admin.cmd(&["PING"]).text(), "PONG");
        assert_eq!(server.log().matches("Shutdown manually aborted.").count(), 2);
        admin.ok(&["DEBUG", "PAUSE-CRON", "1"]);
        server.signal(Signal::TERM);
        admin.ok(&["DEBUG", "PAUSE-CRON", "0"]);
        assert!(server.wait().success());
    });
}

#[test]
fn blocking_commands_are_counted_when_they_complete() {
    on_both(&[], &[], |server| {
        let (mut admin, mut waiter) = (client(server), client(server));
        let mut blocked = |waiter: &mut Client, args: &[&str], end: &mut dyn FnMut(&mut Client)| {
            send(waiter, args);
            until_blocked(&mut admin, 1);
            end(&mut admin);
            reply(waiter);
        };
        let id = waiter.cmd(&["CLIENT", "ID"]).int().to_string();
        blocked(&mut waiter, &["BLPOP", "l", "0"], &mut |admin| {
            admin.cmd(&["RPUSH", "l", "x"]);
        });
        blocked(&mut waiter, &["BLPOP", "l", "0.2"], &mut |_| {});
        blocked(&mut waiter, &["BLPOP", "l", "0"], &mut |admin| {
            admin.cmd(&["CLIENT", "UNBLOCK", &id, "ERROR"]);
        });
        blocked(&mut waiter, &["BLMOVE", "l", "wrong", "LEFT", "LEFT", "0"], &mut |admin| {
            admin.ok(&["SET", "wrong", "x"]);
            admin.cmd(&["RPUSH", "l", "x"]);
        });
        let counts = admin.cmd(&["INFO", "commandstats"]).text();
        let counted = |name: &str, field: &str| -> f64 {
            let start = format!("cmdstat_{name}:");
            let line = counts
                .lines()
                .find(|line| line.starts_with(&start))
                .expect("the command is listed");
            let field = format!("{field}=");
            let found = line[start.len()..].split(',').find_map(|w| w.strip_prefix(&field));
            found.and_then(|n| n.trim().parse().ok()).expect("a number")
        };
        for (name, calls, rejected, failed) in [("blpop", 3.0, 1.0, 0.0), ("blmove", 1.0, 0.0, 1.0)]
        {
            let seen = ["calls", "rejected_calls", "failed_calls"].map(|f| counted(name, f));
            assert_eq!(seen, [calls, rejected, failed], "{}: {name}", server.name());
            // CPU time, without the wait.
            assert!(counted(name, "usec_per_call") < 100_000.0);
        }
        let histogram = admin.cmd(&["LATENCY", "HISTOGRAM", "blpop", "blmove"]);
        let entry = |name: &str| {
            let all = histogram.items();
            let at = all
                .iter()
                .position(|v| v.bytes() == Some(name.as_bytes()))
                .expect("the command is listed");
            all[at + 1].items()[1].int()
        };
        assert_eq!((entry("blpop"), entry("blmove")), (3, 1), "{}", server.name());
        let latency = admin.cmd(&["INFO", "latencystats"]).text();
        assert!(latency.contains("latency_percentiles_usec_blpop:p50="));
    });
}

/// A limit just above the memory of an empty server leaves that room for data, also when threads
/// and commands are used for the first time.
#[test]
fn small_maxmemory_leaves_its_room_for_data() {
    let server = Server::weft(&[&DEBUG[..], &["--io-threads", "4"]].concat());
    let mut admin = client(&server);
    admin.cmd(&["INFO"]);
    let limit = info(&mut admin, "used_memory") + (100 << 10);
    admin.ok(&["CONFIG", "SET", "maxmemory", &limit.to_string()]);
    admin.ok(&["CONFIG", "SET", "io-threads-always-active", "yes"]);
    for n in 0..100 {
        admin.ok(&["DEBUG", "MOVE-CLIENTS"]);
        for command in [
            &["LPUSH", "l"][..],
            &["SADD", "s"],
            &["HSET", "h", "f"],
            &["ZADD", "z", "1"],
            &["INCR"],
        ] {
            let name = format!("{n}");
            let answer = admin.cmd(&[command, &[&name[..]]].concat());
            assert!(answer.error().is_none(), "{n}: {command:?}: {answer}");
        }
        let key = format!("key:{n}");
        assert_eq!(reply_text(&mut admin, &["SET", &key, "v"]), "OK", "{n}");
    }
}

/// Test suites for other servers call DEBUG switches that have no effect here.
#[test]
fn debug_switches_reply_as_the_reference_does() {
    let both = |args: &[&str]| -> Vec<(String, Vec<String>)> {
        let answers = std::cell::RefCell::new(Vec::new());
        on_both(&DEBUG, &[], |server| {
            let mut admin = client(server);
            admin.cmd(&["HSET", "h", "f", "v"]);
            admin.cmd(&["SADD", "ints", "1"]);
            let words = |line: &&str| line.split(' ').map(str::to_string).collect::<Vec<_>>();
            let all = args.iter().map(|line| reply_text(&mut admin, &words(line))).collect();
            answers.borrow_mut().push((server.name().to_string(), all));
        });
        answers.into_inner()
    };
    let lines = [
        "DEBUG AOF-FLUSH-SLEEP 0",
        "DEBUG CLIENT-ENFORCE-REPLY-LIST 0",
        "DEBUG CLIENT-EVICTION",
        "DEBUG CLOSE-CLUSTER-LINK-ON-PACKET-DROP 0",
        "DEBUG CLUSTERLINK KILL all abc",
        "DEBUG DICT-RESIZING 1",
        "DEBUG DISABLE-CLUSTER-RANDOM-PING 0",
        "DEBUG DISABLE-CLUSTER-RECONNECTION 0",
        "DEBUG DROP-CLUSTER-PACKET-FILTER -1",
        "DEBUG DROP-CLUSTER-PACKET-FILTER x",
        "DEBUG FORCE-FREE-PRIMARY-ASYNC 0",
        "DEBUG FORCE-TLS-WRITE-ERROR 0",
        "DEBUG HASHTABLE-CAN-ABORT-SHRINK 1",
        "DEBUG LISTPACK ints",
        "DEBUG LISTPACK nokey",
        "DEBUG PAUSE-AFTER-FORK 0",
        "DEBUG QUICKLIST h",
        "DEBUG QUICKLIST nokey",
        "DEBUG QUICKLIST-PACKED-THRESHOLD 100b",
        "DEBUG QUICKLIST-PACKED-THRESHOLD 0",
        "DEBUG QUICKLIST-PACKED-THRESHOLD 5gb",
        "DEBUG REPLICATE x",
        "DEBUG REPLICATE",
        "DEBUG REPLYBUFFER PEAK-RESET-TIME NEVER",
        "DEBUG REPLYBUFFER PEAK-RESET-TIME x",
        "DEBUG REPLYBUFFER RESIZING 1",
        "DEBUG REPLYBUFFER X 1",
        "DEBUG SET-DISABLE-DENY-SCRIPTS 0",
        "DEBUG SET-SKIP-CHECKSUM-VALIDATION 0",
        "DEBUG SLOTMIGRATION PREVENT-PAUSE 0",
        "DEBUG SLOTMIGRATION X 0",
    ];
    let seen = both(&lines);
    let (_, weft) = seen.last().expect("at least one server");
    for (name, answers) in &seen {
        for (line, (answer, own)) in lines.iter().zip(answers.iter().zip(weft)) {
            assert_eq!(answer, own, "{name}: {line}");
        }
    }
}
