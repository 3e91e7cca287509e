//! Commands on the server: COMMAND, configuration, logs and databases.
//!
//! CONFIG SET affects all later commands. So its lines list the parameters and values one by one,
//! and [`BASELINE`] restores every one of them before each episode.

use super::rule::{Rule, fixed, optional, rule};
use crate::compare::Compare::{As, Exact, Shape, Subset};
use crate::compare::{command_info, deep_shape, deep_unordered, parameters, slowlog};

/// Every parameter that a rule sets, with the value at the start of an episode.
///
/// The logs of slow commands are off, since the slow commands differ from run to run; a script
/// turns them on while it reads them.
pub const BASELINE: &[(&str, &str)] = &[
    ("requirepass", ""),
    ("maxmemory", "0"),
    ("maxmemory-policy", "noeviction"),
    ("maxmemory-samples", "5"),
    ("maxmemory-clients", "0"),
    ("timeout", "0"),
    ("tcp-keepalive", "300"),
    ("hz", "10"),
    ("lfu-log-factor", "10"),
    ("lfu-decay-time", "1"),
    ("lazyfree-lazy-eviction", "yes"),
    ("lazyfree-lazy-expire", "yes"),
    ("lazyfree-lazy-user-del", "yes"),
    ("lazyfree-lazy-user-flush", "yes"),
    ("slowlog-log-slower-than", "-1"),
    ("slowlog-max-len", "128"),
    ("commandlog-request-larger-than", "-1"),
    ("commandlog-reply-larger-than", "-1"),
    ("latency-monitor-threshold", "0"),
    ("latency-tracking", "yes"),
    ("notify-keyspace-events", ""),
    ("set-max-intset-entries", "512"),
    ("set-max-listpack-entries", "128"),
    ("set-max-listpack-value", "64"),
    ("zset-max-listpack-entries", "128"),
    ("zset-max-listpack-value", "64"),
    ("hll-sparse-max-bytes", "3000"),
    (
        "client-output-buffer-limit",
        "normal 0 0 0 replica 268435456 67108864 60 pubsub 33554432 8388608 60",
    ),
    ("client-query-buffer-limit", "1073741824"),
    ("active-expire-effort", "1"),
    ("hide-user-data-from-log", "yes"),
];

