//! Limits on client memory: `client-output-buffer-limit`, `maxmemory-clients`, the related fields
//! of CLIENT LIST, and log lines for closed clients. Each scene runs on the reference first.

use std::io::Write;
use std::net::TcpStream;
use weft_testkit::client::encode;
use weft_testkit::{Client, Server};
use weft_tests::scene::{client, info, on_both, send, until};

const MB: usize = 1 << 20;

/// Connects with a name and sends `bytes` without reading replies. The server may close the
/// connection meanwhile.
fn sender(server: &Server, name: &str, bytes: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).expect("a listener");
    stream.write_all(&encode(&["CLIENT", "SETNAME", name])).expect("the server reads");
    for part in bytes.chunks(64 << 10) {
        if stream.write_all(part).is_err() {
            break;
        }
    }
    stream
}

fn lines(admin: &mut Client) -> Vec<String> {
    admin.cmd(&["CLIENT", "LIST"]).text().lines().map(str::to_string).collect()
}

fn line(admin: &mut Client, name: &str) -> Option<String> {
    let wanted = format!(" name={name} ");
    lines(admin).into_iter().find(|line| line.contains(&wanted))
}

/// A numeric field of a CLIENT LIST line.
fn field(line: &str, name: &str) -> i64 {
    let start = format!("{name}=");
    let found = line.split(' ').find_map(|word| word.strip_prefix(&start));
    found.and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("no {name} in {line}"))
}

fn gets(times: usize) -> Vec<u8> {
    encode(&["GET", "big"]).repeat(times)
}

#[test]
fn client_over_the_hard_output_limit_is_closed() {
    on_both(&[], &[], |server| {
        let mut admin = client(server);
        admin.ok(&["SET", "big", &"x".repeat(MB)]);
        admin.ok(&["CONFIG", "SET", "client-output-buffer-limit", "normal 10mb 0 0"]);
        let _stream = sender(server, "hungry", &gets(100));
        until("the client is closed", || {
            info(&mut admin, "client_output_buffer_limit_disconnections") == 1
        });
        assert_eq!(line(&mut admin, "hungry"), None);
        let log = server.log();
        let closing = "closed for overcoming of output buffer limits.";
        let closing =
            log.lines().find(|line| line.ends_with(closing)).expect("the closing is logged");
        assert!(
            closing.contains(" # Client id=") && closing.contains(" name=*redacted* "),
            "{closing}"
        );
    });
}

#[test]
fn client_over_the_soft_output_limit_is_closed_after_its_seconds() {
    on_both(&[], &[], |server| {
        let mut admin = client(server);
        admin.ok(&["SET", "big", &"x".repeat(MB)]);
        admin.ok(&["CONFIG", "SET", "client-output-buffer-limit", "normal 100mb 5mb 1"]);
        let _stream = sender(server, "slow", &gets(20));
        until("the client has pending output", || {
            line(&mut admin, "slow").is_some_and(|line| field(&line, "omem") > 5 * MB as i64)
        });
        assert_eq!(info(&mut admin, "client_output_buffer_limit_disconnections"), 0);
        until("the client is closed", || {
            info(&mut admin, "client_output_buffer_limit_disconnections") == 1
        });
        assert_eq!(line(&mut admin, "slow"), None);
    });
}

