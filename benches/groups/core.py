"""Strings, keys and connections: CPU per request, threads, memory, growth, idling, eviction."""
import bisect
import multiprocessing
import os
import random
import socket
import time

from .harness import command, compare, generate, servers


def bench_cpu(options):
    print("\n## CPU per request, one I/O thread, a million keys of 64 bytes\n")
    group = servers(cpus="0", floor=True)
    try:
        for server in group:
            generate(server, "-t set -r 1000000 -n 2000000 -P 50 -d 64", "1")
        shared = "-c 50 -d 64 -r 1000000"
        compare(group, [
            ("GET, depth 1", f"-t get {shared} -n 300000"),
            ("SET, depth 1", f"-t set {shared} -n 300000"),
            ("GET, depth 16", f"-t get {shared} -P 16 -n 1500000"),
            ("SET, depth 16", f"-t set {shared} -P 16 -n 1500000"),
        ], "0", "1", options.rounds)
    finally:
        for server in group:
            server.stop()


def bench_threads(options):
    for threads in (1, 2):
        print(f"\n## The whole machine, io-threads {threads}\n")
        group = servers(io_threads=threads)
        try:
            for server in group:
                generate(server, "-t set -r 1000000 -n 2000000 -P 50 -d 64")
            shared = "-c 50 -d 64 -r 1000000 --threads 2"
            compare(group, [
                ("GET, depth 1", f"-t get {shared} -n 300000"),
                ("SET, depth 1", f"-t set {shared} -n 300000"),
                ("GET, depth 16", f"-t get {shared} -P 16 -n 1500000"),
                ("SET, depth 16", f"-t set {shared} -P 16 -n 1500000"),
            ], None, None, options.rounds)
        finally:
            for server in group:
                server.stop()
    print("\n## One connection, 100,000 SETs in a pipeline, Weft\n")
    group = [s for t in (1, 8) for s in servers(io_threads=t) if s.name == "weft" or s.stop()]
    try:
        for server, threads in zip(group, (1, 8)):
            server.name = f"io-threads {threads}"
        compare(group, [("SET, depth 1000", "-t set -c 1 -P 1000 -d 64 -r 1000000 -n 1000000")],
                None, None, options.rounds)
    finally:
        for server in group:
            server.stop()


def load(server, keys, expiry):
    """Sets `keys` keys one by one in pipelines of 500; returns the slowest reply in ms."""
    value, slowest = b"v" * 64, 0.0
    with server.connect() as s:
        for start in range(0, keys, 500):
            block = b"".join(
                command("SET", b"key:%012d" % i, value, *(("EX", 86400) if expiry else ()))
                for i in range(start, start + 500))
            at = time.perf_counter()
            s.sendall(block)
            got = 0
            while got < 500 * 5:
                got += len(s.recv(65536))
            slowest = max(slowest, (time.perf_counter() - at) * 1000)
    return slowest


def bench_memory(_):
    print("\n## Resident memory per key: 16-byte keys, 64-byte values\n")
    print("| shape | server | keys | bytes/key | ratio |\n|---|---|---|---|---|")
    for shape in ("string", "ttl"):
        for keys in (100_000, 1_000_000, 3_000_000):
            base = None
            for server in servers():
                before = server.status("VmRSS")
                load(server, keys, shape == "ttl")
                time.sleep(1.5)
                each = (server.status("VmRSS") - before) * 1024 / keys
                base = base or each
                print(f"| {shape} | {server.name} | {keys:,} | {each:.1f} | {each / base:.2f} |",
                      flush=True)
                server.stop()


def bench_growth(_):
    print("\n## Loading five million keys one by one\n")
    print("| server | peak resident / final | slowest reply ms |\n|---|---|---|")
    for server in servers():
        slowest, value, peak = 0.0, b"v" * 64, 0
        with server.connect() as s:
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for i in range(0, 5_000_000, 50):
                block = b"".join(command("SET", b"key:%012d" % k, value) for k in range(i, i + 49))
                s.sendall(block)
                got = 0
                while got < 49 * 5:
                    got += len(s.recv(65536))
                one = command("SET", b"key:%012d" % (i + 49), value)
                at = time.perf_counter()
                s.sendall(one)
                s.recv(64)
                slowest = max(slowest, (time.perf_counter() - at) * 1000)
                if i % 50_000 == 0:
                    peak = max(peak, server.status("VmRSS"))
        time.sleep(1)
        final = server.status("VmRSS")
        peak = max(peak, final)
        print(f"| {server.name} | {peak / final:.3f} | {slowest:.2f} |", flush=True)
        server.stop()


