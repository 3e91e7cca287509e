"""A managed number of threads, compared with fixed numbers: throughput and CPU time."""
import datetime
import os
import re
import statistics
import subprocess
import time

from .harness import NO_SAVES, ROOT, Server, weft

LOADS = [(test, clients, depth, generators)
         for generators in (1, 2) for test, depth in (("get", 16), ("set", 1))
         for clients in (1, 10, 50, 500)]


def bench_managed(options):
    """Fixed 1 and 2 threads, always active, compared with 2 that the server manages."""
    seconds = int(os.environ.get("MANAGED_SECONDS", "20"))
    # The numbers of the rows to measure, from 0.
    rows = os.environ.get("MANAGED_ROWS")
    loads = [LOADS[int(row)] for row in rows.split(",")] if rows else LOADS
    print(f"\n## Threads fixed at one and two, and managed by the server (two configured); "
          f"{seconds} s each\n")
    print("Throughput and CPU per request; *better*: the fixed number that serves more, "
          "*cheaper*: the one\nthat takes less CPU for a request. Fixed threads are always active.\n")
    print("*Part at two*: the part of the time with two active threads, by the log. *By that*: the throughput of\n"
          "the fixed numbers in these parts of the time, which doesn't depend on disturbances of the machine.\n")
    print("| load | one: requests/s, us | two | two, of one | managed | of the better | CPU, of the cheaper "
          "| part at two | by that, of the better |")
    print("|---|---|---|---|---|---|---|---|---|")
    fixed = ["--io-threads-always-active", "yes"]
    lines = [("one", weft(1)), ("two", weft(2) + fixed), ("own", weft(2) + ["--loglevel", "verbose"])]
    group = [Server(name, line + NO_SAVES) for name, line in lines]
    try:
        for server in group:
            load(server, "set", 50, 50, 2, ["-n", "200000"])
        for test, clients, depth, generators in loads:
            figures = {}
            for server in group:
                before, begun = sum(server.cpu()), time.time()
                rate = load(server, test, clients, depth, generators, ["--duration", str(seconds)])
                figures[server.name] = (rate, (sum(server.cpu()) - before) / (rate * seconds) * 1e6)
                at_two = part_at_two(server, begun, time.time())
            one, two, own = (figures[server.name] for server in group)
            cells = [f"{rate:,.0f}, {cpu:.3f}" for rate, cpu in (one, two, own)]
            cells.insert(2, f"{two[0] / one[0]:.2f}")
            print(f"| {test.upper()}, depth {depth}, {clients} clients, generator on {generators} | "
                  + " | ".join(cells) + f" | {own[0] / max(one[0], two[0]):.2f} "
                  f"| {own[1] / min(one[1], two[1]):.2f} | {at_two:.2f} "
                  f"| {((1 - at_two) * one[0] + at_two * two[0]) / max(one[0], two[0]):.2f} |", flush=True)
    finally:
        for server in group:
            server.stop()


def part_at_two(server, begun, ended):
    """The part of that time in which two threads were active."""
    lines = re.findall(r"^\d+:M (.*?) . (\d) of 2 I/O threads are active", open(f"{server.folder}/log").read(), re.M)
    active, since, there = "1", begun, 0.0
    for moment, number in lines:
        at = min(max(datetime.datetime.strptime(moment, "%d %b %Y %H:%M:%S.%f").timestamp(), begun), ended)
        there += at - since if active == "2" else 0
        active, since = number, at
    return (there + (ended - since if active == "2" else 0)) / (ended - begun)


def load(server, test, clients, depth, generators, length):
    """Requests per second."""
    tool = os.environ.get("WEFT_BENCHMARK", str(ROOT / "target/release/weft-benchmark"))
    run = subprocess.run(
        [tool, "-p", str(server.port), "-t", test, "-c", str(clients), "-P", str(depth), "-r", "100000",
         "-d", "64", "--threads", str(generators), "--csv", *length],
        capture_output=True, text=True, check=True)
    return statistics.mean(float(rate) for rate in re.findall(r'^"[^"]+","([\d.]+)"', run.stdout, re.M))
