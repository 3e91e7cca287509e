"""A line for every command: server CPU for each request, Valkey and Weft in one run.

Values are large and replies small, since such commands can read more than they need. A line is one or
more commands; several on a line undo each other, so that the data stay as they are. Requests go over one
connection, DEPTH lines in a batch. The servers take turns, and a figure is the median of the rounds.
"""
import os
import re
import statistics
import time

from .collections import pipeline, stop
from .harness import Server, command, peer, reply, weft, NO_SAVES

DEPTH = int(os.environ.get("SWEEP_DEPTH", 16))
# Approximate CPU seconds of the slower server in one round of a line, and the fewest and most batches in it.
ROUND_SECONDS = 0.03
BATCHES = (3, 3000)
SCHED_CLOCK = 2
BIG = 200_000
PLACES = 100_000
ENTRIES = 100_000
# How often a line above its limit is measured again.
AGAIN = 3
# The upper bounds of a line's ratio and of the median.
LINE_LIMIT, MEDIAN_LIMIT = 1.05, 0.8

# One line of commands per row: `;` between the commands, `~` for a space in an argument.
LINES = """
PING
ECHO hello
SELECT 0
CLIENT ID
CLIENT INFO
CLIENT LIST
CLIENT LIST ID 1
CLIENT GETNAME
CLIENT SETNAME me
CLIENT SETINFO lib-name me
CLIENT GETREDIR
CLIENT TRACKINGINFO
CLIENT TRACKING on ; CLIENT CACHING yes ; CLIENT TRACKING off
CLIENT TRACKING on ; GET str ; CLIENT TRACKING off
CLIENT NO-EVICT off
CLIENT NO-TOUCH off
CLIENT CAPA redirect
CLIENT KILL ID 999999
CLIENT UNBLOCK 999999
CLIENT UNPAUSE
CLIENT IMPORT-SOURCE off
CLIENT REPLY on
CLIENT HELP
HELLO 2
AUTH default none
RESET
READONLY
READWRITE
ACL WHOAMI
ACL CAT
ACL CAT read
ACL LIST
ACL USERS
ACL GETUSER default
ACL DRYRUN default GET str
ACL GENPASS
ACL LOG
ACL SETUSER joe on >pass +@all ~* ; ACL DELUSER joe
ACL HELP
COMMAND
COMMAND COUNT
COMMAND LIST
COMMAND LIST FILTERBY pattern get*
COMMAND INFO get
COMMAND DOCS get
COMMAND GETKEYS mset a 1 b 2
COMMAND GETKEYSANDFLAGS mset a 1 b 2
COMMAND HELP
CONFIG GET maxmemory
CONFIG GET *
CONFIG SET maxmemory-samples 5
CONFIG RESETSTAT
CONFIG HELP
COMMANDLOG LEN slow
COMMANDLOG GET 10 slow
COMMANDLOG RESET slow
COMMANDLOG HELP
SLOWLOG LEN
SLOWLOG GET
SLOWLOG RESET
SLOWLOG HELP
LATENCY LATEST
LATENCY HISTORY command
LATENCY HISTOGRAM get
LATENCY DOCTOR
LATENCY RESET
LATENCY HELP
INFO
INFO server
INFO clients
INFO memory
INFO persistence
INFO stats
INFO replication
INFO cpu
INFO commandstats
INFO errorstats
INFO latencystats
INFO keyspace
INFO everything
MEMORY USAGE str
MEMORY USAGE list
MEMORY USAGE hash
MEMORY USAGE zset SAMPLES 5
MEMORY USAGE stream
MEMORY STATS
MEMORY DOCTOR
MEMORY HELP
MODULE LIST
MODULE HELP
LASTSAVE
LOLWUT
ROLE
TIME
DBSIZE
WAIT 0 0
WAITAOF 0 0 0
SWAPDB 1 2
SELECT 3 ; FLUSHDB ; SELECT 0
RANDOMKEY
SCAN 0
SCAN 0 MATCH key:99999* COUNT 10
SCAN 0 TYPE list COUNT 100
KEYS nothing*
EXISTS str
EXISTS str list hash none
TYPE hash
TOUCH str
TTL str
PTTL str
EXPIRETIME str
PEXPIRETIME str
EXPIRE str 1000 ; PERSIST str
PEXPIRE str 100000 ; PERSIST str
EXPIREAT str 99999999999 ; PERSIST str
PEXPIREAT str 99999999999999 ; PERSIST str
OBJECT ENCODING zset
OBJECT REFCOUNT zset
OBJECT IDLETIME zset
OBJECT FREQ zset
OBJECT HELP
SET tmp v ; DEL tmp
SET tmp v ; UNLINK tmp
SET tmp v ; DELIFEQ tmp v
RENAME str str2 ; RENAME str2 str
RENAMENX str str2 ; RENAMENX str2 str
COPY str str2 REPLACE
COPY small:hash h2 REPLACE
MOVE str 1 ; SELECT 1 ; MOVE str 0 ; SELECT 0
DUMP small:hash
RESTORE r 0 \\x00\\x01a\\x50\\x00\\x00 REPLACE
SORT small:list LIMIT 0 3 ALPHA
SORT_RO small:list BY nosort GET #
SORT list BY nosort LIMIT 0 3
SORT small:list ALPHA STORE sorted
GET str
GET big:str64k
SET tmp v
SET tmp v NX
SET tmp v EX 100
SETEX tmp 100 v
PSETEX tmp 100000 v
SETNX tmp v
GETSET tmp v
GETEX str
GETEX str EX 100 ; PERSIST str
SET tmp v ; GETDEL tmp
MGET key:1 key:2 key:3 key:4 key:5 key:6 key:7 key:8 key:9 key:10
MSET t:1 v t:2 v t:3 v
MSETNX t:1 v t:2 v
MSETEX 2 t:1 v t:2 v EX 100
INCR num
DECR num
INCRBY num 5
DECRBY num 5
INCRBYFLOAT float 0.5
STRLEN big:str
GETRANGE big:str 500000 500010
SUBSTR big:str 500000 500010
SETRANGE big:str 500000 x
APPEND app x ; SETRANGE app 0 y
SET app v ; APPEND app x
LCS small:a small:b
GETBIT big:str 4000000
SETBIT big:str 4000000 1
BITCOUNT big:str 1000 1100
BITCOUNT small:a
BITPOS big:str 1
BITPOS big:str 0 1000 2000
BITFIELD big:str GET u8 1000
BITFIELD_RO big:str GET u8 1000
BITFIELD bits SET u8 0 1
BITOP AND bits small:a small:b
LPUSH list v ; LPOP list
RPUSH list v ; RPOP list
LPUSHX list v ; LPOP list
RPUSHX list v ; RPOP list
LPUSH small:list v ; LPOP small:list
LPOP list 3 ; LPUSH list 2 1 0
LLEN list
LINDEX list 0
LINDEX list 100000
LINDEX small:list 5
LSET list 5 e5
LSET list 100000 e100000
LRANGE list 0 9
LRANGE list 100000 100009
LRANGE list -10 -1
LRANGE small:list 0 -1
LPOS list e5
LPOS list e199990 RANK -1
LPOS list e5 MAXLEN 10
LPOS list e5 COUNT 1
LINSERT list BEFORE e5 new ; LREM list 1 new
LREM list -1 e199999 ; RPUSH list e199999
LREM list 1 e0 ; LPUSH list e0
LTRIM list 0 -1
RPUSH list x ; LTRIM list 0 -2
LMOVE list list LEFT LEFT
RPOPLPUSH small:list small:list
LMPOP 1 list LEFT ; LPUSH list e0
BLPOP list 0 ; LPUSH list e0
BRPOP list 0 ; RPUSH list e199999
BLMOVE small:list small:list LEFT LEFT 0
BRPOPLPUSH small:list small:list 0
BLMPOP 0 1 list LEFT ; LPUSH list e0
HSET hash f5 v5
HSET small:hash f5 v5
HMSET hash f5 v5
HSETNX hash f5 v5
HGET hash f5
HGET small:hash f5
HMGET hash f1 f2 f3
HGETALL small:hash
HKEYS small:hash
HVALS small:hash
HLEN hash
HSTRLEN hash f5
HEXISTS hash f5
HINCRBY hash n 1
HINCRBYFLOAT hash n 1
HDEL hash f7 ; HSET hash f7 v7
HRANDFIELD hash
HRANDFIELD hash 5
HRANDFIELD hash -5 WITHVALUES
HSCAN hash 0
HSCAN hash 0 COUNT 100
HSCAN hash 0 MATCH f1*
HSCAN small:hash 0
HGETEX small:hash FIELDS 1 f5
HGETEX hash FIELDS 2 f5 f6
HSETEX small:hash FIELDS 1 f5 v5
HGETDEL hash FIELDS 1 f7 ; HSET hash f7 v7
HEXPIRE ttl:hash 1000 FIELDS 1 f5
HPEXPIRE ttl:hash 1000000 FIELDS 1 f5
HEXPIREAT ttl:hash 99999999999 FIELDS 1 f5
HPEXPIREAT ttl:hash 99999999999999 FIELDS 1 f5
HTTL ttl:hash FIELDS 1 f5
HPTTL ttl:hash FIELDS 1 f5
HEXPIRETIME ttl:hash FIELDS 1 f5
HPEXPIRETIME ttl:hash FIELDS 1 f5
HEXPIRE ttl:hash 1000 FIELDS 1 f6 ; HPERSIST ttl:hash FIELDS 1 f6
SADD set m5
SADD set new ; SREM set new
SADD ints 5
SCARD set
SISMEMBER set m5
SISMEMBER small:set m5
SMISMEMBER set m5 m6 none
SMEMBERS small:set
SRANDMEMBER set
SRANDMEMBER set 5
SRANDMEMBER set -5
SPOP set ; SADD set m0
SPOP set 3 ; SADD set m0 m1 m2
SMOVE set set m5
SSCAN set 0
SSCAN set 0 COUNT 100
SSCAN ints 0
SSCAN small:set 0
SINTER small:set set
SINTER set small:set set2
SINTERCARD 2 set set2 LIMIT 10
SINTERCARD 2 ints ints2 LIMIT 5
SINTERSTORE dst small:set set
SDIFF small:set set
SDIFF small:set set set2
SDIFFSTORE dst small:set set
SUNION small:set small:set2
SUNIONSTORE dst small:set small:set2
ZADD zset 5 m5
ZADD zset 5 new ; ZREM zset new
ZADD small:zset 5 m5
ZCARD zset
ZSCORE zset m5
ZMSCORE zset m5 m6 none
ZRANK zset m100000
ZREVRANK zset m100000
ZCOUNT zset 1000 2000
ZLEXCOUNT lex [m1 [m2
ZINCRBY zset 0 m5
ZRANGE zset 0 9
ZRANGE zset 100000 100009 WITHSCORES
ZRANGE zset 1000 +inf BYSCORE LIMIT 0 10
ZRANGE zset (1000 (1010 BYSCORE
ZRANGE zset 0 +inf BYSCORE LIMIT 100000 10
ZRANGE lex [m1 + BYLEX LIMIT 0 10
ZREVRANGE zset 0 9
ZRANGEBYSCORE zset 1000 1010
ZREVRANGEBYSCORE zset 1010 1000
ZREVRANGEBYSCORE zset +inf -inf LIMIT 0 10
ZRANGEBYLEX lex [m1000 [m1010
ZREVRANGEBYLEX lex [m1010 [m1000
ZRANGESTORE dst zset 0 9
ZRANGESTORE dst zset 1000 +inf BYSCORE LIMIT 0 10
ZREMRANGEBYRANK zset 0 0 ; ZADD zset 0 m0
ZREMRANGEBYSCORE zset 0 0 ; ZADD zset 0 m0
ZADD lex 0 new ; ZREMRANGEBYLEX lex [new [new
ZPOPMIN zset ; ZADD zset 0 m0
ZPOPMAX zset ; ZADD zset 199999 m199999
ZMPOP 1 zset MIN ; ZADD zset 0 m0
BZPOPMIN zset 0 ; ZADD zset 0 m0
BZPOPMAX zset 0 ; ZADD zset 199999 m199999
BZMPOP 0 1 zset MIN ; ZADD zset 0 m0
ZRANDMEMBER zset
ZRANDMEMBER zset 5
ZRANDMEMBER zset -5 WITHSCORES
ZSCAN zset 0
ZSCAN zset 0 COUNT 100
ZSCAN small:zset 0
ZDIFF 2 small:zset zset
ZDIFFSTORE dst 2 small:zset zset
ZINTER 2 small:zset zset
ZINTER 2 zset small:zset WITHSCORES
ZINTERCARD 2 zset zset2 LIMIT 10
ZINTERSTORE dst 2 small:zset zset
ZUNION 2 small:zset small:zset2
ZUNIONSTORE dst 2 small:zset small:zset2
GEOADD geo 13.361389 38.115556 p5
GEOPOS geo p5
GEODIST geo p5 p6
GEOHASH geo p5
GEOSEARCH geo FROMLONLAT 13.361389 38.115556 BYRADIUS 1 km COUNT 10 ANY
GEOSEARCH city FROMLONLAT 13.4 52.5 BYRADIUS 1 km COUNT 10
GEOSEARCH city FROMLONLAT 13.4 52.5 BYRADIUS 50 km COUNT 10 ANY
GEOSEARCH city FROMMEMBER p5 BYBOX 1 1 km
GEOSEARCHSTORE dst geo FROMLONLAT 13.361389 38.115556 BYRADIUS 1 km COUNT 10 ANY
GEORADIUS geo 13.361389 38.115556 1 km COUNT 10 ANY
GEORADIUS_RO geo 13.361389 38.115556 1 km COUNT 10 ANY
GEORADIUSBYMEMBER geo p5 1 km COUNT 10 ANY
GEORADIUSBYMEMBER_RO geo p5 1 km COUNT 10 ANY
PFADD hll m5
PFCOUNT hll
PFCOUNT hll hll2
PFMERGE dst hll hll2
XADD xs 1-1 f v ; DEL xs
XADD stream * f v ; XTRIM stream MAXLEN 100000
XADD stream MAXLEN ~ 100000 * f v
XLEN stream
XRANGE stream - + COUNT 10
XRANGE stream 50000-0 50009-0
XREVRANGE stream + - COUNT 10
XREAD COUNT 10 STREAMS stream 50000-0
XREAD COUNT 1 BLOCK 0 STREAMS stream 50000-0
XREADGROUP GROUP g c COUNT 10 STREAMS stream 0
XDEL stream 1-1
XACK stream g 1-1
XCLAIM stream g c 0 10000-0 JUSTID
XAUTOCLAIM stream g c 0 0 COUNT 10
XAUTOCLAIM stream g c 0 0 JUSTID
XAUTOCLAIM stream g c 0 0 COUNT 10 JUSTID
XPENDING stream g
XPENDING stream g - + 10
XPENDING stream g - + 10 c
XINFO STREAM stream
XINFO STREAM stream FULL COUNT 5
XINFO GROUPS stream
XINFO CONSUMERS stream g
XINFO HELP
XGROUP CREATE stream g9 $ ; XGROUP DESTROY stream g9
XGROUP CREATECONSUMER stream g c9 ; XGROUP DELCONSUMER stream g c9
XGROUP SETID stream g 90000
XGROUP HELP
XSETID small:stream 99999-0
XTRIM stream MAXLEN 200000
MULTI ; SET tmp v ; GET str ; EXEC
MULTI ; LRANGE list 0 9 ; HGET hash f5 ; EXEC
MULTI ; LPOS list e5 ; EXEC
MULTI ; DISCARD
WATCH str ; UNWATCH
PUBLISH unread hello
SPUBLISH unread hello
SUBSCRIBE ch ; UNSUBSCRIBE ch
PSUBSCRIBE ch* ; PUNSUBSCRIBE ch*
SSUBSCRIBE ch ; SUNSUBSCRIBE ch
PUBSUB CHANNELS
PUBSUB NUMSUB a b
PUBSUB NUMPAT
PUBSUB SHARDCHANNELS
PUBSUB SHARDNUMSUB a
PUBSUB HELP
"""

