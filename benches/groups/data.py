"""Streams, bits, HyperLogLogs, geo: CPU per request; streams: memory; pub/sub: CPU per message."""
import random
import select
import socket
import time

from .collections import ask, pipeline, stop
from .harness import Server, command, compare, reply, servers, weft

SOME = 10
BITMAP = 1 << 20


def bench_data(options):
    print("\n## Streams, bits, HyperLogLogs and geo: CPU, depth 16, one I/O thread\n")
    group = servers(cpus="0")
    deep = "-c 50 -P 16 -r 100000"
    ten = " ".join(f"hll:{n}" for n in range(SOME))
    try:
        for server in group:
            fill(server)
        compare(group, [
            ("XADD", f"{deep} -n 1000000 XADD stream:__rand_int__ * field value"),
            ("XADD, one stream", f"{deep} -n 1000000 XADD log MAXLEN ~ 100000 * field value other value"),
            ("XRANGE of 10", f"{deep} -n 500000 XRANGE range __rand_int__-0 + COUNT 10"),
            ("SETBIT", f"{deep} -n 1000000 SETBIT bits:__rand_int__ 1000 1"),
            ("PFADD", f"{deep} -n 1000000 PFADD visitors:__rand_int__ visitor:__rand_int__"),
            ("GEOADD", f"{deep} -n 500000 GEOADD places 13.361389 38.115556 place:__rand_int__"),
            ("GEOSEARCH 5 km", f"{deep} -n 100000 GEOSEARCH city FROMLONLAT 13.4 52.5 BYRADIUS 5 km COUNT 10"),
            ("BITCOUNT of 1 MB", "-c 50 -P 16 -n 20000 BITCOUNT bitmap"),
            (f"PFCOUNT of {SOME}", f"-c 50 -P 16 -n 20000 PFCOUNT {ten}"),
            (f"PFMERGE of {SOME}", f"-c 50 -P 16 -n 20000 PFMERGE merged {ten}"),
        ], "0", "1", options.rounds)
        print("\n| workload | server | CPU us/entry | ratio |\n|---|---|---|---|")
        base = None
        for server in group:
            best = min(consume(server) for _ in range(options.rounds))
            base = base or best
            print(f"| XREADGROUP of 1, then XACK, batches of 16 | {server.name} | {best:.3f} "
                  f"| {best / base:.2f} |", flush=True)
    finally:
        stop(group)


def fill(server):
    pipeline(server, (command("XADD", "range", f"{n}-0", "field", "value", "other", n)
                      for n in range(1, 100_000)), 500)
    ask(server, "SETBIT", "bitmap", BITMAP * 8 - 1, 1)
    draw = random.Random(1)
    pipeline(server, (command("SETBIT", "bitmap", draw.randrange(BITMAP * 8), 1)
                      for _ in range(50_000)), 500)
    pipeline(server, (command("PFADD", f"hll:{n % SOME}", *[f"visitor:{n}:{i}" for i in range(50)])
                      for n in range(10_000)), 100)
    pipeline(server, (command("GEOADD", "city", 13.4 + draw.gauss(0, 0.2), 52.5 + draw.gauss(0, 0.2),
                              f"place:{n}") for n in range(20_000)), 500)


def consume(server, entries=100_000, batch=16):
    """CPU microseconds per entry that is read by a group and acknowledged."""
    ask(server, "DEL", "jobs")
    pipeline(server, (command("XADD", "jobs", f"{n}-0", "field", "value")
                      for n in range(1, entries + 1)), 500)
    ask(server, "XGROUP", "CREATE", "jobs", "group", "0")
    read = command("XREADGROUP", "GROUP", "group", "one", "COUNT", 1, "STREAMS", "jobs", ">") * batch
    with server.connect() as s:
        before = sum(server.cpu())
        for first in range(1, entries - batch, batch):
            s.sendall(read)
            receive(s, lambda got: got.count(b"value") == batch)
            s.sendall(b"".join(command("XACK", "jobs", "group", f"{n}-0")
                               for n in range(first, first + batch)))
            receive(s, lambda got: got == b":1\r\n" * batch)
        return (sum(server.cpu()) - before) / entries * 1e6


def receive(s, is_all):
    got = b""
    while not is_all(got):
        got += s.recv(1 << 16)


def bench_stream_memory(_):
    print("\n## Resident memory of streams, bytes per entry\n")
    print("| shape | server | bytes | ratio |\n|---|---|---|---|")
    for title, count, requests, end in [
        ("one stream of 1,000,000, two fields", 1_000_000,
         (lambda: (command("XADD", "s", f"{1_700_000_000_000 + n}-0", "user", n, "action", "login")
                   for n in range(1_000_000))), []),
        ("100,000 streams of 10", 1_000_000,
         (lambda: (command("XADD", f"stream:{n % 100_000}", f"{1_700_000_000_000 + n}-0", "user", n,
                           "action", "login") for n in range(1_000_000))), []),
        ("1,000,000 pending", 1_000_000,
         (lambda: (command("XADD", "s", f"{1_700_000_000_000 + n}-0", "f", "v")
                   for n in range(1_000_000))),
         [("XGROUP", "CREATE", "s", "g", "0")]
         + [("XREADGROUP", "GROUP", "g", "c", "COUNT", 1000, "STREAMS", "s", ">")] * 1000),
    ]:
        base = None
        for server in servers():
            before = server.status("VmRSS")
            pipeline(server, requests(), 500)
            if end:
                time.sleep(1.5)
                before = server.status("VmRSS")
            with server.connect() as s:
                file = s.makefile("rb")
                for line in end:
                    s.sendall(command(*line))
                    reply(file)
            time.sleep(1.5)
            each = (server.status("VmRSS") - before) * 1024 / count
            base = base or each
            print(f"| {title} | {server.name} | {each:.1f} | {each / base:.2f} |", flush=True)
            server.stop()


def bench_fanout(options):
    subscribers, messages, batch = 1000, 4000, 16
    print(f"\n## One publisher, {subscribers} subscribers, 64-byte messages, batches of {batch}\n")
    print("| server | CPU us per delivered message | ratio |\n|---|---|---|")
    group = servers() + [Server("weft, 2 threads",
                                weft(2) + ["--io-threads-always-active", "yes"])]
    base = None
    for server in group:
        try:
            best = min(fan_out(server, subscribers, messages, batch) for _ in range(options.rounds))
            base = base or best
            print(f"| {server.name} | {best:.3f} | {best / base:.2f} |", flush=True)
        finally:
            server.stop()


def fan_out(server, subscribers, messages, batch):
    poll, sockets = select.epoll(), {}
    for _ in range(subscribers):
        s = server.connect()
        s.sendall(command("SUBSCRIBE", "news"))
        receive(s, lambda got: got.endswith(b":1\r\n"))
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        s.setblocking(False)
        poll.register(s, select.EPOLLIN)
        sockets[s.fileno()] = s
    each = len(command("message", "news", "x" * 64))
    request = command("PUBLISH", "news", "x" * 64) * batch
    with server.connect() as publisher:
        before = sum(server.cpu())
        for _ in range(messages // batch):
            publisher.sendall(request)
            left = subscribers * batch * each
            while left:
                for descriptor, _ in poll.poll():
                    left -= len(sockets[descriptor].recv(1 << 20))
            receive(publisher, lambda got: got.count(b"\r\n") == batch)
        used = sum(server.cpu()) - before
    for s in sockets.values():
        s.close()
    return used / (subscribers * messages) * 1e6
