//! Messages arrive once, complete and in order, whatever the threads do meanwhile.
//!
//! `PUBSUB_MESSAGES`: messages of each of four publishers to twelve subscribers, default 3,000.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;
use weft_testkit::{Client, Server, Value};
use weft_tests::env_or;
use weft_tests::scene::{client, on_both, reply, send, send_all, until};

const FOUR: [&str; 6] =
    ["--io-threads", "4", "--io-threads-always-active", "yes", "--enable-debug-command", "yes"];

/// Ends the disturbance on drop, also when a test fails early.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Moves all clients to other threads, repeatedly.
fn move_clients(server: &Server, done: &AtomicBool) {
    let mut mover = client(server);
    while !done.load(Ordering::Relaxed) {
        mover.ok(&["DEBUG", "MOVE-CLIENTS"]);
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The next push or reply.
#[track_caller]
fn frame(client: &mut Client) -> Vec<Value> {
    match client.read_frame() {
        Ok(frame) => match frame.value {
            Value::Array(items) | Value::Push(items) => items,
            other => vec![other],
        },
        Err(e) => panic!("no frame: {e}"),
    }
}

fn texts(items: &[Value]) -> Vec<String> {
    let text = |item: &Value| match item {
        Value::Integer(n) => n.to_string(),
        other => other.text(),
    };
    items.iter().map(text).collect()
}

/// Reads the confirmations of `n` subscriptions.
#[track_caller]
fn confirmed(client: &mut Client, n: usize) {
    for _ in 0..n {
        assert!(texts(&frame(client)[..1])[0].ends_with("subscribe"));
    }
}

const CHANNELS: [&str; 3] = ["one", "two", "three"];

/// Reads `total` messages, by channel.
fn listen(mut client: Client, total: usize) -> HashMap<String, Vec<String>> {
    let mut got: HashMap<String, Vec<String>> = HashMap::new();
    for _ in 0..total {
        let message = texts(&frame(&mut client));
        let [.., channel, text] = message.as_slice() else { panic!("no message: {message:?}") };
        got.entry(channel.clone()).or_default().push(text.clone());
    }
    got
}

#[test]
fn all_subscribers_see_the_messages_of_a_channel_in_the_same_order() {
    const PUBLISHERS: usize = 4;
    let messages: usize = env_or("PUBSUB_MESSAGES", 3000);
    let server = Server::weft(&FOUR);
    let done = AtomicBool::new(false);
    let seen: Vec<HashMap<String, Vec<String>>> = std::thread::scope(|scope| {
        let _end = SetOnDrop(&done);
        let listeners: Vec<_> = (0..12)
            .map(|n| {
                let mut listener = client(&server);
                if n % 2 == 0 {
                    listener.hello(3);
                }
                if n % 3 == 0 {
                    send(&mut listener, &["PSUBSCRIBE", "*"]);
                    confirmed(&mut listener, 1);
                } else {
                    send(&mut listener, &[&["SUBSCRIBE"][..], &CHANNELS].concat());
                    confirmed(&mut listener, CHANNELS.len());
                }
                scope.spawn(|| listen(listener, PUBLISHERS * messages))
            })
            .collect();
        scope.spawn(|| move_clients(&server, &done));
        let publishers: Vec<_> = (0..PUBLISHERS)
            .map(|publisher| {
                let mut client = client(&server);
                scope.spawn(move || {
                    let messages: Vec<String> =
                        (0..messages).map(|n| format!("{publisher} {n}")).collect();
                    for some in messages.chunks(50) {
                        let requests: Vec<Vec<&str>> = some
                            .iter()
                            .enumerate()
                            .map(|(n, text)| vec!["PUBLISH", CHANNELS[n % CHANNELS.len()], text])
                            .collect();
                        for reply in client.pipeline(&requests).expect("the server answers") {
                            assert_eq!(reply.value, Value::Integer(12));
                        }
                    }
                })
            })
            .collect();
        publishers.into_iter().for_each(|publisher| publisher.join().expect("no panic"));
        listeners.into_iter().map(|listener| listener.join().expect("no panic")).collect()
    });
    for channels in &seen {
        assert_eq!(channels, &seen[0]);
    }
    for (channel, messages) in &seen[0] {
        let mut last = [-1; PUBLISHERS];
        for message in messages {
            let (publisher, n) = message.split_once(' ').expect("publisher and number");
            let (at, n): (usize, i64) = (publisher.parse().unwrap(), n.parse().unwrap());
            assert!(last[at] < n, "{channel}: {n} of {at} came after {}", last[at]);
            last[at] = n;
        }
    }
}

/// A client subscribes and reads at once. A value that it reads is never older than the last
/// message before the reply, and never newer than the next message.
#[test]
fn messages_and_replies_are_in_the_order_of_execution() {
    let server = Server::weft(&FOUR);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _end = SetOnDrop(&done);
        for key in ["k1", "k2", "k3"] {
            let (server, done) = (&server, &done);
            scope.spawn(move || {
                let mut writer = client(server);
                let mut n = 0;
                while !done.load(Ordering::Relaxed) {
                    n += 1;
                    let n = n.to_string();
                    let requests = [vec!["SET", key, &n], vec!["PUBLISH", key, &n]];
                    writer.pipeline(&requests).expect("the server answers");
                }
            });
        }
        scope.spawn(|| move_clients(&server, &done));
        let readers: Vec<_> = ["k1", "k2", "k3", "k1", "k2", "k3"]
            .into_iter()
            .enumerate()
            .map(|(n, key)| {
                let mut reader = client(&server);
                scope.spawn(move || {
                    reader.hello(3);
                    send(&mut reader, &["SUBSCRIBE", key]);
                    confirmed(&mut reader, 1);
                    watch(&mut reader, key, n % 2 == 0);
                })
            })
            .collect();
        readers.into_iter().for_each(|reader| reader.join().expect("no panic"));
    });
}

