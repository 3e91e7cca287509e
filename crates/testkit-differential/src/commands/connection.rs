//! Commands on the connection.

use super::rule::{Rule, fixed, optional, optional_fixed, rule};
use crate::compare::Compare::{As, Exact, Shape};
use crate::compare::{clients, greeting};

/// The password of the script that sets a password.
pub const PASSWORD: &str = "sesame";

pub const RULES: &[Rule] = &[
    rule(3, "AUTH <word>", Exact),
    rule(3, "AUTH <word> <word>", Exact),
    rule(2, "AUTH default <word>", Exact),
    // Begins with a pause: the reference closes unauthenticated clients with more than 1 KB of
    // unread replies, including replies to commands before the RESET.
    fixed(
        1,
        "@sync ; CONFIG SET requirepass \"sesame\" ; AUTH wrong ; AUTH default wrong ; AUTH \"sesame\" ; RESET ; PING ; GET <key> ; ECHO <word> ; \
         <word> <word> ; HELLO 3 ; CLIENT ID ; GET ; HELLO 3 AUTH default wrong ; AUTH \"default\" \"sesame\" ; GET <key> ; \
         CONFIG SET requirepass \"\"",
        Exact,
    ),
    rule(1, "ASKING", Exact),
    rule(2, "CLUSTER KEYSLOT <key>", Exact),
    // Errors: the servers have no cluster mode. tests/tests/cluster/ compares nodes.
    fixed(1, "CLUSTER INFO ; CLUSTER NODES ; CLUSTER SLOTS ; CLUSTER SHARDS", Exact),
    fixed(1, "CLUSTER LINKS ; CLUSTER MYID ; CLUSTER MYSHARDID ; CLUSTER HELP", Exact),
    fixed(
        1,
        "CLUSTER BUMPEPOCH ; CLUSTER FLUSHSLOTS ; CLUSTER SAVECONFIG ; CLUSTER GETSLOTMIGRATIONS",
        Exact,
    ),
    fixed(1, "CLUSTER ADDSLOTS 1 ; CLUSTER DELSLOTS 1 ; CLUSTER FORGET 1", Exact),
    fixed(1, "CLUSTER REPLICAS 1 ; CLUSTER SLAVES 1 ; CLUSTER REPLICATE 1", Exact),
    fixed(1, "CLUSTER FAILOVER 1 ; CLUSTER RESET 1 ; CLUSTER SET-CONFIG-EPOCH 1", Exact),
    fixed(
        1,
        "CLUSTER COUNTKEYSINSLOT 1 ; CLUSTER COUNT-FAILURE-REPORTS 1 ; CLUSTER FLUSHSLOT 1",
        Exact,
    ),
    fixed(1, "CLUSTER CANCELSLOTMIGRATIONS 1", Exact),
    fixed(1, "CLUSTER ADDSLOTSRANGE 1 2 ; CLUSTER DELSLOTSRANGE 1 2 ; CLUSTER SETSLOT 1 2", Exact),
    fixed(1, "CLUSTER MEET 1 2 ; CLUSTER GETKEYSINSLOT 1 2 ; CLUSTER SLOT-STATS 1 2", Exact),
    fixed(1, "CLUSTER MIGRATESLOTS 1 2 ; CLUSTER SYNCSLOTS FINISH", Exact),
    fixed(1, "CLUSTERSCAN 0 ; CLUSTERSCAN ; CLUSTERSCAN x COUNT 0", Exact),
    fixed(1, "MULTI ; ASKING ; CLUSTER KEYSLOT <key> ; EXEC", Exact),
    rule(1, "CLUSTER HELP", Exact),
    rule(1, "READONLY", Exact),
    rule(1, "READWRITE", Exact),
    optional(2, "CLIENT CACHING (YES|NO|<word>)", Exact),
    rule(2, "CLIENT CAPA (redirect|<word>)...", Exact),
    rule(5, "CLIENT GETNAME", Exact),
    optional(3, "CLIENT GETREDIR", Exact),
    rule(1, "CLIENT HELP", Shape),
    rule(3, "CLIENT ID", Shape),
    rule(2, "CLIENT IMPORT-SOURCE (ON|OFF|<word>)", Exact),
    rule(5, "CLIENT INFO", As(clients)),
    rule(5, "CLIENT LIST", As(clients)),
    rule(
        5,
        "CLIENT LIST {[TYPE (NORMAL|MASTER|REPLICA|PUBSUB|<word>)] [USER (default|<word>)] [NAME <name>] [SKIPME (YES|NO)]}",
        As(clients),
    ),
    rule(
        3,
        "CLIENT LIST {[ADDR 127.0.0.1:1] [LADDR <word>] [MAXAGE (100000|0|<word>)] [IDLE (100000|0|<word>)] [FLAGS (N|x|zz)] [DB <db>] [IP 127.0.0.1]}",
        As(clients),
    ),
    rule(
        3,
        "CLIENT LIST {[LIB-NAME <name>] [LIB-VER <name>] [CAPA (r|<word>)] [NOT-TYPE (NORMAL|PUBSUB)] [NOT-USER default]}",
        As(clients),
    ),
    rule(
        2,
        "CLIENT LIST {[NOT-NAME <name>] [NOT-DB <db>] [NOT-FLAGS N] [NOT-IP 127.0.0.1] [NOT-ID 99999998 99999999] [NOT-LIB-NAME <name>]}",
        As(clients),
    ),
    rule(2, "CLIENT LIST ID (0|99999999|<word>)...", As(clients)),
    // The connection itself must survive: filters that match no client, or SKIPME's default.
    fixed(2, "CLIENT KILL 127.0.0.1:1", Exact),
    fixed(
        2,
        "CLIENT KILL (<word>|ID <word>|ID 0|ID -1|ADDR <word>|TYPE <word>|TYPE pubsub|USER <word>|MAXAGE 0|MAXAGE <word>)",
        Exact,
    ),
    fixed(
        2,
        "CLIENT KILL {TYPE normal USER default SKIPME yes [ADDR 127.0.0.1:1] [LADDR 127.0.0.1:2]}",
        Exact,
    ),
    fixed(
        1,
        "CLIENT KILL (ID|ID 1 TYPE|SKIPME maybe|SKIPME yes|FOO bar|ID 99999999 SKIPME no)",
        Exact,
    ),
    fixed(
        1,
        "CLIENT KILL {[NAME nobody] [DB 15] [LIB-NAME none] [FLAGS x] [IP 127.0.0.9] [NOT-USER default] SKIPME yes}",
        Exact,
    ),
    fixed(1, "CLIENT KILL TYPE normal SKIPME no ; @closes", Exact),
    rule(2, "CLIENT NO-EVICT (ON|OFF|<word>)", Exact),
    rule(2, "CLIENT NO-TOUCH (ON|OFF|<word>)", Exact),
    fixed(1, "CLIENT PAUSE (0|1|-1|<word>) [WRITE|ALL|<word>] ; CLIENT UNPAUSE", Exact),
    fixed(2, "CLIENT PAUSE (0|1|-1|<word>) [WRITE|ALL|<word>]", Exact),
    fixed(
        2,
        "~CLIENT REPLY OFF ; ~SET <key> <value> ; ~GET <key> ; CLIENT REPLY ON ; GET <key>",
        Exact,
    ),
    fixed(2, "~CLIENT REPLY SKIP ; ~SET <key> <value> ; GET <key>", Exact),
    fixed(1, "~CLIENT REPLY OFF ; ~CLIENT REPLY SKIP ; ~PING ; ~<word> ; CLIENT REPLY ON", Exact),
    fixed(1, "CLIENT REPLY (ON|<word>)", Exact),
    rule(3, "CLIENT SETINFO (LIB-NAME|LIB-VER|<word>) <name>", Exact),
    rule(5, "CLIENT SETNAME <name>", Exact),
    optional_fixed(
        2,
        "CLIENT TRACKING (ON|OFF) {[BCAST] [OPTIN] [OPTOUT] [NOLOOP] [PREFIX k1] [REDIRECT 99999999]} ; CLIENT TRACKINGINFO ; CLIENT GETREDIR ; CLIENT TRACKING OFF",
        Exact,
    ),
    optional_fixed(
        1,
        "CLIENT TRACKING (<word>|ON <word>|ON REDIRECT <word>|ON BCAST PREFIX a PREFIX ab|ON PREFIX a)",
        Exact,
    ),
    optional_fixed(1, "CLIENT TRACKING OFF", Exact),
    optional(2, "CLIENT TRACKINGINFO", Exact),
    rule(1, "CLIENT UNPAUSE", Exact),
    rule(1, "CLIENT UNBLOCK (99999999|<word>) [TIMEOUT|ERROR|<word>]", Exact),
    rule(1, "CLIENT <word>", Exact),
    rule(1, "CLIENT", Exact),
    rule(5, "ECHO <value>", Exact),
    rule(6, "HELLO [2|3]", As(greeting)),
    rule(2, "HELLO (1|4|<word>|3 <word>|3 AUTH default)", As(greeting)),
    rule(3, "HELLO (2|3) {[AUTH (default|<word>) <word>] [SETNAME <name>]}", As(greeting)),
    rule(8, "PING [<value>]", Exact),
    fixed(1, "QUIT ; @closes", Exact),
    rule(3, "RESET", Exact),
    rule(20, "SELECT <db>", Exact),
    rule(2, "<word> <value> <value>", Exact),
];
