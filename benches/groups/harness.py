"""Starts and measures servers, with rounds of valkey-benchmark."""
import os
import pathlib
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# The CPU clock of a process, as `clock_getcpuclockid` computes it.
SCHED_CLOCK = 2
TICK = os.sysconf("SC_CLK_TCK")


def peer(name):
    folder = os.environ.get("PEERS_BIN")
    if folder and os.access(f"{folder}/{name}", os.X_OK):
        return f"{folder}/{name}"
    return shutil.which(name)


class Server:
    """A server on a free loopback port, pinned to `cpus`, in a folder of its own."""

    def __init__(self, name, command, cpus=None):
        self.name = name
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        self.folder = tempfile.mkdtemp(prefix=f"bench-{name}-")
        pin = ["taskset", "-c", cpus] if cpus else []
        self.process = subprocess.Popen(
            pin + [a.format(port=self.port) for a in command], cwd=self.folder,
            stdout=open(f"{self.folder}/log", "w"), stderr=subprocess.STDOUT)
        self.pid = self.process.pid
        self.wait()

    def wait(self):
        for _ in range(200):
            if self.process.poll() is not None:
                sys.exit(f"{self.name} ended: {open(self.folder + '/log').read()}")
            try:
                with self.connect() as s:
                    s.sendall(command("PING"))
                    if s.recv(64).startswith(b"+PONG"):
                        return
            except OSError:
                pass
            time.sleep(0.05)
        sys.exit(f"{self.name} does not answer")

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), 30)

    def cpu(self):
        """User and system seconds of all threads. The sum is exact to the nanosecond, by the process's own
        clock; its division into user and system time is exact to ticks of 10 ms only."""
        fields = open(f"/proc/{self.pid}/stat").read().rsplit(")", 1)[1].split()
        user = int(fields[11]) / TICK
        return user, time.clock_gettime((~self.pid << 3) | SCHED_CLOCK) - user

    def status(self, field):
        return int(re.search(rf"{field}:\s+(\d+)", open(f"/proc/{self.pid}/status").read())[1])

    def info(self, field):
        with self.connect() as s:
            s.sendall(b"*1\r\n$4\r\nINFO\r\n")
            file = s.makefile("rb")
            text = file.read(int(file.readline()[1:]))
        return re.search(rb"^" + field.encode() + rb":(.*?)\r?$", text, re.M)[1].decode()

    def stop(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def command(*args):
    args = [a if isinstance(a, bytes) else str(a).encode() for a in args]
    return b"*%d\r\n" % len(args) + b"".join(b"$%d\r\n%s\r\n" % (len(a), a) for a in args)


def reply(file):
    """One reply of RESP2 as Python values; errors as bytes with their `-`."""
    line = file.readline()
    kind, rest = line[:1], line[1:-2]
    if kind == b"$" and rest != b"-1":
        return file.read(int(rest) + 2)[:-2]
    if kind == b"*":
        return [reply(file) for _ in range(int(rest))]
    return int(rest) if kind == b":" else line[:-2]


def weft(io_threads):
    """The command that starts Weft."""
    program = os.environ.get("WEFT_SERVER", str(ROOT / "target/release/weft-server"))
    return [program, "--port", "{port}", "--bind", "127.0.0.1", "--io-threads", str(io_threads)]


def weft_benchmark():
    """The program of the generator."""
    return os.environ.get("WEFT_BENCHMARK", str(ROOT / "target/release/weft-benchmark"))


# A snapshot during a workload would add to its CPU time.
NO_SAVES = ["--save", ""]


def servers(io_threads=1, cpus=None, floor=False):
    found = []
    valkey = peer("valkey-server")
    if valkey:
        line = [valkey, "--port", "{port}", "--bind", "127.0.0.1",
                "--io-threads", str(io_threads)] + NO_SAVES
        found.append(("valkey", line))
    found.append(("weft", weft(io_threads) + NO_SAVES))
    if floor:
        found.append(("floor", [str(ROOT / "target/release/examples/floor"), "{port}"]))
    return [Server(name, line, cpus) for name, line in found]


def generate(server, args, cpus=None):
    pin = ["taskset", "-c", cpus] if cpus else []
    tool = peer("valkey-benchmark") or peer("redis-benchmark")
    if not tool:
        sys.exit("no valkey-benchmark in PEERS_BIN or PATH")
    run = subprocess.run(pin + [tool, "-p", str(server.port), "--csv"] + args.split(),
                         capture_output=True, text=True, check=True)
    return [float(m) for m in re.findall(r'^"[^"]+","([\d.]+)"', run.stdout, re.M)]


def compare(group, workloads, server_cpus, bench_cpus, rounds):
    """Interleaved rounds of each workload over the servers; prints medians and ratios.

    A workload is a title and the arguments of the generator. It may have arguments of a run before each
    round, which is not measured.
    """
    print("| workload | server | requests/s | ratio | CPU us/request | user | system | ratio |")
    print("|---|---|---|---|---|---|---|---|")
    for title, args, *before in workloads:
        count = int(re.search(r"-n (\d+)", args)[1])
        rows = {s.name: [] for s in group}
        for turn in range(rounds + 1):
            for server in group:
                for prepare in before:
                    generate(server, prepare, bench_cpus)
                user, system = server.cpu()
                rps = statistics.mean(generate(server, args, bench_cpus))
                user, system = (b - a for a, b in zip((user, system), server.cpu()))
                if turn:
                    rows[server.name].append((rps, user / count * 1e6, system / count * 1e6))
        base = None
        for name, row in rows.items():
            rps, user, system = (statistics.median(r[i] for r in row) for i in range(3))
            base = base or (rps, user + system)
            print(f"| {title} | {name} | {rps:,.0f} | {rps / base[0]:.2f} | {user + system:.3f} "
                  f"| {user:.3f} | {system:.3f} | {(user + system) / base[1]:.2f} |", flush=True)
