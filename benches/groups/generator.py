"""weft-benchmark and valkey-benchmark, one thread each, with a server that does nearly no work."""
import os
import re
import resource
import statistics
import subprocess

from .harness import ROOT, Server, peer

LOADS = [("PING, depth 1", "ping_mbulk", 1, 200_000), ("SET, depth 1", "set", 1, 200_000),
         ("PING, depth 16", "ping_mbulk", 16, 1_500_000), ("SET, depth 16", "set", 16, 1_500_000)]


def run(tool, server, test, depth, count, cpu):
    """Requests per second, and CPU microseconds of the generator per request."""
    line = [tool, "-p", str(server.port), "-c", "50", "-P", str(depth), "-t", test,
            "-n", str(count), "-r", "100000", "--csv"]
    if "weft" in os.path.basename(tool):
        # valkey-benchmark has one thread by default.
        line += ["--threads", "1"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    text = subprocess.run(["taskset", "-c", cpu] + line, capture_output=True, text=True,
                          check=True).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return float(re.search(r'^"[^"]+","([\d.]+)"', text, re.M)[1]), used / count * 1e6


def bench_generator(options):
    valkey = peer("valkey-benchmark")
    if not valkey:
        return print("no valkey-benchmark in PEERS_BIN or PATH")
    weft = os.environ.get("WEFT_BENCHMARK", str(ROOT / "target/release/weft-benchmark"))
    if "WEFT_BENCHMARK" not in os.environ:
        subprocess.run(["cargo", "build", "--release", "-p", "weft-benchmark"], cwd=ROOT, check=True)
    floor = os.environ.get("FLOOR_SERVER", str(ROOT / "target/release/examples/floor"))
    print("\n## Generators, one thread, 50 connections, server on another CPU: medians\n")
    print("| load | valkey-benchmark requests/s, CPU us | weft-benchmark | ratio | CPU ratio |")
    print("|---|---|---|---|---|")
    server = Server("floor", [floor, "{port}"], "0")
    for title, test, depth, count in LOADS:
        rows = {valkey: [], weft: []}
        for turn in range(options.rounds + 1):
            for tool, row in rows.items():
                measured = run(tool, server, test, depth, count, "1")
                if turn:
                    row.append(measured)
        (rate, cpu), (own_rate, own_cpu) = (
            [statistics.median(one[i] for one in row) for i in (0, 1)] for row in rows.values())
        print(f"| {title} | {rate:,.0f}, {cpu:.2f} | {own_rate:,.0f}, {own_cpu:.2f} "
              f"| {own_rate / rate:.2f} | {own_cpu / cpu:.2f} |", flush=True)
    server.stop()
