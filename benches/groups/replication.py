"""A primary with a replica, and without: what a write costs on both sides."""
import os
import statistics
import subprocess
import time

from .harness import ROOT, Server, peer

REQUESTS = 2_000_000


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


def start(name, program):
    return Server(name, [program, "--port", "{port}", "--save", "", "--io-threads", "1",
                         "--repl-diskless-sync-delay", "0",
                         "--client-output-buffer-limit", "replica 0 0 0"])


def run(name, program, replicated):
    """CPU time of primary and replica for a request (us), and seconds until they agree again."""
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
    with replica.connect() as s:
        s.sendall(f"REPLICAOF 127.0.0.1 {primary.port}\r\n".encode())
        s.recv(64)
    while replica.info("master_link_status") != "up":
        time.sleep(0.05)
