#!/usr/bin/env python3
"""Snapshots under writes that change everything: a full sync, BGSAVE by save points, the first base of the log.

    benches/snapshot_limit.py target/quick/weft-server
    benches/snapshot_limit.py --size 100 --keys 200000 --writes hset,small --limit 16mb SERVER

Prints a line for each kind of write and of snapshot: whether the snapshot succeeded, seconds until then, the
most bytes that it held in addition to the data, the most resident memory above that at rest, and the longest
wait in milliseconds of a client of other keys (SET of a key of its own each millisecond) and of the writers.
Lower is better. The server and its replica run in temporary folders and listen on the loopback interface only.
"""

import argparse
import multiprocessing as mp
import os
import random
import shutil
import socket
import subprocess
import tempfile
import time


class Client:
    def __init__(self, port, timeout=120):
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=timeout)
        self.file = self.sock.makefile("rb")

    @staticmethod
    def encode(words):
        out = [b"*%d\r\n" % len(words)]
        for word in words:
            word = word if isinstance(word, bytes) else str(word).encode()
            out.append(b"$%d\r\n%s\r\n" % (len(word), word))
        return b"".join(out)

    def reply(self):
        line = self.file.readline()
        if not line:
            raise ConnectionError("closed")
        kind, rest = line[:1], line[1:-2]
        if kind == b"$":
            n = int(rest)
            return None if n < 0 else self.file.read(n + 2)[:-2]
        if kind == b"*":
            return [self.reply() for _ in range(int(rest))]
        return (kind + rest) if kind == b"-" else rest

    def cmd(self, *words):
        self.sock.sendall(self.encode(words))
        return self.reply()

    def pipeline(self, commands):
        self.sock.sendall(b"".join(map(self.encode, commands)))
        return [self.reply() for _ in commands]

    def info(self, section):
        lines = self.cmd("INFO", section).decode().splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line)


def start(program, port, args):
    folder = tempfile.mkdtemp(prefix="snapshot-limit-")
    words = [program, "--port", str(port), "--bind", "127.0.0.1", "--dir", folder, "--save", "",
             "--enable-debug-command", "yes", *args]
    log = open(os.path.join(folder, "out"), "wb")
    process = subprocess.Popen(words, stdout=log, stderr=log)
    for _ in range(600):
        try:
            Client(port).cmd("PING")
            return process, folder
        except OSError:
            time.sleep(0.05)
    raise SystemExit(f"{program} does not start: see {folder}")


def stop(process, folder):
    process.kill()
    process.wait()
    shutil.rmtree(folder, ignore_errors=True)


def fill(port, kind, size, keys):
    client = Client(port)
    client.cmd("DEBUG", "POPULATE", keys, "key", 64)
    big = size << 20
    for name in ("big0", "big1"):
        if kind in ("setrange", "append", "setbit"):
            piece = b"x" * (8 << 20)
            for at in range(0, big, len(piece)):
                client.cmd("SETRANGE", name, at, piece[: big - at])
        elif kind != "small":
            count = big // 100
            for at in range(0, count, 20000):
                numbers = range(at, min(at + 20000, count))
                value = "v" * 60
                if kind == "hset":
                    words = [w for n in numbers for w in (f"f{n}", value)]
                    client.cmd("HSET", name, *words)
                elif kind == "zadd":
                    words = [w for n in numbers for w in (n, f"m{n}")]
                    client.cmd("ZADD", name, *words)
                elif kind == "lset":
                    client.cmd("RPUSH", name, *(value for _ in numbers))


