#!/usr/bin/env python3
"""Measures the inputs of docs/scaling.md: the server's CPU per request with one thread and with two.

usage: scaling.py [ROUNDS]     8 by default, about 50 s each; needs two CPUs, taskset, and valkey-benchmark in PEERS_BIN or PATH

WEFT_SERVER is the server; by default target/release/weft-server. Each CPU runs one thread of the server and one of the generator,
with 25 connections. So one thread has half of the machine that two have, and both runs compete with as much load on each CPU. Otherwise
two threads are cheaper than one: fewer threads wait for each CPU. CPU is that of the threads weft-io-N, or of weft-aof, in schedstat.
"""
import os
import pathlib
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
SERVER = os.environ.get("WEFT_SERVER", f"{ROOT}/target/release/weft-server")
PATH = os.environ.get("PEERS_BIN", "") + os.pathsep + os.environ["PATH"]
GENERATOR = shutil.which("valkey-benchmark", path=PATH) or sys.exit("no valkey-benchmark in PEERS_BIN or PATH")
# Command, depth of the pipeline, requests of one CPU.
PLAIN = [("GET", 1, 120_000), ("SET", 1, 120_000), ("GET", 16, 1_000_000), ("SET", 16, 1_000_000)]
LOGGED = [("SET", 16, 1_000_000)]


def cpu_us(process, name):
    total = 0
    for task in pathlib.Path(f"/proc/{process.pid}/task").iterdir():
        if (task / "comm").read_text().startswith(name):
            total += int((task / "schedstat").read_text().split()[0])
    return total / 1e3


def start(threads, appendonly, folder):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    pinned = ["taskset", "-c", "0" if threads == 1 else "0-1"]
    words = ["--port", str(port), "--io-threads", str(threads), "--io-threads-always-active", "yes", "--save", "",
             "--appendonly", appendonly, "--dir", folder]
    process = subprocess.Popen([*pinned, SERVER, *words], stdout=subprocess.DEVNULL)
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            break
        except OSError:
            if process.poll() is not None:
                sys.exit(f"{SERVER} has ended")
            time.sleep(0.02)
    generator = [*pinned, GENERATOR, "-p", str(port), "--threads", str(threads), "-c", str(25 * threads), "-r", "1000000", "-d", "64", "-q"]
    return process, generator


def measure(threads, appendonly, results):
    with tempfile.TemporaryDirectory() as folder:
        process, generator = start(threads, appendonly, folder)

        def run(command, depth, requests):
            words = ["-t", command.lower(), "-P", str(depth), "-n", str(requests)]
            subprocess.run([*generator, *words], check=True, stdout=subprocess.DEVNULL)

        try:
            if appendonly == "no":
                run("SET", 16, 2_000_000)
            for command, depth, requests in LOGGED if appendonly == "yes" else PLAIN:
                name = f"{command}, depth {depth}" + (", appendonly" if appendonly == "yes" else "")
                before, merged = cpu_us(process, "weft-io"), cpu_us(process, "weft-aof")
                run(command, depth, requests * threads)
                took = (cpu_us(process, "weft-io") - before) / (requests * threads)
                results.setdefault((name, threads), []).append(took)
                if appendonly == "yes":
                    took = (cpu_us(process, "weft-aof") - merged) / (requests * threads)
                    results.setdefault((f"{name}: weft-aof", threads), []).append(took)
        finally:
            process.terminate()
            process.wait()


def main():
    results = {}
    for _ in range(int(sys.argv[1]) if sys.argv[1:] else 8):
        for threads in (1, 2):
            for appendonly in ("no", "yes"):
                measure(threads, appendonly, results)
    print("| requests | threads | CPU per request in us: median | all rounds |\n|---|---|---|---|")
    for (name, threads), values in sorted(results.items()):
        print(f"| {name} | {threads} | {statistics.median(values):.3f} | {', '.join(f'{value:.3f}' for value in values)} |")


main()
