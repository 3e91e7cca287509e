"""Saving, logging, loading: their cost for clients, compared with Valkey."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import threading
import time

from .collections import ask, stop
from .harness import Server, command, compare, peer, reply, weft, weft_benchmark

KEYS = int(os.environ.get("DURABLE_KEYS", "5000000"))
SECONDS = int(os.environ.get("DURABLE_SECONDS", "30"))
RATE = 20_000


def valkey(io_threads=1):
    return [peer("valkey-server"), "--port", "{port}", "--bind", "127.0.0.1",
            "--io-threads", str(io_threads)]


def both(io_threads, *options):
    """Valkey, if it is installed, and Weft, with the same options."""
    found = [("valkey", valkey(io_threads))] if peer("valkey-server") else []
    found.append(("weft", weft(io_threads)))
    return [Server(name, line + list(options)) for name, line in found]


def talk(server, *args, timeout=600):
    """One command, without a timeout."""
    with server.connect() as s:
        s.settimeout(timeout)
        s.sendall(command(*args))
        return reply(s.makefile("rb"))


def fill(server, keys=KEYS, size=64):
    subprocess.run([weft_benchmark(), "-p", str(server.port), "-q", "-t",
                    "set", "-n", str(keys), "-r", str(keys), "--sequential", "-d", str(size),
                    "-P", "64", "-c", "8"], check=True, capture_output=True)


def load(server, mix, seconds=SECONDS, keys=KEYS, rate=RATE):
    """An open loop of `rate` requests a second; percentiles in ms by name of test."""
    run = subprocess.run(
        [weft_benchmark(), "-p", str(server.port), "--mix", mix, "-r",
         str(keys), "-d", "64", "-c", "50", "--threads", "1", "--rps", str(rate), "--duration",
         str(seconds), "--json"], capture_output=True, text=True, check=True)
    return json.loads(run.stdout)


def fill_large(server, elements):
    """A hash and a list of `elements` each, under the names and with the value size of the
    generator's tests. With other sizes the run would measure how they grow."""
    size, value = 1000, "x" * 64

    def requests():
        for first in range(0, elements, size):
            numbers = range(first, min(first + size, elements))
            yield command("HSET", "myhash", *(word for n in numbers
                                              for word in (f"element:{n:012d}", value)))
            yield command("RPUSH", "mylist", *(value for _ in numbers))

    with server.connect() as s:
        s.settimeout(600)
        file = s.makefile("rb")
        for request in requests():
            s.sendall(request)
            reply(file)


def percentiles(result):
    """(p99.9, slowest) in ms of the only test of a run."""
    latency = result["tests"][0]["latency_ms"]
    return latency["p99.9"], latency["max"]


class Again(threading.Thread):
    """Sends `command` again whenever `field` of INFO says that the last one has ended. Without a command it
    only reads INFO, as often: the two runs that are compared differ in nothing else."""

    def __init__(self, server, command, field):
        super().__init__(daemon=True)
        self.server, self.command, self.field = server, command, field
        self.over, self.times, self.peak = False, [], 0

    def run(self):
        while not self.over:
            began = time.monotonic()
            if self.command:
                ask(self.server, *self.command)
            time.sleep(0.02)
            while self.look() != "0":
                time.sleep(0.05)
            self.times.append(time.monotonic() - began)

    def look(self):
        state = self.server.info(self.field)
        self.peak = max(self.peak, resident(self.server))
        return "1" if not self.command and not self.over else state

    def end(self):
        self.over = True
        self.join()
        return self


def resident(server):
    """KB of the server and of the processes it has forked; shared memory counts once.

    For a server that has forked this takes the kernel a millisecond for each 120 MB, in which clients wait
    for the CPU. Otherwise it takes no time.
    """
    total = 0
    children = pathlib.Path(f"/proc/{server.pid}/task/{server.pid}/children")
    forked = [int(pid) for pid in children.read_text().split()]
    if not forked:
        return server.status("VmRSS")
    for pid in [server.pid] + forked:
        try:
            text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
        except (OSError, ProcessLookupError):
            continue
        total += sum(int(line.split()[1]) for line in text.splitlines()
                     if line.startswith("Pss:"))
    return total