fn watch(reader: &mut Client, key: &str, in_transaction: bool) {
    let mut last: Option<i64> = None;
    let mut replies = 0;
    while replies < 1500 {
        let get = ["GET", key];
        let one = [&["MULTI"][..], &get, &["EXEC"]];
        let many = [&get[..]; 8];
        send_all(reader, if in_transaction { &one } else { &many });
        let mut open = if in_transaction { 3 } else { 8 };
        while open > 0 {
            let got = reader.read_frame().expect("a frame").value;
            let read = match &got {
                Value::Push(items) => {
                    let n = items[2].text().parse().expect("a number");
                    assert!(last.is_none_or(|last| n == last + 1), "{n} after {last:?}");
                    last = Some(n);
                    continue;
                }
                // The replies to MULTI and to the queued GET.
                Value::Simple(_) => {
                    open -= 1;
                    continue;
                }
                Value::Array(items) => items[0].clone(),
                other => other.clone(),
            };
            open -= 1;
            if let Some(last) = last {
                let n: i64 = read.text().parse().expect("the value written before the message");
                assert!(n == last || n == last + 1, "read {n} after the message {last}");
                replies += 1;
            }
        }
    }
}

/// The clients counted by PUBLISH get the message, and no others do.
#[test]
fn exactly_the_counted_receivers_get_a_message() {
    let server = Server::weft(&FOUR);
    let done = AtomicBool::new(false);
    let counted = AtomicI64::new(0);
    let received: i64 = std::thread::scope(|scope| {
        let _end = SetOnDrop(&done);
        for _ in 0..3 {
            scope.spawn(|| {
                let mut publisher = client(&server);
                while !done.load(Ordering::Relaxed) {
                    let replies = publisher.pipeline(&vec![vec!["PUBLISH", "c", "m"]; 20]);
                    let replies = replies.expect("the server answers");
                    let sum: i64 = replies.iter().map(|reply| reply.value.int()).sum();
                    counted.fetch_add(sum, Ordering::Relaxed);
                }
            });
        }
        let mover = scope.spawn(|| move_clients(&server, &done));
        let listeners: Vec<_> = (0..6)
            .map(|n| {
                let mut listener = client(&server);
                scope.spawn(move || {
                    if n % 2 == 0 {
                        listener.hello(3);
                    }
                    subscribe_repeatedly(&mut listener, n % 3 == 0)
                })
            })
            .collect();
        let received = listeners.into_iter().map(|l| l.join().expect("no panic")).sum();
        done.store(true, Ordering::Relaxed);
        mover.join().expect("no panic");
        received
    });
    assert_eq!(received, counted.load(Ordering::Relaxed));
    assert!(received > 1000, "hardly anything was published: {received}");
    let mut client = client(&server);
    assert_eq!(texts(client.cmd(&["PUBSUB", "CHANNELS"]).items()), [""; 0]);
    assert_eq!(client.cmd(&["PUBSUB", "NUMPAT"]), Value::Integer(0));
}

