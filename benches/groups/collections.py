"""Lists, hashes, sets, sorted sets and transactions."""
import random
import socket
import time

from .harness import command, compare, generate, reply, servers

# Every command on one of 100,000 keys; commands that remove follow those that add.
MANY = [
    ("LPUSH", "LPUSH l:__rand_int__ element", 1),
    ("RPUSH", "RPUSH l:__rand_int__ element", 1),
    ("LPOP", "LPOP l:__rand_int__", 1),
    ("HSET", "HSET h:__rand_int__ f:__rand_int__ value", 1),
    ("SADD", "SADD s:__rand_int__ m:__rand_int__", 1),
    ("SPOP", "SPOP s:__rand_int__", 1),
    ("ZADD", "ZADD z:__rand_int__ __rand_int__ m:__rand_int__", 1),
    ("ZPOPMIN", "ZPOPMIN z:__rand_int__", 1),
    ("MSET (10 keys)", "-t mset", 4),
    ("LRANGE_100", "LRANGE list 0 99", 4),
]
TRANSACTION = "MULTI ; SET k:__rand_int__ v ; SET k:__rand_int__ w ; INCR c:__rand_int__ ; EXEC"


def stop(group):
    for server in group:
        server.stop()


def ask(server, *args):
    with server.connect() as s:
        s.sendall(command(*args))
        return s.recv(1 << 16)


def bench_collections(options):
    print("\n## Collections: CPU per request, one I/O thread, 100,000 keys\n")
    group = servers(cpus="0")
    try:
        for server in group:
            ask(server, "RPUSH", "list", *(["element"] * 1000))
        compare(group, [
            (f"{title}, depth {depth}", f"-c 50 -P {depth} -r 100000 -n {count // part} {what}")
            for depth, count in ((16, 1_000_000), (1, 150_000)) for title, what, part in MANY
        ], "0", "1", options.rounds)
    finally:
        stop(group)


def bench_values(options):
    """Long strings, and the short commands that do the most work in addition to socket calls."""
    print("\n## Strings of 4 KB to 1 MB; short commands at depth 16: CPU, one I/O thread\n")
    group = servers(cpus="0")
    keys = "-c 50 -P 16 -r 1000000"
    try:
        compare(group, [
            *[(f"SET of {size >> 10} KB", f"-t set -c 50 -d {size} -r 1000 -n {count}")
              for size, count in ((4 << 10, 200_000), (16 << 10, 100_000), (64 << 10, 40_000),
                                  (256 << 10, 10_000), (1 << 20, 3_000))],
            ("LPUSH", f"{keys} -n 1000000 LPUSH mylist element"),
            ("SADD", f"{keys} -n 1000000 SADD myset element:__rand_int__"),
            ("SPOP", f"{keys} -n 500000 SPOP myset", f"{keys} -n 2000000 SADD myset element:__rand_int__"),
            ("DEL", f"{keys} -n 1000000 DEL key:__rand_int__",
             f"{keys} -n 2000000 SET key:__rand_int__ value"),
            ("MGET of 10", f"{keys} -n 300000 MGET " + " ".join(["key:__rand_int__"] * 10),
             f"{keys} -n 2000000 SET key:__rand_int__ value"),
        ], "0", "1", options.rounds)
    finally:
        stop(group)


def bench_transactions(options):
    for threads in (1, 2):
        print(f"\n## MULTI, 2 x SET, INCR, EXEC; io-threads {threads}; per command, of five\n")
        group = servers(io_threads=threads)
        try:
            compare(group, [
                (f"depth {depth}", f"-c 50 -P {depth} -r 1000000 -n {count} {TRANSACTION}")
                for depth, count in ((1, 1_000_000), (16, 3_000_000))
            ], None, None, options.rounds)
        finally:
            stop(group)


SUITE = ("ping_inline,ping_mbulk,set,get,incr,lpush,rpush,lpop,rpop,sadd,hset,spop,zadd,zpopmin,"
         "lrange_100,lrange_300,lrange_500,lrange_600,mset")


def bench_suite(_):
    for threads in (1, 2, 8):
        print(f"\n## The load generator's default suite, Weft, io-threads {threads}: requests/s\n")
        group = servers(io_threads=threads)
        try:
            for server in group:
                rates = generate(server, f"-t {SUITE} -n 50000 -P 4 -r 100000")
                print(f"{server.name}: " + ", ".join(f"{rate:,.0f}" for rate in rates), flush=True)
        finally:
            stop(group)


