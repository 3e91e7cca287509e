"""MIGRATESLOTS of 1,000 slots with a million keys between two nodes, under an open loop of GETs and SETs on these keys."""
import array
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time

from .harness import ROOT, TICK, Server, command, peer, reply

KEYS = int(os.environ.get("MOVES_KEYS", "1000000"))
SLOTS = int(os.environ.get("MOVES_SLOTS", "1000"))
RATE = int(os.environ.get("MOVES_RATE", "20000"))
SIZE = int(os.environ.get("MOVES_SIZE", "100"))
WRITES = int(os.environ.get("MOVES_WRITES", "50"))
QUIET = float(os.environ.get("MOVES_QUIET", "10"))
CONNECTIONS = 50
LIMIT = 300


def bench_moves(options):
    print(f"\n## MIGRATESLOTS of {SLOTS:,} slots with {KEYS:,} keys of {SIZE} bytes, under {RATE:,} requests/s on these keys, "
          f"{WRITES} % SET\n")
    print("Latency from the intended sending time, in ms: quiet / during the move. Writes held: as the source logs it; longest time "
          "without a reply to a SET, as the client sees it. CPU: of both servers, above that of a quiet run. Lower is better.\n")
    print("| server | p50 | p99 | p99.9 | max | writes held, ms | longest gap of SETs, ms: quiet / move | duration, s "
          "| CPU s for 1 M keys | MOVED, ASK | refused, retried | errors |")
    print("|---|---|---|---|---|---|---|---|---|---|---|---|", flush=True)
    if "CLUSTER_LOAD" not in os.environ:
        subprocess.run(["cargo", "build", "--release", "-p", "weft-benchmark", "--example", "cluster_load"],
                       cwd=ROOT, check=True)
    pairs = {"weft": Weft}
    if peer("valkey-server"):
        pairs = {"valkey": Valkey, **pairs}
    running = {name: pair() for name, pair in pairs.items()}
    try:
        for pair in running.values():
            pair.form()
            fill(pair.servers[0])
        for turn in range(options.rounds):
            for name, pair in running.items():
                row(name, pair, turn % 2)
    finally:
        for pair in running.values():
            pair.stop()


class Valkey:
    def __init__(self):
        self.servers = [self.node("valkey") for _ in range(2)]

    def node(self, name):
        return Server(name, [peer("valkey-server"), *self.args(), "--cluster-port", str(free_port())])

    def args(self):
        return ["--port", "{port}", "--bind", "127.0.0.1", "--save", "", "--cluster-enabled", "yes",
                "--cluster-node-timeout", "5000", "--io-threads", "1"]

    def form(self):
        first, second = self.servers
        talk(first, "CLUSTER", "ADDSLOTSRANGE", 0, 8191)
        talk(second, "CLUSTER", "ADDSLOTSRANGE", 8192, 16383)
        talk(first, "CLUSTER", "SET-CONFIG-EPOCH", 1)
        talk(second, "CLUSTER", "SET-CONFIG-EPOCH", 2)
        bus = re.search(rb"@(\d+)", talk(second, "CLUSTER", "NODES"))[1]
        talk(first, "CLUSTER", "MEET", "127.0.0.1", second.port, bus)
        for server in self.servers:
            wait(lambda: b"cluster_state:ok" in talk(server, "CLUSTER", "INFO"))
        wait(lambda: all(len(talk(server, "CLUSTER", "NODES").splitlines()) == 2 for server in self.servers))

    def held(self, source):
        """Valkey logs no time for which writes were held."""
        return None

    def stop(self):
        for server in self.servers:
            server.stop()


