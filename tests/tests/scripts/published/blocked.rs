//! CVE-2026-23479 and Redis 8.8.2 (#15594): clients that are served by a script, while others that wait for the same key
//! are evicted or killed.

use super::{check_order, withstand_beside, write_and_read};
use weft_testkit::Client;
use weft_tests::scene::{client, send};

/// Pushes large elements, of which a client that doesn't read takes more than `maxmemory-clients` allows.
const PUSH: &str = "for n = 1, 4 do redis.call('rpush', KEYS[1], ('x'):rep(6e6)) end return 7";

/// A command with much memory that waits for the key.
fn wait_for(client: &mut Client, command: &str) {
    let names: Vec<String> = (0..500).map(|n| format!("{{q}}{n}{}", "y".repeat(100))).collect();
    let mut words = vec![command];
    words.extend(names.iter().map(String::as_str));
    words.push("{q}k");
    match command {
        "BLMPOP" => {
            words.splice(1..1, ["0", "501"]);
            words.extend(["LEFT", "COUNT", "2"]);
        }
        _ => words.push("0"),
    }
    send(client, &words);
}

#[test]
fn clients_are_evicted_while_a_script_serves_them() {
    // Until the large clients are closed, others may be evicted, too.
    let use_server = |client: &mut Client| {
        client.ok(&["CLIENT", "NO-EVICT", "ON"]);
        write_and_read(client);
    };
    let args = ["--maxmemory-clients", "4mb", "--enable-debug-command", "yes"];
    withstand_beside(&args, use_server, |server, admin| {
        admin.ok(&["CLIENT", "NO-EVICT", "ON"]);
        let mut killer = client(server);
        killer.ok(&["CLIENT", "NO-EVICT", "ON"]);
        for round in 0..12 {
            let mut waiting: Vec<Client> = (0..6).map(|_| client(server)).collect();
            for (n, client) in waiting.iter_mut().enumerate() {
                wait_for(client, ["BLPOP", "BRPOP", "BLMPOP"][n % 3]);
            }
            send(admin, &["EVAL", PUSH, "1", "{q}k"]);
            if round % 2 == 1 {
                for line in killer.cmd(&["CLIENT", "LIST"]).text().lines() {
                    if line.contains("cmd=bl") || line.contains("cmd=br") {
                        let id = line.split_whitespace().next().unwrap_or_default();
                        let id = id.trim_start_matches("id=");
                        killer.cmd(&["CLIENT", ["KILL", "UNBLOCK"][round % 4 / 2], id]);
                        killer.cmd(&["CLIENT", "KILL", "ID", id]);
                    }
                }
            }
            assert_eq!(weft_tests::scene::reply(admin).int(), 7);
            check_order(admin, "a push");
            drop(waiting);
            admin.cmd(&["DEL", "{q}k"]);
        }
        weft_tests::assert_consistent(admin);
    });
}