def load_during(server, command, field, mix, **how):
    """Percentiles of a load during repeated runs of `command`, and the thread that repeats it."""
    again = Again(server, command, field)
    again.start()
    tail = percentiles(load(server, mix, **how))
    return tail, again.end()


def bench_save(_):
    """Repeated saves and rewrites during an open loop of writes and reads."""
    print(f"\n## {KEYS:,} keys of 64 bytes, {RATE:,} requests a second (half SET, half GET) while "
          f"the server saves\n")
    print("| server | command | p99.9 ms | slowest ms | saves | s each | resident at most / before |")
    print("|---|---|---|---|---|---|---|")
    for options, what, field in (
            (("--save", ""), ("BGSAVE",), "rdb_bgsave_in_progress"),
            (("--save", "", "--appendonly", "yes", "--auto-aof-rewrite-percentage", "0"),
             ("BGREWRITEAOF",), "aof_rewrite_in_progress")):
        for server in both(2, *options):
            fill(server)
            time.sleep(2)
            before = resident(server)
            tail, _ = load_during(server, None, field, "SET:1,GET:1")
            print(f"| {server.name} | nothing | {tail[0]:.2f} | {tail[1]:.2f} | | | |", flush=True)
            tail, again = load_during(server, what, field, "SET:1,GET:1")
            each = sum(again.times) / len(again.times)
            print(f"| {server.name} | {what[0]} | {tail[0]:.2f} | {tail[1]:.2f} "
                  f"| {len(again.times)} | {each:.2f} | {again.peak / before:.2f} |", flush=True)
            server.stop()