class Weft(Valkey):
    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="bench-etcd-")
        ports = [free_port(), free_port()]
        client, other = (f"http://127.0.0.1:{port}" for port in ports)
        program = os.environ.get("ETCD_BIN") or peer("etcd") or sys.exit("no etcd in ETCD_BIN, PEERS_BIN or PATH")
        program = f"{program}/etcd" if os.path.isdir(program) else program
        self.etcd = subprocess.Popen(
            [program, "--data-dir", self.folder.name, "--listen-client-urls", client, "--advertise-client-urls", client,
             "--listen-peer-urls", other, "--initial-advertise-peer-urls", other,
             "--initial-cluster", f"default={other}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.store = f"etcd://127.0.0.1:{ports[0]}/bench"
        self.servers = [self.node("weft") for _ in range(2)]

    def node(self, name):
        program = os.environ.get("WEFT_SERVER", f"{ROOT}/target/release/weft-server")
        return Server(name, [program, *self.args(), "--cluster-store", self.store, "--cluster-announce-ip", "127.0.0.1"])

    def held(self, source):
        log = open(f"{source.folder}/log").read()
        times = re.findall(r"writes held for ([\d.]+) ms", log)
        return float(times[-1]) if times else None

    def stop(self):
        super().stop()
        self.etcd.kill()
        self.etcd.wait()
        self.folder.cleanup()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait(is_reached):
    end = time.monotonic() + LIMIT
    while not is_reached():
        if time.monotonic() > end:
            sys.exit("a state was not reached in time")
        time.sleep(0.02)


def talk(server, *words):
    with server.connect() as s:
        s.sendall(command(*words))
        return reply(s.makefile("rb"))


def fill(server):
    """Keys that hash to the first slots, KEYS / SLOTS in each."""
    each, batch = KEYS // SLOTS, 20
    with server.connect() as s:
        file, slots = s.makefile("rb"), list(tags())
        for at in range(0, SLOTS, batch):
            keys = [f"{{{tag}}}:{i}" for tag in slots[at:at + batch] for i in range(each)]
            value = os.urandom(SIZE)
            s.sendall(b"".join(command("SET", key, value) for key in keys))
            for _ in keys:
                answer = reply(file)
                if answer != b"+OK":
                    sys.exit(f"SET: {answer}")


def tags():
    """A number for each of the first slots that hashes to it, as the generator computes it."""
    table = []
    for byte in range(256):
        crc = byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ 0x1021) & 0xFFFF if crc & 0x8000 else crc << 1
        table.append(crc)
    found, number = {}, 0
    while len(found) < SLOTS:
        crc = 0
        for byte in str(number).encode():
            crc = (crc << 8 & 0xFFFF) ^ table[crc >> 8 ^ byte]
        if crc % 16384 < SLOTS:
            found.setdefault(crc % 16384, number)
        number += 1
    return found.values()


def row(name, pair, turn):
    """Measures a quiet time, then a move to the other node."""
    source, target = pair.servers[turn], pair.servers[1 - turn]
    program = os.environ.get("CLUSTER_LOAD", f"{ROOT}/target/release/examples/cluster_load")
    with tempfile.NamedTemporaryFile(prefix="bench-moves-") as file:
        load = subprocess.Popen(
            ["nice", "-n", "-10", program, file.name, f"{source.port},{target.port}", str(RATE), str(SLOTS),
             str(KEYS // SLOTS), str(SIZE), str(WRITES), str(CONNECTIONS)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        time.sleep(2)
        begin, before = time.monotonic_ns(), cpu(pair)
        time.sleep(QUIET)
        ordered, between = time.monotonic_ns(), cpu(pair)
        node = talk(target, "CLUSTER", "MYID").decode()
        answer = talk(source, "CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", 0, SLOTS - 1, "NODE", node)
        if answer != b"+OK":
            sys.exit(f"{name}: MIGRATESLOTS: {answer}")
        wait(lambda: all(move["state"] in ("success", "failed", "cancelled", "canceled") for move in moves(source)))
        moved = time.monotonic_ns()
        state = [(move["state"], move["message"]) for move in moves(source)]
        # The source deletes its keys.
        wait(lambda: talk(source, "DBSIZE") == 0)
        ended, after = time.monotonic_ns(), cpu(pair)
        time.sleep(1)
        printed, _ = load.communicate()
        if load.returncode or any(text != "success" for text, _ in state):
            sys.exit(f"{name}: generator {load.returncode}, moves {state}")
        numbers = array.array("Q")
        numbers.frombytes(file.read())
    samples = list(zip(numbers[0::3], numbers[1::3], numbers[2::3]))
    counts = json.loads(printed)
    quiet = samples_between(samples, begin, ordered)
    busy = samples_between(samples, ordered, ended)
    net = after - between - (between - before) * (ended - ordered) / (ordered - begin)
    redirects = counts.pop("MOVED", 0) + counts.pop("ASK", 0)
    refused = counts.pop("CLUSTERDOWN", 0) + counts.pop("TRYAGAIN", 0)
    both = [f"{of(quiet):.2f} / {of(busy):.2f}" for of in (percentile(50), percentile(99), percentile(99.9), percentile(100))]
    held = pair.held(source)
    print(f"| {name} | {' | '.join(both)} | {'' if held is None else f'{held:.1f}'} | {gap(quiet):.1f} / {gap(busy):.1f} "
          f"| {(moved - ordered) / 1e9:.1f} | {net / KEYS * 1e6:.2f} | {redirects} | {refused} "
          f"| {sum(counts.values())} {' '.join(counts)} |", flush=True)


def cpu(pair):
    """Seconds of both servers, and of processes that they have forked and that have ended."""
    forked = 0
    for server in pair.servers:
        fields = open(f"/proc/{server.pid}/stat").read().rsplit(")", 1)[1].split()
        forked += (int(fields[13]) + int(fields[14])) / TICK
    return forked + sum(sum(server.cpu()) for server in pair.servers)


def moves(server):
    """The moves that a node knows, the fields by name."""
    found = []
    for fields in talk(server, "CLUSTER", "GETSLOTMIGRATIONS"):
        texts = [field.decode() if isinstance(field, bytes) else field for field in fields]
        found.append(dict(zip(texts[0::2], texts[1::2])))
    return found


def samples_between(samples, begin, end):
    return [sample for sample in samples if begin <= sample[0] < end]


def percentile(percent):
    def of(samples):
        latencies = sorted(done - due for due, done, _ in samples)
        return latencies[min(len(latencies) - 1, int(len(latencies) * percent / 100))] / 1e6
    return of


def gap(samples):
    """The longest time without a reply to a write, in ms."""
    times = sorted(done for _, done, is_write in samples if is_write)
    return max((b - a for a, b in zip(times, times[1:])), default=0) / 1e6