pub const RULES: &[Rule] = &[
    rule(1, "COMMAND", Shape),
    rule(2, "COMMAND COUNT", Shape),
    // Its content is compared by a separate test, tests/command_table.rs.
    rule(3, "COMMAND DOCS (get|set|nosuch)...", Shape),
    rule(
        1,
        "COMMAND (GETKEYS|GETKEYSANDFLAGS) (SPUBLISH|SSUBSCRIBE|SUNSUBSCRIBE|PUBLISH|SUBSCRIBE) [<key>] [<value>]",
        Exact,
    ),
    rule(
        3,
        "COMMAND GETKEYS (GET <key>|SET <key> <value>|MSET <key> <value> <key>|MGET <key> <key>|DEL <key>|PING|<word>|RENAME <key> <key>)",
        Exact,
    ),
    rule(
        2,
        "COMMAND GETKEYS (MSETEX 2 <key> <value> <key> <value>|MSETEX 0 <key>|COPY <key> <key>|OBJECT ENCODING <key>|LCS <key> <key>|GET)",
        Exact,
    ),
    rule(
        2,
        "COMMAND GETKEYSANDFLAGS (GET <key>|SET <key> <value> [GET]|COPY <key> <key>|RENAME <key> <key>|MSET <key> <value>|PING)",
        As(deep_unordered),
    ),
    rule(1, "COMMAND HELP", Shape),
    rule(
        4,
        "COMMAND INFO (append|decr|decrby|delifeq|get|getdel|getex|getrange|getset|incr|incrby|incrbyfloat|lcs|mget|mset|msetex|msetnx|\
         psetex|set|setex|setnx|setrange|strlen|substr|nosuch)...",
        As(command_info),
    ),
    rule(
        4,
        "COMMAND INFO (copy|del|exists|expire|expireat|expiretime|keys|move|object|persist|pexpire|pexpireat|pexpiretime|pttl|randomkey|\
         rename|renamenx|scan|touch|ttl|type|unlink|object|encoding)...",
        As(command_info),
    ),
    rule(
        4,
        "COMMAND INFO (auth|echo|hello|ping|reset|select|command|config|commandlog|dbsize|debug|flushall|flushdb|lastsave|latency|\
         lolwut|memory|slowlog|swapdb|time|info)...",
        As(command_info),
    ),
    rule(
        2,
        "COMMAND LIST [FILTERBY (MODULE nosuch|ACLCAT (read|write|string|keyspace|nosuch)|PATTERN (get*|xyz|c*|\"\"))]",
        Subset,
    ),
    rule(1, "ACL LIST", Exact),
    rule(1, "ACL USERS", Exact),
    rule(1, "ACL WHOAMI", Exact),
    rule(1, "ACL GETUSER (default|nosuch)", Exact),
    rule(1, "ACL CAT", Exact),
    rule(1, "ACL CAT <word>", Exact),
    rule(1, "ACL DRYRUN (default|nosuch) (GET <key>|SET <key> <value>|PING|GET|<word>)", Exact),
    rule(1, "ACL GENPASS (0|<word>|99999)", Exact),
    rule(1, "ACL LOAD", Shape),
    rule(1, "ACL SAVE", Shape),
    rule(1, "ACL HELP", Shape),
    rule(1, "ACL <word>", Shape),
    fixed(1, "ACL LOG RESET", Exact),
    fixed(
        1,
        "ACL SETUSER u reset on nopass (+get|-get|+@read|\"+config|get\"|bad) (~a*|%R~b|allkeys|&c) [db=0] ; ACL GETUSER u ; ACL LIST ; \
         ACL DELUSER u nosuch",
        Exact,
    ),
    rule(1, "COMMAND <word>", Exact),
    rule(1, "MODULE LIST", Shape),
    rule(1, "MODULE HELP", Shape),
    rule(1, "MODULE LOAD <word>", Shape),
    rule(1, "MODULE LOADEX <word>", Shape),
    rule(1, "MODULE UNLOAD <word>", Shape),
    rule(1, "MODULE (LOAD <word>|LOADEX <word> ARGS <word>|UNLOAD <word>)", Exact),
    rule(2, "COMMANDLOG (LEN|RESET) (SLOW|LARGE-REQUEST|LARGE-REPLY|<word>)", Exact),
    rule(2, "COMMANDLOG GET <count> (SLOW|LARGE-REQUEST|LARGE-REPLY|<word>)", As(slowlog)),
    rule(1, "COMMANDLOG HELP", Shape),
    fixed(
        2,
        "CONFIG SET slowlog-log-slower-than 0 ; SET <key=a> <value> ; GET <a> ; PING ; CONFIG SET slowlog-log-slower-than -1 ; SLOWLOG LEN ; \
         SLOWLOG GET ; SLOWLOG GET 2 ; SLOWLOG GET -1 ; SLOWLOG GET -2 ; COMMANDLOG GET -1 SLOW ; SLOWLOG RESET ; SLOWLOG LEN",
        Exact,
    ),
    fixed(
        1,
        "CONFIG SET commandlog-request-larger-than 10 ; SET k1 a-value-of-thirty-characters-aa ; CONFIG SET commandlog-request-larger-than -1 ; \
         COMMANDLOG LEN LARGE-REQUEST ; COMMANDLOG RESET LARGE-REQUEST",
        Exact,
    ),
    // The form of entries, which the scripts above create.
    fixed(1, "SLOWLOG GET", As(slowlog)),
    fixed(1, "COMMANDLOG GET -1 SLOW", As(slowlog)),
    rule(1, "SLOWLOG HELP", Shape),
    rule(2, "SLOWLOG (GET <count>|LEN|RESET|<word>)", Exact),
    rule(
        3,
        "CONFIG GET (maxmemory|maxmemory-policy|timeout|hz|databases|appendonly|save|notify-keyspace-events|maxclients|nosuch)...",
        As(parameters),
    ),
    rule(
        2,
        "CONFIG GET (slowlog*|lazyfree*|lfu*|client-*-limit|proto-max-bulk-len|tcp-keepalive|commandlog*|latency*|\"[a\")...",
        As(parameters),
    ),
    rule(1, "CONFIG GET \"*\"", As(parameters)),
    rule(1, "CONFIG HELP", Shape),
    rule(1, "CONFIG RESETSTAT", Exact),
    rule(1, "CONFIG REWRITE", Exact),
    fixed(
        2,
        "CONFIG SET maxmemory (0|100gb|1TB|-1|<word>|1.5gb|\"\"|0b|99999999999999999999) ; CONFIG GET maxmemory ; CONFIG SET maxmemory 0",
        Exact,
    ),
    fixed(
        2,
        "CONFIG SET maxmemory-policy (allkeys-lru|volatile-ttl|allkeys-random|<word>|ALLKEYS-LRU) ; CONFIG GET maxmemory-policy",
        Exact,
    ),
    fixed(
        2,
        "CONFIG SET maxmemory-policy allkeys-lfu ; SET <key=a> <value> ; OBJECT FREQ <a> ; OBJECT IDLETIME <a> ; OBJECT FREQ nokey ; \
         CONFIG SET maxmemory-policy noeviction ; DEL <a>",
        Exact,
    ),
    fixed(
        2,
        "CONFIG SET (maxmemory-samples (5|10|0|64|65|<word>)|hz (1|500|0|501|<word>)|timeout (0|100000|-1|<word>)|tcp-keepalive (0|60|-1))",
        Exact,
    ),
    fixed(
        2,
        "CONFIG SET (lfu-log-factor|lfu-decay-time|slowlog-max-len) (0|1|10|-1|<word>|99999999999)",
        Exact,
    ),
    fixed(
        2,
        "CONFIG SET (lazyfree-lazy-user-del|lazyfree-lazy-user-flush|lazyfree-lazy-expire|latency-tracking) (yes|no|YES|1|<word>)",
        Exact,
    ),
    fixed(
        2,
        "CONFIG SET notify-keyspace-events (KEA|\"\"|Kg$|AKE|Knx|zzz|gxK) ; CONFIG GET notify-keyspace-events",
        Exact,
    ),
    fixed(
        2,
        "CONFIG SET client-output-buffer-limit (\"normal 0 0 0\"|\"pubsub 64mb 16mb 90\"|\"slave 1gb 0 0 normal 0 0 0\"|bogus|\"normal 1 2\"|\"normal -1 0 0\"|\"foo 0 0 0\") ; \
         CONFIG GET client-output-buffer-limit",
        Exact,
    ),
    fixed(2, "CONFIG SET client-query-buffer-limit (1gb|2097152|<word>|5%|-1|0|1048575)", Exact),
    // Small limits would close the tester's own connection.
    fixed(2, "CONFIG SET maxmemory-clients (1gb|<word>|5%|-1|0|100mb)", Exact),
    fixed(1, "CONFIG SET (port|dir|databases|daemonize|nosuch|appendfilename|\"\") <word>", Exact),
    fixed(
        1,
        "CONFIG SET maxmemory-samples 7 hz (20|<word>) ; CONFIG GET maxmemory-samples hz",
        Exact,
    ),
    fixed(
        1,
        "CONFIG SET (hz 10 hz 20|hz|hz 10 nosuch 1|maxmemory 0 maxmemory 0|slowlog-max-len)",
        Exact,
    ),
    fixed(1, "CONFIG SET latency-monitor-threshold (0|100000|-1|<word>)", Exact),
    rule(1, "CONFIG <word>", Exact),
    rule(5, "DBSIZE", Exact),
    fixed(1, "DEBUG SLEEP (0|0.001)", Exact),
    fixed(1, "DEBUG SET-ACTIVE-EXPIRE (0|1)", Exact),
    fixed(1, "DEBUG STRINGMATCH-LEN <count> <pattern>", Exact),
    fixed(1, "DEBUG OBJECT <key>", Shape),
    fixed(
        4,
        "DEBUG PROTOCOL (string|integer|double|bignum|null|array|set|map|attrib|verbatim|true|false|<word>)",
        Exact,
    ),
    fixed(1, "DEBUG ERROR (\"ERR made up\"|oops)", Exact),
    fixed(1, "DEBUG LOG <word>", Exact),
    fixed(1, "DEBUG (<word>|OBJECT|SLEEP|SET-ACTIVE-EXPIRE|PROTOCOL)", Exact),
    fixed(1, "DEBUG", Exact),
    fixed(1, "FLUSHALL [ASYNC|SYNC]", Exact),
    fixed(1, "FLUSHALL (<word>|SYNC ASYNC)", Exact),
    fixed(2, "FLUSHDB [ASYNC|SYNC|<word>]", Exact),
    optional(1, "INFO [(server|clients|memory|stats|keyspace|everything|nosuch)...]", Shape),
    rule(1, "LASTSAVE", Shape),
    rule(1, "LATENCY DOCTOR", Shape),
    rule(1, "LATENCY GRAPH (command|<word>)", Exact),
    rule(1, "LATENCY HELP", Shape),
    fixed(1, "LATENCY HISTOGRAM nosuch", As(deep_shape)),
    fixed(1, "CONFIG RESETSTAT ; GET <key> ; LATENCY HISTOGRAM get", Exact),
    rule(1, "LATENCY HISTORY (command|<word>)", Exact),
    rule(1, "LATENCY LATEST", Exact),
    rule(1, "LATENCY RESET (command|<word>)...", Exact),
    rule(1, "LATENCY <word>", Exact),
    rule(1, "LOLWUT [VERSION (5|6|<word>)]", Shape),
    rule(1, "MEMORY DOCTOR", Shape),
    rule(1, "MEMORY HELP", Shape),
    rule(1, "MEMORY MALLOC-STATS", Shape),
    rule(1, "MEMORY PURGE", Exact),
    rule(1, "MEMORY STATS", Shape),
    rule(5, "MEMORY USAGE <key> [SAMPLES <count>]", Shape),
    rule(1, "MEMORY <word>", Exact),
    rule(1, "SAVE [<word>]", Exact),
    rule(5, "SWAPDB <db> <db>", Exact),
    rule(1, "TIME", As(deep_shape)),
    rule(1, "LATENCY", Exact),
];
