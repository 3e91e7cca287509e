"""Latency of other clients while one client runs commands on millions of keys and elements."""
import multiprocessing
import time

from .collections import pipeline, stop
from .harness import command, servers

KEYS = 5_000_000
FIELDS = 2_000_000
ELEMENTS = 5_000_000
TURNS = 3


def probe(port, request, pause, end, result):
    """One request after the other with a pause; the latencies in ms."""
    import socket
    latencies = []
    with socket.create_connection(("127.0.0.1", port), 60) as s:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while not end.is_set():
            at = time.perf_counter()
            s.sendall(request)
            s.recv(4096)
            latencies.append((time.perf_counter() - at) * 1000)
            time.sleep(pause)
    result.put(latencies)


def swallow(s, request):
    """Sends a request and discards its reply, which is a line or an array of bulk strings."""
    s.sendall(request)
    file = s.makefile("rb", buffering=1 << 20)
    line = file.readline()
    if line[:1] != b"*":
        return
    left = 2 * int(line[1:])
    while left:
        block = file.read1(1 << 20)
        left -= block.count(b"\n")


def fill(server):
    pipeline(server, (command("SET", "key:%012d" % n, "v") for n in range(KEYS)), 1000)
    hash_fields = (command("HSET", "hash", *[x for f in range(n, n + 100)
                                             for x in (f"field:{f}", f"value:{f}")])
                   for n in range(0, FIELDS, 100))
    pipeline(server, hash_fields, 50)
    for turn in range(TURNS):
        elements = (command("RPUSH", f"list:{turn}", *[f"element:{n + i}" for i in range(500)])
                    for n in range(0, ELEMENTS, 500))
        pipeline(server, elements, 50)


def quantile(values, q):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * q))]


def bench_slow(_):
    print("\n## KEYS * over 5 M keys, HGETALL of 2 M fields, DEL of 5 M elements, three times;\n"
          "## meanwhile a GET and a PING each millisecond, one I/O thread for all\n")
    print("| server | during | requests | p50 ms | p99 ms | max ms | slow commands, s |")
    print("|---|---|---|---|---|---|---|")
    for server in servers():
        try:
            fill(server)
            time.sleep(2)
            for title, commands in (
                ("nothing", []),
                ("KEYS, HGETALL, DEL", [("KEYS", "*"), ("HGETALL", "hash"), ("DEL", None)]),
            ):
                watch(server, title, commands)
        finally:
            stop([server])


def watch(server, title, commands):
    end, result = multiprocessing.Event(), [multiprocessing.Queue() for _ in range(2)]
    requests = [command("GET", "key:%012d" % 77), command("PING")]
    probes = [multiprocessing.Process(target=probe, args=(server.port, r, 0.001, end, q))
              for r, q in zip(requests, result)]
    for p in probes:
        p.start()
    time.sleep(1)
    at = time.perf_counter()
    with server.connect() as s:
        s.settimeout(120)
        for turn in range(TURNS):
            for name, arg in commands:
                swallow(s, command(name, arg or f"list:{turn}"))
                time.sleep(0.2)
    took = time.perf_counter() - at
    time.sleep(1)
    end.set()
    for name, queue in zip(("GET", "PING"), result):
        ms = queue.get()
        print(f"| {server.name} | {title}: {name} | {len(ms)} | {quantile(ms, 0.5):.2f} "
              f"| {quantile(ms, 0.99):.2f} | {max(ms):.2f} | {took:.1f} |", flush=True)
    for p in probes:
        p.join()