# Commands without a line, by reason.
NO_LINE = {
    "not one request with one reply": "client|pause monitor quit shutdown sync psync replconf debug",
    "writes files or starts a process": "bgsave bgrewriteaof save acl|load acl|save config|rewrite",
    "changes the data of other lines":
        "flushall replicaof slaveof failover memory|purge memory|malloc-stats latency|graph",
    "needs another server or module": "migrate module|load module|loadex module|unload restore-asking",
    "spends most of its time on self-tests": "pfdebug pfselftest",
    "for clusters": "asking clusterscan cluster|*",
    "not in Weft": "eval eval_ro evalsha evalsha_ro fcall fcall_ro function|* script|*",
}


def words(line):
    """The commands of a line, each a list of arguments."""
    def argument(word):
        if "\\x" in word:
            return re.sub(rb"\\x(..)", lambda m: bytes([int(m[1], 16)]), word.encode())
        return word
    return [[argument(word) for word in part.split()] for part in line.split(" ; ")]


def fill(server):
    some = range(10)
    def put(*requests):
        pipeline(server, [command(*request) for request in requests], 1)
    def many(count, of, step=100):
        pipeline(server, (command(*of(range(n, min(n + step, count)))) for n in range(0, count, step)), 20)
    put(("SET", "str", "value" * 10), ("SET", "big:str", "\0x" * (1 << 19)), ("SET", "big:str64k", "x" * 65536),
        ("SET", "num", 1), ("SET", "float", 1), ("SET", "tmp", "v"), ("SET", "app", "v" * 100),
        ("SET", "small:a", "ohmytext" * 8), ("SET", "small:b", "mynewtext" * 8))
    many(100_000, lambda r: ["MSET"] + [x for n in r for x in (f"key:{n}", f"value:{n}")])
    many(BIG, lambda r: ["RPUSH", "list"] + [f"e{n}" for n in r])
    many(BIG, lambda r: ["HSET", "hash"] + [x for n in r for x in (f"f{n}", f"v{n}")])
    for key in ("set", "set2"):
        many(BIG, lambda r: ["SADD", key] + [f"m{n}" for n in r])
    for key in ("ints", "ints2"):
        many(BIG, lambda r: ["SADD", key] + list(r))
    for key in ("zset", "zset2"):
        many(BIG, lambda r: ["ZADD", key] + [x for n in r for x in (n, f"m{n}")])
    many(BIG, lambda r: ["ZADD", "lex"] + [x for n in r for x in (0, f"m{n}")])
    put(["RPUSH", "small:list"] + [f"e{n}" for n in some],
        ["HSET", "small:hash"] + [x for n in some for x in (f"f{n}", f"v{n}")],
        ["HSET", "ttl:hash"] + [x for n in some for x in (f"f{n}", f"v{n}")],
        ["SADD", "small:set"] + [f"m{n}" for n in some], ["SADD", "small:set2"] + [f"n{n}" for n in some],
        ["ZADD", "small:zset"] + [x for n in some for x in (n, f"m{n}")],
        ["ZADD", "small:zset2"] + [x for n in some for x in (n, f"n{n}")])
    many(PLACES, lambda r: ["GEOADD", "geo"] + [x for n in r for x in (13.361389, 38.115556, f"p{n}")])
    many(PLACES, lambda r: ["GEOADD", "city"] + [
        x for n in r for x in (13.4 + (n % 317) / 1000, 52.5 + (n % 299) / 1000, f"p{n}")])
    many(BIG, lambda r: ["PFADD", "hll"] + [f"m{n}" for n in r])
    many(BIG, lambda r: ["PFADD", "hll2"] + [f"n{n}" for n in r])
    many(ENTRIES, lambda r: ["XADD", "stream", f"{r[0] + 1}-0", "f", f"v{r[0]}"], 1)
    put(("XADD", "small:stream", "1-0", "f", "v"), ("XGROUP", "CREATE", "stream", "g", 0))
    put(*[("XREADGROUP", "GROUP", "g", "c", "COUNT", 1000, "STREAMS", "stream", ">")] * 50)


