//! Scripts and the state of the server: its cache, its clock, pauses.

use weft_tests::scene::{client, on_both, reply, send};

const READS: &str = "#!lua flags=no-writes\nreturn redis.call('get', 'k')";
const LIBRARY: &str = "#!lua name=l
    server.register_function{function_name='reads', callback=function() return redis.call('get', 'k') end,
        flags={'no-writes'}}";

/// Regression: only the first use on a thread counted.
#[test]
fn script_in_use_is_not_evicted() {
    on_both(&[], &[], |server| {
        let mut client = client(server);
        let hot = "return 'hot'";
        let sha = client.cmd(&["SCRIPT", "LOAD", hot]).text();
        client.ok(&["SCRIPT", "FLUSH"]);
        client.cmd(&["EVAL", hot, "0"]);
        for n in 0..600 {
            client.cmd(&["EVAL", &format!("return {n}"), "0"]);
            let reply = client.cmd(&["EVALSHA", &sha, "0"]);
            assert_eq!(reply.text(), "hot", "{}: {n}", server.name());
        }
    });
}

/// Regression: a pause of writes delayed scripts that declare that they only read.
#[test]
fn pause_of_writes_delays_scripts_that_may_write() {
    on_both(&["--io-threads", "1"], &[], |server| {
        let (mut control, mut reader, mut writer) =
            (client(server), client(server), client(server));
        control.ok(&["SET", "k", "v"]);
        control.cmd(&["FUNCTION", "LOAD", LIBRARY]);
        let sha = control.cmd(&["SCRIPT", "LOAD", READS]).text();
        control.ok(&["CLIENT", "PAUSE", "1000000", "WRITE"]);
        send(&mut writer, &["EVAL", "return redis.call('getset', 'k', 'new')", "0"]);
        let scripts: [&[&str]; 3] =
            [&["EVAL", READS, "0"], &["EVALSHA", &sha, "0"], &["FCALL", "reads", "0"]];
        for words in scripts {
            assert_eq!(reader.cmd(words).text(), "v", "{}: {words:?}", server.name());
        }
        reader.ok(&["MULTI"]);
        for words in scripts {
            assert_eq!(reader.cmd(words).text(), "QUEUED", "{}: {words:?}", server.name());
        }
        assert_eq!(reader.cmd(&["EXEC"]).items().len(), 3);
        assert_eq!(reader.cmd(&["GET", "k"]).text(), "v", "{}", server.name());
        control.ok(&["CLIENT", "UNPAUSE"]);
        assert_eq!(reply(&mut writer).text(), "v");
    });
}

/// Regression: TIME changed between the commands of a transaction.
#[test]
fn time_stands_still_in_a_transaction() {
    on_both(&[], &[], |server| {
        let mut client = client(server);
        client.ok(&["MULTI"]);
        client.cmd(&["TIME"]);
        for _ in 0..2 {
            client.cmd(&["EVAL", "for n = 1, 1e5 do end return redis.call('time')", "0"]);
        }
        client.cmd(&["TIME"]);
        let replies = client.cmd(&["EXEC"]);
        let times: Vec<String> = replies.items().iter().map(|time| format!("{time}")).collect();
        assert!(times.iter().all(|time| *time == times[0]), "{}: {times:?}", server.name());
        assert_ne!(format!("{}", client.cmd(&["TIME"])), times[0], "{}", server.name());
    });
}
