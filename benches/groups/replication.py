"""A primary with and without a replica: the cost of a write on both sides, and the effect of replicas in
trouble and of a full sync on clients."""
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from . import hdr
from .durability import fill, resident, talk
from .harness import ROOT, Server, peer, weft as weft_line, weft_benchmark

REQUESTS = 2_000_000
KEYS = int(os.environ.get("REPL_KEYS", "5000000"))
SECONDS = int(os.environ.get("REPL_SECONDS", "60"))
RATE = int(os.environ.get("REPL_RATE", "20000"))
MB = 1 << 20


def bench_replication(options):
    print("\n## SET at depth 16, one I/O thread, 50 clients: CPU time in us of a request\n")
    print("| server | primary, without a replica | with one | ratio | replica | caught up after |")
    print("|---|---|---|---|---|---|")
    weft = os.environ.get("WEFT_SERVER", f"{ROOT}/target/release/weft-server")
    for name, program in (("valkey", peer("valkey-server")), ("weft", weft)):
        rounds = [(run(name, program, False), run(name, program, True))
                  for _ in range(options.rounds)]
        alone = statistics.median(alone[0] for alone, _ in rounds)
        primary, replica, late = (statistics.median(both[n] for _, both in rounds) for n in range(3))
        print(f"| {name} | {alone:.3f} | {primary:.3f} | {primary / alone:.2f} | {replica:.3f} | "
              f"{late:.1f} s |", flush=True)


def bench_keeping_up(_):
    """A replica of a primary with as many writes as two threads can serve."""
    print("\n## SET at depth 16, two I/O threads that are always active, 20 s\n")
    print("| server | requests/s | lag, ms: median | at most | equal after, s |")
    print("|---|---|---|---|---|")
    for name, line in primaries("--io-threads-always-active", "yes", "--client-output-buffer-limit", "replica 0 0 0"):
        primary, replica = Server(name, line), Server(name, line)
        try:
            follow(replica, primary)
            generator = subprocess.Popen(
                [weft_benchmark(), "-p", str(primary.port), "-t", "set", "-P", "16", "-c", "50", "--threads", "1",
                 "-r", "100000", "-d", "64", "--duration", "20", "--csv"], stdout=subprocess.PIPE, text=True)
            lags, began, first = [], time.monotonic(), int(primary.info("master_repl_offset"))
            while generator.poll() is None:
                # The replica first: writes between the two calls only increase its lag.
                applied = int(replica.info("slave_repl_offset"))
                lags.append(int(primary.info("master_repl_offset")) - applied)
                time.sleep(0.1)
            ended = time.monotonic()
            written = int(primary.info("master_repl_offset")) - first
            while primary.info("master_repl_offset") != replica.info("slave_repl_offset"):
                time.sleep(0.01)
            late = time.monotonic() - ended
            rate = float(generator.stdout.read().strip().splitlines()[-1].split(",")[1].strip('"'))
            per_ms = written / ((ended - began) * 1000)
            print(f"| {name} | {rate:,.0f} | {statistics.median(lags) / per_ms:.1f} | {max(lags) / per_ms:.1f} "
                  f"| {late:.2f} |", flush=True)
        finally:
            for server in (replica, primary):
                server.stop()


def start(name, program):
    return Server(name, [program, "--port", "{port}", "--save", "", "--io-threads", "1",
                         "--repl-diskless-sync-delay", "0",
                         "--client-output-buffer-limit", "replica 0 0 0"])


def run(name, program, replicated):
    """CPU time of primary and replica for a request (us), and seconds until their offsets are equal."""
    servers = [start(name, program)]
    try:
        if replicated:
            servers.append(start(name, program))
            follow(servers[1], servers[0])
        before = [sum(server.cpu()) for server in servers]
        began = time.monotonic()
        subprocess.run([peer("valkey-benchmark"), "-p", str(servers[0].port), "-t", "set", "-P", "16",
                        "-c", "50", "-n", str(REQUESTS), "-r", "100000", "-q"],
                       check=True, stdout=subprocess.DEVNULL)
        while replicated and servers[0].info("master_repl_offset") != servers[1].info("slave_repl_offset"):
            time.sleep(0.05)
        late = time.monotonic() - began
        costs = [(sum(server.cpu()) - was) / REQUESTS * 1e6 for server, was in zip(servers, before)]
        return costs[0], costs[-1], late
    finally:
        for server in servers:
            server.stop()


def follow(replica, primary):
    talk(replica, "REPLICAOF", "127.0.0.1", primary.port)
    while replica.info("master_link_status") != "up":
        time.sleep(0.05)


def primaries(*options):
    """The command lines of Valkey, if it is installed, and Weft, with as many I/O threads as the machine has CPUs."""
    valkey = peer("valkey-server")
    lines = [("valkey", [valkey, "--port", "{port}", "--bind", "127.0.0.1", "--io-threads", "2"])]
    lines = lines if valkey else []
    return [(name, line + ["--save", "", "--repl-diskless-sync-delay", "0", *options])
            for name, line in lines + [("weft", weft_line(2))]]