def bench_save_large(_):
    """One hash and one list of millions, saved while they change."""
    elements = KEYS * 2
    print(f"\n## A hash and a list of {elements:,} elements each, {RATE // 2:,} writes a second to "
          f"them (HSET, RPUSH, LPOP) while the server saves\n")
    print("| server | command | p99.9 ms | slowest ms | saves | s each | resident at most / before |")
    print("|---|---|---|---|---|---|---|")
    mix = "HSET:2,RPUSH:1,LPOP:1"
    for server in both(2, "--save", ""):
        fill_large(server, elements)
        time.sleep(2)
        before = resident(server)
        how = {"keys": elements, "rate": RATE // 2}
        tail, _ = load_during(server, None, "rdb_bgsave_in_progress", mix, **how)
        print(f"| {server.name} | nothing | {tail[0]:.2f} | {tail[1]:.2f} | | | |", flush=True)
        tail, again = load_during(server, ("BGSAVE",), "rdb_bgsave_in_progress", mix, **how)
        each = sum(again.times) / len(again.times)
        print(f"| {server.name} | BGSAVE | {tail[0]:.2f} | {tail[1]:.2f} | {len(again.times)} "
              f"| {each:.2f} | {again.peak / before:.2f} |", flush=True)
        server.stop()


def bench_append(options):
    """The cost of the append-only file, with `always` and with `everysec`."""
    print("\n## appendfsync always, 50 connections: SETs a second\n")
    print("| server | io-threads | SET/s | CPU us/request |\n|---|---|---|---|")
    for io_threads in (1, 4):
        for server in both(io_threads, "--appendonly", "yes", "--appendfsync", "always",
                           "--save", ""):
            before = sum(server.cpu())
            result = subprocess.run(
                [weft_benchmark(), "-p", str(server.port), "-t", "set",
                 "-c", "50", "-r", "100000", "--duration", "10", "--csv"],
                capture_output=True, text=True, check=True)
            rate = float(result.stdout.splitlines()[-1].split(",")[1].strip('"'))
            cpu = (sum(server.cpu()) - before) / (rate * 10) * 1e6
            print(f"| {server.name} | {io_threads} | {rate:,.0f} | {cpu:.2f} |", flush=True)
            server.stop()
    print("\n## appendfsync everysec: CPU per request, depth 16, one I/O thread\n")
    group = both(1, "--appendonly", "yes", "--appendfsync", "everysec", "--save", "")
    try:
        compare(group, [("SET", "-t set -c 50 -P 16 -r 1000000 -n 2000000")], None, "1",
                options.rounds)
    finally:
        stop(group)


def bench_load(_):
    """The time that a server takes to start with its files."""
    print(f"\n## Loading {KEYS:,} keys of 64 bytes\n")
    print("| server | file | MB | s until PONG | CPU s |\n|---|---|---|---|---|")
    for name, line in ((s, v) for s, v in (("valkey", valkey(2)), ("weft", weft(2)))
                       if v[0] is not None):
        for file, settings in (
                ("RDB", ["--save", ""]),
                ("AOF", ["--save", "", "--appendonly", "yes", "--aof-use-rdb-preamble", "no",
                         "--auto-aof-rewrite-percentage", "0"])):
            server = Server(name, line + settings)
            fill(server)
            if file == "RDB":
                talk(server, "SAVE")
            else:
                time.sleep(2)
            kept = tempfile.mkdtemp(prefix="bench-load-")
            server.process.terminate()
            server.process.wait()
            shutil.copytree(server.folder, kept, dirs_exist_ok=True)
            size = sum(p.stat().st_size for p in pathlib.Path(kept).rglob("*") if p.is_file())
            shutil.rmtree(server.folder, ignore_errors=True)
            began = time.monotonic()
            again = Server(name, line + settings + ["--dir", kept])
            while again.info("loading") != "0":
                time.sleep(0.02)
            took = time.monotonic() - began
            cpu = sum(again.cpu())
            found = talk(again, "DBSIZE")
            assert found == KEYS, f"{name} has loaded {found} keys"
            print(f"| {name} | {file} | {size >> 20} | {took:.2f} | {cpu:.2f} |", flush=True)
            again.stop()
            shutil.rmtree(kept, ignore_errors=True)


STALL = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <unistd.h>
/* fdatasync and fsync sleep while the file $STALL is there: a disk that does not answer. */
#include <stdlib.h>
static void stall(void) {
    const char *file = getenv("STALL");
    while (file && access(file, F_OK) == 0) usleep(10000);
}
int fsync(int fd) { stall(); return ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(fd); }
int fdatasync(int fd) { stall(); return ((int (*)(int))dlsym(RTLD_NEXT, "fdatasync"))(fd); }
"""


def bench_stall(_):
    """A disk that doesn't respond for five seconds, under everysec."""
    print("\n## fsync that takes 5 s, everysec, 20,000 requests a second\n")
    print("| server | disk | p99.9 ms | slowest ms | resident MB | aof_delayed_fsync |")
    print("|---|---|---|---|---|---|")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="bench-stall-"))
    (folder / "stall.c").write_text(STALL)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", folder / "stall.so", folder / "stall.c",
                    "-ldl"], check=True)
    flag = folder / "stalled"
    os.environ.update(LD_PRELOAD=str(folder / "stall.so"), STALL=str(flag))
    try:
        group = both(2, "--appendonly", "yes", "--appendfsync", "everysec", "--save", "")
    finally:
        del os.environ["LD_PRELOAD"], os.environ["STALL"]
    for server in group:
        fill(server, 100_000)
        for disk in ("answers", "stalls"):
            timers = []
            if disk == "stalls":
                timers = [threading.Timer(3, flag.touch), threading.Timer(8, flag.unlink)]
            for timer in timers:
                timer.start()
            tail = percentiles(load(server, "GET:1,SET:1", seconds=12, keys=100_000))
            for timer in timers:
                timer.join()
            print(f"| {server.name} | {disk} | {tail[0]:.2f} | {tail[1]:.2f} "
                  f"| {server.status('VmRSS') >> 10} | {server.info('aof_delayed_fsync')} |",
                  flush=True)
        server.stop()
    shutil.rmtree(folder, ignore_errors=True)
