//! Counts, offsets and numbers that overflowed in commands on keys, by themselves and in scripts.

use super::{check_order, withstand};

/// Advisory and command. `{most}` is the largest integer, `{least}` the smallest one.
const COMMANDS: [(&str, &str); 32] = [
    ("CVE-2021-29477", "LCS big big2"),
    ("CVE-2021-29477", "LCS big big2 LEN"),
    ("CVE-2021-32625", "LCS big big2 IDX MINMATCHLEN {least}"),
    ("CVE-2021-32687", "SADD set 1 2 3 {most} {least}"),
    ("CVE-2021-32761", "BITFIELD bits GET u63 4294967295"),
    ("CVE-2021-32761", "BITFIELD bits SET i64 #4611686018427387903 1"),
    ("CVE-2021-32761", "SETBIT bits 4294967296 1"),
    ("CVE-2021-41099", "APPEND big x"),
    ("CVE-2022-31144", "XAUTOCLAIM stream g c 0 0 COUNT 9"),
    ("CVE-2022-35951", "XAUTOCLAIM stream g c 0 0 COUNT {most}"),
    ("CVE-2022-35951", "XAUTOCLAIM stream g c 0 0 COUNT 1152921504606846976"),
    ("CVE-2022-35951", "XAUTOCLAIM stream g c 0 0 COUNT {least}"),
    ("CVE-2022-35977", "SETRANGE str {most} x"),
    ("CVE-2022-35977", "SETRANGE str 4294967295 x"),
    ("CVE-2022-35977", "SETRANGE str 536870912 x"),
    ("CVE-2022-35977", "SORT list LIMIT {most} {most}"),
    ("CVE-2022-35977", "SORT list LIMIT {least} {most}"),
    ("CVE-2022-35977", "SORT_RO list LIMIT -1 {most} ALPHA"),
    ("CVE-2023-22458", "HRANDFIELD hash {least}"),
    ("CVE-2023-22458", "HRANDFIELD hash {least} WITHVALUES"),
    ("CVE-2023-22458", "HRANDFIELD hash -4611686018427387905 WITHVALUES"),
    ("CVE-2023-22458", "ZRANDMEMBER zset {least} WITHSCORES"),
    ("CVE-2023-25155", "SRANDMEMBER set {least}"),
    ("CVE-2023-25155", "SRANDMEMBER set -{most}0"),
    ("CVE-2023-25155", "SPOP set {most}"),
    ("CVE-2023-28425", "MSETNX new v new w"),
    ("CVE-2023-28856", "HINCRBYFLOAT hash f nan"),
    ("CVE-2023-28856", "HINCRBYFLOAT hash f -inf"),
    ("CVE-2023-28856", "HINCRBYFLOAT hash f 1e4932"),
    ("CVE-2023-28856", "INCRBYFLOAT str inf"),
    ("CVE-2023-41056", "SET str {long}"),
    ("CVE-2025-62507", "XDEL stream {ids}"),
];

#[test]
fn overflows_are_refused_or_answered() {
    let ids = vec!["1-1"; 5000].join(" ");
    withstand(&[], |_, client| {
        for (key, len) in [("big", 1_000_000), ("big2", 999_999)] {
            client.ok(&["SET", key, &"ab".repeat(len / 2)]);
        }
        client.cmd(&["XADD", "stream", "1-1", "f", "v"]);
        client.ok(&["XGROUP", "CREATE", "stream", "g", "0"]);
        client.cmd(&["XREADGROUP", "GROUP", "g", "other", "STREAMS", "stream", ">"]);
        client.cmd(&["RPUSH", "list", "1", "2"]);
        client.cmd(&["HSET", "hash", "f", "1", "g", "2"]);
        client.cmd(&["ZADD", "zset", "1", "a", "2", "b"]);
        client.cmd(&["SADD", "set", "a", "b"]);
        for (advisory, command) in COMMANDS {
            let command = command.replace("{most}", &i64::MAX.to_string());
            let command = command.replace("{least}", &i64::MIN.to_string()).replace("{ids}", &ids);
            let command = command.replace("{long}", &"x".repeat(1 << 20));
            let words: Vec<&str> = command.split(' ').collect();
            let script = [&["EVAL", "return redis.call(unpack(ARGV))", "0"], &words[..]].concat();
            for request in [script, words] {
                client.cmd(&request);
                check_order(client, advisory);
            }
        }
        for (key, command) in
            [("hash", "HGETALL"), ("str", "STRLEN"), ("stream", "XLEN"), ("new", "GET")]
        {
            client.cmd(&[command, key]);
            check_order(client, key);
        }
    });
}
