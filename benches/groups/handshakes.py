"""Full TLS handshakes: CPU of the server for each, and the latency of other clients meanwhile."""
import csv
import multiprocessing
import os
import pathlib
import shutil
import socket
import ssl
import statistics
import subprocess
import tempfile
import time

from .access import CURVE, certificate, encrypted
from .harness import command, peer

RATE = 1000
CLIENTS = 4
SECONDS = 8
# Below the capacity of both servers with RSA handshakes at the same time.
LOAD_RATE = 5000
CPUS = ("0", "1")
KINDS = (("ECDSA P-256", CURVE), ("RSA 2048", ["-newkey", "rsa:2048"]))


def context(cert):
    """Of a client that trusts this certificate and speaks TLS 1.3 only."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.minimum_version = ssl.TLSVersion.TLSv1_3
    made.check_hostname = False
    made.load_verify_locations(cert)
    return made


def shake_hands(port, cert, rate, result):
    """Connections at even intervals, each with a full handshake, PING, and a close."""
    os.sched_setaffinity(0, {int(CPUS[1])})
    tls, ping = context(cert), command("PING")
    begin, count = time.monotonic(), 0
    while (ahead := begin + count / rate - time.monotonic()) > -SECONDS and count < rate * SECONDS:
        if ahead > 0:
            time.sleep(ahead)
        with socket.create_connection(("127.0.0.1", port), 10) as plain:
            with tls.wrap_socket(plain) as s:
                assert not s.session_reused
                s.sendall(ping)
                assert s.recv(64) == b"+PONG\r\n"
        count += 1
    result.put((count, time.monotonic() - begin))


def start(server, cert):
    """Starts the clients. Returns a function that waits for them and returns handshakes and their rate."""
    result = multiprocessing.Queue()
    clients = [multiprocessing.Process(target=shake_hands, args=(server.port, cert, RATE / CLIENTS, result))
               for _ in range(CLIENTS)]
    for client in clients:
        client.start()

    def wait():
        done = [result.get() for _ in clients]
        for client in clients:
            client.join()
        return sum(count for count, _ in done), sum(count / seconds for count, seconds in done)
    return wait


def load(server, cert):
    """GETs at a fixed rate over TLS. Returns p50 and p99 in ms."""
    line = ["taskset", "-c", CPUS[1], peer("valkey-benchmark"), "-p", str(server.port), "--tls",
            "--cacert", cert, "-t", "get", "-c", "50", "-d", "64", "--rps", str(LOAD_RATE),
            "-n", str(LOAD_RATE * (SECONDS - 2)), "--csv"]
    text = subprocess.run(line, capture_output=True, text=True, check=True).stdout
    row = list(csv.DictReader(text.splitlines()))[-1]
    return float(row["p50_latency_ms"]), float(row["p99_latency_ms"])


def measure(server, cert):
    """CPU us for a handshake, handshakes a second during the load, and its latencies without and with them."""
    before = sum(server.cpu())
    count, _ = start(server, cert)()
    cpu = (sum(server.cpu()) - before) / count * 1e6
    alone = load(server, cert)
    wait = start(server, cert)
    time.sleep(1)
    together = load(server, cert)
    return cpu, wait()[1], *alone, *together


def bench_handshakes(options):
    """Full handshakes during a load: Weft and Valkey, two kinds of certificates."""
    if not shutil.which("openssl") or not peer("valkey-server"):
        return print("skipped: needs openssl and valkey-server")
    print(f"\n## {RATE:,} full handshakes a second, TLS 1.3, io-threads 1\n\n"
          f"The load is GET from 50 connections over TLS, {LOAD_RATE:,} a second. The server has CPU {CPUS[0]}; load and "
          f"handshakes share CPU {CPUS[1]}. A handshake includes accept, PING and close.\n")
    print("| certificate | server | CPU us/handshake | ratio | handshakes/s during the load | load p50 ms "
          "| p99 ms | p50 with handshakes | p99 with handshakes | ratio |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for kind, key in KINDS:
        folder = pathlib.Path(tempfile.mkdtemp(prefix="bench-tls-"))
        paths = certificate(folder, key)
        group = encrypted(1, CPUS[0], paths)
        rows = {server.name: [] for server in group}
        try:
            for _ in range(options.rounds):
                for server in group:
                    rows[server.name].append(measure(server, paths[0]))
        finally:
            for server in group:
                server.stop()
            shutil.rmtree(folder, ignore_errors=True)
        base = None
        for name, row in rows.items():
            cpu, rate, p50, p99, p50_with, p99_with = (statistics.median(column) for column in zip(*row))
            base = base or cpu
            print(f"| {kind} | {name} | {cpu:.1f} | {cpu / base:.2f} | {rate:,.0f} | {p50:.3f} | {p99:.3f} "
                  f"| {p50_with:.3f} | {p99_with:.3f} | {p99_with / p99:.2f} |", flush=True)
