"""Hostile clients, one kind after the other: what they cost the server, and what a well-behaved client notices.

Counts come from the environment, for example `PASSWORDS=1000`; see COUNTS.
"""
import contextlib
import multiprocessing
import os
import pathlib
import resource
import shutil
import socket
import ssl
import struct
import subprocess
import tempfile
import time

from .access import certificate, encrypted
from .handshakes import context
from .harness import command, peer, reply
from .slow import quantile

COUNTS = {name: int(os.environ.get(name, default)) for name, default in (
    ("HALF_OPEN", 5000), ("GARBAGE", 5000), ("ONE_BYTE", 100_000), ("RENEGOTIATIONS", 100), ("PLAIN_ON_TLS", 5000),
    ("TLS_ON_PLAIN", 5000), ("CUT", 500), ("PASSWORDS", 100_000), ("STRANGERS", 20_000))}
# Half-open handshakes and strangers stay so long, seconds.
HOLD = 13
PINGS_A_SECOND = 200
LOGIN_PERIOD = 0.25
SERVER_CPU, CLIENT_CPU = "0", "1"


class Target:
    """Where the attack goes."""

    def __init__(self, server, cert):
        self.tls, self.plain, self.cert = server.port, server.plain_port, cert

    def connect(self, port=None):
        return socket.create_connection(("127.0.0.1", port or self.tls), 30)

    def session(self, password=None):
        s = context(self.cert).wrap_socket(self.connect())
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if password:
            s.sendall(command("AUTH", password))
            assert s.recv(100).startswith(b"+OK")
        return s


def abort(s):
    """Closes without a word: the other side gets a reset."""
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.close()


def read_to_end(s):
    with contextlib.suppress(OSError):
        while s.recv(65536):
            pass


def nothing(_):
    time.sleep(5)


def half_open(target):
    held = []
    for n in range(COUNTS["HALF_OPEN"]):
        held.append(target.connect())
        if n % 2:
            # The beginning of a ClientHello.
            held[-1].sendall(bytes([22, 3, 1, 2, 0, 1, 0, 1, 0xfc]))
    time.sleep(HOLD)


def garbage(target):
    for _ in range(COUNTS["GARBAGE"]):
        with contextlib.suppress(OSError), target.connect() as s:
            s.sendall(os.urandom(4096))
            s.shutdown(socket.SHUT_WR)
            read_to_end(s)


def one_byte(target):
    size = COUNTS["ONE_BYTE"] // 4
    clients = [target.session("secret") for _ in range(4)]
    request = command("SET", "key", "x" * size)
    for at in range(len(request)):
        for client in clients:
            client.sendall(request[at:at + 1])
    for client in clients:
        assert client.recv(64) == b"+OK\r\n"


def renegotiate(target):
    for _ in range(COUNTS["RENEGOTIATIONS"]):
        line = ["openssl", "s_client", "-tls1_2", "-connect", f"127.0.0.1:{target.tls}"]
        with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT) as client:
            client.stdin.write(b"R\n")
            client.stdin.flush()
            with contextlib.suppress(subprocess.TimeoutExpired):
                client.wait(2)
            client.kill()


def plain_on_tls(target):
    for _ in range(COUNTS["PLAIN_ON_TLS"]):
        with contextlib.suppress(OSError), target.connect() as s:
            s.sendall(command("PING"))
            s.shutdown(socket.SHUT_WR)
            read_to_end(s)


def tls_on_plain(target):
    hello = ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        context(target.cert).wrap_bio(ssl.MemoryBIO(), hello).do_handshake()
    hello = hello.read()
    for _ in range(COUNTS["TLS_ON_PLAIN"]):
        with contextlib.suppress(OSError), target.connect(target.plain) as s:
            s.sendall(hello)
            s.shutdown(socket.SHUT_WR)
            read_to_end(s)


def cut(target):
    request = command("SET", "key", b"x" * (1 << 20))
    for _ in range(COUNTS["CUT"]):
        s = target.session("secret")
        s.sendall(request[:1 << 19])
        abort(s)


