"""Clients that send and never read: the memory that they use, and the latency of other clients."""
import multiprocessing
import socket
import time

from .harness import command, servers
from .slow import quantile

SECONDS = 10
STRANGERS = 4
PROBES_A_SECOND = 500


def stranger(port, end):
    """Sends without a password, never reads, reconnects when the server closes the connection."""
    request = command("PING") * 2000
    while not end.is_set():
        try:
            with socket.create_connection(("127.0.0.1", port), 1) as s:
                s.settimeout(0.2)
                while not end.is_set():
                    try:
                        s.sendall(request)
                    except TimeoutError:
                        pass
        except OSError:
            pass


def probe(port, end, result):
    """PINGs of a client that has logged in; latencies in ms."""
    latencies = []
    with socket.create_connection(("127.0.0.1", port), 60) as s:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        s.sendall(command("AUTH", "secret"))
        assert s.recv(100).startswith(b"+OK")
        while not end.is_set():
            at = time.perf_counter()
            s.sendall(command("PING"))
            s.recv(100)
            latencies.append((time.perf_counter() - at) * 1000)
            time.sleep(1 / PROBES_A_SECOND)
    result.put(latencies)


def bench_flood(_):
    print(f"\n## {STRANGERS} clients without the password send and don't read, repeatedly, "
          f"{SECONDS} s\n")
    print("| server | most resident MB | PING of others: p50 ms | p99 ms | max ms |")
    print("|---|---|---|---|---|")
    for server in servers():
        with server.connect() as s:
            s.sendall(command("CONFIG", "SET", "requirepass", "secret"))
            s.recv(100)
        for name, count in (("alone", 0), ("flooded", STRANGERS)):
            end, result = multiprocessing.Event(), multiprocessing.Queue()
            clients = [multiprocessing.Process(target=stranger, args=(server.port, end))
                       for _ in range(count)]
            clients.append(multiprocessing.Process(target=probe, args=(server.port, end, result)))
            for client in clients:
                client.start()
            most = 0
            for _ in range(SECONDS * 20):
                most = max(most, server.status("VmRSS"))
                time.sleep(0.05)
            end.set()
            ms = result.get()
            for client in clients:
                client.join()
            print(f"| {server.name}, {name} | {most / 1024:.1f} | {quantile(ms, 0.5):.2f} "
                  f"| {quantile(ms, 0.99):.2f} | {max(ms):.2f} |", flush=True)
        server.stop()