/// Subscribes and unsubscribes repeatedly. Returns the number of messages received in between.
fn subscribe_repeatedly(listener: &mut Client, by_pattern: bool) -> i64 {
    let (on, off, name) = match by_pattern {
        true => ("PSUBSCRIBE", "PUNSUBSCRIBE", "c*"),
        false => ("SUBSCRIBE", "UNSUBSCRIBE", "c"),
    };
    let mut messages = 0;
    let mut until = |listener: &mut Client, end: &str| {
        loop {
            match texts(&frame(listener))[0].to_ascii_lowercase().as_str() {
                "message" | "pmessage" => messages += 1,
                word if word == end => break,
                _ => {}
            }
        }
    };
    for _ in 0..300 {
        send_all(listener, &[&[on, name], &["PING"]]);
        until(listener, "pong");
        send_all(listener, &[&["PING"], &[off, name], &["ECHO", "end"]]);
        until(listener, "end");
    }
    messages
}

/// An EXEC in the slow lane subscribes. Messages published meanwhile arrive after its reply.
#[test]
fn long_transaction_is_answered_before_its_messages() {
    let args = ["--enable-debug-command", "yes"];
    on_both(&args, &FOUR[..4], |server| {
        let mut maker = client(server);
        let members: Vec<String> = (0..50_000).map(|n| n.to_string()).collect();
        for some in members.chunks(5000) {
            let add = ["SADD", "s"].into_iter().chain(some.iter().map(String::as_str));
            maker.cmd(&add.collect::<Vec<_>>());
        }
        let (mut listener, mut publisher) = (client(server), client(server));
        let mut commands: Vec<&[&str]> = vec![&["MULTI"], &["SUBSCRIBE", "c"]];
        commands.resize(12, &["SINTERCARD", "2", "s", "s"]);
        commands.extend([&["EXEC"][..], &["PING"]]);
        send_all(&mut listener, &commands);
        let listens = || publisher.cmd(&["PUBLISH", "c", "m"]).int() == 1;
        until("the transaction has subscribed", listens);
        assert_eq!(publisher.cmd(&["PUBLISH", "c", "n"]), Value::Integer(1));
        assert!(reply(&mut listener).is_ok());
        for _ in 0..11 {
            assert_eq!(reply(&mut listener).text(), "QUEUED");
        }
        let executed = reply(&mut listener);
        assert_eq!(texts(executed.items()[0].items()), ["subscribe", "c", "1"]);
        assert_eq!(executed.items()[1], Value::Integer(50_000));
        let rest: Vec<Vec<String>> = (0..3).map(|_| texts(&frame(&mut listener))).collect();
        let messages: Vec<&Vec<String>> = rest.iter().filter(|m| m[0] == "message").collect();
        assert_eq!(messages, [&["message", "c", "m"], &["message", "c", "n"]]);
    });
}

/// A blocked subscriber gets messages meanwhile. A message published after the element arrives
/// after it.
#[test]
fn blocked_subscriber_gets_messages_in_order() {
    on_both(&[], &FOUR, |server| {
        let (mut listener, mut other) = (client(server), client(server));
        listener.hello(3);
        send_all(&mut listener, &[&["SUBSCRIBE", "c"], &["BLPOP", "l", "0"]]);
        confirmed(&mut listener, 1);
        until("the client is subscribed", || other.cmd(&["PUBLISH", "c", "1"]).int() == 1);
        assert_eq!(texts(&frame(&mut listener)), ["message", "c", "1"]);
        send_all(&mut other, &[&["RPUSH", "l", "x"], &["PUBLISH", "c", "2"]]);
        assert_eq!(texts(&frame(&mut listener)), ["l", "x"]);
        assert_eq!(texts(&frame(&mut listener)), ["message", "c", "2"]);
    });
}

/// A message that a client publishes to itself arrives after the reply and before the next one.
#[test]
fn own_message_arrives_after_the_reply_to_publish() {
    on_both(&[], &FOUR, |server| {
        let mut own = client(server);
        own.hello(3);
        send(&mut own, &["SUBSCRIBE", "c"]);
        confirmed(&mut own, 1);
        for n in 0..50 {
            let n = n.to_string();
            send_all(
                &mut own,
                &[
                    &["PUBLISH", "c", &n],
                    &["NOSUCH"],
                    &["MULTI"],
                    &["PUBLISH", "c", "in"],
                    &["PING"],
                    &["EXEC"],
                    &["PING"],
                ],
            );
            let got: Vec<String> = (0..9)
                .map(|_| {
                    let frame = own.read_frame().expect("a frame").value;
                    frame.error().map_or_else(|| frame.to_string(), |_| "error".into())
                })
                .collect();
            let is_push = |at: usize| got[at].contains("message");
            let pushes: Vec<usize> = (0..9).filter(|at| is_push(*at)).collect();
            assert_eq!(pushes, [1, 7], "{got:?}");
        }
    });
}