def passwords(target):
    clients = [target.session() for _ in range(8)]
    # More would exceed the replies that a client may owe before its login.
    depth = 10
    request = b"".join(command("AUTH", f"wrong{n}") for n in range(depth))
    files = [client.makefile("rb") for client in clients]
    for _ in range(COUNTS["PASSWORDS"] // depth // len(clients)):
        for client in clients:
            client.sendall(request)
        for file in files:
            for _ in range(depth):
                assert reply(file).startswith(b"-WRONGPASS")


def hold(target, count):
    held, request = [], command("PING")
    for _ in range(count):
        with contextlib.suppress(OSError):
            held.append(target.connect(target.plain))
            held[-1].sendall(request)
    time.sleep(HOLD)


def strangers(target):
    # The limit of open files is one of a process.
    parts = [multiprocessing.Process(target=hold, args=(target, COUNTS["STRANGERS"] // 4)) for _ in range(4)]
    for part in parts:
        part.start()
    for part in parts:
        part.join()


ATTACKS = [
    ("none, 5 s", nothing),
    (f"{COUNTS['HALF_OPEN']:,} half-open handshakes, held {HOLD} s", half_open),
    (f"{COUNTS['GARBAGE']:,} times 4 KB of garbage", garbage),
    (f"{COUNTS['ONE_BYTE']:,} records of one byte", one_byte),
    (f"{COUNTS['RENEGOTIATIONS']:,} renegotiations", renegotiate),
    (f"{COUNTS['PLAIN_ON_TLS']:,} times RESP on the TLS port", plain_on_tls),
    (f"{COUNTS['TLS_ON_PLAIN']:,} times TLS on the plain port", tls_on_plain),
    (f"{COUNTS['CUT']:,} resets in the middle of 1 MB", cut),
    (f"{COUNTS['PASSWORDS']:,} wrong passwords", passwords),
    (f"{COUNTS['STRANGERS']:,} connections without login, held {HOLD} s", strangers),
]


def run(attack, target):
    os.sched_setaffinity(0, {int(CLIENT_CPU)})
    attack(target)


def behave(target, end, result):
    """PINGs over TLS, and logins on new connections. Latencies of PING in ms; logins, and how many failed."""
    os.sched_setaffinity(0, {int(CLIENT_CPU)})
    # Only the server should delay it, not the attack's own process. It needs root.
    with contextlib.suppress(OSError):
        os.nice(-10)
    ms, logins, failed, next_login = [], 0, 0, 0
    s = target.session("secret")
    result.put("ready")
    while not end.is_set():
        at = time.perf_counter()
        s.sendall(command("PING"))
        assert s.recv(100) == b"+PONG\r\n"
        ms.append((time.perf_counter() - at) * 1000)
        if time.monotonic() >= next_login:
            next_login = time.monotonic() + LOGIN_PERIOD
            logins += 1
            try:
                target.session("secret").close()
            except (OSError, AssertionError):
                failed += 1
        time.sleep(1 / PINGS_A_SECOND)
    result.put((ms, logins, failed))


class Observer:
    """INFO on a connection of its own, opened before the attack."""

    def __init__(self, server):
        self.socket = socket.create_connection(("127.0.0.1", server.plain_port), 60)
        self.file = self.socket.makefile("rb")
        # An error without a password, which is set later.
        self.call("AUTH", "secret")

    def call(self, *args):
        self.socket.sendall(command(*args))
        return reply(self.file)

    def memory(self):
        lines = self.call("INFO", "memory").split(b"\r\n")
        return next(int(line[12:]) for line in lines if line.startswith(b"used_memory:"))


def lines_of_log(server):
    with open(f"{server.folder}/log", "rb") as log:
        return sum(1 for _ in log)


def measure(server, title, attack, cert):
    target, observer = Target(server, cert), Observer(server)
    end, result = multiprocessing.Event(), multiprocessing.Queue()
    client = multiprocessing.Process(target=behave, args=(target, end, result))
    client.start()
    assert result.get() == "ready"
    rss, used = server.status("VmRSS"), observer.memory()
    log, cpu, begin = lines_of_log(server), sum(server.cpu()), time.monotonic()
    most_rss, most_used = rss, used
    attacker = multiprocessing.Process(target=run, args=(attack, target))
    attacker.start()
    while attacker.is_alive():
        most_rss, most_used = max(most_rss, server.status("VmRSS")), max(most_used, observer.memory())
        time.sleep(0.05)
    cpu, seconds = sum(server.cpu()) - cpu, time.monotonic() - begin
    log = lines_of_log(server) - log
    end.set()
    ms, logins, failed = result.get()
    client.join()
    result = "" if attacker.exitcode == 0 else " (attack failed)"
    print(f"| {title}{result} | {server.name} | {(most_rss - rss) / 1024:.1f} | {(most_used - used) / (1 << 20):.1f} "
          f"| {cpu:.2f} of {seconds:.1f} | {log} | {quantile(ms, 0.5):.2f} | {quantile(ms, 0.99):.2f} "
          f"| {max(ms):.1f} | {failed} of {logins} |", flush=True)


def bench_attacks(_):
    """Nine kinds of hostile clients against Weft and Valkey, both with a password and a TLS port."""
    if not shutil.which("openssl") or not peer("valkey-server"):
        return print("skipped: needs openssl and valkey-server")
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    folder = pathlib.Path(tempfile.mkdtemp(prefix="bench-tls-"))
    paths = certificate(folder)
    print("\n## Hostile clients, io-threads 1, maxclients 10000\n")
    print("| attack | server | RSS, MB more | used_memory, MB more | CPU s of the attack's s | log lines | PING of another "
          "client: p50 ms | p99 ms | max ms | its logins that failed |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for title, attack in ATTACKS:
        for server in encrypted(1, SERVER_CPU, paths):
            Observer(server).call("CONFIG", "SET", "requirepass", "secret")
            measure(server, title, attack, paths[0])
            server.stop()
    shutil.rmtree(folder, ignore_errors=True)
