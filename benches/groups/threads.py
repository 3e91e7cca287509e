"""Cost and gain of more io-threads: the loads of the published adjustment, and each step up."""
import os
import random
import statistics

from .harness import NO_SAVES, Server, compare, generate, servers, weft

STEPS = range(1, 9)


def bench_adjust(options):
    """The loads with which Redis's run-time adjustment of threads was published."""
    group = []
    for threads in (1, 4):
        for server in servers(io_threads=threads):
            server.name = f"{server.name}, {threads}"
            group.append(server)
    # The ratios are to the same server with one thread.
    for kind in ("weft", "valkey"):
        of_kind = [server for server in group if server.name.startswith(kind)]
        if not of_kind:
            continue
        print(f"\n## {kind}: few connections, 128-byte values, io-threads 1 and 4\n")
        for server in of_kind:
            generate(server, "-t set -n 200000 -P 16 -r 100000 -d 128")
        compare(of_kind, [
            (f"{test.upper()}, {clients} connections",
             f"-t {test} -c {clients} -d 128 -r 100000 -n 100000")
            for clients in (10, 15) for test in ("set", "get")
        ], None, None, options.rounds)
    for server in group:
        server.stop()


def bench_steps(options):
    """Throughput and CPU per request with 1 to 8 io-threads, and the worst step up."""
    # If generator and server share a CPU, a run of one second isn't exact to 3 %.
    *cpus, last = [str(cpu) for cpu in sorted(os.sched_getaffinity(0))]
    cpus = ",".join(cpus) or last
    print(f"\n## io-threads 1 to 8 on CPUs {cpus}, 50 connections from CPU {last}: Weft with "
          "1 to 8 io-threads; requests/s, CPU us/request\n")
    group = [Server(str(threads), weft(threads) + NO_SAVES, cpus) for threads in STEPS]
    for server in group:
        generate(server, "-t set -n 200000 -P 16 -r 100000")
    print("| load | " + " | ".join(f"{n}" for n in STEPS) + " | worst step up |")
    print("|---|" + "---|" * (len(STEPS) + 1))
    relative = {server.name: [] for server in group}
    for test in ("get", "set"):
        for depth, count in ((1, 100_000), (4, 250_000), (16, 600_000), (64, 1_000_000)):
            rows = {server.name: [] for server in group}
            for turn in range(options.rounds + 1):
                # In another order each time, so that one server's after-effects don't always hit the same other one.
                for server in random.sample(group, len(group)):
                    before = sum(server.cpu())
                    rate = statistics.mean(
                        generate(server, f"-t {test} -c 50 -P {depth} -r 100000 -n {count}", last))
                    cpu = (sum(server.cpu()) - before) / count * 1e6
                    if turn:
                        rows[server.name].append((rate, cpu))
            rates = [statistics.median(r for r, _ in row) for row in rows.values()]
            cpus = [statistics.median(c for _, c in row) for row in rows.values()]
            row = " | ".join(f"{rate:,.0f}, {cpu:.2f}" for rate, cpu in zip(rates, cpus))
            worst = min(after / before for before, after in zip(rates, rates[1:])) - 1
            print(f"| {test.upper()}, depth {depth} | {row} | {worst:+.1%} |", flush=True)
            middle = statistics.geometric_mean(rates)
            for server, rate in zip(group, rates):
                relative[server.name].append(rate / middle)
    # A single load is exact to some percent; the mean of all shows smaller steps.
    means = [statistics.geometric_mean(each) for each in relative.values()]
    worst = min(after / before for before, after in zip(means, means[1:])) - 1
    print("| all loads, relative | " + " | ".join(f"{mean:.3f}" for mean in means)
          + f" | {worst:+.1%} |", flush=True)
    for server in group:
        server.stop()