def pipeline(server, requests, size=50):
    """Sends requests in blocks, the last of each alone; returns the slowest of these, in ms."""
    slowest, block = 0.0, []
    with server.connect() as s:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        file = s.makefile("rb")
        for request in requests:
            if len(block) < size - 1:
                block.append(request)
                continue
            s.sendall(b"".join(block))
            for _ in block:
                reply(file)
            block = []
            at = time.perf_counter()
            s.sendall(request)
            reply(file)
            slowest = max(slowest, (time.perf_counter() - at) * 1000)
        s.sendall(b"".join(block))
        for _ in block:
            reply(file)
    return slowest


LARGE = 2_000_000


def large(shape):
    """Requests that grow one value to a million elements and more."""
    rng = random.Random(1)
    order = list(range(LARGE))
    rng.shuffle(order)
    for n in order:
        if shape == "zset":
            yield command("ZADD", "z", rng.randrange(LARGE), "m:%012d" % n)
        elif shape == "hash":
            yield command("HSET", "h", "f:%012d" % n, "value")
        elif shape == "set":
            yield command("SADD", "s", "m:%012d" % n)
        else:
            yield command("RPUSH", "l", "element:%d" % n)


def bench_large(options):
    print("\n## One value of two million elements: the slowest request while it grows, ms\n")
    print("| value | server | each round | least |\n|---|---|---|---|")
    for shape in ("zset", "hash", "list"):
        rows = {}
        for _ in range(options.rounds):
            for server in servers():
                slowest = pipeline(server, large(shape))
                rows.setdefault(server.name, []).append(slowest)
                server.stop()
        for name, row in rows.items():
            each = ", ".join(f"{ms:.2f}" for ms in row)
            print(f"| {shape} | {name} | {each} | {min(row):.2f} |", flush=True)
    print("\n## One value of two million elements: CPU per request\n")
    group = servers(cpus="0")
    try:
        for server in group:
            for shape in ("zset", "hash", "list"):
                pipeline(server, large(shape), 500)
        some = f"-c 50 -P 16 -r {LARGE} -n 400000"
        compare(group, [
            ("ZADD", f"{some} ZADD z __rand_int__ m:__rand_int__"),
            ("ZRANK", f"{some} ZRANK z m:__rand_int__"),
            ("ZRANGE by rank", f"{some} ZRANGE z 1000000 1000009"),
            ("ZRANGE by score", f"{some} ZRANGE z __rand_int__ +inf BYSCORE LIMIT 0 10"),
            ("HSET", f"{some} HSET h f:__rand_int__ other"),
            ("HGET", f"{some} HGET h f:__rand_int__"),
            ("LINDEX 0", f"{some} LINDEX l 0"),
            ("LINDEX -1", f"{some} LINDEX l -1"),
            ("LPUSH", f"{some} LPUSH l element"),
        ], "0", "1", options.rounds)
    finally:
        stop(group)


def small(shape, n):
    """One of many small values, of ten members."""
    key = "key:%012d" % n
    if shape == "hash":
        return command("HSET", key, *[x for j in range(10) for x in (f"field{j}", f"value{n + j}")])
    if shape == "zset":
        return command("ZADD", key, *[x for j in range(10) for x in (n + j, f"member{j}")])
    if shape == "set":
        return command("SADD", key, *[f"member{n + j}" for j in range(10)])
    return command("RPUSH", key, *[f"element{n + j}" for j in range(10)])


def bench_collection_memory(_):
    print("\n## Resident memory of collections, bytes per key with ten members, per member of one\n")
    print("| shape | server | bytes | ratio |\n|---|---|---|---|")
    for title, shape, count, requests in [
        *[(f"{s} of 10 x 100,000", s, 100_000, lambda s=s: (small(s, n) for n in range(100_000)))
          for s in ("hash", "zset", "set", "list")],
        *[(f"{s} of 2,000,000", s, LARGE, lambda s=s: large(s))
          for s in ("hash", "zset", "set", "list")],
    ]:
        base = None
        for server in servers():
            before = server.status("VmRSS")
            pipeline(server, requests(), 500)
            time.sleep(1.5)
            each = (server.status("VmRSS") - before) * 1024 / count
            base = base or each
            print(f"| {title} | {server.name} | {each:.1f} | {each / base:.2f} |", flush=True)
            server.stop()
