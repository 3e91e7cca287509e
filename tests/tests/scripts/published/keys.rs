//! Keys that a check finds must be those that the command reads and writes.

use super::{check_order, withstand};
use weft_testkit::Client;
use weft_tests::scene::client;

/// Redis 7.4.11 (#14847) and CVE-2023-36824: the keys of a request that has too few words for its own count.
#[test]
fn requests_without_their_keys_are_refused() {
    withstand(&[], |server, admin| {
        admin.ok(&["ACL", "SETUSER", "low", "on", ">low", "~own*", "+@all"]);
        let mut low = client(server);
        low.ok(&["AUTH", "low", "low"]);
        let counts =
            ["", "0", "1", "2", "5", "-1", "x", "4294967296", "9223372036854775807", "2147483648"];
        for command in ["EVAL", "EVAL_RO", "EVALSHA", "EVALSHA_RO", "FCALL", "FCALL_RO"] {
            let mut requests = vec![vec![command], vec![command, "return 1"]];
            for count in counts {
                requests.push(vec![command, "return 1", count]);
                requests.push(vec![command, "return 1", count, "own"]);
                requests.push(vec![command, "return 1", count, "own", "other"]);
            }
            for request in &requests {
                for before in [
                    &[][..],
                    &["COMMAND", "GETKEYS"],
                    &["COMMAND", "GETKEYSANDFLAGS"],
                    &["ACL", "DRYRUN", "low"],
                ] {
                    low.cmd(&[before, &request[..]].concat());
                    check_order(&mut low, &request.join(" "));
                }
                let script = "return {pcall(redis.acl_check_cmd, unpack(ARGV))}";
                low.cmd(&[&["EVAL", script, "0"], &request[..]].concat());
                low.ok(&["MULTI"]);
                low.cmd(&request[..]);
                low.cmd(&["EXEC"]);
                check_order(&mut low, &request.join(" "));
            }
        }
    });
}

/// Fills the keys, of which the user may use those that begin with `own`.
fn fill(admin: &mut Client) {
    admin.cmd(&[
        "DEL",
        "own:list",
        "own:geo",
        "own:stream",
        "own:d",
        "STREAMS",
        "other:stream",
        "other:hash",
        "other:d",
    ]);
    admin.cmd(&["RPUSH", "own:list", "1", "2"]);
    admin.cmd(&["GEOADD", "own:geo", "0", "0", "m"]);
    admin.cmd(&["XADD", "own:stream", "1-1", "f", "v"]);
    admin.cmd(&["XADD", "STREAMS", "1-1", "f", "secret"]);
    admin.cmd(&["XADD", "other:stream", "1-1", "f", "secret"]);
    admin.cmd(&["SET", "other:1", "secret"]);
    admin.cmd(&["HSET", "other:hash", "1", "secret"]);
}

/// CVE-2023-41053, CVE-2024-51741's kind, and Redis 8.8.2 (#15478): SORT, GEORADIUS and XREAD used other keys than those
/// that were checked.
#[test]
fn checked_keys_are_the_used_ones() {
    const REQUESTS: [&str; 16] = [
        "SORT own:list STORE own:d STORE other:d",
        "SORT own:list STORE other:d STORE own:d",
        "SORT own:list BY nosort STORE own:d LIMIT 0 1 STORE other:d",
        "SORT own:list LIMIT STORE own:d STORE other:d",
        "SORT own:list GET other:*",
        "SORT own:list BY other:hash->*",
        "SORT_RO own:list GET other:*",
        "SORT_RO own:list BY other:* GET #",
        "GEORADIUS own:geo 0 0 9 km STORE own:d STORE other:d",
        "GEORADIUS own:geo 0 0 9 km STORE other:d STOREDIST own:d",
        "GEORADIUSBYMEMBER own:geo m 9 km STOREDIST own:d STORE other:d",
        "XREAD COUNT 1 STREAMS own:stream other:stream 0 0",
        "XREAD COUNT STREAMS STREAMS own:stream 0",
        "XREAD STREAMS STREAMS 0",
        "XREADGROUP GROUP STREAMS own:stream STREAMS other:stream 0",
        "XREADGROUP GROUP g STREAMS STREAMS other:stream >",
    ];
    withstand(&[], |server, admin| {
        admin.ok(&[
            "ACL",
            "SETUSER",
            "low",
            "on",
            ">low",
            "~own*",
            "~{bystander}*",
            "+@all",
            "-acl",
        ]);
        let mut low = client(server);
        low.ok(&["AUTH", "low", "low"]);
        for request in REQUESTS {
            fill(admin);
            let words: Vec<&str> = request.split(' ').collect();
            let in_script =
                [&["EVAL", "return redis.call(unpack(ARGV))", "0"], &words[..]].concat();
            for request in [words, in_script] {
                let reply = low.cmd(&request).to_string();
                assert!(!reply.contains("secret"), "{request:?}: {reply}");
                assert_eq!(admin.cmd(&["EXISTS", "other:d"]).int(), 0, "{request:?}: {reply}");
            }
        }
    });
}