def bench_idle(_):
    print("\n## Idle servers, twenty seconds\n")
    print("| server | io-threads | connections | PINGs a second | CPU, % of a core |")
    print("|---|---|---|---|---|")
    seconds = 20
    for threads, connections, pings in ((8, 200, 0), (16, 300, 7)):
        for server in servers(io_threads=threads):
            clients = [server.connect() for _ in range(connections)]
            time.sleep(2)
            before = sum(server.cpu())
            for turn in range(seconds * max(pings, 1)):
                if pings:
                    client = clients[turn % connections]
                    client.sendall(command("PING"))
                    client.recv(100)
                time.sleep(1 / max(pings, 1))
            share = (sum(server.cpu()) - before) / seconds * 100
            print(f"| {server.name} | {threads} | {connections} | {pings} | {share:.2f} |", flush=True)
            for client in clients:
                client.close()
            server.stop()


def cache_client(port, seed, seconds, result):
    """A cache: GETs of Zipf-distributed keys, SETs of the misses."""
    random.seed(seed)
    keys = 2_000_000
    total = 0.0
    weights = [total := total + 1 / (i + 1) ** 0.99 for i in range(keys)]
    value = b"v" * 1000
    hits = asked = 0
    end = time.time() + seconds
    with socket.create_connection(("127.0.0.1", port), 30) as s:
        file = s.makefile("rb")
        while time.time() < end:
            wanted = [bisect.bisect(weights, random.random() * total) for _ in range(200)]
            s.sendall(b"".join(command("GET", b"key:%012d" % k) for k in wanted))
            missed = []
            for key in wanted:
                size = int(file.readline()[1:])
                if size < 0:
                    missed.append(key)
                else:
                    file.read(size + 2)
            if missed:
                s.sendall(b"".join(command("SET", b"key:%012d" % k, value) for k in missed))
                for _ in missed:
                    file.readline()
            # The first half fills the cache.
            if time.time() > end - seconds / 2:
                asked += len(wanted)
                hits += len(wanted) - len(missed)
    result.put((hits, asked))


def bench_eviction(_):
    print("\n## A cache of 100 MB, allkeys-lru, 4 clients, Zipf 0.99 over 2 M keys, 60 s\n")
    print("| server | hit rate % | most used_memory / limit |\n|---|---|---|")
    limit = 100 << 20
    for server in servers(io_threads=4):
        with server.connect() as s:
            s.sendall(command("CONFIG", "SET", "maxmemory", limit, "maxmemory-policy", "allkeys-lru"))
            assert s.recv(64).startswith(b"+OK")
        result = multiprocessing.Queue()
        clients = [multiprocessing.Process(target=cache_client, args=(server.port, n, 60, result))
                   for n in range(4)]
        for client in clients:
            client.start()
        most = 0
        while any(c.is_alive() for c in clients):
            most = max(most, int(server.info("used_memory")))
            time.sleep(0.05)
        counts = [result.get() for _ in clients]
        rate = 100 * sum(h for h, _ in counts) / sum(a for _, a in counts)
        print(f"| {server.name} | {rate:.2f} | {most / limit:.4f} |", flush=True)
        server.stop()


def bench_connections(_):
    print("\n## 10,000 connections in waves, and 1,000 killed in the middle of requests\n")
    print("| server | descriptors before, after | resident kB before, after | threads |")
    print("|---|---|---|---|")
    for server in servers(io_threads=4):
        def state():
            return (len(os.listdir(f"/proc/{server.pid}/fd")), server.status("VmRSS"),
                    server.status("Threads"))

        def wave(count, request):
            clients = [server.connect() for _ in range(count)]
            for client in clients:
                client.sendall(request)
            for client in clients:
                if request.endswith(b"\r\n"):
                    client.recv(4096)
                client.close()

        whole = command("SET", "key", "v" * 1000)
        wave(500, whole)
        time.sleep(1)
        before = state()
        for _ in range(20):
            wave(500, whole)
        for _ in range(2):
            wave(500, whole[:600] + b"x")
        time.sleep(2)
        after = state()
        print(f"| {server.name} | {before[0]}, {after[0]} | {before[1]}, {after[1]} "
              f"| {before[2]}, {after[2]} |", flush=True)
        server.stop()