class Line:
    """One line of the sweep on one server."""

    def __init__(self, server, socket, line):
        self.server, self.socket = server, socket
        requests = words(line)
        self.count = len(requests)
        self.requests = b"".join(command(*request) for request in requests)

    def batches(self, count):
        """CPU seconds of the server for that many batches."""
        clock = (~self.server.pid << 3) | SCHED_CLOCK
        before = time.clock_gettime(clock)
        send = self.requests * DEPTH
        for n in range(count):
            mark = b"end-of-%09d" % n
            self.socket.sendall(send + command("ECHO", mark))
            last, end = b"", mark + b"\r\n"
            while not last.endswith(end):
                last = last[-64:] + self.socket.recv(1 << 20)
        return time.clock_gettime(clock) - before

    def answers(self):
        """The replies of one line."""
        self.socket.sendall(self.requests)
        file = self.socket.makefile("rb")
        return [reply(file) for _ in range(self.count)]


ABSENT = b"is not supported by this version"


def is_error(answer):
    return isinstance(answer, bytes) and answer.startswith(b"-")


def measure(group, sockets, line, rounds, figures):
    """Adds seconds of CPU per line and round, of each server, to `figures`."""
    lines = [Line(server, socket, line) for server, socket in zip(group, sockets)]
    few = BATCHES[0]
    each = max(one.batches(few) / few for one in lines)
    count = max(BATCHES[0], min(BATCHES[1], int(ROUND_SECONDS / max(each, 1e-6))))
    for _ in range(rounds):
        for one, found in zip(lines, figures):
            found.append(one.batches(count) / count / DEPTH)