class Load:
    """An open loop of SETs with a histogram for each second, and the memory of the server meanwhile. The
    generator has the highest priority, so a late reply is late in the server."""

    def __init__(self, server, seconds, keys, size):
        self.server, self.peak = server, 0
        self.file = tempfile.NamedTemporaryFile(prefix="bench-hdr-")
        self.process = subprocess.Popen(
            ["nice", "-n", "-10", weft_benchmark(), "-p", str(server.port), "-t", "set", "-r", str(keys), "-d",
             str(size), "-c", "50", "--threads", "1", "--rps", str(RATE), "--duration", str(seconds),
             "--hdr", self.file.name, "--csv"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.watch = threading.Thread(target=self.measure, daemon=True)
        self.watch.start()

    def measure(self):
        while self.process.poll() is None:
            self.peak = max(self.peak, resident(self.server))
            time.sleep(1)

    def end(self):
        """Waits for the end of the load; returns the latencies of all seconds."""
        _, errors = self.process.communicate()
        if self.process.returncode:
            sys.exit(f"weft-benchmark: {errors}")
        self.watch.join()
        return hdr.read(self.file.name)


class Stopped:
    """A replica of the same kind that is attached, and stops."""

    title = "a replica stopped"

    def __init__(self, name, line, primary):
        self.replica = Server(name, line)
        follow(self.replica, primary)

    def begin(self):
        self.replica.process.send_signal(signal.SIGSTOP)

    def end(self):
        self.replica.stop()
        return []


class Sinks:
    """Replicas that ask for a copy."""

    def __init__(self, title, count, pace):
        self.title, self.count, self.pace = title, count, pace

    def __call__(self, _name, _line, primary):
        self.primary = primary
        return self

    def begin(self):
        pace = [str(self.pace)] if self.pace else []
        self.process = subprocess.Popen(
            [sys.executable, str(pathlib.Path(__file__).with_name("sink.py")), str(self.primary.port),
             str(self.count), *pace], stdout=subprocess.PIPE, text=True)

    def end(self):
        """The events that they saw, with seconds since the start."""
        self.process.terminate()
        output, _ = self.process.communicate()
        return output.split("\n")[:-1]


def bench_troubled_replicas(_):
    """Three kinds of trouble, each during an open loop of writes."""
    keys, size = min(KEYS, 1_000_000), 256
    print(f"\n## {keys:,} keys of {size} bytes, {RATE:,} SETs a second, {SECONDS} s without and {SECONDS} s "
          f"with replicas in trouble\n")
    print("| server | trouble | p99 ms without | with | ratio | slowest ms without | with | MB more "
          "| replicas saw, after s | last log line |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name, line in primaries():
        for trouble in (Stopped, Sinks("5 ask for a copy at once", 5, 0),
                        Sinks("one reads 1 MB/s", 1, MB)):
            primary = Server(name, line)
            fill(primary, keys, size)
            one = trouble(name, line, primary)
            time.sleep(2)
            quiet = Load(primary, SECONDS, keys, size)
            before = hdr.percentiles(quiet.end(), 0, time.time(), 99)
            troubled = Load(primary, SECONDS, keys, size)
            time.sleep(1)
            began = time.time()
            one.begin()
            during = hdr.percentiles(troubled.end(), began, time.time(), 99)
            seen = one.end()
            more = (troubled.peak - quiet.peak) / 1024
            print(f"| {name} | {trouble.title} | {before[0]:.2f} | {during[0]:.2f} "
                  f"| {during[0] / before[0]:.2f} | {before[1]:.1f} | {during[1]:.1f} | {more:,.0f} "
                  f"| {', '.join(seen)} | {why(primary)} |", flush=True)
            primary.stop()


def why(server):
    """The last log line about a disconnected replica."""
    log = pathlib.Path(server.folder, "log").read_text(errors="replace").splitlines()
    words = ("output buffer limits", "Disconnecting timedout replica", "overcoming", "SYNC failed")
    said = [line.split("# ", 1)[-1].strip() for line in log if any(word in line for word in words)]
    return said[-1][:120] if said else "nothing"


def bench_full_sync(_):
    """A full sync while clients write."""
    size = 64
    print(f"\n## A full sync of {KEYS:,} keys of {size} bytes during {RATE:,} SETs a second\n")
    print("| server | s until the link is up | s until offsets are equal | p99.9 ms without | meanwhile "
          "| ratio | slowest ms without | meanwhile | MB more | keys |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name, line in primaries("--client-output-buffer-limit", "replica 0 0 0"):
        primary, replica = Server(name, line), Server(name, line)
        fill(primary, KEYS, size)
        time.sleep(3)
        resting = resident(primary)
        load = Load(primary, max(SECONDS, 20), KEYS, size)
        time.sleep(8)
        began = time.time()
        follow(replica, primary)
        up = time.time()
        while abs(int(primary.info("master_repl_offset")) - int(replica.info("slave_repl_offset"))) > 100_000:
            time.sleep(0.02)
        close = time.time()
        log = load.end()
        while primary.info("master_repl_offset") != replica.info("slave_repl_offset"):
            time.sleep(0.02)
        counts = [talk(server, "DBSIZE") for server in (primary, replica)]
        assert counts[0] == counts[1], counts
        before = hdr.percentiles(log, log[1][0], began - 1, 99.9)
        during = hdr.percentiles(log, began, up, 99.9)
        print(f"| {name} | {up - began:.1f} | {close - began:.1f} | {before[0]:.2f} | {during[0]:.2f} "
              f"| {during[0] / before[0]:.2f} | {before[1]:.1f} | {during[1]:.1f} "
              f"| {(load.peak - resting) / 1024:,.0f} | {counts[1]:,} |", flush=True)
        for server in (replica, primary):
            server.stop()