#[test]
fn client_list_shows_the_memory_of_each_buffer() {
    on_both(&[], &[], |server| {
        let mut admin = client(server);
        admin.ok(&["SET", "big", &"x".repeat(MB)]);
        let own = &lines(&mut admin)[0];
        // The request itself, and its arguments.
        assert_eq!((field(own, "qbuf"), field(own, "argv-mem")), (26, 10), "{own}");
        admin.cmd(&["PING"]);
        let _output = sender(server, "output", &gets(20));
        let _value = sender(server, "value", b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1000000\r\nxyz");
        let words = [&b"*1000\r\n"[..], &b"$6\r\nabcdef\r\n".repeat(100)].concat();
        let _words = sender(server, "words", &words);
        let mut queue = client(server);
        queue.ok(&["CLIENT", "SETNAME", "queue"]);
        queue.ok(&["MULTI"]);
        queue.cmd(&["SET", "k", &"v".repeat(1000)]);
        let mut shown = |name: &str, is: &dyn Fn(&str) -> bool| {
            until(name, || line(&mut admin, name).is_some_and(|line| is(&line)));
        };
        shown("output", &|line| {
            let (all, of_it) = (field(line, "tot-mem"), field(line, "omem"));
            all > of_it && of_it > 5 * MB as i64 && field(line, "oll") + field(line, "obl") > 0
        });
        shown("value", &|line| {
            field(line, "tot-mem") >= 1_000_000 && field(line, "qbuf-free") > 900_000
        });
        shown("words", &|line| field(line, "argv-mem") >= 600);
        shown("queue", &|line| field(line, "multi-mem") >= 1000 && field(line, "tot-mem") >= 1000);
        // Executed input is no longer counted.
        until("argv-mem drops to zero", || {
            line(&mut admin, "queue").is_some_and(|line| field(&line, "argv-mem") == 0)
        });
    });
}

#[test]
fn clients_with_the_most_memory_are_evicted() {
    on_both(&[], &[], |server| {
        let mut admin = client(server);
        admin.ok(&["CLIENT", "NO-EVICT", "ON"]);
        admin.ok(&["CLIENT", "SETNAME", "admin"]);
        admin.ok(&["SET", "big", &"x".repeat(MB)]);
        admin.ok(&["CONFIG", "SET", "maxmemory-clients", "8mb"]);
        let mut bystander = client(server);
        bystander.ok(&["CLIENT", "SETNAME", "bystander"]);
        let value = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$20000000\r\n";
        let input = [&value[..], &vec![b'x'; 10 * MB]].concat();
        let words = [
            &b"*100000\r\n"[..],
            &b"$1000\r\n"
                .iter()
                .chain([b'y'; 1000].iter())
                .chain(b"\r\n")
                .copied()
                .collect::<Vec<u8>>()
                .repeat(12_000),
        ]
        .concat();
        let set = encode(&["SET", "k", &"v".repeat(MB)]);
        let queue = [encode(&["MULTI"]), set.repeat(12)].concat();
        let scenes: [(&str, &[u8]); 4] =
            [("output", &gets(20)), ("input", &input), ("words", &words), ("queue", &queue)];
        for (n, (name, bytes)) in (1..).zip(scenes) {
            let stream = sender(server, name, bytes);
            until(name, || info(&mut admin, "evicted_clients") == n);
            assert_eq!(line(&mut admin, name), None, "{}", server.name());
            drop(stream);
        }
        assert!(line(&mut admin, "bystander").is_some());
        assert_eq!(bystander.cmd(&["PING"]).text(), "PONG");
        assert_eq!(server.log().matches("Evicting client: id=").count(), 4);
        assert!(!server.log().contains("name=words"));
    });
}

/// Several clients on several threads: the server evicts only as many as necessary.
#[test]
fn only_as_many_clients_are_evicted_as_necessary() {
    on_both(&[], &["--io-threads", "4", "--io-threads-always-active", "yes"], |server| {
        let mut admin = client(server);
        admin.ok(&["CLIENT", "NO-EVICT", "ON"]);
        admin.ok(&["SET", "big", &"x".repeat(MB)]);
        let names: Vec<String> = (0..8).map(|n| format!("c{n}")).collect();
        let streams: Vec<TcpStream> =
            names.iter().map(|name| sender(server, name, &gets(10))).collect();
        until("all clients have pending output", || {
            names.iter().all(|name| {
                line(&mut admin, name).is_some_and(|l| field(&l, "omem") > 6 * MB as i64)
            })
        });
        // The limit has room for four and a half of the eight clients.
        let all: i64 = lines(&mut admin).iter().map(|line| field(line, "tot-mem")).sum();
        admin.ok(&["CONFIG", "SET", "maxmemory-clients", &(all / 16 * 9).to_string()]);
        until("some clients are evicted", || info(&mut admin, "evicted_clients") >= 3);
        std::thread::sleep(std::time::Duration::from_millis(300));
        // The clients' sizes differ a little, by what their sockets have taken.
        let gone = info(&mut admin, "evicted_clients");
        assert!(gone <= 4, "{}: {gone}", server.name());
        drop(streams);
    });
}

#[test]
fn client_with_no_evict_is_not_evicted() {
    on_both(&[], &[], |server| {
        let mut admin = client(server);
        admin.ok(&["CLIENT", "NO-EVICT", "ON"]);
        admin.ok(&["SET", "big", &"x".repeat(MB)]);
        admin.ok(&["CONFIG", "SET", "maxmemory-clients", "4mb"]);
        let exempt = [encode(&["CLIENT", "NO-EVICT", "ON"]), gets(20)].concat();
        let _stream = sender(server, "exempt", &exempt);
        until("the client has pending output", || {
            line(&mut admin, "exempt").is_some_and(|line| field(&line, "omem") > 5 * MB as i64)
        });
        std::thread::sleep(std::time::Duration::from_millis(300));
        assert!(line(&mut admin, "exempt").is_some(), "{}", server.name());
    });
}

#[test]
fn maxmemory_clients_may_be_a_percentage_of_maxmemory() {
    on_both(&[], &[], |server| {
        let mut admin = client(server);
        admin.ok(&["SET", "big", &"x".repeat(MB)]);
        admin.ok(&["CONFIG", "SET", "maxmemory-clients", "5%"]);
        // Without maxmemory the percentage sets no limit.
        let mut rich = client(server);
        rich.ok(&["CLIENT", "SETNAME", "rich"]);
        (0..20).for_each(|_| send(&mut rich, &["GET", "big"]));
        until("the client has pending output", || {
            line(&mut admin, "rich").is_some_and(|line| field(&line, "omem") > 6 * MB as i64)
        });
        assert_eq!(info(&mut admin, "evicted_clients"), 0);
        admin.ok(&["CONFIG", "SET", "maxmemory", "100mb"]);
        until("the client is evicted", || info(&mut admin, "evicted_clients") == 1);
        assert_eq!(line(&mut admin, "rich"), None);
    });
}