def ratio(figures):
    valkey, own = (statistics.median(found) for found in figures)
    return own / valkey


def check_all_are_there(server):
    """Every command of the reference has a line, or a reason for having none."""
    with server.connect() as s:
        s.sendall(command("COMMAND", "LIST"))
        names = {name.decode() for name in reply(s.makefile("rb"))}
    swept = set()
    for line in LINES.strip().splitlines():
        for request in words(line):
            name = request[0].lower()
            swept |= {name, f"{name}|{str(request[1]).lower()}" if len(request) > 1 else name}
    excused = " ".join(NO_LINE.values()).split()
    groups = {name.split("|")[0] for name in names if "|" in name}
    missing = [name for name in sorted(names) if name not in swept and name not in excused
               and name.split("|")[0] + "|*" not in excused and name not in groups]
    assert not missing, f"the sweep has no line for {' '.join(missing)}"


def bench_sweep(options):
    """`SWEEP` selects lines by a regular expression."""
    wanted = re.compile(os.environ.get("SWEEP", ""), re.I)
    lines = [line for line in LINES.strip().splitlines() if wanted.search(line)]
    program = peer("valkey-server")
    if not program:
        print("\nThe sweep needs valkey-server in PEERS_BIN or PATH.")
        return
    base = [program, "--port", "{port}", "--bind", "127.0.0.1", "--io-threads", "1"] + NO_SAVES
    group = [Server("valkey", base), Server("weft", weft(1) + NO_SAVES)]
    print(f"\n## Sweep: server CPU per line, depth {DEPTH}, one I/O thread, {options.rounds} rounds, "
          "lower is better\n\n| line | valkey us | weft us | ratio |\n|---|---|---|---|", flush=True)
    try:
        check_all_are_there(group[0])
        for server in group:
            fill(server)
        sockets = [server.connect() for server in group]
        found, notes, absent = {}, {}, []
        for line in lines:
            first = [Line(*pair, line).answers() for pair in zip(group, sockets)]
            if any(ABSENT in answer for answer in first[1] if is_error(answer)):
                absent.append(line)
                continue
            kinds = [[is_error(answer) for answer in answers] for answers in first]
            notes[line] = "" if kinds[0] == kinds[1] else f" ({[a for a in first[1] if is_error(a)]})"
            found[line] = [[], []]
            measure(group, sockets, line, options.rounds, found[line])
        # Another process may have disturbed one server only. So a line above its limit is measured again,
        # later, and the median of all its rounds counts.
        for _ in range(AGAIN):
            for line in [line for line in found if ratio(found[line]) > LINE_LIMIT]:
                measure(group, sockets, line, options.rounds, found[line])
        ratios = []
        for line, figures in found.items():
            valkey, own = (statistics.median(each) for each in figures)
            ratios.append((own / valkey, line))
            print(f"| {line}{notes[line]} | {valkey * 1e6:.2f} | {own * 1e6:.2f} | {own / valkey:.2f} |")
        above = sorted((of, line) for of, line in ratios if of > LINE_LIMIT)
        print(f"\nMedian of {len(ratios)} lines: {statistics.median(of for of, _ in ratios):.2f} "
              f"(limit {MEDIAN_LIMIT}); {len(above)} lines above {LINE_LIMIT}:\n")
        for of, line in reversed(above):
            print(f"* {of:.2f} {line}")
        print("\nNot in Weft: " + "; ".join(absent))
        print("\nNo line: " + "; ".join(f"{why}: {names}" for why, names in NO_LINE.items()))
    finally:
        stop(group)