def write_one(kind, size, n):
    name, big = f"big{n % 2}", size << 20
    at = random.randrange(big)
    element = random.randrange(big // 100)
    return {
        "setrange": ("SETRANGE", name, at, "y"),
        "append": ("APPEND", name, "y"),
        "setbit": ("SETBIT", name, at * 8, 1),
        "hset": ("HSET", name, f"f{element}", "w" * 60),
        "zadd": ("ZADD", name, random.random() * 1e6, f"m{element}"),
        "lset": ("LSET", name, element, "w" * 60),
    }[kind]


def writer(port, kind, size, keys, every, until, longest):
    client, n = Client(port), 0
    while not until.is_set():
        began = time.monotonic()
        try:
            if kind == "small":
                client.pipeline([("SET", f"key:{(n + i) % keys}", "z" * 64) for i in range(500)])
                n += 500
            else:
                client.cmd(*write_one(kind, size, n))
                n += 1
        except OSError:
            return
        took = time.monotonic() - began
        longest.value = max(longest.value, took * 1000)
        if kind != "small" and took < every:
            time.sleep(every - took)


def probe(port, until, longest):
    client = Client(port)
    client.cmd("SET", "probe", 0)
    while not until.is_set():
        began = time.monotonic()
        try:
            client.cmd("GET", "key:1")
            client.cmd("SET", "probe", began)
        except OSError:
            return
        longest.value = max(longest.value, (time.monotonic() - began) * 1000)
        time.sleep(0.001)


def resident(pid):
    with open(f"/proc/{pid}/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def snapshot(client, how, args, port, patience, watch):
    """Takes a snapshot; returns its result and its seconds."""
    began, replica = time.monotonic(), None
    if how == "bgsave":
        saved = client.info("persistence")["rdb_last_save_time"]
        client.cmd("CONFIG", "SET", "save", "1 1")
    elif how == "aof":
        client.cmd("CONFIG", "SET", "appendonly", "yes")
    elif how == "sync":
        replica = start(args.server, port + 1, ["--replicaof", "127.0.0.1", str(port)])
        other = Client(port + 1)
    try:
        while time.monotonic() - began < patience:
            watch()
            info = client.info("persistence")
            if how == "bgsave":
                if info["rdb_last_bgsave_status"] != "ok":
                    return "failed", time.monotonic() - began
                done = info["rdb_last_save_time"] != saved and info["rdb_saves"] != "0"
            elif how == "aof":
                if info["aof_last_bgrewrite_status"] != "ok":
                    return "failed", time.monotonic() - began
                done = info["aof_enabled"] == "1" and info["aof_rewrite_in_progress"] == "0" and \
                    info["aof_rewrite_scheduled"] == "0" and int(info.get("aof_base_size", 0)) > 0
            else:
                done = other.info("replication")["master_link_status"] == "up"
            if done:
                return "ok", time.monotonic() - began
            time.sleep(0.02)
        return "never", time.monotonic() - began
    finally:
        if replica:
            stop(*replica)


def run(kind, how, args):
    port = args.port
    limits = ["--snapshot-memory-limit", args.limit] if args.limit else []
    process, folder = start(args.server, port, limits)
    fill(port, kind, args.size, args.keys)
    client = Client(port)
    until, waits = mp.Event(), [mp.Value("d", 0.0) for _ in range(3)]
    calm = mp.Event()
    quiet = mp.Process(target=probe, args=(port, calm, waits[2]))
    quiet.start()
    time.sleep(args.calm)
    calm.set()
    quiet.join()
    workers = [mp.Process(target=probe, args=(port, until, waits[0]))]
    workers += [mp.Process(target=writer, args=(port, kind, args.size, args.keys, 0.002, until, waits[1]))]
    at_rest, peak, kept = resident(process.pid), [0], [0]

    def watch():
        peak[0] = max(peak[0], resident(process.pid) - at_rest)
        kept[0] = max(kept[0], int(client.info("persistence").get("current_cow_peak", 0)))

    for worker in workers:
        worker.start()
    ended, seconds = snapshot(client, how, args, port, args.patience, watch)
    info = client.info("persistence")
    kept[0] = max(kept[0], int(info["aof_last_cow_size" if how == "aof" else "rdb_last_cow_size"]))
    until.set()
    for worker in workers:
        worker.join(10)
        worker.kill()
    stop(process, folder)
    mb = 1 << 20
    print(f"{kind:9} {how:7} {ended:6} {seconds:8.1f} {kept[0] / mb:10.1f} {peak[0] / mb:10.1f} "
          f"{waits[2].value:9.1f} {waits[0].value:9.1f} {waits[1].value:9.1f} "
          f"{info.get('snapshot_delayed_writes', '-'):>8} {info.get('snapshot_expired_write_delays', '-'):>8}",
          flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("server")
    parser.add_argument("--port", type=int, default=21180)
    parser.add_argument("--size", type=int, default=300, help="MB of each of the two large values")
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--writes", default="setrange,append,setbit,hset,zadd,lset,small")
    parser.add_argument("--snapshots", default="sync,bgsave,aof")
    parser.add_argument("--limit", default="", help="snapshot-memory-limit")
    parser.add_argument("--patience", type=float, default=90, help="seconds before a snapshot counts as failed")
    parser.add_argument("--calm", type=float, default=1, help="seconds of measuring without a snapshot")
    args = parser.parse_args()
    print("writes    kind    result  seconds    held MB     RSS MB   calm ms  other ms writer ms  delayed  expired")
    for kind in args.writes.split(","):
        for how in args.snapshots.split(","):
            run(kind, how, args)


if __name__ == "__main__":
    main()
